/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The worker looks until a look is of one moment, and rests for a millisecond in between. A collection takes
 * longer than a look, so the second or third one does, mostly.
 */
#include "host/runtime/go/go-heap-wire.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/sandbox/channel.h"
#include "core/base/util/clock.h"
#include "core/base/util/error.h"
#include "host/runtime/go/go-layout.h"
#include "host/runtime/go/go-runtime.h"
#include "host/runtime/reader/reader-text.h"
#include "host/sampling/runtime/runtimes.h"

enum {
        KIND = 1,
        MAX_LOOKS = 500,
        MAX_DAMAGED = 5,                /* looks in a row that meet what is none of Go's */
        REST_MS = 1,
        MAX_TABLE = 64 << 20,           /* bytes of .gopclntab, and of trees of inlined calls */
};

#define MAX_LOOKING_NS (5 * NS_PER_SEC)
#define TIMEOUT_NS (30 * NS_PER_SEC)

bool go_heap_said_check(const GoHeapSaid *said) {
        static const GoHeapSizes none = { 0 };

        if (said->magic != GO_HEAP_WIRE_MAGIC || said->kind != KIND || said->result < 0 ||
            said->result >= GO_HEAP_SAID_N || said->is_early > 1)
                return false;
        return said->result ? !memcmp(&said->sizes, &none, sizeof(none))
                            : said->rate > 0 && go_heap_sizes_check(&said->sizes);
}

static bool is_said(const void *answer, const void *request) {
        return go_heap_said_check(answer);
}

const WorkerQuestion go_heap_question = {
        .magic = GO_HEAP_WIRE_MAGIC,
        .request_size = sizeof(ReaderRequest),
        .answer_size = sizeof(GoHeapSaid),
        .needs_file = true,
        .timeout_ns = TIMEOUT_NS,
        .is_sound = is_said,
};

const char *go_heap_text(int result) {
        static const char *const texts[GO_HEAP_SAID_N] = {
                [GO_HEAP_E_MOVING] = "Go changed the profile during every look; try again",
                [GO_HEAP_E_UNREADABLE] = "a part of the profile is not in memory",
                [GO_HEAP_E_DAMAGED] = "what lies in its place is no heap profile of this release",
                [GO_HEAP_E_MANY] = "the profile has more stacks than are read",
                [GO_HEAP_E_OFF] = "the program has set runtime.MemProfileRate to 0: it samples no allocations",
                [GO_HEAP_SAID_FILE] = ("its file is no whole program of Go, was changed, or has a table of "
                                       "functions (.gopclntab) of more than 64 MiB"),
                [GO_HEAP_SAID_VERSION] = "the layout of this release is not known",
                [GO_HEAP_SAID_PLACES] = "its code does not say where the profile is",
                [GO_HEAP_SAID_UNUSED] = ("nothing in the program reads a heap profile, so Go's linker has switched it "
                                         "off: an import of net/http/pprof, or a call of pprof.WriteHeapProfile, "
                                         "switches it on"),
        };

        return result > 0 && result < GO_HEAP_SAID_N ? texts[result] : "";
}

/* ---- who asks ---- */

void go_heap_answer_deinit(GoHeapAnswer *answer) {
        go_heap_profile_deinit(&answer->profile);
        *answer = (GoHeapAnswer){ 0 };
}

/* Arrays of a profile, in the order in which they are sent. */
#define EACH_ARRAY(_profile, _call) \
        (_call((_profile)->samples, (_profile)->n.n_samples) \
                 ?: _call((_profile)->stacks, (_profile)->n.n_stacks) \
                 ?: _call((_profile)->places, (_profile)->n.n_places) \
                 ?: _call((_profile)->frames, (_profile)->n.n_frames) \
                 ?: _call((_profile)->text, (_profile)->n.n_text))

/* Return: 0, WORKER_SESSION_E_*, -ENOMEM. */
static int receive(WorkerSession *worker, void **datap, size_t n, size_t size) {
        *datap = calloc(n + 1, size);
        if (!*datap)
                return error_origin(-ENOMEM);
        return n ? worker_session_receive(worker, *datap, n * size) : 0;
}

static int receive_profile(WorkerSession *worker, GoHeapProfile *profile) {
#define RECEIVE(_array, _n) receive(worker, (void **)&(_array), (_n), sizeof(*(_array)))
        int r = EACH_ARRAY(profile, RECEIVE);
#undef RECEIVE

        return r ?: worker_session_judge(worker, go_heap_profile_check(profile));
}

