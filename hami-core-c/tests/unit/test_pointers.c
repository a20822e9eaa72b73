#include "pointers.h"

#include <pthread.h>

#include "check.h"

static struct pointers table;

static void what_is_put_is_taken_once(void)
{
    struct holding h = {.bytes = 5, .context = 6, .extra = 7, .device = 3, .kind = 2}, out;
    CHECK(pointers_put(&table, FAMILY_POINTER, 0x7000000000, &h));
    CHECK(!pointers_take(&table, FAMILY_HANDLE, 0x7000000000, &out));
    CHECK(pointers_take(&table, FAMILY_POINTER, 0x7000000000, &out));
    SAME(out.bytes, 5);
    SAME(out.context, 6);
    SAME(out.extra, 7);
    SAME(out.device, 3);
    SAME(out.kind, 2);
    CHECK(!pointers_take(&table, FAMILY_POINTER, 0x7000000000, &out));
}

static void a_model_agrees_over_many_changes(void)
{
    static uint8_t there[50000];
    unsigned seed = 3;
    uint64_t live = 0;
    for (int i = 0; i < 2000000; i++) {
        unsigned k = (unsigned)rand_r(&seed) % 50000;
        struct holding h = {.bytes = k}, out;
        uint64_t key = 0x7f0000000000 + (uint64_t)k * 512;
        if (there[k]) {
            CHECK(pointers_take(&table, FAMILY_POINTER, key, &out) && out.bytes == k);
            live--;
        } else {
            CHECK(!pointers_get(&table, FAMILY_POINTER, key, &out));
            CHECK(pointers_put(&table, FAMILY_POINTER, key, &h));
            live++;
        }
        there[k] ^= 1;
    }
    SAME(pointers_count(&table), live);
}

static int dropped;
static void count(void *who, enum family family, uint64_t key, const struct holding *h)
{
    (void)who;
    (void)family;
    (void)key;
    dropped += h->context == 77;
}

static void code_of_a_library_is_dropped_and_nothing_else(void)
{
    uint64_t before = pointers_count(&table);
    dropped = 0;
    for (uint64_t i = 0; i < 100; i++) {
        CHECK(pointers_put(&table, FAMILY_CODE, 5000 + i, &(struct holding){.context = 77, .extra = i % 2 ? 9 : 8}));
        CHECK(pointers_put(&table, FAMILY_POINTER, 5000 + i, &(struct holding){.context = 77, .extra = 9}));
    }
    pointers_drop_code(&table, 9, count, NULL);
    SAME(dropped, 50);
    SAME(pointers_count(&table), before + 150);
    pointers_drop(&table, 77, count, NULL);
    SAME(pointers_count(&table), before);
    dropped = 0;
}

static void what_dies_with_a_context_is_dropped_and_nothing_else(void)
{
    uint64_t before = pointers_count(&table);
    for (uint64_t i = 0; i < 1000; i++)
        CHECK(pointers_put(&table, FAMILY_ARRAY, 1000 + i, &(struct holding){.context = i % 2 ? 77 : 78}));
    pointers_drop(&table, 77, count, NULL);
    SAME(dropped, 500);
    SAME(pointers_count(&table), before + 500);
}

static void *hammer(void *argument)
{
    uint64_t base = (uint64_t)(uintptr_t)argument << 32;
    for (uint64_t i = 0; i < 100000; i++) {
        struct holding h = {.bytes = i}, out;
        CHECK(pointers_put(&table, FAMILY_POINTER, base + i % 300, &h));
        CHECK(pointers_take(&table, FAMILY_POINTER, base + i % 300, &out) && out.bytes == i);
    }
    return NULL;
}

static void threads_do_not_meet(void)
{
    pthread_t t[4];
    for (uintptr_t i = 0; i < 4; i++)
        pthread_create(&t[i], NULL, hammer, (void *)(i + 1));
    for (int i = 0; i < 4; i++)
        pthread_join(t[i], NULL);
}

static _Atomic int stranger_ready, stranger_done;
static struct pointers shared_late;

static void *stranger(void *argument)
{
    struct holding h = {.bytes = 1}, out;
    while (!stranger_ready)
        ;
    for (uint64_t i = 0; i < 20000; i++) {
        CHECK(pointers_put(&shared_late, FAMILY_HANDLE, 7 + i % 3, &h));
        CHECK(pointers_take(&shared_late, FAMILY_HANDLE, 7 + i % 3, &out));
    }
    stranger_done = 1;
    return argument;
}

/* The first user goes in without a lock; a second thread comes while it is busy, and neither loses anything. */
static void a_second_thread_ends_the_privilege_of_the_first(void)
{
    pthread_t t;
    struct holding h = {.bytes = 1}, out;
    CHECK(pointers_put(&shared_late, FAMILY_POINTER, 1, &h));
    CHECK(shared_late.bias.stage == BIAS_ON || !bias_possible());
    pthread_create(&t, NULL, stranger, NULL);
    for (uint64_t i = 0; !stranger_done; i++) {
        stranger_ready = i > 1000;
        CHECK(pointers_put(&shared_late, FAMILY_POINTER, 2 + i % 500, &h));
        CHECK(pointers_take(&shared_late, FAMILY_POINTER, 2 + i % 500, &out));
    }
    pthread_join(t, NULL);
    SAME(shared_late.bias.stage, BIAS_OVER);
    SAME(pointers_count(&shared_late), 1);
}

int main(void)
{
    a_second_thread_ends_the_privilege_of_the_first();
    what_is_put_is_taken_once();
    a_model_agrees_over_many_changes();
    code_of_a_library_is_dropped_and_nothing_else();
    what_dies_with_a_context_is_dropped_and_nothing_else();
    threads_do_not_meet();
    return 0;
}
