/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/sandbox/channel.h"
#include "core/base/util/clock.h"
#include "core/base/util/stat.h"
#include "core/symbol/function/symbol-wire.h"
#include "host/naming/name-job.h"
#include "host/naming/object-names.h"
#include "host/service/run/worker-main.h"
#include "stat-reset.h"

#define LONG_NS (60 * NS_PER_SEC)

enum { MAX_TRIES = 5000 };

/* A worker of ours dies of a file that ends with a `D`. */
static void work(int socket) {
        SymbolRequest request;
        char last = 0;
        int fd = -1;

        if (channel_receive(socket, &request, sizeof(request), &fd, MSG_PEEK) == sizeof(request) && fd >= 0 &&
            pread(fd, &last, 1, (off_t)request.size - 1) == 1 && last == 'D')
                *(volatile int *)NULL = 1;
        worker_main(socket);
}

__attribute__((__constructor__)) static void become_zygote(int argc, char **argv) {
        if (argc == 1 && !strcmp(argv[0], ZYGOTE_NAME))
                zygote_serve(work);
}

/* This program with a window, as a target that is its own profiler. */
static ObjectCache *objects;
static Process *process;
static Window *window;
static ObjectNames *names;

__attribute__((noinline)) int object_names_marker(int x);

static inline __attribute__((always_inline)) int object_names_inlined(int x) {
        return x * 3 + getpid();
}

__attribute__((noinline)) int object_names_marker(int x) {
        return object_names_inlined(x);         /* the line MARKER_LINE */
}

enum { MARKER_LINE = __LINE__ - 3 };

static void init(void) {
        stat_reset();
        cr_assert_eq(object_cache_new(&objects, 64), 0);
        cr_assert_eq(process_new(&process, getpid()), 0);
        cr_assert_eq(process_read_mappings(process, objects), 0);
        cr_assert_eq(window_new(&window, 1, 0, NULL), 0);
        cr_assert_eq(object_names_new(&names, NULL, NULL), 0);
}

static void fini(void) {
        object_names_free(names);
        window_free(window);
        process_free(process);
        object_cache_free(objects);
}
TestSuite(object_names, .init = init, .fini = fini);

static const Mapping *mapping_of(uintptr_t pc) {
        const Mapping *mapping = process_find_mapping(process, pc);

        cr_assert_not_null(mapping);
        return mapping;
}

/* The frame of @pc as frames/ makes it. */
static FileFrame frame_at(uintptr_t pc) {
        const Mapping *mapping = mapping_of(pc);
        const Object *object = mapping->object;
        uint32_t segment, module;
        WindowModule row = { .file = object->file };
        uint64_t address;
        FrameWord word;

        cr_assert_eq(object_address(object, pc - mapping->start + mapping->offset, &address, &segment), 0);
        cr_assert_eq(window_string(window, mapping->path, strlen(mapping->path), &row.path), 0);
        cr_assert_eq(
                window_string(window, object->build_id_gnu, strlen(object->build_id_gnu), &row.build_id_gnu),
                0);
        cr_assert_eq(window_module(window, &row, &module), 0);
        cr_assert_eq(window_native_frame(window, FRAME_MARK_NATIVE, module, address, &word), 0);
        return (FileFrame){ mapping, address, word };
}

static FrameWord want(uintptr_t pc) {
        FileFrame frame = frame_at(pc);

        cr_assert_eq(object_names_want(names, window, process, &frame, 1), 0);
        return frame.word;
}

static const char *name_of(FrameWord word) {
        WindowFrame frame = window_expand_frame(window, word);

        return window_get_string(window, window_get_function(window, frame.function)->name, NULL);
}

/* One that no sanitizer puts itself before. */
static void *library_function(void) {
        return dlsym(RTLD_DEFAULT, "gnu_get_libc_version");
}

/* A debug file knows it by its first name, with two underscores. */
static bool is_library_function(FrameWord word) {
        const char *name = name_of(word);

        return !strcmp(name + strspn(name, "_"), "gnu_get_libc_version");
}

static void answer(void) {
        cr_assert_eq(object_names_wait(names, clock_monotonic_ns() + LONG_NS), 0);
        cr_assert_eq(object_names_apply(names, window), 0);
}

