#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`spanprof top`: driven over a terminal of our own, and as lines for programs, with the truth from the victims."""
import oracle

oracle.enter()

import fcntl
import json
import os
import pty
import re
import select
import shutil
import signal
import socket
import struct
import termios
import time

import session
import tap


class Screen:
    """As much of a terminal as top asks for; anything else that it sends is a mistake."""

    def __init__(self, rows, columns):
        self.rows, self.columns = rows, columns
        self.alternate = self.hidden = False
        self.wraps = True
        self.lines = [""] * rows
        self.row = self.column = 0
        self.n_pages = 0
        self.left = ""
        self.colours = set()

    def feed(self, text):
        text = self.left + text
        self.left = ""
        at = 0
        while at < len(text):
            if text[at] != "\x1b":
                at = self.plain(text, at)
                continue
            match = re.compile(r"\x1b\[(\??)([\d;]*)([A-Za-z])").match(text, at)
            if not match:
                if re.compile(r"\x1b(\[\??[\d;]*)?$").match(text, at):
                    self.left = text[at:]
                    return
                raise AssertionError(f"unknown sequence: {text[at:at + 20]!r}")
            self.control(*match.groups())
            at = match.end()

    def plain(self, text, at):
        end = at
        if text[at] == "\r":
            self.column = 0
            return at + 1
        if text[at] == "\n":
            self.row = min(self.row + 1, self.rows - 1)
            return at + 1
        while end < len(text) and text[end] >= " ":
            end += 1
        if end == at:
            raise AssertionError(f"control character {text[at]!r}")
        line = self.lines[self.row].ljust(self.column)
        written = text[at:end][:self.columns - self.column] if not self.wraps else text[at:end]
        self.lines[self.row] = line[:self.column] + written + line[self.column + len(written):]
        self.column += len(written)
        return end

    def control(self, private, numbers, final):
        if private and final in "hl":
            on = final == "h"
            if numbers == "1049":
                self.alternate = on
            elif numbers == "25":
                self.hidden = not on
            elif numbers == "7":
                self.wraps = on
            else:
                raise AssertionError(f"unknown mode {numbers}{final}")
        elif final == "H" and not numbers:
            self.row = self.column = 0
        elif final == "K" and not numbers:
            self.lines[self.row] = self.lines[self.row][:self.column]
        elif final == "J":
            self.lines[self.row] = self.lines[self.row][:self.column] if numbers != "2" else ""
            self.lines[self.row + 1:] = [""] * (self.rows - self.row - 1)
            self.n_pages += 1
        elif final == "m":
            self.colours.add(numbers)
        else:
            raise AssertionError(f"unknown sequence {private}{numbers}{final}")

    @property
    def text(self):
        return "\n".join(self.lines)


