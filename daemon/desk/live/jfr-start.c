/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The socket by which tools of the JDK (jcmd) talk to a JVM lies in the /tmp that the JVM sees. A JVM makes
 * it when a file .attach_pidN is there and SIGQUIT comes. Without that file the signal makes it print its
 * threads, and where the JVM does not catch it, it ends the process: then none is sent.
 *
 *     an open chunk (host/jfr/jfr-find.c)             ─▶ it records already: nothing is asked
 *     touch /tmp/.attach_pid7, SIGQUIT ─▶ /tmp/.java_pid7 is listened at
 *     "1\0" "jcmd\0" "JFR.check\0" "\0" "\0"          ─▶ "0\n" text     something is recorded: that is all
 *     "1\0" "jcmd\0" "JFR.start name=…\0" "\0" "\0"   ─▶ "0\n" text
 *
 * For each JVM a child does this, before the session has its filter of system calls. It goes into the mounts
 * and the root of the JVM, becomes its user and drops all capabilities, also where that user is root. So no
 * path that is not the JVM's can be reached by links in its /tmp, and it may do no more there than that user
 * without capabilities. It waits for a byte, or for the end of this program, stops the recording and ends.
 * What it reads has a cap and a time.
 *
 * A JVM may take JFR.start long after it was sent, and commands are taken in turn. So JFR.stop follows it in
 * any case, also where no answer came, or half of one (JDK 25 sends `0\n` ahead): no child is killed that may
 * have sent it.
 */
#include "desk/live/jfr-start.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <inttypes.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/file/file.h"
#include "core/base/sandbox/rights.h"
#include "core/base/util/clock.h"
#include "core/base/util/error.h"
#include "core/base/util/log.h"
#include "core/base/util/text.h"
#include "host/jfr/jfr-find.h"
#include "host/sampling/context/adopt.h"
#include "host/sampling/process/identity.h"

enum {
        MAX_TEXT = 400,
        MAX_ANSWER = 4096,
        MAX_TEXTS = 256 << 10,          /* bytes of arguments, and of an environment */
        MAX_MAPS = 8 << 20,
        ATTACH_MS = 10000,              /* for a JVM to make its socket, */
        ANSWER_MS = 10000,              /* … to answer, */
        CHILD_MS = 25000,               /* … and for a child */
        STEP_MS = 20,
};

/* Words of a child: of the start, and of the stop. */
typedef struct Said {
        int32_t is_bad, is_no_jvm;
        char text[MAX_TEXT];
} Said;

typedef struct Child {
        pid_t pid;
        int socket;                     /* -1 = it is done with */
        uint32_t target;
} Child;

struct JfrStart {
        size_t n;
        Child children[];
};

/* The JVM, as its child sees it. */
typedef struct Target {
        pid_t pid, inner_pid;           /* by our ids, and by its own */
        int pidfd;
        uid_t uid;
        gid_t gid;
        bool catches_quit;
} Target;

/* ---- pure ---- */

const char *jfr_start_answer(const char *data, size_t size) {
        const char *end = memchr(data, '\n', size);

        return end && end == data + 1 && *data == '0' ? end + 1 : NULL;
}

/* An argument, or a variable that a JVM takes arguments from. */
static bool disables(const char *text) {
        static const char *const names[] = { "JAVA_TOOL_OPTIONS=", "JDK_JAVA_OPTIONS=", "_JAVA_OPTIONS=" };
        static const char word[] = "-XX:+DisableAttachMechanism";
        bool is_read = false;

        for (size_t i = 0; i < ARRAY_SIZE(names); i++)
                is_read |= !strncmp(text, names[i], strlen(names[i]));
        return is_read ? strstr(text, word) != NULL : !strcmp(text, word);
}

int jfr_start_is_disabled(const char *texts, size_t size) {
        for (size_t at = 0; at < size; at += strlen(texts + at) + 1)
                if (disables(texts + at))
                        return 1;
        return 0;
}

