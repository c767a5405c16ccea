/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Words
 *
 * Plain English for the words that profiles carry. Data keep the short ones (profile.stack.truncated), which
 * programs compare; people read these. Texts are static.
 */

#include <stdbool.h>

#include "desk/report/sheet.h"

/* Why a stack ends early: `no_rows` → `code without unwind information`; @reason itself if it is none of ours. */
const char *words_of_end(const char *reason);

/* Explains such an end and what helps, as a sentence; NULL if the reason is none of ours. */
const char *words_explain_end(const char *reason);

/*
 * Whether the file at @path is a system library, or the kernel: what threads wait by means of, and end
 * waits. Its functions say nothing of the program.
 */
bool words_is_system_library(const char *path);

/* Explains the terms of a report, or of a comparison, line by line. */
void words_explain_report(const Sheet *sheet);
void words_explain_diff(const Sheet *sheet);
