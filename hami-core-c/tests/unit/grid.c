/* The compute law on the time model, in virtual time: contexts that take turns (simulator/engine.c), programs that launch, NVML that
 * is late and whole. Prints one line per cell; status 1 when one lies outside its target. grid few: a part, for slow machines.
 *
 * The targets are those of the law's study. Models that nobody tuned for have their own: turns of 0.5 and 30 ms leave few batches
 * uninterrupted or none, and shares drift by points. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../simulator/engine.h"
#include "throttle.h"

#define MS 1000000
#define SECOND 1000000000ll
#define MOST 72
#define QUEUED 4096

struct cell {
    const char *name;
    double kernel_us, limit;
    int processes;
    const char *pattern, *other;        /* saturate flood late drift irregular mixed; none saturating onoff twin */
    const char *nvml;                   /* 1s fast sparse none late */
    double turn_ms, low, high;          /* allowed error of the 10 s share, points */
    double other_low, other_high;       /* the twin's */
    int kills;
};

struct process {
    int container, queue, alive;
    int64_t next, left, since;          /* since: start of what runs */
    int kernel, round;
    struct throttle t;
    _Atomic int64_t hold;
    struct batch flying[QUEUED], done[QUEUED];
    unsigned first, count, finished;
    int64_t last_end, mark;
    int waiting;                        /* for its queue to run dry */
};

static struct sim_engine engine;
static struct sim_queue *queues;
static struct process *processes;
static int process_count;
static struct hami_device *devices;
static int64_t now;
static uint64_t dice;
static const struct cell *cell;

static double uniform(void)
{
    dice ^= dice << 13;
    dice ^= dice >> 7;
    dice ^= dice << 17;
    return (double)(dice >> 11) / 9007199254740992.0;
}

static double normal(void) { return sqrt(-2 * log(uniform() + 1e-12)) * cos(6.283185307 * uniform()); }

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

static void advance(void) { engine_advance(&engine, queues, now, done, NULL); }

static double limit_of(int container)
{
    if (container == 0)
        return cell->limit;
    return strcmp(cell->other, "twin") == 0 ? 100 - cell->limit : 100;
}

static int limited(int container) { return container == 0 || strcmp(cell->other, "twin") == 0; }
static int is(const char *a, const char *b) { return strcmp(a, b) == 0; }

static double kernel_ns(const struct process *p, int long_one)
{
    double ns = cell->kernel_us * 1000;
    if (p->container == 1 && !is(cell->other, "twin"))
        return 500000;
    if (is(cell->pattern, "drift") && (now / (2 * SECOND)) % 2)
        ns *= 3;
    if (is(cell->pattern, "mixed"))
        ns = long_one ? 20.0 * MS : 5000;
    return ns;
}

static double noise(int64_t n)
{
    double spread = 0.1 / sqrt((double)n);
    if (is(cell->pattern, "irregular"))
        return exp(1.2 * normal() - 0.72);
    if (spread < 0.02)
        spread = 0.02;
    return exp(spread * normal()) * (1 + 0.08 * sin((double)now / 1e9 * 0.9));
}

