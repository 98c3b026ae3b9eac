"""`lockstep verify`, `scaling`, `devices`, and the help of all commands."""

import os
import re
import xml.etree.ElementTree

import support
from support import ProgramTest

COMMANDS = {"train", "evaluate", "verify", "scaling", "chat", "translate", "inspect", "export", "recipes", "devices",
            "resume", "predict", "serve", "runs", "compare", "init"}


class Verify(ProgramTest):
    def recipe(self):
        return ["fashion", "--set", f"data.path={self.data}", "--set", "data.batch=32", "--set",
                "model.width=2"]

    def test_prints_that_one_two_and_four_devices_are_equal(self):
        result = self.call("verify", *self.recipe(), "--devices", "cpu:0-3", "--counts", "1,2,4")
        self.assertExit(0, result)
        for count in (2, 4):
            self.assertRegex(result.out, rf"(?m)^1 and {count} devices, 3 steps in 4 shards: "
                                         r"equal, bit for bit$")

    def test_compares_one_and_all_by_default(self):
        result = self.call("verify", *self.recipe(), "--devices", "cpu:0-2", "--steps", "2")
        self.assertExit(0, result)
        self.assertRegex(result.out, r"^1 and 3 devices, 2 steps in 4 shards: equal")
        self.assertEqual(1, result.out.count("\n"))

    def test_refuses_more_devices_than_there_are(self):
        result = self.call("verify", *self.recipe(), "--devices", "cpu:0-3", "--counts", "9")
        self.assertExit(2, result)
        self.assertSays(r"--counts 9: --devices cpu:0-3 has 4", result.err)

    def test_refuses_what_compares_nothing(self):
        result = self.call("verify", *self.recipe(), "--devices", "cpu:0")
        self.assertExit(2, result)
        self.assertSays("no two numbers of devices to compare", result.err)


class Scaling(ProgramTest):
    def test_prints_a_table_and_draws_a_figure(self):
        plot = f"{self.folder}/plot.svg"
        result = self.call(
            "scaling", "fashion", "--set", f"data.path={self.data}", "--set", "data.batch=32",
            "--set", "model.width=2", "--devices", "cpu:0-2", "--counts", "1,3", "--seconds", "0.5",
            "--plot", plot)
        self.assertExit(0, result)
        for title in ("strong: the global batch stays 32", "weak: the batch of a device stays 32"):
            self.assertIn(title, result.out)
        self.assertEqual(2, len(re.findall(
            r"(?m)^  devices +samples/s +efficiency +first step +limited by$", result.out)))
        rows = re.findall(r"(?m)^ +([13]) +(\d+) +(\d\.\d\d) +(\d+\.\d\d) s  (\w.+)$", result.out)
        self.assertEqual(["1", "3", "1", "3"], [row[0] for row in rows], result.out)
        self.assertTrue(all(int(row[1]) > 0 and float(row[3]) > 0 for row in rows))
        self.assertEqual("1.00", rows[0][2])
        self.assertAlmostEqual(int(rows[1][1]) / (3 * int(rows[0][1])), float(rows[1][2]),
                               delta=0.02)
        for slower, faster in ((rows[1], rows[0]), (rows[3], rows[2])):
            if int(slower[1]) < int(faster[1]):
                self.assertIn("WARNING: 3 devices are slower than 1", result.out)
        self.assertIn(f"figure: {plot}", result.out)
        root = xml.etree.ElementTree.parse(plot).getroot()
        self.assertEqual("{http://www.w3.org/2000/svg}svg", root.tag)
        texts = "".join(root.itertext())
        self.assertIn("samples/s", texts)
        self.assertGreaterEqual(len(list(root.iter())), 10)

    def test_refuses_more_devices_than_there_are_and_a_plot_that_cannot_be_written(self):
        recipe = ["scaling", "fashion", "--set", f"data.path={self.data}", "--devices", "cpu:0"]
        result = self.call(*recipe, "--counts", "2")
        self.assertExit(2, result)
        self.assertSays("--counts 2: there are 1 devices", result.err)
        result = self.call(*recipe, "--seconds", "1000", "--plot", "/proc/none/plot.svg")
        self.assertExit(2, result)
        self.assertIn("/proc/none/plot.svg", result.err, "before anything is measured")

    def test_times_of_simulated_devices_are_called_virtual(self):
        result = self.call(
            "scaling", "fashion", "--set", f"data.path={self.data}", "--set", "data.batch=32", "--set", "model.width=2",
            "--devices", "sim:0-1", "--counts", "2", "--seconds", "0.1", "--plot", "plot.svg")
        self.assertExit(0, result)
        self.assertIn("strong: the global batch stays 32, virtual time", result.out)
        with open(f"{self.folder}/plot.svg", encoding="utf-8") as figure:
            self.assertIn("virtual time", figure.read())


