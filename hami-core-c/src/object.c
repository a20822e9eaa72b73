#include "object.h"

#include <string.h>

static void describe(const struct dl_phdr_info *info, struct object *out)
{
    const ElfW(Dyn) *dynamic = NULL;
    *out = (struct object){.base = info->dlpi_addr, .low = UINTPTR_MAX, .path = info->dlpi_name};
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        uintptr_t at = info->dlpi_addr + p->p_vaddr;
        if (p->p_type == PT_DYNAMIC)
            dynamic = (const ElfW(Dyn) *)at;
        if (p->p_type != PT_LOAD)
            continue;
        if (at < out->low)
            out->low = at;
        if (at + p->p_memsz > out->high)
            out->high = at + p->p_memsz;
    }
    size_t soname = 0;
    bool named = false;
    for (; dynamic && dynamic->d_tag != DT_NULL; dynamic++) {
        uintptr_t at = dynamic->d_un.d_ptr;
        if (at < info->dlpi_addr)       /* an architecture or object whose section stays as it is in the file */
            at += info->dlpi_addr;
        switch (dynamic->d_tag) {
        case DT_STRTAB: out->strings = (const char *)at; break;
        case DT_SYMTAB: out->symbols = (const ElfW(Sym) *)at; break;
        case DT_VERSYM: out->versions = (const ElfW(Half) *)at; break;
        case DT_GNU_HASH: out->gnu_hash = (const uint32_t *)at; break;
        case DT_HASH: out->old_hash = (const uint32_t *)at; break;
        case DT_SONAME: soname = dynamic->d_un.d_val; named = true; break;
        default: break;
        }
    }
    if (named && out->strings)
        out->soname = out->strings + soname;
}

static void *defined(const struct object *o, uint32_t i, const char *name)
{
    const ElfW(Sym) *s = &o->symbols[i];
    unsigned type = s->st_info & 15;
    if (s->st_shndx == SHN_UNDEF || (s->st_info >> 4) == STB_LOCAL || (type != STT_FUNC && type != STT_NOTYPE && type != STT_OBJECT))
        return NULL;
    if (strcmp(o->strings + s->st_name, name) != 0)
        return NULL;
    return (void *)(o->base + s->st_value);
}

/* A hidden version is somebody's old one: good enough only where there is no default. */
static void *better(const struct object *o, uint32_t i, void *found, void *so_far, bool *final)
{
    *final = found && !(o->versions && (o->versions[i] & 0x8000));
    return *final || !so_far ? found : so_far;
}

static void *by_gnu_hash(const struct object *o, const char *name)
{
    uint32_t hash = 5381;
    for (const unsigned char *c = (const unsigned char *)name; *c; c++)
        hash = hash * 33 + *c;
    const uint32_t *table = o->gnu_hash, buckets = table[0], first = table[1], bloom = table[2];
    const ElfW(Addr) *filter = (const ElfW(Addr) *)(table + 4);
    const uint32_t *bucket = (const uint32_t *)(filter + bloom), *chain = bucket + buckets;
    const unsigned bits = 8 * sizeof(ElfW(Addr));
    ElfW(Addr) word = bloom ? filter[hash / bits % bloom] : ~(ElfW(Addr))0;
    if (!buckets || !(word >> (hash % bits) & 1) || !(word >> ((hash >> table[3]) % bits) & 1))
        return NULL;
    uint32_t i = bucket[hash % buckets];
    if (i < first)
        return NULL;
    void *found = NULL;
    for (;; i++) {
        uint32_t entry = chain[i - first];
        bool final = false;
        if ((entry | 1) == (hash | 1)) {
            void *here = defined(o, i, name);
            if (here)
                found = better(o, i, here, found, &final);
        }
        if (final || (entry & 1))
            return found;
    }
}

static void *by_old_hash(const struct object *o, const char *name)
{
    uint32_t hash = 0;
    for (const unsigned char *c = (const unsigned char *)name; *c; c++) {
        hash = (hash << 4) + *c;
        uint32_t high = hash & 0xf0000000u;
        hash = (hash ^ (high >> 24)) & ~high;
    }
    const uint32_t buckets = o->old_hash[0], chains = o->old_hash[1], *bucket = o->old_hash + 2, *chain = bucket + buckets;
    void *found = NULL;
    for (uint32_t i = buckets ? bucket[hash % buckets] : 0; i != 0 && i < chains; i = chain[i]) {
        bool final = false;
        void *here = defined(o, i, name);
        if (here)
            found = better(o, i, here, found, &final);
        if (final)
            break;
    }
    return found;
}

void *object_symbol(const struct object *o, const char *name)
{
    if (!o->symbols || !o->strings)
        return NULL;
    return o->gnu_hash ? by_gnu_hash(o, name) : o->old_hash ? by_old_hash(o, name) : NULL;
}

struct search {
    const void *address;            /* wanted: the object that holds it, or what comes after that */
    const char *soname, *name;
    struct object *out;
    void *found;
    bool passed;
};

static int look_at(struct dl_phdr_info *info, size_t size, void *data)
{
    (void)size;
    struct search *s = data;
    struct object o;
    describe(info, &o);
    bool holds = (uintptr_t)s->address >= o.low && (uintptr_t)s->address < o.high;
    if (s->name && !s->passed) {
        s->passed = holds;
        return 0;
    }
    if (s->name)
        s->found = object_symbol(&o, s->name);
    else if (s->soname)
        s->found = o.soname && strncmp(o.soname, s->soname, strlen(s->soname)) == 0 ? (void *)o.low : NULL;
    else
        s->found = holds ? (void *)o.low : NULL;
    if (!s->found)
        return 0;
    *s->out = o;
    return 1;
}

bool object_at(const void *address, struct object *out)
{
    return dl_iterate_phdr(look_at, &(struct search){.address = address, .out = out}) != 0;
}

bool object_called(const char *soname, struct object *out)
{
    return dl_iterate_phdr(look_at, &(struct search){.soname = soname, .out = out}) != 0;
}

void *object_next(const void *after, const char *name, struct object *out)
{
    struct search s = {.address = after, .name = name, .out = out};
    dl_iterate_phdr(look_at, &s);
    return s.found;
}

void *libc_symbol(const char *name)
{
    static const char *const homes[] = {"libc.so.6", "libdl.so.2", "libpthread.so.0"};
    for (unsigned i = 0; i < sizeof homes / sizeof *homes; i++) {
        struct object o;
        void *found = object_called(homes[i], &o) ? object_symbol(&o, name) : NULL;
        if (found)
            return found;
    }
    return NULL;
}
