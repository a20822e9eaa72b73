#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/futex.h>
#include <math.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "state.h"

/* ---- memory ------------------------------------------------------------------------------------------------------- */

uint64_t granules(uint64_t bytes)
{
    return (bytes + SIM_GRANULE - 1) & ~(SIM_GRANULE - 1);
}

uint32_t memory_owner(const struct sim_state *s, uint32_t device)
{
    return s->devices[device].kind == DEVICE_COMPUTE_INSTANCE ? s->devices[device].parent : device;
}

uint32_t card_of(const struct sim_state *s, uint32_t device)
{
    while (s->devices[device].kind == DEVICE_GPU_INSTANCE || s->devices[device].kind == DEVICE_COMPUTE_INSTANCE)
        device = s->devices[device].parent;
    return device;
}

static uint64_t bytes_of(const struct sim_use *use)
{
    uint64_t sum = 0;
    for (int k = 0; k < KIND_COUNT; k++)
        sum += atomic_load_explicit(&use->bytes[k], memory_order_relaxed);
    return sum;
}

uint64_t memory_of_slot(const struct sim_state *s, uint32_t slot, uint32_t device)
{
    return bytes_of(&s->slots[slot].use[memory_owner(s, device)]);
}

/* Under the device's lock: the sums anew from what each slot and each shared block holds. */
void memory_recount(struct sim_state *s, uint32_t device)
{
    struct sim_device *d = &s->devices[device];
    uint64_t used = 0;
    for (uint32_t c = 0; c < SIM_CONTAINERS && s->containers[c].used; c++)
        s->containers[c].on[device].bytes = 0;
    for (uint32_t i = 0; i < atomic_load(&s->slots_seen); i++) {
        if (atomic_load(&s->slots[i].state) != 2)
            continue;
        uint64_t bytes = bytes_of(&s->slots[i].use[device]);
        used += bytes;
        s->containers[s->slots[i].container].on[device].bytes += bytes;
    }
    for (uint32_t h = 0; h < atomic_load(&s->share_high); h++)
        if (atomic_load(&s->shares[h].state) == 1 && s->shares[h].device == device) {
            used += s->shares[h].bytes;
            s->containers[s->shares[h].container].on[device].bytes += s->shares[h].bytes;
        }
    atomic_store(&d->used, used);
}

/* What those of a container still hold that have died since anybody looked. */
static uint64_t held_by_dead(struct sim_state *s, uint32_t container, uint32_t device)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < atomic_load(&s->slots_seen); i++) {
        uint64_t held = bytes_of(&s->slots[i].use[device]);
        if (held && s->slots[i].container == container && !slot_alive(s, i))
            bytes += held;
    }
    return bytes;
}

/* The judge: after every step the container's physical bytes are held against its limit. */
static void judge(struct sim_state *s, int self, uint32_t device)
{
    struct sim_container *c = &s->containers[s->slots[self].container];
    struct sim_judgement *on = &c->on[device];
    if (on->bytes > on->peak)
        on->peak = on->bytes;
    if (!on->limit || on->bytes <= on->limit + on->slack)
        return;
    /* Between the look at the dead before this step and now more may have died, and others been given what they held. */
    uint64_t held = on->bytes - held_by_dead(s, s->slots[self].container, device);
    if (held <= on->limit + on->slack)
        return;
    uint64_t over = held - on->limit;
    if (over > on->worst_over)
        on->worst_over = over;
    if (c->violations++ == 0) {
        c->first_over = over;
        c->first_at = clock_now(s);
        c->first_pid = s->slots[self].pid;
        c->first_device = device;
    }
}

bool memory_charge(struct sim_state *s, int self, uint32_t device, enum sim_kind kind, uint64_t bytes)
{
    device = memory_owner(s, device);
    struct sim_device *d = &s->devices[device];
    struct sim_container *c = &s->containers[s->slots[self].container];
    for (int round = 0;; round++) {
        lock_take(s, &d->lock, self);
        uint64_t used = atomic_load_explicit(&d->used, memory_order_relaxed);
        bool fits = bytes <= d->total && used <= d->total - bytes;
        const struct sim_judgement *on = &c->on[device];
        if (!round && on->limit && on->bytes + bytes > on->limit + on->slack)
            fits = false;       /* before anybody is blamed, what the dead held is given back */
        if (fits) {
            atomic_fetch_add_explicit(&s->slots[self].use[device].bytes[kind], bytes, memory_order_relaxed);
            atomic_store_explicit(&d->used, used + bytes, memory_order_relaxed);
            if (used + bytes > d->peak)
                d->peak = used + bytes;
            c->on[device].bytes += bytes;
            judge(s, self, device);
        } else if (round)
            c->on[device].refused++;
        lock_leave(&d->lock);
        if (fits || round)
            return fits;
        state_reap(s, self, 0);
    }
}

