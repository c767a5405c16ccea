/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The part of sd-event that the desk verbs use, for a program without shared libraries
 *
 * Debian has no archive of libsystemd, so the static program brings what it needs of it. The rules are those
 * of sd-event(3):
 *
 *     wait for a source  →  mark what happened as pending  →  call one: the lowest priority, the oldest first
 *
 * A source is on, off, or on for one call. One whose function fails ends the loop, if it was asked to, else
 * it is off from then on. After each call, sources of the kind `post` become pending. A floating source belongs
 * to the loop. Accuracies are not used: a timer comes as soon as it can.
 */

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <systemd/sd-event.h>
#include <time.h>
#include <unistd.h>

#include "core/base/util/macro.h"

typedef enum Kind { KIND_IO, KIND_TIME, KIND_SIGNAL, KIND_DEFER, KIND_POST } Kind;

struct sd_event {
        sd_event_source *sources;
        uint64_t n_turns;
        unsigned n_refs;
        int epoll;
        int code;
        bool has_ended;
};

struct sd_event_source {
        sd_event *event;
        sd_event_source *next;
        void *userdata;
        union {
                sd_event_io_handler_t io;
                sd_event_time_handler_t time;
                sd_event_signal_handler_t signal;
                sd_event_handler_t plain;
        } call;
        uint64_t at_us;                 /* of a timer */
        uint64_t since;                 /* the turn in which it became pending */
        int64_t priority;
        clockid_t clock;
        uint32_t events, happened;
        unsigned n_refs;
        Kind kind;
        int enabled;
        int fd;                         /* of a signal its own */
        bool pending, floating, called, exit_on_failure;
};

