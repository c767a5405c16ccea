#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Programs that many run, beside the profiler of their runtime in the same process: of Java (H2, Lucene,
Jetty, Spring Boot) with async-profiler, of Python (Django, FastAPI, SQLAlchemy, pandas) with py-spy, and the
compiler and a server of Go (Caddy) with Go's own CPU profile. Stacks reach their root, and the 20 hottest
functions have the same share.

What is compared is what each of these profilers knows. async-profiler takes the next description behind a pc
for the methods that are inlined there, which may not have begun: shares are of methods as they were compiled,
and what is inlined is printed alone. py-spy looks when some time of the wall clock is over, and often finds
the program as it asks for the time: the victim's own functions are left out of both."""
import oracle

oracle.enter()

import collections
import contextlib
import http.client
import os
import pathlib
import re
import signal
import subprocess
import threading
import time
import urllib.request

import golang
import jdks
import otlp_read
import programs
import real_server
import session
import tap

HZ = 499
WHOLE = 0.99            # of all samples, from the first one on
POINTS = 2.0
HOTTEST = 20
LEAST = 2000            # samples that are compared, of either
CPU_SECONDS = 20
VICTIMS = tap.SOURCE_DIR / "tests/victims"
# What a program of Java needs, by the beginnings of its jars' names
JARS = {"VictimDatabase": "h2-", "VictimSearch": "lucene-", "VictimJetty": "jetty-|slf4j-api",
        "VictimSpring": "spring-|tomcat-|jackson-|jakarta|micrometer|snakeyaml|logback|slf4j|log4j|jul-"}
PACKAGE = "cmd/compile/internal/ssa"            # takes 20 s
# A tick of Go is a signal, and often comes where the thread has just been made to stop
PREEMPTED = "-hide=^runtime.asyncPreempt$"


def shares(counts):
    total = counts.total()
    return collections.Counter({key: 100 * n / total for key, n in counts.items()})


def lambdas_alike(name):
    return re.sub(r"\$\$Lambda[^.]*(\.0x[0-9a-f]+)?", "$$Lambda", name.replace("/", "."))


def by_async(path):
    """(methods as they were compiled, innermost functions) of folded stacks with annotations."""
    compiled, innermost = collections.Counter(), collections.Counter()
    for line in path.read_text().splitlines():
        stack, _, n = line.rpartition(" ")
        methods = re.findall(r"([^;]+)_\[([ji01])\](?=;|$)", stack)
        if methods:
            innermost[lambdas_alike(methods[-1][0])] += int(n)
            compiled[lambdas_alike(next(name for name, kind in reversed(methods) if kind != "i"))] += int(n)
    return compiled, innermost


def by_us_of_java(samples):
    compiled, innermost = collections.Counter(), collections.Counter()
    for sample in samples:
        methods = [frame for frame in sample.frames if frame.type == "jvm" and frame.compilation]
        whole = [frame for frame in methods if frame.compilation != "inlined"]
        if whole:
            innermost[lambdas_alike(methods[0].name)] += sample.value
            compiled[lambdas_alike(whole[0].name)] += sample.value
    return compiled, innermost


def by_py_spy(path, own):
    """@own: the file whose functions are left out."""
    counts = collections.Counter()
    for line in path.read_text().splitlines():
        found = re.search(r"([^;]*) \((?:[^;]*/)?([^;/]*):\d+\) (\d+)$", line)
        if found and found[2] != own:
            counts[found[1], found[2]] += int(found[3])
    return counts


def by_us_of_python(samples, own):
    counts = collections.Counter()
    for sample in samples:
        frame = next((frame for frame in sample.frames if frame.type == "cpython"), None)
        if frame and pathlib.Path(frame.file).name != own:
            counts[frame.name, pathlib.Path(frame.file).name] += sample.value
    return counts


def by_us_of_go(samples, pid):
    counts = collections.Counter()
    for sample in samples:
        frames = [frame for frame in sample.frames if frame.type != "kernel"]
        if frames and int(sample.resource["process.pid"]) == int(pid):
            # a name of assembly says its calling convention
            counts[re.sub(r"\[.*\]$", "[...]", frames[0].name.removesuffix(".abi0"))] += sample.value
    return counts


PAGE = r"""{{$names := list "tea" "milk" "bread"}}<ul>{{range $i := until 60}}<li>{{$i}} {{index $names (mod $i 3) |
upper}} {{now | date "2006-01-02"}} {{env "HOME" | trunc 4}}</li>{{end}}</ul>{{markdown "# A *head*\n\n- one\n- two"}}"""
SERVED = """{
        admin 127.0.0.1:%d
        auto_https off
}
http://127.0.0.1:%d {
        root * %s
        encode gzip zstd
        templates
        file_server browse
}
"""


