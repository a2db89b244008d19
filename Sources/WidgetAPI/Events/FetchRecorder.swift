package import Logging
import PostgresClient
import Synchronization
import WidgetModel
package import WidgetStore

/// Records which content the API has served to registered devices: gathered, and written at most once a minute for each
/// device.
package final class FetchRecorder: Sendable {
    private struct Served {
        var revision: Int64
        let at: ContinuousClock.Instant
        /// Not written before then.
        var due: ContinuousClock.Instant
    }

    private struct Key: Hashable {
        let app: String
        let widget: String
    }

    /// Most widgets that are remembered; those beyond are recorded with a later fetch.
    private static let limit = 200_000
    /// Few enough for the nested loops of the statement's plan, whose inputs PostgreSQL cannot estimate.
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
    func served(app: String, widget: String, revision: Int64?) {
        guard let revision, revision > 0 else { return }
        let (key, now) = (Key(app: app, widget: widget), ContinuousClock.now)
        pending.withLock { pending in
            guard pending[key] != nil || pending.count < Self.limit else { return }
            guard pending[key].map({ $0.revision < revision }) ?? true else { return }
            pending[key] = Served(revision: revision, at: now, due: pending[key]?.due ?? now)
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
        let taken = pending.withLock { pending -> [(key: Key, value: Served)] in
            let due = Array(pending.lazy.filter { $0.value.due <= now }.prefix(Self.batch))
            for (key, _) in due { pending.removeValue(forKey: key) }
            return due
        }
        let served = taken.filter { directory.apps[$0.key.app]?.delivers == true }
        guard !served.isEmpty else { return taken.count == Self.batch }
        let writes = served.map { key, value in
            ServedContent(
                app: key.app, widget: key.widget, revision: value.revision, age: value.at.duration(to: now))
        }
        let objectives = FreshnessObjectives(
            general: objective, byKind: directory.kinds.compactMapValues(\.definition.freshnessObjective))
        do {
            let late = try await store.recordFetches(writes, objectives: objectives)
            keep(late.map { served[$0] }, until: now + Self.again)
        } catch {
            keep(served, until: now)
            throw error
        }
        return taken.count == Self.batch
    }

    /// Takes back what was not recorded, unless the device was served again meanwhile.
    private func keep(_ served: [(key: Key, value: Served)], until due: ContinuousClock.Instant) {
        pending.withLock { pending in
            for (key, var value) in served where pending[key] == nil && pending.count < Self.limit {
                value.due = due
                pending[key] = value
            }
        }
    }
}
