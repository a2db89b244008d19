// SPDX-License-Identifier: Apache-2.0

package import ArgumentParser
import Foundation
import FreshetService
import JSON
import ReloadWorkers
import ServiceLifecycle
import WidgetModel

package struct PreviewCommand: AsyncParsableCommand {
    package static let configuration = CommandConfiguration(
        commandName: "preview",
        abstract: "Serves a page with all kinds and families of a provider under development.",
        discussion: """
            Asks the provider for the timelines of all kinds and families at intervals, and shows their entries on a \
            time axis, with the variants of content for light and dark side by side. A slider shows what is shown at a time. The page \
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

    package init() {}

    package func validate() throws {
        guard interval >= .milliseconds(200) else { throw ValidationError("--interval: expected 200ms or more") }
    }

    package func run() async throws {
        let settings = try ProviderTrial.settings(options.settings)
        let environment = try environment.model()
        let logger = settings.logger(label: "freshet.preview")
        try await ProviderTrial.withKinds(of: options, logger: logger) { kinds in
            try await settings.withProviderClient { client in
                let trial = ProviderTrial(client: client, maximumResponseBytes: settings.workers.maximumResponseBytes)
                try await serve(kinds, trial, environment, settings)
            }
        }
    }

    private func serve(
        _ kinds: [TrialKind], _ trial: ProviderTrial, _ environment: WidgetEnvironment, _ settings: Settings
    ) async throws {
        let logger = settings.logger(label: "freshet.preview")
        let user = options.users[0]
        let widgets = kinds.flatMap { kind in
            kind.definition.families.map { family in
                let subject = TrialSubject(
                    kind, user: user, family: family, environment: environment, configuration: .empty)
                return PreviewWidget(kind: kind.definition, subject: subject)
            }
        }
        let listening = ListeningPort()
        let server = PreviewServer(
            widgets, host: host, port: port, timeZone: environment.timeZone,
            lead:
                "For \(user), \(environment.locale), \(environment.timeZone); asked every \(interval.words).",
            logger: logger, onListening: listening.listens(on:))
        let announcer = BackgroundService("announcer") { [host] in
            let port = try await listening.wait()
            Terminal.printLine([
                "pid": .count(ProcessInfo.processInfo.processIdentifier), "port": .count(port),
                "url": .string("http://\(host.contains(":") ? "[\(host)]" : host):\(port)/"),
            ])
            try await gracefulShutdown()
        }
        let service = listening.service("preview", at: "the preview on \(host):\(port) (--host, --port)", server)
        let polling = BackgroundService("poller") { [interval] in
            try await server.poll(trial, kinds, every: interval)
        }
        try await Program.run([polling, service, announcer], logger: logger)
    }
}
