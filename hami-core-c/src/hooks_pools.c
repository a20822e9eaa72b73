/* Memory in stream order. A pool costs what it keeps or what lives in it, whichever is more: it may keep freed memory, and it may
 * be asked between two of its own granules. */
#include "hooks.h"
#include "holdings.h"

static uint64_t larger(uint64_t a, uint64_t b) { return a > b ? a : b; }

/* The driver keeps memory for graphs in a pool that has no handle: its number here is the device's and one. */
static uint64_t graphs_of(int device) { return (uint64_t)device + 1; }
static bool is_graphs(uint64_t handle) { return handle && handle <= HAMI_DEVICES; }
static struct pool *pool_at(struct process *p, unsigned i) { return i < POOLS ? &p->state.pools[i] : &p->state.graphs[i - POOLS]; }

/* Under process.pools. */
static struct pool *pool_of(struct process *p, uint64_t handle, int device)
{
    struct pool *free = NULL;
    if (is_graphs(handle)) {
        struct pool *one = &p->state.graphs[handle - 1];
        one->handle = handle;
        one->device = (uint8_t)(handle - 1);
        return one;
    }
    for (unsigned i = 0; i < POOLS; i++) {
        struct pool *one = &p->state.pools[i];
        if (one->handle == handle)
            return one;
        if (!one->handle && !free)
            free = one;
    }
    if (free && device >= 0)
        *free = (struct pool){.handle = handle, .device = (uint8_t)device};
    return device >= 0 ? free : NULL;
}

static CUdevice ordinal_of(struct process *p, int device)
{
    for (int i = 0; i < ORDINALS; i++)
        if (p->state.index_of[i] == device)
            return i;
    return -1;
}

static bool reserved(struct process *p, const struct driver *d, uint64_t pool, uint64_t *bytes)
{
    if (is_graphs(pool))
        return d->cuDeviceGetGraphMemAttribute &&
            d->cuDeviceGetGraphMemAttribute(ordinal_of(p, (int)pool - 1), GRAPH_RESERVED_CURRENT, bytes) == CUDA_SUCCESS;
    return d->cuMemPoolGetAttribute &&
        d->cuMemPoolGetAttribute((CUmemoryPool)(uintptr_t)pool, POOL_RESERVED_CURRENT, bytes) == CUDA_SUCCESS;
}

/* The ledger has so much more for a pool; one that has ended meanwhile needs it no longer. */
static void pool_paid(struct process *p, uint64_t handle, int device, uint64_t bytes)
{
    bool owner = pools_enter(p);
    struct pool *one = pool_of(p, handle, -1);
    if (one)
        one->charged += bytes;
    pools_leave(p, owner);
    if (!one)
        uncharge(p, device, CHARGE_DATA, bytes);
}

/* Bring the charge to max(live, kept); false: it would have to grow beyond the limit. `charged` is never more than what the ledger has:
 * it shrinks before the ledger does and grows after it. */
static bool settle(struct process *p, uint64_t handle, uint64_t kept)
{
    bool owner = pools_enter(p);
    struct pool *one = pool_of(p, handle, -1);
    uint64_t want = one ? larger(one->live, kept) : 0, was = one ? one->charged : 0;
    int device = one ? one->device : NO_DEVICE;
    if (one && (want < was || device == NO_DEVICE))
        one->charged = want;
    if (one && one->gone && !one->live)
        one->handle = 0;
    pools_leave(p, owner);
    if (device == NO_DEVICE || want == was)
        return true;
    if (want < was) {
        uncharge(p, device, CHARGE_DATA, was - want);
        return true;
    }
    if (ledger_reserve(&p->state.ledger, (unsigned)device, CHARGE_DATA, want - was, p->state.rules[device].memory) != VERDICT_DONE)
        return false;
    pool_paid(p, handle, device, want - was);
    return true;
}

/* No more is left of graphs that are gone than the driver says is in use. */
static void graphs_look(struct process *p, const struct driver *d, int device)
{
    uint64_t used = 0;
    bool owner = pools_enter(p);
    struct pool *one = &p->state.graphs[device];
    bool any = one->left != 0;
    pools_leave(p, owner);
    if (!any || !d->cuDeviceGetGraphMemAttribute ||
        d->cuDeviceGetGraphMemAttribute(ordinal_of(p, device), GRAPH_USED_CURRENT, &used) != CUDA_SUCCESS)
        return;
    owner = pools_enter(p);
    uint64_t freed = one->left > used ? one->left - used : 0;
    one->left -= freed;
    one->live -= freed < one->live ? freed : one->live;
    any = one->left != 0;
    pools_leave(p, owner);
    if (any)
        atomic_store_explicit(&p->state.pools_loose, 1, memory_order_relaxed);
}

