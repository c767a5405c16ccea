/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Interns the few values that decide a sample's attributes as one key of bytes, and remembers the set that
 * it became in the current window. Only a key that is new makes attributes.
 */

#include "host/sampling/aggregate/attributes.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <systemd/sd-id128.h>
#include <unistd.h>

#include "core/base/util/array.h"
#include "core/base/util/clock.h"
#include "core/base/util/error.h"
#include "host/sampling/aggregate/service-name.h"
#include "host/sampling/aggregate/signal-name.h"
#include "host/sampling/aggregate/wait-reason.h"

enum {
        ATTRIBUTES_MAX_KEYS = 1 << 16,
        ATTRIBUTES_MAX_ATTRIBUTES = WINDOW_MAX_SET,
        ATTRIBUTES_MAX_TASK = 3 * PYTHON_TASK_SIZE,     /* bytes of a task's name; longer ones are cut */
        ATTRIBUTES_MAX_ID = 48,                         /* the same of its id */
};

/* Everything that decides a sample's set of attributes. Compared as bytes: no implicit padding. */
typedef struct AttributeKey {
        uint64_t local_root;            /* 0 = none */
        uint64_t probe_id, birth_ns;    /* identity of the coroutine, 0 = unknown */
        const char *wait_reason;        /* a constant: its address stands for it */
        uint32_t wait_state;            /* WaitState */
        uint32_t station;               /* number + 1; 0 = no coroutine */
        uint32_t form;                  /* form of the attributes, 0 without any */
        uint32_t tid;
        uint32_t stack_end;
        uint32_t n_task;                /* bytes of the task's name */
        uint32_t wait_file;             /* enum abi_wait_file */
        uint32_t lock_owner;
        const char *lock_kind, *lock_name;      /* as wait_reason */
        const char *age;                /* the same, of an allocation that is alive */
        uint32_t fault;                 /* memory, is_major and is_huge of a page fault; 0 = none */
        uint16_t n_file;                /* bytes of the file's name */
        uint16_t n_id;                  /* bytes of the task's id */
        uint64_t signal_address;
        uint32_t signal;                /* number of the signal of a crash; 0 = none */
        uint32_t signal_code;           /* low byte of its code */
        struct abi_waker waker;
        char comm[ABI_COMM_SIZE];
        uint64_t context_serial;        /* names of the attributes' keys */
        uint64_t generation;            /* the process with the attributes; these two are 0 without any */
        /* as many as there are, then names of task and file, and the task's id: the rest is no part of it */
        uint8_t attributes[ABI_MAX_ATTRIBUTES_SIZE + ATTRIBUTES_MAX_TASK + ABI_FILE_NAME_SIZE +
                           ATTRIBUTES_MAX_ID];
} AttributeKey;

_Static_assert(offsetof(AttributeKey, attributes) == 184, "no padding");

/* Why a stack is not whole, as value of profile.stack.truncated; NULL = it is whole, or there is none. */
static const char *truncation(enum abi_stack_end end) {
        static const char *const names[ABI_STACK_END_N] = {
                [ABI_STACK_NO_MAPPING] = "no_mapping", [ABI_STACK_NO_ROWS] = "no_rows",
                [ABI_STACK_FAULT] = "fault",           [ABI_STACK_BAD_CFA] = "bad_cfa",
                [ABI_STACK_UNSUPPORTED] = "unsupported", [ABI_STACK_DEPTH] = "depth",
                [ABI_STACK_FP_END] = "fp_end",         [ABI_STACK_STALE] = "stale",
                [ABI_STACK_INTERNAL] = "internal",     [ABI_STACK_PENDING] = "pending",
                [ABI_STACK_LONG] = "long",             [ABI_STACK_MALFORMED] = "malformed",
                [ABI_STACK_RUNTIME] = "runtime",       [ABI_STACK_UNPROVED] = "unproved",
        };

        return names[end];
}

void attributes_init(Attributes *attributes) {
        *attributes = (Attributes){ 0 };
        intern_init(&attributes->sets.keys, ATTRIBUTES_MAX_KEYS);
        intern_init(&attributes->resources.keys, ATTRIBUTES_MAX_KEYS);
        context_attributes_init(&attributes->context);
}

