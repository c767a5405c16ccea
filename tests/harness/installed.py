# SPDX-License-Identifier: Apache-2.0
"""The Debian package under its unit, on a machine with systemd: programs whose samples show one feature each,
what each line of the unit pays for, and what its sandbox refuses.

    machine = installed.Machine(test)               # the package is installed, the programs run
    machine.configure(); machine.start()
    installed.prove(machine, names)                 # {feature: what shows it}; fails by the feature's name

FEATURES and REFUSALS are the tables: each line of the unit is in one of them, or in SHOWN_ELSEWHERE.
"""
import contextlib
import os
import pathlib
import re
import resource
import secrets
import shutil
import subprocess
import uuid

import jdks
import nspawn
import otlp_read
import packages
import session
import symbol_server
import tap

UNIT = "/lib/systemd/system/spanprof.service"
LOCAL_UNIT = "/etc/systemd/system/spanprof.service"
DROP_IN = "/etc/spanprof/spanprof.conf.d/50-test.conf"
FOLDER = "/opt/attempts"                # outside of the sandbox, its user's
PROGRAMS = "/usr/local/lib/programs"
CONTAINER = secrets.token_hex(32)
POD = str(uuid.uuid4())
# A program that burns CPU in `spend_NAME`, stripped: its name is in a debug file alone.
SPEND = """
#include <stdio.h>
static __attribute__((noinline)) unsigned long spend_NAME(unsigned long n) {
        volatile unsigned long x = 1;
        for (unsigned long i = 0; i < n; i++)
                x = x * 31 + 7;
        return x;
}
int main(void) {
        for (;;)
                if (spend_NAME(1000000) == 1)
                        puts("");
}
"""
CLOCK = """
#include <time.h>
int main(void) {
        struct timespec now;
        for (;;)
                clock_gettime(CLOCK_MONOTONIC, &now);
}
"""


