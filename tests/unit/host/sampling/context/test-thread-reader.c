/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Files looked through by real workers, and by workers that lie. The zygotes is this program once more (as in
 * test-sandbox.c); a size that no file has says how a worker lies.
 */

#include <criterion/criterion.h>
#include <dirent.h>
#include <elf.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "border/abi.h"
#include "core/base/sandbox/channel.h"
#include "core/base/util/clock.h"
#include "core/base/util/stat.h"
#include "host/sampling/context/thread-reader.h"
#include "host/sampling/context/thread-wire.h"
#include "stat-reset.h"

enum { LIE_NOTHING = 1, LIE_CUT, LIE_MAGIC, LIE_NAME, LIE_FORM, LIE_SLOTS, LIE_KIND, LIE_BLOCK, LIE_BITS,
       LIE_SAYS, LIE_N };

static void lie(int socket, uint64_t how) {
        ThreadWireAnswer answer = {
                .magic = THREAD_WIRE_MAGIC, .name = 1, .form = ABI_FORM_THREAD, .n_slots = 1, .block_size = 8
        };

        if (how == LIE_NOTHING)
                _exit(0);
        answer.magic += how == LIE_MAGIC;
        answer.name += how == LIE_NAME ? 100 : 0;
        answer.form += how == LIE_FORM ? 100 : 0;
        answer.n_slots += how == LIE_SLOTS ? 100 : 0;
        answer.slots[0].kind = how == LIE_KIND ? 3 : 0;
        answer.runtimes.bits = how == LIE_BITS ? 1 << 20 : 0;
        answer.runtimes.says[0] = how == LIE_SAYS ? '\n' : 0;
        answer.value = how == LIE_BLOCK ? UINT64_MAX - 3 : 0;
        channel_send(socket, &answer, how == LIE_CUT ? 20 : sizeof(answer), -1);
        _exit(0);
}

static void work(int socket) {
        static const ObjectRuntimes runtimes = { .bits = 5, .says = "toy 9" };
        ThreadWireRequest request;
        int fd;

        if (channel_receive(socket, &request, sizeof(request), &fd, 0) != sizeof(request))
                _exit(0);
        if (request.size < LIE_N)
                lie(socket, request.size);
        if (fd >= 0)
                thread_wire_serve(socket, fd, &request, &runtimes);
        _exit(0);
}

__attribute__((__constructor__)) static void become_zygote(int argc, char **argv) {
        if (argc == 1 && !strcmp(argv[0], ZYGOTE_NAME))
                zygote_serve(work);
}

static const ShareOwner quick = { .group = 1, .user = 0, .process = 1 };
static Zygotes *zygotes;
static ThreadReader *reader;
static ObjectCache *cache;
static Object *object;                  /* one without the variable */

static void setup(void) {
        char path[4096] = "";

        stat_reset();
        cr_assert_eq(zygotes_new(&zygotes), 0);
        cr_assert_eq(zygotes_wait(zygotes, 60000), 0);
        cr_assert_eq(thread_reader_new(&reader, zygotes), 0);
        cr_assert_eq(object_cache_new(&cache, 100), 0);
        cr_assert_gt(readlink("/proc/self/exe", path, sizeof(path) - 1), 0);
        cr_assert_eq(object_open_path(cache, path, 0, &object), 0);
        object_cache_set_ask(cache, thread_reader_ask, reader);
}

static void teardown(void) {
        reader = thread_reader_free(reader);
        object_unref(object);
        cache = object_cache_free(cache);
        zygotes = zygotes_free(zygotes);
}

TestSuite(thread_reader, .init = setup, .fini = teardown);

static void wait_answers(void) {
        uint64_t end_ns = clock_monotonic_ns() + 60 * NS_PER_SEC;

        while (thread_reader_is_busy(reader)) {
                struct pollfd wait = { .fd = thread_reader_fd(reader), .events = POLLIN };

                cr_assert_lt(clock_monotonic_ns(), end_ns, "nothing happens");
                poll(&wait, 1, 1000);
                thread_reader_step(reader);
        }
}

