#include "hooks.h"

CUresult hook_cuLaunch(const struct driver *next, CUfunction f) { return next->cuLaunch(f); }
CUresult hook_cuLaunchGrid(const struct driver *next, CUfunction f, int grid_width, int grid_height) { return next->cuLaunchGrid(f, grid_width, grid_height); }
CUresult hook_cuLaunchGridAsync(const struct driver *next, CUfunction f, int grid_width, int grid_height, CUstream hStream) { return next->cuLaunchGridAsync(f, grid_width, grid_height, hStream); }
CUresult hook_cuLaunchKernel(const struct driver *next, CUfunction f, unsigned int gridDimX, unsigned int gridDimY, unsigned int gridDimZ, unsigned int blockDimX, unsigned int blockDimY, unsigned int blockDimZ, unsigned int sharedMemBytes, CUstream hStream, void **kernelParams, void **extra) { return next->cuLaunchKernel(f, gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes, hStream, kernelParams, extra); }
CUresult hook_cuLaunchKernel_ptsz(const struct driver *next, CUfunction f, unsigned int gridDimX, unsigned int gridDimY, unsigned int gridDimZ, unsigned int blockDimX, unsigned int blockDimY, unsigned int blockDimZ, unsigned int sharedMemBytes, CUstream hStream, void **kernelParams, void **extra) { return next->cuLaunchKernel_ptsz(f, gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes, hStream, kernelParams, extra); }
CUresult hook_cuLaunchKernelEx(const struct driver *next, const CUlaunchConfig *config, CUfunction f, void **kernelParams, void **extra) { return next->cuLaunchKernelEx(config, f, kernelParams, extra); }
CUresult hook_cuLaunchKernelEx_ptsz(const struct driver *next, const CUlaunchConfig *config, CUfunction f, void **kernelParams, void **extra) { return next->cuLaunchKernelEx_ptsz(config, f, kernelParams, extra); }
CUresult hook_cuLaunchCooperativeKernel(const struct driver *next, CUfunction f, unsigned int gridDimX, unsigned int gridDimY, unsigned int gridDimZ, unsigned int blockDimX, unsigned int blockDimY, unsigned int blockDimZ, unsigned int sharedMemBytes, CUstream hStream, void **kernelParams) { return next->cuLaunchCooperativeKernel(f, gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes, hStream, kernelParams); }
CUresult hook_cuLaunchCooperativeKernel_ptsz(const struct driver *next, CUfunction f, unsigned int gridDimX, unsigned int gridDimY, unsigned int gridDimZ, unsigned int blockDimX, unsigned int blockDimY, unsigned int blockDimZ, unsigned int sharedMemBytes, CUstream hStream, void **kernelParams) { return next->cuLaunchCooperativeKernel_ptsz(f, gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes, hStream, kernelParams); }
CUresult hook_cuLaunchCooperativeKernelMultiDevice(const struct driver *next, CUDA_LAUNCH_PARAMS *launchParamsList, unsigned int numDevices, unsigned int flags) { return next->cuLaunchCooperativeKernelMultiDevice(launchParamsList, numDevices, flags); }
CUresult hook_cuGraphLaunch(const struct driver *next, CUgraphExec hGraph, CUstream hStream) { return next->cuGraphLaunch(hGraph, hStream); }
CUresult hook_cuGraphLaunch_ptsz(const struct driver *next, CUgraphExec hGraphExec, CUstream hStream) { return next->cuGraphLaunch_ptsz(hGraphExec, hStream); }
CUresult hook_cuGraphInstantiate(const struct driver *next, CUgraphExec *phGraphExec, CUgraph hGraph, CUgraphNode *phErrorNode, char *logBuffer, size_t bufferSize) { return next->cuGraphInstantiate(phGraphExec, hGraph, phErrorNode, logBuffer, bufferSize); }
CUresult hook_cuGraphInstantiate_v2(const struct driver *next, CUgraphExec *phGraphExec, CUgraph hGraph, CUgraphNode *phErrorNode, char *logBuffer, size_t bufferSize) { return next->cuGraphInstantiate_v2(phGraphExec, hGraph, phErrorNode, logBuffer, bufferSize); }
CUresult hook_cuGraphInstantiateWithFlags(const struct driver *next, CUgraphExec *phGraphExec, CUgraph hGraph, unsigned long long flags) { return next->cuGraphInstantiateWithFlags(phGraphExec, hGraph, flags); }
CUresult hook_cuGraphInstantiateWithParams(const struct driver *next, CUgraphExec *phGraphExec, CUgraph hGraph, CUDA_GRAPH_INSTANTIATE_PARAMS *instantiateParams) { return next->cuGraphInstantiateWithParams(phGraphExec, hGraph, instantiateParams); }
CUresult hook_cuGraphInstantiateWithParams_ptsz(const struct driver *next, CUgraphExec *phGraphExec, CUgraph hGraph, CUDA_GRAPH_INSTANTIATE_PARAMS *instantiateParams) { return next->cuGraphInstantiateWithParams_ptsz(phGraphExec, hGraph, instantiateParams); }
CUresult hook_cuGraphExecDestroy(const struct driver *next, CUgraphExec hGraphExec) { return next->cuGraphExecDestroy(hGraphExec); }
CUresult hook_cuDeviceGraphMemTrim(const struct driver *next, CUdevice device) { return next->cuDeviceGraphMemTrim(device); }
CUresult hook_cuStreamSynchronize(const struct driver *next, CUstream hStream) { return next->cuStreamSynchronize(hStream); }
CUresult hook_cuStreamSynchronize_ptsz(const struct driver *next, CUstream hStream) { return next->cuStreamSynchronize_ptsz(hStream); }
CUresult hook_cuStreamDestroy(const struct driver *next, CUstream hStream) { return next->cuStreamDestroy(hStream); }
CUresult hook_cuStreamDestroy_v2(const struct driver *next, CUstream hStream) { return next->cuStreamDestroy_v2(hStream); }
CUresult hook_cuStreamQuery(const struct driver *next, CUstream hStream) { return next->cuStreamQuery(hStream); }
CUresult hook_cuStreamQuery_ptsz(const struct driver *next, CUstream hStream) { return next->cuStreamQuery_ptsz(hStream); }
CUresult hook_cuCtxSynchronize_v2(const struct driver *next, CUcontext ctx) { return next->cuCtxSynchronize_v2(ctx); }
CUresult hook_cuEventRecord(const struct driver *next, CUevent hEvent, CUstream hStream) { return next->cuEventRecord(hEvent, hStream); }
CUresult hook_cuEventRecord_ptsz(const struct driver *next, CUevent hEvent, CUstream hStream) { return next->cuEventRecord_ptsz(hEvent, hStream); }
CUresult hook_cuEventRecordWithFlags(const struct driver *next, CUevent hEvent, CUstream hStream, unsigned int flags) { return next->cuEventRecordWithFlags(hEvent, hStream, flags); }
CUresult hook_cuEventRecordWithFlags_ptsz(const struct driver *next, CUevent hEvent, CUstream hStream, unsigned int flags) { return next->cuEventRecordWithFlags_ptsz(hEvent, hStream, flags); }
CUresult hook_cuEventSynchronize(const struct driver *next, CUevent hEvent) { return next->cuEventSynchronize(hEvent); }
CUresult hook_cuStreamBeginCapture(const struct driver *next, CUstream hStream) { return next->cuStreamBeginCapture(hStream); }
CUresult hook_cuStreamBeginCapture_ptsz(const struct driver *next, CUstream hStream) { return next->cuStreamBeginCapture_ptsz(hStream); }
CUresult hook_cuStreamBeginCapture_v2(const struct driver *next, CUstream hStream, CUstreamCaptureMode mode) { return next->cuStreamBeginCapture_v2(hStream, mode); }
CUresult hook_cuStreamBeginCapture_v2_ptsz(const struct driver *next, CUstream hStream, CUstreamCaptureMode mode) { return next->cuStreamBeginCapture_v2_ptsz(hStream, mode); }
CUresult hook_cuStreamBeginCaptureToGraph(const struct driver *next, CUstream hStream, CUgraph hGraph, const CUgraphNode *dependencies, const CUgraphEdgeData *dependencyData, size_t numDependencies, CUstreamCaptureMode mode) { return next->cuStreamBeginCaptureToGraph(hStream, hGraph, dependencies, dependencyData, numDependencies, mode); }
CUresult hook_cuStreamBeginCaptureToGraph_ptsz(const struct driver *next, CUstream hStream, CUgraph hGraph, const CUgraphNode *dependencies, const CUgraphEdgeData *dependencyData, size_t numDependencies, CUstreamCaptureMode mode) { return next->cuStreamBeginCaptureToGraph_ptsz(hStream, hGraph, dependencies, dependencyData, numDependencies, mode); }
CUresult hook_cuStreamEndCapture(const struct driver *next, CUstream hStream, CUgraph *phGraph) { return next->cuStreamEndCapture(hStream, phGraph); }
CUresult hook_cuStreamEndCapture_ptsz(const struct driver *next, CUstream hStream, CUgraph *phGraph) { return next->cuStreamEndCapture_ptsz(hStream, phGraph); }
CUresult hook_cuMemcpyDtoH_v2(const struct driver *next, void *dstHost, CUdeviceptr srcDevice, size_t ByteCount) { return next->cuMemcpyDtoH_v2(dstHost, srcDevice, ByteCount); }
CUresult hook_cuMemcpyDtoH_v2_ptds(const struct driver *next, void *dstHost, CUdeviceptr srcDevice, size_t ByteCount) { return next->cuMemcpyDtoH_v2_ptds(dstHost, srcDevice, ByteCount); }
CUresult hook_cuCtxSynchronize(const struct driver *next) { return next->cuCtxSynchronize(); }
