import WidgetModel

/// The drawing of a ``TimeAxis`` in SVG. Horizontal positions are percentages, so that texts keep their size in
/// windows of any width.
extension TimeAxis {
    private static let barTop = 64
    private static let barHeight = 22
    private static let curveHeight = 48.0
    private static let height = 112

    var drawing: HTML {
        """
        <svg class="time-axis-drawing" width="100%" height="\(Self.height)" role="img" aria-labelledby="\(id)-title">
        <title id="\(id)-title">\(title)</title>
        \(relevance)\(bars)\(reload)\(ticks)\
        \(line("now", at: now))\(line("chosen", at: now))</svg>
        """
    }

    /// Scores above 0, as bars whose height compares within the timeline.
    private var relevance: HTML {
        let steps = curve.steps(in: range)
        guard let top = steps.map(\.score).max(), top > 0 else { return "" }
        return HTML(
            steps.enumerated().filter { $1.score > 0 }.map { index, step in
                let end = index + 1 < steps.count ? steps[index + 1].from : range.upperBound
                let height = max(1, Int((step.score / top * Self.curveHeight).rounded()))
                return rectangle("relevance", from: step.from, to: end, y: Self.barTop - 6 - height, height: height)
            })
    }

    private var bars: HTML {
        HTML(
            entries.enumerated().map { index, entry in
                rectangle(
                    index.isMultiple(of: 2) ? "entry" : "entry odd", from: entry.date,
                    to: entry.end ?? range.upperBound,
                    y: Self.barTop, height: Self.barHeight)
            })
    }

    /// Mark of the earliest reload by policy.
    private var reload: HTML {
        guard let date = policy.earliestReload(lastEntry: entries.last?.date ?? now) else { return "" }
        return """
            <circle class="reload" cx="\(percent(date))" cy="\(Self.barTop + Self.barHeight / 2)" r="5">\
            <title>Next reload by policy</title></circle>

            """
    }

    private func rectangle(_ name: HTML, from start: Timestamp, to end: Timestamp, y: Int, height: Int) -> HTML {
        let (left, right) = (fraction(start), fraction(end))
        return """
            <rect class="\(name)" x="\(Self.percent(left))" width="\(Self.percent(right - left))" y="\(y)" \
            height="\(height)"/>

            """
    }

    private func line(_ name: HTML, at time: Timestamp) -> HTML {
        let place = percent(time)
        return
            "<line class=\"\(name)\" x1=\"\(place)\" x2=\"\(place)\" y1=\"4\" y2=\"\(Self.barTop + Self.barHeight + 4)\"/>\n"
    }

    // MARK: Scale

    private func fraction(_ time: Timestamp) -> Double {
        let length = Double(range.upperBound.microseconds) - Double(range.lowerBound.microseconds)
        return min(1, max(0, (Double(time.microseconds) - Double(range.lowerBound.microseconds)) / length))
    }

    private func percent(_ time: Timestamp) -> HTML { Self.percent(fraction(time)) }

    private static func percent(_ fraction: Double) -> HTML {
        HTML(stringLiteral: "\((fraction * 100_000).rounded() / 1_000)%")
    }

    // MARK: Ticks

    private static let mostTicks: Int64 = 5
    /// Distances of ticks, in seconds.
    private static let distances: [Int64] = [
        60, 300, 600, 1_800, 3_600, 2 * 3_600, 3 * 3_600, 6 * 3_600, 12 * 3_600, 86_400, 2 * 86_400, 7 * 86_400,
    ]

    private var ticks: HTML {
        HTML(
            tickTimes.map { time, text in
                let place = percent(time)
                let bottom = Self.barTop + Self.barHeight
                return """
                    <line class="tick" x1="\(place)" x2="\(place)" y1="\(bottom)" y2="\(bottom + 6)"/>\
                    <text x="\(place)" y="\(Self.height - 6)" text-anchor="middle">\(text)</text>

                    """
            })
    }

    /// Round local times, away from the edges so that their texts fit.
    var tickTimes: [(time: Timestamp, text: String)] {
        let length = (range.upperBound - range.lowerBound).wholeMicroseconds / 1_000_000
        let distance =
            Self.distances.first { length / $0 <= Self.mostTicks } ?? (length / Self.mostTicks / 86_400 + 1) * 86_400
        let offset = clock.offset(at: range.lowerBound)
        let start = range.lowerBound.microseconds / 1_000_000 + offset
        let first = (start / distance + (start > 0 ? 1 : 0)) * distance - offset
        return (0...Self.mostTicks).compactMap { index in
            let time = Timestamp(microseconds: (first + index * distance) * 1_000_000)
            guard (0.06...0.94).contains(fraction(time)), range.contains(time) else { return nil }
            return (time, distance >= 86_400 ? clock.day(time) : clock.clock(time))
        }
    }
}
