/* SPDX-License-Identifier: Apache-2.0 */

/*
 * narrow-busy: code of 32 bits, without a library. Works in narrow_hot(), called by narrow_outer(), until it
 * is killed. Built by test-run-programs.py with gcc -m32.
 */
static volatile unsigned int sink;

void _start(void);
void narrow_hot(void);
void narrow_outer(void);

__attribute__((noinline)) void narrow_hot(void) {
        for (unsigned int i = 0; i < 1000000; i++)
                sink += i;
}

__attribute__((noinline)) void narrow_outer(void) {
        for (;;)
                narrow_hot();
}

void _start(void) {
        narrow_outer();
}
