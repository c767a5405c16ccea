/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Starts a worker, sends addresses, and reads its answers until the deadline; each answer is checked before
 * it goes to the sink, and an address is answered once.
 */

#include "core/symbol/line/lines.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/data/cursor.h"
#include "core/base/file/file.h"
#include "core/base/util/clock.h"
#include "core/base/util/error.h"
#include "core/base/util/macro.h"

enum {
        PIECE = 64 << 10,
        MAX_ANSWER = sizeof(LinesAnswer) + LINES_MAX_FRAMES * (sizeof(LinesAnswerFrame) + 2 * LINES_MAX_TEXT),
        FILE_FD = 3,                    /* descriptor of the file in the other process */
};

#define DEFAULT_MAX_MEMORY (UINT64_C(1) << 30)

/* Result of one step of reading. */
typedef enum Step {
        STEP_DONE,
        STEP_MORE,                      /* the rest has not come yet */
        STEP_DAMAGED,
        STEP_STOPPED,                   /* by the sink */
        STEP_END,                       /* nothing more will come */
        STEP_LATE,                      /* the deadline is over */
} Step;

typedef struct Worker {
        pid_t pid;                      /* 0 = none */
        int answers;                    /* -1 = none */
        uint64_t deadline_ns;
        uint8_t *buffer, *seen;
        size_t size;                    /* bytes in the buffer */
        uint32_t n_addresses;
        LinesSink sink;
        void *userdata;
} Worker;

static Step parse_frames(Cursor *cursor, LineFrame *frames, uint32_t n) {
        for (uint32_t i = 0; i < n; i++) {
                LinesAnswerFrame frame;

                if (!cursor_copy(cursor, &frame, sizeof(frame)))
                        return STEP_MORE;
                if (frame.n_name > LINES_MAX_TEXT || frame.n_file > LINES_MAX_TEXT)
                        return STEP_DAMAGED;
                frames[i] = (LineFrame){ .line = frame.line, .start_line = frame.start_line,
                                          .n_name = frame.n_name, .n_file = frame.n_file };
                frames[i].name = cursor_take(cursor, frame.n_name);
                frames[i].file = cursor_take(cursor, frame.n_file);
        }
        return cursor->failed ? STEP_MORE : STEP_DONE;
}

static Step parse_one(Cursor *cursor, uint32_t n, uint8_t *seen, LinesSink sink, void *userdata, int *codep) {
        LineFrame frames[LINES_MAX_FRAMES];
        LinesAnswer answer;
        Step step;

        if (!cursor_copy(cursor, &answer, sizeof(answer)))
                return STEP_MORE;
        if (answer.index >= n || seen[answer.index] || answer.n_frames == 0 ||
            answer.n_frames > LINES_MAX_FRAMES)
                return STEP_DAMAGED;
        step = parse_frames(cursor, frames, answer.n_frames);
        if (step != STEP_DONE)
                return step;
        seen[answer.index] = 1;
        *codep = sink(userdata, answer.index, frames, answer.n_frames);
        return *codep ? STEP_STOPPED : STEP_DONE;
}

int lines_parse(const uint8_t *data, size_t size, uint32_t n, uint8_t *seen, LinesSink sink, void *userdata,
                size_t *usedp) {
        Cursor cursor = cursor_make(data, size);
        Step step = STEP_DONE;
        int code = 0;

        *usedp = 0;
        while (step == STEP_DONE) {
                step = parse_one(&cursor, n, seen, sink, userdata, &code);
                if (step == STEP_DONE)
                        *usedp = cursor.at;
        }
        if (step == STEP_STOPPED)
                return code;
        return step == STEP_MORE ? 0 : LINES_E_FAILED;
}

static void limit(int resource, uint64_t value) {
        struct rlimit both = { value, value };

        setrlimit(resource, &both);
}

/*
 * Between fork() and exec(): only what is safe in a signal handler. Descriptors are laid out above the ones
 * that they go to first, so that none is closed by the move of another.
 */
static _Noreturn void become_worker(const LinesOptions *options, int request, int answers, int file) {
        static char *const arguments[] = { (char *)LINES_WORKER_NAME, NULL }, *const environment[] = { NULL };
        const char *program = options && options->program ? options->program : "/proc/self/exe";
        uint32_t timeout_ms = options && options->timeout_ms ? options->timeout_ms : LINES_DEFAULT_TIMEOUT_MS;
        int null = file_open_null(O_RDWR);
        int from[] = { request, answers, null, file };
        bool is_moved = true;

        for (int i = 0; i < (int)ARRAY_SIZE(from); i++)
                from[i] = fcntl(from[i], F_DUPFD_CLOEXEC, (int)ARRAY_SIZE(from));
        for (int i = 0; i < (int)ARRAY_SIZE(from); i++)
                is_moved &= dup2(from[i], i) == i;
        if (!is_moved || syscall(SYS_close_range, FILE_FD + 1, ~0u, 0) < 0)
                _exit(1);
#ifndef IS_SANITIZED                    /* the shadow is terabytes of data, never touched */
        limit(RLIMIT_DATA, options && options->max_memory ? options->max_memory : DEFAULT_MAX_MEMORY);
#endif
        limit(RLIMIT_CPU, options && options->cpu_s ? options->cpu_s : timeout_ms / 1000 + 1);
        limit(RLIMIT_FSIZE, 0);
        limit(RLIMIT_CORE, 0);
        limit(RLIMIT_NOFILE, 64);
        execve(program, arguments, environment);
        /*
         * A process that samples may start no program any more (core/base/sandbox/confine.h). Then this fork
         * reads, in a copy of our memory that it alone has. It needs no lock that another thread may hold.
         */
        _exit(errno == EPERM ? lines_worker() : 1);
}

