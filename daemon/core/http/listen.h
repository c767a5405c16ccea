/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Listening Socket
 *
 * Opened by us and not by the HTTP library, so that what is wrong with it can be told.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
        _LISTEN_E_SUCCESS,
        LISTEN_E_ADDRESS,               /* no such address here; a message was logged */
        LISTEN_E_PORT,                  /* not allowed; a message with a hint was logged */
        LISTEN_E_TAKEN,                 /* another process has the port; nothing was logged */
        /* no socket could be made there; errno says why, EADDRINUSE: another process listens */
        LISTEN_E_PATH,
        LISTEN_E_FULL,                  /* as many are kept as can be */
};

/* @address: numeric or a name; @port: 0 = any free one. Return: 0, LISTEN_E_*. */
int listen_open(const char *address, uint16_t port, int *fdp);

/*
 * A socket in the filesystem with exactly @mode; one without a listener is replaced, and of several who would
 * do so at the same time one does. Return: 0, LISTEN_E_PATH.
 */
int listen_open_path(const char *path, unsigned mode, int *fdp);

/*
 * Opens ahead, while we may still, what the calls above with the same address or path give out from then on,
 * each time the same socket: it stays open until we end. Return: as those; LISTEN_E_FULL.
 */
int listen_keep(const char *address, uint16_t port);
int listen_keep_path(const char *path, unsigned mode);

/*
 * The kept sockets, @index from 0: the path, or the address and its port. Return: NULL = there are no more.
 */
enum { LISTEN_MAX_KEPT = 4 };
const char *listen_kept(size_t index, bool *is_pathp, uint16_t *portp);

/* `http://ADDRESS:PORT` of what @fd really listens on. */
void listen_url(int fd, char *url, size_t size);
