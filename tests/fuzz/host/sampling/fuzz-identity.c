/* SPDX-License-Identifier: Apache-2.0 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "host/sampling/process/cgroup.h"
#include "host/sampling/process/environment.h"
#include "host/sampling/process/identity.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Pieces of any size must yield the same. */
static void read_environment(const char *data, size_t size, size_t piece, Environment *environment) {
        EnvironmentReader reader = { 0 };

        environment_reader_begin(&reader, ENVIRONMENT_ARGUMENTS);
        environment_reader_feed(&reader, data, size / 2);       /* a half word, then the environment */
        environment_reader_begin(&reader, ENVIRONMENT_VARIABLES);
        for (size_t at = 0; at < size; at += piece)
                environment_reader_feed(&reader, data + at, MIN(piece, size - at));
        if (environment_reader_finish(&reader, environment))
                abort();
        environment_reader_deinit(&reader);
}

static void check_environment(const char *data, size_t size) {
        Environment whole, pieces;

        read_environment(data, size, size + 1, &whole);
        read_environment(data, size, 7, &pieces);
        if (whole.n_attributes != pieces.n_attributes || whole.n_invalid != pieces.n_invalid ||
            !whole.service_name != !pieces.service_name)
                abort();
        for (size_t i = 0; i < whole.n_attributes; i++)
                if (!*whole.attributes[i].key || !*whole.attributes[i].value ||
                    strlen(whole.attributes[i].value) > ENVIRONMENT_MAX_VALUE ||
                    strcmp(whole.attributes[i].value, pieces.attributes[i].value))
                        abort();
        environment_deinit(&whole);
        environment_deinit(&pieces);
}

static void check_groups(const char *data, size_t size) {
        const char *at = data, *end = data + size;
        char name[256];
        CgroupEntry entry;
        Cgroup cgroup;

        while (cgroup_next(&at, end, &entry)) {
                CgroupPart container = cgroup_container(entry.path);

                if (container.size && (container.text < entry.path.text ||
                                       container.text + container.size > entry.path.text + entry.path.size))
                        abort();
                if (cgroup_unescape(container, name, sizeof(name)) && strlen(name) > container.size)
                        abort();
                cgroup_unit_matches(entry.path, "a*.service");
                cgroup_container_matches(container, "5f3a*");
                cgroup_path_matches(entry.path, "/system.slice/*");
        }
        cgroup_parse(data, size, &cgroup);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        char *copy = malloc(size + 1);
        uint32_t uid;

        if (size)
                memcpy(copy, data, size);
        copy[size] = 0;
        check_environment(copy, size);
        check_groups(copy, size);
        identity_parse_status(copy, &uid);
        free(copy);
        return 0;
}
