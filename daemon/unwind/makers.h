/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Makers
 *
 * Several tables made at the same time, each by a worker of its own (maker.h): a file that takes long, or for ever, holds up
 * nobody else. One place is for those that took too long before, and none of the others is.
 */

#include <stdbool.h>
#include <stdint.h>

#include "unwind/maker.h"

enum { MAKERS_N = 3 };                  /* files at the same time: more than most machines have processors to spare */

typedef struct Makers Makers;

/* @nursery: borrowed. Return: 0, -errno. */
int makers_new(Makers **makersp, Nursery *nursery);
Makers *makers_free(Makers *makers);
DEFINE_CLEANUP(Makers, makers_free)

/* Readable, each of MAKERS_N, when makers_step() has something to do. */
int makers_fd(const Makers *makers, int i);

/*
 * Begins a table if there is a place for it. @what: names it, not NULL. @is_slow: it was late before. @fd: borrowed until
 * makers_step() has told of it. Return: whether there was a place.
 */
bool makers_begin(Makers *makers, void *what, int fd, const TableLimits *limits, bool is_slow);

/*
 * Works at one of them. Return: 0 with *tablep, TABLE_E_NOT_ELF, _NO_TEXT, _NO_CFI, _TOO_LARGE, MAKER_E_LATE, _FAILED: that was
 * all of *whatp, whose place is free. Without *whatp: TABLE_E_AGAIN = there is more to do now, MAKER_E_WAIT, -ENOMEM.
 */
int makers_step(Makers *makers, uint64_t budget, void **whatp, Table *tablep);
