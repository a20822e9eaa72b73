/* What a card measures and how it is set: temperature, power, clocks, memory errors, links. */
#include "management.h"

#include <stdio.h>
#include <string.h>

#define ANSWER(name, type, parameter, value)                         \
    nvmlReturn_t name(nvmlDevice_t device, type *parameter)          \
    {                                                                \
        NEED_DEVICE(d);                                              \
        (void)d;                                                     \
        NEED(parameter);                                             \
        *parameter = (value);                                        \
        return NVML_SUCCESS;                                         \
    }

/* Recent load in percent, as far as it can be read already. */
static uint32_t load(struct sim_device *d)
{
    look_at(d);
    return d->rates_made ? d->rates[(d->rates_made - 1) % SIM_RATES].percent : 0;
}

ANSWER(sim_nvmlDeviceGetBrand, nvmlBrandType_t, type, NVML_BRAND_NVIDIA)
ANSWER(sim_nvmlDeviceGetPersistenceMode, nvmlEnableState_t, mode, d->persistence ? NVML_FEATURE_ENABLED : NVML_FEATURE_DISABLED)
ANSWER(sim_nvmlDeviceGetDisplayMode, nvmlEnableState_t, mode, NVML_FEATURE_DISABLED)
ANSWER(sim_nvmlDeviceGetDisplayActive, nvmlEnableState_t, mode, NVML_FEATURE_DISABLED)
ANSWER(sim_nvmlDeviceGetComputeMode, nvmlComputeMode_t, mode, (nvmlComputeMode_t)d->compute_mode)
ANSWER(sim_nvmlDeviceGetBoardId, unsigned int, id, d->board)
ANSWER(sim_nvmlDeviceGetMultiGpuBoard, unsigned int, several, 0)
ANSWER(sim_nvmlDeviceGetNumGpuCores, unsigned int, cores, d->profile.sms * 64)
ANSWER(sim_nvmlDeviceGetMemoryBusWidth, unsigned int, width, d->profile.major >= 10 ? 8192 : d->profile.nvlinks ? 5120 : 384)
ANSWER(sim_nvmlDeviceGetMaxPcieLinkGeneration, unsigned int, generation, d->profile.major >= 9 ? 5 : 4)
ANSWER(sim_nvmlDeviceGetGpuMaxPcieLinkGeneration, unsigned int, generation, d->profile.major >= 9 ? 5 : 4)
ANSWER(sim_nvmlDeviceGetCurrPcieLinkGeneration, unsigned int, generation, d->profile.major >= 9 ? 5 : 4)
ANSWER(sim_nvmlDeviceGetMaxPcieLinkWidth, unsigned int, width, 16)
ANSWER(sim_nvmlDeviceGetCurrPcieLinkWidth, unsigned int, width, 16)
ANSWER(sim_nvmlDeviceGetPcieReplayCounter, unsigned int, count, 0)
ANSWER(sim_nvmlDeviceGetNumFans, unsigned int, fans, 0)
ANSWER(sim_nvmlDeviceGetPerformanceState, nvmlPstates_t, state, NVML_PSTATE_0)
ANSWER(sim_nvmlDeviceGetPowerState, nvmlPstates_t, state, NVML_PSTATE_0)
ANSWER(sim_nvmlDeviceGetCurrentClocksEventReasons, unsigned long long, reasons, load(d) ? 0 : 1)
ANSWER(sim_nvmlDeviceGetCurrentClocksThrottleReasons, unsigned long long, reasons, load(d) ? 0 : 1)
ANSWER(sim_nvmlDeviceGetSupportedClocksEventReasons, unsigned long long, reasons, 0x1ff)
ANSWER(sim_nvmlDeviceGetPowerManagementMode, nvmlEnableState_t, mode, NVML_FEATURE_ENABLED)
ANSWER(sim_nvmlDeviceGetPowerManagementLimit, unsigned int, milliwatts, d->profile.watts * 1000)
ANSWER(sim_nvmlDeviceGetPowerManagementDefaultLimit, unsigned int, milliwatts, d->profile.watts * 1000)
ANSWER(sim_nvmlDeviceGetEnforcedPowerLimit, unsigned int, milliwatts, d->profile.watts * 1000)
ANSWER(sim_nvmlDeviceGetPowerUsage, unsigned int, milliwatts, d->profile.watts * (150 + 7 * load(d)))
ANSWER(sim_nvmlDeviceGetTotalEnergyConsumption, unsigned long long, millijoules,
       (unsigned long long)(d->engine.busy / 1000000 * (int64_t)d->profile.watts / 1000 * 1000))
