"""Runs scripts/progress on fake builds and downloads: progress.py PATH_OF_PROGRESS WORK_FOLDER"""

import os
import pty
import subprocess
import sys
import unittest

PROGRESS, FOLDER = sys.argv[1:3]
LOG = os.path.join(FOLDER, "log")
BUILD = ["sh", "-c", "printf '[1/3] Building a\\n[2/3] Building b\\n[3/3] Linking\\n'"]


def run(*arguments):
    return subprocess.run([PROGRESS, *arguments], capture_output=True, text=True)


class Progress(unittest.TestCase):
    def test_a_log_has_a_line_each_tenth_of_the_way(self):
        shown = run("build", LOG, *BUILD).stdout.splitlines()
        steps = [f"build: [{n}/3]" for n in (1, 2, 3)]
        self.assertEqual(shown[:-1], ["build: starting", *steps])
        self.assertRegex(shown[-1], r"^build: 3 steps in \d+ s$")
        with open(LOG) as log:
            self.assertEqual(log.read().count("Building"), 2)

    def test_a_terminal_has_one_line_that_is_rewritten(self):
        terminal, end = pty.openpty()
        environment = dict(os.environ, TERM="xterm", COLUMNS="80")
        subprocess.run([PROGRESS, "build", LOG, *BUILD], stdout=end, env=environment, check=True)
        shown = ""
        while "\n" not in shown:  # what was written arrives in parts
            shown += os.read(terminal, 10000).decode()
        self.assertEqual(shown.count("\n"), 1)
        self.assertIn("\rbuild: [2/3]\x1b[K\rbuild: [3/3]", shown)

    def test_a_failure_shows_the_log_and_keeps_the_exit_code(self):
        result = run("build", LOG, "sh", "-c", "echo '[1/3] a'; echo 'error: no such type'; exit 7")
        self.assertEqual(result.returncode, 7)
        self.assertIn("build: failed", result.stdout)
        self.assertIn("error: no such type", result.stderr)

    def test_a_download_shows_its_megabytes(self):
        name, seen = os.path.join(FOLDER, "fetched"), os.path.join(FOLDER, "seen")
        os.makedirs(name, exist_ok=True)
        for expected, line in (8, "fetch: 4 of 8 MB"), (4, "fetch: 4 MB fetched, unpacking"):
            if os.path.exists(seen):
                os.remove(seen)
            os.mkfifo(seen)
            # It fetches, and goes on until its size was shown.
            fetch = f"head -c 4000000 /dev/zero >{name}/wheel; read line <{seen}"
            command = [PROGRESS, "--fetch", f"{name}:{expected}", "fetch", LOG, "sh", "-c", fetch]
            with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
                while line not in process.stdout.readline():
                    self.assertIsNone(process.poll(), f"'{line}' was not shown")
                with open(seen, "w") as file:
                    file.write("seen\n")
                self.assertIn("done", process.stdout.read())


if __name__ == "__main__":
    os.makedirs(FOLDER, exist_ok=True)
    unittest.main(argv=sys.argv[:1])
