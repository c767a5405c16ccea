/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Lists of code for debuggers: of this very process, which has one as a compiler at run time has it, and in
 * memory that says what no process should.
 */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/base/sandbox/zygotes.h"
#include "core/base/util/clock.h"
#include "core/base/util/macro.h"
#include "gdb-image.h"
#include "host/naming/code-source.h"
#include "host/naming/frame-wire.h"
#include "host/naming/gdb-list.h"
#include "host/naming/gdb-wire.h"
#include "host/sampling/unwind/made/made-set.h"

enum { TEXT = 0x10000, TEXT_SIZE = 0x1000 };

static const GdbFunction two[] = { { "first", 0x10, 0x20 }, { "_ZN3foo3barEv", 0x40, 0x30 } };

/* ---- memory by hand: this process' own, unless a case has a hand in it ---- */

struct jit_descriptor __jit_debug_descriptor = { 1, 0, NULL, NULL };
static struct jit_code_entry entries[3];
static char images[3][GDB_IMAGE_SIZE];

static unsigned n_reads;
static void (*at_read)(unsigned n);     /* NULL = nobody writes meanwhile */
static uint64_t absent;                 /* this address cannot be read */

static bool read_own(void *userdata, uint64_t address, void *to, size_t size) {
        n_reads++;
        cr_assert(size && size <= 64 << 10);
        if (at_read)
                at_read(n_reads);
        if (address < 4096 || (absent && address <= absent && absent - address < size))
                return false;
        memcpy(to, (const void *)(uintptr_t)address, size);
        return true;
}

static const GdbMemory memory = { .read = read_own };
static char found[4096];
static unsigned room = UINT_MAX, n_told;
static GdbListCounts counts;

static int take_range(void *userdata, const CodeRange *range) {
        size_t n = strlen(found);

        if (n_told++ >= room)
                return 1;
        snprintf(found + n, sizeof(found) - n, "%lx+%lx %.*s\n", (unsigned long)range->start,
                 (unsigned long)range->size, (int)range->name_size, range->name);
        return 0;
}

static int read_list(void) {
        found[0] = 0;
        n_reads = n_told = 0;
        return gdb_list_read(&memory, (uintptr_t)&__jit_debug_descriptor, take_range, NULL, &counts);
}

/* Puts @n images of the functions @two into the list, each at a text of its own. */
static void make_list(unsigned n) {
        for (unsigned i = 0; i < n; i++)
                entries[i] = (struct jit_code_entry){
                        .next_entry = i + 1 < n ? &entries[i + 1] : NULL,
                        .prev_entry = i ? &entries[i - 1] : NULL,
                        .symfile_addr = images[i],
                        .symfile_size =
                                gdb_image(images[i], TEXT + i * TEXT_SIZE, TEXT_SIZE, two, ARRAY_SIZE(two)),
                };
        __jit_debug_descriptor = (struct jit_descriptor){ 1, 0, NULL, n ? entries : NULL };
}

static Elf64_Ehdr *header_of(char *image) {
        return (Elf64_Ehdr *)image;
}

static Elf64_Shdr *sections_of(char *image) {
        return (Elf64_Shdr *)(image + header_of(image)->e_shoff);
}

static Elf64_Sym *symbols_of(char *image) {
        return (Elf64_Sym *)(image + sections_of(image)[2].sh_offset);
}

Test(gdb_list, has_the_functions_of_all_images) {
        make_list(2);
        cr_assert_eq(read_list(), 0);
        cr_assert_str_eq(found, "10010+20 first\n10040+30 foo::bar\n11010+20 first\n11040+30 foo::bar\n");
        cr_assert_eq(counts.n_images, 2);
        cr_assert_eq(counts.n_malformed + counts.n_over_cap, 0);
}

Test(gdb_list, may_be_empty_or_none) {
        make_list(0);
        cr_assert_eq(read_list(), 0);
        cr_assert_str_eq(found, "");
        __jit_debug_descriptor.version = 2;
        cr_assert_eq(read_list(), GDB_LIST_E_NONE);
        cr_assert_eq(gdb_list_read(&memory, 8, take_range, NULL, &counts), GDB_LIST_E_NONE);
}

/* wasmtime's images are libraries; other libraries have addresses for values. */
Test(gdb_list, reads_a_library_with_either_kind_of_value) {
        make_list(1);
        header_of(images[0])->e_type = ET_DYN;
        symbols_of(images[0])[2].st_value += TEXT;
        cr_assert_eq(read_list(), 0);
        cr_assert_str_eq(found, "10010+20 first\n10040+30 foo::bar\n");
}

