/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a variable is reached, by the words that a loader left: here an object that lies in this very process,
 * with words of its GOT that each test fills in as ld.so would (ELF Handling for Thread-Local Storage, 3.4;
 * TLSDESC).
 */
#include <criterion/criterion.h>
#include <string.h>
#include <unistd.h>

#include "host/sampling/process/process.h"
#include "host/sampling/context/thread-context.h"

enum { BASE = 0x700000 };       /* below every address of words: they come to lie above the object's base */

static uint64_t words[2], dynamic[4];
static Object object;
static Mapping mapping;
static Process process;

/*
 * Text at the file's offset 0x1000 and address 0x2000, so that the bias is another number than start -
 * offset.
 */
static void make(ThreadSlotKind kind, bool has_symbol) {
        static char path[] = "/lib/libtracer.so", exe[] = "/bin/service";

        object = (Object){ .n_segments = 2,
                           .segments = { { .address = 0,
                                           .offset = 0,
                                           .file_size = 0x1000,
                                           .memory_size = 0x1000,
                                           .flags = 4 },
                                         { .address = 0x2000,
                                           .offset = 0x1000,
                                           .file_size = 0x5000,
                                           .memory_size = 0x5000,
                                           .flags = 5 } } };
        object.thread_symbol = (ThreadSymbol){ .form = ABI_FORM_THREAD,
                                               .value = 0x110,
                                               .block_size = 0x200,
                                               .local_offset = -0x58,
                                               .n_slots = 1 };
        object.thread_symbol.slots[0] = (ThreadSlot){ (uintptr_t)words - BASE, kind, has_symbol };
        mapping = (Mapping){ .start = BASE + 0x2000,
                             .end = BASE + 0x7000,
                             .offset = 0x1000,
                             .kind = MAPPING_FILE,
                             .object = &object,
                             .path = path };
        process = (Process){ .pid = (uint32_t)getpid(), .exe = exe, .mappings = &mapping, .n_mappings = 1 };
}

static void check(uint8_t model, uint32_t module, int64_t offset) {
        const char *unread = "?";
        ThreadContext found = thread_context_find(&process, &unread);

        cr_assert_eq(found.form, ABI_FORM_THREAD, "%s", unread ? unread : "");
        cr_assert_null(unread);
        cr_assert_eq(found.model, model);
        cr_assert_eq(found.module, module);
        cr_assert_eq(found.offset, offset);
}

static void check_unread(const char *why) {
        const char *unread = NULL;
        ThreadContext found = thread_context_find(&process, &unread);

        cr_assert_eq(found.form, ABI_FORM_NONE);
        cr_assert_not_null(unread);
        cr_assert_not_null(strstr(unread, why), "%s", unread);
}

Test(thread_context, is_reached_as_each_word_says) {
        make(THREAD_SLOT_OFFSET, true);
        words[0] = (uint64_t)-0x48;
        check(ABI_THREAD_STATIC, 0, -0x48);

        make(THREAD_SLOT_MODULE, true);
        words[0] = 4, words[1] = 0x110;
        check(ABI_THREAD_GLIBC, 4, 0x110);

        make(THREAD_SLOT_MODULE, false);
        words[0] = 3, words[1] = 0xdead;        /* the word behind is another one's */
        check(ABI_THREAD_GLIBC, 3, 0x110);

        make(THREAD_SLOT_DESCRIPTOR, true);
        words[0] = 0x1234, words[1] = (uint64_t)-0x60;
        check(ABI_THREAD_STATIC, 0, -0x60);

        make(THREAD_SLOT_DESCRIPTOR, true);
        dynamic[0] = 2, dynamic[1] = 0x110, dynamic[2] = 2;
        words[1] = (uintptr_t)dynamic;
        check(ABI_THREAD_GLIBC, 2, 0x110);
}

Test(thread_context, of_the_executable_needs_no_word) {
        make(THREAD_SLOT_OFFSET, true);
        object.thread_symbol.n_slots = 0;
        check_unread("no word");
        process.exe = mapping.path;
        check(ABI_THREAD_STATIC, 0, -0x58);
}

Test(thread_context, is_found_though_the_text_begins_in_a_page_that_two_segments_share) {
        /* as lld packs files: text at offset 0x1b9c and address 0x2b9c, right behind what is only read */
        make(THREAD_SLOT_MODULE, true);
        object.segments[0].file_size = object.segments[0].memory_size = 0x1b9c;
        object.segments[1].offset = 0x1b9c;
        object.segments[1].address = 0x2b9c;
        words[0] = 2, words[1] = 0x110;
        check(ABI_THREAD_GLIBC, 2, 0x110);
}

Test(thread_context, believes_the_word_that_names_the_symbol_before_one_of_the_whole_file) {
        static uint64_t other[2] = { 7, 0 };

        make(THREAD_SLOT_DESCRIPTOR, true);
        object.thread_symbol.slots[1] = object.thread_symbol.slots[0];
        object.thread_symbol.slots[0] = (ThreadSlot){ (uintptr_t)other - BASE, THREAD_SLOT_MODULE, false };
        object.thread_symbol.n_slots = 2;
        words[1] = (uint64_t)-0x60;
        check(ABI_THREAD_STATIC, 0, -0x60);
        words[1] = 0;                           /* not resolved (yet) */
        check(ABI_THREAD_GLIBC, 7, 0x110);
}

Test(thread_context, is_not_guessed_from_wild_words) {
        static const uint64_t modules[] = { 0, (1 << 16) + 1, UINT64_MAX };
        static const int64_t offsets[] = { 0, 8, INT64_MAX, INT64_MIN, -(INT64_C(64) << 20) };
        static const uint64_t pointers[] = { 0, 8, UINT64_C(0xffff800000000000), UINT64_C(0x800000000000) };

        for (size_t i = 0; i < sizeof(modules) / sizeof(*modules); i++) {
                make(THREAD_SLOT_MODULE, true);
                words[0] = modules[i], words[1] = 0x110;
                check_unread("no word");
        }
        words[0] = 4, words[1] = 0x118;         /* the offset of another variable */
        check_unread("no word");
        for (size_t i = 0; i < sizeof(offsets) / sizeof(*offsets); i++) {
                make(THREAD_SLOT_OFFSET, true);
                words[0] = (uint64_t)offsets[i];
                check_unread("no word");
        }
        for (size_t i = 0; i < sizeof(pointers) / sizeof(*pointers); i++) {
                make(THREAD_SLOT_DESCRIPTOR, true);
                words[1] = pointers[i];
                check_unread("no word");
        }
        make(THREAD_SLOT_MODULE, true);
        object.thread_symbol.slots[0].address = UINT64_C(0xffff800000000000);
        check_unread("no word");
        mapping.offset = 0x6000;                /* of no segment: a file that was cut, or another one */
        check_unread("no word");
}

Test(thread_context, says_which_other_form_there_is) {
        make(THREAD_SLOT_MODULE, true);
        object.thread_symbol.form = ABI_FORM_NONE;
        object.thread_symbol.unread = "some_form is not read";
        check_unread("some_form");
        mapping.kind = MAPPING_ANONYMOUS;
        const char *unread = "?";
        cr_assert_eq(thread_context_find(&process, &unread).form, ABI_FORM_NONE);
        cr_assert_null(unread);
}
