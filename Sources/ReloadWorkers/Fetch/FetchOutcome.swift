import WidgetModel
import WidgetStore

struct FetchOutcome: Sendable {
    var fetched: [FetchedTimeline] = []
    var failed: [(item: FetchItem, failure: ProviderFailure)] = []
    /// Timelines that were not asked for after all, through no fault of theirs: their lists go back after the delay.
    var postponed: [(item: FetchItem, delay: Duration, rule: ReloadRule)] = []
    /// Timelines in the answer that nobody had asked for; they are ignored.
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

    /// Reads an answer. An error of one timeline costs only that one; an answer that is wrong as a whole is none.
    ///
    /// - Throws: ``ProviderFailure`` for an answer that is wrong as a whole.
    init(answer: [UInt8], to batch: FetchBatch, after fetchTime: Duration = .zero) throws(ProviderFailure) {
        let response: ProviderResponse
        do throws(JSONError) {
            response = try ProviderResponse.parse(answer, requested: batch.requested)
        } catch {
            throw ProviderFailure(.invalid, "the answer is not what the contract says: \(error)")
        }
        self.init()
        foreign = response.foreignCount
        fetched.reserveCapacity(batch.items.count)
        for (item, outcome) in zip(batch.items, response.outcomes) {
            switch outcome {
            case .timeline(let parsed):
                fetched.append(
                    FetchedTimeline(
                        item: item, content: parsed.content, hash: parsed.hash, policy: parsed.policy,
                        lastEntry: parsed.lastEntryDate, lints: parsed.lints, fetchTime: fetchTime))
            case .failed(let code, let message, let retryAfter):
                failed.append((item, ProviderFailure(.provider, "\(code): \(message)", retryAfter: retryAfter)))
            case .missing:
                failed.append((item, ProviderFailure(.missing, "the answer leaves it out")))
            case .duplicate:
                failed.append((item, ProviderFailure(.duplicate, "the answer has it more than once")))
            case .invalid(let error):
                failed.append((item, ProviderFailure(.invalid, "\(error)")))
            }
        }
        for index in failed.indices { failed[index].failure.fetchTime = fetchTime }
    }
}

extension FetchBatch {
    /// The body of a request for some of its timelines, or for their snapshots.
    func requestBody(for items: [FetchItem]) -> [UInt8] {
        ProviderRequest(
            items: items.map { ProviderRequest.Item(id: $0.timeline.id, identity: $0.timeline.identity(of: $0.kind)) }
        ).encode()
    }

    fileprivate var requested: [RequestedTimeline] {
        var fields: [Int32: VolatileFields] = [:]
        return items.map { item in
            if let known = fields[item.kind.id] { return RequestedTimeline(item.timeline.id, volatileFields: known) }
            let made = VolatileFields(item.kind.definition.volatilePointers)
            fields[item.kind.id] = made
            return RequestedTimeline(item.timeline.id, volatileFields: made)
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
