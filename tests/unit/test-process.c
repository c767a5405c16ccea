/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#include "oracle.h"
#include "target/process.h"
#include "util/clock.h"
#include "util/stat.h"

static ObjectCache *cache(void) {
        ObjectCache *objects;

        cr_assert_eq(object_cache_new(&objects, 64), 0);
        return objects;
}

Test(process_parse_stat, counts_fields_from_the_last_parenthesis) {
        /* Fields as in proc_pid_stat(5): flags 9, threads 20, start 22, stack 28. */
        static const char text[] = "812 (a) S 1 (b) c) S 1 812 812 0 -1 4194560 100 0 0 0 5 3 0 0 20 0 7 0 98765 1 1 18446744073709551615 4 5 140721 0 0";
        ProcessStat stat;

        cr_assert_eq(process_parse_stat(text, sizeof(text) - 1, &stat), 0);
        cr_assert_eq(stat.state, 'S');
        cr_assert_eq(stat.n_threads, 7);
        cr_assert_eq(stat.start_time_ns, UINT64_C(987650000000));
        cr_assert_eq(stat.stack_start, 140721);
        cr_assert(!stat.is_kernel);
}

Test(process_parse_stat, refuses_any_cut) {
        static const char text[] = "812 (x) S 1 812 812 0 -1 69238880 0 0 0 0 0 0 0 0 20 0 1 0 98765 1 1 2 3 4 5";
        ProcessStat stat;
        char copy[128];

        cr_assert_eq(process_parse_stat(text, sizeof(text) - 1, &stat), 0);
        cr_assert(stat.is_kernel);              /* 0x4208060 … with PF_KTHREAD 0x200000 */
        for (size_t n = 0; n < strlen("812 (x) S 1 812 812 0 -1 69238880 0 0 0 0 0 0 0 0 20 0 1 0 98765 1 1 2 3 4 "); n++) {
                memcpy(copy, text, n);
                copy[n] = 0;
                cr_expect_eq(process_parse_stat(copy, n, &stat), 1, "%s", copy);
        }
}

Test(process, knows_itself_as_proc_does) {
        unsigned long long start;
        Process *process;
        char exe[4096], line[64];
        ssize_t n;

        prctl(PR_SET_NAME, "a (b) c\n");
        cr_assert_eq(process_new(&process, getpid()), 0);
        n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);
        exe[n] = 0;
        cr_assert_str_eq(process->exe, exe);
        cr_assert_str_eq(process->comm, "a (b) c\n");
        snprintf(line, sizeof(line), "tail -n1 /proc/%d/stat | sed 's/.*) //' | cut -d' ' -f20", getpid());
        cr_assert(oracle_line(line, line, sizeof(line)));
        start = strtoull(line, NULL, 10);
        cr_assert_eq(process->start_time_ns, start * ABI_START_TICK_NS);
        cr_assert_leq(process->start_time_ns, clock_read_ns(CLOCK_BOOTTIME));
        process_free(process);
}

Test(process, reads_the_executable_mappings_that_maps_shows) {
        ObjectCache *objects = cache();
        char line[512], command[128];
        Process *process;
        size_t n = 0;
        FILE *pipe;

        cr_assert_eq(process_new(&process, getpid()), 0);
        cr_assert_eq(process_read_mappings(process, objects), 0);
        snprintf(command, sizeof(command), "grep -E '^[^ ]* ..x' /proc/%d/maps", getpid());
        pipe = popen(command, "r");
        while (fgets(line, sizeof(line), pipe)) {
                unsigned long start, end, offset;
                char path[256] = "";

                cr_assert_geq(sscanf(line, "%lx-%lx %*s %lx %*s %*s %255s", &start, &end, &offset, path), 3);
                cr_assert_lt(n, process->n_mappings);
                cr_expect_eq(process->mappings[n].start, start);
                cr_expect_eq(process->mappings[n].end, end);
                cr_expect_eq(process->mappings[n].offset, offset);
                cr_expect_str_eq(process->mappings[n].path, path);
                cr_expect_eq(process->mappings[n].kind,
                             path[0] == '/' ? MAPPING_FILE : !strcmp(path, "[vdso]") ? MAPPING_VDSO : MAPPING_ANONYMOUS,
                             "%s", path);
                cr_expect_eq(process_find_mapping(process, start), &process->mappings[n]);
                cr_expect_eq(process_find_mapping(process, end - 1), &process->mappings[n]);
                cr_expect_neq(process_find_mapping(process, end), &process->mappings[n]);
                cr_expect_neq(process_find_mapping(process, start - 1), &process->mappings[n]);
                n++;
        }
        pclose(pipe);
        cr_assert_eq(n, process->n_mappings);
        cr_assert_null(process_find_mapping(process, 0));
        cr_assert_null(process_find_mapping(process, UINT64_MAX));
        process_free(process);
        object_cache_free(objects);
}

