/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Starts a thread that sends one request, and leaves its answer under a lock where the loop collects it. A
 * thread that does not come back in time is left behind with its lane.
 */

#include "host/service/run/pod-api.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "core/base/file/file.h"
#include "core/base/thread/thread.h"
#include "core/base/util/clock.h"
#include "core/base/util/error.h"
#include "core/base/util/log.h"
#include "core/base/util/stat.h"
#include "core/base/util/text.h"
#include "core/http/endpoint.h"
#include "core/http/http.h"

#define TIMEOUT_NS (10 * NS_PER_SEC)
#define LOG_EACH_NS (600 * NS_PER_SEC)

enum { ANSWER_MAX = 32 << 20, TOKEN_MAX = 16 << 10, HEADER_MAX = TOKEN_MAX + 64, STACK_BYTES = 256 << 10 };

/* Result of one request. */
typedef struct Answer {
        bool is_new;                    /* the owner has not collected it yet */
        enum counter outcome;
        Text entries;
        PodListCounts counts;
        char why[192];                  /* reason why it is no list */
} Answer;

/* State that thread and owner share; the thread's, once it is left behind. */
typedef struct Lane {
        pthread_mutex_t mutex;
        pthread_cond_t changed;
        char *url, *token, *certificate;
        char **labels;                  /* globs */
        size_t n_labels;
        bool is_wanted, is_over;
        Answer answer;
} Lane;

struct PodApi {
        Lane *lane;
        Thread *thread;
        LogLimit limit;
};

static void lane_free(void *userdata) {
        Lane *lane = userdata;

        free(lane->url);
        free(lane->token);
        free(lane->certificate);
        for (size_t i = 0; i < lane->n_labels; i++)
                free(lane->labels[i]);
        free(lane->labels);
        text_deinit(&lane->answer.entries);
        pthread_mutex_destroy(&lane->mutex);
        pthread_cond_destroy(&lane->changed);
        free(lane);
}

/* ---- in the thread ---- */

static bool is_over(void *userdata) {
        Lane *lane = userdata;
        bool over;

        pthread_mutex_lock(&lane->mutex);
        over = lane->is_over;
        pthread_mutex_unlock(&lane->mutex);
        return over;
}

static _printf_(3, 4) void fail(Answer *answer, enum counter outcome, const char *format, ...) {
        va_list arguments;

        answer->outcome = outcome;
        va_start(arguments, format);
        vsnprintf(answer->why, sizeof(answer->why), format, arguments);
        va_end(arguments);
}

/*
 * A pipe would hold up this thread for good. Return: whether @header is complete. What ends a line would
 * begin another header.
 */
static bool read_token(const char *path, char header[static HEADER_MAX], Answer *answer) {
        _cleanup_(freep) char *token = NULL;
        size_t size = 0;
        int r = file_read_regular(path, TOKEN_MAX, &token, &size);

        if (r) {
                fail(answer, COUNTER_POD_LISTS_FAILED, "`pods-token`: %.100s: %s", path,
                     r == FILE_E_KIND              ? "not a regular file"
                             : r == FILE_E_TOO_LARGE ? "too large for a token"
                                                     : strerror(r < 0 ? -r : errno));
                return false;
        }
        size = strcspn(token, "\r\n");
        token[size] = 0;
        if (!size) {
                fail(answer, COUNTER_POD_LISTS_FAILED, "`pods-token`: %.100s holds no token", path);
                return false;
        }
        snprintf(header, HEADER_MAX, "Authorization: Bearer %s", token);
        return true;
}

static const char *advice(int status, bool has_token) {
        if (status == 401 || status == 403)
                return has_token ? ": the token may not list pods" : ": it wants a token, set `pods-token`";
        if (status >= 300 && status < 400)
                return ": redirects are not followed, since the token is for this server alone; set `pods-url` to "
                       "where it leads";
        return status == 404 ? ": there is no list at this path" : "";
}

static void judge(const Lane *lane, Answer *answer, const HttpResult *result, int fd) {
        const PodLabels labels = { lane->labels, lane->n_labels };
        size_t size = (size_t)result->n_received;
        char *json;

        if (result->is_too_large)
                return fail(answer, COUNTER_POD_LISTS_TOO_LARGE, "the answer has more than %d MiB", ANSWER_MAX >> 20);
        if (result->reply.fault || result->reply.cut)
                return fail(answer, COUNTER_POD_LISTS_FAILED, "%.150s",
                            *result->reply.error ? result->reply.error : "no whole answer came");
        if (result->reply.status != 200)
                return fail(answer, COUNTER_POD_LISTS_FAILED, "status %d%s", result->reply.status,
                            advice(result->reply.status, *lane->token));
        json = size ? mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0) : MAP_FAILED;
        if (json == MAP_FAILED)
                return fail(answer, COUNTER_POD_LISTS_MALFORMED, "the answer is empty");
        if (pod_list_parse(json, size, &labels, &answer->entries, &answer->counts))
                fail(answer, COUNTER_POD_LISTS_MALFORMED, "the answer is no list of pods in JSON");
        munmap(json, size);
}

