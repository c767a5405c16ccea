/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The storage of contexts, and the operations that work on any
 *
 * The storage is chosen by the options, else by the environment, else the ring. Text is words with commas
 * between them, of which two are ours (`ctxstorage=`, `capacity=`): the rest is for others that read the
 * same text.
 */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "backend.h"
#include "spanprof/context-api.h"
#include "spanprof/otel.h"
#include "spanprof/ring.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;        /* start, stop; before that of the ring */
static _Atomic(int) storage;                                    /* in use */
/* the thread's context went to spanprof_otel_set() */
static _Thread_local bool has_record BACKEND_TLS;

int backend_storage(void) {
        return atomic_load_explicit(&storage, memory_order_relaxed);
}

int spanprof_context_storage_in_use(void) {
        return backend_storage();
}

/* ---- choice ---- */

static int take_storage(struct spanprof_context_options *options, const char *word, size_t size) {
        static const struct {
                const char *name;
                uint32_t storage;
        } names[] = { { "otel", SPANPROF_CONTEXT_RING },
                      { "ring", SPANPROF_CONTEXT_RING },
                      { "thread", SPANPROF_CONTEXT_THREAD },
                      { "profiler", SPANPROF_CONTEXT_PROFILER } };

        for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
                if (strlen(names[i].name) == size && memcmp(names[i].name, word, size) == 0) {
                        options->storage = names[i].storage;
                        return 0;
                }
        return -EINVAL;
}

static int take_capacity(struct spanprof_context_options *options, const char *word, size_t size) {
        uint32_t capacity = 0;

        for (size_t i = 0; i < size; i++) {
                if (word[i] < '0' || word[i] > '9' || capacity > SPANPROF_RING_MAX_CAPACITY)
                        return -EINVAL;
                capacity = 10 * capacity + (uint32_t)(word[i] - '0');
        }
        if (!capacity || capacity > SPANPROF_RING_MAX_CAPACITY)
                return -EINVAL;
        options->capacity = capacity;
        return 0;
}

int spanprof_context_parse(const char *text, struct spanprof_context_options *options) {
        static const char storage_word[] = "ctxstorage=", capacity_word[] = "capacity=";
        int r = 0;

        for (const char *end; !r && text && *text; text = *end ? end + 1 : end) {
                end = strchr(text, ',');
                end = end ? end : text + strlen(text);
                if (strncmp(text, storage_word, sizeof(storage_word) - 1) == 0) {
                        text += sizeof(storage_word) - 1;
                        r = take_storage(options, text, (size_t)(end - text));
                } else if (strncmp(text, capacity_word, sizeof(capacity_word) - 1) == 0) {
                        text += sizeof(capacity_word) - 1;
                        r = take_capacity(options, text, (size_t)(end - text));
                }
        }
        return r;
}

/*
 * Takes what the caller left open from the environment. A mistake there must not keep a service from
 * working: it counts as unset.
 */
static void complete(struct spanprof_context_options *options, uint32_t otherwise) {
        struct spanprof_context_options environment = { .size = sizeof(environment) };

        if (spanprof_context_parse(getenv(SPANPROF_CONTEXT_ENVIRONMENT), &environment))
                environment.storage = environment.capacity = 0;
        if (!options->storage)
                options->storage = environment.storage ? environment.storage : otherwise;
        if (!options->capacity)
                options->capacity = environment.capacity ? environment.capacity
                                                         : SPANPROF_RING_DEFAULT_CAPACITY;
}

/* ---- life ---- */

/* Clears the record of this thread. Records of programs that call spanprof/otel.h themselves are theirs. */
static void withdraw_record(void) {
        if (has_record)
                spanprof_otel_clear();
        has_record = false;
}

static int start(const struct spanprof_context_options *options) {
        int r = 0;

        if (options->storage > SPANPROF_CONTEXT_PROFILER || options->capacity > SPANPROF_RING_MAX_CAPACITY)
                return -EINVAL;
        pthread_mutex_lock(&lock);
        if (atomic_load(&storage))
                r = -EALREADY;
        else if (options->storage == SPANPROF_CONTEXT_RING)
                r = ring_publish_new(options->capacity);
        else if (options->storage == SPANPROF_CONTEXT_THREAD)
                r = otel_publish_empty();
        if (!r)
                atomic_store(&storage, (int)options->storage);
        pthread_mutex_unlock(&lock);
        return r;
}

