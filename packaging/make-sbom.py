#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes what a build is made of as SPDX 2.3 (JSON), to standard output.

usage: make-sbom.py VERSION 'LIBRARY VERSION, LIBRARY VERSION…'

The same input gives the same bytes: the time is SOURCE_DATE_EPOCH (or 1970), the namespace a hash of the
content.
"""
import hashlib
import json
import os
import sys
import time

# library → (licence, where it comes from); the libraries of docs/HACKING.md
LICENCES = {
    "libbpf": ("LGPL-2.1-only OR BSD-2-Clause", "https://github.com/libbpf/libbpf"),
    "libelf": ("GPL-2.0-or-later OR LGPL-3.0-or-later", "https://sourceware.org/elfutils/"),
    "libdw": ("GPL-2.0-or-later OR LGPL-3.0-or-later", "https://sourceware.org/elfutils/"),
    "libcrypto": ("Apache-2.0", "https://www.openssl.org/"),
    "libcurl": ("curl", "https://curl.se/"),
    "libsystemd": ("LGPL-2.1-or-later", "https://systemd.io/"),
    "libmicrohttpd": ("LGPL-2.1-or-later", "https://www.gnu.org/software/libmicrohttpd/"),
    "protobuf-c": ("BSD-2-Clause", "https://github.com/protobuf-c/protobuf-c"),
    "zlib": ("Zlib", "https://zlib.net/"),
    "libdeflate": ("MIT", "https://github.com/ebiggers/libdeflate"),
    "libxxhash": ("BSD-2-Clause", "https://xxhash.com/"),
    "libcjson": ("MIT", "https://github.com/DaveGamble/cJSON"),
    "libzstd": ("BSD-3-Clause OR GPL-2.0-only", "https://facebook.github.io/zstd/"),
    "liblz4": ("BSD-2-Clause", "https://lz4.org/"),
    "liblzma": ("0BSD", "https://tukaani.org/xz/"),
    "sqlite3": ("blessing", "https://sqlite.org/"),
}


def package(name, version, licence, home):
    return {
        "name": name, "SPDXID": f"SPDXRef-Package-{name}", "versionInfo": version, "downloadLocation": home,
        "filesAnalyzed": False, "licenseConcluded": licence, "licenseDeclared": licence,
        "copyrightText": "NOASSERTION"
    }


def document(version, libraries):
    packages = [package("spanprof", version, "Apache-2.0 AND GPL-2.0-only", "NOASSERTION")]
    for name, number in libraries:
        if name not in LICENCES:
            sys.exit(f"make-sbom.py: {name} has no licence in the table")
        packages.append(package(name, number, *LICENCES[name]))
    links = [{
        "spdxElementId": "SPDXRef-DOCUMENT", "relationshipType": "DESCRIBES",
        "relatedSpdxElement": packages[0]["SPDXID"]
    }]
    links += [{
        "spdxElementId": packages[0]["SPDXID"], "relationshipType": "DYNAMIC_LINK",
        "relatedSpdxElement": p["SPDXID"]
    } for p in packages[1:]]
    digest = hashlib.sha256(json.dumps(packages, sort_keys=True).encode()).hexdigest()[:32]
    created = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(int(os.environ.get("SOURCE_DATE_EPOCH", 0))))
    return {
        "spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT",
        "name": f"spanprof-{version}", "documentNamespace": f"urn:spanprof:sbom:{version}:{digest}",
        "creationInfo": {"created": created,
                         "creators": ["Tool: make-sbom.py"]}, "packages": packages, "relationships": links
    }


def main():
    libraries = [tuple(word.split()) for word in sys.argv[2].split(",") if word.strip()]
    json.dump(document(sys.argv[1], libraries), sys.stdout, indent=1, sort_keys=True)
    print()


if __name__ == "__main__":
    main()
