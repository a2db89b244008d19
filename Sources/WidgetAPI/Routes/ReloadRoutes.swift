import Hummingbird
import JSON
import WidgetEvents
import WidgetModel

/// The route that requests reloads. The requests are published to Kafka like those of any producer.
extension RouteDependencies {
    var reloadRoutes: [APIRoute] {
        [APIRoute("requestReload", .post, "reloads", .own(.reload), query: ["wait"], handle: post)]
    }

    /// Event type of each reason.
    private static let types: [String: EventType] = [
        "push": .pushReceived, "foreground": .appChanged, "background": .appChanged, "operator": .reloadRequested,
    ]

    private func post(_ call: APICall) async throws -> Response {
        var body = EventBody(try await call.body(), members: ["app", "audience", "kinds", "matching", "reason"])
        let reason = body["reason"] ?? "push"
        body["reason"] = nil
        let named = reason.stringValue.flatMap { Self.types[$0] }
        if named == nil { body.fail("reason", "expected push, foreground, background or operator") }
        let type = named ?? .pushReceived
        body.bind("app", to: call.app)
        if type == .appChanged { body["state"] = reason }
        let event = try body.event(of: type)
        let asked = body["kinds"]?.arrayValue ?? []
        return try await publish(event, for: call) { name in
            "/kinds/\(asked.firstIndex(of: .string(name)) ?? 0)"
        }
    }
}
