/* Finding functions, and the driver's start. */
#include "hooks.h"
#include "runtime.h"

CUresult hook_cuInit(const struct driver *next, unsigned int Flags)
{
    enum stage stage = runtime_start();
    if (stage == STAGE_CLOSED)
        return CUDA_ERROR_OPERATING_SYSTEM;
    CUresult status = next->cuInit(Flags);
    if (status == CUDA_SUCCESS && stage == STAGE_READY)
        runtime_map(process(), next);
    return status;
}

CUresult hook_cuGetProcAddress(const struct driver *next, const char *symbol, void **pfn, int cudaVersion, cuuint64_t flags)
{
    CUresult status = next->cuGetProcAddress(symbol, pfn, cudaVersion, flags);
    if (status == CUDA_SUCCESS && pfn && *pfn)
        *pfn = diverted(next, *pfn, symbol, cudaVersion, flags);
    return status;
}

CUresult hook_cuGetProcAddress_v2(const struct driver *next, const char *symbol, void **pfn, int cudaVersion, cuuint64_t flags,
                                  CUdriverProcAddressQueryResult *symbolStatus)
{
    CUresult status = next->cuGetProcAddress_v2(symbol, pfn, cudaVersion, flags, symbolStatus);
    if (status == CUDA_SUCCESS && pfn && *pfn)
        *pfn = diverted(next, *pfn, symbol, cudaVersion, flags);
    return status;
}

CUresult hook_cuGetProcAddress_v2_ptsz(const struct driver *next, const char *symbol, void **pfn, int cudaVersion, cuuint64_t flags,
                                       CUdriverProcAddressQueryResult *symbolStatus)
{
    CUresult status = next->cuGetProcAddress_v2_ptsz(symbol, pfn, cudaVersion, flags, symbolStatus);
    if (status == CUDA_SUCCESS && pfn && *pfn)
        *pfn = diverted(next, *pfn, symbol, cudaVersion, flags | 2);
    return status;
}
