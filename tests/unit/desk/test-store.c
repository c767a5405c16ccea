/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "core/base/file/file.h"
#include "core/base/file/outfile.h"
#include "desk/receive/store.h"

static const StoreLimits wide = { .max_bytes = 1 << 20, .max_files = 100 };
static char root[64];

static void make_root(void) {
        strcpy(root, "/tmp/spanprof-store-XXXXXX");
        cr_assert_not_null(mkdtemp(root));
}

static void remove_root(void) {
        char command[128];

        snprintf(command, sizeof(command), "rm -rf %s", root);
        cr_assert_eq(system(command), 0);
}

TestSuite(store, .init = make_root, .fini = remove_root);

static const char *path_of(const char *name) {
        static char path[128];

        snprintf(path, sizeof(path), "%s/%s", root, name);
        return path;
}

static void write_file(const char *name, size_t size) {
        FILE *file = fopen(path_of(name), "w");

        cr_assert_not_null(file);
        for (size_t i = 0; i < size; i++)
                fputc('x', file);
        fclose(file);
}

static void assert_content(const char *name, const char *content) {
        _cleanup_(freep) char *data = NULL;
        size_t size;

        cr_assert_eq(file_read(path_of(name), 1000, &data, &size), 0, "%s", name);
        cr_assert_str_eq(data, content);
}

static unsigned count_files(void) {
        DIR *dir = opendir(root);
        unsigned n = 0;

        while (readdir(dir))
                n++;
        closedir(dir);
        return n - 2;
}

static Store *open_store(const StoreLimits *limits) {
        Store *store = NULL;

        cr_assert_eq(store_new(&store, root, OUTFILE_NO_HEIR, limits), 0);
        return store;
}

/* In two pieces. */
static int print(StoreFile *file, void *json) {
        size_t size = strlen(json), half = size / 2;
        int r = store_append(file, json, half);

        return r ? r : store_append(file, (char *)json + half, size - half);
}

static int put_of(Store *store, const char *sender, const char *protobuf, const char *json,
                  uint64_t *numberp) {
        const StoreRequest request = {
                .sender = sender,
                .protobuf = protobuf,
                .protobuf_size = strlen(protobuf),
                .print = print,
                .userdata = (void *)json,
                .max_json_bytes = 100000,
        };

        return store_put(store, &request, numberp);
}

static int put(Store *store, const char *protobuf, const char *json, uint64_t *numberp) {
        return put_of(store, "192.0.2.1", protobuf, json, numberp);
}

Test(store, writes_pairs_that_only_their_owner_can_read) {
        Store *store = open_store(&wide);
        uint64_t number = 0;
        struct stat st;

        cr_assert_eq(put(store, "pb", "json", &number), 0);
        cr_assert_eq(number, 1);
        cr_assert_eq(put(store, "pb2", "json2", &number), 0);
        cr_assert_eq(number, 2);
        assert_content("000001.pb", "pb");
        assert_content("000001.json", "json");
        assert_content("000002.pb", "pb2");
        cr_assert_eq(stat(path_of("000001.json"), &st), 0);
        cr_assert_eq(st.st_mode & 07777, 0600);
        cr_assert_eq(count_files(), 4, "no temporary file is left");
        store_free(store);
}

Test(store, goes_on_behind_the_highest_number_of_either_kind) {
        Store *store;
        uint64_t number = 0;

        write_file("000007.pb", 1);
        write_file("000009.json", 1);
        write_file("12.pb", 1);
        write_file("000100.txt", 1);
        write_file("99999999999999999999999.pb", 1);
        store = open_store(&wide);
        cr_assert_eq(put(store, "", "", &number), 0);
        cr_assert_eq(number, 10);
        store_free(store);
}

Test(store, does_not_go_on_behind_a_number_that_no_receiver_reaches) {
        const StoreLimits limits = { .max_bytes = 1 << 20, .max_files = 7 };
        uint64_t number = 0;
        Store *store;

        write_file("000007.pb", 1);
        write_file("9223372036854775807.pb", 1);
        write_file("999999999999999.json", 1);
        store = open_store(&limits);
        cr_assert_eq(put(store, "", "", &number), 0);
        cr_assert_eq(number, 8);
        cr_assert_eq(put(store, "", "", &number), STORE_E_SHARE, "it counts as a file");
        store_free(store);
}

Test(store, never_writes_over_a_file_that_came_in_the_meantime) {
        Store *store = open_store(&wide);
        uint64_t number = 0;

        write_file("000001.pb", 3);
        write_file("000002.json", 3);
        cr_assert_eq(put(store, "pb", "json", &number), 0);
        cr_assert_eq(number, 3);
        assert_content("000001.pb", "xxx");
        assert_content("000002.json", "xxx");
        assert_content("000003.pb", "pb");
        assert_content("000003.json", "json");
        cr_assert_neq(access(path_of("000001.json"), F_OK), 0, "no half pair stays behind");
        store_free(store);
}

