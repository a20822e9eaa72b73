#include "pointers.h"

#include <sys/mman.h>

#define FIRST_POWER 7u

struct pointer_entry {
    uint64_t key;                   /* family in the top four bits; 0 = empty */
    uint64_t context, extra;
    uint64_t bytes : 48, device : 8, kind : 8;
};

static uint64_t key_of(enum family family, uint64_t key)
{
    return (key & UINT64_C(0x0fffffffffffffff)) | (uint64_t)(family + 1) << 60;
}

static uint64_t mix(uint64_t key)
{
    key ^= key >> 32;
    key *= UINT64_C(0xd6e8feb86659fd93);
    key ^= key >> 32;
    return key;
}

static struct pointer_shard *shard_of(struct pointers *p, uint64_t key) { return &p->shards[mix(key) % POINTER_SHARDS]; }
static uint64_t home(const struct pointer_shard *s, uint64_t key) { return mix(key) / POINTER_SHARDS & ((UINT64_C(1) << s->power) - 1); }

static struct pointer_entry *entries_new(uint32_t power)
{
    size_t size = sizeof(struct pointer_entry) << power;
    void *m = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (m == MAP_FAILED)
        return NULL;
    madvise(m, size, MADV_DONTFORK);    /* a child finds no table and starts its own */
    return m;
}

/* Index of the key or of the empty place where it would go. */
static uint64_t find(const struct pointer_shard *s, uint64_t key)
{
    uint64_t mask = (UINT64_C(1) << s->power) - 1, i = home(s, key);
    while (s->entries[i].key && s->entries[i].key != key)
        i = (i + 1) & mask;
    return i;
}

static bool grow(struct pointer_shard *s)
{
    struct pointer_shard bigger = {.power = s->power ? s->power + 1 : FIRST_POWER};
    bigger.entries = entries_new(bigger.power);
    if (!bigger.entries)
        return false;
    for (uint64_t i = 0; s->power && i < UINT64_C(1) << s->power; i++)
        if (s->entries[i].key)
            bigger.entries[find(&bigger, s->entries[i].key)] = s->entries[i];
    if (s->power)
        munmap(s->entries, sizeof(struct pointer_entry) << s->power);
    s->power = bigger.power;
    s->entries = bigger.entries;
    return true;
}

bool pointers_put(struct pointers *p, enum family family, uint64_t number, const struct holding *h)
{
    uint64_t key = key_of(family, number);
    struct pointer_shard *s = shard_of(p, key);
    bool owner = bias_enter(&p->bias, &s->latch);
    bool room = (s->power && s->count < (UINT64_C(3) << s->power) / 4) || grow(s);
    if (room) {
        struct pointer_entry *e = &s->entries[find(s, key)];
        s->count += !e->key;
        *e = (struct pointer_entry){.key = key, .context = h->context, .extra = h->extra, .bytes = h->bytes & 0xffffffffffff,
            .device = h->device, .kind = h->kind};
    }
    bias_leave(&p->bias, &s->latch, owner);
    return room;
}

static void unpack(const struct pointer_entry *e, struct holding *out)
{
    *out = (struct holding){.bytes = e->bytes, .context = e->context, .extra = e->extra, .device = e->device, .kind = e->kind};
}

/* Close the gap: what probing had pushed past it moves back. */
static void remove_at(struct pointer_shard *s, uint64_t gap)
{
    uint64_t mask = (UINT64_C(1) << s->power) - 1;
    for (uint64_t i = (gap + 1) & mask; s->entries[i].key; i = (i + 1) & mask) {
        uint64_t away = (i - home(s, s->entries[i].key)) & mask;
        if (away >= ((i - gap) & mask)) {
            s->entries[gap] = s->entries[i];
            gap = i;
        }
    }
    s->entries[gap].key = 0;
    s->count--;
}

