/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "core/base/util/clock.h"
#include "host/delivery/export/exporter.h"
#include "stat-reset.h"

/*
 * The state machine on ports that the test plays: a transport that answers when it is told to, and a store
 * that keeps batches in memory. Each batch is one letter and has as many samples as its place in the
 * alphabet.
 */
typedef struct Ports {
        sd_event *event;
        Exporter *exporter;

        char sent[64];                  /* a letter for each attempt */
        TransportDone reply_to;
        void *sender;
        int send_error;

        const BatchStoreEvents *events;
        void *listener;
        char held[64], removed[64], buried[64];       /* letters that the store was told of */
        Batch *kept[16];                /* what memory has let go of, oldest first */
        size_t n_kept;
        bool has_room, is_fetching;
        char after;                     /* what is fetched is behind this letter; 0 = the oldest */
        uint64_t max_draft_ns;

        bool stopped;
} Ports;

static void note(char *letters, const Batch *batch) {
        letters[strlen(letters)] = (char)batch->data[0];
}

static int fake_send(void *self, const void *data, size_t size, TransportDone done, void *userdata) {
        Ports *ports = self;

        cr_assert_null(ports->reply_to, "one request at a time");
        cr_assert_eq(size, 1);
        ports->sent[strlen(ports->sent)] = *(const char *)data;
        if (ports->send_error)
                return ports->send_error;
        ports->reply_to = done;
        ports->sender = userdata;
        return 0;
}

static void fake_cancel(void *self) {
        ((Ports *)self)->reply_to = NULL;
}

static void fake_free_transport(void *self) {
        cr_assert_null(((Ports *)self)->reply_to);
}

static void fake_listen(void *self, const BatchStoreEvents *events, ExportBooks *books, void *userdata) {
        ((Ports *)self)->events = events;
        ((Ports *)self)->listener = userdata;
}

static bool fake_hold(void *self, Batch *batch) {
        Ports *ports = self;

        if (!ports->has_room)
                return false;
        note(ports->held, batch);
        batch->copy = BATCH_HELD;
        batch->entry = (SpoolEntry){ .time_ns = batch->data[0], .sequence = 1 };
        return true;
}

static bool fake_keep(void *self, Batch *batch, bool last) {
        Ports *ports = self;

        if (batch->copy == BATCH_UNSTORED && !ports->has_room && !last)
                return false;
        ports->kept[ports->n_kept++] = batch;
        return true;
}

static bool fake_fetch(void *self, const SpoolEntry *after) {
        Ports *ports = self;

        ports->is_fetching = true;
        ports->after = after ? (char)after->time_ns : 0;
        return true;
}

static bool fake_bury(void *self, Batch *batch) {
        note(((Ports *)self)->buried, batch);
        return true;
}

static void fake_remove(void *self, Batch *batch) {
        note(((Ports *)self)->removed, batch);
}

static void fake_finish(void *self, uint64_t deadline_ns) {
}

static BatchStoreLevel fake_level(const void *self) {
        return (BatchStoreLevel){ .n_stored = ((const Ports *)self)->n_kept };
}

static void fake_free_store(void *self) {
        Ports *ports = self;

        while (ports->n_kept)
                batch_free(ports->kept[--ports->n_kept]);
}

static void start(Ports *ports, bool with_store, size_t max_queue_bytes) {
        static const TransportOps transport = { fake_send, fake_cancel, fake_free_transport };
        static const BatchStoreOps store = { fake_listen, fake_hold,   fake_keep,  fake_fetch, fake_bury,
                                             fake_remove, fake_finish, fake_level, fake_free_store };
        const ExporterConfig config = { .endpoint = "http://receiver/",
                                        .max_queue_bytes = max_queue_bytes,
                                        .retry_first_ns = NS_PER_MS,
                                        .max_age_ns = 3600 * NS_PER_SEC,
                                        .max_draft_ns = ports->max_draft_ns };

        stat_reset();
        ports->has_room = true;
        cr_assert_geq(sd_event_new(&ports->event), 0);
        cr_assert_eq(exporter_new_on(&ports->exporter, ports->event, &config,
                                     (Transport){ &transport, ports },
                                     with_store ? (BatchStore){ &store, ports } : batch_store_none()),
                     0);
        while (with_store && sd_event_run(ports->event, 0) > 0) /* it looks for what an earlier one left */
                ;
}

