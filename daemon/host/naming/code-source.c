/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A file is opened as host/sampling/process/object.c describes: seen first, and read only if it is of the
 * right kind. It may be replaced, truncated and rewritten at any time. So reading goes on at the last place
 * only if
 *
 *     device and inode are the same, the file is not shorter, the last bytes before that place are the same
 *
 * Else the file is read from its start; the index takes known ranges again without growing.
 *
 *     look 1   /tmp/perf-4711.map, 80 bytes    reads 0 … 80, keeps the last bytes "c0 20 Foo.bar\
 * "
 *     look 2   1,200 bytes, same last bytes    reads 80 … 1,200
 *     look 3   400 bytes                       shorter: reads 0 … 400
 */
#include "host/naming/code-source.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>

#include "core/base/file/file.h"
#include "core/base/sandbox/worker-session.h"
#include "core/base/util/clock.h"
#include "core/base/util/error.h"
#include "core/base/util/text.h"
#include "core/symbol/jit/code-wire.h"
#include "core/symbol/jit/jitdump.h"
#include "core/symbol/jit/perf-map.h"
#include "host/naming/gdb-wire.h"
#include "host/sampling/process/identity.h"
#include "host/sampling/process/process-directory.h"

/* start times are in ticks, and times of files a little old */
#define SLACK_NS NS_PER_SEC

enum {
        STATUS_MAX = 16 << 10,
        LOOK_BYTES = 4 << 20,           /* bytes of one file in one look */
        FILE_BYTES = 256 << 20,         /* bytes of one file in all; the rest is over the cap */
        LAST_BYTES = 64,
        READ_E_FAILED = 100,            /* no worker could read it; apart from JITDUMP_E_* */
};

/* A file of code, perf-map or jitdump, as it was at the last look. */
typedef struct CodeFile {
        dev_t device;
        ino_t inode;                    /* 0 = not there */
        bool is_believed;
        uint64_t at;                    /* place where reading goes on */
        uint64_t n_read;
        char last[LAST_BYTES];          /* before that place */
        size_t n_last;
} CodeFile;

/* Room for a worker's answer while it is checked. */
typedef struct CodeWork {
        WorkerSession session;
        CodeAnswer answer;
        CodeState state;
        uint8_t records[CODE_WIRE_MAX_ANSWER];
} CodeWork;

struct CodeSource {
        atomic_uint n_refs;
        pthread_mutex_t mutex;
        CodeIndex *index;               /* under the mutex; NULL = no memory */
        CodeFile map_file, dump_file;   /* the reader's, as all that follows */
        PerfMap map;
        Jitdump dump;
        ListedCode listed;              /* what it holds: under the mutex */
        CodeLook *look;                 /* while one is under way */
        Zygotes *zygotes;               /* a reference; NULL = what the files say is read here */
        CodeWork *work;                 /* during a look that has something to read, by a worker */
        uint64_t end_ns;                /* of a look: beyond that no worker is waited for */
        int root_fd;                    /* during a look, and behind it where that is wanted; -1 = none */
        uint64_t own_pid;               /* as the last look of the living found them */
        uint32_t uid;
        char piece[CODE_WIRE_PIECE];
};

int code_source_new(CodeSource **sourcep, const CodeIndexLimits *limits, Zygotes *zygotes) {
        CodeSource *source = calloc(1, sizeof(*source));
        int r;

        if (!source)
                return error_origin(-ENOMEM);
        r = code_index_new(&source->index, limits);
        if (r) {
                free(source);
                return error_fold(r);
        }
        pthread_mutex_init(&source->mutex, NULL);
        source->zygotes = zygotes ? zygotes_ref(zygotes) : NULL;
        source->n_refs = 1;
        source->root_fd = -1;
        *sourcep = source;
        return 0;
}

static void close_root(CodeSource *source) {
        if (source->root_fd >= 0)
                close(source->root_fd);
        source->root_fd = -1;
}

CodeSource *code_source_ref(CodeSource *source) {
        atomic_fetch_add(&source->n_refs, 1);
        return source;
}

CodeSource *code_source_unref(CodeSource *source) {
        if (!source || atomic_fetch_sub(&source->n_refs, 1) > 1)
                return NULL;
        code_index_free(source->index);
        jitdump_deinit(&source->dump);
        listed_code_deinit(&source->listed);
        close_root(source);
        zygotes_unref(source->zygotes);
        pthread_mutex_destroy(&source->mutex);
        free(source);
        return NULL;
}

