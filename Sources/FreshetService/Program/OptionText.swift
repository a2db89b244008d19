import ArgumentParser
import JSON
package import WidgetModel

/// Conversions of options' values.
package enum OptionText {
    @Sendable package static func time(_ text: String) throws -> Timestamp {
        guard let time = Timestamp(rfc3339: text) else {
            throw ValidationError("\(Text.quoted(text)): expected an RFC 3339 time such as 2026-01-31T08:00:00Z")
        }
        return time
    }

    /// A number of a range.
    package static func number<Number: LosslessStringConvertible & Comparable & Sendable>(
        _ range: ClosedRange<Number>
    ) -> @Sendable (String) throws -> Number {
        { text in
            guard let number = Number(text), range.contains(number) else {
                throw ValidationError("expected \(range.lowerBound) to \(range.upperBound)")
            }
            return number
        }
    }

    @Sendable package static func identifier(_ text: String) throws -> String {
        if let problem = Text.identifierProblem(text) { throw ValidationError(problem) }
        return text
    }

    @Sendable package static func family(_ text: String) throws -> WidgetFamily {
        guard let family = WidgetFamily(name: text) else {
            throw ValidationError("expected one of " + WidgetFamily.allCases.map(\.name).joined(separator: ", "))
        }
        return family
    }

    @Sendable package static func configuration(_ text: String) throws -> WidgetConfiguration {
        do throws(ModelError) {
            return try WidgetConfiguration(json: Array(text.utf8))
        } catch {
            throw ValidationError("\(error.pointer): \(error.message); expected a flat JSON object")
        }
    }

    @Sendable package static func duration(_ text: String) throws -> Duration {
        guard let duration = DurationText.parse(text) else {
            throw ValidationError("\(Text.quoted(text)): expected \(DurationText.form)")
        }
        return duration
    }
}
