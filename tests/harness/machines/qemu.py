# SPDX-License-Identifier: Apache-2.0
"""Debian's own kernels under QEMU, with programs of ours in their memory.

By TCG. Where this machine is a guest of kvm-pvm itself, /dev/kvm is there, but each instruction of a kernel
that knows nothing of PVM is emulated one by one. That is slower than TCG, and the kernel's decompressor stops
at an instruction of BMI2 (`KVM internal error. Suberror: 1`).

TCG of QEMU 7.2 with a thread for each CPU may run a breakpoint that a kernel of x86 has already taken out
of its code (`Oops: int3`, where tracepoints are switched on). Such a guest is booted once more, with one
thread for all CPUs: it cannot miss a change of code.

An emulated CPU is as fast as the machine lets it be. Limits of time are those of a quiet machine, and grow
with the time that this guest's kernel took to start (QUIET_BOOT).

    kernel = qemu.debian_kernel()                               # Debian 12's vmlinuz; skips with a reason
    kernel = qemu.kernel_of("trixie", "linux-image-rt-amd64")   # of another suite, or another flavour
    kernel = qemu.built_kernel("named-memory", options)         # of Debian 12's source: what Debian builds without
    console = qemu.boot(test, kernel, programs, script)         # what the guest wrote until it powered off
    console = qemu.boot(…, options="lockdown=integrity")        # more for the kernel's command line
    console = qemu.boot_arm64(test, programs, script)           # the same for arm64, programs of build-arm64

The guest is a RAM disk: busybox, the programs with the libraries that they need here, and @script as /init
after the usual file systems are mounted. Nothing is shared with the host but the console.
"""
import fcntl
import gzip
import os
import pathlib
import re
import shutil
import subprocess
import time

import debian
import tap

CACHE = pathlib.Path(os.environ.get("SPANPROF_TEST_CACHE", "/var/cache/spanprof-tests"))
# a program of Python that burns CPU in a known chain, for scripts of guests
PYTHON_CHAIN = (tap.SOURCE_DIR / "tests/victims/python/victim-burn.py").read_text()
PYTHON_FUNCTIONS = ["<module>", "outer", "middle", "burn"]
QUIET_BOOT = 12         # seconds from QEMU's start to /init, on two quiet CPUs
STARTED = "/init runs"
STALE = "Oops: int3"
PRELUDE = f"""#!/bin/busybox sh
export PATH=/bin HOME=/tmp
/bin/busybox --install -s /bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mount -t tmpfs tmp /tmp
mount -t tracefs tracefs /sys/kernel/tracing
mount -t bpf bpf /sys/fs/bpf
mount -t cgroup2 cgroup /sys/fs/cgroup
ip link set lo up
echo            # what the firmware wrote ends without a newline
echo "{STARTED}"
"""


