// SPDX-License-Identifier: Apache-2.0

import Foundation
import JSON
import TestSupport
import Testing
import WidgetAPI
import WidgetModel

@testable import FreshetService
@testable import SampleProvider

@Suite("Manifest", .timeLimit(.patience))
struct ManifestTests {
    @Test func readsEveryField() throws {
        let manifest = try Manifest.read(
            text: """
                app: com.example.bank
                developerMode: true
                provider: {url: "https://widgets.example.com/bank/"}
                kinds:
                  - name: RecentPurchases
                    displayName: Recent purchases
                    description: What you bought last.
                    families: [systemMedium, systemSmall]
                    sharing: shared
                    variesBy: [timeZone, family]
                    provider: {url: http://other.example.com:9000}
                    maxBatch: 50
                    timeout: 250ms
                    minimumSpacing: 1m
                    budget: {minimum: 4, maximum: 40}
                    placeholder: {card: "Acme", amounts: [1, 2.5, -3e2], paid: true, note: null}
                    volatileFields: [/generatedAt, /a~1b/0]
                    accentColor: AccentGreen
                    backgroundColor: WidgetBackground
                    dormantAfter: 7d
                    freshnessObjective: 45s
                """,
            file: "kinds.yaml", environment: [:])
        let kind = KindDefinition(
            name: "RecentPurchases", displayName: "Recent purchases", description: "What you bought last.",
            families: [.systemSmall, .systemMedium], sharing: .shared, variesBy: [.family, .timeZone],
            providerURL: "http://other.example.com:9000", maxBatch: 50, timeout: .milliseconds(250),
            minimumSpacing: .seconds(60), dailyBudget: DailyBudget(minimum: 4, maximum: 40),
            placeholder: try JSONValue.parse(#"{"card":"Acme","amounts":[1,2.5,-3e2],"paid":true,"note":null}"#),
            volatileFields: ["/generatedAt", "/a~1b/0"], accentColor: "AccentGreen",
            backgroundColor: "WidgetBackground", dormantAfter: .seconds(7 * 86_400), freshnessObjective: .seconds(45))
        #expect(
            manifest.map(\.definition)
                == [AppDefinition(name: "com.example.bank", developerMode: true, kinds: [kind])])
        #expect(manifest.allSatisfy { $0.signingSecret == nil })
        #expect(KindDefinition.validate(kind.json()) == (kind, []))
    }

