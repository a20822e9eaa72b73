/* The ledger under SIGKILL and SIGSTOP at every numbered step, with real processes over shared memory. */
#include "ledger.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "steps.h"

#define LIMIT 10u
static struct hami_region *region;
static struct hami_extension *extension;
static char path[] = "/tmp/hami-test-ledger-XXXXXX";

static int byte(int fd, int command, unsigned slot)
{
    struct flock l = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = HAMI_TOKENS + (off_t)slot, .l_len = 1};
    int answer = fcntl(fd, command, &l);
    return command == F_OFD_GETLK ? answer == 0 && l.l_type == F_UNLCK : answer == 0;
}

static int begin(void *who) { (void)who; return open(path, O_RDWR | O_CLOEXEC); }
static bool alive(int round, unsigned slot) { return !byte(round, F_OFD_GETLK, slot); }
static void end(int round) { close(round); }

static void fresh(void)
{
    memset((void *)region, 0, sizeof *region);
    memset((void *)extension, 0, sizeof *extension);
}

/* As attach.c does: hold the byte by a mapping of a description that no child gets. */
static struct ledger *join(unsigned slot)
{
    static struct ledger l;
    int fd = open(path, O_RDWR | O_CLOEXEC);
    l = (struct ledger){.region = region, .extension = extension, .slot = slot, .liveness = {begin, alive, end, NULL}};
    CHECK(fd >= 0 && byte(fd, F_OFD_SETLK, slot));
    void *token = mmap(NULL, 4096, PROT_NONE, MAP_SHARED, fd, 0);
    CHECK(token != MAP_FAILED);
    madvise(token, 4096, MADV_DONTFORK);
    close(fd);
    ledger_claim(&l, (int32_t)getpid());
    return &l;
}

static enum step strike_at;
static int strike_with;
static unsigned strike_skip;
static _Atomic unsigned *reached;       /* shared: which steps were ever struck */

static void strike(enum step step)
{
    if (step != strike_at || strike_skip-- > 0)
        return;
    reached[step]++;
    kill(getpid(), strike_with);
}

/* Everything a process does, so that every step is passed. */
static void life(struct ledger *l, unsigned bytes)
{
    if (ledger_reserve(l, 0, CHARGE_DATA, bytes, LIMIT) == VERDICT_DONE) {
        if (hami_step)
            hami_step(STEP_DRIVER);
        ledger_return(l, 0, CHARGE_DATA, bytes);
    }
    if (ledger_reserve(l, 0, CHARGE_CONTEXT, bytes, LIMIT) == VERDICT_DONE && hami_step)
        hami_step(STEP_DRIVER);
    ledger_reserve(l, 0, CHARGE_DATA, LIMIT, LIMIT);
    ledger_leave(l);
}

static pid_t spawn(unsigned slot, unsigned bytes, enum step at, unsigned skip, int with)
{
    pid_t child = fork();
    if (child == 0) {
        strike_at = at;
        strike_skip = skip;
        strike_with = with;
        hami_step = at ? strike : NULL;
        life(join(slot), bytes);
        _exit(0);
    }
    return child;
}

static uint64_t sum(void)
{
    uint64_t n = 0;
    for (unsigned i = 0; i < HAMI_SLOTS; i++)
        n += region->slots[i].used[0].total;
    return n;
}

static void books_are_exact(struct ledger *l)
{
    SAME(ledger_reserve(l, 0, CHARGE_DATA, 1, LIMIT), VERDICT_DONE);
    ledger_return(l, 0, CHARGE_DATA, 1);
    SAME(ledger_used(l, 0), sum());
    SAME(extension->devices[0].owner, 0);
    SAME(ledger_reserve(l, 0, CHARGE_DATA, LIMIT, LIMIT), VERDICT_DONE);        /* nothing is lost either */
    SAME(ledger_reserve(l, 0, CHARGE_DATA, 1, LIMIT), VERDICT_FULL);
    ledger_return(l, 0, CHARGE_DATA, LIMIT);
    SAME(ledger_used(l, 0), 0);
}

