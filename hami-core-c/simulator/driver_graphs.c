/* Graphs: built by hand or by capturing streams, instantiated, launched as one entry of the queue. */
#include "driver.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

struct node {
    struct object head;
    struct graph *graph;
    struct node *next;
    CUgraphNodeType type;
    struct node **needs;
    uint32_t need_count, mark;
    struct node *copy;          /* of a clone: what it is a copy of, or while cloning: the copy */
    struct node *original;
    struct function *function;
    CUDA_KERNEL_NODE_PARAMS kernel;
    uint64_t to, from, bytes;
    unsigned value, width;
    CUhostFn host;
    void *data;
    struct graph *child;
    struct event *event;
    uint32_t disabled, graph_memory;
    struct pool *pool;
    void *params;               /* what the caller described, for whoever asks back */
};

struct graph {
    struct object head;
    struct node *nodes, *last;
    uint32_t count;
    struct context *context;
};

struct exec {
    struct object head;
    struct graph *graph;        /* a copy of its own */
    struct context *context;
    unsigned long long flags;
    uint64_t ticket;
};

_Static_assert(sizeof(struct node) <= OBJECT_BYTES, "node");
_Static_assert(sizeof(struct graph) <= OBJECT_BYTES, "graph");
_Static_assert(sizeof(struct exec) <= OBJECT_BYTES, "exec");

static _Atomic uint32_t global_captures, thread_captures;
static __thread CUstreamCaptureMode thread_mode __attribute__((tls_model("initial-exec"))) = CU_STREAM_CAPTURE_MODE_GLOBAL;
static __thread uint32_t local_captures __attribute__((tls_model("initial-exec")));
static uint64_t capture_number;

/* Whether a question of this thread would disturb a capture. */
bool any_global_capture(void)
{
    if (SIM_LIKELY(!atomic_load_explicit(&global_captures, memory_order_relaxed) && !local_captures))
        return false;
    if (thread_mode == CU_STREAM_CAPTURE_MODE_RELAXED)
        return false;
    if (thread_mode == CU_STREAM_CAPTURE_MODE_THREAD_LOCAL)
        return local_captures != 0;
    return true;
}

CUresult sim_cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode)
{
    if (!mode || (unsigned)*mode > CU_STREAM_CAPTURE_MODE_RELAXED)
        return CUDA_ERROR_INVALID_VALUE;
    CUstreamCaptureMode before = thread_mode;
    thread_mode = *mode;
    *mode = before;
    return CUDA_SUCCESS;
}

/* ---- building ----------------------------------------------------------------------------------------------------------- */

static struct graph *graph_new(void)
{
    struct graph *g = object_new(OBJECT_GRAPH);
    if (g)
        g->context = current_context();
    return g;
}

static struct node *node_new(struct graph *g, CUgraphNodeType type, struct node *const *needs, size_t count)
{
    struct node *n = object_new(OBJECT_NODE);
    if (!n)
        return NULL;
    n->graph = g;
    n->type = type;
    if (count) {
        n->needs = malloc(count * sizeof *n->needs);
        if (!n->needs) {
            object_end(n);
            return NULL;
        }
        memcpy(n->needs, needs, count * sizeof *n->needs);
        n->need_count = (uint32_t)count;
    }
    if (g->last)
        g->last->next = n;
    else
        g->nodes = n;
    g->last = n;
    g->count++;
    return n;
}

static void node_end(struct node *n)
{
    free(n->needs);
    free(n->params);
    object_end(n);
}

static void graph_end(struct graph *g)
{
    for (struct node *n = g->nodes, *next; n; n = next) {
        next = n->next;
        if (n->child)
            graph_end(n->child);
        node_end(n);
    }
    object_end(g);
}

static struct graph *graph_copy(const struct graph *from)
{
    struct graph *g = graph_new();
    if (!g)
        return NULL;
    g->context = from->context;
    for (struct node *n = from->nodes; n; n = n->next) {
        struct node *c = node_new(g, n->type, NULL, 0);
        if (!c)
            return g;
        struct object head = c->head;
        struct node *next = c->next;
        *c = *n;
        c->head = head;
        c->next = next;
        c->graph = g;
        c->original = n;
        c->params = NULL;
        c->needs = n->need_count ? malloc(n->need_count * sizeof *c->needs) : NULL;
        for (uint32_t i = 0; c->needs && i < n->need_count; i++)
            c->needs[i] = n->needs[i]->copy;
        c->child = n->child ? graph_copy(n->child) : NULL;
        n->copy = c;
    }
    return g;
}

static CUresult add(CUgraphNode *out, CUgraph hGraph, const CUgraphNode *needs, size_t count, CUgraphNodeType type, struct node **made)
{
    struct graph *g = object_of(hGraph, OBJECT_GRAPH);
    if (!g || (count && !needs))
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count; i++) {
        struct node *n = object_of(needs[i], OBJECT_NODE);
        if (!n || n->graph != g)
            return CUDA_ERROR_INVALID_VALUE;
    }
    *made = node_new(g, type, (struct node *const *)needs, count);
    if (!*made)
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (out)
        *out = (CUgraphNode)*made;
    return CUDA_SUCCESS;
}

