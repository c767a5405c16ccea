/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Runs jobs on the spool in a thread, in their order, and hands their results to the event loop by an
 * eventfd. A disk that hangs is left behind with its thread.
 */

#include "host/delivery/export/spool-worker.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include "core/base/data/list.h"
#include "core/base/file/gzip.h"
#include "core/base/thread/thread.h"
#include "core/base/util/clock.h"
#include "core/base/util/error.h"
#include "host/delivery/spool/dead-letters.h"

#define STUCK_NS (2 * NS_PER_SEC)

typedef enum JobKind { JOB_PUT, JOB_NEXT, JOB_REMOVE, JOB_FLUSH, JOB_RELEASE, JOB_BURY } JobKind;

typedef struct Job Job;

struct Job {
        Job *next;
        JobKind kind;
        Batch *batch;                   /* put, bury: to be stored; next: found */
        /* put: its file, when it is done; next: the one before; else the file */
        SpoolEntry entry;
        unsigned how;                   /* put: SPOOL_PUT_* */
        bool all;                       /* next: from the start */
        int error;
        SpoolCounts counts;             /* after it */
        size_t n_files;
        uint64_t n_events, n_bytes;
};

typedef struct JobList {
        Job *first, *last;
} JobList;

struct SpoolWorker {
        SpoolWorkerConfig config;
        Spool *spool;                   /* the thread's */
        sd_event_source *source;
        int fd;                         /* eventfd: results wait */
        Thread *thread;                 /* NULL = it does not run */

        pthread_mutex_t mutex;
        pthread_cond_t changed;
        JobList jobs, results;          /* under the mutex, as the next three */
        uint64_t busy_since_ns;         /* 0 = it is not */
        bool quit;

        size_t n_files, waiting_bytes;  /* the loop's */
        uint64_t file_events, file_bytes;
};

/* Return: 0, an errno; ECANCELED: the batch had its end before its turn came, and none is to be buried. */
static int put(Spool *spool, Job *job) {
        const Batch *batch = job->batch;
        SpoolHeader header = { .form = batch->json ? SPOOL_JSON : SPOOL_PROTOBUF, .n_events = batch->n_events,
                               .n_profiles = batch->n_profiles };
        _cleanup_(freep) uint8_t *expanded = NULL;
        const uint8_t *data = batch->data;
        uint64_t now_ns = clock_read_ns(CLOCK_REALTIME);
        size_t size = batch->size;
        int r;

        if (atomic_load(&batch->done) && job->kind == JOB_PUT)
                return ECANCELED;
        if (batch->gzip) {
                r = gzip_expand(batch->data, batch->size, SPOOL_MAX_REQUEST, &expanded, &size);
                if (r)
                        return r < 0 ? -r : EFBIG;
                data = expanded;
        }
        if (job->kind == JOB_BURY)
                r = dead_letters_put(spool, &header, data, size, now_ns);
        else
                r = spool_put(spool, &header, data, size, now_ns, job->how, &job->entry);
        return r == SPOOL_E_FAILED ? errno : -r;
}

/* Brings a request into the form that is sent; the configuration may have changed since it was stored. */
static int convert(SpoolWorker *worker, const SpoolHeader *header, uint8_t **requestp, size_t *sizep) {
        const SpoolWorkerConfig *config = &worker->config;
        uint8_t *converted;
        int r;

        if ((header->form == SPOOL_JSON) == config->json)
                return 0;
        r = config->convert(*requestp, *sizep, config->json, &converted, sizep);
        if (r)
                return r;
        free(*requestp);
        *requestp = converted;
        return 0;
}

static Batch *next(SpoolWorker *worker, const SpoolEntry *after) {
        _cleanup_(freep) uint8_t *request = NULL;
        SpoolHeader header;
        SpoolEntry entry;
        size_t size;
        Batch *batch;
        int r;

        while (!spool_next(worker->spool, clock_read_ns(CLOCK_REALTIME), after, &entry, &header, &request)) {
                size = header.request_size;
                r = convert(worker, &header, &request, &size);
                if (r > 0) {            /* whole, but no request */
                        spool_reject(worker->spool, &entry);
                        free(take(request));
                        continue;
                }
                if (r ||
                    batch_new(&batch, &(ExportRequest){ request, size, header.n_events, header.n_profiles },
                              worker->config.gzip, worker->config.json)) {
                        spool_release(worker->spool, &entry);
                        return NULL;
                }
                batch->copy = BATCH_STORED;
                batch->entry = entry;
                return batch;
        }
        return NULL;
}

