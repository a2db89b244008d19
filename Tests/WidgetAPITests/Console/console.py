"""Uses the console in headless Chromium as an operator does, and fails with the first thing that is not as it should be.

usage: console.py CHROMIUM URL TOKEN VIEWER PIPE FOLDER

Asks the test for changes by writing a line to PIPE.request, and waits for PIPE.done. Screenshots go to FOLDER.
"""

import json
import os
import time

from browser import PATIENCE, run

# Width of the window, unless it is that of a phone.
WIDE = 1440

READY = "document.readyState === 'complete' && document.querySelector('main h1') !== null && location.pathname === %s"

# Cards with an empty third, and rows of cards with an empty column.
GAPS = """
(() => {
    const isShown = (e) => e.getClientRects().length > 0;
    const bottom = (e) => Math.max(...[...e.children].filter(isShown).map((c) => c.getBoundingClientRect().bottom));
    const cards = [...document.querySelectorAll('main .card, main figure')].filter(isShown).filter((card) => {
        const box = card.getBoundingClientRect();
        return box.bottom - bottom(card) > box.height / 3;
    });
    const rows = [...document.querySelectorAll('main :is(.grid, .wide, .charts)')].filter((row) => {
        const last = [...row.children].filter(isShown).at(-1);
        return last && row.getBoundingClientRect().right - last.getBoundingClientRect().right > 2;
    });
    const tables = [...document.querySelectorAll('main .scroll')].filter((e) => e.scrollWidth > e.clientWidth + 1);
    return [...cards, ...rows, ...tables].map((e) => e.outerHTML.slice(0, 150));
})()
"""

# Times that are not relative with the exact one as the title, apart from those in code.
TIMES = r"""
(() => {
    const walker = document.createTreeWalker(document.querySelector("main"), NodeFilter.SHOW_TEXT);
    const found = [];
    for (let text = walker.nextNode(); text; text = walker.nextNode())
        if (/\d{4}-\d\d-\d\d[T ]\d\d:\d\d/.test(text.data) && !text.parentElement.closest("pre, code, svg, .date"))
            found.push(text.data.trim());
    for (const time of document.querySelectorAll("main time"))
        if (!/^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d /.test(time.title) || !/^(now|\d+ \w+ (ago|from now))$/.test(time.textContent))
            found.push(time.outerHTML);
    return found;
})()
"""

# A message; that of the lost connection is hidden while there is one.
STATUS = "main [role=status]:not([hidden])"


class Console:
    def __init__(self, browser, url, pipe, folder):
        self.browser, self.url, self.pipe, self.folder = browser, url, pipe, folder
        self.asked = 0

    def open(self, path):
        self.browser.open(self.url + path, READY % json.dumps(path.split("?")[0]))

    def look(self, path, name):
        """Audits a page, or without a path the present one, in both widths and colours, and takes screenshots."""
        for width in (WIDE, 390):
            for is_dark in (False, True):
                self.browser.window(width, is_phone=width == 390, is_dark=is_dark)
                if path:
                    self.open(path)
                height = min(6000, self.browser.run("document.documentElement.scrollHeight"))
                self.browser.window(width, height, is_phone=width == 390, is_dark=is_dark)
                self.browser.audit(f"{name} {width} {'dark' if is_dark else 'light'}")
                if width == WIDE:
                    gaps = self.browser.run(GAPS)
                    assert gaps == [], f"{name}: empty parts or hidden columns: {gaps}"
                times = self.browser.run(TIMES)
                assert times == [], f"{name}: {times}"
                self.browser.screenshot(f"{self.folder}/{name}-{width}-{'dark' if is_dark else 'light'}.png")
        self.browser.window(WIDE)

    def submit(self, selector, then):
        """Clicks a button that sends a form, and waits for the next page."""
        self.browser.run("window.isOld = true")
        self.browser.click(selector)
        self.browser.wait(f"!window.isOld && document.readyState === 'complete' && ({then})")
        self.browser.audit(selector)

    def choose_manifest(self, content):
        """Chooses a file with the content, as the system's dialog does, and waits until the page has read it."""
        path = f"{self.folder}/chosen.yaml"
        with open(path, "w") as file:
            file.write(content)
        field = self.browser.call("Runtime.evaluate", expression="document.querySelector('[data-file] input')")
        self.browser.call("DOM.setFileInputFiles", files=[path], objectId=field["result"]["objectId"])
        self.browser.wait("document.querySelector('#manifest').value", content)
        os.remove(path)

    def ask(self, change):
        """Has the test change something."""
        self.asked += 1
        with open(f"{self.pipe}.request.{self.asked}.part", "w") as file:
            file.write(change)
        os.rename(f"{self.pipe}.request.{self.asked}.part", f"{self.pipe}.request.{self.asked}")
        deadline = time.monotonic() + PATIENCE
        while not os.path.exists(f"{self.pipe}.done.{self.asked}"):
            assert time.monotonic() < deadline, f"the test does not {change}"
            time.sleep(0.02)


