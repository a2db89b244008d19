// SPDX-License-Identifier: Apache-2.0

package import JSON
package import WidgetModel
import WidgetStore

/// Settings of the console, and what it is given by the process that serves it.
package struct ConsoleConfiguration: Sendable {
    package let key: ConsoleKey
    /// Longest time of a session; the token's own end comes first.
    package var sessionTime = Duration.seconds(8 * 3_600)
    /// Port of its own; nil: the API's. 0 lets the system choose.
    package var port: Int?
    /// Called with the console's own port once it listens.
    package var onListening: @Sendable (Int) -> Void = { _ in }
    /// The process among those that report their readiness; nil: it does not report.
    package var process: UInt128?
    /// URL of the runbook, whose headings are the alerts; nil: alerts have no links.
    package var runbook: String?
    /// Samples of the process's metrics.
    package var history = MetricHistory()
    /// Findings of `freshet doctor` that concern an app, as JSON.
    package var findings: @Sendable (_ app: String) async -> [JSONValue] = { _ in [] }
    /// Reads the app definitions of a manifest's text; its error describes all errors in it, one a line.
    package var readManifest: @Sendable (String) throws -> [AppDefinition] = { _ in [] }
    /// Limits and latest requests of an app's providers in this process, by URL; nil in a process without workers.
    package var providerHealth: @Sendable (_ app: String) -> [String: JSONValue]? = { _ in nil }
    /// Links that sign in without a token; nil: there are none.
    package var links: ConsoleSignInLinks?

    package init(key: ConsoleKey) {
        self.key = key
    }
}

/// Alerts, which are headings of the runbook.
enum ConsoleAlert: String, CaseIterable {
    case down, ingestLagging, ingestHalted, ingestBlocked, partitionStands, eventsLost, timelinesOverdue
    case auditAppointed, timelinesStale, deadLetters, kindUnreadable, timelinesUnreadable, appDiverted, eventsDropped
    case deadLetterQuota, breakerOpen, providerErrors, oldTransaction, deadTuples, poolWaits, outputFailing
    case metricsStale, deliveryLate, deliveryStalled, pushesRefused, webhookFails, webhookDisabled

    var name: String { "Freshet\(rawValue.prefix(1).uppercased())\(rawValue.dropFirst())" }

    /// State of the widgets that it is about; nil if no state tells them.
    var state: WidgetState? {
        switch self {
        case .timelinesOverdue: .overdue
        case .timelinesStale: .stale
        case .breakerOpen, .providerErrors: .failing
        default: nil
        }
    }

    /// Address of the alert's entry.
    ///
    /// - Parameter runbook: URL of the runbook.
    func link(_ runbook: String) -> String { "\(runbook)#\(name.lowercased())" }
}
