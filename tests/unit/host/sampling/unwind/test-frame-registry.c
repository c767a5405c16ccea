/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Registered frames: those of this very process, which registers some with its own libgcc as a compiler at
 * run time does, and lists that say what no libgcc's should.
 */
#include <criterion/criterion.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "core/base/util/macro.h"
#include "host/sampling/unwind/made/frame-registry.h"
#include "host/sampling/unwind/made/made-image.h"
#include "host/sampling/unwind/tables/table.h"
#include "made-frames.h"

enum { AREA = 0x10000 };

/* ---- memory of this process, unless a case has a hand in it ---- */

static unsigned n_reads;
static void (*at_read)(unsigned n);     /* NULL = nobody writes meanwhile */

/* By the kernel: a section's reads end with its page, and not with what a sanitizer takes for its end. */
static bool read_own(void *userdata, uint64_t address, void *to, size_t size) {
        struct iovec here = { to, size }, there = { (void *)(uintptr_t)address, size };

        n_reads++;
        cr_assert_lt(n_reads, 16 * FRAME_REGISTRY_MAX_OBJECTS);
        cr_assert(size && size <= 64 << 10);
        if (at_read)
                at_read(n_reads);
        return process_vm_readv(getpid(), &here, 1, &there, 1, 0) == (ssize_t)size;
}

static const FrameMemory memory = { .read = read_own };

/* libgcc's own form. */
typedef struct FrameObject {
        uint64_t pc_begin, tbase, dbase, frames, flags, next;
} FrameObject;

static struct {
        uint64_t lock, seen, unseen;
} lists;
static FrameObject objects[4];
static uint8_t *sections, *code;
static const FrameVariables variables = { 0 };
static FrameSet set;

static FrameVariables own_variables(void) {
        return (FrameVariables){ .lock = (uintptr_t)&lists.lock,
                                 .unseen = (uintptr_t)&lists.unseen,
                                 .seen = (uintptr_t)&lists.seen };
}

static uint8_t *map_pages(size_t size) {
        void *pages = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

        cr_assert_neq(pages, MAP_FAILED);
        return pages;
}

static MadeFunctionFrame function_at(unsigned section, unsigned i) {
        return (MadeFunctionFrame){ code + section * AREA + i * 0x100, 0x80, 16 };
}

/* Section @i is of two functions. */
static void make_lists(unsigned n) {
        if (!sections) {
                sections = map_pages(4 * MADE_FRAMES_SIZE);
                code = map_pages(4 * AREA);
        }
        memset(&lists, 0, sizeof(lists));
        memset(objects, 0, sizeof(objects));
        at_read = NULL;
        for (unsigned i = 0; i < n; i++) {
                const MadeFunctionFrame two[] = { function_at(i, 0), function_at(i, 1) };

                made_frames(sections + i * MADE_FRAMES_SIZE, two, 2, i % 2);
                objects[i] = (FrameObject){ .pc_begin = UINT64_MAX,
                                            .frames = (uintptr_t)sections + i * MADE_FRAMES_SIZE,
                                            .flags = 0x7f8,
                                            .next = i + 1 < n ? (uintptr_t)&objects[i + 1] : 0 };
        }
        lists.unseen = n ? (uintptr_t)&objects[0] : 0;
}

static int read_lists(void) {
        const FrameVariables own = own_variables();

        frame_set_deinit(&set);
        n_reads = 0;
        return frame_registry_read(&memory, &own, NULL, 0, &set);
}

static FrameView first_view(void) {
        cr_assert(frame_set_check(set.data, set.size, set.n_clusters));
        cr_assert_eq(set.n_clusters, 1);
        return frame_view(set.data);
}

/* Asks the table of the image for the distance of the CFA from rsp at @pc. */
static int distance_at(const Table *table, const void *pc) {
        uint64_t rule = table_find(table, (uintptr_t)pc);

        return unwind_rule_cfa(rule) == UNWIND_CFA_RSP ? unwind_rule_offset(rule) : -1;
}

static Table make_table(const FrameView *view) {
        _cleanup_(table_builder_freep) TableBuilder *builder = NULL;
        _cleanup_(closep) int fd = -1;
        Table table;
        int r;

        cr_assert_eq(made_image_write(view, &fd), 0);
        cr_assert_eq(table_builder_new(&builder, fd, &TABLE_LIMITS_DEFAULT), 0);
        do
                r = table_builder_step(builder, 1 << 20, &table);
        while (r == TABLE_E_AGAIN);
        cr_assert_eq(r, 0);
        return table;
}

#if defined(__x86_64__)

Test(frame_registry, gives_rows_of_all_sections) {
        FrameView view;
        Table table;

        make_lists(3);
        cr_assert_eq(read_lists(), 0);
        cr_assert_eq(set.n_functions, 6);
        cr_assert_eq(set.n_malformed + set.n_over_cap, 0);
        view = first_view();
        cr_assert_eq(view.cluster.n_runs, 3);
        cr_assert_eq(view.cluster.low, (uintptr_t)code);
        cr_assert_eq(view.cluster.high, (uintptr_t)code + 2 * AREA + 4096);
        cr_assert_eq(view.runs[1].start, (uintptr_t)code + AREA);
        table = make_table(&view);
        for (unsigned i = 0; i < 3; i++) {
                const uint8_t *start = code + i * AREA + 0x100;

                cr_assert_eq(distance_at(&table, start), 8);
                cr_assert_eq(distance_at(&table, start + 3), 8);
                cr_assert_eq(distance_at(&table, start + 4), 24);
                cr_assert_eq(distance_at(&table, start + 0x7f), 24);
                cr_assert_eq(distance_at(&table, start + 0x80), -1);
        }
        cr_assert_eq(table.n_rows, 6 * 3);
        table_deinit(&table);
}

Test(frame_registry, reads_sorted_objects_and_arrays) {
        uint64_t vector[2] = { 0 }, array[3] = { 0 }, sorted_array[1];

        make_lists(3);
        vector[0] = objects[0].frames;
        objects[0].frames = (uintptr_t)vector;
        objects[0].flags |= 1;
        array[0] = objects[1].frames;
        array[1] = objects[2].frames;
        objects[1].frames = (uintptr_t)array;
        objects[1].flags |= 2;
        objects[1].next = 0;
        lists.seen = (uintptr_t)&objects[1];
        objects[0].next = 0;
        cr_assert_eq(read_lists(), 0);
        cr_assert_eq(set.n_functions, 6);
        sorted_array[0] = (uintptr_t)array;
        objects[1].frames = (uintptr_t)sorted_array;
        objects[1].flags |= 1;
        cr_assert_eq(read_lists(), 0);
        cr_assert_eq(set.n_functions, 6);
}

