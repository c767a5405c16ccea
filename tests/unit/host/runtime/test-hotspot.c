/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/elf/machine.h"
#include "core/base/file/file.h"
#include "hotspot-image.h"
#include "host/runtime/hotspot/hotspot-number.h"
#include "host/runtime/hotspot/hotspot-wire.h"
#include "host/runtime/hotspot/hotspot-walk.h"
#include "host/runtime/reader/reader-text.h"

/* A process of the fuzzer's corpus, made by hand: tests/fuzz/make/make-hotspot-corpus.py says how. */
typedef struct Made {
        HotspotImage image;
        char *data;
        Hotspot *hotspot;
        char reason[HOTSPOT_MAX_REASON];
        int result;
} Made;

static void make(Made *made, const char *name) {
        const char *root = getenv("BUILD_DIR");
        char path[4096];
        size_t size;

        memset(made, 0, sizeof(*made));
        snprintf(path, sizeof(path), "%s/tests/fuzz/corpus/hotspot/%s", root ? root : "build", name);
        if (file_read(path, 1 << 20, &made->data, &size))
                cr_skip_test("library: BUILD_DIR is not set");
        cr_assert(image_open(&made->image, (uint8_t *)made->data, size));
        made->result = hotspot_new_over(&made->hotspot, &made->image.reader, made->image.symbols,
                                        made->image.bias, made->reason);
}

static void end(Made *made) {
        hotspot_free(made->hotspot);
        free(made->data);
}

static void check_frame(const HotspotFrame *frame, HotspotFrameKind kind, const char *name, uint32_t line) {
        cr_assert_eq(frame->kind, kind, "%s: kind %d", frame->name, frame->kind);
        cr_assert_str_eq(frame->name, name);
        cr_assert_eq(frame->line, line, "%s: line %u, not %u", name, frame->line, line);
}

/* On arm64 the first one is not known. */
static const char *const all_releases[] = { "java-8", "java-17", "java-25" };
static const char *const *const releases = all_releases + (ELF_MACHINE == EM_AARCH64);
static const size_t n_releases = ARRAY_SIZE(all_releases) - (ELF_MACHINE == EM_AARCH64);

Test(hotspot, names_frames_of_each_release) {
        for (size_t i = 0; i < n_releases; i++) {
                HotspotFrames frames;
                Made made;

                make(&made, releases[i]);
                cr_assert_eq(made.result, 0, "%s: %s", releases[i], made.reason);
                cr_assert_eq(hotspot_frames(made.hotspot, made.image.frames[0], &frames), 0);
                cr_assert_eq(frames.n, 2);
                cr_assert_not(frames.is_short);
                check_frame(&frames.frames[0], HOTSPOT_FRAME_INLINED, "shop.Main$$Lambda.inner", 300);
                check_frame(&frames.frames[1], HOTSPOT_FRAME_COMPILED, "shop.Main$$Lambda.work", 12);
                cr_assert_str_eq(frames.frames[0].signature, "()");
                cr_assert_str_eq(frames.frames[1].file, "Shop.java");

                cr_assert_eq(hotspot_frames(made.hotspot, made.image.frames[1], &frames), 0);
                cr_assert_eq(frames.n, 1);
                check_frame(&frames.frames[0], HOTSPOT_FRAME_INTERPRETED, "shop.Main$$Lambda.work", 300);
                cr_assert_eq(frames.frames[0].bci, 9);

                cr_assert_eq(hotspot_frames(made.hotspot, made.image.frames[2], &frames), 0);
                check_frame(&frames.frames[0], HOTSPOT_FRAME_STUB, "StubRoutines (1)", 0);
                end(&made);
        }
}

