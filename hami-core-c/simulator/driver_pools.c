/* Memory that is not a plain block: pools, physical handles and their mappings, and what processes hand to each other. */
#include "driver.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* ---- pools ----------------------------------------------------------------------------------------------------------- */

#define POOLS 256
static struct pool *pools[POOLS];

bool pool_take_granules(struct pool *p, uint64_t bytes)
{
    bool got = true;
    pthread_mutex_lock(&p->lock);
    uint64_t wanted = p->granules_used + bytes;
    if (p->most && wanted > p->most)
        got = false;
    else if (wanted > p->reserved) {
        uint64_t step = device_at(p->device)->pool_granule, more = wanted - p->reserved;
        more = (more + step - 1) / step * step;
        got = memory_charge(process.state, process.slot, p->device, KIND_POOL, more);
        if (!got && more != wanted - p->reserved) {
            more = wanted - p->reserved;
            got = memory_charge(process.state, process.slot, p->device, KIND_POOL, more);
        }
        if (got && (p->reserved += more) > p->reserved_high)
            p->reserved_high = p->reserved;
    }
    if (got)
        p->granules_used = wanted;
    pthread_mutex_unlock(&p->lock);
    return got;
}

/* They belong to whoever holds them from now on, and no longer to the pool. */
void pool_give_away(struct pool *p, uint64_t bytes)
{
    pthread_mutex_lock(&p->lock);
    p->granules_used -= bytes;
    p->reserved -= bytes;
    pthread_mutex_unlock(&p->lock);
}

void pool_leave_granules(struct pool *p, uint64_t bytes)
{
    pthread_mutex_lock(&p->lock);
    p->granules_used -= bytes;
    pthread_mutex_unlock(&p->lock);
}

static void trim(struct pool *p, uint64_t keep)
{
    pthread_mutex_lock(&p->lock);
    uint64_t step = device_at(p->device)->pool_granule, floor = (p->granules_used + step - 1) / step * step;
    keep = (keep + SIM_GRANULE - 1) & ~(SIM_GRANULE - 1);
    if (keep < floor)
        keep = floor;
    if (p->reserved > keep) {
        memory_return(process.state, process.slot, p->device, KIND_POOL, p->reserved - keep);
        p->reserved = keep;
    }
    pthread_mutex_unlock(&p->lock);
}

void pool_settle(uint32_t device)
{
    for (unsigned i = 0; i < POOLS; i++) {
        struct pool *p = __atomic_load_n(&pools[i], __ATOMIC_ACQUIRE);
        if (p && p->device == device && p->reserved > p->threshold && p->reserved > p->granules_used)
            trim(p, p->threshold);
    }
}

