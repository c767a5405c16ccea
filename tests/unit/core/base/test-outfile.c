/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pty.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/un.h>

#include "core/base/file/file.h"
#include "core/base/file/outfile.h"
#include "core/base/util/macro.h"

enum { CALLER = 4711, STRANGER = 4712 };

static char root[64];

static void make_root(void) {
        strcpy(root, "/tmp/spanprof-outfile-XXXXXX");
        cr_assert_not_null(mkdtemp(root));
        cr_assert_eq(chmod(root, 0755), 0);
        cr_assert_eq(chdir(root), 0);
        unsetenv("SUDO_UID");
        unsetenv("SUDO_GID");
        umask(022);
}

static void remove_root(void) {
        char command[128];

        snprintf(command, sizeof(command), "rm -rf %s", root);
        cr_assert_eq(system(command), 0);
}

TestSuite(outfile, .init = make_root, .fini = remove_root);

static const OutfileOptions ordinary = { .mode = 0666 },
                            recording = { .mode = 0600, .for_caller = true, .keeps_old = true },
                            growing = { .mode = 0644, .live = true },
                            behind = { .mode = 0644, .append = true },
                            database = { .mode = 0600, .by_path = true };

static void need_root(void) {
        if (geteuid())
                cr_skip_test("root: needs root");
}

static void be_called_by(uid_t uid) {
        char text[16];

        snprintf(text, sizeof(text), "%u", uid);
        setenv("SUDO_UID", text, 1);
        setenv("SUDO_GID", text, 1);
}

static void put(const char *path, const char *content, mode_t mode, uid_t uid) {
        FILE *file = fopen(path, "w");

        cr_assert_not_null(file);
        fputs(content, file);
        fclose(file);
        cr_assert_eq(chmod(path, mode), 0);
        if (uid)
                cr_assert_eq(chown(path, uid, uid), 0);
}

static void make_directory(const char *path, mode_t mode, uid_t uid) {
        cr_assert_eq(mkdir(path, 0700), 0);
        cr_assert_eq(chmod(path, mode), 0);
        cr_assert_eq(chown(path, uid, uid), 0);
}

static void make_link(const char *goal, const char *path, uid_t uid) {
        cr_assert_eq(symlink(goal, path), 0);
        cr_assert_eq(lchown(path, uid, uid), 0);
}

static void expect_content(const char *path, const char *content) {
        _cleanup_(freep) char *data = NULL;
        size_t size;

        cr_assert_eq(file_read(path, 1000, &data, &size), 0, "%s", path);
        cr_expect_str_eq(data, content, "%s", path);
}

static void expect_file(const char *path, const char *content, mode_t mode, uid_t uid) {
        struct stat status;

        expect_content(path, content);
        cr_assert_eq(lstat(path, &status), 0);
        cr_expect_eq(status.st_mode, S_IFREG | mode, "%s: %o", path, status.st_mode);
        cr_expect_eq(status.st_uid, uid, "%s: %u", path, status.st_uid);
}

static unsigned count(const char *path) {
        DIR *directory = opendir(path);
        struct dirent *entry;
        unsigned n = 0;

        cr_assert_not_null(directory);
        while ((entry = readdir(directory)))
                n += strcmp(entry->d_name, ".") && strcmp(entry->d_name, "..");
        closedir(directory);
        return n;
}

static int write_to(const char *path, const OutfileOptions *options) {
        _cleanup_(outfile_deinit) Outfile file = OUTFILE_NONE;
        int r = outfile_open(&file, path, options);

        if (!r)
                r = outfile_write(&file, "new", 3);
        return r ? r : outfile_finish(&file);
}

Test(outfile, appears_whole_or_not_at_all) {
        Outfile file;

        put("x", "old", 0644, 0);
        cr_assert_eq(outfile_open(&file, "x", &ordinary), 0);
        cr_assert_eq(outfile_write(&file, "new", 3), 0);
        expect_content("x", "old");
        outfile_deinit(&file);
        cr_expect_eq(count("."), 1, "nothing is left of what was not finished");
        expect_content("x", "old");
        cr_assert_eq(write_to("x", &ordinary), 0);
        expect_content("x", "new");
        cr_expect_eq(count("."), 1);
}

