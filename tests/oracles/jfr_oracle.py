# SPDX-License-Identifier: Apache-2.0
"""What the JDK's own reader prints of a recording, beside what `spanprof convert` makes of it: for every event that becomes a
sample its type, thread, span and whole stack, with number and value.

    jfr_oracle.py [--jfr JFR] FILE…        by hand, any recordings: one line each, status 1 where they differ

JFR is the `jfr` of a JDK that can read the files (of remote frames only its JSON can be printed; recordings
of Datadog's profiler without any string in the pool of strings need a JDK later than 17)."""
import argparse
import collections
import functools
import hashlib
import itertools
import json
import pathlib
import re
import subprocess
import sys
import tempfile

import tap

Sample = collections.namedtuple("Sample", "event type unit value times frames attributes trace span")
Key = collections.namedtuple("Key", "event thread span root stack")


def any_value(value):
    kind, value = next(iter(value.items()), ("stringValue", ""))
    return int(value) if kind == "intValue" else value


def read_samples(document):
    """Every sample of an OTLP/JSON document, its indexes resolved. A frame: name, line, attributes, descriptor, build id, address."""
    d = document["dictionary"]
    strings = d["stringTable"]

    def attributes(indexes):
        return {
            strings[d["attributeTable"][i]["keyStrindex"]]: any_value(d["attributeTable"][i]["value"])
            for i in indexes
        }

    def frame(index):
        location = d["locationTable"][index]
        line = location.get("lines", [{}])[:1] or [{}]
        function = d["functionTable"][line[0].get("functionIndex", 0)]
        name, system = (strings[function.get(key, 0)] for key in ("nameStrindex", "systemNameStrindex"))
        mapping = d["mappingTable"][location.get("mappingIndex", 0)]
        build_id = attributes(mapping.get("attributeIndices", [])).get("process.executable.build_id.gnu")
        return (name, int(line[0].get("line", 0)), attributes(location.get("attributeIndices", [])),
                system.removeprefix(name), build_id, int(location.get("address", 0)))

    frames = [frame(i) for i in range(len(d["locationTable"]))]
    for resource in document["resourceProfiles"]:
        for profile in (p for s in resource["scopeProfiles"] for p in s["profiles"]):
            type_ = profile["sampleType"]
            for sample in profile["samples"]:
                values, times = [int(v)
                                 for v in sample.get("values", [])], sample.get("timestampsUnixNano", [])
                stack = d["stackTable"][sample.get("stackIndex", 0)].get("locationIndices", [])
                link = d["linkTable"][sample.get("linkIndex", 0)]
                own = attributes(sample.get("attributeIndices", []))
                yield Sample(own.get("jfr.event"), strings[type_["typeStrindex"]],
                             strings[type_["unitStrindex"]],
                             sum(values) if values else len(times), times, [frames[i] for i in stack], own,
                             link.get("traceId"), link.get("spanId"))


def seconds(text):
    """PT0.015S of `jfr print --json` in ns."""
    match = re.fullmatch(r"P(?:(\d+)D)?T(?:(\d+)H)?(?:(\d+)M)?(?:([\d.]+)S)?", text)
    whole = ((int(match[1] or 0) * 24 + int(match[2] or 0)) * 60 + int(match[3] or 0)) * 60
    return round((whole + float(match[4] or 0)) * 1e9)


def times(size, weight):
    return lambda event: int(float(event[size]) * (event[weight] or 1))


def field(name, read=int):
    return lambda event: read(event[name])


def tlab(event):
    return int(event["tlabSize"]) or int(event["allocationSize"])


# event → value of one, from its fields; None = it counts once
VALUES = {
    "datadog.ExecutionSample": field("weight"),
    "datadog.HeapLiveObject": times("size", "weight"),
    "datadog.MethodSample": field("weight"),
    "datadog.ObjectSample": times("size", "weight"),
    "jdk.CPUTimeSample": None,
    "jdk.ExecutionSample": None,
    "jdk.FileRead": field("duration", seconds),
    "jdk.FileWrite": field("duration", seconds),
    "jdk.JavaExceptionThrow": None,
    "jdk.JavaMonitorEnter": field("duration", seconds),
    "jdk.JavaMonitorWait": field("duration", seconds),
    "jdk.NativeMethodSample": None,
    "jdk.ObjectAllocationInNewTLAB": tlab,
    "jdk.ObjectAllocationOutsideTLAB": field("allocationSize"),
    "jdk.ObjectAllocationSample": field("weight"),
    "jdk.OldObjectSample": None,
    "jdk.SocketRead": field("duration", seconds),
    "jdk.SocketWrite": field("duration", seconds),
    "jdk.ThreadPark": field("duration", seconds),
    "jdk.ThreadSleep": field("duration", seconds),
    "jdk.VirtualThreadPinned": field("duration", seconds),
    "profiler.LiveObject": field("allocationSize"),
    "profiler.Malloc": field("size"),
    "profiler.NativeLock": field("duration", seconds),
    "profiler.WallClockSample": field("samples"),
}
ROUNDED = {
    event for event in VALUES
    if event.startswith(("jdk.File", "jdk.JavaMonitor", "jdk.Socket", "jdk.Thread", "jdk.VirtualThread",
                         "profiler.NativeLock"))
}
# what a JVM puts into the names of classes that it makes: addresses, and numbers in the order of their making
ADDRESS = re.compile(r"(?:[+/.]0x[0-9a-f]+|[+/][0-9]+)+$")
NUMBER = re.compile(r"(?<=\$\$Lambda)\$?[0-9]+$|(?<=Accessor)[0-9]+$|(?<=/\$Proxy)[0-9]+$|(?<=LambdaForm\$[DB]MH)[0-9]+$|"
                    r"(?<=LambdaForm\$MH)[0-9]+$")
