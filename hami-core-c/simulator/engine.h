/* The time model: contexts of one device take turns. Pure: no clock, no lock, no pointer into itself, so it lives in shared
 * memory, in a test, or in a harness that runs on virtual time. Times are nanoseconds of whatever clock the caller keeps. */
#ifndef HAMI_SIM_ENGINE_H
#define HAMI_SIM_ENGINE_H

#include <stdint.h>

#define SIM_ITEMS 2048u     /* entries of one context's queue: launches and markers */
#define SIM_DEPTH 1024u     /* launches that may be pending in a context; the next one waits */
#define SIM_RING 2048u      /* contexts that may wait for one device */
#define SIM_NO_CELL 0xffffffffu

#define SIM_SLICE_NS 2000000
#define SIM_SWITCH_NS 50000

struct sim_item {
    int64_t left;           /* device time still to do; 0 for a marker */
    int64_t each;           /* device time of one of its launches */
    uint32_t count;         /* launches; 0 for a marker */
    uint32_t cell;          /* where the end is to be noted, or SIM_NO_CELL */
};

struct sim_queue {          /* one context's work, first in first out; zeroed is empty */
    uint64_t head, tail;    /* tickets: items [head, tail) are unfinished; item of ticket t lies at t % SIM_ITEMS */
    int64_t work;           /* sum of what is left */
    int64_t busy;           /* device time it has had */
    uint32_t launches;      /* launches in unfinished items */
    uint32_t in_ring;
    struct sim_item items[SIM_ITEMS];
};

struct sim_engine {
    int64_t slice, switching;
    int64_t last;           /* the books are up to here */
    int64_t run_from, turn_end;
    int64_t busy;           /* device time of all contexts */
    int32_t current;        /* queue that runs, or -1 */
    uint32_t first, waiting;
    int32_t ring[SIM_RING];
};

/* Called for every finished item, in order of time. */
typedef void (*engine_done)(void *who, uint32_t queue, const struct sim_item *item, int64_t at);

void engine_init(struct sim_engine *e, int64_t slice, int64_t switching, int64_t now);
void engine_advance(struct sim_engine *e, struct sim_queue *queues, int64_t now, engine_done done, void *who);
/* Append; the caller has advanced to now. Returns the ticket, or 0 when the queue has no room (tickets count from 1). */
uint64_t engine_push(struct sim_engine *e, struct sim_queue *queues, uint32_t queue, int64_t now, struct sim_item item,
                     engine_done done, void *who);
uint32_t engine_pending(const struct sim_queue *q);
/* Earliest time at which the ticket can be done if nobody else pushes; at or before the true one. */
int64_t engine_estimate(const struct sim_engine *e, const struct sim_queue *queues, uint32_t queue, uint64_t ticket);
/* Next time at which anything happens on the device; INT64_MAX when it is idle. */
int64_t engine_next(const struct sim_engine *e, const struct sim_queue *queues);
/* Throw a queue's work away, as when its context or process ends. */
void engine_drop(struct sim_engine *e, struct sim_queue *queues, uint32_t queue, int64_t now);
/* Make the sums true again after a process was killed in the middle of a change. */
void engine_repair(struct sim_engine *e, struct sim_queue *queues, const uint32_t *used, uint32_t count);

#endif
