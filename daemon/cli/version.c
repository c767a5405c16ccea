/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "base/build-revision.h"
#include "cli/build-info.h"
#include "cli/cli.h"

#ifdef __clang__
#define COMPILER "clang " __clang_version__
#else
#define COMPILER "gcc " __VERSION__
#endif

void version_print(void) {
        printf("spanprof %s\n"
               "revision:  %s\n"
               "build:     %s, %s, %s\n"
               "libraries: %s\n"
               "kernel:    Linux 5.15 or later with BTF (/sys/kernel/btf/vmlinux)\n",
               SPANPROF_VERSION, SPANPROF_REVISION, SPANPROF_MACHINE, COMPILER, SPANPROF_BUILDTYPE,
               SPANPROF_LIBRARIES);
}

static int run(Cli *cli) {
        version_print();
        return STATUS_OK;
}

const Verb verb_version = {
        .name = "version",
        .arguments = "",
        .summary = "version, build and libraries",
        .description =
                "Prints the version, how it was built, the libraries it was built with, and the oldest kernel.",
        .run = run,
};
