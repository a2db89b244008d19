package import WidgetModel
package import WidgetStore

/// Statistics of an app's kinds, for the commands and the console.
package struct KindReport: Sendable {
    package struct Kind: Sendable {
        package let name: String
        package let isRetired: Bool
        package fileprivate(set) var total = KindCounters()
        fileprivate(set) var days: [(day: String, counters: KindCounters)] = []
    }

    package private(set) var kinds: [Kind] = []
    package let delivery: [(kind: String, totals: DeliveryTotals)]

    package init(_ rows: [KindStatistics], delivery: [(kind: String, totals: DeliveryTotals)] = []) {
        self.delivery = delivery
        for row in rows {
            if kinds.last.map({ !Text.equal($0.name, row.kind) }) ?? true {
                kinds.append(Kind(name: row.kind, isRetired: row.isRetired))
            }
            let last = kinds.count - 1
            kinds[last].total = kinds[last].total + row.counters
            if let day = row.day { kinds[last].days.append((day, row.counters)) }
        }
    }

    package func json(app: String, days: Int) -> JSONValue {
        [
            "app": .string(app), "days": .count(days), "delivery": deliveryJSON,
            "kinds": .array(
                kinds.map { kind in
                    [
                        "kind": .string(kind.name), "retired": .bool(kind.isRetired), "total": kind.total.json,
                        "byDay": .array(kind.days.map { ["day": .string($0.day), "counts": $0.counters.json] }),
                    ]
                }),
        ]
    }

    private var deliveryJSON: JSONValue {
        .array(
            delivery.map { kind, totals in
                func milliseconds(_ latencies: LatencyClasses, _ quantile: Double) -> JSONValue {
                    latencies.quantile(quantile).map { .count($0.wholeMilliseconds) } ?? .null
                }
                return [
                    "kind": .string(kind), "changes": .count(totals.changes), "fetched": .count(totals.fetched),
                    "notFetched": .count(totals.notFetched), "late": .count(totals.late),
                    "inTime": totals.attained.flatMap { JSONNumber($0) }.map(JSONValue.number) ?? .null,
                    "p50Milliseconds": milliseconds(totals.latencies, 0.5),
                    "p95Milliseconds": milliseconds(totals.latencies, 0.95),
                    "p99Milliseconds": milliseconds(totals.latencies, 0.99),
                    "pushP50Milliseconds": milliseconds(totals.pushLatencies, 0.5),
                    "pushP99Milliseconds": milliseconds(totals.pushLatencies, 0.99),
                ]
            })
    }
}

extension KindCounters {
    fileprivate var json: JSONValue {
        var object = JSONObject()
        for (name, path) in Self.fields { object[name] = .number(JSONNumber(self[keyPath: path])) }
        return .object(object)
    }
}
