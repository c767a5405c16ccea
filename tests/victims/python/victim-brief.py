# SPDX-License-Identifier: Apache-2.0
"""A program that is over after 3 s of CPU time, in one chain of calls, with modules to load before.

usage: python3 victim-brief.py     runs on Python 3.8 and newer
"""
import argparse
import http.client
import json
import time

ROUNDS = 20000
MODULES = argparse, http.client, json


def burn(n):
    total = n
    for i in range(ROUNDS):
        total = (total * 31 + i) & 0xffff
    return total


def step(n):
    return burn(n)


def main():
    while time.process_time() < 3:
        step(1)


if __name__ == "__main__":
    main()
