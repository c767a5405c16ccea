#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The kernel is asked what it can: on kernels that lack one function, kind of map or program, made of this one."""
import json
import pathlib
import re
import struct

import session
import tap

HEADER = pathlib.Path("/usr/include/linux/bpf.h")
DENY = tap.BUILD_DIR / "tests/harness/libdeny-bpf.so"
OBJECTS = ("sampler", "offcpu", "waker", "threads", "crash")
EXIT_UNUSABLE = 78
NOWHERE = "http://127.0.0.1:1"         # a receiver that is not there
SHT_PROGBITS, SHF_EXECINSTR, CALL = 1, 4, 0x85
# what is used instead, where it is there: libbpf's choice, and the other walk of the kernel half
SUBSTITUTES = {"probe_read_kernel": "probe_read", "probe_read_kernel_str": "probe_read_str", "probe_read_user": "probe_read",
               "for_each_map_elem": "loop", "loop": "for_each_map_elem", "find_vma": "probe_read_kernel"}
MAPS = {"hash": 1, "array": 2, "prog_array": 3, "percpu_array": 6, "lru_hash": 9, "array_of_maps": 12, "ringbuf": 27}
PROGRAMS = {"perf_event": 7, "raw_tracepoint": 17}


def functions():
    """Names of BPF's functions by the order in the kernel's header, which is their number."""
    names = re.findall(r"\bFN\((\w+)", HEADER.read_text())
    return dict(enumerate(names))


def calls(path):
    """Section of a BPF object → numbers of functions that its programs call."""
    data = path.read_bytes()
    start, count, names = struct.unpack_from("<Q", data, 40)[0], *struct.unpack_from("<HH", data, 60)
    sections = [struct.unpack_from("<IIQQQQIIQQ", data, start + 64 * i) for i in range(count)]
    found = {}
    for name, kind, flags, _, offset, size, *_ in sections:
        if kind != SHT_PROGBITS or not flags & SHF_EXECINSTR:
            continue
        text = data[sections[names][4] + name:].split(b"\0")[0].decode()
        code = struct.iter_unpack("<BBhi", data[offset:offset + size])
        # a source register would make it a call of our own
        numbers = {n for op, registers, _, n in code if op == CALL and not registers >> 4}
        found.setdefault(text, set()).update(numbers)
    return found


