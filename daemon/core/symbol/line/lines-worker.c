/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The other process of lines.h: libdw, and nothing of our state.
 *
 *     units       each compilation unit has ranges of addresses; they are sorted, and searched by halving.
 *                 A worker without rights looks at those alone that .debug_aranges names, if it knows all
 *     functions   the tree of a unit is walked once for all addresses in it. Each function and inlined
 *                 call whose range holds some of them is put over these addresses' earlier answer:
 *
 *                 main             [0x1000, 0x1100)                  0x1024 → main
 *                   parse          [0x1010, 0x1040)  called at 12    0x1024 → parse in main
 *                     skip_blanks  [0x1020, 0x1028)  called at 57    0x1024 → skip_blanks in parse in main
 *
 *     lines       the innermost frame's comes from the unit's line table, each caller's from the inlined call
 *
 * An answer is written as soon as its unit is done. So answers from before an endless part are not lost.
 *
 * DWARF names other files. What dwz has moved out is opened before rights are dropped, by our own reading of
 * ELF and by its build id, so a directory that only the caller may enter is no obstacle. Split units are
 * found by libdw alone, with the rights of the file's owner. Those that it does not get are told
 * (LINES_E_PARTS).
 *
 * A worker without rights does the same by lines_answer(), with a file in memory: it can open no other one.
 * So it leaves split units out, and a file whose names lie in a file of dwz has no lines for it.
 */
#include "core/base/util/array.h"
#include "core/symbol/line/lines.h"

#include <dirent.h>
#include <dwarf.h>
#include <elfutils/libdw.h>
#include <elfutils/libdwelf.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/elf/go-lines.h"
#include "core/base/elf/unpacked.h"
#include "core/base/file/file.h"
#include "core/base/sandbox/landlock.h"
#include "core/base/sandbox/rights.h"

enum {
        FILE_FD = 3,
        NOBODY = 65534,
        NO_NODE = -1,
        /* ranges before an address's place that are tried: units may overlap */
        MAX_BACK = 64,
        OUT_BYTES = 64 << 10,
        GO_MAX_BYTES = 256 << 20,       /* bytes of Go's table */
        MAX_LINK = PATH_MAX + IMAGE_MAX_BUILD_ID,       /* bytes of .gnu_debugaltlink */
        MAX_SHARED_SECTIONS = 32,       /* sections of what dwz has made, where the build id is looked for */
        COMPRESSED_BY_ZSTD = 2,         /* ELFCOMPRESS_ZSTD, which elf.h of 2022 has not got */
};

typedef struct Range {
        uint64_t start, end;
        uint32_t unit;
} Range;

/* A function, or a call that was inlined. */
typedef struct Node {
        Dwarf_Die die;
        int32_t parent;                 /* NO_NODE for a function */
        uint32_t depth;
} Node;

typedef struct Wanted {
        uint64_t address;
        uint32_t index, unit;
        int32_t node;
} Wanted;

typedef struct Run {
        Dwarf *dwarf;
        const LinesAnswering *to;       /* NULL = the process of lines.h */
        Dwarf_Die *units;               /* units with addresses: the skeleton, where there is one */
        Dwarf_Die *trees;               /* the unit with the functions: the same, or the split unit */
        uint32_t n_units, units_room;
        Range *ranges;
        uint32_t n_ranges, ranges_room;
        Wanted *wanted;
        uint32_t n_wanted;
        Node *nodes;                    /* nodes of the current unit */
        uint32_t n_nodes, nodes_room;
        bool has_gap;                   /* a split unit, or what dwz has moved out, is not there */
        uint8_t *out;
        size_t n_out;
        char readable[LINES_MAX_TEXT];  /* begins with a NUL */
} Run;

/* Without memory the process ends; its answers so far count. */
static void *must(void *memory) {
        if (!memory)
                _exit(2);
        return memory;
}

static void flush(Run *run) {
        if (run->n_out && (run->to ? run->to->send(run->to->userdata, run->out, run->n_out)
                                   : file_write(STDOUT_FILENO, run->out, run->n_out)) < 0)
                _exit(1);
        run->n_out = 0;
}

