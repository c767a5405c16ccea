/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Events about the Recording
 *
 * Its process, settings and libraries. They become the resource, the periods of profiles, and the modules of
 * frames.
 */

#include "core/jfr/reader.h"

/* The kind of the class + 1; 0 = none of them. */
uint32_t jfr_recording_kind(const char *class_name);
int jfr_recording_event(JfrReader *reader, const JfrClassState *state, const JfrClass *class,
                        const JfrEvent *event);

/* Reads what samples need from the start: the process, and libraries, where frames may be remote. */
int jfr_recording_prepare(JfrReader *reader);

/* The resource and its attributes; periods of the profiles. */
int jfr_recording_finish(JfrReader *reader);