static void check_same(const ThreadSymbol *here, const ThreadSymbol *there, const char *name) {
        cr_expect_eq(here->name, there->name, "%s", name);
        cr_expect_eq(here->form, there->form, "%s", name);
        cr_expect_eq(here->unread, there->unread, "%s", name);
        cr_expect_eq(here->value, there->value, "%s", name);
        cr_expect_eq(here->block_size, there->block_size, "%s", name);
        cr_expect_eq(here->local_offset, there->local_offset, "%s", name);
        cr_assert_eq(here->n_slots, there->n_slots, "%s", name);
        for (uint32_t i = 0; i < here->n_slots; i++) {
                cr_expect_eq(here->slots[i].address, there->slots[i].address, "%s", name);
                cr_expect_eq(here->slots[i].kind, there->slots[i].kind, "%s", name);
                cr_expect_eq(here->slots[i].has_symbol, there->slots[i].has_symbol, "%s", name);
        }
}

/* The corpus of the fuzzer: good files and broken ones. */
Test(thread_reader, a_worker_finds_what_would_be_found_here) {
        const char *root = getenv("BUILD_DIR");
        unsigned n_forms = 0;
        struct dirent *entry;
        char path[4096];
        DIR *dir;

        snprintf(path, sizeof(path), "%s/tests/fuzz/corpus/thread-symbol", root ? root : "build");
        dir = opendir(path);
        if (!dir)
                cr_skip_test("library: BUILD_DIR is not set");
        while ((entry = readdir(dir))) {
                ThreadSymbol here;
                struct stat st;
                int fd = openat(dirfd(dir), entry->d_name, O_RDONLY | O_CLOEXEC);

                if (entry->d_name[0] == '.')
                        continue;
                fstat(fd, &st);
                cr_assert_eq(thread_symbol_read(fd, NULL, (uint64_t)st.st_size, &here), 0);
                cr_assert_eq(thread_reader_ask(reader, object, fd, (uint64_t)st.st_size, &quick), 0);
                cr_assert_eq(object->look, OBJECT_LOOK_ASKED);
                wait_answers();
                cr_assert_eq(object->look, OBJECT_LOOK_KNOWN);
                cr_assert_eq(object->runtimes.bits, 5);
                cr_assert_str_eq(object->runtimes.says, "toy 9");
                check_same(&here, &object->thread_symbol, entry->d_name);
                n_forms += here.form != ABI_FORM_NONE;
        }
        closedir(dir);
        cr_assert_gt(n_forms, 4);
        cr_assert_eq(stat_get(COUNTER_THREAD_SYMBOLS_FAILED) + stat_get(COUNTER_WORKERS_DIED) +
                             stat_get(COUNTER_WORKERS_MALFORMED),
                     0);
}

Test(thread_reader, a_worker_that_lies_is_not_believed_and_costs_one_file) {
        for (uint64_t how = LIE_NOTHING; how < LIE_N; how++) {
                uint64_t n_bad = stat_get(COUNTER_WORKERS_DIED) + stat_get(COUNTER_WORKERS_MALFORMED);

                object->thread_symbol = (ThreadSymbol){ 0 };
                cr_assert_eq(
                        thread_reader_ask(reader, object, open("/proc/self/exe", O_RDONLY | O_CLOEXEC), how, &quick),
                        0);
                wait_answers();
                cr_expect_eq(object->thread_symbol.form, ABI_FORM_NONE, "lie %d", (int)how);
                cr_expect_eq(object->look, OBJECT_LOOK_FAILED);
                cr_expect_eq(stat_get(COUNTER_THREAD_SYMBOLS_FAILED), how, "lie %d", (int)how);
                cr_expect_eq(stat_get(COUNTER_WORKERS_DIED) + stat_get(COUNTER_WORKERS_MALFORMED), n_bad + 2,
                             "lie %d", (int)how);
        }
        cr_assert_eq(thread_reader_ask(reader, object, open("/proc/self/exe", O_RDONLY | O_CLOEXEC), 1 << 20,
                                       &quick),
                     0);
        wait_answers();
        cr_assert_eq(stat_get(COUNTER_THREAD_SYMBOLS_READ), 1);
}

