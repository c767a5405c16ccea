/* SPDX-License-Identifier: Apache-2.0 */

/*
 * How hot files are found
 *
 *     frame of a new stack ─▶ uploads_see()      file 0x51e2: /usr/bin/shop, where processes map it
 *     window is closed     ─▶ uploads_window()   stack 17 has 40 samples, and frames in files 0x51e2, 0x77a0:
 *                                                both are 40 samples hotter
 *     hot enough           ─▶ allowed? ─▶ uploader_push()
 *
 * Files are told apart as the kernel does it (ObjectFile), since a build id and a path are chosen by others.
 * For a host's pattern the file is opened at its path in the daemon's own root, and must be the same one. So
 * a container that mounts a program of its own at /usr/bin/shop, and gives it the other's build id, uploads
 * nothing; who may write the host's files at an allowed path may.
 *
 * A file waits in the uploader at the expense of one process that has it, the first with room there of these:
 * who began last, then who began before. So no process that has ended, or has more than its share, keeps the
 * file of others out.
 */
#include "host/naming/uploads.h"

#include <errno.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/data/hashmap.h"
#include "core/base/data/shares.h"
#include "core/base/util/clock.h"
#include "core/base/util/error.h"
#include "core/base/util/stat.h"
#include "host/sampling/process/identity.h"
#include "host/sampling/process/object.h"

#define CONTAINER "container:"

enum {
        MAX_FILES = 4096,
        MIN_SAMPLES = 100,              /* samples that a file must be in */
};

typedef struct Hot {
        char *gnu, *path;
        ObjectFile file;
        NamePlaces places;
        uint64_t n_samples;
        bool is_done;                   /* the file was judged: nothing more is counted */
} Hot;

struct Uploads {
        UploadsConfig config;
        Uploader *uploader;
        Hashmap files;                  /* Object.file → Hot */
        Shares told_shares;             /* holds nothing: when the log had a word on files without room */
};

static void forget_all(Uploads *uploads) {
        HashmapEntry *entry;
        uint32_t at = 0;

        while ((entry = hashmap_next(&uploads->files, &at))) {
                Hot *hot = entry->value;

                free(hot->gnu);
                free(hot->path);
                free(hot);
        }
        hashmap_deinit(&uploads->files);
}

int uploads_new(Uploads **uploadsp, const UploadsConfig *config) {
        _cleanup_(uploads_freep) Uploads *uploads = calloc(1, sizeof(*uploads));
        int r;

        if (!uploads)
                return error_origin(-ENOMEM);
        uploads->config = *config;
        r = uploader_new(&uploads->uploader, &config->uploader);
        if (r)
                return r < 0 ? error_fold(r) : r;
        *uploadsp = take(uploads);
        return 0;
}

Uploads *uploads_free(Uploads *uploads) {
        if (!uploads)
                return NULL;
        if (uploads->uploader)
                uploader_collect(uploads->uploader);
        uploader_free(uploads->uploader);
        forget_all(uploads);
        free(uploads);
        return NULL;
}

/* ---- seen ---- */

static int add(Uploads *uploads, const Mapping *mapping, Hot **hotp) {
        Hot *hot = calloc(1, sizeof(*hot));
        int r;

        if (!hot)
                return error_origin(-ENOMEM);
        hot->gnu = strdup(mapping->object->build_id_gnu);
        hot->path = strdup(mapping->path);
        hot->file = object_file(mapping->object);
        r = hot->gnu && hot->path ? hashmap_put(&uploads->files, mapping->object->file, hot)
                                  : error_origin(-ENOMEM);
        if (r) {
                free(hot->gnu);
                free(hot->path);
                free(hot);
                return error_fold(r);
        }
        *hotp = hot;
        return 0;
}

int uploads_see(Uploads *uploads, const Process *process, const Mapping *mapping) {
        Hot *hot;
        int r = 0;

        if (!mapping->object || !mapping->object->file || !mapping->path)
                return 0;
        hot = hashmap_get(&uploads->files, mapping->object->file);
        if (!hot && uploads->files.n_entries >= MAX_FILES)
                forget_all(uploads);    /* settled files stay so: the uploader has them */
        if (!hot)
                r = add(uploads, mapping, &hot);
        if (r || hot->is_done)
                return r;
        name_places_add(&hot->places, &(NamePlace){ .pid = (pid_t)process->pid,
                                                    .start_time_ns = process->start_time_ns,
                                                    .start = mapping->start,
                                                    .end = mapping->end });
        return 0;
}

/* ---- judged ---- */

typedef enum Allowed { ALLOWED_NOT, ALLOWED_HERE, ALLOWED_CONTAINED } Allowed;

static bool is_here(const Hot *hot) {
        int fd = -1;
        bool is = !object_file_open_here(&hot->file, hot->path, &fd);

        closep(&fd);
        return is;
}

