/* The compute law against the target table of its study, cell by cell, on the time model: no number here says anything about silicon.
 *
 *     grid            a line for each row; status 1 when a cell lies outside what its row is held to
 *     grid --cells    a line for every cell before it
 *     grid --few      every fifth cell, for slow machines
 *     grid --seed N   other dice
 *     grid --table    the page of the documentation: targets and worst results
 *
 * A row has the target of the study. Where the law does not reach it in every cell, the row is held to what it does reach, and the
 * page says how many cells miss.
 *
 * q is one kernel in the time that is measured, in points. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plant.h"

#define NO_TARGET 1000.0

enum measure { NONE, FIRST, OTHER, RATIO, SUM, SPREAD, BURST, RESETTLE, LATENCY, WAIT, IN_DEBT, OFFERED };
static const char *const MEASURES[] = {
    "", "first second over the limit, points", "share of the other, points off what it can have", "ratio of the shares", "sum of the shares",
    "between processes, points", "second after the rest, points over the limit", "until 0.5 s windows hold the new limit, s",
    "99 % of the requests, ms over perfect knowledge", "longest a launch is held back, s", "launches under way when one is let through", "points off what was asked for"};

struct row {
    const char *name;
    double low, high;               /* of the mean, points off the limit; q is added */
    double window_low, window_high; /* of one-second windows; NO_TARGET: not asked */
    double settle;                  /* s; windows count from here */
    enum measure measure;
    double least, most;             /* of the other measure */
    double held, held_window, held_other;   /* how far beyond these a cell may lie; points, or what the measure counts in */
    /* as measured */
    double worst_low, worst_high, worst_window_low, worst_window_high, worst_least, worst_most;
    int cells, missed, failed;
};

static struct row rows[64];
static int row_count, shown, few, seen;
static unsigned seed = 1;

static struct row *row(struct row what)
{
    struct row *r = &rows[row_count++];
    *r = what;
    if (r->settle == 0)
        r->settle = 2;
    if (r->window_high == 0)
        r->window_low = -NO_TARGET, r->window_high = NO_TARGET;
    r->worst_low = r->worst_window_low = r->worst_least = 1e9;
    r->worst_high = r->worst_window_high = r->worst_most = -1e9;
    return r;
}

static double measured(const struct row *r, const struct cell *c, const struct outcome *o)
{
    struct cell exact = *c;
    switch (r->measure) {
    case FIRST: return o->first - c->limit;
    case OTHER:                     /* a switch of contexts is nobody's time, so two that ask for all of it cannot have it */
        exact.oracle = true;
        return o->other - fmin(100 - c->limit, plant_run(&exact, r->settle, seed).other);
    case RATIO: return o->other / o->share;
    case SUM: return o->share + o->other;
    case SPREAD: return o->spread;
    case BURST: return o->burst;
    case RESETTLE: return o->resettle;
    case LATENCY:
        exact.oracle = true;
        return o->latency - plant_run(&exact, r->settle, seed).latency;
    case WAIT: return o->wait;
    case IN_DEBT: return o->in_debt;
    case OFFERED:
        exact.oracle = true;
        return o->share - plant_run(&exact, r->settle, seed).share;
    default: return 0;
    }
}

static void widen(double *low, double *high, double value)
{
    *low = fmin(*low, value);
    *high = fmax(*high, value);
}

static bool within(double value, double low, double high, double slack) { return value >= low - slack && value <= high + slack; }

