// SPDX-License-Identifier: Apache-2.0

import Synchronization
import TestSupport
import WidgetEvents
import WidgetModel

@testable import KafkaClient
@testable import ReloadWorkers

/// A publisher that records messages, and fails or waits as scripted.
final class RecordingPublisher: Sendable {
    struct Message: Sendable, Equatable {
        let timeline: TimelineID
        let revision: Int64
        /// Content; nil for a tombstone.
        let value: String?
    }

    /// Decides on a batch before it is recorded; nil acknowledges the whole batch.
    typealias Script = @Sendable ([KafkaMessage]) async -> KafkaError?

    private struct State {
        var messages: [Message] = []
        var script: Script = { _ in nil }
    }

    private let state = Mutex(State())
    let published = Tally()
    let deliveryTimeout = Duration.milliseconds(2_500)

    var messages: [Message] { state.withLock { $0.messages } }

    func messages(of id: TimelineID) -> [Message] { messages.filter { $0.timeline == id } }

    func respond(_ script: @escaping Script) {
        state.withLock { $0.script = script }
    }

    func publish(_ messages: [KafkaMessage]) async -> [Result<KafkaDelivery, KafkaError>] {
        if let error = await state.withLock({ $0.script })(messages) { return messages.map { _ in .failure(error) } }
        let recorded = messages.compactMap { Message($0) }
        state.withLock { $0.messages += recorded }
        published.add(recorded.count)
        return messages.indices.map { .success(KafkaDelivery(partition: 0, offset: Int64($0))) }
    }
}

extension RecordingPublisher.Message {
    init?(_ message: KafkaMessage) {
        guard let id = message.key.flatMap({ TimelineID(String(decoding: $0, as: UTF8.self)) }),
            let header = message.headers.first(where: { $0.name == EncodedEvent.revisionHeader })?.value,
            let revision = Int64(String(decoding: header, as: UTF8.self))
        else { return nil }
        self.init(
            timeline: id, revision: revision, value: message.value.map { String(decoding: $0, as: UTF8.self) })
    }
}

extension KafkaError {
    static let testTimeout = KafkaError(
        code: .messageTimedOut, message: "no acknowledgement", isRetriable: true, isPossiblyPersisted: true,
        context: Context(operation: "produce"))
    static let testTooLarge = KafkaError(
        code: .messageTooLarge, message: "too large", isRetriable: false, context: Context(operation: "produce"))
    static let testFatal = KafkaError(
        code: .fatal, message: "fenced producer", isRetriable: false, isFatal: true,
        context: Context(operation: "produce"))
}