Test(object_names, names_functions_of_programs_libraries_and_the_vdso) {
        FrameWord marker = want((uintptr_t)object_names_marker + 4),
                  library = want((uintptr_t)library_function() + 1), vdso = 0;
        const Mapping *mapping = process_find_mapping(process, getauxval(AT_SYSINFO_EHDR));

        cr_assert(mapping && mapping->kind == MAPPING_VDSO);
        vdso = want(getauxval(AT_SYSINFO_EHDR) + (uintptr_t)mapping->object->entry);
        cr_assert_eq(window_close(window, 2), 0);
        answer();
        cr_assert_str_eq(name_of(marker), "object_names_marker");
        cr_assert(is_library_function(library));
        cr_assert_eq(object_names_n_waiting(names), 0);
        cr_assert_geq(stat_get(COUNTER_NAMES_NAMED), 2);
        cr_assert_eq(stat_get(COUNTER_NAMES_NAMED) + stat_get(COUNTER_NAMES_NONE), 3);
        (void)vdso;
}

/* A copy of this program that is mapped and has no path any more. Return: where the marker is in it. */
static char *map_deleted_copy(void) {
        const Mapping *mapping = mapping_of((uintptr_t)object_names_marker);
        char path[] = "/tmp/spanprof-test-XXXXXX", command[128];
        int fd = mkstemp(path);
        char *map;

        snprintf(command, sizeof(command), "cat /proc/%d/exe >%s", getpid(), path);
        cr_assert_eq(system(command), 0);
        map = mmap(NULL, mapping->end - mapping->start, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd,
                   (off_t)mapping->offset);
        cr_assert_neq(map, MAP_FAILED);
        cr_assert_eq(unlink(path), 0);
        close(fd);
        return map + ((uintptr_t)object_names_marker - mapping->start);
}

/* A sample of @word below @outer. */
static void add_sample(FrameWord word, FrameWord outer, uint32_t n) {
        const FrameWord words[] = { word, outer };
        uint32_t resource, profile, number;

        cr_assert_eq(window_resource(window, 1, &resource), 0);
        cr_assert_eq(window_profile(window, resource, PROFILE_CPU, &profile), 0);
        cr_assert_eq(window_stack(window, words, 2, &number), 0);
        for (uint32_t i = 0; i < n; i++)
                cr_assert_eq(window_sample(window, profile, number, 0, 0, 1, 1), 0);
}

Test(object_names, counts_samples_whose_innermost_function_has_no_name) {
        FrameWord marker = want((uintptr_t)object_names_marker),
                  library = want((uintptr_t)library_function());

        add_sample(marker, library, 3);
        add_sample(library, marker, 4);
        cr_assert_eq(window_close(window, 2), 0);
        cr_assert_eq(object_names_apply(names, window), 0);
        object_names_count(names, window);
        cr_assert_eq(stat_get(COUNTER_NAMELESS_LATE), 7, "nothing was read");
        cr_assert_eq(object_names_wait(names, clock_monotonic_ns() + LONG_NS), 0);
        cr_assert_eq(object_names_apply(names, window), 0);
        object_names_count(names, window);
        cr_assert_eq(stat_get(COUNTER_NAMELESS_LATE), 7, "all have names");
}

Test(object_names, counts_samples_of_a_process_that_was_gone) {
        char *copy = map_deleted_copy();
        FrameWord word;

        cr_assert_eq(process_read_mappings(process, objects), 0);
        process->start_time_ns += 1;
        word = want((uintptr_t)copy);
        add_sample(word, word, 5);
        cr_assert_eq(window_close(window, 2), 0);
        answer();
        object_names_count(names, window);
        cr_assert_eq(stat_get(COUNTER_NAMELESS_GONE), 5);
        cr_assert_eq(stat_get(COUNTER_NAMELESS_LATE), 0);
}

