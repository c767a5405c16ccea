/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "core/base/data/intern.h"
#include "core/base/file/directory.h"
#include "host/delivery/spool/spool.h"

static char directory[] = "/tmp/spanprof-spool-XXXXXX";

static void make_directory(void) {
        cr_assert_not_null(mkdtemp(directory));
}

static void remove_directory(void) {
        char command[80];

        snprintf(command, sizeof(command), "rm -rf %s", directory);
        cr_assert_eq(system(command), 0);
}

TestSuite(spool, .init = make_directory, .fini = remove_directory);

static Spool *open_spool(const SpoolLimits *limits) {
        SpoolProblem problem = { "" };
        Spool *spool;

        cr_assert_eq(spool_new(&spool, directory, limits, false, &problem), 0, "%s", problem.text);
        return spool;
}

/* Return: as spool_new(). */
static int try_open(Spool **spoolp, bool read_only) {
        SpoolProblem problem;

        return spool_new(spoolp, directory, NULL, read_only, &problem);
}

static SpoolEntry put_so(Spool *spool, const char *request, uint64_t n_events, uint64_t now_ns,
                         unsigned how) {
        SpoolHeader header = { .form = SPOOL_PROTOBUF, .n_events = n_events, .n_profiles = 2 };
        SpoolEntry entry;

        cr_assert_eq(spool_put(spool, &header, request, strlen(request), now_ns, how, &entry), 0);
        return entry;
}

static void put(Spool *spool, const char *request, uint64_t n_events, uint64_t now_ns) {
        put_so(spool, request, n_events, now_ns, SPOOL_PUT_FLUSHED);
}

static void expect_next(Spool *spool, const char *request, uint64_t now_ns) {
        SpoolHeader header;
        SpoolEntry entry;
        uint8_t *bytes;

        cr_assert_eq(spool_next(spool, now_ns, NULL, &entry, &header, &bytes), 0);
        cr_assert_eq(header.request_size, strlen(request));
        cr_assert_eq(memcmp(bytes, request, strlen(request)), 0);
        free(bytes);
        spool_remove(spool, &entry);
}

static void expect_empty(Spool *spool, uint64_t now_ns) {
        SpoolHeader header;
        SpoolEntry entry;
        uint8_t *bytes;

        cr_assert_eq(spool_next(spool, now_ns, NULL, &entry, &header, &bytes), SPOOL_E_EMPTY);
}

Test(spool, gives_back_the_oldest_until_it_is_removed) {
        Spool *spool = open_spool(NULL);
        SpoolHeader header;
        SpoolEntry entry;
        uint8_t *bytes;

        put(spool, "one", 1, 1000);
        put(spool, "two", 2, 2000);
        for (int i = 0; i < 2; i++) {
                cr_assert_eq(spool_next(spool, 3000, NULL, &entry, &header, &bytes), 0);
                cr_assert_eq(header.n_events, 1);
                cr_assert_eq(header.n_profiles, 2);
                cr_assert_eq(header.time_ns, 1000);
                cr_assert_eq(header.form, SPOOL_PROTOBUF);
                free(bytes);
        }
        expect_next(spool, "one", 3000);
        expect_next(spool, "two", 3000);
        expect_empty(spool, 3000);
        spool_free(spool);
}

Test(spool, is_the_same_after_a_restart) {
        Spool *spool = open_spool(NULL);

        put(spool, "one", 10, 1000);
        put(spool, "two", 20, 1000);    /* the clock stands still: the sequence tells */
        spool_free(spool);
        spool = open_spool(NULL);
        cr_assert_eq(spool_n(spool), 2);
        cr_assert_eq(spool_events(spool), 30);
        put(spool, "three", 30, 1000);
        expect_next(spool, "one", 1000);
        expect_next(spool, "two", 1000);
        expect_next(spool, "three", 1000);
        cr_assert_eq(spool_events(spool), 0);
        cr_assert_eq(spool_bytes(spool), 0);
        spool_free(spool);
}

Test(spool, keeps_the_order_of_names_when_the_clock_goes_back) {
        Spool *spool = open_spool(NULL);

        put(spool, "later", 1, 5000);
        put(spool, "earlier", 1, 4000);
        expect_next(spool, "earlier", 5000);
        expect_next(spool, "later", 5000);
        spool_free(spool);
}