ANSWER(sim_nvmlDeviceGetArchitecture, nvmlDeviceArchitecture_t, arch,
       d->profile.major >= 10 ? NVML_DEVICE_ARCH_BLACKWELL : d->profile.major == 9 ? NVML_DEVICE_ARCH_HOPPER
       : d->profile.major == 7 ? NVML_DEVICE_ARCH_TURING : d->profile.minor == 9 ? NVML_DEVICE_ARCH_ADA : NVML_DEVICE_ARCH_AMPERE)
ANSWER(sim_nvmlDeviceGetVirtualizationMode, nvmlGpuVirtualizationMode_t, mode, NVML_GPU_VIRTUALIZATION_MODE_NONE)
ANSWER(sim_nvmlDeviceGetAccountingMode, nvmlEnableState_t, mode, NVML_FEATURE_DISABLED)
ANSWER(sim_nvmlDeviceGetRetiredPagesPendingStatus, nvmlEnableState_t, pending, NVML_FEATURE_DISABLED)
ANSWER(sim_nvmlDeviceGetBusType, nvmlBusType_t, type, NVML_BUS_TYPE_PCIE)
ANSWER(sim_nvmlDeviceGetNumaNodeId, unsigned int, node, d->numa)

static nvmlReturn_t text(nvmlDevice_t device, char *out, unsigned room, const char *value)
{
    NEED_DEVICE(d);
    (void)d;
    NEED(out);
    if (strlen(value) + 1 > room)
        return NVML_ERROR_INSUFFICIENT_SIZE;
    memcpy(out, value, strlen(value) + 1);
    return NVML_SUCCESS;
}

nvmlReturn_t sim_nvmlDeviceGetVbiosVersion(nvmlDevice_t device, char *version, unsigned int n) { return text(device, version, n, "96.00.00.00.01"); }
nvmlReturn_t sim_nvmlDeviceGetBoardPartNumber(nvmlDevice_t device, char *number, unsigned int n) { return text(device, number, n, "900-00000-0000-000"); }
nvmlReturn_t sim_nvmlDeviceGetInforomImageVersion(nvmlDevice_t device, char *version, unsigned int n) { return text(device, version, n, "G000.0000.00.01"); }

nvmlReturn_t sim_nvmlDeviceGetCudaComputeCapability(nvmlDevice_t device, int *major, int *minor)
{
    NEED_DEVICE(d);
    NEED(major);
    NEED(minor);
    *major = (int)d->profile.major;
    *minor = (int)d->profile.minor;
    return NVML_SUCCESS;
}

nvmlReturn_t sim_nvmlDeviceGetTemperature(nvmlDevice_t device, nvmlTemperatureSensors_t sensorType, unsigned int *temp)
{
    NEED_DEVICE(d);
    NEED(temp);
    if (sensorType != NVML_TEMPERATURE_GPU)
        return NVML_ERROR_INVALID_ARGUMENT;
    *temp = d->temperature + load(d) / 4;
    return NVML_SUCCESS;
}

nvmlReturn_t sim_nvmlDeviceGetTemperatureV(nvmlDevice_t device, nvmlTemperature_t *temperature)
{
    NEED_DEVICE(d);
    NEED(temperature);
    if (temperature->version != nvmlTemperature_v1)
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    temperature->temperature = (int)(d->temperature + load(d) / 4);
    return NVML_SUCCESS;
}

