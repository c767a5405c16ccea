/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * PHP Programs
 *
 * What the file of a PHP says of itself: its release, where its interpreter keeps the innermost frame, and
 * where a function has its file and its ops.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "border/runtime_abi.h"

enum {
        PHP_MAX_REASON = 128,
        PHP_CALL_CODE = 64,             /* bytes of code that php_call_decode() looks at */
};

/* ELF addresses, and offsets of fields as in struct php_process. */
typedef struct PhpOpened {
        uint64_t current, generators;
        uint64_t slot;                  /* word of a library that says where its globals are, 0 = none; */
        uint64_t globals;               /* … where they are in this file */
        uint64_t evaluator, evaluator_size;
        uint64_t cold, cold_size;
        uint16_t file, ops;
        uint16_t reserved[2];
        uint64_t frameless;
        int32_t calls[PHP_MAX_CALLS];
        char reason[PHP_MAX_REASON];    /* `PHP 8.2.36`; if the result is not 0, what is not known */
} PhpOpened;

/* What the code of PHP's own functions says. */
typedef struct PhpLayout {
        uint64_t slot;                  /* known before: ELF address of a word that says where
                                         * executor_globals are, 0 = none */
        uint32_t current;               /* in executor_globals */
        uint16_t file, ops;             /* in a function; ops: 0 = it does not say */
} PhpLayout;

/* The variable that points to a table of functions. */
typedef struct PhpTable {
        uint64_t address;
        uint64_t slot;                  /* word that says where it is, 0 = none */
} PhpTable;

enum {
        _PHP_OPEN_E_SUCCESS,
        PHP_OPEN_E_UNKNOWN,
};

/* Whether the ELF file exports PHP's interpreter. @fd: borrowed, or -1: bytes are at @data. */
bool php_recognises(int fd, const void *data, uint64_t size);

/*
 * @fd: as in php_recognises(). Return: 0 with *opened, PHP_OPEN_E_UNKNOWN with opened->reason, -ENOMEM. No
 * byte of *opened is left as it was.
 */
int php_open(int fd, const void *data, uint64_t size, PhpOpened *opened);

/* Pure. Whether what another process says of a file may be so. */
bool php_opened_is_sound(const PhpOpened *opened);

/*
 * Pure. Reads a function at ELF address @at that looks for the innermost function of PHP
 * (zend_get_executed_filename_ex(), zend_get_executed_lineno()), and adds what it says to @layout. @globals:
 * ELF address of executor_globals. Return: whether all of it is understood.
 */
bool php_layout_decode(const uint8_t *code, size_t size, uint64_t at, uint64_t globals, PhpLayout *layout);

/*
 * Pure. Whether the PHP_CALL_CODE bytes of code at ELF address @at begin with the use of @table for a call of
 * one of its functions. Then *goes_onp: where that returns to.
 */
bool php_call_decode(const uint8_t *code, uint64_t at, const PhpTable *table, uint64_t *goes_onp);