static struct pool *pool_new(uint32_t ordinal)
{
    struct pool *p = object_new(OBJECT_POOL);
    if (!p)
        return NULL;
    p->ordinal = ordinal;
    p->device = process.devices[ordinal];
    p->access = UINT64_C(1) << ordinal;
    p->reuse[0] = p->reuse[1] = p->reuse[2] = 1;
    pthread_mutex_init(&p->lock, NULL);
    p->heap = heap_new(p->device, KIND_POOL, NULL, p);
    for (unsigned i = 0; i < POOLS && p->heap; i++) {
        struct pool *none = NULL;
        if (__atomic_compare_exchange_n(&pools[i], &none, p, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
            return p;
    }
    object_end(p);
    return NULL;
}

struct pool *pool_make(uint32_t ordinal)
{
    pthread_mutex_lock(&process.lock);
    struct pool *p = pool_new(ordinal);
    pthread_mutex_unlock(&process.lock);
    return p;
}

static struct pool *default_pool(uint32_t ordinal)
{
    pthread_mutex_lock(&process.lock);
    if (!process.default_pool[ordinal]) {
        process.default_pool[ordinal] = pool_new(ordinal);
        if (process.default_pool[ordinal])
            process.default_pool[ordinal]->default_of_device = 1;
        if (!process.current_pool[ordinal])
            process.current_pool[ordinal] = process.default_pool[ordinal];
    }
    struct pool *p = process.default_pool[ordinal];
    pthread_mutex_unlock(&process.lock);
    return p;
}

static struct pool *current_pool(uint32_t ordinal)
{
    struct pool *p = process.current_pool[ordinal];
    return p ? p : default_pool(ordinal);
}

CUresult sim_cuDeviceGetDefaultMemPool(CUmemoryPool *pool_out, CUdevice dev)
{
    if (!pool_out)
        return CUDA_ERROR_INVALID_VALUE;
    if (!ordinal_known(dev))
        return CUDA_ERROR_INVALID_DEVICE;
    *pool_out = (CUmemoryPool)default_pool((uint32_t)dev);
    return *pool_out ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult sim_cuDeviceGetMemPool(CUmemoryPool *pool, CUdevice dev)
{
    if (!pool)
        return CUDA_ERROR_INVALID_VALUE;
    if (!ordinal_known(dev))
        return CUDA_ERROR_INVALID_DEVICE;
    *pool = (CUmemoryPool)current_pool((uint32_t)dev);
    return *pool ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult sim_cuDeviceSetMemPool(CUdevice dev, CUmemoryPool pool)
{
    struct pool *p = object_of(pool, OBJECT_POOL);
    if (!ordinal_known(dev))
        return CUDA_ERROR_INVALID_DEVICE;
    if (!p || p->ordinal != (uint32_t)dev)
        return CUDA_ERROR_INVALID_VALUE;
    process.current_pool[dev] = p;
    return CUDA_SUCCESS;
}

static int ordinal_of_location(const CUmemLocation *where)
{
    return where->type == CU_MEM_LOCATION_TYPE_DEVICE && ordinal_known(where->id) ? where->id : -1;
}

CUresult sim_cuMemGetDefaultMemPool(CUmemoryPool *pool_out, CUmemLocation *location, CUmemAllocationType type)
{
    if (!pool_out || !location || type != CU_MEM_ALLOCATION_TYPE_PINNED)
        return CUDA_ERROR_INVALID_VALUE;
    int ordinal = ordinal_of_location(location);
    return ordinal < 0 ? CUDA_ERROR_NOT_SUPPORTED : sim_cuDeviceGetDefaultMemPool(pool_out, ordinal);
}

CUresult sim_cuMemGetMemPool(CUmemoryPool *pool, CUmemLocation *location, CUmemAllocationType type)
{
    if (!pool || !location || type != CU_MEM_ALLOCATION_TYPE_PINNED)
        return CUDA_ERROR_INVALID_VALUE;
    int ordinal = ordinal_of_location(location);
    return ordinal < 0 ? CUDA_ERROR_NOT_SUPPORTED : sim_cuDeviceGetMemPool(pool, ordinal);
}

CUresult sim_cuMemSetMemPool(CUmemLocation *location, CUmemAllocationType type, CUmemoryPool pool)
{
    if (!location || type != CU_MEM_ALLOCATION_TYPE_PINNED)
        return CUDA_ERROR_INVALID_VALUE;
    int ordinal = ordinal_of_location(location);
    return ordinal < 0 ? CUDA_ERROR_NOT_SUPPORTED : sim_cuDeviceSetMemPool(ordinal, pool);
}

CUresult sim_cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *props)
{
    if (!pool || !props || props->allocType != CU_MEM_ALLOCATION_TYPE_PINNED)
        return CUDA_ERROR_INVALID_VALUE;
    int ordinal = ordinal_of_location(&props->location);
    if (ordinal < 0)
        return props->location.type == CU_MEM_LOCATION_TYPE_DEVICE ? CUDA_ERROR_INVALID_DEVICE : CUDA_ERROR_NOT_SUPPORTED;
    struct pool *p = pool_make((uint32_t)ordinal);
    if (!p)
        return CUDA_ERROR_OUT_OF_MEMORY;
    p->handle_types = (uint32_t)props->handleTypes;
    p->most = props->maxSize;
    *pool = (CUmemoryPool)p;
    return CUDA_SUCCESS;
}

#define NEED_POOL(p)                                     \
    struct pool *p = object_of(pool, OBJECT_POOL);       \
    if (!p)                                              \
        return CUDA_ERROR_INVALID_VALUE

CUresult sim_cuMemPoolDestroy(CUmemoryPool pool)
{
    NEED_POOL(p);
    if (p->default_of_device)
        return CUDA_ERROR_INVALID_VALUE;
    if (process.current_pool[p->ordinal] == p)
        process.current_pool[p->ordinal] = process.default_pool[p->ordinal];
    heap_end(p->heap);
    for (unsigned i = 0; i < POOLS; i++)
        if (pools[i] == p)
            __atomic_store_n(&pools[i], NULL, __ATOMIC_RELEASE);
    p->granules_used = 0;
    trim(p, 0);
    if (p->exported)
        share_leave_here(p->exported - 1);
    if (p->imported)
        share_leave_here(p->imported - 1);
    p->exported = p->imported = 0;
    object_end(p);
    return CUDA_SUCCESS;
}

CUresult sim_cuMemPoolTrimTo(CUmemoryPool pool, size_t minBytesToKeep)
{
    NEED_POOL(p);
    trim(p, minBytesToKeep);
    return CUDA_SUCCESS;
}

CUresult sim_cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attr, void *value)
{
    NEED_POOL(p);
    if (!value)
        return CUDA_ERROR_INVALID_VALUE;
    switch (attr) {
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES: *(int *)value = (int)p->reuse[0]; break;
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC: *(int *)value = (int)p->reuse[1]; break;
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES: *(int *)value = (int)p->reuse[2]; break;
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD: *(cuuint64_t *)value = p->threshold; break;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT: *(cuuint64_t *)value = p->reserved; break;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH: *(cuuint64_t *)value = p->reserved_high; break;
    case CU_MEMPOOL_ATTR_USED_MEM_CURRENT: *(cuuint64_t *)value = p->used; break;
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH: *(cuuint64_t *)value = p->used_high; break;
    default: return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}

CUresult sim_cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attr, void *value)
{
    NEED_POOL(p);
    if (!value)
        return CUDA_ERROR_INVALID_VALUE;
    switch (attr) {
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES: p->reuse[0] = *(int *)value != 0; break;
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC: p->reuse[1] = *(int *)value != 0; break;
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES: p->reuse[2] = *(int *)value != 0; break;
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD: p->threshold = *(cuuint64_t *)value; break;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
        if (*(cuuint64_t *)value)
            return CUDA_ERROR_INVALID_VALUE;
        p->reserved_high = p->reserved;
        break;
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
        if (*(cuuint64_t *)value)
            return CUDA_ERROR_INVALID_VALUE;
        p->used_high = p->used;
        break;
    default: return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}

CUresult sim_cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc *map, size_t count)
{
    NEED_POOL(p);
    if (!map && count)
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count; i++) {
        int ordinal = ordinal_of_location(&map[i].location);
        if (ordinal < 0)
            return CUDA_ERROR_INVALID_DEVICE;
        if (map[i].flags)
            p->access |= UINT64_C(1) << ordinal;
        else if ((uint32_t)ordinal == p->ordinal)
            return CUDA_ERROR_INVALID_DEVICE;
        else
            p->access &= ~(UINT64_C(1) << ordinal);
    }
    return CUDA_SUCCESS;
}

CUresult sim_cuMemPoolGetAccess(CUmemAccess_flags *flags, CUmemoryPool pool, CUmemLocation *location)
{
    NEED_POOL(p);
    if (!flags || !location)
        return CUDA_ERROR_INVALID_VALUE;
    int ordinal = ordinal_of_location(location);
    if (ordinal < 0)
        return CUDA_ERROR_INVALID_DEVICE;
    *flags = p->access >> ordinal & 1 ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : CU_MEM_ACCESS_FLAGS_PROT_NONE;
    return CUDA_SUCCESS;
}

static CUresult alloc_from(struct pool *p, CUdeviceptr *dptr, size_t bytes, CUstream hStream)
{
    struct stream *st;
    CUresult status = stream_resolve(hStream, &st);
    if (status != CUDA_SUCCESS)
        return status;
    if (!p)
        p = current_pool(st->context->ordinal);
    if (!p)
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (p->imported)
        return CUDA_ERROR_INVALID_VALUE;    /* only its maker takes from it */
    if (st->capture)
        return capture_alloc(st, p, bytes, dptr);
    CUdeviceptr at = heap_alloc(p->heap, bytes);
    if (!at)
        return CUDA_ERROR_OUT_OF_MEMORY;
    uint64_t used = __atomic_add_fetch(&p->used, bytes, __ATOMIC_RELAXED);
    if (used > p->used_high)
        p->used_high = used;
    *dptr = at;
    return CUDA_SUCCESS;
}

CUresult sim_cuMemAllocAsync(CUdeviceptr *dptr, size_t bytesize, CUstream hStream)
{
    return dptr && bytesize ? alloc_from(NULL, dptr, bytesize, hStream) : CUDA_ERROR_INVALID_VALUE;
}

CUresult sim_cuMemAllocFromPoolAsync(CUdeviceptr *dptr, size_t bytesize, CUmemoryPool pool, CUstream hStream)
{
    NEED_POOL(p);
    return dptr && bytesize ? alloc_from(p, dptr, bytesize, hStream) : CUDA_ERROR_INVALID_VALUE;
}

CUresult sim_cuMemFreeAsync(CUdeviceptr dptr, CUstream hStream)
{
    struct stream *st;
    CUresult status = stream_resolve(hStream, &st);
    if (status != CUDA_SUCCESS)
        return status;
    if (st->capture)
        return capture_free(st, dptr);
    return block_free(dptr, true);
}

/* ---- content that several mappings see --------------------------------------------------------------------------------- */

uint64_t content_take(uint64_t bytes)
{
    int file = content_open();
    if (file < 0)
        return UINT64_MAX;
    uint64_t at = atomic_fetch_add(&process.state->content_end, bytes);
    /* Growing is left to whoever comes last; a shorter file is never cut. */
    if (posix_fallocate(file, (off_t)(at + bytes - 1), 1) != 0)
        return UINT64_MAX;
    return at;
}

void content_leave(uint64_t at, uint64_t bytes)
{
    int file = content_open();
    if (file >= 0)
        (void)!fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)at, (off_t)bytes);
}

