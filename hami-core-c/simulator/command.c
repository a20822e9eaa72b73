/* hami-sim: start a device state, show it, inject faults. Answers are one JSON value on standard output. */
#define _GNU_SOURCE
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "configure.h"
#include "state.h"

static const char usage[] =
    "usage: hami-sim COMMAND ...           the state is $HAMI_SIM_STATE\n"
    "  start [CARDS|-] [KEY=VALUE ...]      put a new state in place; CARDS as in 4xA100-80G,T4, or - for lines on standard input\n"
    "  show | ps | judge                    everything; processes; containers against their limits (status 1 if one went over)\n"
    "  limit CONTAINER DEVICE [memory_mib=N] [slack_mib=N] [cores=N] [cores_slack=POINTS [window_ms=N]]\n"
    "  fault ENTRY CODE [skip=N] [times=N] [delay_ms=N] [container=TAG] | fault clear\n"
    "  xid DEVICE NUMBER | lose DEVICE | recover DEVICE\n"
    "  set DEVICE KEY=VALUE ...             temperature, compute_mode, ecc, visible\n"
    "  mig DEVICE on|off | mig create DEVICE PROFILE [START] | mig destroy UUID\n"
    "  clock [+NANOSECONDS]                 read a virtual clock, or move it\n"
    "  busy DEVICE                          device time per container and process, up to date\n"
    "DEVICE is an index, a UUID, or all.\n";

static int self = -1;

