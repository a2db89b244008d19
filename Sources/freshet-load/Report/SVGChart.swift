import Foundation
import FreshetService
import WidgetModel
import WidgetSimulator

/// Charts as SVG elements for a page that has the styles of ``LoadPage``: their text stays readable on a phone, since
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
    private static let bottom = 184.0

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
        let time = ChartScale.linear(endingAt: max(samples.last?.seconds ?? 0, 1))
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

    // MARK: Parts

    private static func open(_ label: String) -> String {
        #"<svg viewBox="0 0 \#(number(width)) \#(number(height))" role="img" aria-label="\#(HTML.escaped(label))">"#
    }

    private static func grid(_ scale: ChartScale, _ format: (Double) -> String) -> String {
        scale.ticks.map { tick in
            let place = y(scale.place(tick))
            return #"<line class="grid" x1="\#(number(left))" x2="\#(number(right))" y1="\#(number(place))" "#
                + #"y2="\#(number(place))"/>"# + text(format(tick), x: left - 5, y: place + 4, anchor: "end")
        }.joined()
    }

    private static func text(_ text: String, x: Double, y: Double, anchor: String) -> String {
        #"<text class="tick" x="\#(number(x))" y="\#(number(y))" text-anchor="\#(anchor)">\#(HTML.escaped(text))</text>"#
    }

    private static func x(_ share: Double) -> Double { left + share * (right - left) }
    private static func y(_ share: Double) -> Double { bottom - share * (bottom - top) }

    private static func number(_ value: Double) -> String {
        let tenths = Int((value * 10).rounded())
        return tenths % 10 == 0 ? "\(tenths / 10)" : String(format: "%.1f", value)
    }
}
