// SPDX-License-Identifier: Apache-2.0

import JSON
package import PostgresClient
import Synchronization
import WidgetModel

/// The registered apps and kinds at one moment.
package struct KindDirectory: Sendable {
    package let apps: [String: RegisteredApp]
    /// Kinds by row id, retired ones included.
    package let kinds: [Int32: RegisteredKind]
    /// Kinds with unreadable definitions by row id, retired ones included.
    package let unreadable: [Int32: UnreadableKind]
    private let kindsByApp: [Int32: [String: RegisteredKind]]

    package static let empty = KindDirectory(apps: [], kinds: [])

    package init(apps: [RegisteredApp], kinds: [RegisteredKind], unreadable: [UnreadableKind] = []) {
        self.apps = Dictionary(apps.map { ($0.name, $0) }, uniquingKeysWith: { $1 })
        self.kinds = Dictionary(kinds.map { ($0.id, $0) }, uniquingKeysWith: { $1 })
        self.unreadable = Dictionary(unreadable.map { ($0.id, $0) }, uniquingKeysWith: { $1 })
        kindsByApp = Dictionary(grouping: kinds.filter { !$0.isRetired }, by: \.appID)
            .mapValues { Dictionary($0.map { ($0.definition.name, $0) }, uniquingKeysWith: { $1 }) }
    }

    /// A kind of an app by its name; nil for retired ones.
    package func kind(_ name: String, of app: RegisteredApp) -> RegisteredKind? {
        kindsByApp[app.id]?[name]
    }

    /// A kind of an app with an unreadable definition; nil for readable and retired ones.
    package func unreadableKind(_ name: String, of app: RegisteredApp) -> UnreadableKind? {
        unreadable.values.first { $0.appID == app.id && !$0.isRetired && Text.equal($0.name, name) }
    }

    package func kinds(of app: RegisteredApp) -> [String: RegisteredKind] {
        kindsByApp[app.id] ?? [:]
    }
}

/// An app, or a kind of an app, by its name.
package struct DirectoryName: Hashable, Sendable {
    package var app: String
    /// Nil for the app itself.
    package var kind: String?

    package init(app: String, kind: String? = nil) {
        (self.app, self.kind) = (app, kind)
    }

    /// Bytes that identify the name.
    package var bytes: [UInt8] { Array(app.utf8) + [0] + Array((kind ?? "").utf8) }
}

/// The latest directory of this process. Kinds change rarely: an unknown name causes a refresh if the database has it.
package final class DirectoryCache: Sendable {
    private let pool: PostgresPool
    private let state = Mutex<(directory: KindDirectory, readAt: ContinuousClock.Instant?)>((.empty, nil))

    package init(pool: PostgresPool) {
        self.pool = pool
    }

    /// The latest directory; empty before the first ``refresh()``.
    package func directory() -> KindDirectory {
        state.withLock { $0.directory }
    }

    /// The directory, refreshed if it is older than `age`.
    package func directory(maximumAge age: Duration) async throws(PostgresError) -> KindDirectory {
        let (directory, readAt) = state.withLock { $0 }
        if let readAt, readAt.duration(to: .now) < age {
            return directory
        }
        return try await refresh()
    }

    /// Reads apps and kinds from the database if one of these names, which the latest directory lacks, is registered by
    /// now. Nil if none is: producers that go on using unknown names cost a look-up of the names, and do not cause all
    /// kinds to be read.
    package func refresh(ifRegistered names: [DirectoryName]) async throws(PostgresError) -> KindDirectory? {
        guard !names.isEmpty, try await pool.query(.anyIsRegistered(names)).first == true else { return nil }
        return try await refresh()
    }

    /// Reads apps and kinds from the database.
    @discardableResult
    package func refresh() async throws(PostgresError) -> KindDirectory {
        var pipeline = PostgresPipeline()
        let apps = pipeline.append(.listApps())
        let kinds = pipeline.append(.listKinds())
        let results = try await pool.run(pipeline)
        let rows = results.rows(kinds)
        let directory = KindDirectory(apps: results.rows(apps), kinds: rows.readable, unreadable: rows.unreadable)
        state.withLock { $0 = (directory, .now) }
        return directory
    }
}
