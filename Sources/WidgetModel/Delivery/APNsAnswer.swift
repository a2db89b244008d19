// SPDX-License-Identifier: Apache-2.0

package import Waiting

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
    /// The service's id of the push (`apns-id`).
    package let apnsID: String?

    package init(
        status: Int, reason: String = "", since: Timestamp? = nil, retryAfter: Duration? = nil, apnsID: String? = nil
    ) {
        self.status = status
        self.reason = reason
        self.since = since
        self.retryAfter = retryAfter
        self.apnsID = apnsID
    }

    /// Effect of an answer.
    package enum Effect: String, CaseIterable, Hashable, Sendable {
        case accepted
        /// The token is dead.
        case forget
        /// The server does not know the token: it is dead, or belongs to the other environment, or the topic is wrong.
        case badToken
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
        case (410, _): .forget
        case (400, Self.badDeviceToken): .badToken
        case (403, "ExpiredProviderToken"): .renew
        case (400, "DeviceTokenNotForTopic"): .wrongDevice
        case (403, _), (400, "BadTopic"), (400, "MissingTopic"), (400, "TopicDisallowed"): .wrongKey
        case (429, "TooManyRequests"): .slowDevice
        case (429, _), (500..., _), (400, "IdleTimeout"): .slowTopic
        default: .broken
        }
    }

    /// Apple's name of the error of an unknown token.
    package static let badDeviceToken = "BadDeviceToken"
    /// Rest after an error that only an operator can fix.
    package static let operatorsRest = Duration.seconds(300)

    package var verdict: DeliveryVerdict {
        switch effect {
        case .accepted: .accepted
        case .forget: .forget(since: since)
        // The push was sent again with a new provider token, and refused again.
        case .renew, .slowTopic: .rest(after: retryAfter)
        case .slowDevice: .retry(after: retryAfter)
        case .badToken, .wrongDevice, .broken: .retry(after: Self.operatorsRest)
        case .wrongKey: .rest(after: Self.operatorsRest)
        }
    }
}

/// Limits of the pushes to one device.
package struct DeliveryPolicy: Hashable, Sendable {
    /// Time for which further changes of a device's widgets are gathered, and least time between any two pushes.
    package var window = Duration.seconds(2)
    /// Least time between two pushes to a device. Changes that a person waits for are exempt, as from the budget.
    package var minimumSpacing = Duration.seconds(15)
    /// Pushes to a device in any 24 hours.
    package var dailyBudget = 240
    /// Delays between attempts for a device that could not be notified.
    package var backoff = Backoff(base: .seconds(2), cap: .seconds(3_600))

    package init() {}

    /// Records a push, and returns the earliest time of the next one that is not exempt.
    package func nextPush(after time: Timestamp, spending ledger: inout BudgetLedger) -> Timestamp {
        ledger.spend(of: dailyBudget, at: time)
        return ledger.available(of: dailyBudget, from: time + minimumSpacing)
    }
}

/// Verdict of an attempt to notify a device.
package enum DeliveryVerdict: Hashable, Sendable {
    /// The channel has taken the push.
    case accepted
    /// The device has fetched the changes already, so that nothing is sent.
    case fetchedAlready
    /// The device is tried again, after its own back-off or the delay that the channel asked for.
    case retry(after: Duration?)
    /// The channel takes nothing at present: everything that goes the same way waits.
    case rest(after: Duration?)
    /// The token is dead: it is forgotten, unless the device was registered later than this.
    case forget(since: Timestamp?)
}
