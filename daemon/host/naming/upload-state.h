/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * State of Uploads
 *
 * What is known of each build id at one server, and how many bytes went there today. It outlives the daemon
 * as a small file of text, so that a restart does not ask everything again:
 *
 *     spanprof-uploads 1 pyroscope http://localhost:4040
 *     day 20779 3481600
 *     4a1bd0…77 uploaded 1795300000
 *     90ffe2…01 known 1795300011
 *
 * A file of another server is as good as none. Pure, but for the last two functions.
 */

#include <stddef.h>
#include <stdint.h>

#include "core/base/util/text.h"

enum {
        UPLOAD_MAX_ENTRIES = 4096,      /* over it the one that was settled first is forgotten */
        UPLOAD_ID_MAX = 136,            /* bytes of a build id's text, with its NUL */
};

typedef enum UploadOutcome {
        UPLOAD_OUTCOME_UPLOADED,
        UPLOAD_OUTCOME_KNOWN,           /* the server said no, since it has it */
        UPLOAD_OUTCOME_REFUSED,         /* the server will not take it; asked again after a day */
        UPLOAD_OUTCOME_UNSUPPORTED,     /* the same, of a way that we cannot */
        UPLOAD_OUTCOME_NAMELESS,        /* there are no symbols in the file */
        UPLOAD_N_OUTCOMES,
} UploadOutcome;

typedef struct UploadEntry {
        char gnu[UPLOAD_ID_MAX];
        UploadOutcome outcome;
        uint64_t time_s;                /* REALTIME */
} UploadEntry;

typedef struct UploadState {
        UploadEntry *entries;           /* UPLOAD_MAX_ENTRIES */
        uint32_t n;
        uint64_t day, day_bytes;        /* days since 1970 (UTC), and bytes sent in that one */
} UploadState;

/* Return: 0, -ENOMEM. */
int upload_state_init(UploadState *state);
void upload_state_deinit(UploadState *state);

/* Return: the entry; NULL = none, or one that counts no more at @now_s. */
const UploadEntry *upload_state_find(const UploadState *state, const char *gnu, uint64_t now_s);
void upload_state_put(UploadState *state, const char *gnu, UploadOutcome outcome, uint64_t now_s);

/* Adds to the bytes of today. */
void upload_state_spend(UploadState *state, uint64_t n_bytes, uint64_t now_s);
uint64_t upload_state_spent(const UploadState *state, uint64_t now_s);

/* @server: one line. Lines that make no sense are passed over. */
void upload_state_print(const UploadState *state, const char *server, Text *text);
void upload_state_parse(UploadState *state, const char *server, const char *data, size_t size);

/* The file `uploads` in a directory. What cannot be read is as good as none. */
void upload_state_load(UploadState *state, const char *server, int directory);

/* Return: 0, -errno: the old file stays. */
int upload_state_save(const UploadState *state, const char *server, int directory);
