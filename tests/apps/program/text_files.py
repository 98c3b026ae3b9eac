"""Files with pairs of texts, as the tests of chat and translation need them."""

import os
import random
import struct

WORDS = "one two three four five six seven eight nine ten".split()
OTHERS = "un deux trois quatre cinq six sept huit neuf dix".split()


def pairs(count, seed=1):
    """Short sentences and the same words in another language, backwards."""
    rng = random.Random(seed)
    result = []
    for _ in range(count):
        numbers = [rng.randrange(10) for _ in range(rng.randint(1, 9))]
        result.append((" ".join(WORDS[n] for n in numbers), " ".join(OTHERS[n] for n in reversed(numbers))))
    return result


def write_tsv(path, rows):
    with open(path, "w", encoding="utf-8") as file:
        file.writelines(f"{source}\t{target}\n" for source, target in rows)
    return path


def write_parallel(source_path, target_path, rows):
    for path, side in ((source_path, 0), (target_path, 1)):
        with open(path, "w", encoding="utf-8") as file:
            file.writelines(row[side] + "\n" for row in rows)


def write_chatterbot(folder, rows):
    os.makedirs(folder, exist_ok=True)
    with open(f"{folder}/talk.yml", "w", encoding="utf-8") as file:
        file.write("categories:\n- talk\nconversations:\n")
        file.writelines(f"- - {source}\n  - {target}\n" for source, target in rows)


def write_mo(path, rows):
    """A compiled gettext catalogue, as msgfmt writes it."""
    entries = sorted({"": "Content-Type: text/plain; charset=UTF-8\n", **dict(rows)}.items())
    count, start = len(entries), 28
    keys, values = start, start + 8 * count
    offset, tables, texts = start + 16 * count, [[], []], b""
    for side in (0, 1):
        for entry in entries:
            text = entry[side].encode()
            tables[side].append(struct.pack("<2I", len(text), offset + len(texts)))
            texts += text + b"\0"
    header = struct.pack("<7I", 0x950412DE, 0, count, keys, values, 0, 0)
    with open(path, "wb") as file:
        file.write(header + b"".join(tables[0]) + b"".join(tables[1]) + texts)
