import Foundation
import Synchronization

#if canImport(Darwin)
import Darwin
#else
import Glibc
#endif

/// Shows how far a scenario is: a bar that is redrawn on a terminal, one plain line a phase elsewhere; on standard error.
final class LoadProgress: Sendable {
    /// When a phase is over.
    enum Goal: Sendable {
        case unknown
        case time(Duration)
        case count(Int)
    }

    private struct State {
        var phase = ""
        var goal = Goal.unknown
        var start = ContinuousClock.now
    }

    private let state = Mutex(State())
    private let isTerminal: Bool

    init(isTerminal: Bool = Terminal.showsProgress) {
        self.isTerminal = isTerminal
    }

    func phase(_ name: String, _ goal: Goal = .unknown) {
        state.withLock { $0 = State(phase: name, goal: goal) }
        if isTerminal { Terminal.progress(name) } else { Terminal.complain(name) }
    }

    /// - Parameters:
    ///   - done: of what the phase counts.
    ///   - rate: of it, a second.
    ///   - latency: of late.
    func update(done: Int, rate: Double, latency: LatencySummary?) {
        guard isTerminal else { return }
        let state = state.withLock { $0 }
        let elapsed = state.start.duration(to: .now) / .seconds(1)
        let (share, left): (Double?, Double?) =
            switch state.goal {
            case .unknown: (nil, nil)
            case .time(let length): (elapsed / (length / .seconds(1)), length / .seconds(1) - elapsed)
            case .count(let count):
                (Double(done) / Double(max(1, count)), rate > 0 ? Double(max(0, count - done)) / rate : nil)
            }
        let line = ProgressLine(phase: state.phase, share: share, rate: rate, secondsLeft: left, latency: latency)
        Terminal.progress(line.text(width: Self.width))
    }

    /// Of the terminal.
    static var width: Int {
        var size = winsize()
        guard ioctl(STDERR_FILENO, UInt(TIOCGWINSZ), &size) == 0, size.ws_col > 0 else { return 80 }
        return Int(size.ws_col)
    }
}

/// What is written while a phase goes on.
struct ProgressLine: Sendable {
    var phase: String
    /// From 0 to 1; nil when the end is not known.
    var share: Double?
    var rate: Double
    var secondsLeft: Double?
    var latency: LatencySummary?

    /// No longer than a line of the terminal: the bar shrinks, then the name, then the end is cut off.
    func text(width: Int) -> String {
        var facts: [String] = []
        if let share { facts.append("\(Int(min(max(share, 0), 1) * 100)) %") }
        facts.append("\(Figure.short(rate))/s")
        if share != nil, let secondsLeft { facts.append("ETA \(Figure.time(max(0, secondsLeft)))") }
        if let latency, latency.samples > 0 {
            facts.append("p50 \(Figure.digits(latency.p50)) ms")
            facts.append("p99 \(Figure.digits(latency.p99)) ms")
        }
        let tail = facts.joined(separator: "  ")
        var room = width - 1 - tail.count - 2
        guard room > 0 else { return String(tail.prefix(max(0, width - 1))) }
        var bar = ""
        if let share, room >= phase.count + 14 {
            let cells = min(30, room - phase.count - 4)
            let filled = Int((min(max(share, 0), 1) * Double(cells)).rounded())
            bar = "[" + String(repeating: "█", count: filled) + String(repeating: "░", count: cells - filled) + "]  "
            room -= bar.count
        }
        let name = phase.count <= room ? phase : String(phase.prefix(max(0, room - 1))) + "…"
        return name + "  " + bar + tail
    }
}
