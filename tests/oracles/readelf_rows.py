# SPDX-License-Identifier: Apache-2.0
"""Unwind tables of a file, row by row, against binutils' reading of it.

`readelf -wF` runs the call frame instructions on its own; `readelf -wf` shows the expressions that -wF abbreviates
to "exp". Every row of every function is compared, in both directions: each row of readelf's must be ours, and
no row of ours may begin where readelf has none. What our rows leave out on purpose is counted and compared
with the reader's own counters, so that a rule which silently became "unsupported" would be noticed.
"""
import bisect
import collections
import re
import subprocess

import tap

DUMP = tap.ORACLES / "dump-rows"
NONE, RSP, RBP, RBX, DEREF_RSP, DEREF_RBP, PLT, SIGNAL, END, BAD = range(10)
REGISTER, RETURN, INDEXED, SUM, DEREF_TWICE, LANDS = 16, 32, 48, 64, 80, 128
SAME, AT_CFA, AT_RBP, LOST = range(4)
RBX_LOST = 63
NAMES = "rax rdx rcx rbx rsi rdi rbp rsp r8 r9 r10 r11 r12 r13 r14 r15".split()
KINDS = {name: REGISTER + i for i, name in enumerate(NAMES)} | {"rsp": RSP, "rbp": RBP, "rbx": RBX}
GAP = 15  # bytes of padding that are not worth a row

Rule = collections.namedtuple("Rule", "cfa offset rbp rbp_offset rbx")
NOTHING = Rule(NONE, 0, 0, 0, 0)
# What we add to gcc's rows in front of its own "rcx+8" (daemon/host/sampling/unwind/cfi/eh-return.h).
LANDING = [Rule(LANDS + REGISTER + NAMES.index("rcx"), 8, AT_RBP, 0, RBX_LOST),
           Rule(LANDS + SUM + NAMES.index("rcx"), 16, AT_RBP, 0, RBX_LOST)]
LANDING_SIZE = 6  # mov, pop, jmp
LANDING_CODE = ["lea    0x8(%rbp,%rcx,1),%rcx", "mov    %rsi,0x8(%rbp,%r"]


def readelf(flag, path):
    done = subprocess.run([tap.need_tool("readelf"), flag, path], capture_output=True, text=True,
                          errors="replace")
    return done.stdout.splitlines()


class Function:
    def __init__(self, start, end, offset, cie):
        self.start, self.end, self.offset, self.cie, self.rows = start, end, offset, cie, []


def read_functions(path, section):
    """readelf's functions and what it found in each CIE: {offset: (augmentation, first row)}."""
    functions, cies, columns, current, inside = [], {}, None, None, False
    for line in readelf("-wF", path):
        if line.startswith("Contents of the"):
            inside = f"the {section} section" in line
        elif not inside:
            continue
        elif m := re.match(
                r"([0-9a-f]+) [0-9a-f]+ [0-9a-f]+ FDE .*?cie=([0-9a-f]+) pc=([0-9a-f]+)\.\.([0-9a-f]+)",
                line):
            current = Function(int(m[3], 16), int(m[4], 16), int(m[1], 16), int(m[2], 16))
            functions.append(current)
            columns = None
        elif m := re.match(r'([0-9a-f]+) [0-9a-f]+ [0-9a-f]+ CIE "([^"]*)"', line):
            cies[int(m[1], 16)] = current = (m[2], [])
            columns = None
        elif line.startswith("   LOC"):
            columns = line.split()[1:]
        elif columns and (m := re.match(r"([0-9a-f]{16}) (.*)", line)):
            # "r10 (r10)": kept in a register, by number and by name; one word is enough.
            row = dict(zip(columns, re.sub(r"\(\w+\)", "", m[2]).split()))
            (current.rows if isinstance(current, Function) else current[1]).append((int(m[1], 16), row))
    return functions, cies


def read_expressions(path, section):
    """{offset of an entry: ([(address, CFA expression)], [(address, rbp expression)], [registers said to be undefined])}"""
    found, entry, inside, address = {}, None, False, 0
    for line in readelf("-wf", path):
        if line.startswith("Contents of the"):
            inside = f"the {section} section" in line
        elif not inside:
            continue
        elif m := re.match(r"([0-9a-f]+) [0-9a-f]+ [0-9a-f]+ (?:FDE|CIE)", line):
            entry, address = found.setdefault(int(m[1], 16), ([], [], [])), 0
        elif m := re.search(r"DW_CFA_(?:advance|set)_loc.* to ([0-9a-f]+)", line):
            address = int(m[1], 16)
        elif m := re.search(r"DW_CFA_def_cfa_expression \((.*)\)", line):
            entry[0].append((address, m[1]))
        elif m := re.search(r"DW_CFA_expression: r6 \(rbp\) \((.*)\)", line):
            entry[1].append((address, m[1]))
        elif m := re.search(r"DW_CFA_undefined: r(\d+)", line):
            entry[2].append(int(m[1]))
    return found


