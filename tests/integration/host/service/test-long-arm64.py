#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""arm64: the program of build-arm64 on Debian's kernel for that processor, under QEMU.

Truth: victims know their return addresses from the compiler, and the spans that they have set. The victims
are built as distributions build for arm64: return addresses are signed (-mbranch-protection=standard).
"""
import oracle

oracle.enter()

import base64
import collections
import gzip
import importlib
import json
import re
import subprocess

import golang
import otlp_read
import qemu
import stations
import tap

goroutines = importlib.import_module("test-run-goroutines")
ARM64 = tap.SOURCE_DIR / "build-arm64"
VICTIMS = ("omit", "otel", "still", "stations", "waits")
MODES = {  # of victim-omit: its arguments
    "depth": "30", "large": "20", "qsort": "", "signal": "", "altstack": "", "alloca": "", "align": "", "saved": "",
    "noreturn": "", "plt": "", "syscall": "", "thread": ""
}
# name of a test → (suite, package, what `uname -r` says, KiB of a page)
KERNELS = {
    "6.1": ("", "", r"6\.1\.\S*-arm64", 4),
    "6.12": ("trixie", "linux-image-arm64", r"6\.12\.\S*-arm64", 4),
    "newest": ("sid", "linux-image-arm64", r"\S*-arm64", 4),
    "6.12, 16 KiB": ("trixie", "linux-image-arm64-16k", r"6\.12\.\S*-arm64-16k", 16),
    "newest, 16 KiB": ("sid", "linux-image-arm64-16k", r"\S*-arm64-16k", 16),
}
SCRIPT = """
echo "kernel $(uname -r)"
grep -m 1 KernelPageSize /proc/self/smaps
spanprof doctor | grep -E "kernel-half|^fail"
test-image --filter "image/maps_*" | sed "s/^/IMAGE /"
stacks() {
        victim-omit $1 $2 >/tmp/$1 &
        victim=$!
        for i in $(seq 100); do grep -q frames /tmp/$1 && break; sleep 0.2; done
        sleep 1
        spanprof record -F 99 -p $victim -d 4s -o /tmp/$1.pb >/dev/null 2>/tmp/$1.log
        echo "RECORD $1 $?"
        sed "s/^/TOLD $1 /" /tmp/$1
        sed -n "s,^\\([0-9a-f]*\\)-[0-9a-f]* r-xp \\([0-9a-f]*\\) .*victim-omit,MAPPED $1 \\1 \\2,p" /proc/$victim/maps
        echo "FILE $1 $(base64 /tmp/$1.pb | tr -d '\\n')"
        kill $victim
}
MODES
go-chain >/tmp/go &
victim=$!
for i in $(seq 100); do grep -q ready /tmp/go && break; sleep 0.2; done
sleep 3
spanprof record -F 99 -p $victim -d 6s -o /tmp/go.pb >/dev/null 2>&1
echo "RECORD go $?"
echo "FILE go $(base64 /tmp/go.pb | tr -d '\\n')"
kill $victim
victim-otel >/tmp/otel &
victim=$!
for i in $(seq 100); do [ "$(grep -c thread /tmp/otel)" -ge 4 ] && break; sleep 0.2; done
spanprof record -F 99 -p $victim -d 6s -o /tmp/otel.pb >/dev/null
echo "RECORD otel $?"
sed "s/^/TOLD otel /" /tmp/otel
echo "FILE otel $(base64 /tmp/otel.pb | tr -d '\\n')"
"""
OTHERS = """
echo "kernel $(uname -r)"
victim-still ring >/tmp/still &
for i in $(seq 100); do grep -q pid /tmp/still && break; sleep 0.2; done
sleep 2
spanprof stacks $! --json >/tmp/stacks 2>/tmp/log
echo "RECORD stacks $?"
sed "s/^/TOLD still /" /tmp/still
echo "FILE stacks $(gzip -c /tmp/stacks | base64 | tr -d '\\n')"
kill $!
for dialect in seqlock document; do
        spanprof coro -o /tmp/$dialect.jsonl -- victim-stations coroutines=50 threads=4 turns=10 dialect=$dialect \\
                >/tmp/stations 2>/dev/null
        echo "RECORD $dialect $?"
        sed "s/^/TOLD $dialect /" /tmp/stations
        echo "FILE $dialect.jsonl $(gzip -c /tmp/$dialect.jsonl | base64 | tr -d '\\n')"