static void cache_deinit(AttributeCache *cache) {
        intern_deinit(&cache->keys);
        free(cache->indexes);
        *cache = (AttributeCache){ 0 };
}

void attributes_deinit(Attributes *attributes) {
        cache_deinit(&attributes->sets);
        cache_deinit(&attributes->resources);
        free(attributes->owners);
        context_attributes_deinit(&attributes->context);
}

/* Labels of a goroutine, or of a thread, have names and values as they are, without a table of keys. */
static bool are_labels(const struct abi_sample *header) {
        return header->form == ABI_FORM_GO || header->form == ABI_FORM_LABELS;
}

/* Return: bytes of the key. */
static size_t key_of_sample(const Program *program, const Sample *sample, enum abi_stack_end stack_end,
                            AttributeKey *key) {
        const struct abi_sample *header = sample->header;
        const ProcessContext *context = program->publication->context;

        *key = (AttributeKey){ .tid = header->tid, .stack_end = stack_end };
        memcpy(key->comm, header->comm, strnlen(header->comm, sizeof(header->comm)));
        /* Writers that leave the high half 0 put the local root span's id where the low half belongs. */
        if (header->context == ABI_CONTEXT_PRESENT && header->form == ABI_FORM_RING &&
            !header->span.trace_high)
                key->local_root = header->span.trace_low;
        if (sample->local_root)
                key->local_root = sample->local_root;
        if (sample->coroutine.known) {
                key->station = sample->coroutine.station + 1;
                key->probe_id = sample->coroutine.probe_id;
                key->birth_ns = sample->coroutine.birth_ns;
        }
        key->age = sample->age;
        key->wait_state = sample->wait.state;
        key->wait_reason = sample->wait.reason;
        key->wait_file = sample->wait.file;
        key->lock_kind = sample->wait.lock.kind;
        key->lock_name = sample->wait.lock.name;
        key->lock_owner = sample->wait.lock.owner;
        key->waker = sample->wait.waker;
        key->signal = header->signal;
        key->signal_code = (uint8_t)header->signal_code;
        key->signal_address = header->signal ? header->value : 0;
        if (header->attributes_size) {
                key->context_serial = context && !are_labels(header) ? context->serial : 0;
                key->form = header->form;
                key->generation = program->process->generation;
                memcpy(key->attributes, sample->attributes, header->attributes_size);
        }
        if (sample->task_name) {
                key->n_task = (uint32_t)strnlen(sample->task_name, ATTRIBUTES_MAX_TASK);
                memcpy(key->attributes + header->attributes_size, sample->task_name, key->n_task);
        }
        if (sample->fault) {
                key->fault = 1u << 24 | (uint32_t)sample->fault->is_huge << 16 |
                        (uint32_t)sample->fault->is_major << 8 | sample->fault->memory;
                key->n_file = (uint16_t)strlen(sample->fault->file);
                memcpy(key->attributes + header->attributes_size + key->n_task, sample->fault->file,
                       key->n_file);
        }
        if (sample->task_id) {
                key->n_id = (uint16_t)strnlen(sample->task_id, ATTRIBUTES_MAX_ID);
                memcpy(key->attributes + header->attributes_size + key->n_task + key->n_file,
                       sample->task_id, key->n_id);
        }
        return offsetof(AttributeKey, attributes) + header->attributes_size + key->n_task + key->n_file +
                key->n_id;
}

typedef struct SetBuilder {
        const AttributeFilter *filter;
        Window *window;
        uint32_t attributes[30 + CONTEXT_ATTRIBUTES_MAX_KEYS];
        size_t n;
        int r;                          /* first failure */
} SetBuilder;

static void set_int(SetBuilder *builder, const char *key, int64_t value) {
        if (builder->r || !attribute_filter_allows(builder->filter, key))
                return;
        builder->r = window_attribute_int(builder->window, key, value, &builder->attributes[builder->n]);
        builder->n += !builder->r;
}

static void set_string(SetBuilder *builder, const char *key, const char *value, size_t size) {
        if (builder->r || !size || !attribute_filter_allows(builder->filter, key))
                return;
        builder->r = window_attribute_string(builder->window, key, value, size,
                                             &builder->attributes[builder->n]);
        builder->n += !builder->r;
}