static int converse(WorkerSession *worker, const ReaderRequest *request, int fd, const ReaderHandle *handle,
                    GoHeapAnswer *answer) {
        int r = worker_session_request(worker, &go_heap_question, request, fd);

        r = r ?: reader_handle_send(handle, worker);
        r = r ?: worker_session_hear(worker, &go_heap_question, NULL, &answer->said);
        if (r)
                return r;
        reader_text_repair(answer->said.version, sizeof(answer->said.version));
        answer->profile.n = answer->said.sizes;
        return answer->said.result ? 0 : receive_profile(worker, &answer->profile);
}

static int keep(RuntimeSubject *subject, void **statep, void *entry, char text[RUNTIMES_MAX_TEXT]) {
        GoHeapSubject *found = subject->userdata;

        found->fd = subject->fd;
        found->size = subject->size;
        found->bias = subject->bias;
        found->object = subject->object;
        subject->fd = -1;
        return RUNTIME_E_UNKNOWN;
}

/* The file, as runtimes_describe() finds it. Return: 0, -ENOMEM. */
static int find_program(const Process *process, GoHeapSubject *found) {
        _cleanup_(runtimes_freep) Runtimes *runtimes = NULL;
        RuntimeDescription description;
        RuntimeOps ops = go_runtime;
        int r = runtimes_new(&runtimes, NULL, NULL);

        ops.attach = keep;
        ops.detach = NULL;
        if (!r)
                r = runtimes_register(runtimes, &ops, -1, found);
        return r ? error_fold(r) : error_fold(runtimes_describe(runtimes, process, &description));
}

const Mapping *go_heap_subject_mapping(const GoHeapSubject *subject, const Process *process) {
        for (size_t i = 0; i < process->n_mappings; i++)
                if (process->mappings[i].object && process->mappings[i].object->id == subject->object)
                        return &process->mappings[i];
        return NULL;
}

void go_heap_subject_close(GoHeapSubject *subject) {
        closep(&subject->fd);
        subject->fd = -1;
        reader_handle_close(&subject->handle);
}

int go_heap_subject_open(GoHeapSubject *subject, const Process *process) {
        GoHeapSubject found = { .fd = -1, .handle = { -1, -1 } };
        int r = find_program(process, &found);

        if (!r && found.fd < 0)
                r = GO_HEAP_ASK_E_NONE;
        if (!r && !reader_handle_open(&found.handle, (pid_t)process->pid, process->start_time_ns))
                r = GO_HEAP_ASK_E_DENIED;
        if (r) {
                go_heap_subject_close(&found);
                return r < 0 ? error_fold(r) : r;
        }
        *subject = found;
        return 0;
}

int go_heap_subject_ask(const GoHeapSubject *subject, Zygotes *zygotes, GoHeapAnswer *answer,
                        WorkerSessionCounts *counts, uint64_t *cpu_nsp) {
        const ReaderRequest request = { .magic = GO_HEAP_WIRE_MAGIC, .size = subject->size,
                                        .bias = subject->bias };
        WorkerSession worker = worker_session_make(zygotes, &go_heap_question, counts);
        uint64_t begin_ns = clock_monotonic_ns();
        GoHeapAnswer new = { 0 };
        int r = converse(&worker, &request, subject->fd, &subject->handle, &new);

        *cpu_nsp = zygotes_worker_cpu_ns(zygotes, worker.serial) ?: clock_monotonic_ns() - begin_ns;
        worker_session_end(&worker);
        if (r) {
                go_heap_answer_deinit(&new);
                return r > 0 ? GO_HEAP_ASK_E_WORKER : error_fold(r);
        }
        *answer = new;
        return 0;
}

int go_heap_ask(Zygotes *zygotes, const Process *process, GoHeapAnswer *answer, const Mapping **mappingp) {
        WorkerSessionCounts counts = { 0 };
        GoHeapSubject subject;
        uint64_t cpu_ns;
        int r = go_heap_subject_open(&subject, process);

        if (r)
                return r < 0 ? error_fold(r) : r;
        r = go_heap_subject_ask(&subject, zygotes, answer, &counts, &cpu_ns);
        if (!r)
                *mappingp = go_heap_subject_mapping(&subject, process);
        go_heap_subject_close(&subject);
        worker_session_count(&counts);
        return r < 0 ? error_fold(r) : r;
}

/* ---- the worker ---- */