Test(store, refuses_at_its_limits_and_sees_new_room) {
        const StoreLimits limits = { .max_bytes = 20, .max_files = 4 };
        Store *store;
        uint64_t number = 77;

        write_file("000001.pb", 10);
        store = open_store(&limits);
        cr_assert_eq(put(store, "12345", "123456", &number), STORE_E_LIMIT, "21 bytes");
        cr_assert_eq(number, 77);
        cr_assert_eq(count_files(), 1, "what was written until then is gone");
        cr_assert_eq(put(store, "1234", "1234", &number), 0);
        cr_assert_eq(put(store, "", "", &number), STORE_E_LIMIT, "five files");
        cr_assert_eq(unlink(path_of("000001.pb")), 0);
        cr_assert_eq(put(store, "", "", &number), STORE_E_SHARE, "the last two files are for another");
        cr_assert_eq(put_of(store, "192.0.2.2", "", "", &number), STORE_E_SHARE,
                     "or for nobody: no sender may have the very last");
        cr_assert_eq(unlink(path_of("000002.pb")), 0);
        cr_assert_eq(unlink(path_of("000002.json")), 0);
        cr_assert_eq(put(store, "", "", &number), 0);
        cr_assert_eq(number, 3, "numbers never go back");
        cr_assert_eq(count_files(), 2);
        store_free(store);
}

Test(store, keeps_room_from_each_sender_for_the_next) {
        const StoreLimits limits = { .max_bytes = 800, .max_files = 1000 };
        char ten[11] = "0123456789";
        Store *store = open_store(&limits);
        uint64_t number;
        unsigned n[3] = { 0 };

        for (unsigned sender = 0; sender < 3; sender++) {
                const char *const names[] = { "192.0.2.1", "192.0.2.2", "2001:db8::/64" };
                int r;

                while (!(r = put_of(store, names[sender], ten, "", &number)))
                        n[sender]++;
                cr_assert_eq(r, STORE_E_SHARE, "%u", sender);
        }
        cr_assert_eq(n[0], 70, "7/8 of all");
        cr_assert_eq(n[1], 8, "7/8 of the 100 that are left, in tens");
        cr_assert_eq(n[2], 1);
        cr_assert_eq(put_of(store, "192.0.2.2", "1", "", &number), STORE_E_SHARE);
        for (unsigned i = 1; i <= 10; i++) {
                char name[16];

                snprintf(name, sizeof(name), "%06u.pb", i);
                cr_assert_eq(unlink(path_of(name)), 0);
        }
        cr_assert_eq(put(store, ten, "", &number), 0, "what was removed is nobody's any more");
        store_free(store);
}

Test(store, lets_more_senders_than_it_remembers_share_one_share) {
        const StoreLimits limits = { .max_bytes = 1 << 20, .max_files = 8 * 2000 };
        Store *store = open_store(&limits);
        uint64_t number;

        for (unsigned i = 0; i < 1100; i++) {
                char sender[16];

                snprintf(sender, sizeof(sender), "10.0.%u.%u", i >> 8, i & 255);
                cr_assert_eq(put_of(store, sender, "", "", &number), 0);
        }
        store_free(store);
}

Test(store, ends_json_that_is_larger_than_it_may_be) {
        Store *store = open_store(&wide);
        StoreRequest request = {
                .sender = "192.0.2.1",
                .protobuf = "pb",
                .protobuf_size = 2,
                .print = print,
                .userdata = (void *)"12345",
                .max_json_bytes = 4,
        };
        uint64_t number;

        cr_assert_eq(store_put(store, &request, &number), STORE_E_JSON);
        cr_assert_eq(count_files(), 0);
        request.max_json_bytes = 5;
        cr_assert_eq(store_put(store, &request, &number), 0);
        assert_content("000001.json", "12345");
        store_free(store);
}

Test(store, leaves_nothing_behind_when_it_cannot_write) {
        Store *store = open_store(&wide);
        struct rlimit limit;
        uint64_t number;

        signal(SIGXFSZ, SIG_IGN);
        cr_assert_eq(getrlimit(RLIMIT_FSIZE, &limit), 0);
        cr_assert_eq(setrlimit(RLIMIT_FSIZE, &(struct rlimit){ 5, limit.rlim_max }), 0);
        cr_assert_eq(put(store, "protobuf", "json", &number), STORE_E_WRITE);
        cr_assert_eq(errno, EFBIG);
        cr_assert_eq(count_files(), 0, "the JSON was written, and is gone");
        cr_assert_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
        cr_assert_eq(put(store, "pb", "json", &number), 0);
        store_free(store);
}

