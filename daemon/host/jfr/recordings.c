/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Each process has one chunk open at a time, which is asked for each two seconds:
 *
 *     each second   targets with libjvm ─▶ a chunk among their files? (jfr-find.c)   none: again in 10 s
 *     due           chunk, place ─▶ worker ─▶ events as OTLP (jfr-tail.c) ─▶ checked, window
 *     complete      the next chunk of the process, from its begin
 *
 * A chunk that does not grow any more may have been left behind, as where the daemon was paused, or the JVM
 * never wrote its end. Then the process' files are searched, and looks go on all the same. It is read once
 * more when the next one is found, since it may have grown while it was searched.
 *
 * A process may have more chunks open, as where it has two recordings, or pretends to be a JVM. So it is kept
 * for some that were left up to where they were read, and they are looked at again in turn.
 *
 * A complete chunk stays open until the next is there: so its inode is no other file's meanwhile. A process
 * that ends completes its chunk, and takes the file away; what is open is read to its end all the same.
 *
 * What a worker says becomes a window of its own. Its resource is thrown away and the process' own put there;
 * types of profiles are those that a recording may have; attributes pass the operator's filter.
 */
#include "host/jfr/recordings.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/data/shares.h"
#include "core/base/sandbox/helper.h"
#include "core/base/util/array.h"
#include "core/base/util/clock.h"
#include "core/base/util/error.h"
#include "core/base/util/log.h"
#include "core/base/util/stat.h"
#include "core/jfr/jfr.h"
#include "core/otlp/decode.h"
#include "core/otlp/import.h"
#include "core/profile/merge.h"
#include "core/profile/remap.h"
#include "host/jfr/jfr-find.h"
#include "host/jfr/jfr-tail.h"
#include "host/sampling/aggregate/attributes.h"

#define LOOK_NS (2 * NS_PER_SEC)                /* between two looks at a chunk */
#define SEARCH_NS (10 * NS_PER_SEC)             /* … at a process that records nothing, */
#define YOUNG_NS (30 * NS_PER_SEC)              /* … from its first sight on, when it is so often: */
#define YOUNG_LOOK_NS (NS_PER_SEC / 2)          /* … due each second, and not twice in one */
#define STALE_NS (30 * NS_PER_SEC)              /* without a new byte: there may be another chunk */
#define GAP_NS NS_PER_SEC                       /* between two chunks */
#define AHEAD_NS (300 * NS_PER_SEC)             /* of an event's time before now: a JVM's clock drifts */
#define STEP_NS (5 * NS_PER_MS)

enum {
        _RECORDINGS_E_SUCCESS,
        RECORDINGS_E_OVER_CAP,          /* it has to leave room for others */
};

enum {
        WHERE_MAX = 160,
        POLL_MS = 20,
        MAX_TRIES = 2,
        ABOUT_RESOURCE = 1,             /* the first resource of a window */
};

/* A process with a JVM. */
typedef struct Recorded {
        uint32_t pid;
        uint64_t generation, start_time_ns;
        JfrFile chunk;
        Share *share;                   /* place that its open chunk takes; NULL = none is open */
        uint64_t from;                  /* place in it */
        uint64_t start_ns;              /* when it began, as it has said; 0 = not known */
        JfrLefts lefts;                 /* chunks that were open before */
        bool is_complete;               /* all of it was read */
        bool is_stale;                  /* nothing new: a search is next */
        bool wants_last;                /* the process has another one: a look is next, the last of it */
        bool is_seen, has_ended;        /* in the last pass; it is no target any more */
        bool is_last;                   /* the look was asked for after its end */
        bool was_denied;
        unsigned n_failed;              /* workers in a row that failed at the chunk */
        Window *about;                  /* resource of the process, which it outlives; NULL = none yet */
        uint64_t met_ns;                /* MONOTONIC */
        uint64_t due_ns, grown_ns;      /* MONOTONIC: next look; when the chunk had new bytes last */
        uint64_t end_ns;                /* REALTIME, of the chunk before; 0 = none */
} Recorded;

struct Recordings {
        RecordingsConfig config;
        Helper *helper;
        Recorded *items;
        uint32_t n, room;
        Shares shares;                  /* places of open chunks */
        bool is_asked;
        uint64_t asked;                 /* generation of the process whose chunk a worker has */
        JfrTailRequest request;
        JfrTailSaid said;
        bool has_head;
        uint8_t *data;                  /* bytes of the answer */
        size_t n_data;
        Window *window;                 /* NULL = nothing has come since the last one */
        uint64_t end_ns;                /* end of the window, REALTIME */
        uint64_t step_ns;               /* for searches, until the loop goes on */
        int failure;                    /* failure of a pass over the targets */
};

