import NIOPosix
import Synchronization
import WidgetStore

/// Looks up host names on NIO's threads for blocking calls, and caches the answers for a while.
///
/// Concurrent look-ups of a name share one, and a waiter can be cancelled. Failures are cached for a shorter time, so
/// that a name with hanging servers blocks at most one thread.
package final class HostResolver: Sendable {
    typealias Lookup = @Sendable (String) throws(AddressLookup.Failure) -> [IPAddress]
    private struct Known {
        let answer: Result<[IPAddress], AddressLookup.Failure>
        let at: ContinuousClock.Instant
        let until: ContinuousClock.Instant
    }

    private struct State {
        var known: [String: Known] = [:]
        var underWay: Set<String> = []
    }

    private let state = Mutex(State())
    private let answered = WorkSignal()
    private let lifetime: Duration
    private let failureLifetime: Duration
    /// Number of cached names at which expired ones are removed.
    private let maximumKnown = 4_096
    private let threads: NIOThreadPool
    private let lookup: Lookup

    init(
        lifetime: Duration = .seconds(30), failureLifetime: Duration = .seconds(5),
        threads: NIOThreadPool = .singleton,
        lookup: @escaping Lookup = { host throws(AddressLookup.Failure) in try AddressLookup.addresses(of: host) }
    ) {
        (self.lifetime, self.failureLifetime, self.threads, self.lookup) = (lifetime, failureLifetime, threads, lookup)
    }

    package convenience init() {
        self.init(lifetime: .seconds(30))
    }

    /// All addresses of a host.
    ///
    /// - Throws: `AddressLookup.Failure` without any; `CancellationError`.
    package func addresses(of host: String) async throws -> [IPAddress] {
        let began = ContinuousClock.now
        while true {
            let mark = answered.mark(.timelines)
            let (known, isFirst) = state.withLock { state -> (Known?, Bool) in
                if let known = state.known[host], known.at >= began || known.until > .now { return (known, false) }
                return (nil, state.underWay.insert(host).inserted)
            }
            if let known { return try known.answer.get() }
            if isFirst { submit(host) }
            try await answered.wait(past: mark)
        }
    }

    private func submit(_ host: String) {
        threads.submit { [self] threadState in
            let answer = Result { () throws(AddressLookup.Failure) in
                guard threadState == .active else { throw AddressLookup.Failure(message: "shutting down") }
                return try lookup(host)
            }
            let now = ContinuousClock.now
            let lifetime = if case .success = answer { self.lifetime } else { failureLifetime }
            state.withLock { state in
                state.underWay.remove(host)
                state.known[host] = Known(answer: answer, at: now, until: now + lifetime)
                if state.known.count > maximumKnown { state.known = state.known.filter { $0.value.until > now } }
            }
            answered.signal(.timelines)
        }
    }
}
