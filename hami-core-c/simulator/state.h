/* The one device model: a file that every process of a node maps. Everything in it is a number or an index; processes that are
 * killed in the middle of a change leave sums that the next one counts anew. */
#ifndef HAMI_SIM_STATE_H
#define HAMI_SIM_STATE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine.h"

#define SIM_MAGIC UINT64_C(0x68616d6973696d36)
#define SIM_CARDS 20
#define SIM_DEVICES 96          /* cards first, then what they are cut into */
#define SIM_SLOTS 2048
#define SIM_CONTEXTS SIM_RING
#define SIM_SHARED 4096
#define SIM_CONTAINERS 256
#define SIM_CELLS 8192          /* events of one process */
#define SIM_SAMPLES 8192
#define SIM_RATES 128
#define SIM_XIDS 256
#define SIM_FAULTS 32
#define SIM_MIG_PROFILES 8
#define SIM_TEXT 96
#define SIM_GRANULE (UINT64_C(2) << 20)
#define SIM_TOKENS (INT64_C(1) << 40)   /* file offset of the locks that say who lives */
#define SIM_HANDLES (INT64_C(1) << 41)  /* file offset of the locks that handles in flight hold */
#define MIB (UINT64_C(1) << 20)

enum sim_kind { KIND_CONTEXT, KIND_BLOCK, KIND_POOL, KIND_PHYSICAL, KIND_ARRAY, KIND_MODULE, KIND_LIMITS, KIND_COUNT };
enum sim_device_kind { DEVICE_NONE, DEVICE_CARD, DEVICE_GPU_INSTANCE, DEVICE_COMPUTE_INSTANCE };

struct sim_mig_profile {
    uint32_t number, id, slices, sms, memory_mib, width, starts;   /* starts: bit set of first memory slots */
    char name[20];
};

struct sim_profile {            /* what a product is; generated from profiles.toml */
    char key[24], name[SIM_TEXT];
    uint32_t memory_mib, reserved_mib, sms, major, minor, threads_per_sm, context_mib, nvlinks, watts, sm_clock, memory_clock,
        shared_per_sm, l2_mib, pci_device, mig_count;
    struct sim_mig_profile mig[SIM_MIG_PROFILES];
};

struct sim_lock {
    _Atomic uint32_t owner;     /* slot + 1; the highest bit: somebody waits */
};

struct sim_sample { int64_t end; uint32_t pid; uint16_t percent; uint16_t slot; };
struct sim_rate { int64_t end; uint32_t percent, memory_percent; };
struct sim_xid { uint64_t number; int64_t at; uint32_t device, xid; uint64_t kind; };

struct sim_device {
    /* what it is; fixed while processes use it */
    uint32_t kind, parent;      /* parent: the card of a GPU instance, the GPU instance of a compute instance */
    uint32_t instance, mig_profile, start, slices, compute_profile, place;  /* place: first slice of a compute instance */
    struct sim_profile profile;
    char uuid[48], serial[24];
    uint32_t domain, bus, slot, numa, board, visible_nvml, order;
    uint64_t total, heap, printf_fifo, pool_granule;
    uint32_t compute_mode, ecc, persistence, temperature;
    uint32_t mig_mode, mig_pending;
    _Atomic uint32_t lost;

    /* what it does */
    struct sim_lock lock;
    _Atomic uint64_t used;      /* bytes in use, granules */
    uint64_t peak;
    struct sim_engine engine;
    int64_t window_start, window_end, window_busy;      /* the sampling window that is open or comes next */
    uint32_t window_open;
    uint64_t samples_made, rates_made;
    struct sim_sample samples[SIM_SAMPLES];
    struct sim_rate rates[SIM_RATES];
    uint32_t contexts;
    int64_t judge_window, judge_end;    /* 0: nobody's share is judged here */
};

struct sim_use {
    _Atomic uint64_t bytes[KIND_COUNT];
    int64_t busy;               /* device time of contexts that are gone */
    int64_t mark;               /* device time at the beginning of the sampling window */
    uint64_t launches;
};