void pools_settle(struct process *p, const struct driver *d)
{
    if (!atomic_exchange_explicit(&p->state.pools_loose, 0, memory_order_relaxed))
        return;
    for (unsigned i = 0; i < POOLS + HAMI_DEVICES; i++) {
        if (i >= POOLS)
            graphs_look(p, d, (int)(i - POOLS));
        bool owner = pools_enter(p);
        struct pool one = *pool_at(p, i);
        pools_leave(p, owner);
        uint64_t kept = 0;
        if (!one.handle || one.charged <= one.live)
            continue;
        if (one.gone || reserved(p, d, one.handle, &kept))
            settle(p, one.handle, kept);
        if (kept > one.live)
            atomic_store_explicit(&p->state.pools_loose, 1, memory_order_relaxed);
    }
}

void pools_trim(struct process *p, const struct driver *d, int device)
{
    if (!d->cuMemPoolTrimTo || atomic_load_explicit(&p->state.capturing, memory_order_relaxed))
        return;
    graphs_look(p, d, device);
    for (unsigned i = 0; i < POOLS + HAMI_DEVICES; i++) {
        bool owner = pools_enter(p);
        struct pool one = *pool_at(p, i);
        pools_leave(p, owner);
        uint64_t kept = 0;
        if (!one.handle || one.gone || one.device != device || one.charged <= one.live)
            continue;
        if (is_graphs(one.handle))
            graphs_trim(p, d, device);
        else if (d->cuMemPoolTrimTo((CUmemoryPool)(uintptr_t)one.handle, 0) == CUDA_SUCCESS && reserved(p, d, one.handle, &kept))
            settle(p, one.handle, kept);
    }
}

void graphs_trim(struct process *p, const struct driver *d, int device)
{
    uint64_t kept = 0;
    CUdevice ordinal = ordinal_of(p, device);
    if (ordinal >= 0 && d->cuDeviceGraphMemTrim)
        d->cuDeviceGraphMemTrim(ordinal);
    graphs_look(p, d, device);
    if (!reserved(p, d, graphs_of(device), &kept) || !settle(p, graphs_of(device), kept))
        atomic_store_explicit(&p->state.pools_loose, 1, memory_order_relaxed);
}

void pool_block_gone(struct process *p, const struct holding *h)
{
    bool owner = pools_enter(p);
    struct pool *one = pool_of(p, h->extra, -1);
    if (one)
        one->live -= h->bytes < one->live ? h->bytes : one->live;
    pools_leave(p, owner);
    atomic_store_explicit(&p->state.pools_loose, 1, memory_order_relaxed);
}

static bool captured(struct process *p, const struct driver *d, CUstream stream)
{
    CUstreamCaptureStatus status = 0;
    return atomic_load_explicit(&p->state.capturing, memory_order_acquire) && d->cuStreamIsCapturing &&
        d->cuStreamIsCapturing(stream, &status) == CUDA_SUCCESS && status != 0;
}

struct stream_claim { uint64_t pool, bytes, fresh; int device; };

/* What the pool has room for costs nothing more. */
static bool stream_reserve(struct process *p, const struct driver *d, uint64_t pool, int device, uint64_t bytes, struct stream_claim *out)
{
    bool owner = pools_enter(p);
    struct pool *one = pool_of(p, pool, device);
    uint64_t room = one && one->charged > one->live ? one->charged - one->live : 0;
    *out = (struct stream_claim){.pool = one ? pool : 0, .bytes = bytes, .fresh = bytes > room ? granules(bytes - room) : 0,
        .device = one ? one->device : device};
    if (one)
        one->live += bytes;
    pools_leave(p, owner);
    if (!one)
        out->fresh = granules(bytes);
    if (out->device == NO_DEVICE)
        return true;
    if (charge(p, d, out->device, CHARGE_DATA, out->fresh)) {
        if (one)
            pool_paid(p, pool, out->device, out->fresh);
        return true;
    }
    if (one)
        pool_block_gone(p, &(struct holding){.bytes = bytes, .extra = pool});
    return false;
}

static void stream_undo(struct process *p, const struct driver *d, const struct stream_claim *c)
{
    if (!c->pool) {
        uncharge(p, c->device, CHARGE_DATA, c->fresh);
        return;
    }
    pool_block_gone(p, &(struct holding){.bytes = c->bytes, .extra = c->pool});
    uint64_t kept = 0;
    if (reserved(p, d, c->pool, &kept))
        settle(p, c->pool, kept);
    else
        settle(p, c->pool, 0);
}