class Machine(nspawn.Machine):
    def __init__(self, test):
        java = next(iter(jdks.here().values())).resolve().parents[1]
        binds = [f"--bind-ro={path}" for path in ("/usr/lib/jvm", *sorted(
            str(p) for p in pathlib.Path("/etc").glob("java-*-openjdk")))]
        super().__init__(test, binds)
        self.java, self.folder = java / "bin/java", test.directory()
        self.receiver = session.Receiver(test)
        self.debug_server = symbol_server.SymbolServer()
        test.addCleanup(self.debug_server.close)
        self.install()
        self.known, self.first = {}, 0

    def install(self):
        self.copy(packages.of("spanprof"), "/root/spanprof.deb")
        self.run("apt-get", "--quiet", "install", "--yes", "--no-install-recommends", "/root/spanprof.deb")
        self.run("mkdir", "-p", PROGRAMS)
        self.write("/etc/systemd/system/spanprof.service.d/debuginfod.conf",
                   f"[Service]\nEnvironment=DEBUGINFOD_URLS={self.debug_server.url}\n")

    # ---- programs ----

    def compile(self, name, text):
        source, path = self.folder / f"{name}.c", self.folder / name
        source.write_text(text.replace("NAME", name))
        subprocess.run([tap.need_tool("cc"), "-g", "-O1", "-Wl,--build-id", "-o", path, source], check=True)
        return path

    def stripped(self, name):
        """A program without names. Return: its build id, and the bytes of its debug file."""
        path = self.compile(name, SPEND)
        debug = path.with_suffix(".debug")
        subprocess.run(["objcopy", "--only-keep-debug", path, debug], check=True)
        subprocess.run(["strip", path], check=True)
        notes = subprocess.run(["readelf", "-nW", path], capture_output=True, text=True, check=True).stdout
        self.place(path)
        return re.search(r"Build ID: (\w+)", notes)[1], debug.read_bytes()

    def place(self, source, name=None):
        path = f"{PROGRAMS}/{name or pathlib.Path(source).name}"
        self.copy(source, path)
        return path

    def begin(self, name, *command, user=True, properties=()):
        """A service of its own user, named program-NAME. A dozen of them use all CPUs there are: they give
        way to the daemon, and to the commands that look at it."""
        words = ["--property=DynamicUser=yes", "--property=Nice=5"] if user else ["--property=Nice=5"]
        self.run("systemd-run", "--quiet", f"--unit=program-{name}", *words, *properties, "sh", "-c",
                 'echo 5 >/proc/self/autogroup; exec "$0" "$@"', *command)

    def begin_programs(self):
        chain = self.place(tap.VICTIMS / "victim-chain")
        self.begin("kernel", "sh", "-c", "exec yes >/dev/null")
        self.begin("user", chain, "5")
        self.begin_private(chain)
        self.begin_deleted(chain)
        self.begin("spans", self.place(session.SERVICE), "--rate", "50")
        self.begin("stations", self.place(tap.VICTIMS / "victim-coroutines"), "1", "4", "/dev/null", "document")
        self.begin("clock", self.place(self.compile("clock", CLOCK)))
        self.begin_runtimes()
        self.begin_stripped()
        self.begin_grouped(chain)

    def begin_private(self, chain):
        """A program that only its owner may read."""
        path = self.place(tap.VICTIMS / "victim-chain", "private-chain")
        self.run("useradd", "--create-home", "member")
        self.run("useradd", "--create-home", "stranger")
        self.run("usermod", "--append", "--groups", "spanprof", "member")
        self.run("install", "-o", "stranger", "-m", "700", path, "/home/stranger/private-chain")
        self.begin("private", "/home/stranger/private-chain", "5", user=False, properties=["--property=User=stranger"])

    def begin_deleted(self, chain):
        path = self.place(tap.VICTIMS / "victim-chain", "deleted-chain")
        self.begin("deleted", path, "5")
        tap.wait_until(lambda: "depth" in self.run("journalctl", "--no-pager", "-u", "program-deleted").stdout,
                       "its start")
        self.run("rm", path)

    def begin_runtimes(self):
        classes = self.folder / "classes"
        classes.mkdir()
        self.test.run_command([jdks.tool("javac"), *jdks.BRIEF, "-d", classes, tap.SOURCE_DIR / "tests/victims/java/VictimJavaBusy.java"],
                              expect=0, timeout=120)
        shutil.copytree(classes, f"{self.root}{PROGRAMS}/classes")
        self.begin("java", "sh", "-c", f"sleep infinity | {self.java} -Xmx64m -cp {PROGRAMS}/classes VictimJavaBusy deep")
        self.begin("python", "python3", self.place(tap.SOURCE_DIR / "tests/victims/python/victim-burn.py"))
        self.begin("naps", "sh", "-c", "sleep infinity | python3 " +
                   self.place(tap.SOURCE_DIR / "tests/victims/python/victim-naps.py"))

    def begin_stripped(self):
        for name in ("nearby", "remote"):
            build_id, debug = self.stripped(name)
            if name == "remote":
                self.debug_server.files[build_id] = debug
            else:
                path = f"/usr/lib/debug/.build-id/{build_id[:2]}/{build_id[2:]}.debug"
                self.run("mkdir", "-p", os.path.dirname(path))
                (self.folder / "debug").write_bytes(debug)
                self.copy(self.folder / "debug", path)
            self.begin(name, f"{PROGRAMS}/{name}")

    def begin_grouped(self, chain):
        """In control groups as an engine and a kubelet make them, by the hierarchy that systemd has here."""
        self.run("mkdir", "-p", f"/var/log/pods/shop_cart-7d9f_{POD}")
        for name, group in (("container", f"docker-{CONTAINER}.scope"),
                            ("pod", f"kubepods/burstable/pod{POD}/{secrets.token_hex(32)}")):
            script = f"{PROGRAMS}/{name}.sh"
            self.write(script, f"""
g=/sys/fs/cgroup; [ -e $g/cgroup.procs ] || g=$g/systemd
mkdir -p $g/{group} && echo $$ >$g/{group}/cgroup.procs &&
        exec setpriv --reuid=65534 --regid=65534 --clear-groups {chain} 5""")
            self.begin(name, "sh", script, user=False)

    def end_programs(self, *but):
        """Ends those that begin_programs() began, save @but: a dozen of them use all CPUs there are."""
        units = self.run("systemctl", "list-units", "--plain", "--no-legend", "program-*").stdout.splitlines()
        names = [unit.split()[0] for unit in units]
        kept = {f"program-{name}.service" for name in but}
        self.test.assertLessEqual(kept, set(names))
        self.run("systemctl", "stop", *(name for name in names if name not in kept))

    # ---- the service ----

    def configure(self, *lines):
        """All programs, and what is off by default; @lines: of any section, the last word."""
        self.write(DROP_IN, "\n".join([
            "[export]", f"endpoint = http://localhost:{self.receiver.port}", "export-interval = 1s", "stop-timeout = 5s", "symbols = local",
            "debuginfod = on", "[targets]", "all = on", "pods-directory = /var/log/pods", "[sampling]",
            "frequency = 199", "off-cpu = on", "[daemon]", "max-cpu = 0", ""]))
        self.write(DROP_IN.replace("50", "60"), "\n".join([*lines, ""]))

    def start(self):
        self.run("systemctl", "daemon-reload")
        self.run("systemctl", "reset-failed", "spanprof", expect=None)
        done = self.run("systemctl", "restart", "spanprof", expect=None)
        return done.returncode == 0

    def samples(self):
        """Of the requests that came since the last forget(). Each is read once."""
        for path in self.receiver.paths():
            if path not in self.known and path.with_suffix(".json").exists():
                self.known[path] = list(otlp_read.samples(path))
        return [s for path in sorted(self.known)[self.first:] for s in self.known[path]]

    def forget(self):
        self.first = len(self.receiver.paths())
        self.known |= dict.fromkeys(self.receiver.paths(), [])

    def without(self, line):
        """The unit without one of its lines, or without a word of it: `LINE:WORD`."""
        text = pathlib.Path(f"{self.root}{UNIT}").read_text()
        line, _, word = line.partition(":")
        self.test.assertEqual(text.count(f"\n{line}\n"), 1, line)
        new = re.sub(rf"(?<=[ =~]){re.escape(word)}(?= |$)", "", line) if word else ""
        self.test.assertNotEqual(new, line)
        return text.replace(f"\n{line}\n", f"\n{new}\n")

    def attempts(self, text):
        """What sandbox-attempts says in the sandbox of unit @text: name → result."""
        keep = [line for line in text.splitlines()
                if not re.match(r"(Type|NotifyAccess|Exec\w+|Restart\w*|Watchdog\w+|WantedBy)=|\[Install\]", line)]
        keep.insert(keep.index("[Service]") + 1, f"Type=oneshot\nExecStart=/usr/local/bin/sandbox-attempts {FOLDER}\n"
                    "StandardOutput=truncate:/run/attempts")
        self.write("/etc/systemd/system/attempts.service", "\n".join(keep) + "\n")
        self.run("rm", "-rf", f"{FOLDER}/new", "/var/lib/spanprof/mask", "/var/lib/spanprof/attempt")
        self.run("systemctl", "daemon-reload")
        self.run("systemctl", "start", "attempts")
        return dict(line.split(" ", 1) for line in self.run("cat", "/run/attempts").stdout.splitlines())

    def realtime(self):
        return int(self.run("date", "+%s%N").stdout)

    def prepare_attempts(self):
        self.copy(tap.HARNESS / "sandbox-attempts", "/usr/local/bin/sandbox-attempts")
        self.run("sh", "-ec", f"""
mkdir -p {FOLDER} /usr/lib/modules
install -o root -m 4755 /usr/local/bin/sandbox-attempts {FOLDER}/setuid
chown spanprof {FOLDER}
touch /root/attempt /tmp/attempt /usr/lib/modules/attempt
mknod /dev/attempt c 1 3
umount -l /proc/sys /proc/irq
mount -o remount,rw,bind /sys""")


