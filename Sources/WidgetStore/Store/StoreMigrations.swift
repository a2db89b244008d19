package import PostgresClient

/// The store's migrations, embedded in the binary. Each is small, safe under load, and never undone.
package enum StoreMigrations {
    package static let all: [PostgresMigration] = [
        migration(1, "apps_and_kinds", PackageResources.m0001_apps_and_kinds_sql),
        migration(2, "timelines", PackageResources.m0002_timelines_sql),
        migration(3, "widgets", PackageResources.m0003_widgets_sql),
        migration(4, "ingest", PackageResources.m0004_ingest_sql),
        migration(5, "dead_letters", PackageResources.m0005_dead_letters_sql),
        migration(6, "placeholders_and_statistics", PackageResources.m0006_placeholders_and_statistics_sql),
        migration(7, "event_outcomes", PackageResources.m0007_event_outcomes_sql),
        migration(8, "people_and_stacks", PackageResources.m0008_people_and_stacks_sql),
        migration(9, "delivery", PackageResources.m0009_delivery_sql),
        migration(10, "sweeps_and_audit", PackageResources.m0010_sweeps_and_audit_sql),
        migration(11, "apns_environment", PackageResources.m0011_apns_environment_sql),
        migration(12, "retention", PackageResources.m0012_retention_sql),
        migration(13, "log_fingerprints", PackageResources.m0013_log_fingerprints_sql),
        migration(14, "registrations_of_topic", PackageResources.m0014_registrations_of_topic_sql),
        migration(15, "failed_sweeps", PackageResources.m0015_failed_sweeps_sql),
    ]

    private static func migration(_ version: Int, _ name: String, _ text: [UInt8]) -> PostgresMigration {
        PostgresMigration(version: version, name: name, sql: String(decoding: text, as: UTF8.self))
    }
}
