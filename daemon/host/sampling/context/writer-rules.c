/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Holds records against the rules. Which fields of a header are wrong is told by the readers' own functions
 * (ring_header_faults(), process_header_faults(), process_context_decode(), thread_attributes_next()), so
 * that a reader refuses what this file names; the sentences are added here.
 */
#include "host/sampling/context/writer-rules.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/base/util/clock.h"
#include "core/base/util/text.h"
#include "host/sampling/context/goroutine-labels.h"
#include "host/sampling/context/ring.h"

enum { MAX_SHOWN = 64 };                /* bytes of a target's text in a sentence */

static const struct {
        const char *name, *text;
} rule_texts[] = {
#define WRITER_RULE_TEXT(_name, _id, _text) [WRITER_RULE_##_name] = { _id, _text },
        WRITER_RULES(WRITER_RULE_TEXT)
#undef WRITER_RULE_TEXT
};

const char *writer_rule_name(WriterRule rule) {
        return rule_texts[rule].name;
}

const char *writer_rule_text(WriterRule rule) {
        return rule_texts[rule].text;
}

void writer_rules_pass(WriterRules *rules, WriterRule rule) {
        if (rules->states[rule] == WRITER_NOT_SEEN)
                rules->states[rule] = WRITER_OK;
}

void writer_rules_violate(WriterRules *rules, WriterRule rule, const char *format, ...) {
        va_list arguments;

        if (rules->states[rule] == WRITER_VIOLATED)
                return;
        rules->states[rule] = WRITER_VIOLATED;
        va_start(arguments, format);
        vsnprintf(rules->sentences[rule], WRITER_MAX_SENTENCE, format, arguments);
        va_end(arguments);
        text_mask(rules->sentences[rule]);
}

/* Text of a target in a sentence: so many bytes, and the bytes, for `%.*s`. */
static int shown_size(ContextText text) {
        return (int)MIN(text.size, (size_t)MAX_SHOWN);
}

/* ---- ring ---- */

void writer_rules_ring_header(WriterRules *rules, const struct spanprof_ring_header *header, uint64_t address,
                              uint64_t end) {
        static const struct {
                unsigned fault;
                WriterRule rule;
        } each[] = {
                { RING_FAULT_MAGIC, WRITER_RULE_RING_MAGIC },
                { RING_FAULT_VERSION, WRITER_RULE_RING_VERSION },
                { RING_FAULT_CAPACITY, WRITER_RULE_RING_CAPACITY },
                { RING_FAULT_SLOT_SIZE, WRITER_RULE_RING_SLOT_SIZE },
                { RING_FAULT_RESERVED, WRITER_RULE_RING_RESERVED },
                { RING_FAULT_ROOM, WRITER_RULE_RING_ROOM },
        };
        unsigned faults = ring_header_faults(header, address, end);

        for (size_t i = 0; i < ARRAY_SIZE(each); i++)
                if (!(faults & each[i].fault))
                        writer_rules_pass(rules, each[i].rule);
        if (faults & RING_FAULT_MAGIC)
                writer_rules_violate(rules, WRITER_RULE_RING_MAGIC, "the mapping begins with 0x%08" PRIx32,
                                     header->magic);
        if (faults & RING_FAULT_VERSION)
                writer_rules_violate(rules, WRITER_RULE_RING_VERSION, "the version is %" PRIu32,
                                     header->version);
        if (faults & RING_FAULT_CAPACITY)
                writer_rules_violate(rules, WRITER_RULE_RING_CAPACITY, "it says %" PRIu32 " slots",
                                     header->capacity);
        if (faults & RING_FAULT_SLOT_SIZE)
                writer_rules_violate(rules, WRITER_RULE_RING_SLOT_SIZE, "it says %" PRIu32 " bytes a slot",
                                     header->slot_size);
        if (faults & RING_FAULT_RESERVED)
                writer_rules_violate(rules, WRITER_RULE_RING_RESERVED, "they are not all 0");
        if (faults & RING_FAULT_ROOM)
                writer_rules_violate(rules, WRITER_RULE_RING_ROOM,
                                     "%" PRIu32 " slots reach over the end of the mapping, which has %" PRIu64
                                     " bytes from the header on",
                                     header->capacity, end > address ? end - address : 0);
}

