/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/timex.h>

#include "host/service/doctor/doctor.h"

static Doctor doctor;

static const Finding *find(const char *name) {
        for (size_t i = 0; i < doctor.n_findings; i++)
                if (!strcmp(doctor.findings[i].name, name))
                        return &doctor.findings[i];
        return NULL;
}

static void setup(void) {
        doctor = (Doctor){ 0 };
}

TestSuite(doctor, .init = setup);

/*
 * The bits are capabilities(7)'s: DAC_READ_SEARCH 2, SYS_PTRACE 19, SYS_ADMIN 21, SYSLOG 34, PERFMON 38, BPF
 * 39, CHECKPOINT_RESTORE 40.
 */
static void judge(uint64_t set) {
        setup();
        doctor_judge_capabilities(&doctor, set);
}

Test(doctor, says_of_each_file_that_is_hidden_what_is_lost) {
        KernelFiles files = { { KERNEL_FILE_COVERED, KERNEL_FILE_READ, KERNEL_FILE_READ, KERNEL_FILE_READ,
                                KERNEL_FILE_ABSENT, KERNEL_FILE_READ, KERNEL_FILE_READ } };

        doctor_judge_files(&doctor, &files);
        cr_assert_eq(find("kallsyms")->verdict, DOCTOR_WARN);
        cr_assert(strstr(find("kallsyms")->text, "kernel frames have no names"));
        cr_assert(strstr(find("kallsyms")->fix, "ProtectKernelTunables=no"));
        cr_assert_eq(find("stat")->verdict, DOCTOR_WARN);
        cr_assert_eq(find("cgroup")->verdict, DOCTOR_OK);
        cr_assert_eq(doctor.n_findings, 3, "the others can be read, and nobody asks for them");
}

Test(doctor, says_whose_view_each_finding_is) {
        Text text = { 0 }, json = { 0 };

        doctor.view.pid = 812;
        doctor_add(&doctor, "a", DOCTOR_OK, NULL, "ours");
        doctor.of_daemon = true;
        doctor_add(&doctor, "b", DOCTOR_OK, NULL, "its own");
        doctor_add(&doctor, "c", DOCTOR_OK, NULL, "its own, too");
        doctor.of_daemon = false;
        doctor_add(&doctor, "d", DOCTOR_OK, NULL, "ours again");
        doctor_print(&doctor, &text);
        doctor_print_json(&doctor, &json);
        cr_assert_str_eq(text.data, "As this command sees it:\n"
                                    "ok    a                        ours\n"
                                    "As the daemon that runs sees it (process 812):\n"
                                    "ok    b                        its own\n"
                                    "ok    c                        its own, too\n"
                                    "As this command sees it:\n"
                                    "ok    d                        ours again\n"
                                    "4 ok, 0 warnings, 0 failed\n");
        cr_assert(strstr(json.data, "\"name\": \"b\", \"result\": \"ok\", \"view\": \"daemon\""));
        cr_assert(strstr(json.data, "\"name\": \"d\", \"result\": \"ok\", \"view\": \"command\""));
        text_deinit(&text);
        text_deinit(&json);
}

Test(doctor, cures_of_each_state_are_whole) {
        for (KernelFileState state = KERNEL_FILE_ABSENT; state < KERNEL_FILE_N_STATES; state++) {
                KernelFiles files = { { state } };

                setup();
                doctor_judge_files(&doctor, &files);
                cr_assert_str_eq(find("kallsyms")->fix, kernel_file_fix(state), "it was cut");
                cr_assert(strstr(find("kallsyms")->text, "have no names"), "it was cut");
        }
}

