extension UInt8 {
    var isASCIIDigit: Bool { (48...57).contains(self) }

    /// Whether it is a letter of either case.
    var isASCIILetter: Bool { (97...122).contains(self | 0x20) }

    var isASCIIAlphanumeric: Bool { isASCIILetter || isASCIIDigit }
}
