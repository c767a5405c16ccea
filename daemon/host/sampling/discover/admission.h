/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Admission
 *
 * What becomes of a sample and of the process that it was taken in: a table from facts to outcomes. Pure: its
 * caller finds the facts out and does what the outcome says.
 */

#include <stdbool.h>
#include <stddef.h>

/* Facts about a sample and its process. Fields are bools alone: a row is compared field by field. */
typedef struct AdmissionFacts {
        bool is_known;                  /* a target ran the sampled program at the time of the sample */
        bool is_targets_only;           /* the kernel half samples targets alone, and this was one */
        bool is_before_target;          /* the process became a target by an exec after the sample */
        bool is_unread;                 /* the process was not looked at: facts below are not known */
        bool is_replaced;               /* the process has begun another program since the sample */
        bool is_gone;                   /* the process has exited */
        bool is_kernel;                 /* the process is a kernel thread */
        bool is_chosen;                 /* a selector chooses the sampled program */
        bool is_silent;                 /* only publishing would choose it, and it publishes nothing */
        bool is_refused;                /* the set of targets, or the kernel's table, had no room for it */
        bool has_rejected_name;         /* no process of its name, and user, can be chosen */
} AdmissionFacts;

typedef enum AdmissionOutcome {
        ADMISSION_TAKE,                 /* the sample belongs to its target */
        ADMISSION_IDENTIFY,             /* the process is looked at, and the facts are judged again */
        ADMISSION_ADD_LIVING,           /* the process becomes a target with a row; judged again */
        ADMISSION_ADD_ENDED,            /* the program becomes an ended target; judged again */
        ADMISSION_AWAIT_PUBLICATION,    /* the process is rejected for a while, and searched meanwhile */
        ADMISSION_REJECT_SAMPLE,        /* the sample alone is rejected: it says nothing of later ones */
        ADMISSION_REJECT_PROCESS,       /* the process is rejected for a while */
        ADMISSION_REJECT_NAME,          /* all processes of this name, and user, are rejected */
        ADMISSION_N_OUTCOMES,
} AdmissionOutcome;

/* A row applies where all facts that it requires are true; fields that are false are not looked at. */
typedef struct AdmissionRow {
        AdmissionFacts required;
        AdmissionOutcome outcome;
} AdmissionRow;

enum { ADMISSION_N_ROWS = 15 };

extern const AdmissionRow admission_rows[ADMISSION_N_ROWS];

/* The first row of admission_rows that applies; the last one requires nothing. */
const AdmissionRow *admission_find(const AdmissionFacts *facts);
