// SPDX-License-Identifier: Apache-2.0

import HTTPTypes
import Hummingbird
import JSON
import Logging
import NIOCore
import ReloadWorkers
import ServiceLifecycle
import Synchronization
import Waiting
import WidgetAPI
import WidgetModel
import WidgetStore

/// A widget of a preview.
struct PreviewWidget: Sendable {
    let kind: KindDefinition
    let subject: TrialSubject
    /// The last timeline that could be read.
    var timeline: ParsedTimeline?
    /// Failure of the last request.
    var problem: String?
    /// Grows with each visible change.
    var version = 0

    /// Takes over an answer.
    ///
    /// - Returns: whether something visible has changed.
    mutating func update(_ new: ParsedTimeline?, problem newProblem: String?) -> Bool {
        let isSame = problem == newProblem && (new == nil || new?.hash == timeline?.hash)
        guard !isSame else { return false }
        if let new { timeline = new }
        problem = newProblem
        version += 1
        return true
    }
}

/// Serves a page with every kind and family of a provider, its assets, and events that announce changes.
final class PreviewServer: Service {
    let host: String
    let port: Int
    let timeZone: String
    /// Explanation of the page.
    let lead: String
    let logger: Logger
    let onListening: @Sendable (Int) -> Void
    /// All widgets, one for each kind and family, with the number of the last change.
    private let contents: Mutex<(widgets: [PreviewWidget], version: Int, isClosed: Bool)>
    private let changes = Signal()
    private let streams = Atomic(0)

    private static let maximumStreams = 32
    /// Time after which an idle stream sends a comment, so that a closed one is noticed.
    private static let idle = Duration.seconds(15)

    init(
        _ widgets: [PreviewWidget], host: String, port: Int, timeZone: String, lead: String, logger: Logger,
        onListening: @escaping @Sendable (Int) -> Void = { _ in }
    ) {
        contents = Mutex((widgets, 0, false))
        (self.host, self.port, self.timeZone, self.lead) = (host, port, timeZone, lead)
        (self.logger, self.onListening) = (logger, onListening)
    }

    func run() async throws {
        let application = Application(
            router: router, configuration: ApplicationConfiguration(address: .hostname(host, port: port)),
            onServerRunning: { [onListening] channel in
                if let port = channel.localAddress?.port { onListening(port) }
            }, logger: logger)
        try await withGracefulShutdownHandler {
            try await application.run()
        } onGracefulShutdown: { [self] in
            close()
        }
    }

    var router: Router<BasicRequestContext> {
        let router = Router(context: BasicRequestContext.self)
        router.get("") { request, _ in
            guard self.accepts(request) else { return Self.refusal }
            return self.page(at: Timestamp.now()).response()
        }
        router.get("assets/:name") { request, context in
            guard self.accepts(request) else { return Self.refusal }
            return context.parameters.get("name").flatMap { ConsolePage.asset($0, to: request) }
                ?? Response(status: .notFound, headers: ConsolePage.securityHeaders)
        }
        router.get("events") { request, _ in
            guard self.accepts(request) else { return Self.refusal }
            let known =
                request.headers[.init("Last-Event-ID")!] ?? request.uri.queryParameters["version"].map(String.init)
            return self.events(after: known.flatMap { Int($0) } ?? 0)
        }
        return router
    }

    private static let refusal = Response(status: .misdirectedRequest, headers: ConsolePage.securityHeaders)

    /// Whether a request names this host. A page of another origin whose name leads here must not read the preview.
    private func accepts(_ request: Request) -> Bool {
        let names = ["localhost", "127.0.0.1", "[::1]", host]
        guard ["localhost", "127.0.0.1", "::1"].contains(host), let authority = request.head.authority else {
            return true
        }
        return names.contains { authority == $0 || authority.hasPrefix($0 + ":") }
    }

    // MARK: Widgets

    var current: (widgets: [PreviewWidget], version: Int) { contents.withLock { ($0.widgets, $0.version) } }

    /// Takes over an answer for the widget at an index.
    func update(_ index: Int, _ timeline: ParsedTimeline?, problem: String?) {
        let isChanged = contents.withLock { contents in
            guard contents.widgets[index].update(timeline, problem: problem) else { return false }
            contents.version += 1
            return true
        }
        if isChanged { changes.signal() }
    }

    /// Ends all waits.
    func close() {
        contents.withLock { $0.isClosed = true }
        changes.signal()
    }

    /// Number of the last change once it differs from `version`; nil at the end.
    func version(otherThan version: Int) async throws -> Int? {
        while true {
            let seen = changes.version
            let (current, isClosed) = contents.withLock { ($0.version, $0.isClosed) }
            if isClosed { return nil }
            if current != version { return current }
            try await changes.wait(past: seen)
        }
    }

    /// Asks the provider for all widgets of some kinds at intervals.
    func poll(_ trial: ProviderTrial, _ kinds: [TrialKind], every interval: Duration) async throws {
        while !Task.isCancelled {
            var rest = current.widgets.map(\.subject)[...]
            for kind in kinds {
                let subjects = Array(rest.prefix(kind.definition.families.count))
                try await poll(trial, kind, subjects, first: rest.startIndex)
                rest = rest.dropFirst(subjects.count)
            }
            try await Task.sleep(for: interval)
        }
    }

