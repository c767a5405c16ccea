/* SPDX-License-Identifier: Apache-2.0 */

/* Checks what the kernel has, and what it lets the daemon do. */

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/btf.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/timex.h>
#include <sys/uio.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "core/base/file/file.h"
#include "core/base/file/gzip.h"
#include "core/base/sandbox/rights.h"
#include "core/base/sandbox/zygotes.h"
#include "core/base/util/clock.h"
#include "core/base/util/macro.h"
#include "host/sampling/sample/event.h"
#include "host/sampling/sample/machine.h"
#include "host/sampling/sample/sampler-config.h"
#include "host/sampling/sample/sampler.h"
#include "host/service/control/control.h"
#include "host/service/doctor/doctor.h"

enum {
        FILE_MAX_BYTES = 4 << 20,
        BUILT_AFTER = 1767225600,       /* 2026: no clock that is set shows less */
        WORKERS_WAIT_MS = 5000,
};

static char *read_text(const char *path) {
        char *text;
        size_t size;

        return file_read(path, FILE_MAX_BYTES, &text, &size) ? NULL : text;
}

/* ---- kernel ---- */

/* The kernel's version is told, and judges nothing: distributions add functions to old kernels. */
static void check_version(Doctor *doctor) {
        struct utsname name = { 0 };

        uname(&name);
        doctor_add(doctor, "kernel", DOCTOR_OK, NULL, "Linux %s", name.release);
}

/* Whether it begins as BTF does (linux/btf.h); libbpf judges the rest at the load. */
static bool is_btf(const char *path) {
        struct btf_header header = { 0 };
        _cleanup_(closep) int fd = open(path, O_RDONLY | O_CLOEXEC);

        return fd >= 0 && read(fd, &header, sizeof(header)) == (ssize_t)sizeof(header) &&
                header.magic == BTF_MAGIC && header.version == BTF_VERSION && header.type_len;
}

static void check_btf(Doctor *doctor) {
        const char *path = getenv("SPANPROF_BTF") ?: SAMPLER_BTF_PATH;
        bool there = !access(path, R_OK), sound = there && is_btf(path);

        if (doctor->view.pid)
                return;         /* the daemon has read it */
        if (there && !sound)
                doctor_add(doctor, "btf", DOCTOR_FAIL,
                           "unset SPANPROF_BTF   # or make that file anew: pahole --btf_encode_detached FILE vmlinux",
                           "%s is empty, or no BTF", path);
        else
                doctor_add(
                        doctor, "btf", there ? DOCTOR_OK : DOCTOR_FAIL,
                        "zgrep DEBUG_INFO_BTF /proc/config.gz /boot/config-$(uname -r)   # boot a kernel with =y (distributions have it); in a container, mount /sys",
                        there ? "%s" : "%s cannot be read", path);
}

/* The options that are needed. Others belong to modules or to one architecture. */
static const struct {
        const char *option, *lost;
        Verdict verdict;
} options[] = {
        { "CONFIG_BPF_SYSCALL", "nothing can be sampled", DOCTOR_FAIL },
        { "CONFIG_PERF_EVENTS", "nothing can be sampled", DOCTOR_FAIL },
        { "CONFIG_BPF_EVENTS", "BPF cannot be attached to timers", DOCTOR_FAIL },
        { "CONFIG_DEBUG_INFO_BTF", "the kernel half cannot be fitted to this kernel", DOCTOR_FAIL },
        { "CONFIG_BPF_JIT", "each sample costs several times as much", DOCTOR_WARN },
        { "CONFIG_KALLSYMS", "kernel frames have no names", DOCTOR_WARN },
};

static bool has_line(const char *text, const char *option) {
        size_t length = strlen(option);

        for (const char *at = text; (at = strstr(at, option)); at += length)
                if ((at == text || at[-1] == '\n') && !strncmp(at + length, "=y", 2))
                        return true;
        return false;
}

void doctor_judge_config(Doctor *doctor, const char *config) {
        bool complete = true;
        char fix[DOCTOR_CURE_MAX];

        for (size_t i = 0; i < ARRAY_SIZE(options); i++) {
                if (has_line(config, options[i].option))
                        continue;
                complete = false;
                snprintf(fix, sizeof(fix), "grep %s= /boot/config-*   # lists kernels; boot one with =y", options[i].option);
                doctor_add(doctor, "kernel-config", options[i].verdict, fix,
                           "%s is not set: %s", options[i].option, options[i].lost);
        }
        if (complete)
                doctor_add(doctor, "kernel-config", DOCTOR_OK, NULL, "all %zu options that matter are set",
                           ARRAY_SIZE(options));
}