nvmlReturn_t sim_nvmlDeviceGetTemperatureThreshold(nvmlDevice_t device, nvmlTemperatureThresholds_t kind, unsigned int *temp)
{
    NEED_DEVICE(d);
    (void)d;
    NEED(temp);
    *temp = kind == NVML_TEMPERATURE_THRESHOLD_SHUTDOWN ? 92 : 89;
    return NVML_SUCCESS;
}

static nvmlReturn_t clock_of(nvmlDevice_t device, nvmlClockType_t type, unsigned *out, bool now)
{
    NEED_DEVICE(d);
    NEED(out);
    if ((unsigned)type >= NVML_CLOCK_COUNT)
        return NVML_ERROR_INVALID_ARGUMENT;
    bool idle = now && !load(d);
    *out = type == NVML_CLOCK_MEM ? d->profile.memory_clock : idle ? 210 : d->profile.sm_clock;
    return NVML_SUCCESS;
}

nvmlReturn_t sim_nvmlDeviceGetClockInfo(nvmlDevice_t device, nvmlClockType_t type, unsigned int *clock) { return clock_of(device, type, clock, true); }
nvmlReturn_t sim_nvmlDeviceGetMaxClockInfo(nvmlDevice_t device, nvmlClockType_t type, unsigned int *clock) { return clock_of(device, type, clock, false); }
nvmlReturn_t sim_nvmlDeviceGetApplicationsClock(nvmlDevice_t device, nvmlClockType_t type, unsigned int *clock) { return clock_of(device, type, clock, false); }
nvmlReturn_t sim_nvmlDeviceGetDefaultApplicationsClock(nvmlDevice_t device, nvmlClockType_t type, unsigned int *clock) { return clock_of(device, type, clock, false); }
nvmlReturn_t sim_nvmlDeviceGetClock(nvmlDevice_t device, nvmlClockType_t type, nvmlClockId_t id, unsigned int *clock)
{
    return clock_of(device, type, clock, id == NVML_CLOCK_ID_CURRENT);
}

nvmlReturn_t sim_nvmlDeviceGetPowerManagementLimitConstraints(nvmlDevice_t device, unsigned int *least, unsigned int *most)
{
    NEED_DEVICE(d);
    NEED(least);
    NEED(most);
    *least = d->profile.watts * 500;
    *most = d->profile.watts * 1000;
    return NVML_SUCCESS;
}

nvmlReturn_t sim_nvmlDeviceGetFanSpeed(nvmlDevice_t device, unsigned int *speed)
{
    NEED_DEVICE(d);
    (void)d;
    NEED(speed);
    return NVML_ERROR_NOT_SUPPORTED;
}

nvmlReturn_t sim_nvmlDeviceGetPcieThroughput(nvmlDevice_t device, nvmlPcieUtilCounter_t counter, unsigned int *value)
{
    NEED_DEVICE(d);
    (void)d, (void)counter;
    NEED(value);
    *value = 0;
    return NVML_SUCCESS;
}

static nvmlReturn_t nothing_coded(nvmlDevice_t device, unsigned *utilization, unsigned *period)
{
    NEED_DEVICE(d);
    (void)d;
    NEED(utilization);
    NEED(period);
    *utilization = 0;
    *period = 167000;
    return NVML_SUCCESS;
}

nvmlReturn_t sim_nvmlDeviceGetEncoderUtilization(nvmlDevice_t device, unsigned int *u, unsigned int *period) { return nothing_coded(device, u, period); }
nvmlReturn_t sim_nvmlDeviceGetDecoderUtilization(nvmlDevice_t device, unsigned int *u, unsigned int *period) { return nothing_coded(device, u, period); }

/* ---- memory errors: kept off unless a card's ECC is on --------------------------------------------------------------------- */

nvmlReturn_t sim_nvmlDeviceGetEccMode(nvmlDevice_t device, nvmlEnableState_t *current, nvmlEnableState_t *pending)
{
    NEED_DEVICE(d);
    NEED(current);
    NEED(pending);
    *current = *pending = d->ecc ? NVML_FEATURE_ENABLED : NVML_FEATURE_DISABLED;
    return NVML_SUCCESS;
}

