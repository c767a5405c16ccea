/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Errors
 *
 * A function returns 0 for success, a positive code for a named condition that
 * its caller handles right there (enum in its header), or a negative errno for
 * what is fatal for the caller too. Negative values are traced once, where they
 * are made (error_origin), and passed up unchanged (error_fold). What a target
 * or a collector does is never negative.
 */

/* Traces a negative code at its origin and returns it. */
#define error_origin(_r) error_trace((_r), __FILE__, __LINE__, __func__)

/* Passes an error of a callee up: negative as it is; a positive one that was not handled is a bug. */
#define error_fold(_r) error_pass((_r), __FILE__, __LINE__, __func__)

int error_trace(int r, const char *file, int line, const char *function);
int error_pass(int r, const char *file, int line, const char *function);
