/* Steps that look functions up in all the ways there are, and ask the management library. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <nvml.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "probe.h"

/* 0, or 1 + 2 when both ends are the same address. */
static void handle_symbol(char **word)      /* NAME: 1 when the driver's handle has it */
{
    answer(0, driver_handle() && dlsym(driver_handle(), word[1]) ? 1 : 0, 0);
}

static void default_symbol(char **word) { answer(0, dlsym(RTLD_DEFAULT, word[1]) ? 1 : 0, 0); }

static void next_twice(char **word)         /* NAME: found the first time, and the same the second time */
{
    void *first = dlsym(RTLD_NEXT, word[1]), *second = dlsym(RTLD_NEXT, word[1]);
    answer(0, first != NULL, first == second);
}

static void *local(const char *path)
{
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
        fprintf(stderr, "hami-sim-probe: %s\n", dlerror());
        exit(3);
    }
    return handle;
}

static void plugin(char **word)             /* PATH FUNCTION: what a function of a plugin answers */
{
    long (*ask)(void) = (long (*)(void))dlsym(local(word[1]), word[2]);
    answer(ask ? 0 : 500, ask ? (unsigned long long)ask() : 0, 0);
}

static void foreign(char **word)            /* PATH: a plugin's own cuMemAlloc_v2, asked for through its handle */
{
    CUdeviceptr p;
    CUresult (*make)(CUdeviceptr *, size_t) = (CUresult(*)(CUdeviceptr *, size_t))dlsym(local(word[1]), "cuMemAlloc_v2");
    answer(make ? (int)make(&p, 1) : 500, 0, 0);
}

static void proc_address(char **word)       /* SYMBOL VERSION FLAGS: status of the symbol, and whether there was an address */
{
    CUdriverProcAddressQueryResult status = 99;
    void *found = &status;
    CUresult s = LOOKED(cuGetProcAddress_v2)(word[1], &found, atoi(word[2]), strtoull(word[3], NULL, 0), &status);
    answer(s, (unsigned long long)status, found == &status ? 2 : found != NULL);
}

static void proc_address_old(char **word)   /* SYMBOL VERSION FLAGS, of the form with four arguments */
{
    void *found = &found;
    CUresult (*ask)(const char *, void **, int, cuuint64_t) = (CUresult(*)(const char *, void **, int, cuuint64_t))by_handle("cuGetProcAddress");
    CUresult s = ask(word[1], &found, atoi(word[2]), strtoull(word[3], NULL, 0));
    answer(s, found == &found ? 2 : found != NULL, 0);
}

/* What was asked for is called with six zeros; the simulator's log tells which function that was. */
static void call_address(char **word)       /* SYMBOL VERSION FLAGS */
{
    void *found = NULL;
    CUresult s = LOOKED(cuGetProcAddress_v2)(word[1], &found, atoi(word[2]), strtoull(word[3], NULL, 0), NULL);
    long (*f)(long, long, long, long, long, long) = (long (*)(long, long, long, long, long, long))found;
    if (f)
        f(0, 0, 0, 0, 0, 0);
    answer(s, f != NULL, 0);
}

static void lookup_cost(char **word)        /* SYMBOL: least nanoseconds of a look-up over many batches */
{
    double least = 1e9;
    for (int round = 0; round < 100; round++) {
        void *found;
        double began = now();
        for (int i = 0; i < 20; i++)
            LOOKED(cuGetProcAddress_v2)(word[1], &found, 12000, 0, NULL);
        double took = (now() - began) / 20 * 1e9;
        least = took < least ? took : least;
    }
    answer(0, (unsigned long long)least, 0);
}

/* ---- directly linked functions that a driver may lack ------------------------------------------------------------------------- */

#ifdef LINKED
extern CUresult cuCtxSynchronize_v2(CUcontext);

static void newer(char **word)              /* a newer form of a function, on a driver that has the older alone */
{
    (void)word;
    answer(cuCtxSynchronize_v2(contexts[0]), 0, 0);
}

static void lacking(char **word)            /* a function that an older driver has in no form */
{
    (void)word;
    CUdeviceptr p;
    answer(cuMemAllocFromPoolAsync(&p, 1 << 20, NULL, NULL), 0, 0);
}
#else
static void newer(char **word) { (void)word, answer(500, 0, 0); }
static void lacking(char **word) { (void)word, answer(500, 0, 0); }
#endif

static void count(char **word)
{
    (void)word;
    int n = -1;
    CUresult s = GPU(cuDeviceGetCount)(&n);
    answer(s, (unsigned long long)n, 0);
}

static void weak_init(char **word);

/* ---- management library -------------------------------------------------------------------------------------------------------- */

#define NVML(name) ((__typeof__(&name))nvml_symbol(PROBE_TEXT(name)))

static int nvml_absent(void) { return NVML_ERROR_FUNCTION_NOT_FOUND; }

static void *nvml_symbol(const char *name)
{
    void *found = nvml_handle() ? dlsym(nvml_handle(), name) : NULL;
    return found ? found : (void *)nvml_absent;
}

static void nvml_early(char **word)         /* before nvmlInit */
{
    (void)word;
    nvmlMemory_t memory;
    answer((int)NVML(nvmlDeviceGetMemoryInfo)((nvmlDevice_t)8, &memory), 0, 0);
}

static void nvml_init(char **word)
{
    (void)word;
    answer((int)NVML(nvmlInit)(), 0, 0);
}

static void nvml_memory(char **word)        /* INDEX: total and free */
{
    nvmlDevice_t device;
    nvmlMemory_t memory = {0};
    nvmlReturn_t s = NVML(nvmlDeviceGetHandleByIndex)((unsigned)atoi(word[1]), &device);
    s = s ? s : NVML(nvmlDeviceGetMemoryInfo)(device, &memory);
    answer((int)s, memory.total, memory.free);
}

static void nvml_clock(char **word)         /* INDEX: a function of four arguments */
{
    nvmlDevice_t device;
    unsigned mhz = 0;
    nvmlReturn_t s = NVML(nvmlDeviceGetHandleByIndex)((unsigned)atoi(word[1]), &device);
    s = s ? s : NVML(nvmlDeviceGetClock)(device, NVML_CLOCK_SM, NVML_CLOCK_ID_CURRENT, &mhz);
    answer((int)s, mhz, 0);
}

extern CUresult CUDAAPI init_that_may_be_missing(unsigned) __asm__("cuInit") __attribute__((weak));

static void weak_init(char **word)          /* what the weak reference of a program answers that is not linked with a driver */
{
    (void)word;
    answer(init_that_may_be_missing ? (int)init_that_may_be_missing(0) : CUDA_ERROR_NO_DEVICE, 0, 0);
}

const struct step lookup_steps[] = {
    {"has", handle_symbol}, {"default", default_symbol}, {"nexttwice", next_twice}, {"plugin", plugin}, {"foreign", foreign},
    {"procaddress", proc_address}, {"procaddressold", proc_address_old}, {"calladdress", call_address}, {"lookupcost", lookup_cost},
    {"newer", newer}, {"lacking", lacking}, {"count", count}, {"weakinit", weak_init}, {"nvmlearly", nvml_early}, {"nvmlinit", nvml_init},
    {"nvmlmemory", nvml_memory}, {"nvmlclock", nvml_clock}, {NULL, NULL},
};
