import WidgetModel

/// Result of a check; thrown by a check that ends with it.
struct Finding: Error, Hashable {
    enum Severity: String, CaseIterable, Comparable, Sendable {
        case ok
        /// Not checked, or nothing to check.
        case skipped
        /// Works, but not as it should in production.
        case warning
        /// Does not work, or will not.
        case problem

        static func < (left: Self, right: Self) -> Bool {
            // The cases ascend.
            (allCases.firstIndex(of: left) ?? 0) < (allCases.firstIndex(of: right) ?? 0)
        }
    }

    /// `kafka.topics`
    let check: String
    let severity: Severity
    let message: String
    let advice: String?

    static func ok(_ check: String, _ message: String) -> Finding {
        Finding(check: check, severity: .ok, message: message, advice: nil)
    }

    static func skipped(_ check: String, _ message: String, _ advice: String? = nil) -> Finding {
        Finding(check: check, severity: .skipped, message: message, advice: advice)
    }

    static func warning(_ check: String, _ message: String, _ advice: String) -> Finding {
        Finding(check: check, severity: .warning, message: message, advice: advice)
    }

    static func problem(_ check: String, _ message: String, _ advice: String) -> Finding {
        Finding(check: check, severity: .problem, message: message, advice: advice)
    }

    var json: JSONValue {
        [
            "check": .string(check), "severity": .string(severity.rawValue), "message": .string(message),
            "advice": .text(advice),
        ]
    }

    /// One line, and a second one for advice.
    var text: String {
        let mark =
            switch severity {
            case .ok: "ok      "
            case .skipped: "-       "
            case .warning: "warning "
            case .problem: "PROBLEM "
            }
        return "\(mark) \(check): \(message)" + (advice.map { "\n          → \($0)" } ?? "")
    }
}

extension [Finding] {
    mutating func ok(_ check: String, _ message: String) { append(.ok(check, message)) }

    mutating func skipped(_ check: String, _ message: String, _ advice: String? = nil) {
        append(.skipped(check, message, advice))
    }

    mutating func warning(_ check: String, _ message: String, _ advice: String) {
        append(.warning(check, message, advice))
    }

    mutating func problem(_ check: String, _ message: String, _ advice: String) {
        append(.problem(check, message, advice))
    }
}
