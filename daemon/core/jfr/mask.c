/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Goes over the events of the listed types, and overwrites their texts with asterisks, in place and in the
 * pool of strings.
 */

#include "core/jfr/mask.h"

#include <errno.h>

#include "core/base/util/macro.h"
#include "core/jfr/chunk.h"

/*
 * Limits of secrets in the pool of strings, where the JVM puts texts of 16 characters and more: each is
 * looked for in all the chunk.
 */
enum { MAX_POOLED = 1000, MIN_POOLED_BYTES = 10 };

typedef struct Mask {
        uint8_t *data;
        bool arguments;
        const JfrChunk *chunk;
        JfrMetadata metadata;
        JfrPools pools;
        uint32_t n_pooled;
} Mask;

static bool is_own_arguments(const char *class, const char *field) {
        return !strcmp(class, "jdk.JVMInformation") &&
                (!strcmp(field, "jvmArguments") || !strcmp(field, "jvmFlags") ||
                 !strcmp(field, "javaArguments"));
}

static bool is_secret(const char *class) {
        static const char *const names[] = { "jdk.InitialEnvironmentVariable", "jdk.InitialSystemProperty",
                                             "jdk.SystemProcess", "jdk.ProcessStart" };

        for (size_t i = 0; i < ARRAY_SIZE(names); i++)
                if (!strcmp(names[i], class))
                        return true;
        return false;
}

static bool is_masked(const Mask *mask, const char *class, const char *field) {
        return is_secret(class) || (!mask->arguments && is_own_arguments(class, field));
}

/* Each integer keeps its length: readers take one that is longer than it had to be. */
static void mask_compressed(uint8_t *at, size_t size) {
        unsigned n = 0;

        for (size_t i = 0; i < size; i++) {
                bool more = at[i] & 0x80 && n < JFR_MAX_INTEGER - 1;

                at[i] = (uint8_t)((n ? 0 : '*') | (more ? 0x80 : 0));
                n = more ? n + 1 : 0;
        }
}

static void mask_text(uint8_t *at, const JfrString *string) {
        if (string->encoding != JFR_STRING_UTF16)
                memset(at, '*', string->size);
        else if (string->compressed)
                mask_compressed(at, string->size);
        else
                for (size_t i = 0; i < string->size; i++)
                        at[i] = i % 2 ? '*' : 0;
}

/* The text at @at, if it stands there and not in the pool. */
static void mask_string_at(const Mask *mask, uint8_t *at, const uint8_t *end) {
        JfrCursor cursor = { at, end, mask->chunk->compressed, false };
        JfrString string = jfr_string(&cursor);

        if (!cursor.failed && string.size)
                mask_text(at + (string.data - at), &string);
}

/* Masks the pool's text with that index, wherever its bytes stand in the chunk. */
static int mask_pooled(Mask *mask, uint64_t index) {
        const JfrClass *class = jfr_class_named(&mask->metadata, "java.lang.String");
        JfrConstant *constant = class ? jfr_constant(&mask->pools, class, index) : NULL;
        uint8_t *at = mask->data + mask->chunk->offset, *end = at + mask->chunk->size;

        if (!constant || constant->known || constant->size <= 1)
                return 0;
        constant->known = 1;
        /* so few bytes stand in other places by chance */
        if (constant->size < MIN_POOLED_BYTES || ++mask->n_pooled > MAX_POOLED)
                return JFR_MASK_E_UNSURE;
        while ((at = memmem(at, (size_t)(end - at), constant->data, constant->size))) {
                mask_string_at(mask, at, at + constant->size);
                at += constant->size;
        }
        return 0;
}

static int mask_field(Mask *mask, const JfrField *field, JfrCursor *cursor) {
        size_t at = (size_t)(cursor->at - mask->data);
        JfrString string;

        if (field->array || field->class->kind != JFR_TEXT)
                return JFR_MASK_E_UNSURE;
        if (field->pool)
                return mask_pooled(mask, jfr_long(cursor));
        string = jfr_string(cursor);
        if (string.encoding == JFR_STRING_POOL)
                return mask_pooled(mask, string.index);
        if (!cursor->failed)
                mask_string_at(mask, mask->data + at, cursor->at);
        return 0;
}

/* A struct, or a reference to one, may hold a text. Threads and stacks do, and those are no secrets. */
static bool may_be_text(const JfrField *field) {
        return field->class && !jfr_number_class(field) && strcmp(field->name, "eventThread") &&
                strcmp(field->name, "stackTrace");
}

static int mask_event(Mask *mask, const JfrClass *class, const JfrEvent *event) {
        const uint8_t *begin = mask->data + mask->chunk->offset + event->offset;
        JfrCursor cursor = { begin + event->header_size, begin + event->size, mask->chunk->compressed,
                             false };
        int r = class->broken ? JFR_MASK_E_UNSURE : 0;

        for (uint32_t i = 0; i < class->n_fields && !r; i++) {
                const JfrField *field = &class->fields[i];

                if (may_be_text(field) && is_masked(mask, class->name, field->name))
                        r = mask_field(mask, field, &cursor);
                else
                        jfr_skip_field(&cursor, field);
                r = cursor.failed ? JFR_MASK_E_UNSURE : r;
        }
        return r;
}

static int mask_events(Mask *mask, const JfrInput *input) {
        JfrScan scan;
        JfrEvent event;
        int r = jfr_scan_init(&scan, input, mask->chunk), q = 0;

        while (!r && !q && !(r = jfr_scan_next(&scan, &event))) {
                const JfrClass *class = jfr_class(&mask->metadata, event.type);

                if (class && (is_secret(class->name) || !strcmp(class->name, "jdk.JVMInformation")))
                        q = mask_event(mask, class, &event);
        }
        jfr_scan_deinit(&scan);
        if (r < 0)
                return r;
        return q || r == JFR_SCAN_E_MALFORMED ? JFR_MASK_E_UNSURE : 0;
}

static void want_texts(JfrMetadata *metadata) {
        JfrClass *class = jfr_class_named(metadata, "java.lang.String");

        if (class)
                class->wanted = true;
}

static int mask_chunk(Mask *mask, const JfrInput *input) {
        uint64_t damage;
        int r = jfr_chunk_load(input, mask->chunk, want_texts, &mask->metadata, &mask->pools, &damage);

        mask->n_pooled = 0;
        if (!r)
                r = mask->chunk->cut || damage ? JFR_MASK_E_UNSURE : mask_events(mask, input);
        jfr_pools_deinit(&mask->pools);
        jfr_metadata_deinit(&mask->metadata);
        return r > 0 ? JFR_MASK_E_UNSURE : r;
}

int jfr_mask(uint8_t *data, size_t size, bool arguments) {
        Mask mask = { .data = data, .arguments = arguments };
        const JfrMemory memory = { data, size };
        const JfrInput input = jfr_memory_input(&memory);
        uint64_t offset = 0;

        while (offset < size) {
                JfrChunk chunk;
                int r = jfr_chunk_open(&input, offset, &chunk);

                if (r)
                        return JFR_MASK_E_UNSURE;
                mask.chunk = &chunk;
                r = mask_chunk(&mask, &input);
                if (r)
                        return r;
                offset += chunk.size;
        }
        return 0;
}
