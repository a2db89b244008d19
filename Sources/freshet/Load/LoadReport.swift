import WidgetModel

/// What a scenario prints.
protocol LoadReport: Sendable {
    /// What is missing at the end; anything but 0 makes the command fail.
    var lost: Int { get }
    var lines: [String] { get }
    var json: JSONValue { get }
    /// For its page.
    var charts: LoadCharts { get }
}

extension LoadReport {
    var charts: LoadCharts { LoadCharts() }
}
