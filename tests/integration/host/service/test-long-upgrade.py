#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""From 0.1.0 to this version and back under the shipped unit, with each removed option set. 0.1.0 is the tag
v0.1.0, or else the commit before the first entry of the changelog that came after it."""
import oracle

oracle.enter()

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
VALUES = {"max-samples": "100", "max-export-age": "10m", "upload-samples": "5"}


def git(*words):
    done = subprocess.run(["git", "-C", tap.SOURCE_DIR, *words], capture_output=True, text=True)
    return done.stdout.strip() if not done.returncode else ""


def revision():
    after = git("log", "--format=%H", f"--grep={FIRST_AFTER}")
    return git("rev-parse", "--verify", "--quiet", "v0.1.0^{commit}") or \
        (git("rev-parse", "--verify", "--quiet", f"{after}^") if after else "")


def old_package(test):
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

    def configure(self, options):
        lines = "".join(f"{name} = {VALUES[name]}\n" for name in options)
        self.machine.write(f"{FOLDER}/50-test.conf", f"[export]\nendpoint = {self.receiver.url}\nexport-interval = 1s\n"
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

        self.install(new)
        self.configure(options)
        said = self.runs()
        for name, advice in options.items():
            for written in (f"{FOLDER}/50-test.conf:[0-9]+: {name}", variable(name)):
                self.assertRegex(said, f"{written}: there is no such option since version .*: {re.escape(advice)}")
        page = set(re.findall(r"^\| `(\w+)`", (tap.SOURCE_DIR / "docs/METRICS.md").read_text(), re.M))
        self.assertEqual(before - self.families() - page, set(), "metrics that are gone, which no row of METRICS.md names")

        self.install(old)
        self.configure(known)
        self.runs()


tap.main()
