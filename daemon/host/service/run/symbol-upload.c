/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Makes the uploads from the configuration: the server's base URL is that of the receiver without its path,
 * if no other is set.
 */

#include "host/service/run/symbol-upload.h"

#include <errno.h>
#include <string.h>

#include "core/base/util/error.h"
#include "core/base/util/log.h"
#include "core/http/endpoint.h"

#define PROFILES_PATH "/v1development/profiles"

/*
 * The server's base URL: what was asked for, or that of the receiver without the path of profiles. Return: 0
 * with *urlp (owned by the caller), 1 = the receiver's has another path, -ENOMEM.
 */
static int base_url(const Config *config, char **urlp) {
        const char *endpoint = config->names.upload.endpoint;
        const char *url = *endpoint ? endpoint : config->delivery.profiles_url;
        size_t n = strcspn(url, "?#"), n_path = strlen(PROFILES_PATH);

        if (!*config->names.upload.endpoint) {
                if (n <= n_path || memcmp(url + n - n_path, PROFILES_PATH, n_path) != 0)
                        return 1;
                n -= n_path;
        }
        while (n && (url[n - 1] == '/' || (url[n - 1] == ':' && !strncmp(url, "unix:", 5))))
                n--;
        *urlp = strndup(url, n);
        return *urlp ? 0 : error_origin(-ENOMEM);
}

static const char *or_null(const char *text) {
        return *text ? text : NULL;
}

static int make(Uploads **uploadsp, const Config *config, Zygotes *zygotes, const char *url,
                char *const *headers) {
        _cleanup_(text_deinit) Text shown = { 0 };
        UploadsConfig uploads = {
                .uploader = { .server = { .protocol = !strcmp(config->names.upload.protocol, "parca")
                                                  ? UPLOAD_PARCA
                                                  : UPLOAD_PYROSCOPE,
                                          .url = url,
                                          .headers = (const char *const *)headers,
                                          .certificate = or_null(config->delivery.certificate),
                                          .client_certificate = or_null(config->delivery.client_certificate),
                                          .client_key = or_null(config->delivery.client_key),
                                          .timeout_ns = config->delivery.timeout_ns },
                              .state_directory = or_null(config->spool.directory),
                              .day_bytes = config->names.upload.day_bytes,
                              .zygotes = zygotes },
                .patterns = config->names.upload.paths.items,
                .n_patterns = config->names.upload.paths.n_items,
        };
        int r;

        endpoint_append_shown(&shown, url);
        if (shown.failed)
                return error_origin(-ENOMEM);
        uploads.uploader.shown_url = shown.data;
        r = uploads_new(uploadsp, &uploads);
        if (r)
                return r < 0 ? error_fold(r) : SYMBOL_UPLOAD_E_UNUSABLE;
        log_info("symbols of hot files that upload-paths allows are uploaded to %s (%s)", shown.data,
                 config->names.upload.protocol);
        return 0;
}

int symbol_upload_new(Uploads **uploadsp, const Config *config, Zygotes *zygotes) {
        _cleanup_(freep) char *url = NULL;
        char **headers = NULL, why[128];
        int r;

        if (strcmp(config->form.symbols, "upload") != 0)
                return 0;
        if (!zygotes) {
                log_warning("symbols = upload: nothing is uploaded, since there is no process without rights to make files");
                return 0;
        }
        r = base_url(config, &url);
        if (r > 0)
                log_error("symbols = upload: the path of the endpoint is not %s: set upload-endpoint",
                          PROFILES_PATH);
        if (!r)
                r = endpoint_parse_headers(config->delivery.headers, &headers, why, sizeof(why));
        if (!r)
                r = make(uploadsp, config, zygotes, url, headers);
        endpoint_headers_free(headers);
        return r < 0 ? error_fold(r) : r ? SYMBOL_UPLOAD_E_UNUSABLE : 0;
}