/* One step of a program: launch some, wait for the law, or wait for the device. */
static void step(struct process *p)
{
    int mixed = is(cell->pattern, "mixed") && limited(p->container), long_one = mixed && p->round % 2;
    double ns = kernel_ns(p, long_one);
    if (p->waiting) {
        p->next = queues[p->queue].head == queues[p->queue].tail ? now : INT64_MAX;
        if (p->next == INT64_MAX)
            return;
        p->waiting = 0;
    }
    int other = p->container == 1 && !is(cell->other, "twin");
    if (is(cell->pattern, "late") && !other && now < 3 * SECOND) {
        p->next = 3 * SECOND;
        return;
    }
    if (other && is(cell->other, "onoff") && (now / (3 * SECOND)) % 2) {
        p->next = (now / (3 * SECOND) + 1) * 3 * SECOND;
        return;
    }
    if (p->left <= 0) {
        p->left = mixed ? (long_one ? 1 : 200) : is(cell->pattern, "flood") || is(cell->pattern, "late") ? 1000 : (int64_t)fmax(1, 20 * MS / ns + 0.5);
        if (other)
            p->left = is(cell->other, "onoff") ? 8 : 40;
    }
    int64_t room = SIM_DEPTH - engine_pending(&queues[p->queue]);
    if (room <= 0) {
        p->next = now + 100000;
        return;
    }
    int64_t n = p->left < room ? p->left : room;
    if (n > 125)
        n = 125;
    uint32_t kind = 1000 + (uint32_t)long_one;
    int64_t price = 0;
    if (limited(p->container)) {
        price = throttle_price(&p->t, kind);
        int64_t most = price ? THROTTLE_BATCH / price : n, wait = 0, got = 0;
        if (most < 1)
            most = 1;
        if (n > most)
            n = most;
        while (got < n && throttle_take(&p->t, price))
            got++;
        if (!got && throttle_admit(&p->t, now, price, &wait))
            got = 1;
        if (!got) {
            p->next = now + wait;
            return;
        }
        n = got;
        throttle_flies(&p->t, kind, (int32_t)n, price);
    }
    struct sim_item item = {.left = (int64_t)(ns * noise(n) * (double)n), .each = (int64_t)ns, .count = (uint32_t)n, .cell = 0};
    p->flying[(p->first + p->count++) % QUEUED] = (struct batch){.part = {{kind, (uint32_t)n}}, .parts = 1, .price = n * price, .start = now};
    if (!engine_push(&engine, queues, (uint32_t)p->queue, now, item, done, NULL)) {
        fprintf(stderr, "grid: a queue is full\n");
        exit(2);
    }
    p->left -= n;
    p->next = now + n * 4000;
    if (p->left <= 0) {
        p->round++;
        p->waiting = other || !(is(cell->pattern, "flood") || is(cell->pattern, "late"));
    }
}

