/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The way of one file. Each step may end it, and what comes first costs least:
 *
 *     loop     push ─▶ settled already (state file)? end
 *     thread   budget of the day used up?                      waits for tomorrow        over_budget
 *              open: a debug file of this host by build id, or the very file that was sampled
 *              worker: reads headers, says build id and size   no symbols? end           nameless
 *              size within the budget?                         waits for tomorrow        over_budget
 *              server: is it wanted?                           no, it has it: end        known
 *              worker: makes the file while it is written to an unnamed file beside the spool
 *              server: takes it                                end                       uploaded
 *
 * A server that does not answer is asked again after 5 s, 10 s … 10 min; nothing else is asked meanwhile. A
 * file that another host is uploading is asked for again after 8 minutes: Pyroscope takes it as given up
 * after 5 to 7. So a fleet uploads each file once, also when a host dies in the midst of it.
 *
 * Each process leaves as much of the queue free as it has there (core/base/data/shares.h), and control
 * groups, users and processes take turns. A file that is tried again goes behind all others of its process.
 *
 * The thread has the lowest priority (nice 19), as the worker has. It may hang in a call for a second; the
 * loop never waits for it, and at the end leaves it behind (core/base/thread/thread.h).
 */
#include "host/naming/uploader.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>

#include "core/base/data/list.h"
#include "core/base/data/shares.h"
#include "core/base/thread/thread.h"
#include "core/base/util/clock.h"
#include "core/base/util/error.h"
#include "core/base/util/log.h"
#include "core/base/util/stat.h"
#include "core/http/http.h"
#include "core/symbol/debug/no-text-wire.h"
#include "core/symbol/function/debug-file.h"
#include "host/naming/upload-state.h"
#include "host/sampling/process/process.h"

#define FIRST_RETRY_NS (5 * NS_PER_SEC)
#define LONGEST_RETRY_NS (600 * NS_PER_SEC)
#define BUSY_RETRY_NS (480 * NS_PER_SEC)
#define BUDGET_RETRY_NS (300 * NS_PER_SEC)      /* the day may have ended */
#define END_NS (200 * NS_PER_MS)

enum {
        NICE = 19,
        STACK_BYTES = 512 << 10,
        MAX_WAITING = 256,
        MAX_NOTES = 4096,               /* bytes of messages that wait for the loop */
        MAX_DOUBLINGS = 7,
};

typedef enum Event {
        EVENT_UPLOADED,
        EVENT_KNOWN,
        EVENT_REFUSED,
        EVENT_UNSUPPORTED,
        EVENT_NAMELESS,
        EVENT_OVER_BUDGET,
        EVENT_FAILED,
        EVENT_GONE,
        EVENT_BUSY,                     /* not counted: the server decides later */
        N_EVENTS,
} Event;

typedef struct Job Job;

struct Job {
        Job *next;
        char *gnu, *path;
        ObjectFile file;
        NamePlaces places;
        bool is_contained;
        bool is_counted_over;           /* as over budget, once */
        uint64_t next_ns;               /* not before that */
        Share *share;                   /* holder of its place */
        uint64_t rank;                  /* the lowest that is due comes first */
};

typedef struct JobList {
        Job *first, *last;
} JobList;

/* Work of the thread, for the loop. */
typedef struct Report {
        uint64_t counts[N_EVENTS];
        uint64_t n_bytes;
        WorkerSessionCounts workers;
        Text notes;                     /* lines for the log */
        char problem[UPLOAD_PROBLEM_MAX];
} Report;

/* State that the thread uses and owns once it is left behind. The mutex guards all below it. */
typedef struct Lane {
        UploadServer server;
        char *texts[5];                 /* copies of the texts that the server's fields point to */
        char **headers;
        char *shown, *debug_directory;
        int directory;                  /* -1 = none */
        uint64_t day_bytes, first_retry_ns;
        Zygotes *zygotes;

        pthread_mutex_t mutex;
        pthread_cond_t changed;
        JobList jobs;
        Shares shares;                  /* holders of these, and of the one at work */
        const Job *current;
        UploadState state;
        Report report;
        uint64_t pause_ns;              /* the server is asked nothing before that */
        unsigned n_failed;              /* in a row */
        bool quit;
} Lane;

struct Uploader {
        Lane *lane;
        Thread *thread;
        char problem[UPLOAD_PROBLEM_MAX];       /* last problem that was logged */
};

