/* The driver's interface as far as we touch it, written down by us: the vendor's header renames functions by macros, so no unit
 * that expands hooks.def may include it. tests/test_prototypes.py compares these with the vendor's. */
#ifndef HAMI_DRIVER_H
#define HAMI_DRIVER_H

#include <stddef.h>
#include <stdint.h>

typedef enum { CUDA_SUCCESS = 0, CUDA_ERROR_INVALID_VALUE = 1, CUDA_ERROR_OUT_OF_MEMORY = 2, CUDA_ERROR_NO_DEVICE = 100,
    CUDA_ERROR_OPERATING_SYSTEM = 304, CUDA_ERROR_NOT_FOUND = 500, CUDA_ERROR_NOT_PERMITTED = 800, CUDA_ERROR_UNKNOWN = 999 } CUresult;
typedef int CUdevice;
typedef unsigned long long CUdeviceptr;
typedef unsigned int CUdeviceptr_v1;
typedef unsigned long long CUmemGenericAllocationHandle;
typedef uint64_t cuuint64_t;
typedef struct CUctx_st *CUcontext;
typedef struct CUmod_st *CUmodule;
typedef struct CUlib_st *CUlibrary;
typedef struct CUkern_st *CUkernel;
typedef struct CUfunc_st *CUfunction;
typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;
typedef struct CUarray_st *CUarray;
typedef struct CUmipmappedArray_st *CUmipmappedArray;
typedef struct CUmemPoolHandle_st *CUmemoryPool;
typedef struct CUgraph_st *CUgraph;
typedef struct CUgraphNode_st *CUgraphNode;
typedef struct CUgraphExec_st *CUgraphExec;
typedef struct CUgreenCtx_st *CUgreenCtx;
typedef struct CUdevResourceDesc_st *CUdevResourceDesc;
typedef struct CUextMemory_st *CUexternalMemory;
typedef struct CUexecAffinityParam_st CUexecAffinityParam;
typedef struct CUctxCreateParams_st CUctxCreateParams;
typedef struct CUgraphNodeParams_st CUgraphNodeParams;
typedef struct CUgraphEdgeData_st CUgraphEdgeData;
typedef struct CUDA_GRAPH_INSTANTIATE_PARAMS_st CUDA_GRAPH_INSTANTIATE_PARAMS;
typedef struct CUgraphExecUpdateResultInfo_st CUgraphExecUpdateResultInfo;
typedef struct CUlaunchAttribute_st CUlaunchAttribute;

typedef unsigned int CUlimit, CUarray_format, CUmemAllocationType, CUmemAllocationHandleType, CUmemLocationType, CUmemPool_attribute,
    CUgraphMem_attribute, CUstreamCaptureStatus, CUstreamCaptureMode, CUgraphNodeType, CUjit_option, CUlibraryOption,
    CUdriverProcAddressQueryResult, CUdevice_attribute, CUgraphExecUpdateResult;

enum { LIMIT_STACK = 0, LIMIT_PRINTF = 1, LIMIT_HEAP = 2 };
enum { POOL_RESERVED_CURRENT = 5 };
enum { GRAPH_USED_CURRENT = 0, GRAPH_RESERVED_CURRENT = 2 };
enum { LOCATION_DEVICE = 1 };
enum { HANDLE_DESCRIPTOR = 1 };
enum { MAP_INTO_ARRAY = 1 };
enum { NODE_KERNEL = 0, NODE_GRAPH = 4, NODE_ALLOC = 10 };
enum { ATTRIBUTE_SMS = 16, ATTRIBUTE_THREADS = 39 };
enum { CAPTURE_RELAXED = 2 };

