#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Makes corpus/symbols/: a small library as it is linked, its debug file, stripped, without section headers,
# and as an object file, which has no addresses. Usage: make-symbols-corpus.sh DIRECTORY
set -eu
to=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cat >"$work/a.c" <<'C'
static int local(int x) { return x * 3; }
__attribute__((weak)) int weak(int x) { return local(x); }
int global(int x) { return weak(x) + 1; }
int alias(int x) __attribute__((alias("global")));
int data = 4;
C
cc -O0 -c -fPIC -fcf-protection=none -fno-asynchronous-unwind-tables -o "$work/object" "$work/a.c"
cc -shared -nostdlib -Wl,--build-id=sha1,-z,noseparate-code,-z,norelro -o "$work/linked" "$work/object"
objcopy --only-keep-debug "$work/linked" "$work/debug"
strip -o "$work/stripped" "$work/linked"
cp "$work/stripped" "$work/no-sections"
# e_shoff, e_shnum and e_shstrndx = 0
dd if=/dev/zero of="$work/no-sections" bs=1 seek=40 count=8 conv=notrunc status=none
dd if=/dev/zero of="$work/no-sections" bs=1 seek=60 count=4 conv=notrunc status=none
head -c 700 "$work/linked" >"$work/cut"
for name in object linked debug stripped no-sections cut; do
    cp "$work/$name" "$to/$name.elf"
done
