import WidgetModel

/// What a check of `freshet doctor` has found.
struct Finding: Hashable, Sendable {
    enum Severity: String, Comparable, Sendable {
        case ok
        /// It could not be checked, or there is nothing to check.
        case skipped
        /// It works, but not as it should in production.
        case warning
        /// It does not work, or will not.
        case problem

        private var rank: Int {
            switch self {
            case .ok: 0
            case .skipped: 1
            case .warning: 2
            case .problem: 3
            }
        }

        static func < (left: Self, right: Self) -> Bool { left.rank < right.rank }
    }

    /// `kafka.topics`
    let check: String
    let severity: Severity
    let message: String
    /// What to do; nil when there is nothing to do.
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
            "advice": advice.map { .string($0) } ?? .null,
        ]
    }

    /// One line, and one more for what to do.
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
