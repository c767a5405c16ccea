/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Checks what one option alone cannot say: paths that must be absolute, directories that must be there,
 * limits that would stop the daemon at once. Each mistake is a line with its place.
 */

#include "host/service/config/config-check.h"

#include <errno.h>
#include <libgen.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "core/base/sandbox/rights.h"
#include "core/base/util/error.h"
#include "host/service/config/option.h"

/* Below it is no limit but a unit that was forgotten: the daemon has some 16 MiB when it starts. */
#define LEAST_MEMORY (UINT64_C(1) << 20)

typedef struct Checks {
        Text *errors;
        bool found;                     /* a mistake */
} Checks;

static int result_of(const Checks *checks) {
        if (checks->errors->failed)
                return error_origin(-ENOMEM);
        return checks->found ? CONFIG_E_INVALID : 0;
}

static const ConfigOrigin *origin_of(const Config *config, const char *name) {
        return &config->origins[option_index(option_find(name, strlen(name)))];
}

/* FILE:LINE: NAME: what is wrong; a variable of the environment stands for both. */
_printf_(4, 5) static void complain(Checks *checks, const Config *config, const char *name,
                                    const char *format, ...) {
        const ConfigOrigin *origin = origin_of(config, name);
        char what[512];
        va_list args;

        va_start(args, format);
        vsnprintf(what, sizeof(what), format, args);
        va_end(args);
        if (origin->where && origin->level == CONFIG_FILE)
                text_printf(checks->errors, "%s: ", origin->where);
        text_printf(checks->errors, "%s: %s\n", name, what);
        checks->found = true;
}

/* On a command line a path is from where one stands; a service stands nowhere. */
static void check_absolute(Checks *checks, const Config *config, const char *name, const char *path) {
        if (*path && *path != '/' && origin_of(config, name)->level != CONFIG_COMMAND_LINE)
                complain(checks, config, name,
                         "`%s` is no path from /, and a service stands in no directory of its own", path);
}

static void check_spool(Checks *checks, const Config *config) {
        check_absolute(checks, config, "spool", config->spool.directory);
        for (size_t i = 0; i < config->n_exports; i++)
                check_spool(checks, config->exports[i].config);
}

int config_check_values(const Config *config, Text *errors) {
        Checks checks = { .errors = errors };
        unsigned long long memory = config->daemon.max_memory_bytes;

        if (memory && memory < LEAST_MEMORY)
                complain(&checks, config, "max-memory",
                         "%llu bytes: the daemon has some 16 MiB when it starts, and above the limit nothing is "
                         "sampled; is the unit missing? (0: no limit)",
                         memory);
        check_absolute(&checks, config, "control", config->daemon.control);
        if (strcmp(config->daemon.summary, "-"))
                check_absolute(&checks, config, "summary", config->daemon.summary);
        check_absolute(&checks, config, "recorder-token", config->sampling.recorder_token);
        check_absolute(&checks, config, "pods-directory", config->pods.directory);
        check_absolute(&checks, config, "pods-token", config->pods.token);
        check_absolute(&checks, config, "pods-certificate", config->pods.certificate);
        if (*config->pods.token && strncasecmp(config->pods.url, "https://", 8))
                complain(&checks, config, "pods-token",
                         "a token is sent by https:// alone, so that nobody on the way reads it: set `pods-url` to such "
                         "a URL");
        if (config->pods.labels.n_items && !*config->pods.url)
                complain(&checks, config, "pods-labels", "labels come from `pods-url` alone: set it, too");
        if (config->sampling.recorder_ns && *config->sampling.recorder_listen &&
            !*config->sampling.recorder_token)
                complain(&checks, config, "recorder-listen",
                         "recorder-listen needs recorder-token: a file with tokens of who may choose traces");
        check_spool(&checks, config);
        return result_of(&checks);
}

/* Whether the directory of @path is there; who may not look at it does not know. */
static void check_parent(Checks *checks, const Config *config, const char *name, const char *path) {
        char copy[PATH_MAX];
        struct stat st;
        int error = 0;

        if (!*path || !strcmp(path, "-") || origin_of(config, name)->level == CONFIG_DEFAULT)
                return;
        if ((size_t)snprintf(copy, sizeof(copy), "%s", path) >= sizeof(copy))
                error = ENAMETOOLONG;
        else if (stat(dirname(copy), &st))
                error = errno == EACCES ? 0 : errno;
        else if (!S_ISDIR(st.st_mode))
                error = ENOTDIR;
        if (error)
                complain(checks, config, name, "%s: %s: make its directory first", path, strerror(error));
}

static void check_parents_of_spools(Checks *checks, const Config *config) {
        check_parent(checks, config, "spool", config->spool.directory);
        for (size_t i = 0; i < config->n_exports; i++)
                check_parents_of_spools(checks, config->exports[i].config);
}

int config_check_machine(const Config *config, Text *errors) {
        Checks checks = { .errors = errors };
        RightsUser user;

        if (*config->daemon.run_as && rights_find_user(config->daemon.run_as, &user))
                complain(&checks, config, "run-as", "there is no user `%s`: make it, or give a number",
                         config->daemon.run_as);
        check_parent(&checks, config, "control", config->daemon.control);
        check_parent(&checks, config, "summary", config->daemon.summary);
        if (*config->daemon.metrics == '/')
                check_parent(&checks, config, "metrics", config->daemon.metrics);
        check_parents_of_spools(&checks, config);
        return result_of(&checks);
}
