// Behaviour of the console's pages. The server renders everything; without JavaScript, pages do not refresh themselves.

/** Identity of a part's rendering by the server, without the present; parts that draw the time have a version. */
const rendering = (part) => part.dataset.version ?? part.innerHTML.replace(/(<time [^>]*data-relative[^>]*>)[^<]*/g, "$1");

/** The renderings in the page, which other modules may have enhanced since. */
const rendered = new Map([...document.querySelectorAll("[data-part]")].map((part) => [part.id, rendering(part)]));

/** Whether the keyboard's focus keeps a part as it is: a slider gets the focus again in the new rendering. */
const isInUse = (part) => part.contains(document.activeElement) && document.activeElement.type !== "range";

/** Replaces the live parts of the page by those of a new rendering, except a part in use. */
async function refresh() {
    const response = await fetch(location.href, { headers: { Accept: "text/html" }, redirect: "manual" });
    // The session is over: the reload leads to the sign-in.
    if (response.type === "opaqueredirect") return location.reload();
    if (!response.ok) throw new Error(response.statusText);
    const fresh = new DOMParser().parseFromString(await response.text(), "text/html");
    for (const part of document.querySelectorAll("[data-part]")) {
        const next = fresh.getElementById(part.id);
        if (!next || isInUse(part) || rendered.get(part.id) === rendering(next)) continue;
        rendered.set(part.id, rendering(next));
        const focus = part.contains(document.activeElement) ? document.activeElement.id : null;
        part.replaceChildren(...next.childNodes);
        // After the observers of other modules.
        if (focus) queueMicrotask(() => document.getElementById(focus)?.focus());
        part.classList.remove("changed");
        void part.offsetWidth;
        part.classList.add("changed");
    }
}

/** Follows the events of the page's live parts, and reports while the page cannot be refreshed. */
function follow(path) {
    const notice = document.createElement("p");
    notice.className = "notice";
    notice.hidden = true;
    notice.setAttribute("role", "status");
    document.querySelector("h1").after(notice);
    const report = (isLive) => {
        notice.hidden = isLive;
        notice.textContent = isLive ? "" : "Not live: the connection is interrupted. Figures may be old.";
    };

    let source, isRefreshing = false, isOutdated = false;
    const update = async () => {
        isOutdated = true;
        if (isRefreshing) return;
        isRefreshing = true;
        try {
            while (isOutdated) {
                isOutdated = false;
                await refresh();
            }
            report(true);
        } catch {
            // The next event tries again.
            report(false);
        } finally {
            isRefreshing = false;
        }
    };
    const connect = () => {
        source = new EventSource(path);
        source.addEventListener("changed", update);
        source.addEventListener("open", () => {
            if (!notice.hidden) update();
        });
        source.addEventListener("error", () => {
            report(false);
            // The browser tries again after an interruption, but not after a refusal, such as that of an ended session.
            if (source.readyState !== EventSource.CLOSED) return;
            update();
            setTimeout(connect, 10_000);
        });
    };
    connect();
    addEventListener("pagehide", () => source.close());
}

const main = document.querySelector("main");
if (main.dataset.live) follow(main.dataset.live);

// Times stay relative to the present by the server's clock, from which the browser's may differ.
const opened = performance.now();
const units = [[120, 1, "s"], [7200, 60, "min"], [172800, 3600, "h"], [63072000, 86400, "d"], [Infinity, 31536000, "years"]];

/** The text of a time. `RelativeTime.swift` has the same rule. */
function distance(time, now) {
    const seconds = Math.trunc((time - now) / 1000);
    if (!seconds) return "now";
    const [, size, unit] = units.find(([limit]) => Math.abs(seconds) < limit);
    return `${Math.trunc(Math.abs(seconds) / size)} ${unit} ${seconds < 0 ? "ago" : "from now"}`;
}

setInterval(() => {
    const now = Number(main.dataset.now) + performance.now() - opened;
    for (const time of document.querySelectorAll("time[data-relative]")) {
        const text = distance(Date.parse(time.dateTime), now);
        if (time.textContent !== text) time.textContent = text;
    }
}, 1000);

// A manifest can be read from a file.
const file = document.querySelector("[data-file]");
if (file) {
    file.hidden = false;
    file.querySelector("input").addEventListener("change", async (event) => {
        const [chosen] = event.target.files;
        if (chosen) document.getElementById("manifest").value = await chosen.text();
    });
}

// Cards whose content is a template in another page, for which this page does not wait.
for (const card of document.querySelectorAll("[data-source]")) {
    const response = await fetch(card.dataset.source, { headers: { Accept: "text/html" }, redirect: "manual" }).catch(() => null);
    if (!response?.ok) continue;
    const other = new DOMParser().parseFromString(await response.text(), "text/html");
    const template = other.getElementById(card.dataset.template);
    if (template) card.querySelector("[data-summary]").replaceChildren(template.content);
}
