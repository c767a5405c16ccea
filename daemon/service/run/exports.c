/* SPDX-License-Identifier: Apache-2.0 */
#include "service/run/exports.h"

#include <errno.h>

#include "base/util/error.h"
#include "service/config/config-exporter.h"
#include "service/run/exports-private.h"

static int add(Exports *exports, sd_event *event, const Config *config, const char *name) {
        ExporterConfig exporter = config_exporter_spooled(config, config->profiles_url);
        Export *export = &exports->items[exports->n];
        int r;

        exporter.secondary = exports->n > 0;
        r = exporter_new(&export->exporter, event, &exporter);
        if (r)
                return r > 0 ? EXPORTS_E_UNUSABLE : error_fold(r);
        export->name = name;
        export->url = config->shown_url;
        exports->n++;
        return 0;
}

int exports_new(Exports **exportsp, sd_event *event, const Config *config) {
        _cleanup_(exports_freep) Exports *exports = calloc(1, sizeof(*exports));
        int r = 0;

        if (!exports)
                return error_origin(-ENOMEM);
        exports->items = calloc(config->n_exports + 1, sizeof(*exports->items));
        if (!exports->items)
                return error_origin(-ENOMEM);
        if (config_first_export(config))
                r = add(exports, event, config, "");
        for (size_t i = 0; !r && i < config->n_exports; i++)
                r = add(exports, event, config->exports[i].config, config->exports[i].name);
        if (r)
                return r;
        *exportsp = take(exports);
        return 0;
}

Exports *exports_free(Exports *exports) {
        if (!exports)
                return NULL;
        for (size_t i = 0; i < exports->n; i++)
                exporter_free(exports->items[i].exporter);
        free(exports->items);
        free(exports);
        return NULL;
}

int exports_submit(Exports *exports, const ExportRequest *request) {
        for (size_t i = 0; i < exports->n; i++) {
                int r = exporter_submit(exports->items[i].exporter, request);

                if (r)
                        return error_fold(r);
        }
        return 0;
}

static void on_stopped(void *userdata) {
        Exports *exports = userdata;

        if (++exports->n_stopped == exports->n)
                exports->done(exports->userdata);
}

int exports_stop(Exports *exports, uint64_t deadline_ns, void (*done)(void *userdata), void *userdata) {
        exports->done = done;
        exports->userdata = userdata;
        for (size_t i = 0; i < exports->n; i++) {
                int r = exporter_stop(exports->items[i].exporter, deadline_ns, on_stopped, exports);

                if (r)
                        return error_fold(r);
        }
        return 0;
}

uint64_t exports_queued_events(const Exports *exports) {
        uint64_t n = 0;

        for (size_t i = 0; i < exports->n; i++)
                n += exporter_queued_events(exports->items[i].exporter);
        return n;
}

size_t exports_queued_bytes(const Exports *exports) {
        size_t n = 0;

        for (size_t i = 0; i < exports->n; i++)
                n += exporter_queued_bytes(exports->items[i].exporter);
        return n;
}

uint64_t exports_unsaved_events(const Exports *exports) {
        uint64_t n = 0;

        for (size_t i = 0; i < exports->n; i++)
                n = MAX(n, exporter_unsaved_events(exports->items[i].exporter));
        return n;
}

uint64_t exports_submitted_bytes(const Exports *exports) {
        uint64_t n = 0;

        for (size_t i = 0; i < exports->n; i++)
                n = MAX(n, exporter_submitted_bytes(exports->items[i].exporter));
        return n;
}