/* Its next description is that of an inlined method. The last one before it is of `work`, and so is the loop. */
Test(hotspot, names_no_inlined_frame_for_a_loop_that_has_no_description) {
        HotspotFrames frames;
        Made made;

        if (ELF_MACHINE != EM_X86_64)
                cr_skip_test("machine: it is about x86-64");
        make(&made, "loop-without-a-place");
        made.image.frames[0][0] -= 2;
        made.image.frames[0][1] -= 2;
        cr_assert_eq(hotspot_frames(made.hotspot, made.image.frames[0], &frames), 0);
        cr_assert_eq(frames.n, 1);
        check_frame(&frames.frames[0], HOTSPOT_FRAME_COMPILED, "shop.Main$$Lambda.work", 12);
        cr_assert(frames.is_short);
        end(&made);
}

/* The nmethod has another compile id than the frame: its class may have gone with it. */
Test(hotspot, names_no_frame_by_what_came_after_it) {
        HotspotFrames frames;
        Made made;

        make(&made, "java-17");
        cr_assert_eq(hotspot_frames(made.hotspot, made.image.frames[3], &frames), HOTSPOT_E_NAMELESS);
        cr_assert_eq(hotspot_frames(made.hotspot, made.image.frames[4], &frames), HOTSPOT_E_NAMELESS);
        end(&made);
}

/* The count of unloaded classes, which the test changes while names are read. */
typedef struct Unloading {
        const HotspotReader *memory;
        uint64_t at, count;
        uint64_t method;                /* once its name is read, the count is one more; 0 = never */
} Unloading;

static bool read_unloading(void *userdata, uint64_t address, void *to, size_t size) {
        Unloading *unloading = userdata;

        if (address == unloading->at && size == sizeof(unloading->count)) {
                memcpy(to, &unloading->count, size);
                return true;
        }
        if (address == unloading->method)
                unloading->count++;
        return hotspot_read(unloading->memory, address, to, size);
}

static void make_unloading(Made *made, Unloading *unloading, HotspotReader *reader) {
        make(made, "java-17");
        *unloading = (Unloading){ .memory = &made->image.reader, .at = hotspot_code(made->hotspot)->unloads,
                                  .count = 36 };
        cr_assert(unloading->at, "java 17 counts");
        *reader = (HotspotReader){ read_unloading, unloading };
        made->hotspot = hotspot_free(made->hotspot);
        made->result = hotspot_new_over(&made->hotspot, reader, made->image.symbols, made->image.bias,
                                        made->reason);
        cr_assert_eq(made->result, 0, "%s", made->reason);
}

Test(hotspot, names_no_method_that_may_have_come_after_the_tick) {
        HotspotFrames frames;
        HotspotReader reader;
        Unloading unloading;
        Made made;

        make_unloading(&made, &unloading, &reader);
        cr_assert_eq(hotspot_frames(made.hotspot, made.image.frames[5], &frames), HOTSPOT_E_UNLOADED,
                     "a class was unloaded since the tick");
        cr_assert_eq(hotspot_frames(made.hotspot, made.image.frames[1], &frames), 0);
        unloading.count++;
        cr_assert_eq(hotspot_frames(made.hotspot, made.image.frames[1], &frames), 0,
                     "it was there before the tick, and is there now");
        cr_assert_eq(hotspot_frames(made.hotspot, made.image.frames[4], &frames), HOTSPOT_E_UNLOADED,
                     "another ConstMethod lies there now");
        end(&made);
}

/* The class goes just when its Method is read. */
Test(hotspot, names_no_method_whose_class_goes_meanwhile) {
        HotspotFrames frames;
        HotspotReader reader;
        Unloading unloading;
        Made made;

        make_unloading(&made, &unloading, &reader);
        unloading.method = made.image.frames[1][2];
        cr_assert_eq(hotspot_frames(made.hotspot, made.image.frames[1], &frames), HOTSPOT_E_UNLOADED);
        end(&made);
}

Test(hotspot, bounds_what_is_counted) {
        static const char *const names[] = { "java-8", "counts-that-never-end", "counts-nowhere" };
        HotspotFrames frames;

        for (size_t i = ELF_MACHINE == EM_AARCH64; i < ARRAY_SIZE(names); i++) {
                Made made;

                make(&made, names[i]);
                cr_assert_eq(made.result, 0, "%s", names[i]);
                cr_assert_eq(hotspot_code(made.hotspot)->unloads, 0, "%s", names[i]);
                cr_assert_eq(hotspot_frames(made.hotspot, made.image.frames[1], &frames), 0, "as before");
                end(&made);
        }
}