static uint64_t now_s(void) {
        return (uint64_t)time(NULL);
}

static Job *job_free(Job *job) {
        if (!job)
                return NULL;
        free(job->gnu);
        free(job->path);
        free(job);
        return NULL;
}
DEFINE_CLEANUP(Job, job_free)

static void lane_free(void *userdata) {
        Lane *lane = userdata;
        Job *job;

        while ((job = fifo_pop(&lane->jobs)))
                job_free(job);
        shares_deinit(&lane->shares);
        for (size_t i = 0; i < ARRAY_SIZE(lane->texts); i++)
                free(lane->texts[i]);
        for (char **p = lane->headers; p && *p; p++)
                free(*p);
        free(lane->headers);
        free(lane->shown);
        free(lane->debug_directory);
        closep(&lane->directory);
        zygotes_unref(lane->zygotes);
        upload_state_deinit(&lane->state);
        text_deinit(&lane->report.notes);
        pthread_cond_destroy(&lane->changed);
        pthread_mutex_destroy(&lane->mutex);
        free(lane);
}

/* ---- in the thread ---- */

static bool is_over(void *userdata) {
        Lane *lane = userdata;
        bool quit;

        pthread_mutex_lock(&lane->mutex);
        quit = lane->quit;
        pthread_mutex_unlock(&lane->mutex);
        return quit;
}

static uint64_t budget_left(Lane *lane) {
        uint64_t spent;

        pthread_mutex_lock(&lane->mutex);
        spent = upload_state_spent(&lane->state, now_s());
        pthread_mutex_unlock(&lane->mutex);
        return lane->day_bytes > spent ? lane->day_bytes - spent : 0;
}

/* A job at work. */
typedef struct Work {
        Lane *lane;
        Job *job;
        WorkerSession session;
        WorkerSessionCounts counts;
        uint64_t n_sent, original_size;
        char problem[UPLOAD_PROBLEM_MAX];
} Work;

static int open_place(const Job *job, const NamePlace *place, int *fdp) {
        _cleanup_(closep) int proc_fd = -1;

        if (process_open_living(place->pid, place->start_time_ns, &proc_fd, NULL))
                return 1;
        return object_file_open(&job->file, proc_fd, place->start, place->end, job->path, fdp);
}

/* The very file that was sampled. Return: a descriptor, or -1. */
static int open_own(const Job *job) {
        int fd = -1;

        if (!job->is_contained)
                return object_file_open_here(&job->file, job->path, &fd) ? -1 : fd;
        for (uint32_t i = 0; i < job->places.n; i++)
                if (!open_place(job, &job->places.items[i], &fd))
                        return fd;
        return -1;
}

/* The debug file that a package of this host has put there. Return: a descriptor, or -1. */
static int open_debug(const Work *work) {
        const SymbolObject object = { .path = "", .build_id_gnu = work->job->gnu };
        DebugSearch search = { .object = &object, .directory = work->lane->debug_directory };
        uint64_t size;
        int fd;

        return debug_search_next(&search, &fd, &size) ? -1 : fd;
}

/* Asks a worker what @fd would make. Return: whether there is an answer. */
static bool plan(Work *work, int fd, NoTextAnswer *answer) {
        struct stat st;

        if (fd < 0 || fstat(fd, &st) < 0)
                return false;
        work->original_size = (uint64_t)st.st_size;
        return !no_text_ask(&work->session, NO_TEXT_ASK_FILE, fd, work->original_size, work->job->gnu,
                            answer);
}

/* Return: EVENT_UPLOADED = go on. */
static Event find_file(Work *work, NoTextAnswer *answer) {
        _cleanup_(closep) int debug = open_debug(work), own = -1;

        if (plan(work, debug, answer) && answer->state == NO_TEXT_STATE_MADE)
                return EVENT_UPLOADED;
        worker_session_end(&work->session);
        own = open_own(work->job);
        if (own < 0)
                return EVENT_GONE;
        if (!plan(work, own, answer)) {
                snprintf(work->problem, sizeof(work->problem), "no worker could read %.200s",
                         work->job->path);
                return EVENT_FAILED;
        }
        return answer->state == NO_TEXT_STATE_MADE          ? EVENT_UPLOADED
                : answer->state == NO_TEXT_STATE_OTHER ? EVENT_GONE
                                                       : EVENT_NAMELESS;
}

