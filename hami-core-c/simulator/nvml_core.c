/* Initialisation, devices and what they are. */
#include "management.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

struct management management = {.slot = -1};
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pid_t owner;

static const struct { nvmlReturn_t code; const char *name, *text; } told[] = {
#include "nvml_errors.inc"
};

nvmlReturn_t sim_gate(unsigned entry, bool anytime)
{
    struct sim_state *s = management.state;
    if (s && atomic_load_explicit(&s->faults_on, memory_order_relaxed)) {
        const char *tag = secure_getenv("HAMI_SIM_CONTAINER");
        int code = fault_for(s, sim_entries[entry].name, tag ? tag : "");
        if (code)
            return (nvmlReturn_t)code;
    }
    return anytime || (management.users && owner == getpid()) ? NVML_SUCCESS : NVML_ERROR_UNINITIALIZED;
}

nvmlReturn_t sim_refused(unsigned entry)
{
    (void)entry;
    return management.users ? NVML_ERROR_NOT_SUPPORTED : NVML_ERROR_UNINITIALIZED;
}

static nvmlReturn_t start(void)
{
    nvmlReturn_t status = NVML_SUCCESS;
    pthread_mutex_lock(&lock);
    if (owner != getpid()) {
        management.users = 0;
        management.slot = -1;
        owner = getpid();
    }
    if (!management.users) {
        management.state = state_open();
        if (!management.state)
            status = NVML_ERROR_DRIVER_NOT_LOADED;
        else if (management.slot < 0 && (management.slot = slot_take(management.state, false)) < 0)
            status = NVML_ERROR_INSUFFICIENT_RESOURCES;
    }
    if (status == NVML_SUCCESS)
        management.users++;
    pthread_mutex_unlock(&lock);
    return status;
}

nvmlReturn_t sim_nvmlInit(void) { return start(); }
nvmlReturn_t sim_nvmlInit_v2(void) { return start(); }
nvmlReturn_t sim_nvmlInitWithFlags(unsigned int flags) { (void)flags; return start(); }

nvmlReturn_t sim_nvmlShutdown(void)
{
    nvmlReturn_t status = NVML_SUCCESS;
    pthread_mutex_lock(&lock);
    if (!management.users || owner != getpid())
        status = NVML_ERROR_UNINITIALIZED;
    else
        management.users--;
    pthread_mutex_unlock(&lock);
    return status;
}

const char *sim_nvmlErrorString(nvmlReturn_t result)
{
    for (size_t i = 0; i < sizeof told / sizeof *told; i++)
        if (told[i].code == result)
            return told[i].text;
    return "unknown error";
}

struct sim_device *device_of(nvmlDevice_t handle)
{
    const char *first = (const char *)management.state->devices;
    size_t at = (size_t)((const char *)handle - first);
    if (!handle || at >= sizeof management.state->devices || at % sizeof(struct sim_device))
        return NULL;
    struct sim_device *d = (struct sim_device *)(void *)handle;
    return d->kind == DEVICE_CARD || d->kind == DEVICE_COMPUTE_INSTANCE ? d : NULL;
}

uint32_t number_of(const struct sim_device *d)
{
    return (uint32_t)(d - management.state->devices);
}

void look_at(struct sim_device *d)
{
    struct sim_state *s = management.state;
    state_reap(s, management.slot, 5000000);
    lock_take(s, &d->lock, management.slot);
    device_advance(s, number_of(d), clock_now(s));
    lock_leave(&d->lock);
}

/* ---- system ----------------------------------------------------------------------------------------------------------- */

static nvmlReturn_t text_out(char *out, unsigned room, const char *text)
{
    NEED(out);
    if (strlen(text) + 1 > room)
        return NVML_ERROR_INSUFFICIENT_SIZE;
    memcpy(out, text, strlen(text) + 1);
    return NVML_SUCCESS;
}

nvmlReturn_t sim_nvmlSystemGetDriverVersion(char *version, unsigned int length)
{
    return text_out(version, length, management.state->driver_text);
}

nvmlReturn_t sim_nvmlSystemGetNVMLVersion(char *version, unsigned int length)
{
    char text[64];
    snprintf(text, sizeof text, "%u.%s", management.state->driver_version / 1000, management.state->driver_text);
    return text_out(version, length, text);
}

