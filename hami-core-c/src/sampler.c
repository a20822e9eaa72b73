#include "sampler.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>

#include "attach.h"
#include "object.h"

#define LEASE_MS 3000u
#define PERIOD_NS 170000000
#define MOST_SAMPLES 1100
#define HISTORY_US 3000000

/* The host's first pid namespace has a fixed number; there our own pid is the host's. */
static bool in_first_namespace(void)
{
    char text[64];
    ssize_t n = readlink("/proc/self/ns/pid", text, sizeof text - 1);
    if (n <= 0)
        return false;
    text[n] = 0;
    return strcmp(text, "pid:[4026531836]") == 0;
}

int32_t sampler_host_pid(const char *region_path)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    const char *slash = strrchr(region_path, '/');
    size_t folder = slash ? (size_t)(slash - region_path) + 1 : 0;
    if (in_first_namespace())
        return (int32_t)getpid();
    if (!slash || folder + sizeof "agent.sock" > sizeof at.sun_path)
        return 0;
    memcpy(at.sun_path, region_path, folder);
    strcpy(at.sun_path + folder, "agent.sock");
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return 0;
    struct timeval patience = {.tv_usec = 200000};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    char text[16];
    int32_t pid = 0;
    ssize_t n = connect(fd, (struct sockaddr *)&at, sizeof at) == 0 ? recv(fd, text, sizeof text - 1, 0) : 0;
    for (ssize_t i = 0; i < n && text[i] >= '0' && text[i] <= '9' && pid < 100000000; i++)
        pid = pid * 10 + (text[i] - '0');
    close(fd);
    return pid;
}

static bool elected(struct process *p, struct hami_device *d, int64_t now)
{
    uint64_t held = atomic_load_explicit(&d->sampler, memory_order_relaxed), ms = (uint64_t)now / 1000000, me = p->state.ledger.slot + 1;
    uint64_t mine = (ms + LEASE_MS) << 16 | me;
    bool free = held == 0 || (held >> 16) < ms || (held >> 16) > ms + 2 * LEASE_MS;
    if ((held & 0xffff) != me && !free)
        return false;
    return atomic_compare_exchange_strong(&d->sampler, &held, mine);
}

static const struct nvml *management(void)
{
    static _Atomic int tried;
    const struct nvml *n = loaded_nvml();
    if (!atomic_exchange(&tried, 1)) {
        void *(*opener)(const char *, int) = (void *(*)(const char *, int))libc_symbol("dlopen");
        if (!n && opener && opener("libnvidia-ml.so.1", RTLD_LAZY))
            n = loaded_nvml();
        if (n && n->nvmlInit_v2)
            n->nvmlInit_v2();
    }
    return n;
}

static bool handle_of(struct process *p, const struct nvml *n, unsigned device, nvmlDevice_t *out)
{
    unsigned count = 0;
    char uuid[HAMI_UUID_ROOM], wanted[HAMI_UUID_ROOM];
    if (!n->nvmlDeviceGetCount_v2 || !n->nvmlDeviceGetHandleByIndex_v2 || !n->nvmlDeviceGetUUID || n->nvmlDeviceGetCount_v2(&count) != NVML_SUCCESS)
        return false;
    memcpy(wanted, p->state.region->uuids[device], sizeof wanted);
    wanted[sizeof wanted - 1] = 0;
    for (unsigned i = 0; i < count; i++)
        if (n->nvmlDeviceGetHandleByIndex_v2(i, out) == NVML_SUCCESS && n->nvmlDeviceGetUUID(*out, uuid, sizeof uuid) == NVML_SUCCESS &&
            strcmp(uuid, wanted) == 0)
            return true;
    return false;
}

/* Credit that dead processes hold comes back. */
static void return_holds(struct process *p, unsigned device)
{
    struct ledger *l = &p->state.ledger;
    int round = -1;
    for (unsigned i = 0; i < HAMI_SLOTS && i < (unsigned)p->state.region->slot_count; i++) {
        _Atomic int64_t *hold = &p->state.region->slots[i].utilization[device].hold;
        if (i == l->slot || !atomic_load_explicit(hold, memory_order_relaxed))
            continue;
        if (round < 0)
            round = l->liveness.begin(l->liveness.who);
        if (round < 0)
            return;
        if (!l->liveness.alive(round, i)) {
            int64_t bytes = atomic_exchange(hold, 0);
            if (bytes > 0)
                atomic_fetch_add(&p->state.extension->devices[device].credit, bytes);
        }
    }
    if (round >= 0)
        l->liveness.end(round);
}

static int slot_of(struct process *p, uint32_t pid)
{
    for (unsigned i = 0; i < HAMI_SLOTS && i < (unsigned)p->state.region->slot_count; i++)
        if (atomic_load_explicit(&p->state.region->slots[i].status, memory_order_relaxed) == 1 &&
            (uint32_t)atomic_load_explicit(&p->state.region->slots[i].host_pid, memory_order_relaxed) == pid)
            return (int)i;
    return -1;
}

/* Own processes would pass for strangers where their pids are not known. */
static bool pids_known(struct process *p)
{
    for (unsigned i = 0; i < HAMI_SLOTS && i < (unsigned)p->state.region->slot_count; i++)
        if (atomic_load_explicit(&p->state.region->slots[i].status, memory_order_relaxed) == 1 &&
            !atomic_load_explicit(&p->state.region->slots[i].host_pid, memory_order_relaxed))
            return false;
    return true;
}

