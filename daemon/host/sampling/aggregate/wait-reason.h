/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Reasons of Waits
 *
 * What a thread waited for, by the system call that it was in and by what the kernel said of its state.
 */

#include <stdbool.h>
#include <stdint.h>

#include "border/offcpu_abi.h"

/*
 * @call: number of the system call on this machine, or WAIT_NO_CALL. @flags: WAIT_*. Return: a constant word,
 * value of the attribute wait.reason: futex, gil, poll, read, write, sleep, io, page_fault, child, signal,
 * lock, stopped, exit, preempted, other.
 */
const char *wait_reason(int16_t call, uint8_t flags);

/* Whether that word of wait_reason() stands for a futex, the lock of an interpreter left out. */
bool wait_reason_is_futex(const char *reason);

/* The same for a thread of a runtime that has nothing to do; NULL = not by this call. */
const char *wait_idle_reason(int16_t call);

/* Sets bit N for each system call N whose first argument is a descriptor, and in which threads wait. */
void wait_file_calls(uint64_t bits[WAIT_FILE_CALLS_WORDS]);

/* @file: enum abi_wait_file. Return: a constant word, value of the attribute wait.file.kind; NULL = none. */
const char *wait_file_kind(uint32_t file);