class Devices(ProgramTest):
    def test_shows_what_there_is_and_what_would_be_used(self):
        result = self.call("devices")
        self.assertExit(0, result)
        self.assertRegex(result.out, r"(?m)^cpu  cpu:0\S*  \d+ cores?$")
        self.assertRegex(result.out, r"(?m)^gpu  ")
        self.assertRegex(result.out, r"(?m)^--devices auto uses (cpu|gpu):0")

    def test_shows_what_a_choice_would_use(self):
        result = self.call("devices", "--devices", "cpu:0-63")
        self.assertExit(0, result)
        self.assertRegex(result.out, r"(?m)^--devices cpu:0-63 uses cpu:0 .*cpu:63$")

    def test_refuses_what_it_does_not_know(self):
        result = self.call("devices", "--devices", "tpu")
        self.assertExit(2, result)
        self.assertSays("'tpu' is not a kind of device", result.err)


class Recipes(ProgramTest):
    def test_are_listed_by_family(self):
        result = self.call("recipes")
        self.assertExit(0, result)
        self.assertRegex(result.out, r"(?ms)^classify puts .*^  fashion .*^seq2seq .*^  translate +English")

    def test_as_markdown_are_the_page_of_the_documentation(self):
        result = self.call("recipes", "--markdown")
        self.assertExit(0, result)
        with open(f"{os.path.dirname(os.path.abspath(__file__))}/../../../docs/recipes.md", encoding="utf-8") as page:
            self.assertTrue(page.read().endswith(result.out), "write it anew: lockstep recipes --markdown")

    def test_of_train_help_shows_the_sections_by_family(self):
        text = self.call("train", "--help").out
        positions = [text.index(part) for part in ("[optimizer]", "family classify", "[model]", "family seq2seq", "[decode]")]
        self.assertEqual(sorted(positions), positions)


class Help(ProgramTest):
    def test_every_command_has_help(self):
        overview = self.call("--help")
        self.assertExit(0, overview)
        commands = re.findall(r"(?m)^ +(\w+) +[A-Z]", overview.out)
        self.assertLessEqual(COMMANDS, set(commands))
        for command in commands:
            result = self.call(command, "--help")
            self.assertExit(0, result)
            self.assertRegex(result.out, r"(?i)usage|options:")
            self.assertEqual("", result.err)

    def test_help_of_train_lists_recipes_fields_and_exit_codes(self):
        result = self.call("train", "--help")
        self.assertExit(0, result)
        for recipe in ("cifar10", "fashion", "imagefolder", "imagefolder50"):
            self.assertRegex(result.out, rf"(?m)^ +{recipe} +[A-Z]")
        printed = self.call("train", "fashion", "--print-recipe").out
        section = ""
        fields = []
        for line in printed.splitlines():
            if line.startswith("["):
                section = line.strip("[]") + "."
            elif found := re.match(r"(\w+) = ", line):
                fields.append(section + found[1])
        self.assertGreater(len(fields), 40)
        text = result.out
        for field in fields:
            self.assertIn(field.rsplit(".", 1)[-1], text)
        for flag in ("--set", "--devices", "--shards", "--resume", "--run-dir", "--log"):
            self.assertIn(flag, text)
        self.assertSays("Exit codes: 0 done; 1 failed; 2 .*; 3 stopped", text)

    def test_no_command_prints_the_help_and_an_unknown_one_exits_with_2(self):
        overview = self.call("--help")
        for words in ([], ["help"]):
            self.assertExit(0, self.call(*words))
            self.assertEqual(overview.out, self.call(*words).out)
        self.assertEqual(self.call("train", "--help").out, self.call("help", "train").out)
        self.assertRegex(self.call("--version").out, r"^lockstep \d+\.\d+\.\d+\n$")
        result = self.call("trian", "fashion")
        self.assertExit(2, result)
        self.assertIn("lockstep: there is no command 'trian'; did you mean 'train'? There are: train, resume", result.err)

    def test_mistakes_in_flags_are_named_in_words(self):
        for arguments, words in (
                (["train", "fashion", "--devces", "cpu:0"], "lockstep train has no flag --devces; did you mean '--devices'?"),
                (["train", "fashion", "--shards", "0"], "'0' is no whole number of at least 1"),
                (["scaling", "fashion", "--seconds", "-1"], "'-1' is no number above 0"),
                (["completion", "tcsh"], "lockstep completion: shell: tcsh not in {bash,zsh,fish}; `lockstep completion "
                 "--help` shows its flags"),
                (["train"], "lockstep train: recipe is required"),
                (["train", "fashion", "--placement", "strict", "--devices", "cpu:99"], "there is no cpu:99")):
            with self.subTest(arguments):
                result = self.call(*arguments)
                self.assertExit(2, result)
                self.assertIn(words, result.err)
                self.assertNotIn("FAILED", result.err)
                self.assertNotRegex(result.err, r"\d{30}")

    def test_whole_numbers_may_have_an_exponent(self):
        result = self.call("train", "fashion", "--set", "train.steps=1e3", "--print-recipe")
        self.assertExit(0, result)
        self.assertIn("steps = 1000", result.out.splitlines())
        self.assertExit(2, self.call("train", "fashion", "--set", "train.steps=1.5", "--print-recipe"))


if __name__ == "__main__":
    support.main()
