/* Variables of the environment: lines NAME=VALUE in any order, with anything in them. */
#include "fuzz.h"
#include "options.h"

static char text[65536];

static const char *look(const char *name)
{
    size_t n = strlen(name);
    for (const char *line = text; *line; line += strlen(line) + 1)
        if (strncmp(line, name, n) == 0 && line[n] == '=')
            return line + n + 1;
    return NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t n = 0;
    for (size_t i = 0; i < size && n + 2 < sizeof text; i++) {
        char c = (char)data[i];
        if (c == '\n')
            c = 0;
        if (c || (n && text[n - 1]))            /* no empty line: it would end the list */
            text[n++] = c;
    }
    text[n] = text[n + 1] = 0;
    struct options o;
    options_read(&o, look);
    LAW(memchr(o.region, 0, sizeof o.region) && o.cores <= 100);
    LAW(o.memory == NO_LIMIT || (o.memory && o.memory <= UINT64_C(1) << 47));
    for (unsigned i = 0; i < OPTION_DEVICES; i++) {
        LAW(o.memory_of[i] == NO_LIMIT || (o.memory_of[i] && o.memory_of[i] <= UINT64_C(1) << 47));
        LAW(o.cores_of[i] <= 100);
    }
    /* A limit that could not be understood must be known to be one. */
    const char *memory = look("CUDA_DEVICE_MEMORY_LIMIT");
    uint64_t bytes;
    LAW(!memory || option_size(memory, &bytes) || o.wrong);
    return 0;
}
