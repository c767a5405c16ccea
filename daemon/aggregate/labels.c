/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregate/labels.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "util/error.h"
#include "util/file.h"

enum {
        LABELS_MAX_KEYS = 1 << 16,
        LABELS_MAX_ATTRIBUTES = 16 + ENVIRONMENT_MAX_ATTRIBUTES,
};

/* Everything that decides a sample's set of attributes. Compared as bytes: no implicit padding. */
typedef struct LabelKey {
        uint64_t local_root;            /* 0 = none */
        uint32_t tid;
        uint32_t stack_end;
        char comm[ABI_COMM_SIZE];
} LabelKey;

_Static_assert(sizeof(LabelKey) == 32, "no padding");

/* Why a stack is not whole, as value of profile.stack.truncated; NULL = it is whole, or there is none. */
static const char *truncation(enum abi_stack_end end) {
        static const char *const names[ABI_STACK_END_N] = {
                [ABI_STACK_NO_MAPPING] = "no_mapping", [ABI_STACK_NO_ROWS] = "no_rows",
                [ABI_STACK_FAULT] = "fault",           [ABI_STACK_BAD_CFA] = "bad_cfa",
                [ABI_STACK_UNSUPPORTED] = "unsupported", [ABI_STACK_DEPTH] = "depth",
                [ABI_STACK_FP_END] = "fp_end",         [ABI_STACK_STALE] = "stale",
                [ABI_STACK_INTERNAL] = "internal",
        };

        return names[end];
}

void labels_init(Labels *labels) {
        *labels = (Labels){ 0 };
        intern_init(&labels->keys, LABELS_MAX_KEYS);
}

void labels_deinit(Labels *labels) {
        intern_deinit(&labels->keys);
        free(labels->sets);
        labels->sets = NULL;
}

static LabelKey key_of_sample(const Sample *sample, enum abi_stack_end stack_end) {
        const struct abi_sample *header = sample->header;
        LabelKey key = { .tid = header->tid, .stack_end = stack_end };

        memcpy(key.comm, header->comm, strnlen(header->comm, sizeof(header->comm)));
        /* Writers that leave the high half 0 put the local root span's id where the low half belongs. */
        if (header->context == ABI_CONTEXT_PRESENT && !header->slot.trace_id_high)
                key.local_root = header->slot.trace_id_low;
        return key;
}

static int make_set(Window *window, const LabelKey *key, uint32_t *setp) {
        uint32_t attributes[4];
        const char *reason = truncation(key->stack_end);
        char root[17];
        size_t n = 0;
        int r;

        r = window_attribute_int(window, "thread.id", key->tid, &attributes[n++]);
        if (!r && key->comm[0])
                r = window_attribute_string(window, "thread.name", key->comm, strnlen(key->comm, sizeof(key->comm)),
                                            &attributes[n++]);
        if (!r && reason)
                r = window_attribute_string(window, "profile.stack.truncated", reason, strlen(reason),
                                            &attributes[n++]);
        if (!r && key->local_root) {
                snprintf(root, sizeof(root), "%016llx", (unsigned long long)key->local_root);
                r = window_attribute_string(window, "datadog.local_root_span_id", root, 16, &attributes[n++]);
        }
        if (r)
                return r;
        return window_attribute_set(window, attributes, n, setp);
}

static int remember(Labels *labels, uint32_t number, uint32_t set) {
        if (number >= labels->sets_size) {
                uint32_t size = labels->sets_size ? labels->sets_size * 2 : 64;
                uint32_t *sets = realloc(labels->sets, size * sizeof(*sets));

                if (!sets)
                        return error_origin(-ENOMEM);
                labels->sets = sets;
                labels->sets_size = size;
        }
        labels->sets[number] = set;
        return 0;
}

