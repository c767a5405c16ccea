/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Texts of Workers
 *
 * Pure. What a worker says is not trusted.
 */

#include <stdbool.h>
#include <stddef.h>

#include "host/sampling/runtime/runtime-lock.h"

/* Makes a text of what should be one: printable ASCII, with an end in its @size bytes. */
void reader_text_repair(char *text, size_t size);

/* Whether @n bytes at @text are UTF-8 with a NUL at their end and nowhere else. */
bool reader_text_check(const char *text, size_t n);

/* Copies them to @to of @room bytes. Return: whether they are a text and fit. */
bool reader_text_take(char *to, size_t room, const char *text, size_t n);

/*
 * Whether what threads wait for may be said so: names are UTF-8 with zeroes behind them. The text is
 * made one. Who waits, and who is the owner, may be any thread.
 */
bool reader_locks_check(RuntimeLocks *locks);