static char *read_config(void) {
        _cleanup_(freep) char *packed = NULL;
        char path[sizeof("/boot/config-") + sizeof(((struct utsname *)0)->release)];
        struct utsname name = { 0 };
        uint8_t *text;
        size_t size;

        if (!file_read("/proc/config.gz", FILE_MAX_BYTES, &packed, &size) &&
            !gzip_expand(packed, size, FILE_MAX_BYTES, &text, &size)) {
                char *ended = realloc(text, size + 1);

                if (!ended)
                        free(text);
                else
                        ended[size] = 0;
                return ended;
        }
        uname(&name);
        snprintf(path, sizeof(path), "/boot/config-%s", name.release);
        return read_text(path);
}

static void check_config(Doctor *doctor) {
        _cleanup_(freep) char *config = read_config();

        if (config)
                doctor_judge_config(doctor, config);
        else
                doctor_add(doctor, "kernel-config", DOCTOR_OK, NULL,
                           "is not shown (/proc/config.gz, /boot): judged by what works");
}

static void check_jit(Doctor *doctor) {
        _cleanup_(freep) char *text = read_text("/proc/sys/net/core/bpf_jit_enable");

        if (text && *text == '0')
                doctor_add(doctor, "jit", DOCTOR_WARN, "sudo sysctl -w net.core.bpf_jit_enable=1",
                           "is off: each sample costs several times as much");
        else
                doctor_add(doctor, "jit", DOCTOR_OK, NULL, text ? "is on" : "is not shown");
}

static void check_clock(Doctor *doctor) {
        _cleanup_(freep) char *text = read_text(
                "/sys/devices/system/clocksource/clocksource0/current_clocksource");
        const char *name = text ? text : "unknown";
        bool slow = !strncmp(name, "hpet", 4) || !strncmp(name, "acpi_pm", 7) || !strncmp(name, "jiffies", 7);

        doctor_add(doctor, "clock", slow ? DOCTOR_WARN : DOCTOR_OK,
                   "sudo dmesg | grep -iE 'clocksource|tsc'   # why the kernel does not trust the CPU's counter", "%.*s%s",
                   (int)strcspn(name, "\n"), name,
                   slow ? ": each look at the clock takes a microsecond" : "");
}

void doctor_judge_time(Doctor *doctor, time_t seconds, int state) {
        bool set = seconds >= BUILT_AFTER;

        doctor_add(doctor, "time", set && state != TIME_ERROR ? DOCTOR_OK : DOCTOR_WARN,
                   set ? "sudo systemctl enable --now systemd-timesyncd   # or chrony"
                       : "sudo date --set 'YYYY-MM-DD hh:mm:ss' && sudo hwclock --systohc",
                   "%s",
                   !set                ? "is in the past: receivers will not find the profiles"
                           : state < 0 ? "is set; who keeps it is not shown"
                           : state != TIME_ERROR
                           ? "is kept by an NTP client"
                           : "is kept by no NTP client: profiles may not meet the spans of other machines");
}

/* Containers may not ask. */
static void check_time(Doctor *doctor) {
        struct timex timex = { 0 };

        doctor_judge_time(doctor, time(NULL), adjtimex(&timex));
}

void doctor_judge_offset(Doctor *doctor, const char *offsets) {
        bool is_own = machine_has_own_time(offsets);

        doctor_add(doctor, "time-namespace", is_own ? DOCTOR_OK : DOCTOR_FAIL,
                   "sudo nsenter --target 1 --time COMMAND   # starts the command outside of the time namespace", "%s",
                   is_own ? "has the machine's clocks"
                          : "has clocks with an offset: times of processes and samples do not fit");
}

void doctor_judge_lockdown(Doctor *doctor, const char *lockdown) {
        bool closed = strstr(lockdown, "[confidentiality]");

        doctor_add(doctor, "lockdown", closed ? DOCTOR_FAIL : DOCTOR_OK,
                   "sudo sed -i 's/lockdown=confidentiality/lockdown=integrity/' /etc/default/grub && sudo update-grub   # then reboot; or boot without secure boot", "%s",
                   closed ? "is at `confidentiality`: BPF may not read memory"
                           : strstr(lockdown, "[integrity]") ? "integrity, which lets us work"
                                                             : "none");
}

