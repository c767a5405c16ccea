/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The daemon's links to interpreters, over real workers that do what the size of the pretended file says: are
 * honest, die, lie, hang. The process is this one; its code object is made by hand. An honest worker is the
 * real one, whose file is made by hand, too.
 */

#include <criterion/criterion.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/sandbox/channel.h"
#include "core/base/util/clock.h"
#include "core/base/util/macro.h"
#include "core/base/util/stat.h"
#include "host/runtime/python/python-link.h"
#include "python-file.h"
#include "stat-reset.h"

enum { HONEST = 100000, IS_UNKNOWN, LIES_OPEN, LIES_NAME, LIES_TEXT, LIES_MORE, DIES_OPEN, DIES_LATER, HANGS,
       HANGS_LATER, CHATTERS };

static const char *const name = "Shape.area";

static void say(int socket, const PythonSaid *said) {
        PythonSaid with_magic = *said;

        with_magic.magic = PYTHON_WIRE_MAGIC;
        if (channel_send(socket, &with_magic, sizeof(with_magic), -1))
                _exit(0);
}

static void say_opened(int socket, uint64_t size) {
        char reason[PYTHON_MAX_REASON];
        PythonOpened opened;

        memset(&opened, 0, sizeof(opened));
        if (python_layout_of(0x030b, &opened.layout, reason))
                _exit(1);
        if (size == LIES_OPEN)
                opened.layout.next_thread = UINT32_MAX - 3;
        memset(opened.reason, '\n', sizeof(opened.reason));
        say(socket, &(PythonSaid){ .kind = PYTHON_WIRE_OPEN, .result = size == IS_UNKNOWN });
        channel_send(socket, &opened, sizeof(opened), -1);
}

static void say_name(int socket, uint64_t size) {
        static const char texts[] = "Shape.area\0/srv/a.py";
        PythonSaid said = { .kind = PYTHON_WIRE_NAME, .line = 13, .first_line = 12, .n_name = 11,
                            .n_file = 10 };

        if (size == LIES_NAME)
                said.n_name = PYTHON_MAX_TEXT + 1;
        if (size == LIES_TEXT)
                said.n_name = 10;       /* its last byte is no NUL */
        say(socket, &said);
        channel_send(socket, texts, sizeof(texts), -1);
}

static void say_more(int socket, uint32_t kind) {
        const PythonMore more = { .kind = kind + 1 };

        say(socket, &(PythonSaid){ .kind = PYTHON_WIRE_MORE });
        channel_send(socket, &more, sizeof(more), -1);
}

/* A lock, or more than may be. */
static void say_locks(int socket, uint64_t size) {
        static RuntimeLocks locks = { .n = 1,
                                      .locks = { { .tid = 7, .owner = 8, .kind = RUNTIME_LOCK_OWNED } } };

        say(socket, &(PythonSaid){ .kind = PYTHON_WIRE_LOCKS,
                                   .line = size == LIES_NAME ? RUNTIME_MAX_LOCKS + 1 : 1 });
        channel_send(socket, &locks, runtime_locks_size(1), -1);
}

static void pretend(int socket, uint64_t size) {
        PythonQuestion question;

        if (size == HANGS)
                poll(NULL, 0, -1);
        say_opened(socket, size);
        while (!channel_receive_all(socket, &question, sizeof(question))) {
                if (size == DIES_LATER)
                        _exit(0);
                if (size == HANGS_LATER)
                        poll(NULL, 0, -1);
                if (question.kind == PYTHON_WIRE_MORE)
                        say_more(socket, question.more_kind);
                if (question.kind == PYTHON_WIRE_LOCKS) {
                        say_locks(socket, size);
                        continue;
                }
                do
                        say_name(socket, size);
                while (size == CHATTERS);
        }
}

static void work(int socket) {
        ReaderRequest request;
        ReaderHandle handle;
        int fd;

        if (channel_receive(socket, &request, sizeof(request), &fd, 0) != sizeof(request))
                _exit(0);
        if (request.size < HONEST || request.size > CHATTERS)
                python_serve(socket, fd, &request);
        else if (reader_handle_receive(&handle, socket) && request.size != DIES_OPEN)
                pretend(socket, request.size);
        _exit(0);
}

__attribute__((__constructor__)) static void become_zygote(int argc, char **argv) {
        if (argc == 1 && !strcmp(argv[0], ZYGOTE_NAME))
                zygote_serve(work);
}

static Zygotes *zygotes;
static ReaderLinks *readers;
static FileLinks *links;
static uint64_t next_object;