nvmlReturn_t sim_nvmlSystemGetCudaDriverVersion(int *cudaDriverVersion)
{
    NEED(cudaDriverVersion);
    *cudaDriverVersion = (int)management.state->driver_version;
    return NVML_SUCCESS;
}

nvmlReturn_t sim_nvmlSystemGetCudaDriverVersion_v2(int *cudaDriverVersion)
{
    return sim_nvmlSystemGetCudaDriverVersion(cudaDriverVersion);
}

nvmlReturn_t sim_nvmlSystemGetProcessName(unsigned int pid, char *name, unsigned int length)
{
    struct sim_state *s = management.state;
    NEED(name);
    for (uint32_t i = 0; i < atomic_load(&s->slots_seen); i++)
        if (atomic_load(&s->slots[i].state) == 2 && shown_pid(s, i, s->slots[i].pid) == pid) {
            snprintf(name, length, "%s", s->slots[i].name);
            return NVML_SUCCESS;
        }
    return NVML_ERROR_NOT_FOUND;
}

/* ---- handles ---------------------------------------------------------------------------------------------------------- */

static struct sim_device *card_at(unsigned index)
{
    struct sim_state *s = management.state;
    for (uint32_t d = 0; d < s->cards; d++)
        if (s->devices[d].visible_nvml && !index--)
            return &s->devices[d];
    return NULL;
}

static nvmlReturn_t count(unsigned *out)
{
    NEED(out);
    *out = 0;
    while (card_at(*out))
        ++*out;
    return NVML_SUCCESS;
}

nvmlReturn_t sim_nvmlDeviceGetCount(unsigned int *deviceCount) { return count(deviceCount); }
nvmlReturn_t sim_nvmlDeviceGetCount_v2(unsigned int *deviceCount) { return count(deviceCount); }

static nvmlReturn_t by_index(unsigned index, nvmlDevice_t *out)
{
    NEED(out);
    struct sim_device *d = card_at(index);
    if (!d)
        return NVML_ERROR_INVALID_ARGUMENT;
    *out = (nvmlDevice_t)d;
    return atomic_load(&d->lost) ? NVML_ERROR_GPU_IS_LOST : NVML_SUCCESS;
}

nvmlReturn_t sim_nvmlDeviceGetHandleByIndex(unsigned int index, nvmlDevice_t *device) { return by_index(index, device); }
nvmlReturn_t sim_nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t *device) { return by_index(index, device); }

nvmlReturn_t sim_nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *device)
{
    NEED(uuid);
    NEED(device);
    struct sim_state *s = management.state;
    for (uint32_t d = 0; d < SIM_DEVICES; d++) {
        uint32_t kind = s->devices[d].kind;
        if ((kind == DEVICE_CARD || kind == DEVICE_COMPUTE_INSTANCE) && s->devices[card_of(s, d)].visible_nvml &&
            !strcasecmp(s->devices[d].uuid, uuid)) {
            *device = (nvmlDevice_t)&s->devices[d];
            return NVML_SUCCESS;
        }
    }
    return NVML_ERROR_NOT_FOUND;
}

nvmlReturn_t sim_nvmlDeviceGetHandleBySerial(const char *serial, nvmlDevice_t *device)
{
    NEED(serial);
    NEED(device);
    for (unsigned i = 0; card_at(i); i++)
        if (!strcmp(card_at(i)->serial, serial)) {
            *device = (nvmlDevice_t)card_at(i);
            return NVML_SUCCESS;
        }
    return NVML_ERROR_NOT_FOUND;
}

static nvmlReturn_t by_bus(const char *text, nvmlDevice_t *out)
{
    unsigned domain = 0, bus = 0, slot = 0;
    NEED(text);
    NEED(out);
    if (sscanf(text, "%x:%x:%x", &domain, &bus, &slot) < 3) {
        domain = 0;
        if (sscanf(text, "%x:%x", &bus, &slot) < 2)
            return NVML_ERROR_INVALID_ARGUMENT;
    }
    for (unsigned i = 0; card_at(i); i++)
        if (card_at(i)->bus == bus && card_at(i)->domain == domain && card_at(i)->slot == slot) {
            *out = (nvmlDevice_t)card_at(i);
            return NVML_SUCCESS;
        }
    return NVML_ERROR_NOT_FOUND;
}

