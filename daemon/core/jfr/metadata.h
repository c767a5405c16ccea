/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Metadata of a Chunk
 *
 * What a chunk says of its own types: the classes of events and of values, their fields in the order in
 * which they are written, and whether a field holds a value, an array of values, or an index into a
 * constant pool. Nothing about field orders is known beforehand. It stands in the chunk as a tree of elements
 * with attributes, all of them strings out of one table:
 *
 *     root ─ metadata ─ class id=101 name=jdk.ExecutionSample superType=jdk.jfr.Event
 *                       ├─ field name=startTime class=9          (long)
 *                       │  └─ annotation class=40 value=TICKS    (jdk.jfr.Timestamp)
 *                       └─ field name=stackTrace class=30 constantPool=true
 */

#include "core/base/data/arena.h"
#include "core/base/data/hashmap.h"
#include "core/jfr/value.h"

typedef enum JfrKind {
        JFR_STRUCT,
        JFR_BOOLEAN,
        JFR_BYTE,
        JFR_CHAR,
        JFR_SHORT,
        JFR_INT,
        JFR_LONG,
        JFR_FLOAT,
        JFR_DOUBLE,
        JFR_TEXT,                       /* java.lang.String */
} JfrKind;

typedef enum JfrUnit {
        JFR_UNIT_NONE,
        JFR_TICKS,
        JFR_NANOSECONDS,
        JFR_MICROSECONDS,
        JFR_MILLISECONDS,
        JFR_SECONDS
} JfrUnit;

typedef struct JfrClass JfrClass;
typedef struct JfrField JfrField;

struct JfrField {
        const char *name;
        uint64_t class_id;
        JfrClass *class;                /* never NULL in a class that is not broken */
        JfrUnit unit;                   /* unit of a time or duration */
        bool pool, array;
        JfrField *next;                 /* while the tree is read */
        uint64_t annotation_id;
        const char *annotation_value;
};

struct JfrClass {
        uint64_t id;
        uint32_t number;                /* 0, 1, 2 … in this chunk */
        const char *name;
        JfrKind kind;
        /* a field of unknown class, one inside itself, or nested too deeply: cannot be read */
        bool broken;
        bool empty;                     /* takes no bytes */
        bool wanted;                    /* values of its pool are kept */
        uint8_t state;                  /* while classes are joined */
        uint32_t depth;                 /* depth of structs in structs */
        uint32_t n_integers;            /* fields, if all are integers or indexes; else 0 */
        JfrField *last;                 /* while the tree is read */
        JfrField *fields;               /* without those that take no bytes */
        uint32_t n_fields;
};

enum { JFR_N_FIRST = 2048 };

typedef struct JfrMetadata {
        Arena arena;
        JfrClass **classes;
        uint32_t n_classes, classes_size;
        Hashmap by_id;
        JfrClass *first[JFR_N_FIRST];   /* by small ids, which all real ones are */
} JfrMetadata;

enum {
        _JFR_METADATA_E_SUCCESS,
        JFR_METADATA_E_MALFORMED,
};

/*
 * @cursor: behind the event's size and type. Pair with jfr_metadata_deinit(). Return: 0,
 * JFR_METADATA_E_MALFORMED, -ENOMEM.
 */
int jfr_metadata_read(JfrMetadata *metadata, JfrCursor cursor);
void jfr_metadata_deinit(JfrMetadata *metadata);

/* Return: the class, or NULL. */
static inline JfrClass *jfr_class(const JfrMetadata *metadata, uint64_t id) {
        return id < JFR_N_FIRST ? metadata->first[id] : hashmap_get(&metadata->by_id, id);
}

JfrClass *jfr_class_named(const JfrMetadata *metadata, const char *name);
const JfrField *jfr_field(const JfrClass *class, const char *name);

/*
 * The kind of number that a field holds, by itself, by reference, or as the one field of a struct. Return:
 * its class, or NULL = the field is no number.
 */
const JfrClass *jfr_number_class(const JfrField *field);

static inline bool jfr_is_integer(const JfrClass *number) {
        return number->kind != JFR_FLOAT && number->kind != JFR_DOUBLE;
}

/* Reads a number of that class. Of a float or double it is the bits of a double. */
uint64_t jfr_number(JfrCursor *cursor, const JfrClass *class);

/* Passes over one value. The cursor fails where the bytes do not hold one. */
void jfr_skip(JfrCursor *cursor, const JfrClass *class);
void jfr_skip_field(JfrCursor *cursor, const JfrField *field);
