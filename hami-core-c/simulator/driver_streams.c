/* Streams, events and launches. */
#include "driver.h"

#include <stdlib.h>
#include <string.h>

/* ---- streams --------------------------------------------------------------------------------------------------------- */

#define PER_THREAD 16
static __thread struct { uint64_t context; struct stream *stream; } own[PER_THREAD] __attribute__((tls_model("initial-exec")));

struct stream *stream_new(struct context *c, uint32_t flags, int32_t priority)
{
    struct stream *st = object_new(OBJECT_STREAM);
    if (!st)
        return NULL;
    st->context = c;
    st->flags = flags;
    st->priority = priority;
    pthread_mutex_lock(&c->lock);
    if (c->streams) {
        st->next = c->streams->next;
        c->streams->next = st;
    } else
        c->streams = st;
    pthread_mutex_unlock(&c->lock);
    return st;
}

static struct stream *per_thread(struct context *c)
{
    for (unsigned i = 0; i < PER_THREAD; i++)
        if (own[i].context == c->head.number)
            return own[i].stream;
    struct stream *st = stream_new(c, CU_STREAM_NON_BLOCKING, 0);
    static __thread unsigned next __attribute__((tls_model("initial-exec")));
    own[next % PER_THREAD].context = c->head.number;
    own[next++ % PER_THREAD].stream = st;
    return st;
}

CUresult stream_resolve(CUstream handle, struct stream **out)
{
    if (handle == NULL || handle == CU_STREAM_LEGACY || handle == CU_STREAM_PER_THREAD) {
        NEED_CONTEXT(c);
        bool mine = handle == CU_STREAM_PER_THREAD || (!handle && sim_per_thread);
        *out = mine ? per_thread(c) : c->legacy;
        return *out ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
    }
    struct stream *st = object_of(handle, OBJECT_STREAM);
    if (!st || !st->context)
        return CUDA_ERROR_INVALID_HANDLE;
    if (!SIM_LIKELY(!atomic_load_explicit(&device_at(st->context->device)->lost, memory_order_relaxed)))
        return CUDA_ERROR_DEVICE_UNAVAILABLE;
    *out = st;
    return CUDA_SUCCESS;
}

#define NEED_STREAM(st)                                            \
    struct stream *st;                                             \
    do {                                                           \
        CUresult resolved = stream_resolve(hStream, &st);          \
        if (resolved != CUDA_SUCCESS)                              \
            return resolved;                                       \
    } while (0)

static void reached_here(void *who, uint32_t queue, const struct sim_item *item, int64_t at)
{
    struct sim_state *s = who;
    atomic_store_explicit(&s->cells[s->contexts[queue].slot][item->cell % SIM_CELLS], at ? at : 1, memory_order_release);
}

#define LAUNCH_NS 4000          /* what a launch costs the CPU where time is virtual */

CUresult stream_push(struct stream *st, int64_t work, uint32_t count, uint32_t cell, uint64_t *ticket)
{
    struct context *c = st->context;
    struct sim_state *s = process.state;
    struct sim_device *d = device_at(c->device);
    struct sim_queue *q = &s->queues[c->index];
    struct sim_item item = {.left = work, .each = work, .count = count, .cell = cell};
    for (;;) {
        lock_take(s, &d->lock, process.slot);
        int64_t now = clock_now(s);
        device_advance(s, c->device, now);
        uint64_t got = engine_pending(q) + count <= SIM_DEPTH
                           ? engine_push(&d->engine, s->queues, (uint32_t)c->index, now, item, reached_here, s)
                           : 0;
        int64_t until = got ? 0 : engine_estimate(&d->engine, s->queues, (uint32_t)c->index, q->head + 1);
        if (got && count)
            s->slots[process.slot].use[c->device].launches += count;
        lock_leave(&d->lock);
        if (got) {
            if (s->virtual_time && count)
                clock_wait_until(s, now + LAUNCH_NS);
            atomic_store_explicit(&st->ticket, got, memory_order_relaxed);
            if (ticket)
                *ticket = got;
            return CUDA_SUCCESS;
        }
        if (atomic_load(&d->lost))
            return CUDA_ERROR_DEVICE_UNAVAILABLE;
        state_reap(s, process.slot, 20000000);
        clock_wait_until(s, until);
    }
}

