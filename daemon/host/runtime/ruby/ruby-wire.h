/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Ruby Wire
 *
 * The conversation with a worker without rights that reads one process with Ruby in it
 * (core/base/sandbox/worker-session.h). The worker has Ruby's file and the memory of this process, both to
 * read. What it says is not trusted.
 *
 *     request   ReaderRequest, descriptor of Ruby's file; then a ReaderHandle
 *     answer    RubySaid: OPEN, RubyOpened
 *     question  RubyQuestion: the words of a frame
 *     answer    RubySaid: NAME, texts
 */

#include "host/runtime/ruby/ruby-code.h"
#include "host/runtime/ruby/ruby-program.h"
#include "host/runtime/reader/file-link.h"
#include "host/runtime/reader/reader-handle.h"

enum { RUBY_WIRE_MAGIC = 0x52554259 };

typedef enum RubyWireKind {
        RUBY_WIRE_OPEN = 1,
        RUBY_WIRE_NAME,
} RubyWireKind;

typedef struct RubyQuestion {
        uint32_t magic, zero;
        uint64_t words[2];
} RubyQuestion;

/* Begins as a ReaderSaid. */
typedef struct RubySaid {
        uint32_t magic, kind;
        int32_t result;                 /* 0, RUBY_OPEN_E_*, RUBY_CODE_E_* */
        uint32_t line, first_line;      /* NAME */
        uint16_t n_name, n_file;        /* bytes of each text that follows, with its NUL; NAME */
} RubySaid;

_Static_assert(sizeof(RubySaid) == 24 && sizeof(RubyQuestion) == 24, "no hidden bytes");

/* What a file says: a RubyOpened. */
extern const FileLinkOps ruby_link_ops;

extern const WorkerQuestion ruby_open_question;

/* Pure. Whether an answer to a question of @kind is one that may come. */
bool ruby_wire_check(const RubySaid *said, RubyWireKind kind);

/* Pure. Makes *function of @said and its @texts. Return: whether they are sound. */
bool ruby_wire_take(RubyFunction *function, const RubySaid *said, const char *texts);

/* @words: of a frame. Return: 0 with what ruby_code_name() *said, and maybe *function; FILE_LINK_E_LATER. */
int ruby_link_name(FileLink *link, const uint64_t *words, RubyFunction *function, int *said);

/* The worker's side: answers until the daemon closes the socket. @fd: Ruby's file. */
void ruby_serve(int socket, int fd, const ReaderRequest *first);
