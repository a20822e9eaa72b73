/* Initialisation, devices, contexts, and the look-up of entry points. */
#include "driver.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct process process = {.slot = -1, .lock = PTHREAD_MUTEX_INITIALIZER, .log = -1};
__thread uint32_t sim_per_thread __attribute__((tls_model("initial-exec")));
static uint32_t shut;
uint32_t *sim_open = &shut;
const uint32_t *sim_watched = &shut;
static uint32_t *alive;         /* a page that is zero again in every child */
static CUresult initialised = CUDA_ERROR_NOT_INITIALIZED;

#define STACK 64
static __thread struct context *stack[STACK] __attribute__((tls_model("initial-exec")));
static __thread unsigned depth __attribute__((tls_model("initial-exec")));

static const struct { CUresult code; const char *name, *text; } told[] = {
#include "cuda_errors.inc"
};

/* ---- gates ---------------------------------------------------------------------------------------------------------- */

void note(const char *format, ...)
{
    if (process.log < 0)
        return;
    char line[512];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(line, sizeof line - 1, format, args);
    va_end(args);
    line[n < (int)sizeof line - 2 ? n : (int)sizeof line - 2] = '\n';
    ssize_t written = write(process.log, line, strcspn(line, "\n") + 1);
    (void)written;
}

/* alive: 0 not initialised here, 1 open, 2 open and every call is looked at for faults */
CUresult sim_closed(unsigned entry, bool anytime)
{
    const char *name = sim_entries[entry].name;
    if (process.state && atomic_load(&process.state->faults_on)) {
        int code = fault_for(process.state, name, process.tag);
        if (code)
            return (CUresult)code;
    }
    note("call %s", name);
    return anytime || *sim_open ? CUDA_SUCCESS : CUDA_ERROR_NOT_INITIALIZED;
}

CUresult sim_refused(unsigned entry)
{
    note("refused %s", sim_entries[entry].name);
    return *sim_open ? CUDA_ERROR_NOT_SUPPORTED : CUDA_ERROR_NOT_INITIALIZED;
}

__attribute__((constructor)) static void on_load(void)
{
    const char *log = secure_getenv("HAMI_SIM_LOG");
    if (log && log[0])
        process.log = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
}

/* ---- objects -------------------------------------------------------------------------------------------------------- */

char *object_base;
size_t object_room;
#define OBJECTS (size_t)(1u << 20)
static size_t object_high;
static uint32_t *object_free;
static size_t object_free_count;
static uint64_t object_number;
static pthread_mutex_t object_lock = PTHREAD_MUTEX_INITIALIZER;

