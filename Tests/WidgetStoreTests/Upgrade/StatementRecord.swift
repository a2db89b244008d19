// SPDX-License-Identifier: Apache-2.0

import Foundation
import JSON
import PostgresClient
import WidgetModel
import WidgetStore

/// Statements of a release at a schema level, kept in a file in this folder, such as `statements-6.json`.
///
/// Later migrations must keep these statements valid. A release records its own with:
/// `FRESHET_TEST_RECORD_STATEMENTS=1 ./deploy/local/test --filter UpgradeTests`.
struct StatementRecord: Sendable {
    /// Number of migrations that the release's binary knows.
    let level: Int
    let statements: [(name: String, sql: String)]

    private static let folder = URL(fileURLWithPath: #filePath).deletingLastPathComponent()

    private static func file(of level: Int) -> URL {
        folder.appendingPathComponent("statements-\(level).json")
    }

    /// All records, oldest first.
    static func all() throws -> [StatementRecord] {
        let names = try FileManager.default.contentsOfDirectory(atPath: folder.path)
        let levels = names.compactMap { name -> Int? in
            guard name.hasPrefix("statements-"), name.hasSuffix(".json") else { return nil }
            return Int(name.dropFirst("statements-".count).dropLast(".json".count))
        }
        return try levels.sorted().map { level in
            let document = try JSONValue.parse(Array(Data(contentsOf: file(of: level))))
            guard case .object(let members) = document else {
                throw PostgresError(.misuse, "\(file(of: level).lastPathComponent) is no object")
            }
            return StatementRecord(
                level: level, statements: members.members.map { (name: $0.key, sql: $0.value.stringValue ?? "") })
        }
    }

    /// Statements of this build.
    static var current: StatementRecord {
        StatementRecord(
            level: PostgresMigration.all.count,
            statements: StatementTests.all.map { (name: String(describing: $0), sql: $0.sql) }.sorted {
                $0.name < $1.name
            })
    }

    func write() throws {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.prettyPrinted, .sortedKeys, .withoutEscapingSlashes]
        let values = Dictionary(uniqueKeysWithValues: statements.map { ($0.name, $0.sql) })
        try (encoder.encode(values) + Data("\n".utf8)).write(to: Self.file(of: level))
    }
}
