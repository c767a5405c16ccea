#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The Debian package on a Debian with systemd as PID 1: installed by apt, enabled, reloaded, restarted, upgraded, purged."""
import oracle

oracle.enter()

import re

import nspawn
import otlp_read
import packages
import session
import tap

VICTIM = tap.VICTIMS / "victim-chain"
DROP_IN = "/etc/spanprof/spanprof.conf.d/50-test.conf"


class Service(session.TestCase):
    def setUp(self):
        self.machine = nspawn.Machine(self)
        self.receiver = session.Receiver(self)

    def install(self, deb):
        self.machine.copy(deb, "/root/spanprof.deb")
        self.machine.run("apt-get", "--quiet", "install", "--yes", "--no-install-recommends",
                         "--option=Dpkg::Options::=--force-confdef",
                         "--option=Dpkg::Options::=--force-confold", "--allow-downgrades",
                         "/root/spanprof.deb")

    def start_target(self):
        """A service of the machine that burns CPU; its name is what it is chosen by."""
        self.machine.copy(VICTIM, "/usr/local/bin/victim-chain")
        self.machine.run("systemd-run", "--unit=target", "--property=DynamicUser=yes",
                         "/usr/local/bin/victim-chain", "5")

    def configure(self, text="", url=None):
        self.machine.write(DROP_IN, f"[export]\nendpoint = {url or self.receiver.url}\nexport-interval = 1s\n"
                                    f"[targets]\ncomm = victim-chain\n{text}")

    def samples(self):
        """Of the target, stored so far."""
        paths = [p for p in self.receiver.paths() if p.with_suffix(".json").exists()]
        return sum(s.value for p in paths for s in otlp_read.samples(p))

    def wait_samples(self, more=1):
        n = self.samples()
        tap.wait_until(lambda: self.samples() >= n + more,
                       f"{more} more samples; the journal:\n{self.machine.journal('spanprof')}")

    def sampled(self):
        """Of the target, so far: ticks on programs that turn out not to be chosen are `lost` here, and in no sum at the end."""
        ticks, lost = re.search(r"ticks +(\d+) = .* (\d+) lost",
                                self.machine.run("spanprof", "status").stdout).groups()
        return int(ticks) - int(lost)

    def main_pid(self):
        return int(self.machine.show("spanprof", "MainPID")["MainPID"])

    def test_life_of_the_service(self):
        machine = self.machine
        with self.subTest("installing collects nothing"):
            self.install(packages.of("spanprof"))
            self.start_target()
            self.assertEqual(
                machine.run("systemctl", "is-enabled", "spanprof", expect=None).stdout.strip(), "disabled")
            self.assertEqual(machine.show("spanprof", "ActiveState")["ActiveState"], "inactive")
            machine.run("systemctl", "start", "spanprof")
            state = machine.show("spanprof", "ActiveState", "Result", "ConditionResult")
            self.assertEqual(state["ActiveState"], "inactive", "there is no endpoint yet")
            self.assertIn("no endpoint is set", machine.journal("spanprof"))

        with self.subTest("profiles arrive outside"):
            self.configure()
            machine.run("systemctl", "enable", "--now", "spanprof")
            self.assertEqual(machine.show("spanprof", "ActiveState")["ActiveState"], "active")
            self.wait_samples(20)
            names = {f.name for p in self.receiver.paths() for s in otlp_read.samples(p) for f in s.frames}
            self.assertTrue(names)
            status = machine.run("spanprof", "status").stdout
            self.assertIn("targets      1 of ", status)

        with self.subTest("it runs as its own user with six capabilities and no way to more"):
            status = machine.run("cat", f"/proc/{self.main_pid()}/status").stdout
            self.assertNotEqual(re.search(r"^Uid:\t(\d+)", status, re.M)[1], "0")
            wanted = sum(1 << bit for bit in (2, 19, 34, 38, 39, 40))
            for row in ("CapEff", "CapPrm"):
                self.assertEqual(int(re.search(rf"^{row}:\t(\w+)", status, re.M)[1], 16), wanted, row)
            for row in ("CapInh", "CapAmb"):
                self.assertEqual(int(re.search(rf"^{row}:\t(\w+)", status, re.M)[1], 16), 0, row)
            # CAP_SYS_ADMIN, given up at the start. To leave this set takes CAP_SETPCAP. NoNewPrivs makes it
            # worthless there.
            bounding = int(re.search(r"^CapBnd:\t(\w+)", status, re.M)[1], 16)
            self.assertEqual(bounding, wanted | 1 << 21)
            self.assertIn("NoNewPrivs:\t1", status)
            self.assertIn("Seccomp:\t2", status)
            self.assertIn("660 spanprof",
                          machine.run("stat", "-c", "%a %U", "/run/spanprof/control.sock").stdout)
            self.assertIn("700 spanprof", machine.run("stat", "-c", "%a %U", "/var/lib/spanprof").stdout)

        with self.subTest("reload"):
            pid = self.main_pid()
            self.configure("[sampling]\nfrequency = 499\n")
            machine.run("systemctl", "reload", "spanprof")
            tap.wait_until(lambda: "at 499 Hz" in machine.journal("spanprof"), "the new configuration")
            machine.write(DROP_IN, "[sampling]\nfrequency = often\n")
            self.assertNotEqual(machine.run("systemctl", "reload", "spanprof", expect=None).returncode, 0)
            tap.wait_until(lambda: "the old one stays in force" in machine.journal("spanprof"), "a refusal")
            self.assertIn(f"{DROP_IN}:2: frequency", machine.journal("spanprof"))
            self.assertEqual(self.main_pid(), pid)
            self.assertEqual(machine.show("spanprof", "ActiveState")["ActiveState"], "active")
            self.wait_samples()
            entries = machine.run("journalctl", "--no-pager", "--output=verbose", "--unit=spanprof",
                                  "REASON=reload").stdout
            self.assertIn("MESSAGE_ID=", entries)
            self.assertIn("A new configuration was refused",
                          machine.run("journalctl", "--no-pager", "--catalog", "REASON=reload").stdout)
            self.configure()

        with self.subTest("restart"):
            pid = self.main_pid()
            machine.run("systemctl", "restart", "spanprof")
            self.assertNotEqual(self.main_pid(), pid)
            self.wait_samples()

        with self.subTest("a configuration that is wrong at the start is not tried again"):
            machine.write(DROP_IN, "nonsense = 1\n")
            machine.run("systemctl", "restart", "spanprof", expect=1)
            state = machine.show("spanprof", "ActiveState", "ExecMainStatus", "NRestarts")
            self.assertEqual((state["ActiveState"], state["ExecMainStatus"], state["NRestarts"]),
                             ("failed", "78", "0"))
            self.configure()
            machine.run("systemctl", "reset-failed", "spanprof")
            machine.run("systemctl", "start", "spanprof")

        with self.subTest("a loop that is stuck is killed and started again"):
            machine.write("/run/systemd/system/spanprof.service.d/watchdog.conf",
                          "[Service]\nWatchdogSec=2s\nRestartSec=100ms\n")
            machine.run("systemctl", "daemon-reload")
            machine.run("systemctl", "restart", "spanprof")
            pid = self.main_pid()
            machine.run("kill", "-STOP", str(pid))
            tap.wait_until(lambda: machine.show("spanprof", "NRestarts")["NRestarts"] == "1",
                           "a restart by the watchdog")
            tap.wait_until(lambda: machine.show("spanprof", "ActiveState")["ActiveState"] == "active",
                           "active again")
            self.assertIn("Watchdog timeout",
                          machine.run("journalctl", "--no-pager", "--unit=spanprof").stdout)
            self.assertNotEqual(self.main_pid(), pid)
            self.wait_samples()

        with self.subTest("one that is killed, as for want of memory, is started again"):
            pid = self.main_pid()
            n = int(machine.show("spanprof", "NRestarts")["NRestarts"])
            machine.run("kill", "-KILL", str(pid))
            tap.wait_until(lambda: int(machine.show("spanprof", "NRestarts")["NRestarts"]) > n, "a restart")
            tap.wait_until(lambda: machine.show("spanprof", "ActiveState")["ActiveState"] == "active",
                           "active again")
            self.assertNotEqual(self.main_pid(), pid)
            self.wait_samples()

        with self.subTest("one that has lost both processes that start its workers is started again"):
            pid = self.main_pid()
            n = int(machine.show("spanprof", "NRestarts")["NRestarts"])
            machine.run("sh", "-c", f"kill -STOP {pid}; pkill -KILL -P {pid}; kill -CONT {pid}")
            tap.wait_until(lambda: int(machine.show("spanprof", "NRestarts")["NRestarts"]) > n, "a restart")
            tap.wait_until(lambda: machine.show("spanprof", "ActiveState")["ActiveState"] == "active",
                           "active again")
            self.assertNotEqual(self.main_pid(), pid)
            self.assertIn("to be started again",
                          machine.run("journalctl", "--no-pager", "--catalog", "REASON=workers").stdout)
            self.wait_samples()

        with self.subTest("stop flushes the last window within two seconds"):
            machine.write("/run/systemd/system/spanprof.service.d/stop.conf",
                          "[Service]\nTimeoutStopSec=2s\n")
            machine.write(
                DROP_IN,
                f"[export]\nendpoint = {self.receiver.url}\nexport-interval = 1h\n[targets]\ncomm = victim-chain\n"
            )
            machine.run("systemctl", "daemon-reload")
            machine.run("systemctl", "stop", "spanprof")
            before = self.samples()
            machine.run("systemctl", "start", "spanprof")
            tap.wait_until(lambda: self.sampled() > 100, "samples")
            machine.run("systemctl", "stop", "spanprof")
            self.assertEqual(
                machine.show("spanprof", "Result")["Result"], "success", "not killed after the two seconds")
            last = [
                int(n) for n in re.findall(r"(\d+) ticks = (\d+) samples delivered \+ (\d+) lost",
                                           machine.journal("spanprof"))[-1]
            ]
            self.assertGreater(last[0], 100)
            self.assertEqual(last, [last[0], last[0], 0], machine.journal("spanprof")[-2000:])
            tap.wait_until(lambda: self.samples() - before >= last[0], "what was delivered is stored")
            self.assertEqual(self.samples() - before, last[0])

        with self.subTest("purge leaves nothing"):
            machine.run("systemctl", "start", "spanprof")
            machine.run("apt-get", "--quiet", "purge", "--yes", "spanprof")
            machine.run("systemctl", "stop", "target")
            left = machine.run("find", "/etc", "/usr", "/var/lib", "/run", "-xdev", "-name",
                               "*spanprof*").stdout.split()
            self.assertEqual([
                path for path in left
                if not path.startswith(("/var/lib/apt", "/run/systemd/transient", "/run/systemd/system"))
            ], [])
            self.assertNotIn("spanprof", machine.run("cat", "/etc/passwd", "/etc/group").stdout)
            self.assertEqual(machine.run("pgrep", "-x", "spanprof", expect=None).stdout, "")

    def test_upgrade_keeps_the_spool_and_the_options(self):
        machine, deb = self.machine, packages.of("spanprof")
        self.install(packages.with_version(self, deb, "0.0.1"))
        self.start_target()
        edited = "# edited by the administrator\n[sampling]\nfrequency = 487\n"
        machine.write("/etc/spanprof/spanprof.conf", edited)
        # nobody listens there: what is sampled waits
        self.configure(url="http://127.0.0.1:1")
        machine.run("systemctl", "enable", "--now", "spanprof")
        tap.wait_until(lambda: self.sampled() > 200, "samples")
        machine.run("systemctl", "stop", "spanprof")
        last = re.findall(r"(\d+) ticks = (\d+) samples delivered \+ (\d+) lost",
                          machine.journal("spanprof"))[-1]
        self.assertGreater(len(machine.run("find", "/var/lib/spanprof/spool", "-type", "f").stdout.split()),
                           1)

        self.install(deb)
        self.assertIn(f"Version: {tap.version()}\n", machine.run("dpkg", "--status", "spanprof").stdout)
        self.assertEqual(machine.run("cat", "/etc/spanprof/spanprof.conf").stdout, edited)
        self.assertEqual(machine.run("systemctl", "is-enabled", "spanprof").stdout.strip(), "enabled")
        machine.run("systemctl", "stop", "target")
        self.configure()
        machine.run("systemctl", "restart", "spanprof")
        self.assertIn("at 487 Hz", machine.journal("spanprof"))
        tap.wait_until(lambda: self.samples() >= int(last[0]),
                       f"{last} samples of before the upgrade, {self.samples()} are there")


tap.main()
