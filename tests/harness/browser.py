# SPDX-License-Identifier: Apache-2.0
"""A headless Chromium, driven by chromedriver's WebDriver over HTTP: nothing but the standard library.

    with browser.Browser(directory) as window:
        window.open(path)
        window.wait("return document.documentElement.dataset.ready")
        window.click("#reset")
        window.text("#status")

The browser has a user directory of its own, and starts no connection of itself. `problems()` are messages of
the console, `requests()` what the page wanted to load. chromedriver and all it starts are one process group,
which ends with the process that made it.
"""
import base64
import contextlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import time
import urllib.error
import urllib.request

PATIENCE = 90   # seconds: only an end
ELEMENT = "element-6066-11e4-a52e-4f735466cecf"        # the key that WebDriver gives references (W3C)
ARGUMENTS = [
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-extensions",
    "--disable-sync",
    "--no-first-run",
    "--no-default-browser-check",
    "--disable-search-engine-choice-screen",
    "--metrics-recording-only",
    "--mute-audio",
    "--password-store=basic",
    "--use-mock-keychain",
    "--hide-scrollbars",
    "--force-color-profile=srgb",
    "--no-proxy-server",
    "--disable-features=Translate,OptimizationHints,MediaRouter,DialMediaRouteProvider,AutofillServerCommunication",
]


class Failure(Exception):
    """What WebDriver answers when something does not work."""


def find():
    """Paths of chromedriver and the browser, or None."""
    driver, chromium = shutil.which(
        "chromedriver"), shutil.which("chromium") or shutil.which("chromium-browser")
    return (driver, chromium) if driver and chromium else None


