/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Where settings come from. Each source sets what no higher level has set (config_set()), so the order of
 * reading means nothing, with two exceptions at the end:
 *
 *     SPANPROF_*, OTEL_EXPORTER_OTLP_*     environment
 *     files                                config-files.c finds them; sections [export NAME] have own values
 *     STATE_DIRECTORY                      the spool, unless a higher level sets one
 *     backend = NAME                       settings that are still at their defaults (backend.c)
 *     attributes-deny = mapping.path       wins over every level: it takes back what the others set
 *
 * All mistakes of all sources are collected. What only the whole shows is checked last.
 */

#include "host/service/config/config-load.h"

#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/base/data/ini.h"
#include "core/base/file/file.h"
#include "core/base/util/error.h"
#include "core/base/util/log.h"
#include "core/base/util/macro.h"
#include "host/service/config/backend.h"
#include "host/service/config/config-check.h"
#include "host/service/config/config-files.h"
#include "host/service/config/option-check.h"
#include "host/service/config/option-removed.h"
#include "host/service/config/option.h"

enum {
        FILE_MAX_BYTES = 1 << 20,
        /* mistakes that are said: a file that is no configuration would fill the log with them */
        FILE_MAX_MISTAKES = 100,
};

#define EXPORT_PREFIX "export "
#define SERVICE_DIRECTORY "/var/lib/spanprof"    /* StateDirectory= of the unit */

/* ---- files ---- */

/* `did you mean …` among the options that files may set. */
static int unknown_key(const char *prefix, const char *key, Text *errors) {
        const char *names[CONFIG_MAX_OPTIONS + 1], *near;
        size_t n = 0;

        for (size_t i = 0; i < option_table_size; i++)
                if (option_table[i].section)
                        names[n++] = option_table[i].name;
        names[n] = NULL;
        near = nearest_word(key, names);
        text_printf(errors, "%s: unknown key `%s`", prefix, key);
        if (near)
                text_printf(errors, ", did you mean `%s`?", near);
        text_printf(errors, "\n");
        return errors->failed ? error_origin(-ENOMEM) : CONFIG_E_INVALID;
}

typedef struct FileState {
        Config *config;
        const char *name;
        uint32_t lines[CONFIG_MAX_OPTIONS];     /* where this file has set each option, 0 = not yet */
        Config *export;                 /* in a section [export NAME] */
        uint32_t export_lines[CONFIG_MAX_OPTIONS];
        /* the section was complained of: keys need not be in the right one */
        bool in_unknown_section;
        unsigned n_removed;
        Text *errors;
} FileState;

/* Return: 0, CONFIG_E_INVALID = no option has this section, -ENOMEM. */
static int check_section(FileState *state, const IniEntry *entry) {
        const char *names[CONFIG_MAX_OPTIONS + 1], *near;
        _cleanup_(freep) char *name = strndup(entry->section.data, entry->section.size);
        size_t n = 0;

        if (!name)
                return error_origin(-ENOMEM);
        for (size_t i = 0; i < option_table_size; i++) {
                const char *section = option_table[i].section;

                if (section && !strcmp(section, name))
                        return 0;
                if (section)
                        names[n++] = section;
        }
        names[n] = NULL;
        near = nearest_word(name, names);
        text_printf(state->errors, "%s:%u: unknown section [%s]", state->name, entry->line, name);
        if (near)
                text_printf(state->errors, ", did you mean [%s]?", near);
        text_printf(state->errors, "\n");
        return state->errors->failed ? error_origin(-ENOMEM) : CONFIG_E_INVALID;
}

static int wrong_section(const char *prefix, const Option *option, Text *errors) {
        return config_complain(errors, "%s: `%s` belongs to the section [%s]", prefix, option->name,
                               option->section);
}

static int apply_value(FileState *state, const Option *option, const IniEntry *entry, const char *where) {
        _cleanup_(freep) char *value = strndup(entry->value.data, entry->value.size), *prefix = NULL;
        uint32_t *line = &(state->export ? state->export_lines : state->lines)[option_index(option)];

        if (!value || asprintf(&prefix, "%s: %s", where, option->name) < 0)
                return error_origin(-ENOMEM);
        if (*line)
                return config_complain(state->errors, "%s: was set in line %u already", prefix, *line);
        *line = entry->line;
        return config_set(state->export ? state->export : state->config, option, value, CONFIG_FILE, where,
                          prefix, state->errors);
}

