/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Keeps a tree of sums, in which an entry counts for its process and for all above it:
 *
 *     all 4,096 ─┬─ shop.service 60 ── user 1000 60 ─┬─ 4711 31
 *                │                                   └─ 4712 29
 *                └─ user-61001.slice 4,036 ── user 61001 4,036 ── 815 4,036      ← the next one to give way
 *
 * A node begins with its first entry and ends with its last.
 */

#include "core/base/data/shares.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "core/base/data/intern.h"
#include "core/base/data/list.h"
#include "core/base/util/clock.h"
#include "core/base/util/error.h"
#include "core/base/util/log.h"
#include "core/base/util/macro.h"

enum { DEPTH = 3 };                     /* levels below the root: group, user, process */

#define TELL_NS (3600 * NS_PER_SEC)

struct Share {
        Share *parent;                  /* NULL = the root */
        Share *first, *last;            /* children */
        Share *previous, *next;         /* siblings */
        uint64_t key;                   /* hash of its path */
        size_t n;                       /* entries that it and all below it hold */
        size_t n_children;
        uint64_t turn;                  /* number of the turn that it had last; 0 = none */
        ShareOwner owner;
};

void shares_deinit(Shares *shares) {
        HashmapEntry *entry;
        uint32_t at = 0;

        while ((entry = hashmap_next(&shares->nodes, &at)))
                free(entry->value);
        free(shares->root);
        hashmap_deinit(&shares->nodes);
        *shares = (Shares){ 0 };
}

void shares_reset(Shares *shares) {
        const Shares told = *shares;

        shares_deinit(shares);
        shares->told_ns = told.told_ns;
        shares->n_untold = told.n_untold;
}

/* Hashes of the owner's path down to each level. */
static void path_keys(const ShareOwner *owner, uint64_t keys[DEPTH]) {
        const uint64_t ids[DEPTH] = { owner->group, owner->user, owner->process };

        for (int i = 0; i < DEPTH; i++) {
                const uint64_t path[] = { i ? keys[i - 1] : 0, ids[i], (uint64_t)i };

                keys[i] = hash_bytes(path, sizeof(path));
        }
}

static void end_node(Shares *shares, Share *node) {
        if (node->parent) {
                list_remove(node->parent, node);
                node->parent->n_children--;
                hashmap_remove(&shares->nodes, node->key);
        } else {
                shares->root = NULL;
        }
        free(node);
}

/* Return: 0, -ENOMEM. */
static int add_node(Shares *shares, Share *parent, uint64_t key, const ShareOwner *owner, Share **nodep) {
        Share *node = calloc(1, sizeof(*node));
        int r;

        if (!node)
                return error_origin(-ENOMEM);
        r = parent ? hashmap_put(&shares->nodes, key, node) : 0;
        if (r) {
                free(node);
                return error_fold(r);
        }
        node->parent = parent;
        node->key = key;
        node->owner = *owner;
        if (parent) {
                list_append(parent, node);
                parent->n_children++;
        } else {
                shares->root = node;
        }
        *nodep = node;
        return 0;
}

/* Ends nodes that hold nothing, from @node upwards. */
static void trim(Shares *shares, Share *node) {
        while (node && !node->n && !node->first) {
                Share *parent = node->parent;

                end_node(shares, node);
                node = parent;
        }
}

int shares_hold(Shares *shares, const ShareOwner *owner, size_t n, Share **sharep) {
        Share *node = shares->root;
        uint64_t keys[DEPTH];
        int r = node ? 0 : add_node(shares, NULL, 0, owner, &node);

        path_keys(owner, keys);
        for (int i = 0; i < DEPTH && !r; i++) {
                Share *child = hashmap_get(&shares->nodes, keys[i]);

                if (!child)
                        r = add_node(shares, node, keys[i], owner, &child);
                if (!r)
                        node = child;
        }
        if (r) {
                trim(shares, node);
                return r;
        }
        share_hold_more(node, n);
        *sharep = node;
        return 0;
}

void share_hold_more(Share *share, size_t n) {
        for (; share; share = share->parent)
                share->n += n;
}

void share_release(Shares *shares, Share *share, size_t n) {
        for (Share *node = share; node; node = node->parent)
                node->n -= n;
        trim(shares, share);
}

const ShareOwner *share_owner(const Share *share) {
        return &share->owner;
}

size_t share_held(const Share *share) {
        return share->n;
}

size_t share_held_by_user(const Share *share) {
        return share->parent->n;
}

size_t share_held_by_group(const Share *share) {
        return share->parent->parent->n;
}

bool share_is_above_average(const Share *share) {
        for (; share && share->parent; share = share->parent)
                if (share->n > share->parent->n / share->parent->n_children)
                        return true;
        return false;
}

size_t shares_held(const Shares *shares) {
        return shares->root ? shares->root->n : 0;
}

