// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import FreshetService
import JSON
import PostgresClient
import Randomness
import WidgetModel
import WidgetStore

/// Widgets and timelines for an empty database: one of each for each person of a world, rendered, quiet, and due again
/// by their policy within a day.
struct LoadFill: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "fill",
        abstract: "Fills an empty database with widgets and their timelines, fast.",
        discussion: """
            Needs an empty PostgreSQL database (postgres.url) that nothing else uses. Every timeline is rendered, stored, \
            and due again by its policy within a day; lists name them at the end. For 10,000,000 timelines of 650 bytes \
            expect 20 GB.

            Examples:
              deploy/local/postgres run --memory 8GB -- freshet-load fill --timelines 1000000
              freshet-load fill --timelines 10000000 --content-bytes 0 --json
            """)

    @Option(help: "Number of timelines, each with a widget.", transform: OptionText.number(1...100_000_000))
    var timelines = 1_000_000

    @Option(help: "Bytes of each stored timeline, about; 0 stores none.", transform: OptionText.number(0...100_000))
    var contentBytes = 650

    @Flag(help: "Print the result as JSON (schemas/load-report.json).")
    var json = false

    @OptionGroup var settings: SettingsOptions

    private static let connections = 4

    func run() async throws {
        var configuration = try settings.load(requiring: ["postgres.url"]).settings.postgresConfiguration()
        configuration.maximumConnections = max(configuration.maximumConnections, Self.connections + 2)
        configuration.statementTimeout = .seconds(3_600)
        let result = try await PostgresPool.with(configuration, logger: .ofCommands) { pool in
            defer { Terminal.endProgress() }
            return try await fill(pool)
        }
        result.printed(asJSON: json)
    }

    private func fill(_ pool: PostgresPool) async throws -> LoadResult {
        _ = try await PostgresMigrator(migrations: PostgresMigration.all).apply(on: pool)
        let store = WidgetStore(pool: pool)
        let world = LoadWorld(users: timelines, kinds: 2)
        // The provider gets no requests.
        let kinds = try await world.register(in: store, provider: "http://127.0.0.1:9")
        try await store.requireEmpty()
        let start = ContinuousClock.now
        func show(_ done: Int) {
            let seconds = start.duration(to: .now) / .seconds(1)
            Terminal.progress("inserted \(done) of \(timelines) timelines, \(Int(Double(done) / seconds))/s")
        }
        try await store.fill(
            timelines, connections: Self.connections,
            { [contentBytes] in Self.widget($0, of: world, kinds, contentBytes: contentBytes) }, progress: show)
        let sizes = try await pool.query(.tableSizes())
        var result = LoadResult(scenario: "fill")
        result.distinctTimelines = timelines
        result.wallSeconds = start.duration(to: .now) / .seconds(1)
        result.extras = [
            ("timelines", .number(JSONNumber(timelines))), ("widgets", .number(JSONNumber(timelines))),
            ("databaseBytes", .number(JSONNumber(Int(sizes.reduce(0) { $0 + $1.tableBytes + $1.indexBytes })))),
        ]
        return result
    }

    /// - Parameters:
    ///   - kinds: the world's registered kinds, in its order.
    ///   - contentBytes: bytes of the stored timeline, about; 0: none is stored.
    private static func widget(
        _ index: Int, of world: LoadWorld, _ kinds: [RegisteredKind], contentBytes: Int
    ) -> FilledWidget {
        FilledWidget(
            placement: world.placement(index), identity: world.timeline(of: index), kind: kinds[index % kinds.count],
            content: contentBytes > 0 ? content(index, bytes: contentBytes) : nil,
            // Differs by index, as that of different content would.
            hash: ContentHash(high: UInt64(index) &* 0x9E37_79B9_7F4A_7C15, low: 1),
            nextReload: .seconds(3_600 + index &* 7_919 % 86_400))
    }

    /// Canonical JSON of one entry of about so many bytes.
    static func content(_ index: Int, bytes: Int) -> String {
        let head = #"{"entries":[{"content":{"amount":"\#(index % 10_000).00","note":""#
        let tail = #"","title":"Purchase \#(index)"},"date":"2026-01-01T00:00:00Z"}],"policy":"never"}"#
        // Text that compresses as words do, not as one letter does; phrase by phrase, since millions are made.
        var text = head
        text.reserveCapacity(bytes + 64)
        let end = bytes - tail.utf8.count
        var random = SeededGenerator(seed: UInt64(index))
        while text.utf8.count < end {
            let bits = random.next()
            let phrase = phrases[Int(bits >> 56)]
            text += text.utf8.count + phrase.utf8.count < end + 16 ? phrase : words[Int(bits >> 60)]
        }
        return text + tail
    }

    /// 256 of five words each.
    private static let phrases: [String] = (0..<256).map { phrase in
        (0..<5).map { words[(phrase * 7 + phrase / 16 * 5 + $0 * ($0 + phrase)) % words.count] }.joined()
    }

    private static let words = [
        "coffee ", "train ", "book ", "rent ", "lunch ", "ticket ", "shoes ", "repair ", "flight ", "hotel ", "garden ",
        "music ", "market ", "pharmacy ", "cinema ", "fuel ",
    ]
}
