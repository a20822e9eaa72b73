#include "plant.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../simulator/engine.h"
#include "throttle.h"

#define MS 1000000
#define SECOND 1000000000ll
#define MOST 130
#define QUEUED 4096
#define STEP (50 * MS)
#define MARKS 24000
#define LATENCIES 20000

struct process {
    int container, queue;
    int64_t next, left, asked, due, until;
    double ns;                      /* of one launch of what it launches now */
    uint32_t kind;
    uint64_t arrivals;              /* dice of its own: the same requests under every law */
    int round;
    bool syncing;
    struct throttle t;
    _Atomic int64_t hold;
    struct batch open, flying[QUEUED], done[QUEUED];     /* open: launches that no event ends yet */
    unsigned first, count, finished;
    int64_t last_end;
    int64_t mark;                   /* what it had when the warm-up was over */
};

static struct sim_engine engine;
static struct sim_queue *queues;
static struct process *processes;
static int process_count;
static struct hami_device *devices;
static int64_t now, began, dead_holds;
static uint64_t dice;
static const struct cell *cell;
static double exact_credit[2];
static int64_t exact_then[2];
static bool exact_closed[2];
static double latencies[LATENCIES];
static int latency_count;
static int64_t longest_wait;
static int most_in_debt;

static double uniform(void)
{
    dice ^= dice << 13;
    dice ^= dice >> 7;
    dice ^= dice << 17;
    return (double)(dice >> 11) / 9007199254740992.0;
}

static double normal(void) { return sqrt(-2 * log(uniform() + 1e-12)) * cos(6.283185307 * uniform()); }
static bool twin(void) { return cell->other == TWIN || cell->other == SAME; }
static bool limited(int container) { return container == 0 || twin(); }
static double seconds(void) { return (double)(now - began) / 1e9; }

static double limit_of(int container)
{
    return container == 0 || cell->other == SAME ? cell->limit : 100 - cell->limit;
}

static double kernel_ns(void)
{
    int wide = 8 * cell->sms;
    return cell->blocks ? 100000.0 * ((cell->blocks + wide - 1) / wide) : cell->kernel_us * 1000;
}

/* ---- the device -------------------------------------------------------------------------------------------------------------- */

static void done(void *who, uint32_t queue, const struct sim_item *item, int64_t at)
{
    (void)who;
    (void)item;
    struct process *p = &processes[queue];
    if (!p->count)
        return;
    struct batch *b = &p->flying[p->first++ % QUEUED];
    p->count--;
    if (b->start < p->last_end)
        b->start = p->last_end;
    b->end = p->last_end = at;
    if (p->finished < QUEUED)
        p->done[p->finished++] = *b;
}

static double noise(int64_t n, bool ours)
{
    if (ours && cell->spread > 0)
        return exp(cell->spread * normal() - cell->spread * cell->spread / 2);
    double spread = 0.1 / sqrt((double)n);
    return exp((spread < 0.02 ? 0.02 : spread) * normal()) * (1 + 0.08 * sin((double)now / 1e9 * 0.9));
}

/* ---- programs: what a process launches next, when it waits, when it sleeps ----------------------------------------------------- */

static bool rests_until(struct process *p, int64_t at)
{
    p->next = at;
    return false;
}

static void will_launch(struct process *p, double ns, double work, uint32_t kind)
{
    p->ns = ns;
    p->kind = kind;
    p->left = (int64_t)fmax(1, work / ns + 0.5);
}

static bool plan_neighbour(struct process *p)
{
    int64_t third = 3 * SECOND, since = now - began;
    if (cell->other == ON_OFF && since / third % 2)
        return rests_until(p, began + (since / third + 1) * third);
    will_launch(p, 500000, cell->other == ON_OFF ? 4 * MS : 20 * MS, 1);
    return true;
}

