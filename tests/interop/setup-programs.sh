#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Makes CACHE/programs: programs that many run, H2 from Maven and Django from PyPI, with the profilers of
# their runtimes, async-profiler and py-spy. Does nothing, and needs no network, when it is there.
#
# usage: setup-programs.sh        CACHE: SPANPROF_TEST_CACHE, or /var/cache/spanprof-tests
set -eu
programs=${SPANPROF_TEST_CACHE:-/var/cache/spanprof-tests}/programs
jars="com.h2database:h2:2.3.232 tools.profiler:async-profiler:4.1"
packages="django==5.2.19 py-spy==0.4.3"

[ "$(cat "$programs/packages" 2>/dev/null)" != "$jars $packages" ] || exit 0
rm -rf "$programs"
mkdir -p "$programs/jars"
fail() {
        echo "setup-programs.sh: $1 (is there a network?)" >&2
        rm -rf "$programs"
        exit 1
}
for jar in $jars; do
        mvn -q org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy "-Dartifact=$jar" \
                -DoutputDirectory="$programs/jars" >/dev/null || fail "Maven could not get $jar"
done
unzip -oqj "$programs"/jars/async-profiler-*.jar linux-x64/libasyncProfiler.so -d "$programs" ||
        fail "async-profiler has no library for this processor"
/usr/bin/python3 -m venv "$programs/python"
# shellcheck disable=SC2086      # a list
"$programs/python/bin/pip" install --quiet --disable-pip-version-check --no-cache-dir $packages ||
        fail "pip could not install $packages"
echo "$jars $packages" >"$programs/packages"        # last: an interrupted installation is made anew
