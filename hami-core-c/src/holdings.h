/* Charging what the driver hands out. Bytes are the card's, not the program's: large blocks are whole granules, small ones share. */
#ifndef HAMI_HOLDINGS_H
#define HAMI_HOLDINGS_H

#include "runtime.h"

#define GRANULE (UINT64_C(2) << 20)
#define LARGEST_SHARED (UINT64_C(1) << 20)

enum held { HELD_BLOCK, HELD_SMALL, HELD_STREAM, HELD_IMPORT, HELD_SHARED, HELD_OWED, HELD_PART, HELD_NOTHING };

static inline uint64_t granules(uint64_t bytes)
{
    return bytes > UINT64_MAX - GRANULE ? bytes : (bytes + GRANULE - 1) & ~(GRANULE - 1);
}

/* Sums of pools and of small blocks. Nothing of the pointer table is touched inside. */
static inline bool pools_enter(struct process *p) { return bias_enter(&p->pointers.bias, &p->pools); }
static inline void pools_leave(struct process *p, bool owner) { bias_leave(&p->pointers.bias, &p->pools, owner); }

/* Pass calls of processes without limits on; refuse those of processes that must not run. */
#define GATE(p, next, forward)                                                                  \
    struct process *p;                                                                          \
    switch (runtime_stage(&p, next)) {                                                          \
    case STAGE_OPEN: return forward;                                                            \
    case STAGE_CLOSED: return CUDA_ERROR_OPERATING_SYSTEM;                                      \
    default: break;                                                                             \
    }

/* Reserve bytes of a device; before it refuses, own pools are trimmed and what died unseen is given up. */
bool charge(struct process *p, const struct driver *d, int device, enum charge kind, uint64_t bytes);
void uncharge(struct process *p, int device, enum charge kind, uint64_t bytes);

/* A block: `at` filled in by the caller, reserved before the driver is called, entered or given back after it. */
struct claim { struct place at; uint64_t bytes; uint8_t kind, size_class; };
bool claim_make(struct process *p, const struct driver *d, uint64_t bytes, struct claim *c);
void claim_drop(struct process *p, const struct claim *c);
bool claim_enter(struct process *p, const struct claim *c, enum family family, uint64_t key);
/* The driver has freed what a holding stood for. */
void holding_gone(struct process *p, enum family family, const struct holding *h);
/* A context has ended: everything that lived in it, or in contexts of part of its device (HELD_PART), is free. */
void holdings_end_context(struct process *p, uint64_t context);
/* A library or module is unloaded, from every context. */
void holdings_end_code(struct process *p, uint64_t whole);

/* pools.c */
void pools_trim(struct process *p, const struct driver *d, int device);
void pool_block_gone(struct process *p, const struct holding *h);
/* Books follow what the pools keep, after calls that may change it. */
void pools_settle(struct process *p, const struct driver *d);
/* Memory of a device for the nodes of an executable graph: like a pool's, for what was not freed outlives the graph. */
bool graphs_take(struct process *p, const struct driver *d, int device, uint64_t bytes, struct holding *out);
/* An executable graph is gone. */
void graphs_gone(struct process *p, const struct driver *d, const struct holding *h);
void graphs_trim(struct process *p, const struct driver *d, int device);

/* Before a refusal: what is kept for descriptors that nobody may have any longer. */
void shares_settle_orphans(struct process *p, const struct driver *d, int device);

#endif
