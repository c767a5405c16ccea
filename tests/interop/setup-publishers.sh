#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Makes BUILD-DIRECTORY/publishers: programs that publish trace contexts with libraries of others, as users
# get them from Maven Central, PyPI and crates.io; versions are pinned here, jars by their hash. What cannot
# be had is left out, and the tests say so: publishers/NAME is a whole one. Kept in the user's cache, by the
# hash of what they are made of.
#
# usage: setup-publishers.sh [BUILD-DIRECTORY]        (default: build beside this tree's meson.build)
set -eu
here=$(cd "$(dirname "$0")" && pwd)
build=$(cd "${1:-$here/../../build}" && pwd)
sources=$here/publishers
key=$(cat "$0" "$sources"/*.java "$sources"/*.txt "$sources"/rust/Cargo.* "$sources"/rust/build.rs \
        "$sources"/rust/src/* | sha256sum | cut -c1-16)
cache=${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/spanprof/publishers-$key
maven=https://repo1.maven.org/maven2
failed=0

# fetch PATH SHA256 → the file, in the folder we are in
fetch() {
        name=${1##*/}
        curl --fail --silent --show-error --location --connect-timeout 15 --max-time 200 \
                --output "$name" "$maven/$1" &&
                echo "$2  $name" | sha256sum --check --quiet
}

make_agent() {
        fetch com/datadoghq/dd-java-agent/1.68.1/dd-java-agent-1.68.1.jar \
                86c97c1348277bb024f6185c4fd15a5567c50ab648f88277dffc429adb4bf927 &&
                fetch com/datadoghq/dd-trace-api/1.66.0/dd-trace-api-1.66.0.jar \
                        6967081973d04eb7e6448bdaa5ea9494c79e2cb09021eea70fe0b70be2efb5fc &&
                javac -cp dd-trace-api-1.66.0.jar -d classes "$sources/Agent.java"
}

make_elastic() {
        fetch co/elastic/otel/jvmti-access/0.3.1/jvmti-access-0.3.1.jar \
                e292ce562ef11111bf8606373ac7fb3e488f2c84349223d2ef883f31cfd06ee0 &&
                javac -cp jvmti-access-0.3.1.jar -d classes "$sources/Elastic.java"
}

make_python() {
        python=/usr/bin/python3
        "$python" -m venv venv && venv/bin/pip install --quiet --disable-pip-version-check --no-cache-dir \
                --requirement "$sources/requirements.txt"
}

make_rust() {
        cp -r "$sources/rust" source &&
                (cd source && cargo build --quiet --release --locked) &&
                cp source/target/release/publisher . && rm -rf source
}

mkdir -p "$cache"
for name in agent elastic python rust; do
        [ ! -d "$cache/$name" ] || continue
        rm -rf "$cache/$name.new"
        mkdir "$cache/$name.new"
        if (cd "$cache/$name.new" && make_$name); then
                # a virtual environment knows its place: made again where it stays
                mv "$cache/$name.new" "$cache/$name"
                [ "$name" != python ] || sed -i "s#$cache/python.new#$cache/python#g" "$cache/python/venv/bin/"* 2>/dev/null || true
        else
                echo "setup-publishers.sh: no publisher '$name' (no network, or no compiler for it)" >&2
                rm -rf "$cache/$name.new"
                failed=1
        fi
done
ln -sfn "$cache" "$build/publishers"
exit "$failed"
