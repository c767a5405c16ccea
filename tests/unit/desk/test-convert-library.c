/* SPDX-License-Identifier: Apache-2.0 */
/* libspanprof-convert as a program uses it: its header and its shared library alone. */
#include <criterion/criterion.h>
#include <elf.h>
#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

/* What `spanprof convert` writes as @form, with @more on its command line. */
static Bytes of_command(const char *form, const char *more) {
        char command[8192];
        FILE *pipe;
        Bytes bytes;

        snprintf(command, sizeof(command), "'%s' convert '%s' -o - --format %s %s 2>/dev/null",
                 getenv("SPANPROF"), recording(), form, more);
        pipe = popen(command, "r");
        bytes = file_bytes(pipe);
        cr_assert_eq(pclose(pipe), 0);
        return bytes;
}

/* Each profile has a number by chance. */
static void clear_ids(Bytes *json) {
        static const char key[] = "\"profileId\":";

        for (char *at = json->data; (at = strstr(at, key));) {
                at += sizeof(key) - 1;
                at += strcspn(at, "\"") + 1;             /* there is a blank before it in pretty JSON */
                while (*at && *at != '"')
                        *at++ = '0';
        }
}

static void assert_same(Bytes a, Bytes b) {
        cr_assert_gt(a.size, 0);
        cr_assert_eq(a.size, b.size);
        cr_assert_eq(memcmp(a.data, b.data, a.size), 0);
}

/* What the library writes as @form is what the command writes with @more on its command line. */
static void assert_as_command(const char *form, struct spanprof_convert_options options, const char *more) {
        Bytes mine, commands = of_command(form, more);
        spanprof_convert *convert;

        options.size = sizeof(options);
        convert = opened(&options);
        cr_assert_eq(spanprof_convert_add_file(convert, recording()), 0);
        mine = written(convert, form);
        if (!strcmp(form, "json")) {
                clear_ids(&mine);
                clear_ids(&commands);
        }
        assert_same(mine, commands);
        spanprof_convert_close(convert);
        free(mine.data);
        free(commands.data);
}

Test(convert_library, gives_what_the_command_gives) {
        static const struct spanprof_convert_options names = { .flags = SPANPROF_CONVERT_NAMES };
        static const char *const named[] = { "folded", "speedscope", "pprof" };

        assert_as_command("json", (struct spanprof_convert_options){ 0 }, "");
        assert_as_command("svg", (struct spanprof_convert_options){ 0 }, "");
        for (size_t i = 0; i < sizeof(named) / sizeof(*named); i++)
                assert_as_command(named[i], names, "");
}

Test(convert_library, takes_each_option_as_the_command_does) {
        const char *const resource[] = { "service.name=shop", "host.name=", NULL };

        assert_as_command("json", (struct spanprof_convert_options){ .flags = SPANPROF_CONVERT_PRETTY },
                          "--pretty");
        assert_as_command("json", (struct spanprof_convert_options){ .flags = SPANPROF_CONVERT_NO_TIMES },
                          "--no-timestamps");
        assert_as_command("json", (struct spanprof_convert_options){ .flags = SPANPROF_CONVERT_ALL_TIMES },
                          "--timestamps");
        assert_as_command("json", (struct spanprof_convert_options){ .flags = SPANPROF_CONVERT_PAYLOAD },
                          "--include-payload");
        assert_as_command("json", (struct spanprof_convert_options){ .flags = SPANPROF_CONVERT_ARGUMENTS },
                          "--include-arguments");
        assert_as_command("json", (struct spanprof_convert_options){ .resource = resource },
                          "--resource service.name=shop --resource host.name=");
        assert_as_command("json",
                          (struct spanprof_convert_options){ .flags = SPANPROF_CONVERT_RELATIVE,
                                                             .start_ns = 1000000000,
                                                             .end_ns = 2000000000 },
                          "--start +1s --end +2s");
}

Test(convert_library, chooses_events_as_the_command_does) {
        const char *const types[] = { "alloc*", "lock*", NULL }, *const nobody[] = { "nobody", NULL };
        const struct spanprof_convert_filter some = { .types = types }, none = { .threads = nobody };
        spanprof_convert *convert;

        assert_as_command("json", (struct spanprof_convert_options){ .filter = &some }, "--type 'alloc*,lock*'");
        convert = opened(&(struct spanprof_convert_options){ .size = sizeof(struct spanprof_convert_options),
                                                             .filter = &none });
        cr_assert_eq(spanprof_convert_add_file(convert, recording()), 0);
        cr_assert_eq(spanprof_convert_finish(convert), -ENODATA);
        cr_assert_str_eq(spanprof_convert_problem(convert), "no input has an event that counts");
        spanprof_convert_close(convert);
}

typedef struct Progress {
        size_t n;
        uint64_t done;
} Progress;

static void note_progress(const char *name, uint64_t done, uint64_t size, void *userdata) {
        Progress *progress = userdata;

        cr_assert(strstr(name, "async-profiler"), "%s", name);
        cr_assert_leq(done, size);
        progress->n++;
        progress->done = done;
}

