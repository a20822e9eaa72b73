#include "pacer.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "object.h"
#include "quick.h"
#include "sampler.h"
#include "say.h"

#define TICK_NS 2000000
#define REBASE_NS 10000000000
#define UNRENEWED_NS 20000000000
#define DRIFT_NS 40                 /* the card's clock may run away from ours by so much in a tick */
#define FORGOTTEN_NS 4000000        /* an open batch that nobody ends is booked at its price */

static int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void pause_ns(int64_t ns) { nanosleep(&(struct timespec){.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000}, NULL); }

/* ---- kinds ------------------------------------------------------------------------------------------------------------------ */

_Thread_local struct known known_launches[KNOWN] __attribute__((tls_model("initial-exec")));
_Thread_local __typeof__(own_run) own_run __attribute__((tls_model("initial-exec")));

static uint64_t stir(uint64_t x)
{
    x ^= x >> 31;
    x *= UINT64_C(0x9e3779b97f4a7c15);
    return x ^ x >> 29;
}

void pacer_learn(const struct driver *d, struct known *k, CUfunction f, uint64_t grid, uint64_t stream)
{
    const char *name = NULL;
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    if (d->cuFuncGetName && d->cuFuncGetName(&name, f) == CUDA_SUCCESS && name)
        for (; *name; name++)
            hash = (hash ^ (unsigned char)*name) * UINT64_C(0x100000001b3);
    else
        hash = stir((uint64_t)(uintptr_t)f ^ (uint64_t)getpid());
    uint32_t kind = (uint32_t)(stir(hash ^ stir(grid)) >> 16);
    *k = (struct known){.f = f, .grid = grid, .stream = stream, .kind = kind ? kind : 1};
}

/* ---- batches ---------------------------------------------------------------------------------------------------------------- */

static uint64_t stream_key(CUstream stream, enum stream_kind per_thread)
{
    uint64_t s = (uint64_t)(uintptr_t)stream;
    if (s == 2 || (s == 0 && per_thread == STREAM_PER_THREAD))
        return (uint64_t)(uintptr_t)__builtin_thread_pointer() | 1;     /* one for each thread */
    return s == 0 ? 4 : s;
}

/* Under the latch. */
static struct pacer_open *open_of(struct pacer *a, uint64_t stream)
{
    struct pacer_open *idle = NULL;
    uint64_t at = stir(stream);
    for (unsigned i = 0; i < PACER_STREAMS; i++) {
        struct pacer_open *o = &a->open[(at + i) % PACER_STREAMS];
        if (o->used && o->stream == stream)
            return o;
        if (!o->used && !idle)
            idle = o;
        if (!o->used && i > 8)
            break;
    }
    if (idle)
        *idle = (struct pacer_open){.stream = stream, .used = 1};
    return idle;
}

static CUevent event_new(struct pacer *a, const struct driver *d)
{
    CUevent e = NULL;
    if (a->spares)
        return a->spare[--a->spares];
    if (!d->cuEventCreate || d->cuEventCreate(&e, 0) != CUDA_SUCCESS)
        return NULL;
    return e;
}

static void event_done(struct pacer *a, const struct driver *d, CUevent e)
{
    if (a->spares < PACER_EVENTS)
        a->spare[a->spares++] = e;
    else if (d->cuEventDestroy_v2)
        d->cuEventDestroy_v2(e);
}

static CUresult record(const struct driver *d, CUevent e, CUstream stream, bool per_thread)
{
    if (per_thread)
        return d->cuEventRecord_ptsz ? d->cuEventRecord_ptsz(e, stream) : CUDA_ERROR_NOT_FOUND;
    return d->cuEventRecord ? d->cuEventRecord(e, stream) : CUDA_ERROR_NOT_FOUND;
}

/* ---- runs ------------------------------------------------------------------------------------------------------------------- */

static unsigned runs_used(struct process *p)
{
    unsigned n = atomic_load_explicit(&p->run_count, memory_order_acquire);
    return n < PACER_RUNS ? n : PACER_RUNS;
}

