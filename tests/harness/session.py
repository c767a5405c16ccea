# SPDX-License-Identifier: Apache-2.0
"""One run of the daemon with a receiver beside it, and what came of it, read by a reader that we did not
write.

    class Case(session.TestCase):
        def test_it(self):
            run = self.start("--comm", "xz", "--frequency", "499")      ready when this returns
            session.wait_cpu([victim.pid], 2.0)
            result = run.stop()
            result.samples, result.summary, result.log, result.resources

What holds for every run is checked by stop(), unless the test asks for check=False:

    - the status is 0 (or what the test expects), and no line of the log says `error`
    - ticks = samples delivered + Σ lost, and nothing is pending; the causes add up to the sum
    - the payload holds exactly the samples that the daemon says were delivered
    - every request obeys the rules of check_otlp.py, and every sample lies in its profile and in this run
"""
import contextlib
import http.client
import json
import os
import pathlib
import re
import signal
import subprocess
import time

import oracle
import otlp_read
import prometheus
import tap

SERVICE = tap.BUILD_DIR / "sdk/example/example-service"
CLOCK_SLACK_NS = 50_000  # between our look at the clocks and the daemon's: each is a few µs wide
ALPHA = 1e-4  # of one test: false alarms in ten thousand runs
# The walk over frames of runtimes takes the kernel half a second of CPU to verify, in each daemon that meets
# a runtime.
WITHOUT_RUNTIMES = {"SPANPROF_RUNTIMES": "off"}


