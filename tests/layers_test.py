"""layers_test.py CHECK_LAYERS: runs the check on small trees of sources and expects what it finds."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

CHECK = sys.argv.pop()


class Layers(unittest.TestCase):
    def found(self, files):
        """What the check says of a tree of these files; empty: it passes."""
        with tempfile.TemporaryDirectory() as root:
            for layer in ("base", "arena", "device", "sim", "kernels", "strategy", "text"):
                (pathlib.Path(root) / "src" / layer).mkdir(parents=True)
            for name, content in files.items():
                path = pathlib.Path(root) / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(content + "\n")
            result = subprocess.run([sys.executable, CHECK, root], capture_output=True, text=True)
            self.assertEqual(result.returncode, 1 if result.stderr else 0)
            return result.stderr

    def test_includes_that_point_down_pass(self):
        self.assertEqual(self.found({
            "src/strategy/a.cpp": '#include <lockstep/sim.h>\n#include "device/b.h"',
            "src/text/a.cpp": '#include <lockstep/mirrored.h>\n#include "base/file.h"',
            "src/nn/a.cpp": "#include <lockstep/kernels/products.h>",
            "include/lockstep/mirrored.h": "#include <lockstep/device.h>",
            "include/lockstep/lockstep.h": "#include <lockstep/mirrored.h>",
            "apps/a.cpp": "#include <lockstep/text/pairs.h>"}), "")

    def test_a_private_header_of_a_layer_above_is_found(self):
        self.assertIn("src/device/a.cpp: device may not use sim/machine.h",
                      self.found({"src/device/a.cpp": '#include "sim/machine.h"'}))

    def test_a_public_header_of_a_layer_above_is_found(self):
        self.assertIn("src/device/a.cpp: device may not use lockstep/sim.h",
                      self.found({"src/device/a.cpp": "#include <lockstep/sim.h>"}))

    def test_a_header_of_a_layer_beside_is_found(self):
        self.assertIn("device may not use arena/seats.h",
                      self.found({"src/device/a.h": '#include "arena/seats.h"'}))

    def test_a_public_header_that_points_up_is_found(self):
        self.assertIn("include/lockstep/device.h: device may not use lockstep/mirrored.h",
                      self.found({"include/lockstep/device.h": "#include <lockstep/mirrored.h>"}))

    def test_a_public_header_that_uses_a_private_one_is_found(self):
        self.assertIn("a public header may not use device/b.h",
                      self.found({"include/lockstep/device.h": '#include "device/b.h"'}))

    def test_models_and_texts_may_not_use_private_kernels(self):
        for layer in ("nn", "text"):
            self.assertIn(f"{layer} may use public headers only, not kernels/loops.h",
                          self.found({f"src/{layer}/a.cpp": '#include "kernels/loops.h"'}))

    def test_a_header_and_a_folder_of_no_layer_are_found(self):
        self.assertIn("of no layer", self.found({"include/lockstep/odd.h": ""}))
        self.assertIn("src/odd is no layer", self.found({"src/odd/a.cpp": ""}))

    def test_programs_may_not_use_private_headers(self):
        self.assertIn("apps/a.cpp: may use public headers only, not device/b.h",
                      self.found({"apps/a.cpp": '#include "device/b.h"'}))

    def test_printing_below_apps_is_found(self):
        self.assertIn("src/text/a.cpp:1: only apps/ may print",
                      self.found({"src/text/a.cpp": "void f() { std::cout << 1; }"}))


if __name__ == "__main__":
    unittest.main()
