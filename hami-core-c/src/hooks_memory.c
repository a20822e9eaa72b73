/* Plain, pitched and managed memory, arrays, and what is said about memory. */
#include "hooks.h"
#include "holdings.h"

/* ---- blocks --------------------------------------------------------------------------------------------------------------- */

static CUresult entered(struct process *p, const struct driver *next, const struct claim *c, CUresult status, CUdeviceptr at)
{
    if (status != CUDA_SUCCESS) {
        claim_drop(p, c);
        return status;
    }
    if (claim_enter(p, c, FAMILY_POINTER, at))
        return CUDA_SUCCESS;
    next->cuMemFree_v2(at);
    return CUDA_ERROR_OUT_OF_MEMORY;
}

/* Where more was granted than the card has, the driver may page: what the card refuses comes from memory it manages. */
static CUresult alloc(struct process *p, const struct driver *next, CUdeviceptr *dptr, size_t bytes)
{
    CUresult status = next->cuMemAlloc_v2(dptr, bytes);
    bool more = p->state.limits.present ? p->state.limits.oversubscribe : p->state.options.oversubscribe;
    if (status == CUDA_ERROR_OUT_OF_MEMORY && more && next->cuMemAllocManaged)
        status = next->cuMemAllocManaged(dptr, bytes, 1);
    return status;
}

CUresult hook_cuMemAlloc_v2(const struct driver *next, CUdeviceptr *dptr, size_t bytesize)
{
    GATE(p, next, next->cuMemAlloc_v2(dptr, bytesize))
    struct claim c;
    if (!dptr || !bytesize || !place_now(p, next, &c.at))
        return next->cuMemAlloc_v2(dptr, bytesize);
    if (!claim_make(p, next, bytesize, &c))
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult status = alloc(p, next, dptr, bytesize);
    return entered(p, next, &c, status, status == CUDA_SUCCESS ? *dptr : 0);
}

CUresult hook_cuMemAlloc(const struct driver *next, CUdeviceptr_v1 *dptr, unsigned int bytesize)
{
    GATE(p, next, next->cuMemAlloc(dptr, bytesize))
    struct claim c;
    if (!dptr || !bytesize || !place_now(p, next, &c.at))
        return next->cuMemAlloc(dptr, bytesize);
    if (!claim_make(p, next, bytesize, &c))
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult status = next->cuMemAlloc(dptr, bytesize);
    return entered(p, next, &c, status, status == CUDA_SUCCESS ? *dptr : 0);
}

CUresult hook_cuMemAllocManaged(const struct driver *next, CUdeviceptr *dptr, size_t bytesize, unsigned int flags)
{
    GATE(p, next, next->cuMemAllocManaged(dptr, bytesize, flags))
    struct claim c;
    if (!dptr || !bytesize || !place_now(p, next, &c.at))
        return next->cuMemAllocManaged(dptr, bytesize, flags);
    if (!claim_make(p, next, bytesize, &c))
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult status = next->cuMemAllocManaged(dptr, bytesize, flags);
    return entered(p, next, &c, status, status == CUDA_SUCCESS ? *dptr : 0);
}

/* The pitch is the driver's choice: reserve what it would be at most (rows of 512 bytes), then keep what it is. */
static uint64_t rows(uint64_t width, uint64_t height)
{
    uint64_t bytes;
    if (width > UINT64_MAX - 511 || __builtin_mul_overflow((width + 511) & ~UINT64_C(511), height, &bytes))
        return UINT64_MAX;
    return bytes;
}

static bool pitch_settle(struct process *p, const struct driver *next, struct claim *c, uint64_t pitch, uint64_t height)
{
    struct claim real = {.at = c->at};
    uint64_t bytes;
    if (__builtin_mul_overflow(pitch, height, &bytes) || !bytes)
        return true;
    if (c->kind == HELD_BLOCK && granules(bytes) == c->bytes)
        return true;
    if (!claim_make(p, next, bytes, &real))
        return false;
    claim_drop(p, c);
    *c = real;
    return true;
}

