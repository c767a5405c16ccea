/* SPDX-License-Identifier: Apache-2.0 */

/*
 * From pc to address, with numbers of a real libc (readelf -l, /proc/PID/maps):
 *
 *     maps     7f4496733000-7f4496889000 r-xp 00026000 … libc.so.6
 *     PT_LOAD  Offset 0x026000  VirtAddr 0x026000  FileSiz 0x155fc5  R E
 *     pc       7f44967f0b37 → offset in file = pc - 7f4496733000 + 26000 = e3b37
 *              → address   = e3b37 - 26000 + 26000               = e3b37
 *
 * Offset and VirtAddr happen to be equal there; in an ET_EXEC, or an object that lld or gold has linked,
 * they are not, which is why the way goes through the file offset and not through "pc - image base".
 *
 * A sample is older than what is known of its process by now, so each pc is resolved by the mappings of the
 * sample's time (process_resolve()). The cache of stacks holds what is true of the present; it is asked for
 * times only at which the present was already in force.
 */
#include "host/sampling/frames/frames.h"

#include <errno.h>
#include <string.h>

#include "core/base/data/hashmap.h"
#include "core/base/data/intern.h"
#include "core/base/util/array.h"
#include "core/base/util/error.h"
#include "core/base/util/stat.h"
#include "host/sampling/frames/goexit.h"
#include "host/sampling/frames/made-frame.h"
#include "host/sampling/runtime/runtimes.h"

enum {
        MAX_STACKS = 8192,              /* in the cache; later stacks take the long way */
        MAX_STACK_BYTES = 1 << 20,
        MAX_WORDS = ABI_MAX_KERNEL_FRAMES + ABI_MAX_USER_WORDS,
        /* frames of a stack: one of a runtime may be several functions */
        MAX_FRAMES = ABI_MAX_KERNEL_FRAMES + 4 * ABI_MAX_FRAMES,
        ROOT_SIZE = 64,                 /* _start and its like are 30–50 bytes */
};

/* A sample's addresses as the key of the cache. */
typedef struct StackKey {
        uint64_t generation, maps_serial, code_serial;
        uint32_t n_kernel, n_user;
        uint64_t addresses[MAX_WORDS];
} StackKey;

/* Counters of frames. Each sample counts all of its own, also where its stack is known. */
static const enum counter frame_counters[] = {
        COUNTER_FRAMES_NATIVE,          COUNTER_FRAMES_KERNEL,          COUNTER_FRAMES_VDSO,
        COUNTER_FRAMES_KERNEL_HIDDEN,   COUNTER_FRAMES_ANONYMOUS,       COUNTER_FRAMES_UNREADABLE,
        COUNTER_FRAMES_UNMAPPED,        COUNTER_FRAMES_RUNTIME,         COUNTER_FRAMES_OUTSIDE_MODULE,
};

typedef struct CachedStack {
        uint32_t stack;                 /* index in the window */
        uint32_t is_root;               /* the last user frame is one */
        uint32_t is_unproved;           /* the stack ends at a frame that may be another function's */
        enum counter nameless;          /* as frames_nameless() */
        uint16_t n_frames[ARRAY_SIZE(frame_counters)];  /* counts of one sample of it */
} CachedStack;

/* Module of the frame before, in the same stack: no mapping goes away while a stack is made. */
typedef struct LastModule {
        const Mapping *mapping;         /* NULL = there was none */
        uint32_t segment, index;
} LastModule;

