import JSON
internal import WidgetModel

/// Finds the app of a broken event for its dead letter.
enum AppRecovery {
    /// Longest searched prefix of a message.
    private static let searchedBytes = 65_536

    /// The `app` member of the message's object or of its `data`, if it comes before the error.
    static func app(in bytes: [UInt8], value: Range<Int>) -> String? {
        let searched = value.lowerBound..<min(value.upperBound, value.lowerBound + searchedBytes)
        var reader = JSONReader(bytes, in: searched, checksNumbers: false)
        var app: String?
        _ = try? search(&reader, for: &app, isEvent: true)
        return app
    }

    private static func search(
        _ reader: inout JSONReader, for app: inout String?, isEvent: Bool
    ) throws(JSONError) {
        try reader.beginObject()
        while app == nil, let key = try reader.nextKey() {
            switch key {
            case "app": app = try reader.identifier()
            case "data" where isEvent:
                if try reader.peek() == .object {
                    try search(&reader, for: &app, isEvent: false)
                } else {
                    try reader.skip()
                }
            default: try reader.skip()
            }
        }
    }
}