class Browser:
    def __init__(self, directory, width=1440, height=900, ratio=1, dark=False):
        self.directory = pathlib.Path(directory)
        self.options = (width, height, ratio, dark)
        self.driver = None
        self.session = None

    def __enter__(self):
        # a loaded machine may not bring a browser up in the time that chromedriver gives it
        for attempt in range(3):
            try:
                self._start(attempt)
                return self
            except (Failure, OSError) as error:
                self._stop()
                last = error
        raise last

    def __exit__(self, *_):
        self._stop()

    def _start(self, attempt):
        driver, chromium = find()
        home = self.directory / f"browser-{attempt}"
        home.mkdir(parents=True)
        log = (home / "driver.log").open("w+")
        environment = {
            "PATH": os.environ.get("PATH", ""), "HOME": str(home), "XDG_CONFIG_HOME": str(home),
            "XDG_CACHE_HOME": str(home), "XDG_RUNTIME_DIR": str(home), "TMPDIR": str(home), "LANG": "C.UTF-8",
            "TZ": "UTC"
        }
        # A group of its own, whose leader ends all of it when its input does: with _stop(), or when this
        # process dies, however it does
        self.driver = subprocess.Popen(
            ["/bin/sh", "-c", '"$@" & read -r _; kill -KILL 0', "sh", driver, "--port=0"],
            stdin=subprocess.PIPE, stdout=log, stderr=subprocess.STDOUT, env=environment,
            start_new_session=True)
        port = self._port(home / "driver.log")
        self.base = f"http://127.0.0.1:{port}/session"
        width, height, ratio, dark = self.options
        arguments = [
            *ARGUMENTS, f"--user-data-dir={home}/profile", f"--window-size={width},{height}",
            f"--force-device-scale-factor={ratio}", *(["--force-dark-mode"] if dark else [])
        ]
        made = self._call("POST", "", {"capabilities": {"alwaysMatch": {
            "browserName": "chrome", "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"},
            "timeouts": {"script": PATIENCE * 1000, "pageLoad": PATIENCE * 1000},
            "goog:chromeOptions": {"binary": chromium, "args": arguments}}}})
        self.session = made["sessionId"]
        self.emulate(width, height, ratio, dark)

    def _port(self, log):
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end and self.driver.poll() is None:
            found = re.search(r"successfully on port (\d+)", log.read_text(errors="replace"))
            if found:
                return int(found.group(1))
            time.sleep(0.05)
        raise Failure(f"chromedriver did not start: {log.read_text(errors='replace')}")

    def _stop(self):
        if self.session:
            with contextlib.suppress(Failure, OSError):
                self._call("DELETE", "")
        self.session = None
        if self.driver:
            self.driver.stdin.close()
            self.driver.wait()
        self.driver = None

    def _call(self, method, path, body=None):
        url = f"{self.base}/{self.session}{path}" if self.session else self.base
        request = urllib.request.Request(url, method=method,
                                         data=json.dumps(body).encode() if body is not None else None,
                                         headers={"Content-Type": "application/json"})
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(request, timeout=2 * PATIENCE) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            value = json.loads(error.read())["value"]
            raise Failure(f"{value.get('error')}: {value.get('message')}") from None

    def devtools(self, command, **parameters):
        return self._call("POST", "/goog/cdp/execute", {"cmd": command, "params": parameters})

    def emulate(self, width, height, ratio=1, dark=False, reduced=True):
        """A screen: sizes in CSS pixels, and what its user prefers."""
        self.devtools("Emulation.setDeviceMetricsOverride", width=width, height=height,
                      deviceScaleFactor=ratio, mobile=False)
        self.devtools("Emulation.setEmulatedMedia", features=[
            {"name": "prefers-color-scheme", "value": "dark" if dark else "light"},
            {"name": "prefers-reduced-motion", "value": "reduce" if reduced else "no-preference"}])

    def open(self, path):
        self._call("POST", "/url", {"url": pathlib.Path(path).absolute().as_uri()})

    def run(self, script, *arguments):
        """The result of a function's body in the page; `arguments[0]` … are its arguments."""
        return self._call("POST", "/execute/sync", {"script": script, "args": list(arguments)})

    def wait(self, script, *arguments):
        """The result of a function's body as soon as it is something."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            result = self.run(script, *arguments)
            if result:
                return result
            time.sleep(0.05)
        raise Failure(f"never came true: {script} {arguments}")

    def find(self, selector):
        return self._call("POST", "/element", {"using": "css selector", "value": selector})[ELEMENT]

    def click(self, selector):
        self._call("POST", f"/element/{self.find(selector)}/click", {})

    def type(self, selector, text):
        self._call("POST", f"/element/{self.find(selector)}/clear", {})
        self._call("POST", f"/element/{self.find(selector)}/value", {"text": text})

    def text(self, selector):
        return self.run("return document.querySelector(arguments[0]).innerText", selector)

    def key(self, *keys):
        """Presses keys, one after the other, in whatever has the focus."""
        actions = [{"type": kind, "value": key} for key in keys for kind in ("keyDown", "keyUp")]
        self._call("POST", "/actions", {"actions": [{"type": "key", "id": "keyboard", "actions": actions}]})

    def drag(self, start, end):
        """Moves the pressed pointer between points of the window."""
        self._call(
            "POST", "/actions", {
                "actions": [{
                    "type": "pointer", "id": "mouse", "parameters": {"pointerType": "mouse"}, "actions": [{
                        "type": "pointerMove", "duration": 0, "x": round(start[0]), "y": round(start[1])
                    }, {"type": "pointerDown", "button": 0}, {
                        "type": "pointerMove", "duration": 50, "x": round(
                            (start[0] + end[0]) / 2), "y": round(end[1])
                    }, {"type": "pointerMove", "duration": 50, "x": round(end[0]), "y": round(end[1])
                        }, {"type": "pointerUp", "button": 0}]
                }]
            })

    def click_at(self, x, y):
        self._call(
            "POST", "/actions", {
                "actions": [{
                    "type": "pointer", "id": "mouse", "parameters": {"pointerType": "mouse"}, "actions": [{
                        "type": "pointerMove", "duration": 0, "x": round(x), "y": round(y)
                    }, {"type": "pointerDown", "button": 0}, {"type": "pointerUp", "button": 0}]
                }]
            })

    def screenshot(self, path):
        pathlib.Path(path).write_bytes(base64.b64decode(self._call("GET", "/screenshot")))

    def problems(self):
        """Warnings and errors of the console since the last call."""
        return [
            f"{entry['level']}: {entry['message']}"
            for entry in self._call("POST", "/se/log", {"type": "browser"})
            if entry["level"] in ("WARNING", "SEVERE")
        ]

    def requests(self):
        """Addresses that were asked for since the last call, but for the browser's own pages."""
        events = (json.loads(entry["message"])["message"]
                  for entry in self._call("POST", "/se/log", {"type": "performance"}))
        urls = [
            event["params"]["request"]["url"] for event in events
            if event["method"] == "Network.requestWillBeSent"
        ]
        # the empty tab of the start may still be loading
        return [url for url in urls if not url.startswith("chrome://")]

    def accessible(self):
        """The accessibility tree, flat: a list of {role, name, …} of what is not ignored."""
        self.devtools("Accessibility.enable")
        nodes = self.devtools("Accessibility.getFullAXTree")["nodes"]
        return [{"role": node.get("role", {}).get("value"), "name": node.get("name", {}).get("value", ""),
                 **{p["name"]: p["value"].get("value") for p in node.get("properties", [])}}
                for node in nodes if not node.get("ignored")]