/* ---- processes ---- */

static Recorded *find(Recordings *recordings, uint64_t generation) {
        for (uint32_t i = 0; i < recordings->n; i++)
                if (recordings->items[i].generation == generation)
                        return &recordings->items[i];
        return NULL;
}

static void close_chunk(Recordings *recordings, Recorded *recorded) {
        if (recorded->chunk.fd < 0)
                return;
        closep(&recorded->chunk.fd);
        recorded->chunk.fd = -1;
        share_release(&recordings->shares, recorded->share, 1);
        recorded->share = NULL;
}

/*
 * Takes a place for a chunk. Once three quarters are taken, a control group with more than are left takes no
 * more. Return: 0, RECORDINGS_E_OVER_CAP, -ENOMEM.
 */
static int take_place(Recordings *recordings, Recorded *recorded) {
        ShareOwner owner = identity_owner_of((pid_t)recorded->pid, recorded->start_time_ns);
        size_t n_left = RECORDINGS_MAX_OPEN - shares_held(&recordings->shares);
        int r = RECORDINGS_E_OVER_CAP;

        if (n_left)
                r = shares_hold(&recordings->shares, &owner, 1, &recorded->share);
        if (!r && n_left <= RECORDINGS_MAX_OPEN / 4 && share_held_by_group(recorded->share) > n_left) {
                share_release(&recordings->shares, recorded->share, 1);
                recorded->share = NULL;
                r = RECORDINGS_E_OVER_CAP;
        }
        if (r == RECORDINGS_E_OVER_CAP) {
                stat_add(COUNTER_RECORDINGS_OVER_CAP, 1);
                shares_tell(&recordings->shares, "recordings of JVMs", &owner, clock_monotonic_ns());
        }
        return r < 0 ? error_fold(r) : r;
}

static bool has_jvm(const Process *process) {
        for (size_t i = 0; i < process->n_mappings; i++) {
                const char *name = strrchr(process->mappings[i].path, '/');

                if (name && !strcmp(name, "/libjvm.so"))
                        return true;
        }
        return false;
}

static void visit(void *userdata, const Process *process, SelectorReason reason) {
        Recordings *recordings = userdata;
        Recorded *recorded = find(recordings, process->generation);

        if (recorded)
                recorded->is_seen = true;
        if (recorded || recordings->failure || !has_jvm(process))
                return;
        recordings->failure = array_reserve(&recordings->items, &recordings->room, recordings->n + 1u, 16);
        if (!recordings->failure)
                recordings->items[recordings->n++] = (Recorded){ .pid = process->pid,
                                                                 .generation = process->generation,
                                                                 .start_time_ns = process->start_time_ns,
                                                                 .chunk = { .fd = -1 },
                                                                 .met_ns = clock_monotonic_ns(),
                                                                 .is_seen = true };
}

/* A process that has ended is due at once, for the last time. */
static int look_for_processes(Recordings *recordings) {
        for (uint32_t i = 0; i < recordings->n; i++)
                recordings->items[i].is_seen = false;
        targets_each(recordings->config.targets, visit, recordings);
        for (uint32_t i = 0; i < recordings->n; i++) {
                Recorded *recorded = &recordings->items[i];

                if (!recorded->is_seen && !recorded->has_ended) {
                        recorded->has_ended = true;
                        recorded->due_ns = 0;
                }
        }
        return error_fold(recordings->failure);
}

/* Counts a look whose worker has failed, where no second one comes any more. */
static void count_unread(Recorded *recorded) {
        stat_add(COUNTER_RECORDINGS_UNREADABLE, recorded->n_failed && !recorded->is_complete);
        recorded->n_failed = 0;
}

static void forget(Recordings *recordings, Recorded *recorded) {
        count_unread(recorded);
        close_chunk(recordings, recorded);
        window_free(recorded->about);
        *recorded = recordings->items[--recordings->n];
}

static void say_denied(Recorded *recorded) {
        if (!recorded->was_denied)
                log_warning("process %" PRIu32 ": its recording is not readable for us; it is left out",
                            recorded->pid);
        recorded->was_denied = true;
}

