# SPDX-License-Identifier: Apache-2.0
"""Judges stacks of victim-tree, whose callers are known by name: tree_N is called by tree_(N/2), tree_1 by main."""
import re

import tap

VICTIM = tap.VICTIMS / "victim-tree"
ENDS = ["main", "__libc_start_call_main", "__libc_start_main", "_start"]


def caller_of(name):
    number = re.fullmatch(r"tree_(\d+)", name or "")
    if not number:
        return None
    return f"tree_{int(number[1]) // 2}" if int(number[1]) > 1 else "main"


class Judge:
    """whole: up to _start or ld.so's entry, and it says so; right: no frame but true callers; wrong: another."""

    def __init__(self, symbols):
        self.symbols = symbols

    def names(self, sample):
        """Names of the victim's own functions, leaf first; None for frames of libc and ld.so."""
        own = self.symbols.build_id(str(VICTIM))
        return [self.symbols.name(f) if f.build_id == own else None
                for f in sample.frames if f.type != "kernel"]

    def is_wrong(self, sample):
        names, above = self.names(sample), None
        for name in names:
            expected = caller_of(above)
            if expected and name != expected:
                return True
            if name == "main" and above not in ("tree_1", None) and not above.startswith(("victim_", "is_")):
                return True
            above = name or (above if above == "_start" else None)
        return False

    @staticmethod
    def is_whole(sample):
        return "profile.stack.truncated" not in sample.attributes

    @staticmethod
    def has_user(sample):
        return any(f.type != "kernel" for f in sample.frames)

    def count(self, samples):
        """(samples with a user part, whole ones, whole and right, wrong ones, {ending: n})"""
        due = [s for s in samples if self.has_user(s)]
        wrong = [s for s in due if self.is_wrong(s)]
        whole = [s for s in due if self.is_whole(s)]
        ends = {}
        for s in due:
            end = s.attributes.get("profile.stack.truncated", "complete")
            ends[end] = ends.get(end, 0) + 1
        return len(due), len(whole), sum(not self.is_wrong(s) for s in whole), len(wrong), ends
