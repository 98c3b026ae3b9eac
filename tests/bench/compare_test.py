"""compare_test.py COMPARE: bench/compare.py with peers that run, fail or are not there."""

import os
import pathlib
import runpy
import subprocess
import sys
import tempfile
import unittest

COMPARE = sys.argv.pop(1)
REPORT = """#!{python}
print('{{"samples_per_s": {rate}, "startup_s": 1.5, "peak_rss_mb": 200, "sync_ms": 1}}')
"""


class Compare(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.step = self.write("step", REPORT.format(python=sys.executable, rate=300))
        self.step.chmod(0o755)

    def write(self, name, text):
        path = self.folder / name
        path.write_text(text)
        return path

    def run_compare(self, workloads=("mlp", "chat"), **environment):
        command = [sys.executable, COMPARE, "--peers", str(self.folder), "--step", str(self.step)]
        command += ["--workloads", *workloads, "--rounds", "2"]
        inherited = {key: value for key, value in os.environ.items() if not key.endswith("_PYTHON")}
        return subprocess.run(
            command, capture_output=True, text=True, env={**inherited, **environment}
        )

    def test_leaves_out_peers_that_are_not_installed_and_says_how_to_install_them(self):
        self.write("peer_ddp.py", REPORT.format(python=sys.executable, rate=200))
        self.write("peer_jax.py", "import a_package_that_nobody_has")
        result = self.run_compare()
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("| mlp | ddp | 1.500 | 1.000 | 1.000 |", result.stdout)
        self.assertIn("| chat | ddp | 1.500 |", result.stdout)
        self.assertEqual(result.stdout.count("|\n"), 4)
        self.assertIn(
            "jax is left out: ModuleNotFoundError: No module named 'a_package_that_nobody_has'",
            result.stderr,
        )
        self.assertIn("pip install tensorflow-cpu jax optax numpy", result.stderr)
        self.assertEqual(result.stderr.count("jax is left out"), 1)
        self.assertIn("tf-mirrored is left out: ", result.stderr)

    def test_shows_lockstep_alone_where_no_peer_is_installed(self):
        result = self.run_compare(PT_PYTHON="/nowhere/python", TF_PYTHON="/nowhere/python")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("| chat | none: Lockstep's own | 300.0 | 1.50 s | 200 MB |", result.stdout)
        self.assertIn(
            "ddp is left out: /nowhere/python: No such file or directory. It runs with the Python "
            "that PT_PYTHON names; there: pip install torch numpy",
            result.stderr,
        )

    def test_leaves_out_peers_that_do_not_have_a_workload_and_keeps_them_for_the_next(self):
        for script in ("peer_ddp.py", "peer_tf.py", "peer_tf1_towers.py", "peer_jax.py"):
            self.write(script, REPORT.format(python=sys.executable, rate=200))
        result = self.run_compare(workloads=("ssd", "mlp"))
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("| ssd | ddp | 1.500 |", result.stdout)
        self.assertNotIn("| ssd | jax |", result.stdout)
        self.assertIn("jax is left out: it has no workload ssd\n", result.stderr)
        self.assertIn("| mlp | jax | 1.500 |", result.stdout)

    def test_knows_the_workloads_and_scripts_of_the_peers_beside_it(self):
        peers = pathlib.Path(COMPARE).parent / "peers"
        compare = runpy.run_path(COMPARE)
        run_all = runpy.run_path(str(peers / "run_all.py"))
        self.assertCountEqual(compare["WORKLOADS"], run_all["WORKLOADS"])
        self.assertEqual(compare["PYTORCH_ONLY"], run_all["PYTORCH_ONLY"])
        for _, script in compare["PEERS"].values():
            self.assertTrue((peers / script).is_file(), script)

    def test_fails_if_lockstep_does_not_run(self):
        self.step = self.folder / "missing"
        result = self.run_compare()
        self.assertEqual(result.returncode, 1)
        self.assertIn("did not run", result.stderr)


if __name__ == "__main__":
    unittest.main()
