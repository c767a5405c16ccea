/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Channel
 *
 * Messages over a local socket, each with a descriptor or without one.
 */

#include <stddef.h>
#include <sys/types.h>

/*
 * Sends it all; a message with a descriptor has at least a byte. @fd: -1 = none. Return: 0, -errno (-EAGAIN:
 * would wait, if the socket may not).
 */
int channel_send(int socket, const void *data, size_t size, int fd);

/*
 * Receives a message, or a piece of a stream. *fdp: the descriptor, owned by the caller, or -1; others are
 * closed. @fdp may be NULL. Return: bytes, 0 = the other side has closed it, -errno.
 */
ssize_t channel_receive(int socket, void *data, size_t size, int *fdp, int flags);

/*
 * All of @size bytes of a stream, of a socket that may wait. Return: 0, -errno, -EPIPE = the other side has
 * closed it before.
 */
int channel_receive_all(int socket, void *data, size_t size);