Test(outfile, that_is_live_can_be_read_from_the_start) {
        _cleanup_(outfile_deinit) Outfile file = OUTFILE_NONE;

        put("x", "old", 0600, 0);
        cr_assert_eq(link("x", "y"), 0);
        cr_assert_eq(outfile_open(&file, "x", &growing), 0);
        expect_content("x", "");
        cr_assert_eq(outfile_write(&file, "new", 3), 0);
        expect_file("x", "new", 0600, geteuid());
        expect_content("y", "old");
        cr_expect_eq(count("."), 2);
}

Test(outfile, has_the_mode_that_open_would_give) {
        umask(027);
        cr_assert_eq(write_to("x", &ordinary), 0);
        expect_file("x", "new", 0640, geteuid());
        cr_assert_eq(write_to("y", &recording), 0);
        expect_file("y", "new", 0600, geteuid());
}

Test(outfile, keeps_owner_group_and_mode_of_what_it_replaces) {
        struct stat status;

        put("x", "old", 0600, 0);
        cr_assert_eq(write_to("x", &ordinary), 0);
        expect_file("x", "new", 0600, geteuid());
        need_root();
        cr_assert_eq(chown("x", 0, 77), 0);
        cr_assert_eq(chmod("x", 0640), 0);
        cr_assert_eq(write_to("x", &ordinary), 0);
        expect_file("x", "new", 0640, 0);
        cr_assert_eq(stat("x", &status), 0);
        cr_expect_eq(status.st_gid, 77);
}

Test(outfile, is_never_more_readable_than_its_inputs) {
        OutfileReaders readers = { 0 };

        outfile_note_input(&readers, &(struct stat){ .st_mode = S_IFREG | 0644, .st_uid = 5 });
        outfile_note_input(&readers, &(struct stat){ .st_mode = S_IFIFO | 0600, .st_uid = 5 });
        cr_expect(!readers.limited, "everybody may read the first, and a pipe has no readers");
        outfile_note_input(&readers,
                           &(struct stat){ .st_mode = S_IFREG | 0640, .st_uid = 5, .st_gid = getegid() });
        cr_expect(readers.limited && readers.group && !readers.several);
        cr_assert_eq(write_to("group", &(OutfileOptions){ .mode = 0666, .readers = readers }), 0);
        expect_file("group", "new", 0640, geteuid());
        put("old", "old", 0644, 0);
        outfile_note_input(&readers,
                           &(struct stat){ .st_mode = S_IFREG | 0640, .st_uid = 6, .st_gid = getegid() + 1 });
        cr_expect(readers.limited && !readers.group && readers.several);
        cr_assert_eq(write_to("alone", &(OutfileOptions){ .mode = 0666, .readers = readers }), 0);
        expect_file("alone", "new", 0600, geteuid());
        cr_assert_eq(write_to("old", &(OutfileOptions){ .mode = 0666, .readers = readers }), 0);
        expect_file("old", "new", 0600, geteuid());
}

Test(outfile, follows_its_own_links_also_to_what_is_not_there_yet) {
        struct stat status;

        cr_assert_eq(mkdir("a", 0755), 0);
        put("a/x", "old", 0644, 0);
        cr_assert_eq(symlink("a", "b"), 0);
        cr_assert_eq(symlink("../b/./x", "a/link"), 0);
        cr_assert_eq(write_to("b/link", &ordinary), 0);
        expect_content("a/x", "new");
        cr_assert_eq(symlink("a/later", "dangling"), 0);
        cr_assert_eq(write_to("dangling", &ordinary), 0);
        expect_content("a/later", "new");
        cr_assert_eq(lstat("dangling", &status), 0);
        cr_expect(S_ISLNK(status.st_mode));
        cr_assert_eq(symlink("round", "round"), 0);
        cr_expect_eq(write_to("round", &ordinary), -ELOOP);
        cr_expect_eq(count("a"), 3);
}