static Allowed judge(const Uploads *uploads, const Hot *hot) {
        const size_t prefix = strlen(CONTAINER);
        bool matches_here = false, matches_contained = false;

        for (size_t i = 0; i < uploads->config.n_patterns; i++) {
                const char *pattern = uploads->config.patterns[i];

                if (!strncmp(pattern, CONTAINER, prefix))
                        matches_contained |= !fnmatch(pattern + prefix, hot->path, 0);
                else
                        matches_here |= !fnmatch(pattern, hot->path, 0);
        }
        if (matches_here && is_here(hot))
                return ALLOWED_HERE;
        return matches_contained ? ALLOWED_CONTAINED : ALLOWED_NOT;
}

/* @wish at the expense of one of its processes. Return: as uploader_push(). */
static int push_wish(Uploads *uploads, UploadWish *wish) {
        int r = UPLOADER_E_FULL;

        for (uint32_t i = wish->places.n; i > 0 && r == UPLOADER_E_FULL; i--) {
                const NamePlace *place = &wish->places.items[i - 1];

                wish->owner = identity_owner_of(place->pid, place->start_time_ns);
                r = uploader_push(uploads->uploader, wish);
        }
        if (r == UPLOADER_E_FULL)
                shares_tell(&uploads->told_shares, "files whose symbols wait to be uploaded", &wish->owner,
                            clock_monotonic_ns());
        return r < 0 ? error_fold(r) : r;
}

static int push(Uploads *uploads, Hot *hot) {
        UploadWish wish = { .gnu = hot->gnu, .path = hot->path, .file = hot->file, .places = hot->places };
        Allowed allowed = judge(uploads, hot);
        int r;

        hot->is_done = true;
        if (allowed == ALLOWED_NOT) {
                stat_add(COUNTER_UPLOADS_NOT_ALLOWED, 1);
                return 0;
        }
        if (!*hot->gnu) {
                stat_add(COUNTER_UPLOADS_NO_ID, 1);
                return 0;
        }
        wish.is_contained = allowed == ALLOWED_CONTAINED;
        r = push_wish(uploads, &wish);
        if (r == UPLOADER_E_FULL)
                hot->is_done = false;   /* at the next window */
        return r < 0 ? error_fold(r) : 0;
}

/* ---- counted ---- */

/* Each stack's samples go to each module that it has frames in, once. */
static void count_stack(const Window *window, uint32_t stack, uint64_t n_samples, uint64_t *modules,
                        uint32_t *latest) {
        size_t n;
        const FrameWord *words = window_get_stack(window, stack, &n);

        for (size_t i = 0; i < n; i++) {
                uint32_t module = window_expand_frame(window, words[i]).module;

                if (latest[module] == stack)
                        continue;
                latest[module] = stack;
                modules[module] += n_samples;
        }
}

static void count_samples(const Window *window, uint64_t *stacks) {
        for (uint32_t i = 0; i < window_n_profiles(window); i++) {
                const WindowProfile *profile = window_get_profile(window, i);

                for (uint32_t k = 0; k < profile->n_samples; k++) {
                        WindowSample sample;

                        window_get_sample(window, i, k, &sample);
                        stacks[sample.stack] += sample.n_events;
                }
        }
}

static int heat(Uploads *uploads, const Window *window, const uint64_t *modules) {
        for (uint32_t i = 1; i < window_n_modules(window); i++) {
                const WindowModule *module = window_get_module(window, i);
                Hot *hot = module->file ? hashmap_get(&uploads->files, module->file) : NULL;
                int r;

                if (!hot || hot->is_done)
                        continue;
                hot->n_samples += modules[i];
                r = hot->n_samples >= MIN_SAMPLES ? push(uploads, hot) : 0;
                if (r)
                        return error_fold(r);
        }
        return 0;
}

int uploads_window(Uploads *uploads, const Window *window) {
        uint32_t n_stacks = window_n_stacks(window), n_modules = window_n_modules(window);
        _cleanup_(freep) uint64_t *stacks = calloc(n_stacks + 1u, sizeof(*stacks));
        _cleanup_(freep) uint64_t *modules = calloc(n_modules + 1u, sizeof(*modules));
        _cleanup_(freep) uint32_t *latest = calloc(n_modules + 1u, sizeof(*latest));
        int r;

        if (!stacks || !modules || !latest)
                return error_origin(-ENOMEM);
        count_samples(window, stacks);
        for (uint32_t i = 1; i < n_stacks; i++)
                if (stacks[i])
                        count_stack(window, i, stacks[i], modules, latest);
        r = heat(uploads, window, modules);
        uploader_collect(uploads->uploader);
        return r ? error_fold(r) : 0;
}

void uploads_collect(Uploads *uploads) {
        uploader_collect(uploads->uploader);
}

void uploads_state(const Uploads *uploads, UploaderState *state) {
        uploader_state(uploads->uploader, state);
}
