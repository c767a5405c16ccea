/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Rules of Writers
 *
 * What a program that publishes must hold to, rule by rule: process context (spanprof/process.h, enhancement
 * proposal 4719 of OpenTelemetry), thread context (spanprof/thread.h, proposal 4947), ring (spanprof/ring.h),
 * labels of goroutines, stations (spanprof/station.h). Each rule is not seen yet, held to, or violated, with
 * a sentence that says by what. The checks of this file take bytes; writer-check.h reads them in a process.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/util/macro.h"
#include "host/sampling/context/process-context.h"
#include "host/sampling/context/thread-record.h"
#include "spanprof/ring.h"

/* Each rule: its name in C, its name for people, what it asks for. Order = order of the output. */
#define WRITER_RULES(X)                                                                                      \
        X(PROCESS_MAPPING, "process-mapping", "a mapping whose name begins with OTEL_CTX begins with the header") \
        X(PROCESS_SINGLE, "process-single", "a process has one process context")                             \
        X(PROCESS_SIGNATURE, "process-signature", "the header begins with OTEL_CTX")                         \
        X(PROCESS_VERSION, "process-version", "the version is 2")                                            \
        X(PROCESS_FINISHED, "process-finished", "an update ends with a time that is not 0")                  \
        X(PROCESS_SIZE, "process-size", "the payload has 1 byte to 64 KiB")                                  \
        X(PROCESS_PAYLOAD, "process-payload", "the payload's address leads to memory of the process")        \
        X(PROCESS_CLOCK, "process-clock", "the time of publication is CLOCK_BOOTTIME's, and is not to come") \
        X(PROCESS_UPDATE, "process-update", "whatever changes gets a new time, later than the one before")   \
        X(PROCESS_FORK, "process-fork", "a child publishes what is its own")                                 \
        X(PROCESS_DONTFORK, "process-dontfork", "the header's mapping is kept from children (MADV_DONTFORK)") \
        X(PROCESS_MESSAGE, "process-message", "the payload is the protobuf message of proposal 4719")        \
        X(PROCESS_ATTRIBUTES, "process-attributes", "an attribute has a key of its own, in UTF-8")           \
        X(PROCESS_SCHEMA, "process-schema", "a key map or a variable goes with threadlocal.schema_version")  \
        X(PROCESS_KEYS, "process-keys", "the key map is a list of names, each once, in UTF-8")               \
        X(PROCESS_KEYS_GROW, "process-keys-grow", "names keep their index: the key map grows at its end")    \
        X(THREAD_SYMBOL, "thread-symbol", "the variable of the schema is exported, in thread-local memory")  \
        X(THREAD_SINGLE, "thread-single", "one file of the process has the variable")                        \
        X(THREAD_ACCESS, "thread-access", "a word of the process leads to the variable of each thread")      \
        X(THREAD_RECORD, "thread-record", "the variable is NULL or leads to a record, at an even address")   \
        X(THREAD_VALID, "thread-valid", "valid is 0 or 1")                                                   \
        X(THREAD_IDS, "thread-ids", "a record has both ids or none; without them its flags are 0")           \
        X(THREAD_SIZE, "thread-size", "a record has at most 612 bytes of attributes")                        \
        X(THREAD_ATTRIBUTES, "thread-attributes", "entries fill the attributes")                             \
        X(THREAD_TEXT, "thread-text", "values of attributes are UTF-8")                                      \
        X(THREAD_KEYS, "thread-keys", "the key map names each index that a record has")                      \
        X(THREAD_ALONE, "thread-alone", "no thread changes the record of another one")                       \
        X(THREAD_WHOLE, "thread-whole", "a record is never valid with the ids of two spans")                 \
        X(RING_MAPPING, "ring-mapping", "a private mapping named DD_OTEL_CTX, readable and writable")        \
        X(RING_MAGIC, "ring-magic", "the header begins with 0x4F54454C")                                     \
        X(RING_VERSION, "ring-version", "the version is 1")                                                  \
        X(RING_CAPACITY, "ring-capacity", "there are 1 to 16777216 slots")                                   \
        X(RING_SLOT_SIZE, "ring-slot-size", "a slot has 32 bytes")                                           \
        X(RING_RESERVED, "ring-reserved", "the last 16 bytes of the header are 0")                           \
        X(RING_ROOM, "ring-room", "header and slots lie in one mapping")                                     \
        X(RING_IN_USE, "ring-in-use", "in_use is 0 or 1")                                                    \
        X(RING_RELEASED, "ring-released", "a write ends with in_use 0")                                      \
        X(RING_WHOLE, "ring-whole", "a slot that is not in use never has the ids of two spans")              \
        X(RING_SLOT, "ring-slot", "a thread writes to the slot tid % capacity")                              \
        X(RING_APART, "ring-apart", "no two living threads share a slot")                                    \
        X(GO_LABELS, "go-labels", "labels with ids are digits as tracers write them, both or none")          \
        X(STATION_HEADER, "station-header", "version 1, and room for max_stations")                          \
        X(STATION_COUNT, "station-count", "each coroutine finds a free station")                             \
        X(STATION_EVENTS, "station-events", "events have a thread, a time that is past, and a state of 0 or 1") \
        X(STATION_NUMBERS, "station-numbers", "sequence numbers are those of a dialect, and never go back")  \
        X(STATION_FINISHED, "station-finished", "a write of an event ends")