/* Compiled, by its deopt handler's address; interpreted; then the call stub, before which came no Java. */
Test(hotspot, walks_a_stack_to_its_root) {
        if (ELF_MACHINE != EM_X86_64)
                cr_skip_test("machine: its stacks are those of x86-64");
        for (size_t i = 0; i < n_releases; i++) {
                uint64_t words[8][HOTSPOT_WORDS];
                HotspotRegisters registers;
                uint32_t n;
                Made made;

                make(&made, releases[i]);
                cr_assert(hotspot_walk_start(&registers, hotspot_layout(made.hotspot), &made.image.reader,
                                             made.image.thread));
                cr_assert_eq(hotspot_walk(words, 8, &n, hotspot_code(made.hotspot),
                                          hotspot_layout(made.hotspot), &made.image.reader,
                                          made.image.thread, registers),
                             HOTSPOT_WALK_ROOT);
                cr_assert_eq(n, 2);
                cr_assert_arr_eq(words, made.image.frames, 2 * sizeof(words[0]));
                cr_assert_eq(hotspot_walk(words, 1, &n, hotspot_code(made.hotspot),
                                          hotspot_layout(made.hotspot), &made.image.reader,
                                          made.image.thread, registers),
                             HOTSPOT_WALK_FULL);
                cr_assert_eq(n, 1);
                end(&made);
        }
}

static void check_reason(const char *name, const char *reason) {
        Made made;

        make(&made, name);
        cr_assert_eq(made.result, HOTSPOT_E_UNKNOWN, "%s: %d", name, made.result);
        cr_assert_str_eq(made.reason, reason);
        end(&made);
}

Test(hotspot, says_by_name_what_it_does_not_know_on_arm64) {
        if (ELF_MACHINE != EM_AARCH64)
                cr_skip_test("machine: it is about arm64");
        check_reason("java-8", "java 8: layout unknown: frames on arm64");
}

Test(hotspot, finds_where_frames_of_virtual_threads_lie_in_the_heap) {
        const HotspotChunkLayout *chunk;
        Made made;

        make(&made, "java-25");
        chunk = &hotspot_layout(made.hotspot)->chunk;
        cr_assert_eq(chunk->oop_base, 0x600000000);
        cr_assert_eq(chunk->oop_shift, 3);
        cr_assert_eq(chunk->tail, 32);
        cr_assert_eq(chunk->parent, 40);
        cr_assert_eq(chunk->sp, 24);
        cr_assert_eq(chunk->bottom, 28);
        cr_assert_eq(chunk->stack, 48);
        end(&made);
}

Test(hotspot, reads_no_heap_where_fields_are_not_described) {
        static const char *const names[] = { "java-17", "fields-that-never-end", "fields-of-another-size" };

        for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
                Made made;

                make(&made, names[i]);
                cr_assert_eq(made.result, 0, "%s", names[i]);
                cr_assert_eq(hotspot_layout(made.hotspot)->chunk.tail, 0, "%s", names[i]);
                end(&made);
        }
}

Test(hotspot, says_what_it_does_not_know) {
        check_reason("no-scopes-data", "java 17: layout unknown: nmethod::_scopes_data_offset");
        check_reason("java-27-without-a-field", "java 27: layout unknown: nmethod::_scopes_data_offset");
        check_reason("stride-of-2-gib", "java: layout unknown: gHotSpotVMStructEntryTypeNameOffset");
        check_reason("member-outside", "java: layout unknown: gHotSpotVMStructEntryTypeNameOffset");
        check_reason("heap-of-everything", "java 17: its code cache is like no JVM's");
}

