#!/usr/bin/env python3
"""Opens a run in the real TensorBoard and saves what a browser shows.

Usage: tensorboard_picture.py RUN_DIR OUT.png [TAB]

TAB is a dashboard: timeseries (the default), scalars, images, graphs, distributions, histograms,
text, hparams. Needs the package `tensorboard` and Debian's `chromium`; speaks to the browser by its
DevTools protocol, since charts are drawn in real time. Exits 1 if there is no picture.
"""

import base64
import os
import subprocess
import sys
import tempfile
import time
import urllib.parse

from browser import fetch, free_port, open_page, start_browser, wait_until

DRAWING = 12  # seconds that charts and their animations are given

# More room for the charts.
CLOSE_SETTINGS = """
[...document.querySelectorAll('button')].filter(b => b.innerText.trim().endsWith('Settings'))
    .forEach(b => b.click())
"""


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
