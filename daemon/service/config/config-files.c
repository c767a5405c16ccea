/* SPDX-License-Identifier: Apache-2.0 */

/* Which configuration files there are, and their order (systemd's rules for drop-ins). */

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/util/error.h"
#include "base/util/macro.h"
#include "service/config/config.h"

/* Weakest first: of two drop-ins with the same name, the administrator's counts. */
static const char *const directories[] = { "/usr/lib/spanprof", "/run/spanprof", "/etc/spanprof" };

typedef struct DropIn {
        char *path;
        const char *name;               /* its end */
        size_t rank;                    /* index of its directory */
} DropIn;

typedef struct DropIns {
        DropIn *items;
        size_t n_items;
} DropIns;

static void drop_ins_deinit(DropIns *list) {
        for (size_t i = 0; i < list->n_items; i++)
                free(list->items[i].path);
        free(list->items);
}

static bool is_drop_in(const char *name) {
        size_t length = strlen(name);

        return name[0] != '.' && length > 5 && !strcmp(name + length - 5, ".conf");
}

static int add(DropIns *list, const char *directory, const char *name, size_t rank) {
        DropIn *items = reallocarray(list->items, list->n_items + 1, sizeof(*items));
        char *path;

        if (!items)
                return error_origin(-ENOMEM);
        list->items = items;
        if (asprintf(&path, "%s/%s", directory, name) < 0)
                return error_origin(-ENOMEM);
        items[list->n_items++] = (DropIn){ path, path + strlen(directory) + 1, rank };
        return 0;
}

/*
 * What is not there configures nothing. What is there and cannot be looked at (a link to nowhere, no right,
 * no descriptor) may.
 */
static bool is_absent(int error) {
        return error == ENOENT || error == ENOTDIR;
}

/* @visit reads files: of a directory that cannot be read it says why. */
static int scan(DropIns *list, const char *root, size_t rank, int (*visit)(const char *path, void *userdata),
                void *userdata) {
        _cleanup_(freep) char *directory = NULL;
        struct dirent *entry;
        int r = 0;
        DIR *dir;

        if (asprintf(&directory, "%s%s/spanprof.conf.d", root, directories[rank]) < 0)
                return error_origin(-ENOMEM);
        dir = opendir(directory);
        if (!dir)
                return is_absent(errno) ? 0 : visit(directory, userdata);
        while (!r && (entry = readdir(dir)))
                if (is_drop_in(entry->d_name))
                        r = add(list, directory, entry->d_name, rank);
        closedir(dir);
        return r;
}

static int compare(const void *a, const void *b) {
        const DropIn *left = a, *right = b;
        int order = strcmp(left->name, right->name);

        return order ? order : left->rank < right->rank ? -1 : left->rank > right->rank;
}

int config_visit_files(const char *root, int (*visit)(const char *path, void *userdata), void *userdata) {
        _cleanup_(drop_ins_deinit) DropIns list = { 0 };
        _cleanup_(freep) char *main_file = NULL;
        struct stat st;
        int r = 0;

        if (asprintf(&main_file, "%s/etc/spanprof/spanprof.conf", root) < 0)
                return error_origin(-ENOMEM);
        for (size_t i = 0; !r && i < ARRAY_SIZE(directories); i++)
                r = scan(&list, root, i, visit, userdata);
        if (!r && (!lstat(main_file, &st) || !is_absent(errno)))
                r = visit(main_file, userdata);
        if (list.n_items)
                qsort(list.items, list.n_items, sizeof(*list.items), compare);
        for (size_t i = 0; !r && i < list.n_items; i++) {
                bool masked = i + 1 < list.n_items && !strcmp(list.items[i].name, list.items[i + 1].name);

                if (!masked)
                        r = visit(list.items[i].path, userdata);
        }
        return r;
}
