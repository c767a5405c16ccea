#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The processes without rights that read targets' files for the daemon: what they have, and what their death costs."""
import oracle

oracle.enter()

import collections
import os
import pathlib
import re
import resource
import shutil
import signal
import time

import groups
import prometheus
import session
import tap
import unix_http
from workers import descriptors, helpers, status_of

TRUNCATED = "profile.stack.truncated"
# workers that wait: one for each file that may be read at the same time,
# daemon/host/sampling/unwind/tables/table-job.h, and one of daemon/host/sampling/context/thread-reader.c
AHEAD = 4
PREFIX = f"o{os.getpid()}"  # of names: others may run the same test
RIGHTS = ("CapInh", "CapPrm", "CapEff", "CapAmb")


def nice_of(pid):
    """Field 19 of /proc/PID/stat."""
    return int(pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[16])


def has_request(pid):
    """Whether a descriptor was sent to a process that it has not received."""
    counts = [
        re.search(r"^scm_fds:\s*(\d+)", entry.read_text(), re.M)
        for entry in pathlib.Path(f"/proc/{pid}/fdinfo").iterdir()
    ]
    return any(count and int(count[1]) for count in counts)


def strangers(run):
    """Whether another daemon has workers: to this one they are processes like any other."""
    for entry in pathlib.Path("/proc").glob("[0-9]*"):
        status = status_of(entry.name)
        if status.get("Name") == "spanprof-parser" and status.get("PPid") != str(run.pid):
            return True
    return False


