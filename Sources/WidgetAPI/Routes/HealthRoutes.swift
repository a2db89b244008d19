import HTTPTypes
import Hummingbird
import WidgetModel

/// For orchestrators: whether to restart the process, and whether to send it work.
struct HealthRoutes: Sendable {
    let readiness: Readiness

    func add(to router: Router<BasicRequestContext>) {
        // Answers as long as the process can: a database that is away is no reason to restart it.
        router.get("health/live") { _, _ in
            (["status": "live"] as JSONValue).response()
        }
        router.get("health/ready") { [readiness] _, _ in
            let report = await readiness.report()
            return report.json.response(report.isReady ? .ok : .serviceUnavailable)
        }
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
