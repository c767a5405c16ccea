/* SPDX-License-Identifier: Apache-2.0 */
#include "coro/engine/engine.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "base/util/clock.h"
#include "base/util/error.h"
#include "base/util/log.h"
#include "coro/engine/engine-directory.h"
#include "coro/engine/socket-holder.h"

enum {
        MAX_CONNECTIONS = 1024,
        SIGNALS = 0, CHILD = 1, CONTROL = 2, FIRST = 3,         /* places in fds */
        MANY_STATIONS = 2097152,        /* from here on, targets that count bytes in an int fail */
};

#define LOOK_NS NS_PER_MS               /* between looks at signals and the child while there is no waiting */
/* between wake-ups that a program is asked for while it loses events: each costs it a system call */
#define ALARM_NS (100 * NS_PER_US)

typedef struct Engine {
        const CoroOptions *options;
        char *directory, *region_path, *socket_path;
        int lock;                       /* of the directory; the keeper has it, too */
        Region *region;
        RegionScan scan;
        Recording recording;
        SocketHolder holder;
        pid_t child;
        int child_status;
        bool child_ended;
        struct pollfd fds[FIRST + MAX_CONNECTIONS];
        nfds_t n_fds;
        sigset_t old_mask;              /* for the child */
        uint64_t look_ns, alarm_ns;     /* alarm_ns: 0 = none is set */
} Engine;

static int fail(const char *what, const char *path) {
        log_error("%s %s: %s", what, path, strerror(errno));
        return CORO_E_FAILED;
}

/* Memory that is a file: /dev/shm is never written to a disk. */
static int make_paths(Engine *engine) {
        const CoroOptions *options = engine->options;
        const char *base = access("/dev/shm", W_OK | X_OK) ? "/tmp" : "/dev/shm";

        if (!options->region_path || !options->socket_path) {
                int r;

                engine_directory_remove_old(base);
                r = engine_directory_make(base, &engine->directory, &engine->lock);
                if (r)
                        return r < 0 ? r : fail("cannot make a directory in", base);
        }
        engine->region_path = options->region_path ? strdup(options->region_path) : NULL;
        engine->socket_path = options->socket_path ? strdup(options->socket_path) : NULL;
        if ((!engine->region_path &&
             asprintf(&engine->region_path, "%s/region.shm", engine->directory) < 0) ||
            (!engine->socket_path && asprintf(&engine->socket_path, "%s/wake.sock", engine->directory) < 0) ||
            !engine->region_path || !engine->socket_path)
                return error_origin(-ENOMEM);
        return 0;
}

static int make_region(Engine *engine) {
        uint32_t n = engine->options->n_stations;
        int r = region_create(&engine->region, engine->region_path, n, 0600);

        if (r == REGION_E_EXISTS) {
                log_error("%s: there is a file that is no region of stations; it is left alone",
                          engine->region_path);
                return CORO_E_FAILED;
        }
        if (r > 0)
                return fail("cannot make the region", engine->region_path);
        if (!r && n >= MANY_STATIONS)
                log_warning(
                        "%" PRIu32
                        " stations: C++ targets that count bytes in an int cannot map so many (at most %d)",
                        n, MANY_STATIONS - 1);
        if (!r)
                r = region_scan_init(&engine->scan, engine->region, engine->options->dialect, false);
        return r;
}

static int make_socket_holder(Engine *engine) {
        int r = socket_holder_start(&engine->holder, engine->socket_path, engine->region_path, engine->region,
                                    0600);

        if (r == SOCKET_HOLDER_E_EXISTS) {
                log_error("%s: there is a file that is no socket; it is left alone", engine->socket_path);
                return CORO_E_FAILED;
        }
        if (r)
                return fail("cannot listen at", engine->socket_path);
        engine->fds[CONTROL] = (struct pollfd){ .fd = engine->holder.control, .events = POLLIN };
        return 0;
}

/* They stay blocked to the end: one that comes while the last events are written must not end us. */
static int make_signals(Engine *engine) {
        static const int passed[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2 };
        sigset_t set;

        sigemptyset(&set);
        for (size_t i = 0; i < ARRAY_SIZE(passed); i++)
                sigaddset(&set, passed[i]);
        sigprocmask(SIG_BLOCK, &set, &engine->old_mask);
        engine->fds[SIGNALS] = (struct pollfd){ .fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK),
                                                .events = POLLIN };
        return engine->fds[SIGNALS].fd < 0 ? error_origin(-errno) : 0;
}

