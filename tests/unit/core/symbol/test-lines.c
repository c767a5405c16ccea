/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/symbol/function/debug-file.h"
#include "core/symbol/line/lines.h"
#include "work-directory.h"

/* Inlined into each other, templates, a lambda in an inlined function, a local class. */
static const char source[] =
        "#include <algorithm>\n#include <map>\n#include <string>\n#include <vector>\n#include <cstdio>\n"
        "namespace {\n"
        "struct Shape { virtual ~Shape() {} virtual double area() const = 0; };\n"
        "struct Square : Shape { double side; explicit Square(double s) : side(s) {} double area() const override { return side * side; } };\n"
        "template <typename T> __attribute__((noinline)) T sum(const std::vector<T> &all) { T n{}; for (const T &one : all) n += one; return n; }\n"
        "inline int twice(int x) { return 2 * x; }\n"
        "inline int four(int x) { return twice(twice(x)); }\n"
        "}\n"
        "__attribute__((noinline)) int work(std::map<std::string, int> &counts, const std::string &text) {\n"
        "        struct Local { std::string text; int size() const { return (int)text.size(); } } local{ text };\n"
        "        auto add = [&](const std::string &word) { counts[word] += four(local.size()); };\n"
        "        for (char c : text) add(std::string(1, c));\n"
        "        return (int)counts.size();\n"
        "}\n"
        "int main(int argc, char **argv) {\n"
        "        std::map<std::string, int> counts;\n"
        "        std::vector<int> sizes;\n"
        "        std::vector<double> areas;\n"
        "        for (int i = 0; i < argc; i++) {\n"
        "                sizes.push_back(work(counts, argv[i]));\n"
        "                areas.push_back(Square(i).area());\n"
        "        }\n"
        "        std::sort(sizes.begin(), sizes.end(), [](int a, int b) { return a > b; });\n"
        "        std::printf(\"%d %f\\n\", sum(sizes), sum(areas));\n"
        "        return 0;\n"
        "}\n";

enum { MAX_ADDRESSES = 100000 };

static uint64_t addresses[MAX_ADDRESSES];
static uint32_t n_addresses;
static char *answers[MAX_ADDRESSES];

static LinesOptions options(void) {
        const char *program = getenv("SPANPROF");

        cr_assert_not_null(program, "SPANPROF names the program");
        return (LinesOptions){ .program = program };
}

static void write_text(const char *name, const char *text) {
        FILE *file = fopen(work_path(name), "we");

        cr_assert_not_null(file);
        cr_assert_geq(fputs(text, file), 0);
        cr_assert_eq(fclose(file), 0);
}

/* Every third address of .text. */
static void choose_addresses(const char *path, uint64_t step) {
        const char *line = first_line(
                "readelf -SW %s | sed -n 's/.* \\.text *PROGBITS *\\([0-9a-f]*\\) [0-9a-f]* \\([0-9a-f]*\\).*/\\1 \\2/p'",
                path);
        uint64_t start = 0, size = 0;

        cr_assert_eq(sscanf(line, "%lx %lx", &start, &size), 2, "%s", line);
        for (n_addresses = 0; n_addresses < MAX_ADDRESSES && n_addresses * step < size; n_addresses++)
                addresses[n_addresses] = start + n_addresses * step;
}

/* In the form of `addr2line -i -f`. */
static int keep(void *userdata, uint32_t index, const LineFrame *frames, size_t n) {
        size_t size;
        FILE *out;

        cr_assert_lt(index, n_addresses);
        cr_assert_null(answers[index]);
        out = open_memstream(&answers[index], &size);
        for (size_t i = 0; i < n; i++)
                fprintf(out, "%.*s\n%.*s:%u\n", (int)frames[i].n_name, frames[i].name,
                        (int)MAX(frames[i].n_file, (size_t)2), frames[i].n_file ? frames[i].file : "??",
                        frames[i].line);
        cr_assert_eq(fclose(out), 0);
        return 0;
}

static void forget_answers(void) {
        for (uint32_t i = 0; i < MAX_ADDRESSES; i++) {
                free(answers[i]);
                answers[i] = NULL;
        }
}

