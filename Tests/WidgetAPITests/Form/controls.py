"""Looks at the controls of a configuration form as a person does, in several languages and with errors.

usage: controls.py CHROMIUM URL TOKEN FOLDER. Screenshots go to FOLDER.
"""

import browser as chromium
from form import row

READY = "document.querySelector('#form')?.dataset.ready === ''"
STATUS = "document.querySelector('#status p')?.textContent"


def look(browser, url, token, folder, name):
    for width in (1440, 390):
        for is_dark in (False, True):
            browser.window(width, is_phone=width == 390, is_dark=is_dark)
            browser.open(url, READY, token)
            browser.window(width, browser.run("document.documentElement.scrollHeight"), width == 390, is_dark)
            browser.audit(f"{name} {width}")
            browser.screenshot(f"{folder}/{name}-{width}-{'dark' if is_dark else 'light'}.png")
    browser.window(800)


def forget(browser, expected):
    """Removes what the browser logs about an expected failure."""
    assert browser.errors and all(expected in str(error) for error in browser.errors), browser.errors
    browser.errors.clear()


def controls(browser):
    # A list has a chevron, and a location a visible label for each field.
    after = f"getComputedStyle(document.querySelector('{row('city')} .combo'), '::after')"
    assert browser.run(f"{after}.width === '8px' && {after}.borderBottomStyle === 'solid'"), "no chevron"
    labels = f"[...document.querySelectorAll('{row('place')} input')].map(i => i.closest('label')?.innerText.trim()).join()"
    assert browser.run(labels) == "Place,Latitude,Longitude"
    # A point in time has a picker, and the time of its zone.
    since = f"document.querySelector('{row('since')} input')"
    assert browser.run(f"{since}.type") == "datetime-local"
    assert browser.run(f"new Date({since}.value).toISOString()") == "2026-06-22T10:00:00.000Z"


def slider(browser):
    """An unset slider says so, can be set where it stands, and cleared."""
    output = f"document.querySelector('{row('volume')} output').textContent"
    clear = f"document.querySelector('{row('volume')} .clear').hidden"
    assert browser.run(output) == "Not set" and browser.run(clear)
    browser.click(f"{row('volume')} input")
    browser.wait(output, "50")
    browser.click("[type=submit]")
    browser.wait(STATUS, "Saved")
    browser.click(f"{row('volume')} .clear")
    browser.wait(output, "Not set")
    assert browser.run(clear) and browser.run(f"document.activeElement.type === 'range'")


def lines(browser):
    """Line ends survive, also in a text that should have one line."""
    for name in ("note", "title"):
        browser.run(f"document.querySelector('{row(name)} textarea').setSelectionRange(0, 0)")
        browser.run(f"document.querySelector('{row(name)} textarea').focus()")
        browser.type("!")


def long_list(browser):
    """Of 20,000 options those that are looked at have elements."""
    options = f"document.querySelectorAll('{row('city')} [role=option]').length"
    active = f"document.querySelector('{row('city')} [aria-selected]')"
    browser.run(f"document.querySelector('{row('city')} input').focus()")
    browser.key("ArrowDown")
    browser.wait(options, 100)
    assert browser.run("document.querySelectorAll('*').length") < 600
    assert browser.run(f"document.querySelector('{row('city')} [role=option]').ariaSetSize") == "20000"
    for _ in range(101):
        browser.key("ArrowDown")
    assert browser.run(f"{active}.ariaPosInSet") == "101" and browser.run(options) == 200
    browser.run(f"(() => {{ const l = document.querySelector('{row('city')} .list'); l.scrollTop = l.scrollHeight; }})()")
    browser.wait(options, 300)
    browser.type("19999")
    browser.wait(options, 1)
    browser.key("Enter")
    browser.wait(f"document.querySelector('{row('city')} input').value", "City 19999")


def errors(browser, folder):
    """An error is a sentence; what the provider or the server said is behind it."""
    problem = f"document.querySelector('{row('broken')} .problem p')?.textContent"
    browser.run(f"document.querySelector('{row('broken')} input').focus()")
    browser.key("ArrowDown")
    browser.wait(problem, "The choices cannot be loaded right now. Try again in a moment.")
    detail = f"document.querySelector('{row('broken')} details')"
    assert browser.run(f"!{detail}.open && {detail}.textContent.includes('status 500')")
    browser.screenshot(f"{folder}/controls-options-failed.png")
    forget(browser, "502")
    # A latitude alone is no place.
    browser.run(f"document.querySelector('{row('place')} [data-key=latitude]').focus()")
    browser.type("1")
    browser.click("[type=submit]")
    browser.wait("document.activeElement.dataset.key", "longitude")
    assert browser.run("document.activeElement.ariaInvalid") == "true"
    assert browser.run(f"document.querySelector('{row('place')} .problem p').textContent")
    browser.run(f"document.querySelector('{row('place')} [data-key=latitude]').select()")
    browser.key("Backspace")
    browser.run(f"document.querySelector('{row('link')} input').focus()")
    browser.type("javascript:x")
    browser.click("[type=submit]")
    browser.wait(STATUS, "Not saved: some values do not fit.")
    assert browser.run(f"document.querySelector('{row('link')} .problem p').textContent") == "This value does not fit."
    assert browser.run(f"document.querySelector('{row('link')} details').textContent.includes('javascript')")
    browser.screenshot(f"{folder}/controls-misfit.png")
    forget(browser, "422")
    browser.run(f"document.querySelector('{row('link')} input').select()")
    browser.key("Backspace")
    connection = dict(latency=0, downloadThroughput=-1, uploadThroughput=-1)
    browser.call("Network.emulateNetworkConditions", offline=True, **connection)
    browser.click("[type=submit]")
    browser.wait(STATUS, "The server cannot be reached. Try again in a moment.")
    browser.call("Network.emulateNetworkConditions", offline=False, **connection)
    forget(browser, "ERR_INTERNET_DISCONNECTED")


def languages(browser, url, token, folder):
    """The form's own texts are in the language of its labels, and from right to left where it is written so."""
    texts = ("[document.querySelector('[type=submit]'), document.querySelector('.add')].map(e => e.textContent).join()"
             f" + document.querySelector('{row('city')} input').placeholder")
    for locale, expected, direction in (("de-AT", "Fertig,HinzufügenAuswählen", "ltr"), ("ar", "تم,إضافةاختيار", "rtl")):
        browser.open(f"{url}?locale={locale}", READY, token)
        assert browser.run(texts) == expected, browser.run(texts)
        assert browser.run("document.documentElement.dir") == direction
        start = "left" if direction == "rtl" else "right"
        after = f"getComputedStyle(document.querySelector('{row('city')} .combo'), '::after')"
        assert browser.run(f"{after}.{start}") == "16px"
    look(browser, f"{url}?locale=ar", token, folder, "controls-ar")


def use(browser, url, token, folder):
    look(browser, url, token, folder, "controls")
    browser.open(url, READY, token)
    controls(browser)
    slider(browser)
    lines(browser)
    long_list(browser)
    errors(browser, folder)
    browser.click("[type=submit]")
    browser.wait(STATUS, "Saved")
    languages(browser, url, token, folder)
    assert browser.errors == [], browser.errors


if __name__ == "__main__":
    chromium.run(use)
