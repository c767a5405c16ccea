/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Walks down DAY/SERVICE/HOST, and leaves out directories whose names cannot match.
 */

#include "desk/receive/store-tree.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "core/base/util/clock.h"
#include "core/base/util/error.h"
#include "desk/receive/partition.h"

#define DAY_NS (86400 * NS_PER_SEC)

/* A request is in the directory of its first sample's day, and ends on the next day at the latest. */
static bool wants_day(const StoreTree *tree, const char *name) {
        uint32_t day;

        if (partition_parse_day(name, &day))
                return true;
        return day * DAY_NS < tree->end_ns && (day + UINT64_C(2)) * DAY_NS > tree->start_ns;
}

static bool wants_name(const FilterWords *words, const char *name) {
        char text[PARTITION_NAME_ROOM];

        return !words->n_items || partition_parse_name(name, text) || filter_words_match(words, text);
}

static bool wants_directory(const StoreTree *tree, unsigned level, const char *name) {
        if (level == 0)
                return wants_day(tree, name);
        return wants_name(level == 1 ? &tree->services : &tree->hosts, name);
}

static bool is_file(const char *name) {
        size_t size = strlen(name);

        return *name != '.' && size > 3 && !strcmp(name + size - 3, ".pb");
}

static int walk(StoreTree *tree, const char *directory, unsigned level);

static int walk_entry(StoreTree *tree, const char *directory, const char *name, unsigned level) {
        _cleanup_(freep) char *path = NULL;

        if (level == PARTITION_LEVELS ? !is_file(name) : !partition_is_name(name, level))
                return 0;
        if (level < PARTITION_LEVELS && !wants_directory(tree, level, name)) {
                tree->n_left_out++;
                return 0;
        }
        if (asprintf(&path, "%s/%s", directory, name) < 0) {
                path = NULL;
                return error_origin(-ENOMEM);
        }
        return level == PARTITION_LEVELS ? tree->add(path, tree->userdata) : walk(tree, path, level + 1);
}

/* A file with the name of a directory is none of the store's. */
static int walk(StoreTree *tree, const char *directory, unsigned level) {
        struct dirent **entries;
        int n = scandir(directory, &entries, NULL, alphasort), r = 0;

        if (n < 0) {
                tree->n_unreadable += errno != ENOTDIR;
                return 0;
        }
        for (int i = 0; i < n; i++) {
                if (!r)
                        r = walk_entry(tree, directory, entries[i]->d_name, level);
                free(entries[i]);
        }
        free(entries);
        return r;
}

int store_tree_walk(StoreTree *tree, const char *directory) {
        return walk(tree, directory, 0);
}
