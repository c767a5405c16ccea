/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Events that are Samples
 *
 * Which types of events count, what each measures, and how its fields are found in this chunk. A chunk's
 * metadata is turned into one short list of steps for each such type: pass over so many bytes or numbers, or
 * put a value into a slot.
 */

#include "core/jfr/pool.h"

/* In the order in which people see them. */
typedef enum JfrMeasure {
        JFR_CPU,
        JFR_WALL,
        JFR_WAIT,
        JFR_LOCK,
        JFR_ALLOC,
        JFR_NATIVE_ALLOC,
        JFR_LIVE,
        JFR_LIVE_COUNT,
        JFR_EXCEPTION,
        JFR_N_MEASURES,
} JfrMeasure;

/*
 * Groups of events, one for each way of measuring. Types in a group complete each other. Types of two groups
 * may tell the same again, so each group is a profile: an allocation by a sample and by its TLAB, CPU time by
 * a timer and by looks at threads. Among groups that measure the same, the first here comes first.
 */
typedef enum JfrGroup {
        JFR_DATADOG_CPU,
        JFR_CPU_TIME,
        JFR_EXECUTION,
        JFR_ASYNC_WALL,
        JFR_DATADOG_WALL,
        JFR_NATIVE_METHOD,
        JFR_TLAB,
        JFR_DATADOG_ALLOC,
        JFR_ALLOC_SAMPLE,
        JFR_LOCKS,
        JFR_MALLOC,
        JFR_ASYNC_LIVE,
        JFR_DATADOG_LIVE,
        JFR_WAITS,
        JFR_OLD_OBJECTS,
        JFR_THROWN,
        JFR_N_GROUPS,
} JfrGroup;

/* How the value of an event comes from its fields. */
typedef enum JfrValue {
        JFR_VALUE_WEIGHT,               /* `weight` or `samples`, 1 without one */
        JFR_VALUE_PERIOD,               /* 1; how much that is, each event says (jdk.CPUTimeSample) */
        JFR_VALUE_BYTES,                /* `weight` is bytes (jdk.ObjectAllocationSample) */
        JFR_VALUE_SIZE,                 /* allocationSize or size, × weight if there is one */
        JFR_VALUE_TLAB,                 /* tlabSize, else the size: what the sample stands for */
        JFR_VALUE_DURATION,
} JfrValue;

typedef struct JfrEventType {
        const char *name;
        JfrGroup group;
        JfrValue value;
        bool has_texts;                 /* its own (a path, a message), not what the profiler adds */
        const char *wait, *file;        /* attributes wait.reason and wait.file.kind; NULL = none */
} JfrEventType;

typedef enum JfrSlot {
        /* slots up to JFR_SLOT_ATTRIBUTES tell samples apart */
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
        JFR_SLOT_PERIOD,
        JFR_N_SLOTS,
} JfrSlot;

enum { JFR_N_NUMBERS = JFR_N_SLOTS - JFR_SLOT_START };      /* slots behind those that tell samples apart */

typedef enum JfrStepKind {
        JFR_STEP_INTEGER,               /* integer of `size` bytes where it is plain */
        JFR_STEP_BYTE,
        JFR_STEP_REAL,                  /* float (4) or double (8); the slot gets the bits of a double */
        JFR_STEP_NUMBER,                /* a number by reference, or in a struct of its own */
        JFR_STEP_VALUE,                 /* a value in place of a reference; the slot gets its index */
        JFR_STEP_FIELD,                 /* anything else: passed over */
} JfrStepKind;

typedef struct JfrStep {
        uint8_t kind, size;
        uint8_t slot;                   /* JFR_N_SLOTS = none */
        const JfrField *field;
        uint64_t key;                   /* key of the slot, as in JfrPlan */
} JfrStep;

/*
 * The same steps for an event whose sample is known already, as nearly all are: what it measures, and a hash
 * of the rest. For that, compressed integers that stand side by side are taken as bytes; what they say is
 * never asked.
 */
typedef enum JfrQuickKind {
        /* `n` compressed integers: into the hash, or passed over (their key is 0) */
        JFR_QUICK_RUN,
        JFR_QUICK_NUMBER,               /* a compressed integer into a number */
        JFR_QUICK_STEP,                 /* any other: the step `first` */
} JfrQuickKind;

typedef struct JfrQuick {
        uint8_t kind;
        uint8_t first, n;               /* steps */
        uint8_t number;                 /* slot - JFR_SLOT_START; JFR_N_NUMBERS = none */
        uint64_t key;
} JfrQuick;

enum { JFR_MAX_STEPS = 64 };

/*
 * Sum of what tells samples apart, each piece times its key. Keys are random, so for two combinations that
 * differ in a piece, whatever the other keys are, a handful of 2^64 keys of that piece make the sums equal.
 */
typedef unsigned __int128 JfrHash;