def download(package):
    """The files of a Debian package, unpacked once into the cache."""
    home = CACHE / "packages" / package
    CACHE.mkdir(parents=True, exist_ok=True)
    with open(CACHE / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not home.exists():
            new = home.with_name(package + ".new")
            shutil.rmtree(new, ignore_errors=True)
            new.mkdir(parents=True)
            done = subprocess.run(["apt-get", "download", package], cwd=new, capture_output=True, text=True,
                                  timeout=600)
            found = list(new.glob("*.deb"))
            if done.returncode or not found:
                tap.skip(
                    f"machine: {package} cannot be downloaded (no network?): {done.stderr.strip().splitlines()[-1:]}"
                )
            subprocess.run(["dpkg", "-x", found[0], new], check=True, timeout=300)
            found[0].unlink()
            new.rename(home)
    return home


def debian_kernel():
    done = subprocess.run(["apt-cache", "depends", "linux-image-amd64"], capture_output=True, text=True)
    names = re.findall(r"Depends: (linux-image-6\.1\S+)", done.stdout)
    if not names:
        tap.skip("machine: apt knows no kernel 6.1 here (not Debian 12, or no package lists)")
    return next((download(names[0]) / "boot").glob("vmlinuz-*"))


SMALL_KERNEL = """64BIT PRINTK TTY SERIAL_8250 SERIAL_8250_CONSOLE BLK_DEV_INITRD RD_GZIP BINFMT_ELF BINFMT_SCRIPT
PROC_FS PROC_SYSCTL PROC_PAGE_MONITOR SYSFS DEVTMPFS SHMEM TMPFS MEMFD_CREATE FUTEX EPOLL EVENTFD SIGNALFD TIMERFD
POSIX_TIMERS HIGH_RES_TIMERS MULTIUSER FILE_LOCKING FHANDLE AIO ADVISE_SYSCALLS MEMBARRIER CROSS_MEMORY_ATTACH NET UNIX
CGROUPS NAMESPACES SECCOMP CHECKPOINT_RESTORE""".split()


def built_kernel(name, options):
    """
    Debian 12's source with nothing on but what the guest needs and @options, built once into the cache: some
    minutes on two quiet CPUs. For what none of Debian's kernels has; it has no BPF.
    """
    image = CACHE / "kernels" / f"{name}.bzImage"
    missing = [tool for tool in ("gcc", "make", "flex", "bison", "bc") if not shutil.which(tool)]
    if image.exists():
        return image
    if missing:
        tap.skip(f"tool: no {', '.join(missing)} to build a kernel with")
    source = next((download("linux-source-6.1") / "usr/src").glob("linux-source-6.1.tar.*"))
    with open(CACHE / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        home = image.with_suffix(".new")
        shutil.rmtree(home, ignore_errors=True)
        home.mkdir(parents=True)
        steps = [["tar", "xf", source, "--strip-components=1"], ["make", "tinyconfig"],
                 ["scripts/config", *(part for option in [*SMALL_KERNEL, *options] for part in ("-e", option))],
                 ["make", "olddefconfig"], ["nice", "-n", "19", "make", f"-j{os.cpu_count()}", "bzImage"]]
        for step in steps:
            done = subprocess.run(step, cwd=home, capture_output=True, text=True)
            if done.returncode:
                raise RuntimeError(f"{step[:3]} failed: {done.stderr[-2000:]}")
        config = (home / ".config").read_text()
        lacks = [option for option in options if f"CONFIG_{option}=y" not in config]
        if lacks:
            raise RuntimeError(f"this source cannot have {lacks}")
        (home / "arch/x86/boot/bzImage").rename(image)
        shutil.rmtree(home)
    return image


def kernel_of(suite, package="linux-image-amd64", architecture="amd64"):
    """The kernel that @package of a suite depends on, from the cache."""
    home = CACHE / "kernels" / f"{suite}-{package}"
    CACHE.mkdir(parents=True, exist_ok=True)
    with open(CACHE / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not home.exists():
            new = home.with_name(home.name + ".new")
            shutil.rmtree(new, ignore_errors=True)
            new.mkdir(parents=True)
            with debian.Suite(suite, architecture) as packages:
                image = next(name for name in packages.depends(package) if name.startswith("linux-image-"))
                binary = image.replace("image", "binary", 1)    # what has the file since Linux 7
                packages.unpack([binary if packages.has(binary) else image], new, "*/vmlinuz*")
            new.rename(home)
    return next(path for path in home.rglob("vmlinuz*") if path.is_file())


def arm64_root(name, *packages):
    """Where Debian's packages for arm64 lie unpacked (tests/harness/arm64-root)."""
    root = CACHE / name
    CACHE.mkdir(parents=True, exist_ok=True)
    with open(CACHE / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = subprocess.run([tap.SOURCE_DIR / "tests/harness/arm64-root", root, *packages],
                              capture_output=True, text=True, timeout=1200)
    if done.returncode:
        tap.skip(f"machine: no packages for arm64 (no network?): {done.stderr.strip().splitlines()[-1:]}")
    return root


def arm64_libraries(programs, directories):
    """path in the guest → path here, of all that @programs are linked with or note that they load."""
    found, left = {}, list(programs)
    while left:
        said = subprocess.run(["readelf", "-dW", "-p", ".note.dlopen", left.pop()], capture_output=True, text=True)
        for name in re.findall(r'NEEDED.*\[(.*?)\]|"soname":\["([^"]*)', said.stdout):
            name = name[0] or name[1]
            path = next((d / name for d in directories if (d / name).exists()), None)
            if path and f"lib/aarch64-linux-gnu/{name}" not in found:
                found[f"lib/aarch64-linux-gnu/{name}"] = path.resolve()
                left.append(path)
    return found


def libraries(program):
    """Nothing for what is linked statically."""
    return subprocess.run([tap.SOURCE_DIR / "packaging/libraries", program], capture_output=True,
                          text=True).stdout.split()


def archive(entries):
    """cpio, as the kernel takes it (newc). @entries: path → (mode, bytes)."""
    parts = []

    def add(name, mode, data):
        name = name.encode() + b"\0"
        fields = [0, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(name), 0]
        head = b"070701" + b"".join(b"%08x" % n for n in fields) + name
        parts.extend((head, b"\0" * (-len(head) % 4), data, b"\0" * (-len(data) % 4)))

    for name, (mode, data) in sorted(entries.items()):
        add(name, mode, data)
    add("TRAILER!!!", 0, b"")
    return b"".join(parts)


def ram_disk(busybox, programs, files, script):
    """@files: path in the guest → path here."""
    files = {"bin/busybox": busybox, **{f"bin/{pathlib.Path(p).name}": p for p in programs}, **files}
    entries = {name: (0o100755, pathlib.Path(path).read_bytes()) for name, path in files.items()}
    entries["init"] = (0o100755, (PRELUDE + script + "\npoweroff -f\n").encode())
    directories = {"dev", "proc", "sys", "tmp"
                   } | {str(parent) for name in entries for parent in pathlib.Path(name).parents}
    entries |= {name: (0o040755, b"") for name in directories - {"."}}
    return gzip.compress(archive(entries), 1)


def run(test, emulator, kernel, content, options, patience, cpus=2):
    disk = test.directory() / "disk"
    disk.write_bytes(content)
    for threads in ("multi", "single"):
        began = time.monotonic()
        guest = test.spawn([
            *emulator, "-accel", f"tcg,thread={threads}", "-smp", str(cpus), "-nographic", "-nic", "none", "-no-reboot",
            "-kernel", kernel, "-initrd", disk, "-append", f"quiet panic=-1 oops=panic noirqdebug {options}"
        ], stdin=subprocess.DEVNULL)
        try:
            guest.wait_for(STARTED, patience)
        except AssertionError:
            if STALE in guest.out and threads == "multi":       # it has ended before that
                continue
            raise
        slowness = max(1, (time.monotonic() - began) / QUIET_BOOT)
        print(f"# the guest is slower than on a quiet machine by {slowness:.1f}, threads: {threads}")
        test.assertEqual(guest.wait(patience * slowness), 0, guest)
        if STALE not in guest.out:
            break
    return guest.out.replace("\r", "")


def python_files(root=pathlib.Path("/")):
    """path in the guest → path here, of what `python3.11 -I -S` needs; Debian 12 has it."""
    home = root / "usr/lib/python3.11"
    names = ("encodings", "importlib", "collections")
    files = [*home.glob("*.py"), *(path for name in names for path in (home / name).glob("*.py"))]
    if not (home / "encodings").is_dir():
        tap.skip("machine: no python3.11 of Debian")
    return {f"{path.relative_to(root)}": path for path in files}


def boot(test, kernel, programs, script, patience=540, options="", cpus=2, more=None):
    """@more: path in the guest → path here, of other files."""
    qemu = shutil.which("qemu-system-x86_64") or tap.skip(
        "machine: no qemu-system-x86_64 (package qemu-system-x86)")
    files = {library.lstrip("/"): library for program in programs for library in libraries(program)}
    files |= more or {}
    content = ram_disk(download("busybox-static") / "bin/busybox", programs, files, script)
    return run(test, [qemu, "-m", "768"], kernel, content, f"console=ttyS0 {options}", patience, cpus)


def boot_arm64(test, programs, script, patience=900, options="", more=None, kernel=None):
    """With pointer authentication and branch targets in the processor, as new servers have. @kernel: None = Debian 12's."""
    qemu = shutil.which("qemu-system-aarch64") or tap.skip(
        "machine: no qemu-system-aarch64 (package qemu-system-arm)")
    root, home = CACHE / "arm64", arm64_root("arm64-kernel", "linux-image-arm64", "busybox-static")
    if not (root / "packages").exists():
        tap.skip("tool: no libraries for arm64; `sudo ./bootstrap cross` unpacks them")
    directories = [root / "lib/aarch64-linux-gnu", root / "usr/lib/aarch64-linux-gnu",
                   tap.SOURCE_DIR / "build-arm64/sdk"]
    loader = root / "lib/aarch64-linux-gnu/ld-linux-aarch64.so.1"
    files = {"lib/ld-linux-aarch64.so.1": loader, **arm64_libraries(programs, directories), **(more or {})}
    content = ram_disk(home / "bin/busybox", programs, files, script)
    return run(test, [qemu, "-M", "virt", "-cpu", "max,pauth-impdef=on", "-m", "2048"],
               kernel or next((home / "boot").glob("vmlinuz-*")), content, f"console=ttyAMA0 {options}", patience)
