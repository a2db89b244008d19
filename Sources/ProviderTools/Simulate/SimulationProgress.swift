// SPDX-License-Identifier: Apache-2.0

import FreshetService
import WidgetModel
import WidgetSimulator

/// Progress of a simulation that waits for a provider: on the progress line of a terminal, and as a line every ten
/// seconds otherwise.
struct SimulationProgress {
    private let span: Range<Timestamp>
    /// Name of one of several simulations.
    private let name: String?
    private var requests = 0
    private var shownAt = ContinuousClock.now

    init(_ options: SimulationOptions, name: String? = nil) {
        (span, self.name) = (options.begin..<max(options.begin, options.end), name)
    }

    /// Counts a request to the provider, and shows the progress if it was not shown just now.
    ///
    /// - Parameter time: virtual time.
    mutating func countRequest(at time: Timestamp) {
        requests += 1
        let isTerminal = Terminal.showsProgress
        guard shownAt.duration(to: .now) >= (isTerminal ? .milliseconds(100) : .seconds(10)) else { return }
        shownAt = .now
        if isTerminal { Terminal.progress(text(at: time)) } else { Terminal.complain(text(at: time)) }
    }

    /// `simulated until 2026-06-24T10:00:00Z, 23 %, 1,204 requests`
    func text(at time: Timestamp) -> String {
        let share = min(1, max(0, (time - span.lowerBound) / (span.upperBound - span.lowerBound)))
        let percent = share.isFinite ? Int((share * 100).rounded(.down)) : 100
        return (name.map { "\($0): " } ?? "")
            + "simulated until \(time.wholeSeconds), \(percent) %, \(Figure.counted(requests, "request"))"
    }
}
