#include "runtime.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "attach.h"
#include "object.h"
#include "say.h"

/* A program with raised rights takes no path from whoever started it; limits it may, they only lower. */
static const char *environment(const char *name)
{
    if (strcmp(name, "CUDA_DEVICE_MEMORY_SHARED_CACHE") == 0 || strcmp(name, "CUDA_DISABLE_CONTROL") == 0)
        return getauxval(AT_SECURE) ? NULL : getenv(name);
    return getenv(name);
}

static enum stage closed(const char *why, const char *about)
{
    say_line(SAY_ALWAYS, __FILE__, __LINE__, "cuInit is refused: %s%s%s", about, *about ? ": " : "", why);
    return STAGE_CLOSED;
}

static enum stage begin(struct process *p)
{
    struct state *s = &p->state;
    const char *why = NULL, *about = "";
    memset(s, 0, sizeof *s);
    s->pid = getpid();
    options_read(&s->options, environment);
    say_level(s->options.log_level);
    struct circumstances c = {.options_good = !s->options.wrong};
    attach_read_limits(s, &c.file_there, &why);
    c.file_good = !why;
    c.limits_known = c.file_there || s->options.managed;
    c.disabled = s->options.disable && (!c.file_there || s->limits.may_disable);
    c.region_good = c.slot_taken = true;
    if (why)
        about = "the limits file beside this library";
    else if (s->options.wrong)
        why = "this variable is not understood", about = s->options.wrong;
    enum course course = decide(&c);
    if (course == COURSE_ENFORCE) {
        bias_prepare();
        bool full;
        why = attach_region(s, &full);
        about = s->path;
        c.region_good = !why || full;
        c.slot_taken = !full;
        course = decide(&c);
    }
    if (course == COURSE_REFUSE)
        return closed(why, about);
    return course == COURSE_ENFORCE ? STAGE_READY : STAGE_OPEN;
}

enum stage runtime_start(void)
{
    struct process *p = process();
    if (!p)
        return closed("no memory", "");
    uint32_t stage = atomic_load_explicit(&p->stage, memory_order_acquire);
    if (stage != STAGE_FRESH)
        return (enum stage)stage;
    latch_take(&p->starting);
    stage = atomic_load_explicit(&p->stage, memory_order_acquire);
    if (stage == STAGE_FRESH) {
        stage = begin(p);
        atomic_store_explicit(&p->stage, stage, memory_order_release);
    }
    latch_leave(&p->starting);
    return (enum stage)stage;
}

static void text_of(const CUuuid *u, char *out)
{
    static const char hex[] = "0123456789abcdef";
    memcpy(out, "GPU-", 4);
    out += 4;
    for (int i = 0; i < 16; i++) {
        *out++ = hex[(unsigned char)u->bytes[i] >> 4];
        *out++ = hex[u->bytes[i] & 15];
        if (i == 3 || i == 5 || i == 7 || i == 9)
            *out++ = '-';
    }
    *out = 0;
}

/* Without a limits file devices are numbered as the management library does, whatever this process is shown. */
static void enter_all_devices(struct state *s)
{
    void *(*opener)(const char *, int) = (void *(*)(const char *, int))libc_symbol("dlopen");
    if (!loaded_nvml() && (!opener || !opener("libnvidia-ml.so.1", RTLD_LAZY)))
        return;
    const struct nvml *n = loaded_nvml();
    unsigned count = 0;
    if (!n || !n->nvmlInit_v2 || !n->nvmlDeviceGetCount_v2 || !n->nvmlDeviceGetHandleByIndex_v2 || !n->nvmlDeviceGetUUID ||
        n->nvmlInit_v2() != NVML_SUCCESS || n->nvmlDeviceGetCount_v2(&count) != NVML_SUCCESS)
        return;
    for (unsigned i = 0; i < count && i < HAMI_DEVICES; i++) {
        nvmlDevice_t device;
        char uuid[HAMI_UUID_ROOM];
        if (n->nvmlDeviceGetHandleByIndex_v2(i, &device) == NVML_SUCCESS && n->nvmlDeviceGetUUID(device, uuid, sizeof uuid) == NVML_SUCCESS)
            attach_device(s, uuid);
    }
}