static void end(Ports *ports) {
        ports->exporter = exporter_free(ports->exporter);
        sd_event_unref(ports->event);
}

static void submit(Ports *ports, const char *letters) {
        for (; *letters; letters++)
                cr_assert_eq(exporter_submit(ports->exporter,
                                             &(ExportRequest){ (const uint8_t *)letters, 1,
                                                               (uint64_t)(*letters - 'a' + 1), 1 }),
                             0);
}

static void answer(Ports *ports, HttpFault fault, int status) {
        const HttpReply reply = { .fault = fault, .status = status };
        TransportDone done = take(ports->reply_to);

        cr_assert_not_null(done, "nothing is in flight");
        done(&reply, ports->sender);
}

/* What fake_fetch() was asked for: the oldest that the store has, or has behind another. */
static void give(Ports *ports) {
        size_t place = ports->n_kept;
        Batch *batch;

        cr_assert(ports->is_fetching);
        ports->is_fetching = false;
        for (size_t i = 0; i < ports->n_kept; i++)
                if (ports->kept[i]->data[0] > ports->after &&
                    (place == ports->n_kept || ports->kept[i]->data[0] < ports->kept[place]->data[0]))
                        place = i;
        if (place == ports->n_kept) {
                ports->events->fetched(NULL, ports->listener);
                return;
        }
        batch = ports->kept[place];
        memmove(ports->kept + place, ports->kept + place + 1, (--ports->n_kept - place) * sizeof(batch));
        batch->copy = BATCH_STORED;
        batch->entry = (SpoolEntry){ .time_ns = batch->data[0], .sequence = 1 };
        ports->events->fetched(batch, ports->listener);
}

/* Until the wait after a failure is over. */
static void wait_for_attempt(Ports *ports) {
        size_t n = strlen(ports->sent);

        while (strlen(ports->sent) == n && !ports->is_fetching)
                cr_assert_geq(sd_event_run(ports->event, UINT64_MAX), 0);
}

static void on_stopped(void *userdata) {
        ((Ports *)userdata)->stopped = true;
}

static void stop(Ports *ports, uint64_t deadline_ns) {
        cr_assert_eq(exporter_stop(ports->exporter, deadline_ns, on_stopped, ports), 0);
}

static void wait_until_stopped(Ports *ports) {
        while (!ports->stopped)
                cr_assert_geq(sd_event_run(ports->event, UINT64_MAX), 0);
}

Test(exporter, sends_one_after_the_other) {
        Ports ports = { 0 };

        start(&ports, false, 100);
        submit(&ports, "abc");
        cr_assert_str_eq(ports.sent, "a");
        cr_assert_eq(exporter_queued_events(ports.exporter), 6);
        answer(&ports, HTTP_FAULT_NONE, 200);
        cr_assert_str_eq(ports.sent, "ab");
        answer(&ports, HTTP_FAULT_NONE, 400);
        answer(&ports, HTTP_FAULT_NONE, 200);
        cr_assert_str_eq(ports.sent, "abc");
        cr_assert_eq(exporter_count(ports.exporter, COUNTER_SAMPLES_DELIVERED), 4);
        cr_assert_eq(exporter_count(ports.exporter, COUNTER_LOST_EXPORT_REFUSED), 2);
        cr_assert_eq(exporter_queued_events(ports.exporter), 0);
        end(&ports);
        cr_assert_eq(stat_lost(), 2);
}

