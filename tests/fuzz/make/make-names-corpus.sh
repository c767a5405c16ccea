#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Makes corpus/names: the first byte of each file says what it is (fuzz-names.c). Needs gcc, binutils and xz.
set -eu
cd "$(dirname "$0")/.."
to=$PWD/corpus/names
mkdir -p "$to"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

name() { printf 'n%s' "$2" >"$to/$1.name"; }
name cxx-method _ZNSt6vectorIiSaIiEE9push_backERKi
name cxx-lambda _ZZ4mainENKUlvE_clEv
name cxx-clone _Z3foov.cold
name cxx-global _GLOBAL__I__ZN1a1bE
name cxx-pack _Z1fIJidcEEvDpT_
name cxx-doubled _Z1fIJEEvDpFvFvFvvES1_ES2_E
name cxx-special _ZTVN10__cxxabiv117__class_type_infoE
name cxx-operator _ZN1AcvT_IiEEv
name rust-legacy '_ZN71_$LT$Test$u20$$u2b$$u20$$u27$static$u20$as$u20$foo..Bar$LT$Test$GT$$GT$3bar17h930b740aa94f1d3aE'
name rust-impl _RNvMsr_NtCs3ssYzQotkvD_3std4pathNtB5_7PathBuf3new
name rust-punycode _RNqCs4fqI2P2rA04_11utf8_identsu30____7hkackfecea1cbdathfdh9hlq6y
name rust-function _RINvC1a1bFG_KCRL0_hEuE
name rust-lifetimes _RNvMINvC1a1bFG2_EuEC1d1c
name rust-const _RINvC1a1bKj3_Kc61_KpKb1_E
name rust-dyn _RINvC1a1bDG_NtC1c1dp1euEL_E
name rust-tuples _RIC1aTuuETB4_B4_EE

printf 'lprogram.debug\000\000\000\001\002\003\004' >"$to/good.link"
printf 'l../x\000\000\000\000\001\002\003\004' >"$to/up.link"

# two answers, the first of two frames
{
        printf 'a\003\000\000\000\002\000\000\000'
        printf '\014\000\000\000\003\000\003\000funa.c'
        printf '\001\000\000\000\004\000\000\000main'
        printf '\000\000\000\000\001\000\000\000\007\000\000\000\000\000\003\000b.c'
} >"$to/two.answers"

cat >"$work/a.c" <<'END'
static __attribute__((noinline, used)) int hidden(int x) { return x * 3; }
int shown(int x) { return hidden(x) + 1; }
END
gcc -O1 -g0 -shared -nostdlib -Wl,--build-id=0x0123456789abcdef0123456789abcdef01234567 \
        -Wl,-z,noseparate-code -o "$work/whole" "$work/a.c"
cp "$work/whole" "$work/stripped"
strip -s "$work/stripped"
objcopy --only-keep-debug "$work/whole" "$work/mini"
strip -R .comment -g "$work/mini"
xz -k "$work/mini"
cp "$work/stripped" "$work/packed"
objcopy --add-section .gnu_debugdata="$work/mini.xz" "$work/packed"
for kind in whole stripped packed; do
        { printf e; cat "$work/$kind"; } >"$to/$kind.elf"
done
{ printf x; cat "$work/mini.xz"; } >"$to/mini.xz"
{ printf x; cat "$work/mini"; } >"$to/not-packed.xz"
{ printf x; head -c 4096 /dev/zero | xz; } >"$to/zeros.xz"
