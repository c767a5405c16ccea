/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Scans the directory once at its start, then counts by itself. A request is written under a temporary name
 * and renamed to its number.
 */

#include "desk/receive/store.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "core/base/file/directory.h"
#include "core/base/file/file.h"
#include "core/base/file/outfile.h"
#include "core/base/util/clock.h"
#include "core/base/util/error.h"
#include "core/base/util/text.h"
#include "desk/receive/partition.h"

enum {
        NAME_ROOM = 40,
        SENDER_ROOM = 64,
        MAX_SENDERS = 1024,
        REST = MAX_SENDERS - 1,         /* all senders beyond */
        NOBODY = MAX_SENDERS,
        MAX_OWNERS = 1 << 20,
};

/* Further than any receiver counts: a million requests a second for thirty years. */
#define MAX_NUMBER UINT64_C(999999999999999)

typedef struct Usage {
        uint64_t bytes, n_files;
} Usage;

typedef struct Sender {
        char name[SENDER_ROOM];
        Usage used;
        uint64_t n_directories;
} Sender;

struct Store {
        int fd;
        StoreLimits limits;
        uint64_t next;                  /* number of the next request */
        Usage used;                     /* in the directory, as last seen */
        PartitionCounts partitions;
        uint64_t looked_ns;             /* MONOTONIC: the last look for directories that are gone */
        unsigned n_senders;
        Sender senders[MAX_SENDERS];
        /* Sender of each request since the start, its number + 1; 0 = not known. */
        uint64_t first;
        uint16_t owners[MAX_OWNERS];
};

struct StoreFile {
        Store *store;
        const StoreRequest *request;
        unsigned sender;
        int fd;
        uint64_t size;
};

static const char *problem = "";

/* NNNNNN.pb or NNNNNN.json, at least six digits. Return: 0, or 1 = some other file. */
static int parse_name(const char *name, uint64_t *numberp) {
        size_t n = strspn(name, "0123456789");
        char digits[20];

        if (n < 6 || n >= sizeof(digits) || (strcmp(name + n, ".pb") && strcmp(name + n, ".json")))
                return 1;
        memcpy(digits, name, n);
        digits[n] = 0;
        return text_u64(digits, UINT64_MAX / 2, numberp);
}

static void use(Usage *usage, uint64_t bytes, uint64_t n_files) {
        usage->bytes += bytes;
        usage->n_files += n_files;
}

static unsigned owner(const Store *store, uint64_t number) {
        uint64_t i = number - store->first;

        return number >= store->first && i < MAX_OWNERS && store->owners[i] ? store->owners[i] - 1u : NOBODY;
}

static void count_file(Store *store, uint64_t number, uint64_t bytes) {
        unsigned sender = owner(store, number);

        use(&store->used, bytes, 1);
        if (sender != NOBODY)
                use(&store->senders[sender].used, bytes, 1);
}

static void forget_counts(Store *store) {
        store->used = (Usage){ 0 };
        store->partitions.n_directories = store->partitions.n_owned = 0;
        store->partitions.owners = NULL;
        for (unsigned i = 0; i < MAX_SENDERS; i++) {
                store->senders[i].used = (Usage){ 0 };
                store->senders[i].n_directories = 0;
        }
}

/* A look at the whole store, and what was known before. */
typedef struct Scan {
        Store *store;
        PartitionCounts before;
} Scan;

static void count_directory(const Scan *scan, uint64_t inode) {
        unsigned sender = partition_owner(&scan->before, inode);

        scan->store->partitions.n_directories++;
        if (sender == PARTITION_NOBODY)
                return;
        scan->store->senders[sender].n_directories++;
        partition_note_owner(&scan->store->partitions, inode, sender);
}

static void scan_entry(const Scan *scan, int directory, const struct dirent *entry, unsigned level);

static int scan_directory(const Scan *scan, int parent, const char *name, unsigned level) {
        int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        DIR *dir = fd < 0 ? NULL : fdopendir(fd);
        struct dirent *entry;

        if (!dir) {
                closep(&fd);
                return STORE_E_DIRECTORY;
        }
        while ((entry = readdir(dir)))
                scan_entry(scan, dirfd(dir), entry, level);
        closedir(dir);
        return 0;
}

