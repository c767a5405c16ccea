#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Code made at run time, with and without frame pointers: no caller is left out of a stack that is called whole."""
import oracle

oracle.enter()

import collections
import pathlib
import platform

import session
import tap

TRUNCATED = "profile.stack.truncated"
WHOLE = ("made_hot", "made_mid", "made_top", "run", "main")


class Made(session.NamingCase):
    def stacks(self, forms, *arguments, once_read=(), until=("made_hot", )):
        """
        (functions from the leaf on, why the stack ends) → how often it was met. What has no name is None;
        whole stacks are without libc's frames, which call main. @once_read: from the first sample on that
        begins so: what is registered, and names, are read some tenths of a second after the code was met.
        @until: functions that must have been met before the time counts that is judged.
        """
        if platform.machine() != "x86_64":
            tap.skip("machine: the victim makes code of x86-64")
        victim = self.victim("made", forms, *arguments)
        if arguments:
            self.addCleanup(pathlib.Path(f"/tmp/perf-{victim.pid}.map").unlink, missing_ok=True)
        run = self.start("--pid", victim.pid, "--frequency", 999, "--symbols=local")
        if arguments:
            self.wait_named(run, victim.pid, *until)
        session.wait_cpu([victim.pid], 0.75 if arguments else 1.5)
        samples = sorted(run.stop().of(victim.pid), key=lambda sample: sample.time_ns)
        stacks = [self.names_of(sample) for sample in samples]
        found = collections.Counter()
        first = next((i for i, names in enumerate(stacks) if tuple(names[:len(once_read)]) == once_read), 0)
        for sample, names in list(zip(samples, stacks))[first:]:
            found[tuple(names), sample.attributes.get(TRUNCATED)] += 1
        self.assertGreater(sum(found.values()), 200, found)
        return found

    def names_of(self, sample):
        frames = [frame for frame in sample.frames if frame.type != "kernel"]
        n = len(frames)
        if TRUNCATED not in sample.attributes:
            n -= 1      # _start, which calls libc
            while n and pathlib.Path(frames[n - 1].path).name.startswith("libc"):
                n -= 1
        return [frame.name or None for frame in frames[:n]]

    def share(self, found, *keys):
        return sum(found[key] for key in keys) / sum(found.values())

    def no_wrong(self, found):
        """Seen from main, a stack that is called whole has each function in its place, as far as it has names."""
        for names, why in found:
            self.assertNotIn("decoy", names, found)
            if not why:
                self.assertLessEqual(len(names), len(WHOLE), found)
                for name, whole in zip(names[::-1], WHOLE[::-1]):
                    self.assertIn(name, (None, whole), found)

    def test_frame_pointers_lead_to_every_caller(self):
        found = self.stacks("kkk", "map")
        self.no_wrong(found)
        self.assertGreater(self.share(found, (WHOLE, None)), 0.97, found)

    def test_frame_pointers_need_no_map(self):
        found = self.stacks("kkk")
        self.no_wrong(found)
        self.assertGreater(self.share(found, ((None, None, None, "run", "main"), None)), 0.97, found)

    def test_code_without_frame_pointers_ends_the_stack_and_says_so(self):
        found = self.stacks("nnn", "map")
        self.no_wrong(found)
        self.assertGreater(self.share(found, (("made_hot",), "unproved")), 0.97, found)

    def test_a_caller_that_keeps_a_frame_pointer_is_not_left_out(self):
        found = self.stacks("kkn", "map")
        self.no_wrong(found)
        self.assertGreater(self.share(found, (("made_hot",), "unproved")), 0.97, found)

    def test_a_caller_without_a_frame_pointer_is_not_left_out(self):
        found = self.stacks("knk", "map")
        self.no_wrong(found)
        self.assertGreater(self.share(found, (("made_hot", "made_mid"), "unproved")), 0.97, found)

    def test_a_native_caller_is_not_left_out(self):
        found = self.stacks("nkk", "map")
        self.no_wrong(found)
        self.assertGreater(self.share(found, (("made_hot", "made_mid", "made_top"), "unproved")), 0.97, found)

    def test_the_beginning_of_a_function_proves_its_frame(self):
        """Below rbp lies the return address of a call that is over, so the stack alone proves nothing."""
        found = self.stacks("kks", "map")
        self.no_wrong(found)
        self.assertGreater(self.share(found, (WHOLE, None)), 0.9, found)

    def test_what_is_registered_for_debuggers_names_and_proves_frames(self):
        found = self.stacks("kks", "gdb")
        self.no_wrong(found)
        self.assertGreater(self.share(found, (WHOLE, None)), 0.9, found)

    def test_each_process_with_the_same_file_has_a_list_of_its_own(self):
        """Where the file has its list is known from the first process on; what is in it is not."""
        if platform.machine() != "x86_64":
            tap.skip("machine: the victim makes code of x86-64")
        run = self.start("--comm", "victim-made", "--frequency", 499, "--symbols=local")
        for _ in range(3):
            victim = self.victim("made", "kks", "gdb")
            self.wait_named(run, victim.pid, "made_hot", "made_mid", "made_top")
            victim.stop()

    def test_registered_frames_lead_to_every_caller(self):
        found = self.stacks("rrr", "map", once_read=WHOLE)
        self.no_wrong(found)
        self.assertGreater(self.share(found, (WHOLE, None)), 0.95, found)

    def test_registered_frames_need_no_map(self):
        whole = (None, None, None, "run", "main")
        found = self.stacks("rrr", once_read=whole)
        self.no_wrong(found)
        self.assertGreater(self.share(found, (whole, None)), 0.9, found)

    def test_code_between_registered_functions_stays_unproved(self):
        found = self.stacks("rnr", "map", once_read=WHOLE[:2])
        self.no_wrong(found)
        self.assertGreater(self.share(found, (("made_hot", "made_mid"), "unproved")), 0.95, found)

    def test_code_between_registered_functions_has_rows_where_it_is_named(self):
        """Nobody describes made_mid, but the image for debuggers says where it begins and ends."""
        found = self.stacks("rnr", "gdb", once_read=WHOLE)
        self.no_wrong(found)
        self.assertGreater(self.share(found, (WHOLE, None)), 0.9, found)

    def test_named_code_that_is_replaced_has_right_rows_or_none(self):
        for how, until in (("change", ("made_hot", )), ("seldom", WHOLE[:3])):
            stacks = self.stacks("rnr", "gdb", how, until=until)
            self.no_wrong({key: n for key, n in stacks.items() if key[0] and key[0][0] == "made_hot"})
        self.assertGreater(stacks[WHOLE, None], 0, stacks)

    def test_registered_frames_of_writable_code_are_not_believed(self):
        found = self.stacks("rrr", "map", "writable")
        self.no_wrong(found)
        self.assertGreater(self.share(found, (("made_hot",), "unproved")), 0.97, found)

    def test_frames_of_code_that_is_replaced_are_right_or_said_to_be_unknown(self):
        for how, until in (("change", ("made_hot", )), ("seldom", WHOLE[:3])):
            stacks = self.stacks("rrr", "map", how, until=until)
            # the rest is the victim's making of other code
            self.no_wrong({key: n for key, n in stacks.items() if key[0] and key[0][0] == "made_hot"})
        self.assertGreater(stacks[WHOLE, None], 0, stacks)

    def test_without_a_map_such_a_frame_is_not_proved(self):
        found = self.stacks("kks")
        self.no_wrong(found)
        self.assertGreater(self.share(found, ((None,), "unproved")), 0.97, found)


tap.main()
