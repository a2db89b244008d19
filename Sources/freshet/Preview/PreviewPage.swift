import JSON
import WidgetAPI
import WidgetModel

/// Page with every kind and family of a provider.
struct PreviewPage: Sendable {
    let widgets: [PreviewState.Widget]
    /// Number of the last change.
    let version: Int
    let now: Timestamp
    let timeZone: String
    /// Explanation of the page.
    let lead: String

    var page: ConsolePage {
        var page = ConsolePage(title: "Preview", base: "", body: body)
        page.styles = [TimeAxis.stylesheet]
        page.scripts = ["console.js", TimeAxis.script]
        page.live = "/events?version=\(version)"
        return page
    }

    private var body: HTML {
        var sections: HTML = "<p class=\"soft\">\(lead)</p>"
        var rest = widgets.enumerated().map { (index: $0, widget: $1) }[...]
        while let kind = rest.first?.widget.subject.identity {
            let own = rest.prefix {
                $0.widget.subject.identity.kind == kind.kind && $0.widget.subject.identity.app == kind.app
            }
            rest = rest.dropFirst(own.count)
            sections += section(own[own.startIndex].widget.kind, app: kind.app, own.map { card($0.widget, $0.index) })
        }
        return sections
    }

    private func section(_ kind: KindDefinition, app: String, _ cards: [HTML]) -> HTML {
        let description: HTML = kind.description.isEmpty ? "" : "<p>\(kind.description)</p>"
        let placeholder = String(decoding: kind.placeholder.encoded, as: UTF8.self)
        return """
            <section aria-label="\(kind.displayName)"><h2>\(kind.displayName) <span class="soft small">\(app)/\(kind.name)</span></h2>
            \(description)<details><summary>Placeholder of the manifest</summary><pre>\(placeholder)</pre></details>
            <div class="wide">\(HTML(cards))</div></section>

            """
    }

    private func card(_ widget: PreviewState.Widget, _ index: Int) -> HTML {
        let family = widget.subject.family.name
        let id = "widget-\(index)"
        let problem: HTML = widget.problem.map { "<p class=\"notice bad\" role=\"status\">\($0)</p>" } ?? ""
        return """
            <article class="card" id="\(id)" data-part data-version="\(widget.version)" aria-label="\(family)">\
            <h3>\(family)</h3>\(problem)\(axis(widget, "\(id)-axis", family))</article>

            """
    }

    private func axis(_ widget: PreviewState.Widget, _ id: String, _ family: String) -> HTML {
        guard let timeline = widget.timeline else {
            return widget.problem == nil ? "<p class=\"soft\">The provider has not answered yet.</p>" : ""
        }
        let configuration = widget.subject.identity.configuration
        do throws(JSONError) {
            return try TimeAxis(
                title: "Entries of \(widget.kind.displayName), \(family)", id: id, timeline: timeline.content,
                link: widget.kind.link(for: configuration, family: widget.subject.family), now: now, timeZone: timeZone
            ).html
        } catch {
            return "<p class=\"notice bad\">\(error.message)</p>"
        }
    }
}