/* ---- who it is ---- */

_printf_(2, 3) static bool refuse(Said *said, const char *format, ...) {
        va_list arguments;

        said->is_bad = 1;
        va_start(arguments, format);
        vsnprintf(said->text, sizeof(said->text), format, arguments);
        va_end(arguments);
        return false;
}

/* The number at @place of a line of /proc/PID/status. */
static bool read_field(const char *status, const char *name, int place, int base, uint64_t *valuep) {
        const char *at = strstr(status, name);
        char *end;

        if (!at)
                return false;
        at += strlen(name);
        for (int i = 0; i <= place; i++, at = end) {
                *valuep = strtoull(at, &end, base);
                if (end == at)
                        return false;
        }
        return true;
}

/* A file of its /proc directory; NULL = it cannot be read, or is larger than @max. */
static char *read_of(pid_t pid, const char *name, size_t max, size_t *sizep) {
        char path[64], *data = NULL;

        snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
        return file_read(path, max, &data, sizep) ? NULL : data;
}

static bool has_libjvm(pid_t pid) {
        size_t size;
        _cleanup_(freep) char *maps = read_of(pid, "maps", MAX_MAPS, &size);

        return maps && strstr(maps, "/libjvm.so");
}

static bool is_disabled(pid_t pid) {
        static const char *const names[] = { "cmdline", "environ" };
        bool is = false;

        for (size_t i = 0; !is && i < ARRAY_SIZE(names); i++) {
                size_t size;
                _cleanup_(freep) char *texts = read_of(pid, names[i], MAX_TEXTS, &size);

                is = texts && jfr_start_is_disabled(texts, size);
        }
        return is;
}

/* Return: whether it is to be asked. */
static bool read_target(Target *target, Said *said) {
        _cleanup_(freep) char *status = NULL;
        uint64_t gid, caught;
        uint32_t uid, inner;
        size_t size;

        /* before all else: what is read is of this process, or the signal goes nowhere */
        target->pidfd = (int)syscall(SYS_pidfd_open, target->pid, 0);
        if (target->pidfd >= 0)
                status = read_of(target->pid, "status", MAX_TEXTS, &size);
        if (!status)
                return refuse(said, "there is no such process");
        if (identity_parse_status(status, &uid) || adopt_parse_status(status, &inner) ||
            !read_field(status, "\nGid:", 1, 10, &gid) || !read_field(status, "\nSigCgt:", 0, 16, &caught))
                return refuse(said, "its status cannot be read");
        target->uid = uid;
        target->gid = (gid_t)gid;
        target->inner_pid = (pid_t)inner;
        target->catches_quit = caught >> (SIGQUIT - 1) & 1;
        if (jfr_find_is_recording(target->pid)) {
                snprintf(said->text, sizeof(said->text),
                         "it records already: that is read, and nothing is started");
                return false;
        }
        said->is_no_jvm = 1;
        if (!has_libjvm(target->pid))
                return refuse(said, "it is no JVM: no libjvm.so is mapped in it, or we may not see that");
        said->is_no_jvm = 0;
        if (is_disabled(target->pid))
                return refuse(said, "its attach socket is switched off (-XX:+DisableAttachMechanism)");
        return true;
}

/* ---- becoming it ---- */

static bool is_same_mount(pid_t pid) {
        struct stat ours, theirs;
        char path[64];

        snprintf(path, sizeof(path), "/proc/%d/ns/mnt", (int)pid);
        return !stat("/proc/self/ns/mnt", &ours) && !stat(path, &theirs) && ours.st_ino == theirs.st_ino &&
                ours.st_dev == theirs.st_dev;
}

