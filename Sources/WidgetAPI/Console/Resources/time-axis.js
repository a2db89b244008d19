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
    const format = new Intl.DateTimeFormat('en-GB', {
        timeZone: axis.dataset.timeZone, day: 'numeric', month: 'short', hour: '2-digit', minute: '2-digit',
        second: slider.step === '1' ? '2-digit' : undefined,
    });

    function show(time) {
        let shown = null;
        for (const entry of entries) {
            const isShown = Number(entry.dataset.from) <= time
                && (entry.dataset.until === undefined || time < Number(entry.dataset.until));
            entry.hidden = !isShown;
            if (isShown) shown = entry;
        }
        before.hidden = shown !== null;
        const text = format.format(time).replace(',', '');
        output.textContent = text;
        slider.setAttribute('aria-valuetext', text);
        const place = `${100 * Number(slider.value) / Number(slider.max)}%`;
        line.setAttribute('x1', place);
        line.setAttribute('x2', place);
    }

    slider.addEventListener('input', () => {
        // Full minutes, although the axis may begin between two.
        const step = Number(slider.step) * 1000;
        chosen.set(axis.id, Math.ceil((from + Number(slider.value) * 1000) / step) * step);
        show(chosen.get(axis.id));
    });
    choice.hidden = false;
    const time = chosen.get(axis.id) ?? Number(axis.dataset.now);
    slider.value = String(Math.max(0, (time - from) / 1000));
    show(time);
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
