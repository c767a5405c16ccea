/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A line of /proc/PID/maps (proc_pid_maps(5), fs/proc/task_mmu.c) looks like
 *
 *     7f0a3c028000-7f0a3c1bd000 r-xp 00028000 fe:00 1050182      /usr/lib/libc.so.6
 *     start        end          perm offset   dev   inode        name to the end of the line
 *
 * Numbers are hex but for the inode. The kernel escapes nothing but a newline
 * in a name (\012), so a backslash may be itself: only that one sequence is decoded.
 */
#include "core/symbol/object/maps.h"

#include <string.h>
#include <unistd.h>

#include "core/base/thread/bounded-call.h"
#include "core/base/util/clock.h"
#include "core/base/util/macro.h"
#include "core/base/util/stat.h"
#include "core/base/util/text.h"
#include "core/symbol/object/deleted.h"
#include "spanprof/station.h"

enum { BYTES_PER_US = 200 };            /* as the kernel prints usual maps */

/* Takes the text up to @stop and the stop itself. Return: its length, or -1 = no such stop in the line. */
static ptrdiff_t field(const char **p, const char *end, char stop) {
        const char *from = *p;
        const char *at = memchr(from, stop, (size_t)(end - from));

        if (!at)
                return -1;
        *p = at + 1;
        return at - from;
}

static int hex_field(const char **p, const char *end, char stop, uint64_t *valuep) {
        const char *from = *p;
        ptrdiff_t n = field(p, end, stop);

        return n < 0 ? 1 : text_hex(from, from + n, valuep);
}

static bool one_of(char c, char yes, char no, bool *flagp) {
        *flagp = c == yes;
        return c == yes || c == no;
}

static int permissions(const char **p, const char *end, MapsEntry *entry) {
        const char *from = *p;

        if (field(p, end, ' ') != 4)
                return 1;
        return !(one_of(from[0], 'r', '-', &entry->readable) && one_of(from[1], 'w', '-', &entry->writable) &&
                 one_of(from[2], 'x', '-', &entry->executable) && one_of(from[3], 's', 'p', &entry->shared));
}

/* Decimal digits until a blank or the end. */
static int inode_field(const char **p, const char *end, uint64_t *valuep) {
        uint64_t value = 0;
        const char *at = *p;

        for (; at < end && *at != ' '; at++)
                if (*at < '0' || *at > '9' || __builtin_mul_overflow(value, 10, &value) ||
                    __builtin_add_overflow(value, (uint64_t)(*at - '0'), &value))
                        return 1;
        if (at == *p)
                return 1;
        *p = at;
        *valuep = value;
        return 0;
}

static int parse_line(const char *line, const char *end, MapsEntry *entryp) {
        MapsEntry entry = { 0 };
        uint64_t major, minor;
        const char *p = line;

        if (hex_field(&p, end, '-', &entry.start) || hex_field(&p, end, ' ', &entry.end) ||
            entry.start >= entry.end || permissions(&p, end, &entry) ||
            hex_field(&p, end, ' ', &entry.offset) || hex_field(&p, end, ':', &major) ||
            hex_field(&p, end, ' ', &minor) || major > UINT32_MAX || minor > UINT32_MAX ||
            inode_field(&p, end, &entry.inode))
                return MAPS_E_MALFORMED;
        while (p < end && *p == ' ')
                p++;
        entry.major = (uint32_t)major;
        entry.minor = (uint32_t)minor;
        entry.name = p;
        entry.name_size = (size_t)(end - p);
        *entryp = entry;
        return 0;
}

int maps_next(MapsCursor *cursor, MapsEntry *entryp) {
        const char *line = cursor->text + cursor->at;
        size_t left = cursor->size - cursor->at;
        const char *end;

        if (!left)
                return MAPS_E_EOF;
        end = memchr(line, '\n', left);
        if (!end)
                end = line + left;
        cursor->at += (size_t)(end - line) + (end < line + left);
        return parse_line(line, end, entryp);
}

static bool starts_with(const MapsEntry *entry, const char *prefix) {
        size_t n = strlen(prefix);

        return entry->name_size >= n && !memcmp(entry->name, prefix, n);
}

bool maps_is_probes(const MapsEntry *entry) {
        return !entry->inode && entry->name_size == strlen("[uprobes]") && starts_with(entry, "[uprobes]");
}

bool maps_is_file(const MapsEntry *entry) {
        return entry->inode && entry->name_size && entry->name[0] == '/';
}

bool maps_is_memfd(const MapsEntry *entry) {
        return maps_is_file(entry) && starts_with(entry, "/memfd:");
}

bool maps_is_stations(const MapsEntry *entry) {
        return entry->shared && entry->readable && entry->writable && !entry->offset && maps_is_file(entry) &&
               entry->end - entry->start >= 2 * SPANPROF_STATION_SIZE;
}

bool maps_is_private_memory(const MapsEntry *entry) {
        if (entry->inode || entry->shared || !entry->readable || !entry->writable)
                return false;
        return !entry->name_size || starts_with(entry, "[anon:") || starts_with(entry, "[heap]");
}