Test(store, says_when_there_can_be_no_directory) {
        Store *store = NULL;

        write_file("file", 1);
        cr_assert_eq(store_new(&store, path_of("file"), OUTFILE_NO_HEIR, &wide), STORE_E_DIRECTORY);
        cr_assert_eq(errno, ENOTDIR);
        cr_assert_eq(store_new(&store, "/nonexistent/deeper", OUTFILE_NO_HEIR, &wide), STORE_E_DIRECTORY);
        cr_assert_eq(errno, ENOENT);
        cr_assert_eq(chmod(root, 0777), 0);
        cr_assert_eq(store_new(&store, root, OUTFILE_NO_HEIR, &wide), STORE_E_DIRECTORY);
        cr_assert_eq(chmod(root, 0700), 0);
        cr_assert_not_null(strstr(store_problem(), "others may write"), "%s", store_problem());
        cr_assert_null(store);
        cr_assert_eq(store_new(&store, path_of("new"), OUTFILE_NO_HEIR, &wide), 0);
        store_free(store);
}

/* Return: whether the part went where its service says. */
static bool put_service(Store *store, const char *sender, unsigned service) {
        char name[16], path[64];
        const StorePart part = { .partition = { .day = 0, .service = name, .host = "h" },
                                 .data = "x", .size = 1 };
        uint64_t first, last;

        snprintf(name, sizeof(name), "s%u", service);
        cr_assert_eq(store_put_parts(store, sender, &part, 1, &first, &last), 0);
        snprintf(path, sizeof(path), "1970-01-01/s%u", service);
        return access(path_of(path), F_OK) == 0;
}

static unsigned fill(Store *store, const char *sender, unsigned first) {
        unsigned n = 0;

        while (put_service(store, sender, first + n))
                n++;
        return n;
}

/* One day of 4,096 entries: `.`, `..`, and 4,000 that are nobody's. */
static void make_day(void) {
        char name[32];

        cr_assert_eq(mkdir(path_of("1970-01-01"), 0700), 0);
        for (unsigned i = 0; i < 4000; i++) {
                snprintf(name, sizeof(name), "1970-01-01/x%u", i);
                cr_assert_eq(mkdir(path_of(name), 0700), 0);
        }
}

static const StoreLimits many = { .max_bytes = 1 << 20, .max_files = 1 << 20 };

Test(store, keeps_directories_from_each_sender_for_the_next) {
        const StoreRequest large = { .sender = "192.0.2.9", .protobuf_size = 2 << 20 };
        char command[128];
        uint64_t number;
        Store *store;

        make_day();
        store = open_store(&many);
        cr_assert_eq(fill(store, "192.0.2.1", 10000), 82, "7/8 of the 94 that are left");
        cr_assert_eq(fill(store, "192.0.2.2", 20000), 9, "7/8 of the 11 that are left: one is `+other`");
        cr_assert_eq(fill(store, "2001:db8::/64", 30000), 1);
        cr_assert_eq(store_n_over_share(store), 3);
        cr_assert_eq(store_n_crowded(store), 0);
        cr_assert(put_service(store, "192.0.2.1", 10000), "what is there is used");

        snprintf(command, sizeof(command), "rm -r %s/1970-01-01", root);
        cr_assert_eq(system(command), 0);
        cr_assert_eq(store_put(store, &large, &number), STORE_E_LIMIT, "which looks for room");
        cr_assert(put_service(store, "192.0.2.1", 40000), "what was removed is nobody's any more");
        store_free(store);
}

Test(store, takes_directories_of_an_earlier_process_for_nobodys) {
        Store *store;

        make_day();
        store = open_store(&many);
        cr_assert_eq(fill(store, "192.0.2.1", 10000), 82);
        store_free(store);
        store = open_store(&many);
        cr_assert_eq(fill(store, "192.0.2.1", 20000), 9, "as one that comes new");
        store_free(store);
}

/* A look at all of the store, as for new room, forgets no owner. */
Test(store, knows_whose_directories_are_after_a_look) {
        const StoreRequest large = { .sender = "192.0.2.9", .protobuf_size = 2 << 20 };
        uint64_t number;
        Store *store;

        make_day();
        store = open_store(&many);
        for (unsigned i = 0; i < 80; i++)
                cr_assert(put_service(store, "192.0.2.1", 10000 + i));
        cr_assert_eq(store_put(store, &large, &number), STORE_E_LIMIT);
        cr_assert_eq(fill(store, "192.0.2.1", 20000), 2);
        store_free(store);
}
