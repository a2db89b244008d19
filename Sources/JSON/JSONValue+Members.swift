extension JSONValue {
    package static func text(_ text: String?) -> JSONValue { text.map { .string($0) } ?? .null }

    package static func count(_ number: (some BinaryInteger)?) -> JSONValue {
        number.map { .number(JSONNumber(Int($0))) } ?? .null
    }

    package static func texts(_ texts: some Sequence<String>) -> JSONValue { .array(texts.map { .string($0) }) }

    /// A number; null for nil and for a number that is not finite.
    package static func decimal(_ value: Double?) -> JSONValue {
        value.flatMap { JSONNumber($0) }.map { .number($0) } ?? .null
    }

    /// A number rounded to three decimals, or null.
    package static func rounded(_ value: Double?) -> JSONValue { decimal(value.map { ($0 * 1_000).rounded() / 1_000 }) }

    /// The object with another member.
    package func adding(_ name: String, _ value: JSONValue) -> JSONValue {
        guard case .object(var object) = self else { return self }
        object[name] = value
        return .object(object)
    }
}
