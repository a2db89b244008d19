// SPDX-License-Identifier: Apache-2.0

import FreshetService
import JSON
import WidgetModel

extension Fuzzer {
    private static let configurations: [[UInt8]] = [
        "{}", #"{"card":"acme","limits":[1,"two",null],"on":true}"#, #"{"é":"😀","\u0041":1e2,"z":-0.0,"a":[]}"#,
        #"{"number":9007199254740992,"small":5e-324,"text":"line\nbreak / \\ \""}"#,
    ].map { Array($0.utf8) }

    func configuration(_ random: inout InputGenerator) throws(FuzzFinding) -> FuzzOutcome {
        let bytes = random.json(of: Self.configurations)
        recorder?.note(bytes)
        let configuration: WidgetConfiguration
        do throws(ModelError) {
            configuration = try WidgetConfiguration(json: bytes)
        } catch {
            try Self.check(error, of: bytes.count)
            return FuzzOutcome(refused: bytes.count, as: "refused")
        }
        try Self.checkCanonical(configuration)
        return FuzzOutcome(accepted: bytes.count)
    }

    func json(_ random: inout InputGenerator) throws(FuzzFinding) -> FuzzOutcome {
        let bytes = random.json(of: Self.configurations + corpus.events.map(\.data))
        recorder?.note(bytes)
        let value: JSONValue
        do throws(JSONError) {
            value = try JSONValue.parse(bytes)
        } catch {
            try Self.check(error, of: bytes.count)
            return FuzzOutcome(refused: bytes.count, as: "\(error.kind)")
        }
        let canonical = value.canonicalBytes
        try Self.expect(
            try Self.canonicalised(bytes) == canonical, "its canonical form is another when it is written in one pass")
        let again: JSONValue
        do throws(JSONError) {
            again = try JSONValue.parse(canonical)
        } catch {
            throw FuzzFinding("its canonical form is refused: \(error)")
        }
        try Self.expect(again.canonicalBytes == canonical, "the canonical form is not stable")
        return FuzzOutcome(accepted: bytes.count)
    }

    /// Returns the canonical form as stored, computed without a tree.
    private static func canonicalised(_ bytes: [UInt8]) throws(FuzzFinding) -> [UInt8] {
        var reader = JSONReader(bytes)
        var out: [UInt8] = []
        do throws(JSONError) {
            try reader.canonicalize(into: &out)
            try reader.finish()
        } catch {
            throw FuzzFinding("accepted as a tree, and refused otherwise: \(error)")
        }
        return out
    }

    private static let times: [[UInt8]] = [
        "2026-06-22T10:00:00Z", "2020-02-29t23:59:60.123456789+23:59", "0001-01-01T00:00:00-00:00",
        "9999-12-31T23:59:59.999999Z", "9999-12-31T23:59:00-00:01", "0001-01-01T00:01:00+00:01",
        "2026-06-22 10:00:00+02:00",
    ].map { Array($0.utf8) }

    func timestamp(_ random: inout InputGenerator) throws(FuzzFinding) -> FuzzOutcome {
        var bytes = random.any(Self.times)
        if random.chance(3, of: 4) {
            // Replaces digits only, so that many results are valid dates.
            for _ in 0...random.below(3) {
                let index = random.below(bytes.count)
                bytes[index] = random.any(Array("0123456789".utf8) + Array("T:Z+-. ".utf8))
            }
        } else {
            bytes = random.mutated(bytes, with: Self.times)
        }
        recorder?.note(bytes)
        let text = String(decoding: bytes, as: UTF8.self)
        guard let time = Timestamp(rfc3339: text) else { return FuzzOutcome(refused: bytes.count, as: "refused") }
        try Self.expect(
            Timestamp(rfc3339: time.rfc3339) == time, "\(text.debugDescription) is \(time), and not that again")
        return FuzzOutcome(accepted: bytes.count)
    }

    func manifest(_ random: inout InputGenerator) throws(FuzzFinding) -> FuzzOutcome {
        let bytes = random.yaml(of: corpus.manifests)
        recorder?.note(bytes)
        guard let text = String(validating: bytes, as: UTF8.self) else {
            return FuzzOutcome(refused: bytes.count, as: "invalidUTF8")
        }
        let manifest: [Manifest]
        do throws(ManifestError) {
            manifest = try Manifest.read(text: text, file: "fuzz.yaml", environment: [:])
        } catch {
            try Self.check(error, of: text)
            return FuzzOutcome(refused: bytes.count, as: "refused")
        }
        try Self.expect(!manifest.isEmpty, "a manifest of nothing was accepted")
        for app in manifest {
            try Self.expect(AppDefinition.isBundleIdentifier(app.definition.name), "the app \(app.definition.name)")
            try Self.expect(!app.definition.kinds.isEmpty, "an app without kinds was accepted")
        }
        return FuzzOutcome(accepted: bytes.count)
    }

    func intents(_ random: inout InputGenerator) throws(FuzzFinding) -> FuzzOutcome {
        let file = IntentFile(&random)
        var bytes = file.definition
        if random.chance(1, of: 2) { bytes = random.mutated(bytes, with: [bytes]) }
        var strings = file.strings
        if random.chance(1, of: 4) { strings["de"] = strings["de"].map { random.mutated($0, with: [$0]) } }
        recorder?.note(bytes)
        let intents: XcodeIntents
        do throws(CommandFailure) {
            intents = try XcodeIntents(bytes, strings: strings)
        } catch {
            try Self.check(message: error.message, pointer: nil, of: bytes.count)
            return FuzzOutcome(refused: bytes.count, as: "refused")
        }
        for notice in intents.notices { try Self.check(message: notice, pointer: nil, of: bytes.count) }
        guard !intents.intents.isEmpty else { return FuzzOutcome(refused: bytes.count, as: "noIntent") }
        let manifest: [Manifest]
        do {
            let json = try intents.manifest(app: "app", provider: "https://localhost", placeholder: [:])
            manifest = try Manifest.read(text: json.yaml(), file: "fuzz.yaml", environment: [:])
        } catch {
            throw FuzzFinding("the manifest cannot be applied: \(error)")
        }
        try Self.expect(
            manifest.flatMap(\.definition.kinds).map(\.intent) == intents.intents.map(\.definition),
            "the manifest has other intents")
        return FuzzOutcome(accepted: bytes.count)
    }

    private static func check(_ error: ManifestError, of text: String) throws(FuzzFinding) {
        try expect(!error.problems.isEmpty, "refused without a reason")
        let lines =
            text.utf8.count { $0 == 0x0A || $0 == 0x0D }
            + text.unicodeScalars.count { $0.value == 0x85 || $0.value >> 1 == 0x1014 }
        for problem in error.problems {
            try expect(
                problem.message.utf8.count <= 4 * maximumMessageBytes,
                "a message of \(problem.message.utf8.count) bytes: \(problem.message.prefix(100))")
            guard let location = problem.location else { continue }
            try expect((0...lines + 3).contains(location.line), "line \(location.line) of \(lines)")
        }
    }
}