Test(object_names, goes_without_names_that_are_late_and_has_them_in_the_next_window) {
        FrameWord word = want((uintptr_t)object_names_marker);

        cr_assert_eq(window_close(window, 2), 0);
        cr_assert_eq(object_names_apply(names, window), 0);
        cr_assert_str_eq(name_of(word), "");
        cr_assert_eq(stat_get(COUNTER_NAMES_LATE), 1);
        cr_assert_eq(object_names_wait(names, clock_monotonic_ns() + LONG_NS), 0);
        window_free(window);
        cr_assert_eq(window_new(&window, 2, 0, NULL), 0);
        word = want((uintptr_t)object_names_marker);
        cr_assert_eq(object_names_n_waiting(names), 0, "it is known already");
        cr_assert_eq(object_names_apply(names, window), 0);
        cr_assert_str_eq(name_of(word), "object_names_marker");
        cr_assert_eq(stat_get(COUNTER_NAMES_NAMED), 1);
}

Test(object_names, asks_for_each_address_once) {
        for (int i = 0; i < 1000; i++)
                want((uintptr_t)object_names_marker);
        cr_assert_eq(object_names_n_waiting(names), 1);
        answer();
        cr_assert_eq(stat_get(COUNTER_NAMES_NAMED), 1);
}

Test(object_names, takes_the_frames_of_a_deep_stack_at_once) {
        const uintptr_t marker = (uintptr_t)object_names_marker, library = (uintptr_t)library_function();
        FileFrame frames[200];

        for (unsigned i = 0; i < ARRAY_SIZE(frames); i++)
                frames[i] = frame_at(i % 2 ? library + 1 : marker + i % 4 / 2);
        for (int i = 0; i < 2; i++) {
                cr_assert_eq(object_names_want(names, window, process, frames, ARRAY_SIZE(frames)), 0);
                cr_assert_eq(object_names_n_waiting(names), 3);
        }
        answer();
        for (unsigned i = 0; i < ARRAY_SIZE(frames); i++)
                if (i % 2)
                        cr_assert(is_library_function(frames[i].word));
                else
                        cr_assert_str_eq(name_of(frames[i].word), "object_names_marker");
        cr_assert_eq(stat_get(COUNTER_NAMES_NAMED), 3);
}

/* Lets the thread answer what has been sent to it. */
static void work_for(uint64_t ns) {
        for (uint64_t end_ns = clock_monotonic_ns() + ns; clock_monotonic_ns() < end_ns; usleep(1000))
                cr_assert_eq(object_names_work(names, false, UINT64_MAX), 0);
}

Test(object_names, lets_addresses_of_a_known_file_wait_for_others) {
        uint64_t end_ns = clock_monotonic_ns() + LONG_NS;
        FrameWord word;

        want((uintptr_t)object_names_marker);
        while (object_names_n_waiting(names) && clock_monotonic_ns() < end_ns)
                work_for(NS_PER_MS);
        cr_assert_eq(object_names_n_waiting(names), 0, "a file that is new is read at once");
        word = want((uintptr_t)object_names_marker + 1);
        work_for(100 * NS_PER_MS);
        cr_assert_eq(object_names_n_waiting(names), 1);
        cr_assert_eq(object_names_work(names, true, UINT64_MAX), 0);
        answer();
        cr_assert_eq(object_names_n_waiting(names), 0);
        cr_assert_str_eq(name_of(word), "object_names_marker");
}

Test(object_names, sends_as_many_addresses_as_a_job_takes) {
        uint64_t end_ns = clock_monotonic_ns() + LONG_NS;

        want((uintptr_t)object_names_marker);
        answer();
        for (uintptr_t i = 0; i < NAME_JOB_MAX; i++)
                want((uintptr_t)object_names_marker + 1 + i);
        while (object_names_n_waiting(names) && clock_monotonic_ns() < end_ns)
                work_for(NS_PER_MS);
        cr_assert_eq(object_names_n_waiting(names), 0);
}

Test(object_names, takes_many_addresses_of_one_object) {
        uintptr_t first = (uintptr_t)library_function();
        unsigned n = 0;

        for (unsigned i = 0; i < 1000; i++)
                want(first + i);
        answer();
        for (enum counter counter = COUNTER_NAMES_NAMED; counter <= COUNTER_NAMES_DROPPED; counter++)
                n += (unsigned)stat_get(counter);
        cr_assert_eq(n, 1000);
        cr_assert_eq(stat_get(COUNTER_NAMES_DROPPED), 0);
}

