/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Trace Database
 *
 * The SQLite form of a trace (trace.h). Readers may look while it is written (WAL).
 */

#include "coro/trace/trace.h"

typedef struct TraceDb TraceDb;

/*
 * In the place of an old one. Return: 0, TRACE_E_FAILED and TRACE_E_REFUSED (a message was logged),
 * TRACE_E_FOREIGN, -ENOMEM.
 */
int trace_db_new(TraceDb **dbp, const char *path, const TraceOptions *options);

/* Return: 0, TRACE_E_FAILED (a message was logged). */
int trace_db_event(TraceDb *db, const CoroEvent *event);
int trace_db_station(TraceDb *db, const TraceStation *station);
int trace_db_mapping(TraceDb *db, const TraceMapping *mapping);
int trace_db_commit(TraceDb *db);
uint64_t trace_db_size(const TraceDb *db);

/* Builds the indexes, ends. Return: 0, TRACE_E_FAILED. */
int trace_db_close(TraceDb *db);
TraceDb *trace_db_free(TraceDb *db);

/*
 * Reads the events of a database in their order. *n_malformedp counts rows that are none. Return: 0,
 * TRACE_E_FAILED (errno 0: a message was logged), what @func returned.
 */
int trace_db_read(const char *path, int (*func)(void *userdata, const CoroEvent *event), void *userdata,
                  uint64_t *n_malformedp);

/* Its stations as lines of CSV (trace-stations.h). A database without them has no lines. Return: as above. */
int trace_db_read_stations(const char *path, int (*func)(void *userdata, const char *line, size_t size),
                           void *userdata);

/* Its mappings (trace-mappings.h). Return: as above. */
int trace_db_read_mappings(const char *path, int (*func)(void *userdata, const char *line, size_t size),
                           void *userdata);
