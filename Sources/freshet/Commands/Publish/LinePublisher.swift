import FreshetClient
import KafkaClient

struct LinePublisher: Sendable {
    struct Counts: Sendable {
        var published = 0
        var failed = 0
        /// Error of an unreachable broker, which ends publishing.
        var unavailable: KafkaError?
    }

    let lines: EventLines
    let publisher: EventPublisher

    /// - Parameter complain: called with a message for each line that fails.
    func publish(_ reader: LineReader, complain: (String) -> Void) async throws -> Counts {
        var counts = Counts()
        let refused = try await reader.chunks(of: 500, decode: lines.event, complain: complain) { events in
            let results = await publisher.publish(events.map(\.value))
            for (event, result) in zip(events, results) {
                switch result {
                case .success: counts.published += 1
                case .failure(let error):
                    counts.failed += 1
                    complain("line \(event.line): \(error)")
                    if error.code == .messageTimedOut || error.code == .timedOut { counts.unavailable = error }
                }
            }
            return counts.unavailable == nil
        }
        counts.failed += refused
        return counts
    }
}
