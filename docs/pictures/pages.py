"""docs/serve_*.png: the page of `lockstep serve` in Chromium, with models that were trained for it."""

import base64
import os
import re
import subprocess
import sys
import tempfile
import time

from screens import png, read_idx

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../tests/oracles"))
import browser  # noqa: E402

LARGER = 8  # times
QUESTIONS = ("How are you doing?", "What is AI?", "Tell me a joke")


class Page:
    """The page of a run, in a browser of its own."""

    def __init__(self, program, run, profile):
        self.server = subprocess.Popen([program.path, "serve", run, "--port", "0"], text=True, stdout=subprocess.PIPE,
                                       stderr=subprocess.DEVNULL, cwd=program.work)
        address = re.search(r"http://\S+", self.server.stdout.readline())[0]
        self.browser = browser.start_browser(profile)
        self.page = browser.open_page(self.browser, profile)
        self.page.call("Emulation.setDeviceMetricsOverride", width=720, height=560, deviceScaleFactor=1, mobile=False)
        self.page.call("Page.navigate", url=address)
        self.until("!document.getElementById('drop').hidden || !document.getElementById('texts').hidden")

    def until(self, expression):
        end = time.monotonic() + browser.PATIENCE
        while time.monotonic() < end:
            found = self.page.call("Runtime.evaluate", expression=expression, returnByValue=True)
            if found["result"].get("value"):
                return
            time.sleep(0.1)
        raise SystemExit(f"never true: {expression}")

    def save(self, path):
        with open(path, "wb") as file:
            file.write(base64.b64decode(self.page.call("Page.captureScreenshot", format="png")["data"]))

    def close(self):
        for process in (self.browser, self.server):
            process.terminate()
            process.wait()


def ask(page):
    for number, question in enumerate(QUESTIONS):
        page.until(f"(document.getElementById('text').value = {question!r})")
        page.until("document.querySelector('#texts button').click() || true")
        page.until(f"document.querySelectorAll('#log div').length == {2 * number + 2}")


def show_boot(page, folder):
    images, labels = read_idx("t10k-images-idx3-ubyte.gz"), read_idx("t10k-labels-idx1-ubyte.gz")
    first = 784 * labels.index(9)
    small = images[first:first + 784]
    side = 28 * LARGER
    png(f"{folder}/boot.png", bytes(small[y // LARGER * 28 + x // LARGER] for y in range(side) for x in range(side)), side)
    root = page.page.call("DOM.getDocument")["root"]["nodeId"]
    chosen = page.page.call("DOM.querySelector", nodeId=root, selector="#file")["nodeId"]
    page.page.call("DOM.setFileInputFiles", nodeId=chosen, files=[f"{folder}/boot.png"])
    page.until("document.querySelector('#log td') !== null")


def pages(program, docs):
    for recipe, fields, act in (("chat", (), lambda page, _: ask(page)), ("fashion", ("train.epochs=1",), show_boot)):
        run = f"runs/{recipe}"  # as the page shows it
        program.folder("runs")
        program.train(recipe, run, *fields)
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            page = Page(program, run, folder)
            try:
                act(page, folder)
                page.save(os.path.join(docs, f"serve_{recipe}.png"))
            finally:
                page.close()
