/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Adoption
 *
 * The kernel half counts which threads of a process share a slot of its ring, from
 * each thread's birth on (bpf/walk/slots.bpf.h). This tells it of those that are there
 * already: after the row of the ring is set, so that no birth falls in between.
 */

#include <stddef.h>
#include <stdint.h>

#include "border/abi.h"

/* Return: 0, or negative to end it. */
typedef int (*AdoptVisit)(void *userdata, const struct abi_adoption *adoption);

/*
 * Visits the living threads of @tgid; one that ends meanwhile is visited again, as GONE. Return: 0, what
 * @visit returned.
 */
int adopt_threads(uint32_t tgid, uint32_t capacity, AdoptVisit visit, void *userdata);

/* Pure. The innermost id in the line NSpid of the text of a status file. Return: 0, 1 = no such line. */
int adopt_parse_status(const char *text, uint32_t *ns_tidp);
