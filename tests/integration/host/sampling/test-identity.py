#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Who a target is: what the daemon ships, and `targets` lists, of real processes in real control groups."""
import functools
import hmac
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import uuid

import groups
import session
import tap

SPIN = "import time\nwhile True: sum(range(20000)); time.sleep(0.008)"       # busy for a small part of the time
EXEC = f"""
import os, signal
signal.signal(signal.SIGUSR1, lambda *_: os.execve({sys.executable!r}, ["spin", "-c", {SPIN!r}],
                                                   {{"OTEL_SERVICE_NAME": "second"}}))
{SPIN}
"""
CONTAINER = os.urandom(32).hex()


@functools.lru_cache(maxsize=256)
def request_of(path, _size):
    """Read once, however often somebody waits for more of them."""
    return json.loads(path.read_text())


class Identity(tap.TestCase):
    def setUp(self):
        tap.need_root()

    def group(self, *names):
        return groups.make(self, *names)

    def spin(self, environment=None, group=None, code=SPIN, **options):
        """A busy process; it ends before its group is removed."""
        victim = self.spawn([sys.executable, "-c", code],
                            env={"PATH": os.environ["PATH"], **(environment or {})}, **options)
        if group:
            groups.enter(group, victim.pid)
        return victim

    def run_daemon(self, *options, environment=None):
        """The directory that requests of a daemon go to, and the daemon."""
        tap.need_btf()
        directory = self.directory()
        receiver = self.spawn([tap.SPANPROF, "receive", "--port", "0", "-o", directory])
        port = receiver.wait_for(r":(\d+)").group(1)
        daemon = self.spawn([
            tap.SPANPROF, "run", "--endpoint", f"http://127.0.0.1:{port}", "--export-interval", "1s",
            "--summary", directory / "summary", "--frequency", "999", *map(str, options)
        ], env={**os.environ, **session.WITHOUT_RUNTIMES, **(environment or {})})
        return directory, daemon

    @staticmethod
    def resources(directory):
        """{pid: [attributes of each resource, in the order of requests]}"""
        found = {}
        for path in sorted(directory.glob("*.json")):
            try:
                request = request_of(path, path.stat().st_size)
            except ValueError:
                continue                    # is being written
            for part in request["resourceProfiles"]:
                pairs = [(a["key"], *a["value"].values()) for a in part["resource"]["attributes"]]
                attributes = dict(pairs)
                if len(attributes) != len(pairs):
                    raise AssertionError(f"a key twice: {pairs}")
                found.setdefault(int(attributes["process.pid"]), []).append(attributes)
        return found

    def wait_resources(self, directory, *pids):
        def look():
            found = self.resources(directory)
            return found if all(pid in found for pid in pids) else None

        return tap.wait_until(look, f"requests with {pids}")

    def test_resources_say_what_targets_say_of_themselves(self):
        named = self.spin({
            "OTEL_SERVICE_NAME": "cart", "SECRET": "hunter2",
            "OTEL_RESOURCE_ATTRIBUTES": "service.name=other,team=a%2Cb,process.pid=1,process.executable.path=/x,"
            "bad,host.name=pod-7,telemetry.profiler.name=x"
        })
        datadog = self.spin({"DD_SERVICE": "till", "DD_ENV": "prod", "DD_VERSION": "1.5", "DD_API_KEY": "hunter3",
                             "OTEL_RESOURCE_ATTRIBUTES": "db.password=hunter4"})
        attributes = self.spin({"OTEL_RESOURCE_ATTRIBUTES": "service.name=search,euro=%E2%82%AC,broken=%FF"})
        comm = self.spin(code=f"open('/proc/self/comm', 'w').write('misleading')\n{SPIN}")
        directory, daemon = self.run_daemon("--pid", f"{named.pid},{datadog.pid},{attributes.pid},{comm.pid}")
        found = self.wait_resources(directory, named.pid, datadog.pid, attributes.pid, comm.pid)
        self.assertEqual(daemon.stop(), 0, daemon)

        executable = os.readlink(f"/proc/{comm.pid}/exe")
        for victim, expected in (
            (named, {
                "service.name": "cart", "team": "a,b", "process.pid": str(named.pid),
                "process.executable.path": executable, "host.name": "pod-7",
                "telemetry.profiler.name": "spanprof"
            }),
            (datadog, {
                "service.name": "till", "deployment.environment.name": "prod", "service.version": "1.5",
                "db.password": "***"
            }),
            (attributes,
             {"service.name": "search", "euro": "€", "broken": "\ufffd", "host.name": os.uname().nodename}),
            (comm, {"service.name": f"unknown_service:{os.path.basename(executable)}"}),
        ):
            self.assertLessEqual(expected.items(), found[victim.pid][0].items())
        for path in directory.iterdir():
            self.assertNotRegex(path.read_bytes(), b"hunter[234]")
        counters = json.loads((directory / "summary").read_text())["counters"]
        self.assertEqual(counters["environment_attributes_invalid_total"], 1)

    def test_the_id_of_the_machine_is_hashed_unless_it_is_asked_for(self):
        """Hashed by Python, as sd_id128_get_machine_app_specific(3) describes it, for the application that ABI.md names."""
        path = pathlib.Path("/etc/machine-id")
        if not path.exists() or not re.fullmatch("[0-9a-f]{32}\n?", path.read_text()):
            tap.skip("machine: it has no id")
        machine = path.read_text().strip()
        application = re.search("application id `([0-9a-f]{32})`",
                                (tap.SOURCE_DIR / "docs/ABI.md").read_text())[1]
        digest = hmac.new(bytes.fromhex(machine), bytes.fromhex(application), "sha256").digest()
        hashed = uuid.UUID(bytes=digest[:16], version=4).hex
        victim = self.spin()
        teller = self.spin({"OTEL_RESOURCE_ATTRIBUTES": f"host.id={machine}"})
        renamed = self.spin({"OTEL_RESOURCE_ATTRIBUTES": "host.id=theirs"})
        for options, expected in (((), hashed), (("--host-id", "hashed"), hashed),
                                  (("--host-id", "machine"), machine), (("--host-id", "none"), None)):
            with self.subTest(options=options):
                pids = [process.pid for process in (victim, teller, renamed)]
                directory, daemon = self.run_daemon("--pid", ",".join(map(str, pids)), *options)
                resources = self.wait_resources(directory, *pids)
                found = resources[victim.pid][0]
                self.assertEqual(daemon.stop(), 0, daemon)
                self.assertEqual(found.get("host.id"), expected)
                self.assertEqual(resources[teller.pid][0].get("host.id"), expected)
                self.assertEqual(resources[renamed.pid][0].get("host.id"),
                                 "theirs" if "machine" in options else expected)
                self.assertEqual(found["host.name"], os.uname().nodename)
                if "machine" not in options:
                    self.assertFalse([p for p in directory.iterdir() if machine.encode() in p.read_bytes()])
            out = self.directory() / "a.json"
            record = [tap.SPANPROF, "record", "--pid", victim.pid, "--frequency", "1999", "--duration", "500ms",
                      "-o", out, *options]
            # on a busy machine half a second may pass without a sample
            sparing = {**os.environ, **session.WITHOUT_RUNTIMES}
            tap.wait_until(lambda record=record: not self.run_command(record, env=sparing).returncode, record)
            attributes = json.loads(out.read_text())["resourceProfiles"][0]["resource"]["attributes"]
            self.assertEqual(
                {a["key"]: a["value"]["stringValue"] for a in attributes if a["key"] == "host.id"},
                {"host.id": expected} if expected else {})
        self.assertIn("`plain` is not one of its values",
                      self.spanprof("run", "--host-id", "plain", expect=2).stderr)

    def test_variables_of_the_daemon_name_no_service_but_where_it_runs(self):
        victim = self.spin()
        directory, daemon = self.run_daemon(
            "--pid", victim.pid, environment={
                "OTEL_SERVICE_NAME": "profiler",
                "OTEL_RESOURCE_ATTRIBUTES": "team=platform,service.name=profiler,service.version=7",
                "OTEL_SDK_DISABLED": "true"
            })
        found = self.wait_resources(directory, victim.pid)[victim.pid][0]
        self.assertEqual(daemon.stop(), 0, daemon)
        self.assertRegex(found["service.name"], "^unknown_service:")
        self.assertEqual((found["team"], "service.version" in found), ("platform", False))

    def test_an_operator_says_what_is_true_for_all(self):
        silent, named = self.spin(), self.spin({"OTEL_RESOURCE_ATTRIBUTES": "host.name=pod-7,region=moon"})
        directory, daemon = self.run_daemon(
            "--pid", f"{silent.pid},{named.pid}", "--resource-attributes",
            "host.name=node-1,k8s.cluster.name=blue%2C1,region=earth,process.pid=1,api_key=hunter2",
            environment={"OTEL_RESOURCE_ATTRIBUTES": "team=platform"})
        found = self.wait_resources(directory, silent.pid, named.pid)
        self.assertEqual(daemon.stop(), 0, daemon)
        for pid, host, region in ((silent.pid, "node-1", "earth"), (named.pid, "pod-7", "moon")):
            got = found[pid][0]
            self.assertEqual((got["host.name"], got["region"], got["k8s.cluster.name"], got["process.pid"],
                              got["api_key"], "team" in got),
                             (host, region, "blue,1", str(pid), "***", False), "the option replaces the variable")
        self.assertIn("2 of its items are not KEY=VALUE",
                      self.spanprof("run", "--resource-attributes", "a,=b", expect=2).stderr)

    def test_environments_are_left_alone_when_that_is_asked_for(self):
        victim = self.spin({"OTEL_SERVICE_NAME": "cart"})
        directory, _ = self.run_daemon("--pid", victim.pid, "--target-environment=off")
        found = self.wait_resources(directory, victim.pid)
        self.assertRegex(found[victim.pid][0]["service.name"], "^unknown_service:")

    def test_exec_makes_another_service(self):
        victim = self.spin({"OTEL_SERVICE_NAME": "first"}, code=EXEC)
        directory, _ = self.run_daemon("--pid", victim.pid)
        self.wait_resources(directory, victim.pid)
        victim.process.send_signal(signal.SIGUSR1)
        tap.wait_until(lambda: self.resources(directory)[victim.pid][-1]["service.name"] == "second",
                       "the second service")
        self.assertEqual(self.resources(directory)[victim.pid][0]["service.name"], "first")

    def test_selectors_choose_who_is_sampled(self):
        group = self.group("spanprof-test", "chosen.service")
        inside, spared = self.spin(group=group), self.spin(group=group)
        outside = self.spin()
        directory, _ = self.run_daemon("--cgroup", "/spanprof-test", "--user", "nobody", "--exclude",
                                       f"pid={spared.pid}")
        self.wait_resources(directory, inside.pid)
        # Those that come later are decided when they are seen first.
        # may not read where Python is
        late = self.spawn(["/bin/sh", "-c", "while :; do :; done"], user="nobody")
        found = self.wait_resources(directory, late.pid)
        self.assertEqual(set(found) & {inside.pid, spared.pid, outside.pid, late.pid}, {inside.pid, late.pid})

    @staticmethod
    def short_ones(resources):
        return [
            pid for pid, parts in resources.items()
            if any(part["process.executable.name"] == "victim-short" for part in parts)
        ]

    def test_processes_that_are_gone_at_once_belong_to_their_parents_group(self):
        """20 ms each: whoever comes late cannot read /proc/PID/cgroup. Where an exclude has to be asked too, those are left out."""
        group = self.group("spanprof-test", f"docker-{CONTAINER}.scope")
        short = tap.VICTIMS / "victim-short"
        code = f"import subprocess\nfor _ in range(40): subprocess.run([{str(short)!r}, '20'], stdout=subprocess.DEVNULL)"
        wait = "import sys\nsys.stdin.readline()\n"
        spawners = [
            self.spin(group=where, code=wait + code, stdin=subprocess.PIPE) for where in (group, None)
        ]
        daemons = [
            self.run_daemon("--cgroup", "/spanprof-test", *more)
            for more in ((), ("--exclude", "user=nobody"))
        ]
        for _, daemon in daemons:
            daemon.wait_for("profiles go to")
        for spawner in spawners:
            spawner.process.stdin.write(b"go\n")
            spawner.process.stdin.close()
        for spawner in spawners:
            self.assertEqual(spawner.wait(), 0, spawner)
        for _, daemon in daemons:
            self.assertEqual(daemon.stop(), 0, daemon)
        found, strict = (self.resources(directory) for directory, _ in daemons)
        chosen, among = (self.short_ones(resources) for resources in (found, strict))
        print(f"{len(chosen)} of 40, {len(among)} with an exclude")
        self.assertGreater(len(chosen), 30)
        # One that exits between two of our looks at it is left without a container, never given another one.
        for pids, resources in ((chosen, found), (among, strict)):
            self.assertLess(len(pids), 45, "none of the other group")
            containers = {part.get("container.id") for pid in pids for part in resources[pid]}
            self.assertLessEqual(containers, {CONTAINER, None})
        named = [pid for pid in chosen if any(part.get("container.id") for part in found[pid])]
        self.assertGreater(len(named), len(chosen) - 5)

    def test_resources_name_the_container(self):
        group = self.group("spanprof-test", f"docker-{CONTAINER}.scope")
        inside, outside = self.spin(group=group), self.spin()
        directory, _ = self.run_daemon("--pid", f"{inside.pid},{outside.pid}")
        found = self.wait_resources(directory, inside.pid, outside.pid)
        self.assertEqual(found[inside.pid][0]["container.id"], CONTAINER)
        self.assertNotIn("container.id", found[outside.pid][0])

    def test_who_keeps_the_rights_of_root_says_that_another_samples_the_same(self):
        """To look at tables of others takes CAP_SYS_ADMIN, which `run` gives up."""
        shared = self.spin()
        _, first = self.run_daemon("--pid", shared.pid)
        first.wait_for("profiles go to")
        second = self.spawn(
            [tap.SPANPROF, "record", "--pid", shared.pid, "-o",
             self.directory() / "x.folded"])
        found = second.wait_for(r"another spanprof samples (\d+) of these processes too \(pid (\d+), ")
        self.assertEqual(found.groups(), ("1", str(shared.pid)))
        self.assertEqual(second.stop(signal.SIGINT), 0)

    def list_targets(self, *options):
        """{pid: entry} as `spanprof targets` prints them."""
        done = self.spanprof("targets", "--json", *map(str, options))
        return {entry["pid"]: entry for entry in json.loads(done.stdout)}

    def test_targets_lists_who_publishes_and_on_request_why_others_are_not_chosen(self):
        publisher = self.spawn([tap.VICTIMS / "victim-ring"], stdin=subprocess.PIPE)
        publisher.process.stdin.write(b"publish 512\n")
        publisher.process.stdin.flush()
        address = int(publisher.wait_for(r"^ok (\S+)").group(1), 0)
        silent = self.spin({"OTEL_SERVICE_NAME": "cart"})

        chosen = self.list_targets()
        self.assertEqual(chosen[publisher.pid]["context"],
                         {"form": "ring", "address": hex(address), "slots": 512})
        self.assertEqual(chosen[publisher.pid]["reason"], "publishes context")
        self.assertNotIn(silent.pid, chosen)
        others = self.list_targets("--verbose")
        self.assertEqual(
            (others[silent.pid]["chosen"], others[silent.pid]["reason"], others[silent.pid]["service"]),
            (False, "publishes no context", "cart"))
        self.assertEqual(others[silent.pid]["executable"], os.readlink(f"/proc/{silent.pid}/exe"))
        self.assertNotIn("service", self.list_targets("--verbose", "--target-environment=off")[silent.pid])
        self.assertEqual(
            self.list_targets("--exclude", "comm=victim-ring", "-v")[publisher.pid]["reason"], "excluded")

    def test_targets_says_which_line_would_bring_spans(self):
        options = "--require @opentelemetry/auto-instrumentations-node/register"
        silent, other = self.spin({"NODE_OPTIONS": options}), self.spin({"NODE_OPTIONS": "--no-warnings"})
        listed = self.list_targets("--verbose")
        hint = listed[silent.pid]["tracing"]
        self.assertEqual(hint["library"], "OpenTelemetry's instrumentation of Node")
        # where it is installed is the build's affair
        self.assertRegex(hint["switched_on_by"], r'^npm install /\S+/share/spanprof/sdk/node\.tgz && '
                         r'export NODE_OPTIONS="\$NODE_OPTIONS --require spanprof-otel/register"$')
        self.assertNotIn("tracing", listed[other.pid])
        told = self.run_command([tap.SPANPROF, "targets", "--verbose"], expect=0).stderr
        self.assertIn(f"process {silent.pid} runs OpenTelemetry's instrumentation of Node and publishes no spans", told)
        self.assertNotIn(f"process {other.pid} runs", told)

    def test_targets_names_the_selector_that_chose(self):
        group = self.group("spanprof-test", f"docker-{CONTAINER}.scope")
        victim, other = self.spin(group=group), self.spin()
        executable = os.readlink(f"/proc/{victim.pid}/exe")
        for options, reason, both in (
            (("--pid", victim.pid), "chosen by --pid", False),
            (("--container", CONTAINER[:12]), "chosen by --container", False),
            (("-G", "/spanprof-test"), "chosen by --cgroup", False),
            (("-G", f"{group}/"), "chosen by --cgroup", False),
            (("-u", f"docker-{CONTAINER}.scope"), "chosen by --unit", False),
            (("--exe", executable), "chosen by --exe", True),
            (("--exe", os.path.basename(executable)), "chosen by --exe", True),
            (("--user", "0"), "chosen by --user", True),
            (("--all",), "chosen by --all", True),
        ):
            with self.subTest(options=options):
                found = self.list_targets(*options)
                self.assertEqual(found[victim.pid]["reason"], reason)
                self.assertEqual(found[victim.pid]["container"], CONTAINER)
                self.assertEqual(other.pid in found, both)
                self.assertNotIn(2, found, "kthreadd")
                self.assertNotIn(victim.pid, self.list_targets(*options, "--exclude", "container=*"))

    def test_targets_lists_coroutines(self):
        """Stations in a region that nothing names, in the program's own memory."""
        log = self.directory() / "log"
        victim = self.spawn([tap.VICTIMS / "victim-coroutines", "1", "2", log])
        victim.wait_for("^pid")
        tap.wait_until(lambda: "coroutines" in self.list_targets("--pid", victim.pid)[victim.pid],
                       "its region")
        address = self.list_targets().get(victim.pid, {}).get("coroutines", {}).get("address", "none")
        maps = pathlib.Path(f"/proc/{victim.pid}/maps").read_text()
        self.assertIn(f"{int(address, 16):08x}-", maps)
        self.assertEqual(self.list_targets()[victim.pid]["reason"], "publishes context")

    def test_selectors_come_from_files_and_from_the_environment_too(self):
        named, excluded, other = self.spin(), self.spin(), self.spin()
        file = self.directory() / "spanprof.conf"
        file.write_text(f"[targets]\npid = {named.pid}, {excluded.pid}\nexclude = pid={excluded.pid}\n")
        mine = {named.pid, excluded.pid, other.pid}
        self.assertEqual(mine & set(self.list_targets("--config", file)), {named.pid})
        verbose = self.list_targets("--config", file, "-v")
        self.assertEqual([verbose[victim.pid]["reason"] for victim in (named, excluded, other)],
                         ["chosen by --pid", "excluded", "not chosen"])
        done = self.spanprof("targets", "--json", "--config", file,
                             env={**os.environ, "SPANPROF_PID": str(other.pid)})
        self.assertEqual(mine & {entry["pid"] for entry in json.loads(done.stdout)}, {other.pid},
                         "the stronger source replaces")
        directory, daemon = self.run_daemon("--config", file)
        self.wait_resources(directory, named.pid)
        session.wait_cpu(mine, 0.02, of=min)
        self.assertEqual(daemon.stop(), 0, daemon)
        self.assertEqual(mine & set(self.resources(directory)), {named.pid})

    def test_targets_prints_a_table(self):
        victim = self.spin({"OTEL_SERVICE_NAME": "cart"}, group=self.group("spanprof-test",
                                                                           f"docker-{CONTAINER}.scope"),
                           code=f"open('/proc/self/comm', 'wb').write(b'sp\\xff\\x1bin')\n{SPIN}")
        tap.wait_until(
            lambda: "sp" == pathlib.Path(f"/proc/{victim.pid}/comm").read_text(errors="replace")[:2],
            "the name")
        done = self.spanprof("targets", "--pid", f"{victim.pid},4194304", env={"PATH": os.environ["PATH"]})
        executable = os.readlink(f"/proc/{victim.pid}/exe")
        self.assertRegex(
            done.stdout,
            rf"^ *PID +NAME +USER .*\n *{victim.pid}  sp\ufffd\?in  root  {CONTAINER[:12]} +cart +"
            rf"chosen by --pid +python 3\.\d+ +{executable}\n$")
        self.assertRegex(done.stderr, r"1 of \d+ processes would be profiled")
        self.assertIn("there is no process 4194304", done.stderr)

    def test_what_targets_call_themselves_turns_no_line_around(self):
        """A comm and the name of a service; spanprof's own words stay in their order."""
        victim = self.spin({"OTEL_SERVICE_NAME": "a\u202eb\u2066c\u200bd\u009be"},
                           code=f"open('/proc/self/comm', 'w').write('x\u202egnp.\u2028y')\n{SPIN}")
        tap.wait_until(lambda: "x\u202egnp.\u2028y" in pathlib.Path(f"/proc/{victim.pid}/comm").read_text(),
                       "the name")
        shown = self.spanprof("targets", "--pid", victim.pid).stdout
        self.assertRegex(shown, rf"(?m)^ *{victim.pid}  x\?gnp\.\?y  .* a\?b\?c\?d\?e  ")
        self.assertNotRegex(shown, "[\u0080-\u009f\u200b-\u200f\u2028-\u202e\u2066-\u2069]")
        entries = json.loads(self.spanprof("targets", "--json", "--pid", victim.pid).stdout)
        self.assertIn("a\u202eb\u2066c\u200bd", entries[0]["service"], "programs get it as it is")
        shown = self.run_command([tap.SPANPROF, "contexts", victim.pid], expect=0).stdout
        self.assertIn(f"pid {victim.pid} (x?gnp.?y)\n", shown)
        directory, daemon = self.run_daemon("--pid", victim.pid, "--log-level", "debug")
        self.wait_resources(directory, victim.pid)
        self.assertEqual(daemon.stop(), 0, daemon)
        self.assertIn(f"[pid {victim.pid}] x?gnp.?y is a target", daemon.err)
        self.assertNotRegex(daemon.err, "[\u202a-\u202e\u2028]")

    def test_targets_says_what_it_cannot_see(self):
        directory, victim = self.directory(), self.spin({"OTEL_SERVICE_NAME": "cart"})
        directory.chmod(0o755)
        program = shutil.copy(tap.SPANPROF, directory / "spanprof")
        done = self.run_command([program, "targets", "--json", "-v"], expect=0, user="nobody",
                                extra_groups=[])
        entry = {entry["pid"]: entry for entry in json.loads(done.stdout)}[victim.pid]
        self.assertEqual((entry["reason"], entry["hidden"], entry["user"]),
                         ("memory is not readable", True, "root"))
        self.assertNotIn("service", entry)
        self.assertRegex(done.stderr, "the memory of \\d+ of them is not readable for us, .*: run it as root")

    def test_targets_refuses_what_would_match_nobody(self):
        for options, message in ((["--user", "no-such-user"], "--user: there is no user `no-such-user`"),
                                 (["--exclude", "x"], "--exclude: `x` is not KIND=PATTERN")):
            self.assertIn(message, self.spanprof("targets", *options, expect=2).stderr)


tap.main()
