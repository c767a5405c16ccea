/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Which of Many Waits Are Kept
 *
 * Waits that the kernel half has not seen begin have a cap. Where there are more, control groups, users in
 * them and their processes have equal shares of it.
 */

#include <stddef.h>
#include <stdint.h>

/* A process with such waits. */
typedef struct EarlyChoice {
        uint32_t tgid;
        size_t n;                       /* waits; then those that are kept */
} EarlyChoice;

/* Leaves @max waits of them at most. Return: 0, -ENOMEM. */
int early_choice_make(EarlyChoice *choices, size_t n, size_t max);
