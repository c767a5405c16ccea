/* SPDX-License-Identifier: Apache-2.0 */

/* Files of virtual machines, as their packages install them, and what each machine's manual offers. */

#include <criterion/criterion.h>
#include <string.h>

#include "core/base/util/macro.h"
#include "desk/live/code-hint.h"

Test(code_hint, is_the_flag_of_the_machine) {
        static const char *const files[][2] = {
                { "node", "--perf-basic-prof" },
                { "deno", "--v8-flags=--perf-basic-prof" },
                { "java", "Compiler.perfmap" },
                { "mono-sgen", "--jitmap" },
                { "libmonosgen-2.0.so.1", "--jitmap" },
                { "dotnet", "DOTNET_PerfMapEnabled=1" },
                { "libcoreclr.so", "DOTNET_PerfMapEnabled=1" },
                { "beam.smp", "`erl +JPperf true`" },
                { "beam.smp", "OTP 25, 27 and 29 are read by themselves" },
                { "erl_child_setup", "OTP 25, 27 and 29 are read by themselves" },
                { "wasmtime", "--profile=perfmap" },
                { "postgres", "jit_debugging_support=on" },
                { "qemu-x86_64", "-perfmap" },
                { "qemu-system-aarch64", "-perfmap" },
                { "libjulia-internal.so.1", "ENABLE_JITPROFILING=1" },
                { "php8.2", "opcache.jit_debug" },
                { "ruby3.3", "`ruby --yjit-perf` (3.3 and newer)" },
                { "libruby-3.1.so.3.1.2", "methods of 2.7, 3.1 and 3.3 are read by themselves" },
        };

        for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
                const char *hint = code_hint(files[i][0]);

                cr_assert_not_null(hint, "%s", files[i][0]);
                cr_expect(strstr(hint, files[i][1]), "%s: %s", files[i][0], hint);
        }
}

Test(code_hint, says_where_no_flag_helps) {
        static const char *const files[] = { "bun", "luajit", "libluajit-5.1.so.2", "pypy3", "libpypy3.9-c.so" };

        for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
                const char *hint = code_hint(files[i]);

                cr_assert_not_null(hint, "%s", files[i]);
                cr_expect_eq(strncmp(hint, "no flag of", strlen("no flag of")), 0, "%s: %s", files[i], hint);
        }
}

Test(code_hint, knows_no_other_file) {
        static const char *const files[] = { "", "nginx", "libc.so.6", "python3.11", "perl", "[kernel]" };

        for (size_t i = 0; i < ARRAY_SIZE(files); i++)
                cr_expect_null(code_hint(files[i]), "%s", files[i]);
}
