/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The daemon's links to JVMs, over real workers that do what the size of the pretended libjvm says: answer,
 * die, lie, hang. The JVM is this process.
 */

#include <criterion/criterion.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/sandbox/channel.h"
#include "core/base/util/clock.h"
#include "core/base/util/stat.h"
#include "host/runtime/hotspot/hotspot-link.h"
#include "stat-reset.h"

enum { HONEST = 1000, IS_UNKNOWN, LIES_OPEN, LIES_LATER, DIES_OPEN, DIES_LATER, HANGS, CHATTERS, NOT_READY };

#define HEAP UINT64_C(0x7f0000000000)

static void say(int socket, uint32_t kind, int32_t result, uint32_t n) {
        const HotspotSaid said = { .magic = HOTSPOT_WIRE_MAGIC, .kind = kind, .result = result, .n = n };

        if (channel_send(socket, &said, sizeof(said), -1))
                _exit(0);
}

static void say_opened(int socket, uint64_t size) {
        static HotspotOpened opened;

        opened.layout.version = 17;
        opened.code = (HotspotCode){ .n_heaps = size == LIES_OPEN ? 9 : 1, .interpreter_low = HEAP + 16,
                                     .interpreter_high = HEAP + 64 };
        opened.code.heaps[0] = (HotspotHeap){ HEAP, HEAP + 4096, HEAP + 8192, 7 };
        memset(opened.reason, '\n', sizeof(opened.reason));
        say(socket, HOTSPOT_SAID_OPEN,
            size == IS_UNKNOWN         ? HOTSPOT_E_UNKNOWN
                    : size == NOT_READY ? HOTSPOT_E_LATER
                                        : 0,
            0);
        channel_send(socket, &opened, sizeof(opened), -1);
}

/* The name is what word 0 of the question points at in our memory. */
static void say_name(int socket, ReaderHandle *handle, uint64_t address) {
        char text[8] = "";
        const HotspotWireFrame frame = { .kind = HOTSPOT_FRAME_COMPILED, .line = 7, .bci = -1,
                                         .n_name = sizeof(text), .n_signature = 1, .n_file = 1 };

        if (!reader_handle_read(handle, address, text, sizeof(text))) {
                say(socket, HOTSPOT_SAID_FRAMES, HOTSPOT_E_NAMELESS, 0);
                return;
        }
        say(socket, HOTSPOT_SAID_FRAMES, 0, 1);
        channel_send(socket, &frame, sizeof(frame), -1);
        channel_send(socket, text, sizeof(text), -1);
        channel_send(socket, "\0", 2, -1);
}

/* Two of a thread; or fewer than the answer has said. */
static void say_locks(int socket, bool is_lie) {
        static RuntimeLocks locks;

        locks = (RuntimeLocks){ .n = is_lie ? 1 : 2, .locks = { { .tid = 7, .owner = 8, .name = "a.Lock" } } };
        say(socket, HOTSPOT_SAID_LOCKS, 0, 2);
        channel_send(socket, &locks, runtime_locks_size(2), -1);
}

static void work(int socket) {
        HotspotQuestion question;
        ReaderRequest request;
        ReaderHandle handle;
        int fd;

        if (channel_receive(socket, &request, sizeof(request), &fd, 0) != sizeof(request) ||
            !reader_handle_receive(&handle, socket) || request.size == DIES_OPEN)
                _exit(0);
        if (request.size == HANGS)
                poll(NULL, 0, -1);
        say_opened(socket, request.size);
        while (!channel_receive_all(socket, &question, sizeof(question))) {
                if (request.size == DIES_LATER)
                        _exit(0);
                if (question.kind == HOTSPOT_SAID_LOCKS) {
                        say_locks(socket, request.size == LIES_LATER);
                        continue;
                }
                if (request.size == LIES_LATER)
                        say(socket, HOTSPOT_SAID_FRAMES, 0, HOTSPOT_MAX_INLINED + 1);
                while (request.size == CHATTERS)
                        say_name(socket, &handle, question.words[0]);
                say_name(socket, &handle, question.words[0]);
        }
        _exit(0);
}

