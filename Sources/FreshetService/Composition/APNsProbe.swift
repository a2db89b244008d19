import AsyncHTTPClient
import JSON
import WidgetDelivery
package import WidgetModel

/// Checks an app's key and topic with Apple's push service, by a push to a token that no device has.
package struct APNsProbe: Sendable {
    /// Result of a probe.
    package enum Result: Hashable, Sendable {
        case works
        /// The key or the topic is not accepted, for this reason.
        case refused(String)
        /// The provider token counts as expired, because this machine's clock is wrong.
        case wrongClock
        /// The service does not answer, or cannot be asked.
        case unanswered(String)
    }

    private static let unknownToken: [UInt8] = Array(repeating: 0, count: 32)

    private let configuration: DeliveryConfiguration
    private let client: HTTPClient.Configuration

    /// - Throws: ``CommandFailure`` when the keys or authorities of the settings cannot be read.
    package init(_ settings: Settings) throws(CommandFailure) {
        configuration = try settings.deliveryConfiguration()
        client = APNsAccounts.configuration(trusting: try settings.apnsLimits())
    }

    package func ask(app: String, topic: String, _ environment: APNsAddress.Environment) async -> Result {
        let accounts = APNsAccounts(
            keys: configuration.apnsKeys.filter { Text.equal($0.key, app) }, configuration: client)
        let apns = APNsClient(accounts: accounts, urls: configuration.apnsURLs, timeout: configuration.timeout)
        let address = APNsAddress(token: Self.unknownToken, environment: environment, topic: topic)
        let result: Result
        do {
            result = Self.result(of: try await apns.send(APNsPush(app: app, address: address, isUrgent: false)))
        } catch {
            result = .unanswered("\(error)")
        }
        await accounts.shutdown()
        return result
    }

    /// The service checks the key and the topic before the token, which is unknown to it.
    private static func result(of answer: APNsAnswer) -> Result {
        switch answer.effect {
        case .accepted, .forget, .badToken, .wrongDevice: .works
        case .renew: .wrongClock
        case .wrongKey: .refused(answer.reason)
        case .slowDevice, .slowTopic, .broken: .unanswered("status \(answer.status) \(answer.reason)")
        }
    }
}
