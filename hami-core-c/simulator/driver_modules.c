/* Modules, libraries and functions. An image is text (PTX, or a list of our own) whose entries are read, or any other bytes, of
 * which every name is a function. How long a kernel takes is told in the image, or by the end of its name (spin_500us). */
#include "driver.h"

#include <ctype.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void cost_from_name(const char *name, struct kernel_cost *cost)
{
    *cost = (struct kernel_cost){process.state->kernel_fixed, process.state->kernel_wave, process.state->blocks_per_sm, 0};
    const char *last = strrchr(name, '_');
    if (!last || !isdigit((unsigned char)last[1]))
        return;
    char *unit;
    long long n = strtoll(last + 1, &unit, 10);
    int64_t ns = !strcmp(unit, "ns") ? n : !strcmp(unit, "us") ? n * 1000 : !strcmp(unit, "ms") ? n * 1000000 : -1;
    if (ns >= 0)
        *cost = (struct kernel_cost){ns, 0, process.state->blocks_per_sm, 0};
}

static struct function *function_new(struct module *m, const char *name, size_t length)
{
    struct function *f = object_new(OBJECT_FUNCTION);
    if (!f)
        return NULL;
    f->name = strndup(name, length);
    f->module = m;
    cost_from_name(f->name, &f->cost);
    f->next = m->functions;
    m->functions = f;
    return f;
}

static const char *word_end(const char *at)
{
    while (isalnum((unsigned char)*at || 0) || isalnum((unsigned char)*at) || *at == '_' || *at == '$')
        at++;
    return at;
}

static struct function *find(struct module *m, const char *name)
{
    for (struct function *f = m->functions; f; f = f->next)
        if (!strcmp(f->name, name))
            return f;
    return NULL;
}

static void global_new(struct module *m, const char *name, size_t length, uint64_t bytes)
{
    struct global *g = calloc(1, sizeof *g);
    if (!g)
        return;
    g->name = strndup(name, length);
    g->bytes = bytes;
    g->next = m->globals;
    m->globals = g;
}

/* `.global .align 4 .b8 table[1024];` and its kin. */
static void read_global(struct module *m, const char *line, size_t n)
{
    char text[256];
    snprintf(text, sizeof text, "%.*s", (int)(n < 255 ? n : 255), line);
    unsigned width = 1;
    const char *type = strstr(text, " .b"), *bracket = strchr(text, '[');
    const char *kinds[] = {" .b", " .u", " .s", " .f"};
    for (unsigned i = 0; i < 4; i++) {
        const char *at = strstr(text, kinds[i]);
        if (at && isdigit((unsigned char)at[3])) {
            type = at;
            width = (unsigned)atoi(at + 3) / 8;
        }
    }
    if (!type)
        return;
    const char *name = type + 3;
    while (isdigit((unsigned char)*name))
        name++;
    name += strspn(name, " \t");
    size_t length = (size_t)(word_end(name) - name);
    uint64_t count = bracket ? strtoull(bracket + 1, NULL, 10) : 1;
    if (length)
        global_new(m, name, length, (count ? count : 1) * (width ? width : 1));
}

static void read_line(struct module *m, const char *line, size_t n)
{
    char text[320], name[128];
    long long fixed, wave;
    unsigned long long bytes;
    unsigned per_sm = 8, local = 0;
    snprintf(text, sizeof text, "%.*s", (int)(n < 319 ? n : 319), line);
    char *at = text + strspn(text, " \t");
    if (sscanf(at, "//sim kernel %127s fixed_ns=%lld wave_ns=%lld blocks_per_sm=%u local=%u", name, &fixed, &wave, &per_sm, &local) >= 3) {
        struct function *f = find(m, name);
        if (!f)
            f = function_new(m, name, strlen(name));
        if (f)
            f->cost = (struct kernel_cost){fixed, wave, per_sm ? per_sm : 1, local};
    } else if (sscanf(at, "//sim global %127s %llu", name, &bytes) == 2)
        global_new(m, name, strlen(name), bytes);
    else {
        char *entry = strstr(at, ".entry ");
        if (entry && strncmp(at, "//", 2)) {
            entry += 7;
            entry += strspn(entry, " \t");
            size_t length = (size_t)(word_end(entry) - entry);
            snprintf(name, sizeof name, "%.*s", (int)(length < 127 ? length : 127), entry);
            if (length && !find(m, name))
                function_new(m, entry, length);
        } else if (!strncmp(at, ".global", 7) || !strncmp(at, ".visible .global", 16) || !strncmp(at, ".const", 6) ||
                   !strncmp(at, ".visible .const", 15))
            read_global(m, at, strlen(at));
    }
}

