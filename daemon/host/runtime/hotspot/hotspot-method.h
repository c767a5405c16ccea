/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Java Methods
 *
 * What a Method* is called, and the lines of its byte code.
 */

#include <stdbool.h>
#include <stdint.h>

#include "core/base/util/macro.h"
#include "host/runtime/hotspot/hotspot-layout.h"

enum {
        HOTSPOT_MAX_CLASS = 512,        /* bytes of names; longer ones are cut */
        HOTSPOT_MAX_METHOD = 256,
        HOTSPOT_MAX_SIGNATURE = 1024,
        HOTSPOT_MAX_FILE = 128,
        HOTSPOT_MAX_LINES = 8192,       /* entries of a line table; more are left out */
};

typedef struct HotspotLine {
        uint16_t bci, line;             /* from this byte of the byte code on */
} HotspotLine;

/* Key that tells a method from another one at the same address: memory of unloaded classes is used again. */
typedef struct HotspotMethodKey {
        uint64_t const_method, pool, klass;     /* ConstMethod *, ConstantPool *, InstanceKlass * */
        uint64_t class_name, name, signature;   /* Symbol * each */
        uint64_t texts;                 /* hash of theirs: a later class may have all these places */
} HotspotMethodKey;

typedef struct HotspotMethod HotspotMethod;
struct HotspotMethod {
        HotspotMethodKey key;
        HotspotMethod *next;            /* for its owner's lists */
        uint32_t since;                 /* for its owner: the stamp once it was read (hotspot-published.h) */
        uint64_t code;                  /* address of its byte code */
        uint32_t code_size;             /* bytes; 0 = native or abstract */
        uint32_t n_lines;
        HotspotLine *lines;             /* in the order of the file, which need not be that of bci */
        char *name;                     /* `package.Class.method`, stable from run to run */
        char *signature;                /* as in the class file, `(ILjava/lang/String;)V` */
        char *parameters;               /* the same for people, `(int, java.lang.String)` */
        char *file;                     /* `Class.java`; "" = unknown */
        char text[];
};

enum {
        _HOTSPOT_METHOD_E_SUCCESS,
        HOTSPOT_METHOD_E_UNREADABLE,    /* memory is not there any more */
        HOTSPOT_METHOD_E_MALFORMED,     /* no Method lies there (any more) */
};

/* Pure but for @reader: some small reads. Return: 0 with *keyp, HOTSPOT_METHOD_E_*. */
int hotspot_method_key(HotspotMethodKey *keyp, const HotspotLayout *layout, const HotspotReader *reader,
                       uint64_t address);

/* Pure but for @reader. Return: 0 with *methodp (owned by the caller), HOTSPOT_METHOD_E_*, -ENOMEM. */
int hotspot_method_new(HotspotMethod **methodp, const HotspotLayout *layout, const HotspotReader *reader,
                       uint64_t address);
HotspotMethod *hotspot_method_free(HotspotMethod *method);
DEFINE_CLEANUP(HotspotMethod, hotspot_method_free)

/* The line that byte @bci of its byte code is of; below 0: of its first. 0 = unknown. */
uint32_t hotspot_method_line(const HotspotMethod *method, int32_t bci);

/*
 * Pure. A method's parameters as people write them: `(ILjava/lang/String;[J)V` → `(int, java.lang.String,
 * long[])`, with a NUL. What is cut, does not fit or is none ends as `…)`. @text: at most
 * HOTSPOT_MAX_SIGNATURE bytes. Return: bytes without the NUL.
 */
size_t hotspot_parameters(char to[static HOTSPOT_MAX_SIGNATURE + 1], const char *text, size_t size);
