#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Makes corpus/no-text/: the files of make-symbols-corpus.sh, and a program with lines of its source: plain,
# with compressed sections, and at no fixed address. No path of the machine is in them.
# Makes corpus/unpacked/, too: such a program whose DWARF is packed; the same with a section that says
# it is 1 TiB large, one that says a byte, one that is packed in another way, one whose bytes are not of zlib,
# and one that is cut in the middle.
# Usage: make-no-text-corpus.sh DIRECTORY DIRECTORY-FOR-UNPACKED
set -eu
to=$1
unpacked=$(realpath "$2")
"$(dirname "$0")/make-symbols-corpus.sh" "$to"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
{
    echo 'int main(void) { return 0; }'
    for i in $(seq 20); do
        echo "struct with_a_long_name_$i { int first_of_a_pair, second_of_a_pair; } variable_$i;"
    done
} >"$work/m.c"
make() {
    name=$1
    shift
    (cd "$work" && cc -g -fdebug-prefix-map="$work"=. -nostdlib -Wl,--build-id=sha1,-e,main "$@" -o "$name" m.c)
    cp "$work/$name" "$to/$name"
}
make smallg -no-pie -static
make smallggz -no-pie -static -gz
make smallgpie -fpie -pie

cd "$work"
cc -g3 -gz=zlib -fdebug-prefix-map="$work"=. -nostdlib -Wl,--build-id=sha1,-e,main -no-pie -static -o packed m.c
cp packed "$unpacked/packed"
at=$(readelf -SW packed | sed -n 's/.*\.debug_info *PROGBITS *[0-9a-f]* \([0-9a-f]*\).*/\1/p')
damage() {
    cp packed "$unpacked/$1"
    printf '%b' "$3" | dd of="$unpacked/$1" bs=1 seek=$((0x$at + $2)) conv=notrunc status=none
}
damage large 8 '\0000\0000\0000\0000\0000\0001\0000\0000'
damage small 8 '\0001\0000\0000\0000\0000\0000\0000\0000'
damage other 0 '\0002'
damage none 24 '\0377\0377'
head -c $((0x$at + 40)) packed >"$unpacked/cut"
