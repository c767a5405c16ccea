/* SPDX-License-Identifier: Apache-2.0 */
#include "jfr/event.h"

#include "util/intern.h"
#include "util/macro.h"

const JfrEventType jfr_event_types[] = {
        { "jdk.ExecutionSample", JFR_CPU, JFR_VALUE_WEIGHT },
        { "jdk.CPUTimeSample", JFR_CPU, JFR_VALUE_WEIGHT },
        { "jdk.NativeMethodSample", JFR_WALL, JFR_VALUE_WEIGHT },
        { "datadog.ExecutionSample", JFR_CPU, JFR_VALUE_WEIGHT },
        { "datadog.MethodSample", JFR_WALL, JFR_VALUE_WEIGHT },
        { "profiler.WallClockSample", JFR_WALL, JFR_VALUE_WEIGHT },
        { "jdk.ObjectAllocationSample", JFR_ALLOC, JFR_VALUE_BYTES },
        { "jdk.ObjectAllocationInNewTLAB", JFR_ALLOC, JFR_VALUE_TLAB },
        { "jdk.ObjectAllocationOutsideTLAB", JFR_ALLOC, JFR_VALUE_SIZE },
        { "datadog.ObjectSample", JFR_ALLOC, JFR_VALUE_SIZE },
        { "jdk.JavaMonitorEnter", JFR_LOCK, JFR_VALUE_DURATION },
        { "jdk.JavaMonitorWait", JFR_LOCK, JFR_VALUE_DURATION },
        { "jdk.ThreadPark", JFR_LOCK, JFR_VALUE_DURATION },
        { "profiler.NativeLock", JFR_LOCK, JFR_VALUE_DURATION },
        { "profiler.Malloc", JFR_NATIVE_ALLOC, JFR_VALUE_SIZE },
        { "profiler.LiveObject", JFR_LIVE, JFR_VALUE_SIZE },
        { "datadog.HeapLiveObject", JFR_LIVE, JFR_VALUE_SIZE },
};

const uint32_t jfr_n_event_types = ARRAY_SIZE(jfr_event_types);

const JfrEventType *jfr_event_type(const char *name) {
        for (size_t i = 0; i < ARRAY_SIZE(jfr_event_types); i++)
                if (!strcmp(jfr_event_types[i].name, name))
                        return &jfr_event_types[i];
        return NULL;
}

/* Names of fields, the same in all types that have them. */
static const struct {
        const char *name;
        JfrSlot slot;
        bool pool;                      /* an index into a pool */
} known_fields[] = {
        { "startTime", JFR_SLOT_START, false },
        { "duration", JFR_SLOT_DURATION, false },
        { "stackTrace", JFR_SLOT_STACK, true },
        { "sampledThread", JFR_SLOT_THREAD, true },
        { "eventThread", JFR_SLOT_THREAD, true },
        { "state", JFR_SLOT_STATE, true },
        { "objectClass", JFR_SLOT_CLASS, true },
        { "monitorClass", JFR_SLOT_CLASS, true },
        { "parkedClass", JFR_SLOT_CLASS, true },
        { "spanId", JFR_SLOT_SPAN, false },
        { "localRootSpanId", JFR_SLOT_ROOT, false },
        { "traceId", JFR_SLOT_TRACE, false },
        { "traceIdLow", JFR_SLOT_TRACE, false },
        { "traceIdHigh", JFR_SLOT_TRACE_HIGH, false },
        { "weight", JFR_SLOT_WEIGHT, false },
        { "samples", JFR_SLOT_WEIGHT, false },
        { "size", JFR_SLOT_SIZE, false },
        { "allocationSize", JFR_SLOT_SIZE, false },
        { "tlabSize", JFR_SLOT_TLAB, false },
};

/* A text, or an index of one: in the pool of strings, or in the one that Datadog's profiler keeps for such values. */
static bool is_text(const JfrField *field) {
        if (field->array || !field->class)
                return false;
        return field->class->kind == JFR_TEXT || (field->pool && !strcmp(field->class->name, "profiler.types.AttributeValue"));
}

static JfrSlot slot_of(JfrPlan *plan, const JfrField *field) {
        for (size_t i = 0; i < ARRAY_SIZE(known_fields); i++) {
                bool number = !field->pool && field->class->kind >= JFR_BOOLEAN && field->class->kind <= JFR_DOUBLE;

                if (strcmp(known_fields[i].name, field->name) || field->array)
                        continue;
                if (plan->fields[known_fields[i].slot] || (known_fields[i].pool ? !field->pool : !number))
                        return JFR_N_SLOTS;
                return known_fields[i].slot;
        }
        /* context attributes: text fields whose names were chosen when the profiler was started */
        if (is_text(field) && plan->n_attributes < JFR_MAX_ATTRIBUTES) {
                plan->attribute_names[plan->n_attributes] = field->name;
                return (JfrSlot)(JFR_SLOT_ATTRIBUTES + plan->n_attributes++);
        }
        return JFR_N_SLOTS;
}

