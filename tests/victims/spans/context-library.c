/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A library with the variable of a thread context, for victim-context; built for each access model, and with
 * other names.
 */
#ifndef CONTEXT_SYMBOL
#define CONTEXT_SYMBOL otel_thread_ctx_v1
#endif
#ifdef CONTEXT_FILLER
/* So that its variable lies elsewhere in its block than another library's. */
__thread char context_filler[CONTEXT_FILLER] = { 1 };
#endif

__attribute__((visibility("default"))) __thread void *CONTEXT_SYMBOL;

#ifdef CONTEXT_SLOW
/*
 * Mapped, and for three seconds not relocated: the resolver is called for the pointer, which comes before
 * what leads to the variable.
 */
int context_slow(void);
int (*context_slow_pointer)(void) = context_slow;

static int context_nothing(void) {
        return 0;
}

/* Named by the attribute below alone, which clang does not count as a use. */
__attribute__((used)) static int (*context_resolve(void))(void) {
        const long three_seconds[2] = { 3, 0 };
        long number = 35;       /* nanosleep(), by hand: nothing is linked yet */

        __asm__ volatile("syscall" : "+a"(number) : "D"(three_seconds), "S"(0L) : "rcx", "r11", "memory");
        return context_nothing;
}

__attribute__((ifunc("context_resolve"), visibility("default"))) int context_slow(void);
#endif

__attribute__((visibility("default"))) void context_set(void *record);

void context_set(void *record) {
#ifdef CONTEXT_FILLER
        context_filler[0]++;
#endif
        CONTEXT_SYMBOL = record;
}
