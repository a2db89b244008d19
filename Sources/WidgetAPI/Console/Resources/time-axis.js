// Adds a slider to the time axes of a page: the entry that is shown at the chosen time stays, the others are hidden.

// Chosen time by the id of an axis, for the next rendering of it.
const chosen = new Map();

function enhance(axis) {
    const choice = axis.querySelector('.time-axis-choice');
    const slider = choice.querySelector('input');
    const output = choice.querySelector('output');
    const before = axis.querySelector('.time-axis-before');
    const line = axis.querySelector('.chosen');
    const entries = [...axis.querySelectorAll('[data-entry]')];
    const from = Number(axis.dataset.from);
    const now = axis.querySelector('.now');
    const opened = performance.now();
    // By the server's clock, from which the browser's may differ.
    const present = () => Number(axis.dataset.now) + performance.now() - opened;
    const format = new Intl.DateTimeFormat('en-GB', {
        timeZone: axis.dataset.timeZone, day: 'numeric', month: 'short', hour: '2-digit', minute: '2-digit',
        year: Number(slider.max) > 366 * 86400 ? 'numeric' : undefined,
        second: slider.step === '1' ? '2-digit' : undefined,
    });

    const isShownAt = (entry, time) => Number(entry.dataset.from) <= time
        && (entry.dataset.until === undefined || time < Number(entry.dataset.until));

    function move(line, seconds) {
        const place = `${100 * Math.min(1, seconds / Number(slider.max))}%`;
        line.setAttribute('x1', place);
        line.setAttribute('x2', place);
    }

    function show(time) {
        for (const entry of entries) entry.hidden = !isShownAt(entry, time);
        before.hidden = entries.some((entry) => !entry.hidden);
        const text = format.format(time).replace(',', '');
        output.textContent = text;
        slider.setAttribute('aria-valuetext', text);
        move(line, Number(slider.value));
    }

    // Until a time is chosen, the slider stays at the present.
    function follow() {
        const time = present();
        move(now, (time - from) / 1000);
        for (const entry of entries) {
            if (isShownAt(entry, time)) entry.setAttribute('aria-current', 'time');
            else entry.removeAttribute('aria-current');
        }
        if (chosen.has(axis.id)) return;
        slider.value = String(Math.max(0, (time - from) / 1000));
        show(time);
    }

    slider.addEventListener('input', () => {
        // Full minutes, although the axis may begin between two.
        const step = Number(slider.step) * 1000;
        chosen.set(axis.id, Math.ceil((from + Number(slider.value) * 1000) / step) * step);
        show(chosen.get(axis.id));
    });
    choice.hidden = false;
    follow();
    if (chosen.has(axis.id)) {
        slider.value = String(Math.max(0, (chosen.get(axis.id) - from) / 1000));
        show(chosen.get(axis.id));
    }
    const timer = setInterval(() => axis.isConnected ? follow() : clearInterval(timer), 5000);
}

function enhanceAll() {
    for (const axis of document.querySelectorAll('[data-time-axis]:not([data-ready])')) {
        axis.dataset.ready = '';
        enhance(axis);
    }
}

enhanceAll();
// Pages replace parts of themselves.
new MutationObserver(enhanceAll).observe(document.body, { childList: true, subtree: true });
