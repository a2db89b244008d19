#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

/// Base64 with padding (RFC 4648, section 4).
enum Base64 {
    /// Decodes a text; nil unless it is the only spelling of its bytes.
    static func decode(_ text: ArraySlice<UInt8>) -> [UInt8]? {
        guard let data = Data(base64Encoded: Data(text)), data.base64EncodedData() == Data(text) else { return nil }
        return Array(data)
    }
}
