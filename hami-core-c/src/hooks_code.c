/* Code: what it takes shows only in the card's own number; when it is loaded, and for libraries when a context first uses them. */
#include "hooks.h"
#include "holdings.h"
#include "sampler.h"

#define COMMON (UINT64_C(32) << 20)     /* code seldom takes more; then the driver is asked what this process has */

struct look { struct place at; size_t before; };

static bool look_before(struct process *p, const struct driver *d, struct look *out)
{
    size_t total;
    return d->cuMemGetInfo_v2 && place_now(p, d, &out->at) && d->cuMemGetInfo_v2(&out->before, &total) == CUDA_SUCCESS;
}

/* By how much code has grown since. Others may have taken memory of the card at the same time: a large part is ours only as far as the
 * driver counts more for this process than it was charged for. */
static uint64_t look_after(struct process *p, const struct driver *d, const struct look *look)
{
    size_t after, total;
    if (d->cuMemGetInfo_v2(&after, &total) != CUDA_SUCCESS || after >= look->before)
        return 0;
    uint64_t grown = granules(look->before - after);
    int64_t own = grown > COMMON ? sampler_own_used(p, (unsigned)look->at.device) : -1;
    if (own <= 0)                   /* it tells nobody's, or not ours */
        return grown;
    uint64_t charged = atomic_load_explicit(&p->state.region->slots[p->state.ledger.slot].used[look->at.device].total, memory_order_relaxed);
    uint64_t more = (uint64_t)own > charged ? granules((uint64_t)own - charged) : 0;
    return more < grown ? more : grown;
}

/* Number of what a library, or a module of which functions are loaded one by one, takes in a context; no pointer has these bits. */
static uint64_t use_key(const void *whole, const struct place *at, enum held kind)
{
    uint64_t x = (uint64_t)(uintptr_t)whole * UINT64_C(0x9e3779b97f4a7c15) ^ (uint64_t)(uintptr_t)at->context * UINT64_C(0xd6e8feb86659fd93);
    return (x ^ x >> 29 ^ kind) | UINT64_C(1) << 59;
}

static bool use_enter(struct process *p, const struct place *at, const void *whole, uint64_t bytes, enum held kind)
{
    uint64_t key = use_key(whole, at, kind);
    struct holding h;
    if (!pointers_take(&p->pointers, FAMILY_CODE, key, &h))
        h = (struct holding){.context = (uint64_t)(uintptr_t)at->context, .extra = (uint64_t)(uintptr_t)whole, .device = (uint8_t)at->device,
            .kind = (uint8_t)kind};
    h.bytes += bytes;
    return pointers_put(&p->pointers, FAMILY_CODE, key, &h);
}

/* A library cannot be taken out of one context again. What is loaded and does not fit is owed; until it is paid, no more is loaded. */
static bool owes(struct process *p, const struct driver *d, int device)
{
    struct ledger *l = &p->state.ledger;
    uint64_t limit = p->state.rules[device].memory;
    if (!atomic_load_explicit(&l->debt[device], memory_order_relaxed))
        return false;
    if (ledger_reserve(l, (unsigned)device, CHARGE_MODULE, 0, limit) == VERDICT_DONE)
        return false;
    pools_trim(p, d, device);
    return ledger_reserve(l, (unsigned)device, CHARGE_MODULE, 0, limit) != VERDICT_DONE;
}

static CUresult used(struct process *p, const struct driver *d, const struct look *look, const void *whole)
{
    const struct place *at = &look->at;
    uint64_t bytes = look_after(p, d, look);
    if (charge(p, d, at->device, CHARGE_MODULE, bytes)) {
        if (!use_enter(p, at, whole, bytes, HELD_BLOCK))
            uncharge(p, at->device, CHARGE_MODULE, bytes);
        return CUDA_SUCCESS;
    }
    ledger_owe(&p->state.ledger, (unsigned)at->device, bytes);
    use_enter(p, at, whole, bytes, HELD_OWED);
    return CUDA_ERROR_OUT_OF_MEMORY;
}

/* ---- what is loaded at once ------------------------------------------------------------------------------------------------ */