void runtime_map(struct process *p, const struct driver *d)
{
    struct state *s = &p->state;
    latch_take(&p->starting);
    if (atomic_load_explicit(&s->mapped, memory_order_acquire)) {
        latch_leave(&p->starting);
        return;
    }
    memset(s->index_of, -1, sizeof s->index_of);
    if (!s->limits.present && !s->region->uuids[0][0])
        enter_all_devices(s);
    int count = 0;
    if (!d->cuDeviceGetCount || d->cuDeviceGetCount(&count) != CUDA_SUCCESS)
        count = 0;
    for (int i = 0; i < count && i < ORDINALS; i++) {
        CUdevice ordinal;
        CUuuid id;
        CUresult (*ask)(CUuuid *, CUdevice) = d->cuDeviceGetUuid_v2 ? d->cuDeviceGetUuid_v2 : d->cuDeviceGetUuid;
        char uuid[HAMI_UUID_ROOM];
        if (!ask || !d->cuDeviceGet || d->cuDeviceGet(&ordinal, i) != CUDA_SUCCESS || ask(&id, ordinal) != CUDA_SUCCESS)
            continue;
        text_of(&id, uuid);
        int index = attach_device(s, uuid);
        if (index < 0 || ordinal < 0 || ordinal >= ORDINALS)
            continue;
        s->index_of[ordinal] = (int8_t)index;
        s->rules[index] = rule_for(&s->limits, &s->options, uuid, (unsigned)index);
        s->paced |= s->rules[index].cores && (s->limits.present ? s->limits.policy : s->options.policy) != POLICY_DISABLE;
        say(SAY_INFO, "device %d is number %d of the region, memory %llu, cores %u", i, index, (unsigned long long)s->rules[index].memory,
            s->rules[index].cores);
    }
    place_forget();                     /* what a parent knew */
    atomic_store_explicit(&s->mapped, 1, memory_order_release);
    latch_leave(&p->starting);
}

/* A call came before our cuInit: a child of a process that initialised the driver, or a driver that was initialised unseen. */
enum stage runtime_stage_slowly(const struct driver *d)
{
    int count;
    if (!d->cuDeviceGetCount || d->cuDeviceGetCount(&count) != CUDA_SUCCESS)
        return STAGE_OPEN;              /* the driver will say what is missing */
    enum stage stage = runtime_start();
    if (stage == STAGE_READY)
        runtime_map(process(), d);
    return stage;
}

/* ---- where a call works --------------------------------------------------------------------------------------------------- */

_Atomic uint32_t places_ended;
_Thread_local struct here here __attribute__((tls_model("initial-exec")));
static _Atomic bool unseen;

void place_forget(void) { atomic_fetch_add_explicit(&places_ended, 1, memory_order_release); }

void place_ask_always(void)
{
    if (!atomic_exchange(&unseen, true))
        place_forget();
}

bool place_ask(struct process *p, const struct driver *d, struct place *out)
{
    CUcontext now = NULL;
    uint32_t ended = atomic_load_explicit(&places_ended, memory_order_acquire);
    out->device = -1;
    here.driver = NULL;
    if (!d->cuCtxGetCurrent || d->cuCtxGetCurrent(&now) != CUDA_SUCCESS || !now)
        return false;
    if (here.context != now || here.ended != ended) {
        CUdevice ordinal;
        if (!d->cuCtxGetDevice || d->cuCtxGetDevice(&ordinal) != CUDA_SUCCESS)
            return false;
        here.context = now;
        here.ordinal = ordinal;
        here.ended = ended;
    }
    if (!atomic_load_explicit(&unseen, memory_order_acquire))
        here.driver = d;
    bool counted = place_of(p, here.ordinal, out);
    out->context = now;
    return counted;
}

/* ---- the end -------------------------------------------------------------------------------------------------------------- */

/* Others may still run, in the program and at its exit: they go on as before. */
__attribute__((destructor)) static void leave(void)
{
    struct process *p = process_if_any();
    if (!p || atomic_load_explicit(&p->stage, memory_order_acquire) != STAGE_READY || p->state.pid != getpid())
        return;
    atomic_store(&p->ends, 1);
    ledger_leave(&p->state.ledger);
}
