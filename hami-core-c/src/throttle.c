#include "throttle.h"

#include <string.h>

enum { CLEAN, WALL };

#define STRETCHED 1.3               /* a batch so much longer than its clean time, */
#define THEFT 1000000               /* and longer by so much, was switched out */
#define LEARN 0.1
#define LEARN_WAITING 0.0025
#define SETTLED 8                   /* so many stretched batches in a row, and none clean: the kind itself has changed */
#define SETTLED_SLOWLY 24           /* the same where each may have waited for its turn */
#define YOUNG 64                    /* batches after which a process knows a kind */
#define TURN 2000000
#define CELL 50000
#define CELLS 32                    /* in one word of the strip, below the number of the strip's turn */
#define LATE 8                      /* so many turns behind, about two seconds, nobody comes; further off lies another start of the machine */
#define SILENCE 2500000000          /* without samples for so long, NVML counts as silent */
#define REPAID 0.02                 /* of a sample's time, at most: beside strangers samples and books are out of step */
#define DOUBTFUL 0.2                /* variance of a gain that nothing speaks for yet */
#define WINDOW 1000000000
#define MOST_CLEAN 100000000000.0
#define CLEAN_UNIT 32

/* ---- shared numbers: bounded whenever they are read, for a tenant can write them ------------------------------------------- */

static double real(const _Atomic uint32_t *bits, double low, double high, double fresh)
{
    uint32_t raw = atomic_load_explicit(bits, memory_order_relaxed);
    float value;
    memcpy(&value, &raw, sizeof value);
    if (raw == 0)
        return fresh;
    return value >= low ? (value <= high ? value : high) : low;        /* what is no number is the least */
}

static void put(_Atomic uint32_t *bits, double value)
{
    float narrow = (float)value;
    uint32_t raw;
    memcpy(&raw, &narrow, sizeof raw);
    atomic_store_explicit(bits, raw ? raw : 0x80000000u, memory_order_relaxed);     /* zero, but not fresh */
}

static int64_t whole(const _Atomic int64_t *word, int64_t low, int64_t high)
{
    int64_t value = atomic_load_explicit(word, memory_order_relaxed);
    return value < low ? low : value > high ? high : value;
}

static double gain(const struct hami_device *d, unsigned ruler) { return real(&d->gain[ruler], 0.001, 4, 1); }
static unsigned ruler_of(const struct hami_device *d) { return atomic_load_explicit(&d->ruler, memory_order_relaxed) & 1; }
static bool alone(const struct hami_device *d) { return atomic_load_explicit(&d->alone, memory_order_relaxed) != 0; }
static double least(double a, double b) { return a < b ? a : b; }
static double most(double a, double b) { return a > b ? a : b; }

/* ---- clean times ------------------------------------------------------------------------------------------------------------ */

static _Atomic uint64_t *kind_word(struct hami_device *d, uint32_t kind, bool make)
{
    for (uint32_t i = 0; i < 8; i++) {
        _Atomic uint64_t *word = &d->kinds[(kind + i) % HAMI_KINDS];
        uint64_t value = atomic_load_explicit(word, memory_order_relaxed);
        if (value >> 32 == kind && value & 0xffffffff)
            return word;
        if (!(value & 0xffffffff))
            return make ? word : NULL;
    }
    return make ? &d->kinds[kind % HAMI_KINDS] : NULL;
}

/* Nanoseconds of one launch that nobody interrupts; 0 = not known. */
static double clean_of(struct hami_device *d, uint32_t kind)
{
    _Atomic uint64_t *word = kind_word(d, kind, false);
    return word ? least((double)(atomic_load_explicit(word, memory_order_relaxed) & 0xffffffff) * CLEAN_UNIT, MOST_CLEAN) : 0;
}

static void learn(struct hami_device *d, uint32_t kind, double each)
{
    uint64_t units = (uint64_t)(most(100, least(each, MOST_CLEAN)) / CLEAN_UNIT + 0.5);
    atomic_store_explicit(kind_word(d, kind, true), (uint64_t)kind << 32 | units, memory_order_relaxed);
    atomic_store_explicit(&d->known, 1, memory_order_relaxed);
}

static bool anything_known(const struct hami_device *d) { return atomic_load_explicit(&d->known, memory_order_relaxed) != 0; }