/* The child that holds most; of several the first. */
static Share *greatest(const Share *node) {
        Share *most = node->first;

        for (Share *child = most; child; child = child->next)
                if (child->n > most->n)
                        most = child;
        return most;
}

static Share *greatest_process(Share *node) {
        while (node && node->first)
                node = greatest(node);
        return node;
}

/* The node of @share's path at a level: 0 = group. */
static Share *path_at(Share *share, int level) {
        for (int i = DEPTH - 1; i > level; i--)
                share = share->parent;
        return share;
}

Share *shares_victim(const Shares *shares, Share *asking, size_t n) {
        const Share *node = shares->root;

        for (int i = 0; i < DEPTH; i++) {
                Share *own = path_at(asking, i), *most = greatest(node);

                if (most != own && most->n > own->n + n)
                        return greatest_process(most);
                node = own;
        }
        return asking;
}

bool shares_leave_room(const Shares *shares, const ShareOwner *owner, size_t n, size_t max) {
        size_t left = max - MIN(shares_held(shares), max);
        uint64_t keys[DEPTH];

        path_keys(owner, keys);
        if (left < n)
                return false;
        left -= n;
        for (int i = 0; i < DEPTH; i++) {
                const Share *node = hashmap_get(&shares->nodes, keys[i]);
                size_t held = (node ? node->n : 0) + n;

                if (held > left)
                        return false;
                left -= held;
        }
        return true;
}

static int compare(uint64_t a, uint64_t b) {
        return a < b ? -1 : a > b;
}

int share_compare_turns(const Share *a, const Share *b) {
        return compare(a->parent->parent->turn, b->parent->parent->turn)
                       ?: compare(a->parent->turn, b->parent->turn);
}

int share_compare_process_turns(const Share *a, const Share *b) {
        return compare(a->turn, b->turn);
}

uint64_t share_rank(const Shares *shares, const Share *share) {
        uint64_t rank = share->n;

        for (; share->parent->parent; share = share->parent)
                rank *= share->parent->n_children;
        return shares->served + rank;
}

void shares_note_served(Shares *shares, uint64_t rank) {
        shares->served = MAX(shares->served, rank);
}

void share_take_turn(Shares *shares, Share *share) {
        shares->n_turns++;
        for (; share->parent; share = share->parent)
                share->turn = shares->n_turns;
}

/* ---- what is told ---- */

static struct {
        ShareUser items[SHARES_MAX_USERS];
        size_t n;
        uint64_t n_others;
        ShareUser candidate;            /* other that comes more than all the rest of them: by so much */
} users;

/*
 * Counts one of the others. How much more one comes than the rest of them is known of one at a time
 * (Misra and Gries), so a crowd in which each comes once changes no place. Who takes one begins with
 * what it is known to have, and the others never lose more than has just come: all series only rise.
 */
static void count_other(ShareUser *least, uint32_t user, uint64_t n) {
        ShareUser *candidate = &users.candidate;

        users.n_others += n;
        if (candidate->user == user && candidate->n)
                candidate->n += n;
        else if (candidate->n >= n)
                candidate->n -= n;
        else
                *candidate = (ShareUser){ .user = user, .n = n - candidate->n };
        if (candidate->n <= least->n)
                return;
        users.n_others -= candidate->n - least->n;
        *least = *candidate;
        *candidate = (ShareUser){ 0 };
}

static void count_user(uint32_t user, uint64_t n) {
        ShareUser *least = users.items;

        for (size_t i = 0; i < users.n; i++) {
                if (users.items[i].user == user) {
                        users.items[i].n += n;
                        return;
                }
                if (users.items[i].n < least->n)
                        least = &users.items[i];
        }
        if (users.n < SHARES_MAX_USERS)
                users.items[users.n++] = (ShareUser){ user, n };
        else
                count_other(least, user, n);
}

const ShareUser *shares_users(size_t *np, uint64_t *othersp) {
        *np = users.n;
        *othersp = users.n_others;
        return users.items;
}

bool shares_tell(Shares *shares, const char *what, const ShareOwner *owner, uint64_t now_ns) {
        return shares_tell_of(shares, what, owner, 1, now_ns);
}

bool shares_tell_of(Shares *shares, const char *what, const ShareOwner *owner, uint64_t n, uint64_t now_ns) {
        count_user(owner->user, n);
        shares->n_untold += n;
        if (shares->told_ns && now_ns - shares->told_ns < TELL_NS)
                return false;
        log_warning("%s: %" PRIu64 " without room, the last one of process %" PRIu64 " of user %u, which has more "
                    "than its share; others go on (docs/CAPS.md)",
                    what, shares->n_untold, owner->process, owner->user);
        shares->told_ns = now_ns;
        shares->n_untold = 0;
        return true;
}