#define LOAD(out, call, unload)                                                                 \
    GATE(p, next, call)                                                                         \
    struct look look;                                                                           \
    if (!(out) || !look_before(p, next, &look))                                                 \
        return call;                                                                            \
    CUresult status = call;                                                                     \
    uint64_t bytes = status == CUDA_SUCCESS ? look_after(p, next, &look) : 0;                   \
    if (!bytes)                                                                                 \
        return status;                                                                          \
    struct holding h = {.bytes = bytes, .context = (uint64_t)(uintptr_t)look.at.context, .device = (uint8_t)look.at.device, \
        .kind = HELD_BLOCK};                                                                    \
    if (!charge(p, next, look.at.device, CHARGE_MODULE, h.bytes)) {                             \
        next->unload(*(out));                                                                   \
        return CUDA_ERROR_OUT_OF_MEMORY;                                                        \
    }                                                                                           \
    if (!pointers_put(&p->pointers, FAMILY_CODE, (uint64_t)(uintptr_t)*(out), &h))              \
        uncharge(p, look.at.device, CHARGE_MODULE, h.bytes);                                    \
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

/* ---- what is loaded when it is first used ----------------------------------------------------------------------------------- */

/* Once: a context that has used a library has all of it, or gets the rest function by function. */
enum often { ONCE, EACH_TIME };

#define USES(whole, often, call)                                                                \
    GATE(p, next, call)                                                                         \
    struct look look;                                                                           \
    struct holding h;                                                                           \
    if (!place_now(p, next, &look.at))                                                          \
        return call;                                                                            \
    if (owes(p, next, look.at.device))                                                          \
        return CUDA_ERROR_OUT_OF_MEMORY;                                                        \
    if (often == ONCE && pointers_get(&p->pointers, FAMILY_CODE, use_key(whole, &look.at, HELD_BLOCK), &h)) \
        return call;                                                                            \
    if (!look_before(p, next, &look))                                                           \
        return call;                                                                            \
    CUresult status = call;                                                                     \
    return status == CUDA_SUCCESS ? used(p, next, &look, whole) : status;

CUresult hook_cuLibraryGetModule(const struct driver *next, CUmodule *pMod, CUlibrary library)
{
    USES(library, ONCE, next->cuLibraryGetModule(pMod, library))
}

CUresult hook_cuLibraryGetKernel(const struct driver *next, CUkernel *pKernel, CUlibrary library, const char *name)
{
    USES(library, ONCE, next->cuLibraryGetKernel(pKernel, library, name))
}

CUresult hook_cuLibraryGetKernelCount(const struct driver *next, unsigned int *count, CUlibrary lib)
{
    USES(lib, ONCE, next->cuLibraryGetKernelCount(count, lib))
}

CUresult hook_cuLibraryEnumerateKernels(const struct driver *next, CUkernel *kernels, unsigned int numKernels, CUlibrary lib)
{
    USES(lib, ONCE, next->cuLibraryEnumerateKernels(kernels, numKernels, lib))
}

CUresult hook_cuLibraryGetGlobal(const struct driver *next, CUdeviceptr *dptr, size_t *bytes, CUlibrary library, const char *name)
{
    USES(library, ONCE, next->cuLibraryGetGlobal(dptr, bytes, library, name))
}

CUresult hook_cuLibraryGetManaged(const struct driver *next, CUdeviceptr *dptr, size_t *bytes, CUlibrary library, const char *name)
{
    USES(library, ONCE, next->cuLibraryGetManaged(dptr, bytes, library, name))
}

CUresult hook_cuLibraryGetUnifiedFunction(const struct driver *next, void **fptr, CUlibrary library, const char *symbol)
{
    USES(library, ONCE, next->cuLibraryGetUnifiedFunction(fptr, library, symbol))
}

static const void *library_of(const struct driver *d, CUkernel kernel)
{
    CUlibrary library;
    return d->cuKernelGetLibrary && d->cuKernelGetLibrary(&library, kernel) == CUDA_SUCCESS ? (const void *)library : (const void *)kernel;
}

CUresult hook_cuKernelGetFunction(const struct driver *next, CUfunction *pFunc, CUkernel kernel)
{
    USES(library_of(next, kernel), EACH_TIME, next->cuKernelGetFunction(pFunc, kernel))
}

static const void *module_of(const struct driver *d, CUfunction function)
{
    CUmodule module;
    return d->cuFuncGetModule && d->cuFuncGetModule(&module, function) == CUDA_SUCCESS ? (const void *)module : (const void *)function;
}

CUresult hook_cuFuncLoad(const struct driver *next, CUfunction function)
{
    USES(module_of(next, function), EACH_TIME, next->cuFuncLoad(function))
}

/* ---- what is gone ----------------------------------------------------------------------------------------------------------- */

static CUresult code_gone(struct process *p, uint64_t key, bool ours, const struct holding *h, CUresult status)
{
    if (ours && status == CUDA_SUCCESS)
        holding_gone(p, FAMILY_CODE, h);
    if (status == CUDA_SUCCESS)
        holdings_end_code(p, key);
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