int64_t throttle_price(const struct throttle *t, uint32_t kind)
{
    double clean = clean_of(t->d, kind);
    if (clean > 0)
        return (int64_t)most(1, clean * gain(t->d, CLEAN));
    return anything_known(t->d) ? THROTTLE_GUESS : THROTTLE_BURST;
}

void throttle_expect(struct throttle *t, uint32_t kind, int64_t ns)
{
    if (clean_of(t->d, kind) <= 0)
        learn(t->d, kind, (double)ns);
}

/* ---- credit ----------------------------------------------------------------------------------------------------------------- */

void throttle_join(struct throttle *t, struct hami_device *d, _Atomic int64_t *slot_hold, uint32_t percent)
{
    memset(t, 0, sizeof *t);
    t->d = d;
    t->slot_hold = slot_hold;
    t->limit = percent * 10000;
    t->seed = 2463534242u;
}

static double share(const struct throttle *t)
{
    uint32_t granted = atomic_load_explicit(&t->d->rate, memory_order_relaxed);
    return (granted && granted < t->limit ? granted : t->limit) / 1e6;
}

/* All times of the account begin now. */
static void begin(struct hami_device *d, int64_t now)
{
    for (unsigned i = 0; i < HAMI_BOOKS; i++)
        atomic_store_explicit(&d->books[i].at, 0, memory_order_relaxed);
    for (unsigned i = 0; i < sizeof d->carry / sizeof d->carry[0]; i++)
        atomic_store_explicit(&d->carry[i], 0, memory_order_relaxed);
    for (unsigned r = 0; r < 2; r++)
        atomic_store_explicit(&d->last[r], 0, memory_order_relaxed);
    atomic_store_explicit(&d->ruler, CLEAN, memory_order_relaxed);
    atomic_store_explicit(&d->alone, 0, memory_order_relaxed);
    atomic_store_explicit(&d->seen, (uint64_t)now, memory_order_relaxed);
}

static void refill(struct throttle *t, int64_t now)
{
    uint64_t then = atomic_load_explicit(&t->d->refilled, memory_order_relaxed);
    int64_t gone = then <= INT64_MAX ? now - (int64_t)then : INT64_MIN;
    if (then == 0 || gone < -10000000000) {     /* a fresh account, or one of another start of the machine */
        if (atomic_compare_exchange_strong(&t->d->refilled, &then, (uint64_t)now))
            begin(t->d, now);
        return;
    }                                   /* a little in the future: another process was faster, and what it filled is filled */
    if (gone < 20000 || !atomic_compare_exchange_strong(&t->d->refilled, &then, (uint64_t)now))
        return;
    if (gone > 200000000000)
        gone = 200000000000;
    int64_t got = (int64_t)((double)gone * share(t)), have = whole(&t->d->credit, -100000000000, THROTTLE_BURST);
    if (have + got > THROTTLE_BURST)
        got = THROTTLE_BURST - have;
    if (atomic_load_explicit(&t->d->credit, memory_order_relaxed) != have && (have == THROTTLE_BURST || have == -100000000000))
        atomic_store_explicit(&t->d->credit, have, memory_order_relaxed);
    if (got > 0)
        atomic_fetch_add_explicit(&t->d->credit, got, memory_order_relaxed);
}

/* Beside strangers run a few milliseconds in one go: only uninterrupted batches show a clean time. */
static int64_t reopen(const struct throttle *t)
{
    return alone(t->d) ? 500000 : (int64_t)most(500000, least(4000000, 50000000 * share(t)));
}

bool throttle_admit(struct throttle *t, int64_t now, int64_t since, int64_t price, int64_t *wait)
{
    refill(t, now);
    bool closed = atomic_load_explicit(&t->d->closed, memory_order_relaxed) != 0;
    int64_t lack = (closed ? reopen(t) : 0) - whole(&t->d->credit, -100000000000, THROTTLE_BURST);
    atomic_store_explicit(&t->d->closed, lack >= 0, memory_order_relaxed);
    if (lack < 0 && throttle_take(t, price))
        return true;
    t->seed ^= t->seed << 13;
    t->seed ^= t->seed >> 17;
    t->seed ^= t->seed << 5;
    double until = (double)(lack > 0 ? lack : 0) / share(t), jitter = t->seed % 1024 / 1024.0, waited = (double)(now - since);
    double behind = least(0.5e6, 0.5e6 * 4e7 / (waited + 1e6));        /* who has waited longer comes a little earlier */
    *wait = (int64_t)(least(5e6, until) + (until > 5e6 ? 0 : behind) + 1e5 * (0.5 + jitter));
    return false;
}

