/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Mounts
 *
 * Says what kind of filesystem a device number belongs to, from the text of
 * /proc/PID/mountinfo. Asking the filesystem itself (statfs) would hang on a
 * FUSE server that does not answer.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

typedef enum MountKind {
        MOUNT_UNKNOWN,                  /* the device is not in the text */
        MOUNT_LOCAL,
        MOUNT_REMOTE,                   /* FUSE or network: a read may never return */
} MountKind;

/* The filesystem of device @major:@minor. A device that is listed twice with different answers is remote. */
MountKind mounts_find(const char *text, size_t size, uint32_t major, uint32_t minor);

enum {
        MOUNTS_TYPE_SIZE = 24,          /* bytes of a type's name, with its end; a longer one is cut */
        MOUNTS_TEXT_MAX = 4 << 20,      /* a longer one is taken as unknown */
};

/* The type of a remote filesystem, such as `fuse.sshfs`. Return: false = no remote one has that device. */
bool mounts_find_remote(const char *text, size_t size, uint32_t major, uint32_t minor,
                        char type[static MOUNTS_TYPE_SIZE]);

/* A remote filesystem, as far as the list of mounts tells it. */
typedef struct MountServer {
        char type[MOUNTS_TYPE_SIZE];    /* "" = no list has that device */
        bool is_fuse;
        bool is_own;                    /* the process' own list has it */
        bool has_user;                  /* a FUSE: who has mounted it, */
        uint32_t user, group;           /* … whom alone it may let in */
} MountServer;

/* The first remote filesystem of that device. Return: false = there is none; *server is as it was. */
bool mounts_find_server(const char *text, size_t size, uint32_t major, uint32_t minor, MountServer *server);

/* As mounts_find(), of our own mount namespace; the list is kept and follows changes. Threads may call it. */
MountKind mounts_of_us(uint32_t major, uint32_t minor);

/* Mounts of one process, read at the first question. Starts as zeros. */
typedef struct Mounts {
        char *text;                     /* NULL = not readable, or too long: nothing is known */
        size_t size;
        bool was_read;
        bool is_held;                   /* the list is one that is kept for many processes: no text here */
        dev_t device;                   /* mount namespace, as stat of /proc/PID/ns/mnt tells it */
        ino_t inode;
        /* the last answer: most files of a process lie on one device */
        bool has_last;
        uint32_t last_major, last_minor;
        MountKind last;
} Mounts;

/* As mounts_find(). @proc_fd: directory /proc/PID, of the same process each time. */
MountKind mounts_of_process(Mounts *mounts, int proc_fd, uint32_t major, uint32_t minor);

/* mounts_find_server() of a process, and of ourselves where its own list has no such device. */
bool mounts_server_of_process(Mounts *mounts, int proc_fd, uint32_t major, uint32_t minor,
                              MountServer *server);

/* Before questions that come some time after the others: mounts may have changed. */
static inline void mounts_renew(Mounts *mounts) {
        mounts->has_last = false;
}

void mounts_deinit(Mounts *mounts);
