# SPDX-License-Identifier: Apache-2.0
"""unittest, printed as TAP, with the helpers that tests of whole programs need.

    import tap

    class Receive(tap.TestCase):
        def test_stores_what_is_posted(self):
            child = self.spawn([tap.SPANPROF, "receive", "--port", "0", "-o", self.directory()])
            port = child.wait_for(r"port (\\d+)").group(1)
            ...

    tap.main()

One subtest per method; `FILE.py NAME…` runs those whose name contains one of NAME, `FILE.py --but NAME…`
all others, and `--list` names them. `--long` before these sets LONG: a file that has a long form takes each
release that can be had, or more samples. Where TEST_CASES in the environment has whole names of this file's
cases, these alone run. Meson sets SPANPROF (the binary), BUILD_DIR and SOURCE_DIR; by hand they default to
./build and this tree.

A comment before each result says how long it took, and how much CPU: what is far below that has waited.

Skips. A reason starts with what is missing, and the start decides whether continuous integration may accept
it:
`kernel: …` and `machine: …` are the machine's and pass; everything else (`tool: …`, `root: …`, `library: …`) can be
installed or granted, and fails the run there.

Nothing that a test starts outlives it: children are killed when the test ends, however it ends, and die with
this process (PR_SET_PDEATHSIG).
"""
import contextlib
import ctypes
import os
import pathlib
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import unittest

SOURCE_DIR = pathlib.Path(os.environ.get("SOURCE_DIR", pathlib.Path(__file__).resolve().parents[2]))
BUILD_DIR = pathlib.Path(os.environ.get("BUILD_DIR", SOURCE_DIR / "build"))
# programs and libraries of tests, as the build has made them
VICTIMS, ORACLES, HARNESS = (BUILD_DIR / "tests" / name for name in ("victims", "oracles", "harness"))
SPANPROF = os.environ.get("SPANPROF", str(BUILD_DIR / "spanprof"))
# rooms of tests/integration: a script may use cases of another, `importlib.import_module("test-NAME")`
SCRIPTS = {path.stem: path for path in sorted((SOURCE_DIR / "tests/integration").rglob("test-*.py"))}
sys.path += sorted({str(path.parent) for path in SCRIPTS.values()})
LONG = "--long" in sys.argv[1:]
SIDE_BY_SIDE = "SIDE_BY_SIDE" in os.environ         # other tests run at the same time
BUSY = {VICTIMS / f"victim-{name}" for name in ("chain", "chain-static", "shares")}     # use a CPU, to their end
PATIENCE = 60  # seconds until a wait is a failure: not a claim about speed, only an end
PR_SET_PDEATHSIG = 1
UNITTEST = os.path.dirname(unittest.__file__)

_libc = ctypes.CDLL(None, use_errno=True)


def skip(reason):
    raise unittest.SkipTest(reason)


def need_root():
    if os.geteuid() != 0:
        skip("root: needs root")


def need_tool(name):
    """Path of a program, or a skip."""
    return shutil.which(name) or shutil.which(
        name, path="/usr/sbin:/sbin") or skip(f"tool: {name} is not installed")


def version():
    """The version of this tree, as packages have it."""
    return subprocess.run([SOURCE_DIR / "packaging/version"], capture_output=True, text=True, check=True).stdout.strip()


def need_kernel(release, lacks):
    """@release: (6, 6); @lacks: what an older one says, after `kernel:`."""
    if tuple(map(int, re.findall(r"\d+", os.uname().release)[:2])) < release:
        skip(f"kernel: {lacks} (before {'.'.join(map(str, release))})")


def need_btf():
    if not os.path.exists("/sys/kernel/btf/vmlinux"):
        skip("kernel: no BTF (/sys/kernel/btf/vmlinux)")


def wait_until(condition, what, patience=PATIENCE):
    """Calls @condition until it yields something true, and returns that."""
    end = time.monotonic() + patience
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"still not after {patience} s: {what}")
        time.sleep(0.02)


def _die_with_parent():
    _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    # ignored in all that a shell runs in the background, and in what that starts
    for number in signal.SIGINT, signal.SIGQUIT:
        signal.signal(number, signal.SIG_DFL)