/* ---- launches in flight ----------------------------------------------------------------------------------------------------- */

static struct flying *flying_of(struct throttle *t, uint32_t kind)
{
    struct flying *idle = NULL;
    for (unsigned i = 0; i < FLYING_KINDS; i++) {
        struct flying *f = &t->flying[(kind + i) % FLYING_KINDS];
        if (f->kind == kind)
            return f;
        if (!f->count && !idle)
            idle = f;
        if (!f->kind)
            break;
    }
    if (idle)
        *idle = (struct flying){.kind = kind};
    return idle;
}

static void set_hold(struct throttle *t, int64_t hold)
{
    t->hold = hold;
    atomic_store_explicit(t->slot_hold, hold, memory_order_relaxed);
}

void throttle_flies(struct throttle *t, uint32_t kind, int32_t count, int64_t price)
{
    struct flying *f = flying_of(t, kind);
    if (f)
        f->count = count < 0 && f->count < (uint32_t)-count ? 0 : f->count + (uint32_t)count;
    set_hold(t, t->hold + count * price);
    if (count < 0)
        atomic_fetch_add_explicit(&t->d->credit, -count * price, memory_order_relaxed);
}

/* ---- time that passes but once: cells that whoever colours first pays for ---------------------------------------------------- */

static int64_t colour(struct hami_device *d, int64_t start, int64_t end)
{
    int64_t a = (start + CELL / 2) / CELL, b = (end + CELL / 2) / CELL, fresh = 0;
    if (b - a > CELLS * (HAMI_STRIP - 2))
        a = b - CELLS * (HAMI_STRIP - 2);
    while (a < b) {
        int64_t word = a / CELLS, bit = a % CELLS, n = b - a < CELLS - bit ? b - a : CELLS - bit;
        uint64_t mask = ((UINT64_C(1) << n) - 1) << bit;
        uint32_t turn = (uint32_t)(word / HAMI_STRIP);
        _Atomic uint64_t *at = &d->strip[word % HAMI_STRIP];
        uint64_t old = atomic_load_explicit(at, memory_order_relaxed), had;
        bool late;
        do {
            uint32_t ahead = (uint32_t)(old >> CELLS) - turn;
            late = ahead > 0 && ahead <= LATE;
            had = ahead == 0 ? old & UINT32_MAX : 0;
        } while (!late && !atomic_compare_exchange_weak_explicit(at, &old, (uint64_t)turn << CELLS | had | mask, memory_order_relaxed,
                                                                  memory_order_relaxed));
        if (!late)                  /* time older than the strip was paid by somebody */
            fresh += __builtin_popcountll(mask & ~had);
        a += n;
    }
    return fresh * CELL;
}

/* ---- booking ---------------------------------------------------------------------------------------------------------------- */

static void as_expected(struct flying *f)
{
    f->stretched = 0;
    f->launches = 0;
    f->least = 0;
}

/* Whether other processes of the container have work outstanding: they lengthen batches like strangers do. */
static bool siblings_run(const struct throttle *t)
{
    return whole(&t->d->running, 0, 100000000000) > t->running + CELL;
}

static bool company(const struct throttle *t) { return !alone(t->d) || siblings_run(t); }

/* It began when the batch before it ended, so the device was ours then; others began with waiting for their turn, maybe. */
static bool follows(const struct batch *b) { return b->closed && b->start >= b->closed; }

/* Neighbours lengthen some batches by whole turns and leave others alone; a kind that has become longer is longer in all. So: many in
 * a row stretched and none clean, and short enough that some would have escaped a switch: then the clean time is what was least, and
 * what had been booked too little is booked now. Who began with waiting proves less than who followed, so more of them are asked. */
static double changed(struct throttle *t, const struct batch *b, struct flying *f, double clean, double each, uint32_t count)
{
    bool others = company(t);
    if ((others && !follows(b)) || (!alone(t->d) && clean * count > 0.6 * TURN))
        return 0;
    f->stretched += others || !follows(b) ? 1 : SETTLED_SLOWLY / SETTLED;
    f->launches += count;
    if (f->least == 0 || each < (double)f->least)
        f->least = (int64_t)each;
    if (f->stretched < SETTLED_SLOWLY)
        return 0;
    double owed = others ? 0 : (double)f->launches * ((double)f->least - clean);
    learn(t->d, f->kind, (double)f->least);
    as_expected(f);
    return owed;
}