Test(thread_reader, whose_workers_are_killed_asks_others) {
        char path[64], text[4096] = "";
        FILE *children;

        snprintf(path, sizeof(path), "/proc/self/task/%d/children", getpid());
        for (int i = 0; i < 5; i++) {
                int32_t zygote = zygotes_pid(zygotes, 0);

                cr_assert_eq(thread_reader_ask(reader, object, open("/proc/self/exe", O_RDONLY | O_CLOEXEC),
                                               1 << 20, &quick),
                             0);
                children = fopen(path, "r");
                cr_assert_not_null(children);
                text[fread(text, 1, sizeof(text) - 1, children)] = 0;
                fclose(children);
                for (char *at = text; *at; at += strspn(at, " ")) {
                        pid_t pid = (pid_t)strtol(at, &at, 10);

                        if (pid == zygote)
                                continue;
                        kill(pid, SIGKILL);     /* the workers, and one of the two that start them */
                        /* Gone, or the next try would go to one that dies of the same stroke. */
                        waitid(P_PID, (id_t)pid, &(siginfo_t){ 0 }, WEXITED | WNOWAIT | __WALL);
                }
                wait_answers();
        }
        cr_assert_eq(stat_get(COUNTER_THREAD_SYMBOLS_READ), 5);
}

enum { MAX = THREAD_READER_MAX_WAITING };

static const ShareOwner slow = { .group = 1, .user = 1000, .process = 11 };

/* Files that are never answered: there is nothing to open. */
static void fill(Object *with, int n, const ShareOwner *owner) {
        for (int i = 0; i < n; i++)
                cr_assert_eq(thread_reader_ask(reader, with, -1, 1 << 20, owner), 0);
}

/* Another object than the one of setup(). */
static Object *open_another(const char *name) {
        char path[4096] = "";
        Object *another;

        cr_assert_not_null(realpath(name, path));
        close(open(path, O_RDONLY | O_CLOEXEC));        /* its name is in the kernel's cache */
        cr_assert_eq(object_open_path(cache, path, 0, &another), 0);
        return another;
}

Test(thread_reader, more_than_can_wait_are_counted_and_refused) {
        fill(object, MAX + 1, &slow);   /* one of which is asked */
        cr_assert_eq(stat_get(COUNTER_THREAD_SYMBOLS_OVER_CAP), 0);
        cr_assert_eq(object->look, OBJECT_LOOK_ASKED);
        fill(object, 2, &slow);
        cr_assert_eq(stat_get(COUNTER_THREAD_SYMBOLS_OVER_CAP), 2);
        cr_assert_eq(object->look, OBJECT_LOOK_REFUSED);
}

static void ask_for(Object *of, const ShareOwner *owner) {
        cr_assert_eq(thread_reader_ask(reader, of, open("/proc/self/exe", O_RDONLY | O_CLOEXEC), 1 << 20, owner), 0);
}

static void wait_for(const Object *of) {
        for (uint64_t end_ns = clock_monotonic_ns() + 60 * NS_PER_SEC; of->look == OBJECT_LOOK_ASKED;) {
                struct pollfd wait = { .fd = thread_reader_fd(reader), .events = POLLIN };

                cr_assert_lt(clock_monotonic_ns(), end_ns, "nothing happens");
                poll(&wait, 1, 1000);
                thread_reader_step(reader);
        }
}

/* The last of 4,098 in one queue would wait for all others, or be refused. */
Test(thread_reader, a_user_with_many_files_does_not_keep_another_waiting) {
        Object *other = open_another("/bin/true");

        fill(object, MAX + 1, &slow);
        ask_for(other, &quick);
        cr_assert_eq(other->look, OBJECT_LOOK_ASKED);
        cr_assert_eq(stat_get(COUNTER_THREAD_SYMBOLS_OVER_CAP), 1, "a place of the other user");
        cr_assert_eq(object->look, OBJECT_LOOK_REFUSED);
        wait_for(other);
        cr_assert_eq(other->look, OBJECT_LOOK_KNOWN);
        cr_assert(thread_reader_is_busy(reader));
        cr_assert_eq(stat_get(COUNTER_THREAD_SYMBOLS_READ), 1);
        cr_assert_lt(stat_get(COUNTER_THREAD_SYMBOLS_FAILED), 10, "users take turns");
        object_unref(other);
}