def _die_and_give_way():
    """The scheduler shares the CPUs among sessions: this one is new, and gets a third of what others get."""
    _die_with_parent()
    with contextlib.suppress(OSError):
        os.setsid()
        pathlib.Path("/proc/self/autogroup").write_text("5")


class Child:
    """A program in the background; `out` and `err` are what it has written so far."""

    def __init__(self, argv, **options):
        self.argv = [str(a) for a in argv]
        self._out = tempfile.TemporaryFile()
        self._err = tempfile.TemporaryFile()
        options.setdefault("stdin", subprocess.DEVNULL)
        options.setdefault("stdout", self._out)
        options.setdefault("stderr", self._err)
        # while daemons and scripts wait for windows; who sleeps or is told what to do must not wait for a CPU
        gives_way = SIDE_BY_SIDE and pathlib.Path(self.argv[0]) in BUSY
        options.setdefault("preexec_fn", _die_and_give_way if gives_way else _die_with_parent)
        self.process = subprocess.Popen(self.argv, **options)
        self.pid = self.process.pid

    @staticmethod
    def _text(file):
        return os.pread(file.fileno(), os.fstat(file.fileno()).st_size, 0).decode(errors="replace")

    @property
    def out(self):
        return self._text(self._out)

    @property
    def err(self):
        return self._text(self._err)

    @property
    def status(self):
        """Exit status (negative: signal), or None while it runs."""
        return self.process.poll()

    def wait_for(self, pattern, patience=PATIENCE):
        """Waits until standard output or error has a match of @pattern and returns it."""

        def look():
            ended = self.status is not None
            match = re.search(pattern, self.out, re.M) or re.search(pattern, self.err, re.M)
            if not match and ended:
                raise AssertionError(f"{self} ended ({self.status}) without {pattern!r}")
            return match

        return wait_until(look, f"{pattern!r} from {self}", patience)

    def wait(self, patience=PATIENCE):
        """Waits for its end. Returns the exit status."""
        try:
            return self.process.wait(patience)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"still runs after {patience} s: {self}") from None

    def stop(self, sig=signal.SIGTERM, patience=PATIENCE):
        """Asks it to stop and waits. Returns the exit status."""
        if self.status is None:
            self.process.send_signal(sig)
        return self.wait(patience)

    def kill(self):
        if self.status is None:
            self.process.kill()
        self.process.wait()
        self._out.close()
        self._err.close()

    def __str__(self):
        return f"`{' '.join(self.argv)}`\n--- its output\n{self.out[-4000:]}\n--- its errors\n{self.err[-4000:]}"


class TestCase(unittest.TestCase):
    maxDiff = 4000

    def spawn(self, argv, **options):
        """Starts a Child that ends with the test."""
        child = Child(argv, **options)
        self.addCleanup(child.kill)
        return child

    def run_command(self, argv, expect=None, **options):
        """Runs to its end. Returns subprocess.CompletedProcess with text; checks the status if @expect is given."""
        options.setdefault("timeout", PATIENCE)
        options.setdefault("stdin", subprocess.DEVNULL)
        try:
            done = subprocess.run([str(a) for a in argv], capture_output=True, text=True, errors="replace",
                                  preexec_fn=_die_with_parent, **options)
        except subprocess.TimeoutExpired as late:
            late.add_note(f"{late.stdout}\n{late.stderr}")      # bytes; what it said until then
            raise
        if expect is not None:
            self.assertEqual(done.returncode, expect, f"{argv}\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}")
        return done

    def record_until(self, done, *options):
        """`record` with @options, stopped when done() has returned. Return: the child, which ended well."""
        recorder = self.spawn([SPANPROF, "record", *options])
        recorder.wait_for("chosen: ")
        done()
        self.assertEqual(recorder.stop(signal.SIGINT), 0, recorder)
        return recorder

    def spanprof(self, *args, expect=0, **options):
        return self.run_command([SPANPROF, *args], expect=expect, **options)

    def directory(self):
        """A new directory that goes away with the test."""
        path = tempfile.mkdtemp(prefix="spanprof-test-")
        self.addCleanup(shutil.rmtree, path, ignore_errors=True)
        return pathlib.Path(path)