static void put(Run *run, const void *data, size_t size) {
        if (!size)
                return;
        if (run->n_out + size > OUT_BYTES)
                flush(run);
        memcpy(run->out + run->n_out, data, size);
        run->n_out += size;
}

/* A function that the linker has dropped begins at 0, whatever is there now. */
static bool is_dropped(uint64_t start) {
        return start == 0;
}

static void add_range(Run *run, uint64_t start, uint64_t end) {
        if (start >= end || is_dropped(start))
                return;
        if (array_reserve(&run->ranges, &run->ranges_room, run->n_ranges + 1u, 256))
                must(NULL);
        run->ranges[run->n_ranges++] = (Range){ start, end, run->n_units };
}

static void add_unit(Run *run, const Dwarf_Die *unit, const Dwarf_Die *split) {
        Dwarf_Addr base, start, end;
        ptrdiff_t at = 0;

        if (run->n_units == run->units_room) {
                if (array_reserve(&run->units, &run->units_room, run->n_units + 1u, 256))
                        must(NULL);
                run->trees = must(reallocarray(run->trees, run->units_room, sizeof(*run->trees)));
        }
        run->units[run->n_units] = *unit;
        run->trees[run->n_units] = split->addr ? *split : *unit;
        while ((at = dwarf_ranges((Dwarf_Die *)unit, at, &base, &start, &end)) > 0)
                add_range(run, start, end);
        run->n_units++;
}

static int compare_ranges(const void *left, const void *right) {
        const Range *a = left, *b = right;

        if (a->start != b->start)
                return a->start < b->start ? -1 : 1;
        return a->unit < b->unit ? -1 : a->unit > b->unit;
}

static void sort_ranges(Run *run) {
        if (run->n_ranges)
                qsort(run->ranges, run->n_ranges, sizeof(*run->ranges), compare_ranges);
}

static void find_units(Run *run) {
        Dwarf_Die die, split = { 0 };
        Dwarf_CU *unit = NULL;
        uint8_t type;

        while (dwarf_get_units(run->dwarf, unit, &unit, NULL, &type, &die, run->to ? NULL : &split) == 0)
                if (type == DW_UT_compile || type == DW_UT_skeleton) {
                        run->has_gap |= type == DW_UT_skeleton && !split.addr;
                        add_unit(run, &die, &split);
                }
        sort_ranges(run);
}

/* The unit of an address; n_units = none. */
static uint32_t unit_of(const Run *run, uint64_t address) {
        uint32_t low = 0, high = run->n_ranges;

        while (low < high) {
                uint32_t middle = low + (high - low) / 2;

                if (run->ranges[middle].start <= address)
                        low = middle + 1;
                else
                        high = middle;
        }
        for (uint32_t n = 0; low > 0 && n < MAX_BACK; n++, low--)
                if (address < run->ranges[low - 1].end)
                        return run->ranges[low - 1].unit;
        return run->n_units;
}

static bool has_unit(const Run *run, Dwarf_Off offset) {
        for (uint32_t i = run->n_units; i-- > 0;)
                if (dwarf_dieoffset(&run->units[i]) == offset)
                        return true;
        return false;
}

/* Adds the unit that .debug_aranges names for an address. Return: whether it names one. */
static bool add_unit_at(Run *run, Dwarf_Aranges *aranges, uint64_t address) {
        Dwarf_Arange *range = dwarf_getarange_addr(aranges, address);
        const Dwarf_Die split = { 0 };
        Dwarf_Addr start;
        Dwarf_Off offset;
        Dwarf_Die die;
        uint8_t type;

        if (!range || dwarf_getarangeinfo(range, &start, NULL, &offset) || is_dropped(start))
                return false;
        if (has_unit(run, offset))
                return true;
        if (!dwarf_offdie(run->dwarf, offset, &die) ||
            dwarf_cu_info(die.cu, NULL, &type, NULL, NULL, NULL, NULL, NULL) ||
            (type != DW_UT_compile && type != DW_UT_skeleton))
                return false;
        add_unit(run, &die, &split);
        return true;
}

/*
 * The units of all wanted addresses, by the table that the file may have of them. What it says is held
 * against the units' own ranges. Return: false = all units have to be looked at: an address is in none of
 * these.
 */