Test(process, shares_objects_and_keeps_them_for_the_next) {
        ObjectCache *objects = cache();
        const Object *libc = NULL;
        Process *a, *b;
        size_t known;

        stat_reset();
        cr_assert_eq(process_new(&a, getpid()), 0);
        cr_assert_eq(process_read_mappings(a, objects), 0);
        known = object_cache_count(objects);
        cr_assert_eq(stat_get(COUNTER_OBJECTS_OPENED), known);
        cr_assert_eq(process_new(&b, getpid()), 0);
        cr_assert_eq(process_read_mappings(b, objects), 0);
        cr_assert_eq(object_cache_count(objects), known);
        for (size_t i = 0; i < a->n_mappings; i++) {
                cr_assert_eq(a->mappings[i].object, b->mappings[i].object);
                if (strstr(a->mappings[i].path, "libc.so"))
                        libc = a->mappings[i].object;
        }
        cr_assert_not_null(libc);
        process_free(a);
        cr_assert_geq(libc->n_refs, 1);
        process_free(b);
        cr_assert_eq(libc->n_refs, 0);
        cr_assert_eq(process_new(&a, getpid()), 0);
        cr_assert_eq(process_read_mappings(a, objects), 0);
        cr_assert_eq(stat_get(COUNTER_OBJECTS_OPENED), known);  /* nothing was parsed again */
        process_free(a);
        object_cache_free(objects);
}

