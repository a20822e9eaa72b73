/* A GPU program on strings: one command per line of standard input, one line of answer each: the driver's code and numbers. Built
 * twice: linked with the driver (DIRECT), or looking everything up, by dlsym or by cuGetProcAddress as $HAMI_CLIENT_LOOKUP says. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "driver.h"

#define FUNCTIONS(F)                                                                                                                    \
    F(cuInit, 2000, (unsigned), "")                                                                                                     \
    F(cuDeviceGet, 2000, (CUdevice *, int), "")                                                                                         \
    F(cuDeviceGetCount, 2000, (int *), "")                                                                                              \
    F(cuDevicePrimaryCtxRetain, 7000, (CUcontext *, CUdevice), "")                                                                      \
    F(cuDevicePrimaryCtxRelease_v2, 11000, (CUdevice), "")                                                                              \
    F(cuDevicePrimaryCtxReset_v2, 11000, (CUdevice), "")                                                                                \
    F(cuCtxSetCurrent, 4000, (CUcontext), "")                                                                                           \
    F(cuCtxPushCurrent_v2, 4000, (CUcontext), "")                                                                                       \
    F(cuCtxPopCurrent_v2, 4000, (CUcontext *), "")                                                                                      \
    F(cuCtxCreate_v2, 3020, (CUcontext *, unsigned, CUdevice), "")                                                                      \
    F(cuCtxDestroy_v2, 4000, (CUcontext), "")                                                                                           \
    F(cuCtxSetLimit, 3010, (CUlimit, size_t), "")                                                                                       \
    F(cuCtxSynchronize, 2000, (void), "")                                                                                               \
    F(cuMemAlloc_v2, 3020, (CUdeviceptr *, size_t), "")                                                                                 \
    F(cuMemAllocPitch_v2, 3020, (CUdeviceptr *, size_t *, size_t, size_t, unsigned), "")                                                \
    F(cuMemAllocManaged, 6000, (CUdeviceptr *, size_t, unsigned), "")                                                                   \
    F(cuMemFree_v2, 3020, (CUdeviceptr), "")                                                                                            \
    F(cuMemGetInfo_v2, 3020, (size_t *, size_t *), "")                                                                                  \
    F(cuDeviceTotalMem_v2, 3020, (size_t *, CUdevice), "")                                                                              \
    F(cuMemAllocAsync, 11020, (CUdeviceptr *, size_t, CUstream), "_ptsz")                                                               \
    F(cuMemFreeAsync, 11020, (CUdeviceptr, CUstream), "_ptsz")                                                                          \
    F(cuMemAllocFromPoolAsync, 11020, (CUdeviceptr *, size_t, CUmemoryPool, CUstream), "_ptsz")                                         \
    F(cuMemPoolCreate, 11020, (CUmemoryPool *, const CUmemPoolProps *), "")                                                             \
    F(cuMemPoolDestroy, 11020, (CUmemoryPool), "")                                                                                      \
    F(cuMemPoolSetAttribute, 11020, (CUmemoryPool, CUmemPool_attribute, void *), "")                                                    \
    F(cuDeviceGetMemPool, 11020, (CUmemoryPool *, CUdevice), "")                                                                        \
    F(cuMemCreate, 10020, (CUmemGenericAllocationHandle *, size_t, const CUmemAllocationProp *, unsigned long long), "")                \
    F(cuMemRelease, 10020, (CUmemGenericAllocationHandle), "")                                                                          \
    F(cuMemAddressReserve, 10020, (CUdeviceptr *, size_t, size_t, CUdeviceptr, unsigned long long), "")                                 \
    F(cuMemMap, 10020, (CUdeviceptr, size_t, size_t, CUmemGenericAllocationHandle, unsigned long long), "")                             \
    F(cuMemUnmap, 10020, (CUdeviceptr, size_t), "")                                                                                     \
    F(cuMemExportToShareableHandle, 10020, (void *, CUmemGenericAllocationHandle, CUmemAllocationHandleType, unsigned long long), "")   \
    F(cuMemImportFromShareableHandle, 10020, (CUmemGenericAllocationHandle *, void *, CUmemAllocationHandleType), "")                   \
    F(cuIpcGetMemHandle, 4010, (CUipcMemHandle *, CUdeviceptr), "")                                                                     \
    F(cuIpcOpenMemHandle_v2, 11000, (CUdeviceptr *, CUipcMemHandle, unsigned), "")                                                      \
    F(cuIpcCloseMemHandle, 4010, (CUdeviceptr), "")                                                                                     \
    F(cuArrayCreate_v2, 3020, (CUarray *, const CUDA_ARRAY_DESCRIPTOR *), "")                                                           \
    F(cuArray3DCreate_v2, 3020, (CUarray *, const CUDA_ARRAY3D_DESCRIPTOR *), "")                                                       \
    F(cuArrayDestroy, 2000, (CUarray), "")                                                                                              \
    F(cuMipmappedArrayCreate, 5000, (CUmipmappedArray *, const CUDA_ARRAY3D_DESCRIPTOR *, unsigned), "")                                \
    F(cuMipmappedArrayDestroy, 5000, (CUmipmappedArray), "")                                                                            \
    F(cuModuleLoadData, 2000, (CUmodule *, const void *), "")                                                                           \
    F(cuModuleGetFunction, 2000, (CUfunction *, CUmodule, const char *), "")                                                            \
    F(cuGraphCreate, 10000, (CUgraph *, unsigned), "")                                                                                  \
    F(cuGraphAddKernelNode, 10000, (CUgraphNode *, CUgraph, const CUgraphNode *, size_t, const CUDA_KERNEL_NODE_PARAMS_v1 *), "")       \
    F(cuGraphInstantiateWithFlags, 11040, (CUgraphExec *, CUgraph, unsigned long long), "")                                             \
    F(cuGraphLaunch, 10000, (CUgraphExec, CUstream), "_ptsz")                                                                           \
    F(cuStreamCreate, 2000, (CUstream *, unsigned), "")                                                                                 \
    F(cuLaunchCooperativeKernelMultiDevice, 9000, (CUDA_LAUNCH_PARAMS *, unsigned, unsigned), "")                                       \
    F(cuLaunchKernel, 4000, (CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CUstream, void **, void **), "_ptsz")

#ifdef DIRECT
#define F(name, version, params, suffix) extern CUresult name params;
FUNCTIONS(F)
#undef F
#endif

static struct {
#define F(name, version, params, suffix) CUresult(*name) params;
    FUNCTIONS(F)
#undef F
} gpu;

#ifndef DIRECT
static void *base_name(const char *name, char *out)
{
    size_t n = strlen(name);
    strcpy(out, name);
    if (n > 3 && out[n - 3] == '_' && out[n - 2] == 'v')
        out[n - 3] = 0;
    return out;
}
#endif

static void look_up(void)
{
#ifdef DIRECT
#define F(name, version, params, suffix) gpu.name = name;
    FUNCTIONS(F)
#undef F
#else
    const char *how = getenv("HAMI_CLIENT_LOOKUP"), *path = getenv("HAMI_CLIENT_DRIVER");
    int per_thread = how && strstr(how, "ptsz") != NULL;
    void *driver = dlopen(path ? path : "libcuda.so.1", RTLD_NOW);
    char name_room[96];
    if (!driver) {
        fprintf(stderr, "client: %s\n", dlerror());
        exit(3);
    }
    CUresult (*ask)(const char *, void **, int, cuuint64_t, CUdriverProcAddressQueryResult *) = NULL;
    if (how && strstr(how, "gpa"))
        *(void **)&ask = dlsym(driver, "cuGetProcAddress_v2");
#define F(name, version, params, suffix)                                                        \
    if (ask)                                                                                    \
        ask(base_name(#name, name_room), (void **)&gpu.name, version, per_thread ? 2 : 0, NULL); \
    else {                                                                                      \
        sprintf(name_room, "%s%s", #name, per_thread ? suffix : "");                            \
        *(void **)&gpu.name = dlsym(driver, name_room); \
    }
    FUNCTIONS(F)
#undef F
#endif
}

#define MOST 4096
static CUdeviceptr blocks[MOST];
static size_t sizes[MOST];
static CUmemGenericAllocationHandle handles[MOST];
static void *things[MOST];
static CUcontext contexts[64];
static CUmemoryPool pools[64];

static size_t bytes_of(const char *text)
{
    char *end;
    double n = strtod(text, &end);
    return (size_t)(*end == 'k' ? n * 1024 : *end == 'b' ? n : n * 1048576);
}

static void answer(CUresult status, unsigned long long a, unsigned long long b)
{
    printf("%d %llu %llu\n", (int)status, a, b);
    fflush(stdout);
}

static void pause_ms(double ms)
{
    struct timespec t = {(time_t)(ms / 1000), (long)((ms - 1000.0 * (time_t)(ms / 1000)) * 1e6)};
    nanosleep(&t, NULL);
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int send_fd(int socket_fd, int fd)
{
    char byte = 'f', room[CMSG_SPACE(sizeof(int))] = {0};
    struct iovec io = {&byte, 1};
    struct msghdr m = {.msg_iov = &io, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(c), &fd, sizeof fd);
    return (int)sendmsg(socket_fd, &m, 0);
}

static int receive_fd(int socket_fd)
{
    char byte, room[CMSG_SPACE(sizeof(int))];
    struct iovec io = {&byte, 1};
    struct msghdr m = {.msg_iov = &io, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
    int fd = -1;
    if (recvmsg(socket_fd, &m, 0) > 0 && CMSG_FIRSTHDR(&m))
        memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof fd);
    return fd;
}

static void *churn(void *argument)
{
    unsigned seed = (unsigned)(uintptr_t)argument;
    gpu.cuCtxSetCurrent(contexts[0]);
    CUdeviceptr mine[16] = {0};
    for (int i = 0; i < 2000; i++) {
        unsigned at = (unsigned)rand_r(&seed) % 16;
        if (mine[at]) {
            gpu.cuMemFree_v2(mine[at]);
            mine[at] = 0;
        } else if (gpu.cuMemAlloc_v2(&mine[at], ((size_t)rand_r(&seed) % 8 + 1) << 20) != CUDA_SUCCESS)
            mine[at] = 0;
    }
    for (int i = 0; i < 16; i++)
        if (mine[i])
            gpu.cuMemFree_v2(mine[i]);
    return NULL;
}

static void run(char **word, int words)
{
    const char *what = word[0];
    const char *one = words > 1 ? word[1] : "0", *two = words > 2 ? word[2] : "0", *three = words > 3 ? word[3] : "0";
    int i = atoi(one);
    CUresult s = CUDA_SUCCESS;
    if (!strcmp(what, "init"))
        answer(gpu.cuInit(0), 0, 0);
    else if (!strcmp(what, "context")) {            /* DEVICE: primary, made current */
        s = gpu.cuDevicePrimaryCtxRetain(&contexts[i], i);
        if (s == CUDA_SUCCESS)
            s = gpu.cuCtxSetCurrent(contexts[i]);
        answer(s, 0, 0);
    } else if (!strcmp(what, "push"))
        answer(gpu.cuCtxPushCurrent_v2(contexts[i]), 0, 0);
    else if (!strcmp(what, "pop")) {
        CUcontext old;
        answer(gpu.cuCtxPopCurrent_v2(&old), 0, 0);
    } else if (!strcmp(what, "leave"))
        answer(gpu.cuDevicePrimaryCtxRelease_v2(i), 0, 0);
    else if (!strcmp(what, "reset"))
        answer(gpu.cuDevicePrimaryCtxReset_v2(i), 0, 0);
    else if (!strcmp(what, "newcontext"))           /* KEY DEVICE */
        answer(gpu.cuCtxCreate_v2(&contexts[i], 0, atoi(two)), 0, 0);
    else if (!strcmp(what, "endcontext"))
        answer(gpu.cuCtxDestroy_v2(contexts[i]), 0, 0);
    else if (!strcmp(what, "limit"))                /* LIMIT SIZE */
        answer(gpu.cuCtxSetLimit((CUlimit)i, bytes_of(two)), 0, 0);
    else if (!strcmp(what, "alloc")) {              /* KEY SIZE */
        s = gpu.cuMemAlloc_v2(&blocks[i], bytes_of(two));
        answer(s, blocks[i], 0);
    } else if (!strcmp(what, "managed"))
        answer(gpu.cuMemAllocManaged(&blocks[i], bytes_of(two), 1), 0, 0);
    else if (!strcmp(what, "pitch")) {              /* KEY WIDTH HEIGHT */
        size_t pitch = 0;
        s = gpu.cuMemAllocPitch_v2(&blocks[i], &pitch, bytes_of(two), (size_t)atoll(three), 4);
        answer(s, pitch, 0);
    } else if (!strcmp(what, "free"))
        answer(gpu.cuMemFree_v2(blocks[i]), 0, 0);
    else if (!strcmp(what, "freeat"))
        answer(gpu.cuMemFree_v2(strtoull(one, NULL, 0)), 0, 0);
    else if (!strcmp(what, "async"))
        answer(gpu.cuMemAllocAsync(&blocks[i], bytes_of(two), NULL), blocks[i], 0);
    else if (!strcmp(what, "frompool"))             /* KEY SIZE POOL */
        answer(gpu.cuMemAllocFromPoolAsync(&blocks[i], bytes_of(two), pools[atoi(three)], NULL), blocks[i], 0);
    else if (!strcmp(what, "freeasync"))
        answer(gpu.cuMemFreeAsync(blocks[i], NULL), 0, 0);
    else if (!strcmp(what, "pool")) {               /* KEY DEVICE */
        CUmemPoolProps props = {.allocType = 1, .location = {LOCATION_DEVICE, atoi(two)}};
        answer(gpu.cuMemPoolCreate(&pools[i], &props), 0, 0);
    } else if (!strcmp(what, "endpool"))
        answer(gpu.cuMemPoolDestroy(pools[i]), 0, 0);
    else if (!strcmp(what, "threshold")) {          /* DEVICE SIZE */
        uint64_t keep = bytes_of(two);
        CUmemoryPool pool = NULL;
        s = gpu.cuDeviceGetMemPool(&pool, i);
        answer(s ? s : gpu.cuMemPoolSetAttribute(pool, 4, &keep), 0, 0);
    } else if (!strcmp(what, "sync"))
        answer(gpu.cuCtxSynchronize(), 0, 0);
    else if (!strcmp(what, "info")) {
        size_t free = 0, total = 0;
        s = gpu.cuMemGetInfo_v2(&free, &total);
        answer(s, free, total);
    } else if (!strcmp(what, "total")) {
        size_t total = 0;
        s = gpu.cuDeviceTotalMem_v2(&total, i);
        answer(s, total, 0);
    } else if (!strcmp(what, "create")) {           /* KEY SIZE DEVICE */
        CUmemAllocationProp prop = {.type = 1, .requestedHandleTypes = HANDLE_DESCRIPTOR, .location = {LOCATION_DEVICE, atoi(three)}};
        answer(gpu.cuMemCreate(&handles[i], bytes_of(two), &prop, 0), 0, 0);
    } else if (!strcmp(what, "release"))
        answer(gpu.cuMemRelease(handles[i]), 0, 0);
    else if (!strcmp(what, "map")) {                /* KEY SIZE HANDLE */
        sizes[i] = bytes_of(two);
        s = gpu.cuMemAddressReserve(&blocks[i], sizes[i], 0, 0, 0);
        answer(s ? s : gpu.cuMemMap(blocks[i], sizes[i], 0, handles[atoi(three)], 0), 0, 0);
    } else if (!strcmp(what, "unmap"))
        answer(gpu.cuMemUnmap(blocks[i], sizes[i]), 0, 0);
    else if (!strcmp(what, "export")) {             /* HANDLE SOCKET: send it to whoever listens there */
        int fd = -1, to = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        struct sockaddr_un at = {.sun_family = AF_UNIX};
        strncpy(at.sun_path, two, sizeof at.sun_path - 1);
        s = gpu.cuMemExportToShareableHandle(&fd, handles[i], HANDLE_DESCRIPTOR, 0);
        if (s == CUDA_SUCCESS && (connect(to, (struct sockaddr *)&at, sizeof at) != 0 || send_fd(to, fd) < 0))
            s = CUDA_ERROR_UNKNOWN;
        if (fd >= 0)
            close(fd);
        close(to);
        answer(s, 0, 0);
    } else if (!strcmp(what, "import")) {           /* HANDLE SOCKET: listen, take one */
        int from = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), fd = -1;
        struct sockaddr_un at = {.sun_family = AF_UNIX};
        strncpy(at.sun_path, two, sizeof at.sun_path - 1);
        if (bind(from, (struct sockaddr *)&at, sizeof at) == 0 && listen(from, 1) == 0) {
            printf("listening\n");
            fflush(stdout);
            int peer = accept(from, NULL, NULL);
            fd = receive_fd(peer);
            close(peer);
        }
        s = gpu.cuMemImportFromShareableHandle(&handles[i], (void *)(intptr_t)fd, HANDLE_DESCRIPTOR);
        if (fd >= 0 && strcmp(three, "keep") != 0)
            close(fd);
        close(from);
        answer(s, 0, 0);
    } else if (!strcmp(what, "ipcget")) {           /* BLOCK FILE */
        CUipcMemHandle h;
        s = gpu.cuIpcGetMemHandle(&h, blocks[i]);
        FILE *f = fopen(two, "wb");
        fwrite(&h, sizeof h, 1, f);
        fclose(f);
        answer(s, 0, 0);
    } else if (!strcmp(what, "ipcopen")) {
        CUipcMemHandle h;
        FILE *f = fopen(two, "rb");
        if (fread(&h, sizeof h, 1, f) != 1)
            exit(4);
        fclose(f);
        answer(gpu.cuIpcOpenMemHandle_v2(&blocks[i], h, 1), 0, 0);
    } else if (!strcmp(what, "ipcclose"))
        answer(gpu.cuIpcCloseMemHandle(blocks[i]), 0, 0);
    else if (!strcmp(what, "array")) {              /* KEY WIDTH HEIGHT, floats */
        CUDA_ARRAY_DESCRIPTOR d = {(size_t)atoll(two), (size_t)atoll(three), 0x20, 1};
        answer(gpu.cuArrayCreate_v2((CUarray *)&things[i], &d), 0, 0);
    } else if (!strcmp(what, "array3d")) {
        CUDA_ARRAY3D_DESCRIPTOR d = {(size_t)atoll(two), (size_t)atoll(two), (size_t)atoll(three), 0x20, 4, 0};
        answer(gpu.cuArray3DCreate_v2((CUarray *)&things[i], &d), 0, 0);
    } else if (!strcmp(what, "endarray"))
        answer(gpu.cuArrayDestroy(things[i]), 0, 0);
    else if (!strcmp(what, "mipmap")) {
        CUDA_ARRAY3D_DESCRIPTOR d = {(size_t)atoll(two), (size_t)atoll(two), 0, 0x20, 4, 0};
        answer(gpu.cuMipmappedArrayCreate((CUmipmappedArray *)&things[i], &d, (unsigned)atoi(three)), 0, 0);
    } else if (!strcmp(what, "endmipmap"))
        answer(gpu.cuMipmappedArrayDestroy(things[i]), 0, 0);
    else if (!strcmp(what, "churn")) {              /* THREADS */
        pthread_t t[64];
        for (int n = 0; n < i && n < 64; n++)
            pthread_create(&t[n], NULL, churn, (void *)(uintptr_t)(n + 1));
        for (int n = 0; n < i && n < 64; n++)
            pthread_join(t[n], NULL);
        answer(s, 0, 0);
    } else if (!strcmp(what, "grab")) {             /* SIZE: until refused; how many */
        unsigned long long n = 0;
        CUdeviceptr p;
        while ((s = gpu.cuMemAlloc_v2(&p, bytes_of(one))) == CUDA_SUCCESS)
            n++;
        answer(s, n, 0);
    } else if (!strcmp(what, "grind")) {            /* SECONDS SIZE: allocate and free for so long */
        double end = now() + atof(one);
        unsigned long long n = 0, refused = 0;
        unsigned seed = (unsigned)getpid();
        CUdeviceptr mine[8] = {0};
        while (now() < end) {
            unsigned at = (unsigned)rand_r(&seed) % 8;
            if (mine[at]) {
                gpu.cuMemFree_v2(mine[at]);
                mine[at] = 0;
            } else if (gpu.cuMemAlloc_v2(&mine[at], bytes_of(two)) != CUDA_SUCCESS) {
                mine[at] = 0;
                refused++;
            }
            n++;
            if (n % 64 == 0)
                sched_yield();
        }
        for (int k = 0; k < 8; k++)
            if (mine[k])
                gpu.cuMemFree_v2(mine[k]);
        answer(s, n, refused);
    } else if (!strcmp(what, "work")) {             /* SECONDS MICROSECONDS: launches of so long each */
        CUmodule module;
        CUfunction f = NULL;
        s = gpu.cuModuleLoadData(&module, "spin");
        if (s == CUDA_SUCCESS)
            s = gpu.cuModuleGetFunction(&f, module, words > 3 ? three : "spin");
        double end = now() + atof(one);
        unsigned long long n = 0, ns = (unsigned long long)(atof(two) * 1000);
        void *parameters[] = {&ns};
        while (s == CUDA_SUCCESS && now() < end) {
            s = gpu.cuLaunchKernel(f, 1, 1, 1, 32, 1, 1, 0, NULL, parameters, NULL);
            if (++n % (ns >= 20000000 ? 1 : 20000000 / (ns ? ns : 1)) == 0)
                gpu.cuCtxSynchronize();
        }
        gpu.cuCtxSynchronize();
        answer(s, n, 0);
    } else if (!strcmp(what, "graph")) {            /* COUNT KERNEL: launch a graph of so many, one after another */
        CUmodule module;
        CUgraph graph;
        CUgraphNode node, before = NULL;
        CUgraphExec exec;
        CUDA_KERNEL_NODE_PARAMS_v1 k = {.gridDimX = 1, .gridDimY = 1, .gridDimZ = 1, .blockDimX = 32, .blockDimY = 1, .blockDimZ = 1};
        s = gpu.cuModuleLoadData(&module, "spin");
        s = s ? s : gpu.cuModuleGetFunction(&k.func, module, two);
        s = s ? s : gpu.cuGraphCreate(&graph, 0);
        for (int n = 0; s == CUDA_SUCCESS && n < i; n++, before = node)
            s = gpu.cuGraphAddKernelNode(&node, graph, before ? &before : NULL, before != NULL, &k);
        s = s ? s : gpu.cuGraphInstantiateWithFlags(&exec, graph, 0);
        answer(s ? s : gpu.cuGraphLaunch(exec, NULL), 0, 0);
    } else if (!strcmp(what, "together")) {         /* COUNT KERNEL: on cards 0 and 1 in one call, so often; answers milliseconds */
        CUDA_LAUNCH_PARAMS each[2];
        double began = now();
        for (int n = 0; n < 2 && s == CUDA_SUCCESS; n++) {
            CUmodule module;
            each[n] = (CUDA_LAUNCH_PARAMS){.gridDimX = 1, .gridDimY = 1, .gridDimZ = 1, .blockDimX = 32, .blockDimY = 1, .blockDimZ = 1};
            gpu.cuCtxSetCurrent(contexts[n]);
            s = gpu.cuStreamCreate(&each[n].hStream, 1);
            s = s ? s : gpu.cuModuleLoadData(&module, "spin");
            s = s ? s : gpu.cuModuleGetFunction(&each[n].function, module, two);
        }
        for (int n = 0; n < i && s == CUDA_SUCCESS; n++)
            s = gpu.cuLaunchCooperativeKernelMultiDevice(each, 2, 0);
        answer(s, (unsigned long long)(1000 * (now() - began)), 0);
    } else if (!strcmp(what, "fork") || !strcmp(what, "rawclone")) {    /* the child takes the commands from here on */
        fflush(stdout);
        pid_t child = what[0] == 'f' ? fork() : (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
        if (child) {
            int code;
            waitpid(child, &code, 0);
            answer(CUDA_SUCCESS, (unsigned)code, 0);
        } else
            answer(CUDA_SUCCESS, 0, 0);
    } else if (!strcmp(what, "stop"))
        exit(0);
    else if (!strcmp(what, "vanish"))
        _exit(0);
    else if (!strcmp(what, "closeall")) {
        for (int fd = 3; fd < 1024; fd++)
            close(fd);
        answer(s, 0, 0);
    } else if (!strcmp(what, "sleep")) {
        pause_ms(1000 * atof(one));
        answer(s, 0, 0);
    } else
        printf("? %s\n", what), fflush(stdout);
}

int main(void)
{
    char line[512];
    setvbuf(stdin, NULL, _IONBF, 0);
    look_up();
    while (fgets(line, sizeof line, stdin)) {
        char *word[8];
        int n = 0;
        for (char *w = strtok(line, " \n"); w && n < 8; w = strtok(NULL, " \n"))
            word[n++] = w;
        if (n)
            run(word, n);
    }
    return 0;
}
