"""What README.md and docs/ name has to exist: tests, files, links. docs.py ROOT"""

import pathlib
import re
import sys

ROOT = pathlib.Path(sys.argv[1])
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
SOURCES = "\n".join(path.read_text() for path in sorted((ROOT / "tests").rglob("*"))
                    if path.suffix in (".cpp", ".h", ".txt", ".py"))


def tests():
    """Every name that a test can have, for ctest or as Suite.Name of googletest."""
    for suite, name in re.findall(r"TEST(?:_F|_P)?\(\s*(\w+),\s*(\w+)\)", SOURCES):
        yield f"{suite}.{name}"
    for suite, name in re.findall(r"TYPED_TEST(?:_P)?\(\s*(\w+),\s*(\w+)\)", SOURCES):
        yield f"{suite}.{name}"
    yield from re.findall(r"(?:NAME|oracle\w*\()\s*([A-Z]\w*\.\w+)", SOURCES)


def anchors(page):
    for heading in re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE):
        yield re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def problems():
    known = set(tests())
    themes = set(re.findall(r"\b([a-z_]+)_test\.py", SOURCES + " ".join(
        path.name for path in (ROOT / "tests").rglob("*_test.py"))))
    for page in ("docs/claims.md", "docs/porting.md"):
        for name in re.findall(r"`([A-Z]\w*\.\w+)`", (ROOT / page).read_text()):
            suite, _, test = name.partition(".")
            if name not in known and not (suite == "Program" and test in themes) and not (
                    test.startswith("TheCorpusOf_")):
                yield f"{page}: there is no test {name}"
    for page in PAGES:
        where, text = page.relative_to(ROOT), page.read_text()
        for target in re.findall(r"\]\(([^)\s]+)\)", text):
            if target.startswith("http"):
                continue
            file, _, anchor = target.partition("#")
            other = page.parent / file if file else page
            if not other.exists():
                yield f"{where}: links to {target}, which does not exist"
            elif anchor and anchor not in set(anchors(other)):
                yield f"{where}: links to {target}, but there is no such heading"
        for path in re.findall(r"`((?:src|include|apps|tests|scripts|docs|bench|cmake)/[\w/.-]+)`", text):
            if not (ROOT / path).exists():
                yield f"{where}: names {path}, which does not exist"
    length = len((ROOT / "README.md").read_text().splitlines())
    if length > 135:
        yield f"README.md: {length} lines; move some of it to docs/"


found = list(problems())
print("\n".join(found) or "what the documents name is there")
sys.exit(1 if found else 0)
