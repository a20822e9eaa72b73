/* Which functions we stand in for, and the real ones behind them: one table per loaded driver object. */
#ifndef HAMI_SYMBOLS_H
#define HAMI_SYMBOLS_H

#include <stdatomic.h>
#include <stdbool.h>

#include "driver.h"

#define UNWRAP(...) __VA_ARGS__

enum hook {
#define HOOK(status, name, params, args) HOOK_##name,
#define HOOK0(status, name) HOOK_##name,
#include "hooks.def"
#undef HOOK
#undef HOOK0
    DRIVER_HOOKS,
    LAST_DRIVER_HOOK = DRIVER_HOOKS - 1,
#define NVHOOK(name, params, args) HOOK_##name,
#include "nvml.def"
#undef NVHOOK
    HOOKS
};

struct driver {                     /* the real functions of one driver object; NULL where it lacks one */
#define HOOK(status, name, params, args) status(*name) params;
#define HOOK0(status, name) status (*name)(void);
#define CALL(status, name, params) status(*name) params;
#include "hooks.def"
#include "calls.def"
#undef HOOK
#undef HOOK0
#undef CALL
};

struct nvml {
#define NVHOOK(name, params, args) nvmlReturn_t(*name) params;
#define NVCALL(name, params) nvmlReturn_t(*name) params;
#include "nvml.def"
#include "nvml_calls.def"
#undef NVHOOK
#undef NVCALL
};

#define OBJECTS 2                   /* driver objects of one process that we keep apart; further ones are passed through */

/* The functions of the object an exported name of ours shadows; NULL: there is no driver. */
const struct driver *exported_driver_find(enum hook name);
extern _Atomic(const struct driver *) exported_driver_known __attribute__((visibility("hidden")));
static inline const struct driver *exported_driver(enum hook name)
{
    const struct driver *d = atomic_load_explicit(&exported_driver_known, memory_order_acquire);
    return __builtin_expect(d != NULL, 1) ? d : exported_driver_find(name);
}
const struct nvml *exported_nvml(enum hook name);
const struct driver *driver_number(unsigned object);
const struct nvml *nvml_number(unsigned object);
/* The driver loaded first, if any. */
const struct driver *any_driver(void);
/* The management library where the program has loaded it; NULL otherwise. */
const struct nvml *loaded_nvml(void);
/* What a program that asked the driver for a symbol shall get instead of the driver's own answer. */
void *diverted(const struct driver *asked, void *answer, const char *symbol, int version, cuuint64_t flags);
/* What a name means in the program: a function of the C library, or that of whoever stands in for it. NULL: nothing. */
void *scope_symbol(const char *name);
/* Look-ups that came back with functions of more driver objects than we keep apart. */
unsigned long symbols_passed_through(void);

/* Filled in exports.c: our stand-ins for the functions of object n. */
extern void *const stand_ins[OBJECTS][HOOKS] __attribute__((visibility("hidden")));

#endif