def _clocks():
    """Time, and CPU time of this process and of all children that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return time.monotonic(), sum(x.ru_utime + x.ru_stime for x in used)


def _told(error):
    """The exception as Python shows it, without the frames of unittest."""
    shown = traceback.TracebackException(*error)
    shown.stack[:] = [frame for frame in shown.stack if not frame.filename.startswith(UNITTEST)]
    return "".join(shown.format())


class _Result(unittest.TestResult):
    """Prints a TAP line when a test has ended; collects what went wrong until then."""

    def __init__(self, out):
        super().__init__()
        self.out, self.n, self.problems, self.reason, self.begin = out, 0, [], None, _clocks()

    def startTest(self, test):
        super().startTest(test)
        self.problems, self.reason, self.begin = [], None, _clocks()

    def _problem(self, error):
        self.problems.append(_told(error))

    def addError(self, test, err):
        super().addError(test, err)
        if isinstance(test, unittest.TestCase):
            self._problem(err)
        else:  # setUpClass or setUpModule: no startTest() for it
            self._print(str(test), _told(err), None)

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self._problem(err)

    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)
        if err is not None:
            self.problems.append(f"{subtest}\n{_told(err)}")

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        if isinstance(test, unittest.TestCase):
            self.reason = reason
        else:
            self._print(str(test), None, reason)

    def addUnexpectedSuccess(self, test):
        super().addUnexpectedSuccess(test)
        self.problems.append("passed, but is marked as an expected failure\n")

    def stopTest(self, test):
        super().stopTest(test)
        name = f"{type(test).__name__}.{test._testMethodName}"
        took, cpu = (now - begin for now, begin in zip(_clocks(), self.begin))
        self.out.write(f"# {took:.1f} s, {cpu:.1f} s of CPU: {name}\n")
        self._print(name, "".join(self.problems) or None, self.reason)

    def _print(self, name, problem, reason):
        self.n += 1
        name = name.replace("#", "")
        text = f"{'not ok' if problem else 'ok'} {self.n} - {name}"
        if reason and not problem:
            text += f" # SKIP {' '.join(reason.split())}"
        lines = [text] + [f"# {line}" for line in (problem or "").splitlines()]
        self.out.write("\n".join(lines) + "\n")
        self.out.flush()


def _all_of(suite):
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            yield from _all_of(test)
        else:
            yield test


def _chosen(tests, names):
    """Those that @names ask for. A name that stands for no test is a mistake: a test would run twice, or never."""
    is_but, names = names[:1] == ["--but"], [name for name in names if name != "--but"]
    unknown = [name for name in names if not any(name in test.id() for test in tests)]
    if unknown and is_but:
        raise SystemExit(f"no test has a name with {', '.join(unknown)} in it")
    return [test for test in tests if not names or any(name in test.id() for name in names) != is_but]


def main(names=None):
    """Runs the tests of the calling script. Exit status 1 if one failed, or if there was none."""
    everything = list(_all_of(unittest.defaultTestLoader.loadTestsFromModule(sys.modules["__main__"])))
    names = [word for word in sys.argv[1:] if word != "--long"] if names is None else names
    if names == ["--list"]:
        print("\n".join(test.id().removeprefix("__main__.") for test in everything))
        sys.exit(0)
    tests = _chosen(everything, names)
    again = os.environ.get("TEST_CASES", "").split()
    tests = [test for test in tests if test.id().removeprefix("__main__.") in again] or tests
    out = sys.stdout
    out.write("TAP version 13\n")
    result = _Result(out)

    def end(signum, _frame):  # meson's timeout: unwind, so that cleanups run; no test follows
        result.stop()
        raise SystemExit(128 + signum)

    signal.signal(signal.SIGTERM, end)
    with contextlib.redirect_stdout(sys.stderr):  # a test's own prints would tear the TAP
        unittest.TestSuite(tests).run(result)
    out.write(f"1..{result.n}\n")
    out.flush()
    sys.exit(0 if result.wasSuccessful() and result.n else 1)
