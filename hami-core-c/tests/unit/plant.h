/* The compute law on the time model, in virtual time: contexts that take turns (simulator/engine.c), programs that launch, a management
 * library that is late and whole. One run is one cell of the grid. */
#ifndef HAMI_PLANT_H
#define HAMI_PLANT_H

#include <stdbool.h>

enum pattern {
    SATURATE,       /* work of 20 ms, then wait for it */
    FLOOD,          /* never waits: only the driver's queue and the law hold it back */
    LATE,           /* three seconds of nothing, then a flood */
    MIXED,          /* 200 kernels of 5 us and one of 20 ms */
    TRAINING,       /* work of 30 ms, then 5 ms of thought */
    BURSTY,         /* half a second flat out, half a second of nothing */
    REQUEST,        /* requests of 5 ms or one kernel, at random, 60 % of the limit in all */
    TRICKLE,        /* a kernel each 200 us and more, never in a hurry */
    DRIFT           /* kernels take three times as long in every other two seconds */
};
enum company {
    NOBODY,
    SATURATING,     /* one process without a limit, kernels of 500 us */
    ON_OFF,         /* the same, three seconds on and three off */
    TWIN,           /* the same programs under the same law, with the rest of the device */
    SAME            /* the same with the same limit: more than there is, where that is above half */
};
enum feed { EVERY_SECOND, FAST, SPARSE, SLOW, HOLES, NOTHING };   /* SLOW: told twice as late; HOLES: every second sample is lost */

struct cell {
    double kernel_us, limit;        /* percent */
    int processes, other_processes; /* of the twin; 0: as many */
    enum pattern pattern;
    enum company other;
    enum feed feed;
    double turn_ms, spread;         /* 0: 2 ms; log-normal spread of durations from launch to launch, 0: a tenth */
    int blocks, sms;                /* where given, a kernel takes 100 us for each 8 blocks per multiprocessor */
    bool kills;                     /* one process dies each second, and a new one comes */
    double change_at, change_to;    /* seconds, percent: the limit from then on */
    double hold_from, hold_until;   /* the monitor stops the container */
    bool oracle;                    /* charged what the device really did: the best any law can do */
};

struct outcome {
    double share, other, first;     /* percent of the time after the warm-up; of the first second */
    double high, low;               /* worst windows of one second, points off the limit, after the settling time */
    double burst;                   /* the second after a rest, points above the limit */
    double resettle;                /* seconds until windows of half a second stay within 3 points of the changed limit */
    double latency;                 /* of 99 % of the requests, ms */
    double spread;                  /* between the process that got most and the one that got least, points */
    double wait;                    /* the longest time that a launch was held back, s */
    double quantum;                 /* one kernel in the time that was measured, points */
    int in_debt;                    /* most launches under way when another was let through */
};

struct outcome plant_run(const struct cell *cell, double settle, unsigned seed);

#endif
