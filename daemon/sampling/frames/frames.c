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
 */
#include "sampling/frames/frames.h"

#include <errno.h>
#include <string.h>

#include "base/util/error.h"
#include "base/util/intern.h"
#include "base/util/stat.h"
#include "sampling/frames/goroutine.h"

enum {
        MAX_STACKS = 8192,              /* in the cache; later stacks take the long way */
        MAX_STACK_BYTES = 1 << 20,
        MAX_WORDS = ABI_MAX_KERNEL_FRAMES + ABI_MAX_FRAMES,
        ROOT_SIZE = 64,                 /* _start and its like are 30–50 bytes */
};

/* A sample's addresses as the key of the cache. */
typedef struct StackKey {
        uint64_t generation, maps_serial, code_serial;
        uint32_t n_kernel, n_user;
        uint64_t addresses[MAX_WORDS];
} StackKey;

typedef struct CachedStack {
        uint32_t stack;                 /* index in the window */
        uint32_t is_root;               /* the last user frame is one */
} CachedStack;

struct Frames {
        Kernel *kernel;                 /* loaded at the first kernel frame */
        FramesRefresh refresh;
        void *userdata;
        FramesNaming naming;
        /* the stack that is being made: it may be another one for the next sample */
        bool is_preliminary;
        uint64_t window_serial;         /* of the window that the cache is for */
        Intern keys;
        CachedStack *stacks;            /* by index of the key */
        uint32_t stacks_size;
        StackKey key;                   /* scratch */
        FrameWord words[MAX_WORDS];     /* scratch */
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
        intern_deinit(&frames->keys);
        free(frames->stacks);
        free(frames);
        return NULL;
}

void frames_set_refresh(Frames *frames, FramesRefresh refresh, void *userdata) {
        frames->refresh = refresh;
        frames->userdata = userdata;
}

void frames_set_naming(Frames *frames, const FramesNaming *naming) {
        frames->naming = *naming;
}

size_t frames_memory(const Frames *frames) {
        return sizeof(*frames) + frames->keys.arena.total + frames->keys.n_slots * sizeof(uint32_t) +
               frames->keys.items_size * sizeof(InternItem) + frames->stacks_size * sizeof(CachedStack) +
               (frames->kernel ? kernel_memory(frames->kernel) : 0);
}

static int make_module(Window *window, const Object *object, WindowModule *row, uint32_t *indexp) {
        int r = window_string(window, object->build_id_gnu, strlen(object->build_id_gnu), &row->build_id_gnu);

        if (!r)
                r = window_string(window, object->build_id_go, strlen(object->build_id_go),
                                  &row->build_id_go);
        if (!r)
                r = window_string(window, object->htlhash, strlen(object->htlhash), &row->build_id_htlhash);
        return r ? r : window_module(window, row, indexp);
}

/*
 * The module of a segment in this window, looked up once a window as long as all that map the file see it at
 * one path: who mounts it elsewhere has a module of his own. With names of files the file itself belongs to
 * it, as its build id is its maker's choice.
 */
static int module_index(const Frames *frames, Window *window, const Mapping *mapping, uint32_t segment,
                        uint32_t *indexp) {
        Object *object = mapping->object;
        const Segment *load = &object->segments[segment];
        WindowModule row = { .start = load->address,
                             .limit = load->address + load->memory_size,
                             .offset = load->offset,
                             .file = frames->naming.object ? object->file : 0 };
        int r = window_string(window, mapping->path, strlen(mapping->path), &row.path);

        if (r)
                return r;
        if (object->window_serial != window_serial(window) || object->window_path != row.path) {
                memset(object->window_module, 0, sizeof(object->window_module));
                object->window_serial = window_serial(window);
                object->window_path = row.path;
        }
        if (!object->window_module[segment])
                r = make_module(window, object, &row, &object->window_module[segment]);
        if (!r)
                *indexp = object->window_module[segment];
        return r;
}

static int unknown_frame(Window *window, enum counter counter, uint64_t pc, FrameWord *wordp) {
        stat_add(counter, 1);
        return window_native_frame(window, FRAME_MARK_UNKNOWN, 0, pc, wordp);
}

/*
 * What the process itself says of an address where no file is. It keeps its kind: nobody knows in which
 * language.
 */
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

static int code_frame(Frames *frames, Window *window, const Process *process, uint64_t time_ns, uint64_t pc,
                      FrameWord *wordp) {
        const FramesNaming *naming = &frames->naming;
        const char *name;
        bool is_past = false;
        size_t size;
        int r = FRAMES_E_UNNAMED;

        if (naming->code)
                r = naming->code(naming->userdata, process, pc, time_ns, &name, &size, &is_past);
        frames->is_preliminary = frames->is_preliminary || r == FRAMES_E_LATER || (!r && is_past);
        if (!r)
                return named_code(window, name, size, pc, wordp);
        if (r < 0)
                return r;
        return unknown_frame(window, COUNTER_FRAMES_ANONYMOUS, pc, wordp);
}

