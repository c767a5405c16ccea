#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The main job on the kernel that Debian 12 ships (6.1), booted under QEMU: BPF loads there, and ticks
arrive. A machine of one's own may also set its clock, and sleep."""
import oracle

oracle.enter()

import base64
import json
import re

import otlp_read
import qemu
import tap

SCRIPT = """
echo "kernel $(uname -r)"
spanprof doctor --endpoint http://127.0.0.1:4318
spanprof receive --port 4318 -o /tmp/store >/tmp/receive.log 2>&1 &
for i in $(seq 50); do grep -q listening /tmp/receive.log && break; sleep 0.2; done
example-service >/tmp/truth 2>&1 &
sleep 1
spanprof run --endpoint http://127.0.0.1:4318 -d 40s --export-interval 5s --stop-timeout 60s --validate=on --summary /tmp/summary %s
echo "status $?"
echo "SUMMARY $(cat /tmp/summary | tr -d '\\n')"
spanprof report /tmp/store
"""

# Phases: what the clock on the wall shows when each begins and ends is what samples of that time may say.
# On the second CPU: sleep takes it away and gives it back unseen, and a timer that was there does not come
# back by itself.
CLOCKS = """
phase() { echo "PHASE $1 $(date +%s) $(cut -d. -f1 /proc/uptime)"; }
ticks() { spanprof status --json --control /tmp/socket | sed -n 's/.*"ticks": \\([0-9]*\\).*/\\1/p'; }
burn() {        # as long as it takes where the host has little time for us
        phase $1
        before=$(ticks)
        for i in $(seq 30); do sleep 4; [ $(($(ticks) - before)) -ge 300 ] && break; done
        phase $1
}
spanprof receive --port 4318 -o /tmp/store >/tmp/receive.log 2>&1 &
for i in $(seq 50); do grep -q listening /tmp/receive.log && break; sleep 0.2; done
taskset 2 victim-chain 5 >/tmp/victim &
spanprof run --endpoint http://127.0.0.1:4318 --export-interval 3s --stop-timeout 60s --control /tmp/socket --summary /tmp/summary \\
        -p $! >/tmp/run.log 2>&1 &
daemon=$!
for i in $(seq 200); do grep -q "profiles go to" /tmp/run.log && break; sleep 0.2; done
burn start
date -s @$(($(date +%s) + 3600)) >/dev/null
burn ahead
date -s @$(($(date +%s) - 7200)) >/dev/null
burn behind
echo +20 >/sys/class/rtc/rtc0/wakealarm
echo mem >/sys/power/state
echo "suspend $?"
burn awake
kill -TERM $daemon
wait $daemon
echo "status $?"
cat /tmp/run.log
echo "SUMMARY $(cat /tmp/summary | tr -d '\\n')"
for file in /tmp/store/*.pb; do echo "FILE $(base64 $file | tr -d '\\n')"; done
"""

# No receiver at first, so that the spool fills. Maps of BPF are charged to the group and cannot be reclaimed:
# 1 MiB is too little.
MEMORY = """
group=/sys/fs/cgroup/daemon
echo +memory >/sys/fs/cgroup/cgroup.subtree_control
mkdir $group
daemon() {
        sh -c 'echo $$ >/sys/fs/cgroup/daemon/cgroup.procs; exec spanprof run "$@"' sh --endpoint http://127.0.0.1:4318 \\
                --export-interval 1s --spool /tmp/spool --summary /tmp/summary "$@"
        status=$?
        echo "status $status"
}
victim-chain 5 >/tmp/victim &
victim=$!
daemon -p $victim >/tmp/run.log 2>&1 &
for i in $(seq 600); do [ "$(spanprof spool ls --spool /tmp/spool 2>/dev/null | wc -l)" -ge 6 ] && break; sleep 0.2; done
echo 1M >$group/memory.max
wait $!
cat /tmp/run.log
echo "killed $(sed -n 's/^oom_kill //p' $group/memory.events)"
spanprof spool extract --spool /tmp/spool -o /tmp/extracted
echo "extract $?"
for file in /tmp/extracted/*; do echo "SPOOLED $(base64 $file | tr -d '\\n')"; done

echo max >$group/memory.max
spanprof receive --port 4318 -o /tmp/store >/tmp/receive.log 2>&1 &
for i in $(seq 50); do grep -q listening /tmp/receive.log && break; sleep 0.2; done
daemon -p $victim -d 5s
spanprof spool ls --spool /tmp/spool
echo "left $?"
for file in /tmp/store/*.pb; do echo "FILE $(base64 $file | tr -d '\\n')"; done
"""

