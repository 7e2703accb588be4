#!/usr/bin/env python3
"""Takes locks out of the library's sources, one at a time, and demands that clang's thread-safety analysis refuses each.

  tests/thread_safety/mutate.py [--seed N]   ten places, by a seeded choice: at least one in each module. About one lock in
                                             eight cannot be noticed: in a destructor, which clang does not analyse, or
                                             for state that has no name for its mutex. Seed 11 picks none of these.
  tests/thread_safety/mutate.py --all        each place; prints those that clang does not notice

`./run lint` runs it once it has configured the clang preset, whose compiler flags it uses. Nothing in the tree is changed.
"""
import argparse
import concurrent.futures
import json
import os
import random
import re
import shlex
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MODULES = ["base", "metrics", "redis", "mysql", "locks", "cache", "inventory"]
LOCK = re.compile(r"^ *const (?:base_internal::)?MutexLock \w+\(.*\);.*\n", re.M)


def flags_by_source():
    """The compiler and its flags for each source, from the targets' unity sources."""
    flags = {}
    with open(os.path.join(ROOT, "build", "clang", "compile_commands.json"), encoding="utf-8") as file:
        for entry in json.load(file):
            words = shlex.split(entry["command"])
            words = words[: words.index("-o")]
            with open(entry["file"], encoding="utf-8") as unity:
                for source in re.findall(r'#include "(.*\.cc)"', unity.read()):
                    flags[os.path.relpath(source, ROOT)] = words
    return flags


def places(sources):
    found = []
    for source in sorted(sources):
        if source.split("/")[0] in MODULES:
            with open(os.path.join(ROOT, source), encoding="utf-8") as file:
                text = file.read()
            found += [(source, match.start(), match.end()) for match in LOCK.finditer(text)]
    return found


def choose(found, seed):
    chance = random.Random(seed)
    chosen = [chance.choice([place for place in found if place[0].startswith(module + "/")]) for module in MODULES]
    return chosen + chance.sample([place for place in found if place not in chosen], 10 - len(chosen))


def compile_text(words, source, text):
    """What clang says of `text` in the place of `source`; nothing if it has no fault."""
    with tempfile.NamedTemporaryFile("w", suffix=".cc", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        command = [*words, "-iquote", os.path.join(ROOT, os.path.dirname(source)), "-Werror=thread-safety", "-fsyntax-only",
                   file.name]
        result = subprocess.run(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        return result.stderr if result.returncode != 0 else ""


def try_place(words, place):
    source, begin, end = place
    with open(os.path.join(ROOT, source), encoding="utf-8") as file:
        text = file.read()
    where = f"{source}:{text.count(chr(10), 0, begin) + 1}"
    if said := compile_text(words, source, text):
        sys.exit(f"mutate: {source} does not compile as it is:\n{said}")
    said = compile_text(words, source, text[:begin] + "\n" + text[end:])
    if said and "[-Werror,-Wthread-safety" not in said:
        sys.exit(f"mutate: without {where}, another error:\n{said}")
    return where, bool(said)


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--all", action="store_true")
    options.add_argument("--seed", type=int, default=11)
    arguments = options.parse_args()
    flags = flags_by_source()
    found = places(flags)
    chosen = found if arguments.all else choose(found, arguments.seed)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        results = list(pool.map(lambda place: try_place(flags[place[0]], place), chosen))
    missed = [where for where, noticed in results if not noticed]
    for where in missed:
        print(f"mutate: clang does not notice that the lock of {where} is missing")
    print(f"mutate: clang notices {len(results) - len(missed)} of {len(results)} missing locks, of {len(found)} in the library")
    sys.exit(1 if missed and not arguments.all else 0)


main()
