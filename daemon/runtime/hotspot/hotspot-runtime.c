/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The layout and the code heaps of one process go into the kernel half's entry, field by field: what moves from
 * release to release is an offset there, so that one program walks all of them (bpf/hotspot.bpf.h).
 *
 * Names are read when a frame is met, while the process lives.
 */
#include "runtime/hotspot/hotspot-runtime.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/util/error.h"
#include "runtime/hotspot/hotspot-code.h"
#include "runtime/hotspot/hotspot-layout.h"
#include "runtime/hotspot/hotspot-memory.h"
#include "sampling/process/dynamic-symbol.h"

typedef struct HotspotState {
        HotspotMemory *memory;
        HotspotLayout layout;
        bool has_layout;
        HotspotCode code;
        int fd;
        uint64_t bias;
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

        hotspot_memory_free(state->memory);
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
                entry->heaps[i] = (struct hotspot_heap){ heap->low, heap->end - heap->low, heap->segment_map };
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
        const HotspotReader *reader = hotspot_memory_reader(state->memory);

        entry->generation = generation;
        fill_fields(entry, &state->layout);
        entry->header_size = (uint16_t)header_size(entry);
        if (!fill_heaps(entry, &state->code) || header_size(entry) > HOTSPOT_MAX_HEADER ||
            entry->block_used >= 16 || !entry->verified_entry.size)
                return RUNTIME_E_UNKNOWN;
        return hotspot_code_find(&state->code, &state->layout, reader, entry->interpreter, &entry->interpreter_blob)
                       ? RUNTIME_E_LATER
                       : 0;
}

/* ---- attach ---- */

static int new_state(HotspotState **statep, RuntimeSubject *subject) {
        HotspotState *state = calloc(1, sizeof(*state));
        int r;

        if (!state)
                return error_origin(-ENOMEM);
        state->fd = take_fd(subject->fd);
        state->bias = subject->bias;
        r = hotspot_memory_new(&state->memory, subject->pid, state->fd, subject->size, subject->bias);
        if (r)
                detach(state);
        else
                *statep = state;
        return r;
}

static int attach(RuntimeSubject *subject, void **statep, void *entry, char text[RUNTIMES_MAX_TEXT]) {
        char reason[HOTSPOT_MAX_REASON] = "";
        const HotspotReader *reader;
        HotspotState *state = *statep;
        int r = state ? 0 : new_state(&state, subject);

        if (r)
                return r < 0 ? error_fold(r) : RUNTIME_E_UNKNOWN;
        *statep = state;
        hotspot_memory_forget(state->memory);
        reader = hotspot_memory_reader(state->memory);
        if (!state->has_layout) {
                r = hotspot_layout_read(&state->layout, reader, hotspot_memory_symbols(state->memory), state->bias,
                                        reason);
                if (r == HOTSPOT_LAYOUT_E_UNKNOWN)
                        snprintf(text, RUNTIMES_MAX_TEXT, "%s, falls back to perf maps", reason);
                if (r)
                        return r == HOTSPOT_LAYOUT_E_UNKNOWN ? RUNTIME_E_UNKNOWN : RUNTIME_E_LATER;
                state->has_layout = true;
        }
        r = hotspot_code_read(&state->code, &state->layout, reader, state->bias);
        if (r || !state->code.call_stub_return)
                return RUNTIME_E_LATER;
        r = fill_entry(entry, state, subject->generation);
        snprintf(text, RUNTIMES_MAX_TEXT, r == RUNTIME_E_UNKNOWN
                                                  ? "java %u: layout unknown: code cache, falls back to perf maps"
                                                  : "java %u", state->layout.version);
        return r;
}

/* ---- names ---- */

static int frames(void *userdata, const uint64_t *words, RuntimeFrame *frames, size_t max, size_t *np) {
        return RUNTIME_E_UNNAMED;
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
