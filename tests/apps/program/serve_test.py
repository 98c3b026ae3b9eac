"""`lockstep serve`: the JSON API, its limits, and the page in a real browser."""

import concurrent.futures
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.error
import urllib.request

import box_files
import support
import text_files
from images_test import ImageTest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../oracles"))
import browser  # noqa: E402


class Server:
    """A running `lockstep serve` on a free port."""

    def __init__(self, run, *flags):
        self.process = subprocess.Popen([support.PROGRAM, "serve", run, "--port", "0", *flags], text=True,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        line = self.process.stdout.readline()
        if "http://" not in line:
            raise AssertionError(line + self.process.communicate()[1])
        self.address = line.split()[1].rstrip("/")

    def ask(self, path, body=None, **headers):
        """The status and the JSON of an answer."""
        request = urllib.request.Request(self.address + path, data=body, headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=support.TIMEOUT) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            return error.code, json.load(error)

    def stop(self):
        """Ends it as Ctrl-C does. The exit code."""
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(support.TIMEOUT)

    def end(self):
        """Ends it if it runs."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()


class ServeTest(support.ProgramTest):
    def serve(self, run, *flags):
        server = Server(run, *flags)
        self.addCleanup(server.end)
        return server

    def open_page(self, address):
        """A page of a browser that has loaded an address, and a function that waits for an expression."""
        profile = tempfile.mkdtemp(dir=self.folder)
        process = browser.start_browser(profile)
        self.addCleanup(process.wait)
        self.addCleanup(process.terminate)
        page = browser.open_page(process, profile)
        page.call("Page.navigate", url=address)

        def until(expression):
            end = time.monotonic() + browser.PATIENCE
            while time.monotonic() < end:
                found = page.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
                if value := found["result"].get("value"):
                    return value
                time.sleep(0.1)
            raise AssertionError(f"never true: {expression}")

        return page, until


class Pictures(ServeTest, ImageTest):
    def setUp(self):
        super().setUp()
        sets = ["model.name=convnet", "model.width=4", "data.size=32", "data.batch=12", "train.steps=30",
                "schedule.warm_up=0", "optimizer.name=adam", "optimizer.momentum=0", "optimizer.lr=0.01"]
        self.assertExit(0, self.train("imagefolder", *(flag for field in sets for flag in ("--set", field))))
        with open(f"{self.folder}/test/red/0.png", "rb") as file:
            self.red = file.read()

    def test_pictures_are_put_into_classes_and_mistakes_are_answered(self):
        server = self.serve(self.run_path())
        code, model = server.ask("/api/model")
        self.assertEqual((200, "predict", ["blue", "red"]), (code, model["service"], model["classes"]))
        code, found = server.ask("/api/predict?top=1", self.red)
        self.assertEqual((200, ["red"]), (code, [one["class"] for one in found["classes"]]))
        form = (b'--x\r\nContent-Disposition: form-data; name="file"; filename="a.png"\r\n\r\n' + self.red +
                b"\r\n--x--\r\n")
        code, found = server.ask("/api/predict", form, **{"Content-Type": "multipart/form-data; boundary=x"})
        self.assertEqual((200, "red"), (code, found["classes"][0]["class"]))
        for path, body, status, words in (
                ("/api/predict", b"no picture", 400, "JPEG or PNG"),
                ("/api/predict?top=0", self.red, 400, "top has to be"),
                ("/api/nothing", b"", 404, "nothing at POST /api/nothing")):
            code, answer = server.ask(path, body)
            self.assertEqual(status, code, answer)
            self.assertIn(words, answer["error"])
        code, answer = server.ask("/api/model", Host="evil.example")
        self.assertEqual(403, code, answer)
        self.assertEqual(0, server.stop())

    def test_requests_have_limits(self):
        server = self.serve(self.run_path(), "--max-megabytes", "1")
        code, answer = server.ask("/api/predict", bytes(900_000))
        self.assertEqual(400, code, answer)
        self.assertIn("JPEG or PNG", answer["error"], "it is small enough, and no picture")
        code, answer = server.ask("/api/predict", bytes(2 << 20))
        self.assertEqual((413, "a request may have 1 MiB at most"), (code, answer["error"]))
        self.assertEqual(200, server.ask("/api/predict", self.red)[0], "it serves on")
        late = self.serve(self.run_path(), "--timeout", "0.000001")
        self.assertEqual(504, late.ask("/api/predict", self.red)[0])
        taken = self.call("serve", self.run_path(), "--port", server.address.rsplit(":", 1)[1])
        self.assertExit(2, taken)
        self.assertIn("another program may be there", taken.err)

    def test_many_requests_at_once_get_their_own_answers(self):
        server = self.serve(self.run_path())
        pictures = []
        for name in ("blue", "red"):
            with open(f"{self.folder}/test/{name}/1.png", "rb") as file:
                pictures.append((name, file.read()))
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(lambda i: server.ask("/api/predict?top=1", pictures[i % 2][1]), range(40)))
        self.assertEqual([(200, pictures[i % 2][0]) for i in range(40)],
                         [(code, answer["classes"][0]["class"]) for code, answer in answers])

    @unittest.skipUnless(shutil.which("chromium"), "chromium is not installed: scripts/setup --oracles")
    def test_the_page_shows_the_classes_of_a_picture(self):
        server = self.serve(self.run_path())
        page, until = self.open_page(server.address)
        until("document.getElementById('drop') && !document.getElementById('drop').hidden")
        root = page.call("DOM.getDocument")["root"]["nodeId"]
        chosen = page.call("DOM.querySelector", nodeId=root, selector="#file")["nodeId"]
        page.call("DOM.setFileInputFiles", nodeId=chosen, files=[f"{self.folder}/test/red/0.png"])
        self.assertEqual("red", until("document.querySelector('#log td')?.textContent"))
        self.assertEqual(40, until("document.getElementById('picture').width"))
        self.assertEqual("none", until("getComputedStyle(document.getElementById('texts')).display"), "no prompt for texts")


class Detectors(ServeTest):
    def test_things_in_pictures_are_found_as_detect_does(self):
        boxes = f"{self.folder}/boxes"
        box_files.write_coco(f"{boxes}/all.json", box_files.make_scenes(boxes, 9, 1))
        sets = ["data.kind=coco", f"data.path={boxes}/all.json", "data.held_out=0.3", "data.batch=8", "detector.width=0.25",
                "detector.size=96", "detector.lite=true", "init.weights=", "train.epochs=0", "train.steps=1"]
        self.assertExit(0, self.call("train", "detect", "--run-dir", self.run_path(), "--devices", "cpu:0",
                                     *(flag for field in sets for flag in ("--set", field))))
        picture = next(f"{boxes}/{name}" for name in sorted(os.listdir(boxes)) if not name.endswith(".json"))
        self.assertExit(0, self.call("detect", self.run_path(), picture, "--json", "found.json"))
        with open(f"{self.folder}/found.json", encoding="utf-8") as file:
            expected = [(one["category"], one["bbox"]) for one in json.load(file)]
        server = self.serve(self.run_path())
        with open(picture, "rb") as file:
            code, answer = server.ask("/api/detect", file.read())
        self.assertEqual((200, expected), (code, [(one["class"], one["box"]) for one in answer["found"]]))
        self.assertGreater(answer["width"], 0)


class Texts(ServeTest):
    def setUp(self):
        super().setUp()
        tsv = text_files.write_tsv(f"{self.folder}/pairs.tsv", text_files.pairs(60))
        sets = ["data.kind=tsv", f"data.path={tsv}", "seq2seq.hidden=16", "seq2seq.embedding=8", "data.batch=16",
                "text.vocabulary=60", "decode.max_length=12", "decode.tested=8", "train.epochs=0", "train.steps=3"]
        self.assertExit(0, self.call("train", "translate", "--run-dir", self.run_path(), "--devices", "cpu:0",
                                     *(flag for field in sets for flag in ("--set", field))))

    def test_texts_are_decoded_as_translate_does_alone_and_together(self):
        lines = ["one two", "three", "four five six"]
        done = subprocess.run([support.PROGRAM, "translate", self.run_path()], input="\n".join(lines) + "\n", text=True,
                              capture_output=True, timeout=support.TIMEOUT, check=True)
        server = self.serve(self.run_path())
        code, answer = server.ask("/api/text", json.dumps({"texts": lines}).encode())
        self.assertEqual((200, done.stdout.splitlines()), (code, [texts[0]["text"] for texts in answer["texts"]]))
        with concurrent.futures.ThreadPoolExecutor(3) as pool:
            single = list(pool.map(lambda line: server.ask("/api/text", json.dumps({"text": line}).encode()), lines))
        self.assertEqual(done.stdout.splitlines(), [answer["texts"][0][0]["text"] for _, answer in single])
        self.assertEqual(2, len(server.ask("/api/text?best=2", b'{"text": "one"}')[1]["texts"][0]))
        for body in (b"one", b"[]", b'{"texts": [1]}', b'{"texts": []}'):
            self.assertEqual(400, server.ask("/api/text", body)[0], body)

    @unittest.skipUnless(shutil.which("chromium"), "chromium is not installed: scripts/setup --oracles")
    def test_the_page_answers_a_text(self):
        server = self.serve(self.run_path())
        expected = server.ask("/api/text", b'{"text": "one two"}')[1]["texts"][0][0]["text"]
        _, until = self.open_page(server.address)
        until("document.getElementById('texts') && !document.getElementById('texts').hidden")
        until("document.getElementById('text').value = 'one two'")
        until("document.querySelector('#texts button').click() || true")
        self.assertEqual("none", until("getComputedStyle(document.getElementById('drop')).display"), "no place for pictures")
        until("document.querySelectorAll('#log div').length == 2")
        self.assertEqual(["one two", expected], until("[...document.querySelectorAll('#log div')].map(d => d.textContent)"))


if __name__ == "__main__":
    support.main()
