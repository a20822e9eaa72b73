/* Cutting cards into instances. */
#include "management.h"

#include <stdio.h>
#include <string.h>

static struct sim_device *part_of(const void *handle, enum sim_device_kind kind)
{
    const char *first = (const char *)management.state->devices;
    size_t at = (size_t)((const char *)handle - first);
    if (!handle || at >= sizeof management.state->devices || at % sizeof(struct sim_device))
        return NULL;
    struct sim_device *d = (struct sim_device *)(uintptr_t)handle;
    return d->kind == (uint32_t)kind ? d : NULL;
}

#define NEED_CARD(d)                                               \
    NEED_DEVICE(d);                                                \
    if (d->kind != DEVICE_CARD || !d->profile.mig_count)           \
        return NVML_ERROR_NOT_SUPPORTED
#define NEED_INSTANCE(d)                                                          \
    struct sim_device *d = part_of(gpuInstance, DEVICE_GPU_INSTANCE);             \
    NEED(d)
#define NEED_COMPUTE(d)                                                           \
    struct sim_device *d = part_of(computeInstance, DEVICE_COMPUTE_INSTANCE);     \
    NEED(d)

static const struct sim_mig_profile *by_id(const struct sim_device *card, unsigned id)
{
    for (uint32_t i = 0; i < card->profile.mig_count; i++)
        if (card->profile.mig[i].id == id)
            return &card->profile.mig[i];
    return NULL;
}

nvmlReturn_t sim_nvmlDeviceGetMigMode(nvmlDevice_t device, unsigned int *currentMode, unsigned int *pendingMode)
{
    NEED_CARD(d);
    NEED(currentMode);
    NEED(pendingMode);
    *currentMode = d->mig_mode;
    *pendingMode = d->mig_pending;
    return NVML_SUCCESS;
}

nvmlReturn_t sim_nvmlDeviceSetMigMode(nvmlDevice_t device, unsigned int mode, nvmlReturn_t *activationStatus)
{
    NEED_CARD(d);
    NEED(activationStatus);
    if (mode > 1)
        return NVML_ERROR_INVALID_ARGUMENT;
    d->mig_pending = mode;
    bool used = d->contexts || mig_used_slots(management.state, number_of(d));
    *activationStatus = used ? NVML_ERROR_IN_USE : NVML_SUCCESS;
    if (!used)
        d->mig_mode = mode;
    return NVML_SUCCESS;
}

nvmlReturn_t sim_nvmlDeviceIsMigDeviceHandle(nvmlDevice_t device, unsigned int *isMigDevice)
{
    NEED_DEVICE(d);
    NEED(isMigDevice);
    *isMigDevice = d->kind == DEVICE_COMPUTE_INSTANCE;
    return NVML_SUCCESS;
}

nvmlReturn_t sim_nvmlDeviceGetGpuInstanceId(nvmlDevice_t device, unsigned int *id)
{
    NEED_DEVICE(d);
    NEED(id);
    if (d->kind != DEVICE_COMPUTE_INSTANCE)
        return NVML_ERROR_INVALID_ARGUMENT;
    *id = management.state->devices[d->parent].instance;
    return NVML_SUCCESS;
}

nvmlReturn_t sim_nvmlDeviceGetComputeInstanceId(nvmlDevice_t device, unsigned int *id)
{
    NEED_DEVICE(d);
    NEED(id);
    if (d->kind != DEVICE_COMPUTE_INSTANCE)
        return NVML_ERROR_INVALID_ARGUMENT;
    *id = d->instance;
    return NVML_SUCCESS;
}

nvmlReturn_t sim_nvmlDeviceGetMaxMigDeviceCount(nvmlDevice_t device, unsigned int *count)
{
    NEED_DEVICE(d);
    NEED(count);
    *count = d->kind == DEVICE_CARD && d->profile.mig_count ? 7 : 0;
    return NVML_SUCCESS;
}

