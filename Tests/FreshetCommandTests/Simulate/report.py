"""Opens the report of a simulation in headless Chromium, and fails with the first accessibility problem or error.

usage: report.py CHROMIUM URL FOLDER. Screenshots go to FOLDER.
"""

from browser import run


def use(browser, url, folder):
    for width in (1440, 390):
        for is_dark in (False, True):
            browser.window(width, is_phone=width == 390, is_dark=is_dark)
            browser.open(url, "document.readyState === 'complete' && document.querySelector('svg') !== null")
            name = f"report-{width}-{'dark' if is_dark else 'light'}"
            browser.audit(name)
            hidden = browser.run("[...document.querySelectorAll('.scroll')].some(e => e.scrollWidth > e.clientWidth + 1)")
            assert width == 390 or not hidden, f"{name}: a table hides columns"
            browser.screenshot(f"{folder}/{name}.png")


if __name__ == "__main__":
    run(use)