static int no_export_key(const char *prefix, const Option *option, Text *errors) {
        return config_complain(errors, "%s: `%s` is not for one receiver alone", prefix, option->name);
}

/* A key that is gone, in any section; @where = FILE:LINE. What the file says of its successor wins. */
static int apply_removed(FileState *state, const RemovedOption *removed, const IniEntry *entry,
                         const char *where) {
        _cleanup_(freep) char *value = strndup(entry->value.data, entry->value.size), *written = NULL;
        const Option *successor =
                removed->successor ? option_find(removed->successor, strlen(removed->successor)) : NULL;
        const uint32_t *lines = state->export ? state->export_lines : state->lines;

        if (!value || asprintf(&written, "%s: %s", where, removed->name) < 0)
                return error_origin(-ENOMEM);
        if (state->n_removed++ >= FILE_MAX_MISTAKES)
                return 0;
        return removed_apply(removed, state->export ? state->export : state->config,
                             successor && lines[option_index(successor)] ? NULL : value, CONFIG_FILE, where,
                             written);
}

static int apply_entry(FileState *state, const IniEntry *entry) {
        const Option *option = option_find(entry->key.data, entry->key.size);
        const RemovedOption *removed = removed_find(entry->key.data, entry->key.size, VERB_CONFIG);
        _cleanup_(freep) char *where = NULL, *key = strndup(entry->key.data, entry->key.size);

        if (!key || asprintf(&where, "%s:%u", state->name, entry->line) < 0)
                return error_origin(-ENOMEM);
        if (removed)
                return apply_removed(state, removed, entry, where);
        if (!option || !option->section)
                return unknown_key(where, key, state->errors);
        if (state->export)
                return config_export_takes(option) ? apply_value(state, option, entry, where)
                                                   : no_export_key(where, option, state->errors);
        if (entry->section.data && !state->in_unknown_section &&
            (strlen(option->section) != entry->section.size ||
             memcmp(option->section, entry->section.data, entry->section.size)))
                return wrong_section(where, option, state->errors);
        return apply_value(state, option, entry, where);
}

static int begin_export(FileState *state, const IniEntry *entry, IniText text) {
        _cleanup_(freep) char *name = strndup(text.data, text.size);
        ConfigExport *export;
        int r;

        if (!name)
                return error_origin(-ENOMEM);
        r = config_add_export(state->config, name, &export);
        if (r == CONFIG_E_INVALID)
                return config_complain(state->errors, "%s:%u: too many sections [export …]", state->name,
                                       entry->line);
        if (r)
                return error_fold(r);
        state->export = export->config;
        memset(state->export_lines, 0, sizeof(state->export_lines));
        return 0;
}

static int apply_section(FileState *state, const IniEntry *entry) {
        size_t n = strlen(EXPORT_PREFIX);
        int r;

        state->export = NULL;
        if (entry->section.size > n && !memcmp(entry->section.data, EXPORT_PREFIX, n))
                r = begin_export(state, entry, (IniText){ entry->section.data + n, entry->section.size - n });
        else
                r = check_section(state, entry);
        state->in_unknown_section = r > 0;
        return r;
}

static int malformed_line(FileState *state, const IniEntry *entry) {
        return config_complain(state->errors, "%s:%u: %s", state->name, entry->line, entry->problem);
}

int config_apply_text(Config *config, const char *name, const char *data, size_t size, Text *errors) {
        FileState state = { .config = config, .name = name, .errors = errors };
        IniCursor cursor = ini_begin(data, size);
        unsigned n_mistakes = 0;

        for (;;) {
                IniEntry entry;
                int r = ini_next(&cursor, &entry);

                if (r != INI_E_EOF && n_mistakes == FILE_MAX_MISTAKES)
                        return config_complain(errors, "%s:%u: too many mistakes; the rest was not read", name,
                                               entry.line);
                if (r == INI_E_EOF)
                        return n_mistakes ? CONFIG_E_INVALID : 0;
                if (r == INI_E_MALFORMED)
                        r = malformed_line(&state, &entry);
                else
                        r = r == INI_E_SECTION ? apply_section(&state, &entry) : apply_entry(&state, &entry);
                if (r < 0)
                        return r;
                n_mistakes += r > 0;
        }
}