__attribute__((__constructor__)) static void become_zygote(int argc, char **argv) {
        if (argc == 1 && !strcmp(argv[0], ZYGOTE_NAME))
                zygote_serve(work);
}

static Zygotes *zygotes;
static ReaderLinks *readers;
static HotspotLinks *links;
static const char *const name = "a.b.cde";
static char *absent;                    /* memory that nobody has touched */

static void setup(void) {
        stat_reset();
        cr_assert_eq(zygotes_new(&zygotes), 0);
        cr_assert_eq(zygotes_wait(zygotes, 60000), 0);
        cr_assert_eq(reader_links_new(&readers, zygotes), 0);
        cr_assert_eq(hotspot_links_new(&links, readers), 0);
        absent = mmap(NULL, 8192, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        cr_assert_neq(absent, MAP_FAILED);
}

static void teardown(void) {
        links = hotspot_links_free(links);
        readers = reader_links_free(readers);
        zygotes = zygotes_free(zygotes);
        cr_assert_eq(waitpid(-1, NULL, WNOHANG), -1, "a child is left");
}

TestSuite(link, .init = setup, .fini = teardown);

static HotspotLink *make_of(uint64_t size, ShareOwner owner) {
        const ReaderSubject subject = { .pid = getpid(), .size = size, .owner = owner,
                                        .fd = memfd_create("libjvm", MFD_CLOEXEC) };
        HotspotLink *link = NULL;

        cr_assert_eq(hotspot_link_new(&link, links, &subject), 0);
        return link;
}

static HotspotLink *make(uint64_t size) {
        return make_of(size, (ShareOwner){ 0 });
}

static int open_link(HotspotLink *link) {
        const HotspotOpened *opened;
        int r = hotspot_link_open(link, &opened);

        for (const char *at = opened->reason; *at; at++)
                cr_assert(*at >= ' ' && *at <= '~', "it goes to terminals");
        return r;
}

static int ask(HotspotLink *link, const char *address) {
        const uint64_t words[HOTSPOT_WORDS] = { (uint64_t)(uintptr_t)address };
        const HotspotFrames *frames = NULL;
        int r = hotspot_link_frames(link, words, &frames);

        if (!r) {
                cr_assert_eq(frames->n, 1);
                cr_assert_str_eq(frames->frames[0].name, name);
                cr_assert_eq(frames->frames[0].line, 7);
        }
        return r;
}

static uint64_t n_workers(void) {
        return stat_get(COUNTER_WORKERS_STARTED);
}

Test(link, one_worker_names_what_lies_in_its_jvm) {
        HotspotLink *link = make(HONEST);

        cr_assert_eq(open_link(link), 0);
        for (int i = 0; i < 100; i++)
                cr_assert_eq(ask(link, name), 0);
        cr_assert_eq(ask(link, absent), HOTSPOT_E_NAMELESS, "no page is made to come");
        cr_assert_eq(ask(link, NULL), HOTSPOT_E_NAMELESS);
        cr_assert_eq(ask(link, (char *)-9), HOTSPOT_E_NAMELESS);
        cr_assert_eq(n_workers(), 1);
        zygotes_tend(zygotes);
        cr_assert_eq(ask(link, name), 0);
        cr_assert_gt(hotspot_link_cpu_ns(link), 0);
        hotspot_link_free(link);
        cr_assert_eq(stat_get(COUNTER_WORKERS_DIED) + stat_get(COUNTER_WORKERS_LATE) +
                             stat_get(COUNTER_WORKERS_MALFORMED),
                     0);
}

Test(link, what_is_not_known_or_not_ready_is_no_failure) {
        HotspotLink *unknown = make(IS_UNKNOWN), *young = make(NOT_READY);

        cr_assert_eq(open_link(unknown), HOTSPOT_E_UNKNOWN);
        for (int i = 0; i < 3; i++)
                cr_assert_eq(open_link(young), HOTSPOT_E_LATER);
        cr_assert_eq(n_workers(), 4);
        hotspot_link_free(unknown);
        hotspot_link_free(young);
}

Test(link, a_jvm_that_has_gone_is_later) {
        const ReaderSubject subject = { .pid = 0x3ffffff, .size = HONEST, .fd = memfd_create("libjvm", 0) };
        HotspotLink *link = NULL;

        cr_assert_eq(hotspot_link_new(&link, links, &subject), 0);
        cr_assert_eq(open_link(link), HOTSPOT_E_LATER);
        cr_assert_eq(ask(link, name), HOTSPOT_E_LATER);
        cr_assert_eq(n_workers(), 0, "none is made for nothing");
        hotspot_link_free(link);
}

Test(link, a_worker_says_what_threads_wait_for) {
        HotspotLink *link = make(HONEST), *liar = make(LIES_LATER);
        static RuntimeLocks locks;

        cr_assert_eq(open_link(link), 0);
        cr_assert_eq(hotspot_link_locks(link, &locks), 0);
        cr_assert_eq(locks.n, 2);
        cr_assert_eq(locks.locks[0].owner, 8);
        cr_assert_str_eq(locks.locks[0].name, "a.Lock");
        cr_assert_eq(ask(link, name), 0, "it goes on with frames");
        cr_assert_eq(open_link(liar), 0);
        cr_assert_eq(hotspot_link_locks(liar, &locks), HOTSPOT_E_LATER);
        cr_assert_eq(stat_get(COUNTER_WORKERS_MALFORMED), 1);
        hotspot_link_free(link);
        hotspot_link_free(liar);
}

/* The first death costs one answer, the second one a second. */
static void check_failure(uint64_t size, bool is_open, enum counter counter) {
        HotspotLink *link = make(size), *other = make(HONEST);
        uint64_t begin_ns = clock_monotonic_ns();

        cr_assert_eq(open_link(other), 0);
        cr_assert_eq(open_link(link), is_open ? HOTSPOT_E_GONE : 0);
        if (!is_open)
                cr_assert_eq(ask(link, name), HOTSPOT_E_LATER);
        cr_assert_eq(stat_get(counter), 1);
        cr_assert_eq(ask(link, name), HOTSPOT_E_LATER);
        cr_assert_eq(stat_get(counter), 2, "it was made again");
        for (int i = 0; i < 10; i++)
                ask(link, name);
        if (clock_monotonic_ns() - begin_ns < NS_PER_SEC)
                cr_assert_eq(stat_get(counter), 2, "and now it rests");
        cr_assert_eq(ask(other, name), 0, "another JVM is named all the same");
        hotspot_link_free(link);
        hotspot_link_free(other);
}

Test(link, a_worker_that_dies_when_it_opens) {
        check_failure(DIES_OPEN, true, COUNTER_WORKERS_DIED);
}

Test(link, a_worker_that_dies_when_it_is_asked) {
        check_failure(DIES_LATER, false, COUNTER_WORKERS_DIED);
}

Test(link, a_worker_that_lies_when_it_opens) {
        check_failure(LIES_OPEN, true, COUNTER_WORKERS_MALFORMED);
}

Test(link, a_worker_that_lies_when_it_is_asked) {
        check_failure(LIES_LATER, false, COUNTER_WORKERS_MALFORMED);
}

Test(link, a_worker_that_hangs_is_late_and_costs_no_more_than_its_time) {
        HotspotLink *link = make(HANGS), *other = make(HANGS), *third = make(HANGS);

        cr_assert_eq(open_link(link), HOTSPOT_E_GONE);
        cr_assert_eq(open_link(other), HOTSPOT_E_GONE);
        cr_assert_eq(stat_get(COUNTER_WORKERS_LATE), 2);
        cr_assert_eq(open_link(third), HOTSPOT_E_LATER, "all JVMs together have had their time");
        cr_assert_eq(stat_get(COUNTER_WORKERS_LATE), 2);
        hotspot_link_free(link);
        hotspot_link_free(other);
        hotspot_link_free(third);
}

Test(link, a_worker_that_is_killed_while_nobody_asks_is_missed) {
        HotspotLink *link = make(HONEST);
        pid_t pid = 0;

        cr_assert_eq(open_link(link), 0);
        for (int i = 0; i < 10000 && pid <= 0; i++, poll(NULL, 0, 1)) {
                zygotes_tend(zygotes);
                pid = zygotes_pid(zygotes, 2);          /* serial 1 is the second zygote's */
                if (pid <= 0)
                        pid = zygotes_pid(zygotes, 1);
        }
        cr_assert_gt(pid, 1);
        cr_assert_eq(kill(pid, SIGKILL), 0);
        for (int i = 0; i < 10000 && !stat_get(COUNTER_WORKERS_DIED); i++, poll(NULL, 0, 1))
                hotspot_links_tend(links, clock_monotonic_ns());
        cr_assert_eq(stat_get(COUNTER_WORKERS_DIED), 1);
        cr_assert_eq(ask(link, name), 0, "the next one is there at once");
        hotspot_link_free(link);
}

Test(link, a_worker_that_talks_unasked_is_ended) {
        HotspotLink *link = make(CHATTERS);

        cr_assert_eq(open_link(link), 0);
        cr_assert_eq(ask(link, name), 0);
        for (int i = 0; i < 10000 && !stat_get(COUNTER_WORKERS_MALFORMED); i++, poll(NULL, 0, 1))
                hotspot_links_tend(links, clock_monotonic_ns());
        cr_assert_eq(stat_get(COUNTER_WORKERS_MALFORMED), 1);
        hotspot_link_free(link);
}

Test(link, a_worker_that_nobody_asks_is_not_kept) {
        HotspotLink *link = make(HONEST);

        cr_assert_eq(open_link(link), 0);
        hotspot_links_tend(links, clock_monotonic_ns() + 5 * NS_PER_SEC);
        cr_assert_eq(ask(link, name), 0);
        cr_assert_eq(n_workers(), 1);
        hotspot_links_tend(links, clock_monotonic_ns() + 60 * NS_PER_SEC);
        cr_assert_eq(ask(link, name), 0);
        cr_assert_eq(n_workers(), 2);
        cr_assert_eq(stat_get(COUNTER_WORKERS_DIED), 0);
        hotspot_link_free(link);
}

/* More processes than workers: those that are asked all the time keep theirs, and all have a turn. */
Test(link, a_worker_that_is_asked_does_not_have_to_go_at_once) {
        HotspotLink *many[READER_MAX_LINKED + 1];
        unsigned n_named = 0;

        for (unsigned i = 0; i <= READER_MAX_LINKED; i++)
                many[i] = make(HONEST);
        for (unsigned i = 0; i < READER_MAX_LINKED; i++)
                while (open_link(many[i]))
                        poll(NULL, 0, 100);
        for (unsigned turn = 0; turn < 2; turn++)
                for (unsigned i = 0; i < READER_MAX_LINKED; i++)
                        n_named += !ask(many[i], name);
        if (n_named < 2 * READER_MAX_LINKED || stat_get(COUNTER_WORKERS_EVICTED))
                cr_skip_test("machine: too busy, the turn of some is over");
        cr_assert_eq(open_link(many[READER_MAX_LINKED]), HOTSPOT_E_LATER, "all are busy");
        cr_assert_eq(stat_get(COUNTER_WORKERS_AWAITED), 1);
        cr_assert_eq(n_workers(), READER_MAX_LINKED);
        for (unsigned i = 0; open_link(many[READER_MAX_LINKED]); i++) {
                cr_assert(i < 600, "it has a turn, too");
                ask(many[i % READER_MAX_LINKED], name);
                poll(NULL, 0, 20);
        }
        cr_assert_eq(stat_get(COUNTER_WORKERS_EVICTED), 1);
        for (unsigned i = 0; i <= READER_MAX_LINKED; i++)
                hotspot_link_free(many[i]);
}

Test(link, the_one_that_waits_longest_makes_room) {
        HotspotLink *many[READER_MAX_LINKED + 1];
        unsigned n_open = 0;

        /* on a busy machine, all together may have had their time: in the next second */
        for (unsigned i = 0; i <= READER_MAX_LINKED; i++) {
                many[i] = make(HONEST);
                while (open_link(many[i]))
                        poll(NULL, 0, 100);
                n_open++;
        }
        cr_assert_eq(stat_get(COUNTER_WORKERS_EVICTED), 1);
        cr_assert_eq(n_workers(), n_open);
        while (ask(many[1], name))
                poll(NULL, 0, 100);
        cr_assert_eq(n_workers(), n_open, "the second one has its worker");
        while (ask(many[0], name))
                poll(NULL, 0, 100);
        cr_assert_eq(n_workers(), n_open + 1, "the first one had to go");
        cr_assert_eq(stat_get(COUNTER_WORKERS_EVICTED), 2);
        for (unsigned i = 0; i <= READER_MAX_LINKED; i++)
                hotspot_link_free(many[i]);
}

static const ShareOwner honest_owner = { .group = 7, .user = 1001, .process = 7 };

/* Links of one group and user, each of a process of its own. */
static HotspotLink *make_crowded(uint64_t size, uint64_t process) {
        return make_of(size, (ShareOwner){ .group = 1, .user = 1000, .process = process });
}

Test(link, a_crowd_gives_a_worker_to_who_has_less_and_does_not_take_it_back) {
        HotspotLink *crowd[READER_MAX_LINKED], *honest = make_of(HONEST, honest_owner);
        uint64_t n;

        for (unsigned i = 0; i < READER_MAX_LINKED; i++) {
                crowd[i] = make_crowded(HONEST, 100 + i);
                while (open_link(crowd[i]))
                        poll(NULL, 0, 100);
        }
        cr_assert_eq(stat_get(COUNTER_WORKERS_EVICTED), 0);
        while (open_link(honest))
                poll(NULL, 0, 100);
        cr_assert_eq(stat_get(COUNTER_WORKERS_EVICTED), 1, "at once, though all are busy");
        cr_assert_eq(stat_get(COUNTER_WORKERS_AWAITED), 0);
        poll(NULL, 0, 1100);            /* time in which none is asked */
        for (unsigned turn = 0; turn < 3; turn++)
                for (unsigned i = 0; i < READER_MAX_LINKED; i++)
                        ask(crowd[i], name);
        n = n_workers();
        cr_assert_geq(stat_get(COUNTER_WORKERS_EVICTED), 2, "the crowd takes turns");
        while (ask(honest, name))
                poll(NULL, 0, 100);
        cr_assert_eq(n_workers(), n, "the other one has its worker");
        for (unsigned i = 0; i < READER_MAX_LINKED; i++)
                hotspot_link_free(crowd[i]);
        hotspot_link_free(honest);
}

Test(link, time_of_a_second_is_left_for_who_has_used_less) {
        HotspotLink *first = make_crowded(HANGS, 100), *second = make_crowded(HANGS, 101),
                    *third = make_crowded(HANGS, 102), *honest = make_of(HONEST, honest_owner);
        uint64_t begin_ns;
        int r;

        cr_assert_eq(open_link(first), HOTSPOT_E_GONE);
        cr_assert_eq(open_link(second), HOTSPOT_E_GONE, "there is nobody else");
        r = open_link(honest);
        if (!r)
                cr_skip_test("machine: too busy, a second was over");
        cr_assert_eq(r, HOTSPOT_E_LATER, "all is spent");
        poll(NULL, 0, 1100);
        begin_ns = clock_monotonic_ns();
        cr_assert_eq(open_link(third), HOTSPOT_E_GONE, "some of this second is for who has used more, too");
        cr_assert_eq(stat_get(COUNTER_WORKERS_LATE), 3);
        r = open_link(first);
        if (clock_monotonic_ns() - begin_ns > NS_PER_SEC)
                cr_skip_test("machine: too busy, a second was over");
        cr_assert_eq(r, HOTSPOT_E_LATER);
        cr_assert_eq(stat_get(COUNTER_WORKERS_LATE), 3, "it was not asked");
        cr_assert_eq(open_link(honest), 0);
        hotspot_link_free(first);
        hotspot_link_free(second);
        hotspot_link_free(third);
        hotspot_link_free(honest);
}
