/* What a process knows once it has attached. Fixed from then on, except where a field says otherwise. */
#ifndef HAMI_STATE_H
#define HAMI_STATE_H

#include <sys/types.h>

#include "ledger.h"
#include "limits.h"

#define ORDINALS 64

struct pool {                       /* under process.pools */
    uint64_t handle, live, charged; /* bytes of live pointers; bytes in the ledger */
    uint64_t left;                  /* of live: what graphs took that are gone, as far as it may not be free yet */
    uint8_t device;                 /* NO_DEVICE: host memory, not counted */
    bool gone;                      /* destroyed; its blocks live on */
};
#define NO_DEVICE 255
#define POOLS 64
#define SMALL_CLASSES 23

struct small {                      /* blocks that share granules, of one size; under process.pools */
    uint32_t live, granules, room;  /* room: blocks that the granules hold */
};

struct state {
    pid_t pid;                      /* who attached: a vforked child has the memory, but is another */
    struct limits limits;
    struct options options;
    struct ledger ledger;
    struct hami_region *region;
    struct hami_extension *extension;
    char path[OPTION_PATH];         /* of the region, for questions about locks */
    dev_t file_device;
    ino_t file_inode;
    struct rule rules[HAMI_DEVICES];/* by index in the region */
    bool paced;                     /* launches on some device may have to wait */
    int8_t index_of[ORDINALS];      /* by ordinal of the driver; -1: not mapped */
    _Atomic uint32_t mapped;
    struct small small[HAMI_DEVICES][SMALL_CLASSES];
    _Atomic uint64_t physical_made; /* numbers of FAMILY_PHYSICAL */
    struct pool pools[POOLS];
    struct pool graphs[HAMI_DEVICES];               /* what the driver keeps for graphs, by device */
    _Atomic uint32_t primary_charged[HAMI_DEVICES];
    _Atomic uint64_t primary_bytes[HAMI_DEVICES], primary[HAMI_DEVICES];
    _Atomic uint32_t refused;       /* that was said once */
    _Atomic uint32_t pools_loose;   /* some pool may keep less than is charged for it */
    _Atomic uint32_t capturing;     /* streams being captured */
};

#endif