static void a_request_that_fits_is_granted_and_one_that_does_not_is_refused(void)
{
    struct ledger *l = join(1023);
    SAME(ledger_reserve(l, 0, CHARGE_DATA, 6, LIMIT), VERDICT_DONE);
    SAME(ledger_reserve(l, 0, CHARGE_DATA, 5, LIMIT), VERDICT_FULL);
    SAME(ledger_reserve(l, 1, CHARGE_DATA, 5, LIMIT), VERDICT_DONE);
    SAME(ledger_reserve(l, 0, CHARGE_DATA, UINT64_MAX, LIMIT), VERDICT_FULL);
    SAME(ledger_reserve(l, 0, CHARGE_MODULE, 4, LIMIT), VERDICT_DONE);
    SAME(region->slots[1023].used[0].total, 10);
    SAME(region->slots[1023].used[0].module, 4);
    ledger_return(l, 0, CHARGE_DATA, 1000);     /* never below zero */
    SAME(region->slots[1023].used[0].total, 4);
    SAME(extension->devices[0].used, 4);        /* what others hold is not given back with it */
    ledger_leave(l);
    SAME(region->slots[1023].status, 0);
    SAME(ledger_used(l, 0), 4);                 /* it has not ended yet */
    SAME(extension->devices[0].ended, 1);
}

/* What came and cannot be refused is charged as soon as there is room; until then nothing else is. */
static void what_is_owed_is_charged_before_anything_else(void)
{
    fresh();
    pid_t child = fork();
    if (!child) {
        struct ledger *l = join(0);
        CHECK(ledger_reserve(l, 0, CHARGE_DATA, 6, LIMIT) == VERDICT_DONE);
        ledger_owe(l, 0, 7);
        SAME(ledger_used(l, 0), 6);
        CHECK(ledger_reserve(l, 0, CHARGE_DATA, 1, LIMIT) == VERDICT_FULL);
        CHECK(ledger_reserve(l, 1, CHARGE_DATA, 1, LIMIT) == VERDICT_DONE);
        ledger_return(l, 0, CHARGE_DATA, 4);
        SAME(ledger_used(l, 0), 2);
        CHECK(ledger_reserve(l, 0, CHARGE_DATA, 2, LIMIT) == VERDICT_FULL);
        SAME(ledger_used(l, 0), 9);
        SAME(region->slots[0].used[0].module, 7);
        ledger_owe(l, 0, 5);
        CHECK(ledger_reserve(l, 0, CHARGE_DATA, 0, LIMIT) == VERDICT_FULL);
        ledger_forgive(l, 0, 12);
        SAME(ledger_used(l, 0), 2);
        CHECK(ledger_reserve(l, 0, CHARGE_DATA, 8, LIMIT) == VERDICT_DONE);
        SAME(region->slots[0].used[0].total, 10);
        _exit(0);
    }
    int status;
    waitpid(child, &status, 0);
    CHECK(status == 0);
}

static void killed_at(enum step first, enum step second)
{
    fresh();
    pid_t a = spawn(0, 6, first, 0, SIGKILL);
    int status;
    waitid(P_PID, (id_t)a, NULL, WEXITED | WNOWAIT);        /* a zombie: dead all the same */
    pid_t b = spawn(1, 5, second, 0, SIGKILL);
    waitpid(b, &status, 0);
    pid_t c = fork();
    if (c == 0) {
        books_are_exact(join(2));
        _exit(0);
    }
    waitpid(c, &status, 0);
    waitpid(a, NULL, 0);
    if (status) {
        fprintf(stderr, "killed at %d, then at %d\n", first, second);
        exit(1);
    }
}

static void a_slot_is_taken_again_after(enum step step)
{
    fresh();
    waitpid(spawn(0, 6, step, 0, SIGKILL), NULL, 0);
    int status;
    pid_t c = fork();
    if (c == 0) {
        books_are_exact(join(0));
        _exit(0);
    }
    waitpid(c, &status, 0);
    if (status) {
        fprintf(stderr, "slot taken again after a kill at %d\n", step);
        exit(1);
    }
}

static void stopped_at(enum step step)
{
    fresh();
    pid_t a = spawn(0, 6, step, 0, SIGSTOP);
    int status;
    waitpid(a, &status, WUNTRACED);
    pid_t b = fork();
    if (b == 0) {
        hami_patience_ns = 20000000;
        struct ledger *l = join(1);
        for (int i = 0; i < 3; i++)
            if (ledger_reserve(l, 0, CHARGE_DATA, 4, LIMIT) == VERDICT_DONE)
                ledger_return(l, 0, CHARGE_DATA, 4);
        if (ledger_used(l, 0) > LIMIT)
            _exit(1);
        hami_patience_ns = 2000000000;
        kill(a, SIGCONT);
        for (bool lives = true; lives; usleep(1000)) {      /* the one that was stopped goes on and ends */
            int round = begin(NULL);
            lives = alive(round, 0);
            end(round);
        }
        ledger_reap(l, 0);
        books_are_exact(l);
        _exit(0);
    }
    waitpid(b, &status, 0);
    kill(a, SIGKILL);
    waitpid(a, NULL, 0);
    if (status) {
        fprintf(stderr, "stopped at %d\n", step);
        exit(1);
    }
}

