#include "holdings.h"

#include "say.h"

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
        say(SAY_ERROR, "Device %d OOM %llu / %llu", device, (unsigned long long)(ledger_used(&s->ledger, (unsigned)device) + bytes),
            (unsigned long long)limit);
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
    unsigned class = 0;
    for (uint64_t size = 512; size < bytes; class++)
        size = class % 2 ? size / 3 * 4 : size / 2 * 3;
    return class;
}

static uint32_t blocks_of(unsigned class)
{
    uint64_t size = UINT64_C(512) << class / 2;
    return (uint32_t)(GRANULE / (class % 2 ? size / 2 * 3 : size));
}

static bool small_make(struct process *p, const struct driver *d, int device, unsigned class)
{
    latch_take(&p->pools);
    uint32_t *live = &p->state.small[device][class].live, *granules_now = &p->state.small[device][class].granules;
    bool grows = ++*live > *granules_now * blocks_of(class);
    *granules_now += grows;
    latch_leave(&p->pools);
    if (!grows || charge(p, d, device, CHARGE_DATA, GRANULE))
        return true;
    latch_take(&p->pools);
    --*live;
    --*granules_now;
    latch_leave(&p->pools);
    return false;
}

static void small_gone(struct process *p, int device, unsigned class)
{
    latch_take(&p->pools);
    uint32_t *live = &p->state.small[device][class].live, *granules_now = &p->state.small[device][class].granules;
    bool shrinks = --*live < *granules_now;
    *granules_now -= shrinks;
    latch_leave(&p->pools);
    if (shrinks)
        uncharge(p, device, CHARGE_DATA, GRANULE);
}

/* ---- blocks --------------------------------------------------------------------------------------------------------------- */

bool claim_make(struct process *p, const struct driver *d, const struct place *at, uint64_t bytes, struct claim *out)
{
    *out = (struct claim){.at = *at, .kind = bytes <= LARGEST_SHARED ? HELD_SMALL : HELD_BLOCK};
    if (out->kind == HELD_SMALL) {
        out->size_class = (uint8_t)class_of(bytes);
        return small_make(p, d, at->device, out->size_class);
    }
    out->bytes = granules(bytes);
    return charge(p, d, at->device, CHARGE_DATA, out->bytes);
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
    case HELD_NOTHING: break;
    }
}

static void gone_with_context(void *who, enum family family, uint64_t key, const struct holding *h)
{
    (void)key;
    holding_gone(who, family, h);
}

void holdings_end_context(struct process *p, uint64_t context)
{
    place_forget();
    pointers_drop(&p->pointers, context, gone_with_context, p);
}
