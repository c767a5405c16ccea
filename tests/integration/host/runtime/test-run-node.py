#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Node.js under the daemon, without a flag: functions and lines of tests/victims/node/victim-node.js are what
V8 has said of the same chains. The newest release of this machine's and npm's newest; `--long` takes all, and more
of npm's (SPANPROF_TEST_NODES names others, which all run)."""
import oracle

oracle.enter()

import collections
import json
import os
import pathlib
import re
import shutil
import subprocess

import fresh
import nodes
import session
import tap

HZ = ("--frequency", "1999", "--symbols", "local")
SOURCE = tap.SOURCE_DIR / "tests/victims/node/victim-node.js"
LOST = SOURCE.parent / "victim-lost.js"
TEXT = SOURCE.read_text().splitlines()
BURN = range(TEXT.index("function burn(seed) {") + 1, TEXT.index("function deepA(depth) {"))
# functions that a chain calls before it goes on to `burn`
BESIDE = [["closures", "maker"]]
N = 4000 if tap.LONG else 1500
WHOLE = 0.9             # of samples: the others are in a chain before or behind its `burn`
WRONG = 0               # of samples
LEAVES = 0.97           # of lines of leaves: right ones; of callers: known ones
# a function, and who has called it, in this order: in the main thread; in libuv's
JOINS = {
    "addon_computes": ("turn", "spins", "addon_spins"),
    "back": ("turn", "calls", "addon_calls"),
    "deflate": ("turn", "packs"),
    "HMAC_Final": ("turn", "derives", "pbkdf2Sync"),
}
POOL = ("start_thread", "worker")
# one kind of code alone, or a collector that moves all; Maglev is there from 20 on
TIERS = {
    "interpreter": ("--no-opt", "--no-sparkplug", "--no-maglev"),
    "baseline": ("--no-opt", "--always-sparkplug", "--no-maglev"),
    "no code made at run time": ("--jitless",),
    "native stack": ("--interpreted-frames-native-stack",),
    "collector": ("--stress-compaction", "--gc-interval=500"),
}
OLDEST = "16.20.2"       # not read


def all_nodes():
    """{version: node} of SPANPROF_TEST_NODES (programs, separated by colons), this machine's, and npm's."""
    given = [path for path in os.environ.get("SPANPROF_TEST_NODES", "").split(":") if path]
    releases = nodes.RELEASES if tap.LONG else nodes.RELEASES[-1:]
    others = [] if given and not tap.LONG else [shutil.which("node"), *map(nodes.fetched, releases)]
    found = [*given, *others]
    programs = {}
    for node in filter(None, found):
        version = nodes.version_of(node)
        if version and version >= (18,):
            programs.setdefault(version, node)
    if programs and not tap.LONG and not given:
        return {max(programs): programs[max(programs)]}
    return programs or tap.skip("tool: node is not installed")


def truth_of(test, node):
    """{chain: [(function or None, line), …]} as V8 says, without what begins all of them."""
    return by_chain(json.loads(test.run_command([node, SOURCE, "--print"], expect=0).stdout))


def by_chain(said):
    return {name: [tuple(frame) for frame in frames[2:]] for name, frames in said.items()}


def own(sample):
    """Frames of the victim's chain, the outermost first; none: it is not in one."""
    frames = [f for f in reversed(sample.frames) if f.type == "v8js" and f.file == str(SOURCE)]
    names = [f.name for f in frames]
    return frames[names.index("main") + 1:] if "main" in names else []


def is_named(sample):
    """A function that has moved before its name was read has none, and on a busy machine names come late."""
    return "unknown" not in {f.type for f in sample.frames}


def has_called(names, callers):
    """@names: the outermost first. Whether @callers stand among them in this order."""
    rest = iter(names)
    return all(caller in rest for caller in callers)


def is_same(name, truth):
    return name.startswith("(anonymous") if truth is None else name == truth


def verdict(names, truth):
    for said in truth.values():
        if len(names) <= len(said) and all(is_same(*pair) for pair in zip(names, (name for name, _ in said))):
            return "whole" if len(names) == len(said) else "inner"
    return "inner" if names in BESIDE else "wrong"


def lines_of(frames, truth):
    """Right, wrong and unknown lines of callers, and of `burn`."""
    counts = collections.Counter()
    said = truth[frames[0].name]
    for at, frame in enumerate(frames):
        is_leaf = frame.name == "burn"
        if at + 1 == len(frames) and not is_leaf:
            continue                    # it runs itself, anywhere
        good = frame.line in BURN if is_leaf else frame.line == said[at][1]
        counts["leaf" if is_leaf else "caller",
               "unknown" if not frame.line else "right" if good else f"{frame.name}:{frame.line}"] += 1
    return counts


