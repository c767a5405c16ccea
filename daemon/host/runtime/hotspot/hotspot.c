/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A name must not be another's. Of a compiled frame, the nmethod at its place must still have the compile id
 * of the tick before it is read, and once all its names are. If it has gone, the frame has no name: its class
 * may have gone with it, and another's Method may lie where the tick has seen one. If only its scopes cannot
 * be read, its own Method is named, without inlined frames (`is_short`).
 *
 * Of an interpreted frame, the Method must still have the ConstMethod of the tick, and be the one that ran:
 *
 *     unloaded classes   37                      38          39
 *     met before         Method 7f..a08: Cart.add
 *     tick                                       Method 7f..a08, stamp 38
 *     asked for                                              Method 7f..a08: Cart.add
 *
 * It is if no class was unloaded between the tick and the end of reading; or if the same method was there
 * when no more had been unloaded than at the tick, and is there now. Pages that are kept are read again once
 * a class was unloaded (@stamp).
 */
#include "host/runtime/hotspot/hotspot.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/data/hashmap.h"
#include "core/base/elf/machine.h"
#include "core/base/util/error.h"
#include "core/base/util/text.h"
#include "host/runtime/hotspot/hotspot-chunk.h"
#include "host/runtime/hotspot/hotspot-locks.h"
#include "host/runtime/hotspot/hotspot-published.h"

enum {
        MAX_STUB_NAME = 64,
        /* levels of tiered compilation: C1 with and without counting; above them C2, below none */
        C1_LOWEST = 1,
        C1_HIGHEST = 3,
};

#define ADDRESS_MASK ((UINT64_C(1) << 56) - 1)
#define OBJECT_MASK ((UINT64_C(1) << HOTSPOT_STAMP_SHIFT) - 1)

struct Hotspot {
        HotspotMemory *memory;          /* NULL: another's reader */
        const HotspotReader *reader;
        HotspotLayout layout;
        HotspotCode code;
        uint64_t bias;                  /* where libjvm is loaded */
        Hashmap methods;                /* Method * → HotspotMethod, owned */
        uint32_t stamp;                 /* no kept page is older; 0 = there is no count */
        HotspotMethod *replaced;        /* the last frames may have texts of these */
        char stub_name[3 * MAX_STUB_NAME + 1];
};

static void free_replaced(Hotspot *hotspot) {
        while (hotspot->replaced) {
                HotspotMethod *method = hotspot->replaced;

                hotspot->replaced = method->next;
                hotspot_method_free(method);
        }
}

static void forget_methods(Hotspot *hotspot) {
        HashmapEntry *entry;
        uint32_t at = 0;

        while ((entry = hashmap_next(&hotspot->methods, &at)))
                hotspot_method_free(entry->value);
        hashmap_deinit(&hotspot->methods);
}

/*
 * The layout is read anew for each process, 5 ms of CPU: it comes from memory that the process may have
 * changed, and must not say how another one with the same file is read.
 */
static int open_code(Hotspot *hotspot, const uint64_t *symbols, uint64_t bias, char *reason) {
        int r = hotspot_layout_read(&hotspot->layout, hotspot->reader, symbols, bias, reason);

        hotspot->bias = bias;
        if (r)
                return r == HOTSPOT_LAYOUT_E_UNKNOWN ? HOTSPOT_E_UNKNOWN : HOTSPOT_E_LATER;
        r = hotspot_code_read(&hotspot->code, &hotspot->layout, hotspot->reader, bias);
        if (!r && hotspot_chunk_read(&hotspot->layout, hotspot->reader, bias)) {
                snprintf(reason, HOTSPOT_MAX_REASON, "java %u: it has no classes yet", hotspot->layout.version);
                return HOTSPOT_E_LATER;
        }
        hotspot->layout.flags.has_no_loop_polls =
                !r && hotspot_published_no_loop_polls(&hotspot->layout, hotspot->reader, bias);
        if (!r)
                return 0;
        snprintf(reason, HOTSPOT_MAX_REASON, "java %u: %s", hotspot->layout.version,
                 r == HOTSPOT_CODE_E_MALFORMED ? "its code cache is like no JVM's" : "it still starts");
        return r == HOTSPOT_CODE_E_MALFORMED ? HOTSPOT_E_UNKNOWN : HOTSPOT_E_LATER;
}

