#!/usr/bin/env python3
"""Breaks the library's rules about locks, one at a time, and demands that clang's thread-safety analysis refuses each.

  tests/thread_safety/mutate.py [--seed N]      thirteen places, by a seeded choice: one of each kind, and one in each module
  tests/thread_safety/mutate.py --all           each place, with a table of kinds and modules
  tests/thread_safety/mutate.py --only TEXT     the places whose file, line and kind, as printed, contain TEXT

Kinds: a lock, an unlock or a relock is taken out, the answer of a try-lock is ignored, or a REQUIRES is taken off. The
places are in all sources and headers of the modules. unseen.txt lists, with reasons, the code that clang does not follow
and the places that it does not notice. It must name all of these, and nothing else.

`./run lint` runs it once it has configured the clang preset, whose compiler flags it uses. Nothing in the tree is changed:
the compiler gets the changed text in the place of the file.
"""
import argparse
import collections
import concurrent.futures
import json
import os
import pathlib
import random
import re
import shlex
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MACROS = "base/include/stockade/base/thread_annotations.h"
MODULES = ["base", "metrics", "redis", "mysql", "locks", "cache", "inventory", "asio"]
READERS = [*MODULES, "examples/shop/event_loop"]  # The last one reads asio/, which has only headers.
UNSEEN = os.path.join(ROOT, "tests", "thread_safety", "unseen.txt")

SCOPED = r"(?:base_internal::)?(?:MutexLock|ShardLock|RankedReadLock|ReentrantMutexGuard|WriteGuard|ReadGuard)"
REQUIRES = r"STOCKADE_REQUIRES(?:_SHARED)?\((?:[^()]|\([^()]*\))*\)"
# In the place of a lock that is taken out, because other lines may use it.
NO_LOCK = r"[[maybe_unused]] struct { void Lock() {} void Unlock() {} } \1;"
# What is replaced, and by what. Line breaks stay, so that lines keep their numbers.
KINDS = {
    "lock": (re.compile(rf"^ *(?:const )?{SCOPED} (\w+)\([^;]*\);", re.M), NO_LOCK),
    "unlock": (re.compile(r"^ *(?:\w+\.Unlock\(\);|const (?:base_internal::)?MutexUnlock \w+\([^;]*\);)", re.M), ""),
    "relock": (re.compile(r"^ *\w+\.Lock\(\);", re.M), ""),
    "try-lock": (re.compile(r"if \(!?([\w:.>-]*(?:TryLock|try_lock)\(\w*\))\) (?:return[^;]*|continue|break);"), r"(void)\1;"),
    "REQUIRES": (re.compile(rf"\s*{REQUIRES}"), ""),
}

# Locks that clang does not follow, and what switches its analysis off or tells it something.
UNFOLLOWED = re.compile(
    r"std::(?:mutex|shared_mutex|recursive_mutex|unique_lock|scoped_lock|lock_guard|shared_lock|condition_variable(?:_any)?)\b"
    r"|STOCKADE_NO_THREAD_SAFETY_ANALYSIS|AssertHeld\(")
PROSE = re.compile(r"[Gg]uarded by|with .{0,20}mutex held|[Nn]eeds? the .{0,12}mutex")

Place = collections.namedtuple("Place", "file line kind begin end by")


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.read()


def targets():
    """For each file of the modules, the compiler commands that read it, those of its own module first."""
    commands = {}
    with open(os.path.join(ROOT, "build", "clang", "compile_commands.json"), encoding="utf-8") as file:
        for entry in json.load(file):
            words = shlex.split(entry["command"])
            command = (*words[: words.index("-o")], "-fsyntax-only", "-Wno-error", "-Werror=thread-safety", entry["file"])
            with open(entry["file"], encoding="utf-8") as file_or_unity:
                sources = re.findall(r'#include "(.*\.cc)"', file_or_unity.read()) or [entry["file"]]
            own = {os.path.relpath(source, ROOT).split("/")[0] for source in sources}
            if any(os.path.relpath(source, ROOT).startswith(reader + "/") for source in sources for reader in READERS):
                commands[command] = own

    def files_of(command):
        made = subprocess.run([*(word for word in command if word != "-fsyntax-only"), "-MM"], cwd=ROOT, check=True,
                              stdout=subprocess.PIPE, text=True).stdout
        return command, [os.path.relpath(os.path.join(ROOT, name), ROOT) for name in made.replace("\\\n", " ").split()[1:]]

    readers = collections.defaultdict(list)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for command, files in pool.map(files_of, commands):
            for file in files:
                if file.split("/")[0] in MODULES and file != MACROS:
                    readers[file].append(command)
    for file, its in readers.items():
        its.sort(key=lambda command: file.split("/")[0] not in commands[command])
    return readers


def places(files):
    found = []
    for file in sorted(files):
        text = read(file)
        for kind, (pattern, by) in KINDS.items():
            for match in pattern.finditer(text):
                line = text.count("\n", 0, match.end()) + 1
                found.append(Place(file, line, kind, match.start(), match.end(), by and match.expand(by)))
    return found


