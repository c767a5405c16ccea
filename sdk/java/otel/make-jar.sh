#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Makes JAR: the classes of this folder, and a library for each ARCH=FILE (x86_64, aarch64; as the build has
# made it: sdk/libspanprof-otel.so). Without any, the one of this machine that the package or ./build has.
# CLASSPATH: jars of opentelemetry-api, -context, -sdk-common, -sdk-trace, -sdk-extension-autoconfigure-spi,
# to compile against these; without it, against stubs/. For Java 8 and later; needs a JDK.
#
# usage: make-jar.sh JAR [CLASSPATH [ARCH=FILE…]]
set -eu
here=$(cd "$(dirname "$0")" && pwd)
[ $# -ge 1 ] || {
        echo "usage: make-jar.sh JAR [CLASSPATH [ARCH=FILE…]]" >&2
        exit 2
}
jar=$1
classpath=${2:-}
for tool in javac jar; do
        command -v $tool >/dev/null || {
                echo "make-jar.sh: $tool is missing: install a JDK (apt install default-jdk-headless)" >&2
                exit 1
        }
done
if [ $# -gt 2 ]; then
        shift 2
else
        set --
        # /usr/lib/spanprof of a package, or the build of a clone
        for library in "$here/../../../../../lib/spanprof/libspanprof-otel.so" "$here/../../../build/sdk/libspanprof-otel.so"; do
                [ $# -gt 0 ] || [ ! -f "$library" ] || set -- "$(uname -m)=$library"
        done
        [ $# -gt 0 ] || {
                echo "make-jar.sh: no libspanprof-otel.so: build first (sudo ./bootstrap build), or say ARCH=FILE" >&2
                exit 1
        }
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/stubs" "$work/jar"
[ -n "$classpath" ] || {
        classpath=$work/stubs
        find "$here/stubs" -name '*.java' -exec javac --release 8 -Xlint:-options -d "$work/stubs" {} +
}
javac --release 8 -Xlint:all,-options,-processing,-classfile -Werror -cp "$classpath" -d "$work/jar" \
        "$here"/spanprof/otel/*.java
for pair; do
        mkdir -p "$work/jar/native/linux-${pair%%=*}"
        cp "${pair#*=}" "$work/jar/native/linux-${pair%%=*}/libspanprof-otel.so"
done
mkdir -p "$work/jar/META-INF/services"
echo spanprof.otel.Extension \
        > "$work/jar/META-INF/services/io.opentelemetry.sdk.autoconfigure.spi.AutoConfigurationCustomizerProvider"
jar cf "$jar" -C "$work/jar" .