def reach(browser, selector):
    """Moves the focus to an element by the Tab key."""
    for _ in range(100):
        browser.key("Tab")
        if browser.run(f"document.activeElement.matches({json.dumps(selector)})"):
            return
    raise AssertionError(f"the keyboard does not reach {selector}")


def text(selector):
    return f"(document.querySelector({json.dumps(selector)})?.textContent ?? '')"


def sign_in(console, token):
    console.open("/console/sign-in")
    console.browser.run(f"document.querySelector('#token').value = {json.dumps(token)}")
    console.submit("main button", "location.pathname === '/console'")


def refused_sign_in(console):
    """The page of a refused sign-in is accessible."""
    browser = console.browser
    console.open("/console/sign-in")
    browser.run("document.querySelector('#token').value = 'wrong'")
    browser.click("main button")
    browser.wait("document.readyState === 'complete' && " + text("main [role=alert]") + ".startsWith('Refused')")
    forget_statuses(browser, "403")
    browser.audit("refused sign-in")


def unknown_kind(console):
    """The page of a problem is accessible, and so is that of an unknown path, which leads back."""
    for path in ("/console/kinds/Unknown", "/console/nothing/here"):
        console.open(path)
        assert console.browser.run(text("main [role=alert]")), "the problem has no text"
        assert console.browser.run("document.querySelector('main a[href=\"/console\"]') !== null && document.querySelector('nav') !== null")
        forget_statuses(console.browser, "404")
        console.browser.audit("problem")
    console.browser.open(console.url + "/console/kinds/", READY % '"/console/kinds"')


def forget_statuses(browser, status):
    """Removes what the browser logs about an expected status."""
    assert all(status in str(error) for error in browser.errors), browser.errors
    browser.errors.clear()


def focus_order(console):
    """The keyboard reaches the skip link, the pages and the content, in this order."""
    browser = console.browser
    console.open("/console/kinds")
    reached = []
    for _ in range(9):
        browser.key("Tab")
        reached.append(browser.run("document.activeElement.textContent.trim()"))
    assert reached[:8] == [
        "Skip to content", "Freshet", "Overview", "Kinds", "Widgets", "Dead letters", "Providers", "Simulator"], reached
    console.open("/console/kinds")
    browser.key("Tab")
    browser.key("Enter")
    browser.wait("document.activeElement.id", "main")


def act(console, selector, reason=""):
    """Clicks an action, gives a reason, and confirms it."""
    console.submit(selector, text("h1") + ".endsWith('?')")
    assert "timeline" in console.browser.run(text("#action-title + p strong")), "no number of timelines"
    console.browser.run(f"document.querySelector('#reason').value = {json.dumps(reason)}")
    console.submit("main form button", "location.pathname === '/console/actions'")


