/* SPDX-License-Identifier: Apache-2.0 */

/*
 * `top`: takes each window into counts, keeps them as history, and draws the view again at each interval
 * and key.
 */

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "core/base/file/file.h"
#include "core/base/terminal/terminal.h"
#include "core/base/util/clock.h"
#include "core/base/util/error.h"
#include "core/base/util/log.h"
#include "core/base/util/stat.h"
#include "desk/live/counts.h"
#include "desk/live/history.h"
#include "desk/live/keys.h"
#include "desk/live/screen.h"
#include "desk/live/session.h"
#include "desk/live/view.h"
#include "host/cli/cli.h"
#include "host/service/config/config-selector.h"
#include "host/service/control/control.h"

enum { KEYS_MAX = 256, DEFAULT_ROWS = 10 };

typedef struct Top {
        Config *config;
        Daemon *daemon;                 /* while it runs */
        View view;
        History history;                /* the last intervals */
        uint64_t moment;                /* number of the one that is shown … */
        bool is_past;                   /* … or else the newest */
        Counts none, all;               /* before the first one, and since the start */
        uint64_t all_ns;                /* its length */
        uint64_t n_shown;               /* refreshes */
        bool on_screen;
        char note[128];                 /* what a key has done, until the next key; "" = nothing */
        char keys[KEYS_MAX];            /* read, and not yet a whole key */
        size_t n_keys;
        sd_event_source *input, *resize, *stop;
} Top;

/* ---- what is shown ---- */

/* One that is not kept any more gives way to the oldest. */
static uint64_t shown_number(const Top *top) {
        uint64_t oldest = top->history.n_taken - top->history.n_kept;

        return top->is_past ? MAX(top->moment, oldest) : top->history.n_taken - (top->history.n_taken > 0);
}

static const Counts *shown_counts(const Top *top, ViewFigures *figures) {
        const Moment *moment = history_get(&top->history, shown_number(top));

        *figures = (ViewFigures){ .n_lost = stat_lost() - stat_get(COUNTER_LOST_NOT_TARGET),
                                  .n_processes = daemon_n_targets(top->daemon) };
        daemon_tables_progress(top->daemon, &figures->n_tables_made, &figures->n_tables);
        if (top->view.since_start) {
                figures->length_ns = top->all_ns;
                return &top->all;
        }
        if (!moment)
                return &top->none;
        figures->length_ns = moment->length_ns;
        if (top->is_past)
                figures->ago_ns = MAX(clock_monotonic_ns() - moment->end_ns, UINT64_C(1));
        return &moment->counts;
}

/* What the arrow keys asked for, as far as it is kept. */
static void move_in_time(Top *top) {
        uint64_t newest = top->history.n_taken, oldest = newest - top->history.n_kept, at = shown_number(top);

        for (; top->view.by_moments > 0; top->view.by_moments--)
                at -= at > oldest;
        for (; top->view.by_moments < 0; top->view.by_moments++)
                at += at + 1 < newest;
        top->is_past = at + 1 < newest;
        top->moment = at;
}

static int draw(Top *top) {
        ViewFigures figures;
        const Counts *counts = shown_counts(top, &figures);
        Text page = { 0 };
        int r;

        if (top->view.by_moments)
                move_in_time(top);
        screen_size(&top->view.rows, &top->view.columns);
        figures.note = *top->note ? top->note : NULL;
        r = view_page(&top->view, counts, &figures, &page);
        if (!r)
                screen_draw(&page);
        text_deinit(&page);
        return r;
}

/* The reader of the lines may leave: that is an end like any other. */
static int print_lines(Top *top) {
        size_t n_rows = config_origin(top->config, "top")->level > CONFIG_DEFAULT ? top->config->report.top
                                                                                   : DEFAULT_ROWS;
        ViewFigures figures;
        const Counts *counts = shown_counts(top, &figures);
        Text text = { 0 };
        int r;

        top->view.columns = cli_output_width();
        if (top->config->command.json)
                r = view_json(&top->view, counts, &figures, n_rows, &text);
        else
                r = view_block(&top->view, counts, &figures, n_rows, &text);
        if (!r && file_write(STDOUT_FILENO, text.data, text.size) < 0)
                r = daemon_stop(top->daemon);
        text_deinit(&text);
        return r;
}

static int show(Top *top) {
        return top->on_screen ? draw(top) : print_lines(top);
}

/* ---- what happens ---- */

static int take_window(Top *top, const Window *window) {
        uint64_t length_ns = window_end_ns(window) - window_start_ns(window);
        Counts last;
        int r;

        counts_init(&last);
        r = counts_add(&last, window);
        if (!r)
                r = counts_add(&top->all, window);
        if (!r)
                history_add(&top->history, &last, length_ns, clock_monotonic_ns());
        counts_deinit(&last);
        top->all_ns += length_ns;
        return r;
}

