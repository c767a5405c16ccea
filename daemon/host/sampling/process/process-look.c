/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Reads three files into one buffer inside a bounded call, each as far as there is room.
 */

#include "host/sampling/process/process-look.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/thread/bounded-call.h"
#include "core/base/util/clock.h"
#include "core/base/util/error.h"

/* Reads a file. A text that fills all the room may go on. Return: as in ProcessLook. */
static int32_t read_whole(int proc_fd, const char *name, char *to, size_t room) {
        _cleanup_(closep) int fd = openat(proc_fd, name, O_RDONLY | O_CLOEXEC);
        size_t size = 0;
        ssize_t n = -1;

        while (fd >= 0 && size < room) {
                n = read(fd, to + size, room - size);
                if (n < 0 && errno == EINTR)
                        continue;
                if (n <= 0)
                        break;
                size += (size_t)n;
        }
        return n == 0 ? (int32_t)size : -1;
}

/* In the thread of bounded calls: the descriptor of who asks may be gone before all is read. */
static ssize_t process_look(void *data) {
        ProcessLook *look = data;
        _cleanup_(closep) int fd = fcntl(look->proc_fd, F_DUPFD_CLOEXEC, 0);

        if (look->with_maps)
                look->n_maps = read_whole(fd, "maps", look->maps, sizeof(look->maps));
        look->n_arguments = read_whole(fd, "cmdline", look->arguments, sizeof(look->arguments));
        look->n_environment = read_whole(fd, "environ", look->environment, sizeof(look->environment));
        return 0;
}

/* Bytes. A bounded call copies all of them, there and back. */
static size_t size_of(bool with_maps) {
        return with_maps ? sizeof(ProcessLook) : offsetof(ProcessLook, maps);
}

int process_look_new(ProcessLook **lookp, int proc_fd, bool with_maps) {
        _cleanup_(freep) char *memory = malloc(size_of(with_maps));
        ProcessLook *made = (ProcessLook *)memory;
        ssize_t result;
        int r;

        if (!made)
                return error_origin(-ENOMEM);
        made->begin_ns = clock_monotonic_ns();
        made->proc_fd = proc_fd;
        made->with_maps = with_maps;
        made->is_stuck = false;
        made->n_maps = made->n_arguments = made->n_environment = -1;
        r = bounded_run(0, process_look, made, size_of(with_maps), &result);
        if (r < 0)
                return error_fold(r);
        made->is_stuck = r;
        *lookp = (ProcessLook *)take(memory);
        return 0;
}

ProcessLook *process_look_free(ProcessLook *look) {
        if (look)
                explicit_bzero(look, size_of(look->with_maps));
        free(look);
        return NULL;
}
