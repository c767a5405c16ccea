/* SPDX-License-Identifier: Apache-2.0 */

/* At whose expense a hot file waits; what is uploaded is tested with servers (test-symbol-upload.py). */

#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/sandbox/zygotes.h"
#include "core/base/util/macro.h"
#include "host/naming/uploads.h"
#include "host/service/run/worker-main.h"

enum { N_FILES = 100, N_ROOM = 64, N_SAMPLES = 100 };   /* one process alone has room for 64 files */

__attribute__((__constructor__)) static void become_zygote(int argc, char **argv) {
        if (argc == 1 && !strcmp(argv[0], ZYGOTE_NAME))
                zygote_serve(worker_main);
}

/* An object as its cache has it: object_file() reads what lies behind it. */
typedef struct Known {
        Object object;
        ObjectFile files[2];
} Known;

/* Uploads whose budget of the day is used up, so each file waits for tomorrow. */
typedef struct Fixture {
        UploadsConfig config;
        Uploads *uploads;
        uint64_t n_files;
        pid_t child;
        Process *older, *younger;       /* this one, and its child */
        Process ended;
} Fixture;

static Fixture start(void) {
        static char pattern[] = "container:*";
        static char *patterns[] = { pattern };
        Fixture fixture = { .config = { .uploader = { .server = { .url = "http://127.0.0.1:9" }, .shown_url = "none" },
                                        .patterns = patterns, .n_patterns = 1 } };

        cr_assert_eq(zygotes_new(&fixture.config.uploader.zygotes), 0);
        cr_assert_eq(uploads_new(&fixture.uploads, &fixture.config), 0);
        fixture.child = fork();
        if (!fixture.child) {
                pause();
                _exit(0);
        }
        cr_assert_gt(fixture.child, 0);
        cr_assert_eq(process_new(&fixture.older, getpid()), 0);
        cr_assert_eq(process_new(&fixture.younger, fixture.child), 0);
        fixture.ended = (Process){ .pid = (uint32_t)fixture.child, .start_time_ns = 1 };
        return fixture;
}

static void end(Fixture *fixture) {
        uploads_free(fixture->uploads);
        zygotes_free(fixture->config.uploader.zygotes);
        process_free(fixture->older);
        process_free(fixture->younger);
        cr_assert_eq(kill(fixture->child, SIGKILL), 0);
        cr_assert_eq(waitpid(fixture->child, NULL, 0), fixture->child);
}

static uint32_t n_waiting(const Fixture *fixture) {
        UploaderState state;

        uploads_state(fixture->uploads, &state);
        return state.n_waiting;
}

static void sample(Window *window, uint64_t file) {
        WindowModule shop = { .file = file, .limit = 4096 };
        uint32_t module, stack, resource, profile, number;
        FrameWord word;

        cr_assert_eq(window_string(window, "c0ffee", strlen("c0ffee"), &shop.build_id_gnu), 0);
        cr_assert_eq(window_module(window, &shop, &module), 0);
        cr_assert_eq(window_native_frame(window, FRAME_MARK_NATIVE, module, 16, &word), 0);
        cr_assert_eq(window_stack(window, &word, 1, &stack), 0);
        cr_assert_eq(window_resource(window, 1, &resource), 0);
        cr_assert_eq(window_profile(window, resource, PROFILE_CPU, &profile), 0);
        cr_assert_eq(window_sample_number(window, profile, stack, 0, 0, &number), 0);
        window_sample_sum(window, profile, number, N_SAMPLES, N_SAMPLES);
}

/* @n new files, hot in a window, each of which @processes have. Return: how many of them wait now. */
static uint32_t push(Fixture *fixture, const Process *const *processes, size_t n_processes, unsigned n) {
        const uint32_t before = n_waiting(fixture);
        Window *window;

        cr_assert_eq(window_new(&window, 1, 0, NULL), 0);
        for (unsigned i = 0; i < n; i++) {
                Known known = { .object = { .file = ++fixture->n_files } };
                Object *object = &known.object;
                char path[] = "/usr/bin/shop";
                Mapping mapping = { .start = 4096, .end = 8192, .object = object, .path = path };

                snprintf(object->build_id_gnu, sizeof(object->build_id_gnu), "%08x", (unsigned)object->file);
                for (size_t k = 0; k < n_processes; k++)
                        cr_assert_eq(uploads_see(fixture->uploads, processes[k], &mapping), 0);
                sample(window, object->file);
        }
        cr_assert_eq(window_close(window, 2), 0);
        cr_assert_eq(uploads_window(fixture->uploads, window), 0);
        window_free(window);
        return n_waiting(fixture) - before;
}

/* @crowded has had all its files; what it has together with @other waits all the same, in either order. */
static void check(Fixture *fixture, const Process *crowded, const Process *other) {
        const Process *both[] = { crowded, other }, *turned[] = { other, crowded };
        uint32_t n;

        n = push(fixture, &crowded, 1, N_FILES);
        cr_assert_eq(n, N_ROOM, "%u wait", n);
        cr_assert_eq(push(fixture, &crowded, 1, 1), 0);
        cr_assert_eq(push(fixture, both, ARRAY_SIZE(both), 1), 1);
        cr_assert_eq(push(fixture, turned, ARRAY_SIZE(turned), 1), 1);
        cr_assert_eq(push(fixture, &crowded, 1, 1), 0);
}

Test(uploads, a_file_waits_though_the_process_that_had_it_first_has_ended) {
        Fixture fixture = start();

        check(&fixture, &fixture.ended, fixture.older);
        end(&fixture);
}

Test(uploads, a_file_waits_though_the_process_that_had_it_first_has_more_than_its_share) {
        Fixture fixture = start();

        check(&fixture, fixture.older, fixture.younger);
        end(&fixture);
}

Test(uploads, a_file_waits_though_the_process_that_had_it_last_has_more_than_its_share) {
        Fixture fixture = start();

        check(&fixture, fixture.younger, fixture.older);
        end(&fixture);
}
