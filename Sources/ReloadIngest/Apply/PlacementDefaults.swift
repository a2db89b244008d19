package import Logging
package import PostgresClient
import ServiceLifecycle
import Synchronization
import WidgetEvents
package import WidgetModel
package import WidgetStore

/// Asks providers for the dynamic defaults of new widgets, once each, and stores them as the widgets' values.
///
/// A widget is placed with the definition's defaults, and its timeline waits for ``patience``. The question is asked after that
/// transaction, so that ingest waits for no provider. An answer in time is written to the widget in a transaction of its own, which
/// moves it to the timeline of these values. Anything else, the end of the process too, leaves the definition's defaults.
package final class PlacementDefaults: Service {
    /// Provider of an app; two apps at one URL are two.
    private struct Provider: Hashable {
        let appID: Int32
        let url: String
    }

    private struct Question {
        let widget: UndecidedWidget
        let deadline: ContinuousClock.Instant
    }

    private struct Queue {
        var waiting: [Question] = []
        var running = 0
    }

    /// Most widgets that wait for their question.
    private static let maximumWaiting = 10_000
    /// Most questions to a provider at a time, so that a slow one keeps only its own waiting.
    private static let requestsPerProvider = 8
    private static let attempts = 5

    /// Longest time from the placement to the answer.
    package let patience: Duration
    private let provider: any ConfigurationProvider
    private let applier: BatchApplier
    private let directory: DirectoryCache
    private let onWork: @Sendable (WorkSignal.Work) -> Void
    private let logger: Logger
    private let queues = Mutex<[Provider: Queue]>([:])
    private let starts: AsyncStream<Provider>
    private let start: AsyncStream<Provider>.Continuation

    /// - Parameter onWork: called after every transaction that appended ready lists.
    package init(
        provider: any ConfigurationProvider, pool: PostgresPool, directory: DirectoryCache,
        audienceLimit: Int, patience: Duration = .seconds(2), logger: Logger,
        onWork: @escaping @Sendable (WorkSignal.Work) -> Void
    ) {
        self.provider = provider
        self.directory = directory
        self.patience = patience
        self.onWork = onWork
        self.logger = logger
        applier = BatchApplier(pool: pool, audienceLimit: audienceLimit)
        (starts, start) = AsyncStream.makeStream()
    }

    /// Asks for the defaults of widgets that have just been placed.
    func ask(_ widgets: [UndecidedWidget]) {
        guard !widgets.isEmpty else { return }
        let deadline = ContinuousClock.now + patience
        let started = queues.withLock { queues in
            var room = Self.maximumWaiting - queues.values.reduce(0) { $0 + $1.waiting.count }
            var started: [Provider] = []
            for widget in widgets where room > 0 {
                room -= 1
                let key = Provider(appID: widget.app.id, url: widget.kind.providerURL)
                queues[key, default: Queue()].waiting.append(Question(widget: widget, deadline: deadline))
                guard queues[key, default: Queue()].running < Self.requestsPerProvider else { continue }
                queues[key, default: Queue()].running += 1
                started.append(key)
            }
            return started
        }
        for provider in started { start.yield(provider) }
    }

    /// Asks until graceful shutdown, which ends the questions under way too.
    package func run() async throws {
        await withDiscardingTaskGroup { group in
            for await provider in starts.cancelOnGracefulShutdown() {
                group.addTask { await self.askWaiting(of: provider) }
            }
            group.cancelAll()
        }
    }

    private func askWaiting(of key: Provider) async {
        while !Task.isCancelled, let question = next(of: key) {
            let defaults = await defaults(for: question)
            guard !Task.isCancelled else { return }
            await store(defaults, of: question.widget)
        }
    }

    /// The provider's next question in time; nil, and this series of questions is over, when there is none.
    private func next(of key: Provider) -> Question? {
        let now = ContinuousClock.now
        return queues.withLock { queues in
            guard var queue = queues[key] else { return nil }
            let index = queue.waiting.firstIndex { $0.deadline > now }
            let question = index.map { queue.waiting[$0] }
            queue.waiting.removeFirst(index.map { $0 + 1 } ?? queue.waiting.count)
            if question == nil { queue.running -= 1 }
            queues[key] = queue.running > 0 ? queue : nil
            return question
        }
    }

    /// The provider's defaults; none if it does not answer in time.
    private func defaults(for question: Question) async -> WidgetConfiguration {
        let widget = question.widget
        return await withTaskGroup(of: WidgetConfiguration.self) { group in
            group.addTask { [provider, logger] in
                do throws(ConfigurationFailure) {
                    return try await provider.defaults(widget.context, of: widget.kind, app: widget.app.name)
                } catch {
                    logger.info(
                        "a widget gets the definition's defaults",
                        metadata: [
                            "app": "\(widget.app.name)", "kind": "\(widget.kind.name)", "reason": "\(error.reason)",
                            "message": "\(error.message)",
                        ])
                    return .empty
                }
            }
            group.addTask {
                try? await Task.sleep(until: question.deadline, clock: .continuous)
                return .empty
            }
            defer { group.cancelAll() }
            return await group.next() ?? .empty
        }
    }

    /// Writes the defaults, and has the widget's timeline fetched now.
    private func store(_ defaults: WidgetConfiguration, of widget: UndecidedWidget) async {
        var step = LifecycleStep(
            record: 0, position: widget.cause, app: widget.app,
            operation: .defaults(widget.record.widget, kind: widget.kind.name, defaults))
        step.handling.user = widget.record.user
        for attempt in 1...Self.attempts {
            do {
                var fold = BatchFold(directory: try await directory.directory(maximumAge: .seconds(5)))
                fold.add(step)
                let outcome = try await applier.pool.withTransaction { [fold] connection in
                    try await applier.write(fold, behind: PostgresPipeline(), on: connection, { _, _ in [] }) { _, _ in
                        nil
                    }
                }
                if outcome.lists > 0 { onWork(.timelines) }
                return
            } catch {
                let isTransient = (error as? PostgresError)?.isRetriable ?? (error is LifecycleFoldError)
                guard isTransient, attempt < Self.attempts else {
                    // Its timeline is looked at when its time has come.
                    return logger.warning("cannot store a widget's defaults", metadata: ["error": "\(error)"])
                }
                if error is LifecycleFoldError { _ = try? await directory.refresh() }
                let backoff = Backoff(base: .milliseconds(20), cap: .seconds(1))
                try? await Task.sleep(for: backoff.delay(attempt: attempt))
            }
        }
    }
}
