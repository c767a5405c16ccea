/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Makes a daemon with a sink, starts the command when sampling runs, and ends when the command, the time or
 * the user does.
 */

#include "desk/live/session.h"

#include <errno.h>
#include <linux/capability.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/base/sandbox/confine.h"
#include "core/base/sandbox/zygotes.h"
#include "core/base/util/clock.h"
#include "core/base/util/error.h"
#include "core/base/util/log.h"
#include "host/service/control/self.h"

#ifndef CAP_PERFMON
#define CAP_PERFMON 38
#define CAP_BPF 39
#endif

/* About nine times the share of a process beside it; CAP_SYS_NICE grants it. */
enum { NICE_HURRIED = -10, ZYGOTE_WAIT_MS = 5000 };

/* capget(2) in its third version: 64 bits in two words. */
static uint64_t effective_capabilities(void) {
        struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
        struct __user_cap_data_struct data[2] = { 0 };

        if (syscall(SYS_capget, &header, data) < 0)
                return 0;
        return data[0].effective | (uint64_t)data[1].effective << 32;
}

const char *session_obstacle(void) {
        uint64_t all = effective_capabilities(), admin = UINT64_C(1) << CAP_SYS_ADMIN;
        uint64_t needed = UINT64_C(1) << CAP_BPF | UINT64_C(1) << CAP_PERFMON;
        struct stat st;

        if (!(all & admin) && (all & needed) != needed)
                return "sampling needs root, or the capabilities BPF, PERFMON and SYS_PTRACE: try it with sudo, or see "
                       "`spanprof doctor`";
        if (!lstat("/etc/spanprof/disabled", &st))
                return "/etc/spanprof/disabled is there: nothing is sampled on this machine until it is removed";
        return NULL;
}

/* ---- what the daemon tells ---- */

static int on_window(void *userdata, const Window *window, uint64_t *n_lostp) {
        Session *session = userdata;

        return session->options->window(session->options->userdata, window, n_lostp);
}

static void on_ending(void *userdata) {
        Session *session = userdata;

        if (session->options->ending)
                session->options->ending(session->options->userdata);
}

static int on_ended(sd_event_source *source, int fd, uint32_t events, void *userdata) {
        Session *session = userdata;

        sd_event_source_set_enabled(source, SD_EVENT_OFF);
        command_has_ended(&session->command);
        return daemon_stop(session->daemon);
}

static int on_end(sd_event_source *source, void *userdata) {
        Session *session = userdata;

        return daemon_stop(session->daemon);
}

int session_end(Session *session) {
        int r = sd_event_add_defer(daemon_loop(session->daemon), NULL, on_end, session);

        return r < 0 ? error_origin(r) : 0;
}

static int on_timer(sd_event_source *source, uint64_t usec, void *userdata) {
        Session *session = userdata;
        int r;

        session->options->progress(session->options->userdata, session->daemon);
        r = sd_event_source_set_time_relative(source, session->options->progress_ns / NS_PER_US);
        return r < 0 ? error_origin(r) : 0;
}

static int watch_command(Session *session) {
        int r = sd_event_add_io(daemon_loop(session->daemon), &session->ended, session->command.pidfd,
                                EPOLLIN, on_ended, session);

        if (r >= 0)
                r = sd_event_source_set_exit_on_failure(session->ended, true);
        return r < 0 ? error_origin(r) : command_let_go(&session->command);
}

static int add_timer(Session *session) {
        int r = sd_event_add_time_relative(daemon_loop(session->daemon), &session->timer, CLOCK_MONOTONIC, 0,
                                           20 * NS_PER_MS / NS_PER_US, on_timer, session);

        if (r >= 0)
                r = sd_event_source_set_enabled(session->timer, SD_EVENT_ON);
        return r < 0 ? error_origin(r) : 0;
}

static int on_started(void *userdata) {
        Session *session = userdata;
        const SessionOptions *options = session->options;
        int r = options->started ? options->started(options->userdata, session->daemon) : 0;

        if (!r && options->progress && options->progress_ns)
                r = add_timer(session);
        if (!r && session->command.pid)
                r = watch_command(session);
        return r;
}