void writer_rules_ring_slot(WriterRules *rules, const struct spanprof_ring_slot *slot, uint64_t number) {
        if (slot->in_use > 1)
                writer_rules_violate(rules, WRITER_RULE_RING_IN_USE, "it is %u in slot %" PRIu64,
                                     slot->in_use, number);
        else
                writer_rules_pass(rules, WRITER_RULE_RING_IN_USE);
}

/* ---- process context ---- */

static void check_clock(WriterRules *rules, uint64_t published_ns, uint64_t now_ns, uint64_t born_ns) {
        if (now_ns && published_ns > now_ns + NS_PER_SEC)
                writer_rules_violate(rules, WRITER_RULE_PROCESS_CLOCK,
                                     "it was published %.1f s from now, by that clock",
                                     (double)(published_ns - now_ns) / NS_PER_SEC);
        else if (now_ns)
                writer_rules_pass(rules, WRITER_RULE_PROCESS_CLOCK);
        if (born_ns && published_ns < born_ns)
                writer_rules_violate(rules, WRITER_RULE_PROCESS_FORK,
                                     "it was published %.1f s before the process began: a parent's, or by another clock",
                                     (double)(born_ns - published_ns) / NS_PER_SEC);
        else if (born_ns)
                writer_rules_pass(rules, WRITER_RULE_PROCESS_FORK);
}

void writer_rules_process_header(WriterRules *rules, const struct spanprof_process_header *header,
                                 uint64_t now_ns, uint64_t born_ns) {
        unsigned faults = process_header_faults(header);

        if (faults & PROCESS_FAULT_SIGNATURE) {
                writer_rules_violate(rules, WRITER_RULE_PROCESS_SIGNATURE, "the mapping begins with other bytes");
                return;
        }
        writer_rules_pass(rules, WRITER_RULE_PROCESS_SIGNATURE);
        if (faults & PROCESS_FAULT_VERSION) {
                writer_rules_violate(rules, WRITER_RULE_PROCESS_VERSION, "the version is %" PRIu32,
                                     header->version);
                return;                 /* other versions have other fields */
        }
        writer_rules_pass(rules, WRITER_RULE_PROCESS_VERSION);
        if (faults & PROCESS_FAULT_TIME)
                return;                 /* the other fields are being written */
        if (faults & PROCESS_FAULT_SIZE)
                writer_rules_violate(rules, WRITER_RULE_PROCESS_SIZE, "it has %" PRIu32 " bytes",
                                     header->payload_size);
        else
                writer_rules_pass(rules, WRITER_RULE_PROCESS_SIZE);
        check_clock(rules, header->published_ns, now_ns, born_ns);
}

static bool is_same_text(ContextText a, ContextText b) {
        return a.size == b.size && !memcmp(a.data, b.data, a.size);
}

static void check_attributes(WriterRules *rules, const ProcessContext *context) {
        for (size_t i = 0; i < context->n_attributes; i++) {
                ContextText key = context->attributes[i].key, value = context->attributes[i].string;

                if (!text_is_utf8(key.data, key.size) ||
                    (context->attributes[i].kind == CONTEXT_STRING && !text_is_utf8(value.data, value.size)))
                        writer_rules_violate(rules, WRITER_RULE_PROCESS_ATTRIBUTES,
                                             "`%.*s` or its value is no UTF-8", shown_size(key), key.data);
                for (size_t j = 0; j < i; j++)
                        if (is_same_text(key, context->attributes[j].key))
                                writer_rules_violate(rules, WRITER_RULE_PROCESS_ATTRIBUTES,
                                                     "`%.*s` is there twice", shown_size(key), key.data);
        }
        if (context->n_attributes)
                writer_rules_pass(rules, WRITER_RULE_PROCESS_ATTRIBUTES);
}

