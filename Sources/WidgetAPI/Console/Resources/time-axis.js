// Adds a slider to the time axes of a page: the entry that is shown at the chosen time stays, the others are hidden.

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
        axis.dataset.shownAt = String(time);
    }

    slider.addEventListener('input', () => {
        // Full minutes, although the axis may begin between two.
        const step = Number(slider.step) * 1000;
        show(Math.ceil((from + Number(slider.value) * 1000) / step) * step);
    });
    choice.hidden = false;
    // A page that replaces an axis hands the chosen time on in this attribute.
    const time = Number(axis.dataset.shownAt ?? axis.dataset.now);
    slider.value = String(Math.max(0, (time - from) / 1000));
    show(time);
}

// Enhances the axes below an element; each one once.
export function enhanceTimeAxes(root = document) {
    for (const axis of root.querySelectorAll('[data-time-axis]:not([data-ready])')) {
        axis.dataset.ready = '';
        enhance(axis);
    }
}

enhanceTimeAxes();