nvmlReturn_t sim_nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t device, unsigned int index, nvmlDevice_t *migDevice)
{
    NEED_CARD(card);
    NEED(migDevice);
    struct sim_state *s = management.state;
    for (uint32_t d = SIM_CARDS; d < SIM_DEVICES; d++)
        if (s->devices[d].kind == DEVICE_COMPUTE_INSTANCE && card_of(s, d) == number_of(card) && !index--) {
            *migDevice = (nvmlDevice_t)&s->devices[d];
            return NVML_SUCCESS;
        }
    return NVML_ERROR_NOT_FOUND;
}

nvmlReturn_t sim_nvmlDeviceGetDeviceHandleFromMigDeviceHandle(nvmlDevice_t migDevice, nvmlDevice_t *device)
{
    struct sim_device *d = part_of(migDevice, DEVICE_COMPUTE_INSTANCE);
    NEED(d);
    NEED(device);
    *device = (nvmlDevice_t)&management.state->devices[card_of(management.state, number_of(d))];
    return NVML_SUCCESS;
}

static void attributes(const struct sim_device *d, nvmlDeviceAttributes_t *a)
{
    memset(a, 0, sizeof *a);
    a->multiprocessorCount = d->profile.sms;
    a->sharedCopyEngineCount = d->slices;
    a->gpuInstanceSliceCount = management.state->devices[d->parent].slices;
    a->computeInstanceSliceCount = d->slices;
    a->memorySizeMB = d->total / MIB;
}

nvmlReturn_t sim_nvmlDeviceGetAttributes(nvmlDevice_t device, nvmlDeviceAttributes_t *a)
{
    NEED_DEVICE(d);
    NEED(a);
    if (d->kind != DEVICE_COMPUTE_INSTANCE)
        return NVML_ERROR_INVALID_ARGUMENT;
    attributes(d, a);
    return NVML_SUCCESS;
}
nvmlReturn_t sim_nvmlDeviceGetAttributes_v2(nvmlDevice_t device, nvmlDeviceAttributes_t *a) { return sim_nvmlDeviceGetAttributes(device, a); }

/* ---- profiles of GPU instances ---------------------------------------------------------------------------------------------- */

static unsigned room_for(const struct sim_device *card, const struct sim_mig_profile *p)
{
    struct sim_state *s = management.state;
    uint32_t used = mig_used_slots(s, number_of(card)), wide = (1u << p->width) - 1, slices = 0;
    for (uint32_t d = 0; d < SIM_DEVICES; d++)
        if (s->devices[d].kind == DEVICE_GPU_INSTANCE && s->devices[d].parent == number_of(card))
            slices += s->devices[d].slices;
    unsigned n = 0;
    for (int at = 0; at < 8; at++)
        if ((p->starts >> at & 1) && !(used & wide << at)) {
            used |= wide << at;
            n++;
        }
    unsigned by_slices = slices >= 7 ? 0 : (7 - slices) / p->slices;
    return n < by_slices ? n : by_slices;
}

static unsigned at_most(const struct sim_mig_profile *p)
{
    unsigned n = (unsigned)__builtin_popcount(p->starts);
    return n < 7 / p->slices ? n : 7 / p->slices;
}

#define FILL(info, p)                                       \
    do {                                                    \
        (info)->id = (p)->id;                               \
        (info)->sliceCount = (p)->slices;                   \
        (info)->instanceCount = at_most(p);                 \
        (info)->multiprocessorCount = (p)->sms;             \
        (info)->copyEngineCount = (p)->slices;              \
        (info)->decoderCount = (p)->slices / 2;             \
        (info)->encoderCount = 0;                           \
        (info)->jpegCount = (p)->number == 7;               \
        (info)->ofaCount = (p)->number == 7;                \
        (info)->memorySizeMB = (p)->memory_mib;             \
    } while (0)

nvmlReturn_t sim_nvmlDeviceGetGpuInstanceProfileInfo(nvmlDevice_t device, unsigned int profile, nvmlGpuInstanceProfileInfo_t *info)
{
    NEED_CARD(d);
    NEED(info);
    if (profile >= NVML_GPU_INSTANCE_PROFILE_COUNT)
        return NVML_ERROR_INVALID_ARGUMENT;
    const struct sim_mig_profile *p = mig_profile(management.state, number_of(d), profile);
    if (!p)
        return NVML_ERROR_NOT_SUPPORTED;
    memset(info, 0, sizeof *info);
    FILL(info, p);
    return NVML_SUCCESS;
}

