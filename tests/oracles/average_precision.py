"""Compares average precision with pycocotools' and with VOC's rules, on sets made to be nasty.

    PYTHONPATH=<where pycocotools is> python3 tests/oracles/average_precision.py <the program average_precision_of>

All numbers must be within 1e-9. Written for pycocotools 2.0.11 of PyPI.
"""

import contextlib
import io
import json
import pathlib
import random
import subprocess
import sys
import tempfile

import numpy
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval

LIMIT = 1e-9


def box(generator, size):
    """Of whole pixels often, so that overlaps are equal and lie on thresholds."""
    wide, high = (generator.choice([8, 20, 32, 50, 96, 200]) for _ in range(2))
    left, top = generator.randrange(size), generator.randrange(size)
    if generator.random() < 0.4:
        return [left + generator.random(), top + generator.random(), wide * generator.random(), high]
    return [left, top, wide, high]


def moved(generator, old):
    """As a detector gets it: not quite, or exactly."""
    if generator.random() < 0.2:
        return list(old)
    if generator.random() < 0.3:  # overlaps on thresholds, or next to them by rounding
        return [old[0], old[1], old[2], old[3] * generator.choice([0.5, 0.75, 0.9, 0.95])]
    return [side + generator.gauss(0, 0.1) * (old[2] + old[3]) / 2 for side in old[:2]] + [
        side * generator.uniform(0.7, 1.3) for side in old[2:]]


def score(generator, grain):
    return generator.randrange(grain + 1) / grain if grain else generator.random()


def picture(generator, number, classes, empty, grain, most):
    size = generator.choice([100, 300])
    labels = [label for label in range(classes) if label not in empty]
    truth, found = [], []
    for _ in range(generator.choice([0, 1, 3, 8, 15])):
        sides = box(generator, size)
        area = generator.choice([sides[2] * sides[3]] * 4 + [1024, 9216, 0, 1023.5, 1e10, 2e10])
        truth.append([*sides, generator.choice(labels), generator.random() < 0.15,
                      generator.random() < 0.15, area])
        if generator.random() < 0.2:
            truth.append([*sides, generator.choice(labels), generator.random() < 0.3, False, area])
    for thing in truth:
        for _ in range(generator.choice([0, 1, 1, 2, 4])):
            label = thing[4] if generator.random() < 0.8 else generator.randrange(classes)
            found.append([*moved(generator, thing[:4]), label, score(generator, grain)])
    for _ in range(generator.choice([0, 0, 2, most])):
        found.append([*box(generator, size), generator.randrange(classes), score(generator, grain)])
    generator.shuffle(found)
    return {"id": number, "truth": truth, "found": found}


def picture_set(generator):
    classes = generator.choice([1, 2, 5])
    empty = {label for label in range(classes - 1) if generator.random() < 0.3}
    grain = generator.choice([0, 3, 20])
    most = generator.choice([5, 20, 150 * classes])
    ids = generator.sample(range(1000), generator.choice([1, 4, 12]))
    return {"classes": classes,
            "pictures": [picture(generator, number, classes, empty, grain, most) for number in ids]}


def coco_numbers(pictures):
    """COCO's twelve, and for each class AP, AP50 and AR100."""
    annotations, results = [], []
    for one in pictures["pictures"]:
        for *sides, label, crowd, _, area in one["truth"]:
            annotations.append({"id": len(annotations) + 1, "image_id": one["id"], "category_id": label,
                                "bbox": sides, "area": area, "iscrowd": int(crowd)})
        for *sides, label, value in one["found"]:
            results.append({"image_id": one["id"], "category_id": label, "bbox": sides, "score": value})
    truth = COCO()
    truth.dataset = {"images": [{"id": one["id"]} for one in pictures["pictures"]],
                     "categories": [{"id": label} for label in range(pictures["classes"])],
                     "annotations": annotations, "info": {}}
    with contextlib.redirect_stdout(io.StringIO()):
        truth.createIndex()
        if results:
            found = truth.loadRes(results)
        else:  # which loadRes refuses
            found = COCO()
            found.dataset = {**truth.dataset, "annotations": []}
            found.createIndex()
        judge = COCOeval(truth, found, "bbox")
        judge.evaluate()
        judge.accumulate()
        judge.summarize()
    precision, recall = judge.eval["precision"][:, :, :, 0, 2], judge.eval["recall"][:, :, 0, 2]
    by_class = [[precision[:, :, label].mean(), precision[0, :, label].mean(), recall[:, label].mean()]
                for label in range(pictures["classes"])]
    return list(judge.stats), by_class


