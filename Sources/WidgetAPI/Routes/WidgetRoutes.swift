import HTTPTypes
import Hummingbird
import JSON
import WidgetEvents
import WidgetModel
import WidgetRepresentation
import WidgetStore

/// Routes of widgets.
extension RouteDependencies {
    var widgetRoutes: [APIRoute] {
        [
            APIRoute(
                "listWidgets", .get, "widgets", .own(.widgetsRead),
                query: ["user", "device", "kind", "limit", "cursor"], handle: list),
            APIRoute("getWidget", .get, "widgets/{widget}", .own(.widgetsRead), handle: get),
            .change("placeWidget", .put, "widgets/{widget}", handle: place),
            .change("removeWidget", .delete, "widgets/{widget}", handle: remove),
            .change("viewWidget", .post, "widgets/{widget}/views", handle: view),
        ]
    }

    // MARK: Reading

    private func list(_ call: APICall) async throws -> Response {
        let limit = try call.integer("limit", in: 1...1_000, default: 100)
        let asked = try call.identifier("user")
        let filter = WidgetFilter(
            app: call.app, user: call.user ?? asked, device: try call.identifier("device"),
            kind: try call.identifier("kind"), after: try PageCursor.decode(call) ?? "")
        // A device must not learn whether another user exists.
        let isForeign = call.user.map { own in asked.map { !Text.equal(own, $0) } ?? false } ?? false
        let widgets = isForeign ? [] : try await store.query(.listWidgets(filter, limit: limit))
        let next = widgets.count == limit ? widgets.last.map { PageCursor.encode($0.id) } : nil
        return Response(["widgets": .array(widgets.map(\.json)), "next": .text(next)])
    }

    private func get(_ call: APICall) async throws -> Response {
        let filter = WidgetFilter(app: call.app, user: call.user, widget: try call.path("widget"))
        guard let widget = try await store.query(.listWidgets(filter, limit: 1)).first else {
            throw Problem.notFound
        }
        return Response(widget.json)
    }

    // MARK: Changing

    private func place(_ call: APICall) async throws -> Response {
        var body = try await EventBody(
            call, path: ["widget"], members: ["user", "device", "kind", "family", "configuration", "environment"])
        if let user = call.user, body["user"] == nil { body["user"] = .string(user) }
        return try await publish(try body.event(of: .widgetPlaced), for: call)
    }

    private func remove(_ call: APICall) async throws -> Response {
        return try await publish(
            FreshetEvent(app: call.app, .widget(.removed(widget: try call.path("widget")))), for: call)
    }

    private func view(_ call: APICall) async throws -> Response {
        return try await publish(
            FreshetEvent(app: call.app, .view(widget: try call.path("widget"))), for: call)
    }
}
