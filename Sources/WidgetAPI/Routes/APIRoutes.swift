import HTTPTypes
import Hummingbird

/// The table of all routes under `/v1`.
struct APIRoutes: Sendable {
    let all: [APIRoute]

    init(_ parts: APIParts) {
        all =
            KindRoutes(parts: parts).all + WidgetRoutes(parts: parts).all
            + ConfigurationRoutes(parts: parts).all + TimelineRoutes(parts: parts).all
            + StackRoutes(parts: parts).all + DeviceRoutes(parts: parts).all
            + RegistrationRoutes(parts: parts).all + ReloadRoutes(parts: parts).all
            + OperatorRoutes(parts: parts).all
            + EventRoutes(parts: parts).all
            + DeadLetterRoutes(parts: parts).all + ProviderRoutes(parts: parts).all
    }

    private init(_ all: [APIRoute]) {
        self.all = all
    }

    func only(_ ids: Set<String>) -> APIRoutes { APIRoutes(all.filter { ids.contains($0.id) }) }

    func add(to router: Router<APIContext>, behind gate: APIGate) {
        for route in all {
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
        let matching = all.filter { $0.matches(path) }
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
