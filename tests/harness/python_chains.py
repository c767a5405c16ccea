# SPDX-License-Identifier: Apache-2.0
"""The truth of a victim in Python, from its own source: a line that calls a function of a chain says
`# > name`, and one on which a chain's innermost function computes says `# = name`."""
import collections
import re


class Chains:
    """@chains: lists of plain names, the outermost first."""

    def __init__(self, source, chains):
        self.source, self.chains = str(source), [list(chain) for chain in chains]
        self.text = source.read_text().splitlines()
        self.leaves = {chain[-1] for chain in chains}
        self.roots = {chain[0] for chain in chains}

    def own(self, sample):
        """The victim's frames, the outermost first, from the first function of a chain on; [] = none."""
        frames = [f for f in reversed(sample.frames)
                  if f.type == "cpython" and f.file == self.source and f.name != "<module>"]
        return frames if frames and plain(frames[0]) in self.roots else []

    def verdict(self, frames):
        names = [plain(f) for f in frames]
        if names in self.chains:
            return "whole"
        return "inner" if any(names == chain[:len(names)] for chain in self.chains) else "wrong"

    def lines(self, frames):
        """(right, [(function, line)] that are wrong) of frames whose line the source tells."""
        right, wrong = 0, []
        for outer, inner in zip(frames, frames[1:] + [None]):
            text = self.text[outer.line - 1] if 0 < outer.line <= len(self.text) else ""
            if inner is None and plain(outer) not in self.leaves:
                continue
            # the innermost function may be at its begin: RESUME has the line of the `def`
            mark = f"# > {plain(inner)}\\b" if inner else f"# = {plain(outer)}|def {plain(outer)}"
            if re.search(mark, text):
                right += 1
            else:
                wrong.append((outer.name, outer.line))
        return right, wrong


def plain(frame):
    return frame.name.rsplit(".", 1)[-1]


def share(samples):
    """Of @samples from the first one with a function of Python on, those that have one."""
    named = [s for s in samples if any(f.type == "cpython" for f in s.frames)]
    first = min(s.time_ns for s in named)
    return sum(s.value for s in named) / sum(s.value for s in samples if s.time_ns >= first)


class Judged:
    """What @samples of a victim are: counts by verdict, chains that are wrong, lines, ends."""

    def __init__(self, chains, samples):
        self.verdicts, self.wrong = collections.Counter(), collections.Counter()
        self.right_lines, self.wrong_lines = 0, collections.Counter()
        self.ends, self.whole = collections.Counter(), collections.Counter()
        self.unnamed = 0
        for sample in samples:
            frames = chains.own(sample)
            if not frames:
                continue
            # a busy machine names some frames too late: which function that was, such a sample does not say
            if any(f.type in ("unknown", "cpython") and not f.name for f in sample.frames):
                self.unnamed += sample.value
                continue
            said = chains.verdict(frames)
            self.verdicts[said] += sample.value
            if said == "wrong":
                self.wrong[tuple(plain(f) for f in frames)] += sample.value
            elif said == "whole":
                self.whole[tuple(plain(f) for f in frames)] += sample.value
            right, wrong = chains.lines(frames)
            self.right_lines += right
            self.wrong_lines.update(wrong)
            self.ends[sample.attributes.get("profile.stack.truncated")] += sample.value

    @property
    def n(self):
        return self.verdicts.total()

    def __str__(self):
        return (f"{self.n} samples {dict(self.verdicts)}, {self.unnamed} without all names, lines {self.right_lines} right, "
                f"{self.wrong_lines.total()} wrong, ends {dict(self.ends)}")

    def check(self, test, least=0.9):
        """No wrong chain or line, and at least so large a share of stacks whole."""
        print(f"# {self}", flush=True)
        test.assertLess(self.unnamed, 0.1 * self.n)
        test.assertFalse(self.wrong, self.wrong.most_common(3))
        test.assertFalse(self.wrong_lines, self.wrong_lines.most_common(3))
        test.assertGreaterEqual(self.verdicts["whole"] / self.n, least)