nvmlReturn_t sim_nvmlDeviceGetHandleByPciBusId(const char *pciBusId, nvmlDevice_t *device) { return by_bus(pciBusId, device); }
nvmlReturn_t sim_nvmlDeviceGetHandleByPciBusId_v2(const char *pciBusId, nvmlDevice_t *device) { return by_bus(pciBusId, device); }

nvmlReturn_t sim_nvmlDeviceGetIndex(nvmlDevice_t device, unsigned int *index)
{
    NEED_DEVICE(d);
    NEED(index);
    if (d->kind == DEVICE_CARD) {
        for (*index = 0; card_at(*index) != d; ++*index)
            if (!card_at(*index))
                return NVML_ERROR_NOT_FOUND;
        return NVML_SUCCESS;
    }
    struct sim_state *s = management.state;
    uint32_t card = card_of(s, number_of(d));
    *index = 0;
    for (uint32_t i = 0; i < number_of(d); i++)
        *index += s->devices[i].kind == DEVICE_COMPUTE_INSTANCE && card_of(s, i) == card;
    return NVML_SUCCESS;
}

nvmlReturn_t sim_nvmlDeviceGetName(nvmlDevice_t device, char *name, unsigned int length)
{
    NEED_DEVICE(d);
    char text[160];
    const struct sim_mig_profile *p = NULL;
    if (d->kind == DEVICE_COMPUTE_INSTANCE)
        p = mig_profile(management.state, card_of(management.state, number_of(d)), d->mig_profile);
    if (p)
        snprintf(text, sizeof text, "%s MIG %s", d->profile.name, p->name);
    else
        snprintf(text, sizeof text, "%s", d->profile.name);
    return text_out(name, length, text);
}

nvmlReturn_t sim_nvmlDeviceGetUUID(nvmlDevice_t device, char *uuid, unsigned int length)
{
    NEED_DEVICE(d);
    return text_out(uuid, length, d->uuid);
}

nvmlReturn_t sim_nvmlDeviceGetSerial(nvmlDevice_t device, char *serial, unsigned int length)
{
    NEED_DEVICE(d);
    return text_out(serial, length, d->serial);
}

nvmlReturn_t sim_nvmlDeviceGetMinorNumber(nvmlDevice_t device, unsigned int *minorNumber)
{
    NEED_DEVICE(d);
    NEED(minorNumber);
    *minorNumber = card_of(management.state, number_of(d));
    return NVML_SUCCESS;
}

static void pci(const struct sim_device *d, nvmlPciInfo_t *out)
{
    memset(out, 0, sizeof *out);
    snprintf(out->busIdLegacy, sizeof out->busIdLegacy, "%04X:%02X:%02X.0", d->domain, d->bus, d->slot);
    snprintf(out->busId, sizeof out->busId, "%08X:%02X:%02X.0", d->domain, d->bus, d->slot);
    out->domain = d->domain;
    out->bus = d->bus;
    out->device = d->slot;
    out->pciDeviceId = d->profile.pci_device;
    out->pciSubSystemId = 0x146310DE;
}

nvmlReturn_t sim_nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t *info)
{
    NEED_DEVICE(d);
    NEED(info);
    pci(d, info);
    return NVML_SUCCESS;
}

/* The older ones end before the long bus id. */
static nvmlReturn_t old_pci(nvmlDevice_t device, nvmlPciInfo_t *info, size_t bytes)
{
    NEED_DEVICE(d);
    NEED(info);
    nvmlPciInfo_t whole;
    pci(d, &whole);
    memcpy(info, &whole, bytes);
    return NVML_SUCCESS;
}

nvmlReturn_t sim_nvmlDeviceGetPciInfo(nvmlDevice_t device, nvmlPciInfo_t *info) { return old_pci(device, info, offsetof(nvmlPciInfo_t, pciSubSystemId)); }
nvmlReturn_t sim_nvmlDeviceGetPciInfo_v2(nvmlDevice_t device, nvmlPciInfo_t *info) { return old_pci(device, info, offsetof(nvmlPciInfo_t, busId)); }

/* ---- memory and what runs ----------------------------------------------------------------------------------------------- */