void memory_return(struct sim_state *s, int self, uint32_t device, enum sim_kind kind, uint64_t bytes)
{
    device = memory_owner(s, device);
    struct sim_device *d = &s->devices[device];
    lock_take(s, &d->lock, self);
    atomic_fetch_sub_explicit(&s->slots[self].use[device].bytes[kind], bytes, memory_order_relaxed);
    atomic_fetch_sub_explicit(&d->used, bytes, memory_order_relaxed);
    s->containers[s->slots[self].container].on[device].bytes -= bytes;
    lock_leave(&d->lock);
}

/* ---- shared blocks ------------------------------------------------------------------------------------------------ */

int share_make(struct sim_state *s, int self, uint32_t device, enum sim_kind kind, uint64_t bytes)
{
    device = memory_owner(s, device);
    int found = -1;
    lock_take(s, &s->lock, self);
    for (uint32_t h = 0; h < SIM_SHARED && found < 0; h++)
        if (atomic_load(&s->shares[h].state) == 0)
            found = (int)h;
    if (found >= 0) {
        struct sim_share *share = &s->shares[found];
        share->device = device;
        share->container = s->slots[self].container;
        share->kind = kind;
        share->bytes = bytes;
        share->generation++;
        share->by_handle = 0;
        for (unsigned w = 0; w < SIM_SLOTS / 64; w++)
            atomic_store(&share->holders[w], 0);
        atomic_fetch_or(&share->holders[self / 64], UINT64_C(1) << (self % 64));
        lock_take(s, &s->devices[device].lock, self);
        if (atomic_load(&s->share_high) < (uint32_t)found + 1)
            atomic_store(&s->share_high, (uint32_t)found + 1);
        atomic_store(&share->state, 1);
        atomic_fetch_sub(&s->slots[self].use[device].bytes[kind], bytes);
        lock_leave(&s->devices[device].lock);
    }
    lock_leave(&s->lock);
    return found;
}

bool share_hold(struct sim_state *s, int self, uint32_t share, uint64_t generation)
{
    bool held = false;
    if (share >= SIM_SHARED)
        return false;
    lock_take(s, &s->lock, self);
    struct sim_share *one = &s->shares[share];
    if (atomic_load(&one->state) == 1 && (!generation || one->generation == generation)) {
        atomic_fetch_or(&one->holders[self / 64], UINT64_C(1) << (self % 64));
        held = true;
    }
    lock_leave(&s->lock);
    return held;
}

/* A descriptor that keeps the block alive wherever it travels: its open description holds a byte of the state file. */
int share_descriptor(struct sim_state *s, uint32_t share)
{
    int fd = descriptor_open();
    struct flock lock = {.l_type = F_RDLCK, .l_whence = SEEK_SET, .l_start = SIM_HANDLES + share, .l_len = 1};
    if (fd >= 0 && (fcntl(fd, F_OFD_SETLK, &lock) < 0 || lseek(fd, SIM_HANDLES + share, SEEK_SET) < 0)) {
        close(fd);
        return -1;
    }
    s->shares[share].by_handle = 1;
    return fd;
}

int share_of_descriptor(int fd)
{
    off_t at = lseek(fd, 0, SEEK_CUR);
    return at >= SIM_HANDLES && at < SIM_HANDLES + SIM_SHARED ? (int)(at - SIM_HANDLES) : -1;
}

void share_leave(struct sim_state *s, int self, uint32_t share)
{
    atomic_fetch_and(&s->shares[share].holders[self / 64], ~(UINT64_C(1) << (self % 64)));
    state_reap(s, self, 0);
}

/* ---- contexts ----------------------------------------------------------------------------------------------------- */