/* False: it sleeps until p->next. */
static bool plan(struct process *p)
{
    double ns = kernel_ns();
    int64_t since = now - began, half = SECOND / 2;
    p->round++;
    if (!limited(p->container))
        return plan_neighbour(p);
    switch (cell->pattern) {
    case SATURATE:
        will_launch(p, ns, 20 * MS, 1000);
        return true;
    case FLOOD:
        will_launch(p, ns, 1000 * ns, 1000);
        return true;
    case LATE:
        if (since < 3 * SECOND && p->round > 1)
            return rests_until(p, began + 3 * SECOND);
        will_launch(p, ns, since < 3 * SECOND ? 8 * ns : 1000 * ns, 1000);
        return true;
    case MIXED:
        will_launch(p, p->round % 2 ? 5000 : 20 * MS, p->round % 2 ? 200 * 5000 : 20 * MS, 1000 + (uint32_t)(p->round % 2));
        return true;
    case TRAINING:
        if (p->round % 2 == 0)
            return rests_until(p, now + 5 * MS);
        will_launch(p, ns, 30 * MS, 1000);
        return true;
    case BURSTY:
        if (since / half % 2)
            return rests_until(p, began + (since / half + 1) * half);
        will_launch(p, ns, 4 * MS, 1000);
        return true;
    case REQUEST: {
        double work = fmax(5 * MS, ns);
        if (p->round % 2) {
            double load = 0.6 * cell->limit / 100 / cell->processes;
            p->arrivals = p->arrivals * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
            p->due += (int64_t)(-log((double)(p->arrivals >> 11) / 9007199254740992.0 + 1e-12) * work / load);
            return rests_until(p, p->due > now ? p->due : now);
        }
        will_launch(p, ns, work, 1000);
        return true;
    }
    case TRICKLE:
        will_launch(p, ns, ns, 1000);
        return true;
    case DRIFT:
        ns *= since / (2 * SECOND) % 2 ? 3 : 1;
        will_launch(p, ns, 20 * MS, 1000);
        return true;
    }
    return false;
}

static bool syncs(const struct process *p)
{
    return !limited(p->container) || !(cell->pattern == FLOOD || cell->pattern == TRICKLE || (cell->pattern == LATE && now - began >= 3 * SECOND));
}

/* ---- the law, or perfect knowledge --------------------------------------------------------------------------------------------- */

static bool exact_admit(int c, double work, int64_t *wait)
{
    double share = limit_of(c) / 100;
    exact_credit[c] = fmin(20.0 * MS, exact_credit[c] + share * (double)(now - exact_then[c]));
    exact_then[c] = now;
    double lack = (exact_closed[c] ? 500000 : 0) - exact_credit[c];
    exact_closed[c] = lack >= 0;
    if (lack >= 0) {
        *wait = (int64_t)fmin(5e6, fmax(1e5, lack / share));
        return false;
    }
    exact_credit[c] -= work;
    return true;
}

/* How many of n launches may go now; 0: ask again after *wait. */
static int64_t admitted(struct process *p, int64_t n, double work, int64_t *wait)
{
    if (!limited(p->container))
        return n;
    if (cell->oracle && n > THROTTLE_BATCH / p->ns)
        n = THROTTLE_BATCH / p->ns < 1 ? 1 : (int64_t)(THROTTLE_BATCH / p->ns);
    if (cell->oracle)
        return exact_admit(p->container, work * (double)n, wait) ? n : 0;
    int64_t price = throttle_price(&p->t, p->kind), most = price ? THROTTLE_BATCH / price : n, got = 0;
    if (n > (most < 1 ? 1 : most))
        n = most < 1 ? 1 : most;
    while (got < n && throttle_take(&p->t, price))
        got++;
    if (!got && throttle_admit(&p->t, now, p->asked, price, wait))
        got = 1;
    if (got)
        throttle_flies(&p->t, p->kind, (int32_t)got, price);
    return got;
}

/* True when an event ends the batch with these launches. */
static bool add_to_batch(struct process *p, int64_t n)
{
    struct batch *b = &p->open;
    if (!b->parts)
        *b = (struct batch){.start = now};
    unsigned i = 0;
    while (i < b->parts && b->part[i].kind != p->kind)
        i++;
    b->parts = i + 1 > b->parts ? i + 1 : b->parts;     /* programs here have two kinds at most */
    b->part[i].kind = p->kind;
    b->part[i].count += (uint32_t)n;
    b->price += n * throttle_price(&p->t, p->kind);
    return b->price >= THROTTLE_BATCH || p->syncing;
}

static void close_batch(struct process *p)
{
    p->open.closed = now;
    p->flying[(p->first + p->count++) % QUEUED] = p->open;
    p->open.parts = 0;
}