CUresult hook_cuMemAllocPitch_v2(const struct driver *next, CUdeviceptr *dptr, size_t *pPitch, size_t WidthInBytes, size_t Height,
                                 unsigned int ElementSizeBytes)
{
    GATE(p, next, next->cuMemAllocPitch_v2(dptr, pPitch, WidthInBytes, Height, ElementSizeBytes))
    struct claim c;
    if (!dptr || !pPitch || !WidthInBytes || !Height || !place_now(p, next, &c.at))
        return next->cuMemAllocPitch_v2(dptr, pPitch, WidthInBytes, Height, ElementSizeBytes);
    if (!claim_make(p, next, rows(WidthInBytes, Height), &c))
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult status = next->cuMemAllocPitch_v2(dptr, pPitch, WidthInBytes, Height, ElementSizeBytes);
    if (status == CUDA_SUCCESS && !pitch_settle(p, next, &c, *pPitch, Height)) {
        next->cuMemFree_v2(*dptr);
        status = CUDA_ERROR_OUT_OF_MEMORY;
    }
    return entered(p, next, &c, status, status == CUDA_SUCCESS ? *dptr : 0);
}

CUresult hook_cuMemAllocPitch(const struct driver *next, CUdeviceptr_v1 *dptr, unsigned int *pPitch, unsigned int WidthInBytes,
                              unsigned int Height, unsigned int ElementSizeBytes)
{
    GATE(p, next, next->cuMemAllocPitch(dptr, pPitch, WidthInBytes, Height, ElementSizeBytes))
    struct claim c;
    if (!dptr || !pPitch || !WidthInBytes || !Height || !place_now(p, next, &c.at))
        return next->cuMemAllocPitch(dptr, pPitch, WidthInBytes, Height, ElementSizeBytes);
    if (!claim_make(p, next, rows(WidthInBytes, Height), &c))
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult status = next->cuMemAllocPitch(dptr, pPitch, WidthInBytes, Height, ElementSizeBytes);
    if (status == CUDA_SUCCESS && !pitch_settle(p, next, &c, *pPitch, Height)) {
        next->cuMemFree_v2(*dptr);
        status = CUDA_ERROR_OUT_OF_MEMORY;
    }
    return entered(p, next, &c, status, status == CUDA_SUCCESS ? *dptr : 0);
}

/* The entry goes first, the driver second, the bytes last: the driver may hand the address out again at once. */
CUresult hook_cuMemFree_v2(const struct driver *next, CUdeviceptr dptr)
{
    GATE(p, next, next->cuMemFree_v2(dptr))
    struct holding h;
    bool ours = dptr && pointers_take(&p->pointers, FAMILY_POINTER, dptr, &h);
    CUresult status = next->cuMemFree_v2(dptr);
    if (ours && status == CUDA_SUCCESS)
        holding_gone(p, FAMILY_POINTER, &h);
    else if (ours)
        pointers_put(&p->pointers, FAMILY_POINTER, dptr, &h);
    return status;
}

CUresult hook_cuMemFree(const struct driver *next, CUdeviceptr_v1 dptr)
{
    GATE(p, next, next->cuMemFree(dptr))
    struct holding h;
    bool ours = dptr && pointers_take(&p->pointers, FAMILY_POINTER, dptr, &h);
    CUresult status = next->cuMemFree(dptr);
    if (ours && status == CUDA_SUCCESS)
        holding_gone(p, FAMILY_POINTER, &h);
    else if (ours)
        pointers_put(&p->pointers, FAMILY_POINTER, dptr, &h);
    return status;
}

/* ---- arrays --------------------------------------------------------------------------------------------------------------- */