void *object_new(enum object_type type)
{
    pthread_mutex_lock(&object_lock);
    if (!object_base) {
        void *at = mmap(NULL, OBJECTS * OBJECT_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        void *list = mmap(NULL, OBJECTS * sizeof(uint32_t), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (at != MAP_FAILED && list != MAP_FAILED) {
            object_free = list;
            object_room = OBJECTS * OBJECT_BYTES;
            object_base = at;
        }
    }
    struct object *found = NULL;
    if (object_free_count)
        found = (struct object *)(void *)(object_base + (size_t)object_free[--object_free_count] * OBJECT_BYTES);
    else if (object_base && object_high < OBJECTS)
        found = (struct object *)(void *)(object_base + object_high++ * OBJECT_BYTES);
    if (found) {
        memset(found, 0, OBJECT_BYTES);
        found->type = (uint32_t)type;
        found->number = ++object_number;
    }
    pthread_mutex_unlock(&object_lock);
    return found;
}

void object_end(void *object)
{
    pthread_mutex_lock(&object_lock);
    ((struct object *)object)->type = OBJECT_FREE;
    object_free[object_free_count++] = (uint32_t)(((char *)object - object_base) / OBJECT_BYTES);
    pthread_mutex_unlock(&object_lock);
}

void *object_after(const void *from, enum object_type type)
{
    size_t at = from ? ((size_t)((const char *)from - object_base) / OBJECT_BYTES) + 1 : 0;
    for (; at < object_high; at++) {
        struct object *one = (struct object *)(void *)(object_base + at * OBJECT_BYTES);
        if (one->type == (uint32_t)type)
            return one;
    }
    return NULL;
}

_Static_assert(sizeof(struct context) <= OBJECT_BYTES, "context");
_Static_assert(sizeof(struct stream) <= OBJECT_BYTES, "stream");
_Static_assert(sizeof(struct module) <= OBJECT_BYTES, "module");
_Static_assert(sizeof(struct library) <= OBJECT_BYTES, "library");
_Static_assert(sizeof(struct event) <= OBJECT_BYTES, "event");
_Static_assert(sizeof(struct function) <= OBJECT_BYTES, "function");
_Static_assert(sizeof(struct physical) <= OBJECT_BYTES, "physical");
_Static_assert(sizeof(struct pool) <= OBJECT_BYTES, "pool");

/* ---- which devices this process sees --------------------------------------------------------------------------------- */

static int compare_speed(const void *a, const void *b)
{
    const struct sim_device *x = device_at(*(const uint32_t *)a), *y = device_at(*(const uint32_t *)b);
    uint64_t fx = (uint64_t)x->profile.sms * x->profile.sm_clock, fy = (uint64_t)y->profile.sms * y->profile.sm_clock;
    if (fx != fy)
        return fx > fy ? -1 : 1;
    return x->order != y->order ? (x->order < y->order ? -1 : 1) : (x->bus < y->bus ? -1 : 1);
}

static int compare_bus(const void *a, const void *b)
{
    const struct sim_device *x = device_at(*(const uint32_t *)a), *y = device_at(*(const uint32_t *)b);
    return x->bus < y->bus ? -1 : 1;
}

/* First compute instance of a card in MIG mode, which is all that a process sees of it; -1 when there is none. */
static int first_instance(uint32_t card)
{
    for (uint32_t d = SIM_CARDS; d < SIM_DEVICES; d++)
        if (device_at(d)->kind == DEVICE_COMPUTE_INSTANCE && card_of(process.state, d) == card)
            return (int)d;
    return -1;
}

static bool same_uuid(const struct sim_device *d, const char *word, size_t n)
{
    return n >= 8 && strlen(d->uuid) >= n && !strncasecmp(d->uuid, word, n);
}

static bool see(uint32_t device)
{
    int shown = (int)device;
    if (device_at(device)->kind == DEVICE_CARD && device_at(device)->mig_mode)
        shown = first_instance(device);
    if (shown < 0)
        return true;
    for (unsigned i = 0; i < process.count; i++)
        if (process.devices[i] == (uint32_t)shown)
            return false;
    process.devices[process.count++] = (uint32_t)shown;
    return true;
}

static void find_devices(void)
{
    uint32_t cards[SIM_CARDS], n = 0;
    for (uint32_t d = 0; d < process.state->cards; d++)
        cards[n++] = d;
    const char *order = getenv("CUDA_DEVICE_ORDER"), *visible = getenv("CUDA_VISIBLE_DEVICES");
    qsort(cards, n, sizeof *cards, order && !strcmp(order, "PCI_BUS_ID") ? compare_bus : compare_speed);
    process.count = 0;
    if (!visible) {
        for (uint32_t i = 0; i < n; i++)
            see(cards[i]);
        return;
    }
    while (*visible) {
        visible += strspn(visible, " ");
        size_t length = strcspn(visible, ","), bare = length;
        while (bare && visible[bare - 1] == ' ')
            bare--;
        int found = -1;
        if (bare && strspn(visible, "0123456789") == bare) {
            unsigned long index = strtoul(visible, NULL, 10);
            found = index < n ? (int)cards[index] : -1;
        } else if (bare)
            for (uint32_t d = 0; d < SIM_DEVICES && found < 0; d++)
                if ((device_at(d)->kind == DEVICE_CARD || device_at(d)->kind == DEVICE_COMPUTE_INSTANCE) &&
                    same_uuid(device_at(d), visible, bare))
                    found = (int)d;
        if (found < 0)
            return;             /* the list ends at the first device that does not exist */
        if (!see((uint32_t)found)) {
            process.count = 0;  /* a device named twice: none */
            return;
        }
        visible += length + (visible[length] == ',');
    }
}

CUresult sim_cuInit(unsigned int Flags)
{
    if (Flags)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&process.lock);
    if (*sim_open || (alive && initialised != CUDA_SUCCESS && initialised != CUDA_ERROR_NOT_INITIALIZED)) {
        CUresult again = *sim_open ? CUDA_SUCCESS : initialised;
        pthread_mutex_unlock(&process.lock);
        return again;
    }
    CUresult status = CUDA_SUCCESS;
    if (alive && initialised == CUDA_SUCCESS)
        status = CUDA_ERROR_NOT_INITIALIZED;    /* a child of a process that had initialised */
    else if (!(process.state = state_open()))
        status = CUDA_ERROR_OPERATING_SYSTEM;
    else {
        const char *tag = secure_getenv("HAMI_SIM_CONTAINER");
        snprintf(process.tag, sizeof process.tag, "%s", tag ? tag : "");
        int fault = atomic_load(&process.state->faults_on) ? fault_for(process.state, "cuInit", process.tag) : 0;
        find_devices();
        if (fault)
            status = (CUresult)fault;
        else if (!process.count)
            status = CUDA_ERROR_NO_DEVICE;
        else if (process.slot < 0 && (process.slot = slot_take(process.state, true)) < 0)
            status = CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (status == CUDA_SUCCESS) {
        state_reap(process.state, process.slot, 0);
        void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (page == MAP_FAILED || madvise(page, 4096, MADV_WIPEONFORK) < 0)
            status = CUDA_ERROR_OUT_OF_MEMORY;
        else {
            alive = page;
            *alive = process.log >= 0 ? 2 : 1;
            sim_watched = (const uint32_t *)&process.state->faults_on;
            initialised = CUDA_SUCCESS;
            sim_open = alive;
        }
    }
    pthread_mutex_unlock(&process.lock);
    return status;
}

CUresult sim_cuDriverGetVersion(int *driverVersion)
{
    if (!driverVersion)
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_state *s = state_open();
    if (!s)
        return CUDA_ERROR_OPERATING_SYSTEM;
    *driverVersion = (int)s->driver_version;
    return CUDA_SUCCESS;
}

CUresult sim_cuGetErrorName(CUresult error, const char **pStr)
{
    if (!pStr)
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < sizeof told / sizeof *told; i++)
        if (told[i].code == error) {
            *pStr = told[i].name;
            return CUDA_SUCCESS;
        }
    *pStr = NULL;
    return CUDA_ERROR_INVALID_VALUE;
}

CUresult sim_cuGetErrorString(CUresult error, const char **pStr)
{
    if (!pStr)
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < sizeof told / sizeof *told; i++)
        if (told[i].code == error) {
            *pStr = told[i].text;
            return CUDA_SUCCESS;
        }
    *pStr = NULL;
    return CUDA_ERROR_INVALID_VALUE;
}

CUresult sim_cuGetExportTable(const void **ppExportTable, const CUuuid *pExportTableId)
{
    (void)pExportTableId;
    if (ppExportTable)
        *ppExportTable = NULL;
    return CUDA_ERROR_NOT_FOUND;
}

/* ---- look-up --------------------------------------------------------------------------------------------------------- */

