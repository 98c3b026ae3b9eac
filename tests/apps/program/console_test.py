"""What a training shows: a line that is rewritten on a terminal, plain lines elsewhere, JSON."""

import fcntl
import os
import pty
import re
import struct
import subprocess
import termios

import support
from run_files import steps_of
from support import ProgramTest


class Console(ProgramTest):
    # Evaluated one image at a time, so that an evaluation takes long enough to be seen.
    data_sizes = {"train": 256, "test": 1500}
    slow = ["data.test_batch=1", "train.report_every=5", "evaluate.every_steps=60"]

    def on_terminal(self, arguments, keys=None, columns=100):
        """Runs on a terminal of its own. When `keys[0]` has been shown, types `keys[1]`."""
        terminal, program_side = pty.openpty()
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        process = subprocess.Popen(
            [support.PROGRAM, *arguments], cwd=self.folder, stdin=program_side, stdout=program_side,
            stderr=program_side, start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
        os.close(program_side)
        shown = b""
        while True:
            try:
                piece = os.read(terminal, 4096)
            except OSError:  # the other side is closed
                break
            if not piece:
                break
            shown += piece
            if keys and re.search(keys[0], shown):
                os.write(terminal, keys[1])
                keys = None
        os.close(terminal)
        return process.wait(support.TIMEOUT), shown.decode()

    def test_a_terminal_has_a_line_that_is_rewritten_with_step_loss_speed_and_time_left(self):
        code, shown = self.on_terminal(
            self.train_arguments(self.run_path(), 120, sets=self.slow, log="text"))
        self.assertEqual(0, code, shown)
        rewritten = shown.split("\r\x1b[K")
        progress = [line for line in rewritten if re.match(r"\[#*\.*\] +\d+ %  step \d+/120  epoch \d+/15  loss", line)]
        self.assertTrue(progress, shown)
        self.assertRegex(progress[0], r" 1 %  step 1/120  epoch 1/15  loss \d+\.\d{4}  \d+ s left  \d+ samples/s$",
                         "all of it after the first step")
        self.assertNotIn("\n", progress[0], "the progress line is written over, not ended")

    def test_a_terminal_shows_an_evaluation_while_it_runs_and_keeps_its_result(self):
        code, shown = self.on_terminal(
            self.train_arguments(self.run_path(), 60, sets=self.slow, log="text"))
        self.assertEqual(0, code, shown)
        self.assertRegex(shown, r"\r\x1b\[Kevaluates test \[#*\.*\] \d+ of 1500 batches")
        self.assertRegex(shown, r"(?m)step 60  test: accuracy \d\.\d{4}  loss \d+\.\d{4}.*\r?$")

    def test_a_narrow_terminal_gets_lines_that_fit(self):
        code, shown = self.on_terminal(
            self.train_arguments(self.run_path(), 60, sets=self.slow, log="text"), columns=30)
        self.assertEqual(0, code, shown)
        for line in re.findall(r"\r\x1b\[K([^\r\n]*)(?=\r\x1b)", shown):
            self.assertLess(len(line), 30)

    def test_ctrl_c_stops_saves_and_says_how_to_go_on(self):
        run = self.run_path()
        code, shown = self.on_terminal(
            self.train_arguments(run, 1_000_000, sets=["train.report_every=5"], log="text"),
            keys=(rb"  loss ", b"\x03"))
        self.assertEqual(3, code, shown)
        self.assertSays("once more to stop at once", shown)
        self.assertSays(r"stopped at step \d+ .*; saved .*run the same command again", shown)
        self.assertEqual(1, len(steps_of(run)))

    def test_plain_lines_elsewhere(self):
        result = self.train(self.run_path(), 60, log="text", devices="cpu:0-1", sets=[
            *self.slow, "save.every_steps=20"])
        self.assertExit(0, result)
        for control in "\r\x1b\b":
            self.assertNotIn(control, result.out + result.err)
        self.assertRegex(result.out, r"(?m)^mirrored on cpu:0 cpu:1$")
        self.assertRegex(
            result.out,
            r"(?m)^step 30  epoch 3  loss \d+\.\d{4}  lr \S+  norm \S+  \d+ samples/s  "
            r"cpu:0 \d+\.\d{4}  cpu:1 \d+\.\d{4}  \d+ s left$")
        self.assertRegex(result.out, r"(?m)^step 60  test: accuracy \d\.\d{4}  loss \d+\.\d{4}")
        self.assertRegex(result.out, r"(?m)^step 20  saved \S+step-000000020 \(\d+\.\d MB, stood")
        self.assertRegex(result.out, r"(?m)^done at step 60 after \d+ s; saved \S+step-000000060$")

    def test_json_has_an_object_on_every_line_and_the_report_has_its_fields(self):
        result = self.train(self.run_path(), 60, devices="cpu:0-1", sets=[
            *self.slow, "save.every_steps=20", "optimizer.clip=0.5"])
        self.assertExit(0, result)
        events = result.events()  # every line, or this throws
        self.assertEqual(["start", "end"], [events[0]["event"], events[-1]["event"]])
        self.assertEqual({"start", "report", "evaluation", "save", "end"},
                         {event["event"] for event in events})
        self.assertEqual(["cpu:0", "cpu:1"], events[0]["devices"])
        reports = result.events("report")
        self.assertEqual(list(range(5, 61, 5)), [report["step"] for report in reports])
        for report in reports:
            self.assertGreater(report["loss"], 0)
            self.assertGreater(report["learning_rate"], 0)
            self.assertGreater(report["gradient_norm"], 0)
            self.assertGreater(report["samples_per_second"], 0)
            self.assertTrue(0 <= report["clip_rate"] <= 1)
            self.assertEqual(["cpu:0", "cpu:1"], [tower["device"] for tower in report["towers"]])
            self.assertEqual(5 * 32, sum(tower["rows"] for tower in report["towers"]))
            for stage in ("input", "forward", "backward", "wait", "reduce", "update"):
                self.assertTrue(all(tower[stage] >= 0 for tower in report["towers"]), stage)
        saves = result.events("save")
        self.assertEqual((20, 60), (saves[0]["step"], saves[-1]["step"]))
        self.assertTrue(all(save["bytes"] > 0 and not save["error"] for save in saves))
        self.assertEqual({"accuracy", "loss"}, set(result.events("evaluation")[0]["metrics"]))

    def test_the_placement_report_keeps_out_of_the_json(self):
        result = self.call(*self.train_arguments(self.run_path(), 5, sets=["data.test_batch=500"]),
                           "--placement-report")
        self.assertExit(0, result)
        result.events()  # every line of stdout is JSON, or this throws
        self.assertIn("cpu:0", result.err)


if __name__ == "__main__":
    support.main()
