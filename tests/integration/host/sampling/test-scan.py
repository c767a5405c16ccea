#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Stacks through musl, which has no call frame information: rows from a scan of its code."""
import oracle

oracle.enter()

import collections

import otlp_read
import session
import tap

CPU_SECONDS = 1
# What the walk ends at where the rows are to blame; `pending` is a row that is still on its way.
OURS = {"no_rows", "bad_cfa", "fault", "fp_end", "unsupported", "no_mapping", "long", "malformed"}
MOST_CUT = 0.01
FEW = 200
CALLERS = {"compare_words": "do_sort", "do_sort": "main", "do_print": "main", "do_allocate": "main"}
# functions of musl that one of the victim's alone gets to
OWNERS = {"do_sort": ("qsort", "__qsort_r", "sift", "trinkle", "wrapper_cmp"),
          "do_print": ("snprintf", "vsnprintf", "vfprintf", "printf_core", "fmt_fp", "pop_arg", "pad", "sn_write"),
          "do_allocate": ("__libc_malloc_impl", "alloc_slot", "__libc_free", "nontrivial_free")}
OWNER_OF = {name: owner for owner, names in OWNERS.items() for name in names}


def wrong_in(names):
    """What contradicts the victim in a stack, innermost frame first; None = nothing."""
    if "printf" in names:       # main itself says its pid
        return None
    own = [name for name in names if name in CALLERS or name == "main"]
    for callee, caller in zip(own, own[1:]):
        if CALLERS.get(callee) != caller:
            return f"{callee} has the caller {caller}"
    for i, name in enumerate(names):
        owner = OWNER_OF.get(name)
        caller = next((x for x in names[i:] if x in OWNERS or x == "main"), None)
        if owner and caller and caller != owner:
            return f"{name} belongs to {caller}"
    return None


class Musl(session.TestCase):
    def build(self, *arguments):
        compiler = tap.need_tool("musl-gcc")
        program = self.directory() / "musl-busy"
        self.run_command([compiler, "-O2", "-g", "-o", program, tap.SOURCE_DIR / "tests/victims/native/musl-busy.c",
                          *arguments], expect=0)
        return program

    def stacks(self, program, *arguments):
        """[(names of the user's frames, why it was cut or None, samples)] of a run."""
        where = self.directory()
        child = self.spawn([tap.SPANPROF, "record", "-F", "999", "-o", where / "out.otlp", "--", program, *arguments],
                           env=session.clean_environment())
        pid = int(child.wait_for(r"^pid (\d+)$")[1])
        session.wait_cpu([pid], CPU_SECONDS)
        self.assertEqual(child.stop(), 0)
        return [([frame.name for frame in sample.frames if frame.type != "kernel"],
                 sample.attributes.get("profile.stack.truncated"), sample.value)
                for sample in otlp_read.samples(where / "out.otlp") if sample.resource["process.pid"] == pid]

    def check(self, *arguments):
        stacks = self.stacks(self.build(*arguments))
        wrong = [(said, names) for names, _, _ in stacks if (said := wrong_in(names))]
        self.assertEqual(wrong, [])
        whole = sum(n for names, why, n in stacks if not why and "main" in names)
        cut = sum(n for _, why, n in stacks if why in OURS)
        if whole + cut < FEW:
            tap.skip(f"machine: only {whole + cut} stacks in {CPU_SECONDS} s of CPU")
        self.assertLessEqual(cut / (whole + cut), MOST_CUT, f"{cut} of {whole + cut} stacks are cut")

    def check_thread(self, *arguments):
        """The kernel enters a new thread behind musl's system call: no caller is above, and the stack is whole."""
        stacks = self.stacks(self.build(*arguments), "0", "thread")
        self.assertEqual([(said, names) for names, _, _ in stacks if (said := wrong_in(names))], [])
        own = [(names, why, n) for names, why, n in stacks if "in_thread" in names]
        whole = sum(n for _, why, n in own if not why)
        cut = sum(n for _, why, n in own if why in OURS)
        if whole + cut < FEW:
            tap.skip(f"machine: only {whole + cut} stacks in {CPU_SECONDS} s of CPU")
        self.assertLessEqual(cut / (whole + cut), MOST_CUT, f"{cut} of {whole + cut} stacks are cut")

    def test_a_thread_of_a_static_program(self):
        self.check_thread("-static")

    def test_a_thread_of_a_program_and_its_library(self):
        self.check_thread()

    def test_a_static_program(self):
        self.check("-static")

    def test_a_program_and_its_library(self):
        self.check()


class Local(session.TestCase):
    def test_local_functions_of_stripped_programs_have_callers(self):
        """main() is known by what the entry hands on, though no symbol and no call frame information is left."""
        named, program = self.directory() / "named", self.directory() / "local-busy"
        for frame_pointer in ("-fno-omit-frame-pointer", "-fomit-frame-pointer"):
            with self.subTest(frame_pointer):
                self.run_command([tap.need_tool("gcc"), "-O2", frame_pointer, "-fno-asynchronous-unwind-tables",
                                  "-fno-unwind-tables", "-o", named,
                                  tap.SOURCE_DIR / "tests/victims/native/local-busy.c"], expect=0)
                self.run_command(["strip", "-o", program, named], expect=0)
                symbols = map(str.split, self.run_command(["nm", "-S", named], expect=0).stdout.splitlines())
                functions = {name: (int(start, 16), int(size, 16)) for start, size, kind, name in
                             (fields for fields in symbols if len(fields) == 4) if kind in "tT"}
                child = self.spawn([program])
                run = self.start("--pid", child.pid, "--frequency", 499)
                session.wait_cpu([child.pid], CPU_SECONDS)
                found = collections.Counter()
                for sample in run.stop().of(child.pid):
                    path = [next((name.split(".")[0] for name, (start, size) in functions.items()
                                  if 0 <= frame.address - start < size), "") for frame in sample.frames
                            if frame.type != "kernel" and frame.path.endswith("/local-busy")]
                    found[tuple(path), sample.attributes.get("profile.stack.truncated")] += 1
                child.stop(9)
                whole = found[("local_hot", "local_middle", "local_top", "main", "_start"), None]
                self.assertGreater(sum(found.values()), FEW)
                self.assertGreater(whole / sum(found.values()), 0.9, found)


if __name__ == "__main__":
    tap.main()