Test(spool, drops_the_oldest_over_its_caps_and_counts) {
        SpoolLimits limits = { .max_files = 2 };
        Spool *spool = open_spool(&limits);
        SpoolCounts counts;

        put(spool, "one", 1, 1000);
        put(spool, "two", 20, 2000);
        put(spool, "three", 300, 3000);
        counts = spool_take_counts(spool);
        cr_assert_eq(counts.lost_full, 1);
        cr_assert_eq(counts.n_files_dropped, 1);
        cr_assert_eq(spool_take_counts(spool).lost_full, 0, "taken once");
        expect_next(spool, "two", 3000);
        spool_free(spool);
}

Test(spool, drops_what_is_too_old_but_nothing_of_the_future) {
        SpoolLimits limits = { .max_age_ns = 1000 };
        Spool *spool = open_spool(&limits);

        put(spool, "one", 1, 1000);
        put(spool, "two", 20, 2000);
        expect_next(spool, "two", 2500);
        cr_assert_eq(spool_take_counts(spool).lost_age, 1);
        put(spool, "future", 1, 9000);
        expect_next(spool, "future", 100);
        spool_free(spool);
}

/* Numbers that no request has. INT64_MAX is the last ns that a clock can show, in 2262. */
Test(spool, believes_no_name_whose_numbers_cannot_be) {
        static const char *const names[] = {
                "0000000000000000001-000001-18446744073709551615.batch",
                "0000000000000000001-000002-1099511627777.batch",
                "9999999999999999999-000001-5.batch",
                "9223372036854775808-000001-5.batch",
                "0000000000000000001-4294967296-5.batch",
        };
        SpoolLimits limits = { .max_age_ns = 1000, .max_files = 2 };
        char path[200];
        Spool *spool;

        for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
                snprintf(path, sizeof(path), "%s/%s", directory, names[i]);
                fclose(fopen(path, "w"));
        }
        spool = open_spool(&limits);
        cr_expect_eq(spool_n(spool), 0);
        put(spool, "one", 7, 5000);
        put(spool, "two", 20, 9000);
        expect_next(spool, "two", 9000);
        cr_expect_eq(spool_take_counts(spool).lost_age, 7);
        cr_expect_eq(spool_events(spool), 0);
        for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
                snprintf(path, sizeof(path), "%s/%s", directory, names[i]);
                cr_expect_eq(access(path, F_OK), 0, "%s is a stranger's, and left alone", names[i]);
        }
        spool_free(spool);
}

/* What is counted when a file comes is taken off when it goes. */
Test(spool, sets_aside_a_file_whose_name_and_header_differ) {
        char from[200], to[200], name[128];
        Spool *spool = open_spool(NULL);
        SpoolCounts counts;

        put(spool, "one", 7, 1000);
        put(spool, "two", 20, 2000);
        spool_entry_name(spool_entry(spool, 0), name, sizeof(name));
        spool_free(spool);
        snprintf(from, sizeof(from), "%s/%s", directory, name);
        snprintf(to, sizeof(to), "%s/%s", directory, "0000000000000001000-000001-9.batch");
        cr_assert_eq(rename(from, to), 0);
        spool = open_spool(NULL);
        cr_expect_eq(spool_events(spool), 29);
        expect_next(spool, "two", 3000);
        counts = spool_take_counts(spool);
        cr_expect_eq(counts.lost_corrupt, 9);
        cr_expect_eq(counts.n_files_corrupt, 1);
        cr_expect_eq(spool_events(spool), 0);
        spool_free(spool);
}

/* As another program would write it: the header proves itself. */
static void change_header(const char *name, size_t at, const void *word, size_t size) {
        char path[200], bytes[SPOOL_HEADER_SIZE];
        uint64_t hash;
        FILE *file;

        snprintf(path, sizeof(path), "%s/%s", directory, name);
        file = fopen(path, "r+");
        cr_assert_not_null(file);
        cr_assert_eq(fread(bytes, sizeof(bytes), 1, file), 1);
        memcpy(bytes + at, word, size);
        hash = hash_stable(bytes, 88);
        memcpy(bytes + 88, &hash, sizeof(hash));
        rewind(file);
        cr_assert_eq(fwrite(bytes, sizeof(bytes), 1, file), 1);
        fclose(file);
}

