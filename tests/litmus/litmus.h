/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Sources of the product, whose atomic operations go to a model of memory
 *
 * A file here includes this header, and then the product's own .c file: its __atomic_*() then end in
 * litmus.cc. There Relacy keeps, for each word that is watched, the stores that a thread may still see by
 * C++'s rules, and tries which one each load gets. Words that are not watched are plain memory.
 *
 * Each use of an order is a site. One site at a time can be weakened to relaxed.
 */

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct LitmusSite {
        const char *file, *what;
        int line, order;
        struct LitmusSite *next;
        bool listed;
        unsigned modelled;              /* cases in which it was reached, a bit each */
} LitmusSite;

void litmus_watch(void *address, size_t size);
uint64_t litmus_load(const void *address, size_t size, LitmusSite *site);
void litmus_store(void *address, size_t size, uint64_t value, LitmusSite *site);
uint64_t litmus_add(void *address, size_t size, uint64_t value, LitmusSite *site);
bool litmus_swap_if(void *address, size_t size, uint64_t expected, uint64_t value, LitmusSite *site);
void litmus_fence(LitmusSite *site);

#ifdef __cplusplus
}
#else

#define LITMUS_SITE(text, memory_order) \
        ({ \
                static LitmusSite site = { \
                        .file = __FILE__, .what = (text), .line = __LINE__, .order = (memory_order) \
                }; \
                &site; \
        })

#define __atomic_load_n(p, order) \
        ((__typeof__(*(p) + 0))litmus_load((p), sizeof(*(p)), LITMUS_SITE("load of " #p, order)))
#define __atomic_store_n(p, value, order) \
        litmus_store((p), sizeof(*(p)), (uint64_t)(value), LITMUS_SITE("store to " #p, order))
#define __atomic_fetch_add(p, value, order) \
        litmus_add((p), sizeof(*(p)), (uint64_t)(value), LITMUS_SITE("addition to " #p, order))
#define __atomic_compare_exchange_n(p, expected, value, weak, order, failure) \
        litmus_swap_if((p), sizeof(*(p)), *(expected), (value), LITMUS_SITE("exchange of " #p, order))
#define __atomic_thread_fence(order) litmus_fence(LITMUS_SITE("fence", order))
#define __atomic_signal_fence(order) ((void)0)

#endif
