/* SPDX-License-Identifier: Apache-2.0 */

/*
 * How libcurl runs on an sd-event loop
 *
 * A curl "multi" does not poll: it tells us which sockets it waits for
 * (on_socket_wanted) and when it wants to be called anyway (on_timer_wanted). We
 * keep one event source per socket and one timer, and call
 * curl_multi_socket_action() when one fires. After each such call finished
 * transfers lie in a message queue; only there is a request done, outside of all
 * of curl's own callbacks, so that its owner may post the next one at once.
 *
 * Names are resolved by curl's own thread. CURLOPT_QUICK_EXIT keeps a resolver that does
 * not answer from holding up our loop: without it curl joins that thread when the
 * request's time is over.
 */

#include "core/http/http.h"

#define CURL_DISABLE_TYPECHECK          /* macros by the names of functions, which are pointers here */
#include <curl/curl.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>

#include "core/base/file/file.h"
#include "core/base/util/clock.h"
#include "core/base/util/error.h"
#include "core/base/util/library.h"
#include "core/http/response.h"

#define FUNCTIONS(X) \
        X(curl_easy_cleanup) X(curl_easy_getinfo) X(curl_easy_init) X(curl_easy_perform) \
        X(curl_easy_setopt) \
        X(curl_easy_strerror) X(curl_getdate) X(curl_global_init) X(curl_multi_add_handle) \
        X(curl_multi_assign) X(curl_multi_cleanup) \
        X(curl_multi_info_read) X(curl_multi_init) X(curl_multi_remove_handle) X(curl_multi_setopt) \
        X(curl_multi_socket_action) X(curl_slist_append) X(curl_slist_free_all)

static struct {
        FUNCTIONS(LIBRARY_POINTER)
} lib;

static Library library = LIBRARY(lib, SONAME_CURL, FUNCTIONS, "to send over HTTP");
LIBRARY_NOTE(SONAME_CURL, "http", "recommended", "sends profiles over HTTP")

#define USER_AGENT "spanprof/" SPANPROF_VERSION " OTel-OTLP-Exporter-C/" SPANPROF_VERSION

struct Http {
        sd_event *event;
        CURLM *multi;
        CURL *easy;
        struct curl_slist *headers;
        sd_event_source *timer;
        char *url, *socket, *certificate, *client_certificate, *client_key;
        uint64_t timeout_ns;
        bool running;
        TransportDone done;
        void *userdata;

        HttpReply reply;
        uint8_t *body;                  /* HTTP_BODY_MAX bytes, while a request runs */
        char error[CURL_ERROR_SIZE];
};

/*
 * curl_global_init() works once in a process, so the first URL decides whether TLS is set up ahead. An
 * https URL that comes after an http one works too: OpenSSL sets itself up on first use.
 */
static int init_library(const char *url) {
        static bool done;

        if (done)
                return 0;
        if (lib.curl_global_init(strncasecmp(url, "https:", 6) ? CURL_GLOBAL_NOTHING : CURL_GLOBAL_SSL))
                return error_origin(-ENOMEM);
        done = true;
        return 0;
}

static HttpFault tls_or(HttpFault otherwise, const char *error) {
        /*
         * With TLS 1.3 a refused client certificate arrives as an alert at the first read, after a handshake
         * that looked fine; "wrong version" is what a plain HTTP server looks like.
         */
        if (strstr(error, "alert") || strstr(error, "wrong version") || strstr(error, "unexpected message"))
                return HTTP_FAULT_TLS;
        return otherwise;
}

/* @error: curl's words. */
static HttpFault fault_of(CURLcode code, const char *url, const char *error) {
        switch (code) {
        case CURLE_OK:
                return HTTP_FAULT_NONE;
        case CURLE_COULDNT_RESOLVE_HOST:
        case CURLE_COULDNT_RESOLVE_PROXY:
                return HTTP_FAULT_RESOLVE;
        case CURLE_COULDNT_CONNECT:
                return HTTP_FAULT_CONNECT;
        case CURLE_OPERATION_TIMEDOUT:
                return HTTP_FAULT_TIMEOUT;
        case CURLE_UNSUPPORTED_PROTOCOL:        /* "Received HTTP/0.9 when not allowed" */
        case CURLE_WEIRD_SERVER_REPLY:
                return HTTP_FAULT_PROTOCOL;
        /* agreed on by TLS: the connection broke; in the clear: a gRPC server */
        case CURLE_HTTP2:
        case CURLE_HTTP2_STREAM:
                return strncasecmp(url, "https:", 6) ? HTTP_FAULT_PROTOCOL : HTTP_FAULT_CONNECTION;
        case CURLE_PEER_FAILED_VERIFICATION:
        case CURLE_SSL_CACERT_BADFILE:
        case CURLE_SSL_CERTPROBLEM:
        case CURLE_SSL_CIPHER:
        case CURLE_SSL_ISSUER_ERROR:
        case CURLE_SSL_INVALIDCERTSTATUS:
                return HTTP_FAULT_TLS;
        case CURLE_SSL_CONNECT_ERROR:
        case CURLE_RECV_ERROR:
        case CURLE_SEND_ERROR:
                return tls_or(HTTP_FAULT_CONNECTION, error);
        case CURLE_GOT_NOTHING:
        case CURLE_PARTIAL_FILE:
                return HTTP_FAULT_CONNECTION;
        default:
                return HTTP_FAULT_INTERNAL;
        }
}

