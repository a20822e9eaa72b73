/* What processes hand to each other besides blocks and physical memory: events, pools and what lies in them, memory of other interfaces.
 * And programs that are linked at run time. */
#define _GNU_SOURCE
#include "driver.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

CUresult sim_cuArray3DCreate_v2(CUarray *pHandle, const CUDA_ARRAY3D_DESCRIPTOR *d);
CUresult sim_cuMemGetInfo_v2(size_t *free, size_t *total);
CUresult sim_cuDeviceTotalMem_v2(size_t *bytes, CUdevice dev);

#define LINKED "\n"

/* ---- events ---------------------------------------------------------------------------------------------------------------- */

struct told_event { uint32_t magic, slot, cell, device; uint64_t started; };
#define EVENT_MAGIC 0x73696d65u
_Static_assert(sizeof(struct told_event) <= sizeof(CUipcEventHandle), "a handle has 64 bytes");

CUresult sim_cuIpcGetEventHandle(CUipcEventHandle *pHandle, CUevent event)
{
    struct event *e = object_of(event, OBJECT_EVENT);
    if (!e || !pHandle)
        return e ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_HANDLE;
    if (!(e->flags & CU_EVENT_INTERPROCESS) || !(e->flags & CU_EVENT_DISABLE_TIMING) || e->foreign)
        return CUDA_ERROR_INVALID_HANDLE;
    if (!e->recorded)
        atomic_store(&process.state->cells[process.slot][e->cell], 1);      /* nothing to wait for yet */
    struct told_event told = {EVENT_MAGIC, (uint32_t)process.slot, e->cell, e->context->device, process.state->slots[process.slot].started};
    memset(pHandle, 0, sizeof *pHandle);
    memcpy(pHandle, &told, sizeof told);
    return CUDA_SUCCESS;
}

CUresult sim_cuIpcOpenEventHandle(CUevent *phEvent, CUipcEventHandle handle)
{
    NEED_CONTEXT(c);
    struct told_event told;
    memcpy(&told, &handle, sizeof told);
    if (!phEvent || told.magic != EVENT_MAGIC || told.slot >= SIM_SLOTS || told.device >= SIM_DEVICES || told.cell >= SIM_CELLS)
        return CUDA_ERROR_INVALID_VALUE;
    if (told.slot == (uint32_t)process.slot || process.state->slots[told.slot].started != told.started)
        return told.slot == (uint32_t)process.slot ? CUDA_ERROR_INVALID_CONTEXT : CUDA_ERROR_INVALID_HANDLE;
    struct event *e = object_new(OBJECT_EVENT);
    if (!e)
        return CUDA_ERROR_OUT_OF_MEMORY;
    e->context = c;
    e->flags = CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING;
    e->recorded = 1;
    e->cell = told.cell;
    e->foreign = told.slot + 1;
    e->foreign_device = told.device;
    e->foreign_started = told.started;
    *phEvent = (CUevent)e;
    return CUDA_SUCCESS;
}

/* ---- shared blocks as addresses here ----------------------------------------------------------------------------------------- */

static CUresult map_share(struct context *c, uint32_t share, uint64_t generation, uint64_t bytes, uint64_t offset, enum range_kind kind, CUdeviceptr *out)
{
    if (!share_hold_here(share, generation))
        return CUDA_ERROR_INVALID_VALUE;
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, content_open(), (off_t)process.state->shares[share].content);
    pthread_mutex_lock(&process.lock);
    bool kept = at != MAP_FAILED && range_add((struct range){.base = (uint64_t)(uintptr_t)at, .bytes = bytes, .kind = kind, .device = c->device,
                                                             .context = c, .offset = offset, .share = (int)share});
    pthread_mutex_unlock(&process.lock);
    if (!kept) {
        share_leave_here(share);
        return CUDA_ERROR_MAP_FAILED;
    }
    *out = (CUdeviceptr)(uintptr_t)at + offset;
    return CUDA_SUCCESS;
}

bool imported_free(CUdeviceptr at)
{
    int share = -1;
    pthread_mutex_lock(&process.lock);
    struct range *r = range_find(at);
    if (r && r->kind == RANGE_IMPORTED && r->base + r->offset == at) {
        share = r->share;
        munmap((void *)(uintptr_t)r->base, r->bytes);
        range_remove(r->base);
    }
    pthread_mutex_unlock(&process.lock);
    if (share >= 0)
        share_leave_here((uint32_t)share);
    return share >= 0;
}

