// SPDX-License-Identifier: Apache-2.0

import HTTPTypes
import Hummingbird
import JSON
import WidgetEvents
import WidgetModel
import WidgetStore

/// Routes of widgets.
extension Routes {
    var widgetRoutes: [APIRoute] {
        [
            APIRoute(
                "listWidgets", .get, "widgets", .own(.widgetsRead),
                query: ["user", "device", "kind", "limit", "cursor"]
            ) { call in
                let limit = try call.integer("limit", in: 1...1_000, default: 100)
                let page = try await widgets(
                    WidgetFilter(
                        app: call.app, user: try call.identifier("user"), device: try call.identifier("device"),
                        kind: try call.identifier("kind"), after: try call.cursor() ?? ""),
                    limit: limit, for: call.caller)
                return Response([
                    "widgets": .array(page.widgets.map(\.json)), "next": .text(page.next),
                ])
            },
            APIRoute("getWidget", .get, "widgets/{widget}", .own(.widgetsRead)) { call in
                guard let widget = try await widget(try call.path("widget"), for: call.caller) else {
                    throw Problem.notFound
                }
                return Response(widget.json)
            },
            .change("placeWidget", .put, "widgets/{widget}") { call in
                var body = try await EventBody(
                    call, path: ["widget"],
                    members: ["user", "device", "kind", "family", "configuration", "environment"])
                if let user = call.user, body["user"] == nil { body["user"] = .string(user) }
                return try await publish(try body.event(of: .widgetPlaced), call)
            },
            .change("removeWidget", .delete, "widgets/{widget}") { call in
                try await publish(
                    FreshetEvent(app: call.app, .widget(.removed(widget: try call.path("widget")))), call)
            },
            .change("viewWidget", .post, "widgets/{widget}/views") { call in
                try await publish(FreshetEvent(app: call.app, .view(widget: try call.path("widget"))), call)
            },
        ]
    }

    /// Widgets of the caller's app and user, with the cursor of the next page.
    func widgets(
        _ filter: WidgetFilter, limit: Int, for caller: Caller
    ) async throws -> (widgets: [WidgetDetail], next: String?) {
        var filter = filter
        filter.app = caller.app
        if let own = caller.user {
            // A device must not learn whether another user exists.
            if let asked = filter.user, !Text.equal(own, asked) { return ([], nil) }
            filter.user = own
        }
        let widgets = try await store.query(.listWidgets(filter, limit: limit))
        return (widgets, APICall.cursor(after: widgets, limit: limit, \.id))
    }

    /// A widget of the caller; nil if there is none.
    func widget(_ id: String, for caller: Caller) async throws -> WidgetDetail? {
        try await store.query(.listWidgets(WidgetFilter(app: caller.app, user: caller.user, widget: id), limit: 1))
            .first
    }
}
