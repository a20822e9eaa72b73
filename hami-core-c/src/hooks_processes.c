/* Which processes of a card the management library tells in a container: its own, by the pids they have there. Strangers are nobody's
 * business, and their pids mean nothing inside. Lists of MIG instances and of containers without limits stay as they are. */
#include <string.h>

#include "attach.h"
#include "hooks.h"
#include "runtime.h"

static bool concerns_us(const struct nvml *next, nvmlDevice_t device)
{
    char uuid[HAMI_UUID_ROOM] = "";
    return runtime_start() == STAGE_READY && next->nvmlDeviceGetUUID && next->nvmlDeviceGetUUID(device, uuid, sizeof uuid) == NVML_SUCCESS &&
        strncmp(uuid, "MIG-", 4) != 0;
}

/* The pid in the container of a process that the host knows by `host_pid`; 0: a stranger, or one whose host pid nobody told us. */
static unsigned own_pid(struct process *p, int round, unsigned host_pid)
{
    const struct hami_region *r = p->state.region;
    for (unsigned i = 0; i < HAMI_SLOTS && i < (unsigned)atomic_load_explicit(&r->slot_count, memory_order_relaxed); i++) {
        const struct hami_slot *slot = &r->slots[i];
        if (atomic_load_explicit(&slot->status, memory_order_relaxed) == 1 &&
            (unsigned)atomic_load_explicit(&slot->host_pid, memory_order_relaxed) == host_pid && p->state.ledger.liveness.alive(round, i))
            return (unsigned)atomic_load_explicit(&slot->pid, memory_order_relaxed);
    }
    return 0;
}

/* Keep our own of `count` records of `size` bytes with a pid at `at`; how many are left. */
static unsigned keep_own(void *records, unsigned count, size_t size, size_t at)
{
    struct process *p = process();
    struct liveness *l = &p->state.ledger.liveness;
    int round = l->begin(l->who);
    unsigned kept = 0;
    for (unsigned i = 0; round >= 0 && i < count; i++) {
        char *from = (char *)records + i * size, *to = (char *)records + kept * size;
        unsigned pid;
        memcpy(&pid, from + at, sizeof pid);
        pid = own_pid(p, round, pid);
        if (!pid)
            continue;
        memmove(to, from, size);
        memcpy(to + at, &pid, sizeof pid);
        kept++;
    }
    if (round >= 0)
        l->end(round);
    return kept;
}

#define LIST(name, record)                                                                                            \
    nvmlReturn_t hook_##name(const struct nvml *next, nvmlDevice_t device, unsigned int *infoCount, record *infos)     \
    {                                                                                                                  \
        nvmlReturn_t status = next->name(device, infoCount, infos);                                                    \
        if (status == NVML_SUCCESS && infoCount && *infoCount && infos && concerns_us(next, device))                   \
            *infoCount = keep_own(infos, *infoCount, sizeof *infos, offsetof(record, pid));                            \
        return status;                                                                                                 \
    }
LIST(nvmlDeviceGetComputeRunningProcesses, nvmlProcessInfo_v1_t)
LIST(nvmlDeviceGetComputeRunningProcesses_v2, nvmlProcessInfo_v2_t)
LIST(nvmlDeviceGetComputeRunningProcesses_v3, nvmlProcessInfo_t)
LIST(nvmlDeviceGetGraphicsRunningProcesses, nvmlProcessInfo_v1_t)
LIST(nvmlDeviceGetGraphicsRunningProcesses_v2, nvmlProcessInfo_v2_t)
LIST(nvmlDeviceGetGraphicsRunningProcesses_v3, nvmlProcessInfo_t)
LIST(nvmlDeviceGetMPSComputeRunningProcesses, nvmlProcessInfo_v1_t)
LIST(nvmlDeviceGetMPSComputeRunningProcesses_v2, nvmlProcessInfo_v2_t)
LIST(nvmlDeviceGetMPSComputeRunningProcesses_v3, nvmlProcessInfo_t)

nvmlReturn_t hook_nvmlDeviceGetRunningProcessDetailList(const struct nvml *next, nvmlDevice_t device, nvmlProcessDetailList_t *plist)
{
    nvmlReturn_t status = next->nvmlDeviceGetRunningProcessDetailList(device, plist);
    if (status == NVML_SUCCESS && plist && plist->procArray && concerns_us(next, device))
        plist->numProcArrayEntries = keep_own(plist->procArray, plist->numProcArrayEntries, sizeof *plist->procArray, offsetof(nvmlProcessDetail_v1_t, pid));
    return status;
}

nvmlReturn_t hook_nvmlDeviceGetProcessUtilization(const struct nvml *next, nvmlDevice_t device, nvmlProcessUtilizationSample_t *utilization,
                                                  unsigned int *processSamplesCount, unsigned long long lastSeenTimeStamp)
{
    nvmlReturn_t status = next->nvmlDeviceGetProcessUtilization(device, utilization, processSamplesCount, lastSeenTimeStamp);
    if (status != NVML_SUCCESS || !utilization || !processSamplesCount || !concerns_us(next, device))
        return status;
    *processSamplesCount = keep_own(utilization, *processSamplesCount, sizeof *utilization, offsetof(nvmlProcessUtilizationSample_t, pid));
    return *processSamplesCount ? NVML_SUCCESS : NVML_ERROR_NOT_FOUND;      /* as where nobody works */
}

nvmlReturn_t hook_nvmlDeviceGetProcessesUtilizationInfo(const struct nvml *next, nvmlDevice_t device, nvmlProcessesUtilizationInfo_t *info)
{
    nvmlReturn_t status = next->nvmlDeviceGetProcessesUtilizationInfo(device, info);
    if (status != NVML_SUCCESS || !info || !info->procUtilArray || !concerns_us(next, device))
        return status;
    info->processSamplesCount =
        keep_own(info->procUtilArray, info->processSamplesCount, sizeof *info->procUtilArray, offsetof(nvmlProcessUtilizationInfo_v1_t, pid));
    return info->processSamplesCount ? NVML_SUCCESS : NVML_ERROR_NOT_FOUND;
}
