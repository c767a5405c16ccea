/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Finds out where the daemon runs, by environment and files, and writes the cure in the words of that
 * place.
 */

#include "host/service/doctor/doctor-cure.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* As docs/OPERATING.md and the Containerfile have it built and pushed: no registry has it by itself. */
#define IMAGE "REGISTRY/spanprof:" SPANPROF_VERSION

DoctorPlace doctor_place(void) {
        if (getenv("KUBERNETES_SERVICE_HOST"))
                return DOCTOR_PLACE_KUBERNETES;
        if (!access("/.dockerenv", F_OK) || !access("/run/.containerenv", F_OK) || getenv("container"))
                return DOCTOR_PLACE_CONTAINER;
        return geteuid() ? DOCTOR_PLACE_SHELL : DOCTOR_PLACE_SERVICE;
}

/* A line more in the unit, in a file of its own name: two cures do not replace each other. */
static void cure_unit(char *to, const char *name, const char *line) {
        snprintf(to, DOCTOR_CURE_MAX,
                 "d=/etc/systemd/system/spanprof.service.d; sudo mkdir -p $d; "
                 "printf '[Service]\\n%s\\n' | sudo tee $d/%s.conf; sudo systemctl daemon-reload && "
                 "sudo systemctl restart spanprof",
                 line, name);
}

#define PATCH_CONTAINER "kubectl -n spanprof patch daemonset spanprof --type=json -p '[{\"op\":\"%s\",\"path\":" \
                        "\"/spec/template/spec/containers/0/securityContext/%s\",\"value\":%s}]'"

void doctor_cure_capability(DoctorPlace place, const char *name, char to[static DOCTOR_CURE_MAX]) {
        const char *plain = name + (strncmp(name, "CAP_", 4) ? 0 : 4);
        char text[128];

        switch (place) {
        case DOCTOR_PLACE_KUBERNETES:
                snprintf(text, sizeof(text), "\"%s\"", plain);
                snprintf(to, DOCTOR_CURE_MAX, PATCH_CONTAINER, "add", "capabilities/add/-", text);
                break;
        case DOCTOR_PLACE_CONTAINER:
                snprintf(to, DOCTOR_CURE_MAX,
                         "docker run --cap-add=%s --pid=host " IMAGE " doctor   # or podman; and the same for `run`",
                         plain);
                break;
        case DOCTOR_PLACE_SERVICE:
                snprintf(text, sizeof(text), "AmbientCapabilities=%s\\nCapabilityBoundingSet=%s", name, name);
                cure_unit(to, plain, text);
                break;
        default:
                snprintf(to, DOCTOR_CURE_MAX, "sudo spanprof doctor   # as root, as `run` wants to be started");
        }
}

void doctor_cure_calls(DoctorPlace place, const char *calls, char to[static DOCTOR_CURE_MAX]) {
        char text[128];

        switch (place) {
        case DOCTOR_PLACE_KUBERNETES:
                snprintf(to, DOCTOR_CURE_MAX, PATCH_CONTAINER, "add", "seccompProfile", "{\"type\":\"Unconfined\"}");
                break;
        case DOCTOR_PLACE_CONTAINER:
                snprintf(to, DOCTOR_CURE_MAX,
                         "docker run --security-opt seccomp=unconfined --pid=host " IMAGE " doctor   # or a profile with %s",
                         calls);
                break;
        default:
                snprintf(text, sizeof(text), "SystemCallFilter=%s", calls);
                cure_unit(to, "calls", text);
        }
}

void doctor_cure_namespace(DoctorPlace place, char to[static DOCTOR_CURE_MAX]) {
        if (place == DOCTOR_PLACE_KUBERNETES)
                snprintf(to, DOCTOR_CURE_MAX,
                         "kubectl -n spanprof patch daemonset spanprof -p '{\"spec\":{\"template\":{\"spec\":"
                         "{\"hostPID\":true}}}}'   # to see the node; a sidecar is right as it is");
        else
                snprintf(to, DOCTOR_CURE_MAX,
                         "docker run --pid=host " IMAGE " doctor   # or podman, to see the machine; a sidecar is right as "
                         "it is");
}

void doctor_cure_files(DoctorPlace place, char to[static DOCTOR_CURE_MAX]) {
        if (place == DOCTOR_PLACE_CONTAINER)
                snprintf(to, DOCTOR_CURE_MAX, "docker run --ulimit nofile=65536:65536 " IMAGE " doctor   # or podman");
        else if (place == DOCTOR_PLACE_KUBERNETES)
                snprintf(to, DOCTOR_CURE_MAX,
                         "grep 'open files' /proc/1/limits   # on the node: LimitNOFILE= of containerd's unit");
        else
                cure_unit(to, "files", "LimitNOFILE=65536");
}