static int read_lines(const char *path, const LinesOptions *how) {
        int fd = open(path, O_RDONLY | O_CLOEXEC), r;

        cr_assert_geq(fd, 0);
        forget_answers();
        r = lines_read(fd, addresses, n_addresses, how, keep, NULL);
        close(fd);
        return r;
}

TestSuite(lines, .init = work_directory_make, .fini = work_directory_remove, .timeout = 200);

/* One line of addr2line without `(discriminator 2)` and with 0 for an unknown line. */
static void normalize(char *line) {
        char *extra = strstr(line, " (disc"), *unknown;

        line[strcspn(line, "\n")] = 0;
        if (extra)
                *extra = 0;
        unknown = strstr(line, ":?");
        if (unknown)
                strcpy(unknown, ":0");
}

typedef struct Agreement {
        uint32_t n_known, n_lines_differ, n_names_differ, n_inlined;
} Agreement;

static void next_line(char **atp, char *line, size_t size) {
        size_t n = strcspn(*atp, "\n");

        snprintf(line, size, "%.*s", (int)n, *atp);
        *atp += n + ((*atp)[n] == '\n');
}

/* Frame after frame. What addr2line does not know at all (`??`, `:0`) is not compared. */
typedef struct Block {
        char *at;                       /* of our answer to this address; NULL = none */
        unsigned n_frames;
        bool is_known, differs;
} Block;

static void end_block(const Block *block, Agreement *agreement) {
        if (!block->is_known)
                return;
        agreement->n_known++;
        agreement->n_inlined += block->n_frames - 1;
        agreement->n_lines_differ += block->differs || (block->at && *block->at);
}

/*
 * The outermost name may come from the symbol table, as in window-names.c, and so may the first if DWARF has
 * no linkage name.
 */
static void compare_frame(Block *block, const char *name, const char *place, Agreement *agreement) {
        char our_name[8192] = "", our_place[8192] = "";

        block->is_known |= strncmp(place, "??", 2) != 0 && strcmp(place + strcspn(place, ":"), ":0") != 0;
        if (block->at) {
                next_line(&block->at, our_name, sizeof(our_name));
                next_line(&block->at, our_place, sizeof(our_place));
        }
        block->differs |= strcmp(place, our_place) != 0;
        if (block->n_frames++ && block->at && *block->at)
                agreement->n_names_differ += strcmp(name, our_name) != 0;
}

static void compare(FILE *pipe, Agreement *agreement) {
        char name[8192], place[8192];
        uint32_t n = 0;
        Block block = { 0 };

        while (fgets(name, sizeof(name), pipe)) {
                if (!strncmp(name, "0x", 2)) {
                        end_block(&block, agreement);
                        cr_assert_lt(n, n_addresses);
                        block = (Block){ .at = answers[n++] };
                        continue;
                }
                cr_assert_not_null(fgets(place, sizeof(place), pipe));
                normalize(name);
                normalize(place);
                compare_frame(&block, name, place, agreement);
        }
        end_block(&block, agreement);
        cr_assert_eq(n, n_addresses, "addr2line has answered %u of %u", n, n_addresses);
}

static Agreement compare_with_addr2line(const char *path) {
        Agreement agreement = { 0 };
        FILE *list = fopen(work_path("addresses"), "we"), *pipe;
        char command[PATH_MAX];

        for (uint32_t i = 0; i < n_addresses; i++)
                fprintf(list, "%#lx\n", addresses[i]);
        cr_assert_eq(fclose(list), 0);
        snprintf(command, sizeof(command), "addr2line -aif -e %s <%s", path, work_path("addresses"));
        pipe = popen(command, "r");
        compare(pipe, &agreement);
        cr_assert_eq(pclose(pipe), 0);
        return agreement;
}

/*
 * binutils 2.40 takes the wrong file of some lines of DWARF 5 (a function of a header said to be in the main
 * file).
 */