/*
 * The peer's chain as curl tells it, one list of `Name:value` for each certificate. A connection that is kept
 * has told it with its first request.
 */
static time_t certificate_end_of(CURL *easy) {
        static const char field[] = "Expire date:";
        struct curl_certinfo *chain = NULL;
        time_t first = 0;

        if (lib.curl_easy_getinfo(easy, CURLINFO_CERTINFO, &chain) || !chain)
                return 0;
        for (int i = 0; i < chain->num_of_certs; i++)
                for (const struct curl_slist *at = chain->certinfo[i]; at; at = at->next) {
                        time_t end = strncasecmp(at->data, field, strlen(field))
                                ? -1 : lib.curl_getdate(at->data + strlen(field), NULL);

                        if (end > 0 && (!first || end < first))
                                first = end;
                }
        return first;
}

static void finish(Http *http, CURLcode code) {
        HttpReply reply = http->reply;  /* a copy: the callback may post the next one */
        const char *words = http->error[0] ? http->error : lib.curl_easy_strerror(code);
        uint8_t *body = take(http->body);
        long status = 0;

        lib.curl_multi_remove_handle(http->multi, http->easy);
        http->running = false;
        lib.curl_easy_getinfo(http->easy, CURLINFO_RESPONSE_CODE, &status);
        /* Once the receiver has spoken, how the connection ended does not change its answer. */
        if (status >= 200) {
                reply.status = (int)status;
                reply.cut = code != CURLE_OK;
        } else
                reply.fault = code == CURLE_OK ? HTTP_FAULT_PROTOCOL : fault_of(code, http->url, http->error);
        if (reply.fault)
                response_clean(reply.error, sizeof(reply.error), words, strlen(words));
        reply.body = body;
        reply.certificate_end = certificate_end_of(http->easy);
        http->done(&reply, http->userdata);
        free(body);
}

static void collect(Http *http) {
        CURLMsg *message;
        int n_left;

        while (http->running && (message = lib.curl_multi_info_read(http->multi, &n_left)))
                if (message->msg == CURLMSG_DONE) {
                        finish(http, message->data.result);
                        return;         /* there is one request at a time */
                }
}

static int on_io(sd_event_source *source, int fd, uint32_t revents, void *userdata) {
        Http *http = userdata;
        int action = 0, n_running;

        /* an error or hang-up is found by reading */
        if (revents & (EPOLLIN | EPOLLERR | EPOLLHUP))
                action |= CURL_CSELECT_IN;
        if (revents & EPOLLOUT)
                action |= CURL_CSELECT_OUT;
        lib.curl_multi_socket_action(http->multi, fd, action, &n_running);
        collect(http);
        return 0;
}

static int on_time(sd_event_source *source, uint64_t usec, void *userdata) {
        Http *http = userdata;
        int n_running;

        lib.curl_multi_socket_action(http->multi, CURL_SOCKET_TIMEOUT, 0, &n_running);
        collect(http);
        return 0;
}

static int on_socket_wanted(CURL *easy, curl_socket_t fd, int what, void *userdata, void *assigned) {
        sd_event_source *source = assigned;
        Http *http = userdata;
        uint32_t events = 0;

        if (what == CURL_POLL_REMOVE) {
                sd_event_source_disable_unref(source);
                lib.curl_multi_assign(http->multi, fd, NULL);
                return 0;
        }
        if (what == CURL_POLL_IN || what == CURL_POLL_INOUT)
                events |= EPOLLIN;
        if (what == CURL_POLL_OUT || what == CURL_POLL_INOUT)
                events |= EPOLLOUT;
        if (source)
                return sd_event_source_set_io_events(source, events) < 0 ? -1 : 0;
        if (sd_event_add_io(http->event, &source, fd, events, on_io, http) < 0)
                return -1;
        sd_event_source_set_description(source, "http-socket");
        lib.curl_multi_assign(http->multi, fd, source);
        return 0;
}

