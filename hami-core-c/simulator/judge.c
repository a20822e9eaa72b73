/* The judge of time: what a container had of a device in each window, against its share and the slack that was stated. */
#include "state.h"

#define MOST_WINDOWS_MISSED 8

static int64_t busy_of(const struct sim_state *s, uint32_t container, uint32_t device)
{
    int64_t busy = s->containers[container].on[device].busy;
    for (uint32_t i = 0; i < atomic_load(&s->slots_seen); i++)
        if (atomic_load(&s->slots[i].state) && s->slots[i].container == container)
            busy += s->slots[i].use[device].busy;
    for (uint32_t c = 0; c < atomic_load(&s->context_high); c++)
        if (s->contexts[c].used && s->contexts[c].device == device && s->slots[s->contexts[c].slot].container == container)
            busy += s->queues[c].busy;
    return busy;
}

static void begin(struct sim_state *s, uint32_t device, int64_t now)
{
    struct sim_device *d = &s->devices[device];
    for (uint32_t c = 0; c < SIM_CONTAINERS && s->containers[c].used; c++)
        if (s->containers[c].on[device].judged)
            s->containers[c].on[device].mark = busy_of(s, c, device);
    d->judge_end = now + d->judge_window;
}

void judge_shares(struct sim_state *s, uint32_t device, uint32_t container, double slack, int64_t window)
{
    struct sim_device *d = &s->devices[device];
    struct sim_judgement *on = &s->containers[container].on[device];
    on->judged = 1;
    on->share_slack = slack;
    d->judge_window = window;
    begin(s, device, clock_now(s));
}

void judge_window(struct sim_state *s, uint32_t device)
{
    struct sim_device *d = &s->devices[device];
    int64_t end = d->judge_end;
    for (uint32_t c = 0; c < SIM_CONTAINERS && s->containers[c].used; c++) {
        struct sim_container *one = &s->containers[c];
        struct sim_judgement *on = &one->on[device];
        if (!on->judged)
            continue;
        double share = 100.0 * (double)(busy_of(s, c, device) - on->mark) / (double)d->judge_window;
        on->windows++;
        if (share > on->worst_share)
            on->worst_share = share;
        if (share <= on->cores + on->share_slack)
            continue;
        if (on->windows_over++ == 0) {
            on->first_share = share;
            on->first_share_at = end;
        }
    }
    begin(s, device, end);
}

void judge_skip(struct sim_state *s, uint32_t device, int64_t now)
{
    struct sim_device *d = &s->devices[device];
    if (now - d->judge_end > MOST_WINDOWS_MISSED * d->judge_window)     /* long idle: nothing to judge */
        begin(s, device, now);
}