bool maps_has_name(const MapsEntry *entry, const char *name) {
        static const struct {
                const char *before, *after;
        } forms[] = {
                { "[anon:", "]" }, { "[anon_shmem:", "]" }, { "/memfd:", DELETED_MARK }, { "/memfd:", "" }
        };
        size_t n = strlen(name);

        for (size_t i = 0; i < ARRAY_SIZE(forms); i++) {
                size_t before = strlen(forms[i].before), after = strlen(forms[i].after);

                if (entry->name_size == before + n + after && starts_with(entry, forms[i].before) &&
                    !memcmp(entry->name + before, name, n) &&
                    !memcmp(entry->name + before + n, forms[i].after, after))
                        return true;
        }
        return false;
}

bool maps_has_prefix(const MapsEntry *entry, const char *name) {
        static const char *const forms[] = { "[anon:", "[anon_shmem:", "/memfd:" };
        size_t n = strlen(name);

        for (size_t i = 0; i < ARRAY_SIZE(forms); i++) {
                size_t before = strlen(forms[i]);

                if (entry->name_size >= before + n && starts_with(entry, forms[i]) &&
                    !memcmp(entry->name + before, name, n))
                        return true;
        }
        return false;
}

size_t maps_path(const MapsEntry *entry, char *to, bool *deletedp) {
        size_t size = deleted_plain_size(entry->name, entry->name_size), length = 0;

        if (deletedp)
                *deletedp = size != entry->name_size;
        for (size_t i = 0; i < size && length < MAPS_MAX_NAME - 1; i++)
                if (size - i >= 4 && !memcmp(entry->name + i, "\\012", 4)) {
                        to[length++] = '\n';
                        i += 3;
                } else
                        to[length++] = entry->name[i];
        to[length] = 0;
        return length;
}

void maps_reader_init(MapsReader *reader, int fd) {
        reader->fd = fd;
        reader->allowed = SIZE_MAX;
        reader->used = reader->free = 0;
        maps_reader_rewind(reader);
}

void maps_reader_init_text(MapsReader *reader, const char *text, size_t size) {
        maps_reader_init(reader, -1);
        reader->size = MIN(size, sizeof(reader->buffer));
        memcpy(reader->buffer, text, reader->size);
        reader->end = true;
}

void maps_reader_rewind(MapsReader *reader) {
        reader->end = false;
        reader->left = MAPS_MAX_TEXT;
        reader->size = reader->at = 0;
}

/* Text that was moved out of the buffer does not count in its size. */
bool maps_reader_again(MapsReader *reader) {
        if (!reader->end || !reader->left || reader->size != MAPS_MAX_TEXT - reader->left)
                return false;
        reader->at = 0;
        return true;
}

void maps_reader_begin_turn(MapsReader *reader, size_t free, const size_t *leftp) {
        if (!leftp || __builtin_add_overflow(free, *leftp, &reader->allowed))
                reader->allowed = SIZE_MAX;
        reader->used = 0;
        reader->free = free;
}

void maps_reader_end_turn(MapsReader *reader, size_t *leftp) {
        if (leftp && *leftp != SIZE_MAX)
                *leftp -= MIN(*leftp, reader->used - MIN(reader->used, reader->free));
}

void maps_reader_charge(MapsReader *reader, size_t size) {
        reader->allowed -= reader->allowed == SIZE_MAX ? 0 : MIN(reader->allowed, size);
        reader->used += size;
}

/* Moves what is left to the front and reads more behind it. */
static int fill(MapsReader *reader) {
        uint64_t begin_ns = clock_monotonic_ns(), worth = 0;
        bool ended;
        ssize_t n;

        if (!reader->allowed)
                return MAPS_E_PAUSED;
        memmove(reader->buffer, reader->buffer + reader->at, reader->size - reader->at);
        reader->size -= reader->at;
        reader->at = 0;
        n = bounded_fill_some(0, reader->fd, reader->buffer + reader->size,
                              MIN(sizeof(reader->buffer) - reader->size, reader->left), &ended);
        if (n < 0)
                return MAPS_E_FAILED;
        reader->left -= (size_t)n;
        if (reader->allowed != SIZE_MAX && reader->used > reader->free)
                worth = (clock_monotonic_ns() - begin_ns) / NS_PER_US * BYTES_PER_US;
        maps_reader_charge(reader, MAX((size_t)n, worth));
        reader->end = ended || !reader->left;
        reader->size += (size_t)n;
        if (!reader->left)
                stat_add(COUNTER_MAPS_CUT, 1);
        return 0;
}

int maps_reader_next(MapsReader *reader, MapsEntry *entryp) {
        MapsCursor cursor;
        int r;

        while (!memchr(reader->buffer + reader->at, '\n', reader->size - reader->at)) {
                if (!reader->left)
                        return MAPS_E_EOF;              /* a line that was cut may say anything */
                if (reader->end)
                        break;
                if (reader->size - reader->at >= sizeof(reader->buffer)) {
                        reader->at = reader->size;      /* no kernel prints a line this long */
                        return MAPS_E_MALFORMED;
                }
                r = fill(reader);
                if (r)
                        return r;
        }
        cursor = maps_cursor(reader->buffer + reader->at, reader->size - reader->at);
        r = maps_next(&cursor, entryp);
        reader->at += cursor.at;
        return r;
}
