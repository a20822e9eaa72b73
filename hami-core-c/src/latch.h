/* A lock of one process: a word, a few spins, then the kernel. Zero is free. Latches live in memory that a child finds zeroed, so a
 * fork in the middle leaves none locked. Nothing but short pieces of our own code runs inside. */
#ifndef HAMI_LATCH_H
#define HAMI_LATCH_H

#include <linux/futex.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

struct latch { _Atomic uint32_t word; };     /* 0 free, 1 taken, 2 taken and somebody waits */

static inline void cpu_pause(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static inline long futex_wait(_Atomic uint32_t *word, uint32_t seen, const struct timespec *timeout, int shared)
{
    return syscall(SYS_futex, word, shared ? FUTEX_WAIT : FUTEX_WAIT_PRIVATE, seen, timeout, NULL, 0);
}

static inline long futex_wake(_Atomic uint32_t *word, int count, int shared)
{
    return syscall(SYS_futex, word, shared ? FUTEX_WAKE : FUTEX_WAKE_PRIVATE, count, NULL, NULL, 0);
}

static inline void latch_take(struct latch *l)
{
    uint32_t free = 0;
    for (int i = 0; i < 64; i++) {
        free = 0;
        if (atomic_compare_exchange_weak_explicit(&l->word, &free, 1, memory_order_acquire, memory_order_relaxed))
            return;
        cpu_pause();
    }
    while (atomic_exchange_explicit(&l->word, 2, memory_order_acquire) != 0)
        futex_wait(&l->word, 2, NULL, 0);
}

static inline void latch_leave(struct latch *l)
{
    if (atomic_exchange_explicit(&l->word, 0, memory_order_release) == 2)
        futex_wake(&l->word, 1, 0);
}

#endif
