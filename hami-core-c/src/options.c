#include "options.h"

#include <string.h>

static bool blank(char c) { return c == ' ' || c == '\t' || c == '\n'; }

/* Digits from *text on, decimal or 0x; -1 on overflow, 0 without digits. */
static int digits(const char **text, uint64_t *value)
{
    unsigned base = 10;
    const char *c = *text;
    if (c[0] == '0' && (c[1] == 'x' || c[1] == 'X')) {
        base = 16;
        c += 2;
    }
    int count = 0;
    for (*value = 0;; c++, count++) {
        unsigned digit = *c >= '0' && *c <= '9' ? (unsigned)(*c - '0') : base == 16 && *c >= 'a' && *c <= 'f' ? (unsigned)(*c - 'a') + 10
            : base == 16 && *c >= 'A' && *c <= 'F' ? (unsigned)(*c - 'A') + 10 : base;
        if (digit >= base)
            break;
        if (__builtin_mul_overflow(*value, base, value) || __builtin_add_overflow(*value, digit, value))
            return -1;
    }
    *text = c;
    return count;
}

bool option_size(const char *text, uint64_t *bytes)
{
    while (blank(*text))
        text++;
    *bytes = NO_LIMIT;
    if (!*text)
        return true;
    uint64_t value;
    if (digits(&text, &value) <= 0)
        return false;
    unsigned shift = *text == 'k' || *text == 'K' ? 10 : *text == 'm' || *text == 'M' ? 20 : *text == 'g' || *text == 'G' ? 30 : 0;
    if (shift) {
        text++;
        if (*text == 'i')
            text++;
        if (*text == 'b' || *text == 'B')
            text++;
    }
    while (blank(*text))
        text++;
    if (*text || value > (UINT64_C(1) << 47) >> shift)
        return false;
    if (value)
        *bytes = value << shift;
    return true;
}

static bool percent(const char *text, uint32_t *out)
{
    uint64_t value;
    *out = 0;
    while (blank(*text))
        text++;
    if (!*text)
        return true;
    if (digits(&text, &value) <= 0)
        return false;
    while (blank(*text))
        text++;
    if (*text)
        return false;
    *out = value > 100 ? 100 : (uint32_t)value;
    return true;
}

static bool truth(const char *text)
{
    static const char *const yes[] = {"1", "t", "T", "true", "TRUE", "True"};
    for (unsigned i = 0; text && i < sizeof yes / sizeof *yes; i++)
        if (strcmp(text, yes[i]) == 0)
            return true;
    return false;
}

static int32_t number(const char *text)
{
    bool minus = *text == '-';
    uint64_t value;
    text += minus;
    if (digits(&text, &value) <= 0 || value > INT32_MAX)
        return 0;
    return minus ? -(int32_t)value : (int32_t)value;
}

/* NAME_0 to NAME_15. */
static const char *indexed(char *room, const char *name, unsigned i)
{
    size_t n = strlen(name);
    memcpy(room, name, n);
    room[n++] = '_';
    if (i >= 10)
        room[n++] = '1';
    room[n++] = (char)('0' + i % 10);
    room[n] = 0;
    return room;
}

#define MEMORY "CUDA_DEVICE_MEMORY_LIMIT"
#define CORES "CUDA_DEVICE_SM_LIMIT"

static void read_sizes(struct options *o, const char *(*get)(const char *name))
{
    char room[48];
    const char *text = get(MEMORY);
    o->memory = NO_LIMIT;
    if (text && !option_size(text, &o->memory))
        o->wrong = MEMORY;
    text = get(CORES);
    if (text && !percent(text, &o->cores))
        o->wrong = CORES;
    for (unsigned i = 0; i < OPTION_DEVICES; i++) {
        o->memory_of[i] = NO_LIMIT;
        text = get(indexed(room, MEMORY, i));
        if (text && !option_size(text, &o->memory_of[i]))
            o->wrong = MEMORY "_<i>";
        text = get(indexed(room, CORES, i));
        if (text && !percent(text, &o->cores_of[i]))
            o->wrong = CORES "_<i>";
        o->managed |= o->memory_of[i] != NO_LIMIT || o->cores_of[i] != 0;
    }
    o->managed |= o->memory != NO_LIMIT || o->cores != 0;
}

void options_read(struct options *o, const char *(*get)(const char *name))
{
    memset(o, 0, sizeof *o);
    read_sizes(o, get);
    const char *text = get("CUDA_DEVICE_MEMORY_SHARED_CACHE");
    if (text && *text) {
        o->managed = true;
        if (strlen(text) < sizeof o->region)
            strcpy(o->region, text);
        else
            o->wrong = "CUDA_DEVICE_MEMORY_SHARED_CACHE";
    }
    text = get("CUDA_TASK_PRIORITY");
    o->priority_set = text != NULL;
    o->priority = text ? number(text) : 1;
    text = get("GPU_CORE_UTILIZATION_POLICY");
    o->policy_set = text != NULL;
    if (text && (strcmp(text, "force") == 0 || strcmp(text, "FORCE") == 0))
        o->policy = POLICY_FORCE;
    if (text && (strcmp(text, "disable") == 0 || strcmp(text, "DISABLE") == 0))
        o->policy = POLICY_DISABLE;
    o->oversubscribe = truth(get("CUDA_OVERSUBSCRIBE"));
    o->disable = truth(get("CUDA_DISABLE_CONTROL"));
    text = get("LIBCUDA_LOG_LEVEL");
    o->log_level = text ? number(text) : 0;
}
