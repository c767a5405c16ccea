/* SPDX-License-Identifier: Apache-2.0 */

/*
 * LLVM has compiled a query for PostgreSQL, and handed one .eh_frame to libgcc (unwind-dw2-fde.h):
 *
 *     libgcc_s.so.1    mutex { 0 … }, seen 0, unseen ─┐
 *     heap             { pc -1, 0, 0, 0x7f31c0003000, flags, next 0 } ←┘
 *     0x7f31c0003000   CIE, FDE pcrel -0x3010 (= 0x7f31c0000000) 96 bytes, FDE …, 0
 *
 * A search moves an object to `seen` and sorts it: then a vector of FDEs stands in place of the section, which
 * begins with the section's address. An object may also be of an array of sections.
 *
 * From gcc 13 on there is a tree of such objects by the addresses of their code (unwind-dw2-btree.h):
 *
 *     libgcc_s.so.1    root ─┐, 0, lock 24
 *     heap             node { lock 8, 2 entries, inner: { up to 0x7f31c000ffff, child ─┐ }, … }
 *     heap             node { lock 4, 10 entries, leaf: { 0x7f31c0000000, 96, object }, … } ←┘
 *
 * Whoever changes a node sets bit 0 of its lock, and then adds 4. The tree's own lock does the same when a
 * change begins. A node that has the same even lock and the same bytes in both reads was so in between. So
 * there was a moment, between the reads, at which all was as it was read. Objects are sorted under the mutex.
 *
 * LLVM's libunwind has an array of functions, each of which was handed over alone (UnwindCursor.hpp):
 *
 *     libunwind.so.1   begin, used, end; lock { 1 … }         bit 1: somebody writes
 *     begin            { group, 0x7f31c0000000, 0x7f31c0000060, FDE }, …
 *
 * FDEs with one CIE are read as one section, from the CIE to the last of them. What lies there beside them
 * was not handed over, and is passed by.
 *
 * Entries are handed on as they are. Only two fields are another place's, and are written anew: an FDE's
 * distance to its CIE, and that of its code.
 *
 * What may go wrong, and what then: libgcc stores a head before the next pointer of what it points to, and
 * frees objects. So whoever reads beside it may follow anything, and lists may be longer than they ever were.
 * Such a read has met the mutex locked, or the second read differs.
 *
 * A compiler may also unmap a section that it has registered. It makes no sense then, which ends a section,
 * an array or a list, and nothing else. Rows of all others hold.
 */
#include "host/sampling/unwind/made/frame-registry.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/data/intern.h"
#include "core/base/util/array.h"
#include "core/base/util/error.h"
#include "core/base/util/macro.h"
#include "host/sampling/unwind/cfi/encoding.h"
#include "host/sampling/unwind/cfi/entry.h"
#include "host/sampling/unwind/made/made-code.h"

enum {
        PAGE = 4096,
        MAX_READ = 65536,               /* bytes that are read at once */
        IS_SORTED = 1,                  /* bits of an object's flags */
        IS_ARRAY = 2,
        MAX_FUNCTION = 16 << 20,        /* bytes */
        ID_AT = 4,                      /* place of the id in an entry of the 32-bit format */
};

/* libgcc's struct object. */
typedef struct FrameObject {
        uint64_t pc_begin, tbase, dbase, frames, flags, next;
} FrameObject;

typedef struct FrameSection {
        uint64_t begin;
        uint8_t *data;                  /* owned */
        uint64_t size;                  /* bytes before its end */
        uint32_t n_read, room;          /* bytes that were read, whole pages at its end, and room for more */
        uint64_t hash;
        uint32_t first, n;              /* among LLVM's functions; n 0 = all that it has count */
} FrameSection;

/* An entry of LLVM's array: a FDE, the CIE that it names, and the address of its code. */
typedef struct ArrayFunction {
        uint64_t cie, fde, start;
        uint64_t end;                   /* end of the FDE's code */
} ArrayFunction;

typedef struct Lists {
        const FrameMemory *memory;
        FrameSection *sections;
        uint32_t n, room;
        uint32_t n_objects;
        uint64_t n_bytes;
        uint32_t n_followed;            /* bytes of code that is named */
        uint32_t n_malformed, n_over_cap;
        uint64_t *nodes;                /* nodes of a tree to read, from the root on */
        uint32_t n_nodes, nodes_room;
        uint64_t hash;                  /* a hash of a tree's nodes and locks, or of LLVM's array */
        ArrayFunction *functions;       /* entries of LLVM's array, by CIE, FDE, start */
        uint32_t n_functions;
} Lists;

static void free_lists(Lists *lists) {
        for (uint32_t i = 0; i < lists->n; i++)
                free(lists->sections[i].data);
        free(lists->sections);
        free(lists->nodes);
        free(lists->functions);
}

void frame_set_deinit(FrameSet *set) {
        free(set->data);
        *set = (FrameSet){ 0 };
}

static bool read_memory(const FrameMemory *memory, uint64_t address, void *to, size_t size) {
        return address <= UINT64_MAX - size && memory->read(memory->userdata, address, to, size);
}

