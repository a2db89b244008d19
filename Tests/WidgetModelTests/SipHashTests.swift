// SPDX-License-Identifier: Apache-2.0

import TestSupport
import Testing

@testable import WidgetModel

@Suite(.timeLimit(.patience))
struct SipHashTests {
    /// The first vectors of the reference implementation (`vectors_sip128`): the bytes 0, 1, 2 … with the key 0, 1 …
    /// 15; the last ones computed independently of this code.
    @Test(
        "Hashes are those of the reference implementation",
        arguments: [
            (0, "a3817f04ba25a8e66df67214c7550293"),
            (1, "da87c1d86b99af44347659119b22fc45"),
            (2, "8177228da4a45dc7fca38bdef60affe4"),
            (7, "a1f1ebbed8dbc153c0b84aa61ff08239"),
            (8, "3b62a9ba6258f5610f83e264f31497b4"),
            (9, "264499060ad9baabc47f8b02bb6d71ed"),
            (63, "5150d1772f50834a503e069a973fbd7c"),
            (300, "ce005a406d14b36d5386b5f7a7e1b311"),
        ])
    func vectors(count: Int, expected: String) {
        var hash = SipHash(key: (0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908))
        hash.combine((0..<count).map { UInt8(truncatingIfNeeded: $0) }[...])
        let (first, last) = hash.finalize()
        #expect(String(uuid: first.byteSwapped, last.byteSwapped).filter { $0 != "-" } == expected)
    }

    @Test("Pieces hash like the whole, wherever they are cut")
    func pieces() {
        let bytes = (0..<40).map { UInt8($0) }
        var whole = SipHash()
        whole.combine(bytes[...])
        let expected = whole.finalize()
        for first in 0...40 {
            for second in first...40 {
                var hash = SipHash()
                hash.combine(bytes[..<first])
                hash.combine(bytes[first..<second])
                hash.combine(bytes[second...])
                #expect(hash.finalize() == expected, "\(first), \(second)")
            }
        }
    }
}
