#define _GNU_SOURCE
#include "probe.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define LOOKUP_VERSION 12090        /* the interface whose types the vendor's header still has under these names */
#define MOST_WORDS 12

CUdeviceptr blocks[PROBE_MOST];
CUcontext contexts[64];

void answer(int code, unsigned long long a, unsigned long long b)
{
    printf("%d %llu %llu\n", code, a, b);
    fflush(stdout);
}

size_t bytes_of(const char *text)
{
    char *end;
    double n = strtod(text, &end);
    return (size_t)(*end == 'k' ? n * 1024 : *end == 'b' ? n : n * 1048576);
}

double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void pause_ms(double ms)
{
    struct timespec t = {(time_t)(ms / 1000), (long)((ms - 1000.0 * (double)(time_t)(ms / 1000)) * 1e6)};
    nanosleep(&t, NULL);
}

/* ---- finding functions ------------------------------------------------------------------------------------------------------- */

static int absent(void) { return CUDA_ERROR_NOT_FOUND; }

void *driver_handle(void)
{
    static void *handle;
    if (!handle)
        handle = dlopen("libcuda.so.1", RTLD_NOW);
    return handle;
}

void *nvml_handle(void)
{
    static void *handle;
    if (!handle)
        handle = dlopen("libnvidia-ml.so.1", RTLD_NOW);
    return handle;
}

void *by_handle(const char *name)
{
    void *found = driver_handle() ? dlsym(driver_handle(), name) : NULL;
    return found ? found : (void *)absent;
}

void *look(const char *name)
{
    static const char *how;
    static CUresult (*ask)(const char *, void **, int, cuuint64_t, CUdriverProcAddressQueryResult *);
    char room[96];
    if (!how)
        how = getenv("HAMI_PROBE_LOOKUP") ? getenv("HAMI_PROBE_LOOKUP") : "dlsym";
    int per_thread = strstr(how, "per-thread") != NULL;
    if (strncmp(how, "lookup", 6) != 0) {
        void *found = NULL;
        snprintf(room, sizeof room, "%s_ptsz", name);
        if (per_thread && driver_handle())
            found = dlsym(driver_handle(), room);
        return found ? found : by_handle(name);
    }
    if (!ask)
        *(void **)&ask = by_handle("cuGetProcAddress_v2");
    size_t n = strlen(name);
    snprintf(room, sizeof room, "%.*s", (int)(n > 3 && name[n - 3] == '_' && name[n - 2] == 'v' ? n - 3 : n), name);
    void *found = NULL;
    if (ask(room, &found, LOOKUP_VERSION, per_thread ? 2 : 0, NULL) != CUDA_SUCCESS || !found)
        return (void *)absent;
    return found;
}

/* ---- lines ------------------------------------------------------------------------------------------------------------------- */

static const struct step *const steps[] = {memory_steps, work_steps, lookup_steps, process_steps};

int main(void)
{
    char line[1024];
    setvbuf(stdin, NULL, _IONBF, 0);
    while (fgets(line, sizeof line, stdin)) {
        char *word[MOST_WORDS + 1];
        int n = 0;
        for (char *w = strtok(line, " \n"); w && n < MOST_WORDS; w = strtok(NULL, " \n"))
            word[n++] = w;
        if (!n)
            continue;
        while (n <= MOST_WORDS)
            word[n++] = (char *)"0";
        const struct step *found = NULL;
        for (unsigned i = 0; i < sizeof steps / sizeof *steps && !found; i++)
            for (const struct step *s = steps[i]; s->name && !found; s++)
                found = strcmp(s->name, word[0]) == 0 ? s : NULL;
        if (found)
            found->run(word);
        else {
            fprintf(stderr, "hami-sim-probe: %s: no such step\n", word[0]);
            return 2;
        }
    }
    return 0;
}
