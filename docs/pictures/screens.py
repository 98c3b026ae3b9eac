"""docs/use.svg: what the program prints, from data to an answer. Real commands and their real output."""

import gzip
import os
import shutil
import struct
import subprocess
import zlib
from html import escape

COLUMNS = 118
LINE = 16
CLASSES = {1: "trouser", 7: "sneaker", 8: "bag"}
FASHION = "/usr/share/datasets/fashion-mnist"


def read_idx(name):
    with gzip.open(f"{FASHION}/{name}") as file:
        content = file.read()
    return content[4 + 4 * content[3]:]


def png(path, pixels, side=28):
    """A grey PNG file."""

    def chunk(kind, content):
        body = kind + content
        return struct.pack(">I", len(content)) + body + struct.pack(">I", zlib.crc32(body))

    rows = b"".join(b"\0" + pixels[row * side:(row + 1) * side] for row in range(side))
    with open(path, "wb") as file:
        file.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0)) +
                   chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def write_photos(folder, each=100):
    """Some of Fashion-MNIST's images as files by class, and two more to ask about."""
    images, labels = read_idx("train-images-idx3-ubyte.gz"), read_idx("train-labels-idx1-ubyte.gz")
    left = {label: each for label in CLASSES}
    for name in CLASSES.values():
        os.makedirs(f"{folder}/photos/{name}")
    os.makedirs(f"{folder}/new")
    for i, label in enumerate(labels):
        if label not in left or left[label] < 0:
            continue
        pixels = images[784 * i:784 * (i + 1)]
        place = f"photos/{CLASSES[label]}/{i:05d}.png" if left[label] > 0 else f"new/{len(os.listdir(folder + '/new'))}.png"
        png(f"{folder}/{place}", pixels)
        left[label] -= 1
    with open(f"{folder}/photos/bag/broken.png", "wb") as file:
        file.write(b"\x89PNG\r\n\x1a\n")
    with open(f"{folder}/photos/bag/animation.gif", "wb"):
        pass


def printed(program, folder, command):
    """The lines of one command, as it prints them where there is no terminal."""
    words = command.replace("lockstep", program.path, 1)
    done = subprocess.run(words, shell=True, cwd=folder, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode != 0:
        raise SystemExit(f"{command}\n{done.stdout}")
    return [line.rstrip() for line in done.stdout.replace(folder + "/", "").splitlines()]


def shortened(lines, first, last):
    return lines if len(lines) <= first + last else [*lines[:first], "...", *lines[-last:]]


def draw(path, lines):
    height = LINE * len(lines) + 32
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 900 {height}" width="900" height="{height}" role="img" '
             'aria-labelledby="title"><title id="title">From a folder of images to answers: init, train, evaluate, predict, '
             'runs, compare, export in a terminal</title>',
             f'<rect width="900" height="{height}" rx="10" fill="#14181f"/>',
             '<g font-family="ui-monospace, \'DejaVu Sans Mono\', monospace" font-size="12">']
    for number, line in enumerate(lines):
        if len(line) > COLUMNS:
            line = line[:COLUMNS - 1] + "…"
        colour = "#7dd3a8" if line.startswith("$ ") else "#8b97ab" if line == "..." else "#dfe6f1"
        parts.append(f'<text x="18" y="{28 + LINE * number}" fill="{colour}" xml:space="preserve">{escape(line)}</text>')
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join(parts) + "\n</g></svg>\n")


def screens(program, path):
    folder = program.folder("screens")
    os.makedirs(folder)
    write_photos(folder)
    small = "--set data.size=32 --set model.name=resnet20 --set train.epochs=6 --devices cpu:0-1"
    lines = []
    for command, first, last in (
            ("lockstep init photos", 9, 9), (f"lockstep train photos.toml {small}", 12, 5),
            ("lockstep evaluate runs/photos --best --devices cpu:0-1", 9, 9), ("lockstep predict runs/photos new", 9, 9),
            ("lockstep resume runs/photos --set train.epochs=8 --set optimizer.lr=0.0005 --quiet", 4, 4),
            (f"lockstep train photos.toml {small} --set optimizer.lr=0.0001 --run-dir runs/slower --quiet", 1, 1),
            ("lockstep runs", 9, 9), ("lockstep compare runs/photos runs/slower", 9, 9),
            ("lockstep export runs/photos model.safetensors", 9, 9)):
        lines += [f"$ {command}", *shortened(printed(program, folder, command), first, last), ""]
    draw(path, lines[:-1])
    shutil.rmtree(folder)
