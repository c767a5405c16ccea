/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Maker of recordings with known contents, byte by byte, written from the format alone: it shares nothing
 * with the reader. A recording has threads, methods and stacks by number, so that a test can say what must
 * come out:
 *
 *     thread t        OS thread 1000 + t, Java name "thread-t"
 *     method m        class "pkg/Classm", name "method-m", descriptor "(I)V"
 *     stack s         `depth` frames: frame f is method (s + f) % n_methods, line 10 * f + 1
 *
 * How integers and strings are written, the order of fields, how many checkpoints the constants are spread
 * over, the version and the clock are all options: what is read must not depend on them.
 */

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAKER_MAX_NUMBERS = 4096 };

typedef struct MakerNumber {
        unsigned class;
        uint64_t number;                /* of a float its bits */
} MakerNumber;

typedef struct JfrMaker {
        uint8_t *data;
        size_t size, room;
        size_t chunk;                   /* where the chunk began */
        size_t event;                   /* where the event began */
        size_t last_checkpoint;         /* from the chunk; 0 = none yet */

        bool plain;                     /* integers as they are, big endian */
        bool reversed;                  /* fields of events the other way round */
        /* values stand in place of references: stacks in events, methods in frames … */
        bool inlined;
        bool by_reference;              /* frames of stacks, and numbers, are in pools */
        uint32_t stray_methods;         /* first frames of each stack whose method is nowhere */
        bool symbols_for_texts;         /* each field `value` is a struct that holds the text */
        bool methods_are_stacks;        /* what frames refer to as methods are stacks */
        int encoding;                   /* of strings: 2 pool (event texts), 3 UTF-8, 4 UTF-16, 5 Latin-1 */
        unsigned n_checkpoints;         /* the constants are spread over; 0 = 1 */
        uint16_t minor;
        uint64_t start_ns, start_ticks, ticks_per_second;
        uint32_t n_threads, n_methods, n_stacks, depth;
        uint64_t method_base;           /* method 0 has this index + 1 */
        bool no_remote_type;            /* frame type 7 is missing from its pool */
        MakerNumber numbers[MAKER_MAX_NUMBERS];         /* numbers that were referred to */
        uint32_t n_numbers;
        bool remote;                    /* method 0 is a remote frame: build id c0ffee…, address 0x1f2e0 */
        const char *remote_names[3];    /* its class, method and descriptor; NULL = as most write them */
} JfrMaker;

#define JFR_MAKER_BUILD_ID "c0ffee00112233445566778899aabbccddeeff00"

enum {
        /* ids of classes; any numbers would do */
        MAKER_BOOLEAN = 4,
        MAKER_CHAR,
        MAKER_FLOAT,
        MAKER_DOUBLE,
        MAKER_BYTE,
        MAKER_SHORT,
        MAKER_INT,
        MAKER_LONG,
        MAKER_TEXT = 20,
        MAKER_CLASS,
        MAKER_THREAD,
        MAKER_SYMBOL,
        MAKER_METHOD,
        MAKER_FRAME_TYPE,
        MAKER_STATE,
        MAKER_FRAME,
        MAKER_STACK,
        MAKER_TIMESTAMP,
        MAKER_TIMESPAN,
        MAKER_FIRST_EVENT = 100,
        MAKER_JDK_EXECUTION = MAKER_FIRST_EVENT,
        MAKER_DD_EXECUTION,
        MAKER_DD_METHOD,
        MAKER_DD_OBJECT,
        MAKER_ENTER,
        MAKER_PARK,
        MAKER_ALLOC_SAMPLE,
        MAKER_TLAB,
        MAKER_WALL,
        MAKER_JVM,
        MAKER_ENVIRONMENT,
        MAKER_LIBRARY,
        MAKER_SETTING,
        MAKER_CPU_TIME,
        MAKER_LOST,
        MAKER_CPU_LOAD,
        MAKER_RECORDING,
        MAKER_FILE_READ,
        MAKER_SOCKET_WRITE,
        MAKER_SLEEP,
        MAKER_PINNED,
        MAKER_OLD_OBJECT,
        MAKER_THROW,
        MAKER_CLASS_LOAD,
};