static int on_timer_wanted(CURLM *multi, long timeout_ms, void *userdata) {
        Http *http = userdata;

        if (timeout_ms < 0)
                return sd_event_source_set_enabled(http->timer, SD_EVENT_OFF) < 0 ? -1 : 0;
        if (sd_event_source_set_time_relative(http->timer, (uint64_t)timeout_ms * 1000) < 0 ||
            sd_event_source_set_enabled(http->timer, SD_EVENT_ONESHOT) < 0)
                return -1;
        return 0;
}

static size_t on_body(char *data, size_t size, size_t n, void *userdata) {
        HttpReply *reply = &((Http *)userdata)->reply;
        uint8_t *body = ((Http *)userdata)->body;
        size_t taken = MIN(size * n, HTTP_BODY_MAX - reply->body_size);

        memcpy(body + reply->body_size, data, taken);
        reply->body_size += taken;
        return taken;                   /* less than offered ends the transfer */
}

static void header(char *to, const char *line, size_t size, const char *name) {
        size_t n = strlen(name);

        if (size < n || strncasecmp(line, name, n))
                return;
        for (; n < size && (line[n] == ' ' || line[n] == '\t'); n++)
                ;
        response_clean(to, HTTP_TEXT_MAX, line + n, size - n);
}

static size_t take_header(char *line, size_t size, HttpReply *reply) {
        char encoding[HTTP_TEXT_MAX] = "";

        header(reply->content_type, line, size, "Content-Type:");
        header(reply->retry_after, line, size, "Retry-After:");
        header(reply->location, line, size, "Location:");
        header(encoding, line, size, "Content-Encoding:");
        reply->gzip |= !strcasecmp(encoding, "gzip");
        return size;
}

static size_t on_header(char *line, size_t size, size_t n, void *userdata) {
        return take_header(line, size * n, &((Http *)userdata)->reply);
}

static int add_header(Http *http, const char *line) {
        struct curl_slist *list = lib.curl_slist_append(http->headers, line);

        if (!list)
                return error_origin(-ENOMEM);
        http->headers = list;
        return 0;
}

static int make_headers(Http *http, const HttpConfig *config) {
        int r;

        if ((r = add_header(http,
                            config->json ? "Content-Type: application/json"
                                         : "Content-Type: application/x-protobuf")) ||
            (config->gzip && (r = add_header(http, "Content-Encoding: gzip"))) ||
            /* no round trip before a large body: it delays more than a refusal saves */
            (r = add_header(http, "Expect:")))
                return r;
        for (const char *const *p = config->headers; p && *p; p++)
                if ((r = add_header(http, *p)))
                        return r;
        return 0;
}

static int copy(char **top, const char *from) {
        if (!from)
                return 0;
        *top = strdup(from);
        return *top ? 0 : error_origin(-ENOMEM);
}

/* `unix:SOCKET:PATH` is HTTP over a socket of this machine; the host name is for the Host header alone. */
static int copy_url(const char *url, char **urlp, char **socketp) {
        const char *path;

        if (strncmp(url, "unix:", 5))
                return copy(urlp, url);
        url += 5;
        path = strchrnul(url, ':');
        *socketp = strndup(url, (size_t)(path - url));
        if (!*socketp || asprintf(urlp, "http://localhost%s", *path ? path + 1 : "/") < 0)
                return error_origin(-ENOMEM);
        return 0;
}

int http_new(Http **httpp, sd_event *event, const HttpConfig *config) {
        _cleanup_(http_freep) Http *http = NULL;
        int r;

        if (library_load(&library))
                return HTTP_E_LIBRARY;
        http = calloc(1, sizeof(*http));
        if (!http)
                return error_origin(-ENOMEM);
        http->event = sd_event_ref(event);
        http->timeout_ns = config->timeout_ns;
        if ((r = copy_url(config->url, &http->url, &http->socket)) ||
            (r = copy(&http->certificate, config->certificate)) ||
            (r = copy(&http->client_certificate, config->client_certificate)) ||
            (r = copy(&http->client_key, config->client_key)) || (r = make_headers(http, config)))
                return r;
        r = sd_event_add_time(event, &http->timer, CLOCK_MONOTONIC, UINT64_MAX, 1000, on_time, http);
        if (r < 0)
                return error_origin(r);
        sd_event_source_set_enabled(http->timer, SD_EVENT_OFF);
        sd_event_source_set_description(http->timer, "http-timer");
        *httpp = take(http);
        return 0;
}

