# SPDX-License-Identifier: Apache-2.0
"""What pages are made of in tests: an OTLP/JSON request of a random program, and sums over it as a page should show them."""
import collections
import json
import random

import tap

START_NS = 1_790_000_000_000_000_000
SECONDS = 20
N_SAMPLES = 3000
HOSTILE = [
    "</script><script>window.harmed = 1</script>", "<img src=x onerror='window.harmed = 1'>",
    "\"'><svg/onload=harmed=1>", "evil\u202egnp.exe", "line\nbreak\x01\x1b[31mred", "&lt;b&gt;&amp;",
    "__proto__", "constructor", "]]>-->", "a" * 1_000_000
]


class Request:
    """An OTLP/JSON request that grows; equal rows are one."""

    def __init__(self):
        self.tables = {
            name: [{}] for name in ("mappingTable", "locationTable", "functionTable", "linkTable",
                                    "attributeTable", "stackTable")
        }
        self.strings = [""]
        self.index = {}
        self.resources = {}

    def string(self, text):
        if ("", text) not in self.index:
            self.index["", text] = self.strings.index(text) if text in ("",) else len(self.strings)
            if text:
                self.strings.append(text)
        return self.index["", text]

    def row(self, table, row):
        key = table, json.dumps(row)
        if key not in self.index:
            self.index[key] = len(self.tables[table])
            self.tables[table].append(row)
        return self.index[key]

    def attribute(self, key, value):
        value = {"intValue": str(value)} if isinstance(value, int) else {"stringValue": value}
        return self.row("attributeTable", {"keyStrindex": self.string(key), "value": value})

    def location(self, names, kind, address=0, line=None):
        """One location; of several names the first is the innermost of what was inlined. line: (file, number)"""
        place = {"filenameStrindex": self.string(line[0])} if line else {}
        lines = [{"functionIndex": self.row("functionTable", {"nameStrindex": self.string(name), **place}),
                  **({"line": str(line[1])} if line else {})} for name in names]
        return self.row(
            "locationTable", {
                "lines": lines, "address": str(address),
                "attributeIndices": [self.attribute("profile.frame.type", kind)]
            })

    def stack(self, locations):
        return self.row("stackTable", {"locationIndices": locations})

    def sample(self, resource, kind, stack, attributes, link, value, time_ns):
        sample = {
            "stackIndex": stack, "attributeIndices": [self.attribute(*pair) for pair in attributes.items()],
            "timestampsUnixNano": [str(time_ns)], "values": [str(value)]
        }
        if link:
            sample["linkIndex"] = self.row("linkTable", {"traceId": link[0], "spanId": link[1]})
        self.resources.setdefault(resource, {}).setdefault(kind, []).append(sample)

    def profile(self, number, kind, samples):
        type_, unit, period_type, period_unit, period = kind
        return {
            "profileId": f"{number:032x}", "timeUnixNano": str(START_NS),
            "durationNano": str(SECONDS * 10**9), "period": str(period),
            "sampleType": {"typeStrindex": self.string(type_),
                           "unitStrindex": self.string(unit)}, "periodType": {
                               "typeStrindex": self.string(period_type),
                               "unitStrindex": self.string(period_unit)
                           }, "samples": samples
        }

    def write(self, path):
        parts = []
        for number, (resource, kinds) in enumerate(self.resources.items()):
            attributes = [{
                "key": key,
                "value": {"intValue": str(value)} if isinstance(value, int) else {"stringValue": value}
            } for key, value in resource]
            profiles = [
                self.profile(number * 8 + i, kind, samples) for i, (kind, samples) in enumerate(kinds.items())
            ]
            parts.append({"resource": {"attributes": attributes}, "scopeProfiles": [{"profiles": profiles}]})
        path.write_text(
            json.dumps(
                {"resourceProfiles": parts, "dictionary": {"stringTable": self.strings, **self.tables}}))
        return path


CPU = ("samples", "count", "cpu", "nanoseconds", 10_000_000)
OFF = ("off_cpu", "nanoseconds", "", "", 0)
WAKER = ("off_cpu_waker", "nanoseconds", "", "", 0)
SHOP = (("process.executable.name", "shop"), ("process.pid", 4711))
WORKER = (("process.executable.name", "worker"), ("process.pid", 4712))


def wait(chance, span_of):
    """Attributes of a random wait (docs/OFFCPU.md). span_of: thread → a span that it works for, or None."""
    if chance.random() < 0.2:
        return {"wait.state": "runnable", "wait.reason": "preempted"}
    attributes = {"wait.state": "blocked", "wait.reason": chance.choice(["futex", "poll", "read"])}
    if attributes["wait.reason"] == "read":
        attributes["wait.file.kind"] = chance.choice(["pipe", "tcp"])
    if attributes["wait.reason"] == "futex":
        attributes |= chance.choice([{}, {"wait.lock.kind": "mutex", "wait.lock.owner.thread.id": 104},
                                     {"wait.lock.kind": "monitor", "wait.lock.class": "shop.Cart",
                                      "wait.lock.owner.thread.id": 102}])
    kind = chance.choice(["thread", "thread", "process", "interrupt", None])
    if kind:
        attributes["wait.waker.kind"] = kind
    if kind == "thread":
        thread = chance.randrange(5)                    # the last one is in no sample
        attributes |= {"wait.waker.process.pid": 4711, "wait.waker.thread.id": 100 + thread}
        if thread < 2:
            attributes |= dict(zip(("wait.waker.trace_id", "wait.waker.span_id"), span_of(thread), strict=True))
    return attributes


