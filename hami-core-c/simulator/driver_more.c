/* Entry points beside the main families: memory seen by several devices at once, contexts with part of a device, batches. */
#include "driver.h"

#include <stdlib.h>
#include <string.h>

CUresult sim_cuCtxCreate_v2(CUcontext *pctx, unsigned int flags, CUdevice dev);
CUresult sim_cuMemcpyAsync(CUdeviceptr dst, CUdeviceptr src, size_t n, CUstream st);
CUresult sim_cuLaunchHostFunc(CUstream hStream, CUhostFn fn, void *userData);
CUresult sim_cuGraphAddNode(CUgraphNode *out, CUgraph g, const CUgraphNode *needs, size_t count, CUgraphNodeParams *params);

CUresult sim_cuCtxCreate(CUcontext *pctx, unsigned int flags, CUdevice dev)
{
    return sim_cuCtxCreate_v2(pctx, flags, dev);
}

/* ---- multicast: addresses over memory that is paid for where it was made -------------------------------------------------- */

static bool can_multicast(uint32_t ordinal)
{
    const struct sim_profile *p = &device_at(process.devices[ordinal])->profile;
    return p->nvlinks && p->major >= 9;
}

static struct physical *multicast_of(CUmemGenericAllocationHandle handle)
{
    struct physical *p = object_of((const void *)(uintptr_t)handle, OBJECT_PHYSICAL);
    return p && p->prop.location.type == CU_MEM_LOCATION_TYPE_NONE ? p : NULL;
}

/* Memory lives as long as it is bound, whatever becomes of its handle. */
struct binding { struct binding *next; struct physical *whole, *part; size_t at, size; uint32_t device; };
static struct binding *bindings;

static CUresult bind(struct physical *whole, size_t at, struct physical *part, size_t size)
{
    struct binding *b = calloc(1, sizeof *b);
    if (!b)
        return CUDA_ERROR_OUT_OF_MEMORY;
    atomic_fetch_add(&part->references, 1);
    pthread_mutex_lock(&process.lock);
    *b = (struct binding){.next = bindings, .whole = whole, .part = part, .at = at, .size = size, .device = part->device};
    bindings = b;
    pthread_mutex_unlock(&process.lock);
    return CUDA_SUCCESS;
}

/* Let go of all, or of one device's in a range. */
static void unbind(struct physical *whole, bool all, uint32_t device, size_t at, size_t size)
{
    struct binding *gone = NULL;
    pthread_mutex_lock(&process.lock);
    for (struct binding **link = &bindings, *b; (b = *link);) {
        if (b->whole != whole || (!all && (b->device != device || b->at < at || b->at + b->size > at + size))) {
            link = &b->next;
            continue;
        }
        *link = b->next;
        b->next = gone;
        gone = b;
    }
    pthread_mutex_unlock(&process.lock);
    for (struct binding *b; (b = gone);) {
        gone = b->next;
        physical_leave(b->part);
        free(b);
    }
}

void multicast_end(struct physical *whole)
{
    if (whole->prop.location.type == CU_MEM_LOCATION_TYPE_NONE)
        unbind(whole, true, 0, 0, 0);
}

CUresult sim_cuMulticastGetGranularity(size_t *granularity, const CUmulticastObjectProp *prop, CUmulticastGranularity_flags option)
{
    (void)option;
    if (!granularity || !prop)
        return CUDA_ERROR_INVALID_VALUE;
    *granularity = SIM_GRANULE;
    return CUDA_SUCCESS;
}

CUresult sim_cuMulticastCreate(CUmemGenericAllocationHandle *mcHandle, const CUmulticastObjectProp *prop)
{
    if (!mcHandle || !prop || !prop->numDevices || !prop->size || prop->size % SIM_GRANULE)
        return CUDA_ERROR_INVALID_VALUE;
    if (!can_multicast(0))
        return CUDA_ERROR_NOT_SUPPORTED;
    struct physical *p = object_new(OBJECT_PHYSICAL);
    if (!p || (p->content = content_take(prop->size)) == UINT64_MAX)
        return CUDA_ERROR_OUT_OF_MEMORY;
    p->device = process.devices[0];
    p->bytes = prop->size;
    p->references = 1;
    p->share = -1;
    p->host = 1;
    p->prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    p->prop.location.type = CU_MEM_LOCATION_TYPE_NONE;
    *mcHandle = (CUmemGenericAllocationHandle)(uintptr_t)p;
    return CUDA_SUCCESS;
}

