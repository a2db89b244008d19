import Gzip
import HTTPTypes
import Hummingbird
import NIOCore
import PostgresClient
import WidgetModel
import WidgetStore

/// The timeline that a widget shows.
///
/// A stale one is given at once and says so; its regeneration is under way or waits for budget and spacing, whoever
/// reads it. Readers that have the content already are told so without it (`If-None-Match`), and may wait for the next
/// (`wait`).
struct TimelineRoutes: Sendable {
    let parts: APIParts

    /// The longest wait, in seconds.
    static let longestWait = 60
    /// A widget that has just been placed is there once its event is applied: who waits for its timeline anyway is not
    /// told at once that there is none. A few looks, since nothing tells that a widget is there.
    private static let looksForNew = 10
    private static let betweenLooks = Duration.milliseconds(200)
    /// Shorter ones, in bytes, are sent as they are.
    private static let leastCompressed = 1_024
    /// How often who waits looks by himself while nobody tells him.
    private static let lookAgain = Duration.seconds(2)

    var all: [APIRoute] {
        [APIRoute("getTimeline", .get, "widgets/{widget}/timeline", .own(.widgetsRead), handle: get)]
    }

    private func get(_ call: APICall) async throws -> Response {
        try call.allowQuery("at", "wait")
        let widget = try call.path("widget")
        let at = try call.time("at")
        let wait = try call.integer("wait", in: 0...Self.longestWait, default: 0)
        let known = EntityTags(call.request.headers[values: .ifNoneMatch])
        let statement = CheckTimeline(app: call.app, widget: widget, user: call.user)
        let deadline = ContinuousClock.now + .seconds(wait)
        var watch: TimelineChanges.Watch?
        var isOver = false
        var looks = wait > 0 ? Self.looksForNew : 0
        while true {
            guard let shown = try await parts.store.pool.query(statement).first else {
                guard looks > 0 else { throw Problem.notFound }
                looks -= 1
                try await Task.sleep(for: Self.betweenLooks)
                continue
            }
            guard let id = shown.timelineID else { throw Problem.notFound }
            let left = isOver ? .zero : ContinuousClock.now.duration(to: deadline)
            if let tag = shown.tag, known.contain(tag) {
                guard left > .zero else { return notModified(shown, tag) }
            } else if shown.hash != nil || left <= .zero {
                return try await timeline(call, widget, at, known)
            }
            // Looked at once more after the watch has begun, so that nothing is missed between.
            let hadWatch = watch != nil
            if let watch {
                watch.set([.timeline(id)])
            } else {
                guard let new = parts.changes.watch(.poll, [.timeline(id)], for: call.holder) else {
                    throw Problem.tooManyWaiting
                }
                watch = new
            }
            guard hadWatch, let watch else { continue }
            isOver = try await self.wait(watch, until: deadline, call) == .ended
        }
    }

    /// Waits until there is a reason to look again. A token that is not good any more ends it.
    private func wait(
        _ watch: TimelineChanges.Watch, until deadline: ContinuousClock.Instant, _ call: APICall
    ) async throws(Problem) -> TimelineChanges.Watch.Outcome {
        while true {
            let left = ContinuousClock.now.duration(to: deadline)
            let isLive = parts.changes.isLive
            let outcome = await watch.wait(atMost: min(left, isLive ? parts.changes.patience : Self.lookAgain))
            try call.checkToken()
            guard outcome == .timedOut, isLive, ContinuousClock.now < deadline else { return outcome }
        }
    }

    private func timeline(
        _ call: APICall, _ widget: String, _ at: Timestamp?, _ known: EntityTags
    ) async throws -> Response {
        let statement = ReadWidgetTimeline(app: call.app, widget: widget, user: call.user)
        guard let timeline = try await parts.store.pool.query(statement).first else { throw Problem.notFound }
        var headers: HTTPFields = [
            .contentType: "application/json", .cacheControl: "private, no-cache", .vary: "Accept-Encoding",
        ]
        let tag = timeline.storedHash.map(EntityTags.tag) ?? EntityTags.fallback(timeline.shown(at: at))
        headers[.eTag] = tag
        headers[.freshetStale] = timeline.isStale ? "true" : "false"
        headers[.freshetRevision] = timeline.revision.map { "\($0)" }
        headers[.age] = timeline.age.map { "\($0.components.seconds)" }
        if known.contain(tag) { return Response(status: .notModified, headers: headers.withoutContent) }
        var bytes = timeline.encoded(at: at)
        if bytes.count >= Self.leastCompressed, AcceptedEncoding.isGzip(call.request.headers[values: .acceptEncoding]),
            let compressed = Gzip.compress(bytes)
        {
            bytes = compressed
            headers[.contentEncoding] = "gzip"
        }
        return Response(status: .ok, headers: headers, body: ResponseBody(byteBuffer: ByteBuffer(bytes: bytes)))
    }

    private func notModified(_ shown: ShownTimeline, _ tag: String) -> Response {
        var headers: HTTPFields = [.eTag: tag, .cacheControl: "private, no-cache"]
        headers[.freshetStale] = shown.isStale ? "true" : "false"
        headers[.freshetRevision] = shown.revision.map { "\($0)" }
        headers[.age] = shown.age.map { "\($0.components.seconds)" }
        return Response(status: .notModified, headers: headers)
    }
}

extension HTTPFields {
    fileprivate var withoutContent: HTTPFields {
        var fields = self
        fields[.contentType] = nil
        return fields
    }
}

extension ShownTimeline {
    /// The entity tag of the stored content.
    var tag: String? { hash.map(EntityTags.tag) }
}

/// The `Accept-Encoding` header (RFC 9110, section 12.5.3), as far as gzip is concerned.
enum AcceptedEncoding {
    /// Whether gzip is named, or anything is, and not with a weight of 0.
    static func isGzip(_ fields: [String]) -> Bool {
        var isAnyAccepted = false
        for part in fields.flatMap({ (field: String) -> [Substring] in field.split(separator: ",") }) {
            let pieces = part.split(separator: ";").map { $0.filter { $0 != " " }.lowercased() }
            let weight = pieces.dropFirst().first { $0.hasPrefix("q=") }.map { Double($0.dropFirst(2)) ?? 0 } ?? 1
            switch pieces.first {
            case "gzip", "x-gzip": return weight > 0
            case "*": isAnyAccepted = weight > 0
            default: continue
            }
        }
        return isAnyAccepted
    }
}

/// The entity tags of an `If-None-Match` header, compared weakly (RFC 9110, section 13.1.2).
///
/// A tag stands for the stored content. What is told about it (its age, whether it is stale) changes by itself, hence
/// weak tags.
struct EntityTags: Sendable {
    private let tags: [Substring]
    private let isAny: Bool

    init(_ fields: [String]) {
        let parts = fields.flatMap { (field: String) -> [Substring] in field.split(separator: ",") }
            .map { (part: Substring) -> Substring in part.drop { $0 == " " } }
        isAny = parts.contains { $0.prefix { $0 != " " } == "*" }
        tags = parts.prefix(64).map { part in
            let tag = part.prefix { $0 != " " }
            return tag.hasPrefix("W/") ? tag.dropFirst(2) : tag
        }
    }

    func contain(_ tag: String) -> Bool {
        isAny || tags.contains { $0.utf8.elementsEqual(tag.utf8.dropFirst(2)) }
    }

    static func tag(_ hash: ContentHash) -> String { "W/\"\(hash)\"" }

    /// The tag of what is shown in place of a timeline that was never stored.
    static func fallback(_ shown: [UInt8]) -> String { "W/\"fallback-\(ContentHash(of: shown))\"" }
}
