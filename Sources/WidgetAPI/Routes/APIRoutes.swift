import HTTPTypes
import Hummingbird

extension RouteDependencies {
    /// The table of all routes under `/v1`.
    var routes: [APIRoute] {
        kindRoutes + widgetRoutes + configurationRoutes + timelineRoutes + stackRoutes + deviceRoutes
            + registrationRoutes + reloadRoutes + operatorRoutes + eventRoutes + deadLetterRoutes + providerRoutes
    }
}

extension [APIRoute] {
    func add(to router: Router<APIContext>, behind gate: APIGate) {
        for route in self {
            let path = RouterPath(route.template)
            guard route.method != .get else {
                router.onGet(path) { request, context in await gate.respond(route, request, context) }
                continue
            }
            router.on(path, method: route.method) { request, context in
                await gate.respond(route, request, context)
            }
        }
    }

    /// Methods of the routes at a request's path. As in the router, literal segments have precedence over parameters.
    func methods(at path: String) -> [String] {
        let matching = filter { $0.matches(path) }
        let fewest = matching.map(\.parameterCount).min()
        return matching.filter { $0.parameterCount == fewest }
            .flatMap { $0.method == .get ? ["GET", "HEAD"] : [$0.method.rawValue] }.sorted()
    }
}

/// Position in a paged list, opaque to callers.
enum PageCursor {
    static func encode(_ id: String) -> String { Base64URL.encode(id.utf8) }

    static func decode(_ call: APICall) throws(Problem) -> String? {
        guard let text = call.text("cursor") else { return nil }
        guard let bytes = Base64URL.decode(text), let id = String(validating: bytes, as: UTF8.self),
            !id.isEmpty, id.utf8.count <= 256, !id.utf8.contains(0)
        else { throw .unknownCursor }
        return id
    }
}
