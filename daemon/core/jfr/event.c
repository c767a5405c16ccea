/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Makes from the metadata of a type the steps that read its events: fields that nothing needs are passed
 * over together.
 */

#include "core/jfr/event.h"

#include "core/base/data/intern.h"
#include "core/base/util/macro.h"

const JfrEventType jfr_event_types[] = {
        { "jdk.ExecutionSample", JFR_EXECUTION, JFR_VALUE_WEIGHT },
        { "jdk.CPUTimeSample", JFR_CPU_TIME, JFR_VALUE_PERIOD },
        { "jdk.NativeMethodSample", JFR_NATIVE_METHOD, JFR_VALUE_WEIGHT },
        { "datadog.ExecutionSample", JFR_DATADOG_CPU, JFR_VALUE_WEIGHT },
        { "datadog.MethodSample", JFR_DATADOG_WALL, JFR_VALUE_WEIGHT },
        { "profiler.WallClockSample", JFR_ASYNC_WALL, JFR_VALUE_WEIGHT },
        { "jdk.ObjectAllocationSample", JFR_ALLOC_SAMPLE, JFR_VALUE_BYTES },
        { "jdk.ObjectAllocationInNewTLAB", JFR_TLAB, JFR_VALUE_TLAB },
        { "jdk.ObjectAllocationOutsideTLAB", JFR_TLAB, JFR_VALUE_SIZE },
        { "datadog.ObjectSample", JFR_DATADOG_ALLOC, JFR_VALUE_SIZE },
        { "jdk.JavaMonitorEnter", JFR_LOCKS, JFR_VALUE_DURATION },
        { "jdk.JavaMonitorWait", JFR_LOCKS, JFR_VALUE_DURATION },
        { "jdk.ThreadPark", JFR_LOCKS, JFR_VALUE_DURATION },
        { "profiler.NativeLock", JFR_LOCKS, JFR_VALUE_DURATION },
        { "profiler.Malloc", JFR_MALLOC, JFR_VALUE_SIZE },
        { "profiler.LiveObject", JFR_ASYNC_LIVE, JFR_VALUE_SIZE },
        { "datadog.HeapLiveObject", JFR_DATADOG_LIVE, JFR_VALUE_SIZE },
        { "jdk.FileRead", JFR_WAITS, JFR_VALUE_DURATION, true, "read", "file" },
        { "jdk.FileWrite", JFR_WAITS, JFR_VALUE_DURATION, true, "write", "file" },
        { "jdk.SocketRead", JFR_WAITS, JFR_VALUE_DURATION, true, "read", "socket" },
        { "jdk.SocketWrite", JFR_WAITS, JFR_VALUE_DURATION, true, "write", "socket" },
        { "jdk.ThreadSleep", JFR_WAITS, JFR_VALUE_DURATION, true, "sleep" },
        { "jdk.VirtualThreadPinned", JFR_WAITS, JFR_VALUE_DURATION, true, "pinned" },
        { "jdk.OldObjectSample", JFR_OLD_OBJECTS, JFR_VALUE_WEIGHT, true },
        { "jdk.JavaExceptionThrow", JFR_THROWN, JFR_VALUE_WEIGHT, true },
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
        bool pool;                      /* a value that is usually an index into a pool */
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
        { "thrownClass", JFR_SLOT_CLASS, true },
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
        { "samplingPeriod", JFR_SLOT_PERIOD, false },
};

/*
 * A text, or an index of one: in the pool of strings, or in the one that Datadog's profiler keeps for such
 * values.
 */
static bool is_text(const JfrField *field) {
        if (field->array || !field->class)
                return false;
        return field->class->kind == JFR_TEXT ||
                (field->pool && !strcmp(field->class->name, "profiler.types.AttributeValue"));
}

static JfrSlot slot_of(JfrPlan *plan, const JfrField *field) {
        const JfrClass *number = jfr_number_class(field);

        for (size_t i = 0; i < ARRAY_SIZE(known_fields); i++) {
                if (strcmp(known_fields[i].name, field->name) || field->array)
                        continue;
                if (plan->fields[known_fields[i].slot] || (known_fields[i].pool ? !field->class : !number))
                        return JFR_N_SLOTS;
                return known_fields[i].slot;
        }
        /* context attributes: text fields whose names were chosen when the profiler was started */
        if (is_text(field) && !plan->type->has_texts && plan->n_attributes < JFR_MAX_ATTRIBUTES) {
                plan->attribute_names[plan->n_attributes] = field->name;
                return (JfrSlot)(JFR_SLOT_ATTRIBUTES + plan->n_attributes++);
        }
        return JFR_N_SLOTS;
}