Test(gdb_list, ends_a_circle_and_what_was_freed) {
        make_list(3);
        entries[2].next_entry = &entries[0];
        cr_assert_eq(read_list(), GDB_LIST_E_CHANGED);
        cr_assert_lt(n_reads, 10);
        make_list(3);
        entries[1].next_entry = &entries[1];
        cr_assert_eq(read_list(), GDB_LIST_E_CHANGED);
        make_list(3);
        entries[1].prev_entry = NULL;
        cr_assert_eq(read_list(), GDB_LIST_E_CHANGED);
        make_list(3);
        absent = (uintptr_t)&entries[2];
        cr_assert_eq(read_list(), GDB_LIST_E_CHANGED);
        make_list(3);
        absent = (uintptr_t)&images[1][8];
        cr_assert_eq(read_list(), GDB_LIST_E_CHANGED);
}

static unsigned change_at;

static void change_name(unsigned n) {
        if (n == change_at)
                images[0][sections_of(images[0])[3].sh_offset + 1] ^= 1;
}

static void take_out(unsigned n) {
        if (n == change_at)
                __jit_debug_descriptor.first_entry = NULL;
}

/* A read has three accesses here: descriptor, entry, image. */
Test(gdb_list, is_void_if_it_changes_between_two_reads) {
        for (change_at = 1; change_at <= 8; change_at++) {
                make_list(1);
                at_read = change_name;
                cr_assert_eq(read_list(), change_at >= 4 && change_at <= 6 ? GDB_LIST_E_CHANGED : 0, "%u",
                             change_at);
                make_list(1);
                at_read = take_out;
                cr_assert_eq(read_list(), change_at >= 2 && change_at <= 4 ? GDB_LIST_E_CHANGED : 0, "%u",
                             change_at);
        }
}

Test(gdb_list, leaves_out_and_counts_what_makes_no_sense) {
        make_list(3);
        images[0][0] = 'x';
        symbols_of(images[1])[1].st_value = TEXT_SIZE - 8;      /* beyond its section */
        symbols_of(images[1])[2].st_name = 1 << 20;
        sections_of(images[2])[3].sh_size = UINT64_MAX;
        cr_assert_eq(read_list(), 0);
        cr_assert_str_eq(found, "");
        cr_assert_eq(counts.n_malformed, 4);
        make_list(2);
        sections_of(images[0])[1].sh_addr = UINT64_MAX - 16;
        symbols_of(images[1])[1].st_shndx = SHN_ABS;
        sections_of(images[1])[1].sh_flags = SHF_ALLOC;
        cr_assert_eq(read_list(), 0);
        cr_assert_str_eq(found, "");
        cr_assert_eq(counts.n_malformed, 4);
}

Test(gdb_list, leaves_out_and_counts_what_is_over_a_cap) {
        make_list(2);
        entries[0].symfile_size = GDB_LIST_MAX_IMAGE + 1ul;
        cr_assert_eq(read_list(), 0);
        cr_assert_str_eq(found, "11010+20 first\n11040+30 foo::bar\n");
        cr_assert_eq(counts.n_over_cap, 1);
        make_list(1);
        entries[0].symfile_size = 8;
        cr_assert_eq(read_list(), 0);
        cr_assert_eq(counts.n_malformed, 1);
}

Test(gdb_list, counts_what_is_behind_the_last_that_had_room_and_does_not_read_it) {
        make_list(3);
        room = 1;
        cr_assert_eq(read_list(), 0);
        cr_assert_str_eq(found, "10010+20 first\n");
        cr_assert_eq(n_told, 2);
        cr_assert_eq(counts.n_over_cap, 5);
        cr_assert_eq(counts.n_images, 3);
}

/* ---- as the daemon does it ---- */

/* A worker; the zygotes is this program once more, as in test-sandbox.c. */
static void work(int socket) {
        _exit(0);
}

__attribute__((__constructor__)) static void become_zygote(int argc, char **argv) {
        if (argc == 1 && !strcmp(argv[0], ZYGOTE_NAME))
                zygote_serve(work);
}

static CodeSource *source;
static CodePlace place;

static void fini(void) {
        code_source_unref(source);
        listed_files_deinit(&place.files);
}
TestSuite(listed_code, .fini = fini);

static CodeLook look(void) {
        CodeLook result;

        code_source_look(source, &place, &result);
        cr_assert(!result.failed);
        result.made = made_set_free(result.made);
        return result;
}

