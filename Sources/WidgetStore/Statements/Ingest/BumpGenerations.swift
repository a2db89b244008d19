package import PostgresClient

/// A reload of everyone: one row update for each app or kind, whatever the number of its widgets.
package struct GenerationBump: Hashable, Sendable {
    /// Row id of the app or the kind.
    package var id: Int32
    /// How many events are folded into it.
    package var events: Int64
    /// Whether any of them is free of budget.
    package var isFree: Bool

    package init(id: Int32, events: Int64, isFree: Bool) {
        self.id = id
        self.events = events
        self.isFree = isFree
    }
}

extension PostgresParameters {
    fileprivate mutating func append(bumps: [GenerationBump]) {
        append(array: bumps.map(\.id))
        append(array: bumps.map(\.events))
        append(array: bumps.map(\.isFree))
    }
}

private func bumpSQL(of table: String) -> String {
    """
    WITH locked AS (
        SELECT t.id, i.events, i.free
        FROM unnest($1::int4[], $2::int8[], $3::bool[]) AS i (id, events, free) JOIN \(table) t ON t.id = i.id
        ORDER BY t.id
        FOR NO KEY UPDATE OF t
    )
    UPDATE \(table) t
    SET generation = t.generation + l.events,
        free_generation = CASE WHEN l.free THEN t.generation + l.events ELSE t.free_generation END
    FROM locked l WHERE t.id = l.id
    """
}

/// Everyone, all kinds of the app.
package struct BumpApps: PostgresStatement {
    package static let sql = bumpSQL(of: "app")
    let bumps: [GenerationBump]

    package init(_ bumps: [GenerationBump]) {
        self.bumps = bumps
    }

    package func bind(_ parameters: inout PostgresParameters) {
        parameters.append(bumps: bumps)
    }
}

/// Everyone, one kind.
package struct BumpKinds: PostgresStatement {
    package static let sql = bumpSQL(of: "kind")
    let bumps: [GenerationBump]

    package init(_ bumps: [GenerationBump]) {
        self.bumps = bumps
    }

    package func bind(_ parameters: inout PostgresParameters) {
        parameters.append(bumps: bumps)
    }
}