    @Test func leavesDefaultsToTheModel() throws {
        let manifest = try Manifest.read(
            text: """
                app: com.example.bank
                provider: {url: "https://widgets.example.com/bank/"}
                kinds:
                  - {name: DueDate, placeholder: {}}
                """,
            file: "kinds.yaml", environment: [:])
        let kind = KindDefinition(
            name: "DueDate", displayName: "DueDate", description: "", families: WidgetFamily.allCases,
            sharing: .perUser, variesBy: .all, providerURL: "https://widgets.example.com/bank", maxBatch: 100,
            timeout: .seconds(10), minimumSpacing: .seconds(300), dailyBudget: nil, placeholder: [:],
            volatileFields: [], dormantAfter: .seconds(14 * 86_400))
        #expect(
            manifest.map(\.definition)
                == [AppDefinition(name: "com.example.bank", developerMode: false, kinds: [kind])])
    }

    @Test func everyDocumentIsAnApp() throws {
        let manifest = try Manifest.read(
            text: """
                app: com.example.one
                provider: {url: "http://one.example.com"}
                kinds: [{name: A, placeholder: {}}]
                ---
                app: com.example.two
                provider: {url: "http://two.example.com"}
                kinds: [{name: A, placeholder: {}}, {name: B, variesBy: [], placeholder: [1]}]
                ---
                """,
            file: "kinds.yaml", environment: [:])
        #expect(manifest.map(\.definition.name) == ["com.example.one", "com.example.two"])
        #expect(manifest[1].definition.kinds.map(\.name) == ["A", "B"])
        #expect(manifest[1].definition.kinds[1].variesBy == [])
    }

    @Test func theSamplesAreWhatTheSampleProviderServes() throws {
        let path = try #require(Repository.path("deploy/samples/kinds.yaml"))
        let manifest = try Manifest.read(path: path, environment: [:])
        let kinds = manifest.flatMap(\.definition.kinds)
        #expect(
            manifest.map(\.definition.name)
                == SampleApp.allCases.filter { !$0.kinds.isEmpty }.map { "com.example.\($0)" })
        #expect(kinds.map(\.name) == SampleApp.allCases.flatMap(\.kinds))
        #expect(
            manifest.flatMap { app in app.definition.kinds.map(\.providerURL) }
                == SampleApp.allCases.flatMap { app in
                    app.kinds.map { _ in "http://127.0.0.1:8090/\(app.rawValue)" }
                })
        #expect(manifest.allSatisfy { !$0.definition.developerMode })
        #expect(kinds.allSatisfy { $0.minimumSpacing == .zero })
        #expect(kinds.map(\.intent) == SampleApp.definitions(port: 1).flatMap(\.kinds).map(\.intent))
        let weather = try #require(kinds.first { $0.name == "Weather" })
        #expect(weather.sharing == .shared)
        #expect(weather.variesBy == [])
    }

    @Test func fileThatIsNotThereIsOneProblem() {
        let path = "/nowhere/kinds.yaml"
        let error = #expect(throws: ManifestError.self) { try Manifest.read(path: path, environment: [:]) }
        #expect(error?.description == "\(path): the file \(path) cannot be read: there is no such file")
    }

    // MARK: Signing secrets

    private static let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

    private func read(secret: String, environment: [String: String], folder: String = ".") throws -> [Manifest] {
        try Manifest.read(
            text: """
                app: com.example.bank
                provider: {url: "http://one.example.com"}
                signingSecret: \(secret)
                kinds: [{name: A, placeholder: {}}]
                """,
            file: "kinds.yaml", folder: folder, environment: environment)
    }

    @Test func secretComesFromTheEnvironment() throws {
        let manifest = try read(secret: "{environment: BANK}", environment: ["BANK": Self.secret + "\n"])
        #expect(manifest[0].signingSecret?.exposed == Self.secret)
        #expect(manifest[0].signingSecret?.bytes.count == 24)
    }

    @Test func secretComesFromAFileBesideTheManifest() throws {
        try TemporaryFolder.with { folder in
            try Data(Self.secret.utf8).write(to: folder.appending(path: "bank.secret"))
            let manifest = try read(secret: "{file: bank.secret}", environment: [:], folder: folder.path)
            #expect(manifest[0].signingSecret == SigningSecret(Self.secret))
        }
    }

    @Test func secretIsNeverPrinted() throws {
        let manifest = try read(secret: "{environment: BANK}", environment: ["BANK": Self.secret])
        let secret = try #require(manifest[0].signingSecret)
        var dumped = ""
        dump(manifest, to: &dumped)
        for text in ["\(secret)", String(reflecting: secret), "\(manifest)", dumped] {
            #expect(!text.contains("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"))
            #expect(!text.contains("\(secret.bytes[0]), \(secret.bytes[1])"))
        }
    }

    @Test(arguments: [
        ("{environment: BANK}", [:], "the environment variable BANK is not set"),
        (
            "{environment: BANK}", ["BANK": "whsec_short"],
            "the environment variable BANK holds no signing secret"
        ),
        ("{environment: BANK}", ["BANK": "plain text"], "the environment variable BANK holds no signing secret"),
        ("{file: nowhere}", [:], "cannot be read: there is no such file"),
        ("{file: a, environment: B}", [:], "does not name exactly one place"),
        ("{}", [:], "does not name exactly one place"),
        (secret, [:], "the secret itself does not belong in a manifest"),
    ])
    func secretThatCannotBeUsed(text: String, environment: [String: String], expected: String) {
        let error = #expect(throws: ManifestError.self) { try read(secret: text, environment: environment) }
        #expect(error?.problems.count == 1)
        #expect(error?.problems.first?.location.map { $0 == (3, 16) } == true)
        #expect(error?.description.contains("kinds.yaml:3:16: signingSecret: ") == true)
        #expect(error?.description.contains(expected) == true, "\(error?.description ?? "")")
        #expect(error?.description.contains(Self.secret) == false)
        for value in environment.values { #expect(error?.description.contains(value) == false) }
    }
}