Http *http_free(Http *http) {
        if (!http)
                return NULL;
        http_cancel(http);
        lib.curl_easy_cleanup(http->easy);
        if (http->multi)
                lib.curl_multi_cleanup(http->multi);
        lib.curl_slist_free_all(http->headers);
        sd_event_source_disable_unref(http->timer);
        sd_event_unref(http->event);
        free(http->url);
        free(http->socket);
        free(http->certificate);
        free(http->client_certificate);
        free(http->client_key);
        free(http);
        return NULL;
}

static CURLcode set_options(Http *http) {
        CURL *easy = http->easy;
        CURLcode failed = CURLE_OK;

#define SET(_option, _value) (failed = failed ? failed : lib.curl_easy_setopt(easy, _option, _value))
        SET(CURLOPT_URL, http->url);
        SET(CURLOPT_POST, 1L);
        SET(CURLOPT_HTTPHEADER, http->headers);
        SET(CURLOPT_USERAGENT, USER_AGENT);
        /* HTTP/2 where TLS agrees on it; in the clear no side can, and HTTP/1.1 is what receivers take. */
        SET(CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_2TLS);
        if (http->socket)
                SET(CURLOPT_UNIX_SOCKET_PATH, http->socket);
        SET(CURLOPT_FOLLOWLOCATION, 0L);
        SET(CURLOPT_NOSIGNAL, 1L);
        SET(CURLOPT_TIMEOUT_MS, (long)MAX(http->timeout_ns / NS_PER_MS, UINT64_C(1)));
        SET(CURLOPT_ERRORBUFFER, http->error);
        SET(CURLOPT_WRITEFUNCTION, on_body);
        SET(CURLOPT_WRITEDATA, http);
        SET(CURLOPT_HEADERFUNCTION, on_header);
        SET(CURLOPT_HEADERDATA, http);
        SET(CURLOPT_CERTINFO, 1L);
        if (http->certificate)
                SET(CURLOPT_CAINFO, http->certificate);
        if (http->client_certificate)
                SET(CURLOPT_SSLCERT, http->client_certificate);
        if (http->client_key)
                SET(CURLOPT_SSLKEY, http->client_key);
#if LIBCURL_VERSION_NUM >= 0x075700
        SET(CURLOPT_QUICK_EXIT, 1L);
#endif
#undef SET
        return failed;
}

static int start_library(Http *http) {
        int r = init_library(http->url);

        if (r)
                return r;
        http->multi = lib.curl_multi_init();
        http->easy = lib.curl_easy_init();
        if (!http->multi || !http->easy || set_options(http))
                return error_origin(-ENOMEM);
        lib.curl_multi_setopt(http->multi, CURLMOPT_SOCKETFUNCTION, on_socket_wanted);
        lib.curl_multi_setopt(http->multi, CURLMOPT_SOCKETDATA, http);
        lib.curl_multi_setopt(http->multi, CURLMOPT_TIMERFUNCTION, on_timer_wanted);
        lib.curl_multi_setopt(http->multi, CURLMOPT_TIMERDATA, http);
        lib.curl_multi_setopt(http->multi, CURLMOPT_MAXCONNECTS, 1L);
        return 0;
}

int http_post(Http *http, const void *data, size_t size, TransportDone done, void *userdata) {
        int r;

        if (http->running)
                return error_origin(-EBUSY);
        if (!http->multi && (r = start_library(http))) {
                lib.curl_easy_cleanup(take(http->easy));
                if (http->multi)
                        lib.curl_multi_cleanup(take(http->multi));
                return r;
        }
        http->reply = (HttpReply){ 0 };
        http->error[0] = 0;
        http->body = malloc(HTTP_BODY_MAX);
        if (!http->body)
                return error_origin(-ENOMEM);
        http->done = done;
        http->userdata = userdata;
        lib.curl_easy_setopt(http->easy, CURLOPT_POSTFIELDS, data);
        lib.curl_easy_setopt(http->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)size);
        if (lib.curl_multi_add_handle(http->multi, http->easy)) {
                free(take(http->body));
                return error_origin(-ENOMEM);
        }
        http->running = true;
        return 0;
}

