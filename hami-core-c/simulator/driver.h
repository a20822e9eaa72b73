/* The driver inside one process: objects, arenas, streams. */
#ifndef HAMI_SIM_DRIVER_H
#define HAMI_SIM_DRIVER_H

#define _GNU_SOURCE
#include <pthread.h>

#include "cuda_unit.h"
#include "state.h"

/* ---- objects: every handle is a cell of one reserved range, so that a wrong one is noticed and never followed ------- */
enum object_type {
    OBJECT_FREE, OBJECT_CONTEXT, OBJECT_STREAM, OBJECT_EVENT, OBJECT_MODULE, OBJECT_FUNCTION, OBJECT_LIBRARY, OBJECT_POOL,
    OBJECT_PHYSICAL, OBJECT_ARRAY, OBJECT_MIPMAP, OBJECT_GRAPH, OBJECT_NODE, OBJECT_EXEC, OBJECT_LINK, OBJECT_TEXTURE, OBJECT_SURFACE,
    OBJECT_USER, OBJECT_GREEN, OBJECT_EXTERNAL
};
#define OBJECT_BYTES 384u

struct object { uint32_t type; uint32_t spare; uint64_t number; };
void *object_new(enum object_type type);
void object_end(void *object);
extern char *object_base;
extern size_t object_room;
static inline void *object_of(const void *handle, enum object_type type)
{
    size_t at = (size_t)((const char *)handle - object_base);
    if (!object_base || at >= object_room || at % OBJECT_BYTES || ((const struct object *)handle)->type != (uint32_t)type)
        return NULL;
    return (void *)(uintptr_t)handle;
}
/* The next live object of a type after `from` (NULL: the first). */
void *object_after(const void *from, enum object_type type);

/* ---- memory of a device as this process sees it --------------------------------------------------------------------- */
#define SIZE_CLASSES 24
struct slab;
struct heap {                   /* who pays for granules: a context, or a pool */
    uint32_t device;            /* as the state numbers it */
    uint16_t id, managed;
    enum sim_kind kind;
    struct context *context;
    struct pool *pool;
    struct slab *open[SIZE_CLASSES], *spare[SIZE_CLASSES];  /* spare: books of a slab whose granule is given back */
    uint64_t live;              /* bytes asked for and not freed */
};

struct context {
    struct object head;
    uint32_t device, ordinal, flags, primary;
    int index;                  /* in the state */
    uint32_t retained, dead, api_version;
    struct context *whole;      /* the primary one whose memory a part of its device uses; else NULL */
    struct heap *heap, *arrays;
    struct stream *streams;     /* all of them, the legacy one first */
    struct stream *legacy;
    uint64_t limits[16], limit_bytes, module_bytes, context_bytes;
    uint32_t cache_config, shared_config;
    pthread_mutex_t lock;
};

struct stream {
    struct object head;
    struct context *context;
    struct stream *next;
    uint32_t flags;
    int32_t priority;
    _Atomic uint64_t ticket;    /* of its last work */
    uint64_t foreign_cell;
    struct graph *capture;
    uint32_t capture_mode, capture_broken, capture_own;
    uint64_t capture_id;
    struct node *frontier[4];
    uint32_t frontier_count;
    pthread_t capture_thread;
    struct stream *capture_origin;
    uint64_t attributes;
    CUaccessPolicyWindow window;
    struct callback *callbacks;
    _Atomic uint32_t callbacks_open;
};

struct event {
    struct object head;
    struct context *context;
    uint32_t flags, cell, recorded;
    uint64_t ticket;
    struct stream *captured_in;
    struct node *captured[4];
    uint32_t captured_count;
    uint64_t capture_id;
    uint32_t foreign, foreign_device;   /* opened from another process: its slot plus one, and the device */
    uint64_t foreign_started;
};

struct kernel_cost { int64_t fixed, wave; uint32_t blocks_per_sm, local_bytes; };
struct function {
    struct object head;
    struct function *next;
    struct module *module;
    char *name;
    struct kernel_cost cost;
    int attributes[16];
    uint32_t cache_config;
};
struct global { struct global *next; char *name; uint64_t bytes; CUdeviceptr at; };
struct module {
    struct object head;
    struct context *context;
    struct library *library;
    char *image;
    uint32_t open_names;        /* no list of functions could be read: any name is one */
    uint64_t image_bytes, charged;
    struct function *functions;
    struct global *globals;
};
struct library {
    struct object head;
    char *image;
    uint64_t image_bytes;
    struct module **in;         /* by device */
    struct function *kernels;
    uint32_t open_names;
};

struct pool {
    struct object head;
    uint32_t device, ordinal, exported, handle_types;      /* exported, imported: number of the shared block that stands for it, plus one */
    uint32_t imported;
    struct heap *heap;
    uint64_t threshold, reserved, reserved_high, used, used_high, granules_used, most;
    uint32_t reuse[3];
    uint32_t default_of_device;
    uint64_t access;            /* devices that may, one bit each; the lowest bit pair: read-write */
    pthread_mutex_t lock;
};

struct physical {
    struct object head;
    uint32_t device;
    uint64_t bytes;
    _Atomic uint32_t references;    /* handles and mappings */
    int share;                  /* index of the shared block, or -1 */
    uint32_t host;              /* lies in the host's memory: costs the device nothing */
    uint64_t content;           /* where its content lies in the file of shared content */
    CUmemAllocationProp prop;
};