int hotspot_new(Hotspot **hotspotp, const HotspotReader *source, int fd, uint64_t size, uint64_t bias,
                char reason[HOTSPOT_MAX_REASON]) {
        _cleanup_(hotspot_freep) Hotspot *hotspot = calloc(1, sizeof(*hotspot));
        int r;

        if (!hotspot)
                return error_origin(-ENOMEM);
        r = hotspot_memory_new(&hotspot->memory, source, fd, size, bias);
        if (r == HOTSPOT_MEMORY_E_NO_JVM) {
                snprintf(reason, HOTSPOT_MAX_REASON, "no HotSpot: it does not describe itself");
                return HOTSPOT_E_NO_JVM;
        }
        if (r)
                return error_fold(r);
        hotspot->reader = hotspot_memory_reader(hotspot->memory);
        r = open_code(hotspot, hotspot_memory_symbols(hotspot->memory), bias, reason);
        if (!r)
                *hotspotp = take(hotspot);
        return r;
}

int hotspot_new_over(Hotspot **hotspotp, const HotspotReader *reader,
                     const uint64_t symbols[HOTSPOT_N_SYMBOLS], uint64_t bias,
                     char reason[HOTSPOT_MAX_REASON]) {
        _cleanup_(hotspot_freep) Hotspot *hotspot = calloc(1, sizeof(*hotspot));
        int r;

        if (!hotspot)
                return error_origin(-ENOMEM);
        hotspot->reader = reader;
        r = open_code(hotspot, symbols, bias, reason);
        if (!r)
                *hotspotp = take(hotspot);
        return r;
}

Hotspot *hotspot_free(Hotspot *hotspot) {
        if (hotspot) {
                forget_methods(hotspot);
                free_replaced(hotspot);
                hotspot_memory_free(hotspot->memory);
        }
        free(hotspot);
        return NULL;
}

const HotspotLayout *hotspot_layout(const Hotspot *hotspot) {
        return &hotspot->layout;
}

const HotspotCode *hotspot_code(const Hotspot *hotspot) {
        return &hotspot->code;
}

const HotspotReader *hotspot_reader(const Hotspot *hotspot) {
        return hotspot->reader;
}

HotspotMemory *hotspot_memory(const Hotspot *hotspot) {
        return hotspot->memory;
}

void hotspot_begin(Hotspot *hotspot) {
        if (hotspot->memory)
                hotspot_memory_forget(hotspot->memory);
}

/* Reads @address as it is now. Return: false = it cannot be read. */
static bool read_again(Hotspot *hotspot, uint64_t address, void *to, size_t size) {
        return hotspot->memory ? hotspot_memory_read_again(hotspot->memory, address, to, size)
                               : hotspot_read(hotspot->reader, address, to, size);
}

/* 0: there is no count, or it cannot be read. */
static uint32_t stamp_now(Hotspot *hotspot) {
        uint64_t count;

        if (!hotspot->code.unloads || !read_again(hotspot, hotspot->code.unloads, &count, sizeof(count)))
                return 0;
        return hotspot_published_stamp(count);
}

/* The method at @address. What is kept of it is asked for its key each time. */
static int get_method(Hotspot *hotspot, uint64_t address, const HotspotMethod **methodp) {
        HotspotMethod *known = hashmap_get(&hotspot->methods, address);
        HotspotMethodKey key;
        int r;

        if (hotspot_method_key(&key, &hotspot->layout, hotspot->reader, address))
                return HOTSPOT_E_NAMELESS;
        if (!known || memcmp(&known->key, &key, sizeof(key))) {
                HotspotMethod *method = NULL;

                r = hotspot_method_new(&method, &hotspot->layout, hotspot->reader, address);
                if (r)
                        return r < 0 ? error_fold(r) : HOTSPOT_E_NAMELESS;
                r = hashmap_put(&hotspot->methods, address, method);
                if (r) {
                        hotspot_method_free(method);
                        return error_fold(r);
                }
                if (known) {
                        known->next = hotspot->replaced;
                        hotspot->replaced = known;
                }
                method->since = stamp_now(hotspot);
                known = method;
        }
        *methodp = known;
        return 0;
}

static int add_frame(Hotspot *hotspot, HotspotFrames *frames, HotspotFrameKind kind, uint64_t address,
                     int32_t bci) {
        const HotspotMethod *method = NULL;
        int r = get_method(hotspot, address, &method);

        if (r)
                return r;
        frames->frames[frames->n++] =
                (HotspotFrame){ .kind = kind,
                                .name = method->name,
                                .signature = method->parameters,
                                .file = method->file,
                                .line = method->code_size && bci != HOTSPOT_NO_BCI
                                                ? hotspot_method_line(method, bci)
                                                : 0,
                                .bci = MAX(bci, -1) };
        return 0;
}