/* One that was read before goes on where it ended. It is no haste: it had nothing new when it was left. */
static void change_chunk(Recorded *recorded, const JfrFile *file, uint64_t now_ns) {
        JfrLeft left = { recorded->chunk.device, recorded->chunk.inode, recorded->from, recorded->start_ns };
        JfrLeft again = { 0 };
        bool was_left = jfr_lefts_take(&recorded->lefts, file, &again);

        if (recorded->chunk.fd >= 0)
                jfr_lefts_add(&recorded->lefts, &left);
        closep(&recorded->chunk.fd);
        recorded->chunk = *file;
        recorded->from = again.from;
        recorded->start_ns = again.start_ns;
        recorded->n_failed = 0;
        recorded->is_complete = recorded->wants_last = false;
        recorded->grown_ns = now_ns;
        recorded->due_ns = was_left ? now_ns + LOOK_NS : now_ns;
}

/* Opens the next chunk, if there is one. Return: 0, -ENOMEM. */
static int search(Recordings *recordings, Recorded *recorded, uint64_t now_ns) {
        JfrFile file = { .fd = -1 };
        int r = jfr_find((pid_t)recorded->pid, recorded->start_time_ns, &recorded->chunk, &recorded->lefts,
                         &file);

        if (r < 0)
                return error_fold(r);
        if (r == JFR_FIND_E_DENIED)
                say_denied(recorded);
        if (recorded->is_stale) {
                recorded->is_stale = false;
                recorded->wants_last = !r;
                recorded->grown_ns = now_ns - STALE_NS + SEARCH_NS;
                recorded->due_ns = now_ns;
                closep(&file.fd);
                return 0;
        }
        if (r) {
                recorded->due_ns = now_ns +
                        (now_ns - recorded->met_ns < YOUNG_NS ? YOUNG_LOOK_NS : SEARCH_NS);
                return 0;
        }
        r = recorded->share ? 0 : take_place(recordings, recorded);
        if (r) {
                close(file.fd);
                recorded->due_ns = now_ns + SEARCH_NS;
                return MIN(r, 0);
        }
        change_chunk(recorded, &file, now_ns);
        return 0;
}

/* ---- asking ---- */

/* Keeps the resource as it is now: when the last answer comes, nobody may know the process any more. */
static int describe(Recordings *recordings, Recorded *recorded) {
        _cleanup_(window_freep) Window *about = NULL;
        Attributes attributes;
        Program program;
        uint32_t resource;
        int r = targets_program(recordings->config.targets, recorded->pid, recorded->generation, &program);

        if (!r)
                r = window_new(&about, 0, 0, NULL);
        if (r)
                return MIN(r, 0);
        attributes_init(&attributes);
        attributes.filter = *recordings->config.filter;
        r = attributes_of_process(&attributes, about, &program, &resource);
        attributes_deinit(&attributes);
        if (!r) {
                window_free(recorded->about);
                recorded->about = take(about);
        }
        return MIN(r, 0);
}

static void ask(Recordings *recordings, Recorded *recorded) {
        recordings->request = (JfrTailRequest){ .magic = JFR_TAIL_MAGIC, .from = recorded->from,
                                                .start_ns = recordings->config.start_ns };
        recordings->is_asked = true;
        recordings->has_head = false;
        recordings->asked = recorded->generation;
        recorded->is_last = recorded->has_ended;
        helper_ask(recordings->helper, &recordings->request, sizeof(recordings->request), recorded->chunk.fd,
                   jfr_tail_question.timeout_ns);
}

/* The one that has waited longest; NULL = none is due. */
static Recorded *find_due(Recordings *recordings, uint64_t now_ns) {
        Recorded *best = NULL;

        for (uint32_t i = 0; i < recordings->n; i++) {
                Recorded *recorded = &recordings->items[i];

                if (recorded->due_ns <= now_ns && (!best || recorded->due_ns < best->due_ns))
                        best = recorded;
        }
        return best;
}

/*
 * Goes through those that are due until a worker is asked, or a moment is over: the others have their turn
 * with the next second. Return: 0, -ENOMEM.
 */
