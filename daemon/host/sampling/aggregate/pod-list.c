/* SPDX-License-Identifier: Apache-2.0 */

/*
 * How a list of pods is read
 *
 * It may be megabytes, of which some words a pod are wanted, and whoever answers may be hostile. So no tree
 * is made: a scanner goes over the text once, and knows of each container that is open only whether it is an
 * object, in one bit. What a string means follows from the depth and from the last key of each depth:
 *
 *     { "items": [ { "metadata": { "name": "cart-7d9f", "labels": { …}, "ownerReferences": [ { …
 *     1            2 3             4                              5                         5 6    depth
 *
 * A name with an escape in it is none by the rules of Kubernetes, and is left out.
 *
 * A pod knows its controller alone: a ReplicaSet, where a Deployment has made that. The controller of
 * Deployments names it `DEPLOYMENT-HASH`, and gives each pod the hash as the label pod-template-hash. A
 * ReplicaSet that fits so has this Deployment; one of another maker has no such label.
 */
#include "host/sampling/aggregate/pod-list.h"

#include <fnmatch.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "core/base/util/array.h"

enum {
        MAX_DEPTH = 64,
        DEPTH_LIST = 1,
        DEPTH_POD = 3,
        DEPTH_METADATA = 4,
        DEPTH_LABELS = 5,               /* and of the array of owners */
        DEPTH_OWNER = 6,
};
enum { MAX_NAME = 253, MAX_KEY = MAX_NAME + 1 + 63, MAX_VALUE = 63 };

#define LOWER "abcdefghijklmnopqrstuvwxyz0123456789.-"
#define UPPER "ABCDEFGHIJKLMNOPQRSTUVWXYZ"

typedef struct Word {
        const char *at;
        size_t size;
} Word;

typedef enum Field { FIELD_NAMESPACE, FIELD_NAME, FIELD_UID, N_FIELDS } Field;

typedef struct Label {
        Word key, value;
} Label;

typedef struct Owner {
        Word kind, name;
        bool controls;
} Owner;

typedef struct Scanner {
        const char *at, *end;
        uint64_t objects;               /* bit: the container at that depth is an object */
        unsigned depth;
        bool in_items, in_metadata;     /* the key of depth 1, of depth 3, is that */
        bool in_labels, in_owners;      /* the key of depth 4 is that */
        bool has_items;
        Word fields[N_FIELDS];          /* fields of the pod that is open */
        Label labels[POD_LIST_MAX_LABELS];      /* its chosen labels */
        size_t n_labels;
        Word hash;                      /* its label pod-template-hash */
        Owner owner, controller;        /* the one that is open, and the pod's */
        const PodLabels *wanted;
        Text *entries;
        size_t n;
        PodListCounts *counts;
} Scanner;

static bool is_word(const Word *word, const char *text) {
        return word->size == strlen(text) && !memcmp(word->at, text, word->size);
}

static void skip_blanks(Scanner *scanner) {
        while (scanner->at < scanner->end && strchr(" \t\r\n", *scanner->at) && *scanner->at)
                scanner->at++;
}

/* At a quote. @word: without quotes; NULL in `at` if it has an escape. */
static bool read_string(Scanner *scanner, Word *word) {
        bool escaped = false;

        *word = (Word){ .at = ++scanner->at };
        for (; scanner->at < scanner->end && *scanner->at != '"'; scanner->at++)
                if (*scanner->at == '\\') {
                        escaped = true;
                        scanner->at++;
                }
        if (scanner->at >= scanner->end)
                return false;
        word->size = (size_t)(scanner->at++ - word->at);
        if (escaped)
                *word = (Word){ .at = "", .size = 0 };
        return true;
}

static bool is_object(const Scanner *scanner) {
        return scanner->objects >> scanner->depth & 1;
}

static bool is_in_pod(const Scanner *scanner) {
        return scanner->in_items && !(scanner->objects >> 2 & 1);
}

static bool is_made_of(const Word *word, const char *characters, size_t max) {
        if (!word->size || word->size > max)
                return false;
        for (size_t i = 0; i < word->size; i++)
                if (!word->at[i] || !strchr(characters, word->at[i]))
                        return false;
        return true;
}

static bool is_chosen(const PodLabels *wanted, const Word *key) {
        char text[MAX_KEY + 1];

        if (!key->size || key->size > MAX_KEY)
                return false;
        memcpy(text, key->at, key->size);
        text[key->size] = 0;
        for (size_t i = 0; i < wanted->n_globs; i++)
                if (!fnmatch(wanted->globs[i], text, 0))
                        return true;
        return false;
}

