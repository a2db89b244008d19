import KafkaClient
import Synchronization

/// Messages of `freshet.timelines` as any consumer reads them: the highest revision of each timeline counts.
final class DemoOutput: Sendable {
    struct Snapshot: Sendable {
        var messages = 0
        /// Highest revision by timeline id; negative for a tombstone.
        var revisions: [String: Int64] = [:]
    }

    private let state = Mutex(Snapshot())

    var snapshot: Snapshot { state.withLock { $0 } }

    func read(_ batch: KafkaBatch) {
        state.withLock { state in
            for index in 0..<batch.count {
                guard let key = batch.key(index),
                    let header = batch.header(index, named: "freshet-revision"),
                    let revision = Int64(String(decoding: batch.bytes[header], as: UTF8.self))
                else { continue }
                let id = String(decoding: batch.bytes[key], as: UTF8.self)
                state.messages += 1
                guard abs(state.revisions[id] ?? 0) <= revision else { continue }
                state.revisions[id] = batch.value(index) == nil ? -revision : revision
            }
        }
    }
}
