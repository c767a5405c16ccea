/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Functions of PHP That Were Met
 *
 * Names of one process, by the cookies of its functions. That of the next request, or the next closure of the
 * same place, has the same cookie, and may be gone when its name is read. Not for several threads at once.
 */

#include "host/runtime/php/php-code.h"

enum {
        PHP_MET_MAX = 512,              /* functions; a power of two */
        PHP_MET_MAX_BYTES = 64 << 10,   /* bytes of their texts, of a process */
        PHP_MET_MAX_BYTES_IN_ALL = 16 << 20,    /* and of all processes */
};

typedef struct PhpMetFunction {
        uint32_t cookie, first_line;
        char *texts;                    /* name and file, with their NULs; NULL = none is kept */
        size_t size;                    /* bytes of them */
} PhpMetFunction;

typedef struct PhpMet {
        PhpMetFunction functions[PHP_MET_MAX];  /* by their cookies */
        size_t size;
        struct PhpMet *next_met;        /* another process with names */
        uint32_t next;                  /* the place that gives way next, when there is no room */
} PhpMet;

/* @met: zeroed at first. */
void php_met_deinit(PhpMet *met);

/* Keeps the name of the function that @words are of. Where there is no memory, it does not. */
void php_met_keep(PhpMet *met, const uint64_t *words, const ReaderFunction *function);

/* Return: whether the function that @words are of was met; then it is in *function. */
bool php_met_recall(const PhpMet *met, const uint64_t *words, ReaderFunction *function);
