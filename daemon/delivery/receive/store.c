/* SPDX-License-Identifier: Apache-2.0 */
#include "delivery/receive/store.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/util/directory.h"
#include "base/util/error.h"
#include "base/util/file.h"
#include "base/util/outfile.h"
#include "base/util/text.h"

enum { NAME_ROOM = 40 };

struct Store {
        int fd;
        StoreLimits limits;
        uint64_t next;                  /* number of the next request */
        uint64_t bytes, n_files;        /* in the directory, as last seen */
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

/* Counts what is there. Numbers never go back, also when files were removed while we run. */
static int scan(Store *store) {
        int fd = openat(store->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        DIR *dir = fd < 0 ? NULL : fdopendir(fd);
        uint64_t bytes = 0, n_files = 0, number;
        struct dirent *entry;
        struct stat st;

        if (!dir) {
                closep(&fd);
                return STORE_E_DIRECTORY;
        }
        while ((entry = readdir(dir))) {
                if (parse_name(entry->d_name, &number) ||
                    fstatat(store->fd, entry->d_name, &st, AT_SYMLINK_NOFOLLOW))
                        continue;
                bytes += (uint64_t)st.st_size;
                n_files++;
                store->next = MAX(store->next, number + 1);
        }
        closedir(dir);
        store->bytes = bytes;
        store->n_files = n_files;
        return 0;
}

const char *store_problem(void) {
        return problem;
}

/* Whether a file in the store is a request, or what a killed receiver was writing (outfile_open_temporary()). */
static bool is_ours(const char *name) {
        uint64_t number;

        return !parse_name(name, &number) || !strncmp(name, ".spanprof-", strlen(".spanprof-"));
}

int store_give(const char *path, uint32_t uid, uint32_t gid) {
        return directory_give(path, uid, gid, is_ours);
}

int store_new(Store **storep, const char *path, const StoreLimits *limits) {
        _cleanup_(store_freep) Store *store = calloc(1, sizeof(*store));
        int r;

        if (!store)
                return error_origin(-ENOMEM);
        store->limits = *limits;
        store->next = 1;
        store->fd = -1;
        r = outfile_open_directory(path, &store->fd);
        if (r) {
                problem = outfile_problem(r);
                errno = MAX(-r, 0);
                return STORE_E_DIRECTORY;
        }
        if (faccessat(store->fd, ".", W_OK | X_OK, AT_EACCESS) || scan(store)) {
                problem = strerror(errno);
                return STORE_E_DIRECTORY;
        }
        *storep = take(store);
        return 0;
}

Store *store_free(Store *store) {
        if (!store)
                return NULL;
        closep(&store->fd);
        free(store);
        return NULL;
}

static int is_full(const Store *store, uint64_t size) {
        return store->n_files + 2 > store->limits.max_files || size > store->limits.max_bytes ||
               store->bytes > store->limits.max_bytes - size;
}

/* Writes a file under a name that no reader looks for. Return: 0, STORE_E_WRITE. */
static int write_temporary(Store *store, char name[32], const void *data, size_t size) {
        _cleanup_(closep) int fd = outfile_open_temporary(store->fd, name);
        int r;

        if (fd < 0) {
                errno = -fd;
                return STORE_E_WRITE;
        }
        r = file_write(fd, data, size);
        if (r < 0) {
                unlinkat(store->fd, name, 0);
                errno = -r;
                return STORE_E_WRITE;
        }
        return 0;
}

static void numbered(char *name, const Store *store, const char *suffix) {
        snprintf(name, NAME_ROOM, "%06llu.%s", (unsigned long long)store->next, suffix);
}

/*
 * Gives a file its number, unless somebody else took that in the meantime. Return: 0, STORE_E_WRITE with
 * errno.
 */
static int publish(Store *store, const char *from, const char *suffix) {
        char name[NAME_ROOM];

        numbered(name, store, suffix);
        if (!renameat2(store->fd, from, store->fd, name, RENAME_NOREPLACE))
                return 0;
        /* network filesystems cannot promise that */
        return errno == EINVAL && !renameat(store->fd, from, store->fd, name) ? 0 : STORE_E_WRITE;
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

int store_put(Store *store, const void *protobuf, size_t protobuf_size, const void *json, size_t json_size,
              uint64_t *numberp) {
        uint64_t size = (uint64_t)protobuf_size + json_size;
        char names[2][32] = { 0 };
        int r, error;

        /* somebody may have made room */
        if (is_full(store, size) && (scan(store) || is_full(store, size)))
                return STORE_E_LIMIT;
        r = write_temporary(store, names[0], json, json_size);
        if (!r)
                r = write_temporary(store, names[1], protobuf, protobuf_size);
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
        store->bytes += size;
        store->n_files += 2;
        *numberp = store->next++;
        return 0;
}
