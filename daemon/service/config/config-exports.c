/* SPDX-License-Identifier: Apache-2.0 */

/* Sections [export NAME]: more receivers, each with a configuration of its own. */

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/util/error.h"
#include "service/config/config.h"
#include "service/config/option.h"

enum { MAX_EXPORTS = 16 };

bool config_export_takes(const Option *option) {
        return option->section && !strcmp(option->section, "export") && option->verbs & VERB_SPOOL &&
               strcmp(option->name, "stop-timeout");
}

static ConfigExport *find(const Config *config, const char *name) {
        for (size_t i = 0; i < config->n_exports; i++)
                if (!strcmp(config->exports[i].name, name))
                        return &config->exports[i];
        return NULL;
}

static void deinit(ConfigExport *export) {
        if (export->config)
                config_deinit(export->config);
        free(export->config);
        free(export->name);
}

int config_find_export(Config *config, const char *name, ConfigExport **exportp) {
        ConfigExport *exports, export = { 0 };
        int r = 0;

        *exportp = find(config, name);
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
                deinit(&export);
                return r;
        }
        exports[config->n_exports] = export;
        *exportp = &exports[config->n_exports++];
        return 0;
}

void config_free_exports(Config *config) {
        for (size_t i = 0; i < config->n_exports; i++)
                deinit(&config->exports[i]);
        free(config->exports);
        config->exports = NULL;
        config->n_exports = 0;
}

static int complain(const ConfigExport *export, const char *what, Text *errors) {
        text_printf(errors, "[export %s]: %s\n", export->name, what);
        return errors->failed ? error_origin(-ENOMEM) : CONFIG_E_INVALID;
}

static int finish(const Config *config, size_t index, Text *errors) {
        ConfigExport *export = &config->exports[index];
        Config *own = export->config;

        if (!*own->endpoint)
                return complain(export, "it has no endpoint", errors);
        if (!*own->client_certificate != !*own->client_key)
                return complain(export, "client-certificate and client-key: one needs the other", errors);
        if (*own->spool && !strcmp(own->spool, config->spool))
                return complain(export, "its spool is that of [export]", errors);
        for (size_t i = 0; *own->spool && i < index; i++)
                if (!strcmp(own->spool, config->exports[i].config->spool))
                        return complain(export, "its spool is that of another section", errors);
        return config_set_urls(own, own->endpoint, false);
}

int config_finish_exports(const Config *config, Text *errors) {
        int result = 0;

        for (size_t i = 0; i < config->n_exports; i++) {
                int r = finish(config, i, errors);

                if (r < 0)
                        return error_fold(r);
                result = r ? r : result;
        }
        return result;
}

bool config_first_export(const Config *config) {
        size_t endpoint = option_index(option_find("endpoint", strlen("endpoint")));

        return !config->n_exports || config->origins[endpoint].level > CONFIG_DEFAULT;
}
