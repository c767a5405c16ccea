/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/sandbox/rights.h"
#include "host/service/run/kernel-files.h"

/* Lines as Linux 5.15 prints them on x86-64 to root, and to those who may not see addresses. */
Test(kernel_files, sees_addresses_behind_those_that_are_0_in_truth) {
        static const char shown[] = "0000000000000000 A fixed_percpu_data\n"
                                    "0000000000000000 A __per_cpu_start\n"
                                    "0000000000001000 A cpu_debug_store\n"
                                    "ffffffff9d000000 T _text\n";
        static const char hidden[] = "0000000000000000 A fixed_percpu_data\n"
                                     "0000000000000000 T _text\n"
                                     "0000000000000000 t nft_do_chain\t[nf_tables]\n";

        cr_assert(kernel_files_shows_addresses(shown, sizeof(shown) - 1));
        cr_assert_not(kernel_files_shows_addresses(hidden, sizeof(hidden) - 1));
        cr_assert_not(kernel_files_shows_addresses("", 0));
        cr_assert_not(kernel_files_shows_addresses("no symbol of a kernel\n", 22));
}

/* Documentation/admin-guide/sysctl/kernel.rst: 2 hides from all, 0 and 1 from those without CAP_SYSLOG. */
Test(kernel_files, tells_apart_why_addresses_are_hidden) {
        cr_assert_eq(kernel_files_judge_addresses(2, true, true), KERNEL_FILE_RESTRICTED);
        cr_assert_eq(kernel_files_judge_addresses(2, false, true), KERNEL_FILE_RESTRICTED);
        cr_assert_eq(kernel_files_judge_addresses(1, false, true), KERNEL_FILE_NO_SYSLOG);
        cr_assert_eq(kernel_files_judge_addresses(0, false, true), KERNEL_FILE_NO_SYSLOG);
        cr_assert_eq(kernel_files_judge_addresses(1, true, false), KERNEL_FILE_FOREIGN);
        cr_assert_eq(kernel_files_judge_addresses(-1, true, true), KERNEL_FILE_RESTRICTED,
                     "the setting itself is hidden");
}

Test(kernel_files, reads_what_a_daemon_says_and_skips_what_it_does_not_know) {
        static const char text[] = "pid 812\ncapabilities 000001c400080004\nfile kallsyms covered\n"
                                   "file stat forbidden\nfile notes read\nfile newer covered\nfile cgroup newer\n";
        KernelFiles files;

        kernel_files_parse(&files, text);
        cr_assert_eq(files.states[KERNEL_FILE_KALLSYMS], KERNEL_FILE_COVERED);
        cr_assert_eq(files.states[KERNEL_FILE_STAT], KERNEL_FILE_FORBIDDEN);
        cr_assert_eq(files.states[KERNEL_FILE_NOTES], KERNEL_FILE_READ);
        cr_assert_eq(files.states[KERNEL_FILE_CGROUP], KERNEL_FILE_UNWANTED);
        cr_assert_eq(files.states[KERNEL_FILE_RATE], KERNEL_FILE_UNWANTED, "nothing was said of it");
        cr_assert_not(kernel_files_are_read(&files));
}

Test(kernel_files, prints_what_it_reads) {
        KernelFiles files = { { KERNEL_FILE_NO_SYSLOG, KERNEL_FILE_ABSENT, KERNEL_FILE_READ,
                                KERNEL_FILE_FOREIGN, KERNEL_FILE_RESTRICTED, KERNEL_FILE_UNWANTED,
                                KERNEL_FILE_COVERED } },
                    again;
        Text text = { 0 };

        kernel_files_print(&files, &text);
        cr_assert(strstr(text.data, "file kallsyms no-syslog\nfile modules absent\n"));
        kernel_files_parse(&again, text.data);
        cr_assert_arr_eq(again.states, files.states, sizeof(files.states));
        text_deinit(&text);
}

Test(kernel_files, wants_no_names_where_no_kernel_frames_are_taken) {
        KernelFiles files;

        kernel_files_look(&files, false);
        cr_assert_eq(files.states[KERNEL_FILE_KALLSYMS], KERNEL_FILE_UNWANTED);
        cr_assert_eq(files.states[KERNEL_FILE_MODULES], KERNEL_FILE_UNWANTED);
        cr_assert_eq(files.states[KERNEL_FILE_NOTES], KERNEL_FILE_UNWANTED);
        cr_assert_eq(files.states[KERNEL_FILE_STAT], access("/proc/stat", R_OK) ? KERNEL_FILE_ABSENT
                                                                                : KERNEL_FILE_READ);
}

#define KPTR_RESTRICT "/proc/sys/kernel/kptr_restrict"

/* The setting is the machine's: it is 2 for as long as one look takes, and nothing can fail in between. */
Test(kernel_files, looks_at_a_kernel_that_hides_addresses_from_all) {
        int fd = open(KPTR_RESTRICT, O_RDWR | O_CLOEXEC);
        KernelFiles before, between, after;
        char old[8];
        ssize_t n = fd < 0 ? 0 : read(fd, old, sizeof(old));
        bool set;

        if (n <= 0 || !rights_hold(CAP_SYSLOG))
                cr_skip_test("root: " KPTR_RESTRICT " cannot be set");
        kernel_files_look(&before, true);
        set = pwrite(fd, "2\n", 2, 0) == 2;
        kernel_files_look(&between, true);
        cr_expect_eq(pwrite(fd, old, (size_t)n, 0), n);
        kernel_files_look(&after, true);
        close(fd);
        if (!set || *old == '2')
                cr_skip_test("root: " KPTR_RESTRICT " cannot be set");
        cr_assert_eq(before.states[KERNEL_FILE_KALLSYMS], KERNEL_FILE_READ);
        cr_assert_eq(between.states[KERNEL_FILE_KALLSYMS], KERNEL_FILE_RESTRICTED);
        cr_assert_eq(after.states[KERNEL_FILE_KALLSYMS], KERNEL_FILE_READ);
        cr_assert_eq(between.states[KERNEL_FILE_NOTES], before.states[KERNEL_FILE_NOTES]);
}

Test(kernel_files, looks_with_the_rights_that_are_left) {
        KernelFiles files;
        int status;
        pid_t pid;

        if (!rights_hold(CAP_SYSLOG))
                cr_skip_test("root: no CAP_SYSLOG to give up");
        pid = fork();
        if (!pid) {
                if (rights_drop(NULL, RIGHTS_OF_DAEMON & ~RIGHTS_OF(CAP_SYSLOG)))
                        _exit(100);
                kernel_files_look(&files, true);
                _exit((int)files.states[KERNEL_FILE_KALLSYMS]);
        }
        cr_assert_eq(waitpid(pid, &status, 0), pid);
        cr_assert(WIFEXITED(status));
        cr_assert_eq(WEXITSTATUS(status), KERNEL_FILE_NO_SYSLOG);
}
