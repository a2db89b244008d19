package import PostgresClient

/// The store's migrations, embedded in the binary. They only go forward; each is small and safe under load.
package enum StoreMigrations {
    package static let all: [PostgresMigration] = [
        migration(1, "apps_and_kinds", PackageResources.m0001_apps_and_kinds_sql),
        migration(2, "timelines", PackageResources.m0002_timelines_sql),
        migration(3, "widgets", PackageResources.m0003_widgets_sql),
        migration(4, "ingest", PackageResources.m0004_ingest_sql),
        migration(5, "sweeps", PackageResources.m0005_sweeps_sql),
        migration(6, "rules", PackageResources.m0006_rules_sql),
        migration(7, "placeholders", PackageResources.m0007_placeholders_sql),
        migration(8, "kind_moves", PackageResources.m0008_kind_moves_sql),
        migration(9, "statistics", PackageResources.m0009_statistics_sql),
        migration(10, "dead_letters", PackageResources.m0010_dead_letters_sql),
        migration(11, "secrets", PackageResources.m0011_secrets_sql),
        migration(12, "previous_secrets", PackageResources.m0012_previous_secrets_sql),
        migration(13, "event_traces", PackageResources.m0013_event_traces_sql),
    ]

    private static func migration(_ version: Int, _ name: String, _ text: [UInt8]) -> PostgresMigration {
        PostgresMigration(version: version, name: name, sql: String(decoding: text, as: UTF8.self))
    }
}