CUresult sim_cuGraphCreate(CUgraph *phGraph, unsigned int flags)
{
    if (!phGraph || flags)
        return CUDA_ERROR_INVALID_VALUE;
    *phGraph = (CUgraph)graph_new();
    return *phGraph ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult sim_cuGraphDestroy(CUgraph hGraph)
{
    struct graph *g = object_of(hGraph, OBJECT_GRAPH);
    if (!g)
        return CUDA_ERROR_INVALID_VALUE;
    graph_end(g);
    return CUDA_SUCCESS;
}

CUresult sim_cuGraphClone(CUgraph *phGraphClone, CUgraph originalGraph)
{
    struct graph *g = object_of(originalGraph, OBJECT_GRAPH);
    if (!g || !phGraphClone)
        return CUDA_ERROR_INVALID_VALUE;
    for (struct node *n = g->nodes; n; n = n->next)
        if (n->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC || n->type == CU_GRAPH_NODE_TYPE_MEM_FREE)
            return CUDA_ERROR_NOT_SUPPORTED;
    *phGraphClone = (CUgraph)graph_copy(g);
    return *phGraphClone ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult sim_cuGraphNodeFindInClone(CUgraphNode *phNode, CUgraphNode hOriginalNode, CUgraph hClonedGraph)
{
    struct graph *g = object_of(hClonedGraph, OBJECT_GRAPH);
    if (!g || !phNode)
        return CUDA_ERROR_INVALID_VALUE;
    for (struct node *n = g->nodes; n; n = n->next)
        if (n->original == (struct node *)hOriginalNode) {
            *phNode = (CUgraphNode)n;
            return CUDA_SUCCESS;
        }
    return CUDA_ERROR_INVALID_VALUE;
}

static CUresult set_kernel(struct node *n, const CUDA_KERNEL_NODE_PARAMS *p)
{
    if (!p)
        return CUDA_ERROR_INVALID_VALUE;
    struct function *f = function_of(p->func ? p->func : (CUfunction)p->kern);
    if (!f || !p->gridDimX || !p->gridDimY || !p->gridDimZ || !p->blockDimX)
        return CUDA_ERROR_INVALID_VALUE;
    n->kernel = *p;
    n->function = f;
    return CUDA_SUCCESS;
}

CUresult sim_cuGraphAddKernelNode_v2(CUgraphNode *out, CUgraph g, const CUgraphNode *needs, size_t count, const CUDA_KERNEL_NODE_PARAMS *params)
{
    struct node probe = {0}, *n;
    CUresult status = set_kernel(&probe, params);
    if (status == CUDA_SUCCESS)
        status = add(out, g, needs, count, CU_GRAPH_NODE_TYPE_KERNEL, &n);
    return status == CUDA_SUCCESS ? set_kernel(n, params) : status;
}

static CUDA_KERNEL_NODE_PARAMS widened(const CUDA_KERNEL_NODE_PARAMS_v1 *p)
{
    return (CUDA_KERNEL_NODE_PARAMS){.func = p->func, .gridDimX = p->gridDimX, .gridDimY = p->gridDimY, .gridDimZ = p->gridDimZ,
                                     .blockDimX = p->blockDimX, .blockDimY = p->blockDimY, .blockDimZ = p->blockDimZ,
                                     .sharedMemBytes = p->sharedMemBytes, .kernelParams = p->kernelParams, .extra = p->extra};
}

CUresult sim_cuGraphAddKernelNode(CUgraphNode *out, CUgraph g, const CUgraphNode *needs, size_t count, const CUDA_KERNEL_NODE_PARAMS_v1 *params)
{
    if (!params)
        return CUDA_ERROR_INVALID_VALUE;
    CUDA_KERNEL_NODE_PARAMS wide = widened(params);
    return sim_cuGraphAddKernelNode_v2(out, g, needs, count, &wide);
}

#define NEED_NODE(n, wanted)                                  \
    struct node *n = object_of(hNode, OBJECT_NODE);           \
    if (!n || n->type != (wanted))                            \
    return CUDA_ERROR_INVALID_VALUE

CUresult sim_cuGraphKernelNodeGetParams_v2(CUgraphNode hNode, CUDA_KERNEL_NODE_PARAMS *params)
{
    NEED_NODE(n, CU_GRAPH_NODE_TYPE_KERNEL);
    if (!params)
        return CUDA_ERROR_INVALID_VALUE;
    *params = n->kernel;
    return CUDA_SUCCESS;
}

CUresult sim_cuGraphKernelNodeGetParams(CUgraphNode hNode, CUDA_KERNEL_NODE_PARAMS_v1 *params)
{
    NEED_NODE(n, CU_GRAPH_NODE_TYPE_KERNEL);
    if (!params)
        return CUDA_ERROR_INVALID_VALUE;
    memcpy(params, &n->kernel, sizeof *params);
    return CUDA_SUCCESS;
}

CUresult sim_cuGraphKernelNodeSetParams_v2(CUgraphNode hNode, const CUDA_KERNEL_NODE_PARAMS *params)
{
    NEED_NODE(n, CU_GRAPH_NODE_TYPE_KERNEL);
    return set_kernel(n, params);
}

CUresult sim_cuGraphKernelNodeSetParams(CUgraphNode hNode, const CUDA_KERNEL_NODE_PARAMS_v1 *params)
{
    NEED_NODE(n, CU_GRAPH_NODE_TYPE_KERNEL);
    if (!params)
        return CUDA_ERROR_INVALID_VALUE;
    CUDA_KERNEL_NODE_PARAMS wide = widened(params);
    return set_kernel(n, &wide);
}

static void set_memset(struct node *n, const CUDA_MEMSET_NODE_PARAMS_v1 *p)
{
    n->to = p->dst;
    n->value = p->value;
    n->width = p->elementSize;
    n->bytes = p->width * (p->height ? p->height : 1);
    free(n->params);
    n->params = malloc(sizeof *p);
    if (n->params)
        memcpy(n->params, p, sizeof *p);
}

CUresult sim_cuGraphAddMemsetNode(CUgraphNode *out, CUgraph g, const CUgraphNode *needs, size_t count, const CUDA_MEMSET_NODE_PARAMS_v1 *params, CUcontext ctx)
{
    struct node *n;
    (void)ctx;
    if (!params || (params->elementSize != 1 && params->elementSize != 2 && params->elementSize != 4))
        return CUDA_ERROR_INVALID_VALUE;
    CUresult status = add(out, g, needs, count, CU_GRAPH_NODE_TYPE_MEMSET, &n);
    if (status == CUDA_SUCCESS)
        set_memset(n, params);
    return status;
}

CUresult sim_cuGraphMemsetNodeGetParams(CUgraphNode hNode, CUDA_MEMSET_NODE_PARAMS_v1 *params)
{
    NEED_NODE(n, CU_GRAPH_NODE_TYPE_MEMSET);
    if (!params || !n->params)
        return CUDA_ERROR_INVALID_VALUE;
    memcpy(params, n->params, sizeof *params);
    return CUDA_SUCCESS;
}

CUresult sim_cuGraphMemsetNodeSetParams(CUgraphNode hNode, const CUDA_MEMSET_NODE_PARAMS_v1 *params)
{
    NEED_NODE(n, CU_GRAPH_NODE_TYPE_MEMSET);
    if (!params)
        return CUDA_ERROR_INVALID_VALUE;
    set_memset(n, params);
    return CUDA_SUCCESS;
}

static uint64_t end_of_copy(CUmemorytype type, CUdeviceptr device, const void *host)
{
    return type == CU_MEMORYTYPE_HOST ? (uint64_t)(uintptr_t)host : device;
}

static void set_memcpy(struct node *n, const CUDA_MEMCPY3D *p)
{
    n->to = end_of_copy(p->dstMemoryType, p->dstDevice, p->dstHost) + p->dstXInBytes;
    n->from = end_of_copy(p->srcMemoryType, p->srcDevice, p->srcHost) + p->srcXInBytes;
    n->bytes = p->WidthInBytes * (p->Height ? p->Height : 1) * (p->Depth ? p->Depth : 1);
    free(n->params);
    n->params = malloc(sizeof *p);
    if (n->params)
        memcpy(n->params, p, sizeof *p);
}

CUresult sim_cuGraphAddMemcpyNode(CUgraphNode *out, CUgraph g, const CUgraphNode *needs, size_t count, const CUDA_MEMCPY3D *copyParams, CUcontext ctx)
{
    struct node *n;
    (void)ctx;
    if (!copyParams)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult status = add(out, g, needs, count, CU_GRAPH_NODE_TYPE_MEMCPY, &n);
    if (status == CUDA_SUCCESS)
        set_memcpy(n, copyParams);
    return status;
}

CUresult sim_cuGraphMemcpyNodeGetParams(CUgraphNode hNode, CUDA_MEMCPY3D *params)
{
    NEED_NODE(n, CU_GRAPH_NODE_TYPE_MEMCPY);
    if (!params || !n->params)
        return CUDA_ERROR_INVALID_VALUE;
    memcpy(params, n->params, sizeof *params);
    return CUDA_SUCCESS;
}

CUresult sim_cuGraphMemcpyNodeSetParams(CUgraphNode hNode, const CUDA_MEMCPY3D *params)
{
    NEED_NODE(n, CU_GRAPH_NODE_TYPE_MEMCPY);
    if (!params)
        return CUDA_ERROR_INVALID_VALUE;
    set_memcpy(n, params);
    return CUDA_SUCCESS;
}

CUresult sim_cuGraphAddHostNode(CUgraphNode *out, CUgraph g, const CUgraphNode *needs, size_t count, const CUDA_HOST_NODE_PARAMS_v1 *params)
{
    struct node *n;
    if (!params || !params->fn)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult status = add(out, g, needs, count, CU_GRAPH_NODE_TYPE_HOST, &n);
    if (status == CUDA_SUCCESS) {
        n->host = params->fn;
        n->data = params->userData;
    }
    return status;
}

CUresult sim_cuGraphHostNodeGetParams(CUgraphNode hNode, CUDA_HOST_NODE_PARAMS_v1 *params)
{
    NEED_NODE(n, CU_GRAPH_NODE_TYPE_HOST);
    if (!params)
        return CUDA_ERROR_INVALID_VALUE;
    *params = (CUDA_HOST_NODE_PARAMS_v1){.fn = n->host, .userData = n->data};
    return CUDA_SUCCESS;
}

CUresult sim_cuGraphHostNodeSetParams(CUgraphNode hNode, const CUDA_HOST_NODE_PARAMS_v1 *params)
{
    NEED_NODE(n, CU_GRAPH_NODE_TYPE_HOST);
    if (!params || !params->fn)
        return CUDA_ERROR_INVALID_VALUE;
    n->host = params->fn;
    n->data = params->userData;
    return CUDA_SUCCESS;
}

CUresult sim_cuGraphAddChildGraphNode(CUgraphNode *out, CUgraph g, const CUgraphNode *needs, size_t count, CUgraph childGraph)
{
    struct graph *child = object_of(childGraph, OBJECT_GRAPH);
    struct node *n;
    if (!child)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult status = add(out, g, needs, count, CU_GRAPH_NODE_TYPE_GRAPH, &n);
    if (status == CUDA_SUCCESS)
        n->child = graph_copy(child);
    return status;
}

CUresult sim_cuGraphChildGraphNodeGetGraph(CUgraphNode hNode, CUgraph *phGraph)
{
    NEED_NODE(n, CU_GRAPH_NODE_TYPE_GRAPH);
    if (!phGraph)
        return CUDA_ERROR_INVALID_VALUE;
    *phGraph = (CUgraph)n->child;
    return CUDA_SUCCESS;
}

CUresult sim_cuGraphAddEmptyNode(CUgraphNode *out, CUgraph g, const CUgraphNode *needs, size_t count)
{
    struct node *n;
    return add(out, g, needs, count, CU_GRAPH_NODE_TYPE_EMPTY, &n);
}

static CUresult add_event(CUgraphNode *out, CUgraph g, const CUgraphNode *needs, size_t count, CUevent event, CUgraphNodeType type)
{
    struct event *e = object_of(event, OBJECT_EVENT);
    struct node *n;
    if (!e)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult status = add(out, g, needs, count, type, &n);
    if (status == CUDA_SUCCESS)
        n->event = e;
    return status;
}

CUresult sim_cuGraphAddEventRecordNode(CUgraphNode *out, CUgraph g, const CUgraphNode *needs, size_t count, CUevent event)
{
    return add_event(out, g, needs, count, event, CU_GRAPH_NODE_TYPE_EVENT_RECORD);
}
CUresult sim_cuGraphAddEventWaitNode(CUgraphNode *out, CUgraph g, const CUgraphNode *needs, size_t count, CUevent event)
{
    return add_event(out, g, needs, count, event, CU_GRAPH_NODE_TYPE_WAIT_EVENT);
}
CUresult sim_cuGraphEventRecordNodeGetEvent(CUgraphNode hNode, CUevent *event_out)
{
    NEED_NODE(n, CU_GRAPH_NODE_TYPE_EVENT_RECORD);
    *event_out = (CUevent)n->event;
    return CUDA_SUCCESS;
}
CUresult sim_cuGraphEventWaitNodeGetEvent(CUgraphNode hNode, CUevent *event_out)
{
    NEED_NODE(n, CU_GRAPH_NODE_TYPE_WAIT_EVENT);
    *event_out = (CUevent)n->event;
    return CUDA_SUCCESS;
}

/* ---- memory nodes: an address is given when the node is made, memory behind it at the first launch ------------------------ */

struct graph_block { struct graph_block *next; CUdeviceptr at; uint64_t bytes; uint32_t device; bool backed; };
static struct graph_block *graph_blocks;
static struct { uint64_t used, used_high, reserved, reserved_high; } graph_memory[SIM_DEVICES];
static pthread_mutex_t graph_memory_lock = PTHREAD_MUTEX_INITIALIZER;

static CUdeviceptr graph_address(uint32_t device, uint64_t bytes)
{
    struct graph_block *b = calloc(1, sizeof *b);
    uint64_t whole = granules(bytes);
    void *there = mmap(NULL, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    CUdeviceptr at = (CUdeviceptr)(uintptr_t)there;
    pthread_mutex_lock(&process.lock);
    bool kept = b && there != MAP_FAILED && range_add((struct range){.base = at, .bytes = whole, .kind = RANGE_GRAPH, .device = device, .share = -1});
    pthread_mutex_unlock(&process.lock);
    if (!kept) {
        free(b);
        return 0;
    }
    pthread_mutex_lock(&graph_memory_lock);
    *b = (struct graph_block){.next = graph_blocks, .at = at, .bytes = whole, .device = device};
    graph_blocks = b;
    pthread_mutex_unlock(&graph_memory_lock);
    return at;
}

static struct graph_block *graph_block_of(CUdeviceptr at)
{
    struct graph_block *b = graph_blocks;
    while (b && b->at != at)
        b = b->next;
    return b;
}

/* Back an address; memory that the device keeps for graphs is taken first. */
static bool graph_back(CUdeviceptr at)
{
    bool got = true;
    pthread_mutex_lock(&graph_memory_lock);
    struct graph_block *b = graph_block_of(at);
    if (b && !b->backed) {
        uint64_t wanted = graph_memory[b->device].used + b->bytes, have = graph_memory[b->device].reserved;
        if (wanted > have)
            got = memory_charge(process.state, process.slot, b->device, KIND_POOL, wanted - have);
        if (got) {
            b->backed = true;
            graph_memory[b->device].used = wanted;
            if (wanted > have)
                graph_memory[b->device].reserved = wanted;
            if (graph_memory[b->device].used > graph_memory[b->device].used_high)
                graph_memory[b->device].used_high = graph_memory[b->device].used;
            if (graph_memory[b->device].reserved > graph_memory[b->device].reserved_high)
                graph_memory[b->device].reserved_high = graph_memory[b->device].reserved;
        }
    }
    pthread_mutex_unlock(&graph_memory_lock);
    return got;
}

static bool graph_unback(CUdeviceptr at)
{
    pthread_mutex_lock(&graph_memory_lock);
    struct graph_block *b = graph_block_of(at);
    if (b && b->backed) {
        b->backed = false;
        graph_memory[b->device].used -= b->bytes;
    }
    pthread_mutex_unlock(&graph_memory_lock);
    return b != NULL;
}

bool graph_free(CUdeviceptr at)
{
    return graph_unback(at);
}

CUresult sim_cuDeviceGetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attr, void *value)
{
    if (!ordinal_known(device))
        return CUDA_ERROR_INVALID_DEVICE;
    uint32_t d = process.devices[device];
    if (!value)
        return CUDA_ERROR_INVALID_VALUE;
    switch (attr) {
    case CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT: *(cuuint64_t *)value = graph_memory[d].used; break;
    case CU_GRAPH_MEM_ATTR_USED_MEM_HIGH: *(cuuint64_t *)value = graph_memory[d].used_high; break;
    case CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT: *(cuuint64_t *)value = graph_memory[d].reserved; break;
    case CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH: *(cuuint64_t *)value = graph_memory[d].reserved_high; break;
    default: return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}

CUresult sim_cuDeviceSetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attr, void *value)
{
    if (!ordinal_known(device))
        return CUDA_ERROR_INVALID_DEVICE;
    uint32_t d = process.devices[device];
    if (!value || *(cuuint64_t *)value)
        return CUDA_ERROR_INVALID_VALUE;
    if (attr == CU_GRAPH_MEM_ATTR_USED_MEM_HIGH)
        graph_memory[d].used_high = graph_memory[d].used;
    else if (attr == CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH)
        graph_memory[d].reserved_high = graph_memory[d].reserved;
    else
        return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
}

CUresult sim_cuDeviceGraphMemTrim(CUdevice device)
{
    if (!ordinal_known(device))
        return CUDA_ERROR_INVALID_DEVICE;
    uint32_t d = process.devices[device];
    pthread_mutex_lock(&graph_memory_lock);
    uint64_t spare = graph_memory[d].reserved - graph_memory[d].used;
    if (spare)
        memory_return(process.state, process.slot, d, KIND_POOL, spare);
    graph_memory[d].reserved -= spare;
    pthread_mutex_unlock(&graph_memory_lock);
    return CUDA_SUCCESS;
}

CUresult sim_cuGraphAddMemAllocNode(CUgraphNode *out, CUgraph g, const CUgraphNode *needs, size_t count, CUDA_MEM_ALLOC_NODE_PARAMS_v1 *params)
{
    struct node *n;
    if (!params || !params->bytesize || params->poolProps.location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
        !ordinal_known(params->poolProps.location.id))
        return CUDA_ERROR_INVALID_VALUE;
    CUdeviceptr at = graph_address(process.devices[params->poolProps.location.id], params->bytesize);
    if (!at)
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult status = add(out, g, needs, count, CU_GRAPH_NODE_TYPE_MEM_ALLOC, &n);
    if (status != CUDA_SUCCESS)
        return status;
    params->dptr = at;
    n->to = at;
    n->bytes = params->bytesize;
    n->params = malloc(sizeof *params);
    if (n->params)
        memcpy(n->params, params, sizeof *params);
    return CUDA_SUCCESS;
}

CUresult sim_cuGraphMemAllocNodeGetParams(CUgraphNode hNode, CUDA_MEM_ALLOC_NODE_PARAMS_v1 *params)
{
    NEED_NODE(n, CU_GRAPH_NODE_TYPE_MEM_ALLOC);
    if (!params || !n->params)
        return CUDA_ERROR_INVALID_VALUE;
    memcpy(params, n->params, sizeof *params);
    return CUDA_SUCCESS;
}

CUresult sim_cuGraphAddMemFreeNode(CUgraphNode *out, CUgraph g, const CUgraphNode *needs, size_t count, CUdeviceptr dptr)
{
    struct node *n;
    CUresult status = add(out, g, needs, count, CU_GRAPH_NODE_TYPE_MEM_FREE, &n);
    if (status == CUDA_SUCCESS)
        n->to = dptr;
    return status;
}

CUresult sim_cuGraphMemFreeNodeGetParams(CUgraphNode hNode, CUdeviceptr *dptr_out)
{
    NEED_NODE(n, CU_GRAPH_NODE_TYPE_MEM_FREE);
    *dptr_out = n->to;
    return CUDA_SUCCESS;
}

/* ---- the general way to add a node ------------------------------------------------------------------------------------------ */

static CUresult add_any(CUgraphNode *out, CUgraph g, const CUgraphNode *needs, size_t count, CUgraphNodeParams *p)
{
    if (!p)
        return CUDA_ERROR_INVALID_VALUE;
    switch (p->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL: {
        CUDA_KERNEL_NODE_PARAMS k = {.func = p->kernel.func, .kern = p->kernel.kern, .gridDimX = p->kernel.gridDimX, .gridDimY = p->kernel.gridDimY,
                                     .gridDimZ = p->kernel.gridDimZ, .blockDimX = p->kernel.blockDimX, .blockDimY = p->kernel.blockDimY,
                                     .blockDimZ = p->kernel.blockDimZ, .sharedMemBytes = p->kernel.sharedMemBytes,
                                     .kernelParams = p->kernel.kernelParams, .extra = p->kernel.extra, .ctx = p->kernel.ctx};
        return sim_cuGraphAddKernelNode_v2(out, g, needs, count, &k);
    }
    case CU_GRAPH_NODE_TYPE_MEMCPY: return sim_cuGraphAddMemcpyNode(out, g, needs, count, &p->memcpy.copyParams, p->memcpy.copyCtx);
    case CU_GRAPH_NODE_TYPE_MEMSET: {
        CUDA_MEMSET_NODE_PARAMS_v1 m = {p->memset.dst, p->memset.pitch, p->memset.value, p->memset.elementSize, p->memset.width, p->memset.height};
        return sim_cuGraphAddMemsetNode(out, g, needs, count, &m, p->memset.ctx);
    }
    case CU_GRAPH_NODE_TYPE_HOST: {
        CUDA_HOST_NODE_PARAMS_v1 h = {.fn = p->host.fn, .userData = p->host.userData};
        return sim_cuGraphAddHostNode(out, g, needs, count, &h);
    }
    case CU_GRAPH_NODE_TYPE_GRAPH: return sim_cuGraphAddChildGraphNode(out, g, needs, count, p->graph.graph);
    case CU_GRAPH_NODE_TYPE_EMPTY: return sim_cuGraphAddEmptyNode(out, g, needs, count);
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD: return sim_cuGraphAddEventRecordNode(out, g, needs, count, p->eventRecord.event);
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT: return sim_cuGraphAddEventWaitNode(out, g, needs, count, p->eventWait.event);
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC: {
        CUDA_MEM_ALLOC_NODE_PARAMS_v1 a = {.poolProps = p->alloc.poolProps, .accessDescs = p->alloc.accessDescs,
                                           .accessDescCount = p->alloc.accessDescCount, .bytesize = p->alloc.bytesize};
        CUresult status = sim_cuGraphAddMemAllocNode(out, g, needs, count, &a);
        p->alloc.dptr = a.dptr;
        return status;
    }
    case CU_GRAPH_NODE_TYPE_MEM_FREE: return sim_cuGraphAddMemFreeNode(out, g, needs, count, p->free.dptr);
    default: return CUDA_ERROR_NOT_SUPPORTED;
    }
}

CUresult sim_cuGraphAddNode(CUgraphNode *out, CUgraph g, const CUgraphNode *needs, size_t count, CUgraphNodeParams *params)
{
    return add_any(out, g, needs, count, params);
}
CUresult sim_cuGraphAddNode_v2(CUgraphNode *out, CUgraph g, const CUgraphNode *needs, const CUgraphEdgeData *edges, size_t count, CUgraphNodeParams *params)
{
    (void)edges;
    return add_any(out, g, needs, count, params);
}

/* ---- asking ------------------------------------------------------------------------------------------------------------------ */

CUresult sim_cuGraphNodeGetType(CUgraphNode hNode, CUgraphNodeType *type)
{
    struct node *n = object_of(hNode, OBJECT_NODE);
    if (!n || !type)
        return CUDA_ERROR_INVALID_VALUE;
    *type = n->type;
    return CUDA_SUCCESS;
}

static CUresult nodes_out(struct graph *g, CUgraphNode *nodes, size_t *count, bool roots)
{
    if (!g || !count)
        return CUDA_ERROR_INVALID_VALUE;
    size_t n = 0, room = *count;
    for (struct node *one = g->nodes; one; one = one->next) {
        if (roots && one->need_count)
            continue;
        if (nodes && n < room)
            nodes[n] = (CUgraphNode)one;
        n++;
    }
    if (nodes)
        for (size_t i = n; i < room; i++)
            nodes[i] = NULL;
    *count = nodes && n > room ? room : n;
    return CUDA_SUCCESS;
}

CUresult sim_cuGraphGetNodes(CUgraph hGraph, CUgraphNode *nodes, size_t *numNodes) { return nodes_out(object_of(hGraph, OBJECT_GRAPH), nodes, numNodes, false); }
CUresult sim_cuGraphGetRootNodes(CUgraph hGraph, CUgraphNode *nodes, size_t *n) { return nodes_out(object_of(hGraph, OBJECT_GRAPH), nodes, n, true); }

static CUresult edges_out(CUgraph hGraph, CUgraphNode *from, CUgraphNode *to, size_t *count)
{
    struct graph *g = object_of(hGraph, OBJECT_GRAPH);
    if (!g || !count)
        return CUDA_ERROR_INVALID_VALUE;
    size_t n = 0, room = *count;
    for (struct node *one = g->nodes; one; one = one->next)
        for (uint32_t i = 0; i < one->need_count; i++, n++)
            if (from && to && n < room) {
                from[n] = (CUgraphNode)one->needs[i];
                to[n] = (CUgraphNode)one;
            }
    *count = from && n > room ? room : n;
    return CUDA_SUCCESS;
}

CUresult sim_cuGraphGetEdges(CUgraph g, CUgraphNode *from, CUgraphNode *to, size_t *n) { return edges_out(g, from, to, n); }
CUresult sim_cuGraphGetEdges_v2(CUgraph g, CUgraphNode *from, CUgraphNode *to, CUgraphEdgeData *data, size_t *n)
{
    if (data && n)
        memset(data, 0, *n * sizeof *data);
    return edges_out(g, from, to, n);
}

static CUresult needs_out(CUgraphNode hNode, CUgraphNode *out, size_t *count)
{
    struct node *n = object_of(hNode, OBJECT_NODE);
    if (!n || !count)
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; out && i < *count; i++)
        out[i] = i < n->need_count ? (CUgraphNode)n->needs[i] : NULL;
    if (!out || *count > n->need_count)
        *count = n->need_count;
    return CUDA_SUCCESS;
}

CUresult sim_cuGraphNodeGetDependencies(CUgraphNode n, CUgraphNode *out, size_t *count) { return needs_out(n, out, count); }
CUresult sim_cuGraphNodeGetDependencies_v2(CUgraphNode n, CUgraphNode *out, CUgraphEdgeData *edges, size_t *count)
{
    if (edges && count)
        memset(edges, 0, *count * sizeof *edges);
    return needs_out(n, out, count);
}

static CUresult link_nodes(CUgraph hGraph, const CUgraphNode *from, const CUgraphNode *to, size_t count)
{
    struct graph *g = object_of(hGraph, OBJECT_GRAPH);
    if (!g || (count && (!from || !to)))
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count; i++) {
        struct node *a = object_of(from[i], OBJECT_NODE), *b = object_of(to[i], OBJECT_NODE);
        if (!a || !b || a->graph != g || b->graph != g)
            return CUDA_ERROR_INVALID_VALUE;
        struct node **more = realloc(b->needs, (b->need_count + 1) * sizeof *more);
        if (!more)
            return CUDA_ERROR_OUT_OF_MEMORY;
        b->needs = more;
        b->needs[b->need_count++] = a;
    }
    return CUDA_SUCCESS;
}

