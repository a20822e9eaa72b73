/* What the management library says about memory, also to programs that use nothing else. */
#include <string.h>

#include "hooks.h"
#include "runtime.h"

struct memory_seen { uint64_t limit, used; };

static bool seen(const struct nvml *next, nvmlDevice_t device, struct memory_seen *out)
{
    char uuid[HAMI_UUID_ROOM] = "";
    struct process *p = process();
    if (runtime_start() != STAGE_READY || !next->nvmlDeviceGetUUID || next->nvmlDeviceGetUUID(device, uuid, sizeof uuid) != NVML_SUCCESS)
        return false;
    for (unsigned i = 0; i < HAMI_DEVICES; i++) {
        const char *known = p->state.region->uuids[i];
        if (strncmp(known, uuid, HAMI_UUID_ROOM - 1) != 0 || !known[0])
            continue;
        out->limit = rule_for(&p->state.limits, &p->state.options, uuid, i).memory;
        out->used = ledger_told(&p->state.ledger, i);
        return true;
    }
    out->limit = rule_for(&p->state.limits, &p->state.options, uuid, HAMI_DEVICES).memory;
    out->used = 0;
    return true;
}

nvmlReturn_t hook_nvmlDeviceGetMemoryInfo(const struct nvml *next, nvmlDevice_t device, nvmlMemory_t *memory)
{
    nvmlReturn_t status = next->nvmlDeviceGetMemoryInfo(device, memory);
    struct memory_seen s;
    if (status != NVML_SUCCESS || !memory || !seen(next, device, &s))
        return status;
    memory->used = s.used;
    if (s.limit != NO_LIMIT)
        memory->total = s.limit;
    memory->free = memory->used < memory->total ? memory->total - memory->used : 0;
    return status;
}

nvmlReturn_t hook_nvmlDeviceGetMemoryInfo_v2(const struct nvml *next, nvmlDevice_t device, nvmlMemory_v2_t *memory)
{
    nvmlReturn_t status = next->nvmlDeviceGetMemoryInfo_v2(device, memory);
    struct memory_seen s;
    if (status != NVML_SUCCESS || !memory || !seen(next, device, &s))
        return status;
    memory->used = s.used;
    if (s.limit != NO_LIMIT) {
        memory->total = s.limit;
        memory->reserved = 0;
    }
    memory->free = memory->used < memory->total ? memory->total - memory->used : 0;
    return status;
}
