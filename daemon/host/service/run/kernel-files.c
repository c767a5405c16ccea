/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Opens each file of a table and judges why it cannot be read, or why it shows no addresses; each state has
 * a cause, a cost and a cure.
 */

#include "host/service/run/kernel-files.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "core/base/file/file.h"
#include "core/base/sandbox/rights.h"
#include "core/base/util/log.h"
#include "core/base/util/macro.h"
#include "host/sampling/frames/kallsyms.h"
#include "host/sampling/sample/machine.h"

/* Variables of each CPU come first; on old kernels the first few are at 0 in truth. */
enum { ADDRESSES_SIZE = 8 << 10 };

static const struct {
        const char *name, *path, *loss;
        unsigned filesystem;            /* f_type of statfs(2) */
        bool names;                     /* wanted for names of kernel frames alone */
        bool may_lack;                  /* may be absent or empty: no module is loaded */
} table[] = {
        [KERNEL_FILE_KALLSYMS] = { "kallsyms", "/proc/kallsyms", "kernel frames have no names", PROC_SUPER_MAGIC,
                                   true, false },
        [KERNEL_FILE_MODULES] = { "modules", "/proc/modules", "frames in kernel modules do not say in which",
                                  PROC_SUPER_MAGIC, true, true },
        [KERNEL_FILE_NOTES] = { "notes", "/sys/kernel/notes",
                                "kernel frames have no build id, by which a backend finds lines", SYSFS_MAGIC,
                                true, false },
        [KERNEL_FILE_RATE] = { "sample-rate-limit", "/proc/sys/kernel/perf_event_max_sample_rate",
                               "a frequency above the kernel's limit is not noticed", PROC_SUPER_MAGIC, false,
                               false },
        [KERNEL_FILE_STAT] = { "stat", "/proc/stat",
                               "stolen time explains no coverage, and off-cpu-max-switches limits nothing",
                               PROC_SUPER_MAGIC, false, false },
        [KERNEL_FILE_CPUS] = { "online-cpus", "/sys/devices/system/cpu/online",
                               "CPUs that come and go are not told from others", SYSFS_MAGIC, false, false },
        [KERNEL_FILE_CGROUP] = { "cgroup", "/proc/self/cgroup", "containers and units have no names",
                                 PROC_SUPER_MAGIC, false, false },
};
_Static_assert(ARRAY_SIZE(table) == KERNEL_FILE_N, "one line for each file");

static const struct {
        const char *word, *cause, *advice, *fix;
} states[] = {
        [KERNEL_FILE_READ] = { "read", "can be read", "", "" },
        [KERNEL_FILE_UNWANTED] = { "unwanted", "is not needed", "", "" },
        [KERNEL_FILE_ABSENT] = {
                "absent", "is not there: the kernel lacks it, or a sandbox shows only a part of /proc and /sys",
                "set ProcSubset=all in the unit; in a container, mount /proc and /sys whole",
                "sudo systemctl edit spanprof   # ProcSubset=all in [Service]; in a container, mount /proc and /sys whole" },
        [KERNEL_FILE_FORBIDDEN] = {
                "forbidden", "cannot be opened: a sandbox or a security module forbids it",
                "set ProtectKernelTunables=no in the unit; in a container, unmask the file",
                "sudo systemctl edit spanprof   # ProtectKernelTunables=no in [Service]; in a container, unmask it; dmesg may name a security module" },
        [KERNEL_FILE_COVERED] = {
                "covered", "is covered by another file, as a sandbox does it",
                "set ProtectKernelTunables=no in the unit; in a container, unmask the file",
                "sudo systemctl edit spanprof   # ProtectKernelTunables=no in [Service], and no InaccessiblePaths=; in a container, unmask it" },
        [KERNEL_FILE_RESTRICTED] = {
                "restricted", "hides its addresses: kernel.kptr_restrict is 2",
                "set kernel.kptr_restrict to 1 by sysctl, then start spanprof again",
                "sudo sysctl -w kernel.kptr_restrict=1   # and in a file of /etc/sysctl.d; then start spanprof again" },
        [KERNEL_FILE_NO_SYSLOG] = {
                "no-syslog", "hides its addresses: CAP_SYSLOG is not held",
                "grant CAP_SYSLOG; ProtectKernelLogs= of a unit takes it away",
                "sudo systemctl edit spanprof   # AmbientCapabilities=CAP_SYSLOG and ProtectKernelLogs=no in [Service]; in a container, grant SYSLOG" },
        [KERNEL_FILE_FOREIGN] = {
                "foreign", "hides its addresses: CAP_SYSLOG counts in the first user namespace alone",
                "set PrivateUsers=no in the unit; in a container, use the users of the machine",
                "sudo systemctl edit spanprof   # PrivateUsers=no in [Service]; in a container, no user namespace" },
};
_Static_assert(ARRAY_SIZE(states) == KERNEL_FILE_N_STATES, "one line for each state");

const char *kernel_file_name(KernelFile file) {
        return table[file].name;
}

const char *kernel_file_path(KernelFile file) {
        return table[file].path;
}

const char *kernel_file_loss(KernelFile file) {
        return table[file].loss;
}

