// SPDX-License-Identifier: Apache-2.0

import Foundation
import TestSupport
import Testing

@testable import FreshetService

/// Messages about invalid settings; `DIR` stands for the folder of the files.
@Suite("Settings problems", .timeLimit(.patience))
struct SettingsProblemTests {
    private func problems(
        flags: [String: String] = [:], files: [String: String] = [:], configurationFile: String? = nil,
        environment: [String: String] = [:], requiring required: [String] = []
    ) throws -> [String] {
        try TemporaryFolder.with { folder in
            for (name, text) in files { try Data(text.utf8).write(to: folder.appending(path: name)) }
            let loaded = LoadedSettings(
                flags: flags, configurationFile: configurationFile.map { folder.appending(path: $0).path },
                environment: environment, requiring: required)
            return loaded.problems.map { "\($0)".replacing(folder.path, with: "DIR") }
        }
    }

    @Test func everythingIsSaidAtOnce() throws {
        let file = """
            api: {port: 99999}
            workers:
              leese: 1s
              concurrency: [1, 2]
              lease: 5 minutes
            log: loud
            role: wrokers
            """
        let said = try problems(
            flags: ["log.level": "loud"], files: ["f.yaml": file], configurationFile: "f.yaml",
            environment: ["FRESHET_TOPICS_PUSHES": "a b", "FRESHET_INGEST_MAXIMUM_BATCH": "many"],
            requiring: ["postgres.url", "kafka.bootstrapServers"])
        #expect(
            said == [
                "workers.leese: unknown setting; expected \"workers.lease\" (did you mean it?) (from DIR/f.yaml:3:3)",
                "workers.concurrency: is an array; expected one value (from DIR/f.yaml:4:16)",
                "log: is a string; expected a mapping of settings (from DIR/f.yaml:6:6)",
                "role: \"wrokers\" is not allowed; expected ingest, workers, delivery, api, all (from DIR/f.yaml:7:7)",
                "topics.pushes: \"a b\" is not allowed; expected 1 to 249 letters, digits, dots, underscores or "
                    + "hyphens (from FRESHET_TOPICS_PUSHES)",
                "ingest.maximumBatch: \"many\" is not a whole number; expected 1 to 100000 "
                    + "(from FRESHET_INGEST_MAXIMUM_BATCH)",
                "workers.lease: \"5 minutes\" is not a duration such as 250ms, 10s, 5m, 1h or 14d; expected 1s to 1h "
                    + "(from DIR/f.yaml:5:10)",
                "api.port: \"99999\" is out of range; expected 0 to 65535 (from DIR/f.yaml:1:13)",
                "log.level: \"loud\" is not allowed; expected trace, debug, info, notice, warning, error, critical "
                    + "(from the option for log.level)",
                "postgres.url: is not set: give it as FRESHET_POSTGRES_URL, or in the configuration file; expected "
                    + "a libpq URI or keyword=value string, such as postgresql://freshet@db.example.com/freshet",
                "kafka.bootstrapServers: is not set: give it as FRESHET_KAFKA_BOOTSTRAP_SERVERS, or in the "
                    + "configuration file; expected host:port, separated by commas",
            ])
    }

    @Test func anOverriddenValueMayBeInvalid() throws {
        let said = try problems(
            flags: ["api.port": "1"], files: ["f.yaml": "api.port: none"], configurationFile: "f.yaml")
        #expect(said.isEmpty)
    }

    @Test(arguments: [
        ("f.toml", "", "unknown format of the configuration file; expected a name that ends in .yaml, .yml or .json"),
        ("f.json", "{\"a\": 1", "invalid YAML"),
        ("f.json", "[1]", "is an array; expected a mapping of settings"),
        ("f.json", "{\"api\": {\"prot\": 1}}", "api.prot: unknown setting; expected \"api.port\" (did you mean it?)"),
        ("f.yaml", "a: [", "invalid YAML"),
        ("f.yaml", "api.port: 1\n---\napi.port: 2", "a second YAML document; expected one document"),
        ("f.yaml", "api: {port: 1}\napi.port: 2", "api.port: is set twice; expected every setting once"),
        ("f.yaml", "whatever: 1", "expected one of those that `freshet config keys` lists"),
        ("f.yaml", "kafka: {properties: [a]}", "kafka.properties: is an array; expected a mapping of names to values"),
        ("f.yaml", "providers: {allowPrivateNetworks: {a: b}}", "is an object; expected a list of values"),
        ("f.yaml", "postgres: {urlFile: nowhere}", "postgres.urlFile: the file DIR/nowhere cannot be read: there is"),
        (
            "f.yaml", "postgres: {url: a, urlFile: b}",
            "postgres.url: is given both itself and as a file; expected one of them"
        ),
    ])
    func fileThatIsWrong(name: String, text: String, expected: String) throws {
        let said = try problems(files: [name: text], configurationFile: name)
        #expect(said.count == 1, "\(said)")
        #expect(said.first?.contains(expected) == true, "\(said)")
        #expect(said.first?.contains("DIR") == true, "\(said)")
    }

    @Test func fileThatIsNotThere() throws {
        #expect(
            try problems(configurationFile: "f.yaml") == [
                "the file DIR/f.yaml cannot be read: there is no such file"
            ])
    }

    @Test func secretsAreNotRepeated() throws {
        let said = try problems(
            files: ["f.yaml": "kafka: {propertiesFile: p}", "p": "hunter2"], configurationFile: "f.yaml",
            environment: ["FRESHET_POSTGRES_URL": "hunter2" + String(repeating: "x", count: 20_000)])
        #expect(said.count == 2)
        #expect(said.first?.hasPrefix("postgres.url: is not allowed") == true)
        #expect(said.last?.hasPrefix("kafka.properties: has a part that is not name=value") == true)
        #expect(!said.joined().contains("hunter2"))
    }

    @Test("A variable without a value is an error, which is reported once", arguments: ["", " \n"])
    func emptyVariables(blank: String) throws {
        let said = try problems(
            files: ["f.yaml": "kafka: {bootstrapServers: a}"], configurationFile: "f.yaml",
            environment: [
                "FRESHET_KAFKA_BOOTSTRAP_SERVERS": blank, "FRESHET_POSTGRES_URL_FILE": blank,
                "FRESHET_PROVIDERS_ALLOW_PRIVATE_NETWORKS": blank, "FRESHET_CONFIG_FILE": blank,
            ], requiring: ["postgres.url", "kafka.bootstrapServers"])
        #expect(
            said == [
                "postgres.urlFile: is set to nothing; expected a value, or no such variable "
                    + "(from FRESHET_POSTGRES_URL_FILE)",
                "kafka.bootstrapServers: is set to nothing; expected a value, or no such variable "
                    + "(from FRESHET_KAFKA_BOOTSTRAP_SERVERS)",
                "providers.allowPrivateNetworks: is set to nothing; expected a value, or no such variable "
                    + "(from FRESHET_PROVIDERS_ALLOW_PRIVATE_NETWORKS)",
                "config.file: is set to nothing; expected a value, or no such variable (from FRESHET_CONFIG_FILE)",
            ])
    }

    @Test("An embedded cluster requires the role all and excludes brokers")
    func embedded() throws {
        let required = ["kafka.bootstrapServers"]
        #expect(try problems(flags: ["kafka.embedded": "true"], requiring: required).isEmpty)
        #expect(try problems(flags: ["kafka.embedded": "false"], requiring: required).count == 1)
        #expect(
            try problems(
                flags: ["kafka.embedded": "true", "kafka.bootstrapServers": "a:1", "role": "workers"],
                requiring: required) == [
                    "kafka.embedded: \"true\" contradicts kafka.bootstrapServers; expected one of them "
                        + "(from the option for kafka.embedded)",
                    "kafka.embedded: \"true\" is for the role all: other processes cannot share the cluster (role is "
                        + "workers); expected kafka.bootstrapServers, perhaps of `freshet kafka` "
                        + "(from the option for kafka.embedded)",
                ])
    }

    @Test("the console needs a key and the keys of tokens, and only where the API runs")
    func console() throws {
        let enabled = try problems(flags: ["console.enabled": "true", "workers.lease": "many"])
        #expect(enabled.count == 3)
        #expect(enabled.contains { $0.hasPrefix("console.key: is not set, and console.enabled needs it") })
        #expect(enabled.contains { $0.hasPrefix("api.keys: is not set, and console.enabled needs it") })
        #expect(try problems(flags: ["console.enabled": "true", "role": "workers"]).isEmpty)
        let key = String(repeating: "A", count: 43) + "="
        let whole = ["console.enabled": "true", "console.key": key, "api.keys": "keys.json"]
        #expect(try problems(flags: whole).isEmpty)
        let short = try problems(flags: whole.merging(["console.key": "c2hvcnQ="]) { $1 })
        #expect(short.count == 1 && short[0].contains("base64 of 32 bytes") && !short[0].contains("c2hvcnQ="))
    }

    @Test func rulesBetweenSettings() throws {
        #expect(
            try problems(environment: ["FRESHET_WORKERS_LEASE": "5s"]) == [
                "kafka.deliveryTimeout: \"10s\" is not under the lease; expected less than workers.lease, "
                    + "which is 5s (from FRESHET_WORKERS_LEASE)"
            ])
        #expect(
            try problems(environment: ["FRESHET_DELIVERY_LEASE": "10s"]) == [
                "delivery.timeout: \"10s\" is over half the lease; expected at most half of delivery.lease, "
                    + "which is 10s (from FRESHET_DELIVERY_LEASE)"
            ])
        #expect(
            try problems(environment: ["FRESHET_TOPICS_WIDGETS": "freshet.pushes"]) == [
                "topics.widgets: \"freshet.pushes\" is also topics.pushes; expected a topic of its own "
                    + "(from FRESHET_TOPICS_WIDGETS)"
            ])
    }

    @Test func unknownOptionIsSaid() throws {
        let said = try problems(flags: ["api.prot": "1"])
        #expect(said == ["api.prot: unknown setting; expected api.port (from the options)"])
    }

    @Test(arguments: [
        "10.0.0.0/8", "127.0.0.1", "127.0.0.1/32", "::1", "fd00::/8", "localhost", "*.internal.example.com",
        "db_1.local",
    ])
    func networkPatterns(text: String) throws {
        #expect(try problems(flags: ["providers.allowPrivateNetworks": text]).isEmpty)
    }

    @Test(arguments: [
        "10.0.0.0/33", "::1/129", "10.0.0/8", "10.0.0.0/-1", "10.0.0.0/8/8", "10.0.0.999", "-a.example.com", "a..b",
        "http://localhost", "*", "a b", "10.0.0.0/",
    ])
    func notNetworkPatterns(text: String) throws {
        #expect(try problems(flags: ["providers.allowPrivateNetworks": text]).count == 1)
    }

    @Test(arguments: [
        ("localhost:9092", true), ("a:1,b:2", true), ("broker", true), ("[::1]:9092", true), ("SSL://a:1", true),
        ("a:0", false), ("a:99999", false), ("a:b", false), (",", false), ("a b:1", false), (":9092", false),
    ])
    func bootstrapServers(text: String, isValid: Bool) throws {
        let said = try problems(environment: ["FRESHET_KAFKA_BOOTSTRAP_SERVERS": text])
        #expect(said.isEmpty == isValid, "\(said)")
    }

    @Test(arguments: [
        ("a,b", ["a", "b"]), (" a , b ,", ["a", "b"]), ("", []), (#"a\,b,c"#, ["a,b", "c"]),
        (#"a\\,b"#, [#"a\"#, "b"]),
        (#"C:\x"#, [#"C:\x"#]), (#"a\"#, [#"a\"#]),
    ])
    func listsSplit(text: String, items: [String]) {
        #expect(SettingKey.split(text) == items)
        #expect(SettingKey.split(SettingKey.join(items)) == items)
    }
}