static uint32_t held_here[SIM_SHARED];

bool share_hold_here(uint32_t share, uint64_t generation)
{
    if (share >= SIM_SHARED || !share_hold(process.state, process.slot, share, generation))
        return false;
    __atomic_fetch_add(&held_here[share], 1, __ATOMIC_RELAXED);
    return true;
}

void share_leave_here(uint32_t share)
{
    if (__atomic_sub_fetch(&held_here[share], 1, __ATOMIC_RELAXED) == 0)
        share_leave(process.state, process.slot, share);
}

/* ---- physical memory and addresses --------------------------------------------------------------------------------------- */

static bool on_host(const CUmemAllocationProp *prop)
{
    return prop->location.type == CU_MEM_LOCATION_TYPE_HOST || prop->location.type == CU_MEM_LOCATION_TYPE_HOST_NUMA ||
           prop->location.type == CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT;
}

static bool valid(const CUmemAllocationProp *prop)
{
    return prop && prop->type == CU_MEM_ALLOCATION_TYPE_PINNED && (on_host(prop) || ordinal_of_location(&prop->location) >= 0);
}

CUresult sim_cuMemGetAllocationGranularity(size_t *granularity, const CUmemAllocationProp *prop, CUmemAllocationGranularity_flags option)
{
    (void)option;
    if (!granularity || !valid(prop))
        return CUDA_ERROR_INVALID_VALUE;
    *granularity = SIM_GRANULE;
    return CUDA_SUCCESS;
}

