/// Names, labels and numbers in Prometheus' text format (version 0.0.4).
package enum PrometheusText {
    package static let contentType = "text/plain; version=0.0.4; charset=utf-8"

    /// Labels as `{name="value",…}`, sorted by name; empty without labels.
    static func labels(_ pairs: some Sequence<(String, String)>) -> String {
        let pairs = pairs.sorted { $0.0 < $1.0 }.map { "\($0)=\"\(escaped($1))\"" }
        return pairs.isEmpty ? "" : "{\(pairs.joined(separator: ","))}"
    }

    /// Labels with one more at their end.
    static func adding(_ name: String, _ value: String, to labels: String) -> String {
        labels.isEmpty ? "{\(name)=\"\(value)\"}" : "\(labels.dropLast()),\(name)=\"\(value)\"}"
    }

    /// The escaped value of a label, or, with its quotes kept, a help text.
    static func escaped(_ text: String, alsoQuotes: Bool = true) -> String {
        var result = ""
        // By scalars, since CR and LF form one character.
        for scalar in text.unicodeScalars {
            switch scalar {
            case "\\": result += "\\\\"
            case "\n": result += "\\n"
            case "\"" where alsoQuotes: result += "\\\""
            default: result.unicodeScalars.append(scalar)
            }
        }
        return result
    }

    /// The name with characters that Prometheus does not allow replaced.
    static func metricName(_ text: String) -> String { name(text, alsoAllowing: UInt8(ascii: ":")) }

    static func labelName(_ text: String) -> String { name(text, alsoAllowing: UInt8(ascii: "_")) }

    private static func name(_ text: String, alsoAllowing extra: UInt8) -> String {
        var bytes = text.utf8.map { byte -> UInt8 in
            switch byte {
            case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "_"), extra:
                byte
            default: UInt8(ascii: "_")
            }
        }
        if bytes.first.map({ (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }) ?? true {
            bytes.insert(UInt8(ascii: "_"), at: 0)
        }
        return String(decoding: bytes, as: UTF8.self)
    }

    package static func number(_ value: Double) -> String {
        if value.isNaN { return "NaN" }
        if value.isInfinite { return value < 0 ? "-Inf" : "+Inf" }
        if value == value.rounded(), abs(value) < 1e15 { return "\(Int64(value))" }
        return "\(value)"
    }
}
