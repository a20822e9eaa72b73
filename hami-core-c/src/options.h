/* What the environment says, in HAMi v2.10's names. Pure: the environment is a function. */
#ifndef HAMI_OPTIONS_H
#define HAMI_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#define OPTION_DEVICES 16
#define OPTION_PATH 512
#define NO_LIMIT UINT64_MAX

enum policy { POLICY_DEFAULT, POLICY_FORCE, POLICY_DISABLE };

struct options {
    uint64_t memory, memory_of[OPTION_DEVICES];     /* bytes; NO_LIMIT = not set */
    uint32_t cores, cores_of[OPTION_DEVICES];       /* percent; 0 = not set */
    char region[OPTION_PATH];                       /* empty = not set */
    int32_t priority;
    enum policy policy;
    bool oversubscribe, disable, priority_set, policy_set;
    int log_level;
    bool managed;               /* any of the above that asks for a limit or an account */
    const char *wrong;          /* name of a variable that could not be understood; the program must not run without its limit */
};

/* A size: digits, optional binary unit (k, Ki, KB, ...), surrounding blanks; 0 and the empty text are "not set". */
bool option_size(const char *text, uint64_t *bytes);
void options_read(struct options *o, const char *(*get)(const char *name));

#endif
