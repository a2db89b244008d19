// SPDX-License-Identifier: Apache-2.0

import Foundation
import FreshetService
import Synchronization

extension Terminal {
    /// Shows what goes on: in the progress line on a terminal, in a line a phase elsewhere.
    static func phase(_ name: String) {
        if showsProgress { progress(name) } else { complain(name) }
    }

    /// Shows the progress of a phase.
    ///
    /// - Parameters:
    ///   - rate: timelines a second.
    ///   - latency: since the last update.
    static func progress(
        _ phase: String, since start: ContinuousClock.Instant, lasting length: Duration?, rate: Double,
        latency: LatencySummary
    ) {
        guard showsProgress else { return }
        let elapsed = start.duration(to: .now) / .seconds(1)
        let length = length.map { $0 / .seconds(1) }
        progress(
            line(
                phase, share: length.map { elapsed / $0 }, rate: rate, secondsLeft: length.map { $0 - elapsed },
                latency: latency, width: width))
    }

    /// Width of the terminal.
    static var width: Int {
        var size = winsize()
        guard ioctl(STDERR_FILENO, UInt(TIOCGWINSZ), &size) == 0, size.ws_col > 0 else { return 80 }
        return Int(size.ws_col)
    }

    /// Progress of a phase in one line, no longer than a line of the terminal.
    ///
    /// - Parameter share: from 0 to 1; nil when the end is not known.
    static func line(
        _ phase: String, share: Double?, rate: Double, secondsLeft: Double?, latency: LatencySummary?, width: Int
    ) -> String {
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

/// Progress through a backlog over time, for the chart and the progress line.
struct DrainRecorder: Sendable {
    /// Number of applied events at the end.
    let goal: Int
    private let phase: String
    private(set) var samples: [LoadSample] = []

    private let start = ContinuousClock.now
    private var begin: Int?
    private var last: (time: ContinuousClock.Instant, applied: Int, fetched: Int?)?

    init(goal: Int, phase: String = "draining") {
        self.goal = goal
        self.phase = phase
    }

    /// - Parameter fetched: number of fetched timelines; nil if none are fetched.
    mutating func record(applied: Int, fetched: Int?, at now: ContinuousClock.Instant = .now) {
        defer { last = (now, applied, fetched) }
        if begin == nil { begin = applied }
        guard let last else { return }
        let span = max(0.001, last.time.duration(to: now) / .seconds(1))
        let events = Double(applied - last.applied) / span
        let timelines = fetched.map { Double($0 - (last.fetched ?? 0)) / span }
        samples.append(
            LoadSample(
                seconds: start.duration(to: now) / .seconds(1),
                [.eventsPerSecond: events, .timelinesPerSecond: timelines]))
        let (done, all) = (applied - (begin ?? 0), goal - (begin ?? 0))
        guard all > 0 else { return }
        let elapsed = start.duration(to: now) / .seconds(1)
        Terminal.progress(
            Terminal.line(
                phase, share: Double(done) / Double(all), rate: timelines ?? events,
                secondsLeft: done > 0 ? elapsed / Double(done) * Double(all - done) : nil, latency: nil,
                width: Terminal.width))
    }
}

extension Figure {
    /// `950`, `12.3k`, `4.56M`.
    static func short(_ value: Double) -> String {
        let size = abs(value)
        for (limit, suffix) in [(1e9, "G"), (1e6, "M"), (1e3, "k")] where size >= limit * 0.999_5 {
            return digits(value / limit) + suffix
        }
        return digits(value)
    }

    /// `45 s`, `2:05`, `1:02:05`.
    static func time(_ seconds: Double) -> String {
        guard seconds.isFinite else { return "–" }
        let whole = Int(max(0, seconds).rounded())
        func two(_ number: Int) -> String { number < 10 ? "0\(number)" : "\(number)" }
        if whole < 60 { return "\(whole) s" }
        if whole < 3_600 { return "\(whole / 60):\(two(whole % 60))" }
        return "\(whole / 3_600):\(two(whole / 60 % 60)):\(two(whole % 60))"
    }
}
