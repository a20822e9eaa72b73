/* Contexts: what they cost is reserved before they exist, and what lives in them is given up when they end. */
#include <time.h>

#include "hooks.h"
#include "holdings.h"
#include "sampler.h"

/* ---- what a context costs ---------------------------------------------------------------------------------------------------
 * The limits file tells, or the container's first context shows: it is made under a reservation that is larger than any context we
 * know, or all that is left, and the reservation becomes what the driver's own numbers have grown by. While one process looks, the
 * others wait; later ones reserve what was seen. Only where less is left than a context takes does the first one go over the limit,
 * for as long as it takes to end it again. */

#define GUESS (UINT64_C(768) << 20)
#define LEAST (UINT64_C(32) << 20)      /* no context is smaller */
#define BELIEVED (UINT64_C(2) << 30)    /* more than that was somebody else's */
#define LOOKED_AT (UINT64_C(1) << 63)   /* in place of the cost: somebody looks until the time in the other bits, milliseconds */
#define LOOK_MS 5000

struct cost { uint64_t bytes, mark, card; int64_t own; };   /* bytes: reserved; mark: ours while we look, else 0 */

static uint64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

/* What a context costs here; 0: nobody knows, and it is on us to see. */
static uint64_t cost_known(struct process *p, int device, uint64_t *mark)
{
    _Atomic uint64_t *word = &p->state.extension->devices[device].context_bytes;
    for (;;) {
        uint64_t now = now_ms(), seen = atomic_load_explicit(word, memory_order_acquire), until = seen & ~LOOKED_AT;
        if (seen && !(seen & LOOKED_AT))
            return granules(seen < BELIEVED ? seen : BELIEVED);
        if (seen && until > now && until <= now + LOOK_MS) {
            nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
            continue;
        }
        *mark = LOOKED_AT | (now + LOOK_MS);
        if (atomic_compare_exchange_strong(word, &seen, *mark))
            return 0;
    }
}

static void cost_told(struct process *p, int device, struct cost *c, uint64_t bytes)
{
    uint64_t mark = c->mark;
    if (mark)
        atomic_compare_exchange_strong(&p->state.extension->devices[device].context_bytes, &mark, bytes);
    c->mark = 0;
}

static bool cost_reserve(struct process *p, const struct driver *next, int device, struct cost *c)
{
    uint64_t limit = p->state.rules[device].memory, told = p->state.rules[device].context;
    *c = (struct cost){.bytes = granules(told)};
    if (!told && limit != NO_LIMIT)
        c->bytes = cost_known(p, device, &c->mark);
    if (!c->mark)
        return charge(p, next, device, CHARGE_CONTEXT, c->bytes);
    for (int i = 0; i < 8; i++) {
        uint64_t used = ledger_used(&p->state.ledger, (unsigned)device), left = used < limit ? (limit - used) & ~(GRANULE - 1) : 0;
        c->bytes = left < LEAST ? LEAST : left < GUESS ? left : GUESS;
        if (i < 7 && ledger_reserve(&p->state.ledger, (unsigned)device, CHARGE_CONTEXT, c->bytes, limit) != VERDICT_DONE)
            continue;
        if (i == 7 && !charge(p, next, device, CHARGE_CONTEXT, c->bytes = LEAST))
            break;
        c->own = sampler_own_used(p, (unsigned)device);
        c->card = sampler_card_used(p, (unsigned)device);
        return true;
    }
    cost_told(p, device, c, 0);
    return false;
}

/* The context was not made after all. */
static void cost_back(struct process *p, int device, struct cost *c)
{
    cost_told(p, device, c, 0);
    uncharge(p, device, CHARGE_CONTEXT, c->bytes);
    c->bytes = 0;
}

