/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Lists the verbs.
 */

#include "host/cli/cli.h"

/* In the order of `spanprof help`. A verb is listed once it works. */
const Verb *const verbs[] = {
        &verb_record,
        &verb_top,
        &verb_stacks,
        &verb_heap,
        &verb_run,
        &verb_targets,
        &verb_contexts,
        &verb_status,
        &verb_keep,
        &verb_watch,
        &verb_boost,
        &verb_pause,
        &verb_resume,
        &verb_doctor,
        &verb_receive,
        &verb_report,
        &verb_convert,
        &verb_validate,
        &verb_spool,
        &verb_coro,
        &verb_corotracer,
        &verb_config,
        &verb_version,
        &verb_help,
        NULL,
};
