// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import Foundation
import FreshetService
import JSON
import Logging
import ServiceLifecycle
import WidgetModel

struct RunCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "run",
        abstract: "Runs Freshet until it is stopped.",
        discussion: """
            Roles: ingest applies the input topics to PostgreSQL; workers regenerate and publish due timelines; delivery \
            notifies devices; api serves HTTP; all does everything. Any number of processes of each role share the work.

            Waits for PostgreSQL and Kafka with back-off and serves health meanwhile. With kafka.embedded it runs a \
            Kafka cluster in its memory, for one machine. SIGTERM or SIGINT stops it gracefully, with status 0; a second \
            one at once, with status 1.

            Examples:
              freshet run --config freshet.yaml
              freshet run --role workers --set workers.concurrency=64
              freshet run --migrate --set postgres.url=postgresql:///freshet --set kafka.embedded=true --print-ready
            """)

    @Option(help: "ingest, workers, delivery, api, or all (setting role).")
    var role: ProcessRole?

    @Flag(help: "Apply missing migrations first.")
    var migrate = false

    @Flag(
        help: """
            Print one line of JSON on standard output once all roles work: \
            {"pid", "role", "bootstrapServers", "apiPort"}, and "healthPort" with health.port.
            """)
    var printReady = false

    @OptionGroup var settings: SettingsOptions

    func run() async throws {
        var options: [String: String] = [:]
        if let role { options["role"] = role.rawValue }
        let loaded = try settings.load(options: options, requiring: ["postgres.url", "kafka.bootstrapServers"])
        let values = loaded.settings
        let logger = values.logger()
        logger.notice(
            "starting",
            metadata: [
                "version": "\(FreshetNode.version)", "role": "\(values.role.rawValue)",
                "pid": "\(ProcessInfo.processInfo.processIdentifier)",
            ])
        let doctor = DoctorRuns { app in
            await Doctor(settings: values, warnings: loaded.warnings, timeLimit: .seconds(5), app: app)
                .findings().map(\.json)
        }
        let node = try FreshetNode(
            settings: values, logger: logger, metrics: .bootstrap(for: values),
            findings: { app in await doctor.findings(of: app) })
        let announcer = BackgroundService("announcer") { [printReady] in
            let endpoint = try await node.ready()
            logger.notice("ready", metadata: ["bootstrapServers": "\(endpoint.bootstrapServers)"])
            if printReady { Terminal.printLine(Self.json(endpoint, role: values.role)) }
            try await gracefulShutdown()
        }
        try await Program.run(node.services(migrate: migrate) + [announcer], logger: logger)
        logger.notice("stopped")
    }

    private static func json(_ endpoint: FreshetNode.Endpoint, role: ProcessRole) -> JSONValue {
        let json: JSONValue = [
            "pid": .count(ProcessInfo.processInfo.processIdentifier), "role": .string(role.rawValue),
            "bootstrapServers": .string(endpoint.bootstrapServers), "apiPort": .count(endpoint.apiPort),
        ]
        return endpoint.healthPort.map { json.adding("healthPort", .count($0)) } ?? json
    }
}

extension ProcessRole: ExpressibleByArgument {}
