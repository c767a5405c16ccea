/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Each look makes an index of its own, so that what has left the lists is gone. A sample is older than the
 * look that names it, and the code at its time was that of the look before it, or of the one behind it:
 *
 *     look 1          sample          look 2
 *     0x1000 f        0x1008          0x1000 f      f
 *     0x1000 f        0x1008          0x1000 g      no name: either may be it
 *     0x1000 f        0x1008          -             f
 *     -               0x1008          0x1000 g      g
 *
 * Looks that find the same are one, which began with the first of them: a sample from between two such has
 * that code, and nothing of what was there before.
 *
 * Where a file has its list is kept for all processes that have the file mapped. A file may take its worker
 * over, and then the worker lies about those behind it. So others believe only what a worker says of the
 * first file that it reads:
 *
 *     process 1      a worker reads java, libjvm, libc     java is known to all, libjvm and libc to process 1
 *     process 2      a worker reads libjvm, libc           libjvm is, too
 *     process 4      known; no worker unless a list or registered frames are to be read
 *
 * A file that could not be read looks as one without a list there, until others have taken its place.
 */
#include "host/naming/listed-code.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/data/intern.h"
#include "core/base/util/array.h"
#include "core/base/util/clock.h"
#include "core/base/util/error.h"
#include "core/symbol/jit/code-wire.h"
#include "host/naming/frame-wire.h"
#include "host/naming/gdb-wire.h"
#include "host/runtime/reader/reader-handle.h"
#include "host/sampling/unwind/tables/tables.h"

/* ---- files ---- */

void listed_files_deinit(ListedFiles *files) {
        for (uint32_t i = 0; i < files->n; i++)
                free(files->items[i].path);
        free(files->items);
        *files = (ListedFiles){ 0 };
}

static ListedFile *find_file(const ListedFiles *files, uint64_t id) {
        for (uint32_t i = 0; i < files->n; i++)
                if (files->items[i].id == id)
                        return &files->items[i];
        return NULL;
}

static int add_file(ListedFiles *files, const Mapping *mapping, uint64_t address) {
        ListedFile *file;
        char *path;
        int r = array_reserve(&files->items, &files->room, files->n + 1u, 32);

        if (r)
                return r;
        path = strdup(mapping->path);
        if (!path)
                return error_origin(-ENOMEM);
        file = &files->items[files->n++];
        *file = (ListedFile){ .id = mapping->object->id,
                              .file = object_file(mapping->object),
                              .start = mapping->start,
                              .end = mapping->end,
                              .bias = mapping->start - address,
                              .path = path };
        return 0;
}

int listed_files_read(ListedFiles *files, const Process *process) {
        int r = 0;

        *files = (ListedFiles){ 0 };
        for (size_t i = 0; i < process->n_mappings && !files->is_cut && !r; i++) {
                const Mapping *mapping = &process->mappings[i];
                const Object *object = mapping->object;
                uint64_t address;

                if (mapping->kind != MAPPING_FILE || !object || !mapping->path ||
                    object_number_is_remote(object->file) || find_file(files, object->id) ||
                    !tables_find_address(object, mapping->offset, &address))
                        continue;
                if (files->n == LISTED_MAX_FILES)
                        files->is_cut = true;
                else
                        r = add_file(files, mapping, address);
        }
        if (r)
                listed_files_deinit(files);
        return r;
}

void listed_known_deinit(ListedKnown *known) {
        hashmap_deinit(&known->files);
}

void listed_known_put(ListedKnown *known, uint64_t id, const ListedSays *says) {
        uint32_t place = known->next % LISTED_MAX_KNOWN;

        if (hashmap_get(&known->files, id) || hashmap_put(&known->files, id, &known->items[place].says))
                return;
        if (known->items[place].id)
                hashmap_remove(&known->files, known->items[place].id);
        known->items[place].id = id;
        known->items[place].says = *says;
        known->next++;
}

void listed_known_apply(const ListedKnown *known, ListedFiles *files) {
        for (uint32_t i = 0; i < files->n; i++) {
                const ListedSays *says = hashmap_get(&known->files, files->items[i].id);

                if (says)
                        files->items[i].says = *says;
        }
}

void listed_code_set_files(ListedCode *code, ListedFiles *files) {
        for (uint32_t i = 0; i < files->n; i++) {
                const ListedFile *known = find_file(&code->files, files->items[i].id);

                if (known && known->says.is_asked)
                        files->items[i].says = known->says;
        }
        listed_files_deinit(&code->files);
        code->files = *files;
        *files = (ListedFiles){ 0 };
}