static void try_cell(struct row *r, struct cell c)
{
    if (few && seen++ % 5)
        return;
    struct outcome o = plant_run(&c, r->settle, seed);
    double off = o.share - c.limit, extra = measured(r, &c, &o), window_quantum = c.kernel_us > 10000 ? c.kernel_us / 10000 : 0;
    bool asked = r->window_high < NO_TARGET, good = true, held = true;
    for (int i = 0; i < 2; i++) {
        bool here = within(off, r->low, r->high, o.quantum + (i ? r->held : 0));
        here = here && (!asked || (within(o.low, r->window_low, r->window_high, window_quantum + (i ? r->held_window : 0)) &&
                                   within(o.high, r->window_low, r->window_high, window_quantum + (i ? r->held_window : 0))));
        here = here && (!r->measure || within(extra, r->least, r->most, i ? r->held_other : 0));
        *(i ? &held : &good) = here;
    }
    r->cells++;
    r->missed += !good;
    r->failed += !held;
    widen(&r->worst_low, &r->worst_high, off);
    widen(&r->worst_least, &r->worst_most, extra);
    if (asked) {
        r->worst_window_low = fmin(r->worst_window_low, o.low);
        r->worst_window_high = fmax(r->worst_window_high, o.high);
    }
    if (shown > 0 || (!held && shown == 0))
        printf("%s %s: %.0f us, %.0f %%, %d processes, pattern %d, company %d, feed %d, turn %.1f, spread %.1f: off %+.2f (q %.2f), other %.2f, "
               "windows %+.1f %+.1f, first %.1f, %s %.2f\n", !held ? "FAILS" : good ? "     " : "miss ", r->name, c.kernel_us, c.limit, c.processes,
            (int)c.pattern, (int)c.other, (int)c.feed, c.turn_ms ? c.turn_ms : 2, c.spread, off, o.quantum, o.other, o.low, o.high, o.first,
            MEASURES[r->measure], extra);
    fflush(stdout);
}

/* ---- the rows -------------------------------------------------------------------------------------------------------------------- */

static const double LIMITS[] = {5, 10, 30, 50, 70, 90};
#define EACH(one, ...) for (const double *one = (const double[]){__VA_ARGS__, -1}; *one >= 0; one++)

static void alone(void)
{
    struct row *r = row((struct row){.name = "alone, kernels of 5 us to 50 ms, limits 5 to 90, 1 to 64 processes", .low = -1.5, .high = 1.5, .window_low = -2.5, .window_high = 2.5, .held = 0.5, .held_window = 1});
    for (int l = 0; l < 6; l++)
        EACH(us, 5, 50, 500, 5000, 50000)
            EACH(n, 1, 4, 16, 64) {
                if (*us == 5 && (*n > 1 || l % 2))
                    continue;           /* many events, little news */
                if (*n == 64 && l % 2)
                    continue;
                try_cell(r, (struct cell){.kernel_us = *us, .limit = LIMITS[l], .processes = (int)*n});
            }
    r = row((struct row){.name = "alone, the same grid on cards of 20, 80 and 188 multiprocessors", .low = -1.5, .high = 1.5, .window_low = -2.5, .window_high = 2.5, .held = 0.5, .held_window = 1});
    EACH(l, 10, 30, 70)
        EACH(blocks, 528, 5280)
            EACH(sms, 20, 80, 188)
                try_cell(r, (struct cell){.kernel_us = 500, .limit = *l, .processes = 1, .blocks = (int)*blocks, .sms = (int)*sms});
    r = row((struct row){.name = "alone, 0.5 s and 2 s", .low = -2, .high = 2, .measure = IN_DEBT, .least = 0, .most = 1, .held = 3});
    for (int l = 1; l < 5; l++)
        EACH(us, 500000, 2000000)
            EACH(n, 1, 4)
                try_cell(r, (struct cell){.kernel_us = *us, .limit = LIMITS[l], .processes = (int)*n});
    r = row((struct row){.name = "graphs, floods, short and long kernels mixed, training, half a second on and off", .low = -1.5, .high = 1.5, .window_low = -2.5, .window_high = 2.5, .held = 0.5, .held_window = 2.5});
    EACH(l, 10, 30, 70)
        EACH(n, 1, 4) {
            try_cell(r, (struct cell){.kernel_us = 3000, .limit = *l, .processes = (int)*n});
            try_cell(r, (struct cell){.kernel_us = 500, .limit = *l, .processes = (int)*n, .pattern = FLOOD});
            try_cell(r, (struct cell){.kernel_us = 5000, .limit = *l, .processes = (int)*n, .pattern = FLOOD});
            try_cell(r, (struct cell){.kernel_us = 500, .limit = *l, .processes = (int)*n, .pattern = MIXED});
            try_cell(r, (struct cell){.kernel_us = 500, .limit = *l, .processes = (int)*n, .pattern = TRAINING});
        }
}

