/* SPDX-License-Identifier: Apache-2.0 */

/*
 * How libmicrohttpd runs on an sd-event loop
 *
 * It is started without a thread of its own. It keeps all sockets in one epoll descriptor, which is readable
 * when one of them is; then MHD_run() does what can be done and calls on_request(): once with the headers,
 * once for each part of the body, and once at its end. A request whose body is whole is suspended: to judge
 * it may take a second, so requests wait for their turn (turns.h), and one of them is judged each time that
 * the loop comes round. Then it is resumed, and on_request() is called once more and answers.
 *
 * Answers are given at the end, also when the headers have decided: who closes a connection on a sender in
 * mid-sentence resets it, and the sender sees a broken connection, which is worth a retry, where it should
 * have read `too large`, which is not. What is refused is read, but not kept.
 */

#include "core/http/receiver.h"

#include <errno.h>
#include <inttypes.h>
#include <microhttpd.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>

#include "core/base/file/gzip.h"
#include "core/base/util/clock.h"
#include "core/base/util/error.h"
#include "core/base/util/library.h"
#include "core/base/util/log.h"
#include "core/base/util/text.h"
#include "core/http/answer.h"
#include "core/http/connections.h"
#include "core/http/listen.h"
#include "core/http/turns.h"

#define FUNCTIONS(X) \
        X(MHD_add_response_header) X(MHD_create_response_from_buffer) X(MHD_destroy_response) \
        X(MHD_get_connection_info) X(MHD_get_daemon_info) X(MHD_get_timeout) \
        X(MHD_lookup_connection_value) X(MHD_queue_response) X(MHD_resume_connection) X(MHD_run) \
        X(MHD_start_daemon) X(MHD_stop_daemon) X(MHD_suspend_connection)

static struct {
        FUNCTIONS(LIBRARY_POINTER)
} lib;

static Library library = LIBRARY(lib, SONAME_MICROHTTPD, FUNCTIONS, "to answer over HTTP");
LIBRARY_NOTE(SONAME_MICROHTTPD, "http-server", "recommended",
             "receives profiles, and answers questions about the daemon")

#define PATH "/v1development/profiles"

enum {
        SENDING_TIMEOUT_S = 10,         /* to the end of the headers */
        IDLE_TIMEOUT_S = 60,            /* senders keep their connections */
        ASKING_TIMEOUT_S = 5,           /* questions are short */
        RETRY_AFTER_S = 10,
        BODIES_UNDER_WAY = 3,           /* bodies of the largest size that are held together */
        BODIES_OF_ADDRESS = 2,
        /* Honest profiles expand some ten times; a bomb a thousand times. */
        FREE_EXPANSION = 16 << 20,
        MAX_EXPANSION = 64,
        MAX_QUESTION_BYTES = 64 << 10,          /* an alert's body is read, and not looked at */
};

typedef struct Upload Upload;

struct Receiver {
        struct MHD_Daemon *daemon;
        sd_event_source *io, *timer;
        sd_event_source *work;          /* on while a request waits to be judged */
        ReceiverConfig config;
        ReceiverCounts counts;
        Connections *connections;
        Upload *uploads;                /* the newest first */
        Turns *turns;
        uint64_t detached_ns;           /* start of the time that it is not served; 0 = it is */
        char url[96];
};

struct Upload {
        Connection *connection;
        Upload *next, *previous;        /* list of all uploads that are under way */
        uint8_t *data;
        size_t size, room;
        uint64_t n_received;            /* bytes, also those that were not kept */
        bool json, gzip;
        int failed;                     /* status to answer at the end, 0 = none yet */
        const char *why;                /* for that answer */
        /* connection that waits for its turn; NULL = it does not */
        struct MHD_Connection *suspended;
        int judged;                     /* status, 0 = not yet */
        char words[ANSWER_MESSAGE_MAX];                 /* for that answer */
};

static void count(Receiver *receiver, int status) {
        if (status == MHD_HTTP_OK)
                receiver->counts.n_taken++;
        else if (status == MHD_HTTP_BAD_REQUEST)
                receiver->counts.n_malformed++;
        else if (status == MHD_HTTP_SERVICE_UNAVAILABLE)
                receiver->counts.n_busy++;
        else if (status == MHD_HTTP_CONTENT_TOO_LARGE)
                receiver->counts.n_too_large++;
        else if (status == MHD_HTTP_UNAUTHORIZED)
                receiver->counts.n_unauthorized++;
        else
                receiver->counts.n_misplaced++;
}