static inline void maker_bytes(JfrMaker *maker, const void *data, size_t size) {
        if (maker->size + size > maker->room) {
                maker->room = (maker->size + size) * 2 + 4096;
                maker->data = realloc(maker->data, maker->room);
                if (!maker->data)
                        abort();
        }
        if (size)
                memcpy(maker->data + maker->size, data, size);
        maker->size += size;
}

static inline void maker_big_endian(JfrMaker *maker, uint64_t value, unsigned size) {
        uint8_t bytes[8];

        for (unsigned i = 0; i < size; i++)
                bytes[i] = (uint8_t)(value >> (8 * (size - 1 - i)));
        maker_bytes(maker, bytes, size);
}

static inline void maker_integer(JfrMaker *maker, uint64_t value, unsigned size) {
        if (maker->plain) {
                maker_big_endian(maker, value, size);
                return;
        }
        for (int i = 0; i < 8 && value >= 0x80; i++, value >>= 7)
                maker_bytes(maker, (uint8_t[]){ (uint8_t)(value | 0x80) }, 1);
        maker_bytes(maker, (uint8_t[]){ (uint8_t)value }, 1);
}

static inline void maker_byte(JfrMaker *maker, uint8_t value) {
        maker_bytes(maker, &value, 1);
}

static inline void maker_int(JfrMaker *maker, uint32_t value) {
        maker_integer(maker, value, 4);
}

static inline void maker_long(JfrMaker *maker, uint64_t value) {
        maker_integer(maker, value, 8);
}

/* ASCII only, except in UTF-8. */
static inline void maker_text(JfrMaker *maker, const char *text) {
        int encoding = maker->encoding < 3 ? 3 : maker->encoding;

        if (!*text) {
                maker_byte(maker, 1);
                return;
        }
        maker_byte(maker, (uint8_t)encoding);
        maker_int(maker, (uint32_t)strlen(text));
        for (const char *c = text; *c; c++) {
                if (encoding == 4)
                        maker_integer(maker, (uint8_t)*c, 2);
                else
                        maker_byte(maker, (uint8_t)*c);
        }
}

/* Sizes are written in four bytes, as the JVM does, so that they can be filled in at the end. */
static inline void maker_begin(JfrMaker *maker, uint64_t type) {
        maker->event = maker->size;
        maker_big_endian(maker, 0, 4);
        maker_long(maker, type);
}

static inline void maker_end(JfrMaker *maker) {
        uint32_t size = (uint32_t)(maker->size - maker->event);
        uint8_t *to = maker->data + maker->event;

        for (int i = 0; i < 4; i++)
                to[i] = maker->plain ? (uint8_t)(size >> (24 - 8 * i))
                                     : (uint8_t)((size >> (7 * i) & 0x7F) | (i < 3 ? 0x80 : 0));
}

/* Metadata */

typedef struct MakerField {
        const char *name;
        unsigned class;
        bool pool, array;
        unsigned annotation;            /* class of it; its value is TICKS */
} MakerField;

typedef struct MakerClass {
        unsigned id;
        const char *name;
        MakerField fields[12];
} MakerClass;

#define MAKER_START { "startTime", MAKER_LONG, .annotation = MAKER_TIMESTAMP }
#define MAKER_DURATION { "duration", MAKER_LONG, .annotation = MAKER_TIMESPAN }
#define MAKER_THREAD_FIELD { "eventThread", MAKER_THREAD, .pool = true }
#define MAKER_STACK_FIELD { "stackTrace", MAKER_STACK, .pool = true }
#define MAKER_SPANS { "spanId", MAKER_LONG }, { "localRootSpanId", MAKER_LONG }

