/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A database is what users query:
 *
 *      $ sqlite3 t.db 'SELECT station, event, is_active, ts FROM coro_trace_events LIMIT 2'
 *      0|0|0|8569300969167
 *      0|1|1|8569300990970
 *
 * Inserts are the slow step. Three measures make them faster. 32 events go into one statement, which halves
 * the time of each, since AUTOINCREMENT reads and writes a table of its own with each statement. A
 * transaction is committed ten times a second. The three indexes are made at the end, in a third of the time.
 * In WAL mode readers see each commit, and a killed engine leaves the committed events.
 *
 * SQLite's integers have a sign. Numbers above 2^63 are stored bit by bit and read back without the sign.
 * Databases come from other users, too: only tables are read (a view may never end), cells are limited, and
 * an event is parsed as the line of CSV that it would be, so that one parser decides what is sound.
 */

#include "desk/coro/trace/trace-db.h"

#include <errno.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/base/util/digits.h"
#include "core/base/util/error.h"
#include "core/base/util/library.h"
#include "core/base/util/log.h"
#include "core/base/util/text.h"
#include "desk/coro/trace/trace-line.h"

#define FUNCTIONS(X) \
        X(sqlite3_bind_int64) X(sqlite3_bind_null) X(sqlite3_bind_text) X(sqlite3_close) \
        X(sqlite3_column_count) X(sqlite3_column_int64) X(sqlite3_column_name) X(sqlite3_column_text) \
        X(sqlite3_column_type) \
        X(sqlite3_errmsg) X(sqlite3_exec) X(sqlite3_finalize) X(sqlite3_limit) X(sqlite3_open_v2) \
        X(sqlite3_prepare_v2) X(sqlite3_reset) X(sqlite3_step)

static struct {
        FUNCTIONS(LIBRARY_POINTER)
} lib;

static Library library = LIBRARY(lib, SONAME_SQLITE3, FUNCTIONS, "for traces as a database");
LIBRARY_NOTE(SONAME_SQLITE3, "database", "suggested", "reads and writes traces of coroutines as databases")

enum { ROWS = 32 };                     /* events of one statement */

struct TraceDb {
        sqlite3 *sqlite;
        sqlite3_stmt *insert_event, *insert_events, *insert_station, *insert_mapping;
        bool extra, in_transaction;
        CoroEvent rows[ROWS];           /* events that are not inserted yet */
        unsigned n_rows;
        uint64_t size_bytes;            /* at the last commit */
        uint64_t n_since;               /* events since then */
};

enum {
        ROW_BYTES = 100,                /* about; indexes come at the end and are not counted */
        CELL_BYTES = 1 << 20,           /* limit of a cell when reading; ours are far smaller */
};

/*
 * Other tools look for these names, the first six columns and the indexes; columns that we add may be NULL.
 */
static const char schema[] =
        "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; PRAGMA cache_size=-16384;"
        "CREATE TABLE coro_trace_events (id INTEGER PRIMARY KEY AUTOINCREMENT, probe_id TEXT NOT NULL, tid INTEGER NOT NULL,"
        " addr TEXT NOT NULL, seq INTEGER NOT NULL, is_active INTEGER NOT NULL CHECK (is_active IN (0, 1)), ts INTEGER NOT NULL,"
        " payload TEXT%s);";
static const char extra_columns[] =
        ", station INTEGER, event INTEGER, birth INTEGER, lost INTEGER, pid INTEGER";
static const char station_schema[] =
        "CREATE TABLE coro_stations (pid INTEGER NOT NULL, station INTEGER NOT NULL, probe_id TEXT NOT NULL, birth INTEGER NOT NULL,"
        " dead INTEGER NOT NULL, torn INTEGER NOT NULL, corrupt INTEGER NOT NULL, read INTEGER NOT NULL, lost INTEGER NOT NULL,"
        " rejected INTEGER NOT NULL, skipped INTEGER NOT NULL, last_ts INTEGER NOT NULL, last_tid INTEGER NOT NULL,"
        " last_addr TEXT NOT NULL, is_active INTEGER NOT NULL, until INTEGER NOT NULL DEFAULT 0, process INTEGER NOT NULL DEFAULT 0,"
        " frame TEXT NOT NULL DEFAULT '0x0', code TEXT NOT NULL DEFAULT '0x0');"
        "CREATE TABLE coro_mappings (process INTEGER NOT NULL, pid INTEGER NOT NULL, start TEXT NOT NULL, \"end\" TEXT NOT NULL,"
        " elf_address TEXT NOT NULL, build_id_gnu TEXT NOT NULL, build_id_go TEXT NOT NULL, build_id_htlhash TEXT NOT NULL,"
        " path TEXT NOT NULL, file_offset TEXT);";
