/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "host/sampling/context/process-context.h"
#include "spanprof/process.h"

/* Bytes by hand, in protobuf's wire format: 0a = field 1 with bytes, 12 = field 2, then the length. */
#define KEY_MAP "\x0a\x1dthreadlocal.attribute_key_map\x12"

static int decode(const char *bytes, size_t size, ProcessContext **contextp) {
        return process_context_decode(bytes, size, contextp);
}

static bool is(ContextText text, const char *word) {
        return text.size == strlen(word) && !memcmp(text.data, word, text.size);
}

Test(process_context, takes_every_plain_kind) {
        static const char bytes[] = "\x0a\x32"
                                    /* s = "v" */
                                    "\x0a\x08\x0a\x01s\x12\x03\x0a\x01v"
                                    /* b = true */
                                    "\x0a\x07\x0a\x01" "b\x12\x02\x10\x01"
                                    /* i = 150 */
                                    "\x0a\x08\x0a\x01i\x12\x03\x18\x96\x01"
                                    /* d = 1.5 */
                                    "\x0a\x0e\x0a\x01" "d\x12\x09\x21\0\0\0\0\0\0\xf8\x3f"
                                    /* n without a value */
                                    "\x0a\x03\x0a\x01n";
        ProcessContext *context;
        double value;

        cr_assert_eq(decode(bytes, sizeof(bytes) - 1, &context), 0);
        cr_assert_eq(context->n_attributes, 4);
        cr_assert_eq(context->n_left_out, 1);
        cr_assert(is(context->attributes[0].key, "s") && is(context->attributes[0].string, "v"));
        cr_assert(context->attributes[1].kind == CONTEXT_BOOL && context->attributes[1].integer == 1);
        cr_assert(context->attributes[2].kind == CONTEXT_INT && context->attributes[2].integer == 150);
        memcpy(&value, &context->attributes[3].integer, sizeof(value));
        cr_assert(context->attributes[3].kind == CONTEXT_DOUBLE && value == 1.5);
        process_context_free(context);
}

Test(process_context, keeps_the_place_of_a_key_that_is_no_string) {
        static const char bytes[] = "\x12\x34" KEY_MAP
                                    "\x13\x2a\x11\x0a\x05\x0a\x03one\x0a\x02\x18\x07\x0a\x04\x0a\x02it";
        ProcessContext *context;

        cr_assert_eq(decode(bytes, sizeof(bytes) - 1, &context), 0);
        cr_assert_eq(context->n_keys, 3);
        cr_assert(is(context->keys[0], "one") && is(context->keys[1], "") && is(context->keys[2], "it"));
        process_context_free(context);
}

#define TAGGED_SIZE "\x12\x1d\x0a\x17threadlocal.tagged_size\x12\x02\x18"
#define TABLE_AT "\x12\x25\x0a\x1fthreadlocal.js_map_table_offset\x12\x02\x18"
#define HEADER_SIZE "\x12\x2e\x0a\x28threadlocal.ordered_hash_map_header_size\x12\x02\x18"
#define RECORD_AT "\x12\x29\x0a\x23threadlocal.js_object_record_offset\x12\x02\x18"
#define WRAPPER_AT "\x12\x27\x0a\x21threadlocal.wrapped_object_offset\x12\x02\x18"
#define FIELDS_AT "\x12\x2b\x0a\x25threadlocal.native_wrap_fields_offset\x12\x02\x18"

static struct node_layout layout_of(const char *bytes, size_t size) {
        struct node_layout layout;
        ProcessContext *context;

        cr_assert_eq(decode(bytes, size, &context), 0);
        layout = context->node;
        process_context_free(context);
        return layout;
}

