#ifndef HAMI_SIM_CUDA_UNIT_H
#define HAMI_SIM_CUDA_UNIT_H

#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>

#include "entry.h"

extern __thread uint32_t sim_per_thread __attribute__((tls_model("initial-exec")));
/* Zero until the driver is initialised in this very process, and while a fault may concern it. */
extern uint32_t *sim_open;
extern const uint32_t *sim_watched;      /* not zero: faults are asked for */
CUresult sim_closed(unsigned entry, bool anytime);
CUresult sim_refused(unsigned entry);

#define CUDA_ENTRY(index)                                    \
    do {                                                     \
        if (!SIM_LIKELY(*sim_open == 1 && !*(const volatile uint32_t *)sim_watched)) { \
            CUresult barred = sim_closed(index, false);      \
            if (barred != CUDA_SUCCESS)                      \
                return barred;                               \
        }                                                    \
    } while (0)
#define CUDA_ANY(index)                                      \
    do {                                                     \
        if (!SIM_LIKELY(*sim_open == 1 && !*(const volatile uint32_t *)sim_watched)) { \
            CUresult barred = sim_closed(index, true);       \
            if (barred != CUDA_SUCCESS)                      \
                return barred;                               \
        }                                                    \
    } while (0)
#define CUDA_REFUSE(index) return sim_refused(index)
#define SIM_PER_THREAD(on) (sim_per_thread = (on))

#endif