static void trickles(void)
{
    struct row *r = row((struct row){.name = "kernels of 50 us, one each 200 us, below the limit: never held back", .low = -100, .high = 1, .measure = OFFERED, .least = -1, .most = 1, .held_other = 1});
    EACH(l, 30, 50, 70)
        EACH(other, NOBODY, SATURATING)
            try_cell(r, (struct cell){.kernel_us = 50, .limit = *l, .processes = 1, .pattern = TRICKLE, .other = (enum company)*other});
}

static void neighbours(void)
{
    struct row *r = row((struct row){.name = "saturating neighbour, up to 500 us", .low = -1.5, .high = 1.5, .window_low = -3, .window_high = 3, .held = 0.5, .held_window = 3});
    EACH(us, 50, 500) {
        EACH(l, 5, 10, 30)
            EACH(n, 1, 4, 16)
                try_cell(r, (struct cell){.kernel_us = *us, .limit = *l, .processes = (int)*n, .other = SATURATING});
        EACH(l, 50, 70)                 /* more than half takes more than one context */
            EACH(n, 4, 16)
                try_cell(r, (struct cell){.kernel_us = *us, .limit = *l, .processes = (int)*n, .other = SATURATING});
    }
    r = row((struct row){.name = "saturating neighbour, 5 to 50 ms, limits to 50", .low = -2, .high = 2, .window_low = -4, .window_high = 4, .settle = 4, .measure = FIRST, .least = -100, .most = 0, .held = 0.5, .held_window = 22});
    EACH(us, 5000, 50000)
        EACH(l, 10, 30, 50)
            EACH(n, 1, 4, 16)
                if (*l < 50 || *n > 1)
                    try_cell(r, (struct cell){.kernel_us = *us, .limit = *l, .processes = (int)*n, .other = SATURATING});
    r = row((struct row){.name = "saturating neighbour, 5 to 50 ms, limit 70", .low = -2, .high = 6, .held = 3.5});
    EACH(us, 5000, 50000)
        EACH(n, 4, 16)
            try_cell(r, (struct cell){.kernel_us = *us, .limit = 70, .processes = (int)*n, .other = SATURATING});
    r = row((struct row){.name = "saturating neighbour, 0.5 s, after 10 kernels", .low = -2, .high = 2, .held = 1.5});
    EACH(l, 10, 30)
        EACH(n, 1, 4)
            try_cell(r, (struct cell){.kernel_us = 500000, .limit = *l, .processes = (int)*n, .other = SATURATING});
    r = row((struct row){.name = "neighbour 3 s on and off, up to 500 us", .low = -2, .high = 2, .window_low = -6, .window_high = 6, .held = 0.5, .held_window = 6});
    EACH(us, 50, 500)
        EACH(l, 10, 30)
            EACH(n, 1, 4)
                try_cell(r, (struct cell){.kernel_us = *us, .limit = *l, .processes = (int)*n, .other = ON_OFF});
    r = row((struct row){.name = "neighbour 3 s on and off, 5 and 50 ms", .low = -6, .high = 6, .held = 1});
    EACH(us, 5000, 50000)
        EACH(l, 10, 30)
            EACH(n, 1, 4)
                try_cell(r, (struct cell){.kernel_us = *us, .limit = *l, .processes = (int)*n, .other = ON_OFF});
}

