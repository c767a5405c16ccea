/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collects entries in chunks that each worker fills without a lock, and hands full ones to a thread that
 * writes them to the file four times a second.
 */
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "spanlog.h"

enum {
        CHUNK_ENTRIES = 1024,
        WRITE_INTERVAL_MS = 250,
};

typedef struct Chunk {
        struct Chunk *next;
        unsigned int n_entries;
        SpanLogEntry entries[CHUNK_ENTRIES];
} Chunk;

struct SpanLogBuffer {
        SpanLogBuffer *next;
        SpanLog *log;
        Chunk *chunk;                   /* being filled by the owner, no lock */
};

struct SpanLog {
        FILE *file;
        pthread_t thread;
        pthread_mutex_t lock;           /* of everything below */
        pthread_cond_t wake;
        SpanLogBuffer *buffers;
        Chunk *full, **full_end;
        bool closing;
        int error;
        int write_error;                /* the first; of the writing thread, then of who closes */
};

static void write_chunk(SpanLog *log, const Chunk *chunk) {
        for (unsigned int i = 0; i < chunk->n_entries; i++) {
                const SpanLogEntry *e = &chunk->entries[i];

                if (fprintf(log->file,
                            "%016" PRIx64 ",%s,%d,%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 "\n",
                            e->span_id, operation_name(e->operation), e->tid, e->start_before_ns,
                            e->start_after_ns, e->end_before_ns, e->end_after_ns) < 0 &&
                    !log->write_error)
                        log->write_error = -errno;      /* later only ferror() is left of it */
        }
}

static void write_chunks(SpanLog *log, Chunk *chunk) {
        while (chunk) {
                Chunk *next = chunk->next;

                write_chunk(log, chunk);
                free(chunk);
                chunk = next;
        }
}

static Chunk *take_full(SpanLog *log) {
        Chunk *full = log->full;

        log->full = NULL;
        log->full_end = &log->full;
        return full;
}

/* By the clock, not by a signal for each chunk: a worker never wakes anybody. */
static void *spanlog_main(void *data) {
        SpanLog *log = data;
        bool closing = false;

        while (!closing) {
                struct timespec until;
                Chunk *full;

                clock_gettime(CLOCK_REALTIME, &until);
                until.tv_nsec += WRITE_INTERVAL_MS * 1000000;
                until.tv_sec += until.tv_nsec / 1000000000;
                until.tv_nsec %= 1000000000;
                pthread_mutex_lock(&log->lock);
                if (!log->closing)
                        pthread_cond_timedwait(&log->wake, &log->lock, &until);
                closing = log->closing;
                full = take_full(log);
                pthread_mutex_unlock(&log->lock);
                write_chunks(log, full);
        }
        return NULL;
}

int spanlog_new(SpanLog **logp, const char *path) {
        SpanLog *log = calloc(1, sizeof(*log));
        int r;

        if (!log)
                return -ENOMEM;
        log->full_end = &log->full;
        pthread_mutex_init(&log->lock, NULL);
        pthread_cond_init(&log->wake, NULL);
        log->file = fopen(path, "we");
        if (!log->file) {
                r = -errno;
                free(log);
                return r;
        }
        fputs("span_id,operation,tid,start_before,start_after,end_before,end_after\n", log->file);
        r = pthread_create(&log->thread, NULL, spanlog_main, log);
        if (r) {
                fclose(log->file);
                free(log);
                return -r;
        }
        pthread_setname_np(log->thread, "span-log");
        *logp = log;
        return 0;
}

static void write_buffers(SpanLog *log) {
        while (log->buffers) {
                SpanLogBuffer *buffer = log->buffers;

                log->buffers = buffer->next;
                if (buffer->chunk)
                        write_chunk(log, buffer->chunk);
                free(buffer->chunk);
                free(buffer);
        }
}

int spanlog_close(SpanLog *log) {
        int r;

        if (!log)
                return 0;
        pthread_mutex_lock(&log->lock);
        log->closing = true;
        pthread_cond_signal(&log->wake);
        pthread_mutex_unlock(&log->lock);
        pthread_join(log->thread, NULL);
        write_buffers(log);
        r = log->write_error ? log->write_error : log->error;
        if (!r && ferror(log->file))
                r = -EIO;
        if (fclose(log->file) != 0 && !r)
                r = -errno;
        free(log);
        return r;
}

SpanLogBuffer *spanlog_open_buffer(SpanLog *log) {
        SpanLogBuffer *buffer = calloc(1, sizeof(*buffer));

        if (!buffer)
                return NULL;
        buffer->log = log;
        pthread_mutex_lock(&log->lock);
        buffer->next = log->buffers;
        log->buffers = buffer;
        pthread_mutex_unlock(&log->lock);
        return buffer;
}

static void hand_over(SpanLogBuffer *buffer) {
        SpanLog *log = buffer->log;
        Chunk *chunk = calloc(1, sizeof(*chunk));

        pthread_mutex_lock(&log->lock);
        if (buffer->chunk) {
                *log->full_end = buffer->chunk;
                log->full_end = &buffer->chunk->next;
        }
        if (!chunk)
                log->error = -ENOMEM;
        pthread_mutex_unlock(&log->lock);
        buffer->chunk = chunk;
}

void spanlog_append(SpanLogBuffer *buffer, const SpanLogEntry *entry) {
        if (!buffer->chunk || buffer->chunk->n_entries == CHUNK_ENTRIES)
                hand_over(buffer);
        if (buffer->chunk)
                buffer->chunk->entries[buffer->chunk->n_entries++] = *entry;
}
