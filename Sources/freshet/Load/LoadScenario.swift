import ServiceLifecycle
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

/// A load scenario in this process: what runs meanwhile, and what it does.
protocol LoadScenario: Sendable {
    /// In the order in which they start.
    var services: [any Service] { get }
    /// Before the services start.
    func prepare() async throws
    /// While they run.
    func run() async throws -> any LoadReport
}
