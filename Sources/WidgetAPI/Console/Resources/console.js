// Behaviour of the console's pages. The server renders everything; without JavaScript, pages do not refresh themselves.

/** Identity of a part's rendering by the server; parts that show the time have a version. */
const rendering = (part) => part.dataset.version ?? part.innerHTML;

/** The renderings in the page, which other modules may have enhanced since. */
const rendered = new Map([...document.querySelectorAll("[data-part]")].map((part) => [part.id, rendering(part)]));

/** Whether the keyboard's focus keeps a part as it is: a slider gets the focus again in the new rendering. */
const isInUse = (part) => part.contains(document.activeElement) && document.activeElement.type !== "range";

/** Replaces the live parts of the page by those of a new rendering, except a part in use. */
async function refresh() {
    const response = await fetch(location.href, { headers: { Accept: "text/html" }, redirect: "manual" });
    // The session is over: the reload leads to the sign-in. After another failure the next event tries again.
    if (response.type === "opaqueredirect") return location.reload();
    if (!response.ok) return;
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

const live = document.querySelector("main")?.dataset.live;
if (live) {
    const source = new EventSource(live);
    let isRefreshing = false, isOutdated = false;
    source.addEventListener("changed", async () => {
        isOutdated = true;
        if (isRefreshing) return;
        isRefreshing = true;
        try {
            while (isOutdated) {
                isOutdated = false;
                await refresh();
            }
        } catch {
            // The server does not answer, or the page is left. The next event tries again.
        } finally {
            isRefreshing = false;
        }
    });
    // The browser connects again after an interruption, but not after a refusal, as at the end of the session.
    source.addEventListener("error", async () => {
        if (source.readyState !== EventSource.CLOSED) return;
        await refresh().catch(() => {});
        const notice = document.createElement("p");
        notice.className = "notice";
        notice.setAttribute("role", "status");
        notice.textContent = "This page is not live any more. Load it again.";
        document.querySelector("h1").after(notice);
    });
    addEventListener("pagehide", () => source.close());
}

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
