/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Code Hint
 *
 * What names the code that a virtual machine makes while it runs, by the files of that machine: the flag that
 * has it write a perf map or a jitdump, or that no flag helps.
 */

/* @file: base name of an executable or library. Return: a phrase, NULL = no such machine is known by it. */
const char *code_hint(const char *file);
