/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * PHP Wire
 *
 * The conversation with a worker that reads one process with PHP in it
 * (host/runtime/reader/function-wire.h).
 */

#include "host/runtime/php/php-code.h"
#include "host/runtime/php/php-program.h"
#include "host/runtime/reader/function-wire.h"

enum { PHP_WIRE_MAGIC = 0x50485031 };

/* What a file says: a PhpOpened. */
extern const FileLinkOps php_link_ops;

extern const WorkerQuestion php_open_question;

/* The worker's side: answers until the daemon closes the socket. @fd: PHP's file. */
void php_serve(int socket, int fd, const ReaderRequest *first);