/* Counts an entry that is a file of a store, or a directory of partitions; other entries are not ours. */
static void scan_entry(const Scan *scan, int directory, const struct dirent *entry, unsigned level) {
        Store *store = scan->store;
        struct stat st;
        uint64_t number;

        if (entry->d_type != DT_DIR && !parse_name(entry->d_name, &number) &&
            !fstatat(directory, entry->d_name, &st, AT_SYMLINK_NOFOLLOW)) {
                count_file(store, number, (uint64_t)st.st_size);
                store->next = number < MAX_NUMBER ? MAX(store->next, number + 1) : store->next;
        } else if ((entry->d_type == DT_DIR || entry->d_type == DT_UNKNOWN) && level < PARTITION_LEVELS &&
                   partition_is_name(entry->d_name, level) &&
                   !scan_directory(scan, directory, entry->d_name, level + 1)) {
                count_directory(scan, entry->d_ino);
        }
}

/* Counts what is there. Numbers never go back, also when files were removed while we run. */
static int scan_all(Store *store) {
        const Scan scan = { store, store->partitions };
        int r;

        forget_counts(store);
        r = scan_directory(&scan, store->fd, ".", 0);
        free(scan.before.owners);
        return r;
}

const char *store_problem(void) {
        return problem;
}

/*
 * Whether a file in the store is a request, or what a killed receiver was writing (outfile_open_temporary()).
 */
static bool is_ours(const char *name, bool is_directory) {
        uint64_t number;

        return !is_directory &&
                (!parse_name(name, &number) || !strncmp(name, ".spanprof-", strlen(".spanprof-")));
}

int store_give(const char *path, uint32_t uid, uint32_t gid) {
        return directory_give(path, uid, gid, is_ours);
}

int store_new(Store **storep, const char *path, uid_t heir, const StoreLimits *limits) {
        _cleanup_(store_freep) Store *store = calloc(1, sizeof(*store));
        int r;

        if (!store)
                return error_origin(-ENOMEM);
        store->limits = *limits;
        store->next = 1;
        store->fd = -1;
        r = outfile_open_directory(path, heir, &store->fd);
        if (r) {
                problem = outfile_problem(r);
                errno = MAX(-r, 0);
                return STORE_E_DIRECTORY;
        }
        if (faccessat(store->fd, ".", W_OK | X_OK, AT_EACCESS) || scan_all(store)) {
                problem = strerror(errno);
                return STORE_E_DIRECTORY;
        }
        store->first = store->next;
        *storep = take(store);
        return 0;
}

Store *store_free(Store *store) {
        if (!store)
                return NULL;
        closep(&store->fd);
        free(store->partitions.owners);
        free(store);
        return NULL;
}

/* ---- whose it is ---- */

static unsigned find_sender(Store *store, const char *name) {
        for (unsigned i = 0; i < store->n_senders; i++)
                if (!strcmp(store->senders[i].name, name))
                        return i;
        if (store->n_senders == REST)
                return REST;
        snprintf(store->senders[store->n_senders].name, SENDER_ROOM, "%s", name);
        return store->n_senders++;
}

/* After a million requests no request has a sender any more, and counting begins again. */
static void note_owner(Store *store, uint64_t number, unsigned sender) {
        if (number - store->first >= MAX_OWNERS) {
                memset(store->owners, 0, sizeof(store->owners));
                store->first = number;
                for (unsigned i = 0; i < MAX_SENDERS; i++)
                        store->senders[i].used = (Usage){ 0 };
        }
        store->owners[number - store->first] = (uint16_t)(sender + 1);
}

/* ---- how much fits ---- */

/* Return: 0, STORE_E_LIMIT, STORE_E_SHARE. */
static int judge(uint64_t max, uint64_t used, uint64_t own, uint64_t more) {
        if (more > max || used > max - more)
                return STORE_E_LIMIT;
        return own + more > STORE_SHARE * (max - more - used) ? STORE_E_SHARE : 0;
}

static int judge_files(const Store *store, unsigned sender, Usage more) {
        const Usage *own = &store->senders[sender].used;
        int r = judge(store->limits.max_files, store->used.n_files, own->n_files, more.n_files);

        return r ? r : judge(store->limits.max_bytes, store->used.bytes, own->bytes, more.bytes);
}

