/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Output File
 *
 * Each file whose path a user gives is opened here. spanprof often runs as root, and the path may lead
 * through directories that others write to. So each part of a path is opened by the descriptor of the one
 * before it:
 *
 *  - A link is followed only if it and its directory belong to us, to root or to the caller of sudo. In a
 *    directory that everybody may write to, links of the caller of sudo are not followed either (as
 *    fs.protected_symlinks has it, on every machine).
 *  - A regular file is replaced, never opened. The new one has no name, or one that no user can guess, until
 *    it is renamed in that directory. It keeps owner, group and mode of the old one. A file of another user
 *    is refused.
 *  - A pipe, a terminal and /dev/null are written into. Other devices, and pipes of other users, are refused
 *    before they are opened.
 *  - Users who may not read what an output was made from may not read the output (OutfileReaders).
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

enum {
        _OUTFILE_E_SUCCESS,
        OUTFILE_E_LINK,                 /* a link of another user, or in the directory of one */
        OUTFILE_E_OWNER,                /* belongs to another user */
        /* belongs to the caller of sudo, who may not read all that it would be made from */
        OUTFILE_E_READERS,
        OUTFILE_E_DEVICE,
        OUTFILE_E_UNREAD,               /* a pipe without a reader, which is not waited for */
        OUTFILE_E_OLD,                  /* FILE.old is not ours */
        OUTFILE_E_NAMES,                /* has several names, and would be written to in place */
        OUTFILE_E_SHARED,               /* others may change the directory, or one above it */
        OUTFILE_E_KIND,                 /* a file of another kind: outfile_expect() */
        OUTFILE_E_CHANGED,              /* is no longer what it was when it was opened */
};

/* Users who may read all that an output is made from. Starts as zeros: everybody. */
typedef struct OutfileReaders {
        bool limited;                   /* not everybody */
        bool group;                     /* all members of `gid` may */
        bool several;                   /* owners: then only we ourselves */
        uid_t uid;
        gid_t gid;
} OutfileReaders;

typedef struct OutfileOptions {
        mode_t mode;                    /* mode of a new file; umask takes from it */
        OutfileReaders readers;
        /* a new one belongs to the caller of sudo, if they may read all that it is made from */
        bool for_caller;
        bool keeps_old;                 /* the file that is there becomes FILE.old */
        bool live;                      /* has its name from the first byte on, not at the end */
        bool append;                    /* live, and behind what is there */
        bool by_path;                   /* live, and a library will open outfile_path() */
        bool impatient;                 /* a pipe without a reader is refused; else one is waited for */
} OutfileOptions;

typedef struct Outfile {
        OutfileOptions options;
        int directory;                  /* O_PATH; -1 = standard output */
        int there;                      /* O_PATH of what is there, or -1 */
        struct stat status;             /* status of `there` */
        /* in the directory; NULL = it has none there, as a pipe of /proc/self/fd */
        char *name;
        char *path;                     /* result of outfile_path() */
        char temporary[32];             /* name before the file is renamed; "" = none */
        bool replaces;                  /* gets its name at the end */
        int fd;
        uint64_t size;
} Outfile;

#define OUTFILE_NONE (Outfile){ .directory = -1, .there = -1, .fd = -1 }

/* Words on a failure, for people: they end `PATH: cannot be written: `, and say what to do. */
const char *outfile_problem(int r);

/* Takes the rights of an input into account. What is no regular file has none. */
void outfile_note_input(OutfileReaders *readers, const struct stat *input);

/*
 * outfile_find() looks, outfile_begin() makes or opens it; outfile_open() is both. `-` is standard output.
 * Pair each of them, in any case, with outfile_deinit(), which leaves nothing of one that was not finished.
 * Return: 0, OUTFILE_E_*, -errno.
 */
int outfile_find(Outfile *file, const char *path, const OutfileOptions *options);
int outfile_begin(Outfile *file);
int outfile_open(Outfile *file, const char *path, const OutfileOptions *options);
void outfile_deinit(Outfile *file);

/* For a thread that ends the program while another one writes: nothing is left of @file. */
void outfile_abandon(const Outfile *file);

/* Whether it can be made there; better said before a recording than after it. Return: as outfile_open(). */
int outfile_check(const char *path, const OutfileOptions *options);

/* Whether what outfile_find() has seen begins so, or is empty, or is not there. Return: 0, OUTFILE_E_KIND. */
int outfile_expect(const Outfile *file, const char *start, size_t size);

/* Removes what is there, or a file beside it with @suffix. Return: 0, also if there is none, -errno. */
int outfile_remove(const Outfile *file, const char *suffix);

/* Path of an open file with `by_path`: no link is in it, and no other user can make one. */
const char *outfile_path(const Outfile *file);

/* Return: 0, -errno. */
int outfile_write(Outfile *file, const void *data, size_t size);

/* Gives it its name. Return: 0, OUTFILE_E_OLD, OUTFILE_E_CHANGED, -errno. */
int outfile_finish(Outfile *file);

/*
 * A directory for many outputs, made (0700) if it is not there. It must be ours, root's or of the caller of
 * sudo. @heir: the user that the caller becomes before it writes, or OUTFILE_NO_HEIR. Then it may belong to
 * any user if only we can have put it there, and the caller becomes that one; in a sticky directory like
 * /tmp, where any user can put one, it may belong to the heir. If everybody may write to it, it must be
 * sticky: a caller that makes each file itself (O_EXCL, RENAME_NOREPLACE) is safe there.
 * Return: 0, OUTFILE_E_LINK, OUTFILE_E_OWNER, OUTFILE_E_SHARED, -errno.
 */
#define OUTFILE_NO_HEIR ((uid_t) - 1)
int outfile_open_directory(const char *path, uid_t heir, int *fdp);

/*
 * A new file for us alone, under a name that no user can guess. @name: as of Outfile. Return: its descriptor,
 * -errno.
 */
int outfile_open_temporary(int directory, char name[32]);