done
mkfifo /tmp/orders
victim-waits /tmp/waits </tmp/orders >/tmp/said &
victim=$!
exec 9>/tmp/orders
for i in $(seq 100); do grep -q pid /tmp/said && break; sleep 0.2; done
spanprof record --off-cpu -F 49 -p $victim -o /tmp/waits.pb >/dev/null 2>/tmp/record.log &
record=$!
sleep 15
echo go >&9
for i in $(seq 1500); do grep -q ok /tmp/said && break; sleep 0.2; done
kill -INT $record
wait $record
echo "RECORD waits $?"
sed "s/^/LOG /" /tmp/record.log
sed "s/^/TOLD waits /" /tmp/waits
echo "FILE waits $(gzip -c /tmp/waits.pb | base64 | tr -d '\\n')"
"""
RUNTIMES = """
echo "kernel $(uname -r)"
cat >/tmp/chain.py <<'END'
PYTHON_CHAIN
END
python3.11 -I -S /tmp/chain.py 2>/dev/null &
victim=$!
sleep 3
spanprof targets -p $victim | sed "s/^/TARGETS /"
spanprof record -F 99 -p $victim -d 20s -o /tmp/python.pb >/dev/null 2>/tmp/python.log
echo "RECORD python $?"
sed "s/^/LOG /" /tmp/python.log
echo "FILE python $(gzip -c /tmp/python.pb | base64 | tr -d '\\n')"
spanprof stacks -d 10s $victim 2>&1 | sed "s/^/STACKS /"
kill $victim
wait $victim            # a signal of its end would interrupt the opening of a pipe
mkfifo /tmp/orders
go-labels 4 </tmp/orders >/tmp/labels &
victim=$!
exec 9>/tmp/orders
for i in $(seq 100); do grep -q ready /tmp/labels && break; sleep 0.2; done
spanprof record -F 99 -p $victim --coroutine-ids -d 20s -o /tmp/labels.pb >/dev/null 2>/tmp/labels.log
echo "RECORD labels $?"
sed "s/^/LOG /" /tmp/labels.log
exec 9>&-
for i in $(seq 200); do grep -q done /tmp/labels && break; sleep 0.2; done
sed "s/^/TOLD labels /" /tmp/labels
echo "FILE labels $(gzip -c /tmp/labels.pb | base64 | tr -d '\\n')"
kill $victim
wait $victim
mkfifo /tmp/lines
go-waits </tmp/lines >/tmp/waits &
victim=$!
exec 9>/tmp/lines
for i in $(seq 100); do grep -q ready /tmp/waits && break; sleep 0.2; done
spanprof record -p $victim -d 20s --lines --goroutines 10000 -o /tmp/goroutines.pb >/dev/null 2>/tmp/waits.log
echo "RECORD goroutines $?"
sed "s/^/LOG /" /tmp/waits.log
echo "FILE goroutines $(gzip -c /tmp/goroutines.pb | base64 | tr -d '\\n')"
"""
# Programs whose first rows come while they burn: their stacks are copied and walked later.
EDGE = """
echo "kernel $(uname -r)"
for i in 1 2 3 4 5 6; do
        spanprof record -F 999 -o /tmp/edge.pb -- go-edge 1 >/dev/null 2>/tmp/log
        echo "RECORD edge$i $?"
        sed "s/^/LOG /" /tmp/log
        echo "FILE edge$i $(gzip -c /tmp/edge.pb | base64 | tr -d '\\n')"
