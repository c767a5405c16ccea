/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Code of Ruby
 *
 * From the words of a sample to a method's name, file and line. What the process wrote is no length and no
 * address before a check, and code that is not the sample's any more has no name.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "border/runtime_abi.h"
#include "host/runtime/reader/reader-function.h"
#include "host/runtime/ruby/ruby-program.h"

typedef struct RubyReader {
        /* Reads @size bytes at @address. Return: whether all of them could be read. */
        bool (*read)(void *userdata, uint64_t address, void *to, size_t size);
        void *userdata;
        uint64_t ids;                   /* address of the pointer to the array of names */
        uint64_t last_operator;
        const RubyLayout *layout;
} RubyReader;

enum {
        _RUBY_CODE_E_SUCCESS,
        RUBY_CODE_E_GONE,               /* no code, or another one than the sample's */
};

/*
 * @words: of a frame (bpf/border/runtime_abi.h). Return: 0 with *function, as `total`, `block in total`,
 * `<main>` or `(gc)`, and with classes as Ruby 3.4 writes them, `Cart#total`, `Cart.made`,
 * `block in Cart#total`; RUBY_CODE_E_GONE.
 */
int ruby_code_name(const RubyReader *reader, const uint64_t *words, ReaderFunction *function);
