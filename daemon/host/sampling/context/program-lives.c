/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Keeps the longest life of the programs of one kind, less an eighth with each end, and decides by it
 * whether a search may wait or be left out.
 */

#include "host/sampling/context/program-lives.h"

#include "core/base/util/clock.h"
#include "core/base/util/macro.h"

/* a kind with a longer life is searched as the first of a kind */
#define SHORT_NS (10 * NS_PER_SEC)

enum {
        N_ENDED = 3,                    /* programs until a kind is known, */
        N_SILENT = 3,                   /* … and until its looks are */
        LOOKED_AT = 8,                  /* programs of which one is looked at all the same */
        OUTLIVES = 2,                   /* times the longest life */
        FORGETS = 8,                    /* each end takes an eighth off a longer life before it */
};

static ProgramKind *find(ProgramLives *lives, uint64_t kind) {
        for (int i = 0; i < PROGRAM_KINDS_MAX; i++)
                if (lives->kinds[i].kind == kind)
                        return &lives->kinds[i];
        return NULL;
}

static ProgramKind *get(ProgramLives *lives, uint64_t kind) {
        ProgramKind *found = find(lives, kind);

        if (!found) {
                found = &lives->kinds[0];
                for (int i = 1; i < PROGRAM_KINDS_MAX; i++)
                        if (lives->kinds[i].used < found->used)
                                found = &lives->kinds[i];
                *found = (ProgramKind){ .kind = kind };
        }
        found->used = ++lives->clock;
        return found;
}

void program_lives_note_end(ProgramLives *lives, uint64_t kind, uint64_t life_ns, bool was_looked_at) {
        ProgramKind *known = get(lives, kind);

        known->longest_ns = MAX(known->longest_ns - known->longest_ns / FORGETS, life_ns);
        known->n_ended += known->n_ended < N_ENDED;
        known->n_silent += was_looked_at && known->n_silent < N_SILENT;
}

void program_lives_note_publication(ProgramLives *lives, uint64_t kind) {
        get(lives, kind)->publishes = true;
}

static bool ends_soon(const ProgramKind *known) {
        return known->n_ended >= N_ENDED && !known->publishes && known->longest_ns <= SHORT_NS;
}

uint64_t program_lives_outlived_ns(ProgramLives *lives, uint64_t kind) {
        ProgramKind *known = find(lives, kind);

        if (!known)
                return 0;
        known->used = ++lives->clock;
        return ends_soon(known) ? OUTLIVES * known->longest_ns : 0;
}

bool program_lives_look_may_wait(ProgramLives *lives, uint64_t kind) {
        ProgramKind *known = find(lives, kind);

        if (!known || !ends_soon(known) || known->n_silent < N_SILENT)
                return false;
        return ++known->n_asked % LOOKED_AT;
}