static bool is_text(const char *image)
{
    for (unsigned i = 0; i < 16; i++) {
        unsigned char b = (unsigned char)image[i];
        if (!b)
            return i > 0;
        if (b < 9 || b > 126)
            return false;
    }
    return true;
}

static uint64_t image_size(const char *image)
{
    if (is_text(image))
        return strlen(image) + 1;
    if (!memcmp(image, "\177ELF", 4)) {
        uint64_t sections;
        uint16_t each, count;
        memcpy(&sections, image + 40, 8);
        memcpy(&each, image + 58, 2);
        memcpy(&count, image + 60, 2);
        uint64_t size = sections + (uint64_t)each * count;
        return size < 1024 * MIB ? size : 64 * 1024;
    }
    uint32_t magic;
    uint64_t size = 0;
    memcpy(&magic, image, 4);
    if (magic == 0xba55ed50u)
        memcpy(&size, image + 8, 8);
    return size && size < 1024 * MIB ? size + 16 : 64 * 1024;
}

static CUresult module_new(struct context *c, const char *image, struct library *library, struct module **out)
{
    struct module *m = object_new(OBJECT_MODULE);
    if (!m)
        return CUDA_ERROR_OUT_OF_MEMORY;
    m->context = c;
    m->library = library;
    m->image_bytes = image_size(image);
    if (is_text(image)) {
        for (const char *line = image; *line;) {
            size_t n = strcspn(line, "\n");
            read_line(m, line, n);
            line += n + (line[n] == '\n');
        }
        m->open_names = !m->functions;
    } else
        m->open_names = 1;
    uint64_t bytes = m->image_bytes, local = 0;
    for (struct global *g = m->globals; g; g = g->next)
        bytes += g->bytes;
    for (struct function *f = m->functions; f; f = f->next)
        local = f->cost.local_bytes > local ? f->cost.local_bytes : local;
    bytes += local * device_at(c->device)->profile.sms * device_at(c->device)->profile.threads_per_sm;
    m->charged = granules(bytes);
    if (!memory_charge(process.state, process.slot, c->device, KIND_MODULE, m->charged)) {
        for (struct function *f = m->functions; f; f = f->next)
            object_end(f);
        object_end(m);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    c->module_bytes += m->charged;
    *out = m;
    return CUDA_SUCCESS;
}

static void module_end(struct module *m)
{
    struct context *c = m->context;
    for (struct function *f = m->functions, *next; f; f = next) {
        next = f->next;
        free(f->name);
        object_end(f);
    }
    for (struct global *g = m->globals, *next; g; g = next) {
        next = g->next;
        free((void *)(uintptr_t)g->at);
        free(g->name);
        free(g);
    }
    c->module_bytes -= m->charged;
    memory_return(process.state, process.slot, c->device, KIND_MODULE, m->charged);
    object_end(m);
}

CUresult sim_cuModuleLoadData(CUmodule *module, const void *image)
{
    NEED_CONTEXT(c);
    if (!module || !image)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&process.lock);
    struct module *m = NULL;
    CUresult status = module_new(c, image, NULL, &m);
    pthread_mutex_unlock(&process.lock);
    if (status == CUDA_SUCCESS)
        *module = (CUmodule)m;
    return status;
}

CUresult sim_cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned int n, CUjit_option *options, void **values)
{
    (void)n, (void)options, (void)values;
    return sim_cuModuleLoadData(module, image);
}

CUresult sim_cuModuleLoadFatBinary(CUmodule *module, const void *fatCubin) { return sim_cuModuleLoadData(module, fatCubin); }

static char *read_file(const char *name)
{
    FILE *in = fopen(name, "re");
    if (!in)
        return NULL;
    char *text = NULL;
    size_t room = 0, used = 0, n;
    do {
        char *more = realloc(text, room += 65536);
        if (!more)
            break;
        text = more;
        n = fread(text + used, 1, room - used - 64, in);
        used += n;
    } while (n);
    fclose(in);
    if (text)
        memset(text + used, 0, 64);
    return text;
}