static const MakerClass maker_classes[] = {
        { MAKER_BOOLEAN, "boolean", {} },
        { MAKER_CHAR, "char", {} },
        { MAKER_FLOAT, "float", {} },
        { MAKER_DOUBLE, "double", {} },
        { MAKER_BYTE, "byte", {} },
        { MAKER_SHORT, "short", {} },
        { MAKER_INT, "int", {} },
        { MAKER_LONG, "long", {} },
        { MAKER_TEXT, "java.lang.String", {} },
        { MAKER_TIMESTAMP, "jdk.jfr.Timestamp", { { "value", MAKER_TEXT } } },
        { MAKER_TIMESPAN, "jdk.jfr.Timespan", { { "value", MAKER_TEXT } } },
        { MAKER_SYMBOL, "jdk.types.Symbol", { { "string", MAKER_TEXT } } },
        { MAKER_CLASS,
          "java.lang.Class",
          { { "name", MAKER_SYMBOL, .pool = true }, { "modifiers", MAKER_INT } } },
        { MAKER_THREAD,
          "java.lang.Thread",
          { { "osName", MAKER_TEXT },
            { "osThreadId", MAKER_LONG },
            { "javaName", MAKER_TEXT },
            { "javaThreadId", MAKER_LONG } } },
        { MAKER_METHOD,
          "jdk.types.Method",
          { { "type", MAKER_CLASS, .pool = true },
            { "name", MAKER_SYMBOL, .pool = true },
            { "descriptor", MAKER_SYMBOL, .pool = true },
            { "modifiers", MAKER_INT },
            { "hidden", MAKER_BOOLEAN } } },
        { MAKER_FRAME_TYPE, "jdk.types.FrameType", { { "description", MAKER_TEXT } } },
        { MAKER_STATE, "jdk.types.ThreadState", { { "name", MAKER_TEXT } } },
        { MAKER_FRAME,
          "jdk.types.StackFrame",
          { { "method", MAKER_METHOD, .pool = true },
            { "lineNumber", MAKER_INT },
            { "bytecodeIndex", MAKER_INT },
            { "type", MAKER_FRAME_TYPE, .pool = true } } },
        { MAKER_STACK,
          "jdk.types.StackTrace",
          { { "truncated", MAKER_BOOLEAN }, { "frames", MAKER_FRAME, .array = true } } },
        { MAKER_JDK_EXECUTION,
          "jdk.ExecutionSample",
          { MAKER_START,
            { "sampledThread", MAKER_THREAD, .pool = true },
            MAKER_STACK_FIELD,
            { "state", MAKER_STATE, .pool = true } } },
        { MAKER_DD_EXECUTION,
          "datadog.ExecutionSample",
          { MAKER_START,
            MAKER_THREAD_FIELD,
            MAKER_STACK_FIELD,
            MAKER_SPANS,
            { "weight", MAKER_LONG },
            { "endpoint", MAKER_TEXT } } },
        { MAKER_DD_METHOD,
          "datadog.MethodSample",
          { MAKER_START, MAKER_THREAD_FIELD, MAKER_STACK_FIELD, MAKER_SPANS, { "weight", MAKER_LONG } } },
        { MAKER_DD_OBJECT,
          "datadog.ObjectSample",
          { MAKER_START,
            MAKER_THREAD_FIELD,
            MAKER_STACK_FIELD,
            { "objectClass", MAKER_CLASS, .pool = true },
            { "size", MAKER_LONG },
            { "weight", MAKER_FLOAT },
            MAKER_SPANS } },
        { MAKER_ENTER,
          "jdk.JavaMonitorEnter",
          { MAKER_START,
            MAKER_DURATION,
            MAKER_THREAD_FIELD,
            MAKER_STACK_FIELD,
            { "monitorClass", MAKER_CLASS, .pool = true } } },
        { MAKER_PARK,
          "jdk.ThreadPark",
          { MAKER_START, MAKER_DURATION, MAKER_THREAD_FIELD, MAKER_STACK_FIELD } },
        { MAKER_ALLOC_SAMPLE,
          "jdk.ObjectAllocationSample",
          { MAKER_START,
            MAKER_THREAD_FIELD,
            MAKER_STACK_FIELD,
            { "objectClass", MAKER_CLASS, .pool = true },
            { "weight", MAKER_LONG } } },
        { MAKER_TLAB,
          "jdk.ObjectAllocationInNewTLAB",
          { MAKER_START,
            MAKER_THREAD_FIELD,
            MAKER_STACK_FIELD,
            { "objectClass", MAKER_CLASS, .pool = true },
            { "allocationSize", MAKER_LONG },
            { "tlabSize", MAKER_LONG } } },
        { MAKER_WALL,
          "profiler.WallClockSample",
          { MAKER_START,
            { "sampledThread", MAKER_THREAD, .pool = true },
            MAKER_STACK_FIELD,
            { "state", MAKER_STATE, .pool = true },
            { "samples", MAKER_INT } } },
        { MAKER_CPU_TIME,
          "jdk.CPUTimeSample",
          { MAKER_START,
            MAKER_STACK_FIELD,
            MAKER_THREAD_FIELD,
            { "failed", MAKER_BOOLEAN },
            { "samplingPeriod", MAKER_LONG, .annotation = MAKER_TIMESPAN },
            { "biased", MAKER_BOOLEAN } } },
        { MAKER_LOST,
          "jdk.CPUTimeSamplesLost",
          { MAKER_START, { "lostSamples", MAKER_INT }, MAKER_THREAD_FIELD } },
        { MAKER_CPU_LOAD, "jdk.CPULoad", { MAKER_START, { "jvmUser", MAKER_FLOAT } } },
        { MAKER_FILE_READ,
          "jdk.FileRead",
          { MAKER_START,
            MAKER_DURATION,
            MAKER_THREAD_FIELD,
            MAKER_STACK_FIELD,
            { "path", MAKER_TEXT },
            { "bytesRead", MAKER_LONG } } },
        { MAKER_SOCKET_WRITE,
          "jdk.SocketWrite",
          { MAKER_START,
            MAKER_DURATION,
            MAKER_THREAD_FIELD,
            MAKER_STACK_FIELD,
            { "host", MAKER_TEXT },
            { "bytesWritten", MAKER_LONG } } },
        { MAKER_SLEEP,
          "jdk.ThreadSleep",
          { MAKER_START, MAKER_DURATION, MAKER_THREAD_FIELD, MAKER_STACK_FIELD, { "time", MAKER_LONG } } },
        { MAKER_PINNED,
          "jdk.VirtualThreadPinned",
          { MAKER_START, MAKER_DURATION, MAKER_THREAD_FIELD, MAKER_STACK_FIELD } },
        { MAKER_OLD_OBJECT,
          "jdk.OldObjectSample",
          { MAKER_START,
            MAKER_THREAD_FIELD,
            MAKER_STACK_FIELD,
            { "allocationTime", MAKER_LONG, .annotation = MAKER_TIMESTAMP },
            { "objectSize", MAKER_LONG } } },
        { MAKER_THROW,
          "jdk.JavaExceptionThrow",
          { MAKER_START,
            MAKER_THREAD_FIELD,
            MAKER_STACK_FIELD,
            { "message", MAKER_TEXT },
            { "thrownClass", MAKER_CLASS, .pool = true } } },
        { MAKER_CLASS_LOAD,
          "jdk.ClassLoad",
          { MAKER_START, MAKER_DURATION, MAKER_THREAD_FIELD, MAKER_STACK_FIELD } },
        { MAKER_RECORDING, "jdk.ActiveRecording", { MAKER_START, { "id", MAKER_LONG } } },
        { MAKER_JVM,
          "jdk.JVMInformation",
          { MAKER_START,
            { "jvmName", MAKER_TEXT },
            { "jvmVersion", MAKER_TEXT },
            { "jvmArguments", MAKER_TEXT },
            { "javaArguments", MAKER_TEXT },
            { "jvmStartTime", MAKER_LONG },
            { "pid", MAKER_LONG } } },
        { MAKER_ENVIRONMENT,
          "jdk.InitialEnvironmentVariable",
          { MAKER_START, { "key", MAKER_TEXT }, { "value", MAKER_TEXT } } },
        { MAKER_LIBRARY,
          "jdk.NativeLibrary",
          { MAKER_START,
            { "name", MAKER_TEXT },
            { "baseAddress", MAKER_LONG },
            { "topAddress", MAKER_LONG },
            { "buildId", MAKER_TEXT },
            { "loadBias", MAKER_LONG } } },
        { MAKER_SETTING,
          "jdk.ActiveSetting",
          { MAKER_START, { "id", MAKER_LONG }, { "name", MAKER_TEXT }, { "value", MAKER_TEXT } } },
};

