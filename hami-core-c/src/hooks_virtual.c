/* Memory apart from addresses: it lives as long as a handle or a mapping names it. Handles and mappings point to a number of ours. */
#include <unistd.h>

#include "hooks.h"
#include "holdings.h"

static void physical_leave(struct process *p, uint64_t number)
{
    struct holding h;
    if (pointers_add(&p->pointers, FAMILY_PHYSICAL, number, -1, &h) && !h.extra)
        holding_gone(p, FAMILY_PHYSICAL, &h);
}

static bool physical_make(struct process *p, CUmemGenericAllocationHandle handle, int device, uint64_t bytes, enum held kind)
{
    uint64_t number = atomic_fetch_add(&p->state.physical_made, 1) + 1;
    struct holding h = {.bytes = bytes, .extra = 1, .device = (uint8_t)device, .kind = (uint8_t)kind};
    if (!pointers_put(&p->pointers, FAMILY_PHYSICAL, number, &h))
        return false;
    h = (struct holding){.bytes = 1, .extra = number, .device = (uint8_t)device, .kind = HELD_NOTHING};
    return pointers_put(&p->pointers, FAMILY_HANDLE, handle, &h);
}

CUresult hook_cuMemCreate(const struct driver *next, CUmemGenericAllocationHandle *handle, size_t size, const CUmemAllocationProp *prop,
                          unsigned long long flags)
{
    GATE(p, next, next->cuMemCreate(handle, size, prop, flags))
    struct place at;
    if (!handle || !prop || !size || prop->location.type != LOCATION_DEVICE || !place_of(p, prop->location.id, &at))
        return next->cuMemCreate(handle, size, prop, flags);
    uint64_t bytes = granules(size);
    if (!charge(p, next, at.device, CHARGE_DATA, bytes))
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult status = next->cuMemCreate(handle, size, prop, flags);
    if (status == CUDA_SUCCESS && physical_make(p, *handle, at.device, bytes, HELD_BLOCK))
        return status;
    if (status == CUDA_SUCCESS) {
        next->cuMemRelease(*handle);
        status = CUDA_ERROR_OUT_OF_MEMORY;
    }
    uncharge(p, at.device, CHARGE_DATA, bytes);
    return status;
}

/* `bytes` of a handle's holding counts how often it was given out: retaining may answer with the same value. */
CUresult hook_cuMemRelease(const struct driver *next, CUmemGenericAllocationHandle handle)
{
    GATE(p, next, next->cuMemRelease(handle))
    struct holding h;
    bool ours = pointers_take(&p->pointers, FAMILY_HANDLE, handle, &h);
    if (ours && h.bytes > 1) {
        struct holding rest = h;
        rest.bytes--;
        pointers_put(&p->pointers, FAMILY_HANDLE, handle, &rest);
    }
    CUresult status = next->cuMemRelease(handle);
    if (ours && status == CUDA_SUCCESS)
        physical_leave(p, h.extra);
    else if (ours)
        pointers_put(&p->pointers, FAMILY_HANDLE, handle, &h);
    return status;
}

CUresult hook_cuMemMap(const struct driver *next, CUdeviceptr ptr, size_t size, size_t offset, CUmemGenericAllocationHandle handle,
                       unsigned long long flags)
{
    GATE(p, next, next->cuMemMap(ptr, size, offset, handle, flags))
    struct holding named, physical;
    if (!pointers_get(&p->pointers, FAMILY_HANDLE, handle, &named) ||
        !pointers_add(&p->pointers, FAMILY_PHYSICAL, named.extra, 1, &physical))
        return next->cuMemMap(ptr, size, offset, handle, flags);
    int share = -1;
    if (physical.kind == HELD_IMPORT && !physical.bytes) {
        share = ledger_share_join(&p->state.ledger, physical.device, 0, granules(offset + size));
        struct holding now;
        if (share >= 0 && pointers_take(&p->pointers, FAMILY_PHYSICAL, named.extra, &now)) {
            now.kind = HELD_SHARED;
            now.context = (uint64_t)share + 1;
            pointers_put(&p->pointers, FAMILY_PHYSICAL, named.extra, &now);
        }
    }
    if (physical.kind == HELD_IMPORT && share < 0) {    /* its size shows only here */
        uint64_t more;
        pointers_widen(&p->pointers, FAMILY_PHYSICAL, named.extra, granules(offset + size), &more);
        if (more && !charge(p, next, physical.device, CHARGE_DATA, more)) {
            struct holding back;
            if (pointers_take(&p->pointers, FAMILY_PHYSICAL, named.extra, &back)) {
                back.bytes -= more;
                back.extra--;
                pointers_put(&p->pointers, FAMILY_PHYSICAL, named.extra, &back);
            }
            return CUDA_ERROR_OUT_OF_MEMORY;
        }
    }
    CUresult status = next->cuMemMap(ptr, size, offset, handle, flags);
    struct holding mapping = {.bytes = size, .extra = named.extra, .device = named.device, .kind = HELD_NOTHING};
    if (status != CUDA_SUCCESS || !pointers_put(&p->pointers, FAMILY_MAPPING, ptr, &mapping))
        physical_leave(p, named.extra);
    return status;
}

