import HTTPTypes
import Hummingbird
import WidgetModel

/// Health checks for orchestrators.
struct HealthRoutes: Sendable {
    let readiness: Readiness
    let liveness: Liveness

    func add(to router: Router<APIContext>) {
        router.get("health/live") { [liveness] _, _ in
            let wedged = liveness.wedged()
            guard !wedged.isEmpty else { return (["status": "live"] as JSONValue).response() }
            let loops = wedged.map { loop -> JSONValue in
                [
                    "name": .string(loop.name),
                    "silentSeconds": .number(JSONNumber(Int(loop.silence.components.seconds))),
                ]
            }
            return (["status": "wedged", "loops": .array(loops)] as JSONValue).response(.serviceUnavailable)
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
