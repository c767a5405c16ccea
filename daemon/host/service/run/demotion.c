/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Gives files to the later user, keeps what only root could open, and then drops the rights for good.
 */

#include "host/service/run/demotion.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "core/base/file/directory.h"
#include "core/base/file/outfile.h"
#include "core/base/util/error.h"
#include "core/base/util/log.h"
#include "core/symbol/debug/debuginfod.h"
#include "core/symbol/object/remote-files.h"
#include "host/delivery/spool/spool.h"
#include "host/service/control/control.h"
#include "host/service/control/summary.h"

int demotion_choose(const Config *config, RightsUser *user, bool *staysp) {
        if (rights_find_user(config->daemon.run_as, user)) {
                log_error("run-as: there is no user `%s`: make it, or give a number", config->daemon.run_as);
                return DEMOTION_E_UNUSABLE;
        }
        *staysp = user->uid == 0;
        if (!*staysp && !rights_can_change()) {
                log_notice(
                        "stays user 0: CAP_SETUID, CAP_SETGID or CAP_CHOWN is missing to become `%s`; all other capabilities that are "
                        "not needed are given up",
                        user->name);
                *staysp = true;
        }
        return 0;
}

/* In a user namespace that does not map this user, no process can become it, and no file can belong to it. */
static int give(Demotion *demotion, const char *spool) {
        int r = *spool && !demotion->stays ? spool_give(spool, demotion->user.uid, demotion->user.gid) : 0;

        if (r == DIRECTORY_E_FOREIGN) {
                log_error(
                        "%s: holds what is none of a spool's, so it is not given to user `%s`: choose another directory, or run-as = root",
                        spool, demotion->user.name);
                return DEMOTION_E_UNUSABLE;
        }
        if (r) {
                log_notice("stays user 0: %s cannot be given to user `%s` (%s)", spool, demotion->user.name,
                           strerror(-r));
                demotion->stays = true;
        }
        return 0;
}

static int give_spools(Demotion *demotion, const Config *config) {
        int r = give(demotion, config->spool.directory);

        for (size_t i = 0; !r && i < config->n_exports; i++)
                r = give(demotion, config->exports[i].config->spool.directory);
        return r;
}

/* Gives the cache away. If that fails, its user says so once it needs it. */
static int give_cache(const Demotion *demotion, const Config *config) {
        _cleanup_(freep) char *path = NULL;
        int r;

        if (!config->names.debuginfod || demotion->stays)
                return 0;
        r = debuginfod_give(demotion->user.uid, demotion->user.gid, &path);
        if (r == DIRECTORY_E_FOREIGN)
                log_error("%s: holds what is none of a cache of debug files, so it is not given to user `%s`: empty it",
                          path, demotion->user.name);
        return r == DIRECTORY_E_FOREIGN ? DEMOTION_E_UNUSABLE : r == -ENOMEM ? error_fold(r) : 0;
}

static int keep(Demotion *demotion, const Config *config) {
        const char *paths[CONTROL_N_PATHS + 1];
        int r = *config->daemon.summary ? summary_keep(config->daemon.summary) : 0;

        if (r) {
                log_error("cannot write the summary %s: %s", config->daemon.summary, outfile_problem(r));
                return DEMOTION_E_UNUSABLE;
        }
        r = control_keep(config, paths);
        if (r)
                return r > 0 ? DEMOTION_E_UNUSABLE : error_fold(r);
        if (!*paths && !summary_kept())
                return 0;
        r = sweeper_new(&demotion->sweeper, paths, summary_kept());
        summary_finish_by(demotion->sweeper);
        return error_fold(r);
}

/* The files that libcurl opens at each connection. The exporter logs a file that is not there. */
static int check_file(const Demotion *demotion, const char *path) {
        if (!*path || !faccessat(AT_FDCWD, path, R_OK, AT_EACCESS) || errno != EACCES)
                return 0;
        log_error(
                "%s: user `%s` may not read it, and CAP_DAC_READ_SEARCH is missing: let that user read it, or run-as = root",
                path, demotion->user.name);
        return DEMOTION_E_UNUSABLE;
}

/* A client of a socket must be able to write to it. @url: of a receiver; only unix: is looked at. */
static int check_socket(const Demotion *demotion, const char *url) {
        _cleanup_(freep) char *path = NULL;

        if (strncmp(url, "unix:", 5))
                return 0;
        path = strndup(url + 5, strcspn(url + 5, ":"));
        if (!path)
                return error_origin(-ENOMEM);
        if (!faccessat(AT_FDCWD, path, W_OK, AT_EACCESS) || errno != EACCES)
                return 0;
        log_error("%s: user `%s` may not connect to this socket: let that user write to it, or run-as = root",
                  path, demotion->user.name);
        return DEMOTION_E_UNUSABLE;
}

static int check_files(const Demotion *demotion, const Config *config) {
        int r = check_file(demotion, config->delivery.certificate);

        if (!r)
                r = check_socket(demotion, config->delivery.profiles_url ?: "");
        if (!r)
                r = check_file(demotion, config->delivery.client_certificate);
        if (!r)
                r = check_file(demotion, config->delivery.client_key);
        for (size_t i = 0; !r && i < config->n_exports; i++)
                r = check_files(demotion, config->exports[i].config);
        return r;
}

int demotion_drop(const RightsUser *user, bool stays, uint64_t capabilities) {
        int r = rights_drop(stays ? NULL : user, capabilities);

        if (r && !stays) {
                log_notice("stays user 0: cannot become `%s` (%s)", user->name, strerror(-r));
                stays = true;
                r = rights_drop(NULL, capabilities);
        }
        if (r)
                return error_origin(r);
        log_debug("runs as user %u with no capabilities but those that it needs", (unsigned)geteuid());
        return 0;
}

/* The opener of events has it. */
static int give_admin_up(void) {
        int r = rights_hold(CAP_SYS_ADMIN) ? rights_drop(NULL, ~RIGHTS_OF(CAP_SYS_ADMIN)) : 0;

        return r ? error_origin(r) : 0;
}

int demotion_enter(Demotion *demotion, const Config *config) {
        int r;

        *demotion = (Demotion){ 0 };
        r = remote_files_start();
        if (r)
                log_notice("programs on FUSE are not read: there is no process for that (%s)", strerror(-r));
        if (geteuid() != 0)
                return give_admin_up();
        r = demotion_choose(config, &demotion->user, &demotion->stays);
        if (!r)
                r = give_spools(demotion, config);
        if (!r)
                r = give_cache(demotion, config);
        if (!r)
                r = keep(demotion, config);
        if (!r)
                r = demotion_drop(&demotion->user, demotion->stays, RIGHTS_OF_DAEMON);
        return r ? r : check_files(demotion, config);
}

void demotion_end(Demotion *demotion) {
        summary_finish_by(NULL);
        demotion->sweeper = sweeper_free(demotion->sweeper);
}
