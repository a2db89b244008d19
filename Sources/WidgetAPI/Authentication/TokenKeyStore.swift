package import Logging
import Synchronization
import WidgetModel

/// The current keys, read again when their file changes. An unusable file leaves the keys unchanged and is logged once.
package final class TokenKeyStore: Sendable {
    private struct State {
        var keys = TokenKeys.none
        var revision: UInt64 = 0
        /// Hash of the content that was read last, usable or not.
        var seen: ContentHash?
        var complaint: String?
    }

    private let read: @Sendable () async throws -> [UInt8]
    private let interval: Duration
    private let logger: Logger
    private let state = Mutex(State())

    /// - Parameters:
    ///   - interval: interval between reads of the file.
    ///   - read: reads the file, up to one byte more than ``TokenKeys/maximumBytes``, without blocking the thread.
    package init(
        interval: Duration = .seconds(5), logger: Logger,
        read: @escaping @Sendable () async throws -> [UInt8]
    ) {
        self.interval = interval
        self.logger = logger
        self.read = read
    }

    package func current() -> (keys: TokenKeys, revision: UInt64) {
        state.withLock { ($0.keys, $0.revision) }
    }

    /// Reads the keys for the first time.
    ///
    /// - Throws: ``TokenKeysError`` or an error of reading if there are none that can be used.
    package func load() async throws {
        let bytes = try await read()
        adopt(try await TokenKeys(jwks: bytes), ContentHash(of: bytes))
    }

    /// Reads the file again and adopts its keys if it has changed.
    package func check() async {
        do {
            let bytes = try await read()
            let hash = ContentHash(of: bytes)
            guard state.withLock({ $0.seen != hash }) else { return }
            do throws(TokenKeysError) {
                adopt(try await TokenKeys(jwks: bytes), hash)
            } catch {
                state.withLock { $0.seen = hash }
                complain("\(error)", isNew: true)
            }
        } catch {
            complain("\(error)")
        }
    }

    /// Watches the file until the task is cancelled.
    package func run() async {
        while !Task.isCancelled {
            do { try await Task.sleep(for: interval) } catch { return }
            await check()
        }
    }

    private func adopt(_ keys: TokenKeys, _ hash: ContentHash) {
        let revision = state.withLock { state in
            state.keys = keys
            state.revision += 1
            state.seen = hash
            state.complaint = nil
            return state.revision
        }
        let ids: Logger.Metadata = [
            "keys": "\(keys.ids.joined(separator: " "))", "ignored": "\(keys.ignored.joined(separator: " "))",
        ]
        logger.notice(revision == 1 ? "keys of tokens read" : "keys of tokens replaced", metadata: ids)
    }

    /// Logs a problem with the file, once for each reason and each new file.
    private func complain(_ reason: String, isNew: Bool = false) {
        let isNews = state.withLock { state in
            defer { state.complaint = reason }
            return isNew || state.complaint != reason
        }
        guard isNews else { return }
        logger.error(
            "the keys of tokens cannot be replaced; those read before stay in force", metadata: ["error": "\(reason)"])
    }
}
