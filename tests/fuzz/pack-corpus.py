#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The corpora of the fuzzers: one archive each, NAME.tar beside fuzz-NAME.c. The build unpacks it to
tests/fuzz/corpus/NAME.

usage: pack-corpus.py list NAME               names and sizes of its files
       pack-corpus.py add NAME FILE…          puts files in, by their names: what a fuzzer has found, for
                                              example
       pack-corpus.py remove NAME FILE…       takes files out
       pack-corpus.py unpack [NAME…]          into corpus/NAME/, where the make-*-corpus scripts write
       pack-corpus.py pack                    makes the archives of the folders in corpus/, and removes those
                                              folders;
                                             refuses one that lacks a file of its archive
       pack-corpus.py build ARCHIVE DIRECTORY STAMP          what the build does

The same files make the same archive, byte by byte: sorted, without times and owners.
"""
import io
import pathlib
import shutil
import sys
import tarfile

HERE = pathlib.Path(__file__).resolve().parent
CORPUS = HERE / "corpus"
FUZZERS = {path.stem.removeprefix("fuzz-"): path for path in HERE.rglob("fuzz-*.c")}


def read(archive):
    """{name: bytes} of an archive."""
    with tarfile.open(archive) as tar:
        return {entry.name: tar.extractfile(entry).read() for entry in tar}


def write(archive, files):
    if not files:
        sys.exit(f"pack-corpus: {archive} would be empty, and its fuzzer would test nothing")
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for name in sorted(files):
            entry = tarfile.TarInfo(name)           # mtime 0, owner 0, mode 0644
            entry.size = len(files[name])
            tar.addfile(entry, io.BytesIO(files[name]))
    archive.write_bytes(data.getvalue())


def files_of(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def unpack(archive, folder):
    """The folder has exactly the files of the archive afterwards."""
    if folder.exists():
        shutil.rmtree(folder)
    folder.mkdir(parents=True)
    for name, data in read(archive).items():
        (folder / name).write_bytes(data)


def archive_of(name):
    if name not in FUZZERS:
        sys.exit(f"pack-corpus: there is no fuzzer {name}; there are: {' '.join(sorted(FUZZERS))}")
    return FUZZERS[name].with_name(f"{name}.tar")


def change(name, added=(), removed=()):
    archive = archive_of(name)
    files = read(archive)
    for path in map(pathlib.Path, added):
        files[path.name] = path.read_bytes()
    for file in removed:
        if files.pop(file, None) is None:
            sys.exit(f"pack-corpus: {name} has no file {file}")
    write(archive, files)
    print(f"{archive.name}: {len(files)} files")


def pack():
    folders = sorted(path for path in CORPUS.iterdir() if path.is_dir())
    for folder in folders:
        archive, files = archive_of(folder.name), files_of(folder)
        lost = sorted(set(read(archive)) - set(files)) if archive.exists() else []
        if lost:
            sys.exit(f"pack-corpus: {folder.name} lacks what its archive has ({lost[0]} …): `unpack` it first, or `remove` that")
        write(archive, files)
        shutil.rmtree(folder)
        print(f"{folder.name}.tar is packed")


def main(verb=None, *arguments):
    if verb == "list" and len(arguments) == 1:
        for name, data in sorted(read(archive_of(*arguments)).items()):
            print(f"{len(data):8} {name}")
    elif verb == "add" and len(arguments) > 1:
        change(arguments[0], added=arguments[1:])
    elif verb == "remove" and len(arguments) > 1:
        change(arguments[0], removed=arguments[1:])
    elif verb == "unpack":
        for name in arguments or sorted(FUZZERS):
            unpack(archive_of(name), CORPUS / name)
    elif verb == "pack" and not arguments:
        pack()
    elif verb == "build" and len(arguments) == 3:
        archive, directory, stamp = map(pathlib.Path, arguments)
        unpack(archive, directory)
        stamp.write_text("")
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main(*sys.argv[1:])