Test(lines, agree_with_addr2line) {
        LinesOptions how = options();

        write_text("big.cc", source);
        for (unsigned version = 4; version <= 5; version++) {
                Agreement agreement;

                cr_assert_eq(shell("g++ -O2 -g -gdwarf-%u -o big big.cc", version), 0);
                choose_addresses(work_path("big"), 2);
                cr_assert_eq(read_lines(work_path("big"), &how), 0);
                agreement = compare_with_addr2line(work_path("big"));
                cr_log_info(
                        "DWARF %u: %u addresses, %u known, %u inlined frames, %u lines and %u names differ",
                        version, n_addresses, agreement.n_known, agreement.n_inlined,
                        agreement.n_lines_differ, agreement.n_names_differ);
                cr_expect_gt(agreement.n_known, 2000);
                cr_expect_gt(agreement.n_inlined, 2000);
                cr_expect_leq(agreement.n_lines_differ * 200, version == 5 ? agreement.n_known : 0,
                              "DWARF %u: %u differ", version, agreement.n_lines_differ);
                cr_expect_leq(agreement.n_names_differ * 200, version == 5 ? agreement.n_known : 0);
        }
        forget_answers();
}

static int put(void *userdata, const void *data, size_t size) {
        return write(*(const int *)userdata, data, size) == (ssize_t)size ? 0 : -1;
}

/* The answers of a worker without rights, in a process that ends with what it has taken. */
static void read_as_worker(const char *name) {
        int fd = open(work_path(name), O_RDONLY | O_CLOEXEC), to = memfd_create("answers", MFD_CLOEXEC), status;
        uint8_t *data, *seen = calloc(1, n_addresses);
        struct stat st;
        size_t used;
        pid_t pid;

        cr_assert_eq(fstat(fd, &st), 0);
        pid = fork();
        if (pid == 0) {
                const LinesAnswering answering = { .send = put, .userdata = &to };

                lines_answer(fd, (uint64_t)st.st_size, addresses, n_addresses, &answering);
                _exit(0);
        }
        cr_assert_eq(waitpid(pid, &status, 0), pid);
        cr_assert_eq(status, 0, "%s", name);
        cr_assert_eq(fstat(to, &st), 0);
        data = malloc((size_t)st.st_size);
        cr_assert_eq(pread(to, data, (size_t)st.st_size, 0), st.st_size);
        forget_answers();
        st.st_size -= (off_t)sizeof(LinesAnswer);       /* the last says that nothing more comes */
        cr_assert_eq(lines_parse(data, (size_t)st.st_size, n_addresses, seen, keep, NULL, &used), 0);
        cr_assert_eq(used, (size_t)st.st_size);
        free(data);
        free(seen);
        close(fd);
        close(to);
}

/* Leaves the addresses that were answered. */
static void leave_known(void) {
        uint32_t n = 0;

        for (uint32_t i = 0; i < n_addresses; i++)
                if (answers[i])
                        addresses[n++] = addresses[i];
        n_addresses = n;
}

static void check_worker(const char *name, char *const *plain) {
        read_as_worker(name);
        for (uint32_t i = 0; i < n_addresses; i++)
                cr_assert(plain[i] == answers[i] || (plain[i] && answers[i] && !strcmp(plain[i], answers[i])),
                          "%s: %#lx is %s, not %s", name, addresses[i], answers[i], plain[i]);
}

/*
 * Packed, without the table of addresses, and with one whose units begin elsewhere (bytes 6 to 9): a worker
 * finds what the other process finds. The start of a program is in no table: with its addresses all units are
 * read.
 */
Test(lines, of_a_worker_are_the_same) {
        static const char *const forms[] = { "big", "packed", "bare", "wrong" };
        LinesOptions how = options();

        write_text("big.cc", source);
        cr_assert_eq(shell("g++ -O2 -g -o big big.cc && objcopy --compress-debug-sections=zlib big packed && "
                           "objcopy --remove-section .debug_aranges big bare && "
                           "objcopy --dump-section .debug_aranges=table big && cp big wrong && "
                           "printf '\\005' | dd of=table bs=1 seek=6 conv=notrunc status=none && "
                           "objcopy --update-section .debug_aranges=table wrong"),
                     0);
        choose_addresses(work_path("big"), 16);
        for (unsigned known = 0; known < 2; known++) {
                char **plain = calloc(n_addresses, sizeof(*plain));
                uint32_t n = n_addresses;

                cr_assert_eq(read_lines(work_path("big"), &how), 0);
                memcpy(plain, answers, n_addresses * sizeof(*plain));
                memset(answers, 0, n_addresses * sizeof(*plain));
                for (size_t i = 0; i < ARRAY_SIZE(forms); i++)
                        check_worker(forms[i], plain);
                leave_known();
                cr_assert_gt(n_addresses, 100);
                for (uint32_t i = 0; i < n; i++)
                        free(plain[i]);
                free(plain);
        }
        forget_answers();
}

