/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Opens a socket for an address or a path; one that was kept for it is handed out again. A path is looked
 * at, removed and made under a lock of its directory, so that two daemons that start at once do not remove
 * each other's.
 */

#include "core/http/listen.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <netdb.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "core/base/util/log.h"
#include "core/base/util/macro.h"

enum { LOCK_TRIES = 100, LOCK_PAUSE_US = 10000, NO_PORT = UINT32_MAX };

typedef struct Kept {
        char where[256];                /* a path, or an address */
        uint32_t port;                  /* NO_PORT = a path */
        int fd;
} Kept;

static Kept kept[LISTEN_MAX_KEPT];
static size_t n_kept;

/* Return: whether there is one. Who gets it may close it. */
static bool find_kept(const char *where, uint32_t port, int *fdp) {
        for (size_t i = 0; i < n_kept; i++)
                if (kept[i].port == port && !strcmp(kept[i].where, where)) {
                        *fdp = fcntl(kept[i].fd, F_DUPFD_CLOEXEC, 0);
                        return *fdp >= 0;
                }
        return false;
}

static void keep(const char *where, uint32_t port, int fd) {
        Kept *place = &kept[n_kept++];

        snprintf(place->where, sizeof(place->where), "%s", where);
        place->port = port;
        place->fd = fd;
}

static int complain(const char *address, uint16_t port, int error) {
        const char *hint = "";

        if (error == EADDRNOTAVAIL) {
                log_error("cannot listen on %s: no address of this machine", address);
                return LISTEN_E_ADDRESS;
        }
        if (error == EADDRINUSE)
                return LISTEN_E_TAKEN;
        if (error == EACCES)
                hint = "; ports below 1024 are for root";
        log_error("cannot listen on port %u: %s%s", port, strerror(error), hint);
        return LISTEN_E_PORT;
}

/* A socket of ours, so that what is wrong with it can be told. */
int listen_open(const char *address, uint16_t port_number, int *fdp) {
        const struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV | AI_PASSIVE };
        _cleanup_(closep) int fd = -1;
        struct addrinfo *info;
        char port[8];
        int r, one = 1;

        if (find_kept(address, port_number, fdp))
                return 0;
        snprintf(port, sizeof(port), "%u", port_number);
        r = getaddrinfo(address, port, &hints, &info);
        if (r) {
                log_error("cannot listen on `%s`: %s", address, gai_strerror(r));
                return LISTEN_E_ADDRESS;
        }
        fd = socket(info->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (fd >= 0)
                setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
        r = fd < 0 || bind(fd, info->ai_addr, info->ai_addrlen) < 0 || listen(fd, 128) < 0 ? errno : 0;
        freeaddrinfo(info);
        if (r)
                return complain(address, port_number, r);
        *fdp = take_fd(fd);
        return 0;
}

static int fail_path(int error) {
        errno = error;
        return LISTEN_E_PATH;
}

/* A daemon that was killed leaves its socket behind; one that lives answers. */
static bool is_alive(const struct sockaddr_un *address) {
        _cleanup_(closep) int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

        return fd >= 0 &&
                (!connect(fd, (const struct sockaddr *)address, sizeof(*address)) || errno == EAGAIN);
}

/*
 * Lets one process at a time look for a socket that was left behind, remove it and make its own. Else the
 * second of two that start together would remove the socket of the first. They lock the directory, so that no
 * file is left over. Other users who may read it can hold that lock as well: after a while we go on without.
 */
static int lock_directory(const char *path) {
        _cleanup_(closep) int fd = -1;
        char directory[sizeof((struct sockaddr_un *)0)->sun_path];

        snprintf(directory, sizeof(directory), "%s", path);
        fd = open(dirname(directory), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        for (int i = 0; fd >= 0 && i < LOCK_TRIES; i++) {
                if (!flock(fd, LOCK_EX | LOCK_NB))
                        return take_fd(fd);
                usleep(LOCK_PAUSE_US);
        }
        return -1;
}

/* chmod() before listen(): no client can connect in between, whatever the umask is. */
int listen_open_path(const char *path, unsigned mode, int *fdp) {
        struct sockaddr_un address = { .sun_family = AF_UNIX };
        _cleanup_(closep) int fd = -1, lock = -1;
        struct stat st;

        if (find_kept(path, NO_PORT, fdp))
                return 0;
        if ((size_t)snprintf(address.sun_path, sizeof(address.sun_path), "%s", path) >=
            sizeof(address.sun_path))
                return fail_path(ENAMETOOLONG);
        lock = lock_directory(path);
        if (!lstat(path, &st)) {
                if (!S_ISSOCK(st.st_mode))
                        return fail_path(EEXIST);
                if (is_alive(&address))
                        return fail_path(EADDRINUSE);
                unlink(path);
        }
        fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (fd < 0 || bind(fd, (const struct sockaddr *)&address, sizeof(address)) < 0)
                return fail_path(errno);
        if (chmod(path, mode) < 0 || listen(fd, 16) < 0) {
                int error = errno;

                unlink(path);
                return fail_path(error);
        }
        *fdp = take_fd(fd);
        return 0;
}

int listen_keep(const char *address, uint16_t port) {
        int fd, r = n_kept == LISTEN_MAX_KEPT ? LISTEN_E_FULL : listen_open(address, port, &fd);

        if (!r)
                keep(address, port, fd);
        return r;
}

int listen_keep_path(const char *path, unsigned mode) {
        int fd, r = n_kept == LISTEN_MAX_KEPT ? LISTEN_E_FULL : listen_open_path(path, mode, &fd);

        if (!r)
                keep(path, NO_PORT, fd);
        return r;
}

const char *listen_kept(size_t index, bool *is_pathp, uint16_t *portp) {
        if (index >= n_kept)
                return NULL;
        *is_pathp = kept[index].port == NO_PORT;
        *portp = *is_pathp ? 0 : (uint16_t)kept[index].port;
        return kept[index].where;
}

void listen_url(int fd, char *url, size_t size_url) {
        struct sockaddr_storage address = { 0 };
        socklen_t size = sizeof(address);
        char host[64] = "", port[8] = "";

        getsockname(fd, (struct sockaddr *)&address, &size);
        getnameinfo((struct sockaddr *)&address, size, host, sizeof(host), port, sizeof(port),
                    NI_NUMERICHOST | NI_NUMERICSERV);
        snprintf(url, size_url, strchr(host, ':') ? "http://[%s]:%s" : "http://%s:%s", host, port);
}