class Node(session.NamingCase):
    def test_what_v8_says_is_what_the_victim_does(self):
        """The truth that other cases believe: each chain begins in its function and ends in `burn`."""
        chains = set(re.findall(r"^    (\w+)\(\) \{", SOURCE.read_text(), re.M)) - {"side", "constructor"}
        for version, node in all_nodes().items():
            with self.subTest(version=version):
                truth = truth_of(self, node)
                self.assertEqual(set(truth), chains)
                for name, frames in truth.items():
                    self.assertEqual((frames[0][0], frames[-1][0]), (name, "burn"))
                self.assertEqual([name for name, _ in truth["deep"][-5:]],
                                 ["deepA", "deepB", "deepC", "deepA", "burn"])
                self.assertEqual([name for name, _ in truth["shapes"]],
                                 ["shapes", "Square", "total", "get area", "side", "burn"])

    def sampled(self, node, *arguments, behind=()):
        """Samples in chains of the victim, once there are enough, and the run."""
        return self.sampled_of(self.spawn([node, *arguments, SOURCE, *behind]))

    def sampled_of(self, child):
        child.wait_for("ready")
        run = self.start("--pid", child.pid, *HZ)
        self.wait_for(run, lambda samples: sum(bool(own(s)) and is_named(s) for s in samples) >= N,
                      f"{N} samples of chains with all names")
        result = run.stop()
        child.stop(9)
        return [s for s in result.of(child.pid) if own(s)], result

    def check(self, what, samples, truth):
        verdicts, wrong, lines = collections.Counter(), collections.Counter(), collections.Counter()
        for sample in samples:
            names = [f.name for f in own(sample)]
            said = verdict(names, truth) if is_named(sample) else "unnamed"
            verdicts[said] += sample.value
            if said == "wrong":
                wrong[tuple(names)] += sample.value
            elif said != "unnamed" and names not in BESIDE:
                lines.update(lines_of(own(sample), truth))
        print(f"# {what}: {sum(verdicts.values())} samples, {dict(verdicts)}", flush=True)
        print(f"# lines: {dict(lines.most_common(8))}", flush=True)
        print(f"# wrong: {dict(wrong.most_common(3))}", flush=True)
        n = sum(verdicts.values())
        self.assertLessEqual(sum(wrong.values()), WRONG * n, wrong)
        self.assertGreater(verdicts["whole"], WHOLE * (n - verdicts["unnamed"]))
        self.check_lines(lines)

    def check_lines(self, lines):
        bad = {key: n for key, n in lines.items() if key[0] == "caller" and key[1] not in ("right", "unknown")}
        self.assertFalse(bad)
        self.assertGreater(lines["caller", "right"], 0)
        self.assertLess(lines["caller", "unknown"], (1 - LEAVES) * lines["caller", "right"])
        leaves = sum(n for (who, _), n in lines.items() if who == "leaf")
        self.assertGreater(lines["leaf", "right"], LEAVES * leaves)

    def test_chains_and_lines(self):
        for version, node in all_nodes().items():
            with self.subTest(version=version):
                truth = truth_of(self, node)
                samples, result = self.sampled(node)
                self.check(version, samples, truth)
                self.assertLessEqual({name for name, _ in truth["inferred"]},
                                     {f.name for s in samples for f in s.frames})
                self.assertEqual(result.counter("workers_total", "malformed"), 0, result.log)
                # between the function and its `burn`, in each sample of the chain
                between = [[f.name for f in s.frames if f.name.startswith("(WebAssembly)")] for s in samples
                           if [f.name for f in own(s)] == ["wasm", "burn"]]
                self.assertEqual({tuple(names) for names in between}, {("(WebAssembly)",)})

    def test_code_of_regular_expressions_is_called_so(self):
        script = self.directory() / "expression.js"
        script.write_text("function matches(text) { return /(x+x+)+y/.test(text); }\n"
                          "console.log('ready');\nfor (;;)\n    matches('x'.repeat(17));\n")
        programs = all_nodes()
        child = self.spawn([programs[max(programs)], script])     # 18 does not export the mark of such frames
        child.wait_for("ready")
        run = self.start("--pid", child.pid, *HZ)

        def leaves(samples):
            chains = [[f.name for f in s.frames if f.type != "kernel"] for s in samples]
            return collections.Counter(names[0] for names in chains if "matches" in names)

        found = self.wait_for(run, lambda samples: sum(leaves(samples).values()) > 1000 and leaves(samples),
                              "1000 samples of the function")
        run.stop()
        child.stop(9)
        self.assertGreater(found["(regular expression)"], WHOLE * sum(found.values()))

    def test_native_code_stands_where_it_was_called(self):
        """Addons, Node's own crypto and zlib, callbacks from an addon, and libuv's threads."""
        addon = self.directory() / "addon.node"
        self.run_command([tap.need_tool("gcc"), "-O1", "-fno-optimize-sibling-calls", "-shared", "-fPIC", "-o", addon,
                          SOURCE.parent / "addon.c"], expect=0)
        programs = all_nodes()
        for version, node in programs.items():
            with self.subTest(version=version):
                child = self.spawn([node, SOURCE.parent / "victim-joins.js", addon])
                child.wait_for("ready")
                run = self.start("--pid", child.pid, *HZ)
                self.wait_for(run, self.has_all_joins, "samples of each kind of call")
                samples = run.stop().of(child.pid)
                child.stop(9)
                self.check_joins(version, child.pid, samples)

    @staticmethod
    def has_all_joins(samples):
        chains = [{f.name for f in s.frames} for s in samples if is_named(s)]
        return all(sum({name, "turn"} <= names for names in chains) >= N / 50 for name in JOINS)

    def check_joins(self, version, pid, samples):
        """From the first sample on that was walked over frames of JavaScript."""
        chains = [(s, [f.name for f in reversed(s.frames)]) for s in samples if s.frames]
        begin = min(s.time_ns for s, names in chains if "turn" in names)
        counts = collections.Counter()
        for sample, names in chains:
            found = [name for name in JOINS if name in names]
            if sample.time_ns < begin or not found or not is_named(sample):
                continue
            is_main = sample.thread_id == pid
            good = has_called(names, (JOINS[found[-1]] if is_main else POOL) + (found[-1],))
            if not is_main:
                good = good and not {f.type for f in sample.frames} & {"v8js"}
            counts[found[-1] if is_main else "pool", good] += 1
        print(f"# {version}, joins: {dict(counts)}", flush=True)
        self.assertEqual({what for what, _ in counts}, {*JOINS, "pool"})
        for what in (*JOINS, "pool"):
            self.assertGreater(counts[what, True], WHOLE * (counts[what, True] + counts[what, False]), what)

    def test_each_kind_of_code_alone(self):
        programs = all_nodes()
        for version, node in programs.items():
            truth = truth_of(self, node)
            for name, arguments in TIERS.items():
                some = [word for word in arguments if version >= (20,) or word != "--no-maglev"]
                with self.subTest(version=version, code=name):
                    self.check(f"{version}, {name}", self.sampled(node, *some)[0], truth)

    def test_a_caller_that_has_lost_its_code_keeps_its_line_and_what_was_inlined(self):
        """tests/victims/node/victim-lost.js: whoever waits for `burn` returns to an exit behind its code."""
        programs = all_nodes()
        lines = LOST.read_text().splitlines()
        truth = [("main", "outer(true);"), ("outer", "inner(is_last,"), ("inner", "decides(outer, is_last);"),
                 ("decides", "return burn(2);")]
        places = [(name, 1 + next(i for i, line in enumerate(lines) if line.strip().endswith(text)))
                  for name, text in truth]
        for version, node in programs.items():
            with self.subTest(version=version):
                flags = ["--allow-natives-syntax", *(["--no-maglev"] if version >= (20,) else [])]
                child = self.spawn([node, *flags, LOST])
                child.wait_for("ready")
                run = self.start("--pid", child.pid, *HZ)

                def chains(samples):
                    named = [[f for f in reversed(s.frames) if f.type == "v8js" and f.file == str(LOST)]
                             for s in samples if is_named(s)]
                    callers = [frames[-len(truth) - 1:-1] for frames in named
                               if frames and frames[-1].name == "burn"]
                    return collections.Counter(tuple((f.name, f.line) for f in frames) for frames in callers)

                found = self.wait_for(run, lambda samples: chains(samples).total() >= N / 2 and
                                      chains(samples), "samples of burn")
                run.stop()
                child.stop(9)
                print(f"# {version}, lost code: {found.most_common(4)}", flush=True)
                self.assertEqual(set(found) - {()}, {tuple(places)})
                self.assertGreater(found[tuple(places)], WHOLE * found.total())

    def test_workers_with_isolates_of_their_own(self):
        """Three threads in the same chains: none is without functions, and none has another's."""
        programs = all_nodes()
        for version, node in programs.items():
            with self.subTest(version=version):
                samples, _ = self.sampled(node, behind=("--workers",))
                self.check(f"{version}, workers", samples, truth_of(self, node))
                self.assertEqual(len({s.thread_id for s in samples}), 3)

    if tap.LONG:                        # it makes a root of a Debian 13
        def test_the_library_of_debian(self):
            """`node` of Debian 13 has its V8 in libnode.so."""
            root = fresh.Root(self, "node", ["gcc", "libc6-dev", "nodejs", "npm"])
            root.write(str(SOURCE), SOURCE.read_text())
            self.assertIn("libnode.so", root.run(self, "ldd /usr/bin/node"))
            said = json.loads(root.run(self, f"node {SOURCE} --print"))
            samples, _ = self.sampled_of(root.spawn(self, f"exec node {SOURCE}"))
            self.check("libnode.so", samples, by_chain(said))

    def test_a_release_that_is_not_read_is_named(self):
        node = nodes.fetched(OLDEST) or tap.skip("machine: npm has not been reached")
        child = self.spawn([node, SOURCE, "deep"])
        child.wait_for("ready")
        said = self.run_command([tap.SPANPROF, "targets", "--verbose", "--pid", child.pid], expect=0).stdout
        child.stop(9)
        self.assertRegex(said, r"V8 9\.4\.\d+: layout unknown: .+; --perf-basic-prof names its code")

    def test_an_idle_loop_is_told_from_a_function_that_waits(self):
        """Both are in epoll_wait: the loop until a timer is due, the function until a child process has ended."""
        script = self.directory() / "idle.js"
        script.write_text("const { spawnSync } = require('child_process');\n"
                          "function asks() { spawnSync('sleep', ['0.05']); }\n"
                          "console.log('ready');\nsetInterval(asks, 100);\n")
        programs = all_nodes()
        child = self.spawn([programs[max(programs)], script])
        child.wait_for("ready")
        run = self.start("--pid", child.pid, "--symbols", "local", "--off-cpu", "--off-cpu-walks", "100000")

        def reasons(samples):
            """{whether the function is on the stack: {reason: waits of 20 ms and more}}"""
            found = collections.defaultdict(collections.Counter)
            for s in samples:
                calls = {"futex", "poll", "epoll_wait (idle)"} & {s.attributes.get("wait.reason")}
                if s.type == "off_cpu" and calls and s.thread_id == child.pid and is_named(s) and \
                        s.attributes["wait.state"] == "blocked" and s.value >= 20e6 and s.frames:
                    found["asks" in {f.name for f in s.frames}][calls.pop()] += 1
            return found

        self.wait_for(run, lambda samples: all(sum(reasons(samples)[is_asked].values()) >= 10
                                               for is_asked in (True, False)), "waits of both kinds")
        found = reasons(run.stop().waits)
        child.stop(9)
        self.assertEqual(set(found[True]), {"poll"})
        self.assertEqual(set(found[False]), {"epoll_wait (idle)"})

    def test_a_loop_that_hangs_shows_the_function_that_holds_it(self):
        script = self.directory() / "holds.js"
        script.write_text("function holds() { for (;;); }\n"
                          "function due() {\n    holds();\n}\n"
                          "setTimeout(due, 10);\nsetTimeout(() => console.log('never'), 20);\n"
                          "console.log('ready');\n")
        for version, node in all_nodes().items():
            with self.subTest(version=version):
                child = self.spawn([node, script])
                child.wait_for("ready")
                shown = re.compile(r"^ +holds +holds\.js:1$\n^ +due +holds\.js:3$\n", re.M)
                tap.wait_until(lambda: shown.search(self.run_command([tap.SPANPROF, "stacks", child.pid]).stdout),
                               "functions of the loop that hangs")
                child.stop(9)

    def test_a_thread_that_waits_shows_its_functions(self):
        """`spanprof stacks`: by the rules of the kernel half, on the host."""
        script = self.directory() / "hang.js"
        script.write_text("function hangs() { return Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0); }\n"
                          "const outer = () => {\n    return hangs() + 1;\n};\nconsole.log('ready');\nouter();\n")
        for version, node in all_nodes().items():
            with self.subTest(version=version):
                child = self.spawn([node, script])
                child.wait_for("ready")
                shown = re.compile(r"^ +hangs +hang\.js:1$\n^ +outer +hang\.js:3$\n"
                                   r"^ +\(anonymous hang\.js:1\) +hang\.js:6$", re.M)
                # it may not wait yet
                tap.wait_until(lambda: shown.search(self.run_command([tap.SPANPROF, "stacks", child.pid]).stdout),
                               "functions of the thread that waits")
                child.stop(9)

    def test_off_is_off(self):
        programs = all_nodes()
        child = self.spawn([programs[max(programs)], SOURCE, "deep"])
        child.wait_for("ready")
        run = self.start("--pid", child.pid, *HZ, "--runtimes=python")
        run.wait_events(300, child.pid)
        result = run.stop()
        child.stop(9)
        self.assertEqual({f.type for s in result.of(child.pid) for f in s.frames} & {"v8js"}, set())


if __name__ == "__main__":
    tap.main()
