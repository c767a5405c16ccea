/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>

#include "core/symbol/debug/no-text-wire.h"
#include "core/symbol/debug/no-text.h"
#include "hand-elf.h"
#include "host/naming/upload-state.h"

#define SERVER "pyroscope http://localhost:4040"

/* ---- hostile headers; test-symbol-upload.py has real programs ---- */

enum { N_SECTIONS = 4, NAMES = 3 };

static const char names[] = "\0.symtab\0.debug_line\0.debug_info\0.shstrtab";

/* A file of 4096 bytes with these sections, of which the last has the names. */
static int plan_of(Elf64_Shdr *sections, uint32_t n, NoText *plan) {
        static uint8_t data[4096];
        Elf64_Ehdr header = { .e_ident = { 0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT },
                              .e_type = ET_DYN,
                              .e_ehsize = sizeof(Elf64_Ehdr),
                              .e_shentsize = sizeof(Elf64_Shdr),
                              .e_shoff = 1024,
                              .e_shnum = (Elf64_Half)n,
                              .e_shstrndx = (Elf64_Half)(n - 1) };
        ElfImage image;
        int r;

        sections[n - 1] = (Elf64_Shdr){ .sh_name = 33, .sh_type = SHT_STRTAB, .sh_offset = 512,
                                        .sh_size = sizeof(names) };
        memcpy(data, &header, sizeof(header));
        memcpy(data + 512, names, sizeof(names));
        memcpy(data + 1024, sections, n * sizeof(*sections));
        cr_assert_eq(elf_image_init_memory(&image, data, sizeof(data)), 0);
        r = no_text_plan(plan, &image);
        elf_image_deinit(&image);
        return r;
}

static Elf64_Shdr symbols_at(uint64_t offset, uint64_t size) {
        return (Elf64_Shdr){ .sh_name = 1, .sh_type = SHT_SYMTAB, .sh_offset = offset, .sh_size = size,
                             .sh_addralign = 8 };
}

Test(no_text, keeps_symbols_that_lie_in_the_file) {
        Elf64_Shdr sections[3] = { { 0 }, symbols_at(64, 24) };
        NoText plan;

        cr_assert_eq(plan_of(sections, 3, &plan), 0);
        cr_assert(plan.has_symbols && !plan.has_lines);
        cr_assert_eq(plan.n_regions, 2);
        cr_assert_eq(plan.regions[0].from, 64);
        cr_assert_eq(plan.regions[0].size, 24);
        cr_assert_eq(plan.header.e_shoff % 8, 0);
        no_text_deinit(&plan);
}

Test(no_text, refuses_what_is_not_in_the_file) {
        static const uint64_t bad[][2] = { { 4096, 24 },       { UINT64_MAX - 8, 24 }, { 64, UINT64_MAX },
                                           { 64, UINT64_MAX - 63 }, { 4000, 97 } };

        for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
                Elf64_Shdr sections[3] = { { 0 }, symbols_at(bad[i][0], bad[i][1]) };
                NoText plan;

                cr_assert_eq(plan_of(sections, 3, &plan), NO_TEXT_E_MALFORMED, "%zu", i);
        }
}

/* Each part lies in the file; together they would be larger than it. */
Test(no_text, refuses_parts_that_overlap) {
        Elf64_Shdr sections[5] = { { 0 }, symbols_at(0, 3000), symbols_at(1, 3000), symbols_at(2, 3000) };
        NoText plan;

        cr_assert_eq(plan_of(sections, 5, &plan), NO_TEXT_E_MALFORMED);
}

Test(no_text, shares_parts_that_lie_in_one_another) {
        Elf64_Shdr sections[4] = { { 0 }, symbols_at(0, 480), symbols_at(48, 24) };
        NoText plan;

        cr_assert_eq(plan_of(sections, 4, &plan), 0);
        cr_assert_eq(plan.n_regions, 2);
        cr_assert_eq(plan.sections[2].sh_offset, plan.sections[1].sh_offset + 48);
        no_text_deinit(&plan);
}

Test(no_text, wants_symbols_or_lines) {
        Elf64_Shdr sections[3] = { { 0 }, { .sh_name = 9, .sh_type = SHT_PROGBITS, .sh_size = 8 } };
        NoText plan;

        cr_assert_eq(plan_of(sections, 3, &plan), NO_TEXT_E_NAMELESS);
}

/* ---- a worker that was taken over ---- */

