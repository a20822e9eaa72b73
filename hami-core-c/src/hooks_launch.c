/* Launches, and the calls after which nobody may find a batch open. */
#include <sys/mman.h>
#include <unistd.h>

#include "hooks.h"
#include "holdings.h"
#include "quick.h"

static uint64_t grid_of(unsigned x, unsigned y, unsigned z) { return (uint64_t)x << 32 ^ (uint64_t)y << 16 ^ z; }

/* A stream of the program, apart from the one that 0 means. */
static uint64_t tag_of(CUstream stream, enum stream_kind per_thread) { return (uint64_t)(uintptr_t)stream ^ (uint64_t)per_thread << 63; }

#define LAUNCH(call, function, grid, stream, per_thread)                                        \
    GATE(p, next, call)                                                                         \
    if (!p->state.paced) {                                                                      \
        show_activity(p);                                                                       \
        return call;                                                                            \
    }                                                                                           \
    struct permit permit;                                                                       \
    uint64_t size = grid, tag = tag_of(stream, per_thread);                                     \
    struct known *known = known_of(function, size, tag);                                        \
    bool same = is_known(known, function, size, tag), quick = same && quick_ask(p, next, known, &permit); \
    if (!same)                                                                                  \
        pacer_learn(next, known, function, size, tag);                                          \
    if (!quick && !pacer_ask(p, next, stream, per_thread, known->kind, known, 0, &permit))      \
        return call;                                                                            \
    CUresult status = call;                                                                     \
    if (quick)                                                                                  \
        quick_tell(p, &permit, status);                                                         \
    else                                                                                        \
        pacer_tell(p, next, &permit, stream, status, false);                                    \
    return status;

CUresult hook_cuLaunchKernel(const struct driver *next, CUfunction f, unsigned int gridDimX, unsigned int gridDimY, unsigned int
    gridDimZ, unsigned int blockDimX, unsigned int blockDimY, unsigned int blockDimZ, unsigned int sharedMemBytes, CUstream hStream,
    void **kernelParams, void **extra)
{
    LAUNCH(next->cuLaunchKernel(f, gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes, hStream,
        kernelParams, extra), f, grid_of(gridDimX, gridDimY, gridDimZ), hStream, STREAM_LEGACY)
}

CUresult hook_cuLaunchKernel_ptsz(const struct driver *next, CUfunction f, unsigned int gridDimX, unsigned int gridDimY, unsigned
    int gridDimZ, unsigned int blockDimX, unsigned int blockDimY, unsigned int blockDimZ, unsigned int sharedMemBytes, CUstream
    hStream, void **kernelParams, void **extra)
{
    LAUNCH(next->cuLaunchKernel_ptsz(f, gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes, hStream,
        kernelParams, extra), f, grid_of(gridDimX, gridDimY, gridDimZ), hStream, STREAM_PER_THREAD)
}

CUresult hook_cuLaunchCooperativeKernel(const struct driver *next, CUfunction f, unsigned int gridDimX, unsigned int gridDimY,
    unsigned int gridDimZ, unsigned int blockDimX, unsigned int blockDimY, unsigned int blockDimZ, unsigned int sharedMemBytes,
    CUstream hStream, void **kernelParams)
{
    LAUNCH(next->cuLaunchCooperativeKernel(f, gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes,
        hStream, kernelParams), f, grid_of(gridDimX, gridDimY, gridDimZ), hStream, STREAM_LEGACY)
}

CUresult hook_cuLaunchCooperativeKernel_ptsz(const struct driver *next, CUfunction f, unsigned int gridDimX, unsigned int gridDimY,
    unsigned int gridDimZ, unsigned int blockDimX, unsigned int blockDimY, unsigned int blockDimZ, unsigned int sharedMemBytes,
    CUstream hStream, void **kernelParams)
{
    LAUNCH(next->cuLaunchCooperativeKernel_ptsz(f, gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ,
        sharedMemBytes, hStream, kernelParams), f, grid_of(gridDimX, gridDimY, gridDimZ), hStream, STREAM_PER_THREAD)
}