static void check_keys(WriterRules *rules, const ProcessContext *context) {
        for (size_t i = 0; i < context->n_keys; i++) {
                ContextText key = context->keys[i];

                if (!key.size)
                        writer_rules_violate(rules, WRITER_RULE_PROCESS_KEYS, "index %zu has no name", i);
                else if (!text_is_utf8(key.data, key.size))
                        writer_rules_violate(rules, WRITER_RULE_PROCESS_KEYS, "the name of index %zu is no UTF-8",
                                             i);
                for (size_t j = 0; j < i; j++)
                        if (key.size && is_same_text(key, context->keys[j]))
                                writer_rules_violate(rules, WRITER_RULE_PROCESS_KEYS,
                                                     "indexes %zu and %zu are both `%.*s`", j, i,
                                                     shown_size(key), key.data);
        }
        if (context->n_keys)
                writer_rules_pass(rules, WRITER_RULE_PROCESS_KEYS);
}

int writer_rules_payload(WriterRules *rules, const void *payload, size_t size, ProcessContext **contextp) {
        int r = process_context_decode(payload, size, contextp);

        if (r == PROCESS_CONTEXT_E_MALFORMED)
                writer_rules_violate(rules, WRITER_RULE_PROCESS_MESSAGE, "its %zu bytes are no such message",
                                     size);
        if (r)
                return r;
        writer_rules_pass(rules, WRITER_RULE_PROCESS_MESSAGE);
        check_attributes(rules, *contextp);
        check_keys(rules, *contextp);
        if ((*contextp)->n_keys && !(*contextp)->schema.size)
                writer_rules_violate(rules, WRITER_RULE_PROCESS_SCHEMA,
                                     "there is threadlocal.attribute_key_map, and no threadlocal.schema_version");
        else if ((*contextp)->schema.size)
                writer_rules_pass(rules, WRITER_RULE_PROCESS_SCHEMA);
        return 0;
}

static void check_growth(WriterRules *rules, const ProcessContext *before, const ProcessContext *after) {
        for (size_t i = 0; i < before->n_keys; i++) {
                ContextText old = before->keys[i];

                if (i >= after->n_keys)
                        writer_rules_violate(rules, WRITER_RULE_PROCESS_KEYS_GROW,
                                             "index %zu was `%.*s`, and is not there any more", i,
                                             shown_size(old), old.data);
                else if (!is_same_text(old, after->keys[i]))
                        writer_rules_violate(rules, WRITER_RULE_PROCESS_KEYS_GROW,
                                             "index %zu was `%.*s`, and is `%.*s` now", i, shown_size(old),
                                             old.data, shown_size(after->keys[i]), after->keys[i].data);
        }
        if (before->n_keys)
                writer_rules_pass(rules, WRITER_RULE_PROCESS_KEYS_GROW);
}

void writer_rules_update(WriterRules *rules, const ProcessContext *before, const ProcessContext *after) {
        bool is_same = before->payload_size == after->payload_size &&
                !memcmp(before->payload, after->payload, after->payload_size);

        if (after->published_ns < before->published_ns)
                writer_rules_violate(rules, WRITER_RULE_PROCESS_UPDATE, "its time went back by %.3f s",
                                     (double)(before->published_ns - after->published_ns) / NS_PER_SEC);
        else if (after->published_ns == before->published_ns && !is_same)
                writer_rules_violate(rules, WRITER_RULE_PROCESS_UPDATE,
                                     "the payload changed under the time that it had before");
        else if (after->published_ns > before->published_ns) {
                writer_rules_pass(rules, WRITER_RULE_PROCESS_UPDATE);
                check_growth(rules, before, after);
        }
}

/* ---- thread context ---- */

