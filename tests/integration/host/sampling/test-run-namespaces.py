#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Other namespaces: targets in containers seen from the host, and a daemon that shares a namespace with its
service and sees nothing of the host (a sidecar). All real: unshare, nsenter, systemd-nspawn."""
import oracle

oracle.enter()

import os
import pathlib
import re
import shutil
import signal
import subprocess

import otlp_read
import session
import tap

SYMBOLS = otlp_read.Symbols()
HZ = ("--frequency", "999")
UNSHARE = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc")
SPAN = ("00000000000000010000000000000002", "0000000000000003")


def ids_by_level(pid):
    return [
        int(x) for x in re.search(r"NSpid:\t(.*)\n",
                                  pathlib.Path(f"/proc/{pid}/status").read_text())[1].split()
    ]


def descendants(pid):
    """All of them, as far as they live."""
    found = []
    for task in pathlib.Path(f"/proc/{pid}/task").glob("*/children"):
        for child in map(int, task.read_text().split()):
            found += [child, *descendants(child)]
    return found


def functions(samples):
    return {SYMBOLS.name(f) for s in samples for f in s.frames if f.build_id}


class Namespaces(session.TestCase):
    def setUp(self):
        tap.need_tool("unshare")
        tap.need_tool("nsenter")
        probe = self.run_command([*UNSHARE, "true"])
        if probe.returncode:
            tap.skip(f"machine: makes no namespaces: {probe.stderr}")

    def inside(self, prefix, name, *arguments, path=None):
        """A victim behind @prefix: (its id here, tell)."""
        child = self.spawn([*prefix, path or tap.VICTIMS / f"victim-{name}", *arguments],
                           stdin=subprocess.PIPE)
        child.wait_for(r"^pid \d+")
        pids = [
            pid for pid in descendants(child.pid)
            if pathlib.Path(f"/proc/{pid}/comm").read_text().startswith("victim-")
        ]
        self.assertEqual(len(pids), 1, child)

        def tell(line):
            n = child.out.count("ok")
            child.process.stdin.write(line.encode() + b"\n")
            child.process.stdin.flush()
            tap.wait_until(lambda: child.out.count("ok") > n, line)

        return pids[0], tell

    def publisher(self, prefix):
        pid, tell = self.inside(prefix, "ring")
        tell("publish")
        tell("set 1 2 3")
        return pid

    def check_spans(self, samples):
        """Of a publisher: its burning thread works for one span all the time. (Its ring is found after the first ticks.)"""
        found_ns = min((s.time_ns for s in samples if s.span_id), default=0)
        busy = [s for s in samples if "ring_burn" in functions([s]) and s.time_ns >= found_ns]
        self.assertGreater(len(busy), 50)
        self.assertEqual({(s.trace_id, s.span_id) for s in busy}, {SPAN})

    # --- the daemon on the host

    def test_targets_in_namespaces_seen_from_the_host(self):
        """One level down, two levels down: ids are ours, spans are found by the innermost ones."""
        one, two = self.publisher(UNSHARE), self.publisher(UNSHARE * 2)
        self.assertEqual((len(ids_by_level(one)), len(ids_by_level(two))), (2, 3))
        run = self.start(*HZ)
        session.wait_cpu([one, two], 1.0)
        for pid in (one, two):
            run.wait_events(60, pid)
        result = run.stop()
        for pid in (one, two):
            self.check_spans(result.of(pid))
            threads = {s.attributes["thread.id"] for s in result.of(pid)}
            self.assertTrue(threads <= {int(t) for t in os.listdir(f"/proc/{pid}/task")}, threads)

    def container(self, *binds):
        """A directory that systemd-nspawn can start, and how to start something in it."""
        tap.need_tool("systemd-nspawn")
        root = self.directory() / "root"
        for name in ("etc", "proc", "sys", "dev", "run", "tmp", "var", "usr", "opt"):
            (root / name).mkdir(parents=True)
        for name in ("bin", "lib", "lib64", "sbin"):
            if os.path.islink(f"/{name}"):
                (root / name).symlink_to(f"usr/{name}")
        shutil.copy("/etc/os-release", root / "etc/os-release")
        prefix = ("systemd-nspawn", "--quiet", "--register=no", "--keep-unit", "--as-pid2", "--console=pipe",
                  f"--machine=spanprof-test-{os.getpid()}", "-D", root, "--bind-ro=/usr",
                  *(f"--bind-ro={path}" for path in binds))
        probe = self.run_command([*prefix, "/bin/true"])
        if probe.returncode:
            tap.skip(f"machine: runs no systemd-nspawn: {probe.stderr.strip()}")
        return root, prefix

    def test_a_container_with_its_own_root(self):
        """Its program is at a path that the host has not, and then at none at all."""
        root, prefix = self.container()
        program = root / "opt" / "victim-ring"
        shutil.copy(tap.VICTIMS / "victim-ring", program)
        pid, tell = self.inside(prefix, "ring", path="/opt/victim-ring")
        tell("publish")
        tell("set 1 2 3")
        self.assertFalse(os.path.exists("/opt/victim-ring"))
        run = self.start(*HZ)
        run.wait_events(100, pid)
        program.unlink()
        gone = self.start(*HZ)              # sees it for the first time now
        gone.wait_events(100, pid)
        for result in (run.stop(), gone.stop()):
            samples = result.of(pid)
            self.assertGreater(len([s for s in samples if s.span_id]), 50)
            self.assertTrue({(s.trace_id, s.span_id) for s in samples} <= {SPAN, (None, None)})
            self.assertEqual({s.resource["process.executable.name"] for s in samples}, {"victim-ring"})
            own = [f for s in samples for f in s.frames if f.path.endswith("/victim-ring")]
            self.assertTrue(own)
            self.assertEqual({f.build_id for f in own}, {SYMBOLS.build_id(str(tap.VICTIMS / "victim-ring"))})
            self.assertTrue(all("(deleted)" not in f.path for f in own), {f.path for f in own})

    def test_a_file_on_an_overlay(self):
        """Its device and inode in maps are not those of the file: map_files knows better."""
        base = self.directory()
        for name in ("lower", "upper", "work", "merged"):
            (base / name).mkdir()
        shutil.copy(tap.VICTIMS / "victim-chain", base / "lower")
        options = f"lowerdir={base}/lower,upperdir={base}/upper,workdir={base}/work"
        script = f"mount -t overlay overlay -o {options} {base}/merged && exec {base}/merged/victim-chain 5"
        child = self.spawn(["unshare", "--mount", "--propagation", "private", "sh", "-c", script])
        try:
            child.wait_for(r"^pid \d+")
        except AssertionError:
            tap.skip(f"kernel: mounts no overlay here: {child.err.strip()}")
        result = self.start_and_stop(child.pid)
        own = [f for s in result.of(child.pid) for f in s.frames if f.path.endswith("/victim-chain")]
        self.assertGreater(len(own), 100)
        self.assertEqual({f.build_id for f in own}, {SYMBOLS.build_id(str(tap.VICTIMS / "victim-chain"))})

    def start_and_stop(self, pid):
        run = self.start("--pid", pid, *HZ)
        run.wait_events(60, pid)
        return run.stop()

    # --- the daemon beside its service

    def pod(self, levels=1):
        """A namespace that outlives who is in it, and how to enter it. Inside, /proc is its own."""
        holder = self.spawn([*UNSHARE * levels, "sleep", "1000"])
        pid = tap.wait_until(
            lambda: next((p for p in descendants(holder.pid)
                          if pathlib.Path(f"/proc/{p}/comm").read_text() == "sleep\n"), None),
            "the namespace")
        return ("nsenter", f"--target={pid}", "--pid", "--mount")

    def start_inside(self, pod, *options):
        return self.start(*HZ, *options, prefix=pod)

    def stop_inside(self, run):
        """Signals the daemon, not nsenter."""
        daemon, = (p for p in descendants(run.pid)
                   if pathlib.Path(f"/proc/{p}/comm").read_text() == "spanprof\n")
        os.kill(daemon, signal.SIGTERM)
        return run.wait()

    def check_sidecar(self, levels):
        pod, other = self.pod(levels), self.pod(levels)
        service, below = self.publisher(pod), self.publisher((*pod, *UNSHARE))
        host, sibling = self.victim("shares", rests=True).pid, self.publisher(other)
        inner = {pid: ids_by_level(pid)[levels] for pid in (service, below)}
        run = self.start_inside(pod, "--all")
        session.wait_cpu([service, below, host, sibling], 1.0)
        for pid in inner.values():
            run.wait_events(60, pid)
        result = self.stop_inside(run)
        self.assertEqual(
            {
                s.resource["process.pid"]
                for s in result.samples if s.resource["process.executable.name"].startswith("victim-")
            }, set(inner.values()))
        self.assertLess(max(result.pids), min(host, sibling, 1000), "ids of the namespace, not of the host")
        for pid in inner.values():
            self.check_spans(result.of(pid))
        threads = {
            int(ids_by_level(f"{service}/task/{t}")[levels]) for t in os.listdir(f"/proc/{service}/task")
        }
        self.assertTrue({s.attributes["thread.id"] for s in result.of(inner[service])} <= threads)

    def test_a_sidecar_sees_its_service_and_nobody_else(self):
        self.check_sidecar(levels=1)

    def test_a_sidecar_two_levels_down(self):
        self.check_sidecar(levels=2)

    def test_a_sidecar_notices_exits_and_newcomers(self):
        pod = self.pod()
        first, _ = self.inside(pod, "chain", "5")
        run = self.start_inside(pod, "--comm", "victim-chain,victim-short")
        run.wait_events(30, ids_by_level(first)[-1])
        os.kill(first, signal.SIGTERM)
        short = [self.run_command([*pod, tap.VICTIMS / "victim-short", "30"], expect=0) for _ in range(20)]
        pids = {int(re.search(r"pid (\d+)", done.stdout)[1]) for done in short}
        later, _ = self.inside(pod, "chain", "5")
        run.wait_events(30, ids_by_level(later)[-1])
        result = self.stop_inside(run)
        self.assertGreater(len(pids & result.pids), 15)
        self.assertIn("short_burn",
                      functions([s for s in result.samples if s.resource["process.pid"] in pids]))
        self.assertGreaterEqual(result.counter("targets_total", "gone"), 1 + len(pids & result.pids))
        self.assertEqual({s.resource["process.executable.name"] for s in result.samples},
                         {"victim-chain", "victim-short"})

    def test_a_sidecar_ends_with_the_only_process_that_it_was_given(self):
        pod = self.pod()
        service, _ = self.inside(pod, "chain", "5")
        run = self.start_inside(pod, "--pid", ids_by_level(service)[-1])
        run.wait_events(30)
        os.kill(service, signal.SIGKILL)
        result = run.wait()
        self.assertIn("every process that was chosen has exited", result.log)
        self.assertEqual(result.counter("targets_total", "gone"), 1)

    def test_targets_lists_who_is_inside(self):
        pod = self.pod()
        service = self.publisher(pod)
        done = self.run_command([*pod, tap.SPANPROF, "targets"], expect=0)
        self.assertRegex(done.stdout, rf"(?m)^ *{ids_by_level(service)[-1]}  victim-ring .*publishes context")
        self.assertEqual(len(done.stdout.splitlines()), 2, done.stdout)

    def test_a_sidecar_in_a_container(self):
        """systemd-nspawn keeps the capabilities that it is told to; the daemon is not number 1 and has /usr read-only."""
        _, prefix = self.container(tap.BUILD_DIR)
        script = f"{tap.VICTIMS}/victim-chain 5 & exec \"$@\""
        prefix = (*prefix[:-2], "--capability=all", "--system-call-filter=bpf perf_event_open", *prefix[-2:],
                  "sh", "-c", script, "sh")
        directory = self.directory()
        prefix = (*prefix[:1], f"--bind={directory}", *prefix[1:])
        receiver = session.Receiver(self)
        summary = directory / "summary.json"
        daemon = self.spawn([
            *prefix, tap.SPANPROF, "run", "--comm", "victim-chain", "--endpoint", receiver.url, "-d", "5s",
            "--summary", summary, *HZ
        ])
        self.assertEqual(daemon.wait(), 0, daemon)
        samples = [s for path in receiver.paths() for s in otlp_read.samples(path)]
        self.assertGreater(len(samples), 50, daemon)
        self.assertEqual(len({s.resource["process.pid"] for s in samples}), 1)
        self.assertLess(samples[0].resource["process.pid"], 100)
        self.assertIn("chain_leaf", functions(samples))


if __name__ == "__main__":
    tap.main()
