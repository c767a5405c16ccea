/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tries what the sandbox of the service has to refuse, one attempt a line: `NAME RESULT`, where RESULT is
 * `done`, or the name of the error or signal. It runs as the main process of a unit with all other lines of
 * spanprof.service (test-installed.py), so it has the same user, capabilities, system calls and files as the
 * daemon.
 *
 *      sandbox-attempts DIRECTORY
 *
 * DIRECTORY: a folder outside of the sandbox that belongs to its user, with a copy of this program that is
 * root's and has the set-user-ID bit. The test makes files `attempt` in /root, /tmp, /dev and /usr/lib/modules.
 * Without an argument: fails unless it is root.
 */

#include <errno.h>
#include <fcntl.h>
#include <linux/keyctl.h>
#include <pwd.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/reboot.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *directory;

static const char *in_directory(const char *name) {
        static char path[4096];

        snprintf(path, sizeof(path), "%s/%s", directory, name);
        return path;
}

static int make_file(const char *path) {
        int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);

        if (fd < 0)
                return -1;
        close(fd);
        return 0;
}

static int open_for(const char *path, int flags) {
        int fd = open(path, flags | O_CLOEXEC);

        return fd < 0 ? -1 : close(fd);
}

/* ---- files ---- */

static int write_outside(void) {
        return make_file(in_directory("new"));
}

/* By effective capabilities, which access(2) leaves out. */
static int see(const char *path) {
        struct stat found;

        return stat(path, &found);
}

static int see_home(void) {
        return see("/root/attempt");
}

static int see_temporary(void) {
        return see("/tmp/attempt");
}

static int see_device(void) {
        return see("/dev/attempt");
}

static int see_modules(void) {
        return see("/usr/lib/modules/attempt");
}

static int read_kernel_memory(void) {
        return open_for("/proc/kcore", O_RDONLY);
}

/* Asks a read-only mount before it asks who we are: EROFS, and EPERM where it may be written. */
static int change_tunable(void) {
        return chmod("/proc/sys/kernel/printk", 0644);
}

static int change_sysfs(void) {
        return chmod("/sys/kernel/mm/transparent_hugepage/enabled", 0644);
}

static int change_interrupts(void) {
        return chmod("/proc/irq/default_smp_affinity", 0644);
}

static int change_group(void) {
        return chmod("/sys/fs/cgroup/systemd/cgroup.procs", 0644);
}

/* ---- system calls ---- */

static int change_clock(void) {
        struct timeval now;

        return gettimeofday(&now, NULL) || settimeofday(&now, NULL);
}

static int change_hostname(void) {
        return sethostname("attempt", 7);
}

static int load_module(void) {
        return (int)syscall(SYS_init_module, "", 0L, "");
}

static int change_personality(void) {
        return personality(ADDR_NO_RANDOMIZE) < 0 ? -1 : 0;
}

static int write_code(void) {
        void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

        return page == MAP_FAILED ? -1 : 0;
}

static int make_namespace(void) {
        return unshare(CLONE_NEWUSER);
}

static int become_realtime(void) {
        struct sched_param parameter = {.sched_priority = 1};

        return sched_setscheduler(0, SCHED_FIFO, &parameter);
}

static int make_setuid(void) {
        if (make_file("/var/lib/spanprof/attempt"))
                return -1;
        return chmod("/var/lib/spanprof/attempt", 04755);
}

static int open_packets(void) {
        int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);

        return fd < 0 ? -1 : close(fd);
}

#ifdef __x86_64__
/* The kernel's other table of calls: 20 is getpid(2) of i386. */
static int call_as_32_bit(void) {
        long result = 20;

        __asm__ volatile("int $0x80" : "+a"(result) : : "memory", "r8", "r9", "r10", "r11");
        if (result >= 0)
                return 0;
        errno = (int)-result;
        return -1;
}
#endif

static int call_aio(void) {
        unsigned long context = 0;

        return (int)syscall(SYS_io_setup, 1, &context);
}

static int call_chown(void) {
        return chown("/var/lib/spanprof", getuid(), getgid());
}

static int call_keyring(void) {
        return syscall(SYS_keyctl, KEYCTL_GET_KEYRING_ID, KEY_SPEC_PROCESS_KEYRING, 1) < 0 ? -1 : 0;
}

static int call_memlock(void) {
        static char page[4096];

        return mlock(page, sizeof(page));
}

/* Of @privileged; it needs no right, but a folder. */
static int call_chroot(void) {
        return chroot("/attempt-that-is-not-there");
}

/* Of @resources. */
static int call_priority(void) {
        return (int)syscall(SYS_ioprio_set, 1, 0, 2 << 13 | 4);
}

