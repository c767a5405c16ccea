#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Machines of many CPUs: guests of QEMU with 2, 8, 32 and 64 of them, and one of two CPUs that may get 255.

The daemon starts there, needs what PERFORMANCE.md says ("By CPUs"), and follows CPUs that go and come. Under
TCG: all CPUs share the host's few, so it is slow, and no share of time means anything.
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

KERNEL = ("trixie", "linux-image-amd64")
OLD = ("bookworm", "linux-image-amd64")         # counts CPUs that the firmware lists and has not switched on
HZ = 99
KIB = 1 << 10
# The daemon has a group of its own: what the kernel charges to it is beside what maps say of themselves.
SCRIPT = """
echo "kernel $(uname -r)"
echo "possible $(cat /sys/devices/system/cpu/possible)"
group=/sys/fs/cgroup/daemon
echo +memory >/sys/fs/cgroup/cgroup.subtree_control
mkdir $group
spanprof receive --port 4318 -o /tmp/store >/tmp/receive.log 2>&1 &
for i in $(seq 100); do grep -q listening /tmp/receive.log && break; sleep 0.2; done
for i in $(seq 6); do victim-chain 5 >/tmp/victim & done
sh -c "echo \\$\\$ >$group/cgroup.procs; exec spanprof run --comm victim-chain --endpoint http://127.0.0.1:4318 \\
        -F @HZ@ --export-interval 10s --stop-timeout 120s --control /tmp/socket --summary /tmp/summary >/tmp/log 2>&1" &
daemon=$!
cpus() { for i in $(seq 600); do spanprof status --control /tmp/socket 2>/dev/null | grep -q "Hz on $1 CPU" && echo "has $1" && break; sleep 0.2; done; }
ticks() { spanprof status --json --control /tmp/socket | sed -n 's/.*"ticks": \\([0-9]*\\).*/\\1/p'; }
burn() {        # as long as it takes where the host has little time for us
        before=$(ticks)
        for i in $(seq 60); do sleep 2; [ $(($(ticks) - before)) -ge $1 ] && break; done
}
for i in $(seq 600); do grep -q "profiles go to" /tmp/log && break; sleep 0.2; done
cpus @ONLINE@
burn 300
for file in /proc/$daemon/fdinfo/*; do
        echo "MAP $(grep -E "^(map_type|max_entries|memlock):" $file | tr -s '\\t\\n' '  ')"
done | grep map_type
# rings of the kernel's own notices, one a CPU
echo "NOTICES $(grep -A1 'anon_inode:\\[perf_event\\]' /proc/$daemon/smaps | awk '/^Size/ { n++; sum += $2 } END { print n + 0, sum + 0 }')"
echo "GROUP $(cat $group/memory.current) $(grep -E '^(anon|file|kernel|percpu|vmalloc|slab) ' $group/memory.stat | tr '\\n' ' ')"
@HOTPLUG@
kill -TERM $daemon
wait $daemon
echo "status $?"
sed "s/^/LOG /" /tmp/log
echo "SUMMARY $(cat /tmp/summary | tr -d '\\n')"
for file in /tmp/store/*.pb; do echo "FILE $(gzip -c $file | base64 | tr -d '\\n')"; done
"""
# A program that may only use the CPU that has come back is sampled if the timer there is.
AWAY = """
echo 0 >/sys/devices/system/cpu/cpu@LAST@/online
cpus @LAST@
burn 100
echo 1 >/sys/devices/system/cpu/cpu@LAST@/online
cpus @ONLINE@
taskset -c @LAST@ victim-chain 5 >/tmp/late &
echo "LATE $!"
burn 300
"""
# All that were off come, and one of them gets a program.
MORE = """
for i in $(seq @ONLINE@ @LAST@); do echo 1 >/sys/devices/system/cpu/cpu$i/online; done
cpus @ALL@
taskset -c @LAST@ victim-chain 5 >/tmp/late &
echo "LATE $!"
burn 300
"""
LEAST = 20              # samples of the program that has one CPU
PERCPU_ARRAY, RINGBUF = 6, 27
# The promise of PERFORMANCE.md, in KiB: working memory for each CPU that there may ever be, and the rest
A_CPU, FIXED = 90, 1536
RINGS_OWN = 96          # pages of positions and lists of pages, of the three rings


def power_of_two(n, least, most):
    size = least
    while size < n:
        size *= 2
    return min(size, most)


