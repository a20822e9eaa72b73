#include "limits.h"

#include <string.h>

#include "check.h"

static const char good[] = "hami-limits 1\n# from the agent\nregion=/usr/local/vgpu/a b.cache\npolicy=force\npriority=0\noversubscribe=0\n"
                           "export=0\ndisable=1\ndevice=GPU-aa memory=4194304000 cores=30 context=1000\ndevice=GPU-bb memory=0 cores=0\n";

static const char *parse(const char *text, struct limits *l) { return limits_parse(text, strlen(text), l); }

static void a_file_is_understood_line_by_line(void)
{
    struct limits l;
    CHECK(!parse(good, &l));
    CHECK(strcmp(l.region, "/usr/local/vgpu/a b.cache") == 0);
    CHECK(l.policy == POLICY_FORCE && l.priority == 0 && !l.oversubscribe && !l.exports && l.may_disable);
    SAME(l.devices, 2);
    SAME(l.device[0].memory, 4194304000);
    SAME(l.device[0].cores, 30);
    SAME(l.device[0].context, 1000);
    SAME(l.device[1].memory, NO_LIMIT);
}

static void a_line_that_is_not_understood_spoils_the_file(void)
{
    static const char *const bad[] = {
        "", "hami-limits 2\nregion=/r\n", "hami-limits 1\n", "hami-limits 1\nregion=relative\n", "hami-limits 1\nregion=/r\nlimit=3\n",
        "hami-limits 1\nregion=/r\ndevice=GPU-a memory=-1\n", "hami-limits 1\nregion=/r\ndevice=GPU-a memory=1e9\n",
        "hami-limits 1\nregion=/r\ndevice=GPU-a cores=101\n", "hami-limits 1\nregion=/r\ndevice= memory=1\n",
        "hami-limits 1\nregion=/r\npriority=99999999999\n", "hami-limits 1\nregion=/r\ndisable=yes\n",
    };
    struct limits l;
    for (unsigned i = 0; i < sizeof bad / sizeof *bad; i++)
        CHECK(parse(bad[i], &l));
}

static void the_environment_can_only_lower(void)
{
    struct limits l;
    struct options o;
    memset(&o, 0, sizeof o);
    o.memory = NO_LIMIT;
    for (unsigned i = 0; i < OPTION_DEVICES; i++)
        o.memory_of[i] = NO_LIMIT;
    CHECK(!parse(good, &l));
    o.memory_of[0] = 1ull << 40;
    o.cores_of[0] = 90;
    struct rule rule = rule_for(&l, &o, "GPU-aa", 0);
    SAME(rule.memory, 4194304000);
    SAME(rule.cores, 30);
    o.memory_of[0] = 1000;
    o.cores_of[0] = 10;
    rule = rule_for(&l, &o, "GPU-aa", 0);
    SAME(rule.memory, 1000);
    SAME(rule.cores, 10);
    SAME(rule_for(&l, &o, "GPU-cc", 2).memory, 0);      /* not granted */
}

static void the_table_of_what_is_closed(void)
{
    const struct circumstances fine = {.options_good = true, .file_good = true, .limits_known = true, .region_good = true, .slot_taken = true};
    struct circumstances c = fine;
    CHECK(decide(&c) == COURSE_ENFORCE);
    c.limits_known = false;
    CHECK(decide(&c) == COURSE_NOTHING);
    c = fine;
    c.file_there = true;
    c.file_good = false;
    c.disabled = true;
    CHECK(decide(&c) == COURSE_REFUSE);
    c = fine;
    c.options_good = false;
    CHECK(decide(&c) == COURSE_REFUSE);
    c = fine;
    c.region_good = false;
    CHECK(decide(&c) == COURSE_REFUSE);
    c = fine;
    c.slot_taken = false;
    CHECK(decide(&c) == COURSE_REFUSE);
    c = fine;
    c.disabled = true;
    CHECK(decide(&c) == COURSE_NOTHING);
}

/* Whatever the bytes are, the answer is yes or no; under the sanitizers this also shows that nothing else is read. */
static void any_bytes_are_survived(void)
{
    static const char words[][12] = {"device=", "memory=", "region=/", "\n", " ", "GPU-", "9", "cores=", "=", "#", "export=1", "\0"};
    unsigned seed = 1;
    for (int round = 0; round < 20000; round++) {
        char text[256];
        size_t n = 0;
        memcpy(text, "hami-limits 1\n", 14);
        n = 14;
        while (n < 200 && rand_r(&seed) % 24) {
            const char *w = words[(unsigned)rand_r(&seed) % 12];
            size_t length = *w ? strlen(w) : 1;
            memcpy(text + n, w, length);
            n += length;
        }
        char *exact = malloc(n);
        memcpy(exact, text, n);
        struct limits l;
        limits_parse(exact, n, &l);
        free(exact);
    }
}

int main(void)
{
    a_file_is_understood_line_by_line();
    a_line_that_is_not_understood_spoils_the_file();
    the_environment_can_only_lower();
    the_table_of_what_is_closed();
    any_bytes_are_survived();
    return 0;
}