static Connection *connection_of(struct MHD_Connection *connection) {
        return lib.MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context;
}

static enum MHD_Result queue(struct MHD_Connection *connection, int status, struct MHD_Response *response,
                             size_t size) {
        enum MHD_Result result = lib.MHD_queue_response(connection, (unsigned)status, response);

        connection_begin_answer(connection_of(connection), size, clock_monotonic_ns());
        lib.MHD_destroy_response(response);
        return result;
}

static enum MHD_Result answer(Receiver *receiver, struct MHD_Connection *connection, bool json, int status,
                              const char *message) {
        struct MHD_Response *response;
        char empty[1] = "";
        Text text = { 0 };
        size_t size;

        count(receiver, status);
        if (status != MHD_HTTP_OK && json)
                answer_status_json(&text, status, message);
        else if (status != MHD_HTTP_OK)
                answer_status_protobuf(&text, status, message);
        else if (json)
                text_append(&text, "{}", 2);
        size = text.size;
        response = lib.MHD_create_response_from_buffer(size, text.data ? text.data : empty,
                                                       MHD_RESPMEM_MUST_COPY);
        text_deinit(&text);
        if (!response)
                return MHD_NO;
        lib.MHD_add_response_header(response, "Content-Type",
                                    json ? "application/json" : "application/x-protobuf");
        if (status == MHD_HTTP_UNAUTHORIZED)
                lib.MHD_add_response_header(response, "WWW-Authenticate", "Bearer");
        if (status == MHD_HTTP_METHOD_NOT_ALLOWED)
                lib.MHD_add_response_header(response, "Allow", "POST");
        if (status == MHD_HTTP_SERVICE_UNAVAILABLE) {
                char seconds[16];

                snprintf(seconds, sizeof(seconds), "%d", RETRY_AFTER_S);
                lib.MHD_add_response_header(response, "Retry-After", seconds);
        }
        return queue(connection, status, response, size);
}

static const char *header(struct MHD_Connection *connection, const char *name) {
        const char *value = lib.MHD_lookup_connection_value(connection, MHD_HEADER_KIND, name);

        return value ? value : "";
}

/* The media type alone, without parameters. */
static bool has_type(const char *value, const char *type) {
        size_t n = strlen(type);

        return !strncasecmp(value, type, n) && (!value[n] || strchr("; \t", value[n]));
}

static bool has_path(const Receiver *receiver, const char *path) {
        const char *end = receiver->config.path_end ?: PATH;
        size_t n = strlen(path), tail = strlen(end);

        return n >= tail && !strcmp(path + n - tail, end);
}

static int too_large(Upload *upload) {
        upload->why = "the request is larger than this receiver takes";
        return MHD_HTTP_CONTENT_TOO_LARGE;
}

/* Judges a request by its headers alone. Return: 0, or the status. */
static int judge_headers(Receiver *receiver, struct MHD_Connection *connection, const char *path,
                         const char *method, Upload *upload) {
        const char *type = header(connection, "Content-Type"),
                   *encoding = header(connection, "Content-Encoding");
        uint64_t length;

        upload->json = has_type(type, "application/json");
        upload->gzip = !strcasecmp(encoding, "gzip");
        if (!has_path(receiver, path)) {
                upload->why = receiver->config.path_end ? "nothing is taken at this path"
                                                        : "only profiles are taken here: POST " PATH;
                return MHD_HTTP_NOT_FOUND;
        }
        if (strcmp(method, "POST")) {
                upload->why = "only POST is taken here";
                return MHD_HTTP_METHOD_NOT_ALLOWED;
        }
        if (!upload->json && !has_type(type, "application/x-protobuf")) {
                upload->why = "Content-Type must be application/x-protobuf or application/json";
                return MHD_HTTP_UNSUPPORTED_MEDIA_TYPE;
        }
        if (*encoding && !upload->gzip && strcasecmp(encoding, "identity")) {
                upload->why = "Content-Encoding must be gzip or absent";
                return MHD_HTTP_UNSUPPORTED_MEDIA_TYPE;
        }
        if (*header(connection, "Content-Length") &&
            text_u64(header(connection, "Content-Length"), receiver->config.max_request_bytes, &length))
                return too_large(upload);
        return 0;
}

