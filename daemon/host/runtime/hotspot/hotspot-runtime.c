/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The layout and the code heaps of one process go into the kernel half's entry, field by field: what moves
 * from release to release is an offset there, so that one program walks all of them
 * (bpf/runtimes/hotspot.bpf.h).
 *
 * Names are read when a frame is met, while the process lives.
 *
 *     with workers       hotspot-link.c: what the JVM's memory says is parsed in a process without rights
 *     without            hotspot.c, in this process: `record` by a user, `targets`
 */
#include "host/runtime/hotspot/hotspot-runtime.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "core/base/util/error.h"
#include "core/base/util/clock.h"
#include "host/runtime/hotspot/hotspot-link.h"
#include "host/sampling/process/dynamic-symbol.h"

_Static_assert(HOTSPOT_ENTRY == RUNTIME_HOTSPOT_ENTRY, "both say the same");
_Static_assert((int)HOTSPOT_STAMP_SHIFT == (int)RUNTIME_HOTSPOT_STAMP_SHIFT, "both say the same");

enum {
        FIRST_TRUST_MS = 125,
        FIRST_TO_KEEP_SENDER = 21,      /* JDK */
        FIRST_WITH_CARRIERS = 19,       /* JDK with virtual threads */
};

#define BATCH_NS (2 * NS_PER_MS)        /* frames of one stack are asked for within it */

typedef struct HotspotState {
        HotspotLink *link;              /* NULL = this process reads it: */
        Hotspot *hotspot;               /* NULL = not ready */
        HotspotOpened opened;           /* by ourselves */
        HotspotFrames frames;           /* answer to the last question */
        uint64_t batch_ns;
        int fd;
        pid_t pid;
} HotspotState;

static bool recognises(int fd, uint64_t size, char says[OBJECT_MAX_SAYS]) {
        DynamicImage image;
        Elf64_Sym symbol;
        uint32_t index;

        return dynamic_image_open(&image, fd, NULL, size) &&
               dynamic_image_find(&image, hotspot_symbol_names[0], &index, &symbol);
}

static void detach(void *userdata) {
        HotspotState *state = userdata;

        hotspot_link_free(state->link);
        hotspot_free(state->hotspot);
        closep(&state->fd);
        free(state);
}

/* ---- the entry ---- */

/* A field that is an address in some releases and counts from @base in others. */
static struct hotspot_field entry_field(HotspotField field, enum hotspot_base base) {
        return (struct hotspot_field){ .offset = field.offset, .size = field.size,
                                       .base = field.size == 8 ? HOTSPOT_BASE_NONE : (uint8_t)base };
}

static void fill_fields(struct hotspot_process *entry, const HotspotLayout *layout) {
        const HotspotNmethodLayout *nmethod = &layout->nmethod;
        const HotspotBlobLayout *blob = &layout->blob;

        entry->block_header = (uint16_t)layout->heap.block_size;
        entry->block_used = layout->heap.block_used.offset;
        entry->const_method = layout->method.const_method.offset;
        entry->code_size = layout->method.code_size.offset;
        entry->code = (uint16_t)layout->method.const_method_size;
        entry->bcp = layout->interpreter.bcp;
        entry->keeps_sender = layout->version >= FIRST_TO_KEEP_SENDER;
        entry->name = entry_field(blob->name, HOTSPOT_BASE_NONE);
        entry->code_begin = entry_field(blob->code, HOTSPOT_BASE_BLOB);
        entry->frame_complete = entry_field(blob->frame_complete, HOTSPOT_BASE_CODE);
        entry->frame_size = entry_field(blob->frame_size, HOTSPOT_BASE_NONE);
        entry->verified_entry = entry_field(nmethod->verified_entry, HOTSPOT_BASE_CODE);
        entry->deopt_handler = entry_field(nmethod->deopt, HOTSPOT_BASE_BLOB);
        entry->orig_pc = entry_field(nmethod->orig_pc, HOTSPOT_BASE_NONE);
        entry->method = entry_field(nmethod->method, HOTSPOT_BASE_NONE);
        entry->compile_id = entry_field(nmethod->compile_id, HOTSPOT_BASE_NONE);
}

