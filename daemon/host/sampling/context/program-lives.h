/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Program Lives
 *
 * How long programs of one kind have lived, and whether any of them published something. A kind is a number
 * that the caller makes: the same file, in the same control group.
 */

#include <stdbool.h>
#include <stdint.h>

/*
 * Over it the kind that was used least recently goes. No counter says so: its next program is searched as the
 * first of its kind.
 */
enum { PROGRAM_KINDS_MAX = 128 };

typedef struct ProgramKind {
        uint64_t kind;                  /* 0 = a free place */
        uint64_t longest_ns;            /* longest life of an ended program; an old one counts ever less */
        uint64_t used;
        uint32_t n_ended;
        uint32_t n_silent;              /* programs that ended after a look had found nothing */
        uint32_t n_asked;               /* questions whether the next one is looked at */
        bool publishes;
} ProgramKind;

typedef struct ProgramLives {
        ProgramKind kinds[PROGRAM_KINDS_MAX];
        uint64_t clock;                 /* counts uses */
} ProgramLives;

/* A program has ended, or was lost sight of, after @life_ns. @was_looked_at: and that has found nothing. */
void program_lives_note_end(ProgramLives *lives, uint64_t kind, uint64_t life_ns, bool was_looked_at);

/* Something that one of them publishes was found: from then on no program of @kind is called short. */
void program_lives_note_publication(ProgramLives *lives, uint64_t kind);

/*
 * The age at which a program of @kind is none of those that end soon and publish nothing. 0 = it is not known
 * that they do.
 */
uint64_t program_lives_outlived_ns(ProgramLives *lives, uint64_t kind);

/*
 * Whether the first look at the next program of a short @kind may wait until it is that old, since looks at
 * such programs have found nothing. One in eight is looked at all the same: a kind may begin to publish.
 */
bool program_lives_look_may_wait(ProgramLives *lives, uint64_t kind);