/* Judges a request by who sends it. Return: 0, or the status. */
static int judge_sender(Receiver *receiver, Upload *upload) {
        const char *address = connection_address(upload->connection);
        static LogLimit limit;
        uint64_t n_skipped;

        if (turns_begin(receiver->turns, address, clock_monotonic_ns()))
                return 0;
        receiver->counts.n_too_many++;
        if (log_limit(&limit, 60 * NS_PER_SEC, &n_skipped))
                log_warning("refused a request from %s: more than %d in %d s (%" PRIu64
                            " more since the last message)",
                            address, TURNS_REQUESTS, TURNS_WINDOW_S, n_skipped);
        upload->why = "this sender sends too many requests";
        return MHD_HTTP_SERVICE_UNAVAILABLE;
}

static int judge_token(Receiver *receiver, struct MHD_Connection *connection, Upload *upload) {
        static LogLimit limit;
        uint64_t n_skipped;

        if (!receiver->config.bearer ||
            bearer_accepts(receiver->config.bearer, header(connection, "Authorization")))
                return 0;
        if (log_limit(&limit, 60 * NS_PER_SEC, &n_skipped))
                log_warning("refused a request from %s: it has no token of ours (%" PRIu64
                            " more since the last message)",
                            connection_address(upload->connection), n_skipped);
        upload->why = "this receiver wants one of its tokens: the header `Authorization: Bearer TOKEN`";
        return MHD_HTTP_UNAUTHORIZED;
}

/* The headers say in which form a refusal is written, too. */
static int judge(Receiver *receiver, struct MHD_Connection *connection, const char *path, const char *method,
                 Upload *upload) {
        int of_headers = judge_headers(receiver, connection, path, method, upload),
            status = judge_sender(receiver, upload);

        if (!status)
                status = judge_token(receiver, connection, upload);
        return status ? status : of_headers;
}

static void forget(Upload *upload) {
        free(take(upload->data));
        upload->size = upload->room = 0;
}

static int no_room(Upload *upload) {
        upload->why = "too many requests at once";
        return MHD_HTTP_SERVICE_UNAVAILABLE;
}

/* Whether all bodies under way, and those of one address, leave room for @more. */
static bool has_room(const Receiver *receiver, const Upload *upload, size_t more) {
        uint64_t max = receiver->config.max_request_bytes, all = more, own = more;
        const char *address = connection_address(upload->connection);

        for (const Upload *other = receiver->uploads; other; other = other->next) {
                all += other->room;
                own += strcmp(connection_address(other->connection), address) ? 0 : other->room;
        }
        return all <= BODIES_UNDER_WAY * max && own <= BODIES_OF_ADDRESS * max;
}

/* Return: 0, or the status that the body has earned. */
static int keep(Receiver *receiver, Upload *upload, const char *data, size_t size) {
        uint64_t max = receiver->config.max_request_bytes;

        if (size > max - upload->size)
                return too_large(upload);
        if (size > upload->room - upload->size) {
                size_t room = MIN(MAX(upload->room * 2, upload->size + size + 4096), MAX(max, (uint64_t)1));
                uint8_t *bigger;

                if (!has_room(receiver, upload, room - upload->room))
                        return no_room(upload);
                bigger = realloc(upload->data, room);
                if (!bigger)
                        return no_room(upload);
                upload->data = bigger;
                upload->room = room;
        }
        memcpy(upload->data + upload->size, data, size);
        upload->size += size;
        return 0;
}

static enum MHD_Result receive_part(Receiver *receiver, Upload *upload, const char *data, size_t *sizep) {
        size_t size = *sizep;

        *sizep = 0;
        upload->n_received += size;
        connection_take(upload->connection, size);
        if (!upload->failed)
                upload->failed = keep(receiver, upload, data, size);
        if (upload->failed)
                forget(upload);
        /* a sender without end gets no answer */
        return upload->n_received > 4 * receiver->config.max_request_bytes ? MHD_NO : MHD_YES;
}

