/* SPDX-License-Identifier: Apache-2.0 */

/*
 * `doctor`: runs all checks in their order, and prints what they have found.
 */

#include <stdio.h>

#include "host/cli/cli.h"
#include "host/service/doctor/doctor.h"

static int run(Cli *cli) {
        _cleanup_(text_deinit) Text json = { 0 }, text = { 0 };
        static Doctor doctor;
        size_t n_failed;

        doctor.config = &cli->config;
        doctor.place = doctor_place();
        doctor_look(&doctor);
        doctor_check_kernel(&doctor);
        doctor_check_rights(&doctor);
        doctor_check_limits(&doctor);
        doctor_check_recorder(&doctor);
        doctor_check_watch(&doctor);
        doctor_check_place(&doctor);
        doctor_check_shipping(&doctor);
        n_failed = doctor_print(&doctor, &text);
        doctor_print_json(&doctor, &json);
        fputs((cli->config.command.json ? json.data : text.data) ?: "", stdout);
        return n_failed ? STATUS_FAILURE : STATUS_OK;
}

const Verb verb_doctor = {
        .name = "doctor",
        .bit = VERB_RUN | VERB_DOCTOR,
        .arguments = "",
        .reads_files = true,
        .summary = "check whether `run` would work here, and say how to mend what would not",
        .description =
                "Looks at the kernel, our rights and limits, the spool and the receiver, with the configuration that `run`\n"
                "would have: `ok`, `warn` (something works less well) or `fail` (it would not work), and how to mend it. The\n"
                "kernel half is loaded for a moment, and the receiver gets a request without profiles. Changes nothing.\n"
                "Where a daemon runs it is asked what it may and can read, which its sandbox may cut; all else is as this\n"
                "command sees it, with its own rights.\n"
                "The exit status is 1 if anything failed.",
        .run = run,
};