static void check_lockdown(Doctor *doctor) {
        _cleanup_(freep) char *text = read_text("/sys/kernel/security/lockdown");

        doctor_judge_lockdown(doctor, text ? text : "");
}

/* Loads and attaches the kernel half for a moment. What stands in its way is logged. */
static int load(const Doctor *doctor, bool crashes, uint32_t *n_cpusp, size_t *map_bytesp) {
        const SamplerConfig config = {
                .frequency = (uint32_t)doctor->config->sampling.frequency,
                .depth = (uint32_t)doctor->config->sampling.depth,
                .default_state = ABI_STATE_REJECTED,
                .self_tgid = (uint32_t)getpid(),
                .btf_path = getenv("SPANPROF_BTF"),
                .crashes = crashes,
        };
        _cleanup_(sampler_freep) Sampler *sampler = NULL;
        int r = sampler_new(&sampler, &config);

        if (!r)
                r = sampler_start(sampler);
        if (r)
                return r;
        *n_cpusp = sampler_n_cpus(sampler);
        *map_bytesp = sampler_map_bytes(sampler);
        return 0;
}

/* Crashes have a program of their own. @map_bytes: maps of the kernel half without it. */
static void check_crashes(Doctor *doctor, size_t map_bytes) {
        uint32_t n_cpus;
        size_t all_bytes;

        if (!doctor->config->sampling.crashes)
                doctor_add(doctor, "crashes", DOCTOR_OK, NULL,
                           "are not told of: crashes = on keeps the last stack of a target that a signal ends");
        else if (load(doctor, true, &n_cpus, &all_bytes))
                doctor_add(doctor, "crashes", DOCTOR_FAIL,
                           "sudo spanprof run --crashes --duration 1s --log-level debug   # says why; or set crashes = off",
                           "its program cannot be loaded, or attached to signal_deliver: `run` would not start");
        else
                doctor_add(doctor, "crashes", DOCTOR_OK, NULL,
                           "the last stack of a target that a signal ends, 16 a second of a CPU; no ticks, and %zu KiB of maps",
                           (all_bytes - MIN(map_bytes, all_bytes)) >> 10);
}

/* The one check that counts. */
static void check_load(Doctor *doctor) {
        size_t map_bytes = 0;
        uint32_t n_cpus = 0;
        int r = load(doctor, false, &n_cpus, &map_bytes);

        if (r)
                doctor_add(doctor, "kernel-half", DOCTOR_FAIL,
                           "sudo spanprof run --duration 1s --log-level debug   # says why, once what failed above is mended",
                           "cannot be loaded and attached");
        else
                doctor_add(doctor, "kernel-half", DOCTOR_OK, NULL,
                           "loads and attaches on %u CPUs; no compiler, no headers needed",
                           n_cpus);
        if (!r)
                check_crashes(doctor, map_bytes);
}

void doctor_check_kernel(Doctor *doctor) {
        check_version(doctor);
        check_btf(doctor);
        doctor_check_needs(doctor);
        check_config(doctor);
        check_jit(doctor);
        check_lockdown(doctor);
        check_clock(doctor);
        check_time(doctor);
        doctor_judge_offset(doctor, NULL);
        check_load(doctor);
}

/* ---- rights ---- */

/* Without a `capabilities` line it is no view: an older daemon knows no such page. */
static bool ask_daemon(const Config *config, DoctorView *view) {
        const char *path = config_control(config), *line;
        _cleanup_(text_deinit) Text answer = { 0 };
        int status;

        if (control_ask(path, "GET", "/view", &status, &answer) || status != 200 || !answer.data ||
            sscanf(answer.data, "pid %" SCNu32 "\ncapabilities %" SCNx64, &view->pid, &view->capabilities) != 2)
                return false;
        line = strstr(answer.data, "\npid-namespace ");
        view->has_namespace = line && sscanf(line, "\npid-namespace %" SCNu32, &view->pid_namespace) == 1;
        kernel_files_parse(&view->files, answer.data);
        return true;
}