static int call_setuid(void) {
        return setresuid(getuid(), getuid(), getuid());
}

static int call_mount(void) {
        return mkdir("/var/lib/spanprof/mount", 0700) && errno != EEXIST
                       ? -1
                       : (int)syscall(SYS_mount, "tmpfs", "/var/lib/spanprof/mount", "tmpfs", 0L, NULL);
}

static int call_reboot(void) {
        return reboot(RB_ENABLE_CAD);
}

/* Memory of other users, as gdb would: the daemon reads it, and may not write or stop anything. */
static int trace_process(void) {
        return (int)syscall(SYS_ptrace, 0x4206L /* PTRACE_SEIZE */, 1L, 0L, 0L);
}

/* A program of root's that would become root. Return: whether it did. */
static int become_root(void) {
        int status;
        pid_t pid = fork();

        if (pid == 0) {
                execl(in_directory("setuid"), "setuid", (char *)NULL);
                _exit(125);
        }
        if (pid < 0 || waitpid(pid, &status, 0) != pid)
                return -1;
        errno = EPERM;
        return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -1;
}

static const struct {
        const char *name;
        int (*run)(void);
} attempts[] = {
        {"write_outside", write_outside},
        {"see_home", see_home},
        {"see_temporary", see_temporary},
        {"see_device", see_device},
        {"see_modules", see_modules},
        {"read_kernel_memory", read_kernel_memory},
        {"change_tunable", change_tunable},
        {"change_sysfs", change_sysfs},
        {"change_interrupts", change_interrupts},
        {"change_group", change_group},
        {"change_clock", change_clock},
        {"change_hostname", change_hostname},
        {"load_module", load_module},
        {"change_personality", change_personality},
        {"write_code", write_code},
        {"make_namespace", make_namespace},
        {"become_realtime", become_realtime},
        {"make_setuid", make_setuid},
        {"open_packets", open_packets},
#ifdef __x86_64__
        {"call_as_32_bit", call_as_32_bit},
#endif
        {"call_aio", call_aio},
        {"call_chown", call_chown},
        {"call_keyring", call_keyring},
        {"call_memlock", call_memlock},
        {"call_chroot", call_chroot},
        {"call_priority", call_priority},
        {"call_setuid", call_setuid},
        {"call_mount", call_mount},
        {"call_reboot", call_reboot},
        {"trace_process", trace_process},
        {"become_root", become_root},
};

static void print_limit(const char *name, int resource) {
        struct rlimit limit;

        if (!getrlimit(resource, &limit))
                printf("%s %llu\n", name, (unsigned long long)limit.rlim_cur);
}

static void print_file(const char *name, const char *path) {
        char text[256] = "";
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);

        if (fd >= 0)
                close(fd);
        if (n > 0 && text[n - 1] == '\n')
                text[n - 1] = '\0';
        printf("%s %s\n", name, n < 0 ? strerrorname_np(errno) : text);
}

/* What the unit sets, and no attempt shows. */
static void print_settings(void) {
        struct stat made;
        int fd = open("/var/lib/spanprof/mask", O_CREAT | O_WRONLY | O_CLOEXEC, 0666);

        if (fd >= 0 && !fstat(fd, &made))
                printf("new_file %o\n", made.st_mode & 07777);
        printf("user %s\n", getpwuid(getuid()) ? getpwuid(getuid())->pw_name : "?");
        printf("nice %d\n", getpriority(PRIO_PROCESS, 0));
        print_limit("core", RLIMIT_CORE);
        print_limit("files", RLIMIT_NOFILE);
        print_file("oom_score", "/proc/self/oom_score_adj");
        /* left behind: the service manager removes it */
        printf("shared_memory %s\n", shmget(IPC_PRIVATE, 4096, IPC_CREAT | 0600) < 0 ? strerrorname_np(errno) : "done");
}

/* In a child: some attempts are answered by a signal. */
static void print_attempt(const char *name, int (*run)(void)) {
        int status;
        pid_t pid;

        fflush(stdout);
        pid = fork();
        if (pid == 0) {
                errno = 0;
                printf("%s %s\n", name, run() ? strerrorname_np(errno) : "done");
                fflush(stdout);
                _exit(0);
        }
        if (pid > 0 && waitpid(pid, &status, 0) == pid && WIFSIGNALED(status))
                printf("%s SIG%s\n", name, sigabbrev_np(WTERMSIG(status)));
}

int main(int argc, char **argv) {
        if (argc == 1)                  /* become_root() */
                return geteuid() != 0;
        directory = argv[1];
        print_settings();
        for (size_t i = 0; i < sizeof(attempts) / sizeof(*attempts); ++i)
                print_attempt(attempts[i].name, attempts[i].run);
        return 0;
}
