#include "symbols.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <string.h>

#include "object.h"
#include "process.h"

static const char *const hook_names[HOOKS] = {
#define HOOK(status, name, params, args) #name,
#define HOOK0(status, name) #name,
#define NVHOOK(name, params, args) #name,
#include "hooks.def"
#include "nvml.def"
#undef HOOK
#undef HOOK0
#undef NVHOOK
};

/* Names in the order of struct driver and struct nvml. */
static const char *const driver_names[] = {
#define HOOK(status, name, params, args) #name,
#define HOOK0(status, name) #name,
#define CALL(status, name, params) #name,
#include "hooks.def"
#include "calls.def"
#undef HOOK
#undef HOOK0
#undef CALL
};
static const char *const nvml_names[] = {
#define NVHOOK(name, params, args) #name,
#define NVCALL(name, params) #name,
#include "nvml.def"
#include "nvml_calls.def"
#undef NVHOOK
#undef NVCALL
};
#define COUNT(array) (sizeof(array) / sizeof *(array))
_Static_assert(sizeof(struct driver) == COUNT(driver_names) * sizeof(void *), "a table is an array of pointers");
_Static_assert(sizeof(struct nvml) == COUNT(nvml_names) * sizeof(void *), "a table is an array of pointers");

static const int introduced[HOOKS] = {
#define INTRODUCED(name, version) [HOOK_##name] = version,
#include "versions.def"
#undef INTRODUCED
};

#define ADDRESSES 512u
struct table {
    struct object object;
    union {
        struct driver driver;
        struct nvml nvml;
        void *real[COUNT(driver_names)];
    };
    _Atomic uint16_t by_address[ADDRESSES];     /* hook + 1 */
};
enum library { DRIVER, MANAGEMENT };
static struct table tables[2][OBJECTS];         /* by library; filled once, then never changed */
static _Atomic unsigned filled[2];
static _Atomic unsigned long passed_through;
static const char *const sonames[2] = {"libcuda.so", "libnvidia-ml.so"};

/* ---- the C library's own functions ------------------------------------------------------------------------------------- */