enum { MAKER_N_CLASSES = sizeof(maker_classes) / sizeof(maker_classes[0]), MAKER_MAX_STRINGS = 1024 };

typedef struct MakerTree {
        char strings[MAKER_MAX_STRINGS][40];
        uint32_t n_strings;
} MakerTree;

static inline uint32_t maker_string(MakerTree *tree, const char *text) {
        uint32_t i = 0;

        while (i < tree->n_strings && strcmp(tree->strings[i], text))
                i++;
        if (i == tree->n_strings)
                snprintf(tree->strings[tree->n_strings++], sizeof(tree->strings[0]), "%s", text);
        return i;
}

static inline unsigned maker_n_fields(const MakerClass *class) {
        unsigned n = 0;

        while (n < 12 && class->fields[n].name)
                n++;
        return n;
}

static inline void maker_element(JfrMaker *maker, MakerTree *tree, const char *name, unsigned n_attributes) {
        maker_int(maker, maker_string(tree, name));
        maker_int(maker, n_attributes);
}

static inline void maker_attribute(JfrMaker *maker, MakerTree *tree, const char *key, const char *value) {
        maker_int(maker, maker_string(tree, key));
        maker_int(maker, maker_string(tree, value));
}

static inline void maker_number(JfrMaker *maker, MakerTree *tree, const char *key, unsigned value) {
        char text[16];

        snprintf(text, sizeof(text), "%u", value);
        maker_attribute(maker, tree, key, text);
}

