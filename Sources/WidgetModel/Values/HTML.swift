// SPDX-License-Identifier: Apache-2.0

/// HTML text that escapes interpolated strings.
package struct HTML: ExpressibleByStringInterpolation, Sendable {
    package private(set) var text: String

    package init(stringLiteral text: String) { self.text = text }

    package init(stringInterpolation: Interpolation) { text = stringInterpolation.text }

    package init(_ parts: [HTML]) { text = parts.map(\.text).joined() }

    package static func += (left: inout HTML, right: HTML) { left.text += right.text }

    /// The text with the characters escaped that mean something in HTML and XML, in text and in quoted attributes.
    package static func escaped(_ string: String) -> String {
        var text = ""
        text.reserveCapacity(string.utf8.count)
        // By scalars: a combining character after a quote is the same `Character` as the quote, and escapes nothing.
        for scalar in string.unicodeScalars {
            switch scalar {
            case "&": text += "&amp;"
            case "<": text += "&lt;"
            case ">": text += "&gt;"
            case "\"": text += "&quot;"
            case "'": text += "&#39;"
            // Neither HTML nor XML can express other control characters.
            case let scalar where scalar.value < 0x20 && !"\n\r\t".unicodeScalars.contains(scalar): text += "\u{FFFD}"
            default: text.unicodeScalars.append(scalar)
            }
        }
        return text
    }

    package struct Interpolation: StringInterpolationProtocol {
        fileprivate var text = ""

        package init(literalCapacity: Int, interpolationCount: Int) { text.reserveCapacity(literalCapacity) }

        package mutating func appendLiteral(_ literal: String) { text += literal }

        package mutating func appendInterpolation(_ html: HTML) { text += html.text }

        /// Appends HTML, a script or a style as it is.
        package mutating func appendInterpolation(raw: String) { text += raw }

        package mutating func appendInterpolation(_ number: Int) { text += String(number) }

        package mutating func appendInterpolation(_ string: String) { text += HTML.escaped(string) }
    }
}