/* JfrValue, of the fields that the type has in this chunk. */
typedef enum JfrForm {
        JFR_FORM_ONE,
        JFR_FORM_PERIOD,                /* 1; `value` is its period, in the field's unit */
        JFR_FORM_NUMBER,                /* `value` */
        JFR_FORM_EITHER,                /* `value`, unless it is 0: then `other` */
        JFR_FORM_DURATION,              /* `value`, in the field's unit */
        JFR_FORM_REAL,                  /* `value`, rounded */
        JFR_FORM_PRODUCT,               /* `value` times `other`, rounded; of these `other` is the weight */
        JFR_FORM_NOTHING,
} JfrForm;

/* How events of a type are read in this chunk. */
typedef struct JfrPlan {
        const JfrEventType *type;       /* NULL = events of this class are no samples */
        const JfrClass *class;
        JfrStep steps[JFR_MAX_STEPS];   /* up to the last that has a slot */
        uint32_t n_steps;
        JfrQuick quick[JFR_MAX_STEPS];
        uint32_t n_quick;
        const JfrField *fields[JFR_N_SLOTS];    /* where a slot comes from; NULL = this type has none */
        const char *attribute_names[JFR_MAX_ATTRIBUTES];
        uint32_t n_attributes;
        uint32_t number;                /* number of the type in the table */
        JfrHash hash;                   /* hash of the type */
        JfrForm form;
        uint8_t value, other;           /* numbers that it is made of */
        /* random numbers; 0 = does not tell samples apart, or the type has no such field */
        uint64_t keys[JFR_N_SLOTS + 1];
        bool weight_is_real, compressed;
        JfrPools *pools;
} JfrPlan;

extern const JfrEventType jfr_event_types[];
extern const uint32_t jfr_n_event_types;

/* Return: the type of events of that name, or NULL. */
const JfrEventType *jfr_event_type(const char *name);

/* @seed: keys are made of it. Return: 0, or 1 = events of this class cannot be read. */
int jfr_plan_make(JfrPlan *plan, const JfrEventType *type, const JfrClass *class, JfrPools *pools,
                  uint64_t seed);

enum {
        _JFR_PLAN_E_SUCCESS,
        JFR_PLAN_E_MALFORMED = 1000,    /* the event is shorter than its fields */
};

/*
 * Reads one event. @slots: JFR_N_SLOTS and one more for what has none; those of the plan are set.
 * Return: 0, JFR_PLAN_E_MALFORMED, -ENOMEM.
 */
int jfr_plan_read(const JfrPlan *plan, JfrCursor *cursor, uint64_t *slots);

/*
 * A step that is no compressed integer. *valuep: what it says; of a value, a hash of its bytes.
 * Return: what is behind it; more than @end = it is not there.
 */
const uint8_t *jfr_plan_step(const JfrPlan *plan, const JfrStep *step, const uint8_t *at, const uint8_t *end,
                             uint64_t *valuep);

/* A run whose bytes are more than eight. Return: as above. */
const uint8_t *jfr_plan_long_run(const JfrPlan *plan, const JfrQuick *quick, const uint8_t *at,
                                 const uint8_t *end, JfrHash *hashp);

/*
 * Hash and numbers (JFR_N_NUMBERS and one more) of one event; those that the plan has are set. Equal bytes
 * make equal hashes; equal values that are written in different ways need not. At least 16 bytes behind the
 * event may be read.
 * Return: whether the event holds all its fields.
 */
static inline bool jfr_plan_hash(const JfrPlan *plan, const uint8_t *at, const uint8_t *end,
                                 uint64_t *numbers, JfrHash *hashp) {
        JfrHash hash = plan->hash;

        for (const JfrQuick *quick = plan->quick, *last = quick + plan->n_quick; quick < last; quick++) {
                uint64_t ends = jfr_integer_ends(at), word;

                if (quick->kind == JFR_QUICK_NUMBER)
                        numbers[quick->number] = jfr_quick_long(&at);
                else if (quick->kind == JFR_QUICK_RUN) {
                        for (unsigned n = quick->n; n > 1; n--)
                                ends &= ends - 1;
                        if (ends) {
                                memcpy(&word, at, sizeof(word));
                                hash += (JfrHash)(le64toh(word) & (ends ^ (ends - 1))) * quick->key;
                                at += ((unsigned)__builtin_ctzll(ends) + 1) / 8;
                        } else
                                at = jfr_plan_long_run(plan, quick, at, end, &hash);
                } else {
                        at = jfr_plan_step(plan, &plan->steps[quick->first], at, end, &word);
                        numbers[quick->number] = word;
                        hash += (JfrHash)word * quick->key;
                }
                /* bytes behind the event can be read, so one look afterwards is enough */
                if (at > end)
                        return false;
        }
        *hashp = hash;
        return true;
}