Test(frame_registry, may_be_empty) {
        make_lists(0);
        cr_assert_eq(read_lists(), 0);
        cr_assert_eq(set.n_clusters + set.size + set.n_functions, 0);
}

Test(frame_registry, has_an_area_for_code_that_lies_apart) {
        uint8_t *far = mmap(code, FRAME_REGISTRY_MAX_GAP + 4 * AREA, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        MadeFunctionFrame two[2];

        cr_assert_neq(far, MAP_FAILED);
        make_lists(1);
        two[0] = (MadeFunctionFrame){ far, 0x80, 16 };
        two[1] = (MadeFunctionFrame){ far + FRAME_REGISTRY_MAX_GAP + AREA, 0x80, 16 };
        made_frames(sections, two, 2, 0);
        cr_assert_eq(read_lists(), 0);
        cr_assert_eq(set.n_clusters, 2);
        cr_assert(frame_set_check(set.data, set.size, 2));
        cr_assert(!frame_set_check(set.data, set.size, 1));
}

Test(frame_registry, is_void_while_the_mutex_is_held) {
        make_lists(1);
        lists.lock = 1;
        cr_assert_eq(read_lists(), FRAME_REGISTRY_E_CHANGED);
        lists.lock = UINT64_C(1) << 32;         /* musl's */
        cr_assert_eq(read_lists(), FRAME_REGISTRY_E_CHANGED);
}

static unsigned change_at;

static void change_frame(unsigned n) {
        if (n == change_at)
                sections[60] ^= 1;
}

static void take_out(unsigned n) {
        if (n == change_at)
                lists.unseen = 0;
}

static void hold(unsigned n) {
        lists.lock = n == change_at;
}

/* A read has six accesses here: mutex, unseen, object, section, seen, mutex. */
Test(frame_registry, is_void_if_it_changes_between_two_reads) {
        for (change_at = 1; change_at <= 14; change_at++) {
                bool is_between = change_at >= 5 && change_at <= 10;

                make_lists(1);
                at_read = change_frame;
                cr_assert_eq(read_lists(), is_between ? FRAME_REGISTRY_E_CHANGED : 0, "%u", change_at);
                make_lists(1);
                at_read = take_out;
                is_between = change_at >= 3 && change_at <= 8;
                cr_assert_eq(read_lists(), is_between ? FRAME_REGISTRY_E_CHANGED : 0, "%u", change_at);
        }
        for (change_at = 1; change_at <= 12; change_at++) {
                make_lists(1);
                at_read = hold;
                cr_assert_eq(read_lists(), change_at % 6 <= 1 ? FRAME_REGISTRY_E_CHANGED : 0, "%u", change_at);
        }
}

Test(frame_registry, ends_circles) {
        make_lists(3);
        objects[2].next = (uintptr_t)&objects[0];
        cr_assert_eq(read_lists(), 0);
        cr_assert_lt(n_reads, 3 * 4 * FRAME_REGISTRY_MAX_OBJECTS);
        cr_assert_gt(set.n_over_cap, 0);
        make_lists(4);
        objects[1].next = (uintptr_t)&objects[0];       /* one in each list */
        objects[3].next = (uintptr_t)&objects[2];
        lists.seen = (uintptr_t)&objects[2];
        cr_assert_eq(read_lists(), 0);
        cr_assert_lt(n_reads, 3 * 4 * FRAME_REGISTRY_MAX_OBJECTS);
        cr_assert_gt(set.n_over_cap, 0);
}

/* Compilers unmap sections that they have registered. */
Test(frame_registry, has_all_that_can_be_read) {
        uint64_t array[3] = { 0 };

        make_lists(3);
        objects[2].next = 16;
        cr_assert_eq(read_lists(), 0);
        cr_assert_eq(set.n_functions, 6);
        cr_assert_eq(set.n_malformed, 1);
        make_lists(3);
        objects[1].frames = UINT64_MAX - 2;
        cr_assert_eq(read_lists(), 0);
        cr_assert_eq(set.n_functions, 4);
        cr_assert_eq(set.n_malformed, 1);
        make_lists(2);
        objects[0].flags |= 1;
        objects[0].frames = 16;
        cr_assert_eq(read_lists(), 0);
        cr_assert_eq(set.n_functions, 2);
        cr_assert_eq(set.n_malformed, 1);
        make_lists(3);
        array[0] = 16;
        array[1] = objects[1].frames;
        objects[1].flags |= 2;
        objects[1].frames = (uintptr_t)array;
        cr_assert_eq(read_lists(), 0);
        cr_assert_eq(set.n_functions, 6);
        cr_assert_eq(set.n_malformed, 1);
        make_lists(3);
        objects[1].flags |= 2;
        objects[1].frames = 16;
        cr_assert_eq(read_lists(), 0);
        cr_assert_eq(set.n_functions, 4);
        cr_assert_eq(set.n_malformed, 1);
}

/* Whole entries before it are there. An entry has 28 bytes here, and the CIE as many. */
Test(frame_registry, has_a_section_up_to_what_is_unmapped) {
        uint8_t *pages = map_pages(2 * 4096), *begin = pages + 4096 - (2 * 28 + 10);
        MadeFunctionFrame two[2];

        make_lists(2);
        two[0] = function_at(0, 0);
        two[1] = function_at(0, 1);
        cr_assert_eq(made_frames(begin, two, 2, 0), 3 * 28 + 4);
        objects[0].frames = (uintptr_t)begin;
        cr_assert_eq(read_lists(), 0);
        cr_assert_eq(set.n_functions, 4);
        cr_assert_eq(munmap(pages + 4096, 4096), 0);
        cr_assert_eq(read_lists(), 0);
        cr_assert_eq(set.n_functions, 3);
        cr_assert_eq(set.n_malformed, 1);
}

static void hide_section(unsigned n) {
        if (n == change_at)
                cr_assert_eq(mprotect(sections, MADE_FRAMES_SIZE, PROT_NONE), 0);
}

/* What one of both reads alone could not read is being changed, even if nothing is in it. */
Test(frame_registry, is_void_if_a_section_goes_between_two_reads) {
        for (int is_empty = 0; is_empty < 2; is_empty++) {
                for (change_at = 1; change_at <= 14; change_at++) {
                        bool is_between = change_at >= 5 && change_at <= 10;

                        make_lists(1);
                        memset(sections, 0, is_empty ? 4 : 0);
                        at_read = hide_section;
                        cr_assert_eq(read_lists(), is_between ? FRAME_REGISTRY_E_CHANGED : 0, "%u",
                                     change_at);
                        cr_assert_eq(set.n_malformed, change_at < 5);
                        cr_assert_eq(mprotect(sections, MADE_FRAMES_SIZE, PROT_READ | PROT_WRITE), 0);
                }
        }
}

/* Each object is of one section, whose only entry goes on where nothing is: what was read of it has a cap. */
Test(frame_registry, reads_so_much_of_what_is_unmapped) {
        enum { SIZE = 8 * 4096 };

        uint8_t *pages = map_pages(SIZE + 4096);
        uint32_t length = SIZE - 256;

        make_lists(1);
        cr_assert_eq(munmap(pages + SIZE, 4096), 0);
        memcpy(pages + 512, &length, sizeof(length));
        objects[0].frames = (uintptr_t)pages + 512;
        objects[0].next = (uintptr_t)&objects[0];
        cr_assert_eq(read_lists(), 0);
        cr_assert_eq(set.n_functions, 0);
        cr_assert_leq(set.n_malformed, FRAME_REGISTRY_MAX_BYTES / (SIZE - 512) + 1);
        cr_assert_gt(set.n_over_cap, FRAME_REGISTRY_MAX_OBJECTS / 2);
}

Test(frame_registry, leaves_out_and_counts_what_makes_no_sense) {
        make_lists(2);
        sections[9] = 'q';              /* an augmentation that nobody knows: "qR" */
        cr_assert_eq(read_lists(), 0);
        cr_assert_eq(set.n_functions, 2);
        cr_assert_eq(set.n_malformed, 2);
        make_lists(2);
        memset(sections, 0xff, 4);      /* an entry of the 64-bit format */
        cr_assert_eq(read_lists(), 0);
        cr_assert_eq(set.n_functions, 2);
        cr_assert_eq(set.n_malformed, 1);
}

Test(frame_registry, is_refused_if_a_worker_sends_nonsense) {
        FrameCluster *cluster;
        MadeRun *runs;

        make_lists(2);
        cr_assert_eq(read_lists(), 0);
        cr_assert_eq(set.n_clusters, 1);
        cluster = (FrameCluster *)set.data;
        runs = (MadeRun *)(cluster + 1);
        cr_assert(frame_set_check(set.data, set.size, 1));
        cr_assert(!frame_set_check(set.data, set.size - 8, 1));
        cr_assert(!frame_set_check(set.data, set.size, 2));
        cr_assert(!frame_set_check(set.data, 16, 1));
#define REFUSE(_field, _value) \
        do { \
                __typeof__(_field) _before = _field; \
                _field = _value; \
                cr_assert(!frame_set_check(set.data, set.size, 1), #_field); \
                _field = _before; \
        } while (0)
        REFUSE(cluster->low, cluster->low + 1);
        REFUSE(cluster->low, cluster->low - 4096);
        REFUSE(cluster->high, cluster->high + 4096);
        REFUSE(cluster->high, UINT64_C(1) << 48);
        REFUSE(cluster->n_runs, 0);
        REFUSE(cluster->n_runs, UINT32_MAX);
        REFUSE(cluster->size, UINT32_MAX);
        REFUSE(cluster->size, cluster->size + 8);
        REFUSE(runs[1].start, runs[0].end);
        REFUSE(runs[0].end, runs[0].start);
        REFUSE(runs[1].end, runs[1].end + 4096);
        cr_assert(frame_set_check(set.data, set.size, 1));
}

/* ---- a tree ---- */

/* libgcc's own forms, from gcc 13 on. */
typedef struct FrameNode {
        uint64_t lock;
        uint32_t n, type;
        uint64_t words[30];
} FrameNode;

static struct {
        uint64_t lock, root, free, tree_lock;
} tree;
static FrameNode nodes[3];

static void put_leaf(FrameNode *node, unsigned i) {
        node->type = 1;
        node->words[node->n * 3] = (uintptr_t)code + i * AREA;
        node->words[node->n * 3 + 1] = 0x180;
        node->words[node->n * 3 + 2] = (uintptr_t)&objects[i];
        node->n++;
}

/* Two leaves of two objects under a root. */
static void make_tree(void) {
        make_lists(4);
        for (unsigned i = 0; i < 4; i++)
                objects[i].next = 16;           /* not there from gcc 13 on */
        memset(nodes, 0, sizeof(nodes));
        nodes[0] = (FrameNode){ .lock = 8, .n = 2,
                                .words = { (uintptr_t)code + 2 * AREA, (uintptr_t)&nodes[1], UINT64_MAX,
                                           (uintptr_t)&nodes[2] } };
        for (unsigned i = 0; i < 4; i++)
                put_leaf(&nodes[1 + i / 2], i);
        tree.lock = 0;
        tree.root = (uintptr_t)&nodes[0];
        tree.tree_lock = 24;
}

static int read_tree(void) {
        const FrameVariables own = { .lock = (uintptr_t)&tree.lock, .unseen = (uintptr_t)&tree.root };

        frame_set_deinit(&set);
        n_reads = 0;
        return frame_registry_read(&memory, &own, NULL, 0, &set);
}

Test(frame_registry, gives_rows_of_a_tree) {
        FrameView view;
        Table table;

        make_tree();
        cr_assert_eq(read_tree(), 0);
        cr_assert_eq(set.n_functions, 8);
        cr_assert_eq(set.n_malformed + set.n_over_cap, 0);
        view = first_view();
        table = make_table(&view);
        for (unsigned i = 0; i < 4; i++)
                cr_assert_eq(distance_at(&table, code + i * AREA + 0x104), 24);
        table_deinit(&table);
        tree.root = 0;
        cr_assert_eq(read_tree(), 0);
        cr_assert_eq(set.n_functions, 0);
}

Test(frame_registry, is_void_while_a_lock_of_the_tree_is_held) {
        make_tree();
        tree.lock = 1;
        cr_assert_eq(read_tree(), FRAME_REGISTRY_E_CHANGED);
        make_tree();
        tree.tree_lock |= 1;
        cr_assert_eq(read_tree(), FRAME_REGISTRY_E_CHANGED);
        for (unsigned i = 0; i < 3; i++) {
                make_tree();
                nodes[i].lock |= 1;
                cr_assert_eq(read_tree(), FRAME_REGISTRY_E_CHANGED);
                make_tree();
                nodes[i].lock |= 2;             /* somebody waits for it, and nobody has it */
                cr_assert_eq(read_tree(), 0);
        }
}

static void change_leaf(unsigned n) {
        if (n == change_at)
                nodes[2].lock += 4;
}

static void change_root(unsigned n) {
        if (n == change_at)
                tree.tree_lock += 4;
}

static void take_entry_out(unsigned n) {
        if (n == change_at)
                nodes[1].n--;
}

/*
 * A read has 15 accesses here: mutex, lock, root, three nodes with four objects and four sections behind
 * them, mutex.
 */
Test(frame_registry, is_void_if_the_tree_changes_between_two_reads) {
        make_tree();
        cr_assert_eq(read_tree(), 0);
        cr_assert_eq(n_reads, 30);
        for (change_at = 1; change_at <= 32; change_at++) {
                make_tree();
                at_read = change_leaf;
                cr_assert_eq(read_tree(), change_at >= 11 && change_at <= 25 ? FRAME_REGISTRY_E_CHANGED : 0,
                             "%u", change_at);
                make_tree();
                at_read = change_root;
                cr_assert_eq(read_tree(), change_at >= 3 && change_at <= 17 ? FRAME_REGISTRY_E_CHANGED : 0,
                             "%u", change_at);
                make_tree();
                at_read = take_entry_out;
                cr_assert_eq(read_tree(), change_at >= 6 && change_at <= 20 ? FRAME_REGISTRY_E_CHANGED : 0,
                             "%u", change_at);
        }
}

Test(frame_registry, ends_circles_of_nodes_and_refuses_what_is_none) {
        make_tree();
        for (unsigned i = 0; i < 15; i++)
                nodes[0].words[2 * i + 1] = (uintptr_t)&nodes[0];
        nodes[0].n = 15;
        cr_assert_eq(read_tree(), 0);
        cr_assert_gt(set.n_over_cap, 0);
        make_tree();
        nodes[1].type = 2;                      /* free */
        cr_assert_eq(read_tree(), 0);
        cr_assert_eq(set.n_functions, 4);
        cr_assert_eq(set.n_malformed, 1);
        make_tree();
        nodes[1].n = 11;
        cr_assert_eq(read_tree(), 0);
        cr_assert_eq(set.n_functions, 4);
        cr_assert_eq(set.n_malformed, 1);
        make_tree();
        nodes[0].n = 16;
        cr_assert_eq(read_tree(), 0);
        cr_assert_eq(set.n_functions, 0);
        make_tree();
        nodes[0].words[1] = 16;                 /* unmapped */
        nodes[2].words[2] = 16;
        cr_assert_eq(read_tree(), 0);
        cr_assert_eq(set.n_functions, 2);
        cr_assert_eq(set.n_malformed, 2);
}

/* ---- LLVM's array ---- */

/* LLVM's own form. */
typedef struct ArrayEntry {
        uint64_t group, pc_begin, pc_end, fde;
} ArrayEntry;

static struct {
        uint64_t begin, used;
        uint32_t lock[2];
} array;
static ArrayEntry *entries;

enum { ARRAY_ROOM = FRAME_REGISTRY_MAX_OBJECTS + 8 };

/* The second function of section @i: its FDE. Sections of make_lists() have a CIE and two of them. */
static uint8_t *second_fde(unsigned section) {
        uint8_t *entry = sections + section * MADE_FRAMES_SIZE;
        uint32_t length;

        for (unsigned i = 0; i < 2; i++) {
                memcpy(&length, entry, sizeof(length));
                entry += 4 + length;
        }
        return entry;
}

/* The second functions of @n sections, whose first ones nobody has registered. */
static void make_array(unsigned n) {
        make_lists(4);
        if (!entries)
                entries = (ArrayEntry *)map_pages(ARRAY_ROOM * sizeof(*entries));
        memset(&array, 0, sizeof(array));
        for (unsigned i = 0; i < n; i++) {
                uint64_t start = (uintptr_t)function_at(i, 1).code, fde = (uintptr_t)second_fde(i);

                entries[i] = (ArrayEntry){ fde, start, start + 0x80, fde };
        }
        array.begin = (uintptr_t)entries;
        array.used = (uintptr_t)(entries + n);
        array.lock[0] = 1;
}

static int read_array(void) {
        const FrameVariables own = { .lock = (uintptr_t)array.lock,
                                     .begin = (uintptr_t)&array.begin,
                                     .used = (uintptr_t)&array.used };

        frame_set_deinit(&set);
        n_reads = 0;
        return frame_registry_read(&memory, &own, NULL, 0, &set);
}

Test(frame_registry, gives_rows_of_llvms_array_and_of_nothing_beside_it) {
        FrameView view;
        Table table;

        make_array(3);
        cr_assert_eq(read_array(), 0);
        cr_assert_eq(set.n_functions, 3);
        cr_assert_eq(set.n_malformed + set.n_over_cap, 0);
        view = first_view();
        table = make_table(&view);
        for (unsigned i = 0; i < 3; i++) {
                cr_assert_eq(distance_at(&table, code + i * AREA + 0x104), 24);
                cr_assert_eq(distance_at(&table, code + i * AREA + 4), -1, "the first was not registered");
        }
        table_deinit(&table);
        make_array(0);
        cr_assert_eq(read_array(), 0);
        cr_assert_eq(set.n_functions, 0);
}

Test(frame_registry, reads_functions_of_one_cie_once_in_any_order) {
        make_array(1);
        entries[1] = entries[0];
        entries[2] = (ArrayEntry){ 0, (uintptr_t)function_at(0, 0).code, 0, 0 };
        entries[2].fde = (uintptr_t)sections;
        entries[2].fde += 4 + *(uint32_t *)(void *)sections;
        array.used = (uintptr_t)(entries + 3);
        cr_assert_eq(read_array(), 0);
        cr_assert_eq(set.n_functions, 2);
        cr_assert_eq(set.n_malformed, 0);
}

Test(frame_registry, reads_a_function_whose_fde_had_another_before) {
        make_array(1);
        entries[1] = entries[0];
        entries[0].pc_begin -= 16;              /* whose maker has not taken it out */
        array.used = (uintptr_t)(entries + 2);
        cr_assert_eq(read_array(), 0);
        cr_assert_eq(set.n_functions, 1);
        cr_assert_eq(set.n_malformed, 1);
}

Test(frame_registry, is_void_while_llvms_lock_is_held_by_a_writer) {
        make_array(2);
        array.lock[0] = 3;
        cr_assert_eq(read_array(), FRAME_REGISTRY_E_CHANGED);
        array.lock[0] = 8;                      /* a reader */
        cr_assert_eq(read_array(), 0);
        array.used = array.begin - sizeof(*entries);
        cr_assert_eq(read_array(), FRAME_REGISTRY_E_CHANGED);
        array.used = array.begin + 8;
        cr_assert_eq(read_array(), FRAME_REGISTRY_E_CHANGED);
        array.begin = 16;                       /* unmapped */
        array.used = 16 + sizeof(*entries);
        cr_assert_eq(read_array(), FRAME_REGISTRY_E_CHANGED);
}

static void take_function_out(unsigned n) {
        if (n == change_at)
                array.used -= sizeof(*entries);
}

static void put_other_function(unsigned n) {
        if (n == change_at)
                entries[1] = entries[2];
}

/* A read has 9 accesses here: lock, begin, used, array, two functions, two sections, lock. */
Test(frame_registry, is_void_if_llvms_array_changes_between_two_reads) {
        make_array(2);
        cr_assert_eq(read_array(), 0);
        cr_assert_eq(n_reads, 18);
        for (change_at = 1; change_at <= 18; change_at++) {
                make_array(3);
                array.used -= sizeof(*entries);
                at_read = take_function_out;
                cr_assert_eq(read_array(), change_at >= 4 && change_at <= 12 ? FRAME_REGISTRY_E_CHANGED : 0,
                             "%u", change_at);
                make_array(3);
                array.used -= sizeof(*entries);
                at_read = put_other_function;
                cr_assert_eq(read_array(), change_at >= 5 && change_at <= 13 ? FRAME_REGISTRY_E_CHANGED : 0,
                             "%u", change_at);
        }
}

Test(frame_registry, refuses_functions_of_llvms_array_that_are_none) {
        uint32_t distance;

        make_array(3);
        entries[0].pc_begin += 16;              /* another function has taken the FDE's place */
        cr_assert_eq(read_array(), 0);
        cr_assert_eq(set.n_functions, 2);
        cr_assert_eq(set.n_malformed, 1);
        make_array(3);
        entries[1].fde = (uintptr_t)sections;   /* a CIE */
        cr_assert_eq(read_array(), 0);
        cr_assert_eq(set.n_functions, 2);
        cr_assert_eq(set.n_malformed, 1);
        make_array(3);
        entries[1].fde = 16;
        cr_assert_eq(read_array(), 0);
        cr_assert_eq(set.n_functions, 2);
        cr_assert_eq(set.n_malformed, 1);
        make_array(3);
        distance = FRAME_REGISTRY_MAX_SECTION + 1;
        memcpy(second_fde(2) + 4, &distance, sizeof(distance));
        cr_assert_eq(read_array(), 0);
        cr_assert_eq(set.n_functions, 2);
        cr_assert_eq(set.n_malformed, 1);
        make_array(3);
        distance = 8;                           /* no CIE lies there */
        memcpy(second_fde(2) + 4, &distance, sizeof(distance));
        cr_assert_eq(read_array(), 0);
        cr_assert_eq(set.n_functions, 2);
        cr_assert_eq(set.n_malformed, 1);
}

Test(frame_registry, counts_functions_of_llvms_array_over_its_cap) {
        make_array(1);
        for (unsigned i = 1; i < ARRAY_ROOM; i++)
                entries[i] = entries[0];
        array.used = (uintptr_t)(entries + ARRAY_ROOM);
        cr_assert_eq(read_array(), 0);
        cr_assert_eq(set.n_functions, 1);
        cr_assert_eq(set.n_over_cap, 8);
        array.used = (uintptr_t)entries + (UINT64_C(1) << 46);
        cr_assert_eq(read_array(), 0);
        cr_assert_eq(set.n_over_cap, FRAME_REGISTRY_MAX_OBJECTS);
}

/* ---- functions that are known by name ---- */

/* push %rbx; sub $16,%rsp; je 1f; add $16,%rsp; pop %rbx; ret; 1: nop; add $16,%rsp; pop %rbx; ret */
static const uint8_t plain[] = { 0x53, 0x48, 0x83, 0xec, 0x10, 0x74, 0x06, 0x48, 0x83, 0xc4, 0x10, 0x5b, 0xc3,
                                 0x90, 0x48, 0x83, 0xc4, 0x10, 0x5b, 0xc3 };
/* push %rbx; je 1f; push %rbx; 1: pop %rbx; ret: its paths contradict each other */
static const uint8_t unequal[] = { 0x53, 0x74, 0x01, 0x53, 0x5b, 0xc3 };

static int read_named(const MadeRun *named, uint32_t n) {
        const FrameVariables own = own_variables();

        frame_set_deinit(&set);
        n_reads = 0;
        return frame_registry_read(&memory, &own, named, n, &set);
}

static MadeRun run_of(const uint8_t *start, size_t size) {
        return (MadeRun){ (uintptr_t)start, (uintptr_t)start + size };
}

Test(frame_registry, gives_rows_of_code_that_is_named_and_not_registered) {
        const MadeFunctionFrame first = (make_lists(2), function_at(0, 0));
        uint8_t *own = code + 0x400, *other = code + 0x500;
        const MadeRun named[] = { run_of(own, sizeof(plain)), run_of(other, sizeof(unequal)),
                                  run_of(first.code, first.size) };
        FrameView view;
        Table table;

        memcpy(own, plain, sizeof(plain));
        memcpy(other, unequal, sizeof(unequal));
        memcpy(code, plain, sizeof(plain));     /* it is registered, with other rows */
        cr_assert_eq(read_named(named, ARRAY_SIZE(named)), 0);
        cr_assert_eq(set.n_malformed + set.n_over_cap, 0);
        view = first_view();
        table = make_table(&view);
        cr_assert_eq(distance_at(&table, own), 8);
        cr_assert_eq(distance_at(&table, own + 1), 16);
        cr_assert_eq(distance_at(&table, own + 5), 32);
        cr_assert_eq(unwind_rule_rbx(table_find(&table, (uintptr_t)own + 5)), 2);
        cr_assert_eq(distance_at(&table, own + 11), 16);
        cr_assert_eq(distance_at(&table, own + 12), 8);
        cr_assert_eq(distance_at(&table, own + 13), 32, "the branch hands it over");
        cr_assert_eq(distance_at(&table, own + 19), 8);
        for (unsigned i = 0; i < sizeof(unequal); i++)
                cr_assert_eq(distance_at(&table, other + i), -1);
        cr_assert_eq(distance_at(&table, code), 8);
        cr_assert_eq(distance_at(&table, code + 5), 24, "as it was registered");
        table_deinit(&table);
}

Test(frame_registry, refuses_names_of_what_is_no_function) {
        const MadeRun named[] = { { 16, 32 },                          /* unmapped */
                                  { (make_lists(2), (uintptr_t)code), (uintptr_t)code },
                                  { (uintptr_t)code + 0x400, (uintptr_t)code },
                                  { UINT64_C(1) << 47, (UINT64_C(1) << 47) + 16 },
                                  { (uintptr_t)code, (uintptr_t)code + FRAME_REGISTRY_MAX_CODE + 1 } };

        cr_assert_eq(read_named(named, ARRAY_SIZE(named)), 0);
        cr_assert_eq(set.n_functions, 4);
        cr_assert_eq(set.n_malformed, 5);
        cr_assert_eq(set.n_over_cap, 0);
}

Test(frame_registry, counts_named_code_over_its_cap) {
        MadeRun named[5];

        make_lists(0);
        for (unsigned i = 0; i < ARRAY_SIZE(named); i++)
                named[i] = run_of(map_pages(FRAME_REGISTRY_MAX_CODE), FRAME_REGISTRY_MAX_CODE);
        cr_assert_eq(read_named(named, ARRAY_SIZE(named)), 0);
        cr_assert_eq(set.n_over_cap, 5 - FRAME_REGISTRY_MAX_FOLLOWED / FRAME_REGISTRY_MAX_CODE);
}

/* Rows of all of @bytes, which a list names; they are written behind registered functions. */
static bool is_believed(const uint8_t *bytes, size_t size) {
        uint8_t *own = code + 0x400;
        const MadeRun named = run_of(own, size);
        FrameView view;
        bool is_any = false;
        Table table;

        memcpy(own, bytes, size);
        cr_assert_eq(read_named(&named, 1), 0);
        cr_assert_eq(set.n_malformed + set.n_over_cap, 0);
        view = first_view();
        table = make_table(&view);
        for (size_t i = 0; i < size; i++)
                is_any = is_any || table_find(&table, (uintptr_t)own + i);
        table_deinit(&table);
        return is_any;
}

Test(frame_registry, believes_named_code_that_returns_as_it_was_called) {
        /* push %rbx; call *%rax; pop %rbx; ret */
        static const uint8_t calls[] = { 0x53, 0xff, 0xd0, 0x5b, 0xc3 };
        /* test %eax,%eax; je 1f; jmp *%rax; 1: ret */
        static const uint8_t may_leave[] = { 0x85, 0xc0, 0x74, 0x02, 0xff, 0xe0, 0xc3 };

        make_lists(2);
        cr_assert(is_believed(plain, sizeof(plain)));
        cr_assert(is_believed(calls, sizeof(calls)));
        cr_assert(is_believed(may_leave, sizeof(may_leave)));
}

Test(frame_registry, believes_no_named_code_that_never_returns) {
        /* nop; jmp 0x1000 bytes on: `foo.cold`, which goes back to its parent */
        static const uint8_t jump_out[] = { 0x90, 0xe9, 0x00, 0x10, 0x00, 0x00 };
        /* mov %rdi,8(%r14); jmp *(%r15) */
        static const uint8_t jump_by[] = { 0x49, 0x89, 0x7e, 0x08, 0x41, 0xff, 0x27 };
        /* push %rbx; call *%rax; ud2 */
        static const uint8_t stop[] = { 0x53, 0xff, 0xd0, 0x0f, 0x0b };
        /* nop; add $16,%rsp; pop %rbx; ret: the end of another's frame */
        static const uint8_t end[] = { 0x90, 0x48, 0x83, 0xc4, 0x10, 0x5b, 0xc3 };
        /* call 1f; jmp *(%r15); 1: ret: what returns is not what the name is of */
        static const uint8_t other[] = { 0xe8, 0x03, 0x00, 0x00, 0x00, 0x41, 0xff, 0x27, 0xc3 };

        make_lists(2);
        cr_assert(!is_believed(jump_out, sizeof(jump_out)));
        cr_assert(!is_believed(jump_by, sizeof(jump_by)));
        cr_assert(!is_believed(stop, sizeof(stop)));
        cr_assert(!is_believed(end, sizeof(end)));
        cr_assert(!is_believed(other, sizeof(other)));
}

Test(frame_registry, leaves_named_code_out_that_begins_in_another) {
        const uint8_t *own = (make_lists(2), memcpy(code + 0x400, plain, sizeof(plain)));
        const MadeRun named[] = { run_of(own + 12, 1), run_of(own, sizeof(plain)), run_of(own + 12, 8),
                                  run_of(own, sizeof(plain)) };
        FrameView view;
        Table table;

        cr_assert_eq(read_named(named, ARRAY_SIZE(named)), 0);
        cr_assert_eq(set.n_malformed, 2, "two names of one function are none");
        cr_assert_eq(set.n_functions, 5);
        view = first_view();
        table = make_table(&view);
        cr_assert_eq(distance_at(&table, own + 12), 8);
        cr_assert_eq(distance_at(&table, own + 14), 32);
        table_deinit(&table);
}

Test(frame_registry, leaves_registered_code_its_place_before_named) {
        MadeRun named[FRAME_REGISTRY_MAX_CLUSTERS];
        const uintptr_t distance = 2 * (uintptr_t)FRAME_REGISTRY_MAX_GAP;
        uint8_t *far = mmap(NULL, (ARRAY_SIZE(named) + 1) * distance, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        const MadeFunctionFrame last = { far + ARRAY_SIZE(named) * distance, 0x80, 16 };

        cr_assert_neq(far, MAP_FAILED);
        make_lists(1);
        made_frames(sections, &last, 1, 0);
        for (unsigned i = 0; i < ARRAY_SIZE(named); i++) {
                memcpy(far + i * distance, plain, sizeof(plain));
                named[i] = run_of(far + i * distance, sizeof(plain));
        }
        cr_assert_eq(read_named(named, ARRAY_SIZE(named) - 1), 0);
        cr_assert_eq(set.n_functions, ARRAY_SIZE(named));
        cr_assert_eq(read_named(named, ARRAY_SIZE(named)), 0);
        cr_assert_eq(set.n_functions, 1);
        cr_assert_eq(set.n_over_cap, ARRAY_SIZE(named));
        cr_assert_eq(first_view().cluster.low, (uintptr_t)last.code);
        cr_assert_eq(munmap(far, (ARRAY_SIZE(named) + 1) * distance), 0);
}

/* ---- this process' own libgcc ---- */

extern void __register_frame(void *), __deregister_frame(void *);

static bool find_own(FrameVariables *found) {
        _cleanup_(closep) int fd = -1;
        DynamicImage image;
        struct stat status;
        Dl_info where;
        int r;

        cr_assert(dladdr((void *)(uintptr_t)__register_frame, &where));
        fd = open(where.dli_fname, O_RDONLY | O_CLOEXEC);
        cr_assert_geq(fd, 0);
        cr_assert_eq(fstat(fd, &status), 0);
        cr_assert(dynamic_image_open(&image, fd, NULL, (uint64_t)status.st_size));
        r = frame_variables_find(&image, found);
        if (r)
                return false;
        *found = frame_variables_at(found, (uintptr_t)where.dli_fbase);
        return true;
}

extern const void *_Unwind_Find_FDE(void *pc, void *bases);

Test(frame_registry, finds_what_this_process_has_registered) {
        FrameVariables own;
        uint64_t bases[3];

        if (!find_own(&own))
                cr_skip_test("library: this libgcc keeps registered frames another way");
        make_lists(2);
        cr_assert_eq(frame_registry_read(&memory, &own, NULL, 0, &set), 0);
        cr_assert_eq(set.n_functions, 0);
        __register_frame(sections);
        __register_frame(sections + MADE_FRAMES_SIZE);
        cr_assert_eq(frame_registry_read(&memory, &own, NULL, 0, &set), 0);
        cr_assert_eq(set.n_functions, 4);
        cr_assert_eq(first_view().cluster.low, (uintptr_t)code);
        frame_set_deinit(&set);
        cr_assert_not_null(_Unwind_Find_FDE(code + 0x10, bases));       /* which sorts an object */
        cr_assert_eq(frame_registry_read(&memory, &own, NULL, 0, &set), 0);
        cr_assert_eq(set.n_functions, 4);
        frame_set_deinit(&set);
        __deregister_frame(sections);
        cr_assert_eq(frame_registry_read(&memory, &own, NULL, 0, &set), 0);
        cr_assert_eq(set.n_functions, 2);
        cr_assert_eq(first_view().cluster.low, (uintptr_t)code + AREA);
}

/* ---- code by hand ---- */

enum { DATA = 0x20000 };

static DynamicImage hand_image(void) {
        return (DynamicImage){ .fd = -1,
                               .headers = { { .p_type = PT_LOAD, .p_flags = PF_R | PF_W, .p_vaddr = DATA,
                                              .p_memsz = 0x1000 },
                                            { .p_type = PT_GNU_RELRO, .p_vaddr = DATA, .p_memsz = 0x100 } },
                               .n_headers = 2 };
}

/* An instruction of @code at 0x1000 that names @variable. */
static void put_instruction(uint8_t *bytes, uint32_t *atp, uint8_t opcode, uint64_t variable) {
        int32_t distance = (int32_t)(variable - (0x1000 + *atp + 7));

        bytes[*atp] = 0x48;
        bytes[*atp + 1] = opcode;
        bytes[*atp + 2] = 0x05;
        memcpy(bytes + *atp + 3, &distance, sizeof(distance));
        *atp += 7;
}

typedef struct Named {
        uint8_t opcode;
        uint64_t variable;
} Named;

static int learn(const Named *registrar, unsigned n_registrar, const Named *finder, unsigned n_finder,
                 FrameVariables *found) {
        const DynamicImage image = hand_image();
        uint8_t one[128], other[128];
        uint32_t n_one = 0, n_other = 0;

        for (unsigned i = 0; i < n_registrar; i++)
                put_instruction(one, &n_one, registrar[i].opcode, registrar[i].variable);
        for (unsigned i = 0; i < n_finder; i++)
                put_instruction(other, &n_other, finder[i].opcode, finder[i].variable);
        return frame_variables_learn(&image, &(FrameCode){ one, n_one, 0x1000 },
                                     &(FrameCode){ other, n_other, 0x1000 }, found);
}

#define LEARN(_registrar, _finder, _found) \
        learn(_registrar, ARRAY_SIZE(_registrar), _finder, ARRAY_SIZE(_finder), _found)

enum { LOAD = 0x8b, STORE = 0x89, ADDRESS = 0x8d, LOCK = DATA + 0x200, SEEN = DATA + 0x230,
       UNSEEN = DATA + 0x238, RELRO = DATA + 0x80 };

static const Named registers[] = { { LOAD, RELRO }, { ADDRESS, LOCK }, { LOAD, UNSEEN }, { STORE, UNSEEN } };
static const Named finds[] = { { ADDRESS, LOCK }, { LOAD, SEEN }, { LOAD, UNSEEN }, { STORE, UNSEEN },
                               { ADDRESS, SEEN } };

Test(frame_variables, are_told_by_code_that_names_them) {
        FrameVariables found = variables;

        cr_assert_eq(LEARN(registers, finds, &found), 0);
        cr_assert_eq(found.lock, LOCK);
        cr_assert_eq(found.seen, SEEN);
        cr_assert_eq(found.unseen, UNSEEN);
}

Test(frame_variables, are_refused_where_there_are_others) {
        static const Named two_stored[] = { { ADDRESS, LOCK }, { LOAD, UNSEEN }, { STORE, UNSEEN },
                                            { LOAD, SEEN }, { STORE, SEEN } };
        static const Named two_locks[] = { { ADDRESS, LOCK }, { ADDRESS, LOCK + 8 }, { LOAD, UNSEEN },
                                           { STORE, UNSEEN } };
        static const Named loaded_alone[] = { { ADDRESS, LOCK }, { LOAD, UNSEEN } };
        static const Named two_seen[] = { { ADDRESS, LOCK }, { LOAD, SEEN }, { LOAD, SEEN + 0x40 },
                                          { LOAD, UNSEEN } };
        static const Named unseen_alone[] = { { ADDRESS, LOCK }, { LOAD, UNSEEN } };
        static const Named other_lock[] = { { ADDRESS, LOCK + 8 }, { LOAD, SEEN }, { LOAD, UNSEEN } };
        static const Named odd[] = { { ADDRESS, LOCK }, { LOAD, UNSEEN + 1 }, { STORE, UNSEEN + 1 } };
        static const Named beyond[] = { { ADDRESS, LOCK }, { LOAD, DATA + 0x1000 },
                                        { STORE, DATA + 0x1000 } };
        FrameVariables found = variables;

        cr_assert_eq(LEARN(two_stored, finds, &found), FRAME_VARIABLES_E_UNKNOWN);
        cr_assert_eq(LEARN(two_locks, finds, &found), FRAME_VARIABLES_E_UNKNOWN);
        cr_assert_eq(LEARN(loaded_alone, finds, &found), FRAME_VARIABLES_E_UNKNOWN);
        cr_assert_eq(LEARN(registers, two_seen, &found), FRAME_VARIABLES_E_UNKNOWN);
        cr_assert_eq(LEARN(registers, unseen_alone, &found), FRAME_VARIABLES_E_UNKNOWN);
        cr_assert_eq(LEARN(registers, other_lock, &found), FRAME_VARIABLES_E_UNKNOWN);
        cr_assert_eq(LEARN(odd, finds, &found), FRAME_VARIABLES_E_UNKNOWN);
        cr_assert_eq(LEARN(beyond, finds, &found), FRAME_VARIABLES_E_UNKNOWN);
        cr_assert_eq(found.lock, 0);
}

enum { BEGIN = DATA + 0x300, USED = DATA + 0x308 };

static int learn_array(const Named *remover, unsigned n, FrameVariables *found) {
        const DynamicImage image = hand_image();
        uint8_t bytes[128];
        uint32_t size = 0;

        for (unsigned i = 0; i < n; i++)
                put_instruction(bytes, &size, remover[i].opcode, remover[i].variable);
        return frame_variables_learn_array(&image, &(FrameCode){ bytes, size, 0x1000 }, found);
}

#define LEARN_ARRAY(_remover, _found) learn_array(_remover, ARRAY_SIZE(_remover), _found)

Test(frame_variables, are_llvms_array_where_code_takes_out_of_one) {
        static const Named removes[] = { { ADDRESS, LOCK }, { LOAD, BEGIN }, { LOAD, USED }, { STORE, USED },
                                         { ADDRESS, LOCK }, { LOAD, RELRO } };
        FrameVariables found = variables, there;

        cr_assert_eq(LEARN_ARRAY(removes, &found), 0);
        cr_assert_eq(found.lock, LOCK);
        cr_assert_eq(found.begin, BEGIN);
        cr_assert_eq(found.used, USED);
        there = frame_variables_at(&found, 0x1000);
        cr_assert_eq(there.lock, LOCK + 0x1000);
        cr_assert_eq(there.begin, BEGIN + 0x1000);
        cr_assert_eq(there.used, USED + 0x1000);
        cr_assert_eq(there.unseen | there.seen, 0);
}

Test(frame_variables, are_refused_where_no_array_is_the_only_one) {
        static const Named no_lock[] = { { LOAD, BEGIN }, { LOAD, USED }, { STORE, USED } };
        static const Named two_locks[] = { { ADDRESS, LOCK }, { ADDRESS, LOCK + 0x40 }, { LOAD, BEGIN },
                                           { LOAD, USED }, { STORE, USED } };
        static const Named two_stored[] = { { ADDRESS, LOCK }, { LOAD, BEGIN }, { LOAD, USED },
                                            { STORE, BEGIN }, { STORE, USED } };
        static const Named two_loaded[] = { { ADDRESS, LOCK }, { LOAD, BEGIN }, { LOAD, BEGIN + 0x40 },
                                            { LOAD, USED }, { STORE, USED } };
        static const Named no_begin[] = { { ADDRESS, LOCK }, { LOAD, USED }, { STORE, USED } };
        static const Named own_lock[] = { { ADDRESS, USED }, { LOAD, BEGIN }, { LOAD, USED },
                                          { STORE, USED } };
        FrameVariables found = variables;

        cr_assert_eq(LEARN_ARRAY(no_lock, &found), FRAME_VARIABLES_E_UNKNOWN);
        cr_assert_eq(LEARN_ARRAY(two_locks, &found), FRAME_VARIABLES_E_UNKNOWN);
        cr_assert_eq(LEARN_ARRAY(two_stored, &found), FRAME_VARIABLES_E_UNKNOWN);
        cr_assert_eq(LEARN_ARRAY(two_loaded, &found), FRAME_VARIABLES_E_UNKNOWN);
        cr_assert_eq(LEARN_ARRAY(no_begin, &found), FRAME_VARIABLES_E_UNKNOWN);
        cr_assert_eq(LEARN_ARRAY(own_lock, &found), FRAME_VARIABLES_E_UNKNOWN);
        cr_assert_eq(found.lock | found.begin | found.used, 0);
}

enum { TREE = DATA + 0x2b0, TREE_LOCK = TREE + 16, OTHER_TREE = DATA + 0x290 };

/* As gcc 14's. That of gcc 13 has one tree. */
static const Named inserts[] = { { ADDRESS, OTHER_TREE }, { ADDRESS, TREE } };
static const Named searches[] = { { LOAD, TREE }, { LOAD, TREE_LOCK }, { LOAD, TREE }, { ADDRESS, LOCK },
                                  { ADDRESS, LOCK } };

Test(frame_variables, are_a_tree_where_code_names_one) {
        FrameVariables found = variables;

        cr_assert_eq(LEARN(inserts, searches, &found), 0);
        cr_assert_eq(found.lock, LOCK);
        cr_assert_eq(found.unseen, TREE);
        cr_assert_eq(found.seen, 0);
        cr_assert_eq(frame_variables_at(&found, 0x1000).unseen, TREE + 0x1000);
        cr_assert_eq(frame_variables_at(&found, 0x1000).seen, 0);
}

Test(frame_variables, are_refused_where_no_tree_is_the_only_one) {
        static const Named no_lock[] = { { LOAD, TREE }, { ADDRESS, LOCK } };
        static const Named no_mutex[] = { { LOAD, TREE }, { LOAD, TREE_LOCK } };
        static const Named two_mutexes[] = { { LOAD, TREE }, { LOAD, TREE_LOCK }, { ADDRESS, LOCK },
                                             { ADDRESS, LOCK + 0x30 } };
        static const Named two_trees[] = { { LOAD, TREE }, { LOAD, TREE_LOCK }, { LOAD, OTHER_TREE },
                                           { LOAD, OTHER_TREE + 16 }, { ADDRESS, LOCK } };
        static const Named own_lock[] = { { LOAD, TREE }, { LOAD, TREE_LOCK }, { ADDRESS, TREE_LOCK } };
        static const Named others[] = { { ADDRESS, OTHER_TREE } };
        FrameVariables found = variables;

        cr_assert_eq(LEARN(inserts, no_lock, &found), FRAME_VARIABLES_E_UNKNOWN);
        cr_assert_eq(LEARN(inserts, no_mutex, &found), FRAME_VARIABLES_E_UNKNOWN);
        cr_assert_eq(LEARN(inserts, two_mutexes, &found), FRAME_VARIABLES_E_UNKNOWN);
        cr_assert_eq(LEARN(inserts, two_trees, &found), FRAME_VARIABLES_E_UNKNOWN);
        cr_assert_eq(LEARN(inserts, own_lock, &found), FRAME_VARIABLES_E_UNKNOWN);
        cr_assert_eq(LEARN(others, searches, &found), FRAME_VARIABLES_E_UNKNOWN);
        cr_assert_eq(found.lock, 0);
}

#else

Test(frame_registry, is_known_of_another_processor_alone) {
        cr_skip_test("machine: registered frames are read on x86-64 alone");
}

#endif