CUresult sim_cuMemCreate(CUmemGenericAllocationHandle *handle, size_t size, const CUmemAllocationProp *prop, unsigned long long flags)
{
    if (!handle || !size || size % SIM_GRANULE || flags || !valid(prop))
        return prop && !on_host(prop) && ordinal_of_location(&prop->location) < 0 ? CUDA_ERROR_INVALID_DEVICE : CUDA_ERROR_INVALID_VALUE;
    uint32_t device = on_host(prop) ? process.devices[0] : process.devices[prop->location.id];
    if (atomic_load(&device_at(device)->lost))
        return CUDA_ERROR_DEVICE_UNAVAILABLE;
    if (!on_host(prop) && !memory_charge(process.state, process.slot, device, KIND_PHYSICAL, size))
        return CUDA_ERROR_OUT_OF_MEMORY;
    struct physical *p = object_new(OBJECT_PHYSICAL);
    if (!p || (p->content = content_take(size)) == UINT64_MAX) {
        if (!on_host(prop))
            memory_return(process.state, process.slot, device, KIND_PHYSICAL, size);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    p->device = device;
    p->bytes = size;
    p->references = 1;
    p->share = -1;
    p->host = on_host(prop);
    p->prop = *prop;
    *handle = (CUmemGenericAllocationHandle)(uintptr_t)p;
    return CUDA_SUCCESS;
}

static struct physical *physical_of(CUmemGenericAllocationHandle handle)
{
    return object_of((const void *)(uintptr_t)handle, OBJECT_PHYSICAL);
}

void physical_leave(struct physical *p)
{
    if (atomic_fetch_sub(&p->references, 1) > 1)
        return;
    multicast_end(p);
    if (p->share >= 0)
        share_leave_here((uint32_t)p->share);
    else {
        content_leave(p->content, p->bytes);
        if (!p->host)
            memory_return(process.state, process.slot, p->device, KIND_PHYSICAL, p->bytes);
    }
    object_end(p);
}

CUresult sim_cuMemRelease(CUmemGenericAllocationHandle handle)
{
    struct physical *p = physical_of(handle);
    if (!p)
        return CUDA_ERROR_INVALID_VALUE;
    physical_leave(p);
    return CUDA_SUCCESS;
}

CUresult sim_cuMemAddressReserve(CUdeviceptr *ptr, size_t size, size_t alignment, CUdeviceptr addr, unsigned long long flags)
{
    (void)addr;
    if (!ptr || !size || size % SIM_GRANULE || flags || (alignment & (alignment - 1)))
        return CUDA_ERROR_INVALID_VALUE;
    size_t align = alignment > SIM_GRANULE ? alignment : SIM_GRANULE;
    char *at = mmap(NULL, size + align, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED)
        return CUDA_ERROR_OUT_OF_MEMORY;
    char *use = (char *)(((uintptr_t)at + align - 1) & ~(uintptr_t)(align - 1));
    if (use > at)
        munmap(at, (size_t)(use - at));
    munmap(use + size, (size_t)(at + align - use));
    pthread_mutex_lock(&process.lock);
    bool kept = range_add((struct range){.base = (uint64_t)(uintptr_t)use, .bytes = size, .kind = RANGE_RESERVED, .share = -1});
    pthread_mutex_unlock(&process.lock);
    if (!kept)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *ptr = (CUdeviceptr)(uintptr_t)use;
    return CUDA_SUCCESS;
}

/* Under process.lock: the reservation that wholly contains a range. */
static struct range *reservation(uint64_t at, uint64_t bytes)
{
    size_t cursor = 0;
    for (struct range *r; (r = range_next(&cursor));)
        if (r->kind == RANGE_RESERVED && r->base <= at && at + bytes <= r->base + r->bytes)
            return r;
    return NULL;
}

static bool mapped_within(uint64_t at, uint64_t bytes)
{
    size_t cursor = 0;
    for (struct range *r; (r = range_next(&cursor));)
        if (r->kind == RANGE_MAPPED && r->base < at + bytes && at < r->base + r->bytes)
            return true;
    return false;
}

CUresult sim_cuMemAddressFree(CUdeviceptr ptr, size_t size)
{
    CUresult status = CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&process.lock);
    struct range *r = reservation(ptr, size);
    if (r && r->base == ptr && r->bytes == size && !mapped_within(ptr, size)) {
        munmap((void *)(uintptr_t)ptr, size);
        range_remove(ptr);
        status = CUDA_SUCCESS;
    }
    pthread_mutex_unlock(&process.lock);
    return status;
}

