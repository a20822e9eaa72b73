#define _GNU_SOURCE
#include "state.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "configure.h"

static char the_path[4096];
static struct sim_state *the_state;
static dev_t the_device;
static ino_t the_inode;
static pthread_mutex_t opening = PTHREAD_MUTEX_INITIALIZER;

const char *state_path(void)
{
    if (!the_path[0]) {
        const char *told = secure_getenv("HAMI_SIM_STATE"), *run = secure_getenv("XDG_RUNTIME_DIR");
        if (told && told[0])
            snprintf(the_path, sizeof the_path, "%s", told);
        else
            snprintf(the_path, sizeof the_path, "%s/hami-sim-%u.state", run && run[0] ? run : "/tmp", (unsigned)geteuid());
    }
    return the_path;
}

static int byte_lock(int fd, int command, int64_t at, short type)
{
    struct flock lock = {.l_type = type, .l_whence = SEEK_SET, .l_start = at, .l_len = 1};
    int answer;
    do
        answer = fcntl(fd, command, &lock);
    while (answer < 0 && errno == EINTR);
    return command == F_OFD_GETLK && answer == 0 ? lock.l_type != F_UNLCK : answer;
}

int descriptor_open(void)
{
    return open(state_path(), O_RDWR | O_CLOEXEC);
}

int content_open(void)
{
    static int file = -1;
    static pid_t opener;
    pthread_mutex_lock(&opening);
    if (file < 0 || opener != getpid()) {
        char name[4200];
        snprintf(name, sizeof name, "%s.content", state_path());
        file = open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
        opener = getpid();
    }
    int answer = file;
    pthread_mutex_unlock(&opening);
    return answer;
}

