/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Loading of a Configuration
 *
 * Precedence: command line > SPANPROF_* > files > OTEL_EXPORTER_OTLP_* > default.
 * Files: /etc/spanprof/spanprof.conf, then the drop-ins spanprof.conf.d/NAME.conf of
 * /usr/lib/spanprof, /run/spanprof and /etc/spanprof, sorted by NAME; of two with the
 * same NAME the later directory's masks the other. `--config FILE` replaces them all.
 * Root reads only what no other user may write (config-files.c).
 */

#include <stdbool.h>
#include <stddef.h>

#include "host/service/config/config.h"

/* Applies the text of one file. @name is for messages. Return: 0, CONFIG_E_INVALID, -ENOMEM. */
int config_apply_text(Config *config, const char *name, const char *data, size_t size, Text *errors);

typedef struct ConfigSource {
        const char *root;               /* before the searched directories; "" on a real machine */
        const char *const *environment;       /* as environ; NULL = none */
        int verb;                       /* VERB_*: only variables of options that this verb takes are read */
        bool files;                     /* whether configuration files are read */
        bool as_root;                   /* files that another user may write are refused */
} ConfigSource;

/* Adds environment and files to what the command line has set. Return: 0, CONFIG_E_INVALID, -ENOMEM. */
int config_load(Config *config, const ConfigSource *source, Text *errors);

/*
 * Sets the URLs of each [export NAME], and says what is wrong with the whole of it; config_load() calls it.
 * Return: 0, CONFIG_E_INVALID, -ENOMEM.
 */
int config_finish_exports(const Config *config, Text *errors);
