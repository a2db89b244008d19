extension SVGChart {
    /// A line over numbers of timelines.
    struct Curve: Sendable {
        var name: String
        var points: [(size: Double, value: Double)]

        /// Those that a logarithmic axis has a place for.
        fileprivate var drawn: [(size: Double, value: Double)] { points.filter { $0.size > 0 && $0.value > 0 } }
    }

    /// Values over numbers of timelines, both on logarithmic axes; nothing where there are none.
    ///
    /// - Parameter label: what is drawn, for those who cannot see it.
    static func curves(_ curves: [Curve], label: String) -> String {
        let points = curves.flatMap(\.drawn)
        let sizes = Set(points.map(\.size)).sorted()
        guard let least = sizes.first, let most = sizes.last else { return "" }
        let axis =
            least < most
            ? ChartScale(low: least, high: most, isLogarithmic: true)
            : ChartScale(low: least / 10, high: least * 10, isLogarithmic: true)
        let values = points.map(\.value)
        let scale = ChartScale.logarithmic(from: values.min() ?? 1, upTo: values.max() ?? 1)
        var svg = open(label) + grid(scale, Figure.short)
        for size in sizes {
            let place = axis.place(size)
            svg += text(Figure.short(size), x: x(place), y: bottom + 17, anchor: anchor(at: place))
        }
        for (index, curve) in curves.enumerated() {
            let places = curve.drawn.map { "\(number(x(axis.place($0.size)))),\(number(y(scale.place($0.value))))" }
            // A single point is a dot: a line of no length, with round ends.
            let drawn = places.count == 1 ? places + places : places
            svg += #"<polyline class="line c\#(index + 1)" points="\#(drawn.joined(separator: " "))"/>"#
        }
        return svg + "</svg>"
    }
}