def rings(n):
    """KiB of the rings of samples, stacks and notices for @n CPUs that are online."""
    return (power_of_two(2 * HZ * n * 1 / 4, 128, 64 << 10) + power_of_two(HZ * n * 8 / 10, 256, 4 << 10) +
            power_of_two(128 * n, 128, 1 << 10))


def mappings(n):
    """KiB of the rings of the kernel's notices of mappings, with the pages of both events of a CPU."""
    size = 256
    while size > 32 and size * n > 8 << 10:
        size //= 2
    return n * (size + 3 * 4)


class Scale(tap.TestCase):
    @classmethod
    def setUpClass(cls):
        tap.need_root()

    def guest(self, cpus, online, hotplug, options="", kernel=KERNEL, may_get=""):
        """(console, summary)"""
        script = SCRIPT.replace("@HOTPLUG@", hotplug)
        for name, value in {"HZ": HZ, "ONLINE": online, "ALL": cpus, "LAST": cpus - 1}.items():
            script = script.replace(f"@{name}@", str(value))
        console = qemu.boot(self, qemu.kernel_of(*kernel), [tap.SPANPROF, tap.VICTIMS / "victim-chain"], script,
                            cpus=f"{cpus}{may_get}", options=options, patience=1200)
        print("".join(f"# {line[:200]}\n" for line in console.splitlines()))
        self.assertRegex(console, r"(?m)^status 0$")
        summary = json.loads(re.search(r"(?m)^SUMMARY (.*)$", console)[1])
        self.assertEqual(summary["ticks"], summary["delivered"] + summary["lost"])
        return console, summary

    def late(self, console):
        """Samples of the program that was started last."""
        pid, path, n = int(re.search(r"(?m)^LATE (\d+)$", console)[1]), self.directory() / "stored.pb", 0
        for text in re.findall(r"(?m)^FILE (\S+)$", console):
            path.write_bytes(gzip.decompress(base64.b64decode(text)))
            n += sum(sample.resource["process.pid"] == pid for sample in otlp_read.samples(path))
        return n

    def memory(self, console):
        """kind of map → bytes"""
        found = collections.Counter()
        for kind, size in re.findall(r"(?m)^MAP map_type: (\d+) .*memlock: (\d+)", console):
            found[int(kind)] += int(size)
        return found

    def judge(self, console, possible, online):
        maps = self.memory(console)
        said = int(re.search(r"BPF maps take (\d+) KiB", console)[1])
        notices = re.search(r"(?m)^NOTICES (\d+) (\d+)$", console)
        group = re.search(r"(?m)^GROUP (\d+) (.*)$", console)
        fixed = said * KIB - maps[PERCPU_ARRAY] - maps[RINGBUF]         # without rows, which came later
        print(f"# {online} of {possible} CPUs: maps {said} KiB: {maps[PERCPU_ARRAY] / KIB / possible:.1f} KiB a CPU, "
              f"rings {maps[RINGBUF] / KIB:.0f}, the rest {fixed / KIB:.0f}; notices of mappings {notices[2]} KiB in "
              f"{notices[1]} rings; the group has {int(group[1]) / KIB:.0f} KiB: {group[2]}")
        self.assertLess(maps[PERCPU_ARRAY] / KIB / possible, A_CPU)
        self.assertEqual(int(notices[2]), mappings(online))
        if not maps[RINGBUF]:           # 6.1 does not count them, and says of other maps what they may become
            return
        self.assertLess(fixed / KIB, FIXED)
        self.assertGreaterEqual(maps[RINGBUF] / KIB, rings(online))
        self.assertLess(maps[RINGBUF] / KIB, rings(online) + RINGS_OWN)

    def away(self, n):
        console, summary = self.guest(n, n, AWAY)
        self.assertEqual(re.findall(r"(?m)^has (\d+)$", console), [str(n), str(n - 1), str(n)])
        self.judge(console, n, n)
        self.assertGreater(self.late(console), LEAST)

    def test_2(self):
        self.away(2)

    def test_8(self):
        self.away(8)

    def test_32(self):
        self.away(32)

    def test_64(self):
        self.away(64)

    def test_two_of_255(self):
        """As virtual machines say that may be given more: rings are for two."""
        console, summary = self.guest(2, 2, "", kernel=OLD, may_get=",maxcpus=255")
        self.judge(console, 255, 2)

    def test_six_come(self):
        console, summary = self.guest(8, 2, MORE, options="maxcpus=2")
        self.assertEqual(re.findall(r"(?m)^has (\d+)$", console), ["2", "8"])
        self.judge(console, 8, 2)
        self.assertGreater(self.late(console), LEAST)


tap.main()
