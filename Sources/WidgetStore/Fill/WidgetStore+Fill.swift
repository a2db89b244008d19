import PostgresClient
package import WidgetModel

/// A timeline of a synthetic population, rendered and quiet.
package struct FilledTimeline: Sendable {
    package var identity: TimelineIdentity
    package var kind: RegisteredKind
    /// Canonical JSON of policy and entries; nil: none is stored.
    package var content: String?
    package var hash: ContentHash
    /// When its policy wants it again, counted from the time of the fill; nil: only on request.
    package var nextReload: Duration?

    package init(
        identity: TimelineIdentity, kind: RegisteredKind, content: String?, hash: ContentHash, nextReload: Duration?
    ) {
        self.identity = identity
        self.kind = kind
        self.content = content
        self.hash = hash
        self.nextReload = nextReload
    }
}

/// A widget of a synthetic population.
package struct FilledWidget: Sendable {
    package var placement: WidgetPlacement
    package var kind: RegisteredKind
    /// Index of the timeline that it shows.
    package var timeline: Int

    package init(placement: WidgetPlacement, kind: RegisteredKind, timeline: Int) {
        self.placement = placement
        self.kind = kind
        self.timeline = timeline
    }
}

/// Counts of a fill, and the time of its parts.
package struct FillCounts: Hashable, Sendable {
    package var timelines = 0
    package var widgets = 0
    package var copied = Duration.zero
    package var indexed = Duration.zero
    package var settled = Duration.zero

    package init() {}
}

/// Reason why a database is not filled.
package enum FillRefusal: Error, Hashable, Sendable {
    /// It holds widgets or timelines already.
    case notEmpty
}

/// A synthetic population: timelines and widgets, each made from its index.
package struct FillPopulation: Sendable {
    package var timelines: Range<Int>
    package var timeline: @Sendable (Int) -> FilledTimeline
    package var widgets: Range<Int>
    package var widget: @Sendable (Int) -> FilledWidget

    package init(
        timelines: Range<Int>, timeline: @escaping @Sendable (Int) -> FilledTimeline,
        widgets: Range<Int>, widget: @escaping @Sendable (Int) -> FilledWidget
    ) {
        self.timelines = timelines
        self.timeline = timeline
        self.widgets = widgets
        self.widget = widget
    }
}

extension WidgetStore {
    /// Rows of one statement.
    private static let fillChunk = 2_000

    /// Writes a synthetic population: drops the indexes, inserts over several connections, and creates the indexes.
    ///
    /// Only for a database without other users, because indexes are missing meanwhile. If the process is killed, the database
    /// must be created anew; after an error or a cancellation the indexes are created.
    ///
    /// - Parameters:
    ///   - connections: how many insert at a time; the pool must have one more.
    ///   - isExtension: whether the database holds an earlier part of the same population.
    ///   - memory: of each session that makes indexes, in MB.
    ///   - progress: told how many rows have been inserted.
    /// - Throws: ``FillRefusal``; `PostgresError`; `CancellationError`.
    package func fill(
        _ population: FillPopulation, connections: Int = 4, isExtension: Bool = false, memory: Int = 512,
        progress: @escaping @Sendable (Int) -> Void = { _ in }
    ) async throws -> FillCounts {
        var counts = FillCounts()
        let scope = try await FillScope(pool: pool)
        let indexes = try await dropIndexes(isExtension: isExtension)
        var start = ContinuousClock.now
        do {
            try await copy(population, scope, connections: max(1, connections), progress: progress)
        } catch {
            let pool = pool
            // A task of its own, since this one may be cancelled.
            _ = await Task { try await Self.createIndexes(indexes, on: pool, memory: memory) }.result
            throw error
        }
        counts.timelines = population.timelines.count
        counts.widgets = population.widgets.count
        counts.copied = start.duration(to: .now)
        start = .now
        try await Self.createIndexes(indexes, on: pool, memory: memory)
        counts.indexed = start.duration(to: .now)
        start = .now
        try await pool.withConnection { connection in
            connection.discardAfterUse()
            try await connection.simple(FillTable.session(memory: memory))
            if let last = population.timelines.last {
                _ = try await connection.execute(
                    .appointFilled(scope.row(population.timelines.lowerBound)...scope.row(last)))
            }
            try await connection.simple(FillTable.settle)
        }
        counts.settled = start.duration(to: .now)
        return counts
    }

    private func dropIndexes(isExtension: Bool) async throws -> [FillIndex] {
        try await pool.withTransaction { connection in
            try await connection.simple(FillTable.lock)
            if !isExtension, try await connection.query(.fillIsEmpty()) != [true] { throw FillRefusal.notEmpty }
            let indexes = try await connection.query(.fillIndexes())
            for index in indexes { try await connection.simple(index.drop) }
            return indexes
        }
    }

    /// One table after the other, two at a time: making an index takes a processor, and reads all of its table.
    private static func createIndexes(_ indexes: [FillIndex], on pool: PostgresPool, memory: Int) async throws {
        let tables = Dictionary(grouping: indexes, by: \.table)
        let largestFirst = tables.values.sorted { ($1.count, $0[0].table) < ($0.count, $1[0].table) }
        try await withThrowingTaskGroup(of: Void.self) { group in
            for (position, indexes) in largestFirst.enumerated() {
                if position >= 2 { try await group.next() }
                group.addTask {
                    try await pool.withConnection { connection in
                        connection.discardAfterUse()
                        try await connection.simple(FillTable.session(memory: memory))
                        for index in indexes { try await connection.simple(index.create) }
                    }
                }
            }
            try await group.waitForAll()
        }
    }

    private func copy(
        _ population: FillPopulation, _ scope: FillScope, connections: Int, progress: @escaping @Sendable (Int) -> Void
    ) async throws {
        let parts = FillParts(population, size: Self.fillChunk)
        try await withThrowingTaskGroup(of: Void.self) { group in
            for _ in 0..<connections {
                group.addTask {
                    try await pool.withConnection { connection in
                        connection.discardAfterUse()
                        try await connection.simple(FillTable.session(memory: 64))
                        while let part = parts.next() {
                            switch part {
                            case .timelines(let range):
                                try await scope.insert(range, population.timeline, on: connection)
                            case .widgets(let range):
                                try await scope.insert(range.map(population.widget), on: connection)
                            }
                            progress(parts.done(part))
                        }
                    }
                }
            }
            try await group.waitForAll()
        }
    }
}
