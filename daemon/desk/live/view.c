/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Sorts and filters rows of the counts, fits their columns to the screen, and prints a page, lines or JSON
 * of them.
 */

#include "desk/live/view.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "core/base/data/json-writer.h"
#include "core/base/data/short-name.h"
#include "core/base/util/clock.h"
#include "core/base/util/error.h"
#include "core/base/util/text.h"
#include "desk/live/keys.h"
#include "desk/live/screen.h"

enum { HEAD_ROWS = 4, NUMBER_COLUMNS = 8, SIDEWAYS = 8, DEFAULT_COLUMNS = 100 };

/* Calls below this part of all samples are not in the tree. */
#define TREE_PART 200

typedef struct TabColumn {
        const char *title;
        unsigned text;                  /* of a CountsRow */
        unsigned columns;               /* 0 = what is left, shared by all of these */
        bool is_function;               /* its name is shortened inside, and scrolls sideways */
} TabColumn;

static const struct Tab {
        const char *name;
        const char *numbers[2];         /* titles of self and total, or of share and CPU */
        TabColumn columns[5];
        unsigned n_columns;
        const char *keys[COUNTS_MAX_TEXTS];     /* of JSON, by text */
        const char *empty;              /* what an empty one waits for */
} tabs[VIEW_N_TABS] = {
        [COUNTS_FUNCTIONS] = { "functions",
                               { "self", "total" },
                               { { "function", 0, 0, true }, { "in", 1, 28 } },
                               2,
                               { "name", "object" },
                               "no sample: nothing that is looked at uses a CPU" },
        [COUNTS_SPANS] = { "spans",
                           { "share", "CPU" },
                           { { "span", 0, 17 }, { "trace", 1, 33 }, { "of", 3, 16 }, { "which says", 2, 0 } },
                           4,
                           { "span_id", "trace_id", "attributes", "process" },
                           "no sample is in a span: waiting for a service (`targets --verbose`: who could)" },
        [COUNTS_THREADS] = { "threads",
                             { "share", "CPU" },
                             { { "thread", 0, 17 }, { "tid", 1, 9 }, { "of", 2, 0 } },
                             3,
                             { "name", "thread_id", "process" },
                             "no sample: no thread that is looked at uses a CPU" },
        [COUNTS_PROCESSES] = { "processes",
                               { "share", "CPU" },
                               { { "process", 0, 0 }, { "pid", 1, 9 } },
                               2,
                               { "name", "pid" },
                               "no sample: no process that is looked at uses a CPU" },
        [COUNTS_COROUTINES] = { "coroutines",
                                { "share", "CPU" },
                                { { "task, station", 4, 0 },
                                  { "probe id", 1, 20 },
                                  { "birth", 2, 16 },
                                  { "of", 3, 14 } },
                                4,
                                { "station", "probe_id", "birth_ns", "process", "name" },
                                "no sample is in a coroutine with stations, or a task of Python 3.14 on" },
        [COUNTS_TREE] = { "tree",
                          { "self", "total" },
                          { { "function, and below it what it calls", 0, 0, true }, { "in", 1, 28 } },
                          2,
                          { "name", "object" },
                          "no sample: nothing that is looked at uses a CPU" },
        [COUNTS_WAITS] = { "waits",
                           { "share", "threads" },
                           { { "thread", 0, 17 },
                             { "state", 1, 9 },
                             { "on", 2, 17 },
                             { "in", 3, 0, true },
                             { "ended by", 4, 15 } },
                           5,
                           { "thread", "state", "on", "in", "ended_by", "process" },
                           "no wait was seen: --off-cpu, or --view waits, counts them" },
        [COUNTS_OPERATIONS] = { "operations",
                                { "share", "CPU" },
                                { { "operation", 0, 0 }, { "of", 1, 16 } },
                                2,
                                { "name", "process" },
                                "no span has a name; a service gives them by the attribute span.name" },
};

static bool is_of_functions(CountsTable tab) {
        return tab == COUNTS_FUNCTIONS || tab == COUNTS_TREE;
}

static const char *const orders[] = {
        [COUNTS_BY_SELF] = "self", [COUNTS_BY_TOTAL] = "total", [COUNTS_BY_NAME] = "name"
};