static void perform(SpoolWorker *worker, Job *job) {
        switch (job->kind) {
        case JOB_PUT:
        case JOB_BURY:
                job->error = put(worker->spool, job);
                break;
        case JOB_NEXT:
                job->batch = next(worker, job->all ? NULL : &job->entry);
                break;
        case JOB_REMOVE:
                spool_remove(worker->spool, &job->entry);
                break;
        case JOB_FLUSH:
                spool_flush(worker->spool, &job->entry);
                break;
        case JOB_RELEASE:
                spool_release(worker->spool, &job->entry);
                break;
        }
        job->counts = spool_take_counts(worker->spool);
        job->n_files = spool_n_free(worker->spool);
        job->n_events = spool_free_events(worker->spool);
        job->n_bytes = spool_bytes(worker->spool);
}

static void clear(JobList *list) {
        Job *job;

        while ((job = fifo_pop(list))) {
                batch_free(job->batch);
                free(job);
        }
}

/* All but the thread. */
static void destroy(void *userdata) {
        SpoolWorker *worker = userdata;

        clear(&worker->jobs);
        clear(&worker->results);
        closep(&worker->fd);
        spool_free(worker->spool);
        pthread_cond_destroy(&worker->changed);
        pthread_mutex_destroy(&worker->mutex);
        free(worker);
}

static void work(void *userdata) {
        SpoolWorker *worker = userdata;
        Job *job;

        pthread_mutex_lock(&worker->mutex);
        for (;;) {
                while (!worker->quit && !worker->jobs.first)
                        pthread_cond_wait(&worker->changed, &worker->mutex);
                if (worker->quit)
                        break;
                job = fifo_pop(&worker->jobs);
                worker->busy_since_ns = clock_monotonic_ns();
                pthread_mutex_unlock(&worker->mutex);
                perform(worker, job);
                pthread_mutex_lock(&worker->mutex);
                worker->busy_since_ns = 0;
                fifo_push(&worker->results, job);
                pthread_cond_broadcast(&worker->changed);
                eventfd_write(worker->fd, 1);
        }
        pthread_mutex_unlock(&worker->mutex);
}

static void deliver_put(SpoolWorker *worker, const Job *job, Batch *batch) {
        worker->waiting_bytes -= batch->size;
        batch->copy = job->error ? BATCH_UNSTORED : job->entry.held ? BATCH_HELD : BATCH_STORED;
        batch->entry = job->entry;
        worker->config.on_put(batch, job->error, worker->config.userdata);
}

static void deliver_bury(SpoolWorker *worker, const Job *job, Batch *batch) {
        worker->waiting_bytes -= batch->size;
        worker->config.on_buried(batch->n_events, job->error, worker->config.userdata);
        batch_free(batch);
}

static void deliver(SpoolWorker *worker, Job *job) {
        Batch *batch = take(job->batch);

        worker->n_files = job->n_files;
        worker->file_events = job->n_events;
        worker->file_bytes = job->n_bytes;
        worker->config.on_counts(&job->counts, worker->config.userdata);
        if (job->kind == JOB_PUT)
                deliver_put(worker, job, batch);
        else if (job->kind == JOB_BURY)
                deliver_bury(worker, job, batch);
        else if (job->kind == JOB_NEXT)
                worker->config.on_next(batch, worker->config.userdata);
        else if (job->kind == JOB_RELEASE && job->entry.held)
                worker->config.on_released(&job->entry, worker->config.userdata);
        free(job);
}

static Job *take_result(SpoolWorker *worker) {
        Job *job;

        pthread_mutex_lock(&worker->mutex);
        job = fifo_pop(&worker->results);
        pthread_mutex_unlock(&worker->mutex);
        return job;
}

static int on_results(sd_event_source *source, int fd, uint32_t revents, void *userdata) {
        SpoolWorker *worker = userdata;
        eventfd_t value;
        Job *job;

        eventfd_read(fd, &value);
        while ((job = take_result(worker)))
                deliver(worker, job);
        return 0;
}

static int start(SpoolWorker *worker) {
        const ThreadConfig config = { .run = work, .destroy = destroy, .userdata = worker };
        int r = thread_new(&worker->thread, &config);

        return r > 0 ? error_origin(-EAGAIN) : error_fold(r);
}

int spool_worker_new(SpoolWorker **workerp, sd_event *event, const SpoolWorkerConfig *config,
                     SpoolProblem *problem) {
        _cleanup_(spool_worker_freep) SpoolWorker *worker = calloc(1, sizeof(*worker));
        int r;

        if (!worker)
                return error_origin(-ENOMEM);
        worker->config = *config;
        worker->config.path = NULL;
        pthread_mutex_init(&worker->mutex, NULL);
        thread_condition_init(&worker->changed);
        worker->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        if (worker->fd < 0)
                return error_origin(-errno);
        r = spool_new(&worker->spool, config->path, &config->limits, false, problem);
        if (r)
                return r;
        worker->n_files = spool_n(worker->spool);
        worker->file_events = spool_events(worker->spool);
        worker->file_bytes = spool_bytes(worker->spool);
        r = sd_event_add_io(event, &worker->source, worker->fd, EPOLLIN, on_results, worker);
        if (r < 0)
                return error_origin(r);
        sd_event_source_set_description(worker->source, "spool");
        r = start(worker);
        if (r)
                return r;
        *workerp = take(worker);
        return 0;
}

