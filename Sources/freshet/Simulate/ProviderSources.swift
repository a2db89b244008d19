import JSON
import ReloadWorkers
import SampleProvider
import WidgetModel
import WidgetSimulator

/// A provider of JSON for a simulation.
struct AnsweredSource: TimelineSource {
    /// Body of an answer to a request's body.
    let ask: (_ body: [UInt8], _ targets: ArraySlice<SimulatedTarget>, _ now: Timestamp) async throws -> [UInt8]
    /// Time of day by which the provider dates its answers; nil: the virtual time.
    let present: (@Sendable () -> Timestamp)?

    mutating func fetch(
        _ targets: ArraySlice<SimulatedTarget>, at now: Timestamp, into outcomes: inout [SimulatedFetch]
    ) async throws {
        let body = ProviderRequest.encode(targets.map { ProviderRequest.Item(id: $0.id, identity: $0.identity) })
        let requested = targets.map {
            RequestedTimeline(
                $0.id, volatileFields: VolatileFields($0.definition.volatilePointers), family: $0.identity.family)
        }
        do {
            let answer = try await ask(body, targets, now)
            let shift = present.map { now - $0() } ?? .zero
            let response = try ProviderResponse.parse { () throws(JSONError) in
                try ProviderResponse.parse(answer, requested: requested)
            }
            for outcome in response.outcomes {
                if case .value(let parsed) = outcome {
                    outcomes.append(.answer(SimulatedAnswer(parsed, at: now, movedBy: shift)))
                } else {
                    let failure = ProviderFailure(outcome)
                    outcomes.append(.failure(failure?.rule ?? .providerError, retryAfter: failure?.retryAfter))
                }
            }
        } catch let failure as ProviderFailure {
            for _ in targets { outcomes.append(.failure(failure.rule, retryAfter: failure.retryAfter)) }
        }
    }

    /// The sample provider in this process, in virtual time.
    static func sample(seed: UInt64) -> AnsweredSource {
        // Content changes with time and not with requests, as in an app.
        let provider = SampleProvider(seed: seed, changeInterval: .seconds(300))
        return AnsweredSource(
            ask: { body, _, now in
                guard let answer = provider.timelines(body, at: now) else {
                    throw ProviderFailure(.status, "the sample provider does not have this kind", status: 404)
                }
                return answer
            }, present: nil)
    }

    /// A provider over HTTP. It answers for the present; the dates of its answers are moved to the virtual time.
    ///
    /// - Parameter secrets: signing secrets by app.
    static func http(_ url: String, secrets: [String: [UInt8]], client: ProviderClient) -> AnsweredSource {
        AnsweredSource(
            ask: { body, targets, _ in
                guard let first = targets.first else { return [] }
                return try await client.fetch(
                    ProviderCall(
                        url: url, secrets: [secrets[first.identity.app] ?? Array(repeating: 0, count: 32)], body: body,
                        timeout: first.definition.timeout, maximumResponseBytes: 16 << 20))
            }, present: WallClock.now)
    }
}
