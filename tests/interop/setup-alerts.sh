#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Makes BUILD-DIRECTORY/alerts: Prometheus' engine of rules as a small program (alerts/main.go), built from
# the Go modules that alerts/go.sum pins. It is for the suite `long`: a first build takes a minute of two CPUs.
# The result is kept in the user's cache and only linked.
#
# usage: setup-alerts.sh [BUILD-DIRECTORY]        (default: build beside this tree's meson.build)
set -eu
here=$(cd "$(dirname "$0")" && pwd)
build=$(cd "${1:-$here/../../build}" && pwd)
key=$(cat "$here/alerts/main.go" "$here/alerts/go.mod" "$here/alerts/go.sum" | sha256sum | cut -c1-16)
cache=${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/spanprof
binary=$cache/alerts-$key
. "$here/go.sh"

if [ ! -x "$binary" ]; then
        mkdir -p "$cache"
        go=$(find_go) || {
                echo "setup-alerts.sh: no Go 1.25 or later, and none could be installed" >&2
                exit 1
        }
        (cd "$here/alerts" &&
                GOFLAGS=-mod=readonly GOTOOLCHAIN=local "$go" build -buildvcs=false -trimpath \
                -ldflags '-s -w' -o "$binary.$$" .) || {
                rm -f "$binary.$$"
                echo "setup-alerts.sh: it could not be built (is there a network?)" >&2
                exit 1
        }
        mv "$binary.$$" "$binary"
fi
ln -sfn "$binary" "$build/alerts"