static const char index_schema[] =
        "CREATE INDEX IF NOT EXISTS idx_coro_trace_events_probe_seq ON coro_trace_events (probe_id, seq);"
        "CREATE INDEX IF NOT EXISTS idx_coro_trace_events_tid_ts ON coro_trace_events (tid, ts);"
        "CREATE INDEX IF NOT EXISTS idx_coro_trace_events_ts ON coro_trace_events (ts);";

static int fail(const TraceDb *db, const char *what) {
        log_error("database: %s: %s", what, db->sqlite ? lib.sqlite3_errmsg(db->sqlite) : "out of memory");
        return TRACE_E_FAILED;
}

static int execute(TraceDb *db, const char *sql, const char *what) {
        return lib.sqlite3_exec(db->sqlite, sql, NULL, NULL, NULL) == SQLITE_OK ? 0 : fail(db, what);
}

/* Replaces an old database, and no other file. SQLite would take an old log for that of the new database. */
static int make_file(Outfile *file) {
        static const char magic[] = "SQLite format 3";
        static const char *const others[] = { "-wal", "-shm", "-journal" };
        int r = outfile_expect(file, magic, sizeof(magic));

        for (size_t i = 0; !r && i < ARRAY_SIZE(others); i++)
                r = outfile_remove(file, others[i]);
        return r ? r : outfile_begin(file);
}

/*
 * Makes an empty file, since SQLite opens by path and cannot be told mode and readers. *pathp: owned by the
 * caller. Return: 0, TRACE_E_FOREIGN, TRACE_E_REFUSED, -ENOMEM.
 */
static int prepare_file(const char *path, const OutfileOptions *options, char **pathp) {
        OutfileOptions file_options = { .mode = options->mode, .readers = options->readers, .by_path = true };
        _cleanup_(outfile_deinit) Outfile file = OUTFILE_NONE;
        int r = outfile_find(&file, path, &file_options);

        if (!r)
                r = make_file(&file);
        if (r == OUTFILE_E_KIND)
                return TRACE_E_FOREIGN;
        if (r) {
                log_error("%s: cannot be written: %s", path, outfile_problem(r));
                return TRACE_E_REFUSED;
        }
        *pathp = strdup(outfile_path(&file));
        return *pathp ? 0 : error_origin(-ENOMEM);
}

static unsigned n_columns(const TraceDb *db) {
        return db->extra ? 12 : 7;
}

static int prepare_events(TraceDb *db, unsigned n_rows, sqlite3_stmt **statementp) {
        static const char one[] = "(?,?,?,?,?,?,?,?,?,?,?,?)";
        char sql[256 + ROWS * sizeof(one)];
        int n = snprintf(
                sql, sizeof(sql),
                "INSERT INTO coro_trace_events (probe_id, tid, addr, seq, is_active, ts, payload%s) VALUES ",
                db->extra ? ", station, event, birth, lost, pid" : "");

        for (unsigned i = 0; i < n_rows; i++)
                n += snprintf(sql + n, sizeof(sql) - (size_t)n, "%s%.*s)", i ? "," : "",
                              2 * (int)n_columns(db), one);
        return lib.sqlite3_prepare_v2(db->sqlite, sql, n, statementp, NULL) != SQLITE_OK;
}

static int prepare(TraceDb *db) {
        const char *station = "INSERT INTO coro_stations VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)";
        const char *mapping = "INSERT INTO coro_mappings VALUES (?,?,?,?,?,?,?,?,?,?)";

        if (prepare_events(db, 1, &db->insert_event) || prepare_events(db, ROWS, &db->insert_events))
                return fail(db, "coro_trace_events");
        if (db->extra &&
            lib.sqlite3_prepare_v2(db->sqlite, station, -1, &db->insert_station, NULL) != SQLITE_OK)
                return fail(db, "coro_stations");
        if (db->extra &&
            lib.sqlite3_prepare_v2(db->sqlite, mapping, -1, &db->insert_mapping, NULL) != SQLITE_OK)
                return fail(db, "coro_mappings");
        return 0;
}