Test(process, keeps_its_mappings_and_their_serial_while_nothing_changes) {
        ObjectCache *objects = cache();
        Process *process;
        uint64_t serial;
        void *code;

        cr_assert_eq(process_new(&process, getpid()), 0);
        cr_assert_eq(process_read_mappings(process, objects), 0);
        serial = process->maps_serial;
        cr_assert_eq(process_read_mappings(process, objects), 0);
        cr_assert_eq(process->maps_serial, serial);
        code = mmap(NULL, 8192, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        cr_assert_null(process_find_mapping(process, (uintptr_t)code));
        cr_assert_eq(process_read_mappings(process, objects), 0);
        cr_assert_neq(process->maps_serial, serial);
        cr_assert_eq(process_find_mapping(process, (uintptr_t)code)->kind, MAPPING_ANONYMOUS);
        process_free(process);
        object_cache_free(objects);
}

Test(object, evicts_the_least_used_and_never_one_in_use) {
        ObjectCache *objects;
        Process *process;
        size_t n;

        stat_reset();
        cr_assert_eq(object_cache_new(&objects, 3), 0);
        cr_assert_eq(process_new(&process, getpid()), 0);
        cr_assert_eq(process_read_mappings(process, objects), 0);
        n = object_cache_count(objects);
        cr_assert_gt(n, 4);             /* the test runner maps a score of libraries */
        cr_assert_eq(stat_get(COUNTER_OBJECTS_EVICTED), 0);
        process_free(process);
        cr_assert_eq(object_cache_count(objects), 3);
        cr_assert_eq(stat_get(COUNTER_OBJECTS_EVICTED), n - 3);
        object_cache_free(objects);
}

/* Maps @path executable in this process, where @path is something of the test's making. */
static void *map_file(const char *path, size_t size) {
        int fd = open(path, O_RDONLY);
        void *p = mmap(NULL, size, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);

        cr_assert_neq(p, MAP_FAILED);
        close(fd);
        return p;
}

static void copy_file(const char *from, const char *to) {
        char command[1024];

        snprintf(command, sizeof(command), "cp %s %s", from, to);
        cr_assert_eq(system(command), 0);
}

static char directory[] = "/tmp/test-process-XXXXXX";

static const char *in_directory(const char *name) {
        static char path[256];

        if (strstr(directory, "XXXXXX"))
                cr_assert_not_null(mkdtemp(directory));
        snprintf(path, sizeof(path), "%s/%s", directory, name);
        return path;
}

static void remove_directory(void) {
        char command[128];

        snprintf(command, sizeof(command), "rm -r %s", directory);
        cr_assert_eq(system(command), 0);
}

/* Reads our own mappings afresh, and gives the one at @address. */
static const Mapping *look_at(Process **processp, ObjectCache *objects, void *address) {
        cr_assert_eq(process_new(processp, getpid()), 0);
        cr_assert_eq(process_read_mappings(*processp, objects), 0);
        return process_find_mapping(*processp, (uintptr_t)address);
}

Test(object, reads_files_that_are_deleted_or_have_another_one_in_their_place) {
        ObjectCache *objects = cache();
        const Mapping *mapping;
        char command[512], expected[64];
        Process *process;
        void *p;

        copy_file("/bin/true", in_directory("x"));
        p = map_file(in_directory("x"), 4096);
        copy_file("/bin/ls", in_directory("y"));
        snprintf(command, sizeof(command), "mv -f %s/y %s/x", directory, directory);
        cr_assert_eq(system(command), 0);

        mapping = look_at(&process, objects, p);
        cr_assert_eq(mapping->kind, MAPPING_FILE);
        cr_assert_str_eq(mapping->path, in_directory("x"));
        cr_assert(oracle_line("readelf -n /bin/true | awk '/Build ID/ {print $3}'", expected, sizeof(expected)));
        cr_assert_str_eq(mapping->object->build_id_gnu, expected);
        process_free(process);
        object_cache_free(objects);
        remove_directory();
}

Test(object, takes_names_as_they_are) {
        ObjectCache *objects = cache();
        const Mapping *mapping;
        Process *process;
        char path[256];
        void *p;

        snprintf(path, sizeof(path), "%s", in_directory("we ird\n\\012\xff name (deleted)"));
        cr_assert_eq(close(open(path, O_CREAT | O_WRONLY, 0700)), 0);
        {
                int from = open("/bin/true", O_RDONLY), to = open(path, O_WRONLY);
                char buffer[65536];
                ssize_t n;

                while ((n = read(from, buffer, sizeof(buffer))) > 0)
                        cr_assert_eq(write(to, buffer, (size_t)n), n);
        }
        p = map_file(path, 4096);
        mapping = look_at(&process, objects, p);
        cr_assert_eq(mapping->kind, MAPPING_FILE);
        cr_assert(strstr(mapping->path, "/we ird\n"));
        cr_assert_null(strstr(mapping->path, " (deleted)"));    /* indistinguishable from the kernel's mark: removed */
        process_free(process);
        object_cache_free(objects);
        remove_directory();
}

Test(object, survives_a_file_that_is_cut_while_it_is_mapped) {
        ObjectCache *objects = cache();
        const Mapping *mapping;
        Process *process;
        void *p;

        stat_reset();
        copy_file("/bin/true", in_directory("x"));
        p = map_file(in_directory("x"), 4096);
        cr_assert_eq(truncate(in_directory("x"), 70), 0);
        mapping = look_at(&process, objects, p);
        cr_assert_eq(mapping->kind, MAPPING_UNREADABLE);
        cr_assert_null(mapping->object);
        cr_assert_str_eq(mapping->path, in_directory("x"));
        cr_assert_eq(stat_get(COUNTER_OBJECTS_UNREADABLE), 1);
        process_free(process);

        /* Written anew, it has another size: another file to us. */
        copy_file("/bin/true", in_directory("x"));
        mapping = look_at(&process, objects, p);
        cr_assert_eq(mapping->kind, MAPPING_FILE);
        process_free(process);
        object_cache_free(objects);
        remove_directory();
}

Test(object, does_not_parse_a_file_that_is_no_elf_twice) {
        ObjectCache *objects = cache();
        Process *process;
        size_t known;
        void *p;

        stat_reset();
        copy_file("/etc/passwd", in_directory("x"));
        p = map_file(in_directory("x"), 4096);
        cr_assert_eq(look_at(&process, objects, p)->kind, MAPPING_UNREADABLE);
        known = object_cache_count(objects);
        process_free(process);
        cr_assert_eq(look_at(&process, objects, p)->kind, MAPPING_UNREADABLE);
        cr_assert_eq(object_cache_count(objects), known);
        cr_assert_eq(stat_get(COUNTER_OBJECTS_UNREADABLE), 2);
        process_free(process);
        object_cache_free(objects);
        remove_directory();
}

Test(object, treats_code_in_a_memfd_as_memory_unless_it_is_a_program) {
        ObjectCache *objects = cache();
        int fd = memfd_create("jit", 0), elf = memfd_create("program", 0), from = open("/bin/true", O_RDONLY);
        Process *process;
        char buffer[65536];
        ssize_t n;
        void *p, *q;

        cr_assert_eq(ftruncate(fd, 8192), 0);
        p = mmap(NULL, 8192, PROT_READ | PROT_EXEC, MAP_SHARED, fd, 0);
        while ((n = read(from, buffer, sizeof(buffer))) > 0)
                cr_assert_eq(write(elf, buffer, (size_t)n), n);
        q = mmap(NULL, 8192, PROT_READ | PROT_EXEC, MAP_PRIVATE, elf, 0);
        cr_assert_eq(look_at(&process, objects, p)->kind, MAPPING_ANONYMOUS);
        cr_assert_eq(process_find_mapping(process, (uintptr_t)q)->kind, MAPPING_FILE);
        process_free(process);
        object_cache_free(objects);
}

/* What the file is opened by is made up here, as a hostile or an unlucky target would have it. */
static int open_made(ObjectCache *objects, int proc_fd, const char *path, uint32_t major, uint32_t minor, uint64_t inode) {
        MapsEntry entry = { .start = 0x1000, .end = 0x2000, .inode = inode, .major = major, .minor = minor, .executable = true };
        ObjectSource source = { .proc_fd = proc_fd, .entry = &entry, .path = path };
        Object *object = NULL;
        int r = object_open(objects, &source, &object);

        object_unref(object);
        free(source.mounts);
        return r;
}

/* No mapping is at 0x1000, so this is the way without CAP_CHECKPOINT_RESTORE. */
Test(object, opens_by_path_only_the_very_file_that_was_mapped) {
        ObjectCache *objects = cache();
        int proc_fd = open("/proc/self", O_RDONLY);
        struct stat st, fifo;
        char path[256];
        uint32_t major, minor;

        snprintf(path, sizeof(path), "%s", in_directory("x"));
        copy_file("/bin/true", path);
        cr_assert_eq(stat(path, &st), 0);
        major = (uint32_t)(st.st_dev >> 8 & 0xfff);
        minor = (uint32_t)(st.st_dev & 0xff);
        cr_expect_eq(open_made(objects, proc_fd, path, major, minor, st.st_ino), 0);
        cr_expect_eq(open_made(objects, proc_fd, path, major, minor, st.st_ino + 1), OBJECT_E_UNREADABLE);
        cr_expect_eq(open_made(objects, proc_fd, "/nonexistent", major, minor, st.st_ino), OBJECT_E_UNREADABLE);

        /* A FIFO would block an open, a directory is no file, a link may lead anywhere. */
        snprintf(path, sizeof(path), "%s", in_directory("fifo"));
        cr_assert_eq(mkfifo(path, 0700), 0);
        cr_assert_eq(stat(path, &fifo), 0);
        cr_expect_eq(open_made(objects, proc_fd, path, major, minor, fifo.st_ino), OBJECT_E_UNREADABLE);
        cr_assert_eq(stat(directory, &fifo), 0);
        cr_expect_eq(open_made(objects, proc_fd, directory, major, minor, fifo.st_ino), OBJECT_E_UNREADABLE);
        snprintf(path, sizeof(path), "%s", in_directory("link"));
        cr_assert_eq(symlink("x", path), 0);
        cr_expect_eq(open_made(objects, proc_fd, path, major, minor, st.st_ino), OBJECT_E_UNREADABLE);
        close(proc_fd);
        object_cache_free(objects);
        remove_directory();
}

/* Between the line of maps and the look at map_files another file may have been mapped there. */
Test(object, is_not_taken_for_what_has_replaced_it_in_memory) {
        ObjectCache *objects = cache();
        int proc_fd = open("/proc/self", O_RDONLY);
        ObjectSource source = { .proc_fd = proc_fd };
        MapsEntry entry = { .executable = true };
        Object *object = NULL;
        struct stat st, other;

        copy_file("/bin/true", in_directory("x"));
        copy_file("/bin/false", in_directory("y"));
        cr_assert_eq(stat(in_directory("y"), &other), 0);
        cr_assert_eq(stat(in_directory("x"), &st), 0);
        entry.start = (uintptr_t)map_file(in_directory("x"), 4096);
        entry.end = entry.start + 4096;
        entry.major = (uint32_t)(st.st_dev >> 8 & 0xfff);
        entry.minor = (uint32_t)(st.st_dev & 0xff);
        source.entry = &entry;
        source.path = in_directory("y");
        entry.inode = other.st_ino;
        cr_expect_eq(object_open(objects, &source, &object), OBJECT_E_UNREADABLE);
        source.path = in_directory("x");
        entry.inode = st.st_ino;
        cr_expect_eq(object_open(objects, &source, &object), 0);
        object_unref(object);
        free(source.mounts);
        close(proc_fd);
        object_cache_free(objects);
        remove_directory();
}

Test(object, opens_nothing_on_a_device_that_nobody_lists) {
        ObjectCache *objects = cache();
        int proc_fd = open("/proc/self", O_RDONLY);

        stat_reset();
        cr_assert_eq(open_made(objects, proc_fd, "/bin/true", 0, 0xfffff, 1), OBJECT_E_REMOTE);
        cr_assert_eq(stat_get(COUNTER_OBJECTS_REMOTE), 1);
        close(proc_fd);
        object_cache_free(objects);
}

Test(process, that_is_gone_is_a_condition) {
        OracleChild child = oracle_spawn("/bin/cat", "/proc/self/comm");
        ObjectCache *objects = cache();
        uint64_t cpu_ns = 77;
        Process *process;
        int fd;

        cr_assert_str_eq(child.line, "cat");
        oracle_end(&child);
        cr_assert_eq(process_new(&process, child.pid), PROCESS_E_GONE);

        child = oracle_spawn("/usr/bin/yes", NULL);
        cr_assert_eq(process_new(&process, child.pid), 0);
        cr_assert_eq(process_read_mappings(process, objects), 0);
        cr_assert_gt(process->n_mappings, 2);
        cr_assert_eq(process_cpu_time(process, &cpu_ns), 0);
        cr_assert_eq(process_open(child.pid, process->start_time_ns + ABI_START_TICK_NS, &fd), PROCESS_E_GONE);
        kill(child.pid, SIGKILL);
        waitid(P_PID, (id_t)child.pid, &(siginfo_t){ 0 }, WEXITED | WNOWAIT);
        /* A zombie: it has an id still, but nothing to see. The old mappings stay. */
        cr_assert_eq(process_read_mappings(process, objects), PROCESS_E_GONE);
        cr_assert_gt(process->n_mappings, 2);
        oracle_end(&child);
        cpu_ns = 77;
        cr_assert_eq(process_cpu_time(process, &cpu_ns), PROCESS_E_GONE);
        cr_assert_eq(cpu_ns, 77);
        process_free(process);
        object_cache_free(objects);
}

Test(process, has_the_cpu_time_of_all_its_threads) {
        uint64_t before_ns, cpu_ns, after_ns;
        Process *process;

        cr_assert_eq(process_new(&process, getpid()), 0);
        for (volatile int i = 0; i < 30000000; i++)
                ;
        before_ns = clock_read_ns(CLOCK_PROCESS_CPUTIME_ID);
        cr_assert_eq(process_cpu_time(process, &cpu_ns), 0);
        after_ns = clock_read_ns(CLOCK_PROCESS_CPUTIME_ID);
        cr_assert_geq(cpu_ns, before_ns);
        cr_assert_leq(cpu_ns, after_ns);
        process_free(process);
}

/* ---- leaders that exit first, and forks ---- */

static void *sleep_on(void *unused) {
        while (pause())
                ;
        return unused;
}

/* A process whose leader has exited; its thread goes on. */
static pid_t start_leaderless(void) {
        pid_t pid = fork();
        ProcessStat stat = { 0 };
        char comm[ABI_COMM_SIZE];
        pthread_t thread;

        if (!pid) {
                prctl(PR_SET_PDEATHSIG, SIGKILL);
                pthread_create(&thread, NULL, sleep_on, NULL);
                pthread_exit(NULL);
        }
        for (int i = 0; i < 1000 && stat.state != 'Z'; i++) {
                usleep(10000);
                cr_assert_eq(process_identify(pid, &stat, comm), 0);
        }
        cr_assert_eq(stat.state, 'Z');
        return pid;
}

Test(process, is_known_by_its_threads_when_its_leader_is_dead) {
        pid_t pid = start_leaderless(), tid;
        ObjectCache *objects = cache();
        Process *process, *self;
        int fd;

        cr_assert_eq(process_open_living(pid, 0, &fd, &tid), 0);
        cr_assert_neq(tid, pid);
        close(fd);
        cr_assert_eq(process_new(&process, pid), 0);
        cr_assert_eq(process_new(&self, getpid()), 0);
        cr_assert_str_eq(process->exe, self->exe);
        cr_assert_eq(process_read_mappings(process, objects), 0);
        cr_assert_eq(process_read_mappings(self, objects), 0);
        cr_assert_geq(process->n_mappings, self->n_mappings, "forked from us");
        cr_assert_eq(process->mappings[0].object, self->mappings[0].object);
        cr_assert_eq(process_open_living(pid, process->start_time_ns + 1, &fd, &tid), PROCESS_E_GONE);
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
        cr_assert_eq(process_open_living(pid, 0, &fd, &tid), PROCESS_E_GONE);
        process_free(process);
        process_free(self);
        object_cache_free(objects);
}

Test(process, inherits_what_its_parent_had_at_the_fork) {
        static const char comm[ABI_COMM_SIZE] = "child";
        ObjectCache *objects = cache();
        Process *parent, *child;
        Mapping mapping;
        uint64_t fork_ns;

        cr_assert_eq(process_new(&parent, getpid()), 0);
        cr_assert_eq(process_read_mappings(parent, objects), 0);
        fork_ns = parent->maps_read_ns + 100;
        mapping = (Mapping){ .start = parent->mappings[0].start, .end = parent->mappings[0].end, .kind = MAPPING_ANONYMOUS,
                             .path = strdup("") };
        cr_assert_eq(process_change(parent, &mapping, fork_ns + 100), 0);      /* after it */
        cr_assert_eq(process_new_gone(&child, 7, 1, comm), 0);
        cr_assert_eq(process_inherit(child, parent, fork_ns), 0);
        cr_assert_str_eq(child->exe, parent->exe);
        cr_assert_eq(child->n_mappings, parent->n_mappings);
        cr_assert_eq(parent->mappings[0].kind, MAPPING_ANONYMOUS);
        cr_assert_eq(process_find_mapping(child, parent->mappings[0].start)->kind, MAPPING_FILE);
        cr_assert_str_eq(child->mappings[1].path, parent->mappings[1].path);
        process_free(parent);
        cr_assert_not_null(child->mappings[1].path, "its own");
        process_free(child);
        object_cache_free(objects);
}

/* ---- in several turns ---- */

enum { N_PAIRS = 6000 };                /* 12,000 lines: three times what a turn may always have */

typedef struct Crowd {
        char *memory;                   /* every other page executable; the page in front is free */
        ObjectCache *objects;
        Process *process;
        ProcessReading *reading;
} Crowd;

static void crowd_init(Crowd *crowd, pid_t pid) {
        stat_reset();
        crowd->objects = cache();
        crowd->reading = NULL;
        cr_assert_eq(process_new(&crowd->process, pid), 0);
}

static void crowd_end(Crowd *crowd) {
        process_reading_free(crowd->reading);
        process_free(crowd->process);
        object_cache_free(crowd->objects);
}

static char *map_crowd(void) {
        char *memory = mmap(NULL, (2 * N_PAIRS + 1) * 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

        for (int i = 0; i < N_PAIRS; i++)
                mprotect(memory + (2 * i + 1) * 4096, 4096, PROT_READ | PROT_EXEC);
        return memory;
}

static int read_turn(Crowd *crowd) {
        size_t left = 0;

        return process_read_some(crowd->process, crowd->objects, &left, &crowd->reading);
}

Test(process, is_read_in_turns_as_at_once) {
        Process *at_once;
        unsigned n = 1;
        Crowd crowd;

        crowd.memory = map_crowd();
        crowd_init(&crowd, getpid());
        for (int r; (r = read_turn(&crowd)); n++) {
                cr_assert_eq(r, PROCESS_E_MORE);
                cr_assert_eq(crowd.process->n_mappings, 0, "all or nothing");
        }
        cr_assert_gt(n, 2);
        cr_assert_eq(stat_get(COUNTER_MAPS_PAUSED), n - 1);
        cr_assert_eq(stat_get(COUNTER_MAPS_READS), 1);
        cr_assert_null(crowd.reading);
        cr_assert_eq(process_new(&at_once, getpid()), 0);
        cr_assert_eq(process_read_mappings(at_once, crowd.objects), 0);
        cr_assert_geq(at_once->n_mappings, N_PAIRS);
        cr_assert_eq(at_once->n_mappings, crowd.process->n_mappings);
        for (size_t i = 0; i < at_once->n_mappings; i++)
                cr_assert_eq(at_once->mappings[i].start, crowd.process->mappings[i].start);
        process_free(at_once);
        crowd_end(&crowd);
}

/* Its line has been read already when it comes; a notice tells of it. */
Test(process, has_what_was_mapped_while_it_was_being_read) {
        Mapping mapping = { .kind = MAPPING_ANONYMOUS };
        Crowd crowd;

        crowd.memory = map_crowd();
        crowd_init(&crowd, getpid());
        cr_assert_eq(read_turn(&crowd), PROCESS_E_MORE);
        cr_assert_eq(mprotect(crowd.memory, 4096, PROT_READ | PROT_WRITE | PROT_EXEC), 0);
        mapping.start = (uintptr_t)crowd.memory;
        mapping.end = mapping.start + 4096;
        mapping.path = strdup("");
        cr_assert_eq(process_reading_note(crowd.reading, &mapping, clock_monotonic_ns()), 0);
        while (crowd.reading)
                cr_assert_geq(read_turn(&crowd), 0);
        cr_assert_not_null(process_find_mapping(crowd.process, mapping.start));
        cr_assert_not_null(process_find_mapping(crowd.process, mapping.end));
        for (size_t i = 1; i < crowd.process->n_mappings; i++)
                cr_assert_geq(crowd.process->mappings[i].start, crowd.process->mappings[i - 1].end);
        free(mapping.path);
        crowd_end(&crowd);
}

Test(process, counts_what_changes_while_it_is_being_read) {
        Mapping mapping = { .start = 4096, .end = 8192, .kind = MAPPING_ANONYMOUS, .path = (char[]){ "" } };
        unsigned n = 0;
        Crowd crowd;
        int r;

        crowd.memory = map_crowd();
        crowd_init(&crowd, getpid());
        cr_assert_eq(read_turn(&crowd), PROCESS_E_MORE);
        while (!(r = process_reading_note(crowd.reading, &mapping, clock_monotonic_ns())) && n < 100000)
                n++;
        cr_assert_eq(r, PROCESS_E_MORE);
        cr_assert_gt(n, 100);
        crowd_end(&crowd);
}

static pid_t fork_crowd(int *gop) {
        int go[2], ready[2];
        pid_t pid;
        char c;

        cr_assert(!pipe(go) && !pipe(ready));
        pid = fork();
        if (!pid) {
                prctl(PR_SET_PDEATHSIG, SIGKILL);
                map_crowd();
                if (write(ready[1], "x", 1) == 1 && read(go[0], &c, 1) == 1)
                        execl("/bin/sleep", "sleep", "1000", NULL);
                _exit(1);
        }
        cr_assert_eq(read(ready[0], &c, 1), 1);
        *gop = go[1];
        return pid;
}

/* Half of its maps would look like all of them. */
Test(process, that_exits_or_becomes_another_program_between_two_turns_is_gone) {
        for (int exec = 0; exec < 2; exec++) {
                int go;
                pid_t pid = fork_crowd(&go);
                char comm[ABI_COMM_SIZE] = "";
                ProcessStat stat;
                Crowd crowd;
                int r;

                crowd_init(&crowd, pid);
                cr_assert_eq(read_turn(&crowd), PROCESS_E_MORE);
                if (exec) {
                        cr_assert_eq(write(go, "x", 1), 1);
                        while (strcmp(comm, "sleep")) {
                                usleep(1000);
                                cr_assert_eq(process_identify(pid, &stat, comm), 0);
                        }
                } else {
                        kill(pid, SIGKILL);
                        waitpid(pid, NULL, 0);
                }
                do
                        r = read_turn(&crowd);
                while (r == PROCESS_E_MORE);
                cr_assert_eq(r, PROCESS_E_GONE, "%d", exec);
                cr_assert_eq(crowd.process->n_mappings, 0);
                crowd_end(&crowd);
                kill(pid, SIGKILL);
                waitpid(pid, NULL, 0);
        }
}
