/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Uploads
 *
 * Which files are worth an upload (`symbols = upload`): those that many samples stand in, and whose path the
 * administrator has allowed. What is found is handed to the uploader (uploader.h).
 *
 * A pattern is a glob over whole paths (`*` spans slashes). It means files of this host: at that path here
 * must be the very file that was sampled. With `container:` before it, it means files as processes in
 * containers see them, which they choose themselves.
 */

#include <stddef.h>
#include <stdint.h>

#include "core/base/util/macro.h"
#include "core/profile/window.h"
#include "host/naming/uploader.h"
#include "host/sampling/process/process.h"

typedef struct Uploads Uploads;

typedef struct UploadsConfig {
        UploaderConfig uploader;
        char *const *patterns;          /* borrowed, for the life of the Uploads */
        size_t n_patterns;
} UploadsConfig;

/* Return: 0, UPLOADER_E_UNABLE, -ENOMEM. */
int uploads_new(Uploads **uploadsp, const UploadsConfig *config);
Uploads *uploads_free(Uploads *uploads);
DEFINE_CLEANUP(Uploads, uploads_free)

/* A frame lies in @mapping of @process, whose object is a file. Return: 0, -ENOMEM. */
int uploads_see(Uploads *uploads, const Process *process, const Mapping *mapping);

/* Counts the samples of a closed window, whose modules have their files. Return: 0, -ENOMEM. */
int uploads_window(Uploads *uploads, const Window *window);

/* Counts and logs what the uploader has done. */
void uploads_collect(Uploads *uploads);

void uploads_state(const Uploads *uploads, UploaderState *state);
