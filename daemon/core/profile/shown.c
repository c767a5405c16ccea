/* SPDX-License-Identifier: Apache-2.0 */

/* Order of types: one word of each alone decides, and their events where none has it. */

#include "core/profile/shown.h"

#include <string.h>

#include "core/base/util/macro.h"

static bool is_in_use(const ShownType *type) {
        return !strcmp(type->type, "inuse_space");
}

int shown_compare(const ShownType *a, const ShownType *b) {
        if (a->is_cpu != b->is_cpu)
                return a->is_cpu ? 1 : -1;
        if (is_in_use(a) != is_in_use(b))
                return is_in_use(a) ? 1 : -1;
        return (a->n_events > b->n_events) - (a->n_events < b->n_events);
}

static ShownType type_of(const Window *window, const WindowProfile *profile) {
        return (ShownType){ .is_cpu = profile_is_cpu(profile->type),
                            .type = window_get_string(window, profile->names.type, NULL),
                            .n_events = profile->n_events };
}

const WindowProfile *shown_find(const Window *window) {
        const WindowProfile *best = NULL;
        ShownType shown;

        for (uint32_t i = 0; i < window_n_profiles(window); i++) {
                const WindowProfile *profile = window_get_profile(window, i);
                ShownType type = type_of(window, profile);

                if (best && shown_compare(&type, &shown) <= 0)
                        continue;
                best = profile;
                shown = type;
        }
        return best;
}

bool shown_is_uneven(int64_t shortest, int64_t longest) {
        return shortest > 0 && (double)longest > (double)shortest * WINDOW_PERIODS_ALIKE;
}

bool shown_find_uneven(const Window *window, int64_t *shortestp, int64_t *longestp) {
        *shortestp = INT64_MAX;
        *longestp = 0;
        for (uint32_t i = 0; i < window_n_profiles(window); i++) {
                const WindowProfile *profile = window_get_profile(window, i);

                if (!profile_is_cpu(profile->type) || profile->period <= 0 || !profile->n_samples)
                        continue;
                *shortestp = MIN(*shortestp, profile->period);
                *longestp = MAX(*longestp, profile->period);
        }
        return shown_is_uneven(*shortestp, *longestp);
}