/* Room may have been made meanwhile. */
static int find_room(Store *store, unsigned sender, Usage more) {
        int r = judge_files(store, sender, more);

        return r && !scan_all(store) ? judge_files(store, sender, more) : r;
}

static Usage pair_of(uint64_t size) {
        return (Usage){ size, 2 };
}

/* ---- files ---- */

int store_append(StoreFile *file, const void *data, size_t size) {
        const StoreRequest *request = file->request;
        int r;

        if (size > request->max_json_bytes - file->size)
                return STORE_E_JSON;
        r = find_room(file->store, file->sender, pair_of(request->protobuf_size + file->size + size));
        if (r)
                return r;
        r = file_write(file->fd, data, size);
        if (r < 0) {
                errno = -r;
                return STORE_E_WRITE;
        }
        file->size += size;
        return 0;
}

static int append_protobuf(StoreFile *file) {
        int r = file_write(file->fd, file->request->protobuf, file->request->protobuf_size);

        errno = r < 0 ? -r : errno;
        return r < 0 ? STORE_E_WRITE : 0;
}

static int append_json(StoreFile *file) {
        return file->request->print(file, file->request->userdata);
}

/* Writes a file under a name that no reader looks for. Return: 0, or what @fill returned, STORE_E_WRITE. */
static int write_temporary(StoreFile *file, char name[32], int (*fill)(StoreFile *)) {
        int r, error;

        file->fd = outfile_open_temporary(file->store->fd, name);
        if (file->fd < 0) {
                errno = -take_fd(file->fd);
                return STORE_E_WRITE;
        }
        r = fill(file);
        error = errno;
        close(take_fd(file->fd));
        errno = error;
        return r;
}

static void numbered(char *name, const Store *store, const char *suffix) {
        snprintf(name, NAME_ROOM, "%06llu.%s", (unsigned long long)store->next, suffix);
}

/*
 * Gives a file its number, unless another process took that in the meantime. Return: 0, STORE_E_WRITE with
 * errno.
 */
static int rename_new(int directory, const char *from, const char *to) {
        if (!renameat2(directory, from, directory, to, RENAME_NOREPLACE))
                return 0;
        /* network filesystems cannot promise that */
        return errno == EINVAL && !renameat(directory, from, directory, to) ? 0 : STORE_E_WRITE;
}

static int publish(Store *store, const char *from, const char *suffix) {
        char name[NAME_ROOM];

        numbered(name, store, suffix);
        return rename_new(store->fd, from, name);
}

static int publish_both(Store *store, const char *json, const char *protobuf) {
        char name[NAME_ROOM];

        for (;; store->next++) {
                int error;

                if (!publish(store, json, "json")) {
                        if (!publish(store, protobuf, "pb"))
                                return 0;
                        error = errno;
                        numbered(name, store, "json");
                        renameat(store->fd, name, store->fd, json);
                        errno = error;
                }
                if (errno != EEXIST)
                        return STORE_E_WRITE;
        }
}

static void count_stored(Store *store, uint64_t number, unsigned sender, Usage usage) {
        note_owner(store, number, sender);
        use(&store->used, usage.bytes, usage.n_files);
        use(&store->senders[sender].used, usage.bytes, usage.n_files);
}

int store_put(Store *store, const StoreRequest *request, uint64_t *numberp) {
        StoreFile file = { .store = store, .request = request, .fd = -1 };
        char names[2][32] = { 0 };
        int error, r;

        file.sender = find_sender(store, request->sender);
        r = find_room(store, file.sender, pair_of(request->protobuf_size));
        if (r)
                return r;
        r = write_temporary(&file, names[0], append_json);
        if (!r)
                r = write_temporary(&file, names[1], append_protobuf);
        if (!r)
                r = publish_both(store, names[0], names[1]);
        if (r) {
                error = errno;
                for (size_t i = 0; i < ARRAY_SIZE(names); i++)
                        if (*names[i])
                                unlinkat(store->fd, names[i], 0);
                errno = error;
                return r;
        }
        count_stored(store, store->next, file.sender, pair_of(request->protobuf_size + file.size));
        *numberp = store->next++;
        return 0;
}