static struct sim_state *map(int fd)
{
    void *at = mmap(NULL, sizeof(struct sim_state), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
    if (at == MAP_FAILED)
        return NULL;
    madvise(at, sizeof(struct sim_state), MADV_DONTDUMP);
    return at;
}

static bool ready(struct sim_state *s)
{
    return atomic_load_explicit(&s->magic, memory_order_acquire) == SIM_MAGIC && s->size == sizeof *s;
}

/* Number of a process's pid namespace; 0 where it cannot be seen. */
static uint64_t pid_space(const char *process)
{
    char path[64];
    struct stat about;
    snprintf(path, sizeof path, "/proc/%.20s/ns/pid", process);
    return stat(path, &about) == 0 ? about.st_ino : 0;
}

int state_make(const char *path, const char *lines, char *why, size_t room)
{
    char beside[4200];
    snprintf(beside, sizeof beside, "%s.%ld", path, (long)getpid());
    unlink(beside);
    int fd = open(beside, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0 || fchmod(fd, 0666) < 0 || ftruncate(fd, sizeof(struct sim_state)) < 0) {
        snprintf(why, room, "%s: %s", beside, strerror(errno));
        return -1;
    }
    struct sim_state *s = map(fd);
    int answer = -1;
    if (!s)
        snprintf(why, room, "%s: cannot be mapped: %s", beside, strerror(errno));
    else if (configure(s, lines, why, room) == 0) {
        s->size = sizeof *s;
        s->home = pid_space("self");
        atomic_store_explicit(&s->magic, SIM_MAGIC, memory_order_release);
        char content[4300];
        snprintf(content, sizeof content, "%s.content", path);
        unlink(content);
        answer = rename(beside, path);
        if (answer < 0)
            snprintf(why, room, "%s: %s", path, strerror(errno));
    }
    if (s)
        munmap(s, sizeof *s);
    if (answer < 0)
        unlink(beside);
    close(fd);
    return answer;
}

/* The state from the environment, unless another process was quicker. */
static void make_from_environment(void)
{
    char guard[4200], why[256], lines[8192];
    snprintf(guard, sizeof guard, "%s.lock", state_path());
    int lock = open(guard, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (lock >= 0)
        byte_lock(lock, F_OFD_SETLKW, 0, F_WRLCK);
    if (access(state_path(), F_OK) < 0) {
        configure_from_environment(lines, sizeof lines);
        if (state_make(state_path(), lines, why, sizeof why) < 0)
            fprintf(stderr, "simulated driver: no device state: %s\n", why);
    }
    if (lock >= 0)
        close(lock);
}

struct sim_state *state_open(void)
{
    pthread_mutex_lock(&opening);
    if (!the_state) {
        int fd = descriptor_open();
        if (fd < 0 && errno == ENOENT) {
            make_from_environment();
            fd = descriptor_open();
        }
        struct stat about;
        if (fd >= 0 && fstat(fd, &about) == 0 && (size_t)about.st_size >= sizeof(struct sim_state)) {
            struct sim_state *s = map(fd);
            if (s && ready(s)) {
                the_state = s;
                the_device = about.st_dev;
                the_inode = about.st_ino;
            } else if (s)
                munmap(s, sizeof *s);
        }
        if (fd >= 0)
            close(fd);
    }
    struct sim_state *s = the_state;
    pthread_mutex_unlock(&opening);
    return s;
}

/* ---- who lives ---------------------------------------------------------------------------------------------------- */

static int token_of(uint32_t slot)
{
    int fd = descriptor_open();
    struct stat about;
    if (fd >= 0 && (fstat(fd, &about) < 0 || about.st_dev != the_device || about.st_ino != the_inode)) {
        close(fd);
        return -1;
    }
    if (fd >= 0 && byte_lock(fd, F_OFD_SETLK, SIM_TOKENS + slot, F_WRLCK) < 0) {
        close(fd);
        return -1;
    }
    return fd;
}

/* Whether the kernel holds the byte of a slot for somebody; the holder is alive exactly that long. */
bool slot_alive(struct sim_state *s, uint32_t slot)
{
    (void)s;
    int fd = descriptor_open();
    if (fd < 0)
        return true;
    int held = byte_lock(fd, F_OFD_GETLK, SIM_TOKENS + slot, F_WRLCK);
    close(fd);
    return held != 0;
}

static uint64_t boot_ticks(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

int slot_take(struct sim_state *s, bool driver)
{
    for (int round = 0; round < 2; round++) {
        for (uint32_t i = 0; i < SIM_SLOTS; i++) {
            struct sim_slot *slot = &s->slots[i];
            uint32_t free_state = 0;
            if (atomic_load(&slot->state) != 0)
                continue;
            int fd = token_of(i);
            if (fd < 0)
                continue;
            if (!atomic_compare_exchange_strong(&slot->state, &free_state, 1)) {
                close(fd);
                continue;
            }
            void *hold = mmap(NULL, 4096, PROT_NONE, MAP_SHARED, fd, 0);
            if (hold != MAP_FAILED)
                madvise(hold, 4096, MADV_DONTFORK);
            close(fd);
            const char *tag = secure_getenv("HAMI_SIM_CONTAINER");
            slot->pid = (uint32_t)getpid();
            slot->space = pid_space("self");
            atomic_store(&slot->host, 0);
            slot->driver = driver;
            slot->started = boot_ticks();
            ssize_t n = readlink("/proc/self/exe", slot->name, sizeof slot->name - 1);
            slot->name[n > 0 ? n : 0] = 0;
            uint32_t seen = atomic_load(&s->slots_seen);
            while (seen < i + 1 && !atomic_compare_exchange_weak(&s->slots_seen, &seen, i + 1))
                ;
            lock_take(s, &s->lock, (int)i);
            slot->container = container_of(s, tag ? tag : "");
            atomic_store(&slot->state, 2);
            if (driver)
                atomic_fetch_add(&s->drivers, 1);
            lock_leave(&s->lock);
            return (int)i;
        }
        state_reap(s, -1, 0);
    }
    return -1;
}

static void slot_clear(struct sim_state *s, uint32_t i, int self)
{
    struct sim_slot *slot = &s->slots[i];
    for (uint32_t c = 0; c < atomic_load(&s->context_high); c++)
        if (s->contexts[c].used && s->contexts[c].slot == i)
            context_end(s, self, c);
    for (uint32_t h = 0; h < atomic_load(&s->share_high); h++)
        if (atomic_load(&s->shares[h].state) == 1)
            atomic_fetch_and(&s->shares[h].holders[i / 64], ~(UINT64_C(1) << (i % 64)));
    for (uint32_t d = 0; d < SIM_DEVICES; d++) {
        if (s->devices[d].kind == DEVICE_NONE)
            continue;
        lock_take(s, &s->devices[d].lock, self);
        s->containers[slot->container].on[d].busy += slot->use[d].busy;
        memset(&slot->use[d], 0, sizeof slot->use[d]);
        memory_recount(s, d);
        lock_leave(&s->devices[d].lock);
    }
    memset(slot->name, 0, sizeof slot->name);
    if (slot->driver && atomic_load(&slot->state) == 2)
        atomic_fetch_sub(&s->drivers, 1);
    slot->driver = 0;
    slot->pid = 0;
    atomic_store(&slot->state, 0);
}

void slot_leave(struct sim_state *s, int slot)
{
    lock_take(s, &s->lock, slot);
    slot_clear(s, (uint32_t)slot, slot);
    lock_leave(&s->lock);
}

void state_reap(struct sim_state *s, int self, int64_t every_ns)
{
    int64_t now = (int64_t)boot_ticks(), last = atomic_load_explicit(&s->reaped_at, memory_order_relaxed);
    if (every_ns && (now - last < every_ns || !atomic_compare_exchange_strong(&s->reaped_at, &last, now)))
        return;
    int fd = descriptor_open();
    if (fd < 0)
        return;
    bool any = false;
    for (uint32_t i = 0; i < atomic_load(&s->slots_seen); i++) {
        if (atomic_load(&s->slots[i].state) == 0 || (int)i == self)
            continue;
        if (byte_lock(fd, F_OFD_GETLK, SIM_TOKENS + i, F_WRLCK) != 0)
            continue;
        lock_take(s, &s->lock, self);
        if (atomic_load(&s->slots[i].state) != 0 && byte_lock(fd, F_OFD_GETLK, SIM_TOKENS + i, F_WRLCK) == 0) {
            slot_clear(s, i, self);
            any = true;
        }
        lock_leave(&s->lock);
    }
    for (uint32_t h = 0; h < atomic_load(&s->share_high); h++) {
        struct sim_share *share = &s->shares[h];
        if (atomic_load(&share->state) != 1)
            continue;
        uint64_t held = 0;
        for (unsigned w = 0; w < SIM_SLOTS / 64; w++)
            held |= atomic_load(&share->holders[w]);
        if (held || (share->by_handle && byte_lock(fd, F_OFD_GETLK, SIM_HANDLES + h, F_WRLCK) != 0))
            continue;
        uint32_t device = share->device;
        lock_take(s, &s->devices[device].lock, self);
        atomic_store(&share->state, 0);
        memory_recount(s, device);
        lock_leave(&s->devices[device].lock);
        any = true;
    }
    close(fd);
    if (any)
        atomic_fetch_add(&s->bell, 1);
}

/* ---- locks -------------------------------------------------------------------------------------------------------- */

#define WAITED 0x80000000u

static long futex(_Atomic uint32_t *word, int what, uint32_t value, const struct timespec *limit)
{
    return syscall(SYS_futex, word, what, value, limit, NULL, 0);
}

/* After a takeover: what the dead owner may have left half done. */
static void mend(struct sim_state *s, struct sim_lock *lock)
{
    for (uint32_t d = 0; d < SIM_DEVICES; d++) {
        if (&s->devices[d].lock != lock || s->devices[d].kind == DEVICE_NONE)
            continue;
        static uint32_t used[SIM_CONTEXTS];
        uint32_t n = 0;
        for (uint32_t c = 0; c < SIM_CONTEXTS; c++)
            if (s->contexts[c].used && s->contexts[c].device == d)
                used[n++] = c;
        engine_repair(&s->devices[d].engine, s->queues, used, n);
        memory_recount(s, d);
    }
}

/* A thread without a slot of its own is told by this number; it is counted as alive. */
void lock_take(struct sim_state *s, struct sim_lock *lock, int self)
{
    uint32_t mine = self >= 0 ? (uint32_t)self + 1 : SIM_SLOTS + 1, seen = 0;
    if (atomic_compare_exchange_strong_explicit(&lock->owner, &seen, mine, memory_order_acquire, memory_order_relaxed))
        return;
    for (int round = 0;; round++) {
        seen = atomic_load_explicit(&lock->owner, memory_order_relaxed);
        if (seen == 0) {
            if (atomic_compare_exchange_strong_explicit(&lock->owner, &seen, mine | WAITED, memory_order_acquire, memory_order_relaxed))
                return;
            continue;
        }
        if (round < 40)
            continue;
        if (!(seen & WAITED) && !atomic_compare_exchange_strong(&lock->owner, &seen, seen | WAITED))
            continue;
        seen |= WAITED;
        struct timespec limit = {.tv_nsec = 5000000};
        if (futex(&lock->owner, FUTEX_WAIT, seen, &limit) == 0 || errno != ETIMEDOUT)
            continue;
        uint32_t owner = seen & ~WAITED;
        bool dead = owner <= SIM_SLOTS && owner != mine && !slot_alive(s, owner - 1);
        if (owner == SIM_SLOTS + 1 && round > 400)
            dead = true;
        if (dead && atomic_compare_exchange_strong(&lock->owner, &seen, mine | WAITED)) {
            mend(s, lock);
            return;
        }
    }
}

void lock_leave(struct sim_lock *lock)
{
    if (atomic_exchange_explicit(&lock->owner, 0, memory_order_release) & WAITED)
        futex(&lock->owner, FUTEX_WAKE, 1, NULL);
}

/* ---- clock -------------------------------------------------------------------------------------------------------- */

int64_t clock_now(const struct sim_state *s)
{
    if (s->virtual_time)
        return atomic_load_explicit(&s->virtual_now, memory_order_relaxed);
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

void clock_wait_until(struct sim_state *s, int64_t at)
{
    if (s->virtual_time) {
        int64_t seen = atomic_load(&s->virtual_now);
        while (seen < at && !atomic_compare_exchange_weak(&s->virtual_now, &seen, at))
            ;
        return;
    }
    int64_t now = clock_now(s), most = now + 20000000;
    if (at > most)
        at = most;
    if (at < now + 1000)
        at = now + 1000;
    struct timespec t = {.tv_sec = at / 1000000000, .tv_nsec = at % 1000000000};
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
}

/* Whether a process is called so in its own pid namespace. */
static bool is_called(const char *process, uint32_t pid)
{
    char path[64], line[256];
    snprintf(path, sizeof path, "/proc/%.20s/status", process);
    FILE *file = fopen(path, "re");
    unsigned long last = 0;
    while (file && fgets(line, sizeof line, file)) {
        const char *word = strncmp(line, "NSpid:", 6) ? NULL : strrchr(line, '\t');
        last = word ? strtoul(word + 1, NULL, 10) : last;
    }
    if (file)
        fclose(file);
    return last == pid;
}

/* The pid by which we see a process of another namespace; one that is gone has a number that no process bears. */
static uint32_t pid_from_here(uint32_t slot, uint64_t space, uint32_t pid)
{
    uint32_t found = 0x40000000u + slot;
    DIR *processes = opendir("/proc");
    for (struct dirent *one; processes && found >= 0x40000000u && (one = readdir(processes));)
        if (one->d_name[0] >= '1' && one->d_name[0] <= '9' && pid_space(one->d_name) == space && is_called(one->d_name, pid))
            found = (uint32_t)strtoul(one->d_name, NULL, 10);
    if (processes)
        closedir(processes);
    return found;
}

/* We are of the host, or have at least its proc file system, where we are called otherwise than by ourselves. */
static bool sees_home(const struct sim_state *s)
{
    char text[32];
    ssize_t n = readlink("/proc/self", text, sizeof text - 1);
    text[n > 0 ? n : 0] = 0;
    return pid_space("self") == s->home || (n > 0 && strtol(text, NULL, 10) != getpid());
}

/* A driver knows all processes by their pids on the host, also where it is asked in a container. What is loaded into a container
 * cannot know them: whoever sees the host tells, once. */
uint32_t shown_pid(struct sim_state *s, uint32_t slot, uint32_t pid)
{
    struct sim_slot *one = &s->slots[slot];
    if (one->pid == pid && one->space && one->space != s->home) {
        pid = atomic_load(&one->host);
        if (!pid && sees_home(s))
            atomic_store(&one->host, pid = pid_from_here(slot, one->space, one->pid));
        if (!pid)
            return 0;
    }
    return pid + (uint32_t)s->pid_offset;
}