CUresult sim_cuModuleLoad(CUmodule *module, const char *fname)
{
    if (!module || !fname)
        return CUDA_ERROR_INVALID_VALUE;
    char *image = read_file(fname);
    if (!image)
        return CUDA_ERROR_FILE_NOT_FOUND;
    CUresult status = sim_cuModuleLoadData(module, image);
    free(image);
    return status;
}

CUresult sim_cuModuleUnload(CUmodule hmod)
{
    struct module *m = object_of(hmod, OBJECT_MODULE);
    if (!m || m->library)
        return CUDA_ERROR_INVALID_HANDLE;
    pthread_mutex_lock(&process.lock);
    module_end(m);
    pthread_mutex_unlock(&process.lock);
    return CUDA_SUCCESS;
}

static CUresult get_function(struct module *m, const char *name, struct function **out)
{
    pthread_mutex_lock(&process.lock);
    struct function *f = find(m, name);
    if (!f && m->open_names)
        f = function_new(m, name, strlen(name));
    pthread_mutex_unlock(&process.lock);
    *out = f;
    return f ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

CUresult sim_cuModuleGetFunction(CUfunction *hfunc, CUmodule hmod, const char *name)
{
    struct module *m = object_of(hmod, OBJECT_MODULE);
    if (!hfunc || !name)
        return CUDA_ERROR_INVALID_VALUE;
    struct function *f;
    CUresult status = m ? get_function(m, name, &f) : CUDA_ERROR_INVALID_HANDLE;
    if (status == CUDA_SUCCESS)
        *hfunc = (CUfunction)f;
    return status;
}

CUresult sim_cuModuleGetFunctionCount(unsigned int *count, CUmodule mod)
{
    struct module *m = object_of(mod, OBJECT_MODULE);
    if (!m || !count)
        return m ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_HANDLE;
    *count = 0;
    for (struct function *f = m->functions; f; f = f->next)
        ++*count;
    return CUDA_SUCCESS;
}

CUresult sim_cuModuleEnumerateFunctions(CUfunction *functions, unsigned int numFunctions, CUmodule mod)
{
    struct module *m = object_of(mod, OBJECT_MODULE);
    if (!m || !functions)
        return m ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_HANDLE;
    unsigned n = 0;
    for (struct function *f = m->functions; f && n < numFunctions; f = f->next)
        functions[n++] = (CUfunction)f;
    return CUDA_SUCCESS;
}

CUresult sim_cuModuleGetLoadingMode(CUmoduleLoadingMode *mode)
{
    if (!mode)
        return CUDA_ERROR_INVALID_VALUE;
    *mode = CU_MODULE_EAGER_LOADING;
    return CUDA_SUCCESS;
}

static CUresult get_global(struct module *m, CUdeviceptr *dptr, size_t *bytes, const char *name)
{
    for (struct global *g = m->globals; g; g = g->next)
        if (!strcmp(g->name, name)) {
            if (!g->at)
                g->at = (CUdeviceptr)(uintptr_t)calloc(1, g->bytes);
            if (!g->at)
                return CUDA_ERROR_OUT_OF_MEMORY;
            if (dptr)
                *dptr = g->at;
            if (bytes)
                *bytes = g->bytes;
            return CUDA_SUCCESS;
        }
    return CUDA_ERROR_NOT_FOUND;
}

CUresult sim_cuModuleGetGlobal_v2(CUdeviceptr *dptr, size_t *bytes, CUmodule hmod, const char *name)
{
    struct module *m = object_of(hmod, OBJECT_MODULE);
    if (!m)
        return CUDA_ERROR_INVALID_HANDLE;
    if (!name || (!dptr && !bytes))
        return CUDA_ERROR_INVALID_VALUE;
    return get_global(m, dptr, bytes, name);
}

/* ---- libraries: loaded into a context when first used there -------------------------------------------------------------- */

CUresult sim_cuLibraryLoadData(CUlibrary *library, const void *code, CUjit_option *jit, void **jitValues, unsigned int jits, CUlibraryOption *options,
                               void **optionValues, unsigned int numOptions)
{
    (void)jit, (void)jitValues, (void)jits, (void)options, (void)optionValues, (void)numOptions;
    if (!library || !code)
        return CUDA_ERROR_INVALID_VALUE;
    struct library *l = object_new(OBJECT_LIBRARY);
    if (!l)
        return CUDA_ERROR_OUT_OF_MEMORY;
    l->image_bytes = image_size(code);
    l->image = calloc(1, l->image_bytes + 64);
    l->in = calloc(SIM_DEVICES, sizeof(struct module *));
    if (!l->image || !l->in) {
        free(l->image);
        free(l->in);
        object_end(l);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    memcpy(l->image, code, l->image_bytes);
    *library = (CUlibrary)l;
    return CUDA_SUCCESS;
}

CUresult sim_cuLibraryLoadFromFile(CUlibrary *library, const char *fileName, CUjit_option *jit, void **jitValues, unsigned int jits,
                                   CUlibraryOption *options, void **optionValues, unsigned int numOptions)
{
    char *image = fileName ? read_file(fileName) : NULL;
    if (!image)
        return CUDA_ERROR_FILE_NOT_FOUND;
    CUresult status = sim_cuLibraryLoadData(library, image, jit, jitValues, jits, options, optionValues, numOptions);
    free(image);
    return status;
}

static CUresult library_module(struct library *l, struct context *c, struct module **out)
{
    CUresult status = CUDA_SUCCESS;
    pthread_mutex_lock(&process.lock);
    if (!l->in[c->device] || l->in[c->device]->head.type != OBJECT_MODULE)
        status = module_new(c, l->image, l, &l->in[c->device]);
    *out = l->in[c->device];
    pthread_mutex_unlock(&process.lock);
    return status;
}

CUresult sim_cuLibraryUnload(CUlibrary library)
{
    struct library *l = object_of(library, OBJECT_LIBRARY);
    if (!l)
        return CUDA_ERROR_INVALID_HANDLE;
    pthread_mutex_lock(&process.lock);
    for (unsigned d = 0; d < SIM_DEVICES; d++)
        if (l->in[d])
            module_end(l->in[d]);
    for (struct function *f = l->kernels, *next; f; f = next) {
        next = f->next;
        free(f->name);
        object_end(f);
    }
    free(l->image);
    free(l->in);
    object_end(l);
    pthread_mutex_unlock(&process.lock);
    return CUDA_SUCCESS;
}

CUresult sim_cuLibraryGetModule(CUmodule *pMod, CUlibrary library)
{
    NEED_CONTEXT(c);
    struct library *l = object_of(library, OBJECT_LIBRARY);
    struct module *m = NULL;
    if (!l || !pMod)
        return l ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_HANDLE;
    CUresult status = library_module(l, c, &m);
    *pMod = (CUmodule)m;
    return status;
}

/* A kernel is a function of no context; it stands for the name. */
CUresult sim_cuLibraryGetKernel(CUkernel *pKernel, CUlibrary library, const char *name)
{
    NEED_CONTEXT(c);
    struct library *l = object_of(library, OBJECT_LIBRARY);
    struct module *m = NULL;
    struct function *f = NULL;
    if (!l || !pKernel || !name)
        return l ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_HANDLE;
    CUresult status = library_module(l, c, &m);
    if (status == CUDA_SUCCESS)
        status = get_function(m, name, &f);
    if (status == CUDA_SUCCESS)
        *pKernel = (CUkernel)f;
    return status;
}

CUresult sim_cuKernelGetFunction(CUfunction *pFunc, CUkernel kernel)
{
    NEED_CONTEXT(c);
    struct function *f = object_of(kernel, OBJECT_FUNCTION), *own = NULL;
    struct module *m = NULL;
    if (!f || !pFunc)
        return f ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_HANDLE;
    if (!f->module->library || f->module->context == c) {
        *pFunc = (CUfunction)f;
        return CUDA_SUCCESS;
    }
    CUresult status = library_module(f->module->library, c, &m);
    if (status == CUDA_SUCCESS)
        status = get_function(m, f->name, &own);
    *pFunc = (CUfunction)own;
    return status;
}

CUresult sim_cuKernelGetLibrary(CUlibrary *pLib, CUkernel kernel)
{
    struct function *f = object_of(kernel, OBJECT_FUNCTION);
    if (!f || !pLib)
        return f ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_HANDLE;
    *pLib = (CUlibrary)f->module->library;
    return CUDA_SUCCESS;
}

CUresult sim_cuLibraryGetKernelCount(unsigned int *count, CUlibrary lib)
{
    NEED_CONTEXT(c);
    struct library *l = object_of(lib, OBJECT_LIBRARY);
    struct module *m = NULL;
    if (!l || !count)
        return l ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_HANDLE;
    CUresult status = library_module(l, c, &m);
    return status == CUDA_SUCCESS ? sim_cuModuleGetFunctionCount(count, (CUmodule)m) : status;
}

CUresult sim_cuLibraryEnumerateKernels(CUkernel *kernels, unsigned int numKernels, CUlibrary lib)
{
    NEED_CONTEXT(c);
    struct library *l = object_of(lib, OBJECT_LIBRARY);
    struct module *m = NULL;
    if (!l || !kernels)
        return l ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_HANDLE;
    CUresult status = library_module(l, c, &m);
    return status == CUDA_SUCCESS ? sim_cuModuleEnumerateFunctions((CUfunction *)kernels, numKernels, (CUmodule)m) : status;
}

CUresult sim_cuLibraryGetGlobal(CUdeviceptr *dptr, size_t *bytes, CUlibrary library, const char *name)
{
    NEED_CONTEXT(c);
    struct library *l = object_of(library, OBJECT_LIBRARY);
    struct module *m = NULL;
    if (!l || !name)
        return l ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_HANDLE;
    CUresult status = library_module(l, c, &m);
    return status == CUDA_SUCCESS ? get_global(m, dptr, bytes, name) : status;
}

CUresult sim_cuLibraryGetManaged(CUdeviceptr *dptr, size_t *bytes, CUlibrary library, const char *name)
{
    (void)dptr, (void)bytes, (void)name;
    return object_of(library, OBJECT_LIBRARY) ? CUDA_ERROR_NOT_FOUND : CUDA_ERROR_INVALID_HANDLE;
}

CUresult sim_cuFuncGetModule(CUmodule *hmod, CUfunction hfunc)
{
    struct function *f = function_of(hfunc);
    if (!f || !hmod)
        return f ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_HANDLE;
    *hmod = (CUmodule)f->module;
    return CUDA_SUCCESS;
}

static CUresult name_of(const char **name, void *handle)
{
    struct function *f = object_of(handle, OBJECT_FUNCTION);
    if (!f || !name)
        return f ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_HANDLE;
    *name = f->name;
    return CUDA_SUCCESS;
}

CUresult sim_cuFuncGetName(const char **name, CUfunction hfunc) { return name_of(name, hfunc); }
CUresult sim_cuKernelGetName(const char **name, CUkernel hfunc) { return name_of(name, hfunc); }

static CUresult attribute_of(int *pi, CUfunction_attribute attribute, void *handle)
{
    struct function *f = object_of(handle, OBJECT_FUNCTION);
    if (!f || !pi)
        return f ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_HANDLE;
    switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK: *pi = 1024; break;
    case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES: case CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES: *pi = 0; break;
    case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES: *pi = (int)f->cost.local_bytes; break;
    case CU_FUNC_ATTRIBUTE_NUM_REGS: *pi = 32; break;
    case CU_FUNC_ATTRIBUTE_PTX_VERSION: case CU_FUNC_ATTRIBUTE_BINARY_VERSION: *pi = 80; break;
    default:
        if ((unsigned)attribute >= CU_FUNC_ATTRIBUTE_MAX)
            return CUDA_ERROR_INVALID_VALUE;
        *pi = (unsigned)attribute < 16 ? f->attributes[attribute] : 0;
    }
    return CUDA_SUCCESS;
}

static CUresult set_attribute(CUfunction_attribute attribute, int value, void *handle)
{
    struct function *f = object_of(handle, OBJECT_FUNCTION);
    if (!f)
        return CUDA_ERROR_INVALID_HANDLE;
    if (attribute < CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES || attribute >= CU_FUNC_ATTRIBUTE_MAX)
        return CUDA_ERROR_INVALID_VALUE;
    if ((unsigned)attribute < 16)
        f->attributes[attribute] = value;
    return CUDA_SUCCESS;
}

CUresult sim_cuFuncGetAttribute(int *pi, CUfunction_attribute attrib, CUfunction hfunc) { return attribute_of(pi, attrib, hfunc); }
CUresult sim_cuFuncSetAttribute(CUfunction hfunc, CUfunction_attribute attrib, int value) { return set_attribute(attrib, value, hfunc); }
CUresult sim_cuKernelGetAttribute(int *pi, CUfunction_attribute attrib, CUkernel kernel, CUdevice dev)
{
    return ordinal_known(dev) ? attribute_of(pi, attrib, kernel) : CUDA_ERROR_INVALID_DEVICE;
}
CUresult sim_cuKernelSetAttribute(CUfunction_attribute attrib, int val, CUkernel kernel, CUdevice dev)
{
    return ordinal_known(dev) ? set_attribute(attrib, val, kernel) : CUDA_ERROR_INVALID_DEVICE;
}
CUresult sim_cuFuncSetCacheConfig(CUfunction hfunc, CUfunc_cache config)
{
    struct function *f = function_of(hfunc);
    if (f)
        f->cache_config = (uint32_t)config;
    return f ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}
CUresult sim_cuKernelSetCacheConfig(CUkernel kernel, CUfunc_cache config, CUdevice dev)
{
    return ordinal_known(dev) ? sim_cuFuncSetCacheConfig((CUfunction)kernel, config) : CUDA_ERROR_INVALID_DEVICE;
}
CUresult sim_cuFuncSetSharedMemConfig(CUfunction hfunc, CUsharedconfig config)
{
    (void)config;
    return function_of(hfunc) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}
CUresult sim_cuFuncIsLoaded(CUfunctionLoadingState *state, CUfunction function)
{
    if (!state || !function_of(function))
        return CUDA_ERROR_INVALID_VALUE;
    *state = CU_FUNCTION_LOADING_STATE_LOADED;
    return CUDA_SUCCESS;
}
CUresult sim_cuFuncLoad(CUfunction function) { return function_of(function) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE; }

/* ---- occupancy ------------------------------------------------------------------------------------------------------- */

CUresult sim_cuOccupancyMaxActiveBlocksPerMultiprocessor(int *numBlocks, CUfunction func, int blockSize, size_t dynamicSMemSize)
{
    NEED_CONTEXT(c);
    (void)dynamicSMemSize;
    if (!numBlocks || blockSize <= 0 || blockSize > 1024 || !function_of(func))
        return CUDA_ERROR_INVALID_VALUE;
    *numBlocks = (int)device_at(c->device)->profile.threads_per_sm / blockSize;
    if (*numBlocks > 32)
        *numBlocks = 32;
    return CUDA_SUCCESS;
}

CUresult sim_cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *numBlocks, CUfunction func, int blockSize, size_t smem, unsigned int flags)
{
    (void)flags;
    return sim_cuOccupancyMaxActiveBlocksPerMultiprocessor(numBlocks, func, blockSize, smem);
}

