/* Numbered steps of the protocols, as in tests/model/owner_word.py. A test build can stop, yield or be killed at each; the shipped
 * one has nothing here. */
#ifndef HAMI_STEPS_H
#define HAMI_STEPS_H

enum step {
    STEP_LOCK = 1,      /* try the owner word */
    STEP_ASK,           /* ask the kernel about the owner */
    STEP_TAKE_OVER,     /* owner word: from the dead one to us */
    STEP_ZERO,          /* zero one dead slot */
    STEP_RECOUNT,       /* used := sum of the living */
    STEP_CHECK,         /* fits? */
    STEP_SLOT_UP,
    STEP_USED_UP,
    STEP_UNLOCK,
    STEP_DRIVER,        /* outside: the driver's own work */
    STEP_USED_DOWN,
    STEP_SLOT_DOWN,
    STEP_CLAIM,         /* the byte is ours */
    STEP_EPOCH,         /* a new epoch for the slot */
    STEP_INHERIT,       /* numbers of the slot's last user go */
    STEP_ANNOUNCE,      /* pid and status */
    STEP_LEAVE,         /* status; the byte and the numbers go with the process */
    STEP_COUNT
};

#ifdef HAMI_STEPS
extern void (*hami_step)(enum step step);
extern long long hami_patience_ns;  /* how long a stopped owner is waited for */
#define STEP(number) do { if (hami_step) hami_step(number); } while (0)
#else
#define STEP(number) ((void)0)
#endif

#endif
