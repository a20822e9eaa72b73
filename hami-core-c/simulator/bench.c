/* How long calls of the driver take, as a program sees them: one question per line of standard input, one number of nanoseconds
 * (the median over many batches) per line of output. What a library in between costs is the difference between two such programs
 * that are asked in turns.
 *
 * "contend MS" allocates and frees for so long and tells the mean of its processor time, for many programs that are asked at once.
 * "sealed CALL" makes many calls of one kind while the kernel kills this thread's process for any system call, answers 0 and ends. */
#define _GNU_SOURCE
#include <cuda.h>
#include <dlfcn.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define BATCHES 301
#define CALLS 64
#define WARM_CALLS 8
#define PAUSE_NS 60000                  /* lets the card end its kernels between two batches of launches */
#define WARM_NS 300000000               /* until a limiter has learned what kernels take */
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

static double contend(long ms)
{
    struct timespec used;
    long long began = now();
    long pairs = 0;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    double before = 1e9 * (double)used.tv_sec + (double)used.tv_nsec;
    for (; now() - began < ms * 1000000LL; pairs += CALLS)
        for (int n = 0; n < CALLS; n++)
            alloc_free();
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    return (1e9 * (double)used.tv_sec + (double)used.tv_nsec - before) / (double)pairs;
}

static void ask_pid(void) { syscall(SYS_getpid); }

static void (*call_named(const char *name))(void)
{
    static const struct { const char *name; void (*call)(void); } calls[] = {{"launch", launch}, {"alloc", alloc_free}, {"info", info},
        {"lookup", lookup}, {"getpid", ask_pid}};
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        if (!strcmp(calls[i].name, name))
            return calls[i].call;
    return NULL;
}

/* Few launches, so that none must wait for its share. Waiting for a lock that a thread of the driver or of a library holds is no part of
 * a call's own work; nor is the answer. */
static void sealed(void (*call)(void))
{
    static const unsigned allowed[] = {SYS_futex, SYS_write, SYS_exit_group};
    struct sock_filter rules[16] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr))};
    unsigned short n = 1;
    for (size_t i = 0; i < sizeof allowed / sizeof *allowed; i++) {
        rules[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, allowed[i], 0, 1);
        rules[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    }
    rules[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
    struct sock_fprog filter = {n, rules};
    long long ready = now() + WARM_NS;
    for (int i = 0; now() < ready; i++) {
        if (i % CALLS == 0)
            pass(4 * PAUSE_NS);
        call();
    }
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &filter)) {
        perror("hami-sim-bench: seccomp");
        exit(3);
    }
    for (int i = 0; i < 200 * CALLS; i++) {
        if (i % CALLS == 0)
            pass(4 * PAUSE_NS);
        call();
    }
    _exit(write(STDOUT_FILENO, "0\n", 2) != 2);
}

int main(void)
{
    char line[64];
    long count;
    char name[32];
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
        else if (sscanf(line, "contend %ld", &count) == 1)
            printf("%.1f\n", contend(count));
        else if (sscanf(line, "sealed %31s", name) == 1 && call_named(name))
            sealed(call_named(name));
        else if (sscanf(line, "hold %ld", &count) == 1 && count >= 0) {
            hold(count);
            puts("0");
        } else {
            fprintf(stderr, "hami-sim-bench: expected launch, alloc, info, lookup, hold N, contend MS or sealed CALL, got %s", line);
            return 2;
        }
    }
    return 0;
}