/* ---- the lists ---- */

enum {
        _SECTION_E_SUCCESS,
        SECTION_E_GONE,                 /* memory ends before the section does */
};

/* Reads on, by pages, until @size bytes are there. Return: 0, SECTION_E_GONE, -ENOMEM. */
static int extend(Lists *lists, FrameSection *section, uint64_t size) {
        while (section->n_read < size) {
                uint64_t at = section->begin + section->n_read;
                uint32_t n = (uint32_t)(PAGE - at % PAGE);
                int r = array_reserve(&section->data, &section->room, section->n_read + n, PAGE);

                if (r)
                        return r;
                if (!read_memory(lists->memory, at, section->data + section->n_read, n))
                        return SECTION_E_GONE;
                section->n_read += n;
        }
        return 0;
}

/* Return: 0, SECTION_E_GONE, -ENOMEM. A section that makes no sense ends there. */
static int follow_section(Lists *lists, FrameSection *section) {
        uint64_t max = MIN((uint64_t)FRAME_REGISTRY_MAX_SECTION, FRAME_REGISTRY_MAX_BYTES - lists->n_bytes);

        for (;;) {
                uint32_t length;
                int r;

                if (section->size + sizeof(length) > max) {
                        lists->n_over_cap++;
                        return 0;
                }
                r = extend(lists, section, section->size + sizeof(length));
                if (r)
                        return r;
                memcpy(&length, section->data + section->size, sizeof(length));
                if (!length)
                        return 0;
                if (length > ENTRY_MAX_SIZE || length < sizeof(uint32_t)) {
                        lists->n_malformed++;
                        return 0;
                }
                if (section->size + sizeof(length) + length > max) {
                        lists->n_over_cap++;
                        return 0;
                }
                r = extend(lists, section, section->size + sizeof(length) + length);
                if (r)
                        return r;
                section->size += sizeof(length) + length;
        }
}

/* Return: 0, -ENOMEM. */
static int add_section(Lists *lists, uint64_t begin) {
        FrameSection *section;
        int r;

        if (lists->n >= FRAME_REGISTRY_MAX_OBJECTS) {
                lists->n_over_cap++;
                return 0;
        }
        r = array_reserve(&lists->sections, &lists->room, lists->n + 1u, 16);
        if (r)
                return r;
        section = &lists->sections[lists->n++];
        *section = (FrameSection){ .begin = begin };
        r = follow_section(lists, section);
        if (r < 0)
                return r;
        lists->n_malformed += r == SECTION_E_GONE;
        section->hash = hash_bytes(section->data, section->size);
        /* bytes of an entry that is not whole count, too */
        lists->n_bytes += r ? MIN((uint64_t)section->n_read, FRAME_REGISTRY_MAX_BYTES - lists->n_bytes)
                            : section->size;
        return 0;
}

/* Return: as add_section(). */
static int add_array(Lists *lists, uint64_t address) {
        int r = 0;

        for (uint32_t i = 0; !r; i++) {
                uint64_t begin;

                if (!read_memory(lists->memory, address + i * sizeof(begin), &begin, sizeof(begin))) {
                        lists->n_malformed++;
                        return 0;
                }
                if (!begin)
                        return 0;
                if (i == FRAME_REGISTRY_MAX_OBJECTS || lists->n >= FRAME_REGISTRY_MAX_OBJECTS) {
                        lists->n_over_cap++;
                        return 0;
                }
                r = add_section(lists, begin);
        }
        return r;
}

/* Return: as add_section(). */
static int add_object(Lists *lists, const FrameObject *object) {
        uint64_t frames = object->frames;

        if (object->flags & IS_SORTED && !read_memory(lists->memory, frames, &frames, sizeof(frames))) {
                lists->n_malformed++;
                return 0;
        }
        return object->flags & IS_ARRAY ? add_array(lists, frames) : add_section(lists, frames);
}

/* Return: 0, FRAME_REGISTRY_E_CHANGED, -ENOMEM. */
static int follow_list(Lists *lists, uint64_t head) {
        uint64_t at;
        int r = read_memory(lists->memory, head, &at, sizeof(at)) ? 0 : FRAME_REGISTRY_E_CHANGED;

        while (!r && at) {
                FrameObject object;

                if (lists->n_objects == FRAME_REGISTRY_MAX_OBJECTS) {
                        lists->n_over_cap++;
                        return 0;
                }
                lists->n_objects++;
                if (!read_memory(lists->memory, at, &object, sizeof(object))) {
                        lists->n_malformed++;
                        return 0;
                }
                r = add_object(lists, &object);
                at = object.next;
        }
        return r;
}

/* ---- the tree ---- */

enum {
        NODE_IS_CHANGED = 1,            /* bit of its lock */
        NODE_INNER = 0,
        NODE_LEAF = 1,
        NODE_WORDS = 30,
        INNER_WORDS = 2,                /* words of an entry: up to which address, child */
        LEAF_WORDS = 3,                 /* address, bytes, object */
};

