/* Who holds how many bytes of each device, exact under SIGKILL. Pure: works on memory it is given and asks a callback who lives.
 *
 * Per device an owner word excludes everybody else. Its holder may die at any step; the kernel is asked, and whoever takes over
 * counts anew what the living hold. The driver is never called inside. Slot numbers tell what a process holds; `used` is their
 * sum, so that a check reads one word. */
#ifndef HAMI_LEDGER_H
#define HAMI_LEDGER_H

#include <stdbool.h>

#include "hami/region.h"

enum charge { CHARGE_CONTEXT, CHARGE_MODULE, CHARGE_DATA, CHARGES };
enum verdict { VERDICT_DONE, VERDICT_FULL, VERDICT_STUCK };

struct liveness {                   /* who lives, asked in rounds; begin answers -1 when nobody can be asked */
    int (*begin)(void *who);
    bool (*alive)(int round, unsigned slot);
    void (*end)(int round);
    void *who;
};

struct ledger {
    struct hami_region *region;
    struct hami_extension *extension;
    unsigned slot;
    uint64_t name;                  /* what we write into owner words */
    struct liveness liveness;
    _Atomic uint64_t owed[HAMI_DEVICES][CHARGES];   /* returned while a word was stuck; goes with the next change */
    _Atomic uint64_t debt[HAMI_DEVICES];            /* held over the limit, of kind CHARGE_MODULE */
    _Atomic uint32_t owes[HAMI_DEVICES];            /* some of the above is not 0 */
};

/* Our byte is held. Drop what the slot's last user left behind, also its owner words, and appear as in use. Any thread, once. */
void ledger_claim(struct ledger *l, int32_t pid);
/* This process is about to end: appear as not in use. What it holds is the card's until its last descriptor is closed, and stays in
 * the sums until the kernel says that it is gone. Waits for nobody. */
void ledger_leave(struct ledger *l);
/* Add bytes unless the device's sum would pass the limit; counts the living before it refuses. Any thread, not in a signal handler. */
enum verdict ledger_reserve(struct ledger *l, unsigned device, enum charge kind, uint64_t bytes, uint64_t limit);
/* Take bytes back. Never fails: what cannot be written now is owed. */
void ledger_return(struct ledger *l, unsigned device, enum charge kind, uint64_t bytes);
/* Something came that could not be refused and that the limit has no room for. It is charged as soon as it has; until then every
 * reservation is refused. */
void ledger_owe(struct ledger *l, unsigned device, uint64_t bytes);
/* So much of what was once owed is gone, whether it was charged meanwhile or not. */
void ledger_forgive(struct ledger *l, unsigned device, uint64_t bytes);
/* Count the living now. */
void ledger_reap(struct ledger *l, unsigned device);
/* Bytes held by the container. Two loads; where somebody has ended, the living are counted first. */
uint64_t ledger_used(struct ledger *l, unsigned device);
/* The same for people and programs that plan by it: where there are others, the living are counted a few times a second. */
uint64_t ledger_told(struct ledger *l, unsigned device);
/* Take and leave a device's owner word, for changes to its shares. */
bool ledger_lock(struct ledger *l, unsigned device);
void ledger_unlock(struct ledger *l, unsigned device);
/* Inside: sum the living, zeroing the dead and passing on what they shared. */
void ledger_recount(struct ledger *l, unsigned device);
/* Make a block of ours one that others may hold: its bytes move from `data` to a share we bear. -1: no room. */
int ledger_share(struct ledger *l, unsigned device, uint64_t key, uint64_t bytes, bool by_descriptor);
/* Hold a share that somebody made: by its key, or (key 0) by its size. -1: there is none, it must be charged. */
int ledger_share_join(struct ledger *l, unsigned device, uint64_t key, uint64_t bytes);
/* No longer hold it; another holder bears it then, or the container where a descriptor may keep it. */
void ledger_share_leave(struct ledger *l, unsigned device, int share);
/* The whole card holds no more than this: shares that nobody holds and that do not fit in it are gone. */
void ledger_settle_orphans(struct ledger *l, unsigned device, uint64_t card_used);
/* Inside: change what a slot says; `used` is the caller's business. */
void ledger_slot_add(struct ledger *l, unsigned slot, unsigned device, enum charge kind, int64_t bytes);

#endif