nvmlReturn_t sim_nvmlDeviceGetTotalEccErrors(nvmlDevice_t device, nvmlMemoryErrorType_t type, nvmlEccCounterType_t counter, unsigned long long *count)
{
    NEED_DEVICE(d);
    NEED(count);
    (void)counter;
    if (!d->ecc)
        return NVML_ERROR_NOT_SUPPORTED;
    *count = 0;
    struct sim_state *s = management.state;
    uint64_t made = atomic_load(&s->xids_made);
    for (uint64_t i = made > SIM_XIDS ? made - SIM_XIDS : 0; i < made; i++)
        *count += type == NVML_MEMORY_ERROR_TYPE_UNCORRECTED && s->xids[i % SIM_XIDS].device == number_of(d) && s->xids[i % SIM_XIDS].xid == 48;
    return NVML_SUCCESS;
}

nvmlReturn_t sim_nvmlDeviceGetMemoryErrorCounter(nvmlDevice_t device, nvmlMemoryErrorType_t type, nvmlEccCounterType_t counter,
                                                 nvmlMemoryLocation_t where, unsigned long long *count)
{
    (void)where;
    return sim_nvmlDeviceGetTotalEccErrors(device, type, counter, count);
}

nvmlReturn_t sim_nvmlDeviceGetRetiredPages(nvmlDevice_t device, nvmlPageRetirementCause_t cause, unsigned int *n, unsigned long long *addresses)
{
    NEED_DEVICE(d);
    (void)d, (void)cause, (void)addresses;
    NEED(n);
    *n = 0;
    return NVML_SUCCESS;
}

nvmlReturn_t sim_nvmlDeviceGetRemappedRows(nvmlDevice_t device, unsigned int *corrected, unsigned int *uncorrected, unsigned int *pending, unsigned int *failed)
{
    NEED_DEVICE(d);
    if (d->profile.major < 8)
        return NVML_ERROR_NOT_SUPPORTED;
    NEED(corrected && uncorrected && pending && failed);
    *corrected = *uncorrected = *pending = *failed = 0;
    return NVML_SUCCESS;
}

/* ---- who sits beside whom ------------------------------------------------------------------------------------------------ */

nvmlReturn_t sim_nvmlDeviceGetCpuAffinity(nvmlDevice_t device, unsigned int n, unsigned long *set)
{
    NEED_DEVICE(d);
    NEED(set);
    memset(set, 0, n * sizeof *set);
    if (n)
        set[0] = d->numa ? ~0ul << 32 : 0xfffffffful;
    return NVML_SUCCESS;
}

nvmlReturn_t sim_nvmlDeviceGetMemoryAffinity(nvmlDevice_t device, unsigned int n, unsigned long *set, nvmlAffinityScope_t scope)
{
    NEED_DEVICE(d);
    NEED(set);
    (void)scope;
    memset(set, 0, n * sizeof *set);
    if (n)
        set[0] = 1ul << d->numa;
    return NVML_SUCCESS;
}

static nvmlGpuTopologyLevel_t between(const struct sim_device *a, const struct sim_device *b)
{
    if (a->board == b->board)
        return NVML_TOPOLOGY_INTERNAL;
    if (number_of(a) / 2 == number_of(b) / 2)
        return NVML_TOPOLOGY_SINGLE;
    return a->numa == b->numa ? NVML_TOPOLOGY_HOSTBRIDGE : NVML_TOPOLOGY_SYSTEM;
}

nvmlReturn_t sim_nvmlDeviceGetTopologyCommonAncestor(nvmlDevice_t device, nvmlDevice_t device2, nvmlGpuTopologyLevel_t *pathInfo)
{
    NEED_DEVICE(a);
    struct sim_device *b = device_of(device2);
    NEED(b);
    NEED(pathInfo);
    *pathInfo = between(a, b);
    return NVML_SUCCESS;
}

