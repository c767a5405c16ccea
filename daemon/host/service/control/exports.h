/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Exports
 *
 * All the receivers of a daemon: each gets every request, over an exporter of its own with its own queue,
 * spool and counters. One that is in trouble holds up no other. The first is the one that the books of
 * util/stat are kept for; the counters of the others are shown separately.
 */

#include "core/base/util/text.h"
#include "core/profile/window.h"
#include "host/delivery/export/exporter.h"
#include "host/service/config/config.h"

typedef struct Exports Exports;

enum {
        _EXPORTS_E_SUCCESS,
        EXPORTS_E_UNUSABLE,             /* a receiver cannot be used; a message was logged */
};

/* Return: 0, EXPORTS_E_UNUSABLE, -errno. */
int exports_new(Exports **exportsp, sd_event *event, const Config *config);
Exports *exports_free(Exports *exports);
DEFINE_CLEANUP(Exports, exports_free)

/* Return: 0, -errno, which ends the sending. */
typedef int (*ExportsLook)(const uint8_t *data, size_t size);

/*
 * Sends the samples of a closed window to each of them, in its form. What finds no place in a request is
 * counted there. @look: sees each request before it goes; NULL = not needed. Return: 0, -errno.
 */
int exports_window(Exports *exports, const Window *window, ExportsLook look);

/* As exporter.h's; @done is called once, when all of them are. */
int exports_stop(Exports *exports, uint64_t deadline_ns, void (*done)(void *userdata), void *userdata);
void exports_give_up(Exports *exports);

uint64_t exports_queued_events(const Exports *exports);
size_t exports_lacking_spools(const Exports *exports);  /* receivers whose spool could not be used */
size_t exports_queued_bytes(const Exports *exports);

/* Whether the last request to one of them has failed. */
bool exports_are_failing(const Exports *exports);

/* Bytes of all requests so far, at the receiver to which most goes. */
uint64_t exports_submitted_bytes(const Exports *exports);

/* In memory alone, at the receiver where most are: the death of the daemon would lose them. */
uint64_t exports_unsaved_events(const Exports *exports);

/* `[{"name": "…", "delivered": 7, …}, …]`, the first one first. */
void exports_append_json(const Exports *exports, Text *text);

/*
 * For `spanprof status`: a line for each if there are several. For Prometheus: families spanprof_receiver_…
 * with the label `receiver`.
 */
void exports_append_status(const Exports *exports, Text *text);
void exports_append_metrics(const Exports *exports, Text *text);

/* A line for each but the first. */
void exports_log(const Exports *exports);