int labels_of_sample(Labels *labels, Window *window, const Sample *sample, enum abi_stack_end stack_end,
                     uint32_t *setp) {
        LabelKey key = key_of_sample(sample, stack_end);
        uint32_t number, set;
        int r;

        if (labels->window_serial != window_serial(window)) {
                intern_reset(&labels->keys);
                labels->window_serial = window_serial(window);
        }
        if (!intern_find(&labels->keys, &key, sizeof(key), &number)) {
                *setp = labels->sets[number];
                return 0;
        }
        r = make_set(window, &key, &set);
        if (r)
                return r;
        r = intern_add(&labels->keys, &key, sizeof(key), &number);
        if (r == 0)
                r = remember(labels, number, set);
        else if (r == INTERN_E_FULL)
                r = 0; /* more threads than the cache holds: the set is made again each time */
        if (r)
                return error_fold(r);
        *setp = set;
        return 0;
}

typedef struct ResourceBuilder {
        Window *window;
        uint32_t attributes[LABELS_MAX_ATTRIBUTES];
        size_t n;
        int r;                          /* first failure */
} ResourceBuilder;

static void add_string(ResourceBuilder *builder, const char *key, const char *value) {
        if (builder->r || !value || !*value)
                return;
        builder->r = window_attribute_string(builder->window, key, value, strlen(value),
                                             &builder->attributes[builder->n]);
        builder->n += !builder->r;
}

static void add_int(ResourceBuilder *builder, const char *key, int64_t value) {
        if (builder->r)
                return;
        builder->r = window_attribute_int(builder->window, key, value, &builder->attributes[builder->n]);
        builder->n += !builder->r;
}

/* The host's name and id (machine-id(5)), read once. */
static void add_host(ResourceBuilder *builder) {
        static char name[256], id[64];
        char *data;
        size_t size;

        if (!name[0]) {
                gethostname(name, sizeof(name) - 1);
                if (!file_read("/etc/machine-id", sizeof(id) - 1, &data, &size)) {
                        memcpy(id, data, strcspn(data, "\n"));
                        free(data);
                }
        }
        add_string(builder, "host.name", name);
        add_string(builder, "host.id", id);
}

/* Never from a thread's name: it changes with what the thread does. */
static void add_service_name(ResourceBuilder *builder, const Environment *environment, const char *executable) {
        const char *name = environment ? environment->service_name : NULL;
        char unknown[sizeof("unknown_service:") + NAME_MAX];

        for (size_t i = 0; environment && !name && i < environment->n_attributes; i++)
                if (!strcmp(environment->attributes[i].key, "service.name"))
                        name = environment->attributes[i].value;
        snprintf(unknown, sizeof(unknown), "unknown_service%s%s", *executable ? ":" : "", executable);
        add_string(builder, "service.name", name ? name : unknown);
}

/* What we know better stays as it is, also where we could not find it out. */
static bool is_ours(const char *key) {
        return !strcmp(key, "process.pid") || !strncmp(key, "process.executable.", 19) ||
               !strncmp(key, "telemetry.profiler.", 19);
}

static void add_environment(ResourceBuilder *builder, const Environment *environment) {
        for (size_t i = 0; environment && i < environment->n_attributes; i++)
                if (!is_ours(environment->attributes[i].key))
                        add_string(builder, environment->attributes[i].key, environment->attributes[i].value);
}

/* Of two attributes with one key the first counts: a target knows its own container and host name best. */
int labels_set_resource(Window *window, uint32_t resource, const Process *process) {
        ResourceBuilder builder = { .window = window };
        const Identity *identity = process->identity;
        const Environment *environment = identity ? &identity->environment : NULL;
        const char *slash = process->exe ? strrchr(process->exe, '/') : NULL;
        const char *name = slash ? slash + 1 : process->exe ? process->exe : process->comm;

        add_service_name(&builder, environment, process->exe ? name : "");
        add_int(&builder, "process.pid", process->pid);
        add_string(&builder, "process.executable.name", name);
        add_string(&builder, "process.executable.path", process->exe);
        add_environment(&builder, environment);
        add_string(&builder, "container.id", identity ? identity->container : NULL);
        add_host(&builder);
        add_string(&builder, "telemetry.profiler.name", "spanprof");
        add_string(&builder, "telemetry.profiler.version", SPANPROF_VERSION);
        if (builder.r)
                return builder.r;
        return window_resource_attributes(window, resource, builder.attributes, builder.n);
}