Test(doctor, names_each_capability_that_is_missing_alone) {
        static const struct {
                unsigned bit;
                const char *name;
                Verdict verdict;
        } all[] = {
                { 39, "CAP_BPF", DOCTOR_FAIL },
                { 38, "CAP_PERFMON", DOCTOR_FAIL },
                { 19, "CAP_SYS_PTRACE", DOCTOR_WARN },
                { 2, "CAP_DAC_READ_SEARCH", DOCTOR_WARN },
                { 40, "CAP_CHECKPOINT_RESTORE", DOCTOR_WARN },
                { 34, "CAP_SYSLOG", DOCTOR_WARN },
        };

        for (size_t i = 0; i < 6; i++) {
                judge(0x1C400080004 & ~(UINT64_C(1) << all[i].bit));
                cr_assert_eq(doctor.n_findings, 6);
                for (size_t j = 0; j < 6; j++)
                        cr_assert_eq(find(all[j].name)->verdict, i == j ? all[i].verdict : DOCTOR_OK,
                                     "%s without %s", all[j].name, all[i].name);
                cr_assert(*find(all[i].name)->fix);
        }
}

/* A shell reads the whole line: what was cut at the end of the room would leave a quote open. */
static void check_cure(const char *cure) {
        char command[2 * DOCTOR_CURE_MAX + 32], *at = command;

        at += sprintf(at, "bash -nc \"");
        for (const char *from = cure; *from; from++) {
                if (strchr("\"\\$`", *from))
                        *at++ = '\\';
                *at++ = *from;
        }
        strcpy(at, "\"");
        cr_assert_eq(system(command), 0, "%s", cure);
        cr_assert_lt(strlen(cure), DOCTOR_CURE_MAX - 1, "%s", cure);
}

Test(doctor, cures_by_the_place_and_in_one_line_for_a_shell) {
        char cure[DOCTOR_CURE_MAX];

        for (DoctorPlace place = DOCTOR_PLACE_SHELL; place <= DOCTOR_PLACE_KUBERNETES; place++) {
                doctor_cure_capability(place, "CAP_CHECKPOINT_RESTORE", cure);
                check_cure(cure);
                doctor_cure_calls(place, "bpf perf_event_open process_vm_readv", cure);
                check_cure(cure);
                doctor_cure_namespace(place, cure);
                check_cure(cure);
                doctor_cure_files(place, cure);
                check_cure(cure);
        }
        doctor_cure_capability(DOCTOR_PLACE_KUBERNETES, "CAP_BPF", cure);
        cr_assert(strstr(cure, "\"value\":\"BPF\""), "%s", cure);
        doctor_cure_capability(DOCTOR_PLACE_CONTAINER, "CAP_BPF", cure);
        cr_assert(strstr(cure, "--cap-add=BPF "), "%s", cure);
        doctor_cure_capability(DOCTOR_PLACE_SERVICE, "CAP_BPF", cure);
        cr_assert(strstr(cure, "AmbientCapabilities=CAP_BPF"), "%s", cure);
}

Test(doctor, takes_sys_admin_for_what_was_once_a_part_of_it_and_for_no_more) {
        judge(UINT64_C(1) << 21);
        cr_assert_eq(find("CAP_BPF")->verdict, DOCTOR_OK);
        cr_assert_eq(find("CAP_PERFMON")->verdict, DOCTOR_OK);
        cr_assert_eq(find("CAP_CHECKPOINT_RESTORE")->verdict, DOCTOR_OK);
        cr_assert_eq(find("CAP_SYS_PTRACE")->verdict, DOCTOR_WARN);
        cr_assert_eq(find("CAP_SYSLOG")->verdict, DOCTOR_WARN);
}

Test(doctor, reads_a_kernel_configuration) {
        doctor_judge_config(
                &doctor,
                "# CONFIG_KALLSYMS is not set\nCONFIG_BPF_SYSCALL=y\nXCONFIG_PERF_EVENTS=y\nCONFIG_PERF_EVENTS=y\n"
                "CONFIG_BPF_EVENTS=y\nCONFIG_DEBUG_INFO_BTF_MODULES=y\nCONFIG_BPF_JIT=y");
        cr_assert_eq(doctor.n_findings, 2);
        cr_assert(strstr(doctor.findings[0].text, "CONFIG_DEBUG_INFO_BTF "));
        cr_assert_eq(doctor.findings[0].verdict, DOCTOR_FAIL);
        cr_assert(strstr(doctor.findings[1].text, "CONFIG_KALLSYMS "));
        cr_assert_eq(doctor.findings[1].verdict, DOCTOR_WARN);
}