class Needs(session.TestCase):
    def setUp(self):
        tap.need_root()
        tap.need_btf()

    def on(self, *words, expect, **denied):
        """A command on a kernel that lacks these numbers."""
        denied = {f"DENY_{key.upper()}": ",".join(map(str, numbers)) for key, numbers in denied.items()}
        return self.run_command([tap.SPANPROF, *words], expect=expect,
                                env={**session.clean_environment(), "LD_PRELOAD": str(DENY), **denied})

    def findings(self, loads="ok", **denied):
        """What the doctor says of BPF. @loads: what it says of the kernel half, which it loads."""
        # nothing listens there, so it fails in any case
        done = self.on("doctor", "--json", "--endpoint", NOWHERE, expect=1, **denied)
        checks = json.loads(done.stdout)["checks"]
        self.assertEqual([f["result"] for f in checks if f["name"] == "kernel-half"], [loads])
        return [f for f in checks if f["name"].startswith("bpf-")]

    def table(self, **denied):
        """Kind of programs, or "maps" → names that the doctor lists."""
        return {f["name"].removeprefix("bpf-"): set(f["text"].split()) for f in self.findings(**denied)
                if " lacks " not in f["text"]}

    def refused(self, *words, **denied):
        """The one line of a daemon that this kernel cannot have."""
        done = self.on("run", "--all", *words, "--duration", "0.1s", "--endpoint", NOWHERE,
                       "--control", str(self.directory() / "control"), expect=EXIT_UNUSABLE, **denied)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        return done.stderr

    def test_the_table_has_all_that_the_objects_call(self):
        names, expected = functions(), {"perf_event": set(), "raw_tracepoint": set(), "iter/task": set(), "kprobe": set()}
        for name in OBJECTS:
            for section, numbers in calls(tap.BUILD_DIR / f"bpf/{name}.stripped.bpf.o").items():
                kind = {"sampler": "perf_event", "threads": "iter/task"}.get(name, "raw_tracepoint")
                kind = "raw_tracepoint" if section.startswith("raw_tp") else "kprobe" if section == "uprobe" else kind
                expected[kind] |= {names[n] for n in numbers}
                if (name, section) == ("crash", ".text"):       # functions of both programs of that object
                    expected["kprobe"] |= {names[n] for n in numbers}
        table = self.table()
        sources = "".join(path.read_text() for path in (tap.SOURCE_DIR / "bpf").rglob("*.[ch]"))
        self.assertEqual(table.pop("maps"), {kind.lower() for kind in re.findall(r"BPF_MAP_TYPE_(\w+)", sources)})
        self.assertEqual(table, expected)

    def test_each_function_that_is_missing_is_named(self):
        numbers = {name: n for n, name in functions().items()}
        table = self.table()
        for name in sorted(table["perf_event"] | table["raw_tracepoint"]):
            with self.subTest(name=name):
                if name in SUBSTITUTES:
                    continue
                # where waits are counted, starts of programs are not read
                words = () if name == "ringbuf_discard" else ("--off-cpu", "--page-faults")
                line = self.refused(*words, functions=[numbers[name]])
                self.assertRegex(line, rf": it lacks bpf_{name}\(\) in (perf_event|raw_tracepoint) programs "
                                 r"\(since Linux \d\.\d+\); `spanprof doctor` lists what it has\n$")

    def test_what_has_a_substitute_is_told_and_does_no_harm(self):
        numbers = {name: n for n, name in functions().items()}
        reads = [name for name in SUBSTITUTES if name.startswith("probe_read")]
        # Types of this kernel say that it has bpf_loop(): test-kernel-half.py takes that away, too.
        for names, loads in (reads, "ok"), (["for_each_map_elem"], "ok"), (["find_vma"], "ok"), \
                (["loop"], "fail"):
            with self.subTest(names=names):
                findings = self.findings(loads, functions=[numbers[name] for name in names])
                lacked = {(f["result"], f["text"]) for f in findings if " lacks " in f["text"]}
                found = {re.sub(r"\(\) in .* programs \(since Linux [\d.]+\)", "()", text) for _, text in lacked}
                self.assertEqual({result for result, _ in lacked}, {"ok"})
                self.assertEqual(found, {f"this kernel lacks bpf_{name}(): bpf_{SUBSTITUTES[name]}() is used" for name in names})

    def test_of_two_walks_one_is_needed(self):
        numbers = {name: n for n, name in functions().items()}
        line = self.refused(functions=[numbers["loop"], numbers["for_each_map_elem"]])
        for name in ("loop", "for_each_map_elem"):
            self.assertIn(f"bpf_{name}() in perf_event programs", line)

    def test_all_that_linux_5_10_lacks_is_one_line(self):
        """What bpf_get_current_task_btf() and later came with, by the kernel's releases."""
        numbers = {name: n for n, name in functions().items()}
        lacked = {"get_current_task_btf": "5.11", "for_each_map_elem": "5.13", "task_pt_regs": "5.15", "loop": "5.17"}
        line = self.refused(functions=[numbers[name] for name in lacked], release=["5.10.0-30-amd64"])
        found = dict(re.findall(r"bpf_(\w+)\(\) in perf_event programs \(since Linux ([\d.]+)\)", line))
        self.assertEqual(found, lacked)
        self.assertEqual(line.count("since Linux"), len(lacked))

    def test_each_kind_of_map_and_program_that_is_missing_is_named(self):
        self.assertEqual(set(MAPS), self.table()["maps"])
        for name, number in MAPS.items():
            with self.subTest(name=name):
                line = self.refused(maps=[number])
                self.assertIn(f"maps of the kind {name} (since Linux ", line)
        for name, number in PROGRAMS.items():
            with self.subTest(name=name):
                self.assertIn(f": it lacks {name} programs (since Linux ", self.refused(programs=[number]))

    def test_what_stacks_alone_need_is_a_warning(self):
        number = next(n for n, name in functions().items() if name == "seq_write")
        warnings = [f for f in self.findings(functions=[number]) if f["result"] != "ok"]
        self.assertEqual([f["result"] for f in warnings], ["warn"])
        self.assertIn("bpf_seq_write() in iter/task programs (since Linux 5.7): `spanprof stacks` does not work",
                      warnings[0]["text"])

    def test_a_missing_right_is_no_missing_function(self):
        tap.need_tool("setpriv")
        done = self.run_command(["setpriv", "--bounding-set=-all", tap.SPANPROF, "doctor", "--json", "--endpoint", NOWHERE],
                                expect=1, env=session.clean_environment())
        found = [f for f in json.loads(done.stdout)["checks"] if f["name"].startswith("bpf")]
        self.assertEqual([f["result"] for f in found], ["warn"])
        self.assertIn("this takes CAP_BPF and CAP_PERFMON", found[0]["text"])


tap.main()
