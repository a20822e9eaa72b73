#define _GNU_SOURCE
#include <string.h>
#include <time.h>

#include "state.h"

static bool concerns(const struct sim_fault *f, const char *entry, const char *tag)
{
    return (!strcmp(f->entry, entry) || !strcmp(f->entry, "*")) && (!f->tag[0] || !strcmp(f->tag, tag));
}

int fault_for(struct sim_state *s, const char *entry, const char *tag)
{
    for (unsigned i = 0; i < SIM_FAULTS; i++) {
        struct sim_fault *f = &s->faults[i];
        if (!atomic_load_explicit(&f->active, memory_order_acquire) || !concerns(f, entry, tag))
            continue;
        uint32_t seen = atomic_fetch_add(&f->seen, 1);
        if (seen < f->skip || (f->times && seen - f->skip >= f->times))
            continue;
        if (f->delay > 0) {
            struct timespec t = {.tv_sec = f->delay / 1000000000, .tv_nsec = f->delay % 1000000000};
            nanosleep(&t, NULL);
        }
        if (f->code)
            return f->code;
    }
    return 0;
}
