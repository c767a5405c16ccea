/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A table of begins of names. A program may embed the machine, and be called as it likes: then the machine's
 * library is in the stacks. docs/RUNTIMES.md has the same by language.
 */
#include "desk/live/code-hint.h"

#include <stddef.h>
#include <string.h>

#include "core/base/util/macro.h"

static const struct {
        const char *begin, *hint;
} hints[] = {
        { "node", "`node --perf-basic-prof` names such code; `spanprof targets --verbose` says whether functions of "
                  "JavaScript are read by themselves" },
        { "deno", "`deno run --v8-flags=--perf-basic-prof` names such code" },
        { "bun", "no flag of Bun names such code in a form that is read here" },
        { "java", "`jcmd PID Compiler.perfmap`, or -XX:+DumpPerfMapAtExit, names such code; `spanprof targets "
                  "--verbose` says why this JVM is not read by itself" },
        { "mono", "`mono --jitmap` names such code" },
        { "libmono", "`mono --jitmap` names such code" },
        { "dotnet", "DOTNET_PerfMapEnabled=1 names such code" },
        { "libcoreclr", "DOTNET_PerfMapEnabled=1 names such code" },
        { "beam.smp", "OTP 25, 27 and 29 are read by themselves (`spanprof targets --verbose` says so); for others "
                  "`erl +JPperf true` names such code, also as ERL_FLAGS (OTP 24 and newer)" },
        { "erl", "OTP 25, 27 and 29 are read by themselves (`spanprof targets --verbose` says so); for others "
                  "`erl +JPperf true` names such code, also as ERL_FLAGS (OTP 24 and newer)" },
        { "postgres", "jit_debugging_support=on names such code of connections that begin afterwards" },
        { "wasmtime", "`wasmtime run --profile=perfmap` names such code" },
        { "qemu-", "`-perfmap` of QEMU 8.1 and newer names such code, by addresses of the guest" },
        { "julia", "ENABLE_JITPROFILING=1 names such code" },
        { "libjulia", "ENABLE_JITPROFILING=1 names such code" },
        { "pypy", "no flag of PyPy names such code" },
        { "libpypy", "no flag of PyPy names such code" },
        { "luajit", "no flag of LuaJIT names such code" },
        { "libluajit", "no flag of LuaJIT names such code" },
        { "php", "opcache.jit_debug=0x10 names such code" },
        { "ruby", "methods of 2.7, 3.1 and 3.3 are read by themselves; "
                "`ruby --yjit-perf` (3.3 and newer) names such code" },
        { "libruby", "methods of 2.7, 3.1 and 3.3 are read by themselves; "
                "`ruby --yjit-perf` (3.3 and newer) names such code" },
};

const char *code_hint(const char *file) {
        for (size_t i = 0; i < ARRAY_SIZE(hints); i++)
                if (!strncmp(file, hints[i].begin, strlen(hints[i].begin)))
                        return hints[i].hint;
        return NULL;
}
