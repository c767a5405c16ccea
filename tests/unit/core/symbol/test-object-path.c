/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Debug files as distributions make them: a C program with a static function is linked, split by objcopy and
 * stripped, and the symbolizer must name the function at the address that nm had printed before; and the same
 * by a worker without rights, whose zygotes is this program once more.
 */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "core/symbol/function/debug-file.h"
#include "core/symbol/function/symbol-session.h"
#include "core/symbol/function/symbolizer.h"
#include "core/symbol/object/object-file.h"
#include "host/service/run/worker-main.h"
#include "work-directory.h"

static const char program_text[] =
        "static __attribute__((noinline)) int hidden(int x) { __asm__(\"\"); return x * 3; }\n"
        "__attribute__((visibility(\"default\"))) int shown(int x) { return hidden(x) + 1; }\n"
        "int main(int c, char **v) { return shown(c); }\n";

static uint64_t hidden, shown;
static char id[128];

/* @flags: of the linker. The addresses stay the same when the program is split. */
static void make_program(const char *flags) {
        FILE *file;

        work_directory_make();
        file = fopen(work_path("program.c"), "we");
        cr_assert_not_null(file);
        cr_assert_geq(fputs(program_text, file), 0);
        cr_assert_eq(fclose(file), 0);
        cr_assert_eq(shell("gcc -O1 -g -rdynamic %s -o whole program.c && cp whole program", flags), 0);
        hidden = strtoul(first_line("nm %s | sed -n 's/ t hidden$//p'", work_path("whole")), NULL, 16);
        shown = strtoul(first_line("nm %s | sed -n 's/ T shown$//p'", work_path("whole")), NULL, 16);
        snprintf(id, sizeof(id), "%s",
                 first_line("readelf -nW %s | sed -n 's/.*Build ID: //p'", work_path("whole")));
        cr_assert(hidden && shown);
}

static void with_id(void) {
        make_program("-Wl,--build-id=sha1");
        cr_assert_eq(strlen(id), 40);
}

static void without_id(void) {
        make_program("-Wl,--build-id=none");
        cr_assert_eq(strlen(id), 0);
}

/*
 * Only the first 16 bytes of SHA-256 over the first and last 4096 bytes and the length, as semantic
 * conventions say.
 */
static const char *htlhash_of(const char *name) {
        const char *path = work_path(name);

        return first_line(
                "{ head -c 4096 %s; tail -c 4096 %s; perl -e 'print pack(\"Q>\", -s shift)' %s; } | sha256sum | cut -c 1-32",
                path, path, path);
}

static Symbolizer *symbolizer, *remote;
static Zygotes *zygotes;

__attribute__((__constructor__)) static void become_zygote(int argc, char **argv) {
        if (argc == 1 && !strcmp(argv[0], ZYGOTE_NAME))
                zygote_serve(worker_main);
}

/* What a worker says: the same. It is never asked by the content's hash, which no daemon has. */
static void compare(const SymbolObject *object, uint64_t address, const SymbolName *expected) {
        SymbolizerOptions options = { .debug_directory = work_path("debug") };
        WorkerSessionCounts counts = { 0 };
        SymbolName name;

        if (!object->build_id_gnu[0] && !object->build_id_go[0] && !object->file)
                return;
        if (!zygotes) {
                cr_assert_eq(zygotes_new(&zygotes), 0);
                cr_assert_eq(zygotes_wait(zygotes, 60000), 0);
        }
        symbolizer_free(remote);
        cr_assert_eq(symbolizer_new(&remote, &options), 0);
        cr_assert_eq(symbol_session_run(zygotes, remote, object, &address, 1, &counts), 0);
        cr_assert_eq(counts.n_started, 1);
        cr_assert_eq(counts.n_died + counts.n_late + counts.n_malformed, 0);
        cr_assert_eq(symbolizer_name(remote, object, address, &name), 0);
        cr_assert_eq(name.state, expected->state, "a worker: %s, not %s", symbol_state_text(name.state),
                     symbol_state_text(expected->state));
        cr_assert_str_eq(name.name ?: "nothing", expected->name ?: "nothing");
}

static SymbolState name_of(const SymbolObject *object, uint64_t address, const char **namep) {
        SymbolizerOptions options = { .debug_directory = work_path("debug") };
        SymbolName name;

        symbolizer_free(symbolizer);
        cr_assert_eq(symbolizer_new(&symbolizer, &options), 0);
        cr_assert_eq(symbolizer_name(symbolizer, object, address, &name), 0);
        compare(object, address, &name);
        *namep = name.name;
        return name.state;
}

