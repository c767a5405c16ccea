/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Other JVMs
 *
 * Virtual machines of Java that describe no frames to others, and programs that native-image has compiled:
 * which one it is. Their stacks are walked natively.
 */

#include "host/sampling/runtime/runtimes.h"

/* An ELF file: bytes at @data, or @fd >= 0. */
typedef struct OtherJvmInput {
        int fd;
        const uint8_t *data;
        uint64_t size;
} OtherJvmInput;

/*
 * Whether the file is of such a machine. @says: its name, and its version if the file tells it. Reads at most
 * 16 MiB.
 */
bool other_jvm_find(const OtherJvmInput *input, char says[OBJECT_MAX_SAYS]);

extern const RuntimeOps other_jvm_runtime;
