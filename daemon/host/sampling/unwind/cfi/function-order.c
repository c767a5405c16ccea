/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The sort is a heap sort. It works in place, without recursion, and costs the same for every input, crafted
 * ones included. It can stop after any element, which a library's qsort() cannot.
 */

#include "host/sampling/unwind/cfi/function-order.h"

#include <errno.h>
#include <stdlib.h>

#include "core/base/util/error.h"
#include "core/base/util/macro.h"
#include "host/sampling/unwind/cfi/encoding.h"

enum {
        COST_PAIR = 1,                  /* cost in bytes of work, see order_prepare() */
        COST_ENTRY = 16,
        COST_SIFT = 16,
        PAIR_SIZE = 8,
};

void order_init(Order *order, const Layout *layout, Reader *reader, CieCache *cies, CfiCounts *counts,
                uint32_t max) {
        *order = (Order){
                .layout = layout,
                .reader = reader,
                .cies = cies,
                .counts = counts,
                .max = max,
                .is_sorted = true,
                .phase = layout->table.n ? ORDER_CHECK : ORDER_SCAN,
        };
}

void order_deinit(Order *order) {
        free(order->index);
        *order = (Order){ 0 };
}

static bool get_pair(Order *order, uint64_t i, uint64_t *startp, uint64_t *offsetp) {
        const HdrTable *table = &order->layout->table;
        const uint8_t *data = reader_bytes(order->reader, table->offset + i * PAIR_SIZE, PAIR_SIZE);
        Cursor cursor;

        if (!data)
                return false;
        cursor = cursor_make(data, PAIR_SIZE);
        *startp = table->address + (uint64_t)(int32_t)cursor_u32(&cursor);
        *offsetp = table->address + (uint64_t)(int32_t)cursor_u32(&cursor) - order->layout->section.address;
        return true;
}

static bool spend(uint64_t *budgetp, uint64_t cost) {
        if (*budgetp < cost) {
                *budgetp = 0;
                return false;
        }
        *budgetp -= cost;
        return true;
}

static void begin(Order *order, OrderPhase phase, uint64_t at) {
        order->phase = phase;
        order->at = at;
        order->last = 0;
}

/* A table that is cut off or out of order is not to be trusted at all: .eh_frame itself is the truth. */
static int check(Order *order, uint64_t *budgetp) {
        uint64_t n = MIN(order->layout->table.n, (uint64_t)order->max), start, offset;

        for (; order->at < n; order->at++) {
                if (!spend(budgetp, COST_PAIR))
                        return ORDER_E_AGAIN;
                if (!get_pair(order, order->at, &start, &offset) || start < order->last) {
                        begin(order, ORDER_SCAN, 0);
                        return 0;
                }
                order->last = start;
        }
        order->n = (uint32_t)n;
        order->counts->problems[CFI_PROBLEM_OVER_CAP] += order->layout->table.n - n;
        begin(order, ORDER_READY, 0);
        return 0;
}

static int grow(Order *order) {
        uint32_t room = order->room ? MIN(order->room * 2, order->max) : MIN(4096U, order->max);
        uint64_t *index = realloc(order->index, room * sizeof(*index));

        if (!index)
                return error_origin(-ENOMEM);
        order->index = index;
        order->room = room;
        return 0;
}

static int append(Order *order, uint64_t key) {
        int r;

        if (order->n == order->max) {
                order->counts->problems[CFI_PROBLEM_OVER_CAP]++;
                return 0;
        }
        if (order->n == order->room) {
                r = grow(order);
                if (r)
                        return error_fold(r);
        }
        if (key < order->last)
                order->is_sorted = false;
        order->last = key;
        order->index[order->n++] = key;
        return 0;
}

static int add_entry(Order *order, const Entry *entry) {
        const Layout *layout = order->layout;
        Fde fde;
        int r;

        if (entry->is_cie)
                return 0;
        r = fde_read(&fde, order->reader, order->cies, entry);
        if (!r && (fde.start < layout->text_low || fde.start >= layout->text_high)) {
                /* a function that the linker has dropped begins at 0 there */
                if (layout->section.is_debug_frame)
                        return 0;
                r = CFI_PROBLEM_RANGE;
        }
        if (r) {
                order->counts->n_entries++;
                order->counts->problems[r]++;
                return 0;
        }
        return append(order, (fde.start - layout->text_low) << 32 | entry->offset);
}

static int scan(Order *order, uint64_t *budgetp) {
        Entry entry;
        int r;

        while (spend(budgetp, COST_ENTRY)) {
                r = entry_read(&entry, order->reader, &order->layout->section, order->at);
                if (r == CFI_PROBLEM_LENGTH)
                        order->counts->problems[r]++;
                if (r) {
                        begin(order, order->is_sorted ? ORDER_READY : ORDER_HEAP, order->n / 2);
                        return 0;
                }
                order->at += entry.size;
                r = add_entry(order, &entry);
                if (r)
                        return error_fold(r);
        }
        return ORDER_E_AGAIN;
}

static void sift_down(uint64_t *heap, uint32_t at, uint32_t n) {
        uint64_t value = heap[at];
        uint32_t child;

        while ((child = 2 * at + 1) < n) {
                if (child + 1 < n && heap[child + 1] > heap[child])
                        child++;
                if (heap[child] <= value)
                        break;
                heap[at] = heap[child];
                at = child;
        }
        heap[at] = value;
}

static int make_heap(Order *order, uint64_t *budgetp) {
        for (; order->at > 0; order->at--) {
                if (!spend(budgetp, COST_SIFT))
                        return ORDER_E_AGAIN;
                sift_down(order->index, (uint32_t)order->at - 1, order->n);
        }
        begin(order, ORDER_SORT, order->n);
        return 0;
}

static int sort(Order *order, uint64_t *budgetp) {
        for (; order->at > 1; order->at--) {
                uint32_t last = (uint32_t)order->at - 1;
                uint64_t top = order->index[0];

                if (!spend(budgetp, COST_SIFT))
                        return ORDER_E_AGAIN;
                order->index[0] = order->index[last];
                order->index[last] = top;
                sift_down(order->index, 0, last);
        }
        begin(order, ORDER_READY, 0);
        return 0;
}

int order_prepare(Order *order, uint64_t *budgetp) {
        int r = 0;

        while (!r && order->phase != ORDER_READY) {
                switch (order->phase) {
                case ORDER_CHECK:
                        r = check(order, budgetp);
                        break;
                case ORDER_SCAN:
                        r = scan(order, budgetp);
                        break;
                case ORDER_HEAP:
                        r = make_heap(order, budgetp);
                        break;
                case ORDER_SORT:
                        r = sort(order, budgetp);
                        break;
                case ORDER_READY:
                        break;
                }
        }
        return r;
}

bool order_get(Order *order, uint64_t i, uint64_t *startp, uint64_t *offsetp) {
        if (i >= order->n)
                return false;
        if (!order->index) {
                /* Each is asked for twice: as the next one, and as the one at hand. */
                if (order->known != i + 1) {
                        order->known = 0;
                        if (!get_pair(order, i, &order->known_start, &order->known_offset))
                                return false;
                        order->known = i + 1;
                }
                *startp = order->known_start;
                *offsetp = order->known_offset;
                return true;
        }
        *startp = order->layout->text_low + (order->index[i] >> 32);
        *offsetp = (uint32_t)order->index[i];
        return true;
}
