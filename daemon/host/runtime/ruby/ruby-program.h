/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Ruby Programs
 *
 * What the file of a Ruby says of itself: its release, where each thread's frames are found, and where names
 * are.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "border/runtime_abi.h"

enum {
        RUBY_MAX_REASON = 128,
};

/* Places that differ by release: offsets of fields, as in struct ruby_process. */
typedef struct RubyLayout {
        uint16_t frame_size, thread;
        uint16_t compiled;
        uint16_t compiled_there;        /* the same, or another field of the kind: vm_exec() reads this one */
        uint16_t owner;
        uint16_t class;
        uint16_t lines;                 /* in a body: the pointer to entries of lines, */
        uint16_t lines_size;            /* number of these, four bytes, */
        uint16_t lines_ranks;           /* pointer to their ranks */
        uint16_t line_size;             /* bytes of an entry; a line is its first four */
        uint16_t text;                  /* in a string that has its bytes itself: those; 24 = and a length */
        uint16_t reserved;
} RubyLayout;

/* ELF addresses, and offsets of fields as in struct ruby_process. */
typedef struct RubyOpened {
        uint64_t variable, machine;
        uint64_t evaluator, evaluator_size;
        uint64_t core, core_size;
        uint64_t ids;                   /* the pointer to the array of names, by their IDs */
        uint64_t last_operator;         /* IDs up to this one are numbers of themselves */
        uint16_t stack_start, stack_size;
        uint16_t space, space_flags, collects;
        uint16_t ractor, running;
        uint16_t reserved;
        RubyLayout layout;
        char reason[RUBY_MAX_REASON];   /* `Ruby 3.1.2`; if the result is not 0, what is not known */
} RubyOpened;

enum {
        _RUBY_OPEN_E_SUCCESS,
        RUBY_OPEN_E_UNKNOWN,
};

/* Whether the ELF file exports what extensions of Ruby call. @fd: borrowed, or -1: bytes are at @data. */
bool ruby_recognises(int fd, const void *data, uint64_t size);

/*
 * @fd: as in ruby_recognises(). Return: 0 with *opened, RUBY_OPEN_E_UNKNOWN with opened->reason. No byte of
 * *opened is left as it was.
 */
int ruby_open(int fd, const void *data, uint64_t size, RubyOpened *opened);

/* Pure. Whether what another process says of a file may be so. */
bool ruby_opened_is_sound(const RubyOpened *opened);

/* The layout of a release, as `3.1.2`; NULL = it is not known. */
const RubyLayout *ruby_layout_find(const char *version);

/* Code of functions that Ruby exports, at their ELF addresses. */
typedef struct RubyCode {
        const uint8_t *bytes;
        size_t size;
        uint64_t address;
} RubyCode;

/*
 * Each reads one function of Ruby, and adds what it says to *opened, whose layout is there. Pure. Return:
 * whether all of it is understood, and agrees with what is there.
 */
bool ruby_decode_current(const RubyCode *code, RubyOpened *opened);     /* rb_thread_current() */
bool ruby_decode_stack(const RubyCode *code, RubyOpened *opened);       /* ruby_stack_check() */
bool ruby_decode_collector(const RubyCode *code, RubyOpened *opened);   /* rb_during_gc() */
bool ruby_decode_lock(const RubyCode *code, RubyOpened *opened);        /* rb_thread_call_with_gvl() */
bool ruby_decode_names(const RubyCode *code, RubyOpened *opened);       /* behind rb_id2str() */
bool ruby_decode_text(const RubyCode *code, RubyOpened *opened);        /* rb_str_hash() */
bool ruby_decode_class(const RubyCode *code, RubyOpened *opened);       /* rb_mod_name() */
bool ruby_decode_lines(const RubyCode *code, RubyOpened *opened);       /* behind rb_iseq_line_no() */

/* Whether code that goes over all frames has a layout's size of these: rb_profile_frames(). */
bool ruby_decode_frames(const RubyCode *code, RubyOpened *opened);

/* The same of functions that go on to another one, at *targetp. */
bool ruby_decode_name(const RubyCode *code, RubyOpened *opened, uint64_t *targetp);     /* rb_id2str() */
bool ruby_decode_line(const RubyCode *code, uint64_t *targetp);         /* rb_iseq_line_no() */
bool ruby_decode_tail(const RubyCode *code, uint64_t *targetp);         /* rb_iseq_eval(): its last jump */