def kinds(console):
    browser = console.browser
    console.open("/console/kinds")
    console.submit("form[action$='/app/pause'] button", text("h1") + " === 'Pause?'")
    console.look(None, "pause")
    # Going back pauses nothing.
    console.submit("main .actions a", "location.pathname === '/console/kinds'")
    hostile = "<img src=x onerror=alert(1)> the bank's \"migration\""
    act(console, "form[action$='/app/pause'] button", hostile)
    assert "are paused" in browser.run(text(STATUS))
    assert hostile in browser.run(text("tbody tr")) and "tester" in browser.run(text("tbody tr"))
    assert browser.run("document.querySelector('main img')") is None
    console.look(None, "actions")
    console.open("/console")
    for part in ("is paused by tester since", "onerror"):
        assert part in browser.run("document.querySelector('#verdict').textContent"), f"the verdict has no {part}"
    console.open("/console/widgets/w1")
    assert "the app are paused by tester since" in browser.run(text("#why")), "the widget does not say who paused it"
    console.open("/console/kinds")
    # By keyboard alone.
    reach(browser, "form[action$='/app/resume'] button")
    browser.key("Enter")
    browser.wait("document.readyState === 'complete' && " + text("h1") + " === 'Resume?'")
    assert "Paused by tester" in browser.run(text("main"))
    reach(browser, "main form button")
    browser.key("Enter")
    browser.wait("document.readyState === 'complete' && " + text(STATUS) + ".includes('resumed')")
    for action, word in (("pause", "paused"), ("resume", "resumed"), ("reload", "requested"), ("cancel", "cancelled")):
        console.open("/console/kinds/Purchases")
        act(console, f"form[action$='/Purchases/{action}'] button")
        assert word in browser.run(text(STATUS)), f"{action}: {browser.run(text(STATUS))}"
    console.open("/console/manifest")
    console.choose_manifest("app: other")
    console.submit("main button", "document.querySelector('.difference') !== null")
    assert "7" in console.browser.run(text(".difference .sides > div:last-child pre"))
    console.look(None, "differences")


def widget(console):
    browser = console.browser
    console.open("/console/widgets")
    browser.run("document.querySelector('#user').value = 'u1'")
    console.submit("main [role=search] button", text("tbody") + ".includes('w1')")
    console.submit("tbody a", "location.pathname === '/console/widgets/w1'")
    steps = browser.run("[...document.querySelectorAll('.steps h3')].map(h => h.firstChild.textContent.trim()).join()")
    assert steps == "Request,Decision,Fetch,Stored,Published,Delivered", steps
    # The axis names its bars and lines, the dotted one of the reload among them.
    legend = browser.run("[...document.querySelectorAll('.time-axis .legend li')].map(li => li.textContent).join()")
    assert legend == "relevance: at most 8,one entry each,earliest reload,now,shown at", legend
    # Content with variants has two panels, other content one.
    panels = "[...document.querySelectorAll('[data-entry]')].map(e => e.querySelectorAll('.sides > div').length).join()"
    assert browser.run(panels) == "2,1", browser.run(panels)
    # Only the entry at the slider's time is shown.
    entries = "[...document.querySelectorAll('[data-entry]')].filter(e => e.getClientRects().length).length"
    browser.wait(entries, 1)
    browser.run("(() => { const s = document.querySelector('.time-axis input[type=range]'); s.value = s.max;"
                " s.dispatchEvent(new Event('input', { bubbles: true })); })()")
    browser.wait(text("[data-entry]:not([hidden])") + ".includes('later')")
    console.submit("form[action$='/w1/reload'] button", text(STATUS) + ".includes('requested')")
    assert "home on d1" in browser.run(text("main")), "the stack is not shown"
    rows = "[...document.querySelectorAll('#history tbody tr')].map(r => r.textContent)"
    history = browser.run(rows)
    assert len(history) == 50 and "the provider did not answer in time" in history[0], history[:2]
    assert "65" in history[-1] and "operator" in history[-1], history[-1]
    # A live part changes without reloading the page.
    browser.run("window.isOld = true")
    console.ask("store")
    browser.wait("window.isOld && " + text("#why") + ".includes('Revision 9')")
    console.browser.audit("a live change")
    console.open("/console/widgets/w1")
    browser.click("a[href$='/form']")
    browser.wait("document.querySelector('#form')?.dataset.ready === ''")
    # The form is a page of the console, which names the widget and its user, and leads back.
    assert browser.run(text("h1")) == "Configure widget w1" and browser.run("document.querySelector('nav') !== null")
    assert browser.run(text("main a[href='/console/widgets?user=u1']")) == "u1"
    for width in (WIDE, 390):
        for is_dark in (False, True):
            browser.window(width, is_phone=width == 390, is_dark=is_dark)
            browser.audit(f"form {width}")
            browser.screenshot(f"{console.folder}/form-{width}-{'dark' if is_dark else 'light'}.png")
    browser.window(WIDE)
    browser.click("[data-parameter=category] input")
    browser.wait("document.querySelectorAll('[data-parameter=category] [role=option]').length", 2)
    browser.click("[data-parameter=category] [role=option]:last-child")
    browser.click("[type=submit]")
    browser.wait("document.querySelector('#status').textContent", "Saved")
    browser.require_names()
    assert browser.errors == [], browser.errors
    console.submit("main a[href='/console/widgets/w1']", "location.pathname === '/console/widgets/w1'")


