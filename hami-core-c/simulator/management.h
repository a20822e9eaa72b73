/* The management library inside one process. */
#ifndef HAMI_SIM_MANAGEMENT_H
#define HAMI_SIM_MANAGEMENT_H

#define _GNU_SOURCE
#include "nvml_unit.h"
#include "state.h"

struct management {
    struct sim_state *state;
    int slot;
    unsigned users;
};
extern struct management management;

/* Handles are addresses of devices of the mapped state, so that a wrong one is noticed. */
struct sim_device *device_of(nvmlDevice_t handle);
uint32_t number_of(const struct sim_device *d);

#define NEED_DEVICE(d)                                        \
    struct sim_device *d = device_of(device);                 \
    if (!d)                                                   \
        return NVML_ERROR_INVALID_ARGUMENT;                   \
    if (atomic_load(&d->lost))                                \
        return NVML_ERROR_GPU_IS_LOST
#define NEED(pointer)                                         \
    if (!(pointer))                                           \
    return NVML_ERROR_INVALID_ARGUMENT

/* Bring a device's books, and those of what it is cut into, up to now, and clear up after the dead. */
void look_at(struct sim_device *d);

#endif
