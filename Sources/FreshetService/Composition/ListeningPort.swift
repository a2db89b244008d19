import Synchronization
import WidgetStore

/// Port that a server listens on, once it does.
package final class ListeningPort: Sendable {
    /// The server ended before it listened.
    package struct NeverListened: Error, Sendable {}

    private enum State {
        /// → `listening`, or `closed` if the server never listens
        case starting
        /// → `closed`
        case listening(Int)
        case closed
    }

    private let state = Mutex(State.starting)
    private let changes = WorkSignal()

    package init() {}

    package func wait() async throws -> Int {
        while true {
            let mark = changes.mark(.timelines)
            switch state.withLock({ $0 }) {
            case .starting: try await changes.wait(past: mark)
            case .listening(let port): return port
            case .closed: throw NeverListened()
            }
        }
    }

    package func listens(on port: Int) { change(to: .listening(port)) }

    func closes() { change(to: .closed) }

    private func change(to next: sending State) {
        state.withLock { $0 = next }
        changes.signal(.timelines)
    }
}
