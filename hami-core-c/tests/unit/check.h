/* A test is a function; a check that fails says where and what, and the program ends with 1. */
#ifndef HAMI_CHECK_H
#define HAMI_CHECK_H

#include <stdio.h>
#include <stdlib.h>

#define CHECK(condition) do { if (!(condition)) { fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); exit(1); } } while (0)
#define SAME(a, b)                                                                              \
    do {                                                                                        \
        unsigned long long left_ = (unsigned long long)(a), right_ = (unsigned long long)(b);   \
        if (left_ != right_) {                                                                  \
            fprintf(stderr, "%s:%d: %s is %llu, %s is %llu\n", __FILE__, __LINE__, #a, left_, #b, right_); \
            exit(1);                                                                            \
        }                                                                                       \
    } while (0)

#endif
