#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Makes BUILD-DIRECTORY/pprof: google's tool of that name, built from the Go modules that pprof/go.sum pins.
# The result is kept in the user's cache and only linked.
#
# usage: setup-pprof.sh [BUILD-DIRECTORY]        (default: build beside this tree's meson.build)
set -eu
here=$(cd "$(dirname "$0")" && pwd)
build=$(cd "${1:-$here/../../build}" && pwd)
key=$(cat "$here/pprof/go.mod" "$here/pprof/go.sum" | sha256sum | cut -c1-16)
cache=${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/spanprof
binary=$cache/pprof-$key
. "$here/go.sh"

if [ ! -x "$binary" ]; then
        mkdir -p "$cache"
        go=$(find_go) || {
                echo "setup-pprof.sh: no Go 1.25 or later, and none could be installed" >&2
                exit 1
        }
        (cd "$here/pprof" &&
                GOFLAGS=-mod=readonly GOTOOLCHAIN=local "$go" build -buildvcs=false -trimpath \
                -o "$binary.$$" github.com/google/pprof) || {
                rm -f "$binary.$$"
                echo "setup-pprof.sh: pprof could not be built (is there a network?)" >&2
                exit 1
        }
        mv "$binary.$$" "$binary"
fi
ln -sfn "$binary" "$build/pprof"