/* Bytes that hold every field: no more of a blob is read. */
static uint32_t header_size(const struct hotspot_process *entry) {
        const struct hotspot_field *fields = &entry->name;
        uint32_t size = 0, n = (uint32_t)(&entry->compile_id - fields) + 1;

        for (uint32_t i = 0; i < n; i++)
                size = MAX(size, (uint32_t)fields[i].offset + fields[i].size);
        return entry->block_header + size;
}

static bool fill_heaps(struct hotspot_process *entry, const HotspotCode *code) {
        uint64_t low = UINT64_MAX, end = 0;

        if (!code->n_heaps || code->n_heaps > HOTSPOT_N_HEAPS)
                return false;
        for (uint32_t i = 0; i < code->n_heaps; i++) {
                const HotspotHeap *heap = &code->heaps[i];

                if (heap->log2_segment != code->heaps[0].log2_segment)
                        return false;
                entry->heaps[i] = (struct hotspot_heap){ heap->low, heap->end - heap->low,
                                                         heap->segment_map };
                low = MIN(low, heap->low);
                end = MAX(end, heap->end);
        }
        entry->n_heaps = (uint16_t)code->n_heaps;
        entry->segment_shift = (uint16_t)code->heaps[0].log2_segment;
        entry->low = low;
        entry->size = end - low;
        entry->interpreter = code->interpreter_low;
        entry->interpreter_size = code->interpreter_high - code->interpreter_low;
        entry->call_stub = code->call_stub_return;
        return true;
}

static void fill_chunk(struct hotspot_process *entry, const HotspotChunkLayout *chunk) {
        entry->oop_base = chunk->oop_base;
        entry->oop_shift = (uint16_t)chunk->oop_shift;
        entry->chunk_tail = chunk->tail;
        entry->chunk_parent = chunk->parent;
        entry->chunk_sp = chunk->sp;
        entry->chunk_bottom = chunk->bottom;
        entry->chunk_stack = chunk->stack;
}

/* The symbol that is missing for the bytes that a thread has allocated; NULL = nothing. */
static const char *absent_of_bytes(const HotspotLayout *layout) {
        const HotspotLockLayout *locks = &layout->locks;

        if (!layout->bytes.allocated.size || !layout->bytes.allocated.offset)
                return "Thread::_allocated_bytes";
        if (!layout->bytes.tlab.size || !layout->bytes.start.size || !layout->bytes.top.size)
                return "Thread::_tlab";
        if (!locks->stack_base.size || !locks->stack_size.size ||
            locks->stack_size.offset != locks->stack_base.offset + 8)
                return "JavaThread::_stack_base";
        if (layout->version >= FIRST_WITH_CARRIERS && !layout->thread.cont_entry.size &&
            !(locks->virtual_object.size && locks->object.size))
                return "JavaThread::_vthread";
        return NULL;
}

static void fill_bytes(struct hotspot_process *entry, const HotspotLayout *layout) {
        const HotspotBytesLayout *bytes = &layout->bytes;
        const HotspotLockLayout *locks = &layout->locks;

        if (absent_of_bytes(layout))
                return;
        entry->allocated = bytes->allocated.offset;
        entry->tlab_start = (uint16_t)(bytes->tlab.offset + bytes->start.offset);
        entry->tlab_top = (uint16_t)(bytes->tlab.offset + bytes->top.offset);
        entry->stack_base = locks->stack_base.offset;
        if (layout->thread.cont_entry.size) {
                entry->carried = layout->thread.cont_entry.offset;
        } else if (layout->version >= FIRST_WITH_CARRIERS) {
                entry->carried = locks->virtual_object.offset;
                entry->own = locks->object.offset;
        }
}

/* Return: 0, RUNTIME_E_*. */
static int fill_entry(struct hotspot_process *entry, const HotspotOpened *opened, uint64_t generation) {
        entry->generation = generation;
        entry->unloads = opened->code.unloads;
        fill_fields(entry, &opened->layout);
        entry->header_size = (uint16_t)header_size(entry);
        if (!fill_heaps(entry, &opened->code) || header_size(entry) > HOTSPOT_MAX_HEADER ||
            entry->block_used >= 16 || !entry->verified_entry.size)
                return RUNTIME_E_UNKNOWN;
        entry->interpreter_blob = opened->interpreter_blob;
        fill_bytes(entry, &opened->layout);
        fill_chunk(entry, &opened->layout.chunk);
        return opened->interpreter_blob ? 0 : RUNTIME_E_LATER;
}

