/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Sets all defaults from the table of options, sets an option from a text if no higher level has set it,
 * and keeps the sections of further receivers.
 */

#include "host/service/config/config.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/util/error.h"
#include "core/base/util/macro.h"
#include "core/http/endpoint.h"
#include "host/service/config/option.h"

enum { MAX_EXPORTS = 16 };

#define PROFILES_PATH "/v1development/profiles"

int config_init(Config *config) {
        *config = (Config){ 0 };
        for (size_t i = 0; i < option_table_size; i++) {
                const Option *option = &option_table[i];
                Text problem = { 0 };
                int r = option_set(option, config, option->fallback ? option->fallback : "", false, &problem);

                text_deinit(&problem);
                if (r)
                        return error_fold(r);   /* a default that is invalid is a bug */
        }
        return 0;
}

static void export_deinit(ConfigExport *export) {
        if (export->config)
                config_deinit(export->config);
        free(export->config);
        free(export->name);
}

static void free_exports(Config *config) {
        for (size_t i = 0; i < config->n_exports; i++)
                export_deinit(&config->exports[i]);
        free(config->exports);
        config->exports = NULL;
        config->n_exports = 0;
}

void config_deinit(Config *config) {
        for (size_t i = 0; i < option_table_size; i++) {
                option_free(&option_table[i], config);
                free(config->origins[i].where);
        }
        free_exports(config);
        free(config->delivery.profiles_url);
        free(config->delivery.shown_url);
        *config = (Config){ 0 };
}

int config_complain(Text *errors, const char *format, ...) {
        _cleanup_(freep) char *line = NULL;
        va_list arguments;
        int n;

        va_start(arguments, format);
        n = vasprintf(&line, format, arguments);
        va_end(arguments);
        if (n < 0) {
                line = NULL;            /* vasprintf() leaves it undefined */
                return error_origin(-ENOMEM);
        }
        text_printf(errors, "%s\n", line);
        return errors->failed ? error_origin(-ENOMEM) : CONFIG_E_INVALID;
}

/* Checks a value that a higher level hides: a mistake stays one. */
static int check_only(const Option *option, const char *value, Text *problem) {
        Config scratch = { 0 };
        int r = option_set(option, &scratch, value, false, problem);

        option_free(option, &scratch);
        return r;
}

static int set_origin(ConfigOrigin *origin, ConfigLevel level, const char *where) {
        char *copy = strdup(where);

        if (!copy)
                return error_origin(-ENOMEM);
        free(origin->where);
        *origin = (ConfigOrigin){ level, copy };
        return 0;
}

int config_set(Config *config, const Option *option, const char *value, ConfigLevel level, const char *where,
               const char *prefix, Text *errors) {
        ConfigOrigin *origin = &config->origins[option_index(option)];
        bool append = level == CONFIG_COMMAND_LINE && origin->level == level;
        Text problem = { 0 };
        int r;

        if (origin->level > level)
                r = check_only(option, value, &problem);
        else
                r = option_set(option, config, value, append, &problem);
        if (r == OPTION_E_INVALID)
                r = config_complain(errors, "%s: %s", prefix, problem.data);
        else if (!r && origin->level <= level)
                r = set_origin(origin, level, where);
        text_deinit(&problem);
        return r;
}

/* ---- sections [export NAME]: more receivers, each with a configuration of its own ---- */

bool config_export_takes(const Option *option) {
        return option->section && !strcmp(option->section, "export") &&
                (option->verbs & VERB_SPOOL || option->is_form) && strcmp(option->name, "stop-timeout");
}

static ConfigExport *find_export(const Config *config, const char *name) {
        for (size_t i = 0; i < config->n_exports; i++)
                if (!strcmp(config->exports[i].name, name))
                        return &config->exports[i];
        return NULL;
}

int config_add_export(Config *config, const char *name, ConfigExport **exportp) {
        ConfigExport *exports, export = { 0 };
        int r = 0;

        *exportp = find_export(config, name);
        if (*exportp)
                return 0;
        if (config->n_exports == MAX_EXPORTS)
                return CONFIG_E_INVALID;
        exports = reallocarray(config->exports, config->n_exports + 1, sizeof(*exports));
        if (!exports)
                return error_origin(-ENOMEM);
        config->exports = exports;
        export.name = strdup(name);
        export.config = calloc(1, sizeof(*export.config));
        r = export.name && export.config ? config_init(export.config) : error_origin(-ENOMEM);
        if (r) {
                export_deinit(&export);
                return r;
        }
        exports[config->n_exports] = export;
        *exportp = &exports[config->n_exports++];
        return 0;
}

bool config_first_export(const Config *config) {
        return !config->n_exports || config_origin(config, "endpoint")->level > CONFIG_DEFAULT;
}

int config_profiles_url(const char *base, bool full, char **urlp) {
        size_t length = strcspn(base, "?#"), tail = strlen(PROFILES_PATH);
        const char *query = base + length;

        if (!full)
                while (length && base[length - 1] == '/')
                        length--;
        /* unix:SOCKET, and then a path */
        if (!full && !strncmp(base, "unix:", 5) && !strchr(base + 5, ':')) {
                if (asprintf(urlp, "%.*s:" PROFILES_PATH, (int)length, base) >= 0)
                        return 0;
                *urlp = NULL;
                return error_origin(-ENOMEM);
        }
        if (full || (length > tail && !strncmp(base + length - tail, PROFILES_PATH, tail)))
                tail = 0;
        if (asprintf(urlp, "%.*s%s%.*s", (int)length, base, tail ? PROFILES_PATH : "",
                     (int)strcspn(query, "#"), query) < 0) {
                *urlp = NULL;
                return error_origin(-ENOMEM);
        }
        return 0;
}

int config_set_urls(Config *config, const char *base, bool full) {
        _cleanup_(text_deinit) Text shown = { 0 };
        char *url;
        int r = config_profiles_url(base, full, &url);

        if (r)
                return r;
        free(config->delivery.profiles_url);
        config->delivery.profiles_url = url;
        endpoint_append_shown(&shown, url);
        if (shown.failed)
                return error_origin(-ENOMEM);
        free(config->delivery.shown_url);
        config->delivery.shown_url = take(shown.data);
        return 0;
}

const ConfigOrigin *config_origin(const Config *config, const char *option) {
        return &config->origins[option_index(option_find(option, strlen(option)))];
}

const char *config_control(const Config *config) {
        return *config->daemon.control ? config->daemon.control : CONTROL_DEFAULT;
}

bool config_spool_is_chosen(const Config *config) {
        return config_origin(config, "spool")->level > CONFIG_DEFAULT;
}

uint32_t config_ticks_per_sample(const Config *config) {
        uint64_t frequency = config->sampling.frequency, fine = config->sampling.recorder_frequency;

        if (!config->sampling.recorder_ns)
                return 1;
        fine = MIN((fine + frequency / 2) / frequency, CONFIG_MAX_TICKS / frequency);
        return (uint32_t)MAX(fine, UINT64_C(1));
}

bool config_has_runtime(const Config *config, const char *name) {
        const char *item = config->sampling.runtimes;

        for (;; item++) {
                size_t size = strcspn(item, ",");

                if ((size == strlen("all") && !memcmp(item, "all", size)) ||
                    (size == strlen(name) && !memcmp(item, name, size)))
                        return true;
                item += size;
                if (!*item)
                        return false;
        }
}
