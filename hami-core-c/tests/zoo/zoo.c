/* One program, many shapes of process: `zoo SHAPE [ARGUMENT]`. Each line of output is an answer of the driver or a fact. */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "driver.h"

extern char **environ;
#define MIB ((size_t)1048576)

static struct {
    CUresult (*init)(unsigned);
    CUresult (*retain)(CUcontext *, CUdevice);
    CUresult (*set)(CUcontext);
    CUresult (*alloc)(CUdeviceptr *, size_t);
    CUresult (*free)(CUdeviceptr);
    CUresult (*info)(size_t *, size_t *);
    CUresult (*load)(CUmodule *, const void *);
    CUresult (*function)(CUfunction *, CUmodule, const char *);
    CUresult (*launch)(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CUstream, void **, void **);
    CUresult (*sync)(void);
    CUresult (*alloc_async)(CUdeviceptr *, size_t, CUstream);
    CUresult (*free_async)(CUdeviceptr, CUstream);
} gpu;
static CUcontext context;
static char self[4096];

static void look_up(void)
{
    const char *path = getenv("HAMI_CLIENT_DRIVER");
    void *driver = dlopen(path ? path : "libcuda.so.1", RTLD_NOW);
    if (!driver) {
        printf("no driver: %s\n", dlerror());
        exit(3);
    }
    *(void **)&gpu.init = dlsym(driver, "cuInit");
    *(void **)&gpu.retain = dlsym(driver, "cuDevicePrimaryCtxRetain");
    *(void **)&gpu.set = dlsym(driver, "cuCtxSetCurrent");
    *(void **)&gpu.alloc = dlsym(driver, "cuMemAlloc_v2");
    *(void **)&gpu.free = dlsym(driver, "cuMemFree_v2");
    *(void **)&gpu.info = dlsym(driver, "cuMemGetInfo_v2");
    *(void **)&gpu.load = dlsym(driver, "cuModuleLoadData");
    *(void **)&gpu.function = dlsym(driver, "cuModuleGetFunction");
    *(void **)&gpu.launch = dlsym(driver, "cuLaunchKernel");
    *(void **)&gpu.sync = dlsym(driver, "cuCtxSynchronize");
    *(void **)&gpu.alloc_async = dlsym(driver, "cuMemAllocAsync");
    *(void **)&gpu.free_async = dlsym(driver, "cuMemFreeAsync");
}

static void say(const char *what, long long value)
{
    printf("%s %lld\n", what, value);
    fflush(stdout);
}

static CUresult begin(void)
{
    look_up();
    CUresult s = gpu.init(0);
    if (s == CUDA_SUCCESS)
        s = gpu.retain(&context, 0);
    return s == CUDA_SUCCESS ? gpu.set(context) : s;
}

static CUresult take(size_t mib)
{
    CUdeviceptr p;
    return gpu.alloc(&p, mib * MIB);
}

static long long used(void)
{
    size_t free = 0, total = 0;
    gpu.info(&free, &total);
    return (long long)((total - free) / MIB);
}

static void must(CUresult s)
{
    if (s != CUDA_SUCCESS) {
        say("refused", s);
        exit(4);
    }
}