/* Bits of one element, all channels. Unknown formats are taken for the largest there is. */
static uint64_t element_bits(unsigned format, unsigned channels)
{
    switch (format) {
    case 0x01: case 0x08: return 8u * channels;
    case 0x02: case 0x09: case 0x10: return 16u * channels;
    case 0x03: case 0x0a: case 0x20: return 32u * channels;
    case 0xc0: case 0xc6: return 8;
    case 0xc1: case 0xc7: case 0xc3: case 0xc9: return 16;
    case 0xc2: case 0xc8: case 0xc4: case 0xca: case 0x50: return 32;
    case 0xc5: case 0xcb: return 64;
    case 0x91: case 0x92: case 0x97: case 0x98: return 4;       /* blocks of 4 by 4 in 8 bytes */
    case 0x93: case 0x94: case 0x95: case 0x96: case 0x99: case 0x9a: case 0x9b: case 0x9c: case 0x9d: case 0x9e: return 8;
    case 0xb0: return 12;
    case 0x9f: case 0xa1: case 0xb2: case 0xb4: return 24;
    case 0xa2: case 0xa5: return 16;
    case 0xa3: case 0xa4: case 0xa6: case 0xa7: case 0xa8: case 0xa9: return 32;
    case 0xb3: case 0xb5: return 48;
    case 0xb1: return 64;
    default: return 128;
    }
}

static uint64_t times(uint64_t a, uint64_t b)
{
    uint64_t product;
    return __builtin_mul_overflow(a, b, &product) ? UINT64_MAX : product;
}

static uint64_t plus(uint64_t a, uint64_t b) { return a > UINT64_MAX - b ? UINT64_MAX : a + b; }

static uint64_t array_bytes(uint64_t width, uint64_t height, uint64_t depth, unsigned format, unsigned channels, unsigned levels)
{
    bool blocks = format >= 0x91 && format <= 0x9e;
    uint64_t sum = 0;
    for (unsigned i = 0; i < levels; i++) {
        uint64_t w = width ? width : 1, h = height ? height : 1, d = depth ? depth : 1;
        if (blocks) {
            w = (w + 3) & ~UINT64_C(3);
            h = (h + 3) & ~UINT64_C(3);
        }
        uint64_t bits = times(times(times(w, h), d), element_bits(format, channels));
        sum = plus(sum, bits == UINT64_MAX ? bits : bits / 8 + (bits % 8 != 0));
        if (w <= 1 && h <= 1 && d <= 1)
            break;
        width = w > 1 ? w / 2 : 1;
        height = h > 1 ? h / 2 : 1;
        depth = d > 1 ? d / 2 : 1;
    }
    return sum;
}

/* Sparse ones and those that are mapped later: what is mapped into them was charged when it was made. */
#define WITHOUT_MEMORY (0x40u | 0x80u)

/* Reserve by estimate, keep what the driver says it is. */
#define ARRAY(handle, make, destroy, size_of, bytes)                                            \
    GATE(p, next, make)                                                                         \
    struct claim c, real;                                                                       \
    if (!(handle) || !place_now(p, next, &c.at))                                                \
        return make;                                                                            \
    if (!claim_make(p, next, bytes, &c))                                                        \
        return CUDA_ERROR_OUT_OF_MEMORY;                                                        \
    CUresult status = make;                                                                     \
    CUDA_ARRAY_MEMORY_REQUIREMENTS need = {0};                                                  \
    if (status == CUDA_SUCCESS && next->size_of && next->size_of(&need, *(handle), c.at.ordinal) == CUDA_SUCCESS && need.size) { \
        real.at = c.at;                                                                         \
        if (!claim_make(p, next, need.size, &real)) {                                           \
            next->destroy(*(handle));                                                           \
            status = CUDA_ERROR_OUT_OF_MEMORY;                                                  \
        } else {                                                                                \
            claim_drop(p, &c);                                                                  \
            c = real;                                                                           \
        }                                                                                       \
    }                                                                                           \
    if (status != CUDA_SUCCESS)                                                                 \
        claim_drop(p, &c);                                                                      \
    else if (!claim_enter(p, &c, FAMILY_ARRAY, (uint64_t)(uintptr_t)*(handle))) {               \
        next->destroy(*(handle));                                                               \
        status = CUDA_ERROR_OUT_OF_MEMORY;                                                      \
    }                                                                                           \
    return status;

