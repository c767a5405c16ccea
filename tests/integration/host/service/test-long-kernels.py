#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The kernels that fleets run: each of Debian's is booted under QEMU, and the same is asked of all.

What is special to 6.1 has a file of its own (test-long-kernel.py).
"""
import oracle

oracle.enter()

import base64
import collections
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
mkfifo /tmp/orders
victim-waits /tmp/waits </tmp/orders >/tmp/said &
exec 9>/tmp/orders
echo hold >&9
for i in $(seq 300); do grep -q ok /tmp/said && break; sleep 0.2; done
# Before it has work: a thread that is ready and has no CPU has no stack. Where preemption is lazy (7.2), one
# that was woken may stay so until the tick, and on a busy host ticks are rare.
spanprof stacks $(pidof victim-waits) >/tmp/stacks 2>&1
echo "stacks $?"
sed "s/^/STACKS /" /tmp/stacks
(while echo go; do sleep 1; done) >&9 &
exec 9>&-
python3.11 -I -S /tmp/chain.py 2>/dev/null &
python=$!
victim-omit depth DEPTH >/tmp/omit &
omit=$!
example-service --load 0.3 --spans /tmp/spans >/tmp/truth 2>&1 &
service=$!
for i in $(seq 100); do grep -q frames /tmp/omit && break; sleep 0.2; done
# Long enough that all of a round of victim-waits lies in it, from the first wait to the last
rounds() { grep -c " poll " /tmp/waits; }
before=$(rounds)
began=$(cut -d" " -f1 /proc/uptime)
spanprof run -p $omit -p $python -p $service -p $(pidof victim-waits) --off-cpu --endpoint http://127.0.0.1:4318 \\
        --export-interval 5s --stop-timeout 60s --summary /tmp/summary --metrics=127.0.0.1:9464 --log-level info \\
        >/tmp/log 2>&1 &
daemon=$!
for i in $(seq 1200); do grep -qs "BPF maps take" /tmp/log && break; sleep 0.05; done
echo "LOADED $began $(cut -d" " -f1 /proc/uptime)"
cat /proc/$daemon/fdinfo/* 2>/dev/null | sed -n "s/^verified_insns:[^0-9]*/VERIFIED /p"
# An emulated CPU reads rows of all that runs here for seconds: until then stacks are `pending`
stacks() { wget -qO - http://127.0.0.1:9464/metrics | sed -n "s/^spanprof_stacks_total{end=\\"$1\\"} //p"; }
for i in $(seq 100); do
        waited=$(stacks pending) whole=$(stacks complete)
        sleep 3
        [ "$(stacks pending)" = "$waited" ] && [ $(stacks complete) -ge $((whole + 100)) ] && break
done
echo "SETTLED $(date +%s)"
sleep SECONDS
for i in $(seq 300); do [ $(rounds) -ge $((before + 2)) ] && break; sleep 1; done
kill -TERM $daemon
wait $daemon
echo "status $?"
sed "s/^/LOG /" /tmp/log
echo "SUMMARY $(cat /tmp/summary | tr -d '\\n')"
kill $omit $python $service $(pidof victim-waits)
wait $service
echo "SPANS $(cut -d, -f1-3 /tmp/spans | gzip -c | base64 | tr -d '\\n')"
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
SECONDS = 25            # of an emulated CPU
COMPLETE = 0.995        # of all stacks that are not from before their rows
WHOLE = 0.995           # of those of the program without frame pointers, once its rows are there
DEPTH = 30              # of its functions, with libc's
KNOWN = 0.99            # of the samples in a function that is only called in a span: they show it
HELD = f"{90:016x}"     # the span of victim-waits' `hold`
FUNCTIONS = ("checkout_serve", "search_serve", "health_serve")
PUBLISHERS = ("example-service", "victim-waits")
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
        held = [len(s.frames) for s in waits if s.span_id == HELD]      # from before the daemon on, for ever
        self.assertGreater(sum(n >= 2 for n in held), 0, held)

    def check_stacks(self, console):
        self.assertRegex(console, r"(?m)^stacks 0$")
        self.assertRegex(console, r"(?m)^STACKS pid \d+ \(victim-waits\): 2 threads, 0 running, 2 waiting$")
        self.assertRegex(console, r"(?m)^STACKS     main +victim-waits$")
        self.assertRegex(console, rf"(?m)^STACKS     span {HELD} ")
        self.assertRegex(console, r"(?m)^STACKS     hold_main +victim-waits$")

    def check_python(self, samples):
        """Its functions are found by the walk over runtimes: a program that is loaded when it is needed."""
        chains = [[frame.name for frame in reversed(sample.frames) if frame.type == "cpython"] for sample in samples
                  if "profile.stack.truncated" not in sample.attributes]
        chains = [chain for chain in chains if chain]
        for chain in chains:
            self.assertEqual(chain, qemu.PYTHON_FUNCTIONS[:len(chain)])
        self.assertGreater(sum(chain == qemu.PYTHON_FUNCTIONS for chain in chains), FEW / 10)

    def check_victim(self, console, samples):
        """Once rows of all are there. Before, single stacks are whole by a copy. Return: the share that is whole."""
        settled = int(re.search(r"(?m)^SETTLED (\d+)$", console)[1]) * 10**9
        ends = collections.Counter(
            sample.attributes.get("profile.stack.truncated", "whole" if len(sample.frames) >= DEPTH else "short")
            for sample in samples if sample.type == "samples" and sample.time_ns >= settled
            and sample.resource["process.executable.name"] == "victim-omit")
        self.assertGreater(ends.total(), FEW)
        self.assertGreaterEqual(ends["whole"] / ends.total(), WHOLE, ends)
        return ends["whole"] / ends.total()

    def check_contexts(self, console, samples, unreadable):
        """The stack names the operation and knows nothing of spans; the service's log says whose span it is."""
        text = gzip.decompress(base64.b64decode(re.search(r"(?m)^SPANS (\S+)$", console)[1])).decode()
        log = {int(span, 16): (operation, int(thread))
               for span, operation, thread in (line.split(",") for line in text.splitlines()[1:])}
        threads = {thread for _, thread in log.values()} | {s.thread_id for s in samples if s.span_id}
        symbols, path = otlp_read.Symbols(), str(tap.BUILD_DIR / "sdk/example/example-service")
        counts = collections.Counter()
        for sample in samples:
            if sample.type != "samples" or sample.resource["process.executable.name"] != "example-service":
                continue
            names = (symbols.name(frame._replace(path=path)) for frame in sample.frames
                     if frame.path.endswith("example-service"))
            operation = next((name.split("_")[0] for name in names if name in FUNCTIONS), None)
            span = log.get(int(sample.span_id, 16), "never was") if sample.span_id else None
            if not operation:           # between two, or the stack ended early
                counts["other" if span != "never was" else "wrong"] += 1
            else:
                counts["right" if span == (operation, sample.thread_id) else "wrong" if span else "missing"] += 1
        self.assertEqual(counts["wrong"], 0, counts)
        self.assertGreater(counts["right"], FEW, counts)
        self.assertGreaterEqual(counts["right"] / (counts["right"] + counts["missing"]), KNOWN, counts)
        # the ring's page with its slot is not there: it was never written, and the thread had no span
        idle = sum(s.type == "samples" and s.resource["process.executable.name"] in PUBLISHERS and not s.span_id
                   and s.thread_id not in threads for s in samples)
        self.assertLessEqual(unreadable, idle)
        return counts

    def main_job(self, name, no_loop=False):
        suite, package, version = KERNELS[name]
        script = JOB.replace("SECONDS", str(SECONDS)).replace("DEPTH", str(DEPTH))
        script = script.replace("PYTHON_CHAIN", qemu.PYTHON_CHAIN)
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
        self.assertEqual(summary["lost"], lost["ring_full"])
        self.assertEqual(lost["ring_full"] > 0, "the ring to the daemon was full" in console)
        contexts = summary["counters"]["contexts_total"]
        self.assertGreater(contexts["present"], FEW)
        samples = self.stored(console)
        stacks = summary["counters"]["stacks_total"]
        self.assertGreaterEqual(stacks["complete"] / (summary["delivered"] - stacks["pending"]), COMPLETE, stacks)
        whole = self.check_victim(console, samples)
        spans = self.check_contexts(console, samples, contexts["unreadable"])
        self.check_waits(summary["counters"], samples)
        self.check_python(samples)
        began, loaded = map(float, re.search(r"(?m)^LOADED (\S+) (\S+)$", console).groups())
        verified = [int(n) for n in re.findall(r"(?m)^VERIFIED (\d+)$", console)]
        print(f"# RESULT {re.search(r'(?m)^kernel (.*)$', console)[1]}: {summary['ticks']} ticks = {summary['delivered']} "
              f"delivered + {summary['lost']} lost, victim whole {whole:.2%}, contexts {dict(spans)}, "
              f"waits {summary['counters']['waits_total']['begun']}, verified {sum(verified)} instructions of "
              f"{len(verified)} programs, loaded after {loaded - began:.1f} s", flush=True)
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

    def test_what_an_old_kernel_lacks_is_named(self):
        console = self.refused(qemu.kernel_of(*OLD))
        for name, since in (("for_each_map_elem", "5\\.13"), ("task_pt_regs", "5\\.15")):
            lacked = rf"lacks .*bpf_{name}\(\) in perf_event programs \(since Linux {since}\)"
            self.assertRegex(console, rf"(?m)^DOCTOR fail +bpf-perf_event .*{lacked}")
            self.assertRegex(console, rf"(?m)^LOG .*it {lacked}")

    def test_a_kernel_without_btf_is_told_what_it_needs(self):
        console = self.refused(qemu.kernel_of(*KERNELS["6.12"][:2]), "mount -t tmpfs none /sys/kernel/btf")
        self.assertRegex(console, r"(?m)^DOCTOR fail +btf")
        self.assertRegex(console, r"(?m)^LOG .*CONFIG_DEBUG_INFO_BTF")


tap.main()
