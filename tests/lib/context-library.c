/* SPDX-License-Identifier: Apache-2.0 */
/* A library with the variable of a thread context, for victim-context; built for each access model, and with other names. */
#ifndef CONTEXT_SYMBOL
#define CONTEXT_SYMBOL otel_thread_ctx_v1
#endif
#ifdef CONTEXT_FILLER
/* So that its variable lies elsewhere in its block than another library's. */
__thread char context_filler[CONTEXT_FILLER] = { 1 };
#endif

__attribute__((visibility("default"))) __thread void *CONTEXT_SYMBOL;

__attribute__((visibility("default"))) void context_set(void *record);

void context_set(void *record) {
#ifdef CONTEXT_FILLER
        context_filler[0]++;
#endif
        CONTEXT_SYMBOL = record;
}
