// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import Foundation
import FreshetService
import JSON
import Logging
import ReloadWorkers
import SampleProvider
import Synchronization
import WidgetAPI
import WidgetDelivery
import WidgetModel

struct DemoCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "demo",
        abstract: "Shows the whole service at work: embedded Kafka, a sample provider, and every role in this process.",
        discussion: """
            Needs an empty PostgreSQL database (postgres.url); ./deploy/local/demo starts one. Places widgets, publishes \
            single, per-kind and global reloads and app changes for a while, shows what happens, and at the end reads \
            back from PostgreSQL, Kafka and the provider what was asked for and what was done. Budgets and spacing hold, \
            registered devices fetch what they are notified of, and a tenth of the requests to one app's provider fail. \
            The exit code is 1 if any requested reload is missing.

            With --manifest the widgets are those of your kinds, 100 by default, with 10 events a second for 20 seconds; \
            the provider that the manifest names must run, and may be on this machine.

            Examples:
              freshet demo
              freshet demo --seconds 20 --widgets 5000
              freshet demo --keep
              freshet demo --keep --manifest hello/kinds.yaml
            """)

    @Option(
        help: ArgumentHelp("A manifest whose kinds take the place of the sample apps'.", valueName: "file"),
        completion: .file())
    var manifest: String?

    @Option(help: "Number of widgets to place; 20000 by default.", transform: OptionText.number(1...1_000_000))
    var widgets: Int?

    @Option(
        help: "Seconds for which events are published; 60 by default.", transform: OptionText.number(1...86_400))
    var seconds: Int?

    @Option(
        help: "Single events published a second; 1000 by default.", transform: OptionText.number(1...20_000))
    var rate: Int?

    @Option(help: "Seed of the events and of the content.")
    var seed: UInt64 = 1

    @Flag(help: "Leave everything running afterwards, to publish by hand, until Ctrl-C.")
    var keep = false

    @OptionGroup var settings: SettingsOptions

    func run() async throws {
        let manifest = try manifest.map {
            try Manifest.read(path: $0, environment: ProcessInfo.processInfo.environment)
        }
        if let manifest, manifest.allSatisfy(\.definition.kinds.isEmpty) {
            throw CommandFailure(.failure, "\(self.manifest ?? ""): expected at least one kind")
        }
        let isOwn = manifest != nil
        let plan = Demo.Plan(
            world: DemoWorld(widgets: widgets ?? (isOwn ? 100 : 20_000), manifest: manifest),
            seconds: seconds ?? (isOwn ? 20 : 60), rate: rate ?? (isOwn ? 10 : 1_000), seed: seed, keep: keep)
        var values = try settings.load(requiring: ["postgres.url"]).settings
        values.role = .all
        // Its own cluster, so that only the demo's events are counted.
        values.kafka.bootstrapServers = nil
        values.kafka.embedded = true
        values.api.port = 0
        values.providers.allowPrivateNetworks = ["127.0.0.0/8", "::1"]
        values.workers.publishDecisions = true
        if !settings.assignments.contains(where: { $0.hasPrefix("log.level=") }) {
            // The provider's failures are part of the demo, which the console shows.
            values.logLevel = .error
        }
        let logger = values.logger()
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("freshet-demo-\(String.randomID())")
        try FileManager.default.createDirectory(
            at: folder, withIntermediateDirectories: true, attributes: [.posixPermissions: 0o700])
        defer { try? FileManager.default.removeItem(at: folder) }
        let apns = try await APNsStandIn.start()
        try configureDelivery(&values, by: apns, of: plan.world.deviceApp, in: folder)
        let keys = try await configureAPI(&values, in: folder)
        let demo = try Demo(plan: plan, settings: values, folder: folder, apns: apns, keys: keys, logger: logger)
        try await demo.prepare()
        try await Program.run(demo.services, logger: logger)
        switch demo.failedChecks.withLock({ $0 }) {
        case nil: throw CommandFailure(.failure, "the demo was stopped before its end")
        case 0?: return
        case let lost?: throw CommandFailure(.failure, "\(lost) checks failed: see the summary")
        }
    }

    /// Creates the keys of the API and of its console, and sets what they need.
    private func configureAPI(_ settings: inout Settings, in folder: URL) async throws -> TokenKeys {
        let set: JSONValue = ["keys": .array([TokenKeys.makeKey(.hs256, id: "demo")])]
        let keys = folder.appendingPathComponent("keys.json")
        guard
            FileManager.default.createFile(
                atPath: keys.path, contents: Data(set.encoded), attributes: [.posixPermissions: 0o600])
        else { throw CommandFailure(.failure, "cannot write \(keys.path)") }
        settings.api.keys = keys.path
        settings.console.enabled = true
        settings.console.key = Data((0..<ConsoleKey.minimumBytes).map { _ in UInt8.random(in: 0...255) })
            .base64EncodedString()
        settings.console.links = ConsoleSignInLinks()
        return try await TokenKeys(jwks: set.encoded)
    }

    /// Sets the keys and the address of the stand-in for Apple's push service.
    private func configureDelivery(
        _ settings: inout Settings, by apns: APNsStandIn, of app: String, in folder: URL
    ) throws {
        let (key, roots) = (folder.appendingPathComponent("key.p8"), folder.appendingPathComponent("roots.pem"))
        try Data(APNsStandIn.makeKey().utf8).write(to: key)
        try Data(apns.certificatePEM.utf8).write(to: roots)
        let secret = Data((0..<DeviceTokenKeys.keyBytes).map { _ in UInt8.random(in: 0...255) })
        settings.delivery.tokenKeys = ["demo": secret.base64EncodedString()]
        settings.delivery.apnsKeys = [app: "TEAM/KEY/\(key.path)"]
        settings.delivery.apnsURL = apns.url
        settings.delivery.trustRoots = roots.path
        // A demo may run for long, and shows a push for each change that is not gathered with others.
        settings.delivery.service.policy.minimumSpacing = .seconds(5)
        settings.delivery.service.policy.dailyBudget = 100_000
    }
}
