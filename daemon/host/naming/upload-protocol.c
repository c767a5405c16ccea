/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Speaks two protocols of uploads, as a table of calls: asking, sending, finishing. A status is a verdict:
 * taken, known, refused, or to be tried again.
 */

#include "host/naming/upload-protocol.h"

#include <cjson/cJSON.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "core/base/data/json-writer.h"
#include "core/base/util/clock.h"
#include "core/base/util/macro.h"
#include "core/http/http.h"
#include "core/http/response.h"

#define FILE_TIMEOUT_NS (900 * NS_PER_SEC)      /* the servers' own limits are 2 to 15 minutes */
#define IDLE_NS (60 * NS_PER_SEC)

#define PYROSCOPE "/debuginfo.v1alpha1.DebuginfoService/"

static bool is_deferred(int status) {
        return status == 408 || status == 412 || status == 425 || status == 429 || status >= 500;
}

_printf_(3, 4) static void end(UploadAnswer *answer, UploadVerdict verdict, const char *format, ...) {
        char text[UPLOAD_PROBLEM_MAX];
        va_list args;

        answer->verdict = verdict;
        va_start(args, format);
        vsnprintf(text, sizeof(text), format, args);
        va_end(args);
        response_clean(answer->problem, sizeof(answer->problem), text, strlen(text));
}

/* ---- one call ---- */

/* Return: a URL that the caller frees; NULL = no memory. `unix:SOCKET` becomes `unix:SOCKET:PATH`. */
static char *join(const char *url, const char *path) {
        bool is_socket = !strncmp(url, "unix:", 5) && !strchr(url + 5, ':');
        char *joined;

        return asprintf(&joined, "%s%s%s", url, is_socket ? ":" : "", path) < 0 ? NULL : joined;
}

/* Return: whether it is a 200 with all of its body; else @answer says what it is. */
static bool judge(const HttpResult *result, const char *what, UploadAnswer *answer) {
        const HttpReply *reply = &result->reply;

        if (reply->fault)
                end(answer, UPLOAD_FAILED, "%s: %s", what, *reply->error ? reply->error : "no answer");
        else if (reply->status == 200 && reply->cut)
                end(answer, UPLOAD_FAILED, "%s: the answer broke off", what);
        else if (reply->status == 200)
                return true;
        else
                end(answer, is_deferred(reply->status) ? UPLOAD_FAILED : UPLOAD_REFUSED, "%s: status %d: %.120s",
                    what, reply->status, result->body ? result->body : "");
        return false;
}

static HttpCall call_of(const UploadServer *server, const char *method, const char *url) {
        return (HttpCall){ .method = method,
                           .url = url,
                           .headers = server->headers,
                           .body_fd = -1,
                           .to_fd = -1,
                           .timeout_ns = server->timeout_ns,
                           .certificate = server->certificate,
                           .client_certificate = server->client_certificate,
                           .client_key = server->client_key,
                           .is_over = server->is_over,
                           .userdata = server->userdata };
}

/* Posts JSON. Return: the reply's JSON, which the caller deletes; NULL = @answer says why there is none. */
static cJSON *post(const UploadServer *server, const char *path, const Text *body, UploadAnswer *answer) {
        const char *what = strrchr(path, '/') + 1;
        _cleanup_(freep) char *url = join(server->url, path);
        HttpCall call = call_of(server, "POST", url);
        HttpResult result;
        cJSON *json = NULL;

        if (!url || body->failed) {
                end(answer, UPLOAD_FAILED, "%s: no memory", what);
                return NULL;
        }
        call.content_type = "application/json";
        call.body = body->data;
        call.body_size = body->size;
        http_call(&call, &result);
        if (judge(&result, what, answer)) {
                json = cJSON_ParseWithLength(result.body, result.reply.body_size);
                if (!cJSON_IsObject(json)) {
                        cJSON_Delete(json);
                        json = NULL;
                        /* a server that answers every path with a page */
                        end(answer, UPLOAD_REFUSED, "%s: the answer (%s) is no JSON: is this the right server?",
                            what, result.reply.content_type);
                }
        }
        http_result_deinit(&result);
        return json;
}