static int object_frame(Frames *frames, Window *window, const Process *process, const Mapping *mapping,
                        uint64_t pc, FrameWord *wordp) {
        const FramesNaming *naming = &frames->naming;
        uint32_t segment, module;
        uint64_t address;
        int r;

        /* Mapped, but in no segment: somebody mapped a file as it is not meant to be. */
        if (mapping->kind == MAPPING_UNREADABLE ||
            object_address(mapping->object, pc - mapping->start + mapping->offset, &address, &segment))
                return unknown_frame(window, COUNTER_FRAMES_UNREADABLE, pc, wordp);
        r = module_index(frames, window, mapping, segment, &module);
        if (r)
                return r;
        stat_add(mapping->kind == MAPPING_VDSO ? COUNTER_FRAMES_VDSO : COUNTER_FRAMES_NATIVE, 1);
        r = window_native_frame(window, FRAME_MARK_NATIVE, module, address, wordp);
        if (!r && naming->object && module)     /* without one, frames of all files are alike */
                r = naming->object(naming->userdata, window, process, mapping, address, *wordp);
        return r;
}

static int user_frame(Frames *frames, Window *window, const Process *process, uint64_t time_ns,
                      const Mapping *mapping, uint64_t pc, FrameWord *wordp) {
        if (!mapping)
                return unknown_frame(window, COUNTER_FRAMES_UNMAPPED, pc, wordp);
        if (mapping->kind == MAPPING_ANONYMOUS)
                return code_frame(frames, window, process, time_ns, pc, wordp);
        return object_frame(frames, window, process, mapping, pc, wordp);
}

/* The instruction that a frame stands for: the leaf's own, a caller's call. */
static uint64_t instruction(const uint64_t *addresses, size_t i) {
        return i && addresses[i] ? addresses[i] - 1 : addresses[i];
}

static int user_frames(Frames *frames, Window *window, const Process *process, uint64_t time_ns,
                       const uint64_t *user, size_t n_user, FrameWord *words) {
        const Mapping *mapping = NULL;
        bool is_past = mapping_history_reaches(&process->history, time_ns);

        for (size_t i = 0; i < n_user; i++) {
                uint64_t pc = instruction(user, i);
                int r;

                /* Neighbours on the stack are mostly in the same mapping. */
                if (!mapping || is_past || pc < mapping->start || pc >= mapping->end)
                        mapping = process_find_mapping_at(process, pc, time_ns);
                r = user_frame(frames, window, process, time_ns, mapping, pc, &words[i]);
                if (r)
                        return r;
        }
        return 0;
}

static int kernel_frames(Frames *frames, Window *window, const uint64_t *kernel, size_t n_kernel,
                         FrameWord *words) {
        static const KernelPaths paths = { .kallsyms = "/proc/kallsyms", .modules = "/proc/modules",
                                           .notes = "/sys/kernel/notes", .module_directory = "/sys/module" };
        int r;

        if (n_kernel && !frames->kernel) {
                r = kernel_new(&frames->kernel, &paths);
                if (r)
                        return r;
        }
        for (size_t i = 0; i < n_kernel; i++) {
                r = kernel_frame(frames->kernel, window, instruction(kernel, i), &words[i]);
                if (r)
                        return r;
        }
        return 0;
}

bool frames_is_root(const Process *process, uint64_t address) {
        const Mapping *mapping = process_find_mapping(process, address);
        uint32_t segment;
        uint64_t place;

        if (!mapping || !mapping->object ||
            object_address(mapping->object, address - mapping->start + mapping->offset, &place, &segment))
                return false;
        if (process->exe && !strcmp(mapping->path, process->exe) &&
            place - mapping->object->entry < ROOT_SIZE)
                return true;
        return goroutine_begins(mapping, process, place);
}

/* Reads the mappings again if a frame is outside of all. */
static int refresh_if_unmapped(Frames *frames, Process *process, uint64_t time_ns, const uint64_t *user,
                               size_t n_user) {
        if (!frames->refresh)
                return 0;
        for (size_t i = 0; i < n_user; i++)
                if (!process_find_mapping_at(process, instruction(user, i), time_ns)) {
                        int r = frames->refresh(frames->userdata, process);

                        return r < 0 ? r : 0;
                }
        return 0;
}

