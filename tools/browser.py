"""A headless Chromium for looking at pages: its DevTools protocol over two pipes, by the standard library alone."""

import base64
import json
import os
import pathlib
import select
import shutil
import subprocess
import tempfile
import time

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
LIMIT_S = 60


def find():
    """The path of a Chromium, or None."""
    return next((path for path in map(shutil.which, NAMES) if path), None)


class Browser:
    """with Browser() as browser: browser.open(page, width=375, dark=True); browser.evaluate("1 + 1")"""

    def __enter__(self):
        self.home = tempfile.mkdtemp(prefix="thinwire_browser_")
        to_read, self.to = os.pipe()
        self.back, to_write = os.pipe()
        # Chromium reads commands from descriptor 3 and answers on 4.
        command = ["sh", "-c", f'exec "$0" "$@" 3<&{to_read} 4>&{to_write}', find(), "--headless", "--no-sandbox",
                   "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars", "--no-first-run",
                   "--remote-debugging-pipe", f"--user-data-dir={self.home}"]
        self.process = subprocess.Popen(command, pass_fds=(to_read, to_write), stdin=subprocess.DEVNULL,
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_read)
        os.close(to_write)
        self.number, self.unread, self.events, self.session = 0, b"", [], None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()
        os.close(self.to)
        os.close(self.back)
        shutil.rmtree(self.home, ignore_errors=True)

    def receive(self, until):
        while b"\0" not in self.unread:
            if not select.select([self.back], [], [], max(0, until - time.monotonic()))[0]:
                raise TimeoutError(f"Chromium said nothing for {LIMIT_S} s")
            more = os.read(self.back, 1 << 20)
            if not more:
                raise RuntimeError("Chromium ended")
            self.unread += more
        message, self.unread = self.unread.split(b"\0", 1)
        return json.loads(message)

    def call(self, method, **parameters):
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.to, json.dumps(message).encode() + b"\0")
        until = time.monotonic() + LIMIT_S
        while True:
            answer = self.receive(until)
            if answer.get("id") != self.number:
                self.events.append(answer)
            elif "error" in answer:
                raise RuntimeError(f"{method}: {answer['error']['message']}")
            else:
                return answer["result"]

    def open(self, page, width=1200, height=900, dark=False):
        """Loads a file and waits until its script has run."""
        self.events.clear()
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=2, mobile=width < 600)
        self.call("Emulation.setEmulatedMedia",
                  features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
        self.call("Page.navigate", url=pathlib.Path(page).resolve().as_uri())
        until = time.monotonic() + LIMIT_S
        while self.evaluate("document.readyState + document.documentElement?.dataset.ready") != "completeyes":
            if time.monotonic() > until:
                raise TimeoutError(f"{page} did not get ready")
            time.sleep(0.02)

    def evaluate(self, expression):
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(f"{expression}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def complaints(self):
        """Errors and warnings of the console since the page was opened."""
        found = [e for e in self.events if e.get("method") == "Runtime.exceptionThrown"
                 or (e.get("method") == "Runtime.consoleAPICalled" and e["params"]["type"] in ("error", "warning", "assert"))
                 or (e.get("method") == "Log.entryAdded" and e["params"]["entry"]["level"] in ("error", "warning"))]
        return [json.dumps(event["params"]) for event in found]

    def requests(self):
        """Every address that the page asked for."""
        return [e["params"]["request"]["url"] for e in self.events if e.get("method") == "Network.requestWillBeSent"]

    def point_at(self, x, y):
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def screenshot(self, path, until="body"):
        """The page at its whole width, from the top down to the end of an element."""
        width, height = self.evaluate(f"[innerWidth, document.querySelector({until!r}).getBoundingClientRect().bottom + scrollY]")
        height += 0 if until == "body" else 24
        shot = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True,
                         clip={"x": 0, "y": 0, "width": width, "height": height, "scale": 1})
        pathlib.Path(path).write_bytes(base64.b64decode(shot["data"]))
