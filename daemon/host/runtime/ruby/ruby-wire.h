/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Ruby Wire
 *
 * The conversation with a worker that reads one process with Ruby in it
 * (host/runtime/reader/function-wire.h).
 */

#include "host/runtime/ruby/ruby-code.h"
#include "host/runtime/ruby/ruby-program.h"
#include "host/runtime/reader/function-wire.h"

enum { RUBY_WIRE_MAGIC = 0x52554259 };

/* What a file says: a RubyOpened. */
extern const FileLinkOps ruby_link_ops;

extern const WorkerQuestion ruby_open_question;

/* The worker's side: answers until the daemon closes the socket. @fd: Ruby's file. */
void ruby_serve(int socket, int fd, const ReaderRequest *first);