Test(spool, never_gives_what_is_of_another_schema) {
        Spool *spool = open_spool(NULL);
        SpoolHeader header;
        SpoolCounts counts;
        uint8_t *request = NULL;
        char name[128];

        put(spool, "one", 7, 1000);
        put(spool, "two", 20, 2000);
        spool_entry_name(spool_entry(spool, 0), name, sizeof(name));
        change_header(name, 16, "profiles/v1\0\0\0\0\0\0\0\0\0\0\0\0", SPOOL_SCHEMA_ROOM);
        cr_assert_eq(spool_read(spool, spool_entry(spool, 0), &header, &request), SPOOL_FILE_E_SCHEMA);
        cr_assert_str_eq(header.schema, "profiles/v1");
        expect_next(spool, "two", 3000);
        counts = spool_take_counts(spool);
        cr_assert_eq(counts.lost_schema, 7);
        cr_assert_eq(counts.n_files_schema, 1);
        cr_assert_eq(counts.n_files_corrupt, 0);
        spool_free(spool);
}

/* Places of the words: the table in spool-file.h. */
Test(spool, gives_no_file_whose_header_has_numbers_that_cannot_be) {
        static const struct {
                size_t at;
                uint64_t value;
        } words[] = { { 40, UINT64_MAX }, { 48, (64 << 20) + 1 }, { 56, (uint64_t)INT64_MAX + 1 } };

        for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++) {
                Spool *spool = open_spool(NULL);
                char name[128];

                put(spool, "one", 7, 1000 + i);
                spool_entry_name(spool_entry(spool, 0), name, sizeof(name));
                change_header(name, words[i].at, &words[i].value, sizeof(words[i].value));
                expect_empty(spool, 3000);
                cr_expect_eq(spool_take_counts(spool).lost_corrupt, 7, "%zu", words[i].at);
                spool_free(spool);
        }
}

Test(spool, removes_from_the_middle) {
        Spool *spool = open_spool(NULL);
        SpoolEntry middle;

        put(spool, "one", 1, 1000);
        put(spool, "two", 20, 2000);
        put(spool, "three", 300, 3000);
        middle = *spool_entry(spool, 1);
        spool_remove(spool, &middle);
        spool_remove(spool, &middle);
        cr_assert_eq(spool_n(spool), 2);
        cr_assert_eq(spool_events(spool), 301);
        expect_next(spool, "one", 3000);
        expect_next(spool, "three", 3000);
        spool_free(spool);
}

Test(spool, goes_on_behind_one_that_is_in_the_way) {
        Spool *spool = open_spool(NULL);
        SpoolEntry first, entry;
        SpoolHeader header;
        uint8_t *bytes;

        put(spool, "one", 1, 1000);
        put(spool, "two", 20, 2000);
        first = *spool_entry(spool, 0);
        cr_assert_eq(spool_next(spool, 3000, &first, &entry, &header, &bytes), 0);
        cr_assert_eq(header.n_events, 20);
        free(bytes);
        spool_remove(spool, &entry);
        cr_assert_eq(spool_next(spool, 3000, &first, &entry, &header, &bytes), SPOOL_E_EMPTY);
        expect_next(spool, "one", 3000);
        spool_free(spool);
}

Test(spool, gives_out_what_is_held_when_it_is_released) {
        Spool *spool = open_spool(NULL);
        SpoolEntry held = put_so(spool, "held", 7, 1000, SPOOL_PUT_HELD);

        cr_assert(held.held && !held.flushed);
        cr_assert_eq(spool_n(spool), 1);
        cr_assert_eq(spool_n_free(spool), 0);
        cr_assert_eq(spool_free_events(spool), 0);
        expect_empty(spool, 3000);
        put(spool, "free", 20, 2000);
        expect_next(spool, "free", 3000);
        spool_release(spool, &held);
        cr_assert_eq(spool_n_free(spool), 1);
        cr_assert_eq(spool_free_events(spool), 7);
        cr_assert(spool_entry(spool, 0)->flushed);
        expect_next(spool, "held", 3000);
        spool_release(spool, &held);
        cr_assert_eq(spool_n(spool), 0);
        spool_free(spool);
}

