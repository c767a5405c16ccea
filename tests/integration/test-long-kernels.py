#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The kernels that fleets run: each of Debian's is booted under QEMU, and the same is asked of all.

What is special to 6.1 has a file of its own (test-long-kernel.py).
"""
import oracle

oracle.enter()

import base64
import gzip
import json
import re

import otlp_read
import qemu
import tap

# name of a test → (suite, package, what `uname -r` begins with)
KERNELS = {
    "6.1": ("bookworm", "linux-image-amd64", "6.1."),
    "6.12": ("trixie", "linux-image-amd64", "6.12."),
    "newest": ("sid", "linux-image-amd64", ""),
    "PREEMPT_RT": ("trixie", "linux-image-rt-amd64", "6.12."),
}
OLD = ("bullseye", "linux-image-amd64")
JOB = """
echo "kernel $(uname -r)"
echo "version $(uname -v)"
cat >/tmp/chain.py <<'END'
PYTHON_CHAIN
END
spanprof doctor >/tmp/doctor
sed "s/^/DOCTOR /" /tmp/doctor
spanprof receive --port 4318 -o /tmp/store >/tmp/receive.log 2>&1 &
for i in $(seq 100); do grep -q listening /tmp/receive.log && break; sleep 0.2; done
(while :; do echo go; sleep 1; done) | victim-waits /tmp/waits >/dev/null &
for i in $(seq 100); do pidof victim-waits >/dev/null && break; sleep 0.2; done
# Before others take the CPUs: a thread that is ready and has none has no stack. Where preemption is lazy
# (7.2), one that was woken may stay so until the tick, and on a busy host ticks are rare.
for i in $(seq 60); do
        spanprof stacks $(pidof victim-waits) >/tmp/stacks 2>&1
        status=$?
        grep -q " main " /tmp/stacks && break
        sleep 1
done
echo "stacks $status"
sed "s/^/STACKS /" /tmp/stacks
python3.11 -I -S /tmp/chain.py 2>/dev/null &
python=$!
victim-omit depth 30 >/tmp/omit &
omit=$!
example-service >/tmp/truth 2>&1 &
service=$!
for i in $(seq 100); do grep -q frames /tmp/omit && break; sleep 0.2; done
# Long enough that all of a round of victim-waits lies in it, from the first wait to the last
rounds() { grep -c " poll " /tmp/waits; }
before=$(rounds)
spanprof run -p $omit -p $python -p $service -p $(pidof victim-waits) --off-cpu --endpoint http://127.0.0.1:4318 \\
        --export-interval 5s --stop-timeout 60s --summary /tmp/summary --log-level info >/tmp/log 2>&1 &
