package import Logging
import Synchronization
import WidgetModel

/// The keys in force, read again from their file when that changes. A new file that cannot be used leaves the old keys
/// in force, and says so once.
package final class TokenKeyStore: Sendable {
    /// Why the file cannot be read, for people.
    package struct Unreadable: Error, Sendable, CustomStringConvertible {
        package let description: String

        package init(_ description: String) {
            self.description = description
        }
    }

    private struct State {
        var keys = TokenKeys.none
        var revision: UInt64 = 0
        /// What was read last, or tried in vain.
        var seen: ContentHash?
        var complaint: String?
    }

    private let read: @Sendable () async throws(Unreadable) -> [UInt8]
    private let interval: Duration
    private let logger: Logger
    private let state = Mutex(State())

    /// - Parameters:
    ///   - interval: how often the file is looked at.
    ///   - read: reads the file, at most ``TokenKeys/maximumBytes`` and one of it; without blocking the caller's thread.
    package init(
        interval: Duration = .seconds(5), logger: Logger,
        read: @escaping @Sendable () async throws(Unreadable) -> [UInt8]
    ) {
        self.interval = interval
        self.logger = logger
        self.read = read
    }

    func current() -> (keys: TokenKeys, revision: UInt64) {
        state.withLock { ($0.keys, $0.revision) }
    }

    /// Reads the keys for the first time.
    ///
    /// - Throws: ``Unreadable`` when there are none that can be used.
    package func load() async throws(Unreadable) {
        let bytes = try await read()
        let keys: TokenKeys
        do throws(TokenKeysError) {
            keys = try await TokenKeys(jwks: bytes)
        } catch {
            throw Unreadable("\(error)")
        }
        adopt(keys, ContentHash(of: bytes))
    }

    /// Looks at the file again, and takes the keys in it if they are others than before.
    package func check() async {
        do throws(Unreadable) {
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

    /// Says what is wrong with the file, once for each reason and each new file.
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