static void memory_of(struct sim_device *d, unsigned long long *total, unsigned long long *reserved, unsigned long long *used)
{
    struct sim_device *m = &management.state->devices[memory_owner(management.state, number_of(d))];
    bool card = d->kind == DEVICE_CARD;
    *total = card ? (unsigned long long)d->profile.memory_mib * MIB : m->total;
    *reserved = card ? *total - d->total : 0;
    *used = atomic_load(&m->used);
    if (card)
        for (uint32_t i = SIM_CARDS; i < SIM_DEVICES; i++)
            if (management.state->devices[i].kind == DEVICE_GPU_INSTANCE && management.state->devices[i].parent == number_of(d))
                *used += atomic_load(&management.state->devices[i].used);
}

nvmlReturn_t sim_nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory)
{
    NEED_DEVICE(d);
    NEED(memory);
    unsigned long long reserved;
    look_at(d);
    memory_of(d, &memory->total, &reserved, &memory->used);
    memory->used += reserved;
    memory->free = memory->total - memory->used;
    return NVML_SUCCESS;
}

nvmlReturn_t sim_nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *memory)
{
    NEED_DEVICE(d);
    NEED(memory);
    if (memory->version != nvmlMemory_v2)
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    look_at(d);
    memory_of(d, &memory->total, &memory->reserved, &memory->used);
    memory->free = memory->total - memory->reserved - memory->used;
    return NVML_SUCCESS;
}

nvmlReturn_t sim_nvmlDeviceGetBAR1MemoryInfo(nvmlDevice_t device, nvmlBAR1Memory_t *bar1Memory)
{
    NEED_DEVICE(d);
    NEED(bar1Memory);
    bar1Memory->bar1Total = d->profile.memory_mib > 16384 ? 65536 * MIB : 256 * MIB;
    bar1Memory->bar1Used = MIB;
    bar1Memory->bar1Free = bar1Memory->bar1Total - MIB;
    return NVML_SUCCESS;
}

struct listed { uint32_t pid, gi, ci; uint64_t bytes; };

/* Processes with a context on a device, or on what it is cut into. */
static unsigned list(struct sim_device *d, struct listed *out, unsigned room)
{
    struct sim_state *s = management.state;
    unsigned n = 0;
    state_reap(s, management.slot, 0);
    for (uint32_t i = 0; i < atomic_load(&s->slots_seen); i++) {
        if (atomic_load(&s->slots[i].state) != 2 || !s->slots[i].driver)
            continue;
        for (uint32_t on = 0; on < SIM_DEVICES; on++) {
            struct sim_device *one = &s->devices[on];
            bool part = one->kind == DEVICE_COMPUTE_INSTANCE && d->kind == DEVICE_CARD && card_of(s, on) == number_of(d);
            if (one->kind == DEVICE_NONE || one->kind == DEVICE_GPU_INSTANCE || (one != d && !part))
                continue;
            bool here = false;
            for (uint32_t c = 0; c < atomic_load(&s->context_high) && !here; c++)
                here = s->contexts[c].used && s->contexts[c].slot == i && s->contexts[c].device == on;
            uint32_t pid = here ? shown_pid(s, i, s->slots[i].pid) : 0;
            if (!pid)
                continue;
            if (n < room)
                out[n] = (struct listed){.pid = pid, .bytes = memory_of_slot(s, i, on),
                                         .gi = part || one->kind == DEVICE_COMPUTE_INSTANCE ? s->devices[one->parent].instance : 0xffffffffu,
                                         .ci = part || one->kind == DEVICE_COMPUTE_INSTANCE ? one->instance : 0xffffffffu};
            n++;
        }
    }
    return n;
}

static nvmlReturn_t processes(nvmlDevice_t device, unsigned *infoCount, void *infos, size_t each)
{
    NEED_DEVICE(d);
    NEED(infoCount);
    struct listed *all = malloc(sizeof *all * SIM_SLOTS);
    if (!all)
        return NVML_ERROR_MEMORY;
    unsigned n = list(d, all, SIM_SLOTS), room = *infoCount;
    *infoCount = n;
    nvmlReturn_t status = n > room ? NVML_ERROR_INSUFFICIENT_SIZE : n && !infos ? NVML_ERROR_INVALID_ARGUMENT : NVML_SUCCESS;
    for (unsigned i = 0; i < n && status == NVML_SUCCESS; i++) {
        nvmlProcessInfo_t one = {.pid = all[i].pid, .usedGpuMemory = all[i].bytes, .gpuInstanceId = all[i].gi, .computeInstanceId = all[i].ci};
        memcpy((char *)infos + i * each, &one, each);
    }
    free(all);
    return status;
}