/* ---- which file ---- */

bool code_is_dump_path(const char *path, uint64_t *numberp) {
        const char *base = strrchr(path, '/'), *dot;
        char digits[24];
        size_t n;

        base = base ? base + 1 : path;
        dot = strchr(base, '.');
        if (strncmp(base, "jit-", 4) || !dot || strcmp(dot, ".dump"))
                return false;
        n = (size_t)(dot - base - 4);
        if (n >= sizeof(digits))
                return false;
        memcpy(digits, base + 4, n);
        digits[n] = 0;
        return !text_u64(digits, UINT32_MAX, numberp);
}

/* `NSpid:` from ours to the innermost; without namespaces in the kernel there is none, and `Pid:` is it. */
int code_parse_own_pid(const char *text, uint64_t *pidp) {
        const char *line = strstr(text, "\nNSpid:\t"), *end, *last;
        char digits[24];

        line = line ?: strstr(text, "\nPid:\t");
        if (!line)
                return 1;
        line++;
        end = line + strcspn(line, "\n");
        last = memrchr(line, '\t', (size_t)(end - line));
        if (!last || (size_t)(end - last) > sizeof(digits))
                return 1;
        memcpy(digits, last + 1, (size_t)(end - last - 1));
        digits[end - last - 1] = 0;
        return text_u64(digits, UINT32_MAX, pidp);
}

/* Links within the target's own root may lead anywhere in it; the file itself must be none. */
static int open_in_root(const CodeSource *source, const char *path) {
        struct open_how how = { .flags = O_PATH | O_CLOEXEC | O_NOFOLLOW,
                                .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS };

        return source->root_fd < 0 ? -1 : (int)syscall(SYS_openat2, source->root_fd, path, &how, sizeof(how));
}

/* @proc_fd: -1 = the process has ended. */
static int open_mapped(const CodeSource *source, int proc_fd, const CodePlace *place) {
        char name[64];
        int fd;

        snprintf(name, sizeof(name), "map_files/%lx-%lx", (unsigned long)place->dump_start,
                 (unsigned long)place->dump_end);
        fd = proc_fd < 0 ? -1 : openat(proc_fd, name, O_PATH | O_CLOEXEC);
        return fd < 0 ? open_in_root(source, place->dump_path) : fd;
}

/*
 * Whether the file was left by an earlier process with this number: it was not written since this one began.
 */
static bool is_older(const struct statx *stx, uint64_t start_time_ns) {
        uint64_t written_ns = (uint64_t)stx->stx_mtime.tv_sec * NS_PER_SEC + stx->stx_mtime.tv_nsec;
        uint64_t ago_ns = clock_read_ns(CLOCK_BOOTTIME) - start_time_ns;

        return start_time_ns && written_ns + SLACK_NS < clock_read_ns(CLOCK_REALTIME) - ago_ns;
}

static bool is_believed(const struct statx *stx, uint32_t uid, uint64_t start_time_ns) {
        return S_ISREG(stx->stx_mode) && (stx->stx_uid == uid || stx->stx_uid == 0) &&
                !(stx->stx_mode & S_IWOTH) && !is_older(stx, start_time_ns);
}

static void begin_anew(CodeFile *file) {
        file->at = 0;
        file->n_last = 0;
}

/* Whether it is another file than at the last look, or another opinion of it. */
static bool take_identity(CodeFile *file, const struct statx *stx, bool believed) {
        dev_t device = makedev(stx->stx_dev_major, stx->stx_dev_minor);

        if (file->inode == stx->stx_ino && file->device == device && file->is_believed == believed)
                return false;
        *file = (CodeFile){ .device = device, .inode = stx->stx_ino, .is_believed = believed };
        return true;
}

/*
 * Looks at the file behind @path_fd, -1 = there is none. Return: a descriptor to read it by, or -1; *is_newp:
 * and it was not there at the last look.
 */