int view_find_tab(const char *name, CountsTable *tabp) {
        for (CountsTable tab = 0; tab < VIEW_N_TABS; tab++)
                if (!strcmp(name, tabs[tab].name)) {
                        *tabp = tab;
                        return 0;
                }
        return 1;
}

/* ---- keys ---- */

/* Any printable byte, so that UTF-8 can be typed, too. */
static ViewAction type_key(View *view, int key) {
        size_t n = strlen(view->filter);

        if (key == KEY_ESCAPE)
                view->filter[0] = 0;
        if (key == KEY_ESCAPE || key == '\r' || key == '\n')
                view->typing = false;
        else if (key == KEY_BACKSPACE)
                n = n ? text_cut_utf8(view->filter, n - 1) : 0;
        else if (key >= ' ' && key < 256 && n + 1 < sizeof(view->filter))
                view->filter[n++] = (char)key;
        if (key != KEY_ESCAPE)
                view->filter[n] = 0;
        view->first = 0;
        return VIEW_REDRAW;
}

static void turn_tab(View *view, int by) {
        view->tab = (CountsTable)(((int)view->tab + by + (int)VIEW_N_TABS) % (int)VIEW_N_TABS);
        view->first = 0;
}

static void change_interval(View *view, bool longer) {
        uint64_t least = VIEW_INTERVAL_MIN_MS * NS_PER_MS, most = VIEW_INTERVAL_MAX_MS * NS_PER_MS;

        view->interval_ns = longer ? MIN(2 * view->interval_ns, most) : MAX(view->interval_ns / 2, least);
}

static ViewAction scroll(View *view, int key) {
        size_t page = view->rows > HEAD_ROWS + 1 ? view->rows - HEAD_ROWS - 1 : 1;

        switch (key) {
        case KEY_UP: view->first -= MIN(view->first, (size_t)1); break;
        case KEY_DOWN: view->first++; break;
        case KEY_PAGE_UP: view->first -= MIN(view->first, page); break;
        case KEY_PAGE_DOWN: view->first += page; break;
        case KEY_HOME: view->first = 0; break;
        case KEY_END: view->first = SIZE_MAX / 2; break;
        default: return VIEW_NOTHING;
        }
        return VIEW_REDRAW;
}

ViewAction view_key(View *view, int key) {
        if (view->typing)
                return type_key(view, key);
        switch (key) {
        case 'q': case 'Q': return VIEW_QUIT;
        case 'k': return VIEW_KEEP;
        case '1': case '2': case '3': case '4': case '5': case '6': case '7': case '8':
                turn_tab(view, key - '1' - (int)view->tab);
                break;
        case 't': turn_tab(view, (int)COUNTS_TREE - (int)view->tab); break;
        case 'w': turn_tab(view, (int)COUNTS_WAITS - (int)view->tab); break;
        case 'o': turn_tab(view, (int)COUNTS_OPERATIONS - (int)view->tab); break;
        case '\t': turn_tab(view, 1); break;
        case KEY_BACK_TAB: turn_tab(view, -1); break;
        case KEY_LEFT: view->by_moments++; break;
        case KEY_RIGHT: view->by_moments--; break;
        case '>': view->sideways += SIDEWAYS; break;
        case '<': view->sideways -= MIN(view->sideways, (size_t)SIDEWAYS); break;
        case '%': view->of_cpu = !view->of_cpu; break;
        case 's': view->order = (CountsOrder)((view->order + 1) % ARRAY_SIZE(orders)); break;
        case '/': view->typing = true; break;
        case KEY_ESCAPE: view->filter[0] = 0; break;
        case 'p': case ' ': view->paused = !view->paused; break;
        case 'c': view->since_start = !view->since_start; break;
        case '+': change_interval(view, true); break;
        case '-': change_interval(view, false); break;
        case 'h': case '?': view->help = !view->help; break;
        default: return scroll(view, key);
        }
        return VIEW_REDRAW;
}

/* ---- rows ---- */

static bool row_matches(const View *view, const CountsRow *row) {
        for (size_t i = 0; i < COUNTS_MAX_TEXTS; i++)
                if (strcasestr(row->texts[i], view->filter))
                        return true;
        return false;
}