static int fail(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fputs("hami-sim: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    return 2;
}

static void text(const char *value)
{
    putchar('"');
    for (; *value; value++)
        if (*value == '"' || *value == '\\')
            printf("\\%c", *value);
        else if ((unsigned char)*value < 32)
            printf("\\u%04x", *value);
        else
            putchar(*value);
    putchar('"');
}

static const char *option(int argc, char **argv, const char *key)
{
    size_t n = strlen(key);
    for (int i = 0; i < argc; i++)
        if (!strncmp(argv[i], key, n) && argv[i][n] == '=')
            return argv[i] + n + 1;
    return NULL;
}

static uint64_t number(int argc, char **argv, const char *key, uint64_t otherwise)
{
    const char *value = option(argc, argv, key);
    return value ? strtoull(value, NULL, 0) : otherwise;
}

static int device(struct sim_state *s, const char *word)
{
    char *end;
    unsigned long index = strtoul(word, &end, 10);
    if (!*end && index < s->cards)
        return (int)index;
    for (uint32_t d = 0; d < SIM_DEVICES; d++)
        if (s->devices[d].kind != DEVICE_NONE && !strcasecmp(s->devices[d].uuid, word))
            return (int)d;
    return -1;
}

static int start(int argc, char **argv)
{
    static char lines[65536];
    char why[256];
    size_t used = 0;
    const char *cards = argc && !strchr(argv[0], '=') ? argv[0] : NULL;
    if (cards && !strcmp(cards, "-"))
        used = fread(lines, 1, sizeof lines - 4096, stdin);
    else if (cards)
        setenv("HAMI_SIM_CARDS", cards, 1);
    lines[used] = 0;
    if (!cards || strcmp(cards, "-"))
        configure_from_environment(lines, sizeof lines);
    for (int i = cards ? 1 : 0; i < argc; i++) {
        size_t n = strlen(argv[i]) + 1;
        memmove(lines + n, lines, strlen(lines) + 1);   /* settings come before the cards they concern */
        memcpy(lines, argv[i], n - 1);
        lines[n - 1] = '\n';
    }
    if (state_make(state_path(), lines, why, sizeof why) < 0)
        return fail("%s", why);
    printf("{\"state\": ");
    text(state_path());
    puts("}");
    return 0;
}

static const char *const kinds[] = {"none", "card", "gpu-instance", "compute-instance"};
static const char *const uses[] = {"context", "block", "pool", "physical", "array", "module", "limits"};

static void advance(struct sim_state *s)
{
    for (uint32_t d = 0; d < SIM_DEVICES; d++) {
        if (s->devices[d].kind == DEVICE_NONE)
            continue;
        lock_take(s, &s->devices[d].lock, self);
        device_advance(s, d, clock_now(s));
        lock_leave(&s->devices[d].lock);
    }
}

static void show_devices(struct sim_state *s)
{
    bool first = true;
    printf("[");
    for (uint32_t d = 0; d < SIM_DEVICES; d++) {
        struct sim_device *one = &s->devices[d];
        if (one->kind == DEVICE_NONE)
            continue;
        printf("%s{\"index\": %u, \"kind\": \"%s\", \"uuid\": \"%s\", \"name\": ", first ? "" : ",\n  ", d, kinds[one->kind], one->uuid);
        text(one->profile.name);
        uint64_t used = atomic_load(&one->used), cut = 0;
        for (uint32_t i = SIM_CARDS; i < SIM_DEVICES; i++)
            cut += s->devices[i].kind == DEVICE_GPU_INSTANCE && s->devices[i].parent == d ? atomic_load(&s->devices[i].used) : 0;
        printf(", \"bus_id\": \"%08X:%02X:%02X.0\", \"memory_total_bytes\": %llu, \"memory_reserved_bytes\": %llu, \"memory_used_bytes\": %llu, "
               "\"memory_peak_bytes\": %llu, \"busy_ns\": %lld, \"contexts\": %u, \"sms\": %u, \"lost\": %s, \"mig\": %s, \"temperature\": %u, ",
               one->domain, one->bus, one->slot, (unsigned long long)one->total,
               (unsigned long long)(one->kind == DEVICE_CARD ? (uint64_t)one->profile.memory_mib * MIB - one->total : 0),
               (unsigned long long)(used + cut), (unsigned long long)one->peak, (long long)one->engine.busy, one->contexts, one->profile.sms,
               atomic_load(&one->lost) ? "true" : "false", one->mig_mode ? "true" : "false", one->temperature);
        printf("\"percent\": %u", one->rates_made ? one->rates[(one->rates_made - 1) % SIM_RATES].percent : 0);
        if (one->kind != DEVICE_CARD)
            printf(", \"parent\": %u, \"instance\": %u, \"slices\": %u", one->parent, one->instance, one->slices);
        printf("}");
        first = false;
    }
    printf("]");
}

static void show_processes(struct sim_state *s)
{
    bool first = true;
    printf("[");
    for (uint32_t i = 0; i < atomic_load(&s->slots_seen); i++) {
        struct sim_slot *slot = &s->slots[i];
        if (atomic_load(&slot->state) != 2 || !slot->driver || (int)i == self)
            continue;
        printf("%s{\"pid\": %u, \"name\": ", first ? "" : ",\n  ", shown_pid(s, i, slot->pid));
        text(slot->name);
        printf(", \"container\": ");
        text(s->containers[slot->container].tag);
        printf(", \"devices\": [");
        bool any = false;
        for (uint32_t d = 0; d < SIM_DEVICES; d++) {
            if (s->devices[d].kind == DEVICE_NONE)
                continue;
            uint64_t bytes = 0;
            for (int k = 0; k < KIND_COUNT; k++)
                bytes += atomic_load(&slot->use[d].bytes[k]);
            int64_t busy = device_busy_of(s, i, d);
            if (!bytes && !busy && !slot->use[d].launches)
                continue;
            printf("%s{\"device\": %u, \"bytes\": %llu, \"busy_ns\": %lld, \"launches\": %llu", any ? ", " : "", d, (unsigned long long)bytes,
                   (long long)busy, (unsigned long long)slot->use[d].launches);
            for (int k = 0; k < KIND_COUNT; k++)
                if (atomic_load(&slot->use[d].bytes[k]))
                    printf(", \"%s_bytes\": %llu", uses[k], (unsigned long long)atomic_load(&slot->use[d].bytes[k]));
            printf("}");
            any = true;
        }
        printf("]}");
        first = false;
    }
    printf("]");
}

static int show_containers(struct sim_state *s)
{
    int over = 0;
    printf("[");
    for (uint32_t c = 0; c < SIM_CONTAINERS && s->containers[c].used; c++) {
        struct sim_container *one = &s->containers[c];
        printf("%s{\"container\": ", c ? ",\n  " : "");
        text(one->tag);
        printf(", \"violations\": %llu", (unsigned long long)one->violations);
        if (one->violations) {
            over = 1;
            printf(", \"first\": {\"pid\": %u, \"device\": %u, \"over_bytes\": %llu, \"at_ns\": %lld}", one->first_pid, one->first_device,
                   (unsigned long long)one->first_over, (long long)one->first_at);
        }
        printf(", \"devices\": [");
        bool any = false;
        for (uint32_t d = 0; d < SIM_DEVICES; d++) {
            const struct sim_judgement *on = &one->on[d];
            if (s->devices[d].kind == DEVICE_NONE)
                continue;
            int64_t busy = on->busy;
            for (uint32_t i = 0; i < atomic_load(&s->slots_seen); i++)
                if (atomic_load(&s->slots[i].state) == 2 && s->slots[i].container == c)
                    busy += device_busy_of(s, i, d);
            if (!on->bytes && !on->peak && !busy && !on->limit && !on->judged)
                continue;
            over |= on->windows_over > 0;
            printf("%s{\"device\": %u, \"bytes\": %llu, \"peak_bytes\": %llu, \"limit_bytes\": %llu, \"slack_bytes\": %llu, \"refused\": %llu, "
                   "\"worst_over_bytes\": %llu, \"busy_ns\": %lld, \"cores\": %u",
                   any ? ", " : "", d, (unsigned long long)on->bytes, (unsigned long long)on->peak, (unsigned long long)on->limit,
                   (unsigned long long)on->slack, (unsigned long long)on->refused, (unsigned long long)on->worst_over, (long long)busy, on->cores);
            if (on->judged)
                printf(", \"cores_slack\": %g, \"windows\": %llu, \"windows_over\": %llu, \"worst_share\": %.1f", on->share_slack,
                       (unsigned long long)on->windows, (unsigned long long)on->windows_over, on->worst_share);
            if (on->windows_over)
                printf(", \"first_share\": %.1f, \"first_share_at_ns\": %lld", on->first_share, (long long)on->first_share_at);
            printf("}");
            any = true;
        }
        printf("]}");
    }
    printf("]");
    return over;
}

static int show(struct sim_state *s)
{
    advance(s);
    printf("{\"state\": ");
    text(state_path());
    printf(", \"driver\": %u, \"driver_version\": \"%s\", \"clock_ns\": %lld, \"virtual\": %s,\n \"devices\": ", s->driver_version,
           s->driver_text, (long long)clock_now(s), s->virtual_time ? "true" : "false");
    show_devices(s);
    printf(",\n \"processes\": ");
    show_processes(s);
    printf(",\n \"containers\": ");
    show_containers(s);
    printf(",\n \"faults\": [");
    bool any = false;
    for (unsigned i = 0; i < SIM_FAULTS; i++)
        if (atomic_load(&s->faults[i].active)) {
            printf("%s{\"entry\": \"%s\", \"code\": %d, \"seen\": %u, \"skip\": %u, \"times\": %u, \"container\": ", any ? ", " : "",
                   s->faults[i].entry, s->faults[i].code, atomic_load(&s->faults[i].seen), s->faults[i].skip, s->faults[i].times);
            text(s->faults[i].tag);
            printf("}");
            any = true;
        }
    printf("],\n \"shared_blocks\": [");
    any = false;
    for (uint32_t h = 0; h < atomic_load(&s->share_high); h++)
        if (atomic_load(&s->shares[h].state) == 1) {
            printf("%s{\"device\": %u, \"bytes\": %llu, \"container\": ", any ? ", " : "", s->shares[h].device,
                   (unsigned long long)s->shares[h].bytes);
            text(s->containers[s->shares[h].container].tag);
            printf("}");
            any = true;
        }
    printf("]}\n");
    return 0;
}

static int set_limit(struct sim_state *s, int argc, char **argv)
{
    if (argc < 2)
        return fail("limit wants a container and a device");
    lock_take(s, &s->lock, self);
    struct sim_container *c = &s->containers[container_of(s, argv[0])];
    lock_leave(&s->lock);
    for (uint32_t d = 0; d < SIM_DEVICES; d++) {
        if (s->devices[d].kind == DEVICE_NONE || (strcmp(argv[1], "all") && (int)d != device(s, argv[1])))
            continue;
        c->on[d].limit = number(argc, argv, "memory_mib", c->on[d].limit / MIB) * MIB;
        c->on[d].slack = number(argc, argv, "slack_mib", c->on[d].slack / MIB) * MIB;
        c->on[d].cores = (uint32_t)number(argc, argv, "cores", c->on[d].cores);
        const char *slack = option(argc, argv, "cores_slack");
        if (!slack)
            continue;
        lock_take(s, &s->devices[d].lock, self);
        device_advance(s, d, clock_now(s));
        judge_shares(s, d, (uint32_t)(c - s->containers), atof(slack), (int64_t)number(argc, argv, "window_ms", 1000) * 1000000);
        lock_leave(&s->devices[d].lock);
    }
    puts("{}");
    return 0;
}

static int set_fault(struct sim_state *s, int argc, char **argv)
{
    if (argc == 1 && !strcmp(argv[0], "clear")) {
        for (unsigned i = 0; i < SIM_FAULTS; i++)
            atomic_store(&s->faults[i].active, 0);
        atomic_store(&s->faults_on, 0);
        puts("{}");
        return 0;
    }
    if (argc < 2)
        return fail("fault wants an entry point and a code, or clear");
    for (unsigned i = 0; i < SIM_FAULTS; i++) {
        struct sim_fault *f = &s->faults[i];
        if (atomic_load(&f->active))
            continue;
        const char *tag = option(argc, argv, "container");
        snprintf(f->entry, sizeof f->entry, "%s", argv[0]);
        snprintf(f->tag, sizeof f->tag, "%s", tag ? tag : "");
        f->code = atoi(argv[1]);
        f->skip = (uint32_t)number(argc, argv, "skip", 0);
        f->times = (uint32_t)number(argc, argv, "times", 0);
        f->delay = (int64_t)number(argc, argv, "delay_ms", 0) * 1000000;
        atomic_store(&f->seen, 0);
        atomic_store(&f->active, 1);
        atomic_store(&s->faults_on, 1);
        puts("{}");
        return 0;
    }
    return fail("all %d faults are in use; hami-sim fault clear", SIM_FAULTS);
}

static int each_device(struct sim_state *s, const char *word, void (*act)(struct sim_state *, uint32_t, uint32_t), uint32_t value)
{
    int found = device(s, word);
    if (found < 0 && strcmp(word, "all"))
        return fail("no device %s; hami-sim show lists them", word);
    for (uint32_t d = 0; d < s->cards; d++)
        if (found < 0 || (int)d == found)
            act(s, d, value);
    if (found >= SIM_CARDS)
        act(s, (uint32_t)found, value);
    puts("{}");
    return 0;
}

static void raise_xid(struct sim_state *s, uint32_t d, uint32_t xid) { xid_raise(s, d, xid, 8); }
static void lose(struct sim_state *s, uint32_t d, uint32_t xid)
{
    xid_raise(s, d, xid, 8);
    lock_take(s, &s->devices[d].lock, self);
    atomic_store(&s->devices[d].lost, 1);
    for (uint32_t c = 0; c < atomic_load(&s->context_high); c++)
        if (s->contexts[c].used && s->contexts[c].device == d)
            engine_drop(&s->devices[d].engine, s->queues, c, clock_now(s));
    lock_leave(&s->devices[d].lock);
}
static void recover(struct sim_state *s, uint32_t d, uint32_t xid)
{
    (void)xid;
    atomic_store(&s->devices[d].lost, 0);
    ring_bell(s);
}

static int set_device(struct sim_state *s, int argc, char **argv)
{
    int found = argc ? device(s, argv[0]) : -1;
    if (found < 0)
        return fail("set wants a device and settings");
    struct sim_device *d = &s->devices[found];
    d->temperature = (uint32_t)number(argc, argv, "temperature", d->temperature);
    d->compute_mode = (uint32_t)number(argc, argv, "compute_mode", d->compute_mode);
    d->ecc = (uint32_t)number(argc, argv, "ecc", d->ecc);
    d->visible_nvml = (uint32_t)number(argc, argv, "visible", d->visible_nvml);
    puts("{}");
    return 0;
}

static int mig(struct sim_state *s, int argc, char **argv)
{
    if (argc == 2 && (!strcmp(argv[1], "on") || !strcmp(argv[1], "off"))) {
        int card = device(s, argv[0]);
        if (card < 0 || s->devices[card].kind != DEVICE_CARD || !s->devices[card].profile.mig_count)
            return fail("%s is no card that can be cut", argv[0]);
        if (s->devices[card].contexts || mig_used_slots(s, (uint32_t)card))
            return fail("%s is in use", argv[0]);
        s->devices[card].mig_mode = s->devices[card].mig_pending = !strcmp(argv[1], "on");
        puts("{}");
        return 0;
    }
    if (argc >= 3 && !strcmp(argv[0], "create")) {
        int card = device(s, argv[1]), made = -1;
        if (card < 0)
            return fail("no device %s", argv[1]);
        for (uint32_t i = 0; i < s->devices[card].profile.mig_count; i++)
            if (!strcmp(s->devices[card].profile.mig[i].name, argv[2]))
                made = mig_create_instance(s, (uint32_t)card, s->devices[card].profile.mig[i].number, argc > 3 ? atoi(argv[3]) : -1);
        int compute = made < 0 ? -1 : mig_create_compute(s, (uint32_t)made, s->devices[made].slices, -1);
        if (compute < 0)
            return fail("no instance %s can be made on %s", argv[2], argv[1]);
        printf("{\"uuid\": \"%s\"}\n", s->devices[compute].uuid);
        return 0;
    }
    if (argc == 2 && !strcmp(argv[0], "destroy")) {
        int compute = device(s, argv[1]);
        uint32_t instance = compute < 0 ? 0 : s->devices[compute].parent;
        if (compute < 0 || mig_destroy_compute(s, (uint32_t)compute) < 0)
            return fail("%s is in use or is no instance", argv[1]);
        mig_destroy_instance(s, instance);
        puts("{}");
        return 0;
    }
    return fail("mig DEVICE on|off, mig create DEVICE PROFILE [START], mig destroy UUID");
}

int main(int argc, char **argv)
{
    if (argc < 2 || !strcmp(argv[1], "--help")) {
        fputs(usage, argc < 2 ? stderr : stdout);
        return argc < 2 ? 2 : 0;
    }
    const char *what = argv[1];
    argc -= 2, argv += 2;
    if (!strcmp(what, "start"))
        return start(argc, argv);
    struct sim_state *s = state_open();
    if (!s)
        return fail("%s is no device state of this version; hami-sim start makes one", state_path());
    self = slot_take(s, false);
    state_reap(s, self, 0);
    int answer = 2;
    if (!strcmp(what, "show"))
        answer = show(s);
    else if (!strcmp(what, "ps")) {
        advance(s);
        show_processes(s);
        puts("");
        answer = 0;
    } else if (!strcmp(what, "judge") || !strcmp(what, "busy")) {
        advance(s);
        answer = show_containers(s);
        puts("");
    } else if (!strcmp(what, "limit"))
        answer = set_limit(s, argc, argv);
    else if (!strcmp(what, "fault"))
        answer = set_fault(s, argc, argv);
    else if (!strcmp(what, "xid") && argc == 2)
        answer = each_device(s, argv[0], raise_xid, (uint32_t)atoi(argv[1]));
    else if (!strcmp(what, "lose") && argc >= 1)
        answer = each_device(s, argv[0], lose, 79);
    else if (!strcmp(what, "recover") && argc == 1)
        answer = each_device(s, argv[0], recover, 0);
    else if (!strcmp(what, "set"))
        answer = set_device(s, argc, argv);
    else if (!strcmp(what, "mig"))
        answer = mig(s, argc, argv);
    else if (!strcmp(what, "clock")) {
        if (argc && s->virtual_time)
            atomic_fetch_add(&s->virtual_now, atoll(argv[0]));
        advance(s);
        printf("{\"clock_ns\": %lld}\n", (long long)clock_now(s));
        answer = 0;
    } else
        fail("unknown command %s\n%s", what, usage);
    if (self >= 0)
        slot_leave(s, self);
    return answer;
}