/* The context is there. False: it is larger than what is left, and must end; cost_back is next. */
static bool cost_settle(struct process *p, const struct driver *next, int device, struct cost *c)
{
    if (!c->mark)
        return true;
    int64_t own = c->own < 0 ? -1 : sampler_own_used(p, (unsigned)device);
    uint64_t card = own < 0 && c->card ? sampler_card_used(p, (unsigned)device) : 0;
    uint64_t seen = own > c->own ? granules((uint64_t)(own - c->own)) : card > c->card ? granules(card - c->card) : 0;
    if (seen < GRANULE || seen > BELIEVED) {
        cost_told(p, device, c, 0);
        return true;                    /* what was reserved stays */
    }
    cost_told(p, device, c, seen);
    if (seen > c->bytes) {
        if (!charge(p, next, device, CHARGE_CONTEXT, seen - c->bytes))
            return false;
    } else {
        uncharge(p, device, CHARGE_CONTEXT, c->bytes - seen);
    }
    c->bytes = seen;
    return true;
}

/* ---- the primary context -------------------------------------------------------------------------------------------------- */

/* True: this call pays for it. *refused: it cannot be paid. */
static bool primary_pay(struct process *p, const struct driver *next, int device, bool *refused, struct cost *cost)
{
    uint32_t unpaid = 0;
    *refused = false;
    if (!atomic_compare_exchange_strong(&p->state.primary_charged[device], &unpaid, 1))
        return false;
    *refused = !cost_reserve(p, next, device, cost);
    atomic_store(&p->state.primary_bytes[device], *refused ? 0 : cost->bytes);
    if (*refused)
        atomic_store(&p->state.primary_charged[device], 0);
    return !*refused;
}

static void primary_gone(struct process *p, int device)
{
    uint32_t paid = 1;
    if (!atomic_compare_exchange_strong(&p->state.primary_charged[device], &paid, 0))
        return;
    uncharge(p, device, CHARGE_CONTEXT, atomic_exchange(&p->state.primary_bytes[device], 0));
    uint64_t context = atomic_exchange(&p->state.primary[device], 0);
    if (context)
        holdings_end_context(p, context);
}

/* It is there, and this call has paid. False: it must end. */
static bool primary_settle(struct process *p, const struct driver *next, int device, struct cost *cost)
{
    bool fits = cost_settle(p, next, device, cost);
    atomic_store(&p->state.primary_bytes[device], cost->bytes);
    return fits;
}

static void primary_look(struct process *p, const struct driver *next, const struct place *at)
{
    unsigned flags;
    int active = 1;
    if (next->cuDevicePrimaryCtxGetState && next->cuDevicePrimaryCtxGetState(at->ordinal, &flags, &active) == CUDA_SUCCESS && !active)
        primary_gone(p, at->device);
}

CUresult hook_cuDevicePrimaryCtxRetain(const struct driver *next, CUcontext *pctx, CUdevice dev)
{
    GATE(p, next, next->cuDevicePrimaryCtxRetain(pctx, dev))
    struct place at;
    bool refused;
    if (!place_of(p, dev, &at))
        return next->cuDevicePrimaryCtxRetain(pctx, dev);
    struct cost cost;
    bool paid = primary_pay(p, next, at.device, &refused, &cost);
    if (refused)
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult status = next->cuDevicePrimaryCtxRetain(pctx, dev);
    if (status == CUDA_SUCCESS && paid && !primary_settle(p, next, at.device, &cost)) {
        if (next->cuDevicePrimaryCtxRelease_v2)
            next->cuDevicePrimaryCtxRelease_v2(dev);
        else if (next->cuDevicePrimaryCtxRelease)
            next->cuDevicePrimaryCtxRelease(dev);
        status = CUDA_ERROR_OUT_OF_MEMORY;
    } else if (status != CUDA_SUCCESS && paid) {
        cost_told(p, at.device, &cost, 0);
    }
    if (status == CUDA_SUCCESS && pctx)
        atomic_store(&p->state.primary[at.device], (uint64_t)(uintptr_t)*pctx);
    else if (status != CUDA_SUCCESS && paid)
        primary_gone(p, at.device);
    return status;
}

