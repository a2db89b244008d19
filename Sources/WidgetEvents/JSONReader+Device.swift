internal import WidgetModel

/// The parts of events about devices.
extension JSONReader {
    /// `{"apns": {"token", "environment", "topic"}}` or `{"webhook": true}`; exactly one of them.
    mutating func deliveryChannel() throws(JSONError) -> DeliveryChannel {
        var channel: DeliveryChannel?
        var count = 0
        var object = try beginObject()
        while let key = try nextKey(&object) {
            if matches(key, "apns") {
                channel = .apns(try apnsAddress())
            } else if matches(key, "webhook") {
                _ = try peek()
                let offset = position
                guard try bool() else { throw failure(.invalidValue, "expected true, found false", at: offset) }
                channel = .webhook
            } else {
                try skip()
                continue
            }
            count += 1
        }
        guard count == 1, let channel else {
            throw failure(.invalidValue, "expected exactly one of apns, webhook, found \(count)", at: object.start)
        }
        return channel
    }

    private mutating func apnsAddress() throws(JSONError) -> APNsAddress {
        var token: [UInt8]?
        var environment = APNsAddress.Environment.production
        var topic: String?
        var object = try beginObject()
        while let key = try nextKey(&object) {
            switch text(of: key) {
            case "token": token = try apnsToken()
            case "environment":
                if try !takeNull() {
                    environment = try string("production or sandbox") {
                        APNsAddress.Environment(rawValue: String(decoding: $0, as: UTF8.self))
                    }
                }
            case "topic":
                _ = try peek()
                let offset = position
                let text = try string()
                if let problem = APNsAddress.problem(ofTopic: text) {
                    throw failure(.invalidValue, problem, at: offset)
                }
                topic = text
            default: try skip()
            }
        }
        return APNsAddress(
            token: try require(token, "token", of: object), environment: environment,
            topic: try require(topic, "topic", of: object))
    }

    /// A token in hexadecimal digits. Errors do not repeat it.
    private mutating func apnsToken() throws(JSONError) -> [UInt8] {
        _ = try peek()
        let offset = position
        let text = try string()
        guard let token = Hex.bytes(text), (8...APNsAddress.maximumTokenBytes).contains(token.count) else {
            throw failure(
                .invalidValue, "expected 16 to \(2 * APNsAddress.maximumTokenBytes) hexadecimal digits", at: offset)
        }
        return token
    }
}

extension DeliveryChannel {
    /// As an event says it.
    var json: JSONValue {
        switch self {
        case .webhook: ["webhook": true]
        case .apns(let address):
            [
                "apns": [
                    "token": .string(Hex.text(address.token)), "environment": .string(address.environment.rawValue),
                    "topic": .string(address.topic),
                ]
            ]
        }
    }
}