int context_make(struct sim_state *s, int self, uint32_t device, uint64_t bytes)
{
    struct sim_device *d = &s->devices[device];
    if (bytes && !memory_charge(s, self, device, KIND_CONTEXT, bytes))
        return -1;
    lock_take(s, &s->lock, self);
    int found = -1;
    for (uint32_t c = 0; c < SIM_CONTEXTS && found < 0; c++)
        if (!s->contexts[c].used)
            found = (int)c;
    if (found >= 0) {
        lock_take(s, &d->lock, self);
        struct sim_queue *q = &s->queues[found];
        q->head = q->tail = 0;
        q->work = q->busy = 0;
        q->launches = q->in_ring = 0;
        s->contexts[found] = (struct sim_context){.used = 1, .slot = (uint32_t)self, .device = device, .number = ++s->contexts_made};
        d->contexts++;
        if (atomic_load(&s->context_high) < (uint32_t)found + 1)
            atomic_store(&s->context_high, (uint32_t)found + 1);
        lock_leave(&d->lock);
    }
    lock_leave(&s->lock);
    if (found < 0 && bytes)
        memory_return(s, self, device, KIND_CONTEXT, bytes);
    return found;
}

/* The context's memory of kind KIND_CONTEXT is given back by the caller, or with the slot. */
void context_end(struct sim_state *s, int self, uint32_t context)
{
    struct sim_context *c = &s->contexts[context];
    uint32_t device = c->device;
    lock_take(s, &s->devices[device].lock, self);
    int64_t now = clock_now(s);
    device_advance(s, device, now);
    engine_drop(&s->devices[device].engine, s->queues, context, now);
    s->slots[c->slot].use[device].busy += s->queues[context].busy;
    s->queues[context].busy = 0;
    c->used = 0;
    if (s->devices[device].contexts)
        s->devices[device].contexts--;
    lock_leave(&s->devices[device].lock);
}

uint32_t container_of(struct sim_state *s, const char *tag)
{
    for (uint32_t c = 0; c < SIM_CONTAINERS; c++) {
        struct sim_container *one = &s->containers[c];
        if (!one->used) {
            strncpy(one->tag, tag, sizeof one->tag - 1);
            one->used = 1;
            return c;
        }
        if (strncmp(one->tag, tag, sizeof one->tag - 1) == 0)
            return c;
    }
    return SIM_CONTAINERS - 1;
}

/* ---- time --------------------------------------------------------------------------------------------------------- */

static void reached(void *who, uint32_t queue, const struct sim_item *item, int64_t at)
{
    struct sim_state *s = who;
    uint32_t slot = s->contexts[queue].slot;
    atomic_store_explicit(&s->cells[slot][item->cell % SIM_CELLS], at ? at : 1, memory_order_release);
}

int64_t device_busy_of(const struct sim_state *s, uint32_t slot, uint32_t device)
{
    int64_t busy = s->slots[slot].use[device].busy;
    for (uint32_t c = 0; c < atomic_load(&s->context_high); c++)
        if (s->contexts[c].used && s->contexts[c].slot == slot && s->contexts[c].device == device)
            busy += s->queues[c].busy;
    return busy;
}

/* Device time of every slot on a device, in one pass over the contexts. */
static void busy_of_all(const struct sim_state *s, uint32_t device, int64_t *busy, uint32_t slots)
{
    for (uint32_t i = 0; i < slots; i++)
        busy[i] = s->slots[i].use[device].busy;
    for (uint32_t c = 0; c < atomic_load(&s->context_high); c++)
        if (s->contexts[c].used && s->contexts[c].device == device && s->contexts[c].slot < slots)
            busy[s->contexts[c].slot] += s->queues[c].busy;
}

static void window_begin(struct sim_state *s, uint32_t device)
{
    struct sim_device *d = &s->devices[device];
    int64_t busy[SIM_SLOTS];
    uint32_t slots = atomic_load(&s->slots_seen);
    busy_of_all(s, device, busy, slots);
    for (uint32_t i = 0; i < slots; i++)
        s->slots[i].use[device].mark = busy[i];
    d->window_busy = d->engine.busy;
    d->window_open = 1;
}

/* Whole percent, rounded down, as the vendor reports it. */
static uint32_t percent(int64_t part, int64_t whole)
{
    int64_t p = whole > 0 ? (part * 100 + whole / 10000000) / whole : 0;
    return p > 100 ? 100 : p < 0 ? 0 : (uint32_t)p;
}