bool graphs_take(struct process *p, const struct driver *d, int device, uint64_t bytes, struct holding *out)
{
    struct stream_claim c;
    *out = (struct holding){.bytes = bytes, .extra = graphs_of(device), .device = (uint8_t)device, .kind = HELD_STREAM};
    graphs_look(p, d, device);
    return stream_reserve(p, d, graphs_of(device), device, bytes, &c);
}

void graphs_gone(struct process *p, const struct driver *d, const struct holding *h)
{
    bool owner = pools_enter(p);
    p->state.graphs[h->device].left += h->bytes;
    pools_leave(p, owner);
    graphs_trim(p, d, h->device);
}

/* Where a stream works: in the current context, mostly. */
static bool place_of_stream(struct process *p, const struct driver *d, CUstream stream, struct place *at)
{
    CUcontext own, old;
    CUdevice ordinal;
    if ((uintptr_t)stream <= 2 || !d->cuStreamGetCtx || d->cuStreamGetCtx(stream, &own) != CUDA_SUCCESS || own == at->context ||
        !d->cuCtxPushCurrent_v2 || !d->cuCtxPopCurrent_v2 || d->cuCtxPushCurrent_v2(own) != CUDA_SUCCESS)
        return true;
    bool known = d->cuCtxGetDevice(&ordinal) == CUDA_SUCCESS;
    d->cuCtxPopCurrent_v2(&old);
    return !known || ordinal == at->ordinal || place_of(p, ordinal, at);
}

/* A pool that we did not see made is some device's default one; where it is none, it is taken for the current device's. */
static int device_of_pool(struct process *p, const struct driver *d, CUmemoryPool pool, int device)
{
    bool owner = pools_enter(p), known = pool_of(p, (uint64_t)(uintptr_t)pool, -1) != NULL;
    pools_leave(p, owner);
    CUmemoryPool own;
    struct place at;
    for (int i = 0; !known && d->cuDeviceGetDefaultMemPool && i < ORDINALS; i++)
        if (place_of(p, i, &at) && d->cuDeviceGetDefaultMemPool(&own, i) == CUDA_SUCCESS && own == pool)
            return at.device;
    return device;
}

static CUresult stream_enter(struct process *p, const struct driver *next, const struct stream_claim *c, CUdeviceptr at, CUstream stream,
                             CUresult (*give_back)(CUdeviceptr, CUstream))
{
    struct holding h = {.bytes = c->pool ? c->bytes : c->fresh, .extra = c->pool, .device = (uint8_t)c->device,
        .kind = !c->pool ? HELD_BLOCK : HELD_STREAM};
    if (c->device == NO_DEVICE)
        h.device = 0;
    uint64_t kept = 0;
    CUresult status = CUDA_SUCCESS;
    if (c->pool && next->cuMemPoolGetAttribute)
        status = next->cuMemPoolGetAttribute((CUmemoryPool)(uintptr_t)c->pool, POOL_RESERVED_CURRENT, &kept);
    if (status == CUDA_SUCCESS && c->pool && !settle(p, c->pool, kept))
        status = CUDA_ERROR_OUT_OF_MEMORY;
    if (status == CUDA_SUCCESS && !pointers_put(&p->pointers, FAMILY_POINTER, at, &h))
        status = CUDA_ERROR_OUT_OF_MEMORY;
    if (status == CUDA_SUCCESS)
        return status;
    if (give_back)
        give_back(at, stream);
    if (next->cuStreamSynchronize)
        next->cuStreamSynchronize(stream);
    if (c->pool && next->cuMemPoolTrimTo && status == CUDA_ERROR_OUT_OF_MEMORY)
        next->cuMemPoolTrimTo((CUmemoryPool)(uintptr_t)c->pool, 0);
    stream_undo(p, next, c);
    return status;
}

static CUresult stream_alloc(const struct driver *next, CUdeviceptr *dptr, size_t bytes, CUmemoryPool pool, CUstream stream,
                             CUresult (*make)(CUdeviceptr *, size_t, CUmemoryPool, CUstream),
                             CUresult (*make_default)(CUdeviceptr *, size_t, CUstream), CUresult (*give_back)(CUdeviceptr, CUstream))
{
    GATE(p, next, make ? make(dptr, bytes, pool, stream) : make_default(dptr, bytes, stream))
    struct place at;
    struct stream_claim c;
    bool known = dptr && bytes && place_now(p, next, &at) && !captured(p, next, stream);
    if (known && !pool)
        known = place_of_stream(p, next, stream, &at);
    if (known && !pool)
        known = next->cuDeviceGetMemPool && next->cuDeviceGetMemPool(&pool, at.ordinal) == CUDA_SUCCESS;
    if (!known)
        return make ? make(dptr, bytes, pool, stream) : make_default(dptr, bytes, stream);
    if (!stream_reserve(p, next, (uint64_t)(uintptr_t)pool, device_of_pool(p, next, pool, at.device), bytes, &c))
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult status = make ? make(dptr, bytes, pool, stream) : make_default(dptr, bytes, stream);
    if (status == CUDA_SUCCESS)
        return stream_enter(p, next, &c, *dptr, stream, give_back);
    stream_undo(p, next, &c);
    return status;
}

