#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Makes BUILD-DIRECTORY/prometheus: what promtool's checks are made of, as a small program
# (prometheus/main.go), built from the Go modules that prometheus/go.sum pins. The result is kept in the
# user's cache and only linked.
#
# usage: setup-prometheus.sh [BUILD-DIRECTORY]        (default: build beside this tree's meson.build)
set -eu
here=$(cd "$(dirname "$0")" && pwd)
build=$(cd "${1:-$here/../../build}" && pwd)
key=$(cat "$here/prometheus/main.go" "$here/prometheus/go.mod" "$here/prometheus/go.sum" | sha256sum | cut -c1-16)
cache=${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/spanprof
binary=$cache/prometheus-$key
. "$here/go.sh"

if [ ! -x "$binary" ]; then
        mkdir -p "$cache"
        go=$(find_go) || {
                echo "setup-prometheus.sh: no Go 1.25 or later, and none could be installed" >&2
                exit 1
        }
        (cd "$here/prometheus" &&
                GOFLAGS=-mod=readonly GOTOOLCHAIN=local "$go" build -buildvcs=false -trimpath \
                -ldflags '-s -w' -o "$binary.$$" .) || {
                rm -f "$binary.$$"
                echo "setup-prometheus.sh: it could not be built (is there a network?)" >&2
                exit 1
        }
        mv "$binary.$$" "$binary"
fi
ln -sfn "$binary" "$build/prometheus"
