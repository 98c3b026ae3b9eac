"""`lockstep train chat` and `translate`: texts in, tokens, buckets, checkpoints, texts out."""

import os
import signal
import subprocess

import support
import text_files
from run_files import last_checkpoint

# A model that takes milliseconds a step.
SMALL = ["seq2seq.hidden=16", "seq2seq.embedding=8", "seq2seq.layers=1", "data.batch=16", "data.test_batch=16",
         "data.workers=1", "text.vocabulary=60", "decode.max_length=12", "decode.tested=32", "train.epochs=0",
         "train.report_every=10", "evaluate.every_epochs=0", "save.every_seconds=0", "schedule.name=inverse_sqrt",
         "schedule.warm_up=5"]


def content(path):
    with open(path, "rb") as file:
        return file.read()


class Texts(support.ProgramTest):
    def setUp(self):
        super().setUp()
        self.tsv = text_files.write_tsv(f"{self.folder}/pairs.tsv", text_files.pairs(200))

    def arguments(self, run, steps, recipe="translate", devices="cpu:0", sets=(), log="json"):
        fields = [*SMALL, "data.kind=tsv", f"data.path={self.tsv}", "text.held_out=0.2", f"train.steps={steps}", *sets]
        flags = [flag for field in fields for flag in ("--set", field)]
        return ["train", recipe, "--devices", devices, "--run-dir", run, "--log", log, *flags]

    def train_texts(self, run, steps, **how):
        return self.call(*self.arguments(run, steps, **how))

    def feed(self, text, *arguments):
        done = subprocess.run([support.PROGRAM, *arguments], cwd=self.folder, input=text, capture_output=True,
                              timeout=support.TIMEOUT)
        return support.Result(done.returncode, done.stdout.decode(), done.stderr.decode())

    def trained(self, steps=2, **how):
        run = self.run_path("trained")
        result = self.train_texts(run, steps, **how)
        self.assertExit(0, result)
        return run

    def test_one_to_four_devices_over_a_resume_give_the_same_bits_with_dropout(self):
        for recipe, strategy in (("chat", "mirrored"), ("translate", "mirrored"), ("chat", "async")):
            with self.subTest(f"{recipe} {strategy}"):
                alone, moved = (self.run_path(f"{recipe}-{strategy}-{name}") for name in ("alone", "moved"))
                how = {"recipe": recipe, "sets": ["seq2seq.keep=0.7", f"strategy={strategy}"]}
                self.assertExit(0, self.train_texts(alone, 12, **how))
                for steps, devices in ((4, "cpu:0-1"), (7, "cpu:0-3"), (12, "cpu:0-2")):
                    self.assertExit(0, self.train_texts(moved, steps, devices=devices, **how))
                self.assertSameTraining(alone, moved)

    def test_dropout_counts(self):
        runs = [self.run_path(name) for name in ("with", "without")]
        for run, keep in zip(runs, ("0.7", "1")):
            self.assertExit(0, self.train_texts(run, 3, sets=[f"seq2seq.keep={keep}"]))
        weights = [content(f"{last_checkpoint(run)}/weights.safetensors") for run in runs]
        self.assertNotEqual(*weights)

    def test_weight_decay_can_leave_out_biases(self):
        runs = [self.run_path(name) for name in ("all", "some", "again")]
        for run, decayed in zip(runs, ("true", "false", "false")):
            self.assertExit(0, self.train_texts(run, 3, sets=[
                "optimizer.weight_decay=0.1", f"optimizer.decay_biases_and_norms={decayed}"]))
        weights = [content(f"{last_checkpoint(run)}/weights.safetensors") for run in runs]
        self.assertNotEqual(weights[0], weights[1])
        self.assertEqual(weights[1], weights[2])

    def test_every_kind_of_cell_and_attention_trains_and_writes(self):
        for sets in (["seq2seq.cell=gru", "seq2seq.attention=bahdanau"],
                     ["seq2seq.attention=dot", "seq2seq.input_feeding=true", "seq2seq.tied=true"],
                     ["seq2seq.bidirectional=true", "seq2seq.layers=2", "seq2seq.label_smoothing=0.1"],
                     ["seq2seq.samples=20", "decode.beam=3", "decode.coverage_penalty=0.2"],
                     ["text.tokens=characters", "text.quantiles=3", "text.batch_tokens=400"]):
            with self.subTest(sets):
                result = self.train_texts(self.run_path("-".join(sets)), 3, sets=sets)
                self.assertExit(0, result)
                self.assertGreater(result.events("evaluation")[-1]["metrics"]["perplexity"], 1)

    def test_every_kind_of_file_gives_the_same_training(self):
        rows = sorted(dict(text_files.pairs(200)).items())
        text_files.write_tsv(f"{self.folder}/all.tsv", rows)
        text_files.write_parallel(f"{self.folder}/all.en", f"{self.folder}/all.fr", rows)
        text_files.write_chatterbot(f"{self.folder}/yaml", rows)
        os.makedirs(f"{self.folder}/mo")
        text_files.write_mo(f"{self.folder}/mo/all.mo", rows)
        kinds = {"tsv": ["data.path=all.tsv"],
                 "parallel": ["data.path=all.en", "data.target_path=all.fr"],
                 "chatterbot": ["data.path=yaml"],
                 "gettext": ["data.path=mo"]}
        for kind, sets in kinds.items():
            result = self.train_texts(self.run_path(kind), 3, sets=[f"data.kind={kind}", *sets])
            self.assertExit(0, result)
            with self.subTest(kind):
                self.assertSameTraining(self.run_path("tsv"), self.run_path(kind))

    def test_an_evaluation_has_perplexities_bleu_samples_and_a_picture(self):
        run = self.trained()
        result = self.call("evaluate", run, "--log", "json", "--pictures", f"{self.folder}/pictures")
        self.assertExit(0, result)
        event = result.events("evaluation")[-1]
        for name in ("loss", "perplexity", "perplexity/10-15", "bleu", "bleu_of_copying", "exact"):
            self.assertIn(name, event["metrics"])
        self.assertEqual("test", event["set"])
        self.assertIn("decoded:", event["texts"]["samples"])
        self.assertEqual(["test-attention.png"], os.listdir(f"{self.folder}/pictures"))

    def test_with_nothing_held_out_the_set_is_called_train(self):
        result = self.train_texts(self.run_path(), 2, recipe="chat", sets=["text.held_out=0"])
        self.assertExit(0, result)
        self.assertEqual("train", result.events("evaluation")[-1]["set"])

    def test_bad_pairs_are_named_counted_and_skipped_or_refused(self):
        with open(self.tsv, "ab") as file:
            file.write(b"no tab here\n\xff\xfe bad\tfine\n  \tempty\n")
        result = self.train_texts(self.run_path(), 1)
        self.assertExit(0, result)
        for fault, line in (("missing tab", 201), ("bad UTF-8", 202), ("empty side", 203)):
            self.assertIn(f"pairs skipped, {fault}: 1", result.err)
            self.assertIn(f"{self.tsv}:{line}", result.err)
        result = self.train_texts(self.run_path("strict"), 1, sets=["text.refuse_bad=true"])
        self.assertExit(2, result)
        self.assertIn(self.tsv, result.err)
        self.assertIn("201", result.err)

    def test_an_empty_file_to_test_on_is_named(self):
        text_files.write_tsv(f"{self.folder}/none.tsv", [])
        result = self.train_texts(self.run_path(), 1, sets=["data.test_path=none.tsv"])
        self.assertExit(2, result)
        self.assertIn("none.tsv", result.err)

    def test_pairs_too_long_are_counted_and_left_out_or_cut(self):
        short = ["text.source_lengths=[3]", "text.target_lengths=[4]"]
        for cut, word in (("false", "left out"), ("true", "cut")):
            result = self.train_texts(self.run_path(word), 1, sets=[*short, f"text.cut={cut}"])
            self.assertExit(0, result)
            self.assertRegex(result.err, rf"\d+ of them too long for every bucket: {word}")

    def test_the_tokens_are_in_the_run_and_in_the_checkpoint(self):
        run = self.trained()
        in_run = content(f"{run}/tokens.model")
        self.assertEqual(in_run, content(f"{last_checkpoint(run)}/tokens.model"))
        os.remove(f"{run}/tokens.model")
        text_files.write_tsv(self.tsv, text_files.pairs(50, seed=2))
        self.assertExit(0, self.train_texts(run, 3))
        self.assertEqual(in_run, content(f"{run}/tokens.model"))

    def test_translate_keeps_order_and_empty_lines(self):
        run = self.trained(20)
        lines = [source for source, _ in text_files.pairs(90, seed=3)]
        lines[4] = lines[50] = ""
        result = self.feed("\n".join(lines).encode() + b"\n", "translate", run)
        self.assertExit(0, result)
        out = result.out.split("\n")[:-1]
        self.assertEqual(len(lines), len(out))
        self.assertEqual(["", ""], [out[4], out[50]])
        for i in (0, 33, 89):
            alone = self.feed(lines[i].encode(), "translate", run)
            self.assertEqual(out[i] + "\n", alone.out)

    def test_translate_gives_several_and_a_wider_beam_scores_no_worse(self):
        run = self.trained(20)
        result = self.feed(b"one two three\n", "translate", run, "--beam", "4", "--best", "3")
        self.assertExit(0, result)
        rows = [line.split("\t") for line in result.out.splitlines()]
        self.assertEqual(["1", "1", "1"], [row[0] for row in rows])
        scores = [float(row[1]) for row in rows]
        self.assertEqual(sorted(scores, reverse=True), scores)

    def test_translate_goes_on_after_a_line_that_is_no_utf8(self):
        run = self.trained()
        result = self.feed(b"one\ncaf\xe9\ntwo\n", "translate", run)
        self.assertExit(0, result)
        self.assertEqual(3, result.out.count("\n"))
        self.assertEqual("", result.out.split("\n")[1])
        self.assertIn("line 2 of the input is no UTF-8: it is left empty", result.err)
        good = self.feed(b"one\n\ntwo\n", "translate", run)
        self.assertEqual(good.out, result.out)

    def test_translate_reads_lines_of_any_length_in_bounded_memory(self):
        run = self.trained()
        result = self.feed(b"one\n" + b"x" * (3 << 20) + b"\ntwo", "translate", run)
        self.assertExit(0, result)
        self.assertEqual(3, result.out.count("\n"))
        self.assertIn("line 2 of the input has more than 1 MiB: it is left empty", result.err)

    def test_translate_of_an_endless_line_stops_at_the_first_signal(self):
        run = self.trained()
        with open("/dev/zero", "rb") as zeros:
            process = subprocess.Popen([support.PROGRAM, "translate", run], cwd=self.folder, stdin=zeros,
                                       stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            try:
                while not support.catches(process.pid, signal.SIGINT):
                    pass
                process.send_signal(signal.SIGINT)
                self.assertEqual(3, process.wait(support.TIMEOUT))
            finally:
                process.kill()
                process.communicate()

    def test_tokens_that_are_made_cannot_change(self):
        run = self.trained()
        for result in (self.train_texts(run, 4, sets=["text.vocabulary=50"]),
                       self.call("resume", run, "--set", "text.vocabulary=50")):
            self.assertExit(2, result)
            self.assertSays("text.vocabulary: 60 -> 50 cannot take effect", result.err)
        self.assertExit(0, self.call("resume", run, "--set", "train.steps=4"))

    def test_flags_without_effect_are_refused(self):
        run = self.trained()
        for flags, words in ((["--top-k", "3"], "--top-k requires --temperature"),
                             (["--beam", "2", "--temperature", "1"], "--beam excludes --temperature")):
            result = self.feed(b"one\n", "translate", run, *flags)
            self.assertExit(2, result)
            self.assertIn(words, result.err)

    def test_ctrl_c_ends_translate_while_it_waits(self):
        run = self.trained()
        with subprocess.Popen([support.PROGRAM, "translate", run], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL) as program:
            program.stdin.write(b"one\n")
            program.stdin.flush()
            program.stdout.readline()
            program.send_signal(signal.SIGINT)
            self.assertEqual(3, program.wait(support.TIMEOUT))

    def test_the_installed_corpus_is_found_by_language(self):
        for language, tokens in (("english", "sentencepiece"), ("chinese", "characters")):
            with self.subTest(language):
                result = self.train_texts(self.run_path(language), 1, recipe="chat", sets=[
                    "data.kind=chatterbot", "data.path=", f"text.language={language}", f"text.tokens={tokens}",
                    "text.vocabulary=2000", "text.held_out=0"])
                self.assertExit(0, result)
                self.assertRegex(result.err, r"\d{3,} pairs to train on, none held out, \d{3,} tokens")

    def test_chat_answers_and_shows_alternatives_on_request(self):
        run = self.trained()
        result = self.feed(b"one two\n/more 3\n/beam 4\nthree\n/nonsense\n/quit\nunheard\n", "chat", run)
        self.assertExit(0, result)
        self.assertIn("> one two\n", result.out)
        self.assertEqual(3, sum(line[:8].strip().startswith("-") for line in result.out.splitlines()), result.out)
        self.assertIn("/temperature", result.out)
        self.assertNotIn("unheard", result.out)

    def test_draws_belong_to_their_seed(self):
        run = self.trained()
        drawn = [self.feed(b"one two three\nfour\n", "translate", run, "--temperature", "2", "--seed", seed).out
                 for seed in ("1", "1", "2")]
        self.assertEqual(drawn[0], drawn[1])
        self.assertNotEqual(drawn[0], drawn[2])

    def test_mistakes_are_named(self):
        cases = [(["data.kind=folder"], "data.kind"),
                 (["text.language=klingon", "data.kind=chatterbot", "data.path="], "klingon"),
                 (["text.target_lengths=[10]"], "text.target_lengths"),
                 (["data.path=nowhere.tsv"], "nowhere.tsv"),
                 (["evaluate.metric=accuracy"], "evaluate.metric"),
                 (["seq2seq.hidden=15", "seq2seq.bidirectional=true"], "seq2seq.hidden")]
        for sets, named in cases:
            with self.subTest(sets):
                result = self.train_texts(self.run_path(), 1, sets=sets)
                self.assertExit(2, result)
                self.assertIn(named, result.err)
        images = self.run_path("images")
        self.assertExit(0, self.train(images, 1))
        result = self.feed(b"hello\n", "chat", images)
        self.assertExit(2, result)
        self.assertIn("does not write texts", result.err)


if __name__ == "__main__":
    support.main()