CUresult sim_cuMulticastAddDevice(CUmemGenericAllocationHandle mcHandle, CUdevice dev)
{
    if (!multicast_of(mcHandle))
        return CUDA_ERROR_INVALID_VALUE;
    return !ordinal_known(dev) ? CUDA_ERROR_INVALID_DEVICE : can_multicast((uint32_t)dev) ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED;
}

CUresult sim_cuMulticastBindMem(CUmemGenericAllocationHandle mcHandle, size_t mcOffset, CUmemGenericAllocationHandle memHandle, size_t memOffset,
                                size_t size, unsigned long long flags)
{
    struct physical *whole = multicast_of(mcHandle), *part = object_of((const void *)(uintptr_t)memHandle, OBJECT_PHYSICAL);
    if (!whole || !part || flags || mcOffset + size > whole->bytes || memOffset + size > part->bytes || size % SIM_GRANULE)
        return CUDA_ERROR_INVALID_VALUE;
    return bind(whole, mcOffset, part, size);
}

CUresult sim_cuMulticastBindMem_v2(CUmemGenericAllocationHandle mcHandle, CUdevice dev, size_t mcOffset, CUmemGenericAllocationHandle memHandle,
                                   size_t memOffset, size_t size, unsigned long long flags)
{
    return ordinal_known(dev) ? sim_cuMulticastBindMem(mcHandle, mcOffset, memHandle, memOffset, size, flags) : CUDA_ERROR_INVALID_DEVICE;
}

CUresult sim_cuMulticastBindAddr(CUmemGenericAllocationHandle mcHandle, size_t mcOffset, CUdeviceptr memptr, size_t size, unsigned long long flags)
{
    struct physical *whole = multicast_of(mcHandle);
    if (!whole || flags || mcOffset + size > whole->bytes)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&process.lock);
    struct range *r = range_find(memptr);
    struct physical *part = r && memptr + size <= r->base + r->bytes ? r->physical : NULL;
    pthread_mutex_unlock(&process.lock);
    return part ? bind(whole, mcOffset, part, size) : CUDA_ERROR_INVALID_VALUE;
}

CUresult sim_cuMulticastUnbind(CUmemGenericAllocationHandle mcHandle, CUdevice dev, size_t mcOffset, size_t size)
{
    struct physical *whole = multicast_of(mcHandle);
    if (!ordinal_known(dev))
        return CUDA_ERROR_INVALID_DEVICE;
    if (!whole || mcOffset + size > whole->bytes)
        return CUDA_ERROR_INVALID_VALUE;
    unbind(whole, false, process.devices[dev], mcOffset, size);
    return CUDA_SUCCESS;
}

/* ---- contexts that are given some of the multiprocessors: parts of the primary one, which they keep ---------------------------- */

struct green { struct object head; CUcontext context; CUdevResource resource; CUdevice device; };
_Static_assert(sizeof(struct green) <= OBJECT_BYTES, "green");

static void whole_device(CUdevResource *r, uint32_t ordinal)
{
    memset(r, 0, sizeof *r);
    r->type = CU_DEV_RESOURCE_TYPE_SM;
    r->sm.smCount = device_at(process.devices[ordinal])->profile.sms;
}

CUresult sim_cuDeviceGetDevResource(CUdevice device, CUdevResource *resource, CUdevResourceType type)
{
    if (!ordinal_known(device))
        return CUDA_ERROR_INVALID_DEVICE;
    if (!resource || type != CU_DEV_RESOURCE_TYPE_SM)
        return resource ? CUDA_ERROR_INVALID_RESOURCE_TYPE : CUDA_ERROR_INVALID_VALUE;
    whole_device(resource, (uint32_t)device);
    return CUDA_SUCCESS;
}