CUresult hook_cuLaunchKernelEx(const struct driver *next, const CUlaunchConfig *config, CUfunction f, void **kernelParams, void
    **extra)
{
    if (!config)
        return next->cuLaunchKernelEx(config, f, kernelParams, extra);
    LAUNCH(next->cuLaunchKernelEx(config, f, kernelParams, extra), f, grid_of(config->gridDimX, config->gridDimY, config->gridDimZ),
        config->hStream, STREAM_LEGACY)
}

CUresult hook_cuLaunchKernelEx_ptsz(const struct driver *next, const CUlaunchConfig *config, CUfunction f, void **kernelParams, void
    **extra)
{
    if (!config)
        return next->cuLaunchKernelEx_ptsz(config, f, kernelParams, extra);
    LAUNCH(next->cuLaunchKernelEx_ptsz(config, f, kernelParams, extra), f, grid_of(config->gridDimX, config->gridDimY, config->gridDimZ),
        config->hStream, STREAM_PER_THREAD)
}

CUresult hook_cuLaunch(const struct driver *next, CUfunction f)
{
    LAUNCH(next->cuLaunch(f), f, 1, NULL, STREAM_LEGACY)
}

CUresult hook_cuLaunchGrid(const struct driver *next, CUfunction f, int grid_width, int grid_height)
{
    LAUNCH(next->cuLaunchGrid(f, grid_width, grid_height), f, grid_of((unsigned)grid_width, (unsigned)grid_height, 1), NULL, STREAM_LEGACY)
}

CUresult hook_cuLaunchGridAsync(const struct driver *next, CUfunction f, int grid_width, int grid_height, CUstream hStream)
{
    LAUNCH(next->cuLaunchGridAsync(f, grid_width, grid_height, hStream), f, grid_of((unsigned)grid_width, (unsigned)grid_height, 1), hStream,
        STREAM_LEGACY)
}

/* One launch on each of several devices: each device's account pays for its own. Where the streams' contexts cannot be told, the
 * first one pays. */
CUresult hook_cuLaunchCooperativeKernelMultiDevice(const struct driver *next, CUDA_LAUNCH_PARAMS *launchParamsList, unsigned int
    numDevices, unsigned int flags)
{
    GATE(p, next, next->cuLaunchCooperativeKernelMultiDevice(launchParamsList, numDevices, flags))
    struct permit permit[HAMI_DEVICES];
    bool paid[HAMI_DEVICES] = {false}, moves[HAMI_DEVICES] = {false};
    CUcontext context[HAMI_DEVICES], old;
    unsigned count = launchParamsList && p->state.paced ? numDevices < HAMI_DEVICES ? numDevices : HAMI_DEVICES : 0;
    bool can_move = next->cuStreamGetCtx && next->cuCtxPushCurrent_v2 && next->cuCtxPopCurrent_v2;
    show_activity(p);
    for (unsigned i = 0; i < count; i++) {
        const CUDA_LAUNCH_PARAMS *one = &launchParamsList[i];
        uint64_t grid = grid_of(one->gridDimX, one->gridDimY, one->gridDimZ);
        struct known k;
        moves[i] = can_move && next->cuStreamGetCtx(one->hStream, &context[i]) == CUDA_SUCCESS &&
            next->cuCtxPushCurrent_v2(context[i]) == CUDA_SUCCESS;
        if (!moves[i] && i > 0)
            continue;
        place_changed();
        pacer_learn(next, &k, one->function, grid, 0);
        paid[i] = pacer_ask(p, next, one->hStream, STREAM_LEGACY, k.kind, NULL, 0, &permit[i]);
        if (moves[i])
            next->cuCtxPopCurrent_v2(&old);
    }
    place_changed();
    CUresult status = next->cuLaunchCooperativeKernelMultiDevice(launchParamsList, numDevices, flags);
    for (unsigned i = 0; i < count; i++) {
        if (!paid[i])
            continue;
        if (moves[i])
            next->cuCtxPushCurrent_v2(context[i]);
        pacer_tell(p, next, &permit[i], launchParamsList[i].hStream, status, true);
        if (moves[i])
            next->cuCtxPopCurrent_v2(&old);
    }
    place_changed();
    return status;
}

