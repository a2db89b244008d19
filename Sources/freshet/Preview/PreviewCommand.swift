import ArgumentParser
import Foundation
import FreshetService
import JSON
import ReloadWorkers
import ServiceLifecycle
import WidgetModel

struct PreviewCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "preview",
        abstract: "Serves a page with all kinds and families of a provider under development.",
        discussion: """
            Asks the provider for the timelines of all kinds and families at intervals, and shows their entries on a \
            time axis, with light and dark content side by side. A slider shows what is shown at a time. The page \
            follows changes of the provider; the manifest is read once. Neither a database nor Kafka is needed. Prints \
            one line of JSON with the page's address once it listens.

            Examples:
              freshet preview --sample
              freshet preview --manifest kinds.yaml --user u42
              freshet preview --provider http://127.0.0.1:8090/bank --kind DueDate --secret-file bank.secret
            """)

    @OptionGroup var options: TrialOptions
    @OptionGroup var environment: DeviceEnvironment

    @Option(help: "Address to listen on.")
    var host = "127.0.0.1"

    @Option(help: "Port to listen on; 0 lets the system choose.", transform: OptionText.number(0...65_535))
    var port = 8_091

    @Option(help: "Interval of the requests, from 200ms.", transform: OptionText.duration)
    var interval = Duration.seconds(2)

    func validate() throws {
        guard interval >= .milliseconds(200) else { throw ValidationError("--interval: expected 200ms or more") }
    }

    func run() async throws {
        let settings = try ProviderTrial.settings(options.settings)
        let environment = try environment.model()
        let logger = settings.log.logger(label: "freshet.preview")
        try await ProviderTrial.withKinds(of: options, logger: logger) { kinds in
            try await ProviderProbe(settings).withClient { client in
                let trial = ProviderTrial(client: client, maximumResponseBytes: settings.workers.maximumResponseBytes)
                try await serve(kinds, trial, environment, settings)
            }
        }
    }

    private func serve(
        _ kinds: [TrialKind], _ trial: ProviderTrial, _ environment: WidgetEnvironment, _ settings: Settings
    ) async throws {
        let logger = settings.log.logger(label: "freshet.preview")
        let poller = PreviewPoller(
            trial: trial, kinds: kinds, user: options.users[0], environment: environment, interval: interval)
        let listening = ListeningPort()
        let server = PreviewServer(
            host: host, port: port, state: poller.state, timeZone: environment.timeZone,
            lead:
                "For \(options.users[0]), \(environment.locale), \(environment.timeZone); asked every \(interval.words).",
            logger: logger, onListening: listening.listens(on:))
        let announcer = BackgroundService("announcer") { [host] in
            let port = try await listening.wait()
            Terminal.printLine([
                "pid": .count(ProcessInfo.processInfo.processIdentifier), "port": .count(port),
                "url": .string("http://\(host.contains(":") ? "[\(host)]" : host):\(port)/"),
            ])
            try await gracefulShutdown()
        }
        let service = ListeningService(
            description: "preview", service: server, port: listening,
            place: "the preview on \(host):\(port) (--host, --port)")
        let polling = BackgroundService("poller") { try await poller.run() }
        try await Program.run([polling, service, announcer], logger: logger)
    }
}