static nvmlReturn_t profile_v(const struct sim_mig_profile *p, nvmlGpuInstanceProfileInfo_v2_t *info)
{
    NEED(info);
    if (!p)
        return NVML_ERROR_NOT_SUPPORTED;
    unsigned version = info->version;
    if (version == nvmlGpuInstanceProfileInfo_v2) {
        memset(info, 0, sizeof *info);
        FILL(info, p);
        snprintf(info->name, sizeof info->name, "MIG %s", p->name);
    } else if (version == nvmlGpuInstanceProfileInfo_v3) {
        nvmlGpuInstanceProfileInfo_v3_t *wide = (nvmlGpuInstanceProfileInfo_v3_t *)(void *)info;
        memset(wide, 0, sizeof *wide);
        FILL(wide, p);
        snprintf(wide->name, sizeof wide->name, "MIG %s", p->name);
    } else
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    info->version = version;
    return NVML_SUCCESS;
}

nvmlReturn_t sim_nvmlDeviceGetGpuInstanceProfileInfoV(nvmlDevice_t device, unsigned int profile, nvmlGpuInstanceProfileInfo_v2_t *info)
{
    NEED_CARD(d);
    return profile_v(mig_profile(management.state, number_of(d), profile), info);
}

nvmlReturn_t sim_nvmlDeviceGetGpuInstanceProfileInfoByIdV(nvmlDevice_t device, unsigned int profileId, nvmlGpuInstanceProfileInfo_v2_t *info)
{
    NEED_CARD(d);
    return profile_v(by_id(d, profileId), info);
}

static nvmlReturn_t placements_of(nvmlDevice_t device, unsigned id, nvmlGpuInstancePlacement_t *out, unsigned *count)
{
    NEED_CARD(d);
    NEED(count);
    const struct sim_mig_profile *p = by_id(d, id);
    if (!p)
        return NVML_ERROR_NOT_SUPPORTED;
    unsigned n = 0, room = *count;
    for (unsigned at = 0; at < 8; at++)
        if (p->starts >> at & 1) {
            if (out && n < room)
                out[n] = (nvmlGpuInstancePlacement_t){.start = at, .size = p->width};
            n++;
        }
    *count = n;
    return out && room < n ? NVML_ERROR_INSUFFICIENT_SIZE : NVML_SUCCESS;
}

nvmlReturn_t sim_nvmlDeviceGetGpuInstancePossiblePlacements(nvmlDevice_t d, unsigned int id, nvmlGpuInstancePlacement_t *out, unsigned int *n) { return placements_of(d, id, out, n); }
nvmlReturn_t sim_nvmlDeviceGetGpuInstancePossiblePlacements_v2(nvmlDevice_t d, unsigned int id, nvmlGpuInstancePlacement_t *out, unsigned int *n) { return placements_of(d, id, out, n); }

nvmlReturn_t sim_nvmlDeviceGetGpuInstanceRemainingCapacity(nvmlDevice_t device, unsigned int profileId, unsigned int *count)
{
    NEED_CARD(d);
    NEED(count);
    const struct sim_mig_profile *p = by_id(d, profileId);
    if (!p)
        return NVML_ERROR_NOT_SUPPORTED;
    *count = d->mig_mode ? room_for(d, p) : 0;
    return NVML_SUCCESS;
}

/* ---- GPU instances ------------------------------------------------------------------------------------------------------------ */

static nvmlReturn_t create(nvmlDevice_t device, unsigned id, int start, nvmlGpuInstance_t *out)
{
    NEED_CARD(d);
    NEED(out);
    const struct sim_mig_profile *p = by_id(d, id);
    if (!p)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (!d->mig_mode)
        return NVML_ERROR_NOT_SUPPORTED;
    struct sim_state *s = management.state;
    lock_take(s, &s->lock, management.slot);
    int made = mig_create_instance(s, number_of(d), p->number, start);
    lock_leave(&s->lock);
    if (made < 0)
        return NVML_ERROR_INSUFFICIENT_RESOURCES;
    *out = (nvmlGpuInstance_t)(void *)&s->devices[made];
    return NVML_SUCCESS;
}

