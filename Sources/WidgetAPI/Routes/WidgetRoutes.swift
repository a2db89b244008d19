import HTTPTypes
import Hummingbird
import PostgresClient
import WidgetEvents
import WidgetModel
import WidgetRepresentation
import WidgetStore

/// Routes of widgets.
struct WidgetRoutes: Sendable {
    let parts: APIParts

    /// A time before any placement: 1970.
    static let beforeAll = Timestamp(microseconds: 0)

    var all: [APIRoute] {
        [
            APIRoute("listWidgets", .get, "widgets", .own(.widgetsRead), handle: list),
            APIRoute("getWidget", .get, "widgets/{widget}", .own(.widgetsRead), handle: get),
            APIRoute("placeWidget", .put, "widgets/{widget}", .own(.widgetsWrite), handle: place),
            APIRoute("removeWidget", .delete, "widgets/{widget}", .own(.widgetsWrite), handle: remove),
            APIRoute(
                "configureWidget", .put, "widgets/{widget}/configuration", .own(.widgetsWrite), handle: configure),
            APIRoute("viewWidget", .post, "widgets/{widget}/views", .own(.widgetsWrite), handle: view),
        ]
    }

    // MARK: Reading

    private func list(_ call: APICall) async throws -> Response {
        try call.allowQuery("user", "device", "kind", "limit", "cursor")
        let limit = try call.integer("limit", in: 1...1_000, default: 100)
        let asked = try call.identifier("user")
        let filter = WidgetFilter(
            app: call.app, user: call.user ?? asked, device: try call.identifier("device"),
            kind: try call.identifier("kind"), after: try PageCursor.decode(call) ?? "")
        // A device must not learn whether another user exists.
        let isForeign = call.user.map { own in asked.map { !Text.equal(own, $0) } ?? false } ?? false
        let widgets = isForeign ? [] : try await parts.store.pool.query(ListWidgets(filter, limit: limit))
        let next = widgets.count == limit ? widgets.last.map { PageCursor.encode($0.id) } : nil
        return
            (["widgets": .array(widgets.map(\.json)), "next": .text(next)] as JSONValue)
            .response()
    }

    private func get(_ call: APICall) async throws -> Response {
        try call.allowQuery()
        return try await widget(call).json.response()
    }

    /// The path's widget, if the bearer may see it.
    private func widget(_ call: APICall) async throws -> WidgetDetail {
        let filter = WidgetFilter(app: call.app, user: call.user, widget: try call.path("widget"))
        guard let widget = try await parts.store.pool.query(ListWidgets(filter, limit: 1)).first else {
            throw Problem.notFound
        }
        return widget
    }

    // MARK: Changing

    private func place(_ call: APICall) async throws -> Response {
        try call.allowQuery()
        let id = try call.path("widget")
        var body = EventBody(
            try await call.body(),
            members: ["app", "widget", "user", "device", "kind", "family", "configuration", "environment"])
        if let user = call.user, body["user"] == nil { body["user"] = .string(user) }
        body.bind("app", to: call.app)
        body.bind("widget", to: id)
        let event = try body.event(of: .widgetPlaced)
        guard case .placed(let placement) = event else { throw Problem.internal }
        if let user = call.user {
            guard Text.equal(placement.user, user) else {
                throw Problem.forbidden("a token of one user places widgets of this user only")
            }
        }
        let kind = try await KindCheck(parts: parts).kind(placement.kind, of: call.app, at: "/kind")
        guard kind.definition.families.contains(placement.family) else {
            throw Problem.unprocessable(
                "/family",
                "the kind has \(kind.definition.families.map(\.name).joined(separator: ", "))")
        }
        if let user = call.user {
            // The id of another user's widget must neither be taken over nor be disclosed. So the event is published like any
            // other, but with a time before any placement: an older event never overrides a newer one.
            let filter = WidgetFilter(app: call.app, widget: id)
            if let known = try await parts.store.pool.query(ListWidgets(filter, limit: 1)).first,
                !Text.equal(known.user, user)
            {
                return try await publish(event, of: placement.user, call, time: Self.beforeAll)
            }
        }
        return try await publish(event, of: placement.user, call)
    }

    private func configure(_ call: APICall) async throws -> Response {
        try call.allowQuery()
        let id = try call.path("widget")
        var body = EventBody(try await call.body(), members: ["app", "widget", "configuration"])
        body.bind("app", to: call.app)
        body.bind("widget", to: id)
        let event = try body.event(of: .widgetConfigured)
        return try await publish(event, of: try await owner(call), call)
    }

    private func remove(_ call: APICall) async throws -> Response {
        try call.allowQuery()
        let event = FreshetEvent.removed(app: call.app, widget: try call.path("widget"))
        return try await publish(event, of: try await owner(call), call)
    }

    private func view(_ call: APICall) async throws -> Response {
        try call.allowQuery()
        let event = FreshetEvent.viewed(app: call.app, widget: try call.path("widget"))
        return try await publish(event, of: try await owner(call), call)
    }

    /// The widget's user, whose key keeps the event in order behind the placement.
    private func owner(_ call: APICall) async throws -> String {
        let widget = try await widget(call)
        guard widget.timelineID != nil else { throw Problem.notFound }
        return widget.user
    }

    private func publish(
        _ event: FreshetEvent, of user: String, _ call: APICall, time: Timestamp? = nil
    ) async throws -> Response {
        try await parts.outlet().publish(event, of: user, traceparent: call.traceparent, time: time).json
            .response(.accepted)
    }
}

extension APICall {
    /// The caller's trace context, for the event.
    var traceparent: String? {
        HTTPField.Name("traceparent").flatMap { request.headers[$0] }.flatMap {
            $0.utf8.count <= 256 && !Text.containsControlCharacter($0) ? $0 : nil
        }
    }
}

/// Checks that a kind exists, so that an event that ingest would refuse is refused at once.
struct KindCheck: Sendable {
    let parts: APIParts

    func kind(_ name: String, of app: String, at pointer: String) async throws -> RegisteredKind {
        if let kind = find(name, app, try await directory(with: [name], of: app)) { return kind }
        throw Problem.unprocessable([Self.unknown(name, at: pointer)])
    }

    /// Checks several kinds and reports all that are unknown.
    ///
    /// - Parameter pointer: place of a name in the body.
    func check(_ names: [String], of app: String, at pointer: (String) -> String) async throws {
        let directory = try await directory(with: names, of: app)
        let unknown = names.filter { find($0, app, directory) == nil }.map { Self.unknown($0, at: pointer($0)) }
        guard unknown.isEmpty else { throw Problem.unprocessable(unknown) }
    }

    private static func unknown(_ name: String, at pointer: String) -> Problem.Item {
        Problem.Item(detail: "the app has no kind \(Text.quoted(name))", pointer: pointer)
    }

    private func directory(with names: [String], of app: String) async throws -> KindDirectory {
        let directory = try await parts.directory.directory(maximumAge: .seconds(5))
        // A kind may just have been registered.
        return names.allSatisfy { find($0, app, directory) != nil } ? directory : try await parts.directory.refresh()
    }

    private func find(_ name: String, _ app: String, _ directory: KindDirectory) -> RegisteredKind? {
        guard let app = directory.apps[app], let kind = directory.kind(name, of: app),
            Text.equal(kind.definition.name, name)
        else { return nil }
        return kind
    }
}
