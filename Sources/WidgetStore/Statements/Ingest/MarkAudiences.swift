import PostgresClient
import WidgetModel

/// The marks of a batch, of whatever audiences, as one input of statements that find their timelines each by its own
/// index.
package struct MarkAudiences: Sendable {
    /// What an audience is.
    package enum Sort: Int16, CaseIterable, Sendable {
        case user
        case device
        case widget

        /// The column of `widget` that names it, beside `app_id`.
        fileprivate var column: String {
            switch self {
            case .user: "user_id"
            case .device: "device_id"
            case .widget: "id"
            }
        }
    }

    /// Users' first, then devices', then single widgets'.
    package let marks: [TimelineMark]
    /// Of each of ``marks``.
    package let sorts: [Sort]

    package init(users: [TimelineMark] = [], devices: [TimelineMark] = [], widgets: [TimelineMark] = []) {
        // Of one sort, as most batches are, nothing is copied.
        marks =
            switch (users.isEmpty, devices.isEmpty, widgets.isEmpty) {
            case (false, true, true): users
            case (true, false, true): devices
            case (true, true, false): widgets
            default: users + devices + widgets
            }
        sorts =
            Array(repeating: .user, count: users.count) + Array(repeating: .device, count: devices.count)
            + Array(repeating: .widget, count: widgets.count)
    }

    package var isEmpty: Bool { marks.isEmpty }

    /// The sort that all of them are of; nil if there are several, or none.
    package var onlySort: Sort? {
        guard let first = sorts.first, first == sorts.last else { return nil }
        return first
    }

    /// Appends five arrays: `sort`, `app_id`, `audience_id`, `kind_id` and `matching`.
    func bind(_ parameters: inout PostgresParameters) {
        bindSorts(&parameters)
        parameters.append(array: marks.map(\.appID))
        parameters.append(array: marks.map(\.audienceID))
        parameters.append(array: marks.map(\.kindID))
        parameters.append(array: marks.map(\.matching))
    }

    /// Appends `sort` alone.
    func bindSorts(_ parameters: inout PostgresParameters) { parameters.append(array: sorts.map(\.rawValue)) }

    /// The query of one mark's timelines, of which `i` is the row. `matching` is left to the caller.
    ///
    /// - Parameters:
    ///   - sort: what `i` is of; nil where `i.sort` tells.
    ///   - limit: of widgets, as SQL.
    static func timelines(of sort: Sort? = nil, atMost limit: String) -> String {
        func query(_ sort: Sort, _ condition: String) -> String {
            """
            (SELECT w.timeline_id FROM widget w
             WHERE \(condition)w.app_id = i.app_id AND w.\(sort.column) = i.audience_id
                 AND w.timeline_id IS NOT NULL AND (i.kind_id IS NULL OR w.kind_id = i.kind_id)
             LIMIT \(limit))
            """
        }
        if let sort { return query(sort, "") }
        return Sort.allCases.map { query($0, "i.sort = \($0.rawValue) AND ") }.joined(separator: "\nUNION ALL\n")
    }
}
