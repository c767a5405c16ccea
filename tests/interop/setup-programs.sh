#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Makes CACHE/programs: programs that many run, of Java from Maven (programs/pom.xml), of Python from PyPI and
# of Go (Caddy, which takes minutes), with the profilers of their runtimes, async-profiler and py-spy. Does
# nothing, and needs no network, when it is there.
#
# usage: setup-programs.sh        CACHE: SPANPROF_TEST_CACHE, or /var/cache/spanprof-tests
set -eu
here=$(cd "$(dirname "$0")" && pwd)
programs=${SPANPROF_TEST_CACHE:-/var/cache/spanprof-tests}/programs
packages="django==5.2.19 fastapi==0.165.0 httpx==0.28.1 pandas==2.3.3 sqlalchemy==2.1.9 py-spy==0.4.3"
key=$(cat "$here/programs/pom.xml" "$here"/programs/caddy/* | sha256sum | cut -c1-16)
cache=${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/spanprof
. "$here/go.sh"

[ "$(cat "$programs/packages" 2>/dev/null)" != "$key $packages" ] || exit 0
rm -rf "$programs"
mkdir -p "$programs/jars" "$cache"
fail() {
        echo "setup-programs.sh: $1 (is there a network?)" >&2
        rm -rf "$programs"
        exit 1
}
mvn -q -B -f "$here/programs/pom.xml" org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies \
        "-DoutputDirectory=$programs/jars" >/dev/null || fail "Maven could not get the programs of Java"
unzip -oqj "$programs"/jars/async-profiler-*.jar linux-x64/libasyncProfiler.so -d "$programs" ||
        fail "async-profiler has no library for this processor"
/usr/bin/python3 -m venv "$programs/python"
# shellcheck disable=SC2086      # a list
"$programs/python/bin/pip" install --quiet --disable-pip-version-check --no-cache-dir $packages ||
        fail "pip could not install $packages"
go=$(find_go) || fail "no Go 1.25 or later, and none could be installed"
(cd "$here/programs/caddy" &&
        GOFLAGS=-mod=readonly GOTOOLCHAIN=local GOCACHE=$cache/go-build "$go" build -buildvcs=false -trimpath \
        -ldflags '-s -w' -o "$programs/caddy" .) || fail "Caddy could not be built"
echo "$key $packages" >"$programs/packages"        # last: an interrupted installation is made again
