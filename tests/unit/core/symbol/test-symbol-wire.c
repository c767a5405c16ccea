/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Symbols of files read by real workers, and by workers that lie. The zygotes is this program once more (as
 * in test-sandbox.c); an object whose Go build id is `lie` and a number says how its worker behaves. Debug
 * files: test-object.c.
 */

#include <criterion/criterion.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/sandbox/channel.h"
#include "core/base/util/clock.h"
#include "core/symbol/function/symbol-session.h"
#include "core/symbol/function/symbol-wire.h"
#include "host/service/run/worker-main.h"

enum {
        LIE_DIE,
        LIE_DIE_LATER,
        LIE_MAGIC,
        LIE_KIND,
        LIE_STATE,
        LIE_NOT_FULL,
        LIE_SIZE,
        LIE_NAMES,
        LIE_GO,
        LIE_LINK,
        LIE_LINK_UP,
        LIE_FIRST,
        LIE_ORDER,
        LIE_EMPTY_FUNCTION,
        LIE_WRAP,
        LIE_EMPTY_NAME,
        LIE_OPEN_NAME,
        LIE_LONG_NAME,
        LIE_MORE_NAMES,
        LIE_GREEDY,
        LIE_N,
        LIE_TEXT = 50,
        LIE_TEXT_NUL,
        LIE_TEXT_DIE,
        LIE_TEXT_DIE_AMONG,             /* over the second of three */
        LIE_SILENT, /* of names, or in time */
};

static const SymbolAnswer honest = { .magic = SYMBOL_WIRE_MAGIC,
                                     .kind = SYMBOL_SAID_TABLE,
                                     .state = SYMBOL_STATE_NAMED,
                                     .is_full = 1,
                                     .base = 0x1000,
                                     .n = 3,
                                     .names_size = 15 };
static const SymbolWireFunction functions[3] = { { 0, 16 }, { 16, 16 }, { 32, 16 } };
static const char names[15] = "alpha\0b\0_Z3foo", readable[18] = "_Z1av\0_Z1bv\0_Z1cv";

/* Bytes behind an answer that is refused are never asked for. */
static void lie(int socket, int how) {
        static char name[SYMBOL_MAX_NAME + 2];
        SymbolWireFunction wrong[3];
        SymbolAnswer answer = honest;
        char text[sizeof(readable)];
        SymbolOffer offer;

        memcpy(wrong, functions, sizeof(wrong));
        memcpy(text, names, sizeof(names));
        if (how == LIE_TEXT_DIE_AMONG)
                memcpy(text, readable, sizeof(readable));
        if (how == LIE_DIE)
                *(volatile int *)NULL = 1;
        answer.magic += how == LIE_MAGIC;
        answer.kind = how == LIE_KIND                                        ? 2
                : how == LIE_LINK || how == LIE_LINK_UP || how == LIE_GREEDY ? SYMBOL_SAID_WANT
                                                                             : answer.kind;
        answer.state = how == LIE_STATE ? SYMBOL_N_STATES
                : how == LIE_NOT_FULL   ? SYMBOL_STATE_DYNAMIC
                                        : answer.state;
        answer.n = how == LIE_SIZE ? UINT32_MAX : answer.n;
        answer.names_size = how == LIE_NAMES ? 5
                : how == LIE_LONG_NAME       ? sizeof(name) + 4
                : how == LIE_MORE_NAMES      ? 14
                : how == LIE_TEXT_DIE_AMONG  ? sizeof(readable)
                                             : answer.names_size;
        answer.go = how == LIE_GO ? SYMBOL_N_GO : 0;
        if (how == LIE_LINK)
                memset(answer.link, 'x', sizeof(answer.link));
        if (how == LIE_LINK_UP)
                strcpy(answer.link, "../shadow");
        answer.base = how == LIE_WRAP ? UINT64_MAX - 20 : answer.base;
        wrong[0].start = how == LIE_FIRST ? 1 : 0;
        wrong[2].start = how == LIE_ORDER ? 16 : wrong[2].start;
        wrong[1].size = how == LIE_EMPTY_FUNCTION ? 0 : wrong[1].size;
        if (how == LIE_EMPTY_NAME)
                memcpy(text, "alphabe\0\0oo", 11);
        if (how == LIE_OPEN_NAME)
                text[14] = 'x';
        if (how == LIE_MORE_NAMES)
                memcpy(text, "a\0b\0c\0d\0e\0f\0g", 14);
        channel_send(socket, &answer, sizeof(answer), -1);
        /* also when there are no more */
        while (how == LIE_GREEDY && !channel_receive_all(socket, &offer, sizeof(offer)))
                channel_send(socket, &answer, sizeof(answer), -1);
        if (how == LIE_DIE_LATER)
                *(volatile int *)NULL = 1;
        channel_send(socket, wrong, sizeof(wrong), -1);
        memset(name, 'n', sizeof(name) - 1);
        if (how == LIE_LONG_NAME)
                channel_send(socket, name, sizeof(name), -1);
        channel_send(socket, how == LIE_LONG_NAME ? "b\0c" : text,
                     how == LIE_LONG_NAME ? 4 : answer.names_size, -1);
}

