/* SPDX-License-Identifier: Apache-2.0 */

/* Samples of a profile, and their labels, become events of the window. */

#include "formats/pprof/pprof-private.h"

#include <string.h>

#include "base/util/intern.h"

enum { MAX_FRAMES = WINDOW_MAX_DEPTH };

typedef struct Sample {
        uint64_t values[PPROF_MAX_COLUMNS];
        size_t n_values, n_frames;
        uint32_t attributes[WINDOW_MAX_SET], own[2];    /* own: of the resource */
        size_t n_attributes, n_own;
        WindowLink link;
        bool bad;                       /* refers to what is not there */
} Sample;

/* A number of a repeated field that is packed: @rest holds what is left of it. */
static bool next_number(Cursor *rest, uint64_t *valuep) {
        if (!cursor_left(rest))
                return false;
        *valuep = cursor_varint(rest);
        return !rest->failed;
}

static int add_frames(Parser *parser, Sample *sample, uint64_t id) {
        const Location *location;
        size_t index;
        int r;

        if (!pprof_find_id(&parser->location_ids, id, &index)) {
                sample->bad = true;
                return 0;
        }
        location = &parser->locations[index];
        if (sample->n_frames + location->n > MAX_FRAMES) {
                sample->bad = true;
                return 0;
        }
        r = pprof_grow((void **)&parser->stack, &parser->stack_room, sample->n_frames + location->n,
                       sizeof(*parser->stack));
        if (!r && location->n)
                memcpy(parser->stack + sample->n_frames, parser->words + location->first,
                       location->n * sizeof(*parser->words));
        sample->n_frames += r ? 0 : location->n;
        return r;
}

static void add_value(Sample *sample, uint64_t value) {
        if (sample->n_values < PPROF_MAX_COLUMNS)
                sample->values[sample->n_values] = value;
        sample->n_values++;
}

/* ---- labels ---- */

static bool is_text(const Parser *parser, uint64_t index, const char *text) {
        return index < parser->n_texts && parser->texts[index].size == strlen(text) &&
               !memcmp(parser->texts[index].data, text, strlen(text));
}

static bool take_id(const Parser *parser, uint64_t index, uint8_t *to, size_t size) {
        const Bytes *text = index < parser->n_texts ? &parser->texts[index] : NULL;

        if (!text || text->size != 2 * size)
                return false;
        for (size_t i = 0; i < size; i++) {
                uint64_t byte;

                if (text_hex((const char *)text->data + 2 * i, (const char *)text->data + 2 * i + 2, &byte))
                        return false;
                to[i] = (uint8_t)byte;
        }
        return true;
}

/* Labels that are ours, or that name what OTLP has a place of its own for. */
static bool take_link(const Parser *parser, Sample *sample, const uint64_t *fields) {
        if (is_text(parser, fields[LABEL_KEY], "trace_id"))
                return take_id(parser, fields[LABEL_TEXT], sample->link.trace_id,
                               sizeof(sample->link.trace_id));
        return is_text(parser, fields[LABEL_KEY], "span_id") &&
               take_id(parser, fields[LABEL_TEXT], sample->link.span_id, sizeof(sample->link.span_id));
}

static int make_attribute(Parser *parser, const uint64_t *fields, uint32_t *indexp) {
        WindowAttribute attribute = { .kind = fields[LABEL_TEXT] ? ATTRIBUTE_STRING : ATTRIBUTE_INT };
        int r = pprof_string(parser, fields[LABEL_KEY], &attribute.key);

        r = r ? r : pprof_string(parser, fields[LABEL_UNIT], &attribute.unit);
        r = r ? r : pprof_string(parser, fields[LABEL_TEXT], &attribute.string);
        if (!fields[LABEL_TEXT])
                attribute.integer = (int64_t)fields[LABEL_NUMBER];
        return r ? r : pprof_full(window_attribute(parser->window, &attribute, indexp));
}

