/* SPDX-License-Identifier: Apache-2.0 */

/*
 * `version`: prints the version, the compiler and the libraries that were found.
 */

#include <limits.h>
#include <stdio.h>

#include "core/base/util/library.h"
#include "core/base/util/macro.h"
#include "core/build-revision.h"
#include "host/build-info.h"
#include "host/cli/cli.h"

#ifdef __clang__
#define COMPILER "clang " __clang_version__
#else
#define COMPILER "gcc " __VERSION__
#endif

static void print_library(void *userdata, const char *soname) {
        const char **separatorp = userdata;
        char name[NAME_MAX + 1];

        if (library_file(soname, name, sizeof(name)))
                printf("%s%s (missing)", *separatorp, soname);
        else
                printf("%s%s", *separatorp, name);
        *separatorp = ", ";
}

void version_print(void) {
        static const char *const loaded_later[] = { SONAME_CRYPTO, SONAME_CURL, SONAME_MICROHTTPD,
                                                    SONAME_SQLITE3 };
        const char *separator = "";

        printf("spanprof %s\n"
               "revision:  %s\n"
               "build:     %s, %s, %s\n"
               "           with %s\n"
               "libraries: ",
               SPANPROF_VERSION, SPANPROF_REVISION, SPANPROF_MACHINE, COMPILER, SPANPROF_BUILDTYPE,
               SPANPROF_LIBRARIES);
        library_each_linked(print_library, &separator);
        for (size_t i = 0; i < ARRAY_SIZE(loaded_later); i++)
                print_library(&separator, loaded_later[i]);
        printf("\nkernel:    Linux 5.15, or one with its functions of BPF (`spanprof doctor`), and BTF (/sys/kernel/btf/vmlinux)\n");
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
                "Prints the version, how and with what it was built, the files of the libraries as they are loaded here,\n"
                "and the oldest kernel.",
        .run = run,
};
