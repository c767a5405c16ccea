#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""docs/METRICS.md has each metric of the program: name, type, labels, and a sentence of what it says.

usage: check-metrics.py [--write] SOURCE-ROOT

Counters are those of bpf/border/counters.h, gauges those that the daemon prints. --write makes the page anew;
without it, a page that differs is a mistake, and so is a metric without words.
"""
import collections
import pathlib
import re
import sys

COUNTERS = "bpf/border/counters.h"
STRING = r'((?:"(?:[^"\\]|\\.)*"\s*)+)'
COUNTER = re.compile(rf"\bX\((\w+),\s*{STRING},\s*{STRING},\s*{STRING}\)")
NUMBER = re.compile(rf'append_number\(text, "(\w+)", "(\w+)",.*?,\s*{STRING}\);', re.S)
PRINTED = re.compile(r'"# HELP ((?:spanprof|process)_\w+) ((?:[^"\\]|\\[^n])*)\\n"?\s*"?# TYPE \1 (\w+)\\n', re.S)
SUM = re.compile(rf'append_sums\(&page, "(\w+)", "(\w+)",\s*{STRING},', re.S)
GAUGE_OF_RECEIVER = re.compile(rf'\{{ "(\w+)", {STRING},\s*\w+ \}}')
AT_RECEIVERS = re.compile(r"static const enum counter shown\[\] = \{(.*?)\};", re.S)
LABELS = {                      # of what is printed by hand
    "spanprof_build_info": "version, revision",
    "spanprof_kernel_file_readable": "file",
    "spanprof_span_cpu_seconds_total": "service, operation",
    "spanprof_outside_span_cpu_seconds_total": "service",
    "spanprof_split_span_cpu_seconds": "service",
    "spanprof_span_allocated_bytes_total": "service, operation",
    "spanprof_outside_span_allocated_bytes_total": "service",
    "spanprof_split_span_allocated_bytes_total": "service",
    "spanprof_without_room_total": "user",
    "spanprof_certificate_end_seconds": "receiver, certificate",
}

SECTIONS = [                    # heading, what the metrics' names begin with, a word about them
    ("Losses and coverage", "lost ticks expected_ticks samples_delivered samples_unattributed undecided coverage",
     "`ticks_total = samples_delivered_total + Σ lost_total` once the daemon has stopped "
     "([Losses and coverage](OPERATING.md#losses-and-coverage))."),
    ("The sampler and its rings", "sampler notices wake_ups drains calls starts forks rate_lowered throttled timers "
     "sampled_cpus frequency_hertz bpf_map", "How ticks and notices reach the daemon."),
    ("Targets and their mappings", "targets processes sweep maps mappings objects environment target_reads pod_",
     "Who is profiled, and what is known of it."),
    ("Stacks", "stack unwind", "How stacks end, and where their rows come from ([UNWINDING.md](UNWINDING.md), "
     "[Stacks that end early](OPERATING.md#stacks-that-end-early))."),
    ("Frames and runtimes", "frames runtime hotspot python sdk_spans go_labels go_left go_heap goroutine custom_labels "
     "thread_symbols", "Java, Python, Node.js, PHP, Ruby, Erlang and Go ([RUNTIMES.md](RUNTIMES.md))."),
    ("Spans and contexts", "context ring process_contexts thread_contexts",
     "What services publish, and which samples have it ([SPANS.md](SPANS.md))."),
    ("Waits, CPU and bytes of spans", "wait thread_cpu span_ outside_span split_span",
     "Waits with `--off-cpu` ([OFFCPU.md](OFFCPU.md)), bytes with `--allocated-bytes` "
     "([OPERATING.md](OPERATING.md#bytes-by-operation-of-a-jvm))."),
    ("Coroutines", "coroutine", "Stations of coroutines."),
    ("Names", "names nameless code_ symbol go_tables debuginfod naming", "Why a frame has a name, or has none "
     "([Names of functions](OPERATING.md#names-of-functions))."),
    ("Export and spool", "export spool windows clock_steps validate volume certificate utf8 receiver",
     "Requests, and what waits ([The spool](OPERATING.md#the-spool)). `spanprof_receiver_…` says the same of each "
     "receiver."),
    ("The daemon itself", "", "What it uses, and what it was told."),
]

HEAD = f"""# Metrics

