/* How long calls of the driver take, as a program sees them: one question per line of standard input, one number of nanoseconds
 * (the median over many batches) per line of output. What a library in between costs is the difference between two such programs
 * that are asked in turns. */
#define _GNU_SOURCE
#include <cuda.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define BATCHES 301
#define CALLS 64
#define WARM_CALLS 8
#define PAUSE_NS 60000                  /* lets the card end its kernels between two batches of launches */
#define BLOCK 4096

static void check(CUresult code, const char *what)
{
    if (code == CUDA_SUCCESS)
        return;
    fprintf(stderr, "hami-sim-bench: %s: error %d\n", what, code);
    exit(1);
}

static long long now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static void pass(long long ns)
{
    for (long long end = now() + ns; now() < end;)
        ;
}

static CUfunction kernel;
static CUdeviceptr *held;
static long held_count;

static void launch(void) { check(cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL), "cuLaunchKernel"); }

static void alloc_free(void)
{
    CUdeviceptr at;
    check(cuMemAlloc(&at, BLOCK), "cuMemAlloc");
    check(cuMemFree(at), "cuMemFree");
}

static void info(void)
{
    size_t left, all;
    check(cuMemGetInfo(&left, &all), "cuMemGetInfo");
}

static void lookup(void)
{
    void *found;
    CUdriverProcAddressQueryResult why;
    check(cuGetProcAddress("cuMemAlloc", &found, 12000, 0, &why), "cuGetProcAddress");
}

static void hold(long count)
{
    while (held_count > count)
        check(cuMemFree(held[--held_count]), "cuMemFree");
    held = realloc(held, ((size_t)count + 1) * sizeof *held);
    while (held && held_count < count)
        check(cuMemAlloc(&held[held_count++], BLOCK), "cuMemAlloc");
}

static int order(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(void (*call)(void), long long pause)
{
    static double took[BATCHES];
    for (int i = 0; i < BATCHES; i++) {
        if (pause)
            pass(pause);
        for (int n = 0; n < WARM_CALLS; n++)
            call();
        long long began = now();
        for (int n = 0; n < CALLS; n++)
            call();
        took[i] = (double)(now() - began) / CALLS;
    }
    qsort(took, BATCHES, sizeof *took, order);
    return took[BATCHES / 2];
}

int main(void)
{
    char line[64];
    long count;
    CUcontext context;
    CUmodule module;
    setvbuf(stdout, NULL, _IOLBF, 0);
    check(cuInit(0), "cuInit");
    check(cuDevicePrimaryCtxRetain(&context, 0), "cuDevicePrimaryCtxRetain");
    check(cuCtxSetCurrent(context), "cuCtxSetCurrent");
    check(cuModuleLoadData(&module, "//sim kernel tiny fixed_ns=100 wave_ns=100 blocks_per_sm=8 local=0\n.visible .entry tiny()\n"),
          "cuModuleLoadData");
    check(cuModuleGetFunction(&kernel, module, "tiny"), "cuModuleGetFunction");
    while (fgets(line, sizeof line, stdin)) {
        if (!strcmp(line, "launch\n"))
            printf("%.1f\n", median(launch, PAUSE_NS));
        else if (!strcmp(line, "alloc\n"))
            printf("%.1f\n", median(alloc_free, 0));
        else if (!strcmp(line, "info\n"))
            printf("%.1f\n", median(info, 0));
        else if (!strcmp(line, "lookup\n"))
            printf("%.1f\n", median(lookup, 0));
        else if (sscanf(line, "hold %ld", &count) == 1 && count >= 0) {
            hold(count);
            puts("0");
        } else {
            fprintf(stderr, "hami-sim-bench: expected launch, alloc, info, lookup or hold N, got %s", line);
            return 2;
        }
    }
    return 0;
}
