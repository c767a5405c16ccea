#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Makes BUILD-DIRECTORY/helm and BUILD-DIRECTORY/kubeconform, from Go modules. They are kept in the user's
# cache and only linked. The schemas that kubeconform needs come with the virtual environment (setup-venv.sh).
#
# usage: setup-helm.sh [BUILD-DIRECTORY]        (default: build beside this tree's meson.build)
set -eu
here=$(cd "$(dirname "$0")" && pwd)
build=$(cd "${1:-$here/../../build}" && pwd)
cache=${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/spanprof
. "$here/go.sh"

install_program() {      # NAME MODULE VERSION
        if [ ! -x "$cache/$1-$3" ]; then
                mkdir -p "$cache/go-bin"
                go=$(find_go) || {
                        echo "setup-helm.sh: no Go 1.25 or later, and none could be installed" >&2
                        exit 1
                }
                GOFLAGS= GOTOOLCHAIN=local GOBIN=$cache/go-bin "$go" install -trimpath -ldflags '-s -w' \
                        "$2@$3" || {
                        echo "setup-helm.sh: $1 could not be built (is there a network?)" >&2
                        exit 1
                }
                mv "$cache/go-bin/$1" "$cache/$1-$3"
        fi
        ln -sfn "$cache/$1-$3" "$build/$1"
}

install_program helm helm.sh/helm/v3/cmd/helm v3.17.3
install_program kubeconform github.com/yannh/kubeconform/cmd/kubeconform v0.6.7
