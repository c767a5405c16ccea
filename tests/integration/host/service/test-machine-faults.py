#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the machine does to the daemon itself: no descriptors, no memory, no CPU, no reader of the log."""
import oracle

oracle.enter()

import bisect
import ctypes
import fcntl
import os
import resource
import signal
import time

import allocation
import groups
import session
import tap

PIDFD_GETFD = 438               # system call; Linux 5.6
PERF_EVENT_IOC_DISABLE = 0x2401


BUSY_THREADS, DEPTH = (24, 12, 4), 90   # of processes; long records: the ring is full soon
SHARES_S, LOST_S, STOPPED_S = 4, 8, 5   # CPU time of all, and how long it is stopped at least
POINTS, POINTS_LOST = 2, 4      # the time that lost ticks are of is known less well


class Clocks:
    """What processes have used of the CPU, looked at again and again."""

    def __init__(self, pids):
        self.pids, self.times, self.used = pids, [], {pid: [] for pid in pids}
        self.look()

    def look(self):
        self.times.append(time.clock_gettime_ns(time.CLOCK_MONOTONIC))
        for pid in self.pids:
            self.used[pid].append(session.cpu_ns(pid))
        return self.times[-1]

    def run_for(self, cpu_s, seconds=0):
        """Until they have used so much CPU time, and so many seconds have passed."""
        begin, before = self.times[-1], self.all()
        while self.look() < begin + seconds * 1e9 or self.all() < before + cpu_s * 1e9:
            time.sleep(0.02)

    def all(self):
        return sum(used[-1] for used in self.used.values())

    def at(self, pid, time_ns):
        """Between two looks it has used as much of each moment."""
        i = min(max(1, bisect.bisect_left(self.times, time_ns)), len(self.times) - 1)
        begin, end = self.times[i - 1:i + 1]
        before, after = self.used[pid][i - 1:i + 1]
        return before + (after - before) * (time_ns - begin) / (end - begin)


def events(pid):
    return [
        name for name in os.listdir(f"/proc/{pid}/fd")
        if "[perf_event]" in os.readlink(f"/proc/{pid}/fd/{name}")
    ]


def disable_events(pid):
    """Switches off every perf event of a process, as a CPU that goes offline does, and one that comes back leaves them."""
    pidfd = os.pidfd_open(pid)
    for name in events(pid):
        fd = ctypes.CDLL(None, use_errno=True).syscall(PIDFD_GETFD, pidfd, int(name), 0)
        if fd < 0:
            raise OSError(ctypes.get_errno(), "pidfd_getfd")
        fcntl.ioctl(fd, PERF_EVENT_IOC_DISABLE, 0)
        os.close(fd)
    os.close(pidfd)


