import NIOPosix
import Synchronization

/// Looks up host names, on NIO's threads for blocking calls, and remembers the answers for a while.
///
/// Look-ups of one name at the same time are one, and who waits for it can stop waiting. What failed is remembered too,
/// for less long, so that a name whose servers hang holds a thread for one look-up at a time.
package final class HostResolver: Sendable {
    typealias Lookup = @Sendable (String) throws(AddressLookup.Failure) -> [IPAddress]
    fileprivate typealias Answer = Result<[IPAddress], AddressLookup.Failure>
    fileprivate typealias Continuation = CheckedContinuation<[IPAddress], any Error>

    fileprivate struct Known {
        let answer: Answer
        let until: ContinuousClock.Instant
    }

    fileprivate struct State {
        var known: [String: Known] = [:]
        /// Who waits for the look-ups that are under way.
        var waiting: [String: [UInt64: Continuation]] = [:]
        var nextWaiter: UInt64 = 0
    }

    /// What to do for a caller, decided under the lock and done outside of it.
    fileprivate enum Step {
        case answer(Result<[IPAddress], any Error>)
        case lookUp
        case wait
    }

    private let state = Mutex(State())
    private let lifetime: Duration
    private let failureLifetime: Duration
    /// Names to remember before old ones are forgotten: as many as there are providers is plenty.
    private let maximumKnown = 4_096
    private let threads: NIOThreadPool
    private let lookup: Lookup

    init(
        lifetime: Duration = .seconds(30), failureLifetime: Duration = .seconds(5),
        threads: NIOThreadPool = .singleton,
        lookup: @escaping Lookup = { host throws(AddressLookup.Failure) in try AddressLookup.addresses(of: host) }
    ) {
        self.lifetime = lifetime
        self.failureLifetime = failureLifetime
        self.threads = threads
        self.lookup = lookup
    }

    package convenience init() {
        self.init(lifetime: .seconds(30))
    }

    /// All addresses of a host.
    ///
    /// - Throws: `AddressLookup.Failure` when it has none; `CancellationError`.
    package func addresses(of host: String) async throws -> [IPAddress] {
        let id = state.withLock { state in
            state.nextWaiter += 1
            return state.nextWaiter
        }
        return try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { continuation in
                let step = state.withLock { $0.ask(for: host, id, continuation) }
                switch step {
                case .answer(let answer): continuation.resume(with: answer)
                case .lookUp: submit(host)
                case .wait: break
                }
            }
        } onCancel: {
            let continuation = state.withLock { $0.waiting[host]?.removeValue(forKey: id) }
            continuation?.resume(throwing: CancellationError())
        }
    }

    private func submit(_ host: String) {
        threads.submit { [self] threadState in
            guard threadState == .active else {
                finish(host, .failure(AddressLookup.Failure(message: "shutting down")))
                return
            }
            do throws(AddressLookup.Failure) {
                finish(host, .success(try lookup(host)))
            } catch {
                finish(host, .failure(error))
            }
        }
    }

    private func finish(_ host: String, _ answer: Answer) {
        let lifetime =
            switch answer {
            case .success: self.lifetime
            case .failure: failureLifetime
            }
        let waiting = state.withLock { state in
            state.known[host] = Known(answer: answer, until: .now + lifetime)
            if state.known.count > maximumKnown {
                let now = ContinuousClock.now
                state.known = state.known.filter { $0.value.until > now }
            }
            return state.waiting.removeValue(forKey: host) ?? [:]
        }
        for continuation in waiting.values { continuation.resume(with: answer) }
    }
}

extension HostResolver.State {
    fileprivate mutating func ask(
        for host: String, _ id: UInt64, _ continuation: HostResolver.Continuation
    ) -> HostResolver.Step {
        if Task.isCancelled { return .answer(.failure(CancellationError())) }
        if let known = known[host], known.until > .now { return .answer(known.answer.mapError { $0 as any Error }) }
        let isUnderWay = waiting[host] != nil
        waiting[host, default: [:]][id] = continuation
        return isUnderWay ? .wait : .lookUp
    }
}