class Workers(session.TestCase):
    def begin(self, *options):
        """A daemon and its first target, of which it has all rows; they are the only ones that it counts."""
        self.control = self.directory() / "control.sock"
        run = self.start("--control", self.control, "--comm", f"{PREFIX}-*", "--frequency", 999, *options)
        first = self.omit(1)
        maps = pathlib.Path(f"/proc/{first.pid}/maps").read_text()
        files = set(re.findall(r"r-xp .* (/.*|\[vdso\])$", maps, re.M))
        tap.wait_until(lambda: self.counter("unwind_tables_total", result="loaded") == len(files),
                       f"rows of {files}")
        self.ready_ns = time.clock_gettime_ns(time.CLOCK_MONOTONIC)     # from here on its stacks are whole
        run.wait_events(50, first.pid)
        return run, first

    def omit(self, n, rest=1):
        """A victim without frame pointers in a file of its own, which the daemon cannot know yet. It rests,
        for so many ms each time: some of them wait for each other's files."""
        path = self.directory() / f"{PREFIX}-{n}"
        shutil.copy(tap.VICTIMS / "victim-omit", path)
        child = self.spawn([path, "depth", "30"], env={**os.environ, "VICTIM_RESTS": str(rest)})
        child.wait_for("^frames")
        return child

    def counter(self, metric, **labels):
        return prometheus.value(unix_http.metrics(self.control), "spanprof_" + metric, **labels)

    def workers(self, run):
        """Those that wait for a file: all, the same ones at some looks, and asleep."""
        last = []

        def look():
            workers = helpers(run)[1]
            asleep = len(workers) == AHEAD and all(
                status_of(pid).get("State", "")[:1] == "S" for pid in workers)
            last.append(tuple(workers) if asleep else None)
            return last[-1] if len(last) > 5 and last[-1] and len(set(last[-5:])) == 1 else None

        return tap.wait_until(look, "workers that wait")

    def nurseries(self, run):
        """Both, when both are up: they sleep until they are asked."""
        def look():
            nurseries = helpers(run)[0]
            return nurseries if len(nurseries) == 2 and all(
                status_of(pid).get("State", "")[:1] == "S" for pid in nurseries) else None

        return tap.wait_until(look, "two nurseries")

    def loaded_after(self, before, what):
        tap.wait_until(lambda: self.counter("unwind_tables_total", result="loaded") > before, what)

    def check(self, result, *, died, failed=0):
        self.assertEqual(result.counter("workers_total", "died"), died, result.log)
        self.assertEqual(result.counter("workers_total", "malformed"), 0, result.log)
        self.assertEqual(result.counter("unwind_tables_total", "failed"), failed, result.log)

    def check_some_died(self, result):
        """Of those that waited when something was taken from them: each tries one file."""
        died = result.counter("workers_total", "died")
        self.assertTrue(1 <= died <= AHEAD, died)
        self.check(result, died=died)

    def whole_share(self, samples):
        ends = collections.Counter(s.attributes.get(TRUNCATED, "whole") for s in samples)
        return ends["whole"] / max(1, sum(ends.values())), ends

    def test_have_no_rights_no_environment_and_one_socket(self):
        victim = self.omit(1)
        run = self.start("--pid", victim.pid, environment={"OTEL_EXPORTER_OTLP_HEADERS": "x-secret=hidden"})
        run.wait_events(20)
        workers, nurseries = self.workers(run), self.nurseries(run)
        for pid in (*nurseries, *workers):
            self.assertEqual(nice_of(pid), min(19, nice_of(run.pid) + 5))
        for pid, n_filters in (*((pid, 1) for pid in nurseries), *((pid, 2) for pid in workers)):
            status = status_of(pid)
            self.assertEqual([int(status[name], 16) for name in RIGHTS], [0] * 4, status)
            self.assertEqual((status["NoNewPrivs"], status["Seccomp"], status["Threads"]), ("1", "2", "1"),
                             status)
            self.assertEqual(status.get("Seccomp_filters", str(n_filters)), str(n_filters), status)
            self.assertEqual(pathlib.Path(f"/proc/{pid}/environ").read_bytes(), b"")
            limits = pathlib.Path(f"/proc/{pid}/limits").read_text()
            self.assertRegex(limits, r"Max file size +0 +0 ")
            self.assertRegex(limits, r"Max open files +16 +16 ")
        for pid in workers:
            self.assertRegex(pathlib.Path(f"/proc/{pid}/limits").read_text(), r"Max cpu time +20 +20 ")
            self.assertEqual([link.split(":")[0] for link in descriptors(pid)], ["socket"])
        for pid in nurseries:
            self.assertEqual(sorted(link.split(":")[0] for link in descriptors(pid)), ["/dev/null", "socket"])
        for pid in (*nurseries, *workers):
            with open(f"/proc/{pid}/mem", "rb") as memory:
                for line in pathlib.Path(f"/proc/{pid}/maps").read_text().splitlines():
                    span, mode = line.split()[:2]
                    start, end = (int(x, 16) for x in span.split("-"))
                    if mode.startswith("rw") and end - start < 64 << 20:
                        memory.seek(start)
                        self.assertNotIn(b"x-secret", memory.read(end - start), line)
        self.check(run.stop(), died=0)

    def test_start_where_the_null_device_cannot_be_opened(self):
        tap.need_root()
        victim = self.omit(1)
        null = self.directory() / "null"
        null.touch(0o600)
        run = self.start("--pid", victim.pid,
                         prefix=["unshare", "--mount", "--propagation", "private", "sh", "-c",
                                 f'mount --bind {null} /dev/null && exec "$@"', "sh"])
        run.wait_events(200)
        result = run.stop()
        self.check(result, died=0)
        share, ends = self.whole_share(result.samples)
        self.assertGreater(share, 0.5, ends)

    def test_killed_ones_are_replaced_and_cost_nothing(self):
        run, first = self.begin()
        # stopped, so that it has the request when it is killed
        for n in range(2, 6):
            workers, before = self.workers(run), self.counter("unwind_tables_total", result="loaded")
            for pid in workers:
                os.kill(pid, signal.SIGSTOP)
            victim = self.omit(n)
            run.wait_events(20, victim.pid)
            self.assertEqual(self.counter("unwind_tables_total", result="loaded"), before)
            os.kill(run.pid, signal.SIGSTOP)            # so that all of them are dead when it tries again
            for pid in workers:
                os.kill(pid, signal.SIGKILL)
            tap.wait_until(lambda: all(status_of(pid).get("State", "Z")[0] in "ZX" for pid in workers),
                           "the end of all")
            os.kill(run.pid, signal.SIGCONT)
            self.loaded_after(before, "rows by another worker")
            self.assertFalse(set(self.workers(run)) & set(workers))
            if n < 5:
                victim.kill()                           # only the last one is judged
        begin_ns = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        session.wait_cpu([first.pid, victim.pid], 1.0)
        result = run.stop()
        # on a machine that is slow enough
        self.check(result, died=4 * AHEAD - result.counter("workers_total", "late"))
        # others' processes, undecided at first
        self.assertLessEqual(set(result.summary["lost_by_reason"]), {"not_target"}, result.summary)
        share, ends = self.whole_share(
            [s for s in result.of(victim.pid) if result.monotonic_ns(s) > begin_ns])
        self.assertGreater(share, 0.99, ends)
        share, ends = self.whole_share(
            [s for s in result.of(first.pid) if result.monotonic_ns(s) > self.ready_ns])
        self.assertGreater(share, 0.99, ends)

    def test_descriptors_that_they_cannot_take_are_given_to_others(self):
        # limits of another user's take CAP_SYS_RESOURCE, which root may lack here
        run, first = self.begin("--run-as", "root")
        workers, before = self.workers(run), self.counter("unwind_tables_total", result="loaded")
        for pid in workers:
            resource.prlimit(pid, resource.RLIMIT_NOFILE, (0, 0))       # the kernel drops what is sent to it
        victim = self.omit(2)
        self.loaded_after(before, "rows of a file that the first could not take")
        begin_ns = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        session.wait_cpu([first.pid, victim.pid], 0.5)
        result = run.stop()
        self.check_some_died(result)
        for pid in (first.pid, victim.pid):
            share, ends = self.whole_share([s for s in result.of(pid) if result.monotonic_ns(s) > begin_ns])
            self.assertGreater(share, 0.99, ends)

    def test_those_whose_memory_is_at_its_limit_are_killed_and_others_go_on(self):
        group, n_killed = groups.limit_memory(self, f"spanprof-{PREFIX}", 1 << 14)
        run, first = self.begin()
        workers, before = self.workers(run), self.counter("unwind_tables_total", result="loaded")
        for pid in workers:
            groups.enter(group, pid)
        victim = self.omit(2)
        self.loaded_after(before, "rows of a file for which the first had no memory")
        begin_ns = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        session.wait_cpu([first.pid, victim.pid], 0.5)
        self.assertGreater(n_killed(), 0, "else this test tests nothing")
        result = run.stop()
        self.check_some_died(result)
        for pid in (first.pid, victim.pid):
            share, ends = self.whole_share([s for s in result.of(pid) if result.monotonic_ns(s) > begin_ns])
            self.assertGreater(share, 0.99, ends)

    def test_one_that_hangs_is_killed_and_its_file_tried_again(self):
        run, first = self.begin()
        workers, before = self.workers(run), self.counter("unwind_tables_total", result="loaded")
        for pid in workers:
            os.kill(pid, signal.SIGSTOP)
        victim = self.omit(2, rest=10)
        hung, = tap.wait_until(lambda: [pid for pid in workers if has_request(pid)],
                               "the one that has the file")
        for pid in set(workers) - {hung}:
            os.kill(pid, signal.SIGCONT)
        self.omit(3, rest=10)
        self.omit(4, rest=10)
        self.loaded_after(before + 2, "rows of all three, by other workers")
        tap.wait_until(
            lambda: status_of(hung).get("State", "Z")[0] in "ZX" or status_of(hung)["Name"] !=
            "spanprof-parser", "the end of the one that was stopped")
        session.wait_cpu([first.pid], 1.0)              # samples to judge, however busy the machine is
        result = run.stop()
        self.assertGreater(result.counter("workers_total", "late"), 0)
        self.check(result, died=0)
        # all the while
        share, ends = self.whole_share(
            [s for s in result.of(first.pid) if result.monotonic_ns(s) > self.ready_ns])
        self.assertGreater(share, 0.99, ends)
        self.assertTrue(result.of(victim.pid))

    def test_one_that_hangs_holds_up_nobody_else(self):
        run, first = self.begin()
        for n in range(10, 20, 2):      # again if the machine stood still for as long as a file may take
            workers, before = self.workers(run), self.counter("unwind_tables_total", result="loaded")
            late = self.counter("workers_total", event="late")
            for pid in workers:
                os.kill(pid, signal.SIGSTOP)
            self.omit(n, rest=10)
            hung = tap.wait_until(lambda: [pid for pid in workers if has_request(pid)],
                                  "the one that has the file")
            for pid in set(workers) - set(hung):
                os.kill(pid, signal.SIGCONT)
            self.omit(n + 1, rest=10)
            self.loaded_after(before, "rows of a file")
            waited = self.counter("workers_total", event="late") > late
            self.loaded_after(before + 1, "rows of both files")
            if not waited:
                break
        self.assertFalse(waited, "each time a file waited for one that hung")
        result = run.stop()
        self.check(result, died=0)
        self.assertGreater(result.counter("workers_total", "late"), 0)

    def test_a_nursery_that_is_killed_is_replaced(self):
        run, first = self.begin()
        for n in range(2, 7):
            nurseries, before = self.nurseries(run), self.counter("unwind_tables_total", result="loaded")
            self.workers(run)
            os.kill(nurseries[n % 2], signal.SIGKILL)
            # more than there are workers that wait
            victims = [self.omit(f"{n}-{i}") for i in range(AHEAD + 1)]
            self.loaded_after(before + AHEAD, "rows of all files")
            tap.wait_until(lambda: self.counter("workers_total", event="nursery_replaced") >= n - 1,
                           "another nursery")
            self.assertNotEqual(set(self.nurseries(run)), set(nurseries))
            for victim in victims[n == 6:]:             # of the last ones the first is judged
                victim.kill()
        begin_ns = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        session.wait_cpu([first.pid, victims[0].pid], 0.5)
        result = run.stop()
        # more if one was starved for seconds
        self.assertGreaterEqual(result.counter("workers_total", "nursery_replaced"), 5)
        self.assertEqual(result.counter("unwind_tables_total", "failed"), 0, result.log)
        self.assertIn("the other one takes its place", result.log)
        self.assertLess(result.log.count("the other one takes its place"), 5, "once a minute")
        # others' processes, undecided at first
        self.assertLessEqual(set(result.summary["lost_by_reason"]), {"not_target"}, result.summary)
        for victim in (first, victims[0]):
            share, ends = self.whole_share(
                [s for s in result.of(victim.pid) if result.monotonic_ns(s) > begin_ns])
            self.assertGreater(share, 0.99, ends)

    def test_without_any_nursery_it_ends_in_order_to_be_started_again(self):
        for killed_too in ("nurseries alone", "all"):
            run, first = self.begin()
            workers, nurseries = self.workers(run), self.nurseries(run)
            session.wait_cpu([first.pid], 0.5)
            os.kill(run.pid, signal.SIGSTOP)    # so that nobody is left to start others
            for pid in (*nurseries, *(workers if killed_too == "all" else ())):
                os.kill(pid, signal.SIGKILL)
            os.kill(run.pid, signal.SIGCONT)
            result = run.wait(check=False)
            result.check(self, status=1)                # the books come out even: the last window was sent
            self.assertIn("both processes that start those without rights are gone", result.log)
            self.assertIn("stopping with status 1", result.log)
            self.assertEqual(result.counter("workers_total", "nurseries_gone"), 1)
            # others' processes, undecided at first
            self.assertLessEqual(set(result.summary["lost_by_reason"]), {"not_target"}, result.summary)
            share, ends = self.whole_share(
                [s for s in result.of(first.pid) if result.monotonic_ns(s) > self.ready_ns])
            self.assertGreater(share, 0.99, ends)
            first.kill()

    def test_are_never_targets_themselves(self):
        victim = self.omit(1)
        run = self.start("--all", "--frequency", 199)
        ours = {run.pid}.union(*helpers(run))
        alone = not strangers(run)
        for n in range(2, 12):                          # each a file that a worker reads
            child = self.omit(n)
            session.wait_cpu([victim.pid], 0.1)
            ours = ours.union(*helpers(run))
            child.kill()
            alone &= not strangers(run)
        # of all that the machine does: others look at the books
        result = run.stop(check=False)
        self.assertFalse(ours & result.pids, ours)
        if alone:                                       # those that came and went between two looks, too
            self.assertNotIn("spanprof-parser",
                             {s.resource.get("process.executable.name") for s in result.samples}
                             | {s.attributes.get("thread.name") for s in result.samples})
        self.assertGreater(result.counter("workers_total", "started"), 10)
        self.assertTrue(result.of(victim.pid))

    def test_end_with_the_daemon_however_that_ends(self):
        for end in (signal.SIGTERM, signal.SIGKILL):
            victim = self.omit(int(end))
            run = self.start("--pid", victim.pid)
            run.wait_events(20)
            nurseries, workers = self.nurseries(run), helpers(run)[1]
            run.child.stop(end)
            for pid in (*nurseries, *workers):
                tap.wait_until(
                    lambda: status_of(pid).get("State", "Z")[0] in "ZX" or status_of(pid).get("Name") !=
                    "spanprof-parser", f"the end of {pid}")


tap.main()