static void assert_name(uint64_t address, uint64_t time_ns, const char *expected) {
        char name[CODE_MAX_NAME];
        uint64_t start = 0;
        bool is_past;
        size_t size;
        int r = code_source_find(source, address, time_ns, name, &size, &start, &is_past);

        cr_assert_eq(r, expected ? 0 : CODE_SOURCE_E_NONE, "%#lx", (unsigned long)address);
        if (expected)
                cr_assert(size == strlen(expected) && !memcmp(name, expected, size), "%.*s", (int)size, name);
}

static void read_files(void) {
        ObjectCache *objects;
        Process *process;

        cr_assert_eq(object_cache_new(&objects, 64), 0);
        cr_assert_eq(process_new(&process, getpid()), 0);
        cr_assert_eq(process_read_mappings(process, objects), 0);
        cr_assert_eq(listed_files_read(&place.files, process), 0);
        cr_assert_gt(place.files.n, 2);
        place.pid = getpid();
        place.start_time_ns = process->start_time_ns;
        process_free(process);
        object_cache_free(objects);
}

/* The descriptor of this program is in its symbols, not among those that it exports. */
static void init(void) {
        cr_assert_eq(code_source_new(&source, NULL, NULL), 0);
        read_files();
}

Test(listed_code, is_found_by_the_symbols_of_the_files, .init = init) {
        CodeLook result;

        make_list(1);
        result = look();
        cr_assert(result.has_file && result.is_changed);
        cr_assert_eq(result.n_taken, 2);
        assert_name(TEXT + 0x10, 0, "first");
        assert_name(TEXT + 0x2f, 0, "first");
        assert_name(TEXT + 0x30, 0, NULL);
        result = look();
        cr_assert(result.has_file && !result.is_changed, "nothing is new");
        make_list(0);
        result = look();
        cr_assert(!result.has_file && result.is_changed);
        assert_name(TEXT + 0x10, 0, NULL);
}

/* A sample from between two looks that differ has a name only where they do not. */
Test(listed_code, names_nothing_that_may_have_been_either, .init = init) {
        static const GdbFunction other[] = { { "other", 0x10, 0x20 }, { "_ZN3foo3barEv", 0x40, 0x30 } };

        make_list(1);
        look();
        entries[0].symfile_size = gdb_image(images[0], TEXT, TEXT_SIZE, other, 2);
        look();
        assert_name(TEXT + 0x10, 1, NULL);
        assert_name(TEXT + 0x40, 1, "foo::bar");
        assert_name(TEXT + 0x10, UINT64_MAX, "other");
        make_list(0);
        look();
        assert_name(TEXT + 0x10, 1, "other");
        assert_name(TEXT + 0x10, UINT64_MAX, NULL);
}

/* Maps a program of one page, as @path, executable in this process. */
static void map_program(const char *path) {
        static const struct {
                Elf64_Ehdr header;
                Elf64_Phdr code;
        } program = { .header = { .e_ident = { ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB,
                                               EV_CURRENT },
                                  .e_type = ET_DYN, .e_machine = EM_X86_64, .e_version = EV_CURRENT,
                                  .e_ehsize = sizeof(Elf64_Ehdr), .e_phoff = sizeof(Elf64_Ehdr),
                                  .e_phentsize = sizeof(Elf64_Phdr), .e_phnum = 1 },
                      .code = { .p_type = PT_LOAD, .p_flags = PF_R | PF_X, .p_filesz = 4096, .p_memsz = 4096,
                                .p_align = 4096 } };
        int fd = open(path, O_RDWR | O_CREAT | O_EXCL, 0700);

        cr_assert_geq(fd, 0);
        cr_assert_eq(write(fd, &program, sizeof(program)), (ssize_t)sizeof(program));
        cr_assert_eq(ftruncate(fd, 4096), 0);
        cr_assert_neq(mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0), MAP_FAILED);
        close(fd);
}

Test(listed_code, tells_of_files_over_the_cap) {
        char folder[] = "/tmp/spanprof-test-XXXXXX", path[64];

        read_files();
        cr_assert_not(place.files.is_cut);
        cr_assert_not_null(mkdtemp(folder));
        for (unsigned i = 0; i < LISTED_MAX_FILES; i++) {
                snprintf(path, sizeof(path), "%s/%u", folder, i);
                map_program(path);
                unlink(path);
        }
        rmdir(folder);
        listed_files_deinit(&place.files);
        read_files();
        cr_assert_eq(place.files.n, LISTED_MAX_FILES, "this program's own and the C library's are two more");
        cr_assert(place.files.is_cut);
}

