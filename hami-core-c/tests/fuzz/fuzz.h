/* What a target of the fuzzer is, and how it takes its input apart. */
#ifndef HAMI_FUZZ_H
#define HAMI_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A law of the target itself, beyond what the sanitizers see. */
#define LAW(condition) do { if (!(condition)) { fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); abort(); } } while (0)

struct bytes { const uint8_t *at, *end; };

static inline uint64_t number(struct bytes *b, unsigned size)
{
    uint64_t n = 0;
    for (; size && b->at < b->end; size--)
        n = n << 8 | *b->at++;
    return n;
}

#endif
