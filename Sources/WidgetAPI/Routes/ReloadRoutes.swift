import Hummingbird
import WidgetEvents
import WidgetModel
import WidgetStore

/// The route that requests reloads, which are published to Kafka like those of any producer.
struct ReloadRoutes: Sendable {
    let parts: APIParts

    var all: [APIRoute] {
        [APIRoute("requestReload", .post, "reloads", .own(.reload), handle: post)]
    }

    /// Event type of each reason.
    private static let types: [String: EventType] = [
        "push": .pushReceived, "foreground": .appChanged, "background": .appChanged, "operator": .reloadRequested,
    ]

    private func post(_ call: APICall) async throws -> Response {
        try call.allowQuery()
        var body = try await call.body("app", "audience", "kinds", "matching", "reason")
        let reason = body["reason"] ?? "push"
        body["reason"] = nil
        guard let name = reason.stringValue, let type = Self.types[name] else {
            throw Problem.unprocessable("/reason", "expected push, foreground, background or operator")
        }
        try EventBody.bind("app", to: call.app, in: &body)
        if type == .appChanged { body["state"] = .string(name) }
        let event = try EventDecoder().decode(data: JSONValue.object(body).encoded, of: type)
        let request: ReloadRequest
        switch event {
        case .push(let asked), .appChange(let asked), .operatorReload(let asked): request = asked
        default: throw Problem.internal
        }
        if type == .reloadRequested {
            guard call.principal.has(.operate) else { throw Problem.insufficientScope(.operate) }
            guard call.user == nil else {
                throw Problem.forbidden("a token of one user cannot request operator reloads")
            }
        }
        if let user = call.user {
            guard case .user(let asked) = request.audience, Text.equal(asked, user) else {
                throw Problem.forbidden("a token of one user requests reloads of this user only: audience {\"user\"}")
            }
        }
        if case .kinds(let names) = request.kinds {
            let asked = body["kinds"]?.arrayValue ?? []
            for name in names {
                let index = asked.firstIndex(of: .string(name)) ?? 0
                _ = try await KindCheck(parts: parts).kind(name, of: call.app, at: "/kinds/\(index)")
            }
        }
        return try await parts.outlet().publish(event, traceparent: call.traceparent).json.response(.accepted)
    }
}
