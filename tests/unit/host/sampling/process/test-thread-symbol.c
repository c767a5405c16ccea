/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "border/abi.h"
#include "host/sampling/process/thread-symbol.h"

/* Files of the fuzzer's corpus, made by hand: tests/fuzz/make/make-context-corpus.py says how. */
static ThreadSymbol read_corpus(const char *name) {
        const char *root = getenv("BUILD_DIR");
        ThreadSymbol symbol = { .form = 99 };
        char path[4096];
        struct stat st;
        int fd;

        snprintf(path, sizeof(path), "%s/tests/fuzz/corpus/thread-symbol/%s", root ? root : "build", name);
        fd = open(path, O_RDONLY);
        if (fd < 0)
                cr_skip_test("library: BUILD_DIR is not set");
        fstat(fd, &st);
        cr_assert_eq(thread_symbol_read(fd, NULL, (uint64_t)st.st_size, &symbol), 0);
        close(fd);
        return symbol;
}

static void check_slot(const char *name, ThreadSlotKind kind) {
        ThreadSymbol symbol = read_corpus(name);

        cr_assert_eq(symbol.form, ABI_FORM_THREAD, "%s", name);
        cr_assert_eq(symbol.value, 8);
        cr_assert_eq(symbol.n_slots, 1);
        cr_assert_eq(symbol.slots[0].kind, kind);
        cr_assert_eq(symbol.slots[0].address, 0x4000);
        cr_assert(symbol.slots[0].has_symbol);
}

Test(thread_symbol, is_found_with_its_relocation) {
        check_slot("general-dynamic", THREAD_SLOT_MODULE);
        check_slot("descriptor", THREAD_SLOT_DESCRIPTOR);
        check_slot("initial-exec", THREAD_SLOT_OFFSET);
}

/*
 * A block of 16 bytes, aligned to 8, at the end of the file: the variable at 8 is 8 below the thread pointer
 * and the pad.
 */
Test(thread_symbol, of_an_executable_needs_no_relocation) {
        ThreadSymbol symbol = read_corpus("local-exec");

        cr_assert_eq(symbol.form, ABI_FORM_THREAD);
        cr_assert_eq(symbol.n_slots, 0);
        cr_assert_leq(symbol.local_offset, -8);
        cr_assert_gt(symbol.local_offset, -16);
}

Test(thread_symbol, of_other_forms_is_told_apart) {
        cr_assert_eq(read_corpus("elastic").form, ABI_FORM_ELASTIC);
        cr_assert_eq(read_corpus("node").form, ABI_FORM_NODE);
        cr_assert_eq(read_corpus("node").slots[0].kind, THREAD_SLOT_DESCRIPTOR);
        cr_assert_eq(read_corpus("labels").form, ABI_FORM_LABELS);
        cr_assert_null(read_corpus("labels").unread);
        cr_assert_not_null(strstr(read_corpus("older").unread, "context_tls_v1"));
        cr_assert_null(read_corpus("general-dynamic").unread);
}

Test(thread_symbol, of_labels_without_the_known_version_is_none) {
        static const char *const names[] = { "labels-without-version", "labels-version-2" };

        for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
                cr_assert_eq(read_corpus(names[i]).form, ABI_FORM_NONE, "%s", names[i]);
                cr_assert_not_null(strstr(read_corpus(names[i]).unread, "custom_labels_abi_version is not 1"));
        }
}

Test(thread_symbol, of_the_wrong_kind_or_size_is_none) {
        static const char *const names[] = { "no-thread-variable", "wrong-size", "outside-its-block",
                                             "chain-in-a-circle", "cut" };

        for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
                cr_assert_eq(read_corpus(names[i]).form, ABI_FORM_NONE, "%s", names[i]);
        for (size_t i = 0; i < 3; i++)
                cr_assert_not_null(strstr(read_corpus(names[i]).unread, "otel_thread_ctx_v1 is no pointer"),
                                   "%s says why", names[i]);
}

Test(thread_symbol, of_node_is_a_variable_of_four_words) {
        static const char *const names[] = { "node-a-pointer", "node-outside-its-block" };

        for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
                cr_assert_eq(read_corpus(names[i]).form, ABI_FORM_NONE, "%s", names[i]);
                cr_assert_not_null(strstr(read_corpus(names[i]).unread, "has not 32 bytes"), "%s", names[i]);
        }
}

/* Eight relocations without the symbol, then the one with it: that one is kept. */
Test(thread_symbol, keeps_the_relocation_that_names_it_among_many) {
        ThreadSymbol symbol = read_corpus("one-of-many");
        unsigned int n_named = 0;

        for (uint32_t i = 0; i < symbol.n_slots; i++)
                n_named += symbol.slots[i].has_symbol;
        cr_assert_eq(n_named, 1);
        cr_assert_eq(symbol.slots[symbol.n_slots - 1].kind, THREAD_SLOT_DESCRIPTOR);
        cr_assert_eq(symbol.slots[symbol.n_slots - 1].address, 0x4080);
}
