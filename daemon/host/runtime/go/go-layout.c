/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Go publishes no layout of its runtime, so that it is one table here. The numbers are those of the debug
 * information of programs that each toolchain has made, and a test compares them again
 * (tests/integration/host/runtime/test-long-run-go-labels.py). They have not changed between patch releases
 * so far. The kernel half checks at each sample that g, m and curg lead to each other: a layout that is not
 * the program's yields nothing, and a count.
 */
#include "host/runtime/go/go-layout.h"

#include <stddef.h>

#include "core/base/util/macro.h"

static const struct {
        uint16_t first;                 /* minor version from which on it holds */
        uint16_t m, goid, labels, curg;
        uint32_t form;
} layouts[] = {
        { 18, 48, 152, 360, 192, GO_LABELS_MAP },
        { 21, 48, 152, 344, 192, GO_LABELS_MAP },
        { 23, 48, 160, 352, 192, GO_LABELS_MAP },
        { 24, 48, 160, 352, 192, GO_LABELS_SLICE },
        { 25, 48, 152, 344, 184, GO_LABELS_SLICE },
        { 26, 48, 152, 352, 184, GO_LABELS_SLICE },
};

/* Offsets in a goroutine that does not run, by the release from which on they are so. */
static const struct {
        uint16_t first;
        uint16_t bp, syscall_sp, syscall_bp, status, reason, start_pc;
} goroutines[] = {
        { 18, 104, 112, 0, 144, 176, 312 },
        { 21, 104, 112, 0, 144, 176, 296 },
        { 23, 104, 112, 128, 152, 184, 304 },
        { 25, 96, 104, 120, 144, 176, 296 },
        { 26, 96, 104, 120, 144, 176, 304 },
};

static bool is_known(uint32_t minor) {
        return minor >= GO_FIRST_MINOR && minor <= GO_LAST_MINOR;
}

bool go_layout(uint32_t minor, struct go_process *entry) {
        size_t i = ARRAY_SIZE(layouts);

        if (!is_known(minor))
                return false;
        while (layouts[--i].first > minor)
                ;
        entry->m = layouts[i].m;
        entry->goid = layouts[i].goid;
        entry->labels = layouts[i].labels;
        entry->curg = layouts[i].curg;
        entry->form = layouts[i].form;
        return true;
}

bool go_goroutine_layout(uint32_t minor, GoGoroutineLayout *layout) {
        size_t i = ARRAY_SIZE(goroutines);

        if (!is_known(minor))
                return false;
        while (goroutines[--i].first > minor)
                ;
        *layout = (GoGoroutineLayout){ .bp = goroutines[i].bp,
                                       .syscall_sp = goroutines[i].syscall_sp,
                                       .syscall_bp = goroutines[i].syscall_bp,
                                       .status = goroutines[i].status,
                                       .reason = goroutines[i].reason,
                                       .start_pc = goroutines[i].start_pc };
        return true;
}