Test(spool, takes_back_what_is_held) {
        Spool *spool = open_spool(NULL);
        SpoolEntry held = put_so(spool, "held", 7, 1000, SPOOL_PUT_HELD);

        spool_remove(spool, &held);
        cr_assert_eq(spool_n(spool), 0);
        cr_assert_eq(spool_n_free(spool), 0);
        cr_assert_eq(spool_free_events(spool), 0);
        cr_assert_eq(spool_bytes(spool), 0);
        spool_free(spool);
}

Test(spool, finds_what_was_held_after_a_restart) {
        Spool *spool = open_spool(NULL);

        put_so(spool, "held", 7, 1000, SPOOL_PUT_HELD);
        spool_free(spool);
        spool = open_spool(NULL);
        cr_assert_eq(spool_free_events(spool), 7);
        expect_next(spool, "held", 2000);
        spool_free(spool);
}

Test(spool, never_drops_what_is_held) {
        SpoolLimits limits = { .max_files = 2, .max_age_ns = 10000 };
        SpoolHeader header = { .form = SPOOL_PROTOBUF, .n_events = 1 };
        Spool *spool = open_spool(&limits);
        SpoolEntry held, none = { .size = 77 };
        SpoolCounts counts;

        held = put_so(spool, "held", 7, 1000, SPOOL_PUT_HELD);
        put(spool, "one", 1, 2000);
        put(spool, "two", 20, 3000);            /* in the place of `one` */
        counts = spool_take_counts(spool);
        cr_assert_eq(counts.lost_full, 1);
        put(spool, "three", 300, 90000);        /* `two` is too old, `held` even more so */
        cr_assert_eq(spool_take_counts(spool).lost_age, 20);
        expect_next(spool, "three", 90000);
        put_so(spool, "held too", 1, 90000, SPOOL_PUT_HELD);
        errno = 0;
        cr_assert_eq(spool_put(spool, &header, "x", 1, 90000, 0, &none), SPOOL_E_FAILED);
        cr_assert_eq(errno, ENOSPC);
        cr_assert_eq(none.size, 77, "untouched");
        spool_release(spool, &held);
        put(spool, "four", 1, 90000);           /* now it is as old as it is */
        cr_assert_eq(spool_take_counts(spool).lost_age, 7);
        spool_free(spool);
}

static SpoolEntry lend(Spool *spool, uint64_t now_ns) {
        SpoolHeader header;
        SpoolEntry entry;
        uint8_t *bytes;

        cr_assert_eq(spool_next(spool, now_ns, NULL, &entry, &header, &bytes), 0);
        free(bytes);
        return entry;
}

Test(spool, counts_what_it_drops_while_it_is_sent_only_if_it_comes_back) {
        SpoolLimits limits = { .max_files = 2, .max_age_ns = 10000 };
        Spool *spool = open_spool(&limits);
        SpoolEntry lent;

        put(spool, "one", 1, 1000);
        put(spool, "two", 20, 2000);
        lent = lend(spool, 3000);
        put(spool, "three", 300, 4000);         /* in the place of `one`, which is then delivered */
        spool_remove(spool, &lent);
        cr_assert_eq(spool_take_counts(spool).lost_full, 0);
        lent = lend(spool, 5000);
        put(spool, "four", 4000, 6000);         /* in the place of `two`, which comes back */
        cr_assert_eq(spool_take_counts(spool).lost_full, 0);
        spool_release(spool, &lent);
        spool_release(spool, &lent);
        cr_assert_eq(spool_take_counts(spool).lost_full, 20, "once");
        lent = lend(spool, 7000);
        put(spool, "five", 50000, 90000);       /* `three` and `four` are too old */
        cr_assert_eq(spool_take_counts(spool).lost_age, 4000);
        spool_release(spool, &lent);
        cr_assert_eq(spool_take_counts(spool).lost_age, 300);
        lent = lend(spool, 91000);
        spool_release(spool, &lent);
        expect_next(spool, "five", 92000);
        cr_assert_eq(spool_take_counts(spool).lost_full, 0);
        spool_free(spool);
}

Test(spool, says_why_it_cannot_be_used) {
        Spool *spool = open_spool(NULL), *other = NULL;
        SpoolProblem problem;

        cr_assert_eq(spool_new(&other, directory, NULL, false, &problem), SPOOL_E_LOCKED);
        cr_assert_str_eq(problem.text, "another spanprof has it");
        cr_assert_eq(spool_new(&other, "/dev/null", NULL, true, &problem), SPOOL_E_UNUSABLE);
        cr_assert_str_eq(problem.text, "no directory, or a symbolic link");
        cr_assert_null(other);
        spool_free(spool);
}

