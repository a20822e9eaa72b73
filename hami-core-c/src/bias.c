#include "bias.h"

#include <linux/membarrier.h>
#include <sched.h>

#define BIAS_NOBODY 1                   /* no thread pointer; from then on nobody is the owner */
#if defined(__SANITIZE_THREAD__)
#define WATCHED 1                       /* the sanitizer knows no such barrier */
#else
#define WATCHED 0
#endif

bool bias_possible(void)
{
    static _Atomic uint32_t known;      /* 1 no, 2 yes */
    uint32_t answer = atomic_load_explicit(&known, memory_order_relaxed);
    if (answer)
        return answer == 2;
    long offered = WATCHED ? 0 : syscall(SYS_membarrier, MEMBARRIER_CMD_QUERY, 0);
    answer = offered > 0 && offered & MEMBARRIER_CMD_PRIVATE_EXPEDITED ? 2 : 1;
    atomic_store_explicit(&known, answer, memory_order_relaxed);
    return answer == 2;
}

void bias_prepare(void)
{
    if (bias_possible())
        syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0);
}

void bias_barrier(void)
{
    if (syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0) == 0)
        return;
    /* Not prepared. Should a filter have come in between that forbids it: nothing stays in a
     * processor's store buffer for so long. */
    if (syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0) != 0 ||
        syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0) != 0)
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
}

void private_shut(struct private *p)
{
    atomic_store_explicit(&p->shut, 1, memory_order_seq_cst);
    bias_barrier();
    for (int i = 0; atomic_load_explicit(&p->inside, memory_order_acquire); i++) {
        if (i < 64)
            cpu_pause();
        else
            sched_yield();
    }
}

/* True: we are the owner now, and inside. False: nobody is, and nobody will be. */
bool bias_slowly(struct bias *b)
{
    uint32_t stage = atomic_load_explicit(&b->stage, memory_order_acquire);
    if (__builtin_expect(stage == BIAS_OVER, 1))
        return false;
    uintptr_t nobody = 0;
    if (stage == BIAS_ON && bias_possible() && atomic_compare_exchange_strong(&b->owner, &nobody, this_thread()) &&
        private_enter(&b->privilege))
        return true;
    latch_take(&b->ending);
    nobody = 0;
    if (atomic_load_explicit(&b->stage, memory_order_acquire) != BIAS_OVER) {
        atomic_store_explicit(&b->stage, BIAS_ENDS, memory_order_relaxed);
        if (!atomic_compare_exchange_strong(&b->owner, &nobody, BIAS_NOBODY))
            private_shut(&b->privilege);
        atomic_store_explicit(&b->owner, BIAS_NOBODY, memory_order_relaxed);
        atomic_store_explicit(&b->stage, BIAS_OVER, memory_order_release);
    }
    latch_leave(&b->ending);
    return false;
}