static int name_first(const char *name, HotspotFrames *frames) {
        Made made;
        int r;

        make(&made, name);
        cr_assert_eq(made.result, 0, "%s: %s", name, made.reason);
        r = hotspot_frames(made.hotspot, made.image.frames[0], frames);
        frames->n = r ? 0 : frames->n;
        end(&made);
        return r;
}

Test(hotspot, has_no_name_for_what_is_no_method) {
        static const char *const cases[] = { "pointer-to-nowhere", "pool-of-another-class", "name-without-tag",
                                             "symbol-cut" };
        HotspotFrames frames;

        for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
                cr_assert_eq(name_first(cases[i], &frames), HOTSPOT_E_NAMELESS, "%s", cases[i]);
}

enum { NAME_PAGE = 0x10000, NAME_BYTES = 4096 };

static char name_page[NAME_BYTES];      /* at NAME_PAGE; there is no other memory */

static bool read_name_page(void *userdata, uint64_t address, void *to, size_t size) {
        if (address < NAME_PAGE || address + size > NAME_PAGE + NAME_BYTES)
                return false;
        memcpy(to, name_page + (address - NAME_PAGE), size);
        return true;
}

/* Whether a blob's name that lies at @at of the page is known. */
static bool read_blob_name(size_t at, char *to, size_t size) {
        const HotspotReader reader = { read_name_page, NULL };
        const HotspotBlob blob = { .name = NAME_PAGE + at };

        return hotspot_blob_name(&blob, &reader, to, size);
}

Test(hotspot, has_no_name_of_code_that_is_not_there_to_its_end) {
        static const char stub[] = "StubRoutines (1)";
        char name[64 + 1];

        memset(name_page, 'x', sizeof(name_page));
        for (size_t end = NAME_BYTES - 16; end <= NAME_BYTES; end++) {
                memcpy(name_page + end - sizeof(stub), stub, sizeof(stub));
                cr_assert(read_blob_name(end - sizeof(stub), name, sizeof(name)));
                cr_assert_str_eq(name, stub);
        }
        name_page[NAME_BYTES - 1] = 'x';
        cr_assert_not(read_blob_name(NAME_BYTES - sizeof(stub), name, sizeof(name)), "its end is not there");
        cr_assert_not(read_blob_name(NAME_BYTES, name, sizeof(name)), "it is nowhere");
        name_page[8] = 0;
        cr_assert_not(read_blob_name(8, name, sizeof(name)), "it is empty");
        cr_assert(read_blob_name(9, name, sizeof(name)));
        cr_assert_eq(strlen(name), sizeof(name) - 1);
}

Test(hotspot, names_no_stub_by_a_part_of_its_name) {
        static const char stub[] = "StubRoutines (1)";
        HotspotFrames frames;
        Made made;

        make(&made, "java-17");
        for (uint32_t i = 0; i < made.image.n_pieces; i++) {
                const uint8_t *data = made.image.pieces[i].data, *found;

                found = memmem(data, made.image.pieces[i].size, stub, sizeof(stub));
                if (found)
                        made.image.pieces[i].size = (uint32_t)(found - data) + 4;
        }
        cr_assert_eq(hotspot_frames(made.hotspot, made.image.frames[2], &frames), HOTSPOT_E_NAMELESS);
        end(&made);
}

Test(hotspot, cuts_long_names) {
        HotspotFrames frames;
        Made made;

        make(&made, "symbol-of-64-kib");
        cr_assert_eq(hotspot_frames(made.hotspot, made.image.frames[1], &frames), 0);
        cr_assert_eq(strlen(frames.frames[0].name), strlen("shop.Main$$Lambda.") + HOTSPOT_MAX_METHOD);
        end(&made);
}

