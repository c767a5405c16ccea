#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`spanprof stacks`: what hangs stands where it hangs, by eu-stack and jstack, too, and no thread notices."""
import json
import os
import pathlib
import re
import subprocess
import time

import jdks
import pythons
import tap

REASONS = {"mutex": "futex", "pipe": "read", "poll": "poll", "sleep": "sleep", "deep": "signal",
           "left": "futex", "right": "futex"}
HOLDERS = {"mutex": ("pipe", False), "left": ("right", True), "right": ("left", True)}
# of VictimLocks: thread → kind of lock, class, owner, deadlock
SYNC = "java.util.concurrent.locks.Reentrant"
LOCKS = {"left": ("monitor", "VictimLocks$Right", "right", True),
         "right": ("monitor", "VictimLocks$Left", "left", True),
         "up": ("park", f"{SYNC}Lock$FairSync", "down", True),
         "down": ("park", f"{SYNC}Lock$NonfairSync", "up", True),
         "heir": ("monitor", "VictimLocks$Estate", "idle", False),
         "reader": ("park", f"{SYNC}ReadWriteLock$NonfairSync", "writer", False),
         "noted": ("notify", "VictimLocks$Note", None, False),
         "permit": ("park", "java.util.concurrent.Semaphore$NonfairSync", None, False)}
# of victim-locks.py: thread → class of the lock, owner, deadlock
PYTHON_LOCKS = {"left": ("_thread.RLock", "right", True), "right": ("_thread.RLock", "left", True),
                "up": ("_thread.lock", None, None), "down": ("_thread.lock", None, None),
                "heir": ("_thread.RLock", "idle", False), "stale": ("_thread.lock", None, None)}
DEPTH = 201             # frames of still_down


def switches(pid, tid):
    text = pathlib.Path(f"/proc/{pid}/task/{tid}/status").read_text()
    return [int(n) for n in re.findall(r"ctxt_switches:\s+(\d+)", text)]


