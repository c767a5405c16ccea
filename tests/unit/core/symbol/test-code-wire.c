/* SPDX-License-Identifier: Apache-2.0 */

/*
 * What targets say of their code, read by real workers, and by workers that lie. The zygotes is this program
 * once more (as in test-sandbox.c); a piece that begins with `lie` and a number says how its worker behaves.
 */

#include <criterion/criterion.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/sandbox/channel.h"
#include "core/base/util/stat.h"
#include "core/symbol/jit/code-wire.h"
#include "host/naming/code-source.h"
#include "jitdump-maker.h"
#include "own-code.h"
#include "stat-reset.h"

enum {
        LIE_DIE,
        LIE_MAGIC,
        LIE_RESULT,
        LIE_SKIP,
        LIE_LONG,
        LIE_COUNT,
        LIE_RANGE,
        LIE_NAME,
        LIE_MOVE,
        LIE_CUT,
        LIE_N
};

static void lie(int socket, int how) {
        static CodeState state;
        CodeWireRecord record = { .start = 0x1000, .size = 0x10, .name_size = 4 };
        CodeAnswer answer = { .magic = CODE_WIRE_MAGIC, .n_records = 1, .size = sizeof(record) + 4 };

        if (how == LIE_DIE)
                *(volatile int *)NULL = 1;
        answer.magic += how == LIE_MAGIC;
        answer.result = how == LIE_RESULT ? -1 : 0;
        answer.skip = how == LIE_SKIP ? UINT64_MAX : 0;
        if (how == LIE_LONG)
                answer.size = UINT32_MAX;
        answer.n_records += how == LIE_COUNT;
        if (how == LIE_RANGE)
                record.start = UINT64_MAX;
        record.is_move = how == LIE_MOVE;
        channel_send(socket, &answer, sizeof(answer), -1);
        channel_send(socket, &state, sizeof(PerfMap), -1);
        channel_send(socket, &record, sizeof(record), -1);
        channel_send(socket, how == LIE_NAME ? "e\0il" : "evil", how == LIE_CUT ? 3 : 4, -1);
        _exit(0);
}

/* The request, what was left, and the first bytes of the piece, before any of it is taken. */
static void work(int socket) {
        const size_t before = sizeof(CodeRequest) + sizeof(PerfMap);
        static char seen[sizeof(CodeRequest) + sizeof(PerfMap) + 4];
        CodeRequest request = { 0 };
        ssize_t n;

        while ((n = channel_receive(socket, seen, sizeof(seen), NULL, MSG_PEEK)) > 0 &&
               n < (ssize_t)sizeof(seen)) {
                memcpy(&request, seen, sizeof(request));
                if (n >= (ssize_t)sizeof(request) && request.form == CODE_FORM_DUMP)
                        break;
                poll(NULL, 0, 1);
        }
        if (n <= 0)
                _exit(0);
        memcpy(&request, seen, sizeof(request));
        if (request.form == CODE_FORM_MAP && !memcmp(seen + before, "lie", 3))
                lie(socket, seen[before + 3] - '0');
        channel_receive_all(socket, &request, sizeof(request));
        code_serve(socket, &request);
        _exit(0);
}

__attribute__((__constructor__)) static void become_zygote(int argc, char **argv) {
        if (argc == 1 && !strcmp(argv[0], ZYGOTE_NAME))
                zygote_serve(work);
}

static Zygotes *zygotes;
static CodeSource *source, *here;
static CodeLook look;

static void init(void) {
        stat_reset();
        own_code_begin();
        cr_assert_eq(zygotes_new(&zygotes), 0);
        cr_assert_eq(zygotes_wait(zygotes, 60000), 0);
        cr_assert_eq(code_source_new(&source, NULL, zygotes), 0);
        cr_assert_eq(code_source_new(&here, NULL, NULL), 0);
}

static void fini(void) {
        code_source_unref(source);
        code_source_unref(here);
        zygotes_free(zygotes);
        own_code_end();
}
TestSuite(code_wire, .init = init, .fini = fini);

static size_t find(CodeSource *in, uint64_t address, char *name) {
        size_t size = 0;
        uint64_t start;
        bool is_past;

        return code_source_find(in, address, UINT64_MAX, name, &size, &start, &is_past) ? 0 : size;
}