static inline bool maker_is_number(const MakerField *field) {
        return field->class == MAKER_INT || field->class == MAKER_LONG || field->class == MAKER_FLOAT;
}

static inline bool maker_in_pool(const JfrMaker *maker, const MakerField *field) {
        return (field->pool && !maker->inlined) ||
                (maker->by_reference && (field->array || maker_is_number(field)));
}

static inline unsigned maker_class_of(const JfrMaker *maker, const MakerField *field) {
        if (maker->methods_are_stacks && !strcmp(field->name, "method"))
                return MAKER_STACK;
        return maker->symbols_for_texts && !strcmp(field->name, "value") ? MAKER_SYMBOL : field->class;
}

static inline void maker_field(JfrMaker *maker, MakerTree *tree, const MakerField *field) {
        bool pool = maker_in_pool(maker, field);

        maker_element(maker, tree, "field", 2 + pool + field->array);
        maker_attribute(maker, tree, "name", field->name);
        maker_number(maker, tree, "class", maker_class_of(maker, field));
        if (pool)
                maker_attribute(maker, tree, "constantPool", "true");
        if (field->array)
                maker_attribute(maker, tree, "dimension", "1");
        maker_int(maker, field->annotation ? 1 : 0);
        if (!field->annotation)
                return;
        maker_element(maker, tree, "annotation", 2);
        maker_number(maker, tree, "class", field->annotation);
        maker_attribute(maker, tree, "value", "TICKS");
        maker_int(maker, 0);
}

static inline void maker_tree(JfrMaker *maker, MakerTree *tree) {
        maker_element(maker, tree, "root", 0);
        maker_int(maker, 1);
        maker_element(maker, tree, "metadata", 0);
        maker_int(maker, MAKER_N_CLASSES);
        for (unsigned i = 0; i < MAKER_N_CLASSES; i++) {
                const MakerClass *class = &maker_classes[i];
                unsigned n = maker_n_fields(class);

                maker_element(maker, tree, "class", 2);
                maker_attribute(maker, tree, "name", class->name);
                maker_number(maker, tree, "id", class->id);
                maker_int(maker, n);
                for (unsigned j = 0; j < n; j++)
                        maker_field(
                                maker, tree,
                                &class->fields[maker->reversed && class->id >= MAKER_FIRST_EVENT ? n - 1 - j
                                                                                                 : j]);
        }
}