static int create(TraceDb *db, const char *path) {
        char sql[1024];
        int r;

        if (lib.sqlite3_open_v2(path, &db->sqlite,
                                SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOFOLLOW | SQLITE_OPEN_NOMUTEX,
                                NULL) != SQLITE_OK)
                return fail(db, path);
        snprintf(sql, sizeof(sql), schema, db->extra ? extra_columns : "");
        r = execute(db, sql, "its tables cannot be made");
        if (!r && db->extra)
                r = execute(db, station_schema, "its tables cannot be made");
        return r ? r : prepare(db);
}

int trace_db_new(TraceDb **dbp, const char *path, bool extra, const OutfileOptions *options) {
        _cleanup_(freep) char *plain = NULL;
        TraceDb *db;
        int r = library_load(&library) ? TRACE_E_FAILED : prepare_file(path, options, &plain);

        if (r)
                return r;
        db = calloc(1, sizeof(*db));
        if (!db)
                return error_origin(-ENOMEM);
        db->extra = extra;
        r = create(db, plain);
        if (r) {
                trace_db_free(db);
                return r;
        }
        *dbp = db;
        return 0;
}

static int begin(TraceDb *db) {
        if (db->in_transaction)
                return 0;
        db->in_transaction = true;
        return execute(db, "BEGIN", "begin");
}

/* Numbers above 2^63 are stored bit by bit, as negative ones. */
static void bind(sqlite3_stmt *statement, int at, uint64_t value) {
        lib.sqlite3_bind_int64(statement, at, (sqlite3_int64)value);
}

/* printf() would be a third of an insert. */
static void bind_decimal(sqlite3_stmt *statement, int at, char *text, uint64_t value) {
        lib.sqlite3_bind_text(statement, at, text, (int)(digits_put(text, value) - text), SQLITE_STATIC);
}

static void bind_address(sqlite3_stmt *statement, int at, char *text, uint64_t address) {
        uint64_t big = __builtin_bswap64(address);

        text[0] = '0';
        text[1] = 'x';
        text_to_hex(text + 2, &big, sizeof(big));
        lib.sqlite3_bind_text(statement, at, text, 18, SQLITE_STATIC);
}

static int step(TraceDb *db, sqlite3_stmt *statement) {
        int r = lib.sqlite3_step(statement) == SQLITE_DONE ? 0 : fail(db, "insert");

        lib.sqlite3_reset(statement);
        return r;
}

typedef struct RowTexts {
        char probe[DIGITS_MAX + DIGITS_SLACK], address[24], payload[2 * SPANPROF_STATION_PAYLOAD + 1];
} RowTexts;

/* @at: the number of the row's first column. @texts must live until the statement has been stepped. */
static void bind_event(const TraceDb *db, sqlite3_stmt *s, int at, const CoroEvent *event, RowTexts *texts) {
        bind_decimal(s, at, texts->probe, event->probe_id);
        bind(s, at + 1, event->tid);
        bind_address(s, at + 2, texts->address, event->address);
        bind(s, at + 3, event->seq);
        bind(s, at + 4, event->active);
        bind(s, at + 5, event->time_ns);
        if (event->has_payload) {
                text_to_hex(texts->payload, event->payload, sizeof(event->payload));
                lib.sqlite3_bind_text(s, at + 6, texts->payload, sizeof(texts->payload) - 1, SQLITE_STATIC);
        } else {
                lib.sqlite3_bind_null(s, at + 6);
        }
        if (!db->extra)
                return;
        bind(s, at + 7, event->station);
        bind(s, at + 8, event->number);
        bind(s, at + 9, event->birth_ns);
        bind(s, at + 10, event->n_lost);
        bind(s, at + 11, event->pid);
}

