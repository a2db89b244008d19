// SPDX-License-Identifier: Apache-2.0

import JSON
import PostgresClient
import WidgetModel
import WidgetStore

/// Numbers of widgets by kind and state.
struct WidgetStates: Sendable {
    var byKind: [String: [WidgetState: Int]] = [:]
    /// The highest id of the counted widgets.
    var last: String?
    /// Whether there are more widgets than are counted.
    var isTruncated = false

    init(_ rows: [WidgetStateCount] = []) {
        for row in rows { byKind[row.kind, default: [:]][row.state, default: 0] += row.widgets }
        last = rows.map(\.last).max { $0.unicodeScalars.lexicographicallyPrecedes($1.unicodeScalars) }
        isTruncated = rows.reduce(0) { $0 + $1.widgets } >= WidgetState.examined
    }

    func count(of state: WidgetState) -> Int { byKind.values.reduce(0) { $0 + ($1[state] ?? 0) } }
}

extension WidgetState {
    /// Style of its tag.
    var style: String {
        switch self {
        case .failing, .overdue: "bad"
        case .paused: "warn"
        case .fresh: "good"
        case .stale, .empty, .sleeping: "soft"
        }
    }
}

/// State of a kind for operators, the first that applies.
enum KindState: String, CaseIterable {
    case paused
    /// The last fetch of some of its timelines failed.
    case failing
    /// Some of its timelines are overdue.
    case overdue
    case live

    init(_ kind: RegisteredKind, _ widgets: [WidgetState: Int]) {
        self =
            kind.isPaused
            ? .paused : widgets[.failing] != nil ? .failing : widgets[.overdue] != nil ? .overdue : .live
    }

    var style: String {
        switch self {
        case .paused: "warn"
        case .failing, .overdue: "bad"
        case .live: "good"
        }
    }
}

extension ConsoleVisit {
    /// Numbers of the widgets of a filter by kind and state.
    func widgetStates(_ filter: WidgetFilter) async throws -> WidgetStates {
        try await run("consoleStates") { routes, _ in
            WidgetStates(try await routes.store.query(.countWidgetStates(filter)))
        }
    }

    /// Path below the console with a query of the values that are there.
    static func link(_ path: String, _ values: [(name: String, value: String?)]) -> String {
        let items = values.compactMap { name, value in value.map { "\(name)=\(Text.percentEncoded($0))" } }
        return Console.base + path + (items.isEmpty ? "" : "?" + items.sorted().joined(separator: "&"))
    }

    /// Links to a list's states with their numbers, for templates; the first is to the whole list.
    static func tabs<State: RawRepresentable<String> & Equatable>(
        at path: String, _ filter: [(String, String?)], chosen: State?, _ counts: [(state: State, count: Int)]
    ) -> [[String: Any]] {
        func tab(_ name: String, _ state: State?, _ count: Int) -> [String: Any] {
            [
                "name": name, "count": ConsolePage.grouped("\(count)"), "isCurrent": state == chosen,
                "link": link(path, filter + [("state", state?.rawValue)]),
            ]
        }
        return [tab("all", nil, counts.reduce(0) { $0 + $1.count })]
            + counts.filter { $0.count > 0 || $0.state == chosen }.map { tab($0.state.rawValue, $0.state, $0.count) }
    }
}