static JfrStep step_of(const JfrField *field, JfrSlot slot) {
        static const uint8_t sizes[] = { [JFR_CHAR] = 2, [JFR_SHORT] = 2, [JFR_INT] = 4,
                                         [JFR_LONG] = 8, [JFR_FLOAT] = 4, [JFR_DOUBLE] = 8 };
        JfrStep step = { .kind = JFR_STEP_FIELD, .slot = (uint8_t)slot, .field = field };

        if (field->array)
                return step;
        if (field->pool) {
                step.kind = JFR_STEP_INTEGER;
                step.size = 8;
                return step;
        }
        switch (field->class->kind) {
        case JFR_BOOLEAN:
        case JFR_BYTE:
                step.kind = JFR_STEP_BYTE;
                break;
        case JFR_CHAR:
        case JFR_SHORT:
        case JFR_INT:
        case JFR_LONG:
                step.kind = JFR_STEP_INTEGER;
                step.size = sizes[field->class->kind];
                break;
        case JFR_FLOAT:
        case JFR_DOUBLE:
                step.kind = JFR_STEP_REAL;
                step.size = sizes[field->class->kind];
                break;
        case JFR_TEXT:
                step.kind = slot == JFR_N_SLOTS ? JFR_STEP_FIELD : JFR_STEP_TEXT;
                break;
        default:
                break;
        }
        return step;
}

static void make_keys(JfrPlan *plan, uint64_t seed) {
        plan->hash = hash_bytes(&(uint64_t[]){ seed, JFR_N_SLOTS + plan->number }, 2 * sizeof(seed));
        for (uint64_t slot = 0; slot < JFR_SLOT_START; slot++)
                if (plan->fields[slot])
                        plan->keys[slot] = hash_bytes(&(uint64_t[]){ seed, slot }, 2 * sizeof(seed));
        for (uint32_t i = 0; i < plan->n_steps; i++)
                plan->steps[i].key = plan->keys[plan->steps[i].slot];
}

int jfr_plan_make(JfrPlan *plan, const JfrEventType *type, const JfrClass *class, bool compressed, uint64_t seed) {
        *plan = (JfrPlan){ .type = type, .class = class, .number = (uint32_t)(type - jfr_event_types) };
        if (class->broken || class->kind != JFR_STRUCT)
                return 1;
        for (uint32_t i = 0; i < class->n_fields && i < JFR_MAX_STEPS; i++) {
                const JfrField *field = &class->fields[i];
                JfrSlot slot = field->array || (!field->pool && !field->class) ? JFR_N_SLOTS : slot_of(plan, field);

                plan->steps[i] = step_of(field, slot);
                if (plan->steps[i].kind == JFR_STEP_INTEGER && compressed)
                        plan->steps[i].kind = JFR_STEP_COMPRESSED;
                if (slot == JFR_N_SLOTS)
                        continue;
                plan->fields[slot] = field;
                plan->n_steps = i + 1;
        }
        make_keys(plan, seed);
        plan->weight_is_real = plan->fields[JFR_SLOT_WEIGHT] && (plan->fields[JFR_SLOT_WEIGHT]->class->kind == JFR_FLOAT ||
                                                                 plan->fields[JFR_SLOT_WEIGHT]->class->kind == JFR_DOUBLE);
        return 0;
}

static int read_text(const JfrStep *step, JfrCursor *cursor, uint64_t *slotp, JfrTakeText take_text, void *userdata) {
        JfrString string = jfr_string(cursor);

        return cursor->failed ? JFR_PLAN_E_MALFORMED : take_text(&string, slotp, userdata);
}

/* A step of any kind. Return: 0, JFR_PLAN_E_MALFORMED, or what @take_text returned. */
static int read_step(const JfrStep *step, JfrCursor *cursor, uint64_t *valuep, JfrTakeText take_text, void *userdata) {
        double real;
        int r = 0;

        *valuep = 0;
        switch (step->kind) {
        case JFR_STEP_INTEGER:
                *valuep = jfr_integer(cursor, step->size);
                break;
        case JFR_STEP_BYTE:
                *valuep = jfr_byte(cursor);
                break;
        case JFR_STEP_REAL:
                real = step->size == 4 ? jfr_float(cursor) : jfr_double(cursor);
                memcpy(valuep, &real, sizeof(*valuep));
                break;
        case JFR_STEP_TEXT:
                r = read_text(step, cursor, valuep, take_text, userdata);
                break;
        default:
                jfr_skip_field(cursor, step->field);
        }
        return r ? r : cursor->failed ? JFR_PLAN_E_MALFORMED : 0;
}

int jfr_plan_read(const JfrPlan *plan, JfrCursor *cursor, uint64_t *slots, JfrHash *hashp, JfrTakeText take_text,
                  void *userdata) {
        const uint8_t *at = cursor->at, *end = cursor->end;
        JfrHash hash = plan->hash;

        for (const JfrStep *step = plan->steps, *last = step + plan->n_steps; step < last; step++) {
                uint64_t value;
                int r;

                if (step->kind == JFR_STEP_COMPRESSED) {
                        value = jfr_quick_compressed(&at);
                        if (at > end)           /* what is behind the event can be read, so one look afterwards is enough */
                                return JFR_PLAN_E_MALFORMED;
                } else {
                        cursor->at = at;
                        r = read_step(step, cursor, &value, take_text, userdata);
                        if (r)
                                return r;
                        at = cursor->at;
                }
                slots[step->slot] = value;
                hash += (JfrHash)value * step->key;
        }
        *hashp = hash;
        return 0;
}