SPAN_MASK = (1 << 64) - 1


def plain(text):
    """The JDK's reader takes a character beyond U+FFFF, as the JVM writes it, for two mistakes."""
    return re.sub("\ufffd\ufffd|[\U00010000-\U0010ffff]", "\ufffd", text) if text else None


def printed_frame(frame):
    """(name, descriptor, line, build id, address) as a converted frame has them."""
    method = frame["method"]
    if not method:
        return ("", "", 0, None, 0)
    class_name = NUMBER.sub("", ADDRESS.sub("", (method["type"] or {}).get("name") or ""))
    class_name = re.sub(r"^jdk/proxy[0-9]+", "jdk/proxy", class_name).replace("/", ".")
    name, descriptor = method["name"] or "", method["descriptor"] or ""
    address = re.fullmatch(r"\(?0x([0-9a-f]+)\)?", descriptor)
    if name == "<remote>" and address:
        return ("", "", 0, class_name, int(address[1], 16))
    line = max(frame["lineNumber"] or 0, 0)
    if re.fullmatch(r"\(.*\)(?!L;).+", descriptor):
        return (f"{class_name}.{name}", descriptor, line, None, 0)
    return (name, "", line, None, 0)


@functools.lru_cache(maxsize=4)
def _events(path, jfr, _digest):
    done = subprocess.run([jfr, "print", "--json", "--stack-depth", "4096", path], check=True,
                          capture_output=True)
    return json.loads(done.stdout)["recording"]["events"]


def printed(path, jfr="jfr"):
    """{Key: [events, value]} by the JDK's own reader, which is asked once of the same bytes: it takes
    seconds. Not with --events, which only knows the types of the first chunk."""
    sums = collections.defaultdict(lambda: [0, 0])
    for event in _events(str(path), str(jfr), hashlib.sha256(pathlib.Path(path).read_bytes()).digest()):
        if event["type"] not in VALUES:
            continue
        v = event["values"]
        thread = v.get("sampledThread") or v.get("eventThread") or {}
        frames = (v.get("stackTrace") or {}).get("frames") or []
        span, root = ((v.get(key) or 0) & SPAN_MASK for key in ("spanId", "localRootSpanId"))
        key = Key(event["type"], plain(thread.get("javaName") or thread.get("osName")), span if root else 0,
                  root if span else 0, tuple(map(printed_frame, frames)))
        read = VALUES[event["type"]]
        row = sums[key]
        row[0] += 1
        row[1] += read(v) if read else 1
    return sums


def converted(samples):
    sums = collections.defaultdict(lambda: [0, 0])
    for s in samples:
        frames = tuple((name, descriptor, line, build_id, address)
                       for name, line, _, descriptor, build_id, address in s.frames)
        sums[Key(s.event, plain(s.attributes.get("thread.name")), int(s.span or "0", 16),
                 int(s.trace or "0", 16), frames)][1] += s.value
    return sums


def differences(ours, theirs):
    """Lines that say where they differ. Of durations the JDK prints fewer digits than there are."""
    for key in set(ours) | set(theirs):
        n, value = theirs.get(key, (0, 0))
        mine = ours.get(key, (0, 0))[1]
        if abs(mine - value) > (n * 1000 if key.event in ROUNDED else
                                n if "Object" in key.event and "datadog" in key.event else 0):
            yield f"{key.event} {key.thread} {key.span:x}/{key.root:x} {key.stack[:3]}…: {mine} here, {value} by the JDK in {n} events"


def convert(path, *options, spanprof=tap.SPANPROF):
    """The document as OTLP/JSON."""
    with tempfile.TemporaryDirectory() as directory:
        out = pathlib.Path(directory) / "out.json"
        subprocess.run([spanprof, "convert", str(path), "-o", out, *options], check=True)
        return json.loads(out.read_text())


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jfr", default="jfr")
    parser.add_argument("files", nargs="+")
    args = parser.parse_args()
    status = 0
    for path in args.files:
        theirs = printed(path, args.jfr)
        wrong = list(differences(converted(read_samples(convert(path, "--timestamps"))), theirs))
        per_type = collections.Counter()
        for key, (n, _) in theirs.items():
            per_type[key.event] += n
        print(
            f"{path}: {sum(per_type.values())} events in {len(theirs)} kinds, {len(wrong)} differ; {dict(per_type)}"
        )
        for line in itertools.islice(wrong, 5):
            print("   ", line)
        status |= bool(wrong)
    sys.exit(status)


if __name__ == "__main__":
    main()
