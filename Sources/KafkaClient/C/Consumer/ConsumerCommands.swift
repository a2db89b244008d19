internal import Synchronization

/// A command to the consumer's poll thread.
enum ConsumerCommand: Sendable {
    case assign([TopicPartition: KafkaOffset], CheckedContinuation<Void, Never>)
    case unassign([TopicPartition], CheckedContinuation<Void, Never>)
    case lag(CheckedContinuation<[TopicPartition: Int64]?, Never>)
    case stop(StopReason)
    /// For tests.
    case raiseFatalError

    enum StopReason: Int, Sendable, Comparable {
        /// Closes the consumer in order.
        case shutdown
        /// Abandons the consumer, as if its process were killed.
        case abandon

        static func < (left: Self, right: Self) -> Bool { left.rawValue < right.rawValue }
    }
}

/// Carries commands to the poll thread and wakes it.
final class ConsumerMailbox: Sendable {
    private struct State {
        var commands: [ConsumerCommand] = []
        /// Offsets to commit, merged by partition, since only the latest offset counts.
        var commits: [TopicPartition: Int64] = [:]
        var isClosed = false
    }

    private let state = Mutex(State())
    private let wakeup: Wakeup

    init(wakeup: Wakeup) {
        self.wakeup = wakeup
    }

    /// Posts a command; false if the thread has ended.
    @discardableResult
    func post(_ command: ConsumerCommand) -> Bool {
        let isOpen = state.withLock { state in
            if !state.isClosed { state.commands.append(command) }
            return !state.isClosed
        }
        if isOpen { wakeup.signal() }
        return isOpen
    }

    /// Records offsets to commit, without waking the thread.
    func commit(_ nextOffsets: [TopicPartition: Int64]) {
        state.withLock { state in
            if !state.isClosed { state.commits.merge(nextOffsets) { _, new in new } }
        }
    }

    func takeCommands() -> [ConsumerCommand] {
        state.withLock { state in
            defer { state.commands = [] }
            return state.commands
        }
    }

    func takeCommits() -> [TopicPartition: Int64] {
        state.withLock { state in
            defer { state.commits = [:] }
            return state.commits
        }
    }

    /// Refuses further commands and returns those that were not handled.
    func close() -> [ConsumerCommand] {
        state.withLock { state in
            state.isClosed = true
            state.commits = [:]
            defer { state.commands = [] }
            return state.commands
        }
    }
}

/// A one-time event that any number of tasks can wait for.
final class Completion: Sendable {
    /// Nil once the event has happened.
    private let waiters = Mutex<[CheckedContinuation<Void, Never>]?>([])

    var isDone: Bool { waiters.withLock { $0 == nil } }

    func wait() async {
        await withCheckedContinuation { continuation in
            let isDone = waiters.withLock { waiters in
                waiters?.append(continuation)
                return waiters == nil
            }
            if isDone { continuation.resume() }
        }
    }

    func complete() {
        for waiter in waiters.withLock({ $0.take() }) ?? [] { waiter.resume() }
    }
}
