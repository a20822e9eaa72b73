#include "attach.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "object.h"
#include "sampler.h"
#include "steps.h"

#define MOST_LIMITS_BYTES 65536
#define CREATION_PATIENCE_NS 30000000000

/* fstat and stat got new versions in glibc 2.33; the system calls have not. */
static int status_of(int fd, struct stat *out)
{
    return (int)syscall(SYS_fstat, fd, out);
}

static int open_quietly(const char *path, int flags)
{
    int fd;
    do
        fd = open(path, flags | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0666);
    while (fd < 0 && errno == EINTR);
    return fd;
}

/* ---- limits -------------------------------------------------------------------------------------------------------------- */

static ssize_t read_all(int fd, char *out, size_t room)
{
    size_t n = 0;
    while (n < room) {
        ssize_t got = read(fd, out + n, room - n);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return -1;
        if (got == 0)
            return (ssize_t)n;
        n += (size_t)got;
    }
    return -1;
}

/* Trusted as far as this library is: of root or of the same owner, and nobody else may write it. */
static bool trusted(int fd, const char *library)
{
    struct stat file, self;
    int own = open_quietly(library, O_RDONLY);
    bool known = own >= 0 && status_of(own, &self) == 0;
    if (own >= 0)
        close(own);
    return status_of(fd, &file) == 0 && S_ISREG(file.st_mode) && !(file.st_mode & (S_IWGRP | S_IWOTH)) &&
        (file.st_uid == 0 || (known && file.st_uid == self.st_uid));
}