/* Inserts the rows that wait: together if they fill one statement, else one by one. */
static int insert_rows(TraceDb *db) {
        unsigned n = db->n_rows, step_by = n == ROWS ? ROWS : 1;
        sqlite3_stmt *s = n == ROWS ? db->insert_events : db->insert_event;
        RowTexts texts[ROWS];

        db->n_rows = 0;
        for (unsigned at = 0; at < n; at += step_by) {
                for (unsigned i = 0; i < step_by; i++)
                        bind_event(db, s, (int)(i * n_columns(db) + 1), &db->rows[at + i], &texts[i]);
                if (step(db, s))
                        return TRACE_E_FAILED;
        }
        return 0;
}

int trace_db_event(TraceDb *db, const CoroEvent *event) {
        if (begin(db))
                return TRACE_E_FAILED;
        db->rows[db->n_rows++] = *event;
        db->n_since++;
        return db->n_rows == ROWS ? insert_rows(db) : 0;
}

int trace_db_station(TraceDb *db, const TraceStation *station) {
        const StationState *state = station->state;
        char frame[24], code[24];
        const uint64_t numbers[] = { station->pid,
                                     station->index,
                                     0,
                                     state->birth_ns,
                                     state->dead,
                                     state->torn,
                                     state->corrupt,
                                     state->n_read,
                                     state->n_lost,
                                     state->n_rejected,
                                     state->n_skipped,
                                     state->last_ns,
                                     state->last_tid,
                                     0,
                                     state->active,
                                     station->until_ns,
                                     station->code.process };
        sqlite3_stmt *s = db->insert_station;
        char probe[DIGITS_MAX + DIGITS_SLACK], address[24];

        if (begin(db))
                return TRACE_E_FAILED;
        for (size_t i = 0; i < ARRAY_SIZE(numbers); i++)
                bind(s, (int)i + 1, numbers[i]);
        bind_decimal(s, 3, probe, state->probe_id);
        bind_address(s, 14, address, state->last_address);
        bind_address(s, 18, frame, station->code.frame);
        bind_address(s, 19, code, station->code.address);
        return step(db, s);
}

int trace_db_mapping(TraceDb *db, const TraceMapping *mapping) {
        const char *const texts[] = { mapping->build_id_gnu, mapping->build_id_go, mapping->build_id_htlhash,
                                      mapping->path };
        char start[24], end[24], address[24], offset[24];
        sqlite3_stmt *s = db->insert_mapping;

        if (begin(db))
                return TRACE_E_FAILED;
        bind(s, 1, mapping->process);
        bind(s, 2, mapping->pid);
        bind_address(s, 3, start, mapping->start);
        bind_address(s, 4, end, mapping->end);
        bind_address(s, 5, address, mapping->address);
        for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
                lib.sqlite3_bind_text(s, (int)i + 6, texts[i], -1, SQLITE_STATIC);
        if (mapping->offset == TRACE_NO_OFFSET)
                lib.sqlite3_bind_null(s, 10);
        else
                bind_address(s, 10, offset, mapping->offset);
        return step(db, s);
}

/* Return: 0 = unknown; the size limit is not kept then, which is no reason to stop. */
static uint64_t ask_size(TraceDb *db) {
        sqlite3_stmt *s = NULL;
        uint64_t size = 0;

        if (lib.sqlite3_prepare_v2(db->sqlite,
                                   "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size",
                                   -1, &s, NULL) == SQLITE_OK &&
            lib.sqlite3_step(s) == SQLITE_ROW)
                size = (uint64_t)lib.sqlite3_column_int64(s, 0);
        lib.sqlite3_finalize(s);
        return size;
}

int trace_db_commit(TraceDb *db) {
        int r;

        if (!db->in_transaction)
                return 0;
        r = insert_rows(db);
        db->in_transaction = false;
        r = execute(db, "COMMIT", "commit") ?: r;
        db->size_bytes = ask_size(db);
        db->n_since = 0;
        return r;
}

uint64_t trace_db_size(const TraceDb *db) {
        return db->size_bytes + db->n_since * ROW_BYTES;
}

int trace_db_close(TraceDb *db) {
        int r = trace_db_commit(db);

        if (!r)
                r = execute(db, index_schema, "its indexes cannot be made");
        trace_db_free(db);
        return r;
}

TraceDb *trace_db_free(TraceDb *db) {
        if (!db)
                return NULL;
        lib.sqlite3_finalize(db->insert_event);
        lib.sqlite3_finalize(db->insert_events);
        lib.sqlite3_finalize(db->insert_station);
        lib.sqlite3_finalize(db->insert_mapping);
        lib.sqlite3_close(db->sqlite);
        free(db);
        return NULL;
}