Test(object_names, lets_files_wait_that_the_queue_has_no_room_for) {
        ObjectNamesLimits limits = { .max_jobs = 1 };
        uintptr_t addresses[] = { (uintptr_t)object_names_marker, (uintptr_t)library_function() };
        FrameWord words[2];

        object_names_free(names);
        cr_assert_eq(object_names_new(&names, &limits, NULL), 0);
        for (int i = 0; i < 2; i++)
                words[i] = want(addresses[i]);
        answer();
        cr_assert_eq(stat_get(COUNTER_NAMES_DROPPED), 0);
        cr_assert_eq(stat_get(COUNTER_NAMES_NAMED), 2);
        cr_assert_str_eq(name_of(words[0]), "object_names_marker");
        cr_assert(is_library_function(words[1]));
}

static const NamePlace places_of[] = {
        { .pid = 1, .start_time_ns = 10 }, { .pid = 2, .start_time_ns = 20 },
        { .pid = 3, .start_time_ns = 30 }, { .pid = 4, .start_time_ns = 40 },
        { .pid = 5, .start_time_ns = 50 }, { .pid = 6, .start_time_ns = 5 },
};

static void check_pids(const NamePlaces *places, const char *expected) {
        char pids[64] = "";

        for (uint32_t i = 0; i < places->n; i++)
                snprintf(pids + strlen(pids), sizeof(pids) - strlen(pids), "%d ", (int)places->items[i].pid);
        cr_assert_str_eq(pids, expected);
}

Test(object_names, remembers_the_processes_that_began_first_and_the_last_one) {
        NamePlace moved = places_of[1];
        NamePlaces places = { 0 }, gone = { 0 };

        for (int i = 3; i >= 0; i--)
                name_places_add(&places, &places_of[i]);
        check_pids(&places, "1 2 3 4 ");
        name_places_add(&places, &places_of[4]);
        check_pids(&places, "1 2 3 5 ");
        name_places_add(&places, &places_of[5]);
        check_pids(&places, "6 1 2 3 ");
        moved.start = 4096;
        name_places_add(&places, &moved);
        check_pids(&places, "6 1 2 3 ");
        name_places_add(&gone, &places_of[0]);
        name_places_add(&gone, &places_of[1]);
        name_places_remove(&places, &gone);
        check_pids(&places, "6 2 3 ");          /* 2 has been met elsewhere meanwhile */
}

/* This program's file has its path here, and is it. */
Test(object_names, needs_no_process_for_a_file_that_lies_at_its_path) {
        FrameWord word;

        process->start_time_ns += 1;            /* another process, which is gone */
        word = want((uintptr_t)object_names_marker);
        answer();
        cr_assert_str_eq(name_of(word), "object_names_marker");
}

/* A process that has ended is no reason to wait: the next one that maps the file is asked at once. */
Test(object_names, asks_the_next_process_at_once) {
        char *marker = map_deleted_copy();
        FrameWord word;

        cr_assert_eq(process_read_mappings(process, objects), 0);
        process->start_time_ns += 1;
        word = want((uintptr_t)marker);
        answer();
        cr_assert_str_eq(name_of(word), "");
        cr_assert_eq(stat_get(COUNTER_NAMES_GONE), 1);
        cr_assert_eq(stat_get(COUNTER_NAMES_UNREADABLE), 0);
        process->start_time_ns -= 1;
        cr_assert_eq(want((uintptr_t)marker), word);
        cr_assert_eq(object_names_n_waiting(names), 1);
        answer();
        cr_assert_str_eq(name_of(word), "object_names_marker");
}

/* One that was met before goes on when those behind it have ended. */
Test(object_names, asks_those_that_were_met_before) {
        char *marker = map_deleted_copy();
        FrameWord words[2];

        cr_assert_eq(process_read_mappings(process, objects), 0);
        words[0] = want((uintptr_t)marker);
        process->start_time_ns += 1;
        words[1] = want((uintptr_t)marker + 1);
        process->start_time_ns -= 1;
        answer();
        for (int i = 0; i < 2; i++)
                cr_assert_str_eq(name_of(words[i]), "object_names_marker");
        cr_assert_eq(stat_get(COUNTER_NAMES_GONE), 0);
}