struct Frames {
        Kernel *kernel;                 /* loaded at the first kernel frame */
        FramesRefresh refresh;
        void *userdata;
        FramesNaming naming;
        struct {
                FramesSampled tell;     /* NULL = nothing asks */
                void *userdata;
                const Process *process; /* process of the stack that is being made */
        } sampled;
        /* the stack that is being made: it may be another one for the next sample */
        bool is_preliminary;
        bool is_late;                   /* a name of its runtime may be known in a moment */
        bool is_unmade;                 /* the stack waits for that, or for where its code begins */
        enum counter nameless;          /* as frames_nameless(), of the stack that is made, or was last */
        uint64_t window_serial;         /* the window that `modules` and the cache are for */
        Intern keys;
        CachedStack *stacks;            /* by index of the key */
        uint32_t stacks_size;
        StackKey key;                   /* scratch */
        FrameWord words[MAX_FRAMES];    /* scratch */
        FileFrame files[MAX_FRAMES];    /* scratch: those of the stack in files, for `naming` */
        size_t n_files;
        /* scratch: of the user frames, by their first word; those of runtimes have none */
        ProcessAnswer answers[ABI_MAX_USER_WORDS];
        Runtimes *runtimes;             /* borrowed; NULL = none are known */
        MadeFrames made;
        Hashmap modules;                /* module_key() → index in the window + 1 */
        LastModule last;
};

int frames_new(Frames **framesp) {
        Frames *frames = calloc(1, sizeof(*frames));

        if (!frames)
                return error_origin(-ENOMEM);
        intern_init(&frames->keys, MAX_STACKS);
        *framesp = frames;
        return 0;
}

Frames *frames_free(Frames *frames) {
        if (!frames)
                return NULL;
        kernel_free(frames->kernel);
        hashmap_deinit(&frames->modules);
        intern_deinit(&frames->keys);
        free(frames->stacks);
        free(frames);
        return NULL;
}

void frames_set_refresh(Frames *frames, FramesRefresh refresh, void *userdata) {
        frames->refresh = refresh;
        frames->userdata = userdata;
}

void frames_set_sampled(Frames *frames, FramesSampled sampled, void *userdata) {
        frames->sampled.tell = sampled;
        frames->sampled.userdata = userdata;
}

void frames_set_naming(Frames *frames, const FramesNaming *naming) {
        frames->naming = *naming;
}

void frames_set_runtimes(Frames *frames, Runtimes *runtimes) {
        frames->runtimes = runtimes;
}

const char *frames_task_name(Frames *frames, const Process *process, const uint8_t *task, size_t size) {
        return frames->runtimes ? runtimes_task_name(frames->runtimes, process, task, size) : NULL;
}

const char *frames_task_id(Frames *frames, const Process *process, const uint8_t *task, size_t size) {
        return frames->runtimes ? runtimes_task_id(frames->runtimes, process, task, size) : NULL;
}

const char *frames_span_name(Frames *frames, const Process *process, const uint8_t *object, size_t size) {
        return frames->runtimes ? runtimes_span_name(frames->runtimes, process, object, size) : NULL;
}

size_t frames_kernel_symbols(const Frames *frames, bool *loadedp) {
        *loadedp = frames->kernel != NULL;
        return frames->kernel ? kernel_n_symbols(frames->kernel) : 0;
}

/*
 * A module in this window: a segment of a file, at the path that its process sees. Who mounts the file
 * elsewhere has another module. @path: string of the window, of which there are fewer than 2^28. Never 0.
 */
static uint64_t module_key(const Object *object, uint32_t segment, uint32_t path) {
        return (object->id * OBJECT_MAX_SEGMENTS + segment + 1) << 28 | path;
}

/* With names of files the file itself belongs to the module, as its build id is its maker's choice. */
static int add_module(const Frames *frames, Window *window, const Object *object, uint32_t segment,
                      uint32_t path, uint32_t *indexp) {
        const Segment *load = &object->segments[segment];
        WindowModule row = { .path = path,
                             .start = load->address,
                             .limit = load->address + load->memory_size,
                             .offset = load->offset,
                             .file = frames->naming.files ? object->file : 0 };
        int r = window_string(window, object->build_id_gnu, strlen(object->build_id_gnu), &row.build_id_gnu);

        if (!r)
                r = window_string(window, object->build_id_go, strlen(object->build_id_go), &row.build_id_go);
        if (!r)
                r = window_string(window, object->htlhash, strlen(object->htlhash), &row.build_id_htlhash);
        return r ? r : window_module(window, &row, indexp);
}

