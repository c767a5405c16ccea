/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Glossary
 *
 * Explains in plain English the terms of reports and the reasons for which stacks end. Data keep the short
 * terms (profile.stack.truncated), which programs compare; people read these. Texts are static.
 */

#include <stdbool.h>

#include "desk/report/sheet.h"

/* Why a stack ends early: `no_rows` → `code without unwind information`; @reason itself if it is none of ours. */
const char *glossary_end(const char *reason);

/* Explains such an end and what helps, as a sentence; NULL if the reason is none of ours. */
const char *glossary_explain_end(const char *reason);

/*
 * Whether the file at @path is a system library, or the kernel: what threads wait by means of, and end
 * waits. Its functions say nothing of the program.
 */
bool glossary_is_system_library(const char *path);

/* Explains the terms of a report, or of a comparison, line by line. */
void glossary_explain_report(const Sheet *sheet);
void glossary_explain_diff(const Sheet *sheet);