static void twins(void)
{
    struct row *r = row((struct row){.name = "twins 30 : 70, up to 500 us, 1 and 4 processes", .low = -1.5, .high = 1.5, .window_low = -3, .window_high = 3, .measure = RATIO, .least = 2.1, .most = 2.5, .held = 0.5, .held_window = 2, .held_other = 0.4});
    EACH(us, 50, 500)
        EACH(n, 1, 4)
            try_cell(r, (struct cell){.kernel_us = *us, .limit = 30, .processes = (int)*n, .other = TWIN});
    r = row((struct row){.name = "twins 10 : 90, up to 500 us, 1 and 4 processes", .low = -1.5, .high = 1.5, .window_low = -3, .window_high = 3, .measure = RATIO, .least = 8.3, .most = 9.7, .held = 0.5, .held_window = 2, .held_other = 0.4});
    EACH(us, 50, 500)
        EACH(n, 1, 4)
            try_cell(r, (struct cell){.kernel_us = *us, .limit = 10, .processes = (int)*n, .other = TWIN});
    r = row((struct row){.name = "twins 30 : 70, up to 500 us, 16 processes", .low = -3, .high = 3, .window_low = -3, .window_high = 3, .measure = RATIO, .least = 1.9, .most = 2.6, .held = 0.5, .held_window = 3, .held_other = 0.4});
    EACH(us, 50, 500)
        try_cell(r, (struct cell){.kernel_us = *us, .limit = 30, .processes = 16, .other = TWIN});
    r = row((struct row){.name = "twins 10 : 90, up to 500 us, 16 processes", .low = -3, .high = 3, .window_low = -3, .window_high = 3, .measure = RATIO, .least = 8, .most = 10, .held = 0.5, .held_window = 3, .held_other = 1.2});
    EACH(us, 50, 500)
        try_cell(r, (struct cell){.kernel_us = *us, .limit = 10, .processes = 16, .other = TWIN});
    r = row((struct row){.name = "twins 30 : 70, 5 ms", .low = -3, .high = 3, .measure = RATIO, .least = 2.0, .most = 2.7, .held = 0.5, .held_other = 0.5});
    EACH(n, 1, 4)
        try_cell(r, (struct cell){.kernel_us = 5000, .limit = 30, .processes = (int)*n, .other = TWIN});
    r = row((struct row){.name = "twins 10 : 90, 5 ms", .low = -3, .high = 3, .measure = RATIO, .least = 8, .most = 11, .held = 0.5, .held_other = 0.5});
    EACH(n, 1, 4)
        try_cell(r, (struct cell){.kernel_us = 5000, .limit = 10, .processes = (int)*n, .other = TWIN});
    r = row((struct row){.name = "twins 30 : 70 and 10 : 90, 50 ms", .low = -6, .high = 6, .measure = OTHER, .least = -8, .most = 6, .held = 1, .held_other = 2});
    EACH(l, 10, 30)
        EACH(n, 1, 4)
            try_cell(r, (struct cell){.kernel_us = 50000, .limit = *l, .processes = (int)*n, .other = TWIN});
    r = row((struct row){.name = "over-subscribed, 60 + 60 and 90 + 90: the sum", .low = -50, .high = 0.5, .measure = SUM, .least = 96, .most = 100, .held_other = 1.5});
    EACH(us, 500, 50000)
        EACH(l, 60, 90)
            EACH(n, 1, 4)
                try_cell(r, (struct cell){.kernel_us = *us, .limit = *l, .processes = (int)*n, .other = SAME});
    r = row((struct row){.name = "over-subscribed, 90 with 4 processes beside 90 with 1: equal per process", .low = -100, .high = 1, .measure = SPREAD, .least = 0, .most = 2, .held_other = 7});
    EACH(us, 500, 50000)
        try_cell(r, (struct cell){.kernel_us = *us, .limit = 90, .processes = 4, .other_processes = 1, .other = SAME});
}

