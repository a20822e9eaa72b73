/* Steps about the process itself: children, ends, descriptors, signals, system calls. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "probe.h"

/* The child takes the lines from here on; the parent answers once it has ended. */
static void child_takes_over(pid_t child)
{
    int code = 0;
    if (child) {
        waitpid(child, &code, 0);
        answer(0, (unsigned long long)code, 0);
    } else {
        answer(0, 0, 0);
    }
}

static void forks(char **word)
{
    (void)word;
    fflush(stdout);
    child_takes_over(fork());
}

static void clones(char **word)             /* past the C library and what is registered there */
{
    (void)word;
    fflush(stdout);
    child_takes_over((pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0));
}

static void stop(char **word)
{
    (void)word;
    exit(0);
}

static void vanish(char **word)
{
    (void)word;
    _exit(0);
}

static void becomes(char **word)            /* PROGRAM: it lives on as another program, which gets our input */
{
    unsetenv("LD_PRELOAD");
    answer(0, 0, 0);
    execlp(word[1], word[1], (char *)NULL);
    _exit(3);
}

static void no_descriptors(char **word)     /* every number that may be used is used */
{
    (void)word;
    struct rlimit few = {16, 16};
    setrlimit(RLIMIT_NOFILE, &few);
    while (open("/dev/null", O_RDONLY | O_CLOEXEC) >= 0)
        ;
    answer(errno == EMFILE ? 0 : 1, 0, 0);
}

static void close_all(char **word)
{
    (void)word;
    for (int fd = 3; fd < 1024; fd++)
        close(fd);
    answer(0, 0, 0);
}

static void mask(char **word)               /* umask of the process */
{
    (void)word;
    mode_t was = umask(022);
    umask(was);
    answer(0, was, 0);
}

static void handle(int number) { (void)number; }

static void catches(char **word)            /* handlers for what programs use themselves */
{
    (void)word;
    signal(SIGUSR1, handle);
    signal(SIGUSR2, handle);
    answer(0, 0, 0);
}

static void caught(char **word)             /* how many of the two are still ours */
{
    (void)word;
    struct sigaction one, two;
    sigaction(SIGUSR1, NULL, &one);
    sigaction(SIGUSR2, NULL, &two);
    answer(0, (unsigned)(one.sa_handler == handle) + (unsigned)(two.sa_handler == handle), 0);
}

static void stays_pending(char **word)      /* a signal that all threads of ours block waits for us */
{
    (void)word;
    sigset_t set, pending;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    signal(SIGUSR1, handle);
    sigprocmask(SIG_BLOCK, &set, NULL);
    kill(getpid(), SIGUSR1);
    pause_ms(50);
    sigpending(&pending);
    answer(0, (unsigned)sigismember(&pending, SIGUSR1), 0);
}

/* ---- what the hot paths may ask the kernel --------------------------------------------------------------------------------------- */

static volatile sig_atomic_t forbidden;

static void trapped(int number, siginfo_t *about, void *context)
{
    (void)number, (void)context;
    forbidden = about->si_syscall;
}

static void quiet(char **word)              /* COUNT: pairs of alloc and free, and memory info, where no question to the kernel is allowed */
{
    struct sock_filter rules[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getpid, 4, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_gettid, 3, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clock_gettime, 2, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_fcntl, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
    };
    struct sock_fprog program = {sizeof rules / sizeof *rules, rules};
    struct sigaction act = {.sa_flags = SA_SIGINFO};
    act.sa_sigaction = trapped;
    __typeof__(&cuMemAlloc) make = GPU(cuMemAlloc);
    __typeof__(&cuMemFree) end = GPU(cuMemFree);
    __typeof__(&cuMemGetInfo) tell = GPU(cuMemGetInfo);
    CUdeviceptr p;
    size_t left, all;
    CUresult s = make(&p, 1 << 20);
    s = s ? s : end(p);
    s = s ? s : tell(&left, &all);
    sigaction(SIGSYS, &act, NULL);
    forbidden = -1;
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) {
        answer(500, 0, 0);
        return;
    }
    for (int i = 0; i < atoi(word[1]) && s == CUDA_SUCCESS; i++) {
        s = make(&p, 1 << 20);
        s = s ? s : end(p);
        s = s ? s : tell(&left, &all);
    }
    answer(s, forbidden >= 0, (unsigned long long)(forbidden >= 0 ? forbidden : 0));
}

const struct step process_steps[] = {
    {"fork", forks}, {"rawclone", clones}, {"stop", stop}, {"vanish", vanish}, {"become", becomes}, {"nodescriptors", no_descriptors},
    {"closeall", close_all}, {"umask", mask}, {"catch", catches}, {"caught", caught}, {"pending", stays_pending}, {"quiet", quiet},
    {NULL, NULL},
};
