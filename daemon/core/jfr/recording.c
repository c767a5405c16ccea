/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Events about the recording: whose it is, its settings, its libraries.
 *
 * Only the types of the list below are looked into, and of them only the fields named here. Environment
 * variables, system properties and lists of processes stand in events of other types: nothing here reads
 * them. Command lines may hold secrets too: of them only the service's name is taken, unless they were asked
 * for.
 */

#include "core/jfr/recording.h"

#include <errno.h>
#include <stdlib.h>

#include "core/base/util/array.h"
#include "core/base/util/error.h"
#include "core/base/util/macro.h"
#include "core/jfr/profiles.h"

enum { ABOUT_NONE, ABOUT_JVM, ABOUT_OS, ABOUT_CPU, ABOUT_SETTING, ABOUT_LIBRARY, ABOUT_LOST };

/* events that are looked at for the JVM's before the samples are read */
enum { JVM_WITHIN = 10000 };

typedef struct Wanted {
        const char *name;
        uint64_t number;
        Text *text;                     /* for texts; NULL = a number is wanted */
} Wanted;

uint32_t jfr_recording_kind(const char *class_name) {
        static const char *const names[] = {
                [ABOUT_JVM] = "jdk.JVMInformation",    [ABOUT_OS] = "jdk.OSInformation",
                [ABOUT_CPU] = "jdk.CPUInformation",    [ABOUT_SETTING] = "jdk.ActiveSetting",
                [ABOUT_LIBRARY] = "jdk.NativeLibrary", [ABOUT_LOST] = "jdk.CPUTimeSamplesLost"
        };

        for (uint32_t i = 1; i < ARRAY_SIZE(names); i++)
                if (!strcmp(names[i], class_name))
                        return i;
        return ABOUT_NONE;
}

static int read_wanted(JfrReader *reader, const JfrField *field, JfrCursor *cursor, Wanted *wanted) {
        const JfrClass *number = jfr_number_class(field);
        uint64_t index;
        int r;

        if (wanted->text && field->class) {
                r = jfr_pools_take(&reader->current.pools, cursor, field, &index);
                wanted->text->size = 0;
                return r ? r : jfr_names_append(&reader->names, field->class, index, wanted->text);
        }
        if (!wanted->text && number && jfr_is_integer(number))
                wanted->number = jfr_pools_number(&reader->current.pools, cursor, field);
        else
                jfr_skip_field(cursor, field);
        return 0;
}

/* Return: whether the event could be read. */
static bool read_fields(JfrReader *reader, const JfrClass *class, const JfrEvent *event, Wanted *wanted,
                        size_t n) {
        JfrCursor cursor = { event->data, event->data + event->data_size, reader->current.chunk->compressed,
                             false };

        if (!event->data || class->broken || class->kind != JFR_STRUCT)
                return false;
        for (uint32_t i = 0; i < class->n_fields && !cursor.failed; i++) {
                const JfrField *field = &class->fields[i];
                size_t j = 0;

                while (j < n && (field->array || strcmp(wanted[j].name, field->name)))
                        j++;
                if (j == n)
                        jfr_skip_field(&cursor, field);
                else if (read_wanted(reader, field, &cursor, &wanted[j]))
                        return false;
        }
        return !cursor.failed;
}

static int read_jvm(JfrReader *reader, const JfrClass *class, const JfrEvent *event) {
        JfrRecording *about = &reader->about;
        Wanted wanted[] = { { "jvmName", 0, &about->jvm_name },
                            { "jvmVersion", 0, &about->jvm_version },
                            { "jvmArguments", 0, &about->jvm_arguments },
                            { "javaArguments", 0, &about->java_arguments },
                            { "pid", 0, NULL },
                            { "jvmStartTime", 0, NULL } };

        if (!read_fields(reader, class, event, wanted, ARRAY_SIZE(wanted)))
                return 0;
        about->has_jvm = true;
        about->pid = (int64_t)wanted[4].number;
        about->jvm_start = wanted[5].number;
        return 0;
}

static int read_setting(JfrReader *reader, const JfrClass *class, const JfrEvent *event) {
        Text name = { 0 }, value = { 0 };
        Wanted wanted[] = { { "id", 0, NULL }, { "name", 0, &name }, { "value", 0, &value } };
        int r = 0;

        if (read_fields(reader, class, event, wanted, ARRAY_SIZE(wanted)) && name.data && value.data) {
                const JfrClass *about = jfr_class(&reader->current.metadata, wanted[0].number);

                r = jfr_profile_setting(reader, about ? reader->current.states[about->number].plan : NULL,
                                        name.data, value.data);
        }
        text_deinit(&name);
        text_deinit(&value);
        return jfr_full(r);
}