/* libgcc's struct btree_node. */
typedef struct FrameNode {
        uint64_t lock;
        uint32_t n, type;
        uint64_t words[NODE_WORDS];
} FrameNode;

/* Return: as add_section(). */
static int add_node(Lists *lists, uint64_t address) {
        int r;

        if (lists->n_nodes == FRAME_REGISTRY_MAX_OBJECTS) {
                lists->n_over_cap++;
                return 0;
        }
        r = array_reserve(&lists->nodes, &lists->nodes_room, lists->n_nodes + 1u, 16);
        if (!r)
                lists->nodes[lists->n_nodes++] = address;
        return r;
}

/* An entry of a leaf. Return: as add_section(). */
static int add_entry(Lists *lists, uint64_t address) {
        FrameObject object = { 0 };

        if (lists->n_objects == FRAME_REGISTRY_MAX_OBJECTS) {
                lists->n_over_cap++;
                return 0;
        }
        lists->n_objects++;
        if (!read_memory(lists->memory, address, &object, offsetof(FrameObject, next))) {
                lists->n_malformed++;
                return 0;
        }
        return add_object(lists, &object);
}

/* Return: 0, FRAME_REGISTRY_E_CHANGED, -ENOMEM. */
static int follow_node(Lists *lists, uint64_t address) {
        FrameNode node;
        uint32_t words;
        int r = 0;

        if (!read_memory(lists->memory, address, &node, sizeof(node))) {
                lists->n_malformed++;
                return 0;
        }
        if (node.lock & NODE_IS_CHANGED)
                return FRAME_REGISTRY_E_CHANGED;
        lists->hash = (lists->hash * 31 + address) * 31 + hash_bytes(&node, sizeof(node));
        words = node.type == NODE_LEAF ? LEAF_WORDS : INNER_WORDS;
        if (node.type > NODE_LEAF || node.n > NODE_WORDS / words) {
                lists->n_malformed++;
                return 0;
        }
        for (uint32_t i = 0; i < node.n && !r; i++)
                r = node.type == NODE_LEAF ? add_entry(lists, node.words[i * LEAF_WORDS + 2])
                                           : add_node(lists, node.words[i * INNER_WORDS + 1]);
        return r;
}

/* Return: as follow_node(). */
static int follow_tree(Lists *lists, uint64_t tree) {
        uint64_t root, lock;
        int r = 0;

        if (!read_memory(lists->memory, tree + FRAME_TREE_LOCK, &lock, sizeof(lock)) ||
            lock & NODE_IS_CHANGED || !read_memory(lists->memory, tree, &root, sizeof(root)))
                return FRAME_REGISTRY_E_CHANGED;
        lists->hash = lock;
        if (root)
                r = add_node(lists, root);
        for (uint32_t i = 0; i < lists->n_nodes && !r; i++)
                r = follow_node(lists, lists->nodes[i]);
        return r;
}

/* ---- LLVM's array ---- */

enum {
        ARRAY_CHUNK = 1024,             /* entries that are read at once */
        IS_WRITTEN = 2,                 /* bit of the lock: glibc's writer; musl's, too, and some of its readers */
};

/* libunwind's DwarfFDECache::entry. */
typedef struct ArrayEntry {
        uint64_t group, pc_begin, pc_end, fde;
} ArrayEntry;

/* Return: whether it is a FDE. */
static bool read_fde(const FrameMemory *memory, const ArrayEntry *entry, ArrayFunction *function) {
        uint32_t head[2];               /* the FDE's length, and the distance of its CIE from here */

        if (!read_memory(memory, entry->fde, head, sizeof(head)) || head[0] < sizeof(head[1]) ||
            head[0] > ENTRY_MAX_SIZE || !head[1] || head[1] > FRAME_REGISTRY_MAX_SECTION)
                return false;
        *function = (ArrayFunction){ .cie = entry->fde + ID_AT - head[1],
                                     .fde = entry->fde,
                                     .start = entry->pc_begin,
                                     .end = entry->fde + ID_AT + head[0] };
        return function->cie < function->fde && function->fde < function->end;
}

static int compare_functions(const void *a, const void *b) {
        const ArrayFunction *one = a, *other = b;

        if (one->cie != other->cie)
                return one->cie < other->cie ? -1 : 1;
        if (one->fde != other->fde)
                return one->fde < other->fde ? -1 : 1;
        return one->start < other->start ? -1 : one->start > other->start;
}

/* Return: 0, FRAME_REGISTRY_E_CHANGED, -ENOMEM. */
static int read_array(Lists *lists, uint64_t begin, uint32_t n) {
        _cleanup_(freep) ArrayEntry *entries = malloc(ARRAY_CHUNK * sizeof(*entries));

        lists->functions = malloc(n * sizeof(*lists->functions));
        if (!entries || !lists->functions)
                return error_origin(-ENOMEM);
        for (uint32_t i = 0; i < n; i += ARRAY_CHUNK) {
                uint32_t n_here = MIN(n - i, (uint32_t)ARRAY_CHUNK);

                if (!read_memory(lists->memory, begin + i * sizeof(*entries), entries,
                                 n_here * sizeof(*entries)))
                        return FRAME_REGISTRY_E_CHANGED;
                lists->hash = lists->hash * 31 + hash_bytes(entries, n_here * sizeof(*entries));
                for (uint32_t j = 0; j < n_here; j++) {
                        if (read_fde(lists->memory, &entries[j], &lists->functions[lists->n_functions]))
                                lists->n_functions++;
                        else
                                lists->n_malformed++;
                }
        }
        /* allowed, as in make_set() */
        qsort(lists->functions, lists->n_functions, sizeof(*lists->functions), compare_functions);
        return 0;
}

