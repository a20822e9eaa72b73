#include <stdio.h>
#include <string.h>

#include "state.h"

const struct sim_mig_profile *mig_profile(const struct sim_state *s, uint32_t card, uint32_t number)
{
    const struct sim_profile *p = &s->devices[card].profile;
    for (uint32_t i = 0; i < p->mig_count; i++)
        if (p->mig[i].number == number)
            return &p->mig[i];
    return NULL;
}

/* Memory slots of a card that instances occupy, one bit each. */
uint32_t mig_used_slots(const struct sim_state *s, uint32_t card)
{
    uint32_t used = 0;
    for (uint32_t d = 0; d < SIM_DEVICES; d++) {
        const struct sim_device *one = &s->devices[d];
        if (one->kind != DEVICE_GPU_INSTANCE || one->parent != card)
            continue;
        const struct sim_mig_profile *p = mig_profile(s, card, one->mig_profile);
        used |= ((1u << p->width) - 1) << one->start;
    }
    return used;
}

static uint32_t used_slices(const struct sim_state *s, uint32_t parent, enum sim_device_kind kind)
{
    uint32_t sum = 0;
    for (uint32_t d = 0; d < SIM_DEVICES; d++)
        if (s->devices[d].kind == (uint32_t)kind && s->devices[d].parent == parent)
            sum += s->devices[d].slices;
    return sum;
}

static int free_device(const struct sim_state *s)
{
    for (uint32_t d = SIM_CARDS; d < SIM_DEVICES; d++)
        if (s->devices[d].kind == DEVICE_NONE)
            return (int)d;
    return -1;
}

static uint32_t free_number(const struct sim_state *s, uint32_t parent, enum sim_device_kind kind, uint32_t first)
{
    for (uint32_t n = first;; n++) {
        bool taken = false;
        for (uint32_t d = 0; d < SIM_DEVICES; d++)
            taken |= s->devices[d].kind == (uint32_t)kind && s->devices[d].parent == parent && s->devices[d].instance == n;
        if (!taken)
            return n;
    }
}

static void start_device(struct sim_state *s, int made, uint32_t parent, enum sim_device_kind kind)
{
    struct sim_device *d = &s->devices[made], *from = &s->devices[parent];
    uint32_t instance = d->instance, slices = d->slices, sms = d->profile.sms, number = d->mig_profile, start = d->start, place = d->place;
    uint64_t total = d->total;
    memset(d, 0, offsetof(struct sim_device, samples));
    memcpy(&d->profile, &from->profile, sizeof d->profile);
    d->profile.sms = sms;
    d->instance = instance, d->slices = slices, d->mig_profile = number, d->start = start, d->place = place, d->total = total;
    d->parent = parent;
    d->heap = from->heap, d->printf_fifo = from->printf_fifo, d->pool_granule = from->pool_granule;
    d->numa = from->numa, d->bus = from->bus, d->board = from->board, d->temperature = from->temperature;
    d->samples_made = d->rates_made = 0;
    d->judge_window = 0;
    d->contexts = 0;
    device_reset(s, (uint32_t)made);
    const char *card = s->devices[card_of(s, parent)].uuid;
    uint32_t above = kind == DEVICE_COMPUTE_INSTANCE ? from->instance : instance;
    snprintf(d->uuid, sizeof d->uuid, "MIG-%08x-%.31s", (unsigned)(above << 16 | (instance + 1) << 8 | (from->start & 0xff)), card + 13);
    d->kind = kind;
}

int mig_create_instance(struct sim_state *s, uint32_t card, uint32_t number, int start)
{
    const struct sim_mig_profile *p = mig_profile(s, card, number);
    struct sim_device *whole = &s->devices[card];
    int made = free_device(s);
    if (!p || made < 0 || !whole->mig_mode)
        return -1;
    uint32_t used = mig_used_slots(s, card), wide = (1u << p->width) - 1;
    if (used_slices(s, card, DEVICE_GPU_INSTANCE) + p->slices > 7)
        return -1;
    int found = -1;
    for (int at = 0; at < 8 && found < 0; at++)
        if ((p->starts >> at & 1) && (start < 0 || start == at) && !(used & wide << at))
            found = at;
    if (found < 0)
        return -1;
    struct sim_device *d = &s->devices[made];
    d->instance = free_number(s, card, DEVICE_GPU_INSTANCE, 1);
    d->mig_profile = number;
    d->slices = p->slices;
    d->start = (uint32_t)found;
    d->place = 0;
    d->total = (uint64_t)p->memory_mib * MIB & ~(SIM_GRANULE - 1);
    d->profile.sms = p->sms;
    start_device(s, made, card, DEVICE_GPU_INSTANCE);
    return made;
}

int mig_destroy_instance(struct sim_state *s, uint32_t device)
{
    for (uint32_t d = 0; d < SIM_DEVICES; d++)
        if (s->devices[d].kind == DEVICE_COMPUTE_INSTANCE && s->devices[d].parent == device)
            return -1;
    if (s->devices[device].kind != DEVICE_GPU_INSTANCE || atomic_load(&s->devices[device].used))
        return -1;
    s->devices[device].kind = DEVICE_NONE;
    return 0;
}

uint32_t mig_compute_places(const struct sim_state *s, uint32_t instance, uint32_t slices, bool left)
{
    uint32_t used = 0, places = 0, wide = (1u << slices) - 1, apart = 1;
    while (apart < slices)
        apart *= 2;
    for (uint32_t d = 0; left && d < SIM_DEVICES; d++)
        if (s->devices[d].kind == DEVICE_COMPUTE_INSTANCE && s->devices[d].parent == instance)
            used |= ((1u << s->devices[d].slices) - 1) << s->devices[d].place;
    for (uint32_t at = 0; at + slices <= s->devices[instance].slices; at += apart)
        places |= used & wide << at ? 0 : 1u << at;
    return places;
}

int mig_create_compute(struct sim_state *s, uint32_t instance, uint32_t slices, int place)
{
    struct sim_device *whole = &s->devices[instance];
    int made = free_device(s);
    if (made < 0 || whole->kind != DEVICE_GPU_INSTANCE || !slices || slices > whole->slices)
        return -1;
    uint32_t places = mig_compute_places(s, instance, slices, true);
    if (place >= 0)
        places &= place < 8 ? 1u << place : 0;
    if (!places)
        return -1;
    struct sim_device *d = &s->devices[made];
    d->place = (uint32_t)__builtin_ctz(places);
    d->instance = free_number(s, instance, DEVICE_COMPUTE_INSTANCE, 0);
    d->slices = slices;
    d->mig_profile = whole->mig_profile;
    d->start = whole->start;
    d->total = whole->total;
    d->profile.sms = whole->profile.sms * slices / whole->slices;
    start_device(s, made, instance, DEVICE_COMPUTE_INSTANCE);
    return made;
}

int mig_destroy_compute(struct sim_state *s, uint32_t device)
{
    if (s->devices[device].kind != DEVICE_COMPUTE_INSTANCE || s->devices[device].contexts)
        return -1;
    s->devices[device].kind = DEVICE_NONE;
    return 0;
}