/* Those that the filter lets pass, in order. */
static int choose_rows(const View *view, const Counts *counts, CountsTable tab, CountsRow **rowsp,
                       size_t *np) {
        size_t n, n_kept = 0;
        CountsRow *rows;
        int r = tab == COUNTS_TREE ? counts_tree(counts, counts->n_events / TREE_PART, &rows, &n)
                                   : counts_rows(counts, tab, view->order, &rows, &n);

        if (r)
                return r;
        for (size_t i = 0; i < n; i++)
                if ((rows[i].self || rows[i].total) && row_matches(view, &rows[i]))
                        rows[n_kept++] = rows[i];
        *rowsp = rows;
        *np = n_kept;
        return 0;
}

static double share(uint64_t part, const Counts *counts) {
        return counts->n_events ? 100.0 * (double)part / (double)counts->n_events : 0;
}

/* Of one CPU. */
static double cpu(uint64_t part, const Counts *counts, const ViewFigures *figures) {
        double time_ns = counts->n_events ? (double)part * counts->cpu_ns / (double)counts->n_events : 0;

        return figures->length_ns ? 100.0 * time_ns / (double)figures->length_ns : 0;
}

/* Of all time that threads had no CPU, and threads that were in it at one time. */
static double wait_share(uint64_t part, const Counts *counts) {
        return counts->wait_ns ? 100.0 * (double)part / (double)counts->wait_ns : 0;
}

static double waiting(uint64_t part, const ViewFigures *figures) {
        return figures->length_ns ? (double)part / (double)figures->length_ns : 0;
}

static unsigned column_width(const struct Tab *tab, const TabColumn *column, unsigned columns) {
        unsigned fixed = 2 * NUMBER_COLUMNS + 2, n_open = 0;

        for (unsigned i = 0; i < tab->n_columns; i++) {
                fixed += tab->columns[i].columns;
                n_open += !tab->columns[i].columns;
        }
        if (column->columns)
                return column->columns - 1;
        return columns > fixed + 10 * n_open ? (columns - fixed) / n_open - 1 : 9;
}

/* A terminal that is narrower cuts it; so do we, since a page's lines are as long as its terminal is wide. */
static void print_line(Text *page, const char *line, unsigned columns) {
        screen_text(page, line, columns, false);
        text_append(page, "\n", 1);
}

/* What is left of a text when so many letters of it are left of the screen. */
static const char *scroll_text(const char *text, size_t letters) {
        for (; *text && (letters || !text_is_first_byte(*text)); text++)
                letters -= text_is_first_byte(*text);
        return text;
}

/*
 * Names of functions in the rows of a screen, by row; each one is free()d. They are shortened together, but
 * in the tree, where each stands below its caller and has another width.
 */
typedef struct Names {
        char **shorts;
        size_t n;
} Names;

static const TabColumn *function_column(const struct Tab *tab) {
        for (unsigned i = 0; i < tab->n_columns; i++)
                if (tab->columns[i].is_function)
                        return &tab->columns[i];
        return NULL;
}

static void names_deinit(Names *names) {
        for (size_t i = 0; i < names->n; i++)
                free(names->shorts[i]);
        free(names->shorts);
}

/* Without memory for shorter names their ends are cut off. */
static void names_make(Names *names, const View *view, const CountsRow *rows, size_t n,
                       unsigned columns) {
        const TabColumn *column = function_column(&tabs[view->tab]);
        _cleanup_(freep) const char **texts = calloc(n + 1, sizeof(*texts));

        *names = (Names){ .shorts = calloc(n + 1, sizeof(*names->shorts)) };
        if (!column || view->tab == COUNTS_TREE || !texts || !names->shorts)
                return;
        names->n = n;
        for (size_t i = 0; i < n; i++)
                texts[i] = rows[i].texts[column->text];
        (void)short_names(texts, n, column_width(&tabs[view->tab], column, columns), names->shorts);
}

/* Without memory for a shorter name its end is cut off. @together: what it became among others, if known. */
static void print_function(const View *view, Text *line, const CountsRow *row, const char *name,
                           const char *together, unsigned columns) {
        unsigned indent = (unsigned)MIN((size_t)2 * row->depth, (size_t)columns / 2);
        _cleanup_(freep) char *shorter = NULL;

        text_printf(line, "%*s", (int)indent, "");
        columns -= indent;
        if (view->sideways)
                name = scroll_text(name, MIN(view->sideways, text_columns(name)));
        else if (together)
                name = together;
        else if (!short_name(name, columns, &shorter))
                name = shorter;
        screen_text(line, name, columns, true);
}

