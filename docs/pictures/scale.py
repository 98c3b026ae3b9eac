#!/usr/bin/env python3
"""Makes docs/scale.svg and the table of docs/performance.md from what bench/scale prints:

    for w in chat mobilenet ssd; do build/release/bench/scale $w; done > scale.jsonl
    python3 docs/pictures/scale.py scale.jsonl
"""

import json
import math
import os
import sys

from svg import Svg

WIDTH, HEIGHT, GAP, TOP, LEFT = 250, 230, 36, 96, 60
KINDS = {"weak": ("#4a86cf", "the batch of a device stays"), "strong": ("#cf6a4a", "the global batch stays")}


def efficiencies(rows):
    """By machines: where messages of a call are under way together, and one by one."""
    one = rows[0]
    samples = [row["rows_a_device"] * row["machines"] for row in rows]
    return [(row["machines"],
             *(count / row[key] / (samples[0] / one[key]) / row["machines"]
               for key in ("step_ms", "step_one_by_one_ms")))
            for row, count in zip(rows, samples)]


def draw(all_rows):
    workloads = list(dict.fromkeys(row["workload"] for row in all_rows))
    picture = Svg(LEFT + len(workloads) * (WIDTH + GAP) + 10, TOP + HEIGHT + 62,
                  "Simulated: efficiency on 1 to 64 machines of 8 GPUs",
                  "Efficiency against machines for chat, mobilenet and ssd, with a constant batch of a device "
                  "and with a constant global batch.")
    picture.text(LEFT, 30, "Simulated, not measured: efficiency on 1 to 64 machines of 8 GPUs", "head")
    for i, (color, words) in enumerate(KINDS.values()):
        picture.parts.append(f'<rect x="{LEFT + i * 220}" y="46" width="18" height="4" fill="{color}"/>')
        picture.text(LEFT + 26 + i * 220, 52, words, "small")
    picture.text(LEFT + 460, 52, "line: messages together; shade: down to one by one", "small")
    for number, workload in enumerate(workloads):
        left = LEFT + number * (WIDTH + GAP)
        place = lambda machines, value: (left + math.log2(machines) / 6 * WIDTH, TOP + HEIGHT * (1 - value))  # noqa: E731
        picture.text(left + WIDTH / 2, TOP - 12, workload, "name mid")
        for tick in (0, 0.25, 0.5, 0.75, 1):
            y = place(1, tick)[1]
            picture.parts.append(f'<line x1="{left}" y1="{y:.1f}" x2="{left + WIDTH}" y2="{y:.1f}" stroke="#d5dbe5"/>')
            if number == 0:
                picture.text(left - 8, y + 4, f"{tick:.2f}", "small right")
        for machines in (1, 2, 4, 8, 16, 32, 64):
            picture.text(place(machines, 0)[0], TOP + HEIGHT + 18, str(machines), "small mid")
        for kind, (color, _) in KINDS.items():
            points = efficiencies([r for r in all_rows if r["workload"] == workload and r["scaling"] == kind])
            upper = [place(m, together) for m, together, _ in points]
            lower = [place(m, one_by_one) for m, _, one_by_one in points]
            text = lambda line: " ".join(f"{x:.1f},{y:.1f}" for x, y in line)  # noqa: E731
            picture.parts.append(f'<polygon points="{text(upper + lower[::-1])}" fill="{color}" opacity="0.18"/>')
            picture.parts.append(f'<polyline points="{text(upper)}" fill="none" stroke="{color}" stroke-width="2"/>')
    picture.text(LEFT + len(workloads) * (WIDTH + GAP) / 2, TOP + HEIGHT + 42, "machines", "small mid")
    picture.save(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../scale.svg"))


def table(all_rows):
    print("| workload | batch | machines | rows a device | step | passes | exchange not hidden | talk | efficiency |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    for workload in dict.fromkeys(row["workload"] for row in all_rows):
        for kind in KINDS:
            rows = [r for r in all_rows if r["workload"] == workload and r["scaling"] == kind]
            for row, (_, together, one_by_one) in zip(rows, efficiencies(rows)):
                if row["machines"] not in (1, 8, 64):
                    continue
                print(f"| {workload} | {kind} | {row['machines']} | {row['rows_a_device']} | {row['step_ms']:.1f} "
                      f"| {row['passes_ms']:.1f} | {row['exchange_ms']:.1f} | {row['talk_ms']:.1f} "
                      f"| {together:.2f} ({one_by_one:.2f}) |")


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    draw(rows)
    table(rows)


if __name__ == "__main__":
    main()
