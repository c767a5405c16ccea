#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Makes corpus/no-text/: the files of make-symbols-corpus.sh, and a program with lines of its source: plain,
# with compressed sections, and at no fixed address. No path of the machine is in them.
# Usage: make-no-text-corpus.sh DIRECTORY
set -eu
to=$1
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
