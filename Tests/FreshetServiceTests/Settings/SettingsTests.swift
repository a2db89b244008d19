// SPDX-License-Identifier: Apache-2.0

import Foundation
import Logging
import ReloadWorkers
import TestSupport
import Testing
import WidgetAPI

@testable import FreshetService

@Suite("Settings", .timeLimit(.patience))
struct SettingsTests {
    /// Loads settings with `files` in a temporary folder; `configurationFile` is one of their names.
    private func load(
        flags: [String: String] = [:], files: [String: String] = [:], configurationFile: String? = nil,
        environment: [String: String] = [:], requiring required: [String] = []
    ) throws -> LoadedSettings {
        try TemporaryFolder.with { folder in
            for (name, text) in files { try Data(text.utf8).write(to: folder.appending(path: name)) }
            return try LoadedSettings(
                flags: flags, configurationFile: configurationFile.map { folder.appending(path: $0).path },
                environment: environment, requiring: required
            ).checked()
        }
    }

    @Test func nothingGivenMeansDefaults() throws {
        let loaded = try load()
        #expect(loaded.settings.texts == Settings().texts)
        #expect(loaded.places.isEmpty)
        #expect(loaded.warnings.isEmpty)
        #expect(loaded.rows.count == SettingKey.all.count)
        #expect(loaded.rows.allSatisfy { $0.place == "default" })
    }

    @Test func defaultsAreSafe() {
        let settings = Settings()
        #expect(settings.api.host == "127.0.0.1")
        #expect(settings.providers.allowPrivateNetworks.isEmpty)
        #expect(settings.kafka.deliveryTimeout < settings.workers.lease)
        let inputs = ["freshet.pushes", "freshet.app-changes", "freshet.widgets", "freshet.donations"]
        #expect(settings.topics.inputs == inputs)
    }

    @Test func defaultsPassTheirOwnChecks() throws {
        for key in SettingKey.all {
            guard let text = key.defaultText, !text.isEmpty else { continue }
            var settings = Settings()
            #expect(throws: Never.self, "\(key.name)") { try key.assign(&settings, text) }
            #expect(settings.texts == Settings().texts, "\(key.name)")
        }
    }

    @Test func namesOfVariablesAreInCapitals() {
        for name in SettingKey.knownNames {
            let variable = SettingKey.environmentName(of: name)
            #expect(variable.wholeMatch(of: /FRESHET(_[A-Z0-9]+)+/) != nil, "\(variable)")
        }
        #expect(SettingKey.environmentName(of: "postgres.url") == "FRESHET_POSTGRES_URL")
        #expect(SettingKey.environmentName(of: "workers.graceTime") == "FRESHET_WORKERS_GRACE_TIME")
        #expect(Set(SettingKey.knownNames).count == SettingKey.knownNames.count)
    }

    private func loadAllSources() throws -> LoadedSettings {
        let file = """
            api: {host: file, port: 1}
            kafka.group: file
            workers:
              lease: 40s
              concurrency: 7
            """
        return try load(
            flags: ["api.port": "3"], files: ["f.yaml": file], configurationFile: "f.yaml",
            environment: ["FRESHET_API_PORT": "2", "FRESHET_KAFKA_GROUP": "environment"])
    }

    @Test func laterSourcesOverrideEarlierOnes() throws {
        let settings = try loadAllSources().settings
        #expect(settings.api.port == 3)
        #expect(settings.kafka.group == "environment")
        #expect(settings.workers.lease == .seconds(40))
        #expect(settings.workers.concurrency == 7)
        #expect(settings.api.host == "file")
        #expect(settings.workers.graceTime == .seconds(20))
    }

    @Test("The place of each setting is known, except of defaults")
    func places() throws {
        let loaded = try loadAllSources()
        #expect(loaded.places["api.port"] == "the option for api.port")
        #expect(loaded.places["kafka.group"] == "FRESHET_KAFKA_GROUP")
        #expect(loaded.places["workers.lease"]?.hasSuffix("f.yaml:4:10") == true)
        #expect(loaded.places["workers.graceTime"] == nil)
    }

