/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Fills the messages of a resource, a profile and a sample. Their pointers lead into the window and into
 * the part itself, so a part must not be moved.
 */

#include "core/otlp/parts.h"

#include <string.h>

#include "core/base/util/macro.h"
#include "core/otlp/attribute.h"

/* Sum of the values beside the times; -1 if they do not fit. */
static int64_t timed_value(const WindowSample *sample, bool *onesp) {
        int64_t sum = 0;

        if (!sample->values)
                return sample->n_times;
        for (uint32_t i = 0; i < sample->n_times; i++) {
                if (sample->values[i] != 1)
                        *onesp = false;
                if (__builtin_add_overflow(sum, sample->values[i], &sum))
                        return -1;
        }
        return sum;
}

/*
 * Times need every event to have one. CPU profiles pass everywhere as times alone, durations as times and
 * values; for other known types a reader wants one value for each sample; what we do not know
 * goes out as it came.
 */
Shape shape_choose(const Window *window, uint32_t profile, bool timestamps) {
        const WindowProfile *row = window_get_profile(window, profile);
        bool ones = true;

        if (!timestamps ||
            (!profile_is_cpu(row->type) && row->type != PROFILE_OFF_CPU && row->type != PROFILE_SUSPENDED &&
             row->type != PROFILE_WAKER && row->type != PROFILE_CRASHES && row->type != PROFILE_INUSE_SPACE &&
             row->type != PROFILE_INUSE_OBJECTS && row->type != PROFILE_OTHER))
                return SHAPE_VALUE;
        for (uint32_t i = 0; i < row->n_samples; i++) {
                WindowSample sample;

                window_get_sample(window, profile, i, &sample);
                if (sample.n_times != sample.n_events || timed_value(&sample, &ones) != sample.value)
                        return SHAPE_VALUE;
        }
        if (ones)
                return SHAPE_TIMES;
        return profile_is_cpu(row->type) ? SHAPE_VALUE : SHAPE_TIMES_VALUES;
}

void resource_part_fill(ResourcePart *part, const Window *window, uint32_t resource) {
        const uint32_t *attributes;
        size_t n;

        attributes = window_get_resource(window, resource, &n);
        part->message = (OtlpResource)OTLP_RESOURCE_INIT;
        part->message.n_attributes = n;
        part->message.attributes = part->pointers;
        for (size_t i = 0; i < n; i++) {
                const WindowAttribute *attribute = window_get_attribute(window, attributes[i]);

                otlp_fill_value(window, attribute, &part->values[i]);
                part->pairs[i] = (OtlpKeyValue)OTLP_KEY_VALUE_INIT;
                part->pairs[i].key = (char *)window_get_string(window, attribute->key, NULL);
                part->pairs[i].value = &part->values[i];
                part->pointers[i] = &part->pairs[i];
        }
}

/* A receiver tells doubles by the profile's id, so two parts must not share one. */
static void make_part_id(uint8_t *id, const uint8_t *profile_id, uint32_t n_before) {
        memcpy(id, profile_id, 16);
        for (int i = 0; i < 4; i++)
                id[15 - i] ^= (uint8_t)(n_before >> (8 * i));
}

static void fill_type(OtlpValueType *type, Dictionary *dictionary, uint32_t name, uint32_t unit) {
        *type = (OtlpValueType)OTLP_VALUE_TYPE_INIT;
        type->type_strindex = dictionary_string(dictionary, name);
        type->unit_strindex = dictionary_string(dictionary, unit);
}

void profile_part_fill(ProfilePart *part, Dictionary *dictionary, const WindowProfile *profile,
                       uint32_t n_before) {
        const Window *window = dictionary->window;
        uint64_t start_ns = window_start_ns(window), end_ns = window_end_ns(window);

        /* All times lie in [start, start + duration): a late sample moves the start back. */
        if (profile->last_ns)
                start_ns = MIN(start_ns, profile->first_ns);
        fill_type(&part->sample_type, dictionary, profile->names.type, profile->names.unit);
        fill_type(&part->period_type, dictionary, profile->names.period_type, profile->names.period_unit);
        part->head = part->tail = (OtlpProfile)OTLP_PROFILE_INIT;
        part->head.sample_type = &part->sample_type;
        part->tail.time_unix_nano = start_ns + (uint64_t)window_realtime_offset_ns(window);
        part->tail.duration_nano = end_ns - start_ns;
        part->tail.period_type = &part->period_type;
        part->tail.period = profile->period;
        make_part_id(part->id, profile->id, n_before);
        if (profile->payload_format && !n_before) {
                part->tail.original_payload_format = (char *)profile->payload_format;
                part->tail.original_payload = (ProtobufCBinaryData){ profile->payload_size,
                                                                     (uint8_t *)profile->payload };
        }
        part->tail.profile_id = (ProtobufCBinaryData){ sizeof(part->id), part->id };
}

void sample_part_fill(SamplePart *part, Dictionary *dictionary, const WindowSample *sample, Shape shape,
                      uint32_t first, uint32_t max_events) {
        OtlpSample *message = &part->message;
        const uint32_t *set;
        size_t n;

        *message = (OtlpSample)OTLP_SAMPLE_INIT;
        message->stack_index = dictionary_stack(dictionary, sample->stack);
        message->link_index = dictionary_link(dictionary, sample->link);
        set = window_get_attribute_set(dictionary->window, sample->attributes, &n);
        for (size_t i = 0; i < n; i++)
                part->attributes[i] = dictionary_attribute(dictionary, set[i]);
        message->attribute_indices = part->attributes;
        message->n_attribute_indices = n;

        if (shape == SHAPE_VALUE) {
                part->value = sample->value;
                message->values = &part->value;
                message->n_values = 1;
                part->n_events = sample->n_events;
                part->end = 0;
                part->last = true;
                return;
        }
        part->n_events = MIN(sample->n_times - first, max_events);
        part->end = first + (uint32_t)part->n_events;
        part->last = part->end == sample->n_times;
        message->timestamps_unix_nano = (uint64_t *)sample->times_ns + first;
        message->n_timestamps_unix_nano = part->n_events;
        if (shape == SHAPE_TIMES_VALUES) {
                message->values = (int64_t *)sample->values + first;
                message->n_values = part->n_events;
        }
}
