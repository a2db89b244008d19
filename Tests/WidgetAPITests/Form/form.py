"""Uses a configuration form as a person does, and fails with the first thing that is not as it should be.

usage: form.py CHROMIUM URL TOKEN FOLDER. Screenshots go to FOLDER.
"""

import browser as chromium


def row(name):
    return f'[data-parameter="{name}"]'


def value(name):
    return f"document.querySelector('{row(name)} .combo').dataset.value"


def shown(name):
    return f"document.querySelector('{row(name)}').getClientRects().length > 0"


def use(browser, url, token, folder):
    ready = "document.querySelector('#form')?.dataset.ready === ''"
    browser.window(800)
    browser.open(url, ready, token)
    browser.screenshot(f"{folder}/light.png")

    browser.require_names()

    # By keyboard alone: the switch hides and shows the dependent row.
    assert browser.run(shown("limit"))
    browser.run(f"document.querySelector('{row('hidden')} input').focus()")
    browser.key(" ")
    browser.wait(shown("limit"), False)
    browser.key(" ")
    browser.wait(shown("limit"))

    # A switch without a value is off. A row that needs any value of another one is hidden while that is empty.
    assert browser.run(shown("quiet")) and not browser.run(shown("memo"))

    # Search while typing, in the provider's sections; the option is chosen with the keyboard.
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
    # Text without a chosen option is reverted.
    browser.type("xyz")
    browser.wait(f"document.querySelector('{row('card')} .list').textContent", "Nothing found")
    browser.key("Escape")
    browser.wait(f"document.querySelector('{row('card')} input').value", "Everyday Debit")

    # By mouse: a list from the definition.
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
    assert browser.run(f"document.querySelector('{row('shops')} .add').disabled") and browser.run(shown("memo"))
    assert browser.run(f"document.querySelector('{row('shops')} .count').textContent") == "2 of 2"
    browser.click(f"{row('shops')} li:nth-child(2) .up")
    browser.wait(f"JSON.parse(document.querySelector('{row('shops')} li .combo').dataset.value).identifier", "soup")
    browser.click(f"{row('shops')} li:nth-child(2) .remove")
    browser.wait(f"document.querySelectorAll('{row('shops')} li').length", 1)

    # A row is shown for its parent's date in any notation. Its value is removed.
    assert browser.run(shown("nickname"))
    browser.run(f"document.querySelector('{row('nickname')} input').select()")
    browser.key("Backspace")
    browser.wait(f"document.querySelector('{row('nickname')} input').value", "")

    # A stepper, and a number out of bounds.
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
    browser.window(390, 844, is_phone=True)
    browser.screenshot(f"{folder}/phone.png")
    browser.window(390, 844, is_phone=True, is_dark=True)
    browser.screenshot(f"{folder}/phone-dark.png")
    assert browser.run("document.documentElement.scrollWidth <= innerWidth"), "wider than the phone"
    assert browser.errors == [], browser.errors

    # The values are readable without JavaScript.
    browser.set_scripts(False)
    browser.open(url, "document.readyState === 'complete' && document.querySelector('noscript p') !== null", token)
    browser.screenshot(f"{folder}/without-script.png")


if __name__ == "__main__":
    chromium.run(use)
