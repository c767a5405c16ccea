/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A thread scans the region of a command, again and again:
 *
 *      scan interval   what the loop does between two scans
 *      hungry          nothing; after three scans without event it sets tracer_sleeping, scans once more,
 *                      and sleeps until a wake-up, up to 50 ms. Events were lost within the last 50 ms
 *      busy            waits up to 1 ms, in ppoll() with signals, the child and the wake-up connections
 *      idle            the same as hungry, at once, until a wake-up or the deadline
 *
 * A program that sees tracer_sleeping = 1 sets it to 0 and writes one byte to its connection. The scan after
 * the store closes the gap: an event is either found by it, or its writer sees the flag. The flag is 1 only
 * while the engine sleeps, and 0 before it reads the byte: a program that leaves it to the engine, as the
 * protocol allows, would else make a system call for each event.
 *
 * Loss is counted, not avoided at all cost: a station keeps eight events, and each event says how many of its
 * station were lost before it. A hungry engine that scanned all the time would read a burst at once, if it
 * had its CPU then. Where others want that CPU it has none for whole slices, after so much use. Who sleeps is
 * run as soon as a byte comes.
 *
 * The order of the end: the command ends, the last scan reads all that is left (the region outlives the
 * command), the trace is closed, files are removed. A killed engine leaves the region and the socket to its
 * socket holder (socket-holder.c), and the directory to the next engine (engine-directory.c).
 */

#include "desk/coro/engine/engine.h"

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

#include "core/base/util/clock.h"
#include "core/base/util/error.h"
#include "core/base/util/log.h"
#include "core/base/util/short-turns.h"
#include "core/base/util/stop-signals.h"
#include "desk/coro/engine/engine-directory.h"
#include "desk/coro/engine/socket-holder.h"

enum {
        MAX_CONNECTIONS = SOCKET_HOLDER_MAX,
        SIGNALS = 0, CHILD = 1, LISTENER = 2, FIRST = 3,         /* indexes of fds */
        EMPTY_SCANS = 3,                /* in a row, until a hungry engine sleeps */
        MANY_STATIONS = 2097152,        /* targets that count bytes in an int cannot map so many */
};

/* longest time between looks at signals and the child while the loop does not wait */
#define LOOK_NS NS_PER_MS

typedef struct Files {
        char *directory;                /* NULL = both paths were given */
        char *region_path, *socket_path;
        int lock;                       /* lock of the directory; the socket holder inherits it */
} Files;

typedef struct Child {
        pid_t pid;
        int status;
        bool ended;
        sigset_t old_mask;              /* signals that were blocked before the engine started */
} Child;

typedef struct Engine {
        const CoroOptions *options;
        Files files;
        Region *region;
        RegionScan scan;
        Recording recording;
        SocketHolder holder;
        Child child;
        StopSignals signals;
        struct pollfd fds[FIRST + MAX_CONNECTIONS];
        nfds_t n_fds;
        uint64_t look_ns;               /* the last look at signals and the child */
        unsigned n_empty;               /* scans in a row without an event */
} Engine;

static int fail(const char *what, const char *path) {
        log_error("%s %s: %s", what, path, strerror(errno));
        return CORO_E_FAILED;
}

/* The region is best in /dev/shm, which is memory and never written to a disk. */
static int make_own_directory(Files *files) {
        const char *base = access("/dev/shm", W_OK | X_OK) ? "/tmp" : "/dev/shm";
        int r;

        engine_directory_remove_old(base);
        r = engine_directory_make(base, &files->directory, &files->lock);
        if (r)
                return r < 0 ? r : fail("cannot make a directory in", base);
        return asprintf(&files->region_path, "%s/region.shm", files->directory) < 0 ||
                        asprintf(&files->socket_path, "%s/wake.sock", files->directory) < 0
                ? error_origin(-ENOMEM)
                : 0;
}

static int make_paths(Engine *engine) {
        const CoroOptions *options = engine->options;
        Files *files = &engine->files;

        if (!options->region_path)
                return make_own_directory(files);
        if (asprintf(&files->socket_path, "%s%s", options->socket_path ?: options->region_path,
                     options->socket_path ? "" : ".sock") < 0)
                return error_origin(-ENOMEM);
        files->region_path = strdup(options->region_path);
        return files->region_path ? 0 : error_origin(-ENOMEM);
}

static int make_region(Engine *engine) {
        uint32_t n = engine->options->n_stations;
        int r = region_create(&engine->region, engine->files.region_path, n, 0600);

        if (r == REGION_E_EXISTS) {
                log_error("%s: there is a file that is no region of stations; it is left alone",
                          engine->files.region_path);
                return CORO_E_FAILED;
        }
        if (r > 0)
                return fail("cannot make the region", engine->files.region_path);
        if (!r && n >= MANY_STATIONS)
                log_warning(
                        "%" PRIu32
                        " stations: C++ targets that count bytes in an int cannot map so many (at most %d)",
                        n, MANY_STATIONS - 1);
        if (!r)
                r = region_scan_init(&engine->scan, engine->region, STATION_DIALECT_UNKNOWN, false);
        return r;
}

