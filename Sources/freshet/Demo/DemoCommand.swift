import ArgumentParser
import Foundation
import FreshetService
import Logging
import SampleProvider
import WidgetAPI
import WidgetModel

struct DemoCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "demo",
        abstract: "Shows the whole job at work: embedded Kafka, a sample provider, and every role in this process.",
        discussion: """
            Needs an empty PostgreSQL database (postgres.url); ./deploy/local/demo starts one. Places widgets, publishes \
            single, per-kind and global reloads and app changes for a while, shows what happens, and at the end reads \
            back from PostgreSQL, Kafka and the provider what was asked for and what was done. The exit code is 1 if \
            any requested reload is missing.

            Examples:
              freshet demo
              freshet demo --seconds 20 --widgets 5000
              freshet demo --keep
            """)

    @OptionGroup var plan: DemoPlan

    @OptionGroup var settings: SettingsOptions

    func run() async throws {
        var values = try settings.load(requiring: ["postgres.url"]).settings
        values.role = .all
        // Its own cluster, so that only the demo's events are counted.
        values.kafka.bootstrapServers = nil
        values.kafka.embedded = true
        values.api.port = 0
        values.providers.allowPrivateNetworks = ["127.0.0.0/8"]
        if !settings.assignments.contains(where: { $0.hasPrefix("log.level=") }) { values.log.level = .warning }
        let logger = values.log.logger()
        let outcome = RunOutcome()
        let devices = try await DemoDevices.start()
        defer { devices.removeFiles() }
        try devices.configure(&values)
        let token = plan.keep ? try await DemoConsole.configure(&values, in: devices.folder) : nil
        let demo = try Demo(
            plan: plan, settings: values, devices: devices, token: token, logger: logger, outcome: outcome)
        try await demo.prepare()
        try await Program.run(demo.services, logger: logger)
        switch outcome.lost {
        case nil: throw CommandFailure(.failure, "the demo was stopped before its end")
        case 0?: return
        case let lost?: throw CommandFailure(.failure, "\(lost) checks failed: see the summary")
        }
    }
}

struct DemoPlan: ParsableArguments {
    @Option(help: "Number of widgets to place.", transform: OptionText.number(1...1_000_000))
    var widgets = 20_000

    @Option(help: "Seconds for which events are published.", transform: OptionText.number(1...86_400))
    var seconds = 60

    @Option(help: "Single events published a second.", transform: OptionText.number(1...20_000))
    var rate = 1_000

    @Option(help: "Seed of the events and of the content.")
    var seed: UInt64 = 1

    @Flag(help: "Leave everything running afterwards, to publish by hand, until Ctrl-C.")
    var keep = false

    var world: SampleWorld { SampleWorld(widgets: widgets) }
}