static int open_believed(CodeFile *file, int path_fd, uint32_t uid, uint64_t start_time_ns, CodeLook *look,
                         bool *is_newp) {
        struct statx stx;
        int fd;

        *is_newp = false;
        if (path_fd < 0 || statx(path_fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_BASIC_STATS, &stx)) {
                file->inode = 0;
                return -1;
        }
        *is_newp = take_identity(file, &stx, is_believed(&stx, uid, start_time_ns));
        if (!file->is_believed) {
                look->n_refused += *is_newp;
                return -1;
        }
        fd = file_open_seen(path_fd);
        if (fd < 0)
                look->n_unreadable += *is_newp;
        else
                look->n_opened += *is_newp;
        look->has_file = look->has_file || fd >= 0;
        return fd;
}

/* ---- reading ---- */

/* Whether what was read until now is still there. */
static bool goes_on(const CodeFile *file, int fd) {
        char last[LAST_BYTES];

        return file_pread(fd, last, file->n_last, file->at - file->n_last) == (ssize_t)file->n_last &&
               !memcmp(last, file->last, file->n_last);
}

static void remember_last(CodeFile *file, const char *piece, size_t size) {
        file->n_last = MIN(size, (size_t)LAST_BYTES);
        memcpy(file->last, piece + size - file->n_last, file->n_last);
}

static int take_range(void *userdata, const CodeRange *range) {
        CodeSource *source = userdata;
        uint64_t n_dropped = code_index_n_dropped(source->index);
        int r = code_index_add(source->index, range);

        source->look->n_taken += !r;
        source->look->n_over_cap += (r > 0) + code_index_n_dropped(source->index) - n_dropped;
        return r < 0 ? r : 0;
}

/* ---- pieces that are read here ---- */

static int feed(CodeSource *source, CodeForm form, size_t size, uint64_t *skipp) {
        uint64_t *malformedp = form == CODE_FORM_MAP ? &source->map.n_malformed : &source->dump.n_malformed,
                 before = *malformedp;
        int r;

        if (form == CODE_FORM_MAP) {
                r = perf_map_feed(&source->map, source->piece, size, take_range, source);
        } else {
                r = jitdump_feed(&source->dump, source->piece, size, take_range, source);
                *skipp = jitdump_skip(&source->dump.reader);
        }
        source->look->n_malformed += *malformedp - before;
        return r;
}

/* ---- pieces that a worker reads ---- */

static void *state_of(CodeSource *source, CodeForm form) {
        return form == CODE_FORM_MAP ? (void *)&source->map : &source->dump.reader;
}

/* Return: 0 = its answer is there and sound, WORKER_SESSION_E_*. */
static int ask(CodeSource *source, CodeForm form, size_t size) {
        const CodeRequest request = { .magic = CODE_WIRE_MAGIC, .form = form, .size = (uint32_t)size };
        size_t state_size = code_wire_state_size(form);
        CodeWork *work = source->work;
        WorkerSession *session = &work->session;
        int r = worker_session_request(session, &code_question, &request, -1);

        r = r ?: worker_session_send(session, state_of(source, form), state_size, -1);
        r = r ?: worker_session_send(session, source->piece, size, -1);
        r = r ?: worker_session_hear(session, &code_question, &request, &work->answer);
        r = r ?: worker_session_receive(session, &work->state, state_size);
        r = r ?: worker_session_receive(session, work->records, work->answer.size);
        return r ?: worker_session_judge(session,
                                         code_wire_check_records(work->records, work->answer.size,
                                                                 work->answer.n_records, form));
}

static int take_line(void *userdata, const CodeRecord *record) {
        return take_range(userdata, &record->range);
}

static int take_record(void *userdata, const CodeRecord *record) {
        CodeSource *source = userdata;

        return jitdump_resolve(&source->dump.codes, record, take_range, source);
}

/* Takes an answer. The state is replaced only now: a worker that dies leaves everything as it was. */
static int take_answer(CodeSource *source, CodeForm form, uint64_t *skipp) {
        uint64_t n_unknown = source->dump.codes.n_unknown;
        CodeWork *work = source->work;
        int r;

        memcpy(state_of(source, form), &work->state, code_wire_state_size(form));
        r = code_wire_records(work->records, work->answer.size,
                              form == CODE_FORM_MAP ? take_line : take_record, source);
        source->look->n_malformed += work->answer.n_malformed + source->dump.codes.n_unknown - n_unknown;
        *skipp = work->answer.skip;
        return r ? r : work->answer.result;
}