/* Under the latch: a batch of the stream has ended, so the next launch there begins one and takes its time. */
static void look_again(struct process *p, struct pacer *a, uint64_t stream)
{
    for (unsigned i = 0; i < runs_used(p); i++) {
        struct pacer_run *run = &p->runs[i];
        bool there = false;
        for (unsigned k = 0; run->pacer == a && k < run->parts; k++)
            there |= run->part[k].stream == stream;
        if (there)
            atomic_fetch_add_explicit(&run->epoch, 1, memory_order_relaxed);
    }
}

/* Under the latch: count launches into an open batch. False: it has no room for their kind. */
static bool count_in(struct pacer *a, struct pacer_open *o, uint32_t kind, uint32_t count, int64_t price, int64_t start)
{
    struct batch *b = &o->batch;
    unsigned i = 0;
    while (i < b->parts && b->part[i].kind != kind)
        i++;
    if (i == BATCH_PARTS)
        return false;
    if (!b->parts) {
        b->start = start ? start : now_ns();
        b->price = 0;
    }
    if (i == b->parts) {
        b->part[i].kind = kind;
        b->part[i].count = 0;
        b->parts++;
    }
    b->part[i].count += count;
    b->price += count * price;
    throttle_flies(&a->throttle, kind, (int32_t)count, price);
    return true;
}

/* Under the latch: what a run has launched and nobody has counted yet. */
static void gather_run(struct pacer *a, struct pacer_run *run)
{
    for (unsigned k = 0; k < run->parts; k++) {
        struct pacer_part *part = &run->part[k];
        uint32_t fresh = atomic_load_explicit(&part->made, memory_order_acquire) - part->told;
        struct pacer_open *o = fresh ? open_of(a, part->stream) : NULL;
        if (o && count_in(a, o, part->kind, fresh, part->price, 0))
            part->told += fresh;
    }
}

static void gather_runs(struct process *p, struct pacer *a)
{
    for (unsigned i = 0; i < runs_used(p); i++)
        if (p->runs[i].pacer == a)
            gather_run(a, &p->runs[i]);
}

/* Under the latch: what was paid in advance and not used comes back. */
static void empty_purse(struct pacer *a, struct pacer_run *run)
{
    if (!atomic_load_explicit(&run->purse, memory_order_relaxed))
        return;
    private_shut(&run->privilege);
    atomic_fetch_add_explicit(&a->throttle.d->credit, atomic_exchange_explicit(&run->purse, 0, memory_order_relaxed), memory_order_relaxed);
    private_open(&run->privilege);
}

/* Under the latch. True: some purse is still full. */
static bool empty_idle_purses(struct process *p, struct pacer *a)
{
    bool full = false;
    for (unsigned i = 0; i < runs_used(p); i++) {
        struct pacer_run *run = &p->runs[i];
        uint32_t made = 0;
        if (run->pacer != a)
            continue;
        for (unsigned k = 0; k < run->parts; k++)
            made += atomic_load_explicit(&run->part[k].made, memory_order_relaxed);
        run->idle = made == run->made_then ? run->idle + 1 : 0;
        run->made_then = made;
        if (run->idle >= 2)
            empty_purse(a, run);
        full |= atomic_load_explicit(&run->purse, memory_order_relaxed) != 0;
    }
    return full;
}

/* Under the latch: the run belongs to no device any longer. */
static void unbind(struct pacer *a, struct pacer_run *run)
{
    empty_purse(a, run);
    run->parts = 0;
    run->pacer = NULL;
    atomic_fetch_add_explicit(&run->epoch, 1, memory_order_relaxed);
}

/* This thread's, where there is room for one. A thread that ended leaves its run to the next at its address. */
static struct pacer_run *run_mine(struct process *p)
{
    uintptr_t me = this_thread();
    unsigned n = runs_used(p);
    for (unsigned i = 0; i < n; i++)
        if (atomic_load_explicit(&p->runs[i].thread, memory_order_relaxed) == me)
            return &p->runs[i];
    if (n == PACER_RUNS || (n = atomic_fetch_add(&p->run_count, 1)) >= PACER_RUNS)
        return NULL;
    atomic_store_explicit(&p->runs[n].epoch, 1, memory_order_relaxed);
    atomic_store_explicit(&p->runs[n].thread, me, memory_order_release);
    return &p->runs[n];
}

