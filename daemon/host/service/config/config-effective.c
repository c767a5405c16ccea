/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Says of an option the value in force and where it comes from; a few defaults depend on other settings or
 * on the place, and have a function each.
 */

#include "host/service/config/config-effective.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/base/sandbox/rights.h"
#include "core/http/endpoint.h"
#include "host/service/config/backend.h"
#include "host/service/config/config-selector.h"

#define DEFAULT "default: "

static void put(Text *value, Text *origin, const char *text, const char *why) {
        text_printf(value, "%s", text);
        text_printf(origin, DEFAULT "%s", why);
}

/* By a service manager, or of the service as seen from outside, it has a value already: config-load.c. */
static void put_spool(ConfigAsker asker, Text *value, Text *origin) {
        put(value, origin, "",
            asker == CONFIG_ASKED_BY_DAEMON ? "none, what cannot be sent waits in memory"
                                            : "none here, and /var/lib/spanprof/spool as a service");
}

/* Root alone becomes another user; the daemon has done it by now. */
static void put_user(ConfigAsker asker, Text *value, Text *origin) {
        RightsUser user;

        if (asker == CONFIG_ASKED_BY_DAEMON || geteuid() != 0) {
                text_printf(value, "%u", (unsigned)geteuid());
                text_printf(origin, DEFAULT "who runs it");
        } else if (!rights_find_user("", &user))
                put(value, origin, user.name, "root becomes this one");
}

static void put_endpoint(const Config *config, Text *value, Text *origin) {
        if (config_first_export(config))
                put(value, origin, backend_endpoint(config),
                    "of `run`; the service does not start before one is set");
        else
                put(value, origin, "", "none beside the sections [export NAME]");
}

/* Return: whether @name has a default that follows from something else, now that it is not set. */
static bool put_derived(const Config *config, const char *name, ConfigAsker asker, Text *value,
                        Text *origin) {
        if (!strcmp(name, "spool"))
                put_spool(asker, value, origin);
        else if (!strcmp(name, "run-as"))
                put_user(asker, value, origin);
        else if (!strcmp(name, "endpoint"))
                put_endpoint(config, value, origin);
        else if (!strcmp(name, "control"))
                put(value, origin, CONTROL_DEFAULT, "if its directory is there");
        else if (!strcmp(name, "publishers") && !config_chooses(&config->targets))
                put(value, origin, "on", "nothing else chooses processes");
        else if (!strcmp(name, "upload-endpoint") && !strcmp(config->form.symbols, "upload")) {
                endpoint_append_shown(value, *config->delivery.endpoint ? config->delivery.endpoint
                                                                        : config->delivery.shown_url);
                text_printf(origin, DEFAULT "that of endpoint");
        } else
                return false;
        return true;
}

void config_effective(const Config *config, const Option *option, ConfigAsker asker, Text *value,
                      Text *origin) {
        const ConfigOrigin *from = &config->origins[option_index(option)];
        _cleanup_(text_deinit) Text plain = { 0 };

        if (!from->where && put_derived(config, option->name, asker, value, origin))
                return;
        text_printf(origin, "%s", from->where ? from->where : "default");
        if (option->kind != OPTION_URL) {
                option_print(option, config, value);
                return;
        }
        option_print(option, config, &plain);
        if (plain.size)
                endpoint_append_shown(value, plain.data);
}
