/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Gives frames names: read on this machine, asked of servers of debug files (`debuginfod`), or left to a server
 * that gets the symbols of hot files (`symbols = upload`). Such a server's base URL is that of the receiver
 * without its path, if no other is set.
 */

#include "host/service/run/stages.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/util/clock.h"
#include "core/base/util/error.h"
#include "core/base/util/log.h"
#include "core/base/util/stat.h"
#include "core/http/endpoint.h"
#include "host/service/config/backend.h"
#include "host/service/run/daemon-loop.h"

#define LAST_NAMES_NS (500 * NS_PER_MS)
#define PROFILES_PATH "/v1development/profiles"

/*
 * Base URL of the server of symbols: what was asked for, or that of the receiver without the path of
 * profiles. Return: 0 with *urlp (owned by the caller), 1 = the receiver's has another path, -ENOMEM.
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

static int open_uploads(Uploads **uploadsp, const Config *config, Zygotes *zygotes, const char *url,
                char *const *headers) {
        _cleanup_(text_deinit) Text shown = { 0 };
        UploadsConfig uploads = {
                .uploader = { .server = { .protocol = !strcmp(backend_uploads(config), "parca")
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
                return r < 0 ? error_fold(r) : DAEMON_E_UNUSABLE;
        log_info("symbols of hot files that upload-paths allows are uploaded to %s (%s)", shown.data,
                 backend_uploads(config));
        return 0;
}

static int make_uploads(Uploads **uploadsp, const Config *config, Zygotes *zygotes) {
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
                r = open_uploads(uploadsp, config, zygotes, url, headers);
        endpoint_headers_free(headers);
        return r < 0 ? error_fold(r) : r ? DAEMON_E_UNUSABLE : 0;
}

static int make_fetcher(DebugFetcher **fetcherp, const Config *config, Zygotes *zygotes) {
        const DebugFetcherConfig fetcher = { .client = { .urls = getenv("DEBUGINFOD_URLS"), .zygotes = zygotes } };
        int r;

        if (!config->names.debuginfod)
                return 0;
        if (!backend_wants_names(config)) {
                log_warning("debuginfod = on does nothing here: it is for symbols = local");
                return 0;
        }
        if (!zygotes) {
                log_warning("debuginfod: no server is asked, since there is no process without rights to read what it sends");
                return 0;
        }
        r = debug_fetcher_new(fetcherp, &fetcher);
        if (r)
                return r < 0 ? error_fold(r) : DAEMON_E_UNUSABLE;
        log_info("debug files that this machine lacks are asked of the servers of DEBUGINFOD_URLS, by build id");
        return 0;
}

static int see(void *userdata, const Process *process, const Mapping *mapping) {
        return uploads_see(userdata, process, mapping);
}

/* The same functions, found by one look after the other, count once. */
static void count_made(MadeAreas *made, const MadeSet *set, bool is_other) {
        uint32_t n_lost = set->n_malformed + set->n_over_cap;

        if (!is_other && made && made->n_lost == n_lost)
                return;
        stat_add(COUNTER_MADE_FUNCTIONS, is_other ? set->n_functions : 0);
        stat_add(COUNTER_MADE_FUNCTIONS_MALFORMED, set->n_malformed);
        stat_add(COUNTER_MADE_FUNCTIONS_OVER_CAP, set->n_over_cap);
        for (uint32_t i = 0; is_other && i < made->n_pieces; i++)
                stat_add(COUNTER_MADE_AREAS_VOID, made->pieces[i].is_void);
        if (made)
                made->n_lost = n_lost;
}

/* Frames that a process has registered: its areas of code, and their files for the tables. */
static int take_made(void *userdata, uint32_t pid, uint64_t generation, MadeSet *set) {
        Daemon *daemon = userdata;
        Program program;
        int r = targets_program(daemon->stages.targets, pid, generation, &program);
        bool is_other = false;

        if (r)
                return r < 0 ? error_fold(r) : 0;
        r = process_take_made(program.process, set->pieces, set->n, set->read_ns, &is_other);
        if (!r)
                count_made(program.process->made, set, is_other);
        for (uint32_t i = 0; i < set->n && !r; i++) {
                const MadePiece *piece = &program.process->made->pieces[i];

                if (!piece->is_void)
                        r = tables_add_made(daemon->stages.tables, program.process, piece->id,
                                            take_fd(set->fds[i]));
        }
        if (!r && is_other)
                r = targets_made(daemon->stages.targets, program.process);
        return error_fold(r);
}

static int make_naming(Daemon *daemon) {
        DaemonStages *stages = &daemon->stages;
        NamingConfig config = { .made = take_made,
                                .made_userdata = daemon,
                                .see = stages->uploads ? see : NULL,
                                .userdata = stages->uploads,
                                .objects = backend_wants_names(daemon->config),
                                .lines = daemon->config->names.lines,
                                .code = daemon->config->names.jit_symbols,
                                .late = daemon->sink,
                                .zygotes = daemon->totals->zygotes };
        FramesNaming hooks;
        int r;

        if (stages->fetcher)
                config.remote = debug_fetcher_remote(stages->fetcher);
        r = naming_new(&stages->naming, &config);
        if (r)
                return error_fold(r);
        hooks = naming_hooks(stages->naming);
        frames_set_naming(stages->frames, &hooks);
        return 0;
}

static int make(Daemon *daemon) {
        DaemonStages *stages = &daemon->stages;
        Zygotes *zygotes = daemon->totals->zygotes;
        int r = daemon->sink ? 0 : make_uploads(&stages->uploads, daemon->config, zygotes);

        if (!r && !daemon->sink)
                r = make_fetcher(&stages->fetcher, daemon->config, zygotes);
        return r ? r : make_naming(daemon);
}

/* All notices from before then are known: up to now, if none has come since the last drain began. */
static uint64_t told_ns(const Daemon *daemon) {
        uint64_t now_ns = clock_monotonic_ns();

        return sampler_has_mappings(daemon->stages.sampler) ? daemon->loop.drained_ns : now_ns;
}

static int drained(Daemon *daemon) {
        return naming_work(daemon->stages.naming, daemon_is_near_window_end(daemon),
                           daemon_window_left_ns(daemon), told_ns(daemon));
}

/* Nothing is sampled any more: names of the last window may have a moment. */
static int flush(Daemon *daemon) {
        return naming_wait(daemon->stages.naming, clock_monotonic_ns() + LAST_NAMES_NS);
}

static int name_window(Daemon *daemon, Window *window) {
        int r = naming_window(daemon->stages.naming, window, told_ns(daemon));

        if (!r && daemon->stages.uploads)
                r = uploads_window(daemon->stages.uploads, window);
        return error_fold(r);
}

static void describe(Daemon *daemon, Metrics *metrics) {
        DaemonStages *stages = &daemon->stages;

        metrics->naming = naming_state(stages->naming);
        if (stages->uploads) {
                uploads_collect(stages->uploads);
                uploads_state(stages->uploads, &metrics->uploads);
                metrics->has_uploads = true;
        }
        if (stages->fetcher) {
                debug_fetcher_collect(stages->fetcher);
                debug_fetcher_state(stages->fetcher, &metrics->fetcher);
                metrics->has_fetcher = true;
        }
}

static void release(Daemon *daemon) {
        naming_free(daemon->stages.naming);
        uploads_free(daemon->stages.uploads);
        debug_fetcher_free(daemon->stages.fetcher);
}

const Stage stage_names = {
        .name = "names",
        .make = make,
        .drained = drained,
        .window = name_window,
        .flush = flush,
        .describe = describe,
        .release = release,
};
