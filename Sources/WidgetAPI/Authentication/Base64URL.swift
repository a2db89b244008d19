import Foundation

/// Base64 with the URL alphabet and without padding (RFC 4648, section 5).
package enum Base64URL {
    package static func encode(_ bytes: some Sequence<UInt8>) -> String {
        var text = Data(bytes).base64EncodedString()
        text.replace("+", with: "-")
        text.replace("/", with: "_")
        return String(text.prefix { $0 != "=" })
    }

    /// Decodes what ``encode(_:)`` writes; nil for any other spelling of the same bytes.
    package static func decode(_ text: some StringProtocol) -> [UInt8]? {
        let base64 = String(text).replacing("-", with: "+").replacing("_", with: "/")
        let padding = String(repeating: "=", count: (4 - base64.utf8.count % 4) % 4)
        guard let data = Data(base64Encoded: base64 + padding), encode(data) == text else { return nil }
        return Array(data)
    }
}
