// SPDX-License-Identifier: Apache-2.0

import HTTPTypes
import Hummingbird
import JSON
import PostgresClient
import WidgetModel
import WidgetStore

/// The routes of the timelines that widgets show.
///
/// A stale timeline is returned at once and marked as stale. Readers with the current content (`If-None-Match`) get
/// 304, or wait for new content (`wait`).
extension Routes {
    /// Number of reads for an unknown widget, since its placement may still be in Kafka.
    private static let looksForNew = 10
    /// Largest number of widgets in a request for many timelines.
    private static let mostWidgets = 50

    var timelineRoutes: [APIRoute] {
        [
            APIRoute(
                "getTimeline", .get, "widgets/{widget}/timeline", .own(.widgetsRead), query: ["at", "wait"]
            ) { call in
                let (widget, at) = (try call.path("widget"), try call.time("at"))
                let known = EntityTags(call.request.headers[values: .ifNoneMatch])
                let wait = try call.integer("wait", in: 0...Self.longestWait, default: 0)
                let timeline = try await timeline(
                    of: widget, at: at, known: known, wait: .seconds(wait), for: call.caller)
                return try Response(timeline, at: at, known: known)
            },
            APIRoute("readTimelines", .post, "timelines", .own(.widgetsRead), query: ["at"]) { call in
                let at = try call.time("at")
                var body = EventBody(try await call.body(), members: ["widgets", "known"])
                let widgets = body.identifiers("widgets", atMost: Self.mostWidgets)
                let known = EntityTags(body.texts("known"))
                try body.check()
                let timelines = try await timelines(of: widgets, at: at, known: known, for: call.caller)
                let results = zip(widgets, timelines).map { $1.result(for: $0, at: at, known: known) }
                return Response(
                    json: Array(#"{"results":["#.utf8) + results.joined(separator: ",".utf8) + Array("]}".utf8))
            },
        ]
    }

    /// The timeline that a widget shows.
    ///
    /// - Parameters:
    ///   - at: time of the entry that the reader shows; nil for now.
    ///   - known: content that the reader has.
    ///   - wait: longest wait for other content. Without content, an unknown widget is waited for.
    func timeline(
        of widget: String, at: Timestamp? = nil, known: EntityTags = EntityTags([]), wait: Duration = .zero,
        for caller: Caller
    ) async throws -> PolledTimeline {
        let statement = Statements.pollTimeline(
            app: caller.app, widgets: [widget], user: caller.user, known: known.hashes, knowsAny: known.isAny)
        let deadline = ContinuousClock.now + wait
        var watch: TimelineChanges.Watch?
        var isOver = false
        var looks = wait > .zero ? Self.looksForNew : 0
        while true {
            let found = try await store.query(statement).first?.timeline
            let isWaiting = !isOver && ContinuousClock.now < deadline
            let id: TimelineID
            switch found {
            case .known(let shown) where isWaiting: id = shown.id
            case .timeline(let timeline) where isWaiting && timeline.content == nil: id = timeline.id
            case let timeline?:
                if at == nil, caller.isDevice {
                    resources.fetches?.noteServed(app: caller.app, widget: widget, revision: timeline.revision)
                }
                return timeline
            case nil where looks > 0:
                looks -= 1
                try await Task.sleep(for: Self.betweenLooks)
                continue
            case nil: return .removed
            }
            // The loop reads again after the watch has begun, so that no change is missed.
            guard let watch else {
                watch = try self.watch(.poll, [.timeline(id)], for: caller)
                continue
            }
            watch.set([.timeline(id)])
            isOver = try await waitForChange(of: watch, until: deadline, caller) == .ended
        }
    }

    /// Timelines of several widgets, in the order of their ids. An unknown widget counts as removed.
    private func timelines(
        of widgets: [String], at: Timestamp?, known: EntityTags, for caller: Caller
    ) async throws -> [PolledTimeline] {
        try caller.count(requests: widgets.count)
        let statement = Statements.pollTimeline(
            app: caller.app, widgets: widgets, user: caller.user, known: known.hashes, knowsAny: known.isAny)
        let found = Dictionary(try await store.query(statement).map { (Array($0.widget.utf8), $0.timeline) }) { $1 }
        return widgets.map { widget in
            let timeline = found[Array(widget.utf8)] ?? .removed
            if at == nil, caller.isDevice {
                resources.fetches?.noteServed(app: caller.app, widget: widget, revision: timeline.revision)
            }
            return timeline
        }
    }

    /// Waits until a change or the deadline. Throws if the token is no longer valid.
    private func waitForChange(
        of watch: TimelineChanges.Watch, until deadline: ContinuousClock.Instant, _ caller: Caller
    ) async throws(Problem) -> TimelineChanges.Watch.Outcome {
        while true {
            let left = ContinuousClock.now.duration(to: deadline)
            let isLive = changes.isLive
            let outcome = await watch.wait(atMost: min(left, patience))
            try await caller.checkToken()
            guard outcome == .timedOut, isLive, ContinuousClock.now < deadline else { return outcome }
        }
    }
}

extension Response {
    /// The response to a reader of one timeline.
    fileprivate init(_ timeline: PolledTimeline, at: Timestamp?, known: EntityTags) throws(Problem) {
        switch timeline {
        case .removed: throw .notFound
        case .known(let shown):
            self.init(
                nil, shown.hash.map(EntityTags.tag), revision: shown.contentRevision, isStale: shown.isStale,
                age: shown.age)
        case .timeline(let detail):
            let tag = detail.tag(at: at)
            self.init(
                known.contain(tag) ? nil : detail.encoded(at: at), tag, revision: detail.revision,
                isStale: detail.isStale, age: detail.age)
        }
    }
}

extension Caller {
    /// Whether the caller is a device, which has a user's token. Backends and operators have the app's.
    fileprivate var isDevice: Bool { user != nil }
}

extension PolledTimeline {
    /// Revision of the content; nil without any.
    fileprivate var revision: Int64? {
        switch self {
        case .removed: nil
        case .known(let shown): shown.contentRevision
        case .timeline(let detail): detail.revision
        }
    }

    /// JSON of the result for one of several widgets.
    fileprivate func result(for widget: String, at: Timestamp?, known: EntityTags) -> [UInt8] {
        var (status, tag, isStale) = (HTTPResponse.Status.notFound, nil as String?, nil as Bool?)
        var timeline: [UInt8]?
        switch self {
        case .removed: break
        case .known(let shown): (status, tag, isStale) = (.notModified, shown.hash.map(EntityTags.tag), shown.isStale)
        case .timeline(let detail):
            let detailTag = detail.tag(at: at)
            (status, tag, isStale) = (known.contain(detailTag) ? .notModified : .ok, detailTag, detail.isStale)
            if status == .ok { timeline = detail.encoded(at: at) }
        }
        let result: JSONValue = [
            "widget": .string(widget), "status": .count(status.code), "etag": .text(tag),
            "stale": isStale.map { .bool($0) } ?? .null,
        ]
        return result.encoded.splicing([("timeline", timeline.map { $0[...] })])
    }
}

extension TimelineDetail {
    /// The entity tag of the stored content, or of the fallback content.
    fileprivate func tag(at: Timestamp?) -> String {
        storedHash.map(EntityTags.tag) ?? "W/\"fallback-\(ContentHash(of: shown(at: at)))\""
    }
}
