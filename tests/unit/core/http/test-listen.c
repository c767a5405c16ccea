/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/http/listen.h"

enum { N_OTHER_PROFILERS = 4, N_ROUNDS = 100 };

static char directory[] = "/tmp/spanprof-listen-XXXXXX", path[64];

static void enter(void) {
        cr_assert(mkdtemp(directory));
        snprintf(path, sizeof(path), "%s/socket", directory);
}

static void leave(void) {
        unlink(path);
        rmdir(directory);
}

TestSuite(listen, .init = enter, .fini = leave, .timeout = 120);

static int try_connect(void) {
        struct sockaddr_un address = { .sun_family = AF_UNIX };
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

        strcpy(address.sun_path, path);
        if (connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0) {
                close(fd);
                return -errno;
        }
        return fd;
}

static pid_t who_listens(void) {
        struct ucred peer = { 0 };
        socklen_t size = sizeof(peer);
        int fd = try_connect();

        cr_assert(fd >= 0, "%s", strerror(-fd));
        cr_assert(!getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size));
        close(fd);
        return peer.pid;
}

/* What a daemon that was killed leaves: a name that nobody answers at. */
static void leave_behind(void) {
        int fd;

        cr_assert(!listen_open_path(path, 0600, &fd));
        close(fd);
        cr_assert_eq(try_connect(), -ECONNREFUSED);
}

Test(listen, replaces_a_socket_that_was_left_behind) {
        struct stat st;
        int fd;

        leave_behind();
        cr_assert(!listen_open_path(path, 0640, &fd));
        cr_assert_eq(who_listens(), getpid());
        cr_assert(!stat(path, &st));
        cr_assert_eq(st.st_mode & 0777, 0640);
        close(fd);
}

Test(listen, leaves_a_file_alone) {
        int fd = open(path, O_WRONLY | O_CREAT, 0600), listener = -1;

        close(fd);
        cr_assert_eq(listen_open_path(path, 0600, &listener), LISTEN_E_PATH);
        cr_assert_eq(errno, EEXIST);
        cr_assert_eq(listener, -1);
        cr_assert(!access(path, F_OK));
}

/* A child says how it went, and keeps what it has until it is killed. */
static pid_t start_rival(const int go[2], int answers) {
        pid_t pid = fork();

        if (!pid) {
                int fd, error = 0;
                char byte;

                close(go[1]);
                if (read(go[0], &byte, 1) < 0)          /* the end of the pipe is the start */
                        _exit(1);
                if (listen_open_path(path, 0600, &fd))
                        error = errno;
                if (write(answers, &(int[]){ getpid(), error }, 2 * sizeof(int)) < 0)
                        _exit(1);
                for (;;)
                        pause();
        }
        cr_assert(pid > 0);
        return pid;
}

static void race(void) {
        int go[2], answers[2], winner = 0;
        pid_t pids[N_OTHER_PROFILERS];

        leave_behind();
        cr_assert(!pipe(go) && !pipe(answers));
        for (int i = 0; i < N_OTHER_PROFILERS; i++)
                pids[i] = start_rival(go, answers[1]);
        close(go[0]);
        close(go[1]);
        for (int i = 0; i < N_OTHER_PROFILERS; i++) {
                int answer[2];

                cr_assert_eq(read(answers[0], answer, sizeof(answer)), sizeof(answer));
                cr_expect(answer[1] == 0 || answer[1] == EADDRINUSE, "%s", strerror(answer[1]));
                cr_expect(answer[1] || !winner, "two have it");
                winner = answer[1] ? winner : answer[0];
        }
        cr_expect_eq(who_listens(), winner);
        for (int i = 0; i < N_OTHER_PROFILERS; i++) {
                kill(pids[i], SIGKILL);
                waitpid(pids[i], NULL, 0);
        }
        close(answers[0]);
        close(answers[1]);
        unlink(path);
}

Test(listen, one_of_several_wins_over_a_socket_that_was_left_behind) {
        for (int i = 0; i < N_ROUNDS; i++)
                race();
}

Test(listen, does_without_a_lock_that_a_stranger_keeps) {
        int lock = open(directory, O_RDONLY | O_DIRECTORY), fd;

        cr_assert(!flock(lock, LOCK_EX));
        cr_assert(!listen_open_path(path, 0600, &fd));
        cr_assert_eq(who_listens(), getpid());
        close(fd);
        close(lock);
}

Test(listen, what_is_kept_is_given_out_each_time_and_outlives_who_got_it) {
        int fds[2], client;

        cr_assert_eq(listen_keep_path(path, 0600), 0);
        for (int i = 0; i < 2; i++) {
                cr_assert_eq(listen_open_path(path, 0600, &fds[i]), 0);
                client = try_connect();
                cr_assert_geq(client, 0);
                close(client);
                close(fds[i]);
        }
        cr_assert_eq(listen_open_path("/no/such/directory/socket", 0600, &fds[0]), LISTEN_E_PATH,
                     "another path is not it");
        cr_assert_eq(unlink(path), 0);
        cr_assert_eq(listen_open_path(path, 0600, &fds[0]), 0, "open, wherever its name went");
        close(fds[0]);
}

Test(listen, tells_what_is_kept) {
        bool is_path = false;
        uint16_t port = 1;

        cr_assert_null(listen_kept(0, &is_path, &port));
        cr_assert_eq(listen_keep_path(path, 0600), 0);
        cr_assert_eq(listen_keep("127.0.0.1", 0), 0);
        cr_assert_str_eq(listen_kept(0, &is_path, &port), path);
        cr_assert(is_path);
        cr_assert_str_eq(listen_kept(1, &is_path, &port), "127.0.0.1");
        cr_assert_not(is_path);
        cr_assert_eq(port, 0);
        cr_assert_null(listen_kept(2, &is_path, &port));
}

Test(listen, a_kept_port_is_the_same_one_and_there_is_room_for_few) {
        char urls[2][64];
        int fd, n = 0;

        cr_assert_eq(listen_keep("127.0.0.1", 0), 0);
        for (int i = 0; i < 2; i++) {
                cr_assert_eq(listen_open("127.0.0.1", 0, &fd), 0);
                listen_url(fd, urls[i], sizeof(urls[i]));
                close(fd);
        }
        cr_assert_str_eq(urls[0], urls[1]);
        while (n < 100 && !listen_keep("127.0.0.1", 0))
                n++;
        cr_assert_lt(n, 100);
        cr_assert_eq(listen_keep_path(path, 0600), LISTEN_E_FULL);
}