void doctor_look(Doctor *doctor) {
        DoctorView *view = &doctor->view;

        *view = (DoctorView){ 0 };
        if (ask_daemon(doctor->config, view))
                return;
        *view = (DoctorView){ .capabilities = rights_held() };
        view->has_namespace = !machine_namespace(&view->pid_namespace);
        kernel_files_look(&view->files, doctor->config->sampling.kernel_stacks);
}

static uint64_t effective(const char *status) {
        const char *line = strstr(status, "\nCapEff:");

        return line ? strtoull(line + strlen("\nCapEff:"), NULL, 16) : 0;
}

static bool holds(const char *status, unsigned number) {
        for (size_t i = 0; i < ARRAY_SIZE(machine_capabilities); i++)
                if (machine_capabilities[i].number == number)
                        return machine_holds(effective(status), &machine_capabilities[i]);
        return false;
}

void doctor_judge_capabilities(Doctor *doctor, uint64_t set) {
        for (size_t i = 0; i < ARRAY_SIZE(machine_capabilities); i++) {
                const MachineCapability *each = &machine_capabilities[i];
                char cure[DOCTOR_CURE_MAX];
                Verdict without = each->is_needed ? DOCTOR_FAIL : DOCTOR_WARN;
                bool has = machine_holds(set, each);

                doctor_cure_capability(doctor->place, each->name, cure);
                doctor_add(doctor, each->name, has ? DOCTOR_OK : without, cure, "%s%s", has ? "held" : "missing: ",
                           has ? "" : each->lost);
        }
}

#define WRITABLE "whoever takes it over may write into other processes of root"

void doctor_judge_user(Doctor *doctor, uint32_t uid, const RightsUser *becomes, bool can_change) {
        char cure[DOCTOR_CURE_MAX];

        if (uid != 0)
                doctor_add(doctor, "user", DOCTOR_OK, NULL,
                           "%u: CAP_SYS_PTRACE reads all memory, and writes that of no other user", uid);
        else if (!becomes)
                doctor_add(doctor, "user", DOCTOR_FAIL, "sudo useradd --system --no-create-home spanprof   # or give run-as= a number",
                           "there is none of the name that run-as= says");
        else if (becomes->uid == 0)
                doctor_add(doctor, "user", DOCTOR_WARN, "sudo sed -i '/^ *run-as/d' /etc/spanprof/spanprof.conf   # and restart it; or take --run-as away",
                           "stays root, as run-as= says: " WRITABLE);
        else if (!can_change) {
                doctor_cure_capability(doctor->place, "CAP_SETUID", cure);
                doctor_add(doctor, "user", DOCTOR_WARN, cure,
                           "cannot become `%s`, which takes CAP_SETUID, CAP_SETGID and CAP_CHOWN for a moment: " WRITABLE,
                           becomes->name);
        }
        else
                doctor_add(
                        doctor, "user", DOCTOR_OK, NULL,
                        "`run` becomes `%s`, keeps what is held of these six capabilities, and reads all memory, but writes that of no other user",
                        becomes->name);
}

static void check_user(Doctor *doctor) {
        RightsUser becomes;
        bool known = !rights_find_user(doctor->config->daemon.run_as, &becomes);

        doctor_judge_user(doctor, geteuid(), known ? &becomes : NULL, rights_can_change());
}

/* Upstream's kernel knows no level above 2; of patched ones some let CAP_PERFMON pass, others do not. */
void doctor_judge_paranoid(Doctor *doctor, int64_t paranoid, bool has_perfmon, bool opens, bool has_admin) {
        const char *cure = "sudo sysctl -w kernel.perf_event_paranoid=2   # or grant CAP_PERFMON";
        const char *what = has_perfmon ? ", which CAP_PERFMON passes" : "";
        Verdict verdict = DOCTOR_OK;

        if (paranoid > 2 && !has_perfmon) {
                verdict = DOCTOR_FAIL;
                what = ": no events without CAP_PERFMON";
        } else if (paranoid > 2 && !opens && has_admin) {
                what = ": this kernel lets CAP_SYS_ADMIN alone pass; a process that keeps nothing else opens the events";
        } else if (paranoid > 2 && !opens) {
                verdict = DOCTOR_FAIL;
                what = ": this kernel lets CAP_SYS_ADMIN alone pass";
                cure = "sudo sysctl -w kernel.perf_event_paranoid=2   # and in a file of /etc/sysctl.d; or grant CAP_SYS_ADMIN, which the daemon gives up";
        }
        doctor_add(doctor, "perf_event_paranoid", verdict, cure, "%" PRId64 "%s", paranoid, what);
}

