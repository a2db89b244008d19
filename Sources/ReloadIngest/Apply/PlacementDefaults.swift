// SPDX-License-Identifier: Apache-2.0

package import Logging
package import PostgresClient
import ServiceLifecycle
import Synchronization
import Waiting
import WidgetEvents
package import WidgetModel
package import WidgetStore

/// Asks providers for the dynamic defaults of new widgets, once for each widget, and stores them as the widget's
/// values.
///
/// A widget is placed with the definition's defaults, and its timeline waits for ``patience``. The request to the
/// provider follows that transaction, so that ingest never waits for a provider. If the answer comes in time, a
/// separate transaction writes it to the widget and moves the widget to the timeline of these values. In all other
/// cases, including the end of the process, the definition's defaults stay.
package final class PlacementDefaults: Service {
    /// App and URL: two apps with the same URL have two providers.
    private typealias Provider = ScopedIdentifier
    private typealias Question = (widget: UndecidedWidget, deadline: ContinuousClock.Instant)

    /// Largest number of concurrent requests to a provider, so that a slow provider delays only its own widgets.
    private static let requestsPerProvider = 8
    private static let attempts = 5

    /// Longest time from the placement to the answer.
    package let patience: Duration
    /// Largest number of widgets that wait for their request.
    private let maximumWaiting: Int
    private let provider: any ConfigurationProvider
    private let applier: BatchApplier
    private let directory: DirectoryCache
    private let onLists: @Sendable () -> Void
    private let logger: Logger
    /// Waiting questions, and number of requests under way.
    private let queues = Mutex<[Provider: (waiting: [Question], running: Int)]>([:])
    private let starts: AsyncStream<Provider>
    private let start: AsyncStream<Provider>.Continuation

    /// - Parameter onLists: called after every transaction that appended ready lists.
    package init(
        provider: any ConfigurationProvider, pool: PostgresPool, directory: DirectoryCache,
        audienceLimit: Int, patience: Duration = .seconds(2), maximumWaiting: Int = 10_000, logger: Logger,
        onLists: @escaping @Sendable () -> Void
    ) {
        self.provider = provider
        self.directory = directory
        self.patience = patience
        self.maximumWaiting = maximumWaiting
        self.onLists = onLists
        self.logger = logger
        applier = BatchApplier(pool: pool, audienceLimit: audienceLimit)
        (starts, start) = AsyncStream.makeStream()
    }

    /// Requests the defaults of widgets that have just been placed. Those of one provider take at most half of the free
    /// places, so that a slow provider leaves places for others.
    func ask(_ widgets: [UndecidedWidget]) {
        guard !widgets.isEmpty else { return }
        let deadline = ContinuousClock.now + patience
        let started = queues.withLock { queues in
            var room = maximumWaiting - queues.values.reduce(0) { $0 + $1.waiting.count }
            var started: [Provider] = []
            for widget in widgets {
                let key = Provider(widget.app.id, widget.kind.providerURL)
                guard queues[key]?.waiting.count ?? 0 < room else { continue }
                room -= 1
                queues[key, default: ([], 0)].waiting.append((widget, deadline))
                guard queues[key, default: ([], 0)].running < Self.requestsPerProvider else { continue }
                queues[key, default: ([], 0)].running += 1
                started.append(key)
            }
            return started
        }
        for provider in started { start.yield(provider) }
    }

    /// Sends requests until graceful shutdown, which also ends the requests under way.
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

    /// The provider's next question that is still in time. Without one, ends this series of questions and returns nil.
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

    /// The provider's defaults; empty if it does not answer in time.
    private func defaults(for question: Question) async -> WidgetConfiguration {
        let widget = question.widget
        return await withTaskGroup(of: WidgetConfiguration.self) { group in
            group.addTask { [provider, logger] in
                do throws(ProviderFailure) {
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

    /// Writes the defaults and makes the widget's timeline due now.
    private func store(_ defaults: WidgetConfiguration, of widget: UndecidedWidget) async {
        for attempt in 1...Self.attempts {
            do {
                var fold = BatchFold(directory: try await directory.directory(maximumAge: .seconds(5)))
                fold.defaults = (widget, defaults)
                let outcome = try await applier.pool.withTransaction { [fold] connection in
                    try await applier.write(fold, behind: PostgresPipeline(), on: connection, { _, _ in [] }) { _, _ in
                        nil
                    }
                }
                if outcome.lists > 0 { onLists() }
                return
            } catch {
                let isTransient = (error as? PostgresError)?.isRetriable ?? (error is ApplyFailure)
                guard isTransient, attempt < Self.attempts else {
                    // The timeline is fetched at its scheduled time.
                    return logger.warning("cannot store a widget's defaults", metadata: ["error": "\(error)"])
                }
                if error is ApplyFailure { _ = try? await directory.refresh() }
                let backoff = Backoff(base: .milliseconds(20), cap: .seconds(1))
                try? await Task.sleep(for: backoff.delay(attempt: attempt))
            }
        }
    }
}
