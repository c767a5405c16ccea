/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Memory and disk, side by side
 *
 * A batch is written ahead: it goes to the disk while its first attempt runs, and the request does not wait
 * for the disk. The death of the daemon loses no batch that was stored, which takes as long as compressing
 * it.
 *
 *         hold()                 written             answer: remove()
 *     UNSTORED ──▶ STORING ───────────────▶ HELD ───────────────────────▶ the file is removed
 *                     │ answer: done          │ keep(): release
 *                     ▼                       ▼
 *               is not written             STORED ──fetch()──▶ sent from the disk, one by one
 *
 * A file that is held is neither given out nor dropped, so a batch is never sent both from memory and from
 * the disk. A batch that is answered before its turn to be written is not written.
 *
 * While the receiver is well a file is not flushed: its bytes in the page cache outlive the process, and most
 * files are gone before the kernel writes them. A file is flushed as soon as an attempt has failed (it is
 * released then), or when its answer takes longer than flush_after_ns. So a power loss also loses what was
 * stored in the last 2 s and was on its first attempt, which is less than the window that is still open.
 *
 * A disk may block. A job that takes more than 2 s makes the store count as stuck, and memory is sent
 * meanwhile. finish() gives the disk a few seconds; after that it leaves the thread behind and counts what
 * was not stored.
 */

#include "host/delivery/export/spool-store.h"

#include <errno.h>

#include "core/base/data/list.h"
#include "core/base/util/clock.h"
#include "core/base/util/error.h"

typedef struct UnflushedList {
        BatchUnflushed *first, *last;   /* oldest first */
} UnflushedList;

/* Batches that memory has let go of, and that the thread has not written yet. */
typedef struct Alone {
        uint64_t n_batches, n_events;
        size_t bytes;
} Alone;

typedef struct SpoolStore {
        SpoolWorker *worker;            /* NULL = left behind */
        SpoolStoreMode mode;
        size_t max_backlog_bytes;
        uint64_t flush_after_ns, time_limit_ns;
        sd_event_source *flush_timer;   /* on while the list is not empty */
        UnflushedList unflushed;        /* batches that are held, and whose files are not flushed */
        Alone alone;
        uint64_t released_events;       /* samples in files that are about to be released */

        const BatchStoreEvents *events;
        ExportBooks *books;
        void *userdata;
} SpoolStore;

/* ---- flushing ---- */

static void forget_unflushed(SpoolStore *store, Batch *batch) {
        if (batch->unflushed.batch)
                list_remove(&store->unflushed, &batch->unflushed);
        batch->unflushed.batch = NULL;
}

static void flush(SpoolStore *store, Batch *batch) {
        forget_unflushed(store, batch);
        if (!spool_worker_flush(store->worker, &batch->entry))
                batch->entry.flushed = true;
}

static void set_flush_timer(SpoolStore *store, uint64_t time_ns) {
        sd_event_source_set_time(store->flush_timer, time_ns / NS_PER_US + 1);
        sd_event_source_set_enabled(store->flush_timer, SD_EVENT_ONESHOT);
}

static int on_flush_time(sd_event_source *source, uint64_t usec, void *userdata) {
        SpoolStore *store = userdata;
        uint64_t now_ns = clock_monotonic_ns();
        BatchUnflushed *oldest;

        while (store->worker && (oldest = store->unflushed.first)) {
                if (now_ns < oldest->since_ns + store->flush_after_ns) {
                        set_flush_timer(store, oldest->since_ns + store->flush_after_ns);
                        break;
                }
                flush(store, oldest->batch);
        }
        return 0;
}

/* Most batches are answered long before, and cost no flush. */
static void flush_later(SpoolStore *store, Batch *batch) {
        if (!store->unflushed.first)
                set_flush_timer(store, clock_monotonic_ns() + store->flush_after_ns);
        batch->unflushed.batch = batch;
        batch->unflushed.since_ns = clock_monotonic_ns();
        list_append(&store->unflushed, &batch->unflushed);
}

/* ---- from memory to the disk ---- */

static bool has_room(const SpoolStore *store, const Batch *batch) {
        return !spool_worker_is_stuck(store->worker) &&
                spool_worker_waiting_bytes(store->worker) + batch->size <= store->max_backlog_bytes;
}

/* Takes the caller's reference over. Return: false = it stays the caller's. */
static bool put(SpoolStore *store, Batch *batch, unsigned how, bool last) {
        return (has_room(store, batch) || last) && !spool_worker_put(store->worker, batch, how);
}

static bool store_hold(void *self, Batch *batch) {
        SpoolStore *store = self;
        unsigned how = SPOOL_PUT_HELD | (store->mode == SPOOL_STORE_FLUSH ? SPOOL_PUT_FLUSHED : 0);

        if (store->mode == SPOOL_STORE_FAILED || batch->copy != BATCH_UNSTORED)
                return true;
        if (store->worker && put(store, batch_ref(batch), how, false))
                return true;
        batch_free(batch);
        return false;
}

