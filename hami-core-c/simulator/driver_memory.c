/* Memory of devices and of the host: where it lies, who pays for it, and its content. */
#include "driver.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Device addresses are addresses of a reserved range of this process, one per memory owner. Blocks up to 1 MiB share granules
 * (slabs); larger ones take whole granules in a row. */

#define LARGEST_SHARED (UINT64_C(1) << 20)
#define SMALLEST UINT64_C(512)

struct slab {
    struct heap *heap;
    struct slab *next, *before;
    uint64_t granule;
    uint32_t class, blocks, live, hint;
    uint64_t taken[64];
    uint32_t *asked;
};

struct granule {
    struct heap *heap;
    struct slab *slab;          /* or NULL: first of a row */
    uint32_t row;               /* granules of the row; 0: inside one */
    uint32_t written;           /* has content of ours behind it */
    uint32_t share;             /* number of the shared block it has become, plus one */
    uint64_t asked;
};

#define RECENT 16
struct arena {
    char *base;
    uint64_t granules, next, high;
    struct granule *table;
    uint64_t recent[RECENT][8]; /* rows given back a moment ago, by length: handed out again first */
    uint32_t recent_count[RECENT];
    pthread_mutex_t lock;
};

static struct arena arenas[SIM_DEVICES];
static struct heap *heaps[65536];
static uint32_t heap_count;
static uint64_t backed;         /* granules with content */
static uint64_t backed_most = UINT64_MAX;

static const uint32_t class_bytes[SIZE_CLASSES] = {512,   1024,  1536,   2048,   3072,   4096,   6144,   8192,   12288,  16384,  24576,  32768,
                                                   49152, 65536, 98304,  131072, 196608, 262144, 393216, 524288, 699392, 1048576, 0,      0};