Each metric of `/metrics`, with its type and labels. `tests/check-metrics.py --write .` makes this page from
{COUNTERS} and the daemon's source, and a test holds it current. [Metrics and probes](OPERATING.md#metrics-and-probes)
says how to get them. OpenMetrics has the same names. A counter begins at 0 with the daemon, and goes on over reloads.
"""


def text_of(strings):
    """What C makes of strings that follow one another."""
    return "".join(re.findall(r'"((?:[^"\\]|\\.)*)"', strings)).replace('\\"', '"')


def code_of(source):
    """Without comments and the ends of a macro's lines."""
    return re.sub(r"/\*.*?\*/", "", source, flags=re.S).replace("\\\n", "\n")


class Metric(collections.namedtuple("Metric", "name type labels says")):
    def row(self):
        return f"| `{self.name}` | {self.type} | {f'`{self.labels}`' if self.labels else ''} | {self.says}. |"


def counters(source):
    """{NAME: Metric} of counters.h. Nanoseconds are printed as seconds."""
    found = {}
    for name, metric, label, says in COUNTER.findall(code_of(source)):
        metric, verb = text_of(metric), "Counts"
        if metric.endswith("_nanoseconds_total"):
            metric, verb = metric.replace("_nanoseconds_total", "_seconds_total"), "Adds up seconds of"
        found[name] = Metric("spanprof_" + metric, "counter", text_of(label), f"{verb} {text_of(says)}")
    return found


def shown(kind, says):
    return f"{'Adds up' if kind == 'counter' else 'Shows'} {says}"


def gauges(source):
    for name, kind, says in NUMBER.findall(source):
        yield Metric(name, kind, "", shown(kind, text_of(says)))
    for name, kind, says in SUM.findall(source):
        yield Metric("spanprof_" + name, kind, LABELS["spanprof_" + name], shown(kind, text_of(says)))
    for name, says, kind in PRINTED.findall(source):
        yield Metric(name, kind, LABELS[name], shown(kind, says))


def of_receivers(source, known):
    for name, says in GAUGE_OF_RECEIVER.findall(source):
        yield Metric("spanprof_receiver_" + name, "gauge", "receiver", shown("gauge", text_of(says)))
    families = {}
    for name in re.findall(r"COUNTER_(\w+)", AT_RECEIVERS.search(source)[1]):
        families.setdefault(known[name].name, []).append(known[name].labels)
    for family, labels in families.items():
        key = labels[0].split("=")[0]
        yield Metric(family.replace("spanprof_", "spanprof_receiver_"), "counter", "receiver" + (key and ", " + key),
                     f"Counts what `{family}` does, at each receiver")
    says = re.search(r'"# HELP %s ([^"]*)"\s*"([^"\\]*)\\n# TYPE', source)
    yield Metric("spanprof_certificate_end_seconds", "gauge", LABELS["spanprof_certificate_end_seconds"],
                 shown("gauge", says[1] + says[2]))


def page(metrics):
    lines, left = [HEAD], list(metrics)
    for heading, begins, word in SECTIONS:
        prefixes = tuple("spanprof_" + prefix for prefix in begins.split()) or ("",)
        ours = [metric for metric in left if metric.name.startswith(prefixes)]
        left = [metric for metric in left if metric not in ours]
        order = {name: i for i, name in reversed(list(enumerate(metric.name for metric in ours)))}
        ours.sort(key=lambda metric: order[metric.name])
        lines += [f"## {heading}", word, "", "| metric | type | label | what it says |", "|---|---|---|---|"]
        lines += [*(metric.row() for metric in ours), ""]
    return "\n".join(lines)


def main():
    write, root = "--write" in sys.argv, pathlib.Path(sys.argv[-1])
    known = counters((root / COUNTERS).read_text())
    exports = next((root / "daemon").rglob("exports.c")).read_text()
    metrics = [*known.values(), *gauges(next((root / "daemon").rglob("metrics.c")).read_text()),
               *of_receivers(exports, known)]
    mistakes = [f"{metric.name}: no words say what it is" for metric in metrics if len(metric.says.split()) < 3]
    if len(known) != len(re.findall(r"^ +X\([A-Z]", (root / COUNTERS).read_text(), re.M)):
        mistakes.append(f"{COUNTERS}: a line that this script cannot read")
    file, made = root / "docs/METRICS.md", page(metrics)
    if write:
        file.write_text(made)
    elif not file.exists() or file.read_text() != made:
        mistakes.append("docs/METRICS.md differs from the code: tests/check-metrics.py --write . makes it anew")
    print("\n".join(mistakes) or f"docs/METRICS.md has {len(metrics)} metrics")
    return 1 if mistakes else 0


if __name__ == "__main__":
    sys.exit(main())
