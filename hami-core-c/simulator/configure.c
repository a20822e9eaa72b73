#define _GNU_SOURCE
#include "configure.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct made { struct sim_state *s; char host[SIM_TEXT]; char *why; size_t room; };

static int fail(struct made *m, const char *what, const char *given, const char *expected)
{
    snprintf(m->why, m->room, "%s: %s, expected %s", what, given, expected);
    return -1;
}

static uint64_t hash(const char *text, uint64_t seed)
{
    uint64_t h = seed ^ UINT64_C(0xcbf29ce484222325);
    for (; *text; text++)
        h = (h ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
    h ^= h >> 32;
    return h * UINT64_C(0x9e3779b97f4a7c15);
}

static void name_card(struct made *m, struct sim_device *d, uint32_t index)
{
    char text[160];
    snprintf(text, sizeof text, "%s#%u", m->host, index);
    uint64_t a = hash(text, 1), b = hash(text, 2);
    snprintf(d->uuid, sizeof d->uuid, "GPU-%08x-%04x-%04x-%04x-%012llx", (unsigned)(a >> 32), (unsigned)(a >> 16 & 0xffff),
             (unsigned)(a & 0xffff), (unsigned)(b >> 48), (unsigned long long)(b & UINT64_C(0xffffffffffff)));
    snprintf(d->serial, sizeof d->serial, "%013llu", (unsigned long long)(a % UINT64_C(10000000000000)));
    d->domain = 0;
    d->bus = 0x10 + index * 3;
    d->slot = 0;
    d->numa = index / 4;
    d->board = 0x100 + index;
}

static int setting(struct made *m, const char *key, const char *value)
{
    struct sim_state *s = m->s;
    if (!strcmp(key, "driver"))
        s->driver_version = (uint32_t)atoi(value);
    else if (!strcmp(key, "driver_text"))
        snprintf(s->driver_text, sizeof s->driver_text, "%s", value);
    else if (!strcmp(key, "host"))
        snprintf(m->host, sizeof m->host, "%s", value);
    else if (!strcmp(key, "clock") && !strcmp(value, "virtual"))
        s->virtual_time = 1;
    else if (!strcmp(key, "clock") && !strcmp(value, "real"))
        s->virtual_time = 0;
    else if (!strcmp(key, "lookup") && (!strcmp(value, "old") || !strcmp(value, "new")))
        s->old_lookup = value[0] == 'o';
    else if (!strcmp(key, "slice_us"))
        s->slice = atoll(value) * 1000;
    else if (!strcmp(key, "switch_us"))
        s->switching = atoll(value) * 1000;
    else if (!strcmp(key, "noise"))
        s->noise = atof(value);
    else if (!strcmp(key, "drift"))
        s->drift = atof(value);
    else if (!strcmp(key, "seed"))
        s->seed = (uint32_t)atoi(value);
    else if (!strcmp(key, "kernel_fixed_ns"))
        s->kernel_fixed = atoll(value);
    else if (!strcmp(key, "kernel_wave_ns"))
        s->kernel_wave = atoll(value);
    else if (!strcmp(key, "pid_offset"))
        s->pid_offset = atoll(value);
    else if (!strcmp(key, "nvml")) {
        s->sampling = 1;
        if (!strcmp(value, "1s"))
            s->sample_window = s->sample_period = 1000000000, s->sample_lag = 200000000;
        else if (!strcmp(value, "fast"))
            s->sample_window = s->sample_period = 166666667, s->sample_lag = 50000000;
        else if (!strcmp(value, "sparse"))
            s->sample_window = 166666667, s->sample_period = 1000000000, s->sample_lag = 200000000;
        else if (!strcmp(value, "none"))
            s->sampling = 0;
        else
            return fail(m, key, value, "1s, fast, sparse or none");
    } else if (!strcmp(key, "nvml_lag_ms"))
        s->sample_lag = atoll(value) * 1000000;
    else
        return fail(m, key, value, "a setting that the simulator knows (host, driver, clock, nvml, slice_us, ...)");
    return 0;
}

static int card_setting(struct made *m, struct sim_device *d, const char *key, const char *value)
{
    uint32_t n = (uint32_t)strtoul(value, NULL, 0);
    struct sim_profile *p = &d->profile;
    if (!strcmp(key, "memory_mib"))
        p->memory_mib = n;
    else if (!strcmp(key, "reserved_mib"))
        p->reserved_mib = n;
    else if (!strcmp(key, "sms"))
        p->sms = n;
    else if (!strcmp(key, "threads_per_sm"))
        p->threads_per_sm = n;
    else if (!strcmp(key, "context_mib"))
        p->context_mib = n;
    else if (!strcmp(key, "nvlinks"))
        p->nvlinks = n;
    else if (!strcmp(key, "compute"))
        sscanf(value, "%u.%u", &p->major, &p->minor);
    else if (!strcmp(key, "uuid"))
        snprintf(d->uuid, sizeof d->uuid, "%s", value);
    else if (!strcmp(key, "name")) {
        snprintf(p->name, sizeof p->name, "%s", value);
        for (char *c = p->name; *c; c++)
            *c = *c == '_' ? ' ' : *c;
    } else if (!strcmp(key, "numa"))
        d->numa = n;
    else if (!strcmp(key, "board"))
        d->board = n;
    else if (!strcmp(key, "order"))
        d->order = n;
    else if (!strcmp(key, "bus"))
        d->bus = n;
    else if (!strcmp(key, "mig"))
        d->mig_mode = d->mig_pending = n;
    else if (!strcmp(key, "ecc"))
        d->ecc = n;
    else if (!strcmp(key, "pool_mib"))
        d->pool_granule = n * MIB;
    else if (!strcmp(key, "hidden"))
        d->visible_nvml = !n;
    else
        return fail(m, key, value, "a property of a card (memory_mib, sms, uuid, name, ...)");
    return 0;
}

static int add_card(struct made *m, const char *profile, char *rest)
{
    struct sim_state *s = m->s;
    const struct sim_profile *found = NULL;
    for (unsigned i = 0; i < sim_profile_count; i++)
        if (!strcmp(sim_profiles[i].key, profile))
            found = &sim_profiles[i];
    if (!found)
        return fail(m, "card", profile, "a known profile (A100-40G, A100-80G, H100, H200, L40S, T4, B200)");
    unsigned long count = 1;
    char copy[1024];
    for (char *at = strstr(rest, "count="); at; at = NULL)
        count = strtoul(at + 6, NULL, 10);
    for (unsigned long i = 0; i < count; i++) {
        if (s->cards >= SIM_CARDS)
            return fail(m, "card", profile, "at most 20 cards");
        struct sim_device *d = &s->devices[s->cards];
        d->kind = DEVICE_CARD;
        d->profile = *found;
        d->visible_nvml = 1;
        d->order = s->cards;
        d->heap = 8 * MIB;
        d->printf_fifo = 1 * MIB;
        d->pool_granule = 2 * MIB;
        d->temperature = 34 + s->cards % 5;
        d->persistence = 1;
        d->ecc = found->shared_per_sm > 80000;
        name_card(m, d, s->cards);
        snprintf(copy, sizeof copy, "%s", rest);
        char *save = NULL;
        for (char *word = strtok_r(copy, " \t", &save); word; word = strtok_r(NULL, " \t", &save)) {
            char *value = strchr(word, '=');
            if (!value)
                return fail(m, "card", word, "key=value");
            *value++ = 0;
            if (strcmp(word, "count") && card_setting(m, d, word, value) < 0)
                return -1;
        }
        d->total = (uint64_t)(d->profile.memory_mib - d->profile.reserved_mib) * MIB & ~(SIM_GRANULE - 1);
        s->cards++;
    }
    return 0;
}

int configure(struct sim_state *s, const char *lines, char *why, size_t room)
{
    struct made m = {.s = s, .why = why, .room = room};
    struct timespec wall, mono;
    clock_gettime(CLOCK_REALTIME, &wall);
    clock_gettime(CLOCK_MONOTONIC, &mono);
    s->generation = (uint64_t)wall.tv_sec * 1000000000u + (uint64_t)wall.tv_nsec;
    s->wall_offset = (wall.tv_sec - mono.tv_sec) * INT64_C(1000000000) + wall.tv_nsec - mono.tv_nsec;
    s->driver_version = 13000;
    snprintf(s->driver_text, sizeof s->driver_text, "580.65.06");
    s->slice = SIM_SLICE_NS;
    s->switching = SIM_SWITCH_NS;
    s->kernel_wave = 100000;
    s->blocks_per_sm = 8;
    s->virtual_now = 1000000000;
    setting(&m, "nvml", "1s");

    char line[1200];
    while (*lines) {
        size_t n = strcspn(lines, "\n");
        snprintf(line, sizeof line, "%.*s", (int)(n < sizeof line ? n : sizeof line - 1), lines);
        lines += n + (lines[n] == '\n');
        char *save = NULL;
        if (!strncmp(line, "card ", 5)) {
            char *profile = strtok_r(line + 5, " \t", &save);
            if (!profile)
                return fail(&m, "card", "nothing", "a profile");
            if (add_card(&m, profile, save ? save : (char *)"") < 0)
                return -1;
            continue;
        }
        for (char *word = strtok_r(line, " \t", &save); word && *word != '#'; word = strtok_r(NULL, " \t", &save)) {
            char *value = strchr(word, '=');
            if (!value)
                return fail(&m, "setting", word, "key=value");
            *value++ = 0;
            if (setting(&m, word, value) < 0)
                return -1;
        }
    }
    for (uint32_t d = 0; d < s->cards; d++)
        device_reset(s, d);
    return 0;
}

static void append(char *lines, size_t room, const char *format, const char *a)
{
    size_t used = strlen(lines);
    snprintf(lines + used, room - used, format, a);
}

void configure_from_environment(char *lines, size_t room)
{
    lines[0] = 0;
    const char *file = secure_getenv("HAMI_SIM_CONFIG"), *cards = secure_getenv("HAMI_SIM_CARDS");
    const char *names[][2] = {{"HAMI_SIM_HOST", "host=%s\n"}, {"HAMI_SIM_DRIVER", "driver=%s\n"}, {"HAMI_SIM_NVML", "nvml=%s\n"},
                              {"HAMI_SIM_CLOCK", "clock=%s\n"}, {"HAMI_SIM_SETTINGS", "%s\n"}};
    for (unsigned i = 0; i < sizeof names / sizeof *names; i++) {
        const char *value = secure_getenv(names[i][0]);
        if (value && value[0])
            append(lines, room, names[i][1], value);
    }
    if (file && file[0]) {
        FILE *in = fopen(file, "re");
        size_t used = strlen(lines), n = in ? fread(lines + used, 1, room - used - 1, in) : 0;
        lines[used + n] = 0;
        if (in)
            fclose(in);
        if (n && strstr(lines, "card "))
            return;
        append(lines, room, "%s", "\n");
    }
    char copy[1024], *save = NULL;
    snprintf(copy, sizeof copy, "%s", cards && cards[0] ? cards : "A100-40G");
    for (char *word = strtok_r(copy, ", ", &save); word; word = strtok_r(NULL, ", ", &save)) {
        char *by = strchr(word, 'x'), one[128];
        if (by && by > word && strspn(word, "0123456789") == (size_t)(by - word)) {
            *by = 0;
            snprintf(one, sizeof one, "%s count=%s", by + 1, word);
            append(lines, room, "card %s\n", one);
        } else
            append(lines, room, "card %s\n", word);
    }
}