/* The program took most of the time to launch it all: the device waited for the program, and how long the work lasts does not show. */
static bool fed_slowly(const struct batch *b, double took, double clean)
{
    return b->closed && (double)(b->closed - b->start) > 0.5 * took && took > STRETCHED * clean;
}

/* GPU time to book for a batch by clean times; learns on the way. */
static double finish(struct throttle *t, const struct batch *b)
{
    struct hami_device *d = t->d;
    double took = most(100, (double)(b->end - b->start)), clean = 0, known = 0, longest = 0;
    uint32_t strange = 0;
    for (unsigned i = 0; i < b->parts; i++) {
        double each = clean_of(d, b->part[i].kind);
        known += each * b->part[i].count;
        strange += each > 0 ? 0 : b->part[i].count;
    }
    double rest = strange ? most(100, (took - known) / strange) : 0;
    for (unsigned i = 0; i < b->parts; i++) {
        double each = clean_of(d, b->part[i].kind);
        each = each > 0 ? each : rest;
        clean += each * b->part[i].count;
        longest = most(longest, each);
    }
    double ratio = took / clean;
    if (fed_slowly(b, took, clean))
        return clean;
    atomic_store_explicit(&d->longest, (int64_t)most((double)whole(&d->longest, 0, 100000000000), took), memory_order_relaxed);
    double pace = real(&d->pace, 0, 2, 1);
    pace += 0.2 * (least(2, ratio) - pace);
    if (pace < 0.7 && gain(d, ruler_of(d)) < 1) {       /* everything runs faster: the strangers are gone. Prices stay. */
        for (unsigned r = 0; r < 2; r++) {
            put(&d->gain[r], least(1, gain(d, r) / pace));
            put(&d->doubt[r], 0.25);
        }
        pace = 1;
    }
    put(&d->pace, pace);
    bool exact = alone(d) && longest > 0.6 * TURN;      /* nobody else, and kernels too long to see somebody come: wall time it is */
    bool out = !exact && ratio > STRETCHED && (took - clean > THEFT || !follows(b));
    t->stretched = out ? t->stretched + 1 : 0;
    double lucky = real(&d->lucky, 0, 1, 0);    /* how often batches do what no neighbour makes them do */
    bool odd = ratio < 0.75 || (follows(b) && ratio > STRETCHED && took - clean < THEFT) || t->stretched > SETTLED_SLOWLY;
    put(&d->lucky, lucky + 0.02 * (odd - lucky));
    double owed = 0;
    for (unsigned i = 0; i < b->parts; i++) {
        uint32_t kind = b->part[i].kind;
        double was = clean_of(d, kind), each = was > 0 ? was * ratio : rest;
        struct flying *f = flying_of(t, kind);
        if (f && f->batches < YOUNG)
            f->batches++;
        if (was > 0) {
            double step = each - was;
            if (company(t) && !follows(b) && ratio < 0.5 && f && f->batches < YOUNG)
                learn(d, kind, (was + each) / 2);   /* what we took for work was waiting */
            else if (!out || follows(b))
                learn(d, kind, was + LEARN * most(-0.5 * was, least(0.1 * was, step)));
            else                        /* waiting, most likely; but a kind that always takes longer may not sink */
                learn(d, kind, was * (1 + LEARN_WAITING));
        } else {
            learn(d, kind, each);
        }
        if (f && out && was > 0)
            owed += changed(t, b, f, was, each, b->part[i].count);
        else if (f)
            as_expected(f);
    }
    return (out ? clean : took) + owed;
}

/* Clean times are given up when samples say so, and at the first signs that they are none where wall time errs on the safe side or not
 * at all: without samples, and alone. */
static void choose(struct hami_device *d, bool blind)
{
    double worse = blind ? -1 : real(&d->miss[CLEAN], 0, 1, 0) - real(&d->miss[WALL], 0, 1, 0) - 0.05;
    if (blind || alone(d))
        worse = most(worse, real(&d->lucky, 0, 1, 0) - 0.04);
    atomic_store_explicit(&d->ruler, worse > 0 ? WALL : CLEAN, memory_order_relaxed);
}