/* Reads functions from @first on that have one CIE. *np: how many. Return: 0, -ENOMEM. */
static int add_group(Lists *lists, uint32_t first, uint32_t *np) {
        const ArrayFunction *functions = lists->functions + first;
        uint64_t max = MIN((uint64_t)FRAME_REGISTRY_MAX_SECTION, FRAME_REGISTRY_MAX_BYTES - lists->n_bytes);
        uint64_t begin = functions[0].cie, end = begin;
        FrameSection *section;
        uint32_t n = 0;
        int r;

        for (; first + n < lists->n_functions && functions[n].cie == begin &&
             functions[n].end - begin <= max; n++)
                end = MAX(end, functions[n].end);
        *np = MAX(n, 1u);
        if (!n) {
                lists->n_over_cap++;
                return 0;
        }
        r = array_reserve(&lists->sections, &lists->room, lists->n + 1u, 16);
        if (r)
                return r;
        section = &lists->sections[lists->n++];
        *section = (FrameSection){ .begin = begin, .first = first, .n = n };
        r = extend(lists, section, end - begin);
        if (r < 0)
                return r;
        section->size = MIN(end - begin, (uint64_t)section->n_read);
        section->hash = hash_bytes(section->data, section->size);
        lists->n_bytes += section->size;
        return 0;
}

/* Return: 0, FRAME_REGISTRY_E_CHANGED, -ENOMEM. */
static int follow_array(Lists *lists, const FrameVariables *variables) {
        uint64_t begin, used, n_there;
        uint32_t n;
        int r;

        if (!read_memory(lists->memory, variables->begin, &begin, sizeof(begin)) ||
            !read_memory(lists->memory, variables->used, &used, sizeof(used)) || used < begin ||
            (used - begin) % sizeof(ArrayEntry))
                return FRAME_REGISTRY_E_CHANGED;
        n_there = (used - begin) / sizeof(ArrayEntry);
        if (!n_there)
                return 0;
        n = (uint32_t)MIN(n_there, (uint64_t)FRAME_REGISTRY_MAX_OBJECTS);
        lists->n_over_cap += (uint32_t)MIN(n_there - n, (uint64_t)FRAME_REGISTRY_MAX_OBJECTS);
        lists->hash = begin * 31 + n_there;
        r = read_array(lists, begin, n);
        for (uint32_t i = 0; i < lists->n_functions && !r; i += n)
                r = add_group(lists, i, &n);
        return r;
}

static bool is_not_written(const FrameMemory *memory, uint64_t lock) {
        uint32_t word;

        return read_memory(memory, lock, &word, sizeof(word)) && !(word & IS_WRITTEN);
}

/* ---- all of them ---- */

/* The lock of a mutex: its first word (glibc), or the second (musl), of which the other is 0 here. */
static bool is_free(const FrameMemory *memory, uint64_t lock) {
        uint64_t word;

        return read_memory(memory, lock, &word, sizeof(word)) && !word;
}

/* Return: 0, FRAME_REGISTRY_E_CHANGED, -ENOMEM. */
static int read_lists(Lists *lists, const FrameVariables *variables) {
        bool (*may_read)(const FrameMemory *, uint64_t) = variables->used ? is_not_written : is_free;
        int r = may_read(lists->memory, variables->lock) ? 0 : FRAME_REGISTRY_E_CHANGED;

        if (!r && variables->used)
                r = follow_array(lists, variables);
        else if (!r && !variables->seen)
                r = follow_tree(lists, variables->unseen);
        else if (!r)
                r = follow_list(lists, variables->unseen) ?: follow_list(lists, variables->seen);
        if (!r && !may_read(lists->memory, variables->lock))
                r = FRAME_REGISTRY_E_CHANGED;
        return r;
}

static bool are_equal(const Lists *a, const Lists *b) {
        if (a->n != b->n || a->n_objects != b->n_objects || a->n_malformed != b->n_malformed ||
            a->n_over_cap != b->n_over_cap || a->hash != b->hash)
                return false;
        for (uint32_t i = 0; i < a->n; i++)
                if (a->sections[i].begin != b->sections[i].begin ||
                    a->sections[i].size != b->sections[i].size ||
                    a->sections[i].hash != b->sections[i].hash)
                        return false;
        return true;
}

/* ---- functions ---- */

typedef struct Function {
        uint64_t start, end;
        uint32_t section, offset, size;         /* where its FDE is; entries are at most ENTRY_MAX_SIZE */
        uint32_t cie;                   /* offset of its CIE there */
        uint32_t cie_size;
        uint8_t encoding;
} Function;