int spanprof_context_start(const struct spanprof_context_options *given) {
        struct spanprof_context_options options = { .size = sizeof(options) };

        if (given && given->size < offsetof(struct spanprof_context_options, storage))
                return -EINVAL;
        if (given)
                memcpy(&options, given, given->size < sizeof(options) ? given->size : sizeof(options));
        complete(&options, SPANPROF_CONTEXT_RING);
        return start(&options);
}

void spanprof_context_stop(void) {
        pthread_mutex_lock(&lock);
        if (atomic_exchange(&storage, 0) == SPANPROF_CONTEXT_RING)
                ring_withdraw();
        withdraw_record();
        local_clear();
        pthread_mutex_unlock(&lock);
}

/* ---- a thread's context ---- */

void context_set_elsewhere(uint64_t trace_high, uint64_t trace_low, uint64_t span) {
        switch (backend_storage()) {
        case SPANPROF_CONTEXT_THREAD:
                has_record = true;
                if (trace_high | trace_low | span)
                        spanprof_otel_set(trace_high, trace_low, span);
                else
                        spanprof_otel_clear();
                break;
        case SPANPROF_CONTEXT_PROFILER:
                if (trace_low | span)
                        local_write(span, trace_low);
                else
                        local_clear();
                break;
        default:        /* stopped */
                withdraw_record();
        }
}

void spanprof_context_set_root(uint64_t trace_high, uint64_t trace_low, uint64_t span,
                               struct spanprof_otel_root *root) {
        if (backend_storage() == SPANPROF_CONTEXT_THREAD && root) {
                has_record = true;
                spanprof_otel_set_root(trace_high, trace_low, span, root);
        } else {
                spanprof_context_set(trace_high, trace_low, span);
        }
}

void spanprof_context_clear(void) {
        spanprof_context_set(0, 0, 0);
}

int spanprof_context_attribute(uint8_t index, const char *value, size_t size) {
        return backend_storage() == SPANPROF_CONTEXT_THREAD ? spanprof_otel_attribute(index, value, size)
                                                            : -ENOTSUP;
}

static bool read_own(struct backend_ids *ids) {
        switch (backend_storage()) {
        case SPANPROF_CONTEXT_RING:
                return ring_read_own(ids);
        case SPANPROF_CONTEXT_THREAD:
                return otel_read(ids);
        case SPANPROF_CONTEXT_PROFILER:
                return local_read(ids);
        }
        return false;
}

/* ---- the interface of two storages behind one ---- */

/* A ring that cannot be had is no reason to profile without contexts. */
bool spanprof_api_initialize(const char *arguments) {
        struct spanprof_context_options options = { .size = sizeof(options) };
        int r;

        if (spanprof_context_parse(arguments, &options))
                return false;
        complete(&options, SPANPROF_CONTEXT_PROFILER);
        r = start(&options);
        if (r && r != -EALREADY) {
                options.storage = SPANPROF_CONTEXT_PROFILER;
                r = start(&options);
        }
        return !r || (r == -EALREADY && (uint32_t)backend_storage() == options.storage);
}

void spanprof_api_shutdown(void) {
        spanprof_context_stop();
}

bool spanprof_api_is_initialized(void) {
        return backend_storage();
}

enum spanprof_api_mode spanprof_api_get_mode(void) {
        int now = backend_storage();

        return now == SPANPROF_CONTEXT_RING || now == SPANPROF_CONTEXT_THREAD ? SPANPROF_API_OTEL
                                                                              : SPANPROF_API_PROFILER;
}

void spanprof_api_set(uint64_t span, uint64_t root_span) {
        spanprof_context_set(0, root_span, span);
}

bool spanprof_api_get(uint64_t *span, uint64_t *root_span) {
        struct backend_ids ids;

        if (!read_own(&ids))
                return false;
        *span = ids.span;
        *root_span = ids.low;
        return true;
}

bool spanprof_api_get_otel(uint64_t *trace_high, uint64_t *trace_low, uint64_t *span) {
        struct backend_ids ids;

        if (!read_own(&ids))
                return false;
        *trace_high = ids.high;
        *trace_low = ids.low;
        *span = ids.span;
        return true;
}

bool spanprof_api_get_otel_by_tid(int tid, uint64_t *trace_high, uint64_t *trace_low, uint64_t *span) {
        struct backend_ids ids;

        if (backend_storage() != SPANPROF_CONTEXT_RING || !ring_read((uint32_t)tid, &ids))
                return false;
        *trace_high = ids.high;
        *trace_low = ids.low;
        *span = ids.span;
        return true;
}

bool spanprof_api_get_by_tid(int tid, uint64_t *span, uint64_t *root_span) {
        uint64_t high;

        return spanprof_api_get_otel_by_tid(tid, &high, root_span, span);
}
