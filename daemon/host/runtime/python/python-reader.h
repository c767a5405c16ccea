/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Reader of an Interpreter's Memory
 *
 * Everything here reads a process through this one call, so that tests and the fuzzer feed recorded or
 * made-up memory. What it gives is the target's word: no value is an address, a length or an index before a
 * check.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct PythonReader {
        /* Reads @size bytes, 64 KiB at most, at @address. Return: whether all of them could be read. */
        bool (*read)(void *userdata, uint64_t address, void *to, size_t size);
        void *userdata;
} PythonReader;

static inline bool python_reader_read(const PythonReader *reader, uint64_t address, void *to, size_t size) {
        return reader->read(reader->userdata, address, to, size);
}