/* Outside any latch, in the run's own thread: before it launches on another device or in another context. */
static void move_run(struct process *p, const struct place *at)
{
    struct pacer_run *run = bias_possible() ? run_mine(p) : NULL;
    struct pacer *a = run ? run->pacer : NULL;
    if (a) {
        latch_take(&a->latch);
        if (run->pacer == a) {
            gather_run(a, run);
            unbind(a, run);
        }
        latch_leave(&a->latch);
    }
    for (unsigned i = 0; i < KNOWN; i++)
        known_launches[i].epoch = 0;
    own_run.run = run;
    own_run.context = at->context;
    own_run.ended = atomic_load_explicit(&places_ended, memory_order_relaxed);
}

/* Under the latch, in the run's own thread, with an open batch of the stream: from here on such launches are quick. */
static void remember(struct pacer *a, struct known *known, const struct permit *permit)
{
    struct pacer_run *run = own_run.run;
    unsigned k = 0;
    if (!run || run->pacer != a) {
        if (!run || run->pacer)
            return;
        run->pacer = a;
    }
    while (k < run->parts && (run->part[k].kind != permit->kind || run->part[k].stream != permit->stream))
        k++;
    if (k == PACER_PARTS) {
        k = run->parts = 0;
        atomic_fetch_add_explicit(&run->epoch, 1, memory_order_relaxed);
    }
    struct pacer_part *part = &run->part[k];
    if (k == run->parts) {
        part->kind = permit->kind;
        part->stream = permit->stream;
        part->told = atomic_load_explicit(&part->made, memory_order_relaxed);
        run->parts++;
    }
    if (part->told == atomic_load_explicit(&part->made, memory_order_relaxed))
        part->price = permit->price;
    known->part = part;
    known->epoch = atomic_load_explicit(&run->epoch, memory_order_relaxed);
    int64_t purse = atomic_load_explicit(&run->purse, memory_order_relaxed);
    if (permit->price > PACER_PURSE / 4 || purse > PACER_PURSE / 4 ||
        atomic_load_explicit(&a->throttle.d->credit, memory_order_relaxed) < 4 * PACER_PURSE)
        return;
    atomic_fetch_sub_explicit(&a->throttle.d->credit, PACER_PURSE - purse, memory_order_relaxed);
    atomic_store_explicit(&run->purse, PACER_PURSE, memory_order_relaxed);
}

/* Under the latch, in a thread of the program with the context current. None free, no room: the batch simply grows. */
static void end_batch(struct process *p, struct pacer *a, const struct driver *d, struct pacer_open *o, CUstream stream)
{
    if (!o->batch.parts || a->count == PACER_RING)
        return;
    CUevent e = event_new(a, d);
    if (!e)
        return;
    if (record(d, e, stream, o->stream & 1) != CUDA_SUCCESS) {
        event_done(a, d, e);
        return;
    }
    o->batch.closed = now_ns();
    a->ring[(a->first + a->count++) % PACER_RING] = (struct pacer_closed){.stream = o->stream, .batch = o->batch, .event = e};
    look_again(p, a, o->stream);
    o->used = 0;
    o->batch.parts = 0;
}

/* ---- settling --------------------------------------------------------------------------------------------------------------- */

struct ended { struct batch batch[PACER_RING]; unsigned count; int64_t runs; };

static int by_end(const void *a, const void *b)
{
    int64_t x = ((const struct batch *)a)->end, y = ((const struct batch *)b)->end;
    return x < y ? -1 : x > y;
}

/* Under the latch: when the event was reached, on our clock. An event is seen late, never early, so the base lies where the one seen
 * soonest puts it; the clock is read after the driver has answered, for this thread may be made to wait anywhere. */
