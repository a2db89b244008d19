// SPDX-License-Identifier: Apache-2.0

import JSON

/// Operator of an action, and the reason given for it.
package struct OperatorNote: Hashable, Sendable {
    /// Longest reason, in Unicode scalars; browsers count UTF-16 code units, which are at least as many.
    package static let maximumReasonLength = 200
    /// Longest name of an operator, in Unicode scalars.
    private static let maximumNameLength = 256

    package let operatorName: String
    /// Nil: none was given.
    package let reason: String?

    /// - Parameters:
    ///   - operatorName: name as it is known to the caller; control characters are replaced.
    ///   - reason: text without a ``reasonProblem(_:)``; an empty one is none.
    package init(by operatorName: String, reason: String? = nil) {
        self.operatorName = Text.printable(operatorName, maximum: Self.maximumNameLength)
        self.reason = reason.flatMap { $0.isEmpty ? nil : $0 }
    }

    /// What is wrong with a reason; nil for a valid one.
    package static func reasonProblem(_ text: String) -> String? {
        let length = text.unicodeScalars.count
        if length > maximumReasonLength { return "must be at most \(maximumReasonLength) characters, is \(length)" }
        return Text.containsControlCharacter(text) ? "must not contain line breaks or control characters" : nil
    }
}

/// Action of an operator that has an effect on reloads, such as a pause.
package struct OperatorAction: Hashable, Sendable {
    package let at: Timestamp
    /// Nil for an action of an earlier version, which did not record it.
    package let note: OperatorNote?

    package init(at: Timestamp, note: OperatorNote?) {
        (self.at, self.note) = (at, note)
    }

    /// Operator, time and reason, as the end of a sentence.
    package var words: String { "by \(operatorName) since \(at.wholeSeconds)\(reasonWords)" }

    /// Name of the operator, as the end of "paused by".
    package var operatorName: String { note?.operatorName ?? "an operator" }

    /// The reason as the end of a sentence; empty without one.
    package var reasonWords: String {
        note?.reason.map { "; reason: \(Text.quoted($0, maximum: OperatorNote.maximumReasonLength))" } ?? ""
    }
}