static int make_socket_holder(Engine *engine) {
        int r = socket_holder_start(&engine->holder, engine->files.socket_path, engine->files.region_path,
                                    engine->region, 0600);

        if (r == SOCKET_HOLDER_E_EXISTS) {
                log_error("%s: there is a file that is no socket; it is left alone",
                          engine->files.socket_path);
                return CORO_E_FAILED;
        }
        if (r)
                return fail("cannot listen at", engine->files.socket_path);
        engine->fds[LISTENER] = (struct pollfd){ .fd = engine->holder.listener, .events = POLLIN };
        return 0;
}

/*
 * Signals stay blocked to the end: one that comes while the last events are written must not end the engine.
 */
static int make_signals(Engine *engine) {
        static const int passed[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2 };
        sigset_t set;

        sigemptyset(&set);
        for (size_t i = 0; i < ARRAY_SIZE(passed); i++)
                sigaddset(&set, passed[i]);
        sigprocmask(SIG_BLOCK, &set, &engine->child.old_mask);
        engine->fds[SIGNALS] = (struct pollfd){ .fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK),
                                                .events = POLLIN };
        return engine->fds[SIGNALS].fd < 0 ? error_origin(-errno) : 0;
}

/* Runs in the child. The command must not inherit signal settings of the engine. */
static void execute(Engine *engine, char **argv, int report) {
        char number[16];
        int error;

        signal(SIGPIPE, SIG_DFL);
        sigprocmask(SIG_SETMASK, &engine->child.old_mask, NULL);
        snprintf(number, sizeof(number), "%" PRIu32, engine->options->n_stations);
        if (!setenv(SPANPROF_STATION_ENV_REGION, engine->files.region_path, 1) &&
            !setenv(SPANPROF_STATION_ENV_SOCKET, engine->files.socket_path, 1) &&
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
        engine->child.pid = fork();
        if (engine->child.pid == 0)
                execute(engine, argv, report[1]);
        close(report[1]);
        if (engine->child.pid < 0 || read(report[0], &error, sizeof(error)) == (ssize_t)sizeof(error)) {
                errno = error ? error : errno;
                close(report[0]);
                if (error)
                        engine->child.status = error == ENOENT ? 127 : 126;
                return fail("cannot start", argv[0]);
        }
        close(report[0]);
        engine->fds[CHILD] = (struct pollfd){ .fd = pidfd_open(engine->child.pid, 0), .events = POLLIN };
        if (engine->fds[CHILD].fd < 0)
                return error_origin(-errno);
        socket_holder_watch(&engine->holder, engine->fds[CHILD].fd);
        return 0;
}

/* A process that has connected will soon publish stations: its code is looked at. */
static void greet(Engine *engine, int fd) {
        struct ucred peer;
        socklen_t size = sizeof(peer);

        if (engine->recording.names && !getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) && peer.pid > 0)
                address_names_add_process(engine->recording.names, peer.pid);
}

/* Accepts connections while there is room; later ones wait and cannot wake the engine. */
static void add_connections(Engine *engine) {
        int fd;

        while (engine->n_fds < ARRAY_SIZE(engine->fds) &&
               (fd = socket_holder_accept(&engine->holder)) >= 0) {
                engine->fds[engine->n_fds++] = (struct pollfd){ .fd = fd, .events = POLLIN };
                greet(engine, fd);
        }
        engine->fds[LISTENER].events =
                engine->n_fds < ARRAY_SIZE(engine->fds) && engine->holder.unheld < 0 ? POLLIN : 0;
}

/* Stop signals that repeat within a second are duplicates, for the command too; other signals always pass. */
static bool is_duplicate(Engine *engine, const struct signalfd_siginfo *info) {
        int number = (int)info->ssi_signo;
        sigset_t set;

        stop_signals_fill(&set);
        return sigismember(&set, number) == 1 &&
                stop_signals_take(&engine->signals, number, info->ssi_code, clock_monotonic_ns()) ==
                STOP_WISH_DUPLICATE;
}

static void pass_signal(Engine *engine) {
        struct signalfd_siginfo info;

        while (read(engine->fds[SIGNALS].fd, &info, sizeof(info)) == sizeof(info)) {
                int number = (int)info.ssi_signo;

                if (is_duplicate(engine, &info) || info.ssi_code == SI_KERNEL)
                        continue;               /* the second is sent by the terminal, also to the command */
                if (number == SIGINT && engine->options->term_on_interrupt)
                        number = SIGTERM;
                if (!engine->child.ended)
                        kill(engine->child.pid, number);
        }
}