typedef struct Functions {
        Function *items;
        uint32_t n, room;
        uint32_t n_malformed;
} Functions;

/* Bytes of a pointer that can be written anew, 0 = it cannot. */
static uint32_t pointer_size(uint8_t encoding) {
        if (encoding & PE_INDIRECT || ((encoding & PE_BASE) != PE_ABS && (encoding & PE_BASE) != PE_PCREL))
                return 0;
        switch (encoding & PE_FORMAT) {
        case PE_ABSPTR:
        case PE_UDATA8:
        case PE_SDATA8:
                return 8;
        case PE_UDATA4:
        case PE_SDATA4:
                return 4;
        default:
                return 0;
        }
}

static bool is_sound(const Function *function, const Entry *entry, const Entry *cie) {
        return !entry->is_64 && cie->is_cie && !cie->is_64 && pointer_size(function->encoding) &&
                function->end - function->start <= MAX_FUNCTION && !(function->end >> 47);
}

/* Return: 0, -ENOMEM. */
static int add_function(Functions *functions, CieCache *cies, Reader *reader, const Entry *entry,
                        uint32_t section) {
        Function function = { .section = section, .offset = (uint32_t)entry->offset,
                              .size = (uint32_t)entry->size, .cie = (uint32_t)entry->cie_offset };
        Entry cie;
        Fde fde;
        int r;

        if (fde_read(&fde, reader, cies, entry)) {
                functions->n_malformed++;
                return 0;
        }
        function.start = fde.start;
        function.end = fde.end;
        function.encoding = fde.cie->encoding;
        if (!fde.start)                 /* dropped by the linker */
                return 0;
        if (entry_read(&cie, reader, cies->section, entry->cie_offset) ||
            !is_sound(&function, entry, &cie)) {
                functions->n_malformed++;
                return 0;
        }
        function.cie_size = (uint32_t)cie.size;
        r = array_reserve(&functions->items, &functions->room, functions->n + 1u, 64);
        if (!r)
                functions->items[functions->n++] = function;
        return r;
}

/* Functions of LLVM's array that lie in a section. Return: 0, -ENOMEM. */
static int read_registered(Functions *functions, CieCache *cies, Reader *reader, const FrameSection *from,
                           uint32_t number, const ArrayFunction *registered) {
        int r = 0;

        for (uint32_t i = 0; i < from->n && !r; i++) {
                uint32_t before = functions->n;
                Entry entry;

                if (i && registered[i].fde == registered[i - 1].fde &&
                    registered[i].start == registered[i - 1].start)
                        continue;
                if (entry_read(&entry, reader, cies->section, registered[i].fde - from->begin) ||
                    entry.is_cie || entry.cie_offset) {
                        functions->n_malformed++;
                        continue;
                }
                r = add_function(functions, cies, reader, &entry, number);
                /* another one's, whose maker has not taken it out */
                if (functions->n > before && functions->items[before].start != registered[i].start) {
                        functions->n = before;
                        functions->n_malformed++;
                }
        }
        return r;
}

static int read_section(Functions *functions, const Lists *lists, uint32_t number) {
        const FrameSection *from = &lists->sections[number];
        const CfiSection section = { .address = from->begin, .size = from->size };
        CieCache *cies = calloc(1, sizeof(*cies));
        Reader reader, cie_reader;
        uint64_t offset = 0;
        Entry entry;
        int r = 0;

        if (!cies)
                return error_origin(-ENOMEM);
        reader_init_memory(&reader, from->data, from->size);
        reader_init_memory(&cie_reader, from->data, from->size);
        cies->reader = &cie_reader;
        cies->section = &section;
        if (from->n)
                r = read_registered(functions, cies, &reader, from, number, lists->functions + from->first);
        while (!r && !from->n && !entry_read(&entry, &reader, &section, offset)) {
                if (!entry.is_cie)
                        r = add_function(functions, cies, &reader, &entry, number);
                offset += entry.size;
        }
        reader_deinit(&cie_reader);
        reader_deinit(&reader);
        free(cies);
        return r;
}

static int compare(const void *a, const void *b) {
        const Function *one = a, *other = b;

        if (one->start != other->start)
                return one->start < other->start ? -1 : 1;
        if (one->section != other->section)
                return one->section < other->section ? -1 : 1;
        return one->offset < other->offset ? -1 : one->offset > other->offset;
}

/* ---- functions that nobody has registered ---- */

/* @functions: in order, and may overlap. */
static bool is_described(const Functions *functions, const MadeRun *run) {
        uint32_t low = 0, high = functions->n;

        while (low < high) {
                uint32_t middle = low + (high - low) / 2;

                if (functions->items[middle].start < run->end)
                        low = middle + 1;
                else
                        high = middle;
        }
        /* an overlap before that one is cut where it begins (cfi.h) */
        return low && functions->items[low - 1].end > run->start;
}