static int ask_next(Recordings *recordings) {
        uint64_t now_ns = clock_monotonic_ns();
        Recorded *recorded;
        int r = 0;

        while (!recordings->is_asked && !r && (recorded = find_due(recordings, now_ns)) &&
               clock_monotonic_ns() - now_ns < recordings->step_ns) {
                bool wants_next = recorded->chunk.fd < 0 || recorded->is_complete ||
                        (recorded->is_stale && !recorded->has_ended);

                if (wants_next && recorded->has_ended)
                        forget(recordings, recorded);
                else if (wants_next)
                        r = search(recordings, recorded, now_ns);
                else
                        r = describe(recordings, recorded);
                if (!r && !wants_next)
                        ask(recordings, recorded);
        }
        return error_fold(r);
}

/* ---- an answer becomes a window ---- */

typedef struct Cleaning {
        Window *window;
        const AttributeFilter *filter;
} Cleaning;

static int clean_key(void *userdata, WindowSampleKey *key) {
        const Cleaning *cleaning = userdata;
        uint32_t kept[WINDOW_MAX_SET];
        size_t n, n_kept = 0;
        const uint32_t *set = window_get_attribute_set(cleaning->window, key->attributes, &n);

        for (size_t i = 0; i < n; i++) {
                const WindowAttribute *attribute = window_get_attribute(cleaning->window, set[i]);

                if (attribute_filter_allows(cleaning->filter,
                                            window_get_string(cleaning->window, attribute->key, NULL)))
                        kept[n_kept++] = set[i];
        }
        return n_kept == n ? 0 : window_attribute_set(cleaning->window, kept, n_kept, &key->attributes);
}

static bool has_known_types(const Window *window) {
        for (uint32_t i = 0; i < window_n_profiles(window); i++)
                if (!jfr_type_is_without_time(
                            window_get_string(window, window_get_profile(window, i)->names.type, NULL)))
                        return false;
        return true;
}

/* All resources get what is known of the process. Return: 0, WINDOW_E_FULL, -ENOMEM. */
static int set_resource(Window *window, const Window *about) {
        uint32_t known[WINDOW_MAX_SET];
        size_t n;
        const uint32_t *own = window_get_resource(about, ABOUT_RESOURCE, &n);
        Remap remap;
        int r = remap_init(&remap, window, about);

        n = MIN(n, (size_t)WINDOW_MAX_SET);
        if (!r)
                r = remap_attributes(&remap, own, n, known);
        remap_deinit(&remap);
        for (uint32_t i = 1; i < window_n_resources(window) && !r; i++)
                r = window_resource_attributes(window, i, known, n);
        return r;
}

enum { ANSWER_E_BAD = 1000 };           /* the worker's answer is none */

/* Return: 0, ANSWER_E_BAD, WINDOW_E_FULL, -ENOMEM. */
static int import(const Recordings *recordings, const Window *about, Window *window) {
        _cleanup_(otlp_request_freep) OtlpRequest *request = NULL;
        Cleaning cleaning = { window, recordings->config.filter };
        uint64_t start_ns, end_ns;
        char where[WHERE_MAX];
        int r = otlp_decode_request(recordings->data, recordings->said.n_bytes, &request, where,
                                    sizeof(where));

        if (!r)
                r = otlp_import_add(window, request, &start_ns, &end_ns, where, sizeof(where));
        if (r)
                return r < 0 ? error_fold(r) : ANSWER_E_BAD;
        if (!has_known_types(window))
                return ANSWER_E_BAD;
        r = window_change_keys(window, clean_key, &cleaning);
        if (!r)
                r = set_resource(window, about);
        if (r)
                return r;
        /* times are the target's: one of another century would give its profile that length */
        if (start_ns < recordings->config.start_ns || end_ns < start_ns ||
            end_ns > clock_read_ns(CLOCK_REALTIME) + AHEAD_NS)
                return ANSWER_E_BAD;
        window_move_start(window, start_ns);
        return error_fold(window_close(window, end_ns));
}

static int merge(Recordings *recordings, const Window *window) {
        uint64_t n_lost = 0;
        int r = recordings->window ? 0
                                   : window_new(&recordings->window, window_start_ns(window), 0, NULL);

        if (!r)
                r = window_merge(recordings->window, window, &n_lost);
        if (!r && window_start_ns(window) < window_start_ns(recordings->window))
                window_move_start(recordings->window, window_start_ns(window));
        recordings->end_ns = MAX(recordings->end_ns, window_end_ns(window));
        stat_add(COUNTER_RECORDING_SAMPLES_LOST, n_lost);
        stat_add(COUNTER_RECORDING_SAMPLES, window_n_events(window) - MIN(n_lost, window_n_events(window)));
        return error_fold(r);
}

