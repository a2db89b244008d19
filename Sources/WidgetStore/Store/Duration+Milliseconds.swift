extension Duration {
    /// Whole milliseconds, for intervals in SQL; a value that does not fit is the largest that does.
    package var wholeMilliseconds: Int64 {
        let (seconds, attoseconds) = components
        let (product, overflow) = seconds.multipliedReportingOverflow(by: 1000)
        return overflow ? .max : product + attoseconds / 1_000_000_000_000_000
    }
}