static bool find_wanted_units(Run *run) {
        Dwarf_Aranges *aranges = NULL;
        bool is_there = !dwarf_getaranges(run->dwarf, &aranges, NULL) && aranges;

        for (uint32_t i = 0; i < run->n_wanted && is_there; i++)
                is_there = add_unit_at(run, aranges, run->wanted[i].address);
        sort_ranges(run);
        for (uint32_t i = 0; i < run->n_wanted && is_there; i++)
                is_there = unit_of(run, run->wanted[i].address) < run->n_units;
        if (!is_there)
                run->n_units = run->n_ranges = 0;
        return is_there;
}

static int compare_wanted(const void *left, const void *right) {
        const Wanted *a = left, *b = right;

        if (a->unit != b->unit)
                return a->unit < b->unit ? -1 : 1;
        return a->address < b->address ? -1 : a->address > b->address;
}

/* The addresses of one unit. */
typedef struct Group {
        Wanted *wanted;
        uint32_t n;
} Group;

static uint32_t first_at(const Group *group, uint64_t address) {
        uint32_t low = 0, high = group->n;

        while (low < high) {
                uint32_t middle = low + (high - low) / 2;

                if (group->wanted[middle].address < address)
                        low = middle + 1;
                else
                        high = middle;
        }
        return low;
}

/* Puts @node over the addresses of [start, end). Return: whether there were any. */
static bool cover(Run *run, const Group *group, int32_t node, uint64_t start, uint64_t end) {
        bool any = false;

        if (is_dropped(start))
                return false;
        for (uint32_t i = first_at(group, start); i < group->n && group->wanted[i].address < end; i++) {
                Wanted *wanted = &group->wanted[i];

                if (wanted->node == NO_NODE || run->nodes[wanted->node].depth < run->nodes[node].depth)
                        wanted->node = node;
                any = true;
        }
        return any;
}

/* Return: the number of the node, or NO_NODE if none of the wanted addresses is in it. */
static int32_t add_node(Run *run, const Group *group, Dwarf_Die *die, int32_t parent, uint32_t depth) {
        int32_t node = (int32_t)run->n_nodes;
        Dwarf_Addr base, start, end;
        bool any = false;
        ptrdiff_t at = 0;

        if (array_reserve(&run->nodes, &run->nodes_room, run->n_nodes + 1u, 256))
                must(NULL);
        run->nodes[run->n_nodes++] = (Node){ *die, parent, depth };
        while ((at = dwarf_ranges(die, at, &base, &start, &end)) > 0)
                any |= cover(run, group, node, start, end);
        if (any)
                return node;
        run->n_nodes--;
        return NO_NODE;
}

static bool has_code(Dwarf_Die *die) {
        return dwarf_hasattr(die, DW_AT_low_pc) || dwarf_hasattr(die, DW_AT_ranges);
}

/* Whether code may be below @die. *nodep: the node that children are inlined into. */
static bool enter(Run *run, const Group *group, Dwarf_Die *die, int32_t *nodep, uint32_t depth) {
        switch (dwarf_tag(die)) {
        case DW_TAG_subprogram:
                /*
                 * Functions without code, or with other code, count as well: a local class (a lambda) has its
                 * functions in there.
                 */
                *nodep = has_code(die) ? add_node(run, group, die, NO_NODE, depth) : NO_NODE;
                return true;
        case DW_TAG_inlined_subroutine: {
                int32_t node = add_node(run, group, die, *nodep, depth);

                if (node == NO_NODE)
                        return false;
                *nodep = node;
                return true;
        }
        case DW_TAG_lexical_block:
        case DW_TAG_try_block:
        case DW_TAG_catch_block:
        case DW_TAG_entry_point:
        case DW_TAG_namespace:
        case DW_TAG_module:
        case DW_TAG_class_type:
        case DW_TAG_structure_type:
        case DW_TAG_union_type:
        case DW_TAG_interface_type:
                return true;
        default:
                return false;
        }
}

