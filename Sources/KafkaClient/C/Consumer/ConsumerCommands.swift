// SPDX-License-Identifier: Apache-2.0

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
    /// Nil once the thread has ended.
    private let commands = Mutex<[ConsumerCommand]?>([])
    /// Offsets to commit, merged by partition, since only the latest offset counts.
    private let commits = Mutex<[TopicPartition: Int64]>([:])
    private let wakeup: Wakeup

    init(wakeup: Wakeup) {
        self.wakeup = wakeup
    }

    /// Posts a command; false if the thread has ended.
    @discardableResult
    func post(_ command: ConsumerCommand) -> Bool {
        let isOpen = commands.withLock { commands in
            commands?.append(command)
            return commands != nil
        }
        if isOpen { wakeup.signal() }
        return isOpen
    }

    /// Records offsets to commit, without waking the thread.
    func commit(_ nextOffsets: [TopicPartition: Int64]) {
        commits.withLock { $0.merge(nextOffsets) { _, new in new } }
    }

    func takeCommands() -> [ConsumerCommand] {
        commands.withLock { commands in
            defer { if commands != nil { commands = [] } }
            return commands ?? []
        }
    }

    func takeCommits() -> [TopicPartition: Int64] {
        commits.withLock { commits in
            defer { commits = [:] }
            return commits
        }
    }

    /// Refuses further commands and returns those that were not handled.
    func close() -> [ConsumerCommand] { commands.withLock { $0.take() } ?? [] }
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
