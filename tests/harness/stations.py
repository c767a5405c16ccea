# SPDX-License-Identifier: Apache-2.0
"""What tests of stations of coroutines share: the victim that knows what it wrote, what a trace says, a region made by hand."""
import contextlib
import json
import re
import sqlite3
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


def lines(path):
    """Objects of the whole lines of a trace: events, and rows by the name of their table."""
    return [json.loads(line) for line in path.read_text().split("\n")[:-1]]


def events(path):
    return [line for line in lines(path) if "probe_id" in line]


def rows(path, table):
    """What stands behind the events, as texts."""
    return [{
        key: str(int(value)) if isinstance(value, int) else value for key, value in line[table].items()
    } for line in lines(path) if table in line]


def stations(path):
    """station → row."""
    return {int(row["station"]): row for row in rows(path, "coro_stations")}


def signed(value):
    """As SQLite keeps it, which has no larger numbers."""
    return value - 2**64 if isinstance(value, int) and value >= 2**63 else value


COLUMNS = "probe_id tid addr seq is_active ts station event birth lost pid payload".split()


def to_database(trace, database):
    """JSON lines as the database that `spanprof coro` would have written, but for its indexes."""
    found = events(trace)
    tables = {"coro_trace_events": (COLUMNS, [{**event, "probe_id": str(event["probe_id"])} for event in found])}
    for table in ("coro_stations", "coro_mappings"):
        found = [line[table] for line in lines(trace) if table in line]
        if found:
            tables[table] = (list(dict.fromkeys(key for row in found for key in row)), found)
    with contextlib.closing(sqlite3.connect(database)) as connection:
        for table, (columns, found) in tables.items():
            names = ", ".join(f'"{column}"' for column in columns)
            key = "id INTEGER PRIMARY KEY AUTOINCREMENT, " if columns is COLUMNS else ""
            connection.execute(f"CREATE TABLE {table} ({key}{names})")
            connection.executemany(f"INSERT INTO {table} ({names}) VALUES ({', '.join('?' * len(columns))})",
                                   [[signed(row.get(column, None if column == "payload" else 0))
                                     for column in columns] for row in found])
        connection.commit()


def to_csv(trace, table):
    """The events as the CSV of version 0.1, which had all columns."""
    rows = [[str(event.get(column, "" if column == "payload" else 0)) for column in COLUMNS]
            for event in events(trace)]
    table.write_text("".join(",".join(row) + "\n" for row in [COLUMNS, *rows]).replace("True", "true").replace(
        "False", "false"))


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
