import WidgetModel
import WidgetStore

/// A claimed timeline with what its provider answered.
struct FetchedTimeline: Sendable {
    let timeline: ClaimedTimeline
    /// Canonical JSON, as it is stored.
    let content: [UInt8]
    let hash: ContentHash
    let policy: ReloadPolicy
    let lastEntry: Timestamp
    let lints: TimelineLints
    /// From the request to its answer.
    let fetchTime: Duration
}

/// What came of the request for a batch.
struct FetchOutcome: Sendable {
    var fetched: [FetchedTimeline] = []
    var failed: [(timeline: ClaimedTimeline, failure: ProviderFailure)] = []
    /// Timelines that were not asked for after all, through no fault of theirs: when they are due again, and why.
    var deferred: [(timeline: ClaimedTimeline, delay: Duration, rule: ReloadRule)] = []
    /// Timelines in the answer that nobody had asked for; they are ignored.
    var foreign = 0

    init() {}

    /// Adds what came of another part.
    mutating func append(_ other: FetchOutcome) {
        fetched += other.fetched
        failed += other.failed
        deferred += other.deferred
        foreign += other.foreign
    }

    /// The same failure for all of a batch.
    init(_ failure: ProviderFailure, of batch: ReloadBatch) {
        failed = batch.timelines.map { ($0, failure) }
    }

    /// Reads an answer. What is wrong with one timeline costs only that one; an answer that is wrong as a whole is
    /// none.
    ///
    /// - Throws: ``ProviderFailure`` for an answer that is wrong as a whole.
    init(
        answer: [UInt8], to batch: ReloadBatch, after fetchTime: Duration = .zero
    ) throws(ProviderFailure) {
        let response: ProviderResponse
        do throws(JSONError) {
            response = try ProviderResponse.parse(
                answer, requested: batch.timelines.map(\.id), volatileFields: batch.kind.definition.volatilePointers)
        } catch {
            throw ProviderFailure(.invalid, "the answer is not what the contract says: \(error)")
        }
        self.init()
        defer { for index in failed.indices { failed[index].failure.fetchTime = fetchTime } }
        foreign = response.foreignCount
        for (timeline, outcome) in zip(batch.timelines, response.outcomes) {
            switch outcome {
            case .timeline(let parsed):
                fetched.append(
                    FetchedTimeline(
                        timeline: timeline, content: parsed.content, hash: parsed.hash, policy: parsed.policy,
                        lastEntry: parsed.lastEntryDate, lints: parsed.lints, fetchTime: fetchTime))
            case .failed(let code, let message, let retryAfter):
                failed.append((timeline, ProviderFailure(.provider, "\(code): \(message)", retryAfter: retryAfter)))
            case .missing:
                failed.append((timeline, ProviderFailure(.missing, "the answer leaves it out")))
            case .duplicate:
                failed.append((timeline, ProviderFailure(.duplicate, "the answer has it more than once")))
            case .invalid(let error):
                failed.append((timeline, ProviderFailure(.invalid, "\(error)")))
            }
        }
    }
}

extension ReloadBatch {
    /// The body of the request for it.
    var requestBody: [UInt8] { requestBody(for: timelines) }
}

extension ClaimedTimeline {
    func identity(of kind: RegisteredKind) -> TimelineIdentity {
        TimelineIdentity(
            app: kind.app, kind: kind.definition.name, family: family, configuration: configuration, locale: locale,
            timeZone: timeZone, user: user)
    }
}
