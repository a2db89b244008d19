import HTTPTypes
import Hummingbird
import NIOCore
import PostgresClient
import WidgetModel
import WidgetRepresentation
import WidgetStore

/// The routes of the timelines that widgets show.
///
/// A stale timeline is returned at once and marked as stale. Readers with the current content (`If-None-Match`) get
/// 304, or wait for new content (`wait`).
struct TimelineRoutes: Sendable {
    let parts: APIParts

    /// Longest wait, in seconds.
    static let longestWait = 60
    /// Number of reads for an unknown widget, since its placement may still be in Kafka.
    private static let looksForNew = 10
    private static let betweenLooks = Duration.milliseconds(200)
    /// Polling interval while the change feed is down.
    private static let lookAgain = Duration.seconds(2)

    /// Largest number of widgets in a request for many timelines.
    private static let mostWidgets = 50

    var all: [APIRoute] {
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
        let found = Dictionary(try await parts.store.query(statement).map { (Array($0.widget.utf8), $0.timeline) }) {
            $1
        }
        for widget in widgets {
            if let timeline = found[Array(widget.utf8)] { noteServed(timeline, widget, at, call) }
        }
        let results = widgets.map { Self.result($0, found[Array($0.utf8)] ?? .removed, at, known) }
        return Response(json: Array(#"{"results":["#.utf8) + results.joined(separator: ",".utf8) + Array("]}".utf8))
    }

    private static func result(
        _ widget: String, _ found: PolledTimeline, _ at: Timestamp?, _ known: EntityTags
    ) -> [UInt8] {
        var (status, tag, isStale) = (HTTPResponse.Status.notFound, nil as String?, nil as Bool?)
        var timeline: [UInt8]?
        switch found {
        case .removed: break
        case .known(let shown):
            (status, tag, isStale) = (.notModified, shown.hash.map(EntityTags.tag), shown.isStale)
        case .timeline(let detail):
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
            let found = try await parts.store.query(statement).first?.timeline
            let left = isOver ? .zero : ContinuousClock.now.duration(to: deadline)
            let id: TimelineID
            switch found {
            case .known(let shown):
                guard left > .zero else {
                    noteServed(.known(shown), widget, at, call)
                    return notModified(shown)
                }
                id = shown.id
            case .timeline(let timeline):
                guard left > .zero, timeline.content == nil else {
                    noteServed(.timeline(timeline), widget, at, call)
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
                watch = try parts.watch(.poll, [.timeline(id)], for: call)
            }
            guard hadWatch, let watch else { continue }
            isOver = try await self.wait(watch, until: deadline, call) == .ended
        }
    }

    /// Notes that a widget's device has been served its present content. Reads with the app's own token are those of a
    /// backend or an operator, and not of the device.
    private func noteServed(_ timeline: PolledTimeline, _ widget: String, _ at: Timestamp?, _ call: APICall) {
        guard at == nil, call.user != nil else { return }
        switch timeline {
        case .removed: break
        case .known(let shown):
            parts.resources.fetches?.served(app: call.app, widget: widget, revision: shown.contentRevision)
        case .timeline(let detail):
            parts.resources.fetches?.served(app: call.app, widget: widget, revision: detail.revision)
        }
    }

    /// Waits until a change or the deadline. Throws if the token is no longer valid.
    private func wait(
        _ watch: TimelineChanges.Watch, until deadline: ContinuousClock.Instant, _ call: APICall
    ) async throws(Problem) -> TimelineChanges.Watch.Outcome {
        while true {
            let left = ContinuousClock.now.duration(to: deadline)
            let isLive = parts.changes.isLive
            let outcome = await watch.wait(atMost: min(left, isLive ? parts.changes.patience : Self.lookAgain))
            try await call.checkToken()
            guard outcome == .timedOut, isLive, ContinuousClock.now < deadline else { return outcome }
        }
    }

    private func answer(_ timeline: TimelineDetail, _ at: Timestamp?, _ known: EntityTags) -> Response {
        let tag = EntityTags.tag(timeline, at)
        var headers = Self.headers(tag, isStale: timeline.isStale, revision: timeline.revision, age: timeline.age)
        guard !known.contain(tag) else { return Response(status: .notModified, headers: headers) }
        headers[.contentType] = "application/json"
        return Response(
            status: .ok, headers: headers,
            body: ResponseBody(byteBuffer: ByteBuffer(bytes: timeline.encoded(at: at))))
    }

    private func notModified(_ shown: ClaimedTimeline) -> Response {
        Response(
            status: .notModified,
            headers: Self.headers(
                shown.hash.map(EntityTags.tag), isStale: shown.isStale, revision: shown.contentRevision, age: shown.age)
        )
    }

    private static func headers(_ tag: String?, isStale: Bool, revision: Int64?, age: Duration?) -> HTTPFields {
        var headers: HTTPFields = [.cacheControl: "private, no-cache", .vary: "Accept-Encoding"]
        headers[.eTag] = tag
        headers[.freshetStale] = isStale ? "true" : "false"
        headers[.freshetRevision] = revision.map { "\($0)" }
        headers[.age] = age.map { "\($0.components.seconds)" }
        return headers
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