static bool end_of(struct pacer *a, const struct driver *d, CUevent e, int64_t *end)
{
    float ms = 0;
    if (!a->base || !d->cuEventElapsedTime || d->cuEventElapsedTime(&ms, a->base, e) != CUDA_SUCCESS)
        return false;
    int64_t since = (int64_t)((double)ms * 1e6), latest = now_ns() - since;
    if (!a->base_known || latest < a->base_at)
        a->base_at = latest;
    a->base_known = 1;
    *end = a->base_at + since;
    return true;
}

static void gather(struct process *p, struct pacer *a, const struct driver *d, int64_t now, struct ended *out)
{
    uint64_t waiting[PACER_STREAMS];
    unsigned streams = 0;
    CUevent newest = NULL;
    int64_t newest_end = 0;
    a->base_at += DRIFT_NS;
    for (uint32_t i = 0; i < a->count; i++) {
        struct pacer_closed *c = &a->ring[(a->first + i) % PACER_RING];
        bool waits = c->ended;
        for (unsigned k = 0; k < streams && !waits; k++)
            waits = waiting[k] == c->stream;
        if (waits)
            continue;
        if (d->cuEventQuery(c->event) != CUDA_SUCCESS) {
            if (streams < PACER_STREAMS)
                waiting[streams++] = c->stream;
            continue;
        }
        c->ended = 1;
        if (!end_of(a, d, c->event, &c->batch.end))
            c->batch.end = now;
        if (c->batch.end > newest_end) {
            newest_end = c->batch.end;
            newest = c->event;
        }
        if (out->count < PACER_RING)
            out->batch[out->count++] = c->batch;
    }
    if (newest && newest_end - a->base_at > REBASE_NS) {
        CUevent fresh = newest;             /* floats count milliseconds: begin anew before they get coarse */
        for (uint32_t i = 0; i < a->count; i++)
            if (a->ring[(a->first + i) % PACER_RING].event == newest)
                a->ring[(a->first + i) % PACER_RING].event = a->base;
        a->base = fresh;
        a->base_at = newest_end;
    }
    while (a->count && a->ring[a->first].ended) {
        event_done(a, d, a->ring[a->first].event);
        a->first = (a->first + 1) % PACER_RING;
        a->count--;
    }
    for (unsigned i = 0; i < PACER_STREAMS; i++) {      /* what nobody ended */
        struct pacer_open *o = &a->open[i];
        if (!o->used || !o->batch.parts || now - o->batch.start < FORGOTTEN_NS || out->count == PACER_RING)
            continue;
        o->batch.end = o->batch.start + o->batch.price < now ? o->batch.start + o->batch.price : now;
        out->batch[out->count++] = o->batch;
        look_again(p, a, o->stream);
        o->used = 0;
        o->batch.parts = 0;
    }
    qsort(out->batch, out->count, sizeof out->batch[0], by_end);
    int64_t last = a->last_end < now ? a->last_end : now;
    for (unsigned i = 0; i < out->count; i++) {
        if (out->batch[i].start < last)
            out->batch[i].start = last;
        last = out->batch[i].end > last ? out->batch[i].end : last;
    }
    a->last_end = last;
    for (uint32_t i = 0; i < a->count; i++) {
        const struct pacer_closed *c = &a->ring[(a->first + i) % PACER_RING];
        if (!c->ended && (!out->runs || c->batch.start < out->runs))
            out->runs = c->batch.start;
    }
    if (out->runs && out->runs < last)
        out->runs = last;
}

static bool container_in_flight(struct process *p, unsigned device)
{
    int32_t n = atomic_load_explicit(&p->state.region->slot_count, memory_order_relaxed);
    for (int32_t i = 0; i < n && i < HAMI_SLOTS; i++)
        if (atomic_load_explicit(&p->state.region->slots[i].utilization[device].hold, memory_order_relaxed))
            return true;
    return false;
}

