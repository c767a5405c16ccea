# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# Runs all tests in their order: the release build's, other compilers' beside them, then those of sanitizers,
# and counts them. `bootstrap test` reads this file, and has what it calls: packages, configure(), compile().

PHASES=phases           # the file below $TEMPORARY that phase() writes to
SESSION_NICE=           # what this session had before
trap 'share_as_before; clean_up' EXIT

# From here on time is that of phase $*, which has the label of its log where it is one run of tests
# (summarize.py --phases).
phase() {
        echo "$SECONDS $*" >>"$TEMPORARY/$PHASES"
}

# Runs meson's tests in $1 with the remaining arguments; its log, $2, is what counts, not its status.
run_tests() {
        local directory=$1 log=$2 ending
        shift 2
        rm -f "$directory/meson-logs/$log"{,-all,-least-share}.json
        meson test -C "$directory" --no-rebuild --logbase "$log" "$@" || true
        # meson puts the name of a setup or a wrapper behind that of the log
        for ending in all least-share; do
                [ ! -f "$directory/meson-logs/$log-$ending.json" ] ||
                        mv "$directory/meson-logs/$log-$ending.json" "$directory/meson-logs/$log.json"
        done
        give_back "$directory"
}

# Runs the cases again, one at a time, that failed in the log $2 of $1 and may have been disturbed: of what
# talks to real processes, unless more of it failed than a neighbour explains. Prints the log of the second
# run, if any.
second_run() {
        local directory=$1 log=$2 names cases

        mapfile -t names < <(python3 tests/harness/summarize.py --again "$directory/meson-logs/$log.json" | grep .)
        [ ${#names[@]} -gt 0 ] || return 0
        phase second run
        cases=$(python3 tests/harness/summarize.py --cases "$directory/meson-logs/$log.json")
        say "running again, alone: ${names[*]} ${cases//$'\n'/ }" >&2
        TEST_CASES=$cases run_tests "$directory" "$log-second" --setup all --num-processes 1 "${names[@]}" >&2
        echo "+$directory/meson-logs/$log-second.json"
}

# Those of "$@" that are names of tests.
tests_among() {
        meson test -C build --setup all --list 2>/dev/null | sed 's|.* / ||' |
                grep -xF -f <(printf '%s\n' "$@") || true
}

# Other tests of the files "$@": what of them runs alone, what the usual run leaves out and, with --long, their
# long form.
parts_of() {
        tests_among "${@/%/-alone}" "${@/%/-long}" ${long:+"${@/#/long-}"}
}

# All test programs too: ninja alone leaves them out.
compile_all() {
        compile "$1" all meson-test-prereq
}

# Builds of $1 what tests of the suites that follow run.
compile_for() {
        local directory=$1 files
        shift

        compile "$directory" build.ninja || return 1            # the list of tests may have changed since
        mapfile -t files < <(python3 tests/compiled.py --for "$directory" "$@")
        [ ${#files[@]} -gt 0 ] || return 1
        compile "$directory" "${files[@]}"
}

# Into build-clang what is generated, from the release build where that has it, and lists of what is to be
# read, below $TEMPORARY/clang (compiled.py).
prepare_clang() {
        local generated file missing=()

        CC=clang CXX=clang++ configure build-clang --buildtype=plain -Doptimization=0 -Dwerror=true
        compile build-clang build.ninja || return 1
        mapfile -t generated < <(ninja -C build-clang -t targets rule CUSTOM_COMMAND | grep '\.[ch]$')
        for file in "${generated[@]}"; do
                mkdir -p "build-clang/${file%/*}"
                cp "build/$file" "build-clang/$file" 2>/dev/null || missing+=("$file")
        done
        [ ${#missing[@]} -eq 0 ] || compile build-clang "${missing[@]}" || return 1
        python3 tests/compiled.py --read build-clang "$TEMPORARY/clang"
}

# Nothing of it runs: clang reads each file and warns, and makes no code. find_mistakes() reads the others.
read_by_clang() {
        local log=$TEMPORARY/clang.log

        [ -s "$TEMPORARY/clang/commands" ] || return 1
        if ! xargs -a "$TEMPORARY/clang/commands" -d '\n' -P "$(nproc)" -n 1 sh -c 'cd build-clang && eval "$1"' sh \
                >"$log" 2>&1; then
                cat "$log" >&2
                return 1
        fi
}

# Runs a step of `test` that passes or fails as a whole; it counts as one test.
gate() {
        local what=$1 result=OK
        shift
        say "$what"
        "$@" || result=FAIL
        printf '{"name": "%s", "result": "%s", "stdout": ""}\n' "$what" "$result" >>"$TEMPORARY/gates.json"
        [ "$result" = OK ]
}

# Runs tests of build-asan, with the log $1 and the remaining arguments.
sanitized_tests() {
        local asan=detect_leaks=1:strict_string_checks=1 ubsan=halt_on_error=1:print_stacktrace=1

        ASAN_OPTIONS=$asan UBSAN_OPTIONS=$ubsan run_tests build-asan "$@"
}

# What needs no clock and no neighbour, with the least share of the CPUs. Leaves $TEMPORARY/NAME.tested.
test_others() {
        local least=(--wrapper "$PWD/tests/harness/least-share" --timeout-multiplier 6)

        if [ -e "$TEMPORARY/arm64.compiled" ]; then
                phase arm64
                say "testing the arm64 build under qemu-user"
                touch "$TEMPORARY/arm64.tested"
                run_tests build-arm64 testlog --suite emulated "${least[@]}"
        fi
        if [ -e "$TEMPORARY/asan.compiled" ]; then
                phase sanitizers
                say "testing with sanitizers"
                touch "$TEMPORARY/asan.tested"
                sanitized_tests testlog --suite unit --suite fuzz "${least[@]}"
        fi
}

# Debian packages of these sources, for which tests of the release build wait (packages.py): to build them
# takes as long as compiling all. Where that fails there is an empty directory, and the test says why.
build_packages() {
        local made=$SPANPROF_TEST_PACKAGES.new

        # long tests look at what people get; for the others it is enough that it is compiled and packed
        [ -n "$long" ] || export DEB_CFLAGS_APPEND="-O1 -g0" DEB_BUILD_OPTIONS=noautodbgsym
        packaging/build-deb . "$made" >/dev/null 2>&1 || rm -rf "${made:?}"/*
        mv "$made" "$SPANPROF_TEST_PACKAGES"
}

# What other compilers say, while the release build is tested: tests wait more than they compute. Leaves
# $TEMPORARY/NAME.compiled for each build that can be tested.
compile_others() {
        local with=(--buildtype=plain -Doptimization=1 -Dc_args=-g1)

        PHASES=meanwhile
        chrt --idle --pid 0 "$BASHPID" || true
        phase Debian packages
        [ ! -d "${SPANPROF_TEST_PACKAGES:-}.new" ] || build_packages
        phase compiling for arm64
        if gate "compiling for arm64 (warnings are errors)" compile_cross; then
                touch "$TEMPORARY/arm64.compiled"
        fi
        phase clang
        # clang warns before it optimises; warnings that need optimisation are gcc's
        gate "generating what clang reads" prepare_clang || true
        gate "reading tests with clang (warnings are errors)" read_by_clang || true
        phase clang-tidy
        gate "reading sources with clang (warnings are errors) and clang-tidy" find_mistakes || true
        phase compiling with sanitizers
        # stacks of what it finds have lines by -g1; BPF objects are the release build's
        with+=(-Drelease_build="${released:+$PWD/build}")
        configure build-asan "${with[@]}" -Db_sanitize=address,undefined
        if gate "compiling with sanitizers" compile_for build-asan unit fuzz sanitized; then
                touch "$TEMPORARY/asan.compiled"
        fi
        phase compiling with ThreadSanitizer
        configure build-tsan "${with[@]}" -Db_sanitize=thread
        if gate "compiling with ThreadSanitizer" compile build-tsan tests/harness/export-driver \
                tests/harness/libfault-at.so tests/harness/libhanging-resolver.so \
                tests/unit/context-switches \
                ${long:+spanprof tests/victims/victim-stations tests/victims/victim-suspended}; then
                touch "$TEMPORARY/tsan.compiled"
        fi
        test_others
        phase end
}

# Starts it. Each test has a session of its own, and the scheduler shares the CPUs among sessions first: this
# one gets the least share until finish_others().
start_others() {
        [ ! -w /proc/self/autogroup ] || {
                SESSION_NICE=$(sed 's/.*nice //' /proc/self/autogroup)
                echo 19 >/proc/self/autogroup || true
        }
        in_background compile_others >"$TEMPORARY/others.log" 2>&1
        OTHERS=$!
}

finish_others() {
        share_as_before
        wait "$OTHERS" || gate "configuring for other compilers" false || true
        cat "$TEMPORARY/others.log"
}

share_as_before() {
        [ -z "$SESSION_NICE" ] || echo "$SESSION_NICE" >/proc/self/autogroup || true
        SESSION_NICE=
}

# What clang warns of and .clang-tidy asks, of the sources that build-clang compiles, save what the build
# makes itself. The analyzer is most of its time: it ends a function after some thousand states, and follows
# calls into other functions only with `deep`.
find_mistakes() {
        local log=$TEMPORARY/tidy.log depth=() word

        if [ "${1:-}" != deep ]; then
                for word in mode=shallow max-nodes=2000; do
                        depth+=(--extra-arg=-Xclang --extra-arg=-analyzer-config)
                        depth+=(--extra-arg=-Xclang "--extra-arg=$word")
                done
        fi
        [ -s "$TEMPORARY/clang/files" ] || return 1
        if ! xargs -a "$TEMPORARY/clang/files" -P "$(nproc)" -n 8 \
                clang-tidy-14 -quiet -p "$TEMPORARY/clang" "${depth[@]}" >"$log" 2>&1; then
                grep -E 'error:|warning:' "$log" >&2 || tail -n 20 "$log" >&2
                return 1
        fi
}

# Programs with threads, under ThreadSanitizer: processes of criterion do not start under it. A thread which
# is left behind in a system call is no leak here (bounded-call.h). `coro` comes with --long: it needs all of the
# daemon, and AddressSanitizer has these cases in each run.
threaded_tests() {
        local options=report_thread_leaks=0:halt_on_error=1:suppressions=$PWD/tests/threads.suppressions

        TSAN_OPTIONS=$options run_tests build-tsan testlog sdk-switches spool-threads export-threads \
                ${long:+coro-sanitized coro-attach-sanitized traces-sanitized}
}

# A minute for each fuzzer, starting from its corpus. Writes what meson would.
long_fuzzing() {
        local programs program name log=build-fuzz/meson-logs/testlog.json result out work

        CC=clang CXX=clang++ configure build-fuzz --buildtype=debugoptimized -Dfuzzers=true \
                -Db_sanitize=address,undefined -Db_lundef=false
        mapfile -t programs < <(find tests/fuzz -name 'fuzz-*.c' -printf 'tests/fuzz/%f\n' | sed 's/\.c$//' | sort)
        gate "compiling the fuzzers" compile build-fuzz corpora "${programs[@]}" || return 1
        : >"$log"
        for program in "${programs[@]/#/build-fuzz/}"; do
                name=${program##*/fuzz-}
                say "fuzzing $name"
                work=$(mktemp -d -p "$TEMPORARY")
                out=$TEMPORARY/fuzz.log
                result=OK
                "$program" -max_total_time="${FUZZ_SECONDS:-60}" -artifact_prefix="build-fuzz/$name-" -print_final_stats=1 \
                        "$work" "build-fuzz/tests/fuzz/corpus/$name" >"$out" 2>&1 || result=FAIL
                python3 -c 'import json, sys
print(json.dumps({"name": "fuzz-" + sys.argv[1], "result": sys.argv[2],
                  "stdout": open(sys.argv[3], errors="replace").read()[-8000:]}))' \
                        "$name" "$result" "$out" >>"$log"
        done
}

# Gets what tests compare with, for the tests named in "$@" or for all: much of it waits for a network.
set_up_interop() {
        tests/interop/setup-venv.sh build || say "without that package some tests will be skipped"
        if [ $# -eq 0 ] || [[ " $* " == *collector* ]]; then
                say "a collector to test with (the first time it takes minutes to build)"
                tests/interop/setup-collector.sh build || say "without it some tests will be skipped"
        fi
        if [ $# -eq 0 ] || [[ " $* " == *record* ]]; then
                say "google's pprof to test with (the first time it is built)"
                tests/interop/setup-pprof.sh build || say "without it some tests will be skipped"
        fi
        if [ $# -eq 0 ] || [[ " $* " == *control* || " $* " == *monitoring* ]]; then
                say "prometheus' own checks to test with (the first time they are built)"
                tests/interop/setup-prometheus.sh build || say "without them some tests will be skipped"
        fi
        if [ $# -eq 0 ] || [[ " $* " == *publishers* || " $* " == *otel-* || " $* " == *installs* ]]; then
                say "programs of others that publish contexts (the first time they are downloaded)"
                tests/interop/setup-publishers.sh build || say "without them some tests will be skipped"
        fi
}

# Tests more of what compile_others() made: programs that talk to each other. Adds to the caller's $logs.
other_tests() {
        [ ! -e "$TEMPORARY/arm64.tested" ] || logs+=(arm64=build-arm64/meson-logs/testlog.json)
        [ ! -e "$TEMPORARY/asan.tested" ] || logs+=(sanitizers=build-asan/meson-logs/testlog.json)
        if [ -e "$TEMPORARY/asan.compiled" ]; then
                phase sanitized
                say "testing programs with sanitizers"
                sanitized_tests programs --suite sanitized
                logs+=(sanitized=build-asan/meson-logs/programs.json)
        fi
        if [ -e "$TEMPORARY/tsan.compiled" ]; then
                phase threads
                say "testing with ThreadSanitizer"
                threaded_tests
                logs+=(threads=build-tsan/meson-logs/testlog.json)
        fi
}

run_all_tests() {
        local logs=(build="$TEMPORARY/gates.json") names=() forms=() long= half= interop released=

        for argument in "$@"; do
                case $argument in
                --long) long=1 ;;
                host | desk) half=$argument ;;
                -*) die "test: unknown option $argument (there is --long)" ;;
                *) names+=("$argument") ;;
                esac
        done
        [ -z "$half" ] || [ -z "$long${names[*]}" ] || die "test: \`$half\` stands alone, without --long and names"
        need_root
        phase packages
        install_packages "${BUILD_PACKAGES[@]}" "${STATIC_PACKAGES[@]}" "${TEST_PACKAGES[@]}"
        [ -z "$long" ] || install_packages "${LONG_TEST_PACKAGES[@]}"
        phase configuring
        say "configuring"
        configure build --buildtype=release -Dwerror=true
        in_background set_up_interop "${names[@]}"
        interop=$!
        phase compiling
        gate "compiling for release (gcc, warnings are errors)" compile_all build && released=1
        phase what tests compare with
        wait "$interop" || true
        if [ -n "$released" ]; then
                if [ -z "$half${names[*]}" ]; then
                        if [ -z "${SPANPROF_TEST_PACKAGES:-}" ]; then
                                export SPANPROF_TEST_PACKAGES=$TEMPORARY/packages
                                mkdir "$SPANPROF_TEST_PACKAGES.new"
                        fi
                        start_others
                fi
                phase release
                say "testing the release build"
                if [ ${#names[@]} -gt 0 ]; then
                        if [ -z "$long" ]; then
                                mapfile -t forms < <(tests_among "${names[@]/#/long-}")
                                [ ${#forms[@]} -eq 0 ] || say "left out, as they are not named: ${forms[*]}"
                        fi
                        mapfile -t -O ${#names[@]} names < <(parts_of "${names[@]}")
                        run_tests build testlog --setup all "${names[@]}"
                else
                        # most of them wait most of the time, and busy victims give way (tap.py)
                        run_tests build testlog --num-processes $(($(nproc) + 1)) \
                                ${half:+--suite core --suite "$half" --no-suite long}
                fi
                logs+=("release=build/meson-logs/testlog.json$(second_run build testlog)")
        elif [ -z "$half${names[*]}" ]; then
                start_others
        fi
        if [ -z "$half${names[*]}" ]; then
                phase other compilers
                say "compiling with other compilers"
                finish_others
                other_tests
        fi
        if [ -n "$long" ] && [ ${#names[@]} -eq 0 ]; then
                phase long
                say "the long tests"
                run_tests build long --suite long
                logs+=(long=build/meson-logs/long.json)
                phase more compilers and fuzzing
                gate "looking for mistakes across functions (clang-tidy)" find_mistakes deep || true
                configure build-lto --buildtype=release -Doptimization=3 -Db_lto=true -Db_ndebug=true
                gate "compiling with -O3, link-time optimisation and NDEBUG" compile build-lto spanprof || true
                if long_fuzzing; then
                        logs+=(fuzzing=build-fuzz/meson-logs/testlog.json)
                fi
        fi
        give_back build build-*
        phase end
        python3 tests/harness/summarize.py --phases "$TEMPORARY" "${logs[@]}"
}
