/// Unguessable identifiers.
package enum RandomID {
    /// 128 random bits in hexadecimal.
    package static func make() -> String {
        Hex.uuid(high: .random(in: 0...(.max)), low: .random(in: 0...(.max))).filter { $0 != "-" }
    }
}