# ---- features: what samples must show ----

def frames_of(samples, path):
    """Frames in programs of that name."""
    return [f for s in samples for f in s.frames if f.path.split(" ")[0].endswith(path)]


def named(path, *names):
    def look(samples):
        found = {f.name for f in frames_of(samples, path)} & set(names)
        return found == set(names) and f"{path}: {', '.join(sorted(found))}"

    return look


def kernel_names(samples):
    """All, not one."""
    frames = [f for s in samples for f in s.frames if f.type == "kernel"]
    names = {f.name for f in frames}
    return len(frames) > 100 and "" not in names and {"do_syscall_64", "vfs_write"} <= names and \
        f"{len(frames)} frames, {len(names)} names: do_syscall_64, vfs_write …"


def having(attribute, value=None):
    def look(samples):
        found = [x[attribute] for x in ({**s.resource, **s.attributes} for s in samples) if attribute in x]
        found = [x for x in found if value in (None, x)]
        return found and f"{len(found)} samples, {attribute}={found[0]}"

    return look


def spans(samples):
    found = [s for s in samples if s.span_id]
    return len(found) > 20 and f"{len(found)} samples, span {found[0].span_id} of trace {found[0].trace_id}"


def waits(samples):
    found = [s for s in samples if s.type == "off_cpu" and "doze" in {f.name for f in s.frames}]
    return found and f"{len(found)} waits below doze(), {found[0].value} ns"


