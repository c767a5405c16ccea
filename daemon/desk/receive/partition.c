/* SPDX-License-Identifier: Apache-2.0 */

/*
 * How a name is written, and read back:
 *
 *     checkout            checkout
 *     a/b c               a%2Fb%20c
 *     ..                  %2E.
 *     (empty)             %
 *     +other              %2Bother
 *     (200 letters x)     +cut-xxxxx…-0123456789abcdef
 *
 * A name of `+cut` is not read back: who looks for a service reads such a directory and asks its requests.
 */

#include "desk/receive/partition.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "core/base/data/intern.h"
#include "core/base/file/directory.h"
#include "core/base/util/clock.h"
#include "core/base/util/macro.h"
#include "core/base/util/text.h"

enum {
        MAX_ESCAPED = 120,
        KEPT_OF_LONG = 60,
        SECONDS_PER_DAY = 86400,
        OWNER_PLACES = 2 * PARTITION_MAX_DIRECTORIES,
        MAX_OWNED = OWNER_PLACES / 4 * 3,       /* so that a search ends soon */
};

static const char hex[] = "0123456789ABCDEF";

static bool is_plain(char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
                c == '_' || c == '.';
}

/* Return: how much of @text there was room for. */
static size_t escape(char *name, const char *text, size_t max) {
        size_t i = 0, n = 0;

        for (; text[i]; i++) {
                bool plain = is_plain(text[i]) && (i || text[i] != '.');
                unsigned char c = (unsigned char)text[i];

                if (n + (plain ? 1 : 3) > max)
                        break;
                if (!plain) {
                        name[n++] = '%';
                        name[n++] = hex[c >> 4];
                        name[n++] = hex[c & 15];
                } else {
                        name[n++] = text[i];
                }
        }
        name[n] = 0;
        return i;
}

void partition_name(char name[PARTITION_NAME_ROOM], const char *text) {
        char start[KEPT_OF_LONG + 1];

        if (!text || !*text) {
                snprintf(name, PARTITION_NAME_ROOM, "%s", text ? "%" : PARTITION_NONE);
                return;
        }
        if (!text[escape(name, text, MAX_ESCAPED)])
                return;
        escape(start, text, KEPT_OF_LONG);
        snprintf(name, PARTITION_NAME_ROOM, "+cut-%s-%016llx", start,
                 (unsigned long long)hash_stable(text, strlen(text)));
}

void partition_day_name(char name[PARTITION_NAME_ROOM], uint32_t day) {
        time_t seconds = (time_t)day * SECONDS_PER_DAY;
        struct tm tm;

        if (day == PARTITION_NO_DAY || !gmtime_r(&seconds, &tm) || tm.tm_year + 1900 > 9999)
                snprintf(name, PARTITION_NAME_ROOM, PARTITION_OTHER);
        else
                strftime(name, PARTITION_NAME_ROOM, "%Y-%m-%d", &tm);
}

/* ---- reading ---- */

static bool is_day(const char *name) {
        static const char form[] = "dddd-dd-dd";

        for (size_t i = 0; i < sizeof(form) - 1; i++)
                if (form[i] == 'd' ? name[i] < '0' || name[i] > '9' : name[i] != form[i])
                        return false;
        return !name[sizeof(form) - 1];
}

bool partition_is_name(const char *name, unsigned level) {
        if (level == 0)
                return is_day(name) || !strcmp(name, PARTITION_OTHER);
        return *name && *name != '.' && strlen(name) < PARTITION_NAME_ROOM;
}

int partition_parse_day(const char *name, uint32_t *dayp) {
        struct tm tm = { 0 };
        time_t seconds;

        if (!is_day(name))
                return 1;
        tm.tm_year = atoi(name) - 1900;
        tm.tm_mon = atoi(name + 5) - 1;
        tm.tm_mday = atoi(name + 8);
        seconds = timegm(&tm);
        if (seconds < 0)
                return 1;
        *dayp = (uint32_t)(seconds / SECONDS_PER_DAY);
        return 0;
}

static int digit(char c) {
        const char *place = c ? strchr(hex, c) : NULL;

        return place ? (int)(place - hex) : -1;
}

int partition_parse_name(const char *name, char text[PARTITION_NAME_ROOM]) {
        size_t n = 0;

        if (*name == '+' || strlen(name) >= PARTITION_NAME_ROOM)
                return 1;
        for (; *name; name++) {
                int high = *name == '%' ? digit(name[1]) : -1, low = high < 0 ? -1 : digit(name[2]);

                if (*name == '%' && low < 0)
                        break;
                text[n++] = low < 0 ? *name : (char)(high << 4 | low);
                name += low < 0 ? 0 : 2;
        }
        text[n] = 0;
        return (*name && strcmp(name, "%")) || !text_is_utf8(text, n);
}

/* ---- whose a directory is ---- */