class Machine(session.TestCase):
    def test_timers_that_a_cpu_took_with_it_unseen_are_opened_anew(self):
        first = self.victim("chain", 5)
        run = self.start("--exe", f"{tap.VICTIMS}/victim-*")
        run.wait_events(50, first.pid)
        n = len(events(run.pid))
        disable_events(run.pid)
        tap.wait_until(lambda: "opening it anew" in run.child.err, "that it is noticed")
        second = self.victim("shares", rests=True)
        run.wait_events(50, second.pid)
        self.assertEqual((n, len(events(run.pid))), (2 * os.cpu_count(), ) * 2,
                         "of each CPU a timer and a side-band")
        result = run.stop()
        self.assertGreaterEqual(result.summary["counters"]["timers_stopped_total"], os.cpu_count())

    def test_stopped_for_a_while_it_counts_what_it_missed_and_goes_on(self):
        victim = self.victim("chain", 200)              # long records: the ring is full in a second
        # the stop may come between a request that is stored and its answer, and last longer than requests
        # may: it would be sent again
        run = self.start("-p", victim.pid, "--frequency", 9999, "--timeout", "10m")
        run.wait_events(100)
        run.child.process.send_signal(signal.SIGSTOP)
        session.wait_cpu([victim.pid], 2.5)             # more than twice what the ring holds
        before = len(run.receiver.paths())
        run.child.process.send_signal(signal.SIGCONT)
        tap.wait_until(lambda: len(run.receiver.paths()) > before + 2, "windows after the stop")
        said = run.child.wait_for(rf"(\d+) samples were lost since the start: .*\. (\d+) are of pid {victim.pid} "
                                  r"\(victim-chain\); processes that lost some: 1$")
        self.assertGreaterEqual(int(said[2]), 0.99 * int(said[1]))
        result = run.stop()                             # ticks = delivered + lost
        lost = result.summary["lost_by_reason"]
        self.assertGreater(lost["ring_full"], 1000)
        self.assertEqual(set(lost), {"ring_full"}, lost)

    def test_more_processes_with_lost_ticks_than_are_remembered_cost_the_log_alone(self):
        victims = [self.victim("chain", 200) for _ in range(6)]
        pids = [victim.pid for victim in victims]
        run = self.start("-p", ",".join(map(str, pids)), "--frequency", 9999, "--timeout", "10m",
                         environment=groups.small_maps(lost_ticks=2))
        for pid in pids:
            run.wait_events(20, pid)
        run.child.process.send_signal(signal.SIGSTOP)
        session.wait_cpu(pids, 4)
        run.child.process.send_signal(signal.SIGCONT)
        said = run.child.wait_for(r"(\d+) samples were lost since the start: .*\. (\d+) are of pid (\d+) "
                                  r"\(victim-chain\); processes that lost some: (\d+)$")
        self.assertIn(int(said[3]), pids)
        self.assertIn(int(said[4]), (1, 2))
        result = run.stop()                             # ticks = delivered + lost
        self.assertGreaterEqual(result.summary["lost_by_reason"]["ring_full"], int(said[1]))
        self.assertLess(int(said[2]), int(said[1]), "others have lost some, too")
        self.assertEqual(result.pids, set(pids))

    def test_shares_of_what_arrives_stay_true_when_it_was_stopped_beside_busy_threads(self):
        """Truth is what the processes' own clocks say of the times that samples came from, and of the time
        that lost ticks are of."""
        victims = [self.victim("threads", n, 0, 0, 0, DEPTH) for n in BUSY_THREADS]
        pids = [victim.pid for victim in victims]
        run = self.start("-p", ",".join(map(str, pids)), "--frequency", 999, "--jitter=off", "--timeout", "10m")
        for pid in pids:
            run.wait_events(50, pid)
        clocks = Clocks(pids)
        clocks.run_for(SHARES_S)
        run.child.process.send_signal(signal.SIGSTOP)
        clocks.run_for(LOST_S, STOPPED_S)
        stopped = clocks.times[-1]
        run.child.process.send_signal(signal.SIGCONT)
        said = run.child.wait_for(r"(\d+) samples were lost since the start: .*\. (\d+) are of pid (\d+) "
                                  r"\(\S+\); processes that lost some: (\d+)$")
        self.assertEqual(int(said[4]), len(pids))
        clocks.run_for(SHARES_S)
        end = clocks.times[-1]
        result = run.stop()
        self.assertEqual(set(result.summary["lost_by_reason"]), {"ring_full"})

        samples = [(result.monotonic_ns(s), s.resource["process.pid"]) for s in result.samples]
        full = max(at for at, _ in samples if at < stopped)
        gone_on = min(at for at, _ in samples if at >= stopped)
        self.assertLess(full, stopped - 1e9, "ticks were lost for a good while")
        spans = ((clocks.times[0], full), (gone_on, end))
        arrived = [pid for at, pid in samples if any(begin <= at < until for begin, until in spans)]
        self.compare_shares("arrived", {pid: arrived.count(pid) for pid in pids}, clocks, spans, POINTS)
        most, n, n_most = int(said[3]), int(said[1]), int(said[2])
        lost = {"the one that lost most": n_most, "others": n - n_most}
        self.compare_shares("lost", lost, clocks, [(full, gone_on)], POINTS_LOST,
                            lambda pid: "the one that lost most" if pid == most else "others")

    def compare_shares(self, what, counts, clocks, spans, points, name_of=lambda pid: pid):
        true = dict.fromkeys(counts, 0)
        for pid in clocks.pids:
            true[name_of(pid)] += sum(clocks.at(pid, until) - clocks.at(pid, begin) for begin, until in spans)
        for name, n in counts.items():
            share, truth = 100 * n / sum(counts.values()), 100 * true[name] / sum(true.values())
            print(f"# {what}: {name} {share:.1f} %, by its clock {truth:.1f} %", flush=True)
            self.assertLess(abs(share - truth), points, what)

    def test_run_keeps_its_callers_priority_and_record_hurries(self):
        own = os.getpriority(os.PRIO_PROCESS, 0)
        for more in (0, 3, -19 - own):
            with self.subTest(more):
                wanted = max(-20, min(19, own + more))
                prefix = ("nice", "-n", str(more))
                run = self.start("--comm", "victim-chain", prefix=prefix)
                self.assertEqual(os.getpriority(os.PRIO_PROCESS, run.pid), wanted)
                run.stop()
                where = self.directory()
                recording = self.spawn([*prefix, tap.SPANPROF, "record", "-o", "x.folded", "--", "sh", "-c",
                                        "nice > its; exec sleep 60"], env=session.clean_environment(), cwd=where)
                tap.wait_until(lambda: os.getpriority(os.PRIO_PROCESS, recording.pid) == min(wanted, -10), "its hurry")
                tap.wait_until(lambda: (where / "its").exists() and (where / "its").read_text(), "COMMAND")
                self.assertEqual(int((where / "its").read_text()), wanted)
                recording.stop(signal.SIGINT)

    def test_ticks_of_strangers_that_nobody_judged_are_no_coverage(self):
        """While the daemon is held up the ring is filled by processes that it has never seen."""
        victim = self.victim("chain", 200)
        run = self.start("--exe", f"{tap.VICTIMS}/victim-chain", "--frequency", 9999, "--timeout", "10m")
        run.wait_events(100)
        run.child.process.send_signal(signal.SIGSTOP)
        strangers = [self.spawn(["sh", "-c", "while :; do :; done"]) for _ in range(6)]
        session.wait_cpu([stranger.pid for stranger in strangers], 9)   # their records are short
        for stranger in strangers:
            stranger.process.kill()
        run.child.process.send_signal(signal.SIGCONT)
        run.child.wait_for(r"\d+ samples were lost since the start: the ring to the daemon was full")
        session.wait_cpu([victim.pid], 0.2)
        result = run.stop()
        self.assertGreater(result.summary["counters"]["undecided_lost_total"], 1000)
        self.assertNotIn("coverage_ratio", result.summary)
        self.assertIn("coverage: not known", result.log)

    def test_too_few_descriptors_are_said_or_done_without(self):
        self.victim("chain", 5, rests=True)
        receiver = session.Receiver(self)
        refused = worked = 0
        for n in (16, 32, 128):
            done = self.run_command([
                "prlimit", f"--nofile={n}:{n}", tap.SPANPROF, "run", "--all", "--duration", "700ms",
                "--endpoint", receiver.url
            ], env=session.clean_environment(SPANPROF_STOP_TIMEOUT="10s"))
            with self.subTest(descriptors=n):
                # 1: the service manager tries again
                self.assertIn(done.returncode, (0, 1), done.stderr)
                if done.returncode:
                    refused += 1
                    self.assertIn(f"out of file descriptors to load the kernel half (BPF): this process may have {n}",
                                  done.stderr)
                    self.assertNotIn("this kernel", done.stderr)
                else:
                    worked += 1
                    self.assertRegex(done.stderr, r"\d+ ticks = \d+ samples delivered \+ \d+ lost")
        self.assertGreater(refused, 0)
        self.assertGreater(worked, 0)

    def test_descriptors_that_run_out_while_it_works_are_done_without_until_there_are_more(self):
        first = self.victim("chain", 5, rests=True)
        # as this user: a machine may keep the right to limit other users from root
        run = self.start("--exe", f"{tap.VICTIMS}/victim-*", "--frequency", 499, "--run-as", "root")
        run.wait_events(50, first.pid)
        soft, hard = resource.prlimit(run.pid, resource.RLIMIT_NOFILE)

        def limit(n):
            resource.prlimit(run.pid, resource.RLIMIT_NOFILE, (n, hard))

        taken = {int(name) for name in os.listdir(f"/proc/{run.pid}/fd")}
        limit(next(n for n in range(len(taken) + 1) if n not in taken))         # the next open() fails
        # a program that it has not seen, whose files it cannot open
        second = self.victim("shares", rests=True)
        session.wait_cpu([second.pid], 1)
        limit(soft)
        run.wait_events(50, second.pid)
        run.wait_events(100, first.pid)
        # the books balance, and no line of the log is an error
        result = run.stop()
        self.assertEqual(result.pids, {first.pid, second.pid})

    def test_a_log_that_nobody_reads_any_more_stops_nothing(self):
        victim = self.victim("chain", 5)
        receiver = session.Receiver(self)
        sock = self.directory() / "c.sock"
        reader, writer = os.pipe()
        run = self.spawn([
            tap.SPANPROF, "run", "-p", victim.pid, "--endpoint", receiver.url, "--export-interval", "1s",
            "--control", sock
        ], stderr=writer, env=session.clean_environment())
        os.close(writer)
        tap.wait_until(sock.exists, "a daemon")
        os.close(reader)
        tap.wait_until(lambda: len(receiver.paths()) > 2, "profiles")
        self.spanprof("pause", "--control", sock)       # logs
        self.spanprof("resume", "--control", sock)
        self.assertEqual(run.stop(), 0)

    def test_an_allocation_that_fails_ends_it_in_order(self):
        """One call site in forty; all of them are in the long tests."""
        victim, receiver = self.victim("chain", 5), session.Receiver(self)
        done, n, failed, _ = allocation.run(self, victim, receiver)
        self.assertEqual((done.returncode, failed), (0, False), done.stderr)
        self.assertGreater(n, 30)
        for site in range(time.localtime().tm_yday % 40, n, 40):
            allocation.judge(self, site, 0, allocation.run(self, victim, receiver, site))


tap.main()
