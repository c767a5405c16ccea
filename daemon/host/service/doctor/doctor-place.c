/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Checks what `run` needs of its place: a spool that it can make, ports that are free, a map of OBI's that has
 * spans, targets to profile.
 * Nothing is made or changed; a port is opened and closed.
 */

#include <errno.h>
#include <inttypes.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "core/base/sandbox/rights.h"
#include "core/base/util/macro.h"
#include "core/http/listen.h"
#include "host/sampling/discover/survey.h"
#include "host/sampling/discover/tracing-hint.h"
#include "host/sampling/sample/obi-map.h"
#include "host/service/config/option-check.h"
#include "host/service/config/config-selector.h"
#include "host/service/doctor/doctor.h"
#include "host/service/control/control.h"

/* ---- the spool ---- */

/* Finds the user of the spool: root becomes the user of run-as. Return: whether it is not our own user. */
static bool user_of(const Config *config, RightsUser *user) {
        return geteuid() == 0 && !rights_find_user(config->daemon.run_as, user) && user->uid != 0;
}

#define READ_ONLY "findmnt --options rw   # set `spool` to a directory on one of these (ReadWritePaths= of the unit)"

/*
 * Judges whether `run` can make the spool. Root gives it away; the service cannot, and mkdir() makes one
 * level.
 */
static void check_new_spool(Doctor *doctor, const char *path) {
        char copy[PATH_MAX], fix[256];
        const char *parent;
        struct stat st;

        snprintf(copy, sizeof(copy), "%s", path);
        parent = dirname(copy);
        snprintf(fix, sizeof(fix), "sudo install -d -m 700 -o spanprof -g spanprof %s", path);
        if (stat(parent, &st))
                doctor_add(doctor, "spool", DOCTOR_FAIL, fix, "%s: %s: %s", path, parent, strerror(errno));
        else if (access(parent, W_OK | X_OK))
                doctor_add(doctor, "spool", DOCTOR_FAIL,
                           errno == EROFS ? READ_ONLY : fix,
                           "%s cannot be made: %s: %s", path, parent, strerror(errno));
        else
                doctor_add(doctor, "spool", DOCTOR_OK, NULL, "%s is not there yet, and can be made", path);
}

static void check_old_spool(Doctor *doctor, const char *path, const struct stat *st) {
        char fix[256];
        struct statvfs space;
        RightsUser user = { 0 };
        uint64_t free_bytes;

        snprintf(fix, sizeof(fix), "sudo chown -R spanprof:spanprof %s && sudo chmod 700 %s", path, path);
        if (!S_ISDIR(st->st_mode) || access(path, R_OK | W_OK | X_OK))
                doctor_add(doctor, "spool", DOCTOR_FAIL,
                           errno == EROFS ? READ_ONLY : fix,
                           "%s is no directory that we may write", path);
        else if (st->st_mode & 022)
                doctor_add(doctor, "spool", DOCTOR_FAIL, fix, "others may write to %s (mode %03o)", path,
                           st->st_mode & 0777);
        else if (!config_spool_is_chosen(doctor->config) && user_of(doctor->config, &user) &&
                 st->st_uid != user.uid)
                doctor_add(doctor, "spool", DOCTOR_FAIL, fix,
                           "%s belongs to user %u, and the service runs as %s: it keeps what it cannot send in memory "
                           "alone", path, st->st_uid, user.name);
        else if (!statvfs(path, &space) &&
                 (free_bytes = (uint64_t)space.f_bavail * space.f_frsize) < doctor->config->spool.max_bytes) {
                snprintf(fix, sizeof(fix), "df -h %s   # make room, or lower spool-max-bytes", path);
                doctor_add(doctor, "spool", DOCTOR_WARN, fix,
                           "%s: %llu MiB free, %llu may be used", path, (unsigned long long)free_bytes >> 20,
                           (unsigned long long)doctor->config->spool.max_bytes >> 20);
        } else
                doctor_add(doctor, "spool", DOCTOR_OK, NULL, "%s", path);
}