/* The strings stand before the tree, so it is made twice. */
static inline void maker_metadata(JfrMaker *maker) {
        static MakerTree tree;
        JfrMaker scratch = { .plain = maker->plain, .reversed = maker->reversed,
                             .inlined = maker->inlined, .by_reference = maker->by_reference,
                             .methods_are_stacks = maker->methods_are_stacks,
                             .symbols_for_texts = maker->symbols_for_texts };

        tree.n_strings = 0;
        maker_tree(&scratch, &tree);
        maker_begin(maker, 0);
        maker_long(maker, maker->start_ticks);
        maker_long(maker, 0);
        maker_long(maker, 1);
        maker_int(maker, tree.n_strings);
        for (uint32_t i = 0; i < tree.n_strings; i++)
                maker_text(maker, tree.strings[i]);
        maker_bytes(maker, scratch.data, scratch.size);
        maker_end(maker);
        free(scratch.data);
}

/* Constants: index + 1 of thread, method, stack. Symbols: 1 + 3 × method for its class, name, descriptor. */

static inline bool maker_in_part(unsigned i, unsigned part, unsigned n_parts) {
        return i % n_parts == part;
}

static inline uint32_t maker_count(uint32_t n, unsigned part, unsigned n_parts) {
        return n / n_parts + (part < n % n_parts);
}

static inline void maker_constant(JfrMaker *maker, unsigned class, uint64_t index);

/* Where another writer would refer to a constant, this one may write its value. */
static inline void maker_reference(JfrMaker *maker, unsigned class, uint64_t index) {
        if (maker->inlined)
                maker_constant(maker, class, index);
        else
                maker_long(maker, index);
}

/* A number, or a reference to it. */
static inline void maker_put_number(JfrMaker *maker, unsigned class, uint64_t number) {
        if (maker->by_reference) {
                maker_long(maker, maker->n_numbers + 1);
                if (maker->n_numbers == MAKER_MAX_NUMBERS)
                        abort();
                maker->numbers[maker->n_numbers++] = (MakerNumber){ class, number };
        } else if (class == MAKER_FLOAT)
                maker_big_endian(maker, number, 4);
        else if (class == MAKER_INT)
                maker_int(maker, (uint32_t)number);
        else
                maker_long(maker, number);
}

static inline const char *maker_symbol(const JfrMaker *maker, uint64_t index, char text[64]) {
        static const char *const formats[] = { "pkg/Class%u", "method-%u", "(I)V" };
        static const char *const remote[] = { JFR_MAKER_BUILD_ID, "<remote>", "0x1f2e0" };

        snprintf(text, 64, formats[(index - 1) % 3], (unsigned)(index - 1) / 3);
        if (!maker->remote || index > 3)
                return text;
        return maker->remote_names[index - 1] ? maker->remote_names[index - 1] : remote[index - 1];
}

static inline void maker_method(JfrMaker *maker, uint64_t index) {
        maker_reference(maker, MAKER_CLASS, index);
        maker_reference(maker, MAKER_SYMBOL, 3 * index - 1);
        maker_reference(maker, MAKER_SYMBOL, 3 * index);
        maker_put_number(maker, MAKER_INT, 1);
        maker_byte(maker, 0);
}

static inline void maker_thread(JfrMaker *maker, uint64_t index) {
        char text[32];

        snprintf(text, sizeof(text), "thread-%u", (unsigned)index - 1);
        maker_text(maker, "os");
        maker_put_number(maker, MAKER_LONG, 1000 + index - 1);
        maker_text(maker, text);
        maker_put_number(maker, MAKER_LONG, index);
}

/* Frame @f of stack @s, whose index is s * depth + f + 1. */
static inline void maker_frame(JfrMaker *maker, uint64_t index) {
        uint32_t f = (uint32_t)(index - 1) % maker->depth, s = (uint32_t)(index - 1) / maker->depth;
        uint32_t method = (s + f) % maker->n_methods;

        if (f < maker->stray_methods)
                method += 1000 * maker->n_methods;
        maker_reference(maker, MAKER_METHOD, (maker->inlined ? 0 : maker->method_base) + method + 1);
        maker_put_number(maker, MAKER_INT, 10 * f + 1);
        maker_put_number(maker, MAKER_INT, 3);
        maker_reference(maker, MAKER_FRAME_TYPE, maker->remote && !method ? 7 : 1 + f % 2);
}

