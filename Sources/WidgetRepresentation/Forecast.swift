package import JSON
package import WidgetModel
package import WidgetStore

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