/* What fs.protected_symlinks forbids, and the way to it. */
Test(outfile, follows_no_link_of_a_stranger) {
        need_root();
        make_directory("sticky", 01777, 0);
        make_directory("open", 0777, 0);
        make_directory("theirs", 0755, STRANGER);
        make_directory("secret", 0700, 0);
        put("secret/x", "old", 0600, 0);
        make_link("../secret/x", "sticky/x", STRANGER);
        make_link("../secret/y", "sticky/dangling", STRANGER);
        make_link("../secret", "sticky/way", STRANGER);
        make_link("../secret/x", "theirs/x", 0);
        make_link("../secret/x", "open/x", 0);
        make_link("sticky/x", "chain", 0);
        for (size_t i = 0; i < 5; i++) {
                const OutfileOptions *ways[] = { &ordinary, &recording, &growing, &behind, &database };

                cr_expect_eq(write_to("sticky/x", ways[i]), OUTFILE_E_LINK);
                cr_expect_eq(write_to("sticky/dangling", ways[i]), OUTFILE_E_LINK);
                cr_expect_eq(write_to("sticky/way/x", ways[i]), OUTFILE_E_LINK);
                cr_expect_eq(write_to("theirs/x", ways[i]), OUTFILE_E_LINK,
                             "a link of ours that they may have moved there");
                cr_expect_eq(write_to("open/x", ways[i]), OUTFILE_E_LINK);
                cr_expect_eq(write_to("chain", ways[i]), OUTFILE_E_LINK);
                cr_expect_eq(outfile_check("sticky/x", ways[i]), OUTFILE_E_LINK);
        }
        expect_file("secret/x", "old", 0600, 0);
        cr_expect_eq(count("secret"), 1);
        make_link("../secret/x", "sticky/ours", 0);
        cr_assert_eq(write_to("sticky/ours", &ordinary), 0);
        expect_file("secret/x", "new", 0600, 0);
}

Test(outfile, gives_to_the_caller_of_sudo_what_is_new_or_was_theirs) {
        need_root();
        be_called_by(CALLER);
        make_directory("home", 0755, CALLER);
        cr_assert_eq(write_to("home/new", &recording), 0);
        expect_file("home/new", "new", 0600, CALLER);
        put("home/old", "old", 0600, CALLER);
        cr_assert_eq(write_to("home/old", &recording), 0);
        expect_file("home/old", "new", 0600, CALLER);
        expect_file("home/old.old", "old", 0600, CALLER);
        put("home/root", "old", 0600, 0);
        cr_assert_eq(write_to("home/root", &recording), 0);
        expect_file("home/root", "new", 0600, 0);
        make_link("root", "home/link", CALLER);
        cr_assert_eq(write_to("home/link", &recording), 0);
        expect_file("home/root", "new", 0600, 0);
        make_directory("sticky", 01777, 0);
        make_link("../home/root", "sticky/link", CALLER);
        cr_expect_eq(write_to("sticky/link", &recording), OUTFILE_E_LINK,
                     "the kernel would not follow it either");
}

Test(outfile, gives_to_the_caller_of_sudo_nothing_that_they_may_not_read) {
        OutfileOptions options = { .mode = 0666, .for_caller = true };

        need_root();
        be_called_by(CALLER);
        cr_assert_eq(write_to("public", &options), 0);
        expect_file("public", "new", 0644, CALLER);
        outfile_note_input(&options.readers, &(struct stat){ .st_mode = S_IFREG | 0600, .st_uid = CALLER });
        cr_assert_eq(write_to("private", &options), 0);
        expect_file("private", "new", 0600, CALLER);
        outfile_note_input(&options.readers, &(struct stat){ .st_mode = S_IFREG | 0600, .st_uid = 0 });
        cr_assert_eq(write_to("secret", &options), 0);
        expect_file("secret", "new", 0600, 0);
        cr_expect_eq(write_to("private", &options), OUTFILE_E_READERS);
        expect_file("private", "new", 0600, CALLER);
}