void listed_code_deinit(ListedCode *code) {
        listed_files_deinit(&code->files);
        code_index_free(code->now.index);
        code_index_free(code->before.index);
        *code = (ListedCode){ 0 };
}

/* ---- a look ---- */

typedef struct Looking {
        int proc_fd;
        WorkerSession *worker;          /* NULL = it is read here */
        ReaderHandle handle;
        ListedResult *result;
        MadeRun *named;                 /* functions in all lists, at most FRAME_REGISTRY_MAX_NAMED */
        uint32_t n_named, named_room;
} Looking;

/* Return: 0, or anything else: there is no answer. */
static int ask_find(const Looking *looking, int fd, const ListedFile *file, GdbAnswer *answer) {
        const GdbRequest request = { .magic = GDB_WIRE_MAGIC,
                                     .kind = GDB_WIRE_FIND,
                                     .value = file->file.size };

        *answer = (GdbAnswer){ 0 };
        if (looking->worker)
                return worker_session_ask(looking->worker, &gdb_wire_question, &request, fd, answer);
        answer->result = gdb_list_find(fd, file->file.size, &answer->address) ? 0 : GDB_LIST_E_NONE;
        return 0;
}

/* The same, for where the file keeps registered frames. */
static int ask_frames(const Looking *looking, int fd, ListedFile *file) {
        const GdbRequest request = { .magic = GDB_WIRE_MAGIC,
                                     .kind = GDB_WIRE_FIND_FRAMES,
                                     .value = file->file.size };
        FrameAnswer answer = { .result = FRAME_VARIABLES_E_NONE };
        DynamicImage image;

        if (looking->worker) {
                int r = worker_session_ask(looking->worker, &frame_wire_question, &request, fd, &answer);

                if (r)
                        return r;
        } else if (dynamic_image_open(&image, fd, NULL, file->file.size)) {
                answer.result = frame_variables_find(&image, &answer.variables);
        }
        file->says.has_frames = !answer.result;
        file->says.refuses_frames = answer.result == FRAME_VARIABLES_E_UNKNOWN;
        file->says.frames = answer.variables;
        return 0;
}

/* Behind its end each question would cost a worker, which is started only to be late. */
static bool has_time(const Looking *looking) {
        return !looking->worker || clock_monotonic_ns() < looking->worker->end_ns;
}

/*
 * A file that cannot be read is not asked again: its reader may have died of it. What it has answered before
 * that counts. Return: 0, or anything else: this look asks no more.
 */
static int ask_file(const Looking *looking, ListedFile *file) {
        _cleanup_(closep) int fd = -1;
        const WorkerSession *worker = looking->worker;
        bool is_first = worker ? worker->socket < 0 : !looking->result->first_id;
        GdbAnswer answer;
        int r;

        if (object_file_open(&file->file, looking->proc_fd, file->start, file->end, file->path, &fd)) {
                fd = -1;
                file->says.is_asked = true;
                return 0;
        }
        r = ask_find(looking, fd, file, &answer);
        if (!r) {
                file->says.has_list = !answer.result;
                file->says.symbol = answer.address;
                r = ask_frames(looking, fd, file);
        }
        file->says.is_asked = r != WORKER_SESSION_E_NONE;
        looking->result->n_failed += r != 0;
        if (!r && is_first) {
                looking->result->first_id = file->id;
                looking->result->first = file->says;
        }
        return r;
}

/* Return: 0 = the answer and its sound records, which the caller frees; 1 = there is none; -ENOMEM. */
static int hear_list(const Looking *looking, const GdbRequest *request, GdbAnswer *answer,
                     uint8_t **recordsp) {
        _cleanup_(freep) uint8_t *records = NULL;
        WorkerSession *worker = looking->worker;

        if (worker_session_request(worker, &gdb_wire_question, request, -1) ||
            reader_handle_send(&looking->handle, worker) ||
            worker_session_hear(worker, &gdb_wire_question, request, answer))
                return 1;
        records = malloc(MAX(answer->size, 1u));
        if (!records)
                return error_origin(-ENOMEM);
        if (worker_session_receive(worker, records, answer->size) ||
            worker_session_judge(worker, code_wire_check_records(records, answer->size, answer->n_records,
                                                                 CODE_FORM_MAP)))
                return 1;
        *recordsp = take(records);
        return 0;
}

/* The same, of a list that is read here. */
static int read_list(Looking *looking, const GdbRequest *request, GdbAnswer *answer, uint8_t **recordsp) {
        const GdbMemory memory = { .read = reader_handle_read, .userdata = &looking->handle };

        return looking->worker ? hear_list(looking, request, answer, recordsp)
                               : gdb_wire_read(&memory, request->value, answer, recordsp);
}