Test(exporter, waits_after_a_failure_and_tries_the_oldest_again) {
        Ports ports = { 0 };

        start(&ports, false, 2);
        submit(&ports, "ab");
        answer(&ports, HTTP_FAULT_CONNECT, 0);
        submit(&ports, "c");            /* takes the room of `a`, which is back in the queue */
        cr_assert_str_eq(ports.sent, "a");
        cr_assert(exporter_is_failing(ports.exporter));
        wait_for_attempt(&ports);
        cr_assert_str_eq(ports.sent, "ab");
        answer(&ports, HTTP_FAULT_NONE, 200);
        cr_assert_not(exporter_is_failing(ports.exporter));
        answer(&ports, HTTP_FAULT_NONE, 200);
        cr_assert_str_eq(ports.sent, "abc");
        cr_assert_eq(exporter_count(ports.exporter, COUNTER_LOST_EXPORT_QUEUE), 1);
        end(&ports);
        cr_assert_eq(stat_lost(), 1);
}

Test(exporter, takes_a_request_that_cannot_be_made_for_a_failure) {
        Ports ports = { .send_error = -ENOMEM };

        start(&ports, false, 100);
        submit(&ports, "a");
        cr_assert_eq(exporter_count(ports.exporter, COUNTER_EXPORT_RETRIES), 1);
        ports.send_error = 0;
        wait_for_attempt(&ports);
        answer(&ports, HTTP_FAULT_NONE, 200);
        cr_assert_eq(exporter_count(ports.exporter, COUNTER_SAMPLES_DELIVERED), 1);
        end(&ports);
}

Test(exporter, makes_one_attempt_each_at_the_stop_and_loses_the_rest) {
        Ports ports = { 0 };

        start(&ports, false, 100);
        submit(&ports, "abc");
        stop(&ports, UINT64_MAX / 2);
        answer(&ports, HTTP_FAULT_CONNECT, 0);
        answer(&ports, HTTP_FAULT_NONE, 200);
        cr_assert_not(ports.stopped);
        answer(&ports, HTTP_FAULT_NONE, 503);
        wait_until_stopped(&ports);
        cr_assert_str_eq(ports.sent, "abc");
        cr_assert_eq(exporter_count(ports.exporter, COUNTER_LOST_STOP), 4);
        end(&ports);
        cr_assert_eq(stat_lost(), 4);
}

Test(exporter, loses_what_is_left_when_time_is_up) {
        Ports ports = { 0 };

        start(&ports, false, 100);
        submit(&ports, "ab");
        stop(&ports, clock_monotonic_ns());
        wait_until_stopped(&ports);
        cr_assert_null(ports.reply_to, "the request under way is cancelled");
        cr_assert_eq(exporter_count(ports.exporter, COUNTER_LOST_STOP), 3);
        end(&ports);
        cr_assert_eq(stat_lost(), 3);
}

Test(exporter, given_up_loses_what_is_left_once_and_tells_nobody) {
        Ports ports = { 0 };

        start(&ports, false, 100);
        submit(&ports, "ab");
        stop(&ports, UINT64_MAX / 2);
        exporter_give_up(ports.exporter);
        cr_assert_null(ports.reply_to, "the request under way is cancelled");
        cr_assert_eq(exporter_count(ports.exporter, COUNTER_LOST_STOP), 3);
        end(&ports);
        cr_assert_not(ports.stopped);
        cr_assert_eq(stat_lost(), 3);
}

Test(exporter, holds_a_copy_in_the_store_until_the_answer) {
        Ports ports = { 0 };

        start(&ports, true, 100);
        submit(&ports, "ab");
        cr_assert_str_eq(ports.held, "ab");
        cr_assert_str_eq(ports.removed, "");
        answer(&ports, HTTP_FAULT_NONE, 200);
        answer(&ports, HTTP_FAULT_NONE, 400);
        cr_assert_str_eq(ports.removed, "ab", "delivered or lost: it has its end");
        cr_assert_str_eq(ports.buried, "b", "what was refused is kept for a person");
        end(&ports);
}

