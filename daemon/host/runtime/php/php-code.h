/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Functions of PHP
 *
 * From the words of a sample to a function's name and file. What the process wrote is no length and no
 * address before a check, and a function that is not the sample's any more has no name.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "border/runtime_abi.h"
#include "host/runtime/reader/reader-function.h"

typedef struct PhpReader {
        /* Reads @size bytes at @address. Return: whether all of them could be read. */
        bool (*read)(void *userdata, uint64_t address, void *to, size_t size);
        void *userdata;
        uint16_t file;                  /* as in struct php_process */
} PhpReader;

enum {
        _PHP_CODE_E_SUCCESS,
        PHP_CODE_E_GONE,                /* no function, or another one than the sample's */
};

/*
 * Pure. Names what needs no name: code of a file, of eval(), delegating generators. Return: whether @words
 * are of such a frame; *function has their line in any case.
 */
bool php_code_without_name(const uint64_t *words, ReaderFunction *function);

/*
 * @words: of a frame (bpf/border/runtime_abi.h). Return: 0 with *function, as `Class::method`, `{closure}` or
 * `main`; PHP_CODE_E_GONE.
 */
int php_code_name(const PhpReader *reader, const uint64_t *words, ReaderFunction *function);
