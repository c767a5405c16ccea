/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * PHP Wire
 *
 * The conversation with a worker without rights that reads one process with PHP in it
 * (core/base/sandbox/worker-session.h). The worker has PHP's file and the memory of this process, both to
 * read. What it says is not trusted.
 *
 *     request   ReaderRequest, descriptor of PHP's file; then a ReaderHandle
 *     answer    PhpSaid: OPEN, PhpOpened
 *     question  PhpQuestion: the words of a frame
 *     answer    PhpSaid: NAME, texts
 */

#include "host/runtime/php/php-code.h"
#include "host/runtime/php/php-program.h"
#include "host/runtime/reader/file-link.h"
#include "host/runtime/reader/reader-handle.h"

enum { PHP_WIRE_MAGIC = 0x50485031 };

typedef enum PhpWireKind {
        PHP_WIRE_OPEN = 1,
        PHP_WIRE_NAME,
} PhpWireKind;

typedef struct PhpQuestion {
        uint32_t magic, zero;
        uint64_t words[2];
} PhpQuestion;

/* Begins as a ReaderSaid. */
typedef struct PhpSaid {
        uint32_t magic, kind;
        int32_t result;                 /* 0, PHP_OPEN_E_*, PHP_CODE_E_* */
        uint32_t line, first_line;      /* NAME */
        uint16_t n_name, n_file;        /* bytes of each text that follows, with its NUL; NAME */
} PhpSaid;

_Static_assert(sizeof(PhpSaid) == 24 && sizeof(PhpQuestion) == 24, "no hidden bytes");

/* What a file says: a PhpOpened. */
extern const FileLinkOps php_link_ops;

extern const WorkerQuestion php_open_question;

/* Pure. Whether an answer to a question of @kind is one that may come. */
bool php_wire_check(const PhpSaid *said, PhpWireKind kind);

/* Pure. Makes *function of @said and its @texts. Return: whether they are sound. */
bool php_wire_take(PhpFunction *function, const PhpSaid *said, const char *texts);

/* @words: of a frame. Return: 0 with what php_code_name() *said, and maybe *function; FILE_LINK_E_LATER. */
int php_link_name(FileLink *link, const uint64_t *words, PhpFunction *function, int *said);

/* The worker's side: answers until the daemon closes the socket. @fd: PHP's file. */
void php_serve(int socket, int fd, const ReaderRequest *first);