/* Return: bytes of the key in use. */
static size_t make_key(StackKey *key, const Process *process, const uint64_t *kernel, size_t n_kernel,
                       const uint64_t *user, size_t n_user) {
        key->generation = process->generation;
        key->maps_serial = process->maps_serial;
        key->n_kernel = (uint32_t)n_kernel;
        key->n_user = (uint32_t)n_user;
        if (n_kernel)
                memcpy(key->addresses, kernel, n_kernel * sizeof(*kernel));
        if (n_user)
                memcpy(key->addresses + n_kernel, user, n_user * sizeof(*user));
        return offsetof(StackKey, addresses) + (n_kernel + n_user) * sizeof(*user);
}

static void reset_cache(Frames *frames, const Window *window) {
        if (frames->window_serial == window_serial(window))
                return;
        intern_reset(&frames->keys);
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
        if (index >= frames->stacks_size) {
                uint32_t size = MAX(frames->stacks_size * 2, 256);
                CachedStack *stacks = realloc(frames->stacks, size * sizeof(*stacks));

                if (!stacks)
                        return error_origin(-ENOMEM);
                frames->stacks = stacks;
                frames->stacks_size = size;
        }
        frames->stacks[index] = stack;
        return 0;
}

static int build(Frames *frames, Window *window, Process *process, uint64_t time_ns, const uint64_t *kernel,
                 size_t n_kernel, const uint64_t *user, size_t n_user, CachedStack *stackp) {
        int r;

        frames->is_preliminary = false;
        r = kernel_frames(frames, window, kernel, n_kernel, frames->words);
        if (!r)
                r = user_frames(frames, window, process, time_ns, user, n_user, frames->words + n_kernel);
        if (!r)
                r = window_stack(window, frames->words, n_kernel + n_user, &stackp->stack);
        if (r)
                return r;
        stackp->is_root = n_user && frames_is_root(process, instruction(user, n_user - 1));
        return 0;
}

/*
 * How many frames are sure. The first one in a range that changed before the kernel half was told is: its
 * address comes from rows that were right. Those behind it come from its own rows, which may have been
 * another file's.
 */
static size_t count_sure(const Process *process, uint64_t time_ns, const uint64_t *user, size_t n_user,
                         enum abi_stack_end *endp) {
        for (size_t i = 0; i < n_user; i++)
                if (mapping_history_is_stale(&process->history, instruction(user, i), time_ns)) {
                        *endp = ABI_STACK_STALE;
                        return i + 1;
                }
        return n_user;
}

/* The cache knows the present only: a stack from before a change is made anew. */
static int find_stack(Frames *frames, Window *window, Process *process, uint64_t time_ns,
                      const uint64_t *kernel, size_t n_kernel, const uint64_t *user, size_t n_user,
                      enum abi_stack_end *endp, CachedStack *stackp) {
        size_t key_size = make_key(&frames->key, process, kernel, n_kernel, user, n_user);
        uint32_t index;
        int r;

        frames->key.code_serial = 0;
        r = frames->naming.serial
                ? frames->naming.serial(frames->naming.userdata, process, &frames->key.code_serial)
                : 0;
        if (r)
                return r;
        if (!mapping_history_reaches(&process->history, time_ns) &&
            !intern_find(&frames->keys, &frames->key, key_size, &index)) {
                *stackp = frames->stacks[index];
                return 0;
        }
        r = refresh_if_unmapped(frames, process, time_ns, user, n_user);
        if (r)
                return r;
        if (mapping_history_reaches(&process->history, time_ns)) {
                n_user = count_sure(process, time_ns, user, n_user, endp);
                return build(frames, window, process, time_ns, kernel, n_kernel, user, n_user, stackp);
        }
        r = build(frames, window, process, time_ns, kernel, n_kernel, user, n_user, stackp);
        if (r || frames->is_preliminary)
                return r;
        frames->key.maps_serial = process->maps_serial;
        return remember(frames, key_size, *stackp);
}

int frames_stack(Frames *frames, Window *window, Process *process, uint64_t time_ns, const uint64_t *kernel,
                 size_t n_kernel, const uint64_t *user, size_t n_user, enum abi_stack_end *endp,
                 uint32_t *stackp) {
        CachedStack stack;
        int r;

        reset_cache(frames, window);
        r = find_stack(frames, window, process, time_ns, kernel, n_kernel, user, n_user, endp, &stack);
        if (r)
                return r;
        *stackp = stack.stack;
        if (*endp == ABI_STACK_FP_END && stack.is_root)
                *endp = ABI_STACK_COMPLETE;
        return 0;
}

int frames_place(Frames *frames, Window *window, Process *process, uint64_t time_ns, uint64_t address,
                 uint32_t *stackp) {
        CachedStack stack = { 0 };
        int r = address ? build(frames, window, process, time_ns, NULL, 0, &address, 1, &stack) : 0;

        if (!r)
                *stackp = stack.stack;
        return r;
}
