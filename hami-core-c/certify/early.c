/* Part of a driver that looks names up while it is being loaded, as real ones may. */
#define _GNU_SOURCE
#include <dlfcn.h>

__attribute__((constructor)) static void look_up(void)
{
    dlsym(RTLD_DEFAULT, "cuMemAlloc_v2");
    dlsym(RTLD_DEFAULT, "cuGetExportTable");
}