struct sim_slot {
    _Atomic uint32_t state;     /* 0 free, 1 being taken, 2 in use */
    uint32_t pid, container, driver;    /* driver: it has initialised the driver, not only asked about devices */
    uint64_t started, space;    /* space: of its pid */
    _Atomic uint32_t host;      /* its pid where the devices were made; 0: nobody there has looked yet */
    char name[SIM_TEXT];
    struct sim_use use[SIM_DEVICES];
};

struct sim_context { uint32_t used, slot, device; uint64_t number; };

struct sim_share {              /* physical memory that more than one process may hold */
    _Atomic uint32_t state;     /* 0 free, 1 in use */
    uint32_t device, container, kind;
    uint64_t bytes, generation, content;
    uint32_t by_handle;         /* a descriptor may hold it, too */
    _Atomic uint64_t holders[SIM_SLOTS / 64];
};

struct sim_judgement {
    uint64_t bytes, peak, limit, slack, refused, worst_over;
    int64_t busy;
    uint32_t cores, judged;     /* percent of device time; judged in windows when a slack was stated */
    double share_slack, worst_share, first_share;
    uint64_t windows, windows_over;
    int64_t mark, first_share_at;
};
struct sim_container {
    uint32_t used;
    char tag[SIM_TEXT];
    uint64_t violations, first_over;
    int64_t first_at;
    uint32_t first_pid, first_device;
    struct sim_judgement on[SIM_DEVICES];
};

struct sim_fault {
    _Atomic uint32_t active;
    char entry[SIM_TEXT], tag[SIM_TEXT];
    int32_t code;
    uint32_t skip, times;       /* let so many calls pass, then hit so many; times 0: all */
    _Atomic uint32_t seen;
    int64_t delay;
};

struct sim_state {
    _Atomic uint64_t magic;
    uint64_t size, generation;
    uint32_t cards, driver_version, old_lookup, virtual_time;
    _Atomic int64_t virtual_now;
    int64_t wall_offset;        /* real-time clock minus ours when the state was made */
    int64_t slice, switching, sample_window, sample_period, sample_lag;
    uint32_t sampling, pid_mode;
    int64_t pid_offset;
    uint64_t home;              /* pid namespace of who made the devices: the host's */
    double noise, drift;        /* how durations vary: spread per launch, slow amplitude */
    uint32_t seed;
    int64_t kernel_fixed, kernel_wave;
    uint32_t blocks_per_sm;
    char driver_text[32];
    struct sim_lock lock;       /* of the tables; taken before a device's, never inside one */
    _Atomic uint32_t slots_seen, context_high, share_high;
    _Atomic uint32_t drivers;   /* slots whose process has initialised the driver */
    _Atomic int64_t reaped_at;
    _Atomic uint32_t faults_on, bell;
    _Atomic uint64_t xids_made;
    uint64_t contexts_made;
    _Atomic uint64_t content_end;       /* of the file that holds what several mappings see */
    struct sim_xid xids[SIM_XIDS];
    struct sim_fault faults[SIM_FAULTS];
    struct sim_device devices[SIM_DEVICES];
    struct sim_container containers[SIM_CONTAINERS];
    struct sim_slot slots[SIM_SLOTS];
    struct sim_context contexts[SIM_CONTEXTS];
    struct sim_share shares[SIM_SHARED];
    struct sim_queue queues[SIM_CONTEXTS];
    _Atomic int64_t cells[SIM_SLOTS][SIM_CELLS];        /* when an event was reached; 0: not yet */
};

/* ---- state.c: mapping, identity, locks -------------------------------------------------------------------------- */
extern const struct sim_profile sim_profiles[];
extern const unsigned sim_profile_count;

const char *state_path(void);
/* Map the node's state, making it from the environment where there is none. NULL: it cannot be had. */
struct sim_state *state_open(void);
/* Make a state of the given lines at a path and put it in place at once. 0, or -1 with the reason in `why`. */
int state_make(const char *path, const char *lines, char *why, size_t room);
/* A slot of our own, alive as long as this process; -1 when all are taken. */
int slot_take(struct sim_state *s, bool driver);
void slot_leave(struct sim_state *s, int slot);
bool slot_alive(struct sim_state *s, uint32_t slot);
/* Clear up after processes that are gone; `every_ns` 0 means now, else at most so often. */
void state_reap(struct sim_state *s, int self, int64_t every_ns);
void lock_take(struct sim_state *s, struct sim_lock *lock, int self);
void lock_leave(struct sim_lock *lock);
int64_t clock_now(const struct sim_state *s);
void clock_wait_until(struct sim_state *s, int64_t at);
uint32_t shown_pid(struct sim_state *s, uint32_t slot, uint32_t pid);   /* of a process, on the host; 0: not known yet */
int descriptor_open(void);
/* The file beside the state with the content of shared memory; the descriptor stays open. */
int content_open(void);

