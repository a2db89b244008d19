import WidgetModel

/// Answer to a push, which may have been tried in both environments of Apple's service.
struct PushResult: Sendable {
    let answer: APNsAnswer
    /// Reason that is stored; nil: there is none. It is ``APNsAnswer/badDeviceToken`` only if no environment that could
    /// be asked knows the token.
    let reason: String?
    /// Environment that has taken the token in place of the assumed one.
    let environment: APNsAddress.Environment?

    private init(_ answer: APNsAnswer, reason: String?, environment: APNsAddress.Environment? = nil) {
        self.answer = answer
        self.reason = reason
        self.environment = environment
    }

    init(answer: APNsAnswer) {
        self.init(answer, reason: answer.reason.isEmpty ? nil : answer.reason)
    }

    /// - Parameter cause: reason why the other environment has not said whether it knows the token.
    init(answer: APNsAnswer, isUndecidedBecause cause: String) {
        self.init(answer, reason: "\(answer.reason); \(cause)")
    }

    /// Result of a push whose token the first environment does not know.
    init(answer: APNsAnswer, inOther second: APNsAnswer, _ other: APNsAddress.Environment) {
        switch second.effect {
        case .accepted:
            self.init(second, reason: nil, environment: other)
        // The token belongs to the other environment, where it is dead, or of another topic.
        case .forget, .wrongDevice: self.init(answer: second)
        // Unknown there, too, or the app's key is for the first environment only.
        case .badToken, .wrongKey: self.init(answer: answer)
        case .renew, .slowDevice, .slowTopic, .broken:
            self.init(
                answer: answer, isUndecidedBecause: "\(other.rawValue): status \(second.status) \(second.reason)")
        }
    }
}
