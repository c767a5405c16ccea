/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Decides by its name and arguments what this program is now: a worker, a reader of lines, or the command
 * line. Before that it makes standard descriptors safe, and afterwards it says when output was lost.
 */

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/base/file/file.h"
#include "core/base/sandbox/zygotes.h"
#include "core/base/util/log.h"
#include "core/symbol/line/lines.h"
#include "host/cli/cli.h"
#include "host/service/run/worker-main.h"

/*
 * A parent may start us with standard descriptors closed. The next file that we open would get such a number,
 * and what is meant for people would be written into it. Fill the gaps, in a mode in which use still fails.
 */
static void fill_standard_descriptors(void) {
        for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
                if (fcntl(fd, F_GETFD) < 0 && errno == EBADF)
                        (void)fcntl(file_open_null(fd == STDIN_FILENO ? O_WRONLY : O_RDONLY), F_SETFD, 0);
}

/* Whether the reader of a pipe has gone, as in `spanprof help | head -1`. */
static bool reader_is_gone(void) {
        struct pollfd fd = { .fd = STDOUT_FILENO };

        return poll(&fd, 1, 0) == 1 && fd.revents & POLLERR;
}

/* A result that nobody got is a failure; only a reader that left by itself needs no message. */
static int finish(int status) {
        errno = 0;
        if (!(fflush(stdout) | ferror(stdout)))
                return status;
        if (!reader_is_gone())
                log_error("cannot write to standard output%s%s", errno ? ": " : "",
                          errno ? strerror(errno) : "");
        return status ? status : STATUS_FAILURE;
}

int main(int argc, char **argv) {
        int status;

        if (argc == 1 && !strcmp(argv[0], LINES_WORKER_NAME))
                _exit(lines_worker());          /* nothing to tidy up: what it read goes with it */
        if (argc == 1 && !strcmp(argv[0], ZYGOTE_NAME))
                zygote_serve(worker_main);
        signal(SIGPIPE, SIG_IGN);
        fill_standard_descriptors();
        status = finish(cli_main(argc, argv));
        log_finish();
        return status;
}