static void push(struct process *p, struct sim_item item)
{
    if (!engine_push(&engine, queues, (uint32_t)p->queue, now, item, done, NULL)) {
        fprintf(stderr, "grid: a queue is full\n");
        exit(2);
    }
}

static bool held(const struct process *p) { return p->container == 0 && seconds() >= cell->hold_from && seconds() < cell->hold_until; }

static void step(struct process *p)
{
    if (p->syncing) {
        if (queues[p->queue].head != queues[p->queue].tail) {
            p->next = INT64_MAX;
            return;
        }
        p->syncing = false;
        if (cell->pattern == REQUEST && limited(p->container) && seconds() > 2 && latency_count < LATENCIES)
            latencies[latency_count++] = (double)(now - p->due) / 1e6;
    }
    if (p->left <= 0 && !plan(p))
        return;
    if (held(p)) {
        p->next = now + 20 * MS;
        return;
    }
    int64_t room = SIM_DEPTH - engine_pending(&queues[p->queue]), n = p->left < 125 ? p->left : 125, wait = 0;
    if (room <= 0) {
        p->next = now + 100000;
        return;
    }
    if (n > room)
        n = room;
    double factor = noise(n, limited(p->container));
    if (!p->asked)
        p->asked = now;
    n = admitted(p, n, p->ns * factor, &wait);
    if (!n) {
        if (p->open.parts) {            /* what lies ahead is silence, not work */
            close_batch(p);
            push(p, (struct sim_item){.cell = 0});
        }
        p->next = now + wait;
        return;
    }
    if (now - p->asked > longest_wait && limited(p->container))
        longest_wait = now - p->asked;
    p->asked = 0;
    int under_way = 0;
    for (int i = 0; i < process_count; i++)
        under_way += processes[i].container == 0 ? (int)engine_pending(&queues[i]) : 0;
    if (p->container == 0 && under_way > most_in_debt)
        most_in_debt = under_way;
    struct sim_item item = {.left = (int64_t)(p->ns * factor * (double)n), .each = (int64_t)p->ns, .count = (uint32_t)n, .cell = SIM_NO_CELL};
    p->left -= n;
    p->next = now + n * 4000;
    p->syncing = p->left <= 0 && syncs(p);
    if (limited(p->container) && !cell->oracle && add_to_batch(p, n)) {
        item.cell = 0;
        close_batch(p);
    }
    push(p, item);
    if (!p->left && cell->pattern == TRICKLE && limited(p->container))
        p->next = now + 200000;
}

/* ---- what the library's thread and the management library do ------------------------------------------------------------------- */

static void tick(int container)
{
    bool flying = false;
    struct throttle *last = NULL;
    if (!limited(container) || cell->oracle)
        return;
    for (int i = 0; i < process_count; i++) {
        struct process *p = &processes[i];
        if (p->container != container)
            continue;
        if (p->open.parts && now - p->open.start >= 4 * MS) {      /* nobody ends it: booked at its price */
            p->open.end = p->open.start + p->open.price < now ? p->open.start + p->open.price : now;
            p->done[p->finished++] = p->open;
            p->open.parts = 0;
        }
        int64_t runs = p->count ? p->flying[p->first % QUEUED].start : 0;
        if (runs && runs < p->last_end)
            runs = p->last_end;
        throttle_tick(&p->t, now, p->done, p->finished, runs);
        p->finished = 0;
        flying |= p->hold != 0;
        last = &p->t;
    }
    if (last)
        throttle_book(last, now, flying);
}

struct nvml {
    int64_t window, period, late, open_at, close_at, tell_at, told, count;
    int64_t before[MOST], since[MOST], busy[MOST];
};

static void nvml_start(struct nvml *n)
{
    enum feed feed = cell->feed;
    n->window = feed == FAST || feed == SPARSE ? SECOND / 6 : SECOND;
    n->period = feed == FAST ? SECOND / 6 : SECOND;
    n->late = feed == FAST ? 50 * MS : feed == SLOW ? 400 * MS : 200 * MS;
    n->open_at = feed == NOTHING || cell->oracle ? INT64_MAX : now + (int64_t)(uniform() * (double)n->period);
    n->close_at = n->tell_at = INT64_MAX;
}

