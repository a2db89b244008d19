import WidgetModel
import WidgetStore

struct FetchOutcome: Sendable {
    /// Reason for which a timeline was not requested. None is a failure.
    enum Postponement: Sendable {
        /// The provider's circuit breaker is open, or the provider asked for a pause.
        case resting
        /// The provider's retry budget is used up.
        case retryBudget
        /// The rest of the lease is too short for a request.
        case lease
    }

    var fetched: [FetchedTimeline] = []
    var failed: [(item: FetchItem, failure: ProviderFailure)] = []
    /// Timelines that were not requested, whose lists go back after a delay.
    var postponed: [(item: FetchItem, delay: Duration, reason: Postponement)] = []
    /// Number of ignored timelines in the answer that were not requested.
    var foreign = 0

    init() {}

    mutating func append(_ other: FetchOutcome) {
        fetched += other.fetched
        failed += other.failed
        postponed += other.postponed
        foreign += other.foreign
    }

    init(_ failure: ProviderFailure, of batch: FetchBatch) {
        failed = batch.items.map { ($0, failure) }
    }

    /// Reads an answer. An error of one timeline fails only that one.
    ///
    /// - Throws: ``ProviderFailure`` for an invalid answer.
    init(answer: [UInt8], to batch: FetchBatch, after fetchTime: Duration = .zero) throws(ProviderFailure) {
        let response = try ProviderResponse.parse { () throws(JSONError) in
            try ProviderResponse.parse(answer, requested: batch.requested)
        }
        self.init()
        foreign = response.foreignCount
        fetched.reserveCapacity(batch.items.count)
        for (item, outcome) in zip(batch.items, response.outcomes) {
            if case .value(let parsed) = outcome {
                fetched.append(FetchedTimeline(item: item, parsed: parsed, fetchTime: fetchTime))
            } else if let failure = ProviderFailure(outcome) {
                failed.append((item, failure))
            }
        }
        for index in failed.indices { failed[index].failure.fetchTime = fetchTime }
    }
}

extension FetchBatch {
    /// Body of a request for some of its timelines or their snapshots.
    func requestBody(for items: [FetchItem]) -> [UInt8] {
        ProviderRequest.encode(items.map { .init(id: $0.timeline.id, identity: $0.timeline.identity(of: $0.kind)) })
    }

    fileprivate var requested: [RequestedTimeline] {
        items.map {
            RequestedTimeline(
                $0.timeline.id, volatileFields: VolatileFields($0.kind.definition.volatilePointers),
                family: $0.timeline.family)
        }
    }
}

extension ClaimedTimeline {
    func identity(of kind: RegisteredKind) -> TimelineIdentity {
        TimelineIdentity(
            app: kind.app, kind: kind.definition.name, family: family, configuration: configuration, locale: locale,
            timeZone: timeZone, user: user)
    }
}
