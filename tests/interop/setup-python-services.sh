#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Makes CACHE/python-services, a virtual environment of the system's Python with servers that many run:
# gunicorn, gevent, eventlet, uvloop, and uwsgi, which is compiled. Does nothing, and needs no network, when
# it is there.
#
# usage: setup-python-services.sh      CACHE: SPANPROF_TEST_CACHE, or /var/cache/spanprof-tests
set -eu
venv=${SPANPROF_TEST_CACHE:-/var/cache/spanprof-tests}/python-services
packages="greenlet==3.2.4 gevent==25.9.1 gunicorn==23.0.0 uwsgi==2.0.31 eventlet==0.41.3 uvloop==0.23.0"

[ "$(cat "$venv/packages" 2>/dev/null)" != "$packages" ] || exit 0
rm -rf "$venv"
mkdir -p "$(dirname "$venv")"
/usr/bin/python3 -m venv "$venv"
# shellcheck disable=SC2086      # a list
"$venv/bin/pip" install --quiet --disable-pip-version-check --no-cache-dir $packages || {
        echo "setup-python-services.sh: pip could not install $packages (is there a network?)" >&2
        rm -rf "$venv"
        exit 1
}
echo "$packages" >"$venv/packages"    # last: an interrupted installation is made anew
