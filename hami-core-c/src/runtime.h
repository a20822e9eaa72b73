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

static inline bool place_of(struct process *p, CUdevice ordinal, struct place *out)
{
    *out = (struct place){.device = -1, .ordinal = ordinal};
    if (ordinal < 0 || ordinal >= ORDINALS)
        return false;
    out->device = p->state.index_of[ordinal];
    return out->device >= 0;
}

/* What a thread knows of its current context: good as long as nothing changed it (driver not NULL) and no context ended. Programs
 * change it by functions that we stand in for; where a program has private tables of the driver, it is asked each time. */
struct here { const struct driver *driver; CUcontext context; CUdevice ordinal; uint32_t ended; };
extern _Thread_local struct here here __attribute__((visibility("hidden"), tls_model("initial-exec")));
extern _Atomic uint32_t places_ended __attribute__((visibility("hidden")));
bool place_ask(struct process *p, const struct driver *d, struct place *out);

/* Where a call of this thread would work. False: no context, or a device that is not ours to count. */
static inline bool place_now(struct process *p, const struct driver *d, struct place *out)
{
    if (__builtin_expect(here.driver != d || here.ended != atomic_load_explicit(&places_ended, memory_order_acquire), 0))
        return place_ask(p, d, out);
    out->context = here.context;
    out->ordinal = here.ordinal;
    out->device = (unsigned)here.ordinal < ORDINALS ? p->state.index_of[here.ordinal] : -1;
    return out->device >= 0;
}

/* This thread's current context may be another one now. */
static inline void place_changed(void) { here.driver = NULL; }
/* A context is gone: nobody may know its device any longer. */
void place_forget(void);
/* Contexts may change unseen from now on. */
void place_ask_always(void);

#endif
