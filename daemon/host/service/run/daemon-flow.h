/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * From Stage to Stage
 *
 * The callbacks of one stage call the next. @userdata is the Daemon.
 */

#include "host/service/run/daemon-state.h"

/* Return of all: 0, -errno. */
int daemon_on_sample(const void *data, size_t size, void *userdata);
/* A record of the stacks' ring: a copy of a stack, or a start. */
int daemon_on_kept(const void *data, size_t size, void *userdata);
int daemon_on_notice(const void *data, size_t size, void *userdata);
int daemon_on_mapping(void *userdata, const SidebandRecord *record);
int daemon_on_mappings_end(void *userdata);
void daemon_on_found(void *userdata, const Process *process);
int daemon_on_mapped(void *userdata, const Process *process);
int daemon_on_looked(void *userdata, const Process *process);
int daemon_on_waits(void *userdata, const Process *process);
int daemon_set_row(void *userdata, uint32_t tgid, const struct abi_process *row);
enum runtime_walk daemon_want_runtimes(Daemon *daemon);
int daemon_on_stations(void *userdata, const Process *process);
int daemon_on_wait(const void *data, size_t size, void *userdata);
int daemon_on_wait_sum(const struct abi_wait_key *key, const struct abi_wait_sum *sum, void *userdata);
int daemon_on_rejected_name(void *userdata, const struct abi_name *name);
void daemon_on_settled_name(void *userdata, const struct abi_settled_name *name, bool is_settled);
int daemon_adopt(void *userdata, const struct abi_adoption *adoption);
int daemon_remove_row(void *userdata, uint32_t tgid);

/* Reads the rings. @drainedp: may be NULL. Return: 0, -errno. */
int daemon_drain(Daemon *daemon, SamplerDrained *drainedp);

/* Takes what workers have read of thread symbols. Return: 0, -errno. */
int daemon_step_threads(Daemon *daemon);

/* Goes a step further in the table jobs; turns tables_work on or off. Return: 0, -errno. */
int daemon_step_tables(Daemon *daemon);

/* Before the first sample: tables of all targets, as far as a time limit allows. Return: 0, -errno. */
int daemon_prepare_tables(Daemon *daemon);

/* Names of programs that the kernel half knows without a row, by the selector. */
enum abi_names daemon_names(const Daemon *daemon);

/* Facts that new processes send with their first sample, so that it can wait. */
enum abi_starts daemon_starts(const Daemon *daemon);

/*
 * Keeps a window that was exported, whose samples stand for @period_ns, and changes it. Return: 0, -ENOMEM.
 */
int daemon_record_window(Daemon *daemon, Window *window, int64_t period_ns);

/* A page of the recorder, as ControlDaemon's. Return: HTTP status. */
int daemon_recorder_page(Daemon *daemon, bool is_post, const char *path, Text *page, const char **typep);

/*
 * Finds the coroutine that ran. It is one of the sample's attributes, so it is asked before these are made.
 * Return: 0, -errno.
 */
int daemon_join_coroutine(Daemon *daemon, const Program *program, Sample *sample);