nvmlReturn_t sim_nvmlDeviceCreateGpuInstance(nvmlDevice_t device, unsigned int profileId, nvmlGpuInstance_t *out) { return create(device, profileId, -1, out); }
nvmlReturn_t sim_nvmlDeviceCreateGpuInstanceWithPlacement(nvmlDevice_t device, unsigned int profileId, const nvmlGpuInstancePlacement_t *placement,
                                                          nvmlGpuInstance_t *out)
{
    NEED(placement);
    return create(device, profileId, (int)placement->start, out);
}

nvmlReturn_t sim_nvmlGpuInstanceDestroy(nvmlGpuInstance_t gpuInstance)
{
    NEED_INSTANCE(d);
    struct sim_state *s = management.state;
    lock_take(s, &s->lock, management.slot);
    int status = mig_destroy_instance(s, number_of(d));
    lock_leave(&s->lock);
    return status < 0 ? NVML_ERROR_IN_USE : NVML_SUCCESS;
}

nvmlReturn_t sim_nvmlDeviceGetGpuInstances(nvmlDevice_t device, unsigned int profileId, nvmlGpuInstance_t *out, unsigned int *count)
{
    NEED_CARD(d);
    NEED(count);
    const struct sim_mig_profile *p = by_id(d, profileId);
    if (!p)
        return NVML_ERROR_INVALID_ARGUMENT;
    unsigned n = 0;
    for (uint32_t i = SIM_CARDS; i < SIM_DEVICES; i++) {
        struct sim_device *one = &management.state->devices[i];
        if (one->kind == DEVICE_GPU_INSTANCE && one->parent == number_of(d) && one->mig_profile == p->number) {
            if (out)
                out[n] = (nvmlGpuInstance_t)(void *)one;
            n++;
        }
    }
    *count = n;
    return NVML_SUCCESS;
}

nvmlReturn_t sim_nvmlDeviceGetGpuInstanceById(nvmlDevice_t device, unsigned int id, nvmlGpuInstance_t *out)
{
    NEED_CARD(d);
    NEED(out);
    for (uint32_t i = SIM_CARDS; i < SIM_DEVICES; i++) {
        struct sim_device *one = &management.state->devices[i];
        if (one->kind == DEVICE_GPU_INSTANCE && one->parent == number_of(d) && one->instance == id) {
            *out = (nvmlGpuInstance_t)(void *)one;
            return NVML_SUCCESS;
        }
    }
    return NVML_ERROR_NOT_FOUND;
}

nvmlReturn_t sim_nvmlGpuInstanceGetInfo(nvmlGpuInstance_t gpuInstance, nvmlGpuInstanceInfo_t *info)
{
    NEED_INSTANCE(d);
    NEED(info);
    const struct sim_mig_profile *p = mig_profile(management.state, d->parent, d->mig_profile);
    *info = (nvmlGpuInstanceInfo_t){.device = (nvmlDevice_t)&management.state->devices[d->parent], .id = d->instance, .profileId = p->id,
                                    .placement = {.start = d->start, .size = p->width}};
    return NVML_SUCCESS;
}

/* ---- compute instances: profiles are numbered by their slices: 1, 2, 3, 4, 7 -------------------------------------------------- */

static const unsigned slices_of[] = {1, 2, 3, 4, 7, 8, 6};

static bool fits(const struct sim_device *instance, unsigned profile, unsigned *slices)
{
    if (profile >= sizeof slices_of / sizeof *slices_of || slices_of[profile] > instance->slices)
        return false;
    *slices = slices_of[profile];
    return true;
}

