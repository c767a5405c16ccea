/* SPDX-License-Identifier: Apache-2.0 */

/* Whose files have room in the queue; what is uploaded is tested with servers (test-symbol-upload.py). */

#include <criterion/criterion.h>
#include <stdio.h>

#include "core/base/sandbox/zygotes.h"
#include "host/naming/uploader.h"
#include "host/service/run/worker-main.h"

enum { N_FILES = 300, N_PLACES = 256, ATTACKER = 61001, HONEST, OTHER_PROCESS };

__attribute__((__constructor__)) static void become_zygote(int argc, char **argv) {
        if (argc == 1 && !strcmp(argv[0], ZYGOTE_NAME))
                zygote_serve(worker_main);
}

/* A file of a process that is a user's only one. Return: as uploader_push(). */
static int push(Uploader *uploader, uint32_t user, unsigned file) {
        char id[16];
        const UploadWish wish = { .gnu = id, .path = "/srv/none", .owner = { 1, user, user } };

        snprintf(id, sizeof(id), "%x%08x", (unsigned)user, file);
        return uploader_push(uploader, &wish);
}

static uint32_t n_waiting(Uploader *uploader) {
        UploaderState state;

        uploader_state(uploader, &state);
        return state.n_waiting;
}

/* The budget of the day is used up, so each file waits for tomorrow. */
Test(uploader, a_process_with_many_files_leaves_room_in_the_queue) {
        UploaderConfig config = { .server = { .url = "http://127.0.0.1:9" }, .shown_url = "none" };
        Uploader *uploader;
        int r;

        cr_assert_eq(zygotes_new(&config.zygotes), 0);
        cr_assert_eq(uploader_new(&uploader, &config), 0);
        for (unsigned i = 0; i < N_FILES; i++) {
                r = push(uploader, ATTACKER, i);
                cr_assert_eq(r, i < N_PLACES / 4 ? 0 : UPLOADER_E_FULL, "file %u: %d", i, r);
        }
        cr_assert_eq(n_waiting(uploader), N_PLACES / 4);
        cr_assert_eq(push(uploader, HONEST, 0), 0);
        cr_assert_eq(push(uploader, HONEST, 1), 0);
        cr_assert_eq(push(uploader, HONEST, 1), 0, "it waits already");
        cr_assert_eq(push(uploader, OTHER_PROCESS, 0), 0);
        cr_assert_eq(push(uploader, ATTACKER, N_FILES), UPLOADER_E_FULL);
        cr_assert_eq(n_waiting(uploader), N_PLACES / 4 + 3);
        uploader_free(uploader);
        zygotes_free(config.zygotes);
}
