/* Arrays, and copies that have two or three dimensions. */
#include "driver.h"

#include <string.h>

struct array {
    struct object head;
    CUDA_ARRAY3D_DESCRIPTOR shape;
    CUdeviceptr at;
    size_t row, bytes;
    struct context *context;
    struct mipmap *whole;
};

struct mipmap {
    struct object head;
    CUDA_ARRAY3D_DESCRIPTOR shape;
    unsigned levels;
    struct array *level[16];
};

static size_t element(const CUDA_ARRAY3D_DESCRIPTOR *d)
{
    size_t each;
    switch (d->Format) {
    case CU_AD_FORMAT_UNSIGNED_INT8: case CU_AD_FORMAT_SIGNED_INT8: each = 1; break;
    case CU_AD_FORMAT_UNSIGNED_INT16: case CU_AD_FORMAT_SIGNED_INT16: case CU_AD_FORMAT_HALF: each = 2; break;
    case CU_AD_FORMAT_UNSIGNED_INT32: case CU_AD_FORMAT_SIGNED_INT32: case CU_AD_FORMAT_FLOAT: each = 4; break;
    default: each = 1;
    }
    return each * d->NumChannels;
}

static size_t or_one(size_t n)
{
    return n ? n : 1;
}

static CUresult array_new(struct context *c, const CUDA_ARRAY3D_DESCRIPTOR *d, struct array **out)
{
    if (!d->Width || (d->NumChannels != 1 && d->NumChannels != 2 && d->NumChannels != 4))
        return CUDA_ERROR_INVALID_VALUE;
    size_t row = (d->Width * element(d) + 31) & ~(size_t)31, bytes = row * or_one(d->Height) * or_one(d->Depth);
    struct array *a = object_new(OBJECT_ARRAY);
    if (!a)
        return CUDA_ERROR_OUT_OF_MEMORY;
    a->at = d->Flags & CUDA_ARRAY3D_SPARSE ? 0 : heap_alloc(c->arrays, bytes);
    if (!a->at && !(d->Flags & CUDA_ARRAY3D_SPARSE)) {
        object_end(a);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    a->shape = *d;
    a->row = row;
    a->bytes = bytes;
    a->context = c;
    *out = a;
    return CUDA_SUCCESS;
}

CUresult sim_cuArray3DCreate_v2(CUarray *pHandle, const CUDA_ARRAY3D_DESCRIPTOR *d)
{
    NEED_CONTEXT(c);
    struct array *a = NULL;
    if (!pHandle || !d)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult status = array_new(c, d, &a);
    if (status == CUDA_SUCCESS)
        *pHandle = (CUarray)a;
    return status;
}

CUresult sim_cuArrayCreate_v2(CUarray *pHandle, const CUDA_ARRAY_DESCRIPTOR *d)
{
    if (!d)
        return CUDA_ERROR_INVALID_VALUE;
    CUDA_ARRAY3D_DESCRIPTOR deep = {.Width = d->Width, .Height = d->Height, .Format = d->Format, .NumChannels = d->NumChannels};
    return sim_cuArray3DCreate_v2(pHandle, &deep);
}

#define NEED_ARRAY(a, handle)                                    \
    struct array *a = object_of(handle, OBJECT_ARRAY);           \
    if (!a)                                                      \
    return CUDA_ERROR_INVALID_HANDLE

CUresult sim_cuArrayDestroy(CUarray hArray)
{
    NEED_ARRAY(a, hArray);
    if (a->whole)
        return CUDA_ERROR_ARRAY_IS_MAPPED;
    if (a->at)
        block_free(a->at, false);
    object_end(a);
    return CUDA_SUCCESS;
}

CUresult sim_cuArray3DGetDescriptor_v2(CUDA_ARRAY3D_DESCRIPTOR *d, CUarray hArray)
{
    NEED_ARRAY(a, hArray);
    if (!d)
        return CUDA_ERROR_INVALID_VALUE;
    *d = a->shape;
    return CUDA_SUCCESS;
}

CUresult sim_cuArrayGetDescriptor_v2(CUDA_ARRAY_DESCRIPTOR *d, CUarray hArray)
{
    NEED_ARRAY(a, hArray);
    if (!d)
        return CUDA_ERROR_INVALID_VALUE;
    *d = (CUDA_ARRAY_DESCRIPTOR){.Width = a->shape.Width, .Height = a->shape.Height, .Format = a->shape.Format, .NumChannels = a->shape.NumChannels};
    return CUDA_SUCCESS;
}

CUresult sim_cuArrayGetMemoryRequirements(CUDA_ARRAY_MEMORY_REQUIREMENTS *r, CUarray array, CUdevice device)
{
    NEED_ARRAY(a, array);
    if (!r || !ordinal_known(device))
        return CUDA_ERROR_INVALID_VALUE;
    memset(r, 0, sizeof *r);
    r->size = (a->bytes + 65535) & ~(size_t)65535;
    r->alignment = 65536;
    return CUDA_SUCCESS;
}

CUresult sim_cuArrayGetPlane(CUarray *pPlaneArray, CUarray hArray, unsigned int planeIdx)
{
    NEED_ARRAY(a, hArray);
    (void)a;
    if (!pPlaneArray || planeIdx)
        return CUDA_ERROR_INVALID_VALUE;
    *pPlaneArray = hArray;
    return CUDA_SUCCESS;
}

CUresult sim_cuMipmappedArrayCreate(CUmipmappedArray *pHandle, const CUDA_ARRAY3D_DESCRIPTOR *d, unsigned int levels)
{
    NEED_CONTEXT(c);
    if (!pHandle || !d || !levels || levels > 16)
        return CUDA_ERROR_INVALID_VALUE;
    struct mipmap *m = object_new(OBJECT_MIPMAP);
    if (!m)
        return CUDA_ERROR_OUT_OF_MEMORY;
    m->shape = *d;
    CUDA_ARRAY3D_DESCRIPTOR part = *d;
    CUresult status = CUDA_SUCCESS;
    while (m->levels < levels && status == CUDA_SUCCESS) {
        status = array_new(c, &part, &m->level[m->levels]);
        if (status == CUDA_SUCCESS)
            m->level[m->levels++]->whole = m;
        part.Width = or_one(part.Width / 2);
        part.Height = part.Height ? or_one(part.Height / 2) : 0;
        part.Depth = part.Depth ? or_one(part.Depth / 2) : 0;
    }
    if (status == CUDA_SUCCESS) {
        *pHandle = (CUmipmappedArray)m;
        return status;
    }
    while (m->levels--) {
        m->level[m->levels]->whole = NULL;
        sim_cuArrayDestroy((CUarray)m->level[m->levels]);
    }
    object_end(m);
    return status;
}

CUresult sim_cuMipmappedArrayDestroy(CUmipmappedArray handle)
{
    struct mipmap *m = object_of(handle, OBJECT_MIPMAP);
    if (!m)
        return CUDA_ERROR_INVALID_HANDLE;
    for (unsigned i = 0; i < m->levels; i++) {
        m->level[i]->whole = NULL;
        sim_cuArrayDestroy((CUarray)m->level[i]);
    }
    object_end(m);
    return CUDA_SUCCESS;
}

CUresult sim_cuMipmappedArrayGetLevel(CUarray *pLevelArray, CUmipmappedArray handle, unsigned int level)
{
    struct mipmap *m = object_of(handle, OBJECT_MIPMAP);
    if (!m || !pLevelArray || level >= m->levels)
        return m ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_HANDLE;
    *pLevelArray = (CUarray)m->level[level];
    return CUDA_SUCCESS;
}

CUresult sim_cuMipmappedArrayGetMemoryRequirements(CUDA_ARRAY_MEMORY_REQUIREMENTS *r, CUmipmappedArray handle, CUdevice device)
{
    struct mipmap *m = object_of(handle, OBJECT_MIPMAP);
    if (!m || !r || !ordinal_known(device))
        return m ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_HANDLE;
    memset(r, 0, sizeof *r);
    for (unsigned i = 0; i < m->levels; i++)
        r->size += m->level[i]->bytes;
    r->size = (r->size + 65535) & ~(size_t)65535;
    r->alignment = 65536;
    return CUDA_SUCCESS;
}

/* ---- copies --------------------------------------------------------------------------------------------------------------- */

struct end { uint64_t at; size_t pitch, plane; };

static bool end_of(struct end *out, CUmemorytype type, const void *host, CUdeviceptr device, CUarray array, size_t pitch, size_t height, size_t width,
                   size_t x, size_t y, size_t z)
{
    if (type == CU_MEMORYTYPE_ARRAY) {
        struct array *a = object_of(array, OBJECT_ARRAY);
        if (!a || !a->at)
            return false;
        *out = (struct end){a->at, a->row, a->row * or_one(a->shape.Height)};
    } else {
        size_t p = pitch ? pitch : width;
        *out = (struct end){type == CU_MEMORYTYPE_HOST ? (uint64_t)(uintptr_t)host : device, p, p * or_one(height)};
    }
    out->at += x + y * out->pitch + z * out->plane;
    return out->at != 0;
}

static CUresult copy_box(struct end to, struct end from, size_t width, size_t height, size_t depth)
{
    CUresult status = CUDA_SUCCESS;
    for (size_t z = 0; z < depth; z++)
        for (size_t y = 0; y < height && status == CUDA_SUCCESS; y++)
            status = copy_bytes(to.at + z * to.plane + y * to.pitch, from.at + z * from.plane + y * from.pitch, width);
    return status;
}

static CUresult wait_for(CUstream hStream, bool sync)
{
    struct stream *st;
    CUresult status = stream_resolve(hStream, &st);
    if (status == CUDA_SUCCESS && st->capture)
        return CUDA_ERROR_NOT_SUPPORTED;
    if (status == CUDA_SUCCESS && sync)
        ticket_wait(st->context, atomic_load(&st->ticket));
    return status;
}

static CUresult copy_2d(const CUDA_MEMCPY2D *p, CUstream hStream, bool sync)
{
    struct end to, from;
    if (!p || !end_of(&to, p->dstMemoryType, p->dstHost, p->dstDevice, p->dstArray, p->dstPitch, p->Height, p->WidthInBytes, p->dstXInBytes, p->dstY, 0) ||
        !end_of(&from, p->srcMemoryType, p->srcHost, p->srcDevice, p->srcArray, p->srcPitch, p->Height, p->WidthInBytes, p->srcXInBytes, p->srcY, 0))
        return CUDA_ERROR_INVALID_VALUE;
    CUresult status = wait_for(hStream, sync);
    return status == CUDA_SUCCESS ? copy_box(to, from, p->WidthInBytes, or_one(p->Height), 1) : status;
}

CUresult sim_cuMemcpy2D_v2(const CUDA_MEMCPY2D *p) { return copy_2d(p, NULL, true); }
CUresult sim_cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D *p) { return copy_2d(p, NULL, true); }
CUresult sim_cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D *p, CUstream st) { return copy_2d(p, st, false); }