/* An empty value is one by the rules of Kubernetes, but no attribute. */
static void take_label(Scanner *scanner, const Word *key, const Word *value) {
        if (is_word(key, "pod-template-hash"))
                scanner->hash = *value;
        if (!value->size || !is_chosen(scanner->wanted, key))
                return;
        if (!is_made_of(key, LOWER UPPER "_/", MAX_KEY) || !is_made_of(value, LOWER UPPER "_", MAX_VALUE))
                scanner->counts->n_labels_malformed++;
        else if (scanner->n_labels == POD_LIST_MAX_LABELS)
                scanner->counts->n_labels_over++;
        else
                scanner->labels[scanner->n_labels++] = (Label){ *key, *value };
}

static bool is_in_owner(const Scanner *scanner) {
        return scanner->depth == DEPTH_OWNER && scanner->in_owners && is_object(scanner) &&
                !(scanner->objects >> DEPTH_LABELS & 1);
}

static void take_string(Scanner *scanner, const Word *key, const Word *value) {
        static const char *const names[N_FIELDS] = { "namespace", "name", "uid" };

        if (!is_in_pod(scanner) || !scanner->in_metadata)
                return;
        for (Field field = 0; scanner->depth == DEPTH_METADATA && field < N_FIELDS; field++)
                if (is_word(key, names[field]))
                        scanner->fields[field] = *value;
        if (scanner->depth == DEPTH_LABELS && scanner->in_labels && is_object(scanner))
                take_label(scanner, key, value);
        if (is_in_owner(scanner) && is_word(key, "kind"))
                scanner->owner.kind = *value;
        if (is_in_owner(scanner) && is_word(key, "name"))
                scanner->owner.name = *value;
}

static void note_key(Scanner *scanner, const Word *key) {
        if (scanner->depth == DEPTH_LIST)
                scanner->in_items = is_word(key, "items");
        if (scanner->depth == DEPTH_POD)
                scanner->in_metadata = is_word(key, "metadata");
        if (scanner->depth == DEPTH_METADATA) {
                scanner->in_labels = is_word(key, "labels");
                scanner->in_owners = is_word(key, "ownerReferences");
        }
}

static void append_line(Text *entries, const char *key, const Word *rest, const Word *value) {
        text_append(entries, "\n", 1);
        text_append(entries, key, strlen(key));
        text_append(entries, rest->at, rest->size);
        text_append(entries, "=", 1);
        text_append(entries, value->at, value->size);
}

/* The part of @name before `-HASH`; empty if it is not named so. */
static Word deployment_of(const Word *name, const Word *hash) {
        size_t tail = hash->size + 1;

        if (!hash->size || name->size <= tail || name->at[name->size - tail] != '-' ||
            memcmp(name->at + name->size - hash->size, hash->at, hash->size) != 0)
                return (Word){ .at = "" };
        return (Word){ name->at, name->size - tail };
}

static void append_owner(const Scanner *scanner) {
        static const struct {
                const char *kind, *key;
        } kinds[] = {
                { "ReplicaSet", "k8s.replicaset.name" },   { "StatefulSet", "k8s.statefulset.name" },
                { "DaemonSet", "k8s.daemonset.name" },     { "Job", "k8s.job.name" },
                { "ReplicationController", "k8s.replicationcontroller.name" },
        };
        const Owner *owner = &scanner->controller;
        const Word none = { .at = "" };
        Word deployment = { .at = "" };

        if (!is_made_of(&owner->name, LOWER, MAX_NAME))
                return;
        for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
                if (is_word(&owner->kind, kinds[i].kind))
                        append_line(scanner->entries, kinds[i].key, &none, &owner->name);
        if (is_word(&owner->kind, "ReplicaSet"))
                deployment = deployment_of(&owner->name, &scanner->hash);
        if (deployment.size)
                append_line(scanner->entries, "k8s.deployment.name", &none, &deployment);
}

