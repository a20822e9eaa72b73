/* The shared region: one file per container, mapped by its GPU processes and by the monitor.
 *
 * The first 2008952 bytes are the layout of HAMi v2.10 (version 1.2), offset by offset. Ours follow at 2008960 and carry their own
 * magic, version and size. A tenant can write all of it: nobody trusts an index, a length or a pointer found here, and there is no
 * object of a threads library in it. Numbers are little endian; "device" is always the index into uuids[]. */
#ifndef HAMI_REGION_H
#define HAMI_REGION_H

#include <assert.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define HAMI_REGION_MAGIC 19920718
#define HAMI_REGION_MAJOR 1u
#define HAMI_REGION_MINOR 2u
#define HAMI_DEVICES 16
#define HAMI_SLOTS 1024
#define HAMI_UUID_ROOM 96

struct hami_memory {                /* bytes of one process on one device */
    _Atomic uint64_t context, module, data;
    _Atomic uint64_t shared;        /* v2.10's "offset": what it bears for blocks that others may hold too */
    _Atomic uint64_t total;         /* the four above */
    uint64_t unused[3];
};

struct hami_utilization {           /* percent */
    _Atomic uint64_t decoder, encoder, sm;
    _Atomic int64_t hold;           /* ours, unused in v2.10: GPU nanoseconds of credit held for launches in flight */
    uint64_t unused[2];
};

struct hami_slot {                  /* one process; in use while the kernel holds its byte (HAMI_TOKENS + index) */
    _Atomic int32_t pid, host_pid;  /* for people; liveness does not depend on them */
    struct hami_memory used[HAMI_DEVICES];
    _Atomic uint64_t monitor_used[HAMI_DEVICES];
    struct hami_utilization utilization[HAMI_DEVICES];
    _Atomic int32_t status;         /* 0 not in use, 1 running, 2 suspended */
    uint32_t padding;
    uint64_t sequence;              /* v2.10's; stays 0 */
    _Atomic uint64_t epoch;         /* ours: how often the slot was taken; part of the owner word */
    uint64_t unused;
};

struct hami_region {
    _Atomic int32_t magic;          /* written last */
    uint32_t major_version, minor_version;
    _Atomic int32_t sm_init;
    _Atomic uint64_t old_owner;     /* stays 0 */
    unsigned char old_semaphore[32];/* a sem_t of glibc's, shared by processes: 1 and never taken */
    uint64_t device_count;
    char uuids[HAMI_DEVICES][HAMI_UUID_ROOM];
    _Atomic uint64_t memory_limit[HAMI_DEVICES];    /* bytes, 0 = none */
    _Atomic uint64_t core_limit[HAMI_DEVICES];      /* percent */
    struct hami_slot slots[HAMI_SLOTS];
    _Atomic int32_t slot_count;     /* every slot in use lies below */
    _Atomic int32_t utilization_switch, recent_kernel;
    int32_t priority;
    _Atomic uint64_t last_kernel_time;              /* Unix seconds of the latest launch */
    unsigned char old_second_semaphore[32];
};

#define HAMI_LAYOUT_BYTES 2008952
#define HAMI_EXTENSION_AT 2008960
#define HAMI_EXTENSION_ROOM 262144
#define HAMI_FILE_BYTES (HAMI_EXTENSION_AT + HAMI_EXTENSION_ROOM)
#define HAMI_TOKENS 4194304         /* file offset of the bytes whose locks say who lives; past the end on purpose */
#define HAMI_CREATION (HAMI_TOKENS - 1)             /* byte locked while the file is made or grown */

static_assert(sizeof(struct hami_memory) == 64, "memory record");
static_assert(sizeof(struct hami_utilization) == 48, "utilisation record");
static_assert(sizeof(struct hami_slot) == 1960, "slot");
static_assert(offsetof(struct hami_slot, used) == 8, "slot");
static_assert(offsetof(struct hami_slot, monitor_used) == 1032, "slot");
static_assert(offsetof(struct hami_slot, utilization) == 1160, "slot");
static_assert(offsetof(struct hami_slot, status) == 1928, "slot");
static_assert(offsetof(struct hami_slot, sequence) == 1936, "slot");
static_assert(offsetof(struct hami_region, old_owner) == 16, "region");
static_assert(offsetof(struct hami_region, device_count) == 56, "region");
static_assert(offsetof(struct hami_region, uuids) == 64, "region");
static_assert(offsetof(struct hami_region, memory_limit) == 1600, "region");
static_assert(offsetof(struct hami_region, core_limit) == 1728, "region");
static_assert(offsetof(struct hami_region, slots) == 1856, "region");
static_assert(offsetof(struct hami_region, slot_count) == 2008896, "region");
static_assert(offsetof(struct hami_region, priority) == 2008908, "region");
static_assert(offsetof(struct hami_region, last_kernel_time) == 2008912, "region");
static_assert(offsetof(struct hami_region, old_second_semaphore) == 2008920, "region");
static_assert(sizeof(struct hami_region) == HAMI_LAYOUT_BYTES, "region");

