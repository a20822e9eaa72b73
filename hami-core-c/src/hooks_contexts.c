/* Contexts: what they cost is reserved before they exist, and what lives in them is given up when they end. */
#include "hooks.h"
#include "holdings.h"
#include "sampler.h"

static uint64_t cost_of(struct process *p, int device)
{
    uint64_t told = p->state.rules[device].context;
    return granules(told ? told : atomic_load_explicit(&p->state.extension->devices[device].context_bytes, memory_order_relaxed) % (UINT64_C(1) << 40));
}

/* Nobody told what a context costs: the first one shows it, by the card's own number; later ones are reserved before they are made.
 * A neighbour that allocates in the same moment is counted in, so what is beyond all reason is not believed. */
#define BELIEVED (UINT64_C(2) << 30)

static bool cost_unknown(struct process *p, int device)
{
    return !p->state.rules[device].context && p->state.rules[device].memory != NO_LIMIT &&
        !atomic_load_explicit(&p->state.extension->devices[device].context_bytes, memory_order_relaxed);
}

static uint64_t cost_seen(struct process *p, int device, uint64_t before)
{
    uint64_t after = before ? sampler_card_used(p, (unsigned)device) : 0, cost = after > before ? granules(after - before) : 0;
    if (!cost || cost > BELIEVED || ledger_reserve(&p->state.ledger, (unsigned)device, CHARGE_CONTEXT, cost, NO_LIMIT) != VERDICT_DONE)
        return 0;
    atomic_store_explicit(&p->state.extension->devices[device].context_bytes, cost, memory_order_relaxed);
    return cost;
}

/* ---- the primary context -------------------------------------------------------------------------------------------------- */

