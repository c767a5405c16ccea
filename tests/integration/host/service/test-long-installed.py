#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The unit without one of its lines: the feature that the line pays for is gone, and what it closes is open.
So the table of harness/installed.py says what is true, and the checks of test-installed.py can fail."""
import oracle

oracle.enter()

import pathlib
import re

import installed
import session
import sidecar
import tap

CALLS = "SystemCallFilter=bpf perf_event_open setrlimit setpriority sched_setaffinity capset"
# Word of CALLS → what it pays for. setrlimit limits the CPU time of a worker (test-workers.py).
CALL_SHOWN = {
    "bpf": ["samples"],
    "perf_event_open": ["samples"],
    "setpriority": ["nice of its workers"],
    "sched_setaffinity": ["threads on one CPU"],
    "capset": ["samples"],
}
# Pays with a kernel that asks CAP_SYS_ADMIN of timers (Debian's, where kernel.perf_event_paranoid is 3).
KERNELS_OWN = {"AmbientCapabilities=CAP_SYS_ADMIN"}
# What needs a right of root's as well: its user, the set of capabilities and the filter refuse it, too.
OF_ROOT = {"change_clock", "change_hostname", "load_module", "become_realtime", "call_chroot", "call_reboot"}
RIGHTS = ("User=", "Group=", "CapabilityBoundingSet=", "SystemCallFilter=")


class LongInstalled(session.TestCase):
    def setUp(self):
        self.machine = installed.Machine(self)

    def unit(self):
        return pathlib.Path(f"{self.machine.root}{installed.UNIT}").read_text()

    def under(self, unit, names):
        """What of these features the daemon shows under that unit."""
        machine = self.machine
        machine.run("systemctl", "stop", "spanprof")
        machine.write(installed.LOCAL_UNIT, unit)
        machine.forget()
        if not machine.start():
            return set()
        if set(names) & set(installed.PROCESSES):
            installed.look(machine, ["samples", "Java"])
            main = int(machine.show("spanprof", "MainPID")["MainPID"])
            facts = installed.processes(machine, main)
            return {name for name in names if facts[name] == installed.PROCESSES[name]}
        return set(installed.look(machine, names, patience=20))

    def test_each_feature_goes_with_the_line_that_pays_for_it(self):
        self.machine.begin_programs()
        self.machine.configure()
        own = ("Exec", "SystemCallFilter", *KERNELS_OWN)
        lines = {line: [way for way in ways if way in installed.LOOKS]
                 for line, ways in installed.LINES.items() if not line.startswith(own)}
        lines |= {f"{CALLS}:{word}": ways for word, ways in CALL_SHOWN.items()}
        for line, ways in lines.items():
            if ways:
                with self.subTest(line):
                    self.assertEqual(self.under(self.unit(), ways), set(ways), "with it")
                    self.assertEqual(self.under(self.machine.without(line), ways), set(), "without it")

    def test_what_only_systemd_252_hid_is_shown_to_be_missed(self):
        """ProtectKernelTunables= hides the names of the kernel's functions: the check sees it."""
        self.machine.begin_programs()
        self.machine.configure()
        text = self.unit().replace("[Install]", "[Service]\nProtectKernelTunables=yes\n[Install]")
        names = ["samples", "kernel names"]
        self.assertEqual(self.under(text, names), {"samples"})

    def test_each_attempt_succeeds_without_the_lines_that_refuse_it(self):
        """Those with one line: without that one. Those with several: without all of them."""
        self.machine.prepare_attempts()
        for attempt, refused in installed.ATTEMPTS.items():
            text = self.unit()
            for line, ways in installed.LINES.items():
                if attempt in ways or (attempt in OF_ROOT and line.startswith(RIGHTS)):
                    text = re.sub(rf"(?m)^{re.escape(line)}$", "", text)
            with self.subTest(attempt):
                if attempt == "read_kernel_memory" and not pathlib.Path("/proc/kcore").exists():
                    continue                        # this kernel has none
                self.assertNotEqual(self.machine.attempts(text)[attempt], refused)


class LongSidecar(sidecar.Case):
    def test_what_each_right_of_the_sidecar_pays_for(self):
        service = self.service()
        self.assertEqual(self.shown_by_sidecar(service), set(sidecar.PAYS.values()))
        self.assertLessEqual(set(sidecar.capabilities("sidecar.yaml")), set(sidecar.PAYS))
        for right, feature in sidecar.PAYS.items():
            with self.subTest(right):
                self.assertNotIn(feature, self.shown_by_sidecar(service, (right,)))


tap.main()
