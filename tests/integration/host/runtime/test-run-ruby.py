#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Ruby under the daemon, without a flag: methods and lines of tests/victims/ruby/victim-ruby.rb are what Ruby
has said of the same chains. With --long also releases of other suites of Debian (SPANPROF_TEST_RUBIES names
more programs than this machine's)."""
import oracle

oracle.enter()

import collections
import json
import os
import re
import shutil

import rubies
import session
import tap

HZ = ("--frequency", "1999", "--symbols", "local", "--depth", "512")
SOURCE = tap.SOURCE_DIR / "tests/victims/ruby/victim-ruby.rb"
TEXT = SOURCE.read_text().splitlines()
BURN = range(TEXT.index("def burn(seed)") + 2, TEXT.index("module Counts"))
N = 8000 if tap.LONG else 2000
FEW = 200               # samples of a thread that has one chain
WHOLE = 0.99            # of samples: those in a chain, or on the way to its `burn`
MOST_BESIDE = 4         # methods of such a way
RACTORS = """$stdout.sync = true
Warning[:experimental] = false
PRINT = ARGV.include?('--print')
def burn(n)
  puts caller_locations(0).map { |at| "#{at.lineno} #{at.label}" }.join(';') if PRINT
  i = 0
  while i < 4000
    n = (n * 31 + i) & 0xffff
    i += 1
  end
  n
end
def hot(n)
  burn(n) + 1
end
def works(n)
  [n].each { |x| hot(x) }
end
others = Array.new(2) { |i| Ractor.new(i) { |n| loop { works(n); break if PRINT } } }
others.each(&:take) if PRINT
puts 'ready' unless PRINT
loop { hot(1); break if PRINT }
"""
CHAIN = re.compile(r"block( \([23] levels\))? in <main>")  # what calls a chain, and the chain's own block


def all_rubies():
    given = [path for path in os.environ.get("SPANPROF_TEST_RUBIES", "").split(":") if path]
    fetched = map(rubies.fetched, rubies.SUITES) if tap.LONG else []
    return list(filter(None, (*given, *fetched, shutil.which("ruby")))) or tap.skip("tool: ruby is not installed")


def ruby():
    return all_rubies()[-1]


def plain(name):
    """A method without its class."""
    return re.sub(r"^((?:block .*|rescue) in )?[\w:]+[.#](?=.)", r"\1", name)


def own(names, chain):
    """The part of @chain, the outermost first, from a chain's own block on; a fiber has nothing in front."""
    calls = (i for i in range(1, len(names)) if CHAIN.fullmatch(names[i]) and CHAIN.fullmatch(names[i - 1]))
    return chain[next(calls, len(names) if names[:1] == ["<main>"] else 0):]


def truth_of(test, program):
    """[[(label, line), …], …] as Ruby says of each call of `burn`."""
    said = json.loads(test.run_command([program, SOURCE, "--print"], expect=0).stdout)
    return [own([label for label, _, _ in chain], [(label, line) for label, line, _ in chain])
            for some in said.values() for chain in some]


def chain_of(sample):
    """Frames of Ruby, the outermost first, without the innermost one's mark of the collector."""
    frames = [f for f in reversed(sample.frames) if f.type == "ruby"]
    if frames and frames[-1].name == "(gc)":
        frames.pop()
    if [plain(f.name) for f in frames[-2:]] == ["burn", "*"]:
        frames.pop()            # code that YJIT has made calls it
    return own([f.name for f in frames], frames)


def is_named(sample):
    """A busy machine names some frames too late. Code without a file that a JIT has made is innermost."""
    types = [f.type for f in sample.frames]
    return "unknown" not in types[types.index("ruby") if "ruby" in types else 0:]


def lines_of(frames, truth):
    """Of a whole chain: `right`, or what is wrong, of its callers and of `burn`. Methods of C have no lines."""
    names, lines = [f.name for f in frames], [f.line if f.file else None for f in frames]
    said = [[line for _, line in chain] for chain in truth if [label for label, _ in chain] == names]
    yield "caller", "right" if any(all(a in (None, b) for a, b in zip(lines[:-1], some)) for some in said) \
        else str(list(zip(names, lines)))
    yield "leaf", "right" if lines[-1] in BURN else str(lines[-1])


class Ruby(session.NamingCase):
    def sampled(self, program, *arguments, options=(), count=N):
        child = self.spawn([program, *options, SOURCE, *arguments])
        child.wait_for("ready")
        run = self.start("--pid", child.pid, *HZ)
        self.wait_for(run, lambda samples: sum(bool(chain_of(s)) and is_named(s) for s in samples) >= count,
                      f"{count} samples of chains with all names")
        result = run.stop()
        child.stop(9)
        samples = result.of(child.pid)
        begin = min(s.time_ns for s in samples if chain_of(s))
        self.assertEqual(result.counter("workers_total", "malformed"), 0, result.log)
        return [s for s in samples if s.time_ns >= begin]

    def check(self, what, program, samples):
        """Stacks in `burn` are those that Ruby has said. Others are on the way to it, or back: their chains begin
        as one of those does, and go on to few methods."""
        truth = truth_of(self, program)
        chains = [[label for label, _ in chain] for chain in truth]
        begins = {tuple(chain[:n]) for chain in chains for n in range(len(chain))}
        verdicts, wrong, lines, ends = (collections.Counter() for _ in range(4))
        for sample in samples:
            frames = chain_of(sample)
            names = [f.name for f in frames]
            ends[sample.attributes.get("profile.stack.truncated")] += sample.value
            if not is_named(sample):
                said = "unnamed"
            elif "burn" in map(plain, names):
                said = "whole" if names in chains else "wrong"
            elif not any(f.type == "ruby" for f in sample.frames):
                said = "none"
            else:
                said = "beside" if any(tuple(names[:n]) in begins for n in range(max(len(names) - MOST_BESIDE, 0),
                                                                                 len(names) + 1)) else "wrong"
            verdicts[said] += sample.value
            if said == "wrong":
                wrong[tuple(names)] += sample.value
            elif said == "whole":
                lines.update(lines_of(frames, truth))
        n = sum(verdicts.values())
        print(f"# {what}: {n} samples, {dict(verdicts)}, ends {dict(ends)}", flush=True)
        print(f"# lines: {dict(lines.most_common(8))}", flush=True)
        print(f"# wrong: {dict(wrong.most_common(3))}", flush=True)
        self.assertFalse(wrong, program)
        self.assertGreaterEqual(verdicts["whole"] + verdicts["beside"], WHOLE * (n - verdicts["unnamed"]))
        self.assertGreater(verdicts["whole"], n / 2)
        self.assertLess(verdicts["unnamed"], 0.1 * n)
        return lines, ends

    def check_lines(self, lines, leaf="right"):
        self.assertEqual(set(lines), {("caller", "right"), ("leaf", leaf)})

    def test_chains_and_lines(self):
        for program in all_rubies():
            self.check_lines(self.check(f"{program}, interpreted", program, self.sampled(program))[0])

    def test_threads_have_chains_of_their_own(self):
        for program in all_rubies():
            samples = self.sampled(program, "--threads")
            threads = {s.attributes["thread.id"] for s in samples if chain_of(s)}
            self.assertEqual(len(threads), 3)
            # Ruby's own timer runs no method
            samples = [s for s in samples if s.attributes["thread.id"] in threads]
            self.check_lines(self.check(f"{program}, threads", program, samples)[0])

    def test_ractors_have_chains_of_their_own(self):
        """Each has a thread, which runs beside the others."""
        script = self.directory() / "ractors.rb"
        script.write_text(RACTORS)
        programs = [program for program in all_rubies()
                    if self.run_command([program, "-e", "print defined?(Ractor)"], expect=0).stdout]
        programs or tap.skip("library: Ruby 3, which has ractors, is not installed")
        for program in programs:
            said = self.run_command([program, script, "--print"], expect=0).stdout.splitlines()
            places = [[place.split(" ", 1) for place in chain.split(";")] for chain in said]
            truth = {tuple((label, int(line)) for line, label in chain) for chain in places}
            child = self.spawn([program, script])
            child.wait_for("ready")
            run = self.start("--pid", child.pid, *HZ)

            def chains_of(samples):
                """{thread: {chain from `burn` on: samples}}; a method of C has no line."""
                found = collections.defaultdict(collections.Counter)
                for sample in samples:
                    frames = [(re.sub(r"\b[\w:]+[.#](?=\w)", "", f.name), f.line if f.file else None)
                              for f in sample.frames if f.type == "ruby"]
                    if is_named(sample) and frames and frames[0][0] == "burn":
                        found[sample.attributes["thread.id"]][tuple(frames)] += sample.value
                return found

            self.wait_for(run, lambda all_of: sum(n.total() >= FEW for n in chains_of(all_of).values()) >= 3,
                          f"{FEW} samples each of three threads")
            result = run.stop()
            child.stop(9)
            found = chains_of(result.of(child.pid))
            print(f"# {program}: {[n.total() for n in found.values()]} samples", flush=True)
            self.assertEqual(len(found), 3)
            for thread, chains in found.items():
                for chain in chains:
                    # `burn` is anywhere
                    same = [some for some in truth if len(some) == len(chain) and
                            all(name == said and line in (None, said_line)
                                for (name, line), (said, said_line) in zip(chain[1:], some[1:]))]
                    self.assertTrue(same, (chain, truth))
                    self.assertEqual("works" in dict(chain), thread != child.pid, chain)

    def test_code_made_at_run_time_keeps_methods_of_ruby(self):
        """Native callers of that code are not known: the chain is. Its innermost method has no line."""
        if "+YJIT" not in self.run_command([ruby(), "--yjit", "-v"]).stdout:
            tap.skip("library: Ruby is without YJIT")
        lines, ends = self.check("yjit", ruby(), self.sampled(ruby(), options=["--yjit"]))
        self.assertEqual({key for key in lines if key[0] == "caller"}, {("caller", "right")})
        self.assertEqual({key for key in lines if key[0] == "leaf"} - {("leaf", "0"), ("leaf", "right")}, set())
        self.assertGreater(lines["leaf", "0"], lines["leaf", "right"], "who calls `*` has a line")
        self.assertGreater(ends["no_rows"], 0.5 * sum(ends.values()), ends)

    def test_the_collector_is_marked_where_it_runs(self):
        for program in all_rubies():
            marked, rest = collections.Counter(), collections.Counter()
            for sample in self.sampled(program, "collected", "plain", count=400):
                names = [plain(f.name) for f in sample.frames if f.type == "ruby"]
                (marked if "(gc)" in names else rest)[tuple(names[:3])] += sample.value
            collects = sum(n for names, n in {**rest, **marked}.items() if "collect" in names)
            self.assertGreater(marked["(gc)", "start", "collect"], 0.9 * collects, (program, marked, rest))
            self.assertFalse([names for names in marked if "burn" in names])

    def test_threads_that_wait_for_the_collectors_are_not_marked(self):
        """Who sleeps wakes while the other thread collects, and waits for Ruby's lock."""
        script = self.directory() / "collects.rb"
        script.write_text("$stdout.sync = true\n$kept = Array.new(200_000) { |i| [i] }\n"
                          "def collects\n  loop { GC.start }\nend\ndef waits\n  loop { sleep 0.001 }\nend\n"
                          "Thread.new { waits }\nputs 'ready'\ncollects\n")
        child = self.spawn([ruby(), script])
        child.wait_for("ready")
        run = self.start("--pid", child.pid, "--symbols", "local", "--off-cpu", "--off-cpu-walks", "100000")

        def marks(samples, is_wait, function):
            """[whether there is a `(gc)`] of these events with all names."""
            stacks = [[f.name for f in s.frames] for s in samples if (s.type == "off_cpu") == is_wait and
                      is_named(s)]
            return ["(gc)" in names for names in stacks if function in names]

        self.wait_for(run, lambda samples: sum(marks(samples, False, "collects")) >= 40 and
                      len(marks(samples, True, "waits")) >= 40, "samples of the collector, and waits")
        result = run.stop()
        child.stop(9)
        self.assertEqual(sum(marks(result.waits, True, "waits") + marks(result.samples, False, "waits")), 0)

    def test_a_release_is_named_by_targets(self):
        for program in all_rubies():
            child = self.spawn([program, SOURCE, "plain"])
            child.wait_for("ready")
            said = self.run_command([tap.SPANPROF, "targets", "--verbose", "--pid", child.pid], expect=0).stdout
            child.stop(9)
            release = self.run_command([program, "-e", "print RUBY_VERSION"], expect=0).stdout
            self.assertIn(f"  Ruby {release}  ", said)

    def test_a_program_that_sleeps_shows_its_methods(self):
        """`spanprof stacks`: by the rules of the kernel half, on the host."""
        script = self.directory() / "hang.rb"
        script.write_text("$stdout.sync = true\ndef hangs\n  sleep 1000\nend\nputs 'ready'\nhangs\n")
        child = self.spawn([ruby(), script])
        child.wait_for("ready")
        shown = re.compile(r"^ +sleep *$\n(^.*$\n)*?^ +hangs +hang\.rb:3$\n^ +<main> +hang\.rb:6$", re.M)
        # it may not wait yet
        tap.wait_until(lambda: shown.search(self.run_command([tap.SPANPROF, "stacks", child.pid]).stdout),
                       "methods of the thread that waits")
        child.stop(9)

    def test_off_is_off(self):
        child = self.spawn([ruby(), SOURCE, "plain"])
        child.wait_for("ready")
        run = self.start("--pid", child.pid, *HZ, "--runtimes=python")
        run.wait_events(300, child.pid)
        result = run.stop()
        child.stop(9)
        self.assertEqual({f.type for s in result.of(child.pid) for f in s.frames} & {"ruby"}, set())


if __name__ == "__main__":
    tap.main()