Test(exporter, keeps_in_the_store_what_a_receiver_of_another_draft_refuses) {
        Ports ports = { 0 };

        start(&ports, true, 100);
        submit(&ports, "ab");
        answer(&ports, HTTP_FAULT_NONE, 404);
        cr_assert(exporter_is_failing(ports.exporter));
        wait_for_attempt(&ports);
        give(&ports);
        answer(&ports, HTTP_FAULT_NONE, 404);
        cr_assert_str_eq(ports.buried, "");
        cr_assert_eq(ports.n_kept, 2);
        wait_for_attempt(&ports);
        give(&ports);                   /* it was upgraded */
        answer(&ports, HTTP_FAULT_NONE, 200);
        cr_assert_eq(exporter_count(ports.exporter, COUNTER_LOST_EXPORT_REFUSED), 0);
        cr_assert_eq(exporter_count(ports.exporter, COUNTER_EXPORT_RETRIES), 2);
        end(&ports);
        cr_assert_eq(stat_lost(), 0);
}

/* The receiver's answer to what comes next from the store, after the wait for it if there is one. */
static void attempt(Ports *ports, int status) {
        wait_for_attempt(ports);
        while (ports->is_fetching)
                give(ports);
        answer(ports, HTTP_FAULT_NONE, status);
}

Test(exporter, goes_on_behind_each_batch_that_is_refused) {
        Ports ports = { 0 };

        start(&ports, true, 100);
        submit(&ports, "abcd");
        answer(&ports, HTTP_FAULT_NONE, 404);
        attempt(&ports, 404);
        attempt(&ports, 404);
        attempt(&ports, 200);
        cr_assert_str_eq(ports.sent, "abac", "two that it cannot read do not keep it from the third");
        attempt(&ports, 404);
        cr_assert_str_eq(ports.buried, "a", "it has accepted another");
        attempt(&ports, 404);
        cr_assert_str_eq(ports.buried, "a", "of the next that is not known yet");
        attempt(&ports, 200);
        attempt(&ports, 404);
        cr_assert_str_eq(ports.sent, "abacabdb");
        cr_assert_str_eq(ports.buried, "ab");
        cr_assert_eq(exporter_count(ports.exporter, COUNTER_SAMPLES_DELIVERED), 3 + 4);
        cr_assert_eq(exporter_count(ports.exporter, COUNTER_LOST_EXPORT_REFUSED), 1 + 2);
        cr_assert_eq(exporter_spooled_batches(ports.exporter), 0);
        end(&ports);
}

Test(exporter, begins_anew_behind_the_oldest_when_all_are_refused) {
        Ports ports = { 0 };

        start(&ports, true, 100);
        submit(&ports, "abc");
        answer(&ports, HTTP_FAULT_NONE, 404);
        for (unsigned i = 0; i < 7; i++)
                attempt(&ports, 404);
        cr_assert_str_eq(ports.sent, "abacaaab");
        cr_assert_eq(ports.n_kept, 3);
        end(&ports);
        cr_assert_eq(stat_lost(), 0);
}

Test(exporter, sends_no_more_than_two_while_nothing_is_answered) {
        Ports ports = { 0 };

        start(&ports, true, 100);
        submit(&ports, "abc");
        answer(&ports, HTTP_FAULT_TIMEOUT, 0);
        for (unsigned i = 0; i < 4; i++) {
                wait_for_attempt(&ports);
                give(&ports);
                answer(&ports, HTTP_FAULT_TIMEOUT, 0);
        }
        cr_assert_str_eq(ports.sent, "ababa", "each may have arrived, and would again");
        end(&ports);
}

Test(exporter, waits_for_an_upgrade_for_a_while_beside_others) {
        Ports ports = { .max_draft_ns = 3600 * NS_PER_SEC };

        start(&ports, true, 100);
        submit(&ports, "abc");
        answer(&ports, HTTP_FAULT_NONE, 404);
        attempt(&ports, 200);
        attempt(&ports, 404);
        cr_assert_str_eq(ports.sent, "aba");
        cr_assert_str_eq(ports.buried, "", "several receivers may be upgraded one by one");
        attempt(&ports, 200);
        cr_assert_eq(ports.n_kept, 1);
        end(&ports);
        cr_assert_eq(stat_lost(), 0);
}

