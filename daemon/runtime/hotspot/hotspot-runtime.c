/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The layout and the code heaps of one process go into the kernel half's entry, field by field: what moves
 * from release to release is an offset there, so that one program walks all of them (bpf/hotspot.bpf.h).
 *
 * Names are read when a frame is met, while the process lives.
 */
#include "runtime/hotspot/hotspot-runtime.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/util/error.h"
#include "base/util/clock.h"
#include "runtime/hotspot/hotspot.h"
#include "sampling/process/dynamic-symbol.h"

#define BATCH_NS (2 * NS_PER_MS)        /* frames of one stack are asked for within it */

typedef struct HotspotState {
        Hotspot *hotspot;               /* NULL = not ready */
        HotspotFrames frames;           /* of the last question */
        uint64_t batch_ns;
        int fd;
        pid_t pid;
} HotspotState;

static bool recognises(int fd, uint64_t size) {
        DynamicImage image;
        Elf64_Sym symbol;
        uint32_t index;

        return dynamic_image_init(&image, fd, NULL, size) && dynamic_image_find_tables(&image) &&
               dynamic_image_find(&image, hotspot_symbol_names[0], &index, &symbol);
}

static void detach(void *userdata) {
        HotspotState *state = userdata;

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
        entry->n_heaps = code->n_heaps;
        entry->segment_shift = code->heaps[0].log2_segment;
        entry->low = low;
        entry->size = end - low;
        entry->interpreter = code->interpreter_low;
        entry->interpreter_size = code->interpreter_high - code->interpreter_low;
        entry->call_stub = code->call_stub_return;
        return true;
}

/* Return: 0, RUNTIME_E_*. */
static int fill_entry(struct hotspot_process *entry, const HotspotState *state, uint64_t generation) {
        const HotspotReader *reader = hotspot_memory_reader(hotspot_memory(state->hotspot));
        const HotspotLayout *layout = hotspot_layout(state->hotspot);
        const HotspotCode *code = hotspot_code(state->hotspot);
        int r;

        entry->generation = generation;
        fill_fields(entry, layout);
        entry->header_size = (uint16_t)header_size(entry);
        if (!fill_heaps(entry, code) || header_size(entry) > HOTSPOT_MAX_HEADER ||
            entry->block_used >= 16 || !entry->verified_entry.size)
                return RUNTIME_E_UNKNOWN;
        r = hotspot_code_find(code, layout, reader, entry->interpreter, &entry->interpreter_blob);
        return r ? RUNTIME_E_LATER : 0;
}

/* ---- attach ---- */

static int open_hotspot(HotspotState *state, const RuntimeSubject *subject, char reason[HOTSPOT_MAX_REASON]) {
        const HotspotReader source = { hotspot_process_read, &state->pid };
        int r = hotspot_new(&state->hotspot, &source, state->fd, subject->size, subject->bias, reason);

        if (r < 0)
                return error_fold(r);
        return !r ? 0 : r == HOTSPOT_E_LATER ? RUNTIME_E_LATER : RUNTIME_E_UNKNOWN;
}

static int attach(RuntimeSubject *subject, void **statep, void *entry, char text[RUNTIMES_MAX_TEXT]) {
        char reason[HOTSPOT_MAX_REASON] = "java: layout unknown";
        HotspotState *state = *statep;
        int r;

        if (!state) {
                state = calloc(1, sizeof(*state));
                if (!state)
                        return error_origin(-ENOMEM);
                state->fd = take_fd(subject->fd);
                state->pid = subject->pid;
                *statep = state;
        }
        state->hotspot = hotspot_free(state->hotspot);
        r = open_hotspot(state, subject, reason);
        if (!r && !hotspot_code(state->hotspot)->call_stub_return)
                r = RUNTIME_E_LATER;
        if (!r) {
                snprintf(reason, sizeof(reason), "java %u", hotspot_layout(state->hotspot)->version);
                r = fill_entry(entry, state, subject->generation);
                if (r == RUNTIME_E_UNKNOWN)
                        snprintf(reason + strlen(reason), sizeof(reason) - strlen(reason),
                                 ": layout unknown: code cache");
        }
        if (r <= 0 || r == RUNTIME_E_UNKNOWN)
                snprintf(text, RUNTIMES_MAX_TEXT, "%s%s", reason,
                         r == RUNTIME_E_UNKNOWN ? ", falls back to perf maps" : "");
        return r;
}

/* ---- names ---- */

static const char *text_or_null(const char *text) {
        return text && *text ? text : NULL;
}

static int frames(void *userdata, const uint64_t *words, RuntimeFrame *frames, size_t max, size_t *np) {
        uint64_t now_ns = clock_monotonic_ns();
        HotspotState *state = userdata;
        int r;

        if (now_ns - state->batch_ns > BATCH_NS) {
                hotspot_begin(state->hotspot);
                state->batch_ns = now_ns;
        }
        r = hotspot_frames(state->hotspot, words, &state->frames);
        if (r)
                return r < 0 ? error_fold(r) : RUNTIME_E_UNNAMED;
        *np = MIN((size_t)state->frames.n, max);
        for (size_t i = 0; i < *np; i++) {
                const HotspotFrame *frame = &state->frames.frames[i];

                frames[i] = (RuntimeFrame){ .function = frame->name, .file = text_or_null(frame->file),
                                            .line = frame->line };
        }
        return 0;
}

const RuntimeOps hotspot_runtime = {
        .name = "hotspot",
        .frame_type = "jvm",
        .entry_size = sizeof(struct hotspot_process),
        .recognises = recognises,
        .attach = attach,
        .detach = detach,
        .frames = frames,
};