typedef struct LoadState {
        Config *config;
        Text *errors;
        bool invalid;
} LoadState;

/* Applies what @fd holds. Return: 0, -errno; mistakes are added to the errors. */
static int load_fd(LoadState *state, const char *path, int fd) {
        _cleanup_(freep) char *data = NULL;
        size_t size;
        int r = file_read_fd(fd, FILE_MAX_BYTES, &data, &size);

        if (r == FILE_E_TOO_LARGE)
                r = config_complain(state->errors, "%s: larger than any configuration (1 MiB)", path);
        else if (r == FILE_E_UNREADABLE)
                r = config_complain(state->errors, "%s: %s", path, strerror(errno));
        else if (!r)
                r = config_apply_text(state->config, path, data, size, state->errors);
        if (r < 0)
                return r;
        state->invalid |= r;
        return 0;
}

static int load_problem(LoadState *state, const char *path, const char *problem) {
        int r = config_complain(state->errors, "%s: %s", path, problem);

        state->invalid = true;
        return r < 0 ? r : 0;
}

static int load_found(const ConfigFile *file, void *userdata) {
        return file->problem ? load_problem(userdata, file->path, file->problem)
                             : load_fd(userdata, file->path, file->fd);
}

/* The file that the user has named: it is believed as the command line is. */
static int load_named(LoadState *state, const char *path) {
        _cleanup_(closep) int fd = -1;
        int r = file_open_regular_at(AT_FDCWD, path, &fd);

        if (r)
                return load_problem(state, path, r == FILE_E_KIND ? "not a regular file" : strerror(errno));
        return load_fd(state, path, fd);
}
/* ---- the environment ---- */

static const char *environment_get(const char *const *environment, const char *name) {
        size_t length = strlen(name);

        for (; environment && *environment; environment++)
                if (!strncmp(*environment, name, length) && (*environment)[length] == '=')
                        return (*environment)[length + 1] ? *environment + length + 1 : NULL;
        return NULL;    /* empty counts as not set, as OpenTelemetry has it */
}

static int load_own_variable(LoadState *state, const Option *option, const char *const *environment) {
        char name[OPTION_ENVIRONMENT_MAX];
        const char *value;
        int r;

        option_environment(option, name);
        value = environment_get(environment, name);
        if (!value)
                return 0;
        r = config_set(state->config, option, value, CONFIG_ENVIRONMENT, name, name, state->errors);
        state->invalid |= r > 0;
        return r < 0 ? r : 0;
}

/* OTEL_EXPORTER_OTLP_TIMEOUT is in ms without a unit; the rest is written as our own options are. */
static int load_otel_variable(LoadState *state, const Option *option, const char *signal,
                              const char *const *environment) {
        char name[OPTION_ENVIRONMENT_MAX];
        _cleanup_(freep) char *text = NULL;
        const char *value;
        int r;

        snprintf(name, sizeof(name), "OTEL_EXPORTER_OTLP_%s%s", signal, option->otel);
        value = environment_get(environment, name);
        if (!value)
                return 0;
        if (asprintf(&text, "%s%s", value, option->kind == OPTION_DURATION ? "ms" : "") < 0)
                return error_origin(-ENOMEM);
        r = config_set(state->config, option, text, CONFIG_OTEL, name, name, state->errors);
        state->invalid |= r > 0;
        if (!r && option->kind == OPTION_URL &&
            state->config->origins[option_index(option)].level == CONFIG_OTEL)
                state->config->delivery.endpoint_is_full = *signal;
        return r < 0 ? r : 0;
}

/*
 * OTEL_EXPORTER_OTLP_[PROFILES_]PROTOCOL is `protocol`. It may be set to gRPC for the whole machine. Spanprof
 * does not speak that, and says so here, unless a setting of its own names another endpoint.
 */
static int load_otel_protocol(LoadState *state, const char *const *environment) {
        const char *name = "OTEL_EXPORTER_OTLP_PROFILES_PROTOCOL",
                   *value = environment_get(environment, name);
        size_t endpoint = option_index(option_find("endpoint", strlen("endpoint")));
        int r;

        if (!value)
                value = environment_get(environment, name = "OTEL_EXPORTER_OTLP_PROTOCOL");
        if (!value)
                return 0;
        if (strcmp(value, "grpc"))
                r = config_set(state->config, option_find("protocol", strlen("protocol")), value, CONFIG_OTEL,
                               name, name, state->errors);
        else if (state->config->origins[endpoint].level > CONFIG_OTEL)
                return 0;
        else
                r = config_complain(state->errors,
                                    "%s: gRPC cannot be sent, only http/protobuf and http/json (port 4318 as a "
                                    "rule); set SPANPROF_ENDPOINT",
                                    name);
        state->invalid |= r > 0;
        return r < 0 ? r : 0;
}