def in_force(expressions, address):
    """The last one up to @address: what -wF abbreviates to "exp"."""
    return [text for start, text in expressions if start <= address][-1]


def expression_cfa(text):
    """(kind, offset) of a CFA expression in readelf's words."""
    if m := re.fullmatch(
            r"DW_OP_breg7 \(rsp\): 8; DW_OP_breg16 \(rip\): 0; DW_OP_lit15; DW_OP_and; DW_OP_lit(\d+); "
            r"DW_OP_ge; DW_OP_lit3; DW_OP_shl; DW_OP_plus", text):
        return PLT, int(m[1])
    if m := re.fullmatch(r"DW_OP_breg([67]) \(r[bs]p\): (-?\d+); DW_OP_deref(?:; DW_OP_plus_uconst: (\d+)"
                         r"|; DW_OP_lit(\d+); DW_OP_plus)?", text):
        offset = int(m[2]) << 8 | int(m[3] or m[4] or 0)
        return (DEREF_RBP if m[1] == "6" else DEREF_RSP), offset
    if m := re.fullmatch(r"DW_OP_breg7 \(rsp\): (-?\d+); DW_OP_deref(?:; DW_OP_plus_uconst: (\d+))?; DW_OP_deref"
                         r"(?:; DW_OP_plus_uconst: (\d+))?", text):
        return DEREF_TWICE, int(m[1]) << 16 | int(m[2] or 0) << 8 | int(m[3] or 0)
    if m := re.fullmatch(
            r"DW_OP_breg7 \(rsp\): (\d+); DW_OP_breg(\d+) \(r\w+\): 0; DW_OP_lit8; DW_OP_mul; DW_OP_plus; "
            r"DW_OP_deref; DW_OP_plus_uconst: (\d+)", text):
        return INDEXED + int(m[2]), int(m[1]) << 8 | int(m[3])
    return BAD, 0


class Expected:
    """readelf's rows in our words."""

    def __init__(self, cies, expressions):
        self.cies, self.expressions, self.unsupported = cies, expressions, collections.Counter()

    def rbp(self, value, address, function):
        if value in (None, "u", "s"):
            return (LOST, 0) if 6 in self.expressions[function.offset][2] else (SAME, 0)
        if m := re.fullmatch(r"c([+-]\d+)", value):
            offset = int(m[1])
            if -32768 <= offset < 32768:
                return AT_CFA, offset
        if value == "exp":
            text = in_force(self.expressions[function.offset][1], address)
            if m := re.fullmatch(r"DW_OP_breg6 \(rbp\): (-?\d+)", text):
                return AT_RBP, int(m[1])
        self.unsupported["FRAME_POINTER"] += 1
        return LOST, 0

    def rbx(self, value, function):
        if value in (None, "u", "s") and 3 not in self.expressions[function.offset][2]:
            return 0
        if m := re.fullmatch(r"c-(\d+)", value or ""):
            if int(m[1]) % 8 == 0 and int(m[1]) <= 8 * 62:
                return int(m[1]) // 8
        self.unsupported["BASE_REGISTER"] += 1
        return RBX_LOST

    def cfa_expression(self, address, function):
        return in_force(self.expressions[function.cie][0] + self.expressions[function.offset][0], address)

    def cfa(self, value, address, function):
        if m := re.fullmatch(r"(\w+)([+-]\d+)", value):
            return KINDS[m[1]], int(m[2])
        kind, offset = expression_cfa(self.cfa_expression(address, function))
        if kind == BAD:
            self.unsupported["CFA_EXPRESSION"] += 1
        return kind, offset

    def rule(self, row, address, function):
        if "S" in self.cies[function.cie][0] and row["CFA"] == "exp" and row["ra"] == "exp":
            return Rule(SIGNAL, 0, 0, 0, 0)
        if row["ra"] == "u":
            return Rule(END, 0, 0, 0, 0)
        in_register, by_rsp = re.fullmatch(r"r(\d+)", row["ra"]), re.fullmatch(r"rsp\+(\d+)", row["CFA"])
        if in_register and by_rsp and row.get("rbp", "u") == "u":
            return Rule(RETURN + int(in_register[1]), int(by_rsp[1]), 0, 0, 0)
        if row["ra"] != "c-8":
            self.unsupported["RETURN_ADDRESS"] += 1
            return Rule(BAD, 0, 0, 0, 0)
        kind, offset = self.cfa(row["CFA"], address, function)
        if kind == BAD:
            return Rule(BAD, 0, 0, 0, 0)
        return Rule(kind, offset, *self.rbp(row.get("rbp"), address, function),
                    self.rbx(row.get("rbx"), function))


