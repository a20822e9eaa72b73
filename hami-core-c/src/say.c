#include "say.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int say_loudness;

void say_level(int level) { say_loudness = level; }

void say_line(enum say level, const char *file, int line, const char *format, ...)
{
    static const char *const names[] = {"ERROR", "ERROR", "Warn", "Info", "Debug"};
    char text[512];
    const char *base = strrchr(file, '/');
    int saved = errno;
    long self = (long)__builtin_thread_pointer();
    base = base ? base + 1 : file;
    int n = level <= SAY_ERROR
        ? snprintf(text, sizeof text, "[HAMI-core ERROR (pid:%d thread=%ld %s:%d)]: ", (int)getpid(), self, base, line)
        : snprintf(text, sizeof text, "[HAMI-core %s(%d:%ld:%s:%d)]: ", names[level], (int)getpid(), self, base, line);
    va_list rest;
    va_start(rest, format);
    int m = vsnprintf(text + n, sizeof text - (size_t)n - 1, format, rest);
    va_end(rest);
    n = n + m < (int)sizeof text - 1 ? n + m : (int)sizeof text - 2;
    text[n++] = '\n';
    if (write(STDERR_FILENO, text, (size_t)n) < 0)
        errno = 0;                      /* nobody is there to be told */
    errno = saved;
}