/* True: this call pays for it. *refused: it cannot be paid. */
static bool primary_pay(struct process *p, const struct driver *next, int device, bool *refused)
{
    uint32_t unpaid = 0;
    *refused = false;
    if (!atomic_compare_exchange_strong(&p->state.primary_charged[device], &unpaid, 1))
        return false;
    uint64_t cost = cost_of(p, device);
    *refused = !charge(p, next, device, CHARGE_CONTEXT, cost);
    atomic_store(&p->state.primary_bytes[device], *refused ? 0 : cost);
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
    bool paid = primary_pay(p, next, at.device, &refused);
    if (refused)
        return CUDA_ERROR_OUT_OF_MEMORY;
    uint64_t before = paid && cost_unknown(p, at.device) ? sampler_card_used(p, (unsigned)at.device) : 0;
    CUresult status = next->cuDevicePrimaryCtxRetain(pctx, dev);
    if (status == CUDA_SUCCESS && before)
        atomic_fetch_add(&p->state.primary_bytes[at.device], cost_seen(p, at.device, before));
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

/* ---- the current context: a thread that was told one need not ask the driver for it ------------------------------------------ */

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
    uint64_t cost = cost_of(p, at.device);                                                      \
    if (!charge(p, next, at.device, CHARGE_CONTEXT, cost))                                      \
        return CUDA_ERROR_OUT_OF_MEMORY;                                                        \
    CUresult status = call;                                                                     \
    place_changed();                                                                            \
    struct holding h = {.bytes = cost, .device = (uint8_t)at.device, .kind = HELD_BLOCK};       \
    if (status != CUDA_SUCCESS || !pctx || !pointers_put(&p->pointers, FAMILY_CONTEXT, (uint64_t)(uintptr_t)*pctx, &h)) \
        uncharge(p, at.device, CHARGE_CONTEXT, cost);                                           \
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

/* A green context stands on the primary one and brings it to life. */
CUresult hook_cuGreenCtxCreate(const struct driver *next, CUgreenCtx *phCtx, CUdevResourceDesc desc, CUdevice dev, unsigned int flags)
{
    GATE(p, next, next->cuGreenCtxCreate(phCtx, desc, dev, flags))
    struct place at;
    bool refused;
    if (!place_of(p, dev, &at))
        return next->cuGreenCtxCreate(phCtx, desc, dev, flags);
    bool paid = primary_pay(p, next, at.device, &refused);
    if (refused)
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult status = next->cuGreenCtxCreate(phCtx, desc, dev, flags);
    if (status != CUDA_SUCCESS && paid)
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

/* ---- code: what it takes shows only in the card's own number --------------------------------------------------------------- */

#define LOAD(out, call, unload)                                                                 \
    GATE(p, next, call)                                                                         \
    struct place at;                                                                            \
    size_t before, after, total;                                                                \
    if (!(out) || !next->cuMemGetInfo_v2 || !place_now(p, next, &at) || next->cuMemGetInfo_v2(&before, &total) != CUDA_SUCCESS) \
        return call;                                                                            \
    CUresult status = call;                                                                     \
    if (status != CUDA_SUCCESS || next->cuMemGetInfo_v2(&after, &total) != CUDA_SUCCESS || after >= before) \
        return status;                                                                          \
    struct holding h = {.bytes = granules(before - after), .context = (uint64_t)(uintptr_t)at.context, .device = (uint8_t)at.device, \
        .kind = HELD_BLOCK};                                                                    \
    if (!charge(p, next, at.device, CHARGE_MODULE, h.bytes)) {                                  \
        next->unload(*(out));                                                                   \
        return CUDA_ERROR_OUT_OF_MEMORY;                                                        \
    }                                                                                           \
    if (!pointers_put(&p->pointers, FAMILY_CODE, (uint64_t)(uintptr_t)*(out), &h))              \
        uncharge(p, at.device, CHARGE_MODULE, h.bytes);                                         \
    return status;

CUresult hook_cuModuleLoad(const struct driver *next, CUmodule *module, const char *fname)
{
    LOAD(module, next->cuModuleLoad(module, fname), cuModuleUnload)
}

CUresult hook_cuModuleLoadData(const struct driver *next, CUmodule *module, const void *image)
{
    LOAD(module, next->cuModuleLoadData(module, image), cuModuleUnload)
}

CUresult hook_cuModuleLoadDataEx(const struct driver *next, CUmodule *module, const void *image, unsigned int numOptions, CUjit_option *options,
                                 void **optionValues)
{
    LOAD(module, next->cuModuleLoadDataEx(module, image, numOptions, options, optionValues), cuModuleUnload)
}

CUresult hook_cuModuleLoadFatBinary(const struct driver *next, CUmodule *module, const void *fatCubin)
{
    LOAD(module, next->cuModuleLoadFatBinary(module, fatCubin), cuModuleUnload)
}

CUresult hook_cuLibraryLoadData(const struct driver *next, CUlibrary *library, const void *code, CUjit_option *jitOptions,
                                void **jitOptionsValues, unsigned int numJitOptions, CUlibraryOption *libraryOptions,
                                void **libraryOptionValues, unsigned int numLibraryOptions)
{
    LOAD(library, next->cuLibraryLoadData(library, code, jitOptions, jitOptionsValues, numJitOptions, libraryOptions, libraryOptionValues,
        numLibraryOptions), cuLibraryUnload)
}

CUresult hook_cuLibraryLoadFromFile(const struct driver *next, CUlibrary *library, const char *fileName, CUjit_option *jitOptions,
                                    void **jitOptionsValues, unsigned int numJitOptions, CUlibraryOption *libraryOptions,
                                    void **libraryOptionValues, unsigned int numLibraryOptions)
{
    LOAD(library, next->cuLibraryLoadFromFile(library, fileName, jitOptions, jitOptionsValues, numJitOptions, libraryOptions,
        libraryOptionValues, numLibraryOptions), cuLibraryUnload)
}

static CUresult code_gone(struct process *p, uint64_t key, bool ours, const struct holding *h, CUresult status)
{
    if (ours && status == CUDA_SUCCESS)
        holding_gone(p, FAMILY_CODE, h);
    else if (ours)
        pointers_put(&p->pointers, FAMILY_CODE, key, h);
    return status;
}

CUresult hook_cuModuleUnload(const struct driver *next, CUmodule hmod)
{
    GATE(p, next, next->cuModuleUnload(hmod))
    struct holding h;
    bool ours = pointers_take(&p->pointers, FAMILY_CODE, (uint64_t)(uintptr_t)hmod, &h);
    return code_gone(p, (uint64_t)(uintptr_t)hmod, ours, &h, next->cuModuleUnload(hmod));
}

CUresult hook_cuLibraryUnload(const struct driver *next, CUlibrary library)
{
    GATE(p, next, next->cuLibraryUnload(library))
    struct holding h;
    bool ours = pointers_take(&p->pointers, FAMILY_CODE, (uint64_t)(uintptr_t)library, &h);
    return code_gone(p, (uint64_t)(uintptr_t)library, ours, &h, next->cuLibraryUnload(library));
}