CUresult hook_cuMemUnmap(const struct driver *next, CUdeviceptr ptr, size_t size)
{
    GATE(p, next, next->cuMemUnmap(ptr, size))
    CUresult status = next->cuMemUnmap(ptr, size);
    if (status != CUDA_SUCCESS)
        return status;
    for (uint64_t at = ptr; at < ptr + size;) {
        struct holding h;
        if (!pointers_take(&p->pointers, FAMILY_MAPPING, at, &h)) {
            at += GRANULE;          /* mappings of granules that we did not see */
            continue;
        }
        physical_leave(p, h.extra);
        at += h.bytes ? h.bytes : GRANULE;
    }
    return status;
}

CUresult hook_cuMemRetainAllocationHandle(const struct driver *next, CUmemGenericAllocationHandle *handle, void *addr)
{
    GATE(p, next, next->cuMemRetainAllocationHandle(handle, addr))
    CUresult status = next->cuMemRetainAllocationHandle(handle, addr);
    struct holding named, mapping, physical;
    if (status != CUDA_SUCCESS || !handle)
        return status;
    bool known = pointers_take(&p->pointers, FAMILY_HANDLE, *handle, &named);
    if (known)
        named.bytes++;
    else if (pointers_get(&p->pointers, FAMILY_MAPPING, (uint64_t)(uintptr_t)addr, &mapping))
        named = (struct holding){.bytes = 1, .extra = mapping.extra, .device = mapping.device, .kind = HELD_NOTHING};
    else
        return status;
    pointers_put(&p->pointers, FAMILY_HANDLE, *handle, &named);
    pointers_add(&p->pointers, FAMILY_PHYSICAL, named.extra, 1, &physical);
    return status;
}

/* ---- multicast: what is bound lives as long as it is, whatever becomes of its handle and mappings ----------------------------- */

static uint64_t bound_at(CUmemGenericAllocationHandle whole, unsigned device, uint64_t offset)
{
    uint64_t x = whole * UINT64_C(0x9e3779b97f4a7c15) ^ (offset / GRANULE + 1) * UINT64_C(0xd6e8feb86659fd93) ^ device;
    return x ^ x >> 29;
}

/* Number of the memory behind a handle or, without one, an address; it is held once more. 0: not ours to count. */
static uint64_t bound_hold(struct process *p, CUmemGenericAllocationHandle part, CUdeviceptr at, unsigned *device)
{
    struct holding named, physical;
    if (!pointers_get(&p->pointers, part ? FAMILY_HANDLE : FAMILY_MAPPING, part ? part : at, &named) ||
        !pointers_add(&p->pointers, FAMILY_PHYSICAL, named.extra, 1, &physical))
        return 0;
    *device = physical.device;
    return named.extra;
}

#define BIND(part, address, call)                                                               \
    GATE(p, next, call)                                                                         \
    unsigned device = 0;                                                                        \
    uint64_t number = bound_hold(p, part, address, &device);                                    \
    CUresult status = call;                                                                     \
    struct holding h = {.bytes = size, .extra = number, .device = (uint8_t)device, .kind = HELD_NOTHING}; \
    if (number && (status != CUDA_SUCCESS || !pointers_put(&p->pointers, FAMILY_BINDING, bound_at(mcHandle, device, mcOffset), &h))) \
        physical_leave(p, number);                                                              \
    return status;