/* Return: 0, READ_E_FAILED, -ENOMEM. */
static int send_out(CodeSource *source, CodeForm form, size_t size) {
        int r = WORKER_SESSION_E_DIED;

        if (!source->work) {
                source->work = calloc(1, sizeof(*source->work));
                if (!source->work)
                        return error_origin(-ENOMEM);
                source->work->session =
                        worker_session_make(source->zygotes, &code_question, &source->look->workers);
                source->work->session.end_ns = source->end_ns;
        }
        for (unsigned i = 0; i < code_question.n_tries && r == WORKER_SESSION_E_DIED; i++)
                r = ask(source, form, size);
        return r ? READ_E_FAILED : 0;
}

static void end_work(CodeSource *source) {
        if (!source->work)
                return;
        worker_session_end(&source->work->session);
        free(source->work);
        source->work = NULL;
}

/* ---- pieces ---- */

static int take_piece(CodeSource *source, CodeForm form, size_t size, uint64_t *skipp) {
        int r = source->zygotes ? send_out(source, form, size) : 0;

        if (r)
                return r;
        pthread_mutex_lock(&source->mutex);
        r = !source->index        ? 1
                : source->zygotes ? take_answer(source, form, skipp)
                                  : feed(source, form, size, skipp);
        pthread_mutex_unlock(&source->mutex);
        return r;
}

/*
 * Reads from the last place to the end, or as much as one look takes. Return: 0, JITDUMP_E_*, READ_E_FAILED,
 * -ENOMEM.
 */
static int read_on(CodeSource *source, CodeFile *file, int fd, CodeForm form) {
        size_t done = 0;

        while (done < LOOK_BYTES) {
                uint64_t skip = 0;
                ssize_t n;
                int r;

                /* rewritten meanwhile: the next look begins at its start */
                if (done && !goes_on(file, fd))
                        return 0;
                if (file->n_read >= FILE_BYTES) {
                        source->look->n_over_cap++;
                        return 1;
                }
                n = file_pread(fd, source->piece, sizeof(source->piece), file->at);
                if (n <= 0)
                        return 0;
                r = take_piece(source, form, (size_t)n, &skip);
                if (r == READ_E_FAILED) {
                        source->look->n_failed++;
                        return r;
                }
                remember_last(file, source->piece, (size_t)n);
                file->at += (uint64_t)n + skip;
                if (skip)
                        /* the last bytes lie elsewhere; the next piece brings new ones */
                        file->n_last = 0;
                file->n_read += (uint64_t)n;
                done += (size_t)n;
                source->look->is_changed = true;
                if (r)
                        return r;
        }
        source->look->has_more = true;
        return 0;
}

static void fail(CodeSource *source) {
        pthread_mutex_lock(&source->mutex);
        source->index = code_index_free(source->index);
        pthread_mutex_unlock(&source->mutex);
        source->look->failed = true;
}

static void look_at_map(CodeSource *source, const CodePlace *place) {
        _cleanup_(closep) int path_fd = -1, fd = -1;
        char path[64];
        bool is_new;

        snprintf(path, sizeof(path), "tmp/perf-%lu.map", (unsigned long)source->own_pid);
        path_fd = open_in_root(source, path);
        fd = open_believed(&source->map_file, path_fd, source->uid, place->start_time_ns, source->look,
                           &is_new);
        if (fd < 0)
                return;
        if (is_new || !goes_on(&source->map_file, fd)) {
                begin_anew(&source->map_file);
                perf_map_restart(&source->map);
        }
        if (read_on(source, &source->map_file, fd, CODE_FORM_MAP) < 0)
                fail(source);
}

static void look_at_dump(CodeSource *source, int proc_fd, const CodePlace *place) {
        _cleanup_(closep) int path_fd = -1, fd = -1;
        uint64_t number;
        bool is_new;

        if (!place->dump_end || !code_is_dump_path(place->dump_path, &number) || number != source->own_pid)
                return;
        path_fd = open_mapped(source, proc_fd, place);
        fd = open_believed(&source->dump_file, path_fd, source->uid, place->start_time_ns, source->look,
                           &is_new);
        if (fd < 0)
                return;
        if (is_new || !goes_on(&source->dump_file, fd)) {
                begin_anew(&source->dump_file);
                jitdump_deinit(&source->dump);
        }
        if (read_on(source, &source->dump_file, fd, CODE_FORM_DUMP) < 0)
                fail(source);
}

