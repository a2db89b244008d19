// SPDX-License-Identifier: Apache-2.0

package import JSON
package import WidgetModel
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

    package var kindsJSON: JSONValue { .array(kinds.map { Self.json(of: $0.kind, $0.totals) }) }

    package static func json(of kind: String, _ totals: DeliveryTotals) -> JSONValue {
        func milliseconds(_ latencies: [Int64], _ quantile: Double) -> JSONValue {
            .count(DeliveryTotals.quantile(quantile, of: latencies)?.wholeMilliseconds)
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
    }
}

/// Statistics of an app's kinds, for the commands and the console.
package struct KindReport: Sendable {
    package struct Kind: Sendable {
        package let name: String
        package let isRetired: Bool
        package fileprivate(set) var total = KindCounters()
        package fileprivate(set) var days: [(day: String, counters: KindCounters)] = []
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
    package var json: JSONValue {
        var object = JSONObject()
        for (name, path) in Self.fields { object[name] = .count(self[keyPath: path]) }
        return .object(object)
    }
}

/// Scheduled reloads by provider and hour.
package struct Forecast: Sendable {
    package struct Provider: Equatable, Sendable {
        package let app: String
        package let url: String
        package var kinds: [String] = []
        /// Due already.
        package var now = 0
        /// From the beginning of the current hour.
        package var hours: [Int]
        // Not included above: timelines being fetched, and those of paused and of retired kinds.
        package var leased = 0
        package var paused = 0
        package var retired = 0

        package var total: Int { now + hours.reduce(0, +) }
    }

    /// By app and URL: two apps at one URL are two providers.
    package private(set) var providers: [Provider] = []
    package let hours: Int
    private let start: Timestamp?
    private let readAt: Timestamp?

    package init(_ rows: [DueReloads], hours: Int) {
        self.hours = hours
        start = rows.first?.start
        readAt = rows.first?.readAt
        for row in rows {
            let index =
                providers.firstIndex { Text.equal($0.app, row.app) && Text.equal($0.url, row.provider) }
                ?? providers.endIndex
            if index == providers.endIndex {
                providers.append(Provider(app: row.app, url: row.provider, hours: Array(repeating: 0, count: hours)))
            }
            providers[index].add(row)
        }
        providers.sort { ($0.app, $0.url) < ($1.app, $1.url) }
    }

    package var total: Int { providers.reduce(0) { $0 + $1.total } }

    package func begin(of hour: Int) -> Timestamp {
        (start ?? Timestamp(microseconds: 0)) + .seconds(3_600) * hour
    }

    // MARK: Document

    package var json: JSONValue {
        [
            "readAt": .time(readAt), "hours": .count(hours),
            "total": .count(total), "providers": .array(providers.map(json)),
        ]
    }

    private func json(_ provider: Provider) -> JSONValue {
        [
            "app": .string(provider.app), "provider": .string(provider.url),
            "kinds": .texts(provider.kinds), "now": .count(provider.now),
            "hours": .array(
                provider.hours.enumerated().map { hour, reloads in
                    ["from": .string(begin(of: hour).rfc3339), "reloads": .count(reloads)]
                }),
            "total": .count(provider.total), "leased": .count(provider.leased),
            "paused": .count(provider.paused), "retired": .count(provider.retired),
        ]
    }
}

extension Forecast.Provider {
    fileprivate mutating func add(_ row: DueReloads) {
        if kinds.last.map({ !Text.equal($0, row.kind) }) ?? true { kinds.append(row.kind) }
        leased += row.leased
        if row.isRetired {
            retired += row.scheduled
        } else if row.isPaused {
            paused += row.scheduled
        } else if let hour = row.hour, hour < hours.count {
            if hour < 0 { now += row.scheduled } else { hours[hour] += row.scheduled }
        }
    }
}