/* Answers with the letter; all at the end, or each at once. */
static void die_among_names(int socket, const SymbolRequest *request) {
        static char asked[3 * (4 + 5)], answers[3 * (4 + 1)];
        const size_t one = 4 + 1;
        const uint32_t size = 1;
        size_t n = 0;

        channel_receive_all(socket, asked, request->bytes);
        for (size_t at = 0; at < request->bytes; at += 4 + 5) {
                char letter = asked[at + 4 + 3];

                if (letter == 'b')
                        *(volatile int *)NULL = 1;
                memcpy(answers + n, &size, 4);
                answers[n + 4] = letter;
                if (request->one_by_one)
                        channel_send(socket, answers, one, -1);
                else
                        n += one;
        }
        channel_send(socket, answers, n, -1);
}

static void lie_of_names(int socket, int how, uint32_t bytes) {
        static char asked[SYMBOL_WIRE_MAX_NAMES * (4 + SYMBOL_MAX_NAME)], text[DEMANGLE_MAX_OUTPUT];
        uint32_t size = how == LIE_TEXT ? DEMANGLE_MAX_OUTPUT : 3;

        channel_receive_all(socket, asked, bytes);
        if (how == LIE_TEXT_DIE)
                *(volatile int *)NULL = 1;
        memcpy(text, "f\0o", 3);
        channel_send(socket, &size, sizeof(size), -1);
        channel_send(socket, text, size, -1);
}

static void work(int socket) {
        SymbolRequest request = { 0 };
        ssize_t n;

        while ((n = channel_receive(socket, &request, sizeof(request), NULL, MSG_PEEK)) > 0 &&
               n < (ssize_t)sizeof(request))
                poll(NULL, 0, 1);
        if (n <= 0)
                _exit(0);
        if (strncmp(request.go, "lie", 3) != 0)
                worker_main(socket);
        while (!channel_receive_all(socket, &request, sizeof(request))) {
                int how = atoi(request.go + 3);

                while (how == LIE_SILENT)
                        poll(NULL, 0, -1);
                if (request.kind == SYMBOL_ASK_READABLE && how == LIE_TEXT_DIE_AMONG)
                        die_among_names(socket, &request);
                else if (request.kind == SYMBOL_ASK_READABLE)
                        lie_of_names(socket, how, request.bytes);
                else
                        lie(socket, how);
        }
        _exit(0);
}

__attribute__((__constructor__)) static void become_zygote(int argc, char **argv) {
        if (argc == 1 && !strcmp(argv[0], ZYGOTE_NAME))
                zygote_serve(work);
}

static Zygotes *zygotes;
static Symbolizer *remote, *here;
static WorkerSessionCounts counts;

static void init(void) {
        cr_assert_eq(zygotes_new(&zygotes), 0);
        cr_assert_eq(zygotes_wait(zygotes, 60000), 0);
        cr_assert_eq(symbolizer_new(&remote, NULL), 0);
        cr_assert_eq(symbolizer_new(&here, NULL), 0);
        counts = (WorkerSessionCounts){ 0 };
}