#define PRIMARY_ENDS(name)                                                                      \
    CUresult hook_##name(const struct driver *next, CUdevice dev)                               \
    {                                                                                           \
        GATE(p, next, next->name(dev))                                                          \
        struct place at;                                                                        \
        if (place_of(p, dev, &at))                                                              \
            pacer_forget_context(p, (CUcontext)(uintptr_t)atomic_load(&p->state.primary[at.device])); \
        CUresult status = next->name(dev);                                                      \
        place_changed();                                                                        \
        place_forget();                                                                         \
        if (status == CUDA_SUCCESS && at.device >= 0)                                    \
            primary_look(p, next, &at);                                                         \
        return status;                                                                          \
    }
PRIMARY_ENDS(cuDevicePrimaryCtxRelease)
PRIMARY_ENDS(cuDevicePrimaryCtxRelease_v2)
PRIMARY_ENDS(cuDevicePrimaryCtxReset)
PRIMARY_ENDS(cuDevicePrimaryCtxReset_v2)

/* ---- the current context: a thread that was told one need not ask the driver for it ------------------------------------------
 * Contexts that graphics interfaces make current (cuGLCtxCreate, cuVDPAUCtxCreate) are seen at the thread's next call of these. */

#define CHANGES(name, params, args)                                                             \
    CUresult hook_##name(const struct driver *next, UNWRAP params)                              \
    {                                                                                           \
        CUresult status = next->name args;                                                      \
        place_changed();                                                                        \
        return status;                                                                          \
    }
CHANGES(cuCtxSetCurrent, (CUcontext ctx), (ctx))
CHANGES(cuCtxPushCurrent, (CUcontext ctx), (ctx))
CHANGES(cuCtxPushCurrent_v2, (CUcontext ctx), (ctx))
CHANGES(cuCtxPopCurrent, (CUcontext *pctx), (pctx))
CHANGES(cuCtxPopCurrent_v2, (CUcontext *pctx), (pctx))

CUresult hook_cuGetExportTable(const struct driver *next, const void **ppExportTable, const CUuuid *pExportTableId)
{
    CUresult status = next->cuGetExportTable(ppExportTable, pExportTableId);
    if (status == CUDA_SUCCESS)
        place_ask_always();
    return status;
}

/* ---- contexts of one's own ------------------------------------------------------------------------------------------------ */

#define CREATE(call)                                                                            \
    GATE(p, next, call)                                                                         \
    struct place at;                                                                            \
    if (!place_of(p, dev, &at))                                                                 \
        return call;                                                                            \
    struct cost cost;                                                                           \
    if (!cost_reserve(p, next, at.device, &cost))                                               \
        return CUDA_ERROR_OUT_OF_MEMORY;                                                        \
    CUresult status = call;                                                                     \
    place_changed();                                                                            \
    if (status == CUDA_SUCCESS && pctx && !cost_settle(p, next, at.device, &cost)) {            \
        if (next->cuCtxDestroy_v2)                                                              \
            next->cuCtxDestroy_v2(*pctx);                                                       \
        status = CUDA_ERROR_OUT_OF_MEMORY;                                                      \
    }                                                                                           \
    struct holding h = {.bytes = cost.bytes, .device = (uint8_t)at.device, .kind = HELD_BLOCK}; \
    if (status != CUDA_SUCCESS || !pctx || !pointers_put(&p->pointers, FAMILY_CONTEXT, (uint64_t)(uintptr_t)*pctx, &h)) \
        cost_back(p, at.device, &cost);                                                         \
    return status;

CUresult hook_cuCtxCreate(const struct driver *next, CUcontext *pctx, unsigned int flags, CUdevice dev)
{
    CREATE(next->cuCtxCreate(pctx, flags, dev))
}