static void quit(SpoolWorker *worker) {
        pthread_mutex_lock(&worker->mutex);
        worker->quit = true;
        pthread_cond_broadcast(&worker->changed);
        pthread_mutex_unlock(&worker->mutex);
}

SpoolWorker *spool_worker_free(SpoolWorker *worker) {
        if (!worker)
                return NULL;
        quit(worker);
        thread_join(worker->thread);
        sd_event_source_disable_unref(worker->source);
        destroy(worker);
        return NULL;
}

SpoolWorker *spool_worker_leave(SpoolWorker *worker) {
        sd_event_source_disable_unref(worker->source);
        quit(worker);
        if (thread_end(worker->thread, 0) == 0)
                destroy(worker);        /* the thread does it otherwise */
        return NULL;
}

static int give(SpoolWorker *worker, const Job *what) {
        Job *job = malloc(sizeof(*job));

        if (!job)
                return error_origin(-ENOMEM);
        *job = *what;
        pthread_mutex_lock(&worker->mutex);
        fifo_push(&worker->jobs, job);
        pthread_cond_broadcast(&worker->changed);
        pthread_mutex_unlock(&worker->mutex);
        return 0;
}

int spool_worker_put(SpoolWorker *worker, Batch *batch, unsigned how) {
        size_t size = batch->size;
        int r = give(worker, &(Job){ .kind = JOB_PUT, .batch = batch, .how = how });

        if (r)
                return error_fold(r);
        batch->copy = BATCH_STORING;
        worker->waiting_bytes += size;
        return 0;
}

int spool_worker_bury(SpoolWorker *worker, Batch *batch) {
        size_t size = batch->size;
        int r = give(worker, &(Job){ .kind = JOB_BURY, .batch = batch });

        if (!r)
                worker->waiting_bytes += size;
        return error_fold(r);
}

int spool_worker_flush(SpoolWorker *worker, const SpoolEntry *entry) {
        return give(worker, &(Job){ .kind = JOB_FLUSH, .entry = *entry });
}

int spool_worker_release(SpoolWorker *worker, const SpoolEntry *entry) {
        return give(worker, &(Job){ .kind = JOB_RELEASE, .entry = *entry });
}

int spool_worker_next(SpoolWorker *worker, const SpoolEntry *after) {
        return give(worker,
                    &(Job){ .kind = JOB_NEXT, .entry = after ? *after : (SpoolEntry){ 0 }, .all = !after });
}

int spool_worker_remove(SpoolWorker *worker, const SpoolEntry *entry) {
        return give(worker, &(Job){ .kind = JOB_REMOVE, .entry = *entry });
}

/* Return: all jobs are done. */
static bool wait_until_done(SpoolWorker *worker, uint64_t deadline_ns) {
        bool done;

        pthread_mutex_lock(&worker->mutex);
        while (!(done = !worker->busy_since_ns && !worker->jobs.first))
                if (!thread_condition_wait(&worker->changed, &worker->mutex, deadline_ns))
                        break;
        pthread_mutex_unlock(&worker->mutex);
        return done;
}

bool spool_worker_finish(SpoolWorker *worker, uint64_t deadline_ns) {
        bool done, more;
        Job *job;

        do {                            /* a result may be the cause of another job */
                done = wait_until_done(worker, deadline_ns);
                for (more = false; (job = take_result(worker)); more = true)
                        deliver(worker, job);
        } while (done && more);
        return done;
}

bool spool_worker_is_stuck(SpoolWorker *worker) {
        bool stuck;

        pthread_mutex_lock(&worker->mutex);
        stuck = worker->busy_since_ns && clock_monotonic_ns() - worker->busy_since_ns > STUCK_NS;
        pthread_mutex_unlock(&worker->mutex);
        return stuck;
}

size_t spool_worker_n_files(const SpoolWorker *worker) {
        return worker->n_files;
}

uint64_t spool_worker_file_events(const SpoolWorker *worker) {
        return worker->file_events;
}

uint64_t spool_worker_file_bytes(const SpoolWorker *worker) {
        return worker->file_bytes;
}

uint64_t spool_worker_max_bytes(const SpoolWorker *worker) {
        return worker->config.limits.max_bytes;
}

size_t spool_worker_waiting_bytes(const SpoolWorker *worker) {
        return worker->waiting_bytes;
}
