/* Lines for people, in v2.10's form; one write each, no allocation, no lock. Nothing is said unless LIBCUDA_LOG_LEVEL asks for it,
 * except why cuInit refuses. What may happen all the time is said once at the level of errors. */
#ifndef HAMI_SAY_H
#define HAMI_SAY_H

enum say { SAY_ALWAYS = 0, SAY_ERROR = 1, SAY_WARN = 2, SAY_INFO = 3, SAY_DEBUG = 4 };

void say_level(int level);
void say_line(enum say level, const char *file, int line, const char *format, ...) __attribute__((format(printf, 4, 5)));
extern int say_loudness __attribute__((visibility("hidden")));
#define say(level, ...) do { if (__builtin_expect(say_loudness >= (int)(level), 0)) say_line(level, __FILE__, __LINE__, __VA_ARGS__); } while (0)

#endif
