import Foundation
import FreshetService

/// What the demo shows at one moment.
struct DemoFrame: Sendable {
    var phase: String
    var elapsed: Duration
    var eventsPublished: Int
    var eventsApplied: Int
    var due: Int
    var timelinesStored: Int
    var timelinesPerSecond: Double
    var providerRequests: Int
    var meanBatch: Double
    var latency: LatencySummary
    var sample: String
}

/// Shows frames: redrawn in place on a terminal, a plain line now and then elsewhere.
struct DemoScreen {
    private let isTerminal: Bool
    private var isDrawn = false
    private var lastLine: ContinuousClock.Instant?
    private static let height = 9

    init() {
        isTerminal = isatty(STDOUT_FILENO) == 1
    }

    mutating func show(_ frame: DemoFrame) {
        if isTerminal {
            draw(frame)
        } else if lastLine.map({ $0.duration(to: .now) >= .seconds(5) }) ?? true {
            lastLine = .now
            say(line(frame))
        }
    }

    /// A line that stays, above what is redrawn.
    mutating func say(_ text: String) {
        if isTerminal && isDrawn {
            // Over the drawn block, which the next frame draws anew below.
            print("\u{1B}[\(Self.height)A\u{1B}[J", terminator: "")
            isDrawn = false
        }
        print(text)
        fflush(nil)
    }

    private mutating func draw(_ frame: DemoFrame) {
        if isDrawn { print("\u{1B}[\(Self.height)A", terminator: "") }
        let rows = [
            "",
            "  \(frame.phase) · \(Int(frame.elapsed / .seconds(1))) s",
            "  events published      \(frame.eventsPublished)",
            "  events applied        \(frame.eventsApplied)",
            "  reloads due           \(frame.due)",
            "  timelines stored      \(frame.timelinesStored)   \(Figure.digits(frame.timelinesPerSecond)) /s",
            "  provider requests     \(frame.providerRequests)   \(Figure.digits(frame.meanBatch)) timelines each",
            "  event → stored        p50 \(Figure.digits(frame.latency.p50)) ms   p99 \(Figure.digits(frame.latency.p99)) ms",
            "  a sample widget       \(frame.sample)",
        ]
        for row in rows { print("\u{1B}[2K" + row) }
        fflush(nil)
        isDrawn = true
    }

    private func line(_ frame: DemoFrame) -> String {
        "\(frame.phase) \(Int(frame.elapsed / .seconds(1)))s: events \(frame.eventsApplied)/\(frame.eventsPublished) applied,"
            + " \(frame.due) due, \(frame.timelinesStored) stored (\(Figure.digits(frame.timelinesPerSecond))/s),"
            + " \(frame.providerRequests) requests of \(Figure.digits(frame.meanBatch)),"
            + " event → stored p50 \(Figure.digits(frame.latency.p50)) ms p99 \(Figure.digits(frame.latency.p99)) ms;"
            + " sample: \(frame.sample)"
    }
}