def dead_letters(console):
    browser = console.browser
    console.open("/console/dead-letters")
    browser.run("document.querySelector('#cause').value = 'invalid'")
    console.submit("[role=search] button", text("main") + ".includes('No dead letters')")
    console.open("/console/dead-letters?cause=unknownKind")
    console.submit("tbody tr:last-child a", "location.pathname.startsWith('/console/dead-letters/')")
    console.submit("form[action$='/replay'] button", text("h1") + " === 'Replay?'")
    assert "1 would be applied" in browser.run(text("main"))
    console.submit("main .actions form button", text("h1") + " === 'Done'")
    assert "Replayed 1" in browser.run(text(STATUS))
    # The others fail again, and wait.
    console.open("/console/dead-letters")
    console.submit("form[action$='/replay'] button", text("h1") + " === 'Replay?'")
    console.submit("main .actions form button", text("h1") + " === 'Done'")
    assert "Replayed 0; 2 failed again" in browser.run(text(STATUS))
    console.open("/console/dead-letters")
    console.submit("tbody tr:last-child a", "location.pathname.startsWith('/console/dead-letters/')")
    console.submit("form[action$='/discard'] button", text("h1") + " === 'Discard?'")
    console.submit("main .actions form button", text("h1") + " === 'Done'")
    assert "Discarded 1" in browser.run(text(STATUS))
    console.open("/console/dead-letters")
    console.submit("form[action$='/discard'] button", text("h1") + " === 'Discard?'")
    assert "Nothing has changed" in browser.run(text("main"))
    console.look(None, "confirmation")
    console.submit("main .actions form button", text("h1") + " === 'Done'")
    console.open("/console/dead-letters")
    assert "No dead letters" in browser.run(text("main"))


def simulator(console):
    browser = console.browser
    console.open("/console/simulator")
    browser.run("(() => { for (const [name, value] of [['days', 2], ['people', 20]])"
                " document.getElementById(name).value = value; })()")
    console.submit("main form button", "document.querySelector('figure svg') !== null")
    assert "20 people, 2 days" in browser.run(text("main h2"))
    console.look(None, "simulation")