static void fini(void) {
        symbolizer_free(remote);
        symbolizer_free(here);
        zygotes_free(zygotes);
}
TestSuite(symbol_wire, .init = init, .fini = fini, .timeout = 120);

static int run(const SymbolObject *object, const uint64_t *addresses, uint32_t n) {
        return symbol_session_run(zygotes, remote, object, addresses, n, &counts);
}

static SymbolName name_in(Symbolizer *symbolizer, const SymbolObject *object, uint64_t address) {
        SymbolName name;

        cr_assert_eq(symbolizer_name(symbolizer, object, address, &name), 0);
        return name;
}

static ImageIds ids_of(const char *path) {
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        ElfImage image;
        struct stat st;
        ImageIds ids;

        cr_assert(fd >= 0 && !fstat(fd, &st));
        cr_assert_eq(elf_image_init(&image, fd, 0, (uint64_t)st.st_size), 0);
        cr_assert_eq(elf_image_ids(&image, &ids), 0);
        elf_image_deinit(&image);
        close(fd);
        return ids;
}

static SymbolObject liar(int how) {
        static char ids[16][16];
        static unsigned n;
        char *id = ids[n++ % 16];

        snprintf(id, sizeof(ids[0]), "lie%d", how);
        return (SymbolObject){ .path = "/proc/self/exe", .build_id_gnu = "", .build_id_go = id };
}

/* Every @step bytes of the first @size: the same function, the same offset, the same text. */
static void compare(const char *path, uint64_t size, uint64_t step) {
        ImageIds ids = ids_of(path);
        SymbolObject object = { .path = path, .build_id_gnu = ids.gnu, .build_id_go = ids.go };
        uint64_t addresses[SYMBOL_WIRE_MAX_NAMES];
        uint32_t n_named = 0;

        for (uint64_t address = 0; address < size;) {
                uint32_t n = 0;

                for (; n < SYMBOL_WIRE_MAX_NAMES; n++, address += step)
                        addresses[n] = address;
                cr_assert_eq(run(&object, addresses, n), 0, "%s", path);
                for (uint32_t i = 0; i < n; i++) {
                        SymbolName mine = name_in(here, &object, addresses[i]),
                                   theirs = name_in(remote, &object, addresses[i]);

                        cr_assert_eq(mine.state, theirs.state, "%s", path);
                        cr_assert_str_eq(mine.name ?: "", theirs.name ?: "", "%s: %s, not %s", path,
                                         theirs.name, mine.name);
                        cr_assert_str_eq(mine.linkage_name ?: "", theirs.linkage_name ?: "", "%s", path);
                        cr_assert_eq(mine.offset, theirs.offset);
                        n_named += mine.name != NULL;
                }
        }
        cr_assert_gt(n_named, 0, "%s", path);
        cr_assert_eq(counts.n_died + counts.n_late + counts.n_malformed, 0, "%s", path);
}

Test(symbol_wire, a_worker_reads_in_files_what_would_be_read_here) {
        Dl_info info;

        compare("/proc/self/exe", 16 << 20, 4099);
        cr_assert(dladdr(dlsym(RTLD_DEFAULT, "gnu_get_libc_version"), &info));
        compare(info.dli_fname, 2 << 20, 97);
        cr_assert_gt(counts.n_started, 0);
}

/* A worker for the table, none for what is known. */
Test(symbol_wire, asks_once) {
        ImageIds ids = ids_of("/proc/self/exe");
        SymbolObject object = { .path = "/proc/self/exe", .build_id_gnu = ids.gnu, .build_id_go = "" };
        Dl_info info;
        uint64_t address;

        cr_assert(dladdr((void *)(uintptr_t)fini, &info));
        address = (uintptr_t)fini - (uintptr_t)info.dli_fbase;
        for (int i = 0; i < 3; i++)
                cr_assert_eq(run(&object, &address, 1), 0);
        cr_assert_eq(counts.n_started, 1);
        cr_assert_str_eq(name_in(remote, &object, address).name, "fini");
}