/* What comes after the last refresh that was asked for is the end's. */
static int on_window(void *userdata, const Window *window, uint64_t *n_lostp) {
        Top *top = userdata;
        uint64_t limit = top->config->top.count;
        int r = top->view.paused || (limit && top->n_shown >= limit) ? 0 : take_window(top, window);

        if (r || top->view.paused || (limit && top->n_shown >= limit))
                return r;
        top->n_shown++;
        r = show(top);
        if (!r && limit && top->n_shown == limit)
                r = sd_event_source_set_enabled(top->stop, SD_EVENT_ONESHOT);
        return MIN(r, 0);
}

/* Not from within the window, which the stop would close. */
static int on_stop(sd_event_source *source, void *userdata) {
        Top *top = userdata;

        return daemon_stop(top->daemon);
}

/*
 * Has the flight recorder of the daemon that runs ship the interval that is shown, of the one process that is
 * chosen by its id, or of all that the daemon samples.
 */
static int keep(Top *top) {
        const ConfigPids *pids = &top->config->targets.pids;
        const char *socket = config_control(top->config);
        _cleanup_(text_deinit) Text page = { 0 }, answer = { 0 };
        const Moment *moment = history_get(&top->history, shown_number(top));
        uint64_t end_ns = clock_read_ns(CLOCK_REALTIME);
        ViewFigures figures;
        int status = 0, r;

        (void)shown_counts(top, &figures);
        end_ns -= moment ? MIN(clock_monotonic_ns() - moment->end_ns, end_ns) : 0;
        text_printf(&page, "/recorder/keep/start/%" PRIu64 "/end/%" PRIu64 "/reason/top",
                    end_ns - MIN(figures.length_ns, end_ns), end_ns);
        if (pids->n_items == 1)
                text_printf(&page, "/process/%" PRIu32, pids->items[0]);
        r = page.failed ? error_origin(-ENOMEM) : control_ask(socket, "POST", page.data, &status, &answer);
        if (r == CONTROL_E_UNREACHABLE)
                snprintf(top->note, sizeof(top->note), "not kept: no daemon answers at %s", socket);
        else if (!r && status == 200)
                snprintf(top->note, sizeof(top->note), "kept: %.1f s, which the daemon ships as kept_samples",
                         (double)figures.length_ns / (double)NS_PER_SEC);
        else if (!r)
                snprintf(top->note, sizeof(top->note), "not kept: %.*s",
                         (int)strcspn(answer.data ? answer.data : "", "\n"), answer.data ? answer.data : "");
        return MIN(r, 0);
}

static int take_keys(Top *top) {
        ViewAction all = VIEW_NOTHING;
        size_t at = 0, used;
        int key;

        while (all != VIEW_QUIT && (key = keys_next(top->keys + at, top->n_keys - at, &used)) != KEY_NONE) {
                ViewAction action = view_key(&top->view, key);
                int r = 0;

                *top->note = 0;
                if (action == VIEW_KEEP)
                        r = keep(top);
                if (r)
                        return r;
                all = MAX(all, action);
                at += used;
        }
        top->n_keys -= at;
        memmove(top->keys, top->keys + at, top->n_keys);
        if (top->n_keys == sizeof(top->keys))
                top->n_keys = 0;
        top->config->delivery.interval_ns = top->view.interval_ns;
        return all == VIEW_QUIT ? daemon_stop(top->daemon) : all != VIEW_NOTHING ? draw(top) : 0;
}

/* A terminal that is gone gives nothing, for ever: then there is no one to show anything to. */
static int on_input(sd_event_source *source, int fd, uint32_t events, void *userdata) {
        Top *top = userdata;
        ssize_t n = read(fd, top->keys + top->n_keys, sizeof(top->keys) - top->n_keys);

        if (n > 0) {
                top->n_keys += (size_t)n;
                return take_keys(top);
        }
        if (events & (EPOLLHUP | EPOLLERR) || (n < 0 && errno != EAGAIN && errno != EINTR)) {
                sd_event_source_set_enabled(source, SD_EVENT_OFF);
                return daemon_stop(top->daemon);
        }
        return 0;
}

static int on_signal(sd_event_source *source, const struct signalfd_siginfo *info, void *userdata) {
        if (info->ssi_signo == SIGTSTP)
                screen_stop();
        return draw(userdata);
}

static int add_screen(Top *top, sd_event *loop) {
        int r = sd_event_add_io(loop, &top->input, STDIN_FILENO, EPOLLIN, on_input, top);

        if (r >= 0)
                r = sd_event_source_set_exit_on_failure(top->input, true);
        if (r >= 0)
                r = sd_event_add_signal(loop, &top->resize, SIGWINCH, on_signal, top);
        if (r >= 0)
                r = sd_event_add_signal(loop, NULL, SIGTSTP, on_signal, top);
        if (r < 0)
                return error_origin(r);
        r = screen_open();
        return r ? r : draw(top);
}