static CUresult copy_3d(const CUDA_MEMCPY3D *p, CUstream hStream, bool sync)
{
    struct end to, from;
    if (!p || !end_of(&to, p->dstMemoryType, p->dstHost, p->dstDevice, p->dstArray, p->dstPitch, p->dstHeight ? p->dstHeight : p->Height,
                      p->WidthInBytes, p->dstXInBytes, p->dstY, p->dstZ) ||
        !end_of(&from, p->srcMemoryType, p->srcHost, p->srcDevice, p->srcArray, p->srcPitch, p->srcHeight ? p->srcHeight : p->Height,
                p->WidthInBytes, p->srcXInBytes, p->srcY, p->srcZ))
        return CUDA_ERROR_INVALID_VALUE;
    CUresult status = wait_for(hStream, sync);
    return status == CUDA_SUCCESS ? copy_box(to, from, p->WidthInBytes, or_one(p->Height), or_one(p->Depth)) : status;
}

CUresult sim_cuMemcpy3D_v2(const CUDA_MEMCPY3D *p) { return copy_3d(p, NULL, true); }
CUresult sim_cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D *p, CUstream st) { return copy_3d(p, st, false); }

static CUresult copy_peer(const CUDA_MEMCPY3D_PEER *p, CUstream hStream, bool sync)
{
    if (!p)
        return CUDA_ERROR_INVALID_VALUE;
    CUDA_MEMCPY3D plain = {.srcXInBytes = p->srcXInBytes, .srcY = p->srcY, .srcZ = p->srcZ, .srcMemoryType = p->srcMemoryType, .srcHost = p->srcHost,
                           .srcDevice = p->srcDevice, .srcArray = p->srcArray, .srcPitch = p->srcPitch, .srcHeight = p->srcHeight,
                           .dstXInBytes = p->dstXInBytes, .dstY = p->dstY, .dstZ = p->dstZ, .dstMemoryType = p->dstMemoryType,
                           .dstHost = p->dstHost, .dstDevice = p->dstDevice, .dstArray = p->dstArray, .dstPitch = p->dstPitch,
                           .dstHeight = p->dstHeight, .WidthInBytes = p->WidthInBytes, .Height = p->Height, .Depth = p->Depth};
    return copy_3d(&plain, hStream, sync);
}