static int add_library(JfrReader *reader, const Text *build_id, const Text *path) {
        JfrLibrary library = { 0 };
        char hex[128];
        int r;

        if (!build_id->size || build_id->size > sizeof(hex) || !path->size)
                return 0;
        for (size_t i = 0; i < build_id->size; i++)
                hex[i] = (char)(build_id->data[i] >= 'A' && build_id->data[i] <= 'F' ? build_id->data[i] + 32
                                                                                     : build_id->data[i]);
        r = window_string(reader->window, hex, build_id->size, &library.build_id);
        if (!r)
                r = window_string(reader->window, path->data, path->size, &library.path);
        if (r)
                return jfr_full(r);
        for (uint32_t i = 0; i < reader->n_libraries; i++)
                if (reader->libraries[i].build_id == library.build_id)
                        return 0;
        r = array_reserve(&reader->libraries, &reader->libraries_size, reader->n_libraries + 1u, 64);
        if (r)
                return r;
        reader->libraries[reader->n_libraries++] = library;
        reader->names.libraries = reader->libraries;
        reader->names.n_libraries = reader->n_libraries;
        return 0;
}

static int read_library(JfrReader *reader, const JfrClass *class, const JfrEvent *event) {
        Text build_id = { 0 }, path = { 0 };
        Wanted wanted[] = { { "name", 0, &path }, { "buildId", 0, &build_id } };
        int r = 0;

        if (read_fields(reader, class, event, wanted, ARRAY_SIZE(wanted)))
                r = add_library(reader, &build_id, &path);
        text_deinit(&build_id);
        text_deinit(&path);
        return r;
}

/* The JVM's own queue of samples was full. */
static int read_lost(JfrReader *reader, const JfrClass *class, const JfrEvent *event) {
        Wanted wanted[] = { { "lostSamples", 0, NULL } };

        if (read_fields(reader, class, event, wanted, ARRAY_SIZE(wanted)))
                reader->result->n_lost += (uint32_t)wanted[0].number;
        return 0;
}

int jfr_recording_event(JfrReader *reader, const JfrClassState *state, const JfrClass *class,
                        const JfrEvent *event) {
        Wanted os = { "osVersion", 0, &reader->about.os }, cpu = { "cpu", 0, &reader->about.cpu };

        switch (state->about) {
        case ABOUT_JVM:
                return read_jvm(reader, class, event);
        case ABOUT_OS:
                read_fields(reader, class, event, &os, 1);
                return 0;
        case ABOUT_CPU:
                read_fields(reader, class, event, &cpu, 1);
                return 0;
        case ABOUT_SETTING:
                return read_setting(reader, class, event);
        case ABOUT_LIBRARY:
                return read_library(reader, class, event);
        case ABOUT_LOST:
                return read_lost(reader, class, event);
        default:
                return 0;
        }
}

/*
 * Looks through the chunk for the JVM's event (profilers and the JDK write it first; the first is enough),
 * and for libraries if frames may need them.
 */
static int look_for(JfrReader *reader, bool jvm, bool libraries) {
        JfrScan scan;
        JfrEvent event;
        int r = jfr_scan_init(&scan, reader->input, reader->current.chunk);

        for (uint32_t n = 0; !r && (libraries || (jvm && n < JVM_WITHIN)); n++) {
                const JfrClass *class;
                uint32_t kind;

                r = jfr_scan_next(&scan, &event);
                class = r ? NULL : jfr_class(&reader->current.metadata, event.type);
                kind = class ? reader->current.states[class->number].about : ABOUT_NONE;
                if ((kind != ABOUT_JVM || !jvm) && (kind != ABOUT_LIBRARY || !libraries))
                        continue;
                r = jfr_recording_event(reader, &reader->current.states[class->number], class, &event);
                if (r)
                        break;
                jvm &= !reader->about.has_jvm;
        }
        jfr_scan_deinit(&scan);
        return r < 0 ? r : 0;
}

/* Whether there is any method that was left for a symbol service to name. */
static bool has_remote_frames(const JfrReader *reader) {
        static const char name[] = "<remote>";

        for (const JfrPool *pool = reader->current.pools.pools, *end = pool + reader->current.pools.n_pools;
             pool < end; pool++)
                for (uint32_t i = 0; i < pool->n_slots; i++)
                        if (pool->slots[i].data &&
                            memmem(pool->slots[i].data, pool->slots[i].size, name, sizeof(name) - 1))
                                return true;
        return false;
}

/* Finds the resource of the process: all recordings that it wrote are one. */
static int find_resource(JfrReader *reader) {
        const JfrRecording *about = &reader->about;
        uint64_t key[3] = { reader->options->key, 0, 0 };

        if (about->has_jvm) {
                key[0] = UINT64_MAX;
                key[1] = (uint64_t)about->pid;
                key[2] = about->jvm_start;
        }
        return jfr_full(window_resource(reader->window, hash_bytes(key, sizeof(key)), &reader->resource));
}