CUresult sim_cuMemMap(CUdeviceptr ptr, size_t size, size_t offset, CUmemGenericAllocationHandle handle, unsigned long long flags)
{
    struct physical *p = physical_of(handle);
    if (!p || !size || size % SIM_GRANULE || offset % SIM_GRANULE || ptr % SIM_GRANULE || flags || offset + size > p->bytes)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult status = CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&process.lock);
    if (reservation(ptr, size) && !mapped_within(ptr, size)) {
        void *at = mmap((void *)(uintptr_t)ptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED | MAP_NORESERVE, content_open(),
                        (off_t)(p->content + offset));
        status = at != MAP_FAILED && range_add((struct range){.base = ptr, .bytes = size, .kind = RANGE_MAPPED, .device = p->device,
                                                              .physical = p, .offset = offset, .share = -1})
                     ? CUDA_SUCCESS
                     : CUDA_ERROR_OUT_OF_MEMORY;
        if (status == CUDA_SUCCESS)
            atomic_fetch_add(&p->references, 1);
    }
    pthread_mutex_unlock(&process.lock);
    return status;
}

CUresult sim_cuMemUnmap(CUdeviceptr ptr, size_t size)
{
    if (!size || ptr % SIM_GRANULE || size % SIM_GRANULE)
        return CUDA_ERROR_INVALID_VALUE;
    uint64_t at = ptr;
    CUresult status = CUDA_SUCCESS;
    pthread_mutex_lock(&process.lock);
    while (at < ptr + size && status == CUDA_SUCCESS) {
        size_t cursor = 0;
        struct range *r = NULL;
        while ((r = range_next(&cursor)) && !(r->kind == RANGE_MAPPED && r->base == at))
            ;
        if (!r || r->base + r->bytes > ptr + size) {
            status = CUDA_ERROR_INVALID_VALUE;
            break;
        }
        struct physical *p = r->physical;
        uint64_t bytes = r->bytes;
        mmap((void *)(uintptr_t)at, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
        range_remove(at);
        /* The reservation has the same base when it begins here; range_remove takes the mapping, which lies behind it. */
        physical_leave(p);
        at += bytes;
    }
    pthread_mutex_unlock(&process.lock);
    return status;
}

CUresult sim_cuMemSetAccess(CUdeviceptr ptr, size_t size, const CUmemAccessDesc *desc, size_t count)
{
    if (!desc || !count || !size)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult status = CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&process.lock);
    size_t cursor = 0;
    for (struct range *r; (r = range_next(&cursor));)
        if (r->kind == RANGE_MAPPED && r->base >= ptr && r->base + r->bytes <= ptr + size) {
            r->access = desc[0].flags;
            status = CUDA_SUCCESS;
        }
    pthread_mutex_unlock(&process.lock);
    return status;
}