static double percent(const View *view, const Counts *counts, const ViewFigures *figures, uint64_t part) {
        return view->of_cpu ? cpu(part, counts, figures) : share(part, counts);
}

static void print_row(const View *view, const Counts *counts, const ViewFigures *figures,
                      const CountsRow *row, const char *name, unsigned columns, Text *page) {
        const struct Tab *tab = &tabs[view->tab];
        Text line = { 0 };

        if (is_of_functions(view->tab))
                text_printf(&line, "%6.1f %%%6.1f %%", percent(view, counts, figures, row->self),
                            percent(view, counts, figures, row->total));
        else if (view->tab == COUNTS_WAITS)
                text_printf(&line, "%6.1f %%%8.2f", wait_share(row->self, counts), waiting(row->self, figures));
        else
                text_printf(&line, "%6.1f %%%6.1f %%", share(row->self, counts), cpu(row->self, counts, figures));
        text_printf(&line, "  ");
        for (unsigned i = 0; i < tab->n_columns; i++) {
                const TabColumn *column = &tab->columns[i];
                unsigned width = column_width(tab, column, columns);

                if (column->is_function)
                        print_function(view, &line, row, row->texts[column->text], name, width);
                else
                        screen_text(&line, row->texts[column->text], width, true);
                text_append(&line, " ", 1);
        }
        while (line.size && line.data[line.size - 1] == ' ')
                line.data[--line.size] = 0;
        print_line(page, line.data ? line.data : "", columns);
        text_deinit(&line);
}

static void print_rows(const View *view, const Counts *counts, const ViewFigures *figures,
                       const CountsRow *rows, size_t n, unsigned columns, Text *page) {
        Names names;

        names_make(&names, view, rows, n, columns);
        for (size_t i = 0; i < n; i++)
                print_row(view, counts, figures, &rows[i], i < names.n ? names.shorts[i] : NULL, columns,
                          page);
        names_deinit(&names);
}

static void print_titles(const View *view, unsigned columns, Text *page) {
        const struct Tab *tab = &tabs[view->tab];
        Text line = { 0 };

        text_printf(&line, "%*s%*s  ", NUMBER_COLUMNS, tab->numbers[0], NUMBER_COLUMNS, tab->numbers[1]);
        for (unsigned i = 0; i < tab->n_columns; i++) {
                screen_text(&line, tab->columns[i].title, column_width(tab, &tab->columns[i], columns), true);
                text_append(&line, " ", 1);
        }
        while (line.size && line.data[line.size - 1] == ' ')
                line.data[--line.size] = 0;
        if (view->colour)
                text_printf(page, "\033[1m");
        screen_text(page, line.data ? line.data : "", columns, false);
        text_printf(page, "%s\n", view->colour ? "\033[0m" : "");
        text_deinit(&line);
}

/* ---- the page ---- */

static void print_figures(const View *view, const Counts *counts, const ViewFigures *figures,
                          unsigned columns, Text *page) {
        char line[256];
        int n = 0;

        /* what must not be overlooked comes first, since a narrow terminal cuts the end */
        if (view->paused)
                n += snprintf(line + n, sizeof(line) - (size_t)n, "PAUSED ");
        if (figures->ago_ns)
                n += snprintf(line + n, sizeof(line) - (size_t)n, "%.0f s AGO ",
                              (double)figures->ago_ns / (double)NS_PER_SEC);
        if (figures->n_lost)
                n += snprintf(line + n, sizeof(line) - (size_t)n, "%" PRIu64 " LOST ", figures->n_lost);
        if (figures->n_tables)
                n += snprintf(line + n, sizeof(line) - (size_t)n, "reading tables %" PRIu32 "/%" PRIu32 " ",
                              figures->n_tables_made, figures->n_tables);
        n += snprintf(line + n, sizeof(line) - (size_t)n,
                      "spanprof top: %zu process%s, %" PRIu64 " samples in %.1f s, %.2f CPUs busy",
                      figures->n_processes, figures->n_processes == 1 ? "" : "es", counts->n_events,
                      (double)figures->length_ns / (double)NS_PER_SEC,
                      cpu(counts->n_events, counts, figures) / 100);
        if (counts->n_linked)
                n += snprintf(line + n, sizeof(line) - (size_t)n, ", %.0f %% in spans",
                              share(counts->n_linked, counts));
        snprintf(line + n, sizeof(line) - (size_t)n, "%s", figures->n_lost ? "" : ", 0 lost");
        print_line(page, line, columns);
}

