// SPDX-License-Identifier: Apache-2.0

import Crypto
import Foundation
import JSON
import Randomness
import WidgetModel

/// A requested timeline, snapshot or placeholder.
struct SampleRequest: Sendable {
    var id = ""
    var kind = ""
    var family = ""
    /// The parameters of the configuration that are strings.
    var parameters: [String: String] = [:]
    /// Those that are arrays of strings.
    var lists: [String: [String]] = [:]
    /// IANA name; nil for a kind that does not vary by it.
    var timeZone: String?
    /// Hash of the requested content: kind, family, configuration, environment and user.
    var identity: UInt64 = 0
}

extension SampleRequest {
    /// Most requests in a batch, which is also the most that a manifest can set.
    static let maximumBatch = 1_000

    /// Reads the body of a request to a provider, `{"requests": [{"id": …, "kind": …, …}]}`, or, where all are of one
    /// kind, `{"kind": …, "requests": [{"id": …, …}]}`. Unknown members are ignored.
    static func batch(_ bytes: [UInt8], app: SampleApp) throws(JSONError) -> [SampleRequest] {
        var reader = JSONReader(bytes)
        var requests: [SampleRequest] = []
        var kind = ""
        try reader.beginObject()
        while let key = try reader.nextKey() {
            switch key {
            case "kind": kind = try reader.string()
            case "requests":
                try reader.beginArray()
                while try reader.nextElement() {
                    guard requests.count < maximumBatch else {
                        throw JSONError(
                            kind: .invalidValue, message: "more than \(maximumBatch) requests",
                            byteOffset: reader.position, pointer: "/requests")
                    }
                    requests.append(try SampleRequest(reader: &reader, bytes: bytes))
                }
            default: try reader.skip()
            }
        }
        try reader.finish()
        for index in requests.indices { try requests[index].complete(index, kind: kind, app: app) }
        return requests
    }

    /// Checks the required members, and adds app and kind to the identity.
    ///
    /// - Parameters:
    ///   - index: the request's place in the batch.
    ///   - defaultKind: kind of a request that does not name one.
    private mutating func complete(_ index: Int, kind defaultKind: String, app: SampleApp) throws(JSONError) {
        if kind.isEmpty { kind = defaultKind }
        for (name, value) in [("id", id), ("kind", kind)] where value.isEmpty {
            throw JSONError(
                kind: .invalidValue, message: "\(name) is missing", byteOffset: 0, pointer: "/requests/\(index)/\(name)"
            )
        }
        identity = SeededGenerator.mix(identity &+ SeededGenerator.hash("\(app.rawValue)/\(kind)".utf8))
    }
}

extension [SampleRequest] {
    /// The content of each request's kind; nil when the app does not have one of the kinds.
    func contents(of app: SampleApp) -> [SampleContent]? {
        let contents = compactMap { app.content(of: $0.kind) }
        return contents.count == count ? contents : nil
    }
}

extension SampleRequest {
    fileprivate init(reader: inout JSONReader, bytes: [UInt8]) throws(JSONError) {
        try reader.beginObject()
        while let key = try reader.nextKey() {
            switch key {
            case "id": id = try reader.string()
            case "kind": kind = try reader.string()
            case "family":
                family = try reader.optionalString() ?? ""
                mixIn("family", family.utf8)
            case "configuration":
                guard try !reader.takeNull() else { continue }
                try readConfiguration(&reader, bytes: bytes)
            case "environment":
                let range = try reader.skip()
                mixIn("environment", bytes[range])
                timeZone = (try? JSONValue.parse(bytes, in: range))?["timeZone"]?.stringValue
            case "user": mixIn("user", try reader.optionalString()?.utf8 ?? "".utf8)
            default: try reader.skip()
            }
        }
    }

    private mutating func readConfiguration(_ reader: inout JSONReader, bytes: [UInt8]) throws(JSONError) {
        try reader.beginObject()
        while let key = try reader.nextKey() {
            let name = reader.text(of: key)
            if try reader.peek() == .string {
                let value = try reader.string()
                parameters[name] = value
                mixIn(name, value.utf8)
            } else {
                let range = try reader.skip()
                mixIn(name, bytes[range])
                guard bytes[range].first == UInt8(ascii: "[") else { continue }
                lists[name] = try JSONValue.parse(bytes, in: range).arrayValue?.compactMap(\.stringValue)
            }
        }
    }

    /// Adds a field to the identity; the order of the fields makes no difference.
    private mutating func mixIn(_ name: String, _ value: some Sequence<UInt8>) {
        identity &+= SeededGenerator.mix(SeededGenerator.hash(name.utf8) ^ (SeededGenerator.hash(value) &* 3))
    }
}

extension JSONReader {
    /// A string, or nil for `null`.
    fileprivate mutating func optionalString() throws(JSONError) -> String? {
        try takeNull() ? nil : try string()
    }
}

extension SampleRequest {
    /// Largest difference of the clocks, and the time for which a request can be replayed.
    private static let tolerance = Duration.seconds(300)

    /// Reason why a request is not trusted; nil if it is signed with the key by Standard Webhooks, scheme `v1`
    /// (HMAC-SHA256 over `id.timestamp.body`), and its time is near `now`.
    ///
    /// - Parameter signature: `v1,BASE64` once or more, separated by spaces: several while a secret is being replaced.
    static func signatureProblem(
        id: String?, timestamp: String?, signature: String?, body: [UInt8], key: SymmetricKey, now: Timestamp
    ) -> String? {
        guard let id, let timestamp, let signature else {
            return "webhook-id, webhook-timestamp or webhook-signature is missing"
        }
        guard let seconds = Int64(timestamp), (0...253_402_300_799).contains(seconds) else {
            return "webhook-timestamp is not a number of seconds"
        }
        let distance = Timestamp(microseconds: seconds * 1_000_000) - now
        guard distance <= Self.tolerance, distance >= .zero - Self.tolerance else {
            return "webhook-timestamp is more than five minutes off"
        }
        var content = Data("\(id).\(timestamp).".utf8)
        content.append(contentsOf: body)
        for part in signature.split(separator: " ") where part.hasPrefix("v1,") {
            guard let code = Data(base64Encoded: String(part.dropFirst(3))) else { continue }
            // Compares in constant time.
            if HMAC<SHA256>.isValidAuthenticationCode(code, authenticating: content, using: key) { return nil }
        }
        return "no signature matches"
    }
}

extension SeededGenerator {
    /// Returns a number of `range`. The distribution is not exactly uniform.
    mutating func integer(in range: ClosedRange<Int>) -> Int {
        range.lowerBound + Int(next() % UInt64(range.count))
    }

    mutating func pick<Element>(_ choices: [Element]) -> Element {
        choices[integer(in: 0...(choices.count - 1))]
    }

    /// A hash that is the same in every process, unlike `Hasher`'s (FNV-1a, mixed).
    static func hash(_ bytes: some Sequence<UInt8>) -> UInt64 {
        var hash: UInt64 = 0xCBF2_9CE4_8422_2325
        for byte in bytes { hash = (hash ^ UInt64(byte)) &* 0x0000_0100_0000_01B3 }
        return mix(hash)
    }
}
