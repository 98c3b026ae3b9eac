"""SIGTERM and SIGINT: the step is finished and saved, and the training goes on from there."""

import glob
import os
import signal
import time

import support
from run_files import checkpoint, left_over, manifest, steps_of
from support import ProgramTest

EVERY_STEP = ["train.report_every=1"]  # a line a step: see support.Watched


class Signals(ProgramTest):
    steps = 40

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.whole = f"{cls.class_folder}/whole"
        maker = cls("test_sigterm_finishes_the_step_saves_and_exits_with_3")
        maker.folder = cls.class_folder
        maker.assertExit(0, maker.train(cls.whole, cls.steps, sets=EVERY_STEP))

    def stops(self, number):
        run = self.run_path()
        first = self.watch(run, self.steps, sets=EVERY_STEP)
        first.wait_for("report", step=8)
        first.send(number)
        result = first.finish()
        self.assertExit(3, result)
        end = result.events()[-1]
        self.assertEqual(("end", "stopped"), (end["event"], end["ending"]))
        self.assertLess(end["step"], self.steps)
        self.assertEqual(end["step"], result.events("report")[-1]["step"], "the step was finished")
        self.assertEqual([end["step"]], steps_of(run))
        self.assertIn("once more to stop at once", result.err)
        second = self.train(run, self.steps, devices="cpu:0-1", sets=EVERY_STEP)
        self.assertExit(0, second)
        self.assertEqual(end["step"], second.events("start")[0]["step"])
        self.assertSameTraining(self.whole, run)

    def test_sigterm_finishes_the_step_saves_and_exits_with_3(self):
        self.stops(signal.SIGTERM)

    def test_sigint_does_the_same(self):
        self.stops(signal.SIGINT)

    def second_signal(self, number):
        run = self.run_path()
        training = self.watch(run, self.steps, sets=EVERY_STEP)
        training.wait_for("report", step=3)
        training.stand_still()  # inside of a report
        training.send(number)
        time.sleep(0.3)
        self.assertIsNone(training.process.poll(), "the first signal does not end it at once")
        begin = time.monotonic()
        training.send(number)
        # Waited for without reading: all that could make it go on is the signal.
        self.assertEqual(128 + number, training.process.wait(support.TIMEOUT))
        self.assertLess(time.monotonic() - begin, 5)
        self.assertEqual([], steps_of(run), "it did not stay to save")

    def test_a_second_sigterm_ends_at_once(self):
        self.second_signal(signal.SIGTERM)

    def test_a_second_sigint_ends_at_once(self):
        self.second_signal(signal.SIGINT)

    def test_a_signal_before_the_first_step_is_heard(self):
        run = self.run_path()
        training = self.watch(run, self.steps, sets=EVERY_STEP)
        training.wait_for("start")
        training.send(signal.SIGTERM)
        result = training.finish()
        self.assertExit(3, result)
        self.assertExit(0, self.train(run, self.steps, sets=EVERY_STEP))
        self.assertSameTraining(self.whole, run)

    def test_a_signal_while_saving_leaves_whole_checkpoints(self):
        run = self.run_path()
        sets = [*EVERY_STEP, "save.every_steps=1"]
        hits = 0
        while hits < 3:
            training = self.watch(run, self.steps, sets=sets)
            training.wait_for("report")
            while not (saving := glob.glob(f"{run}/checkpoints/*.new")):
                if training.next() is None:
                    self.fail(f"ended after {hits} hits: {training.finish()}")
            training.send(signal.SIGTERM)
            hits += os.path.exists(saving[0])
            result = training.finish()
            self.assertExit(3, result)
            end = result.events("end")[0]
            self.assertEqual(end["step"], steps_of(run)[-1])
            self.assertEqual("", end["error"])
            self.assertEqual([], left_over(run))
        inspected = self.call("inspect", run)
        self.assertExit(0, inspected)
        self.assertNotIn("NOT WHOLE", inspected.out)
        self.assertExit(0, self.train(run, self.steps, devices="cpu:0-2", sets=sets))
        self.assertSameTraining(self.whole, run)


class WhileEvaluating(ProgramTest):
    # An evaluation of some seconds: many images, one at a time.
    data_sizes = {"train": 256, "test": 6000}
    slow = ["train.report_every=1", "data.test_batch=1"]
    quick = ["train.report_every=1", "data.test_batch=500"]

    def stop_in_evaluation(self, run, steps, at, sets):
        """Sends SIGTERM when the evaluation after step `at` has begun."""
        training = self.watch(run, steps, sets=[*self.slow, *sets])
        training.wait_for("report", step=at)
        time.sleep(0.3)
        training.send(signal.SIGTERM)
        begin = time.monotonic()
        result = training.finish()
        self.assertLess(time.monotonic() - begin, 5)
        self.assertExit(3, result)
        self.assertEqual([], result.events("evaluation"), "it was in the evaluation")
        self.assertEqual(at, result.events("end")[0]["step"])
        self.assertEqual([at], steps_of(run))

    def test_a_signal_stops_an_evaluation_which_is_made_up_for(self):
        run, whole = self.run_path(), self.run_path("whole")
        sets = ["evaluate.every_steps=10"]
        self.stop_in_evaluation(run, 20, 10, sets)
        again = self.train(run, 20, sets=[*self.quick, *sets])
        self.assertExit(0, again)
        self.assertEqual([10, 20], [event["step"] for event in again.events("evaluation")])
        self.assertExit(0, self.train(whole, 20, sets=[*self.quick, *sets]))
        self.assertSameTraining(whole, run)

    def test_a_signal_in_the_last_evaluation_does_not_lose_it(self):
        run = self.run_path()
        self.stop_in_evaluation(run, 10, 10, [])
        again = self.train(run, 10, sets=self.quick)
        self.assertExit(0, again)
        (evaluation,) = again.events("evaluation")
        self.assertEqual(evaluation["metrics"]["accuracy"],
                         manifest(checkpoint(run, 10))["metrics"].get("test/accuracy"),
                         "the checkpoint has the metrics of its evaluation")
        third = self.train(run, 10, sets=self.quick)
        self.assertExit(0, third)
        self.assertEqual([], third.events("evaluation"), "it is done, and stays so")

    def test_evaluate_stops_at_a_signal_too(self):
        run = self.run_path()
        self.assertExit(0, self.train(run, 5, sets=self.quick))
        evaluation = self.watch_call("evaluate", run, "--devices", "cpu:0", "--log", "json",
                                     "--set", "data.test_batch=1")
        while not support.catches(evaluation.pid, signal.SIGINT):
            self.assertIsNone(evaluation.process.poll())
            time.sleep(0.01)
        evaluation.send(signal.SIGINT)
        result = evaluation.finish()
        self.assertExit(3, result)
        self.assertEqual("", result.out)


if __name__ == "__main__":
    support.main()