static void window_finish(struct sim_state *s, uint32_t device)
{
    struct sim_device *d = &s->devices[device];
    int64_t busy[SIM_SLOTS];
    uint32_t slots = atomic_load(&s->slots_seen);
    busy_of_all(s, device, busy, slots);
    for (uint32_t i = 0; i < slots; i++) {
        uint32_t p = percent(busy[i] - s->slots[i].use[device].mark, s->sample_window);
        if (atomic_load(&s->slots[i].state) == 2 && p)
            d->samples[d->samples_made++ % SIM_SAMPLES] =
                (struct sim_sample){.end = d->window_end, .pid = s->slots[i].pid, .percent = (uint16_t)p, .slot = (uint16_t)i};
    }
    uint32_t whole = percent(d->engine.busy - d->window_busy, s->sample_window);
    d->rates[d->rates_made++ % SIM_RATES] = (struct sim_rate){.end = d->window_end, .percent = whole, .memory_percent = whole / 2};
    d->window_open = 0;
}

/* Windows of the judge end on the way. */
static void advance_to(struct sim_state *s, uint32_t device, int64_t at)
{
    struct sim_device *d = &s->devices[device];
    while (d->judge_window && d->judge_end <= at) {
        engine_advance(&d->engine, s->queues, d->judge_end, reached, s);
        judge_window(s, device);
    }
    engine_advance(&d->engine, s->queues, at, reached, s);
}

void device_advance(struct sim_state *s, uint32_t device, int64_t now)
{
    struct sim_device *d = &s->devices[device];
    if (d->judge_window && engine_next(&d->engine, s->queues) == INT64_MAX)
        judge_skip(s, device, now);
    while (s->sampling && d->window_end <= now) {
        int64_t idle_from = engine_next(&d->engine, s->queues) == INT64_MAX && !d->window_open ? d->engine.last : now;
        if (now - d->window_end > 4 * s->sample_period && idle_from < d->window_start) {
            int64_t skipped = (now - d->window_end) / s->sample_period - 1;
            d->window_start += skipped * s->sample_period;
            d->window_end += skipped * s->sample_period;
        }
        if (!d->window_open) {
            advance_to(s, device, d->window_start);
            window_begin(s, device);
        }
        advance_to(s, device, d->window_end);
        window_finish(s, device);
        d->window_end += s->sample_period;
        d->window_start = d->window_end - s->sample_window;
    }
    if (s->sampling && !d->window_open && d->window_start <= now) {
        advance_to(s, device, d->window_start);
        window_begin(s, device);
    }
    advance_to(s, device, now);
}

void device_reset(struct sim_state *s, uint32_t device)
{
    struct sim_device *d = &s->devices[device];
    int64_t now = clock_now(s);
    engine_init(&d->engine, s->slice, s->switching, now);
    d->window_end = now + s->sample_period;
    d->window_start = d->window_end - s->sample_window;
    d->window_open = 0;
}

int64_t kernel_time(const struct sim_state *s, uint32_t device, uint64_t blocks, int64_t fixed, int64_t wave, uint32_t blocks_per_sm)
{
    uint64_t wide = (uint64_t)s->devices[device].profile.sms * (blocks_per_sm ? blocks_per_sm : 1);
    return fixed + wave * (int64_t)((blocks + wide - 1) / wide);
}

static uint64_t mixed(uint64_t x)
{
    x += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

int64_t noisy(struct sim_state *s, int64_t duration, uint32_t launches, int64_t now)
{
    if (s->noise <= 0 && s->drift <= 0)
        return duration;
    double u1 = ((double)(mixed((uint64_t)now ^ s->seed) >> 11) + 1) / 9007199254740994.0;
    double u2 = (double)(mixed((uint64_t)now * 31 + s->seed) >> 11) / 9007199254740992.0;
    double normal = sqrt(-2 * log(u1)) * cos(6.283185307179586 * u2);
    double spread = s->noise / sqrt(launches ? launches : 1);
    double factor = exp(spread * normal) * (1 + s->drift * sin(0.9e-9 * (double)now));
    return (int64_t)((double)duration * factor);
}

/* ---- events of health --------------------------------------------------------------------------------------------- */

void ring_bell(struct sim_state *s)
{
    atomic_fetch_add(&s->bell, 1);
    syscall(SYS_futex, &s->bell, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

void xid_raise(struct sim_state *s, uint32_t device, uint32_t xid, uint64_t kind)
{
    uint64_t number = atomic_load(&s->xids_made);
    s->xids[number % SIM_XIDS] = (struct sim_xid){.number = number, .at = clock_now(s), .device = device, .xid = xid, .kind = kind};
    atomic_store(&s->xids_made, number + 1);
    ring_bell(s);
}