/* Return: 0, ANSWER_E_BAD, -ENOMEM. */
static int take_samples(Recordings *recordings, const Recorded *recorded) {
        _cleanup_(window_freep) Window *window = NULL;
        int r;

        if (!recorded->about) {
                stat_add(COUNTER_RECORDING_SAMPLES_GONE, recordings->said.n_events);
                return 0;
        }
        r = window_new(&window, 0, 0, NULL);
        if (!r)
                r = import(recordings, recorded->about, window);
        if (!r)
                r = merge(recordings, window);
        else if (r == WINDOW_E_FULL)
                stat_add(COUNTER_RECORDING_SAMPLES_LOST, recordings->said.n_events);
        return r == WINDOW_E_FULL ? 0 : r;
}

/* ---- what has come ---- */

/* Whether the file is not the one that it was taken for: then it is read from its begin. */
static bool is_another(const Recorded *recorded, const JfrTailSaid *said) {
        return recorded->start_ns && said->start_ns && recorded->start_ns != said->start_ns;
}

static void plan(Recorded *recorded, const JfrTailSaid *said, uint64_t now_ns) {
        recorded->n_failed = 0;
        if (is_another(recorded, said)) {
                recorded->from = recorded->start_ns = 0;
                recorded->due_ns = now_ns;
                return;
        }
        recorded->start_ns = said->start_ns ?: recorded->start_ns;
        if (said->from > recorded->from)
                recorded->grown_ns = now_ns;
        if (!recorded->from && said->from && recorded->end_ns && said->start_ns > recorded->end_ns &&
            said->start_ns - recorded->end_ns > GAP_NS)
                stat_add(COUNTER_RECORDING_GAPS, 1);
        recorded->from = said->from;
        recorded->is_complete = said->is_complete || recorded->is_last || recorded->wants_last;
        recorded->is_stale = !recorded->is_complete && now_ns - recorded->grown_ns > STALE_NS;
        if (said->is_complete)
                recorded->end_ns = said->end_ns;
        recorded->due_ns = recorded->is_complete || recorded->has_ended ? now_ns : now_ns + LOOK_NS;
}

/* A chunk that cannot be read is not asked for again; @bad: once more, as it may not be its fault. */
static void give_up(Recorded *recorded, bool bad, uint64_t now_ns) {
        recorded->is_complete = !bad || ++recorded->n_failed >= MAX_TRIES;
        recorded->due_ns = now_ns;
}

/* Whether a worker that fails now is not followed by another one. */
static bool is_last_try(const Recorded *recorded) {
        return recorded->n_failed + 1 >= MAX_TRIES;
}

/* Those that are not asked for again. Another file's answer is: it is read from its begin. */
static uint64_t lost_with(const Recordings *recordings, const Recorded *recorded, bool bad) {
        const JfrTailSaid *said = &recordings->said;

        if (bad)
                return recordings->has_head && is_last_try(recorded) ? said->n_events : 0;
        return is_another(recorded, said) ? 0 : said->n_lost;
}

/* A look that is asked for again has lost nothing yet: a busy machine makes workers late. */
static bool is_unreadable(const Recordings *recordings, const Recorded *recorded, bool bad) {
        const uint32_t result = recordings->said.result;

        return bad ? is_last_try(recorded) : result > JFR_TAIL_E_MOVING || result == JFR_TAIL_E_DAMAGED;
}

/* @bad: the worker has failed, or its answer was refused. */
static void end_answer(Recordings *recordings, bool bad) {
        Recorded *recorded = find(recordings, recordings->asked);
        const JfrTailSaid *said = &recordings->said;
        uint64_t now_ns = clock_monotonic_ns();

        stat_add(COUNTER_RECORDING_SAMPLES_LOST, lost_with(recordings, recorded, bad));
        recordings->is_asked = false;
        free(recordings->data);
        recordings->data = NULL;
        stat_add(COUNTER_RECORDINGS_UNREADABLE, is_unreadable(recordings, recorded, bad));
        if (bad || said->result > JFR_TAIL_E_MOVING)
                give_up(recorded, bad, now_ns);
        else
                plan(recorded, said, now_ns);
}

