internal import WidgetModel

/// Reads an event in structured mode: one JSON object with the attributes and the data.
struct StructuredReader {
    private let topic: EventTopic
    private var reader: JSONReader
    private let bytes: [UInt8]
    private let value: Range<Int>

    private var version: String?
    private var id: String?
    private var source: String?
    private var type: EventType?
    private var time: Timestamp?
    private var traceparent: String?
    private var event: FreshetEvent?
    /// Index of the data if it came before its type.
    private var dataOffset: Int?
    /// The decoded `data_base64`.
    private var decoded: [UInt8]?

    init(bytes: [UInt8], value: Range<Int>, topic: EventTopic) {
        self.bytes = bytes
        self.value = value
        self.topic = topic
        reader = JSONReader(bytes, in: value)
    }

    mutating func read() throws(EventError) -> DecodedEvent {
        do {
            return try readEvent()
        } catch {
            let converted = (error as? JSONError).map { EventError($0) }
            throw error as? EventError ?? converted ?? EventError(code: .malformedJSON, message: "\(error)")
        }
    }

    private mutating func readEvent() throws -> DecodedEvent {
        try reader.expect(.object)
        var object = try reader.beginObject()
        while let key = try reader.nextKey(&object) {
            try readMember(key)
        }
        try reader.finish()

        guard version != nil else { throw Envelope.missing("attribute specversion", pointer: "/specversion") }
        guard let id else { throw Envelope.missing("attribute id", pointer: "/id") }
        guard let source else { throw Envelope.missing("attribute source", pointer: "/source") }
        guard let type else { throw Envelope.missing("attribute type", pointer: "/type") }
        if let dataOffset {
            reader = JSONReader(bytes, in: value, startingAt: dataOffset)
            event = try reader.event(of: type)
        }
        if let decoded {
            guard event == nil else {
                throw EventError(
                    code: .invalidAttribute, message: "expected either data or data_base64, found both",
                    pointer: "/data_base64")
            }
            event = try read(decoded, of: type)
        }
        guard let event else {
            throw EventError(code: .missingData, message: "the event has no data", pointer: "/data")
        }
        let envelope = EventEnvelope(
            id: id, source: source, type: type.rawValue, time: time, traceparent: traceparent)
        return DecodedEvent(envelope: envelope, event: event)
    }

    private mutating func readMember(_ key: JSONStringToken) throws {
        if reader.matches(key, "specversion") {
            version = try version(pointer: "/specversion")
        } else if reader.matches(key, "id") {
            id = try attribute("/id")
        } else if reader.matches(key, "source") {
            source = try attribute("/source")
        } else if reader.matches(key, "type") {
            let token = try stringToken("/type")
            type = try Envelope.type(reader.utf8(of: token), topic: topic, pointer: "/type")
        } else if reader.matches(key, "time") {
            guard try !reader.takeNull() else { return }
            let token = try stringToken("/time")
            time = try Envelope.time(reader.utf8(of: token), "attribute time", pointer: "/time")
        } else if reader.matches(key, "datacontenttype") {
            guard try !reader.takeNull() else { return }
            try checkContentType()
        } else if reader.matches(key, "traceparent") {
            guard try !reader.takeNull() else { return }
            let token = try stringToken("/traceparent")
            traceparent = Envelope.traceparent(reader.utf8(of: token))
        } else if reader.matches(key, "data") {
            try readData()
        } else if reader.matches(key, "data_base64") {
            guard try !reader.takeNull() else { return }
            try readBase64()
        } else {
            try reader.skip()
        }
    }

    private mutating func readData() throws {
        guard try !reader.takeNull() else { return }
        if let type {
            event = try reader.event(of: type)
        } else {
            dataOffset = try reader.skip().lowerBound
        }
    }

    private mutating func readBase64() throws(EventError) {
        let token = try stringToken("/data_base64")
        guard let bytes = Base64.decode(reader.utf8(of: token)) else {
            throw EventError(
                code: .invalidAttribute, message: "attribute data_base64: expected Base64 (RFC 4648)",
                pointer: "/data_base64")
        }
        decoded = bytes
    }

    /// Reads the event from decoded data. Errors point to the member that holds it, and tell the place within.
    private func read(_ decoded: [UInt8], of type: EventType) throws(EventError) -> FreshetEvent {
        var reader = JSONReader(decoded)
        do throws(JSONError) {
            let event = try reader.event(of: type)
            try reader.finish()
            return event
        } catch {
            let error = EventError(error)
            let place = error.pointer.map { $0.isEmpty ? "" : " at \($0)" } ?? ""
            throw EventError(
                code: error.code, message: "in the decoded data\(place): \(error.message)", pointer: "/data_base64",
                app: AppRecovery.app(in: decoded, value: 0..<decoded.count))
        }
    }

    private mutating func version(pointer: String) throws(EventError) -> String {
        let version = try attribute(pointer)
        guard version == "1.0" else {
            throw EventError(
                code: .invalidAttribute,
                message: "attribute specversion: expected \"1.0\", found \(Text.quoted(version))", pointer: pointer)
        }
        return version
    }

    private mutating func checkContentType() throws(EventError) {
        let token = try stringToken("/datacontenttype")
        guard EventContentMode(contentType: reader.utf8(of: token)) == .binary else {
            throw EventError(
                code: .unsupportedContentType,
                message: "expected data in application/json, found \(Text.quoted(reader.text(of: token)))",
                pointer: "/datacontenttype")
        }
    }

    private mutating func attribute(_ pointer: String) throws(EventError) -> String {
        let token = try stringToken(pointer)
        let text = reader.text(of: token)
        if let problem = Envelope.problem(of: text) {
            throw EventError(
                code: .invalidAttribute, message: "attribute \(pointer.dropFirst()): \(problem)", pointer: pointer)
        }
        return text
    }

    private mutating func stringToken(_ pointer: String) throws(EventError) -> JSONStringToken {
        do throws(JSONError) {
            return try reader.stringToken()
        } catch {
            guard error.kind == .wrongType else { throw EventError(error) }
            throw EventError(
                code: .invalidAttribute, message: "attribute \(pointer.dropFirst()): \(error.message)",
                pointer: pointer)
        }
    }
}
