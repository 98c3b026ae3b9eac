"""Debian's chromium without a window, spoken to by its DevTools protocol."""

import base64
import json
import os
import shutil
import socket
import struct
import subprocess
import sys
import time
import urllib.parse
import urllib.request

PATIENCE = 90  # seconds, for each of server, data and browser


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
