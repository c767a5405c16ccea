/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Of two windows, matches frames that one side alone has by their plain names, as the report's comparison
 * does (report/diff.c): groups by plain name and file, and each group that both sides have becomes one frame,
 * marked with ≈, in all steps of the paths.
 *
 *     before   main ▸ sort<Order*>        after   main ▸ sort<Item*>        →   main ▸ ≈ sort
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/util/error.h"
#include "desk/page/build.h"
#include "core/symbol/function/plain-name.h"

enum { BOTH = 3 };                      /* bits of the two sides */

typedef struct Group {
        uint8_t sides;                  /* bits */
        uint32_t frame;                 /* frame that stands for its frames; 0 = not made yet */
} Group;

typedef struct Plain {
        PageModel *model;
        uint32_t n_frames;              /* frames before any were added here: rows of the next two */
        uint8_t *sides;                 /* frame → sides that have it, as bits */
        uint32_t *group_of;             /* frame → its group + 1; 0 = it keeps its name */
        Intern keys;                    /* plain name, NUL, name of the file → group */
        Group *groups;                  /* as many as frames, at most */
} Plain;

static void note_sides(Plain *plain, uint32_t side) {
        const PageSide *of = &plain->model->sides[side];

        for (uint32_t i = 0; i < window_n_stacks(of->window); i++)
                for (uint32_t j = 0; j < of->paths[i].n_steps; j++)
                        plain->sides[of->paths[i].steps[j].frame] |= (uint8_t)(1 << side);
}

static const PageFrame *frame_at(const Plain *plain, uint32_t frame) {
        return intern_get(&plain->model->frames, frame)->data;
}

/* Return: 0, -ENOMEM. */
static int group_frame(Plain *plain, uint32_t frame) {
        const PageFrame *made = frame_at(plain, frame);
        _cleanup_(text_deinit) Text key = { 0 };
        uint32_t group;
        int r;

        plain_name_append(&key, page_get_string(plain->model, made->name));
        text_append(&key, "", 1);
        text_printf(&key, "%s", page_get_string(plain->model, made->object));
        r = key.failed ? error_origin(-ENOMEM) : intern_add(&plain->keys, key.data, key.size, &group);
        if (r < 0)
                return r;
        plain->groups[group].sides |= plain->sides[frame];
        plain->group_of[frame] = group + 1;
        return 0;
}

/* Frame 0 stands for stacks without any. */
static int group_frames(Plain *plain) {
        int r = 0;

        for (uint32_t i = 1; i < plain->n_frames && !r; i++)
                if (plain->sides[i] && plain->sides[i] != BOTH)
                        r = group_frame(plain, i);
        return r;
}

/* The frame of a group: as the first of its frames, but for the name. Return: 0, INTERN_E_FULL, -ENOMEM. */
static int make_frame(Plain *plain, uint32_t group, uint32_t like) {
        PageFrame made = *frame_at(plain, like);
        Text name = { 0 };
        int r;

        text_printf(&name, "≈ %s", (const char *)intern_get(&plain->keys, group)->data);
        r = name.failed ? error_origin(-ENOMEM) : page_string(plain->model, name.data, name.size, &made.name);
        text_deinit(&name);
        return r ? r : page_intern(&plain->model->frames, &made, sizeof(made), &plain->groups[group].frame);
}

static int make_frames(Plain *plain) {
        int r = 0;

        for (uint32_t i = 1; i < plain->n_frames && !r; i++) {
                uint32_t group = plain->group_of[i];

                if (group && plain->groups[group - 1].sides == BOTH && !plain->groups[group - 1].frame)
                        r = make_frame(plain, group - 1, i);
        }
        return r == INTERN_E_FULL ? 0 : r;
}

static void replace_steps(Plain *plain, PageSide *side) {
        for (uint32_t i = 0; i < window_n_stacks(side->window); i++) {
                PageStep *steps = (PageStep *)side->paths[i].steps;     /* in the model's arena */

                for (uint32_t j = 0; j < side->paths[i].n_steps; j++) {
                        uint32_t group = plain->group_of[steps[j].frame];

                        if (group && plain->groups[group - 1].frame)
                                steps[j].frame = plain->groups[group - 1].frame;
                }
        }
}

static int match(Plain *plain) {
        int r;

        note_sides(plain, 0);
        note_sides(plain, 1);
        r = group_frames(plain);
        if (!r)
                r = make_frames(plain);
        for (uint32_t side = 0; side < 2 && !r; side++)
                replace_steps(plain, &plain->model->sides[side]);
        return r;
}

int page_plain_match(PageModel *model) {
        Plain plain = { .model = model, .n_frames = model->frames.n_items };
        int r;

        if (model->n_sides < 2)
                return 0;
        intern_init(&plain.keys, UINT32_MAX / 4);
        plain.sides = calloc(plain.n_frames, sizeof(*plain.sides));
        plain.group_of = calloc(plain.n_frames, sizeof(*plain.group_of));
        plain.groups = calloc(plain.n_frames, sizeof(*plain.groups));
        r = plain.sides && plain.group_of && plain.groups ? match(&plain) : error_origin(-ENOMEM);
        intern_deinit(&plain.keys);
        free(plain.sides);
        free(plain.group_of);
        free(plain.groups);
        return r;
}