    @Test func jsonAndYAMLSayTheSame() throws {
        let yaml = """
            role: workers
            log: {level: debug, format: json}
            providers:
              allowPrivateNetworks: [10.0.0.0/8, "*.internal"]
            kafka:
              bootstrapServers: "a:1,b:2"
              properties:
                security.protocol: SASL_SSL
                sasl: {username: me, password: "x,y\\\\z"}
                socket.keepalive.enable: true
            """
        let json = """
            {"role": "workers", "log": {"level": "debug", "format": "json"},
             "providers": {"allowPrivateNetworks": ["10.0.0.0/8", "*.internal"]},
             "kafka": {"bootstrapServers": "a:1,b:2", "properties": {
               "security.protocol": "SASL_SSL", "sasl.username": "me", "sasl.password": "x,y\\\\z",
               "socket.keepalive.enable": true}}}
            """
        let fromYAML = try load(files: ["f.yml": yaml], configurationFile: "f.yml").settings
        let fromJSON = try load(files: ["f.json": json], configurationFile: "f.json").settings
        #expect(fromYAML.texts == fromJSON.texts)
        #expect(fromYAML.role == .workers)
        #expect(fromYAML.logLevel == .debug && fromYAML.logFormat == .json)
        #expect(fromYAML.providers.allowPrivateNetworks == ["10.0.0.0/8", "*.internal"])
        #expect(
            fromYAML.kafka.properties == [
                "security.protocol": "SASL_SSL", "sasl.username": "me", "sasl.password": #"x,y\z"#,
                "socket.keepalive.enable": "true",
            ])
    }

    @Test func fileIsNamedByTheEnvironmentUnlessByAnOption() throws {
        try TemporaryFolder.with { folder in
            let one = folder.appending(path: "one.yaml")
            let two = folder.appending(path: "two.yaml")
            try Data("api.port: 1".utf8).write(to: one)
            try Data("api.port: 2".utf8).write(to: two)
            let environment = ["FRESHET_CONFIG_FILE": one.path]
            let named = try LoadedSettings(environment: environment).checked()
            #expect(named.settings.api.port == 1)
            #expect(named.warnings.isEmpty)
            let option = try LoadedSettings(configurationFile: two.path, environment: environment).checked()
            #expect(option.settings.api.port == 2)
        }
    }

    @Test func propertiesOfAllSourcesAddUp() throws {
        let loaded = try load(
            flags: ["kafka.properties": "c=flag"],
            files: ["f.yaml": "kafka: {properties: {a: file, b: file, c: file}}"], configurationFile: "f.yaml",
            environment: ["FRESHET_KAFKA_PROPERTIES": #"b=environment, d=1\,2=3"#])
        #expect(
            loaded.settings.kafka.properties == ["a": "file", "b": "environment", "c": "flag", "d": "1,2=3"])
    }

    @Test func secretsComeFromFiles() throws {
        let loaded = try load(
            files: [
                "f.yaml": "postgres: {urlFile: url.txt}\nkafka: {propertiesFile: kafka.properties}",
                "url.txt": "postgresql://me:secret@db/freshet\n",
                "kafka.properties": "# comment\n\nsasl.password = a=b,c \nsasl.username=me\n",
            ], configurationFile: "f.yaml")
        #expect(loaded.settings.postgres.url == "postgresql://me:secret@db/freshet")
        #expect(loaded.settings.kafka.properties["sasl.username"] == "me")
        #expect(loaded.settings.kafka.properties["sasl.password"] == "a=b,c")
        #expect(loaded.places["postgres.url"]?.hasSuffix("f.yaml:1:21") == true)
    }

    @Test func secretsAreNotShown() throws {
        let loaded = try load(
            flags: ["kafka.properties": "sasl.password=hunter2,ssl.ca.location=x"],
            environment: ["FRESHET_POSTGRES_URL": "postgresql://me:hunter2@db/freshet"])
        let rows = loaded.rows
        #expect(rows.first { $0.name == "postgres.url" }?.value == "<redacted>")
        #expect(
            rows.first { $0.name == "kafka.properties" }?.value == "sasl.password=<redacted>,ssl.ca.location=<redacted>"
        )
        #expect(!rows.contains { $0.value?.contains("hunter2") == true })
        var dumped = ""
        dump(loaded.settings, to: &dumped)
        #expect(!dumped.contains("hunter2"))
        #expect(!"\(loaded.settings)".contains("hunter2"))
        // Settings that are not given are not shown as hidden.
        let nothing = try load().rows
        #expect(nothing.first { $0.name == "postgres.url" }?.value == nil)
        #expect(nothing.first { $0.name == "kafka.properties" }?.value?.isEmpty == true)
    }

    @Test func warnsOfVariablesThatNameNothing() throws {
        let loaded = try load(environment: [
            "FRESHET_KAFKA_BOOTSTRAPSERVERS": "x", "FRESHET_TEST_DATABASE": "x", "FRESHET_SWIFT_BIN": "x", "HOME": "/",
            "FRESHET_POSTGRES_BIN": "x",
        ])
        #expect(
            loaded.warnings == [
                "the environment variable FRESHET_KAFKA_BOOTSTRAPSERVERS names no setting; "
                    + "did you mean \"FRESHET_KAFKA_BOOTSTRAP_SERVERS\"?"
            ])
    }

    @Test func theSampleFileIsValid() throws {
        let path = try #require(Repository.path("deploy/samples/freshet.yaml"))
        let loaded = try LoadedSettings(
            configurationFile: path, environment: [:], requiring: ["postgres.url", "kafka.bootstrapServers"]
        ).checked()
        #expect(loaded.settings.providers.allowPrivateNetworks == ["127.0.0.1/32", "::1"])
        #expect(loaded.settings.kafka.bootstrapServers == "127.0.0.1:9092")
    }
}

extension Settings {
    /// Every setting as text.
    fileprivate var texts: [String?] { SettingKey.all.map { $0.write(self) } }
}
