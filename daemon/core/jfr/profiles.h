/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Profiles of a Recording
 *
 * One for each way of measuring that wrote events, with its names and its period.
 */

#include "core/jfr/reader.h"

/* Whether times of samples of the group are kept. */
bool jfr_group_is_timed(JfrGroup group);

/* Whether it is of the CPU's time, the clock's, or of waits. */
bool jfr_group_is_of_time(JfrGroup group);

/*
 * The group of an event with these slots: its type's, but for samples of the wall clock that async-profiler
 * wrote as others.
 */
int jfr_profile_group(JfrReader *reader, const JfrPlan *plan, const uint64_t *slots, JfrGroup *groupp);

/* The profile of the group, made on first use. Return: 0, WINDOW_E_FULL, -ENOMEM. */
int jfr_profile_find(JfrReader *reader, JfrGroup group, uint32_t *profilep);

/*
 * Takes what a setting of the recording says of periods. @plan: plan of the events that the setting is about;
 * NULL = they are no samples. Return: as jfr_profile_find().
 */
int jfr_profile_setting(JfrReader *reader, const JfrPlan *plan, const char *name, const char *value);

/* Takes what was said of periods for the events that this chunk had. */
void jfr_profiles_end_chunk(JfrReader *reader);

/* Names and periods, once everything is read. Return: 0, WINDOW_E_FULL, -ENOMEM. */
int jfr_profiles_finish(JfrReader *reader);