def where(place):
    return f"{place.file}:{place.line} {place.kind}"


def choose(found, seed):
    chance = random.Random(seed)
    chosen = []
    groups = [[place for place in found if place.kind == kind] for kind in KINDS]
    groups += [[place for place in found if place.file.startswith(module + "/")] for module in MODULES]
    for group in groups:
        if rest := [place for place in group if place not in chosen]:
            chosen.append(chance.choice(rest))
    return chosen


def complaint(command, file="", text=""):
    """What clang says if `file` had that text; nothing if it has no fault."""
    with tempfile.TemporaryDirectory() as folder:
        words = list(command)
        if file:
            changed = os.path.join(folder, "changed")
            with open(changed, "w", encoding="utf-8") as out:
                out.write(text)
            overlay = os.path.join(folder, "overlay.yaml")
            entry = {"type": "file", "name": os.path.join(ROOT, file), "external-contents": changed}
            with open(overlay, "w", encoding="utf-8") as out:
                json.dump({"version": 0, "case-sensitive": True, "roots": [entry]}, out)
            words += ["-ivfsoverlay", overlay]
        result = subprocess.run(words, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        return result.stderr if result.returncode != 0 else ""


def is_noticed(place, readers):
    text = read(place.file)
    lost = text[place.begin : place.end]
    changed = text[: place.begin] + place.by + "\n" * (lost.count("\n") - place.by.count("\n")) + text[place.end :]
    for command in readers[place.file]:
        if said := complaint(command, place.file, changed):
            if "-Wthread-safety" not in said:
                print(f"mutate: {where(place)}: another error:\n{said}")
            return True
    return False


def first_line(place):
    return read(place.file)[place.begin : place.end].strip().splitlines()[0]


def listed():
    """What unseen.txt has: for a file and a kind, texts and how often each is there."""
    entries = {}
    with open(UNSEEN, encoding="utf-8") as file:
        for line in file:
            if match := re.match(r"(\S+) ([\w-]+)(?: x(\d+))?: (.*)\n", line):
                entries[match[1], match[2], match[4]] = int(match[3] or 1)
    return entries


def unfollowed():
    """The code that clang does not follow, as unseen.txt lists it."""
    found = collections.Counter()
    for module in MODULES:
        for path in sorted(pathlib.Path(ROOT, module).rglob("*.[hc]*")):
            file = os.path.relpath(path, ROOT)
            if path.suffix not in (".h", ".cc") or file == MACROS:
                continue
            for line in read(file).splitlines():
                code, _, comment = line.partition("//")
                for token in set(UNFOLLOWED.findall(code)):
                    found[file, "code", token] += 1
                if PROSE.search(comment):
                    found[file, "prose", PROSE.search(comment)[0]] += 1
    return found


def check_list(missed, all_were_tried):
    """Whether unseen.txt names what is not seen, and nothing else."""
    entries = listed()
    found = unfollowed() + collections.Counter((place.file, place.kind, first_line(place)) for place in missed)
    wrong = []
    for entry, times in found.items():
        known = entries.get(entry, 0)
        if times > known or (times < known and (all_were_tried or entry[1] in ("code", "prose"))):
            wrong.append(f"{entry[0]} {entry[1]}: {entry[2]}: {times} found, {known} listed")
    for entry in entries:
        if entry not in found and (all_were_tried or entry[1] in ("code", "prose")):
            wrong.append(f"{entry[0]} {entry[1]}: {entry[2]}: listed, but not found")
    for line in sorted(wrong):
        print(f"mutate: tests/thread_safety/unseen.txt: {line}")
    return not wrong


def table(results):
    count = collections.Counter((place.file.split("/")[0], place.kind, noticed) for place, noticed in results)
    print("| module | " + " | ".join(KINDS) + " |\n| --- |" + " ---: |" * len(KINDS))
    for module in MODULES:
        cells = [(count[module, kind, True], count[module, kind, False]) for kind in KINDS]
        print(f"| {module} | " + " | ".join(f"{yes} of {yes + no}" for yes, no in cells) + " |")


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--all", action="store_true")
    options.add_argument("--only", metavar="TEXT")
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--verbose", action="store_true", help="name each change that clang does not notice")
    arguments = options.parse_args()
    readers = targets()
    found = places(readers)
    if arguments.only:
        chosen = [place for place in found if arguments.only in where(place)]
    else:
        chosen = found if arguments.all else choose(found, arguments.seed)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        commands = sorted({command for place in chosen for command in readers[place.file]})
        for said in pool.map(complaint, commands):
            if said:
                sys.exit(f"mutate: it does not compile as it is:\n{said}")
        results = list(zip(chosen, pool.map(lambda place: is_noticed(place, readers), chosen)))
    missed = [place for place, noticed in results if not noticed]
    if arguments.verbose:
        for place in missed:
            print(f"mutate: clang does not notice {where(place)}: {first_line(place)}")
    if arguments.all:
        table(results)
    print(f"mutate: clang notices {len(results) - len(missed)} of {len(results)} changes, of {len(found)} in the library")
    sys.exit(0 if check_list(missed, arguments.all) else 1)


main()
