# SPDX-License-Identifier: Apache-2.0
"""What tests of stations of coroutines share: the victim that knows what it wrote, what a trace says, a region made by hand."""
import csv
import re
import struct

import tap

VICTIM = tap.VICTIMS / "victim-stations"
BOTH = ("seqlock", "document")


def wrote(text):
    """station → (events, last address), as the victim says."""
    return {
        int(m[1]): (int(m[2]), int(m[3], 16))
        for m in re.finditer(r"^wrote (\d+) (\d+) (0x[0-9a-f]+)$", text, re.M)
    }


def stations(path):
    """station → row of the second file."""
    with open(path.with_suffix(".stations.csv"), newline="") as file:
        return {int(row["station"]): row for row in csv.DictReader(file)}


def waiting(coroutines):
    """Stations of those that a report in JSON tells to be suspended at the end; a long wait is one that may be lost."""
    found = {c["station"]: c for c in coroutines if c["state"] in ("suspended", "lost wake-up?")}
    for c in found.values():
        assert (c["state"] == "lost wake-up?") == (c["state_ns"] >= max(100e6,
                                                                        10 * c["longest_suspend_ns"])), c
    return set(found)


def make_region(path, n_stations, version=1, promise=None, magic=b"RCRTOROC"):
    header = magic + struct.pack("<IIII", version, promise or n_stations, 0, 0)
    path.write_bytes(header + bytes((1 + n_stations) * 1024 - len(header)))
