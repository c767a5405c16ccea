/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Doctor
 *
 * Looks at everything that sampling and shipping need, one check after the other, and says of each what is
 * there, what is lost without it, and how to mend it. Nothing is changed; the kernel half is loaded and
 * attached for real, for a moment, and samples no process.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "core/base/sandbox/rights.h"
#include "core/base/util/text.h"
#include "host/service/config/config.h"
#include "host/service/doctor/doctor-cure.h"
#include "host/service/run/kernel-files.h"

typedef enum Verdict {
        DOCTOR_OK,
        DOCTOR_WARN,                    /* something works less well */
        DOCTOR_FAIL,                    /* `run` would not work */
} Verdict;

typedef struct Finding {
        char name[32];                  /* name of the check */
        Verdict verdict;
        bool of_daemon;                 /* the daemon that runs has seen it, in its sandbox; else we have */
        char text[512];                 /* words on what was found, and what is lost */
        char fix[DOCTOR_CURE_MAX];      /* line to paste into a shell, "" = nothing */
} Finding;

enum {
        DOCTOR_MAX_FINDINGS = 64,
        DOCTOR_MAX_LINE = 512,          /* bytes of a line of the status */
};

/* Rights of a process, and what it can read of the machine. */
typedef struct DoctorView {
        uint32_t pid;                   /* daemon that has this view; 0 = it is our own */
        uint64_t capabilities;          /* effective */
        bool has_namespace;
        uint32_t pid_namespace;         /* inode of its namespace, 0 = the machine's */
        KernelFiles files;
} DoctorView;

typedef struct Doctor {
        const Config *config;
        DoctorPlace place;
        DoctorView view;                /* by doctor_look(); the checks below judge it */
        bool of_daemon;                 /* findings that are added now */
        Finding findings[DOCTOR_MAX_FINDINGS];
        size_t n_findings;
} Doctor;

/* A finding; over the cap the last one is replaced. @fix may be NULL. */
_printf_(5, 6) void doctor_add(Doctor *doctor, const char *name, Verdict verdict, const char *fix,
                               const char *format, ...);

/*
 * Pure. Copies what the status of a daemon says behind @word, which a line begins with. Return: whether one
 * does.
 */
bool doctor_find_line(const char *status, const char *word, char line[static DOCTOR_MAX_LINE]);

/*
 * Asks the daemon that runs what it may and can read. Where none answers, or an older one, it is what we may:
 * a daemon that starts in a sandbox may have less.
 */
void doctor_look(Doctor *doctor);

/* The checks, by what they look at. */
void doctor_check_kernel(Doctor *doctor);
void doctor_check_needs(Doctor *doctor);
void doctor_check_rights(Doctor *doctor);
void doctor_check_limits(Doctor *doctor);
void doctor_check_recorder(Doctor *doctor);
void doctor_check_watch(Doctor *doctor);
void doctor_check_place(Doctor *doctor);
void doctor_check_shipping(Doctor *doctor);

/*
 * Judgements of texts and facts, for tests: @set of effective capabilities, @config of the kernel's
 * configuration, @lockdown of securityfs, @state of adjtimex(2).
 */
void doctor_judge_capabilities(Doctor *doctor, uint64_t set);
void doctor_judge_nameless(Doctor *doctor, const char *line);
void doctor_judge_files(Doctor *doctor, const KernelFiles *files);
void doctor_judge_config(Doctor *doctor, const char *config);
void doctor_judge_lockdown(Doctor *doctor, const char *lockdown);
void doctor_judge_time(Doctor *doctor, time_t seconds, int state);
void doctor_judge_offset(Doctor *doctor, const char *offsets);  /* NULL = of this process */
/* @room: bytes for it. @rate: ticks a second that are allowed, 0 = not known. @status: of the daemon. */
void doctor_judge_recorder(Doctor *doctor, size_t room, int64_t rate, const char *status);
/* @status: of the daemon. */
void doctor_judge_boosts(Doctor *doctor, const char *status);
/* @becomes: the user that root's daemon will be; NULL = there is no such user. */
void doctor_judge_user(Doctor *doctor, uint32_t uid, const RightsUser *becomes, bool can_change);
/* @what, @fix: words for it. @end: when it ends, @now: seconds since 1970. */
void doctor_judge_certificate(Doctor *doctor, const char *name, const char *what, const char *fix, time_t end,
                              time_t now);
/* @opens: an event was opened with the rights that `run` keeps. @has_admin: `run` can start an opener. */
void doctor_judge_paranoid(Doctor *doctor, int64_t paranoid, bool has_perfmon, bool opens, bool has_admin);

/* `ok    name   text`, with the fix below. Return: how many failed. */
size_t doctor_print(const Doctor *doctor, Text *text);
void doctor_print_json(const Doctor *doctor, Text *text);