/*
 * Attributes in the daemon's own environment go to all targets: they run where it does. The variable is not
 * spanprof's: one that is wrong is left out as a whole, as OpenTelemetry has it, and everything else goes on.
 */
static int load_otel_resource(LoadState *state, int verb, const char *const *environment) {
        const Option *option = option_find("resource-attributes", strlen("resource-attributes"));
        const char *name = "OTEL_RESOURCE_ATTRIBUTES", *value = environment_get(environment, name);
        _cleanup_(text_deinit) Text problem = { 0 };
        int r;

        if (!value || !option_is_for(option, verb))
                return 0;
        r = option_check_resource_attributes(value, &problem);
        if (r > 0)
                log_warning("%s is left out: %s", name, problem.data);
        if (r)
                return MIN(r, 0);
        r = config_set(state->config, option, value, CONFIG_OTEL, name, name, state->errors);
        state->invalid |= r > 0;
        return r < 0 ? r : 0;
}

/* Before the others: what the environment says of a successor itself counts. */
static int load_removed_variables(LoadState *state, int verb, const char *const *environment) {
        for (size_t i = 0; i < n_removed_options; i++) {
                const RemovedOption *removed = &removed_options[i];
                char name[OPTION_ENVIRONMENT_MAX];
                const char *value;
                int r = 0;

                removed_environment(removed, name);
                value = environment_get(environment, name);
                if (value && removed_find(removed->name, strlen(removed->name), verb))
                        r = removed_apply(removed, state->config, value, CONFIG_ENVIRONMENT, name, name);
                if (r)
                        return r;
        }
        return 0;
}

static int load_environment(LoadState *state, int verb, const char *const *environment) {
        int r = load_removed_variables(state, verb, environment);

        if (r)
                return r;
        for (size_t i = 0; i < option_table_size; i++) {
                const Option *option = &option_table[i];

                if (!option_is_setting(option) || !option_is_for(option, verb))
                        continue;
                r = load_own_variable(state, option, environment);
                if (!r && option->otel)
                        r = load_otel_variable(state, option, "", environment);
                if (!r && option->otel)
                        r = load_otel_variable(state, option, "PROFILES_", environment);
                if (r)
                        return r;
        }
        return 0;
}

static bool is_removed_variable(const char *name) {
        for (size_t i = 0; i < n_removed_options; i++) {
                char removed[OPTION_ENVIRONMENT_MAX];

                removed_environment(&removed_options[i], removed);
                if (!strcmp(name, removed))
                        return true;
        }
        return false;
}

/*
 * A variable that is nearly one of spanprof's is a misspelling. Others (Kubernetes makes some) mean nothing.
 */
static void warn_of_near_variables(const char *const *environment) {
        char names[CONFIG_MAX_OPTIONS][OPTION_ENVIRONMENT_MAX];
        const char *words[CONFIG_MAX_OPTIONS + 1];

        for (size_t i = 0; i < option_table_size; i++) {
                option_environment(&option_table[i], names[i]);
                words[i] = names[i] + strlen("SPANPROF_");
        }
        words[option_table_size] = NULL;
        for (; environment && *environment; environment++) {
                char name[OPTION_ENVIRONMENT_MAX];
                size_t size = strcspn(*environment, "=");
                const char *near;

                if (strncmp(*environment, "SPANPROF_", 9) || size >= sizeof(name))
                        continue;
                memcpy(name, *environment, size);
                name[size] = 0;
                near = nearest_word(name + 9, words);
                if (near && strcmp(near, name + 9) && !is_removed_variable(name))
                        log_warning("%s is set, but means nothing; did you mean SPANPROF_%s?", name, near);
        }
}
/* ---- sections [export NAME], when all was read ---- */

static int complain_of_export(const ConfigExport *export, const char *what, Text *errors) {
        return config_complain(errors, "[export %s]: %s", export->name, what);
}