void http_cancel(Http *http) {
        if (!http->running)
                return;
        http->running = false;
        lib.curl_multi_remove_handle(http->multi, http->easy);
        free(take(http->body));
}

static int transport_send(void *self, const void *data, size_t size, TransportDone done, void *userdata) {
        return http_post(self, data, size, done, userdata);
}

static void transport_cancel(void *self) {
        http_cancel(self);
}

static void transport_free(void *self) {
        http_free(self);
}

Transport http_transport(Http *http) {
        static const TransportOps ops = { transport_send, transport_cancel, transport_free };

        return (Transport){ &ops, http };
}

/* ---- one call, by a thread that waits ---- */

typedef struct Calling {
        const HttpCall *call;
        HttpResult *result;
        CURL *easy;
        struct curl_slist *headers;
        char *url, *socket;
        uint64_t n_read;                /* bytes read of the body that is sent */
        char error[CURL_ERROR_SIZE];
} Calling;

int http_prepare(const char *url) {
        return library_load(&library) ? HTTP_E_LIBRARY : init_library(url);
}

static size_t on_call_read(char *to, size_t size, size_t n, void *userdata) {
        Calling *calling = userdata;
        const HttpCall *call = calling->call;
        size_t wanted = (size_t)MIN((uint64_t)size * n, call->body_size - calling->n_read);
        ssize_t n_read = (ssize_t)wanted;

        if (call->body_fd >= 0)
                n_read = file_pread(call->body_fd, to, wanted, calling->n_read);
        else
                memcpy(to, (const char *)call->body + calling->n_read, wanted);
        if (n_read < 0)
                return CURL_READFUNC_ABORT;
        calling->n_read += (uint64_t)n_read;
        return (size_t)n_read;
}

static long status_of(CURL *easy) {
        long status = 0;

        lib.curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
        return status;
}

/* Replies that are no success are for people, and short. */
static size_t on_call_body(char *data, size_t size, size_t n, void *userdata) {
        Calling *calling = userdata;
        HttpResult *result = calling->result;
        HttpReply *reply = &result->reply;
        size_t taken;

        size *= n;
        result->n_received += size;
        if (calling->call->to_fd >= 0 && status_of(calling->easy) == 200) {
                result->is_too_large = result->n_received > calling->call->max_bytes;
                return result->is_too_large || file_write(calling->call->to_fd, data, size) ? 0 : size;
        }
        taken = MIN(size, HTTP_BODY_MAX - reply->body_size);
        memcpy(result->body + reply->body_size, data, taken);
        reply->body_size += taken;
        return taken;
}

static size_t on_call_header(char *line, size_t size, size_t n, void *userdata) {
        return take_header(line, size * n, &((Calling *)userdata)->result->reply);
}

static int on_call_progress(void *userdata, curl_off_t to_get, curl_off_t got, curl_off_t to_put,
                            curl_off_t put) {
        Calling *calling = userdata;
        const HttpCall *call = calling->call;

        calling->result->is_over = call->is_over && call->is_over(call->userdata);
        return calling->result->is_over;
}

static int add_call_header(Calling *calling, const char *line) {
        struct curl_slist *list = lib.curl_slist_append(calling->headers, line);

        if (!list)
                return error_origin(-ENOMEM);
        calling->headers = list;
        return 0;
}

static int make_call_headers(Calling *calling) {
        _cleanup_(freep) char *type = NULL;
        const char *content_type = calling->call->content_type;
        int r = add_call_header(calling, "Expect:");

        if (!r && content_type)
                r = asprintf(&type, "Content-Type: %s", content_type) < 0 ? error_origin(-ENOMEM)
                                                                          : add_call_header(calling, type);
        for (const char *const *p = calling->call->headers; p && *p && !r; p++)
                r = add_call_header(calling, *p);
        return r;
}

