"""Headless Chromium for tests of pages, driven through the DevTools protocol over a pipe.

A script of a test imports `run` and passes it a function that uses the browser:

    def use(browser, url, folder): ...
    run(use)

`HeadlessBrowser.swift` starts the script with the path of Chromium and the arguments of the function.
"""

import base64
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time

# Time limit of all waits, in seconds, as in `Patience.swift`.
PATIENCE = int(os.environ.get("FRESHET_TEST_PATIENCE") or 300)

CONTROLS = {"textbox", "combobox", "spinbutton", "switch", "slider", "button", "link", "listbox", "group"}

# Returns a list of accessibility problems.
AUDIT = r"""
(() => {
    const complaints = [];
    // Hidden content can be opened.
    const closed = [...document.querySelectorAll("details:not([open])")];
    for (const e of closed) e.open = true;
    const say = (text, element) => complaints.push(`${text}: ${element?.outerHTML?.slice(0, 120) ?? ""}`);
    const shown = (e) => e.getClientRects().length > 0 && getComputedStyle(e).visibility !== "hidden";
    if (!document.documentElement.lang) say("no language");
    if (!document.title) say("no title");
    for (const name of ["main", "header"])
        if (document.querySelectorAll(`body > ${name}`).length !== 1) say(`not one landmark ${name}`);
    for (const nav of document.querySelectorAll("nav")) if (!nav.getAttribute("aria-label")) say("nav without a name", nav);
    const headings = [...document.querySelectorAll("h1, h2, h3, h4, h5, h6")].filter(shown);
    if (headings.filter((h) => h.tagName === "H1").length !== 1) say("not one h1");
    let level = 0;
    for (const heading of headings) {
        const next = Number(heading.tagName[1]);
        if (next > level + 1) say(`heading skips from ${level} to ${next}`, heading);
        if (!heading.textContent.trim()) say("empty heading", heading);
        level = next;
    }
    const ids = [...document.querySelectorAll("[id]")].map((e) => e.id);
    for (const id of new Set(ids)) if (ids.filter((i) => i === id).length > 1) say(`id ${id} is used twice`);
    for (const e of document.querySelectorAll("[aria-labelledby], [aria-describedby]"))
        for (const id of `${e.getAttribute("aria-labelledby") ?? ""} ${e.getAttribute("aria-describedby") ?? ""}`.trim().split(/\s+/))
            if (!document.getElementById(id)) say(`no element ${id}`, e);
    for (const field of document.querySelectorAll("input:not([type=hidden]), select, textarea"))
        if (!field.labels?.length && !field.getAttribute("aria-label")) say("field without a label", field);
    for (const e of document.querySelectorAll("a, button"))
        if (shown(e) && !e.textContent.trim() && !e.getAttribute("aria-label")) say("control without a name", e);
    for (const svg of document.querySelectorAll("svg"))
        if (svg.getAttribute("aria-hidden") !== "true" && !(svg.getAttribute("role") === "img"
            && (svg.getAttribute("aria-label") || svg.getAttribute("aria-labelledby")))) say("drawing without a text", svg);
    for (const table of document.querySelectorAll("table"))
        if (!table.querySelector("th[scope=col]")) say("table without headers", table);
    for (const e of document.querySelectorAll("[tabindex]")) if (e.tabIndex > 0) say("positive tabindex", e);
    for (const e of document.querySelectorAll("main *"))
        if (shown(e) && e.scrollWidth > e.clientWidth + 1 && ["auto", "scroll"].includes(getComputedStyle(e).overflowX)
            && e.tabIndex < 0 && !e.querySelector("a, button, input")) say("scrolls, but not by keyboard", e);
    // A table that is wider than the page shades the edge behind which columns are hidden.
    for (const table of document.querySelectorAll("table")) {
        let e = table.parentElement;
        while (e && e.scrollWidth <= e.clientWidth + 1) e = e.parentElement;
        if (shown(table) && e && !getComputedStyle(e).backgroundAttachment.includes("local")) say("hides columns without a hint", e);
    }
    if (document.documentElement.scrollWidth > innerWidth) say(`wider than the window: ${document.documentElement.scrollWidth}`);

    const rgba = (text) => {
        const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
        canvas.fillStyle = text;
        canvas.fillRect(0, 0, 1, 1);
        return [...canvas.getImageData(0, 0, 1, 1).data];
    };
    const luminance = ([r, g, b]) => {
        const [x, y, z] = [r, g, b].map((c) => (c /= 255) <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
        return 0.2126 * x + 0.7152 * y + 0.0722 * z;
    };
    const cache = new Map();
    const color = (text) => cache.get(text) ?? (cache.set(text, rgba(text)), cache.get(text));
    const back = (e) => {
        for (; e; e = e.parentElement) {
            const found = color(getComputedStyle(e).backgroundColor);
            if (found[3] > 250) return found;
        }
        return [255, 255, 255, 255];
    };
    // Paints a colour over another one.
    const over = (paint, ground, opacity = 1) => {
        const alpha = paint[3] / 255 * opacity;
        return paint.map((part, index) => index < 3 ? part * alpha + ground[index] * (1 - alpha) : 255);
    };
    const requireContrast = (e, style, paint) => {
        const ground = back(e);
        const shownColor = over(color(paint), ground, Number(style.opacity));
        const [one, two] = [luminance(shownColor), luminance(ground)].sort((a, b) => b - a);
        const ratio = (one + 0.05) / (two + 0.05);
        const isLarge = parseFloat(style.fontSize) >= 24 || parseFloat(style.fontSize) >= 18.6 && style.fontWeight >= 700;
        if (ratio < (isLarge ? 3 : 4.5)) say(`contrast ${ratio.toFixed(2)}`, e);
    };
    for (const e of document.querySelectorAll("body *")) {
        const texts = [...e.childNodes].filter((n) => n.nodeType === 3 && n.textContent.trim());
        if (!texts.length || !shown(e) || e.closest(".skip")) continue;
        const style = getComputedStyle(e);
        requireContrast(e, style, e.closest("svg") ? style.fill : style.color);
        if (e.closest("svg")) continue;
        // A word is not broken, unless it is longer than those of a language, and neither is a short name.
        for (const text of texts)
            for (const word of text.textContent.matchAll(/(?<!\S)(?:\p{L}{2,20}|[\p{L}.]{2,16})(?!\S)/gu)) {
                const range = document.createRange();
                range.setStart(text, word.index);
                range.setEnd(text, word.index + word[0].length);
                if (new Set([...range.getClientRects()].map((r) => Math.round(r.top))).size > 1) say(`broken word ${word[0]}`, e);
            }
    }
    for (const e of document.querySelectorAll("input[placeholder], textarea[placeholder]")) {
        const style = getComputedStyle(e, "::placeholder");
        if (shown(e)) requireContrast(e, style, style.color);
    }
    for (const e of closed) e.open = false;
    return complaints;
})()
"""