/* Keys and names of all views; on 80 columns they stand as `[1functions] 2spans 3threads …`. */
static void print_tabs(const View *view, unsigned columns, Text *page) {
        unsigned used = 0, all = 0;
        bool is_wide;

        for (CountsTable tab = 0; tab < VIEW_N_TABS; tab++)
                all += (unsigned)strlen(tabs[tab].name) + 4;
        is_wide = all <= columns;
        for (CountsTable tab = 0; tab < VIEW_N_TABS; tab++) {
                bool is_this = tab == view->tab;
                const char *edge = is_wide && !is_this ? " " : "";
                char text[32];

                snprintf(text, sizeof(text), "%s%s%s%d%s%s%s%s", !is_wide && tab ? " " : "", edge, is_this ? "[" : "",
                         (int)tab + 1, is_wide ? " " : "", tabs[tab].name, is_this ? "]" : "", edge);
                if (used + strlen(text) > columns)
                        break;
                used += (unsigned)strlen(text);
                text_printf(page, "%s%s%s", is_this && view->colour ? "\033[7m" : "", text,
                            is_this && view->colour ? "\033[0m" : "");
        }
        text_append(page, "\n", 1);
}

static void print_state(const View *view, const ViewFigures *figures, size_t n_rows, unsigned columns,
                        Text *page) {
        Text line = { 0 };

        if (view->typing)
                text_printf(&line, "filter: %s_", view->filter);
        else if (figures->note)
                text_printf(&line, "%s", figures->note);
        else
                text_printf(&line, "%zu rows by %s, %s, every %.1f s%s%s%s   h help", n_rows,
                            view->tab == COUNTS_TREE ? "total" : orders[view->order],
                            view->since_start ? "since the start" : "of the last interval",
                            (double)view->interval_ns / (double)NS_PER_SEC,
                            view->of_cpu && is_of_functions(view->tab) ? ", % of a CPU" : "",
                            *view->filter ? ", filter: " : "", view->filter);
        print_line(page, line.data ? line.data : "", columns);
        text_deinit(&line);
}

/* In the place of rows; each line is one of a terminal of 80 columns. */
static void print_help(const View *view, size_t room, Text *page) {
        static const char *const lines[] = {
                "q quit   1-8 Tab view   t tree of calls   w what is waited for   o operations",
                "s sort         / filter          Esc no filter     p or space pause",
                "c since start  ← → earlier, later                  + - interval",
                "% of a CPU     < > names sideways                  ↑ ↓ rows   h no help",
                "k keep: the flight recorder of `spanprof run` ships these seconds",
        };

        for (size_t i = 0; i < MIN(room, ARRAY_SIZE(lines)); i++)
                print_line(page, lines[i], view->columns);
}

/* What an empty view waits for; in the place of rows. */
static void print_empty(const View *view, const ViewFigures *figures, Text *page) {
        Text line = { 0 };

        if (*view->filter)
                text_printf(&line, "  no row has \"%s\" in it; Esc shows all", view->filter);
        else if (!figures->n_processes)
                text_printf(&line, "  no process is chosen (yet): `spanprof targets --verbose` says why");
        else if (!figures->length_ns)
                text_printf(&line, "  the first interval is not over yet");
        else
                text_printf(&line, "  %s", tabs[view->tab].empty);
        print_line(page, line.data ? line.data : "", view->columns ? view->columns : DEFAULT_COLUMNS);
        text_deinit(&line);
}