/* Made once a window. */
static int find_module(Frames *frames, Window *window, const Mapping *mapping, uint32_t segment,
                       uint32_t *indexp) {
        uint32_t path, index;
        uintptr_t known;
        uint64_t key;
        int r = window_string(window, mapping->path, strlen(mapping->path), &path);

        if (r)
                return r;
        key = module_key(mapping->object, segment, path);
        known = (uintptr_t)hashmap_get(&frames->modules, key);
        if (known) {
                *indexp = (uint32_t)(known - 1);
                return 0;
        }
        if (frames->sampled.tell)
                frames->sampled.tell(frames->sampled.userdata, frames->sampled.process, mapping);
        r = add_module(frames, window, mapping->object, segment, path, &index);
        if (!r)
                r = hashmap_put(&frames->modules, key, (void *)((uintptr_t)index + 1));
        if (!r)
                *indexp = index;
        return r;
}

/* Neighbours on a stack mostly share it. */
static int module_index(Frames *frames, Window *window, const Mapping *mapping, uint32_t segment,
                        uint32_t *indexp) {
        LastModule *last = &frames->last;
        int r = 0;

        if (mapping != last->mapping || segment != last->segment)
                r = find_module(frames, window, mapping, segment, &last->index);
        if (r)
                return r;
        last->mapping = mapping;
        last->segment = segment;
        *indexp = last->index;
        return 0;
}

static int unknown_frame(Window *window, enum counter counter, uint64_t pc, FrameWord *wordp) {
        stat_add(counter, 1);
        return window_native_frame(window, FRAME_MARK_UNKNOWN, 0, pc, wordp);
}

/* The process itself names code where no file is. The frame keeps its kind: the language is unknown. */
static int named_code(Window *window, const char *name, size_t size, uint64_t pc, FrameWord *wordp) {
        WindowFunction function = { 0 };
        WindowFrame frame = { .address = pc };
        int r;

        stat_add(COUNTER_FRAMES_ANONYMOUS, 1);
        r = window_string(window, name, size, &function.name);
        if (!r)
                r = window_function(window, &function, &frame.function);
        if (!r)
                r = window_string(window, "unknown", strlen("unknown"), &frame.type);
        return r ? r : window_frame(window, &frame, wordp);
}

static int code_frame(Frames *frames, Window *window, const StackInput *input, uint64_t pc,
                      FrameWord *wordp) {
        const FramesNaming *naming = &frames->naming;
        const char *name;
        bool is_past = false;
        size_t size;
        int r = FRAMES_E_UNNAMED;

        if (naming->code)
                r = naming->code(naming->userdata, input->process, pc, input->time_ns, &name, &size,
                                 &is_past);
        frames->is_preliminary = frames->is_preliminary || r == FRAMES_E_LATER || (!r && is_past);
        if (!r)
                return named_code(window, name, size, pc, wordp);
        if (r < 0)
                return r;
        return unknown_frame(window, COUNTER_FRAMES_ANONYMOUS, pc, wordp);
}

static int object_frame(Frames *frames, Window *window, const Mapping *mapping, uint64_t pc,
                        FrameWord *wordp) {
        uint32_t segment, module;
        uint64_t address;
        int r;

        /* Mapped, but in no segment: a program has mapped a file as it is not meant to be. */
        if (mapping->kind == MAPPING_UNREADABLE ||
            object_address(mapping->object, pc - mapping->start + mapping->offset, &address, &segment))
                return unknown_frame(window, COUNTER_FRAMES_UNREADABLE, pc, wordp);
        r = module_index(frames, window, mapping, segment, &module);
        if (r)
                return r;
        stat_add(mapping->kind == MAPPING_VDSO ? COUNTER_FRAMES_VDSO : COUNTER_FRAMES_NATIVE, 1);
        r = window_native_frame(window, FRAME_MARK_NATIVE, module, address, wordp);
        if (!r && frames->naming.files && module)       /* without one, frames of all files are alike */
                frames->files[frames->n_files++] = (FileFrame){ mapping, address, *wordp };
        return r;
}

