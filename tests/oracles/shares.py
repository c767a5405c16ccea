# SPDX-License-Identifier: Apache-2.0
"""Whether samples agree with a measured truth: one-sample tests of shares, corrected for their number.

    shares.check(test, {"a": 712, "b": 301}, {"a": 0.7, "b": 0.3})

The variance is the binomial one. Samples of a clock are spread more evenly than independent draws, so the
test errs on the side of `same`; with alpha 1e-4 for all shares of a call together, false alarms are once in
ten thousand runs or fewer.
"""
import math

ALPHA = 1e-4


def p_value(count, n, share):
    """Two-sided, normal approximation with continuity correction."""
    deviation = math.sqrt(n * share * (1 - share))
    if not deviation:
        return 1.0 if count == round(n * share) else 0.0
    return math.erfc(max(0.0, abs(count - n * share) - 0.5) / deviation / math.sqrt(2))


def rows(counts, truth, alpha=ALPHA):
    """(name, count, share seen, share in truth, p, differs) of each."""
    n, whole = sum(counts.get(name, 0) for name in truth), sum(truth.values())
    return [(name, counts.get(name, 0), counts.get(name, 0) / n, value / whole, p, p < alpha / len(truth))
            for name, value in truth.items() for p in [p_value(counts.get(name, 0), n, value / whole)]]


def table(them):
    return "\n".join(
        f"{'DIFFERS' if differs else '':7} {count:7} {100 * seen:6.2f} % seen {100 * true:6.2f} % true  p {p:.2g}  {name}"
        for name, count, seen, true, p, differs in them)


def check(test, counts, truth, at_least=300, alpha=ALPHA):
    """Fails @test if a share differs, or if there are too few samples to tell."""
    test.assertGreaterEqual(sum(counts.get(name, 0) for name in truth), at_least,
                            f"too few samples to compare: {counts}")
    them = rows(counts, truth, alpha)
    test.assertFalse([row for row in them if row[-1]], "\n" + table(them))