/* Processes that read zero are left out; the library knows its own and counts them as zero. Nobody above zero: no sample. */
static void nvml_tell(const struct nvml *n)
{
    uint32_t own[2][MOST], others[2][MOST], owned[2] = {0, 0}, strange[2] = {0, 0};
    double total = 0;
    for (int i = 0; i < process_count; i++) {
        double use = 100.0 * (double)(n->busy[i] - n->since[i]) / (double)n->window;
        uint32_t whole = (uint32_t)(use + 1e-6);
        int c = processes[i].container;
        total += use;
        own[c][owned[c]++] = whole;
        if (whole)
            others[1 - c][strange[1 - c]++] = whole;
    }
    for (int c = 0; c < 2; c++)
        for (int i = 0; i < process_count; i++)
            if (processes[i].container == c && limited(c) && total >= 1) {
                throttle_sample(&processes[i].t, n->told, own[c], owned[c], others[c], strange[c], (uint32_t)(total + 1e-6));
                break;
            }
}

static void nvml_round(struct nvml *n)
{
    if (now >= n->close_at) {
        for (int i = 0; i < process_count; i++) {
            n->busy[i] = queues[i].busy;
            n->since[i] = n->before[i];
        }
        n->told = now;
        n->close_at = INT64_MAX;
        n->tell_at = cell->feed == HOLES && n->count++ % 2 ? INT64_MAX : now + n->late;
    }
    if (now >= n->open_at) {
        for (int i = 0; i < process_count; i++)
            n->before[i] = queues[i].busy;
        n->close_at = now + n->window;
        n->open_at += n->period;
    }
    if (now >= n->tell_at) {
        nvml_tell(n);
        n->tell_at = INT64_MAX;
    }
}

/* One dies with what it holds, which a sibling gives back within a second; another takes its place. */
static void kill_one(void)
{
    struct process *p = &processes[(int)(uniform() * cell->processes)];
    atomic_fetch_add(&devices[0].credit, dead_holds);
    engine_drop(&engine, queues, (uint32_t)p->queue, now);
    dead_holds = p->hold;
    p->hold = 0;
    p->count = p->finished = p->open.parts = 0;
    p->left = p->asked = 0;
    p->syncing = false;
    throttle_join(&p->t, &devices[0], &p->hold, (uint32_t)limit_of(0));
    p->next = now + 5 * MS;
}

/* ---- one run --------------------------------------------------------------------------------------------------------------------- */

static void start(unsigned seed)
{
    if (!queues) {
        queues = calloc(MOST, sizeof *queues);
        processes = calloc(MOST, sizeof *processes);
        devices = aligned_alloc(64, 2 * sizeof *devices);
    }
    memset(queues, 0, MOST * sizeof *queues);
    memset(processes, 0, MOST * sizeof *processes);
    memset((void *)devices, 0, 2 * sizeof *devices);
    dice = 88172645463325252ull + seed * 7919;
    now = began = 1000 * SECOND;
    dead_holds = longest_wait = 0;
    latency_count = most_in_debt = 0;
    engine_init(&engine, (int64_t)((cell->turn_ms ? cell->turn_ms : 2) * MS), SIM_SWITCH_NS, now);
    int others = cell->other == NOBODY ? 0 : !twin() ? 1 : cell->other_processes ? cell->other_processes : cell->processes;
    process_count = cell->processes + others;
    for (int c = 0; c < 2; c++) {
        exact_credit[c] = 0;
        exact_then[c] = now;
        exact_closed[c] = true;
    }
    for (int i = 0; i < process_count; i++) {
        struct process *p = &processes[i];
        p->queue = i;
        p->arrivals = seed + 77 * (uint64_t)i;
        p->container = i >= cell->processes;
        p->next = p->due = now + (int64_t)(uniform() * 2 * MS);
        throttle_join(&p->t, &devices[p->container], &p->hold, (uint32_t)limit_of(p->container));
    }
}

static int64_t busy_of(int container)
{
    int64_t busy = 0;
    for (int i = 0; i < process_count; i++)
        busy += processes[i].container == container ? queues[i].busy : 0;
    return busy;
}

static int by_size(const void *a, const void *b) { return *(const double *)a < *(const double *)b ? -1 : 1; }

static double percent(const int64_t *trace, int from, int steps) { return 100.0 * (double)(trace[from + steps] - trace[from]) / (double)steps / STEP; }