/* Charges never outrun the clock: what is booked by clean times is at most the time in which work was outstanding. */
static double within_lead(struct hami_device *d, double wall, double units)
{
    int64_t lead = whole(&d->lead, 0, 100000000000) + (int64_t)wall, booked = (int64_t)least(units, (double)lead);
    atomic_store_explicit(&d->lead, lead - booked, memory_order_relaxed);
    return (double)booked;
}

static void settle_hold(struct throttle *t, double charged)
{
    double hold = 0;
    bool strange = false, any = false;
    for (unsigned i = 0; i < FLYING_KINDS; i++) {
        const struct flying *f = &t->flying[i];
        if (!f->count)
            continue;
        any = true;
        strange |= clean_of(t->d, f->kind) <= 0;
        hold += (double)f->count * (double)throttle_price(t, f->kind);
    }
    hold = any ? most(hold, strange ? (double)t->run : (double)t->run / 4) : 0;
    if (!any)
        t->run = 0;
    atomic_fetch_add_explicit(&t->d->credit, t->hold - (int64_t)charged - (int64_t)hold, memory_order_relaxed);
    set_hold(t, (int64_t)hold);
    int64_t running = (int64_t)least((double)t->run, hold / gain(t->d, CLEAN));
    atomic_fetch_add_explicit(&t->d->running, running - t->running, memory_order_relaxed);
    t->running = running;
}

void throttle_tick(struct throttle *t, int64_t now, const struct batch *done, unsigned count, int64_t outstanding)
{
    struct hami_device *d = t->d;
    refill(t, now);
    int64_t seen = (int64_t)atomic_load_explicit(&d->seen, memory_order_relaxed);
    if (seen < 0 || seen > now || now - seen > SILENCE || !atomic_load_explicit(&d->last[CLEAN], memory_order_relaxed))
        choose(d, true);
    double wall = 0, units = 0;
    if (t->coloured > now)              /* a clock that began anew */
        t->coloured = 0;
    for (unsigned i = 0; i <= count; i++) {     /* the batches, then what runs */
        int64_t from = i < count ? done[i].start : outstanding, until = i < count ? done[i].end : outstanding ? now : 0;
        if (from < t->coloured)
            from = t->coloured;
        if (until <= from)
            continue;
        wall += (double)colour(d, from, until);
        t->coloured = until;
    }
    if (!wall && !count && !t->hold)
        return;
    t->run += (int64_t)wall;
    for (unsigned i = 0; i < count; i++) {
        units += finish(t, &done[i]);
        for (unsigned k = 0; k < done[i].parts; k++) {
            struct flying *f = flying_of(t, done[i].part[k].kind);
            if (f)
                f->count -= done[i].part[k].count < f->count ? done[i].part[k].count : f->count;
        }
        t->run = 0;
    }
    units = within_lead(d, wall, units);
    atomic_fetch_add_explicit(&d->booked[CLEAN], (uint64_t)units, memory_order_relaxed);
    atomic_fetch_add_explicit(&d->booked[WALL], (uint64_t)wall, memory_order_relaxed);
    unsigned ruler = ruler_of(d);
    double charge = gain(d, ruler) * (ruler == CLEAN ? units : wall);
    atomic_fetch_add_explicit(&d->charged, (uint64_t)charge, memory_order_relaxed);
    settle_hold(t, charge);
}

/* ---- what NVML says --------------------------------------------------------------------------------------------------------- */

void throttle_book(struct throttle *t, int64_t now, bool in_flight)
{
    struct hami_device *d = t->d;
    if (!in_flight) {
        atomic_store_explicit(&d->lead, 0, memory_order_relaxed);
        atomic_store_explicit(&d->running, 0, memory_order_relaxed);
        t->running = 0;
    }
    uint32_t i = atomic_load_explicit(&d->book, memory_order_relaxed);
    struct hami_book *page = &d->books[i % HAMI_BOOKS], *before = &d->books[(i + HAMI_BOOKS - 1) % HAMI_BOOKS];
    uint64_t at = atomic_load_explicit(&before->at, memory_order_relaxed);
    if (at <= (uint64_t)now && (uint64_t)now - at < 48000000)
        return;                     /* 64 pages reach back three seconds */
    atomic_store_explicit(&page->at, (uint64_t)now, memory_order_relaxed);
    atomic_store_explicit(&page->clean, atomic_load(&d->booked[CLEAN]) + (uint64_t)whole(&d->running, 0, 100000000000), memory_order_relaxed);
    atomic_store_explicit(&page->wall, atomic_load(&d->booked[WALL]), memory_order_relaxed);
    double now_running = (double)whole(&d->running, 0, 100000000000) * gain(d, CLEAN);
    atomic_store_explicit(&page->charged, atomic_load(&d->charged) + (uint64_t)now_running, memory_order_relaxed);
    atomic_store_explicit(&d->book, (i + 1) % HAMI_BOOKS, memory_order_relaxed);
}

