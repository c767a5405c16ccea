/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A goroutine takes some ten reads, each of them short. A bounded call costs more than all of these, so that
 * one is made for up to GOROUTINE_LOOK_BATCH goroutines. It works on a copy, and opens the two files anew: a
 * target that holds it up keeps nothing of ours but that.
 */
#include "host/runtime/go/goroutine-look.h"

#include <fcntl.h>
#include <unistd.h>

#include "core/base/thread/bounded-call.h"
#include "core/base/util/macro.h"
#include "host/sampling/process/memory.h"

typedef struct Files {
        int memory, pagemap;
} Files;

static int read_now(void *userdata, uint64_t address, void *to, uint32_t size) {
        const Files *files = userdata;

        return memory_read_now(files->memory, files->pagemap, address, to, size);
}

static void read_wanted(GoroutineLook *look, const GoMemory *memory, uint64_t list) {
        uint32_t used = 0;

        for (; look->n_read < look->n_wanted; look->n_read++) {
                uint32_t i = look->n_read;

                look->stacks_at[i] = used;
                look->results[i] = look->wanted[i] >= look->n
                        ? GOROUTINE_E_FREE
                        : goroutine_read(&look->where, memory, list, look->wanted[i], look->stacks + used,
                                         GOROUTINE_LOOK_ROOM - used, &look->found[i]);
                if (look->results[i] == GOROUTINE_E_ROOM)
                        return;
                if (!look->results[i])
                        used += look->found[i].stack_size;
        }
}

/* A list that was replaced meanwhile may hold other things by now. */
static void take_back_if_replaced(GoroutineLook *look, const GoMemory *memory, uint64_t list) {
        uint64_t again, n;

        if (!goroutines_list(&look->where, memory, &again, &n) && again == list)
                return;
        for (uint32_t i = 0; i < look->n_read; i++)
                look->results[i] = GOROUTINE_E_MOVED;
}

static ssize_t work(void *data) {
        GoroutineLook *look = data;
        _cleanup_(closep) int memory_fd = fcntl(look->memory_fd, F_DUPFD_CLOEXEC, 0);
        _cleanup_(closep) int pagemap_fd = fcntl(look->pagemap_fd, F_DUPFD_CLOEXEC, 0);
        Files files = { memory_fd, pagemap_fd };
        const GoMemory memory = { read_now, &files };
        uint64_t list = 0;

        look->n_read = 0;
        look->n = 0;
        look->result = memory_fd < 0 || pagemap_fd < 0
                ? GOROUTINE_E_UNREADABLE
                : goroutines_list(&look->where, &memory, &list, &look->n);
        if (look->result || !look->n_wanted)
                return 0;
        read_wanted(look, &memory, list);
        take_back_if_replaced(look, &memory, list);
        return 0;
}

int goroutine_look(GoroutineLook *look) {
        ssize_t result;

        return bounded_run(look->pid, work, look, sizeof(*look), &result);
}