CUresult sim_cuMemGetAccess(unsigned long long *flags, const CUmemLocation *location, CUdeviceptr ptr)
{
    if (!flags || !location)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&process.lock);
    struct range *r = range_find(ptr);
    bool there = r && r->kind == RANGE_MAPPED;
    *flags = there ? r->access : 0;
    pthread_mutex_unlock(&process.lock);
    return there ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult sim_cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *addr)
{
    if (!handle)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult status = CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&process.lock);
    struct range *r = range_find((uint64_t)(uintptr_t)addr);
    if (r && r->kind == RANGE_MAPPED) {
        atomic_fetch_add(&r->physical->references, 1);
        *handle = (CUmemGenericAllocationHandle)(uintptr_t)r->physical;
        status = CUDA_SUCCESS;
    }
    pthread_mutex_unlock(&process.lock);
    return status;
}

CUresult sim_cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp *prop, CUmemGenericAllocationHandle handle)
{
    struct physical *p = physical_of(handle);
    if (!p || !prop)
        return CUDA_ERROR_INVALID_VALUE;
    *prop = p->prop;
    return CUDA_SUCCESS;
}

/* ---- handing over -------------------------------------------------------------------------------------------------------- */

CUresult sim_cuMemExportToShareableHandle(void *shareableHandle, CUmemGenericAllocationHandle handle, CUmemAllocationHandleType handleType,
                                          unsigned long long flags)
{
    struct physical *p = physical_of(handle);
    if (!p || !shareableHandle || flags)
        return CUDA_ERROR_INVALID_VALUE;
    if (handleType != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
        return CUDA_ERROR_NOT_SUPPORTED;
    if (!(p->prop.requestedHandleTypes & CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR))
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&process.lock);
    if (p->share < 0 && !p->host) {
        p->share = share_make(process.state, process.slot, p->device, KIND_PHYSICAL, p->bytes);
        if (p->share >= 0) {
            process.state->shares[p->share].content = p->content;
            share_hold_here((uint32_t)p->share, 0);
        }
    }
    int fd = p->share >= 0 ? share_descriptor(process.state, (uint32_t)p->share) : -1;
    pthread_mutex_unlock(&process.lock);
    if (fd < 0)
        return CUDA_ERROR_NOT_SUPPORTED;
    *(int *)shareableHandle = fd;
    return CUDA_SUCCESS;
}