/* Whether @method, which was read just now, is the one that ran at a tick with @stamp. */
static bool is_of_tick(Hotspot *hotspot, const HotspotMethod *method, uint32_t stamp) {
        if (!hotspot->code.unloads)
                return true;            /* no count tells */
        if (!stamp)
                return false;
        return (method->since && (int32_t)(method->since - stamp) <= 0) || stamp_now(hotspot) == stamp;
}

static int name_interpreted(Hotspot *hotspot, const uint64_t *words, HotspotFrames *frames) {
        uint64_t bcp = words[0] & ADDRESS_MASK, address = words[2] & OBJECT_MASK;
        uint32_t stamp = (uint32_t)(words[1] >> HOTSPOT_STAMP_SHIFT |
                                    words[2] >> HOTSPOT_STAMP_SHIFT << 16);
        const HotspotMethod *method = NULL;
        int r = get_method(hotspot, address, &method);

        if (r < 0)
                return error_fold(r);
        if (r || method->key.const_method != (words[1] & OBJECT_MASK))
                return stamp && stamp != stamp_now(hotspot) ? HOTSPOT_E_UNLOADED : HOTSPOT_E_NAMELESS;
        r = add_frame(hotspot, frames, HOTSPOT_FRAME_INTERPRETED, address,
                      bcp >= method->code && bcp < method->code + method->code_size
                              ? (int32_t)(bcp - method->code)
                              : -1);
        return r || is_of_tick(hotspot, method, stamp) ? r : HOTSPOT_E_UNLOADED;
}

/* A class that is unloaded takes its nmethods along first: they are free then, or have no method any more. */
static bool is_same_nmethod(Hotspot *hotspot, const uint64_t *words) {
        uint64_t address = (words[0] & ADDRESS_MASK) - (uint32_t)words[1], method;
        const HotspotLayout *layout = &hotspot->layout;
        uint32_t compile_id;
        uint8_t used;

        return read_again(hotspot, address + layout->nmethod.compile_id.offset, &compile_id,
                          sizeof(compile_id)) &&
               compile_id == (uint32_t)(words[1] >> 32) &&
               read_again(hotspot, address + layout->nmethod.method.offset, &method, sizeof(method)) &&
               method == words[2] &&
               read_again(hotspot, address - layout->heap.block_size + layout->heap.block_used.offset, &used,
                          sizeof(used)) &&
               used & 1;
}

/* Return: whether *np scopes are those of the nmethod that ran at the tick. */
static bool read_scopes(Hotspot *hotspot, const uint64_t *words, HotspotScope *scopes, uint32_t *np,
                        HotspotFrameKind *kindp, bool *is_shortp) {
        uint64_t pc = words[0] & ADDRESS_MASK, address = pc - (uint32_t)words[1];
        uint32_t compile_id = (uint32_t)(words[1] >> 32);
        HotspotBlob blob;
        const HotspotCompiled in = { &hotspot->code, &hotspot->layout, hotspot->reader, &blob };

        if (hotspot_blob_read(&blob, &hotspot->code, &hotspot->layout, hotspot->reader, address) ||
            blob.kind != HOTSPOT_COMPILED || blob.compile_id != compile_id || blob.method != words[2])
                return false;
        if (blob.level >= C1_LOWEST && blob.level <= C1_HIGHEST)
                *kindp = HOTSPOT_FRAME_C1;
        return !hotspot_scopes_read(scopes, np, &in, pc, is_shortp);
}

/* The method that was compiled, without what was inlined into it: into a native one, nothing is. */
static int name_short(Hotspot *hotspot, const uint64_t *words, HotspotFrameKind kind, HotspotFrames *frames) {
        const HotspotMethod *method = NULL;
        int r = get_method(hotspot, words[2], &method);

        if (r)
                return r;
        frames->n = 0;
        frames->is_short = method->code_size;
        return add_frame(hotspot, frames, kind, words[2], HOTSPOT_NO_BCI);
}

