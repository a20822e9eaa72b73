/* What each hook does, by topic: hooks_lookup.c, hooks_memory.c, hooks_pools.c, hooks_contexts.c, hooks_code.c, hooks_launch.c, hooks_processes.c. */
#ifndef HAMI_HOOKS_H
#define HAMI_HOOKS_H

#include "symbols.h"

#define HOOK(status, name, params, args) status hook_##name(const struct driver *next, UNWRAP params);
#define HOOK0(status, name) status hook_##name(const struct driver *next);
#define NVHOOK(name, params, args) nvmlReturn_t hook_##name(const struct nvml *next, UNWRAP params);
#include "hooks.def"
#include "nvml.def"
#undef HOOK
#undef HOOK0
#undef NVHOOK

#endif