void attach_read_limits(struct state *s, bool *there, const char **why)
{
    struct object self;
    char path[OPTION_PATH];
    *there = false;
    *why = NULL;
    memset(&s->limits, 0, sizeof s->limits);
    s->limits.exports = true;
    if (!object_at((const void *)&attach_read_limits, &self) || !self.path)
        return;
    const char *slash = strrchr(self.path, '/');
    size_t folder = slash ? (size_t)(slash - self.path) + 1 : 0;
    if (!slash || folder + sizeof "limits" > sizeof path)
        return;
    memcpy(path, self.path, folder);
    strcpy(path + folder, "limits");
    int fd = open_quietly(path, O_RDONLY);
    if (fd < 0 && errno == ENOENT)
        return;
    *there = true;
    char *text = mmap(NULL, MOST_LIMITS_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ssize_t n = fd >= 0 && text != MAP_FAILED ? read_all(fd, text, MOST_LIMITS_BYTES) : -1;
    if (n < 0)
        *why = "it cannot be read";
    else if (!trusted(fd, self.path))
        *why = "others than its owner may write it, or its owner is not the library's";
    else
        *why = limits_parse(text, (size_t)n, &s->limits);
    if (fd >= 0)
        close(fd);
    if (text != MAP_FAILED)
        munmap(text, MOST_LIMITS_BYTES);
}

/* ---- questions to the kernel --------------------------------------------------------------------------------------------- */

static int byte_lock(int fd, int command, off_t at, short type, bool *taken)
{
    struct flock lock = {.l_type = type, .l_whence = SEEK_SET, .l_start = at, .l_len = 1};
    int answer = fcntl(fd, command, &lock);
    if (taken)
        *taken = lock.l_type != F_UNLCK;
    return answer;
}

/* Every question has a description of its own: what a child inherits of it locks nothing. */
static int questions_begin(void *who)
{
    struct state *s = who;
    struct stat now;
    int fd = open_quietly(s->path, O_RDWR | O_NOFOLLOW);
    if (fd >= 0 && (status_of(fd, &now) != 0 || now.st_dev != s->file_device || now.st_ino != s->file_inode)) {
        close(fd);                  /* another file has taken its place: it knows nothing about us */
        fd = -1;
    }
    return fd;
}

static bool question_alive(int round, unsigned slot)
{
    bool taken = true;
    return byte_lock(round, F_OFD_GETLK, HAMI_TOKENS + (off_t)slot, F_WRLCK, &taken) != 0 || taken;
}

static void questions_end(int round)
{
    close(round);
}

/* ---- the region ---------------------------------------------------------------------------------------------------------- */

/* A dying process's mappings are taken from it in the order of their addresses, and the files behind them closed in the other one. Low
 * down, if there is room, our byte is let go after what keeps the driver's memory. */
#define GONE_LAST ((void *)0x100000)

/* The byte stays ours as long as this process has a mapping of the description that locked it; children get no such mapping. */
static bool take_byte(struct state *s)
{
    int fd = open_quietly(s->path, O_RDWR | O_NOFOLLOW);
    if (fd < 0)
        return false;
    unsigned slot = 0;
    while (slot < HAMI_SLOTS && byte_lock(fd, F_OFD_SETLK, HAMI_TOKENS + (off_t)slot, F_WRLCK, NULL) != 0)
        slot++;
    void *token = slot < HAMI_SLOTS ? mmap(GONE_LAST, 4096, PROT_NONE, MAP_SHARED, fd, 0) : MAP_FAILED;
    if (token != MAP_FAILED)
        madvise(token, 4096, MADV_DONTFORK);
    close(fd);
    s->ledger.slot = slot;
    return token != MAP_FAILED;
}

static bool anybody_lives(struct state *s)
{
    int32_t n = atomic_load_explicit(&s->region->slot_count, memory_order_relaxed);
    if (n < 0 || n > HAMI_SLOTS)
        n = HAMI_SLOTS;
    int round = questions_begin(s);
    if (round < 0)
        return true;
    bool lives = false;
    for (int32_t i = 0; i < n && !lives; i++)
        lives = question_alive(round, (unsigned)i);
    questions_end(round);
    return lives;
}

static void write_header(struct state *s)
{
    struct hami_region *r = s->region;
    r->major_version = HAMI_REGION_MAJOR;
    r->minor_version = HAMI_REGION_MINOR;
    memset(r->old_semaphore, 0, sizeof r->old_semaphore);
    memset(r->old_second_semaphore, 0, sizeof r->old_second_semaphore);
    /* For an old library that meets this file: value 1, free, and waited for across processes. */
    r->old_semaphore[0] = r->old_second_semaphore[0] = 1;
    r->old_semaphore[8] = r->old_second_semaphore[8] = 128;
    r->priority = s->limits.present && s->limits.priority > s->options.priority ? s->limits.priority : s->options.priority;
    if (s->limits.present && !s->options.priority_set)
        r->priority = s->limits.priority;
    memset(r->uuids, 0, sizeof r->uuids);
    r->device_count = s->limits.devices;
    for (unsigned i = 0; i < s->limits.devices && i < HAMI_DEVICES; i++)
        memcpy(r->uuids[i], s->limits.device[i].uuid, strlen(s->limits.device[i].uuid) + 1);
    for (unsigned i = 0; i < HAMI_DEVICES; i++) {
        struct rule rule = rule_for(&s->limits, &s->options, r->uuids[i], i);
        bool known = i < s->limits.devices || !s->limits.present;
        atomic_store(&r->memory_limit[i], !known || rule.memory == NO_LIMIT ? 0 : rule.memory);
        atomic_store(&r->core_limit[i], !known || !rule.cores ? 100 : rule.cores);
    }
    atomic_store(&r->utilization_switch, 1);
    atomic_store(&r->recent_kernel, 2);
}

/* Of an earlier life only memory stays that a descriptor may still keep. */
static void write_extension(struct state *s)
{
    struct hami_extension *e = s->extension;
    bool known = atomic_load(&e->magic) == HAMI_EXTENSION_MAGIC && e->version == HAMI_EXTENSION_VERSION;
    memset((void *)e->devices, 0, sizeof e->devices);
    for (unsigned i = 0; i < HAMI_SHARES; i++) {
        struct hami_share *one = &e->shares[i];
        uint32_t device = atomic_load(&one->device);
        uint64_t key = atomic_load(&one->key), bytes = atomic_load(&one->bytes);
        bool kept = known && key && atomic_load(&one->by_descriptor) && device < HAMI_DEVICES && bytes < UINT64_C(1) << 47;
        memset((void *)one, 0, sizeof *one);
        if (!kept)
            continue;
        atomic_store(&one->device, device);
        atomic_store(&one->bytes, bytes);
        atomic_store(&one->by_descriptor, 1);
        atomic_store(&one->key, key);
        atomic_fetch_add(&e->devices[device].used, bytes);
    }
    s->extension->version = HAMI_EXTENSION_VERSION;
    s->extension->size = sizeof *s->extension;
    atomic_store_explicit(&s->extension->magic, HAMI_EXTENSION_MAGIC, memory_order_release);
}

/* Under the creation lock: a new file is filled, one that nobody uses is made new, one in use is taken as it is. */
static const char *make_or_check(struct state *s)
{
    struct hami_region *r = s->region;
    int32_t magic = atomic_load_explicit(&r->magic, memory_order_acquire);
    if (magic != 0 && (magic != HAMI_REGION_MAGIC || r->major_version != HAMI_REGION_MAJOR))
        return "the file is not a region of this version";
    bool lives = magic && anybody_lives(s);
    if (!lives) {
        if (magic) {
            memset((void *)r->slots, 0, sizeof r->slots);
            atomic_store(&r->slot_count, 0);
        }
        write_header(s);
        write_extension(s);
        atomic_store_explicit(&r->magic, HAMI_REGION_MAGIC, memory_order_release);
        return NULL;
    }
    if (atomic_load(&s->extension->magic) != HAMI_EXTENSION_MAGIC)
        write_extension(s);         /* made by an older library; the recount at each claim fills it */
    return s->extension->version == HAMI_EXTENSION_VERSION ? NULL : "its extension is of another version";
}

static bool creation_lock(int fd)
{
    struct timespec pause = {.tv_nsec = 200000};
    for (int64_t waited = 0; waited < CREATION_PATIENCE_NS; waited += pause.tv_nsec) {
        if (byte_lock(fd, F_OFD_SETLK, HAMI_CREATION, F_WRLCK, NULL) == 0)
            return true;
        if (errno != EAGAIN && errno != EACCES && errno != EINTR)
            return false;
        nanosleep(&pause, NULL);
        if (pause.tv_nsec < 3000000)
            pause.tv_nsec += pause.tv_nsec / 4;
    }
    return false;
}

static int open_region(const char *path)
{
    for (int i = 0; i < 8; i++) {
        int fd = open_quietly(path, O_RDWR | O_NOFOLLOW);
        if (fd >= 0 || errno != ENOENT)
            return fd;
        fd = open_quietly(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW);
        if (fd >= 0) {
            if (fchmod(fd, 0666) != 0)
                errno = 0;          /* other users of the container will be refused; the file itself is good */
            return fd;
        }
    }
    return -1;
}

static const char *map_region(struct state *s, int fd)
{
    struct stat file;
    if (status_of(fd, &file) != 0 || !S_ISREG(file.st_mode))
        return "it is no regular file";
    s->file_device = file.st_dev;
    s->file_inode = file.st_ino;
    if (!creation_lock(fd))
        return "another process has been making it for half a minute";
    if (status_of(fd, &file) != 0 || (file.st_size < HAMI_FILE_BYTES && ftruncate(fd, HAMI_FILE_BYTES) != 0))
        return "it cannot be grown";
    /* Its own description: what keeps the mapping alive in a child must keep no lock alive. */
    int second = open_quietly(s->path, O_RDWR | O_NOFOLLOW);
    struct stat same;
    void *m = MAP_FAILED;
    if (second >= 0 && status_of(second, &same) == 0 && same.st_dev == file.st_dev && same.st_ino == file.st_ino)
        m = mmap(NULL, HAMI_FILE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, second, 0);
    if (second >= 0)
        close(second);
    if (m == MAP_FAILED)
        return "it cannot be mapped";
    s->region = m;
    s->extension = (struct hami_extension *)((char *)m + HAMI_EXTENSION_AT);
    return make_or_check(s);
}

const char *attach_region(struct state *s, bool *full)
{
    const char *path = s->limits.present ? s->limits.region : s->options.region[0] ? s->options.region : "/tmp/cudevshr.cache";
    strcpy(s->path, path);
    *full = false;
    s->ledger.liveness = (struct liveness){questions_begin, question_alive, questions_end, s};
    int fd = open_region(path);
    if (fd < 0)
        return "it can neither be opened nor made";
    const char *why = map_region(s, fd);
    if (!why && !take_byte(s)) {
        why = "all its slots are taken";
        *full = true;
    }
    if (!why) {
        STEP(STEP_CLAIM);
        s->ledger.region = s->region;
        s->ledger.extension = s->extension;
        ledger_claim(&s->ledger, (int32_t)getpid());
        atomic_store(&s->region->slots[s->ledger.slot].host_pid, sampler_host_pid(s->path));
    }
    close(fd);                      /* and with it the creation lock */
    return why;
}

int attach_device(struct state *s, const char *uuid)
{
    struct hami_region *r = s->region;
    int index = -1;
    int fd = open_quietly(s->path, O_RDWR | O_NOFOLLOW);
    if (fd >= 0 && creation_lock(fd)) {
        for (int i = 0; i < HAMI_DEVICES && index < 0; i++) {
            r->uuids[i][HAMI_UUID_ROOM - 1] = 0;
            const char *known = r->uuids[i];
            bool same = strlen(known) > 4 && strlen(uuid) > 4 && strcmp(known + 4, uuid + 4) == 0;
            if (same || !known[0])
                index = i;
        }
        if (index >= 0 && !r->uuids[index][0]) {
            strncpy(r->uuids[index], uuid, HAMI_UUID_ROOM - 1);
            if (r->device_count < (uint64_t)index + 1)
                r->device_count = (uint64_t)index + 1;
        }
    }
    if (fd >= 0)
        close(fd);
    return index;
}
