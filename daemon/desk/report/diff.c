/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Pairs functions by name and object, compares their shares, and judges a change against the noise of both
 * samples. Functions that only one side has are paired by their plain names then:
 *
 *     before   sort<Order*>, f            after   sort<Item*>, f       →   f, ≈ sort
 */

#include "desk/report/diff.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/data/json-writer.h"
#include "core/base/util/array.h"
#include "core/base/util/chance.h"
#include "core/base/util/error.h"
#include "core/base/util/text.h"
#include "core/symbol/function/plain-name.h"
#include "desk/report/glossary.h"
#include "desk/report/report-private.h"
#include "desk/report/sheet.h"

enum { SIDES = 2, MAX_FUNCTIONS = 8 << 20 };

/* A function on both sides: [0] before, [1] after. */
typedef struct Change {
        const char *name, *object;
        uint64_t self[SIDES], total[SIDES];
        /* change of the self share (or the total one), in percent of the whole */
        double by;
        bool is_plain;                  /* of functions whose names differ, and have this in common */
} Change;

typedef struct Kind {
        const char *type, *unit;
        uint64_t value[SIDES];
        double n_samples[SIDES];        /* samples that the value stands for; 0 = not known */
        Change *changes;
        uint32_t n_changes, room;
        Intern names;                   /* name, NUL, object → index */
        Intern plain_names;             /* the same of plain names → group */
} Kind;

/* Functions of one plain name that only one side has. */
typedef struct Group {
        uint32_t n[SIDES];
        uint32_t row;                   /* + 1, once it has one */
} Group;

typedef struct Diff {
        const Report *sides[SIDES];
        bool by_total;
        Kind *kinds;
        uint32_t n_kinds;
} Diff;

static void diff_deinit(Diff *diff) {
        for (uint32_t i = 0; i < diff->n_kinds; i++) {
                free(diff->kinds[i].changes);
                intern_deinit(&diff->kinds[i].names);
                intern_deinit(&diff->kinds[i].plain_names);
        }
        free(diff->kinds);
}

static int find_kind(Diff *diff, const char *type, const char *unit, Kind **kindp) {
        Kind *bigger;

        for (uint32_t i = 0; i < diff->n_kinds; i++)
                if (!strcmp(diff->kinds[i].type, type) && !strcmp(diff->kinds[i].unit, unit)) {
                        *kindp = &diff->kinds[i];
                        return 0;
                }
        bigger = reallocarray(diff->kinds, diff->n_kinds + 1, sizeof(*bigger));
        if (!bigger)
                return error_origin(-ENOMEM);
        diff->kinds = bigger;
        *kindp = &bigger[diff->n_kinds++];
        **kindp = (Kind){ .type = type, .unit = unit };
        intern_init(&(*kindp)->names, MAX_FUNCTIONS);
        intern_init(&(*kindp)->plain_names, MAX_FUNCTIONS);
        return 0;
}

/* Several rows of one report may have one name: they are one function here. */
static int find_change(Kind *kind, const char *name, const char *object, Change **changep) {
        Text key = { 0 };
        uint32_t index;
        int r = array_reserve(&kind->changes, &kind->room, kind->n_changes + 1u, 256);

        if (r)
                return r;
        text_append(&key, name, strlen(name) + 1);
        text_append(&key, object, strlen(object));
        r = key.failed ? error_origin(-ENOMEM) : intern_add(&kind->names, key.data, key.size, &index);
        text_deinit(&key);
        if (r < 0)
                return r;
        if (r == INTERN_E_FULL)
                return error_origin(-ENOMEM);
        if (r == 0)
                kind->changes[kind->n_changes++] = (Change){ .name = name, .object = object };
        *changep = &kind->changes[index];
        return 0;
}

/* The kernel's image has a name of its own in forms that do not say what a frame is. */
static const char *object_of(const Report *report, uint32_t function) {
        const char *name = report_object_name(report, report_function(report, function)->object);

        return strcmp(name, "vmlinux") ? name : "[kernel]";
}