static bool has_log(const char *path) {
        static const char *const logs[] = { "-wal", "-journal" };
        bool has = false;

        for (size_t i = 0; i < ARRAY_SIZE(logs) && !has; i++) {
                _cleanup_(text_deinit) Text name = { 0 };

                text_printf(&name, "%s%s", path, logs[i]);
                has = name.failed || !access(name.data, F_OK);
        }
        return has;
}

/* A path as SQLite's URI; what stands behind the path is not of it. */
static void append_uri(Text *uri, const char *path) {
        text_printf(uri, *path == '/' ? "file://" : "file:");
        text_append_escaped(uri, path, "/._-");
        text_printf(uri, "?immutable=1");
}

/*
 * A reader of a finished trace would leave -wal and -shm beside it, since it may not remove what it has made.
 * Without a log nobody writes and nothing is to be taken back: then SQLite is told that the file stays as it
 * is.
 */
static int open_old(TraceDb *db, const char *path) {
        _cleanup_(text_deinit) Text uri = { 0 };
        bool is_finished = !has_log(path);

        append_uri(&uri, path);
        if (uri.failed)
                return error_origin(-ENOMEM);
        if (lib.sqlite3_open_v2(is_finished ? uri.data : path, &db->sqlite,
                                SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX |
                                        (is_finished ? SQLITE_OPEN_URI : 0),
                                NULL) != SQLITE_OK)
                return fail(db, path);
        lib.sqlite3_limit(db->sqlite, SQLITE_LIMIT_LENGTH, CELL_BYTES);
        return 0;
}

/* A view may never end, and a virtual table may call anything. A trace has neither, so both are refused. */
static bool is_table(const TraceDb *db, const char *name) {
        static const char sql[] =
                "SELECT 1 FROM sqlite_master WHERE type = 'table' AND rootpage > 0 AND name = ?";
        sqlite3_stmt *s = NULL;
        bool found = lib.sqlite3_prepare_v2(db->sqlite, sql, -1, &s, NULL) == SQLITE_OK &&
                lib.sqlite3_bind_text(s, 1, name, -1, SQLITE_STATIC) == SQLITE_OK &&
                lib.sqlite3_step(s) == SQLITE_ROW;

        lib.sqlite3_finalize(s);
        return found;
}

/* coroTracer's columns stand first; columns that only we write may be missing, and are NULL then. */
static int prepare_read(TraceDb *db, sqlite3_stmt **statementp) {
        static const char full[] =
                "SELECT probe_id, tid, addr, seq, is_active, ts, payload, station, event, birth, lost, pid"
                " FROM coro_trace_events ORDER BY id";
        static const char middle[] = "SELECT probe_id, tid, addr, seq, is_active, ts, payload, 0, 0, 0, 0, 0"
                                     " FROM coro_trace_events ORDER BY id";
        static const char least[] = "SELECT probe_id, tid, addr, seq, is_active, ts, NULL, 0, 0, 0, 0, 0"
                                    " FROM coro_trace_events ORDER BY id";
        static const char *const tries[] = { full, middle, least };

        if (!is_table(db, "coro_trace_events")) {
                log_error("database: there is no table coro_trace_events");
                return TRACE_E_FAILED;
        }
        for (size_t i = 0; i < ARRAY_SIZE(tries); i++)
                if (lib.sqlite3_prepare_v2(db->sqlite, tries[i], -1, statementp, NULL) == SQLITE_OK)
                        return 0;
        return fail(db, "coro_trace_events");
}

/*
 * Prints integers without the sign that they were stored with. Return: false = there is no room for the cell.
 */
static bool print_cell(sqlite3_stmt *statement, int column, const char *before, char *line, size_t room,
                       size_t *sizep) {
        bool number = lib.sqlite3_column_type(statement, column) == SQLITE_INTEGER;
        const char *text = number ? "" : (const char *)lib.sqlite3_column_text(statement, column);
        int n = number ? snprintf(line + *sizep, room - *sizep, "%s%lu", before,
                                  (unsigned long)lib.sqlite3_column_int64(statement, column))
                       : snprintf(line + *sizep, room - *sizep, "%s%s", before, text ? text : "");

        if (n < 0 || (size_t)n >= room - *sizep)
                return false;
        *sizep += (size_t)n;
        return true;
}

