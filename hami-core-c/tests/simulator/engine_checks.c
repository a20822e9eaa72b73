/* The time model by itself, in virtual time: clients of the study run against it, and what each one got is printed as JSON. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine.h"

#define MS INT64_C(1000000)
#define US INT64_C(1000)
#define LAUNCH (4 * US)
#define CHUNK (500 * US)
#define CLIENTS 16

struct client { int64_t kernel, wake; unsigned per_round, left, waiting; uint64_t ticket; int64_t began, longest, total, rounds; };

static struct sim_engine engine;
static struct sim_queue *queues;
static struct client clients[CLIENTS];

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* One client acts: launches a lump, or waits until its round is done. */
static void act(unsigned i, int64_t now)
{
    struct client *c = &clients[i];
    struct sim_queue *q = &queues[i];
    if (c->waiting && q->head < c->ticket)
        return;
    if (c->waiting) {
        int64_t took = now - c->began;
        c->waiting = 0;
        c->total += took;
        c->rounds++;
        if (took > c->longest)
            c->longest = took;
        c->left = c->per_round;
    }
    if (c->left == c->per_round)
        c->began = now;
    unsigned room = SIM_DEPTH - engine_pending(q), n = c->left;
    n = n > room ? room : n;
    n = n > CHUNK / LAUNCH ? (unsigned)(CHUNK / LAUNCH) : n;
    if (n) {
        struct sim_item item = {.left = n * c->kernel, .each = c->kernel, .count = n, .cell = SIM_NO_CELL};
        c->ticket = engine_push(&engine, queues, i, now, item, NULL, NULL);
        c->left -= n;
    }
    c->wake = now + (n ? n * LAUNCH : 100 * US);
    if (!c->left) {
        c->waiting = 1;
        c->wake = INT64_MAX;
    }
}

static void run(unsigned n, int64_t end)
{
    int64_t now = 0;
    while (now < end) {
        engine_advance(&engine, queues, now, NULL, NULL);
        for (unsigned i = 0; i < n; i++)
            if (clients[i].wake <= now || (clients[i].waiting && queues[i].head >= clients[i].ticket))
                act(i, now);
        int64_t next = engine_next(&engine, queues);
        for (unsigned i = 0; i < n; i++) {
            next = least(next, clients[i].wake);
            if (clients[i].waiting)
                next = least(next, engine_estimate(&engine, queues, i, clients[i].ticket));
        }
        now = next > now ? next : now + 1;
    }
    engine_advance(&engine, queues, end, NULL, NULL);
}

static void begin(const int64_t *kernels, const unsigned *rounds, unsigned n, int64_t slice)
{
    memset(queues, 0, CLIENTS * sizeof *queues);
    memset(clients, 0, sizeof clients);
    engine_init(&engine, slice, SIM_SWITCH_NS, 0);
    for (unsigned i = 0; i < n; i++) {
        clients[i].kernel = kernels[i];
        clients[i].per_round = clients[i].left = rounds[i];
        clients[i].wake = i * 137 * US;
    }
}

static double share(unsigned i, int64_t span)
{
    return 100.0 * (double)queues[i].busy / (double)span;
}

/* The same pushes, with the books brought up in steps of every size: nothing may depend on who looks when. */
static int steps_do_not_matter(void)
{
    int64_t busy[2][4];
    for (int round = 0; round < 2; round++) {
        memset(queues, 0, 4 * sizeof *queues);
        engine_init(&engine, SIM_SLICE_NS, SIM_SWITCH_NS, 0);
        srand(7);
        int64_t now = 0;
        for (int k = 0; k < 4000; k++) {
            int64_t next = now + rand() % (700 * US);
            int64_t work = 1 + rand() % (3 * MS);
            unsigned who = (unsigned)rand() % 4;
            unsigned look = (unsigned)rand() % 5;
            for (unsigned s = 1; round && s <= look; s++)
                engine_advance(&engine, queues, now + (next - now) * s / (look + 1), NULL, NULL);
            now = next;
            engine_advance(&engine, queues, now, NULL, NULL);
            if (queues[who].tail - queues[who].head < 8) {
                struct sim_item item = {.left = work, .each = work, .count = 1, .cell = SIM_NO_CELL};
                engine_push(&engine, queues, who, now, item, NULL, NULL);
            }
        }
        for (int i = 0; i < 4; i++)
            busy[round][i] = queues[i].busy;
    }
    return !memcmp(busy[0], busy[1], sizeof busy[0]);
}

int main(void)
{
    const int64_t span = 10000 * MS;
    queues = calloc(CLIENTS, sizeof *queues);
    if (!queues)
        return 1;
    int64_t half = 500 * US;
    int64_t same[5] = {half, half, half, half, half};
    unsigned rounds[5] = {40, 40, 40, 40, 40};
    begin(same, rounds, 1, SIM_SLICE_NS);
    run(1, span);
    printf("{\"alone\": %.3f, ", share(0, span));
    begin(same, rounds, 2, SIM_SLICE_NS);
    run(2, span);
    printf("\"two\": [%.3f, %.3f], ", share(0, span), share(1, span));
    begin(same, rounds, 5, SIM_SLICE_NS);
    run(5, span);
    printf("\"four_and_one\": [%.3f, %.3f], ", share(0, span) + share(1, span) + share(2, span) + share(3, span), share(4, span));
    int64_t mixed[2] = {50 * MS, half};
    unsigned once[2] = {1, 40};
    begin(mixed, once, 2, SIM_SLICE_NS);
    run(2, span);
    printf("\"long_kernel_ms\": %.3f, ", (double)clients[0].total / (double)clients[0].rounds / 1e6);
    int64_t tiny[2] = {5 * US, half};
    unsigned many[2] = {4000, 40};
    begin(tiny, many, 2, SIM_SLICE_NS);
    run(2, span);
    printf("\"tiny_beside\": [%.3f, %.3f], ", share(0, span), share(1, span));
    begin(same, rounds, 2, 6 * MS);
    run(2, span);
    printf("\"two_6ms\": [%.3f, %.3f], ", share(0, span), share(1, span));
    printf("\"steps\": %d}\n", steps_do_not_matter());
    return 0;
}