static bool read_code(const FrameMemory *memory, uint64_t address, uint8_t *to, uint32_t size) {
        for (uint32_t at = 0; at < size; at += MAX_READ)
                if (!read_memory(memory, address + at, to + at, MIN(size - at, (uint32_t)MAX_READ)))
                        return false;
        return true;
}

static bool is_sound_code(const MadeRun *run) {
        return run->start < run->end && run->end - run->start <= FRAME_REGISTRY_MAX_CODE && !(run->end >> 47);
}

/* Return: 0, -ENOMEM. */
static int follow_code(Lists *lists, const MadeRun *run, uint8_t *code, MadeCode *made) {
        uint32_t size = (uint32_t)(run->end - run->start);

        if (made->size > FRAME_REGISTRY_MAX_SECTION / 2 ||
            size > FRAME_REGISTRY_MAX_FOLLOWED - lists->n_followed) {
                lists->n_over_cap++;
                return 0;
        }
        lists->n_followed += size;
        if (!read_code(lists->memory, run->start, code, size)) {
                lists->n_malformed++;
                return 0;
        }
        return made_code_add(made, code, size, run->start);
}

static int compare_runs(const void *a, const void *b) {
        const MadeRun *one = a, *other = b;

        if (one->start != other->start)
                return one->start < other->start ? -1 : 1;
        return one->end < other->end ? -1 : one->end > other->end;
}

/*
 * Follows @runs, in order. One that begins in another is a part of that: nothing calls it. Several names may
 * be of one run. Return: 0, -ENOMEM.
 */
static int follow_all_code(Lists *lists, const Functions *functions, const MadeRun *runs, uint32_t n,
                           MadeCode *made) {
        _cleanup_(freep) uint8_t *code = malloc(FRAME_REGISTRY_MAX_CODE);
        const MadeRun *last = NULL;
        int r = code ? 0 : error_origin(-ENOMEM);

        for (uint32_t i = 0; i < n && !r; i++) {
                if (last && runs[i].start == last->start && runs[i].end == last->end)
                        continue;
                if (!is_sound_code(&runs[i]) || (last && runs[i].start < last->end)) {
                        lists->n_malformed++;
                        continue;
                }
                last = &runs[i];
                if (!is_described(functions, last))
                        r = follow_code(lists, last, code, made);
        }
        return r;
}

/* A section for functions that are named and have no rows. Return: 0, -ENOMEM. */
static int add_code(Lists *lists, const Functions *functions, const MadeRun *named, uint32_t n_named) {
        _cleanup_(freep) MadeRun *runs = n_named ? malloc(n_named * sizeof(*runs)) : NULL;
        MadeCode made = { 0 };
        int r;

        if (!n_named)
                return 0;
        if (!runs)
                return error_origin(-ENOMEM);
        memcpy(runs, named, n_named * sizeof(*runs));
        qsort(runs, n_named, sizeof(*runs), compare_runs);      /* as make_set() */
        r = follow_all_code(lists, functions, runs, n_named, &made);
        if (!r && made.size)
                r = array_reserve(&lists->sections, &lists->room, lists->n + 1u, 16);
        if (r || !made.size) {
                made_code_deinit(&made);
                return r;
        }
        lists->sections[lists->n++] = (FrameSection){ .data = made.frames, .size = made.size };
        return 0;
}

/* ---- a set of them ---- */

typedef struct Writer {
        const Lists *lists;
        FrameSet *set;
        uint32_t room;
        /* the CIE that was written last: of which section, where there, and where in the output */
        uint32_t cie_section, cie_offset, cie_at;
        bool has_cie;
} Writer;

/* Room for @size more bytes. Return: 0, FRAME_REGISTRY_E_CHANGED = over the cap, -ENOMEM. */
static int reserve(Writer *writer, uint32_t size) {
        FrameSet *set = writer->set;

        if (size > FRAME_REGISTRY_MAX_BYTES - set->size)
                return FRAME_REGISTRY_E_CHANGED;
        return array_reserve(&set->data, &writer->room, set->size + size, 65536);
}

static void put(Writer *writer, const void *data, uint32_t size) {
        memcpy(writer->set->data + writer->set->size, data, size);
        writer->set->size += size;
}

/* Return: where it is in the output. */
static uint32_t put_cie(Writer *writer, const Function *function) {
        const FrameSection *section = &writer->lists->sections[function->section];

        if (writer->has_cie && writer->cie_section == function->section &&
            writer->cie_offset == function->cie)
                return writer->cie_at;
        writer->has_cie = true;
        writer->cie_section = function->section;
        writer->cie_offset = function->cie;
        writer->cie_at = writer->set->size;
        put(writer, section->data + function->cie, function->cie_size);
        return writer->cie_at;
}

/*
 * Writes a pointer to @target anew, which lies at @address in the file. Return: whether it can be said.
 */
static bool put_pointer(uint8_t *to, uint8_t encoding, uint64_t address, uint64_t target) {
        uint64_t value = (encoding & PE_BASE) == PE_PCREL ? target - address : target;
        uint32_t size = pointer_size(encoding);

        if (size == 4 && (encoding & PE_FORMAT) == PE_UDATA4 && value > UINT32_MAX)
                return false;
        if (size == 4 && (encoding & PE_FORMAT) == PE_SDATA4 && (int64_t)value != (int32_t)value)
                return false;
        memcpy(to, &value, size);
        return true;
}

