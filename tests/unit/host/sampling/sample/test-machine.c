/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "host/sampling/sample/machine.h"

Test(machine, reads_versions_as_uname_prints_them) {
        uint32_t version = 7;

        cr_assert_eq(machine_parse_version("6.1.0-13-amd64", &version), 0);
        cr_assert_eq(version, MACHINE_VERSION(6, 1));
        cr_assert_eq(machine_parse_version("5.15-rc3", &version), 0);
        cr_assert_eq(version, MACHINE_VERSION(5, 15));
        cr_assert_lt(MACHINE_VERSION(5, 15), MACHINE_VERSION(6, 1), "compares as a number");
        cr_assert_lt(MACHINE_VERSION(5, 9), MACHINE_VERSION(5, 15));
        cr_assert_eq(machine_parse_version("linux", &version), MACHINE_E_MALFORMED);
        cr_assert_eq(machine_parse_version("6", &version), MACHINE_E_MALFORMED);
        cr_assert_eq(version, MACHINE_VERSION(5, 15), "output untouched");
}

static void check_cpus(const char *text, const char *expected) {
        bool online[12];
        char seen[13] = "";

        cr_assert_eq(machine_parse_cpus(text, online, 12), 0, "%s", text);
        for (int i = 0; i < 12; i++)
                seen[i] = online[i] ? 'x' : '.';
        cr_assert_str_eq(seen, expected, "%s", text);
}

Test(machine, reads_lists_of_cpus) {
        check_cpus("0\n", "x...........");
        check_cpus("0-1\n", "xx..........");
        check_cpus("0-2,4,10-11\n", "xxx.x.....xx");
        check_cpus("0,2-400\n", "x.xxxxxxxxxx");      /* beyond our table: left out */
}

Test(machine, refuses_what_is_no_list) {
        bool online[4];

        cr_assert_eq(machine_parse_cpus("", online, 4), MACHINE_E_MALFORMED);
        cr_assert_eq(machine_parse_cpus("0-", online, 4), MACHINE_E_MALFORMED);
        cr_assert_eq(machine_parse_cpus("3-1\n", online, 4), MACHINE_E_MALFORMED);
        cr_assert_eq(machine_parse_cpus("0,\n", online, 4), MACHINE_E_MALFORMED);
        cr_assert_eq(machine_parse_cpus("0 1\n", online, 4), MACHINE_E_MALFORMED);
}

static void check_missing(const char *set, const char *expected) {
        char status[256], text[64];

        snprintf(status, sizeof(status),
                 "Name:\tx\nCapPrm:\t000001ffffffffff\nCapEff:\t%s\nCapBnd:\t000001ffffffffff\n", set);
        cr_assert_eq(machine_parse_missing_capabilities(status, text, sizeof(text)), 0);
        cr_assert_str_eq(text, expected, "%s", set);
}

/* Sets as capsh --encode prints them. */
/*
 * Bits of linux/capability.h: SYS_PTRACE 19, SYS_ADMIN 21, SYSLOG 34, CHECKPOINT_RESTORE 40, DAC_READ_SEARCH
 * 2.
 */
Test(machine, says_what_is_lost_without_a_useful_capability) {
        char text[512] = "untouched";

        cr_assert_eq(machine_parse_lost_features("x\nCapEff:\t000001ffffffffff\n", text, sizeof(text)), 0);
        cr_assert_str_empty(text);
        cr_assert_eq(machine_parse_lost_features("x\nCapEff:\t0000010400080004\n", text, sizeof(text)), 0);
        cr_assert_str_empty(text, "those four alone are enough: %s", text);
        cr_assert_eq(machine_parse_lost_features("x\nCapEff:\t0000010000080004\n", text, sizeof(text)), 0);
        cr_assert_str_eq(text, "CAP_SYSLOG: kernel frames have no names");
        cr_assert_eq(machine_parse_lost_features("x\nCapEff:\t0000000400280004\n", text, sizeof(text)), 0);
        cr_assert_str_empty(text, "CAP_SYS_ADMIN stands for CAP_CHECKPOINT_RESTORE: %s", text);
        cr_assert_eq(machine_parse_lost_features("x\nCapEff:\t0000000000200000\n", text, sizeof(text)), 0);
        cr_assert_not_null(strstr(text, "CAP_SYS_PTRACE: "));
        cr_assert_not_null(strstr(text, "; CAP_SYSLOG: "));
        cr_assert_eq(machine_parse_lost_features("Name:\tx\n", text, sizeof(text)), MACHINE_E_MALFORMED);
}

Test(machine, names_the_capabilities_that_are_missing) {
        check_missing("0000000000000000", "CAP_BPF CAP_PERFMON");
        check_missing("0000008000000000", "CAP_PERFMON");       /* cap_bpf */
        check_missing("0000004000000000", "CAP_BPF");           /* cap_perfmon */
        check_missing("000000c000000000", "");
        check_missing("0000000000200000", "");                  /* cap_sys_admin */
        check_missing("0000000000080000", "CAP_BPF CAP_PERFMON");       /* cap_sys_ptrace */
}

Test(machine, says_so_when_there_is_no_set) {
        char text[64] = "untouched";

        cr_assert_eq(machine_parse_missing_capabilities("Name:\tx\n", text, sizeof(text)),
                     MACHINE_E_MALFORMED);
        cr_assert_str_eq(text, "untouched");
}