CUresult sim_cuMemcpy3DPeer(const CUDA_MEMCPY3D_PEER *p) { return copy_peer(p, NULL, true); }
CUresult sim_cuMemcpy3DPeerAsync(const CUDA_MEMCPY3D_PEER *p, CUstream st) { return copy_peer(p, st, false); }

static CUresult flat(CUarray array, size_t offset, uint64_t other, size_t bytes, bool into, CUstream hStream, bool sync)
{
    NEED_ARRAY(a, array);
    if (!a->at || offset + bytes > a->bytes)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult status = wait_for(hStream, sync);
    if (status != CUDA_SUCCESS)
        return status;
    return into ? copy_bytes(a->at + offset, other, bytes) : copy_bytes(other, a->at + offset, bytes);
}

#define AT(p) ((uint64_t)(uintptr_t)(p))
CUresult sim_cuMemcpyHtoA_v2(CUarray a, size_t o, const void *h, size_t n) { return flat(a, o, AT(h), n, true, NULL, true); }
CUresult sim_cuMemcpyAtoH_v2(void *h, CUarray a, size_t o, size_t n) { return flat(a, o, AT(h), n, false, NULL, true); }
CUresult sim_cuMemcpyDtoA_v2(CUarray a, size_t o, CUdeviceptr d, size_t n) { return flat(a, o, d, n, true, NULL, true); }
CUresult sim_cuMemcpyAtoD_v2(CUdeviceptr d, CUarray a, size_t o, size_t n) { return flat(a, o, d, n, false, NULL, true); }
CUresult sim_cuMemcpyHtoAAsync_v2(CUarray a, size_t o, const void *h, size_t n, CUstream st) { return flat(a, o, AT(h), n, true, st, false); }
CUresult sim_cuMemcpyAtoHAsync_v2(void *h, CUarray a, size_t o, size_t n, CUstream st) { return flat(a, o, AT(h), n, false, st, false); }
CUresult sim_cuMemcpyAtoA_v2(CUarray to, size_t to_at, CUarray from, size_t from_at, size_t n)
{
    NEED_ARRAY(source, from);
    return source->at && from_at + n <= source->bytes ? flat(to, to_at, source->at + from_at, n, true, NULL, true) : CUDA_ERROR_INVALID_VALUE;
}

