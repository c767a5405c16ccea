/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Kernel Files
 *
 * Files of the kernel without which the daemon works on, and knows less. A sandbox (a unit of systemd, a
 * container) may cover or cut one without a word, and whoever looks from outside of it still reads it. So the
 * daemon looks itself, and says what it could not read, why, and what that costs.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/util/text.h"

typedef enum KernelFile {
        KERNEL_FILE_KALLSYMS,
        KERNEL_FILE_MODULES,
        KERNEL_FILE_NOTES,
        KERNEL_FILE_RATE,
        KERNEL_FILE_STAT,
        KERNEL_FILE_CPUS,
        KERNEL_FILE_CGROUP,
        KERNEL_FILE_N,
} KernelFile;

typedef enum KernelFileState {
        KERNEL_FILE_READ,
        KERNEL_FILE_UNWANTED,           /* the configuration needs nothing of it */
        KERNEL_FILE_ABSENT,
        KERNEL_FILE_FORBIDDEN,          /* the file is there, and cannot be opened or read */
        KERNEL_FILE_COVERED,            /* something lies over it: another file, or nothing is in it */
        /* kallsyms alone: the kernel hides the addresses … */
        KERNEL_FILE_RESTRICTED,         /* … from all: kernel.kptr_restrict = 2 */
        KERNEL_FILE_NO_SYSLOG,          /* … from those without CAP_SYSLOG */
        KERNEL_FILE_FOREIGN,            /* … from capabilities of another user namespace than the first */
        KERNEL_FILE_N_STATES,
} KernelFileState;

typedef struct KernelFiles {
        KernelFileState states[KERNEL_FILE_N];
} KernelFiles;

/* Name of a file in metrics and findings, and its path. */
const char *kernel_file_name(KernelFile file);
const char *kernel_file_path(KernelFile file);

/* Words on what is lost without it. */
const char *kernel_file_loss(KernelFile file);

/*
 * State as a word for programs; a predicate for people ("is not there: …"); what to do, in words, and for a
 * shell.
 */
const char *kernel_file_state_word(KernelFileState state);
const char *kernel_file_cause(KernelFileState state);
const char *kernel_file_advice(KernelFileState state);
const char *kernel_file_fix(KernelFileState state);

static inline bool kernel_file_is_hidden(KernelFileState state) {
        return state > KERNEL_FILE_UNWANTED;
}

/* With the rights of this thread. @names: whether kernel frames are taken, which need the first three. */
void kernel_files_look(KernelFiles *files, bool names);

/* Logs what is hidden now and was not in @before (NULL = there is no before), and what can be read again. */
void kernel_files_log(const KernelFiles *files, const KernelFiles *before);

bool kernel_files_are_read(const KernelFiles *files);

/*
 * Prints a line `file NAME STATE` for each; parses such lines among others of @text, files without one
 * unwanted.
 */
void kernel_files_print(const KernelFiles *files, Text *text);
void kernel_files_parse(KernelFiles *files, const char *text);

/* Pure. Whether any line of a piece of kallsyms shows an address; the first ones may be 0 in truth. */
bool kernel_files_shows_addresses(const char *text, size_t size);

/* Pure. Why it shows none. @kptr_restrict: -1 = is not shown. */
KernelFileState kernel_files_judge_addresses(int64_t kptr_restrict, bool has_syslog, bool has_all_users);