static bool enter_root(pid_t pid, Said *said) {
        _cleanup_(closep) int mounts = -1, root = -1;
        char path[64];

        snprintf(path, sizeof(path), "/proc/%d/root", (int)pid);
        root = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (root < 0)
                return refuse(said, "its root directory cannot be opened: %s", strerror(errno));
        snprintf(path, sizeof(path), "/proc/%d/ns/mnt", (int)pid);
        if (!is_same_mount(pid)) {
                mounts = open(path, O_RDONLY | O_CLOEXEC);
                if (mounts < 0 || setns(mounts, CLONE_NEWNS) < 0)
                        return refuse(said, "its mounts cannot be entered: %s", strerror(errno));
        }
        if (geteuid() && is_same_mount(pid))
                return true;    /* a process of our own: we see what it sees */
        if (fchdir(root) < 0 || chroot(".") < 0 || chdir("/") < 0)
                return refuse(said, "its root directory cannot be entered: %s", strerror(errno));
        return true;
}

/* Root too has no capability behind it. And its memory, a copy of ours, is not for others of that user. */
static bool become(const Target *target, Said *said) {
        int r;

        if (!enter_root(target->pid, said))
                return false;
        if ((!geteuid() || geteuid() != target->uid) &&
            (setgroups(0, NULL) < 0 || setresgid(target->gid, target->gid, target->gid) < 0 ||
             setresuid(target->uid, target->uid, target->uid) < 0))
                return refuse(said, "its user cannot be taken on: %s", strerror(errno));
        prctl(PR_SET_PDEATHSIG, 0, 0, 0, 0);
        prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
        r = rights_drop(NULL, 0);
        return r ? refuse(said, "our rights cannot be given up: %s", strerror(-r)) : true;
}

/* ---- the socket ---- */

static int connect_to(const Target *target) {
        const struct timeval limit = { .tv_sec = ANSWER_MS / 1000 };
        struct sockaddr_un address = { .sun_family = AF_UNIX };
        _cleanup_(closep) int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

        snprintf(address.sun_path, sizeof(address.sun_path), "/tmp/.java_pid%d", (int)target->inner_pid);
        if (fd < 0)
                return -errno;
        setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
        setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
        if (connect(fd, (const struct sockaddr *)&address, sizeof(address)) < 0)
                return -errno;
        return take_fd(fd);
}

/* A file that the JVM takes for one: of a tool that asks as well, or was killed. */
static bool is_asked_already(const char *path) {
        struct stat st;

        return !lstat(path, &st) && S_ISREG(st.st_mode) && (!st.st_uid || st.st_uid == geteuid());
}

/* Has the JVM make its socket, and connects. Return: the socket; -errno. */
static int wake_and_connect(const Target *target) {
        uint64_t end_ns = clock_monotonic_ns() + ATTACH_MS * NS_PER_MS;
        char path[64];
        int fd, r = -ETIMEDOUT;
        bool is_made;

        snprintf(path, sizeof(path), "/tmp/.attach_pid%d", (int)target->inner_pid);
        fd = open(path, O_CREAT | O_EXCL | O_WRONLY | O_NOFOLLOW | O_CLOEXEC, 0600);
        is_made = fd >= 0;
        if (!is_made && (errno != EEXIST || !is_asked_already(path)))
                return -errno;
        closep(&fd);
        if (syscall(SYS_pidfd_send_signal, target->pidfd, SIGQUIT, NULL, 0) < 0)
                r = -errno;
        while (r == -ETIMEDOUT && clock_monotonic_ns() < end_ns) {
                poll(NULL, 0, STEP_MS);
                fd = connect_to(target);
                if (fd >= 0)
                        r = fd;
        }
        if (is_made)
                unlink(path);
        return r;
}

