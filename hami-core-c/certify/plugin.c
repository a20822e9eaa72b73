/* A plugin as programs open them, with a dependency of its own and names that only look like the driver's. */
#define _GNU_SOURCE
#include <dlfcn.h>

#define EXPORT __attribute__((visibility("default")))

long answers_41(void);              /* of dependency.c, in this plugin's own scope alone */
EXPORT int cuMemAlloc_v2(void *where, unsigned long bytes);
EXPORT long asks_default(void);
EXPORT long asks_next(void);

int cuMemAlloc_v2(void *where, unsigned long bytes) { return where && bytes ? 55 : 54; }

static long call(void *found) { return found ? ((long (*)(void))found)() : 0; }

long asks_default(void) { return call(dlsym(RTLD_DEFAULT, "answers_41")); }
long asks_next(void) { return call(dlsym(RTLD_NEXT, "answers_41")); }