static inline void maker_stack(JfrMaker *maker, uint64_t index) {
        maker_byte(maker, 0);
        maker_int(maker, maker->depth);
        for (uint32_t f = 0; f < maker->depth; f++) {
                uint64_t frame = (index - 1) * maker->depth + f + 1;

                if (maker->by_reference)
                        maker_long(maker, frame);
                else
                        maker_frame(maker, frame);
        }
}

static inline void maker_constant(JfrMaker *maker, unsigned class, uint64_t index) {
        static const char *const types[] = { "Interpreted", "JIT compiled", "Inlined", "Native",
                                             "C++",         "Kernel",       "Remote" };
        static const char *const states[] = { "STATE_RUNNABLE", "STATE_SLEEPING", "STATE_DEFAULT" };
        static const char *const texts[] = { "/checkout", "/search" };
        char text[64];

        switch (class) {
        case MAKER_CLASS:
                maker_reference(maker, MAKER_SYMBOL, 3 * index - 2);
                maker_put_number(maker, MAKER_INT, 1);
                break;
        case MAKER_METHOD:
                maker_method(maker, index);
                break;
        case MAKER_THREAD:
                maker_thread(maker, index);
                break;
        case MAKER_STACK:
                maker_stack(maker, index);
                break;
        case MAKER_FRAME:
                maker_frame(maker, index);
                break;
        default:
                maker_text(maker, class == MAKER_SYMBOL            ? maker_symbol(maker, index, text)
                                          : class == MAKER_FRAME_TYPE ? types[index - 1]
                                          : class == MAKER_STATE      ? states[index - 1]
                                                                      : texts[index - 1]);
        }
}

/* A part of the pool of a class that has @n constants, the first of which has the index @base + 1. */
static inline void maker_pool(JfrMaker *maker, unsigned class, uint32_t n, uint64_t base, unsigned part,
                              unsigned n_parts) {
        maker_long(maker, class);
        maker_int(maker, maker_count(n, part, n_parts));
        for (uint32_t i = 0; i < n; i++) {
                if (!maker_in_part(i, part, n_parts))
                        continue;
                maker_long(maker, base + i + 1);
                maker_constant(maker, class, i + 1);
        }
}

/* Numbers that were referred to so far, by their class. */
static inline void maker_numbers(JfrMaker *maker, unsigned class) {
        uint32_t n = 0;

        for (uint32_t i = 0; i < maker->n_numbers; i++)
                n += maker->numbers[i].class == class;
        maker_long(maker, class);
        maker_int(maker, n);
        for (uint32_t i = 0; i < maker->n_numbers; i++) {
                const MakerNumber *number = &maker->numbers[i];

                if (number->class != class)
                        continue;
                maker_long(maker, i + 1);
                if (class == MAKER_FLOAT)
                        maker_big_endian(maker, number->number, 4);
                else
                        maker_integer(maker, number->number, class == MAKER_INT ? 4 : 8);
        }
}

static inline void maker_checkpoint(JfrMaker *maker, unsigned part, unsigned n_parts) {
        size_t at = maker->size - maker->chunk;
        bool first = !part, last = part + 1 == n_parts;

        maker_begin(maker, 1);
        maker_long(maker, maker->start_ticks);
        maker_long(maker, 0);
        maker_long(maker,
                   maker->last_checkpoint ? (uint64_t)((int64_t)maker->last_checkpoint - (int64_t)at) : 0);
        maker_byte(maker, 0);
        maker_int(maker, (first ? 9 : 6) + (last ? 3 : 0));
        maker_pool(maker, MAKER_SYMBOL, 3 * maker->n_methods, 0, part, n_parts);
        maker_pool(maker, MAKER_CLASS, maker->n_methods, 0, part, n_parts);
        maker_pool(maker, MAKER_METHOD, maker->n_methods, maker->method_base, part, n_parts);
        maker_pool(maker, MAKER_THREAD, maker->n_threads, 0, part, n_parts);
        maker_pool(maker, MAKER_STACK, maker->n_stacks, 0, part, n_parts);
        maker_pool(maker, MAKER_FRAME, maker->by_reference ? maker->n_stacks * maker->depth : 0, 0, part,
                   n_parts);
        if (first) {
                maker_pool(maker, MAKER_FRAME_TYPE, maker->no_remote_type ? 6 : 7, 0, 0, 1);
                maker_pool(maker, MAKER_STATE, 3, 0, 0, 1);
                maker_pool(maker, MAKER_TEXT, 2, 0, 0, 1);
        }
        if (last) {
                maker_numbers(maker, MAKER_INT);
                maker_numbers(maker, MAKER_LONG);
                maker_numbers(maker, MAKER_FLOAT);
        }
        maker_end(maker);
        maker->last_checkpoint = at;
}