def verdict(console):
    """Every page says what is not ready; the overview's verdict leads to the widgets that it counts."""
    browser = console.browser
    for path in ("/console", "/console/simulator"):
        console.open(path)
        banner = browser.run("(() => { const b = document.querySelector('#banner').getBoundingClientRect(),"
                             " h = document.querySelector('h1').getBoundingClientRect();"
                             " return b.height > 0 && b.bottom <= h.top; })()")
        assert banner and "kafka" in browser.run(text("#banner")), f"{path} looks calm"
    console.open("/console")
    assert "Not ready: kafka" in browser.run(text("#verdict h2"))
    assert "firing" in browser.run("[...document.querySelectorAll('.card h3')].find(h => h.textContent ==="
                                   " 'Oldest due timeline').parentElement.querySelector('.tag.bad').textContent")
    assert browser.run("[...document.querySelectorAll('#verdict a')].find(a => a.textContent.includes("
                       "'FreshetTimelinesOverdue')).getAttribute('href')") == "/console/widgets?state=overdue"
    console.submit("#verdict a[href*='state=failing']", "location.pathname === '/console/widgets'")
    assert browser.run("[...document.querySelectorAll('tbody th')].map(h => h.textContent.trim()).join()") == "w2"
    assert browser.run("document.querySelector('.states [aria-current]').textContent.trim()") == "1 failing"
    console.look(None, "failing-widgets")


def charts(console):
    """The pointer shows values; points without neighbours are visible, and a breach has its colour."""
    browser = console.browser
    console.open("/console")
    browser.run("document.querySelector('#chart-1').scrollIntoView({ block: 'center' })")
    box = browser.run("(() => { const part = document.querySelector('#chart-1 .samples g:last-child rect');"
                      " const r = part.getBoundingClientRect(); return [r.x + r.width / 2, r.y + r.height / 2]; })()")
    shown = ("[...document.querySelectorAll('.samples text')].filter(t => getComputedStyle(t).visibility === 'visible')"
             ".map(t => t.textContent).join()")
    assert browser.run(shown) == ""
    browser.call("Input.dispatchMouseEvent", type="mouseMoved", x=box[0], y=box[1])
    browser.wait(f"/^\\d{{4}}-\\d\\d-\\d\\d \\d\\d:\\d\\d:\\d\\d UTC, .*due for \\d+ s$/.test({shown})")
    browser.screenshot(f"{console.folder}/hover.png")
    browser.call("Input.dispatchMouseEvent", type="mouseMoved", x=0, y=0)
    browser.wait(shown, "")
    style = "getComputedStyle(document.querySelector(%s)).%s"
    size = browser.run("document.querySelector('#chart-0 .dot').getBoundingClientRect().width")
    assert size >= 6 and not browser.run("document.querySelector('#chart-0 .s1.line').getAttribute('d')"), size
    breach = browser.run(style % ("'#chart-1 .breach .line'", "stroke"))
    assert breach == browser.run(style % ("'#chart-1 .limit'", "stroke"))
    assert breach != browser.run(style % ("'#chart-1 .line.s1'", "stroke"))
    ticks = browser.run("[...document.querySelectorAll('#chart-1 .chart > text:not(.value)')]"
                        ".map(t => t.textContent).join()")
    assert ticks == "now,20 min ago,40 min ago", ticks


def times(console):
    """Times stay relative to the present."""
    browser = console.browser
    console.open("/console/dead-letters")
    browser.run("document.querySelector('tbody time').dateTime = new Date(Date.now() - 5000).toISOString()")
    browser.wait("/^([5-9]|1\\d) s ago$/.test(" + text("tbody time") + ")")


def overview(console):
    browser = console.browser
    console.open("/console")
    # The doctor's findings come after the page.
    browser.wait(text("[data-summary]") + ".includes('2 problems,') && " + text("[data-summary]") + ".includes('cannot be reached')")
    links = "document.querySelectorAll('a[href^=\"https://runbook.example.com/runbook.md#\"]').length > 0"
    assert browser.run(links), "no chart links to the runbook"
    browser.run("window.isOld = true")
    console.ask("letter")
    browser.wait("window.isOld && " + text("#figures .number"), "1")
    console.browser.audit("the live overview")


