"""Small detection data: coloured rectangles on noise, drawn here, as COCO, VOC and YOLO."""

import json
import os
import random
import struct
import zlib

CLASSES = {3: ("red", (220, 30, 30)), 8: ("blue", (30, 40, 220))}  # ids with a hole


def write_png(path, width, height, rows):
    def chunk(kind, content):
        body = kind + content
        return struct.pack(">I", len(content)) + body + struct.pack(">I", zlib.crc32(body))

    with open(path, "wb") as file:
        file.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)) +
                   chunk(b"IDAT", zlib.compress(b"".join(b"\0" + bytes(row) for row in rows), 1)) + chunk(b"IEND", b""))


def scene(rng, empty=False):
    """Width, height, rows and boxes (id, left, top, width, height) of a picture."""
    width, height = rng.randint(90, 130), rng.randint(80, 120)
    rows = [bytearray(rng.randbytes(3 * width).translate(bytes(90 + v // 4 for v in range(256)))) for _ in range(height)]
    boxes = []
    for left in () if empty else (2, width // 2 + 2):
        number = rng.choice(list(CLASSES))
        w, h = rng.randint(24, width // 2 - 6), rng.randint(24, height - 10)
        top = rng.randint(1, height - h - 1)
        for y in range(top, top + h):
            rows[y][3 * left:3 * (left + w)] = bytes(CLASSES[number][1]) * w
        boxes.append((number, left, top, w, h))
    return width, height, rows, boxes


def make_scenes(folder, count, seed, first=1):
    """Pictures in folder/NUMBER.png; returns (number, width, height, boxes) of each. The last is empty."""
    os.makedirs(folder, exist_ok=True)
    rng, made = random.Random(seed), []
    for i in range(first, first + count):
        width, height, rows, boxes = scene(rng, empty=i == first + count - 1)
        write_png(f"{folder}/{i:06}.png", width, height, rows)
        made.append((i, width, height, boxes))
    return made


def coco(made):
    annotations = [{"id": 0, "image_id": i, "category_id": b[0], "bbox": list(b[1:]), "area": b[3] * b[4], "iscrowd": 0}
                   for i, _, _, boxes in made for b in boxes]
    for number, annotation in enumerate(annotations):
        annotation["id"] = number + 1
    return {"images": [{"id": i, "file_name": f"{i:06}.png", "width": w, "height": h} for i, w, h, _ in made],
            "annotations": annotations,
            "categories": [{"id": number, "name": name} for number, (name, _) in CLASSES.items()]}


def write_coco(path, made):
    with open(path, "w") as file:
        json.dump(coco(made), file, indent=1)


def write_voc(folder, made):
    """XML files beside the pictures."""
    for i, width, height, boxes in made:
        objects = "".join(
            f"<object><name>{CLASSES[b[0]][0]}</name><difficult>0</difficult><bndbox><xmin>{b[1] + 1}</xmin>"
            f"<ymin>{b[2] + 1}</ymin><xmax>{b[1] + b[3]}</xmax><ymax>{b[2] + b[4]}</ymax></bndbox></object>\n" for b in boxes)
        with open(f"{folder}/{i:06}.xml", "w") as file:
            file.write(f"<annotation><filename>{i:06}.png</filename><size><width>{width}</width><height>{height}</height>"
                       f"<depth>3</depth></size>\n{objects}</annotation>\n")


def write_yolo(folder, parts):
    """folder/data.yaml, with images/PART (made by make_scenes) and labels/PART."""
    numbers = list(CLASSES)
    for part, made in parts.items():
        os.makedirs(f"{folder}/labels/{part}", exist_ok=True)
        for i, width, height, boxes in made:
            with open(f"{folder}/labels/{part}/{i:06}.txt", "w") as file:
                for number, left, top, w, h in boxes:
                    file.write(f"{numbers.index(number)} {(left + w / 2) / width} {(top + h / 2) / height} "
                               f"{w / width} {h / height}\n")
    with open(f"{folder}/data.yaml", "w") as file:
        file.write("path: .\n" + "".join(f"{part}: images/{part}\n" for part in parts) +
                   "names:\n" + "".join(f"  {k}: {CLASSES[n][0]}\n" for k, n in enumerate(numbers)))