static int finish_export(const Config *config, size_t index, Text *errors) {
        ConfigExport *export = &config->exports[index];
        Config *own = export->config;
        int r;

        if (!*own->delivery.endpoint)
                return complain_of_export(export, "it has no endpoint", errors);
        if (!*own->delivery.client_certificate != !*own->delivery.client_key)
                return complain_of_export(export, "client-certificate and client-key: one needs the other",
                                          errors);
        if (*own->spool.directory && !strcmp(own->spool.directory, config->spool.directory))
                return complain_of_export(export, "its spool is that of [export]", errors);
        for (size_t i = 0; *own->spool.directory && i < index; i++)
                if (!strcmp(own->spool.directory, config->exports[i].config->spool.directory))
                        return complain_of_export(export, "its spool is that of another section", errors);
        r = backend_apply(own);
        r = r ? r : backend_inherit(own, config);
        return r ? r : config_set_urls(own, own->delivery.endpoint, false);
}

int config_finish_exports(const Config *config, Text *errors) {
        int result = 0;

        for (size_t i = 0; i < config->n_exports; i++) {
                int r = finish_export(config, i, errors);

                if (r < 0)
                        return error_fold(r);
                result = r ? r : result;
        }
        return result;
}
/* ---- all of it together ---- */

static int make_urls(Config *config) {
        const ConfigDelivery *delivery = &config->delivery;

        return config_set_urls(config, *delivery->endpoint ? delivery->endpoint : backend_endpoint(config),
                               delivery->endpoint_is_full);
}

/*
 * The TLS library opens such a file when the first request is sent: a mistake would show late, and a pipe
 * would hang. A user who only checks a configuration may lack the right to read a key.
 */
static int check_file(LoadState *state, const Config *config, int verb, const char *name, const char *path) {
        const ConfigOrigin *origin = config_origin(config, name);
        int r = *path ? file_check_regular(path) : 0;

        if (!r || (verb == VERB_CONFIG && r == FILE_E_UNREADABLE && errno == EACCES))
                return 0;
        text_printf(state->errors, "%s: %s: %s (%s)\n", name, path,
                    r == FILE_E_KIND ? "not a regular file" : strerror(errno), origin->where ?: "default");
        state->invalid = true;
        return state->errors->failed ? error_origin(-ENOMEM) : 0;
}

static int check_tls_files(LoadState *state, const Config *config, int verb) {
        int r;

        if (!(verb & (VERB_RUN | VERB_RECEIVE | VERB_CONFIG)))
                return 0;
        r = check_file(state, config, verb, "certificate", config->delivery.certificate);
        if (!r)
                r = check_file(state, config, verb, "client-certificate", config->delivery.client_certificate);
        if (!r)
                r = check_file(state, config, verb, "client-key", config->delivery.client_key);
        for (size_t i = 0; !r && i < config->n_exports; i++)
                r = check_tls_files(state, config->exports[i].config, verb);
        return r;
}

static int check_pods_files(LoadState *state, const Config *config, int verb) {
        int r;

        if (!(verb & (VERB_RUN | VERB_CONFIG)))
                return 0;
        r = check_file(state, config, verb, "pods-token", config->pods.token);
        return r ? r : check_file(state, config, verb, "pods-certificate", config->pods.certificate);
}

static int check_token_file(LoadState *state, const Config *config, int verb) {
        if (!(verb & (VERB_RECEIVE | VERB_CONFIG)))
                return 0;
        return check_file(state, config, verb, "token-file", config->receiver.token_file);
}

static int check_together(LoadState *state) {
        const Config *config = state->config;
        int r = 0;

        if (!*config->delivery.client_certificate != !*config->delivery.client_key)
                r = config_complain(state->errors, "client-certificate, client-key: one needs the other");
        state->invalid |= r > 0;
        if (r >= 0 && !strcmp(config->form.symbols, "upload") && !config->names.upload.paths.n_items) {
                r = config_complain(state->errors,
                                    "symbols: upload needs upload-paths: which files' symbols may leave this machine, e.g. upload-paths = /opt/shop/*");
                state->invalid |= r > 0;
        }
        return r < 0 ? r : 0;
}
/* The service manager has made its directory, as StateDirectory= of the unit says, when it ran first. */
static bool is_service_there(const char *root) {
        char path[PATH_MAX];
        struct stat st;

        snprintf(path, sizeof(path), "%s" SERVICE_DIRECTORY, root);
        return !lstat(path, &st) && S_ISDIR(st.st_mode);
}