/* ---- textures and surfaces: handles that remember what they look at --------------------------------------------------------- */

struct view { struct object head; CUDA_RESOURCE_DESC resource; };
_Static_assert(sizeof(struct view) <= OBJECT_BYTES, "view");

static CUresult view_new(unsigned long long *out, const CUDA_RESOURCE_DESC *d, enum object_type type)
{
    struct view *v = out && d ? object_new(type) : NULL;
    if (!v)
        return CUDA_ERROR_INVALID_VALUE;
    v->resource = *d;
    *out = (unsigned long long)(uintptr_t)v;
    return CUDA_SUCCESS;
}

static CUresult view_end(unsigned long long handle, enum object_type type)
{
    struct view *v = object_of((const void *)(uintptr_t)handle, type);
    if (!v)
        return CUDA_ERROR_INVALID_VALUE;
    object_end(v);
    return CUDA_SUCCESS;
}

static CUresult view_look(CUDA_RESOURCE_DESC *d, unsigned long long handle, enum object_type type)
{
    struct view *v = object_of((const void *)(uintptr_t)handle, type);
    if (!v || !d)
        return CUDA_ERROR_INVALID_VALUE;
    *d = v->resource;
    return CUDA_SUCCESS;
}

CUresult sim_cuTexObjectCreate(CUtexObject *out, const CUDA_RESOURCE_DESC *d, const CUDA_TEXTURE_DESC *t, const CUDA_RESOURCE_VIEW_DESC *v)
{
    (void)v;
    return t ? view_new(out, d, OBJECT_TEXTURE) : CUDA_ERROR_INVALID_VALUE;
}
CUresult sim_cuTexObjectDestroy(CUtexObject t) { return view_end(t, OBJECT_TEXTURE); }
CUresult sim_cuTexObjectGetResourceDesc(CUDA_RESOURCE_DESC *d, CUtexObject t) { return view_look(d, t, OBJECT_TEXTURE); }
CUresult sim_cuSurfObjectCreate(CUsurfObject *out, const CUDA_RESOURCE_DESC *d) { return view_new(out, d, OBJECT_SURFACE); }
CUresult sim_cuSurfObjectDestroy(CUsurfObject s) { return view_end(s, OBJECT_SURFACE); }
CUresult sim_cuSurfObjectGetResourceDesc(CUDA_RESOURCE_DESC *d, CUsurfObject s) { return view_look(d, s, OBJECT_SURFACE); }