/* A file in memory: it can be written before it is read. */
static int make_request(const uint64_t *addresses, uint32_t n) {
        LinesRequest request = { .magic = LINES_MAGIC, .n_addresses = n };
        _cleanup_(closep) int fd = memfd_create("lines", MFD_CLOEXEC);

        if (fd < 0 || file_write(fd, &request, sizeof(request)) < 0 ||
            file_write(fd, addresses, n * sizeof(*addresses)) < 0 || lseek(fd, 0, SEEK_SET) < 0)
                return -1;
        return take_fd(fd);
}

static int start(Worker *worker, int fd, const uint64_t *addresses, const LinesOptions *options) {
        _cleanup_(closep) int request = make_request(addresses, worker->n_addresses), writer = -1;
        int ends[2];

        if (request < 0 || pipe2(ends, O_CLOEXEC) < 0)
                return LINES_E_FAILED;
        worker->answers = ends[0];
        writer = ends[1];
        worker->pid = fork();
        if (worker->pid == 0)
                become_worker(options, request, writer, fd);
        if (worker->pid > 0)
                return 0;
        worker->pid = 0;
        return LINES_E_FAILED;
}

/* Waits for @fd until the deadline. Return: whether that is still to come. */
static bool wait_for(const Worker *worker, int fd) {
        struct pollfd poll_fd = { .fd = fd, .events = POLLIN };

        for (;;) {
                uint64_t now_ns = clock_monotonic_ns();

                if (now_ns >= worker->deadline_ns)
                        return false;
                if (poll(&poll_fd, 1, (int)((worker->deadline_ns - now_ns) / NS_PER_MS + 1)) > 0)
                        return true;
        }
}

static Step receive(Worker *worker) {
        ssize_t n;

        if (!wait_for(worker, worker->answers))
                return STEP_LATE;
        do
                n = read(worker->answers, worker->buffer + worker->size, PIECE);
        while (n < 0 && errno == EINTR);
        if (n <= 0)
                return STEP_END;
        worker->size += (size_t)n;
        return STEP_MORE;
}

/* Return: 0 at the end of the answers, LINES_E_*, the sink's code. */
static int follow(Worker *worker) {
        for (;;) {
                Step step = receive(worker);
                size_t used;
                int r;

                if (step != STEP_MORE)
                        return step == STEP_END ? 0 : LINES_E_TIMEOUT;
                r = lines_parse(worker->buffer, worker->size, worker->n_addresses, worker->seen, worker->sink,
                                worker->userdata, &used);
                if (r)
                        return r;
                memmove(worker->buffer, worker->buffer + used, worker->size - used);
                worker->size -= used;
        }
}

/* A worker that was killed at its limit of CPU time ran out of time, as at the deadline. */
static int judge(const Worker *worker, int status) {
        if (WIFSIGNALED(status) && (WTERMSIG(status) == SIGXCPU || WTERMSIG(status) == SIGKILL))
                return LINES_E_TIMEOUT;
        if (!WIFEXITED(status) || worker->size)
                return LINES_E_FAILED;
        switch (WEXITSTATUS(status)) {
        case 0:
                return 0;
        case LINES_EXIT_PARTS:
                return LINES_E_PARTS;
        case LINES_EXIT_ZSTD:
                return LINES_E_ZSTD;
        }
        return LINES_E_FAILED;
}

/* A worker that has closed its answers need not end by itself. */
static int end(Worker *worker, int r) {
        _cleanup_(closep) int process = -1;
        int status = 0;

        if (!worker->pid)
                return r;
        process = (int)syscall(SYS_pidfd_open, worker->pid, 0);
        if (r || process < 0 || !wait_for(worker, process))
                kill(worker->pid, SIGKILL);
        while (waitpid(worker->pid, &status, 0) < 0 && errno == EINTR)
                ;
        return r ? r : judge(worker, status);
}

static void worker_deinit(Worker *worker) {
        closep(&worker->answers);
        free(worker->buffer);
        free(worker->seen);
}

int lines_read(int fd, const uint64_t *addresses, uint32_t n, const LinesOptions *options, LinesSink sink,
               void *userdata) {
        uint32_t timeout_ms = options && options->timeout_ms ? options->timeout_ms : LINES_DEFAULT_TIMEOUT_MS;
        _cleanup_(worker_deinit)
                Worker worker = { .answers = -1, .n_addresses = n, .sink = sink, .userdata = userdata };
        int r;

        if (n == 0 || n > LINES_MAX_ADDRESSES)
                return n ? LINES_E_FAILED : 0;
        worker.deadline_ns = clock_monotonic_ns() + timeout_ms * NS_PER_MS;
        worker.buffer = malloc(MAX_ANSWER + PIECE);
        worker.seen = calloc(1, n);
        r = worker.buffer && worker.seen ? start(&worker, fd, addresses, options) : error_origin(-ENOMEM);
        if (!r)
                r = follow(&worker);
        r = end(&worker, r);
        return r < 0 ? error_fold(r) : r;
}
