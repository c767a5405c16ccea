/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Events that are Samples
 *
 * Which types of events count, what each measures, and how its fields are found in this chunk. A chunk's metadata is
 * turned into one short list of steps for each such type: pass over so many bytes or numbers, or put a value into a slot.
 */

#include "jfr/metadata.h"

typedef enum JfrMeasure {
        JFR_CPU,
        JFR_WALL,
        JFR_ALLOC,
        JFR_LOCK,
        JFR_NATIVE_ALLOC,
        JFR_LIVE,
        JFR_N_MEASURES,
} JfrMeasure;

/* How the value of an event comes from its fields. */
typedef enum JfrValue {
        JFR_VALUE_WEIGHT,               /* `weight` or `samples`, 1 without one */
        JFR_VALUE_BYTES,                /* `weight` is bytes (jdk.ObjectAllocationSample) */
        JFR_VALUE_SIZE,                 /* allocationSize or size, × weight if there is one */
        JFR_VALUE_TLAB,                 /* tlabSize, else the size: what the sample stands for */
        JFR_VALUE_DURATION,
} JfrValue;

typedef struct JfrEventType {
        const char *name;
        JfrMeasure measure;
        JfrValue value;
} JfrEventType;

typedef enum JfrSlot {
        /* those up to JFR_SLOT_ATTRIBUTES tell one sample from another */
        JFR_SLOT_STACK,
        JFR_SLOT_SPAN,
        JFR_SLOT_ROOT,
        JFR_SLOT_TRACE,
        JFR_SLOT_TRACE_HIGH,
        JFR_SLOT_THREAD,                /* from here on they make the sample's attributes */
        JFR_SLOT_STATE,
        JFR_SLOT_CLASS,
        JFR_SLOT_ATTRIBUTES,            /* the first of JFR_MAX_ATTRIBUTES */
        JFR_MAX_ATTRIBUTES = 12,
        JFR_SLOT_START = JFR_SLOT_ATTRIBUTES + JFR_MAX_ATTRIBUTES,
        JFR_SLOT_DURATION,
        JFR_SLOT_WEIGHT,
        JFR_SLOT_SIZE,
        JFR_SLOT_TLAB,
        JFR_N_SLOTS,
} JfrSlot;

typedef enum JfrStepKind {
        JFR_STEP_COMPRESSED,            /* an integer in a chunk that compresses them: nearly all of nearly all events */
        JFR_STEP_INTEGER,               /* of `size` bytes */
        JFR_STEP_BYTE,
        JFR_STEP_REAL,                  /* float (4) or double (8); the slot gets the bits of a double */
        JFR_STEP_TEXT,                  /* the slot gets the window string that `take_text` makes */
        JFR_STEP_FIELD,                 /* anything else: passed over */
} JfrStepKind;

typedef struct JfrStep {
        uint8_t kind, size;
        uint8_t slot;                   /* JFR_N_SLOTS = none */
        const JfrField *field;
        uint64_t key;                   /* of the slot, as in JfrPlan */
} JfrStep;

enum { JFR_MAX_STEPS = 64 };

/*
 * Sum of the slots that tell samples apart, each times its key. Keys are random, so for two combinations that differ in a slot,
 * whatever the other keys are, a handful of 2^64 keys of that slot make the sums equal.
 */
typedef unsigned __int128 JfrHash;

/* One type of this chunk. */
typedef struct JfrPlan {
        const JfrEventType *type;       /* NULL = events of this class are no samples */
        const JfrClass *class;
        JfrStep steps[JFR_MAX_STEPS];   /* up to the last that has a slot */
        uint32_t n_steps;
        const JfrField *fields[JFR_N_SLOTS];    /* where a slot comes from; NULL = this type has none */
        const char *attribute_names[JFR_MAX_ATTRIBUTES];
        uint32_t n_attributes;
        uint32_t number;                /* of its type in the table */
        JfrHash hash;                   /* of the type */
        uint64_t keys[JFR_N_SLOTS + 1]; /* random numbers; 0 = does not tell samples apart, or the type has no such field */
        bool weight_is_real;
} JfrPlan;

extern const JfrEventType jfr_event_types[];
extern const uint32_t jfr_n_event_types;

/* Return: the type of events of that name, or NULL. */
const JfrEventType *jfr_event_type(const char *name);

/* @seed: keys are made of it. Return: 0, or 1 = events of this class cannot be read. */
int jfr_plan_make(JfrPlan *plan, const JfrEventType *type, const JfrClass *class, bool compressed, uint64_t seed);

/* Makes a text of an event into a number that is the same for equal texts. Return: 0, or a code that ends the reading. */
typedef int (*JfrTakeText)(const JfrString *string, uint64_t *valuep, void *userdata);

enum {
        _JFR_PLAN_E_SUCCESS,
        JFR_PLAN_E_MALFORMED = 1000,    /* the event is shorter than its fields */
};

/*
 * Reads one event. @slots: JFR_N_SLOTS and one more for what has none; those of the plan are set. *hashp: of them and the type.
 * At least 16 bytes behind the event may be read.
 * Return: 0, JFR_PLAN_E_MALFORMED, or what @take_text returned.
 */
int jfr_plan_read(const JfrPlan *plan, JfrCursor *cursor, uint64_t *slots, JfrHash *hashp, JfrTakeText take_text,
                  void *userdata);
