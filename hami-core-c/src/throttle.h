/* Compute: a container's share of GPU time. Pure: the clock is an argument, memory is given, nothing is called.
 *
 * One credit per container and device, in nanoseconds of GPU time. It fills at the limit; a launch takes its price before it runs;
 * when its end is known the price is given back and what it really took is booked. What it really took is not the time between its
 * events, for others may have run in between; see throttle_tick. */
#ifndef HAMI_THROTTLE_H
#define HAMI_THROTTLE_H

#include <stdbool.h>

#include "hami/region.h"

#define THROTTLE_BURST 20000000     /* credit that can be saved; price of a container's very first launch */
#define THROTTLE_GUESS 2000000      /* price of a kind never seen before */
#define THROTTLE_BATCH 1000000      /* GPU time between two events */
#define BATCH_PARTS 6
#define FLYING_KINDS 128

struct batch {                      /* launches of one stream between two events */
    struct { uint32_t kind, count; } part[BATCH_PARTS];
    unsigned parts;
    int64_t price, start, end;      /* start: of its first launch, or the end of the batch before it */
    int64_t closed;                 /* when its last launch was on its way; 0: not looked */
};

struct flying { uint32_t kind, count, stretched, launches, batches; int64_t least; };     /* least: of a launch among the stretched ones */

struct throttle {                   /* of one process on one device */
    struct hami_device *d;
    _Atomic int64_t *slot_hold;
    uint32_t limit;                 /* parts per million of GPU time */
    int64_t hold, run, running, coloured;
    uint32_t seed, stretched;       /* stretched: batches in a row, none of them clean */
    struct flying flying[FLYING_KINDS];
};

void throttle_join(struct throttle *t, struct hami_device *d, _Atomic int64_t *slot_hold, uint32_t percent);
/* Price of a launch of this kind, now. */
int64_t throttle_price(const struct throttle *t, uint32_t kind);
/* A kind that nobody has seen is expected to take so many nanoseconds. */
void throttle_expect(struct throttle *t, uint32_t kind, int64_t ns);
/* Take the price, or say how long to wait before the next try; `since`: when it was asked for first. Any thread. */
bool throttle_admit(struct throttle *t, int64_t now, int64_t since, int64_t price, int64_t *wait);
/* The hot path's half of the above: true when the price is taken, false when throttle_admit must decide. */
static inline bool throttle_take(struct throttle *t, int64_t price)
{
    if (atomic_load_explicit(&t->d->closed, memory_order_relaxed) || atomic_load_explicit(&t->d->credit, memory_order_relaxed) <= 0)
        return false;
    if (atomic_fetch_sub_explicit(&t->d->credit, price, memory_order_relaxed) > 0)
        return true;
    atomic_fetch_add_explicit(&t->d->credit, price, memory_order_relaxed);
    return false;
}
/* Launches went to the driver, or did not after all (count negative). One thread at a time. */
void throttle_flies(struct throttle *t, uint32_t kind, int32_t count, int64_t price);
/* Settle batches that ended, oldest first, and the time of those that run. `outstanding`: what runs now began
 * then (0: nothing runs).
 * One thread at a time. */
void throttle_tick(struct throttle *t, int64_t now, const struct batch *done, unsigned count, int64_t outstanding);
/* A sample of the management library, taken at `at` over whatever it covers: percent of own processes, of others, of the device. */
void throttle_sample(struct throttle *t, int64_t at, const uint32_t *own, unsigned own_count, const uint32_t *others, unsigned other_count,
                     uint32_t total);
/* The sampler's page of the books; `in_flight`: any process of the container has launches in flight. */
void throttle_book(struct throttle *t, int64_t now, bool in_flight);

#endif
