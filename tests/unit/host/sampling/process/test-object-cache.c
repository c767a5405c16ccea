/* SPDX-License-Identifier: Apache-2.0 */

/* Files that processes have mapped, however they look by then. */

#include <fcntl.h>
#include <limits.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "core/base/util/stat.h"
#include "oracle.h"
#include "process-bench.h"
#include "stat-reset.h"

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

static char directory[] = "/tmp/test-object-XXXXXX";

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
        cr_assert(oracle_line("readelf -n /bin/true | awk '/Build ID/ {print $3}'", expected,
                              sizeof(expected)));
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
        /* indistinguishable from the kernel's mark: removed */
        cr_assert_null(strstr(mapping->path, " (deleted)"));
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
static int open_made(ObjectCache *objects, int proc_fd, const char *path, uint32_t major, uint32_t minor,
                     uint64_t inode) {
        MapsEntry entry = { .start = 0x1000,
                            .end = 0x2000,
                            .inode = inode,
                            .major = major,
                            .minor = minor,
                            .executable = true };
        Mounts mounts = { 0 };
        ObjectSource source = { .proc_fd = proc_fd, .entry = &entry, .path = path, .mounts = &mounts };
        Object *object = NULL;
        int r = object_open(objects, &source, &object);

        object_unref(object);
        mounts_deinit(&mounts);
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
        cr_expect_eq(open_made(objects, proc_fd, "/nonexistent", major, minor, st.st_ino),
                     OBJECT_E_UNREADABLE);

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

static void write_file(const char *path, const char *bytes, size_t size) {
        int fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0700);

        cr_assert_eq(write(fd, bytes, size), (ssize_t)size);
        cr_assert_eq(close(fd), 0);
}

/* The cap is 16,384; one process alone leaves three times what it holds. */
Test(object, a_process_holds_no_more_than_its_share) {
        enum { N = 4200, SHARE = 4096 };
        ObjectCache *objects = NULL;
        Object *held[N] = { 0 }, *of_other = NULL;
        ShareOwner greedy = { 1, 1000, 11 }, other = { 2, 1000, 12 };
        int proc_fd = open("/proc/self", O_RDONLY), n_full = 0, fd = open("/bin/true", O_RDONLY);
        Mounts mounts = { 0 };
        static char program[256 << 10];
        ssize_t size = read(fd, program, sizeof(program));

        stat_reset();
        cr_assert(size > 0 && size < (ssize_t)sizeof(program));
        cr_assert_eq(close(fd), 0);
        cr_assert_eq(object_cache_new(&objects, 16), 0);
        for (int i = 0; i <= N; i++) {
                MapsEntry entry = { .executable = true };
                ObjectSource source = { .proc_fd = proc_fd, .entry = &entry, .path = in_directory("x"),
                                        .mounts = &mounts, .owner = i < N ? &greedy : &other };
                struct stat st;
                int r;

                unlink(in_directory("x"));
                write_file(in_directory("x"), program, (size_t)size);
                cr_assert_eq(stat(in_directory("x"), &st), 0);
                entry.start = (uintptr_t)map_file(in_directory("x"), 4096);
                entry.end = entry.start + 4096;
                entry.inode = st.st_ino;
                entry.major = (uint32_t)(st.st_dev >> 8 & 0xfff);
                entry.minor = (uint32_t)(st.st_dev & 0xff);
                r = object_open(objects, &source, i < N ? &held[i] : &of_other);
                cr_assert(!r || (i < N && r == OBJECT_E_FULL), "%d: %d", i, r);
                n_full += r == OBJECT_E_FULL;
        }
        cr_assert_eq(n_full, N - SHARE);
        cr_assert_eq(stat_get(COUNTER_OBJECTS_OVER_CAP), N - SHARE);
        cr_assert_not_null(of_other, "who comes later has room");
        object_unref(of_other);
        for (int i = 0; i < N; i++)
                object_unref(held[i]);
        mounts_deinit(&mounts);
        close(proc_fd);
        object_cache_free(objects);
        remove_directory();
}

Test(object, is_asked_for_once_a_turn) {
        _cleanup_(object_cache_freep) ObjectCache *cache = NULL;
        uint32_t major, minor;
        Object *object, *again;
        ObjectFile file;
        char path[PATH_MAX];
        ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 1);

        cr_assert_gt(n, 0);
        path[n] = 0;
        cr_assert_eq(object_cache_new(&cache, 4), 0);
        cr_assert_eq(object_open_path(cache, path, 0, &object), 0);
        file = object_file(object);
        major = major(file.device);
        minor = minor(file.device);
        cr_assert(object_find_seen(cache, major, minor, file.inode, &again));
        cr_assert_eq(again, object);
        object_unref(again);
        cr_assert_not(object_find_seen(cache, major, minor, file.inode + 1, &again));
        cr_assert_not(object_find_seen(cache, major + 1, minor, file.inode, &again));
        object_cache_begin_turn(cache);
        cr_assert_not(object_find_seen(cache, major, minor, file.inode, &again), "it may be rewritten by now");
        object_unref(object);
}

/* Between the line of maps and the look at map_files another file may have been mapped there. */
Test(object, is_not_taken_for_what_has_replaced_it_in_memory) {
        ObjectCache *objects = cache();
        int proc_fd = open("/proc/self", O_RDONLY);
        Mounts mounts = { 0 };
        ObjectSource source = { .proc_fd = proc_fd, .mounts = &mounts };
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
        mounts_deinit(&mounts);
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