static void ask(Lane *lane, Answer *answer) {
        char header[HEADER_MAX] = "";
        const char *const headers[] = { "Accept: application/json", *lane->token ? header : NULL, NULL };
        _cleanup_(closep) int fd = memfd_create("pods", MFD_CLOEXEC);
        HttpCall call = { .method = "GET", .url = lane->url, .headers = headers, .body_fd = -1, .to_fd = fd,
                          .max_bytes = ANSWER_MAX, .timeout_ns = TIMEOUT_NS,
                          .certificate = *lane->certificate ? lane->certificate : NULL,
                          .is_over = is_over, .userdata = lane };
        HttpResult result;

        answer->outcome = COUNTER_POD_LISTS_TAKEN;
        if (fd < 0)
                return fail(answer, COUNTER_POD_LISTS_FAILED, "no memory for the answer: %s", strerror(errno));
        if (*lane->token && !read_token(lane->token, header, answer))
                return;
        http_call(&call, &result);
        judge(lane, answer, &result, fd);
        http_result_deinit(&result);
}

static void run(void *userdata) {
        Lane *lane = userdata;

        pthread_mutex_lock(&lane->mutex);
        while (!lane->is_over) {
                Answer answer = { .is_new = true };

                if (!lane->is_wanted) {
                        pthread_cond_wait(&lane->changed, &lane->mutex);
                        continue;
                }
                pthread_mutex_unlock(&lane->mutex);
                ask(lane, &answer);
                pthread_mutex_lock(&lane->mutex);
                text_deinit(&lane->answer.entries);
                lane->answer = answer;
                lane->is_wanted = false;
        }
        pthread_mutex_unlock(&lane->mutex);
}

/* ---- in the loop ---- */

void pod_api_want(void *userdata) {
        PodApi *api = userdata;

        pthread_mutex_lock(&api->lane->mutex);
        if (!api->lane->answer.is_new) {
                api->lane->is_wanted = true;
                pthread_cond_signal(&api->lane->changed);
        }
        pthread_mutex_unlock(&api->lane->mutex);
}

static void say(PodApi *api, const Answer *answer) {
        _cleanup_(text_deinit) Text shown = { 0 };
        uint64_t n_skipped;

        if (!log_limit(&api->limit, LOG_EACH_NS, &n_skipped))
                return;
        endpoint_append_shown(&shown, api->lane->url);
        log_warning("pods have no names by %s (`pods-url`): %s (%" PRIu64 " more since the last message)",
                    shown.data ? shown.data : "that URL", answer->why, n_skipped);
}

int pod_api_collect(PodApi *api, PodNames *pods) {
        Answer answer = { 0 };
        int r = 0;

        pthread_mutex_lock(&api->lane->mutex);
        if (api->lane->answer.is_new) {
                answer = api->lane->answer;
                api->lane->answer = (Answer){ 0 };
        }
        pthread_mutex_unlock(&api->lane->mutex);
        if (!answer.is_new)
                return 0;
        if (answer.entries.failed)
                r = error_origin(-ENOMEM);
        stat_add(answer.outcome, 1);
        stat_add(COUNTER_POD_NAMES_OVER_CAP, answer.counts.n_over);
        stat_add(COUNTER_POD_LABELS_OVER_CAP, answer.counts.n_labels_over);
        stat_add(COUNTER_POD_LABELS_MALFORMED, answer.counts.n_labels_malformed);
        if (*answer.why)
                say(api, &answer);
        else if (!r)
                r = pod_names_take(pods, answer.entries.data ?: "", answer.entries.size);
        text_deinit(&answer.entries);
        return error_fold(r);
}

/* Return: whether all could be copied. */
static bool copy_labels(Lane *lane, const PodLabels *labels) {
        lane->labels = calloc(labels->n_globs + 1, sizeof(*lane->labels));
        if (!lane->labels)
                return false;
        for (size_t i = 0; i < labels->n_globs; i++) {
                lane->labels[i] = strdup(labels->globs[i]);
                if (!lane->labels[i])
                        return false;
                lane->n_labels++;
        }
        return true;
}

static int lane_new(Lane **lanep, const PodApiConfig *config) {
        Lane *lane = calloc(1, sizeof(*lane));

        if (!lane)
                return error_origin(-ENOMEM);
        pthread_mutex_init(&lane->mutex, NULL);
        pthread_cond_init(&lane->changed, NULL);
        lane->url = strdup(config->url);
        lane->token = strdup(config->token);
        lane->certificate = strdup(config->certificate);
        lane->is_wanted = true;
        if (!lane->url || !lane->token || !lane->certificate || !copy_labels(lane, &config->labels)) {
                lane_free(lane);
                return error_origin(-ENOMEM);
        }
        *lanep = lane;
        return 0;
}

int pod_api_new(PodApi **apip, const PodApiConfig *config) {
        _cleanup_(pod_api_freep) PodApi *api = calloc(1, sizeof(*api));
        ThreadConfig thread = { .name = "pods", .stack_bytes = STACK_BYTES, .run = run, .destroy = lane_free };
        int r;

        if (!api)
                return error_origin(-ENOMEM);
        r = http_prepare(config->url);
        if (r)
                return r < 0 ? error_fold(r) : POD_API_E_UNABLE;
        r = lane_new(&api->lane, config);
        if (r)
                return r;
        thread.userdata = api->lane;
        r = thread_new(&api->thread, &thread);
        if (r < 0)
                return error_fold(r);
        if (r) {
                log_error("pods-url: no thread can be had for it");
                return POD_API_E_UNABLE;
        }
        *apip = take(api);
        return 0;
}

PodApi *pod_api_free(PodApi *api) {
        if (!api)
                return NULL;
        if (api->thread) {
                pthread_mutex_lock(&api->lane->mutex);
                api->lane->is_over = true;
                pthread_cond_signal(&api->lane->changed);
                pthread_mutex_unlock(&api->lane->mutex);
        }
        if (api->lane && (!api->thread || !thread_end(api->thread, clock_monotonic_ns() + NS_PER_SEC)))
                lane_free(api->lane);
        free(api);
        return NULL;
}
