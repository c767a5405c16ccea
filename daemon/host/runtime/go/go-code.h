/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Code of Go's Runtime
 *
 * Functions of the runtime say where its variables are: by code of theirs in the file, whose instructions
 * name addresses by their distance from the next one.
 */

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "core/base/elf/image.h"

enum { GO_CODE_NAMING = 7 };            /* bytes of an instruction with REX.W that names an address */

/* A file and its segments. */
typedef struct GoCode {
        const ElfImage *image;          /* borrowed */
        Elf64_Phdr *segments;
        uint32_t n_segments;
} GoCode;

/* Return: whether the file has segments; then go_code_deinit() gives them back. */
bool go_code_init(GoCode *code, const ElfImage *image);

void go_code_deinit(GoCode *code);

/* Reads code that lies at @address of the file's. Return: whether it is there; then *bytesp, owned. */
bool go_code_read(const GoCode *code, uint64_t address, uint32_t size, char **bytesp);

/* Whether an aligned variable of @size bytes may be at @address: the program may write there. */
bool go_code_is_variable(const GoCode *code, uint64_t address, uint64_t size);

/* The address that is as far behind @next, of the next instruction, as the four bytes at @distance say. */
static inline uint64_t go_code_address(const uint8_t *distance, uint64_t next) {
        int32_t value;

        memcpy(&value, distance, sizeof(value));
        return next + (uint64_t)(int64_t)value;
}

/*
 * @bytes: GO_CODE_NAMING of them, which lie at @address. Return: whether they are an instruction on eight
 * bytes, with @opcode, that names an address; then *namedp.
 */
bool go_code_names(const uint8_t *bytes, uint8_t opcode, uint64_t address, uint64_t *namedp);
