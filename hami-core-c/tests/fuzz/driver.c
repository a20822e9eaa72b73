/* Runs a target without libFuzzer: everything of a folder, then mutations of it for so many seconds.
 *
 *     TARGET FOLDER SECONDS SEED       the input at hand when it ends badly is left in ./crash
 *     TARGET FILE                      one input */
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "fuzz.h"

#define MOST 65536
#define PATIENCE 20                 /* seconds that one input may take */

struct input { size_t size; uint8_t *bytes; };
static struct input corpus[4096];
static unsigned inputs;
static uint8_t now[MOST];
static size_t now_size;

static void keep(int number)
{
    int fd = open("crash", O_WRONLY | O_CREAT | O_TRUNC, 0644);
    if (fd >= 0 && write(fd, now, now_size) >= 0)
        close(fd);
    if (number == SIGALRM)
        _exit(98);
    signal(number, SIG_DFL);
    raise(number);
}

/* The sanitizers call this before they end the program. */
void __asan_on_error(void);
void __asan_on_error(void) { keep(0); }

static void run(const uint8_t *bytes, size_t size)
{
    now_size = size < MOST ? size : MOST;
    memmove(now, bytes, now_size);
    uint8_t *exact = malloc(now_size ? now_size : 1);       /* so that one byte too far is seen */
    memcpy(exact, now, now_size);
    alarm(PATIENCE);
    LLVMFuzzerTestOneInput(exact, now_size);
    alarm(0);
    free(exact);
}

static void add(const char *path)
{
    FILE *f = fopen(path, "rb");
    struct input *one = &corpus[inputs];
    if (!f || inputs == sizeof corpus / sizeof *corpus)
        return;
    one->bytes = malloc(MOST);
    one->size = fread(one->bytes, 1, MOST, f);
    fclose(f);
    inputs++;
    run(one->bytes, one->size);
}

static uint64_t state;

static uint32_t dice(uint32_t sides)
{
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return sides ? (uint32_t)(state >> 33) % sides : 0;
}

static size_t mutate(uint8_t *b, size_t size)
{
    static const uint8_t odd[] = {0, 1, 0x7f, 0x80, 0xff, '\n', '=', ' ', '0', '9'};
    for (uint32_t i = 1 + dice(6); i; i--) {
        uint32_t at = dice((uint32_t)size), length = 1 + dice(16);
        const struct input *other = inputs ? &corpus[dice(inputs)] : NULL;
        switch (dice(7)) {
        case 0: if (size) b[at] ^= (uint8_t)(1 << dice(8)); break;
        case 1: if (size) b[at] = odd[dice(sizeof odd)]; break;
        case 2: if (size) b[at] = (uint8_t)dice(256); break;
        case 3:                     /* some more */
            if (size + length <= MOST) {
                memmove(b + at + length, b + at, size - at);
                for (uint32_t k = 0; k < length; k++)
                    b[at + k] = dice(2) ? (uint8_t)dice(256) : odd[dice(sizeof odd)];
                size += length;
            }
            break;
        case 4:                     /* some less */
            if (at + length <= size) {
                memmove(b + at, b + at + length, size - at - length);
                size -= length;
            }
            break;
        case 5:                     /* a piece of another */
            if (other && other->size && at + length <= size && length <= other->size)
                memcpy(b + at, other->bytes + dice((uint32_t)(other->size - length + 1)), length);
            break;
        default:                    /* eight bytes of one kind: numbers */
            if (at + 8 <= size)
                memset(b + at, odd[dice(5)], 8);
        }
    }
    return size;
}

int main(int words, char **word)
{
    struct stat about;
    signal(SIGALRM, keep);
    signal(SIGABRT, keep);
    if (words < 2 || stat(word[1], &about) != 0)
        return 2;
    if (!S_ISDIR(about.st_mode)) {
        add(word[1]);
        return 0;
    }
    DIR *folder = opendir(word[1]);
    for (struct dirent *one; folder && (one = readdir(folder));) {
        char path[4096];
        snprintf(path, sizeof path, "%s/%s", word[1], one->d_name);
        if (one->d_name[0] != '.')
            add(path);
    }
    if (folder)
        closedir(folder);
    state = words > 3 ? strtoull(word[3], NULL, 10) : 1;
    double seconds = words > 2 ? atof(word[2]) : 1;
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    double end = (double)t.tv_sec + 1e-9 * (double)t.tv_nsec + seconds;
    unsigned long runs = 0;
    static uint8_t fresh[MOST];
    do {
        size_t size = 0;
        if (inputs && dice(8)) {
            const struct input *one = &corpus[dice(inputs)];
            size = one->size;
            memcpy(fresh, one->bytes, size);
        }
        size = mutate(fresh, size);
        run(fresh, size);
        runs++;
        clock_gettime(CLOCK_MONOTONIC, &t);
    } while ((double)t.tv_sec + 1e-9 * (double)t.tv_nsec < end);
    printf("%lu\n", runs);
    return 0;
}
