#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Makes JAR: the classes of this folder, and a library for each ARCH=FILE (x86_64, aarch64; as the build has
# made it: sdk/libspanprof-otel.so). CLASSPATH: jars of opentelemetry-api, -context, -sdk-common and
# -sdk-extension-autoconfigure-spi. For Java 8 and later.
#
# usage: make-jar.sh JAR CLASSPATH ARCH=FILE…
set -eu
here=$(cd "$(dirname "$0")" && pwd)
jar=$1
classpath=$2
shift 2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
javac --release 8 -Xlint:all,-options,-processing,-classfile -Werror -cp "$classpath" -d "$work" \
        "$here"/spanprof/otel/*.java
for pair; do
        mkdir -p "$work/native/linux-${pair%%=*}"
        cp "${pair#*=}" "$work/native/linux-${pair%%=*}/libspanprof-otel.so"
done
mkdir -p "$work/META-INF/services"
echo spanprof.otel.Extension \
        > "$work/META-INF/services/io.opentelemetry.sdk.autoconfigure.spi.AutoConfigurationCustomizerProvider"
jar cf "$jar" -C "$work" .
