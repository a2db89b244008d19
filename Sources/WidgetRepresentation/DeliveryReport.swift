package import JSON
import WidgetModel
package import WidgetStore

/// Delivery of an app's changes to its devices, for the API, the commands and the console.
package struct DeliveryReport: Sendable {
    /// Time without a fetch after a push from which on a device counts as silent.
    package static let silence = Duration.seconds(86_400)

    /// Days that the report sums up.
    package let days: Int
    package let kinds: [(kind: String, totals: DeliveryTotals)]
    package let devices: DeviceTotals
}

extension DeliveryReport {
    /// Reads the delivery of an app.
    ///
    /// - Parameters:
    ///   - kinds: the app's.
    ///   - days: ``DeliveryTotals/keptDays`` at most are summed up.
    ///   - objective: of the kinds without one of their own.
    package init(
        of app: String, kinds known: [RegisteredKind], days: Int, objective: Duration, from store: WidgetStore
    ) async throws {
        self.days = min(days, DeliveryTotals.keptDays)
        let names = Dictionary(known.map { ($0.id, $0.definition.name) }, uniquingKeysWith: { first, _ in first })
        let objectives = FreshnessObjectives(general: objective, kinds: known)
        kinds = try await store.query(.deliveryTotals(of: names.keys, hours: 24 * self.days, objectives: objectives))
            .compactMap { totals in names[totals.kindID].map { ($0, totals) } }
        devices = try await store.query(.deviceTotals(of: app, silentFor: Self.silence)).first ?? .zero
    }

    package func json(app: String) -> JSONValue {
        ["app": .string(app), "days": .count(days), "devices": devicesJSON, "kinds": kindsJSON]
    }

    package var devicesJSON: JSONValue {
        [
            "registered": .count(devices.devices), "waiting": .count(devices.waiting),
            "silent": .count(devices.silent),
        ]
    }

    package var kindsJSON: JSONValue {
        .array(
            kinds.map { kind, totals in
                func milliseconds(_ latencies: LatencyClasses, _ quantile: Double) -> JSONValue {
                    .count(latencies.quantile(quantile)?.wholeMilliseconds)
                }
                return [
                    "kind": .string(kind), "changes": .count(totals.changes), "fetched": .count(totals.fetched),
                    "notFetched": .count(totals.notFetched), "notFetchedShare": .decimal(totals.notFetchedShare),
                    "late": .count(totals.late), "inTime": .decimal(totals.attained),
                    "p50Milliseconds": milliseconds(totals.latencies, 0.5),
                    "p95Milliseconds": milliseconds(totals.latencies, 0.95),
                    "p99Milliseconds": milliseconds(totals.latencies, 0.99),
                    "pushP50Milliseconds": milliseconds(totals.pushLatencies, 0.5),
                    "pushP99Milliseconds": milliseconds(totals.pushLatencies, 0.99),
                ]
            })
    }
}