static void assert_name(uint64_t address, const char *expected) {
        char name[CODE_MAX_NAME];
        size_t size = find(source, address, name);

        cr_assert(size == strlen(expected) && !memcmp(name, expected, size), "%#lx is %.*s, not %s", address,
                  (int)size, name, expected);
}

/* Both have seen the same: every @step bytes of [0, @end) they say the same. */
static void compare(uint64_t end, uint64_t step, const CodeLook *local) {
        char there[CODE_MAX_NAME], mine[CODE_MAX_NAME];

        cr_assert_eq(look.n_taken, local->n_taken);
        cr_assert_eq(look.n_malformed, local->n_malformed);
        cr_assert_eq(look.n_over_cap, local->n_over_cap);
        cr_assert_eq(look.has_more, local->has_more);
        for (uint64_t address = 0; address < end; address += step) {
                size_t size = find(source, address, there);

                cr_assert_eq(size, find(here, address, mine), "%#lx", address);
                cr_assert_eq(memcmp(there, mine, size), 0, "%#lx", address);
        }
}

static void look_both(uint64_t end, uint64_t step, uint32_t n_started) {
        CodeLook local;

        code_source_look(here, &place, &local);
        code_source_look(source, &place, &look);
        cr_assert_eq(look.workers.n_started, n_started);
        cr_assert_eq(look.workers.n_died + look.workers.n_late + look.workers.n_malformed + look.n_failed, 0);
        compare(end, step, &local);
}

/*
 * Short lines, long ones, ones longer than any piece, and ones that are none, of which each piece cuts
 * another.
 */
static void write_map(const char *mode, unsigned seed, int n) {
        FILE *stream = fopen(path, mode);

        srand(seed);
        for (int i = 0; i < n; i++) {
                int size = i % 1000 == 7 ? 20000 : i % 200 == 3 ? 5000 : rand() % 80;

                if (i % 50 == 5)
                        fprintf(stream, "no line\n");
                fprintf(stream, i % 2 ? "%x %x n%d" : "0x%x %x %d ", (rand() % 4000) * 16, 1 + rand() % 64,
                        i);
                for (int j = 0; j < size; j++)
                        fputc('a' + (i + j) % 26, stream);
                fputc('\n', stream);
        }
        cr_assert_eq(fclose(stream), 0);
}

Test(code_wire, a_worker_reads_in_a_map_what_would_be_read_here) {
        write_map("w", 1, 4000);
        look_both(66000, 7, 1);
        cr_assert_eq(look.n_taken, 4000);
        cr_assert_eq(look.n_malformed, 80);
        look_both(66000, 77, 0);                /* nothing is new: nobody is asked */
        write_map("a", 2, 1000);
        look_both(66000, 7, 1);
        put(path, "a", "1000 10 no end", 14);
        look_both(66000, 77, 1);
        put(path, "a", " yet\n", 5);
        look_both(66000, 77, 1);
        assert_name(0x1008, "no end yet");
        write_map("w", 3, 100);                 /* begun anew */
        look_both(66000, 7, 1);
}

Test(code_wire, a_worker_reads_in_a_dump_what_would_be_read_here) {
        _cleanup_(text_deinit) Text dump = { 0 };
        char name[64];

        dump_header(&dump, 0x4A695444, 1, 56, 0);
        for (uint64_t i = 0; i < 1000; i++) {
                snprintf(name, sizeof(name), "function %lu", (unsigned long)i);
                dump_load(&dump, 1000 + i, i * 64, 1 + i % 64, i, name);
                if (i % 10 == 3)
                        dump_move(&dump, 1000 + i, (i - 3) * 64, 1000000 + i * 64, 1 + (i - 3) % 64, i - 3);
                if (i % 100 == 3)               /* of what nobody has told of */
                        dump_move(&dump, 1000 + i, 64, 1000000, 1, 1 << 20);
        }
        dump_load(&dump, 5000, 2000000, 100000, 5000, "its code is passed over");
        dump_load(&dump, 5001, 2200000, 1, 5001, "the last one");
        map_dump(&dump);
        look_both(2300000, 13, 1);
        cr_assert_eq(look.n_taken, 1102);
        cr_assert_eq(look.n_malformed, 10);
        text_deinit(&dump);
        dump = (Text){ 0 };
        dump_move(&dump, 6000, 2200000, 2200100, 1, 5001);      /* known from the look before */
        put(dump_path, "a", dump.data, dump.size);
        look_both(2300000, 13, 1);
        assert_name(2200100, "the last one");
}