/* ---- attach ---- */

/* In this process. Return: 0, HOTSPOT_E_*, -ENOMEM. */
static int open_here(HotspotState *state, const RuntimeSubject *subject, const HotspotOpened **openedp) {
        const HotspotReader source = { hotspot_process_read, &state->pid };
        char reason[HOTSPOT_MAX_REASON] = "java: layout unknown";
        int r;

        state->hotspot = hotspot_free(state->hotspot);
        r = hotspot_new(&state->hotspot, &source, state->fd, subject->size, subject->bias, reason);
        hotspot_wire_describe(&state->opened, state->hotspot, reason);
        *openedp = &state->opened;
        return r;
}

static int make_state(HotspotState **statep, RuntimeSubject *subject) {
        HotspotState *state = calloc(1, sizeof(*state));
        int r = 0;

        if (!state)
                return error_origin(-ENOMEM);
        state->pid = subject->pid;
        state->fd = -1;
        if (subject->userdata)
                r = hotspot_link_new(&state->link, subject->userdata,
                                     &(ReaderSubject){ .pid = subject->pid,
                                                       .start_time_ns = subject->start_time_ns,
                                                       .size = subject->size,
                                                       .bias = subject->bias,
                                                       .fd = subject->fd });
        else
                state->fd = subject->fd;
        if (r) {
                free(state);
                return error_fold(r);
        }
        subject->fd = -1;
        *statep = state;
        return 0;
}

static void say_not_begun(const HotspotOpened *opened, char text[RUNTIMES_MAX_TEXT]) {
        snprintf(text, RUNTIMES_MAX_TEXT, "java %u: it has run no Java yet", opened->layout.version);
}

/* Return: 0, RUNTIME_E_*, -ENOMEM. */
static int open_jvm(HotspotState *state, const RuntimeSubject *subject, const HotspotOpened **openedp,
                    char text[RUNTIMES_MAX_TEXT]) {
        int r = state->link ? hotspot_link_open(state->link, openedp) : open_here(state, subject, openedp);

        if (r < 0)
                return error_fold(r);
        if (!r && (*openedp)->code.call_stub_return)
                return 0;
        if (!r) {
                say_not_begun(*openedp, text);
                return RUNTIME_E_LATER;
        }
        snprintf(text, RUNTIMES_MAX_TEXT, "%s, falls back to perf maps", (*openedp)->reason);
        return r == HOTSPOT_E_LATER || r == HOTSPOT_E_GONE ? RUNTIME_E_LATER : RUNTIME_E_UNKNOWN;
}

static void say_attached(const HotspotLayout *layout, int result, char text[RUNTIMES_MAX_TEXT]) {
        const char *absent = result ? NULL : absent_of_bytes(layout);
        int n = snprintf(text, RUNTIMES_MAX_TEXT, "java %u%s", layout->version,
                         result ? ": layout unknown: code cache, falls back to perf maps"
                         : layout->flags.has_no_loop_polls
                                 ? ": in loops without a safepoint, stacks end at a caller"
                                   " (-XX:+UseCountedLoopSafepoints)"
                                 : "");

        if (absent && n > 0 && n < RUNTIMES_MAX_TEXT)
                snprintf(text + n, RUNTIMES_MAX_TEXT - (size_t)n, "; no bytes by span: %s is not known", absent);
}

static int attach(RuntimeSubject *subject, void **statep, void *entry, char text[RUNTIMES_MAX_TEXT]) {
        const HotspotOpened *opened = NULL;
        HotspotState *state = *statep;
        int r = state ? 0 : make_state(&state, subject);

        if (r)
                return error_fold(r);
        *statep = state;
        r = open_jvm(state, subject, &opened, text);
        if (r)
                return r < 0 ? error_fold(r) : r;
        r = fill_entry(entry, opened, subject->generation);
        if (r == RUNTIME_E_LATER)
                say_not_begun(opened, text);
        else
                say_attached(&opened->layout, r, text);
        return r;
}

/* ---- names ---- */

static const char *text_or_null(const char *text) {
        return text && *text ? text : NULL;
}

