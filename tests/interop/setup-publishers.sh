#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Makes BUILD-DIRECTORY/publishers: programs that publish trace contexts with libraries of others, as users
# get them from Maven Central, PyPI, npm, crates.io and Debian; versions are pinned here, jars by their hash.
# What cannot be had is left out, and the tests say so: publishers/NAME is a whole one. Kept in the user's
# cache, by the hash of what they are made of.
#
# usage: setup-publishers.sh [BUILD-DIRECTORY]        (default: build beside this tree's meson.build)
set -eu
here=$(cd "$(dirname "$0")" && pwd)
build=$(cd "${1:-$here/../../build}" && pwd)
sources=$here/publishers
key=$(cat "$0" "$sources"/*.java "$sources"/*.txt "$sources"/otel-node/* "$sources"/rust*/Cargo.* \
        "$sources"/rust*/build.rs "$sources"/rust*/src/* | sha256sum | cut -c1-16)
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

make_otel_python() {
        python=/usr/bin/python3
        "$python" -m venv venv && venv/bin/pip install --quiet --disable-pip-version-check --no-cache-dir \
                --requirement "$sources/otel-python.txt"
}

# fetch_otel NAME VERSION SHA256
fetch_otel() {
        fetch "io/opentelemetry/$1/$2/${1##*/}-$2.jar" "$3"
}

make_otel_java() {
        fetch_otel javaagent/opentelemetry-javaagent 2.33.1 \
                e43a270df53c6f423e0ab157be9c27ccc01d5dc3232e162fe54777573db2f149 &&
                fetch_otel opentelemetry-api 1.67.0 \
                        538d1dff2f9a37aecbc0ef98fd17273a3affb058e734e6763a3a07a38a5fdc59 &&
                fetch_otel opentelemetry-common 1.67.0 \
                        da97bdb395418e16ecdcbe7ad3497f45b9e767ceda4ae7e86133e7a757ac377f &&
                fetch_otel opentelemetry-context 1.67.0 \
                        40fb813fb5e27ec2691daa29c81b572b5b1541ef9b41e62490c3ee3e6407c55e &&
                fetch_otel opentelemetry-sdk 1.67.0 \
                        52a8f599a368a3d62185e37053f6a53175d6fbe3ecc1d565baba13b1a854267f &&
                fetch_otel opentelemetry-sdk-common 1.67.0 \
                        628a4c00db9561ff4c608a650d5e7fd66a1e153ccdf1ba3cdc5ac0b7c6518fea &&
                fetch_otel opentelemetry-sdk-extension-autoconfigure-spi 1.67.0 \
                        41eb19f6caf2c655ac3139d331f5c34283f2efdb0f0b0e58765a6cc9e27f66bc &&
                fetch_otel opentelemetry-sdk-logs 1.67.0 \
                        dd0f0b625e08787af49d7e270abc6def4c2eabc2f18f5f145b7924024a3311e3 &&
                fetch_otel opentelemetry-sdk-metrics 1.67.0 \
                        c157ff10da59a87a57e5236d9f3290792d9b749433be5e5b449a7d1604c320a9 &&
                fetch_otel opentelemetry-sdk-trace 1.67.0 \
                        14d9615c8a5dcf471dcbb74902b771dcfa8656b755ac38dce904042289ccd198 &&
                fetch org/apache/tomcat/embed/tomcat-embed-core/10.1.44/tomcat-embed-core-10.1.44.jar \
                        8bb726735eb89bcef7a0c088db45428fd874dfdcf1775ab029d1a0d5490e68a0 &&
                fetch org/apache/tomcat/tomcat-annotations-api/10.1.44/tomcat-annotations-api-10.1.44.jar \
                        8e54e3fa60e6adecdba6e2c5c60fabbb2c83ced7f8f0f635e877115ae5dc9aa1
}

make_otel_node() {
        cp "$sources"/otel-node/*.json . && npm ci --silent --ignore-scripts --no-audit --no-fund
}

make_rust() {
        cp -r "$sources/rust" source &&
                (cd source && cargo build --quiet --release --locked) &&
                cp source/target/release/publisher . && rm -rf source
}

# bindgen looks for libclang
make_rust_labels() {
        cp -r "$sources/rust-labels" source &&
                (cd source && cargo build --quiet --release --locked) &&
                cp source/target/release/publisher-labels . && rm -rf source
}

# opentelemetry-cpp as Debian 13 has it, with the C and C++ libraries that it runs on, in a folder of its own
make_otel_cpp() {
        PYTHONPATH=$here/../harness:$here/../harness/machines python3 -c "
import debian
with debian.Suite('trixie') as suite:
    suite.unpack(['opentelemetry-cpp', 'opentelemetry-cpp-dev', 'libabsl20240722', 'libc6', 'libstdc++6', 'libgcc-s1'], '.')"
}

mkdir -p "$cache"
for name in agent elastic python rust otel-python otel-java otel-node otel-cpp rust-labels; do
        [ ! -d "$cache/$name" ] || continue
        rm -rf "$cache/$name.new"
        mkdir "$cache/$name.new"
        if (cd "$cache/$name.new" && "make_$(echo "$name" | tr - _)"); then
                # a virtual environment knows its place: made again where it stays
                mv "$cache/$name.new" "$cache/$name"
                [ ! -d "$cache/$name/venv" ] || sed -i "s#$cache/$name.new#$cache/$name#g" "$cache/$name/venv/bin/"* 2>/dev/null || true
        else
                echo "setup-publishers.sh: no publisher '$name' (no network, or no compiler for it)" >&2
                rm -rf "$cache/$name.new"
                failed=1
        fi
done
ln -sfn "$cache" "$build/publishers"
exit "$failed"