static void check_spool(Doctor *doctor) {
        const char *path = doctor->config->spool.directory;
        struct stat st;

        if (!*path)
                doctor_add(doctor, "spool", DOCTOR_OK, NULL,
                           "none is set here; the service has /var/lib/spanprof/spool");
        else if (!stat(path, &st))
                check_old_spool(doctor, path, &st);
        else if (errno == EACCES && !config_spool_is_chosen(doctor->config))
                doctor_add(doctor, "spool", DOCTOR_WARN, "sudo spanprof doctor",
                           "%s is the service's: only root may look there", path);
        else if (errno == ENOENT || errno == ENOTDIR)
                check_new_spool(doctor, path);
        else
                doctor_add(doctor, "spool", DOCTOR_FAIL, "sudo spanprof doctor   # which may look there",
                           "%s: %s", path, strerror(errno));
}

/* ---- the port of metrics ---- */

static bool runs_already(const Config *config) {
        const char *path = config_control(config);
        _cleanup_(text_deinit) Text answer = { 0 };
        int status;

        return !control_ask(path, "GET", "/healthz", &status, &answer);
}

static void check_metrics(Doctor *doctor) {
        const char *where = doctor->config->daemon.metrics;
        _cleanup_(closep) int fd = -1;
        char host[256], fix[256];
        uint16_t port;

        if (!*where || *where == '/' || option_split_address(where, host, sizeof(host), &port))
                return;
        if (runs_already(doctor->config)) {
                doctor_add(doctor, "metrics", DOCTOR_OK, NULL, "%s is for the daemon that runs", where);
                return;
        }
        snprintf(fix, sizeof(fix), "sudo ss -ltnp 'sport = :%u'   # who has it; or set `metrics` to another port", port);
        switch (listen_open(host, port, &fd)) {
        case 0:
                doctor_add(doctor, "metrics", DOCTOR_OK, NULL, "%s is free", where);
                return;
        case LISTEN_E_TAKEN:
                doctor_add(doctor, "metrics", DOCTOR_WARN, fix,
                           "%s is taken by another process: `run` would go without, and try again", where);
                return;
        default:
                doctor_add(doctor, "metrics", DOCTOR_FAIL, "ip -brief address   # set `metrics` to one of them",
                           "cannot listen on %s", where);
        }
}

/* ---- targets to profile ---- */

typedef struct Count {
        size_t n_chosen, n_all;
        size_t n_mute;                  /* processes that have a tracing library, and publish no spans */
        uint32_t mute_pid;              /* the first of these, and what would switch it on */
        const TracingHint *hint;
        size_t n_remote;                /* chosen processes with code of files that are not read … */
        const char *remote_why;
        uint32_t remote_pid;            /* … the first of these, and the type of its filesystem */
        char remote[MOUNTS_TYPE_SIZE];
} Count;

static void count_mute(Count *count, const SurveyEntry *entry) {
        const Publication *publication = entry->publication;
        const TracingHint *hint;

        /* A process context alone says who it is, and brings no spans. */
        if (entry->process->is_kernel || entry->hidden || publication->ring_address ||
            publication->thread.form)
                return;
        hint = tracing_hint_read((pid_t)entry->process->pid);
        if (hint && !count->n_mute++) {
                count->mute_pid = entry->process->pid;
                count->hint = hint;
        }
}

static int count_entry(void *userdata, const SurveyEntry *entry) {
        Count *count = userdata;

        count->n_all += !entry->process->is_kernel;
        count->n_chosen += selector_is_chosen(entry->reason);
        if (*entry->process->remote && !count->n_remote++) {
                count->remote_pid = entry->process->pid;
                memcpy(count->remote, entry->process->remote, sizeof(count->remote));
                count->remote_why = process_why_unread(entry->process);
        }
        count_mute(count, entry);
        return 0;
}