static void setup(void) {
        stat_reset();
        cr_assert_eq(zygotes_new(&zygotes), 0);
        cr_assert_eq(zygotes_wait(zygotes, 60000), 0);
        cr_assert_eq(reader_links_new(&readers, zygotes), 0);
        cr_assert_eq(file_links_new(&links, readers, &python_link_ops), 0);
}

static void teardown(void) {
        links = file_links_free(links);
        readers = reader_links_free(readers);
        zygotes = zygotes_free(zygotes);
        cr_assert_eq(waitpid(-1, NULL, WNOHANG), -1, "a child is left");
}

TestSuite(link, .init = setup, .fini = teardown);

static FileLink *make_of(pid_t pid, uint64_t object, uint64_t size) {
        const ReaderSubject pretended = { .pid = pid, .size = size,
                                          .fd = memfd_create("python", MFD_CLOEXEC) };
        FileLink *link = NULL;

        cr_assert_eq(file_link_new(&link, links, &pretended, object), 0);
        return link;
}

static FileLink *make(uint64_t size) {
        return make_of(getpid(), ++next_object, size);
}

static int open_link(FileLink *link) {
        const void *said = NULL;
        int r = file_link_open(link, &said);
        const PythonOpened *opened = said;

        for (const char *at = opened ? opened->reason : ""; *at; at++)
                cr_assert(*at >= ' ' && *at <= '~', "it goes to terminals");
        return r;
}

static int ask(FileLink *link) {
        const uint64_t words[2] = { (uint64_t)RUNTIME_PYTHON << RUNTIME_KIND_SHIFT | 0x7000, 0 };
        PythonFunction function;
        int r = python_link_name(link, words, &function);

        if (!r) {
                cr_assert_str_eq(function.name, name);
                cr_assert_str_eq(function.file, "/srv/a.py");
                cr_assert_eq(function.line, 13);
        }
        return r;
}

static uint64_t n_workers(void) {
        return stat_get(COUNTER_WORKERS_STARTED);
}

static uint64_t n_failures(void) {
        return stat_get(COUNTER_WORKERS_DIED) + stat_get(COUNTER_WORKERS_LATE) +
                stat_get(COUNTER_WORKERS_MALFORMED);
}

Test(link, processes_of_one_file_are_opened_by_one_worker) {
        FileLink *first = make_of(getpid(), 7, HONEST), *second = make_of(getpid(), 7, HONEST),
                   *unknown = make_of(getpid(), 8, IS_UNKNOWN), *again = make_of(getpid(), 8, IS_UNKNOWN);

        cr_assert_eq(open_link(first), 0);
        cr_assert_eq(open_link(second), 0);
        cr_assert_eq(n_workers(), 1);
        for (int i = 0; i < 100; i++)
                cr_assert_eq(ask(second), 0);
        cr_assert_eq(n_workers(), 2, "the second one has its own memory");
        cr_assert_eq(open_link(unknown), FILE_LINK_E_NOT);
        cr_assert_eq(open_link(again), FILE_LINK_E_NOT);
        cr_assert_eq(n_workers(), 3);
        zygotes_tend(zygotes);
        cr_assert_eq(ask(second), 0);
        cr_assert_gt(file_link_cpu_ns(second), 0);
        cr_assert_eq(n_failures(), 0);
        file_link_free(first);
        file_link_free(second);
        file_link_free(unknown);
        file_link_free(again);
}

Test(link, many_files_are_asked_for_anew) {
        FileLink *many[40];

        for (size_t i = 0; i < ARRAY_SIZE(many); i++) {
                many[i] = make(HONEST);
                while (open_link(many[i]))
                        poll(NULL, 0, 100);
        }
        cr_assert_eq(n_workers(), ARRAY_SIZE(many));
        while (open_link(many[0]))
                poll(NULL, 0, 100);
        cr_assert_eq(n_workers(), ARRAY_SIZE(many) + 1, "the first one was forgotten");
        cr_assert_eq(open_link(many[39]), 0);
        cr_assert_eq(n_workers(), ARRAY_SIZE(many) + 1);
        for (size_t i = 0; i < ARRAY_SIZE(many); i++)
                file_link_free(many[i]);
}

Test(link, a_process_that_has_gone_is_later) {
        FileLink *link = make_of(0x3ffffff, 1, HONEST);

        cr_assert_eq(open_link(link), FILE_LINK_E_LATER);
        cr_assert_eq(ask(link), FILE_LINK_E_LATER);
        cr_assert_eq(n_workers(), 0, "none is made for nothing");
        file_link_free(link);
}