/* A station is one coroutine of one process, for ever; probe ids are addresses and come again. */
static void add_coroutine(SetBuilder *builder, const SampleCoroutine *coroutine, const char *state) {
        char probe[19], id[48];
        int size = snprintf(id, sizeof(id), "%" PRIu32 "-%" PRIu64, coroutine->station, coroutine->birth_ns);

        if (coroutine->known && coroutine->birth_ns && builder->filter->coroutine_ids)
                set_string(builder, "coroutine.id", id, (size_t)size);
        snprintf(probe, sizeof(probe), "0x%016llx", (unsigned long long)coroutine->probe_id);
        if (coroutine->known)
                set_int(builder, "coroutine.station", coroutine->station);
        if (coroutine->known && coroutine->probe_id)
                set_string(builder, "coroutine.probe_id", probe, 18);
        if (coroutine->known && coroutine->birth_ns)
                set_int(builder, "coroutine.birth_ns", (int64_t)coroutine->birth_ns);
        set_string(builder, "coroutine.state", state, strlen(state));
}

/*
 * A task of asyncio or a process of Erlang, which has no station. Its thread may be in a coroutine that has
 * one.
 */
static void add_task(SetBuilder *builder, const Sample *sample, const AttributeKey *key) {
        if (sample->task_name)
                set_string(builder, "coroutine.name", sample->task_name, key->n_task);
        if (sample->coroutine.known)
                return;
        if (sample->task_id)
                set_string(builder, "coroutine.id", sample->task_id, key->n_id);
        set_string(builder, "coroutine.state", "running", strlen("running"));
}

/* Suspended coroutines are many and each comes once a window: no set of theirs is remembered. */
int attributes_of_suspended(Attributes *attributes, Window *window, const SampleCoroutine *coroutine,
                            uint32_t *setp) {
        SetBuilder builder = { .window = window, .filter = &attributes->filter };

        add_coroutine(&builder, coroutine, "suspended");
        return builder.r ? builder.r : window_attribute_set(window, builder.attributes, builder.n, setp);
}

/* The goroutine's id is zero unless it is wanted. */
static int add_goroutine(Attributes *attributes, Window *window, const Process *process, const Sample *sample,
                         SetBuilder *builder) {
        uint64_t goid;

        memcpy(&goid, sample->attributes, sizeof(goid));
        if (goid)
                set_int(builder, "go.goroutine.id", (int64_t)goid);
        return builder->r ? builder->r
                          : context_attributes_add_labels(&attributes->context, &attributes->filter, window,
                                                          process, sample, builder->attributes,
                                                          ARRAY_SIZE(builder->attributes), &builder->n);
}

/* A waker that is no target is named by its kind alone. */
static void add_waker(SetBuilder *builder, const struct abi_waker *waker) {
        static const char *const kinds[WAKER_N] = { [WAKER_THREAD] = "thread",
                                                    [WAKER_PROCESS] = "process",
                                                    [WAKER_KERNEL] = "kernel",
                                                    [WAKER_INTERRUPT] = "interrupt" };
        const struct abi_span *span = &waker->span;
        char id[33];

        if (!waker->kind)
                return;
        set_string(builder, "wait.waker.kind", kinds[waker->kind], strlen(kinds[waker->kind]));
        if (waker->kind != WAKER_THREAD)
                return;
        set_int(builder, "wait.waker.process.pid", waker->tgid);
        set_int(builder, "wait.waker.thread.id", waker->tid);
        if (!span->span || !(span->trace_high | span->trace_low))
                return;
        snprintf(id, sizeof(id), "%016" PRIx64 "%016" PRIx64, span->trace_high, span->trace_low);
        set_string(builder, "wait.waker.trace_id", id, 32);
        snprintf(id, sizeof(id), "%016" PRIx64, span->span);
        set_string(builder, "wait.waker.span_id", id, 16);
}

static void add_lock(SetBuilder *builder, const SampleLock *lock) {
        if (!lock->kind)
                return;
        set_string(builder, "wait.lock.kind", lock->kind, strlen(lock->kind));
        if (lock->name)
                set_string(builder, "wait.lock.class", lock->name, strlen(lock->name));
        if (lock->owner)
                set_int(builder, "wait.lock.owner.thread.id", lock->owner);
}