static void irregular(void)
{
    struct row *r = row((struct row){.name = "irregular kernels (spread 0.3 to 1.2), alone", .low = -1.5, .high = 1.5, .window_low = -3.5, .window_high = 3.5, .held = 1.5, .held_window = 28});
    EACH(spread, 0.3, 0.7, 1.2)
        EACH(l, 10, 30, 50, 70)
            EACH(n, 1, 4)
                try_cell(r, (struct cell){.kernel_us = 500, .limit = *l, .processes = (int)*n, .spread = *spread});
    r = row((struct row){.name = "irregular kernels beside a neighbour or a twin", .low = -4, .high = 4, .window_low = -25, .window_high = 25, .held = 8, .held_window = 20});
    EACH(spread, 0.3, 0.7, 1.2)
        EACH(l, 10, 30)
            EACH(n, 1, 4) {
                try_cell(r, (struct cell){.kernel_us = 500, .limit = *l, .processes = (int)*n, .spread = *spread, .other = SATURATING});
                try_cell(r, (struct cell){.kernel_us = 500, .limit = *l, .processes = (int)*n, .spread = *spread, .other = TWIN});
            }
}

static void moments(void)
{
    struct row *r = row((struct row){.name = "requests at 60 % of the limit, alone", .low = -100, .high = 1, .measure = LATENCY, .least = -1000, .most = 5, .held_other = 15});
    EACH(l, 10, 30, 70)
        EACH(n, 1, 4)
            try_cell(r, (struct cell){.kernel_us = 500, .limit = *l, .processes = (int)*n, .pattern = REQUEST});
    r = row((struct row){.name = "requests at 60 % of the limit beside a neighbour, limits from 30", .low = -100, .high = 1, .measure = LATENCY, .least = -1000, .most = 15, .held_other = 15});
    EACH(l, 30, 70)
        EACH(n, 1, 4)
            try_cell(r, (struct cell){.kernel_us = 500, .limit = *l, .processes = (int)*n, .pattern = REQUEST, .other = SATURATING});
    r = row((struct row){.name = "requests at 60 % of a limit of 10 beside a neighbour", .low = -100, .high = 1, .measure = LATENCY, .least = -1000, .most = 150, .held_other = 60});
    EACH(n, 1, 4)
        try_cell(r, (struct cell){.kernel_us = 500, .limit = 10, .processes = (int)*n, .pattern = REQUEST, .other = SATURATING});
    r = row((struct row){.name = "idle 3 s, then a flood", .low = -100, .high = 2, .measure = BURST, .least = -100, .most = 3, .held_other = 0.5});
    EACH(us, 50, 500, 5000)
        EACH(l, 10, 30, 70)
            try_cell(r, (struct cell){.kernel_us = *us, .limit = *l, .processes = 1, .pattern = LATE});
    r = row((struct row){.name = "limit 60, then 20 while it runs", .low = -100, .high = 1, .measure = RESETTLE, .least = 0, .most = 0.5, .held_other = 0.3});
    EACH(us, 50, 500, 5000)
        EACH(n, 1, 4)
            try_cell(r, (struct cell){.kernel_us = *us, .limit = 60, .processes = (int)*n, .change_at = 4, .change_to = 20});
    r = row((struct row){.name = "held by the monitor for 4 s, then released", .low = -100, .high = 1, .measure = BURST, .least = -100, .most = 3, .held_other = 0.5});
    EACH(us, 500, 5000)
        EACH(l, 10, 50)
            try_cell(r, (struct cell){.kernel_us = *us, .limit = *l, .processes = 4, .pattern = FLOOD, .hold_from = 3, .hold_until = 7});
    r = row((struct row){.name = "one of 16 processes is killed each second", .low = -2, .high = 2, .measure = WAIT, .least = 0, .most = 1, .held = 0.3, .held_other = 1.5});
    EACH(us, 500, 5000)
        EACH(l, 10, 30, 70)
            try_cell(r, (struct cell){.kernel_us = *us, .limit = *l, .processes = 16, .kills = true});
}

