/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A preset is a row of settings at the lowest level: whatever a user sets wins. What is no matter of taste
 * (shapes that a backend refuses, its limits, its words for refusals) has no setting and comes with the name.
 */

#include "host/service/config/backend.h"

#include <errno.h>
#include <string.h>

#include "core/base/util/clock.h"
#include "core/base/util/error.h"
#include "host/sampling/aggregate/context-attributes.h"
#include "host/service/config/option.h"

enum {
        /* limits of one profile: grafana/pyroscope, pkg/validation/limits.go */
        PYROSCOPE_SAMPLES = 16000,
        PYROSCOPE_BYTES = 4 << 20,
};

typedef struct Setting {
        const char *backend, *option, *value;
} Setting;

static const Setting settings[] = {
        { "pyroscope", "symbols", "local" },       { "pyroscope", "attributes", "lean" },
        { "pyroscope", "timestamps", "off" },      { "parca", "timestamps", "off" },
        { "parca", "links", "off" },               { "parca", "resource-numbers", "text" },
        /* each value would be a series */
        { "parca", "attributes-deny", "wait.waker.*,wait.lock.owner.*" },
};

/* Attributes of a service that tell its series apart, and have few values. */
static char *const lean_keys[] = { (char *)"service.name", (char *)"service.namespace",
                                   (char *)"deployment.environment*", (char *)"host.name",
                                   (char *)"k8s.namespace.name", (char *)"k8s.cluster.name" };

static bool is_backend(const Config *config, const char *name) {
        return !strcmp(config->form.backend, name);
}

static int set(Config *config, const Option *option, const char *value, const char *where) {
        Text errors = { 0 };
        int r = config_set(config, option, value, CONFIG_DEFAULT, where, option->name, &errors);

        text_deinit(&errors);
        return r > 0 ? error_origin(-EINVAL) : r;       /* a preset that is invalid is a bug */
}

int backend_apply(Config *config) {
        int r = 0;

        for (size_t i = 0; i < ARRAY_SIZE(settings) && !r; i++) {
                const Option *option = option_find(settings[i].option, strlen(settings[i].option));

                if (is_backend(config, settings[i].backend) &&
                    config->origins[option_index(option)].level == CONFIG_DEFAULT)
                        r = set(config, option, settings[i].value, "backend");
        }
        return r;
}

int backend_inherit(Config *own, const Config *config) {
        int r = 0;

        for (size_t i = 0; i < option_table_size && !r; i++) {
                _cleanup_(text_deinit) Text value = { 0 };

                if (!option_table[i].is_form || own->origins[i].where ||
                    config->origins[i].level == CONFIG_DEFAULT)
                        continue;
                option_print(&option_table[i], config, &value);
                r = value.failed ? error_origin(-ENOMEM) :
                                   set(own, &option_table[i], value.data ? value.data : "",
                                       config->origins[i].where);
        }
        return r;
}

const char *backend_endpoint(const Config *config) {
        return is_backend(config, "pyroscope") ? "http://localhost:4040" : "http://localhost:4318";
}

const char *backend_uploads(const Config *config) {
        return is_backend(config, "parca") ? "parca" : "pyroscope";
}

bool backend_has_names(const Config *config) {
        return !strcmp(config->form.symbols, "local");
}

static ReshapeLinks links_of(const Config *config) {
        return !strcmp(config->form.links, "off") ? RESHAPE_LINKS_OFF
                : !strcmp(config->form.links, "trace") ? RESHAPE_LINKS_TRACE
                                                  : RESHAPE_LINKS_SPAN;
}

static RemapPaths paths_of(const Config *config) {
        return !strcmp(config->form.mapping_paths, "none") ? REMAP_PATHS_NONE
                : !strcmp(config->form.mapping_paths, "name") ? REMAP_PATHS_NAME
                                                         : REMAP_PATHS_FULL;
}

static ReshapeNumbers numbers_of(const Config *config) {
        return !strcmp(config->form.resource_numbers, "off") ? RESHAPE_NUMBERS_OFF
                : !strcmp(config->form.resource_numbers, "text") ? RESHAPE_NUMBERS_TEXT
                                                            : RESHAPE_NUMBERS_KEPT;
}

static FilterWords words_of(const ConfigList *list) {
        return (FilterWords){ list->items, list->n_items };
}

static bool is_lean(const Config *config) {
        const ConfigList *words = &config->form.attributes;

        for (size_t i = 0; i < words->n_items; i++)
                if (!strcmp(words->items[i], "full"))
                        return false;
        return words->n_items;
}

OtlpPayload backend_payload(const Config *config) {
        bool is_pyroscope = is_backend(config, "pyroscope"), lean = is_lean(config);

        return (OtlpPayload){
                .reshape = { .lean = lean,
                             .always = lean ? (FilterWords){ lean_keys, ARRAY_SIZE(lean_keys) }
                                            : (FilterWords){ 0 },
                             .keep = words_of(&config->form.attributes),
                             .repeat = words_of(&config->form.repeat_on_samples),
                             .links = links_of(config),
                             .numbers = numbers_of(config),
                             .paths = paths_of(config),
                             .plain_types = is_pyroscope,
                             /* parca takes each name for that of another function, until it is mended */
                             .nameless = is_backend(config, "parca") && !backend_has_names(config),
                             .untimed = !config->form.timestamps && lean },
                .encoding = { .scope_version = SPANPROF_VERSION,
                              .timestamps = config->form.timestamps,
                              .one_value = is_pyroscope,
                              .by_type = is_pyroscope,
                              .max_samples = is_pyroscope ? PYROSCOPE_SAMPLES : 0,
                              .max_pprof_bytes = is_pyroscope ? PYROSCOPE_BYTES : 0 },
        };
}

ExportDialect backend_dialect(const Config *config) {
        if (!is_backend(config, "pyroscope"))
                return (ExportDialect){ .tenant = *config->delivery.tenant ? config->delivery.tenant : NULL };
        return (ExportDialect){ .tenant = *config->delivery.tenant ? config->delivery.tenant : NULL,
                                .starting_ns = 120 * NS_PER_SEC,
                                .too_old = "outside of ingestion window" };
}

bool backend_merges_processes(const Config *config) {
        const ConfigList *allow = &config->resource.allow, *deny = &config->resource.deny;
        const AttributeFilter filter = { .allow = allow->items, .n_allow = allow->n_items,
                                         .deny = deny->items, .n_deny = deny->n_items };

        return !attribute_filter_allows(&filter, "process.pid");
}

bool backend_wants_names(const Config *config) {
        if (backend_has_names(config))
                return true;
        for (size_t i = 0; i < config->n_exports; i++)
                if (backend_has_names(config->exports[i].config))
                        return true;
        return false;
}
