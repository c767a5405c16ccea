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

#include "base/util/file.h"
#include "delivery/receive/store.h"

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

        cr_assert_eq(store_new(&store, root, limits), 0);
        return store;
}

static int put(Store *store, const char *protobuf, const char *json, uint64_t *numberp) {
        return store_put(store, protobuf, strlen(protobuf), json, strlen(json), numberp);
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
        cr_assert_eq(put(store, "1234", "1234", &number), 0);
        cr_assert_eq(put(store, "", "", &number), STORE_E_LIMIT, "five files");
        cr_assert_eq(unlink(path_of("000001.pb")), 0);
        cr_assert_eq(put(store, "", "", &number), 0);
        cr_assert_eq(number, 3, "numbers never go back");
        cr_assert_eq(count_files(), 4);
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
        cr_assert_eq(store_new(&store, path_of("file"), &wide), STORE_E_DIRECTORY);
        cr_assert_eq(errno, ENOTDIR);
        cr_assert_eq(store_new(&store, "/nonexistent/deeper", &wide), STORE_E_DIRECTORY);
        cr_assert_eq(errno, ENOENT);
        cr_assert_eq(chmod(root, 0777), 0);
        cr_assert_eq(store_new(&store, root, &wide), STORE_E_DIRECTORY);
        cr_assert_eq(chmod(root, 0700), 0);
        cr_assert_not_null(strstr(store_problem(), "others may write"), "%s", store_problem());
        cr_assert_null(store);
        cr_assert_eq(store_new(&store, path_of("new"), &wide), 0);
        store_free(store);
}