class Browser:
    def __init__(self, program, profile):
        from_browser, to_us = os.pipe()
        to_browser, from_us = os.pipe()

        def pipes():
            # The pipes may already use 3 and 4.
            read, write = os.dup(to_browser), os.dup(to_us)
            os.dup2(read, 3)
            os.dup2(write, 4)

        # Only these two files are inherited.
        self.process = subprocess.Popen(
            [program, "--headless=new", "--remote-debugging-pipe", "--no-sandbox", "--disable-gpu",
             "--disable-dev-shm-usage", "--no-first-run", "--disable-background-networking",
             f"--user-data-dir={profile}", "about:blank"],
            preexec_fn=pipes, close_fds=False, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_us)
        os.close(to_browser)
        self.reading, self.writing = from_browser, from_us
        self.rest, self.number, self.session = b"", 0, None
        self.errors = []

    def end(self):
        """Kills all of the browser's processes, and waits until none can write to the profile any more."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            try:
                os.killpg(self.process.pid, 0)
            except (ProcessLookupError, PermissionError):
                return
            time.sleep(0.02)

    def message(self, deadline):
        while b"\0" not in self.rest:
            left = deadline - time.monotonic()
            assert left > 0 and select.select([self.reading], [], [], left)[0], "the browser does not answer"
            part = os.read(self.reading, 1 << 20)
            assert part, "the browser has ended"
            self.rest += part
        text, self.rest = self.rest.split(b"\0", 1)
        return json.loads(text)

    def call(self, method, **parameters):
        self.number += 1
        request = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            request["sessionId"] = self.session
        os.write(self.writing, json.dumps(request).encode() + b"\0")
        deadline = time.monotonic() + PATIENCE
        while True:
            message = self.message(deadline)
            self.note(message)
            if message.get("id") == self.number:
                assert "error" not in message, f"{method}: {message}"
                return message["result"]

    def note(self, message):
        parameters = message.get("params", {})
        if message.get("method") == "Runtime.exceptionThrown":
            self.errors.append(parameters["exceptionDetails"].get("exception", parameters["exceptionDetails"]))
        if message.get("method") == "Log.entryAdded" and parameters["entry"]["level"] == "error":
            self.errors.append(parameters["entry"]["text"])
        if message.get("method") == "Runtime.consoleAPICalled" and parameters["type"] in ("error", "warning"):
            self.errors.append([part.get("value", part.get("description")) for part in parameters["args"]])

    def run(self, expression):
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, f"{expression}: {answer}"
        return answer["result"].get("value")

    def wait(self, expression, wanted=True):
        deadline = time.monotonic() + PATIENCE
        value = None
        while time.monotonic() < deadline:
            value = self.run(expression)
            if value == wanted:
                return
            time.sleep(0.05)
        raise AssertionError(f"{expression}: expected {wanted!r}, is {value!r}")

    def key(self, key, text=None):
        codes = {"Enter": 13, "Tab": 9, "Escape": 27, "End": 35, "Home": 36, "ArrowLeft": 37,
                 "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40, "Backspace": 8, " ": 32}
        values = dict(key=key, code="Space" if key == " " else key, windowsVirtualKeyCode=codes[key])
        text = {"Enter": "\r", " ": " "}.get(key)
        self.call("Input.dispatchKeyEvent", type="keyDown" if text else "rawKeyDown", **values, **({"text": text} if text else {}))
        self.call("Input.dispatchKeyEvent", type="keyUp", **values)

    def type(self, text):
        self.call("Input.insertText", text=text)

    def click(self, selector):
        place = self.run(
            "(() => { const e = document.querySelector(%s); e.scrollIntoView({block: 'center'});"
            " const r = e.getBoundingClientRect(); return [r.x + r.width / 2, r.y + r.height / 2] })()" % json.dumps(selector))
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=place[0], y=place[1], button="left", clickCount=1)

    def screenshot(self, path):
        answer = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True)
        with open(path, "wb") as file:
            file.write(base64.b64decode(answer["data"]))

    def open(self, url, is_ready, token=None):
        """Opens a page and waits until an expression is true. The page's own requests do not get the token."""
        if token:
            self.call("Network.setExtraHTTPHeaders", headers={"Authorization": f"Bearer {token}"})
        self.call("Page.navigate", url=url)
        self.wait(is_ready)
        if token:
            self.call("Network.setExtraHTTPHeaders", headers={})

    def window(self, width, height=1000, is_phone=False, is_dark=False):
        """Sets size and colours of the window."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height,
                  deviceScaleFactor=2 if is_phone else 1, mobile=is_phone)
        self.call("Emulation.setEmulatedMedia",
                  features=[{"name": "prefers-color-scheme", "value": "dark" if is_dark else "light"}])

    def set_scripts(self, are_enabled):
        self.call("Emulation.setScriptExecutionDisabled", value=not are_enabled)

    def require_names(self):
        """Fails for a control without an accessible name. The name of a `details` is that of its summary."""
        for node in self.call("Accessibility.getFullAXTree")["nodes"]:
            is_control = node.get("role", {}).get("value") in CONTROLS and not node.get("ignored")
            if is_control and not node.get("name", {}).get("value"):
                element = self.call("DOM.describeNode", backendNodeId=node["backendDOMNodeId"])["node"]
                assert element["nodeName"] == "DETAILS", f"without a name: {node}"

    def audit(self, what):
        """Fails for accessibility problems of the page, and for errors and warnings since the start."""
        complaints = self.run(AUDIT)
        assert complaints == [], f"{what}: " + "\n".join(complaints)
        self.require_names()
        assert self.errors == [], f"{what}: {self.errors}"


def run(use):
    """Calls `use` with a browser and the program's arguments: CHROMIUM ARGUMENT..."""
    program, *arguments = sys.argv[1:]
    with tempfile.TemporaryDirectory() as profile:
        browser = Browser(program, profile)
        try:
            target = browser.call("Target.createTarget", url="about:blank")["targetId"]
            browser.session = browser.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
            for domain in ("Page", "Runtime", "Log", "Network", "Accessibility"):
                browser.call(f"{domain}.enable")
            use(browser, *arguments)
        finally:
            browser.end()
