#include "ledger.h"

#include <sched.h>
#include <time.h>

#include "latch.h"
#include "steps.h"

#ifdef HAMI_STEPS
void (*hami_step)(enum step step);
long long hami_patience_ns = 2000000000;
#endif

#define LOOK_EACH_MS 200u               /* a container asks so often who was killed */
#define ASK_AFTER_NS 1000000            /* spin so long before the kernel is asked about the owner */
/* An owner that lives but does not move is stopped by a signal. */
#ifdef HAMI_STEPS
#define GIVE_UP_NS ((uint64_t)hami_patience_ns)
#else
#define GIVE_UP_NS 2000000000u
#endif

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static uint64_t load(const _Atomic uint64_t *word) { return atomic_load_explicit(word, memory_order_relaxed); }
static void store(_Atomic uint64_t *word, uint64_t value) { atomic_store_explicit(word, value, memory_order_relaxed); }

static unsigned slots_seen(const struct ledger *l)
{
    int32_t n = atomic_load_explicit(&l->region->slot_count, memory_order_acquire);
    return n < 0 ? 0 : n > HAMI_SLOTS ? HAMI_SLOTS : (unsigned)n;
}

static bool owner_lives(struct ledger *l, uint64_t owner)
{
    unsigned slot = (unsigned)(owner & 0xffff) - 1;
    if (slot >= HAMI_SLOTS)
        return false;               /* no process ever wrote this */
    if (owner == l->name)
        return true;                /* another thread of ours */
    if (load(&l->region->slots[slot].epoch) != owner >> 16)
        return false;               /* the slot has been taken by somebody else since */
    STEP(STEP_ASK);
    int round = l->liveness.begin(l->liveness.who);
    if (round < 0)
        return true;
    bool lives = l->liveness.alive(round, slot);
    l->liveness.end(round);
    return lives;
}

static bool lock_slowly(struct ledger *l, _Atomic uint64_t *word, bool *recount)
{
    uint64_t began = now_ns(), asked = began;
    for (;;) {
        uint64_t owner = 0;
        for (int i = 0; i < 32; i++) {
            STEP(STEP_LOCK);
            owner = 0;
            if (atomic_compare_exchange_weak_explicit(word, &owner, l->name, memory_order_acq_rel, memory_order_relaxed))
                return true;
            cpu_pause();
        }
        sched_yield();
        uint64_t now = now_ns();
        if (now - asked < ASK_AFTER_NS)
            continue;
        asked = now;
        owner = atomic_load_explicit(word, memory_order_acquire);   /* whose epoch was written before it */
        if (owner && !owner_lives(l, owner)) {
            STEP(STEP_TAKE_OVER);
            if (atomic_compare_exchange_strong_explicit(word, &owner, l->name, memory_order_acq_rel, memory_order_relaxed)) {
                *recount = true;
                return true;
            }
        }
        if (now - began > GIVE_UP_NS)
            return false;
        nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL);
    }
}

static inline bool enter(struct ledger *l, unsigned device)
{
    _Atomic uint64_t *word = &l->extension->devices[device].owner;
    uint64_t free = 0;
    bool recount = false;
    STEP(STEP_LOCK);
    if (__builtin_expect(!atomic_compare_exchange_strong_explicit(word, &free, l->name, memory_order_acq_rel, memory_order_relaxed), 0) &&
        !lock_slowly(l, word, &recount))
        return false;
    if (recount)
        ledger_recount(l, device);
    return true;
}

static inline void leave(struct ledger *l, unsigned device)
{
    STEP(STEP_UNLOCK);
    atomic_store_explicit(&l->extension->devices[device].owner, 0, memory_order_release);
}

bool ledger_lock(struct ledger *l, unsigned device) { return enter(l, device); }
void ledger_unlock(struct ledger *l, unsigned device) { leave(l, device); }

static _Atomic uint64_t *part(struct hami_memory *m, enum charge kind)
{
    return kind == CHARGE_CONTEXT ? &m->context : kind == CHARGE_MODULE ? &m->module : &m->data;
}