/* In the child. What we have changed for ourselves must not be seen by the command. */
static void execute(Engine *engine, char **argv, int report) {
        char number[16];
        int error;

        signal(SIGPIPE, SIG_DFL);
        sigprocmask(SIG_SETMASK, &engine->old_mask, NULL);
        snprintf(number, sizeof(number), "%" PRIu32, engine->options->n_stations);
        if (!setenv(SPANPROF_STATION_ENV_REGION, engine->region_path, 1) &&
            !setenv(SPANPROF_STATION_ENV_SOCKET, engine->socket_path, 1) &&
            !setenv(SPANPROF_STATION_ENV_MAX, number, 1))
                execvp(argv[0], argv);
        error = errno;
        (void)!write(report, &error, sizeof(error));
        _exit(127);
}

static int start_child(Engine *engine, char **argv) {
        int report[2], error = 0;

        if (pipe2(report, O_CLOEXEC))
                return error_origin(-errno);
        engine->child = fork();
        if (engine->child == 0)
                execute(engine, argv, report[1]);
        close(report[1]);
        if (engine->child < 0 || read(report[0], &error, sizeof(error)) == (ssize_t)sizeof(error)) {
                errno = error ? error : errno;
                close(report[0]);
                if (error)
                        engine->child_status = error == ENOENT ? 127 : 126;
                return fail("cannot start", argv[0]);
        }
        close(report[0]);
        engine->fds[CHILD] = (struct pollfd){ .fd = pidfd_open(engine->child, 0), .events = POLLIN };
        if (engine->fds[CHILD].fd < 0)
                return error_origin(-errno);
        socket_holder_watch(&engine->holder, engine->fds[CHILD].fd);
        return 0;
}

/* Who has connected will soon publish stations. */
static void greet(Engine *engine, int fd) {
        struct ucred peer;
        socklen_t size = sizeof(peer);

        if (engine->recording.names && !getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) && peer.pid > 0)
                address_names_add_process(engine->recording.names, peer.pid);
}

static void add_connections(Engine *engine) {
        int fd;

        while ((fd = socket_holder_accept(&engine->holder)) >= 0)
                if (engine->n_fds < ARRAY_SIZE(engine->fds)) {
                        engine->fds[engine->n_fds++] = (struct pollfd){ .fd = fd, .events = POLLIN };
                        greet(engine, fd);
                } else {
                        close(fd);              /* the keeper has it still; its target wakes nobody */
                }
        if (engine->fds[CONTROL].revents & POLLHUP)
                engine->fds[CONTROL].fd = -1;   /* the keeper was killed */
}

static void pass_signal(Engine *engine) {
        struct signalfd_siginfo info;

        while (read(engine->fds[SIGNALS].fd, &info, sizeof(info)) == sizeof(info)) {
                int number = (int)info.ssi_signo;

                if (info.ssi_code == SI_KERNEL)
                        continue;               /* from the terminal: the command has got it, too */
                if (number == SIGINT && engine->options->term_on_interrupt)
                        number = SIGTERM;
                if (!engine->child_ended)
                        kill(engine->child, number);
        }
}

static void reap(Engine *engine) {
        int status;

        if (engine->child_ended || waitpid(engine->child, &status, WNOHANG) != engine->child)
                return;
        engine->child_ended = true;
        engine->child_status = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

/* A wake-up is one byte; what it says is known by then. */
static void read_connections(Engine *engine) {
        char bytes[256];

        for (nfds_t i = engine->n_fds; i-- > FIRST;) {
                ssize_t n;

                if (!engine->fds[i].revents)
                        continue;
                n = read(engine->fds[i].fd, bytes, sizeof(bytes));
                if (n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR)))
                        continue;
                close(engine->fds[i].fd);
                engine->fds[i] = engine->fds[--engine->n_fds];
        }
}

static void look_around(Engine *engine, uint64_t wait_ns) {
        struct timespec wait = { .tv_sec = (time_t)(wait_ns / NS_PER_SEC),
                                 .tv_nsec = (long)(wait_ns % NS_PER_SEC) };

        if (ppoll(engine->fds, engine->n_fds, &wait, NULL) <= 0)
                return;
        read_connections(engine);
        if (engine->fds[CONTROL].revents)
                add_connections(engine);
        if (engine->fds[SIGNALS].revents)
                pass_signal(engine);
        if (engine->fds[CHILD].revents)
                reap(engine);
}