static void expect(const SymbolObject *object, SymbolState state, const char *expected_hidden,
                   const char *what) {
        const char *name;
        SymbolState found = name_of(object, hidden, &name);

        cr_expect_eq(found, state, "%s: %s", what, symbol_state_text(found));
        if (expected_hidden)
                cr_expect_str_eq(name ? name : "nothing", expected_hidden, "%s", what);
        else
                cr_expect(!name || !strcmp(name, "shown"), "%s: %s", what, name);
        if (state == SYMBOL_STATE_NAMED || state == SYMBOL_STATE_DYNAMIC) {
                name_of(object, shown, &name);
                cr_expect_str_eq(name ? name : "nothing", "shown", "%s", what);
        }
}

static void clean_up(void) {
        symbolizer = symbolizer_free(symbolizer);
        remote = symbolizer_free(remote);
        zygotes = zygotes_free(zygotes);
        work_directory_remove();
}

static SymbolObject program(void) {
        return (SymbolObject){ .path = work_path("program"), .build_id_gnu = id, .build_id_go = "" };
}

TestSuite(object, .fini = clean_up, .timeout = 120);

Test(object, finds_a_debug_file_by_build_id, .init = with_id) {
        SymbolObject object = program();

        expect(&object, SYMBOL_STATE_NAMED, "hidden", "the whole program");
        cr_assert_eq(shell("strip program"), 0);
        expect(&object, SYMBOL_STATE_DYNAMIC, NULL, "stripped");
        cr_assert_eq(
                shell("mkdir -p debug/.build-id/%.2s && objcopy --only-keep-debug whole debug/.build-id/%.2s/%s.debug",
                      id, id, id + 2),
                0);
        expect(&object, SYMBOL_STATE_NAMED, "hidden", "with a debug file");
        cr_assert_eq(shell("rm program"), 0);
        expect(&object, SYMBOL_STATE_NAMED, "hidden", "the debug file alone");
}

/* In the order of gdb's documentation, "Debugging Information in Separate Files". */
Test(object, finds_a_debug_file_by_its_link, .init = with_id) {
        static const char *const folders[] = { "$PWD", "$PWD/.debug", "$PWD/debug$PWD" };
        SymbolObject object = program();

        cr_assert_eq(
                shell("objcopy --only-keep-debug whole names.debug && strip program && objcopy --add-gnu-debuglink=names.debug program && mv names.debug saved"),
                0);
        expect(&object, SYMBOL_STATE_DYNAMIC, NULL, "no debug file anywhere");
        for (size_t i = 0; i < 3; i++) {
                cr_assert_eq(shell("mkdir -p %s && cp saved %s/names.debug", folders[i], folders[i]), 0);
                expect(&object, SYMBOL_STATE_NAMED, "hidden", folders[i]);
                cr_assert_eq(shell("rm %s/names.debug", folders[i]), 0);
        }
}

Test(object, believes_a_linked_file_without_ids_by_its_sum, .init = without_id) {
        char hash[64];
        SymbolObject object = {
                .path = work_path("program"), .build_id_gnu = "", .build_id_go = "", .build_id_htlhash = hash
        };

        snprintf(hash, sizeof(hash), "%s", htlhash_of("program"));
        cr_assert_eq(strlen(hash), 32);
        expect(&object, SYMBOL_STATE_NAMED, "hidden", "by the hash of its content");
        cr_assert_eq(
                shell("objcopy --only-keep-debug whole names.debug && strip program && objcopy --add-gnu-debuglink=names.debug program"),
                0);
        expect(&object, SYMBOL_STATE_OTHER, NULL, "the content has changed");
        snprintf(hash, sizeof(hash), "%s", htlhash_of("program"));
        expect(&object, SYMBOL_STATE_NAMED, "hidden", "a debug file with the right sum");
        cr_assert_eq(shell("printf x >>names.debug"), 0);
        expect(&object, SYMBOL_STATE_DYNAMIC, NULL, "a debug file with another sum");
}

