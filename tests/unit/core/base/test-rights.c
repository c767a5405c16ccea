/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/file/directory.h"
#include "core/base/sandbox/rights.h"
#include "core/base/sandbox/sweeper.h"
#include "work-directory.h"

enum { STRANGER = 4321 };

static void need_root(void) {
        if (geteuid() != 0)
                cr_skip_test("root: gives up what root has");
}

TestSuite(rights, .init = work_directory_make, .fini = work_directory_remove, .timeout = 60);

/* ---- who ---- */

Test(rights, of_no_name_is_the_first_user_of_two_that_is_there) {
        const struct passwd *own = getpwnam("spanprof"), *nobody = own ? own : getpwnam("nobody");
        RightsUser user;

        cr_assert_eq(rights_find_user("", &user), 0);
        cr_assert_eq(user.uid, nobody ? nobody->pw_uid : 65534);
        cr_assert_str_eq(user.name, own ? "spanprof" : "nobody");
}

Test(rights, a_name_or_a_number_chooses_and_another_word_does_not) {
        RightsUser user;

        cr_assert_eq(rights_find_user("root", &user), 0);
        cr_assert_eq(user.uid + user.gid, 0);
        cr_assert_eq(rights_find_user("0", &user), 0);
        cr_assert_str_eq(user.name, "root");
        cr_assert_eq(rights_find_user("4321", &user), 0);
        cr_assert(user.uid == 4321 && user.gid == 4321);
        cr_assert_eq(rights_find_user("no-such-user", &user), RIGHTS_E_UNKNOWN);
        cr_assert_eq(rights_find_user("-1", &user), RIGHTS_E_UNKNOWN);
        cr_assert_eq(rights_find_user("4294967295", &user), RIGHTS_E_UNKNOWN,
                     "which setresuid(2) takes for no change");
}

/* ---- what is left ---- */

static unsigned long long status_of(const char *key) {
        FILE *file = fopen("/proc/self/status", "re");
        unsigned long long value = ~0ull;
        char line[256];

        while (file && fgets(line, sizeof(line), file))
                if (!strncmp(line, key, strlen(key)))
                        value = strtoull(line + strlen(key), NULL, 16);
        fclose(file);
        return value;
}

/*
 * In a child, so that who tidies up is still root. Its status is the first line that does not hold, 0 = all
 * do.
 */
#define hold(_condition) \
        do { \
                if (!(_condition)) \
                        _exit(__LINE__ & 0xff); \
        } while (0)