/* Walks without recursion, since the file chooses the depth of the tree. */
static void walk(Run *run, const Group *group, Dwarf_Die *root) {
        struct { Dwarf_Die die; int32_t node; } stack[LINES_MAX_DEPTH];
        uint32_t depth = 0;

        stack[0].node = NO_NODE;
        if (dwarf_child(root, &stack[0].die) != 0)
                return;
        for (;;) {
                int32_t node = depth ? stack[depth - 1].node : NO_NODE;

                if (enter(run, group, &stack[depth].die, &node, depth) && depth + 1 < LINES_MAX_DEPTH &&
                    dwarf_child(&stack[depth].die, &stack[depth + 1].die) == 0) {
                        stack[depth].node = node;
                        depth++;
                        continue;
                }
                while (dwarf_siblingof(&stack[depth].die, &stack[depth].die) != 0)
                        if (depth-- == 0)
                                return;
        }
}

/* The linkage name says all; where there is none (C), the one in the source does. */
static const char *name_of(Dwarf_Die *die) {
        static const unsigned kinds[] = { DW_AT_linkage_name, DW_AT_MIPS_linkage_name, DW_AT_name };
        Dwarf_Attribute attribute;

        for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
                const char *name = dwarf_formstring(dwarf_attr_integrate(die, kinds[i], &attribute));

                if (name)
                        return name;
        }
        return "";
}

static uint32_t number_of(Dwarf_Die *die, unsigned kind) {
        Dwarf_Attribute attribute;
        Dwarf_Word value;

        return dwarf_formudata(dwarf_attr(die, kind, &attribute), &value) == 0 && value <= UINT32_MAX
                ? (uint32_t)value
                : 0;
}

/* Makes a NUL and the readable form of a name. Return: their bytes, which fit behind the name; 0 = none. */
static size_t readable(Run *run, const char *name, size_t n_name) {
        size_t room = LINES_MAX_TEXT - n_name, n;

        if (!run->to || !run->to->demangle || room < 2)
                return 0;
        n = run->to->demangle(run->to->userdata, name, run->readable + 1, room - 1);
        return n ? n + 1 : 0;
}

/*
 * A unit knows the folder that a relative path starts from. If that folder is relative too, it is left out.
 */
static void put_frame(Run *run, Dwarf_Die *unit, const char *name, const char *file, uint32_t line) {
        Dwarf_Attribute attribute;
        const char *folder = file[0] && file[0] != '/'
                ? dwarf_formstring(dwarf_attr(unit, DW_AT_comp_dir, &attribute))
                : NULL;
        size_t n_folder = folder && folder[0] == '/' ? strnlen(folder, LINES_MAX_TEXT / 2) : 0;
        size_t n_file = strnlen(file, LINES_MAX_TEXT / 2 - 1);
        LinesAnswerFrame frame = { .line = line, .n_name = (uint16_t)strnlen(name, LINES_MAX_TEXT),
                                   .n_file = (uint16_t)(n_folder + (n_folder > 0) + n_file) };
        size_t n_name = frame.n_name, n_readable = readable(run, name, n_name);

        frame.n_name += (uint16_t)n_readable;
        put(run, &frame, sizeof(frame));
        put(run, name, n_name);
        put(run, run->readable, n_readable);
        put(run, folder, n_folder);
        put(run, "/", n_folder > 0);
        put(run, file, n_file);
}

static const char *file_of_call(Dwarf_Die *die) {
        Dwarf_Die unit;
        Dwarf_Files *files;
        size_t n;
        const char *file;

        if (!dwarf_diecu(die, &unit, NULL, NULL) || dwarf_getsrcfiles(&unit, &files, &n) != 0)
                return "";
        file = dwarf_filesrc(files, number_of(die, DW_AT_call_file), NULL, NULL);
        return file ? file : "";
}

static uint32_t chain_length(const Run *run, int32_t node) {
        uint32_t n = 0;

        for (; node != NO_NODE; node = run->nodes[node].parent)
                n++;
        return n;
}

/* A chain that is too long keeps its inner frames and the outermost. */
static void put_chain(Run *run, Dwarf_Die *unit, int32_t node, uint32_t n, const char *file, uint32_t line) {
        for (uint32_t i = 0; node != NO_NODE; i++, node = run->nodes[node].parent) {
                Dwarf_Die *die = &run->nodes[node].die;

                if (i + 1 < LINES_MAX_FRAMES || i + 1 == n)
                        put_frame(run, unit, name_of(die), file, line);
                if (i + 1 < n) {
                        file = file_of_call(die);
                        line = number_of(die, DW_AT_call_line);
                }
        }
}

