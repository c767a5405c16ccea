/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Uploader
 *
 * A thread that uploads debug information, one file after the other, so that no export of profiles ever
 * waits for it. It asks the server for each build id once, has a worker without rights make the file
 * (no-text-wire.h), and stays within a budget of bytes a day. What failed is tried again, later and later.
 *
 * All functions are the loop's.
 */

#include <stdbool.h>
#include <stdint.h>

#include "core/base/data/shares.h"
#include "core/base/sandbox/zygotes.h"
#include "core/base/util/macro.h"
#include "host/naming/name-job.h"
#include "host/naming/upload-protocol.h"

typedef struct Uploader Uploader;

typedef struct UploaderConfig {
        UploadServer server;            /* texts are copied; is_over is the uploader's own */
        const char *shown_url;          /* the same without secrets: for messages and the state */
        const char *debug_directory;    /* NULL = /usr/lib/debug */
        const char *state_directory;    /* NULL = none: a restart asks again */
        uint64_t day_bytes;             /* budget; 0 = none */
        uint64_t first_retry_ns;        /* 0 = 5 s */
        Zygotes *zygotes;               /* workers that make the files; not NULL */
} UploaderConfig;

/* A file whose symbols are wanted. Borrowed for the call. */
typedef struct UploadWish {
        const char *gnu, *path;         /* the path as targets see it */
        ObjectFile file;                /* no other one counts */
        NamePlaces places;
        /*
         * the file lies in a container: it is opened where a process has it mapped, and not at its path here
         */
        bool is_contained;
        ShareOwner owner;               /* process whose turn it is in */
} UploadWish;

enum {
        _UPLOADER_E_SUCCESS,
        UPLOADER_E_FULL,                /* the queue has no room for the process */
        UPLOADER_E_UNABLE,              /* libcurl or a thread cannot be had; logged */
};

/* Return: 0, UPLOADER_E_UNABLE, -ENOMEM. */
int uploader_new(Uploader **uploaderp, const UploaderConfig *config);

/* Ends what is under way. A thread that hangs is left to itself after 200 ms. */
Uploader *uploader_free(Uploader *uploader);
DEFINE_CLEANUP(Uploader, uploader_free)

/* Unless its build id is settled, or waits. Return: 0, UPLOADER_E_FULL, -ENOMEM. */
int uploader_push(Uploader *uploader, const UploadWish *wish);

/* Counts and logs what happened since the last call. */
void uploader_collect(Uploader *uploader);

typedef struct UploaderState {
        uint32_t n_waiting;             /* files, with those that are tried again */
        uint64_t spent_bytes, day_bytes;        /* today, and its budget */
        uint64_t retry_ns;              /* until the next try; 0 = nothing is tried again */
        char problem[UPLOAD_PROBLEM_MAX];       /* the last; "" = none since the last success */
} UploaderState;

void uploader_state(Uploader *uploader, UploaderState *state);