Test(hotspot, finds_an_end_in_a_circle) {
        uint64_t words[8][HOTSPOT_WORDS], blob;
        HotspotFrames frames;
        HotspotRegisters registers;
        uint32_t n;
        Made made;

        cr_assert_eq(name_first("scopes-in-a-circle", &frames), 0);
        cr_assert(frames.is_short);
        make(&made, "segment-map-before-the-heap");
        cr_assert_eq(hotspot_code_find(hotspot_code(made.hotspot), hotspot_layout(made.hotspot),
                                       &made.image.reader, hotspot_code(made.hotspot)->heaps[0].low + 8000,
                                       &blob),
                     HOTSPOT_CODE_E_MALFORMED);
        end(&made);
        if (ELF_MACHINE != EM_X86_64)
                cr_skip_test("machine: its stacks are those of x86-64");
        make(&made, "frame-in-a-circle");
        cr_assert(hotspot_walk_start(&registers, hotspot_layout(made.hotspot), &made.image.reader,
                                     made.image.thread));
        cr_assert_eq(hotspot_walk(words, 8, &n, hotspot_code(made.hotspot), hotspot_layout(made.hotspot),
                                  &made.image.reader,
                                          made.image.thread, registers),
                     HOTSPOT_WALK_MALFORMED);
        end(&made);
}

static void check_parameters(const char *text, const char *want) {
        char to[HOTSPOT_MAX_SIGNATURE + 1];

        cr_assert_eq(hotspot_parameters(to, text, strlen(text)), strlen(want));
        cr_assert_str_eq(to, want);
}

Test(hotspot, says_parameters_as_people_write_them) {
        check_parameters("()V", "()");
        check_parameters("(ZBCSIJFD)V", "(boolean, byte, char, short, int, long, float, double)");
        check_parameters("(I[[JLjava/util/Map$Entry;[Lshop/Cart;)Lshop/Cart;",
                         "(int, long[][], java.util.Map$Entry, shop.Cart[])");
        check_parameters("(La/Main$$Lambda+0x000000005d0032f0;)V", "(a.Main$$Lambda)");
        /* cut, or what no class file has */
        check_parameters("(", "(…)");
        check_parameters("(I", "(int…)");
        check_parameters("(ILjava/lang", "(int…)");
        check_parameters("(L;)V", "(…)");
        check_parameters("(I[)V", "(int…)");
        check_parameters("(IX)V", "(int…)");
}

/* 255 parameters may take more room than there is. */
Test(hotspot, ends_parameters_that_do_not_fit) {
        char text[HOTSPOT_MAX_SIGNATURE], to[HOTSPOT_MAX_SIGNATURE + 1];
        size_t n;

        memset(text, 'Z', sizeof(text));
        text[0] = '(';
        n = hotspot_parameters(to, text, sizeof(text));
        cr_assert_eq(n, strlen(to));
        cr_assert_leq(n, HOTSPOT_MAX_SIGNATURE);
        cr_assert_str_eq(to + n - strlen("boolean…)"), "boolean…)");
        memset(text + 1, '[', sizeof(text) - 1);
        text[sizeof(text) - 1] = 'I';
        hotspot_parameters(to, text, sizeof(text));
        cr_assert_str_eq(to, "(…)");
}

/* 392 = 200 + 3 × 64; with one more in each byte where 0 is left out. */
Test(hotspot, reads_compressed_numbers) {
        HotspotNumbers plain = { .data = (const uint8_t *)"\x4d\xc8\x03\x05", .size = 4 };
        HotspotNumbers shifted = { .data = (const uint8_t *)"\x4e\xc9\x04\x01\x00", .size = 5,
                                   .has_zero_free_numbers = true };

        cr_assert_eq(hotspot_numbers_next(&plain), 77);
        cr_assert_eq(hotspot_numbers_next(&plain), 392);
        cr_assert_eq(hotspot_numbers_next_signed(&plain), -3);
        cr_assert_not(plain.has_failed);
        hotspot_numbers_next(&plain);
        cr_assert(plain.has_failed);
        cr_assert_eq(hotspot_numbers_next(&shifted), 77);
        cr_assert_eq(hotspot_numbers_next(&shifted), 392);
        cr_assert_eq(hotspot_numbers_next(&shifted), 0);
        cr_assert_not(shifted.has_failed);
        hotspot_numbers_next(&shifted);
        cr_assert(shifted.has_failed);
}

