/* A region full of anything, as a tenant may leave it: attaching, charging, sharing, recounting and the compute law go on.
 *
 * The input is a list of stores into an otherwise well-made file: where (3 bytes), how many (1), the bytes; in the first one byte says
 * what is done then. */
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "attach.h"
#include "fuzz.h"
#include "sampler.h"
#include "steps.h"
#include "throttle.h"

int32_t sampler_host_pid(const char *region_path) { (void)region_path; return 4711; }

static uint64_t living;             /* which of the first slots are said to live */

static int begin(void *who) { return who != NULL; }
static bool alive(int round, unsigned slot) { (void)round; return slot < 64 && (living >> slot & 1); }
static void end(int round) { (void)round; }

static char path[64];

static void put(int fd, uint64_t at, const uint8_t *bytes, size_t size)
{
    if (pwrite(fd, bytes, size, (off_t)at) < 0)
        abort();
}

/* Most places are of little use; these lead to the words that something depends on. */
static uint64_t place(uint64_t at)
{
    const uint64_t first = HAMI_EXTENSION_AT + offsetof(struct hami_extension, devices);
    switch (at >> 20 & 7) {
    case 0: return at % 2048;                                                           /* header and limits */
    case 1: return offsetof(struct hami_region, slots) + at % (4 * sizeof(struct hami_slot));
    case 2: return offsetof(struct hami_region, slot_count) + at % 56;
    case 3: return first + at % sizeof(struct hami_device);
    case 4: return HAMI_EXTENSION_AT + offsetof(struct hami_extension, shares) + at % (4 * sizeof(struct hami_share));
    case 5: return HAMI_EXTENSION_AT + at % 64;
    default: return at % HAMI_FILE_BYTES;
    }
}

static void use_ledger(struct state *s, struct bytes *in)
{
    struct ledger *l = &s->ledger;
    const uint64_t limit = UINT64_C(1) << 32;
    for (int i = 0; i < 8; i++) {
        unsigned device = (unsigned)number(in, 1) % 2;
        uint64_t bytes = number(in, 4), key = number(in, 1) + 1;
        switch (number(in, 1) % 8) {
        case 0:
            if (ledger_reserve(l, device, CHARGE_DATA, bytes, limit) == VERDICT_DONE)
                LAW(atomic_load(&s->extension->devices[device].used) <= limit);
            break;
        case 1: ledger_return(l, device, CHARGE_DATA, bytes); break;
        case 2: ledger_reap(l, device); break;
        case 3: ledger_share(l, device, key, bytes, key & 1); break;
        case 4: ledger_share_leave(l, device, ledger_share_join(l, device, key & 2 ? key : 0, bytes)); break;
        case 5: ledger_settle_orphans(l, device, bytes); break;
        case 6: ledger_used(l, device); break;
        default: attach_device(s, bytes % 2 ? "GPU-11111111-2222-3333-4444-555555555555" : "GPU-another");
        }
    }
    ledger_leave(l);
}

static void use_throttle(struct state *s, struct bytes *in)
{
    static struct throttle t;
    struct hami_device *d = &s->extension->devices[0];
    int64_t now = INT64_C(1000000000000);
    uint32_t own[3] = {(uint32_t)number(in, 1), 200, 7}, others[2] = {(uint32_t)number(in, 1), UINT32_MAX};
    memset(&t, 0, sizeof t);
    throttle_join(&t, d, &s->region->slots[s->ledger.slot].utilization[0].hold, 30);
    for (int i = 0; i < 6; i++) {
        uint32_t kind = (uint32_t)number(in, 2) + 1;
        int64_t price = throttle_price(&t, kind), wait = 0;
        LAW(price > 0 && price < INT64_C(1) << 46);
        bool taken = throttle_take(&t, price);
#ifdef ADMIT_SINCE
        taken = taken || throttle_admit(&t, now, now - 1000000, price, &wait);
#else
        taken = taken || throttle_admit(&t, now, price, &wait);
#endif
        LAW(taken || (wait > 0 && wait <= INT64_C(10000000000)));      /* never for ever, never at once without end */
        throttle_flies(&t, kind, 1, price);
        now += (int64_t)(number(in, 3) * 1000 + 1);
        struct batch b = {.part = {{kind, 1}}, .parts = 1, .price = price, .start = now - 500000, .end = now};
        throttle_tick(&t, now, &b, 1, number(in, 1) & 1 ? now - 1000 : 0);
        throttle_book(&t, now, number(in, 1) & 1);
        throttle_sample(&t, now - 1000000, own, 3, others, 2, (uint32_t)number(in, 1));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct state s;
    struct bytes in = {data, data + size};
    if (!path[0]) {
        snprintf(path, sizeof path, "/dev/shm/hami-fuzz-%d", (int)getpid());
        hami_patience_ns = 3000000;
    }
    memset(&s, 0, sizeof s);
    s.limits.present = true;
    s.limits.devices = 1;
    strcpy(s.limits.region, path);
    strcpy(s.limits.device[0].uuid, "GPU-11111111-2222-3333-4444-555555555555");
    uint64_t what = number(&in, 1);
    living = number(&in, 2) | (what & 2 ? 1 : 0);
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0)
        abort();
    if (what & 1) {                 /* a file that was a region once */
        int32_t magic = HAMI_REGION_MAGIC;
        uint32_t version[2] = {HAMI_REGION_MAJOR, HAMI_REGION_MINOR};
        uint64_t ours = HAMI_EXTENSION_MAGIC;
        uint32_t about[2] = {HAMI_EXTENSION_VERSION, sizeof(struct hami_extension)};
        put(fd, 0, (const uint8_t *)&magic, 4);
        put(fd, 4, (const uint8_t *)version, 8);
        put(fd, HAMI_EXTENSION_AT, (const uint8_t *)&ours, 8);
        put(fd, HAMI_EXTENSION_AT + 8, (const uint8_t *)about, 8);
    }
    bool before = what & 4, full;
    for (int round = 0; round < 2; round++) {
        for (int i = 0; round == (before ? 0 : 1) && in.at < in.end && i < 64; i++) {
            uint64_t at = place(number(&in, 3));
            size_t length = (size_t)number(&in, 1) % 32;
            if (length > (size_t)(in.end - in.at))
                length = (size_t)(in.end - in.at);
            put(fd, at, in.at, length);
            in.at += length;
            if (what & 8 && i > 4)
                break;
        }
        if (round == 0 && attach_region(&s, &full)) {
            if (s.region)
                munmap(s.region, HAMI_FILE_BYTES);
            close(fd);
            unlink(path);
            return 0;
        }
    }
    close(fd);
    s.ledger.liveness = (struct liveness){begin, alive, end, &s};
    use_ledger(&s, &in);
    use_throttle(&s, &in);
    unlink(path);
    munmap(s.region, HAMI_FILE_BYTES);
    munmap((void *)0x100000, 4096);             /* the byte's, where attach.c puts it */
    return 0;
}
