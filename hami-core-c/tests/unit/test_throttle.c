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
    if (!throttle_take(&account, price) && !throttle_admit(&account, *now, price, &wait)) {
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

int main(void)
{
    work_is_paid_for_at_any_uptime();
    a_clock_that_began_anew_is_paid_for_too();
    work_after_hours_of_rest_is_paid_for();
    return 0;
}