/* ---- pools ------------------------------------------------------------------------------------------------------------------- */

struct told_block { uint32_t magic, share; uint64_t generation, offset, bytes; };
#define BLOCK_MAGIC 0x73696d62u
_Static_assert(sizeof(struct told_block) <= sizeof(CUmemPoolPtrExportData), "export data has 64 bytes");

CUresult sim_cuMemPoolExportToShareableHandle(void *handle_out, CUmemoryPool pool, CUmemAllocationHandleType handleType, unsigned long long flags)
{
    struct pool *p = object_of(pool, OBJECT_POOL);
    if (!p || !handle_out || flags)
        return CUDA_ERROR_INVALID_VALUE;
    if (handleType != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
        return CUDA_ERROR_NOT_SUPPORTED;
    if (!(p->handle_types & CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) || p->imported)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&process.lock);
    if (!p->exported) {                 /* a block of nothing stands for the pool */
        int share = share_make(process.state, process.slot, p->device, KIND_POOL, 0);
        p->exported = share < 0 ? 0 : (uint32_t)share + 1;
        if (share >= 0)
            share_hold_here((uint32_t)share, 0);
    }
    int fd = p->exported ? share_descriptor(process.state, p->exported - 1) : -1;
    pthread_mutex_unlock(&process.lock);
    if (fd < 0)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *(int *)handle_out = fd;
    return CUDA_SUCCESS;
}