/*
 * Adds one function to the section that begins at @begin in the output. Return: 0, FRAME_REGISTRY_E_CHANGED =
 * it has no room, -ENOMEM.
 */
static int put_function(Writer *writer, const Function *function, uint32_t begin, uint64_t address) {
        const FrameSection *section = &writer->lists->sections[function->section];
        FrameSet *set = writer->set;
        uint32_t before = set->size, at, distance;
        bool had_cie = writer->has_cie;
        int r = reserve(writer, function->size + function->cie_size);

        if (r)
                return r;
        at = put_cie(writer, function);
        distance = set->size + ID_AT - at;
        at = set->size;
        put(writer, section->data + function->offset, function->size);
        memcpy(set->data + at + ID_AT, &distance, sizeof(distance));
        at += ID_AT + (uint32_t)sizeof(distance);
        if (put_pointer(set->data + at, function->encoding, address + (at - begin), function->start)) {
                set->n_functions++;
                return 0;
        }
        set->n_malformed++;
        set->size = before;
        writer->has_cie = had_cie && writer->cie_at < before;
        return 0;
}

/* How many functions from @functions on lie in one area; *n_runsp: in how many runs of pages. */
static uint32_t find_cluster(const Function *functions, uint32_t n, MadeRun *runs, uint32_t *n_runsp) {
        uint32_t n_runs = 0, i;

        for (i = 0; i < n; i++) {
                uint64_t start = functions[i].start & ~(uint64_t)(PAGE - 1);
                uint64_t end = (functions[i].end + PAGE - 1) & ~(uint64_t)(PAGE - 1);
                MadeRun *last = n_runs ? &runs[n_runs - 1] : NULL;

                if (last && start <= last->end) {
                        if (end > runs[0].start + FRAME_REGISTRY_MAX_SPAN)
                                break;
                        last->end = MAX(last->end, end);
                        continue;
                }
                if (last && (start - last->end > FRAME_REGISTRY_MAX_GAP ||
                             end > runs[0].start + FRAME_REGISTRY_MAX_SPAN ||
                             n_runs == FRAME_REGISTRY_MAX_RUNS))
                        break;
                runs[n_runs++] = (MadeRun){ start, end };
        }
        *n_runsp = n_runs;
        return i;
}

/*
 * Writes @n functions as one area. Return: 0, FRAME_REGISTRY_E_CHANGED = it has no room, -ENOMEM.
 */
static int put_cluster(Writer *writer, const Function *functions, uint32_t n, const MadeRun *runs,
                       uint32_t n_runs) {
        FrameCluster cluster = { .low = runs[0].start, .high = runs[n_runs - 1].end, .n_runs = n_runs };
        uint64_t address = cluster.high + FRAME_SECTION_DISTANCE;
        static const uint8_t zeros[8 + sizeof(uint32_t)];
        FrameSet *set = writer->set;
        uint32_t at = set->size, begin;
        int r = reserve(writer, (uint32_t)(sizeof(cluster) + n_runs * sizeof(*runs)));

        if (r)
                return r;
        put(writer, &cluster, sizeof(cluster));
        put(writer, runs, (uint32_t)(n_runs * sizeof(*runs)));
        begin = set->size;
        writer->has_cie = false;
        for (uint32_t i = 0; i < n && !r; i++)
                r = put_function(writer, &functions[i], begin, address);
        if (!r)
                r = reserve(writer, sizeof(zeros));
        if (r)
                return r;
        put(writer, zeros, sizeof(uint32_t));
        cluster.size = set->size - begin;
        memcpy(set->data + at, &cluster, sizeof(cluster));
        put(writer, zeros, -set->size % 8);
        set->n_clusters++;
        return 0;
}

/* Return: 0, -ENOMEM. */
static int put_functions(Writer *writer, const Functions *functions) {
        MadeRun *runs = malloc(FRAME_REGISTRY_MAX_RUNS * sizeof(*runs));
        FrameSet *set = writer->set;
        uint32_t i = 0, n = 0, n_runs;
        int r = runs ? 0 : error_origin(-ENOMEM);

        for (; !r && i < functions->n; i += n) {
                uint32_t before = set->size, n_before = set->n_functions;

                if (set->n_clusters == FRAME_REGISTRY_MAX_CLUSTERS)
                        break;
                n = find_cluster(functions->items + i, functions->n - i, runs, &n_runs);
                r = put_cluster(writer, functions->items + i, n, runs, n_runs);
                if (!r)
                        continue;
                set->size = before;
                set->n_functions = n_before;
                if (r == FRAME_REGISTRY_E_CHANGED)
                        break;
        }
        set->n_over_cap += functions->n - i;
        free(runs);
        return MIN(r, 0);
}

