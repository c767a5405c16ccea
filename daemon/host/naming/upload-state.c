/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Keeps outcomes by build id, and the bytes of a day, in a text file that is replaced as a whole. Lines
 * that do not parse are left out.
 */

#include "host/naming/upload-state.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/file/file.h"
#include "core/base/util/error.h"

#define NAME "uploads"
#define TEMPORARY "uploads.new"
#define HEAD "spanprof-uploads 1 "

enum {
        DAY_S = 86400,
        MAX_FILE = 1 << 20,
        MAX_LINE = 512,
};

static const char *const words[UPLOAD_N_OUTCOMES] = {
        [UPLOAD_OUTCOME_UPLOADED] = "uploaded", [UPLOAD_OUTCOME_KNOWN] = "known",
        [UPLOAD_OUTCOME_REFUSED] = "refused",   [UPLOAD_OUTCOME_UNSUPPORTED] = "unsupported",
        [UPLOAD_OUTCOME_NAMELESS] = "nameless",
};

int upload_state_init(UploadState *state) {
        *state = (UploadState){ .entries = calloc(UPLOAD_MAX_ENTRIES, sizeof(*state->entries)) };
        return state->entries ? 0 : error_origin(-ENOMEM);
}

void upload_state_deinit(UploadState *state) {
        free(state->entries);
        *state = (UploadState){ 0 };
}

static UploadEntry *find(const UploadState *state, const char *gnu) {
        for (uint32_t i = 0; i < state->n; i++)
                if (!strcmp(state->entries[i].gnu, gnu))
                        return &state->entries[i];
        return NULL;
}

/* A server may be set up in another way tomorrow. A clock that was set back makes nothing new. */
static bool counts(const UploadEntry *entry, uint64_t now_s) {
        bool is_final = entry->outcome != UPLOAD_OUTCOME_REFUSED &&
                entry->outcome != UPLOAD_OUTCOME_UNSUPPORTED;

        return is_final || now_s < entry->time_s + DAY_S;
}

const UploadEntry *upload_state_find(const UploadState *state, const char *gnu, uint64_t now_s) {
        const UploadEntry *entry = find(state, gnu);

        return entry && counts(entry, now_s) ? entry : NULL;
}

void upload_state_put(UploadState *state, const char *gnu, UploadOutcome outcome, uint64_t now_s) {
        UploadEntry *entry = find(state, gnu);

        if (strlen(gnu) >= UPLOAD_ID_MAX)
                return;
        if (!entry && state->n == UPLOAD_MAX_ENTRIES)
                memmove(state->entries, state->entries + 1, --state->n * sizeof(*state->entries));
        if (!entry)
                entry = &state->entries[state->n++];
        strcpy(entry->gnu, gnu);
        entry->outcome = outcome;
        entry->time_s = now_s;
}

uint64_t upload_state_spent(const UploadState *state, uint64_t now_s) {
        return state->day == now_s / DAY_S ? state->day_bytes : 0;
}

void upload_state_spend(UploadState *state, uint64_t n_bytes, uint64_t now_s) {
        state->day_bytes = upload_state_spent(state, now_s) + n_bytes;
        state->day = now_s / DAY_S;
}

/* ---- as text ---- */

void upload_state_print(const UploadState *state, const char *server, Text *text) {
        text_printf(text, HEAD "%s\nday %" PRIu64 " %" PRIu64 "\n", server, state->day, state->day_bytes);
        for (uint32_t i = 0; i < state->n; i++)
                text_printf(text, "%s %s %" PRIu64 "\n", state->entries[i].gnu,
                            words[state->entries[i].outcome], state->entries[i].time_s);
}

static bool is_id(const char *text) {
        size_t n = strspn(text, "0123456789abcdef");

        return n && !text[n] && n < UPLOAD_ID_MAX;
}

static void parse_line(UploadState *state, char *line) {
        char *rest = NULL, *first = strtok_r(line, " ", &rest), *second = strtok_r(NULL, " ", &rest),
             *third = strtok_r(NULL, " ", &rest);
        uint64_t a, b;

        if (!third || text_u64(third, INT64_MAX, &b))
                return;
        if (!strcmp(first, "day") && !text_u64(second, INT64_MAX, &a)) {
                state->day = a;
                state->day_bytes = b;
                return;
        }
        for (int i = 0; i < UPLOAD_N_OUTCOMES && is_id(first); i++)
                if (!strcmp(second, words[i]))
                        upload_state_put(state, first, (UploadOutcome)i, b);
}

void upload_state_parse(UploadState *state, const char *server, const char *data, size_t size) {
        const char *end = data + size, *line_end;
        bool is_first = true;
        char line[MAX_LINE];

        for (; data < end; data = line_end + 1) {
                size_t n;

                line_end = memchr(data, '\n', (size_t)(end - data));
                if (!line_end)
                        return;         /* cut */
                n = (size_t)(line_end - data);
                if (is_first && (n != strlen(HEAD) + strlen(server) || memcmp(data, HEAD, strlen(HEAD)) ||
                                 memcmp(data + strlen(HEAD), server, strlen(server))))
                        return;
                if (!is_first && n < sizeof(line)) {
                        memcpy(line, data, n);
                        line[n] = 0;
                        parse_line(state, line);
                }
                is_first = false;
        }
}

/* ---- as a file ---- */

void upload_state_load(UploadState *state, const char *server, int directory) {
        _cleanup_(freep) char *data = NULL;
        _cleanup_(closep) int fd = -1;
        size_t size;

        if (file_open_regular_at(directory, NAME, &fd) || file_read_fd(fd, MAX_FILE, &data, &size))
                return;
        upload_state_parse(state, server, data, size);
}

int upload_state_save(const UploadState *state, const char *server, int directory) {
        _cleanup_(text_deinit) Text text = { 0 };

        upload_state_print(state, server, &text);
        if (text.failed)
                return error_origin(-ENOMEM);
        return file_replace_at(directory, NAME, TEMPORARY, text.data, text.size);
}
