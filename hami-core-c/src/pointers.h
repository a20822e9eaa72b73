/* What this process holds, by pointer or handle: open addressing in shards, O(1) at any number of blocks, memory straight from the
 * kernel (a tenant's malloc may be anything). */
#ifndef HAMI_POINTERS_H
#define HAMI_POINTERS_H

#include <stdbool.h>
#include <stdint.h>

#include "bias.h"

#define POINTER_SHARDS 32

enum family {                       /* what a number names; they do not share a space */
    FAMILY_POINTER, FAMILY_HANDLE, FAMILY_ARRAY, FAMILY_MAPPING, FAMILY_CONTEXT, FAMILY_CODE, FAMILY_GRAPH,
    FAMILY_PHYSICAL,                /* a number of ours: memory that handles and mappings share */
    FAMILY_BINDING                  /* the same: part of a multicast object */
};

struct holding {
    uint64_t bytes;                 /* charged for it; less than 2^47 */
    uint64_t context;               /* context it dies with, 0 = none */
    uint64_t extra;                 /* pool of a stream-ordered block, size class, number or references of physical memory */
    uint8_t device, kind;
};

struct pointers {
    struct bias bias;               /* over the latches */
    struct pointer_shard {
        struct latch latch;
        uint32_t power;             /* room is 2^power entries; 0 = none yet */
        uint64_t count;
        struct pointer_entry *entries;
    } shards[POINTER_SHARDS];
};

/* False where memory for the table cannot be had. A key that is there already is overwritten. */
bool pointers_put(struct pointers *p, enum family family, uint64_t key, const struct holding *holding);
bool pointers_take(struct pointers *p, enum family family, uint64_t key, struct holding *out);
bool pointers_get(struct pointers *p, enum family family, uint64_t key, struct holding *out);
/* Change `extra` by so much and report the holding as it is then; one whose `extra` reaches 0 is taken out. */
bool pointers_add(struct pointers *p, enum family family, uint64_t key, int64_t change, struct holding *out);
/* Raise `bytes` to at least so much; *more: by how much it rose. */
bool pointers_widen(struct pointers *p, enum family family, uint64_t key, uint64_t bytes, uint64_t *more);
/* Take everything that dies with a context; each is given to `gone`. */
void pointers_drop(struct pointers *p, uint64_t context, void (*gone)(void *who, enum family family, uint64_t key, const struct holding *h),
                   void *who);
/* The same with all code whose `extra` is this. */
void pointers_drop_code(struct pointers *p, uint64_t extra, void (*gone)(void *who, enum family family, uint64_t key, const struct holding *h),
                        void *who);
uint64_t pointers_count(struct pointers *p);

#endif