CUresult sim_cuMemPoolImportFromShareableHandle(CUmemoryPool *pool_out, void *handle, CUmemAllocationHandleType handleType, unsigned long long flags)
{
    if (!pool_out || flags || handleType != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
        return pool_out && !flags ? CUDA_ERROR_NOT_SUPPORTED : CUDA_ERROR_INVALID_VALUE;
    int share = share_of_descriptor((int)(intptr_t)handle), ordinal = -1;
    if (share < 0 || !share_hold_here((uint32_t)share, 0))
        return CUDA_ERROR_INVALID_VALUE;
    const struct sim_share *one = &process.state->shares[share];
    for (unsigned i = 0; i < process.count && ordinal < 0; i++)
        if (memory_owner(process.state, process.devices[i]) == one->device)
            ordinal = (int)i;
    struct pool *p = one->kind == KIND_POOL && !one->bytes && ordinal >= 0 ? pool_make((uint32_t)ordinal) : NULL;
    if (!p) {
        share_leave_here((uint32_t)share);
        return CUDA_ERROR_INVALID_VALUE;
    }
    p->imported = (uint32_t)share + 1;
    *pool_out = (CUmemoryPool)p;
    return CUDA_SUCCESS;
}

CUresult sim_cuMemPoolExportPointer(CUmemPoolPtrExportData *shareData_out, CUdeviceptr ptr)
{
    CUdeviceptr base = 0;
    uint64_t bytes = 0;
    if (!shareData_out)
        return CUDA_ERROR_INVALID_VALUE;
    int share = block_share(ptr, true, &base, &bytes);
    if (share < 0)
        return CUDA_ERROR_INVALID_VALUE;
    struct told_block told = {BLOCK_MAGIC, (uint32_t)share, process.state->shares[share].generation, ptr - base, bytes};
    memset(shareData_out, 0, sizeof *shareData_out);
    memcpy(shareData_out, &told, sizeof told);
    return CUDA_SUCCESS;
}

CUresult sim_cuMemPoolImportPointer(CUdeviceptr *ptr_out, CUmemoryPool pool, CUmemPoolPtrExportData *shareData)
{
    NEED_CONTEXT(c);
    struct pool *p = object_of(pool, OBJECT_POOL);
    struct told_block told;
    if (!ptr_out || !p || !p->imported || !shareData)
        return CUDA_ERROR_INVALID_VALUE;
    memcpy(&told, shareData, sizeof told);
    if (told.magic != BLOCK_MAGIC)
        return CUDA_ERROR_INVALID_VALUE;
    return map_share(c, told.share, told.generation, told.bytes, told.offset, RANGE_IMPORTED, ptr_out);
}

/* ---- memory of another interface: a descriptor that a process of this simulator exported stands for it -------------------------- */

struct external { struct object head; uint32_t share; uint64_t bytes; };
_Static_assert(sizeof(struct external) <= OBJECT_BYTES, "external");

CUresult sim_cuImportExternalMemory(CUexternalMemory *extMem_out, const CUDA_EXTERNAL_MEMORY_HANDLE_DESC *d)
{
    NEED_CONTEXT(c);
    (void)c;
    if (!extMem_out || !d)
        return CUDA_ERROR_INVALID_VALUE;
    if (d->type != CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD)
        return CUDA_ERROR_NOT_SUPPORTED;
    int share = share_of_descriptor(d->handle.fd);
    if (share < 0 || !share_hold_here((uint32_t)share, 0))
        return CUDA_ERROR_INVALID_HANDLE;
    struct external *x = d->size <= process.state->shares[share].bytes ? object_new(OBJECT_EXTERNAL) : NULL;
    if (!x) {
        share_leave_here((uint32_t)share);
        return CUDA_ERROR_INVALID_VALUE;
    }
    x->share = (uint32_t)share;
    x->bytes = d->size;
    *extMem_out = (CUexternalMemory)x;
    return CUDA_SUCCESS;
}

CUresult sim_cuExternalMemoryGetMappedBuffer(CUdeviceptr *devPtr, CUexternalMemory extMem, const CUDA_EXTERNAL_MEMORY_BUFFER_DESC *d)
{
    NEED_CONTEXT(c);
    struct external *x = object_of(extMem, OBJECT_EXTERNAL);
    if (!x || !devPtr || !d || d->flags || !d->size || d->offset + d->size > x->bytes)
        return x ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_HANDLE;
    return map_share(c, x->share, 0, process.state->shares[x->share].bytes, d->offset, RANGE_IMPORTED, devPtr);
}

CUresult sim_cuDestroyExternalMemory(CUexternalMemory extMem)
{
    struct external *x = object_of(extMem, OBJECT_EXTERNAL);
    if (!x)
        return CUDA_ERROR_INVALID_HANDLE;
    share_leave_here(x->share);
    object_end(x);
    return CUDA_SUCCESS;
}

/* ---- linking: what is added, one behind the other, is a program -------------------------------------------------------------------- */

struct link { struct object head; char *text; size_t bytes; bool complete; };
_Static_assert(sizeof(struct link) <= OBJECT_BYTES, "link");

CUresult sim_cuLinkCreate_v2(unsigned int numOptions, CUjit_option *options, void **optionValues, CUlinkState *stateOut)
{
    NEED_CONTEXT(c);
    (void)c, (void)options, (void)optionValues;
    struct link *l = stateOut && (!numOptions || (options && optionValues)) ? object_new(OBJECT_LINK) : NULL;
    if (!l)
        return CUDA_ERROR_INVALID_VALUE;
    l->text = NULL;
    l->bytes = 0;
    l->complete = false;
    *stateOut = (CUlinkState)l;
    return CUDA_SUCCESS;
}

static CUresult add(CUlinkState state, const void *data, size_t size)
{
    struct link *l = object_of(state, OBJECT_LINK);
    if (!l || l->complete)
        return CUDA_ERROR_INVALID_HANDLE;
    if (!data || !size)
        return CUDA_ERROR_INVALID_IMAGE;
    while (size && !((const char *)data)[size - 1])
        size--;
    char *longer = realloc(l->text, l->bytes + size + sizeof LINKED);
    if (!longer)
        return CUDA_ERROR_OUT_OF_MEMORY;
    memcpy(longer + l->bytes, data, size);
    memcpy(longer + l->bytes + size, LINKED, sizeof LINKED);
    l->text = longer;
    l->bytes += size + sizeof LINKED - 1;
    return CUDA_SUCCESS;
}

CUresult sim_cuLinkAddData_v2(CUlinkState state, CUjitInputType type, void *data, size_t size, const char *name, unsigned int n, CUjit_option *options,
                              void **optionValues)
{
    (void)type, (void)name, (void)n, (void)options, (void)optionValues;
    return add(state, data, size);
}

CUresult sim_cuLinkAddFile_v2(CUlinkState state, CUjitInputType type, const char *path, unsigned int n, CUjit_option *options, void **optionValues)
{
    (void)type, (void)n, (void)options, (void)optionValues;
    FILE *in = path ? fopen(path, "re") : NULL;
    if (!in)
        return CUDA_ERROR_FILE_NOT_FOUND;
    static char text[1 << 20];
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&lock);
    size_t size = fread(text, 1, sizeof text, in);
    CUresult status = add(state, text, size);
    pthread_mutex_unlock(&lock);
    fclose(in);
    return status;
}

