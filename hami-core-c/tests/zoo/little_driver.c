/* As much of a driver as one allocation takes, for machines that the simulated one is not built for. */
#include <stddef.h>
#include <string.h>

#define MOST 16384ull
static unsigned long long used;
static int context;
static __thread void *current;

int cuInit(unsigned flags) { return (int)flags; }
int cuDeviceGetCount(int *n) { *n = 1; return 0; }
int cuDeviceGet(int *d, int ordinal) { *d = ordinal; return ordinal ? 101 : 0; }
int cuDeviceGetUuid(char *uuid, int d) { memset(uuid, 0x11 + d, 16); return 0; }
int cuDevicePrimaryCtxRetain(void **c, int d) { *c = &context; return d ? 101 : 0; }
int cuCtxSetCurrent(void *c) { current = c; return 0; }
int cuCtxGetCurrent(void **c) { *c = current; return 0; }
int cuCtxGetDevice(int *d) { *d = 0; return current ? 0 : 201; }

int cuMemAlloc_v2(unsigned long long *p, size_t bytes)
{
    if (bytes > (MOST << 20) - used)
        return 2;
    used += bytes;
    *p = 0x700000000000ull + used;
    return 0;
}

int cuMemFree_v2(unsigned long long p) { return p ? 0 : 1; }
int cuMemGetInfo_v2(size_t *free, size_t *total) { *total = MOST << 20; *free = *total - used; return 0; }