#define BUCKETS 1024u
static uint16_t bucket[BUCKETS], same_bucket[2048];    /* numbers of entries, plus one */
static pthread_once_t indexed = PTHREAD_ONCE_INIT;

static unsigned bucket_of(const char *name)
{
    unsigned h = 5381;
    for (; *name; name++)
        h = h * 33 ^ (unsigned char)*name;
    return h % BUCKETS;
}

static void make_index(void)
{
    for (unsigned i = 0; i < sim_entry_count && i < 2048; i++) {
        unsigned b = bucket_of(sim_entries[i].base);
        same_bucket[i] = bucket[b];
        bucket[b] = (uint16_t)(i + 1);
    }
}

/* Newest entry of a base that is not newer than the version; `exists` says whether any version of the name is known. */
static int best(const char *base, uint32_t version, bool per_thread, bool *exists)
{
    int found = -1;
    uint32_t driver = process.state ? process.state->driver_version : 13000;
    pthread_once(&indexed, make_index);
    for (unsigned at = bucket[bucket_of(base)]; at; at = same_bucket[at - 1]) {
        unsigned i = at - 1;
        const struct sim_entry *e = &sim_entries[i];
        if (!e->exported || e->per_thread != per_thread || strcmp(e->base, base) || e->introduced > driver)
            continue;
        *exists = true;
        if (e->introduced <= version && (found < 0 || e->introduced > sim_entries[found].introduced))
            found = (int)i;
    }
    return found;
}

static CUresult look_up(const char *symbol, void **pfn, int version, cuuint64_t flags, CUdriverProcAddressQueryResult *result)
{
    if (!symbol || !pfn || version < 0 || (flags & ~UINT64_C(3)) || flags == 3)
        return CUDA_ERROR_INVALID_VALUE;
    if (!process.state)
        process.state = state_open();
    uint32_t driver = process.state ? process.state->driver_version : 13000;
    *pfn = NULL;
    if ((uint32_t)version > driver)
        return CUDA_ERROR_INVALID_VALUE;
    const char *base = symbol;
    if (!strcmp(symbol, "cuGraphInstantiate") && version >= 11040)
        base = "cuGraphInstantiateWithFlags";   /* the header names the newer one so */
    bool exists = false;
    int found = flags == CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM ? best(base, (uint32_t)version, true, &exists) : -1;
    if (found < 0)
        found = best(base, (uint32_t)version, false, &exists);
    CUdriverProcAddressQueryResult told_back = found >= 0 ? CU_GET_PROC_ADDRESS_SUCCESS
                                               : exists   ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT
                                                          : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    note("lookup %s %d %llu -> %s", symbol, version, (unsigned long long)flags, found >= 0 ? sim_entries[found].name : "-");
    if (found >= 0)
        *pfn = sim_addresses[found];
    if (result)
        *result = told_back;
    return found < 0 && process.state && process.state->old_lookup ? CUDA_ERROR_NOT_FOUND : CUDA_SUCCESS;
}

CUresult sim_cuGetProcAddress(const char *symbol, void **pfn, int cudaVersion, cuuint64_t flags)
{
    CUresult status = look_up(symbol, pfn, cudaVersion, flags, NULL);
    return status == CUDA_SUCCESS && !*pfn ? CUDA_ERROR_NOT_FOUND : status;
}

CUresult sim_cuGetProcAddress_v2(const char *symbol, void **pfn, int cudaVersion, cuuint64_t flags, CUdriverProcAddressQueryResult *symbolStatus)
{
    return look_up(symbol, pfn, cudaVersion, flags, symbolStatus);
}

/* ---- devices --------------------------------------------------------------------------------------------------------- */

bool ordinal_known(CUdevice ordinal)
{
    return ordinal >= 0 && (unsigned)ordinal < process.count;
}

#define NEED_DEVICE(d)                            \
    if (!ordinal_known(dev))                      \
        return CUDA_ERROR_INVALID_DEVICE;         \
    struct sim_device *d = device_at(process.devices[dev])

CUresult sim_cuDeviceGetCount(int *count)
{
    if (!count)
        return CUDA_ERROR_INVALID_VALUE;
    *count = (int)process.count;
    return CUDA_SUCCESS;
}

CUresult sim_cuDeviceGet(CUdevice *device, int ordinal)
{
    if (!device)
        return CUDA_ERROR_INVALID_VALUE;
    if (!ordinal_known(ordinal))
        return CUDA_ERROR_INVALID_DEVICE;
    *device = ordinal;
    return CUDA_SUCCESS;
}

