/* Events of health: what was raised after a set was told to listen. */
#include "management.h"

#include <linux/futex.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define SETS 64
static struct event_set { uint32_t used; uint64_t next; unsigned long long kinds[SIM_DEVICES]; } sets[SETS];

static struct event_set *set_of(nvmlEventSet_t handle)
{
    struct event_set *one = (struct event_set *)(void *)handle;
    for (unsigned i = 0; i < SETS; i++)
        if (one == &sets[i])
            return one->used ? one : NULL;
    return NULL;
}

nvmlReturn_t sim_nvmlEventSetCreate(nvmlEventSet_t *set)
{
    NEED(set);
    for (unsigned i = 0; i < SETS; i++) {
        uint32_t unused = 0;
        if (!__atomic_compare_exchange_n(&sets[i].used, &unused, 1, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
            continue;
        for (unsigned d = 0; d < SIM_DEVICES; d++)
            sets[i].kinds[d] = 0;
        sets[i].next = atomic_load(&management.state->xids_made);
        *set = (nvmlEventSet_t)(void *)&sets[i];
        return NVML_SUCCESS;
    }
    return NVML_ERROR_MEMORY;
}

nvmlReturn_t sim_nvmlEventSetFree(nvmlEventSet_t set)
{
    struct event_set *one = set_of(set);
    NEED(one);
    __atomic_store_n(&one->used, 0, __ATOMIC_RELEASE);
    return NVML_SUCCESS;
}

nvmlReturn_t sim_nvmlDeviceGetSupportedEventTypes(nvmlDevice_t device, unsigned long long *eventTypes)
{
    NEED_DEVICE(d);
    NEED(eventTypes);
    *eventTypes = d->kind == DEVICE_CARD ? nvmlEventTypeXidCriticalError | nvmlEventTypeSingleBitEccError | nvmlEventTypeDoubleBitEccError : 0;
    return NVML_SUCCESS;
}

nvmlReturn_t sim_nvmlDeviceRegisterEvents(nvmlDevice_t device, unsigned long long eventTypes, nvmlEventSet_t set)
{
    NEED_DEVICE(d);
    struct event_set *one = set_of(set);
    NEED(one);
    if (d->kind != DEVICE_CARD)
        return NVML_ERROR_NOT_SUPPORTED;
    one->kinds[number_of(d)] |= eventTypes;
    return NVML_SUCCESS;
}

static nvmlReturn_t wait_event(nvmlEventSet_t handle, nvmlEventData_t *data, unsigned timeoutms, bool whole)
{
    struct event_set *set = set_of(handle);
    NEED(set);
    NEED(data);
    struct sim_state *s = management.state;
    struct timespec now, end;
    clock_gettime(CLOCK_MONOTONIC, &end);
    int64_t until = (int64_t)end.tv_sec * 1000 + end.tv_nsec / 1000000 + timeoutms;
    for (;;) {
        uint32_t bell = atomic_load(&s->bell);
        uint64_t made = atomic_load(&s->xids_made);
        if (made > set->next + SIM_XIDS)
            set->next = made - SIM_XIDS;
        while (set->next < made) {
            const struct sim_xid *x = &s->xids[set->next++ % SIM_XIDS];
            if (!(set->kinds[x->device] & x->kind))
                continue;
            nvmlEventData_t told = {.device = (nvmlDevice_t)&s->devices[x->device], .eventType = x->kind, .eventData = x->xid,
                                    .gpuInstanceId = 0xffffffffu, .computeInstanceId = 0xffffffffu};
            if (whole)
                *data = told;
            else {
                data->device = told.device;
                data->eventType = told.eventType;
                data->eventData = told.eventData;
            }
            return NVML_SUCCESS;
        }
        clock_gettime(CLOCK_MONOTONIC, &now);
        int64_t left = until - ((int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000);
        if (left <= 0)
            return NVML_ERROR_TIMEOUT;
        struct timespec limit = {.tv_sec = left / 1000, .tv_nsec = left % 1000 * 1000000};
        syscall(SYS_futex, &s->bell, FUTEX_WAIT, bell, &limit, NULL, 0);
    }
}

nvmlReturn_t sim_nvmlEventSetWait_v2(nvmlEventSet_t set, nvmlEventData_t *data, unsigned int timeoutms) { return wait_event(set, data, timeoutms, true); }
nvmlReturn_t sim_nvmlEventSetWait(nvmlEventSet_t set, nvmlEventData_t *data, unsigned int timeoutms) { return wait_event(set, data, timeoutms, false); }
