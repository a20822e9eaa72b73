/* What belongs to one process: a page that the kernel gives to children as zeros (fork and raw clone alike), so nothing inherited is
 * ever taken for one's own, and no at-fork handler has to run in time. */
#ifndef HAMI_PROCESS_H
#define HAMI_PROCESS_H

#include <stddef.h>

#include "latch.h"
#include "pacer.h"
#include "pointers.h"
#include "state.h"

struct process {
    _Atomic uint32_t stage;         /* enum stage; 0 in a fresh child */
    struct latch starting;          /* rank 1: held while the process attaches */
    struct latch tables;            /* rank 2: a driver's table is being filled */
    struct latch pools;             /* rank 3: sums of pools */
    struct state state;             /* valid from STAGE_READY on */
    struct pointers pointers;       /* latches of rank 4 inside */
    _Atomic uint32_t ends;          /* the program exits: the driver may be gone at any moment */
    _Atomic uint32_t settler, settler_sleeps;       /* its thread runs; it waits for launches */
    _Atomic uint32_t run_count;     /* of runs[] in use */
    struct pacer_run runs[PACER_RUNS];
    struct pacer pacers[HAMI_DEVICES];
};

extern _Atomic(struct process *) process_mine __attribute__((visibility("hidden")));
struct process *process_make(void);
/* Never NULL, except where even one page cannot be had. Safe at any time. */
static inline struct process *process(void)
{
    struct process *p = atomic_load_explicit(&process_mine, memory_order_acquire);
    return __builtin_expect(p != NULL, 1) ? p : process_make();
}
/* NULL where nothing of ours ever ran. */
struct process *process_if_any(void);

#endif