/* ---- graphs: one kind per executable graph, each launch a batch of its own ------------------------------------------------- */

static uint32_t graph_kind(CUgraphExec exec)
{
    uint64_t x = (uint64_t)(uintptr_t)exec * UINT64_C(0x9e3779b97f4a7c15) ^ (uint64_t)getpid();
    return (uint32_t)(x >> 24) | 1;
}

#define GRAPH_LAUNCH(call, exec, per_thread)                                                    \
    GATE(p, next, call)                                                                         \
    if (!p->state.paced) {                                                                      \
        show_activity(p);                                                                       \
        return call;                                                                            \
    }                                                                                           \
    struct permit permit;                                                                       \
    struct holding graph = {0};                                                                 \
    pointers_get(&p->pointers, FAMILY_GRAPH, (uint64_t)(uintptr_t)(exec), &graph);              \
    if (!pacer_ask(p, next, hStream, per_thread, graph_kind(exec), NULL, (int64_t)graph.extra, &permit)) \
        return call;                                                                            \
    CUresult status = call;                                                                     \
    pacer_tell(p, next, &permit, hStream, status, true);                                        \
    return status;

CUresult hook_cuGraphLaunch(const struct driver *next, CUgraphExec hGraph, CUstream hStream)
{
    GRAPH_LAUNCH(next->cuGraphLaunch(hGraph, hStream), hGraph, STREAM_LEGACY)
}

CUresult hook_cuGraphLaunch_ptsz(const struct driver *next, CUgraphExec hGraphExec, CUstream hStream)
{
    GRAPH_LAUNCH(next->cuGraphLaunch_ptsz(hGraphExec, hStream), hGraphExec, STREAM_PER_THREAD)
}

/* Memory that a graph's nodes allocate appears at its first launch; it is reserved when the graph becomes executable. What its kernels
 * are known to take, one after another, is the price of its first launch. */
struct graph_cost { uint64_t bytes[HAMI_DEVICES], time, unknown; };   /* unknown: kernels that nobody has seen yet */