static int take_record(void *userdata, const CodeRecord *record) {
        const CodeRange *range = &record->range;
        Looking *looking = userdata;
        ListedResult *result = looking->result;
        int r = code_index_add(result->look.index, range);

        result->n_functions += !r;
        result->n_over_cap += r > 0;
        if (r || looking->n_named == FRAME_REGISTRY_MAX_NAMED)
                return MIN(r, 0);
        r = array_reserve(&looking->named, &looking->named_room, looking->n_named + 1u, 64);
        if (!r)
                looking->named[looking->n_named++] = (MadeRun){ range->start, range->start + range->size };
        return r;
}

static int take_records(Looking *looking, const GdbAnswer *answer, const uint8_t *records) {
        ListedResult *result = looking->result;
        int r = result->look.index ? 0 : code_index_new(&result->look.index, NULL);

        if (r)
                return error_fold(r);
        result->n_lists++;
        result->n_malformed += answer->counts.n_malformed;
        result->n_over_cap += answer->counts.n_over_cap;
        result->look.hash = result->look.hash * 31 + hash_bytes(records, answer->size);
        return code_wire_records(records, answer->size, take_record, looking);
}

/* Return: whether it could be read, -ENOMEM. */
static int look_at(Looking *looking, const ListedFile *file) {
        const GdbRequest request = { .magic = GDB_WIRE_MAGIC,
                                     .kind = GDB_WIRE_READ,
                                     .value = file->says.symbol + file->bias };
        _cleanup_(freep) uint8_t *records = NULL;
        GdbAnswer answer;
        int r = read_list(looking, &request, &answer, &records);

        if (r) {
                looking->result->n_failed += r > 0;
                return MIN(r, 0);
        }
        if (answer.result == GDB_LIST_E_CHANGED)
                return 0;
        if (!answer.result && answer.counts.n_images)
                r = take_records(looking, &answer, records);
        return r < 0 ? r : 1;
}

/* ---- registered frames ---- */

/* Return: 0 = a sound set, which the caller frees; 1 = there is none; -ENOMEM. */
static int hear_frames(const Looking *looking, const FrameVariables *variables, uint32_t n_named,
                       FrameSet *set) {
        const GdbRequest request = { .magic = GDB_WIRE_MAGIC,
                                     .kind = GDB_WIRE_READ_FRAMES,
                                     .value = n_named };
        WorkerSession *worker = looking->worker;
        FrameAnswer answer;

        if (worker_session_request(worker, &frame_wire_question, &request, -1) ||
            worker_session_send(worker, variables, sizeof(*variables), -1) ||
            (n_named && worker_session_send(worker, looking->named, n_named * sizeof(*looking->named), -1)) ||
            reader_handle_send(&looking->handle, worker) ||
            worker_session_hear(worker, &frame_wire_question, &request, &answer) || answer.result)
                return 1;
        set->data = malloc(MAX(answer.size, 1u));
        if (!set->data)
                return error_origin(-ENOMEM);
        if (worker_session_receive(worker, set->data, answer.size) ||
            worker_session_judge(worker, frame_set_check(set->data, answer.size, answer.n_clusters))) {
                frame_set_deinit(set);
                return 1;
        }
        set->size = answer.size;
        set->n_clusters = answer.n_clusters;
        set->n_functions = answer.n_functions;
        set->n_malformed = answer.n_malformed;
        set->n_over_cap = answer.n_over_cap;
        return 0;
}

static int read_frames(Looking *looking, const ListedFile *file, uint32_t n_named, FrameSet *set) {
        const FrameMemory memory = { .read = reader_handle_read, .userdata = &looking->handle };
        const FrameVariables variables = frame_variables_at(&file->says.frames, file->bias);

        return looking->worker ? hear_frames(looking, &variables, n_named, set)
                               : frame_registry_read(&memory, &variables, looking->named, n_named, set);
}