CUresult hook_cuCtxCreate_v2(const struct driver *next, CUcontext *pctx, unsigned int flags, CUdevice dev)
{
    CREATE(next->cuCtxCreate_v2(pctx, flags, dev))
}

CUresult hook_cuCtxCreate_v3(const struct driver *next, CUcontext *pctx, CUexecAffinityParam *paramsArray, int numParams, unsigned int flags,
                             CUdevice dev)
{
    CREATE(next->cuCtxCreate_v3(pctx, paramsArray, numParams, flags, dev))
}

CUresult hook_cuCtxCreate_v4(const struct driver *next, CUcontext *pctx, CUctxCreateParams *ctxCreateParams, unsigned int flags, CUdevice dev)
{
    CREATE(next->cuCtxCreate_v4(pctx, ctxCreateParams, flags, dev))
}

#define DESTROY(name)                                                                           \
    CUresult hook_##name(const struct driver *next, CUcontext ctx)                              \
    {                                                                                           \
        GATE(p, next, next->name(ctx))                                                          \
        struct holding h;                                                                       \
        uint64_t key = (uint64_t)(uintptr_t)ctx;                                                \
        bool ours = ctx && pointers_take(&p->pointers, FAMILY_CONTEXT, key, &h);                \
        pacer_forget_context(p, ctx);                                                           \
        CUresult status = next->name(ctx);                                                      \
        place_changed();                                                                        \
        place_forget();                                                                         \
        if (ours && status == CUDA_SUCCESS) {                                                   \
            holding_gone(p, FAMILY_CONTEXT, &h);                                                \
            holdings_end_context(p, key);                                                       \
        } else if (ours) {                                                                      \
            pointers_put(&p->pointers, FAMILY_CONTEXT, key, &h);                                \
        }                                                                                       \
        return status;                                                                          \
    }
DESTROY(cuCtxDestroy)
DESTROY(cuCtxDestroy_v2)
DESTROY(cuCtxDetach)

/* What is allocated in a green context stays when that ends; it goes with the primary one. */
static void part_enter(struct process *p, const struct driver *next, CUgreenCtx green, const struct place *at)
{
    CUcontext part, primary;
    CUresult (*release)(CUdevice) = next->cuDevicePrimaryCtxRelease_v2 ? next->cuDevicePrimaryCtxRelease_v2 : next->cuDevicePrimaryCtxRelease;
    if (!next->cuCtxFromGreenCtx || next->cuCtxFromGreenCtx(&part, green) != CUDA_SUCCESS || !release ||
        !next->cuDevicePrimaryCtxRetain || next->cuDevicePrimaryCtxRetain(&primary, at->ordinal) != CUDA_SUCCESS)
        return;
    release(at->ordinal);
    atomic_store(&p->state.primary[at->device], (uint64_t)(uintptr_t)primary);
    struct holding h = {.context = (uint64_t)(uintptr_t)primary, .device = (uint8_t)at->device, .kind = HELD_PART};
    pointers_put(&p->pointers, FAMILY_CONTEXT, (uint64_t)(uintptr_t)part, &h);
}

