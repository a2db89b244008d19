import Foundation
import FreshetService
import Synchronization

#if canImport(Darwin)
import Darwin
#else
import Glibc
#endif

/// Shows the progress of a scenario on standard error: a line that is overwritten on a terminal, a line a phase
/// elsewhere.
final class LoadProgress: Sendable {
    private struct State {
        var phase = ""
        /// Nil if it is not known.
        var length: Duration?
        var start = ContinuousClock.now
    }

    private let state = Mutex(State())

    func phase(_ name: String, lasting length: Duration? = nil) {
        state.withLock { $0 = State(phase: name, length: length) }
        if Terminal.showsProgress { Terminal.progress(name) } else { Terminal.complain(name) }
    }

    /// - Parameters:
    ///   - rate: timelines a second.
    ///   - latency: since the last update.
    func update(rate: Double, latency: LatencySummary?) {
        guard Terminal.showsProgress else { return }
        let state = state.withLock { $0 }
        let elapsed = state.start.duration(to: .now) / .seconds(1)
        let length = state.length.map { $0 / .seconds(1) }
        let line = ProgressLine(
            phase: state.phase, share: length.map { elapsed / $0 }, rate: rate,
            secondsLeft: length.map { $0 - elapsed }, latency: latency)
        Terminal.progress(line.text(width: Self.width))
    }

    /// Width of the terminal.
    static var width: Int {
        var size = winsize()
        guard ioctl(STDERR_FILENO, UInt(TIOCGWINSZ), &size) == 0, size.ws_col > 0 else { return 80 }
        return Int(size.ws_col)
    }
}

/// Progress of a phase in one line.
struct ProgressLine: Sendable {
    var phase: String
    /// From 0 to 1; nil when the end is not known.
    var share: Double?
    var rate: Double
    var secondsLeft: Double?
    var latency: LatencySummary?

    /// No longer than a line of the terminal.
    func text(width: Int) -> String {
        var facts = [phase]
        if let share { facts.append("\(Int(min(max(share, 0), 1) * 100)) %") }
        facts.append("\(Figure.short(rate))/s")
        if share != nil, let secondsLeft { facts.append("ETA \(Figure.time(max(0, secondsLeft)))") }
        if let latency, latency.samples > 0 {
            facts.append("p50 \(Figure.digits(latency.p50)) ms  p99 \(Figure.digits(latency.p99)) ms")
        }
        return String(facts.joined(separator: "  ").prefix(max(0, width - 1)))
    }
}