/* ---- the extension ------------------------------------------------------------------------------------------------------ */

#define HAMI_EXTENSION_MAGIC UINT64_C(0x31747865696d6168)   /* "hamiext1" */
#define HAMI_EXTENSION_VERSION 2u
#define HAMI_BOOKS 64
#define HAMI_STRIP 192
#define HAMI_KINDS 512
#define HAMI_SHARES 256

struct hami_book { _Atomic uint64_t at, clean, wall, charged; };

struct hami_device {
    _Alignas(64) _Atomic int64_t credit;    /* GPU nanoseconds that may be launched at once */

    /* memory ledger: changed only by whom the owner word names */
    _Alignas(64) _Atomic uint64_t owner;    /* 0, or slot + 1 in the low 16 bits and the slot's epoch above */
    _Atomic uint64_t used;                  /* bytes: the live slots and the shares without a bearer */
    _Atomic uint64_t context_bytes;         /* what a context was seen to cost; 0 = not known */
    _Atomic uint64_t ended;                 /* 1: a process that held something has ended, or is about to, since the living were counted */
    _Atomic uint64_t looked;                /* CLOCK_MONOTONIC milliseconds: when somebody last counted the living to tell what is in use */

    /* compute: see throttle.c; fractions are the bits of a float, and everything is bounded when it is read */
    _Alignas(64) _Atomic uint64_t refilled; /* CLOCK_MONOTONIC nanoseconds */
    _Atomic uint32_t rate;                  /* parts per million of GPU time that the agent grants; 0 = the limit */
    _Atomic uint32_t turn;                  /* futex: changes when waiters shall look again */
    _Atomic uint32_t waiters, closed;       /* closed: credit ran out; opens again when enough is saved */
    _Atomic uint32_t gain[2], doubt[2], miss[2], jumps[2], last[2]; /* by ruler: clean times, wall time */
    _Atomic uint32_t ruler, alone, strangers, lucky, pace, known;
    _Atomic int64_t longest, lead, running; /* nanoseconds */
    _Atomic uint64_t booked[2], charged;    /* by ruler; what was taken from the credit for it */
    _Atomic uint64_t seen;                  /* time of the last sample */
    _Atomic uint64_t sampler;               /* slot + 1 (10 bits and one) and expiry (ms) of the one that asks NVML */
    _Atomic uint32_t carry[6];
    _Atomic uint32_t book;                  /* next of books[] */
    struct hami_book books[HAMI_BOOKS];
    _Atomic uint64_t strip[HAMI_STRIP];
    _Atomic uint64_t kinds[HAMI_KINDS];     /* hash above, clean nanoseconds below */
};

struct hami_share {                         /* a block that more than one process may hold; under the device's owner word */
    _Atomic uint64_t key;                   /* hash of its handle; 0 = free */
    _Atomic uint64_t bytes;
    _Atomic uint32_t device, bearer;        /* bearer: slot + 1 that is charged; 0 = nobody, counted in used */
    _Atomic uint32_t by_descriptor, padding;/* a descriptor may keep it alive without any process that opened it */
    _Atomic uint64_t holders[HAMI_SLOTS / 64];
};

struct hami_extension {
    _Atomic uint64_t magic;
    uint32_t version, size;
    struct hami_device devices[HAMI_DEVICES];
    struct hami_share shares[HAMI_SHARES];
};

static_assert(offsetof(struct hami_device, owner) == 64, "owner word and credit lie on lines of their own");
static_assert(sizeof(struct hami_extension) <= HAMI_EXTENSION_ROOM, "extension");
static_assert(HAMI_EXTENSION_AT % 64 == 0, "alignment");
static_assert(HAMI_FILE_BYTES < HAMI_CREATION, "locks lie past the end");

#endif
