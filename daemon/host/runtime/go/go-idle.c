/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A goroutine that waits for a mutex leaves its thread, so no thread of Go waits for a lock of the program.
 * Most of what threads wait for in futex() is work:
 *
 *     runtime.futex, futexsleep     ◀─ a lock of the runtime itself ends here, too: runtime.lock2
 *     runtime.notesleep             ◀─ a thread sleeps until another one wakes it,
 *     runtime.stopm                 ◀─ since it has no goroutine
 *     runtime.findRunnable, schedule, park_m, mcall
 *
 * Both functions are asked for: stopm takes a lock, too, and a thread that is kept for one goroutine
 * (runtime.LockOSThread) sleeps by notesleep below stoplockedm. One thread without a goroutine waits for the
 * network for all others, in netpoll below findRunnable. Names are those of Go 1.18 to 1.27.
 */
#include "host/runtime/go/go-idle.h"

#include <string.h>

#include "core/base/elf/go-functions.h"
#include "core/base/util/macro.h"

enum { MAX_TABLE = 16 << 20 };          /* bytes of .gopclntab */

static const struct {
        const char *name;
        GoIdleFunction function;
} names[] = {
        { "runtime.stopm", GO_IDLE_STOP },
        { "runtime.notesleep", GO_IDLE_SLEEP },
        { "runtime.sysmon", GO_IDLE_MONITOR },
        { "runtime.notetsleep", GO_IDLE_MONITOR_SLEEP },
        { "runtime.findRunnable", GO_IDLE_FIND },
        { "runtime.findrunnable", GO_IDLE_FIND },       /* Go 1.18 */
        { "runtime.netpoll", GO_IDLE_POLL },
};

static void take_function(const GoFunctions *functions, const GoFunction *function, GoIdle *idle) {
        uint64_t start = functions->text + function->start;

        for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
                if (!go_function_has_name(function, names[i].name))
                        continue;
                idle->functions[names[i].function].start = start;
                idle->functions[names[i].function].end = start + function->size;
        }
}

static bool find(const ElfImage *image, GoIdle *idle) {
        GoFunctions functions;
        GoFunction function;

        if (go_functions_init(&functions, image, 0, MAX_TABLE, false))
                return false;
        for (uint32_t i = 0; i < functions.table.n; i++)
                if (go_table_function(&functions.table, i, &function) && function.size)
                        take_function(&functions, &function, idle);
        go_functions_deinit(&functions);
        for (unsigned i = 0; i < GO_IDLE_N; i++)
                if (idle->functions[i].end)
                        return true;
        return false;
}

bool go_idle_find(const GoInput *input, GoIdle *idle) {
        ElfImage image;
        bool is_found;

        *idle = (GoIdle){ 0 };
        if (input->fd < 0 ? elf_image_init_memory(&image, input->data, input->size)
                          : elf_image_init(&image, input->fd, 0, input->size))
                return false;
        is_found = find(&image, idle);
        elf_image_deinit(&image);
        return is_found;
}

/* A frame's pc, but for the innermost one, is behind a call. */
static bool has(const GoIdle *idle, uint64_t bias, GoIdleFunction function, const uint64_t *words, size_t n) {
        for (size_t i = 0; i < n; i++) {
                uint64_t address = words[i] - (i ? 1 : 0) - bias;

                if (address >= idle->functions[function].start && address < idle->functions[function].end)
                        return true;
        }
        return false;
}

bool go_idle_is(const GoIdle *idle, uint64_t bias, bool polls, const uint64_t *words, size_t n) {
        static const GoIdleFunction in_futex[][2] = { { GO_IDLE_STOP, GO_IDLE_SLEEP },
                                                      { GO_IDLE_MONITOR, GO_IDLE_MONITOR_SLEEP } },
                                    in_poll[2] = { GO_IDLE_FIND, GO_IDLE_POLL };

        if (polls)
                return has(idle, bias, in_poll[0], words, n) && has(idle, bias, in_poll[1], words, n);
        for (size_t i = 0; i < ARRAY_SIZE(in_futex); i++)
                if (has(idle, bias, in_futex[i][0], words, n) && has(idle, bias, in_futex[i][1], words, n))
                        return true;
        return false;
}