Test(exporter, without_a_store_loses_what_a_receiver_of_another_draft_refuses) {
        Ports ports = { 0 };

        start(&ports, false, 100);
        submit(&ports, "ab");
        answer(&ports, HTTP_FAULT_NONE, 404);
        answer(&ports, HTTP_FAULT_NONE, 404);
        cr_assert_eq(exporter_count(ports.exporter, COUNTER_LOST_EXPORT_REFUSED), 3);
        end(&ports);
}

Test(exporter, offers_again_what_the_store_had_no_room_for) {
        Ports ports = { 0 };

        start(&ports, true, 100);
        ports.has_room = false;
        submit(&ports, "abc");
        cr_assert_str_eq(ports.held, "");
        cr_assert_eq(exporter_unsaved_events(ports.exporter), 6);
        ports.has_room = true;
        ports.events->progressed(ports.listener);
        cr_assert_str_eq(ports.held, "abc");
        cr_assert_eq(exporter_unsaved_events(ports.exporter), 0);
        end(&ports);
}

Test(exporter, lets_the_store_keep_everything_while_the_receiver_is_in_trouble) {
        Ports ports = { 0 };

        start(&ports, true, 100);
        submit(&ports, "abc");
        answer(&ports, HTTP_FAULT_CONNECT, 0);
        submit(&ports, "d");
        cr_assert_eq(ports.n_kept, 4);
        cr_assert_str_eq(ports.held, "abc", "what comes later is kept at once");
        wait_for_attempt(&ports);
        cr_assert_str_eq(ports.sent, "a");
        give(&ports);
        cr_assert_str_eq(ports.sent, "aa");
        end(&ports);
        cr_assert_eq(stat_lost(), 0);
}

Test(exporter, sends_old_and_new_in_turns) {
        Ports ports = { 0 };

        start(&ports, true, 100);
        submit(&ports, "abc");
        answer(&ports, HTTP_FAULT_CONNECT, 0);
        wait_for_attempt(&ports);
        give(&ports);
        answer(&ports, HTTP_FAULT_NONE, 200);   /* of `a`; the queue is empty and `b` is asked for */
        submit(&ports, "de");
        give(&ports);
        answer(&ports, HTTP_FAULT_NONE, 200);
        cr_assert_str_eq(ports.sent, "aabd");
        answer(&ports, HTTP_FAULT_NONE, 200);
        give(&ports);
        answer(&ports, HTTP_FAULT_NONE, 200);
        cr_assert_str_eq(ports.sent, "aabdce");
        answer(&ports, HTTP_FAULT_NONE, 200);
        cr_assert_eq(exporter_count(ports.exporter, COUNTER_EXPORT_OK), 5);
        end(&ports);
}

Test(exporter, gives_back_what_was_fetched_in_vain) {
        Ports ports = { 0 };

        start(&ports, true, 100);
        submit(&ports, "ab");
        answer(&ports, HTTP_FAULT_CONNECT, 0);
        wait_for_attempt(&ports);
        stop(&ports, UINT64_MAX / 2);
        cr_assert_eq(ports.n_kept, 2);
        give(&ports);
        cr_assert_eq(ports.n_kept, 2, "the stop sends nothing of the store");
        wait_until_stopped(&ports);
        end(&ports);
        cr_assert_eq(stat_lost(), 0);
}

Test(exporter, takes_back_what_the_store_could_not_write) {
        Ports ports = { 0 };
        Batch *batch;

        start(&ports, true, 100);
        ports.has_room = false;
        submit(&ports, "a");
        ports.has_room = true;
        answer(&ports, HTTP_FAULT_CONNECT, 0);
        batch = ports.kept[--ports.n_kept];
        ports.events->returned(batch, ports.listener);
        cr_assert_eq(exporter_queued_events(ports.exporter), 1);
        wait_for_attempt(&ports);
        cr_assert_str_eq(ports.sent, "aa");
        end(&ports);
}