def runtime(kind, name):
    def look(samples):
        found = [f for s in samples for f in s.frames if (f.type, f.name) == (kind, name)]
        return found and f"{len(found)} frames {name} ({kind}), {os.path.basename(found[0].file)}:{found[0].line}"

    return look


def vdso(samples):
    found = {f.name for f in frames_of(samples, "[vdso]") if f.name}
    return found and f"[vdso]: {', '.join(sorted(found))}"


LOOKS = {
    "samples": lambda samples: samples and f"{len(samples)} samples",
    "kernel names": kernel_names,
    "programs of other users": named("/victim-chain", "chain_leaf", "chain_frame"),
    "programs that only their owner may read": named("/private-chain", "chain_leaf", "chain_frame"),
    "deleted files": named("/deleted-chain", "chain_leaf", "chain_frame"),
    "spans": spans,
    "stations of coroutines": having("coroutine.station"),
    "vdso": vdso,
    "Java": runtime("jvm", "VictimJavaBusy.burn"),
    "Python": runtime("cpython", "burn"),
    "waits": waits,
    "debug files of this machine": named("/nearby", "spend_nearby"),
    "debug files from servers": named("/remote", "spend_remote"),
    "containers": having("container.id", CONTAINER),
    "pods": having("k8s.pod.name", "cart-7d9f"),
}


# What no sample of a recording by hand has: it is not asked for there.
SERVICE_ONLY = ("pods",)

# ---- the daemon's processes, as /proc shows them: what the calls that its filter lets pass are for ----

PROCESSES = {
    "open files of its workers": "16",              # prlimit64, which systemd lets pass by default
    "data of its workers": str(256 << 20),
    "capabilities of its workers": "0000000000000000",      # capset
    "nice of its workers": "0",                     # setpriority: 5 above its own
    # of what reads files on FUSE: to read them, CAP_DAC_READ_SEARCH
    "open files of its remote reader": "256",
    "data of its remote reader": str(256 << 20),
    "capabilities of its remote reader": "0000000000000004",
    "nice of its remote reader": "0",
    "threads on one CPU": "1",                      # sched_setaffinity
}


def processes(machine, main):
    """Row → value, of PROCESSES; several values where workers differ."""
    # those that start others, and live as long as the daemon
    remote = machine.run("pgrep", "-P", str(main), "-x", "spanprof-remote", expect=None).stdout.split()
    workers = [pid for pid in machine.run("pgrep", "-P", str(main)).stdout.split() if pid not in remote]

    def each(path, pattern, pids):
        texts = [machine.run("cat", f"/proc/{pid}/{path}", expect=None).stdout for pid in pids]
        return " and ".join(sorted({re.search(pattern, text, re.M)[1] for text in texts if text}))

    cpus = re.findall(r"Cpus_allowed_list:\s*(\S+)", machine.run("sh", "-c", f"cat /proc/{main}/task/*/status").stdout)
    return {
        f"{what} of its {who}": each(*where, pids)
        for who, pids in (("workers", workers), ("remote reader", remote)) for what, where in {
            "open files": ("limits", r"^Max open files +(\S+)"),
            "data": ("limits", r"^Max data size +(\S+)"),
            "capabilities": ("status", r"^CapEff:\t(\w+)"),
            "nice": ("stat", r"\) \S(?: \S+){15} (\S+)"),
        }.items()
    } | {
        "threads on one CPU": str(sum(cpu.isdigit() for cpu in cpus)),
    }