static uint64_t now_us(clockid_t clock) {
        struct timespec now;

        clock_gettime(clock, &now);
        return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

/* ---- the loop and its sources ---- */

int sd_event_new(sd_event **eventp) {
        sd_event *event = calloc(1, sizeof(*event));

        if (!event)
                return -ENOMEM;
        event->n_refs = 1;
        event->epoll = epoll_create1(EPOLL_CLOEXEC);
        if (event->epoll < 0) {
                free(event);
                return -errno;
        }
        *eventp = event;
        return 0;
}

sd_event *sd_event_ref(sd_event *event) {
        event->n_refs++;
        return event;
}

static void unwatch(sd_event_source *source) {
        if (source->fd >= 0)
                (void)epoll_ctl(source->event->epoll, EPOLL_CTL_DEL, source->fd, NULL);
}

static void source_free(sd_event_source *source) {
        sd_event_source **at = &source->event->sources;

        while (*at != source)
                at = &(*at)->next;
        *at = source->next;
        unwatch(source);
        if (source->kind == KIND_SIGNAL)
                close(source->fd);
        if (!source->floating)
                sd_event_unref(source->event);
        free(source);
}

sd_event_source *sd_event_source_unref(sd_event_source *source) {
        if (source && --source->n_refs == 0 && !source->called)
                source_free(source);
        return NULL;
}

sd_event *sd_event_unref(sd_event *event) {
        if (!event || --event->n_refs)
                return NULL;
        while (event->sources)          /* all float: each other one has a reference */
                source_free(event->sources);
        close(event->epoll);
        free(event);
        return NULL;
}

static int watch(sd_event_source *source) {
        struct epoll_event what = { .events = source->events, .data.ptr = source };

        if (source->fd < 0)
                return 0;
        if (source->enabled == SD_EVENT_OFF) {
                unwatch(source);
                return 0;
        }
        if (!epoll_ctl(source->event->epoll, EPOLL_CTL_ADD, source->fd, &what) ||
            (errno == EEXIST && !epoll_ctl(source->event->epoll, EPOLL_CTL_MOD, source->fd, &what)))
                return 0;
        return -errno;
}

/* Without @sourcep it floats. @model: what it is; the rest is filled in. */
static int add(sd_event *event, const sd_event_source *model, sd_event_source **sourcep) {
        sd_event_source *source = calloc(1, sizeof(*source));
        int r;

        if (!source)
                return -ENOMEM;
        *source = *model;
        source->event = event;
        source->n_refs = 1;
        source->floating = !sourcep;
        source->next = event->sources;
        event->sources = source;
        if (!source->floating)
                sd_event_ref(event);
        r = watch(source);
        if (r < 0)
                source_free(source);
        else if (sourcep)
                *sourcep = source;
        return r;
}

int sd_event_add_io(sd_event *event, sd_event_source **sourcep, int fd, uint32_t events,
                    sd_event_io_handler_t call, void *userdata) {
        return add(event, &(sd_event_source){ .kind = KIND_IO, .fd = fd, .events = events, .call.io = call,
                                              .userdata = userdata, .enabled = SD_EVENT_ON }, sourcep);
}

int sd_event_add_time(sd_event *event, sd_event_source **sourcep, clockid_t clock, uint64_t at_us,
                      uint64_t accuracy_us, sd_event_time_handler_t call, void *userdata) {
        return add(event, &(sd_event_source){ .kind = KIND_TIME, .fd = -1, .clock = clock, .at_us = at_us,
                                              .call.time = call, .userdata = userdata,
                                              .enabled = SD_EVENT_ONESHOT }, sourcep);
}

int sd_event_add_time_relative(sd_event *event, sd_event_source **sourcep, clockid_t clock, uint64_t after_us,
                               uint64_t accuracy_us, sd_event_time_handler_t call, void *userdata) {
        uint64_t at_us = now_us(clock) + after_us;

        return sd_event_add_time(event, sourcep, clock, at_us, accuracy_us, call, userdata);
}

int sd_event_add_signal(sd_event *event, sd_event_source **sourcep, int number,
                        sd_event_signal_handler_t call, void *userdata) {
        sd_event_source model = { .kind = KIND_SIGNAL, .events = EPOLLIN, .call.signal = call,
                                  .userdata = userdata, .enabled = SD_EVENT_ON };
        sigset_t set;
        int r;

        sigemptyset(&set);
        sigaddset(&set, number);
        model.fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
        if (model.fd < 0)
                return -errno;
        r = add(event, &model, sourcep);
        if (r == -ENOMEM)
                close(model.fd);
        return r;
}

int sd_event_add_defer(sd_event *event, sd_event_source **sourcep, sd_event_handler_t call, void *userdata) {
        return add(event, &(sd_event_source){ .kind = KIND_DEFER, .fd = -1, .call.plain = call,
                                              .userdata = userdata, .enabled = SD_EVENT_ONESHOT }, sourcep);
}

int sd_event_add_post(sd_event *event, sd_event_source **sourcep, sd_event_handler_t call, void *userdata) {
        return add(event, &(sd_event_source){ .kind = KIND_POST, .fd = -1, .call.plain = call,
                                              .userdata = userdata, .enabled = SD_EVENT_ON }, sourcep);
}

/* ---- what is set of a source ---- */

int sd_event_source_set_enabled(sd_event_source *source, int enabled) {
        if (!source)
                return 0;
        source->enabled = enabled;
        if (enabled == SD_EVENT_OFF)
                source->pending = false;
        return watch(source);
}

sd_event_source *sd_event_source_disable_unref(sd_event_source *source) {
        if (source)
                (void)sd_event_source_set_enabled(source, SD_EVENT_OFF);
        return sd_event_source_unref(source);
}

int sd_event_source_set_io_events(sd_event_source *source, uint32_t events) {
        source->events = events;
        source->pending = false;
        return watch(source);
}

int sd_event_source_set_time(sd_event_source *source, uint64_t at_us) {
        source->at_us = at_us;
        source->pending = false;
        return 0;
}

int sd_event_source_get_time(sd_event_source *source, uint64_t *at_usp) {
        *at_usp = source->at_us;
        return 0;
}

int sd_event_source_set_time_relative(sd_event_source *source, uint64_t after_us) {
        uint64_t now = now_us(source->clock);

        return sd_event_source_set_time(source, after_us > UINT64_MAX - now ? UINT64_MAX : now + after_us);
}

int sd_event_source_set_time_accuracy(sd_event_source *source, uint64_t accuracy_us) {
        return 0;
}

int sd_event_source_set_priority(sd_event_source *source, int64_t priority) {
        source->priority = priority;
        return 0;
}

int sd_event_source_set_exit_on_failure(sd_event_source *source, int on) {
        source->exit_on_failure = on;
        return 0;
}

int sd_event_source_set_description(sd_event_source *source, const char *description) {
        return 0;
}

int sd_event_source_set_floating(sd_event_source *source, int on) {
        if (source->floating == !!on)
                return 0;
        source->floating = on;
        if (on) {
                source->n_refs++;
                sd_event_unref(source->event);
        } else {
                sd_event_ref(source->event);
                sd_event_source_unref(source);
        }
        return 1;
}

/* There is no service manager that would ask. */
int sd_event_set_watchdog(sd_event *event, int on) {
        return 0;
}

int sd_event_exit(sd_event *event, int code) {
        event->has_ended = true;
        event->code = code;
        return 0;
}

/* ---- a turn ---- */

static void set_pending(sd_event_source *source) {
        if (source->enabled == SD_EVENT_OFF || source->pending)
                return;
        source->pending = true;
        source->since = source->event->n_turns;
}

static void mark_due(sd_event *event) {
        for (sd_event_source *source = event->sources; source; source = source->next)
                if (source->kind == KIND_DEFER ||
                    (source->kind == KIND_TIME && source->at_us <= now_us(source->clock)))
                        set_pending(source);
}

static bool is_before(const sd_event_source *a, const sd_event_source *b) {
        return a->priority != b->priority ? a->priority < b->priority : a->since < b->since;
}

/* The source to call next. */
static sd_event_source *first_pending(const sd_event *event) {
        sd_event_source *first = NULL;

        for (sd_event_source *source = event->sources; source; source = source->next)
                if (source->pending && (!first || is_before(source, first)))
                        first = source;
        return first;
}

static bool is_waited_for(const sd_event_source *source) {
        return source->kind == KIND_TIME && source->enabled != SD_EVENT_OFF && source->at_us != UINT64_MAX;
}

/* Until the next timer; -1 = there is none. Rounded up, so that it is due then. */
static int time_left_ms(const sd_event *event, uint64_t most_us) {
        uint64_t least = most_us;

        for (const sd_event_source *source = event->sources; source; source = source->next) {
                uint64_t now = now_us(source->clock);

                if (is_waited_for(source))
                        least = MIN(least, source->at_us > now ? source->at_us - now : 0);
        }
        return least == UINT64_MAX ? -1 : (int)MIN((least + 999) / 1000, (uint64_t)86400000);
}

static int wait_for_files(sd_event *event, int timeout_ms) {
        struct epoll_event happened[16];
        int n = epoll_wait(event->epoll, happened, ARRAY_SIZE(happened), timeout_ms);

        if (n < 0)
                return errno == EINTR ? 0 : -errno;
        for (int i = 0; i < n; i++) {
                sd_event_source *source = happened[i].data.ptr;

                source->happened = happened[i].events;
                set_pending(source);
        }
        return 0;
}

static int call_signal(sd_event_source *source) {
        struct signalfd_siginfo info;

        if (read(source->fd, &info, sizeof(info)) != sizeof(info))
                return errno == EAGAIN ? 0 : -errno;
        return source->call.signal(source, &info, source->userdata);
}

static int call(sd_event_source *source) {
        switch (source->kind) {
        case KIND_IO: return source->call.io(source, source->fd, source->happened, source->userdata);
        case KIND_TIME: return source->call.time(source, source->at_us, source->userdata);
        case KIND_SIGNAL: return call_signal(source);
        default: return source->call.plain(source, source->userdata);
        }
}

static void mark_posts(sd_event *event) {
        for (sd_event_source *source = event->sources; source; source = source->next)
                if (source->kind == KIND_POST)
                        set_pending(source);
}

/* It lives until its function has come back, whoever lets go of it meanwhile. */
static void dispatch(sd_event_source *source) {
        sd_event *event = source->event;
        int r;

        source->pending = false;
        if (source->kind != KIND_POST)
                mark_posts(event);
        if (source->enabled == SD_EVENT_ONESHOT)
                (void)sd_event_source_set_enabled(source, SD_EVENT_OFF);
        source->called = true;
        r = call(source);
        source->called = false;
        if (r < 0 && source->exit_on_failure)
                sd_event_exit(event, r);
        if (!source->n_refs)
                source_free(source);
        else if (r < 0)
                (void)sd_event_source_set_enabled(source, SD_EVENT_OFF);
}

int sd_event_run(sd_event *event, uint64_t timeout_us) {
        sd_event_source *source;
        int r;

        event->n_turns++;
        mark_due(event);
        r = wait_for_files(event, first_pending(event) ? 0 : time_left_ms(event, timeout_us));
        if (r < 0)
                return r;
        mark_due(event);
        source = first_pending(event);
        if (!source)
                return 0;
        sd_event_ref(event);
        dispatch(source);
        sd_event_unref(event);
        return 1;
}

int sd_event_loop(sd_event *event) {
        int r = 0;

        sd_event_ref(event);
        while (r >= 0 && !event->has_ended)
                r = sd_event_run(event, UINT64_MAX);
        if (r >= 0)
                r = event->code;
        sd_event_unref(event);
        return r;
}