/* True while something is in flight. */
static bool settle(struct process *p, unsigned device)
{
    static struct ended all;                /* of the one settling thread */
    struct pacer *a = &p->pacers[device];
    all.count = 0;
    all.runs = 0;
    latch_take(&a->latch);
    const struct driver *d = a->driver;
    if (!a->joined || !d || !a->context) {
        latch_leave(&a->latch);
        return false;
    }
    int64_t now = now_ns();
    bool usable = d->cuCtxSetCurrent(a->context) == CUDA_SUCCESS, full = empty_idle_purses(p, a);
    gather_runs(p, a);
    if (usable)
        gather(p, a, d, now, &all);
    throttle_tick(&a->throttle, now, all.batch, all.count, all.runs);
    bool flying = full || a->count || a->throttle.hold;
    latch_leave(&a->latch);
    sampler_round(p, device, now, container_in_flight(p, device));
    return flying;
}

static void *settle_for_ever(void *argument)
{
    struct process *p = argument;
    CUstreamCaptureMode relaxed = CAPTURE_RELAXED;
    bool asked = false;
    int idle = 0;
    while (!atomic_load_explicit(&p->ends, memory_order_acquire)) {
        bool flying = false;
        const struct driver *d = any_driver();
        if (!asked && d && d->cuThreadExchangeStreamCaptureMode)        /* our queries must not break captures of others */
            d->cuThreadExchangeStreamCaptureMode(&relaxed);
        asked = true;
        for (unsigned i = 0; i < HAMI_DEVICES; i++)
            flying |= settle(p, i);
        idle = flying ? 0 : idle + 1;
        if (idle < 50) {
            pause_ns(TICK_NS);
            continue;
        }
        atomic_store(&p->settler_sleeps, 1);
        for (unsigned i = 0; i < HAMI_DEVICES; i++)     /* a launch may have come before it could see that */
            flying |= settle(p, i);
        if (!flying)
            futex_wait(&p->settler_sleeps, 1, &(struct timespec){.tv_sec = 5}, 0);
        atomic_store(&p->settler_sleeps, 0);
        idle = 0;
    }
    return NULL;
}

static void settler_start(struct process *p)
{
    uint32_t none = 0;
    if (!atomic_compare_exchange_strong(&p->settler, &none, 1))
        return;
    /* As the program has them: who stands in for them must learn of every thread. */
    int (*create)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *) =
        (int (*)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *))scope_symbol("pthread_create");
    int (*detach)(pthread_t) = (int (*)(pthread_t))scope_symbol("pthread_detach");
    pthread_t thread;
    sigset_t all, before;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, &before);      /* signals are the program's */
    if (!create || create(&thread, NULL, settle_for_ever, p) != 0)
        say(SAY_WARN, "no thread can be started: launches are paid by their price only");
    else if (detach)
        detach(thread);
    sigprocmask(SIG_SETMASK, &before, NULL);
}

/* ---- launches --------------------------------------------------------------------------------------------------------------- */

/* A block that is not renewed is over: its monitor is gone. */
void pacer_show_activity(struct process *p)
{
    struct hami_region *r = p->state.region;
    int32_t recent = atomic_load_explicit(&r->recent_kernel, memory_order_relaxed);
    int64_t renewed = recent < 0 ? now_ns() : 0;
    for (int32_t before = recent; recent < 0; before = recent) {
        pause_ns(20000000);
        recent = atomic_load_explicit(&r->recent_kernel, memory_order_relaxed);
        if (recent != before)
            renewed = now_ns();
        else if (now_ns() - renewed > UNRENEWED_NS)
            break;
    }
    atomic_compare_exchange_strong(&r->recent_kernel, &recent, 2);
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    uint64_t last = atomic_load_explicit(&r->last_kernel_time, memory_order_relaxed);
    while (last < (uint64_t)t.tv_sec && !atomic_compare_exchange_weak(&r->last_kernel_time, &last, (uint64_t)t.tv_sec))
        ;
}

void pacer_wake(struct process *p)
{
    atomic_store(&p->settler_sleeps, 0);
    futex_wake(&p->settler_sleeps, 1, 0);
}

void pacer_undo(struct process *p, int64_t price)
{
    struct pacer *a = own_run.run ? own_run.run->pacer : NULL;
    (void)p;
    if (a)
        atomic_fetch_add_explicit(&a->throttle.d->credit, price, memory_order_relaxed);
}