static CURLcode set_call_options(Calling *calling) {
        const HttpCall *call = calling->call;
        CURL *easy = calling->easy;
        CURLcode failed = CURLE_OK;
        bool has_body = call->body || call->body_fd >= 0;

#define SET(_option, _value) (failed = failed ? failed : lib.curl_easy_setopt(easy, _option, _value))
        SET(CURLOPT_URL, calling->url);
        if (has_body) {
                SET(CURLOPT_UPLOAD, 1L);
                SET(CURLOPT_READFUNCTION, on_call_read);
                SET(CURLOPT_READDATA, calling);
                SET(CURLOPT_INFILESIZE_LARGE, (curl_off_t)call->body_size);
        }
        SET(CURLOPT_CUSTOMREQUEST, call->method);
        SET(CURLOPT_HTTPHEADER, calling->headers);
        SET(CURLOPT_USERAGENT, USER_AGENT);
        SET(CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_2TLS);
        if (calling->socket)
                SET(CURLOPT_UNIX_SOCKET_PATH, calling->socket);
        /* CURLOPT_UNRESTRICTED_AUTH stays 0: credentials are for the host that was named */
        SET(CURLOPT_FOLLOWLOCATION, call->max_redirects && !calling->socket ? 1L : 0L);
        SET(CURLOPT_MAXREDIRS, (long)call->max_redirects);
#if LIBCURL_VERSION_NUM >= 0x075500
        SET(CURLOPT_PROTOCOLS_STR, "http,https");
        SET(CURLOPT_REDIR_PROTOCOLS_STR, "http,https");
#else
        SET(CURLOPT_PROTOCOLS, (long)(CURLPROTO_HTTP | CURLPROTO_HTTPS));
        SET(CURLOPT_REDIR_PROTOCOLS, (long)(CURLPROTO_HTTP | CURLPROTO_HTTPS));
#endif
        SET(CURLOPT_NOSIGNAL, 1L);
        SET(CURLOPT_TIMEOUT_MS, (long)MAX(call->timeout_ns / NS_PER_MS, UINT64_C(1)));
        if (call->idle_ns) {
                SET(CURLOPT_LOW_SPEED_LIMIT, 1L);
                SET(CURLOPT_LOW_SPEED_TIME, (long)MAX(call->idle_ns / NS_PER_SEC, UINT64_C(1)));
        }
        SET(CURLOPT_ERRORBUFFER, calling->error);
        SET(CURLOPT_WRITEFUNCTION, on_call_body);
        SET(CURLOPT_WRITEDATA, calling);
        SET(CURLOPT_HEADERFUNCTION, on_call_header);
        SET(CURLOPT_HEADERDATA, calling);
        SET(CURLOPT_NOPROGRESS, 0L);
        SET(CURLOPT_XFERINFOFUNCTION, on_call_progress);
        SET(CURLOPT_XFERINFODATA, calling);
        if (call->certificate)
                SET(CURLOPT_CAINFO, call->certificate);
        if (call->client_certificate)
                SET(CURLOPT_SSLCERT, call->client_certificate);
        if (call->client_key)
                SET(CURLOPT_SSLKEY, call->client_key);
#if LIBCURL_VERSION_NUM >= 0x075700
        SET(CURLOPT_QUICK_EXIT, 1L);
#endif
#undef SET
        return failed;
}

static void take_outcome(Calling *calling, CURLcode code) {
        HttpResult *result = calling->result;
        HttpReply *reply = &result->reply;
        const char *words = calling->error[0] ? calling->error : lib.curl_easy_strerror(code);
        long status = status_of(calling->easy);

        result->n_sent = calling->n_read;
        if (status >= 200 && !result->is_over) {
                reply->status = (int)status;
                reply->cut = code != CURLE_OK;
        } else {
                reply->fault = code == CURLE_OK ? HTTP_FAULT_PROTOCOL
                                                : fault_of(code, calling->url, calling->error);
        }
        if (code != CURLE_OK)
                response_clean(reply->error, sizeof(reply->error), words, strlen(words));
        result->body[reply->body_size] = 0;
        reply->body = (const uint8_t *)result->body;
}

/* Return: 0, -ENOMEM. */
static int perform(Calling *calling) {
        int r = copy_url(calling->call->url, &calling->url, &calling->socket);

        calling->result->body = malloc(HTTP_BODY_MAX + 1);
        calling->easy = lib.curl_easy_init();
        if (!r && (!calling->result->body || !calling->easy))
                r = error_origin(-ENOMEM);
        if (!r)
                r = make_call_headers(calling);
        if (!r && set_call_options(calling))
                r = error_origin(-ENOMEM);
        if (!r)
                take_outcome(calling, lib.curl_easy_perform(calling->easy));
        return r;
}

void http_call(const HttpCall *call, HttpResult *result) {
        Calling calling = { .call = call, .result = result };

        *result = (HttpResult){ 0 };
        if (perform(&calling))
                result->reply.fault = HTTP_FAULT_INTERNAL;
        lib.curl_easy_cleanup(calling.easy);
        lib.curl_slist_free_all(calling.headers);
        free(calling.url);
        free(calling.socket);
}

void http_result_deinit(HttpResult *result) {
        free(result->body);
        *result = (HttpResult){ 0 };
}