#define WRITER_RULE_NUMBER(_name, _id, _text) WRITER_RULE_##_name,
typedef enum WriterRule { WRITER_RULES(WRITER_RULE_NUMBER) WRITER_RULES_N } WriterRule;
#undef WRITER_RULE_NUMBER

enum { WRITER_MAX_SENTENCE = 240 };

typedef enum WriterState { WRITER_NOT_SEEN, WRITER_OK, WRITER_VIOLATED } WriterState;

typedef struct WriterRules {
        WriterState states[WRITER_RULES_N];
        /* of those that are violated, by their first violation; may hold bytes of the target, masked */
        char sentences[WRITER_RULES_N][WRITER_MAX_SENTENCE];
} WriterRules;

/* Name for people, and what it asks for. */
const char *writer_rule_name(WriterRule rule);
const char *writer_rule_text(WriterRule rule);

/* The rule was seen to be held to; what was violated before stays so. */
void writer_rules_pass(WriterRules *rules, WriterRule rule);
_printf_(3, 4) void writer_rules_violate(WriterRules *rules, WriterRule rule, const char *format, ...);

/* Pure, as all that follow. A header of a ring at @address, in a mapping that ends at @end. */
void writer_rules_ring_header(WriterRules *rules, const struct spanprof_ring_header *header, uint64_t address,
                              uint64_t end);
void writer_rules_ring_slot(WriterRules *rules, const struct spanprof_ring_slot *slot, uint64_t number);

/*
 * A header of a process context, as it was read between two updates or during one. @now_ns, @born_ns:
 * BOOTTIME of the read and of the start of the process; 0 = not known, and so not asked.
 */
void writer_rules_process_header(WriterRules *rules, const struct spanprof_process_header *header,
                                 uint64_t now_ns, uint64_t born_ns);

/* A payload. Return: 0 with *contextp, PROCESS_CONTEXT_E_MALFORMED (violated), -ENOMEM. */
int writer_rules_payload(WriterRules *rules, const void *payload, size_t size, ProcessContext **contextp);

/* Two contexts of one process, one after the other. */
void writer_rules_update(WriterRules *rules, const ProcessContext *before, const ProcessContext *after);

/*
 * A record at @address, with those of its attributes that could be read (NULL = none could). @context: NULL =
 * there is none. *unknownp: an index that the key map does not name, or -1; a map that comes later may.
 */
void writer_rules_record(WriterRules *rules, const struct spanprof_thread_record *record, uint64_t address,
                         const uint8_t *attributes, const ProcessContext *context, int *unknownp);

/* Labels of a goroutine, as samples have them (goroutine-labels.h). */
void writer_rules_labels(WriterRules *rules, const uint8_t *labels, size_t size);
