// SPDX-License-Identifier: Apache-2.0

package import Logging
import Synchronization
import WidgetModel
package import WidgetStore

/// Records which content the API has served to registered devices: gathered, and written at once if that spares a push,
/// otherwise at most once a minute for each device.
package final class FetchRecorder: Sendable {
    private struct Served {
        /// Contents in the order of their revisions, each with the time at which it was first served. A change is
        /// fetched when its content or a later one is first served.
        var contents: [Content]
        /// Not written before then.
        var due: ContinuousClock.Instant

        /// Adds content that is later than the last one, and returns whether it is.
        @discardableResult
        mutating func add(_ content: Content) -> Bool {
            guard contents.last.map({ $0.revision < content.revision }) ?? true else { return false }
            if contents.count >= FetchRecorder.contentLimit { contents.removeLast() }
            contents.append(content)
            return true
        }
    }

    private typealias Content = (revision: Int64, at: ContinuousClock.Instant)

    private struct Key: Hashable {
        let app: String
        let widget: String
    }

    /// Most widgets that are remembered; those beyond are recorded with a later fetch.
    private static let limit = 200_000
    /// Most contents of a widget that are remembered. The latest takes the place of the one before it.
    static let contentLimit = 8
    /// Contents in a statement: few enough for the nested loops of its plan, whose inputs PostgreSQL cannot estimate.
    private static let batch = 200
    private static let interval = Duration.milliseconds(500)
    private static let again = Duration.seconds(30)

    private let pending = Mutex<[Key: Served]>([:])
    private let store: WidgetStore
    private let directory: DirectoryCache
    private let objective: Duration
    private let logger: Logger

    /// - Parameter objective: later fetches count as late.
    package init(store: WidgetStore, directory: DirectoryCache, objective: Duration, logger: Logger) {
        self.store = store
        self.directory = directory
        self.objective = objective
        self.logger = logger
    }

    /// Notes that a widget's device was served content, or has it already.
    func noteServed(app: String, widget: String, revision: Int64?) {
        guard let revision, revision > 0 else { return }
        let (key, now) = (Key(app: app, widget: widget), ContinuousClock.now)
        pending.withLock { pending in
            guard pending[key] != nil || pending.count < Self.limit else { return }
            // Later content may spare a push, whatever earlier content waits for.
            if pending[key, default: Served(contents: [], due: now)].add((revision, now)) { pending[key]?.due = now }
        }
    }

    /// Writes until the task is cancelled.
    func run() async {
        while !Task.isCancelled {
            await write()
            try? await Task.sleep(for: Self.interval)
        }
    }

    /// Writes what is due.
    func write() async {
        do {
            while try await flush() {}
        } catch {
            logger.warning("cannot record fetches", metadata: ["error": "\(error)"])
        }
    }

    /// Writes some of what is due. Returns whether there may be more.
    func flush(at now: ContinuousClock.Instant = .now) async throws -> Bool {
        let directory = try await directory.directory(maximumAge: .seconds(5))
        let (taken, isMore) = take(at: now)
        let served = taken.filter { directory.apps[$0.key.app]?.delivers == true }.flatMap { key, value in
            value.contents.map { (key: key, content: $0) }
        }
        guard !served.isEmpty else { return isMore }
        let writes = served.map { key, content -> ServedContent in
            (key.app, key.widget, content.revision, content.at.duration(to: now))
        }
        let objectives = FreshnessObjectives(general: objective, kinds: directory.kinds.values)
        do {
            let late = try await store.recordFetches(writes, objectives: objectives)
            keep(late.sorted().map { served[$0] }, until: now + Self.again)
        } catch {
            keep(served, until: now)
            throw error
        }
        return isMore
    }

    /// Takes some of what is due, and answers whether there may be more.
    private func take(at now: ContinuousClock.Instant) -> (taken: [(key: Key, value: Served)], isMore: Bool) {
        pending.withLock { pending in
            var taken: [(key: Key, value: Served)] = []
            var count = 0
            for (key, value) in pending where value.due <= now {
                count += value.contents.count
                guard count <= Self.batch else { break }
                taken.append((key, value))
            }
            for (key, _) in taken { pending.removeValue(forKey: key) }
            return (taken, count > Self.batch)
        }
    }

    /// Takes back what was not recorded, before what the device was served meanwhile.
    private func keep(_ served: [(key: Key, content: Content)], until due: ContinuousClock.Instant) {
        pending.withLock { pending in
            var later: [Key: [Content]] = [:]
            for (key, content) in served {
                guard pending[key] != nil || pending.count < Self.limit else { continue }
                if later[key] == nil { later[key] = pending.removeValue(forKey: key)?.contents ?? [] }
                pending[key, default: Served(contents: [], due: due)].add(content)
            }
            for (key, contents) in later { for content in contents { pending[key]?.add(content) } }
        }
    }
}
