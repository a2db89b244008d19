internal import WidgetModel

/// The parts of a reload request.
extension JSONReader {
    /// The most kinds that one request may name.
    static let maximumKinds = 1000

    /// `{"user": id}`, `{"device": id}`, `{"widget": id}` or `{"everyone": true}`; exactly one of them.
    mutating func audience() throws(JSONError) -> Audience {
        var audience: Audience?
        var count = 0
        var object = try beginObject()
        while let key = try nextKey(&object) {
            switch text(of: key) {
            case "user": audience = .user(try identifier())
            case "device": audience = .device(try identifier())
            case "widget": audience = .widget(try identifier())
            case "everyone":
                _ = try peek()
                let valueOffset = position
                guard try bool() else { throw failure(.invalidValue, "expected true, found false", at: valueOffset) }
                audience = .everyone
            default:
                try skip()
                continue
            }
            count += 1
        }
        guard count == 1, let audience else {
            throw failure(
                .invalidValue, "expected exactly one of user, device, widget, everyone, found \(count)",
                at: object.start)
        }
        return audience
    }

    /// A list of kind names or `"all"`.
    mutating func kindScope() throws(JSONError) -> KindScope {
        let kind = try peek()
        let offset = position
        switch kind {
        case .string:
            return try string(#"a list of kinds or "all""#) { $0.elementsEqual("all".utf8) ? .all : nil }
        case .array:
            var names: [String] = []
            var array = try beginArray()
            while try nextElement(&array) {
                guard names.count < Self.maximumKinds else {
                    throw failure(.invalidValue, "more than \(Self.maximumKinds) kinds", at: offset)
                }
                names.append(try identifier())
            }
            guard let scope = KindScope(names: names) else {
                throw failure(.invalidValue, "expected at least one kind", at: offset)
            }
            return scope
        case .null, .bool, .number, .object:
            throw wrongType(expected: "an array or a string", found: kind)
        }
    }

    /// `"foreground"` or `"background"`.
    mutating func appState() throws(JSONError) -> ReloadReason {
        try string(#""foreground" or "background""#) {
            $0.elementsEqual("foreground".utf8) ? .foreground : $0.elementsEqual("background".utf8) ? .background : nil
        }
    }
}