done
"""
# how each library reaches the variable of its context; the general one has the old dialect, without TLSDESC
MODELS = {
    "descriptor-static": "libcontext-descriptor.so",
    "descriptor-dynamic": "libcontext-descriptor.so",
    "general": "libcontext-general.so",
    "initial": "libcontext-initial.so",
    "executable": "-",
}
CONTEXTS = """
echo "kernel $(uname -r)"
contexts() {
        name=$1 library=$2 program=victim-context
        [ $library = - ] && program=victim-context-exec || library=/bin/$library
        [ $name = descriptor-dynamic ] && export GLIBC_TUNABLES=glibc.rtld.optional_static_tls=0 || unset GLIBC_TUNABLES
        mkfifo /tmp/orders-$name
        $program $library 2 2 </tmp/orders-$name >/tmp/said 2>&1 &
        victim=$!
        exec 9>/tmp/orders-$name
        for i in $(seq 100); do grep -q pid /tmp/said && break; sleep 0.2; done
        echo "publish /payload" >&9
        echo load >&9
        for i in $(seq 100); do [ $(grep -c "^thread" /tmp/said) -ge 4 ] && break; sleep 0.2; done
        sleep 2
        spanprof record -F 99 -p $victim -d 8s -o /tmp/$name.pb >/dev/null 2>/tmp/log
        echo "RECORD $name $?"
        sed "s/^/TOLD $name /" /tmp/said
        sed "s/^/LOG $name /" /tmp/log
        spanprof contexts $victim | sed "s/^/SHOWN $name /"
        echo "FILE $name $(gzip -c /tmp/$name.pb | base64 | tr -d '\\n')"
        kill $victim
        exec 9>&-
}
"""
# Stacks at each instruction, by the kernel half's own lines: beside libdw's, and the calls that were made.
# mode of victim-omit → (steps that are unwound, steps from exec on before them); the first link its libraries
STEPS = {"depth": (20000, 0)}
STEPPED = """
echo "kernel $(uname -r)"
step() {
        single-step $2 $3 victim-omit $1 >/tmp/steps 2>/tmp/log
        echo "STEPPED $1 $?"
        sed "s/^/SAID $1 /" /tmp/steps
        sed "s/^/LOG $1 /" /tmp/log
}
"""
# of victim-still; arm64 has no pause(): glibc calls ppoll()
REASONS = {"mutex": "futex", "pipe": "read", "poll": "poll", "sleep": "sleep", "deep": "poll",
           "left": "futex", "right": "futex"}
COMPLETE = 0.995  # of the stacks but the first ones, which wait for the rows, for long on an emulated CPU


class Arm64(goroutines.Looks, tap.TestCase):
    @classmethod
    def setUpClass(cls):
        tap.need_root()
        cls.programs = [ARM64 / "spanprof", *(ARM64 / "tests/victims" / f"victim-{name}" for name in VICTIMS)]
        if not all(program.exists() for program in cls.programs):
            tap.skip("tool: build-arm64 is not there: `sudo ./bootstrap cross`")

    def kernel(self, name):
        suite, package = KERNELS[name][:2]
        return qemu.kernel_of(suite, package, "arm64") if suite else None

    def guest(self, kernel):
        """(console, mode → samples)"""
        calls = "\n".join(f"stacks {mode} {argument}" for mode, argument in MODES.items())
        # built with Go's own tools: their rows come from Go's tables
        program = golang.Go(variables={"GOARCH": "arm64", "CGO_ENABLED": "0"}).build(
            tap.SOURCE_DIR / "tests/victims/go/VictimGoChain.go", self.directory() / "go-chain")
        programs = [*self.programs, ARM64 / "tests/unit/test-image", program]
        console = qemu.boot_arm64(self, programs, SCRIPT.replace("MODES", calls), kernel=kernel)
        print("".join(f"# {line[:160]}\n" for line in console.splitlines()))
        folder, samples = self.directory(), {}
        for mode, text in re.findall(r"(?m)^FILE (\S+) (\S+)$", console):
            (folder / f"{mode}.pb").write_bytes(base64.b64decode(text))
            samples[mode] = list(otlp_read.samples(folder / f"{mode}.pb"))
        return console, samples

    def load_bias(self):
        """ELF address - offset in the file, of the victim's code."""
        said = subprocess.run(["readelf", "-lW", self.programs[1]], capture_output=True, text=True, check=True)
        offset, address = re.search(r"LOAD +(0x\S+) (0x\S+) \S+ \S+ \S+ R E", said.stdout).groups()
        return int(address, 16) - int(offset, 16)

    def own_frames(self, sample):
        return [frame.address for frame in sample.frames if frame.path.endswith("/victim-omit")]

    def check_stacks(self, console, mode, samples):
        words = re.search(rf"(?m)^TOLD {mode} frames (.*)$", console)[1]
        mapped = re.search(rf"(?m)^MAPPED {mode} (\S+) (\S+)$", console).groups()
        start, offset = (int(x, 16) for x in mapped)
        end = start + self.programs[1].stat().st_size           # its own frames: qsort's are between them
        truth = [int(word) - start + offset + self.load_bias() for word in words.split()
                 if start <= int(word) < end]
        whole = wrong = late = 0
        for sample in samples:
            own = self.own_frames(sample)
            rest = iter(own)
            # in this order, all of them; beside them the leaf, and who called into a library
            holds = all(any(x in (y, y - 1) for x in rest) for y in truth)
            cut = sample.attributes.get("profile.stack.truncated")
            whole += holds
            wrong += not holds and not cut
            late += not holds and cut == "pending"
        print(f"# {mode}: {whole} of {len(samples)} stacks whole, {late} came before the rows")
        self.assertEqual(wrong, 0, mode)
        self.assertGreater(whole, 20, mode)
        self.assertGreaterEqual(whole / (len(samples) - late), COMPLETE, mode)

    def stacks_and_spans(self, name):
        version, page = KERNELS[name][2:]
        console, samples = self.guest(self.kernel(name))
        self.assertRegex(console, rf"(?m)^kernel {version}$")
        self.assertRegex(console, rf"(?m)^KernelPageSize: +{page} kB$")
        self.assertRegex(console, r"(?m)^ok +kernel-half")
        for mode in MODES:
            with self.subTest(mode=mode):
                self.check_stacks(console, mode, samples[mode])
        self.assertRegex(console, r"(?m)^IMAGE ok .*maps_bytes_that_begin_anywhere")
        with self.subTest("kernel"):
            self.check_kernel(samples["syscall"])
        with self.subTest("go"):
            self.check_go(samples["go"])
        with self.subTest("spans"):
            told = dict(re.findall(r"(?m)^TOLD otel thread (\d+) (\S+)$", console))
            self.assertEqual(len(told), 4, console)
            self.check_spans(told, samples["otel"])

    def test_stacks_and_spans_are_those_of_the_programs(self):
        self.stacks_and_spans("6.1")

    def test_stacks_and_spans_on_6_12(self):
        self.stacks_and_spans("6.12")

    def test_stacks_and_spans_on_the_newest(self):
        self.stacks_and_spans("newest")

    def test_pages_of_16_kib_on_6_12(self):
        self.stacks_and_spans("6.12, 16 KiB")

    def test_pages_of_16_kib_on_the_newest(self):
        self.stacks_and_spans("newest, 16 KiB")

    def check_go(self, samples):
        """Goroutines' stacks are whole, and those of the program's own code are what it is written to be."""
        chains = collections.Counter()
        for sample in samples:
            names = [golang.plain(frame.name) for frame in sample.frames if frame.path.endswith("/go-chain")]
            own = [name for name in names if name.startswith("main.")]
            cut = sample.attributes.get("profile.stack.truncated")
            if not own:
                continue
            if cut:
                chains[f"cut: {cut}"] += 1
            elif "main.outer" in own:
                root = ["main.outer", "main.main", "runtime.main", "runtime.goexit"]
                if "main.middle" in own:
                    root.insert(0, "main.middle")
                self.assertEqual(names[-len(root):], root, names)
                chains["outer"] += 1
            else:
                self.assertEqual(names[-2:], ["main.sorter", "runtime.goexit"], names)
                chains["sorter"] += 1
        print(f"# go: {dict(chains)}")
        late = chains["cut: pending"]
        self.assertGreater(chains["outer"], 20)
        self.assertGreater(chains["sorter"], 20)
        self.assertGreaterEqual((chains["outer"] + chains["sorter"]) / (chains.total() - late), COMPLETE)

    def check_kernel(self, samples):
        """The program reads /dev/zero: the kernel's own frames lead from its entry to there."""
        chains = [[frame.name for frame in sample.frames if frame.type == "kernel"] for sample in samples]
        chains = [chain for chain in chains if chain]
        self.assertLessEqual({chain[-1] for chain in chains}, {"el0t_64_sync", "el0t_64_irq"})
        reads = [chain for chain in chains if "ksys_read" in chain and chain[-1] == "el0t_64_sync"]
        for chain in reads:
            self.assertEqual(chain[chain.index("ksys_read") + 1], "__arm64_sys_read", chain)
        print(f"# kernel: {len(reads)} of {len(chains)} stacks lead to read()")
        self.assertGreater(sum("vfs_read" in chain for chain in reads), 0.5 * len(chains))

    def check_spans(self, told, samples):
        judged = 0
        for sample in samples:
            tid = str(sample.thread_id)
            if tid not in told:         # the forked child's
                continue
            judged += 1
            span = int(sample.span_id, 16) if sample.span_id else 0
            if told[tid] == "none":
                self.assertEqual(span, 0)
            elif span:                  # 0: between two spans, or before the first
                self.assertEqual(span, 0x5555000000000000 | int(tid))
        self.assertGreater(judged, 50)
        attributed = [s for s in samples if told.get(str(s.thread_id)) == "set" and s.span_id]
        self.assertGreater(len(attributed), judged / 4)

    def test_go_stacks_at_the_edge_of_a_copy(self):
        """A caller's x29 lies below sp, and sp where a copy of the stack would begin."""
        program = golang.Go(variables={"GOARCH": "arm64", "CGO_ENABLED": "0"}).build(
            tap.SOURCE_DIR / "tests/victims/go/VictimGoEdge.go", self.directory() / "go-edge")
        console = qemu.boot_arm64(self, [ARM64 / "spanprof", program], EDGE)
        print("".join(f"# {line[:160]}\n" for line in console.splitlines()))
        ends = collections.Counter()
        for name, text in re.findall(r"(?m)^FILE (\S+) (\S+)$", console):
            path = self.directory() / f"{name}.pb"
            path.write_bytes(gzip.decompress(base64.b64decode(text)))
            for sample in otlp_read.samples(path):
                if any(golang.plain(frame.name) == "main.down" for frame in sample.frames):
                    ends[sample.attributes.get("profile.stack.truncated")] += 1
        print(f"# edge: {dict(ends)}")
        self.assertGreater(ends[None], 200)
        self.assertEqual(ends["fault"], 0)

    def test_waits_coroutines_and_stacks(self):
        self.waits_coroutines_and_stacks("6.1")

    def test_waits_coroutines_and_stacks_with_pages_of_16_kib(self):
        """Rings of contexts, regions of stations and rings of the kernel half lie in such pages."""
        self.waits_coroutines_and_stacks("6.12, 16 KiB")

    def waits_coroutines_and_stacks(self, name):
        console = qemu.boot_arm64(self, self.programs, OTHERS, kernel=self.kernel(name))
        print("".join(f"# {line[:160]}\n" for line in console.splitlines()))
        files = {name: gzip.decompress(base64.b64decode(text))
                 for name, text in re.findall(r"(?m)^FILE (\S+) (\S+)$", console)}
        self.assertEqual(set(re.findall(r"(?m)^RECORD (\S+ \d+)$", console)),
                         {"stacks 0", "seqlock 0", "document 0", "waits 0"})
        with self.subTest("stacks"):
            self.check_still(console, json.loads(files["stacks"])["threads"])
        for dialect in stations.BOTH:
            with self.subTest(dialect):
                self.check_stations(stations.wrote("\n".join(self.told(console, dialect))), files, dialect)
        with self.subTest("waits"):
            path = self.directory() / "waits.pb"
            path.write_bytes(files["waits"])
            self.check_waits(self.told(console, "waits"), list(otlp_read.samples(path)))

    def test_runtimes(self):
        """Functions of Python; labels of goroutines, whose g is in a register there, and where they wait."""
        root = qemu.arm64_root("arm64-python", "python3-minimal")
        go = golang.Go(variables={"GOARCH": "arm64", "CGO_ENABLED": "0"})
        program = go.build(tap.SOURCE_DIR / "tests/victims/go/VictimGoLabels.go", self.directory() / "go-labels",
                           more=[tap.SOURCE_DIR / "tests/victims/go/VictimGoSpin.go"])
        waits = go.build(tap.SOURCE_DIR / "tests/victims/go/VictimGoWaits.go", self.directory() / "go-waits")
        python = root / "usr/bin/python3.11"
        places = [root / "lib/aarch64-linux-gnu", root / "usr/lib/aarch64-linux-gnu"]
        more = {**qemu.python_files(root), **qemu.arm64_libraries([python], places)}
        script = RUNTIMES.replace("PYTHON_CHAIN", qemu.PYTHON_CHAIN)
        console = qemu.boot_arm64(self, [*self.programs, program, waits, python], script, more=more)
        print("".join(f"# {line[:160]}\n" for line in console.splitlines()))
        self.assertEqual(set(re.findall(r"(?m)^RECORD (\S+ \d+)$", console)), {"python 0", "labels 0", "goroutines 0"})
        samples = {}
        for name, text in re.findall(r"(?m)^FILE (\S+) (\S+)$", console):
            path = self.directory() / f"{name}.pb"
            path.write_bytes(gzip.decompress(base64.b64decode(text)))
            samples[name] = list(otlp_read.samples(path))
        with self.subTest("python"):
            self.check_python(samples["python"])
            for name in qemu.PYTHON_FUNCTIONS[:-1]:
                self.assertRegex(console, rf"(?m)^STACKS +{re.escape(name)} +chain\.py:\d+$")
        with self.subTest("go"):
            self.check_labels(self.told(console, "labels"), samples["labels"])
        with self.subTest("goroutines"):
            self.check_goroutines([s for s in samples["goroutines"] if s.type == "goroutines"])

    def check_goroutines(self, samples):
        """As many wait in each place as the program has sent there, and each stack is whole."""
        looks, found = self.looks(samples), collections.Counter()
        for sample in samples:
            found[goroutines.place(sample)] += sample.value
            if goroutines.place(sample):
                self.assertNotIn("profile.stack.truncated", sample.attributes)
                self.assertEqual(golang.plain(sample.frames[-1].name), "runtime.goexit")
        del found[None]
        self.assertEqual(found, {name: n * looks for name, n in goroutines.WAITS.items()})

    def check_python(self, samples):
        chains = [[frame.name for frame in reversed(sample.frames) if frame.type == "cpython"] for sample in samples]
        chains = [chain for chain in chains if chain]
        print(f"# python: {len(chains)} of {len(samples)} samples have functions")
        for chain in chains:
            self.assertEqual(chain, qemu.PYTHON_FUNCTIONS[:len(chain)])
        self.assertGreater(sum(chain == qemu.PYTHON_FUNCTIONS for chain in chains), 50)

    def check_labels(self, lines, samples):
        """Each span of a sample was that goroutine's."""
        told = {(int(span, 16), int(goid)): trace
                for span, trace, goid in re.findall(r"(?m)^region (\w+) (\S+) (\d+) ", "\n".join(lines))}
        linked = [sample for sample in samples if sample.span_id]
        print(f"# go: {len(linked)} of {len(samples)} samples have a span")
        for sample in linked:
            trace = told[int(sample.span_id, 16), sample.attributes["go.goroutine.id"]]
            if trace != "-":
                self.assertEqual(int(sample.trace_id, 16), int(trace, 16))
        self.assertGreater(len(linked), 50)
        self.assertGreater(len(linked) / len(samples), 0.5)

    def test_thread_contexts_by_each_access_model(self):
        """TLSDESC, the usual way of a library there, in static and dynamic memory; and the others."""
        contexts = importlib.import_module("test-contexts")
        programs = [ARM64 / "tests/victims" / f"victim-{name}" for name in ("context", "context-exec")]
        files = {f"bin/{name}": ARM64 / "tests/victims" / name for name in MODELS.values() if name != "-"}
        if not all(path.exists() for path in (*programs, *files.values())):
            tap.skip("tool: build-arm64 is not there: `sudo ./bootstrap cross`")
        payload = self.directory() / "payload"
        payload.write_bytes(contexts.payload({"service.name": "shop"}, ["http.route", "parity"]))
        script = CONTEXTS + "\n".join(f"contexts {name} {library}" for name, library in MODELS.items())
        console = qemu.boot_arm64(self, [ARM64 / "spanprof", *programs], script, more={**files, "payload": payload})
        print("".join(f"# {line[:160]}\n" for line in console.splitlines()))
        stored = dict(re.findall(r"(?m)^FILE (\S+) (\S+)$", console))
        for name in MODELS:
            with self.subTest(name):
                self.assertRegex(console, rf"(?m)^RECORD {name} 0$")
                path = self.directory() / f"{name}.pb"
                path.write_bytes(gzip.decompress(base64.b64decode(stored[name])))
                told = dict(re.findall(rf"(?m)^TOLD {name} thread (\d+) (\S+)$", console))
                self.assertEqual(len(told), 4, told)
                self.check_contexts(told, list(otlp_read.samples(path)))

    def check_contexts(self, told, samples):
        """All of a thread that has set its context, none of the others."""
        judged = {"set": 0, "none": 0}
        for sample in samples:
            tid = sample.thread_id
            kind = told.get(str(tid))
            if not kind:
                continue
            judged[kind] += 1
            expected = (None, None, None)
            if kind == "set":
                expected = (f"1111222233334444{tid:016x}", f"{0x5555 << 48 | tid:016x}", f"/route/{tid % 3}")
            self.assertEqual((sample.trace_id, sample.span_id, sample.attributes.get("http.route")), expected)
        print(f"# contexts: {judged}")
        self.assertGreater(min(judged.values()), 20)

    def test_stacks_at_each_instruction(self):
        program = ARM64 / "tests/oracles/single-step"
        if not program.exists():
            tap.skip("tool: build-arm64 is not there: `sudo ./bootstrap cross`")
        script = STEPPED + "\n".join(f"step {mode} {n} {skip}" for mode, (n, skip) in STEPS.items())
        console = qemu.boot_arm64(self, [program, self.programs[1]], script)
        print("".join(f"# {line[:160]}\n" for line in console.splitlines()))
        for mode in STEPS:
            with self.subTest(mode):
                self.check_steps(console, mode)

    def check_steps(self, console, mode):
        last = re.search(rf"(?m)^SAID {mode} steps (\d+) complete (\d+) pcs (\d+) compared (\d+) differ (\d+) .* "
                         rf"refuted (\d+) called (\d+) wrong (\d+) whole (\d+) ", console)
        n, complete, _, compared, differ, _, called, wrong, whole = map(int, last.groups())
        self.assertEqual((differ, wrong), (0, 0))
        self.assertGreater(compared, 200)
        self.assertEqual(called, n)
        self.assertGreaterEqual(whole / n, 0.99)

    def told(self, console, what):
        return re.findall(rf"(?m)^TOLD {what} (.*)$", console)

    def check_still(self, console, threads):
        tids = dict(re.findall(r"(?m)^TOLD still thread (\w+) (\d+)$", console))
        found = {thread["tid"]: thread for thread in threads}
        for name, reason in REASONS.items():
            thread = found[int(tids[name])]
            self.assertEqual((thread["name"], thread["state"], thread["reason"]), (name, "blocked", reason))
            stack = [frame["function"] for frame in thread["frames"]]
            self.assertEqual(stack[stack.index(f"still_{name}"):][:3], [f"still_{name}", "still_enter", "still_main"])
            self.assertNotIn("truncated", thread)
        self.assertTrue(found[int(tids["left"])]["deadlock"])
        self.assertEqual(int(found[int(tids["sleep"])]["span_id"], 16), 7)

    def check_stations(self, truth, files, dialect):
        """Each event is in the trace, in order, or said to be lost."""
        seen = collections.defaultdict(list)
        rows = {}
        for line in map(json.loads, files[f"{dialect}.jsonl"].splitlines()):
            if "coro_stations" in line:
                rows[line["coro_stations"]["station"]] = line["coro_stations"]
            elif "coro_mappings" not in line:
                seen[line["station"]].append(line)
        self.assertEqual((len(truth), set(rows)), (50, set(truth)))
        self.assertGreater(sum(map(len, seen.values())), 100)
        for station, (n, _last) in truth.items():
            self.assertEqual(len(seen[station]) + int(rows[station]["lost"]), n, rows[station])
            numbers = [event["event"] for event in seen[station]]
            self.assertEqual(numbers, sorted(set(numbers)))
            for event in seen[station]:
                self.assertEqual(event["is_active"], event["event"] % 2 == 1)

    def check_waits(self, lines, samples):
        """No span waited longer than its own clocks say, nor much shorter; each for its reason."""
        sums = collections.Counter()
        for wait in samples:
            if wait.type == "off_cpu" and wait.span_id:
                self.assertEqual(int(wait.trace_id, 16), wait.thread_id)
                reason = wait.attributes["wait.reason"] if wait.attributes["wait.state"] == "blocked" else ""
                sums[wait.thread_id, int(wait.span_id, 16), reason] += wait.value
        spans = [line.split()[1:] for line in lines if line.startswith("span ")]
        self.assertEqual(len(spans), 8)
        for tid, _trace, span, reason, wall, _off, inside in spans:
            mine = {key[2]: ns for key, ns in sums.items() if key[:2] == (int(tid), int(span))}
            print(f"# span {span}: {mine}, {inside} to {wall} ns")
            self.assertLessEqual(sum(mine.values()), int(wall))
            self.assertGreaterEqual(sum(mine.values()), 0.9 * int(inside) - 5e6)
            blocked = {name: ns for name, ns in mine.items() if name}
            expected = blocked[reason] + (blocked.get("futex", 0) if reason == "sleep" else 0)
            self.assertGreaterEqual(expected, 0.97 * sum(blocked.values()), mine)


if __name__ == "__main__":
    tap.main()