/* Chunks. The header's places are filled in at the end. */

static inline void maker_begin_chunk(JfrMaker *maker) {
        maker->chunk = maker->size;
        maker->last_checkpoint = 0;
        maker->n_numbers = 0;
        maker_bytes(maker, "FLR\0", 4);
        maker_big_endian(maker, 2, 2);
        maker_big_endian(maker, maker->minor, 2);
        maker_big_endian(maker, 0, 8);                  /* size */
        maker_big_endian(maker, 0, 8);                  /* last checkpoint */
        maker_big_endian(maker, 0, 8);                  /* metadata */
        maker_big_endian(maker, maker->start_ns, 8);
        maker_big_endian(maker, UINT64_C(1000000000), 8);
        maker_big_endian(maker, maker->start_ticks, 8);
        maker_big_endian(maker, maker->ticks_per_second, 8);
        maker_big_endian(maker, maker->plain ? 0 : 1, 4);
}

static inline void maker_put64(JfrMaker *maker, size_t at, uint64_t value) {
        for (int i = 0; i < 8; i++)
                maker->data[maker->chunk + at + (size_t)i] = (uint8_t)(value >> (56 - 8 * i));
}

/*
 * Checkpoints stand after the events, as async-profiler has them; those of maker_checkpoint() before it count
 * too.
 */
static inline void maker_end_chunk(JfrMaker *maker) {
        unsigned n = maker->n_checkpoints ? maker->n_checkpoints : 1;
        size_t metadata;

        for (unsigned i = 0; i < n; i++)
                maker_checkpoint(maker, i, n);
        metadata = maker->size - maker->chunk;
        maker_metadata(maker);
        maker_put64(maker, 8, maker->size - maker->chunk);
        maker_put64(maker, 16, maker->last_checkpoint);
        maker_put64(maker, 24, metadata);
}

/* Events: values in the order of the class's fields, written in the order of this recording. */

typedef struct MakerValue {
        uint64_t number;
        double real;
        const char *text;
} MakerValue;

static inline void maker_value(JfrMaker *maker, const MakerField *field, const MakerValue *value) {
        float real = (float)value->real;
        uint32_t bits;

        memcpy(&bits, &real, 4);
        if (field->pool)
                maker_reference(maker, field->class, value->number);
        else if (maker_is_number(field))
                maker_put_number(maker, field->class, field->class == MAKER_FLOAT ? bits : value->number);
        else if (maker->encoding == 2 && value->number) {
                maker_byte(maker, 2);
                maker_long(maker, value->number);
        } else
                maker_text(maker, value->text ? value->text : "");
}

static inline void maker_event(JfrMaker *maker, unsigned type, const MakerValue *values) {
        const MakerClass *class = maker_classes;
        unsigned n;

        while (class->id != type)
                class++;
        n = maker_n_fields(class);
        maker_begin(maker, type);
        for (unsigned i = 0; i < n; i++) {
                unsigned at = maker->reversed ? n - 1 - i : i;

                maker_value(maker, &class->fields[at], &values[at]);
        }
        maker_end(maker);
}

#define MAKER_EVENT(_maker, _type, ...) maker_event((_maker), (_type), (const MakerValue[]){ __VA_ARGS__ })