/* ---- what a worker says ---- */

static bool is_answer(HotspotSaid said) {
        said.magic += HOTSPOT_WIRE_MAGIC;
        return hotspot_wire_check(&said);
}

Test(hotspot, believes_no_answer_that_cannot_come) {
        cr_assert(is_answer((HotspotSaid){ .kind = HOTSPOT_SAID_OPEN, .result = HOTSPOT_E_UNKNOWN }));
        cr_assert(is_answer((HotspotSaid){ .kind = HOTSPOT_SAID_FRAMES, .n = HOTSPOT_MAX_INLINED }));
        cr_assert(is_answer((HotspotSaid){ .kind = HOTSPOT_SAID_FRAMES, .result = HOTSPOT_E_NAMELESS }));
        cr_assert_not(is_answer((HotspotSaid){ .kind = HOTSPOT_SAID_OPEN, .n = 1 }));
        cr_assert_not(is_answer((HotspotSaid){ .kind = HOTSPOT_SAID_OPEN, .result = HOTSPOT_E_GONE }));
        cr_assert_not(is_answer((HotspotSaid){ 0 }));
        cr_assert_not(is_answer((HotspotSaid){ .kind = HOTSPOT_SAID_OPEN, .result = -ENOMEM }));
        cr_assert_not(is_answer((HotspotSaid){ .kind = HOTSPOT_SAID_FRAMES, .n = HOTSPOT_MAX_INLINED + 1 }));
        cr_assert_not(is_answer((HotspotSaid){ .kind = HOTSPOT_SAID_FRAMES }));
        cr_assert_not(is_answer((HotspotSaid){ .kind = HOTSPOT_SAID_FRAMES, .n = 1, .result = 1 }));
        cr_assert(is_answer((HotspotSaid){ .kind = HOTSPOT_SAID_LOCKS, .n = RUNTIME_MAX_LOCKS }));
        cr_assert_not(is_answer((HotspotSaid){ .kind = HOTSPOT_SAID_LOCKS, .n = RUNTIME_MAX_LOCKS + 1 }));
        cr_assert_not(is_answer((HotspotSaid){ .kind = HOTSPOT_SAID_LOCKS, .result = HOTSPOT_E_NAMELESS }));
        cr_assert_not(is_answer((HotspotSaid){ .kind = HOTSPOT_SAID_LOCKS + 1, .n = 1 }));
        cr_assert_not(is_answer((HotspotSaid){ .kind = HOTSPOT_SAID_OPEN, .magic = 1 }));
}

Test(hotspot, believes_no_code_cache_that_cannot_be) {
        static HotspotOpened good, bad;

        good.layout.version = 17;
        good.code = (HotspotCode){ .n_heaps = 2, .interpreter_low = 0x1100, .interpreter_high = 0x1200 };
        good.code.heaps[0] = (HotspotHeap){ 0x1000, 0x2000, 0x8000, 7 };
        good.code.heaps[1] = (HotspotHeap){ 0x2000, 0x3000, 0x9000, 7 };
        cr_assert(hotspot_wire_check_opened(&good));
        bad = good;
        bad.code.n_heaps = HOTSPOT_MAX_HEAPS + 1;
        cr_assert_not(hotspot_wire_check_opened(&bad));
        bad = good;
        bad.code.heaps[1].low = 0x1fff;
        cr_assert_not(hotspot_wire_check_opened(&bad));
        bad = good;
        bad.code.heaps[1].end = UINT64_C(1) << 56;
        cr_assert_not(hotspot_wire_check_opened(&bad));
        bad = good;
        bad.code.heaps[0].log2_segment = 64;
        cr_assert_not(hotspot_wire_check_opened(&bad));
        bad = good;
        bad.code.interpreter_high = 0x1100;
        cr_assert_not(hotspot_wire_check_opened(&bad));
        bad = good;
        bad.interpreter_blob = 0x2fff;
        cr_assert(hotspot_wire_check_opened(&bad));
        bad.interpreter_blob = 0x3000;
        cr_assert_not(hotspot_wire_check_opened(&bad));
}