Test(outfile, leaves_files_of_others_alone) {
        need_root();
        be_called_by(CALLER);
        make_directory("sticky", 01777, 0);
        put("sticky/x", "theirs", 0666, STRANGER);
        cr_expect_eq(write_to("sticky/x", &ordinary), OUTFILE_E_OWNER);
        cr_expect_eq(write_to("sticky/x", &recording), OUTFILE_E_OWNER);
        cr_expect_eq(write_to("sticky/x", &growing), OUTFILE_E_OWNER);
        cr_expect_eq(write_to("sticky/x", &behind), OUTFILE_E_OWNER);
        cr_expect_eq(outfile_check("sticky/x", &recording), OUTFILE_E_OWNER);
        put("sticky/y.old", "theirs", 0666, STRANGER);
        cr_expect_eq(write_to("sticky/y", &recording), OUTFILE_E_OLD);
        cr_assert_eq(mkfifo("sticky/pipe", 0666), 0);
        cr_assert_eq(chown("sticky/pipe", STRANGER, STRANGER), 0);
        cr_expect_eq(write_to("sticky/pipe", &ordinary), OUTFILE_E_OWNER);
        expect_file("sticky/x", "theirs", 0666, STRANGER);
        expect_file("sticky/y.old", "theirs", 0666, STRANGER);
        cr_expect_eq(count("sticky"), 3);
}

Test(outfile, does_not_write_through_hard_links) {
        put("secret", "old", 0600, 0);
        cr_assert_eq(link("secret", "x"), 0);
        cr_expect_eq(write_to("x", &behind), OUTFILE_E_NAMES);
        expect_content("secret", "old");
        cr_assert_eq(write_to("x", &ordinary), 0);
        expect_file("x", "new", 0600, geteuid());
        expect_content("secret", "old");
        cr_assert_eq(write_to("x", &behind), 0);
        expect_content("x", "newnew");
}

Test(outfile, keeps_what_was_there_as_old) {
        put("x", "first", 0640, 0);
        cr_assert_eq(write_to("x", &recording), 0);
        expect_file("x.old", "first", 0640, geteuid());
        expect_file("x", "new", 0600, geteuid());
        cr_assert_eq(mkdir("y.old", 0700), 0);
        cr_expect_eq(outfile_check("y", &recording), OUTFILE_E_OLD);
        cr_expect_eq(count("."), 3);
}

Test(outfile, judges_again_at_the_end) {
        _cleanup_(outfile_deinit) Outfile file = OUTFILE_NONE;

        cr_assert_eq(outfile_open(&file, "x", &ordinary), 0);
        cr_assert_eq(symlink("secret", "x"), 0);
        cr_expect_eq(outfile_finish(&file), OUTFILE_E_CHANGED);
        outfile_deinit(&file);
        cr_expect_eq(count("."), 1);
}

/* The stranger moves the directory away, and a link into its place: all goes by the descriptor. */
Test(outfile, stays_in_the_directory_that_it_has_found) {
        _cleanup_(outfile_deinit) Outfile file = OUTFILE_NONE;

        cr_assert_eq(mkdir("a", 0755), 0);
        cr_assert_eq(mkdir("secret", 0755), 0);
        put("secret/x", "old", 0600, 0);
        cr_assert_eq(outfile_open(&file, "a/x", &recording), 0);
        cr_assert_eq(rename("a", "b"), 0);
        cr_assert_eq(symlink("secret", "a"), 0);
        cr_assert_eq(outfile_write(&file, "new", 3), 0);
        cr_assert_eq(outfile_finish(&file), 0);
        expect_content("secret/x", "old");
        expect_content("b/x", "new");
        cr_expect_eq(count("secret"), 1);
}

Test(outfile, writes_into_a_pipe) {
        char data[8] = { 0 };
        struct stat status;
        int fd;

        cr_assert_eq(mkfifo("pipe", 0600), 0);
        cr_expect_eq(write_to("pipe", &(OutfileOptions){ .impatient = true }), OUTFILE_E_UNREAD);
        fd = open("pipe", O_RDONLY | O_NONBLOCK);
        cr_assert_eq(outfile_check("pipe", &recording), 0);
        cr_assert_eq(write_to("pipe", &recording), 0);
        cr_assert_eq(read(fd, data, sizeof(data)), 3);
        cr_expect_str_eq(data, "new");
        cr_assert_eq(write_to("pipe", &(OutfileOptions){ .impatient = true }), 0);
        cr_assert_eq(read(fd, data, sizeof(data)), 3);
        close(fd);
        cr_assert_eq(lstat("pipe", &status), 0);
        cr_expect(S_ISFIFO(status.st_mode));
        cr_expect_eq(count("."), 1);
}

