#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Makes BUILD-DIRECTORY/interop-venv with the packages of requirements.txt. Does nothing, and needs no
# network, when it is there already.
#
# usage: setup-venv.sh [BUILD-DIRECTORY]        (default: build beside this tree's meson.build)
set -eu
here=$(cd "$(dirname "$0")" && pwd)
venv=${1:-$here/../../build}/interop-venv

if cmp -s "$here/requirements.txt" "$venv/requirements.txt" && "$venv/bin/python" -c 'import opentelemetry.proto' 2>/dev/null; then
        exit 0
fi
rm -rf "$venv"
mkdir -p "$(dirname "$venv")"
# The system's Python, not one of a virtual environment that happens to be active: it must outlive that.
python=/usr/bin/python3
[ -x "$python" ] || python=$(command -v python3)
"$python" -m venv "$venv" || {
        echo "setup-venv.sh: $python cannot make a virtual environment; install python3-venv" >&2
        exit 1
}
"$venv/bin/pip" install --quiet --disable-pip-version-check --no-cache-dir -r "$here/requirements.txt" || {
        echo "setup-venv.sh: pip could not install $here/requirements.txt (is there a network?)" >&2
        rm -rf "$venv"
        exit 1
}
cp "$here/requirements.txt" "$venv/requirements.txt"    # last: an interrupted installation is made anew