static bool limits_cores(const struct process *p, int device)
{
    const struct state *s = &p->state;
    enum policy policy = s->limits.present ? s->limits.policy : s->options.policy;
    if (!s->rules[device].cores || policy == POLICY_DISABLE)
        return false;
    return policy == POLICY_FORCE || atomic_load_explicit(&s->region->utilization_switch, memory_order_relaxed) != 0;
}

static bool captured(struct process *p, const struct driver *d, CUstream stream)
{
    CUstreamCaptureStatus status = 0;
    return __builtin_expect(atomic_load_explicit(&p->state.capturing, memory_order_acquire) != 0, 0) && d->cuStreamIsCapturing &&
        d->cuStreamIsCapturing(stream, &status) == CUDA_SUCCESS && status != 0;
}

/* Under the latch: this context's streams are the ones we know; those of another are paid by their price. */
static bool adopt(struct process *p, struct pacer *a, const struct driver *d, const struct place *at)
{
    if (__builtin_expect(a->joined && a->context == at->context, 1))
        return true;
    if (a->joined && a->context)
        return false;
    if (!a->joined)
        throttle_join(&a->throttle, &p->state.extension->devices[at->device],
            &p->state.region->slots[p->state.ledger.slot].utilization[at->device].hold, p->state.rules[at->device].cores);
    a->joined = 1;
    a->context = at->context;
    a->driver = d;
    a->base_known = a->spares = 0;
    a->base = event_new(a, d);
    if (a->base)
        record(d, a->base, NULL, false);
    return true;
}

int64_t pacer_known_time(struct process *p, const struct driver *d, unsigned device, CUfunction f, uint64_t grid)
{
    struct pacer *a = &p->pacers[device];
    struct known k;
    if (!a->joined)
        return 0;
    pacer_learn(d, &k, f, grid, 0);
    int64_t price = throttle_price(&a->throttle, k.kind);
    return price == THROTTLE_GUESS || price == THROTTLE_BURST ? 0 : price;
}

bool pacer_ask(struct process *p, const struct driver *d, CUstream stream, enum stream_kind per_thread, uint32_t kind, struct known *known,
               int64_t guess, struct permit *out)
{
    struct place at;
    *out = (struct permit){.kind = kind, .known = known};
    show_activity(p);
    if (!place_now(p, d, &at) || !limits_cores(p, at.device) || captured(p, d, stream))
        return false;
    struct pacer *a = &p->pacers[at.device];
    if (__builtin_expect(!a->joined || a->context != at.context, 0)) {
        latch_take(&a->latch);
        bool ours = adopt(p, a, d, &at);
        latch_leave(&a->latch);
        settler_start(p);
        if (!ours)
            out->stream = 0;
    }
    if (own_run.context != at.context || own_run.ended != atomic_load_explicit(&places_ended, memory_order_relaxed))
        move_run(p, &at);
    if (guess > 0)
        throttle_expect(&a->throttle, kind, guess);
    out->pacer = a;
    out->stream = a->context == at.context ? stream_key(stream, per_thread) : 0;
    for (int64_t since = 0;;) {
        out->price = throttle_price(&a->throttle, kind);
        if (__builtin_expect(throttle_take(&a->throttle, out->price), 1))
            break;
        int64_t wait = 0, now = now_ns();
        if (throttle_admit(&a->throttle, now, since ? since : now, out->price, &wait))
            break;
        if (!since)
            pacer_close_all(p, d);          /* what lies ahead is silence, not work */
        since = since ? since : now;
        pause_ns(wait);
        show_activity(p);
        if (!limits_cores(p, at.device))
            return false;
    }
    out->at = now_ns();                         /* a kernel may begin before the launch returns, and long before the latch is free */
    return true;
}