static void answer(Run *run, const Wanted *wanted) {
        uint32_t n = chain_length(run, wanted->node);
        LinesAnswer head = { .index = wanted->index, .n_frames = n ? MIN(n, (uint32_t)LINES_MAX_FRAMES) : 1 };
        Dwarf_Die *unit = &run->units[wanted->unit];
        Dwarf_Line *row = dwarf_getsrc_die(unit, wanted->address);
        const char *file = row ? dwarf_linesrc(row, NULL, NULL) : NULL;
        int line = 0;

        if (row)
                dwarf_lineno(row, &line);
        if (!n && !file)
                return;
        put(run, &head, sizeof(head));
        if (n)
                put_chain(run, unit, wanted->node, n, file ? file : "", (uint32_t)MAX(line, 0));
        else
                put_frame(run, unit, "", file, (uint32_t)MAX(line, 0));
}

static void answer_unit(Run *run, uint32_t first, uint32_t end) {
        Group group = { run->wanted + first, end - first };

        run->n_nodes = 0;
        walk(run, &group, &run->trees[run->wanted[first].unit]);
        for (uint32_t i = first; i < end; i++)
                answer(run, &run->wanted[i]);
        flush(run);
}

static void answer_all(Run *run) {
        for (uint32_t i = 0; i < run->n_wanted; i++) {
                run->wanted[i].unit = unit_of(run, run->wanted[i].address);
                run->wanted[i].node = NO_NODE;
        }
        if (run->n_wanted)
                qsort(run->wanted, run->n_wanted, sizeof(*run->wanted), compare_wanted);
        for (uint32_t i = 0, k; i < run->n_wanted && run->wanted[i].unit < run->n_units; i = k) {
                for (k = i; k < run->n_wanted && run->wanted[k].unit == run->wanted[i].unit;)
                        k++;
                answer_unit(run, i, k);
        }
}

static void want(Run *run, const uint64_t *addresses, uint32_t n) {
        run->wanted = must(calloc(n, sizeof(*run->wanted)));
        run->n_wanted = n;
        for (uint32_t i = 0; i < n; i++)
                run->wanted[i] = (Wanted){ .address = addresses[i], .index = i };
}

static void read_request(Run *run) {
        LinesRequest request;
        uint64_t *addresses;

        if (file_pread(STDIN_FILENO, &request, sizeof(request), 0) != sizeof(request) ||
            request.magic != LINES_MAGIC || request.n_addresses == 0 ||
            request.n_addresses > LINES_MAX_ADDRESSES)
                _exit(1);
        addresses = must(reallocarray(NULL, request.n_addresses, sizeof(*addresses)));
        if (file_pread(STDIN_FILENO, addresses, request.n_addresses * sizeof(*addresses), sizeof(request)) !=
            (ssize_t)(request.n_addresses * sizeof(*addresses)))
                _exit(1);
        want(run, addresses, request.n_addresses);
        free(addresses);
}

/* Text in front of the build id: a path, from the file's directory on if it is relative. */
static bool path_of_link(const char *link, char *path, size_t size) {
        char own[PATH_MAX];
        ssize_t n = *link == '/' ? 0 : readlink("/proc/self/fd/3", own, sizeof(own) - 1);
        char *slash;

        if (n < 0)
                return false;
        own[n] = 0;
        slash = strrchr(own, '/');
        n = snprintf(path, size, "%.*s%s", slash ? (int)(slash + 1 - own) : 0, own, link);
        return n > 0 && (size_t)n < size;
}

/* Whether a section of notes begins with the build id of @size bytes at @id. */
static bool is_build_id(int fd, const Elf64_Shdr *section, const uint8_t *id, size_t size) {
        struct {
                Elf64_Nhdr head;
                char name[4];
                uint8_t id[IMAGE_MAX_BUILD_ID];
        } note;
        size_t n = sizeof(note) - sizeof(note.id) + size;

        return section->sh_type == SHT_NOTE && section->sh_size >= n &&
                file_pread(fd, &note, n, section->sh_offset) == (ssize_t)n && note.head.n_namesz == 4 &&
                note.head.n_descsz == size && note.head.n_type == NT_GNU_BUILD_ID &&
                !memcmp(note.name, "GNU", 4) && !memcmp(note.id, id, size);
}