static void send_file(const UploadServer *server, const HttpCall *how, const UploadFile *file,
                      const char *what, UploadAnswer *answer) {
        HttpCall call = *how;
        HttpResult result;

        call.content_type = "application/octet-stream";
        call.body_fd = file->fd;
        call.body_size = file->size;
        call.timeout_ns = FILE_TIMEOUT_NS;
        call.idle_ns = IDLE_NS;
        http_call(&call, &result);
        answer->n_sent += result.n_sent;
        if (judge(&result, what, answer))
                answer->verdict = UPLOAD_DONE;
        http_result_deinit(&result);
}

/* ---- JSON ---- */

/* A gateway may write the names of fields as in the .proto file, or in camel case. */
static const char *text_in(const cJSON *json, const char *camel, const char *snake) {
        const cJSON *item = cJSON_GetObjectItemCaseSensitive(json, camel);
        const char *text = cJSON_GetStringValue(item ? item
                                                     : cJSON_GetObjectItemCaseSensitive(json, snake));

        return text ? text : "";
}

/* A field that is false is left out. */
static bool is_wanted(const cJSON *json) {
        return cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(json, "shouldInitiateUpload")) ||
                cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(json, "should_initiate_upload"));
}

/* Servers give the reason in words alone (their store.go). */
static void read_decision(const cJSON *json, UploadAnswer *answer) {
        const char *reason = text_in(json, "reason", "reason");

        if (is_wanted(json))
                answer->verdict = UPLOAD_WANTED;
        else if (strcasestr(reason, "in-progress") || strcasestr(reason, "in progress"))
                end(answer, UPLOAD_BUSY, "%s", reason);
        else if (strcasestr(reason, "disabled"))
                end(answer, UPLOAD_REFUSED, "%s", reason);
        else
                end(answer, UPLOAD_KNOWN, "%s", reason);
}

static void begin(JsonWriter *json) {
        json_open(json, NULL, '{');
}

/* ---- Pyroscope ---- */

static void ask_pyroscope(const UploadServer *server, const UploadFile *file, UploadAnswer *answer) {
        _cleanup_(text_deinit) Text body = { 0 };
        JsonWriter json = { .text = &body };
        cJSON *reply;

        begin(&json);
        json_open(&json, "file", '{');
        json_text(&json, "gnuBuildId", file->gnu);
        json_text(&json, "name", file->name);
        json_text(&json, "type", "TYPE_EXECUTABLE_NO_TEXT");
        json_close(&json, '}');
        json_close(&json, '}');
        reply = post(server, PYROSCOPE "ShouldInitiateUpload", &body, answer);
        if (reply)
                read_decision(reply, answer);
        cJSON_Delete(reply);
}

static void finish_pyroscope(const UploadServer *server, const UploadFile *file, UploadAnswer *answer) {
        _cleanup_(text_deinit) Text body = { 0 };
        JsonWriter json = { .text = &body };

        begin(&json);
        json_text(&json, "gnuBuildId", file->gnu);
        json_close(&json, '}');
        cJSON_Delete(post(server, PYROSCOPE "UploadFinished", &body, answer));
}

static void send_pyroscope(const UploadServer *server, const UploadFile *file, UploadAnswer *answer) {
        _cleanup_(freep) char *path = NULL, *url = NULL;
        HttpCall call;

        if (asprintf(&path, PYROSCOPE "Upload/%s", file->gnu) < 0)
                path = NULL;
        url = path ? join(server->url, path) : NULL;
        if (!url) {
                end(answer, UPLOAD_FAILED, "Upload: no memory");
                return;
        }
        call = call_of(server, "POST", url);
        send_file(server, &call, file, "Upload", answer);
        if (answer->verdict == UPLOAD_DONE)
                finish_pyroscope(server, file, answer);
}

/* ---- Parca ---- */

static void put_parca(JsonWriter *json, const UploadFile *file) {
        begin(json);
        json_text(json, "buildId", file->gnu);
        json_text(json, "buildIdType", "BUILD_ID_TYPE_GNU");
        json_text(json, "type", "DEBUGINFO_TYPE_DEBUGINFO_UNSPECIFIED");
}

