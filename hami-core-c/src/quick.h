/* The way of a launch that is neither the first of its kind in a batch nor the one that exhausts what was paid: no lock, no clock, no
 * question. Everything else takes pacer_ask and pacer_tell. */
#ifndef HAMI_QUICK_H
#define HAMI_QUICK_H

#include "runtime.h"

#define KNOWN 64
extern _Thread_local struct known known_launches[KNOWN] __attribute__((visibility("hidden"), tls_model("initial-exec")));
/* This thread's run, for one context as it was when so many contexts had ended. */
extern _Thread_local struct { struct pacer_run *run; CUcontext context; uint32_t ended; } own_run
    __attribute__((visibility("hidden"), tls_model("initial-exec")));

/* The monitor blocks with a negative number, another one each round, and counts a positive one down; every launch shows that
 * somebody works here. */
static inline void show_activity(struct process *p)
{
    if (__builtin_expect(atomic_load_explicit(&p->state.region->recent_kernel, memory_order_relaxed) != 2, 0))
        pacer_show_activity(p);
}

static inline struct known *known_of(CUfunction f, uint64_t grid, uint64_t stream)
{
    uint64_t x = ((uint64_t)(uintptr_t)f ^ grid << 7 ^ stream) * UINT64_C(0x9e3779b97f4a7c15);
    return &known_launches[x >> 58];
}

static inline bool is_known(const struct known *k, CUfunction f, uint64_t grid, uint64_t stream)
{
    return k->f == f && k->grid == grid && k->stream == stream && k->kind;
}

/* True: paid, to be counted in out->part. */
static inline bool quick_ask(struct process *p, const struct driver *d, const struct known *k, struct permit *out)
{
    struct pacer_run *run = own_run.run;
    const struct hami_region *r = p->state.region;
    struct place at;
    if (!run || k->epoch != atomic_load_explicit(&run->epoch, memory_order_relaxed) ||
        atomic_load_explicit(&r->recent_kernel, memory_order_relaxed) != 2 ||
        !atomic_load_explicit(&r->utilization_switch, memory_order_relaxed) ||
        atomic_load_explicit(&p->state.capturing, memory_order_relaxed) || !place_now(p, d, &at) || at.context != own_run.context ||
        own_run.ended != atomic_load_explicit(&places_ended, memory_order_relaxed))
        return false;
    struct pacer_part *part = k->part;
    if (!private_enter(&run->privilege))
        return false;
    int64_t left = atomic_load_explicit(&run->purse, memory_order_relaxed) - part->price;
    if (__builtin_expect(left >= 0, 1))
        atomic_store_explicit(&run->purse, left, memory_order_relaxed);
    private_leave(&run->privilege);
    out->part = part;
    return left >= 0;
}

static inline void quick_tell(struct process *p, const struct permit *permit, CUresult status)
{
    struct pacer_part *part = permit->part;
    if (__builtin_expect(status != CUDA_SUCCESS, 0)) {
        pacer_undo(p, part->price);
        return;
    }
    atomic_store_explicit(&part->made, atomic_load_explicit(&part->made, memory_order_relaxed) + 1, memory_order_relaxed);
    if (__builtin_expect(atomic_load_explicit(&p->settler_sleeps, memory_order_relaxed), 0))
        pacer_wake(p);
}

#endif