/* As dd-trace 6.15.0 and 6.20.1 have written them under Node 22; another number in each place. */
Test(process_context, takes_the_layout_of_node) {
        static const char wrapped[] = WRAPPER_AT "\x18" TAGGED_SIZE "\x08" FIELDS_AT "\x28" TABLE_AT "\x20"
                                      HEADER_SIZE "\x10";
        static const char direct[] = RECORD_AT "\x18" TAGGED_SIZE "\x08" TABLE_AT "\x20" HEADER_SIZE "\x10";
        struct node_layout layout = layout_of(wrapped, sizeof(wrapped) - 1);

        cr_expect(layout.is_told && layout.is_wrapped);
        cr_expect(layout.object_at == 24 && layout.wrap_at == 40);
        cr_expect(layout.table_at == 32 && layout.header_size == 16);
        layout = layout_of(direct, sizeof(direct) - 1);
        cr_expect(layout.is_told && !layout.is_wrapped);
        cr_expect(layout.object_at == 24 && layout.table_at == 32 && layout.header_size == 16);
}

Test(process_context, takes_no_layout_of_node_that_is_told_in_part_or_cannot_be) {
        static const struct {
                const char *what, *bytes;
        } cases[] = {
                { "none", "" },
                { "compressed pointers", RECORD_AT "\x18" TAGGED_SIZE "\x04" TABLE_AT "\x18" HEADER_SIZE "\x10" },
                { "no size of a pointer", RECORD_AT "\x18" TABLE_AT "\x18" HEADER_SIZE "\x10" },
                { "no table", RECORD_AT "\x18" TAGGED_SIZE "\x08" HEADER_SIZE "\x10" },
                { "no header", RECORD_AT "\x18" TAGGED_SIZE "\x08" TABLE_AT "\x18" },
                { "no object (@datadog/pprof 5.16)", WRAPPER_AT "\x18" TAGGED_SIZE "\x08" },
                { "a wrapper whose field is not told",
                  WRAPPER_AT "\x18" TAGGED_SIZE "\x08" TABLE_AT "\x18" HEADER_SIZE "\x10" },
                { "no multiple of a word",
                  RECORD_AT "\x1c" TAGGED_SIZE "\x08" TABLE_AT "\x18" HEADER_SIZE "\x10" },
        };

        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
                cr_expect_eq(layout_of(cases[i].bytes, strlen(cases[i].bytes)).is_told, 0, "%s", cases[i].what);
}

/* 9,999 lists, each in the one before: nobody walks down there. */
Test(process_context, does_not_follow_nested_values) {
        static char bytes[70000];
        size_t at = sizeof(bytes), size = 0;
        ProcessContext *context;

        for (int i = 0; i < 9999; i++) {
                static const char tags[] = { 0x2a, 0x0a };      /* AnyValue.array_value, ArrayValue.values */
                uint8_t length[3] = { (uint8_t)(size | 128), (uint8_t)(size >> 7 | 128),
                                      (uint8_t)(size >> 14) };

                if (size + 4 > 60000)
                        break;
                memcpy(bytes + (at -= 3), length, 3);
                bytes[--at] = tags[i % 2 ? 1 : 0];
                size += 4;
        }
        memcpy(bytes + (at -= 3), "\x0a\x01k", 3);
        bytes[at + 2] = 'k';
        /* Resource { attribute { key, value } }, with lengths of three bytes */
        {
                char head[] = { 0x0a, 0, 0, 0, 0x0a, 0, 0, 0, 0x0a, 0x01, 'k', 0x12, 0, 0, 0 };
                size_t sizes[3] = { size + 7 + 4, size + 7, size };
                int places[3] = { 1, 5, 12 };

                at += 3;
                at -= sizeof(head);
                for (int i = 0; i < 3; i++) {
                        head[places[i]] = (char)(sizes[i] | 128);
                        head[places[i] + 1] = (char)(sizes[i] >> 7 | 128);
                        head[places[i] + 2] = (char)(sizes[i] >> 14);
                }
                memcpy(bytes + at, head, sizeof(head));
        }
        cr_assert_eq(decode(bytes + at, sizeof(bytes) - at, &context), 0);
        cr_assert_eq(context->n_attributes, 0);
        cr_assert_eq(context->n_left_out, 1);
        process_context_free(context);
}