Test(code_wire, a_worker_that_lies_or_dies_leaves_nothing_behind) {
        char text[64];

        for (int how = 0; how < LIE_N; how++) {
                snprintf(text, sizeof(text), "lie%d\n2000 10 honest\n", how);
                put(path, "w", text, strlen(text));
                code_source_look(source, &place, &look);
                cr_assert_eq(look.n_failed, 1, "%d", how);
                cr_assert_eq(look.workers.n_started, 2, "%d", how);
                cr_assert_eq(look.workers.n_malformed, how == LIE_DIE || how == LIE_CUT ? 0 : 2, "%d: %u",
                             how, look.workers.n_malformed);
                cr_assert_eq(look.workers.n_died, how == LIE_DIE || how == LIE_CUT ? 2 : 0, "%d: %u", how,
                             look.workers.n_died);
                cr_assert_eq(look.n_taken, 0);
                cr_assert(look.has_file && !look.is_changed && !look.failed);
                assert_name(0x1000, "");
        }
        put(path, "w", "2000 10 honest\n", 15);
        code_source_look(source, &place, &look);
        cr_assert_eq(look.n_taken, 1);
        assert_name(0x2000, "honest");
}

Test(code_wire, what_follows_a_piece_that_kills_is_read_when_it_no_longer_does) {
        put(path, "w", "1000 10 before\n", 15);
        code_source_look(source, &place, &look);
        put(path, "a", "lie0\n2000 10 behind\n", 20);
        code_source_look(source, &place, &look);
        cr_assert_eq(look.n_failed, 1);
        assert_name(0x1000, "before");
        assert_name(0x2000, "");
        put(path, "w", "1000 10 before\n2000 10 anew\n", 28);
        code_source_look(source, &place, &look);
        cr_assert_eq(look.n_failed, 0);
        assert_name(0x2000, "anew");
}

Test(code_wire, without_a_zygote_nothing_is_read_here_instead) {
        zygotes_ref(zygotes);
        zygotes_free(zygotes);
        put(path, "w", "1000 10 first\n", 14);
        code_source_look(source, &place, &look);
        cr_assert_eq(look.n_failed, 1);
        cr_assert_eq(look.workers.n_started, 0);
        assert_name(0x1000, "");
        zygotes_unref(zygotes);
        zygotes = NULL;
}

Test(code_wire, knows_answers_that_cannot_be) {
        CodeAnswer good = { .magic = CODE_WIRE_MAGIC, .skip = UINT32_MAX, .n_records = 1, .size = 49 },
                   bad = good;
        CodeWireRecord record = { .start = UINT64_MAX - 16, .size = 16, .name_size = 1 };
        uint8_t data[sizeof(record) + 1];

        cr_assert(code_wire_check_answer(&good, CODE_FORM_DUMP, 100));
        cr_assert(!code_wire_check_answer(&good, CODE_FORM_MAP, 100), "nothing is passed over in a map");
        bad.result = 3;
        cr_assert(!code_wire_check_answer(&bad, CODE_FORM_DUMP, 100));
        bad = good;
        bad.n_malformed = 102;
        cr_assert(!code_wire_check_answer(&bad, CODE_FORM_DUMP, 100));
        memcpy(data, &record, sizeof(record));
        data[sizeof(record)] = 'f';
        cr_assert(code_wire_check_records(data, sizeof(data), 1, CODE_FORM_MAP));
        cr_assert(!code_wire_check_records(data, sizeof(data), 0, CODE_FORM_MAP),
                  "bytes behind the last one");
        cr_assert(!code_wire_check_records(data, sizeof(data) - 1, 1, CODE_FORM_MAP), "a name that is cut");
        record.size = 17;
        memcpy(data, &record, sizeof(record));
        cr_assert(!code_wire_check_records(data, sizeof(data), 1, CODE_FORM_MAP),
                  "an end beyond all addresses");
        record = (CodeWireRecord){ .start = 1, .size = 1, .is_move = 1 };
        memcpy(data, &record, sizeof(record));
        cr_assert(code_wire_check_records(data, sizeof(record), 1, CODE_FORM_DUMP));
        cr_assert(!code_wire_check_records(data, sizeof(record), 1, CODE_FORM_MAP));
        record.is_move = 2;
        memcpy(data, &record, sizeof(record));
        cr_assert(!code_wire_check_records(data, sizeof(record), 1, CODE_FORM_DUMP));
}