/* The first failure costs one answer, the second one a second. */
static void check_failure(uint64_t size, bool is_open, enum counter counter) {
        FileLink *link = make(size), *other = make(HONEST);
        uint64_t begin_ns = clock_monotonic_ns();

        cr_assert_eq(open_link(other), 0);
        cr_assert_eq(open_link(link), is_open ? FILE_LINK_E_LATER : 0);
        if (!is_open)
                cr_assert_eq(ask(link), FILE_LINK_E_LATER);
        cr_assert_eq(stat_get(counter), 1);
        while (stat_get(counter) < 2 && clock_monotonic_ns() - begin_ns < 10 * NS_PER_SEC)
                cr_assert_eq(ask(link), FILE_LINK_E_LATER);
        cr_assert_eq(stat_get(counter), 2, "it was made again");
        begin_ns = clock_monotonic_ns();
        for (int i = 0; i < 10; i++)
                ask(link);
        if (clock_monotonic_ns() - begin_ns < NS_PER_SEC / 2)
                cr_assert_eq(stat_get(counter), 2, "and now it rests");
        while (ask(other))
                poll(NULL, 0, 100);
        file_link_free(link);
        file_link_free(other);
}

Test(link, a_worker_that_dies_when_it_opens) {
        check_failure(DIES_OPEN, true, COUNTER_WORKERS_DIED);
}

Test(link, a_worker_that_dies_when_it_is_asked) {
        check_failure(DIES_LATER, false, COUNTER_WORKERS_DIED);
}

Test(link, a_worker_whose_offsets_overflow) {
        check_failure(LIES_OPEN, true, COUNTER_WORKERS_MALFORMED);
}

Test(link, a_worker_whose_name_is_too_long) {
        check_failure(LIES_NAME, false, COUNTER_WORKERS_MALFORMED);
}

Test(link, a_worker_whose_name_has_no_end) {
        check_failure(LIES_TEXT, false, COUNTER_WORKERS_MALFORMED);
}

Test(link, a_worker_that_hangs_when_it_opens) {
        check_failure(HANGS, true, COUNTER_WORKERS_LATE);
}

Test(link, a_worker_that_hangs_when_it_is_asked) {
        check_failure(HANGS_LATER, false, COUNTER_WORKERS_LATE);
}

Test(link, a_worker_that_talks_unasked_is_ended) {
        FileLink *link = make(CHATTERS);

        cr_assert_eq(open_link(link), 0);
        cr_assert_eq(ask(link), 0);
        for (int i = 0; i < 10000 && !stat_get(COUNTER_WORKERS_MALFORMED); i++, poll(NULL, 0, 1))
                file_links_tend(links, clock_monotonic_ns());
        cr_assert_eq(stat_get(COUNTER_WORKERS_MALFORMED), 1);
        file_link_free(link);
}

Test(link, an_answer_about_another_kind_of_file_is_a_lie) {
        FileLink *link = make(LIES_MORE);
        PythonMore more;

        cr_assert_eq(open_link(link), 0);
        cr_assert_eq(python_link_more(link, PYTHON_MORE_GREENLETS, STDIN_FILENO, 100, &more),
                     FILE_LINK_E_LATER);
        cr_assert_eq(stat_get(COUNTER_WORKERS_MALFORMED), 1);
        file_link_free(link);
}

Test(link, a_worker_says_what_threads_may_wait_for) {
        FileLink *link = make(HONEST), *liar = make(LIES_NAME);
        static RuntimeLocks locks;

        cr_assert_eq(open_link(link), 0);
        cr_assert_eq(python_link_locks(link, &locks), 0);
        cr_assert_eq(locks.n, 1);
        cr_assert_eq(locks.locks[0].owner, 8);
        cr_assert_eq(open_link(liar), 0);
        cr_assert_neq(python_link_locks(liar, &locks), 0);
        cr_assert_eq(stat_get(COUNTER_WORKERS_MALFORMED), 1);
        file_link_free(link);
        file_link_free(liar);
}

Test(link, a_file_that_is_no_interpreter_is_said_so) {
        FileLink *link = make(64);

        cr_assert_eq(open_link(link), FILE_LINK_E_NOT);
        cr_assert_eq(n_failures(), 0);
        file_link_free(link);
}

/* ---- the real worker ---- */

enum { CODE = 0, NAME = 0x400, FILE_NAME = 0xa00, TABLE = 0xc00, FIRST_LINE = 12 };

#define ASCII (1u << 2 | 1u << 5 | 1u << 6)

#define BIAS UINT64_C(0x100000000000)   /* far from all that is there */

static uint8_t objects[0x1000];         /* of this process, which its worker reads */

static void put_u64(uint32_t at, uint64_t value) {
        memcpy(objects + at, &value, sizeof(value));
}

static uint64_t address(uint32_t at) {
        return (uint64_t)(uintptr_t)objects + at;
}