CUresult hook_cuMemAllocAsync(const struct driver *next, CUdeviceptr *dptr, size_t bytesize, CUstream hStream)
{
    return stream_alloc(next, dptr, bytesize, NULL, hStream, NULL, next->cuMemAllocAsync, next->cuMemFreeAsync);
}

CUresult hook_cuMemAllocAsync_ptsz(const struct driver *next, CUdeviceptr *dptr, size_t bytesize, CUstream hStream)
{
    return stream_alloc(next, dptr, bytesize, NULL, hStream, NULL, next->cuMemAllocAsync_ptsz, next->cuMemFreeAsync_ptsz);
}

CUresult hook_cuMemAllocFromPoolAsync(const struct driver *next, CUdeviceptr *dptr, size_t bytesize, CUmemoryPool pool, CUstream hStream)
{
    return stream_alloc(next, dptr, bytesize, pool, hStream, next->cuMemAllocFromPoolAsync, NULL, next->cuMemFreeAsync);
}

CUresult hook_cuMemAllocFromPoolAsync_ptsz(const struct driver *next, CUdeviceptr *dptr, size_t bytesize, CUmemoryPool pool, CUstream hStream)
{
    return stream_alloc(next, dptr, bytesize, pool, hStream, next->cuMemAllocFromPoolAsync_ptsz, NULL, next->cuMemFreeAsync_ptsz);
}

static CUresult stream_free(const struct driver *next, CUdeviceptr at, CUstream stream, CUresult (*give_back)(CUdeviceptr, CUstream))
{
    GATE(p, next, give_back(at, stream))
    struct holding h;
    bool ours = at && !captured(p, next, stream) && pointers_take(&p->pointers, FAMILY_POINTER, at, &h);
    CUresult status = give_back(at, stream);
    if (ours && status == CUDA_SUCCESS)
        holding_gone(p, FAMILY_POINTER, &h);
    else if (ours)
        pointers_put(&p->pointers, FAMILY_POINTER, at, &h);
    return status;
}

CUresult hook_cuMemFreeAsync(const struct driver *next, CUdeviceptr dptr, CUstream hStream)
{
    return stream_free(next, dptr, hStream, next->cuMemFreeAsync);
}

CUresult hook_cuMemFreeAsync_ptsz(const struct driver *next, CUdeviceptr dptr, CUstream hStream)
{
    return stream_free(next, dptr, hStream, next->cuMemFreeAsync_ptsz);
}

CUresult hook_cuMemPoolTrimTo(const struct driver *next, CUmemoryPool pool, size_t minBytesToKeep)
{
    GATE(p, next, next->cuMemPoolTrimTo(pool, minBytesToKeep))
    CUresult status = next->cuMemPoolTrimTo(pool, minBytesToKeep);
    uint64_t kept;
    if (status == CUDA_SUCCESS && reserved(p, next, (uint64_t)(uintptr_t)pool, &kept))
        settle(p, (uint64_t)(uintptr_t)pool, kept);
    return status;
}

CUresult hook_cuMemPoolCreate(const struct driver *next, CUmemoryPool *pool, const CUmemPoolProps *poolProps)
{
    GATE(p, next, next->cuMemPoolCreate(pool, poolProps))
    CUresult status = next->cuMemPoolCreate(pool, poolProps);
    struct place at;
    if (status != CUDA_SUCCESS || !pool || !poolProps)
        return status;
    bool device = poolProps->location.type == LOCATION_DEVICE && place_of(p, poolProps->location.id, &at);
    bool owner = pools_enter(p);
    pool_of(p, (uint64_t)(uintptr_t)*pool, device ? at.device : NO_DEVICE);
    pools_leave(p, owner);
    return status;
}

CUresult hook_cuMemPoolDestroy(const struct driver *next, CUmemoryPool pool)
{
    GATE(p, next, next->cuMemPoolDestroy(pool))
    CUresult status = next->cuMemPoolDestroy(pool);
    if (status != CUDA_SUCCESS)
        return status;
    bool owner = pools_enter(p);
    struct pool *one = pool_of(p, (uint64_t)(uintptr_t)pool, -1);
    if (one)
        one->gone = true;
    pools_leave(p, owner);
    settle(p, (uint64_t)(uintptr_t)pool, 0);
    return status;
}