/* A table that is there needs nobody. */
Test(object_names, needs_no_file_twice) {
        char *marker = map_deleted_copy();
        FrameWord word;

        cr_assert_eq(process_read_mappings(process, objects), 0);
        want((uintptr_t)marker);
        answer();
        process->start_time_ns += 1;
        word = want((uintptr_t)marker + 1);
        answer();
        cr_assert_str_eq(name_of(word), "object_names_marker");
        cr_assert_eq(stat_get(COUNTER_SYMBOL_TABLES_LOADED), 1);
}

/* Two files of one path and one build id. */
Test(object_names, keeps_files_apart_that_say_the_same_of_themselves) {
        const Mapping *own = mapping_of((uintptr_t)object_names_marker);
        char *marker = map_deleted_copy();
        Mapping *copy;
        FrameWord words[2];

        cr_assert_eq(process_read_mappings(process, objects), 0);
        own = mapping_of((uintptr_t)object_names_marker);
        copy = (Mapping *)mapping_of((uintptr_t)marker);
        cr_assert_neq(own->object->file, copy->object->file);
        cr_assert_str_eq(own->object->build_id_gnu, copy->object->build_id_gnu);
        free(copy->path);
        copy->path = strdup(own->path);
        words[0] = want((uintptr_t)object_names_marker);
        words[1] = want((uintptr_t)marker);
        cr_assert_neq(words[0], words[1]);
        answer();
        for (int i = 0; i < 2; i++)
                cr_assert_str_eq(name_of(words[i]), "object_names_marker");
        cr_assert_eq(stat_get(COUNTER_SYMBOL_TABLES_LOADED), 2, "each for itself");
}

Test(object_names, forgets_all_when_there_are_too_many) {
        ObjectNamesLimits limits = { .max_names = 10 };
        uintptr_t first = (uintptr_t)library_function();

        object_names_free(names);
        cr_assert_eq(object_names_new(&names, &limits, NULL), 0);
        for (unsigned i = 0; i < 15; i++)
                want(first + i);
        answer();
        cr_assert_eq(stat_get(COUNTER_NAMES_DROPPED), 5);
        window_free(window);
        cr_assert_eq(window_new(&window, 2, 0, NULL), 0);
        want(first + 14);
        cr_assert_eq(stat_get(COUNTER_NAMES_FORGOTTEN), 10);
        answer();
        cr_assert_eq(stat_get(COUNTER_NAMES_NAMED) + stat_get(COUNTER_NAMES_NONE), 11);
}

/* Files of the crowd come first: the thread may have two, then two more, and one beside the other's. */
Test(object_names, a_process_with_many_files_lets_another_pass) {
        enum { N = 20, MAX_BEFORE = 5 };

        ObjectNamesLimits limits = { .max_jobs = 8 };
        char *markers[N];
        Process crowd;
        FrameWord word;

        object_names_free(names);
        cr_assert_eq(object_names_new(&names, &limits, NULL), 0);
        for (int i = 0; i < N; i++)
                markers[i] = map_deleted_copy();
        cr_assert_eq(process_read_mappings(process, objects), 0);
        crowd = *process;
        crowd.pid = 0x3ffffff;          /* id of no process: each file is looked for, and not found */
        for (int i = 0; i < N; i++) {
                FileFrame frame = frame_at((uintptr_t)markers[i]);

                cr_assert_eq(object_names_want(names, window, &crowd, &frame, 1), 0);
        }
        cr_assert_eq(object_names_work(names, true, UINT64_MAX), 0);
        word = want((uintptr_t)object_names_marker);
        for (uint64_t end_ns = clock_monotonic_ns() + LONG_NS; !stat_get(COUNTER_NAMES_NAMED);) {
                cr_assert_lt(clock_monotonic_ns(), end_ns, "nothing happens");
                cr_assert_eq(object_names_work(names, true, UINT64_MAX), 0);
                poll(NULL, 0, 1);
        }
        cr_assert_leq(stat_get(COUNTER_NAMES_GONE), MAX_BEFORE);
        answer();
        cr_assert_str_eq(name_of(word), "object_names_marker");
        cr_assert_eq(stat_get(COUNTER_NAMES_GONE), N, "none is forgotten");
        cr_assert_eq(stat_get(COUNTER_NAMES_DROPPED), 0);
}