/*
 * Two units with large functions of the same names and other sizes. The linker drops the second ones: their
 * ranges begin at 0, and reach over the start of the program.
 */
static void make_two_units(void) {
        write_text("large.h", "#define TEN(x) x x x x x x x x x x\n"
                              "template <int N> __attribute__((noinline)) int large(int n) {\n"
                              "        volatile int k = n;\n"
                              "        TEN(TEN(TEN(k += N;))) MORE\n"
                              "        return k;\n"
                              "}\n"
                              "#define ALL(n) (large<1>(n) + large<2>(n) + large<3>(n) + large<4>(n))\n");
        write_text("one.cc", "#include \"large.h\"\n"
                             "int second(int n);\n"
                             "__attribute__((cold)) int first(int n) { return ALL(n) + 1; }\n"
                             "int main(int argc, char **) { return first(argc) + second(argc); }\n");
        write_text("two.cc", "#include \"large.h\"\n__attribute__((cold)) int second(int n) { return ALL(n) - 1; }\n");
        cr_assert_eq(shell("g++ -O2 -g -DMORE= -c one.cc && g++ -O2 -g -DMORE='k++;' -c two.cc && "
                           "g++ -o two one.o two.o"), 0);
}

/* Each address of a function. */
static void choose_function(const char *path, const char *name) {
        const char *line = first_line("nm -S %s | sed -n 's/ T %s$//p'", path, name);
        uint64_t start = 0, size = 0;

        cr_assert_eq(sscanf(line, "%lx %lx", &start, &size), 2, "%s", line);
        cr_assert_leq(size, (uint64_t)MAX_ADDRESSES);
        for (n_addresses = 0; n_addresses < size; n_addresses++)
                addresses[n_addresses] = start + n_addresses;
}

static void check_function(const char *path, const char *name) {
        choose_function(work_path("two"), name);
        read_as_worker(path);
        cr_assert_gt(n_addresses, 8);
        for (uint32_t i = 0; i < n_addresses; i++) {
                cr_assert_not_null(answers[i], "%s: %#lx", path, addresses[i]);
                cr_assert_not_null(strstr(answers[i], name), "%s: %#lx is %s", path, addresses[i], answers[i]);
                cr_assert_null(strstr(answers[i], "large"), "%s: %#lx is %s", path, addresses[i], answers[i]);
        }
        forget_answers();
}

/* The tables of two units in .debug_aranges: a length, and 6 bytes in, where the unit is. */
static void swap_units(const char *path) {
        enum { AT = 6, MAX_TABLE = 4096 };
        FILE *file = fopen(path, "r+e");
        uint8_t table[MAX_TABLE];
        uint32_t units[2], length, second;
        size_t n;

        cr_assert_not_null(file);
        n = fread(table, 1, sizeof(table), file);
        cr_assert_gt(n, AT + sizeof(units[0]));
        memcpy(&length, table, sizeof(length));
        second = length + (uint32_t)sizeof(length);
        cr_assert_lt(second + AT + sizeof(units[0]), n);
        memcpy(&units[0], table + AT, sizeof(units[0]));
        memcpy(&units[1], table + second + AT, sizeof(units[1]));
        cr_assert_neq(units[0], units[1]);
        memcpy(table + AT, &units[1], sizeof(units[1]));
        memcpy(table + second + AT, &units[0], sizeof(units[0]));
        rewind(file);
        cr_assert_eq(fwrite(table, 1, n, file), n);
        cr_assert_eq(fclose(file), 0);
}

Test(lines, of_functions_that_the_linker_has_dropped_name_no_code) {
        make_two_units();
        check_function("two", "_Z5firsti");
        check_function("two", "_Z6secondi");
}

