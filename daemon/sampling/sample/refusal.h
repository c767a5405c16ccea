/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Refusal
 *
 * Why this machine will not let us sample, in one line that says what is missing.
 */

/* Where the kernel describes its own types. */
#define REFUSAL_BTF_PATH "/sys/kernel/btf/vmlinux"

enum {
        _REFUSAL_E_SUCCESS,
        REFUSAL_E_UNUSABLE,             /* the same value as SAMPLER_E_UNUSABLE; the line was logged */
};

/* Before anything is tried: what would fail with a riddle later on. Return: 0, REFUSAL_E_UNUSABLE. */
int refusal_check(const char *btf_path);

/*
 * Logs why @what was answered with the negative code @r. Return: REFUSAL_E_UNUSABLE, or @r if memory ran out.
 */
int refusal_explain(const char *what, int r);