static nvmlReturn_t nobody(nvmlDevice_t device, unsigned *infoCount)
{
    NEED_DEVICE(d);
    (void)d;
    NEED(infoCount);
    *infoCount = 0;
    return NVML_SUCCESS;
}

/* Programs of the multi-process service and of graphics there are none. */
nvmlReturn_t sim_nvmlDeviceGetRunningProcessDetailList(nvmlDevice_t device, nvmlProcessDetailList_t *plist)
{
    NEED_DEVICE(d);
    NEED(plist);
    if (plist->version != nvmlProcessDetailList_v1)
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    if (plist->mode >= NVML_PROCESS_MODE_MAX)
        return NVML_ERROR_INVALID_ARGUMENT;
    struct listed *all = malloc(sizeof *all * SIM_SLOTS);
    if (!all)
        return NVML_ERROR_MEMORY;
    bool compute = plist->mode == NVML_PROCESS_MODE_COMPUTE || plist->mode == NVML_PROCESS_MODE_ALL;
    unsigned n = compute ? list(d, all, SIM_SLOTS) : 0, room = plist->procArray ? plist->numProcArrayEntries : 0;
    plist->numProcArrayEntries = n;
    for (unsigned i = 0; i < n && n <= room; i++)
        plist->procArray[i] = (nvmlProcessDetail_v1_t){.pid = all[i].pid, .usedGpuMemory = all[i].bytes, .gpuInstanceId = all[i].gi,
                                                       .computeInstanceId = all[i].ci};
    free(all);
    return n > room ? NVML_ERROR_INSUFFICIENT_SIZE : NVML_SUCCESS;
}

nvmlReturn_t sim_nvmlDeviceGetComputeRunningProcesses(nvmlDevice_t device, unsigned int *n, nvmlProcessInfo_v1_t *infos)
{
    return processes(device, n, infos, sizeof *infos);
}
nvmlReturn_t sim_nvmlDeviceGetComputeRunningProcesses_v2(nvmlDevice_t device, unsigned int *n, nvmlProcessInfo_v2_t *infos)
{
    return processes(device, n, infos, sizeof *infos);
}
nvmlReturn_t sim_nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device, unsigned int *n, nvmlProcessInfo_t *infos)
{
    return processes(device, n, infos, sizeof *infos);
}
nvmlReturn_t sim_nvmlDeviceGetGraphicsRunningProcesses(nvmlDevice_t device, unsigned int *n, nvmlProcessInfo_v1_t *infos) { (void)infos; return nobody(device, n); }
nvmlReturn_t sim_nvmlDeviceGetGraphicsRunningProcesses_v2(nvmlDevice_t device, unsigned int *n, nvmlProcessInfo_v2_t *infos) { (void)infos; return nobody(device, n); }
nvmlReturn_t sim_nvmlDeviceGetGraphicsRunningProcesses_v3(nvmlDevice_t device, unsigned int *n, nvmlProcessInfo_t *infos) { (void)infos; return nobody(device, n); }
nvmlReturn_t sim_nvmlDeviceGetMPSComputeRunningProcesses(nvmlDevice_t device, unsigned int *n, nvmlProcessInfo_v1_t *infos) { (void)infos; return nobody(device, n); }
nvmlReturn_t sim_nvmlDeviceGetMPSComputeRunningProcesses_v2(nvmlDevice_t device, unsigned int *n, nvmlProcessInfo_v2_t *infos) { (void)infos; return nobody(device, n); }
nvmlReturn_t sim_nvmlDeviceGetMPSComputeRunningProcesses_v3(nvmlDevice_t device, unsigned int *n, nvmlProcessInfo_t *infos) { (void)infos; return nobody(device, n); }

/* ---- utilisation --------------------------------------------------------------------------------------------------------- */

static unsigned long long microseconds(int64_t at)
{
    const struct sim_state *s = management.state;
    return (unsigned long long)((at + (s->virtual_time ? 0 : s->wall_offset)) / 1000);
}