/* Each table names the other unit: no address is in the unit's own ranges, and all units are read. */
Test(lines, of_a_table_with_the_wrong_units_are_those_of_the_right_ones) {
        make_two_units();
        cr_assert_eq(shell("objcopy --dump-section .debug_aranges=table two"), 0);
        swap_units(work_path("table"));
        cr_assert_eq(shell("cp two swapped && objcopy --update-section .debug_aranges=table swapped"), 0);
        check_function("swapped", "_Z5firsti");
        check_function("swapped", "_Z6secondi");
}

/* Addresses of answers are those of `program`, whose code is the same in each form. */
static void check_answers(const char *form, int expected, const char *const *plain, bool is_whole) {
        LinesOptions how = options();
        uint32_t n_same = 0;
        int r;

        r = read_lines(work_path(form), &how);
        cr_assert_eq(r, expected, "%s: %d, expected %d", form, r, expected);
        for (uint32_t i = 0; i < n_addresses; i++)
                n_same += plain[i] && answers[i] && !strcmp(plain[i], answers[i]);
        if (is_whole)
                cr_assert_eq(n_same, n_addresses, "%s: %u of %u", form, n_same, n_addresses);
        else
                cr_assert_lt(n_same, n_addresses, "%s: inlined functions are elsewhere", form);
}

/* The forms of one program, in a directory that its owner alone may enter. */
static void make_forms(const char **plain) {
        LinesOptions how = options();

        write_text("small.c", "#include <stdio.h>\n#include <stdlib.h>\n#include <time.h>\n"        /* types, which dwz moves out */
                              "volatile int k;\nFILE *file;\nstruct timespec at;\nlldiv_t parts;\n"
                              "static inline __attribute__((always_inline)) void deep(void) { k++; }\n"
                              "static inline __attribute__((always_inline)) void mid(void) { deep(); k--; }\n"
                              "void outer(void) { mid(); }\n"
                              "int main(void) { outer(); }\n");
        cr_assert_eq(shell("chmod 700 . && gcc -O1 -g -o program small.c && gcc -O1 -g -gz=zlib-gnu -o zdebug small.c && "
                           "gcc -O1 -g -gsplit-dwarf -o split small.c"),
                     0);
        cr_assert_eq(sscanf(first_line("nm %s | sed -n 's/ T outer//p'", work_path("program")), "%lx", &addresses[0]), 1);
        n_addresses = 1;
        cr_assert_eq(read_lines(work_path("program"), &how), 0);
        cr_assert_not_null(answers[0]);
        cr_assert_not_null(strstr(answers[0], "deep"), "%s", answers[0]);
        cr_assert_not_null(strstr(answers[0], "outer"), "%s", answers[0]);
        plain[0] = answers[0];
        answers[0] = NULL;
}

Test(lines, read_the_old_form_of_compression) {
        const char *plain[1];
        ElfImage image;
        struct stat st;
        int fd;

        make_forms(plain);
        check_answers("zdebug", 0, plain, true);
        fd = open(work_path("zdebug"), O_RDONLY | O_CLOEXEC);
        cr_assert_eq(fstat(fd, &st), 0);
        cr_assert_eq(elf_image_init(&image, fd, 0, (uint64_t)st.st_size), 0);
        cr_assert(elf_image_serves(&image, DEBUG_FOR_LINES));
        elf_image_deinit(&image);
        close(fd);
        free((char *)plain[0]);
}

static bool has_landlock(void) {
        return syscall(444, NULL, 0, 1) > 0;    /* landlock_create_ruleset, its version */
}

Test(lines, read_split_units_beside_a_file_where_root_alone_may_enter) {
        const char *plain[1];

        if (geteuid() != 0)
                cr_skip_test("root: others read with their own rights");
        make_forms(plain);
        if (!has_landlock())
                cr_skip_test("machine: this kernel has no Landlock");
        cr_assert_eq(shell("chmod 600 ./*.dwo"), 0);
        check_answers("split", 0, plain, true);
        cr_assert_eq(shell("chmod 755 ."), 0);
        check_answers("split", 0, plain, true);         /* all may enter, and root alone read */
        cr_assert_eq(shell("chmod 700 . && chmod 644 ./*.dwo"), 0);
        check_answers("split", 0, plain, true);
        cr_assert_eq(shell("mkdir -m 755 below && mv split ./*.dwo below"), 0);
        check_answers("below/split", 0, plain, true);   /* nobody may enter what is above */
        free((char *)plain[0]);
}

