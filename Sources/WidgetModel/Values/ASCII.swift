extension UInt8 {
    var isASCIIDigit: Bool { (48...57).contains(self) }

    /// Whether the byte is a lowercase or uppercase letter.
    var isASCIILetter: Bool { (97...122).contains(self | 0x20) }

    var isASCIIAlphanumeric: Bool { isASCIILetter || isASCIIDigit }
}
