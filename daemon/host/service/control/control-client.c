/* SPDX-License-Identifier: Apache-2.0 */

/* HTTP/1.0 by hand: one request, the answer to the end of the connection. The server is ours. */

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "core/base/file/file.h"
#include "core/base/util/error.h"
#include "host/service/control/control.h"

enum { ANSWER_MAX = 4 << 20, TIME_LIMIT_S = 5, MAX_TRIES = 2 };

static int reach(const char *path, int *fdp) {
        struct sockaddr_un address = { .sun_family = AF_UNIX };
        const struct timeval time_limit = { .tv_sec = TIME_LIMIT_S };
        _cleanup_(closep) int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

        if (fd < 0)
                return CONTROL_E_UNREACHABLE;
        if ((size_t)snprintf(address.sun_path, sizeof(address.sun_path), "%s", path) >=
            sizeof(address.sun_path)) {
                errno = ENAMETOOLONG;
                return CONTROL_E_UNREACHABLE;
        }
        setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &time_limit, sizeof(time_limit));
        setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &time_limit, sizeof(time_limit));
        if (connect(fd, (const struct sockaddr *)&address, sizeof(address)) < 0)
                return CONTROL_E_UNREACHABLE;
        *fdp = take_fd(fd);
        return 0;
}

/*
 * Return: 0, CONTROL_E_UNREACHABLE, -ENOMEM. *cutp: the connection ended before a byte of the answer came.
 */
static int ask_once(const char *path, const char *request, char **datap, size_t *sizep, bool *cutp) {
        _cleanup_(closep) int fd = -1;
        int r = reach(path, &fd);

        if (r)
                return r;
        r = file_write(fd, request, strlen(request));
        if (!r)
                r = file_read_fd(fd, ANSWER_MAX, datap, sizep);
        *cutp = r ? errno == EPIPE || errno == ECONNRESET : *sizep == 0;
        return r == -ENOMEM ? error_fold(r) : r ? CONTROL_E_UNREACHABLE : 0;
}

/*
 * A daemon that ends closes what it has not answered, and the next one may be there at once. All that can be
 * asked may be asked twice.
 */
int control_ask(const char *path, const char *method, const char *page, int *statusp, Text *answer) {
        _cleanup_(freep) char *data = NULL;
        _cleanup_(text_deinit) Text request = { 0 };
        const char *body;
        bool cut = true;
        size_t size = 0;
        int r = 0;

        text_printf(&request, "%s %s HTTP/1.0\r\n\r\n", method, page);
        if (request.failed)
                return error_origin(-ENOMEM);
        for (int i = 0; i < MAX_TRIES && cut && r >= 0; i++) {
                free(take(data));
                cut = false;
                size = 0;
                r = ask_once(path, request.data, &data, &size, &cut);
        }
        if (r)
                return r;
        body = strstr(data, "\r\n\r\n");
        if (!body || sscanf(data, "HTTP/%*u.%*u %d", statusp) != 1) {
                errno = EPROTO;
                return CONTROL_E_UNREACHABLE;
        }
        text_append(answer, body + 4, size - (size_t)(body + 4 - data));
        return answer->failed ? error_origin(-ENOMEM) : 0;
}