def interruption(console):
    """The page shows that it is not live, and goes on afterwards."""
    browser = console.browser
    console.open("/console")
    browser.wait("document.querySelector('main > [role=status]').hidden")
    connection = dict(latency=0, downloadThroughput=-1, uploadThroughput=-1)
    browser.call("Network.emulateNetworkConditions", offline=True, **connection)
    browser.wait(text(STATUS) + ".startsWith('Not live')")
    browser.call("Network.emulateNetworkConditions", offline=False, **connection)
    browser.wait("document.querySelector('main > [role=status]').hidden")
    # The browser logs the failed connections.
    assert all("ERR_INTERNET_DISCONNECTED" in str(error) for error in browser.errors), browser.errors
    browser.errors.clear()


def end_of_session(console):
    """A live page leads to the sign-in after a sign-out in another window."""
    browser = console.browser
    console.open("/console")
    browser.run("fetch('/console/sign-out', { method: 'POST', body: new URLSearchParams({"
                " csrf: document.querySelector('[name=csrf]').value }) }).then(() => null)")
    browser.wait("location.pathname === '/console/sign-in' && document.readyState === 'complete'")


def use(browser, url, token, viewer, pipe, folder):
    console = Console(browser, url, pipe, folder)
    browser.window(WIDE)
    console.open("/console/sign-in")
    console.look("/console/sign-in", "sign-in")
    refused_sign_in(console)
    sign_in(console, token)
    pages = {
        "overview": "/console", "doctor": "/console/doctor", "kinds": "/console/kinds", "kind": "/console/kinds/Purchases",
        "manifest": "/console/manifest", "widgets": "/console/widgets", "widget": "/console/widgets/w1",
        "widget-without-content": "/console/widgets/w2", "dead-letters": "/console/dead-letters",
        "dead-letter": "/console/dead-letters/1", "providers": "/console/providers",
        "simulator": "/console/simulator", "progress": "/console/actions",
    }
    for name, path in pages.items():
        console.look(path, name)
    unknown_kind(console)
    charts(console)
    times(console)
    focus_order(console)
    kinds(console)
    widget(console)
    dead_letters(console)
    simulator(console)
    verdict(console)
    overview(console)
    console.open("/console/providers")
    console.submit("form[action$='/test'] button", text(STATUS) + ".includes('accepts')")
    interruption(console)
    # Without scripts every page is readable, and forms work.
    browser.set_scripts(False)
    readable = {
        "overview": "Oldest due timeline", "doctor": "the provider cannot be reached", "kinds": "DueDate",
        "kind": "Statistics of 7 days", "manifest": "Nothing is changed", "widgets": "w1", "widget": "later",
        "widget-without-content": "No timeline is stored",
        "dead-letters": "freshet.pushes/0@9", "dead-letter": "Payload", "providers": "Last error", "simulator": "First day",
        "progress": "Work now",
    }
    for name, path in pages.items():
        browser.open(url + path, "document.readyState === 'complete' && document.querySelector('main h1') !== null")
        assert readable[name] in browser.run("document.querySelector('main').innerText"), f"{name} needs scripts"
    for action, word in (("pause", "paused"), ("resume", "resumed")):
        browser.open(url + "/console/kinds", "document.readyState === 'complete' && document.querySelector('h1') !== null")
        browser.click(f"form[action$='/app/{action}'] button")
        browser.wait("document.readyState === 'complete' && " + text("h1") + ".endsWith('?')")
        browser.click("main form button")
        browser.wait("document.readyState === 'complete' && " + text(STATUS) + f".includes('are {word}')")
    browser.set_scripts(True)
    console.open("/console/kinds")
    console.submit("form[action$='/sign-out'] button", "location.pathname === '/console/sign-in'")
    sign_in(console, viewer)
    console.open("/console/kinds")
    assert not browser.run("document.querySelector('form[action*=pause]') !== null")
    end_of_session(console)
    assert browser.errors == [], browser.errors


if __name__ == "__main__":
    run(use)
