#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The package under its unit: each capability, system call and path of the unit by the feature that it pays
for, each line that closes something by an attempt from inside; and the same features for `sudo spanprof record`.
One boot."""
import oracle

oracle.enter()

import contextlib
import gzip
import json
import pathlib
import re
import subprocess
import sys

import installed
import otlp_read
import packages
import session
import tap

UNIT = tap.SOURCE_DIR / "systemd/spanprof.service.in"


def table(title, rows):
    """For people: what shows each row."""
    print(title, *(f"    {name:<42} {shown}" for name, shown in rows.items()), sep="\n", file=sys.stderr)


@contextlib.contextmanager
def sysctl(name, value):
    path = pathlib.Path("/proc/sys") / name.replace(".", "/")
    before = path.read_text()
    path.write_text(value)
    try:
        yield
    finally:
        path.write_text(before)


class Table(tap.TestCase):
    def test_each_line_of_the_unit_says_how_it_is_shown(self):
        text = UNIT.read_text().replace("@sbindir@", "/usr/sbin")
        section = text[text.index("[Service]"):text.index("[Install]")]
        lines = re.findall(r"^[A-Z]\w+=.*$", section, re.M)
        self.assertEqual(set(lines) - set(installed.LINES), set(), "lines that no test shows")
        self.assertEqual(set(installed.LINES) - set(lines), set(), "lines that the unit does not have")
        for line, shown in installed.LINES.items():
            for way in shown:
                known = any(way in names for names in (installed.LOOKS, installed.STEPS, installed.ATTEMPTS,
                                                       installed.SETTINGS, tap.SCRIPTS))
                self.assertTrue(known, f"{line}: {way}")


class Package(tap.TestCase):
    def test_has_debian_s_changelog_for_apt_and_ours_beside_it(self):
        tree = self.directory()
        self.run_command(["dpkg-deb", "--extract", packages.of("spanprof"), tree], expect=0)
        theirs, ours = (gzip.decompress((tree / "usr/share/doc/spanprof" / name).read_bytes()).decode()
                        for name in ("changelog.gz", "CHANGELOG.md.gz"))
        self.assertRegex(theirs, r"^spanprof \(\S+\) \w+; urgency=")
        self.assertIn("CHANGELOG.md.gz", theirs)
        self.assertEqual(ours, (tap.SOURCE_DIR / "CHANGELOG.md").read_text())


class Installed(session.TestCase):
    def test_all_that_is_promised_works_under_the_unit_and_nothing_more(self):
        self.machine = installed.Machine(self)
        self.machine.begin_programs()
        self.machine.prepare_attempts()
        for name, step in installed.STEPS.items():
            with self.subTest(name):
                getattr(self, step)()

    def features(self, title, samples, names=tuple(installed.LOOKS)):
        found = {name: installed.LOOKS[name](samples) for name in names}
        table(title, found)
        self.assertEqual([name for name, shown in found.items() if not shown], [])

    def under_the_unit(self):
        self.machine.configure()
        self.assertTrue(self.machine.start(), self.machine.journal("spanprof"))
        found = installed.look(self.machine)
        table("under the unit", found)
        self.assertEqual([name for name in installed.LOOKS if name not in found], [],
                         self.machine.journal("spanprof")[-3000:])

    def by_hand(self):
        """As root at a terminal, without the service's sandbox and without its configuration."""
        machine = self.machine
        machine.run("systemctl", "stop", "spanprof")
        machine.run("sh", "-c", f"DEBUGINFOD_URLS={machine.debug_server.url} exec spanprof record --all --duration 6s "
                    "--frequency 199 --off-cpu --lines --debuginfod --output /root/recording.pb")
        copy = self.directory() / "recording.pb"
        copy.write_bytes(subprocess.run(["cat", f"/proc/{machine.leader}/root/root/recording.pb"], check=True,
                                        capture_output=True).stdout)
        samples = list(otlp_read.samples(copy))
        self.features("by hand", samples, [name for name in installed.LOOKS if name not in installed.SERVICE_ONLY])
        lines = {(f.name, pathlib.Path(f.file).name) for f in installed.frames_of(samples, "/victim-chain")}
        self.assertIn(("chain_leaf", "victim-chain.c"), lines)
        machine.end_programs("kernel", "user")
        machine.start()

    def processes(self):
        """What the calls that the filter lets pass are for, as /proc shows it; and what only the manager sees."""
        machine = self.machine
        shown = machine.show("spanprof", "MainPID", "CPUWeight", "MemoryMax", "MemorySwapMax", "OOMPolicy", "TasksMax")
        main = int(shown.pop("MainPID"))
        self.assertEqual(shown, {"CPUWeight": "500", "MemoryMax": str(512 << 20), "MemorySwapMax": "0",
                                 "OOMPolicy": "continue", "TasksMax": "64"})
        facts = installed.processes(machine, main)
        table("its processes", facts)
        self.assertEqual({name: facts[name] for name in installed.PROCESSES}, installed.PROCESSES)

    def socket(self):
        machine = self.machine
        status = ["spanprof", "status", "--json"]
        answer = json.loads(machine.run("runuser", "-u", "member", "--", *status).stdout)
        self.assertGreater(answer["ticks"], 0)
        refused = machine.run("runuser", "-u", "stranger", "--", *status, expect=None)
        self.assertNotEqual(refused.returncode, 0)
        self.assertRegex(refused.stderr, "group|permission|root", "what to do")

    def reload(self):
        """A filter by control group, which the daemon reads of each process."""
        machine = self.machine
        machine.configure("[targets]", "all = off", "cgroup = *program-user.service")
        machine.run("systemctl", "reload", "spanprof")
        tap.wait_until(lambda: "targets      1 of" in machine.run("spanprof", "status").stdout, "one target")
        machine.forget()
        tap.wait_until(lambda: len(machine.samples()) > 100, "samples of it")
        programs = {s.resource["process.executable.name"] for s in machine.samples()[-50:]}
        self.assertEqual(programs, {"victim-chain"})

    def spool(self):
        """What was sampled while nobody listened is sent by the daemon that comes after."""
        machine = self.machine
        machine.configure("[export]", "endpoint = http://127.0.0.1:1")
        machine.run("systemctl", "restart", "spanprof")
        tap.wait_until(lambda: len(machine.run("find", "/var/lib/spanprof/spool", "-type", "f", "-size",
                                               "+0").stdout.split()) > 2, "requests on the disk")
        machine.run("systemctl", "stop", "spanprof")
        before = machine.realtime()
        machine.forget()
        machine.configure()
        machine.start()
        tap.wait_until(lambda: [s for s in machine.samples() if s.time_ns and s.time_ns < before],
                       f"samples of before; {machine.journal('spanprof')[-2000:]}")

    def strict_kernel(self):
        """As Debian and hardened hosts have it. Of the kernel's functions no name can be had, and that is said."""
        machine = self.machine
        with sysctl("kernel.perf_event_paranoid", "3"), sysctl("kernel.kptr_restrict", "1"):
            machine.forget()
            self.assertTrue(machine.start(), machine.journal("spanprof"))
            found = installed.look(machine, ("samples", "kernel names", "programs of other users"))
            self.assertEqual(len(found), 3, found)
        with sysctl("kernel.kptr_restrict", "2"):
            self.assertTrue(machine.start(), machine.journal("spanprof"))
            machine.forget()
            tap.wait_until(lambda: [f for s in machine.samples() for f in s.frames if f.type == "kernel"], "kernel frames")
            self.assertEqual({f.name for s in machine.samples() for f in s.frames if f.type == "kernel"}, {""})
            self.assertRegex(machine.journal("spanprof"), "kptr_restrict")
            self.assertRegex(machine.run("spanprof", "status").stdout, "kptr_restrict")
            self.assertEqual(self.doctor()["kallsyms"]["result"], "warn")
        machine.start()
        self.assertEqual(self.doctor()["kallsyms"]["result"], "ok")

    def doctor(self):
        """Findings by name, by the view of the daemon that runs."""
        done = self.machine.run("spanprof", "doctor", "--json", expect=None)
        return {check["name"]: check for check in json.loads(done.stdout)["checks"] if check["view"] == "daemon"}

    def attempts(self):
        """From inside the sandbox. What is left behind there goes with the unit."""
        machine = self.machine
        machine.run("systemctl", "stop", "spanprof")
        text = pathlib.Path(f"{machine.root}{installed.UNIT}").read_text()
        got = machine.attempts(text)
        table("refused from inside", {name: got.get(name) for name in installed.ATTEMPTS})
        self.assertEqual({name: got.get(name) for name in installed.ATTEMPTS}, installed.ATTEMPTS)
        self.assertEqual({name: got.get(name) for name in installed.SETTINGS}, installed.SETTINGS)
        user = machine.run("id", "-u", "spanprof").stdout.strip()
        rows = [line.split() for line in machine.run("cat", "/proc/sysvipc/shm").stdout.splitlines()[1:]]
        self.assertNotIn(user, [row[7] for row in rows], "RemoveIPC=")


tap.main()
