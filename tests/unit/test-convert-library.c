/* SPDX-License-Identifier: Apache-2.0 */
/* libspanprof-convert as a program uses it: its header and its shared library alone. */
#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "spanprof-convert.h"

typedef struct Bytes {
        char *data;
        size_t size;
        size_t most;                    /* 0 = no limit */
} Bytes;

static int keep(const void *data, size_t size, void *userdata) {
        Bytes *bytes = userdata;

        if (bytes->most && bytes->size + size > bytes->most)
                return 1;
        bytes->data = realloc(bytes->data, bytes->size + size + 1);
        if (!bytes->data)
                return 1;
        memcpy(bytes->data + bytes->size, data, size);
        bytes->size += size;
        bytes->data[bytes->size] = 0;
        return 0;
}

static spanprof_convert *opened(const struct spanprof_convert_options *options) {
        spanprof_convert *convert;

        cr_assert_eq(spanprof_convert_open(&convert, options), 0);
        return convert;
}

static void add_text(spanprof_convert *convert, const char *text) {
        cr_assert_eq(spanprof_convert_add_memory(convert, "stacks", text, strlen(text)), 0, "%s",
                     spanprof_convert_problem(convert));
}

static Bytes written(spanprof_convert *convert, const char *form) {
        Bytes bytes = { 0 };

        cr_assert_eq(spanprof_convert_write(convert, form, keep, &bytes), 0, "%s",
                     spanprof_convert_problem(convert));
        return bytes;
}

static const char *recording(void) {
        static char path[4096];

        snprintf(path, sizeof(path), "%s/tests/data/async-profiler.jfr.gz", getenv("SOURCE_DIR"));
        return path;
}

static Bytes file_bytes(FILE *file) {
        char piece[65536];
        Bytes bytes = { 0 };
        size_t n;

        cr_assert_not_null(file);
        while ((n = fread(piece, 1, sizeof(piece), file)) > 0)
                keep(piece, n, &bytes);
        return bytes;
}

static Bytes folded_of_recording(void) {
        spanprof_convert *convert = opened(NULL);
        Bytes bytes;

        cr_assert_eq(spanprof_convert_add_file(convert, recording()), 0, "%s",
                     spanprof_convert_problem(convert));
        bytes = written(convert, "folded");
        spanprof_convert_close(convert);
        return bytes;
}

/* What `spanprof convert` writes as @form. */
static Bytes of_command(const char *form) {
        char command[8192];
        FILE *pipe;
        Bytes bytes;

        snprintf(command, sizeof(command), "'%s' convert '%s' -o - --format %s 2>/dev/null",
                 getenv("SPANPROF"), recording(), form);
        pipe = popen(command, "r");
        bytes = file_bytes(pipe);
        cr_assert_eq(pclose(pipe), 0);
        return bytes;
}

/* Each profile has a number by chance. */
static void clear_ids(Bytes *json) {
        static const char key[] = "\"profileId\":\"";

        for (char *at = json->data; (at = strstr(at, key));)
                for (at += sizeof(key) - 1; *at && *at != '"'; at++)
                        *at = '0';
}

static void assert_same(Bytes a, Bytes b) {
        cr_assert_gt(a.size, 0);
        cr_assert_eq(a.size, b.size);
        cr_assert_eq(memcmp(a.data, b.data, a.size), 0);
}

Test(convert_library, gives_what_the_command_gives) {
        spanprof_convert *convert = opened(NULL);
        Bytes mine, commands = of_command("json");

        cr_assert_eq(spanprof_convert_add_file(convert, recording()), 0);
        mine = written(convert, "json");
        clear_ids(&mine);
        clear_ids(&commands);
        assert_same(mine, commands);
        spanprof_convert_close(convert);
        free(mine.data);
        free(commands.data);
}

Test(convert_library, unpacks_memory) {
        FILE *file = fopen(recording(), "rbe");
        Bytes packed = file_bytes(file), from_memory, from_file = folded_of_recording();
        spanprof_convert *convert = opened(NULL);

        cr_assert_eq(spanprof_convert_add_memory(convert, "recording", packed.data, packed.size), 0);
        from_memory = written(convert, "folded");
        assert_same(from_memory, from_file);
        spanprof_convert_close(convert);
        fclose(file);
        free(packed.data);
        free(from_memory.data);
        free(from_file.data);
}

