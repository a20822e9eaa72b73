/* Steps that create, free, hand over and tell memory. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "probe.h"

static size_t sizes[PROBE_MOST];
static CUmemGenericAllocationHandle handles[PROBE_MOST];
static CUarray arrays[PROBE_MOST];
static CUmipmappedArray mipmaps[PROBE_MOST];
static CUmemoryPool pools[64];
static CUmodule modules[64];
static CUlibrary libraries[64];
static CUgraph graphs[64];
static CUgraphExec executables[64];
static void *host_blocks[64];

static int at(char **word) { return atoi(word[1]) % PROBE_MOST; }

/* ---- contexts ---------------------------------------------------------------------------------------------------------------- */

static void init(char **word)
{
    (void)word;
    answer(GPU(cuInit)(0), 0, 0);
}

static void context(char **word)            /* DEVICE: its primary one, made current */
{
    CUcontext *c = &contexts[at(word) % 64];
    CUresult s = GPU(cuDevicePrimaryCtxRetain)(c, at(word));
    answer(s ? s : GPU(cuCtxSetCurrent)(*c), 0, 0);
}

static void retain(char **word) { answer(GPU(cuDevicePrimaryCtxRetain)(&contexts[at(word) % 64], at(word)), 0, 0); }
static void leave(char **word) { answer(GPU(cuDevicePrimaryCtxRelease)(at(word)), 0, 0); }
static void reset(char **word) { answer(GPU(cuDevicePrimaryCtxReset)(at(word)), 0, 0); }

static void new_context(char **word)        /* KEY DEVICE, made current */
{
    answer(GPU(cuCtxCreate)(&contexts[at(word) % 64], NULL, 0, atoi(word[2])), 0, 0);
}

static void end_context(char **word) { answer(GPU(cuCtxDestroy)(contexts[at(word) % 64]), 0, 0); }

static void no_context(char **word)
{
    (void)word;
    answer(GPU(cuCtxSetCurrent)(NULL), 0, 0);
}

static void current(char **word) { answer(GPU(cuCtxSetCurrent)(contexts[at(word) % 64]), 0, 0); }
static void set_limit(char **word) { answer(GPU(cuCtxSetLimit)((CUlimit)at(word), bytes_of(word[2])), 0, 0); }

static void sync_all(char **word)
{
    (void)word;
    answer(GPU(cuCtxSynchronize)(), 0, 0);
}

/* ---- blocks ------------------------------------------------------------------------------------------------------------------ */

static void alloc(char **word)              /* KEY SIZE */
{
    CUresult s = GPU(cuMemAlloc)(&blocks[at(word)], bytes_of(word[2]));
    answer(s, blocks[at(word)], 0);
}

static void managed(char **word) { answer(GPU(cuMemAllocManaged)(&blocks[at(word)], bytes_of(word[2]), CU_MEM_ATTACH_GLOBAL), 0, 0); }

static void pitch(char **word)              /* KEY WIDTH HEIGHT ELEMENT */
{
    size_t pitched = 0;
    CUresult s = GPU(cuMemAllocPitch)(&blocks[at(word)], &pitched, bytes_of(word[2]), (size_t)atoll(word[3]), (unsigned)atoi(word[4]));
    answer(s, pitched, 0);
}

static void free_block(char **word) { answer(GPU(cuMemFree)(blocks[at(word)]), 0, 0); }
static void free_looked(char **word) { answer(LOOKED(cuMemFree)(blocks[at(word)]), 0, 0); }
static void free_at(char **word) { answer(GPU(cuMemFree)(strtoull(word[1], NULL, 0)), 0, 0); }
static void async(char **word) { answer(GPU(cuMemAllocAsync)(&blocks[at(word)], bytes_of(word[2]), NULL), blocks[at(word)], 0); }
static void free_async(char **word) { answer(GPU(cuMemFreeAsync)(blocks[at(word)], NULL), 0, 0); }

static void from_pool(char **word)          /* KEY SIZE POOL */
{
    answer(GPU(cuMemAllocFromPoolAsync)(&blocks[at(word)], bytes_of(word[2]), pools[atoi(word[3]) % 64], NULL), 0, 0);
}

static void new_pool(char **word)           /* KEY DEVICE */
{
    CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED, .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = atoi(word[2])}};
    answer(GPU(cuMemPoolCreate)(&pools[at(word) % 64], &props), 0, 0);
}

static void end_pool(char **word) { answer(GPU(cuMemPoolDestroy)(pools[at(word) % 64]), 0, 0); }