static void add_wait(SetBuilder *builder, const SampleWait *wait) {
        const char *state = wait->state == WAIT_STATE_BLOCKED ? "blocked" : "runnable",
                   *file = wait_file_kind(wait->file);

        set_string(builder, "wait.state", state, strlen(state));
        set_string(builder, "wait.reason", wait->reason, strlen(wait->reason));
        if (file)
                set_string(builder, "wait.file.kind", file, strlen(file));
        add_lock(builder, &wait->lock);
        add_waker(builder, &wait->waker);
}

static void add_fault(SetBuilder *builder, const struct abi_fault *fault) {
        static const char *const kinds[ABI_MEMORY_N] = {
                [ABI_MEMORY_UNKNOWN] = "unknown",     [ABI_MEMORY_HEAP] = "heap", [ABI_MEMORY_STACK] = "stack",
                [ABI_MEMORY_ANONYMOUS] = "anonymous", [ABI_MEMORY_FILE] = "file", [ABI_MEMORY_SHARED] = "shared",
                [ABI_MEMORY_OTHER] = "other",
        };

        set_string(builder, "page_fault.kind", fault->is_major ? "major" : "minor", 5);
        set_string(builder, "memory.kind", kinds[fault->memory], strlen(kinds[fault->memory]));
        if (fault->is_huge)
                set_string(builder, "memory.huge_page", "possible", strlen("possible"));
        else if (fault->memory == ABI_MEMORY_HEAP || fault->memory == ABI_MEMORY_STACK ||
                 fault->memory == ABI_MEMORY_ANONYMOUS)
                set_int(builder, "memory.page_size", sysconf(_SC_PAGESIZE));
        set_string(builder, "file.name", fault->file, strlen(fault->file));
}

/* Attributes of a crash. */
static void add_signal(SetBuilder *builder, const struct abi_sample *header) {
        const char *code = signal_code_name(header->signal, header->signal_code);
        char name[SIGNAL_NAME_SIZE], address[19];

        signal_name(header->signal, name);
        set_string(builder, "signal.name", name, strlen(name));
        set_string(builder, "signal.code", code, code ? strlen(code) : 0);
        if (signal_memory_bytes(header))
                set_int(builder, "memory.resident", (int64_t)signal_memory_bytes(header));
        if (!signal_has_address(header->signal, header->signal_code))
                return;
        snprintf(address, sizeof(address), "0x%" PRIx64, header->value);
        set_string(builder, "signal.address", address, strlen(address));
}

static int make_set(Attributes *attributes, Window *window, const Program *program, const Sample *sample,
                    const AttributeKey *key, uint32_t *setp) {
        SetBuilder builder = { .window = window, .filter = &attributes->filter };
        const char *reason = truncation(key->stack_end);
        char root[17];

        if (key->tid)                   /* a goroutine that waits has no thread */
                set_int(&builder, "thread.id", key->tid);
        set_string(&builder, "thread.name", key->comm, strnlen(key->comm, sizeof(key->comm)));
        set_string(&builder, "profile.stack.truncated", reason, reason ? strlen(reason) : 0);
        if (key->local_root) {
                snprintf(root, sizeof(root), "%016llx", (unsigned long long)key->local_root);
                set_string(&builder, "datadog.local_root_span_id", root, 16);
        }
        if (sample->coroutine.known)
                add_coroutine(&builder, &sample->coroutine, "running");
        if (sample->task_name || sample->task_id)
                add_task(&builder, sample, key);
        if (sample->wait.state)
                add_wait(&builder, &sample->wait);
        if (sample->fault)
                add_fault(&builder, sample->fault);
        if (sample->header->signal)
                add_signal(&builder, sample->header);
        if (sample->age)
                set_string(&builder, "allocation.age", sample->age, strlen(sample->age));
        if (!builder.r && sample->header->attributes_size && are_labels(sample->header))
                builder.r = add_goroutine(attributes, window, program->process, sample, &builder);
        else if (!builder.r && sample->header->attributes_size)
                builder.r = context_attributes_add(&attributes->context, &attributes->filter, window, program,
                                                   sample, builder.attributes, &builder.n);
        if (builder.r)
                return builder.r;
        /* A record of 640 bytes may name more keys than a set can have. */
        return window_attribute_set(window, builder.attributes, MIN(builder.n, (size_t)WINDOW_MAX_SET), setp);
}