CUresult hook_cuMulticastBindMem(const struct driver *next, CUmemGenericAllocationHandle mcHandle, size_t mcOffset,
                                 CUmemGenericAllocationHandle memHandle, size_t memOffset, size_t size, unsigned long long flags)
{
    BIND(memHandle, 0, next->cuMulticastBindMem(mcHandle, mcOffset, memHandle, memOffset, size, flags))
}

CUresult hook_cuMulticastBindMem_v2(const struct driver *next, CUmemGenericAllocationHandle mcHandle, CUdevice dev, size_t mcOffset,
                                    CUmemGenericAllocationHandle memHandle, size_t memOffset, size_t size, unsigned long long flags)
{
    BIND(memHandle, 0, next->cuMulticastBindMem_v2(mcHandle, dev, mcOffset, memHandle, memOffset, size, flags))
}

CUresult hook_cuMulticastBindAddr(const struct driver *next, CUmemGenericAllocationHandle mcHandle, size_t mcOffset, CUdeviceptr memptr,
                                  size_t size, unsigned long long flags)
{
    BIND(0, memptr, next->cuMulticastBindAddr(mcHandle, mcOffset, memptr, size, flags))
}

CUresult hook_cuMulticastBindAddr_v2(const struct driver *next, CUmemGenericAllocationHandle mcHandle, CUdevice dev, size_t mcOffset,
                                     CUdeviceptr memptr, size_t size, unsigned long long flags)
{
    BIND(0, memptr, next->cuMulticastBindAddr_v2(mcHandle, dev, mcOffset, memptr, size, flags))
}

/* Where nothing is unbound before the multicast object ends, its memory stays charged until this process does. */
CUresult hook_cuMulticastUnbind(const struct driver *next, CUmemGenericAllocationHandle mcHandle, CUdevice dev, size_t mcOffset, size_t size)
{
    GATE(p, next, next->cuMulticastUnbind(mcHandle, dev, mcOffset, size))
    CUresult status = next->cuMulticastUnbind(mcHandle, dev, mcOffset, size);
    struct place at;
    if (status != CUDA_SUCCESS || !place_of(p, dev, &at))
        return status;
    for (uint64_t offset = mcOffset; offset < mcOffset + size; offset += GRANULE) {
        struct holding h;
        if (pointers_take(&p->pointers, FAMILY_BINDING, bound_at(mcHandle, (unsigned)at.device, offset), &h))
            physical_leave(p, h.extra);
    }
    return status;
}

/* ---- sparse arrays: which tiles still hold memory nobody can tell cheaply, so what was ever mapped into one stays charged ----------- */

static CUresult map_arrays(const struct driver *next, CUarrayMapInfo *list, unsigned int count, CUstream stream,
                           CUresult (*map)(CUarrayMapInfo *, unsigned int, CUstream))
{
    GATE(p, next, map(list, count, stream))
    struct holding named, physical;
    for (unsigned int i = 0; list && i < count; i++)
        if (list[i].memOperationType == MAP_INTO_ARRAY && pointers_get(&p->pointers, FAMILY_HANDLE, list[i].memHandle, &named))
            pointers_add(&p->pointers, FAMILY_PHYSICAL, named.extra, 1, &physical);
    CUresult status = map(list, count, stream);
    for (unsigned int i = 0; status != CUDA_SUCCESS && list && i < count; i++)
        if (list[i].memOperationType == MAP_INTO_ARRAY && pointers_get(&p->pointers, FAMILY_HANDLE, list[i].memHandle, &named))
            physical_leave(p, named.extra);
    return status;
}

CUresult hook_cuMemMapArrayAsync(const struct driver *next, CUarrayMapInfo *mapInfoList, unsigned int count, CUstream hStream)
{
    return map_arrays(next, mapInfoList, count, hStream, next->cuMemMapArrayAsync);
}

CUresult hook_cuMemMapArrayAsync_ptsz(const struct driver *next, CUarrayMapInfo *mapInfoList, unsigned int count, CUstream hStream)
{
    return map_arrays(next, mapInfoList, count, hStream, next->cuMemMapArrayAsync_ptsz);
}

