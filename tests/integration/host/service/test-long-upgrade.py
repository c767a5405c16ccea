#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""From 0.1.0 to this version and back under the shipped unit, with each removed option set. 0.1.0 is the tag
v0.1.0, or else the commit before the first entry of the changelog that came after it. What the journal says
of all starts is what the receiver has: each sample that a daemon delivered, or left in its spool."""
import oracle

oracle.enter()

import os
import pathlib
import re
import subprocess
import urllib.request

import nspawn
import otlp_read
import packages
import real_server
import session
import tap

FIRST_AFTER = "^Record a command or running processes into a file on this host$"
FOLDER = "/etc/spanprof/spanprof.conf.d"
VALUES = {"max-samples": "100", "max-export-age": "10m", "upload-samples": "5", "upload-protocol": "pyroscope",
          "attributes-keep": "host.name"}


def git(*words):
    done = subprocess.run(["git", "-C", tap.SOURCE_DIR, *words], capture_output=True, text=True)
    return done.stdout.strip() if not done.returncode else ""


def revision():
    after = git("log", "--format=%H", f"--grep={FIRST_AFTER}")
    return git("rev-parse", "--verify", "--quiet", "v0.1.0^{commit}") or \
        (git("rev-parse", "--verify", "--quiet", f"{after}^") if after else "")


def old_package(test):
    given = os.environ.get("SPANPROF_TEST_OLD_PACKAGES")        # ones of 0.1.0 that are there
    if given:
        return next(pathlib.Path(given).glob("spanprof_*.deb"))
    commit = revision()
    if not commit:
        tap.skip("machine: the sources of 0.1.0 are not here: this is no git repository, or a shallow one")
    tap.need_tool("dpkg-buildpackage")
    tree, output = test.directory() / "tree", test.directory() / "debs"
    tree.mkdir()
    archive = subprocess.run(["git", "-C", tap.SOURCE_DIR, "archive", commit], capture_output=True, check=True)
    subprocess.run(["tar", "-x", "-C", tree], input=archive.stdout, check=True)
    test.run_command([tree / "packaging/build-deb", tree, output], expect=0, timeout=1500)
    return next(output.glob("spanprof_*.deb"))


def removed():
    """{option: its advice} of the rows that files take."""
    table = (tap.SOURCE_DIR / "daemon/host/service/config/option-removed.c").read_text()
    rows = re.findall(r'^        \{ "([a-z-]+)", \w+, [A-Z_|\s]+, true,\s+\S+\s+"([^"]+)"', table, re.M)
    return dict(rows)


def variable(option):
    return f"SPANPROF_{option.upper().replace('-', '_')}"


class Upgrade(session.TestCase):
    def install(self, deb):
        self.machine.copy(deb, "/root/spanprof.deb")
        self.machine.run("apt-get", "--quiet", "install", "--yes", "--no-install-recommends", "--allow-downgrades",
                         "--option=Dpkg::Options::=--force-confdef", "--option=Dpkg::Options::=--force-confold",
                         "/root/spanprof.deb")

    def configure(self, options, url=None):
        lines = "".join(f"{name} = {VALUES[name]}\n" for name in options)
        self.machine.write(f"{FOLDER}/50-test.conf", f"[export]\nendpoint = {url or self.receiver.url}\n"
                           "export-interval = 1s\nspool = /var/lib/spanprof/spool\n"
                           f"{lines}[targets]\ncomm = victim-chain\n[daemon]\nmetrics = 127.0.0.1:{self.port}\n")
        self.machine.write("/etc/systemd/system/spanprof.service.d/old.conf", "[Service]\n" + "".join(
            f"Environment={variable(name)}={VALUES[name]}\n" for name in options))
        self.machine.run("systemctl", "daemon-reload")

    def samples(self):
        paths = [p for p in self.receiver.paths() if p.with_suffix(".json").exists()]
        return sum(s.value for p in paths for s in otlp_read.samples(p))

    def runs(self):
        """Starts it anew. Return: what it said since."""
        machine = self.machine
        before, said = self.samples(), len(machine.journal("spanprof"))
        machine.run("systemctl", "restart", "spanprof")
        tap.wait_until(lambda: self.samples() >= before + 20, f"samples: {machine.journal('spanprof')[-2000:]}")
        self.assertEqual(machine.show("spanprof", "ActiveState")["ActiveState"], "active")
        return machine.journal("spanprof")[said:]

    def sampled(self):
        """Of the target, by the daemon that runs now."""
        ticks, lost = re.search(r"ticks +(\d+) = .* (\d+) lost",
                                self.machine.run("spanprof", "status").stdout).groups()
        return int(ticks) - int(lost)

    def fill_spool(self, options):
        """Samples that no receiver takes: what runs next finds them."""
        self.configure(options, url="http://127.0.0.1:1")
        self.machine.run("systemctl", "restart", "spanprof")
        tap.wait_until(lambda: self.sampled() > 50, f"samples: {self.machine.journal('spanprof')[-2000:]}")

    def waiting(self):
        """Files of the spool that are requests, by the program that is installed."""
        return self.machine.run("find", "/var/lib/spanprof/spool", "-type", "f", "-name", "*.batch").stdout

    def check_books(self, starts):
        """All windows of all daemons that ended are here: nothing is lost, and nothing waits."""
        journal = self.machine.journal("spanprof")
        ends = [[int(n) for n in end]
                for end in re.findall(r"(\d+) ticks = (\d+) samples delivered \+ (\d+) lost", journal)]
        self.assertEqual(len(ends), starts, journal)
        moved = [[int(n) for n in m]
                 for m in re.findall(r"(\d+) samples went into the spool, (\d+) left it", journal)]
        self.assertTrue(moved, "samples of one daemon that another one sent")
        ticks, delivered, lost = map(sum, zip(*ends))
        written, taken = map(sum, zip(*moved))
        self.assertEqual((lost, written), (0, taken), journal[-4000:])
        self.assertEqual(ticks, delivered, journal[-4000:])
        tap.wait_until(lambda: self.samples() >= delivered, f"{delivered} samples, {self.samples()} are there")
        self.assertEqual(self.samples(), delivered)

    def families(self):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=30) as answer:
            return set(re.findall(r"^# TYPE (\w+) ", answer.read().decode(), re.M))

    def test_a_configuration_of_the_version_before_starts_on_both(self):
        options = removed()
        self.assertEqual(set(options), set(VALUES), "each removed option has a value here")
        old = old_package(self)
        new = packages.with_version(self, packages.of("spanprof"), "9.9.9~test")
        self.port, = real_server.free_ports(1)
        self.machine, self.receiver = nspawn.Machine(self), session.Receiver(self)
        self.machine.copy(tap.VICTIMS / "victim-chain", "/usr/local/bin/victim-chain")
        self.machine.run("systemd-run", "--unit=target", "--property=DynamicUser=yes", "/usr/local/bin/victim-chain", "5")

        self.install(old)
        manual = self.machine.run("spanprof", "run", "--help").stdout
        known = [name for name in options if f"--{name}" in manual]
        self.assertIn("max-samples", known)
        self.configure(known)
        self.runs()
        before = self.families()
        self.assertGreater(len(before), 20)

        self.fill_spool(known)
        self.install(new)                           # which starts it again, under the configuration that was
        tap.wait_until(lambda: self.sampled() > 20, "samples of the new one")
        self.configure(options)
        said = self.runs()
        for name, advice in options.items():
            for written in (f"{FOLDER}/50-test.conf:[0-9]+: {name}", variable(name)):
                self.assertRegex(said, f"{written}: there is no such option since version .*: {re.escape(advice)}")
        page = set(re.findall(r"^\| `(\w+)`", (tap.SOURCE_DIR / "docs/METRICS.md").read_text(), re.M))
        self.assertEqual(before - self.families() - page, set(), "metrics that are gone, which no row of METRICS.md names")

        self.fill_spool(known)
        self.install(old)
        self.configure(known)
        self.runs()
        self.machine.run("systemctl", "stop", "target")
        tap.wait_until(lambda: not self.waiting(), "an empty spool")
        self.machine.run("systemctl", "stop", "spanprof")
        self.check_books(7)


tap.main()
