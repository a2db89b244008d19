/// A provider's error for one element: `{"code", "message", "retryAfter"?}`.
struct ElementError {
    let code: String
    let message: String
    /// At most a day.
    let retryAfter: Duration?

    /// How much of a text is kept, in Unicode scalars.
    private static let keptScalars = 256
    private static let maximumRetryAfter = 86_400.0

    init(from reader: inout JSONReader) throws(JSONError) {
        try reader.expect(.object)
        let offset = reader.position
        var code: String?
        var message: String?
        var retryAfter: Duration?
        var object = try reader.beginObject()
        while let key = try reader.nextKey(&object) {
            if reader.matches(key, "code") {
                code = Text.printable(try reader.string(), maximum: Self.keptScalars)
            } else if reader.matches(key, "message") {
                message = Text.printable(try reader.string(), maximum: Self.keptScalars)
            } else if reader.matches(key, "retryAfter") {
                guard try !reader.takeNull() else { continue }
                _ = try reader.peek()
                let valueOffset = reader.position
                let seconds = try reader.double()
                guard seconds >= 0 else {
                    throw reader.failure(
                        .invalidValue, "expected seconds from 0, found a negative number", at: valueOffset)
                }
                retryAfter = .milliseconds(Int64(min(seconds, Self.maximumRetryAfter) * 1000))
            } else {
                try reader.skip()
            }
        }
        guard let code else { throw reader.missing("code", inObjectAt: offset) }
        guard let message else { throw reader.missing("message", inObjectAt: offset) }
        self.code = code
        self.message = message
        self.retryAfter = retryAfter
    }
}