/* Return: 0, also if they were just being changed; -ENOMEM. */
static int look_at_frames(const ListedCode *code, Looking *looking) {
        ListedResult *result = looking->result;
        MadeSet *made = made_set_new(result->look.begun_ns);
        uint32_t n_libraries = 0, n_named;
        int r = made ? 0 : error_origin(-ENOMEM);

        for (uint32_t i = 0; i < code->files.n; i++)
                n_libraries += code->files.items[i].says.has_frames;
        /* libraries, where there are several, do not tell which one has a function registered */
        n_named = n_libraries == 1 ? looking->n_named : 0;
        for (uint32_t i = 0; i < code->files.n && !r; i++) {
                const ListedFile *file = &code->files.items[i];
                FrameSet set = { 0 };

                result->has_frames = result->has_frames || file->says.has_frames;
                result->refuses_frames = result->refuses_frames || file->says.refuses_frames;
                if (!file->says.has_frames)
                        continue;
                r = has_time(looking) ? read_frames(looking, file, n_named, &set) : 1;
                if (!r)
                        r = made_set_add(made, &set);
                frame_set_deinit(&set);
        }
        if (r || !result->has_frames)
                made = made_set_free(made);
        result->made = made;
        return r == -ENOMEM ? r : 0;
}

/* Return: as listed_code_look(). */
static int look_at_lists(const ListedCode *code, Looking *looking) {
        int r = 1;

        for (uint32_t i = 0; i < code->files.n && r > 0; i++)
                if (code->files.items[i].says.has_list)
                        r = has_time(looking) ? look_at(looking, &code->files.items[i]) : 0;
        return r;
}

/*
 * Lists may be long, or cost their workers all the time that is left: a part of it stays for registered
 * frames. Return: the same.
 */
static int look_in_part(const ListedCode *code, Looking *looking) {
        uint64_t end_ns = looking->worker ? looking->worker->end_ns : 0, now_ns = clock_monotonic_ns();
        int r;

        if (now_ns < end_ns)
                looking->worker->end_ns = now_ns + (end_ns - now_ns) / 4 * 3;
        r = look_at_lists(code, looking);
        if (looking->worker)
                looking->worker->end_ns = end_ns;
        return r;
}

/*
 * Looks at files. One of them may cost its worker; the next look goes on behind it. Processes begin with
 * different ones, so a crowd that starts together makes many known. Return: as listed_code_look().
 */
static int look_at_all(ListedCode *code, Looking *looking, uint32_t begin) {
        int r;

        for (uint32_t i = 0; i < code->files.n; i++) {
                ListedFile *file = &code->files.items[(begin + i) % code->files.n];

                if (!file->says.is_asked && (!has_time(looking) || ask_file(looking, file)))
                        return 0;
        }
        r = look_in_part(code, looking);
        if (r >= 0 && look_at_frames(code, looking))
                r = error_fold(-ENOMEM);
        return r;
}

int listed_code_look(ListedCode *code, int proc_fd, pid_t pid, uint64_t start_time_ns,
                     WorkerSession *worker, ListedResult *result) {
        Looking looking = { .proc_fd = proc_fd, .worker = worker, .result = result };
        int r;

        *result = (ListedResult){ .look.begun_ns = clock_monotonic_ns() };
        if (!reader_handle_open(&looking.handle, pid, start_time_ns))
                return 0;
        r = look_at_all(code, &looking, (uint32_t)pid);
        reader_handle_close(&looking.handle);
        free(looking.named);
        if (r <= 0)
                result->look.index = code_index_free(result->look.index);
        return r;
}

bool listed_code_take(ListedCode *code, ListedLook *look) {
        if (look->hash == code->now.hash) {
                code_index_free(take(look->index));
                return false;
        }
        code_index_free(code->before.index);
        code->before = code->now;
        code->now = *look;
        *look = (ListedLook){ 0 };
        return true;
}

/* ---- asking ---- */

static const char *find_in(const ListedLook *look, uint64_t address, size_t *sizep, uint64_t *startp) {
        bool is_past;

        return look->index ? code_index_find(look->index, address, 0, sizep, startp, &is_past) : NULL;
}

const char *listed_code_find(const ListedCode *code, uint64_t address, uint64_t time_ns, size_t *sizep,
                             uint64_t *startp, bool *is_pastp) {
        uint64_t start = 0, start_before = 0;
        size_t size = 0, size_before = 0;
        const char *name = find_in(&code->now, address, &size, &start), *before = NULL;

        *is_pastp = false;
        if (time_ns && time_ns < code->now.begun_ns)
                before = find_in(&code->before, address, &size_before, &start_before);
        if (name && before &&
            (start != start_before || size != size_before || memcmp(name, before, size) != 0))
                return NULL;
        *is_pastp = !name && before;
        *sizep = name ? size : size_before;
        *startp = name ? start : start_before;
        return name ?: before;
}

size_t listed_code_memory(const ListedCode *code) {
        return (code->now.index ? code_index_memory(code->now.index) : 0) +
                (code->before.index ? code_index_memory(code->before.index) : 0);
}