static int user_frame(Frames *frames, Window *window, const StackInput *input, const Mapping *mapping,
                      uint64_t pc, FrameWord *wordp) {
        if (!mapping)
                return unknown_frame(window, COUNTER_FRAMES_UNMAPPED, pc, wordp);
        if (mapping->kind == MAPPING_ANONYMOUS)
                return code_frame(frames, window, input, pc, wordp);
        return object_frame(frames, window, mapping, pc, wordp);
}

/* The instruction that a frame stands for: the leaf's own, a caller's call. */
static uint64_t instruction(const uint64_t *addresses, size_t i) {
        uint64_t address = addresses[i];

        if (!(address >> RUNTIME_KIND_SHIFT))
                address &= ABI_FRAME_UNPROVED - 1;
        return i && address ? address - 1 : address;
}

static bool is_of_runtime(uint64_t word) {
        return word >> RUNTIME_KIND_SHIFT;
}

/* Each user frame → frames->answers. Return: whether all of them lie in mappings. */
static bool resolve(Frames *frames, const StackInput *input) {
        const ProcessAnswer *last = NULL;
        bool is_mapped = true;

        for (size_t i = 0; i < input->n_user; i += runtime_frame_words(input->user[i])) {
                ProcessAnswer *answer = &frames->answers[i];
                uint64_t pc = instruction(input->user, i);

                if (is_of_runtime(input->user[i])) {
                        *answer = (ProcessAnswer){ .is_current = true };
                        continue;
                }
                /* Neighbours on the stack are mostly in the same mapping. */
                if (last && last->is_current && last->mapping && pc >= last->mapping->start &&
                    pc < last->mapping->end)
                        *answer = *last;
                else
                        process_resolve(input->process, pc, input->time_ns, answer);
                is_mapped = is_mapped && answer->mapping;
                last = answer;
        }
        return is_mapped;
}

/* Reads the mappings again if a frame is outside of all. */
static int resolve_or_refresh(Frames *frames, const StackInput *input) {
        int r;

        if (resolve(frames, input) || !frames->refresh)
                return 0;
        r = frames->refresh(frames->userdata, input->process);
        if (!r)
                resolve(frames, input);
        return r < 0 ? r : 0;
}

/* ---- frames of runtimes ---- */

static int runtime_function(Window *window, const RuntimeFrame *frame, const char *type, FrameWord *wordp) {
        WindowFunction function = { .start_line = frame->first_line };
        WindowFrame row = { .line = frame->line };
        int r = window_string(window, frame->function, strlen(frame->function), &function.name);

        if (!r && frame->file)
                r = window_string(window, frame->file, strlen(frame->file), &function.filename);
        if (!r)
                r = window_function(window, &function, &row.function);
        if (!r)
                r = window_string(window, type, strlen(type), &row.type);
        if (!r && frame->compilation)
                r = window_attribute_string(window, "jvm.frame.compilation", frame->compilation,
                                            strlen(frame->compilation), &row.attribute);
        return r ? r : window_frame(window, &row, wordp);
}

/*
 * Resolves the frame of a runtime at word @at into up to @max functions. A frame without a name is unknown at
 * its pc.
 */
