import HTTPTypes
import Hummingbird
import JSON
import PostgresClient
import WidgetModel
import WidgetRepresentation
import WidgetStore

/// The routes of the timelines that widgets show.
///
/// A stale timeline is returned at once and marked as stale. Readers with the current content (`If-None-Match`) get
/// 304, or wait for new content (`wait`).
extension RouteDependencies {
    /// Longest wait, in seconds.
    static let longestWait = 60
    /// Number of reads for an unknown widget, since its placement may still be in Kafka.
    private static let looksForNew = 10
    private static let betweenLooks = Duration.milliseconds(200)
    /// Polling interval while the change feed is down.
    private static let lookAgain = Duration.seconds(2)

    /// Largest number of widgets in a request for many timelines.
    private static let mostWidgets = 50

    var timelineRoutes: [APIRoute] {
        [
            APIRoute(
                "getTimeline", .get, "widgets/{widget}/timeline", .own(.widgetsRead), query: ["at", "wait"], handle: get
            ),
            APIRoute("readTimelines", .post, "timelines", .own(.widgetsRead), query: ["at"], handle: read),
        ]
    }

    /// Timelines of several widgets, with a result for each in the order of the request.
    private func read(_ call: APICall) async throws -> Response {
        let at = try call.time("at")
        var body = EventBody(try await call.body(), members: ["widgets", "known"])
        let widgets = body.identifiers("widgets", atMost: Self.mostWidgets)
        let known = EntityTags(body.texts("known"))
        try body.check()
        try call.counts(as: widgets.count)
        let statement = Statements.pollTimeline(
            app: call.app, widgets: widgets, user: call.user, known: known.hashes, knowsAny: known.isAny)
        let found = Dictionary(try await store.query(statement).map { (Array($0.widget.utf8), $0.timeline) }) {
            $1
        }
        let results = widgets.map { result($0, found[Array($0.utf8)] ?? .removed, at, known, call) }
        return Response(json: Array(#"{"results":["#.utf8) + results.joined(separator: ",".utf8) + Array("]}".utf8))
    }

    private func result(
        _ widget: String, _ found: PolledTimeline, _ at: Timestamp?, _ known: EntityTags, _ call: APICall
    ) -> [UInt8] {
        var (status, tag, isStale) = (HTTPResponse.Status.notFound, nil as String?, nil as Bool?)
        var timeline: [UInt8]?
        switch found {
        case .removed: break
        case .known(let shown):
            noteServed(shown.contentRevision, widget, at, call)
            (status, tag, isStale) = (.notModified, shown.hash.map(EntityTags.tag), shown.isStale)
        case .timeline(let detail):
            noteServed(detail.revision, widget, at, call)
            let detailTag = EntityTags.tag(detail, at)
            (status, tag, isStale) = (known.contain(detailTag) ? .notModified : .ok, detailTag, detail.isStale)
            if status == .ok { timeline = detail.encoded(at: at) }
        }
        let result: JSONValue = [
            "widget": .string(widget), "status": .count(status.code), "etag": .text(tag),
            "stale": isStale.map { .bool($0) } ?? .null,
        ]
        return result.encoded.splicing([("timeline", timeline.map { $0[...] })])
    }

    private func get(_ call: APICall) async throws -> Response {
        let widget = try call.path("widget")
        let at = try call.time("at")
        let wait = try call.integer("wait", in: 0...Self.longestWait, default: 0)
        let known = EntityTags(call.request.headers[values: .ifNoneMatch])
        let statement = Statements.pollTimeline(
            app: call.app, widgets: [widget], user: call.user, known: known.hashes, knowsAny: known.isAny)
        let deadline = ContinuousClock.now + .seconds(wait)
        var watch: TimelineChanges.Watch?
        var isOver = false
        var looks = wait > 0 ? Self.looksForNew : 0
        while true {
            let found = try await store.query(statement).first?.timeline
            let left = isOver ? .zero : ContinuousClock.now.duration(to: deadline)
            let id: TimelineID
            switch found {
            case .known(let shown):
                guard left > .zero else {
                    noteServed(shown.contentRevision, widget, at, call)
                    return Response(
                        nil, shown.hash.map(EntityTags.tag), revision: shown.contentRevision, isStale: shown.isStale,
                        age: shown.age)
                }
                id = shown.id
            case .timeline(let timeline):
                guard left > .zero, timeline.content == nil else {
                    noteServed(timeline.revision, widget, at, call)
                    return answer(timeline, at, known)
                }
                id = timeline.id
            case .removed: throw Problem.notFound
            case nil:
                guard looks > 0 else { throw Problem.notFound }
                looks -= 1
                try await Task.sleep(for: Self.betweenLooks)
                continue
            }
            // The loop reads again after the watch has begun, so that no change is missed.
            let hadWatch = watch != nil
            if let watch {
                watch.set([.timeline(id)])
            } else {
                watch = try self.watch(.poll, [.timeline(id)], for: call)
            }
            guard hadWatch, let watch else { continue }
            isOver = try await self.wait(watch, until: deadline, call) == .ended
        }
    }

    /// Notes that a widget's device has been served its present content. Reads with the app's own token are those of a
    /// backend or an operator, and not of the device.
    private func noteServed(_ revision: Int64?, _ widget: String, _ at: Timestamp?, _ call: APICall) {
        guard at == nil, call.user != nil else { return }
        resources.fetches?.served(app: call.app, widget: widget, revision: revision)
    }

    /// Waits until a change or the deadline. Throws if the token is no longer valid.
    private func wait(
        _ watch: TimelineChanges.Watch, until deadline: ContinuousClock.Instant, _ call: APICall
    ) async throws(Problem) -> TimelineChanges.Watch.Outcome {
        while true {
            let left = ContinuousClock.now.duration(to: deadline)
            let isLive = changes.isLive
            let outcome = await watch.wait(atMost: min(left, isLive ? changes.patience : Self.lookAgain))
            try await call.checkToken()
            guard outcome == .timedOut, isLive, ContinuousClock.now < deadline else { return outcome }
        }
    }

    private func answer(_ timeline: TimelineDetail, _ at: Timestamp?, _ known: EntityTags) -> Response {
        let tag = EntityTags.tag(timeline, at)
        return Response(
            known.contain(tag) ? nil : timeline.encoded(at: at), tag, revision: timeline.revision,
            isStale: timeline.isStale, age: timeline.age)
    }
}

/// The entity tags of an `If-None-Match` header, compared weakly (RFC 9110, section 13.1.2).
///
/// Tags are weak, since age and staleness change while the content does not.
struct EntityTags: Sendable {
    private let tags: [Substring]
    /// Whether the reader has any content (`*`).
    let isAny: Bool

    init(_ fields: [String]) {
        let parts = fields.flatMap { (field: String) -> [Substring] in field.split(separator: ",") }
            .map { (part: Substring) -> Substring in part.drop { $0 == " " } }
        isAny = parts.contains { $0.prefix { $0 != " " } == "*" }
        tags = parts.prefix(64).map { part in
            let tag = part.prefix { $0 != " " }
            return tag.hasPrefix("W/") ? tag.dropFirst(2) : tag
        }
    }

    /// Hashes of stored content that the reader has.
    var hashes: [ContentHash] {
        tags.compactMap { tag in
            guard tag.count == 38, tag.first == "\"", tag.last == "\"" else { return nil }
            return TimelineID(String(tag.dropFirst().dropLast())).map { ContentHash(high: $0.high, low: $0.low) }
        }
    }

    func contain(_ tag: String) -> Bool {
        isAny || tags.contains { $0.utf8.elementsEqual(tag.utf8.dropFirst(2)) }
    }

    static func tag(_ hash: ContentHash) -> String { "W/\"\(hash)\"" }

    /// The tag of the stored content, or of the fallback content.
    static func tag(_ timeline: TimelineDetail, _ at: Timestamp?) -> String {
        timeline.storedHash.map(tag) ?? "W/\"fallback-\(ContentHash(of: timeline.shown(at: at)))\""
    }
}
