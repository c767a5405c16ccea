# SPDX-License-Identifier: Apache-2.0
"""What a JVM says of itself, by jcmd: stacks of threads and compiled code. Knows nothing of our reader."""
import re
import subprocess


def stable_name(name):
    """A method without what differs from run to run, as spanprof writes it."""
    name = re.sub(r"[+/]0x[0-9a-f]+(?=\.)|/\d+(?=\.)", "", name)
    name = re.sub(r"\$\$Lambda\$?\d*(?=\.)", "$$Lambda", name)
    name = re.sub(r"((?:Method|Constructor)Accessor|\$Proxy)\d+(?=\.)", r"\1", name)
    return re.sub(r"^jdk\.proxy\d+\.", "jdk.proxy.", name)


def ask(jcmd, pid, *words):
    done = subprocess.run([jcmd, str(pid), *words], capture_output=True, text=True, timeout=120)
    if done.returncode:
        raise AssertionError(f"jcmd {words}: {done.stdout}{done.stderr}")
    return done.stdout


def threads(jcmd, pid):
    """{name: (address of the JavaThread, [(method, line)])}; line 0: not known. The frames of a virtual
    thread come before those of its carrier, with what HotSpot leaves out between them."""
    found, address, frames, mounted = {}, None, None, None
    for line in ask(jcmd, pid, "Thread.print").split("\n"):
        head = re.match(r'"(.*?)".* tid=0x([0-9a-f]+)', line)
        frame = re.match(r"\s+at (.*?)\((?:[^()]*/)?([^()/]*?)(?::(\d+))?\)$", line)
        if head:
            address, frames, mounted = int(head[2], 16), [], None
            found[head[1]] = (address, frames)
        elif "Mounted virtual thread" in line:
            mounted = 0
        elif frame and frames is not None and mounted is None:
            frames.append((stable_name(frame[1]), int(frame[3] or 0)))
        elif frame and frames is not None:
            frames.insert(mounted, (stable_name(frame[1]), int(frame[3] or 0)))
            mounted += 1
        elif not line.strip():
            frames = None
    return found


def compiled(jcmd, pid):
    """{(id, method, signature, code begin, code end)} of all compiled methods in use (JDK 9 and later)."""
    line = re.compile(r"\s*(\d+) -?\d+ \d+ (\S+?)(\(\S*) \[0x[0-9a-f]+, 0x([0-9a-f]+) - 0x([0-9a-f]+)\]")
    return {(int(m[1]), stable_name(m[2]), m[3], int(m[4], 16), int(m[5], 16))
            for m in map(line.match, ask(jcmd, pid, "Compiler.codelist").split("\n")) if m}