int jfr_recording_prepare(JfrReader *reader) {
        const JfrClass *library = jfr_class_named(&reader->current.metadata, "jdk.NativeLibrary");
        bool libraries = library && jfr_field(library, "buildId") && has_remote_frames(reader);
        bool jvm = !reader->resource && jfr_class_named(&reader->current.metadata, "jdk.JVMInformation");
        int r = libraries || jvm ? look_for(reader, jvm, libraries) : 0;

        if (!r && !reader->resource)
                r = find_resource(reader);
        return r;
}

typedef struct Attributes {
        Window *window;
        uint32_t set[16];
        size_t n;
        int r;
} Attributes;

static void add_text(Attributes *attributes, const char *key, const char *text, size_t size) {
        if (size && !attributes->r)
                attributes->r = window_attribute_string(attributes->window, key, text, size,
                                                        &attributes->set[attributes->n++]);
}

static void add_number(Attributes *attributes, const char *key, int64_t number) {
        if (number && !attributes->r)
                attributes->r = window_attribute_int(attributes->window, key, number,
                                                     &attributes->set[attributes->n++]);
}

/* The value of an option like -Dotel.service.name=shop. */
static size_t find_option(const Text *arguments, const char *option, const char **valuep) {
        const char *at = arguments->data;
        size_t length = strlen(option);

        while (at && (at = strstr(at, option))) {
                if (at == arguments->data || at[-1] == ' ') {
                        *valuep = at + length;
                        return strcspn(at + length, " ");
                }
                at += length;
        }
        return 0;
}

static void add_service(Attributes *attributes, const JfrRecording *about) {
        const char *name = "unknown_service:java";
        size_t size = find_option(&about->jvm_arguments, "-Dotel.service.name=", &name);

        if (!size)
                size = find_option(&about->jvm_arguments, "-Ddd.service=", &name);
        add_text(attributes, "service.name", name, size ? size : strlen(name));
}

/* Says that the command line is more than one text: `java JVM-ARGUMENTS MAIN-CLASS ARGUMENTS`. */
static void add_command(Attributes *attributes, const JfrRecording *about) {
        Text line = { 0 };

        text_append(&line, "java", 4);
        if (about->jvm_arguments.size)
                text_printf(&line, " %s", about->jvm_arguments.data);
        if (about->java_arguments.size)
                text_printf(&line, " %s", about->java_arguments.data);
        if (line.failed)
                attributes->r = error_origin(-ENOMEM);
        else if (about->jvm_arguments.size || about->java_arguments.size)
                add_text(attributes, "process.command_line", line.data, line.size);
        text_deinit(&line);
}

/*
 * `PRETTY_NAME="Debian …"` of the JDK's lines, or the first line of what async-profiler writes (`uname: …`).
 */
static void add_os(Attributes *attributes, const Text *os) {
        const char *text = os->data, *begin, *end;

        if (!os->size)
                return;
        begin = strstr(text, "PRETTY_NAME=\"");
        begin = begin ? begin + strlen("PRETTY_NAME=\"") : !strncmp(text, "uname: ", 7) ? text + 7 : text;
        end = begin + strcspn(begin, begin > text + 7 ? "\"\n" : "\n");
        add_text(attributes, "os.description", begin, (size_t)(end - begin));
}

/* `OpenJDK 64-Bit Server VM (17.0.15+6) for linux-amd64 …` → 17.0.15+6, and all of it as the description. */
static void add_version(Attributes *attributes, const Text *version) {
        const char *open = version->size ? strchr(version->data, '(') : NULL;
        size_t size = open ? strcspn(open + 1, ")") : 0;

        if (size) {
                add_text(attributes, "process.runtime.version", open + 1, size);
                add_text(attributes, "process.runtime.description", version->data, version->size);
        } else
                add_text(attributes, "process.runtime.version", version->data, version->size);
}

int jfr_recording_finish(JfrReader *reader) {
        const JfrRecording *about = &reader->about;
        Attributes attributes = { .window = reader->window };

        if (!reader->resource)
                return 0;
        add_service(&attributes, about);
        add_number(&attributes, "process.pid", about->pid);
        add_text(&attributes, "process.runtime.name", about->jvm_name.data, about->jvm_name.size);
        add_version(&attributes, &about->jvm_version);
        add_os(&attributes, &about->os);
        add_text(&attributes, "host.cpu.model.name", about->cpu.data, about->cpu.size);
        if (reader->options->arguments)
                add_command(&attributes, about);
        if (!attributes.r)
                attributes.r = window_resource_attributes(reader->window, reader->resource, attributes.set,
                                                          attributes.n);
        if (!attributes.r)
                attributes.r = jfr_profiles_finish(reader);
        return jfr_full(attributes.r);
}