Test(outfile, writes_into_a_pipe_without_a_name) {
        char path[32], data[8] = { 0 };
        int ends[2];

        cr_assert_eq(pipe(ends), 0);
        snprintf(path, sizeof(path), "/proc/self/fd/%d", ends[1]);
        cr_assert_eq(write_to(path, &ordinary), 0);
        cr_assert_eq(read(ends[0], data, sizeof(data)), 3);
        cr_expect_str_eq(data, "new");
}

Test(outfile, writes_to_a_terminal) {
        int master, slave;
        char name[64], data[8] = { 0 };

        cr_assert_eq(openpty(&master, &slave, name, NULL, NULL), 0);
        cr_assert_eq(write_to(name, &ordinary), 0);
        cr_assert_eq(read(master, data, sizeof(data)), 3);
        cr_expect_str_eq(data, "new");
        cr_expect_eq(write_to("/dev/ptmx", &ordinary), OUTFILE_E_DEVICE, "that would make a terminal");
}

/* Copies in a directory of ours: the machine's own stay out of it. */
Test(outfile, writes_into_null_and_to_no_other_device) {
        static const struct { const char *name; mode_t type; unsigned major, minor; int want;
        } devices[] = {
                { "null", S_IFCHR, 1, 3, 0 },
                { "zero", S_IFCHR, 1, 5, OUTFILE_E_DEVICE },
                { "full", S_IFCHR, 1, 7, OUTFILE_E_DEVICE },
                { "loop", S_IFBLK, 7, 201, OUTFILE_E_DEVICE },
        };
        struct stat status;

        need_root();
        for (size_t i = 0; i < ARRAY_SIZE(devices); i++) {
                if (mknod(devices[i].name, devices[i].type | 0600,
                          makedev(devices[i].major, devices[i].minor)))
                        cr_skip_test("root: may make no devices");
                cr_expect_eq(write_to(devices[i].name, &ordinary), devices[i].want, "%s", devices[i].name);
                cr_expect_eq(write_to(devices[i].name, &recording), devices[i].want, "%s", devices[i].name);
                cr_expect_eq(outfile_check(devices[i].name, &recording), devices[i].want, "%s",
                             devices[i].name);
                cr_assert_eq(lstat(devices[i].name, &status), 0);
                cr_expect_eq(status.st_mode, devices[i].type | 0600);
        }
        cr_expect_eq(count("."), ARRAY_SIZE(devices));
}

