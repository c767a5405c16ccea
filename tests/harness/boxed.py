# SPDX-License-Identifier: Apache-2.0
"""What a container's root needs for one program: the program itself as /bin/boxed, and its libraries."""
import re
import shutil
import subprocess


def libraries(program):
    text = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
    return re.findall(r"(?:=> |^\s*)(/\S+) \(", text, re.M)


def make_root(root, program):
    for path in [program, *libraries(program)]:
        inside = root / ("bin/boxed" if path == program else path.lstrip("/"))
        inside.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, inside)
    (root / "proc").mkdir(parents=True, exist_ok=True)
    for path in [root, *root.rglob("*")]:
        path.chmod(0o755)