static inline void slot_add(struct ledger *l, unsigned slot, unsigned device, enum charge kind, int64_t bytes)
{
    struct hami_memory *m = &l->region->slots[slot].used[device];
    _Atomic uint64_t *word = part(m, kind);
    uint64_t was = load(word), total = load(&m->total), down = bytes < 0 ? (uint64_t)-bytes : 0;
    if (down > was)                 /* somebody wrote our slot: never wrap */
        down = was;
    store(word, bytes < 0 ? was - down : was + (uint64_t)bytes);
    store(&m->total, bytes < 0 ? total - (down < total ? down : total) : total + (uint64_t)bytes);
}

void ledger_slot_add(struct ledger *l, unsigned slot, unsigned device, enum charge kind, int64_t bytes)
{
    slot_add(l, slot, device, kind, bytes);
}

static void zero(struct hami_memory *m)
{
    store(&m->total, 0);
    store(&m->context, 0);
    store(&m->module, 0);
    store(&m->data, 0);
    store(&m->shared, 0);
}

static bool holds(const struct hami_share *s, unsigned slot)
{
    return load(&s->holders[slot / 64]) >> (slot % 64) & 1;
}

static void let_go(struct hami_share *s, unsigned slot)
{
    atomic_fetch_and_explicit(&s->holders[slot / 64], ~(UINT64_C(1) << (slot % 64)), memory_order_relaxed);
}

/* A share whose bearer died goes to another holder; without any it stays charged to the container only while a descriptor may keep
 * the memory. */
static uint64_t pass_on(struct hami_share *s, const uint64_t *living)
{
    unsigned bearer = atomic_load_explicit(&s->bearer, memory_order_relaxed) - 1;
    bool borne = bearer < HAMI_SLOTS && (living[bearer / 64] >> (bearer % 64) & 1) && holds(s, bearer);
    unsigned heir = HAMI_SLOTS;
    for (unsigned i = 0; i < HAMI_SLOTS / 64; i++) {
        uint64_t left = load(&s->holders[i]) & living[i];
        store(&s->holders[i], left);
        if (left && heir == HAMI_SLOTS)
            heir = i * 64 + (unsigned)__builtin_ctzll(left);
    }
    if (borne)
        return 0;
    atomic_store_explicit(&s->bearer, heir < HAMI_SLOTS ? heir + 1 : 0, memory_order_relaxed);
    if (heir < HAMI_SLOTS)
        return 0;
    if (atomic_load_explicit(&s->by_descriptor, memory_order_relaxed))
        return load(&s->bytes);
    store(&s->key, 0);
    return 0;
}

static bool is_share(const struct hami_share *s, unsigned device)
{
    return load(&s->key) && atomic_load_explicit(&s->device, memory_order_relaxed) == device;
}

void ledger_recount(struct ledger *l, unsigned device)
{
    uint64_t living[HAMI_SLOTS / 64] = {0}, sum = 0;
    unsigned n = slots_seen(l);
    bool shared = false, ending = false;
    atomic_store(&l->extension->devices[device].ended, 0);      /* before anybody is looked at: who ends later says so again */
    for (unsigned i = 0; i < HAMI_SHARES; i++)
        shared |= is_share(&l->extension->shares[i], device);
    int round = l->liveness.begin(l->liveness.who);
    for (unsigned i = 0; i < n; i++) {
        struct hami_memory *m = &l->region->slots[i].used[device];
        bool empty = !load(&m->total) && !load(&m->context) && !load(&m->module) && !load(&m->data) && !load(&m->shared);
        if (empty && !shared)
            continue;
        if (i == l->slot || round < 0 || l->liveness.alive(round, i)) {
            living[i / 64] |= UINT64_C(1) << (i % 64);
            ending |= !empty && atomic_load(&l->region->slots[i].status) == 0;
        } else if (!empty) {
            STEP(STEP_ZERO);
            zero(m);
        }
    }
    if (round >= 0)
        l->liveness.end(round);
    for (unsigned i = 0; shared && i < HAMI_SHARES; i++)
        if (is_share(&l->extension->shares[i], device))
            sum += pass_on(&l->extension->shares[i], living);
    for (unsigned i = 0; i < n; i++) {
        struct hami_memory *m = &l->region->slots[i].used[device];
        uint64_t borne = 0;
        for (unsigned k = 0; shared && k < HAMI_SHARES; k++) {
            const struct hami_share *s = &l->extension->shares[k];
            borne += is_share(s, device) && atomic_load_explicit(&s->bearer, memory_order_relaxed) == i + 1 ? load(&s->bytes) : 0;
        }
        uint64_t total = load(&m->context) + load(&m->module) + load(&m->data) + borne;     /* a kill may lie between two stores */
        if (load(&m->shared) != borne)
            store(&m->shared, borne);
        if (load(&m->total) != total)
            store(&m->total, total);
        sum += total;
    }
    STEP(STEP_RECOUNT);
    store(&l->extension->devices[device].used, sum);
    if (ending)
        atomic_store(&l->extension->devices[device].ended, 1);
}

