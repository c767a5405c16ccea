#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The files that systemd reads, judged by systemd's own tools."""
import os
import re
import shutil

import tap

UNIT = tap.BUILD_DIR / "systemd/spanprof.service"
FOLDER = tap.SOURCE_DIR / "systemd"


def catalog():
    """MESSAGE_ID → subject."""
    text = (FOLDER / "spanprof.catalog").read_text()
    return dict(re.findall(r"^-- ([0-9a-f]{32})\nSubject: (.+)$", text, re.M))


class Units(tap.TestCase):
    def root(self):
        """A tree as after an installation, for tools that take --root."""
        root = self.directory()
        for path, source in {"usr/lib/systemd/system/spanprof.service": UNIT,
                             "usr/lib/systemd/catalog/spanprof.catalog": FOLDER / "spanprof.catalog",
                             "usr/lib/systemd/system-preset/50-spanprof.preset": FOLDER / "spanprof.preset",
                             "usr/lib/sysusers.d/spanprof.conf": FOLDER / "spanprof.sysusers.conf",
                             "usr/lib/tmpfiles.d/spanprof.conf": FOLDER / "spanprof.tmpfiles.conf"}.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, root / path)
        (root / "etc").mkdir()
        (root / "run").mkdir()
        return root

    def test_exposure_is_at_most_3(self):
        analyze = tap.need_tool("systemd-analyze")
        done = self.run_command([analyze, "security", "--no-pager", "--offline=yes", "--threshold=30", UNIT])
        level = re.search(r"Overall exposure level for spanprof.service: ([0-9.]+)", done.stdout)
        self.assertIsNotNone(level, done)
        self.assertLessEqual(float(level[1]), 3.0)
        self.assertEqual(done.returncode, 0)

    def test_each_exposure_that_stays_is_explained(self):
        analyze = tap.need_tool("systemd-analyze")
        done = self.run_command([analyze, "security", "--no-pager", "--offline=yes", UNIT], expect=0)
        held = re.findall(r"^✗ (\S+)", done.stdout, re.M)
        self.assertGreater(len(held), 5)
        text = UNIT.read_text()
        explained = text[text.index("# What `systemd-analyze security`"):]
        short = {"CapabilityBoundingSet=~CAP_(DAC_*|FOWNER|IPC_OWNER)": "CAP_DAC_READ_SEARCH",
                 "RestrictAddressFamilies=~AF_(INET|INET6)": "AF_INET and AF_INET6",
                 "RootDirectory=/RootImage=": "RootDirectory="}
        for name in held:
            words = short.get(
                name, re.sub(r"^(CapabilityBoundingSet|RestrictAddressFamilies|SystemCallFilter)=~", "",
                             name))
            self.assertIn(words, explained, f"{name} is held against the unit, and no line says why it stays")

    def test_unit_is_valid(self):
        analyze = tap.need_tool("systemd-analyze")
        done = self.run_command([analyze, "verify", "--man=no", "--recursive-errors=no", UNIT],
                                env={**os.environ, "SYSTEMD_LOG_LEVEL": "notice"})
        of_ours = [line for line in (done.stdout + done.stderr).splitlines()
                   # it is not installed here
                   if "spanprof.service" in line and "is not executable" not in line]
        self.assertEqual(of_ours, [])

    def test_has_exactly_the_capabilities_that_are_explained(self):
        text = UNIT.read_text()
        granted = re.findall(r"^AmbientCapabilities=(\w+)$", text, re.M)
        self.assertEqual(set(granted), set(re.search(r"^CapabilityBoundingSet=(.+)$", text, re.M)[1].split()))
        self.assertEqual(set(granted), {"CAP_BPF", "CAP_PERFMON", "CAP_SYS_PTRACE", "CAP_DAC_READ_SEARCH",
                                        "CAP_CHECKPOINT_RESTORE", "CAP_SYSLOG", "CAP_SYS_ADMIN"})
        for name in granted:
            self.assertRegex(text, rf"# {name} +\w.+\nAmbientCapabilities={name}\n")

    def test_user_and_directories_are_made(self):
        root = self.root()
        self.run_command([tap.need_tool("systemd-sysusers"), f"--root={root}"], expect=0)
        user = [
            line.split(":") for line in (root / "etc/passwd").read_text().splitlines()
            if line.startswith("spanprof:")
        ]
        self.assertEqual(len(user), 1)
        self.assertEqual(user[0][6], "/usr/sbin/nologin")
        tap.need_root()
        self.run_command([tap.need_tool("systemd-tmpfiles"), "--create", f"--root={root}", "spanprof.conf"],
                         expect=0)
        self.assertEqual((root / "run/spanprof").stat().st_uid, int(user[0][2]))
        self.assertEqual((root / "run/spanprof").stat().st_mode & 0o777, 0o755)
        self.assertEqual((root / "run/spanprof/spanprof.conf.d").stat().st_uid, 0)

    def test_stays_disabled_when_installed(self):
        root = self.root()
        systemctl = tap.need_tool("systemctl")
        self.run_command([systemctl, f"--root={root}", "preset", "spanprof.service"], expect=0)
        done = self.run_command([systemctl, f"--root={root}", "is-enabled", "spanprof.service"])
        self.assertEqual(done.stdout.strip(), "disabled")
        self.run_command([systemctl, f"--root={root}", "enable", "spanprof.service"], expect=0)
        self.assertTrue((root / "etc/systemd/system/multi-user.target.wants/spanprof.service").is_symlink())

    def test_catalog_explains_each_event_of_the_code(self):
        code = dict(
            (i, n)
            for n, i in re.findall(r'X\((\w+), "([0-9a-f]{32})"\)', (tap.SOURCE_DIR /
                                                                     "daemon/core/base/util/log.h").read_text()))
        self.assertGreater(len(code), 3)
        self.assertEqual(set(catalog()), set(code))
        root = self.root()
        (root / "var/lib/systemd/catalog").mkdir(parents=True)
        self.run_command([tap.need_tool("journalctl"), f"--root={root}", "--update-catalog"], expect=0)
        done = self.run_command([tap.need_tool("journalctl"), f"--root={root}", "--list-catalog"], expect=0)
        for identity, subject in catalog().items():
            self.assertIn(f"{identity} spanprof: {subject}", done.stdout)


