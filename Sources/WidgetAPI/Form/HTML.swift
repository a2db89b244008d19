/// HTML text that escapes interpolated strings.
struct HTML: ExpressibleByStringInterpolation, Sendable {
    private(set) var text: String

    init(stringLiteral text: String) { self.text = text }

    init(stringInterpolation: Interpolation) { text = stringInterpolation.text }

    init(_ parts: [HTML]) { text = parts.map(\.text).joined() }

    static func += (left: inout HTML, right: HTML) { left.text += right.text }

    struct Interpolation: StringInterpolationProtocol {
        fileprivate var text = ""

        init(literalCapacity: Int, interpolationCount: Int) { text.reserveCapacity(literalCapacity) }

        mutating func appendLiteral(_ literal: String) { text += literal }

        mutating func appendInterpolation(_ html: HTML) { text += html.text }

        /// Appends HTML, a script or a style as it is.
        mutating func appendInterpolation(raw: String) { text += raw }

        mutating func appendInterpolation(_ number: Int) { text += String(number) }

        mutating func appendInterpolation(_ string: String) {
            for scalar in string.unicodeScalars {
                switch scalar {
                case "&": text += "&amp;"
                case "<": text += "&lt;"
                case ">": text += "&gt;"
                case "\"": text += "&quot;"
                case "'": text += "&#39;"
                default: text.unicodeScalars.append(scalar)
                }
            }
        }
    }
}