/* Keeps @index, an index of the window, under the number of a key. */
static int remember(AttributeCache *cache, uint32_t number, uint32_t index) {
        int r = array_reserve(&cache->indexes, &cache->size, number + 1u, 64);

        if (!r)
                cache->indexes[number] = index;
        return r;
}

static int cache_add(AttributeCache *cache, const void *key, size_t size, uint32_t index) {
        uint32_t number;
        int r = intern_add(&cache->keys, key, size, &number);

        if (r == INTERN_E_FULL)
                return 0;               /* more than the cache holds: made again each time */
        return r ? error_fold(r) : remember(cache, number, index);
}

static bool cache_find(const AttributeCache *cache, const void *key, size_t size, uint32_t *indexp) {
        uint32_t number;

        if (intern_find(&cache->keys, key, size, &number))
                return false;
        *indexp = cache->indexes[number];
        return true;
}

/* Forgets the indexes that are remembered: they are those of one window. */
static void follow_window(Attributes *attributes, const Window *window) {
        if (attributes->window_serial == window_serial(window))
                return;
        intern_reset(&attributes->sets.keys);
        intern_reset(&attributes->resources.keys);
        if (attributes->owners)
                memset(attributes->owners, 0, attributes->owners_room * sizeof(*attributes->owners));
        attributes->has_later = false;
        context_attributes_reset(&attributes->context);
        attributes->window_serial = window_serial(window);
}

int attributes_of_sample(Attributes *attributes, Window *window, const Program *program,
                         const Sample *sample, enum abi_stack_end stack_end, uint32_t *setp) {
        AttributeKey key;
        size_t size = key_of_sample(program, sample, stack_end, &key);
        uint32_t set;
        int r;

        follow_window(attributes, window);
        if (cache_find(&attributes->sets, &key, size, setp))
                return 0;
        r = make_set(attributes, window, program, sample, &key, &set);
        if (r)
                return r;
        r = cache_add(&attributes->sets, &key, size, set);
        if (r)
                return error_fold(r);
        *setp = set;
        return 0;
}

typedef struct ResourceBuilder {
        const AttributeFilter *filter;
        Window *window;
        uint32_t attributes[ATTRIBUTES_MAX_ATTRIBUTES];
        size_t n;
        int r;                          /* first failure */
} ResourceBuilder;

static void add_string(ResourceBuilder *builder, const char *key, const char *value) {
        if (builder->r || !value || !*value || builder->n >= ATTRIBUTES_MAX_ATTRIBUTES ||
            !attribute_filter_allows(builder->filter, key))
                return;
        builder->r = window_attribute_string(builder->window, key, value, strlen(value),
                                             &builder->attributes[builder->n]);
        builder->n += !builder->r;
}

static void add_int(ResourceBuilder *builder, const char *key, int64_t value) {
        if (builder->r || builder->n >= ATTRIBUTES_MAX_ATTRIBUTES ||
            !attribute_filter_allows(builder->filter, key))
                return;
        builder->r = window_attribute_int(builder->window, key, value, &builder->attributes[builder->n]);
        builder->n += !builder->r;
}

/* Hashed ids are made of this beside the machine's id: another value would be another name for each host. */
#define APPLICATION_ID SD_ID128_MAKE(a5,6b,ef,a2,62,56,45,a3,b7,b0,c3,43,22,89,76,21)

/* To hash it again would take as long as the rest of a resource. Return: as the library's function. */
static int hashed_machine_id(sd_id128_t *idp) {
        static sd_id128_t hashed;
        int r = sd_id128_is_null(hashed) ? sd_id128_get_machine_app_specific(APPLICATION_ID, &hashed) : 0;

        *idp = hashed;
        return r;
}

/*
 * machine-id(5) asks not to show the plain id to others, since it names the machine to all that runs there.
 */
static void add_host_id(ResourceBuilder *builder) {
        char text[SD_ID128_STRING_MAX];
        sd_id128_t id;
        int r;

        if (builder->filter->host_id == LABEL_HOST_NONE)
                return;
        if (builder->filter->host_id == LABEL_HOST_MACHINE)
                r = sd_id128_get_machine(&id);
        else
                r = hashed_machine_id(&id);
        if (r >= 0)     /* an image may have none */
                add_string(builder, "host.id", sd_id128_to_string(id, text));
}

