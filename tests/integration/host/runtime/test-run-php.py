#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""PHP under the daemon, without a flag: functions and lines of tests/victims/php/victim-php.php are what PHP
has said of the same chains. With --long also the releases of other suites of Debian (SPANPROF_TEST_PHPS names
more programs than this machine's)."""
import oracle

oracle.enter()

import collections
import itertools
import json
import os
import re
import shutil

import phps
import session
import tap

HZ = ("--frequency", "1999", "--symbols", "local", "--depth", "512")
SOURCE = tap.SOURCE_DIR / "tests/victims/php/victim-php.php"
TEXT = SOURCE.read_text().splitlines()
BURN = range(TEXT.index("function burn($seed) {") + 1, TEXT.index("function look() {"))
LOOP = {at for at, line in enumerate(TEXT, 1) if "$total = " in line and at in BURN and "for" not in line}
N = 10000 if tap.LONG else 2500
FEW = 600               # samples of a program that has one chain
OPCACHE = ("-d", "zend_extension=opcache", "-d", "opcache.enable_cli=1", "-d", "opcache.file_update_protection=0",
           "-d", "display_startup_errors=0")
WHOLE = 0.99            # of samples: those in a chain, or on the way to its `burn`
LEAVES = 0.5            # of samples with `burn` innermost: those in its loop; a stale line is that of its begin
# what chains call before they go on to `burn`
BESIDE = {"thrower", "Exception::__construct", "set_error_handler", "restore_error_handler", "Shape::bound",
          "Fiber::__construct", "Fiber::suspend", "ArrayIterator::__construct"}
# what a fiber does that is resumed later
BEFORE = ["{closure}", "Fiber::start", "{closure}", "Fiber::start", "{closure}"]
# most of its time in a function of C, which 8.4 calls without a frame
SEARCH = """<?php
function searches($text) {
    return strpos($text, 'ab');
}
echo "ready\\n";
for ($text = str_repeat('a', 1 << 16);;)
    searches($text);
"""
# whether opcache works, and its JIT, by two digits
WORKS = "$s = opcache_get_status(false); echo (int)($s['opcache_enabled'] ?? 0), (int)($s['jit']['on'] ?? 0);"


def all_phps():
    given = [path for path in os.environ.get("SPANPROF_TEST_PHPS", "").split(":") if path]
    fetched = map(phps.fetched, phps.SUITES) if tap.LONG else []
    return list(filter(None, (*given, *fetched, shutil.which("php")))) or tap.skip("tool: php is not installed")


def plain(name):
    """From 8.4 on a closure's name has its place in it, and those of who made it."""
    return re.sub(r"\{closure.*\}", "{closure}", name)


def truth_of(test, php):
    """{chain: [(function, line or 0), …]} as PHP says. An included file's code is its `main`."""
    said = json.loads(test.run_command([*php, SOURCE, "--print"], expect=0).stdout)
    return {name: [("main" if function == "include" else plain(function), line or 0) for function, line in chain]
            for name, chain in said.items()}


def own(sample):
    """Functions of PHP below the script's own code, the outermost first; none: it is not in one."""
    frames = [f for f in reversed(sample.frames) if f.type == "php"]
    return frames[1:] if frames and frames[0].name == "main" else []


def is_named(sample):
    """A busy machine names some frames too late. Code without a file that PHP's JIT has made is innermost."""
    types = [f.type for f in sample.frames]
    return "unknown" not in types[types.index("php") if "php" in types else 0:]


def verdict(names, truth):
    chains = [[f for f, _ in chain] for chain in truth.values()]
    if names in chains:
        return "whole"
    some = list(itertools.takewhile(lambda name: name not in BESIDE, names))
    if len(names) > len(some) + 2:
        return "wrong"
    return "inner" if any(some == chain[:len(some)] for chain in [*chains, BEFORE]) else "wrong"


def lines_of(frames, truth):
    """Of a whole chain: `right`, or what is wrong, of its callers and of `burn`."""
    names, lines = [plain(f.name) for f in frames], [f.line for f in frames]
    said = [[line for _, line in chain] for chain in truth.values() if [f for f, _ in chain] == names]
    yield "caller", "right" if any(lines[:-1] == some[:-1] for some in said) else str(list(zip(names, lines)))
    leaf = lines[-1]
    yield "leaf", "unknown" if not leaf else "loop" if leaf in LOOP else "right" if leaf in BURN else str(leaf)


class Php(session.NamingCase):
    def said(self, command):
        return self.run_command([*command, "-r", WORKS]).stdout

    def is_eight(self, php):
        return int(self.run_command([php, "-n", "-r", "echo PHP_VERSION_ID;"], expect=0).stdout) >= 80000

    def sampled(self, php, *chains):
        """Samples of the victim, from the first one with a function of PHP on, and the run."""
        child = self.spawn([*php, SOURCE, *chains])
        child.wait_for("ready")
        run = self.start("--pid", child.pid, *HZ)
        self.wait_for(run, lambda samples: sum(bool(own(s)) and is_named(s) for s in samples) >= N,
                      f"{N} samples of chains with all names")
        result = run.stop()
        child.stop(9)
        samples = result.of(child.pid)
        begin = min(s.time_ns for s in samples if own(s))
        return [s for s in samples if s.time_ns >= begin], result

    def check(self, what, samples, truth):
        verdicts, wrong, lines, ends = (collections.Counter() for _ in range(4))
        for sample in samples:
            frames = own(sample)
            said = "none" if not frames else verdict([plain(f.name) for f in frames], truth)
            if not is_named(sample):
                said = "unnamed"
            elif said == "none" and any((f.type, f.name) == ("php", "main") for f in sample.frames):
                said = "top"            # between two calls of the script's own loop
            verdicts[said] += sample.value
            ends[sample.attributes.get("profile.stack.truncated")] += sample.value
            if said == "wrong":
                wrong[tuple(f.name for f in frames)] += sample.value
            elif said == "whole":
                lines.update(lines_of(frames, truth))
        n = sum(verdicts.values())
        print(f"# {what}: {n} samples, {dict(verdicts)}, ends {dict(ends)}", flush=True)
        print(f"# lines: {dict(lines.most_common(8))}", flush=True)
        print(f"# wrong: {dict(wrong.most_common(3))}", flush=True)
        self.assertFalse(wrong)
        self.assertGreaterEqual(verdicts["whole"] + verdicts["inner"],
                                WHOLE * (n - verdicts["unnamed"] - verdicts["top"]))
        self.assertLess(verdicts["top"], 0.02 * n)
        self.assertLess(verdicts["unnamed"], 0.1 * n)
        return lines, ends

    def check_lines(self, lines, has_leaves=True):
        bad = {key: n for key, n in lines.items() if key[1] not in ("right", "loop", "unknown")}
        self.assertFalse(bad)
        leaves = sum(n for (who, _), n in lines.items() if who == "leaf")
        self.assertGreaterEqual(lines["leaf", "loop"], LEAVES * leaves if has_leaves else 0)
        self.assertGreater(lines["caller", "right"], 0)

    def test_chains_and_lines(self):
        for php in all_phps():
            with self.subTest(php=php):
                truth = truth_of(self, [php])
                samples, result = self.sampled([php])
                lines, _ = self.check(php, samples, truth)
                # 7.4 does not say where a function has its ops, so that no leaf has a line
                self.check_lines(lines, self.is_eight(php))
                self.assertEqual(result.counter("workers_total", "malformed"), 0, result.log)

    def test_code_that_opcache_shares(self):
        """It lies in shared memory, and is another code than without: with fewer steps."""
        for php in all_phps():
            with self.subTest(php=php):
                command = [php, *OPCACHE]
                if self.said(command)[:1] != "1":
                    tap.skip("library: opcache is not installed")
                lines, _ = self.check("opcache", self.sampled(command)[0], truth_of(self, command))
                self.check_lines(lines, self.is_eight(php))

    def test_code_made_at_run_time_keeps_functions_of_php(self):
        """Where opcache compiles, native callers of that code are not known: the chain is."""
        programs = [php for php in all_phps() if self.is_eight(php)]
        programs or tap.skip("library: PHP 8, which has a JIT, is not installed")
        for php, jit in itertools.product(programs, ("tracing", "function")):
            with self.subTest(php=php, jit=jit):
                command = [php, *OPCACHE, "-d", f"opcache.jit={jit}", "-d", "opcache.jit_buffer_size=32M"]
                said = self.said(command)
                if said[:1] != "1":
                    tap.skip("library: opcache is not installed")
                self.assertEqual(said, "11")
                _, ends = self.check(jit, self.sampled(command)[0], truth_of(self, command))
                # code of the JIT ends the native walk; without it hardly a stack does
                self.assertGreater(ends["no_rows"], 0.5 * sum(ends.values()), ends)

    def test_functions_of_c_that_are_called_without_a_frame(self):
        script = self.directory() / "search.php"
        script.write_text(SEARCH)
        for php in all_phps():
            with self.subTest(php=php):
                child = self.spawn([php, "-n", script])
                child.wait_for("ready")
                run = self.start("--pid", child.pid, *HZ)
                self.wait_for(run, lambda samples: sum(bool(own(s)) and is_named(s) for s in samples) >= FEW,
                              f"{FEW} samples with all names")
                result = run.stop()
                child.stop(9)
                chains = collections.Counter(tuple((f.name, f.line) for f in s.frames if f.type == "php")
                                             for s in result.of(child.pid) if own(s) and is_named(s))
                print(f"# {php}: {chains.most_common(4)}", flush=True)
                whole = ("strpos", 0), ("searches", 3), ("main", 7)
                self.assertGreaterEqual(chains[whole], WHOLE * sum(chains.values()))
                # in its caller, before the call or behind it: the line is that of the registers
                self.assertEqual({chain for chain in chains if chain != whole and
                                  not (chain[-2][0] == "searches" and len(chain) == 2)}, set())

    def test_a_release_is_named_by_targets(self):
        child = self.spawn([all_phps()[-1], SOURCE])
        child.wait_for("ready")
        said = self.run_command([tap.SPANPROF, "targets", "--verbose", "--pid", child.pid], expect=0).stdout
        child.stop(9)
        release = self.run_command([all_phps()[-1], "-n", "-r", "echo PHP_VERSION;"], expect=0).stdout
        self.assertIn(f"  PHP {release}  ", said)

    def test_static_builds_are_refused_in_words(self):
        """They export nothing by which functions are found."""
        programs = list(filter(None, map(phps.static, phps.STATIC))) or tap.skip("machine: no packages of PyPI")
        for php in programs:
            with self.subTest(php=php):
                child = self.spawn([php, "-n", SOURCE, "plain"])
                child.wait_for("ready")
                said = self.run_command([tap.SPANPROF, "targets", "--verbose", "--pid", child.pid], expect=0).stdout
                child.stop(9)
                release = self.run_command([php, "-n", "-r", "echo PHP_VERSION;"], expect=0).stdout
                self.assertIn(f"  PHP {release}: not walked: a static build, which exports nothing  ", said)

    def test_a_program_that_sleeps_shows_its_functions(self):
        """`spanprof stacks`: by the rules of the kernel half, on the host."""
        script = self.directory() / "hang.php"
        script.write_text("<?php\nfunction hangs() {\n    sleep(1000);\n}\necho \"ready\\n\";\nhangs();\n")
        child = self.spawn([all_phps()[-1], script])
        child.wait_for("ready")
        shown = re.compile(r"^ +sleep *$\n^ +hangs +hang\.php:3$\n^ +main +hang\.php:6$", re.M)
        # it may not wait yet
        tap.wait_until(lambda: shown.search(self.run_command([tap.SPANPROF, "stacks", child.pid]).stdout),
                       "functions of the thread that waits")
        child.stop(9)

    def test_off_is_off(self):
        child = self.spawn([all_phps()[-1], SOURCE, "plain"])
        child.wait_for("ready")
        run = self.start("--pid", child.pid, *HZ, "--runtimes=python")
        run.wait_events(300, child.pid)
        result = run.stop()
        child.stop(9)
        self.assertEqual({f.type for s in result.of(child.pid) for f in s.frames} & {"php"}, set())


if __name__ == "__main__":
    tap.main()