/* From now on the thread alone has the batch. */
static void add_alone(SpoolStore *store, const Batch *batch) {
        store->alone.n_batches++;
        store->alone.n_events += batch->n_events;
        store->alone.bytes += batch->size;
}

static void remove_alone(SpoolStore *store, const Batch *batch) {
        store->alone.n_batches--;
        store->alone.n_events -= batch->n_events;
        store->alone.bytes -= batch->size;
}

/* Return: the file will be free to be given out; on_released() is called then. */
static bool release(SpoolStore *store, Batch *batch) {
        forget_unflushed(store, batch);
        if (spool_worker_release(store->worker, &batch->entry))
                return false;
        store->released_events += batch->n_events;
        return true;
}

static bool store_keep(void *self, Batch *batch, bool last) {
        SpoolStore *store = self;

        if (!store->worker)
                return false;
        switch (batch->copy) {
        case BATCH_UNSTORED:
                if (!put(store, batch, SPOOL_PUT_FLUSHED, last))
                        return false;
                add_alone(store, batch);
                return true;
        case BATCH_STORING:
                add_alone(store, batch);
                break;
        case BATCH_HELD:
                if (!release(store, batch))
                        return false;
                break;
        case BATCH_STORED:
                spool_worker_release(store->worker, &batch->entry);
                break;
        }
        batch_free(batch);
        return true;
}

static void store_remove(void *self, Batch *batch) {
        SpoolStore *store = self;

        atomic_store(&batch->done, true);
        if (!store->worker || !batch_is_on_disk(batch))
                return;
        forget_unflushed(store, batch);
        books_add(store->books, COUNTER_SPOOL_TAKEN, batch->n_events);
        spool_worker_remove(store->worker, &batch->entry);
}

static bool store_bury(void *self, Batch *batch) {
        SpoolStore *store = self;

        if (!store->worker || !has_room(store, batch))
                return false;
        if (!spool_worker_bury(store->worker, batch_ref(batch)))
                return true;
        batch_free(batch);
        return false;
}

static void on_buried(uint64_t n_events, int error, void *userdata) {
        SpoolStore *store = userdata;

        if (!error) {
                books_add(store->books, COUNTER_SPOOL_DEAD, n_events);
                return;
        }
        books_add(store->books, COUNTER_SPOOL_FAILED, 1);
        export_log_not_buried(&store->books->log, error, n_events);
}

static void stored(SpoolStore *store, Batch *batch, bool alone) {
        books_add(store->books, COUNTER_SPOOL_WRITTEN, batch->n_events);
        if (atomic_load(&batch->done))
                store_remove(store, batch);
        else if (alone && batch->copy == BATCH_HELD)
                release(store, batch);
        else if (!alone && !batch->entry.flushed)
                flush_later(store, batch);
        batch_free(batch);
}

static void not_stored(SpoolStore *store, Batch *batch, int error, bool alone) {
        if (error != ECANCELED) {
                books_add(store->books, COUNTER_SPOOL_FAILED, 1);
                export_log_spool(&store->books->log, error, batch->n_events);
        }
        if (alone)
                store->events->returned(batch, store->userdata);
        else
                batch_free(batch);      /* memory has it still, or it is done */
}

static void on_stored(Batch *batch, int error, void *userdata) {
        SpoolStore *store = userdata;
        bool alone = batch->n_refs == 1 && !atomic_load(&batch->done);

        if (alone)
                remove_alone(store, batch);
        if (error)
                not_stored(store, batch, error, alone);
        else
                stored(store, batch, alone);
        store->events->progressed(store->userdata);
}

/* ---- from the disk to memory ---- */

static bool store_fetch(void *self, const SpoolEntry *after) {
        SpoolStore *store = self;

        return store->worker && !spool_worker_next(store->worker, after);
}

static void on_fetched(Batch *batch, void *userdata) {
        SpoolStore *store = userdata;

        store->events->fetched(batch, store->userdata);
}

static void on_released(const SpoolEntry *entry, void *userdata) {
        SpoolStore *store = userdata;

        store->released_events -= entry->n_events;
        store->events->progressed(store->userdata);
}

/* ---- books ---- */