CUresult hook_cuArrayCreate_v2(const struct driver *next, CUarray *pHandle, const CUDA_ARRAY_DESCRIPTOR *pAllocateArray)
{
    const CUDA_ARRAY_DESCRIPTOR *a = pAllocateArray;
    ARRAY(pHandle, next->cuArrayCreate_v2(pHandle, a), cuArrayDestroy, cuArrayGetMemoryRequirements,
        a ? array_bytes(a->Width, a->Height, 1, a->Format, a->NumChannels, 1) : 0)
}

CUresult hook_cuArrayCreate(const struct driver *next, CUarray *pHandle, const CUDA_ARRAY_DESCRIPTOR_v1 *pAllocateArray)
{
    const CUDA_ARRAY_DESCRIPTOR_v1 *a = pAllocateArray;
    ARRAY(pHandle, next->cuArrayCreate(pHandle, a), cuArrayDestroy, cuArrayGetMemoryRequirements,
        a ? array_bytes(a->Width, a->Height, 1, a->Format, a->NumChannels, 1) : 0)
}

CUresult hook_cuArray3DCreate_v2(const struct driver *next, CUarray *pHandle, const CUDA_ARRAY3D_DESCRIPTOR *pAllocateArray)
{
    const CUDA_ARRAY3D_DESCRIPTOR *a = pAllocateArray;
    if (a && a->Flags & WITHOUT_MEMORY)
        return next->cuArray3DCreate_v2(pHandle, a);
    ARRAY(pHandle, next->cuArray3DCreate_v2(pHandle, a), cuArrayDestroy, cuArrayGetMemoryRequirements,
        a ? array_bytes(a->Width, a->Height, a->Depth, a->Format, a->NumChannels, 1) : 0)
}

CUresult hook_cuArray3DCreate(const struct driver *next, CUarray *pHandle, const CUDA_ARRAY3D_DESCRIPTOR_v1 *pAllocateArray)
{
    const CUDA_ARRAY3D_DESCRIPTOR_v1 *a = pAllocateArray;
    ARRAY(pHandle, next->cuArray3DCreate(pHandle, a), cuArrayDestroy, cuArrayGetMemoryRequirements,
        a ? array_bytes(a->Width, a->Height, a->Depth, a->Format, a->NumChannels, 1) : 0)
}

CUresult hook_cuMipmappedArrayCreate(const struct driver *next, CUmipmappedArray *pHandle, const CUDA_ARRAY3D_DESCRIPTOR *pMipmappedArrayDesc,
                                     unsigned int numMipmapLevels)
{
    const CUDA_ARRAY3D_DESCRIPTOR *a = pMipmappedArrayDesc;
    if (a && a->Flags & WITHOUT_MEMORY)
        return next->cuMipmappedArrayCreate(pHandle, a, numMipmapLevels);
    ARRAY(pHandle, next->cuMipmappedArrayCreate(pHandle, a, numMipmapLevels), cuMipmappedArrayDestroy, cuMipmappedArrayGetMemoryRequirements,
        a ? array_bytes(a->Width, a->Height, a->Depth, a->Format, a->NumChannels, numMipmapLevels) : 0)
}

static CUresult array_gone(struct process *p, uint64_t key, struct holding *h, bool ours, CUresult status)
{
    if (ours && status == CUDA_SUCCESS)
        holding_gone(p, FAMILY_ARRAY, h);
    else if (ours)
        pointers_put(&p->pointers, FAMILY_ARRAY, key, h);
    return status;
}

CUresult hook_cuArrayDestroy(const struct driver *next, CUarray hArray)
{
    GATE(p, next, next->cuArrayDestroy(hArray))
    struct holding h;
    bool ours = pointers_take(&p->pointers, FAMILY_ARRAY, (uint64_t)(uintptr_t)hArray, &h);
    return array_gone(p, (uint64_t)(uintptr_t)hArray, &h, ours, next->cuArrayDestroy(hArray));
}

