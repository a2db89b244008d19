package import JSON
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
    package let delivery: DeliveryReport

    package init(_ rows: [KindStatistics], delivery: DeliveryReport) {
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
            "app": .string(app), "days": .count(days), "delivery": delivery.kindsJSON,
            "deliveryDays": .count(delivery.days), "devices": delivery.devicesJSON,
            "kinds": .array(
                kinds.map { kind in
                    [
                        "kind": .string(kind.name), "retired": .bool(kind.isRetired), "total": kind.total.json,
                        "byDay": .array(kind.days.map { ["day": .string($0.day), "counts": $0.counters.json] }),
                    ]
                }),
        ]
    }
}

extension KindCounters {
    fileprivate var json: JSONValue {
        var object = JSONObject()
        for (name, path) in Self.fields { object[name] = .count(self[keyPath: path]) }
        return .object(object)
    }
}