static void check_ids(WriterRules *rules, const struct spanprof_thread_record *record) {
        static const uint8_t zero[sizeof(record->trace_id)];
        bool has_trace = memcmp(record->trace_id, zero, sizeof(record->trace_id)),
             has_span = memcmp(record->span_id, zero, sizeof(record->span_id));

        if (has_trace != has_span)
                writer_rules_violate(rules, WRITER_RULE_THREAD_IDS, "a record has a %s id, and no %s id",
                                     has_trace ? "trace" : "span", has_trace ? "span" : "trace");
        else if (!has_trace && record->trace_flags)
                writer_rules_violate(rules, WRITER_RULE_THREAD_IDS, "a record without ids has the flags 0x%02x",
                                     record->trace_flags);
        else
                writer_rules_pass(rules, WRITER_RULE_THREAD_IDS);
}

static void check_entries(WriterRules *rules, const uint8_t *attributes, size_t size,
                          const ProcessContext *context, int *unknownp) {
        ThreadAttribute entry;
        size_t at = 0;

        while (thread_attributes_next(attributes, size, &at, &entry)) {
                if (!text_is_utf8((const char *)entry.value, entry.size))
                        writer_rules_violate(rules, WRITER_RULE_THREAD_TEXT,
                                             "the value of index %u is no UTF-8", entry.key);
                if (!context || entry.key >= context->n_keys)
                        *unknownp = entry.key;
                else
                        writer_rules_pass(rules, WRITER_RULE_THREAD_KEYS);
        }
        if (at != size)
                writer_rules_violate(rules, WRITER_RULE_THREAD_ATTRIBUTES,
                                     "an entry reaches over the end of %zu bytes", size);
        writer_rules_pass(rules, WRITER_RULE_THREAD_ATTRIBUTES);
        if (at)
                writer_rules_pass(rules, WRITER_RULE_THREAD_TEXT);
}

void writer_rules_record(WriterRules *rules, const struct spanprof_thread_record *record, uint64_t address,
                         const uint8_t *attributes, const ProcessContext *context, int *unknownp) {
        *unknownp = -1;
        if (address % 2)
                writer_rules_violate(rules, WRITER_RULE_THREAD_RECORD, "a record lies at 0x%" PRIx64, address);
        else
                writer_rules_pass(rules, WRITER_RULE_THREAD_RECORD);
        if (record->valid > SPANPROF_THREAD_VALID)
                writer_rules_violate(rules, WRITER_RULE_THREAD_VALID, "it is %u", record->valid);
        else
                writer_rules_pass(rules, WRITER_RULE_THREAD_VALID);
        if (record->valid != SPANPROF_THREAD_VALID)
                return;                 /* no context, or it is being written */
        check_ids(rules, record);
        if (record->attributes_size > SPANPROF_THREAD_MAX_ATTRIBUTES)
                writer_rules_violate(rules, WRITER_RULE_THREAD_SIZE, "a record says that it has %u bytes",
                                     record->attributes_size);
        else
                writer_rules_pass(rules, WRITER_RULE_THREAD_SIZE);
        if (record->attributes_size > SPANPROF_THREAD_MAX_ATTRIBUTES || !record->attributes_size)
                return;
        if (attributes)
                check_entries(rules, attributes, record->attributes_size, context, unknownp);
        else
                writer_rules_violate(rules, WRITER_RULE_THREAD_ATTRIBUTES,
                                     "%u bytes of a record reach into memory that is not there",
                                     record->attributes_size);
}

/* ---- labels ---- */

void writer_rules_labels(WriterRules *rules, const uint8_t *labels, size_t size) {
        static const char *const ids[] = { "trace_id", "span_id", "local root span id", "span id" };
        GoroutineContext context;
        GoroutineLabel label;
        size_t at = GO_HEADER_SIZE;

        if (!goroutine_context_read(labels, size, true, &context))
                return;
        if (context.span.span)
                writer_rules_pass(rules, WRITER_RULE_GO_LABELS);
        while (goroutine_labels_next(context.attributes, context.attributes_size, &at, &label))
                for (size_t i = 0; i < ARRAY_SIZE(ids); i++)
                        if (label.key_size == strlen(ids[i]) && !memcmp(label.key, ids[i], label.key_size))
                                writer_rules_violate(rules, WRITER_RULE_GO_LABELS,
                                                     "`%s` is no number of its form, or has no other id beside it",
                                                     ids[i]);
}