Test(object, does_not_believe_a_linked_file_of_another_build, .init = with_id) {
        SymbolObject object = program();

        cr_assert_eq(
                shell("sed 's/hidden/forged/g' program.c >other.c && gcc -O1 -g -Wl,--build-id=sha1 -o other other.c && "
                      "objcopy --only-keep-debug other names.debug && strip program && objcopy --add-gnu-debuglink=names.debug program"),
                0);
        expect(&object, SYMBOL_STATE_DYNAMIC, NULL, "the sum is right, the build id is another");
}

/* The recipe of gdb's documentation, "MiniDebugInfo". */
static int add_mini_debuginfo(const char *packer) {
        return shell(
                "nm -D whole --format=posix --defined-only | awk '{ print $1 }' | sort >dynamic; "
                "nm whole --format=posix --defined-only | awk '{ if ($2 == \"T\" || $2 == \"t\") print $1 }' | sort >functions; "
                "comm -13 dynamic functions >kept; objcopy --only-keep-debug whole only && "
                "objcopy -S --remove-section .gdb_index --remove-section .comment --keep-symbols=kept only mini && "
                "strip --strip-all -R .comment program && %s && objcopy --add-section .gnu_debugdata=mini.xz program",
                packer);
}

Test(object, reads_the_small_file_that_is_packed_in_it, .init = with_id) {
        SymbolObject object = program();

        cr_assert_eq(add_mini_debuginfo("xz -k mini"), 0);
        expect(&object, SYMBOL_STATE_NAMED, "hidden", "packed by xz");
        cr_assert_eq(
                shell("printf '\\377\\377\\377\\377' >bad && dd if=bad of=mini.xz bs=1 seek=60 conv=notrunc status=none && "
                      "objcopy --update-section .gnu_debugdata=mini.xz program"),
                0);
        expect(&object, SYMBOL_STATE_DYNAMIC, NULL, "damaged");
}

/* 256 MiB of zeros in 40 KiB: over the cap it is given up, and what was unpacked before is gone too. */
Test(object, survives_a_bomb, .init = with_id) {
        SymbolObject object = program();

        cr_assert_eq(add_mini_debuginfo("truncate -s 256M bomb && xz -0 -T1 -c bomb >mini.xz && rm bomb"), 0);
        expect(&object, SYMBOL_STATE_DYNAMIC, NULL, "a bomb");
        cr_assert_lt(symbolizer_memory(symbolizer), 1 << 20);
}

/* Gives an object the number of the file that is at its path now. */
static void know_file(SymbolObject *object) {
        int fd = open(object->path, O_PATH | O_CLOEXEC);
        uid_t owner;

        cr_assert_eq(object_file_number_of(fd, &object->file, &owner), 0);
        close(fd);
}

Test(object, of_a_known_file_takes_no_other, .init = with_id) {
        SymbolObject object = program();

        know_file(&object);
        expect(&object, SYMBOL_STATE_NAMED, "hidden", "itself");
        cr_assert_eq(shell("cp -p program copy && mv copy program"), 0);
        expect(&object, SYMBOL_STATE_OTHER, NULL, "a copy, to the last byte");
}

Test(object, of_a_known_file_needs_no_id, .init = without_id) {
        SymbolObject object = program();

        object.build_id_htlhash = "";
        expect(&object, SYMBOL_STATE_NO_ID, NULL, "any file");
        know_file(&object);
        expect(&object, SYMBOL_STATE_NAMED, "hidden", "the file");
}

/* Any user may have made a folder that is called as the one in which a target sees its file. */
Test(object, of_a_known_file_takes_debug_files_of_its_owner, .init = with_id) {
        SymbolObject object = program();

        if (geteuid() != 0)
                cr_skip_test("root: gives files to others");
        cr_assert_eq(
                shell("objcopy --only-keep-debug whole names.debug && strip program && "
                      "objcopy --add-gnu-debuglink=names.debug program && chmod 644 names.debug && chown 65534 names.debug"),
                0);
        know_file(&object);
        expect(&object, SYMBOL_STATE_DYNAMIC, NULL, "a stranger's");
        cr_assert_eq(shell("chown 0 names.debug && chmod 666 names.debug"), 0);
        expect(&object, SYMBOL_STATE_DYNAMIC, NULL, "that anybody may write");
        cr_assert_eq(shell("chmod 644 names.debug"), 0);
        expect(&object, SYMBOL_STATE_NAMED, "hidden", "its owner's");
        cr_assert_eq(shell("chown 65534 names.debug program"), 0);
        know_file(&object);
        expect(&object, SYMBOL_STATE_NAMED, "hidden", "another owner's, of both");
}