bool pointers_take(struct pointers *p, enum family family, uint64_t number, struct holding *out)
{
    uint64_t key = key_of(family, number);
    struct pointer_shard *s = shard_of(p, key);
    bool owner = bias_enter(&p->bias, &s->latch);
    uint64_t i = s->power ? find(s, key) : 0;
    bool there = s->power && s->entries[i].key;
    if (there) {
        unpack(&s->entries[i], out);
        remove_at(s, i);
    }
    bias_leave(&p->bias, &s->latch, owner);
    return there;
}

bool pointers_get(struct pointers *p, enum family family, uint64_t number, struct holding *out)
{
    uint64_t key = key_of(family, number);
    struct pointer_shard *s = shard_of(p, key);
    bool owner = bias_enter(&p->bias, &s->latch);
    uint64_t i = s->power ? find(s, key) : 0;
    bool there = s->power && s->entries[i].key;
    if (there)
        unpack(&s->entries[i], out);
    bias_leave(&p->bias, &s->latch, owner);
    return there;
}

bool pointers_add(struct pointers *p, enum family family, uint64_t number, int64_t change, struct holding *out)
{
    uint64_t key = key_of(family, number);
    struct pointer_shard *s = shard_of(p, key);
    bool owner = bias_enter(&p->bias, &s->latch);
    uint64_t i = s->power ? find(s, key) : 0;
    bool there = s->power && s->entries[i].key;
    if (there) {
        s->entries[i].extra += (uint64_t)change;
        unpack(&s->entries[i], out);
        if (!out->extra)
            remove_at(s, i);
    }
    bias_leave(&p->bias, &s->latch, owner);
    return there;
}

bool pointers_widen(struct pointers *p, enum family family, uint64_t number, uint64_t bytes, uint64_t *more)
{
    uint64_t key = key_of(family, number);
    struct pointer_shard *s = shard_of(p, key);
    bool owner = bias_enter(&p->bias, &s->latch);
    uint64_t i = s->power ? find(s, key) : 0;
    bool there = s->power && s->entries[i].key;
    *more = there && bytes > s->entries[i].bytes ? bytes - s->entries[i].bytes : 0;
    if (*more)
        s->entries[i].bytes = bytes & 0xffffffffffff;
    bias_leave(&p->bias, &s->latch, owner);
    return there;
}

static enum family family_of(const struct pointer_entry *e) { return (enum family)((e->key >> 60) - 1); }
static bool in_context(const struct pointer_entry *e, uint64_t context) { return e->context == context; }
static bool code_of(const struct pointer_entry *e, uint64_t extra) { return family_of(e) == FAMILY_CODE && e->extra == extra; }

static void drop(struct pointers *p, bool (*is_one)(const struct pointer_entry *e, uint64_t what), uint64_t what,
                 void (*gone)(void *who, enum family family, uint64_t key, const struct holding *h), void *who)
{
    for (unsigned n = 0; n < POINTER_SHARDS; n++) {
        struct pointer_shard *s = &p->shards[n];
        bool owner = bias_enter(&p->bias, &s->latch);
        for (uint64_t i = 0; s->power && i < UINT64_C(1) << s->power;) {
            struct pointer_entry e = s->entries[i];
            if (!e.key || !is_one(&e, what)) {
                i++;
                continue;
            }
            remove_at(s, i);
            struct holding h;
            unpack(&e, &h);
            bias_leave(&p->bias, &s->latch, owner);     /* the ledger is never changed inside */
            gone(who, family_of(&e), e.key & UINT64_C(0x0fffffffffffffff), &h);
            owner = bias_enter(&p->bias, &s->latch);
        }
        bias_leave(&p->bias, &s->latch, owner);
    }
}

void pointers_drop(struct pointers *p, uint64_t context, void (*gone)(void *who, enum family family, uint64_t key, const struct holding *h),
                   void *who)
{
    drop(p, in_context, context, gone, who);
}

void pointers_drop_code(struct pointers *p, uint64_t extra, void (*gone)(void *who, enum family family, uint64_t key, const struct holding *h),
                        void *who)
{
    drop(p, code_of, extra, gone, who);
}

uint64_t pointers_count(struct pointers *p)
{
    uint64_t n = 0;
    for (unsigned i = 0; i < POINTER_SHARDS; i++)
        n += p->shards[i].count;
    return n;
}