static void graph_cost(struct process *p, const struct driver *d, unsigned device, CUgraph graph, int depth, struct graph_cost *out)
{
    size_t count = 0;
    if (!d->cuGraphGetNodes || !d->cuGraphNodeGetType || depth > 8 || d->cuGraphGetNodes(graph, NULL, &count) != CUDA_SUCCESS || !count ||
        count > 1000000)
        return;
    CUgraphNode *nodes = mmap(NULL, count * sizeof *nodes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (nodes == MAP_FAILED)
        return;
    size_t room = count;
    if (d->cuGraphGetNodes(graph, nodes, &count) != CUDA_SUCCESS)
        count = 0;
    for (size_t i = 0; i < count; i++) {
        CUgraphNodeType type;
        CUDA_MEM_ALLOC_NODE_PARAMS params;
        CUDA_KERNEL_NODE_PARAMS_v1 kernel;
        CUgraph child;
        struct place at;
        if (d->cuGraphNodeGetType(nodes[i], &type) != CUDA_SUCCESS)
            continue;
        if (type == NODE_ALLOC && d->cuGraphMemAllocNodeGetParams && d->cuGraphMemAllocNodeGetParams(nodes[i], &params) == CUDA_SUCCESS)
            out->bytes[place_of(p, params.poolProps.location.id, &at) ? at.device : (int)device] += granules(params.bytesize);
        else if (type == NODE_KERNEL && p->state.paced && d->cuGraphKernelNodeGetParams &&
                 d->cuGraphKernelNodeGetParams(nodes[i], &kernel) == CUDA_SUCCESS) {
            int64_t time = pacer_known_time(p, d, device, kernel.func, grid_of(kernel.gridDimX, kernel.gridDimY, kernel.gridDimZ));
            out->time += (uint64_t)time;
            out->unknown += !time;
        } else if (type == NODE_GRAPH && d->cuGraphChildGraphNodeGetGraph && d->cuGraphChildGraphNodeGetGraph(nodes[i], &child) == CUDA_SUCCESS)
            graph_cost(p, d, device, child, depth + 1, out);
    }
    munmap(nodes, room * sizeof *nodes);
}

/* Number of what a graph takes of a device; no handle has these bits. */
static uint64_t graph_part(CUgraphExec exec, int device) { return (uint64_t)(uintptr_t)exec ^ ((uint64_t)device + 1) << 54; }

static bool graph_reserve(struct process *p, const struct driver *d, const struct graph_cost *cost, struct holding *of)
{
    for (int i = 0; i < HAMI_DEVICES; i++) {
        of[i] = (struct holding){0};
        if (!cost->bytes[i] || graphs_take(p, d, i, cost->bytes[i], &of[i]))
            continue;
        while (i-- > 0)
            if (cost->bytes[i])
                pool_block_gone(p, &of[i]);
        pools_settle(p, d);
        return false;
    }
    return true;
}

/* NULL: it was not made. */
static void graph_enter(struct process *p, const struct driver *d, const struct graph_cost *cost, const struct holding *of, CUgraphExec exec)
{
    struct holding time = {.extra = cost->time, .kind = HELD_NOTHING};
    bool loose = false;
    if (exec && cost->time)
        pointers_put(&p->pointers, FAMILY_GRAPH, (uint64_t)(uintptr_t)exec, &time);
    for (int i = 0; i < HAMI_DEVICES; i++)
        if (cost->bytes[i] && (!exec || !pointers_put(&p->pointers, FAMILY_GRAPH, graph_part(exec, i), &of[i]))) {
            pool_block_gone(p, &of[i]);
            loose = true;
        }
    if (loose)
        pools_settle(p, d);
}

#define INSTANTIATE(call)                                                                       \
    GATE(p, next, call)                                                                         \
    struct place at;                                                                            \
    struct graph_cost cost = {0};                                                               \
    if (phGraphExec && place_now(p, next, &at))                                                 \
        graph_cost(p, next, (unsigned)at.device, hGraph, 0, &cost);                             \
    if (cost.unknown)                                                                           \
        cost.time = 0;                                                                          \
    struct holding of[HAMI_DEVICES];                                                            \
    if (!graph_reserve(p, next, &cost, of))                                                     \
        return CUDA_ERROR_OUT_OF_MEMORY;                                                        \
    CUresult status = call;                                                                     \
    graph_enter(p, next, &cost, of, status == CUDA_SUCCESS && phGraphExec ? *phGraphExec : NULL); \
    return status;

CUresult hook_cuGraphInstantiate(const struct driver *next, CUgraphExec *phGraphExec, CUgraph hGraph, CUgraphNode *phErrorNode, char
    *logBuffer, size_t bufferSize)
{
    INSTANTIATE(next->cuGraphInstantiate(phGraphExec, hGraph, phErrorNode, logBuffer, bufferSize))
}

CUresult hook_cuGraphInstantiate_v2(const struct driver *next, CUgraphExec *phGraphExec, CUgraph hGraph, CUgraphNode *phErrorNode,
    char *logBuffer, size_t bufferSize)
{
    INSTANTIATE(next->cuGraphInstantiate_v2(phGraphExec, hGraph, phErrorNode, logBuffer, bufferSize))
}

CUresult hook_cuGraphInstantiateWithFlags(const struct driver *next, CUgraphExec *phGraphExec, CUgraph hGraph, unsigned long long
    flags)
{
    INSTANTIATE(next->cuGraphInstantiateWithFlags(phGraphExec, hGraph, flags))
}

CUresult hook_cuGraphInstantiateWithParams(const struct driver *next, CUgraphExec *phGraphExec, CUgraph hGraph,
    CUDA_GRAPH_INSTANTIATE_PARAMS *instantiateParams)
{
    INSTANTIATE(next->cuGraphInstantiateWithParams(phGraphExec, hGraph, instantiateParams))
}

CUresult hook_cuGraphInstantiateWithParams_ptsz(const struct driver *next, CUgraphExec *phGraphExec, CUgraph hGraph,
    CUDA_GRAPH_INSTANTIATE_PARAMS *instantiateParams)
{
    INSTANTIATE(next->cuGraphInstantiateWithParams_ptsz(phGraphExec, hGraph, instantiateParams))
}

/* The driver keeps a graph's memory for the next one until it is trimmed, and what was not freed until it is. */
CUresult hook_cuGraphExecDestroy(const struct driver *next, CUgraphExec hGraphExec)
{
    GATE(p, next, next->cuGraphExecDestroy(hGraphExec))
    struct holding time, of[HAMI_DEVICES];
    bool timed = pointers_take(&p->pointers, FAMILY_GRAPH, (uint64_t)(uintptr_t)hGraphExec, &time), ours[HAMI_DEVICES];
    for (int i = 0; i < HAMI_DEVICES; i++)
        ours[i] = pointers_take(&p->pointers, FAMILY_GRAPH, graph_part(hGraphExec, i), &of[i]);
    CUresult status = next->cuGraphExecDestroy(hGraphExec);
    if (timed && status != CUDA_SUCCESS)
        pointers_put(&p->pointers, FAMILY_GRAPH, (uint64_t)(uintptr_t)hGraphExec, &time);
    for (int i = 0; i < HAMI_DEVICES; i++) {
        if (ours[i] && status != CUDA_SUCCESS)
            pointers_put(&p->pointers, FAMILY_GRAPH, graph_part(hGraphExec, i), &of[i]);
        else if (ours[i])
            graphs_gone(p, next, &of[i]);
    }
    return status;
}

CUresult hook_cuDeviceGraphMemTrim(const struct driver *next, CUdevice device)
{
    GATE(p, next, next->cuDeviceGraphMemTrim(device))
    struct place at;
    CUresult status = next->cuDeviceGraphMemTrim(device);
    if (status == CUDA_SUCCESS && place_of(p, device, &at))
        graphs_trim(p, next, at.device);
    return status;
}

/* ---- calls that wait, look or record: the batch before them ends here, and pools have perhaps shrunk after them ------------- */

#define AFTER(call)                                                                             \
    CUresult status = call;                                                                     \
    if (__builtin_expect(atomic_load_explicit(&p->state.pools_loose, memory_order_relaxed), 0) && \
        !atomic_load_explicit(&p->state.capturing, memory_order_relaxed))                       \
        pools_settle(p, next);                                                                  \
    return status;

CUresult hook_cuStreamSynchronize(const struct driver *next, CUstream hStream)
{
    GATE(p, next, next->cuStreamSynchronize(hStream))
    pacer_close(p, next, hStream, STREAM_LEGACY);
    AFTER(next->cuStreamSynchronize(hStream))
}

CUresult hook_cuStreamSynchronize_ptsz(const struct driver *next, CUstream hStream)
{
    GATE(p, next, next->cuStreamSynchronize_ptsz(hStream))
    pacer_close(p, next, hStream, STREAM_PER_THREAD);
    AFTER(next->cuStreamSynchronize_ptsz(hStream))
}

CUresult hook_cuStreamQuery(const struct driver *next, CUstream hStream)
{
    GATE(p, next, next->cuStreamQuery(hStream))
    if (!atomic_load_explicit(&p->state.capturing, memory_order_relaxed))
        pacer_close(p, next, hStream, STREAM_LEGACY);
    return next->cuStreamQuery(hStream);
}

CUresult hook_cuStreamQuery_ptsz(const struct driver *next, CUstream hStream)
{
    GATE(p, next, next->cuStreamQuery_ptsz(hStream))
    if (!atomic_load_explicit(&p->state.capturing, memory_order_relaxed))
        pacer_close(p, next, hStream, STREAM_PER_THREAD);
    return next->cuStreamQuery_ptsz(hStream);
}

CUresult hook_cuEventRecord(const struct driver *next, CUevent hEvent, CUstream hStream)
{
    GATE(p, next, next->cuEventRecord(hEvent, hStream))
    if (!atomic_load_explicit(&p->state.capturing, memory_order_relaxed))
        pacer_close(p, next, hStream, STREAM_LEGACY);
    return next->cuEventRecord(hEvent, hStream);
}

CUresult hook_cuEventRecord_ptsz(const struct driver *next, CUevent hEvent, CUstream hStream)
{
    GATE(p, next, next->cuEventRecord_ptsz(hEvent, hStream))
    if (!atomic_load_explicit(&p->state.capturing, memory_order_relaxed))
        pacer_close(p, next, hStream, STREAM_PER_THREAD);
    return next->cuEventRecord_ptsz(hEvent, hStream);
}

CUresult hook_cuEventRecordWithFlags(const struct driver *next, CUevent hEvent, CUstream hStream, unsigned int flags)
{
    GATE(p, next, next->cuEventRecordWithFlags(hEvent, hStream, flags))
    if (!atomic_load_explicit(&p->state.capturing, memory_order_relaxed))
        pacer_close(p, next, hStream, STREAM_LEGACY);
    return next->cuEventRecordWithFlags(hEvent, hStream, flags);
}

CUresult hook_cuEventRecordWithFlags_ptsz(const struct driver *next, CUevent hEvent, CUstream hStream, unsigned int flags)
{
    GATE(p, next, next->cuEventRecordWithFlags_ptsz(hEvent, hStream, flags))
    if (!atomic_load_explicit(&p->state.capturing, memory_order_relaxed))
        pacer_close(p, next, hStream, STREAM_PER_THREAD);
    return next->cuEventRecordWithFlags_ptsz(hEvent, hStream, flags);
}

CUresult hook_cuCtxSynchronize(const struct driver *next)
{
    GATE(p, next, next->cuCtxSynchronize())
    pacer_close_all(p, next);
    AFTER(next->cuCtxSynchronize())
}

CUresult hook_cuCtxSynchronize_v2(const struct driver *next, CUcontext ctx)
{
    GATE(p, next, next->cuCtxSynchronize_v2(ctx))
    if (!atomic_load_explicit(&p->state.capturing, memory_order_relaxed))
        pacer_close_all(p, next);
    AFTER(next->cuCtxSynchronize_v2(ctx))
}

CUresult hook_cuEventSynchronize(const struct driver *next, CUevent hEvent)
{
    GATE(p, next, next->cuEventSynchronize(hEvent))
    if (!atomic_load_explicit(&p->state.capturing, memory_order_relaxed))
        pacer_close_all(p, next);
    AFTER(next->cuEventSynchronize(hEvent))
}

CUresult hook_cuMemcpyDtoH_v2(const struct driver *next, void *dstHost, CUdeviceptr srcDevice, size_t ByteCount)
{
    GATE(p, next, next->cuMemcpyDtoH_v2(dstHost, srcDevice, ByteCount))
    if (!atomic_load_explicit(&p->state.capturing, memory_order_relaxed))
        pacer_close_all(p, next);
    AFTER(next->cuMemcpyDtoH_v2(dstHost, srcDevice, ByteCount))
}

CUresult hook_cuMemcpyDtoH_v2_ptds(const struct driver *next, void *dstHost, CUdeviceptr srcDevice, size_t ByteCount)
{
    GATE(p, next, next->cuMemcpyDtoH_v2_ptds(dstHost, srcDevice, ByteCount))
    if (!atomic_load_explicit(&p->state.capturing, memory_order_relaxed))
        pacer_close_all(p, next);
    AFTER(next->cuMemcpyDtoH_v2_ptds(dstHost, srcDevice, ByteCount))
}

CUresult hook_cuStreamDestroy(const struct driver *next, CUstream hStream)
{
    GATE(p, next, next->cuStreamDestroy(hStream))
    pacer_forget_stream(p, next, hStream);
    return next->cuStreamDestroy(hStream);
}

CUresult hook_cuStreamDestroy_v2(const struct driver *next, CUstream hStream)
{
    GATE(p, next, next->cuStreamDestroy_v2(hStream))
    pacer_forget_stream(p, next, hStream);
    return next->cuStreamDestroy_v2(hStream);
}

#define BEGIN_CAPTURE(call, per_thread)                                                         \
    GATE(p, next, call)                                                                         \
    pacer_close(p, next, hStream, per_thread);                                                  \
    atomic_fetch_add(&p->state.capturing, 1);                                                   \
    CUresult status = call;                                                                     \
    if (status != CUDA_SUCCESS)                                                                 \
        atomic_fetch_sub(&p->state.capturing, 1);                                               \
    return status;

/* A capture that was broken ends with an error; it has ended all the same. */
#define END_CAPTURE(call)                                                                       \
    GATE(p, next, call)                                                                         \
    CUresult status = call;                                                                     \
    uint32_t open = atomic_load(&p->state.capturing);                                           \
    while (open && !atomic_compare_exchange_weak(&p->state.capturing, &open, open - 1))         \
        ;                                                                                       \
    return status;

CUresult hook_cuStreamBeginCapture(const struct driver *next, CUstream hStream)
{
    BEGIN_CAPTURE(next->cuStreamBeginCapture(hStream), STREAM_LEGACY)
}

CUresult hook_cuStreamBeginCapture_ptsz(const struct driver *next, CUstream hStream)
{
    BEGIN_CAPTURE(next->cuStreamBeginCapture_ptsz(hStream), STREAM_PER_THREAD)
}

CUresult hook_cuStreamBeginCapture_v2(const struct driver *next, CUstream hStream, CUstreamCaptureMode mode)
{
    BEGIN_CAPTURE(next->cuStreamBeginCapture_v2(hStream, mode), STREAM_LEGACY)
}

CUresult hook_cuStreamBeginCapture_v2_ptsz(const struct driver *next, CUstream hStream, CUstreamCaptureMode mode)
{
    BEGIN_CAPTURE(next->cuStreamBeginCapture_v2_ptsz(hStream, mode), STREAM_PER_THREAD)
}

CUresult hook_cuStreamBeginCaptureToGraph(const struct driver *next, CUstream hStream, CUgraph hGraph, const CUgraphNode
    *dependencies, const CUgraphEdgeData *dependencyData, size_t numDependencies, CUstreamCaptureMode mode)
{
    BEGIN_CAPTURE(next->cuStreamBeginCaptureToGraph(hStream, hGraph, dependencies, dependencyData, numDependencies, mode), STREAM_LEGACY)
}

CUresult hook_cuStreamBeginCaptureToGraph_ptsz(const struct driver *next, CUstream hStream, CUgraph hGraph, const CUgraphNode
    *dependencies, const CUgraphEdgeData *dependencyData, size_t numDependencies, CUstreamCaptureMode mode)
{
    BEGIN_CAPTURE(next->cuStreamBeginCaptureToGraph_ptsz(hStream, hGraph, dependencies, dependencyData, numDependencies, mode), STREAM_PER_THREAD)
}

CUresult hook_cuStreamEndCapture(const struct driver *next, CUstream hStream, CUgraph *phGraph)
{
    END_CAPTURE(next->cuStreamEndCapture(hStream, phGraph))
}

CUresult hook_cuStreamEndCapture_ptsz(const struct driver *next, CUstream hStream, CUgraph *phGraph)
{
    END_CAPTURE(next->cuStreamEndCapture_ptsz(hStream, phGraph))
}

