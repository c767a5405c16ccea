#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Puts style and script into the page and the page into a C file.

usage: embed.py [--as NAME=HEADER] PAGE.html STYLE.css SCRIPT.js… > page-html.c

The page has places @STYLE@, @SCRIPT@, @POLICY@ and @DATA@. Scripts are joined in the order given. The policy
allows this style and this script by their SHA-256, and nothing else.
"""
import base64
import hashlib
import pathlib
import re
import sys


def source(text):
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    return f"'sha256-{digest}'"


def strip(text):
    """The licence of what is joined stands once, in the page."""
    return re.sub(r"/\* SPDX-License-Identifier: [^*]*\*/\n*", "", text)


def array(name, data):
    rows = (", ".join(f"{b}" for b in data[i:i + 24]) for i in range(0, len(data), 24))
    # a NUL behind it, so that it is a text, too
    return f"const char {name}[] = {{\n{''.join(row + ',' + chr(10) for row in rows)}0 }};\nconst size_t {name}_size = {len(data)};\n"


def main():
    arguments, name, header = sys.argv[1:], "page_html", "desk/page/page-html.h"
    if arguments[0] == "--as":
        name, header = arguments[1].split("=")
        arguments = arguments[2:]
    page, style, *scripts = [pathlib.Path(path).read_text() for path in arguments]
    style = strip(style)
    script = '"use strict";\n' + "\n".join(strip(text) for text in scripts)
    if "</script" in script or "</style" in style or "<!--" in script:
        sys.exit("embed.py: style or script would end its own element")
    policy = f"default-src 'none'; style-src {source(style)}; script-src {source(script)}; base-uri 'none'; form-action 'none'"
    page = page.replace("@POLICY@", policy).replace("@STYLE@", style, 1).replace("@SCRIPT@", script, 1)
    head, tail = page.split("@DATA@")
    # bytes over 127 are negative where char is signed
    signed = [[b - 256 if b > 127 else b for b in part.encode()] for part in (head, tail)]
    print(f'/* SPDX-License-Identifier: Apache-2.0 */\n/* Made by embed.py. */\n#include "{header}"\n')
    print(array(f"{name}_head", signed[0]))
    print(array(f"{name}_tail", signed[1]))


if __name__ == "__main__":
    main()