/* What a share is called: never 0. Numbers of ours differ between processes by their pid. */
static uint64_t key_of_share(const void *bytes, size_t n)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325) ^ (n == sizeof(uint64_t) ? (uint64_t)getpid() << 32 : 0);
    for (size_t i = 0; i < n; i++)
        hash = (hash ^ ((const unsigned char *)bytes)[i]) * UINT64_C(0x100000001b3);
    return hash | 1;
}

/* ---- to other processes and from them -------------------------------------------------------------------------------------- */

CUresult hook_cuMemExportToShareableHandle(const struct driver *next, void *shareableHandle, CUmemGenericAllocationHandle handle,
                                           CUmemAllocationHandleType handleType, unsigned long long flags)
{
    GATE(p, next, next->cuMemExportToShareableHandle(shareableHandle, handle, handleType, flags))
    if (!p->state.limits.exports)
        return CUDA_ERROR_NOT_PERMITTED;
    CUresult status = next->cuMemExportToShareableHandle(shareableHandle, handle, handleType, flags);
    struct holding named, h;
    if (status != CUDA_SUCCESS || !pointers_get(&p->pointers, FAMILY_HANDLE, handle, &named) ||
        !pointers_take(&p->pointers, FAMILY_PHYSICAL, named.extra, &h))
        return status;
    if (h.kind == HELD_BLOCK) {
        int share = ledger_share(&p->state.ledger, h.device, key_of_share(&named.extra, sizeof named.extra), h.bytes, handleType == HANDLE_DESCRIPTOR);
        if (share >= 0) {
            h.kind = HELD_SHARED;
            h.context = (uint64_t)share + 1;
        }
    }
    pointers_put(&p->pointers, FAMILY_PHYSICAL, named.extra, &h);
    return status;
}

CUresult hook_cuMemImportFromShareableHandle(const struct driver *next, CUmemGenericAllocationHandle *handle, void *osHandle,
                                             CUmemAllocationHandleType shHandleType)
{
    GATE(p, next, next->cuMemImportFromShareableHandle(handle, osHandle, shHandleType))
    CUresult status = next->cuMemImportFromShareableHandle(handle, osHandle, shHandleType);
    CUmemAllocationProp prop;
    struct place at;
    if (status != CUDA_SUCCESS || !handle || !next->cuMemGetAllocationPropertiesFromHandle ||
        next->cuMemGetAllocationPropertiesFromHandle(&prop, *handle) != CUDA_SUCCESS || prop.location.type != LOCATION_DEVICE ||
        !place_of(p, prop.location.id, &at))
        return status;
    physical_make(p, *handle, at.device, 0, HELD_IMPORT);
    return status;
}

CUresult hook_cuIpcGetMemHandle(const struct driver *next, CUipcMemHandle *pHandle, CUdeviceptr dptr)
{
    GATE(p, next, next->cuIpcGetMemHandle(pHandle, dptr))
    if (!p->state.limits.exports)
        return CUDA_ERROR_NOT_PERMITTED;
    CUresult status = next->cuIpcGetMemHandle(pHandle, dptr);
    struct holding h;
    if (status != CUDA_SUCCESS || !pHandle || !pointers_take(&p->pointers, FAMILY_POINTER, dptr, &h))
        return status;
    if (h.kind == HELD_BLOCK) {
        int share = ledger_share(&p->state.ledger, h.device, key_of_share(pHandle, sizeof *pHandle), h.bytes, false);
        if (share >= 0) {
            h.kind = HELD_SHARED;
            h.extra = (uint64_t)share + 1;
        }
    }
    pointers_put(&p->pointers, FAMILY_POINTER, dptr, &h);
    return status;
}