class Table:
    def __init__(self, path, *options):
        self.starts, self.rules, self.counts, self.landings = [], [], {}, []
        done = subprocess.run([DUMP, *options, path], capture_output=True, text=True)
        for line in done.stdout.splitlines():
            if line.startswith("# "):
                _, name, n = line.split()
                self.counts[name] = int(n)
            else:
                address, *rule = line.split()
                self.starts.append(int(address, 16))
                self.rules.append(Rule(*map(int, rule)))

    def at(self, address):
        i = bisect.bisect_right(self.starts, address) - 1
        return self.rules[i] if i >= 0 else NOTHING

    def between(self, start, end):
        """Rules that begin inside (start, end)."""
        i, j = bisect.bisect_right(self.starts, start), bisect.bisect_left(self.starts, end)
        return zip(self.starts[i:j], self.rules[i:j])


def function_rows(function, cies):
    """[(start, end, row)], the last one at an address winning, as in the program itself."""
    rows = function.rows or [(function.start, cies[function.cie][1][0][1])]
    last = {address: row for address, row in rows if address < function.end}
    starts = sorted(last)
    return [(a, b, last[a]) for a, b in zip(starts, starts[1:] + [function.end]) if a < b]


def compare(path, section=".eh_frame", options=()):
    """→ (rows compared, [differences], expected unsupported, table)"""
    functions, cies = read_functions(path, section)
    expected, table = Expected(cies, read_expressions(path, section)), Table(path, *options)
    functions = sorted((f for f in functions if f.end > f.start), key=lambda f: f.start)
    differences, n = [], 0
    for i, function in enumerate(functions):
        next_start = functions[i + 1].start if i + 1 < len(functions) else None
        if next_start is not None and next_start < function.end:
            function.end = next_start
        rows, lands = function_rows(function, cies), 0
        for j, (start, end, row) in enumerate(rows):
            rule = expected.rule(row, start, function)
            n += 1
            for address, ours in [(start, table.at(start)), *table.between(start, end)]:
                if ours in LANDING and address > start and rows[j + 1][2]["CFA"] == "rcx+8":
                    if table.at(address - 1) != ours:   # a page of text begins with what is in force
                        table.landings.append((address, LANDING.index(ours)))
                    lands = end + LANDING_SIZE
                elif address < lands and ours == Rule(LANDS + rule.cfa, rule.offset, 0, 0, 0):
                    pass
                elif ours != rule:
                    differences.append(f"{address:x}: readelf {row} = {rule}, ours {ours}")
        if next_start is not None and next_start - function.end > GAP and table.at(function.end) != NOTHING:
            differences.append(f"{function.end:x}: a row behind the function's end: {table.at(function.end)}")
    return n, differences, expected.unsupported, table


def problems(path, *args):
    """→ (rows compared, [what is wrong], expected unsupported, table); [] = all is right."""
    n, differences, unsupported, table = compare(path, *args)
    wrong = differences[:5] + [f"{len(differences)} of {n} rows differ"] * bool(differences)
    for address, kind in table.landings:
        code = subprocess.run([
            tap.need_tool("objdump"), "-d", f"--start-address={address - 5}", f"--stop-address={address}",
            path
        ], capture_output=True, text=True).stdout
        if LANDING_CODE[kind] not in code:
            wrong.append(f"{address:x}: no landing: {code}")
    wrong += [f"{k} {v}" for k, v in table.counts.items() if k.startswith("problem-")]
    # Ours are counted before rows of no length are dropped, so there may be a few more.
    wrong += [
        f"unsupported {k}: {v}, ours {table.counts.get(f'unsupported-{k}', 0)}"
        for k, v in unsupported.items() if table.counts.get(f"unsupported-{k}", 0) < v
    ]
    return n, wrong, unsupported, table
