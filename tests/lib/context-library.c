/* SPDX-License-Identifier: Apache-2.0 */
/* A library with the variable of a thread context, for victim-context; built for each access model. */
__attribute__((visibility("default"))) __thread void *otel_thread_ctx_v1;

__attribute__((visibility("default"))) void context_set(void *record);

void context_set(void *record) {
        otel_thread_ctx_v1 = record;
}