CUresult sim_cuCtxGetDevResource(CUcontext hCtx, CUdevResource *resource, CUdevResourceType type)
{
    struct context *c = hCtx ? object_of(hCtx, OBJECT_CONTEXT) : current_context();
    return c ? sim_cuDeviceGetDevResource((CUdevice)c->ordinal, resource, type) : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult sim_cuDevResourceGenerateDesc(CUdevResourceDesc *phDesc, CUdevResource *resources, unsigned int n)
{
    struct green *g = phDesc && resources && n == 1 ? object_new(OBJECT_GREEN) : NULL;
    if (!g)
        return CUDA_ERROR_INVALID_VALUE;
    g->resource = resources[0];
    *phDesc = (CUdevResourceDesc)g;
    return CUDA_SUCCESS;
}

CUresult sim_cuGreenCtxCreate(CUgreenCtx *phCtx, CUdevResourceDesc desc, CUdevice dev, unsigned int flags)
{
    struct green *described = object_of(desc, OBJECT_GREEN), *g;
    CUcontext context;
    if (!phCtx || !described || !(flags & CU_GREEN_CTX_DEFAULT_STREAM))
        return CUDA_ERROR_INVALID_VALUE;
    CUresult status = context_part(&context, dev);
    if (status != CUDA_SUCCESS)
        return status;
    g = object_new(OBJECT_GREEN);
    if (!g) {
        context_part_end(context);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    g->context = context;
    g->resource = described->resource;
    g->device = dev;
    *phCtx = (CUgreenCtx)g;
    return CUDA_SUCCESS;
}

CUresult sim_cuGreenCtxDestroy(CUgreenCtx hCtx)
{
    struct green *g = object_of(hCtx, OBJECT_GREEN);
    if (!g || !g->context)
        return CUDA_ERROR_INVALID_CONTEXT;
    context_part_end(g->context);
    object_end(g);
    return CUDA_SUCCESS;
}

CUresult sim_cuCtxFromGreenCtx(CUcontext *pContext, CUgreenCtx hCtx)
{
    struct green *g = object_of(hCtx, OBJECT_GREEN);
    if (!g || !g->context || !pContext)
        return CUDA_ERROR_INVALID_VALUE;
    *pContext = g->context;
    return CUDA_SUCCESS;
}

CUresult sim_cuGreenCtxGetDevResource(CUgreenCtx hCtx, CUdevResource *resource, CUdevResourceType type)
{
    struct green *g = object_of(hCtx, OBJECT_GREEN);
    if (!g || !resource || type != CU_DEV_RESOURCE_TYPE_SM)
        return CUDA_ERROR_INVALID_VALUE;
    *resource = g->resource;
    return CUDA_SUCCESS;
}

CUresult sim_cuGreenCtxStreamCreate(CUstream *phStream, CUgreenCtx greenCtx, unsigned int flags, int priority)
{
    struct green *g = object_of(greenCtx, OBJECT_GREEN);
    struct context *c = g ? object_of(g->context, OBJECT_CONTEXT) : NULL;
    if (!c || !phStream || !(flags & CU_STREAM_NON_BLOCKING))
        return CUDA_ERROR_INVALID_VALUE;
    *phStream = (CUstream)stream_new(c, flags, priority);
    return *phStream ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

/* ---- batches and newer forms of old calls -------------------------------------------------------------------------------------- */

static CUresult copy_all(CUdeviceptr *to, CUdeviceptr *from, size_t *sizes, size_t count, CUstream hStream)
{
    CUresult status = count && to && from && sizes ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count && status == CUDA_SUCCESS; i++)
        status = sim_cuMemcpyAsync(to[i], from[i], sizes[i], hStream);
    return status;
}

CUresult sim_cuMemcpyBatchAsync(CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes, size_t count, CUmemcpyAttributes *attrs, size_t *at, size_t n,
                                size_t *failIdx, CUstream hStream)
{
    (void)attrs, (void)at, (void)n;
    if (failIdx)
        *failIdx = SIZE_MAX;
    return copy_all(dsts, srcs, sizes, count, hStream);
}

CUresult sim_cuMemcpyBatchAsync_v2(CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes, size_t count, CUmemcpyAttributes *attrs, size_t *at, size_t n,
                                   CUstream hStream)
{
    (void)attrs, (void)at, (void)n;
    return copy_all(dsts, srcs, sizes, count, hStream);
}

CUresult sim_cuLaunchHostFunc_v2(CUstream hStream, CUhostFn fn, void *userData, unsigned int syncMode)
{
    (void)syncMode;
    return sim_cuLaunchHostFunc(hStream, fn, userData);
}

CUresult sim_cuGraphAddNode_v3(CUgraphNode *out, CUgraph g, const CUgraphNode *needs, const CUgraphEdgeData *edges, size_t n, CUgraphNodeParams *params)
{
    (void)edges;
    return sim_cuGraphAddNode(out, g, needs, n, params);
}