/* Sends one command of jcmd. Return: the text of the answer, NULL with what is wrong in said. */
static const char *ask(int fd, const char *command, char answer[MAX_ANSWER], Said *said) {
        uint64_t end_ns = clock_monotonic_ns() + ANSWER_MS * NS_PER_MS;
        char request[1024];
        const char *text;
        ssize_t n = 0;
        size_t size = 0;
        int length = snprintf(request, sizeof(request), "1%cjcmd%c%s%c%c", 0, 0, command, 0, 0) + 1;

        if (send(fd, request, (size_t)length, MSG_NOSIGNAL) != length) {
                refuse(said, "its attach socket takes nothing: %s", strerror(errno));
                return NULL;
        }
        while (size < MAX_ANSWER - 1 && clock_monotonic_ns() < end_ns &&
               (n = read(fd, answer + size, MAX_ANSWER - 1 - size)) > 0)
                size += (size_t)n;
        answer[size] = 0;
        text = jfr_start_answer(answer, size);
        if (!text)
                refuse(said, size ? "it answers: %.200s" : "it does not answer at its attach socket", answer);
        return text;
}

/* A connection takes one command. */
static const char *ask_anew(const Target *target, const char *command, char answer[MAX_ANSWER], Said *said) {
        _cleanup_(closep) int fd = connect_to(target);

        if (fd < 0) {
                refuse(said, "its attach socket cannot be reached: %s", strerror(-fd));
                return NULL;
        }
        return ask(fd, command, answer, said);
}

/* The first command; a JVM that has not been asked before makes its socket. */
static const char *ask_first(const Target *target, char answer[MAX_ANSWER], Said *said) {
        _cleanup_(closep) int fd = connect_to(target);

        if (fd < 0 && !target->catches_quit) {
                refuse(said, "it does not take SIGQUIT, by which it is asked for its attach socket");
                return NULL;
        }
        if (fd < 0)
                fd = wake_and_connect(target);
        if (fd < 0) {
                refuse(said, "its attach socket did not come: %s", strerror(-fd));
                return NULL;
        }
        return ask(fd, "JFR.check", answer, said);
}

/* ---- the child ---- */

/* Return: whether there may be something to stop, also where said->is_bad. */
static bool start(const Target *target, pid_t parent, Said *said) {
        char answer[MAX_ANSWER], command[512];
        const char *text = ask_first(target, answer, said);

        if (!text)
                return false;
        if (!*text)
                return refuse(said, "it does not answer at its attach socket");
        if (!strstr(text, "No available recordings")) {
                snprintf(said->text, sizeof(said->text),
                         "it records already, but we see no file of it: nothing is started");
                return false;
        }
        snprintf(command, sizeof(command),
                 "JFR.start name=spanprof-%d settings=none maxsize=64m +jdk.ObjectAllocationSample#enabled=true "
                 "+jdk.ObjectAllocationSample#throttle=150/s +jdk.ObjectAllocationSample#stackTrace=true",
                 (int)parent);
        text = ask_anew(target, command, answer, said);
        if (text && !strstr(text, "Started recording"))
                refuse(said, "it starts no recording (JDK 17 and newer do): %.200s", text);
        else if (text)
                snprintf(said->text, sizeof(said->text),
                         "a recording of allocations is started, and stopped at the end");
        return true;
}

static void stop(const Target *target, pid_t parent, Said *said) {
        char answer[MAX_ANSWER], command[64];
        const char *text;

        snprintf(command, sizeof(command), "JFR.stop name=spanprof-%d", (int)parent);
        text = ask_anew(target, command, answer, said);
        if (text && !strstr(text, "Stopped recording"))
                refuse(said, "its recording is not stopped: %.200s", text);
}

static void say(int fd, const Said *said) {
        (void)!send(fd, said, sizeof(*said), MSG_NOSIGNAL);
}

static _Noreturn void run_child(int fd, uint32_t pid, pid_t parent) {
        static const int ignored[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGPIPE };
        Target target = { .pid = (pid_t)pid };
        Said said = { 0 };
        bool has_asked;
        char byte;

        for (size_t i = 0; i < ARRAY_SIZE(ignored); i++)
                signal(ignored[i], SIG_IGN);
        /* a file of a target may never answer; behind become() each step has its time */
        prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
        has_asked = read_target(&target, &said) && become(&target, &said) && start(&target, parent, &said);
        say(fd, &said);
        if (!has_asked)
                _exit(0);
        while (!said.is_bad && read(fd, &byte, 1) < 0 && errno == EINTR)
                continue;
        said = (Said){ 0 };
        stop(&target, parent, &said);
        say(fd, &said);
        _exit(0);
}