static void booked_at(struct hami_device *d, int64_t at, double out[3])
{
    int64_t before = 0, after = INT64_MAX;
    const struct hami_book *low = NULL, *high = NULL, *newest = NULL;
    for (unsigned i = 0; i < HAMI_BOOKS; i++) {
        const struct hami_book *p = &d->books[i];
        int64_t when = (int64_t)atomic_load_explicit(&p->at, memory_order_relaxed);
        if (when <= 0)
            continue;
        if (when <= at && when >= before)
            before = when, low = p;
        if (when >= at && when < after)
            after = when, high = p;
        if (!newest || when > (int64_t)atomic_load_explicit(&newest->at, memory_order_relaxed))
            newest = p;
    }
    if (!low || !high)
        low = high = low ? newest : high;
    out[0] = out[1] = out[2] = 0;
    if (!low)
        return;
    double part = after > before && high != low ? (double)(at - before) / (double)(after - before) : 0;
    double clean = (double)atomic_load(&low->clean), wall = (double)atomic_load(&low->wall), charged = (double)atomic_load(&low->charged);
    out[CLEAN] = clean + ((double)atomic_load(&high->clean) - clean) * part;
    out[2] = charged + ((double)atomic_load(&high->charged) - charged) * part;
    out[WALL] = wall + ((double)atomic_load(&high->wall) - wall) * part;
}

/* Scalar Kalman filter: the gain moves towards what was seen as far as both are trusted. */
static void correct(struct hami_device *d, unsigned r, double span, double seen, double error, double drift, double floor)
{
    double jumps = real(&d->jumps[r], 0, 1, 0), last = real(&d->last[r], 0, 100, 0), doubt = real(&d->doubt[r], 0, 1, 0.25);
    double noise = most(error * error, 0.5 * jumps);
    if (last > 0 && doubt < DOUBTFUL)       /* else the company has changed, which is no scatter */
        jumps += 0.3 * (least(1, (seen - last) * (seen - last)) - jumps);
    double trust = doubt / (doubt + noise);
    put(&d->jumps[r], jumps);
    put(&d->last[r], seen);
    put(&d->gain[r], least(4, most(floor, gain(d, r) + trust * (seen - gain(d, r)))));
    put(&d->doubt[r], (1 - trust) * doubt + span * drift);
}

static void compare(struct hami_device *d, unsigned r, double used, double truth)
{
    double miss = real(&d->miss[r], 0, 1, 0), off = gain(d, r) * used - truth;
    if (truth > 0)
        put(&d->miss[r], miss + 0.3 * (least(1, (off < 0 ? -off : off) / truth) - miss));
}

static double sqrt_of(double x)
{
    double root = x > 1 ? x : 1;
    for (unsigned i = 0; i < 20; i++)
        root = (root + x / root) / 2;
    return root;
}

/* What NVML saw beyond doubt and the rulers did not: it is owed, or comes back. */
static void repay(struct hami_device *d, double charged, double low, double high, double fuzz, double span)
{
    double owed = charged < low - fuzz ? low - fuzz - charged : charged > high + fuzz ? high + fuzz - charged : 0;
    int64_t have = whole(&d->credit, -100000000000, THROTTLE_BURST);
    owed = most(-REPAID * span, least((alone(d) ? 10 : 1) * REPAID * span, owed));
    if (-owed > (double)(THROTTLE_BURST - have))
        owed = (double)(have - THROTTLE_BURST);
    atomic_fetch_sub_explicit(&d->credit, (int64_t)owed, memory_order_relaxed);
}