nvmlReturn_t sim_nvmlDeviceGetUtilizationRates(nvmlDevice_t device, nvmlUtilization_t *utilization)
{
    NEED_DEVICE(d);
    NEED(utilization);
    if (d->kind != DEVICE_CARD || d->mig_mode)
        return NVML_ERROR_NOT_SUPPORTED;
    look_at(d);
    struct sim_state *s = management.state;
    int64_t readable = clock_now(s) - s->sample_lag;
    utilization->gpu = utilization->memory = 0;
    for (uint64_t i = d->rates_made; i-- > 0 && d->rates_made - i <= SIM_RATES;)
        if (d->rates[i % SIM_RATES].end <= readable) {
            utilization->gpu = d->rates[i % SIM_RATES].percent;
            utilization->memory = d->rates[i % SIM_RATES].memory_percent;
            break;
        }
    return NVML_SUCCESS;
}

struct seen { unsigned pid, percent; unsigned long long at; };

/* Readable samples of processes that are newer than a time, oldest first. */
static unsigned samples(struct sim_device *d, unsigned long long newer, struct seen *out, unsigned room)
{
    struct sim_state *s = management.state;
    int64_t readable = clock_now(s) - s->sample_lag;
    unsigned n = 0;
    uint64_t from = d->samples_made > SIM_SAMPLES ? d->samples_made - SIM_SAMPLES : 0;
    for (uint64_t i = from; i < d->samples_made; i++) {
        const struct sim_sample *one = &d->samples[i % SIM_SAMPLES];
        if (one->end > readable || microseconds(one->end) <= newer)
            continue;
        uint32_t pid = shown_pid(s, one->slot, one->pid);
        if (!pid)
            continue;
        if (n < room)
            out[n] = (struct seen){.pid = pid, .percent = one->percent, .at = microseconds(one->end)};
        n++;
    }
    return n;
}

nvmlReturn_t sim_nvmlDeviceGetProcessUtilization(nvmlDevice_t device, nvmlProcessUtilizationSample_t *utilization, unsigned int *n,
                                                 unsigned long long lastSeenTimeStamp)
{
    NEED_DEVICE(d);
    NEED(n);
    if (d->kind != DEVICE_CARD || d->mig_mode || !management.state->sampling)
        return NVML_ERROR_NOT_SUPPORTED;
    look_at(d);
    struct seen *all = malloc(sizeof *all * SIM_SAMPLES);
    if (!all)
        return NVML_ERROR_MEMORY;
    unsigned found = samples(d, lastSeenTimeStamp, all, SIM_SAMPLES), room = *n;
    *n = found;
    nvmlReturn_t status = !found ? NVML_ERROR_NOT_FOUND : !utilization || room < found ? NVML_ERROR_INSUFFICIENT_SIZE : NVML_SUCCESS;
    for (unsigned i = 0; i < found && status == NVML_SUCCESS; i++)
        utilization[i] = (nvmlProcessUtilizationSample_t){.pid = all[i].pid, .timeStamp = all[i].at, .smUtil = all[i].percent, .memUtil = all[i].percent / 2};
    free(all);
    return status;
}

nvmlReturn_t sim_nvmlDeviceGetProcessesUtilizationInfo(nvmlDevice_t device, nvmlProcessesUtilizationInfo_t *info)
{
    NEED_DEVICE(d);
    NEED(info);
    if (info->version != nvmlProcessesUtilizationInfo_v1)
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    if (d->kind != DEVICE_CARD || d->mig_mode || !management.state->sampling)
        return NVML_ERROR_NOT_SUPPORTED;
    look_at(d);
    struct seen *all = malloc(sizeof *all * SIM_SAMPLES);
    if (!all)
        return NVML_ERROR_MEMORY;
    unsigned found = samples(d, info->lastSeenTimeStamp, all, SIM_SAMPLES), room = info->processSamplesCount;
    info->processSamplesCount = found;
    nvmlReturn_t status = !found ? NVML_ERROR_NOT_FOUND : !info->procUtilArray || room < found ? NVML_ERROR_INSUFFICIENT_SIZE : NVML_SUCCESS;
    for (unsigned i = 0; i < found && status == NVML_SUCCESS; i++)
        info->procUtilArray[i] = (nvmlProcessUtilizationInfo_v1_t){.pid = all[i].pid, .timeStamp = all[i].at, .smUtil = all[i].percent, .memUtil = all[i].percent / 2};
    free(all);
    return status;
}