/* A filter that kills for a call would kill us at the first process. */
static bool is_filtered(const Doctor *doctor) {
        for (size_t i = 0; i < doctor->n_findings; i++)
                if (!strcmp(doctor->findings[i].name, "seccomp"))
                        return doctor->findings[i].verdict == DOCTOR_FAIL;
        return false;
}

/* The line is set where the process is started, which is no shell of ours. */
static void add_mute(Doctor *doctor, const Count *count) {
        char fix[DOCTOR_CURE_MAX];

        snprintf(fix, sizeof(fix), "sudo spanprof targets --verbose   # all %zu; what to set for this one: %s",
                 count->n_mute, count->hint->line);
        doctor_add(doctor, "tracing", DOCTOR_WARN, fix, "process %" PRIu32 " runs %s and publishes no spans",
                   count->mute_pid, count->hint->library);
}

static void add_remote(Doctor *doctor, const Count *count) {
        doctor_add(doctor, "filesystems", DOCTOR_WARN,
                   "findmnt -t fuse,nfs,nfs4,cifs,9p   # a program that is copied to a local filesystem is read",
                   "%zu process%s of code of files on %s, the first is %" PRIu32 ": these are not read, %s",
                   count->n_remote, count->n_remote == 1 ? "" : "es", count->remote, count->remote_pid,
                   count->remote_why);
}

static void check_targets(Doctor *doctor) {
        ConfigSelector selection;
        Count count = { 0 };
        int r = config_selector_init(&selection, &doctor->config->targets);

        if (!r)
                r = survey_processes(&selection.selector, 0, count_entry, &count);
        if (r)
                doctor_add(doctor, "targets", DOCTOR_WARN, "sudo spanprof targets", "cannot be listed: %s", strerror(-r));
        else if (count.n_chosen)
                doctor_add(doctor, "targets", DOCTOR_OK, NULL, "%zu of %zu processes would be profiled",
                           count.n_chosen, count.n_all);
        else if (selector_takes_publishers(&selection.selector))
                doctor_add(doctor, "targets", DOCTOR_WARN, "spanprof targets --verbose",
                           "none of %zu processes publishes a trace context, and no selector chooses others",
                           count.n_all);
        else
                doctor_add(doctor, "targets", DOCTOR_WARN, "spanprof targets --verbose",
                           "the selectors fit none of %zu processes that run now", count.n_all);
        if (count.n_remote)
                add_remote(doctor, &count);
        if (count.n_mute)
                add_mute(doctor, &count);
        config_selector_deinit(&selection);
}

/* Where nothing is at the path there is no OBI, and nothing to say. */
static void check_obi(Doctor *doctor) {
        const char *path = doctor->config->sampling.obi_map;
        char reason[128];
        ObiMapState state = *path ? obi_map_look(path, reason, sizeof(reason)) : OBI_MAP_ABSENT;

        if (state == OBI_MAP_CLOSED || state == OBI_MAP_FOREIGN)
                doctor_add(doctor, "obi", DOCTOR_WARN,
                           "spanprof config show   # set obi-map to the path of OBI's map, or to nothing",
                           "%s %s", path, reason);
        else if (state == OBI_MAP_EMPTY)
                doctor_add(doctor, "obi", DOCTOR_WARN,
                           "kubectl set env daemonset/obi OTEL_EBPF_BPF_POPULATE_TRACE_CONTEXT=true   # or in OBI's environment elsewhere",
                           "%s is empty: no request is under way, or OBI does not fill it, as since 0.14 unless asked", path);
        else if (state == OBI_MAP_FILLED)
                doctor_add(doctor, "obi", DOCTOR_OK, NULL, "%s has spans: those of processes that publish none", path);
}

void doctor_check_place(Doctor *doctor) {
        check_spool(doctor);
        check_metrics(doctor);
        check_obi(doctor);
        if (!is_filtered(doctor))
                check_targets(doctor);
}