static int in_child(void (*check)(void)) {
        pid_t pid = fork();
        int status;

        if (!pid) {
                check();
                _exit(0);
        }
        cr_assert_eq(waitpid(pid, &status, 0), pid);
        return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static void become_stranger(void) {
        const RightsUser user = { STRANGER, STRANGER, "stranger" }, root = { 0, 0, "root" };

        int signal = 0;

        hold(rights_can_change());
        hold(prctl(PR_SET_PDEATHSIG, SIGUSR1, 0, 0, 0) == 0);
        hold(rights_drop(&user, RIGHTS_OF(CAP_SYS_PTRACE)) == 0);
        hold(getuid() == STRANGER && geteuid() == STRANGER && getgid() == STRANGER);
        hold(getgroups(0, NULL) == 0);
        hold(prctl(PR_GET_PDEATHSIG, &signal, 0, 0, 0) == 0 && signal == SIGUSR1);
        hold(status_of("CapPrm:") == RIGHTS_OF(CAP_SYS_PTRACE));
        hold(status_of("CapEff:") == RIGHTS_OF(CAP_SYS_PTRACE));
        hold(status_of("CapInh:") + status_of("CapAmb:") + status_of("CapBnd:") == 0);
        hold(prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1);
        hold(setresuid(0, 0, 0) == -1);
        hold(!rights_can_change());
        hold(rights_drop(&root, UINT64_MAX) == -EPERM);
}

Test(rights, another_user_keeps_what_was_asked_for_and_nothing_to_come_back_with) {
        need_root();
        cr_assert_eq(in_child(become_stranger), 0);
}

static void ask_for_more(void) {
        hold(rights_drop(NULL, 0) == 0);
        hold(rights_drop(NULL, RIGHTS_OF_DAEMON) == 0);
        hold(geteuid() == 0);
        hold(status_of("CapPrm:") == 0);
}

Test(rights, what_was_not_held_is_not_had_by_asking) {
        need_root();
        cr_assert_eq(in_child(ask_for_more), 0);
}

/* ---- what is given away ---- */

static bool is_ours(const char *name, bool is_directory) {
        return !strncmp(name, is_directory ? "room-" : "our-", is_directory ? 5 : 4);
}

static int give(const char *name) {
        return directory_give(work_path(name), STRANGER, STRANGER, is_ours);
}

static uid_t owner(const char *name) {
        struct stat st;

        cr_assert_eq(lstat(work_path(name), &st), 0, "%s", name);
        return st.st_uid;
}

Test(rights, a_directory_is_made_and_given_and_one_with_our_files_too) {
        need_root();
        cr_assert_eq(give("new"), 0);
        cr_assert_eq(owner("new"), STRANGER);
        cr_assert_eq(shell("mkdir -m 700 old && touch old/our-1 old/our-2 && mkdir old/room-1 && touch old/room-1/x"), 0);
        cr_assert_eq(give("old"), 0);
        cr_assert(owner("old") == STRANGER && owner("old/our-1") == STRANGER &&
                  owner("old/our-2") == STRANGER);
        cr_assert(owner("old/room-1") == STRANGER && owner("old/room-1/x") == 0, "itself alone");
        cr_assert_eq(give("old"), 0, "again");
        cr_assert_eq(give("no/such/parent"), 0, "for who needs it to say");
}

Test(rights, nothing_that_may_be_somebody_elses_is_given) {
        static const char *const contents[] = { "touch passwd", "ln -s /etc/passwd our-1", "mkdir our-1",
                                                "touch our-1; ln our-1 ../second" };

        need_root();
        for (size_t i = 0; i < sizeof(contents) / sizeof(*contents); i++) {
                cr_assert_eq(shell("rm -rf x second; mkdir -m 700 x; cd x; touch our-0; %s", contents[i]), 0);
                cr_assert_eq(give("x"), DIRECTORY_E_FOREIGN, "%s", contents[i]);
                cr_assert(owner("x") == 0 && owner("x/our-0") == 0);
        }
        cr_assert_eq(shell("mkdir -m 777 y; chmod 777 y; ln -s y link; mkdir -m 700 z; chown 1:1 z"), 0);
        cr_assert_eq(give("y") | give("link") | give("z"), 0);
        cr_assert(owner("y") == 0 && owner("link") == 0 && owner("z") == 1,
                  "others may write there, a link, not root's");
}

/* ---- what is removed ---- */

static int make_socket(const char *name) {
        struct sockaddr_un address = { .sun_family = AF_UNIX };
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

        snprintf(address.sun_path, sizeof(address.sun_path), "%s", work_path(name));
        cr_assert_eq(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
        return fd;
}

/* As a daemon does that has no rights in the directory any more: in a child, whose exit status tells. */
static int write_as_a_stranger(Outfile *file, Sweeper *sweeper) {
        pid_t pid = fork();
        int status;

        if (pid == 0) {
                if (setresgid(STRANGER, STRANGER, STRANGER) || setresuid(STRANGER, STRANGER, STRANGER))
                        _exit(1);
                if (!faccessat(file->directory, ".", W_OK, AT_EACCESS) || outfile_write(file, "new", 3))
                        _exit(2);
                _exit(sweeper_finish_file(sweeper) ? 3 : 0);
        }
        waitpid(pid, &status, 0);
        return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

Test(rights, a_file_gets_its_name_when_it_is_written) {
        const OutfileOptions options = { .mode = 0600 };
        _cleanup_(outfile_deinit) Outfile file = OUTFILE_NONE;
        const char *none[] = { NULL };
        Sweeper *sweeper;

        need_root();
        cr_assert_eq(shell("mkdir -m 700 d; printf old > d/file; chmod 644 d/file; chown 1:1 d/file"), 0);
        setenv("SUDO_UID", "1", 1);
        setenv("SUDO_GID", "1", 1);
        cr_assert_eq(outfile_open(&file, work_path("d/file"), &options), 0);
        cr_assert_eq(sweeper_new(&sweeper, none, &file), 0);
        cr_assert_eq(shell("test \"$(cat d/file)\" = old"), 0, "untouched until then");
        cr_assert_eq(write_as_a_stranger(&file, sweeper), 0);
        cr_assert_eq(shell("test \"$(cat d/file)\" = new && test \"$(ls d)\" = file"), 0);
        cr_expect_eq(owner("d/file"), 1, "as what it replaces");
        sweeper_free(sweeper);
}

Test(rights, sockets_are_swept_that_are_still_the_same) {
        const char *paths[] = { work_path("a"), work_path("b"), work_path("c"), NULL };
        int fds[] = { make_socket("a"), make_socket("b"), -1 };
        Sweeper *sweeper;

        need_root();
        cr_assert_eq(shell("touch c"), 0);
        cr_assert_eq(sweeper_new(&sweeper, paths, NULL), 0);
        cr_assert_eq(shell("ln b kept; rm b"), 0);
        fds[2] = make_socket("b");
        sweeper_free(sweeper);
        cr_assert_neq(access(paths[0], F_OK), 0, "ours");
        cr_assert_eq(access(paths[1], F_OK), 0, "another one at its place");
        cr_assert_eq(access(paths[2], F_OK), 0, "no socket");
        for (size_t i = 0; i < 3; i++)
                close(fds[i]);
}