static int add_label(Parser *parser, Sample *sample, const Field *message) {
        uint64_t fields[LABEL_UNIT + 1] = { 0 };
        uint32_t attribute;
        bool own;
        int r = pprof_read_numbers(parser, message, fields, ARRAY_SIZE(fields), "the label");

        if (r)
                return r;
        if (!fields[LABEL_KEY] || fields[LABEL_KEY] >= parser->n_texts || take_link(parser, sample, fields))
                return 0;
        own = is_text(parser, fields[LABEL_KEY], "process.pid") ||
                is_text(parser, fields[LABEL_KEY], "service.name");
        if (own ? sample->n_own == ARRAY_SIZE(sample->own) : sample->n_attributes == WINDOW_MAX_SET)
                return 0;
        r = make_attribute(parser, fields, &attribute);
        if (!r && own)
                sample->own[sample->n_own++] = attribute;
        else if (!r)
                sample->attributes[sample->n_attributes++] = attribute;
        return r;
}

/* ---- events ---- */

static int take_sample_field(Parser *parser, Sample *sample, const Field *field) {
        bool packed = field->wire == WIRE_BYTES;
        Cursor rest = cursor_make(field->data, packed ? field->size : 0);
        uint64_t value = field->value;
        int r = 0;

        if (field->number == SAMPLE_LABEL)
                return packed ? add_label(parser, sample, field) : 0;
        if (field->number > SAMPLE_LABEL)
                return 0;
        while (!r && (packed ? next_number(&rest, &value) : true)) {
                if (field->number == SAMPLE_LOCATION)
                        r = add_frames(parser, sample, value);
                else
                        add_value(sample, value);
                if (!packed)
                        break;
        }
        return r ? r : rest.failed ? pprof_malformed(parser, field->data, "a list") : 0;
}

static int find_resource(Parser *parser, const Sample *sample, uint32_t *resourcep) {
        uint32_t n = window_n_resources(parser->window);
        uint64_t key[4] = { parser->key, sample->n_own, sample->n_own ? sample->own[0] : 0,
                            sample->n_own > 1 ? sample->own[1] : 0 };
        int r = window_resource(parser->window, hash_bytes(key, sizeof(key)), resourcep);

        if (!r && *resourcep == n && sample->n_own)
                r = window_resource_attributes(parser->window, *resourcep, sample->own, sample->n_own);
        return pprof_full(r);
}

/* Zeros of other columns are no events. */
static int put_values(Parser *parser, const Sample *sample, uint32_t resource, uint32_t stack, uint32_t set,
                      uint32_t link) {
        for (uint32_t i = 0; i < MIN(sample->n_values, (size_t)parser->n_columns); i++) {
                uint32_t profile;
                int r;

                if (!sample->values[i])
                        continue;
                r = window_profile_named(parser->window, resource, &parser->columns[i], parser->period,
                                         &profile);
                if (!r)
                        r = window_sample_untimed(parser->window, profile, stack, set, link,
                                                  (int64_t)sample->values[i]);
                if (r)
                        return pprof_full(r);
        }
        return 0;
}

static int put_sample(Parser *parser, const Sample *sample) {
        uint32_t resource, stack, set, link;
        int r = find_resource(parser, sample, &resource);

        r = r ? r : pprof_full(window_stack(parser->window, parser->stack, sample->n_frames, &stack));
        r = r ? r
              : pprof_full(
                        window_attribute_set(parser->window, sample->attributes, sample->n_attributes, &set));
        r = r ? r : pprof_full(window_link(parser->window, &sample->link, &link));
        return r ? r : put_values(parser, sample, resource, stack, set, link);
}

int pprof_add_sample(Parser *parser, const Field *message) {
        Cursor cursor = field_cursor(message);
        Sample sample;
        Field field;
        int r = 0;

        sample.n_values = sample.n_frames = sample.n_attributes = sample.n_own = 0;
        memset(&sample.link, 0, sizeof(sample.link));
        sample.bad = false;
        while (!r && field_next(&cursor, &field))
                r = take_sample_field(parser, &sample, &field);
        if (r || cursor.failed)
                return r ? r : pprof_malformed(parser, message->data, "the sample");
        if (sample.bad || sample.n_values != parser->n_columns) {
                parser->result->n_dropped++;
                return 0;
        }
        parser->result->n_samples++;
        return put_sample(parser, &sample);
}