Test(doctor, knows_what_lockdown_forbids) {
        doctor_judge_lockdown(&doctor, "none integrity [confidentiality]\n");
        doctor_judge_lockdown(&doctor, "none [integrity] confidentiality\n");
        doctor_judge_lockdown(&doctor, "[none] integrity confidentiality\n");
        cr_assert_eq(doctor.findings[0].verdict, DOCTOR_FAIL);
        cr_assert_eq(doctor.findings[1].verdict, DOCTOR_OK);
        cr_assert_eq(doctor.findings[2].verdict, DOCTOR_OK);
}

/* As /proc/self/timens_offsets has it after `unshare --time --boottime 86400`. */
Test(doctor, refuses_clocks_of_a_time_namespace_with_an_offset) {
        doctor_judge_offset(&doctor, "monotonic           0         0\nboottime            0         0\n");
        doctor_judge_offset(&doctor, "monotonic           0         0\nboottime        86400         0\n");
        doctor_judge_offset(&doctor, "monotonic          -1 999999999\nboottime            0         0\n");
        cr_assert_eq(doctor.findings[0].verdict, DOCTOR_OK);
        cr_assert_eq(doctor.findings[1].verdict, DOCTOR_FAIL);
        cr_assert_eq(doctor.findings[2].verdict, DOCTOR_FAIL);
}

Test(doctor, tells_a_clock_that_was_never_set_from_one_that_nobody_keeps) {
        doctor_judge_time(&doctor, 1800000000, TIME_OK);
        doctor_judge_time(&doctor, 1800000000, TIME_ERROR);
        doctor_judge_time(&doctor, 3600, TIME_OK);      /* an hour after its battery was empty */
        cr_assert_eq(doctor.findings[0].verdict, DOCTOR_OK);
        cr_assert_eq(doctor.findings[1].verdict, DOCTOR_WARN);
        cr_assert(strstr(doctor.findings[1].fix, "systemd-timesyncd"));
        cr_assert_eq(doctor.findings[2].verdict, DOCTOR_WARN);
        cr_assert(strstr(doctor.findings[2].fix, "date --set"));
        doctor_judge_time(&doctor, 1800000000, -1);
        cr_assert_eq(doctor.findings[3].verdict, DOCTOR_OK);
}

Test(doctor, knows_that_perfmon_passes_a_paranoid_kernel) {
        for (int64_t paranoid = -1; paranoid <= 4; paranoid++) {
                setup();
                doctor_judge_paranoid(&doctor, paranoid, true, true, false);
                doctor_judge_paranoid(&doctor, paranoid, false, paranoid <= 2, false);
                doctor_judge_paranoid(&doctor, paranoid, true, false, false);   /* Debian's since 6.12 */
                doctor_judge_paranoid(&doctor, paranoid, true, false, true);
                cr_assert_eq(doctor.findings[0].verdict, DOCTOR_OK);
                cr_assert_eq(doctor.findings[1].verdict, paranoid > 2 ? DOCTOR_FAIL : DOCTOR_OK);
                cr_assert_eq(doctor.findings[2].verdict, paranoid > 2 ? DOCTOR_FAIL : DOCTOR_OK);
                cr_assert_eq(doctor.findings[3].verdict, DOCTOR_OK);
        }
}

