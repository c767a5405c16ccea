/* SPDX-License-Identifier: Apache-2.0 */

/* Holds the rules of writers against tests/vectors/contexts, whose README says what a line means. */

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/sampling/context/writer-rules.h"

enum { MAX_LINE = 8192, MAX_BYTES = 2048, MAX_GIVEN = 2 };

typedef struct Vector {
        char *form, *name, *rule, *given;
        uint8_t bytes[2][MAX_BYTES];
        size_t sizes[2];
} Vector;

static size_t read_hex(char **textp, uint8_t *to) {
        size_t n = 0;
        unsigned byte;

        while (**textp == ' ')
                ++*textp;
        for (; n < MAX_BYTES && sscanf(*textp, "%2x", &byte) == 1 && **textp != ' '; *textp += 2)
                to[n++] = (uint8_t)byte;
        return n;
}

static void parse(char *line, Vector *vector) {
        char *rest = line;

        vector->form = strsep(&rest, "\t");
        vector->name = strsep(&rest, "\t");
        vector->rule = strsep(&rest, "\t");
        vector->given = strsep(&rest, "\t");
        cr_assert_not_null(rest, "%s has not five columns", line);
        vector->sizes[0] = read_hex(&rest, vector->bytes[0]);
        vector->sizes[1] = read_hex(&rest, vector->bytes[1]);
        cr_assert(vector->sizes[0] && (!*rest || *rest == '\n'), "%s %s: %s", vector->form, vector->name, rest);
}

static uint64_t given(const Vector *vector, const char *key, int base, uint64_t otherwise) {
        const char *at = strstr(vector->given, key);

        return at ? strtoull(at + strlen(key), NULL, base) : otherwise;
}

static void check_update(const Vector *vector, WriterRules *rules) {
        ProcessContext *before, *after;
        const char *times = strstr(vector->given, "times=");

        cr_assert_eq(process_context_decode(vector->bytes[0], vector->sizes[0], &before), 0);
        cr_assert_eq(process_context_decode(vector->bytes[1], vector->sizes[1], &after), 0);
        cr_assert_eq(sscanf(times, "times=%lu,%lu", &before->published_ns, &after->published_ns), 2);
        writer_rules_update(rules, before, after);
        process_context_free(before);
        process_context_free(after);
}

static void check_payload(const Vector *vector, WriterRules *rules) {
        ProcessContext *context = NULL;

        cr_assert_geq(writer_rules_payload(rules, vector->bytes[0], vector->sizes[0], &context), 0);
        process_context_free(context);
}

static void check_record(const Vector *vector, WriterRules *rules) {
        static ProcessContext context;
        struct spanprof_thread_record record;
        bool has_all;
        int unknown;

        context = (ProcessContext){ .n_keys = given(vector, "keys=", 10, 0) };
        memcpy(&record, vector->bytes[0], sizeof(record));
        has_all = vector->sizes[0] >= sizeof(record) + record.attributes_size;
        writer_rules_record(rules, &record, given(vector, "address=", 16, 4096),
                            has_all ? vector->bytes[0] + sizeof(record) : NULL, &context, &unknown);
        if (unknown >= 0)
                writer_rules_violate(rules, WRITER_RULE_THREAD_KEYS, "index %d", unknown);
}

static void check(const Vector *vector, WriterRules *rules) {
        const uint64_t address = 0x7f0000001000;
        const void *bytes = vector->bytes[0];

        if (!strcmp(vector->form, "ring"))
                writer_rules_ring_header(rules, bytes, address, address + given(vector, "room=", 10, 0));
        else if (!strcmp(vector->form, "slot"))
                writer_rules_ring_slot(rules, bytes, 1);
        else if (!strcmp(vector->form, "header"))
                writer_rules_process_header(rules, bytes, given(vector, "now=", 10, 0),
                                            given(vector, "born=", 10, 0));
        else if (!strcmp(vector->form, "payload"))
                check_payload(vector, rules);
        else if (!strcmp(vector->form, "update"))
                check_update(vector, rules);
        else if (!strcmp(vector->form, "record"))
                check_record(vector, rules);
        else if (!strcmp(vector->form, "labels"))
                writer_rules_labels(rules, bytes, vector->sizes[0]);
        else
                cr_assert_fail("form %s is not known", vector->form);
}

