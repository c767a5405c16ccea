/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Takes the descriptor of the runtime's file, for the link to a worker or for reads of this process; its
 * memory is opened when the first read of it is made.
 */
#include "host/runtime/reader/reader-process.h"

#include "core/base/util/error.h"
#include "host/sampling/process/memory.h"

int reader_process_init(ReaderProcess *process, RuntimeSubject *subject) {
        const ReaderSubject reader = { subject->pid, subject->start_time_ns, subject->size, subject->bias,
                                       subject->fd };
        int r;

        *process = (ReaderProcess){ .pid = subject->pid, .start_time_ns = subject->start_time_ns,
                                    .size = subject->size, .bias = subject->bias, .fd = -1, .memory = -1 };
        if (subject->userdata) {
                r = file_link_new(&process->link, subject->userdata, &reader, subject->object);
                if (r)
                        return error_fold(r);
        } else {
                process->fd = subject->fd;
        }
        subject->fd = -1;
        return 0;
}

void reader_process_deinit(ReaderProcess *process) {
        process->link = file_link_free(process->link);
        closep(&process->fd);
        closep(&process->memory);
}

bool reader_process_read(void *userdata, uint64_t address, void *to, size_t size) {
        ReaderProcess *process = userdata;

        if (!size || size > MEMORY_MAX_READ || address + size < address)
                return false;
        if (process->memory < 0)
                process->memory = memory_open(process->pid, process->start_time_ns);
        return process->memory >= 0 &&
                !memory_read_opened(process->pid, process->memory, address, to, size);
}
