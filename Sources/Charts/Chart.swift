// SPDX-License-Identifier: Apache-2.0

import Foundation
package import WidgetModel

/// A chart of values over a horizontal axis: an SVG drawing for pages and files, or text for a terminal.
///
/// Horizontal positions are percentages, so that texts keep their size at any width. A page with charts needs
/// ``style``.
package struct Chart: Sendable {
    /// Values of one kind. A value that is nil interrupts a line.
    package struct Series: Sendable {
        package enum Form: Sendable {
            case line
            /// Areas that reach to the next position.
            case steps
            /// Separate bars, one for each position.
            case bars
        }

        package let name: String
        package let form: Form
        package let points: [(x: Double, value: Double?)]

        package init(_ name: String, _ form: Form, points: [(x: Double, value: Double?)]) {
            self.name = name
            self.form = form
            self.points = points
        }

        package var latest: Double? { points.last?.value }
        package var highest: Double? { points.compactMap(\.value).max() }
    }

    /// A labelled part of the axis, drawn behind the values.
    package struct Span: Sendable, Equatable {
        package let label: String
        package let from: Double
        package let to: Double

        package init(label: String, from: Double, to: Double) {
            self.label = label
            self.from = from
            self.to = to
        }
    }

    /// A vertical line.
    package struct Marker: Sendable {
        /// Class of the line's style.
        package let style: String
        /// Its meaning in the legend.
        package let name: String
        package let x: Double

        package init(style: String, name: String, x: Double) {
            (self.style, self.name, self.x) = (style, name, x)
        }
    }

    /// Description for people who cannot see the drawing.
    package var label: String
    /// Drawn part of the axis.
    package var range: Range<Double>
    package var scale: ChartScale
    package var series: [Series]
    /// Texts under the axis, from left to right.
    package var ticks: [(x: Double, text: String)] = []
    package var spans: [Span] = []
    /// Parts of the axis that follow each other, drawn as a strip under the values.
    package var strip: [Range<Double>] = []
    /// Meaning of the strip's parts in the legend.
    package var stripName = ""
    package var markers: [Marker] = []
    /// Value that should not be exceeded. Lines are drawn in another colour over it.
    package var limit: Double?
    /// Height of the values' area in pixels.
    package var height = 150
    /// Text of a value on the vertical axis; nil draws no such axis.
    package var format: (@Sendable (Double) -> String)?
    /// Unit of the values, for the highest label and the values under the pointer; empty for numbers of things.
    package var unit = ""
    /// Text of a position on the axis, for the values under the pointer; nil shows none.
    package var position: (@Sendable (Double) -> String)?

    package init(label: String, range: Range<Double>, scale: ChartScale, series: [Series]) {
        self.label = label
        self.range = range
        self.scale = scale
        self.series = series
    }

    /// Style sheet of charts and their legends.
    package static let style = String(decoding: PackageResources.chart_css, as: UTF8.self)

    // MARK: SVG

    private static let stripHeight = 22
    /// Space over the values, in which their highest label fits, and the values under the pointer.
    private var top: Int { position == nil ? 14 : 34 }
    private var bottom: Int { top + height }
    private var stripTop: Int { bottom + 6 }
    private var axis: Int { strip.isEmpty ? bottom : stripTop + Self.stripHeight }
    private var fullHeight: Int { axis + (ticks.isEmpty ? 4 : 22) }

    /// The drawing, without its style.
    package var svg: HTML {
        """
        <svg class="chart" width="100%" height="\(fullHeight)" role="img" aria-label="\(label)">\(content)</svg>
        """
    }

    /// The drawing as a file of its own, with its label as the heading.
    package var document: String {
        let svg: HTML = """
            <svg xmlns="http://www.w3.org/2000/svg" class="chart" width="960" height="\(fullHeight + 24)" role="img">
            <title>\(label)</title>
            <style>\(raw: Self.style)</style>
            <text y="14">\(label)</text>
            <svg y="24" width="100%" height="\(fullHeight)" aria-hidden="true">\(content)</svg>
            </svg>

            """
        return svg.text
    }

    /// The drawing with a caption, and a legend of several lines.
    package func figure(_ caption: String) -> HTML {
        "<figure><figcaption>\(caption)</figcaption>\(svg)\(series.count > 1 ? legend { _ in nil } : "")</figure>"
    }

    /// Names of the series, each with a text, and the meanings of the limit, the strip and the markers.
    ///
    /// - Parameter limit: text of the limit; nil if there is none.
    package func legend(limit: String? = nil, _ value: (Series) -> String?) -> HTML {
        var items = series.enumerated().map { index, line -> HTML in
            let text: HTML = value(line).map { ": <strong>\($0)</strong>" } ?? ""
            let shape: HTML =
                line.form == .line
                ? "<path class=\"line s\(index + 1)\" d=\"M0 6H32\"/>"
                : "<rect class=\"area\" x=\"8\" width=\"16\" height=\"12\"/>"
            return "<li>\(key(shape))\(line.name)\(text)</li>"
        }
        if let limit { items.append("<li>\(key("<path class=\"limit\" d=\"M0 6H32\"/>"))\(limit)</li>") }
        if !strip.isEmpty {
            let bands: HTML = """
                <rect class="band" width="16" height="12"/><rect class="band odd" x="16" width="16" height="12"/>
                """
            items.append("<li>\(key(bands))\(stripName)</li>")
        }
        items += markers.map { marker in
            let line: HTML = "<path class=\"\(marker.style)\" d=\"M16 0V12\"/>"
            return "<li class=\"of-\(marker.style)\">\(key(line))\(marker.name)</li>"
        }
        return "<ul class=\"legend\">\(HTML(items))</ul>"
    }

    private func key(_ shape: HTML) -> HTML {
        "<svg class=\"key\" viewBox=\"0 0 32 12\" aria-hidden=\"true\">\(shape)</svg>"
    }

    private var content: HTML {
        let paths = series.enumerated().filter { $1.form == .line }.map { index, line -> HTML in
            "<path class=\"line s\(index + 1)\" d=\"\(path(line))\"/>"
        }
        let lines = paths.isEmpty ? "" : stretched("lines", HTML(paths), y: top, height: height)
        let limit: HTML = limit.map { horizontal("limit", at: $0) } ?? ""
        let points = HTML(series.enumerated().map { dots($1, number: $0 + 1) })
        return [
            HTML(spans.map(span)), grid, HTML(series.map(areas)), limit, lines, breaches, points, labels, bands,
            HTML(ticks.map(tick)), HTML(markers.map(marker)), samples,
        ].reduce(into: "" as HTML, +=)
    }

    /// A drawing of lines over a part of the height. Only lines are stretched to the width.
    private func stretched(_ name: HTML, _ lines: HTML, y: Int, height: Int) -> HTML {
        """
        <svg class="\(name)" y="\(y)" width="100%" height="\(height)" viewBox="0 \(y - top) 1000 \(height)" \
        preserveAspectRatio="none" aria-hidden="true">\(lines)</svg>
        """
    }

    /// The parts of the lines over the limit once more. An inner drawing is cut off at its borders, unless its style
    /// says otherwise.
    private var breaches: HTML {
        guard let limit else { return "" }
        let paths = series.filter { $0.form == .line && $0.highest ?? 0 > limit }.map { line -> HTML in
            "<path class=\"line\" d=\"\(path(line))\"/>"
        }
        // Half of the width of a line at the limit itself is over it.
        let height = Int(y(limit)) - top - 1
        guard !paths.isEmpty, height > 0 else { return "" }
        return stretched("lines breach", HTML(paths), y: top - 3, height: height + 3)
    }

    private func span(_ span: Span) -> HTML {
        let (from, to) = (place(span.from), place(span.to))
        return """
            \(rectangle("span", from: from, to: max(to, from + 0.002), y: Double(top), height: Double(height)))\
            <text x="\(percent(from))" dx="3" y="\(top + 11)">\(span.label)</text>
            """
    }

    private var grid: HTML { format == nil ? "" : HTML(scale.ticks.map { horizontal("grid", at: $0) }) }

    private var labels: HTML {
        guard let format else { return "" }
        let ticks = scale.ticks
        return HTML(
            ticks.map { value in
                let text = value == ticks.last ? withUnit(format(value)) : format(value)
                return "<text class=\"value\" y=\"\(number(y(value) - 3))\">\(text)</text>"
            })
    }

    private func areas(_ series: Series) -> HTML {
        guard series.form != .line else { return "" }
        let share = series.form == .bars ? 0.85 : 1
        let parts = series.points.enumerated().map { index, point -> HTML in
            guard let value = point.value, value > 0 else { return "" }
            let end = index + 1 < series.points.count ? series.points[index + 1].x : range.upperBound
            let (from, to) = (place(point.x), place(end))
            let size = max(1, scale.place(value) * Double(height))
            return rectangle(
                "area", from: from, to: from + max(0.001, (to - from) * share), y: Double(bottom) - size, height: size)
        }
        return HTML(parts)
    }

    private var bands: HTML {
        HTML(
            strip.enumerated().map { index, part in
                rectangle(
                    index.isMultiple(of: 2) ? "band" : "band odd", from: place(part.lowerBound),
                    to: place(part.upperBound), y: Double(stripTop), height: Double(Self.stripHeight))
            })
    }

    private func tick(_ tick: (x: Double, text: String)) -> HTML {
        let place = place(tick.x)
        let anchor: HTML = place < 0.02 ? "start" : place > 0.98 ? "end" : "middle"
        let x = percent(place)
        return """
            <line class="grid" x1="\(x)" x2="\(x)" y1="\(axis)" y2="\(axis + 5)"/>\
            <text x="\(x)" y="\(axis + 18)" text-anchor="\(anchor)">\(tick.text)</text>
            """
    }

    private func marker(_ marker: Marker) -> HTML {
        let x = percent(place(marker.x))
        return "<line class=\"\(marker.style)\" x1=\"\(x)\" x2=\"\(x)\" y1=\"\(top - 10)\" y2=\"\(axis + 4)\"/>"
    }

    // MARK: Lines

    /// The points of a line in the drawn part of the axis, in runs without gaps.
    private func runs(_ line: Series) -> [[(x: Double, value: Double)]] {
        var runs: [[(x: Double, value: Double)]] = []
        var isInRun = false
        for (x, value) in line.points {
            guard let value, range.lowerBound <= x, x <= range.upperBound else {
                isInRun = false
                continue
            }
            if isInRun { runs[runs.count - 1].append((x, value)) } else { runs.append([(x, value)]) }
            isInRun = true
        }
        return runs
    }

    private func path(_ line: Series) -> HTML {
        let paths = runs(line).filter { $0.count > 1 }.map { run in
            "M"
                + run.map { x, value in
                    "\(number(place(x) * 1_000).text) \(number(y(value) - Double(top)).text)"
                }.joined(separator: "L")
        }
        return HTML(stringLiteral: paths.joined())
    }

    /// Circles for points without neighbours, which no line shows, and for the latest point.
    private func dots(_ line: Series, number: Int) -> HTML {
        guard line.form == .line else { return "" }
        let runs = runs(line)
        var points = runs.filter { $0.count == 1 }.map { $0[0] }
        if let last = runs.last, last.count > 1 { points += last.suffix(1) }
        return HTML(
            points.map { x, value in
                let over: HTML = limit.map { value > $0 } ?? false ? " over" : ""
                return """
                    <circle class="dot s\(number)\(over)" cx="\(percent(place(x)))" cy="\(self.number(y(value)))" r="3"/>
                    """
            })
    }

    // MARK: Values under the pointer

    /// Most parts of the width that show their values.
    private static let mostSamples = (lines: 60, areas: 200)

    /// Invisible parts of the height, each with the highest values of its points, which the style shows under the
    /// pointer. Neither a script nor a wait is needed, as for a title.
    private var samples: HTML {
        guard let position else { return "" }
        let areLines = series.allSatisfy { $0.form == .line }
        let places = Set(
            series.flatMap { $0.points.filter { !areLines || $0.value != nil }.map(\.x) }.filter {
                range.lowerBound <= $0 && $0 <= range.upperBound
            }
        ).sorted()
        let most = areLines ? Self.mostSamples.lines : Self.mostSamples.areas
        let size = max(1, (places.count + most - 1) / most)
        var rest = series.map { $0.points[...] }
        let parts = stride(from: 0, to: places.count, by: size).map { start -> HTML in
            let end = min(places.count, start + size)
            let (first, last) = (places[start], places[end - 1])
            let next = end < places.count ? places[end] : range.upperBound
            let from = !areLines ? first : start == 0 ? range.lowerBound : (places[start - 1] + first) / 2
            let to = areLines && end < places.count ? (last + next) / 2 : next
            let values = rest.indices.map { index -> Double? in
                rest[index] = rest[index].drop { $0.x < first }
                return rest[index].prefix { $0.x <= last }.compactMap(\.value).max()
            }
            return sample(values, from: place(from), to: place(to), at: position(first))
        }
        return "<svg class=\"samples\" height=\"\(axis)\" aria-hidden=\"true\">\(HTML(parts))</svg>"
    }

    private func sample(_ values: [Double?], from: Double, to: Double, at position: String) -> HTML {
        let format = format ?? { Self.short($0, divisor: 10) }
        let texts = zip(series, values).compactMap { line, value in
            value.map { "\(line.name) \(withUnit(format($0)))" }
        }
        guard !texts.isEmpty else { return "" }
        return """
            <g><rect x="\(percent(from))" width="\(percent(max(0.001, to - from)))" y="\(top)" height="\(axis - top)"/>\
            <text x="100%" y="11">\(position)<tspan x="100%" dy="14">\(texts.joined(separator: ", "))</tspan></text></g>
            """
    }

    private func withUnit(_ text: String) -> String { unit.isEmpty ? text : "\(text) \(unit)" }

    // MARK: Places

    private func rectangle(_ name: HTML, from start: Double, to end: Double, y: Double, height: Double) -> HTML {
        """
        <rect class="\(name)" x="\(percent(start))" width="\(percent(end - start))" y="\(number(y))" \
        height="\(number(height))"/>
        """
    }

    private func horizontal(_ name: HTML, at value: Double) -> HTML {
        "<line class=\"\(name)\" x1=\"0\" x2=\"100%\" y1=\"\(number(y(value)))\" y2=\"\(number(y(value)))\"/>"
    }

    /// Share of the width to the left of a position.
    private func place(_ x: Double) -> Double {
        min(1, max(0, (x - range.lowerBound) / (range.upperBound - range.lowerBound)))
    }

    private func y(_ value: Double) -> Double { Double(bottom) - scale.place(value) * Double(height) }

    private func percent(_ share: Double) -> HTML { "\(raw: Self.short(share * 100, divisor: 1_000))%" }

    private func number(_ value: Double) -> HTML { "\(raw: Self.short(value, divisor: 10))" }

    /// A number with as many decimals as it needs, at most those of the divisor.
    private static func short(_ value: Double, divisor: Double) -> String {
        let rounded = (value * divisor).rounded() / divisor
        return rounded == rounded.rounded() ? "\(Int(rounded))" : "\(rounded)"
    }

    // MARK: Terminal

    private static let eighths = Array(" ▁▂▃▄▅▆▇█")

    /// Lines of text: the highest value of the first series in each column, and the ticks below.
    package func text(columns: Int, rows: Int) -> [String] {
        let points = series.first?.points ?? []
        let width = (range.upperBound - range.lowerBound) / Double(columns)
        let heights = (0..<columns).map { column -> Double in
            let (from, to) = (
                range.lowerBound + Double(column) * width, range.lowerBound + Double(column + 1) * width
            )
            let values = points.indices.filter { index in
                points[index].x < to && (index + 1 == points.count || points[index + 1].x > from)
            }.compactMap { points[$0].value }
            return max(0, values.max() ?? 0)
        }
        let top = format?(scale.high) ?? ""
        var lines = stride(from: rows, to: 0, by: -1).map { row -> String in
            let label = row == rows ? top : row == 1 ? format?(0) ?? "" : ""
            let bars = heights.map { height -> Character in
                let level = Int((scale.place(height) * Double(rows * 8)).rounded(.up)) - (row - 1) * 8
                return Self.eighths[min(8, max(0, level))]
            }
            return String(repeating: " ", count: top.count - label.count) + label + " │" + Self.trimmed(bars)
        }
        var axis = [Character](repeating: " ", count: columns)
        for (x, text) in ticks {
            let start = min(Int((place(x) * Double(columns)).rounded()), max(0, columns - text.count))
            for (offset, character) in text.enumerated() where start + offset < columns {
                axis[start + offset] = character
            }
        }
        lines.append(String(repeating: " ", count: top.count) + " └" + Self.trimmed(axis))
        return lines
    }

    private static func trimmed(_ line: [Character]) -> String {
        String(line.prefix((line.lastIndex { $0 != " " } ?? -1) + 1))
    }

    /// A horizontal bar for a number's share of the columns, in eighths of a column; at least one eighth unless the
    /// number is 0.
    package static func bar(_ number: Int, of most: Int, columns: Int) -> String {
        guard number > 0, most > 0 else { return "" }
        let eighths = max(1, Int((Double(number) / Double(most) * Double(columns * 8)).rounded()))
        let parts = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"]
        return String(repeating: "█", count: eighths / 8) + parts[eighths % 8]
    }
}