static void tick(int container)
{
    bool flying = false;
    struct throttle *last = NULL;
    for (int i = 0; i < process_count; i++) {
        struct process *p = &processes[i];
        if (p->container != container || !p->alive)
            continue;
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

static void sample(int64_t at, double window, int64_t *busy_before)
{
    uint32_t percent[2][MOST], count[2] = {0, 0};
    double total = 0;
    for (int i = 0; i < process_count; i++) {
        double use = 100.0 * (double)(queues[i].busy - busy_before[i]) / window;
        total += use;
        percent[processes[i].container][count[processes[i].container]++] = (uint32_t)(use + 1e-6);
    }
    for (int c = 0; c < 2; c++)
        for (int i = 0; i < process_count; i++)
            if (processes[i].container == c && processes[i].alive && limited(c)) {
                throttle_sample(&processes[i].t, at, percent[c], count[c], percent[1 - c], count[1 - c], (uint32_t)(total + 1e-6));
                break;
            }
}

static void start(unsigned seed)
{
    memset(queues, 0, MOST * sizeof *queues);
    memset(processes, 0, MOST * sizeof *processes);
    memset((void *)devices, 0, 2 * sizeof *devices);
    dice = 88172645463325252ull + seed * 7919;
    now = SECOND;                       /* a clock that is zero means "never" */
    engine_init(&engine, (int64_t)((cell->turn_ms ? cell->turn_ms : 2) * MS), SIM_SWITCH_NS, now);
    int others = is(cell->other, "none") ? 0 : is(cell->other, "twin") ? cell->processes : 1;
    process_count = cell->processes + others;
    for (int i = 0; i < process_count; i++) {
        struct process *p = &processes[i];
        p->queue = i;
        p->container = i >= cell->processes;
        p->alive = 1;
        p->next = now + (int64_t)(uniform() * 2 * MS);
        throttle_join(&p->t, &devices[p->container], &p->hold, (uint32_t)limit_of(p->container));
    }
}

struct result { double share, other, first, worst; };

static struct result run(unsigned seed)
{
    start(seed);
    int64_t began = now, ends = began + 12 * SECOND, warm = began + 2 * SECOND;
    int64_t window = is(cell->nvml, "fast") || is(cell->nvml, "sparse") ? SECOND / 6 : SECOND;
    int64_t period = is(cell->nvml, "fast") ? SECOND / 6 : SECOND, late = is(cell->nvml, "fast") ? 50 * MS : is(cell->nvml, "late") ? 400 * MS : 200 * MS;
    int64_t next_tick[2] = {now, now + MS}, open_at = now + (int64_t)(uniform() * (double)period), close_at = INT64_MAX, tell_at = INT64_MAX, told = 0;
    int64_t before[MOST], snapshot[MOST], told_before[MOST], base[2] = {0, 0}, second_base = 0, next_second = warm, next_kill = now + SECOND;
    struct result r = {0, 0, 0, 0};
    if (is(cell->nvml, "none"))
        open_at = INT64_MAX;
    if (cell->kernel_us * 22 / cell->limit * 100 > 12e6)
        ends = began + (int64_t)(cell->kernel_us * 22 / cell->limit * 100 * 1000) + 2 * SECOND;
    bool warmed = false, first = false;
    while (now < ends) {
        int64_t next = engine_next(&engine, queues);
        for (int i = 0; i < process_count; i++)
            if (processes[i].alive && processes[i].next < next)
                next = processes[i].next;
        for (int c = 0; c < 2; c++)
            if (next_tick[c] < next)
                next = next_tick[c];
        int64_t times[] = {open_at, close_at, tell_at, warm > now ? warm : INT64_MAX, began + SECOND > now ? began + SECOND : INT64_MAX, next_second, ends};
        for (unsigned i = 0; i < sizeof times / sizeof *times; i++)
            if (times[i] < next)
                next = times[i];
        now = next > now ? next : now;
        advance();
        int64_t busy[2] = {0, 0};
        for (int i = 0; i < process_count; i++)
            busy[processes[i].container] += queues[i].busy;
        if (!first && now >= began + SECOND) {
            r.first = 100.0 * (double)busy[0] / SECOND;
            first = true;
        }
        if (!warmed && now >= warm) {
            base[0] = second_base = busy[0];
            base[1] = busy[1];
            warmed = true;
            next_second = now + SECOND;
        } else if (now >= next_second) {
            double off = 100.0 * (double)(busy[0] - second_base) / SECOND - cell->limit;
            if (fabs(off) > fabs(r.worst))
                r.worst = off;
            second_base = busy[0];
            next_second = now + SECOND;
        }
        if (now >= close_at) {
            for (int i = 0; i < process_count; i++) {
                snapshot[i] = queues[i].busy;
                told_before[i] = before[i];
            }
            told = now;
            close_at = INT64_MAX;
            tell_at = now + late;
        }
        if (now >= open_at) {
            for (int i = 0; i < process_count; i++)
                before[i] = queues[i].busy;
            close_at = now + window;
            open_at += period;
        }
        if (now >= tell_at) {
            int64_t real[MOST];
            for (int i = 0; i < process_count; i++) {
                real[i] = queues[i].busy;
                queues[i].busy = snapshot[i];
            }
            sample(told, (double)window, told_before);
            for (int i = 0; i < process_count; i++)
                queues[i].busy = real[i];
            tell_at = INT64_MAX;
        }
        for (int c = 0; c < 2; c++)
            if (now >= next_tick[c]) {
                next_tick[c] = now + 2 * MS;
                if (limited(c))
                    tick(c);
            }
        if (cell->kills && now >= next_kill) {  /* one dies with what it holds; another takes its place */
            int victim = (int)(uniform() * cell->processes);
            struct process *p = &processes[victim];
            engine_drop(&engine, queues, (uint32_t)p->queue, now);
            atomic_fetch_add(&devices[0].credit, p->hold);      /* the reaper */
            p->hold = 0;
            p->count = p->finished = 0;
            p->left = p->waiting = 0;
            throttle_join(&p->t, &devices[0], &p->hold, (uint32_t)limit_of(0));
            p->next = now + 5 * MS;
            next_kill += SECOND;
        }
        for (int i = 0; i < process_count; i++)
            if (processes[i].alive && (now >= processes[i].next || (processes[i].waiting && queues[i].head == queues[i].tail))) {
                processes[i].next = now;
                step(&processes[i]);
            }
    }
    int64_t busy[2] = {0, 0};
    for (int i = 0; i < process_count; i++)
        busy[processes[i].container] += queues[i].busy;
    r.share = 100.0 * (double)(busy[0] - base[0]) / (double)(now - warm);
    r.other = 100.0 * (double)(busy[1] - base[1]) / (double)(now - warm);
    return r;
}

static int failures, cells;

static void check(struct cell c)
{
    cell = &c;
    if (!c.other)
        c.other = "none";
    if (!c.pattern)
        c.pattern = "saturate";
    if (!c.nvml)
        c.nvml = "1s";
    struct result r = run(1);
    double quantum = c.kernel_us > 10000 ? 100 * c.kernel_us / fmax(10e6, c.kernel_us * 22 / c.limit * 100) : 0;
    double off = r.share - c.limit;
    bool good = off >= c.low - quantum && off <= c.high + quantum;
    if (c.other_high)
        good = good && r.other - (100 - c.limit) >= c.other_low && r.other - (100 - c.limit) <= c.other_high;
    if (is(c.pattern, "late"))
        good = good && true;
    cells++;
    failures += !good;
    printf("%-30s %8.0f us %3.0f %% x%-2d %-9s %-10s %-6s turn %-4.1f share %6.2f (%+.1f..%+.1f) other %6.2f first %6.2f 1s %+6.1f %s\n", c.name, c.kernel_us,
        c.limit, c.processes, c.pattern, c.other, c.nvml, c.turn_ms ? c.turn_ms : 2, r.share, c.low, c.high, r.other, r.first, r.worst, good ? "" : "FAILS");
    fflush(stdout);
}

int main(int argc, char **argv)
{
    queues = calloc(MOST, sizeof *queues);
    processes = calloc(MOST, sizeof *processes);
    devices = aligned_alloc(64, 2 * sizeof *devices);
    const double limits[] = {5, 10, 30, 50, 70, 90}, kernels[] = {5, 50, 500, 5000, 50000};
    const int counts[] = {1, 4, 16};
    bool all = argc < 2 || strcmp(argv[1], "few") != 0;
    for (unsigned l = 0; l < 6; l++)
        for (unsigned k = all ? 0 : 1; k < 5; k++)
            for (unsigned n = 0; n < (all ? 3u : 1u); n++) {
                if (k == 0 && (n || l % 2))
                    continue;           /* many events, little news */
                check((struct cell){.name = "alone", .kernel_us = kernels[k], .limit = limits[l], .processes = counts[n], .low = -1.5, .high = 1.5});
            }
    for (unsigned l = 1; l < 5; l++) {
        check((struct cell){.name = "alone, long", .kernel_us = 500000, .limit = limits[l], .processes = 1, .low = -2, .high = 2});
        check((struct cell){.name = "alone, longest", .kernel_us = 2000000, .limit = limits[l], .processes = 1, .low = -2, .high = 2});
    }
    check((struct cell){.name = "64 processes", .kernel_us = 500, .limit = 30, .processes = 64, .low = -1.5, .high = 1.5});
    for (unsigned l = 1; l < 3; l++)
        for (unsigned n = 0; n < 2; n++) {
            check((struct cell){.name = "neighbour", .kernel_us = 50, .limit = limits[l], .processes = counts[n], .other = "saturating", .low = -1.5, .high = 1.5});
            check((struct cell){.name = "neighbour", .kernel_us = 500, .limit = limits[l], .processes = counts[n], .other = "saturating", .low = -1.5, .high = 1.5});
            check((struct cell){.name = "neighbour", .kernel_us = 5000, .limit = limits[l], .processes = counts[n], .other = "saturating", .low = -2, .high = 2});
            check((struct cell){.name = "neighbour", .kernel_us = 50000, .limit = limits[l], .processes = counts[n], .other = "saturating", .low = -2, .high = 2});
            check((struct cell){.name = "comes and goes", .kernel_us = 500, .limit = limits[l], .processes = counts[n], .other = "onoff", .low = -2, .high = 2});
            check((struct cell){.name = "comes and goes", .kernel_us = 5000, .limit = limits[l], .processes = counts[n], .other = "onoff", .low = -6, .high = 6});
            check((struct cell){.name = "twins", .kernel_us = 500, .limit = limits[l], .processes = counts[n], .other = "twin", .low = -1.5, .high = 1.5, .other_low = -3, .other_high = 1.5});
            check((struct cell){.name = "twins", .kernel_us = 5000, .limit = limits[l], .processes = counts[n], .other = "twin", .low = -3, .high = 3, .other_low = -5, .other_high = 3});
        }
    for (unsigned l = 1; l < 5; l++) {
        check((struct cell){.name = "flood", .kernel_us = 500, .limit = limits[l], .processes = 1, .pattern = "flood", .low = -1.5, .high = 1.5});
        check((struct cell){.name = "short and long", .kernel_us = 500, .limit = limits[l], .processes = 1, .pattern = "mixed", .low = -1.5, .high = 1.5});
        check((struct cell){.name = "irregular", .kernel_us = 500, .limit = limits[l], .processes = 1, .pattern = "irregular", .low = -1.5, .high = 1.5});
        check((struct cell){.name = "durations x 3 every 2 s", .kernel_us = 500, .limit = limits[l], .processes = 1, .pattern = "drift", .low = -2, .high = 2});
        check((struct cell){.name = "durations x 3 every 2 s", .kernel_us = 5000, .limit = limits[l], .processes = 1, .pattern = "drift", .low = -2, .high = 2});
        check((struct cell){.name = "durations x 3 every 2 s", .kernel_us = 50000, .limit = limits[l], .processes = 1, .pattern = "drift", .low = -2, .high = 2});
        check((struct cell){.name = "no samples", .kernel_us = 500, .limit = limits[l], .processes = 1, .nvml = "none", .low = -1.5, .high = 1.5});
        check((struct cell){.name = "late samples", .kernel_us = 500, .limit = limits[l], .processes = 1, .nvml = "late", .low = -1.5, .high = 1.5});
    }
    check((struct cell){.name = "drift beside a neighbour", .kernel_us = 500, .limit = 30, .processes = 1, .pattern = "drift", .other = "saturating", .low = -3, .high = 3});
    for (unsigned i = 0; i < 3; i++) {
        double turn = i == 0 ? 0.5 : i == 1 ? 6 : 30, far = i == 1 ? 0 : 1;
        check((struct cell){.name = "turn", .kernel_us = 500, .limit = 30, .processes = 1, .other = "saturating", .turn_ms = turn, .low = -2 - 2 * far, .high = 2 + 2 * far});
        check((struct cell){.name = "turn", .kernel_us = 5000, .limit = 30, .processes = 1, .other = "saturating", .turn_ms = turn, .low = -4, .high = 4});
        check((struct cell){.name = "turn", .kernel_us = 500, .limit = 30, .processes = 4, .other = "twin", .turn_ms = turn, .low = -3 - 4 * far, .high = 3,
            .other_low = -5 - 7 * far, .other_high = 3});
    }
    for (unsigned n = 1; n < 3; n++) {
        check((struct cell){.name = "no samples, several", .kernel_us = 2000, .limit = 30, .processes = counts[n], .pattern = "flood", .nvml = "none", .low = -1.5, .high = 1.5});
        check((struct cell){.name = "no samples, several", .kernel_us = 5000, .limit = 30, .processes = counts[n], .pattern = "flood", .nvml = "none", .low = -1.5, .high = 1.5});
    }
    check((struct cell){.name = "one dies each second", .kernel_us = 500, .limit = 30, .processes = 16, .kills = 1, .low = -2, .high = 2});
    printf("%d of %d cells outside their target\n", failures, cells);
    return failures != 0;
}