nvmlReturn_t sim_nvmlGpuInstanceGetComputeInstanceProfileInfo(nvmlGpuInstance_t gpuInstance, unsigned int profile, unsigned int engProfile,
                                                              nvmlComputeInstanceProfileInfo_t *info)
{
    NEED_INSTANCE(d);
    NEED(info);
    unsigned slices;
    if (engProfile != NVML_COMPUTE_INSTANCE_ENGINE_PROFILE_SHARED || profile >= NVML_COMPUTE_INSTANCE_PROFILE_COUNT)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (!fits(d, profile, &slices))
        return NVML_ERROR_NOT_SUPPORTED;
    *info = (nvmlComputeInstanceProfileInfo_t){.id = profile, .sliceCount = slices, .instanceCount = d->slices / slices,
                                               .multiprocessorCount = d->profile.sms * slices / d->slices, .sharedCopyEngineCount = d->slices};
    return NVML_SUCCESS;
}

nvmlReturn_t sim_nvmlGpuInstanceGetComputeInstanceProfileInfoV(nvmlGpuInstance_t gpuInstance, unsigned int profile, unsigned int engProfile,
                                                               nvmlComputeInstanceProfileInfo_v2_t *info)
{
    NEED_INSTANCE(d);
    NEED(info);
    nvmlComputeInstanceProfileInfo_t plain;
    if (info->version != nvmlComputeInstanceProfileInfo_v2)
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    nvmlReturn_t status = sim_nvmlGpuInstanceGetComputeInstanceProfileInfo(gpuInstance, profile, engProfile, &plain);
    if (status != NVML_SUCCESS)
        return status;
    *info = (nvmlComputeInstanceProfileInfo_v2_t){.version = info->version, .id = plain.id, .sliceCount = plain.sliceCount,
                                                  .instanceCount = plain.instanceCount, .multiprocessorCount = plain.multiprocessorCount,
                                                  .sharedCopyEngineCount = plain.sharedCopyEngineCount};
    const struct sim_mig_profile *p = mig_profile(management.state, d->parent, d->mig_profile);
    if (plain.sliceCount == d->slices)
        snprintf(info->name, sizeof info->name, "MIG %s", p->name);
    else
        snprintf(info->name, sizeof info->name, "MIG %uc.%s", plain.sliceCount, p->name);
    return NVML_SUCCESS;
}

nvmlReturn_t sim_nvmlGpuInstanceGetComputeInstanceRemainingCapacity(nvmlGpuInstance_t gpuInstance, unsigned int profileId, unsigned int *count)
{
    NEED_INSTANCE(d);
    NEED(count);
    unsigned slices;
    if (!fits(d, profileId, &slices))
        return NVML_ERROR_NOT_SUPPORTED;
    *count = (unsigned)__builtin_popcount(mig_compute_places(management.state, number_of(d), slices, true));
    return NVML_SUCCESS;
}

nvmlReturn_t sim_nvmlGpuInstanceGetComputeInstancePossiblePlacements(nvmlGpuInstance_t gpuInstance, unsigned int profileId,
                                                                     nvmlComputeInstancePlacement_t *placements, unsigned int *count)
{
    NEED_INSTANCE(d);
    NEED(count);
    unsigned slices, n = 0, room = *count;
    if (!fits(d, profileId, &slices))
        return NVML_ERROR_NOT_SUPPORTED;
    uint32_t places = mig_compute_places(management.state, number_of(d), slices, false);
    for (unsigned at = 0; at < 8; at++)
        if (places >> at & 1) {
            if (placements && n < room)
                placements[n] = (nvmlComputeInstancePlacement_t){.start = at, .size = slices};
            n++;
        }
    *count = n;
    return placements && room < n ? NVML_ERROR_INSUFFICIENT_SIZE : NVML_SUCCESS;
}

static nvmlReturn_t create_compute(nvmlGpuInstance_t gpuInstance, unsigned profileId, int place, nvmlComputeInstance_t *out)
{
    NEED_INSTANCE(d);
    NEED(out);
    unsigned slices;
    if (!fits(d, profileId, &slices))
        return NVML_ERROR_NOT_SUPPORTED;
    struct sim_state *s = management.state;
    lock_take(s, &s->lock, management.slot);
    int made = mig_create_compute(s, number_of(d), slices, place);
    lock_leave(&s->lock);
    if (made < 0)
        return NVML_ERROR_INSUFFICIENT_RESOURCES;
    s->devices[made].compute_profile = profileId;
    *out = (nvmlComputeInstance_t)(void *)&s->devices[made];
    return NVML_SUCCESS;
}