static void sample(struct process *p, unsigned device, int64_t now)
{
    static nvmlProcessUtilizationSample_t samples[MOST_SAMPLES];    /* of the one settling thread */
    static uint32_t own[HAMI_SLOTS], others[MOST_SAMPLES];
    static bool told[HAMI_SLOTS];
    struct pacer *a = &p->pacers[device];
    const struct nvml *n = management();
    nvmlDevice_t handle;
    nvmlUtilization_t whole;
    unsigned count = MOST_SAMPLES, own_count = 0, other_count = 0;
    struct timespec wall;
    clock_gettime(CLOCK_REALTIME, &wall);
    uint64_t wall_us = (uint64_t)wall.tv_sec * 1000000 + (uint64_t)wall.tv_nsec / 1000, since = a->samples_seen;
    if (since > wall_us || since + HISTORY_US < wall_us)
        since = wall_us - HISTORY_US;       /* never asked, long ago, or the wall clock was set back since */
    if (!n || !n->nvmlDeviceGetProcessUtilization || !n->nvmlDeviceGetUtilizationRates || !pids_known(p) || !handle_of(p, n, device, &handle) ||
        n->nvmlDeviceGetProcessUtilization(handle, samples, &count, since) != NVML_SUCCESS || count == 0 ||
        n->nvmlDeviceGetUtilizationRates(handle, &whole) != NVML_SUCCESS)
        return;
    uint64_t newest = 0;
    for (unsigned i = 0; i < count && i < MOST_SAMPLES; i++)
        if (samples[i].timeStamp > newest)
            newest = samples[i].timeStamp;
    if (newest <= since)
        return;
    a->samples_seen = newest;
    memset(told, 0, sizeof told);
    for (unsigned i = 0; i < count && i < MOST_SAMPLES; i++) {
        if (samples[i].timeStamp + 50000 < newest)
            continue;               /* of an older window */
        int slot = slot_of(p, samples[i].pid);
        if (slot >= 0 && own_count < HAMI_SLOTS) {
            own[own_count++] = samples[i].smUtil;
            told[slot] = true;
            atomic_store_explicit(&p->state.region->slots[slot].utilization[device].sm, samples[i].smUtil, memory_order_relaxed);
        } else if (slot < 0) {
            others[other_count++] = samples[i].smUtil;
        }
    }
    /* Below one percent a process is left out: up to one percent it may have had. */
    for (unsigned i = 0; i < HAMI_SLOTS && i < (unsigned)p->state.region->slot_count; i++) {
        const struct hami_slot *slot = &p->state.region->slots[i];
        if (told[i] || own_count == HAMI_SLOTS || atomic_load_explicit(&slot->status, memory_order_relaxed) != 1 ||
            !atomic_load_explicit(&slot->used[device].total, memory_order_relaxed))
            continue;
        own[own_count++] = 0;
        atomic_store_explicit(&p->state.region->slots[i].utilization[device].sm, 0, memory_order_relaxed);
    }
    int64_t age = ((int64_t)wall_us - (int64_t)newest) * 1000;
    if (age < 0 || age > 10000000000)
        return;
    latch_take(&a->latch);
    throttle_sample(&a->throttle, now - age, own, own_count, others, other_count, whole.gpu);
    latch_leave(&a->latch);
}

void sampler_round(struct process *p, unsigned device, int64_t now, bool in_flight)
{
    static int64_t sampled[HAMI_DEVICES], reaped[HAMI_DEVICES];
    struct pacer *a = &p->pacers[device];
    if (!elected(p, &p->state.extension->devices[device], now))
        return;
    latch_take(&a->latch);
    throttle_book(&a->throttle, now, in_flight);
    latch_leave(&a->latch);
    if (now - reaped[device] > 1000000000 || now < reaped[device]) {
        reaped[device] = now;
        return_holds(p, device);
    }
    if (now - sampled[device] > PERIOD_NS || now < sampled[device]) {
        sampled[device] = now;
        sample(p, device, now);
    }
}

uint64_t sampler_card_used(struct process *p, unsigned device)
{
    const struct nvml *n = management();
    nvmlDevice_t handle;
    nvmlMemory_t memory;
    if (!n || !n->nvmlDeviceGetMemoryInfo || !handle_of(p, n, device, &handle) || n->nvmlDeviceGetMemoryInfo(handle, &memory) != NVML_SUCCESS)
        return 0;
    return memory.used;
}

int64_t sampler_own_used(struct process *p, unsigned device)
{
    const struct nvml *n = management();
    nvmlDevice_t handle;
    unsigned int count = HAMI_SLOTS, pid = (unsigned int)atomic_load_explicit(&p->state.region->slots[p->state.ledger.slot].host_pid,
        memory_order_relaxed);
    if (!pid || !n || !n->nvmlDeviceGetComputeRunningProcesses_v3 || !handle_of(p, n, device, &handle))
        return -1;
    nvmlProcessInfo_t *all = mmap(NULL, count * sizeof *all, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (all == MAP_FAILED)
        return -1;
    int64_t bytes = n->nvmlDeviceGetComputeRunningProcesses_v3(handle, &count, all) == NVML_SUCCESS ? 0 : -1;
    for (unsigned int i = 0; bytes == 0 && i < count && i < HAMI_SLOTS; i++)
        if (all[i].pid == pid)
            bytes = all[i].usedGpuMemory < (UINT64_C(1) << 47) ? (int64_t)all[i].usedGpuMemory : -1;
    munmap(all, HAMI_SLOTS * sizeof *all);
    return bytes;
}