Test(convert_library, tells_how_far_it_is_and_what_a_form_cannot_hold) {
        Progress progress = { 0 };
        spanprof_convert *convert =
                opened(&(struct spanprof_convert_options){ .size = sizeof(struct spanprof_convert_options),
                                                           .progress = note_progress,
                                                           .userdata = &progress });

        cr_assert_eq(spanprof_convert_add_file(convert, recording()), 0);
        cr_assert_gt(progress.n, 0);
        cr_assert_gt(progress.done, 0);
        cr_assert_str_eq(spanprof_convert_losses(convert, "folded"), "", "not finished");
        cr_assert_eq(spanprof_convert_finish(convert), 0);
        cr_assert_eq(spanprof_convert_add_memory(convert, "late", "main 1\n", 7), -EBUSY);
        cr_assert(strstr(spanprof_convert_losses(convert, "folded"), "times"), "%s",
                  spanprof_convert_losses(convert, "folded"));
        cr_assert_str_eq(spanprof_convert_losses(convert, "papyrus"), "");
        spanprof_convert_close(convert);
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

typedef struct Self {
        uint64_t base;
        char build_id[129];
} Self;

static size_t padded(size_t size) {
        return (size + 3) / 4 * 4;
}

static void read_note(Self *self, const ElfW(Nhdr) *note) {
        const unsigned char *id = (const unsigned char *)(note + 1) + padded(note->n_namesz);

        for (size_t i = 0; note->n_type == NT_GNU_BUILD_ID && i < note->n_descsz && i < 64; i++)
                sprintf(self->build_id + 2 * i, "%02x", id[i]);
}

/* The first object is the program. */
static int look_at_program(struct dl_phdr_info *info, size_t size, void *userdata) {
        Self *self = userdata;

        self->base = info->dlpi_addr;
        for (size_t i = 0; i < info->dlpi_phnum; i++) {
                const ElfW(Phdr) *part = &info->dlpi_phdr[i];
                const ElfW(Nhdr) *note;

                for (size_t at = 0; part->p_type == PT_NOTE && at + sizeof(*note) <= part->p_memsz;
                     at += sizeof(*note) + padded(note->n_namesz) + padded(note->n_descsz)) {
                        note = (const void *)(info->dlpi_addr + part->p_vaddr + at);
                        read_note(self, note);
                }
        }
        return 1;
}

/* A profile of one sample in keep() of this program, without its name. */
static char *unnamed_profile(void) {
        char path[4096] = "";
        Self self = { 0 };
        char *json;

        dl_iterate_phdr(look_at_program, &self);
        cr_assert_gt(readlink("/proc/self/exe", path, sizeof(path) - 1), 0);
        cr_assert_gt(asprintf(&json,
                              "{\"resourceProfiles\":[{\"scopeProfiles\":[{\"profiles\":[{"
                              "\"sampleType\":{\"typeStrindex\":1,\"unitStrindex\":2},"
                              "\"samples\":[{\"stackIndex\":1,\"values\":[\"6\"]}],"
                              "\"timeUnixNano\":\"1700000000000000000\",\"durationNano\":\"1000\"}]}]}],"
                              "\"dictionary\":{\"mappingTable\":[{},{\"memoryStart\":\"0\","
                              "\"memoryLimit\":\"1073741824\",\"filenameStrindex\":3,"
                              "\"attributeIndices\":[1]}],\"locationTable\":[{},{\"mappingIndex\":1,"
                              "\"address\":\"%llu\",\"attributeIndices\":[2]}],\"functionTable\":[{}],"
                              "\"linkTable\":[{}],\"stringTable\":[\"\",\"samples\",\"count\",\"%s\","
                              "\"process.executable.build_id.gnu\",\"profile.frame.type\"],"
                              "\"attributeTable\":[{},"
                              "{\"keyStrindex\":4,\"value\":{\"stringValue\":\"%s\"}},"
                              "{\"keyStrindex\":5,\"value\":{\"stringValue\":\"native\"}}],"
                              "\"stackTable\":[{},{\"locationIndices\":[1]}]}}",
                              (unsigned long long)((uintptr_t)keep - self.base), path, self.build_id),
                     0);
        return json;
}

Test(convert_library, names_frames_by_files_of_this_machine_if_asked) {
        char *profile = unnamed_profile();

        for (unsigned i = 0; i < 2; i++) {
                const unsigned flags[] = { 0, SPANPROF_CONVERT_NAMES };
                spanprof_convert *convert = opened(&(struct spanprof_convert_options){
                        .size = sizeof(struct spanprof_convert_options), .flags = flags[i] });
                Bytes folded;

                add_text(convert, profile);
                folded = written(convert, "folded");
                if (flags[i])
                        cr_assert_str_eq(folded.data, "keep 6\n");
                else
                        cr_assert_not_null(strstr(folded.data, "test-convert-library+0x"), "%s", folded.data);
                spanprof_convert_close(convert);
                free(folded.data);
        }
        free(profile);
}