/* Return: status. */
static int overexpanded(Receiver *receiver, const Upload *upload, char *why) {
        static LogLimit limit;
        uint64_t n_skipped;

        snprintf(why, ANSWER_MESSAGE_MAX,
                 "the request expands more than %d times, to more than %d MiB; send it in parts",
                 MAX_EXPANSION, FREE_EXPANSION >> 20);
        receiver->counts.n_overexpanded++;
        if (log_limit(&limit, 60 * NS_PER_SEC, &n_skipped))
                log_warning("refused %zu bytes of gzip from %s: they expand more than %d times (%" PRIu64
                            " more since the last message)",
                            upload->size, connection_address(upload->connection), MAX_EXPANSION, n_skipped);
        return MHD_HTTP_CONTENT_TOO_LARGE;
}

/* Return: 0, or the status. */
static int expand(Receiver *receiver, Upload *upload, uint8_t **expandedp, size_t *sizep, char *why) {
        uint64_t by_ratio = MAX((uint64_t)FREE_EXPANSION, (uint64_t)upload->size * MAX_EXPANSION);
        uint64_t max = receiver->config.max_request_bytes;

        switch (gzip_expand(upload->data, upload->size, MIN(max, by_ratio), expandedp, sizep)) {
        case 0:
                return 0;
        case GZIP_E_MALFORMED:
                snprintf(why, ANSWER_MESSAGE_MAX, "the body is no gzip, or is cut off");
                return MHD_HTTP_BAD_REQUEST;
        case GZIP_E_TOO_LARGE:
                snprintf(why, ANSWER_MESSAGE_MAX, "the expanded request is larger than this receiver takes");
                return max <= by_ratio ? MHD_HTTP_CONTENT_TOO_LARGE : overexpanded(receiver, upload, why);
        default:
                snprintf(why, ANSWER_MESSAGE_MAX, "out of memory");
                return MHD_HTTP_SERVICE_UNAVAILABLE;
        }
}

static int ask_caller(Receiver *receiver, const ReceiverRequest *request, char *why) {
        switch (receiver->config.on_request(request, why, ANSWER_MESSAGE_MAX, receiver->config.userdata)) {
        case RECEIVER_TAKEN:
                return MHD_HTTP_OK;
        case RECEIVER_MALFORMED:
                return MHD_HTTP_BAD_REQUEST;
        case RECEIVER_TOO_LARGE:
                return MHD_HTTP_CONTENT_TOO_LARGE;
        default:
                return MHD_HTTP_SERVICE_UNAVAILABLE;
        }
}

/* The whole body is there. Return: status. */
static int judge_body(Receiver *receiver, Upload *upload, char *why) {
        _cleanup_(freep) uint8_t *expanded = NULL;
        ReceiverRequest request = {
                .data = upload->data, .size = upload->size, .n_sent = upload->size, .json = upload->json,
                .sender = connection_address(upload->connection),
        };

        if (upload->failed) {
                snprintf(why, ANSWER_MESSAGE_MAX, "%s", upload->why);
                return upload->failed;
        }
        if (upload->gzip) {
                int r = expand(receiver, upload, &expanded, &request.size, why);

                if (r)
                        return r;
                request.data = expanded;
        }
        if (!request.data)
                request.data = (const uint8_t *)"";
        return ask_caller(receiver, &request, why);
}

static enum MHD_Result show_page(Receiver *receiver, struct MHD_Connection *connection, const char *method,
                                 const char *path) {
        const ReceiverQuestion question = { method, path, header(connection, "Accept"),
                                            header(connection, "Authorization") };
        const char *type = "text/plain; charset=utf-8";
        struct MHD_Response *response;
        char empty[1] = "";
        Text page = { 0 };
        size_t size;
        int status = receiver->config.on_page(&question, &page, &type, receiver->config.userdata);

        size = page.size;
        response = lib.MHD_create_response_from_buffer(size, page.data ? page.data : empty,
                                                       MHD_RESPMEM_MUST_COPY);
        if (page.failed)
                status = MHD_HTTP_SERVICE_UNAVAILABLE;
        text_deinit(&page);
        if (!response)
                return MHD_NO;
        lib.MHD_add_response_header(response, "Content-Type", type);
        lib.MHD_add_response_header(response, "Cache-Control", "no-store");
        if (status == MHD_HTTP_UNAUTHORIZED)
                lib.MHD_add_response_header(response, "WWW-Authenticate", "Bearer");
        return queue(connection, status, response, size);
}