CUresult hook_cuMipmappedArrayDestroy(const struct driver *next, CUmipmappedArray hMipmappedArray)
{
    GATE(p, next, next->cuMipmappedArrayDestroy(hMipmappedArray))
    struct holding h;
    bool ours = pointers_take(&p->pointers, FAMILY_ARRAY, (uint64_t)(uintptr_t)hMipmappedArray, &h);
    return array_gone(p, (uint64_t)(uintptr_t)hMipmappedArray, &h, ours, next->cuMipmappedArrayDestroy(hMipmappedArray));
}

/* ---- what is said about memory ------------------------------------------------------------------------------------------- */

static bool beyond_the_card(const struct state *s)
{
    return s->limits.present ? s->limits.oversubscribe : s->options.oversubscribe;
}

/* Free F means that an allocation of F succeeds: what the limit leaves, what the card leaves, in whole granules. */
static void seen(struct process *p, int device, uint64_t *free, uint64_t *total)
{
    struct state *s = &p->state;
    uint64_t limit = s->rules[device].memory, used = ledger_told(&s->ledger, (unsigned)device);
    if (limit == NO_LIMIT)
        return;
    used += atomic_load_explicit(&s->ledger.debt[device], memory_order_relaxed);
    uint64_t left = used < limit ? (limit - used) & ~(GRANULE - 1) : 0;
    bool more = beyond_the_card(s);
    if (more || limit < *total)
        *total = limit;
    if (more || left < *free)
        *free = left;
}

CUresult hook_cuMemGetInfo_v2(const struct driver *next, size_t *free, size_t *total)
{
    GATE(p, next, next->cuMemGetInfo_v2(free, total))
    CUresult status = next->cuMemGetInfo_v2(free, total);
    struct place at;
    if (status != CUDA_SUCCESS || !free || !total || !place_now(p, next, &at))
        return status;
    uint64_t f = *free, t = *total;
    seen(p, at.device, &f, &t);
    *free = f;
    *total = t;
    return status;
}

static unsigned int narrow(uint64_t bytes) { return bytes > UINT32_MAX ? UINT32_MAX : (unsigned int)bytes; }

CUresult hook_cuMemGetInfo(const struct driver *next, unsigned int *free, unsigned int *total)
{
    GATE(p, next, next->cuMemGetInfo(free, total))
    CUresult status = next->cuMemGetInfo(free, total);
    struct place at;
    size_t f, t;
    if (status != CUDA_SUCCESS || !free || !total || !next->cuMemGetInfo_v2 || next->cuMemGetInfo_v2(&f, &t) != CUDA_SUCCESS ||
        !place_now(p, next, &at))
        return status;
    uint64_t wide_free = f, wide_total = t;
    seen(p, at.device, &wide_free, &wide_total);
    *free = narrow(wide_free);
    *total = narrow(wide_total);
    return status;
}

static uint64_t total_seen(struct process *p, CUdevice dev, uint64_t bytes)
{
    struct place at;
    if (!place_of(p, dev, &at) || p->state.rules[at.device].memory == NO_LIMIT)
        return bytes;
    uint64_t limit = p->state.rules[at.device].memory;
    return limit < bytes || beyond_the_card(&p->state) ? limit : bytes;
}

CUresult hook_cuDeviceTotalMem_v2(const struct driver *next, size_t *bytes, CUdevice dev)
{
    GATE(p, next, next->cuDeviceTotalMem_v2(bytes, dev))
    CUresult status = next->cuDeviceTotalMem_v2(bytes, dev);
    if (status == CUDA_SUCCESS && bytes)
        *bytes = total_seen(p, dev, *bytes);
    return status;
}

CUresult hook_cuDeviceTotalMem(const struct driver *next, unsigned int *bytes, CUdevice dev)
{
    GATE(p, next, next->cuDeviceTotalMem(bytes, dev))
    CUresult status = next->cuDeviceTotalMem(bytes, dev);
    if (status == CUDA_SUCCESS && bytes)
        *bytes = narrow(total_seen(p, dev, *bytes));
    return status;
}