static int end_of(pid_t child)
{
    int status = -1;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static int nothing(void *argument) { return argument != NULL; }

static int quits(void *argument)
{
    (void)argument;
    syscall(SYS_exit, 0);
    return 0;
}

static void *churn(void *argument)
{
    unsigned seed = (unsigned)(uintptr_t)argument;
    CUdeviceptr mine[8] = {0};
    gpu.set(context);
    for (;;) {
        unsigned at = (unsigned)rand_r(&seed) % 8;
        if (mine[at]) {
            gpu.free(mine[at]);
            mine[at] = 0;
        } else if (gpu.alloc(&mine[at], ((size_t)rand_r(&seed) % 4 + 1) * MIB) != CUDA_SUCCESS)
            mine[at] = 0;
    }
    return NULL;
}

static void churn_in(int threads)
{
    pthread_t t;
    for (int i = 0; i < threads; i++)
        pthread_create(&t, NULL, churn, (void *)(uintptr_t)(i + 1));
}

static void *lone(void *argument)
{
    pthread_join((pthread_t)argument, NULL);
    gpu.set(context);
    say("alone", take(100));
    pause();
    return NULL;
}

static void *takes(void *argument)
{
    gpu.set(context);
    *(CUresult *)argument = take(100);
    CUdeviceptr p;
    if (*(CUresult *)argument == CUDA_SUCCESS && gpu.alloc(&p, 5000 * MIB) != CUDA_ERROR_OUT_OF_MEMORY)
        *(CUresult *)argument = CUDA_ERROR_UNKNOWN;
    return NULL;
}

/* Whatever a process may do, in an order that the seed tells; ends after so many steps, or when somebody ends it. */
static int storm(unsigned seed, int steps)
{
    CUdeviceptr mine[32] = {0};
    bool ordered[32] = {false};
    CUmodule module = NULL;
    CUfunction f = NULL;
    CUresult s = begin();
    if (s == CUDA_SUCCESS && gpu.load(&module, "spin") == CUDA_SUCCESS)
        gpu.function(&f, module, "spin_50us");
    if (s != CUDA_SUCCESS && s != CUDA_ERROR_OUT_OF_MEMORY)
        return 5;
    for (int i = 0; i < steps; i++) {
        unsigned at = (unsigned)rand_r(&seed) % 32, what = (unsigned)rand_r(&seed) % 100;
        size_t size = (size_t)rand_r(&seed) % (what % 2 ? 64 * MIB : 100000) + 1;
        pid_t child = -1;
        if (s != CUDA_SUCCESS) {            /* there is no room for a context now */
            usleep(2000);
            s = gpu.retain(&context, 0) == CUDA_SUCCESS ? gpu.set(context) : CUDA_ERROR_OUT_OF_MEMORY;
        } else if (what < 60 && mine[at]) {
            if ((ordered[at] ? gpu.free_async(mine[at], NULL) : gpu.free(mine[at])) != CUDA_SUCCESS)
                return 6;
            mine[at] = 0;
        } else if (what < 60) {
            ordered[at] = what % 5 == 0;
            CUresult got = ordered[at] ? gpu.alloc_async(&mine[at], size, NULL) : gpu.alloc(&mine[at], size);
            if (got != CUDA_SUCCESS)
                mine[at] = 0;
            if (got != CUDA_SUCCESS && got != CUDA_ERROR_OUT_OF_MEMORY)
                return 7;
        } else if (what < 80 && f) {
            gpu.launch(f, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL);
        } else if (what < 86) {
            gpu.sync();
        } else if (what < 95) {
            usleep(what * 20);
        } else if (what < 98) {
            child = what == 95 ? vfork() : fork();
            if (child == 0) {
                char number[16], count[16];
                snprintf(number, sizeof number, "%u", seed + 1);
                snprintf(count, sizeof count, "%d", steps / 2);
                char *again[] = {self, "storm", number, count, NULL};
                if (what != 96)
                    execv(self, again);
                _exit(0);
            }
            if (what == 95 && child > 0)    /* one is waited for, the others become zombies or orphans */
                waitpid(child, NULL, WNOHANG);
        } else if (what == 98 && steps > 200) {
            char number[16];
            snprintf(number, sizeof number, "%u", seed + 2);
            char *again[] = {self, "storm", number, "200", NULL};
            execv(self, again);
        }
    }
    return 0;
}

static void leave_now(int number)
{
    (void)number;
    exit(7);
}

int main(int words, char **word)
{
    const char *shape = words > 1 ? word[1] : "", *argument = words > 2 ? word[2] : "0";
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    self[n > 0 ? n : 0] = 0;
    if (!strcmp(shape, "hold")) {           /* MIB: begin, take so much, say how it went, and stay until input ends */
        CUresult s = begin();
        say("took", s ? s : take((size_t)atoi(argument)));
        char c;
        while (read(0, &c, 1) > 0)
            say("used", used());
        return 0;
    }
    if (!strcmp(shape, "take")) {           /* MIB: the same and end */
        CUresult s = begin();
        say("took", s ? s : take((size_t)atoi(argument)));
        return 0;
    }
    if (!strcmp(shape, "idle")) {           /* never touches a device */
        say("idle", 0);
        pause();
    }
    if (!strcmp(shape, "storm"))            /* SEED STEPS */
        return storm((unsigned)atoi(argument), words > 3 ? atoi(word[3]) : 1000);
    must(begin());
    must(take(300));
    if (!strcmp(shape, "vfork")) {
        pid_t child = vfork();
        if (child == 0) {
            char *again[] = {self, "take", "500", NULL};
            execv(self, again);
            _exit(9);
        }
        say("child", end_of(child));
    } else if (!strcmp(shape, "vfork-exit")) {      /* wrong, and seen: what runs at exit runs in the parent's memory */
        pid_t child = vfork();
        if (child == 0)
            exit(0);
        say("child", end_of(child));
    } else if (!strcmp(shape, "spawn")) {
        char *again[] = {self, "take", "500", NULL};
        pid_t child;
        say("spawned", posix_spawn(&child, self, NULL, NULL, again, environ));
        say("child", end_of(child));
    } else if (!strcmp(shape, "system")) {
        char command[5000];
        snprintf(command, sizeof command, "%s take 500", self);
        fflush(stdout);
        say("child", system(command));
    } else if (!strcmp(shape, "clone")) {           /* raw: shares the memory, has a pid of its own, then a thread */
        char *stack = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        pid_t child = clone(nothing, stack + 65536, CLONE_VM | SIGCHLD, NULL);
        say("child", end_of(child));
        pid_t thread = 0;
        clone(quits, stack + 65536, CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM |
            CLONE_CHILD_CLEARTID | CLONE_PARENT_SETTID, NULL, &thread, NULL, &thread);
        while (*(volatile pid_t *)&thread)
            sched_yield();
    } else if (!strcmp(shape, "exec")) {            /* MIB */
        char *again[] = {self, "take", (char *)argument, NULL};
        execv(self, again);
    } else if (!strcmp(shape, "leader-gone")) {
        pthread_t t;
        pthread_create(&t, NULL, lone, (void *)pthread_self());
        pthread_exit(NULL);
    } else if (!strcmp(shape, "fork-storm")) {      /* children of a busy process that only end */
        churn_in(3);
        int wrong = 0;
        for (int i = 0; i < atoi(argument); i++) {
            pid_t child = fork();
            if (child == 0) {
                alarm(20);
                dlsym(RTLD_DEFAULT, i % 2 ? "cuInit" : "malloc");
                exit(0);
            }
            wrong += end_of(child) != 0;
        }
        say("wrong", wrong);
        exit(0);
    } else if (!strcmp(shape, "exit-busy")) {       /* ends while others are inside */
        churn_in(4);
        usleep(50000);
        exit(0);
    } else if (!strcmp(shape, "exit-handler")) {    /* ends in a signal handler, whatever was going on */
        signal(SIGALRM, leave_now);
        ualarm((useconds_t)(2000 + 997 * atoi(argument)), 0);
        churn((void *)1);
    } else if (!strcmp(shape, "small-stack")) {
        pthread_attr_t a;
        pthread_t t;
        CUresult s = CUDA_ERROR_UNKNOWN;
        pthread_attr_init(&a);
        pthread_attr_setstacksize(&a, 32768);
        pthread_create(&t, &a, takes, &s);
        pthread_join(t, NULL);
        say("took", s);
    } else if (!strcmp(shape, "daemon")) {          /* MIB: forks before it begins anew; the parent ends first */
        fflush(stdout);
        pid_t child = fork();
        if (child > 0)
            _exit(0);
        setsid();
        char *again[] = {self, "hold", (char *)argument, NULL};
        execv(self, again);
    } else if (!strcmp(shape, "few-files")) {       /* no descriptor to be had any more */
        struct rlimit none = {0, 0};
        setrlimit(RLIMIT_NOFILE, &none);
        say("took", take(100));
        say("too much", take(5000));
    }
    say("used", used());
    say("more", take(100));
    return 0;
}