Test(no_text, believes_no_answer_that_makes_no_sense) {
        const NoTextRequest request = { NO_TEXT_WIRE_MAGIC, NO_TEXT_ASK_FILE, 1000, "ab12" };
        const NoTextAnswer good = { NO_TEXT_WIRE_MAGIC, NO_TEXT_STATE_MADE, 900, 1, 0, "ab12" };
        NoTextRequest id = request;
        NoTextAnswer bad;

        id.ask = NO_TEXT_ASK_ID;
        cr_assert(no_text_wire_check(&good, &request));
        cr_assert_not(no_text_wire_check(&good, &id), "bytes behind an id");
#define BAD(_field, _value) \
        bad = good; \
        bad._field = _value; \
        cr_assert_not(no_text_wire_check(&bad, &request), #_field)
        BAD(magic, 1);
        BAD(state, NO_TEXT_N_STATES);
        BAD(state, NO_TEXT_STATE_OTHER);        /* with bytes */
        BAD(size, 0);
        BAD(size, 4004);
        BAD(has_symbols, 2);
        BAD(gnu[0], 'x');
        BAD(gnu[0], 'c');
#undef BAD
        bad = good;
        memset(bad.gnu, 'a', sizeof(bad.gnu));
        cr_assert_not(no_text_wire_check(&bad, &request));
}

/* ---- what is known over a restart ---- */

static UploadState state_of(const char *text) {
        UploadState state;

        cr_assert_eq(upload_state_init(&state), 0);
        upload_state_parse(&state, SERVER, text, strlen(text));
        return state;
}

Test(upload_state, reads_what_it_prints) {
        UploadState state = state_of(""), again;
        _cleanup_(text_deinit) Text text = { 0 };

        upload_state_put(&state, "ab12", UPLOAD_OUTCOME_UPLOADED, 1000);
        upload_state_put(&state, "cd34", UPLOAD_OUTCOME_REFUSED, 2000);
        upload_state_put(&state, "ab12", UPLOAD_OUTCOME_KNOWN, 3000);
        upload_state_spend(&state, 70, 86400 * 3);
        upload_state_spend(&state, 5, 86400 * 3 + 86399);
        upload_state_print(&state, SERVER, &text);
        cr_assert_str_eq(text.data, "spanprof-uploads 1 " SERVER "\nday 3 75\nab12 known 3000\ncd34 refused 2000\n");
        again = state_of(text.data);
        cr_assert_eq(again.n, 2);
        cr_assert_eq(upload_state_find(&again, "ab12", 4000)->outcome, UPLOAD_OUTCOME_KNOWN);
        cr_assert_eq(upload_state_spent(&again, 86400 * 3 + 5), 75);
        cr_assert_eq(upload_state_spent(&again, 86400 * 4), 0, "another day");
        upload_state_deinit(&state);
        upload_state_deinit(&again);
}

Test(upload_state, a_refusal_counts_for_a_day) {
        UploadState state = state_of("");

        upload_state_put(&state, "cd34", UPLOAD_OUTCOME_REFUSED, 2000);
        cr_assert_not_null(upload_state_find(&state, "cd34", 2000 + 86399));
        cr_assert_null(upload_state_find(&state, "cd34", 2000 + 86400));
        cr_assert_not_null(upload_state_find(&state, "cd34", 0), "a clock that was set back");
        upload_state_deinit(&state);
}

Test(upload_state, passes_over_what_makes_no_sense) {
        static const char *const texts[] = {
                "spanprof-uploads 1 pyroscope http://elsewhere\nab12 known 1\n",
                "spanprof-uploads 2 " SERVER "\nab12 known 1\n",
                "spanprof-uploads 1 " SERVER "\nab12 known\nab12 lost 1\nAB12 known 1\n../x known 1\nab12 known -1\n",
                "spanprof-uploads 1 " SERVER "\nab12 known 1",     /* cut */
                "\n\n\n",
        };

        for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
                UploadState state = state_of(texts[i]);

                cr_assert_eq(state.n, 0, "%zu", i);
                upload_state_deinit(&state);
        }
}

Test(upload_state, forgets_the_first_over_its_cap) {
        UploadState state = state_of("");
        char id[16];

        for (unsigned i = 0; i < UPLOAD_MAX_ENTRIES + 2; i++) {
                snprintf(id, sizeof(id), "%08x", i);
                upload_state_put(&state, id, UPLOAD_OUTCOME_KNOWN, i);
        }
        cr_assert_eq(state.n, UPLOAD_MAX_ENTRIES);
        cr_assert_null(upload_state_find(&state, "00000001", 9999));
        cr_assert_not_null(upload_state_find(&state, "00000002", 9999));
        upload_state_deinit(&state);
}