/* What cannot be read now, or was just being changed, is at the next look. */
static void look_at_lists(CodeSource *source, int proc_fd, CodePlace *place) {
        CodeLook *look = source->look;
        WorkerSession worker = worker_session_make(source->zygotes, &gdb_wire_question, &look->workers);
        ListedResult result;
        int r;

        worker.end_ns = source->end_ns;
        if (place->files.n)
                listed_code_set_files(&source->listed, &place->files);
        r = listed_code_look(&source->listed, proc_fd, place->pid, place->start_time_ns,
                             source->zygotes ? &worker : NULL, &result);
        worker_session_end(&worker);
        look->n_failed += result.n_failed;
        look->made = result.made;
        look->is_torn = result.has_frames && !result.made;
        look->has_frames = result.has_frames;
        look->refuses_frames = result.refuses_frames;
        look->first_id = result.first_id;
        look->first = result.first;
        if (r < 0)
                fail(source);
        if (r <= 0)
                return;
        look->has_file = look->has_file || result.n_lists;
        pthread_mutex_lock(&source->mutex);
        if (listed_code_take(&source->listed, &result.look)) {
                look->is_changed = true;
                look->n_taken += result.n_functions;
                look->n_malformed += result.n_malformed;
                look->n_over_cap += result.n_over_cap;
        }
        pthread_mutex_unlock(&source->mutex);
}

static int read_owner(int proc_fd, uint64_t *own_pidp, uint32_t *uidp) {
        _cleanup_(freep) char *text = NULL;
        size_t size;

        return file_read_at(proc_fd, "status", STATUS_MAX, &text, &size) ||
                identity_parse_status(text, uidp) || code_parse_own_pid(text, own_pidp);
}

/* Whether its number is another process' by now, which may have written files under it. */
static bool is_taken(const CodePlace *place) {
        char comm[ABI_COMM_SIZE];
        ProcessStat stat;

        return !process_identify(place->pid, &stat, comm) && stat.start_time_ns != place->start_time_ns;
}

/*
 * The root of the living, or the one that was kept of one that has ended. Return: whether there is one;
 * *proc_fdp: -1 of one that has ended.
 */
static bool find_root(CodeSource *source, const CodePlace *place, int *proc_fdp) {
        int root;

        if (process_open_living(place->pid, place->start_time_ns, proc_fdp, NULL) ||
            read_owner(*proc_fdp, &source->own_pid, &source->uid))
                return source->root_fd >= 0 && !is_taken(place);
        root = openat(*proc_fdp, "root", O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (root >= 0) {
                close_root(source);
                source->root_fd = root;
        }
        return source->root_fd >= 0;
}

void code_source_look(CodeSource *source, CodePlace *place, CodeLook *look) {
        _cleanup_(closep) int proc_fd = -1;

        *look = (CodeLook){ 0 };
        source->look = look;
        source->end_ns = clock_monotonic_ns() + code_question.timeout_ns;
        if (find_root(source, place, &proc_fd)) {
                look_at_map(source, place);
                if (!look->failed)
                        look_at_dump(source, proc_fd, place);
                if (!look->failed && proc_fd >= 0)
                        look_at_lists(source, proc_fd, place);
        }
        if (!place->keep_root)
                close_root(source);
        end_work(source);
        look->memory = sizeof(*source) + (source->index ? code_index_memory(source->index) : 0) +
                listed_code_memory(&source->listed);
        source->look = NULL;
}

/* ---- asking ---- */

int code_source_find(CodeSource *source, uint64_t address, uint64_t time_ns, char *name, size_t *sizep,
                     uint64_t *startp, bool *is_pastp) {
        const char *found;
        size_t size;

        if (pthread_mutex_trylock(&source->mutex))
                return CODE_SOURCE_E_BUSY;
        found = listed_code_find(&source->listed, address, time_ns, &size, startp, is_pastp);
        if (!found && source->index)
                found = code_index_find(source->index, address, time_ns, &size, startp, is_pastp);
        if (found) {
                memcpy(name, found, size);
                *sizep = size;
        }
        pthread_mutex_unlock(&source->mutex);
        return found ? 0 : CODE_SOURCE_E_NONE;
}
