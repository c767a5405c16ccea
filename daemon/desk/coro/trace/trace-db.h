/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Trace Database
 *
 * The SQLite form of a trace (trace.h). Readers may look while it is written (WAL).
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/file/outfile.h"
#include "desk/coro/trace/trace-read.h"
#include "desk/coro/trace/trace-rows.h"
#include "desk/coro/trace/trace.h"

typedef struct TraceDb TraceDb;

/*
 * Replaces an old database, and no other file. @extra: as in TraceOptions. @options: mode and readers count.
 * Return: 0, TRACE_E_FAILED and TRACE_E_REFUSED (a message was logged), TRACE_E_FOREIGN, -ENOMEM.
 */
int trace_db_new(TraceDb **dbp, const char *path, bool extra, const OutfileOptions *options);

/* Return: 0, TRACE_E_FAILED (a message was logged). */
int trace_db_event(TraceDb *db, const CoroEvent *event);
int trace_db_station(TraceDb *db, const TraceStation *station);
int trace_db_mapping(TraceDb *db, const TraceMapping *mapping);
int trace_db_commit(TraceDb *db);

/* Bytes of the file, about. */
uint64_t trace_db_size(const TraceDb *db);

/* Builds the indexes and frees @db. Return: 0, TRACE_E_FAILED. */
int trace_db_close(TraceDb *db);
TraceDb *trace_db_free(TraceDb *db);

/*
 * Reads the events of a database in their order, then its rows; one without the tables has none. Return: 0,
 * TRACE_E_FAILED (a message was logged), what a taker returned.
 */
int trace_db_read(const char *path, const TraceTakers *to, TraceReadCounts *counts);