Test(symbol_wire, a_file_that_is_none_is_no_failure) {
        SymbolObject object = { .path = "/proc/self/exe",
                                .build_id_gnu = "00112233445566778899",
                                .build_id_go = "" };
        uint64_t address = 0x1000;

        cr_assert_eq(run(&object, &address, 1), 0);
        cr_assert_eq(name_in(remote, &object, address).state, SYMBOL_STATE_OTHER);
        object.path = "/proc/self/status";
        cr_assert_eq(run(&object, &address, 1), 0);
        cr_assert_eq(name_in(remote, &object, address).state, SYMBOL_STATE_UNREADABLE);
        object.path = "/no/such/file";
        cr_assert_eq(run(&object, &address, 1), 0);
        cr_assert_eq(name_in(remote, &object, address).state, SYMBOL_STATE_ABSENT);
        object = (SymbolObject){ .path = "/proc/self/exe", .build_id_gnu = "", .build_id_go = "" };
        cr_assert_eq(run(&object, &address, 1), 0);
        cr_assert_eq(name_in(remote, &object, address).state, SYMBOL_STATE_NO_ID);
        cr_assert_eq(counts.n_started, 3, "without an id nobody is asked");
        cr_assert_eq(counts.n_died + counts.n_malformed + counts.n_late, 0);
}

Test(symbol_wire, a_worker_that_lies_or_dies_leaves_nothing_behind) {
        uint64_t address = 0x1000;

        for (int how = 0; how < LIE_N; how++) {
                SymbolObject object = liar(how);
                bool dies = how == LIE_DIE || how == LIE_DIE_LATER;

                counts = (WorkerSessionCounts){ 0 };
                cr_assert_eq(run(&object, &address, 1), SYMBOL_SESSION_E_FAILED, "%d", how);
                cr_assert_eq(counts.n_started, 2, "%d: %u", how, counts.n_started);
                cr_assert_eq(counts.n_malformed, dies ? 0 : 2, "%d: %u", how, counts.n_malformed);
                cr_assert_eq(counts.n_died, dies ? 2 : 0, "%d: %u", how, counts.n_died);
                cr_assert_not(symbolizer_knows(remote, &object), "%d", how);
        }
        cr_assert_eq(symbolizer_memory(remote), 0);
}

/*
 * The table is there; the name over which workers die is as in the file, and so are those that are answered
 * wrongly.
 */
Test(symbol_wire, names_that_kill_stay_as_they_are) {
        uint64_t addresses[] = { 0x1000, 0x1010, 0x1020 };
        SymbolObject object = liar(LIE_TEXT_DIE);

        cr_assert_eq(run(&object, addresses, 3), 0);
        cr_assert_eq(counts.n_started, 2);
        cr_assert_eq(counts.n_died, 2);
        cr_assert_str_eq(name_in(remote, &object, 0x1000).name, "alpha");
        cr_assert_str_eq(name_in(remote, &object, 0x101f).name, "b");
        cr_assert_str_eq(name_in(remote, &object, 0x1020).name, "_Z3foo");
        cr_assert_null(name_in(remote, &object, 0x1030).name);
        cr_assert_null(name_in(remote, &object, 0xfff).name);
        for (int how = LIE_TEXT; how <= LIE_TEXT_NUL; how++) {
                counts = (WorkerSessionCounts){ 0 };
                object = liar(how);
                cr_assert_eq(run(&object, addresses, 3), 0);
                cr_assert_eq(counts.n_malformed, 2, "%d: %u", how, counts.n_malformed);
                cr_assert_str_eq(name_in(remote, &object, 0x1020).name, "_Z3foo");
        }
}

