import Foundation

/// Charts as SVG elements for a page that has the styles of ``HTMLPage``: their text stays readable on a phone, since
/// the drawing is no wider than one.
enum SVGChart {
    /// A line of a chart.
    struct Line: Sendable {
        var name: String
        var key: LoadSample.Key
    }

    private static let width = 400.0
    private static let height = 210.0
    private static let left = 46.0
    private static let right = 392.0
    private static let top = 10.0
    static let bottom = 184.0

    /// Lines over time.
    ///
    /// - Parameters:
    ///   - label: what is drawn, for those who cannot see it.
    ///   - format: of the values beside the axis.
    static func lines(
        _ lines: [Line], of samples: [LoadSample], spans: [LoadCharts.Span], isLogarithmic: Bool, label: String,
        format: (Double) -> String
    ) -> String {
        let values = samples.flatMap { sample in lines.compactMap { sample.values[$0.key] } }
        let time = ChartScale(low: 0, high: max(samples.last?.seconds ?? 0, 1), isLogarithmic: false)
        let positive = values.filter { $0 > 0 }
        let scale =
            isLogarithmic && !positive.isEmpty
            ? ChartScale.logarithmic(from: positive.min() ?? 1, upTo: positive.max() ?? 1)
            : ChartScale.linear(upTo: values.max() ?? 1)
        var svg = open(label)
        for span in spans {
            let (from, to) = (x(time.place(span.from)), x(time.place(span.to)))
            svg +=
                #"<rect class="span" x="\#(number(from))" y="\#(number(top))" width="\#(number(max(1, to - from)))" "#
            svg += #"height="\#(number(bottom - top))"/>"#
            svg +=
                #"<text class="tick" x="\#(number(from + 3))" y="\#(number(top + 11))">\#(HTML.escaped(span.label))</text>"#
        }
        svg += grid(scale, format)
        for (share, anchor) in [(0.0, "start"), (0.5, "middle"), (1.0, "end")] {
            svg += text(Figure.time(time.high * share), x: x(share), y: bottom + 17, anchor: anchor)
        }
        for (index, line) in lines.enumerated() {
            let points = samples.compactMap { sample in
                sample.values[line.key].map { value in
                    "\(number(x(time.place(sample.seconds)))),\(number(y(scale.place(value))))"
                }
            }
            guard !points.isEmpty else { continue }
            // A single point is a dot: a line of no length, with round ends.
            let drawn = points.count == 1 ? points + points : points
            svg += #"<polyline class="line c\#(index + 1)" points="\#(drawn.joined(separator: " "))"/>"#
        }
        return svg + "</svg>"
    }

    /// How many latencies were how long, over a logarithmic axis, with the percentiles marked.
    static func histogram(_ buckets: [LatencyBucket], marks: [(name: String, value: Double)], label: String) -> String {
        guard let first = buckets.first, let last = buckets.last else { return "" }
        let time = ChartScale.logarithmic(from: first.upTo * 0.9, upTo: last.upTo)
        let scale = ChartScale.linear(upTo: Double(buckets.map(\.count).max() ?? 1))
        var svg = open(label)
        svg += grid(scale, Figure.short)
        for tick in time.ticks {
            let place = time.place(tick)
            svg += text(Figure.digits(tick) + " ms", x: x(place), y: bottom + 17, anchor: anchor(at: place))
        }
        for bucket in buckets where bucket.count > 0 {
            let from = x(time.place(bucket.upTo / LatencyBucket.growth))
            let to = x(time.place(bucket.upTo))
            let peak = y(scale.place(Double(bucket.count)))
            svg += #"<rect class="bar" x="\#(number(from))" y="\#(number(peak))" "#
            svg += #"width="\#(number(max(0.5, to - from - 0.4)))" height="\#(number(bottom - peak))"/>"#
        }
        for (index, mark) in marks.enumerated() {
            let place = time.place(mark.value)
            let atEnd = place > 0.7
            svg += #"<line class="mark" x1="\#(number(x(place)))" x2="\#(number(x(place)))" "#
            svg += #"y1="\#(number(top))" y2="\#(number(bottom))"/>"#
            svg += text(
                "\(mark.name) \(Figure.digits(mark.value)) ms", x: x(place) + (atEnd ? -3 : 3),
                y: top + 11 + Double(index) * 13, anchor: atEnd ? "end" : "start")
        }
        return svg + "</svg>"
    }

    // MARK: Parts

    static func open(_ label: String) -> String {
        #"<svg viewBox="0 0 \#(number(width)) \#(number(height))" role="img" aria-label="\#(HTML.escaped(label))">"#
    }

    static func grid(_ scale: ChartScale, _ format: (Double) -> String) -> String {
        scale.ticks.map { tick in
            let place = y(scale.place(tick))
            return #"<line class="grid" x1="\#(number(left))" x2="\#(number(right))" y1="\#(number(place))" "#
                + #"y2="\#(number(place))"/>"# + text(format(tick), x: left - 5, y: place + 4, anchor: "end")
        }.joined()
    }

    static func text(_ text: String, x: Double, y: Double, anchor: String) -> String {
        #"<text class="tick" x="\#(number(x))" y="\#(number(y))" text-anchor="\#(anchor)">\#(HTML.escaped(text))</text>"#
    }

    /// What is written below the axis does not go beyond the drawing.
    static func anchor(at share: Double) -> String { share < 0.05 ? "start" : share > 0.95 ? "end" : "middle" }

    static func x(_ share: Double) -> Double { left + share * (right - left) }
    static func y(_ share: Double) -> Double { bottom - share * (bottom - top) }

    static func number(_ value: Double) -> String {
        let tenths = Int((value * 10).rounded())
        return tenths % 10 == 0 ? "\(tenths / 10)" : String(format: "%.1f", value)
    }
}

enum HTML {
    static func escaped(_ text: String) -> String {
        var out = ""
        for scalar in text.unicodeScalars {
            switch scalar {
            case "&": out += "&amp;"
            case "<": out += "&lt;"
            case ">": out += "&gt;"
            case "\"": out += "&quot;"
            // Neither HTML nor XML can say other control characters.
            case let scalar where scalar.value < 0x20 && scalar != "\n" && scalar != "\t": out += "\u{FFFD}"
            default: out.unicodeScalars.append(scalar)
            }
        }
        return out
    }
}