/* In other directories, with none or another one beside the file. */
Test(lines, read_split_units_elsewhere_that_nobody_may_read) {
        const char *plain[1];

        if (geteuid() != 0)
                cr_skip_test("root: others read with their own rights");
        make_forms(plain);
        cr_assert_eq(shell("chmod 755 . && chmod 644 ./*.dwo && mkdir -m 755 elsewhere && cp split elsewhere/moved"), 0);
        check_answers("elsewhere/moved", 0, plain, true);
        cr_assert_eq(shell("cp ./*.dwo elsewhere/other.dwo && chmod 644 elsewhere/other.dwo"), 0);
        check_answers("elsewhere/moved", 0, plain, true);
        free((char *)plain[0]);
}

Test(lines, leave_split_units_that_others_may_have_put_beside_a_file) {
        const char *plain[1];

        if (geteuid() != 0)
                cr_skip_test("root: others read with their own rights");
        make_forms(plain);
        cr_assert_eq(shell("chmod 600 ./*.dwo && chmod 1777 ."), 0);
        check_answers("split", LINES_E_PARTS, plain, false);    /* anybody may link files there */
        cr_assert_eq(shell("chmod 770 ."), 0);
        check_answers("split", LINES_E_PARTS, plain, false);    /* so may a group */
        cr_assert_eq(shell("chmod 700 . && chown 1234 ."), 0);
        check_answers("split", LINES_E_PARTS, plain, false);    /* so may its owner */
        cr_assert_eq(shell("chown 0 . && chown 1234 ./*.dwo"), 0);
        check_answers("split", LINES_E_PARTS, plain, false);    /* a file of another user */
        free((char *)plain[0]);
}

Test(lines, say_that_split_units_could_not_be_opened) {
        const char *plain[1];

        if (geteuid() != 0)
                cr_skip_test("root: others read with their own rights");
        make_forms(plain);
        cr_assert_eq(shell("mkdir elsewhere && cp split elsewhere/moved"), 0);
        check_answers("elsewhere/moved", LINES_E_PARTS, plain, false);  /* not beside it */
        cr_assert_eq(shell("mv ./*.dwo elsewhere && ln -s elsewhere/*.dwo ."), 0);
        check_answers("split", LINES_E_PARTS, plain, false);    /* a name that leads elsewhere */
        cr_assert_eq(shell("rm ./*.dwo && mv elsewhere/*.dwo ."), 0);
        cr_assert_eq(shell("chown 1234 . split small.c ./*.dwo && chmod 600 ./*.dwo"), 0);
        check_answers("split", 0, plain, true);         /* with the rights of their owner */
        cr_assert_eq(shell("chown 0 . split small.c ./*.dwo && chmod 755 . && chmod 644 ./*.dwo"), 0);
        check_answers("split", 0, plain, true);         /* nobody may read them */
        free((char *)plain[0]);
}

Test(lines, read_what_dwz_has_moved_out) {
        const char *plain[1];

        if (shell("command -v dwz >/dev/null"))
                cr_skip_test("tool: no dwz");
        make_forms(plain);
        cr_assert_eq(shell("gcc -O1 -g -Wl,--build-id -o program small.c && cp program dwz1 && cp program dwz2 && "
                           "dwz -m shared dwz1 dwz2"),
                     0);
        check_answers("dwz1", 0, plain, true);
        cr_assert_eq(shell("mv shared moved && cp /bin/true shared"), 0);
        check_answers("dwz1", LINES_E_PARTS, plain, false);     /* another file than the one that is meant */
        free((char *)plain[0]);
}

/* libdw reads it from 0.190 on, if it was built so. */
Test(lines, know_zstd) {
        LinesOptions how = options();
        const char *plain[1];
        int r;

        make_forms(plain);
        if (shell("objcopy --compress-debug-sections=zstd program zstd 2>/dev/null"))
                cr_skip_test("tool: objcopy knows no zstd");
        r = read_lines(work_path("zstd"), &how);
        cr_assert(r == 0 || r == LINES_E_ZSTD, "%d", r);
        cr_assert_eq(r == 0, answers[0] && !strcmp(answers[0], plain[0]), "%d, %s", r, answers[0]);
        free((char *)plain[0]);
}