CUresult sim_cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *handle, void *osHandle, CUmemAllocationHandleType shHandleType)
{
    if (!handle || shHandleType != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
        return handle ? CUDA_ERROR_NOT_SUPPORTED : CUDA_ERROR_INVALID_VALUE;
    int share = share_of_descriptor((int)(intptr_t)osHandle);
    if (share < 0 || !share_hold_here((uint32_t)share, 0))
        return CUDA_ERROR_INVALID_VALUE;
    struct physical *p = object_new(OBJECT_PHYSICAL);
    if (!p) {
        share_leave_here((uint32_t)share);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    const struct sim_share *one = &process.state->shares[share];
    p->share = share;
    p->bytes = one->bytes;
    p->content = one->content;
    p->device = one->device;
    p->references = 1;
    p->prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    p->prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    p->prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    for (unsigned i = 0; i < process.count; i++)
        if (memory_owner(process.state, process.devices[i]) == one->device)
            p->prop.location.id = (int)i;
    *handle = (CUmemGenericAllocationHandle)(uintptr_t)p;
    return CUDA_SUCCESS;
}

struct ipc_memory { uint32_t magic, share; uint64_t generation, offset, bytes; uint32_t device, slot; };
#define IPC_MAGIC 0x73696d70u
_Static_assert(sizeof(struct ipc_memory) <= sizeof(CUipcMemHandle), "a handle has 64 bytes");

CUresult sim_cuIpcGetMemHandle(CUipcMemHandle *pHandle, CUdeviceptr dptr)
{
    NEED_CONTEXT(c);
    if (!pHandle)
        return CUDA_ERROR_INVALID_VALUE;
    CUdeviceptr base = 0;
    uint64_t bytes = 0;
    int share = block_share(dptr, false, &base, &bytes);
    if (share < 0)
        return CUDA_ERROR_INVALID_VALUE;
    struct ipc_memory told = {IPC_MAGIC, (uint32_t)share, process.state->shares[share].generation, dptr - base, bytes,
                              memory_owner(process.state, c->device), (uint32_t)process.slot};
    memset(pHandle, 0, sizeof *pHandle);
    memcpy(pHandle, &told, sizeof told);
    return CUDA_SUCCESS;
}

static CUresult ipc_open(CUdeviceptr *pdptr, const CUipcMemHandle *handle, unsigned flags)
{
    NEED_CONTEXT(c);
    struct ipc_memory told;
    memcpy(&told, handle, sizeof told);
    if (!pdptr || flags != CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS || told.magic != IPC_MAGIC)
        return CUDA_ERROR_INVALID_VALUE;
    if (told.slot == (uint32_t)process.slot)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (told.device != memory_owner(process.state, c->device))
        return CUDA_ERROR_INVALID_DEVICE;
    if (!share_hold_here(told.share, told.generation))
        return CUDA_ERROR_INVALID_HANDLE;
    void *at = mmap(NULL, told.bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, content_open(),
                    (off_t)process.state->shares[told.share].content);
    pthread_mutex_lock(&process.lock);
    bool kept = at != MAP_FAILED && range_add((struct range){.base = (uint64_t)(uintptr_t)at, .bytes = told.bytes, .kind = RANGE_IPC,
                                                             .device = c->device, .context = c, .offset = told.offset, .share = (int)told.share});
    pthread_mutex_unlock(&process.lock);
    if (!kept) {
        share_leave_here(told.share);
        return CUDA_ERROR_MAP_FAILED;
    }
    *pdptr = (CUdeviceptr)(uintptr_t)at + told.offset;
    return CUDA_SUCCESS;
}

CUresult sim_cuIpcOpenMemHandle_v2(CUdeviceptr *pdptr, CUipcMemHandle handle, unsigned int Flags) { return ipc_open(pdptr, &handle, Flags); }
CUresult sim_cuIpcOpenMemHandle(CUdeviceptr *pdptr, CUipcMemHandle handle, unsigned int Flags) { return ipc_open(pdptr, &handle, Flags); }

CUresult sim_cuIpcCloseMemHandle(CUdeviceptr dptr)
{
    NEED_CONTEXT(c);
    (void)c;
    CUresult status = CUDA_ERROR_INVALID_VALUE;
    int share = -1;
    pthread_mutex_lock(&process.lock);
    struct range *r = range_find(dptr);
    if (r && r->kind == RANGE_IPC && r->base + r->offset == dptr) {
        munmap((void *)(uintptr_t)r->base, r->bytes);
        share = r->share;
        range_remove(r->base);
        status = CUDA_SUCCESS;
    }
    pthread_mutex_unlock(&process.lock);
    if (share >= 0)
        share_leave_here((uint32_t)share);
    return status;
}
