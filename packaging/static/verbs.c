/* SPDX-License-Identifier: Apache-2.0 */
#include "host/cli/cli.h"

/* Verbs of the static program, in the place of all of them (daemon/desk/cli/verbs.c): those of the desk. */
const Verb *const verbs[] = {
        &verb_record,
        &verb_top,
        &verb_stacks,
        &verb_targets,
        &verb_doctor,
        &verb_report,
        &verb_convert,
        &verb_version,
        &verb_help,
        NULL,
};