static bool is_number(JfrSlot slot) {
        return (slot >= JFR_SLOT_SPAN && slot <= JFR_SLOT_TRACE_HIGH) ||
                (slot >= JFR_SLOT_START && slot < JFR_N_SLOTS);
}

static JfrStep step_of(const JfrField *field, JfrSlot slot) {
        static const uint8_t sizes[] = { [JFR_CHAR] = 2, [JFR_SHORT] = 2, [JFR_INT] = 4,
                                         [JFR_LONG] = 8, [JFR_FLOAT] = 4, [JFR_DOUBLE] = 8 };
        JfrStep step = { .kind = JFR_STEP_FIELD, .slot = (uint8_t)slot, .field = field };

        if (field->array)
                return step;
        if (is_number(slot) && (field->pool || field->class->kind == JFR_STRUCT)) {
                step.kind = JFR_STEP_NUMBER;
                return step;
        }
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
        default:
                step.kind = slot == JFR_N_SLOTS ? JFR_STEP_FIELD : JFR_STEP_VALUE;
                break;
        }
        return step;
}

static void make_keys(JfrPlan *plan, uint64_t seed) {
        plan->hash = hash_bytes(&(uint64_t[]){ seed, JFR_N_SLOTS + plan->number }, 2 * sizeof(seed));
        for (uint64_t slot = 0; slot < JFR_SLOT_START; slot++)
                if (plan->fields[slot])
                        plan->keys[slot] = hash_bytes(&(uint64_t[]){ seed, slot }, 2 * sizeof(seed)) | 1;
        for (uint32_t i = 0; i < plan->n_steps; i++)
                plan->steps[i].key = plan->keys[plan->steps[i].slot];
}

/* Whether a step can be taken as bytes: one whose value is not asked for, once its sample is known. */
static bool joins_run(const JfrStep *step) {
        return step->kind == JFR_STEP_INTEGER && (step->slot < JFR_SLOT_START || step->slot == JFR_N_SLOTS);
}

static void make_quick(JfrPlan *plan) {
        JfrQuick *last = NULL;

        for (uint32_t i = 0; i < plan->n_steps; i++) {
                const JfrStep *step = &plan->steps[i];
                bool run = plan->compressed && joins_run(step);

                if (run && last && last->kind == JFR_QUICK_RUN && !last->key == !step->key) {
                        last->n++;
                        continue;
                }
                last = &plan->quick[plan->n_quick++];
                *last = (JfrQuick){ .kind = JFR_QUICK_STEP,
                                    .first = (uint8_t)i,
                                    .n = 1,
                                    .number = JFR_N_NUMBERS,
                                    .key = step->key };
                if (plan->compressed && step->kind == JFR_STEP_INTEGER)
                        last->kind = run ? JFR_QUICK_RUN : JFR_QUICK_NUMBER;
                if (step->slot >= JFR_SLOT_START && step->slot < JFR_N_SLOTS)
                        last->number = (uint8_t)(step->slot - JFR_SLOT_START);
        }
}

static uint8_t number_of(JfrSlot slot) {
        return (uint8_t)(slot - JFR_SLOT_START);
}

static void choose_form(JfrPlan *plan) {
        bool weight = plan->fields[JFR_SLOT_WEIGHT], size = plan->fields[JFR_SLOT_SIZE],
             tlab = plan->fields[JFR_SLOT_TLAB];

        plan->other = number_of(JFR_SLOT_WEIGHT);
        switch (plan->type->value) {
        case JFR_VALUE_DURATION:
                plan->value = number_of(JFR_SLOT_DURATION);
                plan->form = plan->fields[JFR_SLOT_DURATION] ? JFR_FORM_DURATION : JFR_FORM_NOTHING;
                break;
        case JFR_VALUE_PERIOD:
                plan->value = number_of(JFR_SLOT_PERIOD);
                plan->form = plan->fields[JFR_SLOT_PERIOD] ? JFR_FORM_PERIOD : JFR_FORM_ONE;
                break;
        case JFR_VALUE_TLAB:
                plan->value = number_of(tlab ? JFR_SLOT_TLAB : JFR_SLOT_SIZE);
                plan->other = number_of(JFR_SLOT_SIZE);
                plan->form = tlab && size ? JFR_FORM_EITHER
                        : tlab || size    ? JFR_FORM_NUMBER
                                          : JFR_FORM_NOTHING;
                break;
        case JFR_VALUE_SIZE:
                plan->value = number_of(JFR_SLOT_SIZE);
                plan->form = !size ? JFR_FORM_NOTHING : weight ? JFR_FORM_PRODUCT : JFR_FORM_NUMBER;
                break;
        default:
                plan->value = number_of(JFR_SLOT_WEIGHT);
                plan->form = !weight ? JFR_FORM_ONE : plan->weight_is_real ? JFR_FORM_REAL : JFR_FORM_NUMBER;
        }
}