static void end_pod(Scanner *scanner) {
        const Word *fields = scanner->fields;

        for (Field field = 0; field < N_FIELDS; field++)
                if (!is_made_of(&fields[field], LOWER UPPER "_", MAX_NAME))
                        return;
        if (scanner->n == POD_LIST_MAX) {
                scanner->counts->n_over++;
                return;
        }
        scanner->n++;
        for (Field field = 0; field < N_FIELDS; field++) {
                text_append(scanner->entries, field ? "_" : "", field ? 1 : 0);
                text_append(scanner->entries, fields[field].at, fields[field].size);
        }
        append_owner(scanner);
        for (size_t i = 0; i < scanner->n_labels; i++)
                append_line(scanner->entries, "k8s.pod.label.", &scanner->labels[i].key, &scanner->labels[i].value);
        text_append(scanner->entries, "\0", 1);
}

static void begin_pod(Scanner *scanner) {
        memset(scanner->fields, 0, sizeof(scanner->fields));
        scanner->n_labels = 0;
        scanner->hash = (Word){ .at = "" };
        scanner->controller = (Owner){ 0 };
        scanner->in_metadata = false;
}

static bool open_container(Scanner *scanner, bool object) {
        if (++scanner->depth >= MAX_DEPTH)
                return false;
        scanner->objects &= ~(UINT64_C(1) << scanner->depth);
        scanner->objects |= (uint64_t)object << scanner->depth;
        if (scanner->depth == DEPTH_POD)
                begin_pod(scanner);
        if (scanner->depth == DEPTH_METADATA)
                scanner->in_labels = scanner->in_owners = false;
        if (scanner->depth == DEPTH_OWNER)
                scanner->owner = (Owner){ 0 };
        if (scanner->depth == DEPTH_LIST + 1 && scanner->in_items)
                scanner->has_items |= !object;
        return true;
}

static bool close_container(Scanner *scanner, bool object) {
        if (!scanner->depth || is_object(scanner) != object)
                return false;
        if (scanner->depth == DEPTH_POD && object && is_in_pod(scanner))
                end_pod(scanner);
        if (is_in_owner(scanner) && is_in_pod(scanner) && scanner->in_metadata && scanner->owner.controls)
                scanner->controller = scanner->owner;
        scanner->depth--;
        return true;
}

/* A number, true, false, null: whatever it is made of. */
static bool read_scalar(Scanner *scanner, const Word *key) {
        Word value = { .at = scanner->at };

        while (scanner->at < scanner->end && *scanner->at && !strchr(" \t\r\n,:]}[{\"", *scanner->at))
                scanner->at++;
        value.size = (size_t)(scanner->at - value.at);
        if (is_in_owner(scanner) && is_word(key, "controller"))
                scanner->owner.controls = is_word(&value, "true");
        return value.size > 0;
}

/* A value, or the beginning of one. @key: of it, "" in an array. */
static bool read_value(Scanner *scanner, const Word *key) {
        Word value;

        switch (*scanner->at) {
        case '{':
        case '[':
                return open_container(scanner, *scanner->at++ == '{');
        case '"':
                if (!read_string(scanner, &value))
                        return false;
                take_string(scanner, key, &value);
                return true;
        default:
                return read_scalar(scanner, key);
        }
}

/* In an object: a key, a colon and a value; in an array: a value. */
static bool read_member(Scanner *scanner) {
        Word key = { .at = "" };

        if (!is_object(scanner))
                return read_value(scanner, &key);
        if (*scanner->at != '"' || !read_string(scanner, &key))
                return false;
        note_key(scanner, &key);
        skip_blanks(scanner);
        if (scanner->at >= scanner->end || *scanner->at++ != ':')
                return false;
        skip_blanks(scanner);
        return scanner->at < scanner->end && read_value(scanner, &key);
}

static bool scan(Scanner *scanner) {
        skip_blanks(scanner);
        if (scanner->at >= scanner->end || *scanner->at++ != '{' || !open_container(scanner, true))
                return false;
        while (scanner->depth) {
                skip_blanks(scanner);
                if (scanner->at >= scanner->end)
                        return false;
                if (*scanner->at == '}' || *scanner->at == ']') {
                        if (!close_container(scanner, *scanner->at++ == '}'))
                                return false;
                } else if (*scanner->at == ',') {
                        scanner->at++;
                } else if (!read_member(scanner)) {
                        return false;
                }
        }
        return true;
}

int pod_list_parse(const char *json, size_t size, const PodLabels *labels, Text *entries,
                   PodListCounts *counts) {
        Scanner scanner = {
                .at = json, .end = json + size, .wanted = labels, .entries = entries, .counts = counts
        };

        *counts = (PodListCounts){ 0 };
        return scan(&scanner) && scanner.has_items ? 0 : POD_LIST_E_MALFORMED;
}
