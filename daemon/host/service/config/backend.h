/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Backend
 *
 * What `backend = NAME` means: settings that nothing else has set, and the form of requests. Facts about each
 * backend are in docs/BACKENDS.md.
 */

#include "core/otlp/payload.h"
#include "host/delivery/export/exporter.h"
#include "host/service/config/config.h"

/*
 * Sets what the backend of @config needs, where nothing else was said; config_load() calls it. Return: 0,
 * -ENOMEM.
 */
int backend_apply(Config *config);

/* Settings of the form that were made for all receivers hold in @own, too, unless it has its own. */
int backend_inherit(Config *own, const Config *config);

/* Where it listens as a rule. */
const char *backend_endpoint(const Config *config);

/* The form of requests. Lists stay the configuration's, and strings. */
OtlpPayload backend_payload(const Config *config);

/* How its answers are read. */
ExportDialect backend_dialect(const Config *config);

/* Who takes uploaded symbols: pyroscope, parca. */
const char *backend_uploads(const Config *config);

/* Whether the receiver of @config gets the names that this machine knows; and whether any receiver does. */
bool backend_has_names(const Config *config);
bool backend_wants_names(const Config *config);

/* Whether no attribute of its own tells a process from others of its service: process.pid is left out. */
bool backend_merges_processes(const Config *config);
