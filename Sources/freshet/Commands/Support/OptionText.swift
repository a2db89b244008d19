import ArgumentParser
import WidgetModel
import WidgetStore

/// Conversions of options' values.
enum OptionText {
    @Sendable static func cause(_ text: String) throws -> DeadLetterCause {
        guard let cause = DeadLetterCause(rawValue: text) else {
            throw ValidationError(
                "--cause \(text): expected one of " + DeadLetterCause.allCases.map(\.rawValue).joined(separator: ", "))
        }
        return cause
    }

    @Sendable static func time(_ text: String) throws -> Timestamp {
        guard let time = Timestamp(rfc3339: text) else {
            throw ValidationError("\(Text.quoted(text)): expected an RFC 3339 time such as 2026-01-31T08:00:00Z")
        }
        return time
    }

    /// A number of a range.
    static func number<Number: LosslessStringConvertible & Comparable & Sendable>(
        _ range: ClosedRange<Number>
    ) -> @Sendable (String) throws -> Number {
        { text in
            guard let number = Number(text), range.contains(number) else {
                throw ValidationError("expected \(range.lowerBound) to \(range.upperBound)")
            }
            return number
        }
    }

    @Sendable static func identifier(_ text: String) throws -> String {
        if let problem = Text.identifierProblem(text) { throw ValidationError(problem) }
        return text
    }

    @Sendable static func duration(_ text: String) throws -> Duration {
        guard let duration = DurationText.parse(text) else {
            throw ValidationError("\(Text.quoted(text)): expected \(DurationText.form)")
        }
        return duration
    }
}