/* Links that go round, and links to what is no plain name: nothing is followed beyond one file. */
Test(object, follows_one_link, .init = with_id) {
        SymbolObject object = program();

        cr_assert_eq(
                shell("strip program && cp program a && cp program b && objcopy --add-gnu-debuglink=b a && objcopy --add-gnu-debuglink=a b && "
                      "objcopy --add-gnu-debuglink=a program"),
                0);
        expect(&object, SYMBOL_STATE_DYNAMIC, NULL, "a → b → a");
        cr_assert_eq(
                shell("cp program self && objcopy -R .gnu_debuglink self && objcopy --add-gnu-debuglink=self self && mv self program"),
                0);
        expect(&object, SYMBOL_STATE_DYNAMIC, NULL, "itself");
}

Test(object, reads_links) {
        static const char good[] = "name.debug\0\0\x78\x56\x34\x12", exact[] = "abc\0\1\0\0\0",
                          up[] = "../x\0\0\0\0\1\0\0\0", dots[] = "..\0\0\1\0\0\0",
                          empty[] = "\0\0\0\0\1\0\0\0";
        const char *name = "unset";
        uint32_t crc = 7;

        cr_assert_eq(debug_link_parse(good, 15, &name, &crc), 1, "the sum is cut");
        cr_assert_eq(debug_link_parse(good, 5, &name, &crc), 1, "the name has no end");
        cr_assert_eq(debug_link_parse(good, 0, &name, &crc), 1);
        cr_assert_eq(debug_link_parse(up, 12, &name, &crc), 1);
        cr_assert_eq(debug_link_parse(dots, 8, &name, &crc), 1);
        cr_assert_eq(debug_link_parse(empty, 8, &name, &crc), 1);
        cr_assert_str_eq(name, "unset");
        cr_assert_eq(crc, 7);
        cr_assert_eq(debug_link_parse(good, 16, &name, &crc), 0);
        cr_assert_str_eq(name, "name.debug");
        cr_assert_eq(crc, 0x12345678);
        cr_assert_eq(debug_link_parse(exact, 8, &name, &crc), 0);
        cr_assert_eq(crc, 1);
        work_directory_make();
}

static int open_kept(void *userdata) {
        return open((const char *)userdata, O_RDONLY | O_CLOEXEC);
}

Test(object, opens_through_its_source, .init = with_id) {
        SymbolSource source = { .open = open_kept, .userdata = (void *)work_path("whole") };
        SymbolObject object = {
                .path = "/gone (deleted)", .build_id_gnu = id, .build_id_go = "", .source = &source
        };

        expect(&object, SYMBOL_STATE_NAMED, "hidden", "by a descriptor");
        source.userdata = (void *)work_path("");
        expect(&object, SYMBOL_STATE_UNREADABLE, NULL, "a descriptor of a folder");
        source.userdata = (void *)"/no/such/file";
        expect(&object, SYMBOL_STATE_ABSENT, NULL, "no descriptor");
}

/*
 * A container's links are followed inside of it: `/bin/program` → `/escape/whole` is not the file of the
 * host.
 */
Test(object, stays_inside_of_a_root, .init = with_id) {
        char root[PATH_MAX];
        SymbolSource source = { .root = root };
        SymbolObject object = {
                .path = "/bin/program", .build_id_gnu = id, .build_id_go = "", .source = &source
        };

        snprintf(root, sizeof(root), "%s", work_path("root"));
        cr_assert_eq(shell("mkdir -p root/bin && ln -s %s root/bin/program", work_path("whole")), 0);
        expect(&object, SYMBOL_STATE_ABSENT, NULL, "a link out of the root");
        cr_assert_eq(
                shell("mkdir -p root/opt && cp whole root/opt/whole && ln -sf /opt/whole root/bin/program"),
                0);
        expect(&object, SYMBOL_STATE_NAMED, "hidden", "a link within the root");
        cr_assert_eq(shell("strip root/opt/whole && mkdir -p root%s/debug/.build-id/%.2s && "
                           "objcopy --only-keep-debug whole root%s/debug/.build-id/%.2s/%s.debug",
                           work_directory, id, work_directory, id, id + 2), 0);
        expect(&object, SYMBOL_STATE_NAMED, "hidden", "a debug file within the root");
}