#define FROM_LIBC(result, name, params, args)                                                   \
    static EARLY result (*libc_##name##_function(void)) params                                  \
    {                                                                                           \
        static _Atomic(void *) known;                                                           \
        void *f = atomic_load_explicit(&known, memory_order_relaxed);                           \
        if (!f)                                                                                 \
            atomic_store_explicit(&known, f = libc_symbol(#name), memory_order_relaxed);        \
        return (result(*) params)f;                                                             \
    }
FROM_LIBC(void *, dlsym, (void *, const char *), )
FROM_LIBC(void *, dlvsym, (void *, const char *, const char *), )
FROM_LIBC(void *, dlopen, (const char *, int), )
FROM_LIBC(int, dlclose, (void *), )
FROM_LIBC(char *, dlerror, (void), )

void *scope_symbol(const char *name)
{
    void *found = libc_dlsym_function() ? libc_dlsym_function()(RTLD_DEFAULT, name) : NULL;
    if (!found && libc_dlerror_function())
        libc_dlerror_function()();
    return found ? found : libc_symbol(name);
}

/* ---- names -------------------------------------------------------------------------------------------------------------- */

static EARLY uint32_t hash_name(const char *name)
{
    uint32_t h = 2166136261u;
    for (; *name; name++)
        h = (h ^ (unsigned char)*name) * 16777619u;
    return h ^ h >> 15;
}

#define NAMES 1024u
static _Atomic uint16_t by_name[NAMES];         /* hook + 1; written alike by whoever comes first */
static _Atomic bool names_known;

static EARLY int hook_named(const char *name)
{
    if (!(name[0] == 'c' && name[1] == 'u') && !(name[0] == 'n' && name[1] == 'v' && name[2] == 'm' && name[3] == 'l'))
        return -1;
    if (!atomic_load_explicit(&names_known, memory_order_acquire)) {
        uint16_t fresh[NAMES] = {0};
        for (unsigned i = 0; i < HOOKS; i++) {
            uint32_t at = hash_name(hook_names[i]);
            while (fresh[at % NAMES])
                at++;
            fresh[at % NAMES] = (uint16_t)(i + 1);
        }
        for (unsigned i = 0; i < NAMES; i++)
            atomic_store_explicit(&by_name[i], fresh[i], memory_order_relaxed);
        atomic_store_explicit(&names_known, true, memory_order_release);
    }
    for (uint32_t at = hash_name(name);; at++) {
        uint16_t i = atomic_load_explicit(&by_name[at % NAMES], memory_order_relaxed);
        if (!i)
            return -1;
        if (same_text(hook_names[i - 1], name))
            return i - 1;
    }
}

/* ---- tables ------------------------------------------------------------------------------------------------------------- */

static uint32_t hash_address(const void *address)
{
    return (uint32_t)(((uintptr_t)address >> 2) * UINT64_C(0x9e3779b97f4a7c15) >> 40);
}

static int hook_at(const struct table *t, const void *address)
{
    for (uint32_t at = hash_address(address);; at++) {
        uint16_t i = atomic_load_explicit(&t->by_address[at % ADDRESSES], memory_order_relaxed);
        if (!i)
            return -1;
        unsigned hook = i - 1u;
        if (t->real[hook < DRIVER_HOOKS ? hook : hook - DRIVER_HOOKS] == address)
            return (int)hook;
    }
}

static void fill(struct table *t, enum library which, const struct object *object)
{
    const char *const *names = which == DRIVER ? driver_names : nvml_names;
    unsigned count = which == DRIVER ? COUNT(driver_names) : COUNT(nvml_names);
    unsigned hooks = which == DRIVER ? DRIVER_HOOKS : HOOKS - DRIVER_HOOKS;
    memset(t, 0, sizeof *t);
    t->object = *object;
    for (unsigned i = 0; i < count; i++) {
        t->real[i] = object_symbol(object, names[i]);
        if (!t->real[i] || i >= hooks || hook_at(t, t->real[i]) >= 0)
            continue;
        uint32_t at = hash_address(t->real[i]);
        while (atomic_load_explicit(&t->by_address[at % ADDRESSES], memory_order_relaxed))
            at++;
        uint16_t hook = (uint16_t)((which == DRIVER ? i : i + DRIVER_HOOKS) + 1);
        atomic_store_explicit(&t->by_address[at % ADDRESSES], hook, memory_order_relaxed);
    }
}

static const struct table *known_table(enum library which, const void *address)
{
    unsigned n = atomic_load_explicit(&filled[which], memory_order_acquire);
    for (unsigned i = 0; i < n; i++)
        if ((uintptr_t)address >= tables[which][i].object.low && (uintptr_t)address < tables[which][i].object.high)
            return &tables[which][i];
    return NULL;
}

/* The table of the driver that holds an address, made where it is new; NULL: the address is no driver's. */
static const struct table *table_of(enum library which, const void *address)
{
    const struct table *known = known_table(which, address);
    if (known)
        return known;
    struct object o;
    if (!object_at(address, &o) || !o.soname || !begins_with(o.soname, sonames[which]))
        return NULL;
    struct process *p = process();
    if (!p)
        return NULL;
    latch_take(&p->tables);
    known = known_table(which, address);
    unsigned n = atomic_load_explicit(&filled[which], memory_order_acquire);
    if (!known && n < OBJECTS) {
        fill(&tables[which][n], which, &o);
        atomic_store_explicit(&filled[which], n + 1, memory_order_release);
        known = &tables[which][n];
    } else if (!known) {
        atomic_fetch_add_explicit(&passed_through, 1, memory_order_relaxed);
    }
    latch_leave(&p->tables);
    return known;
}

static const struct table *exported_table(enum library which, enum hook name)
{
    static _Atomic(const struct table *) exported[2];
    const struct table *t = atomic_load_explicit(&exported[which], memory_order_acquire);
    if (__builtin_expect(t != NULL, 1))
        return t;
    void *next = libc_dlsym_function() ? libc_dlsym_function()(RTLD_NEXT, hook_names[name]) : NULL;
    if (!next && libc_dlerror_function())
        libc_dlerror_function()();              /* our search is none of the program's business */
    t = next ? table_of(which, next) : NULL;
    struct object o;
    if (!t && object_called(sonames[which], &o))        /* only in the scope of a plugin that links it */
        t = table_of(which, (const void *)o.low);
    if (t)
        atomic_store_explicit(&exported[which], t, memory_order_release);
    return t;
}

_Atomic(const struct driver *) exported_driver_known;

const struct driver *exported_driver_find(enum hook name)
{
    const struct table *t = exported_table(DRIVER, name);
    if (!t)
        return NULL;
    atomic_store_explicit(&exported_driver_known, &t->driver, memory_order_release);
    return &t->driver;
}

const struct nvml *exported_nvml(enum hook name)
{
    const struct table *t = exported_table(MANAGEMENT, name);
    return t ? &t->nvml : NULL;
}

const struct driver *driver_number(unsigned object) { return &tables[DRIVER][object].driver; }
const struct nvml *nvml_number(unsigned object) { return &tables[MANAGEMENT][object].nvml; }
unsigned long symbols_passed_through(void) { return atomic_load(&passed_through); }

const struct driver *any_driver(void)
{
    return atomic_load_explicit(&filled[DRIVER], memory_order_acquire) ? &tables[DRIVER][0].driver : NULL;
}

const struct nvml *loaded_nvml(void)
{
    struct object o;
    if (!atomic_load_explicit(&filled[MANAGEMENT], memory_order_acquire) && object_called(sonames[MANAGEMENT], &o))
        table_of(MANAGEMENT, (const void *)o.low);
    return atomic_load_explicit(&filled[MANAGEMENT], memory_order_acquire) ? &tables[MANAGEMENT][0].nvml : NULL;
}

static void *stand_in(enum library which, const struct table *t, int hook)
{
    return stand_ins[t - tables[which]][hook];
}

/* ---- cuGetProcAddress ---------------------------------------------------------------------------------------------------- */

/* Length of the name without _vN and stream suffix. */
static size_t base_length(const char *name, bool *per_thread)
{
    size_t n = strlen(name);
    *per_thread = n > 5 && (strcmp(name + n - 5, "_ptsz") == 0 || strcmp(name + n - 5, "_ptds") == 0);
    if (*per_thread)
        n -= 5;
    if (n > 3 && name[n - 3] == '_' && name[n - 2] == 'v' && name[n - 1] >= '2' && name[n - 1] <= '9')
        n -= 3;
    return n;
}

/* A driver may answer with an address that it exports under no name. Then the versions decide which function it must be. */
static int hook_asked_for(const struct table *t, const char *symbol, int version, cuuint64_t flags)
{
    int best = -1;
    size_t length = strlen(symbol);
    bool best_per_thread = false;
    for (unsigned i = 0; i < DRIVER_HOOKS; i++) {
        bool per_thread;
        if (strncmp(hook_names[i], symbol, length) != 0 || base_length(hook_names[i], &per_thread) != length || !t->real[i])
            continue;               /* most names differ in their first letters */
        if (introduced[i] > version || (per_thread && !(flags & 2)))
            continue;
        bool newer = best < 0 || (per_thread == best_per_thread && introduced[i] > introduced[best]);
        if (newer || (per_thread && !best_per_thread)) {
            best = (int)i;
            best_per_thread = per_thread;
        }
    }
    return best;
}

void *diverted(const struct driver *asked, void *answer, const char *symbol, int version, cuuint64_t flags)
{
    const struct table *t = (const struct table *)((const char *)asked - offsetof(struct table, driver));
    int hook = hook_at(t, answer);
    if (hook >= 0)
        return stand_in(DRIVER, t, hook);
    const struct table *other = table_of(DRIVER, answer);
    if (other && other != t && (hook = hook_at(other, answer)) >= 0)
        return stand_in(DRIVER, other, hook);
    if (symbol && (hook = hook_asked_for(t, symbol, version, flags)) >= 0) {
        struct object self, at;
        bool ours = object_at((const void *)&diverted, &self) && object_at(answer, &at) && at.low == self.low;
        return ours ? answer : stand_in(DRIVER, t, hook);
    }
    return answer;
}

/* ---- dlsym and dlvsym ---------------------------------------------------------------------------------------------------- */

struct answer {
    uintptr_t answered;             /* 1: value is the answer; 0: jump there, nothing has happened */
    void *value;
};

static EARLY bool ours(const void *address)
{
    static _Atomic uintptr_t low, high;
    if (!atomic_load_explicit(&high, memory_order_acquire)) {
        struct object self;
        if (!object_at((const void *)&ours, &self))
            return false;
        atomic_store_explicit(&low, self.low, memory_order_relaxed);
        atomic_store_explicit(&high, self.high, memory_order_release);
    }
    return (uintptr_t)address >= atomic_load_explicit(&low, memory_order_relaxed) &&
        (uintptr_t)address < atomic_load_explicit(&high, memory_order_relaxed);
}

static void *look(void *handle, const char *name, const char *version)
{
    if (version)
        return libc_dlvsym_function() ? libc_dlvsym_function()(handle, name, version) : NULL;
    return libc_dlsym_function() ? libc_dlsym_function()(handle, name) : NULL;
}

static void *look_from(const struct object *caller, const char *name, const char *version)
{
    if (!caller->path || !caller->path[0] || !libc_dlopen_function())
        return NULL;
    void *handle = libc_dlopen_function()(caller->path, RTLD_LAZY | RTLD_NOLOAD);
    if (!handle)
        return NULL;
    void *found = look(handle, name, version);
    libc_dlclose_function()(handle);
    return found;
}

/* What the program would have been told without us. Sets *pass where the C library must answer by itself. */
static void *true_answer(void *handle, const char *name, const char *version, const void *caller, bool *pass)
{
    struct object at, found_in;
    if (handle == RTLD_NEXT) {
        void *found = object_next(caller, name, &found_in), *after_us = look(RTLD_NEXT, name, version);
        if (found && ours(found))
            return after_us;
        if (found && found != after_us && (!object_at(caller, &at) || look_from(&at, name, version) != found))
            *pass = true;                       /* loaded, but not where this caller would look */
        if (!found)
            *pass = true;
        return found;
    }
    if (handle == RTLD_DEFAULT) {
        void *all = libc_dlopen_function() ? libc_dlopen_function()(NULL, RTLD_LAZY) : NULL;
        void *found = all ? look(all, name, version) : NULL;
        if (all)
            libc_dlclose_function()(all);
        if (found && !ours(found))
            return found;
        found = look(RTLD_NEXT, name, version);
        if (!found && object_at(caller, &at))
            found = look_from(&at, name, version);
        return found ? found : look(RTLD_NEXT, name, version);      /* leaves the C library's message */
    }
    void *found = look(handle, name, version);
    return found && ours(found) ? look(RTLD_NEXT, name, version) : found;
}

static EARLY struct answer answer(void *handle, const char *name, const char *version, const void *caller, void *real)
{
    int hook = name ? hook_named(name) : -1;
    if (hook < 0 || !real)
        return (struct answer){real == NULL, real};
    bool pass = false;
    void *found = true_answer(handle, name, version, caller, &pass);
    if (pass)
        return (struct answer){0, real};
    enum library which = hook < (int)DRIVER_HOOKS ? DRIVER : MANAGEMENT;
    const struct table *t = found ? table_of(which, found) : NULL;
    if (found && libc_dlerror_function())
        libc_dlerror_function()();              /* a search that failed on the way is not the program's error */
    if (!t || ours(found))
        return (struct answer){1, found};
    return (struct answer){1, stand_in(which, t, hook)};
}

__attribute__((visibility("hidden"))) EARLY struct answer symbols_answer(void *handle, const char *name, const void *caller)
{
    return answer(handle, name, NULL, caller, (void *)libc_dlsym_function());
}

__attribute__((visibility("hidden"))) EARLY struct answer symbols_answer_versioned(void *handle, const char *name, const char *version,
                                                                             const void *caller)
{
    return answer(handle, name, version, caller, (void *)libc_dlvsym_function());
}