static int runtime_frame(Frames *frames, Window *window, const StackInput *input, size_t at, size_t max,
                         FrameWord *to, size_t *np) {
        const uint64_t *words = &input->user[at];
        const RuntimeFrame *functions = NULL;
        const char *type = NULL;
        size_t n = 0;
        int r = RUNTIME_E_UNNAMED;

        if (frames->runtimes)
                r = runtimes_frames(frames->runtimes, input->process, words, input->n_user - at, &functions,
                                    &n, &type);
        stat_add(COUNTER_FRAMES_RUNTIME, 1);
        if (r < 0)
                return r;
        *np = 1;
        if (r || !n) {
                frames->is_preliminary = true;
                frames->is_late = frames->is_late || r == RUNTIME_E_LATER;
                return window_native_frame(window, FRAME_MARK_UNKNOWN, 0, words[0] & RUNTIME_ADDRESS_MASK,
                                           to);
        }
        *np = MIN(n, max);
        stat_add(COUNTER_RUNTIME_FRAMES_CUT, n > max);
        for (size_t i = r = 0; i < *np && !r; i++)
                r = runtime_function(window, &functions[i], type, &to[i]);
        return r;
}

/* Whether nothing is known of a frame but its address. */
static bool is_unknown(const Window *window, FrameWord word) {
        WindowFrame frame = window_expand_frame(window, word);

        return !frame.module && !frame.function;
}

/* Why the innermost frame of @input, which has just been made, has no name. */
static enum counter why_nameless(const Frames *frames, const StackInput *input) {
        static const enum counter lacks[] = {
                [RUNTIMES_LACK_NONE] = COUNTER_NAMELESS_CODE,
                [RUNTIMES_LACK_NOTHING] = COUNTER_NAMELESS_CODE,
                [RUNTIMES_LACK_TIME] = COUNTER_NAMELESS_READER,
                [RUNTIMES_LACK_SUPPORT] = COUNTER_NAMELESS_RUNTIME,
                [RUNTIMES_LACK_ROOM] = COUNTER_NAMELESS_NO_ROOM,
        };
        const Mapping *mapping = frames->answers[0].mapping;
        bool is_known = is_of_runtime(input->user[0]);
        RuntimesLack lack = RUNTIMES_LACK_NONE;

        if (!is_known && !mapping)
                return input->process->n_mappings ? COUNTER_NAMELESS_UNMAPPED : COUNTER_NAMELESS_GONE;
        if (!is_known && mapping->kind != MAPPING_ANONYMOUS)
                return COUNTER_NAMELESS_FILE;
        if (frames->runtimes)
                lack = runtimes_lack(frames->runtimes, input->process);
        if (is_known && lack <= RUNTIMES_LACK_NOTHING)
                return frames->is_late ? COUNTER_NAMELESS_READER : COUNTER_NAMELESS_UNLOADED;
        return lacks[lack];
}

/* *np: frames made. */
static int user_frames(Frames *frames, Window *window, const StackInput *input, FrameWord *to, size_t *np) {
        size_t max = MAX_FRAMES - input->n_kernel, n = 0, n_made = 1;
        int r = 0;

        frames->sampled.process = input->process;

        for (size_t i = 0; i < input->n_user && !r; i += runtime_frame_words(input->user[i])) {
                const Mapping *mapping = frames->answers[i].mapping;

                /* There is room left for all frames behind this one. */
                if (is_of_runtime(input->user[i]))
                        r = runtime_frame(frames, window, input, i,
                                          max - n - (input->n_user - i - 1), &to[n], &n_made);
                else
                        r = user_frame(frames, window, input, mapping, instruction(input->user, i), &to[n]);
                if (!r && !i && is_unknown(window, to[0]))
                        frames->nameless = why_nameless(frames, input);
                n += is_of_runtime(input->user[i]) ? n_made : 1;
        }
        *np = n;
        return r;
}

static int tell_files(Frames *frames, const Window *window, const Process *process) {
        const FramesNaming *naming = &frames->naming;

        return frames->n_files
                       ? naming->files(naming->userdata, window, process, frames->files, frames->n_files)
                       : 0;
}