Test(doctor, warns_of_a_twentieth_of_samples_without_a_name) {
        doctor_judge_nameless(&doctor, "4.9 % of 100 samples have no name of their innermost function: 4.9 % a cap was met");
        cr_assert_eq(doctor.findings[0].verdict, DOCTOR_OK);
        doctor_judge_nameless(&doctor, "5.0 % of 100 samples have no name of their innermost function: 5.0 % a cap was met");
        cr_assert_eq(doctor.findings[1].verdict, DOCTOR_WARN);
        cr_assert_not_null(strstr(doctor.findings[1].fix, "CAPS.md"));
        cr_assert_not_null(strstr(doctor.findings[1].text, "5.0 % of 100"));
}

#define NAMELESS " of 100 samples have no name of their innermost function: "
#define ENDED "their process had ended before it was looked at"

Test(doctor, warns_of_no_names_that_cannot_be_had) {
        doctor_judge_nameless(&doctor, "20.0 %" NAMELESS "15.1 % " ENDED ", 4.9 % a cap was met");
        cr_assert_eq(doctor.findings[0].verdict, DOCTOR_OK);
        cr_assert_not_null(strstr(doctor.findings[0].text, "4.9 % a cap was met; counts are sound"));
        doctor_judge_nameless(&doctor, "20.0 %" NAMELESS "14.0 % " ENDED ", 6.0 % a cap was met");
        cr_assert_eq(doctor.findings[1].verdict, DOCTOR_WARN);
        cr_assert_not_null(strstr(doctor.findings[1].fix, "CAPS.md"), "of the first that has one");
        doctor_judge_nameless(&doctor, "20.0 %" NAMELESS "12.0 % in words of another release, 8.0 % " ENDED);
        cr_assert_eq(doctor.findings[2].verdict, DOCTOR_WARN);
        cr_assert_str_eq(doctor.findings[2].fix, "");
}

/* Files and processes of others are named in it. */
Test(doctor, masks_what_it_quotes) {
        Text text = { 0 };

        doctor_add(&doctor, "a", DOCTOR_WARN, "move \xE2\x80\xAE" "f", "%s", "x\nfail  y\x1b");
        doctor_print(&doctor, &text);
        cr_assert_not_null(strstr(text.data, " x?fail  y?\n"));
        cr_assert_not_null(strstr(text.data, "move ?f\n"));
        text_deinit(&text);
}

Test(doctor, prints_the_fix_of_what_is_not_well_and_counts_failures) {
        Text text = { 0 };

        doctor_add(&doctor, "a", DOCTOR_OK, "never shown", "well");
        doctor_add(&doctor, "b", DOCTOR_WARN, "do this", "so so");
        doctor_add(&doctor, "c", DOCTOR_FAIL, "do \"that\"", "bad");
        cr_assert_eq(doctor_print(&doctor, &text), 1);
        cr_assert_str_eq(text.data, "ok    a                        well\n"
                                    "warn  b                        so so\n"
                                    "                               → do this\n"
                                    "fail  c                        bad\n"
                                    "                               → do \"that\"\n"
                                    "1 ok, 1 warning, 1 failed\n");
        text_deinit(&text);
}

Test(doctor, says_who_the_daemon_will_be_and_whom_that_may_write) {
        const RightsUser other = { 1000, 1000, "other" }, root = { 0, 0, "root" };
        static const Verdict verdicts[] = { DOCTOR_OK, DOCTOR_OK, DOCTOR_WARN, DOCTOR_WARN, DOCTOR_FAIL };

        doctor_judge_user(&doctor, 1000, &other, false);
        doctor_judge_user(&doctor, 0, &other, true);
        doctor_judge_user(&doctor, 0, &other, false);
        doctor_judge_user(&doctor, 0, &root, true);
        doctor_judge_user(&doctor, 0, NULL, true);
        for (size_t i = 0; i < 5; i++) {
                cr_assert_eq(doctor.findings[i].verdict, verdicts[i], "%zu", i);
                cr_assert_eq(!!strstr(doctor.findings[i].text, "other processes of root"),
                             verdicts[i] == DOCTOR_WARN);
        }
        cr_assert(strstr(doctor.findings[1].text, "`other`"));
}