/* Bytes that come with a question are read, and not kept. */
static enum MHD_Result on_question(Receiver *receiver, struct MHD_Connection *connection, const char *path,
                                   const char *method, Upload *upload, size_t *sizep) {
        if (!*sizep)
                return show_page(receiver, connection, method, path);
        upload->n_received += *sizep;
        *sizep = 0;
        return upload->n_received > MAX_QUESTION_BYTES ? MHD_NO : MHD_YES;
}

/* The headers are there. Return: NULL = out of memory. */
static Upload *begin_upload(Receiver *receiver, struct MHD_Connection *connection) {
        Upload *upload = calloc(1, sizeof(*upload));

        if (!upload)
                return NULL;
        upload->connection = connection_of(connection);
        if (!upload->connection) {      /* the connection is shut already */
                free(upload);
                return NULL;
        }
        upload->next = receiver->uploads;
        if (upload->next)
                upload->next->previous = upload;
        receiver->uploads = upload;
        connection_begin_body(upload->connection, clock_monotonic_ns());
        return upload;
}

static void end_upload(Receiver *receiver, Upload *upload) {
        if (upload->next)
                upload->next->previous = upload->previous;
        *(upload->previous ? &upload->previous->next : &receiver->uploads) = upload->next;
        forget(upload);
        free(upload);
}

/* The whole body is there: it waits for its turn. */
static enum MHD_Result suspend(Receiver *receiver, Upload *upload, struct MHD_Connection *connection) {
        upload->suspended = connection;
        connection_begin_work(upload->connection, clock_monotonic_ns());
        lib.MHD_suspend_connection(connection);
        sd_event_source_set_enabled(receiver->work, SD_EVENT_ON);
        return MHD_YES;
}

static void resume(Upload *upload) {
        if (upload->suspended)
                lib.MHD_resume_connection(take(upload->suspended));
}

/* Finds the upload whose turn is next; of one sender, the request that came first. NULL = none waits. */
static Upload *find_next(const Receiver *receiver) {
        uint64_t least = UINT64_MAX;
        Upload *next = NULL;

        for (Upload *upload = receiver->uploads; upload; upload = upload->next) {
                uint64_t turn;

                if (!upload->suspended)
                        continue;
                turn = turns_of(receiver->turns, connection_address(upload->connection));
                if (turn <= least) {
                        least = turn;
                        next = upload;
                }
        }
        return next;
}

static enum MHD_Result on_request(void *userdata, struct MHD_Connection *connection, const char *path,
                                  const char *method, const char *version, const char *data, size_t *sizep,
                                  void **uploadp) {
        Receiver *receiver = userdata;
        Upload *upload = *uploadp;

        if (!upload) {
                *uploadp = upload = begin_upload(receiver, connection);
                if (!upload)
                        return MHD_NO;
                if (!receiver->config.on_page)
                        upload->failed = judge(receiver, connection, path, method, upload);
                return MHD_YES;
        }
        if (receiver->config.on_page)
                return on_question(receiver, connection, path, method, upload, sizep);
        if (*sizep)
                return receive_part(receiver, upload, data, sizep);
        if (!upload->judged)
                return suspend(receiver, upload, connection);
        return answer(receiver, connection, upload->json, upload->judged, upload->words);
}

static void on_completed(void *userdata, struct MHD_Connection *connection, void **uploadp,
                         enum MHD_RequestTerminationCode code) {
        Upload *upload = take(*uploadp);

        if (!upload)
                return;
        connection_rest(upload->connection, clock_monotonic_ns());
        end_upload(userdata, upload);
}

/* Without memory for it a connection ends at once. */
static void begin_connection(Receiver *receiver, struct MHD_Connection *connection, void **contextp) {
        int fd = lib.MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
        const struct sockaddr *address =
                lib.MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS)->client_addr;

        *contextp = connections_add(receiver->connections, fd, address, clock_monotonic_ns());
        if (!*contextp)
                shutdown(fd, SHUT_RDWR);
}

static void on_connection(void *userdata, struct MHD_Connection *connection, void **contextp,
                          enum MHD_ConnectionNotificationCode code) {
        Receiver *receiver = userdata;

        if (code == MHD_CONNECTION_NOTIFY_STARTED)
                begin_connection(receiver, connection, contextp);
        else if (*contextp)
                connections_remove(receiver->connections, take(*contextp));
}