nvmlReturn_t sim_nvmlDeviceGetTopologyNearestGpus(nvmlDevice_t device, nvmlGpuTopologyLevel_t level, unsigned int *count, nvmlDevice_t *list)
{
    NEED_DEVICE(a);
    NEED(count);
    unsigned n = 0, room = *count;
    for (uint32_t i = 0; i < management.state->cards; i++) {
        struct sim_device *b = &management.state->devices[i];
        if (b == a || between(a, b) != level)
            continue;
        if (list && n < room)
            list[n] = (nvmlDevice_t)b;
        n++;
    }
    *count = n;
    return NVML_SUCCESS;
}

nvmlReturn_t sim_nvmlDeviceOnSameBoard(nvmlDevice_t device, nvmlDevice_t device2, int *same)
{
    NEED_DEVICE(a);
    struct sim_device *b = device_of(device2);
    NEED(b);
    NEED(same);
    *same = a->board == b->board;
    return NVML_SUCCESS;
}

nvmlReturn_t sim_nvmlDeviceGetP2PStatus(nvmlDevice_t device, nvmlDevice_t device2, nvmlGpuP2PCapsIndex_t index, nvmlGpuP2PStatus_t *status)
{
    NEED_DEVICE(a);
    struct sim_device *b = device_of(device2);
    NEED(b);
    NEED(status);
    bool linked = a->profile.nvlinks && b->profile.nvlinks;
    *status = index == NVML_P2P_CAPS_INDEX_NVLINK && !linked ? NVML_P2P_STATUS_NOT_SUPPORTED : NVML_P2P_STATUS_OK;
    return NVML_SUCCESS;
}

/* Links go straight to the other cards of the node while these are few, else to switches. */
static bool link_goes(const struct sim_device *d, unsigned link, const struct sim_device **to, unsigned *through)
{
    const struct sim_state *s = management.state;
    const struct sim_device *others[SIM_CARDS];
    unsigned n = 0;
    if (link >= d->profile.nvlinks || d->kind != DEVICE_CARD)
        return false;
    for (uint32_t i = 0; i < s->cards; i++)
        if (&s->devices[i] != d && s->devices[i].profile.nvlinks && s->devices[i].visible_nvml)
            others[n++] = &s->devices[i];
    if (!n)
        return false;
    *to = n <= 3 ? others[link * n / d->profile.nvlinks] : NULL;
    *through = link % 6;
    return true;
}

nvmlReturn_t sim_nvmlDeviceGetNvLinkState(nvmlDevice_t device, unsigned int link, nvmlEnableState_t *isActive)
{
    NEED_DEVICE(d);
    NEED(isActive);
    const struct sim_device *to;
    unsigned through;
    if (link >= NVML_NVLINK_MAX_LINKS)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (link >= d->profile.nvlinks)
        return NVML_ERROR_NOT_SUPPORTED;
    *isActive = link_goes(d, link, &to, &through) ? NVML_FEATURE_ENABLED : NVML_FEATURE_DISABLED;
    return NVML_SUCCESS;
}

nvmlReturn_t sim_nvmlDeviceGetNvLinkVersion(nvmlDevice_t device, unsigned int link, unsigned int *version)
{
    NEED_DEVICE(d);
    NEED(version);
    if (link >= d->profile.nvlinks)
        return NVML_ERROR_NOT_SUPPORTED;
    *version = d->profile.major >= 10 ? 5 : d->profile.major == 9 ? 4 : 3;
    return NVML_SUCCESS;
}

nvmlReturn_t sim_nvmlDeviceGetNvLinkCapability(nvmlDevice_t device, unsigned int link, nvmlNvLinkCapability_t capability, unsigned int *result)
{
    NEED_DEVICE(d);
    NEED(result);
    if (link >= d->profile.nvlinks)
        return NVML_ERROR_NOT_SUPPORTED;
    *result = capability == NVML_NVLINK_CAP_P2P_SUPPORTED || capability == NVML_NVLINK_CAP_VALID;
    return NVML_SUCCESS;
}