static int add_functions(Kind *kind, const Report *report, int side, uint32_t section) {
        _cleanup_(freep) TallyRow *rows = NULL;
        size_t n;
        int r = report_rows(report, REPORT_FUNCTIONS, section, OPERATION_ALL, &rows, &n);

        for (size_t i = 0; i < n && !r; i++) {
                uint32_t function = rows[i].key[2];
                Change *change = NULL;

                r = find_change(kind, report_function_name(report, function),
                                object_of(report, function), &change);
                if (r)
                        break;
                change->self[side] = add_saturated(change->self[side], rows[i].self);
                change->total[side] = add_saturated(change->total[side], rows[i].total);
        }
        return r;
}

/*
 * The number of CPU samples; 0 = others, whose weights and durations do not have the noise of chance alone.
 */
static double count_samples(const Kind *kind, const ReportSums *sums) {
        if (!strcmp(kind->type, "samples") && !strcmp(kind->unit, "count"))
                return (double)sums->value;
        if (!strcmp(kind->type, "cpu") && !strcmp(kind->unit, "nanoseconds") && sums->period_max > 1)
                return (double)sums->value / (double)sums->period_max;
        return 0;
}

static int add_side(Diff *diff, int side) {
        const Report *report = diff->sides[side];
        int r = 0;

        for (uint32_t i = 0; i < report->kinds.n_items && !r; i++) {
                const ReportKind *row = report_kind(report, i);
                uint32_t section;
                Kind *kind = NULL;

                if (report_find_section(report, 0, i, &section))
                        continue;
                r = find_kind(diff, report_string(report, row->type), report_string(report, row->unit),
                              &kind);
                if (r)
                        break;
                kind->value[side] = add_saturated(kind->value[side], report->sums[section].value);
                kind->n_samples[side] += count_samples(kind, &report->sums[section]);
                r = add_functions(kind, report, side, section);
        }
        return r;
}

/* The side that alone has the function; SIDES = both have it. */
static int only_side(const Change *change) {
        return !change->total[0] ? 1 : !change->total[1] ? 0 : SIDES;
}

/* Return: 0, -ENOMEM. */
static int find_group(Kind *kind, const Change *change, uint32_t *groupp) {
        _cleanup_(text_deinit) Text key = { 0 };
        int r;

        plain_name_append(&key, change->name);
        text_append(&key, "", 1);
        text_append(&key, change->object, strlen(change->object));
        r = key.failed ? error_origin(-ENOMEM) : intern_add(&kind->plain_names, key.data, key.size, groupp);
        return r == INTERN_E_FULL ? error_origin(-ENOMEM) : MIN(r, 0);
}

/* Adds a function to the row of its group. A stack with several of them has more in total than itself. */
static void add_to_row(const Kind *kind, Change *row, const Change *change) {
        for (int side = 0; side < SIDES; side++) {
                row->self[side] = add_saturated(row->self[side], change->self[side]);
                row->total[side] = MIN(add_saturated(row->total[side], change->total[side]),
                                       kind->value[side]);
        }
}

/* Makes one row of each group that both sides have, in place of its functions. */
static void join_groups(Kind *kind, Group *groups, const uint32_t *group_of) {
        uint32_t n = 0;

        for (uint32_t i = 0; i < kind->n_changes; i++) {
                const Change change = kind->changes[i];
                Group *group = group_of[i] ? &groups[group_of[i] - 1] : NULL;

                if (!group || !group->n[0] || !group->n[1]) {
                        kind->changes[n++] = change;
                        continue;
                }
                if (group->row) {
                        add_to_row(kind, &kind->changes[group->row - 1], &change);
                        continue;
                }
                kind->changes[n] = change;
                kind->changes[n].name = intern_get(&kind->plain_names, group_of[i] - 1)->data;
                kind->changes[n++].is_plain = true;
                group->row = n;
        }
        kind->n_changes = n;
}