static void reap(Engine *engine) {
        int status;

        if (engine->child.ended || waitpid(engine->child.pid, &status, WNOHANG) != engine->child.pid)
                return;
        engine->child.ended = true;
        engine->child.status = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

/* A wake-up is one byte, whose value says nothing. */
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

/*
 * The flag goes first: until then a program that leaves it to us writes a byte for each event. Return:
 * whether there was something, which may be a byte of the program.
 */
static bool look_around(Engine *engine, uint64_t wait_ns) {
        struct timespec wait = { .tv_sec = (time_t)(wait_ns / NS_PER_SEC),
                                 .tv_nsec = (long)(wait_ns % NS_PER_SEC) };
        int n = ppoll(engine->fds, engine->n_fds, &wait, NULL);

        region_set_sleeping(engine->region->header, 0);
        engine->look_ns = clock_monotonic_ns();
        if (n > 0)
                read_connections(engine);
        if (engine->fds[LISTENER].revents || !engine->fds[LISTENER].events)
                add_connections(engine);
        if (n <= 0)
                return false;
        if (engine->fds[SIGNALS].revents)
                pass_signal(engine);
        if (engine->fds[CHILD].revents)
                reap(engine);
        return true;
}

static bool scan(Engine *engine) {
        return recording_scan(&engine->recording, &engine->scan, 1);
}

/*
 * Asks to be woken, scans once more (an event may have come before the flag was set), and waits. Return:
 * whether there was an event.
 */
static bool sleep_until_woken(Engine *engine) {
        region_set_sleeping(engine->region->header, 1);
        if (!scan(engine))
                return look_around(engine, recording_deadline_ns(&engine->recording)) && scan(engine);
        region_set_sleeping(engine->region->header, 0);
        return true;
}

static void stop_in_time(Engine *engine, uint64_t now_ns) {
        uint64_t duration_ns = engine->options->duration_ns;

        if (duration_ns && now_ns - engine->recording.begin_ns >= duration_ns && !engine->child.ended)
                kill(engine->child.pid, SIGTERM);
}

/* Whether it is time to sleep until the program wakes us. */
static bool is_tired(const Engine *engine) {
        const ScanInterval *interval = &engine->recording.interval;

        if (recording_is_behind(&engine->recording))
                return false;
        return interval->idle || (interval->hungry && engine->n_empty >= EMPTY_SCANS);
}

static void loop(Engine *engine) {
        const ScanInterval *interval = &engine->recording.interval;

        short_turns_take();
        while (!engine->child.ended) {
                bool slept = is_tired(engine);
                bool found = slept ? sleep_until_woken(engine) : scan(engine);
                uint64_t now_ns = clock_monotonic_ns();
                bool is_behind = recording_is_behind(&engine->recording);
                uint64_t wait_ns = is_behind ? 0 : interval->wait_ns;

                engine->n_empty = found || slept ? 0 : engine->n_empty + 1;
                recording_progress(&engine->recording, &engine->scan, 1, now_ns);
                stop_in_time(engine, now_ns);
                if ((interval->idle && !is_behind) || (!wait_ns && now_ns - engine->look_ns < LOOK_NS))
                        continue;
                look_around(engine, wait_ns);
        }
}

static void remove_files(Engine *engine) {
        if (engine->region)
                unlink(engine->files.region_path);
        if (engine->holder.listener >= 0)
                unlink(engine->files.socket_path);
        if (engine->files.directory)
                rmdir(engine->files.directory);
        if (engine->region)
                region_set_sleeping(engine->region->header, 0);
}

static void deinit(Engine *engine) {
        remove_files(engine);
        socket_holder_release(&engine->holder);
        for (nfds_t i = 0; i < engine->n_fds; i++)
                if (i != LISTENER && engine->fds[i].fd >= 0)
                        close(engine->fds[i].fd);
        if (recording_deinit(&engine->recording)) {
                region_scan_deinit(&engine->scan);
                region_free(engine->region);
        }
        closep(&engine->files.lock);
        free(engine->files.directory);
        free(engine->files.region_path);
        free(engine->files.socket_path);
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
                r = recording_open(&engine->recording, engine->options, &engine->scan, 1);
        engine->recording.is_woken = true;
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
                           .files.lock = -1,
                           .holder = SOCKET_HOLDER_NONE,
                           .n_fds = FIRST,
                           .child.status = 125 };
        for (int i = 0; i < FIRST; i++)
                engine.fds[i].fd = -1;
        *summary = (CoroSummary){ 0 };
        r = start(&engine, argv);
        if (!r) {
                /* not before: the command would inherit it, and sleep for less than it does alone */
                prctl(PR_SET_TIMERSLACK, 1000UL);
                loop(&engine);
                /* the region outlives the command: what it wrote last is still there */
                r = recording_finish(&engine.recording, &engine.scan, 1, summary);
        }
        *statusp = engine.child.status;
        deinit(&engine);
        return r;
}