typedef struct CUuuid_st { char bytes[16]; } CUuuid;
typedef struct CUipcMemHandle_st { char reserved[64]; } CUipcMemHandle;
typedef struct CUDA_ARRAY_DESCRIPTOR_st { size_t Width, Height; CUarray_format Format; unsigned int NumChannels; } CUDA_ARRAY_DESCRIPTOR;
typedef struct CUDA_ARRAY3D_DESCRIPTOR_st {
    size_t Width, Height, Depth; CUarray_format Format; unsigned int NumChannels, Flags;
} CUDA_ARRAY3D_DESCRIPTOR;
typedef struct CUDA_ARRAY_DESCRIPTOR_v1_st { unsigned int Width, Height; CUarray_format Format; unsigned int NumChannels; } CUDA_ARRAY_DESCRIPTOR_v1;
typedef struct CUDA_ARRAY3D_DESCRIPTOR_v1_st {
    unsigned int Width, Height, Depth; CUarray_format Format; unsigned int NumChannels, Flags;
} CUDA_ARRAY3D_DESCRIPTOR_v1;
typedef struct CUDA_ARRAY_MEMORY_REQUIREMENTS_st { size_t size, alignment; unsigned int reserved[4]; } CUDA_ARRAY_MEMORY_REQUIREMENTS;
typedef struct CUmemLocation_st { CUmemLocationType type; int id; } CUmemLocation;
typedef struct CUmemAllocationProp_st {
    CUmemAllocationType type; CUmemAllocationHandleType requestedHandleTypes; CUmemLocation location; void *win32HandleMetaData;
    struct { unsigned char compressionType, gpuDirectRDMACapable; unsigned short usage; unsigned char reserved[4]; } allocFlags;
} CUmemAllocationProp;
typedef struct CUmemPoolProps_st {
    CUmemAllocationType allocType; CUmemAllocationHandleType handleTypes; CUmemLocation location; void *win32SecurityAttributes;
    size_t maxSize; unsigned short usage; unsigned char reserved[54];
} CUmemPoolProps;
typedef struct CUmemPoolPtrExportData_st CUmemPoolPtrExportData;
typedef struct CUarrayMapInfo_st {
    unsigned int resourceType; void *resource; unsigned int subresourceType; unsigned long long subresource[4];
    unsigned int memOperationType, memHandleType; CUmemGenericAllocationHandle memHandle;
    unsigned long long offset; unsigned int deviceBitMask, flags, reserved[2];
} CUarrayMapInfo;
typedef struct CUlaunchConfig_st {
    unsigned int gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes;
    CUstream hStream; CUlaunchAttribute *attrs; unsigned int numAttrs;
} CUlaunchConfig;
typedef struct CUDA_LAUNCH_PARAMS_st {
    CUfunction function; unsigned int gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes;
    CUstream hStream; void **kernelParams;
} CUDA_LAUNCH_PARAMS;
typedef struct CUDA_KERNEL_NODE_PARAMS_st {
    CUfunction func; unsigned int gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes;
    void **kernelParams, **extra;
} CUDA_KERNEL_NODE_PARAMS_v1;
typedef struct CUmemAccessDesc_st { CUmemLocation location; unsigned int flags; } CUmemAccessDesc;
typedef struct CUDA_MEM_ALLOC_NODE_PARAMS_st {
    CUmemPoolProps poolProps; const CUmemAccessDesc *accessDescs; size_t accessDescCount, bytesize; CUdeviceptr dptr;
} CUDA_MEM_ALLOC_NODE_PARAMS;

/* The management library, of which we touch little. */
typedef int nvmlReturn_t;
typedef struct nvmlDevice_st *nvmlDevice_t;
typedef struct nvmlMemory_st { unsigned long long total, free, used; } nvmlMemory_t;
typedef struct nvmlMemory_v2_st { unsigned int version; unsigned long long total, reserved, free, used; } nvmlMemory_v2_t;
typedef struct nvmlUtilization_st { unsigned int gpu, memory; } nvmlUtilization_t;
typedef struct nvmlProcessUtilizationSample_st {
    unsigned int pid; unsigned long long timeStamp; unsigned int smUtil, memUtil, encUtil, decUtil;
} nvmlProcessUtilizationSample_t;
typedef struct nvmlProcessInfo_v1_st { unsigned int pid; unsigned long long usedGpuMemory; } nvmlProcessInfo_v1_t;
typedef struct nvmlProcessInfo_v2_st {
    unsigned int pid; unsigned long long usedGpuMemory; unsigned int gpuInstanceId, computeInstanceId;
} nvmlProcessInfo_v2_t, nvmlProcessInfo_t;
typedef struct nvmlProcessDetail_st {
    unsigned int pid; unsigned long long usedGpuMemory; unsigned int gpuInstanceId, computeInstanceId;
    unsigned long long usedGpuCcProtectedMemory;
} nvmlProcessDetail_v1_t;
typedef struct nvmlProcessDetailList_st {
    unsigned int version, mode, numProcArrayEntries; nvmlProcessDetail_v1_t *procArray;
} nvmlProcessDetailList_t;
typedef struct nvmlProcessUtilizationInfo_st {
    unsigned long long timeStamp; unsigned int pid, smUtil, memUtil, encUtil, decUtil, jpgUtil, ofaUtil;
} nvmlProcessUtilizationInfo_v1_t;
typedef struct nvmlProcessesUtilizationInfo_st {
    unsigned int version, processSamplesCount; unsigned long long lastSeenTimeStamp; nvmlProcessUtilizationInfo_v1_t *procUtilArray;
} nvmlProcessesUtilizationInfo_t;
enum { NVML_SUCCESS = 0, NVML_ERROR_INVALID_ARGUMENT = 2, NVML_ERROR_NOT_FOUND = 6, NVML_ERROR_LIBRARY_NOT_FOUND = 12,
    NVML_ERROR_FUNCTION_NOT_FOUND = 13 };

#endif