static void set_sleeping(Engine *engine, uint32_t sleeping) {
        __atomic_store_n(&engine->region->header->tracer_sleeping, sleeping, __ATOMIC_SEQ_CST);
}

/* Asks to be woken, looks once more (an event may have come before the question), and waits. */
static void sleep_until_woken(Engine *engine) {
        set_sleeping(engine, 1);
        if (!recording_scan(&engine->recording, &engine->scan, 1))
                look_around(engine, engine->recording.pace.deadline_ns);
        set_sleeping(engine, 0);
}

/*
 * While events are lost we do not sleep, and ask to be woken all the same: the first event of the next burst
 * then comes with a system call, in the time of which a scan finds the station before its ring is full.
 */
static void set_alarm(Engine *engine, bool found, uint64_t now_ns) {
        bool hungry = engine->recording.pace.hungry;

        if (hungry && !found && now_ns - engine->alarm_ns >= ALARM_NS) {
                engine->alarm_ns = now_ns;
                set_sleeping(engine, 1);
        } else if (!hungry && engine->alarm_ns) {
                engine->alarm_ns = 0;
                set_sleeping(engine, 0);
        }
}

static void stop_in_time(Engine *engine, uint64_t now_ns) {
        uint64_t duration_ns = engine->options->duration_ns;

        if (duration_ns && now_ns - engine->recording.begin_ns >= duration_ns && !engine->child_ended)
                kill(engine->child, SIGTERM);
}

static void loop(Engine *engine) {
        pace_take_short_turns();
        while (!engine->child_ended) {
                bool found = false;
                uint64_t now_ns;

                if (!engine->recording.pace.idle)          /* else it is done while waiting */
                        found = recording_scan(&engine->recording, &engine->scan, 1);
                now_ns = clock_monotonic_ns();
                set_alarm(engine, found, now_ns);
                recording_progress(&engine->recording, &engine->scan, 1, now_ns);
                stop_in_time(engine, now_ns);
                if (engine->recording.pace.idle) {
                        sleep_until_woken(engine);
                } else if (engine->recording.pace.wait_ns || now_ns - engine->look_ns >= LOOK_NS) {
                        look_around(engine, engine->recording.pace.wait_ns);
                        engine->look_ns = now_ns;
                }
        }
}

static void remove_files(Engine *engine) {
        if (engine->region)
                unlink(engine->region_path);
        if (engine->holder.control >= 0)
                unlink(engine->socket_path);
        if (engine->directory)
                rmdir(engine->directory);
        if (engine->region)
                set_sleeping(engine, 0);
}

static void deinit(Engine *engine) {
        remove_files(engine);
        socket_holder_release(&engine->holder);
        for (nfds_t i = 0; i < engine->n_fds; i++)
                if (i != CONTROL && engine->fds[i].fd >= 0)
                        close(engine->fds[i].fd);
        if (recording_deinit(&engine->recording)) {
                region_scan_deinit(&engine->scan);
                region_free(engine->region);
        }
        closep(&engine->lock);
        free(engine->directory);
        free(engine->region_path);
        free(engine->socket_path);
}

static int start(Engine *engine, char **argv) {
        int r = make_paths(engine);

        if (!r)
                r = make_region(engine);
        if (!r)
                r = make_signals(engine);
        if (!r)
                r = make_socket_holder(engine);
        if (!r)
                r = recording_open(&engine->recording, engine->options);
        if (!r)
                r = start_child(engine, argv);
        if (!r)
                recording_watch(&engine->recording, &engine->scan, 1);
        return r;
}

int coro_run(const CoroOptions *options, char **argv, CoroSummary *summary, int *statusp) {
        static Engine engine;
        int r;

        engine = (Engine){ .options = options,
                           .lock = -1,
                           .holder = SOCKET_HOLDER_NONE,
                           .n_fds = FIRST,
                           .child_status = 125 };
        for (int i = 0; i < FIRST; i++)
                engine.fds[i].fd = -1;
        *summary = (CoroSummary){ 0 };
        prctl(PR_SET_TIMERSLACK, 1000UL);
        r = start(&engine, argv);
        if (!r) {
                loop(&engine);
                /* the region outlives the command: what it wrote last is still there */
                r = recording_finish(&engine.recording, &engine.scan, 1, summary);
        }
        *statusp = engine.child_status;
        deinit(&engine);
        return r;
}