const char *kernel_file_state_word(KernelFileState state) {
        return states[state].word;
}

const char *kernel_file_cause(KernelFileState state) {
        return states[state].cause;
}

const char *kernel_file_advice(KernelFileState state) {
        return states[state].advice;
}

const char *kernel_file_fix(KernelFileState state) {
        return states[state].fix;
}

/* ---- looking ---- */

bool kernel_files_shows_addresses(const char *text, size_t size) {
        KallsymsCursor cursor = { text, size, 0 };
        KallsymsLine line;
        int r;

        while ((r = kallsyms_next(&cursor, &line)) != KALLSYMS_E_EOF)
                if (!r && line.address)
                        return true;
        return false;
}

KernelFileState kernel_files_judge_addresses(int64_t kptr_restrict, bool has_syslog, bool has_all_users) {
        if (kptr_restrict == 2)
                return KERNEL_FILE_RESTRICTED;
        if (!has_syslog)
                return KERNEL_FILE_NO_SYSLOG;
        return has_all_users ? KERNEL_FILE_RESTRICTED : KERNEL_FILE_FOREIGN;
}

static KernelFileState why_no_addresses(void) {
        int64_t kptr_restrict = -1;

        (void)!machine_setting("kptr_restrict", &kptr_restrict);
        return kernel_files_judge_addresses(kptr_restrict, rights_hold(CAP_SYSLOG), machine_has_all_users());
}

/* CAP_DAC_READ_SEARCH goes beyond modes: it also opens what covers the file, and finds it empty. */
static KernelFileState look_at(KernelFile file) {
        _cleanup_(closep) int fd = open(table[file].path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
        char start[ADDRESSES_SIZE];
        struct statfs filesystem;
        ssize_t n;

        if (fd < 0 && (errno == ENOENT || errno == ENOTDIR))
                return table[file].may_lack ? KERNEL_FILE_READ : KERNEL_FILE_ABSENT;
        if (fd < 0 || fstatfs(fd, &filesystem) < 0)
                return KERNEL_FILE_FORBIDDEN;
        if ((unsigned)filesystem.f_type != table[file].filesystem)
                return KERNEL_FILE_COVERED;
        n = file_pread(fd, start, file == KERNEL_FILE_KALLSYMS ? sizeof(start) : 1, 0);
        if (n < 0)
                return KERNEL_FILE_FORBIDDEN;
        if (!n)
                return table[file].may_lack ? KERNEL_FILE_READ : KERNEL_FILE_COVERED;
        return file != KERNEL_FILE_KALLSYMS || kernel_files_shows_addresses(start, (size_t)n)
                       ? KERNEL_FILE_READ : why_no_addresses();
}

void kernel_files_look(KernelFiles *files, bool names) {
        for (KernelFile file = 0; file < KERNEL_FILE_N; file++)
                files->states[file] = table[file].names && !names ? KERNEL_FILE_UNWANTED : look_at(file);
}

bool kernel_files_are_read(const KernelFiles *files) {
        for (KernelFile file = 0; file < KERNEL_FILE_N; file++)
                if (kernel_file_is_hidden(files->states[file]))
                        return false;
        return true;
}

/* ---- telling ---- */

void kernel_files_log(const KernelFiles *files, const KernelFiles *before) {
        for (KernelFile file = 0; file < KERNEL_FILE_N; file++) {
                KernelFileState state = files->states[file],
                                old = before ? before->states[file] : KERNEL_FILE_READ;

                if (state == old)
                        continue;
                if (kernel_file_is_hidden(state))
                        log_write_event(LOG_LEVEL_WARNING, LOG_EVENT_FILE_HIDDEN, kernel_file_name(file),
                                        "%s: %s %s; %s", kernel_file_loss(file), kernel_file_path(file),
                                        kernel_file_cause(state), kernel_file_advice(state));
                else if (kernel_file_is_hidden(old) && state == KERNEL_FILE_READ)
                        log_info("%s can be read now", kernel_file_path(file));
        }
}

void kernel_files_print(const KernelFiles *files, Text *text) {
        for (KernelFile file = 0; file < KERNEL_FILE_N; file++)
                text_printf(text, "file %s %s\n", kernel_file_name(file),
                            kernel_file_state_word(files->states[file]));
}

static KernelFileState parse_state(const char *word) {
        for (KernelFileState state = 0; state < KERNEL_FILE_N_STATES; state++)
                if (!strcmp(word, states[state].word))
                        return state;
        return KERNEL_FILE_UNWANTED;
}

void kernel_files_parse(KernelFiles *files, const char *text) {
        char name[32], word[32];

        for (KernelFile file = 0; file < KERNEL_FILE_N; file++)
                files->states[file] = KERNEL_FILE_UNWANTED;
        for (; text; text = strchr(text, '\n')) {
                text += *text == '\n';
                if (sscanf(text, "file %31[^ \n] %31[^ \n]", name, word) != 2)
                        continue;
                for (KernelFile file = 0; file < KERNEL_FILE_N; file++)
                        if (!strcmp(name, table[file].name))
                                files->states[file] = parse_state(word);
        }
}
