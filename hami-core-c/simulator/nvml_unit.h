#ifndef HAMI_SIM_NVML_UNIT_H
#define HAMI_SIM_NVML_UNIT_H

#define NVML_NO_UNVERSIONED_FUNC_DEFS
#include <nvml.h>

#include "entry.h"

/* NVML_SUCCESS, or why the call must not go on. */
nvmlReturn_t sim_gate(unsigned entry, bool anytime);
nvmlReturn_t sim_refused(unsigned entry);

#define NVML_ENTRY(index)                                \
    do {                                                 \
        nvmlReturn_t barred = sim_gate(index, false);    \
        if (barred != NVML_SUCCESS)                      \
            return barred;                               \
    } while (0)
#define NVML_ANY(index)                                  \
    do {                                                 \
        nvmlReturn_t barred = sim_gate(index, true);     \
        if (barred != NVML_SUCCESS)                      \
            return barred;                               \
    } while (0)
#define NVML_REFUSE(index) return sim_refused(index)

#endif