def is_asleep(pid, tid):
    return pathlib.Path(f"/proc/{pid}/task/{tid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "S"


def names(thread):
    return [frame["function"] for frame in thread["frames"]]


class Stacks(tap.TestCase):
    def setUp(self):
        super().setUp()
        tap.need_root()
        tap.need_btf()

    def look(self, *arguments, expect=0):
        done = self.run_command([tap.SPANPROF, "stacks", *map(str, arguments), "--json"], expect=expect)
        return json.loads(done.stdout)["threads"] if done.stdout else done

    def start(self, *arguments, n=8):
        """The victim, and {name: id} of its threads, once all but one hang."""
        child = self.spawn([tap.VICTIMS / "victim-still", *arguments])
        child.wait_for(r"^pid \d+")
        said = tap.wait_until(lambda: len(found := re.findall(r"^thread (\w+) (\d+)$", child.out, re.M)) == n and found,
                              "all threads have said who they are")
        threads = {name: int(tid) for name, tid in said}
        tap.wait_until(lambda: all(is_asleep(child.pid, tid) for name, tid in threads.items() if name != "spin"),
                       "they hang")
        return child, threads

    def check_each(self, child, tids, threads, ages_ns):
        found = {thread["tid"]: thread for thread in threads}
        self.assertEqual(set(found), {child.pid, *tids.values()})
        for name, tid in tids.items():
            thread, stack = found[tid], names(found[tid])
            self.assertEqual((thread["pid"], thread["name"]), (child.pid, name))
            if name == "spin":
                self.assertIn(thread["state"], ("running", "runnable"))
                if stack:                       # on a busy machine no sample of it may be there
                    self.assertEqual(stack[stack.index("still_spin"):][:2], ["still_spin", "still_enter"], stack)
                continue
            self.assertEqual((thread["state"], thread["reason"]), ("blocked", REASONS[name]), thread)
            self.assertGreaterEqual(thread["waits_at_most_ns"], ages_ns[0] * 0.99 - 1e6, thread)
            self.assertLessEqual(thread["waits_at_most_ns"], ages_ns[1] * 1.01 + 20e6, thread)
            self.assertNotIn("truncated", thread)
            self.assertEqual(stack[stack.index(f"still_{name}"):][:3], [f"still_{name}", "still_enter", "still_main"])
            self.assertEqual(stack.count("still_down"), DEPTH if name == "deep" else 0)
            holder, deadlock = HOLDERS.get(name, (None, None))
            self.assertEqual((thread.get("holder_tid"), thread.get("deadlock")), (holder and tids[holder], deadlock))
            span = (thread.get("trace_id"), thread.get("span_id"))
            self.assertEqual(span, (f"{1:016x}{tid:016x}", f"{7:016x}") if name == "sleep" else (None, None))

    def test_each_thread_stands_where_it_hangs(self):
        """With inlined functions, if libc has debug information here, and without."""
        for form, lines in (("ring", "--lines=on"), ("thread", "--lines=off")):
            with self.subTest(form):
                begun = time.monotonic_ns()
                child, tids = self.start(form)
                hang = time.monotonic_ns()
                time.sleep(0.3)
                before = time.monotonic_ns()
                threads = self.look(lines, child.pid)
                self.check_each(child, tids, threads, (before - hang, time.monotonic_ns() - begun))

    def test_stack_pointers_that_are_none(self):
        child, tids = self.start("wild", n=12)
        found = {thread["tid"]: thread for thread in self.look(child.pid)}
        for name in ("null", "address", "code", "circle"):
            thread = found[tids[name]]
            self.assertEqual((thread["state"], thread["reason"]), ("blocked", "signal"), thread)
            self.assertTrue(thread["truncated"], thread)
            self.assertLess(len(thread["frames"]), 3, thread)
        for name in ("mutex", "pipe", "poll", "sleep"):
            self.assertIn("still_enter", names(found[tids[name]]))
            self.assertNotIn("truncated", found[tids[name]])

    def test_a_process_that_dies_meanwhile(self):
        for delay in (0.005, 0.02, 0.06):
            child, _ = self.start()
            look = self.spawn([tap.SPANPROF, "stacks", child.pid, "--json"])
            time.sleep(delay)
            child.kill()
            self.assertIn(look.wait(), (0, 1), look)
            self.assertNotIn("error: ", look.err)

    def test_no_thread_is_stopped_or_woken(self):
        child, tids = self.start()
        still = [tid for name, tid in tids.items() if name != "spin"]
        before = [switches(child.pid, tid) for tid in still]
        self.assertTrue(self.look(child.pid))
        self.assertEqual([switches(child.pid, tid) for tid in still], before)

    def test_eu_stack_finds_the_same_frames(self):
        child, tids = self.start()
        mine = {thread["tid"]: names(thread) for thread in self.look("--lines=off", child.pid)}
        done = self.run_command([tap.need_tool("eu-stack"), "-n", "0", "-p", child.pid])
        theirs = {int(tid): re.findall(r"^#\d+\s+0x[0-9a-f]+ *(\S*)", frames, re.M)
                  for tid, frames in re.findall(r"^TID (\d+):\n((?:#.*\n)+)", done.stdout, re.M)}
        for name, tid in tids.items():
            if name != "spin":
                self.assertEqual(len(mine[tid]), len(theirs[tid]), (name, mine[tid], theirs[tid]))
                self.assertEqual([f for f in mine[tid] if f.startswith("still_")],
                                 [f for f in theirs[tid] if f.startswith("still_")])

    def test_text_puts_the_same_together(self):
        child, tids = self.start()
        done = self.run_command([tap.SPANPROF, "stacks", "-p", child.pid], expect=0)
        self.assertRegex(done.stdout, rf"^pid {child.pid} \(victim-still\): 9 threads, [01] running, [89] waiting\n")
        self.assertRegex(done.stdout, rf"\nblocked on read, for at most [0-9.]+ m?s: {tids['pipe']} pipe\n"
                         r"(    \S*read +libc\.so\.6(  read\.c:\d+)?\n)+    still_pipe +victim-still\n")
        self.assertRegex(done.stdout, rf"{tids['sleep']} sleep\n    span {7:016x} of trace ")
        self.assertEqual(done.stdout.count("still_down"), DEPTH)
        self.assertIn(f"\n    thread {tids['pipe']} pipe has the mutex\n", done.stdout)
        self.assertIn(f"\n    thread {tids['left']} left has the mutex, and waits for this one: a DEADLOCK\n", done.stdout)
        first, second = sorted(("left", "right"), key=tids.get)
        circle = f"deadlock: {tids[first]} {first} → {tids[second]} {second} → {tids[first]}\n\nblocked on "
        self.assertEqual(done.stdout.count("deadlock: "), 1)
        self.assertIn(circle, done.stdout)
        heads = re.findall(r"(?m)^(?:blocked|running|runnable).*: \d+ (\w+)", done.stdout)
        self.assertEqual(set(heads[:2]), {"left", "right"}, "what hangs for ever stands first")

    def test_a_file_in_a_form_of_record(self):
        child, _ = self.start()
        for name, begin in (("x.html", b"<!doctype html>"), ("x.svg", b"<"), ("x.folded", b"")):
            path = self.directory() / name
            self.run_command([tap.SPANPROF, "stacks", child.pid, "-o", path], expect=0)
            self.assertTrue(path.read_bytes().startswith(begin))
            self.assertEqual(path.stat().st_mode & 0o777, 0o600)
        self.assertRegex(path.read_text(), r"(?m)^.*still_main;still_enter;still_poll;\S*poll \d+$")
        self.assertIn("names no format", self.run_command([tap.SPANPROF, "stacks", child.pid, "-o", "/x.y"],
                                                         expect=2).stderr)

    def spans(self, n, capacity):
        """Of @n threads that sleep: {thread: its span}, {thread: the span that was found} of those that slept
        then, since each wakes up now and then."""
        child = self.spawn([tap.VICTIMS / "victim-threads", "1", n, "600", capacity])
        child.wait_for(r"^pid \d+ ready")
        true = {int(tid): int(span)
                for tid, span in re.findall(r"^thread (\d+) sleep-\d+ span (\d+)$", child.out, re.M)}
        tap.wait_until(lambda: all(is_asleep(child.pid, tid) for tid in true), "they sleep")
        found = {thread["tid"]: thread for thread in self.look(child.pid)}
        self.assertEqual(len(true), int(n))
        self.assertLessEqual(set(true), set(found))
        slept = {tid: int(found[tid].get("span_id", "0"), 16) for tid in true if found[tid]["state"] == "blocked"}
        self.assertGreater(len(slept), len(true) / 2)
        return true, slept

    def test_each_of_many_threads_has_its_span(self):
        true, found = self.spans("600", "65536")
        self.assertEqual(found, {tid: true[tid] for tid in found})

    def test_threads_that_share_a_slot_have_no_span(self):
        _, found = self.spans("64", "16")
        self.assertEqual(set(found.values()), {0})

    def test_threads_that_do_the_same_stand_together(self):
        child = self.spawn([tap.VICTIMS / "victim-crowd", "1", "40"])
        child.wait_for("ready")
        [process] = pathlib.Path(f"/proc/{child.pid}/task/{child.pid}/children").read_text().split()
        tap.wait_until(lambda: all(is_asleep(process, tid) for tid in os.listdir(f"/proc/{process}/task")), "they sleep")
        done = self.run_command([tap.SPANPROF, "stacks", process], expect=0)
        self.assertRegex(done.stdout, r"(?m)^blocked on \w+, for at most [^,]+, 39 threads: \d+ victim-crowd"
                         r"(, \d+ victim-crowd){7}, and 31 more$")

    def test_functions_of_python(self):
        child = self.spawn([next(iter(pythons.here().values())),
                            tap.SOURCE_DIR / "tests/victims/python/victim-still.py"])
        child.wait_for("ready")
        below = ["wait_below"] * 4
        tap.wait_until(lambda: all(is_asleep(child.pid, tid) for tid in os.listdir(f"/proc/{child.pid}/task")), "hang")
        stacks = [[frame["function"].rsplit(".", 1)[-1] for frame in thread["frames"]
                   if frame.get("file", "").endswith(".py")] for thread in self.look(child.pid)]
        self.assertEqual(len(stacks), 3)
        self.assertEqual(sum(stack.count("wait_below") for stack in stacks), 4)
        [waits] = [stack for stack in stacks if "wait_below" in stack]
        [sorts] = [stack for stack in stacks if "compare" in stack]
        self.assertEqual(waits[waits.index("wait_below"):][:len(below) + 1], [*below, "run"])
        self.assertLess(sorts.index("compare"), sorts.index("sort"))
        self.assertTrue(any("<module>" in stack for stack in stacks))

    def test_jstack_finds_the_same_methods(self):
        directory = self.directory()
        self.run_command([jdks.tool("javac"), *jdks.BRIEF, "-nowarn", "-d", directory,
                          tap.SOURCE_DIR / "tests/victims/java/VictimStill.java"], expect=0, timeout=120)
        release, java = sorted(jdks.here().items())[-1]
        child = self.spawn([java, "-Xint", "-cp", directory, "VictimStill"])
        child.wait_for("ready")
        jstack = java.parent / "jstack"
        if not jstack.exists():
            tap.skip("tool: jstack is not installed")

        def theirs():
            done = self.run_command([jstack, child.pid], expect=0)
            return {name[:15]: re.findall(r"^\s+at (?:java\.base@?\S*/)?([\w.$]+)\(", frames, re.M)
                    for name, frames in re.findall(r'^"(blocked|parked|dozing)" (.*?)\n\n', done.stdout, re.M | re.S)}

        want = tap.wait_until(lambda: (found := theirs()) and len(found) == 3 and
                              all("VictimStill.down" in stack for stack in found.values()) and found, "they hang")
        mine = {thread["name"]: [name for name in names(thread) if re.match(r"(java|jdk|VictimStill)\b", name)]
                for thread in self.look(child.pid)}
        text = self.run_command([tap.SPANPROF, "stacks", child.pid], expect=0).stdout
        folded, = re.findall(r"(?m)^blocked, (\d+) threads of the runtime .*: (.*)$", text)
        self.assertGreater(int(folded[0]), 5)
        self.assertTrue(text.endswith(f"{folded[1]}\n"), "the program's threads stand first")
        for name in want:
            self.assertRegex(text, rf"(?m)^blocked on .* {name}$")
            self.assertNotIn(f" {name}", folded[1])
        for name, stack in want.items():
            self.assertEqual([f for f in mine[name] if "VictimStill" in f], [f for f in stack if "VictimStill" in f])
            self.assertEqual(len(mine[name]), len(stack), (mine[name], stack))

    def locks_of_java(self, java, *arguments):
        """{thread: (kind of its lock, class, owner, is it a deadlock?)} of VictimLocks; the text; the child."""
        directory = jdks.classes(tap.SOURCE_DIR / "tests/victims/java/VictimLocks.java")
        child = self.spawn([java, *arguments, "-cp", directory, "VictimLocks"])
        child.wait_for("ready")
        threads = self.look(child.pid)
        names = {thread["tid"]: thread["name"] for thread in threads}
        mine = {thread["name"]: (thread["lock"], thread.get("lock_class"), names.get(thread.get("holder_tid")),
                                 thread.get("deadlock", False))
                for thread in threads if "lock" in thread and thread["name"] in LOCKS}
        text = self.run_command([tap.SPANPROF, "stacks", child.pid], expect=0).stdout
        return mine, text, child

    def deadlocks_of_jstack(self, java, child):
        """{(thread, class of the lock that it wants, owner)}"""
        said = self.run_command([java.parent / "jstack", "-l", child.pid], expect=0).stdout
        found = re.findall(r'^"(\w+)":\n  waiting (?:to lock monitor|for ownable synchronizer) .*?,? \(?'
                           r'(?:object 0x\w+, )?a ([\w.$]+)\),\n  which is held by "(\w+)"', said, re.M)
        self.assertIn("Found 2 deadlocks.", said)
        return set(found)

    def test_java_deadlocks_and_owners_are_those_of_jstack(self):
        for release, java in jdks.usual().items():
            with self.subTest(release):
                mine, text, child = self.locks_of_java(java)
                self.assertEqual(mine, LOCKS)
                circles = re.findall(r"(?m)^deadlock: \d+ (\w+) → \d+ (\w+) → \d+$", text)
                self.assertEqual({frozenset(circle) for circle in circles},
                                 {frozenset(("left", "right")), frozenset(("up", "down"))})
                self.assertLess(text.index("deadlock: "), text.index("\nblocked on "))
                self.assertRegex(text, r"\d+ heir\n    waits for the monitor of a VictimLocks\$Estate\n"
                                       r"    thread \d+ idle has the lock\n")
                if (java.parent / "jstack").exists():
                    want = self.deadlocks_of_jstack(java, child)
                    self.assertEqual(want, {(name, *lock[1:3]) for name, lock in mine.items() if lock[3]})

    def look_at_python_locks(self, child, tids, is_read):
        """{thread: what is said of it} once each waits for its lock: before, it sleeps at the barrier."""
        def wait():
            found = {thread["tid"]: thread for thread in self.look(child.pid)}
            locks = PYTHON_LOCKS.items() if is_read else ()
            return found if (all(found[tid]["state"] == "blocked" for tid in tids.values()) and
                             all(found[tids[name]].get("lock_class") == lock for name, (lock, _, _) in locks)) else None

        return tap.wait_until(wait, "each waits for its lock")

    def test_python_rlocks_have_owners_and_locks_say_that_they_have_none(self):
        for version, python in pythons.usual().items():
            with self.subTest(version):
                child = self.spawn([python, tap.SOURCE_DIR / "tests/victims/python/victim-locks.py"])
                said = tap.wait_until(lambda: len(found := re.findall(r"^thread (\w+) (\d+)$", child.out, re.M)) == 7
                                      and found, "all threads have said who they are")
                tids = {name: int(tid) for name, tid in said}
                is_read = (3, 11) <= version <= (3, 13)
                found = self.look_at_python_locks(child, tids, is_read)
                text = self.run_command([tap.SPANPROF, "stacks", child.pid], expect=0).stdout
                if not is_read:
                    self.assertIn(f"\npython {version[0]}.{version[1]}: no locks are read of this release\n", text)
                    self.assertFalse([thread for thread in found.values() if "lock" in thread])
                    continue
                self.assertEqual({found[tid]["name"]: tid for tid in tids.values()}, tids)
                self.assertRegex(text, r"(?m)^    thread \d+ idle has the lock$")
                for name, tid in tids.items():
                    thread, (lock, owner, deadlock) = found[tid], PYTHON_LOCKS.get(name, (None, None, None))
                    self.assertEqual((thread.get("lock_class"), thread.get("holder_tid"), thread.get("deadlock")),
                                     (lock, owner and tids[owner], deadlock), name)
                first, second = sorted((tids["left"], tids["right"]))
                self.assertRegex(text, rf"(?m)^deadlock: {first} (left|right) → {second} (left|right) → {first}$")
                self.assertEqual(text.count("deadlock: "), 1)
                self.assertIn("    waits for a _thread.lock, which does not know who has it\n", text)

    def test_locks_of_rust_say_that_they_know_no_owner(self):
        sources = tap.SOURCE_DIR / "tests/victims"
        program = self.directory() / "locks"
        self.run_command([tap.need_tool("rustc"), "-O", "-o", program, sources / "rust/victim-locks.rs"], expect=0,
                         timeout=300)
        child = self.spawn([program])
        child.wait_for("ready")
        tids = {name: int(tid) for name, tid in re.findall(r"(?m)^(\w+) (\d+)$", child.out)}
        tap.wait_until(lambda: all(is_asleep(child.pid, tid) for tid in tids.values()), "they wait")
        found = {thread["name"]: thread for thread in self.look(child.pid)}
        self.assertEqual({name: found[name].get("lock_class") for name in (*tids, "locks")},
                         {"mutex": "std::sync::Mutex", "reader": "std::sync::RwLock", "writer": "std::sync::RwLock",
                          "locks": None})
        self.assertFalse([thread for thread in found.values() if "holder_tid" in thread])
        text = self.run_command([tap.SPANPROF, "stacks", child.pid], expect=0).stdout
        self.assertIn(" mutex\n    waits for a std::sync::Mutex, which does not know who has it\n", text)
        self.assertIn("\nwhether there is a deadlock cannot be told of 3 threads that wait for locks ", text)

    def test_threads_of_cxx_that_have_no_names_are_said_to_have_none(self):
        """libstdc++'s own function below a thread's start has no symbol in the stripped file of a distribution."""
        source = self.directory() / "locks.cc"
        source.write_text("#include <mutex>\n#include <thread>\n#include <unistd.h>\n#include <cstdio>\n"
                          "static std::mutex a, b;\n"
                          "__attribute__((noinline)) void take(std::mutex &x, std::mutex &y) {\n"
                          "  x.lock(); usleep(300000); y.lock();\n}\n"
                          "int main() {\n"
                          "  std::thread left([] { take(a, b); }), right([] { take(b, a); });\n"
                          "  puts(\"ready\"); fflush(stdout); left.join();\n}\n")
        program = source.with_suffix("")
        self.run_command([tap.need_tool("g++"), "-O2", "-pthread", "-o", program, source], expect=0, timeout=120)
        child = self.spawn([program])
        child.wait_for("ready")
        text = tap.wait_until(lambda: "deadlock: " in (said := self.run_command([tap.SPANPROF, "stacks", child.pid],
                                                                             expect=0).stdout) and said, "they wait")
        self.assertRegex(text, r"(?m)^deadlock: (\d+) locks → (\d+) locks → \1$")
        self.assertIn("all threads have one name: pthread_setname_np()", text)
        self.assertRegex(text, r"(?m)^    (\[start of a std::thread\] +libstdc\+\+\.so\.6\S*|std::.*|execute_native_thread_routine"
                               r".*)\n    start_thread ")

    def test_locks_are_read_with_compact_headers_and_beside_shenandoah(self):
        """Objects that Shenandoah moves between two looks have no lock in that look."""
        javas = {int(release): java for release, java in jdks.here().items()}
        cases = [(java, ("-XX:+UseShenandoahGC",)) for release, java in javas.items() if release >= 17]
        cases += [(java, ("-XX:+UnlockExperimentalVMOptions", "-XX:+UseCompactObjectHeaders"))
                  for release, java in javas.items() if release >= 24]
        known = [(java, options) for java, options in cases
                 if not subprocess.run([java, *options, "-version"], capture_output=True).returncode]
        if not known:
            tap.skip("tool: no JDK has Shenandoah or compact headers")
        for java, options in known:
            with self.subTest(java=java, options=options):
                mine, text, _ = self.locks_of_java(java, *options)
                self.assertEqual(mine, LOCKS)
                self.assertNotIn("are not read", text)

    def test_what_is_not_read_of_locks_of_java_is_said(self):
        java = max(jdks.here().items(), key=lambda found: int(found[0]))[1]
        mine, text, _ = self.locks_of_java(java, "-XX:+UseZGC")
        self.assertRegex(text, r"(?m)^java \d+, -XX:\+UseZGC: classes of locks are not read, nor owners of ")
        self.assertIn("waits for the monitor of an object whose class is not known\n", text)
        self.assertEqual({lock[1] for lock in mine.values()}, {None})
        for name, (_, _, owner, _) in mine.items():
            self.assertIn(owner, (None, LOCKS[name][2]), "an owner that is shown is right")

    def test_what_cannot_be(self):
        done = self.run_command([tap.SPANPROF, "stacks"], expect=2)
        self.assertIn("stacks of whom?", done.stderr)
        done = self.run_command([tap.SPANPROF, "stacks", "x"], expect=2)
        self.assertIn("x is no process id", done.stderr)
        gone = subprocess.run(["true"], check=True) and self.spawn(["true"])
        gone.process.wait()
        done = self.run_command([tap.SPANPROF, "stacks", gone.pid], expect=1)
        self.assertIn(f"there is no process {gone.pid}", done.stderr)
        done = self.run_command([tap.need_tool("setpriv"), "--reuid=65534", "--clear-groups", tap.SPANPROF, "stacks",
                                 os.getpid()], expect=78)
        self.assertIn("try it with sudo", done.stderr)


if __name__ == "__main__":
    tap.main()
