import Hummingbird
import JSON
import WidgetModel

/// Health checks for orchestrators.
struct HealthRoutes: Sendable {
    let readiness: Readiness
    let liveness: Liveness

    static let paths: Set<String> = ["/health/live", "/health/ready"]

    func add(to router: Router<APIContext>) {
        router.onGet("health/live") { [liveness] _, _ in
            let wedged = liveness.wedged()
            guard !wedged.isEmpty else { return Response(["status": "live"]) }
            let loops = wedged.map { loop -> JSONValue in
                ["name": .string(loop.name), "silentSeconds": .seconds(loop.silence)]
            }
            return Response(["status": "wedged", "loops": .array(loops)], .serviceUnavailable)
        }
        router.onGet("health/ready") { [readiness] _, _ in
            let report = await readiness.report()
            return Response(report.json, report.isReady ? .ok : .serviceUnavailable)
        }
    }
}

extension Router<APIContext> {
    /// Adds a route of `GET` and `HEAD`.
    func onGet(_ path: RouterPath, use handler: @escaping @Sendable (Request, APIContext) async throws -> Response) {
        on(path, method: .get, use: handler)
        on(path, method: .head) { request, context in try await handler(request, context).forHead }
    }
}

extension Response {
    /// The response to `HEAD` in place of this response to `GET`. A stream is not begun.
    var forHead: Response {
        guard body.contentLength == nil else { return self }
        return Response(status: status, headers: headers, body: ResponseBody { try await $0.finish(nil) })
    }
}

extension ReadinessReport {
    /// `{"status", "missing": [{"name", "reason"}]}`
    var json: JSONValue {
        let missing = items.compactMap { item -> JSONValue? in
            item.missing.map { ["name": .string(item.name), "reason": .string($0)] }
        }
        return ["status": isReady ? "ready" : "notReady", "missing": .array(missing)]
    }
}