static unsigned class_of(uint64_t bytes)
{
    unsigned low = 0, high = 21;
    while (low < high) {
        unsigned middle = (low + high) / 2;
        if (class_bytes[middle] < bytes)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static struct arena *arena_of(uint32_t device)
{
    uint32_t owner = memory_owner(process.state, device);
    struct arena *a = &arenas[owner];
    if (SIM_LIKELY(__atomic_load_n(&a->base, __ATOMIC_ACQUIRE) != NULL))
        return a;
    static pthread_mutex_t making = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&making);
    if (!a->base) {
        if (backed_most == UINT64_MAX) {
            const char *most = secure_getenv("HAMI_SIM_BACKING_MIB");
            backed_most = (most ? strtoull(most, NULL, 10) : 4096) / 2;
        }
        uint64_t bytes = granules(device_at(owner)->total) * 3;
        char *at = MAP_FAILED;
        for (; bytes > 64 * MIB && at == MAP_FAILED; bytes /= at == MAP_FAILED ? 2 : 1)
            at = mmap(NULL, bytes + SIM_GRANULE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        uint64_t n = bytes / SIM_GRANULE;
        void *table = mmap(NULL, n * sizeof(struct granule), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (at != MAP_FAILED && table != MAP_FAILED) {
            pthread_mutex_init(&a->lock, NULL);
            a->granules = n;
            a->table = table;
            __atomic_store_n(&a->base, (char *)granules((uint64_t)(uintptr_t)at), __ATOMIC_RELEASE);
        }
    }
    pthread_mutex_unlock(&making);
    return a->base ? a : NULL;
}

struct heap *heap_new(uint32_t device, enum sim_kind kind, struct context *c, struct pool *p)
{
    struct heap *h = calloc(1, sizeof *h);
    if (!h)
        return NULL;
    h->device = device;
    h->kind = kind;
    h->context = c;
    h->pool = p;
    h->id = (uint16_t)__atomic_fetch_add(&heap_count, 1, __ATOMIC_RELAXED);
    heaps[h->id] = h;
    return h;
}

static bool pay(struct heap *h, uint64_t n)
{
    if (h->pool)
        return pool_take_granules(h->pool, n * SIM_GRANULE);
    return memory_charge(process.state, process.slot, h->device, h->kind, n * SIM_GRANULE);
}

static struct arena *arena_at(CUdeviceptr at, uint64_t *granule);
static uint64_t row_start(struct arena *a, uint64_t at);
static bool block_at(struct arena *a, uint64_t granule, CUdeviceptr at, struct found *out);

static void repay(struct heap *h, uint64_t n)
{
    if (h->pool)
        pool_leave_granules(h->pool, n * SIM_GRANULE);
    else
        memory_return(process.state, process.slot, h->device, h->kind, n * SIM_GRANULE);
}

/* Under the arena's lock: n granules in a row, not yet paid; UINT64_MAX when the range is full. */
static uint64_t row_find(struct arena *a, uint64_t n)
{
    if (n < RECENT && a->recent_count[n])
        return a->recent[n][--a->recent_count[n]];
    for (int round = 0; round < 2; round++) {
        uint64_t at = round ? 0 : a->next, run = 0;
        for (; at < a->granules; at++) {
            if (a->table[at].heap) {
                run = 0;
                at += a->table[at].row ? a->table[at].row - 1 : 0;
                continue;
            }
            bool kept = false;
            for (unsigned length = 1; length < RECENT && at < a->high && !kept; length++)
                for (unsigned i = 0; i < a->recent_count[length] && !kept; i++)
                    if (at >= a->recent[length][i] && at < a->recent[length][i] + length) {
                        a->recent[length][i] = a->recent[length][--a->recent_count[length]];
                        kept = true;
                        break;
                    }
            if (++run == n) {
                a->next = at + 1;
                if (a->next > a->high)
                    a->high = a->next;
                return at + 1 - n;
            }
        }
    }
    return UINT64_MAX;
}

static void content_gone(struct arena *a, uint64_t at, uint64_t n)
{
    uint64_t written = 0;
    for (uint64_t i = 0; i < n; i++) {
        written += a->table[at + i].written;
        a->table[at + i].written = 0;
    }
    if (written) {
        madvise(a->base + at * SIM_GRANULE, n * SIM_GRANULE, MADV_DONTNEED);
        __atomic_fetch_sub(&backed, written, __ATOMIC_RELAXED);
    }
}

static uint64_t row_take(struct arena *a, struct heap *h, uint64_t n)
{
    if (!pay(h, n))
        return UINT64_MAX;
    uint64_t at = row_find(a, n);
    if (at == UINT64_MAX) {
        repay(h, n);
        return at;
    }
    for (uint64_t i = 0; i < n; i++) {
        a->table[at + i].heap = h;
        a->table[at + i].slab = NULL;
        a->table[at + i].row = 0;
    }
    a->table[at].row = (uint32_t)n;
    return at;
}

static void row_leave(struct arena *a, uint64_t at)
{
    struct heap *h = a->table[at].heap;
    uint64_t n = a->table[at].row;
    uint32_t share = a->table[at].share;
    if (share) {
        a->table[at].share = 0;
        mmap(a->base + at * SIM_GRANULE, n * SIM_GRANULE, PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    }
    content_gone(a, at, n);
    for (uint64_t i = 0; i < n; i++) {
        a->table[at + i].heap = NULL;
        a->table[at + i].slab = NULL;
        a->table[at + i].row = 0;
    }
    if (n < RECENT && a->recent_count[n] < 8)
        a->recent[n][a->recent_count[n]++] = at;
    else if (at < a->next)
        a->next = at;
    if (share)
        share_leave_here(share - 1);
    else
        repay(h, n);
}

int block_share(CUdeviceptr at, bool of_pool, CUdeviceptr *base, uint64_t *bytes)
{
    uint64_t granule;
    struct arena *a = arena_at(at, &granule);
    struct found f;
    if (!a)
        return -1;
    int share = -1;
    pthread_mutex_lock(&a->lock);
    uint64_t first = row_start(a, granule);
    if (block_at(a, granule, at, &f) && !f.heap->pool == !of_pool && !f.heap->managed) {
        struct granule *g = &a->table[first];
        uint64_t n = g->row;
        char *here = a->base + first * SIM_GRANULE;
        *base = (CUdeviceptr)(uintptr_t)here;
        *bytes = n * SIM_GRANULE;
        if (!g->share) {
            share = share_make(process.state, process.slot, f.heap->device, f.heap->kind, n * SIM_GRANULE);
            uint64_t content = share < 0 ? UINT64_MAX : content_take(n * SIM_GRANULE);
            if (content != UINT64_MAX) {
                bool written = false;
                for (uint64_t i = 0; i < n; i++)
                    written |= a->table[first + i].written != 0;
                if (written && pwrite(content_open(), here, n * SIM_GRANULE, (off_t)content) < 0)
                    written = false;
                mmap(here, n * SIM_GRANULE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED | MAP_NORESERVE, content_open(), (off_t)content);
                for (uint64_t i = 0; i < n; i++) {
                    if (!a->table[first + i].written)
                        __atomic_fetch_add(&backed, 1, __ATOMIC_RELAXED);
                    a->table[first + i].written = 1;
                }
                process.state->shares[share].content = content;
                share_hold_here((uint32_t)share, 0);
                g->share = (uint32_t)share + 1;
                if (f.heap->pool)
                    pool_give_away(f.heap->pool, n * SIM_GRANULE);
            }
        } else
            share = (int)g->share - 1;
    }
    pthread_mutex_unlock(&a->lock);
    return share;
}

static void slab_link(struct slab *one)
{
    struct slab **first = &one->heap->open[one->class];
    one->before = NULL;
    one->next = *first;
    if (*first)
        (*first)->before = one;
    *first = one;
}

static void slab_unlink(struct slab *one)
{
    if (one->before)
        one->before->next = one->next;
    else
        one->heap->open[one->class] = one->next;
    if (one->next)
        one->next->before = one->before;
}

static struct slab *slab_new(struct arena *a, struct heap *h, unsigned class)
{
    uint64_t at = row_take(a, h, 1);
    if (at == UINT64_MAX)
        return NULL;
    uint32_t blocks = (uint32_t)(SIM_GRANULE / class_bytes[class]);
    struct slab *one = h->spare[class];
    if (one) {
        h->spare[class] = NULL;
        one->granule = at;
        a->table[at].slab = one;
        slab_link(one);
        return one;
    }
    one = calloc(1, sizeof *one);
    if (one)
        one->asked = calloc(blocks, sizeof *one->asked);
    if (!one || !one->asked) {
        free(one);
        row_leave(a, at);
        return NULL;
    }
    one->heap = h;
    one->granule = at;
    one->class = class;
    one->blocks = blocks;
    for (uint32_t i = blocks; i < 4096; i++)
        one->taken[i / 64] |= UINT64_C(1) << (i % 64);
    a->table[at].slab = one;
    slab_link(one);
    return one;
}

static CUdeviceptr small_alloc(struct arena *a, struct heap *h, uint64_t bytes)
{
    unsigned class = class_of(bytes);
    struct slab *one = h->open[class];
    if (!one && !(one = slab_new(a, h, class)))
        return 0;
    uint32_t word = one->hint;
    while (one->taken[word] == UINT64_MAX)
        word = (word + 1) % 64;
    unsigned bit = (unsigned)__builtin_ctzll(~one->taken[word]);
    one->taken[word] |= UINT64_C(1) << bit;
    one->hint = word;
    uint32_t block = word * 64 + bit;
    one->asked[block] = (uint32_t)bytes;
    if (++one->live == one->blocks)
        slab_unlink(one);
    return (CUdeviceptr)(uintptr_t)(a->base + one->granule * SIM_GRANULE) + (uint64_t)block * class_bytes[class];
}

CUdeviceptr heap_alloc(struct heap *h, uint64_t bytes)
{
    struct arena *a = arena_of(h->device);
    if (!a || bytes > (UINT64_C(1) << 50))
        return 0;
    CUdeviceptr out = 0;
    pthread_mutex_lock(&a->lock);
    if (bytes <= LARGEST_SHARED)
        out = small_alloc(a, h, bytes ? bytes : 1);
    else {
        uint64_t at = row_take(a, h, granules(bytes) / SIM_GRANULE);
        if (at != UINT64_MAX) {
            a->table[at].asked = bytes;
            out = (CUdeviceptr)(uintptr_t)(a->base + at * SIM_GRANULE);
        }
    }
    if (out)
        h->live += bytes;
    pthread_mutex_unlock(&a->lock);
    return out;
}

static struct arena *arena_at(CUdeviceptr at, uint64_t *granule)
{
    for (unsigned i = 0; i < process.count; i++) {
        struct arena *a = &arenas[memory_owner(process.state, process.devices[i])];
        if (a->base && at >= (CUdeviceptr)(uintptr_t)a->base && at < (CUdeviceptr)(uintptr_t)a->base + a->granules * SIM_GRANULE) {
            *granule = (at - (CUdeviceptr)(uintptr_t)a->base) / SIM_GRANULE;
            return a;
        }
    }
    return NULL;
}

/* Under the arena's lock: the first granule of the row that contains one; its heap is NULL where nothing lies. */
static uint64_t row_start(struct arena *a, uint64_t at)
{
    while (at && a->table[at].heap && !a->table[at].row)
        at--;
    return at;
}

static bool block_at(struct arena *a, uint64_t granule, CUdeviceptr at, struct found *out)
{
    uint64_t first = row_start(a, granule);
    struct granule *g = &a->table[first];
    if (!g->heap)
        return false;
    CUdeviceptr base = (CUdeviceptr)(uintptr_t)a->base + first * SIM_GRANULE;
    if (g->slab) {
        uint32_t size = class_bytes[g->slab->class], block = (uint32_t)((at - base) / size);
        if (block >= g->slab->blocks || !(g->slab->taken[block / 64] >> (block % 64) & 1))
            return false;
        *out = (struct found){.heap = g->heap, .base = base + (uint64_t)block * size, .bytes = g->slab->asked[block]};
    } else
        *out = (struct found){.heap = g->heap, .base = base, .bytes = g->asked};
    return at < out->base + out->bytes || at == out->base;
}

bool block_find(CUdeviceptr at, struct found *out)
{
    uint64_t granule;
    struct arena *a = arena_at(at, &granule);
    if (!a)
        return false;
    pthread_mutex_lock(&a->lock);
    bool there = block_at(a, granule, at, out);
    pthread_mutex_unlock(&a->lock);
    return there;
}

CUresult block_free(CUdeviceptr at, bool stream_ordered)
{
    uint64_t granule;
    struct arena *a = arena_at(at, &granule);
    if (!a)
        return graph_free(at) || imported_free(at) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    struct found f;
    pthread_mutex_lock(&a->lock);
    if (!block_at(a, granule, at, &f) || f.base != at) {
        pthread_mutex_unlock(&a->lock);
        return CUDA_ERROR_INVALID_VALUE;
    }
    (void)stream_ordered;
    struct pool *p = f.heap->pool;
    f.heap->live -= f.bytes;
    struct slab *one = a->table[granule].slab;
    if (one) {
        uint32_t block = (uint32_t)((at - ((CUdeviceptr)(uintptr_t)a->base + granule * SIM_GRANULE)) / class_bytes[one->class]);
        one->taken[block / 64] &= ~(UINT64_C(1) << (block % 64));
        one->hint = block / 64;
        if (one->live-- == one->blocks)
            slab_link(one);
        if (!one->live) {
            struct heap *h = one->heap;
            slab_unlink(one);
            row_leave(a, granule);
            if (h->spare[one->class]) {
                free(one->asked);
                free(one);
            } else
                h->spare[one->class] = one;
        }
    } else
        row_leave(a, granule);
    pthread_mutex_unlock(&a->lock);
    if (p)
        __atomic_fetch_sub(&p->used, f.bytes, __ATOMIC_RELAXED);
    return CUDA_SUCCESS;
}

void heap_end(struct heap *h)
{
    struct arena *a = arena_of(h->device);
    if (!a)
        return;
    pthread_mutex_lock(&a->lock);
    for (uint64_t at = 0; at < a->high; at++) {
        struct granule *g = &a->table[at];
        if (g->heap != h || !g->row)
            continue;
        struct slab *one = g->slab;
        row_leave(a, at);
        if (one) {
            free(one->asked);
            free(one);
        }
    }
    for (unsigned class = 0; class < SIZE_CLASSES; class++)
        if (h->spare[class]) {
            free(h->spare[class]->asked);
            free(h->spare[class]);
        }
    heaps[h->id] = NULL;
    pthread_mutex_unlock(&a->lock);
    free(h);
}

/* ---- content --------------------------------------------------------------------------------------------------------- */

/* Say that bytes are going to be written; false when this process may keep no more content, and the write is dropped. */
static bool content_comes(uint64_t at, uint64_t bytes)
{
    uint64_t granule;
    struct arena *a = arena_at(at, &granule);
    if (!a || !bytes)
        return true;
    uint64_t last = (at + bytes - 1 - (uint64_t)(uintptr_t)a->base) / SIM_GRANULE;
    for (; granule <= last && granule < a->granules; granule++) {
        if (__atomic_load_n(&a->table[granule].written, __ATOMIC_RELAXED))
            continue;
        if (__atomic_load_n(&backed, __ATOMIC_RELAXED) >= backed_most)
            return false;
        if (!__atomic_exchange_n(&a->table[granule].written, 1, __ATOMIC_RELAXED))
            __atomic_fetch_add(&backed, 1, __ATOMIC_RELAXED);
    }
    return true;
}

/* Whether bytes of device memory were ever written; what was not is zero and stays unread. */
static bool content_there(uint64_t at, uint64_t bytes)
{
    uint64_t granule;
    struct arena *a = arena_at(at, &granule);
    if (!a || !bytes)
        return true;
    uint64_t last = (at + bytes - 1 - (uint64_t)(uintptr_t)a->base) / SIM_GRANULE;
    for (; granule <= last && granule < a->granules; granule++)
        if (__atomic_load_n(&a->table[granule].written, __ATOMIC_RELAXED))
            return true;
    return false;
}

bool memory_known(uint64_t at, uint64_t bytes)
{
    struct found f;
    if (block_find(at, &f))
        return at + bytes <= f.base + f.bytes;
    uint64_t granule;
    if (arena_at(at, &granule))
        return false;           /* device memory that nobody has */
    pthread_mutex_lock(&process.lock);
    struct range *r = range_find(at);
    bool known = !r || (at + bytes <= r->base + r->bytes && (r->kind != RANGE_RESERVED));
    pthread_mutex_unlock(&process.lock);
    return known && at;
}

CUresult copy_bytes(uint64_t to, uint64_t from, uint64_t bytes)
{
    if (!bytes)
        return CUDA_SUCCESS;
    if (!memory_known(to, bytes) || !memory_known(from, bytes))
        return CUDA_ERROR_INVALID_VALUE;
    if (!content_there(from, bytes) && !content_there(to, bytes))
        return CUDA_SUCCESS;
    if (content_comes(to, bytes))
        memmove((void *)(uintptr_t)to, (const void *)(uintptr_t)from, bytes);
    return CUDA_SUCCESS;
}

static CUresult set_bytes(uint64_t to, uint32_t value, unsigned width, uint64_t count)
{
    uint64_t bytes = count * width;
    if (!bytes)
        return CUDA_SUCCESS;
    if (to % width)
        return CUDA_ERROR_INVALID_VALUE;
    if (!memory_known(to, bytes))
        return CUDA_ERROR_INVALID_VALUE;
    if (!value && !content_there(to, bytes))
        return CUDA_SUCCESS;
    if (!content_comes(to, bytes))
        return CUDA_SUCCESS;
    char *at = (char *)(uintptr_t)to;
    if (width == 1 || !value)
        memset(at, (int)(value & 0xff), bytes);
    else
        for (uint64_t i = 0; i < count; i++)
            memcpy(at + i * width, &value, width);
    return CUDA_SUCCESS;
}

/* ---- plain blocks ---------------------------------------------------------------------------------------------------- */

CUresult sim_cuMemGetInfo_v2(size_t *free_bytes, size_t *total)
{
    NEED_CONTEXT(c);
    if (!free_bytes || !total)
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_state *s = process.state;
    if (atomic_load_explicit(&s->drivers, memory_order_relaxed) > 1)
        state_reap(s, process.slot, 100000000);
    struct sim_device *d = device_at(memory_owner(s, c->device));
    uint64_t used = atomic_load_explicit(&d->used, memory_order_relaxed);
    *total = d->total;
    *free_bytes = used < d->total ? d->total - used : 0;
    return CUDA_SUCCESS;
}

CUresult sim_cuMemAlloc_v2(CUdeviceptr *dptr, size_t bytesize)
{
    NEED_CONTEXT(c);
    if (!dptr || !bytesize)
        return CUDA_ERROR_INVALID_VALUE;
    CUdeviceptr at = heap_alloc(c->heap, bytesize);
    if (!at)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *dptr = at;
    return CUDA_SUCCESS;
}

CUresult sim_cuMemAllocPitch_v2(CUdeviceptr *dptr, size_t *pPitch, size_t WidthInBytes, size_t Height, unsigned int ElementSizeBytes)
{
    NEED_CONTEXT(c);
    if (!dptr || !pPitch || !WidthInBytes || !Height || (ElementSizeBytes != 4 && ElementSizeBytes != 8 && ElementSizeBytes != 16))
        return CUDA_ERROR_INVALID_VALUE;
    size_t pitch = (WidthInBytes + 511) & ~(size_t)511;
    CUdeviceptr at = heap_alloc(c->heap, pitch * Height);
    if (!at)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *dptr = at;
    *pPitch = pitch;
    return CUDA_SUCCESS;
}

static struct heap *managed_heap(struct context *c)
{
    static struct heap *of[SIM_DEVICES];
    pthread_mutex_lock(&process.lock);
    struct heap **h = &of[c->device];
    if (!*h && (*h = heap_new(c->device, KIND_BLOCK, NULL, NULL)))
        (*h)->managed = 1;
    pthread_mutex_unlock(&process.lock);
    return *h;
}

CUresult sim_cuMemAllocManaged(CUdeviceptr *dptr, size_t bytesize, unsigned int flags)
{
    NEED_CONTEXT(c);
    if (!dptr || !bytesize || (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST))
        return CUDA_ERROR_INVALID_VALUE;
    struct heap *h = managed_heap(c);
    CUdeviceptr at = h ? heap_alloc(h, bytesize) : 0;
    if (!at)
        return CUDA_ERROR_OUT_OF_MEMORY;
    content_comes(at, bytesize);
    *dptr = at;
    return CUDA_SUCCESS;
}

CUresult sim_cuMemFree_v2(CUdeviceptr dptr)
{
    if (!dptr)
        return CUDA_SUCCESS;
    NEED_CONTEXT(c);
    (void)c;
    CUresult status = block_free(dptr, false);
    return status;
}

CUresult sim_cuMemGetAddressRange_v2(CUdeviceptr *pbase, size_t *psize, CUdeviceptr dptr)
{
    NEED_CONTEXT(c);
    (void)c;
    struct found f;
    CUresult status = CUDA_SUCCESS;
    if (!block_find(dptr, &f)) {
        pthread_mutex_lock(&process.lock);
        struct range *r = range_find(dptr);
        if (r)
            f.base = r->base, f.bytes = r->bytes;
        else
            status = CUDA_ERROR_NOT_FOUND;
        pthread_mutex_unlock(&process.lock);
    }
    if (status == CUDA_SUCCESS && pbase)
        *pbase = f.base;
    if (status == CUDA_SUCCESS && psize)
        *psize = f.bytes;
    return status;
}

/* ---- other ranges: host memory, reserved addresses, mappings ------------------------------------------------------------ */

static struct range *ranges;
static size_t range_count, range_room;

static size_t range_place(uint64_t at)
{
    size_t low = 0, high = range_count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (ranges[middle].base <= at)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

struct range *range_find(uint64_t at)
{
    struct range *wide = NULL;
    for (size_t i = range_place(at); i-- > 0;) {
        struct range *r = &ranges[i];
        if (at < r->base + r->bytes) {
            if (r->kind != RANGE_RESERVED)
                return r;
            wide = r;
            break;
        }
        if (r->kind == RANGE_RESERVED || i + 64 < range_place(at))
            break;
    }
    return wide;
}

struct range *range_next(size_t *cursor)
{
    return *cursor < range_count ? &ranges[(*cursor)++] : NULL;
}

bool range_add(struct range one)
{
    if (range_count == range_room) {
        size_t room = range_room ? range_room * 2 : 64;
        struct range *more = realloc(ranges, room * sizeof *more);
        if (!more)
            return false;
        ranges = more;
        range_room = room;
    }
    size_t at = range_place(one.base);
    memmove(&ranges[at + 1], &ranges[at], (range_count - at) * sizeof *ranges);
    ranges[at] = one;
    range_count++;
    return true;
}

void range_remove(uint64_t base)
{
    for (size_t i = range_place(base); i-- > 0 && ranges[i].base == base;)
        if (ranges[i].base == base) {
            memmove(&ranges[i], &ranges[i + 1], (range_count - i - 1) * sizeof *ranges);
            range_count--;
            return;
        }
}

static CUresult host_alloc(void **pp, size_t bytes, unsigned flags)
{
    NEED_CONTEXT(c);
    if (!pp || !bytes)
        return CUDA_ERROR_INVALID_VALUE;
    void *at = mmap(NULL, (bytes + 4095) & ~(size_t)4095, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED)
        return CUDA_ERROR_OUT_OF_MEMORY;
    pthread_mutex_lock(&process.lock);
    bool kept = range_add((struct range){.base = (uint64_t)(uintptr_t)at, .bytes = bytes, .kind = RANGE_HOST, .flags = flags, .context = c,
                                         .device = c->device, .share = -1});
    pthread_mutex_unlock(&process.lock);
    if (!kept)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *pp = at;
    return CUDA_SUCCESS;
}

CUresult sim_cuMemAllocHost_v2(void **pp, size_t bytesize) { return host_alloc(pp, bytesize, CU_MEMHOSTALLOC_PORTABLE); }
CUresult sim_cuMemHostAlloc(void **pp, size_t bytesize, unsigned int Flags) { return host_alloc(pp, bytesize, Flags); }

CUresult sim_cuMemFreeHost(void *p)
{
    if (!p)
        return CUDA_SUCCESS;
    NEED_CONTEXT(c);
    (void)c;
    CUresult status = CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&process.lock);
    struct range *r = range_find((uint64_t)(uintptr_t)p);
    if (r && r->kind == RANGE_HOST && r->base == (uint64_t)(uintptr_t)p) {
        munmap(p, (r->bytes + 4095) & ~(size_t)4095);
        range_remove(r->base);
        status = CUDA_SUCCESS;
    }
    pthread_mutex_unlock(&process.lock);
    return status;
}

static CUresult host_register(void *p, size_t bytes, unsigned flags)
{
    NEED_CONTEXT(c);
    if (!p || !bytes)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult status = CUDA_SUCCESS;
    pthread_mutex_lock(&process.lock);
    if (range_find((uint64_t)(uintptr_t)p))
        status = CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
    else if (!range_add((struct range){.base = (uint64_t)(uintptr_t)p, .bytes = bytes, .kind = RANGE_REGISTERED, .flags = flags, .context = c,
                                       .device = c->device, .share = -1}))
        status = CUDA_ERROR_OUT_OF_MEMORY;
    pthread_mutex_unlock(&process.lock);
    return status;
}

CUresult sim_cuMemHostRegister_v2(void *p, size_t bytesize, unsigned int Flags) { return host_register(p, bytesize, Flags); }
CUresult sim_cuMemHostRegister(void *p, size_t bytesize, unsigned int Flags) { return host_register(p, bytesize, Flags); }

CUresult sim_cuMemHostUnregister(void *p)
{
    NEED_CONTEXT(c);
    (void)c;
    CUresult status = CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
    pthread_mutex_lock(&process.lock);
    struct range *r = range_find((uint64_t)(uintptr_t)p);
    if (r && r->kind == RANGE_REGISTERED && r->base == (uint64_t)(uintptr_t)p) {
        range_remove(r->base);
        status = CUDA_SUCCESS;
    }
    pthread_mutex_unlock(&process.lock);
    return status;
}

CUresult sim_cuMemHostGetDevicePointer_v2(CUdeviceptr *pdptr, void *p, unsigned int Flags)
{
    NEED_CONTEXT(c);
    (void)c;
    if (!pdptr || Flags)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&process.lock);
    struct range *r = range_find((uint64_t)(uintptr_t)p);
    bool there = r && (r->kind == RANGE_HOST || r->kind == RANGE_REGISTERED);
    pthread_mutex_unlock(&process.lock);
    *pdptr = there ? (CUdeviceptr)(uintptr_t)p : 0;
    return there ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult sim_cuMemHostGetFlags(unsigned int *pFlags, void *p)
{
    NEED_CONTEXT(c);
    (void)c;
    if (!pFlags)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&process.lock);
    struct range *r = range_find((uint64_t)(uintptr_t)p);
    bool there = r && r->kind == RANGE_HOST;
    *pFlags = there ? r->flags : 0;
    pthread_mutex_unlock(&process.lock);
    return there ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* ---- copies ---------------------------------------------------------------------------------------------------------- */

static CUresult copy_sync(uint64_t to, uint64_t from, uint64_t bytes)
{
    NEED_CONTEXT(c);
    struct stream *st;
    CUresult status = stream_resolve(NULL, &st);
    if (status != CUDA_SUCCESS)
        return status;
    ticket_wait(c, atomic_load(&st->ticket));
    return copy_bytes(to, from, bytes);
}

static CUresult copy_async(uint64_t to, uint64_t from, uint64_t bytes, CUstream hStream)
{
    NEED_CONTEXT(c);
    (void)c;
    struct stream *st;
    CUresult status = stream_resolve(hStream, &st);
    if (status != CUDA_SUCCESS)
        return status;
    if (st->capture)
        return capture_copy(st, to, from, bytes);
    return copy_bytes(to, from, bytes);
}

#define AT(p) ((uint64_t)(uintptr_t)(p))
CUresult sim_cuMemcpy(CUdeviceptr dst, CUdeviceptr src, size_t n) { return copy_sync(dst, src, n); }
CUresult sim_cuMemcpyHtoD_v2(CUdeviceptr dst, const void *src, size_t n) { return copy_sync(dst, AT(src), n); }
CUresult sim_cuMemcpyDtoH_v2(void *dst, CUdeviceptr src, size_t n) { return copy_sync(AT(dst), src, n); }
CUresult sim_cuMemcpyDtoD_v2(CUdeviceptr dst, CUdeviceptr src, size_t n) { return copy_sync(dst, src, n); }
CUresult sim_cuMemcpyAsync(CUdeviceptr dst, CUdeviceptr src, size_t n, CUstream st) { return copy_async(dst, src, n, st); }
CUresult sim_cuMemcpyHtoDAsync_v2(CUdeviceptr dst, const void *src, size_t n, CUstream st) { return copy_async(dst, AT(src), n, st); }
CUresult sim_cuMemcpyDtoHAsync_v2(void *dst, CUdeviceptr src, size_t n, CUstream st) { return copy_async(AT(dst), src, n, st); }
CUresult sim_cuMemcpyDtoDAsync_v2(CUdeviceptr dst, CUdeviceptr src, size_t n, CUstream st) { return copy_async(dst, src, n, st); }
CUresult sim_cuMemcpyPeer(CUdeviceptr dst, CUcontext dc, CUdeviceptr src, CUcontext sc, size_t n)
{
    if (!object_of(dc, OBJECT_CONTEXT) || !object_of(sc, OBJECT_CONTEXT))
        return CUDA_ERROR_INVALID_CONTEXT;
    return copy_sync(dst, src, n);
}
CUresult sim_cuMemcpyPeerAsync(CUdeviceptr dst, CUcontext dc, CUdeviceptr src, CUcontext sc, size_t n, CUstream st)
{
    if (!object_of(dc, OBJECT_CONTEXT) || !object_of(sc, OBJECT_CONTEXT))
        return CUDA_ERROR_INVALID_CONTEXT;
    return copy_async(dst, src, n, st);
}

static CUresult set_now(uint64_t to, uint32_t value, unsigned width, uint64_t count, CUstream hStream)
{
    NEED_CONTEXT(c);
    (void)c;
    struct stream *st;
    CUresult status = stream_resolve(hStream, &st);
    if (status != CUDA_SUCCESS)
        return status;
    return st->capture ? capture_set(st, to, value, width, count) : set_bytes(to, value, width, count);
}

static CUresult set_rows(uint64_t to, uint64_t pitch, uint32_t value, unsigned unit, uint64_t width, uint64_t height, CUstream st)
{
    CUresult status = CUDA_SUCCESS;
    for (uint64_t row = 0; row < height && status == CUDA_SUCCESS; row++)
        status = set_now(to + row * pitch, value, unit, width, st);
    return status;
}

CUresult sim_cuMemsetD8_v2(CUdeviceptr d, unsigned char v, size_t n) { return set_now(d, v, 1, n, NULL); }
CUresult sim_cuMemsetD16_v2(CUdeviceptr d, unsigned short v, size_t n) { return set_now(d, v, 2, n, NULL); }
CUresult sim_cuMemsetD32_v2(CUdeviceptr d, unsigned int v, size_t n) { return set_now(d, v, 4, n, NULL); }
CUresult sim_cuMemsetD8Async(CUdeviceptr d, unsigned char v, size_t n, CUstream st) { return set_now(d, v, 1, n, st); }
CUresult sim_cuMemsetD16Async(CUdeviceptr d, unsigned short v, size_t n, CUstream st) { return set_now(d, v, 2, n, st); }
CUresult sim_cuMemsetD32Async(CUdeviceptr d, unsigned int v, size_t n, CUstream st) { return set_now(d, v, 4, n, st); }
CUresult sim_cuMemsetD2D8_v2(CUdeviceptr d, size_t p, unsigned char v, size_t w, size_t h) { return set_rows(d, p, v, 1, w, h, NULL); }
CUresult sim_cuMemsetD2D16_v2(CUdeviceptr d, size_t p, unsigned short v, size_t w, size_t h) { return set_rows(d, p, v, 2, w, h, NULL); }
CUresult sim_cuMemsetD2D32_v2(CUdeviceptr d, size_t p, unsigned int v, size_t w, size_t h) { return set_rows(d, p, v, 4, w, h, NULL); }
CUresult sim_cuMemsetD2D8Async(CUdeviceptr d, size_t p, unsigned char v, size_t w, size_t h, CUstream st) { return set_rows(d, p, v, 1, w, h, st); }
CUresult sim_cuMemsetD2D16Async(CUdeviceptr d, size_t p, unsigned short v, size_t w, size_t h, CUstream st) { return set_rows(d, p, v, 2, w, h, st); }
CUresult sim_cuMemsetD2D32Async(CUdeviceptr d, size_t p, unsigned int v, size_t w, size_t h, CUstream st) { return set_rows(d, p, v, 4, w, h, st); }

/* ---- what a pointer is ------------------------------------------------------------------------------------------------ */

static uint32_t ordinal_of(uint32_t device)
{
    for (unsigned i = 0; i < process.count; i++)
        if (process.devices[i] == device)
            return i;
    return 0;
}

static CUresult describe(void *data, CUpointer_attribute attribute, CUdeviceptr ptr)
{
    struct found f = {0};
    struct range r = {0};
    bool device = block_find(ptr, &f), managed = device && f.heap->managed;
    bool other = false;
    if (!device) {
        pthread_mutex_lock(&process.lock);
        struct range *found = range_find(ptr);
        other = found && found->kind != RANGE_RESERVED;
        if (other)
            r = *found;
        pthread_mutex_unlock(&process.lock);
    }
    bool host = other && (r.kind == RANGE_HOST || r.kind == RANGE_REGISTERED);
    if (!device && !other)
        return CUDA_ERROR_INVALID_VALUE;
    uint32_t ordinal = device ? ordinal_of(f.heap->device) : ordinal_of(r.device);
    struct context *c = device ? f.heap->context : r.context;
    switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT: *(CUcontext *)data = (CUcontext)c; break;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE: *(unsigned *)data = host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE; break;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER: *(CUdeviceptr *)data = ptr; break;
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
        if (!host && !managed)
            return CUDA_ERROR_INVALID_VALUE;
        *(void **)data = (void *)(uintptr_t)ptr;
        break;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID: *(unsigned long long *)data = (device ? f.base : r.base) >> 8; break;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED: *(unsigned *)data = managed; break;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL: *(int *)data = (int)ordinal; break;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR: *(CUdeviceptr *)data = device ? f.base : r.base; break;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE: *(size_t *)data = device ? f.bytes : r.bytes; break;
    case CU_POINTER_ATTRIBUTE_MAPPED: *(unsigned *)data = 1; break;
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS: *(unsigned *)data = 0; break;
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE: *(unsigned *)data = device && !f.heap->pool && !managed; break;
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES: *(unsigned long long *)data = 0; break;
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE: *(CUmemoryPool *)data = device ? (CUmemoryPool)f.heap->pool : NULL; break;
    default: return CUDA_ERROR_NOT_SUPPORTED;
    }
    return CUDA_SUCCESS;
}

CUresult sim_cuPointerGetAttribute(void *data, CUpointer_attribute attribute, CUdeviceptr ptr)
{
    return data ? describe(data, attribute, ptr) : CUDA_ERROR_INVALID_VALUE;
}

CUresult sim_cuPointerGetAttributes(unsigned int numAttributes, CUpointer_attribute *attributes, void **data, CUdeviceptr ptr)
{
    if (!numAttributes || !attributes || !data)
        return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < numAttributes; i++)
        if (describe(data[i], attributes[i], ptr) != CUDA_SUCCESS && data[i])
            *(char *)data[i] = 0;
    return CUDA_SUCCESS;
}

CUresult sim_cuPointerSetAttribute(const void *value, CUpointer_attribute attribute, CUdeviceptr ptr)
{
    struct found f;
    if (!value || attribute != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS || !block_find(ptr, &f))
        return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
}

CUresult sim_cuMemAdvise(CUdeviceptr devPtr, size_t count, CUmem_advise advice, CUdevice device)
{
    (void)advice, (void)device;
    return memory_known(devPtr, count) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult sim_cuMemAdvise_v2(CUdeviceptr devPtr, size_t count, CUmem_advise advice, CUmemLocation location)
{
    (void)advice, (void)location;
    return memory_known(devPtr, count) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult sim_cuMemPrefetchAsync(CUdeviceptr devPtr, size_t count, CUdevice dstDevice, CUstream hStream)
{
    (void)dstDevice;
    struct stream *st;
    CUresult status = stream_resolve(hStream, &st);
    return status != CUDA_SUCCESS ? status : memory_known(devPtr, count) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult sim_cuMemPrefetchAsync_v2(CUdeviceptr devPtr, size_t count, CUmemLocation location, unsigned int flags, CUstream hStream)
{
    (void)location;
    struct stream *st;
    if (flags)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult status = stream_resolve(hStream, &st);
    return status != CUDA_SUCCESS ? status : memory_known(devPtr, count) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
