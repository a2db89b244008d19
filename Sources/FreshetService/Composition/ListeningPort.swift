import Synchronization

/// The port that a server turns out to listen on, for those who wait for it.
package final class ListeningPort: Sendable {
    /// The server ended before it listened.
    package struct NeverListened: Error, Sendable {}

    private enum State {
        /// Until the server listens; then `listening`, or `closed` if it never does.
        case starting(waiters: [Int: CheckedContinuation<Int, any Error>], nextWaiter: Int)
        /// Until the server ends; then `closed`.
        case listening(Int)
        case closed
    }

    private let state = Mutex(State.starting(waiters: [:], nextWaiter: 0))

    package init() {}

    package func wait() async throws -> Int {
        let waiter = state.withLock { state -> Int in
            guard case .starting(let waiters, let next) = state else { return 0 }
            state = .starting(waiters: waiters, nextWaiter: next + 1)
            return next
        }
        return try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { continuation in
                let result = state.withLock { state -> Result<Int, any Error>? in
                    switch state {
                    case .listening(let port): return .success(port)
                    case .closed: return .failure(NeverListened())
                    case .starting(var waiters, let next):
                        // Cancelled before this: the handler has found nothing to resume.
                        guard !Task.isCancelled else { return .failure(CancellationError()) }
                        waiters[waiter] = continuation
                        state = .starting(waiters: waiters, nextWaiter: next)
                        return nil
                    }
                }
                if let result { continuation.resume(with: result) }
            }
        } onCancel: {
            let continuation = state.withLock { state -> CheckedContinuation<Int, any Error>? in
                guard case .starting(var waiters, let next) = state else { return nil }
                let continuation = waiters.removeValue(forKey: waiter)
                state = .starting(waiters: waiters, nextWaiter: next)
                return continuation
            }
            continuation?.resume(throwing: CancellationError())
        }
    }

    package func listens(on port: Int) {
        end(with: .listening(port), .success(port))
    }

    func closes() {
        end(with: .closed, .failure(NeverListened()))
    }

    private func end(with next: sending State, _ result: Result<Int, any Error>) {
        let waiters = state.withLock { state -> [CheckedContinuation<Int, any Error>] in
            var waiting: [CheckedContinuation<Int, any Error>] = []
            if case .starting(let waiters, _) = state { waiting = Array(waiters.values) }
            state = next
            return waiting
        }
        for waiter in waiters { waiter.resume(with: result) }
    }
}