/* A function whose name changed from build to build is no new one. */
static int match_plain_names(Kind *kind) {
        _cleanup_(freep) uint32_t *group_of = calloc(MAX(kind->n_changes, 1u), sizeof(*group_of));
        _cleanup_(freep) Group *groups = calloc(MAX(kind->n_changes, 1u), sizeof(*groups));

        if (!group_of || !groups)
                return error_origin(-ENOMEM);
        for (uint32_t i = 0; i < kind->n_changes; i++) {
                int side = only_side(&kind->changes[i]), r;

                if (side == SIDES)
                        continue;
                r = find_group(kind, &kind->changes[i], &group_of[i]);
                if (r)
                        return r;
                groups[group_of[i]].n[side]++;
                group_of[i]++;          /* 0 = both sides have it */
        }
        join_groups(kind, groups, group_of);
        return 0;
}

static int compare_changes(const void *left, const void *right) {
        const Change *a = left, *b = right;
        double x = a->by < 0 ? -a->by : a->by, y = b->by < 0 ? -b->by : b->by;
        int r;

        if (x != y)
                return x > y ? -1 : 1;
        r = strcmp(a->name, b->name);
        return r ? r : strcmp(a->object, b->object);
}

static void sort_changes(const Diff *diff, Kind *kind) {
        for (uint32_t i = 0; i < kind->n_changes; i++) {
                Change *change = &kind->changes[i];
                const uint64_t *values = diff->by_total ? change->total : change->self;

                change->by = sheet_share(values[1], kind->value[1]) - sheet_share(values[0], kind->value[0]);
        }
        if (kind->n_changes)
                qsort(kind->changes, kind->n_changes, sizeof(*kind->changes), compare_changes);
}

static int diff_init(Diff *diff, const Report *before, const Report *after) {
        int r;

        *diff = (Diff){ .sides = { before, after }, .by_total = after->options.by_total };
        r = add_side(diff, 0);
        if (!r)
                r = add_side(diff, 1);
        for (uint32_t i = 0; i < diff->n_kinds && !r; i++) {
                r = match_plain_names(&diff->kinds[i]);
                sort_changes(diff, &diff->kinds[i]);
        }
        return r;
}

static void add_pair(TextTable *table, const Kind *kind, const uint64_t values[SIDES]) {
        for (int side = 0; side < SIDES; side++) {
                char text[SHEET_VALUE_MAX];

                text_table_add(table, "%s", sheet_value(text, kind->unit, (double)values[side]));
                text_table_add(table, "%.1f%%", sheet_share(values[side], kind->value[side]));
        }
}

static bool has_both(const Kind *kind) {
        return kind->value[0] && kind->value[1];
}

/* Whether a kind of one side is left out, as another has both: a form may add the time of samples. */
static bool is_aside(const Diff *diff, const Kind *kind) {
        for (uint32_t i = 0; i < diff->n_kinds; i++)
                if (has_both(&diff->kinds[i]))
                        return !has_both(kind);
        return false;
}

