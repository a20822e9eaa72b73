/* What the generated exports need: one table of names, and the gates every call passes. */
#ifndef HAMI_SIM_ENTRY_H
#define HAMI_SIM_ENTRY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SIM_EXPORT __attribute__((visibility("default")))
#define SIM_HIDDEN __attribute__((visibility("hidden"), unused))
#define SIM_LIKELY(x) __builtin_expect(!!(x), 1)

struct sim_entry {
    const char *name, *base;
    uint32_t introduced;
    uint8_t per_thread, exported, semantics;
};
extern const struct sim_entry sim_entries[];
extern const unsigned sim_entry_count;
extern void *const sim_addresses[];

#endif