Test(lines, gives_up_at_the_deadline) {
        LinesOptions how = { .program = work_path("sleeper"), .timeout_ms = 300 };

        write_text("sleeper", "#!/bin/sh\nexec sleep 1000\n");
        cr_assert_eq(shell("chmod +x sleeper"), 0);
        addresses[0] = 0x1000;
        n_addresses = 1;
        cr_assert_eq(read_lines("/proc/self/exe", &how), LINES_E_TIMEOUT);
        cr_assert_null(answers[0]);
}

/* It closes its answers, and does not end. */
Test(lines, does_not_wait_for_one_that_says_nothing_more) {
        LinesOptions how = { .program = work_path("sleeper"), .timeout_ms = 300 };

        write_text("sleeper", "#!/bin/sh\nexec sleep 1000 >/dev/null\n");
        cr_assert_eq(shell("chmod +x sleeper"), 0);
        addresses[0] = 0x1000;
        n_addresses = 1;
        cr_assert_eq(read_lines("/proc/self/exe", &how), LINES_E_TIMEOUT);
}

Test(lines, says_that_the_other_process_failed) {
        LinesOptions how = { .program = "/bin/false" };

        addresses[0] = 0x1000;
        n_addresses = 1;
        cr_expect_eq(read_lines("/proc/self/exe", &how), LINES_E_FAILED);
        how.program = "/no/such/program";
        cr_expect_eq(read_lines("/proc/self/exe", &how), LINES_E_FAILED);
        how.program = "/bin/echo";
        cr_expect_eq(read_lines("/proc/self/exe", &how), LINES_E_FAILED, "one byte is no answer");
        how = options();
        cr_expect_eq(read_lines("/etc/passwd", &how), LINES_E_FAILED, "no ELF file");
        n_addresses = 0;
        cr_expect_eq(read_lines("/etc/passwd", &how), 0, "nothing was asked");
}

/*
 * Two units. In the second, 200,000 functions share a list of 200,000 ranges: 2 MiB that take hours to walk.
 * The first unit's answer counts.
 */
static const char endless[] =
        ".text\n.globl good, bad\n.type good, @function\ngood: nop\nnop\n.size good, 2\n.type bad, @function\nbad: nop\nnop\n.size bad, 2\n"
        ".section .debug_abbrev,\"\",@progbits\nabbrevs:\n"
        /* compile_unit: low_pc addr, high_pc data8 */
        ".uleb128 1, 0x11\n.byte 1\n.uleb128 0x11, 1, 0x12, 7, 0, 0\n"
        /* subprogram: name string, low_pc, high_pc */
        ".uleb128 2, 0x2e\n.byte 0\n.uleb128 3, 8, 0x11, 1, 0x12, 7, 0, 0\n"
        /* subprogram: ranges sec_offset */
        ".uleb128 3, 0x2e\n.byte 0\n.uleb128 0x55, 0x17, 0, 0\n"
        ".byte 0\n"
        ".section .debug_ranges,\"\",@progbits\nranges:\n.rept 200000\n.quad 0, 1\n.endr\n.quad 0, 0\n"
        ".section .debug_info,\"\",@progbits\n"
        "first: .long first_end - first_start\nfirst_start: .short 4\n.long abbrevs\n.byte 8\n"
        ".uleb128 1\n.quad good, 2\n.uleb128 2\n.asciz \"good\"\n.quad good, 2\n.byte 0\nfirst_end:\n"
        "second: .long second_end - second_start\nsecond_start: .short 4\n.long abbrevs\n.byte 8\n"
        ".uleb128 1\n.quad bad, 2\n.rept 200000\n.uleb128 3\n.long ranges\n.endr\n.byte 0\nsecond_end:\n"
        ".section .note.GNU-stack,\"\",@progbits\n";

