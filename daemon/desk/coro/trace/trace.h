/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Trace
 *
 * A trace of coroutines has one of three forms, told by the ending of its name:
 *
 *      .jsonl          {"probe_id":94,"tid":7,"addr":"0x…","seq":2,"is_active":true,"ts":…} one a line
 *      .db, .sqlite    table coro_trace_events with these columns
 *      .csv            probe_id,tid,addr,seq,is_active,ts      as coroTracer exports it; no more than these
 *
 * Users of stations know these six fields. Behind them we add: station, event (its number, from 0), birth,
 * lost (events of this station lost right before this one), pid, payload (hex; the bytes that a writer left
 * in the epoch). A field that is unknown or zero is left out of a line. Without `extra` only a payload is
 * added.
 *
 * Two tables stand behind the events (trace-rows.h): the state of each station at its end, and the mappings
 * of the programs' code. A database has them as tables, JSON lines as further lines.
 */

typedef enum TraceForm {
        TRACE_JSONL,
        TRACE_CSV,
        TRACE_SQLITE,
} TraceForm;

enum {
        _TRACE_E_SUCCESS,
        TRACE_E_ENDING,                 /* no form has this ending */
        TRACE_E_FAILED,                 /* the file cannot be made, read or written; errno */
        TRACE_E_FOREIGN,                /* a file is there that is no database */
        TRACE_E_REFUSED,                /* the file cannot be made there; a message was logged */
};

/* The form of a name, by its ending; `-` is TRACE_JSONL. Return: 0, TRACE_E_ENDING. */
int trace_form_of(const char *path, TraceForm *formp);