/* Files that cannot be read wait for a worker as others do. */
Test(thread_reader, groups_take_turns_and_of_one_users_files_a_runtime_is_first) {
        static const ShareOwner other_group = { .group = 2, .user = 1000, .process = 12 };
        Object *large = open_another("/bin/true"), *claims = open_another("/bin/sh"),
               *others = open_another("/bin/cat");

        cr_assert(large != claims && claims != others);
        large->n_segments = 1;
        large->segments[0] = (Segment){ .flags = PF_X, .file_size = 8 << 20 };
        snprintf(claims->build_id_go, sizeof(claims->build_id_go), "go");
        cr_assert(object_may_be_runtime(claims) && !object_is_large(claims));
        fill(object, 20, &slow);
        ask_for(claims, &slow);
        ask_for(large, &slow);
        wait_for(large);
        cr_assert_eq(claims->look, OBJECT_LOOK_ASKED);
        cr_assert_leq(stat_get(COUNTER_THREAD_SYMBOLS_FAILED), 3, "of 20 that came before");
        ask_for(others, &other_group);
        wait_for(others);
        cr_assert_eq(claims->look, OBJECT_LOOK_ASKED, "a build id is what anybody can write");
        cr_assert_leq(stat_get(COUNTER_THREAD_SYMBOLS_FAILED), 6);
        wait_for(claims);
        cr_assert_eq(stat_get(COUNTER_THREAD_SYMBOLS_FAILED), 20);
        cr_assert_eq(stat_get(COUNTER_THREAD_SYMBOLS_READ), 3);
        object_unref(large);
        object_unref(claims);
        object_unref(others);
}

/* As the daemon does for its targets after each answer. */
Test(thread_reader, a_refused_file_is_asked_for_again_through_a_process_that_has_it) {
        Mapping *mine = NULL;
        Process *self;

        cr_assert_eq(process_new(&self, getpid()), 0);
        cr_assert_eq(process_read_mappings(self, cache), 0);
        wait_answers();
        for (size_t i = 0; i < self->n_mappings; i++)
                if (self->mappings[i].kind == MAPPING_FILE &&
                    self->mappings[i].object->look == OBJECT_LOOK_KNOWN)
                        mine = &self->mappings[i];
        cr_assert_not_null(mine, "libc has thread-local memory");
        mine->object->look = OBJECT_LOOK_REFUSED;
        cr_assert_eq(thread_reader_ask_again(reader, self), 0);
        cr_assert_eq(mine->object->look, OBJECT_LOOK_ASKED);
        wait_answers();
        cr_assert_eq(mine->object->look, OBJECT_LOOK_KNOWN);
        cr_assert_eq(stat_get(COUNTER_THREAD_SYMBOLS_AGAIN), 1);

        /* The process no longer has it: nobody can be asked, and nobody waits. */
        mine->object->look = OBJECT_LOOK_REFUSED;
        mine->start += 1;
        free(mine->path);
        mine->path = strdup("/nowhere");
        cr_assert_eq(thread_reader_ask_again(reader, self), 0);
        cr_assert_eq(mine->object->look, OBJECT_LOOK_FAILED);
        cr_assert_not(thread_reader_is_busy(reader));
        process_free(self);
}

Test(thread_reader, a_refused_file_is_asked_for_again_when_a_process_is_met_that_has_it) {
        Object *same;

        object->look = OBJECT_LOOK_REFUSED;
        same = open_another("/proc/self/exe");
        cr_assert_eq(same, object);
        cr_assert_eq(same->look, OBJECT_LOOK_ASKED);
        wait_answers();
        cr_assert_eq(same->look, OBJECT_LOOK_KNOWN);
        object_unref(same);
}

Test(thread_reader, a_file_without_thread_local_memory_is_nobodys_to_read) {
        char path[4096] = "";
        Object *plain;

        cr_assert_not_null(realpath("/bin/true", path));
        close(open(path, O_RDONLY | O_CLOEXEC));        /* its name is in the kernel's cache */
        cr_assert_eq(object_open_path(cache, path, 0, &plain), 0);
        cr_assert_neq(plain->look, OBJECT_LOOK_ASKED);
        cr_assert_not(thread_reader_is_busy(reader));
        object_unref(plain);
}
