"""Checks what the compiler says of each program in wrong_programs.cpp: the sentence that belongs to
it, as the first error, and little else: wrong_programs.py COMPILE_COMMANDS"""

import concurrent.futures
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys

MOST_LINES = 25
SOURCE = pathlib.Path(__file__).with_name("wrong_programs.cpp")
INCLUDE = SOURCE.parent.parent.parent / "include"


def command():
    """What compiles a test, but for its input and output; the precompiled header is in it."""
    commands = json.loads(pathlib.Path(sys.argv[1]).read_text())
    [entry] = [each for each in commands if each["file"].endswith("/test_pch.cpp")]
    words = shlex.split(entry["command"])
    compiler = next(i for i, word in enumerate(words) if re.search(r"(\+\+|clang)[-\d.]*$", word))
    end = words.index("-o")
    return words[compiler:end] + ["-fsyntax-only", f"-I{INCLUDE}", str(SOURCE)], entry["directory"]


def compile(number):
    words, folder = command()
    result = subprocess.run(
        [*words, f"-DWRONG={number}"], cwd=folder, text=True, stderr=subprocess.PIPE,
        env={**os.environ, "LC_ALL": "C"})
    return result.returncode, result.stderr.splitlines()


def problem(number, sentence):
    code, lines = compile(number)
    text = "\n".join(lines)
    if not sentence:
        return f"the right program does not compile:\n{text}" if code else ""
    errors = [line for line in lines if "error: " in line]
    if code == 0:
        return f"program {number} compiles"
    if not errors or sentence not in errors[0]:
        return f"the first error of program {number} is not '{sentence}':\n{text}"
    if len(lines) > MOST_LINES:
        return f"program {number} gives {len(lines)} lines, more than {MOST_LINES}:\n{text}"
    return ""


sentences = {0: ""} | {
    int(number): sentence
    for number, sentence in re.findall(r"WRONG == (\d+)\n *// says: (.*)", SOURCE.read_text())}
assert len(sentences) == 19, sentences
with concurrent.futures.ThreadPoolExecutor(2) as pool:
    problems = [found for found in pool.map(problem, *zip(*sentences.items())) if found]
print("\n".join(problems))
sys.exit(1 if problems else 0)
