// SPDX-License-Identifier: Apache-2.0

package import Waiting
package import WidgetModel

/// Configuration of the delivery of one process.
package struct DeliveryConfiguration: Sendable {
    package var policy = DeliveryPolicy()
    /// Open the tokens of registered devices; nil: no device can be notified by APNs.
    package var tokenKeys: DeviceTokenKeys?
    /// Keys of apps at Apple's push notification service, by app.
    package var apnsKeys: [String: APNsKey] = [:]
    /// Base URLs of Apple's push notification service.
    package var apnsURLs: [APNsAddress.Environment: String] = [
        .production: "https://api.push.apple.com", .sandbox: "https://api.sandbox.push.apple.com",
    ]
    /// URLs of webhooks, by app.
    package var webhooks: [String: String] = [:]
    /// Most devices that are being notified at once.
    package var concurrency = 2_000
    /// Longest wait for the head of an answer to a push or a webhook's request, and longest silence in its body.
    package var timeout = Duration.seconds(10)
    /// Time for which a list is left to this process.
    package var lease = Duration.seconds(60)
    /// Interval of polls for changes and due lists; jittered by a fifth.
    package var pollInterval = Duration.milliseconds(100)
    /// Most widgets of a change that one statement marks.
    package var chunk = 2_000
    /// Number of waiting lists of an app from which on the devices of its shared timelines are not marked: 20,000
    /// devices.
    package var backlog = 40
    /// Most devices in one request of a webhook.
    package var webhookBatch = 100
    /// Time after which a webhook that fails is disabled.
    package var webhookPatience = Duration.seconds(3 * 86_400)
    /// Rests of a topic or a webhook that fails.
    package var restBackoff = Backoff(base: .seconds(1), cap: .seconds(300))
    /// Delays between attempts of a database statement.
    package var databaseBackoff = Backoff(base: .milliseconds(50), cap: .seconds(2))

    package init() {}
}