class Terminal:
    """A pty with top on it."""

    def __init__(self, test, *arguments, rows=24, columns=100, program=None, **environment):
        self.test, self.screen = test, Screen(rows, columns)
        self.leader, follower = pty.openpty()
        test.addCleanup(os.close, self.leader)
        self.resize(rows, columns, tell=False)
        self.before = termios.tcgetattr(follower)
        self.follower = follower
        test.addCleanup(os.close, follower)
        self.child = test.spawn(program or [tap.SPANPROF, "top", "-i", "200ms", *arguments], stdin=follower,
                                stdout=follower,
                                env=session.clean_environment(TERM="xterm-256color",
                                                              **environment), preexec_fn=self.take)

    def take(self):
        os.setsid()
        fcntl.ioctl(self.follower, termios.TIOCSCTTY, 0)

    def resize(self, rows, columns, tell=True):
        fcntl.ioctl(self.leader, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        if tell:
            self.screen.rows, self.screen.columns = rows, columns
            self.screen.lines = (self.screen.lines + [""] * rows)[:rows]
            self.screen.row = 0

    def read(self, patience=0.05):
        while select.select([self.leader], [], [], patience)[0]:
            try:
                data = os.read(self.leader, 65536)
            except OSError:
                return
            if not data:
                return
            self.screen.feed(data.decode(errors="strict"))
            patience = 0

    def type(self, keys):
        os.write(self.leader, keys.encode())

    def wait(self, pattern):
        def look():
            self.read()
            return re.search(pattern, self.screen.text, re.M)
        return tap.wait_until(look, f"{pattern!r} on\n{self.screen.text}\n{self.child}")

    def wait_gone(self, pattern):
        def look():
            self.read()
            return not re.search(pattern, self.screen.text, re.M)
        return tap.wait_until(look, f"no {pattern!r} any more")

    def end(self, status=0):
        tap.wait_until(lambda: (self.read(), self.child.status is not None)[1], f"its end; {self.child}")
        self.read()
        self.test.assertEqual(self.child.status, status, self.child)

    def check_restored(self):
        self.read()
        self.test.assertEqual((self.screen.alternate, self.screen.hidden, self.screen.wraps),
                              (False, False, True))
        self.test.assertEqual(termios.tcgetattr(self.follower), self.before)


class OnTerminal(session.NamingCase):
    def test_shows_functions_threads_and_processes_of_the_victim(self):
        victim = self.victim("shares", rests=True)
        terminal = Terminal(self, "-p", victim.pid)
        terminal.wait(r"^(?:\d+ LOST )?spanprof top: 1 process, \d+ samples in ")
        self.assertTrue(terminal.screen.alternate and terminal.screen.hidden)
        terminal.wait(r"^ +\d+\.\d % +\d+\.\d %  share_50 +victim-shares$")
        terminal.type("3")
        terminal.wait(rf"^ +100\.0 % +\d+\.\d %  victim-shares +{victim.pid} +victim-shares$")
        terminal.type("4")
        terminal.wait(rf"^ +100\.0 % +\d+\.\d %  victim-shares +{victim.pid}$")
        terminal.type("\x1b[Z\x1b[Z")       # back to the spans, which it has none of
        terminal.wait(r"\[2 spans\]")
        terminal.wait(r"^0 rows by self")
        terminal.type("q")
        terminal.end()
        terminal.check_restored()
        self.assertIsNone(victim.status)

    def test_a_key_has_the_recorder_ship_what_is_shown(self):
        path = self.directory() / "control.sock"
        victim, other = (self.victim("shares", rests=True) for _ in range(2))
        terminal = Terminal(self, "-p", victim.pid, "--control", path, columns=150)
        terminal.wait(r"share_50")
        terminal.type("k")
        terminal.wait(rf"^not kept: no daemon answers at {path}$")
        run = self.start("--pid", f"{victim.pid},{other.pid}", "--recorder", "60s", "--control", path)
        run.wait_events(5, victim.pid)
        terminal.type("c")
        terminal.wait("since the start")
        terminal.type("k")
        terminal.wait(r"^kept: \d+\.\d s, which the daemon ships as kept_samples$")
        self.wait_for(run, lambda all: any(s.type == "kept_samples" for s in all), "what is kept at the receiver")
        terminal.type("q")
        terminal.end()
        result = run.stop()
        self.assertEqual({s.resource["profile.kept.reason"] for s in result.kept}, {"top"})
        self.assertEqual({s.resource["process.pid"] for s in result.kept}, {victim.pid})

    def test_a_key_keeps_the_interval_that_is_shown_not_the_last_seconds(self):
        """A control socket of the test's own answers: what is asked for is compared with when it was shown."""
        path = self.directory() / "control.sock"
        with socket.socket(socket.AF_UNIX) as control:
            control.bind(str(path))
            control.listen()
            victim = self.victim("shares", rests=True)
            terminal = Terminal(self, "-p", victim.pid, "--control", path, columns=150)
            terminal.wait(r"share_50")
            terminal.type(" ")
            terminal.wait("PAUSED")
            paused_ns = time.time_ns()
            terminal.type("k")
            connection, _ = control.accept()
            with connection:
                request = connection.recv(1 << 16).decode()
                connection.sendall(b"HTTP/1.0 200 OK\r\n\r\n")
            terminal.wait(r"^kept: \d+\.\d s")
            terminal.type("q")
            terminal.end()
        start, end, pid = map(int, re.match(r"POST /recorder/keep/start/(\d+)/end/(\d+)/reason/top/process/(\d+) ",
                                            request).groups())
        self.assertEqual(pid, victim.pid)
        self.assertLess(start, end)
        self.assertLess(end, paused_ns)

    def test_shows_the_hottest_function_all_views_and_losses_on_80_columns(self):
        victim = self.victim("shares", rests=True)
        terminal = Terminal(self, "-p", victim.pid, rows=24, columns=80)
        terminal.wait(r"^ +\d+\.\d % +\d+\.\d %  share_50 +victim-shares")
        terminal.wait(r"^spanprof top: 1 process, .* CPUs busy, 0 lost$|^\d+ LOST ")
        terminal.wait(r"^\[1functions\] 2spans 3threads 4processes 5coroutines 6tree 7waits 8operations$")
        self.assertLessEqual(max(map(len, terminal.screen.lines)), 80)
        terminal.type("q")
        terminal.end()
        terminal.check_restored()

    def test_shows_the_spans_of_requests(self):
        victim = self.victim("spans", "1")
        terminal = Terminal(self, "-p", victim.pid, "--view", "spans", columns=120)
        row = terminal.wait(r"^ +\d+\.\d % +\d+\.\d %  ([0-9a-f]{16}) ([0-9a-f]{32}) victim-spans")
        trace, span = row[2], row[1]
        self.assertEqual(int(trace[:16], 16), int(span, 16) >> 40, "trace (tid, 1), span tid << 40 + n")
        self.assertEqual(int(trace[16:], 16), 1)
        terminal.type("q")
        terminal.end()

    def test_filter_order_pause_and_help(self):
        victim = self.victim("shares", rests=True)
        terminal = Terminal(self, "-p", victim.pid, "--no-kernel-stacks")
        terminal.wait(r"rows by self")
        terminal.type("c")
        terminal.wait(r"since the start")
        for n in (50, 30, 15, 5):
            terminal.wait(rf"share_{n} +victim-shares$")
        terminal.type("/SHARE_3")
        terminal.wait(r"^filter: SHARE_3_$")
        terminal.wait_gone(r"share_50")
        self.assertRegex(terminal.screen.text, r"share_30 ")
        terminal.type("x\x7f\r")
        terminal.wait(r"^1 rows by self.*filter: SHARE_3 ")
        terminal.type("\x1b")
        terminal.wait(r"share_50")
        terminal.type("s")
        terminal.wait(r"rows by total")
        terminal.wait(r"^ +0\.0 % +\d+\.\d %  .*\n(.*\n)*.*share_50")        # what calls it stands above
        terminal.type("s")
        terminal.wait(r"rows by name")

        def is_sorted():
            terminal.read()             # a page may come in two pieces
            names = re.findall(r"^ +\d.* %  (\S+)", terminal.screen.text, re.M)
            return len(names) > 3 and names == sorted(names)

        tap.wait_until(is_sorted, "names in their order")
        terminal.type("h")
        terminal.wait(r"^q quit +1-8 Tab view")
        terminal.type("hp")
        terminal.wait(r"^PAUSED ")
        shown = None
        while shown != terminal.screen.text:    # the rest of its page
            shown = terminal.screen.text
            terminal.read(0.3)
        session.wait_cpu([victim.pid], 0.5)
        terminal.read(0.5)
        self.assertEqual(terminal.screen.text, shown)
        terminal.type("p")
        terminal.wait_gone("PAUSED")
        terminal.type("+")
        terminal.wait(r"every 0\.4 s")
        terminal.type("q")
        terminal.end()

    def test_tree_cpu_and_the_last_minutes(self):
        victim = self.victim("shares", rests=True)
        terminal = Terminal(self, "-p", victim.pid, "--no-kernel-stacks")
        terminal.type("t")
        terminal.wait(r"\[6 tree\]")
        # main calls them, so they stand below it and further right
        terminal.wait(r"^ +\d+\.\d % +\d+\.\d %  ( *)main .*\n(.*\n)*^ +\d+\.\d % +\d+\.\d %  \1  +share_50 ")
        terminal.type("%")
        terminal.wait(r"% of a CPU")
        terminal.type("%1")
        terminal.wait(r"share_50")

        def goes_back():
            terminal.type("\x1b[D")             # there may be one interval alone yet
            terminal.read()
            return re.search(r"^\d+ s AGO ", terminal.screen.text)

        tap.wait_until(goes_back, "a moment that has passed")
        terminal.type("\x1b[C" * 200)
        terminal.wait_gone(r"\d+ s AGO ")
        terminal.type("q")
        terminal.end()

    def test_fits_any_size(self):
        victim = self.victim("shares", rests=True)
        terminal = Terminal(self, "-p", victim.pid)
        terminal.wait(r"share_50")
        for rows, columns in ((5, 40), (2, 10), (1, 1), (50, 200)):
            with self.subTest(rows=rows, columns=columns):
                n = terminal.screen.n_pages
                terminal.resize(rows, columns)
                tap.wait_until(lambda: (terminal.read(), terminal.screen.n_pages > n + 3)[1],
                               "some pages more")
                self.assertLessEqual(max(map(len, terminal.screen.lines)), columns)
        terminal.wait(r"share_50")
        terminal.type("\x1b[6~\x1b[B\x1b[F\x1b[5~\x1b[H")
        terminal.wait(r"share_50")
        terminal.type("q")
        terminal.end()

    def test_gives_the_terminal_back_however_it_ends(self):
        victim = self.victim("shares", rests=True)
        for number, status in ((signal.SIGTERM, 0), (signal.SIGINT, 0), (signal.SIGHUP, 0),
                               (signal.SIGABRT, -signal.SIGABRT), (signal.SIGSEGV, -signal.SIGSEGV)):
            with self.subTest(number=number):
                terminal = Terminal(self, "-p", victim.pid)
                terminal.wait(r"share_50")
                self.assertTrue(terminal.screen.alternate)
                terminal.child.process.send_signal(number)
                terminal.end(status)
                terminal.check_restored()

    def test_ctrl_c_ends_and_ctrl_z_stops(self):
        victim = self.victim("shares", rests=True)
        terminal = Terminal(self, "-p", victim.pid)
        terminal.wait(r"share_50")
        # Its parent is not of its session: a stop from the keyboard would go to an orphaned group, and be
        # none.
        terminal.child.process.send_signal(signal.SIGTSTP)
        tap.wait_until(lambda: (terminal.read(), self.state(terminal.child.pid) == "T")[1], "its stop")
        terminal.check_restored()
        terminal.child.process.send_signal(signal.SIGCONT)
        tap.wait_until(lambda: (terminal.read(), terminal.screen.alternate)[1], "its screen, once it goes on")
        terminal.wait(r"share_50")
        terminal.type("\x03")
        terminal.end()
        terminal.check_restored()

    @staticmethod
    def state(pid):
        return open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()[0]

    def test_hostile_names_write_nothing_but_text(self):
        """Screen raises at any sequence that top itself does not use, and at control characters."""
        hostile = self.directory() / "a\x1b]0;owned\x07\x1b[2J\u202eb\r\n\x7f\u200b\u2028c"
        shutil.copy(tap.VICTIMS / "victim-shares", hostile)
        victim = self.spawn([hostile])
        victim.wait_for(r"^pid \d+")
        terminal = Terminal(self, "-p", victim.pid)
        terminal.wait(r"share_50 +a\?\]0;owned\?\?\[2J\?b\?{5}c$")
        terminal.type("4")
        terminal.wait(r"a\?\]0;owned\?\?\[2J\?b\?{5}c +\d+$")
        terminal.type("q")
        terminal.end()

    def test_colours_only_where_they_are_wanted(self):
        victim = self.victim("shares", rests=True)
        for environment, some in (({}, True), ({"NO_COLOR": "1"}, False)):
            with self.subTest(environment=environment):
                terminal = Terminal(self, "-p", victim.pid, **environment)
                terminal.wait(r"share_50")
                terminal.type("q")
                terminal.end()
                self.assertEqual(bool(terminal.screen.colours), some)


class AsLines(session.TestCase):
    def top(self, *arguments, expect=0, **options):
        options.setdefault("env", session.clean_environment())
        return self.spanprof("top", *arguments, expect=expect, **options)

    def test_json_lines_are_of_the_victim(self):
        victim = self.victim("shares", rests=True)
        child = self.spawn([tap.SPANPROF, "top", "-p", victim.pid, "-i", "300ms", "-F", "499", "--json"],
                           env=session.clean_environment())
        child.wait_for(r'"functions": \[[^]]*"name": "share_50"')
        self.assertEqual(child.stop(signal.SIGINT), 0, child)
        for line in map(json.loads, child.out.splitlines()):
            self.assertGreater(line["seconds"], 0)
            self.assertEqual([row["pid"] for row in line["processes"]],
                             [str(victim.pid)] if line["samples"] else [])
            self.assertEqual(sum(row["self"] for row in line["processes"]), line["samples"])
            self.assertEqual(line["lost"], 0)

    def test_json_lines_know_coroutines(self):
        victim = self.victim("coroutines", "1", "3", self.directory() / "log")
        child = self.spawn([tap.SPANPROF, "top", "-p", victim.pid, "-i", "300ms", "-F", "499", "--json"],
                           env=session.clean_environment())
        for station in (0, 2):                  # the one between them ends soon
            child.wait_for(
                rf'"coroutines": \[[^]]*"station": "{station}", "probe_id": "0x000000000000500{station}", "birth_ns": "[1-9]'
            )
        self.assertEqual(child.stop(signal.SIGINT), 0, child)
        for line in map(json.loads, child.out.splitlines()):
            self.assertLessEqual(sum(row["self"] for row in line["coroutines"]), line["samples"])
            self.assertLessEqual({row["process"] for row in line["coroutines"]}, {"victim-coroutines"})

    def test_blocks_of_one_view(self):
        victim = self.victim("shares", rests=True)
        child = self.spawn([tap.SPANPROF, "top", "-p", victim.pid, "-i", "300ms", "--view", "processes"],
                           env=session.clean_environment())
        child.wait_for(rf"^ +100\.0 % +\d+\.\d %  victim-shares +{victim.pid}$")
        self.assertEqual(child.stop(signal.SIGINT), 0, child)
        for block in child.out.strip("\n").split("\n\n"):
            self.assertRegex(
                block, r"^(?:\d+ LOST )?spanprof top: 1 process, \d+ samples in \d+\.\d s.*\n +share +CPU  process +pid")
        self.assertNotIn("\x1b", child.out)

    def test_what_threads_wait_for(self):
        """The victim knows who writes into its pipe, and who wants the mutex that another thread holds."""
        victim, tell = self.commanded("waits", self.directory() / "log")
        child = self.spawn([tap.SPANPROF, "top", "-p", victim.pid, "-i", "300ms", "--view", "waits", "--json"],
                           env=session.clean_environment())
        child.wait_for('"seconds"')

        def rows():
            tell("go")
            return [row for line in child.out.splitlines()[:-1] for row in json.loads(line).get("waits", [])]

        def is_known(row):
            return (row["state"], row["on"], row["in"]) == ("blocked", "read pipe", "hand_over") and \
                re.fullmatch(r"thread \d+", row["ended_by"])

        found = tap.wait_until(lambda: rows() if any(map(is_known, rows())) else None, f"the pipe's waits; {child}")
        self.assertIn(("futex", "want_mutex"), {(row["on"], row["in"]) for row in found})
        for row in found:
            self.assertGreater(row["nanoseconds"], 0)
            self.assertIn(row["state"], ("blocked", "runnable"))
            self.assertEqual((row["thread"], row["process"]), ("victim-waits", "victim-waits"))
        self.assertEqual(child.stop(signal.SIGINT), 0, child)

    def test_without_off_cpu_no_wait_is_counted(self):
        victim = self.victim("shares", rests=True)
        done = self.top("-p", victim.pid, "-i", "300ms", "-n", "2", "--json")
        self.assertNotIn('"waits"', done.stdout)

    def test_as_many_refreshes_as_were_asked_for(self):
        victim = self.victim("shares", rests=True)
        for n in (1, 3):
            done = self.top("-p", victim.pid, "-i", "200ms", "-n", str(n), "--json")
            self.assertEqual(len(done.stdout.splitlines()), n)

    def test_ends_when_nobody_reads_and_when_told(self):
        victim = self.victim("shares", rests=True)
        read, write = os.pipe()
        child = self.spawn([tap.SPANPROF, "top", "-p", victim.pid, "-i", "200ms"], stdout=write,
                           env=session.clean_environment())
        os.close(write)
        self.assertTrue(os.read(read, 10))
        os.close(read)
        child.wait()
        child = self.spawn([tap.SPANPROF, "top", "-p", victim.pid, "-i", "200ms"],
                           env=session.clean_environment())
        child.wait_for("spanprof top: 1 process")
        self.assertEqual(child.stop(signal.SIGINT), 0, child)

    def test_everybody_is_meant_when_nobody_is_chosen(self):
        line = json.loads(self.top("-n", "1", "-i", "500ms", "--json").stdout)
        self.assertGreater(line["processes_sampled"], 1)
        self.assertIn("there is no process", self.top("-p", "4194304", expect=1).stderr)
        self.assertIn(
            "needs root",
            self.run_command([
                tap.need_tool("setpriv"), "--bounding-set=-all", "--inh-caps=-all", tap.SPANPROF, "top", "-n",
                "1"
            ], env=session.clean_environment(), expect=78).stderr)


tap.main()