/* The same of the file, which is a relocatable one without program headers, as dwz makes it. */
static bool has_build_id(int fd, const uint8_t *id, size_t size) {
        Elf64_Shdr sections[MAX_SHARED_SECTIONS];
        Elf64_Ehdr header;
        struct stat st;
        ssize_t n;

        if (size == 0 || size > IMAGE_MAX_BUILD_ID || fstat(fd, &st) || !S_ISREG(st.st_mode) ||
            file_pread(fd, &header, sizeof(header), 0) != sizeof(header) ||
            memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64 ||
            header.e_shentsize != sizeof(*sections))
                return false;
        n = MIN(header.e_shnum, MAX_SHARED_SECTIONS) * (ssize_t)sizeof(*sections);
        if (file_pread(fd, sections, (size_t)n, header.e_shoff) != n)
                return false;
        for (size_t i = 0; i < (size_t)n / sizeof(*sections); i++)
                if (is_build_id(fd, &sections[i], id, size))
                        return true;
        return false;
}

/* What dwz has moved out of the file, if .gnu_debugaltlink says where. Return: a descriptor, or -1. */
static int open_shared(void) {
        _cleanup_(freep) char *link = NULL;
        char path[PATH_MAX];
        ElfImage image;
        struct stat st;
        uint64_t size;
        size_t n;
        int fd;

        if (fstat(FILE_FD, &st) || elf_image_init(&image, FILE_FD, 0, (uint64_t)st.st_size))
                return -1;
        if (elf_image_read_section(&image, ".gnu_debugaltlink", MAX_LINK, &link, &size)) {
                elf_image_deinit(&image);
                return -1;
        }
        n = strnlen(link, size);
        fd = n < size && path_of_link(link, path, sizeof(path))
                ? open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)
                : -1;
        if (fd >= 0 && !has_build_id(fd, (const uint8_t *)link + n + 1, size - n - 1))
                closep(&fd);
        elf_image_deinit(&image);
        return fd;
}

static bool has_suffix(const char *name, const char *suffix) {
        size_t n = strlen(name), n_suffix = strlen(suffix);

        return n > n_suffix && !strcmp(name + n - n_suffix, suffix);
}

static bool is_split(const char *name) {
        return has_suffix(name, ".dwo") || has_suffix(name, ".dwp");
}

/*
 * Opens the directory of the file, as root sees it. A path of another mount namespace may lead to another
 * file here, and where others may write, they may have linked any file. Return: -1 = it is not there, or has
 * that name for another file, or root is not the only one who may write there; @path: `.` in it.
 */
static int open_directory(const struct stat *st, char path[PATH_MAX]) {
        char own[PATH_MAX];
        ssize_t n = readlink("/proc/self/fd/3", own, sizeof(own) - 1);
        _cleanup_(closep) int fd = -1;
        struct stat same, above;
        const char *name;

        if (n <= 0 || !path_of_link(".", path, PATH_MAX))
                return -1;
        own[n] = 0;
        name = strrchr(own, '/');
        fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (!name || fd < 0 || fstatat(fd, name + 1, &same, AT_SYMLINK_NOFOLLOW) ||
            same.st_dev != st->st_dev || same.st_ino != st->st_ino || fstat(fd, &above) || above.st_uid ||
            above.st_mode & (S_IWGRP | S_IWOTH))
                return -1;
        return take_fd(fd);
}

/* Opens the file with the rights of nobody; capabilities that open files go and come with the id. */
static bool nobody_reads(const char *path) {
        _cleanup_(closep) int fd = -1;

        setfsgid(NOBODY);
        setfsuid(NOBODY);
        fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
        setfsuid(0);
        setfsgid(0);
        return fd >= 0;
}