def ask_for_pages(port, is_over):
    """As two browsers would: lists, templates and packed text, until @is_over."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    while not is_over.is_set():
        for path in ("/", "/page.html", "/data.json", "/names.txt"):
            connection.request("GET", path, headers={"Accept-Encoding": "gzip"})
            answer = connection.getresponse()
            assert answer.status == 200 and answer.read(), (path, answer.status)


class Programs(session.NamingCase):
    def setUp(self):
        super().setUp()
        self.out = self.directory() / "out.pb"

    def recorded(self, *command, **options):
        return self.spawn([tap.SPANPROF, "record", "-F", HZ, "-o", self.out, "--", *command], **options)

    def program(self, child):
        """What `record` has started."""
        found = subprocess.run(["pgrep", "-P", str(child.pid)], capture_output=True, text=True)
        return found.stdout.split()[0]

    def samples(self, what, named_since_ns=0):
        """Those of the recording, nearly all of which are whole; and named, from then on."""
        found = [s for s in otlp_read.samples(self.out) if s.type not in session.NO_TICKS]
        ends, unnamed = collections.Counter(), 0
        for sample in found:
            ends[sample.attributes.get("profile.stack.truncated")] += sample.value
            unnamed += sample.value * (sample.time_ns >= named_since_ns and
                                       any(frame.type == "unknown" for frame in sample.frames))
        print(f"# {what}: {ends.total()} samples, whole {ends[None] / ends.total():.2%}; {dict(ends)}; "
              f"with an unnamed frame {unnamed}", flush=True)
        self.assertGreater(ends.total(), LEAST)
        self.assertGreaterEqual(ends[None], WHOLE * ends.total(), ends)
        self.assertLessEqual(unnamed, (1 - WHOLE) * ends.total())
        return found

    def compare(self, what, theirs, ours, least=POINTS):
        """@least: None = nothing is asserted. Shares of the hottest functions of either."""
        first, second = shares(theirs), shares(ours)
        hottest = {key for counts in (first, second) for key, _ in counts.most_common(HOTTEST)}
        off = {key: (first[key], second[key]) for key in hottest}
        worst = max(off, key=lambda key: abs(first[key] - second[key]))
        print(f"# {what}: {theirs.total():.0f} samples of theirs, {ours.total()} of ours; {len(hottest)} functions, off by "
              f"at most {abs(first[worst] - second[worst]):.2f} points ({worst})", flush=True)
        if least is not None:
            self.assertGreater(min(theirs.total(), ours.total()), LEAST)
            self.assertLessEqual(abs(first[worst] - second[worst]), least,
                                 {key: both for key, both in off.items() if abs(both[0] - both[1]) > least})

    def beside_async(self, what, victim, event="cpu", cpu_seconds=CPU_SECONDS):
        programs.need()
        javas = jdks.here()
        java = javas.get("17") or javas[max(javas, key=int)]
        classes, folded, jars = self.directory(), self.directory() / "async.txt", programs.jars(JARS[victim])
        self.run_command([jdks.tool("javac"), "-nowarn", "-proc:none", "-XDignore.symbol.file", "-d", classes, "-cp", jars,
                          "-sourcepath", VICTIMS / "java", VICTIMS / f"java/{victim}.java"], expect=0, timeout=120)
        child = self.recorded(java, "-cp", os.pathsep.join([str(classes), jars]), victim, cpu_seconds)
        child.wait_for("ready", patience=120)
        options = f"start,event={event},interval={10**9 // HZ},jstackdepth=512,collapsed,ann,file={folded}"
        self.run_command([jdks.tool("jcmd"), self.program(child), "JVMTI.agent_load", programs.CACHE / "libasyncProfiler.so",
                          f'"{options}"'], expect=0, timeout=120)
        since_ns = time.time_ns()
        child.wait(600)
        ours = by_us_of_java(s for s in self.samples(what) if s.time_ns >= since_ns)
        for kind, theirs, own, least in zip(("compiled methods", "with inlined ones"), by_async(folded), ours,
                                            (POINTS, None)):
            self.compare(f"{what}, {kind}", theirs, own, least)

    def test_a_database_of_java(self):
        self.beside_async("H2", "VictimDatabase")

    def test_searches_by_lucene(self):
        self.beside_async("Lucene", "VictimSearch")

    def test_a_server_of_jetty(self):
        """Its threads wait for each other at each request. A timer of perf for one thread goes on a moment
        after that thread has a CPU again: it sees 2 points more of Unsafe.park(). Its own timer does not."""
        self.beside_async("Jetty", "VictimJetty", event="ctimer", cpu_seconds=30)     # it ticks each 4 ms

    def test_a_service_of_spring_boot(self):
        self.beside_async("Spring Boot", "VictimSpring")

    def beside_py_spy(self, what, victim, is_named_early=True):
        """@is_named_early: from the first sample on, and not from `ready` on."""
        programs.need()
        folded, python = self.directory() / "spy.txt", programs.CACHE / "python/bin"
        child = self.recorded(python / "python3", VICTIMS / "python" / victim, CPU_SECONDS,
                              env=session.clean_environment(PYTHONDONTWRITEBYTECODE=1))
        child.wait_for("ready", patience=120)
        spy = self.spawn([python / "py-spy", "record", "-p", self.program(child), "-r", 199, "-f", "raw", "-o",
                          folded])
        since_ns = time.time_ns()
        child.wait(600)
        spy.wait(120)
        samples = self.samples(what, 0 if is_named_early else since_ns)
        ours = by_us_of_python((s for s in samples if s.time_ns >= since_ns), victim)
        self.compare(what, by_py_spy(folded, victim), ours)

    def test_a_site_of_django(self):
        self.beside_py_spy("Django", "victim-django.py")

    def test_a_service_of_fastapi(self):
        self.beside_py_spy("FastAPI", "victim-fastapi.py")

    def test_a_database_by_sqlalchemy(self):
        self.beside_py_spy("SQLAlchemy", "victim-sqlalchemy.py")

    def test_tables_of_pandas(self):
        """It imports hundreds of modules. The code of a module runs once, and on a busy machine it is gone
        before its name is asked for."""
        self.beside_py_spy("pandas", "victim-frames.py", is_named_early=False)

    def by_pprof(self, go, environment, *profiles):
        """Its clock ticks each 10 ms."""
        done = self.run_command([go.program, "tool", "pprof", "-top", "-unit=ms", "-nodecount=100000", "-nodefraction=0",
                                 PREEMPTED, *profiles], env=environment, expect=0, timeout=300)
        theirs = collections.Counter()
        for ms, name in re.findall(r"^ *([\d.]+)(?:ms)? +\S+% +\S+% +\S+ +\S+% +(.*)$", done.stdout, re.M):
            theirs[re.sub(r" \((partial-)?inline\)$", "", name)] += float(ms) / 10
        return theirs

    def test_the_compiler_of_go(self):
        go, profile = golang.Go(), self.directory() / "cpu.prof"
        environment = {**go.environment, "GO111MODULE": "on"}
        self.run_command([go.program, "build", PACKAGE], env=environment, expect=0, timeout=1200)
        # with another flag than in the cache it is compiled again, and nothing else is
        child = self.recorded(go.program, "build", f"-gcflags={PACKAGE}=-cpuprofile={profile}", PACKAGE, env=environment)
        child.wait(1200)
        samples = self.samples("Go's compiler")
        pids = collections.Counter()
        for sample in samples:
            pids[sample.resource["process.pid"]] += sample.value
        ours = by_us_of_go(samples, pids.most_common(1)[0][0])
        self.compare("Go's compiler", self.by_pprof(go, environment, profile), ours)

    def serve(self, home, admin, port):
        """Caddy, with files of several kinds."""
        pages = home / "pages"
        pages.mkdir()
        for i in range(100):
            (pages / f"item-{i}.txt").write_text("x" * i)
        (pages / "page.html").write_text(PAGE)
        (pages / "data.json").write_text(str([{"id": i, "name": f"item {i % 77}", "price": i * 1.19} for i in range(400)]))
        (pages / "names.txt").write_text("\n".join(f"name {i * i % 997}" for i in range(1000)))
        (home / "Caddyfile").write_text(SERVED % (admin, port, pages))
        child = self.recorded(programs.CACHE / "caddy", "run", "--config", home / "Caddyfile", "--adapter",
                              "caddyfile", env=session.clean_environment(HOME=home))
        child.wait_for("serving initial configuration", patience=120)
        return child

    def test_a_server_of_go(self):
        programs.need()
        go, home = golang.Go(), self.directory()
        admin, port = real_server.free_ports(2)
        child = self.serve(home, admin, port)
        is_over, times, profiles = threading.Event(), [], []
        browsers = [threading.Thread(target=ask_for_pages, args=(port, is_over), daemon=True)
                    for _ in range(2)]
        for browser in browsers:
            browser.start()
        with contextlib.ExitStack() as at_end:
            at_end.callback(is_over.set)
            for _ in range(20):
                since_ns = time.time_ns()
                with urllib.request.urlopen(f"http://127.0.0.1:{admin}/debug/pprof/profile?seconds=10",
                                            timeout=60) as answer:
                    profiles.append(home / f"{len(profiles)}.prof")
                    profiles[-1].write_bytes(answer.read())
                times.append((since_ns, time.time_ns()))
                self.assertTrue(all(browser.is_alive() for browser in browsers))
                n_samples = self.by_pprof(go, go.environment, *profiles).total()
                if n_samples > LEAST:
                    break
            self.assertGreater(n_samples, LEAST)
        for browser in browsers:
            browser.join(30)
        pid = self.program(child)
        os.kill(int(pid), signal.SIGTERM)
        child.wait(120)
        samples = [s for s in self.samples("Caddy")
                   if any(since_ns <= s.time_ns <= until_ns for since_ns, until_ns in times)]
        self.compare("Caddy", self.by_pprof(go, go.environment, *profiles), by_us_of_go(samples, pid))


if __name__ == "__main__":
    tap.main()
