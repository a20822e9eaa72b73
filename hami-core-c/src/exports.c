/* The functions that programs reach: one set under the driver's names for those that link it, one per driver object for those that
 * look it up. Each is the same three lines, made from the list; what happens is in hooks_*.c. */
#include "hooks.h"

#define EXPORT __attribute__((visibility("default")))

/* The driver may reach its own functions through our names. What it does inside one of ours is not the program's doing. */
static _Thread_local unsigned inside __attribute__((tls_model("initial-exec")));

#define HOOK(status, name, params, args)                                                        \
    static inline status run_##name(const struct driver *next, UNWRAP params)                   \
    {                                                                                           \
        if (__builtin_expect(!next->name, 0))                                                   \
            return CUDA_ERROR_NOT_FOUND;                                                        \
        if (inside)                                                                             \
            return next->name args;                                                             \
        inside = 1;                                                                             \
        status answer = hook_##name(next, UNWRAP args);                                         \
        inside = 0;                                                                             \
        return answer;                                                                          \
    }                                                                                           \
    static status first_##name params { return run_##name(driver_number(0), UNWRAP args); }     \
    static status second_##name params { return run_##name(driver_number(1), UNWRAP args); }    \
    EXPORT status name params;                                                                  \
    status name params                                                                          \
    {                                                                                           \
        const struct driver *next = exported_driver(HOOK_##name);                               \
        return next ? run_##name(next, UNWRAP args) : CUDA_ERROR_NO_DEVICE;                     \
    }
#define HOOK0(status, name)                                                                     \
    static inline status run_##name(const struct driver *next)                                  \
    {                                                                                           \
        if (__builtin_expect(!next->name, 0))                                                   \
            return CUDA_ERROR_NOT_FOUND;                                                        \
        if (inside)                                                                             \
            return next->name();                                                                \
        inside = 1;                                                                             \
        status answer = hook_##name(next);                                                      \
        inside = 0;                                                                             \
        return answer;                                                                          \
    }                                                                                           \
    static status first_##name(void) { return run_##name(driver_number(0)); }                   \
    static status second_##name(void) { return run_##name(driver_number(1)); }                  \
    EXPORT status name(void);                                                                   \
    status name(void)                                                                           \
    {                                                                                           \
        const struct driver *next = exported_driver(HOOK_##name);                               \
        return next ? run_##name(next) : CUDA_ERROR_NO_DEVICE;                                  \
    }
#include "hooks.def"
#undef HOOK
#undef HOOK0

#define NVHOOK(name, params, args)                                                              \
    static inline nvmlReturn_t run_##name(const struct nvml *next, UNWRAP params)               \
    {                                                                                           \
        if (!next->name)                                                                        \
            return NVML_ERROR_FUNCTION_NOT_FOUND;                                               \
        return hook_##name(next, UNWRAP args);                                                  \
    }                                                                                           \
    static nvmlReturn_t first_##name params { return run_##name(nvml_number(0), UNWRAP args); } \
    static nvmlReturn_t second_##name params { return run_##name(nvml_number(1), UNWRAP args); }\
    EXPORT nvmlReturn_t name params;                                                            \
    nvmlReturn_t name params                                                                    \
    {                                                                                           \
        const struct nvml *next = exported_nvml(HOOK_##name);                                   \
        return next ? run_##name(next, UNWRAP args) : NVML_ERROR_LIBRARY_NOT_FOUND;             \
    }
#include "nvml.def"
#undef NVHOOK

void *const stand_ins[OBJECTS][HOOKS] = {
    {
#define HOOK(status, name, params, args) (void *)first_##name,
#define HOOK0(status, name) (void *)first_##name,
#define NVHOOK(name, params, args) (void *)first_##name,
#include "hooks.def"
#include "nvml.def"
#undef HOOK
#undef HOOK0
#undef NVHOOK
    },
    {
#define HOOK(status, name, params, args) (void *)second_##name,
#define HOOK0(status, name) (void *)second_##name,
#define NVHOOK(name, params, args) (void *)second_##name,
#include "hooks.def"
#include "nvml.def"
#undef HOOK
#undef HOOK0
#undef NVHOOK
    },
};