static Event event_of(UploadVerdict verdict) {
        static const Event events[] = {
                [UPLOAD_WANTED] = EVENT_UPLOADED,   [UPLOAD_DONE] = EVENT_UPLOADED,
                [UPLOAD_KNOWN] = EVENT_KNOWN,       [UPLOAD_BUSY] = EVENT_BUSY,
                [UPLOAD_REFUSED] = EVENT_REFUSED,   [UPLOAD_UNSUPPORTED] = EVENT_UNSUPPORTED,
                [UPLOAD_FAILED] = EVENT_FAILED,
        };

        return events[verdict];
}

static Event conclude(Work *work, const UploadAnswer *answer) {
        Event event = event_of(answer->verdict);

        if (event != EVENT_KNOWN && event != EVENT_UPLOADED)
                snprintf(work->problem, sizeof(work->problem), "%s", answer->problem);
        return event;
}

/* Without a name, so that a death of the daemon leaves nothing behind. Return: a descriptor, or -1. */
static int open_made(const Lane *lane) {
        if (lane->directory >= 0)
                return openat(lane->directory, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
        return memfd_create("spanprof-upload", MFD_CLOEXEC);
}

static Event make_and_send(Work *work, const NoTextAnswer *made, UploadFile *file) {
        _cleanup_(closep) int fd = open_made(work->lane);
        UploadAnswer answer;

        if (fd < 0 || no_text_take(&work->session, made, fd)) {
                snprintf(work->problem, sizeof(work->problem), "%.180s: %s", work->job->path,
                         fd < 0 ? strerror(errno) : "the file could not be made");
                return EVENT_FAILED;
        }
        file->fd = fd;
        file->size = made->size;
        upload_send(&work->lane->server, file, &answer);
        work->n_sent = answer.n_sent;
        return conclude(work, &answer);
}

static Event work_on(Work *work) {
        const char *slash = strrchr(work->job->path, '/');
        UploadFile file = { .gnu = work->job->gnu, .name = slash ? slash + 1 : work->job->path, .fd = -1 };
        NoTextAnswer made;
        UploadAnswer answer;
        Event event;

        if (!budget_left(work->lane))
                return EVENT_OVER_BUDGET;
        event = find_file(work, &made);
        if (event != EVENT_UPLOADED)
                return event;
        if (made.size > budget_left(work->lane))
                return EVENT_OVER_BUDGET;
        upload_ask(&work->lane->server, &file, &answer);
        event = conclude(work, &answer);
        return event == EVENT_UPLOADED ? make_and_send(work, &made, &file) : event;
}

/* ---- in the thread, with the lock held: what comes of it ---- */

static bool is_settled(Event event, UploadOutcome *outcome) {
        static const UploadOutcome outcomes[] = {
                [EVENT_UPLOADED] = UPLOAD_OUTCOME_UPLOADED, [EVENT_KNOWN] = UPLOAD_OUTCOME_KNOWN,
                [EVENT_REFUSED] = UPLOAD_OUTCOME_REFUSED,   [EVENT_UNSUPPORTED] = UPLOAD_OUTCOME_UNSUPPORTED,
                [EVENT_NAMELESS] = UPLOAD_OUTCOME_NAMELESS,
        };

        if (event > EVENT_NAMELESS)
                return false;
        *outcome = outcomes[event];
        return true;
}

static uint64_t backoff(Lane *lane) {
        uint64_t wait_ns = lane->first_retry_ns << MIN(lane->n_failed, (unsigned)MAX_DOUBLINGS);

        lane->n_failed++;
        return MIN(wait_ns, LONGEST_RETRY_NS);
}

/* When it is tried again. */
static void put_off(Lane *lane, Job *job, Event event) {
        uint64_t now_ns = clock_monotonic_ns();

        if (event == EVENT_FAILED)
                job->next_ns = lane->pause_ns = now_ns + backoff(lane);
        else
                job->next_ns = now_ns + (event == EVENT_BUSY ? BUSY_RETRY_NS : BUDGET_RETRY_NS);
}

static void tell(Lane *lane, const Work *work, Event event) {
        Report *report = &lane->report;

        if (event == EVENT_UPLOADED && report->notes.size < MAX_NOTES)
                text_printf(&report->notes,
                            "uploaded symbols of %s (build id %s): %llu bytes of %llu to %s\n",
                            work->job->path, work->job->gnu, (unsigned long long)work->n_sent,
                            (unsigned long long)work->original_size, lane->shown);
        if (event == EVENT_UPLOADED || event == EVENT_KNOWN) {
                lane->n_failed = 0;
                report->problem[0] = 0;
        } else if (*work->problem) {
                memcpy(report->problem, work->problem, sizeof(report->problem));
        }
}

static void count(Lane *lane, const Work *work, Event event) {
        Report *report = &lane->report;
        bool is_again = event == EVENT_OVER_BUDGET && work->job->is_counted_over;

        report->counts[event] += !is_again;
        work->job->is_counted_over |= event == EVENT_OVER_BUDGET;
        report->n_bytes += work->n_sent;
        report->workers.n_started += work->counts.n_started;
        report->workers.n_died += work->counts.n_died;
        report->workers.n_late += work->counts.n_late;
        report->workers.n_malformed += work->counts.n_malformed;
}

/* A lane that is left behind leaves the file to its successor. */
static void save(Lane *lane) {
        int r = lane->directory >= 0 && !lane->quit
                ? upload_state_save(&lane->state, lane->shown, lane->directory)
                : 0;

        if (r)
                snprintf(lane->report.problem, sizeof(lane->report.problem),
                         "the state of uploads cannot be written: %s", strerror(-r));
}

/* Takes the job over. */
static void settle(Lane *lane, const Work *work, Event event) {
        UploadOutcome outcome;
        Job *job = work->job;

        count(lane, work, event);
        tell(lane, work, event);
        shares_note_served(&lane->shares, job->rank);
        if (work->n_sent)
                upload_state_spend(&lane->state, work->n_sent, now_s());
        if (is_settled(event, &outcome))
                upload_state_put(&lane->state, job->gnu, outcome, now_s());
        if (work->n_sent || event <= EVENT_NAMELESS)
                save(lane);
        if (event <= EVENT_NAMELESS || event == EVENT_GONE || lane->quit) {
                share_release(&lane->shares, job->share, 1);
                job_free(job);
                return;
        }
        put_off(lane, job, event);
        job->rank = share_rank(&lane->shares, job->share);
        fifo_push(&lane->jobs, job);
}

/* Of those that are due the first in the line. *next_nsp: when the next one is, if none is now. */
static Job *take_due(Lane *lane, uint64_t *next_nsp) {
        uint64_t now_ns = clock_monotonic_ns();
        JobList rest = { 0 };
        Job *due = NULL, *job;

        *next_nsp = UINT64_MAX;
        while ((job = fifo_pop(&lane->jobs))) {
                uint64_t at_ns = MAX(job->next_ns, lane->pause_ns);

                if (at_ns <= now_ns && (!due || job->rank < due->rank)) {
                        if (due)
                                fifo_push(&rest, due);
                        due = job;
                        continue;
                }
                *next_nsp = MIN(*next_nsp, at_ns);
                fifo_push(&rest, job);
        }
        lane->jobs = rest;
        return due;
}

static void serve(Lane *lane, Job *job) {
        Work work = { .lane = lane, .job = job };
        Event event;

        work.session =
                worker_session_make(lane->zygotes, &no_text_questions[NO_TEXT_ASK_FILE], &work.counts);
        lane->current = job;
        pthread_mutex_unlock(&lane->mutex);
        event = work_on(&work);
        worker_session_end(&work.session);
        pthread_mutex_lock(&lane->mutex);
        lane->current = NULL;
        settle(lane, &work, event);
}

static void run_lane(void *userdata) {
        Lane *lane = userdata;

        pthread_mutex_lock(&lane->mutex);
        while (!lane->quit) {
                uint64_t next_ns;
                Job *job = take_due(lane, &next_ns);

                if (job)
                        serve(lane, job);
                else if (next_ns == UINT64_MAX)
                        pthread_cond_wait(&lane->changed, &lane->mutex);
                else
                        thread_condition_wait(&lane->changed, &lane->mutex, next_ns);
        }
        pthread_mutex_unlock(&lane->mutex);
}

/* ---- in the loop ---- */

static int copy_headers(Lane *lane, const char *const *headers) {
        size_t n = 0;

        while (headers && headers[n])
                n++;
        lane->headers = calloc(n + 1, sizeof(*lane->headers));
        for (size_t i = 0; lane->headers && i < n; i++)
                if (!(lane->headers[i] = strdup(headers[i])))
                        return error_origin(-ENOMEM);
        return lane->headers ? 0 : error_origin(-ENOMEM);
}

static int copy_server(Lane *lane, const UploadServer *server) {
        const char **fields[] = { &lane->server.url, &lane->server.certificate,
                                  &lane->server.client_certificate, &lane->server.client_key };

        lane->server = *server;
        for (size_t i = 0; i < ARRAY_SIZE(fields); i++)
                if (*fields[i] && !(*fields[i] = lane->texts[i] = strdup(*fields[i])))
                        return error_origin(-ENOMEM);
        lane->server.is_over = is_over;
        lane->server.userdata = lane;
        if (copy_headers(lane, server->headers))
                return error_origin(-ENOMEM);
        lane->server.headers = (const char *const *)lane->headers;
        return 0;
}

static int lane_new(Lane **lanep, const UploaderConfig *config) {
        Lane *lane = calloc(1, sizeof(*lane));
        int r;

        if (!lane)
                return error_origin(-ENOMEM);
        pthread_mutex_init(&lane->mutex, NULL);
        thread_condition_init(&lane->changed);
        lane->directory = config->state_directory
                ? open(config->state_directory, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
                : -1;
        lane->day_bytes = config->day_bytes;
        lane->first_retry_ns = config->first_retry_ns ?: FIRST_RETRY_NS;
        lane->zygotes = zygotes_ref(config->zygotes);
        lane->debug_directory = strdup(config->debug_directory ?: "/usr/lib/debug");
        r = asprintf(&lane->shown, "%s %s", config->server.protocol == UPLOAD_PARCA ? "parca" : "pyroscope",
                     config->shown_url) < 0
                ? -ENOMEM
                : upload_state_init(&lane->state);
        if (!r)
                r = copy_server(lane, &config->server);
        if (r || !lane->debug_directory) {
                lane_free(lane);
                return error_origin(-ENOMEM);
        }
        if (lane->directory >= 0)
                upload_state_load(&lane->state, lane->shown, lane->directory);
        *lanep = lane;
        return 0;
}

int uploader_new(Uploader **uploaderp, const UploaderConfig *config) {
        _cleanup_(uploader_freep) Uploader *uploader = calloc(1, sizeof(*uploader));
        ThreadConfig thread = { .name = "uploads", .nice = NICE, .stack_bytes = STACK_BYTES,
                                .run = run_lane, .destroy = lane_free };
        int r;

        if (!uploader)
                return error_origin(-ENOMEM);
        r = http_prepare(config->server.url);
        if (r)
                return r < 0 ? error_fold(r) : UPLOADER_E_UNABLE;
        r = lane_new(&uploader->lane, config);
        if (r)
                return error_fold(r);
        thread.userdata = uploader->lane;
        r = thread_new(&uploader->thread, &thread);
        if (r < 0)
                return error_fold(r);
        if (r) {
                log_error("symbols = upload: no thread can be had for it");
                return UPLOADER_E_UNABLE;
        }
        *uploaderp = take(uploader);
        return 0;
}

Uploader *uploader_free(Uploader *uploader) {
        Lane *lane = uploader ? uploader->lane : NULL;

        if (lane && uploader->thread) {
                pthread_mutex_lock(&lane->mutex);
                lane->quit = true;
                pthread_cond_broadcast(&lane->changed);
                pthread_mutex_unlock(&lane->mutex);
                if (thread_end(uploader->thread, clock_monotonic_ns() + END_NS))
                        lane = NULL;
        }
        if (lane)
                lane_free(lane);
        free(uploader);
        return NULL;
}

static bool is_waiting(const Lane *lane, const char *gnu) {
        if (lane->current && !strcmp(lane->current->gnu, gnu))
                return true;
        for (const Job *job = lane->jobs.first; job; job = job->next)
                if (!strcmp(job->gnu, gnu))
                        return true;
        return false;
}

static int job_new(Job **jobp, const UploadWish *wish) {
        _cleanup_(job_freep) Job *job = calloc(1, sizeof(*job));

        if (!job)
                return error_origin(-ENOMEM);
        job->gnu = strdup(wish->gnu);
        job->path = strdup(wish->path);
        if (!job->gnu || !job->path)
                return error_origin(-ENOMEM);
        job->file = wish->file;
        job->places = wish->places;
        job->is_contained = wish->is_contained;
        *jobp = take(job);
        return 0;
}

/* With the lock held. */
static int push(Lane *lane, const UploadWish *wish) {
        Job *job = NULL;
        int r;

        if (is_waiting(lane, wish->gnu) || upload_state_find(&lane->state, wish->gnu, now_s()))
                return 0;
        if (!shares_leave_room(&lane->shares, &wish->owner, 1, MAX_WAITING))
                return UPLOADER_E_FULL;
        r = job_new(&job, wish);
        if (!r)
                r = shares_hold(&lane->shares, &wish->owner, 1, &job->share);
        if (r) {
                job_free(job);
                return error_fold(r);
        }
        job->rank = share_rank(&lane->shares, job->share);
        fifo_push(&lane->jobs, job);
        pthread_cond_broadcast(&lane->changed);
        return 0;
}

int uploader_push(Uploader *uploader, const UploadWish *wish) {
        int r;

        pthread_mutex_lock(&uploader->lane->mutex);
        r = push(uploader->lane, wish);
        pthread_mutex_unlock(&uploader->lane->mutex);
        return r < 0 ? error_fold(r) : r;
}

static void add_up(const Report *report) {
        static const enum counter counters[] = {
                [EVENT_UPLOADED] = COUNTER_UPLOADS_UPLOADED,
                [EVENT_KNOWN] = COUNTER_UPLOADS_KNOWN,
                [EVENT_REFUSED] = COUNTER_UPLOADS_REFUSED,
                [EVENT_UNSUPPORTED] = COUNTER_UPLOADS_UNSUPPORTED,
                [EVENT_NAMELESS] = COUNTER_UPLOADS_NAMELESS,
                [EVENT_OVER_BUDGET] = COUNTER_UPLOADS_OVER_BUDGET,
                [EVENT_FAILED] = COUNTER_UPLOADS_FAILED,
                [EVENT_GONE] = COUNTER_UPLOADS_GONE,
        };

        for (size_t i = 0; i < ARRAY_SIZE(counters); i++)
                stat_add(counters[i], report->counts[i]);
        stat_add(COUNTER_UPLOAD_BYTES, report->n_bytes);
        worker_session_count(&report->workers);
}

/* Each line is a message; a problem is told when it is another one. */
static void log_report(Uploader *uploader, const Report *report) {
        for (const char *line = report->notes.data, *end; line && *line; line = end + 1) {
                end = strchrnul(line, '\n');
                log_info("%.*s", (int)(end - line), line);
                if (!*end)
                        break;
        }
        if (*report->problem && strcmp(report->problem, uploader->problem))
                log_warning("symbols = upload: %s: %s", uploader->lane->shown, report->problem);
        memcpy(uploader->problem, report->problem, sizeof(uploader->problem));
}

void uploader_collect(Uploader *uploader) {
        Lane *lane = uploader->lane;
        Report report;

        pthread_mutex_lock(&lane->mutex);
        report = lane->report;
        lane->report = (Report){ 0 };
        memcpy(lane->report.problem, report.problem, sizeof(report.problem));
        pthread_mutex_unlock(&lane->mutex);
        add_up(&report);
        log_report(uploader, &report);
        text_deinit(&report.notes);
}

static uint64_t next_try(const Lane *lane, uint64_t now_ns) {
        uint64_t next_ns = UINT64_MAX;

        for (const Job *job = lane->jobs.first; job; job = job->next)
                next_ns = MIN(next_ns, MAX(job->next_ns, lane->pause_ns));
        return next_ns == UINT64_MAX || next_ns <= now_ns ? 0 : next_ns - now_ns;
}

void uploader_state(Uploader *uploader, UploaderState *state) {
        Lane *lane = uploader->lane;

        pthread_mutex_lock(&lane->mutex);
        *state = (UploaderState){ .n_waiting = (uint32_t)shares_held(&lane->shares),
                                  .spent_bytes = upload_state_spent(&lane->state, now_s()),
                                  .day_bytes = lane->day_bytes,
                                  .retry_ns = next_try(lane, clock_monotonic_ns()) };
        memcpy(state->problem, lane->report.problem, sizeof(state->problem));
        pthread_mutex_unlock(&lane->mutex);
}
