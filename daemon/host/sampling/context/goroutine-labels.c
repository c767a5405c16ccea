/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Takes pairs of key and value from the bytes of a sample, and turns the labels of known tracers into ids
 * of the span.
 */

#include "host/sampling/context/goroutine-labels.h"

#include <string.h>

#include "core/base/util/macro.h"

bool goroutine_labels_next(const uint8_t *bytes, size_t size, size_t *at, GoroutineLabel *label) {
        const uint8_t *from = bytes + *at;

        if (size - *at < 2 || !from[0] || size - *at - 2 < (size_t)from[0] + from[1])
                return false;
        *label = (GoroutineLabel){ from + 2, from + 2 + from[0], from[0], from[1] };
        *at += 2 + (size_t)from[0] + from[1];
        return true;
}

static bool is_called(const GoroutineLabel *label, const char *name) {
        return label->key_size == strlen(name) && !memcmp(label->key, name, label->key_size);
}

/* @n digits, all of them. */
static bool parse_hex(const uint8_t *text, size_t n, uint64_t *valuep) {
        uint64_t value = 0;

        for (size_t i = 0; i < n; i++) {
                uint8_t c = text[i], letter = c | 0x20;

                if (c >= '0' && c <= '9')
                        value = value << 4 | (uint64_t)(c - '0');
                else if (letter >= 'a' && letter <= 'f')
                        value = value << 4 | (uint64_t)(letter - 'a' + 10);
                else
                        return false;
        }
        *valuep = value;
        return true;
}

static bool parse_decimal(const uint8_t *text, size_t n, uint64_t *valuep) {
        uint64_t value = 0;

        for (size_t i = 0; i < n; i++)
                if (text[i] < '0' || text[i] > '9' || __builtin_mul_overflow(value, 10, &value) ||
                    __builtin_add_overflow(value, (uint64_t)(text[i] - '0'), &value))
                        return false;
        *valuep = value;
        return n && value;
}

/* Ids as labels have them; 0 = no such label. */
typedef struct Ids {
        struct abi_span otel;
        uint64_t datadog_root, datadog_span;
} Ids;

static void take_id(const GoroutineLabel *label, Ids *ids) {
        uint64_t high, low;

        /* the first of two labels with one key counts, as in keep() */
        if (is_called(label, "trace_id") && label->value_size == 32 && parse_hex(label->value, 16, &high) &&
            parse_hex(label->value + 16, 16, &low)) {
                if (!(ids->otel.trace_high | ids->otel.trace_low))
                        ids->otel.trace_high = high, ids->otel.trace_low = low;
        } else if (is_called(label, "span_id") && label->value_size == 16 && !ids->otel.span) {
                parse_hex(label->value, 16, &ids->otel.span);
        } else if (is_called(label, "local root span id") && !ids->datadog_root) {
                parse_decimal(label->value, label->value_size, &ids->datadog_root);
        } else if (is_called(label, "span id") && !ids->datadog_span) {
                parse_decimal(label->value, label->value_size, &ids->datadog_span);
        }
}

/* Return: the labels that are in the span now. */
static const char *const *choose(const Ids *ids, GoroutineContext *context) {
        static const char *const none[] = { NULL }, *const otel[] = { "trace_id", "span_id", NULL },
                          *const datadog[] = { "local root span id", "span id", NULL };

        if (ids->otel.span && (ids->otel.trace_high | ids->otel.trace_low)) {
                context->span = ids->otel;
                return otel;
        }
        if (ids->datadog_root && ids->datadog_span) {
                context->span.trace_low = ids->datadog_root;
                context->span.span = ids->datadog_span;
                context->local_root = ids->datadog_root;
                return datadog;
        }
        return none;
}

static bool is_among(const GoroutineLabel *label, const char *const *names) {
        for (; *names; names++)
                if (is_called(label, *names))
                        return true;
        return false;
}

static bool is_there(const GoroutineContext *context, const GoroutineLabel *label) {
        GoroutineLabel other;

        for (size_t at = GO_HEADER_SIZE;
             goroutine_labels_next(context->attributes, context->attributes_size, &at, &other);)
                if (other.key_size == label->key_size && !memcmp(other.key, label->key, label->key_size))
                        return true;
        return false;
}

static void keep(GoroutineContext *context, const GoroutineLabel *label) {
        size_t size = 2 + (size_t)label->key_size + label->value_size;

        if (is_there(context, label))
                return;
        memcpy(context->attributes + context->attributes_size, label->key - 2, size);
        context->attributes_size += size;
}

bool goroutine_context_read(const uint8_t *bytes, size_t size, bool with_id, GoroutineContext *context) {
        const char *const *taken;
        size_t at = GO_HEADER_SIZE;
        GoroutineLabel label;
        Ids ids = { 0 };

        context->goid = 0;
        context->span = (struct abi_span){ 0 };
        context->local_root = 0;
        context->attributes_size = 0;
        if (!size)
                return true;
        if (size < GO_HEADER_SIZE || size > ABI_MAX_ATTRIBUTES_SIZE)
                return false;
        memcpy(&context->goid, bytes, sizeof(context->goid));
        while (goroutine_labels_next(bytes, size, &at, &label))
                take_id(&label, &ids);
        taken = choose(&ids, context);
        memset(context->attributes, 0, GO_HEADER_SIZE);
        if (with_id)
                memcpy(context->attributes, bytes, GO_HEADER_SIZE);
        context->attributes_size = GO_HEADER_SIZE;
        for (at = GO_HEADER_SIZE; goroutine_labels_next(bytes, size, &at, &label);)
                if (!is_among(&label, taken))
                        keep(context, &label);
        if (context->attributes_size == GO_HEADER_SIZE && !with_id)
                context->attributes_size = 0;
        return at == size;
}