CUresult sim_cuOccupancyMaxPotentialBlockSize(int *minGridSize, int *blockSize, CUfunction func, CUoccupancyB2DSize fn, size_t smem, int limit)
{
    NEED_CONTEXT(c);
    (void)fn, (void)smem;
    if (!minGridSize || !blockSize || !function_of(func))
        return CUDA_ERROR_INVALID_VALUE;
    *blockSize = limit && limit < 1024 ? limit : 1024;
    *minGridSize = (int)(device_at(c->device)->profile.sms * (device_at(c->device)->profile.threads_per_sm / (unsigned)*blockSize));
    return CUDA_SUCCESS;
}

CUresult sim_cuOccupancyMaxPotentialBlockSizeWithFlags(int *minGridSize, int *blockSize, CUfunction func, CUoccupancyB2DSize fn, size_t smem, int limit,
                                                       unsigned int flags)
{
    (void)flags;
    return sim_cuOccupancyMaxPotentialBlockSize(minGridSize, blockSize, func, fn, smem, limit);
}

CUresult sim_cuOccupancyAvailableDynamicSMemPerBlock(size_t *dynamicSmemSize, CUfunction func, int numBlocks, int blockSize)
{
    NEED_CONTEXT(c);
    (void)blockSize;
    if (!dynamicSmemSize || numBlocks <= 0 || !function_of(func))
        return CUDA_ERROR_INVALID_VALUE;
    *dynamicSmemSize = device_at(c->device)->profile.shared_per_sm / (unsigned)numBlocks;
    return CUDA_SUCCESS;
}