/* What has left the list before two looks that are alike names nothing between them. */
Test(listed_code, between_two_looks_that_are_alike_is_what_both_found, .init = init) {
        static const GdbFunction other[] = { { "other", 0x10, 0x20 } };
        uint64_t between_ns;

        make_list(1);
        look();
        entries[0].symfile_size = gdb_image(images[0], TEXT, TEXT_SIZE, other, 1);
        look();
        between_ns = clock_monotonic_ns();
        cr_assert(!look().is_changed);
        assert_name(TEXT + 0x10, between_ns, "other");
        assert_name(TEXT + 0x40, between_ns, NULL);
        assert_name(TEXT + 0x10, 1, NULL);
        assert_name(TEXT + 0x40, 1, "foo::bar");
}

static uint32_t count_asked(const ListedCode *listed) {
        uint32_t n = 0;

        for (uint32_t i = 0; i < listed->files.n; i++)
                n += listed->files.items[i].says.is_asked;
        return n;
}

/* Each worker dies of the first file that it gets. */
Test(listed_code, one_look_costs_no_more_than_one_worker, .init = init) {
        _cleanup_(closep) int proc_fd = open("/proc/self", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        WorkerSessionCounts workers = { 0 };
        WorkerSession worker = { .end_ns = UINT64_MAX, .counts = &workers, .socket = -1 };
        ListedCode listed = { 0 };
        ListedResult result;

        cr_assert_eq(zygotes_new(&worker.zygotes), 0);
        cr_assert_eq(zygotes_wait(worker.zygotes, 60000), 0);
        listed_code_set_files(&listed, &place.files);
#define LOOK(_n_failed, _n_started) \
        cr_assert_eq(listed_code_look(&listed, proc_fd, place.pid, place.start_time_ns, &worker, &result), \
                     0); \
        cr_assert_eq(result.n_failed, _n_failed); \
        cr_assert_eq(workers.n_started, _n_started); \
        cr_assert_eq(count_asked(&listed), _n_started)
        LOOK(1, 1);
        LOOK(1, 2);
        cr_assert_eq(workers.n_died, 2);
        worker.end_ns = clock_monotonic_ns();           /* no time is left */
        LOOK(0, 2);
        worker.end_ns = UINT64_MAX;
        zygotes_ref(worker.zygotes);
        zygotes_free(worker.zygotes);                   /* there are no more workers */
        LOOK(1, 2);
        zygotes_unref(worker.zygotes);
        listed_code_deinit(&listed);
}

/* Its worker dies of the question for registered frames. */
Test(listed_code, list_that_was_found_stays_known, .init = init) {
        _cleanup_(closep) int proc_fd = open("/proc/self", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        const GdbAnswer answer = { .magic = GDB_WIRE_MAGIC, .address = 0x1000 };
        WorkerSessionCounts workers = { 0 };
        WorkerSession worker = { .end_ns = UINT64_MAX, .counts = &workers };
        ListedCode listed = { 0 };
        ListedResult result;
        const ListedSays *says;
        int sockets[2];

        cr_assert_eq(zygotes_new(&worker.zygotes), 0);
        cr_assert_eq(zygotes_wait(worker.zygotes, 60000), 0);
        cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets), 0);
        cr_assert_eq(write(sockets[1], &answer, sizeof(answer)), (ssize_t)sizeof(answer));
        cr_assert_eq(shutdown(sockets[1], SHUT_WR), 0);
        worker.socket = sockets[0];
        listed_code_set_files(&listed, &place.files);
        cr_assert_eq(listed_code_look(&listed, proc_fd, place.pid, place.start_time_ns, &worker, &result), 0);
        cr_assert_eq(result.n_failed, 1);
        cr_assert_eq(workers.n_died, 1);
        cr_assert_eq(count_asked(&listed), 1);
        says = &listed.files.items[(uint32_t)place.pid % listed.files.n].says;
        cr_assert(says->is_asked);
        cr_assert(says->has_list);
        cr_assert_eq(says->symbol, 0x1000);
        cr_assert_not(says->has_frames);
        close(sockets[1]);
        zygotes_free(worker.zygotes);
        listed_code_deinit(&listed);
}