static int print_kind(const Diff *diff, const Kind *kind, const Sheet *sheet, uint32_t top) {
        static const Column columns[] = { { "change", COLUMN_RIGHT }, { "before", COLUMN_RIGHT },
                                          { "", COLUMN_RIGHT },       { "after", COLUMN_RIGHT },
                                          { "", COLUMN_RIGHT },       { "function", COLUMN_NAME },
                                          { "object", COLUMN_CUT } };
        char before[SHEET_VALUE_MAX], after[SHEET_VALUE_MAX];
        uint32_t n_changed = 0, n_plain = 0;
        TextTable table;

        sheet_part(sheet, 1, "Profile", "%s in %s: %s before, %s after", kind->type, kind->unit,
                   sheet_value(before, kind->unit, (double)kind->value[0]),
                   sheet_value(after, kind->unit, (double)kind->value[1]));
        if (is_aside(diff, kind)) {
                sheet_note(sheet, "Only one side has it: nothing to compare.");
                return 0;
        }
        text_table_init(&table, columns, ARRAY_SIZE(columns));
        for (uint32_t i = 0; i < kind->n_changes; i++) {
                const Change *change = &kind->changes[i];

                if (change->by == 0 || n_changed++ >= top)
                        continue;
                n_plain += change->is_plain;
                text_table_add(&table, "%+.1f", change->by);
                add_pair(&table, kind, diff->by_total ? change->total : change->self);
                text_table_add(&table, "%s%s", change->is_plain ? "≈ " : "", change->name);
                text_table_add(&table, "%s", change->object);
        }
        if (n_plain)
                sheet_note(sheet,
                           "≈ Names differ: matched without template arguments, lambda numbers, Rust hashes.");
        if (!n_changed)
                sheet_note(sheet, "No function has another share than before.");
        return sheet_table(sheet, &table,
                           diff->by_total ? "Functions by change of their total share, in percent of all"
                                          : "Functions by change of their own share, in percent of all",
                           n_changed, "functions");
}

/* One kind on one side is enough: shares are of all. */
static void say_uneven(const Report *const sides[SIDES], const Sheet *sheet) {
        for (int side = 0; side < SIDES; side++)
                for (uint32_t i = 0; i < sides[side]->kinds.n_items; i++) {
                        uint32_t section;

                        if (!report_find_section(sides[side], 0, i, &section) &&
                            report_say_uneven(sides[side], section, sheet))
                                return;
                }
}

int report_diff_print(const Report *before, const Report *after, const ReportFormat *format, FILE *out) {
        Sheet sheet = sheet_make(out, format->width, format->markdown);
        uint32_t top = format->top ? format->top : SHEET_DEFAULT_TOP;
        Diff diff;
        int r = diff_init(&diff, before, after);

        if (format->markdown)
                fputs("# Differences of profiles\n\n", out);
        sheet_fact(&sheet, 0, "Files", "%zu", format->n_files);
        for (uint32_t i = 0; i < diff.n_kinds && !r; i++)
                r = print_kind(&diff, &diff.kinds[i], &sheet, top);
        if (!r)
                say_uneven(diff.sides, &sheet);
        if (format->explain)
                glossary_explain_diff(&sheet);
        diff_deinit(&diff);
        return r ? error_fold(r) : 0;
}

/*
 * The change of a share that chance does not exceed, in points: with a probability of 1 % at most for any of
 * the kind's functions. The tail of the normal distribution is below exp(-z² / 2). Shares are those of both
 * sides together, moved towards a half by two samples a side, since few samples are not normal.
 */
static double noise(const Kind *kind, const uint64_t values[SIDES]) {
        const double *n = kind->n_samples, log_100 = 4.6051702;
        double z2 = 2 * (log_bound(kind->n_changes) + log_100), hits = 2, p;

        for (int side = 0; side < SIDES; side++)
                hits += sheet_share(values[side], kind->value[side]) / 100 * n[side];
        p = hits / (n[0] + n[1] + 4);
        return 100 * square_root(z2 * p * (1 - p) * (1 / n[0] + 1 / n[1]));
}

static const uint64_t *judged_values(const Diff *diff, const Change *change) {
        return diff->by_total ? change->total : change->self;
}

static void say_change(const Diff *diff, const Kind *kind, const Change *change, const char *verdict,
                       Text *text) {
        const uint64_t *values = judged_values(diff, change);

        text_printf(text, "%s", change->is_plain ? "≈ " : "");
        text_append_masked(text, change->name);
        text_printf(text, ": %+.1f points of %s (%.1f%% → %.1f%%), %s noise (±%.1f)", change->by, kind->type,
                    sheet_share(values[0], kind->value[0]), sheet_share(values[1], kind->value[1]), verdict,
                    noise(kind, values));
}

