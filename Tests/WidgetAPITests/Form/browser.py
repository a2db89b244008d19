"""Uses a configuration form in headless Chromium as a person does, and fails with the first thing that is not as it should be.

usage: browser.py CHROMIUM URL TOKEN FOLDER

Speaks the DevTools protocol through a pipe. Screenshots go to FOLDER.
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


class Browser:
    def __init__(self, program, profile):
        from_browser, to_us = os.pipe()
        to_browser, from_us = os.pipe()

        def pipes():
            # The ends may have each other's numbers.
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
        deadline = time.monotonic() + 120
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

    def run(self, expression):
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, f"{expression}: {answer}"
        return answer["result"].get("value")

    def wait(self, expression, wanted=True):
        deadline = time.monotonic() + 60
        value = None
        while time.monotonic() < deadline:
            value = self.run(expression)
            if value == wanted:
                return
            time.sleep(0.05)
        raise AssertionError(f"{expression}: expected {wanted!r}, is {value!r}")

    def key(self, key, text=None):
        codes = {"Enter": 13, "Tab": 9, "Escape": 27, "ArrowUp": 38, "ArrowDown": 40, "Backspace": 8, " ": 32}
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

    def open(self, url, token, isReady):
        # The page's own requests must have the token without this.
        self.call("Network.setExtraHTTPHeaders", headers={"Authorization": f"Bearer {token}"})
        self.call("Page.navigate", url=url)
        self.wait(isReady)
        self.call("Network.setExtraHTTPHeaders", headers={})


def row(name):
    return f'[data-parameter="{name}"]'


def value(name):
    return f"document.querySelector('{row(name)} .combo').dataset.value"


def shown(name):
    return f"document.querySelector('{row(name)}').getClientRects().length > 0"


def use(browser, url, token, folder):
    ready = "document.querySelector('#form')?.dataset.ready === ''"
    browser.call("Emulation.setDeviceMetricsOverride", width=800, height=1000, deviceScaleFactor=1, mobile=False)
    browser.open(url, token, ready)
    browser.screenshot(f"{folder}/light.png")

    # Every control has a name.
    roles = {"textbox", "combobox", "spinbutton", "switch", "slider", "button", "listbox", "group"}
    for node in browser.call("Accessibility.getFullAXTree")["nodes"]:
        if node.get("role", {}).get("value") in roles and not node.get("ignored"):
            assert node.get("name", {}).get("value"), f"without a name: {node}"

    # By keyboard alone: the switch hides the row that depends on it, and shows it again.
    assert browser.run(shown("limit"))
    browser.run(f"document.querySelector('{row('hidden')} input').focus()")
    browser.key(" ")
    browser.wait(shown("limit"), False)
    browser.key(" ")
    browser.wait(shown("limit"))

    # Search as you type, in sections of the provider; the rest of the text is chosen with the keyboard.
    options = f"[...document.querySelectorAll('{row('card')} [role=option]')].map(o => o.dataset.display).join()"
    browser.run(f"document.querySelector('{row('card')} input').focus()")
    browser.key("ArrowDown")
    browser.wait(options, "ACME Card,SoupPay,Everyday Debit")
    titles = f"[...document.querySelectorAll('{row('card')} .title')].map(t => t.textContent).join()"
    assert browser.run(titles) == "Credit,Debit"
    browser.screenshot(f"{folder}/list.png")
    browser.type("debit")
    browser.wait(options, "Everyday Debit")
    browser.key("ArrowDown")
    browser.key("Enter")
    browser.wait(value("card"), '{"identifier":"debit","display":"Everyday Debit"}')
    # A text that nothing was chosen for is undone.
    browser.type("xyz")
    browser.wait(f"document.querySelector('{row('card')} .list').textContent", "Nothing found")
    browser.key("Escape")
    browser.wait(f"document.querySelector('{row('card')} input').value", "Everyday Debit")

    # By mouse: a list of the definition.
    browser.click(f"{row('category')} input")
    browser.wait(f"document.querySelectorAll('{row('category')} [role=option]').length", 2)
    browser.click(f"{row('category')} [role=option]:last-child")
    browser.wait(value("category"), '"groceries"')

    # Several values: add up to the limit, order, remove.
    browser.click(f"{row('shops')} .add")
    for number, text in enumerate(["acme", "soup"], 1):
        field = f"{row('shops')} li:nth-child({number})"
        browser.wait(f"document.querySelectorAll('{row('shops')} li').length", number)
        browser.run(f"document.querySelector('{field} input').focus()")
        browser.key("ArrowDown")
        browser.wait(f"document.querySelectorAll('{field} [role=option]').length", 3)
        browser.click(f"{field} [data-value*={text}]")
        browser.wait(f"JSON.parse(document.querySelector('{field} .combo').dataset.value || '{{}}').identifier", text)
        if number == 1:
            browser.click(f"{row('shops')} .add")
    assert browser.run(f"document.querySelector('{row('shops')} .add').disabled")
    assert browser.run(f"document.querySelector('{row('shops')} .count').textContent") == "2 of 2"
    browser.click(f"{row('shops')} li:nth-child(2) .up")
    browser.wait(f"JSON.parse(document.querySelector('{row('shops')} li .combo').dataset.value).identifier", "soup")
    browser.click(f"{row('shops')} li:nth-child(2) .remove")
    browser.wait(f"document.querySelectorAll('{row('shops')} li').length", 1)

    # A row is shown for its parent's date, however that is written. Its value is taken away.
    assert browser.run(shown("nickname"))
    browser.run(f"document.querySelector('{row('nickname')} input').select()")
    browser.key("Backspace")
    browser.wait(f"document.querySelector('{row('nickname')} input').value", "")

    # A stepper, and a number that is out of its bounds.
    limit = f"document.querySelector('{row('limit')} input')"
    browser.click(f"{row('limit')} .more")
    browser.wait(f"{limit}.value", "1")
    browser.click(f"{row('limit')} .more")
    browser.wait(f"{limit}.value", "2")
    browser.run(f"{limit}.value = 99")
    browser.click("[type=submit]")
    browser.wait(f"{limit}.getAttribute('aria-invalid')", "true")
    assert browser.run(f"document.querySelector('{row('limit')} .problem').textContent")
    browser.screenshot(f"{folder}/problem.png")
    browser.run(f"{limit}.value = 3")
    browser.run(f"{limit}.focus()")
    browser.key("Enter")
    browser.wait("document.querySelector('#status').textContent", "Saved")

    # A phone, light and dark.
    browser.call("Emulation.setDeviceMetricsOverride", width=390, height=844, deviceScaleFactor=2, mobile=True)
    browser.screenshot(f"{folder}/phone.png")
    browser.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark"}])
    browser.screenshot(f"{folder}/phone-dark.png")
    assert browser.run("document.documentElement.scrollWidth <= innerWidth"), "wider than the phone"
    assert browser.errors == [], browser.errors

    # Without JavaScript the values can be read.
    browser.call("Emulation.setScriptExecutionDisabled", value=True)
    browser.open(url, token, "document.readyState === 'complete' && document.querySelector('noscript p') !== null")
    browser.screenshot(f"{folder}/without-script.png")


def main():
    program, url, token, folder = sys.argv[1:]
    with tempfile.TemporaryDirectory() as profile:
        browser = Browser(program, profile)
        try:
            target = browser.call("Target.createTarget", url="about:blank")["targetId"]
            browser.session = browser.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
            for domain in ("Page", "Runtime", "Log", "Network", "Accessibility"):
                browser.call(f"{domain}.enable")
            use(browser, url, token, folder)
        finally:
            browser.end()


if __name__ == "__main__":
    main()
