import Crypto
import Foundation
import JSON
import Randomness
import WidgetModel

/// Body of a request to a provider.
struct SampleBatch: Sendable {
    var requests: [SampleRequest] = []
}

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

extension SampleBatch {
    /// Most requests in a batch, which is also the most that a manifest can set.
    static let maximumRequests = 1_000

    /// Reads `{"requests": [{"id": …, "kind": …, …}]}`, or, where all are of one kind,
    /// `{"kind": …, "requests": [{"id": …, …}]}`. Unknown members are ignored.
    static func parse(_ bytes: [UInt8], app: SampleApp) throws(JSONError) -> SampleBatch {
        var reader = JSONReader(bytes)
        var batch = SampleBatch()
        var kind = ""
        try reader.beginObject()
        while let key = try reader.nextKey() {
            switch key {
            case "kind": kind = try reader.string()
            case "requests":
                try reader.beginArray()
                while try reader.nextElement() {
                    guard batch.requests.count < maximumRequests else {
                        throw JSONError(
                            kind: .invalidValue, message: "more than \(maximumRequests) requests",
                            byteOffset: reader.position, pointer: "/requests")
                    }
                    batch.requests.append(try SampleRequest(reader: &reader, bytes: bytes))
                }
            default: try reader.skip()
            }
        }
        try reader.finish()
        return try batch.checked(kind: kind, app: app)
    }

    /// - Parameter kind: of the requests that do not name one.
    private func checked(kind: String, app: SampleApp) throws(JSONError) -> SampleBatch {
        var batch = self
        for index in batch.requests.indices {
            guard !batch.requests[index].id.isEmpty else {
                throw JSONError(
                    kind: .invalidValue, message: "id is missing", byteOffset: 0, pointer: "/requests/\(index)/id")
            }
            if batch.requests[index].kind.isEmpty { batch.requests[index].kind = kind }
            guard !batch.requests[index].kind.isEmpty else {
                throw JSONError(
                    kind: .invalidValue, message: "kind is missing", byteOffset: 0, pointer: "/requests/\(index)/kind")
            }
            let kindHash = SeededGenerator.hash("\(app.rawValue)/\(batch.requests[index].kind)".utf8)
            batch.requests[index].identity = SeededGenerator.mix(batch.requests[index].identity &+ kindHash)
        }
        return batch
    }

    /// The content of each request's kind; nil when the app does not have one of the kinds.
    func contents(of app: SampleApp) -> [any SampleContent.Type]? {
        let contents = requests.compactMap { app.content(of: $0.kind) }
        return contents.count == requests.count ? contents : nil
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

/// A request for the options of a parameter, or for the defaults of a kind.
struct SampleQuestion: Sendable {
    let kind: String
    let parameter: String?
    let search: String?

    init(_ bytes: [UInt8]) throws(JSONError) {
        let body = try JSONValue.parse(bytes)
        kind = body["kind"]?.stringValue ?? ""
        parameter = body["parameter"]?.stringValue
        search = body["search"]?.stringValue
    }
}

extension JSONReader {
    /// A string, or nil for `null`.
    fileprivate mutating func optionalString() throws(JSONError) -> String? {
        try takeNull() ? nil : try string()
    }
}

/// Checks that a request was signed with the secret by Standard Webhooks, scheme `v1` (HMAC-SHA256 over
/// `id.timestamp.body`).
struct WebhookVerifier: Sendable {
    /// Reason why a request is not trusted.
    enum Refusal: String, Error, Sendable {
        case missingHeader = "webhook-id, webhook-timestamp or webhook-signature is missing"
        case invalidTimestamp = "webhook-timestamp is not a number of seconds"
        case outdated = "webhook-timestamp is more than five minutes off"
        case wrongSignature = "no signature matches"
    }

    /// Largest difference of the clocks, and the time for which a request can be replayed.
    static let tolerance = Duration.seconds(300)

    private let key: SymmetricKey

    /// - Parameter key: the bytes of the secret.
    init(key: [UInt8]) {
        self.key = SymmetricKey(data: key)
    }

    /// Throws unless one of the signatures is right and the time is near `now`.
    ///
    /// - Parameter signature: `v1,BASE64` once or more, separated by spaces: several while a secret is being replaced.
    func verify(
        id: String?, timestamp: String?, signature: String?, body: [UInt8], now: Timestamp
    ) throws(Refusal) {
        guard let id, let timestamp, let signature else { throw .missingHeader }
        guard let seconds = Int64(timestamp), (0...253_402_300_799).contains(seconds) else { throw .invalidTimestamp }
        let distance = Timestamp(microseconds: seconds * 1_000_000) - now
        guard distance <= Self.tolerance, distance >= .zero - Self.tolerance else { throw .outdated }
        var content = Data("\(id).\(timestamp).".utf8)
        content.append(contentsOf: body)
        for part in signature.split(separator: " ") where part.hasPrefix("v1,") {
            guard let code = Data(base64Encoded: String(part.dropFirst(3))) else { continue }
            // Compares in constant time.
            if HMAC<SHA256>.isValidAuthenticationCode(code, authenticating: content, using: key) { return }
        }
        throw .wrongSignature
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