static void in_directory(const char *script) {
        char command[300];

        snprintf(command, sizeof(command), "cd %s && %s", directory, script);
        cr_assert_eq(system(command), 0, "%s", script);
}

static uid_t owner_of(const char *name) {
        char path[80];
        struct stat st;

        snprintf(path, sizeof(path), "%s/%s", directory, name);
        cr_assert_eq(lstat(path, &st), 0);
        return st.st_uid;
}

Test(spool, is_given_as_a_whole_or_not_at_all) {
        enum { STRANGER = 4711 };
        char inside[80];

        if (geteuid() != 0)
                cr_skip_test("root: gives files to another user");
        in_directory("mkdir -m 700 dead && touch dead/lock passwd");
        cr_assert_eq(spool_give(directory, STRANGER, STRANGER), DIRECTORY_E_FOREIGN);
        cr_assert(owner_of(".") == 0 && owner_of("dead") == 0 && owner_of("dead/lock") == 0);
        in_directory("rm passwd && chmod 770 .");
        cr_assert_eq(spool_give(directory, STRANGER, STRANGER), 0);
        cr_assert(owner_of(".") == 0 && owner_of("dead") == 0, "others may write there");
        in_directory("chmod 700 . && chown 1 .");
        cr_assert_eq(spool_give(directory, STRANGER, STRANGER), 0);
        cr_assert(owner_of(".") == 1 && owner_of("dead") == 0, "another's");
        in_directory("chown 0 . && touch dead/passwd");
        cr_assert_eq(spool_give(directory, STRANGER, STRANGER), DIRECTORY_E_FOREIGN);
        cr_assert(owner_of(".") == 0 && owner_of("dead") == 0);
        in_directory("rm dead/passwd");
        cr_assert_eq(spool_give(directory, STRANGER, STRANGER), 0);
        cr_assert(owner_of(".") == STRANGER && owner_of("dead") == STRANGER &&
                  owner_of("dead/lock") == STRANGER);
        in_directory("chown 0 dead dead/lock");
        cr_assert_eq(spool_give(directory, STRANGER, STRANGER), 0);
        cr_assert(owner_of("dead") == STRANGER && owner_of("dead/lock") == STRANGER, "what root has made since");
        snprintf(inside, sizeof(inside), "%s/new", directory);
        cr_assert_eq(spool_give(inside, STRANGER, STRANGER), 0);
        cr_assert_eq(owner_of("new"), STRANGER);
}

Test(spool, has_one_user) {
        Spool *spool = open_spool(NULL), *other;

        cr_assert_eq(try_open(&other, false), SPOOL_E_LOCKED);
        cr_assert_eq(try_open(&other, true), 0, "to look needs no lock");
        spool_free(other);
        spool_free(spool);
        spool_free(open_spool(NULL));
}

static void shell(const char *format) {
        char command[200];

        snprintf(command, sizeof(command), format, directory, directory, directory, directory);
        cr_assert_eq(system(command), 0);
}

Test(spool, goes_on_in_a_directory_that_was_removed_or_replaced) {
        static const char *const ways[] = { "rm -r %s", "rm -r %s; mkdir -m 700 %s",
                                            "rm -rf %1$s.old; mv %1$s %1$s.old; mkdir -m 700 %1$s" };
        SpoolHeader header;
        SpoolEntry entry;
        uint8_t *bytes;

        for (size_t i = 0; i < 3; i++) {
                Spool *spool = open_spool(NULL), *other;
                SpoolCounts counts;

                put(spool, "old", 5, 10);
                shell(ways[i]);
                put(spool, "new", 7, 20);
                cr_assert_eq(try_open(&other, false), SPOOL_E_LOCKED,
                             "the lock is in the new one");
                expect_next(spool, "new", 30);          /* behind the old one, which is found to be gone */
                expect_empty(spool, 30);
                counts = spool_take_counts(spool);
                cr_expect_eq(counts.n_directories, 1);
                cr_expect_eq(counts.n_files_gone, 1);
                cr_expect_eq(counts.lost_corrupt, 5);
                cr_expect_eq(counts.n_files_corrupt, 0);
                cr_expect_eq(spool_bytes(spool), 0);
                spool_free(spool);
        }
        shell("rm -r %s.old");
        /* one that is being sent is not lost until it is asked for again */
        Spool *spool = open_spool(NULL);
        put(spool, "flying", 5, 10);
        cr_assert_eq(spool_next(spool, 15, NULL, &entry, &header, &bytes), 0);
        free(bytes);
        shell("rm -r %s");
        put(spool, "new", 7, 20);
        spool_remove(spool, &entry);
        cr_expect_eq(spool_take_counts(spool).lost_corrupt, 0);
        spool_free(spool);
}