static void threshold(char **word)          /* DEVICE SIZE: what its own pool keeps */
{
    cuuint64_t keep = bytes_of(word[2]);
    CUmemoryPool pool = NULL;
    CUresult s = GPU(cuDeviceGetMemPool)(&pool, at(word));
    answer(s ? s : GPU(cuMemPoolSetAttribute)(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep), 0, 0);
}

static void host(char **word) { answer(GPU(cuMemHostAlloc)(&host_blocks[at(word) % 64], bytes_of(word[2]), 0), 0, 0); }
static void free_host(char **word) { answer(GPU(cuMemFreeHost)(host_blocks[at(word) % 64]), 0, 0); }

static void is_managed(char **word)         /* KEY */
{
    unsigned is = 9;
    CUresult s = GPU(cuPointerGetAttribute)(&is, CU_POINTER_ATTRIBUTE_IS_MANAGED, blocks[at(word)]);
    answer(s, is, 0);
}

/* ---- arrays, code, graphs ----------------------------------------------------------------------------------------------------- */

static void array(char **word)              /* KEY WIDTH HEIGHT, floats */
{
    CUDA_ARRAY_DESCRIPTOR d = {(size_t)atoll(word[2]), (size_t)atoll(word[3]), CU_AD_FORMAT_FLOAT, 1};
    answer(GPU(cuArrayCreate)(&arrays[at(word)], &d), 0, 0);
}

static void array3d(char **word)            /* KEY SIDE DEPTH, four floats */
{
    CUDA_ARRAY3D_DESCRIPTOR d = {(size_t)atoll(word[2]), (size_t)atoll(word[2]), (size_t)atoll(word[3]), CU_AD_FORMAT_FLOAT, 4, 0};
    answer(GPU(cuArray3DCreate)(&arrays[at(word)], &d), 0, 0);
}

static void end_array(char **word) { answer(GPU(cuArrayDestroy)(arrays[at(word)]), 0, 0); }

static void mipmap(char **word)             /* KEY SIDE LEVELS */
{
    CUDA_ARRAY3D_DESCRIPTOR d = {(size_t)atoll(word[2]), (size_t)atoll(word[2]), 0, CU_AD_FORMAT_FLOAT, 4, 0};
    answer(GPU(cuMipmappedArrayCreate)(&mipmaps[at(word)], &d, (unsigned)atoi(word[3])), 0, 0);
}

static void end_mipmap(char **word) { answer(GPU(cuMipmappedArrayDestroy)(mipmaps[at(word)]), 0, 0); }

static char *code(size_t n)
{
    char *image = malloc(n + 64);
    if (!image)
        exit(3);
    memset(image, ' ', n);
    image[n] = 0;
    memcpy(image, ".visible .entry spin_1000us()\n", 30);
    return image;
}

static void load(char **word)               /* KEY SIZE: code of so many bytes */
{
    char *image = code(bytes_of(word[2]));
    answer(GPU(cuModuleLoadData)(&modules[at(word) % 64], image), 0, 0);
    free(image);
}

static void library(char **word)            /* KEY SIZE: the same, in no context yet */
{
    char *image = code(bytes_of(word[2]));
    answer(GPU(cuLibraryLoadData)(&libraries[at(word) % 64], image, NULL, NULL, 0, NULL, NULL, 0), 0, 0);
    free(image);
}

static void use_library(char **word)
{
    CUmodule module;
    answer(GPU(cuLibraryGetModule)(&module, libraries[at(word) % 64]), 0, 0);
}

static void end_library(char **word) { answer(GPU(cuLibraryUnload)(libraries[at(word) % 64]), 0, 0); }

static void unload(char **word) { answer(GPU(cuModuleUnload)(modules[at(word) % 64]), 0, 0); }

static void graph(char **word)              /* KEY SIZE: a node that allocates so much, launched once */
{
    int k = at(word) % 64;
    CUDA_MEM_ALLOC_NODE_PARAMS params;
    CUgraphNode node;
    memset(&params, 0, sizeof params);
    params.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    params.poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    params.bytesize = bytes_of(word[2]);
    CUresult s = GPU(cuGraphCreate)(&graphs[k], 0);
    s = s ? s : GPU(cuGraphAddMemAllocNode)(&node, graphs[k], NULL, 0, &params);
    s = s ? s : GPU(cuGraphInstantiateWithFlags)(&executables[k], graphs[k], 0);
    s = s ? s : GPU(cuGraphLaunch)(executables[k], NULL);
    s = s ? s : GPU(cuCtxSynchronize)();
    answer(s, params.dptr, 0);
}

static void end_graph(char **word)
{
    int k = at(word) % 64;
    CUresult s = GPU(cuGraphExecDestroy)(executables[k]);
    answer(s ? s : GPU(cuGraphDestroy)(graphs[k]), 0, 0);
}

