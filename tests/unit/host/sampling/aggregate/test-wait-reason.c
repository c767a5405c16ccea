/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <sys/syscall.h>

#include "border/offcpu_abi.h"
#include "host/sampling/aggregate/wait-reason.h"

static void says(long call, uint8_t flags, const char *reason) {
        cr_expect_str_eq(wait_reason((int16_t)call, flags), reason, "call %ld, flags %u", call, flags);
}

Test(wait_reason, is_what_was_called) {
        says(SYS_futex, 0, "futex");
        says(SYS_epoll_pwait, 0, "poll");
        says(SYS_clone, WAIT_UNINTERRUPTIBLE, "child");
        says(SYS_read, 0, "read");
        says(SYS_recvmsg, 0, "read");
        says(SYS_write, 0, "write");
        says(SYS_clock_nanosleep, 0, "sleep");
        says(SYS_wait4, 0, "child");
        says(SYS_flock, 0, "lock");
        says(SYS_exit_group, WAIT_UNINTERRUPTIBLE, "exit");
        says(SYS_getpid, 0, "other");
        says(4095, 0, "other");
}

Test(wait_reason, of_a_loop_that_has_nothing_to_do_is_another_word) {
        cr_expect_str_eq(wait_idle_reason(SYS_epoll_pwait), "epoll_wait (idle)");
        cr_expect_null(wait_idle_reason(SYS_ppoll));
        cr_expect_str_eq(wait_idle_reason(SYS_futex), "futex (idle)");
        cr_expect_null(wait_idle_reason(WAIT_NO_CALL));
}

Test(wait_reason, knows_which_calls_name_a_file) {
        static const int with[] = { SYS_read, SYS_recvmsg, SYS_accept4, SYS_write, SYS_flock, SYS_fsync },
                         without[] = { SYS_futex, SYS_ppoll, SYS_semop, SYS_wait4, SYS_getpid };
        uint64_t bits[WAIT_FILE_CALLS_WORDS];

        wait_file_calls(bits);
        for (size_t i = 0; i < sizeof(with) / sizeof(*with); i++)
                cr_expect(bits[with[i] / 64] >> (with[i] % 64) & 1, "call %d", with[i]);
        for (size_t i = 0; i < sizeof(without) / sizeof(*without); i++)
                cr_expect(!(bits[without[i] / 64] >> (without[i] % 64) & 1), "call %d", without[i]);
        cr_expect_null(wait_file_kind(WAIT_FILE_NONE));
        cr_expect_null(wait_file_kind(WAIT_FILE_N));
        for (uint32_t file = WAIT_FILE_OTHER; file < WAIT_FILE_N; file++)
                cr_expect(wait_file_kind(file), "kind %u", file);
        cr_expect_str_eq(wait_file_kind(WAIT_FILE_TCP), "tcp");
}

Test(wait_reason, is_what_the_kernel_says_where_it_says_more) {
        says(SYS_read, WAIT_UNINTERRUPTIBLE | WAIT_IO, "io");
        says(SYS_futex, WAIT_PREEMPTED, "preempted");
        says(SYS_futex, WAIT_INTERPRETER_LOCK, "gil");
        says(SYS_futex, WAIT_INTERPRETER_LOCK | WAIT_LONG, "gil");
        says(WAIT_NO_CALL, WAIT_PREEMPTED, "preempted");
        says(WAIT_NO_CALL, WAIT_STOPPED, "stopped");
        says(SYS_read, WAIT_STOPPED, "stopped");
        says(WAIT_NO_CALL, WAIT_UNINTERRUPTIBLE, "page_fault");
        says(WAIT_NO_CALL, 0, "page_fault");
        says(WAIT_NO_CALL, WAIT_UNINTERRUPTIBLE | WAIT_IO, "page_fault");
}