void pacer_tell(struct process *p, const struct driver *d, const struct permit *permit, CUstream stream, CUresult status, bool close)
{
    struct pacer *a = permit->pacer;
    if (status != CUDA_SUCCESS) {
        atomic_fetch_add_explicit(&a->throttle.d->credit, permit->price, memory_order_relaxed);
        return;
    }
    if (!permit->stream)
        return;                             /* a context we do not follow: the price was the charge */
    latch_take(&a->latch);
    if (own_run.run && own_run.run->pacer == a)
        gather_run(a, own_run.run);
    struct pacer_open *o = open_of(a, permit->stream);
    bool counted = o && count_in(a, o, permit->kind, 1, permit->price, permit->at);
    if (o && !counted) {
        end_batch(p, a, d, o, stream);
        o = open_of(a, permit->stream);
        counted = o && count_in(a, o, permit->kind, 1, permit->price, permit->at);
    }
    if (counted && (close || o->batch.price >= THROTTLE_BATCH))
        end_batch(p, a, d, o, stream);
    if (counted && o->batch.parts && permit->known)
        remember(a, permit->known, permit);
    latch_leave(&a->latch);
    if (__builtin_expect(atomic_load_explicit(&p->settler_sleeps, memory_order_relaxed), 0))
        pacer_wake(p);
}

void pacer_close(struct process *p, const struct driver *d, CUstream stream, enum stream_kind per_thread)
{
    uint64_t key = stream_key(stream, per_thread);
    CUcontext now = NULL;
    for (unsigned i = 0; i < HAMI_DEVICES; i++) {
        struct pacer *a = &p->pacers[i];
        if (!a->joined)
            continue;
        if (!now && (d->cuCtxGetCurrent(&now) != CUDA_SUCCESS || !now))
            return;
        latch_take(&a->latch);
        if (a->context == now) {
            gather_runs(p, a);
            struct pacer_open *o = open_of(a, key);
            if (o && o->batch.parts)
                end_batch(p, a, d, o, stream);
            else if (o)
                o->used = 0;
        }
        latch_leave(&a->latch);
    }
}

void pacer_close_all(struct process *p, const struct driver *d)
{
    CUcontext now = NULL;
    for (unsigned i = 0; i < HAMI_DEVICES; i++) {
        struct pacer *a = &p->pacers[i];
        if (!a->joined)
            continue;
        if (!now && (d->cuCtxGetCurrent(&now) != CUDA_SUCCESS || !now))
            return;
        latch_take(&a->latch);
        uint64_t mine = (uint64_t)(uintptr_t)__builtin_thread_pointer() | 1;
        if (a->context == now)
            gather_runs(p, a);
        for (unsigned k = 0; k < PACER_STREAMS && a->context == now; k++) {
            struct pacer_open *o = &a->open[k];
            if (!o->used || !o->batch.parts || ((o->stream & 1) && o->stream != mine))
                continue;           /* another thread's default stream is out of reach */
            end_batch(p, a, d, o, o->stream == 4 || (o->stream & 1) ? NULL : (CUstream)(uintptr_t)o->stream);
        }
        latch_leave(&a->latch);
    }
}

/* Under the latch: what is in flight counts as done at its price. */
static void forget(struct process *p, struct pacer *a)
{
    for (unsigned i = 0; i < runs_used(p); i++)
        if (p->runs[i].pacer == a)
            unbind(a, &p->runs[i]);
    for (unsigned i = 0; i < PACER_STREAMS; i++)
        a->open[i].used = 0;
    a->first = a->count = a->spares = 0;
    a->context = NULL;
    a->base = NULL;
    memset(a->throttle.flying, 0, sizeof a->throttle.flying);
    a->throttle.hold = 0;
    atomic_store_explicit(a->throttle.slot_hold, 0, memory_order_relaxed);
}

void pacer_forget_context(struct process *p, CUcontext context)
{
    for (unsigned i = 0; i < HAMI_DEVICES; i++) {
        struct pacer *a = &p->pacers[i];
        if (!a->joined)
            continue;
        latch_take(&a->latch);
        if (a->context == context)
            forget(p, a);
        latch_leave(&a->latch);
    }
}

void pacer_forget_stream(struct process *p, const struct driver *d, CUstream stream)
{
    pacer_close(p, d, stream, STREAM_LEGACY);
}