static bool has_cgroup2(void) {
        return !access("/sys/fs/cgroup/cgroup.controllers", F_OK) ||
                !access("/sys/fs/cgroup/unified/cgroup.controllers", F_OK);
}

/* Names and control groups are told of in any case, the others where they are hidden. */
void doctor_judge_files(Doctor *doctor, const KernelFiles *files) {
        for (KernelFile file = 0; file < KERNEL_FILE_N; file++) {
                KernelFileState state = files->states[file];

                if (kernel_file_is_hidden(state))
                        doctor_add(doctor, kernel_file_name(file), DOCTOR_WARN, kernel_file_fix(state),
                                   "%s %s: %s", kernel_file_path(file), kernel_file_cause(state),
                                   kernel_file_loss(file));
                else if (file == KERNEL_FILE_KALLSYMS)
                        doctor_add(doctor, kernel_file_name(file), DOCTOR_OK, NULL, "%s",
                                   state == KERNEL_FILE_READ ? "shows addresses"
                                                             : "is not needed: kernel-stacks = off");
                else if (file == KERNEL_FILE_CGROUP)
                        doctor_add(doctor, kernel_file_name(file), DOCTOR_OK, NULL, "%s",
                                   has_cgroup2() ? "version 2" : "version 1");
        }
}

static void check_namespace(Doctor *doctor) {
        const DoctorView *view = &doctor->view;
        char cure[DOCTOR_CURE_MAX];

        doctor_cure_namespace(doctor->place, cure);
        doctor_add(doctor, "pid-namespace",
                   view->has_namespace && view->pid_namespace ? DOCTOR_WARN : DOCTOR_OK, cure,
                   !view->has_namespace  ? "is not shown"
                           : view->pid_namespace ? "not the machine's: only processes of this container are seen"
                                                 : "the machine's");
}

/* Checks what a sandbox may hold back from the daemon alone. */
static void check_view(Doctor *doctor) {
        doctor->of_daemon = doctor->view.pid;
        if (doctor->of_daemon)
                doctor_add(doctor, "btf", DOCTOR_OK, NULL, "was read when the kernel half was loaded");
        doctor_judge_capabilities(doctor, doctor->view.capabilities);
        doctor_judge_files(doctor, &doctor->view.files);
        check_namespace(doctor);
        doctor->of_daemon = false;
}

/*
 * A filter of system calls, as containers have, must leave the daemon the calls that it needs. They are tried
 * with arguments that mean nothing.
 */
enum { SECCOMP_FILTER = 2 };            /* proc(5): Seccomp: */

static bool try_bpf(void) {
        return syscall(SYS_bpf, INT_MAX, NULL, 0) >= 0 || errno == EINVAL;
}

static bool try_perf_event_open(void) {
        return syscall(SYS_perf_event_open, NULL, 0, -1, -1, 0) >= 0 || errno == EFAULT;
}

static bool try_process_vm_readv(void) {
        return process_vm_readv(getpid(), NULL, 0, NULL, 0, 0) >= 0;
}

/* As the daemon opens it, with the rights that the daemon keeps. */
static bool try_event(void) {
        Event event;

        return rights_drop(NULL, RIGHTS_OF_DAEMON) || !event_init(&event, NULL, 0, NS_PER_SEC);
}

/* Each call is tried in a process of its own: a filter may kill. */
static bool passes(bool (*try)(void)) {
        int status = 0;
        pid_t pid = fork();

        if (!pid) {
                signal(SIGSYS, SIG_DFL);
                _exit(try() ? EXIT_SUCCESS : EXIT_FAILURE);
        }
        return pid < 0 || waitpid(pid, &status, 0) != pid ||
                (WIFEXITED(status) && WEXITSTATUS(status) == EXIT_SUCCESS);
}

