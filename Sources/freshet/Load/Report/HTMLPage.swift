import Foundation
import WidgetModel

/// A report as one HTML page that needs nothing else: what it is about, and the whole JSON. It is also well-formed XML.
struct HTMLPage: Sendable {
    let title: String
    /// Rules besides those that all pages have.
    let style: String
    /// HTML.
    let content: String
    let report: JSONValue

    var text: String {
        """
        <!DOCTYPE html>
        <html lang="en">
        <head>
        <meta charset="utf-8"/>
        <meta name="viewport" content="width=device-width, initial-scale=1"/>
        <meta name="color-scheme" content="light dark"/>
        <title>\(HTML.escaped(title))</title>
        <style>
        \(Self.style)
        \(style)
        </style>
        </head>
        <body>
        <main>
        \(content)
        <details>
        <summary>The report as JSON</summary>
        <pre>\(HTML.escaped(PrettyJSON.text(report)))</pre>
        </details>
        </main>
        </body>
        </html>

        """
    }

    /// Written whole or not at all.
    ///
    /// - Throws: ``CommandFailure``, which names the file.
    func write(to path: String) throws(CommandFailure) {
        do {
            try Data(text.utf8).write(to: URL(fileURLWithPath: path), options: .atomic)
        } catch {
            throw CommandFailure(.failure, "\(path) cannot be written: \(error.localizedDescription)")
        }
    }

    /// A chart with its title and, of more than one line, the names of its lines.
    static func figure(_ title: String, names: [String], _ svg: String) -> String {
        let legend =
            names.count < 2
            ? ""
            : names.enumerated().map { index, name in
                #"<span class="key"><i class="c\#(index + 1)"></i>\#(HTML.escaped(name))</span>"#
            }.joined()
        return "<figure><figcaption><b>\(HTML.escaped(title))</b>\(legend)</figcaption>\(svg)</figure>"
    }

    private static let style = """
        :root { --ground: #f7f7f5; --card: #fff; --ink: #1b1d21; --quiet: #63676f; --rule: #e3e3df;
          --c1: #1f6feb; --c2: #c2570c; --c3: #8a8f98; --c4: #8250df; }
        @media (prefers-color-scheme: dark) {
          :root { --ground: #131518; --card: #1c1f24; --ink: #e8e9eb; --quiet: #9aa0a9; --rule: #30343b;
            --c1: #6ea8fe; --c2: #f0883e; --c3: #7d838d; --c4: #c297ff; }
        }
        * { box-sizing: border-box; }
        body { margin: 0; background: var(--ground); color: var(--ink); font: 16px/1.45 system-ui, sans-serif; }
        main { max-width: 68rem; margin: 0 auto; padding: 1rem; }
        h1 { font-size: 1.5rem; margin: .5rem 0; }
        pre { background: var(--card); border: 1px solid var(--rule); border-radius: 8px; padding: .75rem; margin: .75rem 0;
          overflow-x: auto; font: .8125rem/1.5 ui-monospace, monospace; }
        .charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 25rem), 1fr)); gap: .75rem; }
        figure { margin: 0; background: var(--card); border: 1px solid var(--rule); border-radius: 8px; padding: .75rem; }
        figcaption { display: flex; flex-wrap: wrap; gap: .25rem 1rem; font-size: .875rem; }
        .key { color: var(--quiet); }
        .key i { display: inline-block; width: .9rem; height: .2rem; border-radius: 2px; margin-right: .35rem;
          vertical-align: middle; }
        i.c1 { background: var(--c1); } i.c2 { background: var(--c2); } i.c3 { background: var(--c3); }
        i.c4 { background: var(--c4); }
        svg { display: block; width: 100%; height: auto; margin-top: .5rem; }
        svg .grid { stroke: var(--rule); stroke-width: 1; }
        svg .tick { fill: var(--quiet); font-size: 11px; font-family: system-ui, sans-serif; }
        svg .line { fill: none; stroke-width: 1.6; stroke-linejoin: round; stroke-linecap: round; }
        svg .c1 { stroke: var(--c1); } svg .c2 { stroke: var(--c2); } svg .c3 { stroke: var(--c3); }
        svg .c4 { stroke: var(--c4); }
        details { margin: 1rem 0; }
        summary { cursor: pointer; }
        """
}
