// SPDX-License-Identifier: Apache-2.0

import Foundation
import KafkaClient

/// The processes of Freshet in a run.
final class Fleet: Sendable {
    let ingest: [FleetMember]
    let workers: [FleetMember]
    let delivery: [FleetMember]
    /// Serves the devices.
    let api: FleetMember
    /// Joins and leaves, so that partitions move.
    let guest: FleetMember

    var members: [FleetMember] { residents + [guest] }
    /// Members that always run.
    let residents: [FleetMember]

    /// - Parameter trustRoots: Certificates of the providers' authorities.
    init(
        server: ChaosPostgres, kafka: ChaosKafka, devices: ChaosDevices, options: ChaosOptions,
        trustRoots: URL, directory: RunDirectory, report: ChaosReport
    ) throws {
        let environment = Self.environment(kafka).merging(devices.settings) { $1 }
            .merging(["FRESHET_PROVIDERS_TRUST_ROOTS": trustRoots.path]) { $1 }
            .merging(options.settings) { $1 }
        func member(_ name: String, _ role: FleetMember.Role) throws -> FleetMember {
            try FleetMember(
                name: name, role: role, server: server, kafka: kafka, environment: environment,
                rewrites: options.mutation?.rewrites ?? [], directory: directory, report: report)
        }
        if options.isAllInOne {
            // Ingest hands timelines over to the workers of its process.
            let all = try member("all-1", .all)
            (ingest, workers, delivery, api, residents) = ([all], [all], [all], all, [all])
        } else {
            ingest = [try member("ingest-1", .ingest), try member("ingest-2", .ingest)]
            workers = [try member("workers-1", .workers), try member("workers-2", .workers)]
            delivery = [try member("delivery-1", .delivery), try member("delivery-2", .delivery)]
            api = try member("api-1", .api)
            residents = ingest + workers + delivery + [api]
        }
        guest = try member("ingest-3", .ingest)
    }

    /// Short intervals and time limits, so that a run of a minute covers them.
    static func environment(_ kafka: ChaosKafka) -> [String: String] {
        var properties = kafka.configuration.properties
        if kafka.embedded != nil {
            // A request that a half-open connection swallows is given up soon.
            properties["socket.timeout.ms"] = "4000"
            properties["socket.connection.setup.timeout.ms"] = "2000"
        }
        return kafka.topics.environment.merging([
            "PATH": ProcessInfo.processInfo.environment["PATH"] ?? "/usr/bin:/bin",
            "FRESHET_KAFKA_BOOTSTRAP_SERVERS": kafka.configuration.bootstrapServers,
            "FRESHET_KAFKA_PROPERTIES": properties.sorted { $0.key < $1.key }
                .map { "\($0.key)=\($0.value)" }.joined(separator: ","),
            "FRESHET_KAFKA_GROUP": kafka.group,
            "FRESHET_KAFKA_DELIVERY_TIMEOUT": "1500ms",
            "FRESHET_POSTGRES_STATEMENT_TIMEOUT": "8s",
            "FRESHET_POSTGRES_CONNECT_TIMEOUT": "2s",
            "FRESHET_POSTGRES_ACQUIRE_TIMEOUT": "3s",
            "FRESHET_POSTGRES_MAXIMUM_CONNECTIONS": "6",
            "FRESHET_INGEST_MAXIMUM_BATCH": "200",
            // The times of widgets' events are in the past, and the checker expects the tombstones of removed widgets.
            "FRESHET_TOPICS_RETENTION": "3650d",
            "FRESHET_PROVIDERS_ALLOW_PRIVATE_NETWORKS": "127.0.0.1,localhost",
            // A lease is the sum of the kind's timeout, publishing and the database, rounded up to a multiple of this
            // value: ten seconds. Faults have to be longer, so that a worker resumes after another one has taken its
            // timelines.
            "FRESHET_WORKERS_LEASE": "5s",
            "FRESHET_WORKERS_GRACE_TIME": "3s",
            "FRESHET_WORKERS_POLL_INTERVAL": "300ms",
            "FRESHET_WORKERS_RETRY_CAP": "3s",
            // Only malformed events become dead letters; no app is diverted.
            "FRESHET_DEAD_LETTERS_LIMIT": "100000",
            "FRESHET_API_PORT": "0",
        ]) { $1 }
    }

    func start() {
        for member in residents { member.start() }
    }

    /// Restarts members until cancelled.
    func tend() async {
        while !Task.isCancelled {
            for member in members { member.tend() }
            try? await Task.sleep(for: .milliseconds(50))
        }
    }

    func healNetwork() {
        for member in members { member.healNetwork() }
    }

    func close() {
        for member in members { member.close() }
    }
}
