// SPDX-License-Identifier: Apache-2.0

package import WidgetModel

extension HTML {
    /// A page of its own with charts and tables, without scripts and references to other files. It is also well-formed
    /// XML.
    ///
    /// - Parameters:
    ///   - lead: content below the title.
    ///   - style: rules besides those that all reports have.
    package static func report(title: String, lead: HTML, body: HTML, style: String = "") -> String {
        let page: HTML = """
            <!DOCTYPE html>
            <html lang="en">
            <head>
            <meta charset="utf-8"/>
            <meta name="viewport" content="width=device-width, initial-scale=1"/>
            <meta name="color-scheme" content="light dark"/>
            <title>\(title)</title>
            <style>
            \(raw: reportRules)
            \(raw: style)
            \(raw: Chart.style)
            </style>
            </head>
            <body>
            <header>
            <h1>\(title)</h1>
            \(lead)
            </header>
            <main>
            \(body)
            </main>
            </body>
            </html>

            """
        return page.text
    }

    private static let reportRules = """
        :root { --ground: #f7f8f9; --card: #fff; --ink: #1c1e21; --quiet: #5f6670; --rule: #d9dde2; --good: #1a7f37;
          --bad: #cf222e; --shade: #0006; }
        @media (prefers-color-scheme: dark) {
          :root { --ground: #131518; --card: #1c1f24; --ink: #e8e9eb; --quiet: #9aa0a9; --rule: #30343b; --good: #57c773;
            --bad: #ff7b72; --shade: #fff5; }
        }
        * { box-sizing: border-box; }
        body { margin: 0; background: var(--ground); color: var(--ink); font: 16px/1.45 system-ui, sans-serif; }
        main, header { max-width: 76rem; margin: 0 auto; padding: 1rem; }
        h1 { font-size: 1.5rem; margin: .5rem 0; }
        .scroll { overflow-x: auto; background:
          linear-gradient(to right, var(--ground) 1rem, transparent) local left / 2rem 100% no-repeat,
          linear-gradient(to left, var(--ground) 1rem, transparent) local right / 2rem 100% no-repeat,
          linear-gradient(to right, var(--shade), transparent) left / 1rem 100% no-repeat,
          linear-gradient(to left, var(--shade), transparent) right / 1rem 100% no-repeat; }
        table { border-collapse: collapse; font-size: .875rem; font-variant-numeric: tabular-nums; }
        th, td { padding: .35rem .6rem; border-bottom: 1px solid var(--rule); text-align: left; vertical-align: top; }
        .long { min-width: 10.5rem; overflow-wrap: anywhere; }
        thead th { color: var(--quiet); font-weight: 600; vertical-align: bottom; }
        .charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 25rem), 1fr)); gap: .75rem;
          align-items: start; margin: 1rem 0; }
        .charts > :last-child:nth-child(odd) { grid-column: 1 / -1; }
        figure { margin: 0; background: var(--card); border: 1px solid var(--rule); border-radius: 8px; padding: .75rem;
          min-width: 0; }
        figcaption { font-size: .875rem; margin-bottom: .5rem; overflow-wrap: anywhere; }
        """
}