static nvmlReturn_t remote(nvmlDevice_t device, unsigned link, nvmlPciInfo_t *info, nvmlIntNvLinkDeviceType_t *kind, size_t bytes)
{
    NEED_DEVICE(d);
    const struct sim_device *to;
    unsigned through;
    if (!link_goes(d, link, &to, &through))
        return link < NVML_NVLINK_MAX_LINKS ? NVML_ERROR_NOT_SUPPORTED : NVML_ERROR_INVALID_ARGUMENT;
    if (kind)
        *kind = to ? NVML_NVLINK_DEVICE_TYPE_GPU : NVML_NVLINK_DEVICE_TYPE_SWITCH;
    if (!info)
        return NVML_SUCCESS;
    nvmlPciInfo_t whole = {.domain = to ? to->domain : 0, .bus = to ? to->bus : 0xc0 + through, .device = to ? to->slot : 0,
                           .pciDeviceId = to ? to->profile.pci_device : 0x22A310DE};
    snprintf(whole.busIdLegacy, sizeof whole.busIdLegacy, "%04X:%02X:%02X.0", whole.domain & 0xffff, whole.bus & 0xff, whole.device & 0xff);
    snprintf(whole.busId, sizeof whole.busId, "%08X:%02X:%02X.0", whole.domain, whole.bus & 0xff, whole.device & 0xff);
    memcpy(info, &whole, bytes);
    return NVML_SUCCESS;
}

nvmlReturn_t sim_nvmlDeviceGetNvLinkRemotePciInfo(nvmlDevice_t device, unsigned int link, nvmlPciInfo_t *info)
{
    NEED(info);
    return remote(device, link, info, NULL, offsetof(nvmlPciInfo_t, busId));
}
nvmlReturn_t sim_nvmlDeviceGetNvLinkRemotePciInfo_v2(nvmlDevice_t device, unsigned int link, nvmlPciInfo_t *info)
{
    NEED(info);
    return remote(device, link, info, NULL, sizeof *info);
}
nvmlReturn_t sim_nvmlDeviceGetNvLinkRemoteDeviceType(nvmlDevice_t device, unsigned int link, nvmlIntNvLinkDeviceType_t *type)
{
    NEED(type);
    return remote(device, link, NULL, type, 0);
}

/* ---- settings ---------------------------------------------------------------------------------------------------------------- */

nvmlReturn_t sim_nvmlDeviceSetPersistenceMode(nvmlDevice_t device, nvmlEnableState_t mode)
{
    NEED_DEVICE(d);
    d->persistence = mode == NVML_FEATURE_ENABLED;
    return NVML_SUCCESS;
}

nvmlReturn_t sim_nvmlDeviceSetComputeMode(nvmlDevice_t device, nvmlComputeMode_t mode)
{
    NEED_DEVICE(d);
    if ((unsigned)mode >= NVML_COMPUTEMODE_COUNT)
        return NVML_ERROR_INVALID_ARGUMENT;
    d->compute_mode = (uint32_t)mode;
    return NVML_SUCCESS;
}

/* Fields: those that are asked for by number here; the others say that they are not supported. */
nvmlReturn_t sim_nvmlDeviceGetFieldValues(nvmlDevice_t device, int n, nvmlFieldValue_t *values)
{
    NEED_DEVICE(d);
    NEED(values);
    for (int i = 0; i < n; i++) {
        nvmlFieldValue_t *v = &values[i];
        v->timestamp = clock_now(management.state) / 1000;
        v->latencyUsec = 1;
        v->nvmlReturn = NVML_SUCCESS;
        v->valueType = NVML_VALUE_TYPE_UNSIGNED_INT;
        if (v->fieldId == NVML_FI_DEV_ECC_CURRENT || v->fieldId == NVML_FI_DEV_ECC_PENDING)
            v->value.uiVal = d->ecc;
        else if (v->fieldId == NVML_FI_DEV_NVLINK_LINK_COUNT)
            v->value.uiVal = d->profile.nvlinks;
        else if (v->fieldId == NVML_FI_DEV_MEMORY_TEMP)
            v->value.uiVal = d->temperature + 4;
        else
            v->nvmlReturn = NVML_ERROR_NOT_SUPPORTED;
    }
    return NVML_SUCCESS;
}