/* Drops functions of sections from @n_sections on, unless nothing else is there. Return: how many. */
static uint32_t drop_sections(Functions *functions, uint32_t n_sections) {
        uint32_t n = 0, n_before = functions->n;

        for (uint32_t i = 0; i < n_before; i++)
                if (functions->items[i].section < n_sections)
                        functions->items[n++] = functions->items[i];
        functions->n = n ? n : n_before;
        return n_before - functions->n;
}

/*
 * The same of all functions, or of those in the first @n_registered sections, where named ones would take
 * their place. Return: 0, -ENOMEM.
 */
static int put_what_fits(const Lists *lists, Functions *functions, uint32_t n_registered, FrameSet *set) {
        FrameSet empty = *set;
        Writer writer = { .lists = lists, .set = set };
        uint32_t n_dropped;
        int r = put_functions(&writer, functions);

        if (r || set->n_over_cap == empty.n_over_cap)
                return r;
        n_dropped = drop_sections(functions, n_registered);
        if (!n_dropped)
                return 0;
        frame_set_deinit(set);
        *set = empty;
        set->n_over_cap += n_dropped;
        writer = (Writer){ .lists = lists, .set = set };
        return put_functions(&writer, functions);
}

static int make_set(Lists *lists, const MadeRun *named, uint32_t n_named, FrameSet *set) {
        Functions functions = { 0 };
        uint32_t n_registered = lists->n;
        int r = 0;

        for (uint32_t i = 0; i < n_registered && !r; i++)
                r = read_section(&functions, lists, i);
        /* allowed in a worker: whoever has forked it has sorted before (zygote-main.c) */
        if (!r && functions.n)
                qsort(functions.items, functions.n, sizeof(*functions.items), compare);
        if (!r)
                r = add_code(lists, &functions, named, n_named);
        if (!r && lists->n > n_registered)
                r = read_section(&functions, lists, n_registered);
        *set = (FrameSet){ .n_malformed = lists->n_malformed, .n_over_cap = lists->n_over_cap };
        if (!r && functions.n) {
                qsort(functions.items, functions.n, sizeof(*functions.items), compare);
                r = put_what_fits(lists, &functions, n_registered, set);
        }
        set->n_malformed += functions.n_malformed;
        free(functions.items);
        if (r)
                frame_set_deinit(set);
        return r;
}

int frame_registry_read(const FrameMemory *memory, const FrameVariables *variables, const MadeRun *named,
                        uint32_t n_named, FrameSet *set) {
        Lists first = { .memory = memory }, second = { .memory = memory };
        int r = read_lists(&first, variables);

        if (!r)
                r = read_lists(&second, variables);
        if (!r && !are_equal(&first, &second))
                r = FRAME_REGISTRY_E_CHANGED;
        free_lists(&second);
        if (!r)
                r = make_set(&first, named, n_named, set);
        free_lists(&first);
        return r;
}

/* ---- what a worker has sent ---- */

static bool are_pages(uint64_t low, uint64_t high) {
        return low < high && !(high >> 47) && low % PAGE == 0 && high % PAGE == 0;
}

static bool check_cluster(const FrameCluster *cluster, const uint8_t *data, uint64_t above) {
        uint64_t end = 0;

        if (!are_pages(cluster->low, cluster->high) || cluster->low < above ||
            cluster->high - cluster->low > FRAME_REGISTRY_MAX_SPAN)
                return false;
        for (uint32_t i = 0; i < cluster->n_runs; i++) {
                MadeRun run;

                memcpy(&run, data + i * sizeof(run), sizeof(run));
                if (!are_pages(run.start, run.end) || (i ? run.start <= end : run.start != cluster->low))
                        return false;
                end = run.end;
        }
        return end == cluster->high;
}

bool frame_set_check(const uint8_t *data, uint32_t size, uint32_t n) {
        uint64_t above = 0;

        if (n > FRAME_REGISTRY_MAX_CLUSTERS)
                return false;
        for (uint32_t i = 0; i < n; i++) {
                FrameCluster cluster;
                uint64_t need;

                if (size < sizeof(cluster))
                        return false;
                memcpy(&cluster, data, sizeof(cluster));
                if (!cluster.n_runs || cluster.n_runs > FRAME_REGISTRY_MAX_RUNS)
                        return false;
                need = sizeof(cluster) + cluster.n_runs * sizeof(MadeRun) +
                        (((uint64_t)cluster.size + 7) & ~UINT64_C(7));
                if (need > size || !check_cluster(&cluster, data + sizeof(cluster), above))
                        return false;
                above = cluster.high;
                data += need;
                size -= (uint32_t)need;
        }
        return !size;
}

FrameView frame_view(const uint8_t *data) {
        FrameView view;

        memcpy(&view.cluster, data, sizeof(view.cluster));
        view.runs = (const MadeRun *)(data + sizeof(view.cluster));
        view.section = (const uint8_t *)(view.runs + view.cluster.n_runs);
        view.size = sizeof(view.cluster) + view.cluster.n_runs * sizeof(MadeRun) +
                (((size_t)view.cluster.size + 7) & ~(size_t)7);
        return view;
}