Test(outfile, refuses_directories_sockets_and_what_leads_nowhere) {
        struct sockaddr_un address = { AF_UNIX, "socket" };
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

        cr_assert_eq(mkdir("a", 0755), 0);
        put("x", "old", 0644, 0);
        cr_assert_eq(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
        cr_expect_eq(write_to("a", &ordinary), -EISDIR);
        cr_expect_eq(write_to("a/", &ordinary), -EISDIR);
        cr_expect_eq(write_to("a/.", &ordinary), -EISDIR);
        cr_expect_eq(write_to("/", &ordinary), -EISDIR);
        cr_expect_eq(write_to("", &ordinary), -ENOENT);
        cr_expect_eq(write_to("none/x", &ordinary), -ENOENT);
        cr_expect_eq(write_to("none/", &ordinary), -ENOENT);
        cr_expect_eq(write_to("x/y", &ordinary), -ENOTDIR);
        cr_expect_eq(write_to("socket", &ordinary), OUTFILE_E_DEVICE);
        close(fd);
        cr_expect_eq(count("."), 3);
}

/* A limit on the size of files stands for the full disk. */
Test(outfile, that_finds_no_room_leaves_what_was_there) {
        put("x", "old", 0644, 0);
        signal(SIGXFSZ, SIG_IGN);
        cr_assert_eq(setrlimit(RLIMIT_FSIZE, &(struct rlimit){ 2, 2 }), 0);
        cr_expect_eq(write_to("x", &ordinary), -EFBIG);
        cr_expect_eq(write_to("x", &recording), -EFBIG);
        expect_content("x", "old");
        cr_expect_eq(count("."), 1);
}

Test(outfile, of_a_library_needs_a_directory_that_nobody_else_may_change) {
        _cleanup_(outfile_deinit) Outfile file = OUTFILE_NONE;
        char path[128];

        cr_assert_eq(mkdir("link-to", 0755), 0);
        cr_assert_eq(symlink("link-to", "link"), 0);
        cr_assert_eq(outfile_open(&file, "link/x.db", &database), 0);
        snprintf(path, sizeof(path), "%s/link-to/x.db", root);
        cr_expect_str_eq(outfile_path(&file), path);
        cr_expect_eq(file.fd, -1, "to close one would take the library's locks away");
        expect_file("link-to/x.db", "", 0600, geteuid());
        put("other.db", "no database", 0600, 0);
        outfile_deinit(&file);
        cr_assert_eq(outfile_find(&file, "other.db", &database), 0);
        cr_expect_eq(outfile_expect(&file, "SQLite", 6), OUTFILE_E_KIND);
        cr_expect_eq(outfile_expect(&file, "no data", 7), 0);
        cr_assert_eq(mkdir("sticky", 0700), 0);
        cr_assert_eq(chmod("sticky", 01777), 0);
        cr_expect_eq(write_to("sticky/x.db", &database), OUTFILE_E_SHARED);
        cr_expect_eq(count("sticky"), 0);
        cr_assert_eq(chmod(root, 0700), 0);
        cr_expect_eq(outfile_check("sticky/x.db", &database), 0, "nobody else gets there");
        cr_assert_eq(chmod(root, 0755), 0);
        need_root();
        make_directory("theirs", 0755, STRANGER);
        make_directory("theirs/ours", 0700, 0);
        cr_expect_eq(write_to("theirs/x.db", &database), OUTFILE_E_SHARED);
        cr_expect_eq(write_to("theirs/ours/x.db", &database), OUTFILE_E_SHARED, "they may move it");
}

Test(outfile, makes_directories_for_many) {
        struct stat status;
        int fd;

        cr_assert_eq(outfile_open_directory("new/", OUTFILE_NO_HEIR, &fd), 0);
        close(fd);
        cr_assert_eq(stat("new", &status), 0);
        cr_expect_eq(status.st_mode, S_IFDIR | 0700);
        cr_assert_eq(outfile_open_directory("new", OUTFILE_NO_HEIR, &fd), 0);
        close(fd);
        cr_assert_eq(chmod("new", 0777), 0);
        cr_expect_eq(outfile_open_directory("new", OUTFILE_NO_HEIR, &fd), OUTFILE_E_SHARED);
        cr_assert_eq(chmod("new", 01777), 0);
        cr_assert_eq(outfile_open_directory("new", OUTFILE_NO_HEIR, &fd), 0);
        close(fd);
        cr_expect_eq(outfile_open_directory("none/deeper", OUTFILE_NO_HEIR, &fd), -ENOENT);
        cr_expect_eq(outfile_open_directory("", OUTFILE_NO_HEIR, &fd), -ENOENT);
        put("x", "", 0600, 0);
        cr_expect_eq(outfile_open_directory("x", OUTFILE_NO_HEIR, &fd), -ENOTDIR);
        need_root();
        make_directory("theirs", 0755, STRANGER);
        cr_expect_eq(outfile_open_directory("theirs", OUTFILE_NO_HEIR, &fd), OUTFILE_E_OWNER);
        make_directory("sticky", 01777, 0);
        make_directory("sticky/theirs", 0700, STRANGER);
        cr_expect_eq(outfile_open_directory("sticky/theirs", OUTFILE_NO_HEIR, &fd), OUTFILE_E_OWNER);
        cr_expect_eq(outfile_open_directory("sticky/theirs", STRANGER + 1, &fd), OUTFILE_E_OWNER);
        cr_expect_eq(outfile_open_directory("sticky/theirs", STRANGER, &fd), 0);
        make_link("/", "new/link", STRANGER);
        cr_expect_eq(outfile_open_directory("new/link", OUTFILE_NO_HEIR, &fd), OUTFILE_E_LINK);
}

Test(outfile, says_of_each_obstacle_what_to_do) {
        for (int r = OUTFILE_E_LINK; r <= OUTFILE_E_CHANGED; r++)
                cr_expect(strstr(outfile_problem(r), "choose") ||
                                  strstr(outfile_problem(r), "name the file") ||
                                  strstr(outfile_problem(r), "start"),
                          "%d", r);
        cr_expect_str_eq(outfile_problem(-ENOSPC), strerror(ENOSPC));
}
