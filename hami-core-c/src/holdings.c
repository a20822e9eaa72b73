#include "holdings.h"

#include "say.h"

/* Allocators that keep what they free live from refusals: the first one is worth a line, the others only to who asked for more. */
static void say_refused(struct state *s, int device, uint64_t bytes, uint64_t limit)
{
    unsigned long long wanted = ledger_used(&s->ledger, (unsigned)device) + bytes, most = limit;
    if (!atomic_exchange_explicit(&s->refused, 1, memory_order_relaxed))
        say(SAY_ERROR, "Device %d OOM %llu / %llu (later ones are said at level %d)", device, wanted, most, SAY_INFO);
    else
        say(SAY_INFO, "Device %d OOM %llu / %llu", device, wanted, most);
}

bool charge(struct process *p, const struct driver *d, int device, enum charge kind, uint64_t bytes)
{
    struct state *s = &p->state;
    uint64_t limit = s->rules[device].memory;
    if (!bytes)
        return true;
    enum verdict v = ledger_reserve(&s->ledger, (unsigned)device, kind, bytes, limit);
    if (v == VERDICT_FULL && bytes <= limit) {
        pools_trim(p, d, device);
        shares_settle_orphans(p, d, device);
        v = ledger_reserve(&s->ledger, (unsigned)device, kind, bytes, limit);
    }
    if (v != VERDICT_DONE)
        say_refused(s, device, bytes, limit);
    return v == VERDICT_DONE;
}

void uncharge(struct process *p, int device, enum charge kind, uint64_t bytes)
{
    if (bytes)
        ledger_return(&p->state.ledger, (unsigned)device, kind, bytes);
}

void shares_settle_orphans(struct process *p, const struct driver *d, int device)
{
    size_t free, total;
    struct place at;
    if (place_now(p, d, &at) && at.device == device && d->cuMemGetInfo_v2 && d->cuMemGetInfo_v2(&free, &total) == CUDA_SUCCESS)
        ledger_settle_orphans(&p->state.ledger, (unsigned)device, total - free);
}

/* ---- small blocks ---------------------------------------------------------------------------------------------------------
 * Drivers put blocks of one size into granules of that size. As many granules may be in use as the most blocks ever needed, but never
 * more than there are blocks; that bound is charged. Classes are powers of two and half steps from 512 bytes on. */

static unsigned class_of(uint64_t bytes)
{
    if (bytes <= 512)
        return 0;
    unsigned twice = 63 - (unsigned)__builtin_clzll((bytes - 1) >> 9);
    return 2 * twice + (bytes <= UINT64_C(768) << twice ? 1 : 2);
}

static uint32_t blocks_of(unsigned class) { return (class % 2 ? 2730u : 4096u) >> class / 2; }

static bool small_make(struct process *p, const struct driver *d, int device, unsigned class)
{
    struct small *of = &p->state.small[device][class];
    bool owner = pools_enter(p), grows = ++of->live > of->room;
    if (__builtin_expect(grows, 0)) {
        of->granules++;
        of->room += blocks_of(class);
    }
    pools_leave(p, owner);
    if (__builtin_expect(!grows, 1) || charge(p, d, device, CHARGE_DATA, GRANULE))
        return true;
    owner = pools_enter(p);
    of->live--;
    of->granules--;
    of->room -= blocks_of(class);
    pools_leave(p, owner);
    return false;
}

static void small_gone(struct process *p, int device, unsigned class)
{
    struct small *of = &p->state.small[device][class];
    bool owner = pools_enter(p), shrinks = --of->live < of->granules;
    if (__builtin_expect(shrinks, 0)) {
        of->granules--;
        of->room -= blocks_of(class);
    }
    pools_leave(p, owner);
    if (__builtin_expect(shrinks, 0))
        uncharge(p, device, CHARGE_DATA, GRANULE);
}

/* ---- blocks --------------------------------------------------------------------------------------------------------------- */

bool claim_make(struct process *p, const struct driver *d, uint64_t bytes, struct claim *c)
{
    c->bytes = 0;
    if (bytes <= LARGEST_SHARED) {
        c->kind = HELD_SMALL;
        c->size_class = (uint8_t)class_of(bytes);
        return small_make(p, d, c->at.device, c->size_class);
    }
    c->kind = HELD_BLOCK;
    c->size_class = 0;
    c->bytes = granules(bytes);
    return charge(p, d, c->at.device, CHARGE_DATA, c->bytes);
}

void claim_drop(struct process *p, const struct claim *c)
{
    if (c->kind == HELD_SMALL)
        small_gone(p, c->at.device, c->size_class);
    else
        uncharge(p, c->at.device, CHARGE_DATA, c->bytes);
}

bool claim_enter(struct process *p, const struct claim *c, enum family family, uint64_t key)
{
    struct holding h = {.bytes = c->bytes, .context = (uint64_t)(uintptr_t)c->at.context, .extra = c->size_class,
        .device = (uint8_t)c->at.device, .kind = c->kind};
    if (pointers_put(&p->pointers, family, key, &h))
        return true;
    claim_drop(p, c);
    return false;
}

void holding_gone(struct process *p, enum family family, const struct holding *h)
{
    enum charge kind = family == FAMILY_CONTEXT ? CHARGE_CONTEXT : family == FAMILY_CODE ? CHARGE_MODULE : CHARGE_DATA;
    switch ((enum held)h->kind) {
    case HELD_SMALL: small_gone(p, h->device, (unsigned)h->extra); break;
    case HELD_STREAM: pool_block_gone(p, h); break;
    case HELD_BLOCK: case HELD_IMPORT: uncharge(p, h->device, kind, h->bytes); break;
    case HELD_SHARED: ledger_share_leave(&p->state.ledger, h->device, (int)(family == FAMILY_PHYSICAL ? h->context : h->extra) - 1); break;
    case HELD_OWED: ledger_forgive(&p->state.ledger, h->device, h->bytes); break;
    case HELD_PART: case HELD_NOTHING: break;
    }
}

struct end { struct process *p; uint64_t parts[64]; unsigned count; };

static void gone_with_it(void *who, enum family family, uint64_t key, const struct holding *h)
{
    struct end *e = who;
    if (h->kind == HELD_PART && e->count < sizeof e->parts / sizeof *e->parts)
        e->parts[e->count++] = key;
    holding_gone(e->p, family, h);
}

void holdings_end_context(struct process *p, uint64_t context)
{
    struct end e = {.p = p};
    place_forget();
    pointers_drop(&p->pointers, context, gone_with_it, &e);
    for (unsigned i = 0; i < e.count; i++)
        pointers_drop(&p->pointers, e.parts[i], gone_with_it, &e);
}

void holdings_end_code(struct process *p, uint64_t whole)
{
    pointers_drop_code(&p->pointers, whole, gone_with_it, &(struct end){.p = p});
}