def realtime_offset_ns():
    """CLOCK_REALTIME - CLOCK_MONOTONIC, the tightest of some looks."""
    looks = []
    for _ in range(50):
        before = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        real = time.clock_gettime_ns(time.CLOCK_REALTIME)
        after = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        looks.append((after - before, real - (before + after) // 2))
    return min(looks)[1]


def clean_environment(**more):
    keep = {key: value for key, value in os.environ.items()
            if not key.startswith(("OTEL_", "SPANPROF_")) and key.lower() not in ("http_proxy", "all_proxy")}
    return {**keep, **{key: str(value) for key, value in more.items()}}


def cpu_ns(pid):
    """CPU time of all threads of a process so far; of those that have ended, too. 0 when it is gone."""
    try:
        return sum(int((task / "schedstat").read_text().split()[0]) for task in
                   pathlib.Path(f"/proc/{pid}/task").iterdir())
    except (OSError, IndexError):
        return 0


def wait_cpu(pids, seconds, patience=120, of=sum):
    """Waits until these processes have used @seconds of CPU together from now on, however busy the machine
    is. @of: min = each of them has."""
    start = {pid: cpu_ns(pid) for pid in pids}
    tap.wait_until(lambda: of(max(0, cpu_ns(pid) - start[pid]) for pid in pids) >= seconds * 1e9,
                   f"{seconds} s of CPU of {pids}", patience)


# types of events that are no samples of the CPU
NO_TICKS = {"goroutines", "suspended", "off_cpu", "off_cpu_waker", "page_faults", "crashes", "kept_samples",
            "kept_off_cpu", "kept_off_cpu_waker", "alloc_space", "alloc_objects", "lock_contention", "exceptions",
            "inuse_objects", "inuse_space"}


class Receiver:
    """`spanprof receive` on a port of its own."""

    def __init__(self, test):
        self.directory = test.directory()
        self.child = test.spawn([tap.SPANPROF, "receive", "--port", "0", "-o", self.directory],
                                env=clean_environment())
        self.port = int(self.child.wait_for(r"http://127\.0\.0\.1:(\d+)")[1])
        self.url = f"http://127.0.0.1:{self.port}"

    def paths(self):
        return sorted(self.directory.glob("*.pb"))


class Result:
    """What a run left behind."""

    def __init__(self, run, status):
        self.run, self.status = run, status
        self.begin_ns, self.end_ns = run.begin_ns, time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        self.offset_ns = run.offset_ns
        self.log = run.child.err
        text = run.summary_path.read_text() if run.summary_path.exists() else None
        self.summary = json.loads(text) if text else None
        self.paths = run.receiver.paths() if run.receiver else []
        self.requests = [otlp_read.load(path) for path in self.paths]
        events = list(otlp_read.samples(*self.paths))
        self.samples = [sample for sample in events if sample.type not in NO_TICKS]
        self.suspended = [sample for sample in events if sample.type == "suspended"]
        self.waits = [sample for sample in events if sample.type == "off_cpu"]
        self.goroutines = [sample for sample in events if sample.type == "goroutines"]
        self.faults = [sample for sample in events if sample.type == "page_faults"]
        self.allocations = [sample for sample in events if sample.type in ("alloc_space", "alloc_objects")]
        self.in_use = [sample for sample in events if sample.type in ("inuse_space", "inuse_objects")]
        self.crashes = [sample for sample in events if sample.type == "crashes"]
        self.wakers = [sample for sample in events if sample.type == "off_cpu_waker"]
        # of recordings of JVMs
        self.recorded = [sample for sample in events if sample.type in {"alloc_space", "lock_contention", "exceptions"}]
        self.kept = [sample for sample in events if sample.type.startswith("kept_")]

    def counter(self, metric, label=None):
        value = self.summary["counters"][metric]
        return value if label is None else value[label]

    def of(self, pid):
        return [sample for sample in self.samples if sample.resource["process.pid"] == pid]

    @property
    def pids(self):
        return {sample.resource["process.pid"] for sample in self.samples}

    @property
    def events(self):
        return sum(sample.value for sample in self.samples)

    def monotonic_ns(self, sample):
        return sample.time_ns - self.offset_ns

    def check(self, test, status=0, all_stored=True):
        test.assertEqual(self.status, status, self.run.child)
        if status == 0:
            test.assertNotRegex(self.log, r"(?i)stopped by an error|AddressSanitizer|runtime error", self.log)
        self.check_books(test, all_stored)
        test.assertEqual(oracle.check(self.paths) if self.paths else [], [])
        self.check_times(test)

    def check_books(self, test, all_stored=True):
        """@all_stored: every request that was stored has been acknowledged; else more may be stored than delivered."""
        test.assertIsNotNone(self.summary, self.run.child)
        s = self.summary
        test.assertEqual(s["pending"], 0, s)
        test.assertEqual(s["ticks"], s["delivered"] + s["lost"], s)
        lost = dict(s["counters"]["lost_total"])
        test.assertEqual((s["ticks"] + s["not_target"], lost.pop("not_target")),
                         (s["counters"]["ticks_total"], s["not_target"]), s)
        test.assertEqual(s["lost"], sum(lost.values()), s)
        test.assertEqual({k: v for k, v in lost.items() if v}, s["lost_by_reason"])
        test.assertEqual((s["counters"]["validate_findings_total"], s["delivered"] > 0 and
                          not s["counters"]["validated_requests_total"]), ({"error": 0, "warning": 0}, False),
                         self.log)
        if self.run.receiver and all_stored:
            test.assertEqual(self.events, s["delivered"], s)
        elif self.run.receiver:
            test.assertGreaterEqual(self.events, s["delivered"], s)

    def check_times(self, test):
        """Each sample in its profile, each profile in this run by our own clock."""
        for request in self.requests:
            for profile in (p for r in request.resource_profiles for s in r.scope_profiles
                            for p in s.profiles):
                first, last = profile.time_unix_nano, profile.time_unix_nano + profile.duration_nano
                test.assertGreaterEqual(first - self.offset_ns, self.begin_ns - CLOCK_SLACK_NS)
                test.assertLessEqual(last - self.offset_ns, self.end_ns + CLOCK_SLACK_NS)
                for sample in profile.samples:
                    test.assertTrue(all(first <= t < last for t in sample.timestamps_unix_nano))


class Run:
    """The daemon while it runs. @endpoint: None = a receiver of its own; else where it sends to."""

    def __init__(self, test, options, endpoint=None, environment=None, prefix=(), receiver=None, ready=True):
        self.test = test
        self.receiver = receiver or (Receiver(test) if endpoint is None else None)
        self.summary_path = test.directory() / "summary.json"
        argv = [
            *prefix, tap.SPANPROF, "run", "--endpoint", endpoint or self.receiver.url, "--export-interval",
            "1s", "--summary", self.summary_path, *options
        ]
        self.offset_ns = realtime_offset_ns()
        self.begin_ns = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        self.child = test.spawn(
            argv, env={
                **clean_environment(), "SPANPROF_STOP_TIMEOUT": "20s", "SPANPROF_VALIDATE": "on",
                **getattr(test, "daemon_environment", {}), **(environment or {})
            })
        if ready:
            self.child.wait_for("profiles go to")

    @property
    def pid(self):
        return self.child.pid

    @property
    def log(self):
        return self.child.err

    def wait_events(self, n, pid=None, patience=tap.PATIENCE):
        """Waits until @n samples (of a process) have arrived."""
        seen = {}

        def arrived():
            for path in self.receiver.paths():
                if path not in seen and path.with_suffix(".json").exists():
                    seen[path] = sum(s.value for s in otlp_read.samples(path)
                                     if s.type not in NO_TICKS and pid in (None, s.resource["process.pid"]))
            return sum(seen.values()) >= n

        return tap.wait_until(arrived, f"{n} samples of {pid or 'all'} at the receiver; {self.child}",
                              patience)

    def stop(self, sig=signal.SIGTERM, check=True, **options):
        return self.result(self.child.stop(sig), check, **options)

    def wait(self, check=True, patience=tap.PATIENCE, **options):
        """Waits until it ends by itself."""
        return self.result(self.child.wait(patience), check, **options)

    def result(self, status, check, **options):
        if self.receiver:
            self.receiver.child.stop(signal.SIGINT)
        result = Result(self, status)
        if check:
            result.check(self.test, **options)
        return result


class TestCase(tap.TestCase):
    @classmethod
    def setUpClass(cls):
        tap.need_root()
        tap.need_btf()
        oracle.need()

    def start(self, *options, **more):
        return Run(self, [str(x) for x in options], **more)

    def victim(self, name, *arguments, rests=False, **options):
        """A victim that has said its first line. @rests: victim-chain, victim-shares and victim-ring use a
        sixth of a CPU, enough for who waits for some samples of it."""
        if rests:
            options["env"] = {**(options.get("env") or os.environ), "VICTIM_RESTS": "1"}
        child = self.spawn([tap.VICTIMS / f"victim-{name}", *arguments], **options)
        if name not in ("short",):
            child.wait_for(r"^pid \d+")
        return child

    def commanded(self, name, *arguments, rests=False):
        """A victim that obeys lines on its standard input: (child, tell), tell(line) → its answer."""
        child = self.victim(name, *arguments, rests=rests, stdin=subprocess.PIPE)
        return child, lambda line: self.tell(child, line)

    def tell(self, child, line):
        n = len(child.out)
        child.process.stdin.write(line.encode() + b"\n")
        child.process.stdin.flush()
        answer = tap.wait_until(lambda: child.out[n:] if child.out[n:].endswith("\n") else None, line).strip()
        self.assertRegex(answer, "^ok", line)
        return answer


class NamingCase(TestCase):
    """For tests that wait for names, and for counters."""

    def wait_for(self, run, condition, what):
        """Waits until the samples that have arrived by then fulfil a condition, and returns what it yields.
        It is asked when a request has come, and now and then: to look at all samples takes longer than the
        pause of wait_until()."""
        seen, asked = {}, -1

        def look():
            nonlocal asked
            new = [path for path in run.receiver.paths()
                   if path not in seen and path.with_suffix(".json").exists()]
            seen.update({path: list(otlp_read.samples(path)) for path in new})
            if not new and time.monotonic() < asked + 0.3:
                return None
            asked = time.monotonic()
            return condition([sample for path in sorted(seen) for sample in seen[path]])

        return tap.wait_until(look, f"{what}; {run.child}", 120)

    def start_counted(self, *options):
        """A run, and what waits until one of its counters is high enough: wait(@least, name, label=value)."""
        run = self.start(*options, "--metrics", "127.0.0.1:0")
        port = int(run.child.wait_for(r"metrics are at http://127\.0\.0\.1:(\d+)/metrics")[1])

        def counter(name, labels):
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=tap.PATIENCE)
            with contextlib.closing(connection):
                connection.request("GET", "/metrics")
                return prometheus.value(prometheus.parse(connection.getresponse().read().decode()), name,
                                        **labels)

        def wait(least, name, **labels):
            return tap.wait_until(lambda: counter(name, labels) >= least, f"{name} {labels}", 120)

        wait.counter = lambda name, **labels: counter(name, labels)
        return run, wait

    def wait_named(self, run, pid, *names):
        self.wait_for(
            run, lambda samples: set(names) <=
            {f.name for s in samples if s.resource["process.pid"] == pid
             for f in s.frames}, f"frames named {names} of {pid}")


def truth_of(child, pattern=r"^(\w+) (\d+)$"):
    """Lines NAME NUMBER that a victim printed at its end."""
    return {match[1]: int(match[2]) for match in re.finditer(pattern, child.out, re.M)}
