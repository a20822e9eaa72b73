/* A lock that is free of charge while one thread alone uses it. Its first user, the owner, goes in by plain stores; only when another
 * thread comes are both made to meet, by a barrier that the kernel puts into every running thread.
 *
 * struct bias: the first stranger ends the owner's privilege for good, and latches are used from then on.
 * struct private: the owner keeps its privilege; strangers shut it out for as long as they look. */
#ifndef HAMI_BIAS_H
#define HAMI_BIAS_H

#include <stdbool.h>

#include "latch.h"

static inline uintptr_t this_thread(void) { return (uintptr_t)__builtin_thread_pointer(); }

/* Whether the kernel has that barrier; without it nobody is privileged. May be asked in any thread. */
bool bias_possible(void);
/* Tell the kernel now that the barrier will be asked for: in a process with one thread that takes no time. */
void bias_prepare(void);
/* What every thread of this process stored before is seen after. Microseconds. */
void bias_barrier(void);

struct private {
    _Atomic uint32_t inside, shut;
};

/* For the owner alone. True: inside, until private_leave. False: a stranger looks; take the latch that it holds. */
static inline bool private_enter(struct private *p)
{
    atomic_store_explicit(&p->inside, 1, memory_order_relaxed);
    atomic_signal_fence(memory_order_seq_cst);      /* the processor may swap these two: bias_barrier is the other half */
    if (__builtin_expect(!atomic_load_explicit(&p->shut, memory_order_acquire), 1))
        return true;
    atomic_store_explicit(&p->inside, 0, memory_order_release);
    return false;
}

static inline void private_leave(struct private *p) { atomic_store_explicit(&p->inside, 0, memory_order_release); }

/* For strangers, one at a time: after private_shut the owner is outside and stays there until private_open. */
void private_shut(struct private *p);
static inline void private_open(struct private *p) { atomic_store_explicit(&p->shut, 0, memory_order_release); }

enum { BIAS_ON, BIAS_ENDS, BIAS_OVER };

struct bias {
    struct private privilege;
    _Atomic uintptr_t owner;        /* its thread pointer; 0 = nobody came yet */
    _Atomic uint32_t stage;
    struct latch ending;
};

bool bias_slowly(struct bias *b);

/* Enter what a latch guards. True: as the owner; false: by the latch. Not to be nested under one bias. */
static inline bool bias_enter(struct bias *b, struct latch *l)
{
    if (__builtin_expect(atomic_load_explicit(&b->owner, memory_order_relaxed) == this_thread(), 1) && private_enter(&b->privilege))
        return true;
    if (bias_slowly(b))
        return true;
    latch_take(l);
    return false;
}

static inline void bias_leave(struct bias *b, struct latch *l, bool owner)
{
    if (__builtin_expect(owner, 1))
        private_leave(&b->privilege);
    else
        latch_leave(l);
}

#endif