static int kernel_frames(Frames *frames, Window *window, const StackInput *input, FrameWord *words) {
        static const KernelPaths paths = { .kallsyms = "/proc/kallsyms", .modules = "/proc/modules",
                                           .notes = "/sys/kernel/notes", .module_directory = "/sys/module" };
        int r = input->n_kernel && !frames->kernel ? kernel_new(&frames->kernel, &paths) : 0;

        for (size_t i = 0; i < input->n_kernel && !r; i++)
                r = kernel_frame(frames->kernel, window, instruction(input->kernel, i), &words[i]);
        return r;
}

/* The kernel starts a program at the entry of its executable, or of the loader that this one names. */
static bool is_begun_by_kernel(const Process *process, const Mapping *mapping) {
        const char *slash = strrchr(mapping->path, '/');

        return (process->exe && !strcmp(mapping->path, process->exe)) ||
                (slash && !strncmp(slash + 1, "ld-", strlen("ld-")));
}

bool frames_is_root(const Process *process, const Mapping *mapping, uint64_t pc) {
        uint32_t segment;
        uint64_t address;

        if (!mapping || !mapping->object ||
            object_address(mapping->object, pc - mapping->start + mapping->offset, &address, &segment))
                return false;
        if (is_begun_by_kernel(process, mapping) && address - mapping->object->entry < ROOT_SIZE)
                return true;
        return goexit_begins(mapping, process, address);
}

/* Return: bytes of the key in use. */
static size_t make_key(StackKey *key, const StackInput *input) {
        size_t n_kernel = input->n_kernel, n_user = input->n_user;

        key->generation = input->process->generation;
        key->maps_serial = input->process->maps_serial;
        key->n_kernel = (uint32_t)n_kernel;
        key->n_user = (uint32_t)n_user;
        if (n_kernel)
                memcpy(key->addresses, input->kernel, n_kernel * sizeof(*input->kernel));
        if (n_user)
                memcpy(key->addresses + n_kernel, input->user, n_user * sizeof(*input->user));
        return offsetof(StackKey, addresses) + (n_kernel + n_user) * sizeof(*key->addresses);
}

/* Indexes of one window mean nothing in the next. */
static void follow_window(Frames *frames, const Window *window) {
        if (frames->window_serial == window_serial(window))
                return;
        intern_reset(&frames->keys);
        hashmap_deinit(&frames->modules);
        frames->window_serial = window_serial(window);
}

/* Remembers the stack; at a cap it is forgotten, which costs time only. */
static int remember(Frames *frames, size_t key_size, CachedStack stack) {
        uint32_t index;
        int r;

        if (frames->keys.arena.total + key_size > MAX_STACK_BYTES)
                return 0;
        r = intern_add(&frames->keys, &frames->key, key_size, &index);
        if (r)
                return r < 0 ? r : 0;
        r = array_reserve(&frames->stacks, &frames->stacks_size, index + 1u, 256);
        if (r)
                return r;
        frames->stacks[index] = stack;
        return 0;
}

/* Index of the last frame's first word. */
static size_t last_frame(const StackInput *input) {
        size_t last = 0;

        for (size_t i = 0; i < input->n_user; i += runtime_frame_words(input->user[i]))
                last = i;
        return last;
}

static void read_frame_counters(uint64_t *values) {
        for (size_t i = 0; i < ARRAY_SIZE(frame_counters); i++)
                values[i] = stat_get(frame_counters[i]);
}

/* What was counted since then is counted once the stack is made. */
static void take_frame_counters_back(const uint64_t *values) {
        for (size_t i = 0; i < ARRAY_SIZE(frame_counters); i++)
                stat_add(frame_counters[i], values[i] - stat_get(frame_counters[i]));
}