static void feeds(void)
{
    struct row *r = row((struct row){.name = "samples six times a second", .low = -1.5, .high = 1.5, .window_low = -3, .window_high = 3, .held = 0.5, .held_window = 2});
    EACH(l, 10, 30)
        EACH(n, 1, 4) {
            try_cell(r, (struct cell){.kernel_us = 500, .limit = *l, .processes = (int)*n, .feed = FAST});
            try_cell(r, (struct cell){.kernel_us = 500, .limit = *l, .processes = (int)*n, .feed = FAST, .other = SATURATING});
            try_cell(r, (struct cell){.kernel_us = 500, .limit = *l, .processes = (int)*n, .feed = FAST, .other = TWIN});
        }
    r = row((struct row){.name = "sparse samples, 5 and 50 ms beside neighbours", .low = -6.3, .high = 6.3, .held = 4});
    EACH(us, 5000, 50000)
        EACH(l, 10, 30)
            EACH(n, 1, 4) {
                try_cell(r, (struct cell){.kernel_us = *us, .limit = *l, .processes = (int)*n, .feed = SPARSE, .other = SATURATING});
                try_cell(r, (struct cell){.kernel_us = *us, .limit = *l, .processes = (int)*n, .feed = SPARSE, .other = TWIN});
            }
    r = row((struct row){.name = "samples late, missing or sparse, 500 us", .low = -1.5, .high = 1.5, .window_low = -3, .window_high = 3, .held = 0.5, .held_window = 3});
    EACH(feed, SLOW, HOLES, SPARSE)
        EACH(l, 10, 30, 70)
            EACH(n, 1, 4) {
                try_cell(r, (struct cell){.kernel_us = 500, .limit = *l, .processes = (int)*n, .feed = (enum feed)*feed});
                if (*l < 50)
                    try_cell(r, (struct cell){.kernel_us = 500, .limit = *l, .processes = (int)*n, .feed = (enum feed)*feed, .other = SATURATING});
            }
    r = row((struct row){.name = "samples late or missing, 5 ms beside a neighbour", .low = -2, .high = 2, .held = 1});
    EACH(feed, SLOW, HOLES)
        EACH(l, 10, 30)
            EACH(n, 1, 4)
                try_cell(r, (struct cell){.kernel_us = 5000, .limit = *l, .processes = (int)*n, .feed = (enum feed)*feed, .other = SATURATING});
    r = row((struct row){.name = "no samples, alone", .low = -1.5, .high = 1.5, .window_low = -2.5, .window_high = 2.5, .held = 0.5, .held_window = 1});
    EACH(us, 50, 500, 5000, 50000)
        EACH(l, 10, 30, 70)
            EACH(n, 1, 4, 16)
                try_cell(r, (struct cell){.kernel_us = *us, .limit = *l, .processes = (int)*n, .feed = NOTHING});
    r = row((struct row){.name = "no samples, beside a neighbour, up to 500 us", .low = -4.5, .high = 1, .held = 4});
    EACH(us, 50, 500)
        EACH(l, 10, 30)
            EACH(n, 1, 4) {
                try_cell(r, (struct cell){.kernel_us = *us, .limit = *l, .processes = (int)*n, .feed = NOTHING, .other = SATURATING});
                try_cell(r, (struct cell){.kernel_us = *us, .limit = *l, .processes = (int)*n, .feed = NOTHING, .other = TWIN});
            }
    r = row((struct row){.name = "no samples, 5 and 50 ms beside a neighbour, limit 30: half of it and more", .low = -15, .high = 1, .held = 1});
    EACH(us, 5000, 50000)
        EACH(n, 1, 4)
            try_cell(r, (struct cell){.kernel_us = *us, .limit = 30, .processes = (int)*n, .feed = NOTHING, .other = SATURATING});
    r = row((struct row){.name = "no samples, irregular kernels", .low = -100, .high = 4, .held = 4});
    EACH(spread, 0.3, 0.7, 1.2)
        EACH(l, 10, 30, 70)
            EACH(n, 1, 4) {
                try_cell(r, (struct cell){.kernel_us = 500, .limit = *l, .processes = (int)*n, .spread = *spread, .feed = NOTHING});
                if (*l < 50)
                    try_cell(r, (struct cell){.kernel_us = 500, .limit = *l, .processes = (int)*n, .spread = *spread, .feed = NOTHING, .other = SATURATING});
            }
}