static void add_host(ResourceBuilder *builder) {
        static char name[256];

        if (!name[0])
                gethostname(name, sizeof(name) - 1);
        add_string(builder, "host.name", name);
        add_host_id(builder);
}

/*
 * Attributes that we know better stay as they are, also where we could not find them out. A host.id that a
 * target has read from /etc/machine-id would give away what `host-id` keeps back.
 */
static bool is_ours(const AttributeFilter *filter, const char *key) {
        if (!strcmp(key, "host.id"))
                return filter->host_id != LABEL_HOST_MACHINE;
        return !strcmp(key, "process.pid") || !strncmp(key, "process.executable.", 19) ||
               !strncmp(key, "telemetry.profiler.", 19);
}

static void add_environment(ResourceBuilder *builder, const Environment *environment) {
        for (size_t i = 0; environment && i < environment->n_attributes; i++)
                if (!is_ours(builder->filter, environment->attributes[i].key))
                        add_string(builder, environment->attributes[i].key, environment->attributes[i].value);
}

/* Adds what the operator says of all targets. A service is a target's own matter. */
static void add_own(ResourceBuilder *builder, const Environment *own) {
        for (size_t i = 0; own && i < own->n_attributes; i++)
                if (!is_ours(builder->filter, own->attributes[i].key) &&
                    strncmp(own->attributes[i].key, "service.", 8))
                        add_string(builder, own->attributes[i].key, own->attributes[i].value);
}

/*
 * Adds an attribute that a program publishes, in its own kind. A key that holds a NUL or is too long is none.
 */
static void add_published(ResourceBuilder *builder, const ContextAttribute *attribute) {
        static const uint32_t kinds[] = { [CONTEXT_STRING] = ATTRIBUTE_STRING,
                                          [CONTEXT_BOOL] = ATTRIBUTE_BOOL,
                                          [CONTEXT_INT] = ATTRIBUTE_INT,
                                          [CONTEXT_DOUBLE] = ATTRIBUTE_DOUBLE };
        WindowAttribute row = { .kind = kinds[attribute->kind], .integer = attribute->integer };
        char key[256];

        if (builder->r || builder->n >= ATTRIBUTES_MAX_ATTRIBUTES || attribute->key.size >= sizeof(key) ||
            memchr(attribute->key.data, 0, attribute->key.size))
                return;
        memcpy(key, attribute->key.data, attribute->key.size);
        key[attribute->key.size] = 0;
        if (is_ours(builder->filter, key) || !attribute_filter_allows(builder->filter, key))
                return;
        builder->r = window_string(builder->window, key, attribute->key.size, &row.key);
        if (!builder->r && row.kind == ATTRIBUTE_STRING)
                builder->r = window_string(builder->window, attribute->string.data, attribute->string.size,
                                           &row.string);
        if (!builder->r)
                builder->r = window_attribute(builder->window, &row, &builder->attributes[builder->n]);
        builder->n += !builder->r;
}

static void add_pod(ResourceBuilder *builder, const char *uid) {
        PodNames *pods = builder->filter->pods;
        PodName name = { 0 };
        int r = uid && pods ? pod_names_find(pods, uid, clock_monotonic_ns(), &name) : 0;

        if (r < 0 && !builder->r)
                builder->r = error_fold(r);
        add_string(builder, "k8s.pod.uid", uid);
        add_string(builder, "k8s.pod.name", name.name);
        add_string(builder, "k8s.namespace.name", name.namespace);
        for (const char *key = name.more; key && *key;) {
                const char *value = key + strlen(key) + 1;

                add_string(builder, key, value);
                key = value + strlen(value) + 1;
        }
}

static void add_service(ResourceBuilder *builder, const ProcessContext *context, const Process *process) {
        char unknown[SERVICE_NAME_MAX];
        size_t size;
        const char *name = service_name_of(context, process, unknown, &size);

        if (builder->r || !size || !attribute_filter_allows(builder->filter, "service.name"))
                return;
        builder->r = window_attribute_string(builder->window, "service.name", name, size,
                                             &builder->attributes[builder->n]);
        builder->n += !builder->r;
}