/* A run that passes says why: nothing grew, or what grew most may be chance. */
static void say_passed(const Diff *diff, const Kind *kind, const Change *doubtful, unsigned points,
                       Text *text) {
        if (!doubtful) {
                text_printf(text, "no function's %s share grew by more than %u points\n",
                            diff->by_total ? "total" : "own", points);
                return;
        }
        say_change(diff, kind, doubtful, "within", text);
        text_printf(text, ", which more samples make smaller\n");
}

static int judge_kind(const Diff *diff, const Kind *kind, unsigned points, Text *text) {
        const Change *doubtful = NULL;          /* the change that has grown most within noise */
        int n_worse = 0;

        for (uint32_t i = 0; i < kind->n_changes; i++) {
                const Change *change = &kind->changes[i];

                if (change->by <= points)
                        continue;
                if (change->by <= noise(kind, judged_values(diff, change))) {
                        doubtful = doubtful && doubtful->by >= change->by ? doubtful : change;
                        continue;
                }
                say_change(diff, kind, change, "beyond", text);
                text_printf(text, "\n");
                n_worse++;
        }
        if (!n_worse)
                say_passed(diff, kind, doubtful, points, text);
        return n_worse;
}

int report_diff_judge(const Report *before, const Report *after, unsigned points, Text *text) {
        bool judged = false;
        int n_worse = 0, r;
        Diff diff;

        r = diff_init(&diff, before, after);
        for (uint32_t i = 0; i < diff.n_kinds && !r && !judged; i++) {
                const Kind *kind = &diff.kinds[i];

                /* a single kind: a program's own profile has samples and their time, which say the same */
                judged = kind->n_samples[0] > 0 && kind->n_samples[1] > 0;
                if (judged)
                        n_worse = judge_kind(&diff, kind, points, text);
        }
        diff_deinit(&diff);
        if (!r && !judged)
                text_printf(text, "nothing was judged: the two have no samples of the CPU in common\n");
        if (!r && text->failed)
                r = error_origin(-ENOMEM);
        return r ? error_fold(r) : judged ? n_worse : DIFF_NOT_JUDGED;
}

static void add_kind(JsonWriter *json, const Kind *kind, uint32_t top) {
        json_open(json, NULL, '{');
        json_text(json, "type", kind->type);
        json_text(json, "unit", kind->unit);
        json_number(json, "before", kind->value[0]);
        json_number(json, "after", kind->value[1]);
        json_open(json, "functions", '[');
        for (uint32_t i = 0; i < MIN(kind->n_changes, top); i++) {
                const Change *change = &kind->changes[i];

                json_open(json, NULL, '{');
                json_text(json, "function", change->name);
                json_text(json, "object", change->object);
                json_bool(json, "matched_by_plain_name", change->is_plain);
                json_real(json, "share_change", change->by);
                json_number(json, "self_before", change->self[0]);
                json_number(json, "self_after", change->self[1]);
                json_number(json, "total_before", change->total[0]);
                json_number(json, "total_after", change->total[1]);
                json_close(json, '}');
        }
        json_close(json, ']');
        json_close(json, '}');
}

int report_diff_print_json(const Report *before, const Report *after, const ReportFormat *format, FILE *out) {
        JsonWriter json = { .out = out };
        uint32_t top = format->top ? format->top : SHEET_DEFAULT_TOP;
        Diff diff;
        int r = diff_init(&diff, before, after);

        json_open(&json, NULL, '{');
        json_number(&json, "files", format->n_files);
        json_open(&json, "profiles", '[');
        for (uint32_t i = 0; i < diff.n_kinds && !r; i++)
                add_kind(&json, &diff.kinds[i], top);
        json_close(&json, ']');
        json_close(&json, '}');
        fputc('\n', out);
        diff_deinit(&diff);
        return r ? error_fold(r) : 0;
}