Test(hotspot, makes_a_text_of_any_reason) {
        char reason[HOTSPOT_MAX_REASON];

        strcpy(reason, "java 27: layout unknown: a\033[2Jb\n\xff");
        reader_text_repair(reason, sizeof(reason));
        cr_assert_str_eq(reason, "java 27: layout unknown: a?[2Jb??");
        memset(reason, 'x', sizeof(reason));
        reader_text_repair(reason, sizeof(reason));
        cr_assert_eq(strlen(reason), HOTSPOT_MAX_REASON - 1);
}

static bool takes_lock(RuntimeLock lock) {
        static RuntimeLocks locks;

        locks = (RuntimeLocks){ .n = 1 };
        locks.locks[0] = lock;
        return reader_locks_check(&locks);
}

Test(hotspot, believes_no_lock_that_cannot_be) {
        RuntimeLock full = { .tid = 1 }, early = { .name = "a" };
        static RuntimeLocks many;

        cr_assert(takes_lock((RuntimeLock){ .address = 1, .tid = 1, .owner = UINT32_MAX, .name = "a.Bä" }));
        cr_assert(takes_lock((RuntimeLock){ .kind = RUNTIME_N_LOCK_KINDS - 1 }));
        cr_assert_not(takes_lock((RuntimeLock){ .kind = RUNTIME_N_LOCK_KINDS }));
        cr_assert_not(takes_lock((RuntimeLock){ .zero = 1 }));
        cr_assert_not(takes_lock((RuntimeLock){ .name = "a\xff" }));
        memset(full.name, 'x', sizeof(full.name));
        cr_assert_not(takes_lock(full), "a name without an end");
        early.name[sizeof(early.name) - 1] = 'b';
        cr_assert_not(takes_lock(early), "something is behind the name");
        many.n = RUNTIME_MAX_LOCKS + 1;
        cr_assert_not(reader_locks_check(&many));
        many.n = 0;
        memset(many.text, '\n', sizeof(many.text));
        cr_assert(reader_locks_check(&many));
        cr_assert_eq(strspn(many.text, "?"), sizeof(many.text) - 1, "it goes to terminals");
}

static bool takes(HotspotWireFrame frame, const char *text) {
        HotspotFrame to;

        return hotspot_wire_take(&to, &frame, text);
}

Test(hotspot, believes_no_frame_that_cannot_be) {
        const HotspotWireFrame good = { .kind = HOTSPOT_FRAME_INLINED, .line = 12, .bci = -1, .n_name = 4,
                                        .n_signature = 4, .n_file = 1 };
        HotspotWireFrame bad = good;
        HotspotFrame frame;

        cr_assert(hotspot_wire_take(&frame, &good, "a.b\0()V\0"));
        cr_assert_str_eq(frame.name, "a.b");
        cr_assert_str_eq(frame.signature, "()V");
        cr_assert_str_eq(frame.file, "");
        cr_assert_not(takes(good, "a.bx()V\0"), "a text without an end");
        cr_assert_not(takes(good, "a\0b\0()V\0"), "two texts in one");
        cr_assert_not(takes(good, "a.\xff\0()V\0"), "no UTF-8");
        cr_assert_not(takes(good, "\0\0\0\0()V\0"), "no name");
        bad.kind = HOTSPOT_N_FRAME_KINDS;
        cr_assert_not(takes(bad, "a.b\0()V\0"));
        bad = good;
        bad.n_file = 0;
        cr_assert_not(takes(bad, "a.b\0()V\0"));
        bad = good;
        bad.bci = -2;
        cr_assert_not(takes(bad, "a.b\0()V\0"));
        bad = good;
        bad.line = UINT16_MAX + 1;
        cr_assert_not(takes(bad, "a.b\0()V\0"));
}
