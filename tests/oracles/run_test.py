"""What Python's own packages make of a run of the real program: TensorBoard and safetensors.

Called as `python3 run_test.py PROGRAM`, with both packages in PYTHONPATH.
"""

import glob
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "apps", "program"))

import support  # noqa: E402
from safetensors.numpy import load_file  # noqa: E402
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator  # noqa: E402

STAGES = ("input", "forward", "backward", "wait", "reduce", "update")


class RunTest(support.ProgramTest):
    def setUp(self):
        super().setUp()
        self.run_folder = self.run_path()
        sets = ("evaluate.every_steps=20", "log.histograms_every=20", "optimizer.average=0.9",
                "optimizer.clip=0.5", "save.files=2")
        self.result = self.train(self.run_folder, 40, devices="cpu:0-1", sets=sets)
        self.assertEqual(self.result.code, 0, self.result)

    def test_tensorboard_shows_the_training(self):
        events = EventAccumulator(self.run_folder, size_guidance={"scalars": 0, "tensors": 0, "images": 0})
        events.Reload()
        tags = events.Tags()
        reports = self.result.events("report")
        for tag, key in (("train/loss", "loss"), ("train/learning_rate", "learning_rate"),
                         ("train/gradient_norm", "gradient_norm"), ("train/clip_rate", "clip_rate"),
                         ("system/samples_per_second", "samples_per_second")):
            shown = [(scalar.step, scalar.value) for scalar in events.Scalars(tag)]
            self.assertEqual([step for step, _ in shown], [report["step"] for report in reports], tag)
            for (_, value), report in zip(shown, reports):
                self.assertAlmostEqual(value, report[key], delta=1e-5 * abs(report[key]) + 1e-7, msg=tag)
        for i, device in enumerate(("cpu:0", "cpu:1")):
            losses = [scalar.value for scalar in events.Scalars(f"train/loss/{device}")]
            self.assertAlmostEqual(losses[-1], reports[-1]["towers"][i]["loss"], places=5)
            for stage in STAGES:
                self.assertIn(f"system/time_{stage}/{device}", tags["scalars"])
        accuracy = [(scalar.step, scalar.value) for scalar in events.Scalars("test/accuracy")]
        told = [(e["step"], e["metrics"]["accuracy"]) for e in self.result.events("evaluation")]
        self.assertEqual([step for step, _ in accuracy], [20, 40])
        for (_, shown), (_, value) in zip(accuracy, told):
            self.assertAlmostEqual(shown, value, places=6)
        self.assertEqual([image.step for image in events.Images("test/confusion")], [20, 40])
        self.assertTrue(events.Images("test/confusion")[0].encoded_image_string.startswith(b"\x89PNG"))
        self.assertIn("parameters/conv1.weight", tags["tensors"])
        self.assertIn("_hparams_/session_start_info", events.summary_metadata)
        self.assertEqual({"train", "test", "system"}, {tag.split("/")[0] for tag in tags["scalars"]})
        nodes = {node.name: node for node in self.graph(events).node}
        self.assertEqual(nodes["conv1"].op, "Conv2d")
        self.assertFalse([node.name for node in nodes.values() if node.input], "no arrow is made up")

    @staticmethod
    def graph(events):
        return events.Graph()

    def test_safetensors_opens_every_file_of_a_checkpoint(self):
        newest = sorted(glob.glob(f"{self.run_folder}/checkpoints/step-*"))[-1]
        weights = {}
        files = glob.glob(f"{newest}/weights-*.safetensors")
        self.assertEqual(len(files), 2)
        for path in files:
            weights.update(load_file(path))
        self.assertEqual(weights["conv1.weight"].shape, (2, 1, 3, 3))
        self.assertEqual(int(weights["norm1.num_batches_tracked"]), 40)
        averages = load_file(f"{newest}/averages.safetensors")
        self.assertEqual(set(averages), {name for name in weights if name.split(".")[1] in ("weight", "bias")})
        slots = load_file(f"{newest}/slots.safetensors")
        self.assertEqual(set(slots), {f"{name}/{slot}" for name in averages for slot in ("exp_avg", "exp_avg_sq")})
        for name, average in averages.items():
            self.assertEqual(average.shape, weights[name].shape)
            self.assertEqual(slots[f"{name}/exp_avg"].shape, weights[name].shape)


if __name__ == "__main__":
    support.main()