static CUresult opened(struct process *p, const struct driver *next, CUdeviceptr *pdptr, const CUipcMemHandle *handle, CUresult status)
{
    size_t size;
    CUdeviceptr base;
    struct place at;
    if (status != CUDA_SUCCESS || !pdptr || !place_now(p, next, &at) || !next->cuMemGetAddressRange_v2 ||
        next->cuMemGetAddressRange_v2(&base, &size, *pdptr) != CUDA_SUCCESS)
        return status;
    struct holding h = {.bytes = granules(size), .context = (uint64_t)(uintptr_t)at.context, .device = (uint8_t)at.device, .kind = HELD_IMPORT};
    int share = ledger_share_join(&p->state.ledger, (unsigned)at.device, key_of_share(handle, sizeof *handle), 0);
    if (share >= 0) {
        h.kind = HELD_SHARED;
        h.extra = (uint64_t)share + 1;
        pointers_put(&p->pointers, FAMILY_POINTER, *pdptr, &h);
        return status;
    }
    if (charge(p, next, at.device, CHARGE_DATA, h.bytes)) {
        if (pointers_put(&p->pointers, FAMILY_POINTER, *pdptr, &h))
            return status;
        uncharge(p, at.device, CHARGE_DATA, h.bytes);
    }
    next->cuIpcCloseMemHandle(*pdptr);
    return CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult hook_cuIpcOpenMemHandle(const struct driver *next, CUdeviceptr *pdptr, CUipcMemHandle handle, unsigned int Flags)
{
    GATE(p, next, next->cuIpcOpenMemHandle(pdptr, handle, Flags))
    return opened(p, next, pdptr, &handle, next->cuIpcOpenMemHandle(pdptr, handle, Flags));
}

CUresult hook_cuIpcOpenMemHandle_v2(const struct driver *next, CUdeviceptr *pdptr, CUipcMemHandle handle, unsigned int Flags)
{
    GATE(p, next, next->cuIpcOpenMemHandle_v2(pdptr, handle, Flags))
    return opened(p, next, pdptr, &handle, next->cuIpcOpenMemHandle_v2(pdptr, handle, Flags));
}

CUresult hook_cuIpcCloseMemHandle(const struct driver *next, CUdeviceptr dptr)
{
    GATE(p, next, next->cuIpcCloseMemHandle(dptr))
    struct holding h;
    bool ours = pointers_take(&p->pointers, FAMILY_POINTER, dptr, &h);
    CUresult status = next->cuIpcCloseMemHandle(dptr);
    if (ours && status == CUDA_SUCCESS)
        holding_gone(p, FAMILY_POINTER, &h);
    else if (ours)
        pointers_put(&p->pointers, FAMILY_POINTER, dptr, &h);
    return status;
}

CUresult hook_cuMemPoolExportToShareableHandle(const struct driver *next, void *handle_out, CUmemoryPool pool,
                                               CUmemAllocationHandleType handleType, unsigned long long flags)
{
    GATE(p, next, next->cuMemPoolExportToShareableHandle(handle_out, pool, handleType, flags))
    if (!p->state.limits.exports)
        return CUDA_ERROR_NOT_PERMITTED;
    return next->cuMemPoolExportToShareableHandle(handle_out, pool, handleType, flags);
}

CUresult hook_cuMemPoolImportFromShareableHandle(const struct driver *next, CUmemoryPool *pool_out, void *handle,
                                                 CUmemAllocationHandleType handleType, unsigned long long flags)
{
    return next->cuMemPoolImportFromShareableHandle(pool_out, handle, handleType, flags);
}

/* Its maker pays for a pool, and may end first: whoever holds a block of it pays for that, too. */
CUresult hook_cuMemPoolImportPointer(const struct driver *next, CUdeviceptr *ptr_out, CUmemoryPool pool, CUmemPoolPtrExportData *shareData)
{
    GATE(p, next, next->cuMemPoolImportPointer(ptr_out, pool, shareData))
    CUresult status = next->cuMemPoolImportPointer(ptr_out, pool, shareData);
    CUdeviceptr base;
    size_t size;
    struct place at;
    if (status != CUDA_SUCCESS || !ptr_out || !place_now(p, next, &at) || !next->cuMemGetAddressRange_v2 ||
        next->cuMemGetAddressRange_v2(&base, &size, *ptr_out) != CUDA_SUCCESS)
        return status;
    struct holding h = {.bytes = granules(size), .device = (uint8_t)at.device, .kind = HELD_IMPORT};
    if (charge(p, next, at.device, CHARGE_DATA, h.bytes)) {
        if (pointers_put(&p->pointers, FAMILY_POINTER, *ptr_out, &h))
            return status;
        uncharge(p, at.device, CHARGE_DATA, h.bytes);
    }
    next->cuMemFree_v2(*ptr_out);
    return CUDA_ERROR_OUT_OF_MEMORY;
}