Test(lines, survives_dwarf_that_never_ends) {
        LinesOptions how = options();

        how.timeout_ms = 120000;
        how.cpu_s = 1;                  /* as much as it takes on a busy machine, too */
        write_text("endless.s", endless);
        cr_assert_eq(shell("as -o endless.o endless.s && ld -o endless endless.o -e good"), 0);
        addresses[0] = strtoul(first_line("nm %s | sed -n 's/ T bad$//p'", work_path("endless")), NULL, 16);
        addresses[1] = strtoul(first_line("nm %s | sed -n 's/ T good$//p'", work_path("endless")), NULL, 16);
        n_addresses = 2;
        cr_assert_eq(read_lines(work_path("endless"), &how), LINES_E_TIMEOUT);
        cr_assert_null(answers[0]);
        cr_assert_not_null(answers[1], "the first unit was read");
        cr_assert_str_eq(answers[1], "good\n??:0\n");
        forget_answers();
}

/* A compressed section that says it is 1 TiB large (ch_size, behind ch_type and 4 bytes). */
Test(lines, survives_a_section_without_end) {
        LinesOptions how = options();

        write_text("small.c", "int main(void) { return 0; }\n");
        cr_assert_eq(
                shell("gcc -g -gz=zlib -o small small.c && at=$(readelf -SW small | sed -n 's/.*\\.debug_info *PROGBITS *[0-9a-f]* \\([0-9a-f]*\\).*/\\1/p') && "
                      "printf '\\000\\000\\000\\000\\000\\001\\000\\000' | dd of=small bs=1 seek=$((0x$at + 8)) conv=notrunc status=none"),
                0);
        addresses[0] = strtoul(first_line("nm %s | sed -n 's/ T main$//p'", work_path("small")), NULL, 16);
        n_addresses = 1;
        cr_assert_neq(read_lines(work_path("small"), &how), LINES_E_TIMEOUT);
        cr_assert_null(answers[0]);
}

static uint8_t *add_bytes(uint8_t *to, const void *data, size_t size) {
        memcpy(to, data, size);
        return to + size;
}

static unsigned n_given;

static int count(void *userdata, uint32_t index, const LineFrame *frames, size_t n) {
        n_given++;
        cr_assert_eq(index, 1);
        cr_assert_eq(n, 1);
        cr_assert_eq(frames[0].line, 12);
        cr_assert_eq(frames[0].n_name, 3);
        cr_assert_arr_eq(frames[0].name, "fun", 3);
        cr_assert_arr_eq(frames[0].file, "a.c", 3);
        return userdata ? -7 : 0;
}

Test(lines, takes_answers_whole_or_not_at_all) {
        LinesAnswer head = { .index = 1, .n_frames = 1 };
        LinesAnswerFrame frame = { .line = 12, .n_name = 3, .n_file = 3 };
        uint8_t data[64], *end = data, seen[2] = { 0 };
        size_t used, size;

        end = add_bytes(end, &head, sizeof(head));
        end = add_bytes(end, &frame, sizeof(frame));
        end = add_bytes(end, "funa.c", 6);
        size = (size_t)(end - data);
        for (size_t cut = 0; cut < size; cut++) {
                cr_assert_eq(lines_parse(data, cut, 2, seen, count, NULL, &used), 0);
                cr_assert_eq(used, 0);
        }
        cr_assert_eq(n_given, 0);
        cr_assert_eq(lines_parse(data, size, 2, seen, count, seen, &used), -7, "the sink's code");
        seen[1] = 0;
        cr_assert_eq(lines_parse(data, size, 2, seen, count, NULL, &used), 0);
        cr_assert_eq(used, size);
        cr_assert_eq(n_given, 2);
        cr_assert_eq(lines_parse(data, size, 2, seen, count, NULL, &used), LINES_E_FAILED, "the same twice");
        seen[1] = 0;
        cr_assert_eq(lines_parse(data, size, 1, seen, count, NULL, &used), LINES_E_FAILED,
                     "an index that nobody asked");
        ((LinesAnswer *)data)->n_frames = LINES_MAX_FRAMES + 1;
        cr_assert_eq(lines_parse(data, size, 2, seen, count, NULL, &used), LINES_E_FAILED);
        ((LinesAnswer *)data)->n_frames = 0;
        cr_assert_eq(lines_parse(data, size, 2, seen, count, NULL, &used), LINES_E_FAILED);
        cr_assert_eq(n_given, 2);
}