/* Models that nobody tuned for: constants are what they are. */
static void strangers(void)
{
    struct row *r = row((struct row){.name = "durations x 3 every 2 s, alone", .low = -2, .high = 2, .held = 3});
    EACH(us, 50, 500, 5000, 50000)
        EACH(l, 10, 30, 50, 70)
            EACH(n, 1, 4)
                try_cell(r, (struct cell){.kernel_us = *us, .limit = *l, .processes = (int)*n, .pattern = DRIFT});
    r = row((struct row){.name = "durations x 3 every 2 s, beside a neighbour", .low = -2, .high = 2, .held = 3});
    EACH(us, 50, 500, 5000)
        EACH(l, 10, 30)
            EACH(n, 1, 4)
                try_cell(r, (struct cell){.kernel_us = *us, .limit = *l, .processes = (int)*n, .pattern = DRIFT, .other = SATURATING});
    static const struct { double ms; const char *beside, *twins; double held, held_twins, held_other; } TURNS[] = {
        {0.5, "turns of 0.5 ms, neighbour", "turns of 0.5 ms, twins", 1, 3, 2},
        {6, "turns of 6 ms, neighbour", "turns of 6 ms, twins", 0.5, 0.5, 0.5},
        {30, "turns of 30 ms, neighbour", "turns of 30 ms, twins", 5, 1, 1}};
    for (int i = 0; i < 3; i++) {
        r = row((struct row){.name = TURNS[i].beside, .low = -2, .high = 2, .held = TURNS[i].held});
        EACH(us, 50, 500, 5000)
            EACH(l, 10, 30)
                EACH(n, 1, 4)
                    try_cell(r, (struct cell){.kernel_us = *us, .limit = *l, .processes = (int)*n, .other = SATURATING, .turn_ms = TURNS[i].ms});
        r = row((struct row){.name = TURNS[i].twins, .low = -3, .high = 3, .measure = OTHER, .least = -5, .most = 3, .held = TURNS[i].held_twins, .held_other = TURNS[i].held_other});
        EACH(l, 10, 30)
            EACH(n, 1, 4)
                try_cell(r, (struct cell){.kernel_us = 500, .limit = *l, .processes = (int)*n, .other = TWIN, .turn_ms = TURNS[i].ms});
    }
}

/* ---- what is printed --------------------------------------------------------------------------------------------------------------- */

static void print_rows(void)
{
    for (const struct row *r = rows; r < rows + row_count; r++) {
        printf("%-82s %3d cells %2d miss %2d fail  mean %+.2f %+.2f (%+.1f %+.1f)", r->name, r->cells, r->missed, r->failed, r->worst_low, r->worst_high,
            r->low, r->high);
        if (r->window_high < NO_TARGET)
            printf("  1 s %+.1f %+.1f (%+.1f %+.1f)", r->worst_window_low, r->worst_window_high, r->window_low, r->window_high);
        if (r->measure)
            printf("  %s %.2f %.2f (%.1f %.1f)", MEASURES[r->measure], r->worst_least, r->worst_most, r->least, r->most);
        printf("\n");
    }
}

static const char *target(double low, double high, char *text, size_t room)
{
    if (low == -high)
        snprintf(text, room, "± %g", high);
    else if (low <= -50)
        snprintf(text, room, "at most %g", high);
    else
        snprintf(text, room, "%g to %g", low, high);
    return text;
}

