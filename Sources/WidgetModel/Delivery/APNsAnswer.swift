/// An answer of Apple's push notification service, with its effect in Freshet.
///
/// Source: Apple, "Handling notification responses from APNs".
package struct APNsAnswer: Hashable, Sendable {
    package let status: Int
    /// Apple's name of the error, such as `BadDeviceToken`; empty with status 200, and if there is none.
    package let reason: String
    /// With status 410: when the service found the token dead.
    package let since: Timestamp?
    package let retryAfter: Duration?

    package init(status: Int, reason: String = "", since: Timestamp? = nil, retryAfter: Duration? = nil) {
        self.status = status
        self.reason = reason
        self.since = since
        self.retryAfter = retryAfter
    }

    /// Effect of an answer.
    package enum Effect: CaseIterable, Hashable, Sendable {
        case accepted
        /// The token is dead.
        case forget
        /// The provider token is too old: it is renewed, and the push is sent again.
        case renew
        /// Too many pushes to this device.
        case slowDevice
        /// The service takes nothing for this topic at present.
        case slowTopic
        /// The registration of this device does not fit the app's key or topic: an operator's or the app's error.
        case wrongDevice
        /// The app's key or topic is not accepted, so that every push of the app fails: an operator's error.
        case wrongKey
        /// The service found the request broken: an error of Freshet.
        case broken
    }

    package var effect: Effect {
        switch (status, reason) {
        case (200, _): .accepted
        case (410, _), (400, "BadDeviceToken"): .forget
        case (403, "ExpiredProviderToken"): .renew
        case (400, "DeviceTokenNotForTopic"): .wrongDevice
        case (403, _), (400, "BadTopic"), (400, "MissingTopic"), (400, "TopicDisallowed"): .wrongKey
        case (429, "TooManyRequests"): .slowDevice
        case (429, _), (500..., _), (400, "IdleTimeout"): .slowTopic
        default: .broken
        }
    }

    /// Rest after an error that only an operator can fix.
    package static let operatorsRest = Duration.seconds(300)

    package var verdict: DeliveryVerdict {
        switch effect {
        case .accepted: .accepted
        case .forget: .forget(since: since)
        // The push was sent again with a new provider token, and refused again.
        case .renew, .slowTopic: .rest(after: retryAfter)
        case .slowDevice: .retry(after: retryAfter)
        case .wrongDevice, .broken: .retry(after: Self.operatorsRest)
        case .wrongKey: .rest(after: Self.operatorsRest)
        }
    }
}