static int read_memory(void *userdata, uint64_t address, void *to, uint32_t size) {
        return !reader_handle_read(userdata, address, to, size);
}

/* Return: 0, GO_HEAP_E_*, -ENOMEM. */
static int look_until_still(GoHeap *heap, GoHeapLook *look) {
        uint64_t end_ns = clock_monotonic_ns() + MAX_LOOKING_NS;
        unsigned n = 0, n_damaged = 0;

        for (;;) {
                int r = go_heap_look(heap, look);

                n_damaged = r == GO_HEAP_E_DAMAGED ? n_damaged + 1 : 0;
                if (++n >= MAX_LOOKS || clock_monotonic_ns() >= end_ns || n_damaged >= MAX_DAMAGED ||
                    (r != GO_HEAP_E_MOVING && r != GO_HEAP_E_DAMAGED))
                        return r;
                poll(NULL, 0, REST_MS);
        }
}

static bool has_function(const GoTable *table, const char *name) {
        for (uint32_t i = 0; i < table->n; i++) {
                GoFunction function;

                if (go_table_function(table, i, &function) && go_function_has_name(&function, name))
                        return true;
        }
        return false;
}

static int read_heap(const ReaderRequest *request, ReaderHandle *handle, const ElfImage *image,
                     const GoLines *lines, uint32_t minor, GoHeapSaid *said, GoHeapProfile *profile) {
        const GoMemory memory = { read_memory, handle };
        GoHeapPlaces places;
        GoHeapLook look = { 0 };
        GoHeap heap;
        int r;

        if (!go_heap_find(image, &lines->functions, minor, &places))
                return GO_HEAP_SAID_PLACES;
        places.cycle += request->bias;
        places.lock += request->bias;
        places.buckets += request->bias;
        places.rate += request->bias;
        r = go_heap_init(&heap, &places, minor, &memory);
        if (!r)
                r = look_until_still(&heap, &look);
        if (!r)
                r = go_heap_profile_make(profile, &heap, lines, request->bias);
        if (r == GO_HEAP_E_OFF && !has_function(&lines->functions.table, "runtime.MemProfile") &&
            !has_function(&lines->functions.table, "runtime.memProfileInternal"))
                r = GO_HEAP_SAID_UNUSED;
        said->rate = look.rate;
        said->cycle = look.cycle;
        said->is_early = look.is_early;
        go_heap_deinit(&heap);
        return r;
}

static int read_image(int fd, const ReaderRequest *request, ReaderHandle *handle, uint32_t minor,
                      GoHeapSaid *said, GoHeapProfile *profile) {
        ElfImage image;
        GoLines lines;
        int r;

        if (elf_image_init(&image, fd, 0, request->size))
                return GO_HEAP_SAID_FILE;
        r = go_lines_init(&lines, &image, MAX_TABLE, false);
        if (!r) {
                r = read_heap(request, handle, &image, &lines, minor, said, profile);
                go_lines_deinit(&lines);
        } else if (r > 0) {
                r = GO_HEAP_SAID_FILE;
        }
        elf_image_deinit(&image);
        return r;
}

static int read_program(int fd, const ReaderRequest *request, ReaderHandle *handle, GoHeapSaid *said,
                        GoHeapProfile *profile) {
        GoProgram program;

        if (!go_program_read(&(GoInput){ .fd = fd, .size = request->size }, &program))
                return GO_HEAP_SAID_FILE;
        memcpy(said->version, program.version, sizeof(said->version));
        if (program.minor < GO_FIRST_MINOR || program.minor > GO_LAST_MINOR)
                return GO_HEAP_SAID_VERSION;
        return read_image(fd, request, handle, program.minor, said, profile);
}

void go_heap_serve(int socket, int fd, const ReaderRequest *request) {
        GoHeapSaid said = { .magic = GO_HEAP_WIRE_MAGIC, .kind = KIND };
        GoHeapProfile profile = { 0 };
        ReaderHandle handle;
        int r;

        if (!reader_handle_receive(&handle, socket))
                return;
        r = read_program(fd, request, &handle, &said, &profile);
        if (r < 0)
                return;
        said.result = r;
        said.sizes = profile.n;
        r = channel_send(socket, &said, sizeof(said), -1);
#define SEND(_array, _n) ((_n) ? channel_send(socket, (_array), (_n) * sizeof(*(_array)), -1) : 0)
        if (!r && !said.result)
                r = EACH_ARRAY(&profile, SEND);
#undef SEND
        go_heap_profile_deinit(&profile);
}
