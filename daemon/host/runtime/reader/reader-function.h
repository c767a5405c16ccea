/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Function of a Runtime
 *
 * What the reader of a runtime says of a frame: texts are UTF-8.
 */

#include <stdint.h>

enum {
        READER_MAX_TEXT = 1024,         /* bytes of a text with its NUL; longer ones are cut */
};

typedef struct ReaderFunction {
        char name[READER_MAX_TEXT];
        char file[READER_MAX_TEXT];     /* "" = a function of C */
        uint32_t line;                  /* 0 = not known */
        uint32_t first_line;            /* 0 = not known */
} ReaderFunction;
