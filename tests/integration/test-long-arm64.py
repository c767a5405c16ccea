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
import re
import subprocess

import golang
import otlp_read
import qemu
import tap

ARM64 = tap.SOURCE_DIR / "build-arm64"
MODES = {  # of victim-omit: its arguments
    "depth": "30", "large": "20", "qsort": "", "signal": "", "altstack": "", "alloca": "", "align": "", "saved": "",
    "noreturn": "", "plt": "", "syscall": "", "thread": ""
}
SCRIPT = """
echo "kernel $(uname -r)"
spanprof doctor | grep -E "kernel-half|^fail"
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
COMPLETE = 0.95  # of the stacks but the first ones, which wait for the rows, for long on an emulated CPU


class Arm64(tap.TestCase):
    @classmethod
    def setUpClass(cls):
        tap.need_root()
        cls.programs = [ARM64 / "spanprof", *(ARM64 / "tests/victims" / name for name in ("victim-omit", "victim-otel"))]
        if not all(program.exists() for program in cls.programs):
            tap.skip("tool: build-arm64 is not there: `sudo ./bootstrap cross`")

    def guest(self):
        """(console, mode → samples)"""
        calls = "\n".join(f"stacks {mode} {argument}" for mode, argument in MODES.items())
        # built with Go's own tools: their rows come from Go's tables
        program = golang.Go(variables={"GOARCH": "arm64", "CGO_ENABLED": "0"}).build(
            tap.SOURCE_DIR / "tests/victims/VictimGoChain.go", self.directory() / "go-chain")
        console = qemu.boot_arm64(self, [*self.programs, program], SCRIPT.replace("MODES", calls))
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

    def test_stacks_and_spans_are_those_of_the_programs(self):
        console, samples = self.guest()
        self.assertRegex(console, r"(?m)^kernel 6\.1\.\S*-arm64$")
        self.assertRegex(console, r"(?m)^ok +kernel-half")
        for mode in MODES:
            with self.subTest(mode=mode):
                self.check_stacks(console, mode, samples[mode])
        with self.subTest("go"):
            self.check_go(samples["go"])
        with self.subTest("spans"):
            told = dict(re.findall(r"(?m)^TOLD otel thread (\d+) (\S+)$", console))
            self.assertEqual(len(told), 4, console)
            self.check_spans(told, samples["otel"])

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


tap.main()
