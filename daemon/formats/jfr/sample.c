/* SPDX-License-Identifier: Apache-2.0 */

/*
 * From an event whose combination is new to its sample: rows of the window for stack, attributes and link.
 * Attributes are looked up on their own before that: there are far fewer sets of them than samples.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/util/error.h"
#include "base/util/macro.h"
#include "formats/jfr/read-private.h"

enum {
        MAX_SET = JFR_MAX_ATTRIBUTES + 16,
};

static int add_string(Window *window, const char *text, uint32_t *stringp) {
        return window_string(window, text, strlen(text), stringp);
}

static void put_big_endian(uint8_t *to, uint64_t value) {
        for (int i = 0; i < 8; i++)
                to[i] = (uint8_t)(value >> (56 - 8 * i));
}

/*
 * Datadog's events have a span and the root span of the process, and no trace: the trace's id is then the
 * root's, with zeros above, and an attribute says so, the same one as of threads that publish such ids.
 * *rootp: 0 = it is a trace's.
 */
static int make_link(JfrReader *reader, const JfrPlan *plan, const uint64_t *slots, uint32_t *linkp,
                     uint64_t *rootp) {
        bool has_trace = plan->fields[JFR_SLOT_TRACE] && slots[JFR_SLOT_TRACE];
        uint64_t root = plan->fields[JFR_SLOT_ROOT] ? slots[JFR_SLOT_ROOT] : 0;
        WindowLink link = { 0 };

        *linkp = 0;
        *rootp = 0;
        if (!plan->fields[JFR_SLOT_SPAN] || !slots[JFR_SLOT_SPAN] || (!has_trace && !root))
                return 0;
        if (has_trace && plan->fields[JFR_SLOT_TRACE_HIGH])
                put_big_endian(link.trace_id, slots[JFR_SLOT_TRACE_HIGH]);
        put_big_endian(link.trace_id + 8, has_trace ? slots[JFR_SLOT_TRACE] : root);
        put_big_endian(link.span_id, slots[JFR_SLOT_SPAN]);
        *rootp = has_trace ? 0 : root;
        return window_link(reader->window, &link, linkp);
}

typedef struct Set {
        uint32_t attributes[MAX_SET];
        size_t n;
} Set;

static int add_named(JfrReader *reader, Set *set, const char *key, uint32_t string) {
        WindowAttribute attribute = { .kind = ATTRIBUTE_STRING, .string = string };
        int r;

        if (!string)
                return 0;
        r = add_string(reader->window, key, &attribute.key);
        return r ? r : window_attribute(reader->window, &attribute, &set->attributes[set->n++]);
}

/* What the event's own texts say: names that the profiler was started with. */
static int add_context(JfrReader *reader, const JfrPlan *plan, const uint64_t *slots, Set *set) {
        for (uint32_t i = 0; i < plan->n_attributes; i++) {
                const JfrField *field = plan->fields[JFR_SLOT_ATTRIBUTES + i];
                uint32_t string = (uint32_t)slots[JFR_SLOT_ATTRIBUTES + i];
                int r = 0;

                if (field->pool)
                        r = jfr_names_text(&reader->names, field->class, slots[JFR_SLOT_ATTRIBUTES + i],
                                           &string);
                if (!r)
                        r = add_named(reader, set, plan->attribute_names[i], string);
                if (r)
                        return r;
        }
        return 0;
}

static int add_thread(JfrReader *reader, const JfrPlan *plan, const uint64_t *slots, Set *set) {
        const JfrField *thread_field = plan->fields[JFR_SLOT_THREAD],
                       *state_field = plan->fields[JFR_SLOT_STATE];
        JfrThread thread = { 0 };
        uint32_t state = 0;
        int r = 0;

        if (thread_field)
                r = jfr_names_thread(&reader->names, thread_field->class, slots[JFR_SLOT_THREAD], &thread);
        if (!r && state_field)
                r = jfr_names_text(&reader->names, state_field->class, slots[JFR_SLOT_STATE], &state);
        set->attributes[set->n++] = thread.id;
        set->attributes[set->n++] = thread.name;
        return r ? r : add_named(reader, set, "thread.state", state);
}

