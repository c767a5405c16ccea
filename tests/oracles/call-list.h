/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Call List
 *
 * The callers of a single-stepped program by its calls alone, and by nothing that any file says: a step that
 * puts the address behind its instruction on the stack is a call, and it is over once rsp is above that word.
 *
 *     step                          list: word on the stack, return address
 *     401010: call 401100           7ff..c8 401015
 *     401108: push, sub, …          7ff..c8 401015
 *     401140: call 401200           7ff..a0 401145, 7ff..c8 401015
 *     401220: ret                   7ff..c8 401015
 *
 * On arm64 a call leaves the address behind it in x30 and nothing on the stack. It is over once the program
 * stands there, with the stack pointer of the call; `at` is that pointer.
 *
 * A signal handler is called by the kernel, which puts two places there: what it returns to, and what was
 * interrupted. Includes nothing; bpf_probe_read_user() reads the program.
 */

enum {
        CALL_LIST_MAX = 4096,
        CALL_LIST_MIN_CALL = 2,         /* bytes of an instruction that calls */
        CALL_LIST_MAX_CALL = 15,
};

typedef struct CallList {
        struct {
                uint64_t at, to;
        } calls[CALL_LIST_MAX];
        unsigned n;
        bool is_known;                  /* all callers are in it */
} CallList;

static inline uint64_t call_list_word(uint64_t at) {
        uint64_t word = 0;

        return bpf_probe_read_user(&word, sizeof(word), (const void *)at) ? 0 : word;
}

static inline void call_list_add(CallList *list, uint64_t at, uint64_t to) {
        list->is_known = list->is_known && list->n < CALL_LIST_MAX;
        if (!list->is_known)
                return;
        list->calls[list->n].at = at;
        list->calls[list->n++].to = to;
}

/* The program has not called yet. */
static inline void call_list_begin(CallList *list) {
        list->n = 0;
        list->is_known = true;
}

/* After a step from one place to another. @has_signal: a signal was delivered in it. */
#if UNWIND_ARM64

static inline void call_list_step(CallList *list, const struct user_regs_struct *from,
                                  const struct user_regs_struct *to, bool has_signal) {
        if (has_signal && to->sp < from->sp) {
                call_list_add(list, from->sp, from->pc);
                call_list_add(list, to->sp, to->regs[30]);
                return;
        }
        while (list->n && (list->calls[list->n - 1].at < to->sp ||
                           (list->calls[list->n - 1].at == to->sp && list->calls[list->n - 1].to == to->pc)))
                list->n--;
        if (to->pc != from->pc + 4 && to->regs[30] == from->pc + 4 && to->sp == from->sp)
                call_list_add(list, to->sp, to->regs[30]);
}

#else

static inline void call_list_step(CallList *list, const struct user_regs_struct *from,
                                  const struct user_regs_struct *to, bool has_signal) {
        uint64_t word;

        if (has_signal && to->rsp < from->rsp) {
                uint64_t frame = to->rsp + 8;

                call_list_add(list, frame + RULES_SIGNAL_RIP, call_list_word(frame + RULES_SIGNAL_RIP));
                call_list_add(list, to->rsp, call_list_word(to->rsp));
                return;
        }
        while (list->n && list->calls[list->n - 1].at < to->rsp)
                list->n--;
        if (to->rsp != from->rsp - 8)
                return;
        word = call_list_word(to->rsp);
        if (word - from->rip >= CALL_LIST_MIN_CALL && word - from->rip <= CALL_LIST_MAX_CALL)
                call_list_add(list, to->rsp, word);
}

#endif