struct process {
    struct sim_state *state;
    int slot;
    unsigned count;
    uint32_t devices[SIM_DEVICES];
    struct context *primary[SIM_DEVICES];
    struct pool *default_pool[SIM_DEVICES], *current_pool[SIM_DEVICES];
    char tag[SIM_TEXT];
    pthread_mutex_t lock;       /* of all objects but streams' tickets and heaps */
    int log;
};
extern struct process process;

static inline struct sim_device *device_at(uint32_t device)
{
    return &process.state->devices[device];
}

/* ---- core ------------------------------------------------------------------------------------------------------------ */
struct context *current_context(void);
/* One who held physical memory does so no longer. */
void physical_leave(struct physical *p);
/* What is bound to multicast memory that ends is let go. */
void multicast_end(struct physical *whole);
/* A context of part of a device: the primary one is kept for it and holds its memory. */
CUresult context_part(CUcontext *out, CUdevice dev);
void context_part_end(CUcontext part);
#define NEED_CONTEXT(c)                                                          \
    struct context *c = current_context();                                       \
    if (!SIM_LIKELY(c != NULL))                                                  \
        return CUDA_ERROR_INVALID_CONTEXT;                                       \
    if (!SIM_LIKELY(!atomic_load_explicit(&device_at(c->device)->lost, memory_order_relaxed))) \
        return CUDA_ERROR_DEVICE_UNAVAILABLE
bool ordinal_known(CUdevice ordinal);
CUresult context_reset(struct context *c);
void note(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* ---- memory ------------------------------------------------------------------------------------------------------------ */
struct heap *heap_new(uint32_t device, enum sim_kind kind, struct context *c, struct pool *p);
CUdeviceptr heap_alloc(struct heap *h, uint64_t bytes);
void heap_end(struct heap *h);
struct found { struct heap *heap; CUdeviceptr base; uint64_t bytes; };
bool block_find(CUdeviceptr at, struct found *out);
CUresult block_free(CUdeviceptr at, bool stream_ordered);
bool pool_take_granules(struct pool *p, uint64_t bytes);
void pool_leave_granules(struct pool *p, uint64_t bytes);
void pool_give_away(struct pool *p, uint64_t bytes);
struct pool *pool_make(uint32_t ordinal);
/* Turn the granules of a block into a block that other processes may hold. The shared number, or -1. */
int block_share(CUdeviceptr at, bool of_pool, CUdeviceptr *base, uint64_t *bytes);
/* Unmap what a pool of another process handed over; false: it is none of those. */
bool imported_free(CUdeviceptr at);
bool share_hold_here(uint32_t share, uint64_t generation);
void share_leave_here(uint32_t share);
uint64_t content_take(uint64_t bytes);
void content_leave(uint64_t at, uint64_t bytes);
void pool_settle(uint32_t device);      /* after a synchronisation: give back what is above the thresholds */

enum range_kind { RANGE_HOST, RANGE_REGISTERED, RANGE_RESERVED, RANGE_MAPPED, RANGE_IPC, RANGE_GRAPH, RANGE_IMPORTED };
struct range {
    uint64_t base, bytes;
    enum range_kind kind;
    uint32_t flags, device;
    struct physical *physical;
    struct context *context;
    uint64_t offset;
    uint32_t access;
    int share;
};
struct range *range_find(uint64_t at);          /* under process.lock */
bool range_add(struct range one);
void range_remove(uint64_t base);
struct range *range_next(size_t *cursor);
CUresult copy_bytes(uint64_t to, uint64_t from, uint64_t bytes);
bool memory_known(uint64_t at, uint64_t bytes);

/* ---- streams ----------------------------------------------------------------------------------------------------------- */
CUresult stream_resolve(CUstream handle, struct stream **out);
struct stream *stream_new(struct context *c, uint32_t flags, int32_t priority);
CUresult stream_push(struct stream *st, int64_t work, uint32_t count, uint32_t cell, uint64_t *ticket);
void ticket_wait(struct context *c, uint64_t ticket);
bool ticket_done(struct context *c, uint64_t ticket);
bool event_reached(const struct event *e);
void event_wait(const struct event *e);
CUresult context_wait(struct context *c);
int64_t work_of(struct context *c, struct stream *st, const struct kernel_cost *cost, uint64_t blocks);
bool any_global_capture(void);
bool graph_free(CUdeviceptr at);         /* memory of a graph that is freed outside of it */

/* ---- graphs ------------------------------------------------------------------------------------------------------------ */
enum node_extra { NODE_PLAIN };
struct node *capture_node(struct stream *st, CUgraphNodeType type);
CUresult capture_kernel(struct stream *st, struct function *f, const CUDA_KERNEL_NODE_PARAMS *params);
CUresult capture_copy(struct stream *st, uint64_t to, uint64_t from, uint64_t bytes);
CUresult capture_set(struct stream *st, uint64_t to, unsigned value, unsigned width, uint64_t count);
CUresult capture_host(struct stream *st, CUhostFn fn, void *data);
CUresult capture_alloc(struct stream *st, struct pool *p, uint64_t bytes, CUdeviceptr *out);
CUresult capture_free(struct stream *st, CUdeviceptr at);
CUresult capture_event(struct stream *st, struct event *e);
CUresult capture_wait(struct stream *st, struct event *e);

struct function *function_of(CUfunction handle);

#endif
