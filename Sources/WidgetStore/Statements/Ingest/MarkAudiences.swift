import PostgresClient
import WidgetModel

/// The marks of a batch, of whatever audiences, as one input of statements that find their timelines as the mark
/// statements do.
struct MarkAudiences: Sendable {
    /// Users' first, then devices', then single widgets'.
    let marks: [TimelineMark]
    private let sorts: [Int16]

    init(users: [TimelineMark], devices: [TimelineMark], widgets: [TimelineMark]) {
        marks = users + devices + widgets
        sorts = users.map { _ in 0 } + devices.map { _ in 1 } + widgets.map { _ in 2 }
    }

    /// Appends five arrays: `sort`, `app_id`, `audience_id`, `kind_id` and `matching`.
    func bind(_ parameters: inout PostgresParameters) {
        parameters.append(array: sorts)
        parameters.append(array: marks.map(\.appID))
        parameters.append(array: marks.map(\.audienceID))
        parameters.append(array: marks.map(\.kindID))
        parameters.append(array: marks.map(\.matching))
    }

    /// The query of one mark's timelines, of which `i` is the row: each sort by its own index. `matching` is left to the
    /// caller.
    ///
    /// - Parameter limit: of widgets, as SQL.
    static func timelines(atMost limit: String) -> String {
        ["user_id", "device_id", "id"].enumerated().map { sort, audience in
            """
            (SELECT w.timeline_id FROM widget w
             WHERE i.sort = \(sort) AND w.app_id = i.app_id AND w.\(audience) = i.audience_id
                 AND w.timeline_id IS NOT NULL AND (i.kind_id IS NULL OR w.kind_id = i.kind_id)
             LIMIT \(limit))
            """
        }.joined(separator: "\nUNION ALL\n")
    }
}