/* What the trace of the container's device time says. */
static void judge(struct outcome *o, const int64_t *trace, int marks, double settle)
{
    double limit = cell->limit;
    int second = SECOND / STEP, changed = (int)(cell->change_at * second);
    o->high = -100;
    o->low = 100;
    for (int at = (int)(settle * second); at + second < marks; at += 5) {
        double off = percent(trace, at, second) - limit;
        o->high = fmax(o->high, off);
        o->low = fmin(o->low, off);
    }
    o->first = percent(trace, 0, second);
    int rest = cell->hold_until > 0 ? (int)(cell->hold_until * second) : 3 * second;
    o->burst = percent(trace, rest, second) - limit;
    for (int at = changed; changed && at + second / 2 < marks; at++)
        if (fabs(percent(trace, at, second / 2) - cell->change_to) > 3)
            o->resettle = (double)(at - changed + 1) / second;
}

struct outcome plant_run(const struct cell *what, double settle, unsigned seed)
{
    static int64_t trace[MARKS];
    static struct nvml nvml;
    cell = what;
    start(seed);
    double kernel = kernel_ns() / 1e9, share = cell->limit / 100;
    double warm_up = fmax(2, 2 * kernel / share), whole = fmax(12, 22 * kernel / share + warm_up);
    if (kernel >= 0.4 && cell->other != NOBODY)
        warm_up = 10 * kernel / share, whole = warm_up + 22 * kernel / share;
    int64_t warm = began + (int64_t)(warm_up * 1e9), ends = began + (int64_t)(whole * 1e9), next_mark = began, next_kill = now + SECOND;
    int64_t next_tick[2] = {now, now + MS};
    int marks = 0;
    bool warmed = false, changed = false;
    int64_t base[2] = {0, 0};
    nvml_start(&nvml);
    while (now < ends) {
        int64_t next = engine_next(&engine, queues);
        for (int i = 0; i < process_count; i++)
            if (processes[i].next < next)
                next = processes[i].next;
        int64_t times[] = {next_tick[0], next_tick[1], nvml.open_at, nvml.close_at, nvml.tell_at, next_mark, warm > now ? warm : INT64_MAX, ends};
        for (unsigned i = 0; i < sizeof times / sizeof *times; i++)
            if (times[i] < next)
                next = times[i];
        now = next > now ? next : now;
        engine_advance(&engine, queues, now, done, NULL);
        for (; now >= next_mark && marks < MARKS; next_mark += STEP)
            trace[marks++] = busy_of(0);
        if (!warmed && now >= warm) {
            warmed = true;
            for (int i = 0; i < process_count; i++)
                processes[i].mark = queues[i].busy;
            base[0] = busy_of(0);
            base[1] = busy_of(1);
        }
        nvml_round(&nvml);
        for (int c = 0; c < 2; c++)
            if (now >= next_tick[c]) {
                next_tick[c] = now + 2 * MS;
                tick(c);
            }
        if (cell->kills && now >= next_kill) {
            kill_one();
            next_kill += SECOND;
        }
        if (cell->change_to > 0 && !changed && seconds() >= cell->change_at) {
            changed = true;             /* as the agent does it: in the region, for all at once */
            atomic_store(&devices[0].rate, (uint32_t)(cell->change_to * 10000));
        }
        for (int i = 0; i < process_count; i++)
            if (now >= processes[i].next || (processes[i].syncing && queues[i].head == queues[i].tail)) {
                processes[i].next = now;
                step(&processes[i]);
            }
    }
    double span = (double)(now - warm), least = 1e30, most = -1;
    struct outcome o = {.share = 100 * (double)(busy_of(0) - base[0]) / span, .other = 100 * (double)(busy_of(1) - base[1]) / span};
    for (int i = 0; i < process_count; i++) {
        double use = 100 * (double)(queues[i].busy - processes[i].mark) / span;
        least = fmin(least, use);
        most = fmax(most, use);
    }
    o.spread = most - least;
    o.wait = (double)longest_wait / 1e9;
    o.in_debt = most_in_debt;
    o.quantum = kernel > 0.01 ? 100 * kernel * 1e9 / span : 0;
    qsort(latencies, (size_t)latency_count, sizeof *latencies, by_size);
    o.latency = latency_count ? latencies[(latency_count - 1) * 99 / 100] : 0;
    judge(&o, trace, marks, settle);
    return o;
}
