/* The limits file: any bytes are understood or refused, and what is understood is within its bounds. */
#include "fuzz.h"
#include "limits.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct limits l;
    struct options o;
    memset(&o, 0, sizeof o);
    o.memory = NO_LIMIT;
    for (unsigned i = 0; i < OPTION_DEVICES; i++)
        o.memory_of[i] = NO_LIMIT;
    if (limits_parse((const char *)data, size, &l))
        return 0;
    LAW(l.present && l.region[0] == '/' && memchr(l.region, 0, sizeof l.region) && l.devices <= OPTION_DEVICES && l.priority >= 0);
    LAW(l.policy == POLICY_DEFAULT || l.policy == POLICY_FORCE || l.policy == POLICY_DISABLE);
    for (unsigned i = 0; i < l.devices; i++) {
        LAW(memchr(l.device[i].uuid, 0, sizeof l.device[i].uuid) && l.device[i].uuid[0]);
        LAW(l.device[i].memory == NO_LIMIT || l.device[i].memory <= UINT64_C(1) << 47);
        LAW(l.device[i].cores <= 100);
        struct rule before = rule_for(&l, &o, l.device[i].uuid, i);
        o.memory_of[i] = 1000;
        o.cores_of[i] = 5;
        struct rule after = rule_for(&l, &o, l.device[i].uuid, i);
        LAW(after.memory <= before.memory && after.cores <= (before.cores ? before.cores : 100));
    }
    LAW(rule_for(&l, &o, "no such card", 3).memory == 0 || (l.devices && strcmp(l.device[0].uuid, "*") == 0) || l.devices > 1 ||
        strcmp(l.device[0].uuid, "no such card") == 0);
    return 0;
}