/* The first of two attributes with one key counts: a target knows its own container and host name best. */
static void describe(ResourceBuilder *builder, const Program *program) {
        const ProcessContext *context = program->publication->context;
        const Process *process = program->process;
        const Identity *identity = process->identity;
        const Environment *environment = identity ? &identity->environment : NULL;

        add_service(builder, context, process);
        add_int(builder, "process.pid", process->pid);
        add_string(builder, "process.executable.name", service_name_executable(process));
        add_string(builder, "process.executable.path", process->exe);
        for (size_t i = 0; context && i < context->n_attributes; i++)
                add_published(builder, &context->attributes[i]);
        add_environment(builder, environment);
        add_own(builder, builder->filter->own);
        add_string(builder, "container.id", identity ? identity->container : NULL);
        add_pod(builder, identity ? identity->pod : NULL);
        add_host(builder);
        add_string(builder, "telemetry.profiler.name", "spanprof");
        add_string(builder, "telemetry.profiler.version", SPANPROF_VERSION);
}

/*
 * The key of a resource is what describes it, as 64 bits of a seeded hash: a few thousand of them do not
 * collide.
 */
static int make_resource(Attributes *attributes, Window *window, const Program *program,
                         uint32_t *resourcep) {
        ResourceBuilder builder = { .window = window, .filter = &attributes->filter };
        uint32_t n_before = window_n_resources(window);
        int r;

        describe(&builder, program);
        if (builder.r)
                return builder.r;
        r = window_resource(window, hash_bytes(builder.attributes, builder.n * sizeof(*builder.attributes)),
                            resourcep);
        if (r || window_n_resources(window) == n_before)
                return r;
        return window_resource_attributes(window, *resourcep, builder.attributes, builder.n);
}

/* In place of the context's serial: the resource that a process had last. */
#define LAST UINT64_MAX

/* Return: 0, also where the cache is full; -ENOMEM. */
static int note_last(Attributes *attributes, uint64_t generation, uint32_t resource) {
        const uint64_t key[2] = { generation, LAST };
        uint32_t number;
        int r = intern_add(&attributes->resources.keys, key, sizeof(key), &number);

        if (r == INTERN_E_FULL)
                return 0;
        return r < 0 ? error_fold(r) : remember(&attributes->resources, number, resource);
}

/*
 * What the first context of a process says holds for its earlier samples, too. What the next one says does
 * not: both were true in their time.
 */
static int note_owner(Attributes *attributes, const Program *program, uint32_t resource) {
        uint64_t generation = program->process->generation;
        const uint64_t key[2] = { generation, LAST };
        AttributeOwner *owner;
        uint32_t before;
        int r = array_reserve_zero(&attributes->owners, &attributes->owners_room, resource + 1u, 64);

        if (r)
                return error_fold(r);
        owner = &attributes->owners[resource];
        owner->is_shared |= owner->generation && owner->generation != generation;
        owner->generation = owner->generation ?: generation;
        owner->is_published |= program->publication->context != NULL;
        if (cache_find(&attributes->resources, key, sizeof(key), &before) && owner->is_published &&
            !attributes->owners[before].is_published) {
                attributes->owners[before].later = resource;
                attributes->has_later = true;
        }
        return note_last(attributes, generation, resource);
}

uint32_t attributes_last_resource(const Attributes *attributes, uint32_t resource) {
        const AttributeOwner *owners = attributes->owners;

        if (resource < attributes->owners_room && owners[resource].later && !owners[resource].is_shared)
                return owners[resource].later;
        return resource;
}

int attributes_of_process(Attributes *attributes, Window *window, const Program *program,
                          uint32_t *resourcep) {
        const ProcessContext *context = program->publication->context;
        uint64_t key[2] = { program->process->generation, context ? context->serial : 0 };
        uint32_t resource;
        int r;

        follow_window(attributes, window);
        if (cache_find(&attributes->resources, key, sizeof(key), resourcep))
                return 0;
        r = make_resource(attributes, window, program, &resource);
        if (r)
                return r;
        r = cache_add(&attributes->resources, key, sizeof(key), resource);
        if (!r)
                r = note_owner(attributes, program, resource);
        if (!r && attributes->note.note)
                r = attributes->note.note(attributes->note.userdata, program, resource);
        if (r)
                return error_fold(r);
        *resourcep = resource;
        return 0;
}