daemon=$!
sleep SECONDS
for i in $(seq 300); do [ $(rounds) -ge $((before + 2)) ] && break; sleep 1; done
kill -TERM $daemon
wait $daemon
echo "status $?"
sed "s/^/LOG /" /tmp/log
echo "SUMMARY $(cat /tmp/summary | tr -d '\\n')"
kill $omit $python $service $(pidof victim-waits)
for file in /tmp/store/*.pb; do echo "FILE $(gzip -c $file | base64 | tr -d '\\n')"; done
"""
GROUPS = """
umount /sys/fs/cgroup
mount -t tmpfs none /sys/fs/cgroup
for i in cpu memory; do mkdir /sys/fs/cgroup/$i; mount -t cgroup -o $i none /sys/fs/cgroup/$i; done
echo "mounted $(grep -c "^none /sys/fs/cgroup/.* cgroup " /proc/mounts)"
mkdir /sys/fs/cgroup/cpu/shop
victim-chain 5 >/tmp/victim &
echo $! >/sys/fs/cgroup/cpu/shop/cgroup.procs
victim-omit depth 30 >/tmp/omit &
echo "TARGETS $(spanprof targets --cgroup /shop 2>&1 | tr '\\n' ' ')"
spanprof receive --port 4318 -o /tmp/store >/tmp/receive.log 2>&1 &
for i in $(seq 100); do grep -q listening /tmp/receive.log && break; sleep 0.2; done
spanprof run --cgroup /shop --endpoint http://127.0.0.1:4318 -d 15s --stop-timeout 60s >/tmp/log 2>&1
echo "status $?"
sed "s/^/LOG /" /tmp/log
"""
MANY = """
spanprof receive --port 4318 -o /tmp/store >/tmp/receive.log 2>&1 &
for i in $(seq 100); do grep -q listening /tmp/receive.log && break; sleep 0.2; done
for i in $(seq 4); do victim-chain 5 >/tmp/victim & done
sleep 3
spanprof run --comm victim-chain --endpoint http://127.0.0.1:4318 -d 15s --stop-timeout 60s --summary /tmp/summary \\
        >/tmp/log 2>&1
echo "status $?"
sed "s/^/LOG /" /tmp/log
echo "SUMMARY $(cat /tmp/summary | tr -d '\\n')"
"""
REFUSED = """
echo "kernel $(uname -r)"
PREPARE
WITHOUT spanprof doctor >/tmp/doctor 2>&1
sed "s/^/DOCTOR /" /tmp/doctor
victim-chain 5 >/tmp/victim &
WITHOUT spanprof run -p $! -d 3s >/tmp/log 2>&1
echo "status $?"
sed "s/^/LOG /" /tmp/log
"""
SECONDS = 40            # of an emulated CPU
COMPLETE = 0.95         # of all stacks that are not from before their rows
FEW = 300


class Kernels(tap.TestCase):
    @classmethod
    def setUpClass(cls):
        tap.need_root()
        cls.python = qemu.python_files()
        cls.programs = [tap.SPANPROF, tap.need_tool("setpriv"), tap.BUILD_DIR / "sdk/example/example-service",
                        *(tap.VICTIMS / f"victim-{name}" for name in ("omit", "waits", "chain"))]

    def guest(self, kernel, script, cpus=2, no_loop=False):
        programs = self.programs
        if no_loop:                     # under the usual name
            folder = self.directory()
            (folder / "spanprof").symlink_to(tap.BUILD_DIR / "tests/harness/no-loop/spanprof-no-loop")
            programs = [folder / "spanprof", *programs[1:]]
        console = qemu.boot(self, kernel, [*programs, "/usr/bin/python3.11"], script, cpus=cpus, more=self.python)
        for line in console.splitlines():
            print(f"# {line[:160]}")
        return console

    def stored(self, console):
        folder = self.directory()
        for i, text in enumerate(re.findall(r"(?m)^FILE (\S+)$", console)):
            (folder / f"{i:06}.pb").write_bytes(gzip.decompress(base64.b64decode(text)))
        self.assertEqual(oracle.check(sorted(folder.iterdir())), [])
        return [sample for path in sorted(folder.iterdir()) for sample in otlp_read.samples(path)]

    def check_waits(self, counters, samples):
        waits = [s for s in samples if s.type == "off_cpu"]
        reasons = {s.attributes["wait.reason"] for s in waits}
        self.assertLessEqual({"futex", "read", "sleep", "poll"}, reasons)
        self.assertGreater(counters["waits_total"]["begun"], 100)
        self.assertGreater(counters["wait_wakers_total"]["thread"], 0)

    def check_stacks(self, console):
        self.assertRegex(console, r"(?m)^stacks 0$")
        self.assertRegex(console, r"(?m)^STACKS pid \d+ \(victim-waits\): \d+ threads?, ")
        self.assertRegex(console, r"(?m)^STACKS     main +victim-waits$")

    def check_python(self, samples):
        """Its functions are found by the walk over runtimes: a program that is loaded when it is needed."""
        chains = [[frame.name for frame in reversed(sample.frames) if frame.type == "cpython"] for sample in samples]
        chains = [chain for chain in chains if chain]
        for chain in chains:
            self.assertEqual(chain, qemu.PYTHON_FUNCTIONS[:len(chain)])
        self.assertGreater(sum(chain == qemu.PYTHON_FUNCTIONS for chain in chains), FEW / 10)

    def main_job(self, name, no_loop=False):
        suite, package, version = KERNELS[name]
        script = JOB.replace("SECONDS", str(SECONDS)).replace("PYTHON_CHAIN", qemu.PYTHON_CHAIN)
        console = self.guest(qemu.kernel_of(suite, package), script, no_loop=no_loop)
        self.assertRegex(console, rf"(?m)^kernel {re.escape(version)}")
        self.assertRegex(console, r"(?m)^status 0$")
        self.assertRegex(console, r"(?m)^DOCTOR ok +kernel-half")
        # Debian's, as it starts
        self.assertRegex(console, r"(?m)^DOCTOR ok +perf_event_paranoid +3: .*CAP_SYS_ADMIN")
        self.check_stacks(console)
        summary = json.loads(re.search(r"(?m)^SUMMARY (.*)$", console)[1])
        self.assertEqual(summary["ticks"], summary["delivered"] + summary["lost"])
        lost = summary["counters"]["lost_total"]
        # an emulated daemon that gets no CPU has a full ring, and says so
        self.assertEqual(summary["lost"], lost["not_target"] + lost["ring_full"])
        self.assertEqual(lost["ring_full"] > 0, "the ring to the daemon was full" in console)
        contexts = summary["counters"]["contexts_total"]
        self.assertGreater(contexts["present"], FEW)
        self.assertEqual(contexts["unreadable"], 0)
        samples = self.stored(console)
        stacks = summary["counters"]["stacks_total"]
        self.assertGreaterEqual(stacks["complete"] / (summary["delivered"] - stacks["pending"]), COMPLETE, stacks)
        self.check_waits(summary["counters"], samples)
        self.check_python(samples)
        return console

    def test_6_1_without_bpf_loop(self):
        """The kernel half of 5.15 and 5.16, which no suite has any more, on the oldest kernel that there is."""
        self.main_job("6.1", no_loop=True)

    def test_6_1(self):
        self.main_job("6.1")

    def test_6_12(self):
        self.main_job("6.12")

    def test_the_newest(self):
        self.main_job("newest")

    def test_preempt_rt(self):
        console = self.main_job("PREEMPT_RT")
        self.assertRegex(console, r"(?m)^version .*PREEMPT_RT")

    def test_cgroup_v1(self):
        """The groups of each controller are a tree of their own; a target is found by its group in any of them."""
        console = self.guest(qemu.kernel_of(*KERNELS["6.12"][:2]), GROUPS)
        self.assertRegex(console, r"(?m)^status 0$")
        found = re.search(r"(?m)^TARGETS (.*)$", console)
        self.assertIn("victim-chain", found[1])
        self.assertRegex(console, r"(?m)^LOG .*[1-9]\d* ticks = [1-9]\d* samples delivered")

    def test_eight_cpus(self):
        console = self.guest(qemu.kernel_of(*KERNELS["6.12"][:2]), MANY, cpus=8)
        self.assertRegex(console, r"(?m)^status 0$")
        summary = json.loads(re.search(r"(?m)^SUMMARY (.*)$", console)[1])
        self.assertEqual(summary["ticks"], summary["delivered"] + summary["lost"])
        self.assertEqual(summary["cpus"], 8)
        self.assertGreater(summary["delivered"], FEW)

    def test_a_kernel_that_perfmon_does_not_pass_is_named(self):
        """Level 3 is for CAP_SYS_ADMIN, and the daemon has the others."""
        for name in ("6.12", "newest"):
            with self.subTest(kernel=name):
                console = self.refused(qemu.kernel_of(*KERNELS[name][:2]),
                                       without="/bin/setpriv --bounding-set -sys_admin --inh-caps -sys_admin")
                self.assertRegex(console, r"(?m)^DOCTOR fail +perf_event_paranoid +3: .*CAP_SYS_ADMIN")
                self.assertRegex(console, r"(?m)^LOG .*sysctl -w kernel\.perf_event_paranoid=2")

    def refused(self, kernel, prepare="", without=""):
        console = self.guest(kernel, REFUSED.replace("PREPARE", prepare).replace("WITHOUT", without))
        self.assertRegex(console, r"(?m)^status 78$")
        return console

    def test_a_kernel_that_is_too_old_is_named(self):
        console = self.refused(qemu.kernel_of(*OLD))
        self.assertRegex(console, r"(?m)^DOCTOR .*5\.10 is too old.*5\.15")
        self.assertRegex(console, r"(?m)^LOG .*5\.15")

    def test_a_kernel_without_btf_is_told_what_it_needs(self):
        console = self.refused(qemu.kernel_of(*KERNELS["6.12"][:2]), "mount -t tmpfs none /sys/kernel/btf")
        self.assertRegex(console, r"(?m)^DOCTOR fail +btf")
        self.assertRegex(console, r"(?m)^LOG .*CONFIG_DEBUG_INFO_BTF")


tap.main()
