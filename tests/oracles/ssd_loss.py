"""Compares matching, mining, losses and detections with a plain program, on cases made to be nasty.

    python3 tests/oracles/ssd_loss.py <the program ssd_of>

The rules are those of TensorFlow's Object Detection API, in loops and in double precision. Boxes, and
the losses that mining sorts by, are float32. Matches must be equal, numbers within 1e-9; codes and
boxes, which are float32, within 1e-5.
"""

import json
import math
import random
import struct
import subprocess
import sys

CLASSES = 3


def float32(number):
    return struct.unpack("f", struct.pack("f", number))[0]


def overlap(a, b):
    height, width = min(a[2], b[2]) - max(a[0], b[0]), min(a[3], b[3]) - max(a[1], b[1])
    if height <= 0 or width <= 0:
        return 0
    area = [(box[2] - box[0]) * (box[3] - box[1]) for box in (a, b)]
    return height * width / (area[0] + area[1] - height * width)


def match(anchors, things, least, force):
    overlaps = [[overlap(anchor, thing) for anchor in anchors] for thing in things]
    result = []
    for a in range(len(anchors)):
        best, number = max(((row[a], -i) for i, row in enumerate(overlaps)), default=(0, 0))
        result.append(-number if best > 0 and best >= least else -1)
    if force:
        for i in reversed(range(len(things))):  # the lowest number is written last
            best, number = max((value, -a) for a, value in enumerate(overlaps[i]))
            if best > 0:
                result[-number] = i
    return result


def centred(box):
    height, width = box[2] - box[0], box[3] - box[1]
    return box[0] + height / 2, box[1] + width / 2, height, width


def encode(box, anchor):
    y, x, height, width = centred(box)
    anchor_y, anchor_x, anchor_height, anchor_width = centred(anchor)
    height, width, anchor_height, anchor_width = (
        side + 1e-8 for side in (height, width, anchor_height, anchor_width))
    return [10 * (y - anchor_y) / anchor_height, 10 * (x - anchor_x) / anchor_width,
            5 * math.log(height / anchor_height), 5 * math.log(width / anchor_width)]


def decode(code, anchor):
    y, x, height, width = centred(anchor)
    y, x = code[0] / 10 * height + y, code[1] / 10 * width + x
    height, width = math.exp(code[2] / 5) * height, math.exp(code[3] / 5) * width
    return [float32(edge) for edge in (y - height / 2, x - width / 2, y + height / 2, x + width / 2)]


def suppress(boxes, scores, most_overlap, most):
    boxes = [[min(box[0], box[2]), min(box[1], box[3]), max(box[0], box[2]), max(box[1], box[3])] for box in boxes]
    kept = []
    for i in sorted(range(len(boxes)), key=lambda i: (-scores[i], i)):
        if len(kept) < most and all(overlap(boxes[i], boxes[k]) <= most_overlap for k in kept):
            kept.append(i)
    return kept


def mine(losses, boxes, labels, how):
    kept = suppress(boxes, losses, how["most_overlap"], how["most"])
    positives = sum(labels[i] > 0 for i in kept)
    most = max(how["min_negatives"], math.floor(how["negatives"] * positives))
    negatives = [i for i in kept if labels[i] == 0]
    return [i for i in kept if labels[i] > 0] + negatives[:most]


def sigmoid(x):
    return 1 / (1 + math.exp(-x)) if x > 0 else math.exp(x) / (1 + math.exp(x))


def cross_entropy(logit, wanted):
    return max(logit, 0) - logit * wanted + math.log1p(math.exp(-abs(logit)))


def focal(logit, wanted, alpha, gamma):
    right = sigmoid(logit) if wanted else sigmoid(-logit)
    return (alpha if wanted else 1 - alpha) * (1 - right) ** gamma * cross_entropy(logit, wanted)


def class_losses(case, labels, loss):
    def wanted(k, label):
        return int(k == label and not (k == 0 and case["background_as_zeros"]))

    return [sum(loss(logit, wanted(k, label)) for k, logit in enumerate(logits))
            for logits, label in zip(case["logits"], labels)]


def huber(x):
    return x * x / 2 if abs(x) <= 1 else abs(x) - 0.5


def totals(classes, places, labels, counted):
    class_sum, place_sum = (sum(losses[i] for i in counted) for losses in (classes, places))
    positives = sum(labels[i] > 0 for i in counted)
    return {"classification": class_sum, "localization": place_sum, "sum": class_sum + place_sum,
            "weight": sum(label > 0 for label in labels), "positives": positives,
            "negatives": len(counted) - positives}


def detections(case):
    how, found = case["detection"], []
    boxes = [decode([float32(number) for number in code], anchor)
             for code, anchor in zip(case["codes"], case["anchors"])]
    for label in range(CLASSES):
        scores = [float32(sigmoid(float32(logits[label + 1]))) for logits in case["logits"]]
        passing = [i for i, score in enumerate(scores) if score > how["least_score"]]
        kept = suppress([boxes[i] for i in passing], [scores[i] for i in passing], how["most_overlap"],
                        how["most_per_class"])
        found += [(label, scores[passing[i]], boxes[passing[i]]) for i in kept]
    found.sort(key=lambda one: -one[1])  # stable: lower classes first
    result = []
    for label, score, box in found:
        top, left, bottom, right = (min(max(edge, 0), 1) for edge in box)
        if bottom > top and right > left:
            result.append([label, score, left * 640, top * 480, (right - left) * 640, (bottom - top) * 480])
    return result[: how["most"]]