static void ask_parca(const UploadServer *server, const UploadFile *file, UploadAnswer *answer) {
        _cleanup_(text_deinit) Text body = { 0 };
        JsonWriter json = { .text = &body };
        cJSON *reply;

        put_parca(&json, file);
        json_close(&json, '}');
        reply = post(server, "/api/shouldinitiateupload", &body, answer);
        if (reply)
                read_decision(reply, answer);
        cJSON_Delete(reply);
}

/*
 * Asks for an upload. Parca wants a hash, which it compares with that of an earlier upload that it found to
 * be damaged. The same file makes the same hash.
 */
static cJSON *initiate_parca(const UploadServer *server, const UploadFile *file, UploadAnswer *answer) {
        _cleanup_(text_deinit) Text body = { 0 };
        JsonWriter json = { .text = &body };
        char hash[192];

        snprintf(hash, sizeof(hash), "%.140s-%" PRIu64, file->gnu, file->size);
        put_parca(&json, file);
        json_number(&json, "size", file->size);
        json_text(&json, "hash", hash);
        json_close(&json, '}');
        return post(server, "/api/initiateupload", &body, answer);
}

static void finish_parca(const UploadServer *server, const UploadFile *file, const char *id,
                         UploadAnswer *answer) {
        _cleanup_(text_deinit) Text body = { 0 };
        JsonWriter json = { .text = &body };

        begin(&json);
        json_text(&json, "buildId", file->gnu);
        json_text(&json, "uploadId", id);
        json_text(&json, "type", "DEBUGINFO_TYPE_DEBUGINFO_UNSPECIFIED");
        json_close(&json, '}');
        cJSON_Delete(post(server, "/api/markuploadfinished", &body, answer));
}

/* A server that is asked by TLS may not send the file elsewhere without. */
static bool may_put(const UploadServer *server, const char *url) {
        if (!strncasecmp(url, "https://", 8))
                return true;
        return !strncasecmp(url, "http://", 7) && strncasecmp(server->url, "https://", 8) != 0;
}

/* The URL is signed: it is all that its storage needs, and our headers are for the server alone. */
static void put_parca_file(const UploadServer *server, const UploadFile *file, const cJSON *instructions,
                           UploadAnswer *answer) {
        const char *url = text_in(instructions, "signedUrl", "signed_url"),
                   *strategy = text_in(instructions, "uploadStrategy", "upload_strategy");
        HttpCall call = call_of(server, "PUT", url);

        call.headers = NULL;
        call.client_certificate = call.client_key = NULL;
        if (!*url)
                end(answer, UPLOAD_UNSUPPORTED,
                    "InitiateUpload: the server wants %.60s; only a signed URL is supported",
                    *strategy ? strategy : "no upload");
        else if (!may_put(server, url))
                end(answer, UPLOAD_REFUSED, "InitiateUpload: the signed URL is not https://");
        else
                send_file(server, &call, file, "the signed URL", answer);
}

static void send_parca(const UploadServer *server, const UploadFile *file, UploadAnswer *answer) {
        cJSON *reply = initiate_parca(server, file, answer);
        const cJSON *instructions;

        if (!reply)
                return;
        instructions = cJSON_GetObjectItemCaseSensitive(reply, "uploadInstructions");
        if (!instructions)
                instructions = cJSON_GetObjectItemCaseSensitive(reply, "upload_instructions");
        put_parca_file(server, file, instructions, answer);
        if (answer->verdict == UPLOAD_DONE)
                finish_parca(server, file, text_in(instructions, "uploadId", "upload_id"), answer);
        cJSON_Delete(reply);
}

void upload_ask(const UploadServer *server, const UploadFile *file, UploadAnswer *answer) {
        *answer = (UploadAnswer){ .verdict = UPLOAD_FAILED };
        if (server->protocol == UPLOAD_PARCA)
                ask_parca(server, file, answer);
        else
                ask_pyroscope(server, file, answer);
}

void upload_send(const UploadServer *server, const UploadFile *file, UploadAnswer *answer) {
        *answer = (UploadAnswer){ .verdict = UPLOAD_FAILED };
        if (server->protocol == UPLOAD_PARCA)
                send_parca(server, file, answer);
        else
                send_pyroscope(server, file, answer);
}
