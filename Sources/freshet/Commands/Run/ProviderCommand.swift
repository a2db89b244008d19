import ArgumentParser
import Foundation
import FreshetService
import SampleProvider
import ServiceLifecycle
import WidgetModel
import WidgetRepresentation

struct ProviderCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "provider",
        abstract: "Runs the sample timeline provider: a bank, Emoji Rangers and the weather.",
        discussion: """
            Serves POST /bank/timelines, /rangers/timelines, /weather/timelines and GET /stats. The seed determines its \
            answers. Prints one line of JSON with its port once it listens.

            Examples:
              freshet provider --port 8090
              freshet provider --change-every 5m --secret-file bank.secret
              freshet provider --latency 200ms --failing-requests 0.05
            """)

    @Option(help: "Address to listen on.")
    var host = "127.0.0.1"

    @Option(help: "Port to listen on; 0 lets the system choose.", transform: OptionText.number(0...65_535))
    var port = 8_090

    @Option(help: "Seed of the content.")
    var seed: UInt64 = 1

    @Option(help: "Delay of every answer, such as 50ms.", transform: OptionText.duration)
    var latency = Duration.zero

    @Option(help: "Share of requests that are answered with 503, from 0 to 1.", transform: OptionText.number(0.0...1))
    var failingRequests = 0.0

    @Option(
        help: "Interval at which each content changes, such as 5m; with every request by default.",
        transform: OptionText.duration)
    var changeEvery: Duration?

    @Option(
        help: ArgumentHelp("File with the secret that signs requests; unsigned ones are refused.", valueName: "file"),
        completion: .file())
    var secretFile: String?

    @OptionGroup var settings: SettingsOptions

    func run() async throws {
        let logger = try settings.load().settings.log.logger(label: "freshet.provider")
        let faults = SampleProvider.Faults(latency: latency, requestFailures: failingRequests)
        let listening = ListeningPort()
        let secret = try secretFile.map { try SigningSecret(file: $0) }
        let provider = SampleProvider(
            seed: seed, host: host, port: port,
            keys: secret.map { secret in
                Dictionary(uniqueKeysWithValues: SampleApp.allCases.map { ($0, secret.bytes) })
            } ?? [:],
            faults: faults, changeInterval: changeEvery, logger: logger,
            onListening: listening.listens(on:))
        let announcer = BackgroundService("announcer") {
            let port = try await listening.wait()
            Terminal.printLine(["pid": .count(ProcessInfo.processInfo.processIdentifier), "port": .count(port)])
            try await gracefulShutdown()
        }
        let service = ListeningService(
            description: "provider", service: provider, port: listening,
            place: "the sample provider on \(host):\(port) (--host, --port)")
        try await Program.run([service, announcer], logger: logger)
    }
}
