"""Compares BLEU with sacrebleu's, on texts made to be nasty.

    PYTHONPATH=<where sacrebleu is> python3 tests/oracles/bleu.py <the program bleu_of>

Counts must be equal and the value within 1e-9. Written for sacrebleu 2.6 of PyPI.
"""

import pathlib
import random
import subprocess
import sys
import tempfile

import sacrebleu

PIECES = [
    "le", "la", "été", "où", "garçon", "l'été", "aujourd'hui", "Noël", "œuvre", "the", "cat", "sat",
    "don't", "state-of-the-art", "1,000.5", "1.000,5", "3.14", ".5", "5.", "5,", "1990-2000", "10-",
    "-10", "a-1", "1-a", "--", "...", ".,.", ",.", "..", ".", ",", ";", ":", "!", "?", "«", "»",
    "“mot”", '"', "'", "`", "(a)", "[b]", "{c}", "$5.00", "50%", "a/b", "a\\b", "~", "^", "|", "_x_",
    "http://example.org/a.b,c?d=1&e=2#f", "me@example.org", "&quot;", "&amp;", "&lt;", "&gt;",
    "&amp;lt;", "&amp;quot;", "&apos;", "&", "<skipped>", "<skip<skipped>ped>", "<b>", "-\n", "\n",
    "\r\n", "\t", "\u00a0", "\u202f", "\u2009", "\u3000", "\u200b", "\u0085", "\u2028", "\x1c", "\ufeff",
    "我们", "。", "，", "１，２", "٣", "٣.٤", "²", "½", "😀", "e\u0301", "a.b.c", "1.2.3", "x.5", "5.x",
    "é.", ".é", "é,5", "5,é", "5-é", "%d", "%s:", "<a href=\"x\">", "C++",
]  # fmt: skip


def letter(generator):
    while True:
        code = generator.choice([generator.randrange(1, 0x100), generator.randrange(1, 0x3100),
                                 generator.randrange(1, 0x110000)])
        if not 0xD800 <= code < 0xE000:
            return chr(code)


def text(generator):
    kind = generator.random()
    if kind < 0.05:
        return ""
    if kind < 0.2:
        return "".join(letter(generator) for _ in range(generator.randrange(1, 40)))
    glue = generator.choice([" ", " ", " ", ""])
    return glue.join(generator.choice(PIECES) for _ in range(generator.randrange(1, 25)))


def changed(generator, words):
    """As a translator gets it wrong: some letters and words gone, doubled, swapped."""
    parts = words.split(" ")
    for _ in range(generator.randrange(4)):
        at = generator.randrange(len(parts))
        parts[at : at + 1] = generator.choice([[], [parts[at]] * 2, [text(generator)], [parts[at][::-1]]])
        parts = parts or [""]
    return " ".join(parts)


def corpus(generator):
    references = [text(generator) for _ in range(generator.choice([1, 1, 2, 5, 50]))]
    near = generator.random()
    outputs = [changed(generator, reference) if generator.random() < near else text(generator)
               for reference in references]
    return outputs, references


def found(program, folder, outputs, references):
    paths = [folder / "outputs", folder / "references"]
    for path, texts in zip(paths, (outputs, references)):
        path.write_bytes(b"".join(line.encode() + b"\0" for line in texts))
    *counts, value = subprocess.run([program, *paths], check=True, capture_output=True, text=True).stdout.split()
    return [int(count) for count in counts], float(value)


def main():
    generator = random.Random(6)
    corpora = [corpus(generator) for _ in range(400)]
    corpora += [([""], [""]), ([""], ["a b"]), (["a b"], [""]), (["a b c d e"], ["a b c d e"])]
    values = set()
    with tempfile.TemporaryDirectory() as folder:
        for number, (outputs, references) in enumerate(corpora):
            expected = sacrebleu.corpus_bleu(outputs, [references], force=True)
            counts, value = found(sys.argv[1], pathlib.Path(folder), outputs, references)
            wanted = [*expected.counts, *expected.totals, expected.sys_len, expected.ref_len]
            if counts != wanted or abs(value - expected.score) > 1e-9:
                sys.exit(f"corpus {number}: {counts} {value}, sacrebleu: {wanted} {expected.score}\n"
                         f"{outputs}\n{references}")
            values.add(value)
    if len(values) < 100:
        sys.exit(f"only {len(values)} different values: the texts say little")
    print(f"BLEU equals sacrebleu {sacrebleu.__version__} on {len(corpora)} corpora, {len(values)} different values")


main()
