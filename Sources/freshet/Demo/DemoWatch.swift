import Foundation
import FreshetService
import ReloadIngest
import ReloadWorkers
import SampleProvider
import WidgetModel
import WidgetRepresentation
import WidgetStore

/// Reads figures for the screen twice a second.
struct DemoWatch: Sendable {
    let node: FreshetNode
    let provider: SampleProvider
    let latency: DemoLatency
    let world: SampleWorld
    let start: ContinuousClock.Instant

    /// Does the work of a phase and shows the progress.
    func showing(
        _ phase: String, _ screen: DemoScreen, _ traffic: DemoTraffic,
        _ work: @escaping @Sendable () async throws -> Void
    ) async throws -> DemoScreen {
        var screen = screen
        try await withThrowingTaskGroup(of: Bool.self) { group in
            group.addTask {
                try await work()
                return true
            }
            group.addTask { try await pause() }
            var stored = node.statistics().workers?.completed ?? 0
            var before = ContinuousClock.now
            while let isDone = try await group.next() {
                let now = ContinuousClock.now
                let completed = node.statistics().workers?.completed ?? 0
                let seconds = max(before.duration(to: now) / .seconds(1), 0.001)
                screen.show(
                    "\(phase) · \(Int(start.duration(to: now) / .seconds(1))) s",
                    try await facts(traffic, completed, perSecond: Double(completed - stored) / seconds))
                (stored, before) = (completed, now)
                if isDone { break }
                group.addTask { try await pause() }
            }
            group.cancelAll()
        }
        return screen
    }

    private func pause() async throws -> Bool {
        try await Task.sleep(for: .milliseconds(500))
        return false
    }

    private func facts(
        _ traffic: DemoTraffic, _ completed: Int, perSecond: Double
    ) async throws -> [(name: String, value: String)] {
        let ingest = node.statistics().ingest
        let lists = try await node.store.query(.readWorkLists(app: nil))
        let due = lists.reduce(0) { $0 + $1.ready.timelines + $1.leased.timelines + $1.resting.timelines }
        let (answered, latency) = (provider.statistics().answered, latency.takeRecent())
        return [
            ("events published", "\(traffic.counts.events)"),
            ("events applied", "\((ingest?.events ?? 0) + (ingest?.deadLetters ?? 0))"), ("reloads due", "\(due)"),
            ("timelines stored", "\(completed) (\(Figure.digits(perSecond))/s)"),
            ("provider requests", "\(answered.requests) of \(Figure.digits(answered.meanBatch)) timelines"),
            ("event → stored", "p50 \(Figure.digits(latency.p50)) ms, p99 \(Figure.digits(latency.p99)) ms"),
            ("a sample widget", try await sample()),
        ]
    }

    /// The entry that the first person's purchases widget shows now.
    private func sample() async throws -> String {
        let placement = world.placement(0)
        guard
            let timeline = try await node.store.query(
                .readWidgetTimeline(app: placement.app, widget: placement.widget)
            ).first,
            timeline.content != nil
        else { return "not rendered yet" }
        let entry = timeline.currentEntry().flatMap { try? JSONValue.parse(Array($0)) }
        let text = entry?["content"]?.canonical ?? "no entry yet"
        return "\(timeline.requested) reloads: " + (text.count > 70 ? String(text.prefix(69)) + "…" : text)
    }
}

/// Shows the progress: redrawn in place on a terminal, a plain line every five seconds elsewhere.
struct DemoScreen {
    private let isTerminal = isatty(STDOUT_FILENO) == 1
    /// Rows that the next frame replaces.
    private var drawn = 0
    private var lastLine: ContinuousClock.Instant?

    mutating func show(_ title: String, _ facts: [(name: String, value: String)]) {
        guard isTerminal else {
            if let lastLine, lastLine.duration(to: .now) < .seconds(5) { return }
            lastLine = .now
            return say("\(title): " + facts.map { "\($0.name) \($0.value)" }.joined(separator: ", "))
        }
        erase()
        print("\n  \(title)")
        for (name, value) in facts { print("  " + name.padding(toLength: 22, withPad: " ", startingAt: 0) + value) }
        drawn = facts.count + 2
        fflush(nil)
    }

    /// A line that stays above the redrawn part.
    mutating func say(_ text: String) {
        erase()
        print(text)
        fflush(nil)
    }

    private mutating func erase() {
        if drawn > 0 { print("\u{1B}[\(drawn)A\u{1B}[J", terminator: "") }
        drawn = 0
    }
}
