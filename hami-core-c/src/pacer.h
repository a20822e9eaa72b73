/* Launches of this process on one device: batches, the events that end them, and the thread that settles them. */
#ifndef HAMI_PACER_H
#define HAMI_PACER_H

#include "bias.h"
#include "driver.h"
#include "throttle.h"

#define PACER_STREAMS 64
#define PACER_RING 512
#define PACER_EVENTS 256
#define PACER_RUNS 64               /* threads that may launch without the latch */
#define PACER_PARTS 8
#define PACER_PURSE 100000          /* GPU time that a thread pays in advance */

struct process;
struct driver;

struct pacer_open { uint64_t stream; struct batch batch; int used; };
struct pacer_closed { uint64_t stream; struct batch batch; CUevent event; int ended; };

/* What one thread launches without the latch. It pays some GPU time in advance into its purse and takes prices from there; it counts
 * by plain stores, and whoever closes a batch adds what is new to it. Only the thread itself spends and counts. The rest is
 * changed under the latch of the pacer. */
struct pacer_run {
    _Alignas(64) struct private privilege;  /* for the purse */
    _Atomic int64_t purse;
    _Atomic uint32_t epoch;         /* anything else than what the thread remembers: it must take the latch */
    uint32_t parts;
    struct pacer_part {             /* launches of one kind in one stream */
        _Atomic uint32_t made;
        uint32_t told, kind;
        int64_t price;
        uint64_t stream;
    } part[PACER_PARTS];
    _Atomic uintptr_t thread;       /* 0 = free; never given away */
    struct pacer *pacer;
    uint32_t made_then, idle;       /* the settling thread's: rounds without a launch */
};

struct pacer {
    struct latch latch;             /* rank 5: everything below; the driver is called inside, nothing of ours */
    struct throttle throttle;
    int joined, asleep_told;
    CUcontext context;              /* whose streams and events these are */
    const struct driver *driver;
    CUevent base;                   /* event times count from here, */
    int64_t base_at;                /* which was at this time of our clock, as far as seen */
    uint64_t base_known;
    int64_t last_end;               /* of the newest batch that ended */
    struct pacer_open open[PACER_STREAMS];
    struct pacer_closed ring[PACER_RING];
    uint32_t first, count;
    CUevent spare[PACER_EVENTS];
    uint32_t spares;
    uint64_t samples_seen;          /* NVML's time stamp */
};

enum stream_kind { STREAM_LEGACY, STREAM_PER_THREAD };

/* What a thread remembers of a launch: its kind, and where its run counts it while the run's epoch is the same. */
struct known {
    CUfunction f;
    uint64_t grid, stream;
    uint32_t kind, epoch;
    struct pacer_part *part;
};

/* What a launch has taken until the driver has answered. */
struct permit {
    struct pacer_part *part;        /* where it is counted; NULL: pacer_tell counts */
    struct known *known;
    struct pacer *pacer;
    uint32_t kind;
    int64_t price, at;              /* at: just before the launch */
    uint64_t stream;
};

/* Wait for the monitor and for credit. False: this launch is not counted. `known` may be NULL; `guess`: what a launch of a kind that
 * nobody has seen will take, 0 = no idea. */
bool pacer_ask(struct process *p, const struct driver *d, CUstream stream, enum stream_kind per_thread, uint32_t kind, struct known *known,
               int64_t guess, struct permit *out);
/* Nanoseconds that a launch is known to take on a device; 0 = not known. */
int64_t pacer_known_time(struct process *p, const struct driver *d, unsigned device, CUfunction f, uint64_t grid);
void pacer_tell(struct process *p, const struct driver *d, const struct permit *permit, CUstream stream, CUresult status, bool close);
/* A stream's batch ends here, for something that waits or looks comes next. `stream` all: every stream of the context. */
void pacer_close(struct process *p, const struct driver *d, CUstream stream, enum stream_kind per_thread);
void pacer_close_all(struct process *p, const struct driver *d);
/* A context is about to end, or a stream: nothing of it may be touched again. */
void pacer_forget_context(struct process *p, CUcontext context);
void pacer_forget_stream(struct process *p, const struct driver *d, CUstream stream);
/* The kind of a launch: a hash of the function's name, which siblings share, and of its grid. Fills in `k`. */
void pacer_learn(const struct driver *d, struct known *k, CUfunction f, uint64_t grid, uint64_t stream);
void pacer_show_activity(struct process *p);
void pacer_wake(struct process *p);
/* A quick launch failed after all. */
void pacer_undo(struct process *p, int64_t price);

#endif