static int add_class(JfrReader *reader, const JfrPlan *plan, const uint64_t *slots, Set *set) {
        const JfrField *field = plan->fields[JFR_SLOT_CLASS];
        uint32_t name = 0;
        int r = field ? jfr_names_class(&reader->names, field->class, slots[JFR_SLOT_CLASS], &name) : 0;

        return r ? r : add_named(reader, set, "jvm.object.class", name);
}

static int find_stack(JfrReader *reader, const JfrPlan *plan, const uint64_t *slots, uint32_t *stackp,
                      bool *truncatedp) {
        const JfrField *field = plan->fields[JFR_SLOT_STACK];

        *stackp = 0;
        *truncatedp = false;
        return field
                ? jfr_names_stack(&reader->names, field->class, slots[JFR_SLOT_STACK], stackp, truncatedp)
                : 0;
}

static int add_event_name(JfrReader *reader, JfrClassState *state, Set *set) {
        const char *name = state->plan->type->name;
        int r = 0;

        if (!state->event_attribute)
                r = window_attribute_string(reader->window, "jfr.event", name, strlen(name),
                                            &state->event_attribute);
        set->attributes[set->n++] = state->event_attribute;
        return r;
}

static int add_root(JfrReader *reader, uint64_t root, Set *set) {
        char text[17];

        snprintf(text, sizeof(text), "%016" PRIx64, root);
        return window_attribute_string(reader->window, "datadog.local_root_span_id", text, 16,
                                       &set->attributes[set->n++]);
}

static int make_set(JfrReader *reader, JfrClassState *state, JfrGroup group, const uint64_t *slots,
                    bool truncated, uint64_t root, uint32_t *attributesp) {
        const JfrPlan *plan = state->plan;
        Set set = { .attributes = { reader->type_attributes[group] }, .n = 1 };
        int r = add_event_name(reader, state, &set);

        if (!r && truncated)
                r = window_attribute_string(reader->window, "profile.stack.truncated", "depth", 5,
                                            &set.attributes[set.n++]);
        if (!r && root)
                r = add_root(reader, root, &set);
        if (!r)
                r = add_thread(reader, plan, slots, &set);
        if (!r)
                r = add_class(reader, plan, slots, &set);
        if (!r)
                r = add_context(reader, plan, slots, &set);
        return r ? r : window_attribute_set(reader->window, set.attributes, set.n, attributesp);
}

static int find_set(JfrReader *reader, JfrClassState *state, JfrGroup group, const uint64_t *slots,
                    bool truncated, uint64_t root, uint32_t *attributesp) {
        const JfrPlan *plan = state->plan;
        JfrHash hash = plan->hash + truncated + (JfrHash)root * plan->keys[JFR_SLOT_ROOT];
        const JfrKnown *known;
        JfrLookup lookup;
        int r;

        for (int slot = JFR_SLOT_THREAD; slot < JFR_SLOT_START; slot++)
                if (plan->fields[slot])
                        hash += (JfrHash)slots[slot] * plan->keys[slot];
        lookup = jfr_look_up(hash, reader->sets, JFR_SET_CACHE_BITS);
        known = jfr_find_known(&lookup);
        if (known) {
                *attributesp = known->index;
                return 0;
        }
        r = make_set(reader, state, group, slots, truncated, root, attributesp);
        if (!r)
                jfr_remember(&lookup, *attributesp);
        return r;
}

int jfr_sample_find(JfrReader *reader, JfrClassState *state, const uint64_t *slots, uint32_t *profilep,
                    uint32_t *samplep) {
        const JfrPlan *plan = state->plan;
        uint32_t stack, link, attributes;
        uint64_t root;
        bool truncated;
        JfrGroup group;
        int r;

        r = jfr_profile_group(reader, plan, slots, &group);
        if (!r)
                r = jfr_profile_find(reader, group, profilep);
        if (!r)
                r = find_stack(reader, plan, slots, &stack, &truncated);
        if (!r)
                r = make_link(reader, plan, slots, &link, &root);
        if (!r)
                r = find_set(reader, state, group, slots, truncated, root, &attributes);
        return r ? r : window_sample_number(reader->window, *profilep, stack, attributes, link, samplep);
}

int jfr_sample_text(const JfrString *string, uint64_t *valuep, void *userdata) {
        JfrReader *reader = userdata;
        uint32_t index = 0;
        int r = string->encoding > JFR_STRING_EMPTY ? jfr_names_string(&reader->names, string, &index) : 0;

        *valuep = index;
        return r;
}