/* Puts one byte behind the program's copy that is mapped. It stays the same file, by its time as well. */
static void end_with(int fd, off_t size, char last) {
        const struct timespec times[2] = { { .tv_sec = 1 }, { .tv_sec = 1 } };

        cr_assert_eq(pwrite(fd, &last, 1, size), 1);
        cr_assert_eq(futimens(fd, times), 0);
}

/* A target's file that kills whoever reads it costs its own names, until it no longer does. */
Test(object_names, asks_workers_again_when_they_have_failed, .timeout = 60) {
        ObjectNamesLimits limits = { .retry_ns = NS_PER_MS };
        static char data[64 << 20];
        int own = open("/proc/self/exe", O_RDONLY | O_CLOEXEC), fd;
        char path[] = "/tmp/spanprof-test-XXXXXX";
        ssize_t size = read(own, data, sizeof(data));
        const Mapping *mapping = process_find_mapping(process, (uintptr_t)object_names_marker);
        Zygotes *zygotes;
        FrameWord word;
        char *map;

        cr_assert(mapping && size > 0 && size < (ssize_t)sizeof(data));
        fd = mkstemp(path);
        cr_assert_eq(write(fd, data, (size_t)size), size);
        end_with(fd, size, 'D');
        map = mmap(NULL, mapping->end - mapping->start, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd,
                   (off_t)mapping->offset);
        cr_assert_neq(map, MAP_FAILED);
        map += (uintptr_t)object_names_marker - mapping->start;
        cr_assert_eq(process_read_mappings(process, objects), 0);
        object_names_free(names);
        cr_assert_eq(zygotes_new(&zygotes), 0);
        cr_assert_eq(zygotes_wait(zygotes, 60000), 0);
        cr_assert_eq(object_names_new(&names, &limits, zygotes), 0);
        for (uint64_t n_failed = 1; n_failed <= 2; n_failed++) {
                word = want((uintptr_t)map);
                answer();
                cr_assert_str_eq(name_of(word), "");
                cr_assert_eq(stat_get(COUNTER_SYMBOL_TABLES_FAILED), n_failed);
                cr_assert_eq(stat_get(COUNTER_NAMES_FAILED), n_failed);
                cr_assert_eq(stat_get(COUNTER_WORKERS_STARTED), 2 * n_failed);
                cr_assert_eq(stat_get(COUNTER_WORKERS_DIED), 2 * n_failed);
                usleep(5000);
                window_free(window);
                cr_assert_eq(window_new(&window, 1 + n_failed, 0, NULL), 0);
        }
        end_with(fd, size, 'x');
        word = want((uintptr_t)map);
        answer();
        cr_assert_str_eq(name_of(word), "object_names_marker");
        cr_assert_eq(stat_get(COUNTER_SYMBOL_TABLES_LOADED), 1);
        cr_assert_eq(stat_get(COUNTER_WORKERS_STARTED), 5);
        cr_assert_eq(stat_get(COUNTER_WORKERS_DIED), 4);
        cr_assert_eq(unlink(path), 0);
        zygotes_free(zygotes);
}

/* Someone who has no debug file, and says that one came. */
static const char *news;
static int n_refs;

static int fetch_nothing(const SymbolRemote *remote, const char *build_id_gnu, int *fdp, uint64_t *sizep) {
        return 1;
}

static void count_ref(void *userdata) {
        n_refs++;
}

static void count_unref(void *userdata) {
        n_refs--;
}

static bool next_news(void *userdata, char *build_id_gnu, size_t size) {
        if (!news)
                return false;
        snprintf(build_id_gnu, size, "%s", news);
        news = NULL;
        return true;
}