void ledger_reap(struct ledger *l, unsigned device)
{
    if (!ledger_lock(l, device))
        return;
    ledger_recount(l, device);
    ledger_unlock(l, device);
}

uint64_t ledger_used(struct ledger *l, unsigned device)
{
    if (__builtin_expect(load(&l->extension->devices[device].ended) != 0, 0))
        ledger_reap(l, device);
    return load(&l->extension->devices[device].used);
}

uint64_t ledger_told(struct ledger *l, unsigned device)
{
    if (__builtin_expect(slots_seen(l) > 1, 0)) {
        _Atomic uint64_t *looked = &l->extension->devices[device].looked;
        struct timespec t;
        clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
        uint64_t now = (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000, last = load(looked);
        if (now - last >= LOOK_EACH_MS && atomic_compare_exchange_strong(looked, &last, now))
            ledger_reap(l, device);
    }
    return ledger_used(l, device);
}

/* Inside: bytes that could not be returned when they were freed. */
static void pay_owed(struct ledger *l, unsigned device)
{
    struct hami_device *d = &l->extension->devices[device];
    atomic_store(&l->owes[device], load(&l->debt[device]) != 0);
    for (int kind = 0; kind < CHARGES; kind++) {
        uint64_t bytes = atomic_exchange(&l->owed[device][kind], 0), used = load(&d->used);
        uint64_t held = load(part(&l->region->slots[l->slot].used[device], (enum charge)kind));
        bytes = bytes < held ? bytes : held;
        store(&d->used, used - (bytes < used ? bytes : used));
        ledger_slot_add(l, l->slot, device, (enum charge)kind, -(int64_t)bytes);
    }
}

static inline bool pay(struct ledger *l, unsigned device)
{
    bool owes = atomic_load_explicit(&l->owes[device], memory_order_relaxed);
    if (__builtin_expect(owes, 0))
        pay_owed(l, device);
    return owes;
}

/* Inside: charge what is held over the limit, if there is room for it now. */
static bool debt_paid(struct ledger *l, unsigned device, uint64_t limit)
{
    struct hami_device *d = &l->extension->devices[device];
    uint64_t debt = load(&l->debt[device]), used;
    if (!debt)
        return true;
    ledger_recount(l, device);
    used = load(&d->used);
    if (used > limit || debt > limit - used) {
        atomic_store(&l->owes[device], 1);
        return false;
    }
    if (!atomic_compare_exchange_strong(&l->debt[device], &debt, 0))
        return false;               /* another thread's code came or went just now */
    slot_add(l, l->slot, device, CHARGE_MODULE, (int64_t)debt);
    store(&d->used, used + debt);
    return true;
}

enum verdict ledger_reserve(struct ledger *l, unsigned device, enum charge kind, uint64_t bytes, uint64_t limit)
{
    struct hami_device *d = &l->extension->devices[device];
    if (bytes > INT64_MAX)
        return VERDICT_FULL;
    if (!enter(l, device))
        return VERDICT_STUCK;
    if (__builtin_expect(pay(l, device), 0) && !debt_paid(l, device, limit)) {
        leave(l, device);
        return VERDICT_FULL;
    }
    STEP(STEP_CHECK);
    uint64_t used = load(&d->used);
    if (used > limit || bytes > limit - used) {
        ledger_recount(l, device);
        used = load(&d->used);
    }
    enum verdict verdict = used > limit || bytes > limit - used ? VERDICT_FULL : VERDICT_DONE;
    if (verdict == VERDICT_DONE) {
        STEP(STEP_SLOT_UP);
        slot_add(l, l->slot, device, kind, (int64_t)bytes);
        STEP(STEP_USED_UP);
        store(&d->used, used + bytes);
    }
    leave(l, device);
    return verdict;
}

void ledger_return(struct ledger *l, unsigned device, enum charge kind, uint64_t bytes)
{
    struct hami_device *d = &l->extension->devices[device];
    if (!bytes)
        return;
    if (!enter(l, device)) {
        atomic_fetch_add(&l->owed[device][kind], bytes);
        atomic_store(&l->owes[device], 1);
        return;
    }
    pay(l, device);
    uint64_t used = load(&d->used), held = load(part(&l->region->slots[l->slot].used[device], kind));
    if (bytes > held)
        bytes = held;               /* nobody gives back what is another's */
    STEP(STEP_USED_DOWN);
    store(&d->used, used - (bytes < used ? bytes : used));
    STEP(STEP_SLOT_DOWN);
    slot_add(l, l->slot, device, kind, -(int64_t)bytes);
    leave(l, device);
}

void ledger_owe(struct ledger *l, unsigned device, uint64_t bytes)
{
    atomic_fetch_add(&l->debt[device], bytes);
    atomic_store(&l->owes[device], 1);
}

void ledger_forgive(struct ledger *l, unsigned device, uint64_t bytes)
{
    uint64_t debt = load(&l->debt[device]), part;
    do
        part = bytes < debt ? bytes : debt;
    while (!atomic_compare_exchange_weak(&l->debt[device], &debt, debt - part));
    ledger_return(l, device, CHARGE_MODULE, bytes - part);
}

void ledger_claim(struct ledger *l, int32_t pid)
{
    struct hami_slot *slot = &l->region->slots[l->slot];
    uint64_t old = load(&slot->epoch), before = (old & 0xffffffffffff) << 16 | (l->slot + 1);
    uint64_t epoch = (old + 1) & 0xffffffffffff;
    l->name = epoch << 16 | (l->slot + 1);
    int32_t seen = atomic_load_explicit(&l->region->slot_count, memory_order_relaxed);
    while (seen < (int32_t)l->slot + 1 &&
           !atomic_compare_exchange_weak_explicit(&l->region->slot_count, &seen, (int32_t)l->slot + 1, memory_order_release, memory_order_relaxed))
        ;
    STEP(STEP_EPOCH);
    atomic_store_explicit(&slot->epoch, epoch, memory_order_release);
    for (unsigned device = 0; device < HAMI_DEVICES; device++) {
        STEP(STEP_INHERIT);
        struct hami_memory *m = &slot->used[device];
        uint64_t owner = before;    /* our predecessor died inside: nobody but us may know it, for the byte is ours now */
        bool inside = atomic_compare_exchange_strong_explicit(&l->extension->devices[device].owner, &owner, l->name, memory_order_acq_rel,
            memory_order_relaxed);
        bool named = false;
        for (unsigned i = 0; i < HAMI_SHARES; i++)
            named |= is_share(&l->extension->shares[i], device) && holds(&l->extension->shares[i], l->slot);
        bool left = named || load(&m->total) || load(&m->context) || load(&m->module) || load(&m->data);
        if (inside || (left && ledger_lock(l, device))) {
            for (unsigned i = 0; i < HAMI_SHARES; i++)
                if (is_share(&l->extension->shares[i], device))
                    let_go(&l->extension->shares[i], l->slot);
            zero(m);
            ledger_recount(l, device);
            ledger_unlock(l, device);
        }
        store(&slot->monitor_used[device], 0);
        store(&slot->utilization[device].sm, 0);
        store(&slot->utilization[device].decoder, 0);
        store(&slot->utilization[device].encoder, 0);
    }
    STEP(STEP_ANNOUNCE);
    atomic_store_explicit(&slot->host_pid, 0, memory_order_relaxed);
    atomic_store_explicit(&slot->pid, pid, memory_order_relaxed);
    atomic_store_explicit(&slot->status, 1, memory_order_release);
}

void ledger_leave(struct ledger *l)
{
    struct hami_slot *slot = &l->region->slots[l->slot];
    STEP(STEP_LEAVE);
    atomic_store(&slot->status, 0);
    for (unsigned device = 0; device < HAMI_DEVICES; device++)
        if (load(&slot->used[device].total))
            atomic_store(&l->extension->devices[device].ended, 1);
}

int ledger_share(struct ledger *l, unsigned device, uint64_t key, uint64_t bytes, bool by_descriptor)
{
    int found = -1;
    if (!ledger_lock(l, device))
        return -1;
    for (int i = 0; i < HAMI_SHARES && found < 0; i++)
        if (!load(&l->extension->shares[i].key))
            found = i;
    if (found >= 0) {
        struct hami_share *s = &l->extension->shares[found];
        struct hami_memory *m = &l->region->slots[l->slot].used[device];
        store(&s->bytes, bytes);
        atomic_store_explicit(&s->device, device, memory_order_relaxed);
        atomic_store_explicit(&s->bearer, l->slot + 1, memory_order_relaxed);
        atomic_store_explicit(&s->by_descriptor, by_descriptor, memory_order_relaxed);
        for (unsigned i = 0; i < HAMI_SLOTS / 64; i++)
            store(&s->holders[i], i == l->slot / 64 ? UINT64_C(1) << (l->slot % 64) : 0);
        store(&s->key, key);
        ledger_slot_add(l, l->slot, device, CHARGE_DATA, -(int64_t)bytes);
        store(&m->shared, load(&m->shared) + bytes);
        store(&m->total, load(&m->total) + bytes);
    }
    ledger_unlock(l, device);
    return found;
}

int ledger_share_join(struct ledger *l, unsigned device, uint64_t key, uint64_t bytes)
{
    int found = -1;
    if (!ledger_lock(l, device))
        return -1;
    for (int i = 0; i < HAMI_SHARES && found < 0; i++) {
        const struct hami_share *s = &l->extension->shares[i];
        if (is_share(s, device) && (key ? load(&s->key) == key : load(&s->bytes) == bytes) && !holds(s, l->slot))
            found = i;
    }
    if (found >= 0) {
        struct hami_share *s = &l->extension->shares[found];
        atomic_fetch_or_explicit(&s->holders[l->slot / 64], UINT64_C(1) << (l->slot % 64), memory_order_relaxed);
        atomic_store_explicit(&s->by_descriptor, 0, memory_order_relaxed);  /* who gets it again is charged again */
        if (!atomic_load_explicit(&s->bearer, memory_order_relaxed))
            ledger_recount(l, device);
    }
    ledger_unlock(l, device);
    return found;
}

void ledger_share_leave(struct ledger *l, unsigned device, int share)
{
    if (share < 0 || share >= HAMI_SHARES || !ledger_lock(l, device))
        return;
    let_go(&l->extension->shares[share], l->slot);
    ledger_recount(l, device);
    ledger_unlock(l, device);
}

void ledger_settle_orphans(struct ledger *l, unsigned device, uint64_t card_used)
{
    if (!ledger_lock(l, device))
        return;
    ledger_recount(l, device);
    struct hami_device *d = &l->extension->devices[device];
    for (unsigned i = 0; i < HAMI_SHARES && load(&d->used) > card_used; i++) {
        struct hami_share *s = &l->extension->shares[i];
        if (!is_share(s, device) || atomic_load_explicit(&s->bearer, memory_order_relaxed) || load(&d->used) - card_used < load(&s->bytes))
            continue;
        store(&s->key, 0);
        ledger_recount(l, device);
    }
    ledger_unlock(l, device);
}