/* In this process. Return: 0, HOTSPOT_E_*, -ENOMEM. */
static int name_here(HotspotState *state, const uint64_t *words, const HotspotFrames **framesp) {
        uint64_t now_ns = clock_monotonic_ns();

        if (now_ns - state->batch_ns > BATCH_NS) {
                hotspot_begin(state->hotspot);
                state->batch_ns = now_ns;
        }
        *framesp = &state->frames;
        return hotspot_frames(state->hotspot, words, &state->frames);
}

/* In the words of recordings (core/jfr/), which readers know. */
static const char *const compilations[] = {
        [HOTSPOT_FRAME_INTERPRETED] = "interpreted",
        [HOTSPOT_FRAME_COMPILED] = "jit compiled",
        [HOTSPOT_FRAME_INLINED] = "inlined",
        [HOTSPOT_FRAME_STUB] = NULL,
        [HOTSPOT_FRAME_C1] = "c1 compiled",
};

/* A frame of its own stands for code that cannot be told. */
static int put_unloaded(RuntimeFrame *frames, size_t *np) {
        *np = 1;
        frames[0] = (RuntimeFrame){ .function = "[unloaded class]",
                                    .compilation = compilations[HOTSPOT_FRAME_INTERPRETED] };
        return RUNTIME_E_UNLOADED;
}

static int frames(void *userdata, const uint64_t *words, RuntimeFrame *frames, size_t max, size_t *np) {
        const HotspotFrames *named = NULL;
        HotspotState *state = userdata;
        int r = state->link ? hotspot_link_frames(state->link, words, &named)
                            : name_here(state, words, &named);

        if (r == HOTSPOT_E_UNLOADED)
                return put_unloaded(frames, np);
        if (r)
                return r < 0 ? error_fold(r) : r == HOTSPOT_E_LATER ? RUNTIME_E_LATER : RUNTIME_E_UNNAMED;
        *np = MIN((size_t)named->n, max);
        for (size_t i = 0; i < *np; i++) {
                const HotspotFrame *frame = &named->frames[i];

                frames[i] = (RuntimeFrame){ .function = frame->name, .file = text_or_null(frame->file),
                                            .line = frame->line,
                                            .signature = text_or_null(frame->signature),
                                            .compilation = compilations[frame->kind] };
        }
        return named->is_short ? RUNTIME_E_SHORT : 0;
}

/* ---- locks ---- */

static int locks(void *userdata, RuntimeLocks *locks) {
        HotspotState *state = userdata;

        if (state->link)
                return hotspot_link_locks(state->link, locks) ? RUNTIME_E_LATER : 0;
        if (!state->hotspot)
                return RUNTIME_E_LATER;
        hotspot_locks(state->hotspot, locks);
        return 0;
}

/*
 * A compile id is never another's, nor are addresses while no class is unloaded: an interpreted frame
 * has a stamp, which says so. All else is known by addresses alone, where another class may lie later.
 */
static uint32_t trust_ms(const uint64_t *words) {
        uint64_t kind = words[0] >> RUNTIME_KIND_SHIFT;

        if (kind == RUNTIME_HOTSPOT_INTERPRETED && (words[1] | words[2]) >> RUNTIME_HOTSPOT_STAMP_SHIFT)
                return 0;
        return kind == RUNTIME_HOTSPOT_COMPILED ? 0 : FIRST_TRUST_MS;
}

static uint64_t cpu_ns(const void *userdata) {
        const HotspotState *state = userdata;

        return state->link ? hotspot_link_cpu_ns(state->link) : 0;
}

static void tend(void *userdata, uint64_t now_ns) {
        if (userdata)
                hotspot_links_tend(userdata, now_ns);
}

static const char *const programs[] = { "java", "javac", "jshell", NULL };

const RuntimeOps hotspot_runtime = {
        .name = "hotspot",
        .frame_type = "jvm",
        .entry_size = sizeof(struct hotspot_process),
        .bit = RUNTIME_HAS_HOTSPOT,
        .programs = programs,
        .recognises = recognises,
        .attach = attach,
        .detach = detach,
        .frames = frames,
        .locks = locks,
        .trust_ms = trust_ms,
        .cpu_ns = cpu_ns,
        .tend = tend,
};