# What is shown by commands, in this order: step → method of test-installed.py
STEPS = {
    "features": "under_the_unit",
    "processes": "processes",
    "control socket": "socket",
    "by hand": "by_hand",               # the last that needs all programs
    "reload": "reload",
    "spool over a restart": "spool",
    "strict kernel": "strict_kernel",
    "attempts": "attempts",
}

# ---- attempts from inside the sandbox: what refuses them (sandbox-attempts.c), and the lines that do ----

ATTEMPTS = {
    "write_outside": "EROFS",
    "see_home": "ENOENT",
    "see_temporary": "ENOENT",
    "see_device": "ENOENT",
    "see_modules": "ENOENT",
    "read_kernel_memory": "ENOENT",     # EACCES where the kernel has it
    "change_tunable": "EROFS",
    "change_sysfs": "EROFS",
    "change_interrupts": "EROFS",
    "change_group": "EROFS",
    "change_clock": "EPERM",
    "change_hostname": "EPERM",
    "load_module": "EPERM",
    "change_personality": "EPERM",
    "write_code": "EPERM",
    "make_namespace": "EPERM",
    "become_realtime": "EPERM",
    "make_setuid": "EPERM",
    "open_packets": "EAFNOSUPPORT",
    "call_as_32_bit": "SIGSYS",
    "call_aio": "EPERM",
    "call_chown": "EPERM",
    "call_keyring": "EPERM",
    "call_memlock": "EPERM",
    "call_chroot": "EPERM",
    "call_priority": "EPERM",
    "call_setuid": "EPERM",
    "call_mount": "EPERM",
    "call_reboot": "EPERM",
    "trace_process": "EPERM",
    "become_root": "EPERM",
}
SETTINGS = {
    "new_file": "600",
    "user": "spanprof",
    "nice": "-5",
    "core": "0",
    # or what the machine's root is allowed at the most
    "files": str(min(65536, resource.getrlimit(resource.RLIMIT_NOFILE)[1])),
    "oom_score": "500",
    "shared_memory": "done",
}