nvmlReturn_t sim_nvmlGpuInstanceCreateComputeInstance(nvmlGpuInstance_t gpuInstance, unsigned int profileId, nvmlComputeInstance_t *out)
{
    return create_compute(gpuInstance, profileId, -1, out);
}
nvmlReturn_t sim_nvmlGpuInstanceCreateComputeInstanceWithPlacement(nvmlGpuInstance_t gpuInstance, unsigned int profileId,
                                                                   const nvmlComputeInstancePlacement_t *placement, nvmlComputeInstance_t *out)
{
    NEED(placement);
    return placement->start < 8 ? create_compute(gpuInstance, profileId, (int)placement->start, out) : NVML_ERROR_INVALID_ARGUMENT;
}

nvmlReturn_t sim_nvmlComputeInstanceDestroy(nvmlComputeInstance_t computeInstance)
{
    NEED_COMPUTE(d);
    struct sim_state *s = management.state;
    state_reap(s, management.slot, 0);
    lock_take(s, &s->lock, management.slot);
    int status = mig_destroy_compute(s, number_of(d));
    lock_leave(&s->lock);
    return status < 0 ? NVML_ERROR_IN_USE : NVML_SUCCESS;
}

nvmlReturn_t sim_nvmlGpuInstanceGetComputeInstances(nvmlGpuInstance_t gpuInstance, unsigned int profileId, nvmlComputeInstance_t *out, unsigned int *count)
{
    NEED_INSTANCE(d);
    NEED(count);
    unsigned slices, n = 0;
    if (!fits(d, profileId, &slices))
        return NVML_ERROR_NOT_SUPPORTED;
    for (uint32_t i = SIM_CARDS; i < SIM_DEVICES; i++) {
        struct sim_device *one = &management.state->devices[i];
        if (one->kind == DEVICE_COMPUTE_INSTANCE && one->parent == number_of(d) && one->slices == slices) {
            if (out)
                out[n] = (nvmlComputeInstance_t)(void *)one;
            n++;
        }
    }
    *count = n;
    return NVML_SUCCESS;
}

nvmlReturn_t sim_nvmlGpuInstanceGetComputeInstanceById(nvmlGpuInstance_t gpuInstance, unsigned int id, nvmlComputeInstance_t *out)
{
    NEED_INSTANCE(d);
    NEED(out);
    for (uint32_t i = SIM_CARDS; i < SIM_DEVICES; i++) {
        struct sim_device *one = &management.state->devices[i];
        if (one->kind == DEVICE_COMPUTE_INSTANCE && one->parent == number_of(d) && one->instance == id) {
            *out = (nvmlComputeInstance_t)(void *)one;
            return NVML_SUCCESS;
        }
    }
    return NVML_ERROR_NOT_FOUND;
}

static nvmlReturn_t compute_info(nvmlComputeInstance_t computeInstance, nvmlComputeInstanceInfo_t *info, size_t bytes)
{
    NEED_COMPUTE(d);
    NEED(info);
    struct sim_device *above = &management.state->devices[d->parent];
    unsigned profile = 0;
    while (profile < sizeof slices_of / sizeof *slices_of && slices_of[profile] != d->slices)
        profile++;
    nvmlComputeInstanceInfo_t told = {.device = (nvmlDevice_t)&management.state->devices[above->parent], .gpuInstance = (nvmlGpuInstance_t)(void *)above,
                                      .id = d->instance, .profileId = profile, .placement = {.start = d->place, .size = d->slices}};
    memcpy(info, &told, bytes);
    return NVML_SUCCESS;
}

nvmlReturn_t sim_nvmlComputeInstanceGetInfo(nvmlComputeInstance_t c, nvmlComputeInstanceInfo_t *info)
{
    return compute_info(c, info, offsetof(nvmlComputeInstanceInfo_t, placement));
}
nvmlReturn_t sim_nvmlComputeInstanceGetInfo_v2(nvmlComputeInstance_t c, nvmlComputeInstanceInfo_t *info) { return compute_info(c, info, sizeof *info); }