/* ---- the whole ---- */

int session_init(Session *session, const SessionOptions *options) {
        *session = (Session){ .options = options, .command = COMMAND_NONE };
        session->sink = (DaemonSink){ .window = on_window, .started = on_started, .ending = on_ending,
                                      .has_one_window = options->has_one_window, .userdata = session };
        return options->command ? command_start(&session->command, options->command) : 0;
}

void session_deinit(Session *session) {
        sd_event_source_disable_unref(session->ended);
        sd_event_source_disable_unref(session->timer);
        session->ended = session->timer = NULL;
        session_unwatch_signals(session);
        session->daemon = daemon_free(session->daemon);
        session->totals.desk_zygotes = zygotes_free(session->totals.desk_zygotes);
        command_deinit(&session->command);
}

/* Before the filter: what starts processes starts these. Without them the stage says so. */
static void make_zygotes(Session *session) {
        Zygotes **zygotesp = &session->totals.desk_zygotes;
        int r = zygotes_new(zygotesp);

        if (!r)
                r = zygotes_wait(*zygotesp, ZYGOTE_WAIT_MS);
        if (r)
                *zygotesp = zygotes_free(*zygotesp);
}

/*
 * No user chose these, so what they say must not decide; a filter of system calls is for us, not
 * for the command.
 */
static void prepare(Session *session) {
        Config *config = session->options->config;
        int r;

        config->delivery.interval_ns = session->options->interval_ns;
        config->sampling.recorder_ns = 0;           /* a file of `run` may ask for one */
        strcpy(config->form.symbols, "local");       /* in place of "remote", which is longer */
        if (session->command.pid) {
                session->root = (uint32_t)session->command.pid;
                config->targets.trees = &session->root;
                config->targets.n_trees = 1;
        }
        self_raise_descriptor_limit();
        if (config->sampling.jfr)
                make_zygotes(session);
        r = confine();
        if (r < 0)
                log_debug("no filter of system calls: %s", strerror(-r));
}

/*
 * A busy machine is where people look, and this thread reads rings, and files for unwinding: at the usual
 * priority it comes to that after all others. The command, which has been started before, keeps its own.
 * Return: the priority before.
 */
static int hurry(void) {
        int before = getpriority(PRIO_PROCESS, 0);

        (void)!setpriority(PRIO_PROCESS, 0, MIN(before, NICE_HURRIED));         /* Linux: of this thread */
        return before;
}

static void expect(void *userdata, const char *name) {
        daemon_expect(userdata, name);
}

int session_run(Session *session) {
        int r, nice = hurry();

        prepare(session);
        r = daemon_new(&session->daemon, session->options->config, &session->totals, &session->sink);
        if (!r && session->options->command)
                command_each_program(session->options->command, expect, session->daemon);
        if (!r)
                r = daemon_run(session->daemon);
        (void)!setpriority(PRIO_PROCESS, 0, nice);
        if (session->daemon)
                session->signals = *daemon_stop_signals(session->daemon);
        session->signal = session->signals.number;
        if (session->signal)
                command_pass_on(&session->command, &session->signals);
        return r;
}

/* ---- signals while the result is made ---- */

static void on_signal(void *userdata, StopWish wish, int number) {
        Session *session = userdata;

        if (wish == STOP_WISH_FIRST)
                command_pass_on(&session->command, &session->signals);
        if (wish != STOP_WISH_IMPATIENT)
                return;
        if (session->options->give_up)
                session->options->give_up(session->options->userdata);
        _exit(128 + number);
}

void session_watch_signals(Session *session) {
        int r = stop_watch_new(&session->watch, &session->signals, on_signal, session);

        if (r)
                log_debug("no thread for signals: they wait for the end of the result");
}

void session_unwatch_signals(Session *session) {
        session->watch = stop_watch_free(session->watch);
}