static bool is_hidden(int directory, const char *path, const char *name) {
        char whole[PATH_MAX + NAME_MAX + 2];
        struct stat st;

        snprintf(whole, sizeof(whole), "%s/%s", path, name);
        return is_split(name) && !fstatat(directory, name, &st, AT_SYMLINK_NOFOLLOW) && S_ISREG(st.st_mode) &&
                !st.st_uid && !nobody_reads(whole);
}

/* Whether root has a split unit in the directory that nobody cannot read. @path: of it. */
static bool has_hidden(int directory, const char *path) {
        int fd = openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        DIR *stream = fd < 0 ? NULL : fdopendir(fd);
        const struct dirent *entry;
        bool has = false;

        if (!stream) {
                closep(&fd);
                return false;
        }
        while (!has && (entry = readdir(stream)))
                has = is_hidden(directory, path, entry->d_name);
        closedir(stream);
        return has;
}

/*
 * Of root's file, split units beside it may be hidden from nobody. As nobody we may read them, too, but
 * Landlock leaves us these files alone. So it is done only if there are such ones: else nobody can read more.
 * Return: whether it is so.
 */
static bool keep_split(const struct stat *st) {
        const RightsUser nobody = { .uid = NOBODY, .gid = NOBODY };
        char path[PATH_MAX];
        _cleanup_(closep) int directory = open_directory(st, path);

        return directory >= 0 && rights_can_change() && !setgroups(0, NULL) && has_hidden(directory, path) &&
                !landlock_read_alone(directory, is_split) &&
                !rights_drop(&nobody, RIGHTS_OF(CAP_DAC_READ_SEARCH));
}

/*
 * The file is open already. Split units that it names are read with the rights of its owner, who made it; if
 * that is root, or others may have written it, of nobody, who may read what lies beside root's file.
 */
static void drop_privileges(void) {
        uid_t uid = NOBODY;
        struct stat st = { 0 };
        bool is_sure = !fstat(FILE_FD, &st) && !(st.st_mode & (S_IWGRP | S_IWOTH));

        if (is_sure && st.st_uid)
                uid = st.st_uid;
        if (geteuid() == 0 && !(is_sure && !st.st_uid && keep_split(&st)) &&
            (setgroups(0, NULL) < 0 || setresgid(NOBODY, NOBODY, NOBODY) < 0 || setresuid(uid, uid, uid) < 0))
                _exit(1);
        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
        prctl(PR_SET_PDEATHSIG, 9, 0, 0, 0);
}

/* ---- Go, which says more in its own table than in DWARF, and says it in stripped programs, too ---- */

static void put_go_frame(Run *run, const GoLine *line) {
        LinesAnswerFrame frame = { .line = line->line, .start_line = line->start_line,
                                   .n_name = MIN(line->n_name, (uint16_t)LINES_MAX_TEXT),
                                   .n_file = MIN(line->n_file, (uint16_t)LINES_MAX_TEXT) };

        put(run, &frame, sizeof(frame));
        put(run, line->name, frame.n_name);
        put(run, line->file, frame.n_file);
}

/* Answers what Go's table knows, and leaves the rest to DWARF. Return: whether the file has such a table. */
static bool answer_go(Run *run, int fd, uint64_t size) {
        uint32_t n_left = 0;
        ElfImage image;
        GoLines lines;

        if (elf_image_init(&image, fd, 0, size) || go_lines_init(&lines, &image, GO_MAX_BYTES, run->to))
                return false;
        for (uint32_t i = 0; i < run->n_wanted; i++) {
                GoLine frames[LINES_MAX_FRAMES];
                size_t n = go_lines_find(&lines, run->wanted[i].address, frames, LINES_MAX_FRAMES);
                LinesAnswer head = { .index = run->wanted[i].index, .n_frames = (uint32_t)n };

                if (!n) {
                        run->wanted[n_left++] = run->wanted[i];
                        continue;
                }
                put(run, &head, sizeof(head));
                for (size_t k = 0; k < n; k++)
                        put_go_frame(run, &frames[k]);
        }
        flush(run);
        run->n_wanted = n_left;
        return true;
}

