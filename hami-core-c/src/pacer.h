/* Launches of this process on one device: batches, the events that end them, and the thread that settles them. */
#ifndef HAMI_PACER_H
#define HAMI_PACER_H

#include "driver.h"
#include "latch.h"
#include "throttle.h"

#define PACER_STREAMS 64
#define PACER_RING 512
#define PACER_EVENTS 256

struct process;
struct driver;

struct pacer_open { uint64_t stream; struct batch batch; int used; };
struct pacer_closed { uint64_t stream; struct batch batch; CUevent event; int ended; };

struct pacer {
    struct latch latch;             /* rank 5: everything below; the driver is called inside, nothing of ours */
    struct throttle throttle;
    int joined, asleep_told;
    CUcontext context;              /* whose streams and events these are */
    const struct driver *driver;
    CUevent base;                   /* event times count from here, */
    int64_t base_at;                /* which was at this time of our clock, as far as seen */
    uint64_t base_known;
    struct pacer_open open[PACER_STREAMS];
    struct pacer_closed ring[PACER_RING];
    uint32_t first, count;
    CUevent spare[PACER_EVENTS];
    uint32_t spares;
    uint64_t samples_seen;          /* NVML's time stamp */
};

enum stream_kind { STREAM_LEGACY, STREAM_PER_THREAD };

/* What a launch has taken until the driver has answered. */
struct permit { struct pacer *pacer; uint32_t kind; int64_t price, at; uint64_t stream; };     /* at: just before the launch; 0: not looked */

/* Wait for the monitor and for credit. False: this launch is not counted. */
bool pacer_ask(struct process *p, const struct driver *d, CUstream stream, enum stream_kind per_thread, uint32_t kind, struct permit *out);
void pacer_tell(struct process *p, const struct driver *d, const struct permit *permit, CUstream stream, CUresult status, bool close);
/* A stream's batch ends here, for something that waits or looks comes next. `stream` all: every stream of the context. */
void pacer_close(struct process *p, const struct driver *d, CUstream stream, enum stream_kind per_thread);
void pacer_close_all(struct process *p, const struct driver *d);
/* A context is about to end, or a stream: nothing of it may be touched again. */
void pacer_forget_context(struct process *p, CUcontext context);
void pacer_forget_stream(struct process *p, const struct driver *d, CUstream stream);
/* Hash of a kind: a function's name, which siblings share, and its grid. */
uint32_t pacer_kind(const struct driver *d, CUfunction f, uint64_t grid);

#endif