CUresult sim_cuLinkComplete(CUlinkState state, void **cubinOut, size_t *sizeOut)
{
    struct link *l = object_of(state, OBJECT_LINK);
    if (!l || !l->text || !cubinOut)
        return l && cubinOut ? CUDA_ERROR_INVALID_IMAGE : CUDA_ERROR_INVALID_VALUE;
    l->complete = true;
    *cubinOut = l->text;
    if (sizeOut)
        *sizeOut = l->bytes + 1;
    return CUDA_SUCCESS;
}

CUresult sim_cuLinkDestroy(CUlinkState state)
{
    struct link *l = object_of(state, OBJECT_LINK);
    if (!l)
        return CUDA_ERROR_INVALID_HANDLE;
    free(l->text);
    object_end(l);
    return CUDA_SUCCESS;
}

/* ---- managed memory in batches ------------------------------------------------------------------------------------------------------- */

static CUresult all_known(const CUdeviceptr *pointers, const size_t *sizes, size_t count)
{
    for (size_t i = 0; pointers && sizes && i < count; i++)
        if (!memory_known(pointers[i], sizes[i]))
            return CUDA_ERROR_INVALID_VALUE;
    return count && pointers && sizes ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult sim_cuMemPrefetchBatchAsync(CUdeviceptr *dptrs, size_t *sizes, size_t count, CUmemLocation *locations, size_t *at, size_t n,
                                     unsigned long long flags, CUstream hStream)
{
    (void)at, (void)hStream;
    return flags || !locations || !n ? CUDA_ERROR_INVALID_VALUE : all_known(dptrs, sizes, count);
}

CUresult sim_cuMemDiscardBatchAsync(CUdeviceptr *dptrs, size_t *sizes, size_t count, unsigned long long flags, CUstream hStream)
{
    (void)hStream;
    return flags ? CUDA_ERROR_INVALID_VALUE : all_known(dptrs, sizes, count);
}

CUresult sim_cuMemDiscardAndPrefetchBatchAsync(CUdeviceptr *dptrs, size_t *sizes, size_t count, CUmemLocation *locations, size_t *at, size_t n,
                                               unsigned long long flags, CUstream hStream)
{
    return sim_cuMemPrefetchBatchAsync(dptrs, sizes, count, locations, at, n, flags, hStream);
}

/* ---- first forms, with sizes of 32 bits ------------------------------------------------------------------------------------------------- */

static unsigned int narrow(size_t bytes) { return bytes > UINT32_MAX ? UINT32_MAX : (unsigned int)bytes; }

CUresult sim_cuMemGetInfo(unsigned int *free_, unsigned int *total)
{
    size_t left, all;
    CUresult status = free_ && total ? sim_cuMemGetInfo_v2(&left, &all) : CUDA_ERROR_INVALID_VALUE;
    if (status != CUDA_SUCCESS)
        return status;
    *free_ = narrow(left);
    *total = narrow(all);
    return CUDA_SUCCESS;
}

CUresult sim_cuDeviceTotalMem(unsigned int *bytes, CUdevice dev)
{
    size_t all;
    CUresult status = bytes ? sim_cuDeviceTotalMem_v2(&all, dev) : CUDA_ERROR_INVALID_VALUE;
    if (status == CUDA_SUCCESS)
        *bytes = narrow(all);
    return status;
}

CUresult sim_cuArray3DCreate(CUarray *pHandle, const CUDA_ARRAY3D_DESCRIPTOR_v1 *d)
{
    if (!d)
        return CUDA_ERROR_INVALID_VALUE;
    CUDA_ARRAY3D_DESCRIPTOR wide = {.Width = d->Width, .Height = d->Height, .Depth = d->Depth, .Format = d->Format, .NumChannels = d->NumChannels,
                                    .Flags = d->Flags};
    return sim_cuArray3DCreate_v2(pHandle, &wide);
}

CUresult sim_cuArrayCreate(CUarray *pHandle, const CUDA_ARRAY_DESCRIPTOR_v1 *d)
{
    if (!d)
        return CUDA_ERROR_INVALID_VALUE;
    CUDA_ARRAY3D_DESCRIPTOR wide = {.Width = d->Width, .Height = d->Height, .Format = d->Format, .NumChannels = d->NumChannels};
    return sim_cuArray3DCreate_v2(pHandle, &wide);
}
