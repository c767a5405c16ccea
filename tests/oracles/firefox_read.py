#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reads profiles of the Firefox Profiler in their processed form (version 48). It goes by the types
that viewers declare: each column must be there, as long as its table, and refer to a row that is there.

    profile = firefox_read.read("x.firefox.json")
    profile.start_ms, profile.interval_ms
    for thread in profile.threads:  thread.name, process, pid, tid, weight_type
        for s in thread.samples:    s.path (Frames, outermost first), s.ms, s.weight

A profile that is wrong raises AssertionError, with the place. By hand: firefox_read.py FILE
"""
import collections
import json
import pathlib
import sys

Frame = collections.namedtuple("Frame", "name file line category")
Sample = collections.namedtuple("Sample", "path ms weight")
Thread = collections.namedtuple("Thread", "name process pid tid weight_type samples")
Profile = collections.namedtuple("Profile", "start_ms interval_ms threads")

NUMBER, TEXT, FLAG = (int, float), str, bool
META = {"version": int, "preprocessedProfileVersion": int, "interval": NUMBER, "startTime": NUMBER, "processType": int,
        "product": TEXT, "stackwalk": int, "categories": list, "markerSchema": list, "symbolicated": FLAG}
THREAD = {"processType": TEXT, "processStartupTime": NUMBER, "registerTime": NUMBER, "pausedRanges": list, "name": TEXT,
          "isMainThread": FLAG, "processName": TEXT, "pid": TEXT, "tid": int, "samples": dict, "markers": dict,
          "stackTable": dict, "frameTable": dict, "funcTable": dict, "resourceTable": dict, "nativeSymbols": dict,
          "stringArray": list}
COLUMNS = {
    "samples": "stack time weight",
    "markers": "data name startTime endTime phase category",
    "stackTable": "frame prefix category subcategory",
    "frameTable": "address inlineDepth category subcategory func nativeSymbol innerWindowID line column",
    "funcTable": "name isJS relevantForJS resource fileName lineNumber columnNumber",
    "resourceTable": "lib name host type",
    "nativeSymbols": "libIndex address name functionSize",
}
ROOTS = ("processShutdownTime", "unregisterTime")  # must be there, and may be null


def check(condition, place):
    assert condition, place


def fields(where, wanted, place):
    for name, kind in wanted.items():
        check(name in where, f"{place} has no {name}")
        check(isinstance(where[name], kind) and (kind is FLAG or not isinstance(where[name], bool)),
              f"{place}.{name} is {where[name]!r}")


def rows(column, n, place, optional=False):
    """Each cell is a row of a table of @n rows."""
    for cell in column:
        check((optional and cell is None) or (isinstance(cell, int) and 0 <= cell < n), f"{place}: {cell!r} of {n}")


def check_thread(thread, n_categories, place):
    fields(thread, THREAD, place)
    for name in ROOTS:
        check(name in thread, f"{place} has no {name}")
    length = {}
    for table, names in COLUMNS.items():
        length[table] = thread[table].get("length")
        for name in names.split():
            check(isinstance(thread[table].get(name), list), f"{place}.{table} has no {name}")
            check(len(thread[table][name]) == length[table], f"{place}.{table}.{name} is not of its length")
    n_strings = len(thread["stringArray"])
    rows(thread["samples"]["stack"], length["stackTable"], f"{place}.samples.stack", True)
    rows(thread["stackTable"]["frame"], length["frameTable"], f"{place}.stackTable.frame")
    rows(thread["stackTable"]["category"], n_categories, f"{place}.stackTable.category")
    rows(thread["frameTable"]["func"], length["funcTable"], f"{place}.frameTable.func")
    rows(thread["frameTable"]["category"], n_categories, f"{place}.frameTable.category")
    rows(thread["funcTable"]["name"], n_strings, f"{place}.funcTable.name")
    rows(thread["funcTable"]["fileName"], n_strings, f"{place}.funcTable.fileName", True)
    for row, prefix in enumerate(thread["stackTable"]["prefix"]):  # viewers go through it once, from the start
        check(prefix is None or 0 <= prefix < row, f"{place}.stackTable.prefix: {prefix!r} in row {row}")
    times = thread["samples"]["time"]
    check(times == sorted(times), f"{place}.samples.time is in no order")
    check(thread["samples"]["weightType"] in ("samples", "tracing-ms", "bytes"), f"{place}.samples.weightType")


def path_of(thread, stack, categories):
    path = []
    while stack is not None:
        frame = thread["stackTable"]["frame"][stack]
        func = thread["frameTable"]["func"][frame]
        file = thread["funcTable"]["fileName"][func]
        path.append(Frame(thread["stringArray"][thread["funcTable"]["name"][func]],
                          file if file is None else thread["stringArray"][file], thread["frameTable"]["line"][frame],
                          categories[thread["frameTable"]["category"][frame]]))
        stack = thread["stackTable"]["prefix"][stack]
    return path[::-1]


def read(path):
    profile = json.loads(pathlib.Path(path).read_text())
    meta = profile["meta"]
    fields(meta, META, "meta")
    check(meta["preprocessedProfileVersion"] == 48, "another version")
    check(isinstance(profile.get("libs"), list) and isinstance(profile.get("threads"), list), "no libs, or no threads")
    check(any(category["color"] == "grey" for category in meta["categories"]), "no category for what has none")
    names = [category["name"] for category in meta["categories"]]
    threads = []
    for i, thread in enumerate(profile["threads"]):
        check_thread(thread, len(names), f"threads[{i}]")
        samples = thread["samples"]
        threads.append(Thread(thread["name"], thread["processName"], thread["pid"], thread["tid"], samples["weightType"],
                              [Sample(path_of(thread, stack, names), ms, weight) for stack, ms, weight in
                               zip(samples["stack"], samples["time"], samples["weight"], strict=True)]))
    return Profile(meta["startTime"], meta["interval"], threads)


if __name__ == "__main__":
    for one in read(sys.argv[1]).threads:
        print(one.pid, one.tid, one.name, len(one.samples), one.weight_type)