/* ---- model.c: memory and time of devices ------------------------------------------------------------------------ */
uint32_t memory_owner(const struct sim_state *s, uint32_t device);
uint32_t card_of(const struct sim_state *s, uint32_t device);
uint64_t granules(uint64_t bytes);
bool memory_charge(struct sim_state *s, int self, uint32_t device, enum sim_kind kind, uint64_t bytes);
void memory_return(struct sim_state *s, int self, uint32_t device, enum sim_kind kind, uint64_t bytes);
void memory_recount(struct sim_state *s, uint32_t device);
uint64_t memory_of_slot(const struct sim_state *s, uint32_t slot, uint32_t device);
/* Physical memory that several processes hold: turned from the slot's own bytes, given back when nobody holds it. */
int share_make(struct sim_state *s, int self, uint32_t device, enum sim_kind kind, uint64_t bytes);
bool share_hold(struct sim_state *s, int self, uint32_t share, uint64_t generation);
void share_leave(struct sim_state *s, int self, uint32_t share);
int share_descriptor(struct sim_state *s, uint32_t share);
int share_of_descriptor(int fd);

/* A queue of work on a device, and so many bytes with it; -1: either cannot be had. */
int context_make(struct sim_state *s, int self, uint32_t device, uint64_t bytes);
void context_end(struct sim_state *s, int self, uint32_t context);
void device_advance(struct sim_state *s, uint32_t device, int64_t now);
int64_t device_busy_of(const struct sim_state *s, uint32_t slot, uint32_t device);
void device_reset(struct sim_state *s, uint32_t device);
uint32_t container_of(struct sim_state *s, const char *tag);
/* Wake whoever waits for events of health. */
void ring_bell(struct sim_state *s);
void xid_raise(struct sim_state *s, uint32_t device, uint32_t xid, uint64_t kind);
int64_t noisy(struct sim_state *s, int64_t duration, uint32_t launches, int64_t now);
/* Kernel duration: fixed + per wave. */
int64_t kernel_time(const struct sim_state *s, uint32_t device, uint64_t blocks, int64_t fixed, int64_t wave, uint32_t blocks_per_sm);

/* ---- judge.c ------------------------------------------------------------------------------------------------------ */
/* Under the device's lock: judge a container's share from now on. `slack` in points, windows in nanoseconds, one length for a device. */
void judge_shares(struct sim_state *s, uint32_t device, uint32_t container, double slack, int64_t window);
void judge_window(struct sim_state *s, uint32_t device);
void judge_skip(struct sim_state *s, uint32_t device, int64_t now);

/* ---- faults.c ---------------------------------------------------------------------------------------------------- */
/* Code that the named call must answer now, or 0. */
int fault_for(struct sim_state *s, const char *entry, const char *tag);

/* ---- mig.c ------------------------------------------------------------------------------------------------------- */
int mig_create_instance(struct sim_state *s, uint32_t card, uint32_t number, int start);
int mig_destroy_instance(struct sim_state *s, uint32_t device);
int mig_create_compute(struct sim_state *s, uint32_t instance, uint32_t slices, int place);
/* First slices of a GPU instance at which so many of its slices can lie, one bit each; `left`: beside the compute instances there are. */
uint32_t mig_compute_places(const struct sim_state *s, uint32_t instance, uint32_t slices, bool left);
int mig_destroy_compute(struct sim_state *s, uint32_t device);
uint32_t mig_used_slots(const struct sim_state *s, uint32_t card);
const struct sim_mig_profile *mig_profile(const struct sim_state *s, uint32_t card, uint32_t number);

#endif