/* The place of an inode, or the free one where it belongs. */
static PartitionOwner *place_of(const PartitionCounts *counts, uint64_t inode) {
        size_t at = (size_t)((inode * UINT64_C(0x9E3779B97F4A7C15)) >> 32) % OWNER_PLACES;

        while (counts->owners[at].sender && counts->owners[at].inode != inode)
                at = (at + 1) % OWNER_PLACES;
        return &counts->owners[at];
}

unsigned partition_owner(const PartitionCounts *counts, uint64_t inode) {
        const PartitionOwner *owner = counts->owners ? place_of(counts, inode) : NULL;

        return owner && owner->sender ? owner->sender - 1 : PARTITION_NOBODY;
}

void partition_note_owner(PartitionCounts *counts, uint64_t inode, unsigned sender) {
        PartitionOwner *owner;

        if (!counts->owners)
                counts->owners = calloc(OWNER_PLACES, sizeof(*counts->owners));
        if (!counts->owners || counts->n_owned >= MAX_OWNED)
                return;
        owner = place_of(counts, inode);
        counts->n_owned += !owner->sender;
        *owner = (PartitionOwner){ inode, sender + 1 };
}

/* ---- making ---- */

/* Entries of a directory: all, and those that one sender has made. */
typedef struct Entries {
        uint64_t n, n_own;
} Entries;

static Entries count_entries(int directory, const PartitionCounts *counts, unsigned sender) {
        int fd = openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        _cleanup_(closedirp) DIR *dir = fd < 0 ? NULL : fdopendir(fd);
        const struct dirent *entry;
        Entries entries = { 0 };

        while (dir && entries.n < PARTITION_MAX_ENTRIES && (entry = readdir(dir))) {
                entries.n++;
                entries.n_own += partition_owner(counts, entry->d_ino) == sender;
        }
        return entries;
}

typedef enum Room {
        ROOM_LEFT,
        ROOM_NONE,
        ROOM_OVER_SHARE,
} Room;

static Room judge(uint64_t max, uint64_t used, uint64_t own) {
        if (used >= max)
                return ROOM_NONE;
        return own + 1 > STORE_SHARE * (max - used - 1) ? ROOM_OVER_SHARE : ROOM_LEFT;
}

/* Whether there is room for one more directory of @sender in @parent and in the store. */
static Room find_room(int parent, const PartitionSender *sender, const PartitionCounts *counts) {
        Room room = judge(PARTITION_MAX_DIRECTORIES, counts->n_directories, sender->n_directories);
        Entries entries;

        if (room != ROOM_LEFT)
                return room;
        entries = count_entries(parent, counts, sender->number);
        return judge(PARTITION_MAX_ENTRIES, entries.n, entries.n_own);
}

static int open_there(int parent, const char *name) {
        int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

        return fd < 0 ? -errno : fd;
}

static void count_made(int directory, PartitionSender *sender, PartitionCounts *counts) {
        struct stat st;

        counts->n_directories++;
        sender->n_directories++;
        if (!fstat(directory, &st))
                partition_note_owner(counts, st.st_ino, sender->number);
}

/* Return: a descriptor, -errno. */
static int open_level(int parent, const char *name, PartitionSender *sender, PartitionCounts *counts,
                      Room *roomp) {
        int fd = open_there(parent, name);
        Room room;
        bool made;

        if (fd != -ENOENT)
                return fd;
        room = find_room(parent, sender, counts);
        if (room != ROOM_LEFT) {
                *roomp = room;
                name = PARTITION_OTHER;
        }
        made = !mkdirat(parent, name, 0700);
        if (!made && errno != EEXIST)
                return -errno;
        fd = open_there(parent, name);
        if (made && fd >= 0)
                count_made(fd, sender, counts);
        return fd;
}

static void make_names(char names[PARTITION_LEVELS][PARTITION_NAME_ROOM], const Partition *partition) {
        for (unsigned level = 0; level < PARTITION_LEVELS; level++)
                strcpy(names[level], PARTITION_OTHER);
        if (partition->mixed)
                return;
        partition_day_name(names[0], partition->day);
        partition_name(names[1], partition->service);
        partition_name(names[2], partition->host);
}

int partition_open(int store, const Partition *partition, PartitionSender *sender, PartitionCounts *counts,
                   int *fdp) {
        char names[PARTITION_LEVELS][PARTITION_NAME_ROOM];
        Room room = ROOM_LEFT;
        int parent = store;

        make_names(names, partition);
        for (unsigned level = 0; level < PARTITION_LEVELS && parent >= 0; level++) {
                int fd = open_level(parent, names[level], sender, counts, &room);

                if (parent != store)
                        close(parent);
                parent = fd;
        }
        counts->n_crowded += room == ROOM_NONE;
        counts->n_over_share += room == ROOM_OVER_SHARE;
        if (parent < 0)
                return parent;
        *fdp = parent;
        return 0;
}
