/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Deferred Samples
 *
 * Samples that came with a copy of their stack, until it is walked, and samples whose runtime's names are
 * late.
 */

#include "host/sampling/walks/walks.h"

typedef struct Deferred Deferred;

/* @stages: borrowed. Return: 0, -ENOMEM. */
int deferred_new(Deferred **deferredp, const WalkStages *stages);

/* Drops what waits: deferred_flush() before. */
Deferred *deferred_free(Deferred *deferred);

/* A copy of a stack, as the kernel half wrote it; its sample follows. Return: 0. */
int deferred_copy(Deferred *deferred, const void *data, size_t size);

/*
 * Takes over a sample: walks its stack if that was copied (`is_copied`), and hands it on, now or later. @size:
 * bytes of its record. Return: 0, -errno.
 */
int deferred_sample(Deferred *deferred, const Program *program, const Sample *sample, size_t size);

/* The sample is lost: so is its copy, if it has one. */
void deferred_drop(Deferred *deferred, const struct abi_sample *header);

/* Walks what can be walked by now, hands on what has waited too long. Return: 0, -errno. */
int deferred_work(Deferred *deferred);

/* The same if a table has come or gone since the last time. */
int deferred_work_if_changed(Deferred *deferred);

/*
 * Before deferred_flush(): makes tables and walks for as long as samples wait for them, and for @for_ns at
 * most. Return: 0 = nothing more will come, 1 = there is more to do, -errno.
 */
int deferred_finish(Deferred *deferred, uint64_t for_ns);

/* Hands on all that waits. Return: 0, -errno. */
int deferred_flush(Deferred *deferred);

/*
 * How long a sample waits for tables, in ns. @has_one_window: until the end. @is_crowded: the oldest programs
 * that are gone may soon be forgotten, and their samples with them.
 */
uint64_t deferred_patience_ns(bool has_one_window, bool is_crowded);

/*
 * Where a walk ended since rows were missing: the last native frame, since functions of a runtime that called
 * it may stand behind. @user: frames of @header. Return: pc, 0 = it ended otherwise.
 */
uint64_t deferred_missing_pc(const struct abi_sample *header, const uint64_t *user);

/* Whether a sample waits. */
bool deferred_waits(const Deferred *deferred);