Test(convert_library, keeps_nothing_between_conversions) {
        spanprof_convert *first = opened(NULL), *second = opened(NULL);
        Bytes one, two;

        add_text(first, "main;hot 3\n");
        add_text(second, "main;cold 5\n");
        one = written(first, "folded");
        two = written(second, "folded");
        cr_assert_str_eq(one.data, "main;hot 3\n");
        cr_assert_str_eq(two.data, "main;cold 5\n");
        spanprof_convert_close(first);
        spanprof_convert_close(second);
        free(one.data);
        free(two.data);
}

static void *convert_often(void *data) {
        Bytes *last = data;

        for (int i = 0; i < 5; i++) {
                free(last->data);
                *last = folded_of_recording();
        }
        return NULL;
}

Test(convert_library, works_in_threads_side_by_side) {
        Bytes results[2] = { 0 }, truth = folded_of_recording();
        pthread_t threads[2];

        for (int i = 0; i < 2; i++)
                cr_assert_eq(pthread_create(&threads[i], NULL, convert_often, &results[i]), 0);
        for (int i = 0; i < 2; i++) {
                pthread_join(threads[i], NULL);
                assert_same(results[i], truth);
                free(results[i].data);
        }
        free(truth.data);
}

Test(convert_library, adds_attributes_to_each_resource) {
        const char *const resource[] = { "service.name=shop", NULL };
        spanprof_convert *convert = opened(&(struct spanprof_convert_options){
                .size = sizeof(struct spanprof_convert_options), .resource = resource });
        Bytes json;

        add_text(convert, "main;hot 3\n");
        json = written(convert, "json");
        cr_assert_not_null(strstr(json.data, "\"shop\""));
        cr_assert_not_null(strstr(json.data, "\"hot\""));
        spanprof_convert_close(convert);
        free(json.data);
}

Test(convert_library, counts_a_range_of_time) {
        spanprof_convert *convert = opened(&(struct spanprof_convert_options){
                .size = sizeof(struct spanprof_convert_options), .end_ns = 1 });
        Bytes bytes = { 0 };

        cr_assert_eq(spanprof_convert_add_file(convert, recording()), 0);
        cr_assert_eq(spanprof_convert_write(convert, "otlp", keep, &bytes), -ENODATA);
        cr_assert_str_eq(spanprof_convert_problem(convert), "no input has an event that counts");
        spanprof_convert_close(convert);
}

Test(convert_library, says_what_is_wrong) {
        spanprof_convert *convert = opened(NULL);
        Bytes bytes = { 0 }, few = { .most = 1 };

        cr_assert_eq(spanprof_convert_add_file(convert, "/nowhere/x.jfr"), 1);
        cr_assert_not_null(strstr(spanprof_convert_problem(convert), "No such file"));
        cr_assert_eq(spanprof_convert_add_memory(convert, "nothing", "", 0), 1);
        cr_assert_str_eq(spanprof_convert_problem(convert), "is empty, as a recording without one sample is");
        cr_assert_eq(spanprof_convert_write(convert, "otlp", keep, &bytes), -ENODATA);
        cr_assert_eq(spanprof_convert_add_memory(convert, "late", "main 1\n", 7), -EBUSY);
        spanprof_convert_close(convert);

        convert = opened(NULL);
        add_text(convert, "main;hot 3\n");
        cr_assert_eq(spanprof_convert_write(convert, "papyrus", keep, &bytes), -EINVAL);
        cr_assert_eq(spanprof_convert_write(convert, "folded", keep, &few), -ECANCELED);
        spanprof_convert_close(convert);
        spanprof_convert_close(NULL);
}

Test(convert_library, refuses_options_that_it_does_not_know) {
        const char *const resource[] = { "no equals sign", NULL };
        spanprof_convert *convert;

        cr_assert_eq(spanprof_convert_open(&convert, &(struct spanprof_convert_options){ .size = 1 }),
                     -EINVAL);
        cr_assert_null(convert);
        cr_assert_eq(spanprof_convert_open(&convert, &(struct spanprof_convert_options){
                                                             .size = sizeof(struct spanprof_convert_options),
                                                             .flags = 1 << 30 }),
                     -EINVAL);
        cr_assert_eq(spanprof_convert_open(&convert, &(struct spanprof_convert_options){
                                                             .size = sizeof(struct spanprof_convert_options),
                                                             .resource = resource }),
                     -EINVAL);
}
