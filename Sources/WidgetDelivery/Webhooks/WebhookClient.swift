// SPDX-License-Identifier: Apache-2.0

import AsyncHTTPClient
import JSON
import NIOCore
import NIOHTTP1
import ReloadWorkers
import WidgetModel
import WidgetStore

/// Sends an app's backend the widgets that have changed on its devices, signed by Standard Webhooks with the app's
/// secrets.
struct WebhookClient: Sendable {
    /// Devices of one request, with their widgets.
    typealias Delivery = (device: DueDevice, widgets: [DeliveredWidget])

    /// Answer of a backend.
    struct Answer: Sendable {
        /// HTTP status; 0: there was none.
        let status: Int
        let problem: String?
        let retryAfter: Duration?

        var isAccepted: Bool { problem == nil }

        /// Whether the backend wants no further requests, as Standard Webhooks specify it.
        var isGone: Bool { status == 410 }
    }

    private static let maximumAnswerBytes = 65_536

    /// Made with `ProviderClient.configuration(egress:)` of the same guard.
    let http: HTTPClient
    let egress: EgressGuard
    let timeout: Duration

    /// Sends the changes of some devices of an app.
    ///
    /// - Throws: `CancellationError`.
    func send(_ deliveries: [Delivery], to url: String, of app: RegisteredApp) async throws -> Answer {
        let body = Self.body(deliveries, app: app.name)
        let timestamp = Timestamp.now().microseconds / 1_000_000
        let id = Self.id(of: deliveries, body: body)
        do {
            try await egress.permit(try ProviderURL(url))
            var request = HTTPClientRequest(url: url)
            request.method = .POST
            request.headers = [
                "content-type": "application/json", "user-agent": "freshet", "webhook-id": id,
                "webhook-timestamp": "\(timestamp)",
                "webhook-signature": ProviderClient.signature(
                    secrets: app.signingSecrets, id: id, timestamp: timestamp, body: body),
            ]
            request.body = .bytes(body)
            let (response, _) = try await http.exchange(
                request, timeout: timeout, upTo: Self.maximumAnswerBytes)
            let status = Int(response.status.code)
            return Answer(
                status: status, problem: (200..<300).contains(status) ? nil : "answered with status \(status)",
                retryAfter: ProviderClient.retryAfter(response.headers, now: Timestamp.now()))
        } catch {
            try Task.checkCancellation()
            return Answer(status: 0, problem: "\(error)", retryAfter: nil)
        }
    }

    /// Value of `webhook-id`. It stays the same while the same changes of the same devices are sent again after a
    /// failure, so that the backend can leave out what it has already.
    static func id(of deliveries: [Delivery], body: [UInt8]) -> String {
        let changes = deliveries.map { "\($0.device.id)@\($0.device.changed)" }.joined(separator: " ")
        return "msg_\(ContentHash(of: body + Array(changes.utf8)))"
    }

    /// `{"app", "devices": [{"user", "device", "widgets": [{"widget", "kind", "timeline", "revision"}]}]}`.
    static func body(_ deliveries: [Delivery], app: String) -> [UInt8] {
        let devices = deliveries.map { delivery -> JSONValue in
            let widgets = delivery.widgets.map { widget -> JSONValue in
                [
                    "widget": .string(widget.widget), "kind": .string(widget.kind),
                    "timeline": .string(widget.timeline.description), "revision": .count(widget.revision),
                ]
            }
            return [
                "user": .string(delivery.device.user), "device": .string(delivery.device.device),
                "widgets": .array(widgets),
            ]
        }
        let json: JSONValue = ["app": .string(app), "devices": .array(devices)]
        return json.encoded
    }
}
