#!/usr/bin/env python3
"""Opens a run in the real TensorBoard and saves what a browser shows.

Usage: tensorboard_picture.py RUN_DIR OUT.png [TAB]

TAB is a dashboard: timeseries (the default), scalars, images, graphs, distributions, histograms,
text, hparams. Needs the package `tensorboard` and Debian's `chromium`; speaks to the browser by its
DevTools protocol, since charts are drawn in real time. Exits 1 if there is no picture.
"""

import base64
import json
import os
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request

PATIENCE = 90  # seconds, for each of server, data and browser
DRAWING = 12  # seconds that charts and their animations are given

# More room for the charts.
CLOSE_SETTINGS = """
[...document.querySelectorAll('button')].filter(b => b.innerText.trim().endsWith('Settings'))
    .forEach(b => b.click())
"""


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_until(what, process, attempt):
    """Returns the first answer of `attempt` that is not empty."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        if process.poll() is not None:
            sys.exit(f"{what}: the program ended with {process.returncode}")
        try:
            answer = attempt()
            if answer:
                return answer
        except OSError:
            pass
        time.sleep(0.3)
    sys.exit(f"{what}: nothing after {PATIENCE} s")


def fetch(address):
    with urllib.request.urlopen(address, timeout=5) as answer:
        return json.load(answer)


class DevTools:
    """A page of the browser: a WebSocket client (RFC 6455) of as little as is needed."""

    def __init__(self, address):
        url = urllib.parse.urlparse(address)
        self.stream = socket.create_connection((url.hostname, url.port), timeout=PATIENCE)
        self.number = 0
        key = base64.b64encode(os.urandom(16)).decode()
        self.stream.sendall(
            (f"GET {url.path} HTTP/1.1\r\nHost: {url.netloc}\r\nUpgrade: websocket\r\n"
             f"Connection: Upgrade\r\nSec-WebSocket-Key: {key}\r\n"
             "Sec-WebSocket-Version: 13\r\n\r\n").encode())
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            head += self.receive(1)
        if b" 101 " not in head.split(b"\r\n")[0]:
            sys.exit(f"the browser refused a connection: {head!r}")

    def receive(self, count):
        data = b""
        while len(data) < count:
            piece = self.stream.recv(count - len(data))
            if not piece:
                sys.exit("the browser closed the connection")
            data += piece
        return data

    def message(self):
        text, final = b"", False
        while not final:
            first, length = self.receive(2)
            if length == 126:
                (length,) = struct.unpack(">H", self.receive(2))
            elif length == 127:
                (length,) = struct.unpack(">Q", self.receive(8))
            text, final = text + self.receive(length), bool(first & 0x80)
        return json.loads(text or b"{}")

    def call(self, method, **parameters):
        self.number += 1
        text = json.dumps({"id": self.number, "method": method, "params": parameters}).encode()
        mask = os.urandom(4)
        masked = bytes(byte ^ mask[i % 4] for i, byte in enumerate(text))
        self.stream.sendall(struct.pack(">BBH", 0x81, 0xFE, len(text)) + mask + masked)
        while True:
            answer = self.message()
            if answer.get("id") == self.number:
                if "error" in answer:
                    sys.exit(f"{method}: {answer['error']}")
                return answer["result"]


def start_browser(profile):
    program = shutil.which("chromium")
    if not program:
        sys.exit("chromium is not installed (Debian: apt-get install chromium)")
    return subprocess.Popen(
        [program, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
         "--hide-scrollbars", "--no-first-run", "--remote-debugging-port=0",
         f"--user-data-dir={profile}", "--window-size=1600,1200", "about:blank"],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def open_page(browser, profile):
    def pages():
        with open(os.path.join(profile, "DevToolsActivePort"), encoding="ascii") as file:
            port = file.readline().strip()
        return [p for p in fetch(f"http://127.0.0.1:{port}/json/list") if p["type"] == "page"]

    return DevTools(wait_until("browser", browser, pages)[0]["webSocketDebuggerUrl"])


def take_picture(page, address):
    page.call("Emulation.setDeviceMetricsOverride", width=1600, height=1200, deviceScaleFactor=1,
              mobile=False)
    page.call("Page.navigate", url=address)
    time.sleep(DRAWING)
    page.call("Runtime.evaluate", expression=CLOSE_SETTINGS)
    time.sleep(DRAWING / 3)
    return base64.b64decode(page.call("Page.captureScreenshot", format="png")["data"])


def main():
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    run, out = (os.path.abspath(path) for path in sys.argv[1:3])
    tab = sys.argv[3] if len(sys.argv) == 4 else "timeseries"
    address = f"http://127.0.0.1:{free_port()}/"
    started = []
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        try:
            started.append(subprocess.Popen(
                [sys.executable, "-m", "tensorboard.main", "--logdir", run, "--host", "127.0.0.1",
                 "--port", str(urllib.parse.urlparse(address).port), "--reload_interval", "5"],
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
            wait_until("tensorboard", started[0], lambda: fetch(address + "data/runs"))
            started.append(start_browser(profile))
            picture = take_picture(open_page(started[1], profile), f"{address}#{tab}")
        finally:
            for process in started:
                process.terminate()
                process.wait()
    with open(out, "wb") as file:
        file.write(picture)
    print(out)


if __name__ == "__main__":
    main()