static int name_compiled(Hotspot *hotspot, const uint64_t *words, HotspotFrames *frames) {
        HotspotScope scopes[HOTSPOT_MAX_INLINED];
        HotspotFrameKind kind = HOTSPOT_FRAME_COMPILED;
        uint32_t n = 0;

        if (read_scopes(hotspot, words, scopes, &n, &kind, &frames->is_short)) {
                for (uint32_t i = 0; i < n; i++) {
                        int r = add_frame(hotspot, frames,
                                          i + 1 < n ? HOTSPOT_FRAME_INLINED : kind,
                                          scopes[i].method, scopes[i].bci);

                        if (r < 0)
                                return error_fold(r);
                        if (r)
                                break;
                        if (i + 1 == n && is_same_nmethod(hotspot, words))
                                return 0;
                }
        }
        return is_same_nmethod(hotspot, words) ? name_short(hotspot, words, kind, frames)
                                               : HOTSPOT_E_NAMELESS;
}

/*
 * The return barrier (bpf/arch/hotspot-code-*.bpf.h) is the stub that begins with `mov N(%r15),%rsp`, on arm64 with
 * `ldr x8, [x28, #N]; mov sp, x8`. Its frames have fixed names: what they stand for is not read.
 */
static bool is_barrier(Hotspot *hotspot, uint64_t pc) {
        uint32_t words[2];

        if (!hotspot_read(hotspot->reader, pc, words, sizeof(words)))
                return false;
        if (ELF_MACHINE == EM_AARCH64)
                return (words[0] & 0xffc003ff) == 0xf9400388 && words[1] == 0x9100011f;
        return (words[0] & 0xffffff) == 0xa78b49;
}

static int name_barrier(const uint64_t *words, HotspotFrames *frames) {
        bool is_entry = words[1] & HOTSPOT_ENTRY;

        frames->frames[frames->n++] = (HotspotFrame){
                .kind = is_entry ? HOTSPOT_FRAME_COMPILED : HOTSPOT_FRAME_STUB,
                .name = is_entry ? "jdk.internal.vm.Continuation.enterSpecial" : "[frames in the heap]",
                .signature = is_entry ? "(jdk.internal.vm.Continuation, boolean, boolean)" : "",
                .file = is_entry ? "Continuation.java" : "",
                .bci = -1,
        };
        return 0;
}

static int name_stub(Hotspot *hotspot, const uint64_t *words, HotspotFrames *frames) {
        char name[MAX_STUB_NAME + 1];
        HotspotBlob blob;

        if (is_barrier(hotspot, words[0] & ADDRESS_MASK))
                return name_barrier(words, frames);
        if (hotspot_blob_read(&blob, &hotspot->code, &hotspot->layout, hotspot->reader, words[2]) ||
            blob.kind == HOTSPOT_COMPILED ||
            !hotspot_blob_name(&blob, hotspot->reader, name, sizeof(name)))
                return HOTSPOT_E_NAMELESS;
        text_repair_utf8(hotspot->stub_name, name, strlen(name));
        frames->frames[frames->n++] = (HotspotFrame){
                .kind = HOTSPOT_FRAME_STUB, .name = hotspot->stub_name, .signature = "", .file = "", .bci = -1
        };
        return 0;
}

/* Pages that were read before the last class was unloaded. */
static void forget_old_pages(Hotspot *hotspot) {
        uint32_t now = stamp_now(hotspot);

        if (hotspot->memory && now != hotspot->stamp)
                hotspot_memory_forget(hotspot->memory);
        hotspot->stamp = now;
}

int hotspot_frames(Hotspot *hotspot, const uint64_t words[HOTSPOT_WORDS], HotspotFrames *framesp) {
        framesp->n = 0;
        framesp->is_short = false;
        free_replaced(hotspot);
        if (hotspot->memory)
                hotspot_memory_allow(hotspot->memory, HOTSPOT_MAX_CALLS);
        if (hotspot->methods.n_entries > HOTSPOT_MAX_METHODS - HOTSPOT_MAX_INLINED - 1)
                forget_methods(hotspot);
        forget_old_pages(hotspot);
        switch (words[0] >> 56) {
        case HOTSPOT_INTERPRETED:
                return name_interpreted(hotspot, words, framesp);
        case HOTSPOT_COMPILED:
                return name_compiled(hotspot, words, framesp);
        case HOTSPOT_BLOB:
                return name_stub(hotspot, words, framesp);
        default:
                return HOTSPOT_E_NAMELESS;
        }
}

void hotspot_locks(Hotspot *hotspot, RuntimeLocks *locks) {
        if (hotspot->memory)
                hotspot_memory_allow(hotspot->memory, HOTSPOT_LOCKS_CALLS);
        hotspot_begin(hotspot);
        hotspot_locks_read(locks, &hotspot->layout, hotspot->reader, hotspot->bias);
        hotspot_begin(hotspot);
}
