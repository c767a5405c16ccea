/* SPDX-License-Identifier: Apache-2.0 */

/*
 * What other people's files and processes say about names. The first byte chooses which:
 *
 *     n   a mangled name                                 demangle
 *     l   a .gnu_debuglink section                       debug_link_parse
 *     a   answers about source lines                     lines_parse
 *     e   a whole ELF file, perhaps with a packed one    symbolizer_name
 *     x   the content of .gnu_debugdata                  the same, in an ELF file made around it
 */
#include <elf.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/base/file/file.h"
#include "core/symbol/function/debug-file.h"
#include "core/symbol/function/demangle.h"
#include "core/symbol/function/symbolizer.h"
#include "core/symbol/line/lines.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void fuzz_name(const uint8_t *data, size_t size) {
        static char to[DEMANGLE_MAX_OUTPUT];
        char *name = strndup((const char *)data, size);

        if (!name)
                abort();
        for (DemangleStyle style = DEMANGLE_SHORT; style <= DEMANGLE_NONE; style++)
                for (size_t room = 8; room <= sizeof(to); room += sizeof(to) - 8) {
                        size_t n = demangle(name, style, to, room);

                        if (n && (n >= room || strlen(to) != n || style == DEMANGLE_NONE))
                                abort();
                }
        free(name);
}

static void fuzz_link(const uint8_t *data, size_t size) {
        const char *name;
        uint32_t crc;

        if (!debug_link_parse((const char *)data, size, &name, &crc) &&
            (!name[0] || strchr(name, '/') || strlen(name) >= size))
                abort();
}

static int check_frames(void *userdata, uint32_t index, const LineFrame *frames, size_t n) {
        volatile size_t *sum = userdata;

        if (index >= 16 || n == 0 || n > LINES_MAX_FRAMES)
                abort();
        for (size_t i = 0; i < n; i++) {
                for (size_t k = 0; k < frames[i].n_name; k++)
                        *sum += (uint8_t)frames[i].name[k];
                for (size_t k = 0; k < frames[i].n_file; k++)
                        *sum += (uint8_t)frames[i].file[k];
        }
        return 0;
}

static void fuzz_answers(const uint8_t *data, size_t size) {
        uint8_t seen[16] = { 0 };
        size_t sum = 0, used;

        (void)lines_parse(data, size, 16, seen, check_frames, &sum, &used);
        if (used > size)
                abort();
}

typedef struct Given {
        const uint8_t *data;
        size_t size;
} Given;

static int open_given(void *userdata) {
        const Given *given = userdata;
        int fd = memfd_create("fuzz", MFD_CLOEXEC);

        if (fd < 0 || file_write(fd, given->data, given->size) < 0)
                abort();
        return fd;
}

/*
 * The object has whatever build id is asked for: the hash of its content is not checked against, a GNU id is.
 */
static void fuzz_object(const uint8_t *data, size_t size) {
        Given given = { data, size };
        SymbolizerOptions options = { .debug_directory = "/nowhere", .max_bytes = 1 << 20 };
        SymbolSource source = { .open = open_given, .userdata = &given };
        SymbolObject object = { .path = "/fuzz",
                                .build_id_gnu = "0123456789abcdef0123456789abcdef01234567",
                                .build_id_go = "",
                                .source = &source };
        Symbolizer *symbolizer = NULL;

        if (symbolizer_new(&symbolizer, &options))
                abort();
        for (uint64_t address = 0x1000; address < 0x1100; address += 16) {
                SymbolName name;

                if (symbolizer_name(symbolizer, &object, address, &name) || name.state >= SYMBOL_N_STATES ||
                    (!name.name != !name.linkage_name))
                        abort();
        }
        symbolizer_free(symbolizer);
}

/* header | note with the id | section names | the packed bytes | section headers */
static void fuzz_packed(const uint8_t *data, size_t size) {
        static const char names[] = "\0.names\0.gnu_debugdata\0.note";
        static const uint8_t note[] =
                "\4\0\0\0\x14\0\0\0\3\0\0\0GNU\0\x01\x23\x45\x67\x89\xab\xcd\xef\x01\x23\x45\x67\x89\xab\xcd\xef\x01\x23\x45\x67";
        struct {
                Elf64_Ehdr header;
                Elf64_Shdr sections[4];
                uint8_t note[36];
                char names[sizeof(names)];
        } * elf;
        size_t whole = sizeof(*elf) + size;

        elf = calloc(1, whole);
        if (!elf)
                abort();
        elf->header = (Elf64_Ehdr){ .e_ident = { 0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT },
                                    .e_type = ET_DYN,
                                    .e_machine = EM_X86_64,
                                    .e_version = EV_CURRENT,
                                    .e_shoff = sizeof(elf->header),
                                    .e_shentsize = sizeof(Elf64_Shdr),
                                    .e_shnum = 4,
                                    .e_shstrndx = 1 };
        elf->sections[1] = (Elf64_Shdr){ .sh_name = 1,
                                         .sh_type = SHT_STRTAB,
                                         .sh_offset = (uint64_t)(elf->names - (char *)elf),
                                         .sh_size = sizeof(names) };
        elf->sections[2] = (Elf64_Shdr){
                .sh_name = 8, .sh_type = SHT_PROGBITS, .sh_offset = sizeof(*elf), .sh_size = size
        };
        elf->sections[3] = (Elf64_Shdr){ .sh_name = 23,
                                         .sh_type = SHT_NOTE,
                                         .sh_offset = (uint64_t)(elf->note - (uint8_t *)elf),
                                         .sh_size = sizeof(elf->note) };
        memcpy(elf->note, note, sizeof(elf->note));
        memcpy(elf->names, names, sizeof(names));
        memcpy(elf + 1, data, size);
        fuzz_object((const uint8_t *)elf, whole);
        free(elf);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        static void (*const kinds[256])(const uint8_t *data, size_t size) = {
                ['n'] = fuzz_name,   ['l'] = fuzz_link,   ['a'] = fuzz_answers,
                ['e'] = fuzz_object, ['x'] = fuzz_packed,
        };

        if (size && kinds[data[0]])
                kinds[data[0]](data + 1, size - 1);
        return 0;
}