static bool done_at(struct context *c, uint64_t ticket, int64_t *estimate)
{
    struct sim_state *s = process.state;
    struct sim_device *d = device_at(c->device);
    lock_take(s, &d->lock, process.slot);
    device_advance(s, c->device, clock_now(s));
    bool done = s->queues[c->index].head >= ticket;
    if (!done && estimate)
        *estimate = engine_estimate(&d->engine, s->queues, (uint32_t)c->index, ticket);
    lock_leave(&d->lock);
    return done;
}

bool ticket_done(struct context *c, uint64_t ticket)
{
    return !ticket || done_at(c, ticket, NULL);
}

void ticket_wait(struct context *c, uint64_t ticket)
{
    int64_t until;
    while (ticket && !done_at(c, ticket, &until)) {
        if (atomic_load(&device_at(c->device)->lost))
            return;
        state_reap(process.state, process.slot, 20000000);
        clock_wait_until(process.state, until);
    }
}

static CUresult after_wait(struct context *c)
{
    if (atomic_load(&device_at(c->device)->lost))
        return CUDA_ERROR_DEVICE_UNAVAILABLE;
    pool_settle(c->device);
    return CUDA_SUCCESS;
}

/* ---- host functions: run by a thread of their own when the stream gets there --------------------------------------------- */

struct callback {
    struct stream *stream;
    uint64_t ticket;
    CUhostFn function;
    CUstreamCallback classic;
    void *data;
};

static void *run_callback(void *given)
{
    struct callback *one = given;
    ticket_wait(one->stream->context, one->ticket);
    if (one->function)
        one->function(one->data);
    else
        one->classic((CUstream)one->stream, CUDA_SUCCESS, one->data);
    atomic_fetch_sub(&one->stream->callbacks_open, 1);
    free(one);
    return NULL;
}