static _printf_(2, 0) void on_log(void *userdata, const char *format, va_list args) {
        char line[256];

        vsnprintf(line, sizeof(line), format, args);
        log_debug("receiver: %.*s", (int)strcspn(line, "\n"), line);
}

static unsigned n_connections(const Receiver *receiver) {
        const union MHD_DaemonInfo *info = lib.MHD_get_daemon_info(receiver->daemon,
                                                                   MHD_DAEMON_INFO_CURRENT_CONNECTIONS);

        return info ? info->num_connections : 0;
}

/*
 * With as many connections as it may have, or no descriptor for one more, the library takes its listening
 * socket out of the epoll descriptor, and puts it back when it begins to run with fewer: nothing wakes us for
 * that, so it runs once more when some have gone.
 */
static void run_library(Receiver *receiver) {
        unsigned before;

        do {
                before = n_connections(receiver);
                lib.MHD_run(receiver->daemon);
        } while (n_connections(receiver) < before);
}

/* Connections that only wait end by this timer. */
static int run(Receiver *receiver) {
        MHD_UNSIGNED_LONG_LONG timeout_ms;
        uint64_t now_ns, next_ns;

        run_library(receiver);
        now_ns = clock_monotonic_ns();
        next_ns = connections_expire(receiver->connections, now_ns);
        if (lib.MHD_get_timeout(receiver->daemon, &timeout_ms) == MHD_YES)
                next_ns = MIN(next_ns, now_ns + timeout_ms * NS_PER_MS);
        if (next_ns == UINT64_MAX)
                return sd_event_source_set_enabled(receiver->timer, SD_EVENT_OFF);
        sd_event_source_set_time(receiver->timer, next_ns / NS_PER_US);
        return sd_event_source_set_enabled(receiver->timer, SD_EVENT_ONESHOT);
}

static int on_io(sd_event_source *source, int fd, uint32_t revents, void *userdata) {
        return run(userdata);
}

static int on_time(sd_event_source *source, uint64_t usec, void *userdata) {
        return run(userdata);
}

/* Judges one request. */
static int on_work(sd_event_source *source, void *userdata) {
        Receiver *receiver = userdata;
        Upload *upload = find_next(receiver);
        uint64_t begin_ns = clock_monotonic_ns();

        if (!upload)
                return sd_event_source_set_enabled(source, SD_EVENT_OFF);
        upload->judged = judge_body(receiver, upload, upload->words);
        turns_served(receiver->turns, connection_address(upload->connection),
                     clock_monotonic_ns() - begin_ns);
        forget(upload);
        resume(upload);
        return run(receiver);
}

static int start_daemon(Receiver *receiver, int listener) {
        receiver->daemon = lib.MHD_start_daemon(
                MHD_USE_EPOLL | MHD_USE_ERROR_LOG | MHD_ALLOW_SUSPEND_RESUME, 0, NULL, NULL, on_request,
                receiver,
                MHD_OPTION_EXTERNAL_LOGGER, on_log, receiver, MHD_OPTION_LISTEN_SOCKET, listener,
                MHD_OPTION_CONNECTION_LIMIT, (unsigned)(CONNECTIONS_MAX + CONNECTIONS_SPARE),
                MHD_OPTION_NOTIFY_CONNECTION, on_connection, receiver, MHD_OPTION_NOTIFY_COMPLETED,
                on_completed, receiver, MHD_OPTION_END);
        return receiver->daemon ? 0 : error_origin(-ENOMEM);
}

static int attach(Receiver *receiver, sd_event *event) {
        const union MHD_DaemonInfo *info = lib.MHD_get_daemon_info(receiver->daemon,
                                                                   MHD_DAEMON_INFO_EPOLL_FD);
        int r;

        if (!info)
                return error_origin(-EOPNOTSUPP);
        r = sd_event_add_io(event, &receiver->io, info->epoll_fd, EPOLLIN, on_io, receiver);
        if (r < 0)
                return error_origin(r);
        r = sd_event_add_defer(event, &receiver->work, on_work, receiver);
        if (r < 0)
                return error_origin(r);
        r = sd_event_source_set_enabled(receiver->work, SD_EVENT_OFF);
        if (r < 0)
                return error_origin(r);
        r = sd_event_add_time(event, &receiver->timer, CLOCK_MONOTONIC, UINT64_MAX, 1000, on_time, receiver);
        if (r < 0)
                return error_origin(r);
        r = sd_event_source_set_enabled(receiver->timer, SD_EVENT_OFF);
        return r < 0 ? error_origin(r) : 0;
}

