/* Loaded objects and their symbols, read from their own tables: no dlsym, no dlerror, no allocation, no lock but the loader's.
 *
 * Others call us before anything of theirs is ready: a sanitizer's runtime looks its own functions up while it starts, with strcmp and
 * dl_iterate_phdr replaced by entries that cannot be called yet. So nothing on the way of a look-up leaves this library, and nothing
 * there is instrumented (EARLY). */
#ifndef HAMI_OBJECT_H
#define HAMI_OBJECT_H

#include <link.h>
#include <stdbool.h>
#include <stdint.h>

#define EARLY __attribute__((no_sanitize("address", "thread", "undefined")))

static inline EARLY bool same_text(const char *a, const char *b)
{
    while (*a && *a == *b)
        a++, b++;
    return *a == *b;
}

static inline EARLY bool begins_with(const char *text, const char *start)
{
    while (*start && *text == *start)
        text++, start++;
    return !*start;
}

struct object {
    uintptr_t base, low, high;      /* load bias; addresses it covers */
    const char *path, *soname;
    const ElfW(Sym) *symbols;
    const char *strings;
    const ElfW(Half) *versions;
    const uint32_t *gnu_hash, *old_hash;
};

/* The object that holds an address. */
bool object_at(const void *address, struct object *out);
/* The first object, in order of loading, whose soname begins so. */
bool object_called(const char *soname, struct object *out);
/* The first object loaded after the one that holds `after` which defines the name; its definition, or NULL. */
void *object_next(const void *after, const char *name, struct object *out);
/* Address of a defined, visible function or object; the default version where there are several. */
void *object_symbol(const struct object *o, const char *name);
/* A function of the C library or what used to be beside it (libdl, libpthread); NULL where it is not loaded. */
void *libc_symbol(const char *name);

#endif