/* ---- memory apart from addresses, and hand over -------------------------------------------------------------------------------- */

static void create(char **word)             /* KEY SIZE DEVICE */
{
    CUmemAllocationProp prop;
    memset(&prop, 0, sizeof prop);
    prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    prop.location.id = atoi(word[3]);
    answer(GPU(cuMemCreate)(&handles[at(word)], bytes_of(word[2]), &prop, 0), 0, 0);
}

static void release(char **word) { answer(GPU(cuMemRelease)(handles[at(word)]), 0, 0); }

static void map(char **word)                /* KEY SIZE HANDLE */
{
    int k = at(word);
    sizes[k] = bytes_of(word[2]);
    CUresult s = GPU(cuMemAddressReserve)(&blocks[k], sizes[k], 0, 0, 0);
    answer(s ? s : GPU(cuMemMap)(blocks[k], sizes[k], 0, handles[atoi(word[3]) % PROBE_MOST], 0), 0, 0);
}

static void unmap(char **word) { answer(GPU(cuMemUnmap)(blocks[at(word)], sizes[at(word)]), 0, 0); }

static int pass_descriptor(int through, int fd)     /* fd -1: receive one */
{
    char byte = 'f', room[CMSG_SPACE(sizeof(int))] = {0};
    struct iovec io = {&byte, 1};
    struct msghdr m = {.msg_iov = &io, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
    if (fd < 0) {
        if (recvmsg(through, &m, 0) > 0 && CMSG_FIRSTHDR(&m))
            memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof fd);
        return fd;
    }
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(c), &fd, sizeof fd);
    return (int)sendmsg(through, &m, 0);
}

