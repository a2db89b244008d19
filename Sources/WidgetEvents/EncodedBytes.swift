// SPDX-License-Identifier: Apache-2.0

import JSON
import WidgetModel

/// Parts of encoded events.
extension [UInt8] {
    /// Appends the lengths of a header's name and value, which come before them.
    mutating func appendLengths(name: Int, value: Int) {
        append(addingCapacity: 8) { bytes in
            for length in [UInt32(name), UInt32(value)] {
                for shift in stride(from: UInt32(0), to: 32, by: 8) {
                    bytes.append(UInt8(truncatingIfNeeded: length >> shift))
                }
            }
        }
    }

    /// Appends a header.
    mutating func append(header name: [UInt8], _ value: ArraySlice<UInt8>) {
        appendLengths(name: name.count, value: value.count)
        append(contentsOf: name)
        append(contentsOf: value)
    }

    /// Appends a header.
    mutating func append(header name: String, _ value: String) {
        appendLengths(name: name.utf8.count, value: value.utf8.count)
        append(contentsOf: name.utf8)
        append(contentsOf: value.utf8)
    }
}

extension OutputSpan<UInt8> {
    /// Appends a number in decimal digits.
    mutating func append(decimal number: Int64) {
        if number < 0 { append(UInt8(ascii: "-")) }
        let magnitude = number.magnitude
        var unit: UInt64 = 1
        while magnitude / unit >= 10 { unit *= 10 }
        while unit > 0 {
            append(UInt8(ascii: "0") + UInt8(magnitude / unit % 10))
            unit /= 10
        }
    }
}