static void print_page(int cells, int missed)
{
    char text[64];
    printf("# Shares of GPU time: targets and results\n\n"
           "<!-- Written by `grid --table` (hami-core-c/tests/unit/grid.c); `python hami-core-c/tests/unit/page.py` brings it up to date. -->\n\n"
           "What the limiter's compute law reaches **on the time model**: the program runs the limiter's own `throttle.c` against a model of a card\n"
           "whose contexts take turns, in virtual time. It shows that the law does what it should where the model holds. It says nothing about\n"
           "silicon: real turn lengths, switching costs and what NVML counts have to be measured on a GPU.\n\n"
           "%d cells, %d of them outside the target of the study. Numbers are points of the device's time off the limit, the lowest and the highest\n"
           "over the cells of a row. One kernel divided by the measured time, *q*, is allowed besides for kernels above 10 ms. Means are over 10 s and\n"
           "more, after two seconds or two kernels; windows are one second long and begin every quarter of a second.\n\n"
           "| cells | n | mean: target | mean: worst | 1 s windows: target | worst | besides: target | worst | miss |\n"
           "| --- | --- | --- | --- | --- | --- | --- | --- | --- |\n", cells, missed);
    for (const struct row *r = rows; r < rows + row_count; r++) {
        printf("| %s | %d | %s | %+.1f … %+.1f |", r->name, r->cells, target(r->low, r->high, text, sizeof text), r->worst_low, r->worst_high);
        if (r->window_high < NO_TARGET)
            printf(" %s | %+.1f … %+.1f |", target(r->window_low, r->window_high, text, sizeof text), r->worst_window_low, r->worst_window_high);
        else
            printf(" | |");
        if (r->measure)
            printf(" %s: %s | %.2f … %.2f |", MEASURES[r->measure], target(r->least, r->most, text, sizeof text), r->worst_least, r->worst_most);
        else
            printf(" | |");
        printf(" %d |\n", r->missed);
    }
    printf("\nWhere a row misses, and why:\n\n"
           "- *Kernels of 5 ms and more beside a neighbour* show their device time only through NVML, once a second and late; several processes of the\n"
           "  container beside it make the windows swing. Means hold.\n"
           "- *Turns of 0.5 ms* spend a tenth of the card on switches, so two containers that ask for all of it cannot both have their share: the\n"
           "  other one is compared with what it has under perfect knowledge.\n"
           "- *Turns of 30 ms* let few batches show what they cost; NVML corrects within seconds.\n"
           "- *Durations that change threefold* are noticed after two dozen batches, or by the next sample; what was charged too little until then is\n"
           "  taken from the credit, a fifth of a second for each sample at most.\n"
           "- *Irregular kernels* (one function and grid, durations that differ tenfold) show what they are after two dozen batches; until then, and\n"
           "  while each batch lasts long, a container can be above its limit. Without samples that is half a second.\n"
           "- *Without samples* nobody knows how many neighbours share the card, and the law stays on the side below the limit.\n");
}

int main(int argc, char **argv)
{
    bool table = argc > 1 && !strcmp(argv[1], "--table");
    shown = table ? -1 : argc > 1 && !strcmp(argv[1], "--cells");
    if (argc > 2 && !strcmp(argv[1], "--seed"))
        seed = (unsigned)atoi(argv[2]);
    few = argc > 1 && !strcmp(argv[1], "--few");
    alone();
    trickles();
    neighbours();
    twins();
    irregular();
    moments();
    feeds();
    strangers();
    int cells = 0, missed = 0, failed = 0;
    for (int i = 0; i < row_count; i++) {
        cells += rows[i].cells;
        missed += rows[i].missed;
        failed += rows[i].failed;
    }
    if (table)
        print_page(cells, missed);
    else
        print_rows();
    if (!table)
        printf("%d of %d cells outside the targets of the study, %d outside what their row is held to\n", missed, cells, failed);
    return failed != 0;
}