void throttle_sample(struct throttle *t, int64_t at, const uint32_t *own, unsigned own_count, const uint32_t *others, unsigned other_count,
                     uint32_t total)
{
    struct hami_device *d = t->d;
    int64_t seen = (int64_t)atomic_load_explicit(&d->seen, memory_order_relaxed);
    if (seen < 0 || seen > at + 4 * SILENCE)
        seen = 0;                       /* of another start of the machine */
    if (at <= seen)
        return;
    double span = least((double)(at - seen), WINDOW), used[3], start[3];
    atomic_store_explicit(&d->seen, (uint64_t)at, memory_order_relaxed);
    bool first = at - seen > SILENCE, changed_company = false;  /* how much time it covers is not known */
    booked_at(d, at - (int64_t)span, start);
    booked_at(d, at, used);
    used[CLEAN] = most(0, used[CLEAN] - start[CLEAN]);
    used[WALL] = most(0, used[WALL] - start[WALL]);
    used[2] = most(0, used[2] - start[2]);
    /* Whole percent, rounded one way or another: an interval, not a number. */
    double low = 0, high = 0, rest_low = (double)total - 0.5, rest_high = (double)total + 1;
    uint32_t strangers = 0;
    for (unsigned i = 0; i < own_count; i++) {
        low += most(0, own[i] - 0.5);
        high += own[i] + 1.0;
    }
    for (unsigned i = 0; i < other_count; i++) {
        rest_low -= others[i] ? others[i] + 1.0 : 0;
        rest_high -= most(0, others[i] - 0.5);
        strangers += others[i] != 0;
    }
    double a = most(low, rest_low), b = least(high, rest_high);
    low = most(0, least(100, least(a, b))) / 100 * span;
    high = most(0, least(100, most(a, b))) / 100 * span;
    if ((strangers != 0) == alone(d)) {         /* the company has changed: what we knew is worth less */
        changed_company = true;
        atomic_store_explicit(&d->alone, strangers == 0, memory_order_relaxed);
        for (unsigned r = 0; r < 2; r++) {
            if (!strangers)
                put(&d->gain[r], 1);
            put(&d->doubt[r], strangers ? 0.25 : 0.001);
        }
        if (!strangers && real(&d->lucky, 0, 1, 0) > 0.01) {        /* wall time is exact now, clean times have to show it */
            put(&d->miss[CLEAN], 0.15);
            choose(d, false);
        }
    }
    atomic_store_explicit(&d->strangers, strangers, memory_order_relaxed);
    if ((first && alone(d)) || (!first && changed_company)) {    /* it covers time that we do not know, or both sides of the change */
        for (unsigned i = 0; i < 6; i++)
            put(&d->carry[i], 0);
        return;
    }
    double fresh[6] = {span, used[CLEAN], used[WALL], low, high, used[2]};
    for (unsigned i = 0; i < 6; i++)
        fresh[i] += real(&d->carry[i], 0, 1e11, 0);
    span = fresh[0];
    bool nothing = least(fresh[1], fresh[2]) < 0.01 * span;         /* nothing finished yet: wait for the next sample */
    for (unsigned i = 0; i < 6; i++)
        put(&d->carry[i], nothing ? fresh[i] : 0);
    if (nothing)
        return;
    /* Alone, the time with work outstanding is exact where NVML does not contradict it. */
    double truth = alone(d) ? most(fresh[3], least(fresh[4], fresh[2])) : (fresh[3] + fresh[4]) / 2, longest = (double)whole(&d->longest, 0, 100000000000);
    double fuzz = most(0.003 * span, most((fresh[4] - fresh[3]) / 4, 0.15 * longest));
    for (unsigned r = 0; r < 2; r++) {
        compare(d, r, fresh[1 + r], truth);
        correct(d, r, span / 1e9, truth / fresh[1 + r], fuzz / fresh[1 + r], alone(d) ? 1e-5 : 1e-3, 0.5 / (1 + strangers));
    }
    if (first)                          /* the next one says more */
        for (unsigned r = 0; r < 2; r++)
            put(&d->doubt[r], 0.25);
    double scatter = sqrt_of(real(&d->jumps[ruler_of(d)], 0, 1, 0)) * truth;
    if (!first)
        repay(d, fresh[5], fresh[3], fresh[4], most(0.003 * span, 0.15 * longest) + scatter, span);
    choose(d, false);
    double halves = span / 1e9;
    for (; halves >= 1; halves--)
        longest /= 2;
    atomic_store_explicit(&d->longest, (int64_t)(longest * (1 - 0.5 * halves)), memory_order_relaxed);
}