class Condition(tap.TestCase):
    """`spanprof config endpoint`, on which the unit's start depends."""

    def endpoint(self, text, expect):
        path = self.directory() / "spanprof.conf"
        path.write_text(text)
        env = {k: v for k, v in os.environ.items() if not k.startswith(("SPANPROF_", "OTEL_"))}
        return self.spanprof("config", "endpoint", "--config", path, expect=expect, env=env)

    def test_installed_configuration_has_no_endpoint(self):
        done = self.endpoint((FOLDER / "spanprof.conf").read_text(), 1)
        self.assertIn("no endpoint is set", done.stderr)

    def test_installed_configuration_is_valid_and_its_examples_too(self):
        text = (FOLDER / "spanprof.conf").read_text()
        path = self.directory() / "a.conf"
        for version in (text, re.sub(r"^#(?=[a-z-]+ = )", "", text, flags=re.M)):
            path.write_text(version)
            self.spanprof("config", "check", path)
        self.assertIn("endpoint = http", version)
        self.assertEqual(
            self.endpoint(version, 0).stdout, "http://collector.example:4318/v1development/profiles\n")

    def test_a_wrong_configuration_is_left_to_the_start(self):
        self.endpoint("nonsense = 1\n", 0)


class Shipped(tap.TestCase):
    """Lines of the shipped configuration that are commented out, beside what is in force in the unit without them."""
    SETTING = re.compile(r"# ?([a-z-]+) =(?: (.*))?$")

    def shown(self, text):
        """Option → value and origin, in the unit's environment (systemd.exec(5)), with @text for a configuration."""
        state = re.search(r"^StateDirectory=(.+)$", UNIT.read_text(), re.M)[1]
        path = self.directory() / "a.conf"
        path.write_text(text)
        env = {k: v for k, v in os.environ.items() if not k.startswith(("SPANPROF_", "OTEL_"))}
        done = self.spanprof("config", "show", "--config", path, env={**env, "STATE_DIRECTORY": f"/var/lib/{state}"})
        return {m[1]: (m[2].strip(), m[3].replace(str(path), "FILE"))
                for m in re.finditer(r"^([a-z-]+) += (.*?) +# (.*)$", done.stdout, re.M)}

    def lines(self, text):
        """(option, value, whether it is an example) of each line that is commented out and looks like a setting."""
        example, found = False, []
        for line in text.splitlines():
            setting = self.SETTING.fullmatch(line)
            if setting:
                found.append((setting[1], setting[2] or "", example))
            else:
                example = bool(re.match(r"#.*\bExamples?:$", line))
        return found

    def test_comments_tell_the_truth_of_defaults(self):
        n = 0
        for path in (FOLDER / "spanprof.conf", tap.SOURCE_DIR / "packaging/10-service.conf"):
            text = path.read_text()
            shown = self.shown(text)
            for option, value, is_example in self.lines(text):
                with self.subTest(file=path.name, option=option):
                    self.assertNotIn("FILE", shown[option][1], "it is set beside its own default")
                    self.assertEqual(shown[option][0] == value, not is_example, shown[option])
                n += not is_example
        self.assertGreaterEqual(n, 5)

    def test_the_service_has_a_spool_and_limits(self):
        shown = self.shown((tap.SOURCE_DIR / "packaging/10-service.conf").read_text())
        self.assertEqual(shown["spool"], ("/var/lib/spanprof/spool", "STATE_DIRECTORY"))
        self.assertEqual((shown["max-cpu"][0], shown["max-memory"][0]), ("50", "384MiB"))
        self.assertRegex(shown["max-cpu"][1], r"^FILE:\d+$")


tap.main()
