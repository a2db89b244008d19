import FreshetClient
import KafkaClient

/// Publishes the events of JSON lines in batches.
struct LinePublisher: Sendable {
    struct Counts: Sendable {
        var published = 0
        var failed = 0
        /// Error of an unreachable broker, which ends publishing.
        var unavailable: KafkaError?
    }

    let lines: EventLines
    let publisher: EventPublisher
    var batch = 500

    /// - Parameter complain: called with a message for each line that fails.
    func publish(_ reader: LineReader, complain: (String) -> Void) async throws -> Counts {
        var counts = Counts()
        var pending: [(line: Int, event: OutgoingEvent)] = []
        for try await line in reader {
            guard let bytes = line.bytes else {
                counts.failed += 1
                complain("line \(line.number): longer than a line may be")
                continue
            }
            if bytes.allSatisfy({ $0 == 0x20 || $0 == 0x09 }) { continue }
            do throws(EventLines.Refused) {
                pending.append((line.number, try lines.event(bytes)))
            } catch {
                counts.failed += 1
                complain("line \(line.number): \(error.message)")
            }
            if pending.count >= batch {
                await send(&pending, &counts, complain)
                if counts.unavailable != nil { return counts }
            }
        }
        await send(&pending, &counts, complain)
        return counts
    }

    private func send(
        _ pending: inout [(line: Int, event: OutgoingEvent)], _ counts: inout Counts, _ complain: (String) -> Void
    ) async {
        let results = await publisher.publish(pending.map(\.event))
        for ((line, _), result) in zip(pending, results) {
            switch result {
            case .success: counts.published += 1
            case .failure(let error):
                counts.failed += 1
                complain("line \(line): \(error)")
                if error.code == .messageTimedOut || error.code == .timedOut { counts.unavailable = error }
            }
        }
        pending.removeAll(keepingCapacity: true)
    }
}