Test(spool, finds_a_copy_in_its_place_and_has_each_batch_once) {
        Spool *spool = open_spool(NULL);

        put(spool, "one", 1, 10);
        put_so(spool, "held", 2, 20, SPOOL_PUT_HELD);
        shell("cp -a %1$s %1$s.copy; rm -r %1$s; mv %1$s.copy %1$s");
        put(spool, "three", 3, 30);
        cr_assert_eq(spool_n(spool), 3);
        expect_next(spool, "one", 40);
        expect_next(spool, "three", 40);
        expect_empty(spool, 40);
        cr_assert_eq(spool_take_counts(spool).lost_corrupt, 0);
        spool_free(spool);
}

Test(spool, does_not_follow_to_where_others_may_write) {
        SpoolHeader header = { .form = SPOOL_PROTOBUF, .n_events = 1, .n_profiles = 1 };
        Spool *spool = open_spool(NULL), *other;
        SpoolEntry entry;

        shell("rm -r %s; mkdir -m 777 %s");
        cr_assert_eq(spool_put(spool, &header, "x", 1, 10, 0, &entry), SPOOL_E_FAILED);
        cr_assert_eq(errno, EPERM);
        shell("rm -r %s; mkdir -m 700 %s");
        cr_assert_eq(try_open(&other, false), 0);
        cr_assert_eq(spool_put(spool, &header, "x", 1, 10, 0, &entry), SPOOL_E_FAILED);
        cr_assert_eq(errno, EBUSY, "another process has it");
        spool_free(other);
        cr_assert_eq(spool_put(spool, &header, "x", 1, 10, 0, &entry), 0);
        expect_next(spool, "x", 20);
        spool_free(spool);
}

Test(spool, goes_on_when_the_first_was_taken_over_and_over) {
        Spool *spool = open_spool(NULL);
        char text[16];

        for (int i = 0; i < 3; i++) {
                snprintf(text, sizeof(text), "%d", i);
                put(spool, text, 1, 1000 + (uint64_t)i);
        }
        for (int i = 3; i < 300; i++) {
                snprintf(text, sizeof(text), "%d", i);
                put(spool, text, 1, 1000 + (uint64_t)i);
                snprintf(text, sizeof(text), "%d", i - 3);
                expect_next(spool, text, 2000);
        }
        cr_assert_eq(spool_n(spool), 3);
        spool_free(spool);
}

Test(spool_file, is_read_back_and_no_flipped_bit_is) {
        SpoolHeader header = { .form = SPOOL_JSON, .n_events = 7, .n_profiles = 3, .time_ns = 5 }, read;
        uint8_t *bytes, *request = NULL;
        size_t size;

        cr_assert_eq(spool_file_pack(&header, "a request, a request", 20, &bytes, &size), 0);
        cr_assert_eq(spool_file_unpack(bytes, size, &read, &request), 0);
        cr_assert_eq(read.form, SPOOL_JSON);
        cr_assert_eq(read.n_events, 7);
        cr_assert_eq(read.request_size, 20);
        cr_assert_str_eq(read.schema, SPOOL_SCHEMA);
        cr_assert_eq(memcmp(request, "a request, a request", 20), 0);
        free(request);
        for (size_t i = 0; i < 8 * size; i++) {
                bytes[i / 8] ^= (uint8_t)(1 << i % 8);
                cr_assert_eq(spool_file_unpack(bytes, size, &read, &request), SPOOL_FILE_E_CORRUPT, "bit %zu",
                             i);
                bytes[i / 8] ^= (uint8_t)(1 << i % 8);
        }
        for (size_t i = 0; i < size; i++)
                cr_assert_eq(spool_file_unpack(bytes, i, &read, &request), SPOOL_FILE_E_CORRUPT, "cut at %zu",
                             i);
        free(bytes);
}
