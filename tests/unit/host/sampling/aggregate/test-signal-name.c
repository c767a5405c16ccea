/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "border/abi.h"
#include "host/sampling/aggregate/signal-name.h"

#define IS_NAMED(number) cr_assert_str_eq(signal_name(number, name), #number)

Test(signal_name, each_has_the_name_of_its_constant) {
        char name[SIGNAL_NAME_SIZE];

        IS_NAMED(SIGHUP);
        IS_NAMED(SIGILL);
        IS_NAMED(SIGTRAP);
        IS_NAMED(SIGABRT);
        IS_NAMED(SIGBUS);
        IS_NAMED(SIGFPE);
        IS_NAMED(SIGKILL);
        IS_NAMED(SIGSEGV);
        IS_NAMED(SIGPIPE);
        IS_NAMED(SIGSTKFLT);
        IS_NAMED(SIGVTALRM);
        IS_NAMED(SIGPWR);
        IS_NAMED(SIGSYS);
        for (uint8_t number = 1; number < 32; number++)
                cr_assert(!strncmp(signal_name(number, name), "SIG", 3), "%d", number);
}

Test(signal_name, those_for_programs_are_counted_from_the_first_one) {
        char name[SIGNAL_NAME_SIZE];

        cr_assert_str_eq(signal_name((uint8_t)SIGRTMIN, name), "SIGRTMIN+0");
        cr_assert_str_eq(signal_name((uint8_t)SIGRTMAX, name), "SIGRTMIN+30");
        cr_assert_str_eq(signal_name(32, name), "signal 32");
        cr_assert_str_eq(signal_name(UINT8_MAX, name), "SIGRTMIN+221");
}

Test(signal_name, codes_mean_something_by_their_signal) {
        cr_assert_str_eq(signal_code_name(SIGSEGV, SEGV_MAPERR), "SEGV_MAPERR");
        cr_assert_str_eq(signal_code_name(SIGBUS, BUS_ADRERR), "BUS_ADRERR");
        cr_assert_str_eq(signal_code_name(SIGFPE, FPE_INTDIV), "FPE_INTDIV");
        cr_assert_str_eq(signal_code_name(SIGABRT, SI_TKILL), "SI_TKILL");
        cr_assert_str_eq(signal_code_name(SIGUSR1, SI_USER), "SI_USER");
        cr_assert_str_eq(signal_code_name(SIGSEGV, (int8_t)SI_KERNEL), "SI_KERNEL");
        cr_assert_str_eq(signal_code_name(SIGKILL, ABI_CRASH_NO_MEMORY), "out of memory");
        cr_assert_null(signal_code_name(SIGKILL, 0));
        cr_assert_null(signal_code_name(SIGSEGV, 6), "none so far");
        cr_assert_null(signal_code_name(SIGSEGV, 7));
        cr_assert_null(signal_code_name(SIGUSR1, 1));
}

Test(signal_name, only_faults_have_an_address) {
        cr_assert(signal_has_address(SIGSEGV, SEGV_ACCERR));
        cr_assert(!signal_has_address(SIGSEGV, SI_TKILL));
        cr_assert(!signal_has_address(SIGSEGV, (int8_t)SI_KERNEL));
        cr_assert(!signal_has_address(SIGSYS, 1));
}

Test(signal_name, only_who_had_no_memory_left_says_how_much_it_had) {
        const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
        struct abi_sample header = { .signal = SIGKILL, .signal_code = ABI_CRASH_NO_MEMORY, .value = 3 };

        cr_assert_eq(signal_memory_bytes(&header), 3 * page);
        header.signal_code = 0;
        cr_assert_eq(signal_memory_bytes(&header), 0);
        header = (struct abi_sample){ .signal = SIGSEGV, .signal_code = SEGV_MAPERR, .value = 3 };
        cr_assert_eq(signal_memory_bytes(&header), 0);
}
