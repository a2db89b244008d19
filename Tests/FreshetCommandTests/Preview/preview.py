"""Uses the page of `freshet preview` as a developer does, and fails with the first thing that is not as it should be.

usage: preview.py CHROMIUM URL PROVIDER FOLDER. A POST to PROVIDER/options changes the provider's content. Screenshots go to FOLDER.
"""

import json
import urllib.error
import urllib.request

import browser as chromium

FIRST = "#widget-0"
AXES = "document.querySelectorAll('[data-time-axis][data-ready]').length"
SHOWN = f"[...document.querySelectorAll('{FIRST} [data-entry]')].filter(e => !e.hidden).map(e => e.querySelector('.sides').textContent).join()"
TIME = f"document.querySelector('{FIRST} output').textContent"


def change(provider):
    body = json.dumps({"kind": "K"}).encode()
    urllib.request.urlopen(urllib.request.Request(f"{provider}/options", body)).read()


def headers(url):
    answer = urllib.request.urlopen(url)
    policy = answer.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy and "unsafe" not in policy and "nonce" not in policy, policy
    assert "frame-ancestors 'none'" in policy and answer.headers["X-Content-Type-Options"] == "nosniff"
    text = answer.read().decode()
    assert "<style" not in text and " style=" not in text and "<script>" not in text
    # Requests under another host name are refused.
    try:
        urllib.request.urlopen(urllib.request.Request(url, headers={"Host": "evil.example"}))
        raise AssertionError("a foreign host name is answered")
    except urllib.error.HTTPError as error:
        assert error.code == 421, error


def use(browser, url, provider, folder):
    headers(url)
    browser.window(1440)
    browser.open(url, f"{AXES} === 2")
    browser.audit("preview")
    browser.screenshot(f"{folder}/preview-light.png")
    assert browser.run("document.title") == "Preview · Freshet"
    assert browser.run("document.querySelectorAll('#widget-2 .notice').length") == 1

    # The contents lead to each kind and each of its families.
    links = browser.run("[...document.querySelectorAll('nav.contents a')].map(a => a.textContent).join()")
    assert links == "Steps,systemSmall,systemMedium,Broken,systemSmall", links
    targets = "[...document.querySelectorAll('nav.contents a')].every(a => document.querySelector(a.hash))"
    assert browser.run(targets) and browser.run("document.querySelector('nav.contents a[href=\"#widget-2\"]') !== null")
    # One kind of two families, and one of one, whose card has the whole width.
    right = "[...document.querySelectorAll('.wide')].map(e => e.lastElementChild.getBoundingClientRect().right).join()"
    assert len(set(browser.run(right).split(","))) == 1, browser.run(right)

    # The present moves.
    line = f"document.querySelector('{FIRST} .now').getAttribute('x1')"
    browser.wait(f"{line} !== {json.dumps(browser.run(line))}")

    # The slider shows the entry at a time: the first one at its left end, the next ones by keyboard.
    assert browser.run(SHOWN).startswith("stepone"), browser.run(SHOWN)
    before = browser.run(TIME)
    browser.run(f"document.querySelector('{FIRST} input').focus()")
    browser.key("End")
    browser.wait(f"{SHOWN}.startsWith('steptwo')")
    assert browser.run(TIME) != before
    assert browser.run(f"document.querySelector('{FIRST} input').getAttribute('aria-valuetext')") == browser.run(TIME)
    browser.key("ArrowLeft")
    chosen = browser.run(TIME)

    # A change of the provider appears, and the slider keeps its time and the focus.
    change(provider)
    browser.wait(f"{SHOWN}.includes('changed')")
    assert browser.run(TIME) == chosen
    browser.wait(f"document.activeElement === document.querySelector('{FIRST} input')")
    # Content cannot run scripts or add elements.
    assert browser.run("document.title") == "Preview · Freshet"
    assert browser.run("document.querySelectorAll('main script, main img, main iframe').length") == 0

    # The card that has changed is highlighted for a moment.
    browser.wait("document.getAnimations().length", 0)
    browser.window(1440, is_dark=True)
    browser.audit("dark preview")
    browser.screenshot(f"{folder}/preview-dark.png")
    for is_dark in (False, True):
        browser.window(390, 844, is_phone=True, is_dark=is_dark)
        browser.screenshot(f"{folder}/preview-phone-{'dark' if is_dark else 'light'}.png")
        browser.audit("preview on a phone")
    assert browser.errors == [], browser.errors

    # All entries are readable without JavaScript.
    browser.set_scripts(False)
    browser.open(url, "document.readyState === 'complete' && document.querySelector('[data-entry]') !== null")
    assert browser.run(f"[...document.querySelectorAll('{FIRST} [data-entry]')].every(e => e.getClientRects().length > 0)")
    browser.screenshot(f"{folder}/preview-without-script.png")


if __name__ == "__main__":
    chromium.run(use)