/* Calls @visit for each vector, with what it has made of the rules. Return: number of vectors. */
static size_t each_vector(void (*visit)(const Vector *, const WriterRules *)) {
        static char line[MAX_LINE];
        static Vector vector;
        static WriterRules rules;
        char path[4096];
        size_t n = 0;
        FILE *file;

        snprintf(path, sizeof(path), "%s/tests/vectors/contexts/vectors.tsv", getenv("SOURCE_DIR"));
        file = fopen(path, "re");
        cr_assert_not_null(file, "%s", path);
        while (fgets(line, sizeof(line), file)) {
                if (line[0] == '#')
                        continue;
                parse(line, &vector);
                rules = (WriterRules){ 0 };
                check(&vector, &rules);
                visit(&vector, &rules);
                n++;
        }
        fclose(file);
        return n;
}

static void expect_verdict(const Vector *vector, const WriterRules *rules) {
        for (WriterRule i = 0; i < WRITER_RULES_N; i++) {
                bool is_meant = !strcmp(writer_rule_name(i), vector->rule);

                cr_expect_eq(rules->states[i] == WRITER_VIOLATED, is_meant, "%s %s: %s: %s", vector->form,
                             vector->name, writer_rule_name(i), rules->sentences[i]);
                if (is_meant)
                        cr_expect(*rules->sentences[i], "%s %s has no sentence", vector->form, vector->name);
        }
}

Test(writer_rules, each_wrong_record_breaks_its_rule_and_no_other_and_right_ones_none) {
        cr_assert_gt(each_vector(expect_verdict), 60);
}

static bool is_met[WRITER_RULES_N][WRITER_VIOLATED + 1];

static void note_states(const Vector *vector, const WriterRules *rules) {
        for (WriterRule i = 0; i < WRITER_RULES_N; i++)
                is_met[i][rules->states[i]] = true;
}

Test(writer_rules, each_rule_that_bytes_can_break_is_held_to_and_broken_by_some_record) {
        size_t n = 0;

        each_vector(note_states);
        for (WriterRule i = 0; i < WRITER_RULES_N; i++) {
                n += is_met[i][WRITER_VIOLATED];
                cr_expect_eq(is_met[i][WRITER_OK], is_met[i][WRITER_VIOLATED], "%s", writer_rule_name(i));
        }
        cr_expect_eq(n, 26);
}

Test(writer_rules, the_first_violation_stays_and_is_no_longer_held_to) {
        WriterRules rules = { 0 };

        writer_rules_pass(&rules, WRITER_RULE_RING_MAGIC);
        cr_expect_eq(rules.states[WRITER_RULE_RING_MAGIC], WRITER_OK);
        writer_rules_violate(&rules, WRITER_RULE_RING_MAGIC, "first");
        writer_rules_violate(&rules, WRITER_RULE_RING_MAGIC, "second");
        writer_rules_pass(&rules, WRITER_RULE_RING_MAGIC);
        cr_expect_eq(rules.states[WRITER_RULE_RING_MAGIC], WRITER_VIOLATED);
        cr_expect_str_eq(rules.sentences[WRITER_RULE_RING_MAGIC], "first");
}

Test(writer_rules, a_sentence_holds_no_control_that_a_target_chose) {
        WriterRules rules = { 0 };

        writer_rules_violate(&rules, WRITER_RULE_PROCESS_KEYS, "it is `%s`", "a\x1b[2Jb");
        cr_expect_str_eq(rules.sentences[WRITER_RULE_PROCESS_KEYS], "it is `a?[2Jb`");
}
