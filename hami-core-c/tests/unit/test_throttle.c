#include "throttle.h"

#include <string.h>

#include "check.h"

#define SECOND INT64_C(1000000000)
#define MS INT64_C(1000000)

static struct hami_device device;
static _Atomic int64_t slot_hold;
static struct throttle account;

static void join(unsigned percent)
{
    throttle_join(&account, &device, &slot_hold, percent);
}

/* One launch of 5 ms, asked for, flown and settled; wall time goes on by as much. */
static bool launch(int64_t *now)
{
    int64_t price = throttle_price(&account, 7), wait;
    if (!throttle_take(&account, price) && !throttle_admit(&account, *now, *now, price, &wait)) {
        *now += wait;
        return false;
    }
    throttle_flies(&account, 7, 1, price);
    struct batch b = {.part = {{7, 1}}, .parts = 1, .price = price, .start = *now, .end = *now + 5 * MS};
    *now += 5 * MS;
    throttle_tick(&account, *now, &b, 1, 0);
    return true;
}

static unsigned percent_from(int64_t start)
{
    int64_t now = start, busy = 0;
    while (now < start + 5 * SECOND)
        busy += launch(&now) ? 5 * MS : 0;
    return (unsigned)(100 * busy / (now - start));
}

static void work_is_paid_for_at_any_uptime(void)
{
    static const int64_t HOURS[] = {0, 1, 3, 5, 7, 11, 24, 100, 24 * 365, 24 * 365 * 10};
    for (unsigned i = 0; i < sizeof HOURS / sizeof *HOURS; i++) {
        memset(&device, 0, sizeof device);
        join(30);
        unsigned percent = percent_from(SECOND + HOURS[i] * 3600 * SECOND);
        CHECK(percent >= 28 && percent <= 33);
    }
}

static void a_clock_that_began_anew_is_paid_for_too(void)
{
    memset(&device, 0, sizeof device);
    join(30);
    percent_from(100 * 3600 * SECOND);
    join(30);                               /* the machine has started again, the container's file is the same */
    unsigned percent = percent_from(60 * SECOND);
    CHECK(percent >= 28 && percent <= 33);
}

static void work_after_hours_of_rest_is_paid_for(void)
{
    memset(&device, 0, sizeof device);
    join(30);
    for (int64_t hour = 1; hour < 48; hour += 3) {
        unsigned percent = percent_from(hour * 3600 * SECOND);
        CHECK(percent >= 28 && percent <= 33);
    }
}

/* Work that is wall time alone, told to the law in pages and samples: what does the law take `percent` of the device to be worth? */
static double gain_after(int64_t start, uint32_t own, uint32_t others)
{
    int64_t now = start;
    for (unsigned i = 0; i < 6; i++) {
        for (unsigned k = 0; k < 500; k++, now += 2 * MS) {
            struct batch b = {.part = {{7, 1}}, .parts = 1, .start = now, .end = now + MS, .closed = now};
            throttle_tick(&account, now + 2 * MS, &b, 1, 0);
            throttle_book(&account, now + 2 * MS, false);
        }
        throttle_sample(&account, now, &own, 1, &others, 1, own + others);
    }
    float gain;
    uint32_t bits = device.gain[0];
    memcpy(&gain, &bits, sizeof gain);
    return (double)gain;
}

static void samples_count_after_the_clock_began_anew(void)
{
    memset(&device, 0, sizeof device);
    join(30);
    double before = gain_after(100 * 3600 * SECOND, 25, 60);
    CHECK(before > 0.4 && before < 0.65);       /* half of the time was ours, half of that the device worked for us */
    join(30);
    double after = gain_after(60 * SECOND, 50, 40);
    CHECK(after > 0.9 && after < 1.1);
}

static void a_process_that_outlives_its_clock_pays(void)
{
    memset(&device, 0, sizeof device);
    join(30);
    percent_from(100 * 3600 * SECOND);
    unsigned percent = percent_from(60 * SECOND);       /* the same process: brought back elsewhere from a file */
    CHECK(percent >= 28 && percent <= 33);
}

static void a_suspended_process_owes_nothing_and_has_saved_little(void)
{
    memset(&device, 0, sizeof device);
    join(30);
    int64_t now = SECOND;
    percent_from(now);
    int64_t later = now + 3600 * SECOND, busy = 0;
    for (now = later; now < later + SECOND;)
        busy += launch(&now) ? 5 * MS : 0;
    CHECK(busy <= 330 * MS && busy >= 280 * MS);
}

/* A tenant can write its region: times that lie at the ends of what fits. */
static void times_that_nobody_can_have_written_do_no_harm(void)
{
    static const uint64_t TIMES[] = {1, INT64_MAX, (uint64_t)INT64_MAX + 1, UINT64_MAX, UINT64_MAX - 1};
    for (unsigned i = 0; i < sizeof TIMES / sizeof *TIMES; i++) {
        memset(&device, 0, sizeof device);
        join(30);
        device.refilled = device.seen = TIMES[i];
        for (unsigned k = 0; k < HAMI_BOOKS; k++)
            device.books[k].at = TIMES[i];
        for (unsigned k = 0; k < HAMI_STRIP; k++)
            device.strip[k] = TIMES[i];
        unsigned percent = percent_from(1000 * SECOND);
        CHECK(percent >= 27 && percent <= 33);
        CHECK(gain_after(2000 * SECOND, 25, 60) > 0);
    }
}

int main(void)
{
    samples_count_after_the_clock_began_anew();
    a_process_that_outlives_its_clock_pays();
    a_suspended_process_owes_nothing_and_has_saved_little();
    times_that_nobody_can_have_written_do_no_harm();
    work_is_paid_for_at_any_uptime();
    a_clock_that_began_anew_is_paid_for_too();
    work_after_hours_of_rest_is_paid_for();
    return 0;
}