def expected(case):
    anchors, things = case["anchors"], case["things"]
    matches = match(anchors, things, case["overlap"], case["force"])
    labels = [case["labels"][thing] + 1 if thing >= 0 else 0 for thing in matches]
    codes = [encode(things[thing], anchor) if thing >= 0 else [0] * 4 for thing, anchor in zip(matches, anchors)]
    # The targets that training gets are float32.
    places = [sum(huber(found - float32(wanted)) for found, wanted in zip(*both)) if label > 0 else 0
              for both, label in zip(zip(case["codes"], codes), labels)]
    classes = class_losses(case, labels, cross_entropy)
    boxes = [decode([float32(number) for number in code], anchor) for code, anchor in zip(case["codes"], anchors)]
    mined = mine([float32(loss) for loss in classes], boxes, labels, case["mining"])
    easy = class_losses(case, labels, lambda logit, wanted: focal(logit, wanted, case["alpha"], case["gamma"]))
    return {"match": matches, "labels": labels, "codes": codes, "mined": totals(classes, places, labels, mined),
            "focal": totals(easy, places, labels, range(len(anchors))), "detections": detections(case)}


def edges(generator, steps):
    """A box on a coarse grid, so that overlaps are often equal; some have no area or swapped edges."""
    box = [generator.randrange(-1, steps + 2) / steps for _ in range(4)]
    if generator.random() < 0.85:
        box = [min(box[0], box[2]), min(box[1], box[3]), max(box[0], box[2]), max(box[1], box[3])]
    return [float32(edge) for edge in box]


def anchor_boxes(generator, count):
    boxes = []
    while len(boxes) < count:
        box = edges(generator, generator.choice([4, 10]))
        if box[0] < box[2] and box[1] < box[3]:  # anchors always have an area
            boxes.append(generator.choice(boxes) if boxes and generator.random() < 0.2 else box)
    return boxes


def random_case(generator):
    count = generator.choice([1, 7, 40, 120])
    anchors = anchor_boxes(generator, count)
    things = [generator.choice(anchors) if generator.random() < 0.3 else edges(generator, 8)
              for _ in range(generator.choice([0, 1, 2, 6, 20]))]
    coarse = generator.random() < 0.5  # equal losses and equal predicted boxes

    def number(spread):
        return float(generator.choice([-2, -1, 0, 1, 2])) if coarse else generator.gauss(0, spread)

    codes = [[0.0] * 4 if generator.random() < 0.3 else [number(3) for _ in range(4)] for _ in anchors]
    return {
        "anchors": anchors, "things": things, "labels": [generator.randrange(CLASSES) for _ in things],
        "overlap": generator.choice([0.5, 0.5, 0.3, 0.7]), "force": generator.random() < 0.8,
        "codes": codes, "logits": [[number(2) for _ in range(CLASSES + 1)] for _ in anchors],
        "mining": {"most_overlap": generator.choice([0.99, 0.5]), "negatives": generator.choice([3, 1, 2.5]),
                   "min_negatives": generator.choice([0, 3]), "most": generator.choice([3000, 20])},
        "alpha": generator.choice([0.25, 0.75]), "gamma": generator.choice([2, 0.5]),
        "background_as_zeros": generator.random() < 0.5,
        "detection": {"least_score": generator.choice([1e-8, 0.5]), "most_overlap": generator.choice([0.6, 0.3]),
                      "most_per_class": generator.choice([100, 4]), "most": generator.choice([100, 9])},
    }  # fmt: skip


def differs(wanted, found, tolerance):
    """Where two results differ, in words; None: nowhere."""
    if isinstance(wanted, dict):
        parts = [(key, wanted[key], found[key]) for key in wanted]
    elif isinstance(wanted, list):
        if len(wanted) != len(found):
            return f" has {len(found)} instead of {len(wanted)}"
        parts = [(i, *both) for i, both in enumerate(zip(wanted, found))]
    else:
        close = abs(wanted - found) <= tolerance * max(1, abs(wanted))
        return None if close else f" is {found} instead of {wanted}"
    for key, *both in parts:
        if problem := differs(*both, 1e-5 if key in ("codes", "detections") else tolerance):
            return f" {key}{problem}"
    return None


def main():
    generator = random.Random(15)
    cases = [random_case(generator) for _ in range(400)]
    output = subprocess.run([sys.argv[1]], input=json.dumps(cases), check=True, capture_output=True, text=True).stdout
    positives = detected = without = 0
    for number, (case, found) in enumerate(zip(cases, json.loads(output), strict=True)):
        wanted = expected(case)
        if problem := differs(wanted, found, 1e-9):
            sys.exit(f"case {number}:{problem}\n{json.dumps(case)}")
        positives += wanted["mined"]["positives"]
        detected += len(wanted["detections"])
        without += wanted["mined"]["weight"] == 0
    if positives < 1000 or detected < 1000 or without < 20:
        sys.exit(f"only {positives} positives, {detected} detections, {without} cases without a match")
    print(f"equal on {len(cases)} cases: {positives} positives, {detected} detections, {without} without a match")


main()
