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
        let logger = values.log.logger()
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
            do {
                let endpoint = try await node.ready()
                logger.notice("ready", metadata: ["bootstrapServers": "\(endpoint.bootstrapServers)"])
                if printReady { Terminal.printLine(endpoint.json(role: values.role)) }
            } catch is ListeningPort.NeverListened {
                // The API has failed with an error of its own, or the node was stopped before it listened.
            }
            try await gracefulShutdown()
        }
        try await Program.run(node.services(migrate: migrate) + [announcer], logger: logger)
        logger.notice("stopped")
    }
}

extension ProcessRole: ExpressibleByArgument {}

extension FreshetNode.Endpoint {
    fileprivate func json(role: ProcessRole) -> JSONValue {
        let json: JSONValue = [
            "pid": .count(ProcessInfo.processInfo.processIdentifier), "role": .string(role.rawValue),
            "bootstrapServers": .string(bootstrapServers), "apiPort": .count(apiPort),
        ]
        return if let healthPort { json.adding("healthPort", .count(healthPort)) } else { json }
    }
}