/* What a worker said before it died may be on its way together: which name it was is found out one by one. */
Test(symbol_wire, a_name_that_kills_takes_no_other_with_it) {
        uint64_t addresses[] = { 0x1000, 0x1010, 0x1020, 0x1004, 0x1014 };
        SymbolObject object = liar(LIE_TEXT_DIE_AMONG);

        cr_assert_eq(run(&object, addresses, ARRAY_SIZE(addresses)), 0);
        cr_assert_eq(counts.n_died, 3, "%u", counts.n_died);
        cr_assert_eq(counts.n_malformed + counts.n_late, 0);
        cr_assert_str_eq(name_in(remote, &object, 0x1000).name, "a");
        cr_assert_str_eq(name_in(remote, &object, 0x1010).name, "_Z1bv");
        cr_assert_str_eq(name_in(remote, &object, 0x1020).name, "c");
}

Test(symbol_wire, one_that_is_silent_is_late) {
        SymbolObject object = liar(LIE_SILENT);
        uint64_t address = 0x1000, begin_ns = clock_monotonic_ns();

        cr_assert_eq(run(&object, &address, 1), SYMBOL_SESSION_E_FAILED);
        cr_assert_eq(counts.n_started, 1);
        cr_assert_eq(counts.n_late, 1);
        cr_assert_geq(clock_monotonic_ns() - begin_ns, 7 * NS_PER_SEC);
}

Test(symbol_wire, without_a_zygote_nothing_is_read_here_instead) {
        ImageIds ids = ids_of("/proc/self/exe");
        SymbolObject object = { .path = "/proc/self/exe", .build_id_gnu = ids.gnu, .build_id_go = "" };
        uint64_t address = 0x1000;

        zygotes_ref(zygotes);
        zygotes_free(zygotes);
        cr_assert_eq(run(&object, &address, 1), SYMBOL_SESSION_E_FAILED);
        cr_assert_eq(counts.n_started, 0);
        cr_assert_not(symbolizer_knows(remote, &object));
        zygotes = zygotes_unref(zygotes);
}

Test(symbol_wire, knows_answers_that_cannot_be) {
        SymbolAnswer answer = honest;

        cr_assert(symbol_wire_check(&answer));
        answer.names_size = 6;
        cr_assert(symbol_wire_check(&answer));
        answer.names_size = 5;
        cr_assert(!symbol_wire_check(&answer), "less than a letter each");
        answer = (SymbolAnswer){ .magic = SYMBOL_WIRE_MAGIC,
                                 .kind = SYMBOL_SAID_TABLE,
                                 .state = SYMBOL_STATE_STRIPPED };
        cr_assert(symbol_wire_check(&answer));
        answer.names_size = 1;
        cr_assert(!symbol_wire_check(&answer), "names of nothing");
        answer = (SymbolAnswer){ .magic = SYMBOL_WIRE_MAGIC,
                                 .kind = SYMBOL_SAID_TABLE,
                                 .state = SYMBOL_STATE_NAMED,
                                 .is_full = 1 };
        cr_assert(!symbol_wire_check(&answer), "a table without functions");
        answer.n = SYMBOL_WIRE_MAX_BYTES / 32;
        answer.names_size = SYMBOL_WIRE_MAX_BYTES / 2;
        cr_assert(symbol_wire_check(&answer));
        answer.names_size++;
        cr_assert(!symbol_wire_check(&answer), "more than there is room for");
        answer = (SymbolAnswer){ .magic = SYMBOL_WIRE_MAGIC, .kind = SYMBOL_SAID_WANT, .link = "libc.debug" };
        cr_assert(symbol_wire_check(&answer));
        strcpy(answer.link, "..");
        cr_assert(!symbol_wire_check(&answer));
        strcpy(answer.link, "a/b");
        cr_assert(!symbol_wire_check(&answer));
        answer = (SymbolAnswer){ .magic = SYMBOL_WIRE_MAGIC,
                                 .kind = SYMBOL_SAID_LINES,
                                 .state = SYMBOL_STATE_NAMED };
        cr_assert(symbol_wire_check(&answer));
        answer.state = SYMBOL_STATE_STRIPPED;
        cr_assert(symbol_wire_check(&answer), "there are none");
        answer.state = SYMBOL_STATE_LARGE;
        cr_assert(!symbol_wire_check(&answer));
}