static int take_head(Recordings *recordings) {
        int r = helper_hear(recordings->helper, &jfr_tail_question, &recordings->said);

        if (r)
                return r;
        recordings->has_head = true;
        recordings->n_data = 0;
        recordings->data = malloc(recordings->said.n_bytes + 1u);
        return recordings->data ? 0 : error_origin(-ENOMEM);
}

/* Return: 0 = it is all there, HELPER_E_*, -ENOMEM. */
static int receive(Recordings *recordings) {
        int r = recordings->has_head ? 0 : take_head(recordings);

        while (!r && recordings->n_data < recordings->said.n_bytes) {
                size_t n = 0;

                r = helper_read(recordings->helper, recordings->data + recordings->n_data,
                                recordings->said.n_bytes - recordings->n_data, &n);
                recordings->n_data += n;
        }
        return r;
}

int recordings_step(Recordings *recordings) {
        Recorded *recorded;
        bool is_bad;
        int r;

        if (!recordings->is_asked)
                helper_tend(recordings->helper);
        while (recordings->is_asked) {
                r = receive(recordings);
                if (r == HELPER_E_WAIT)
                        return 0;
                if (r < 0)
                        return error_fold(r);
                is_bad = r;
                recorded = find(recordings, recordings->asked);
                if (!r && recordings->said.n_bytes && !is_another(recorded, &recordings->said))
                        r = take_samples(recordings, recorded);
                if (r < 0)
                        return error_fold(r);
                if (!is_bad && r)
                        helper_refuse(recordings->helper);
                else if (!is_bad)
                        helper_done(recordings->helper, false);
                end_answer(recordings, is_bad || r);
                r = ask_next(recordings);
                if (r)
                        return error_fold(r);
        }
        return 0;
}

int recordings_second(Recordings *recordings) {
        int r = look_for_processes(recordings);

        return r ? error_fold(r) : error_fold(ask_next(recordings));
}

/* ---- the whole ---- */

static int wait_until_idle(Recordings *recordings, uint64_t end_ns) {
        int r = 0;

        while (!r && recordings->is_asked && clock_monotonic_ns() < end_ns) {
                poll(&(struct pollfd){ .fd = recordings_fd(recordings), .events = POLLIN }, 1, POLL_MS);
                r = recordings_step(recordings);
        }
        return error_fold(r);
}

/* A look that is under way began too early: it may lack the end of its chunk. */
int recordings_finish(Recordings *recordings, uint64_t timeout_ns) {
        uint64_t end_ns = clock_monotonic_ns() + timeout_ns;
        int r = wait_until_idle(recordings, end_ns);

        recordings->step_ns = timeout_ns;

        if (!r)
                r = look_for_processes(recordings);
        for (uint32_t i = 0; i < recordings->n; i++)
                if (recordings->items[i].chunk.fd >= 0)
                        recordings->items[i].due_ns = 0;
        if (!r)
                r = ask_next(recordings);
        if (!r)
                r = wait_until_idle(recordings, end_ns);
        for (uint32_t i = 0; i < recordings->n; i++)
                count_unread(&recordings->items[i]);
        return error_fold(r);
}

int recordings_take(Recordings *recordings, Window **windowp) {
        _cleanup_(window_freep) Window *window = take(recordings->window);
        int r;

        *windowp = NULL;
        if (!window)
                return 0;
        r = window_close(window, recordings->end_ns);
        recordings->end_ns = 0;
        if (!r)
                *windowp = take(window);
        return error_fold(r);
}

int recordings_fd(const Recordings *recordings) {
        return helper_fd(recordings->helper);
}

Recordings *recordings_free(Recordings *recordings) {
        if (!recordings)
                return NULL;
        helper_free(recordings->helper);
        while (recordings->n)
                forget(recordings, &recordings->items[0]);
        shares_deinit(&recordings->shares);
        free(recordings->items);
        free(recordings->data);
        window_free(recordings->window);
        free(recordings);
        return NULL;
}

int recordings_new(Recordings **recordingsp, const RecordingsConfig *config) {
        _cleanup_(recordings_freep) Recordings *recordings = calloc(1, sizeof(*recordings));
        int r;

        if (!recordings)
                return error_origin(-ENOMEM);
        recordings->config = *config;
        recordings->step_ns = STEP_NS;
        r = helper_new(&recordings->helper, config->zygotes);
        if (r)
                return error_fold(r);
        *recordingsp = take(recordings);
        return 0;
}