Test(doctor, certificates_are_judged_by_the_days_that_they_have) {
        const time_t now = 1795435200;          /* 2026-11-23 12:00:00 UTC */
        const struct {
                time_t end;
                Verdict verdict;
                const char *text;
        } cases[] = {
                { now - 1, DOCTOR_FAIL, "x.pem has ended: 2026-11-23 11:59:59 UTC" },
                { now + 86400, DOCTOR_WARN, "x.pem ends 2026-11-24 12:00:00 UTC, in 1 days" },
                { now + 14 * 86400 - 1, DOCTOR_WARN, "x.pem ends 2026-12-07 11:59:59 UTC, in 13 days" },
                { now + 14 * 86400, DOCTOR_OK, "x.pem ends 2026-12-07 12:00:00 UTC, in 14 days" },
        };

        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                setup();
                doctor_judge_certificate(&doctor, "certificate", "x.pem", "renew it", cases[i].end, now);
                cr_assert_eq(doctor.findings[0].verdict, cases[i].verdict);
                cr_assert_str_eq(doctor.findings[0].text, cases[i].text);
                cr_assert_str_eq(doctor.findings[0].fix, cases[i].verdict == DOCTOR_OK ? "" : "renew it");
        }
}

Test(doctor, says_what_a_recorder_has_and_how_far_back_it_reaches) {
        Config config = { .sampling = { .frequency = 99, .recorder_frequency = 999 } };

        doctor.config = &config;
        doctor.view.pid = 812;
        doctor_judge_recorder(&doctor, 64 << 20, 100000, "targets 1\n");
        cr_assert(strstr(find("recorder")->text, "none is asked for"));
        cr_assert_null(find("recorder-reach"));

        config.sampling.recorder_ns = 600 * UINT64_C(1000000000);
        doctor.n_findings = 0;
        doctor_judge_recorder(&doctor, 64 << 20, 100000,
                              "ticks 1\nrecorder     reaches back 5 min of 10 min: 20 windows, 3.0 of 64 MiB; "
                              "7 went for age, 0 for room\nkernel x\n");
        cr_assert_str_eq(find("recorder")->text, "990 ticks a second of a busy CPU, one of 10 is exported; 600 s are "
                                                 "kept, in 64 MiB at most");
        cr_assert_eq(find("recorder")->verdict, DOCTOR_OK);
        cr_assert_not(find("recorder")->of_daemon);
        cr_assert_str_eq(find("recorder-reach")->text, "reaches back 5 min of 10 min: 20 windows, 3.0 of 64 MiB; "
                                                       "7 went for age, 0 for room");
        cr_assert_eq(find("recorder-reach")->verdict, DOCTOR_OK);
        cr_assert(find("recorder-reach")->of_daemon);

        doctor.n_findings = 0;
        doctor_judge_recorder(&doctor, 64 << 20, 0,
                              "ticks 1\nrecorder     reaches back 5 min of 10 min: 20 windows, 64.0 of 64 MiB; "
                              "0 went for age, 1 for room\n");
        cr_assert_eq(find("recorder")->verdict, DOCTOR_OK, "a rate that is not known is enough");
        cr_assert_eq(find("recorder-reach")->verdict, DOCTOR_WARN);
        cr_assert(strstr(find("recorder-reach")->fix, "recorder-frequency"));
}