# Each line of the unit's [Service], and what shows it: features, steps, attempts, settings above, or another
# test file. A feature is gone without the line, an attempt that stands with one line succeeds without it
# (test-long-installed.py takes the lines away); of attempts with several lines each would do.
LINES = {
    "Type=notify": ["test-long-service"],
    "NotifyAccess=main": ["test-long-service"],
    "ExecCondition=/usr/sbin/spanprof config endpoint": ["test-long-service"],
    "ExecStart=/usr/sbin/spanprof run": ["samples"],
    "ExecReload=/bin/kill -HUP $MAINPID": ["reload"],
    "ExecReload=/usr/sbin/spanprof config check": ["test-long-service"],
    "Restart=on-failure": ["test-long-service"],
    "RestartSec=5s": ["test-long-service"],
    "RestartPreventExitStatus=2 78": ["test-long-service"],
    "WatchdogSec=20s": ["test-long-service"],
    "WatchdogSignal=SIGKILL": ["test-long-service"],
    "TimeoutStopSec=10s": ["test-long-service"],
    "User=spanprof": ["user", "become_root"],
    "Group=spanprof": ["control socket"],
    "UMask=0077": ["new_file"],
    "StateDirectory=spanprof": ["spool over a restart", "debug files from servers"],
    "StateDirectoryMode=0700": ["test-long-service"],
    "RuntimeDirectory=spanprof": ["control socket"],
    "RuntimeDirectoryMode=0755": ["control socket"],
    "RuntimeDirectoryPreserve=yes": ["test-long-service"],
    "AmbientCapabilities=CAP_BPF": ["samples"],
    "AmbientCapabilities=CAP_PERFMON": ["samples"],
    "AmbientCapabilities=CAP_SYS_PTRACE": ["programs of other users", "spans", "stations of coroutines", "Java", "Python"],
    "AmbientCapabilities=CAP_DAC_READ_SEARCH": ["spans", "programs that only their owner may read"],
    "AmbientCapabilities=CAP_CHECKPOINT_RESTORE": ["deleted files"],
    "AmbientCapabilities=CAP_SYSLOG": ["kernel names"],
    "AmbientCapabilities=CAP_SYS_ADMIN": ["strict kernel"],
    "CapabilityBoundingSet=CAP_BPF CAP_PERFMON CAP_SYS_PTRACE CAP_DAC_READ_SEARCH CAP_CHECKPOINT_RESTORE CAP_SYSLOG "
    "CAP_SYS_ADMIN": ["test-long-service"],
    "NoNewPrivileges=yes": ["become_root"],
    "CPUWeight=500": ["processes"],
    "Nice=-5": ["nice"],
    "MemoryMax=512M": ["processes"],
    "MemorySwapMax=0": ["processes"],
    "OOMPolicy=continue": ["processes"],
    "TasksMax=64": ["processes"],
    "LimitCORE=0": ["core"],
    "LimitNOFILE=65536": ["files"],
    "OOMScoreAdjust=500": ["oom_score"],
    "ProtectSystem=strict": ["write_outside"],
    "ProtectHome=yes": ["see_home"],
    "PrivateMounts=yes": ["call_mount"],
    "PrivateTmp=yes": ["see_temporary"],
    "PrivateDevices=yes": ["see_device"],
    "DevicePolicy=closed": ["see_device"],
    "ProtectClock=yes": ["change_clock"],
    "ProtectControlGroups=yes": ["change_group"],
    "ProtectHostname=yes": ["change_hostname"],
    "ProtectKernelModules=yes": ["see_modules", "load_module"],
    "ReadOnlyPaths=/proc/sys /sys": ["change_tunable", "change_sysfs", "change_group"],
    "ReadOnlyPaths=-/proc/acpi -/proc/bus -/proc/fs -/proc/irq -/proc/mtrr -/proc/scsi -/proc/sysrq-trigger":
        ["change_interrupts"],
    "InaccessiblePaths=-/proc/kcore": ["read_kernel_memory"],
    "LockPersonality=yes": ["change_personality"],
    "MemoryDenyWriteExecute=yes": ["write_code"],
    "RemoveIPC=yes": ["shared_memory"],
    "RestrictNamespaces=yes": ["make_namespace"],
    "RestrictRealtime=yes": ["become_realtime"],
    "RestrictSUIDSGID=yes": ["make_setuid"],
    "KeyringMode=private": ["call_keyring"],
    "RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6": ["open_packets"],
    "SystemCallArchitectures=native": ["call_as_32_bit"],
    "SystemCallFilter=@system-service": ["trace_process", "call_mount", "call_reboot"],
    "SystemCallFilter=~@aio @chown @keyring @memlock @privileged @resources @setuid":
        ["call_aio", "call_chown", "call_keyring", "call_memlock", "call_chroot", "call_priority", "call_setuid"],
    "SystemCallFilter=bpf perf_event_open setrlimit setpriority sched_setaffinity capset":
        ["samples", "processes"],
    "SystemCallErrorNumber=EPERM": ["call_setuid"],
}


def look(machine, names=tuple(LOOKS), patience=60):
    """Waits until all are shown. Return: feature → what shows it, of those that are."""
    found = {}

    def all_of_them():
        samples = machine.samples()
        for name in names:
            found[name] = found.get(name) or LOOKS[name](samples)
        return all(found.values())

    with contextlib.suppress(AssertionError):
        tap.wait_until(all_of_them, "all features", patience)
    return {name: shown for name, shown in found.items() if shown}