static void put_text(const PythonLayout *layout, uint32_t at, const char *text) {
        const uint32_t state = ASCII;

        put_u64(at + layout->text_length, strlen(text));
        memcpy(objects + at + layout->text_state, &state, sizeof(state));
        memcpy(objects + at + layout->ascii_data, text, strlen(text));
}

static void put_code(const PythonLayout *layout) {
        static const uint8_t table[] = { 0x80 | 11 << 3 | 7, 0, 4 };
        static const char type_name[] = "code";
        const uint32_t first_line = FIRST_LINE, type = 0xe00, text = 0xf80;

        put_u64(CODE + layout->name, address(NAME));
        put_u64(CODE + layout->filename, address(FILE_NAME));
        put_u64(CODE + layout->line_table, address(TABLE));
        memcpy(objects + CODE + layout->first_line, &first_line, sizeof(first_line));
        put_u64(CODE + layout->type, address(type));
        put_u64(type + layout->type_name, address(text));
        memcpy(objects + text, type_name, sizeof(type_name));
        put_text(layout, NAME, name);
        put_text(layout, FILE_NAME, "/srv/a.py");
        put_u64(TABLE + layout->bytes_size, sizeof(table));
        memcpy(objects + TABLE + layout->bytes_data, table, sizeof(table));
}

static FileLink *make_real(void) {
        ReaderSubject made = { .pid = getpid(), .size = sizeof(file), .bias = BIAS };
        FileLink *link = NULL;

        put_python_file();
        made.fd = memfd_create("python", MFD_CLOEXEC);
        cr_assert_eq(write(made.fd, &file, sizeof(file)), (ssize_t)sizeof(file));
        cr_assert_eq(file_link_new(&link, links, &made, ++next_object), 0);
        return link;
}

static int ask_real(FileLink *link, const PythonLayout *layout, PythonFunction *function) {
        const uint64_t words[2] = {
                (uint64_t)RUNTIME_PYTHON << RUNTIME_KIND_SHIFT | address(CODE),
                (uint64_t)python_cookie(address(NAME), address(TABLE), FIRST_LINE) << 32 |
                        (layout->instructions + 4),
        };

        return python_link_name(link, words, function);
}

Test(link, the_real_worker_reads_file_and_memory) {
        FileLink *link = make_real();
        const PythonOpened *opened;
        const void *said = NULL;
        PythonFunction function;
        PythonLayout layout;

        cr_assert_eq(file_link_open(link, &said), 0);
        opened = said;
        cr_assert_str_eq(opened->reason, "python 3.11");
        cr_assert_eq(opened->places[PYTHON_SYMBOL_CODE].address, PYTHON_FILE_BASE + 8);
        layout = opened->layout;
        cr_assert_eq(ask_real(link, &layout, &function), FILE_LINK_E_NOT, "nothing is there");
        put_code(&layout);
        cr_assert_eq(ask_real(link, &layout, &function), 0);
        cr_assert_str_eq(function.name, name);
        cr_assert_str_eq(function.file, "/srv/a.py");
        cr_assert_eq(function.line, FIRST_LINE + 1);
        file_link_free(link);
}

Test(link, hostile_memory_costs_the_real_worker_nothing_but_names) {
        FileLink *link = make_real();
        const PythonOpened *opened;
        const void *said = NULL;
        PythonFunction function;
        PythonLayout layout;
        char *absent = mmap(NULL, 1 << 16, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

        cr_assert_eq(file_link_open(link, &said), 0);
        opened = said;
        layout = opened->layout;
        put_code(&layout);
        /* a name of a gibibyte, a table of all there is */
        put_u64(NAME + layout.text_length, 1ull << 30);
        put_u64(TABLE + layout.bytes_size, UINT64_MAX);
        cr_assert_eq(ask_real(link, &layout, &function), 0);
        cr_assert_eq(strlen(function.name), strlen(name), "zeros follow");
        /* an end in the midst of a name */
        put_code(&layout);
        objects[NAME + layout.ascii_data + 5] = 0;
        cr_assert_eq(ask_real(link, &layout, &function), 0);
        cr_assert_str_eq(function.name, "Shape");
        /* pages that are not there are not made to come; addresses that none has */
        put_code(&layout);
        put_u64(CODE + layout.filename, (uint64_t)(uintptr_t)absent);
        cr_assert_eq(ask_real(link, &layout, &function), 0);
        cr_assert_str_eq(function.file, "");
        put_u64(CODE + layout.filename, UINT64_MAX - 3);
        cr_assert_eq(ask_real(link, &layout, &function), 0);
        cr_assert_str_eq(function.file, "");
        cr_assert_eq(n_failures(), 0);
        cr_assert_eq(n_workers(), 1);
        file_link_free(link);
}
