/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Signal Names
 *
 * Numbers of signals and their codes as signal(7) and sigaction(2) name them.
 */

#include <stdbool.h>
#include <stdint.h>

#include "border/abi.h"

enum { SIGNAL_NAME_SIZE = 16 };

/* @number: 1 … 64. @name: room. Return: @name, "SIGSEGV" or "SIGRTMIN+3"; the C library takes two below SIGRTMIN. */
const char *signal_name(uint8_t number, char name[SIGNAL_NAME_SIZE]);

/* @code: low byte of si_code. Return: a constant, "SEGV_MAPERR"; NULL = it has no name. */
const char *signal_code_name(uint8_t number, int8_t code);

/* Whether the kernel tells an address with it: that of the memory, or of the instruction. */
bool signal_has_address(uint8_t number, int8_t code);

/* Bytes that a process had in memory as the kernel was out of it; 0 = it is another signal, or not known. */
uint64_t signal_memory_bytes(const struct abi_sample *header);