Test(process_context, takes_no_more_attributes_than_its_cap) {
        char bytes[3 + 200 * 10];
        size_t size = 3;
        ProcessContext *context;

        for (int i = 0; i < 200; i++, size += 10)
                memcpy(bytes + size, "\x0a\x08\x0a\x01s\x12\x03\x0a\x01v", 10);
        memcpy(bytes, "\x0a\xd0\x0f", 3);       /* 2,000 */
        cr_assert_eq(decode(bytes, sizeof(bytes), &context), 0);
        cr_assert_eq(context->n_attributes, PROCESS_CONTEXT_MAX_ATTRIBUTES);
        cr_assert_eq(context->n_left_out, 200 - PROCESS_CONTEXT_MAX_ATTRIBUTES);
        process_context_free(context);
}

Test(process_context, refuses_what_ends_too_early) {
        static const char good[] = "\x0a\x0a\x0a\x08\x0a\x01s\x12\x03\x0a\x01v\x12\x05\x0a\x03" "abc";
        ProcessContext *context = NULL;
        size_t n_good = 0;

        for (size_t size = 0; size < sizeof(good); size++) {
                int r = decode(good, size, &context);

                n_good += r == 0;
                cr_assert(r == 0 || r == PROCESS_CONTEXT_E_MALFORMED);
                if (!r)
                        context = process_context_free(context);
        }
        cr_assert_eq(n_good, 3, "nothing, the resource, all");
}

Test(process_context, is_read_from_a_process_and_seen_to_change) {
        struct spanprof_process_header *header;
        ProcessContext *context;
        uint32_t version;
        uint8_t *memory = mmap(NULL, 1 << 17, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        uint64_t address = (uintptr_t)memory;

        header = (struct spanprof_process_header *)memory;
        /* over the border of a page */
        memcpy(memory + 4090, "\x0a\x0a\x0a\x08\x0a\x01s\x12\x03\x0a\x01v", 12);
        memcpy(header->signature, SPANPROF_PROCESS_SIGNATURE, 8);
        *header = (struct spanprof_process_header){ .signature = "OTEL_CT",
                                                    .version = 2,
                                                    .payload_size = 12,
                                                    .published_ns = 7,
                                                    .payload = address + 4090 };
        cr_assert_eq(process_context_read(getpid(), address, &version, &context), PROCESS_CONTEXT_E_NONE);
        header->signature[7] = 'X';
        cr_assert_eq(process_context_read(getpid(), address, &version, &context), 0);
        cr_assert(is(context->attributes[0].string, "v"));
        cr_assert_eq(process_context_check(getpid(), context), 0);
        header->published_ns = 8;
        cr_assert_eq(process_context_check(getpid(), context), PROCESS_CONTEXT_E_BUSY);
        process_context_free(context);

        header->published_ns = 0;
        cr_assert_eq(process_context_read(getpid(), address, &version, &context), PROCESS_CONTEXT_E_BUSY);
        header->published_ns = 9;
        header->version = 1;
        cr_assert_eq(process_context_read(getpid(), address, &version, &context), PROCESS_CONTEXT_E_VERSION);
        cr_assert_eq(version, 1);
        header->version = 2;
        header->payload_size = SPANPROF_PROCESS_MAX_PAYLOAD + 1;
        cr_assert_eq(process_context_read(getpid(), address, &version, &context),
                     PROCESS_CONTEXT_E_MALFORMED);
        header->payload_size = 12;
        header->payload = UINT64_C(0xffffffff81000000);
        cr_assert_eq(process_context_read(getpid(), address, &version, &context),
                     PROCESS_CONTEXT_E_MALFORMED);
        header->payload = address + (1 << 16);  /* never touched: not fetched */
        cr_assert_eq(process_context_read(getpid(), address, &version, &context),
                     PROCESS_CONTEXT_E_MALFORMED);
        munmap(memory, 1 << 17);
        cr_assert_eq(process_context_read(getpid(), address, &version, &context), PROCESS_CONTEXT_E_NONE);
}
