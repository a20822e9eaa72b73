/* The limits file: what the node's agent grants, out of the tenant's reach. Pure parser; reading it is in attach.c.
 *
 *   hami-limits 1
 *   region=/usr/local/vgpu/region.cache
 *   policy=default                 default, force or disable
 *   priority=1
 *   oversubscribe=0                1: memory may exceed the card's
 *   export=1                       0: memory may not be handed to other processes
 *   disable=0                      1: CUDA_DISABLE_CONTROL is honoured
 *   device=GPU-... memory=4194304000 cores=30 context=322961408
 *
 * Bytes and percent; memory=0 and cores=0 mean no limit; one device line per card, in the order of NVML; blank lines and lines that
 * begin with # mean nothing. A line that is not understood makes the whole file unreadable. */
#ifndef HAMI_LIMITS_H
#define HAMI_LIMITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "options.h"

struct limits {
    bool present;
    char region[OPTION_PATH];
    enum policy policy;
    int32_t priority;
    bool oversubscribe, exports, may_disable;
    unsigned devices;
    struct device_limits { char uuid[96]; uint64_t memory, context; uint32_t cores; } device[OPTION_DEVICES];
};

/* NULL, or why the text cannot be used. */
const char *limits_parse(const char *text, size_t length, struct limits *out);

enum course { COURSE_NOTHING, COURSE_ENFORCE, COURSE_REFUSE };
struct circumstances {
    bool file_there, file_good, options_good;   /* limits file exists; is trusted and understood; environment understood */
    bool limits_known;                          /* a file, or variables that ask for limits or an account */
    bool disabled;                              /* CUDA_DISABLE_CONTROL, where it may be used */
    bool region_good, slot_taken;
};
/* What a process that initialises the driver gets. */
enum course decide(const struct circumstances *c);

struct rule { uint64_t memory, context; uint32_t cores; };  /* NO_LIMIT and 0: none */
/* What holds for a device: the file's line, which the environment can only lower. */
struct rule rule_for(const struct limits *l, const struct options *o, const char *uuid, unsigned index);

#endif