/*
 * The directory for state that a service manager gives means the spool. Any other setting of the spool wins.
 * Who asks for the service's spool from outside has no such variable, and means the same directory.
 */
static int load_state_directory(LoadState *state, int verb, const char *root,
                                const char *const *environment) {
        const char *directory = environment_get(environment, "STATE_DIRECTORY"), *where = "STATE_DIRECTORY";
        const Option *option = option_find("spool", strlen("spool"));
        _cleanup_(freep) char *path = NULL;

        if (config_spool_is_chosen(state->config))
                return 0;
        if (!directory && verb != VERB_RUN && is_service_there(root)) {
                directory = SERVICE_DIRECTORY;
                where = "STATE_DIRECTORY of the service";
        }
        if (!directory || !(verb & (VERB_RUN | VERB_CONFIG | VERB_SPOOL | VERB_DOCTOR)))
                return 0;
        if (asprintf(&path, "%s/spool", directory) < 0)
                return error_origin(-ENOMEM);
        return config_set(state->config, option, path, CONFIG_DEFAULT, where, where, state->errors);
}

/*
 * attributes-deny also covers what is no attribute in OTLP but a field: the paths of mappings. It wins over
 * what a section says.
 */
static int deny_paths(Config *config) {
        static const char key[] = "mapping.path";
        const ConfigList *deny = &config->resource.deny;
        bool denied = false;

        for (size_t i = 0; i < deny->n_items; i++)
                denied |= !fnmatch(deny->items[i], key, 0);
        for (size_t i = 0; denied && i <= config->n_exports; i++) {
                Config *own = i ? config->exports[i - 1].config : config;
                ConfigOrigin *origin = &own->origins[option_index(option_find("mapping-paths", 13))];
                char *none = strdup("none"), *where = strdup("attributes-deny");

                if (!none || !where) {
                        free(none);
                        free(where);
                        return error_origin(-ENOMEM);
                }
                free(own->form.mapping_paths);
                own->form.mapping_paths = none;
                free(origin->where);
                origin->where = where;
        }
        return 0;
}

/* Sets switches whose default differs by verb, unless the command line has set them. */
static int set_defaults(Config *config, int verb) {
        Text none = { 0 };
        int r = 0;

        for (size_t i = 0; i < option_table_size && !r; i++) {
                const Option *option = &option_table[i];

                if (option->kind == OPTION_BOOL && config->origins[i].level == CONFIG_DEFAULT)
                        r = option_set(option, config, option_fallback(option, verb), false, &none);
        }
        return r;
}

int config_load(Config *config, const ConfigSource *source, Text *errors) {
        LoadState state = { .config = config, .errors = errors };
        int r = set_defaults(config, source->verb);

        r = r ? r : load_environment(&state, source->verb, source->environment);

        if (!r && source->files)
                warn_of_near_variables(source->environment);
        if (!r && *config->command.config)
                r = load_named(&state, config->command.config);
        else if (!r && source->files)
                r = config_visit_files(source->root, source->as_root, load_found, &state);
        if (!r)
                r = load_state_directory(&state, source->verb, source->root, source->environment);
        if (!r && source->verb & (VERB_RUN | VERB_CONFIG))
                r = load_otel_protocol(&state, source->environment);
        if (!r)
                r = load_otel_resource(&state, source->verb, source->environment);
        if (!r)
                r = check_together(&state);
        if (!r)
                r = backend_apply(config);
        if (!r) {
                r = config_finish_exports(config, errors);
                state.invalid |= r > 0;
                r = r < 0 ? r : 0;
        }
        if (!r)
                r = deny_paths(config);
        if (!r && source->verb & (VERB_RUN | VERB_CONFIG | VERB_SPOOL)) {
                r = config_check_values(config, errors);
                state.invalid |= r > 0;
                r = r < 0 ? r : 0;
        }
        if (!r)
                r = check_tls_files(&state, config, source->verb);
        if (!r)
                r = check_pods_files(&state, config, source->verb);
        if (!r)
                r = check_token_file(&state, config, source->verb);
        if (!r)
                r = make_urls(config);
        if (r)
                return r;
        return state.invalid ? CONFIG_E_INVALID : 0;
}
