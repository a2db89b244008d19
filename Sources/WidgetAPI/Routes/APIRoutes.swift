import HTTPTypes
import Hummingbird
import Logging
import WidgetStore

/// What the routes work with.
struct APIParts: Sendable {
    let store: WidgetStore
    let directory: DirectoryCache
    /// Nil: the process cannot publish, and takes no changes.
    let events: EventOutlet?
    let lookup: EventLookup
    let changes: TimelineChanges

    func outlet() throws(Problem) -> EventOutlet {
        guard let events else { throw .eventsUnavailable }
        return events
    }
}

/// The table of all routes under `/v1`.
struct APIRoutes: Sendable {
    let all: [APIRoute]

    init(_ parts: APIParts) {
        all =
            KindRoutes(parts: parts).all + WidgetRoutes(parts: parts).all + TimelineRoutes(parts: parts).all
            + DeviceRoutes(parts: parts).all + ReloadRoutes(parts: parts).all + OperatorRoutes(parts: parts).all
    }

    func add(to router: Router<APIContext>, behind gate: APIGate) {
        for route in all {
            router.on(RouterPath(route.template), method: route.method) { request, context in
                await gate.respond(route, request, context)
            }
        }
    }

    /// The methods of the routes at a path of a request.
    func methods(at path: String) -> [String] {
        all.filter { $0.matches(path) }.map(\.method.rawValue).sorted()
    }
}

/// Marks a place in a list that is given out in pages. Opaque to callers.
enum PageCursor {
    static func encode(_ id: String) -> String { Base64URL.encode(id.utf8) }

    static func decode(_ call: APICall) throws(Problem) -> String? {
        guard let text = call.text("cursor") else { return nil }
        guard let bytes = Base64URL.decode(text.utf8), let id = String(validating: bytes, as: UTF8.self),
            !id.isEmpty, id.utf8.count <= 256, !id.utf8.contains(0)
        else { throw .unknownCursor }
        return id
    }
}