/* A green context stands on the primary one and brings it to life. */
CUresult hook_cuGreenCtxCreate(const struct driver *next, CUgreenCtx *phCtx, CUdevResourceDesc desc, CUdevice dev, unsigned int flags)
{
    GATE(p, next, next->cuGreenCtxCreate(phCtx, desc, dev, flags))
    struct place at;
    bool refused;
    if (!place_of(p, dev, &at))
        return next->cuGreenCtxCreate(phCtx, desc, dev, flags);
    struct cost cost;
    bool paid = primary_pay(p, next, at.device, &refused, &cost);
    if (refused)
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult status = next->cuGreenCtxCreate(phCtx, desc, dev, flags);
    if (status == CUDA_SUCCESS && paid && phCtx && !primary_settle(p, next, at.device, &cost)) {
        if (next->cuGreenCtxDestroy)
            next->cuGreenCtxDestroy(*phCtx);
        status = CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (status == CUDA_SUCCESS && phCtx)
        part_enter(p, next, *phCtx, &at);
    if (status != CUDA_SUCCESS && paid) {
        cost_told(p, at.device, &cost, 0);
        primary_look(p, next, &at);
    }
    return status;
}

/* Which device's primary context may have ended with it is told by nobody: those that we were paid for are looked at. */
CUresult hook_cuGreenCtxDestroy(const struct driver *next, CUgreenCtx hCtx)
{
    GATE(p, next, next->cuGreenCtxDestroy(hCtx))
    CUcontext part;
    if (next->cuCtxFromGreenCtx && next->cuCtxFromGreenCtx(&part, hCtx) == CUDA_SUCCESS)
        pacer_forget_context(p, part);
    CUresult status = next->cuGreenCtxDestroy(hCtx);
    place_changed();
    place_forget();
    struct place at;
    for (int ordinal = 0; status == CUDA_SUCCESS && ordinal < ORDINALS; ordinal++)
        if (place_of(p, ordinal, &at) && atomic_load(&p->state.primary_charged[at.device]))
            primary_look(p, next, &at);
    return status;
}

/* ---- limits of a context: heap, stack and printf buffer lie in device memory ---------------------------------------------- */

static uint64_t cost_of_limit(const struct driver *d, CUdevice ordinal, CUlimit limit, uint64_t value)
{
    int sms = 0, threads = 0;
    uint64_t bytes;
    if (limit != LIMIT_STACK)
        return value;
    if (!d->cuDeviceGetAttribute || d->cuDeviceGetAttribute(&sms, ATTRIBUTE_SMS, ordinal) != CUDA_SUCCESS ||
        d->cuDeviceGetAttribute(&threads, ATTRIBUTE_THREADS, ordinal) != CUDA_SUCCESS)
        return value;
    return __builtin_mul_overflow(value, (uint64_t)sms * (uint64_t)threads, &bytes) ? UINT64_MAX : bytes;
}

CUresult hook_cuCtxSetLimit(const struct driver *next, CUlimit limit, size_t value)
{
    GATE(p, next, next->cuCtxSetLimit(limit, value))
    struct place at;
    size_t before = 0;
    if ((limit != LIMIT_STACK && limit != LIMIT_PRINTF && limit != LIMIT_HEAP) || !place_now(p, next, &at) || !next->cuCtxGetLimit ||
        next->cuCtxGetLimit(&before, limit) != CUDA_SUCCESS)
        return next->cuCtxSetLimit(limit, value);
    /* What a fresh context has is part of its own cost; the first look remembers it. */
    uint64_t key = (uint64_t)(uintptr_t)at.context + 1 + limit;
    struct holding h;
    if (!pointers_take(&p->pointers, FAMILY_CONTEXT, key, &h))
        h = (struct holding){.context = (uint64_t)(uintptr_t)at.context, .extra = cost_of_limit(next, at.ordinal, limit, before),
            .device = (uint8_t)at.device, .kind = HELD_BLOCK};
    uint64_t cost = granules(cost_of_limit(next, at.ordinal, limit, value)), base = h.extra & ~(GRANULE - 1);
    uint64_t want = cost > base ? cost - base : 0, more = want > h.bytes ? want - h.bytes : 0;
    if (more && !charge(p, next, at.device, CHARGE_CONTEXT, more)) {
        pointers_put(&p->pointers, FAMILY_CONTEXT, key, &h);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    CUresult status = next->cuCtxSetLimit(limit, value);
    if (status != CUDA_SUCCESS)
        uncharge(p, at.device, CHARGE_CONTEXT, more);
    else {
        if (want < h.bytes)
            uncharge(p, at.device, CHARGE_CONTEXT, h.bytes - want);
        h.bytes = want;
    }
    pointers_put(&p->pointers, FAMILY_CONTEXT, key, &h);
    return status;
}