static CUresult call_back(struct stream *st, CUhostFn function, CUstreamCallback classic, void *data)
{
    struct callback *one = malloc(sizeof *one);
    pthread_t thread;
    if (!one)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *one = (struct callback){st, atomic_load(&st->ticket), function, classic, data};
    atomic_fetch_add(&st->callbacks_open, 1);
    if (pthread_create(&thread, NULL, run_callback, one)) {
        atomic_fetch_sub(&st->callbacks_open, 1);
        free(one);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    pthread_detach(thread);
    return CUDA_SUCCESS;
}

static void callbacks_wait(struct stream *st)
{
    while (atomic_load(&st->callbacks_open))
        clock_wait_until(process.state, clock_now(process.state) + 200000);
}

CUresult context_wait(struct context *c)
{
    if (any_global_capture())
        for (struct stream *st = c->streams; st; st = st->next)
            if (st->capture)
                return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    uint64_t last = 0;
    pthread_mutex_lock(&c->lock);
    for (struct stream *st = c->streams; st; st = st->next)
        if (atomic_load(&st->ticket) > last)
            last = atomic_load(&st->ticket);
    pthread_mutex_unlock(&c->lock);
    ticket_wait(c, last);
    for (struct stream *st = c->streams; st; st = st->next)
        callbacks_wait(st);
    return after_wait(c);
}

static CUresult create_stream(CUstream *out, unsigned flags, int priority)
{
    NEED_CONTEXT(c);
    if (!out || (flags & ~(unsigned)CU_STREAM_NON_BLOCKING))
        return CUDA_ERROR_INVALID_VALUE;
    struct stream *st = stream_new(c, flags, priority < -5 ? -5 : priority > 0 ? 0 : priority);
    *out = (CUstream)st;
    return st ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult sim_cuStreamCreate(CUstream *phStream, unsigned int Flags) { return create_stream(phStream, Flags, 0); }
CUresult sim_cuStreamCreateWithPriority(CUstream *phStream, unsigned int flags, int priority) { return create_stream(phStream, flags, priority); }

static CUresult destroy_stream(CUstream hStream)
{
    struct stream *st = object_of(hStream, OBJECT_STREAM);
    if (!st)
        return CUDA_ERROR_INVALID_HANDLE;
    struct context *c = st->context;
    callbacks_wait(st);
    pthread_mutex_lock(&c->lock);
    for (struct stream **at = &c->streams; *at; at = &(*at)->next)
        if (*at == st) {
            *at = st->next;
            break;
        }
    pthread_mutex_unlock(&c->lock);
    object_end(st);
    return CUDA_SUCCESS;
}

CUresult sim_cuStreamDestroy_v2(CUstream hStream) { return destroy_stream(hStream); }
CUresult sim_cuStreamDestroy(CUstream hStream) { return destroy_stream(hStream); }

CUresult sim_cuStreamSynchronize(CUstream hStream)
{
    NEED_STREAM(st);
    if (st->capture)
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    if (st == st->context->legacy)
        return context_wait(st->context);
    ticket_wait(st->context, atomic_load(&st->ticket));
    callbacks_wait(st);
    return after_wait(st->context);
}

CUresult sim_cuStreamQuery(CUstream hStream)
{
    NEED_STREAM(st);
    if (st->capture)
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    return ticket_done(st->context, atomic_load(&st->ticket)) && !atomic_load(&st->callbacks_open) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

CUresult sim_cuStreamGetPriority(CUstream hStream, int *priority)
{
    NEED_STREAM(st);
    if (!priority)
        return CUDA_ERROR_INVALID_VALUE;
    *priority = st->priority;
    return CUDA_SUCCESS;
}

CUresult sim_cuStreamGetFlags(CUstream hStream, unsigned int *flags)
{
    NEED_STREAM(st);
    if (!flags)
        return CUDA_ERROR_INVALID_VALUE;
    *flags = st->flags;
    return CUDA_SUCCESS;
}

CUresult sim_cuStreamGetId(CUstream hStream, unsigned long long *streamId)
{
    NEED_STREAM(st);
    if (!streamId)
        return CUDA_ERROR_INVALID_VALUE;
    *streamId = st->head.number;
    return CUDA_SUCCESS;
}

CUresult sim_cuStreamGetCtx(CUstream hStream, CUcontext *pctx)
{
    NEED_STREAM(st);
    if (!pctx)
        return CUDA_ERROR_INVALID_VALUE;
    *pctx = (CUcontext)st->context;
    return CUDA_SUCCESS;
}

CUresult sim_cuStreamGetCtx_v2(CUstream hStream, CUcontext *pCtx, CUgreenCtx *pGreenCtx)
{
    NEED_STREAM(st);
    if (pCtx)
        *pCtx = (CUcontext)st->context;
    if (pGreenCtx)
        *pGreenCtx = NULL;
    return CUDA_SUCCESS;
}

CUresult sim_cuStreamGetDevice(CUstream hStream, CUdevice *device)
{
    NEED_STREAM(st);
    if (!device)
        return CUDA_ERROR_INVALID_VALUE;
    *device = (CUdevice)st->context->ordinal;
    return CUDA_SUCCESS;
}

CUresult sim_cuStreamAttachMemAsync(CUstream hStream, CUdeviceptr dptr, size_t length, unsigned int flags)
{
    NEED_STREAM(st);
    (void)st, (void)length, (void)flags;
    struct found f;
    return block_find(dptr, &f) && f.heap->managed ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult sim_cuStreamCopyAttributes(CUstream dst, CUstream src)
{
    struct stream *to, *from;
    CUresult status = stream_resolve(dst, &to);
    if (status == CUDA_SUCCESS)
        status = stream_resolve(src, &from);
    if (status == CUDA_SUCCESS)
        to->window = from->window;
    return status;
}

CUresult sim_cuStreamSetAttribute(CUstream hStream, CUstreamAttrID attr, const CUstreamAttrValue *value)
{
    NEED_STREAM(st);
    if (!value)
        return CUDA_ERROR_INVALID_VALUE;
    if (attr == CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW)
        st->window = value->accessPolicyWindow;
    else if (attr == CU_LAUNCH_ATTRIBUTE_PRIORITY)
        st->priority = value->priority;
    return CUDA_SUCCESS;
}

CUresult sim_cuStreamGetAttribute(CUstream hStream, CUstreamAttrID attr, CUstreamAttrValue *value_out)
{
    NEED_STREAM(st);
    if (!value_out)
        return CUDA_ERROR_INVALID_VALUE;
    memset(value_out, 0, sizeof *value_out);
    if (attr == CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW)
        value_out->accessPolicyWindow = st->window;
    else if (attr == CU_LAUNCH_ATTRIBUTE_PRIORITY)
        value_out->priority = st->priority;
    return CUDA_SUCCESS;
}

CUresult sim_cuStreamAddCallback(CUstream hStream, CUstreamCallback callback, void *userData, unsigned int flags)
{
    NEED_STREAM(st);
    if (!callback || flags)
        return CUDA_ERROR_INVALID_VALUE;
    return st->capture ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : call_back(st, NULL, callback, userData);
}

CUresult sim_cuLaunchHostFunc(CUstream hStream, CUhostFn fn, void *userData)
{
    NEED_STREAM(st);
    if (!fn)
        return CUDA_ERROR_INVALID_VALUE;
    return st->capture ? capture_host(st, fn, userData) : call_back(st, fn, NULL, userData);
}

/* Values in memory that streams write and wait for: seen by the host at once. */
#define WRITE_VALUE(name, type)                                                                        \
    CUresult name(CUstream hStream, CUdeviceptr addr, type value, unsigned int flags)                  \
    {                                                                                                  \
        NEED_STREAM(st);                                                                               \
        (void)flags;                                                                                   \
        ticket_wait(st->context, atomic_load(&st->ticket));                                            \
        return copy_bytes(addr, (uint64_t)(uintptr_t)&value, sizeof value);                            \
    }
WRITE_VALUE(sim_cuStreamWriteValue32, cuuint32_t)
WRITE_VALUE(sim_cuStreamWriteValue32_v2, cuuint32_t)
WRITE_VALUE(sim_cuStreamWriteValue64, cuuint64_t)
WRITE_VALUE(sim_cuStreamWriteValue64_v2, cuuint64_t)

static bool value_there(uint64_t now, uint64_t wanted, unsigned flags, unsigned bits)
{
    switch (flags & 3) {
    case CU_STREAM_WAIT_VALUE_GEQ: return bits == 32 ? (int32_t)((uint32_t)now - (uint32_t)wanted) >= 0 : (int64_t)(now - wanted) >= 0;
    case CU_STREAM_WAIT_VALUE_EQ: return now == wanted;
    case CU_STREAM_WAIT_VALUE_AND: return (now & wanted) != 0;
    default: return (~(now | wanted)) != 0;
    }
}

#define WAIT_VALUE(name, type, bits)                                                                   \
    CUresult name(CUstream hStream, CUdeviceptr addr, type value, unsigned int flags)                  \
    {                                                                                                  \
        NEED_STREAM(st);                                                                               \
        if (!memory_known(addr, sizeof value))                                                         \
            return CUDA_ERROR_INVALID_VALUE;                                                           \
        ticket_wait(st->context, atomic_load(&st->ticket));                                            \
        while (!value_there(*(volatile type *)(uintptr_t)addr, value, flags, bits))                    \
            clock_wait_until(process.state, clock_now(process.state) + 200000);                        \
        return CUDA_SUCCESS;                                                                           \
    }
WAIT_VALUE(sim_cuStreamWaitValue32, cuuint32_t, 32)
WAIT_VALUE(sim_cuStreamWaitValue32_v2, cuuint32_t, 32)
WAIT_VALUE(sim_cuStreamWaitValue64, cuuint64_t, 64)
WAIT_VALUE(sim_cuStreamWaitValue64_v2, cuuint64_t, 64)

/* ---- events ---------------------------------------------------------------------------------------------------------- */

static uint16_t free_cells[SIM_CELLS];
static uint32_t free_from, free_to, cells_used;
static pthread_mutex_t cell_lock = PTHREAD_MUTEX_INITIALIZER;

static bool cell_take(uint32_t *out)
{
    bool got = true;
    pthread_mutex_lock(&cell_lock);
    if (cells_used < SIM_CELLS)
        *out = cells_used++;
    else if (free_from != free_to)
        *out = free_cells[free_from++ % SIM_CELLS];
    else
        got = false;
    pthread_mutex_unlock(&cell_lock);
    return got;
}

static void cell_leave(uint32_t cell)
{
    pthread_mutex_lock(&cell_lock);
    free_cells[free_to++ % SIM_CELLS] = (uint16_t)cell;
    pthread_mutex_unlock(&cell_lock);
}

#define NEED_EVENT(e)                                          \
    struct event *e = object_of(hEvent, OBJECT_EVENT);         \
    if (!e)                                                    \
        return CUDA_ERROR_INVALID_HANDLE

CUresult sim_cuEventCreate(CUevent *phEvent, unsigned int Flags)
{
    NEED_CONTEXT(c);
    if (!phEvent || (Flags & ~7u))
        return CUDA_ERROR_INVALID_VALUE;
    struct event *e = object_new(OBJECT_EVENT);
    if (!e || !cell_take(&e->cell))
        return CUDA_ERROR_OUT_OF_MEMORY;
    e->context = c;
    e->flags = Flags;
    *phEvent = (CUevent)e;
    return CUDA_SUCCESS;
}

/* Another process's event is reached when its cell says so, or when that process is gone. */
bool event_reached(const struct event *e)
{
    if (!e->foreign)
        return ticket_done(e->context, e->ticket);
    struct sim_state *s = process.state;
    uint32_t slot = e->foreign - 1;
    lock_take(s, &s->devices[e->foreign_device].lock, process.slot);
    device_advance(s, e->foreign_device, clock_now(s));
    lock_leave(&s->devices[e->foreign_device].lock);
    return atomic_load(&s->cells[slot][e->cell]) != 0 || s->slots[slot].started != e->foreign_started || !slot_alive(s, slot);
}

void event_wait(const struct event *e)
{
    if (!e->foreign)
        ticket_wait(e->context, e->ticket);
    while (e->foreign && !event_reached(e))
        clock_wait_until(process.state, clock_now(process.state) + 200000);
}

static CUresult destroy_event(CUevent hEvent)
{
    NEED_EVENT(e);
    if (!e->foreign)
        cell_leave(e->cell);
    object_end(e);
    return CUDA_SUCCESS;
}

CUresult sim_cuEventDestroy_v2(CUevent hEvent) { return destroy_event(hEvent); }
CUresult sim_cuEventDestroy(CUevent hEvent) { return destroy_event(hEvent); }

CUresult sim_cuEventRecordWithFlags(CUevent hEvent, CUstream hStream, unsigned int flags)
{
    NEED_STREAM(st);
    NEED_EVENT(e);
    if (e->foreign)
        return CUDA_ERROR_NOT_SUPPORTED;
    if (flags & ~1u)
        return CUDA_ERROR_INVALID_VALUE;
    if (st->context != e->context)
        return CUDA_ERROR_INVALID_HANDLE;
    if (st->capture)
        return capture_event(st, e);
    atomic_store(&process.state->cells[process.slot][e->cell], 0);
    e->captured_in = NULL;
    CUresult status = stream_push(st, 0, 0, e->cell, &e->ticket);
    e->recorded = 1;
    return status;
}

CUresult sim_cuEventRecord(CUevent hEvent, CUstream hStream)
{
    return sim_cuEventRecordWithFlags(hEvent, hStream, 0);
}

/* While a capture in global mode goes on, other threads may not ask: their question would end it. */
static bool forbidden(void)
{
    return any_global_capture();
}

CUresult sim_cuEventQuery(CUevent hEvent)
{
    NEED_EVENT(e);
    if (e->captured_in)
        return CUDA_ERROR_CAPTURED_EVENT;
    if (forbidden())
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    if (atomic_load(&device_at(e->context->device)->lost))
        return CUDA_ERROR_DEVICE_UNAVAILABLE;
    return event_reached(e) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

CUresult sim_cuEventSynchronize(CUevent hEvent)
{
    NEED_EVENT(e);
    if (e->captured_in)
        return CUDA_ERROR_CAPTURED_EVENT;
    if (forbidden())
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    event_wait(e);
    return after_wait(e->context);
}

static CUresult elapsed(float *ms, CUevent hStart, CUevent hEnd)
{
    struct event *from = object_of(hStart, OBJECT_EVENT), *to = object_of(hEnd, OBJECT_EVENT);
    if (!ms || !from || !to)
        return !ms ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_HANDLE;
    if (((from->flags | to->flags) & CU_EVENT_DISABLE_TIMING) || from->foreign || to->foreign || !from->recorded || !to->recorded)
        return CUDA_ERROR_INVALID_HANDLE;
    if (!ticket_done(from->context, from->ticket) || !ticket_done(to->context, to->ticket))
        return CUDA_ERROR_NOT_READY;
    int64_t a = atomic_load(&process.state->cells[process.slot][from->cell]), b = atomic_load(&process.state->cells[process.slot][to->cell]);
    *ms = (float)((double)(b - a) / 1e6);
    return CUDA_SUCCESS;
}

CUresult sim_cuEventElapsedTime(float *ms, CUevent a, CUevent b) { return elapsed(ms, a, b); }
CUresult sim_cuEventElapsedTime_v2(float *ms, CUevent a, CUevent b) { return elapsed(ms, a, b); }

CUresult sim_cuStreamWaitEvent(CUstream hStream, CUevent hEvent, unsigned int Flags)
{
    NEED_STREAM(st);
    NEED_EVENT(e);
    if (Flags & ~1u)
        return CUDA_ERROR_INVALID_VALUE;
    if (e->captured_in || st->capture)
        return capture_wait(st, e);
    if (e->context != st->context || e->foreign)
        event_wait(e);     /* another device's work: the caller waits in its place */
    return CUDA_SUCCESS;
}

/* ---- launches -------------------------------------------------------------------------------------------------------- */

static uint32_t busy_streams(struct context *c, struct stream *mine)
{
    uint64_t head = process.state->queues[c->index].head;
    uint32_t n = 1;
    pthread_mutex_lock(&c->lock);
    for (struct stream *st = c->streams; st; st = st->next)
        n += st != mine && atomic_load(&st->ticket) > head;
    pthread_mutex_unlock(&c->lock);
    return n;
}

int64_t work_of(struct context *c, struct stream *st, const struct kernel_cost *cost, uint64_t blocks)
{
    struct sim_state *s = process.state;
    int64_t work = kernel_time(s, c->device, blocks, cost->fixed, cost->wave, cost->blocks_per_sm);
    uint64_t wide = (uint64_t)device_at(c->device)->profile.sms * cost->blocks_per_sm;
    if (cost->wave && blocks < wide && c->streams && c->streams->next) {
        uint64_t streams = busy_streams(c, st), side = wide / (blocks ? blocks : 1);
        work /= (int64_t)(streams < side ? streams : side);
    }
    return s->noise > 0 || s->drift > 0 ? noisy(s, work, 1, clock_now(s)) : work;
}

struct function *function_of(CUfunction handle)
{
    return object_of(handle, OBJECT_FUNCTION);
}

static CUresult launch(CUfunction handle, uint64_t gx, uint64_t gy, uint64_t gz, uint64_t threads, unsigned shared, CUstream hStream, void **params,
                       void **extra, const CUDA_KERNEL_NODE_PARAMS *whole)
{
    NEED_STREAM(st);
    (void)params, (void)extra, (void)shared;
    struct function *f = function_of(handle);
    if (!SIM_LIKELY(f != NULL))
        return CUDA_ERROR_INVALID_HANDLE;
    if (!SIM_LIKELY(gx && gy && gz && threads && threads <= 1024))
        return CUDA_ERROR_INVALID_VALUE;
    if (!SIM_LIKELY(!st->capture))
        return capture_kernel(st, f, whole);
    return stream_push(st, work_of(st->context, st, &f->cost, gx * gy * gz), 1, SIM_NO_CELL, NULL);
}

CUresult sim_cuLaunchKernel(CUfunction f, unsigned int gx, unsigned int gy, unsigned int gz, unsigned int bx, unsigned int by, unsigned int bz,
                            unsigned int shared, CUstream hStream, void **kernelParams, void **extra)
{
    CUDA_KERNEL_NODE_PARAMS whole = {.func = f, .gridDimX = gx, .gridDimY = gy, .gridDimZ = gz, .blockDimX = bx, .blockDimY = by,
                                     .blockDimZ = bz, .sharedMemBytes = shared, .kernelParams = kernelParams, .extra = extra};
    return launch(f, gx, gy, gz, (uint64_t)bx * by * bz, shared, hStream, kernelParams, extra, &whole);
}

CUresult sim_cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction f, void **kernelParams, void **extra)
{
    if (!config)
        return CUDA_ERROR_INVALID_VALUE;
    return sim_cuLaunchKernel(f, config->gridDimX, config->gridDimY, config->gridDimZ, config->blockDimX, config->blockDimY, config->blockDimZ,
                              config->sharedMemBytes, config->hStream, kernelParams, extra);
}

CUresult sim_cuLaunchCooperativeKernel(CUfunction f, unsigned int gx, unsigned int gy, unsigned int gz, unsigned int bx, unsigned int by,
                                       unsigned int bz, unsigned int shared, CUstream hStream, void **kernelParams)
{
    struct context *c = current_context();
    struct function *known = function_of(f);
    if (c && known && (uint64_t)gx * gy * gz > (uint64_t)device_at(c->device)->profile.sms * known->cost.blocks_per_sm)
        return CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE;
    return sim_cuLaunchKernel(f, gx, gy, gz, bx, by, bz, shared, hStream, kernelParams, NULL);
}

CUresult sim_cuLaunchCooperativeKernelMultiDevice(CUDA_LAUNCH_PARAMS *list, unsigned int count, unsigned int flags)
{
    (void)flags;
    if (!list || !count)
        return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < count; i++) {
        CUresult status = sim_cuLaunchKernel(list[i].function, list[i].gridDimX, list[i].gridDimY, list[i].gridDimZ, list[i].blockDimX,
                                             list[i].blockDimY, list[i].blockDimZ, list[i].sharedMemBytes, list[i].hStream,
                                             list[i].kernelParams, NULL);
        if (status != CUDA_SUCCESS)
            return status;
    }
    return CUDA_SUCCESS;
}

static __thread struct { unsigned x, y, z, shared; } shape __attribute__((tls_model("initial-exec"))) = {1, 1, 1, 0};

CUresult sim_cuFuncSetBlockShape(CUfunction f, int x, int y, int z)
{
    if (!function_of(f))
        return CUDA_ERROR_INVALID_HANDLE;
    shape.x = (unsigned)x, shape.y = (unsigned)y, shape.z = (unsigned)z;
    return CUDA_SUCCESS;
}

CUresult sim_cuFuncSetSharedSize(CUfunction f, unsigned int bytes)
{
    shape.shared = bytes;
    return function_of(f) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult sim_cuLaunch(CUfunction f) { return sim_cuLaunchKernel(f, 1, 1, 1, shape.x, shape.y, shape.z, shape.shared, NULL, NULL, NULL); }
CUresult sim_cuLaunchGrid(CUfunction f, int w, int h)
{
    return sim_cuLaunchKernel(f, (unsigned)w, (unsigned)h, 1, shape.x, shape.y, shape.z, shape.shared, NULL, NULL, NULL);
}
CUresult sim_cuLaunchGridAsync(CUfunction f, int w, int h, CUstream hStream)
{
    return sim_cuLaunchKernel(f, (unsigned)w, (unsigned)h, 1, shape.x, shape.y, shape.z, shape.shared, hStream, NULL, NULL);
}
CUresult sim_cuParamSetSize(CUfunction f, unsigned int n) { (void)n; return function_of(f) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE; }
CUresult sim_cuParamSeti(CUfunction f, int o, unsigned int v) { (void)o, (void)v; return function_of(f) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE; }
CUresult sim_cuParamSetf(CUfunction f, int o, float v) { (void)o, (void)v; return function_of(f) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE; }
CUresult sim_cuParamSetv(CUfunction f, int o, void *p, unsigned int n)
{
    (void)o, (void)p, (void)n;
    return function_of(f) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}