def overlap(a, b):
    wide = min(a[0] + a[2], b[0] + b[2]) - max(a[0], b[0])
    high = min(a[1] + a[3], b[1] + b[3]) - max(a[1], b[1])
    if wide <= 0 or high <= 0:
        return 0
    return wide * high / (a[2] * a[3] + b[2] * b[3] - wide * high)


def voc_numbers(pictures, label):
    """VOC's average precision of a class, of 2007 and of 2010; -1: nothing to be found."""
    ordered = sorted(pictures["pictures"], key=lambda one: one["id"])
    truth = {one["id"]: [thing for thing in one["truth"] if thing[4] == label] for one in ordered}
    boxes = sum(not (thing[5] or thing[6]) for things in truth.values() for thing in things)
    found = [(one["id"], detection) for one in ordered for detection in one["found"] if detection[4] == label]
    found.sort(key=lambda entry: -entry[1][5])
    right, wrong, taken = [], [], set()
    for number, detection in found:
        overlaps = [overlap(detection, thing) for thing in truth[number]]
        place = int(numpy.argmax(overlaps)) if overlaps else 0
        hit = bool(overlaps) and overlaps[place] > 0.5
        ignored = hit and (truth[number][place][5] or truth[number][place][6])
        good = hit and (number, place) not in taken
        right.append(bool(good and not ignored))
        wrong.append(not good and not ignored)
        if hit and not ignored:
            taken.add((number, place))
    if not boxes:
        return [-1, -1]
    right, wrong = numpy.cumsum(right), numpy.cumsum(wrong)
    recall = right / boxes
    precision = right / numpy.maximum(right + wrong, numpy.finfo(numpy.float64).eps)
    of2007 = 0
    for least in numpy.arange(0.0, 1.1, 0.1):
        reached = precision[recall >= least]
        of2007 += (reached.max() if len(reached) else 0) / 11
    recall = numpy.concatenate(([0.0], recall, [1.0]))
    precision = numpy.concatenate(([0.0], precision, [0.0]))
    for i in range(len(precision) - 1, 0, -1):
        precision[i - 1] = max(precision[i - 1], precision[i])
    steps = numpy.where(recall[1:] != recall[:-1])[0]
    return [of2007, ((recall[steps + 1] - recall[steps]) * precision[steps + 1]).sum()]


def counts(pictures, label):
    things = [[thing for thing in one["truth"] if thing[4] == label and not thing[5]]
              for one in pictures["pictures"]]
    return [sum(map(len, things)), sum(map(bool, things))]


def expected(pictures):
    twelve, by_class = coco_numbers(pictures)
    voc = [voc_numbers(pictures, label) for label in range(pictures["classes"])]
    known = [pair for pair in voc if pair[0] >= 0]
    means = [sum(column) / len(known) for column in zip(*known)] if known else [-1, -1]
    return [twelve, means] + [[*coco, *pair, *counts(pictures, label)]
                              for label, (coco, pair) in enumerate(zip(by_class, voc))]


def printed(program, folder, pictures):
    path = pathlib.Path(folder) / "set.json"
    path.write_text(json.dumps(pictures))
    lines = subprocess.run([program, path], check=True, capture_output=True, text=True).stdout.splitlines()
    return [[float(number) for number in line.split()] for line in lines]


def main():
    generator = random.Random(15)
    sets = [picture_set(generator) for _ in range(120)]
    for blank in ("truth", "found"):
        sets.append(picture_set(generator))
        for one in sets[-1]["pictures"]:
            one[blank] = []
    values, worst = set(), 0
    with tempfile.TemporaryDirectory() as folder:
        for number, pictures in enumerate(sets):
            found = printed(sys.argv[1], folder, pictures)
            for line, (ours, theirs) in enumerate(zip(found, expected(pictures), strict=True)):
                far = max(abs(a - b) for a, b in zip(ours, theirs))
                if not far <= LIMIT:
                    sys.exit(f"set {number}, line {line}: {ours}, not {theirs}\n{json.dumps(pictures)}")
                worst = max(worst, far)
            values.update(found[0])
    if len(values) < 500:
        sys.exit(f"only {len(values)} different values: the sets say little")
    print(f"average precision equals pycocotools' and VOC's on {len(sets)} sets, "
          f"{len(values)} different values, to {worst:.1g}")


main()