/// Scale of an axis: the positions of values, and the labelled values.
package struct ChartScale: Sendable, Equatable {
    package let low: Double
    package let high: Double
    package let isLogarithmic: Bool
    /// Whether only whole numbers are labelled.
    package let isWhole: Bool

    private init(low: Double, high: Double, isLogarithmic: Bool, isWhole: Bool = false) {
        (self.low, self.high, self.isLogarithmic, self.isWhole) = (low, high, isLogarithmic, isWhole)
    }

    /// From 0 to a value.
    package static func linear(endingAt high: Double, isWhole: Bool = false) -> ChartScale {
        ChartScale(low: 0, high: high, isLogarithmic: false, isWhole: isWhole)
    }

    /// From 0 to a round number over the largest value.
    ///
    /// - Parameter isWhole: whether values are numbers of things.
    package static func linear(upTo largest: Double, isWhole: Bool = false) -> ChartScale {
        let largest = max(largest, isWhole ? 1 : 1e-9)
        let step = step(for: largest, isWhole)
        return linear(endingAt: (largest / step).rounded(.up) * step, isWhole: isWhole)
    }

    /// Whole powers of ten around the values, which are over 0.
    package static func logarithmic(from least: Double, upTo largest: Double) -> ChartScale {
        let low = pow(10, log10(max(least, 1e-6)).rounded(.down))
        let high = pow(10, log10(max(largest, 1e-6)).rounded(.up))
        return ChartScale(low: low, high: high > low ? high : low * 10, isLogarithmic: true)
    }

    /// 0 at the low end, 1 at the high one.
    package func place(_ value: Double) -> Double {
        let share =
            isLogarithmic
            ? (log10(max(value, low)) - log10(low)) / (log10(high) - log10(low)) : (value - low) / (high - low)
        return min(max(share, 0), 1)
    }

    package var ticks: [Double] {
        if isLogarithmic {
            let powers = Int(log10(low).rounded())...Int(log10(high).rounded())
            // At most six of them.
            let stride = (powers.count + 5) / 6
            return powers.enumerated().filter { $0.offset % stride == 0 }.map { pow(10, Double($0.element)) }
        }
        let step = Self.step(for: high - low, isWhole)
        let count = Int((high - low) / step + 0.001)
        return (0...max(count, 1)).map { low + Double($0) * step }
    }

    /// Distance of labels.
    private static func step(for length: Double, _ isWhole: Bool) -> Double {
        max(roundStep(length / 4), isWhole ? 1 : 0)
    }

    /// 1, 2 or 5 times a power of ten, at least `least`.
    private static func roundStep(_ least: Double) -> Double {
        let power = pow(10, log10(least).rounded(.down))
        return [1, 2, 5, 10].map { $0 * power }.first { $0 >= least * 0.999_999 } ?? power * 10
    }
}
