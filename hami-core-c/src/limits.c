#include "limits.h"

#include <string.h>

struct text { const char *at, *end; };

static struct text until(struct text *rest, char stop)
{
    const char *end = memchr(rest->at, stop, (size_t)(rest->end - rest->at));
    struct text first = {rest->at, end ? end : rest->end};
    rest->at = end ? end + 1 : rest->end;
    return first;
}

static bool is(struct text t, const char *word)
{
    size_t n = strlen(word);
    return (size_t)(t.end - t.at) == n && memcmp(t.at, word, n) == 0;
}

static bool copy(struct text t, char *out, size_t room)
{
    size_t n = (size_t)(t.end - t.at);
    if (!n || n >= room || memchr(t.at, 0, n))
        return false;
    memcpy(out, t.at, n);
    out[n] = 0;
    return true;
}

static bool whole(struct text t, uint64_t most, uint64_t *out)
{
    *out = 0;
    if (t.at == t.end)
        return false;
    for (; t.at < t.end; t.at++) {
        if (*t.at < '0' || *t.at > '9')
            return false;
        *out = *out * 10 + (uint64_t)(*t.at - '0');
        if (*out > most)
            return false;
    }
    return true;
}

static bool flag(struct text t, bool *out)
{
    *out = is(t, "1");
    return *out || is(t, "0");
}

static bool device(struct text value, struct text rest, struct limits *l)
{
    if (l->devices == OPTION_DEVICES)
        return false;
    struct device_limits *d = &l->device[l->devices];
    *d = (struct device_limits){.memory = NO_LIMIT};
    if (!copy(value, d->uuid, sizeof d->uuid))
        return false;
    while (rest.at < rest.end) {
        struct text word = until(&rest, ' ');
        if (word.at == word.end)
            continue;
        struct text name = until(&word, '=');
        uint64_t n;
        if (is(name, "memory") && whole(word, UINT64_C(1) << 47, &n))
            d->memory = n ? n : NO_LIMIT;
        else if (is(name, "cores") && whole(word, 100, &n))
            d->cores = (uint32_t)n;
        else if (is(name, "context") && whole(word, UINT64_C(1) << 47, &n))
            d->context = n;
        else
            return false;
    }
    l->devices++;
    return true;
}

static bool line(struct text t, struct limits *l)
{
    struct text rest = t, first = until(&rest, ' '), name = until(&first, '=');
    uint64_t n;
    if (is(name, "device"))
        return device(first, rest, l);
    first.end = t.end;              /* a path may hold blanks */
    if (is(name, "region"))
        return copy(first, l->region, sizeof l->region) && l->region[0] == '/';
    if (is(name, "policy")) {
        l->policy = is(first, "force") ? POLICY_FORCE : is(first, "disable") ? POLICY_DISABLE : POLICY_DEFAULT;
        return l->policy != POLICY_DEFAULT || is(first, "default");
    }
    if (is(name, "priority")) {
        bool good = whole(first, INT32_MAX, &n);
        l->priority = (int32_t)n;
        return good;
    }
    if (is(name, "oversubscribe"))
        return flag(first, &l->oversubscribe);
    if (is(name, "export"))
        return flag(first, &l->exports);
    if (is(name, "disable"))
        return flag(first, &l->may_disable);
    return false;
}

const char *limits_parse(const char *text, size_t length, struct limits *out)
{
    memset(out, 0, sizeof *out);
    out->priority = 1;
    out->exports = true;
    struct text rest = {text, text + length};
    if (!is(until(&rest, '\n'), "hami-limits 1"))
        return "its first line is not \"hami-limits 1\"";
    while (rest.at < rest.end) {
        struct text t = until(&rest, '\n');
        if (t.at < t.end && *t.at != '#' && !line(t, out))
            return "a line of it is not understood";
    }
    if (!out->region[0])
        return "it names no region";
    out->present = true;
    return NULL;
}

/* The one place that says what is closed and what is open. "Closed": cuInit answers CUDA_ERROR_OPERATING_SYSTEM, now and later.
 *
 *   no limit anywhere                          open, nothing is done
 *   switched off where that is allowed         open, nothing is done
 *   limits file not trusted or not understood  closed
 *   a variable not understood                  closed
 *   limit known, region cannot be used         closed: a ledger of one's own would be one limit per process
 *   limit known, all slots taken               closed
 *   everything there                           enforced
 *
 * Elsewhere, by the same thought: an owner word that a stopped process holds for two seconds refuses that allocation; a device that
 * a limits file does not list has no memory; unknown functions, handles and pointers go to the driver; without a driver the
 * loader's own error stands; without NVML memory stays exact and compute goes by the ledger's time. */
enum course decide(const struct circumstances *c)
{
    if (c->file_there && !c->file_good)
        return COURSE_REFUSE;
    if (c->disabled)
        return COURSE_NOTHING;
    if (!c->options_good)
        return COURSE_REFUSE;
    if (!c->limits_known)
        return COURSE_NOTHING;
    return c->region_good && c->slot_taken ? COURSE_ENFORCE : COURSE_REFUSE;
}

static uint64_t smaller(uint64_t a, uint64_t b) { return a < b ? a : b; }
static uint32_t tighter(uint32_t a, uint32_t b) { return !a ? b : !b ? a : a < b ? a : b; }

/* GPU-… and MIG-… differ in their first part between libraries; the rest is the identity. */
static const char *identity(const char *uuid)
{
    return strncmp(uuid, "GPU-", 4) == 0 || strncmp(uuid, "MIG-", 4) == 0 ? uuid + 4 : uuid;
}

struct rule rule_for(const struct limits *l, const struct options *o, const char *uuid, unsigned index)
{
    struct rule rule = {.memory = NO_LIMIT};
    bool listed = !l->present;
    for (unsigned i = 0; l->present && i < l->devices; i++) {
        const struct device_limits *d = &l->device[i];
        if (strcmp(d->uuid, "*") != 0 && strcmp(identity(d->uuid), identity(uuid)) != 0)
            continue;
        rule = (struct rule){d->memory, d->context, d->cores};
        listed = true;
        break;
    }
    if (!listed)
        rule.memory = 0;            /* a card that was not granted */
    uint64_t asked = index < OPTION_DEVICES && o->memory_of[index] != NO_LIMIT ? o->memory_of[index] : o->memory;
    uint32_t cores = index < OPTION_DEVICES && o->cores_of[index] ? o->cores_of[index] : o->cores;
    rule.memory = smaller(rule.memory, asked);
    rule.cores = tighter(rule.cores, cores);
    if (rule.cores >= 100)
        rule.cores = 0;
    return rule;
}
