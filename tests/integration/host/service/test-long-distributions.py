#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Debian's releases beside the one that the packages are built on: what apt says of the package there, and
the main job in a root of each; and the tarball with its own libraries. Debian 12 is in test-long-service.py,
publishers on 13 in test-installs.py."""
import pathlib
import re
import shutil

import fresh
import nspawn
import packages
import session
import tap

STATIC = tap.BUILD_DIR / "packaging/static/spanprof-static"
INSTALL = "apt-get -q install -y --no-install-recommends /tmp/spanprof_*.deb"
BUSY = "for i in $(seq 3000000); do :; done"


class Debian(session.TestCase):
    def root(self, suite):
        root = fresh.Root(self, "plain", [], suite)
        root.mount("--bind", "/sys", root.path / "sys")
        return root

    def check_changelog(self, root):
        """Apt reads the installed one: no server is asked."""
        said = root.run(self, "apt-get -q changelog spanprof")
        self.assertRegex(said, r"(?m)^spanprof \(\S+\) \w+; urgency=")

    def check_sudoers(self, root):
        """OPERATING.md, Without root: the lines of the rule, and nothing else."""
        text = (tap.SOURCE_DIR / "docs/OPERATING.md").read_text().split("### Without root\n")[1].split("\n## ")[0]
        rules = re.findall(r"(?m)^    (%profilers .*)$", text)
        self.assertEqual(len(rules), 2)
        root.write("/etc/sudoers.d/spanprof", "".join(f"{rule}\n" for rule in rules))
        root.run(self, "chmod 440 /etc/sudoers.d/spanprof; visudo --check --quiet; groupadd --system profilers; "
                       "useradd --groups profilers dev; useradd other")
        busy = root.spawn(self, "while :; do :; done")
        record, stacks = "spanprof record -a -d 10 -o - --format folded", f"spanprof stacks {busy.pid}"
        self.assertIn("bash", root.run(self, f"runuser -u dev -- sudo -n {record}"))
        self.assertIn("bash", root.run(self, f"runuser -u dev -- sudo -n {stacks}"))
        for who, line in (("other", record), ("other", stacks), ("dev", record.replace("-o -", "-o /etc/cron.d/x")),
                          ("dev", f"{record} -c /etc/shadow"), ("dev", f"{stacks} -c /etc/shadow"),
                          ("dev", f"{stacks} -o /etc/cron.d/x"), ("dev", "spanprof run"), ("dev", "id")):
            done = self.run_command(root.words(f"runuser -u {who} -- sudo -n {line}", "/root", {}), timeout=60)
            self.assertEqual((done.returncode, done.stdout), (1, ""), line)
            self.assertIn("sudo: a password is required", done.stderr)
        busy.stop()

    def check_package(self, suite, becomes=False, also=()):
        """@becomes: the suite is not released, and may lack for days what one of its own packages needs."""
        root = self.root(suite)
        shutil.copy(packages.of("spanprof"), root.path / "tmp")
        # a mirror that stands still has lists of these suites that are over after a week
        root.run(self, "apt-get -q update" + " -o Acquire::Check-Valid-Until=false" * becomes)
        if becomes:
            done = self.run_command(root.words(f"{INSTALL} --dry-run", "/root", {}), timeout=300)
            if re.search(r"(?i)unmet dependencies|unable to satisfy dependencies", done.stdout + done.stderr):
                tap.skip(f"machine: {suite} cannot have the package now: {(done.stdout + done.stderr)[-600:]}")
        root.run(self, INSTALL)
        said = root.run(self, "spanprof version")
        self.assertIn(f"spanprof {tap.version()}", said)
        # those that are loaded when they are needed have the names that they had where it was built
        loaded = re.search(r"(?m)^libraries: (.*)$", said)[1].split(", ")
        for name in self.run_command([tap.SOURCE_DIR / "packaging/libraries", "--noted", tap.SPANPROF],
                                     expect=0).stdout.split():
            file = root.run(self, f"readlink -e /usr/lib/*-linux-gnu/{name}").strip()
            self.assertIn(pathlib.Path(file).name, loaded)
        root.run(self, f"spanprof record -o /tmp/a.json -- bash -c '{BUSY}'")
        self.assertRegex(root.run(self, "spanprof report /tmp/a.json"), r"bash")
        for check in also:
            check(root)
        root.run(self, "apt-get -q remove -y spanprof")
        self.assertFalse(any((root.path / "usr/sbin").glob("spanprof")))

    def test_13(self):
        self.check_package("trixie", also=(self.check_changelog, self.check_sudoers))

    def test_14_as_it_becomes(self):
        self.check_package("forky", becomes=True)

    def test_unstable(self):
        self.check_package("sid", becomes=True)

    def test_11_runs_the_bundle_of_the_daemon_with_its_own_libraries(self):
        """Older than those of Ubuntu 22.04, too, whose libbpf and C library the package does not find there."""
        tap.need_tool("patchelf")
        root = self.root("bullseye")
        bundle = self.directory() / "spanprof-bundle.tar.gz"
        self.run_command([tap.SOURCE_DIR / "packaging/bundle", tap.SPANPROF, bundle], expect=0, timeout=300)
        shutil.copy(bundle, root.path / "tmp")
        install, *use, uninstall = re.findall(r"(?m)^    sudo (.*bundle.*|/opt/spanprof/.*|rm -r /opt/spanprof.*)$",
                                              (tap.SOURCE_DIR / "docs/OPERATING.md").read_text())
        root.run(self, install, "/tmp")
        for line in use:
            self.assertIn("spanprof", root.run(self, f"{line.split()[0]} version"))
        ours = "/opt/spanprof/sbin/spanprof"
        said = root.run(self, f"{ours} version")
        for name in self.run_command([tap.SOURCE_DIR / "packaging/libraries", "--noted", tap.SPANPROF],
                                     expect=0).stdout.split():
            self.assertIn(name, said)
        receive = root.spawn(self, f"exec {ours} receive --port 0 -o /tmp/got --run-as root")
        port = receive.wait_for(r"127\.0\.0\.1:(\d+)")[1]
        run = root.spawn(self, f"exec {ours} run --comm bash --endpoint http://127.0.0.1:{port} --export-interval 1s "
                               "--run-as root --symbols local")
        burn = root.spawn(self, "while :; do :; done")
        tap.wait_until(lambda: list((root.path / "tmp/got").glob("*.pb")), f"a window of {run}; {receive}")
        run.stop()
        burn.stop()
        receive.stop()
        self.assertIn("bash", root.run(self, f"{ours} report /tmp/got"))
        root.run(self, uninstall)
        self.assertFalse((root.path / "opt/spanprof").exists())

    def test_the_bundle_is_a_service_by_the_lines_of_the_documents(self):
        """On a Debian 12, whose systemd is PID 1: as the package's unit, from /opt/spanprof."""
        tap.need_tool("patchelf")
        machine, receiver = nspawn.Machine(self), session.Receiver(self)
        bundle = self.directory() / "spanprof-bundle.tar.gz"
        self.run_command([tap.SOURCE_DIR / "packaging/bundle", tap.SPANPROF, bundle], expect=0, timeout=300)
        machine.copy(bundle, "/root/spanprof-bundle.tar.gz")
        text = (tap.SOURCE_DIR / "docs/OPERATING.md").read_text()
        text = text[text.index("**Where libraries are older**"):text.index("## Runbook")]
        lines = [line.split(" #")[0].strip() for line in re.findall(r"(?m)^    sudo (.+)$", text)]
        unpack, doctor, *begin, end, remove = lines
        self.assertRegex(doctor, "doctor$")
        machine.write("/etc/spanprof/spanprof.conf", f"[export]\nendpoint = {receiver.url}\nexport-interval = 1s\n"
                                                     "[targets]\ncomm = burn\n")
        machine.write("/usr/local/bin/burn", "#!/bin/bash\nwhile :; do :; done\n")
        machine.run("chmod", "+x", "/usr/local/bin/burn")
        machine.run("systemd-run", "--unit=target", "--property=DynamicUser=yes", "/usr/local/bin/burn")
        for line in (unpack, *begin):
            machine.run("bash", "-c", f"cd /root && {line}")
        tap.wait_until(lambda: list(receiver.paths()), f"a window: {machine.journal('spanprof')}")
        state = machine.show("spanprof", "User", "FragmentPath", "MemoryMax", "UnitFileState", "MainPID")
        self.assertEqual((state["User"], state["UnitFileState"]), ("spanprof", "enabled"))
        self.assertEqual(machine.run("readlink", f"/proc/{state['MainPID']}/exe").stdout, "/opt/spanprof/sbin/spanprof\n")
        self.assertNotIn(" /usr/lib/", machine.run("cat", f"/proc/{state['MainPID']}/maps").stdout)
        self.assertRegex(machine.run("/opt/spanprof/sbin/spanprof", "config", "show").stdout, "max-cpu += 50 ")
        machine.run("bash", "-c", end)
        machine.run("bash", "-c", remove)
        left = machine.show("spanprof", "LoadState", "ActiveState")
        self.assertEqual((left["LoadState"], left["ActiveState"]), ("not-found", "inactive"))

    def test_11_has_older_libraries_and_the_static_program(self):
        """The package is refused by name, and what runs without libraries reads what others recorded."""
        root = self.root("bullseye")
        shutil.copy(packages.of("spanprof"), root.path / "tmp")
        root.run(self, "apt-get -q update")
        done = self.run_command(root.words("apt-get -q install -y /tmp/spanprof_*.deb", "/root", {}), timeout=300)
        self.assertNotEqual(done.returncode, 0)
        self.assertRegex(done.stdout + done.stderr, r"spanprof : Depends: libbpf1 .*\n(.*\n)*.*libc6 \(>= ")
        shutil.copy(STATIC, root.path / "usr/local/bin/spanprof")
        shutil.copy(tap.SOURCE_DIR / "tests/data/go-cpu.pb.gz", root.path / "tmp")
        self.assertTrue(re.search(r"(?m)^spanprof \S+", root.run(self, "spanprof version")))
        self.assertIn("main.", root.run(self, "spanprof report /tmp/go-cpu.pb.gz"))


if __name__ == "__main__":
    tap.main()