    /// Families that the kind does not vary by have one timeline.
    private func poll(_ trial: ProviderTrial, _ kind: TrialKind, _ subjects: [TrialSubject], first: Int) async throws {
        var known: Set<TimelineID> = []
        let distinct = subjects.filter { known.insert($0.id).inserted }
        let answers = try await trial.timelines(of: distinct, kind)
        let failure = answers.lazy.compactMap(\.request.failure).first
        let elements = Dictionary(answers.flatMap(\.elements).map { ($0.subject.id, $0) }) { first, _ in first }
        for (index, subject) in subjects.enumerated() {
            let element = elements[subject.id]
            switch element?.outcome {
            case .success(let timeline)?: update(first + index, timeline, problem: nil)
            case .failure(let failure)?: update(first + index, nil, problem: failure.message)
            case nil: update(first + index, nil, problem: failure?.message)
            }
        }
    }

    // MARK: Page

    func page(at now: Timestamp) -> ConsolePage {
        let (widgets, version) = current
        var page = ConsolePage(title: "Preview", base: "", body: body(widgets, now))
        page.styles = [TimeAxis.stylesheet]
        page.scripts = ["console.js", TimeAxis.script]
        page.live = "/events?version=\(version)"
        return page
    }

    private func body(_ widgets: [PreviewWidget], _ now: Timestamp) -> HTML {
        var rest = widgets.enumerated().map { (index: $0, widget: $1) }[...]
        var kinds: [(id: String, widgets: ArraySlice<(index: Int, widget: PreviewWidget)>)] = []
        while let kind = rest.first?.widget.subject.identity {
            let own = rest.prefix {
                $0.widget.subject.identity.kind == kind.kind && $0.widget.subject.identity.app == kind.app
            }
            rest = rest.dropFirst(own.count)
            kinds.append(("kind-\(kinds.count)", own))
        }
        let entries = kinds.map { id, widgets -> HTML in
            let families = widgets.map { index, widget -> HTML in
                "<li><a href=\"#\(Self.id(index))\">\(widget.subject.family.name)</a></li>"
            }
            let name = widgets.first?.widget.kind.displayName ?? ""
            return "<li><a href=\"#\(id)\"><strong>\(name)</strong></a><ul>\(HTML(families))</ul></li>"
        }
        let sections = kinds.map { id, widgets in
            section(id, widgets.map(\.widget), widgets.map { card($0.widget, $0.index, now) })
        }
        return """
            <p class="soft">\(lead)</p>
            <nav class="card contents" aria-label="Contents"><ul>\(HTML(entries))</ul></nav>
            \(HTML(sections))
            """
    }

    /// - Parameter widgets: those of one kind.
    private func section(_ id: String, _ widgets: [PreviewWidget], _ cards: [HTML]) -> HTML {
        guard let kind = widgets.first?.kind, let app = widgets.first?.subject.identity.app else { return "" }
        let description: HTML = kind.description.isEmpty ? "" : "<p>\(kind.description)</p>"
        let placeholder = String(decoding: kind.placeholder.encoded, as: UTF8.self)
        return """
            <section id="\(id)" aria-label="\(kind.displayName)">\
            <h2>\(kind.displayName) <span class="soft small">\(app)/\(kind.name)</span></h2>
            \(description)<details><summary>Placeholder of the manifest</summary>\
            <pre tabindex="0" role="group" aria-label="Placeholder of \(kind.displayName)">\(placeholder)</pre></details>
            <div class="wide">\(HTML(cards))</div></section>

            """
    }

    /// Id of the card of the widget at an index.
    private static func id(_ index: Int) -> String { "widget-\(index)" }

    private func card(_ widget: PreviewWidget, _ index: Int, _ now: Timestamp) -> HTML {
        let family = widget.subject.family.name
        let id = Self.id(index)
        let problem: HTML = widget.problem.map { "<p class=\"notice bad\" role=\"status\">\($0)</p>" } ?? ""
        return """
            <article class="card" id="\(id)" data-part data-version="\(widget.version)" aria-label="\(family)">\
            <h3>\(family)</h3>\(problem)\(axis(widget, id: "\(id)-axis", at: now))</article>

            """
    }

    private func axis(_ widget: PreviewWidget, id: String, at now: Timestamp) -> HTML {
        guard let timeline = widget.timeline else {
            return widget.problem == nil ? "<p class=\"soft\">The provider has not answered yet.</p>" : ""
        }
        let configuration = widget.subject.identity.configuration
        do throws(JSONError) {
            return try TimeAxis(
                title: "Entries of \(widget.kind.displayName), \(widget.subject.family.name)", id: id,
                timeline: timeline.content,
                link: widget.kind.link(for: configuration, family: widget.subject.family), now: now, timeZone: timeZone
            ).html
        } catch {
            return "<p class=\"notice bad\">\(error.message)</p>"
        }
    }

    // MARK: Events

    private func events(after known: Int) -> Response {
        guard streams.add(1, ordering: .relaxed).oldValue < Self.maximumStreams else {
            streams.subtract(1, ordering: .relaxed)
            return Response(status: .serviceUnavailable, headers: ConsolePage.securityHeaders)
        }
        var headers = ConsolePage.securityHeaders
        headers[.contentType] = "text/event-stream"
        headers[.cacheControl] = "no-store"
        return Response(
            status: .ok, headers: headers,
            body: ResponseBody { [self] writer in
                defer { streams.subtract(1, ordering: .relaxed) }
                try await writer.write(ByteBuffer(string: "retry: 1000\n\n"))
                var known = known
                while let news = try await news(after: known) {
                    if news != known {
                        known = news
                        try await writer.write(ByteBuffer(string: "id: \(news)\nevent: changed\ndata: \(news)\n\n"))
                    } else {
                        try await writer.write(ByteBuffer(string: ": still here\n\n"))
                    }
                }
                try await writer.finish(nil)
            })
    }

    /// The number of the next change, or `known` after a while without one; nil at the end.
    private func news(after known: Int) async throws -> Int? {
        try await withTimeLimit(Self.idle) { [self] in try await version(otherThan: known) } ?? known
    }
}