int view_page(View *view, const Counts *counts, const ViewFigures *figures, Text *page) {
        size_t n, room = view->rows > HEAD_ROWS ? view->rows - HEAD_ROWS : 0;
        _cleanup_(freep) CountsRow *rows = NULL;
        int r = choose_rows(view, counts, view->tab, &rows, &n);

        if (r)
                return r;
        view->first = MIN(view->first, n > room ? n - room : 0);
        if (view->rows >= 1)
                print_figures(view, counts, figures, view->columns, page);
        if (view->rows >= 2)
                print_tabs(view, view->columns, page);
        if (view->rows >= 3)
                print_state(view, figures, n, view->columns, page);
        if (view->rows >= 4)
                print_titles(view, view->columns, page);
        if (view->help)
                print_help(view, room, page);
        else if (!n && room)
                print_empty(view, figures, page);
        else if (n)
                print_rows(view, counts, figures, rows + view->first, MIN(room, n - view->first),
                           view->columns, page);
        return page->failed ? error_origin(-ENOMEM) : 0;
}

/* ---- without a terminal ---- */

int view_block(const View *view, const Counts *counts, const ViewFigures *figures, size_t n_rows,
               Text *block) {
        unsigned columns = view->columns ? view->columns : DEFAULT_COLUMNS;
        _cleanup_(freep) CountsRow *rows = NULL;
        size_t n;
        int r = choose_rows(view, counts, view->tab, &rows, &n);

        if (r)
                return r;
        print_figures(view, counts, figures, columns * 2, block);
        print_titles(view, columns, block);
        if (n)
                print_rows(view, counts, figures, rows, MIN(n, n_rows), columns, block);
        else
                print_empty(view, figures, block);
        text_append(block, "\n", 1);
        return block->failed ? error_origin(-ENOMEM) : 0;
}

static void json_row_figures(JsonWriter *json, CountsTable tab, const CountsRow *row, const Counts *counts,
                             const ViewFigures *figures) {
        if (tab == COUNTS_WAITS) {
                json_number(json, "nanoseconds", row->self);
                json_decimal(json, "threads", waiting(row->self, figures), 3);
                return;
        }
        json_number(json, "self", row->self);
        json_number(json, "total", row->total);
        json_decimal(json, "cpu_percent", cpu(row->self, counts, figures), 2);
}

static int json_rows(const View *view, const Counts *counts, const ViewFigures *figures, CountsTable tab,
                     size_t n_rows, JsonWriter *json) {
        _cleanup_(freep) CountsRow *rows = NULL;
        size_t n;
        int r = choose_rows(view, counts, tab, &rows, &n);

        if (r)
                return r;
        json_open(json, tabs[tab].name, '[');
        for (size_t i = 0; i < MIN(n, n_rows); i++) {
                json_open(json, NULL, '{');
                for (size_t j = 0; j < COUNTS_MAX_TEXTS && tabs[tab].keys[j]; j++)
                        json_text(json, tabs[tab].keys[j], rows[i].texts[j]);
                json_row_figures(json, tab, &rows[i], counts, figures);
                json_close(json, '}');
        }
        json_close(json, ']');
        return 0;
}

int view_json(const View *view, const Counts *counts, const ViewFigures *figures, size_t n_rows, Text *line) {
        JsonWriter json = { .text = line, .is_spaced = true };
        int r = 0;

        json_open(&json, NULL, '{');
        json_decimal(&json, "seconds", (double)figures->length_ns / (double)NS_PER_SEC, 3);
        json_number(&json, "samples", counts->n_events);
        json_number(&json, "in_spans", counts->n_linked);
        json_number(&json, "truncated", counts->n_truncated);
        json_number(&json, "lost", figures->n_lost);
        json_number(&json, "processes_sampled", figures->n_processes);
        json_decimal(&json, "cpus_busy", cpu(counts->n_events, counts, figures) / 100, 3);
        for (CountsTable tab = 0; tab < COUNTS_TREE && !r; tab++)
                r = json_rows(view, counts, figures, tab, n_rows, &json);
        if (!r && counts->tables[COUNTS_WAITS].keys.n_items)
                r = json_rows(view, counts, figures, COUNTS_WAITS, n_rows, &json);
        if (!r && counts->tables[COUNTS_OPERATIONS].keys.n_items)
                r = json_rows(view, counts, figures, COUNTS_OPERATIONS, n_rows, &json);
        json_close(&json, '}');
        json_end(&json);
        return r ? r : line->failed ? error_origin(-ENOMEM) : 0;
}
