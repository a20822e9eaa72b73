#include "engine.h"

#include <string.h>

void engine_init(struct sim_engine *e, int64_t slice, int64_t switching, int64_t now)
{
    memset(e, 0, sizeof *e);
    e->slice = slice;
    e->switching = switching;
    e->last = e->run_from = e->turn_end = now;
    e->current = -1;
}

static struct sim_item *item_of(struct sim_queue *q, uint64_t ticket)
{
    return &q->items[ticket % SIM_ITEMS];
}

static int64_t later(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static void ring_add(struct sim_engine *e, struct sim_queue *queues, int32_t queue)
{
    e->ring[(e->first + e->waiting) % SIM_RING] = queue;
    e->waiting++;
    queues[queue].in_ring = 1;
}

static int32_t ring_take(struct sim_engine *e, struct sim_queue *queues)
{
    if (!e->waiting)
        return -1;
    int32_t queue = e->ring[e->first];
    e->first = (e->first + 1) % SIM_RING;
    e->waiting--;
    queues[queue].in_ring = 0;
    return queue;
}

static void finish(struct sim_queue *q, uint32_t queue, int64_t at, engine_done done, void *who)
{
    struct sim_item *item = item_of(q, q->head);
    q->launches -= item->count;
    if (done && item->cell != SIM_NO_CELL)
        done(who, queue, item, at);
    q->head++;
}

/* Give the running context `got` of device time, beginning at `at`. */
static void work_off(struct sim_engine *e, struct sim_queue *queues, int64_t at, int64_t got, engine_done done, void *who)
{
    struct sim_queue *q = &queues[e->current];
    while (q->head != q->tail) {
        struct sim_item *item = item_of(q, q->head);
        int64_t part = item->left < got ? item->left : got;
        item->left -= part;
        q->work -= part;
        q->busy += part;
        e->busy += part;
        got -= part;
        at += part;
        if (item->left > 0)
            return;
        finish(q, (uint32_t)e->current, at, done, who);
    }
    q->work = 0;
}

/* Decide who runs from `now` on. */
static void choose(struct sim_engine *e, struct sim_queue *queues, int64_t now)
{
    int32_t before = e->current;
    int ready = before >= 0 && queues[before].head != queues[before].tail;
    if (ready && !(e->waiting && now >= e->turn_end))
        return;
    if (ready)
        ring_add(e, queues, before);
    int32_t next = ring_take(e, queues);
    if (next >= 0) {
        int changed = before >= 0 && before != next;
        e->run_from = now + (changed && e->waiting ? e->switching : 0);
        e->turn_end = now + e->slice;
    }
    e->current = next;
}

static int64_t next_change(const struct sim_engine *e, const struct sim_queue *queues)
{
    int64_t dry = later(e->last, e->run_from) + queues[e->current].work;
    return e->waiting && e->turn_end < dry ? later(e->turn_end, e->last) : dry;
}

void engine_advance(struct sim_engine *e, struct sim_queue *queues, int64_t now, engine_done done, void *who)
{
    while (e->current >= 0) {
        int64_t change = next_change(e, queues), until = change < now ? change : now;
        int64_t from = later(e->last, e->run_from);
        if (until > from || queues[e->current].work == 0)
            work_off(e, queues, from, until > from ? until - from : 0, done, who);
        e->last = later(e->last, until);
        if (change > now)
            return;
        choose(e, queues, change);
    }
    e->last = later(e->last, now);
}

uint64_t engine_push(struct sim_engine *e, struct sim_queue *queues, uint32_t queue, int64_t now, struct sim_item item,
                     engine_done done, void *who)
{
    struct sim_queue *q = &queues[queue];
    if (q->tail - q->head >= SIM_ITEMS)
        return 0;
    int idle = q->head == q->tail;
    if (idle && item.left <= 0) {
        if (done && item.cell != SIM_NO_CELL)
            done(who, queue, &item, now);
        q->head++;
        return ++q->tail;
    }
    *item_of(q, q->tail) = item;
    q->work += item.left;
    q->launches += item.count;
    q->tail++;
    if (idle && e->current != (int32_t)queue && !q->in_ring)
        ring_add(e, queues, (int32_t)queue);
    choose(e, queues, now);
    return q->tail;
}

uint32_t engine_pending(const struct sim_queue *q)
{
    if (q->head == q->tail)
        return 0;
    const struct sim_item *item = &q->items[q->head % SIM_ITEMS];
    if (item->count < 2 || item->each <= 0)
        return q->launches;
    int64_t left = (item->left + item->each - 1) / item->each;
    return q->launches - item->count + (uint32_t)(left > item->count ? item->count : left);
}

static int64_t work_until(const struct sim_queue *q, uint64_t ticket)
{
    if (ticket >= q->tail)
        return q->work;
    int64_t work = 0;
    for (uint64_t t = q->head; t != ticket; t++)
        work += q->items[t % SIM_ITEMS].left;
    return work;
}

int64_t engine_estimate(const struct sim_engine *e, const struct sim_queue *queues, uint32_t queue, uint64_t ticket)
{
    const struct sim_queue *q = &queues[queue];
    if (ticket <= q->head)
        return e->last;
    int64_t work = work_until(q, ticket);
    if (e->current == (int32_t)queue || e->current < 0)
        return later(e->last, e->run_from) + work;
    return next_change(e, queues) + work;
}

int64_t engine_next(const struct sim_engine *e, const struct sim_queue *queues)
{
    return e->current < 0 ? INT64_MAX : next_change(e, queues);
}

void engine_drop(struct sim_engine *e, struct sim_queue *queues, uint32_t queue, int64_t now)
{
    struct sim_queue *q = &queues[queue];
    q->head = q->tail;
    q->work = 0;
    q->launches = 0;
    if (q->in_ring) {
        uint32_t kept = 0, n = e->waiting;
        for (uint32_t i = 0; i < n; i++) {
            int32_t one = e->ring[(e->first + i) % SIM_RING];
            if (one != (int32_t)queue)
                e->ring[(e->first + kept++) % SIM_RING] = one;
        }
        e->waiting = kept;
        q->in_ring = 0;
    }
    if (e->current == (int32_t)queue)
        choose(e, queues, now);
}

void engine_repair(struct sim_engine *e, struct sim_queue *queues, const uint32_t *used, uint32_t count)
{
    e->first = e->waiting = 0;
    e->current = -1;
    for (uint32_t i = 0; i < count; i++) {
        struct sim_queue *q = &queues[used[i]];
        q->work = 0;
        q->launches = 0;
        q->in_ring = 0;
        for (uint64_t t = q->head; t != q->tail; t++) {
            struct sim_item *item = item_of(q, t);
            q->work += item->left > 0 ? item->left : 0;
            q->launches += item->count;
        }
        if (q->head != q->tail)
            ring_add(e, queues, (int32_t)used[i]);
    }
    choose(e, queues, e->last);
}