CUresult sim_cuGraphAddDependencies(CUgraph g, const CUgraphNode *from, const CUgraphNode *to, size_t n) { return link_nodes(g, from, to, n); }
CUresult sim_cuGraphAddDependencies_v2(CUgraph g, const CUgraphNode *from, const CUgraphNode *to, const CUgraphEdgeData *e, size_t n)
{
    (void)e;
    return link_nodes(g, from, to, n);
}

CUresult sim_cuGraphDestroyNode(CUgraphNode hNode)
{
    struct node *n = object_of(hNode, OBJECT_NODE);
    if (!n)
        return CUDA_ERROR_INVALID_VALUE;
    struct graph *g = n->graph;
    struct node *before = NULL;
    for (struct node *one = g->nodes; one; one = one->next) {
        for (uint32_t i = 0; i < one->need_count; i++)
            if (one->needs[i] == n)
                one->needs[i--] = one->needs[--one->need_count];
        if (one->next == n)
            before = one;
    }
    if (before)
        before->next = n->next;
    else
        g->nodes = n->next;
    if (g->last == n)
        g->last = before;
    g->count--;
    node_end(n);
    return CUDA_SUCCESS;
}

/* ---- instances ------------------------------------------------------------------------------------------------------------------ */

static CUresult instantiate(CUgraphExec *out, CUgraph hGraph, unsigned long long flags)
{
    NEED_CONTEXT(c);
    struct graph *g = object_of(hGraph, OBJECT_GRAPH);
    if (!g || !out)
        return CUDA_ERROR_INVALID_VALUE;
    struct exec *e = object_new(OBJECT_EXEC);
    if (!e)
        return CUDA_ERROR_OUT_OF_MEMORY;
    e->graph = graph_copy(g);
    e->context = c;
    e->flags = flags;
    *out = (CUgraphExec)e;
    return e->graph ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult sim_cuGraphInstantiateWithFlags(CUgraphExec *out, CUgraph g, unsigned long long flags) { return instantiate(out, g, flags); }
CUresult sim_cuGraphInstantiate(CUgraphExec *out, CUgraph g, CUgraphNode *bad, char *log, size_t n)
{
    (void)bad, (void)log, (void)n;
    return instantiate(out, g, 0);
}
CUresult sim_cuGraphInstantiate_v2(CUgraphExec *out, CUgraph g, CUgraphNode *bad, char *log, size_t n)
{
    (void)bad, (void)log, (void)n;
    return instantiate(out, g, 0);
}
CUresult sim_cuGraphInstantiateWithParams(CUgraphExec *out, CUgraph g, CUDA_GRAPH_INSTANTIATE_PARAMS *params)
{
    if (!params)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult status = instantiate(out, g, params->flags);
    params->result_out = status == CUDA_SUCCESS ? CUDA_GRAPH_INSTANTIATE_SUCCESS : CUDA_GRAPH_INSTANTIATE_ERROR;
    return status;
}

#define NEED_EXEC(e)                                              \
    struct exec *e = object_of(hGraphExec, OBJECT_EXEC);          \
    if (!e)                                                       \
    return CUDA_ERROR_INVALID_VALUE

CUresult sim_cuGraphExecDestroy(CUgraphExec hGraphExec)
{
    NEED_EXEC(e);
    graph_end(e->graph);
    object_end(e);
    return CUDA_SUCCESS;
}

CUresult sim_cuGraphExecGetFlags(CUgraphExec hGraphExec, cuuint64_t *flags)
{
    NEED_EXEC(e);
    if (!flags)
        return CUDA_ERROR_INVALID_VALUE;
    *flags = e->flags;
    return CUDA_SUCCESS;
}

static CUresult renew(struct exec *e, struct graph *g)
{
    struct node *a = e->graph->nodes, *b = g->nodes;
    for (; a && b; a = a->next, b = b->next)
        if (a->type != b->type)
            return CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
    if (a || b)
        return CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
    graph_end(e->graph);
    e->graph = graph_copy(g);
    return e->graph ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult sim_cuGraphExecUpdate_v2(CUgraphExec hGraphExec, CUgraph hGraph, CUgraphExecUpdateResultInfo *resultInfo)
{
    NEED_EXEC(e);
    struct graph *g = object_of(hGraph, OBJECT_GRAPH);
    if (!g)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult status = renew(e, g);
    if (resultInfo) {
        memset(resultInfo, 0, sizeof *resultInfo);
        resultInfo->result = status == CUDA_SUCCESS ? CU_GRAPH_EXEC_UPDATE_SUCCESS : CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
    }
    return status;
}

CUresult sim_cuGraphExecUpdate(CUgraphExec hGraphExec, CUgraph hGraph, CUgraphNode *bad, CUgraphExecUpdateResult *result)
{
    NEED_EXEC(e);
    struct graph *g = object_of(hGraph, OBJECT_GRAPH);
    if (!g)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult status = renew(e, g);
    if (bad)
        *bad = NULL;
    if (result)
        *result = status == CUDA_SUCCESS ? CU_GRAPH_EXEC_UPDATE_SUCCESS : CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
    return status;
}

static struct node *instance_of(struct exec *e, CUgraphNode hNode)
{
    for (struct node *n = e->graph->nodes; n; n = n->next)
        if (n->original == (struct node *)hNode)
            return n;
    return NULL;
}

CUresult sim_cuGraphExecKernelNodeSetParams_v2(CUgraphExec hGraphExec, CUgraphNode hNode, const CUDA_KERNEL_NODE_PARAMS *params)
{
    NEED_EXEC(e);
    struct node *n = instance_of(e, hNode);
    return n && n->type == CU_GRAPH_NODE_TYPE_KERNEL ? set_kernel(n, params) : CUDA_ERROR_INVALID_VALUE;
}

CUresult sim_cuGraphNodeSetEnabled(CUgraphExec hGraphExec, CUgraphNode hNode, unsigned int isEnabled)
{
    NEED_EXEC(e);
    struct node *n = instance_of(e, hNode);
    if (!n)
        return CUDA_ERROR_INVALID_VALUE;
    n->disabled = !isEnabled;
    return CUDA_SUCCESS;
}

CUresult sim_cuGraphNodeGetEnabled(CUgraphExec hGraphExec, CUgraphNode hNode, unsigned int *isEnabled)
{
    NEED_EXEC(e);
    struct node *n = instance_of(e, hNode);
    if (!n || !isEnabled)
        return CUDA_ERROR_INVALID_VALUE;
    *isEnabled = !n->disabled;
    return CUDA_SUCCESS;
}

/* Longest chain of kernels: nodes are in an order in which every need comes before. */
static int64_t run_time(struct context *c, struct stream *st, struct graph *g, CUresult *status)
{
    int64_t whole = 0;
    for (struct node *n = g->nodes; n; n = n->next) {
        int64_t time = 0;
        if (!n->disabled)
            switch (n->type) {
            case CU_GRAPH_NODE_TYPE_KERNEL:
                time = work_of(c, st, &n->function->cost, (uint64_t)n->kernel.gridDimX * n->kernel.gridDimY * n->kernel.gridDimZ);
                break;
            case CU_GRAPH_NODE_TYPE_GRAPH: time = run_time(c, st, n->child, status); break;
            case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
                if (!graph_back(n->to))
                    *status = CUDA_ERROR_OUT_OF_MEMORY;
                break;
            case CU_GRAPH_NODE_TYPE_MEM_FREE:
                if (!graph_unback(n->to))
                    *status = block_free(n->to, true);
                break;
            default: break;
            }
        whole += time;
        if (*status != CUDA_SUCCESS)
            return whole;
    }
    return whole;
}

CUresult sim_cuLaunchHostFunc(CUstream hStream, CUhostFn fn, void *userData);
CUresult sim_cuEventRecord(CUevent hEvent, CUstream hStream);
CUresult sim_cuMemsetD8Async(CUdeviceptr d, unsigned char v, size_t n, CUstream st);
CUresult sim_cuMemsetD16Async(CUdeviceptr d, unsigned short v, size_t n, CUstream st);
CUresult sim_cuMemsetD32Async(CUdeviceptr d, unsigned int v, size_t n, CUstream st);

/* What the host does for a graph when it has run: contents, events, functions. */
static void effects(struct graph *g, struct stream *st)
{
    for (struct node *n = g->nodes; n; n = n->next) {
        if (n->disabled)
            continue;
        if (n->type == CU_GRAPH_NODE_TYPE_MEMCPY)
            copy_bytes(n->to, n->from, n->bytes);
        else if (n->type == CU_GRAPH_NODE_TYPE_MEMSET && n->width == 1)
            sim_cuMemsetD8Async(n->to, (unsigned char)n->value, n->bytes, (CUstream)st);
        else if (n->type == CU_GRAPH_NODE_TYPE_MEMSET && n->width == 2)
            sim_cuMemsetD16Async(n->to, (unsigned short)n->value, n->bytes, (CUstream)st);
        else if (n->type == CU_GRAPH_NODE_TYPE_MEMSET)
            sim_cuMemsetD32Async(n->to, n->value, n->bytes, (CUstream)st);
        else if (n->type == CU_GRAPH_NODE_TYPE_HOST)
            sim_cuLaunchHostFunc((CUstream)st, n->host, n->data);
        else if (n->type == CU_GRAPH_NODE_TYPE_EVENT_RECORD)
            sim_cuEventRecord((CUevent)n->event, (CUstream)st);
        else if (n->type == CU_GRAPH_NODE_TYPE_GRAPH)
            effects(n->child, st);
    }
}

CUresult sim_cuGraphUpload(CUgraphExec hGraphExec, CUstream hStream)
{
    NEED_EXEC(e);
    struct stream *st;
    CUresult status = stream_resolve(hStream, &st);
    for (struct node *n = e->graph->nodes; n && status == CUDA_SUCCESS; n = n->next)
        if (n->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC && !graph_back(n->to))
            status = CUDA_ERROR_OUT_OF_MEMORY;
    return status;
}

CUresult sim_cuGraphLaunch(CUgraphExec hGraphExec, CUstream hStream)
{
    NEED_EXEC(e);
    struct stream *st;
    CUresult status = stream_resolve(hStream, &st);
    if (status != CUDA_SUCCESS)
        return status;
    if (st->capture) {
        struct node *n = capture_node(st, CU_GRAPH_NODE_TYPE_GRAPH);
        if (n)
            n->child = graph_copy(e->graph);
        return n ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
    }
    int64_t time = run_time(st->context, st, e->graph, &status);
    if (status == CUDA_SUCCESS)
        status = stream_push(st, time, 1, SIM_NO_CELL, &e->ticket);
    if (status == CUDA_SUCCESS)
        effects(e->graph, st);
    return status;
}

/* ---- capture -------------------------------------------------------------------------------------------------------------------- */

struct node *capture_node(struct stream *st, CUgraphNodeType type)
{
    struct node *n = node_new(st->capture, type, st->frontier, st->frontier_count);
    if (n) {
        st->frontier[0] = n;
        st->frontier_count = 1;
    }
    return n;
}

CUresult capture_kernel(struct stream *st, struct function *f, const CUDA_KERNEL_NODE_PARAMS *params)
{
    struct node *n = capture_node(st, CU_GRAPH_NODE_TYPE_KERNEL);
    if (!n)
        return CUDA_ERROR_OUT_OF_MEMORY;
    n->kernel = *params;
    n->function = f;
    return CUDA_SUCCESS;
}

CUresult capture_copy(struct stream *st, uint64_t to, uint64_t from, uint64_t bytes)
{
    struct node *n = capture_node(st, CU_GRAPH_NODE_TYPE_MEMCPY);
    if (!n)
        return CUDA_ERROR_OUT_OF_MEMORY;
    n->to = to, n->from = from, n->bytes = bytes;
    return CUDA_SUCCESS;
}

CUresult capture_set(struct stream *st, uint64_t to, unsigned value, unsigned width, uint64_t count)
{
    struct node *n = capture_node(st, CU_GRAPH_NODE_TYPE_MEMSET);
    if (!n)
        return CUDA_ERROR_OUT_OF_MEMORY;
    n->to = to, n->value = value, n->width = width, n->bytes = count;
    return CUDA_SUCCESS;
}

CUresult capture_host(struct stream *st, CUhostFn fn, void *data)
{
    struct node *n = capture_node(st, CU_GRAPH_NODE_TYPE_HOST);
    if (!n)
        return CUDA_ERROR_OUT_OF_MEMORY;
    n->host = fn, n->data = data;
    return CUDA_SUCCESS;
}

CUresult capture_alloc(struct stream *st, struct pool *p, uint64_t bytes, CUdeviceptr *out)
{
    CUdeviceptr at = graph_address(p->device, bytes);
    struct node *n = at ? capture_node(st, CU_GRAPH_NODE_TYPE_MEM_ALLOC) : NULL;
    if (!n)
        return CUDA_ERROR_OUT_OF_MEMORY;
    n->to = at, n->bytes = bytes;
    *out = at;
    return CUDA_SUCCESS;
}

CUresult capture_free(struct stream *st, CUdeviceptr at)
{
    struct node *n = capture_node(st, CU_GRAPH_NODE_TYPE_MEM_FREE);
    if (!n)
        return CUDA_ERROR_OUT_OF_MEMORY;
    n->to = at;
    return CUDA_SUCCESS;
}

CUresult capture_event(struct stream *st, struct event *e)
{
    e->captured_in = st;
    e->capture_id = st->capture_id;
    e->captured_count = st->frontier_count;
    memcpy(e->captured, st->frontier, sizeof e->captured);
    return CUDA_SUCCESS;
}

/* A stream joins the capture of the event it waits for. */
CUresult capture_wait(struct stream *st, struct event *e)
{
    if (!e->captured_in)
        return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
    struct stream *from = e->captured_in;
    if (!st->capture) {
        st->capture = from->capture;
        st->capture_id = from->capture_id;
        st->capture_mode = from->capture_mode;
        st->capture_origin = from->capture_origin ? from->capture_origin : from;
        st->frontier_count = 0;
    } else if (st->capture_id != e->capture_id)
        return CUDA_ERROR_STREAM_CAPTURE_MERGE;
    for (uint32_t i = 0; i < e->captured_count && st->frontier_count < 4; i++)
        st->frontier[st->frontier_count++] = e->captured[i];
    return CUDA_SUCCESS;
}

static CUresult begin(CUstream hStream, CUstreamCaptureMode mode, struct graph *into)
{
    struct stream *st;
    CUresult status = stream_resolve(hStream, &st);
    if (status != CUDA_SUCCESS)
        return status;
    if (st == st->context->legacy)
        return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    if (st->capture || (unsigned)mode > CU_STREAM_CAPTURE_MODE_RELAXED)
        return CUDA_ERROR_INVALID_VALUE;
    st->capture = into ? into : graph_new();
    st->capture_own = !into;
    st->capture_mode = mode;
    st->capture_id = __atomic_add_fetch(&capture_number, 1, __ATOMIC_RELAXED);
    st->capture_thread = pthread_self();
    st->frontier_count = 0;
    st->capture_origin = NULL;
    if (mode == CU_STREAM_CAPTURE_MODE_GLOBAL)
        atomic_fetch_add(&global_captures, 1);
    else if (mode == CU_STREAM_CAPTURE_MODE_THREAD_LOCAL) {
        atomic_fetch_add(&thread_captures, 1);
        local_captures++;
    }
    return st->capture ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult sim_cuStreamBeginCapture(CUstream hStream) { return begin(hStream, CU_STREAM_CAPTURE_MODE_GLOBAL, NULL); }
CUresult sim_cuStreamBeginCapture_v2(CUstream hStream, CUstreamCaptureMode mode) { return begin(hStream, mode, NULL); }
CUresult sim_cuStreamBeginCaptureToGraph(CUstream hStream, CUgraph hGraph, const CUgraphNode *dependencies, const CUgraphEdgeData *data, size_t n,
                                         CUstreamCaptureMode mode)
{
    (void)dependencies, (void)data, (void)n;
    struct graph *g = object_of(hGraph, OBJECT_GRAPH);
    return g ? begin(hStream, mode, g) : CUDA_ERROR_INVALID_VALUE;
}

CUresult sim_cuStreamEndCapture(CUstream hStream, CUgraph *phGraph)
{
    struct stream *st;
    CUresult status = stream_resolve(hStream, &st);
    if (status != CUDA_SUCCESS)
        return status;
    if (!phGraph || !st->capture || st->capture_origin)
        return st->capture_origin ? CUDA_ERROR_STREAM_CAPTURE_UNMATCHED : CUDA_ERROR_ILLEGAL_STATE;
    if (st->capture_mode != CU_STREAM_CAPTURE_MODE_RELAXED && !pthread_equal(st->capture_thread, pthread_self()))
        return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
    *phGraph = (CUgraph)st->capture;
    if (st->capture_mode == CU_STREAM_CAPTURE_MODE_GLOBAL)
        atomic_fetch_sub(&global_captures, 1);
    else if (st->capture_mode == CU_STREAM_CAPTURE_MODE_THREAD_LOCAL) {
        atomic_fetch_sub(&thread_captures, 1);
        local_captures--;
    }
    struct graph *g = st->capture;
    for (struct stream *other = st->context->streams; other; other = other->next)
        if (other->capture == g) {
            other->capture = NULL;
            other->capture_origin = NULL;
        }
    st->capture = NULL;
    return CUDA_SUCCESS;
}

CUresult sim_cuStreamIsCapturing(CUstream hStream, CUstreamCaptureStatus *captureStatus)
{
    struct stream *st;
    CUresult status = stream_resolve(hStream, &st);
    if (status == CUDA_SUCCESS && captureStatus)
        *captureStatus = st->capture ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_NONE;
    return status == CUDA_SUCCESS && !captureStatus ? CUDA_ERROR_INVALID_VALUE : status;
}

static CUresult capture_info(CUstream hStream, CUstreamCaptureStatus *state, cuuint64_t *id, CUgraph *graph, const CUgraphNode **needs, size_t *count)
{
    struct stream *st;
    CUresult status = stream_resolve(hStream, &st);
    if (status != CUDA_SUCCESS)
        return status;
    if (!state)
        return CUDA_ERROR_INVALID_VALUE;
    *state = st->capture ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_NONE;
    if (!st->capture)
        return CUDA_SUCCESS;
    if (id)
        *id = st->capture_id;
    if (graph)
        *graph = (CUgraph)st->capture;
    if (needs)
        *needs = (const CUgraphNode *)st->frontier;
    if (count)
        *count = st->frontier_count;
    return CUDA_SUCCESS;
}

CUresult sim_cuStreamGetCaptureInfo(CUstream s, CUstreamCaptureStatus *state, cuuint64_t *id) { return capture_info(s, state, id, NULL, NULL, NULL); }
CUresult sim_cuStreamGetCaptureInfo_v2(CUstream s, CUstreamCaptureStatus *state, cuuint64_t *id, CUgraph *g, const CUgraphNode **n, size_t *count)
{
    return capture_info(s, state, id, g, n, count);
}
CUresult sim_cuStreamGetCaptureInfo_v3(CUstream s, CUstreamCaptureStatus *state, cuuint64_t *id, CUgraph *g, const CUgraphNode **n,
                                       const CUgraphEdgeData **edges, size_t *count)
{
    if (edges)
        *edges = NULL;
    return capture_info(s, state, id, g, n, count);
}

static CUresult set_frontier(CUstream hStream, CUgraphNode *needs, size_t count, unsigned flags)
{
    struct stream *st;
    CUresult status = stream_resolve(hStream, &st);
    if (status != CUDA_SUCCESS)
        return status;
    if (!st->capture)
        return CUDA_ERROR_ILLEGAL_STATE;
    if (flags == CU_STREAM_SET_CAPTURE_DEPENDENCIES)
        st->frontier_count = 0;
    for (size_t i = 0; i < count && st->frontier_count < 4; i++)
        st->frontier[st->frontier_count++] = (struct node *)needs[i];
    return CUDA_SUCCESS;
}

CUresult sim_cuStreamUpdateCaptureDependencies(CUstream s, CUgraphNode *n, size_t count, unsigned int flags) { return set_frontier(s, n, count, flags); }
CUresult sim_cuStreamUpdateCaptureDependencies_v2(CUstream s, CUgraphNode *n, const CUgraphEdgeData *e, size_t count, unsigned int flags)
{
    (void)e;
    return set_frontier(s, n, count, flags);
}

/* ---- objects that a graph keeps alive ---------------------------------------------------------------------------------------------- */

struct user_object { struct object head; CUhostFn destroy; void *data; uint32_t references; };

CUresult sim_cuUserObjectCreate(CUuserObject *out, void *ptr, CUhostFn destroy, unsigned int initialRefcount, unsigned int flags)
{
    struct user_object *u = out && destroy && flags == CU_USER_OBJECT_NO_DESTRUCTOR_SYNC ? object_new(OBJECT_USER) : NULL;
    if (!u)
        return CUDA_ERROR_INVALID_VALUE;
    u->destroy = destroy;
    u->data = ptr;
    u->references = initialRefcount;
    *out = (CUuserObject)u;
    return CUDA_SUCCESS;
}

CUresult sim_cuUserObjectRetain(CUuserObject object, unsigned int count)
{
    struct user_object *u = object_of(object, OBJECT_USER);
    if (!u)
        return CUDA_ERROR_INVALID_VALUE;
    u->references += count;
    return CUDA_SUCCESS;
}

CUresult sim_cuUserObjectRelease(CUuserObject object, unsigned int count)
{
    struct user_object *u = object_of(object, OBJECT_USER);
    if (!u || u->references < count)
        return CUDA_ERROR_INVALID_VALUE;
    u->references -= count;
    if (!u->references) {
        u->destroy(u->data);
        object_end(u);
    }
    return CUDA_SUCCESS;
}

CUresult sim_cuGraphRetainUserObject(CUgraph graph, CUuserObject object, unsigned int count, unsigned int flags)
{
    if (!object_of(graph, OBJECT_GRAPH))
        return CUDA_ERROR_INVALID_VALUE;
    return flags ? CUDA_SUCCESS : sim_cuUserObjectRetain(object, count);
}

CUresult sim_cuGraphReleaseUserObject(CUgraph graph, CUuserObject object, unsigned int count)
{
    return object_of(graph, OBJECT_GRAPH) ? sim_cuUserObjectRelease(object, count) : CUDA_ERROR_INVALID_VALUE;
}