/* ---- the parent ---- */

static int fork_child(Child *child, uint32_t pid) {
        pid_t parent = getpid();
        int pair[2], r;

        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
                return error_origin(-errno);
        *child = (Child){ .pid = fork(), .socket = pair[0], .target = pid };
        if (!child->pid) {
                /* all others of ours: a child that held a pipe of the session would hold up its end */
                if (dup2(pair[1], 3) < 0 || close_range(4, ~0U, 0) < 0)
                        _exit(1);
                run_child(3, pid, parent);
        }
        r = child->pid < 0 ? -errno : 0;
        close(pair[1]);
        if (!r)
                return 0;
        close(take_fd(child->socket));
        return error_origin(r);
}

/* Return: whether it was said in time. */
static bool hear(const Child *child, Said *said) {
        struct pollfd ready = { .fd = child->socket, .events = POLLIN };
        bool heard;

        heard = poll(&ready, 1, CHILD_MS) > 0 && read(child->socket, said, sizeof(*said)) == sizeof(*said);
        if (!heard)
                refuse(said, "it did not answer in time");
        said->text[MAX_TEXT - 1] = 0;
        said->text[strcspn(said->text, "\n")] = 0;
        text_mask(said->text);
        return heard;
}

/* Without its socket it ends by itself, when it has stopped what it may have started. */
static void end_child(Child *child, bool waits) {
        if (child->socket < 0)
                return;
        close(take_fd(child->socket));
        if (waits)
                waitpid(child->pid, NULL, 0);
}

static void stop_child(Child *child) {
        Said said;
        bool heard;

        if (child->socket < 0 || send(child->socket, "s", 1, MSG_NOSIGNAL) != 1) {
                end_child(child, true);
                return;
        }
        heard = hear(child, &said);
        if (said.is_bad)
                log_warning("process %" PRIu32 ": %s", child->target, said.text);
        end_child(child, heard);
}

/* Return: 0, JFR_START_E_*, -errno. */
static int start_child(Child *child, uint32_t pid, bool is_alone) {
        int r = fork_child(child, pid);
        Said said;

        if (r)
                return r;
        if (hear(child, &said) && said.is_no_jvm && !is_alone) {
                log_warning("--jfr: process %" PRIu32 ": %s", pid, said.text);
                end_child(child, true);
                return JFR_START_E_NONE;
        }
        if (said.is_bad)
                log_error("--jfr: process %" PRIu32 ": %s", pid, said.text);
        else
                log_notice("process %" PRIu32 ": %s", pid, said.text);
        if (said.is_bad)
                end_child(child, false);
        return said.is_bad ? JFR_START_E_REFUSED : 0;
}

int jfr_start_new(JfrStart **startp, const uint32_t *pids, size_t n_pids) {
        _cleanup_(jfr_start_freep) JfrStart *start = NULL;
        size_t n_none = 0;
        int r = 0;

        start = calloc(1, sizeof(*start) + n_pids * sizeof(start->children[0]));
        if (!start)
                return error_origin(-ENOMEM);
        for (size_t i = 0; i < n_pids && !r; i++) {
                start->children[i].socket = -1;
                start->n = i + 1;
                r = start_child(&start->children[i], pids[i], n_pids == 1);
                if (r == JFR_START_E_NONE && ++n_none < n_pids)
                        r = 0;
        }
        if (r)
                return r < 0 ? error_fold(r) : r;
        *startp = take(start);
        return 0;
}

void jfr_start_stop(JfrStart *start) {
        for (size_t i = 0; start && i < start->n; i++)
                stop_child(&start->children[i]);
}

JfrStart *jfr_start_free(JfrStart *start) {
        jfr_start_stop(start);
        free(start);
        return NULL;
}