Test(doctor, warns_of_a_recorder_that_cannot_have_what_it_is_to) {
        Config config = { .sampling = { .frequency = 99, .recorder_frequency = 999, .recorder_ns = 1 } };

        doctor.config = &config;
        doctor_judge_recorder(&doctor, 16 << 20, 100000, NULL);
        doctor_judge_recorder(&doctor, 64 << 20, 989, NULL);
        doctor_judge_recorder(&doctor, 64 << 20, 990, NULL);
        config.sampling.recorder_frequency = 99;
        doctor_judge_recorder(&doctor, 64 << 20, 100000, NULL);
        cr_assert_eq(doctor.n_findings, 4);
        cr_assert_eq(doctor.findings[0].verdict, DOCTOR_WARN);
        cr_assert(strstr(doctor.findings[0].text, "16 MiB at most, not 64"));
        cr_assert_eq(doctor.findings[1].verdict, DOCTOR_WARN);
        cr_assert(strstr(doctor.findings[1].fix, "perf_event_max_sample_rate=990"));
        cr_assert_eq(doctor.findings[2].verdict, DOCTOR_OK);
        cr_assert_eq(doctor.findings[3].verdict, DOCTOR_WARN);
        cr_assert(strstr(doctor.findings[3].text, "no more than the export"));
}

static const Finding *judge_boosts(const char *status) {
        doctor.n_findings = 0;
        doctor_judge_boosts(&doctor, status);
        cr_assert_eq(doctor.n_findings, 1);
        return find("boost");
}

Test(doctor, says_which_boosts_are_on) {
        const Finding *finding;

        finding = judge_boosts("spanprof\nsampling     99 Hz on 2 CPUs\n"
                               "boost        process 812 at 495 Hz, for 4 min more\nnames        local\n");
        cr_assert_eq(finding->verdict, DOCTOR_OK);
        cr_assert_str_eq(finding->text, "process 812 at 495 Hz, for 4 min more");
        cr_assert(!finding->of_daemon);
        doctor.view.pid = 7;
        finding = judge_boosts("spanprof\nboost        unit a at 495 Hz, for 9 s more\n"
                               "boost        unit b at 495 Hz, for 4 min more\nboosts no\n");
        cr_assert_str_eq(finding->text, "unit a at 495 Hz, for 9 s more (the first of 2)");
        cr_assert(finding->of_daemon && !doctor.of_daemon);
        cr_assert(judge_boosts("spanprof\nsampling     99 Hz on 2 CPUs\n")->of_daemon);
}

/* The daemon's frequency and limits, whatever our own configuration says. */
Test(doctor, says_what_stands_against_a_boost) {
        static const struct {
                const char *status, *text;
                Verdict verdict;
        } cases[] = {
                { "spanprof\nsampling     99 Hz on 2 CPUs\n", "none is on; `spanprof boost` samples", DOCTOR_OK },
                { "spanprof\nsampling     49 Hz on 2 CPUs (lowered by a limit)\n", "one may be cut", DOCTOR_WARN },
                { "spanprof\nsampling     99 Hz on 2 CPUs\nrecorder     reaches back 1 s\n"
                  "             no more samples than the export: max-cpu leaves no room\n", "leaves no room",
                  DOCTOR_WARN },
                { "spanprof\nsampling     paused (command): `spanprof resume` ends it\n", "nothing is sampled",
                  DOCTOR_OK },
                { "spanprof\nsampling     666 Hz on 2 CPUs\n", "none is on", DOCTOR_OK },
                { "spanprof\nsampling     667 Hz on 2 CPUs\n", "667 Hz is too near to the 1000", DOCTOR_OK },
                { "spanprof\nsampling     0 Hz on 2 CPUs\n", "none is on", DOCTOR_OK },
                { "ok\n", "none is on", DOCTOR_OK },
        };
        const Config config = { .sampling = { .frequency = 700 }, .daemon = { .max_cpu = 50 } };

        doctor.config = &config;
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                const Finding *finding = judge_boosts(cases[i].status);

                cr_assert_eq(finding->verdict, cases[i].verdict, "%zu", i);
                cr_assert(strstr(finding->text, cases[i].text), "%s", finding->text);
                cr_assert_eq(!!*finding->fix, cases[i].verdict == DOCTOR_WARN);
        }
}
