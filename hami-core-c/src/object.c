#include "object.h"

#include <stdatomic.h>
#include <stddef.h>
#include <sys/auxv.h>

static EARLY void read_dynamic(const ElfW(Dyn) *dynamic, struct object *out)
{
    size_t soname = 0;
    bool named = false;
    for (; dynamic && dynamic->d_tag != DT_NULL; dynamic++) {
        uintptr_t at = dynamic->d_un.d_ptr;
        if (at < out->base)             /* an architecture or object whose section stays as it is in the file */
            at += out->base;
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

static EARLY void describe(const struct dl_phdr_info *info, struct object *out)
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
    read_dynamic(dynamic, out);
}

static EARLY void *defined(const struct object *o, uint32_t i, const char *name)
{
    const ElfW(Sym) *s = &o->symbols[i];
    unsigned type = s->st_info & 15;
    if (s->st_shndx == SHN_UNDEF || (s->st_info >> 4) == STB_LOCAL || (type != STT_FUNC && type != STT_NOTYPE && type != STT_OBJECT))
        return NULL;
    if (!same_text(o->strings + s->st_name, name))
        return NULL;
    return (void *)(o->base + s->st_value);
}

/* A hidden version is somebody's old one: good enough only where there is no default. */
static EARLY void *better(const struct object *o, uint32_t i, void *found, void *so_far, bool *final)
{
    *final = found && !(o->versions && (o->versions[i] & 0x8000));
    return *final || !so_far ? found : so_far;
}

static EARLY void *by_gnu_hash(const struct object *o, const char *name)
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

static EARLY void *by_old_hash(const struct object *o, const char *name)
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

EARLY void *object_symbol(const struct object *o, const char *name)
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

static EARLY int look_at(struct dl_phdr_info *info, size_t size, void *data)
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
        s->found = o.soname && begins_with(o.soname, s->soname) ? (void *)o.low : NULL;
    else
        s->found = holds ? (void *)o.low : NULL;
    if (!s->found)
        return 0;
    *s->out = o;
    return 1;
}

typedef int walker(int (*look)(struct dl_phdr_info *, size_t, void *), void *data);

/* The C library's own dl_iterate_phdr. It is among the objects that were there at the start, which come first in the loader's list
 * and stay; the list hangs on the program's dynamic section. Where that shows nothing, whatever is in scope under the name. */
static EARLY walker *find_walker(void)
{
    const ElfW(Phdr) *headers = (const ElfW(Phdr) *)getauxval(AT_PHDR);
    const ElfW(Dyn) *dynamic = NULL;
    const struct r_debug *loader = NULL;
    uintptr_t base = 0;
    bool placed = false;
    for (unsigned long i = 0; headers && i < getauxval(AT_PHNUM); i++) {
        if (headers[i].p_type == PT_PHDR) {
            base = (uintptr_t)headers - headers[i].p_vaddr;
            placed = true;
        } else if (headers[i].p_type == PT_DYNAMIC && placed) {
            dynamic = (const ElfW(Dyn) *)(base + headers[i].p_vaddr);
        }
    }
    for (; dynamic && dynamic->d_tag != DT_NULL; dynamic++)
        if (dynamic->d_tag == DT_DEBUG)
            loader = (const struct r_debug *)dynamic->d_un.d_ptr;
    for (const struct link_map *m = loader ? loader->r_map : NULL; m; m = m->l_next) {
        struct object o = {.base = m->l_addr};
        read_dynamic(m->l_ld, &o);
        void *found = o.soname && same_text(o.soname, "libc.so.6") ? object_symbol(&o, "dl_iterate_phdr") : NULL;
        if (found)
            return (walker *)found;
    }
    return dl_iterate_phdr;
}

static EARLY int walk(struct search *s)
{
    static _Atomic(void *) known;
    void *found = atomic_load_explicit(&known, memory_order_relaxed);
    if (!found)
        atomic_store_explicit(&known, found = (void *)find_walker(), memory_order_relaxed);
    return ((walker *)found)(look_at, s);
}

EARLY bool object_at(const void *address, struct object *out)
{
    return walk(&(struct search){.address = address, .out = out}) != 0;
}

EARLY bool object_called(const char *soname, struct object *out)
{
    return walk(&(struct search){.soname = soname, .out = out}) != 0;
}

EARLY void *object_next(const void *after, const char *name, struct object *out)
{
    struct search s = {.address = after, .name = name, .out = out};
    walk(&s);
    return s.found;
}

EARLY void *libc_symbol(const char *name)
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
