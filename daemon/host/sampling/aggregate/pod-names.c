/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Reads the kubelet's directory when a uid is unknown, and asks for a list when the last one has no such pod;
 * both at intervals, of which the second doubles.
 */

#include "host/sampling/aggregate/pod-names.h"

#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/data/hashmap.h"
#include "core/base/data/intern.h"
#include "core/base/util/clock.h"
#include "core/base/util/error.h"
#include "core/base/util/stat.h"

#define INTERVAL_NS (10 * NS_PER_SEC)
#define MAX_INTERVAL_NS (80 * NS_PER_SEC)

enum {
        MAX_PODS = 4096,                /* a node has some hundred */
        MAX_NAME = 253,
        MAX_UID = 64,
};

typedef struct Pod {
        PodName name;                   /* in `entry`, as the uid */
        const char *uid;
        char entry[];
} Pod;

struct PodNames {
        char *directory;
        PodLister lister;
        Hashmap found, listed;          /* hash of the uid → Pod; of the directory, of the lister */
        uint64_t read_ns, ask_ns;       /* the earliest next question to each */
        uint64_t interval_ns;           /* between questions to the lister */
};

int pod_names_new(PodNames **podsp, const char *directory, const PodLister *lister) {
        PodNames *pods = calloc(1, sizeof(*pods));

        if (!pods)
                return error_origin(-ENOMEM);
        pods->directory = strdup(directory);
        if (!pods->directory) {
                free(pods);
                return error_origin(-ENOMEM);
        }
        if (lister)
                pods->lister = *lister;
        pods->interval_ns = INTERVAL_NS;
        *podsp = pods;
        return 0;
}

static void clear(Hashmap *map) {
        HashmapEntry *entry;
        uint32_t at = 0;

        while ((entry = hashmap_next(map, &at)))
                free(entry->value);
        hashmap_deinit(map);
}

PodNames *pod_names_free(PodNames *pods) {
        if (!pods)
                return NULL;
        clear(&pods->found);
        clear(&pods->listed);
        free(pods->directory);
        free(pods);
        return NULL;
}

static bool is_made_of(const char *text, const char *characters, size_t max) {
        size_t n = strspn(text, characters);

        return n && n <= max && !text[n];
}

int pod_names_parse(char *entry, PodName *name, const char **uidp) {
        static const char names[] = "abcdefghijklmnopqrstuvwxyz0123456789.-";
        static const char hex[] = "abcdef0123456789-";
        char *first = strchr(entry, '_'), *last = strrchr(entry, '_');

        if (!first || first == last)
                return POD_NAMES_E_UNKNOWN;
        *first = *last = 0;
        if (!is_made_of(entry, names, MAX_NAME) || !is_made_of(first + 1, names, MAX_NAME) ||
            !is_made_of(last + 1, hex, MAX_UID))
                return POD_NAMES_E_UNKNOWN;
        *name = (PodName){ .namespace = entry, .name = first + 1 };
        *uidp = last + 1;
        return 0;
}

static uint64_t key_of(const char *uid) {
        return hash_bytes(uid, strlen(uid));
}

/* Cuts the lines behind an entry. Return: them, as PodName has them. */
static const char *cut_lines(char *entry) {
        char *more = entry + strcspn(entry, "\n"), *at = more;

        while (*at) {
                *at++ = 0;
                at += strcspn(at, "=");
                if (*at)
                        *at++ = 0;
                at += strcspn(at, "\n");
        }
        return more + 1;
}

/* @listed: by the lister, with lines behind it. */
static int add(Hashmap *map, const char *entry, bool listed) {
        size_t size = strlen(entry);
        Pod *pod = calloc(1, sizeof(*pod) + size + 2);
        const char *more;
        int r;

        if (!pod)
                return error_origin(-ENOMEM);
        memcpy(pod->entry, entry, size);
        more = listed ? cut_lines(pod->entry) : NULL;
        if (pod_names_parse(pod->entry, &pod->name, &pod->uid) ||
            hashmap_get(map, key_of(pod->uid))) {
                free(pod);
                return 0;
        }
        pod->name.more = more;
        r = hashmap_put(map, key_of(pod->uid), pod);
        if (r)
                free(pod);
        return error_fold(r);
}

static int read_all(PodNames *pods) {
        DIR *directory = opendir(pods->directory);
        const struct dirent *entry;
        int r = 0;

        clear(&pods->found);
        while (!r && directory && (entry = readdir(directory))) {
                if (pods->found.n_entries < MAX_PODS)
                        r = add(&pods->found, entry->d_name, false);
                else
                        stat_add(COUNTER_POD_NAMES_OVER_CAP, 1);
        }
        if (directory)
                closedir(directory);
        return r;
}

static const Pod *find_in(const Hashmap *map, const char *uid) {
        const Pod *pod = hashmap_get(map, key_of(uid));

        return pod && !strcmp(pod->uid, uid) ? pod : NULL;
}

static bool has_other_pods(const Hashmap *map, const Hashmap *than) {
        const HashmapEntry *entry;
        uint32_t at = 0;

        while ((entry = hashmap_next(map, &at)))
                if (!find_in(than, ((const Pod *)entry->value)->uid))
                        return true;
        return false;
}

int pod_names_take(PodNames *pods, const char *entries, size_t size) {
        Hashmap before = pods->listed;
        int r = 0;

        pods->listed = (Hashmap){ 0 };
        for (const char *at = entries; !r && at < entries + size; at += strlen(at) + 1)
                r = add(&pods->listed, at, true);
        if (has_other_pods(&pods->listed, &before))
                pods->interval_ns = INTERVAL_NS;
        clear(&before);
        return error_fold(r);
}

/*
 * A uid that no list has would have lists made for ever, on each node: the API server has another uid for a
 * pod that a kubelet has read from a file.
 */
static void want_list(PodNames *pods, uint64_t now_ns) {
        pods->ask_ns = now_ns + pods->interval_ns;
        pods->interval_ns = MIN(2 * pods->interval_ns, MAX_INTERVAL_NS);
        pods->lister.want(pods->lister.userdata);
}

int pod_names_find(PodNames *pods, const char *uid, uint64_t now_ns, PodName *name) {
        const Pod *listed = find_in(&pods->listed, uid), *pod = listed ?: find_in(&pods->found, uid);
        int r;

        if (!pod && *pods->directory && now_ns >= pods->read_ns) {
                pods->read_ns = now_ns + INTERVAL_NS;
                r = read_all(pods);
                if (r)
                        return error_fold(r);
                pod = find_in(&pods->found, uid);
        }
        if (!listed && pods->lister.want && now_ns >= pods->ask_ns)
                want_list(pods, now_ns);
        if (!pod) {
                stat_add(COUNTER_POD_NAMES_UNKNOWN, 1);
                return POD_NAMES_E_UNKNOWN;
        }
        *name = pod->name;
        return 0;
}