/* Looks at files of which @known alone is known. */
static ListedResult look_by(const ListedKnown *known, WorkerSession *worker, uint32_t *n_askedp) {
        _cleanup_(closep) int proc_fd = open("/proc/self", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        ListedCode listed = { 0 };
        ListedResult result;

        read_files();
        listed_known_apply(known, &place.files);
        *n_askedp = place.files.n;
        for (uint32_t i = 0; i < place.files.n; i++)
                *n_askedp -= place.files.items[i].says.is_asked;
        listed_code_set_files(&listed, &place.files);
        cr_assert_geq(listed_code_look(&listed, proc_fd, place.pid, place.start_time_ns, worker, &result), 0);
        code_index_free(result.look.index);
        made_set_free(result.made);
        listed_code_deinit(&listed);
        return result;
}

Test(listed_code, each_look_makes_one_file_known_to_all) {
        ListedKnown known = { 0 };
        uint32_t n_files, n_asked;
        ListedResult result = look_by(&known, NULL, &n_files);
        uint64_t last_id = 0;

        cr_assert_geq(n_files, 2, "this program's own and the C library's");
        for (uint32_t i = 1; i <= n_files; i++) {
                cr_assert(result.first_id && result.first_id != last_id && result.first.is_asked);
                last_id = result.first_id;
                listed_known_put(&known, result.first_id, &result.first);
                result = look_by(&known, NULL, &n_asked);
                cr_assert_eq(n_asked, n_files - i);
        }
        cr_assert_eq(result.first_id, 0);
        cr_assert_eq(result.n_lists, 0);
        make_list(1);
        cr_assert_eq(look_by(&known, NULL, &n_asked).n_lists, 1, "the list that the program's file has");
        listed_known_deinit(&known);
}

/* It may have been taken over by the file before. */
Test(listed_code, worker_that_has_read_another_file_makes_none_known) {
        const GdbAnswer find = { .magic = GDB_WIRE_MAGIC, .result = GDB_LIST_E_NONE };
        const FrameAnswer frames = { .magic = GDB_WIRE_MAGIC, .result = FRAME_VARIABLES_E_NONE };
        WorkerSessionCounts workers = { 0 };
        WorkerSession worker = { .end_ns = UINT64_MAX, .counts = &workers };
        ListedKnown known = { 0 };
        ListedResult result;
        int sockets[2];
        uint32_t n_asked;

        cr_assert_eq(zygotes_new(&worker.zygotes), 0);
        cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets), 0);
        cr_assert_eq(write(sockets[1], &find, sizeof(find)), (ssize_t)sizeof(find));
        cr_assert_eq(write(sockets[1], &frames, sizeof(frames)), (ssize_t)sizeof(frames));
        cr_assert_eq(shutdown(sockets[1], SHUT_WR), 0);
        worker.socket = sockets[0];
        result = look_by(&known, &worker, &n_asked);
        cr_assert_eq(workers.n_died, 1, "of the second file");
        cr_assert_eq(result.n_failed, 1);
        cr_assert_eq(result.first_id, 0);
        close(sockets[1]);
        zygotes_free(worker.zygotes);
}

Test(listed_code, oldest_known_file_gives_way) {
        static ListedFile items[2];
        ListedFiles files = { .items = items, .n = 2 };
        const ListedSays says = { .is_asked = true, .symbol = 0x1000 };
        ListedKnown known = { 0 };

        for (uint64_t id = 1; id <= LISTED_MAX_KNOWN + 1; id++)
                for (unsigned i = 0; i < 2; i++)        /* what is known takes no second place */
                        listed_known_put(&known, id, &says);
        items[0].id = 1;
        items[1].id = 2;
        listed_known_apply(&known, &files);
        cr_assert_not(items[0].says.is_asked);
        cr_assert(items[1].says.is_asked);
        cr_assert_eq(items[1].says.symbol, 0x1000);
        items[0].id = LISTED_MAX_KNOWN + 1;
        listed_known_apply(&known, &files);
        cr_assert(items[0].says.is_asked);
        listed_known_deinit(&known);
}

Test(listed_code, answers_of_a_worker_are_checked) {
        GdbAnswer found_one = { .magic = GDB_WIRE_MAGIC, .address = 0x1000 };
        GdbAnswer read_two = { .magic = GDB_WIRE_MAGIC, .counts.n_images = 1, .n_records = 2, .size = 200 };
        GdbAnswer bad;

        cr_assert(gdb_wire_check(&found_one, GDB_WIRE_FIND) && !gdb_wire_check(&found_one, GDB_WIRE_READ));
        cr_assert(gdb_wire_check(&read_two, GDB_WIRE_READ) && !gdb_wire_check(&read_two, GDB_WIRE_FIND));
#define REFUSE(_field, _value) \
        bad = read_two; \
        bad._field = _value; \
        cr_assert(!gdb_wire_check(&bad, GDB_WIRE_READ), #_field)
        REFUSE(magic, 1);
        REFUSE(result, -1);
        REFUSE(result, GDB_LIST_E_CHANGED + 1);
        REFUSE(result, GDB_LIST_E_CHANGED);             /* with records */
        REFUSE(size, GDB_WIRE_MAX_BYTES + 1);
        REFUSE(n_records, 200);
        REFUSE(counts.n_images, GDB_LIST_MAX_IMAGES + 1);
        REFUSE(zero, 1);
}