static void export_handle(char **word)      /* HANDLE SOCKET: to whoever listens there */
{
    int fd = -1, to = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_un where = {.sun_family = AF_UNIX};
    strncpy(where.sun_path, word[2], sizeof where.sun_path - 1);
    CUresult s = GPU(cuMemExportToShareableHandle)(&fd, handles[at(word)], CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
    if (s == CUDA_SUCCESS && (connect(to, (struct sockaddr *)&where, sizeof where) != 0 || pass_descriptor(to, fd) < 0))
        s = CUDA_ERROR_UNKNOWN;
    if (fd >= 0)
        close(fd);
    close(to);
    answer(s, 0, 0);
}

static void import_handle(char **word)      /* HANDLE SOCKET: listen, and take one */
{
    int from = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), fd = -1;
    struct sockaddr_un where = {.sun_family = AF_UNIX};
    strncpy(where.sun_path, word[2], sizeof where.sun_path - 1);
    if (bind(from, (struct sockaddr *)&where, sizeof where) == 0 && listen(from, 1) == 0) {
        answer(0, 0, 0);
        int peer = accept(from, NULL, NULL);
        fd = pass_descriptor(peer, -1);
        close(peer);
    }
    CUresult s = GPU(cuMemImportFromShareableHandle)(&handles[at(word)], (void *)(intptr_t)fd, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    if (fd >= 0)
        close(fd);
    close(from);
    answer(s, 0, 0);
}

static void ipc_get(char **word)            /* KEY FILE */
{
    CUipcMemHandle h;
    CUresult s = GPU(cuIpcGetMemHandle)(&h, blocks[at(word)]);
    FILE *f = fopen(word[2], "wb");
    if (!f || fwrite(&h, sizeof h, 1, f) != 1)
        exit(3);
    fclose(f);
    answer(s, 0, 0);
}

static void ipc_open(char **word)
{
    CUipcMemHandle h;
    FILE *f = fopen(word[2], "rb");
    if (!f || fread(&h, sizeof h, 1, f) != 1)
        exit(3);
    fclose(f);
    answer(GPU(cuIpcOpenMemHandle)(&blocks[at(word)], h, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS), 0, 0);
}

static void ipc_close(char **word) { answer(GPU(cuIpcCloseMemHandle)(blocks[at(word)]), 0, 0); }

/* ---- what is said about memory -------------------------------------------------------------------------------------------------- */

static void info(char **word)
{
    (void)word;
    size_t left = 0, all = 0;
    CUresult s = GPU(cuMemGetInfo)(&left, &all);
    answer(s, left, all);
}

static void total(char **word)
{
    size_t all = 0;
    CUresult s = GPU(cuDeviceTotalMem)(&all, at(word));
    answer(s, all, 0);
}

/* ---- many of them ----------------------------------------------------------------------------------------------------------------- */

static void grab(char **word)               /* SIZE: until it is refused; how many */
{
    unsigned long long n = 0;
    CUdeviceptr p;
    CUresult s;
    while ((s = GPU(cuMemAlloc)(&p, bytes_of(word[1]))) == CUDA_SUCCESS && n < 1000000)
        n++;
    answer(s, n, 0);
}

/* One of eight blocks is made or freed: of 2 to LARGEST MiB, whole granules, or small ones of one size. */
static void churn_once(unsigned *seed, CUdeviceptr *mine, size_t largest)
{
    unsigned k = (unsigned)rand_r(seed) % 8;
    size_t bytes = largest ? ((size_t)rand_r(seed) % (largest / 2) + 1) << 21 : 65536;
    if (mine[k]) {
        GPU(cuMemFree)(mine[k]);
        mine[k] = 0;
    } else if (GPU(cuMemAlloc)(&mine[k], bytes) != CUDA_SUCCESS) {
        mine[k] = 0;
    }
}

static void churn_end(const CUdeviceptr *mine)
{
    for (int k = 0; k < 8; k++)
        if (mine[k])
            GPU(cuMemFree)(mine[k]);
}

static void grind(char **word)              /* SECONDS MIB: allocate and free for so long, in granules up to MIB */
{
    unsigned seed = (unsigned)getpid(), n = 0;
    CUdeviceptr mine[8] = {0};
    for (double end = now() + atof(word[1]); now() < end; n++) {
        churn_once(&seed, mine, (size_t)atoi(word[2]));
        if (n % 64 == 0)
            sched_yield();
    }
    churn_end(mine);
    answer(0, n, 0);
}

static void *thread_churns(void *argument)
{
    unsigned seed = (unsigned)(uintptr_t)argument;
    CUdeviceptr mine[8] = {0};
    GPU(cuCtxSetCurrent)(contexts[0]);
    for (int i = 0; i < 60000; i++)
        churn_once(&seed, mine, i % 4 ? 0 : 8);
    churn_end(mine);
    return NULL;
}

static void churn(char **word)              /* THREADS */
{
    pthread_t t[64];
    int count = at(word) < 64 ? at(word) : 64;
    for (int i = 0; i < count; i++)
        pthread_create(&t[i], NULL, thread_churns, (void *)(uintptr_t)(i + 1));
    for (int i = 0; i < count; i++)
        pthread_join(t[i], NULL);
    answer(0, 0, 0);
}

/* Least time of one alloc and free over many batches, in nanoseconds: what disturbs makes it longer only. */
static void pair_cost(char **word)          /* BLOCKS: that live beside it */
{
    static CUdeviceptr many[100000];
    __typeof__(&cuMemAlloc) make = GPU(cuMemAlloc);
    __typeof__(&cuMemFree) end = GPU(cuMemFree);
    int beside = atoi(word[1]) < 100000 ? atoi(word[1]) : 100000;
    double least = 1e9;
    for (int i = 0; i < beside; i++)
        if (make(&many[i], 256) != CUDA_SUCCESS)
            beside = i;
    for (int round = 0; round < 100; round++) {
        CUdeviceptr p;
        double began = now();
        for (int i = 0; i < 20; i++) {
            make(&p, 256);
            end(p);
        }
        double took = (now() - began) / 20 * 1e9;
        least = took < least ? took : least;
    }
    for (int i = 0; i < beside; i++)
        end(many[i]);
    answer(0, (unsigned long long)least, (unsigned long long)beside);
}

const struct step memory_steps[] = {
    {"init", init}, {"context", context}, {"retain", retain}, {"leave", leave}, {"reset", reset}, {"newcontext", new_context},
    {"endcontext", end_context}, {"nocontext", no_context}, {"current", current}, {"limit", set_limit}, {"sync", sync_all}, {"alloc", alloc},
    {"managed", managed}, {"pitch", pitch}, {"free", free_block}, {"freelooked", free_looked}, {"freeat", free_at}, {"async", async},
    {"freeasync", free_async}, {"frompool", from_pool}, {"pool", new_pool}, {"endpool", end_pool}, {"threshold", threshold}, {"host", host},
    {"freehost", free_host}, {"ismanaged", is_managed}, {"array", array}, {"array3d", array3d}, {"endarray", end_array}, {"mipmap", mipmap},
    {"endmipmap", end_mipmap}, {"load", load}, {"unload", unload}, {"library", library},
    {"uselibrary", use_library}, {"endlibrary", end_library}, {"graph", graph}, {"endgraph", end_graph}, {"create", create},
    {"release", release}, {"map", map}, {"unmap", unmap}, {"export", export_handle}, {"import", import_handle}, {"ipcget", ipc_get},
    {"ipcopen", ipc_open}, {"ipcclose", ipc_close}, {"info", info}, {"total", total}, {"grab", grab}, {"grind", grind}, {"churn", churn},
    {"paircost", pair_cost}, {NULL, NULL},
};