/* Gives @run the file that dwz has made, which libdw would look for by itself. */
static void join_shared(Run *run, int fd) {
        Dwarf *shared = fd < 0 ? NULL : dwarf_begin(fd, DWARF_C_READ);
        const char *name;
        const void *id;

        if (shared)
                dwarf_setalt(run->dwarf, shared);
        run->has_gap |= dwelf_dwarf_gnu_debugaltlink(run->dwarf, &name, &id) > 0 && !dwarf_getalt(run->dwarf);
}

/* Whether DWARF is compressed by zstd, which libdw reads from 0.190 on, if it was built so. */
static bool is_zstd(void) {
        _cleanup_(freep) char *head = NULL;
        const Elf64_Shdr *section;
        ElfImage image;
        struct stat st;
        bool is = false;

        if (fstat(FILE_FD, &st) || elf_image_init(&image, FILE_FD, 0, (uint64_t)st.st_size))
                return false;
        if (!elf_image_find_section(&image, ".debug_info", &section) && section->sh_flags & SHF_COMPRESSED &&
            !elf_image_read(&image, section->sh_offset, sizeof(Elf64_Chdr), &head))
                is = ((const Elf64_Chdr *)head)->ch_type == COMPRESSED_BY_ZSTD;
        elf_image_deinit(&image);
        return is;
}

int lines_worker(void) {
        int shared = open_shared();
        Run run = { 0 };
        struct stat st;
        bool is_go;

        drop_privileges();
        read_request(&run);
        run.out = must(malloc(OUT_BYTES));
        is_go = !fstat(FILE_FD, &st) && answer_go(&run, FILE_FD, (uint64_t)st.st_size);
        if (!run.n_wanted)
                return 0;
        run.dwarf = dwarf_begin(FILE_FD, DWARF_C_READ);
        if (!run.dwarf)
                return is_go ? 0 : is_zstd() ? LINES_EXIT_ZSTD : 3;
        join_shared(&run, shared);
        find_units(&run);
        if (!run.n_units && is_zstd())
                return LINES_EXIT_ZSTD;
        answer_all(&run);
        return run.has_gap ? LINES_EXIT_PARTS : 0;
}

/* ---- in a worker without rights ---- */

/* Where variables lie, macros and the like: of 10 MB that glibc's DWARF unpacks to, 3 are such. */
static bool is_wanted(const char *name) {
        static const char *const unwanted[] = { ".debug_loc",       ".debug_loclists", ".debug_frame",
                                                ".debug_macro",     ".debug_macinfo",  ".debug_pubnames",
                                                ".debug_pubtypes",  ".debug_names",    ".debug_gnu_pubnames",
                                                ".debug_gnu_pubtypes" };

        for (size_t i = 0; i < ARRAY_SIZE(unwanted); i++)
                if (!strcmp(name, unwanted[i]))
                        return false;
        return true;
}

/* Return: NULL = the file has no DWARF that can be read here. */
static Dwarf *dwarf_in_memory(int fd, uint64_t size) {
        GElf_Shdr section;
        Elf_Scn *at = NULL;
        size_t names, mapped;
        char *data;
        Elf *elf;

        if (unpacked_map(fd, size, is_wanted, &data, &mapped))
                return NULL;
        elf_version(EV_CURRENT);
        elf = elf_memory(data, mapped);
        if (!elf || elf_getshdrstrndx(elf, &names))
                return NULL;
        while ((at = elf_nextscn(elf, at))) {
                const char *name = NULL;

                if (gelf_getshdr(at, &section))
                        name = elf_strptr(elf, names, section.sh_name);
                if (name && !strcmp(name, ".gnu_debugaltlink"))
                        return NULL;
        }
        return dwarf_begin_elf(elf, DWARF_C_READ, NULL);
}

void lines_answer(int fd, uint64_t size, const uint64_t *addresses, uint32_t n, const LinesAnswering *to) {
        const LinesAnswer end = { .index = n };
        Run run = { .to = to };

        want(&run, addresses, n);
        run.out = must(malloc(OUT_BYTES));
        answer_go(&run, fd, size);
        run.dwarf = run.n_wanted ? dwarf_in_memory(fd, size) : NULL;
        if (run.dwarf) {
                if (!find_wanted_units(&run))
                        find_units(&run);
                answer_all(&run);
        }
        put(&run, &end, sizeof(end));
        flush(&run);
}
