/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The text of a configuration file. Besides crashes, it checks that a value which was taken is
 * printed in a form that is taken again and means the same.
 */

#include <stdlib.h>
#include <string.h>

#include "host/service/config/config-load.h"
#include "host/service/config/option.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_round_trip(const Option *option, const Config *config) {
        Text first = { 0 }, second = { 0 }, problem = { 0 };
        Config copy;

        if (config_init(&copy))
                abort();
        option_print(option, config, &first);
        if (option_set(option, &copy, first.data ? first.data : "", false, &problem))
                abort();
        option_print(option, &copy, &second);
        if (first.size != second.size || (first.size && memcmp(first.data, second.data, first.size)))
                abort();
        config_deinit(&copy);
        text_deinit(&first);
        text_deinit(&second);
        text_deinit(&problem);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        Text errors = { 0 };
        Config config;
        int r;

        if (config_init(&config))
                abort();
        r = config_apply_text(&config, "fuzz", (const char *)data, size, &errors);
        if (r < 0 || (r == 0) != (errors.size == 0))
                abort();        /* an error without a message, or a message without an error */
        for (size_t i = 0; i < option_table_size; i++)
                if (config.origins[i].level == CONFIG_FILE)
                        check_round_trip(&option_table[i], &config);
        text_deinit(&errors);
        config_deinit(&config);
        return 0;
}
