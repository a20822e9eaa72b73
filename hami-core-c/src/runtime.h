/* This process and its place in the container: attached at cuInit, or at the first call that needs it. */
#ifndef HAMI_RUNTIME_H
#define HAMI_RUNTIME_H

#include "process.h"
#include "symbols.h"

enum stage { STAGE_FRESH, STAGE_READY, STAGE_OPEN, STAGE_CLOSED };

/* Decide and attach; the same answer ever after. Takes process.starting (rank 1). */
enum stage runtime_start(void);
/* Learn which ordinal of this driver is which device of the region. After the driver's own initialisation. */
void runtime_map(struct process *p, const struct driver *d);
enum stage runtime_stage_slowly(const struct driver *d);

/* Stage of this process; attaches a process whose driver is in use already. One load when that is done. */
static inline enum stage runtime_stage(struct process **p, const struct driver *d)
{
    *p = process();
    if (!*p)
        return STAGE_CLOSED;
    uint32_t stage = atomic_load_explicit(&(*p)->stage, memory_order_acquire);
    if (__builtin_expect(stage == STAGE_READY && atomic_load_explicit(&(*p)->state.mapped, memory_order_acquire), 1))
        return STAGE_READY;
    return stage == STAGE_OPEN || stage == STAGE_CLOSED ? (enum stage)stage : runtime_stage_slowly(d);
}

struct place { int device; CUdevice ordinal; CUcontext context; };  /* device: index in the region */
/* Where a call of this thread would work. False: no context, or a device that is not ours to count. */
bool place_now(struct process *p, const struct driver *d, struct place *out);
bool place_of(struct process *p, CUdevice ordinal, struct place *out);
/* A context is gone: nobody may know its device any longer. */
void place_forget(void);

#endif