/* Parses the row as a line of CSV: one parser decides which events are sound. */
static int parse_event(sqlite3_stmt *statement, CoroEvent *event) {
        static const char header[] = "probe_id,tid,addr,seq,is_active,ts,payload,station,event,birth,lost,pid";
        static TraceColumns columns;
        char line[TRACE_LINE_MAX];
        size_t size = 0;

        if (!columns.n && trace_parse_csv_header(header, sizeof(header) - 1, &columns))
                return TRACE_PARSE_E_MALFORMED;
        for (unsigned i = 0; i < columns.n; i++)
                if (!print_cell(statement, (int)i, i ? "," : "", line, sizeof(line), &size))
                        return TRACE_PARSE_E_MALFORMED;
        return trace_parse_csv(&columns, line, size, event);
}

static int read_events(TraceDb *db, const char *path, const TraceTakers *to, TraceReadCounts *counts) {
        sqlite3_stmt *statement = NULL;
        int r = prepare_read(db, &statement), state = SQLITE_ERROR;

        while (!r && (state = lib.sqlite3_step(statement)) == SQLITE_ROW) {
                CoroEvent event;

                if (parse_event(statement, &event)) {
                        counts->n_malformed++;
                        continue;
                }
                counts->n_events++;
                r = to->event(to->userdata, &event);
        }
        if (!r && state != SQLITE_DONE)
                r = fail(db, path);
        lib.sqlite3_finalize(statement);
        return r;
}

/* Cells by the names of the columns, of which older databases have fewer. NULL is no cell. */
static int give_row(sqlite3_stmt *statement, TraceTable table, const TraceTakers *to,
                    TraceReadCounts *counts) {
        char numbers[TRACE_MAX_CELLS][24];
        TraceRow row = { .table = table };

        for (int i = 0; i < lib.sqlite3_column_count(statement); i++) {
                const char *name = lib.sqlite3_column_name(statement, i);
                int type = lib.sqlite3_column_type(statement, i),
                    column = name ? trace_table_column(table, name, strlen(name)) : -1;
                size_t size = 0;

                if (column < 0 || type == SQLITE_NULL)
                        continue;
                row.cells[column].text = numbers[column];
                if (type != SQLITE_INTEGER)
                        row.cells[column].text = (const char *)lib.sqlite3_column_text(statement, i);
                else if (!print_cell(statement, i, "", numbers[column], sizeof(*numbers), &size))
                        row.cells[column].text = NULL;
                if (row.cells[column].text)
                        row.cells[column].size = strlen(row.cells[column].text);
        }
        return trace_take_row(to, &row, counts);
}

static int read_rows(TraceDb *db, const char *path, TraceTable table, const TraceTakers *to,
                     TraceReadCounts *counts) {
        sqlite3_stmt *statement = NULL;
        int r = 0, state = SQLITE_DONE;
        char sql[64];

        if (!is_table(db, trace_table_name(table)))
                return 0;
        snprintf(sql, sizeof(sql), "SELECT * FROM %s", trace_table_name(table));
        if (lib.sqlite3_prepare_v2(db->sqlite, sql, -1, &statement, NULL) != SQLITE_OK)
                return fail(db, path);
        while (!r && (state = lib.sqlite3_step(statement)) == SQLITE_ROW)
                r = give_row(statement, table, to, counts);
        if (!r && state != SQLITE_DONE)
                r = fail(db, path);
        lib.sqlite3_finalize(statement);
        return r;
}

int trace_db_read(const char *path, const TraceTakers *to, TraceReadCounts *counts) {
        TraceDb db = { 0 };
        int r;

        if (library_load(&library))
                return TRACE_E_FAILED;
        r = open_old(&db, path);
        if (!r && to->event)
                r = read_events(&db, path, to, counts);
        for (TraceTable table = 0; table < N_TRACE_TABLES && !r; table++)
                if (table == TRACE_TABLE_STATIONS ? to->station != NULL : to->mapping != NULL)
                        r = read_rows(&db, path, table, to, counts);
        lib.sqlite3_close(db.sqlite);
        return r;
}