def fill_waits(path, seed=3):
    """A program of which half is waiting: CPU samples, waits, and the stacks of those who ended them."""
    chance, request = random.Random(seed), Request()
    spans = [(f"{chance.getrandbits(128) | 1:032x}", f"{chance.getrandbits(64) | 1:016x}") for _ in range(8)]
    work = [request.location([f"work_{i}"], "native", 4096 + i) for i in range(4)]
    unlock = request.location(["unlock"], "kernel", 8192)
    for _ in range(N_SAMPLES):
        thread, at = chance.randrange(4), chance.randrange(SECONDS * 10**9)
        spans_now = spans[at * 4 // (SECONDS * 10**9)::4]
        link = spans_now[thread] if thread < 2 else None
        attributes = {"thread.id": 100 + thread, "thread.name": f"thread-{thread}",
                      **({"endpoint": "/checkout" if link in spans[:4] else "/list"} if link else {})}
        stack = request.stack([chance.choice(work)])
        if chance.random() < 0.5:
            request.sample(SHOP, CPU, stack, attributes, link, 1, START_NS + at)
            continue
        attributes |= wait(chance, spans_now.__getitem__)
        value = chance.randrange(1, 10**7)
        request.sample(SHOP, OFF, stack, attributes, link, value, START_NS + at)
        if attributes.get("wait.waker.kind") == "thread" and chance.random() < 0.7:
            request.sample(SHOP, WAKER, request.stack([unlock, chance.choice(work)]), attributes, link, value,
                           START_NS + at)
    return request.write(path)


def fill(path, seed=1, favourite=3, n_lines=0):
    """
    A random program in two processes, with everything that a page tells apart. favourite: what it calls
    often. n_lines: on how many lines its jvm functions stand; the others have none.
    """
    chance, request = random.Random(seed), Request()
    kinds = {0: "native", 1: "kernel", 2: "jvm"}
    locations = [request.location([f"function_{i:02}"], kinds[i % 3], 4096 + i) for i in range(30)]
    locations.append(request.location(["inner_most", "inner", "outer"], "native", 9000))
    callees = {
        i: [chance.randrange(len(locations)) for _ in range(3)] + [favourite] for i in range(len(locations))
    }
    spans = [(f"{chance.getrandbits(128) | 1:032x}", f"{chance.getrandbits(64) | 1:016x}") for _ in range(12)]
    lined = [i for i in range(30) if kinds[i % 3] == "jvm" and n_lines]
    for _ in range(N_SAMPLES):
        for i in lined:
            line = f"src/File{i}.java", chance.randrange(1, n_lines + 1)
            locations[i] = request.location([f"function_{i:02}"], "jvm", 4096 + i, line)
        frames = [chance.randrange(2)]
        for _ in range(chance.randrange(14)):
            frames.append(chance.choice(callees[frames[-1]]))
        thread = chance.randrange(4)
        resource = SHOP if chance.random() < 0.7 else WORKER
        attributes = {
            "thread.id": (100 if resource is SHOP else 200) + thread, "thread.name": f"thread-{thread}"
        }
        at = int(chance.random() ** 1.5 * SECONDS * 10**9)
        link = spans[min(11, at * 12 // (SECONDS * 10**9))] if thread < 2 else None
        if link:
            attributes["endpoint"] = "/checkout" if link in spans[::3] else "/list"
        if thread == 3:
            attributes["coroutine.station"] = chance.randrange(3)
        if chance.random() < 0.04:
            attributes["profile.stack.truncated"] = chance.choice(["depth", "no_rows"])
        is_off = chance.random() < 0.2
        request.sample(resource, OFF if is_off else CPU,
                       request.stack([locations[i] for i in reversed(frames)]), attributes, link,
                       chance.randrange(1, 10**7) if is_off else 1, START_NS + at)
    return request.write(path)


def process_of(sample):
    return f"{sample.resource['process.executable.name']} ({sample.resource['process.pid']})"


def thread_of(sample):
    return f"{sample.attributes['thread.name']} ({sample.attributes['thread.id']})"


def names_of(sample):
    """Outermost first."""
    return tuple(frame.name for frame in reversed(sample.frames))


def functions(samples):
    """name → [self, total]"""
    sums = collections.defaultdict(lambda: [0, 0])
    for sample in samples:
        names = names_of(sample)
        sums[names[-1]][0] += sample.value
        for name in set(names):
            sums[name][1] += sample.value
    return dict(sums)


def write_diff(test, before, after, *coverage):
    path = test.directory() / "diff.html"
    path.write_text(
        test.run_command([tap.HARNESS / "write-diff", before, after, *coverage], expect=0).stdout)
    return path
