/* A small program of the driver, for scenarios and for trying things by hand: it does one thing after another, as its arguments say.
 * It is linked with libcuda.so.1 as any program is and knows nothing of who answers. */
#define _GNU_SOURCE
#include <cuda.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define MIB 1048576.0
#define AHEAD 4                                     /* launches that may wait, as a framework's queue */

static const char usage[] =
    "usage: hami-sim-client [device N] STEP ...\n"
    "  take MIB [BLOCK]    allocate that much, in blocks of BLOCK MiB (1); goes on with the next step when it is refused\n"
    "  free                give all of it back\n"
    "  info                say how much memory is in use\n"
    "  work SECONDS [US]   launch kernels of US microseconds (1000), one after another\n"
    "  wait SECONDS        keep what it has\n";

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void check(CUresult code, const char *what)
{
    if (code == CUDA_SUCCESS)
        return;
    const char *name = NULL;
    cuGetErrorName(code, &name);
    fprintf(stderr, "hami-sim-client: %s: %s\n", what, name ? name : "unknown error");
    exit(1);
}

static void info(const char *before)
{
    size_t left, all;
    check(cuMemGetInfo(&left, &all), "cuMemGetInfo");
    printf("%s%.0f of %.0f MiB in use\n", before, (double)(all - left) / MIB, (double)all / MIB);
}

struct block { struct block *next; CUdeviceptr at; };

static struct block *take(struct block *held, double mib, double size)
{
    unsigned made = 0;
    CUresult code = CUDA_SUCCESS;
    while (made * size < mib) {
        CUdeviceptr at;
        code = cuMemAlloc(&at, (size_t)(size * MIB));
        if (code != CUDA_SUCCESS)
            break;
        struct block *b = malloc(sizeof *b);
        if (!b)
            exit(1);
        *b = (struct block){held, at};
        held = b;
        made++;
    }
    if (code != CUDA_SUCCESS && code != CUDA_ERROR_OUT_OF_MEMORY)
        check(code, "cuMemAlloc");
    printf("took %.0f MiB in %u blocks\n", made * size, made);
    if (code != CUDA_SUCCESS)
        info("refused: ");
    return held;
}

static void let_go(struct block **held)
{
    while (*held) {
        struct block *b = *held;
        check(cuMemFree(b->at), "cuMemFree");
        *held = b->next;
        free(b);
    }
    puts("gave all back");
}

static void work(double seconds, long us)
{
    char name[32], image[64];
    snprintf(name, sizeof name, "spin_%ldus", us);
    snprintf(image, sizeof image, ".visible .entry %s()\n", name);
    CUmodule module;
    CUfunction kernel;
    CUevent marks[AHEAD];
    check(cuModuleLoadData(&module, image), "cuModuleLoadData");
    check(cuModuleGetFunction(&kernel, module, name), "cuModuleGetFunction");
    for (int i = 0; i < AHEAD; i++)
        check(cuEventCreate(&marks[i], CU_EVENT_DISABLE_TIMING), "cuEventCreate");
    double began = now();
    unsigned long n = 0;
    for (; now() - began < seconds; n++) {
        if (n >= AHEAD)
            check(cuEventSynchronize(marks[n % AHEAD]), "cuEventSynchronize");
        check(cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL), "cuLaunchKernel");
        check(cuEventRecord(marks[n % AHEAD], NULL), "cuEventRecord");
    }
    check(cuCtxSynchronize(), "cuCtxSynchronize");
    double took = now() - began;
    printf("ran %lu kernels of %ld us in %.1f s: %.0f %% of the time\n", n, us, took, 100.0 * (double)n * (double)us / 1e6 / took);
    check(cuModuleUnload(module), "cuModuleUnload");
}

int main(int argc, char **argv)
{
    int at = 1, device = 0;
    if (at + 1 < argc && !strcmp(argv[at], "device")) {
        device = atoi(argv[at + 1]);
        at += 2;
    }
    if (at >= argc || !strcmp(argv[at], "--help")) {
        fputs(usage, at >= argc ? stderr : stdout);
        return at >= argc ? 2 : 0;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    CUcontext context;
    CUdevice card;
    check(cuInit(0), "cuInit");
    check(cuDeviceGet(&card, device), "cuDeviceGet");
    check(cuDevicePrimaryCtxRetain(&context, card), "cuDevicePrimaryCtxRetain");
    check(cuCtxSetCurrent(context), "cuCtxSetCurrent");
    struct block *held = NULL;
    while (at < argc) {
        const char *step = argv[at++];
        double first = at < argc ? atof(argv[at]) : 0, second = at + 1 < argc ? atof(argv[at + 1]) : 0;
        if (!strcmp(step, "free"))
            let_go(&held);
        else if (!strcmp(step, "info"))
            info("");
        else if (!strcmp(step, "take") && first > 0)
            held = take(held, first, second > 0 ? second : 1);
        else if (!strcmp(step, "work") && first > 0)
            work(first, second > 0 ? (long)second : 1000);
        else if (!strcmp(step, "wait") && first > 0)
            usleep((useconds_t)(first * 1e6));
        else {
            fprintf(stderr, "hami-sim-client: %s: expected a step and its numbers\n%s", step, usage);
            return 2;
        }
        if (strcmp(step, "free") && strcmp(step, "info"))
            at += 1 + (second > 0 && strcmp(step, "wait"));
    }
    return 0;
}
