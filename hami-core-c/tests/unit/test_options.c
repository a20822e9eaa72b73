#include "options.h"

#include <string.h>

#include "check.h"

static const char *const *pairs;

static const char *environment(const char *name)
{
    for (const char *const *p = pairs; p && *p; p += 2)
        if (strcmp(*p, name) == 0)
            return p[1];
    return NULL;
}

static struct options read_from(const char *const *given)
{
    struct options o;
    pairs = given;
    options_read(&o, environment);
    return o;
}

static void sizes_that_the_plugin_and_people_write_are_understood(void)
{
    static const struct { const char *text; uint64_t bytes; } good[] = {
        {"1g", 1ull << 30}, {"1024m", 1ull << 30}, {"1048576k", 1ull << 30}, {"1073741824", 1ull << 30}, {" 1g ", 1ull << 30},
        {"3000m", 3145728000}, {"0x10m", 16777216}, {"010m", 10ull << 20}, {"10Mi", 10ull << 20}, {"1gb", 1ull << 30}, {"1GiB", 1ull << 30},
        {"0", NO_LIMIT}, {"", NO_LIMIT}, {"   ", NO_LIMIT},
    };
    for (unsigned i = 0; i < sizeof good / sizeof *good; i++) {
        uint64_t bytes = 7;
        CHECK(option_size(good[i].text, &bytes));
        SAME(bytes, good[i].bytes);
    }
}

static void sizes_that_are_not_understood_are_no_licence(void)
{
    static const char *const bad[] = {"abc", "g", "-1", "-1m", "1.5g", "2 g", "99999999999999999999", "17179869184g", "1x", "1mm"};
    for (unsigned i = 0; i < sizeof bad / sizeof *bad; i++) {
        uint64_t bytes;
        CHECK(!option_size(bad[i], &bytes));
    }
    CHECK(read_from((const char *[]){"CUDA_DEVICE_MEMORY_LIMIT_3", "lots", NULL}).wrong);
}

static void each_device_has_its_own_limit_or_the_common_one(void)
{
    struct options o = read_from((const char *[]){"CUDA_DEVICE_MEMORY_LIMIT", "1g", "CUDA_DEVICE_MEMORY_LIMIT_15", "2g",
        "CUDA_DEVICE_SM_LIMIT", "30", "CUDA_DEVICE_SM_LIMIT_1", "150", NULL});
    CHECK(o.managed && !o.wrong);
    SAME(o.memory, 1ull << 30);
    SAME(o.memory_of[15], 2ull << 30);
    SAME(o.memory_of[0], NO_LIMIT);
    SAME(o.cores, 30);
    SAME(o.cores_of[1], 100);
}

static void an_empty_environment_asks_for_nothing(void)
{
    struct options o = read_from(NULL);
    CHECK(!o.managed && !o.wrong && !o.disable && o.policy == POLICY_DEFAULT && o.priority == 1);
}

int main(void)
{
    sizes_that_the_plugin_and_people_write_are_understood();
    sizes_that_are_not_understood_are_no_licence();
    each_device_has_its_own_limit_or_the_common_one();
    an_empty_environment_asks_for_nothing();
    return 0;
}