static void check_seccomp(Doctor *doctor, const char *status, bool has_bpf) {
        const char *line = strstr(status, "\nSeccomp:");
        char calls[64], cure[DOCTOR_CURE_MAX];
        bool bpf, perf, memory;

        if (!line || strtol(line + strlen("\nSeccomp:"), NULL, 10) != SECCOMP_FILTER) {
                doctor_add(doctor, "seccomp", DOCTOR_OK, NULL, "no filter");
                return;
        }
        /* without CAP_BPF it is the kernel itself that may refuse, as is said above */
        bpf = !has_bpf || passes(try_bpf);
        perf = passes(try_perf_event_open);
        memory = passes(try_process_vm_readv);
        snprintf(calls, sizeof(calls), "%s%s%s", bpf ? "" : " bpf", perf ? "" : " perf_event_open",
                 memory ? "" : " process_vm_readv");
        doctor_cure_calls(doctor->place, calls + (*calls == ' '), cure);
        doctor_add(doctor, "seccomp", *calls ? DOCTOR_FAIL : DOCTOR_OK, cure, "a filter is in force%s%s",
                   *calls ? ", and forbids" : ", and lets us work", calls);
}

void doctor_check_rights(Doctor *doctor) {
        _cleanup_(freep) char *status = read_text("/proc/self/status");
        int64_t paranoid;

        check_view(doctor);
        check_user(doctor);
        if (!machine_setting("perf_event_paranoid", &paranoid))
                doctor_judge_paranoid(doctor, paranoid, holds(status ? status : "", CAP_PERFMON),
                                      passes(try_event), rights_hold(CAP_SYS_ADMIN));
        check_seccomp(doctor, status ? status : "", holds(status ? status : "", CAP_BPF));
}

/* ---- limits ---- */

static void check_rate(Doctor *doctor) {
        int64_t rate = 0;
        bool known = !machine_setting("perf_event_max_sample_rate", &rate);
        bool low = rate < (int64_t)doctor->config->sampling.frequency;
        char fix[DOCTOR_CURE_MAX];

        if (!known) {
                doctor_add(doctor, "sample-rate", DOCTOR_OK, NULL, "is not shown");
                return;
        }
        snprintf(fix, sizeof(fix), "sudo sysctl -w kernel.perf_event_max_sample_rate=%" PRIu64 "   # or a lower frequency",
                 doctor->config->sampling.frequency);
        doctor_add(doctor, "sample-rate", low ? DOCTOR_WARN : DOCTOR_OK,
                   fix,
                   "%" PRId64 " Hz allowed, %" PRIu64 " wanted%s", rate, doctor->config->sampling.frequency,
                   low ? ": samples will be lost" : "");
}

/* Since 5.11 BPF memory is charged to the control group, not to this limit. */
static void check_memlock(Doctor *doctor) {
        struct rlimit limit = { 0 };

        getrlimit(RLIMIT_MEMLOCK, &limit);
        doctor_add(doctor, "memlock", DOCTOR_OK, NULL,
                   "%" PRIu64 " KiB; BPF maps are charged to the control group",
                   (uint64_t)limit.rlim_cur >> 10);
}

static void check_files(Doctor *doctor) {
        struct rlimit limit = { 0 };
        char cure[DOCTOR_CURE_MAX];

        doctor_cure_files(doctor->place, cure);
        getrlimit(RLIMIT_NOFILE, &limit);
        doctor_add(doctor, "open-files", limit.rlim_max < 4096 ? DOCTOR_WARN : DOCTOR_OK,
                   cure, "%" PRIu64 " allowed%s",
                   (uint64_t)limit.rlim_max,
                   limit.rlim_max < 4096 ? ": stacks in files beyond that end early" : "");
}

/* As the daemon does it, and for no file. */
static void check_workers(Doctor *doctor) {
        _cleanup_(zygotes_freep) Zygotes *zygotes = NULL;
        int r = zygotes_new(&zygotes);

        if (!r)
                r = zygotes_wait(zygotes, WORKERS_WAIT_MS);
        if (r)
                doctor_add(
                        doctor, "workers", DOCTOR_WARN,
                        "grep -E 'Seccomp|NoNewPrivs' /proc/self/status   # its filter must let capset, prctl and seccomp pass",
                        "no process without rights can be had (%s): the daemon reads files of targets itself",
                        strerror(-r));
        else
                doctor_add(
                        doctor, "workers", DOCTOR_OK, NULL,
                        "call frame information and symbols of targets are read by processes without rights");
}

void doctor_check_limits(Doctor *doctor) {
        check_rate(doctor);
        check_memlock(doctor);
        check_files(doctor);
        check_workers(doctor);
}
