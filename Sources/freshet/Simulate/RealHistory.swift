import WidgetEvents
import WidgetModel
import WidgetSimulator

/// Record of what really happened in a time span, from the messages about timelines and decisions.
struct RealHistory {
    /// Counts of one kind in the time span.
    struct Kind {
        var publications = 0
        var decisions: [Decision: Int] = [:]
    }

    let span: Range<Timestamp>
    /// By ``SimulationReport/Kind/title``.
    private(set) var kinds: [String: Kind] = [:]
    /// Times of publications by timeline, from before the span on.
    private(set) var publications: [TimelineID: [Timestamp]] = [:]
    /// Times of fetches by timeline, likewise.
    private(set) var fetches: [TimelineID: [Timestamp]] = [:]
    /// True if no decision of the span is missing.
    var hasDecisions = false
    /// True if no publication of the span is missing from the messages about timelines.
    var hasTimelines = false
    /// Time from a publication to its policy's reload.
    private var refreshes: [String: [Duration]] = [:]

    init(_ span: Range<Timestamp>) {
        self.span = span
    }

    /// Notes the data of a `freshet.timeline.updated.v1`.
    mutating func noteTimeline(_ data: JSONValue, at time: Timestamp) {
        guard let title = Self.title(data), let id = Self.timeline(data) else { return }
        publications[id, default: []].append(time)
        if span.contains(time) { kinds[title, default: Kind()].publications += 1 }
        let stored = data["storedAt"]?.stringValue.flatMap { Timestamp(rfc3339: $0) } ?? time
        let last = data["entries"]?.arrayValue?.last?["date"]?.stringValue.flatMap { Timestamp(rfc3339: $0) }
        let after = data["policy"]?["after"]?.stringValue.flatMap { Timestamp(rfc3339: $0) }
        let isAtEnd = data["policy"]?.stringValue == "atEnd"
        if let end = after ?? (isAtEnd ? last : nil) { refreshes[title, default: []].append(end - stored) }
    }

    /// Notes the data of a `freshet.timeline.decided.v1`.
    mutating func noteDecision(_ data: JSONValue, at time: Timestamp) {
        // A request that was refused has no timeline.
        guard let title = Self.title(data), let id = Self.timeline(data),
            let decision = data["decision"]?.stringValue.flatMap({ Decision(name: $0) })
        else { return }
        let isFetched = decision == .reloaded || decision == .unchanged
        if isFetched { fetches[id, default: []].append(time) }
        if decision == .reloaded { publications[id, default: []].append(time) }
        if span.contains(time) { kinds[title, default: Kind()].decisions[decision, default: 0] += 1 }
    }

    private static func title(_ data: JSONValue) -> String? {
        guard let app = data["app"]?.stringValue, let kind = data["kind"]?.stringValue else { return nil }
        return "\(app) \(kind)"
    }

    private static func timeline(_ data: JSONValue) -> TimelineID? {
        data["timeline"]?.stringValue.flatMap { TimelineID($0) }
    }

    /// Puts all times in order.
    mutating func sort() {
        publications = publications.mapValues { $0.sorted() }
        fetches = fetches.mapValues { $0.sorted() }
    }

    /// Median time from a publication to its policy's reload.
    var refresh: [String: Duration] {
        refreshes.mapValues { max(.seconds(60), $0.sorted()[$0.count / 2]) }
    }

    /// Figures of a kind; nil for those that are not known.
    func figures(of baseline: SimulationReport.Kind) -> RealFigures {
        let counts = kinds[baseline.title] ?? Kind()
        func count(_ decision: Decision) -> Int { counts.decisions[decision] ?? 0 }
        var figures = RealFigures()
        if hasDecisions {
            figures.fetches = count(.reloaded) + count(.unchanged)
            figures.deferred = count(.deferred)
            figures.failed = count(.failed)
            figures.ages = baseline.realAges
        }
        // The topic of timelines has a message for each publication, decisions may be lost.
        if hasTimelines {
            figures.publications = counts.publications
        } else if hasDecisions {
            figures.publications = count(.reloaded)
        }
        if hasTimelines || hasDecisions { figures.publicationAges = baseline.realPublicationAges }
        return figures
    }

    /// Reasons for figures that are not known.
    var gaps: [String] {
        var gaps: [String] = []
        if !hasDecisions {
            gaps.append("there is no whole record of decisions for the time span (workers.publishDecisions)")
        }
        if !hasTimelines {
            gaps.append("the topic of timelines, which is compacted, may lack publications of the time span")
        }
        return gaps
    }
}

/// Figures of a kind in reality; nil for those that are not known.
struct RealFigures {
    var fetches: Int?
    var publications: Int?
    var deferred: Int?
    var failed: Int?
    var ages: SimulationReport.Percentiles?
    var publicationAges: SimulationReport.Percentiles?

    /// The figures as JSON; unknown ones are null.
    func json(_ kind: SimulationReport.Kind) -> JSONValue {
        func seconds(_ percentiles: SimulationReport.Percentiles?) -> JSONValue {
            guard let percentiles else { return .null }
            return ["p50": .count(percentiles.p50), "p95": .count(percentiles.p95), "p99": .count(percentiles.p99)]
        }
        return [
            "app": .string(kind.app), "name": .string(kind.name),
            "fetches": .count(fetches), "publications": .count(publications), "deferred": .count(deferred),
            "failed": .count(failed),
            "ages": seconds(ages), "publicationAges": seconds(publicationAges),
        ]
    }
}
