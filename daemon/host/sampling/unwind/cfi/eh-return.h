/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Landing
 *
 * libgcc leaves for the landing pad of an exception by __builtin_eh_return: it
 * overwrites its own frame with the registers that the pad's function expects, and
 * then goes there.
 *
 *      mov  %rax,%rcx
 *      mov  %rsi,8(%rbp,%rax,1)        the pad's address, where its stack begins
 *      lea  8(%rbp,%rcx,1),%rcx
 *      mov  -0x28(%rbp),%rbx   …       loads the registers
 *      mov  0(%rbp),%rbp
 *      mov  %rcx,%rsp                  gcc's row: CFA = rcx + 8
 *      pop  %rcx                       rsp + 8
 *      jmp  *%rcx                      rsp, return address in rcx
 *
 * gcc's rows find the pad's stack in the last three instructions; before, they still
 * tell of the caller, whose return address is gone. From the store on, the pad's
 * address is there and rcx tells where, so rows are made to begin there. The pad has made no call: the byte
 * before it belongs to other code. So all these rules say that the address is to be looked up as it is. Code
 * is looked at here alone, and in four functions a machine: those with a row "rcx + 8".
 */

#include "host/sampling/unwind/cfi/layout.h"
#include "host/sampling/unwind/cfi/program.h"
#include "host/sampling/unwind/cfi/reader.h"

/* Adds the rows of @list that are missing; they are those of one function. */
void landing_amend(RowList *list, const Layout *layout, Reader *reader);
