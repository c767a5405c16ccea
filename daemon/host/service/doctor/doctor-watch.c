/* SPDX-License-Identifier: Apache-2.0 */

/* Checks what builds are compared by, with --watch-builds: names of functions, and a place to keep them. */

#include <inttypes.h>

#include "core/base/util/clock.h"
#include "host/service/config/backend.h"
#include "host/service/doctor/doctor.h"

void doctor_check_watch(Doctor *doctor) {
        const Config *config = doctor->config;

        if (!config->sampling.watch_ns)
                return;
        if (!backend_wants_names(config))
                doctor_add(doctor, "watch", DOCTOR_WARN, "spanprof config show   # set symbols = local",
                           "functions in files have no names here, so builds of most services are not compared");
        else if (backend_merges_processes(config))
                doctor_add(doctor, "watch", DOCTOR_WARN, "spanprof config show   # see attributes-deny, -allow",
                           "without process.pid, builds of services with several processes are not compared");
        else if (!*config->spool.directory)
                doctor_add(doctor, "watch", DOCTOR_WARN, "spanprof config show   # set spool = /var/lib/spanprof/spool",
                           "without a spool, builds from before a restart of the daemon are not known");
        else
                doctor_add(doctor, "watch", DOCTOR_OK, NULL,
                           "a build is compared with the one before when it has run for %" PRIu64
                           " s; sketches are kept beside %s", config->sampling.watch_ns / NS_PER_SEC,
                           config->spool.directory);
}