/* ---- partitions ---- */

/* A part that is written, until all are. */
typedef struct Written {
        int directory;
        char name[NAME_ROOM];
        uint64_t number;                /* 0 = has none yet */
} Written;

static int open_partition(Store *store, unsigned index, const Partition *partition, int *fdp) {
        PartitionSender sender = { index, store->senders[index].n_directories };
        int r = partition_open(store->fd, partition, &sender, &store->partitions, fdp);

        store->senders[index].n_directories = sender.n_directories;
        return r;
}

static int write_part(Store *store, unsigned sender, const StorePart *part, Written *written) {
        _cleanup_(closep) int fd = -1;
        char temporary[32];
        int r = open_partition(store, sender, &part->partition, &written->directory);

        if (!r) {
                r = fd = outfile_open_temporary(written->directory, temporary);
                if (fd >= 0)
                        snprintf(written->name, NAME_ROOM, "%s", temporary);
        }
        if (r >= 0)
                r = file_write(fd, part->data, part->size);
        errno = r < 0 ? -r : errno;
        return r < 0 ? STORE_E_WRITE : 0;
}

/* Another process may store here, too. */
static int number_part(Store *store, Written *written) {
        char name[NAME_ROOM];
        int r;

        do {
                numbered(name, store, "pb");
                r = rename_new(written->directory, written->name, name);
                written->number = store->next++;
        } while (r && errno == EEXIST);
        if (r)
                written->number = 0;
        else
                snprintf(written->name, NAME_ROOM, "%s", name);
        return r;
}

static void drop_part(const Written *written) {
        int error = errno;

        if (*written->name)
                unlinkat(written->directory, written->name, 0);
        errno = error;
}

/* All or none. Return: 0, STORE_E_WRITE. */
static int write_parts(Store *store, unsigned sender, const StorePart *parts, Written *written, size_t n) {
        int r = 0;

        for (size_t i = 0; i < n && !r; i++)
                r = write_part(store, sender, &parts[i], &written[i]);
        for (size_t i = 0; i < n && !r; i++)
                r = number_part(store, &written[i]);
        for (size_t i = 0; i < n && r; i++)
                drop_part(&written[i]);
        for (size_t i = 0; i < n; i++)
                closep(&written[i].directory);
        return r;
}

static Usage usage_of(const StorePart *parts, size_t n) {
        Usage usage = { .n_files = n };

        for (size_t i = 0; i < n; i++)
                usage.bytes += parts[i].size;
        return usage;
}

/* Parts that found no directory. */
static uint64_t count_outside(const Store *store) {
        return store->partitions.n_crowded + store->partitions.n_over_share;
}

/*
 * Directories may have been removed: after a part that found none, all are counted once more, for the next.
 * Once a minute, since there may be 65,536 of them.
 */
static void look_for_room(Store *store, uint64_t n_outside) {
        uint64_t now_ns = clock_monotonic_ns();

        if (count_outside(store) == n_outside ||
            (store->looked_ns && now_ns - store->looked_ns < 60 * NS_PER_SEC))
                return;
        store->looked_ns = now_ns;
        scan_all(store);
}

int store_put_parts(Store *store, const char *sender, const StorePart *parts, size_t n, uint64_t *firstp,
                    uint64_t *lastp) {
        _cleanup_(freep) Written *written = calloc(n + 1, sizeof(*written));
        unsigned index = find_sender(store, sender);
        uint64_t n_outside = count_outside(store);
        int r;

        if (!written)
                return error_origin(-ENOMEM);
        for (size_t i = 0; i < n; i++)
                written[i].directory = -1;
        r = find_room(store, index, usage_of(parts, n));
        if (!r)
                r = write_parts(store, index, parts, written, n);
        if (r)
                return r;
        for (size_t i = 0; i < n; i++)
                count_stored(store, written[i].number, index, usage_of(&parts[i], 1));
        *firstp = n ? written[0].number : 0;
        *lastp = n ? written[n - 1].number : 0;
        look_for_room(store, n_outside);
        return 0;
}

uint64_t store_n_crowded(const Store *store) {
        return store->partitions.n_crowded;
}

uint64_t store_n_over_share(const Store *store) {
        return store->partitions.n_over_share;
}
