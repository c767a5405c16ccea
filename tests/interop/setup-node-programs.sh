#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Makes CACHE/node-programs: programs of JavaScript that many run, from npm, and a client that loads servers.
# Does nothing, and needs no network, when it is there.
#
# usage: setup-node-programs.sh        CACHE: SPANPROF_TEST_CACHE, or /var/cache/spanprof-tests
set -eu
programs=${SPANPROF_TEST_CACHE:-/var/cache/spanprof-tests}/node-programs
packages="typescript@5.9.3 eslint@9.39.5 @eslint/js@9.39.5 rollup@4.68.8 express@5.3.0 fastify@5.12.8 autocannon@9.0.0"

[ "$(cat "$programs/packages" 2>/dev/null)" != "$packages" ] || exit 0
rm -rf "$programs"
mkdir -p "$programs"
cd "$programs"
echo '{ "private": true }' >package.json
# shellcheck disable=SC2086      # a list
npm install --silent --no-audit --no-fund $packages || {
        echo "setup-node-programs.sh: npm could not install $packages (is there a network?)" >&2
        rm -rf "$programs"
        exit 1
}
echo "$packages" >"$programs/packages"        # last: an interrupted installation is made anew