static int on_started(void *userdata, Daemon *daemon) {
        Top *top = userdata;
        sd_event *loop = daemon_loop(daemon);
        int r = sd_event_add_defer(loop, &top->stop, on_stop, top);

        top->daemon = daemon;
        if (r >= 0)
                r = sd_event_source_set_enabled(top->stop, SD_EVENT_OFF);
        if (r < 0)
                return error_origin(r);
        return top->on_screen ? add_screen(top, loop) : 0;
}

/* ---- the whole ---- */

/* Every thread that is made from here on leaves them to the loop. */
static void block_signals(void) {
        sigset_t set;

        sigemptyset(&set);
        sigaddset(&set, SIGWINCH);
        sigaddset(&set, SIGTSTP);
        sigprocmask(SIG_BLOCK, &set, NULL);
}

static int run_top(Top *top) {
        const SessionOptions options = { .config = top->config,
                                         .interval_ns = top->view.interval_ns,
                                         .window = on_window,
                                         .started = on_started,
                                         .userdata = top };
        Session session;
        int r = session_init(&session, &options);

        if (!r)
                r = session_run(&session);
        screen_close();
        sd_event_source_disable_unref(top->input);
        sd_event_source_disable_unref(top->resize);
        sd_event_source_disable_unref(top->stop);
        session_deinit(&session);
        if (r < 0)
                log_error("stopped by an error: %s", strerror(-r));
        return r == DAEMON_E_UNUSABLE ? STATUS_CONFIG : r ? STATUS_FAILURE : STATUS_OK;
}

static void choose_all(Config *config) {
        config->targets.all |= !config_chooses(&config->targets);
}

static void set_view(Top *top) {
        const Config *config = top->config;
        const char *no_color = getenv("NO_COLOR");

        top->on_screen = screen_is_possible() && !config->command.json;
        top->view = (View){ .interval_ns = config->top.interval_ns,
                            .colour = top->on_screen && !(no_color && *no_color) };
        view_find_tab(config->top.view, &top->view.tab);
        top->config->waits.off_cpu |= top->view.tab == COUNTS_WAITS;
        top->view.order = !strcmp(config->report.sort, "total") ? COUNTS_BY_TOTAL : COUNTS_BY_SELF;
        snprintf(top->view.filter, sizeof(top->view.filter), "%s", config->top.filter);
}

static int run(Cli *cli) {
        const char *obstacle = session_obstacle();
        static Top top;                 /* its history is large for a stack */
        int r;

        if (obstacle) {
                log_error("%s", obstacle);
                return STATUS_CONFIG;
        }
        top.config = &cli->config;
        choose_all(&cli->config);
        set_view(&top);
        if (config_origin(&cli->config, "log-level")->level == CONFIG_DEFAULT)
                log_set_level(LOG_LEVEL_ERROR);
        counts_init(&top.none);
        counts_init(&top.all);
        if (top.on_screen)
                block_signals();
        r = run_top(&top);
        history_deinit(&top.history);
        counts_deinit(&top.none);
        counts_deinit(&top.all);
        return r;
}

const Verb verb_top = {
        .name = "top",
        .bit = VERB_TOP,
        .arguments = "",
        .summary = "show what this host spends its CPU time on, and what it waits for",
        .description =
                "Samples every process of this host, or those that are chosen, and shows once an interval what their CPU\n"
                "time went into: functions (self, and anywhere in the stack), spans and their operations, threads,\n"
                "processes, coroutines, and the tree of calls. Shares are of the samples; CPU is in percent of one. Names\n"
                "of functions come a moment after the samples. With --off-cpu, or --view waits, also what threads wait\n"
                "for: the state, the reason, the innermost function of the program, and who ended it; `threads` is how\n"
                "many were in it at one time.\n"
                "\n"
                "Keys: 1 to 8 and Tab change the view (t: the tree, w: waits, o: operations), s the order; / filters (Esc\n"
                "ends that), p pauses, c counts from the start on; left and right go through the last minutes, interval by\n"
                "interval; % shows functions in percent of a CPU, < and > scroll names sideways, + and - change the\n"
                "interval, up, down and pages scroll, h shows all that, q quits.\n"
                "\n"
                "When the output is no terminal, or TERM is `dumb`, there is a block of lines for each interval, or with\n"
                "--json a line; -n ends after so many. NO_COLOR turns colours off. No configuration file is read.\n"
                "\n"
                "  spanprof top                                   everything on this machine\n"
                "  spanprof top -u nginx --view spans             the requests that cost most, of a unit\n"
                "  spanprof top -u shop --view operations         the kinds of requests that cost most: GET /cart/:id\n"
                "  spanprof top -p 812 --view waits               what the threads of a process wait for\n"
                "  spanprof top -p 812 -n 1 -i 10 --json          ten seconds of a process, for programs\n",
        .run = run,
};