CUresult sim_cuDeviceGetName(char *name, int len, CUdevice dev)
{
    NEED_DEVICE(d);
    if (!name || len <= 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (d->kind == DEVICE_COMPUTE_INSTANCE) {
        const struct sim_mig_profile *p = mig_profile(process.state, card_of(process.state, process.devices[dev]), d->mig_profile);
        snprintf(name, (size_t)len, "%s MIG %s", d->profile.name, p ? p->name : "?");
    } else
        snprintf(name, (size_t)len, "%s", d->profile.name);
    return CUDA_SUCCESS;
}

static int hex(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

static CUresult uuid_of(const struct sim_device *d, CUuuid *uuid)
{
    if (!uuid)
        return CUDA_ERROR_INVALID_VALUE;
    memset(uuid, 0, sizeof *uuid);
    unsigned at = 0;
    for (const char *c = strchr(d->uuid, '-'); c && *c && at < 32; c++)
        if (hex(*c) >= 0) {
            uuid->bytes[at / 2] = (char)(uuid->bytes[at / 2] | hex(*c) << (at % 2 ? 0 : 4));
            at++;
        }
    return CUDA_SUCCESS;
}

CUresult sim_cuDeviceGetUuid(CUuuid *uuid, CUdevice dev)
{
    NEED_DEVICE(d);
    return uuid_of(d->kind == DEVICE_CARD ? d : device_at(card_of(process.state, process.devices[dev])), uuid);
}

CUresult sim_cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice dev)
{
    NEED_DEVICE(d);
    return uuid_of(d, uuid);
}

CUresult sim_cuDeviceTotalMem_v2(size_t *bytes, CUdevice dev)
{
    NEED_DEVICE(d);
    if (!bytes)
        return CUDA_ERROR_INVALID_VALUE;
    *bytes = d->total;
    return CUDA_SUCCESS;
}

CUresult sim_cuDeviceComputeCapability(int *major, int *minor, CUdevice dev)
{
    NEED_DEVICE(d);
    if (!major || !minor)
        return CUDA_ERROR_INVALID_VALUE;
    *major = (int)d->profile.major;
    *minor = (int)d->profile.minor;
    return CUDA_SUCCESS;
}

CUresult sim_cuDeviceGetPCIBusId(char *pciBusId, int len, CUdevice dev)
{
    NEED_DEVICE(d);
    if (!pciBusId || len < 13)
        return CUDA_ERROR_INVALID_VALUE;
    snprintf(pciBusId, (size_t)len, "%04X:%02X:%02X.0", d->domain, d->bus, d->slot);
    return CUDA_SUCCESS;
}

CUresult sim_cuDeviceGetByPCIBusId(CUdevice *dev, const char *pciBusId)
{
    unsigned domain = 0, bus = 0, slot = 0;
    if (!dev || !pciBusId)
        return CUDA_ERROR_INVALID_VALUE;
    if (sscanf(pciBusId, "%x:%x:%x", &domain, &bus, &slot) < 3) {
        domain = 0;
        if (sscanf(pciBusId, "%x:%x", &bus, &slot) < 2)
            return CUDA_ERROR_INVALID_VALUE;
    }
    for (unsigned i = 0; i < process.count; i++)
        if (device_at(process.devices[i])->bus == bus && device_at(process.devices[i])->domain == domain) {
            *dev = (CUdevice)i;
            return CUDA_SUCCESS;
        }
    return CUDA_ERROR_INVALID_DEVICE;
}

CUresult sim_cuDeviceGetLuid(char *luid, unsigned int *deviceNodeMask, CUdevice dev)
{
    (void)luid, (void)deviceNodeMask;
    NEED_DEVICE(d);
    (void)d;
    return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult sim_cuDeviceGetAttribute(int *pi, CUdevice_attribute attrib, CUdevice dev)
{
    NEED_DEVICE(d);
    if (!pi)
        return CUDA_ERROR_INVALID_VALUE;
    const struct sim_profile *p = &d->profile;
    switch (attrib) {
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK: *pi = 1024; break;
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X: case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y: *pi = 1024; break;
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z: *pi = 64; break;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X: *pi = 2147483647; break;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y: case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z: *pi = 65535; break;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK: *pi = 49152; break;
    case CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY: *pi = 65536; break;
    case CU_DEVICE_ATTRIBUTE_WARP_SIZE: *pi = 32; break;
    case CU_DEVICE_ATTRIBUTE_MAX_PITCH: *pi = 2147483647; break;
    case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK: case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR: *pi = 65536; break;
    case CU_DEVICE_ATTRIBUTE_CLOCK_RATE: *pi = (int)p->sm_clock * 1000; break;
    case CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT: *pi = 512; break;
    case CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT: *pi = 32; break;
    case CU_DEVICE_ATTRIBUTE_SURFACE_ALIGNMENT: *pi = 512; break;
    case CU_DEVICE_ATTRIBUTE_GPU_OVERLAP: *pi = 1; break;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT: *pi = (int)p->sms; break;
    case CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY: case CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS: case CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING:
    case CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED: case CU_DEVICE_ATTRIBUTE_GLOBAL_L1_CACHE_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_LOCAL_L1_CACHE_SUPPORTED: case CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY:
    case CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS: case CU_DEVICE_ATTRIBUTE_COMPUTE_PREEMPTION_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH: case CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM:
    case CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED: case CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED: case CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED: case CU_DEVICE_ATTRIBUTE_HOST_NATIVE_ATOMIC_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED:
        *pi = 1;
        break;
    case CU_DEVICE_ATTRIBUTE_ECC_ENABLED: *pi = (int)d->ecc; break;
    case CU_DEVICE_ATTRIBUTE_PCI_BUS_ID: *pi = (int)d->bus; break;
    case CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID: *pi = (int)d->slot; break;
    case CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID: *pi = (int)d->domain; break;
    case CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE: *pi = (int)p->memory_clock * 1000; break;
    case CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH: *pi = p->major >= 10 ? 8192 : p->shared_per_sm > 160000 ? 5120 : 384; break;
    case CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE: *pi = (int)(p->l2_mib * MIB); break;
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR: *pi = (int)p->threads_per_sm; break;
    case CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT: *pi = 3; break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR: *pi = (int)p->major; break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR: *pi = (int)p->minor; break;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR: *pi = (int)p->shared_per_sm; break;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN: *pi = (int)p->shared_per_sm - 1024; break;
    case CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK: *pi = 1024; break;
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR: *pi = p->threads_per_sm == 1024 ? 16 : 32; break;
    case CU_DEVICE_ATTRIBUTE_MULTI_GPU_BOARD_GROUP_ID: *pi = (int)d->board; break;
    case CU_DEVICE_ATTRIBUTE_SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO: *pi = p->shared_per_sm > 160000 ? 2 : 32; break;
    case CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES: *pi = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR; break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_MODE: *pi = (int)d->compute_mode; break;
    case CU_DEVICE_ATTRIBUTE_NUMA_ID: *pi = -1; break;
    case CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID: *pi = (int)d->numa; break;
    case CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED: *pi = p->nvlinks && p->major >= 9; break;
    case CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH: *pi = p->major >= 9; break;
    case CU_DEVICE_ATTRIBUTE_MAX_PERSISTING_L2_CACHE_SIZE: *pi = (int)(p->l2_mib * MIB / 4 * 3); break;
    case CU_DEVICE_ATTRIBUTE_MAX_ACCESS_POLICY_WINDOW_SIZE: *pi = 134213632; break;
    default:
        if ((int)attrib <= 0 || attrib >= CU_DEVICE_ATTRIBUTE_MAX)
            return CUDA_ERROR_INVALID_VALUE;
        *pi = attrib >= CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_WIDTH && attrib <= CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_ARRAY_HEIGHT ? 16384 : 0;
    }
    return CUDA_SUCCESS;
}

CUresult sim_cuDeviceGetProperties(CUdevprop *prop, CUdevice dev)
{
    NEED_DEVICE(d);
    if (!prop)
        return CUDA_ERROR_INVALID_VALUE;
    *prop = (CUdevprop){.maxThreadsPerBlock = 1024, .maxThreadsDim = {1024, 1024, 64}, .maxGridSize = {2147483647, 65535, 65535},
                        .sharedMemPerBlock = 49152, .totalConstantMemory = 65536, .SIMDWidth = 32, .memPitch = 2147483647,
                        .regsPerBlock = 65536, .clockRate = (int)d->profile.sm_clock * 1000, .textureAlign = 512};
    return CUDA_SUCCESS;
}

CUresult sim_cuDeviceGetExecAffinitySupport(int *pi, CUexecAffinityType type, CUdevice dev)
{
    NEED_DEVICE(d);
    (void)d, (void)type;
    if (!pi)
        return CUDA_ERROR_INVALID_VALUE;
    *pi = 0;
    return CUDA_SUCCESS;
}

CUresult sim_cuDeviceGetTexture1DLinearMaxWidth(size_t *maxWidthInElements, CUarray_format format, unsigned numChannels, CUdevice dev)
{
    NEED_DEVICE(d);
    (void)d, (void)format, (void)numChannels;
    if (!maxWidthInElements)
        return CUDA_ERROR_INVALID_VALUE;
    *maxWidthInElements = 1u << 27;
    return CUDA_SUCCESS;
}

CUresult sim_cuDeviceCanAccessPeer(int *canAccessPeer, CUdevice dev, CUdevice peerDev)
{
    if (!ordinal_known(dev) || !ordinal_known(peerDev))
        return CUDA_ERROR_INVALID_DEVICE;
    if (!canAccessPeer)
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_device *a = device_at(process.devices[dev]), *b = device_at(process.devices[peerDev]);
    *canAccessPeer = dev != peerDev && a->kind == DEVICE_CARD && b->kind == DEVICE_CARD;
    return CUDA_SUCCESS;
}

CUresult sim_cuDeviceGetP2PAttribute(int *value, CUdevice_P2PAttribute attrib, CUdevice srcDevice, CUdevice dstDevice)
{
    if (!ordinal_known(srcDevice) || !ordinal_known(dstDevice) || srcDevice == dstDevice)
        return CUDA_ERROR_INVALID_DEVICE;
    if (!value)
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_device *a = device_at(process.devices[srcDevice]), *b = device_at(process.devices[dstDevice]);
    bool linked = a->profile.nvlinks && b->profile.nvlinks && a->kind == DEVICE_CARD && b->kind == DEVICE_CARD;
    switch (attrib) {
    case CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED: *value = a->kind == DEVICE_CARD && b->kind == DEVICE_CARD; break;
    case CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK: *value = linked ? 0 : 1; break;
    default: *value = linked;
    }
    return CUDA_SUCCESS;
}

/* ---- contexts -------------------------------------------------------------------------------------------------------- */

struct context *current_context(void)
{
    struct context *c = depth ? stack[depth - 1] : NULL;
    return SIM_LIKELY(c && c->head.type == OBJECT_CONTEXT && !c->dead) ? c : NULL;
}

static void set_top(struct context *c)
{
    if (!depth)
        depth = 1;
    stack[depth - 1] = c;
}

static CUresult context_new(struct context **out, unsigned ordinal, unsigned flags, bool primary, struct context *whole)
{
    uint32_t device = process.devices[ordinal];
    struct sim_device *d = device_at(device);
    if (atomic_load(&d->lost))
        return CUDA_ERROR_DEVICE_UNAVAILABLE;
    if (d->compute_mode == CU_COMPUTEMODE_PROHIBITED)
        return CUDA_ERROR_DEVICE_UNAVAILABLE;
    uint64_t bytes = whole ? 0 : granules((uint64_t)d->profile.context_mib * MIB);
    int index = context_make(process.state, process.slot, device, bytes);
    if (index < 0)
        return CUDA_ERROR_OUT_OF_MEMORY;
    struct context *c = object_new(OBJECT_CONTEXT);
    if (!c)
        return CUDA_ERROR_OUT_OF_MEMORY;
    c->device = device;
    c->ordinal = ordinal;
    c->flags = flags;
    c->primary = primary;
    c->index = index;
    c->api_version = 3020;
    c->limits[CU_LIMIT_STACK_SIZE] = 1024;
    c->limits[CU_LIMIT_PRINTF_FIFO_SIZE] = d->printf_fifo;
    c->limits[CU_LIMIT_MALLOC_HEAP_SIZE] = d->heap;
    c->limits[CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH] = 2;
    c->limits[CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT] = 2048;
    c->limits[CU_LIMIT_MAX_L2_FETCH_GRANULARITY] = 64;
    c->context_bytes = bytes;
    c->whole = whole;
    pthread_mutex_init(&c->lock, NULL);
    c->heap = whole ? whole->heap : heap_new(device, KIND_BLOCK, c, NULL);
    c->arrays = whole ? whole->arrays : heap_new(device, KIND_ARRAY, c, NULL);
    c->legacy = stream_new(c, 0, 0);
    if (!c->heap || !c->arrays || !c->legacy)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *out = c;
    return CUDA_SUCCESS;
}

static void context_free(struct context *c)
{
    struct sim_state *s = process.state;
    for (struct context *part = object_after(NULL, OBJECT_CONTEXT); part; part = object_after(part, OBJECT_CONTEXT))
        if (part->whole == c && !part->dead)
            context_free(part);
    c->dead = 1;
    context_end(s, process.slot, (uint32_t)c->index);
    for (struct event *e = object_after(NULL, OBJECT_EVENT); e; e = object_after(e, OBJECT_EVENT))
        if (e->context == c)
            object_end(e);
    for (struct module *m = object_after(NULL, OBJECT_MODULE); m; m = object_after(m, OBJECT_MODULE))
        if (m->context == c) {
            if (m->library)
                m->library->in[c->device] = NULL;
            for (struct function *f = m->functions; f; f = f->next)
                object_end(f);
            object_end(m);
        }
    for (struct stream *st = c->streams; st; st = st->next)
        object_end(st);
    if (!c->whole) {
        heap_end(c->heap);
        heap_end(c->arrays);
    }
    if (c->module_bytes)
        memory_return(s, process.slot, c->device, KIND_MODULE, c->module_bytes);
    if (c->limit_bytes)
        memory_return(s, process.slot, c->device, KIND_LIMITS, c->limit_bytes);
    if (c->context_bytes)
        memory_return(s, process.slot, c->device, KIND_CONTEXT, c->context_bytes);
    for (unsigned i = 0; i < depth; i++)
        if (stack[i] == c)
            stack[i] = NULL;
    object_end(c);
}

static CUresult create(CUcontext *pctx, unsigned flags, CUdevice dev)
{
    if (!pctx || (flags & ~0xffu))
        return CUDA_ERROR_INVALID_VALUE;
    if (!ordinal_known(dev))
        return CUDA_ERROR_INVALID_DEVICE;
    if (depth >= STACK)
        return CUDA_ERROR_OUT_OF_MEMORY;
    struct context *c = NULL;
    pthread_mutex_lock(&process.lock);
    CUresult status = context_new(&c, (unsigned)dev, flags, false, NULL);
    pthread_mutex_unlock(&process.lock);
    if (status == CUDA_SUCCESS) {
        stack[depth++] = c;
        *pctx = (CUcontext)c;
    }
    return status;
}

CUresult sim_cuCtxCreate_v2(CUcontext *pctx, unsigned int flags, CUdevice dev)
{
    return create(pctx, flags, dev);
}

CUresult sim_cuCtxCreate_v3(CUcontext *pctx, CUexecAffinityParam *paramsArray, int numParams, unsigned int flags, CUdevice dev)
{
    (void)paramsArray;
    return numParams ? CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY : create(pctx, flags, dev);
}

CUresult sim_cuCtxCreate_v4(CUcontext *pctx, CUctxCreateParams *ctxCreateParams, unsigned int flags, CUdevice dev)
{
    if (ctxCreateParams && (ctxCreateParams->numExecAffinityParams || ctxCreateParams->cigParams))
        return CUDA_ERROR_NOT_SUPPORTED;
    return create(pctx, flags, dev);
}

static CUresult destroy(CUcontext ctx)
{
    struct context *c = object_of(ctx, OBJECT_CONTEXT);
    if (!c || c->primary)
        return CUDA_ERROR_INVALID_CONTEXT;
    pthread_mutex_lock(&process.lock);
    if (depth && stack[depth - 1] == c)
        depth--;
    context_free(c);
    pthread_mutex_unlock(&process.lock);
    return CUDA_SUCCESS;
}

CUresult sim_cuCtxDestroy_v2(CUcontext ctx)
{
    return destroy(ctx);
}

CUresult sim_cuCtxDestroy(CUcontext ctx)
{
    return destroy(ctx);
}

CUresult sim_cuDevicePrimaryCtxRetain(CUcontext *pctx, CUdevice dev)
{
    if (!pctx)
        return CUDA_ERROR_INVALID_VALUE;
    if (!ordinal_known(dev))
        return CUDA_ERROR_INVALID_DEVICE;
    CUresult status = CUDA_SUCCESS;
    pthread_mutex_lock(&process.lock);
    struct context **slot = &process.primary[dev];
    if (!*slot)
        status = context_new(slot, (unsigned)dev, 0, true, NULL);
    if (status == CUDA_SUCCESS) {
        (*slot)->retained++;
        *pctx = (CUcontext)*slot;
    }
    pthread_mutex_unlock(&process.lock);
    return status;
}

static CUresult primary_leave(CUdevice dev, bool whole)
{
    if (!ordinal_known(dev))
        return CUDA_ERROR_INVALID_DEVICE;
    pthread_mutex_lock(&process.lock);
    struct context *c = process.primary[dev];
    CUresult status = CUDA_SUCCESS;
    if (!c)
        status = whole ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
    else if (whole || --c->retained == 0) {
        process.primary[dev] = NULL;
        context_free(c);
    }
    pthread_mutex_unlock(&process.lock);
    return status;
}

CUresult context_part(CUcontext *out, CUdevice dev)
{
    CUcontext primary;
    struct context *c = NULL;
    CUresult status = sim_cuDevicePrimaryCtxRetain(&primary, dev);
    if (status != CUDA_SUCCESS)
        return status;
    pthread_mutex_lock(&process.lock);
    status = context_new(&c, (unsigned)dev, 0, false, (struct context *)primary);
    pthread_mutex_unlock(&process.lock);
    if (status != CUDA_SUCCESS)
        primary_leave(dev, false);
    *out = (CUcontext)c;
    return status;
}

void context_part_end(CUcontext part)
{
    struct context *c = object_of(part, OBJECT_CONTEXT);
    if (!c)                         /* gone with the primary one */
        return;
    CUdevice dev = (CUdevice)c->ordinal;
    destroy(part);
    primary_leave(dev, false);
}

CUresult sim_cuDevicePrimaryCtxRelease(CUdevice dev) { return primary_leave(dev, false); }
CUresult sim_cuDevicePrimaryCtxRelease_v2(CUdevice dev) { return primary_leave(dev, false); }
CUresult sim_cuDevicePrimaryCtxReset(CUdevice dev) { return primary_leave(dev, true); }
CUresult sim_cuDevicePrimaryCtxReset_v2(CUdevice dev) { return primary_leave(dev, true); }

static uint32_t primary_flags[SIM_DEVICES];

static CUresult set_primary_flags(CUdevice dev, unsigned flags)
{
    if (!ordinal_known(dev))
        return CUDA_ERROR_INVALID_DEVICE;
    primary_flags[dev] = flags;
    if (process.primary[dev])
        process.primary[dev]->flags = flags;
    return CUDA_SUCCESS;
}

CUresult sim_cuDevicePrimaryCtxSetFlags(CUdevice dev, unsigned int flags) { return set_primary_flags(dev, flags); }
CUresult sim_cuDevicePrimaryCtxSetFlags_v2(CUdevice dev, unsigned int flags) { return set_primary_flags(dev, flags); }

CUresult sim_cuDevicePrimaryCtxGetState(CUdevice dev, unsigned int *flags, int *active)
{
    if (!ordinal_known(dev))
        return CUDA_ERROR_INVALID_DEVICE;
    if (!flags || !active)
        return CUDA_ERROR_INVALID_VALUE;
    *flags = process.primary[dev] ? process.primary[dev]->flags : primary_flags[dev];
    *active = process.primary[dev] != NULL;
    return CUDA_SUCCESS;
}

static CUresult push(CUcontext ctx)
{
    struct context *c = object_of(ctx, OBJECT_CONTEXT);
    if (!c)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (depth >= STACK)
        return CUDA_ERROR_INVALID_VALUE;
    stack[depth++] = c;
    return CUDA_SUCCESS;
}

static CUresult pop(CUcontext *pctx)
{
    if (!depth || !stack[depth - 1])
        return CUDA_ERROR_INVALID_CONTEXT;
    struct context *c = stack[--depth];
    if (pctx)
        *pctx = (CUcontext)c;
    return CUDA_SUCCESS;
}

CUresult sim_cuCtxPushCurrent_v2(CUcontext ctx) { return push(ctx); }
CUresult sim_cuCtxPushCurrent(CUcontext ctx) { return push(ctx); }
CUresult sim_cuCtxPopCurrent_v2(CUcontext *pctx) { return pop(pctx); }
CUresult sim_cuCtxPopCurrent(CUcontext *pctx) { return pop(pctx); }

CUresult sim_cuCtxSetCurrent(CUcontext ctx)
{
    if (!ctx) {
        if (depth)
            depth--;
        return CUDA_SUCCESS;
    }
    struct context *c = object_of(ctx, OBJECT_CONTEXT);
    if (!c)
        return CUDA_ERROR_INVALID_CONTEXT;
    set_top(c);
    return CUDA_SUCCESS;
}

CUresult sim_cuCtxGetCurrent(CUcontext *pctx)
{
    if (!pctx)
        return CUDA_ERROR_INVALID_VALUE;
    *pctx = (CUcontext)current_context();
    return CUDA_SUCCESS;
}

CUresult sim_cuCtxGetDevice(CUdevice *device)
{
    struct context *c = current_context();
    if (!c)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (!device)
        return CUDA_ERROR_INVALID_VALUE;
    *device = (CUdevice)c->ordinal;
    return CUDA_SUCCESS;
}

CUresult sim_cuCtxGetDevice_v2(CUdevice *device, CUcontext ctx)
{
    struct context *c = ctx ? object_of(ctx, OBJECT_CONTEXT) : current_context();
    if (!c)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (!device)
        return CUDA_ERROR_INVALID_VALUE;
    *device = (CUdevice)c->ordinal;
    return CUDA_SUCCESS;
}

CUresult sim_cuCtxGetFlags(unsigned int *flags)
{
    NEED_CONTEXT(c);
    if (!flags)
        return CUDA_ERROR_INVALID_VALUE;
    *flags = c->flags;
    return CUDA_SUCCESS;
}

CUresult sim_cuCtxSetFlags(unsigned int flags)
{
    NEED_CONTEXT(c);
    c->flags = flags;
    return CUDA_SUCCESS;
}

CUresult sim_cuCtxGetId(CUcontext ctx, unsigned long long *ctxId)
{
    struct context *c = ctx ? object_of(ctx, OBJECT_CONTEXT) : current_context();
    if (!c)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (!ctxId)
        return CUDA_ERROR_INVALID_VALUE;
    *ctxId = c->head.number;
    return CUDA_SUCCESS;
}

CUresult sim_cuCtxGetApiVersion(CUcontext ctx, unsigned int *version)
{
    struct context *c = ctx ? object_of(ctx, OBJECT_CONTEXT) : current_context();
    if (!c)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (!version)
        return CUDA_ERROR_INVALID_VALUE;
    *version = c->api_version;
    return CUDA_SUCCESS;
}

CUresult sim_cuCtxSynchronize(void)
{
    NEED_CONTEXT(c);
    return context_wait(c);
}

CUresult sim_cuCtxSynchronize_v2(CUcontext ctx)
{
    struct context *c = ctx ? object_of(ctx, OBJECT_CONTEXT) : current_context();
    return c ? context_wait(c) : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult sim_cuCtxGetStreamPriorityRange(int *leastPriority, int *greatestPriority)
{
    NEED_CONTEXT(c);
    (void)c;
    if (leastPriority)
        *leastPriority = 0;
    if (greatestPriority)
        *greatestPriority = -5;
    return CUDA_SUCCESS;
}

CUresult sim_cuCtxGetLimit(size_t *pvalue, CUlimit limit)
{
    NEED_CONTEXT(c);
    if (!pvalue)
        return CUDA_ERROR_INVALID_VALUE;
    if ((unsigned)limit >= sizeof c->limits / sizeof *c->limits || limit >= CU_LIMIT_MAX)
        return CUDA_ERROR_UNSUPPORTED_LIMIT;
    *pvalue = c->limits[limit];
    return CUDA_SUCCESS;
}

/* What the limits of a context cost in device memory beyond their defaults. */
static uint64_t cost_of_limits(const struct context *c)
{
    const struct sim_device *d = device_at(c->device);
    uint64_t stack_each = c->limits[CU_LIMIT_STACK_SIZE], extra = 0;
    if (stack_each > 1024)
        extra += (stack_each - 1024) * d->profile.sms * d->profile.threads_per_sm;
    if (c->limits[CU_LIMIT_MALLOC_HEAP_SIZE] > d->heap)
        extra += c->limits[CU_LIMIT_MALLOC_HEAP_SIZE] - d->heap;
    if (c->limits[CU_LIMIT_PRINTF_FIFO_SIZE] > d->printf_fifo)
        extra += c->limits[CU_LIMIT_PRINTF_FIFO_SIZE] - d->printf_fifo;
    return granules(extra);
}

CUresult sim_cuCtxSetLimit(CUlimit limit, size_t value)
{
    NEED_CONTEXT(c);
    if (limit >= CU_LIMIT_MAX || (unsigned)limit >= sizeof c->limits / sizeof *c->limits)
        return CUDA_ERROR_UNSUPPORTED_LIMIT;
    if (limit == CU_LIMIT_STACK_SIZE && value > 512 * 1024)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&c->lock);
    uint64_t before = c->limits[limit];
    c->limits[limit] = value;
    uint64_t cost = cost_of_limits(c);
    CUresult status = CUDA_SUCCESS;
    if (cost > c->limit_bytes && !memory_charge(process.state, process.slot, c->device, KIND_LIMITS, cost - c->limit_bytes)) {
        c->limits[limit] = before;
        status = CUDA_ERROR_OUT_OF_MEMORY;
    } else {
        if (cost < c->limit_bytes)
            memory_return(process.state, process.slot, c->device, KIND_LIMITS, c->limit_bytes - cost);
        c->limit_bytes = cost;
    }
    pthread_mutex_unlock(&c->lock);
    return status;
}

CUresult sim_cuCtxResetPersistingL2Cache(void)
{
    NEED_CONTEXT(c);
    (void)c;
    return CUDA_SUCCESS;
}

CUresult sim_cuCtxGetCacheConfig(CUfunc_cache *pconfig)
{
    NEED_CONTEXT(c);
    if (!pconfig)
        return CUDA_ERROR_INVALID_VALUE;
    *pconfig = (CUfunc_cache)c->cache_config;
    return CUDA_SUCCESS;
}

CUresult sim_cuCtxSetCacheConfig(CUfunc_cache config)
{
    NEED_CONTEXT(c);
    c->cache_config = (uint32_t)config;
    return CUDA_SUCCESS;
}

CUresult sim_cuCtxGetSharedMemConfig(CUsharedconfig *pConfig)
{
    NEED_CONTEXT(c);
    if (!pConfig)
        return CUDA_ERROR_INVALID_VALUE;
    *pConfig = (CUsharedconfig)c->shared_config;
    return CUDA_SUCCESS;
}

CUresult sim_cuCtxSetSharedMemConfig(CUsharedconfig config)
{
    NEED_CONTEXT(c);
    c->shared_config = (uint32_t)config;
    return CUDA_SUCCESS;
}

CUresult sim_cuCtxGetExecAffinity(CUexecAffinityParam *pExecAffinity, CUexecAffinityType type)
{
    NEED_CONTEXT(c);
    (void)c, (void)pExecAffinity, (void)type;
    return CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY;
}

CUresult sim_cuCtxAttach(CUcontext *pctx, unsigned int flags)
{
    NEED_CONTEXT(c);
    if (!pctx || flags)
        return CUDA_ERROR_INVALID_VALUE;
    c->retained++;
    *pctx = (CUcontext)c;
    return CUDA_SUCCESS;
}

CUresult sim_cuCtxDetach(CUcontext ctx)
{
    struct context *c = object_of(ctx, OBJECT_CONTEXT);
    if (!c)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (c->retained) {
        c->retained--;
        return CUDA_SUCCESS;
    }
    return destroy(ctx);
}

CUresult sim_cuCtxEnablePeerAccess(CUcontext peerContext, unsigned int Flags)
{
    NEED_CONTEXT(c);
    struct context *peer = object_of(peerContext, OBJECT_CONTEXT);
    if (!peer || peer == c)
        return CUDA_ERROR_INVALID_CONTEXT;
    return Flags ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult sim_cuCtxDisablePeerAccess(CUcontext peerContext)
{
    NEED_CONTEXT(c);
    struct context *peer = object_of(peerContext, OBJECT_CONTEXT);
    return peer && peer != c ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}
