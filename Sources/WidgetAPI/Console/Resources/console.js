// Behaviour of the console's pages. The server renders everything; without JavaScript, pages do not refresh themselves.

/** Replaces the live parts of the page by those of a new rendering; a part with the keyboard's focus stays as it is. */
async function refresh() {
    const response = await fetch(location.href, { headers: { Accept: "text/html" }, redirect: "manual" });
    if (!response.ok) return location.reload();
    const fresh = new DOMParser().parseFromString(await response.text(), "text/html");
    for (const part of document.querySelectorAll("[data-part]")) {
        const next = fresh.getElementById(part.id);
        if (!next || part.contains(document.activeElement) || part.innerHTML === next.innerHTML) continue;
        part.replaceChildren(...next.childNodes);
        part.classList.remove("changed");
        void part.offsetWidth;
        part.classList.add("changed");
    }
}

const live = document.querySelector("main")?.dataset.live;
if (live) {
    const source = new EventSource(live);
    let running = null;
    source.addEventListener("changed", () => { running ??= refresh().finally(() => { running = null; }); });
    addEventListener("pagehide", () => source.close());
}