static void on_counts(const SpoolCounts *counts, void *userdata) {
        ExportBooks *books = ((SpoolStore *)userdata)->books;

        books_add(books, COUNTER_LOST_SPOOL_FULL, counts->lost_full);
        books_add(books, COUNTER_LOST_SPOOL_AGE, counts->lost_age);
        books_add(books, COUNTER_LOST_SPOOL_CORRUPT, counts->lost_corrupt);
        books_add(books, COUNTER_LOST_SPOOL_SCHEMA, counts->lost_schema);
        books_add(books, COUNTER_SPOOL_TAKEN,
                  counts->lost_full + counts->lost_age + counts->lost_corrupt + counts->lost_schema);
        books_add(books, COUNTER_SPOOL_CORRUPT, counts->n_files_corrupt);
        if (counts->n_directories)
                export_log_spool_moved(&books->log);
        if (counts->lost_full + counts->lost_age + counts->n_files_corrupt + counts->n_files_gone +
            counts->n_files_schema)
                export_log_spool_lost(&books->log, counts);
}

static BatchStoreLevel store_level(const void *self) {
        const SpoolStore *store = self;
        BatchStoreLevel level = {
                .unsaved_bytes = store->alone.bytes,
                .unsaved_events = store->alone.n_events,
                .released_events = store->released_events,
        };

        if (!store->worker)
                return level;
        level.n_stored = spool_worker_n_files(store->worker);
        level.stored_events = spool_worker_file_events(store->worker);
        level.stored_bytes = spool_worker_file_bytes(store->worker);
        level.max_bytes = spool_worker_max_bytes(store->worker);
        level.is_stuck = spool_worker_is_stuck(store->worker);
        return level;
}

/* ---- its life ---- */

static void store_listen(void *self, const BatchStoreEvents *events, ExportBooks *books, void *userdata) {
        SpoolStore *store = self;

        store->events = events;
        store->books = books;
        store->userdata = userdata;
}

/* The disk does not answer: the thread keeps what is its own, and its batches are lost. */
static void leave(SpoolStore *store) {
        const Alone *alone = &store->alone;

        store->worker = spool_worker_leave(store->worker);
        export_log_spool_left(&store->books->log, alone->n_batches, alone->n_events);
        books_add(store->books, COUNTER_SPOOL_FAILED, alone->n_batches);
        books_add_lost(store->books, COUNTER_LOST_STOP, alone->n_batches, alone->n_events);
        store->alone = (Alone){ 0 };
        store->released_events = 0;
}

/* Several exporters have the same deadline, so one disk under all of them is waited for about once. */
static void store_finish(void *self, uint64_t deadline_ns) {
        SpoolStore *store = self;
        uint64_t now_ns = clock_monotonic_ns();
        uint64_t until_ns = (deadline_ns ? MIN(deadline_ns, now_ns) : now_ns) + store->time_limit_ns;

        until_ns = MAX(until_ns, now_ns + store->time_limit_ns / 8);
        if (store->worker && !spool_worker_finish(store->worker, until_ns))
                leave(store);
}

static void store_free(void *self) {
        SpoolStore *store = self;

        spool_worker_free(store->worker);
        sd_event_source_disable_unref(store->flush_timer);
        free(store);
}

static void store_freep(SpoolStore **storep) {
        if (*storep)
                store_free(*storep);
}

static int new_flush_timer(SpoolStore *store, sd_event *event) {
        int r = sd_event_add_time(event, &store->flush_timer, CLOCK_MONOTONIC, UINT64_MAX, 0, on_flush_time,
                                  store);

        if (r >= 0)
                r = sd_event_source_set_enabled(store->flush_timer, SD_EVENT_OFF);
        if (r < 0)
                return error_origin(r);
        sd_event_source_set_description(store->flush_timer, "spool-flush");
        return 0;
}

int spool_store_new(BatchStore *storep, sd_event *event, const SpoolStoreConfig *config,
                    SpoolProblem *problem) {
        static const BatchStoreOps ops = { store_listen, store_hold,   store_keep,   store_fetch, store_bury,
                                           store_remove, store_finish, store_level, store_free };
        _cleanup_(store_freep) SpoolStore *store = calloc(1, sizeof(*store));
        int r;

        if (!store)
                return error_origin(-ENOMEM);
        store->mode = config->mode;
        store->max_backlog_bytes = config->max_backlog_bytes;
        store->flush_after_ns = config->flush_after_ns;
        store->time_limit_ns = config->time_limit_ns;
        r = new_flush_timer(store, event);
        if (r)
                return error_fold(r);
        r = spool_worker_new(&store->worker, event,
                             &(SpoolWorkerConfig){ .path = config->path,
                                                   .limits = config->limits,
                                                   .gzip = config->gzip,
                                                   .json = config->json,
                                                   .convert = config->convert,
                                                   .on_put = on_stored,
                                                   .on_buried = on_buried,
                                                   .on_next = on_fetched,
                                                   .on_released = on_released,
                                                   .on_counts = on_counts,
                                                   .userdata = store },
                             problem);
        if (r)
                return r < 0 ? error_fold(r) : r;
        *storep = (BatchStore){ &ops, take(store) };
        return 0;
}