# A program that may only use the second CPU starts when that has come back: it is sampled if the timer there
# is. Then the same
# with a CPU that is back at once.
CPUS = """
spanprof receive --port 4318 -o /tmp/store >/tmp/receive.log 2>&1 &
for i in $(seq 50); do grep -q listening /tmp/receive.log && break; sleep 0.2; done
victim-chain 5 >/tmp/victim &
spanprof run --endpoint http://127.0.0.1:4318 --export-interval 3s --summary /tmp/summary --comm victim-chain --control /tmp/socket >/tmp/run.log 2>&1 &
daemon=$!
cpus() { for i in $(seq 300); do spanprof status --control /tmp/socket 2>/dev/null | grep -q "Hz on $1 CPU" && echo "$2" && break; sleep 0.2; done; }
cpus 2 begun
echo 0 >/sys/devices/system/cpu/cpu1/online
cpus 1 gone
sleep 3
echo 1 >/sys/devices/system/cpu/cpu1/online
cpus 2 back
taskset 2 victim-chain 5 >/tmp/late &
echo "LATE $!"
sleep 10
anew() { grep -q "opening it anew" /tmp/run.log; }
for i in $(seq 20); do          # now and then it is looked for just when it is away
        echo 0 >/sys/devices/system/cpu/cpu1/online
        echo 1 >/sys/devices/system/cpu/cpu1/online
        for j in $(seq 50); do anew && break; sleep 0.2; done
        anew && echo anew && break
done
taskset 2 victim-chain 5 >/tmp/later &
echo "LATER $!"
sleep 10
kill -TERM $daemon
wait $daemon
echo "status $?"
echo "SUMMARY $(cat /tmp/summary | tr -d '\\n')"
for file in /tmp/store/*.pb; do echo "FILE $(base64 $file | tr -d '\\n')"; done
"""
CAPABILITIES = ["bpf", "sys_ptrace", "dac_read_search", "checkpoint_restore", "syslog"]
REFUSALS = """
mount -t securityfs none /sys/kernel/security
victim-chain 5 >/tmp/victim &
victim=$!
try() {
        spanprof doctor --endpoint http://127.0.0.1:4318 | sed -n "s/^/$1 doctor /p"
        spanprof run -p $victim -d 3s
        echo "$1 run $?"
        %(unprivileged)s spanprof run -p $victim -d 3s
        echo "$1 without $?"
}
for level in %(levels)s; do
        echo $level >/proc/sys/kernel/perf_event_paranoid
        try $level
done
"""


def refusals(levels):
    """Without CAP_PERFMON, and without CAP_SYS_ADMIN, which stands for it; the target is root's, but may be looked into."""
    caps = ",".join(["-all", *(f"+{name}" for name in CAPABILITIES)])
    return REFUSALS % {
        "levels": levels,
        "unprivileged": f"/bin/setpriv --reuid=65534 --regid=65534 --clear-groups --inh-caps={caps} "
        f"--ambient-caps={caps} --bounding-set={caps}"
    }


def profile_ids(paths):
    return [profile.profile_id for path in paths for resource in otlp_read.load(path).resource_profiles
            for scope in resource.scope_profiles for profile in scope.profiles]