int jfr_plan_make(JfrPlan *plan, const JfrEventType *type, const JfrClass *class, JfrPools *pools,
                  uint64_t seed) {
        const JfrField *weight;

        *plan = (JfrPlan){ .type = type, .class = class, .number = (uint32_t)(type - jfr_event_types),
                           .pools = pools, .compressed = pools->compressed };
        if (class->broken || class->kind != JFR_STRUCT)
                return 1;
        for (uint32_t i = 0; i < class->n_fields && i < JFR_MAX_STEPS; i++) {
                const JfrField *field = &class->fields[i];
                JfrSlot slot = field->array || (!field->pool && !field->class) ? JFR_N_SLOTS
                                                                               : slot_of(plan, field);

                plan->steps[i] = step_of(field, slot);
                if (slot == JFR_N_SLOTS)
                        continue;
                plan->fields[slot] = field;
                plan->n_steps = i + 1;
        }
        make_keys(plan, seed);
        make_quick(plan);
        weight = plan->fields[JFR_SLOT_WEIGHT];
        plan->weight_is_real = weight && !jfr_is_integer(jfr_number_class(weight));
        choose_form(plan);
        return 0;
}

/* A number other than the weight is whole: the bits of a real one become such. */
static uint64_t whole(const JfrStep *step, uint64_t value) {
        double real;

        if (step->slot == JFR_SLOT_WEIGHT || jfr_is_integer(jfr_number_class(step->field)))
                return value;
        memcpy(&real, &value, sizeof(real));
        return real > 0 && real < 0x1p63 ? (uint64_t)real : 0;
}

/* A step of any kind but a value. */
static uint64_t read_step(const JfrPlan *plan, const JfrStep *step, JfrCursor *cursor) {
        switch (step->kind) {
        case JFR_STEP_INTEGER:
                return jfr_integer(cursor, step->size);
        case JFR_STEP_BYTE:
                return jfr_byte(cursor);
        case JFR_STEP_REAL:
                return whole(step, jfr_number(cursor, step->field->class));
        case JFR_STEP_NUMBER:
                return whole(step, jfr_pools_number(plan->pools, cursor, step->field));
        default:
                jfr_skip_field(cursor, step->field);
                return 0;
        }
}

int jfr_plan_read(const JfrPlan *plan, JfrCursor *cursor, uint64_t *slots) {
        for (uint32_t i = 0; i < plan->n_steps; i++) {
                const JfrStep *step = &plan->steps[i];
                uint64_t *slotp = &slots[step->slot];
                int r = 0;

                if (step->kind == JFR_STEP_VALUE)
                        r = jfr_pools_take(plan->pools, cursor, step->field, slotp);
                else
                        *slotp = read_step(plan, step, cursor);
                if (r || cursor->failed)
                        return r ? r : JFR_PLAN_E_MALFORMED;
        }
        return 0;
}

const uint8_t *jfr_plan_step(const JfrPlan *plan, const JfrStep *step, const uint8_t *at, const uint8_t *end,
                             uint64_t *valuep) {
        JfrCursor cursor = { at, end, plan->compressed, false };

        if (step->kind == JFR_STEP_VALUE) {
                jfr_skip_field(&cursor, step->field);
                *valuep = cursor.failed ? 0 : hash_bytes(at, (size_t)(cursor.at - at));
        } else
                *valuep = read_step(plan, step, &cursor);
        return cursor.failed ? end + 1 : cursor.at;
}

/*
 * As many integers at once as end within eight bytes. One of nine bytes is a number in place of bytes, so it
 * has a key of its own: other bytes could be the same number.
 */
const uint8_t *jfr_plan_long_run(const JfrPlan *plan, const JfrQuick *quick, const uint8_t *at,
                                 const uint8_t *end, JfrHash *hashp) {
        const JfrStep *step = &plan->steps[quick->first], *last = step + quick->n;

        while (step < last && at <= end) {
                uint64_t ends = jfr_integer_ends(at), n = jfr_count_ends(ends), word;

                if (!n) {
                        *hashp += (JfrHash)jfr_quick_long(&at) * (step->key << 32 | step->key >> 32);
                        step++;
                        continue;
                }
                for (; n > (uint64_t)(last - step); n--)
                        ends &= ~(UINT64_C(1) << (63 - __builtin_clzll(ends)));
                memcpy(&word, at, sizeof(word));
                *hashp += (JfrHash)(le64toh(word) & (~UINT64_C(0) >> __builtin_clzll(ends))) * step->key;
                at += 8 - (unsigned)__builtin_clzll(ends) / 8;
                step += n;
        }
        return at;
}