/* More than one job takes. */
Test(object_names, asks_again_for_all_that_had_no_name_when_its_debug_file_came) {
        const NameRemote remote = { .remote = { .fetch = fetch_nothing },
                                    .ref = count_ref,
                                    .unref = count_unref,
                                    .next = next_news };
        uintptr_t first = (uintptr_t)library_function();
        const Mapping *mapping = mapping_of(first);
        uint64_t n_named, n_none;
        Zygotes *zygotes;

        object_names_free(names);
        cr_assert_eq(zygotes_new(&zygotes), 0);
        cr_assert_eq(zygotes_wait(zygotes, 60000), 0);
        cr_assert_eq(object_names_new(&names, NULL, zygotes), 0);
        object_names_set_remote(names, &remote);
        for (uintptr_t at = first; at < first + (64 << 10) && at < mapping->end; at++)
                want(at);
        answer();
        n_named = stat_get(COUNTER_NAMES_NAMED);
        n_none = stat_get(COUNTER_NAMES_NONE);
        cr_assert_gt(n_none, NAME_JOB_MAX);
        cr_assert_eq(stat_get(COUNTER_SYMBOL_TABLES_LOADED), 1);
        news = "00000000";
        answer();
        cr_assert_eq(stat_get(COUNTER_NAMES_NONE), n_none, "no file has this id");
        news = mapping->object->build_id_gnu;
        answer();
        cr_assert_eq(stat_get(COUNTER_NAMES_NONE), 2 * n_none);
        cr_assert_eq(stat_get(COUNTER_NAMES_NAMED), n_named, "what has a name is not asked for");
        cr_assert_eq(stat_get(COUNTER_SYMBOL_TABLES_LOADED), 2, "it was read anew, once");
        cr_assert_eq(object_names_n_waiting(names), 0);
        names = object_names_free(names);
        cr_assert_eq(n_refs, 0);
        zygotes_free(zygotes);
}

/* The first file takes the budget of a nanosecond, whatever it is, and all others wait for more. */
Test(object_names, reads_lines_until_the_budget_is_used_up) {
        const ObjectNamesLimits limits = { .lines_budget_ns = 1 };
        WindowFrame inner, outer;
        const FrameWord *words;
        Zygotes *zygotes;
        uint32_t stack;
        FrameWord word;
        size_t n;

        object_names_free(names);
        cr_assert_eq(zygotes_new(&zygotes), 0);
        cr_assert_eq(zygotes_wait(zygotes, 60000), 0);
        cr_assert_eq(object_names_new(&names, &limits, zygotes), 0);
        cr_assert_eq(object_names_want_lines(names), 0);
        word = want((uintptr_t)object_names_marker);
        cr_assert_eq(window_stack(window, &word, 1, &stack), 0);
        cr_assert_eq(window_close(window, 2), 0);
        answer();
        cr_assert_eq(stat_get(COUNTER_LINES_READ), 1);
        cr_assert_eq(stat_get(COUNTER_LINES_OVER_BUDGET), 0);
        words = window_get_stack(window, stack, &n);
        outer = window_expand_frame(window, words[n - 1]);
        cr_assert_str_eq(name_of(words[n - 1]), "object_names_marker");
        cr_assert_eq(outer.line, n == 1 ? MARKER_LINE - 1 : MARKER_LINE, "%d", (int)outer.line);
        inner = window_expand_frame(window, words[0]);
        cr_assert(n == 1 || (n == 2 && inner.is_inlined && !outer.is_inlined));
        cr_assert_str_eq(name_of(words[0]), n == 1 ? "object_names_marker" : "object_names_inlined");
        window_free(window);
        cr_assert_eq(window_new(&window, 3, 0, NULL), 0);
        want((uintptr_t)library_function());
        answer();
        cr_assert_eq(stat_get(COUNTER_LINES_READ) + stat_get(COUNTER_LINES_NONE), 1);
        cr_assert_eq(stat_get(COUNTER_LINES_OVER_BUDGET), 1);
        names = object_names_free(names);
        zygotes_free(zygotes);
}

/* Takes answers until no name is waited for, as a window that does not end soon does. */
static void settle(void) {
        while (object_names_n_waiting(names)) {
                cr_assert_eq(object_names_work(names, false, UINT64_MAX), 0);
                usleep(1000);
        }
        cr_assert_eq(object_names_work(names, false, UINT64_MAX), 0);
}

static uint64_t n_lined(void) {
        return stat_get(COUNTER_LINES_READ) + stat_get(COUNTER_LINES_NONE);
}