/* Makes the stack of an input whose user frames are resolved, and counts its frames. */
static int build(Frames *frames, Window *window, const StackInput *input, CachedStack *stackp) {
        size_t n_kernel = input->n_kernel, n = 0, last = last_frame(input);
        uint64_t before[ARRAY_SIZE(frame_counters)];
        int r;

        read_frame_counters(before);
        frames->is_preliminary = frames->is_late = false;
        frames->nameless = COUNTER_N;
        frames->last.mapping = NULL;
        frames->n_files = 0;
        r = kernel_frames(frames, window, input, frames->words);
        if (!r)
                r = user_frames(frames, window, input, frames->words + n_kernel, &n);
        if (!r && frames->is_late && input->may_wait) {
                frames->is_unmade = true;
                take_frame_counters_back(before);
                return 0;
        }
        if (!r)
                r = tell_files(frames, window, input->process);
        if (!r)
                r = window_stack(window, frames->words, n_kernel + n, &stackp->stack);
        if (r)
                return r;
        stackp->is_root = input->n_user && frames_is_root(input->process, frames->answers[last].mapping,
                                                          instruction(input->user, last));
        for (size_t i = 0; i < ARRAY_SIZE(frame_counters); i++)
                stackp->n_frames[i] = (uint16_t)(stat_get(frame_counters[i]) - before[i]);
        stackp->nameless = frames->nameless;
        return 0;
}

/*
 * How many words are of sure frames. The first one in a range that changed before the kernel half was told
 * is: its address comes from rows that were right. Those behind it come from its own rows, which may have
 * been another file's.
 */
static size_t count_sure(const ProcessAnswer *answers, const uint64_t *words, size_t n,
                         enum abi_stack_end *endp) {
        for (size_t i = 0; i < n; i += runtime_frame_words(words[i]))
                if (answers[i].is_stale) {
                        *endp = ABI_STACK_STALE;
                        return i + 1;
                }
        return n;
}

/* Where the function at a pc begins. Return: 0, FRAMES_E_LATER, FRAMES_E_UNNAMED. */
static int find_start(Frames *frames, const StackInput *input, MadeCode *code) {
        const FramesNaming *naming = &frames->naming;

        return naming->start ? naming->start(naming->userdata, input->process, code->pc, input->time_ns,
                                             &code->start)
                             : FRAMES_E_UNNAMED;
}

/*
 * Whether the frame at word @at, which that of @caller has called, is of code that goes on for a slower form
 * of its function: then the caller is that form. *is_laterp: it may be, since it is not known yet.
 */
static int goes_on(Frames *frames, const StackInput *input, size_t at, const MadeCode *caller,
                   bool *goes_onp, bool *is_laterp) {
        const Mapping *mapping = frames->answers[at].mapping;
        MadeCode code = *caller;
        bool is_unread = false;
        int r;

        *goes_onp = *is_laterp = false;
        /* code of a file is never such: .NET's is not ELF, and has no object */
        if (is_of_runtime(input->user[at]) || (mapping && mapping->kind != MAPPING_ANONYMOUS) ||
            !made_frames_may_be_left(&frames->made, caller))
                return 0;
        code.pc = instruction(input->user, at);
        r = find_start(frames, input, &code);
        if (r < 0)
                return r;
        if (!r && made_frames_go_on(&frames->made, &code, &is_unread)) {
                *goes_onp = true;
        } else if (r || is_unread) {
                *goes_onp = true;
                *is_laterp = r == FRAMES_E_LATER || is_unread;
        }
        return 0;
}

/*
 * How many of @n words are of frames whose callers are proved, and the first that is not. *is_laterp: it may
 * be once more is known of the code.
 */
