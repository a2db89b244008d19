// SPDX-License-Identifier: Apache-2.0

package import AsyncHTTPClient
import JSON
import NIOCore
import NIOHTTP1
import ReloadWorkers
package import WidgetModel

/// A push that reloads an app's widgets on a device.
package struct APNsPush: Sendable {
    package let app: String
    package let address: APNsAddress
    /// Whether a person waits for the change.
    package let isUrgent: Bool

    package init(app: String, address: APNsAddress, isUrgent: Bool) {
        self.app = app
        self.address = address
        self.isUrgent = isUrgent
    }
}

/// Sends pushes of the type `widgets` (rules, G). They cannot name a kind, so a newer one replaces an older one that
/// the device has not received.
package struct APNsClient: Sendable {
    /// Error of a push that was not answered.
    package struct Unanswered: Error, Sendable, CustomStringConvertible {
        package let description: String
    }

    static let body = #"{"aps":{"content-changed":true}}"#
    static let collapseID = "freshet-widgets"
    /// Time for which the service keeps a push for a device that is off.
    static let expiration = Duration.seconds(86_400)
    private static let maximumAnswerBytes = 4_096
    /// Longest id of a push that is kept. Apple's are UUIDs.
    private static let longestID = 64

    private let accounts: APNsAccounts
    private let urls: [APNsAddress.Environment: String]
    private let timeout: Duration

    package init(accounts: APNsAccounts, urls: [APNsAddress.Environment: String], timeout: Duration) {
        self.accounts = accounts
        self.urls = urls
        self.timeout = timeout
    }

    /// Whether the environments have servers of their own, so that a token can be tried in the other one.
    package var hasSeparateEnvironments: Bool { urls[.production] != urls[.sandbox] }

    /// Sends a push; again, with a new provider token, if that was too old.
    ///
    /// - Throws: ``Unanswered``, ``ProviderToken/Unusable``, `CancellationError`.
    package func send(_ push: APNsPush) async throws -> APNsAnswer {
        guard let account = accounts[push.app] else {
            throw ProviderToken.Unusable(
                description: "delivery.apnsKeys has no key of app \(Text.quoted(push.app))")
        }
        let token = try await account.token.text()
        let answer = try await exchange(push, token, account.http)
        guard answer.effect == .renew else { return answer }
        let renewed = try await account.token.text(replacing: token)
        return Text.equal(renewed, token) ? answer : try await exchange(push, renewed, account.http)
    }

    /// Returns the request that sends a push with a provider token.
    package func request(_ push: APNsPush, _ token: String) -> HTTPClientRequest {
        let base = urls[push.address.environment] ?? ""
        var request = HTTPClientRequest(url: "\(base)/3/device/\(String(hexadecimal: push.address.token))")
        request.method = .POST
        request.headers = HTTPHeaders([
            ("authorization", "bearer \(token)"), ("apns-push-type", "widgets"), ("apns-topic", push.address.topic),
            ("apns-priority", push.isUrgent ? "10" : "5"), ("apns-collapse-id", Self.collapseID),
            ("apns-expiration", "\((Timestamp.now() + Self.expiration).microseconds / 1_000_000)"),
        ])
        request.body = .bytes(ByteBuffer(string: Self.body))
        return request
    }

    private func exchange(_ push: APNsPush, _ token: String, _ http: HTTPClient) async throws -> APNsAnswer {
        do {
            // To its end in any case: a response that is dropped before resets its stream.
            let (response, body) = try await http.exchange(
                request(push, token), timeout: timeout, upTo: Self.maximumAnswerBytes)
            return answer(response, Array(body.readableBytesView))
        } catch {
            try Task.checkCancellation()
            // The URL, which holds the device's token, is not part of these errors.
            throw Unanswered(description: "\(error)")
        }
    }

    private func answer(_ response: HTTPClientResponse, _ body: [UInt8]) -> APNsAnswer {
        var reason = ""
        var since: Timestamp?
        if !body.isEmpty, let json = try? JSONValue.parse(body) {
            if case .string(let text)? = json["reason"] { reason = String(text.prefix(64)) }
            if case .number(let number)? = json["timestamp"], let milliseconds = Int64(number.text) {
                since = Timestamp(milliseconds: milliseconds)
            }
        }
        return APNsAnswer(
            status: Int(response.status.code), reason: reason, since: since,
            retryAfter: ProviderClient.retryAfter(response.headers, now: Timestamp.now()),
            apnsID: response.headers.first(name: "apns-id").map { String($0.prefix(Self.longestID)) })
    }
}