static int keep_connections(Receiver *receiver) {
        const ConnectionTimes sending = { SENDING_TIMEOUT_S * NS_PER_SEC, IDLE_TIMEOUT_S * NS_PER_SEC };
        const ConnectionTimes asking = { ASKING_TIMEOUT_S * NS_PER_SEC, ASKING_TIMEOUT_S * NS_PER_SEC };

        receiver->connections = connections_new(receiver->config.on_page ? &asking : &sending);
        receiver->turns = turns_new();
        return receiver->connections && receiver->turns ? 0 : error_origin(-ENOMEM);
}

int receiver_new(Receiver **receiverp, sd_event *event, const ReceiverConfig *config) {
        _cleanup_(receiver_freep) Receiver *receiver = NULL;
        _cleanup_(closep) int listener = -1;
        int r;

        if (library_load(&library))
                return RECEIVER_E_LIBRARY;
        receiver = calloc(1, sizeof(*receiver));
        if (!receiver)
                return error_origin(-ENOMEM);
        receiver->config = *config;
        if (config->path)
                r = listen_open_path(config->path, 0660, &listener);
        else
                r = listen_open(config->address, config->port, &listener);
        if (r)
                return r == LISTEN_E_ADDRESS ? RECEIVER_E_ADDRESS
                        : r == LISTEN_E_PORT ? RECEIVER_E_PORT
                        : r == LISTEN_E_TAKEN ? RECEIVER_E_TAKEN
                                              : RECEIVER_E_PATH;
        if (!config->path)
                listen_url(listener, receiver->url, sizeof(receiver->url));
        /* a server may outlive these */
        receiver->config.path = receiver->config.address = NULL;
        r = keep_connections(receiver);
        if (!r)
                r = start_daemon(receiver, listener);
        if (r)
                return r;
        listener = -1;                  /* the daemon's now */
        r = attach(receiver, event);
        if (r)
                return r;
        *receiverp = take(receiver);
        return 0;
}

void receiver_detach(Receiver *receiver) {
        receiver->io = sd_event_source_disable_unref(receiver->io);
        receiver->timer = sd_event_source_disable_unref(receiver->timer);
        receiver->work = sd_event_source_disable_unref(receiver->work);
        if (!receiver->detached_ns)
                receiver->detached_ns = clock_monotonic_ns();
}

/* Bytes that the library has read and not answered make no descriptor readable: hence the timer. */
int receiver_attach(Receiver *receiver, sd_event *event, ReceiverPage page, void *userdata) {
        int r;

        receiver_detach(receiver);
        receiver->config.on_page = page;
        receiver->config.userdata = userdata;
        connections_postpone(receiver->connections, clock_monotonic_ns() - receiver->detached_ns);
        receiver->detached_ns = 0;
        r = attach(receiver, event);
        if (r)
                return r;
        sd_event_source_set_time(receiver->timer, 0);
        r = sd_event_source_set_enabled(receiver->timer, SD_EVENT_ONESHOT);
        if (r >= 0)
                r = sd_event_source_set_enabled(receiver->work, SD_EVENT_ON);
        return r < 0 ? error_origin(r) : 0;
}

void receiver_answer_now(Receiver *receiver) {
        run_library(receiver);
}

Receiver *receiver_free(Receiver *receiver) {
        if (!receiver)
                return NULL;
        receiver_detach(receiver);
        for (Upload *upload = receiver->uploads; upload; upload = upload->next)
                resume(upload);         /* the library ends no connection that is suspended */
        if (receiver->daemon)
                lib.MHD_stop_daemon(receiver->daemon);
        turns_free(receiver->turns);
        connections_free(receiver->connections);
        free(receiver);
        return NULL;
}

const char *receiver_url(const Receiver *receiver) {
        return receiver->url;
}

const ReceiverCounts *receiver_counts(const Receiver *receiver) {
        return &receiver->counts;
}