static void a_hundred_races_with_kills_never_pass_the_limit(void)
{
    fresh();
    pid_t child[16];
    for (int i = 0; i < 16; i++) {
        child[i] = fork();
        if (child[i] == 0) {
            struct ledger *l = join((unsigned)i);
            unsigned seed = (unsigned)i;
            uint64_t mine = 0;
            for (;;) {
                unsigned n = (unsigned)rand_r(&seed) % 4 + 1;
                if (mine && rand_r(&seed) % 2) {
                    ledger_return(l, 0, CHARGE_DATA, mine);
                    mine = 0;
                } else if (ledger_reserve(l, 0, CHARGE_DATA, n, LIMIT) == VERDICT_DONE)
                    mine += n;
                if (ledger_used(l, 0) > LIMIT)
                    _exit(1);
                if (rand_r(&seed) % 16 == 0)
                    usleep(100);
            }
        }
    }
    for (int i = 0; i < 16; i++) {
        usleep(20000);
        kill(child[i], SIGKILL);
    }
    for (int i = 0; i < 16; i++) {
        int status;
        waitpid(child[i], &status, 0);
        CHECK(WIFSIGNALED(status));
    }
    pid_t c = fork();
    int status;
    if (c == 0) {
        books_are_exact(join(40));
        _exit(0);
    }
    waitpid(c, &status, 0);
    CHECK(status == 0);
}

static void a_share_passes_to_whoever_still_holds_it(void)
{
    fresh();
    struct hami_share *s = &extension->shares[0];
    pid_t a = fork();
    if (a == 0) {
        struct ledger *l = join(0);
        ledger_reserve(l, 0, CHARGE_DATA, 6, LIMIT);
        SAME(region->slots[0].used[0].data, 6);
        SAME(ledger_share(l, 0, 99, 6, false), 0);
        SAME(region->slots[0].used[0].data, 0);
        SAME(region->slots[0].used[0].total, 6);
        SAME(ledger_used(l, 0), 6);
        for (;;)
            pause();
    }
    while (!s->key)
        usleep(1000);
    pid_t b = fork();
    int status;
    if (b == 0) {
        struct ledger *l = join(1);
        usleep(10000);
        SAME(ledger_share_join(l, 0, 98, 0), -1);
        SAME(ledger_share_join(l, 0, 99, 0), 0);
        SAME(region->slots[1].used[0].total, 0);
        kill(a, SIGKILL);
        for (bool lives = true; lives; usleep(1000)) {
            int round = begin(NULL);
            lives = alive(round, 0);
            end(round);
        }
        SAME(ledger_reserve(l, 0, CHARGE_DATA, 5, LIMIT), VERDICT_FULL);
        SAME(region->slots[1].used[0].total, 6);
        SAME(s->bearer, 2);
        ledger_share_leave(l, 0, 0);
        SAME(ledger_used(l, 0), 0);
        SAME(s->key, 0);
        _exit(0);
    }
    waitpid(b, &status, 0);
    waitpid(a, NULL, 0);
    CHECK(status == 0);
}

int main(void)
{
    static const enum step all[] = {STEP_LOCK, STEP_CHECK, STEP_SLOT_UP, STEP_USED_UP, STEP_UNLOCK, STEP_DRIVER, STEP_USED_DOWN, STEP_SLOT_DOWN,
        STEP_EPOCH, STEP_INHERIT, STEP_ANNOUNCE, STEP_LEAVE, STEP_ZERO, STEP_RECOUNT, STEP_TAKE_OVER, STEP_ASK};
    const unsigned steps = sizeof all / sizeof *all;
    int fd = mkstemp(path);
    region = mmap(NULL, sizeof *region, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    extension = mmap(NULL, sizeof *extension, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    reached = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(fd >= 0 && ftruncate(fd, 8192) == 0);
    a_request_that_fits_is_granted_and_one_that_does_not_is_refused();
    what_is_owed_is_charged_before_anything_else();
    for (unsigned i = 0; i < steps; i++)
        for (unsigned j = 0; j < steps; j++)
            killed_at(all[i], all[j]);
    for (unsigned i = 0; i < steps; i++) {
        a_slot_is_taken_again_after(all[i]);
        stopped_at(all[i]);
    }
    a_hundred_races_with_kills_never_pass_the_limit();
    a_share_passes_to_whoever_still_holds_it();
    for (unsigned i = 0; i < steps; i++)
        if (!reached[all[i]]) {
            fprintf(stderr, "step %d was never reached\n", all[i]);
            return 1;
        }
    unlink(path);
    return 0;
}