static int count_proved(Frames *frames, const StackInput *input, size_t n, size_t *np, bool *is_laterp) {
        _cleanup_(made_reads_end) MadeReads reads = { .memory = -1 };
        MadeCode code = { .process = input->process, .reads = &reads, .serial = frames->key.code_serial };

        *np = n;
        for (size_t i = 0, before = 0; i < n; before = i, i += runtime_frame_words(input->user[i])) {
                bool is_unread = false, is_left = false;
                int r, left = 0;

                if (is_of_runtime(input->user[i]) || !(input->user[i] & ABI_FRAME_UNPROVED))
                        continue;
                code.pc = instruction(input->user, i);
                code.is_leaf = !i;
                r = find_start(frames, input, &code);
                if (!r && i)
                        left = goes_on(frames, input, before, &code, &is_left, is_laterp);
                if (r < 0 || left < 0)
                        return r < 0 ? r : left;
                if (is_left) {
                        *np = i;
                        break;
                }
                if (!r && made_frames_are_own(&frames->made, &code, &is_unread))
                        continue;
                *is_laterp = r == FRAMES_E_LATER || is_unread;
                *np = i + 1;
                break;
        }
        return 0;
}

/* A stack that is not in the cache, or that the cache says nothing of. */
static _noinline_ int make_stack(Frames *frames, Window *window, const StackInput *input, size_t key_size,
                      enum abi_stack_end *endp, CachedStack *stackp) {
        const Process *process = input->process;
        StackInput sure = *input;
        bool is_later = false;
        int r = resolve_or_refresh(frames, input);

        if (r)
                return r;
        sure.n_user = count_sure(frames->answers, input->user, input->n_user, endp);
        r = count_proved(frames, input, sure.n_user, &sure.n_user, &is_later);
        if (r)
                return r;
        if (is_later && input->may_wait) {
                frames->is_unmade = true;
                return 0;
        }
        stackp->is_unproved = sure.n_user < input->n_user && *endp != ABI_STACK_STALE;
        r = build(frames, window, &sure, stackp);
        if (r || frames->is_preliminary || is_later || !process_is_current(process, input->time_ns))
                return r;
        frames->key.maps_serial = process->maps_serial;
        return remember(frames, key_size, *stackp);
}

static int find_stack(Frames *frames, Window *window, const StackInput *input, enum abi_stack_end *endp,
                      CachedStack *stackp) {
        const FramesNaming *naming = &frames->naming;
        Process *process = input->process;
        size_t key_size = make_key(&frames->key, input);
        uint32_t index;
        int r;

        frames->key.code_serial = 0;
        r = naming->serial ? naming->serial(naming->userdata, process, &frames->key.code_serial) : 0;
        if (r)
                return r;
        if (process_is_current(process, input->time_ns) &&
            !intern_find(&frames->keys, &frames->key, key_size, &index)) {
                *stackp = frames->stacks[index];
                frames->nameless = stackp->nameless;
                for (size_t i = 0; i < ARRAY_SIZE(frame_counters); i++)
                        stat_add(frame_counters[i], stackp->n_frames[i]);
                return 0;
        }
        return make_stack(frames, window, input, key_size, endp, stackp);
}

int frames_stack(Frames *frames, Window *window, const StackInput *input, enum abi_stack_end *endp,
                 uint32_t *stackp) {
        CachedStack stack = { 0 };
        int r;

        frames->is_unmade = false;
        follow_window(frames, window);
        r = find_stack(frames, window, input, endp, &stack);
        if (r)
                return r;
        *stackp = stack.stack;
        if (stack.is_unproved)
                *endp = ABI_STACK_UNPROVED;
        if (*endp == ABI_STACK_FP_END && stack.is_root)
                *endp = ABI_STACK_COMPLETE;
        return 0;
}

enum counter frames_nameless(const Frames *frames) {
        return frames->nameless;
}

bool frames_are_late(const Frames *frames) {
        return frames->is_unmade;
}

int frames_place(Frames *frames, Window *window, Process *process, uint64_t time_ns, uint64_t address,
                 uint32_t *stackp) {
        const StackInput input = { .process = process, .time_ns = time_ns, .user = &address, .n_user = 1 };
        CachedStack stack = { 0 };
        int r = 0;

        follow_window(frames, window);
        if (address) {
                resolve(frames, &input);
                r = build(frames, window, &input, &stack);
        }
        if (!r)
                *stackp = stack.stack;
        return r;
}
