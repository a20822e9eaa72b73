/* A program of the driver that does what it is told line by line. Built three times: looking everything up, linked with the driver
 * (LINKED), and linked with it as programs are that use a default stream per thread. */
#ifndef HAMI_PROBE_H
#define HAMI_PROBE_H

#include <cuda.h>
#include <stddef.h>
#include <stdint.h>

#define PROBE_TEXT_(name) #name
#define PROBE_TEXT(name) PROBE_TEXT_(name)

/* The driver's function under the name that the vendor's header gives it. */
#ifdef LINKED
#define GPU(name) (&name)
#else
#define GPU(name) ((__typeof__(&name))look(PROBE_TEXT(name)))
#endif
/* The same, looked up by dlsym in every build. */
#define LOOKED(name) ((__typeof__(&name))by_handle(PROBE_TEXT(name)))

#define PROBE_MOST 4096

extern CUdeviceptr blocks[PROBE_MOST];
extern CUcontext contexts[64];

/* As HAMI_PROBE_LOOKUP says: dlsym, lookup (cuGetProcAddress); with -per-thread, names of the per-thread default stream. */
void *look(const char *name);
/* Never NULL: what is missing answers CUDA_ERROR_NOT_FOUND. */
void *by_handle(const char *name);
/* The driver library as this program opened it; NULL: there is none. */
void *driver_handle(void);
void *nvml_handle(void);

/* One line of answer: the driver's code and two numbers. */
void answer(int code, unsigned long long a, unsigned long long b);
/* 10, 10k, 10b: MiB, KiB, bytes. */
size_t bytes_of(const char *text);
double now(void);
void pause_ms(double ms);

struct step { const char *name; void (*run)(char **word); };     /* word[0] is the name; further words are "0" where none came */
extern const struct step memory_steps[], work_steps[], lookup_steps[], process_steps[];

#endif
