/// Notifications between the connection's thread and their one reader: equal ones become one, and their number is bounded.
final class NotificationBuffer: Sendable {
    private struct State {
        var unread: [PostgresNotification] = []
        var members: Set<PostgresNotification> = []
        var reader: (id: UInt64, continuation: CheckedContinuation<PostgresNotification?, Never>)?
        var nextReader: UInt64 = 0
        var isFinished = false
    }

    private let capacity: Int
    private let state = Locked(State())

    init(capacity: Int) {
        self.capacity = capacity
    }

    func append(_ notification: PostgresNotification) {
        let reader = state.withLock { state -> CheckedContinuation<PostgresNotification?, Never>? in
            guard !state.isFinished else { return nil }
            if let reader = state.reader {
                state.reader = nil
                return reader.continuation
            }
            guard state.members.insert(notification).inserted else { return nil }
            state.unread.append(notification)
            if state.unread.count > capacity {
                state.unread = [.reconnected]
                state.members = [.reconnected]
            }
            return nil
        }
        reader?.resume(returning: notification)
    }

    /// The next notification; nil once finished and all are read, when the task is cancelled, and for a reader that
    /// another one replaces.
    func next() async -> PostgresNotification? {
        let id = state.withLock { state in
            state.nextReader += 1
            return state.nextReader
        }
        return await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                wait(id, continuation)
                if Task.isCancelled { cancel(id) }
            }
        } onCancel: {
            cancel(id)
        }
    }

    func finish() {
        let reader = state.withLock { state in
            state.isFinished = true
            defer { state.reader = nil }
            return state.reader?.continuation
        }
        reader?.resume(returning: nil)
    }

    private func wait(_ id: UInt64, _ continuation: CheckedContinuation<PostgresNotification?, Never>) {
        enum Answer {
            case now(PostgresNotification?)
            case later(replacing: CheckedContinuation<PostgresNotification?, Never>?)
        }
        let answer = state.withLock { state -> Answer in
            if !state.unread.isEmpty {
                let first = state.unread.removeFirst()
                state.members.remove(first)
                return .now(first)
            }
            if state.isFinished { return .now(nil) }
            defer { state.reader = (id, continuation) }
            return .later(replacing: state.reader?.continuation)
        }
        switch answer {
        case .now(let notification): continuation.resume(returning: notification)
        case .later(let replaced): replaced?.resume(returning: nil)
        }
    }

    private func cancel(_ id: UInt64) {
        let reader = state.withLock { state -> CheckedContinuation<PostgresNotification?, Never>? in
            guard let reader = state.reader, reader.id == id else { return nil }
            state.reader = nil
            return reader.continuation
        }
        reader?.resume(returning: nil)
    }
}