class Kernel(tap.TestCase):
    def main_job(self, *options):
        tap.need_root()
        console = qemu.boot(self, qemu.debian_kernel(),
                            [tap.SPANPROF, tap.BUILD_DIR / "sdk/example/example-service"],
                            SCRIPT % " ".join(options))
        print("".join(f"# {line}\n" for line in console.splitlines()))
        self.assertRegex(console, r"kernel 6\.1\.")
        self.assertRegex(console, r"(?m)^status 0$")
        summary = json.loads(re.search(r"(?m)^SUMMARY (.*)$", console)[1])
        self.assertEqual(summary["ticks"], summary["delivered"] + summary["lost"])
        self.assertGreater(summary["delivered"], 200)
        self.assertGreaterEqual(summary["delivered"] / summary["ticks"], 0.99, summary)
        self.assertGreater(summary["counters"]["contexts_total"]["present"], 0.5 * summary["delivered"],
                           summary)
        self.assertGreater(summary["counters"]["stacks_total"]["complete"], 0.5 * summary["delivered"],
                           summary)
        # of the example's three operations this one costs 70 %, as far as an emulated CPU is like the real
        # one
        share = re.search(r"(?m)^ +\d+ +[\d.]+% +\d+ +([\d.]+)% +checkout_serve +example-service$", console)
        self.assertGreater(float(share[1]), 30, console)
        return summary

    def test_delivers_the_main_job(self):
        self.main_job()

    def test_measures_waits(self):
        """Both objects of waits load there: their programs stand in the 512 bytes of stack that it has."""
        counters = self.main_job("--off-cpu")["counters"]
        self.assertGreater(counters["waits_total"]["begun"], 100)
        self.assertGreater(counters["wait_wakers_total"]["thread"], 0, counters)

    def stored(self, console, mark="FILE"):
        """Files with what the receiver in the guest stored."""
        folder = self.directory()
        for i, text in enumerate(re.findall(rf"(?m)^{mark} (\S+)$", console)):
            (folder / f"{i:06}.pb").write_bytes(base64.b64decode(text))
        return sorted(folder.iterdir())

    def test_times_stay_true_when_the_clock_is_set_and_the_machine_sleeps(self):
        tap.need_root()
        oracle.need()
        console = qemu.boot(self, qemu.debian_kernel(),
                            [tap.SPANPROF, tap.VICTIMS / "victim-chain"], CLOCKS)
        print("".join(f"# {line[:200]}\n" for line in console.splitlines()))
        self.assertRegex(console, r"(?m)^suspend 0$")
        self.assertRegex(console, r"(?m)^status 0$")
        summary = json.loads(re.search(r"(?m)^SUMMARY (.*)$", console)[1])
        self.assertEqual(summary["ticks"], summary["delivered"] + summary["lost"])
        self.assertGreaterEqual(summary["delivered"] / summary["ticks"], 0.99, summary)

        phases = {}                 # name → [(clock, since boot) at its begin, at its end]
        for name, clock, since in re.findall(r"(?m)^PHASE (\w+) (\d+) (\d+)$", console):
            phases.setdefault(name, []).append((int(clock), int(since)))
        begins = [phase[0] for phase in phases.values()]
        ends = [phase[1] for phase in phases.values()]
        self.assertEqual(list(phases), ["start", "ahead", "behind", "awake"])
        self.assertGreater(begins[1][0] - ends[0][0], 3500, "else this test tests nothing")
        self.assertLess(begins[2][0] - ends[1][0], -7100)
        self.assertGreater(begins[3][0] - ends[2][0], 10, "it slept")

        files = self.stored(console)
        self.assertEqual(oracle.check(files), [], "among others: each sample lies in its profile")
        times = [s.time_ns / 1e9 for path in files for s in otlp_read.samples(path)]
        self.assertEqual(len(times), summary["delivered"])
        known = {
            name: [t for t in times if begin[0] - 1.5 <= t <= end[0] + 1.5]
            for name, (begin, end) in phases.items()
        }
        for name, found in known.items():
            self.assertGreater(len(found), 100, f"of {name}, {summary}")
        # it was ready before the first phase
        before = [t for t in times if begins[0][0] - 60 < t < begins[0][0] - 1.5]
        self.assertEqual(
            sum(map(len, known.values())) + len(before), len(times), "the others say a time that never was")
        for path in files:
            for resource in otlp_read.load(path).resource_profiles:
                for scope in resource.scope_profiles:
                    for profile in scope.profiles:
                        self.assertLess(profile.duration_nano, 60e9, "a window ends where the clock is set")

    def test_a_group_that_is_full_costs_no_request_that_was_stored(self):
        tap.need_root()
        oracle.need()
        console = qemu.boot(self, qemu.debian_kernel(),
                            [tap.SPANPROF, tap.VICTIMS / "victim-chain"], MEMORY)
        print("".join(f"# {line[:200]}\n" for line in console.splitlines()))
        self.assertEqual(re.findall(r"(?m)^status (\d+)$", console), ["137", "0"],
                         "killed, and well when it is started again")
        self.assertGreaterEqual(int(re.search(r"(?m)^killed (\d+)$", console)[1]), 1)
        self.assertRegex(console, r"(?m)^extract 0$")
        spooled, stored = self.stored(console, "SPOOLED"), self.stored(console)
        self.assertGreaterEqual(len(spooled), 5)
        self.assertEqual(oracle.check(spooled + stored), [])
        self.assertLessEqual(set(profile_ids(spooled)), set(profile_ids(stored)), "what was stored arrives")
        self.assertGreater(len(stored), len(spooled), "and what the next one samples")

    def test_a_cpu_that_goes_and_comes_back_is_followed(self):
        tap.need_root()
        oracle.need()
        console = qemu.boot(self, qemu.debian_kernel(),
                            [tap.SPANPROF, tap.VICTIMS / "victim-chain"], CPUS)
        print("".join(f"# {line[:200]}\n" for line in console.splitlines()))
        self.assertEqual(re.findall("(?m)^(begun|gone|back|anew)$", console),
                         ["begun", "gone", "back", "anew"])
        self.assertRegex(console, r"(?m)^status 0$")
        summary = json.loads(re.search(r"(?m)^SUMMARY (.*)$", console)[1])
        self.assertEqual(summary["ticks"], summary["delivered"] + summary["lost"])
        self.assertLessEqual(set(summary["lost_by_reason"]), {"not_target"},
                             "of programs that are judged when they are first seen")
        samples = [s for path in self.stored(console) for s in otlp_read.samples(path)]
        # the second one: when a CPU was away for so short a time that nobody saw it
        for name in ("LATE", "LATER"):
            pid = int(re.search(rf"(?m)^{name} (\d+)$", console)[1])
            self.assertGreater(len([s for s in samples if s.resource["process.pid"] == pid]), 100, name)

    def refusals(self, levels, options=""):
        """Of each of @levels of perf_event_paranoid: the doctor's words, the status of `run`, and of one without CAP_PERFMON."""
        tap.need_root()
        programs = [tap.SPANPROF, tap.VICTIMS / "victim-chain", tap.need_tool("setpriv")]
        console = qemu.boot(self, qemu.debian_kernel(), programs, refusals(levels), options=options)
        print("".join(f"# {line[:200]}\n" for line in console.splitlines()))
        found = {}
        for level in levels.split():
            doctor = dict(line.split()[1::-1]
                          for line in re.findall(rf"(?m)^{level} doctor ((?:ok|warn|fail) .*)$", console))
            found[level] = (doctor, *(int(re.search(rf"(?m)^{level} {what} (\d+)$", console)[1])
                                      for what in ("run", "without")))
        return found, console

    def test_a_paranoid_kernel_is_passed_by_perfmon_alone(self):
        """Debian's kernel has a level 3 of its own: no events for who lacks the capability."""
        found, console = self.refusals("3 4")
        for level, (doctor, run, without) in found.items():
            with self.subTest(level=level):
                self.assertEqual((doctor["perf_event_paranoid"], doctor["kernel-half"], run, without),
                                 ("ok", "ok", 0, 78))
        self.assertEqual(len(re.findall(r"[1-9]\d* ticks = \d+ samples delivered", console)), 2)

    def test_a_locked_down_kernel_is_named(self):
        for mode, verdict, status in (("integrity", "ok", 0), ("confidentiality", "fail", 78)):
            with self.subTest(mode=mode):
                doctor, run, _ = self.refusals("2", f"lockdown={mode}")[0]["2"]
                self.assertEqual((doctor["lockdown"], doctor["kernel-half"], run), (verdict, verdict, status))


tap.main()
