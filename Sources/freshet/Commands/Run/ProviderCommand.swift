import ArgumentParser
import Foundation
import FreshetService
import SampleProvider
import ServiceLifecycle
import WidgetModel

struct ProviderCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "provider",
        abstract: "Runs the sample timeline provider: a bank, Emoji Rangers and the weather.",
        discussion: """
            Serves POST /bank/timelines, /rangers/timelines, /weather/timelines and GET /stats. The seed determines its \
            answers. Prints one line of JSON with its port once it listens.

            Examples:
              freshet provider --port 8090
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

    @OptionGroup var settings: SettingsOptions

    func run() async throws {
        let logger = try settings.load().settings.log.logger(label: "freshet.provider")
        let faults = SampleProvider.Faults(latency: latency, requestFailures: failingRequests)
        let listening = ListeningPort()
        let provider = SampleProvider(
            seed: seed, host: host, port: port, faults: faults, logger: logger,
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
