import Synchronization

/// Shares of the apps in the lists that a process works on at once. An app gets half of the lists that the others leave
/// at most, so that there is always room for an app that comes new, however slow the others' backends are.
final class AppShares: Sendable {
    private let running = Mutex<[Int32: Int]>([:])
    private let limit: Int

    /// - Parameter limit: most lists at once.
    init(limit: Int) {
        self.limit = limit
    }

    var hasRoom: Bool { running.withLock { $0.values.reduce(0, +) < limit } }

    /// Apps that have their share.
    var full: [Int32] {
        running.withLock { running in
            let all = running.values.reduce(0, +)
            return running.filter { _, own in own >= max(1, (limit - (all - own)) / 2) }.map(\.key)
        }
    }

    func begin(_ app: Int32) {
        running.withLock { $0[app, default: 0] += 1 }
    }

    func end(_ app: Int32) {
        running.withLock { running in
            let left = (running[app] ?? 1) - 1
            running[app] = left > 0 ? left : nil
        }
    }
}