Test(object_names, reads_a_file_again_for_lines_only_as_the_window_ends) {
        Zygotes *zygotes;

        object_names_free(names);
        cr_assert_eq(zygotes_new(&zygotes), 0);
        cr_assert_eq(zygotes_wait(zygotes, 60000), 0);
        cr_assert_eq(object_names_new(&names, NULL, zygotes), 0);
        cr_assert_eq(object_names_want_lines(names), 0);
        want((uintptr_t)object_names_marker);
        settle();
        while (n_lined() < 1)           /* the first time it is read at once */
                cr_assert_eq(object_names_work(names, false, UINT64_MAX), 0);
        want((uintptr_t)object_names_marker + 1);
        settle();
        for (int i = 0; i < 1000; i++)
                cr_assert_eq(object_names_work(names, false, NS_PER_SEC * 10), 0);
        cr_assert_eq(n_lined(), 1, "there is time");
        while (n_lined() < 2)
                cr_assert_eq(object_names_work(names, false, 1), 0);
        names = object_names_free(names);
        zygotes_free(zygotes);
}

/*
 * Asks until a thread is left behind at it: 1 ns is over before a process of the zygote's has answered. An
 * answer may come first where this thread waits for a CPU. So each try asks for an address without a name.
 */
static void hold_up(uint64_t n_stuck) {
        const Mapping *mapping = mapping_of((uintptr_t)object_names_marker);
        static uint64_t n_asked;

        while (stat_get(COUNTER_NAMES_STUCK) < n_stuck) {
                cr_assert_lt(n_asked, MIN(mapping->end - mapping->start, (uint64_t)MAX_TRIES));
                want(mapping->start + n_asked++);
                while (object_names_n_waiting(names))
                        cr_assert_eq(object_names_work(names, true, UINT64_MAX), 0);
                cr_assert_eq(object_names_work(names, true, UINT64_MAX), 0);
                usleep(1000);
        }
        cr_assert_eq(stat_get(COUNTER_NAMES_STUCK), n_stuck);
}

Test(object_names, tries_a_file_again_that_held_up_a_thread, .timeout = 120) {
        ObjectNamesLimits limits = { .retry_ns = NS_PER_MS, .time_limit_ns = 1 };
        Zygotes *zygotes;

        object_names_free(names);
        cr_assert_eq(zygotes_new(&zygotes), 0);
        cr_assert_eq(zygotes_wait(zygotes, 60000), 0);
        cr_assert_eq(object_names_new(&names, &limits, zygotes), 0);
        hold_up(1);
        window_free(window);
        cr_assert_eq(window_new(&window, 2, 0, NULL), 0);
        hold_up(2);
        names = object_names_free(names);
        zygotes_free(zygotes);
}

/* Asks for nothing new until all tables are gone. */
static void wait_until_aged(uint64_t n) {
        uint64_t end_ns = clock_monotonic_ns() + LONG_NS;

        while (object_names_table_bytes(names) || stat_get(COUNTER_SYMBOL_TABLES_AGED) < n) {
                cr_assert_lt(clock_monotonic_ns(), end_ns);
                cr_assert_eq(object_names_work(names, true, UINT64_MAX), 0);
                usleep(1000);
        }
}

Test(object_names, gives_tables_back_and_reads_them_again) {
        const ObjectNamesLimits limits = { .aging_ns = NS_PER_MS };
        FrameWord marker, other;

        object_names_free(names);
        cr_assert_eq(object_names_new(&names, &limits, NULL), 0);
        marker = want((uintptr_t)object_names_marker + 4);
        answer();
        wait_until_aged(1);
        cr_assert_str_eq(name_of(marker), "object_names_marker");
        other = want((uintptr_t)wait_until_aged);
        answer();
        cr_assert_str_eq(name_of(other), "wait_until_aged");
        cr_assert_eq(stat_get(COUNTER_SYMBOL_TABLES_LOADED), 2, "the same file");
        wait_until_aged(2);
        window_close(window, 2);
}

Test(object_names, says_what_its_tables_take) {
        want((uintptr_t)object_names_marker);
        answer();
        cr_assert_gt(object_names_table_bytes(names), 0);
        cr_assert_eq(stat_get(COUNTER_SYMBOL_TABLES_AGED) + stat_get(COUNTER_SYMBOL_TABLES_EVICTED), 0);
}
